"""Designs in which leaving one rater out leaves nothing: refused by the rater's name."""

import numpy as np
import pytest

from sklearn_lhcal.label_histogram import (
    Annotations,
    conger_kappa,
    fleiss_kappa,
    gwet_ac,
    krippendorff_alpha,
)
from sklearn_lhcal.metrics import (
    confidence_interval,
    epistemic_loss,
    expected_accuracy,
    irreducible_loss,
    study_size,
)

N = 60
NAMES = ["Ann", "Bob", "Cem", "Dee", "Eve", "Fay"]
Z = np.full((N, 2), 0.5)


def star(more: int = 0) -> Annotations:
    """Ann reads all, one of the others each row; so many further samples without her."""
    rng = np.random.default_rng(0)
    said = np.full((N, 6), None, dtype=object)
    said[:, 0] = rng.integers(2, size=N)
    said[np.arange(N), 1 + np.arange(N) % 5] = rng.integers(2, size=N)
    said[:more] = [None, 0, 1, None, None, None]
    return Annotations.from_matrix(said, raters=NAMES, classes=[0, 1])


def by_hand(y, prediction):
    return fleiss_kappa(y)


PAIRS = [irreducible_loss, epistemic_loss]
KAPPAS = [fleiss_kappa, conger_kappa, gwet_ac, krippendorff_alpha, by_hand]


# a function that is no metric of the package says so itself
@pytest.mark.filterwarnings("ignore:Agreement is undefined")
@pytest.mark.parametrize("metric", [*PAIRS, *KAPPAS])
@pytest.mark.parametrize("groups", [None, np.arange(N) // 2])
def test_one_who_reads_all_is_named_with_the_remedy(metric, groups):
    with pytest.raises(ValueError, match=r'^Without rater Ann .*raters="fixed"'):
        confidence_interval(metric, star(), Z, groups=groups, random_state=0)
    fixed = confidence_interval(metric, star(), Z, raters="fixed", groups=groups, random_state=0)
    # the estimate of EL is 0, and the truth no less
    assert fixed.low <= fixed.estimate < fixed.high


@pytest.mark.parametrize("metric", [irreducible_loss, fleiss_kappa])
def test_weights_do_not_hide_her(metric):
    w = np.random.default_rng(1).exponential(size=N)
    with pytest.raises(ValueError, match="Without rater Ann"):
        confidence_interval(metric, star(), Z, sample_weight=w, random_state=0)
    # the samples without her count nothing
    w[:3] = 0
    with pytest.raises(ValueError, match="Without rater Ann"):
        confidence_interval(metric, star(3), Z, sample_weight=w, random_state=0)


@pytest.mark.parametrize("metric", [irreducible_loss, epistemic_loss, fleiss_kappa])
def test_hardly_anything_left_is_refused_too(metric):
    with pytest.raises(
        ValueError, match=r"^Without rater Ann only 5.0% of the samples have 2 labels"
    ):
        confidence_interval(metric, star(3), Z, random_state=0)
    # 15 % of the rows have others
    found = confidence_interval(metric, star(9), Z, random_state=0)
    assert np.isfinite(found).all()


def test_what_one_label_allows_is_not_refused():
    z = np.tile([[0.4, 0.6]], (N, 1))
    found = confidence_interval(expected_accuracy, star(), z, random_state=0)
    assert found.low < found.estimate < found.high


def test_a_pilot_is_refused_too():
    with pytest.raises(ValueError, match="Without rater Ann"):
        study_size(fleiss_kappa, star(), Z, half_width=0.1)
