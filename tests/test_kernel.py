"""Kernel calibration errors: the formula written out, exact enumeration, limits, simulation."""

from functools import partial

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import expectation
from scipy.interpolate import BarycentricInterpolator
from scipy.special import gammaln, xlogy
from scipy.stats import beta, dirichlet, kstest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import GridSearchCV

from sklearn_lhcal import metrics
from sklearn_lhcal._ground import exponential_sums as _exponential_sums
from sklearn_lhcal._ground import kernel_sums as _kernel_sums
from sklearn_lhcal._ground import kernels as _kernels
from sklearn_lhcal.distributions import Dirichlet as DirichletDistribution
from sklearn_lhcal.label_histogram import KnownProbabilities
from sklearn_lhcal.metrics import (
    binned_canonical_error,
    confidence_interval,
    get_scorer,
    kernel_sharpness,
    loo_bandwidth,
    ratio_corrected_calibration_error,
)

# the published plugin, where a test does not say otherwise
kernel_calibration_error = partial(metrics.kernel_calibration_error, p=1, bias_correction=None)
null_calibration_error = partial(metrics.null_calibration_error, p=1, bias_correction=None)

NOTIONS = ["canonical", "marginal", "top_label"]
RESIDUAL = {"p": 2, "bias_correction": "residual"}
SECOND = {"p": 2, "bias_correction": "second_order"}


def draw(n, K, raters=1, temperature=1.0, concentration=1.0, seed=0):
    """Counts of calibrated predictions, and the predictions sharpened by a temperature."""
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.full(K, concentration), size=n)
    z = q ** (1 / temperature)
    return rng.multinomial(raters, q), z / z.sum(axis=1, keepdims=True)


def naive_problems(notion, z, mu):
    if notion == "canonical":
        return [(z, z, mu)]
    if notion == "marginal":
        return [(np.c_[z[:, k], 1 - z[:, k]], z[:, [k]], mu[:, [k]]) for k in range(z.shape[1])]
    top = z.argmax(axis=1)
    rows = np.arange(len(z))
    c = z[rows, top]
    return [(np.c_[c, 1 - c], c[:, None], mu[rows, top][:, None])]


def log_kernels(x, h):
    return _kernel_sums.log_kernels(x, h, _kernel_sums.log_normaliser(x, h))


def naive_log_kernels(x, h):
    """log k(x_j, x_i), one row i after the other."""
    x = np.clip(x, 1e-12, None)
    x = x / x.sum(axis=1, keepdims=True)
    L = np.empty((len(x), len(x)))
    for i in range(len(x)):
        a = x[i] / h + 1
        L[:, i] = gammaln(a.sum()) - gammaln(a).sum() + xlogy(a - 1, x).sum(axis=1)
    return L


def naive(y, z, notion, h, p=1, kind=None):
    """The estimates with every sum written out; kernels divided by their largest in the row."""
    mu = y / y.sum(axis=1, keepdims=True)
    total = 0.0
    for x, predicted, target in naive_problems(notion, z, mu):
        L = naive_log_kernels(x, h)
        for j in range(len(x)):
            others = np.arange(len(x)) != j
            k = np.exp(L[j, others] - L[j, others].max())
            e = (target - predicted)[others]
            if kind is None:
                r = (k[:, None] * target[others]).sum(axis=0) / k.sum()
                total += (np.abs(r - predicted[j]) ** p).sum()
                continue
            kk = np.outer(k, k)
            np.fill_diagonal(kk, 0.0)
            s2 = np.einsum("il,ic,lc->", kk, e, e) / kk.sum()
            s1 = ((target - predicted)[j] * (k[:, None] * e).sum(axis=0) / k.sum()).sum()
            total += s2 if kind == "residual" else 2 * s1 - s2
    return total / len(z)


@pytest.mark.parametrize("notion", NOTIONS)
@pytest.mark.parametrize(("K", "n"), [(2, 200), (3, 200), (10, 200), (61, 200)])
def test_agrees_with_the_formula_written_out(notion, K, n):
    y, z = draw(n, K, raters=2, temperature=0.6, concentration=0.5)
    for h, p in [(1e-4, 1), (0.01, 1), (0.1, 2), (1.0, 3.5)]:
        value = kernel_calibration_error(y, z, notion=notion, p=p, bandwidth=h)
        assert value == pytest.approx(naive(y, z, notion, h, p), rel=1e-10)
    for kind in ("residual", "second_order"):
        value = kernel_calibration_error(
            y, z, notion=notion, p=2, bandwidth=0.1, bias_correction=kind
        )
        assert value == pytest.approx(naive(y, z, notion, 0.1, kind=kind), abs=1e-10)


def test_pairs_of_isolated_rows_agree_with_arithmetic_in_80_digits():
    y, z = draw(8, 3, temperature=0.5, seed=3)
    h, e = 1e-3, y - z
    with mpmath.workdps(80):
        total = mpmath.mpf(0)
        for j in range(8):
            k = []
            for i in range(8):
                a = [mpmath.mpf(float(v)) / h + 1 for v in z[i]]
                log_k = mpmath.loggamma(sum(a)) - sum(map(mpmath.loggamma, a))
                k.append(
                    mpmath.exp(
                        log_k
                        + sum((v - 1) * mpmath.log(float(w)) for v, w in zip(a, z[j], strict=True))
                    )
                )
            pairs = [(i, m) for i in range(8) for m in range(8) if i != m and j not in (i, m)]
            top = sum(k[i] * k[m] * mpmath.mpf(float(e[i] @ e[m])) for i, m in pairs)
            total += top / sum(k[i] * k[m] for i, m in pairs)
        exact = float(total / 8)
    assert kernel_calibration_error(y, z, bandwidth=h, **RESIDUAL) == pytest.approx(exact, rel=1e-9)


def test_kernels_are_the_densities_of_scipy():
    z = np.random.default_rng(0).dirichlet(np.ones(3), size=5)
    _, _, L = next(log_kernels(torch.as_tensor(z), 0.2))
    assert L[1, 3].item() == pytest.approx(dirichlet.logpdf(z[1], z[3] / 0.2 + 1), rel=1e-12)
    b = torch.as_tensor(np.c_[z[:, 0], 1 - z[:, 0]])
    _, _, L = next(log_kernels(b, 0.2))
    assert L[1, 3].item() == pytest.approx(
        beta.logpdf(z[1, 0], z[3, 0] / 0.2 + 1, (1 - z[3, 0]) / 0.2 + 1), rel=1e-12
    )
    assert L.diagonal().tolist() == [-np.inf] * 5


@pytest.mark.parametrize("options", [RESIDUAL, SECOND])
@pytest.mark.parametrize("notion", ["canonical", "marginal"])
def test_corrected_errors_have_mean_zero_for_a_calibrated_predictor_by_enumeration(options, notion):
    z = np.random.default_rng(2).dirichlet([1.0, 0.5, 2.0], size=4)

    def metric(y):
        return kernel_calibration_error(y, z, notion=notion, bandwidth=0.1, **options)

    assert expectation(metric, z, [1, 2, 1, 1]) == pytest.approx(0, abs=1e-13)


@pytest.mark.parametrize("K", [2, 5, 10])
@pytest.mark.parametrize("raters", [1, 5])
def test_corrected_errors_have_mean_zero_in_simulation(K, raters):
    for n, h, R in [(200, 0.01, 60), (200, 1.0, 60), (1000, 0.1, 20)]:
        z = np.random.default_rng(1).dirichlet(np.full(K, 0.7), size=n)
        rng = np.random.default_rng(2)
        values = []
        for _ in range(R):
            values.append(
                kernel_calibration_error(rng.multinomial(raters, z), z, bandwidth=h, **RESIDUAL)
            )
        assert abs(np.mean(values)) < 3 * np.std(values, ddof=1) / np.sqrt(R)


@pytest.mark.slow
def test_the_residual_estimate_is_near_the_truth_where_the_plugin_is_five_times_too_large():
    truth, R = 0.0234, 200
    plugin, residual = [], []
    for seed in range(R):
        y, z = draw(500, 4, temperature=0.6, seed=seed)
        residual.append(kernel_calibration_error(y, z, bandwidth=0.02, **RESIDUAL))
        if seed < 10:
            plugin.append(kernel_calibration_error(y, z, p=2, bandwidth=0.02))
    error = np.std(residual, ddof=1) / np.sqrt(R)
    assert abs(np.mean(residual) - truth) < 0.12 * truth + 2 * error
    assert np.mean(plugin) > 5 * truth


@pytest.mark.parametrize("total", [1.0, 9.0, np.inf])
def test_standard_error_with_ten_raters_depends_on_how_much_they_agree(total):
    """Calibrated with Dirichlet Q: ρ + (1 − ρ)/m of that with one rater, ρ = 1/(α0 + 1)."""
    rng, runs = np.random.default_rng(0), 120
    z = rng.dirichlet(np.ones(4), size=150)

    def error(raters):
        Q = (
            z
            if np.isinf(total)
            else DirichletDistribution(total * z).sample(1, int(rng.integers(2**31)))[0]
        )
        return kernel_calibration_error(rng.multinomial(raters, Q), z, bandwidth=0.1, **RESIDUAL)

    one, ten = (np.std([error(m) for _ in range(runs)]) for m in (1, 10))
    rho = 1 / (total + 1)
    expected = rho + (1 - rho) / 10
    assert ten / one == pytest.approx(expected, abs=4 * expected / np.sqrt(runs))


def test_the_defaults_are_the_advice():
    y, z = draw(60, 3, raters=2)
    value = metrics.kernel_calibration_error(y, z)
    assert value == metrics.kernel_calibration_error(y, z, **RESIDUAL)
    null = metrics.null_calibration_error(y, z, n_draws=5)
    assert null.estimate == pytest.approx(value)
    assert null.mean == metrics.null_calibration_error(y, z, n_draws=5, **RESIDUAL).mean
    with pytest.raises(ValueError, match=r"for p = 2 only.*bias_correction=None"):
        metrics.kernel_calibration_error(y, z, p=1)


def test_known_probabilities_are_frequencies_without_noise():
    _, z = draw(50, 3, temperature=0.5)
    q = np.random.default_rng(1).dirichlet(np.ones(3), size=50)
    many = np.round(q * 1e9).astype(np.int64)
    for options in (RESIDUAL, {"p": 1}):
        a = kernel_calibration_error(KnownProbabilities(q), z, bandwidth=0.1, **options)
        assert a == pytest.approx(
            kernel_calibration_error(many, z, bandwidth=0.1, **options), rel=1e-6
        )


@pytest.mark.parametrize("notion", NOTIONS)
def test_rows_and_classes_may_be_permuted(notion):
    y, z = draw(60, 4, raters=3, temperature=0.7)
    rows, classes = np.random.default_rng(0).permutation(60), [2, 0, 3, 1]
    for options in ({"p": 1}, RESIDUAL, SECOND):
        value = kernel_calibration_error(y, z, notion=notion, bandwidth=0.05, **options)
        turned = kernel_calibration_error(
            y[rows][:, classes], z[rows][:, classes], notion=notion, bandwidth=0.05, **options
        )
        assert turned == pytest.approx(value, rel=1e-11)


@pytest.mark.parametrize("options", [{"p": 1}, {"p": 3}, RESIDUAL, SECOND])
@pytest.mark.parametrize("notion", NOTIONS)
def test_results_do_not_depend_on_the_block(monkeypatch, notion, options):
    y, z = draw(400, 3, temperature=0.7, concentration=0.5)
    for h in (1e-3, 0.05, 1.0):
        values = []
        for block in (2**30, 400 * 37, 1):
            monkeypatch.setattr(_kernel_sums, "BLOCK", block)
            values.append(kernel_calibration_error(y, z, notion=notion, bandwidth=h, **options))
        assert values == pytest.approx([values[0]] * 3, rel=1e-11)


def test_windows_of_beta_kernels_leave_far_columns_out(monkeypatch):
    x = np.sort(np.random.default_rng(0).uniform(size=1500))
    x = torch.as_tensor(np.c_[x, 1 - x])
    monkeypatch.setattr(_kernel_sums, "BLOCK", 1500 * 50)
    columns = [c.stop - c.start for _, c, _ in log_kernels(x, 1e-3)]
    assert max(columns) < 1000
    e = torch.randn(1500, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for weight in (None, torch.linspace(-9, 0, 1500, dtype=torch.float64)):
        values = []
        for block in (1500 * 50, 2**30):
            monkeypatch.setattr(_kernel_sums, "BLOCK", block)
            values.append(_kernels.smooth(x, e, 1e-3, weight))
        assert torch.allclose(*values, rtol=1e-12, atol=1e-14)


def binary(kind, n=300):
    """Probabilities of one class.

    Dense and sparse ones, ties, exact 0 and 1, rows far from all others.
    """
    rng = np.random.default_rng(0)
    z = {
        "spread": rng.uniform(size=n),
        "skewed": rng.beta(0.5, 9, size=n),
        "ends": rng.beta(0.02, 0.02, size=n),
        "ties": rng.integers(0, 5, size=n) / 4,
        "near one": 1 - 10 ** rng.uniform(-16, -1, size=n),
        "isolated": np.r_[rng.uniform(0.1, 0.2, size=n - 4), 1e-7, 0.5, 0.9, 1.0],
    }[kind]
    return rng.permutation(z)


class TestExponentialSums:
    @pytest.mark.parametrize("h", [1e-4, 1e-3, 0.03, 1.0])
    @pytest.mark.parametrize("kind", ["spread", "skewed", "ends", "ties", "near one", "isolated"])
    def test_agree_with_the_sums_written_out(self, monkeypatch, kind, h):
        z = np.sort(np.clip(binary(kind), 1e-12, 1 - 1e-12))
        theta, c = (np.log(z) - np.log1p(-z)) / h, np.random.default_rng(1).normal(size=300)
        c += gammaln(1 / h + 2) - gammaln(z / h + 1) - gammaln((1 - z) / h + 1)
        e = np.random.default_rng(2).normal(size=(300, 2))
        L = c + theta[:, None] * z
        top = L.max(axis=1)
        expected = np.exp(L - top[:, None]) @ np.c_[e, np.ones(300)]
        rounding = 1e-12 + 4e-16 * np.abs(L).max()
        for direct in (0, 2**16):
            monkeypatch.setattr(_exponential_sums, "DIRECT", direct)
            arrays = (torch.as_tensor(a) for a in (theta, z, c, e))
            sums, s = (a.numpy() for a in _exponential_sums.exponential_sums(*arrays))
            sums = sums * np.exp(s - top)[:, None]
            assert (np.abs(sums - expected) <= rounding * expected[:, -1:] * np.abs(e).max()).all()

    def test_interpolate(self, monkeypatch):
        monkeypatch.setattr(_exponential_sums, "DIRECT", 0)
        seen = []
        polynomials = _exponential_sums._chebyshev
        monkeypatch.setattr(
            _exponential_sums, "_chebyshev", lambda u, v: seen.append(len(v)) or polynomials(u, v)
        )
        x = torch.linspace(0, 1, 5000, dtype=torch.float64)
        _exponential_sums.exponential_sums(20 * x, x, 0 * x, x[:, None])
        assert sum(seen) == 5000
        assert len(seen) < 20

    def test_chebyshev_polynomials_are_those_of_lagrange(self):
        u = torch.cos((torch.arange(7, dtype=torch.float64) + 0.5) * torch.pi / 7)
        v = torch.linspace(-1, 1, 11, dtype=torch.float64)
        expected = BarycentricInterpolator(u.numpy(), np.eye(7))(v.numpy())
        np.testing.assert_allclose(_exponential_sums._chebyshev(u, v).numpy(), expected, atol=1e-14)

    @pytest.mark.parametrize("kind", ["spread", "skewed", "ends", "ties", "near one", "isolated"])
    def test_give_the_same_errors_as_kernels_one_by_one(self, monkeypatch, kind):
        z = binary(kind)
        y, w = (
            np.random.default_rng(1).binomial(3, z),
            np.random.default_rng(2).uniform(0.01, 2, size=300),
        )
        y = np.c_[3 - y, y]
        monkeypatch.setattr(_exponential_sums, "DIRECT", 0)
        for weight in (None, w):
            for h in (1e-4, 1e-3, 0.03, 1.0):
                options = {"notion": "top_label", "bandwidth": h, "sample_weight": weight}
                values = []
                for many in (10**9, 3):
                    monkeypatch.setattr(_kernels, "MANY", many)
                    values.append(
                        [
                            kernel_calibration_error(y, z, **options, **v)
                            for v in ({"p": 1}, RESIDUAL, SECOND)
                        ]
                    )
                    values[-1] += [ratio_corrected_calibration_error(y, z, p=2, **options)]
                    values[-1] += [
                        kernel_sharpness(y, z, **options, bias_correction=v)
                        for v in (None, "ratio")
                    ]
                assert values[1] == pytest.approx(values[0], rel=1e-10, abs=1e-12)

    def test_versions_of_the_labels_and_left_out_residuals(self, monkeypatch):
        _, z = draw(400, 2, concentration=0.3)
        values = []
        monkeypatch.setattr(_exponential_sums, "DIRECT", 0)
        for many in (10**9, 3):
            monkeypatch.setattr(_kernels, "MANY", many)
            y = np.random.default_rng(0).multinomial(1, z)
            null = null_calibration_error(
                y, z, notion="marginal", bandwidth=0.01, n_draws=5, random_state=0, **RESIDUAL
            )
            values.append(
                [
                    null.estimate,
                    null.mean,
                    *null.quantiles,
                    kernel_calibration_error(y, z, bandwidth="cv"),
                ]
            )
        assert values[1] == pytest.approx(values[0], rel=1e-9)

    def test_are_not_used_where_derivatives_are_asked_for(self, monkeypatch):
        monkeypatch.setattr(_kernels, "MANY", 3)
        x = torch.rand(
            6, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
        ).requires_grad_()
        points = torch.cat([x, 1 - x], dim=1)
        assert torch.autograd.gradcheck(
            lambda a: _kernels.smooth(torch.cat([a, 1 - a], dim=1), a * a, 0.1), x
        )
        with torch.no_grad():
            fast = _kernels.smooth(points.detach(), x.detach() ** 2, 0.1)
        assert torch.allclose(fast, _kernels.smooth(points, x**2, 0.1), rtol=1e-12)


@pytest.mark.parametrize("tile", [(128, 1024), (7, 5), (5, 7), (300, 1)])
def test_tiles_give_the_same_sums_as_rows(monkeypatch, tile):
    monkeypatch.setitem(_kernel_sums.TILE, False, tile)
    y, z = draw(200, 4, concentration=0.3)
    x, e, w = (torch.as_tensor(a, dtype=torch.float64) for a in (z, y, np.linspace(-3, 0, 200)))
    x = _kernels.clipped(x)
    for h in (1e-4, 1e-2, 1.0):  # rows by rows where they are far from all others
        rows = _kernels.smooth(x.clone().requires_grad_(), e, h, w).detach()
        assert torch.allclose(_kernels.smooth(x, e, h, w), rows, rtol=1e-11, atol=1e-13)
    assert _kernel_sums.dirichlet_sums(x, e, 1e-2, _kernel_sums.log_normaliser(x, 1e-2, w))[1].any()
    assert not _kernel_sums.dirichlet_sums(x, e, 1e-4, _kernel_sums.log_normaliser(x, 1e-4, w))[
        1
    ].all()


def test_rows_of_binary_points_may_have_any_order():
    x = torch.rand(1500, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x, e = torch.cat([x, 1 - x], dim=1), torch.cos(9 * x)
    order = x[:, 0].argsort()
    for h in (1e-3, 0.1):
        assert torch.allclose(
            _kernels.smooth(x, e, h)[order], _kernels.smooth(x[order], e[order], h), rtol=1e-12
        )
        pairs = [_kernels.moments(v, f, h).pairs() for v, f in ((x, e), (x[order], e[order]))]
        assert torch.allclose(pairs[0][order], pairs[1], rtol=1e-12)


@pytest.mark.parametrize("notion", NOTIONS)
def test_binary_predictions_may_be_a_column(notion):
    y, z = draw(40, 2, raters=2)
    a = kernel_calibration_error(y, z[:, 1], notion=notion, bandwidth=0.1)
    assert a == pytest.approx(
        kernel_calibration_error(y, z, notion=notion, bandwidth=0.1), rel=1e-12
    )


def test_two_classes_canonical_and_marginal_sum_both_columns_and_the_top_label_is_one():
    y, z = draw(50, 2, temperature=0.5)
    canonical, marginal, top = (
        kernel_calibration_error(y, z, notion=v, p=2, bandwidth=0.1) for v in NOTIONS
    )
    assert canonical == pytest.approx(marginal, rel=1e-12)
    one_sided = np.where(z[:, :1] > 0.5, z, z[:, ::-1])  # the top label in the first column
    turned = np.where(z[:, :1] > 0.5, y, y[:, ::-1])
    assert 2 * top == pytest.approx(
        kernel_calibration_error(turned, one_sided, p=2, bandwidth=0.1), rel=1e-12
    )


def test_a_distribution_counts_by_its_mean():
    y, z = draw(30, 3)
    assert kernel_calibration_error(
        y, DirichletDistribution(5 * z), bandwidth=0.1
    ) == pytest.approx(kernel_calibration_error(y, z, bandwidth=0.1), rel=1e-12)


def test_root_is_the_signed_root():
    y, z = draw(60, 3, temperature=0.5)
    for p in (1, 2, 3):
        value = kernel_calibration_error(y, z, p=p, bandwidth=0.1)
        assert kernel_calibration_error(y, z, p=p, bandwidth=0.1, root=True) == pytest.approx(
            value ** (1 / p)
        )
    y, z = draw(50, 3)
    value = kernel_calibration_error(y, z, bandwidth=0.1, **RESIDUAL)
    assert value < 0
    assert kernel_calibration_error(y, z, bandwidth=0.1, root=True, **RESIDUAL) == pytest.approx(
        -np.sqrt(-value)
    )


def test_hand_value_of_two_rows():
    # each row is smoothed from the other: r = the other's label
    assert kernel_calibration_error(
        [0, 1], [[0.8, 0.2], [0.4, 0.6]], bandwidth=0.3
    ) == pytest.approx(((0.8 + 0.8) + (0.6 + 0.6)) / 2)


@pytest.mark.parametrize("options", [{"p": 1}, {"p": 2}, RESIDUAL, SECOND])
def test_weights_scale_and_delete(options):
    y, z = draw(80, 3, temperature=0.7)
    w = np.random.default_rng(0).uniform(0.5, 2, size=80)
    for notion in NOTIONS:
        arguments = {"notion": notion, "bandwidth": 0.05, **options}
        value = kernel_calibration_error(y, z, sample_weight=w, **arguments)
        assert kernel_calibration_error(y, z, sample_weight=1e9 * w, **arguments) == pytest.approx(
            value, rel=1e-11
        )
        w0 = np.where(np.arange(80) < 50, 1.0, 0.0)
        assert kernel_calibration_error(y, z, sample_weight=w0, **arguments) == pytest.approx(
            kernel_calibration_error(y[:50], z[:50], **arguments), rel=1e-11
        )


def test_weighted_plugin_by_hand():
    y, z, w = (
        np.eye(3, dtype=int),
        np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7]]),
        np.array([1.0, 2, 5]),
    )
    k = np.exp(naive_log_kernels(z, 0.2)) * w
    np.fill_diagonal(k, 0)
    expected = np.average(np.abs(k @ y / k.sum(axis=1, keepdims=True) - z).sum(axis=1), weights=w)
    assert kernel_calibration_error(y, z, bandwidth=0.2, sample_weight=w) == pytest.approx(
        expected, rel=1e-12
    )


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(3, 12),
    K=st.integers(2, 5),
    h=st.sampled_from([1e-4, 0.01, 0.3, 1.0]),
    notion=st.sampled_from(NOTIONS),
    seed=st.integers(0, 10_000),
)
def test_corners_ties_and_absent_classes_stay_finite(n, K, h, notion, seed):
    rng = np.random.default_rng(seed)
    z = rng.dirichlet(np.full(K, 0.2), size=n)
    z[rng.random(n) < 0.3] = np.eye(K)[0]
    z[-1] = z[0]
    y = np.zeros(n, dtype=int)  # all other classes absent
    for options in ({"p": 1}, {"p": 2.5}, RESIDUAL, SECOND):
        value = kernel_calibration_error(y, z, notion=notion, bandwidth=h, **options)
        assert np.isfinite(value)
        if "bias_correction" not in options:
            assert 0 <= value <= 2 * K


def test_a_thousand_classes_and_identical_rows():
    y, z = draw(20, 1000)
    for options in ({"p": 1}, RESIDUAL):
        assert np.isfinite(kernel_calibration_error(y, z, bandwidth=0.01, **options))
    same = np.tile([[0.2, 0.8]], (4, 1))
    assert kernel_calibration_error([1, 1, 1, 1], same, bandwidth=0.1) == pytest.approx(0.4)
    assert kernel_calibration_error([1, 1, 1, 1], same, bandwidth=0.1, **RESIDUAL) == pytest.approx(
        0.08
    )


def test_float32_is_read_in_float64_and_arrays_are_left_alone():
    y, z = draw(40, 5)
    z32 = z.astype(np.float32)
    copies = y.copy(), z32.copy()
    a = kernel_calibration_error(y, z32, bandwidth=0.01)
    assert a == pytest.approx(kernel_calibration_error(y, z, bandwidth=0.01), rel=1e-3)
    np.testing.assert_array_equal(y, copies[0])
    np.testing.assert_array_equal(z32, copies[1])


class TestBandwidth:
    def test_is_within_a_percent_of_the_published_grid(self):
        grid = [*np.logspace(-5, -1, 15), 0.2, 0.4, 0.6, 0.8, 1]
        for K, concentration, notion in [
            (2, 0.3, "canonical"),
            (4, 1, "canonical"),
            (10, 0.2, "marginal"),
            (3, 5, "top_label"),
        ]:
            _, z = draw(400, K, concentration=concentration)
            x = [
                p.x
                for p in _kernels.problems(notion, torch.as_tensor(z), torch.as_tensor(z)[:, None])
            ]
            best = loo_bandwidth(z, notion=notion, grid=grid)
            ours = loo_bandwidth(z, notion=notion)
            a, b = (sum(_kernels.log_likelihoods(v, [h])[0] for v in x) for h in (ours, best))
            assert a >= b - 0.01 * abs(b)

    def test_likelihood_is_the_formula_written_out(self):
        _, z = draw(30, 3)
        z = np.vstack([z, z[:4]])  # ties are left out
        L = naive_log_kernels(z, 0.1)
        total = 0.0
        for j in range(34):
            others = (z != z[j]).any(axis=1)
            total += np.log(np.exp(L[j, others]).sum() / others.sum())
        assert _kernels.log_likelihoods(torch.as_tensor(z), [0.1])[0] == pytest.approx(
            total / 34, rel=1e-12
        )

    def test_ties_do_not_drive_it_down(self):
        _, z = draw(100, 3)
        assert loo_bandwidth(np.repeat(z, 2, axis=0)) == pytest.approx(loo_bandwidth(z), rel=1e-9)

    def test_each_notion_has_its_own_kernel(self):
        _, z = draw(300, 4)
        assert len({round(loo_bandwidth(z, notion=v), 6) for v in NOTIONS}) == 3

    def test_cross_validation_minimises_the_left_out_residual(self):
        y, z = draw(400, 4, temperature=0.6)
        part = _kernels.SmoothingProblem(
            *(torch.as_tensor(a) for a in (z, z, y[:, None].astype(float)))
        )
        grid = np.logspace(-3, 0, 10)
        value = kernel_calibration_error(y, z, bandwidth="cv", **SECOND)
        best = min(_kernels.cross_validation_errors(part, grid))
        found = _kernels.best_bandwidth(lambda hs: _kernels.cross_validation_errors(part, hs))
        assert _kernels.cross_validation_errors(part, [found])[0] <= best + 1e-3 * abs(best)
        assert value == pytest.approx(kernel_calibration_error(y, z, bandwidth=found, **SECOND))

    def test_many_rows_are_sampled_with_a_seed(self):
        _, z = draw(5100, 2)
        state = np.random.get_state()[1].copy()  # noqa: NPY002
        assert loo_bandwidth(z, random_state=1) == loo_bandwidth(z, random_state=1)
        assert (np.random.get_state()[1] == state).all()  # noqa: NPY002

    def test_parabola(self):
        assert _kernels.best_bandwidth(lambda hs: (np.log10(hs) + 2.37) ** 2) == pytest.approx(
            10**-2.37
        )
        assert _kernels.best_bandwidth(lambda hs: -np.log10(hs)) == 1.0
        assert _kernels.best_bandwidth(lambda hs: np.log10(hs)) == pytest.approx(1e-5)


class TestNull:
    def test_p_value_is_uniform_for_a_calibrated_predictor(self):
        z = np.random.default_rng(0).dirichlet(np.ones(3), size=60)
        rng = np.random.default_rng(1)
        for options in ({"p": 1}, RESIDUAL):
            p_values = [
                null_calibration_error(
                    rng.multinomial(2, z), z, bandwidth=0.1, n_draws=99, random_state=s, **options
                ).p_value
                for s in range(150)
            ]
            assert kstest(np.array(p_values) - rng.uniform(0, 0.01, 150), "uniform").pvalue > 0.01

    def test_level_of_the_plugin_is_far_from_zero_and_that_of_the_residual_is_zero(self):
        y, z = draw(200, 5)
        null = null_calibration_error(y, z, bandwidth=0.02, random_state=0)
        assert null.mean > 0.3
        assert null.quantiles[0] < null.mean < null.quantiles[2]
        null = null_calibration_error(y, z, bandwidth=0.02, random_state=0, **RESIDUAL)
        assert abs(null.mean) < 0.01

    def test_draws_have_the_raters_of_the_data_and_any_batch(self, monkeypatch):
        _, z = draw(50, 3)
        one, many = (np.random.default_rng(0).multinomial(m, z) for m in (1, 100))
        a, b = (
            null_calibration_error(v, z, bandwidth=0.1, random_state=0).mean for v in (one, many)
        )
        assert b < a
        monkeypatch.setattr("sklearn_lhcal.metrics._kernel_null._DRAWS", 1)
        c = null_calibration_error(one, z, bandwidth=0.1, random_state=0).mean
        assert c == pytest.approx(a, rel=0.1)

    def test_errors(self):
        y, z = draw(10, 3)
        with pytest.raises(ValueError, match="'cv' depends on the labels"):
            null_calibration_error(y, z, bandwidth="cv")
        with pytest.raises(ValueError, match="no labels to draw"):
            null_calibration_error(KnownProbabilities(z), z, bandwidth=0.1)


class TestSharpness:
    def test_gives_the_squared_error_with_residuals(self):
        """With e = y − z smooth, S2 = E[y|z]² − 2 E[y|z]z̃ + z̃².

        For constant predictions this is exact.
        """
        y = np.random.default_rng(0).multinomial(1, [0.2, 0.5, 0.3], size=40)
        z = np.tile([0.3, 0.3, 0.4], (40, 1))
        sharpness = kernel_sharpness(y, z, bandwidth=0.1)
        expected = sharpness - 2 * (y @ z[0]).mean() + z[0] @ z[0]
        assert kernel_calibration_error(y, z, bandwidth=0.1, **RESIDUAL) == pytest.approx(
            expected, abs=1e-12
        )

    def test_is_unbiased_at_constant_predictions_by_enumeration(self):
        q = np.array([0.2, 0.5, 0.3])
        z = np.tile(q, (4, 1))
        value = expectation(lambda y: kernel_sharpness(y, z, bandwidth=0.1), z, [1] * 4)
        assert value == pytest.approx(q @ q, abs=1e-12)

    def test_ratio_correction_helps_at_a_wide_bandwidth(self):
        truth, plain, corrected = [], [], []
        for seed in range(300):
            y, z = draw(32, 2, concentration=0.5, seed=seed)
            plain.append(kernel_sharpness(y, z, bandwidth=0.5))
            corrected.append(kernel_sharpness(y, z, bandwidth=0.5, bias_correction="ratio"))
        y, z = draw(4000, 2, concentration=0.5, seed=999)
        truth = kernel_sharpness(y, z, bandwidth=0.5)
        assert abs(np.mean(corrected) - truth) < abs(np.mean(plain) - truth)

    def test_tin_ratio_is_the_formula_written_out(self):
        y, z = draw(25, 3, raters=2)
        mu, k = y / 2, np.exp(naive_log_kernels(z, 0.2))
        total, m = 0.0, 24
        for j in range(25):
            others = np.arange(25) != j
            c = k[j, others]
            for v in range(3):
                a = c * mu[others, v]
                r, cov = a.mean() / c.mean(), np.cov(a, c)
                r_t = r + (cov[0, 1] / c.mean() ** 2 - r * cov[1, 1] / c.mean() ** 2) / m
                total += abs(r_t - z[j, v])
        assert ratio_corrected_calibration_error(y, z, bandwidth=0.2) == pytest.approx(
            total / 25, rel=1e-10
        )


class TestBinned:
    def test_triangles_by_hand(self):
        z = np.array([[0.6, 0.3, 0.1], [0.7, 0.2, 0.1], [0.1, 0.8, 0.1]])
        H = np.array([[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 1, 0]])
        assert binned_canonical_error([0, 1, 1], z, n_bins=2) == pytest.approx(
            np.abs(H - z).sum() / 3
        )

    def test_weights_count_as_repetition(self):
        y, z = draw(30, 3, raters=2)
        w = np.random.default_rng(0).integers(1, 4, size=30)
        a = binned_canonical_error(y, z, p=2, n_bins=3, sample_weight=w)
        assert a == pytest.approx(
            binned_canonical_error(np.repeat(y, w, axis=0), np.repeat(z, w, axis=0), p=2, n_bins=3)
        )

    def test_doane_is_numpys_rule(self):
        z = np.random.default_rng(0).beta(0.5, 2, size=500)
        z = z / z.max()
        from sklearn_lhcal.metrics._canonical_bins import _doane

        assert (
            _doane(z[:, None])
            == len(np.histogram_bin_edges(z - z.min(), bins="doane", range=(0, 1))) - 1
        )

    def test_errors(self):
        with pytest.raises(ValueError, match="n_bins must be a whole number"):
            binned_canonical_error([0, 1], [0.2, 0.7], n_bins=0)
        with pytest.raises(ValueError, match="n_bins must be a whole number"):
            binned_canonical_error([0, 1], [0.2, 0.7], n_bins="sturges")


class TestErrors:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"p": 0.5}, "p must be a number, 1 or more"),
            ({"p": "2"}, "p must be a number, 1 or more"),
            ({"p": 1, "bias_correction": "residual"}, "is an estimate for p = 2 only"),
            ({"p": 3, "bias_correction": "second_order"}, "is an estimate for p = 2 only"),
            (
                {"p": 2, "bias_correction": "tin"},
                "bias_correction must be 'residual', 'second_order' or None",
            ),
            ({"notion": "classwise"}, "notion must be one of canonical, marginal, top_label"),
            ({"bandwidth": 0.0}, "bandwidth must be 'loo', 'cv' or a positive number"),
            ({"bandwidth": "scott"}, "bandwidth must be 'loo', 'cv' or a positive number"),
        ],
    )
    def test_options(self, options, message):
        y, z = draw(5, 3)
        with pytest.raises(ValueError, match=message):
            kernel_calibration_error(y, z, **options)

    def test_too_few_rows(self):
        with pytest.raises(ValueError, match="needs 2 rows at least, got 1"):
            kernel_calibration_error([0], [[0.5, 0.5]], bandwidth=0.1)
        with pytest.raises(ValueError, match="needs 3 rows at least, got 2"):
            kernel_calibration_error([0, 1], [[0.5, 0.5], [0.4, 0.6]], bandwidth=0.1, **RESIDUAL)

    def test_lengths_and_shapes(self):
        y, z = draw(5, 3)
        with pytest.raises(ValueError, match="5"):
            kernel_calibration_error(y[:4], z, bandwidth=0.1)

    def test_equal_predictions_have_no_density(self):
        with pytest.raises(ValueError, match="All predictions are equal"):
            kernel_calibration_error([0, 1], [[0.5, 0.5], [0.5, 0.5]])

    def test_bad_grid_and_sharpness_options(self):
        with pytest.raises(ValueError, match="positive bandwidths"):
            loo_bandwidth([0.1, 0.2], grid=[0.0])
        with pytest.raises(ValueError, match="must be 'ratio' or None"):
            kernel_sharpness([0, 1, 1], [0.2, 0.4, 0.5], bias_correction="residual")

    @pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without CUDA")
    def test_cuda_asked_for_and_absent(self):
        with pytest.raises(ValueError, match="sees no CUDA device"):
            kernel_calibration_error([0, 1], [0.2, 0.4], bandwidth=0.1, device="cuda")

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
    def test_cuda_agrees(self):
        y, z = draw(100, 4)
        a = kernel_calibration_error(y, z, bandwidth=0.1, device="cuda")
        assert a == pytest.approx(kernel_calibration_error(y, z, bandwidth=0.1), rel=1e-9)


class Tempered(ClassifierMixin, BaseEstimator):
    """Probabilities, sharpened."""

    def __init__(self, temperature=1.0):
        self.temperature = temperature

    def fit(self, X, y):
        self.classes_ = np.arange(X.shape[1])
        return self

    def predict_proba(self, X):
        z = np.asarray(X) ** (1 / self.temperature)
        return z / z.sum(axis=1, keepdims=True)

    def predict(self, X):
        return self.predict_proba(X).argmax(axis=1)


@pytest.mark.parametrize("notion", NOTIONS)
def test_a_search_over_temperatures_finds_that_of_calibrated_predictions(notion):
    y, z = draw(1500, 4, raters=2, seed=5)
    search = GridSearchCV(
        Tempered(),
        {"temperature": [0.4, 0.6, 1.0, 1.5, 2.0]},
        scoring=f"neg_kernel_{notion}_error",
        cv=3,
    ).fit(z, y)
    assert search.best_params_ == {"temperature": 1.0}


def test_the_scorer_is_the_metric_at_a_fixed_bandwidth():
    y, z = draw(50, 3)
    value = get_scorer("neg_kernel_canonical_error")(Tempered().fit(z, y), z, y)
    assert value == pytest.approx(
        -kernel_calibration_error(y, z, bandwidth=0.05, **RESIDUAL), rel=1e-12
    )


def test_an_interval_by_the_jackknife():
    y, z = draw(300, 3, temperature=0.5)
    interval = confidence_interval(
        kernel_calibration_error, y, z, bandwidth=0.05, random_state=0, **RESIDUAL
    )
    assert interval.low < interval.estimate < interval.high
