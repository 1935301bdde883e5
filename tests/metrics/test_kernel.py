"""Kernel calibration errors: the formula written out, exact enumeration, limits, simulation.

The sums of kernels are private: blocks are made small, to cross their edges with few rows.
"""

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import (
    KINDS,
    RESIDUAL,
    SECOND,
    draw,
    kernel_calibration_error,
    naive_log_kernels,
    naive_problems,
)
from oracles import expectation
from scipy.stats import beta, dirichlet
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import GridSearchCV

from sklearn_lhcal import metrics
from sklearn_lhcal._utils.kernels import smoothing as _sums
from sklearn_lhcal.distributions import Dirichlet as DirichletDistribution
from sklearn_lhcal.label_histogram import KnownProbabilities
from sklearn_lhcal.metrics import confidence_interval, get_scorer


def log_kernels(x, h):
    return _sums.log_kernels(x, h, _sums.log_normaliser(x, h))


def naive(y, z, kind, h, p=1, estimate=None):
    """The estimates with every sum written out; kernels divided by their largest in the row."""
    mu = y / y.sum(axis=1, keepdims=True)
    total = 0.0
    for x, predicted, target in naive_problems(kind, z, mu):
        L = naive_log_kernels(x, h)
        for j in range(len(x)):
            others = np.arange(len(x)) != j
            k = np.exp(L[j, others] - L[j, others].max())
            e = (target - predicted)[others]
            if estimate is None:
                r = (k[:, None] * target[others]).sum(axis=0) / k.sum()
                total += (np.abs(r - predicted[j]) ** p).sum()
                continue
            kk = np.outer(k, k)
            np.fill_diagonal(kk, 0.0)
            s2 = np.einsum("il,ic,lc->", kk, e, e) / kk.sum()
            s1 = ((target - predicted)[j] * (k[:, None] * e).sum(axis=0) / k.sum()).sum()
            total += s2 if estimate == "residual" else 2 * s1 - s2
    return total / len(z)


# of 61 classes two raters always name different ones
@pytest.mark.filterwarnings("ignore:y holds only 0 and 1:UserWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("K", "n"), [(2, 200), (3, 60), (10, 60), (61, 30)])
def test_agrees_with_the_formula_written_out(kind, K, n):
    y, z = draw(n, K, raters=2, temperature=0.6, concentration=0.5)
    for h, p in [(1e-4, 1), (0.01, 1), (0.1, 2), (1.0, 3.5)]:
        value = kernel_calibration_error(y, z, kind=kind, p=p, bandwidth=h)
        assert value == pytest.approx(naive(y, z, kind, h, p), rel=1e-10)
    for estimate in ("residual", "second_order"):
        value = kernel_calibration_error(
            y, z, kind=kind, p=2, bandwidth=0.1, bias_correction=estimate
        )
        assert value == pytest.approx(naive(y, z, kind, 0.1, estimate=estimate), abs=1e-10)


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
    _, L = next(log_kernels(torch.as_tensor(z), 0.2))
    assert L[1, 3].item() == pytest.approx(dirichlet.logpdf(z[1], z[3] / 0.2 + 1), rel=1e-12)
    b = torch.as_tensor(np.c_[z[:, 0], 1 - z[:, 0]])
    _, L = next(log_kernels(b, 0.2))
    assert L[1, 3].item() == pytest.approx(
        beta.logpdf(z[1, 0], z[3, 0] / 0.2 + 1, (1 - z[3, 0]) / 0.2 + 1), rel=1e-12
    )
    assert L.diagonal().tolist() == [-np.inf] * 5


@pytest.mark.parametrize("options", [RESIDUAL, SECOND])
@pytest.mark.parametrize("kind", ["canonical", "marginal"])
def test_corrected_errors_have_mean_zero_for_a_calibrated_predictor_by_enumeration(options, kind):
    z = np.random.default_rng(2).dirichlet([1.0, 0.5, 2.0], size=4)

    def metric(y):
        return kernel_calibration_error(y, z, kind=kind, bandwidth=0.1, **options)

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


@pytest.mark.slow
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
    assert value == metrics.kernel_calibration_error(y, z, bandwidth="cv")
    null = metrics.null_calibration_error(y, z, n_draws=5)
    value = metrics.kernel_calibration_error(y, z, bandwidth=null.bandwidth)
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


@pytest.mark.parametrize("kind", KINDS)
def test_rows_and_classes_may_be_permuted(kind):
    y, z = draw(60, 4, raters=3, temperature=0.7)
    rows, classes = np.random.default_rng(0).permutation(60), [2, 0, 3, 1]
    for options in ({"p": 1}, RESIDUAL, SECOND):
        value = kernel_calibration_error(y, z, kind=kind, bandwidth=0.05, **options)
        turned = kernel_calibration_error(
            y[rows][:, classes], z[rows][:, classes], kind=kind, bandwidth=0.05, **options
        )
        assert turned == pytest.approx(value, rel=1e-11)


@pytest.mark.parametrize("options", [{"p": 1}, {"p": 3}, RESIDUAL, SECOND])
@pytest.mark.parametrize("kind", KINDS)
def test_results_do_not_depend_on_the_block(monkeypatch, kind, options):
    y, z = draw(400, 3, temperature=0.7, concentration=0.5)
    for h in (1e-3, 0.05, 1.0):
        values = []
        for block in (2**30, 400 * 37, 1):
            monkeypatch.setattr(_sums, "BLOCK", block)
            values.append(kernel_calibration_error(y, z, kind=kind, bandwidth=h, **options))
        assert values == pytest.approx([values[0]] * 3, rel=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_binary_predictions_may_be_a_column(kind):
    y, z = draw(40, 2, raters=2)
    a = kernel_calibration_error(y, z[:, 1], kind=kind, bandwidth=0.1)
    assert a == pytest.approx(kernel_calibration_error(y, z, kind=kind, bandwidth=0.1), rel=1e-12)


def test_two_classes_canonical_and_marginal_sum_both_columns_and_the_top_label_is_one():
    y, z = draw(50, 2, temperature=0.5)
    canonical, marginal, top = (
        kernel_calibration_error(y, z, kind=v, p=2, bandwidth=0.1) for v in KINDS
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
    for kind in KINDS:
        arguments = {"kind": kind, "bandwidth": 0.05, **options}
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
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 10_000),
)
def test_corners_ties_and_absent_classes_stay_finite(n, K, h, kind, seed):
    rng = np.random.default_rng(seed)
    z = rng.dirichlet(np.full(K, 0.2), size=n)
    z[rng.random(n) < 0.3] = np.eye(K)[0]
    z[-1] = z[0]
    y = np.zeros(n, dtype=int)  # all other classes absent
    for options in ({"p": 1}, {"p": 2.5}, RESIDUAL, SECOND):
        value = kernel_calibration_error(y, z, kind=kind, bandwidth=h, **options)
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


@pytest.mark.parametrize("kind", KINDS)
def test_a_search_over_temperatures_finds_that_of_calibrated_predictions(kind):
    y, z = draw(1500, 4, raters=2, seed=5)
    search = GridSearchCV(
        Tempered(),
        {"temperature": [0.4, 0.6, 1.0, 1.5, 2.0]},
        scoring=f"neg_kernel_{kind}_error",
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


def test_certain_predictions_that_are_right():
    """Drawn labels are then the labels, with several raters too."""
    z = np.eye(3)[np.arange(12) % 3]
    null = metrics.null_calibration_error((2 * z).astype(int), z, bandwidth=0.1, n_draws=5)
    assert null.estimate == null.mean == 0
    assert null.p_value == 1
