"""Designs in which leaving one rater out leaves nothing: answered for means, else refused."""

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
    rater_table,
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
@pytest.mark.parametrize("metric", KAPPAS)
@pytest.mark.parametrize("groups", [None, np.arange(N) // 2])
def test_one_who_reads_all_is_named_with_the_remedy(metric, groups):
    with pytest.raises(ValueError, match=r'^Without rater Ann .*raters="fixed"'):
        confidence_interval(metric, star(), Z, groups=groups, random_state=0)
    fixed = confidence_interval(metric, star(), Z, raters="fixed", groups=groups, random_state=0)
    # the estimate of EL is 0, and the truth no less
    assert fixed.low <= fixed.estimate < fixed.high


@pytest.mark.parametrize("metric", PAIRS)
@pytest.mark.parametrize("groups", [None, np.arange(N) // 2])
def test_the_mean_of_pairs_is_answered(metric, groups):
    """By the others, who differ from her and from each other."""
    new, these = (
        confidence_interval(metric, star(), Z, raters=raters, groups=groups, n_blocks=N)
        for raters in ("random", "fixed")
    )
    assert new.estimate == these.estimate
    assert new.high - new.low > 1.5 * (these.high - these.low)
    assert new.n_raters == 6
    # the jackknife over raters needs her
    assert np.isnan(new.components.raters)
    again = confidence_interval(metric, star()[::-1], Z, groups=groups, n_blocks=N)
    np.testing.assert_allclose([*again, again.df], [*new, new.df], rtol=1e-9, atol=1e-12)


def test_three_raters_are_refused():
    y = star()
    with pytest.raises(ValueError, match=r'^Without rater Ann .*raters="fixed"'):
        confidence_interval(irreducible_loss, y.keep(y.rater < 3), None)


def test_weights_do_not_hide_her():
    w = np.random.default_rng(1).exponential(size=N)
    # the samples without her count nothing
    for y, weight in ((star(), w), (star(3), w * (np.arange(N) >= 3))):
        with pytest.raises(ValueError, match="Without rater Ann"):
            confidence_interval(fleiss_kappa, y, Z, sample_weight=weight, random_state=0)
        one, ten = (
            confidence_interval(irreducible_loss, y, Z, sample_weight=f * weight, random_state=0)
            for f in (1, 10)
        )
        assert np.isnan(one.components.raters)
        np.testing.assert_allclose(one, ten, rtol=1e-9)


def test_hardly_anything_left_is_refused_too():
    with pytest.raises(
        ValueError, match=r"^Without rater Ann only 5.0% of the samples have 2 labels"
    ):
        confidence_interval(fleiss_kappa, star(3), Z, random_state=0)
    # 15 % of the rows have others
    found = confidence_interval(fleiss_kappa, star(9), Z, random_state=0)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("metric", PAIRS)
def test_the_interval_of_a_mean_has_no_jump(metric):
    """Where a few samples have others than her, she tells little of the raters' variance."""
    widths = []
    for more in (0, 3, 6, 9):
        found = confidence_interval(metric, star(more), Z, random_state=0)
        widths.append(found.high - found.low)
    assert max(widths) < 1.5 * min(widths)


def test_what_one_label_allows_is_not_refused():
    z = np.tile([[0.4, 0.6]], (N, 1))
    found = confidence_interval(expected_accuracy, star(), z, random_state=0)
    assert found.low < found.estimate < found.high


def test_a_pilot_is_refused_too():
    for metric in (fleiss_kappa, irreducible_loss):
        with pytest.raises(ValueError, match="Without rater Ann"):
            study_size(metric, star(), Z, half_width=0.1, n_raters=[8])


def test_a_test_of_raters_is_refused_too():
    with pytest.raises(ValueError, match="Without rater Ann"):
        rater_table(star())
