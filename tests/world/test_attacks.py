"""Values that nobody means, and a few that somebody does: refused by name, or read as they are."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_lhcal.calibration import (
    AlphaCalibration,
    DecisionCalibration,
    PrecomputedClassifier,
    RiskControlledDecision,
    StackedCalibration,
)
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.gaussian_process import SparseGPClassifier
from sklearn_lhcal.label_histogram import Annotations, krippendorff_alpha
from sklearn_lhcal.metrics import (
    confidence_interval,
    expected_squared_loss,
    risk_bound,
    subgroup_audit,
)
from sklearn_lhcal.model_selection import BallCarvingSplit
from sklearn_lhcal.neural_network import DirectLoss, MarginRescalingLoss

COSTS = 1 - np.eye(3)


@pytest.fixture(scope="module")
def data():
    return make_label_histograms(120, n_classes=3, n_features=4, n_raters=3, random_state=0)


def of_objects(values):
    groups = np.empty(len(values), dtype=object)
    groups[:] = values
    return groups


# --- names of groups ---


@pytest.mark.parametrize("name", [lambda i: frozenset({i}), complex, lambda _: []])
def test_groups_need_an_order(data, name):
    """Sets are compared by inclusion: sorted, equal ones need not meet."""
    groups = of_objects([name(i // 20) for i in range(120)])
    d = data.proba.argmax(axis=1)
    for call in (
        lambda: confidence_interval(
            expected_squared_loss, data.counts, data.proba, groups=groups, random_state=0
        ),
        lambda: risk_bound(data.counts, d, COSTS, groups=groups),
        lambda: subgroup_audit(data.counts, data.proba, groups, random_state=0, min_rows=10),
    ):
        with pytest.raises((ValueError, TypeError), match=r"sorted|names"):
            call()


@pytest.mark.parametrize("name", [lambda i: (i, "a"), lambda i: f"g{i}", lambda i: i / 3])
def test_groups_with_an_order(data, name):
    numbers = np.arange(120) // 20
    options = {"random_state": 0}
    right, found = [
        confidence_interval(expected_squared_loss, data.counts, data.proba, groups=g, **options)
        for g in (numbers, of_objects([name(i) for i in numbers]))
    ]
    assert_allclose(found, right)


# --- sparse matrices ---


def test_entries_in_parts(data):
    """The same balls, and the caller's matrix stays in parts."""
    X = np.round(data.X, 1)
    once = sp.csr_matrix(X)
    twice = sp.csr_matrix(
        (np.repeat(once.data / 2, 2), np.repeat(once.indices, 2), 2 * once.indptr), shape=X.shape
    )
    right, found = [
        next(BallCarvingSplit(random_state=0).split(a, data.counts)) for a in (once, twice)
    ]
    for part, other in zip(found, right, strict=True):
        assert_array_equal(part, other)
    assert twice.nnz == 2 * once.nnz


# --- weights beyond all counts ---


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("scale", [1e30, 1e100, 1e300])
def test_weights_beyond_any_number_of_samples(data, scale):
    """Only their ratios count: no square overflows, and no search starts elsewhere."""
    few = np.random.default_rng(0).permutation(120)[:14]
    z, counts = data.proba[few] + 1e-3, data.counts[few]
    z /= z.sum(axis=1, keepdims=True)
    for unit in (np.ones(14), np.arange(14) + 1.0):
        calls = [
            lambda w: StackedCalibration("proba").fit(z, counts, sample_weight=w).predict_proba(z),
            lambda w: (
                DecisionCalibration("proba", cost_matrix=COSTS)
                .fit(z, counts, sample_weight=w)
                .predict_proba(z)
            ),
        ]
        for name in ("nominal", "linear", "quadratic", "ordinal"):
            calls += [lambda w, n=name: krippendorff_alpha(counts, weights=n, sample_weight=w)]
        for call in calls:
            assert_allclose(call(scale * unit), call(1e9 * unit), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("loss", [DirectLoss, MarginRescalingLoss])
@pytest.mark.parametrize("name", ["beta", "lam"])
def test_bounds_of_costs_that_rounding_would_swallow(loss, name):
    for value in (1e-9, 1e-17, 1e-300):
        with pytest.raises(ValueError, match=f"{name} must be a finite number of at least 1e-8"):
            loss(COSTS, **{name: value})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("beta", [1e-2, 1e-5, 1e-7])
def test_small_beta_is_the_limit_of_equal_chances(dtype, beta):
    """Of β → 0: the mean cost over all decisions, for any λ, in float32 too."""
    logits = torch.tensor([[1.0, 0.0, -1.0]], dtype=dtype)
    value = DirectLoss(COSTS, beta=beta)(logits, torch.tensor([[2, 1, 0]]))
    assert_allclose(value.item(), 2 / 3, atol=0.2 * beta + 1e-6)


# --- positions and other arguments ---


@pytest.mark.parametrize("columns", [[0, 1, 7], [-4, 0], ["a"], [0.5], [None], ["w", "q"]])
@pytest.mark.parametrize("frame", [True, False])
def test_columns_that_are_not_there(data, columns, frame):
    X = pd.DataFrame(data.proba, columns=list("wxy")) if frame else data.proba
    with pytest.raises(ValueError, match=r"^columns .* are not all in"):
        PrecomputedClassifier("proba", columns=columns).fit(X)


@pytest.mark.parametrize("rows", [None, [[0, 1]], np.zeros((2, 2), int)])
def test_samples_are_selected_along_one_axis(data, rows):
    labels = Annotations.from_matrix([["a", "b"], ["a", "a"], ["b", "b"]])
    for call in (labels.take, labels.__getitem__):
        with pytest.raises(IndexError, match="1-D positions or bools"):
            call(rows)
    with pytest.raises(IndexError):
        labels.take([5])


def test_levels_of_names_are_no_names_of_costs(data):
    levels = pd.MultiIndex.from_tuples([("a", 1), ("b", 2), ("c", 3)])
    right = DecisionCalibration("proba", cost_matrix=COSTS).fit(data.proba, data.counts)
    for frame in (pd.DataFrame(COSTS, index=levels), pd.DataFrame(COSTS, columns=levels)):
        found = DecisionCalibration("proba", cost_matrix=frame).fit(data.proba, data.counts)
        assert_array_equal(found.decide(data.proba), right.decide(data.proba))


def test_numbers_of_any_length(data):
    """An int that no float holds is refused; a large one is a float."""
    for large in (10**30, 1e30):
        AlphaCalibration("proba", penalty=large).fit(data.proba, data.counts)
    with pytest.raises(ValueError, match="penalty must be a finite number"):
        AlphaCalibration("proba", penalty=10**400).fit(data.proba, data.counts)
    with pytest.raises(ValueError, match="budget must be a finite number"):
        RiskControlledDecision("proba", cost_matrix=COSTS, budget=10**400).fit(
            data.proba, data.counts
        )


@pytest.mark.parametrize("batch_size", [-1, 50])
def test_batches_of_a_gaussian_process(data, batch_size):
    model = SparseGPClassifier(batch_size=batch_size, random_state=0).fit(data.X, data.counts)
    assert_allclose(model.predict_proba(data.X).sum(axis=1), 1)
    for wrong in (0, -2, 1.5):
        with pytest.raises(ValueError, match="batch_size must be"):
            SparseGPClassifier(batch_size=wrong).fit(data.X, data.counts)
