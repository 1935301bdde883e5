"""The decomposition of the squared loss: naive formulas, bins, and parts that add up."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_cases import CORRECTIONS, EXACT, STRATEGIES, case, edges_of
from oracles import naive_bin_loss, naive_decomposition

from sklearn_lhcal import metrics
from sklearn_lhcal.label_histogram import KnownProbabilities

EPS = np.finfo(np.float64).eps


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("K", [2, 4])
def test_decomposition_against_the_naive_formulas(strategy, correction, weighted, K):
    options = STRATEGIES[strategy]
    counts, z, w = case(K, K=K)
    w = w + 0.5 if weighted else np.ones(len(z))
    used = counts.sum(axis=1) >= (1 if correction is None else 2)
    parts = metrics.loss_decomposition(
        counts, z, bias_correction=correction, sample_weight=w if weighted else None, **options
    )
    L, EL, IL, CL = naive_decomposition(counts, z, w, edges_of(z[used], options), correction)
    B = EL.shape[1]
    close = partial(np.testing.assert_allclose, rtol=1e-11, atol=1e-14)
    close(parts.class_expected_squared_loss, L)
    close(parts.class_irreducible_loss, IL)
    close(parts.bin_epistemic_loss[:, :B], EL)
    close(parts.bin_calibration_loss[:, :B], CL)
    close(parts.bin_dispersion_loss[:, :B], EL - CL)
    assert parts.n_rows == used.sum()


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(2, 5),
    st.integers(1, 30),
    st.sampled_from(CORRECTIONS),
    st.sampled_from(list(STRATEGIES)),
    st.booleans(),
)
def test_the_parts_add_up(seed, K, n, correction, strategy, weighted):
    """L = EL + IL and EL = CL + DL, exactly, in total, per class and per bin.

    On one row set with mixed n_i.
    """
    counts, z, w = case(seed, n=n, K=K)
    counts[0, 0] += 2
    w = w * 0.3 if weighted else None
    p = metrics.loss_decomposition(
        counts, z, bias_correction=correction, sample_weight=w, **STRATEGIES[strategy]
    )
    close = partial(np.testing.assert_allclose, rtol=1e-11, atol=1e-13)
    close(p.expected_squared_loss, p.epistemic_loss + p.irreducible_loss)
    close(p.epistemic_loss, p.calibration_loss + p.dispersion_loss)
    close(p.class_expected_squared_loss, p.class_epistemic_loss + p.class_irreducible_loss)
    close(p.class_epistemic_loss, p.class_calibration_loss + p.class_dispersion_loss)
    close(p.bin_epistemic_loss, p.bin_calibration_loss + p.bin_dispersion_loss)
    for part in ("epistemic_loss", "calibration_loss", "dispersion_loss"):
        close(getattr(p, f"bin_{part}").sum(axis=1), getattr(p, f"class_{part}"))
    for part in (
        "expected_squared_loss",
        "irreducible_loss",
        "epistemic_loss",
        "calibration_loss",
        "dispersion_loss",
    ):
        close(getattr(p, f"class_{part}").sum(), getattr(p, part))
    close(p.bin_weight.sum(axis=1), 1)
    if correction is None:
        assert (p.bin_dispersion_loss > -1e-13).all()


@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("weighted", [False, True])
def test_decomposition_holds_the_metrics_of_its_rows(correction, weighted):
    counts, z, w = case(n=200)
    w = w / 7 if weighted else np.ones(len(z))
    kept = counts.sum(axis=1) >= (1 if correction is None else 2)
    assert not kept.all() or correction is None
    p = metrics.loss_decomposition(counts, z, bias_correction=correction, sample_weight=w)
    own = {"sample_weight": w[kept]}
    corrected = {"bias_correction": correction, **own}
    y, q = counts[kept], z[kept]
    assert p.expected_squared_loss == pytest.approx(
        metrics.expected_squared_loss(y, q, **own), **EXACT
    )
    assert p.epistemic_loss == pytest.approx(metrics.epistemic_loss(y, q, **corrected), **EXACT)
    assert p.irreducible_loss == pytest.approx(metrics.irreducible_loss(y, q, **corrected), **EXACT)
    assert p.calibration_loss == pytest.approx(metrics.calibration_loss(y, q, **corrected), **EXACT)
    assert p.dispersion_loss == metrics.dispersion_loss(
        counts, z, bias_correction=correction, sample_weight=w
    )


def test_calibration_loss_alone_uses_rows_with_one_rater():
    counts, z, w = case(n=100)
    loss, mu = 0.0, counts / counts.sum(axis=1, keepdims=True)
    for k, b in product(range(3), range(15)):
        i = np.minimum((z[:, k] * 15).astype(int), 14) == b
        if i.any():
            loss += naive_bin_loss(mu[i, k], z[i, k], w[i].astype(float), w.sum(), "residual")
    assert metrics.calibration_loss(counts, z, sample_weight=w) == pytest.approx(loss, **EXACT)
    assert metrics.loss_decomposition(counts, z, sample_weight=w).calibration_loss != pytest.approx(
        loss, rel=1e-6
    )


def test_uniform_bins_follow_the_floor_of_z_times_n_bins():
    """A value at an inner edge belongs to the bin above, 1 to the last bin."""
    z = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    parts = metrics.loss_decomposition(np.full((6, 2), 2), np.column_stack([z, 1 - z]), n_bins=5)
    np.testing.assert_allclose(parts.bin_weight[0], np.array([1, 1, 1, 1, 2]) / 6)
    np.testing.assert_allclose(parts.bin_edges, np.tile(np.linspace(0, 1, 6), (2, 1)))
    np.testing.assert_allclose(parts.bin_mean_proba[0], [0, 0.2, 0.4, 0.6, 0.9])
    np.testing.assert_allclose(parts.bin_mean_frequency[0], 0.5)


def test_empty_bins_have_no_means_and_no_loss():
    parts = metrics.loss_decomposition([[1, 1], [1, 1]], [[0.5, 0.5]] * 2, n_bins=3)
    np.testing.assert_array_equal(np.isnan(parts.bin_mean_proba), [[True, False, True]] * 2)
    np.testing.assert_array_equal(np.isnan(parts.bin_mean_frequency), [[True, False, True]] * 2)
    np.testing.assert_array_equal(parts.bin_calibration_loss[:, [0, 2]], 0)


def test_equal_quantile_edges_are_merged():
    z = np.array([0.1] * 8 + [0.5, 0.9])
    counts = np.array([[2, 2]] * 10)
    parts = metrics.loss_decomposition(
        counts, np.column_stack([z, 1 - z]), n_bins=5, strategy="quantile"
    )
    edges = np.unique(np.quantile(z, np.linspace(0, 1, 6)))
    assert len(edges) < 6
    np.testing.assert_allclose(parts.bin_edges[0][: len(edges)], edges)
    assert np.isnan(parts.bin_edges[0][len(edges) :]).all()
    assert (parts.bin_weight[0][: len(edges) - 1] > 0).all()


def test_constant_predictions_fall_into_one_quantile_bin():
    counts, _, _ = case(n=20)
    z = np.tile([0.5, 0.3, 0.2], (20, 1))
    for correction in CORRECTIONS:
        quantile = metrics.calibration_loss(
            counts, z, strategy="quantile", bias_correction=correction
        )
        one = metrics.calibration_loss(counts, z, n_bins=1, bias_correction=correction)
        assert quantile == pytest.approx(one, **EXACT)


def test_a_single_bin_by_quantiles_holds_all_values():
    z = np.array([0.2, 0.7, 0.7, 0.7, 0.7, 0.7])
    parts = metrics.loss_decomposition(
        [[2, 2]] * 6, np.stack([z, 1 - z], axis=1), n_bins=2, strategy="quantile"
    )
    np.testing.assert_allclose(parts.bin_edges, [[0.2, 0.7], [0.3, 0.8]])


def test_values_outside_the_given_edges_belong_to_the_outer_bins():
    counts, z, _ = case()
    inner = metrics.calibration_loss(counts, z, n_bins=[0.2, 0.5, 0.7])
    assert inner == pytest.approx(metrics.calibration_loss(counts, z, n_bins=[0, 0.5, 1]), **EXACT)


@pytest.mark.parametrize("correction", ["residual", "label"])
def test_a_bin_with_one_row_contributes_nothing_and_breaks_nothing(correction):
    """Published code: the bias of such a bin is NaN and skipped, so that EL ≠ CL + DL."""
    z = np.array([[0.1, 0.9], [0.12, 0.88], [0.55, 0.45]])
    counts = [[2, 1], [0, 3], [1, 1]]
    p = metrics.loss_decomposition(counts, z, n_bins=2, bias_correction=correction)
    assert p.bin_calibration_loss[0, 1] == 0
    assert p.bin_calibration_loss[0, 0] != 0
    assert p.bin_epistemic_loss[0, 1] == p.bin_dispersion_loss[0, 1] != 0
    assert p.epistemic_loss == pytest.approx(p.calibration_loss + p.dispersion_loss, **EXACT)


def test_blocks_do_not_show():
    """More rows than a block holds: sums equal those of the plain formula."""
    rng = np.random.default_rng(0)
    z = rng.dirichlet(np.ones(3), 20_001)
    counts = rng.integers(0, 3, (20_001, 3)) + 2 * np.eye(3, dtype=int)[0]
    w = rng.random(20_001)
    L, EL, IL, CL = naive_decomposition(counts, z, w, [np.linspace(0, 1, 16)] * 3, None)
    p = metrics.loss_decomposition(counts, z, sample_weight=w, bias_correction=None)
    for value, expected in zip(p[:4], (L, EL, IL, CL), strict=True):
        assert value == pytest.approx(expected.sum(), rel=1e-11)
    assert metrics.expected_squared_loss(counts, z, sample_weight=w) == pytest.approx(
        L.sum(), rel=1e-11
    )


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_a_bin_with_nearly_all_weight_on_one_row(correction):
    """The formula as long as it can be computed.

    Then the bin counts as one with one row, never inf or NaN.
    """
    counts, z, _ = case(n=5)
    mu = counts / counts.sum(axis=1, keepdims=True)
    for tiny in (1e-3, 1e-5):
        w = np.array([1.0, tiny, tiny, tiny, 2 * tiny])
        naive = sum(naive_bin_loss(mu[:, k], z[:, k], w, w.sum(), correction) for k in range(3))
        loss = metrics.calibration_loss(
            counts, z, n_bins=1, sample_weight=w, bias_correction=correction
        )
        assert loss == pytest.approx(naive, rel=1e-6)
    plugin = ((mu - z)[0] ** 2).sum()
    for tiny in (1e-14, 1e-20, 1e-160, 1e-300):
        w = np.array([1.0, tiny, tiny, tiny, tiny])
        loss = metrics.calibration_loss(
            counts, z, n_bins=1, sample_weight=w, bias_correction=correction
        )
        assert loss == pytest.approx(plugin if correction is None else 0, rel=1e-12)
        many = metrics.calibration_loss(
            counts, z, n_bins=50, sample_weight=w, bias_correction=correction
        )
        assert many == pytest.approx(plugin if correction is None else 0, rel=1e-12)


def test_refinement_is_what_calibration_leaves():
    counts, z, _ = case(n=100)
    parts = metrics.loss_decomposition(counts, z)
    rest = parts.dispersion_loss + parts.irreducible_loss
    assert parts.refinement_loss == pytest.approx(rest, **EXACT)


@pytest.mark.parametrize("weighted", [False, True])
def test_log_loss_is_calibration_and_refinement(weighted):
    """P1 eq. (5) with d_log, where all samples of a bin are predicted alike: RL is an entropy."""
    rng = np.random.default_rng(0)
    kinds = np.array([[0.1, 0.2, 0.7], [0.25, 0.45, 0.3], [0.55, 0.3, 0.15], [0.8, 0.05, 0.15]])
    kind = rng.integers(0, 4, 300)
    z = kinds[kind]
    y = np.eye(3, dtype=int)[(rng.random((300, 1)) > np.cumsum(kinds[::-1][kind], axis=1)).sum(1)]
    w = rng.integers(1, 4, 300) if weighted else np.ones(300)
    options = {"bias_correction": None, "loss": "log", "sample_weight": w}
    # class by class, so edges that part all kinds whose class has another probability
    found = metrics.calibration_loss(y, z, n_bins=np.linspace(0, 1, 21), **options)
    share = np.bincount(kind, w) / w.sum()
    c = np.stack([np.bincount(kind, w * y[:, k]) / np.bincount(kind, w) for k in range(3)], axis=1)
    # two kinds share a bin of the last class
    c[2:, 2] = (share[2:] * c[2:, 2]).sum() / share[2:].sum()
    c_log_c = (share[:, None] * c * np.log(c)).sum()
    loss = metrics.label_log_loss(y, z, sample_weight=w)
    assert found == pytest.approx(loss + c_log_c, **EXACT)


def test_binned_log_loss_is_below_the_epistemic_one():
    """Divergences are convex: means of bins are nearer to each other than rows are (Jensen)."""
    Q = np.random.default_rng(0).dirichlet([2, 2, 2], 400)
    z = np.random.default_rng(1).dirichlet([2, 2, 2], 400)
    whole = (Q * np.log(Q / z)).sum(axis=1).mean()
    losses = [
        metrics.calibration_loss(
            KnownProbabilities(Q), z, n_bins=b, bias_correction=None, loss="log"
        )
        for b in (1, 5, 25, 10_000)
    ]
    assert 0 <= losses[0] < losses[1] < losses[2] < losses[3] <= whole
    # bins so fine that nearly each row has its own
    assert losses[3] == pytest.approx(whole, rel=0.1)


def test_binned_log_loss_of_impossible_classes_is_finite():
    found = metrics.calibration_loss([0, 1], [[1.0, 0.0]] * 2, bias_correction=None, loss="log")
    assert found == pytest.approx(0.5 * np.log(0.5) + 0.5 * np.log(0.5 / EPS), rel=1e-9)


@pytest.mark.parametrize("options", [{}, {"bias_correction": None, "p": 1}])
def test_the_log_loss_has_no_correction(options):
    with pytest.raises(ValueError, match='"log" with bias_correction=None and p=2'):
        metrics.calibration_loss([0, 1], [0.2, 0.7], loss="log", **options)
    with pytest.raises(ValueError, match='loss must be "squared"'):
        metrics.calibration_loss([0, 1], [0.2, 0.7], loss="hinge", bias_correction=None)
