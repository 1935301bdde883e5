"""Corrections that hold where rows of a group depend on each other.

Exact enumeration, limits, coverage.

The sums of kernels are private: blocks are made small.
"""

from functools import partial
from itertools import product

import numpy as np
import pytest
from kernel_cases import naive_log_kernels, naive_problems
from numpy.testing import assert_allclose
from oracles import expectation

from sklearn_lhcal import metrics
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.label_histogram import KnownProbabilities, pairwise_disagreement
from sklearn_lhcal.metrics import (
    MetricAccumulator,
    calibration_error,
    calibration_loss,
    confidence_interval,
    dispersion_loss,
    kernel_calibration_error,
    kernel_sharpness,
    loss_decomposition,
    null_calibration_error,
    paired_difference,
    ratio_corrected_calibration_error,
    statistic_calibration_loss,
)

BINNED = {
    name: partial(getattr(metrics, name), n_bins=4)
    for name in [
        "calibration_loss",
        "calibration_error",
        "dispersion_loss",
        "dispersion_error",
        "disagreement_calibration_loss",
        "disagreement_calibration_error",
        "class_disagreement_calibration_error",
    ]
}
KERNEL = {
    "residual": partial(kernel_calibration_error, bandwidth=0.1),
    "second order": partial(
        kernel_calibration_error, bandwidth=0.1, bias_correction="second_order"
    ),
    "marginal": partial(kernel_calibration_error, bandwidth=0.1, kind="marginal"),
    "top label": partial(kernel_calibration_error, bandwidth=0.1, kind="top_label"),
    "plugin": partial(kernel_calibration_error, bandwidth=0.1, p=1, bias_correction=None),
    "ratio": partial(ratio_corrected_calibration_error, bandwidth=0.1),
    "sharpness": partial(kernel_sharpness, bandwidth=0.1),
    "sharpness, ratio": partial(kernel_sharpness, bandwidth=0.1, bias_correction="ratio"),
    "sought bandwidth": kernel_calibration_error,
    "cross-validated": partial(kernel_calibration_error, bandwidth="cv"),
}
ALL = BINNED | KERNEL


def case(n=60, seed=0):
    rng = np.random.default_rng(seed)
    data = make_label_histograms(
        n, n_raters=(2, 5), total=4.0, overconfidence=1.5, random_state=seed
    )
    return data.counts, data.prediction, rng.uniform(0.5, 2, n), rng.integers(0, n // 4, n)


def alike(n_groups, size, rng, K=3, raters=2, sharpness=1.0):
    """Groups of rows that are predicted alike and share one Q: calibrated for a sharpness of 1."""
    z = rng.dirichlet(np.full(K, 2.0), n_groups)
    Q = np.array([rng.dirichlet(4 * p) for p in z])
    groups = np.repeat(np.arange(n_groups), size)
    u = z**sharpness
    return rng.multinomial(raters, Q[groups]), (u / u.sum(axis=1, keepdims=True))[groups], groups


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_one_row_a_group_is_the_residual_correction_itself(name, weighted):
    counts, z, w, _ = case()
    weight = w if weighted else None
    names = np.array([f"patient {i}" for i in range(len(z))])
    value = ALL[name](counts, z, sample_weight=weight)
    grouped = ALL[name](counts, z, sample_weight=weight, groups=names)
    if name in BINNED and "error" not in name:
        assert grouped == pytest.approx(value, rel=0, abs=1e-15)
    else:
        # the bandwidth's search sums in another order
        assert grouped == pytest.approx(value, rel=1e-6 if name not in BINNED else 1e-9, abs=1e-12)


def naive_grouped(e, b, w, groups):
    """math: W_b/W · Σ over pairs of different groups w w' e e' / Σ over these pairs w w'."""
    total = 0.0
    for cell in np.unique(b):
        i = np.flatnonzero(b == cell)
        pairs = [(j, k) for j, k in product(i, i) if groups[j] != groups[k]]
        if pairs:
            top = sum(w[j] * w[k] * e[j] * e[k] for j, k in pairs)
            total += w[i].sum() / w.sum() * top / sum(w[j] * w[k] for j, k in pairs)
    return total


def test_the_formula_written_out():
    counts, z, w, groups = case()
    mu = counts / counts.sum(axis=1, keepdims=True)
    b = np.minimum((z * 4).astype(int), 3)
    expected = sum(naive_grouped(mu[:, k] - z[:, k], b[:, k], w, groups) for k in range(3))
    options = {"n_bins": 4, "sample_weight": w, "groups": groups}
    assert calibration_loss(counts, z, **options) == pytest.approx(expected, abs=1e-14)
    parts = loss_decomposition(counts, z, **options)
    assert parts.calibration_loss == pytest.approx(expected, abs=1e-14)
    assert parts.epistemic_loss == pytest.approx(metrics.epistemic_loss(counts, z, sample_weight=w))
    assert parts.dispersion_loss == pytest.approx(parts.epistemic_loss - expected, abs=1e-14)
    assert dispersion_loss(counts, z, **options) == parts.dispersion_loss
    d, phi = pairwise_disagreement(counts), Dirichlet.from_mean(z, 4.0).disagreement()
    cell = np.minimum((phi * 4).astype(int), 3)
    assert statistic_calibration_loss(d, phi, **options) == pytest.approx(
        naive_grouped(d - phi, cell, w, groups), abs=1e-14
    )
    assert metrics.disagreement_calibration_loss(
        counts, Dirichlet.from_mean(z, 4.0), **options
    ) == pytest.approx(naive_grouped(d - phi, cell, w, groups), abs=1e-14)


@pytest.mark.parametrize("estimate", ["residual", "second_order"])
@pytest.mark.parametrize("kind", ["canonical", "marginal", "top_label"])
def test_kernel_pairs_written_out(estimate, kind):
    counts, z, w, groups = case(40)
    mu, total = counts / counts.sum(axis=1, keepdims=True), 0.0
    for x, predicted, target in naive_problems(kind, z, mu):
        k, e = np.exp(naive_log_kernels(x, 0.1)) * w, target - predicted
        for j in range(40):
            other = groups != groups[j]
            kk = np.outer(k[j], k[j]) * np.outer(other, other) * (groups[:, None] != groups)
            s2 = np.einsum("il,ic,lc->", kk, e, e) / kk.sum()
            share = k[j] * other / (k[j] * other).sum()
            s1 = float(e[j] @ (share @ e))
            total += w[j] / w.sum() * (s2 if estimate == "residual" else 2 * s1 - s2)
    value = kernel_calibration_error(
        counts,
        z,
        kind=kind,
        bandwidth=0.1,
        bias_correction=estimate,
        sample_weight=w,
        groups=groups,
    )
    assert value == pytest.approx(total, rel=1e-9)


def test_ratio_corrections_written_out():
    """Groups are the units: Tin's ratio and that of sharpness from their sums a_g and c_g."""
    counts, z, w, groups = case(40)
    mu = counts / counts.sum(axis=1, keepdims=True)
    k = np.exp(naive_log_kernels(z, 0.1)) * w
    error = sharpness = 0.0
    for j in range(40):
        others = np.setdiff1d(groups, groups[j])
        a = np.array([k[j, groups == g] @ mu[groups == g] for g in others])
        c = np.array([k[j, groups == g].sum() for g in others])
        m, A, C = len(others), a.mean(axis=0), c.mean()
        s_ac = (a - A).T @ (c - C) / (m - 1) / C**2
        s_cc = c.var(ddof=1) / C**2
        r = A / C
        error += w[j] * np.abs(r + (s_ac - r * s_cc) / m - z[j]).sum()
        rho = ((m * A) ** 2 - (a**2).sum(axis=0)) / ((m * C) ** 2 - (c**2).sum())
        sharpness += w[j] * (rho * (1 + 4 / m * (s_ac / r - s_cc))).sum()
    for name, total in (("ratio", error), ("sharpness, ratio", sharpness)):
        value = ALL[name](counts, z, sample_weight=w, groups=groups)
        assert value == pytest.approx(total / w.sum(), rel=1e-9)


def test_sharpness_of_groups_by_enumeration():
    """Rows predicted alike, whose groups have one label each: ``Σ_k z_k²``; too sharp without."""
    z = np.tile([0.2, 0.5, 0.3], (4, 1))
    groups = np.array([0, 0, 0, 1, 1, 2, 3, 3])

    def mean(**options):
        sharpness = partial(kernel_sharpness, bandwidth=0.1, **options)
        return expectation(lambda y: sharpness(y[groups], z[groups]), z, [1] * 4)

    assert mean(groups=groups) == pytest.approx(0.38, rel=1e-12)
    assert mean() > 0.45


CALIBRATED = {
    name: m for name, m in ALL.items() if name in ("residual", "second order", "marginal")
}
CALIBRATED["calibration_loss"] = partial(calibration_loss, n_bins=2)


@pytest.mark.parametrize("name", CALIBRATED)
def test_mean_zero_for_calibrated_groups_by_enumeration(name):
    """All rows of a group have one and the same label.

    The mean is 0 with groups, and not without.
    """
    z = np.array([[0.2, 0.5, 0.3], [0.25, 0.45, 0.3], [0.6, 0.1, 0.3], [0.1, 0.65, 0.25]])
    groups = np.array([0, 0, 0, 1, 1, 2, 3, 3])

    def mean(**options):
        return expectation(lambda y: CALIBRATED[name](y[groups], z[groups], **options), z, [1] * 4)

    assert mean(groups=groups) == pytest.approx(0, abs=1e-13)
    assert mean() > 0.005


@pytest.mark.parametrize("name", ALL)
def test_rows_classes_and_names_of_groups_may_be_permuted(name):
    counts, z, w, groups = case()
    rng = np.random.default_rng(1)
    rows, classes, names = rng.permutation(60), [2, 0, 1], rng.permutation(15)
    value = ALL[name](counts, z, sample_weight=w, groups=groups)
    permuted = ALL[name](
        counts[rows][:, classes],
        z[rows][:, classes],
        sample_weight=w[rows],
        groups=names[groups[rows]],
    )
    assert permuted == pytest.approx(value, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("name", [*BINNED, *KERNEL])
def test_weights_scale_and_delete(name):
    counts, z, w, groups = case()
    value = ALL[name](counts, z, sample_weight=w, groups=groups)
    assert ALL[name](counts, z, sample_weight=1e6 * w, groups=groups) == pytest.approx(
        value, rel=1e-6
    )
    kept = np.arange(60) < 40
    assert ALL[name](counts, z, sample_weight=kept.astype(float), groups=groups) == pytest.approx(
        ALL[name](counts[kept], z[kept], groups=groups[kept]), rel=1e-6
    )


@pytest.mark.parametrize("name", BINNED)
def test_label_correction_is_refused_with_groups_and_plugins_do_not_change(name):
    counts, z, _, groups = case()
    with pytest.raises(ValueError, match="'label' takes samples as independent"):
        BINNED[name](counts, z, groups=groups, bias_correction="label")
    plugin = BINNED[name](counts, z, bias_correction=None)
    assert BINNED[name](counts, z, groups=groups, bias_correction=None) == plugin
    with pytest.raises(ValueError, match="groups must not have missing"):
        BINNED[name](counts, z, groups=[None] * 60)


def test_the_weight_of_bins_that_one_group_fills_is_reported():
    z = np.array([0.1, 0.15, 0.3, 0.35, 0.6, 0.8])
    z = np.column_stack([z, 1 - z])
    counts, groups = np.tile([2, 2], (6, 1)), [0, 1, 2, 2, 3, 4]
    parts = loss_decomposition(counts, z, groups=groups, n_bins=4)
    # bins of the first class: rows 0 1 | 2 3 (one group) | 4 | 5
    assert_allclose(parts.bin_calibration_loss[0, 1:], 0)
    assert parts.bin_calibration_loss[0, 0] != 0
    assert parts.dropped_weight == pytest.approx(4 / 6)
    assert loss_decomposition(counts, z, n_bins=4).dropped_weight == pytest.approx(2 / 6)
    assert loss_decomposition(counts, z, n_bins=4, bias_correction=None).dropped_weight == 0
    with pytest.warns(
        UserWarning, match="More than 5% of the weight lies in bins whose samples all belong to one"
    ):
        calibration_loss(counts, z, groups=groups, n_bins=4)
    with pytest.warns(UserWarning, match="samples all belong to one group"):
        statistic_calibration_loss(counts[:, 0] / 4, z[:, 0], groups=groups, n_bins=4)
    seen = MetricAccumulator(loss_decomposition, n_bins=4).update(counts, z)
    assert seen.result().dropped_weight == pytest.approx(2 / 6)


def test_isolated_groups_do_not_cancel():
    """Pairs of groups of which one is much nearer than all others, at bandwidths down to 1e-4."""
    counts, z, _, _ = case(30)
    for h in (1e-4, 1e-3, 1.0):
        a, b = (
            kernel_calibration_error(counts, z, bandwidth=h, groups=g)
            for g in (None, np.arange(30))
        )
        assert b == pytest.approx(a, rel=1e-9)
        assert np.isfinite(
            kernel_calibration_error(counts, z, bandwidth=h, groups=np.arange(30) // 3)
        )


def test_blocks_do_not_show(monkeypatch):
    from sklearn_lhcal._utils.kernels import smoothing

    counts, z, w, groups = case(200)
    values = []
    for block in (2**30, 200 * 37, 1):
        monkeypatch.setattr(smoothing, "BLOCK", block)
        options = {"bandwidth": 0.05, "sample_weight": w, "groups": groups}
        values.append(
            kernel_calibration_error(counts, z, bias_correction="second_order", **options)
        )
    assert values == pytest.approx([values[0]] * 3, rel=1e-11)


def test_too_few_groups():
    counts, z, _, _ = case(20)
    with pytest.raises(ValueError, match="3 groups at least"):
        kernel_calibration_error(counts, z, groups=np.arange(20) % 2, bandwidth=0.1)
    with pytest.raises(ValueError, match="no two groups differ"):
        kernel_calibration_error([0, 1, 1], [[0.5, 0.5]] * 3, groups=[0, 1, 2], bandwidth="loo")


# --- intervals ---


@pytest.mark.parametrize("metric", [calibration_loss, calibration_error, dispersion_loss])
def test_intervals_hand_their_groups_to_the_metric(metric):
    counts, z, w, groups = case(200)
    options = {"sample_weight": w, "groups": groups}
    interval = confidence_interval(metric, counts, z, random_state=0, n_bins=5, **options)
    assert interval.estimate == pytest.approx(metric(counts, z, n_bins=5, **options), abs=1e-12)
    assert interval.estimate != pytest.approx(metric(counts, z, n_bins=5, sample_weight=w))
    paired = paired_difference(
        metric, counts, z, z[:, [1, 0, 2]], random_state=0, n_bins=5, **options
    )
    assert paired.low < paired.estimate < paired.high
    for y in (counts, np.minimum(counts, 1) * np.eye(3, dtype=int)[counts.argmax(axis=1)]):
        # one label a row says nothing, and is refused as well
        with pytest.raises(ValueError, match="'label' takes samples as independent"):
            loss_decomposition(y, z, groups=groups, bias_correction="label")
    with pytest.raises(ValueError, match="'label' takes samples as independent"):
        confidence_interval(metric, counts, z, groups=groups, bias_correction="label")


def coverage(metric, runs, n_groups, size, told=True, **options):
    """How often a 90 % interval of calibrated groups of alike rows covers 0."""
    covered = 0
    for seed in range(runs):
        counts, z, groups = alike(n_groups, size, np.random.default_rng(seed))
        interval = confidence_interval(
            metric, counts, z, groups=groups, confidence_level=0.9, random_state=seed, **options
        )
        covered += interval.low <= 0 <= interval.high
    return covered / runs


@pytest.mark.slow
def test_intervals_cover_zero_for_calibrated_groups_of_alike_rows():
    """Before pairs of a group were left out: .05 to .15 of 90 % intervals did."""
    runs = 60
    error = np.sqrt(0.9 * 0.1 / runs)
    assert coverage(calibration_loss, runs, 100, 10, n_bins=5) >= 0.87 - 2 * error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metric", "n_groups", "size", "options"),
    [
        (calibration_loss, 50, 10, {"n_bins": 5}),
        (calibration_error, 100, 10, {"n_bins": 5}),
        (kernel_calibration_error, 50, 6, {"bandwidth": 0.1, "n_blocks": 20}),
    ],
)
def test_coverage_of_groups(metric, n_groups, size, options):
    runs = 60
    covered = coverage(metric, runs, n_groups, size, **options)
    assert covered >= 0.87 - 2 * np.sqrt(0.9 * 0.1 / runs)


# --- the null of a calibration statistic ---


def rejections(draw, runs, **options):
    """Share of p-values of at most .10."""
    small = 0
    for seed in range(runs):
        counts, z, groups = draw(np.random.default_rng(seed))
        null = null_calibration_error(
            counts, z, groups=groups, n_draws=59, random_state=seed, bandwidth=0.1, **options
        )
        small += null.p_value <= 0.1
    return small / runs


@pytest.mark.slow
@pytest.mark.parametrize("K", [3, 10])
@pytest.mark.parametrize("raters", [1, 5, 20, 50])
def test_size_with_over_dispersed_raters(K, raters):
    """Nominal .10.

    A multinomial with n_i draws rejected .35 of calibrated predictions at 50 raters.
    """

    def draw(rng):
        z = rng.dirichlet(np.ones(K), 150)
        Q = np.array([rng.dirichlet(4 * p) for p in z])
        return rng.multinomial(raters, Q), z, None

    runs = 50
    assert rejections(draw, runs) <= 0.15 + 2 * np.sqrt(0.1 * 0.9 / runs)


@pytest.mark.slow
def test_size_with_groups_and_power():
    runs = 80
    for told, sharpness in ((True, 1.0), (False, 1.0)):

        def draw(rng, told=told, sharpness=sharpness):
            counts, z, groups = alike(40, 6, rng, sharpness=sharpness)
            return counts, z, groups if told else None

        size = rejections(draw, runs)
        if told:
            assert size <= 0.15 + 2 * np.sqrt(0.1 * 0.9 / runs)
        else:
            assert size > 0.4
    assert rejections(lambda rng: alike(60, 4, rng, raters=5, sharpness=2.5), 20) > 0.8


def test_raters_that_always_or_never_agree_are_drawn_without_nan():
    """ρ at the ends of [0, 1), predictions at corners of the simplex.

    Rows with one rater among others.
    """
    rng = np.random.default_rng(0)
    z = rng.dirichlet(np.full(3, 0.3), 60)
    z[:10] = np.eye(3)[rng.integers(3, size=10)]
    one_class = np.array([rng.multinomial(1, p) for p in z])
    for counts in (30 * one_class, np.round(60 * z + 1).astype(int), one_class * np.r_[1, 1, 1]):
        null = null_calibration_error(counts, z, bandwidth=0.1, n_draws=39, random_state=0)
        assert np.isfinite([null.estimate, null.mean, *null.quantiles]).all()
        assert 0 < null.p_value <= 1
    mixed = one_class * np.where(np.arange(60) % 2, 1, 9)[:, None]
    assert np.isfinite(null_calibration_error(mixed, z, bandwidth=0.1, n_draws=9).mean)


def test_drawn_rows_have_the_mean_and_the_correlation_of_the_model():
    """The level of the plugin is that of studies whose raters agree with ρ = 1/(α0 + 1)."""
    rng = np.random.default_rng(0)
    z = rng.dirichlet(np.ones(3), 400)
    options = {"bandwidth": 0.1, "p": 2, "bias_correction": None}

    def study():
        return rng.multinomial(5, [rng.dirichlet(3 * p) for p in z])

    null = null_calibration_error(study(), z, n_draws=200, random_state=0, **options)
    level = np.mean([kernel_calibration_error(study(), z, **options) for _ in range(100)])
    assert null.mean == pytest.approx(level, rel=0.1)
    # Var μ̂ = (1 − Σz²)(ρ + (1 − ρ)/n): labels without correlation have half of it
    alone = [kernel_calibration_error(rng.multinomial(5, z), z, **options) for _ in range(100)]
    assert np.mean(alone) < 0.8 * level


def test_signs_serve_known_probabilities():
    rng = np.random.default_rng(0)
    z = rng.dirichlet(np.ones(3), 100)
    Q = KnownProbabilities(np.array([rng.dirichlet(5 * p) for p in z]))
    null = null_calibration_error(Q, z, groups=np.arange(100), bandwidth=0.1, random_state=0)
    assert abs(null.mean) < 0.01
    assert null.p_value > 0.05
    with pytest.raises(ValueError, match=r"no labels to draw.*groups, one a sample"):
        null_calibration_error(Q, z)
