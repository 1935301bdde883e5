"""Laws of whatever takes `Annotations` alone: order of rows and raters, names, repeated weights."""

import numpy as np
import pytest

from sklearn_lhcal import label_histogram, metrics
from sklearn_lhcal.label_histogram import Annotations

N, R, K = 24, 4, 3
SAID = np.random.default_rng(0).integers(0, K, (N, R))
PROBA = np.random.default_rng(1).dirichlet([2, 2, 2], N)
NAMES = np.array(["a", "b", "c"])


def _table(y, z):
    found = metrics.rater_table(y, n_blocks=6)
    return found.statistic, found.pvalue


def _against_readers(y, z):
    found = metrics.alternative_annotator_test(y, z, least_rows=2)
    return found.winning_rate, found.advantage


# functions of annotations, some with the prediction of a model: a number or several
FUNCTIONS = {
    **{
        name: lambda y, z, name=name: getattr(label_histogram, name)(y)
        for name in (
            *("conger_kappa", "fleiss_kappa", "gwet_ac", "krippendorff_alpha"),
            "percent_agreement",
        )
    },
    "cohen_kappa": lambda y, z: label_histogram.cohen_kappa(y.keep(y.rater < 2)),
    "irreducible_loss": lambda y, z: metrics.irreducible_loss(y),
    "expected_squared_loss": metrics.expected_squared_loss,
    "calibration_loss": lambda y, z: metrics.calibration_loss(y, z, n_bins=2),
    "rater_table": _table,
    "alternative_annotator_test": _against_readers,
}
# blocks of rows are cut in their order
ORDERED = ("rater_table",)

pytestmark = pytest.mark.filterwarnings("ignore:There are only 4 raters:UserWarning")


def of(said, **names):
    return Annotations.from_matrix(said, **names)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_order_of_rows(name):
    if name in ORDERED:
        pytest.skip("blocks of rows are cut in their order")
    order = np.random.default_rng(2).permutation(N)
    found = FUNCTIONS[name](of(SAID[order]), PROBA[order])
    assert found == pytest.approx(FUNCTIONS[name](of(SAID), PROBA), abs=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_order_and_names_of_raters(name):
    """Who is who counts; what they are called does not."""
    given = of(SAID, raters=["Ann", "Bob", "Cem", "Dee"])
    assert FUNCTIONS[name](given, PROBA) == pytest.approx(FUNCTIONS[name](of(SAID), PROBA))
    if name == "cohen_kappa":
        return
    found = FUNCTIONS[name](of(SAID[:, ::-1]), PROBA)
    assert found == pytest.approx(FUNCTIONS[name](of(SAID), PROBA), abs=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_names_of_classes(name):
    """Names, and numbers from 5 on, instead of 0, 1, 2: they meet sorted, or by name."""
    right = FUNCTIONS[name](of(SAID), PROBA)
    assert FUNCTIONS[name](of(NAMES[SAID]), PROBA) == pytest.approx(right, abs=1e-12)
    assert FUNCTIONS[name](of(SAID + 5), PROBA) == pytest.approx(right, abs=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_order_of_classes(name):
    """Names in another order, of the prediction's columns too."""
    order = [2, 0, 1]
    right = FUNCTIONS[name](of(SAID), PROBA)
    found = FUNCTIONS[name](of(np.argsort(order)[SAID]), PROBA[:, order])
    assert found == pytest.approx(right, abs=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_matrix_and_long_table(name):
    """The same ratings as a table of item, rater and label, in any order of its lines."""
    item, rater = np.indices(SAID.shape).reshape(2, -1)
    shuffled = np.random.default_rng(3).permutation(item.size)
    table = Annotations.from_long(item[shuffled], rater[shuffled], SAID.ravel()[shuffled])
    assert FUNCTIONS[name](table, PROBA) == pytest.approx(FUNCTIONS[name](of(SAID), PROBA))
