"""Predictions that tie: in tenths, as votes of a forest are, or rounded in a file.

Classes have no order. What rounding alone tells apart counts as alike.
"""

import numpy as np
import pytest
import torch

from sklearn_lhcal.metrics import (
    bayes_decision,
    binned_canonical_error,
    calibration_loss,
    class_disagreement_calibration_error,
    disagreement_calibration_loss,
    expected_calibration_error,
    kernel_calibration_error,
    maximum_calibration_error,
    null_calibration_error,
    ratio_corrected_calibration_error,
)
from sklearn_lhcal.neural_network import KernelCalibrationPenalty, MMCEPenalty


def tenths(K, n=40, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.multinomial(10, np.ones(K) / K, n) / 10
    return rng.multinomial(5, np.ones(K) / K, n), z / z.sum(axis=1, keepdims=True), rng


BINNED = (
    calibration_loss,
    disagreement_calibration_loss,
    class_disagreement_calibration_error,
    expected_calibration_error,
)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("metric", BINNED)
def test_binned_metrics_do_not_depend_on_the_order_of_the_classes(metric, strategy):
    # φ̂ = 1 − Σz² differs in its last digit by the order of its terms
    for seed in range(10):
        y, z, rng = tenths(5, seed=seed)
        other = rng.permutation(5)
        was = metric(y, z, strategy=strategy, n_bins=10)
        assert metric(y[:, other], z[:, other], strategy=strategy, n_bins=10) == pytest.approx(
            was, abs=1e-12
        )


TOP = {
    "residual": kernel_calibration_error,
    "ratio": ratio_corrected_calibration_error,
    "null": lambda y, z, **kw: null_calibration_error(y, z, n_draws=1, **kw).estimate,
    "groups": lambda y, z, **kw: kernel_calibration_error(y, z, groups=np.arange(len(y)), **kw),
}


@pytest.mark.parametrize("name", TOP)
def test_classes_that_tie_for_the_top_label_share_its_frequency(name):
    y, z, rng = tenths(4)
    other = rng.permutation(4)
    options = {"kind": "top_label", "bandwidth": 0.1}
    was = TOP[name](y, z, **options)
    assert TOP[name](y[:, other], z[:, other], **options) == pytest.approx(was, abs=1e-12)
    # the binary problem: the largest probability, and the mean frequency of who has it
    best = z == z.max(axis=1, keepdims=True)
    c = (y * best).sum(axis=1) / best.sum(axis=1)
    top = np.column_stack([5 * np.ones(len(y)) - c, c]) * 12
    alone = TOP[name](np.rint(top).astype(int), z.max(axis=1), **options | {"kind": "marginal"})
    assert was == pytest.approx(alone / 2, abs=1e-9)


@pytest.mark.parametrize(
    "penalty", [KernelCalibrationPenalty(kind="top_label"), MMCEPenalty()], ids=["kernel", "mmce"]
)
def test_classes_that_tie_for_the_top_label_share_it_in_training(penalty):
    y, z, rng = tenths(4)
    other = rng.permutation(4)
    u, y = torch.tensor(z + 0.01).log(), torch.tensor(y)
    was = penalty(u, y).item()
    assert penalty(u[:, other], y[:, other]).item() == pytest.approx(was, abs=1e-9)


@pytest.mark.parametrize("n_bins", [15, 29, 49, 50, 98, 100])
@pytest.mark.parametrize("given", [True, False])
def test_a_value_at_an_edge_belongs_to_the_bin_above(n_bins, given):
    # .29·100 and .58·50 are below 29 in floating point, and 7·.1 is above .7
    edges = np.arange(n_bins + 1) / n_bins
    middles = edges[:-1] + 0.5 / n_bins
    bins = np.linspace(0, 1, n_bins + 1) if given else n_bins
    for k in range(1, n_bins):
        # two rows at the edge, and one in each bin beside it, of opposite errors
        z = np.array([edges[k], middles[k], middles[k - 1]])
        y = np.array([1, 0, 0])
        parts = (abs(1 - z[0] - z[1]) + z[2]) / 3
        found = expected_calibration_error(y, z, kind=1, n_bins=bins)
        assert found == pytest.approx(parts, abs=1e-12)


@pytest.mark.parametrize("n_bins", [10, 15, 20, np.linspace(0, 1, 11)], ids=str)
@pytest.mark.parametrize("metric", [*BINNED, maximum_calibration_error, binned_canonical_error])
def test_float32_and_one_column_share_the_bins_of_float64(metric, n_bins):
    # float32 has .7 below .7, and 1 − .8 below .2
    if metric is binned_canonical_error and np.ndim(n_bins):
        n_bins = 5
    p = np.repeat(np.arange(21) / 20, 8)
    y = np.random.default_rng(0).binomial(3, p)
    y = np.column_stack([3 - y, y])
    expected = metric(y, np.column_stack([1 - p, p]), n_bins=n_bins)
    single = p.astype(np.float32)
    for z in (p, single, np.column_stack([1 - single, single])):
        assert metric(y, z, n_bins=n_bins) == pytest.approx(expected, abs=2e-6)


def test_fine_edges_hold_apart_what_float64_does():
    # edges 1e-7 apart near 1, a row beside each
    edges = 1 - np.array([1, 3e-7, 2e-7, 1e-7, 0])
    z = 1 - np.array([2.1e-7, 1.1e-7])
    found = expected_calibration_error([0, 1], z, kind=1, n_bins=edges)
    assert found == pytest.approx((z[0] + 1 - z[1]) / 2, abs=1e-12)


def test_cells_of_the_simplex_have_the_same_edges():
    z = np.array([[0.29, 0.355, 0.355], [0.293, 0.3535, 0.3535]])
    mu = np.array([[1, 0, 0], [0, 1, 0]])
    expected = np.abs(mu.mean(axis=0) - z).sum(axis=1).mean()
    assert binned_canonical_error(mu, z, n_bins=100) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("K", [3, 7])
def test_decisions_that_tie_go_to_the_first_column(K):
    for seed in range(20):
        _, z, rng = tenths(K, seed=seed)
        np.testing.assert_array_equal(bayes_decision(z, 1 - np.eye(K)), z.argmax(axis=1))
        C = rng.integers(0, 4, (K, 3)).astype(float)
        other = rng.permutation(K)
        decided = bayes_decision(z, C)
        np.testing.assert_array_equal(bayes_decision(z[:, other], C[other]), decided)
        # exact in whole tenths
        costs = np.rint(10 * z).astype(int) @ C.astype(int)
        np.testing.assert_array_equal(decided, costs.argmin(axis=1))
