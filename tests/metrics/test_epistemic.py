"""Epistemic uncertainty: the gain of labels, its calibration error and the null level."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest, multinomial, spearmanr
from sklearn.exceptions import UndefinedMetricWarning

from sklearn_lhcal.label_histogram import KnownProbabilities
from sklearn_lhcal.metrics import (
    accuracy_gain,
    epistemic_calibration_error,
    epistemic_correlation,
    expected_accuracy,
    gain_curve,
    null_epistemic_error,
)

RNG = np.random.default_rng(0)


# --- gain ---


def all_counts(n, K):
    return np.array([c for c in product(range(n + 1), repeat=K) if sum(c) == n])


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_gains_expectation_is_the_epistemic_uncertainty(n):
    """By enumeration of all label histograms; the variance falls as 1/n."""
    Q = np.array([0.5, 0.3, 0.2])
    counts = all_counts(n, 3)
    p = multinomial.pmf(counts, n, Q)
    for pred, best in product(range(3), range(3)):
        g = accuracy_gain(counts, np.full(len(p), pred), np.full(len(p), best))
        assert p @ g == pytest.approx(Q[best] - Q[pred], abs=1e-12)
        one_label = Q[best] + Q[pred] - (Q[best] - Q[pred]) ** 2 if best != pred else 0
        assert p @ g**2 - (p @ g) ** 2 == pytest.approx(one_label / n, abs=1e-12)


def test_the_gain_of_labels_is_that_of_the_definition():
    y, pred, best = (np.array(a) for a in zip(*product("abc", repeat=3), strict=True))
    expected = (best == y).astype(int) - (pred == y)
    assert_array_equal(accuracy_gain(y, pred, best), expected)
    numbers = {"a": 3, "b": 5, "c": 9}
    y, pred, best = (np.array([numbers[v] for v in a]) for a in (y, pred, best))
    assert_array_equal(accuracy_gain(y, pred, best), expected)
    assert_array_equal(accuracy_gain(pd.Series(y), pred.tolist(), best.astype(float)), expected)


def test_the_gain_of_histograms():
    counts = RNG.multinomial(4, [0.5, 0.3, 0.2], size=50)
    pred, best = RNG.integers(0, 3, (2, 50))
    g, eye = accuracy_gain(counts, pred, best), np.eye(3)
    assert g.mean() == pytest.approx(
        expected_accuracy(counts, eye[best]) - expected_accuracy(counts, eye[pred])
    )
    names, order = np.array(["u", "v", "w"]), [2, 0, 1]
    frame = pd.DataFrame(counts, columns=names)
    assert_allclose(accuracy_gain(frame, names[pred], names[best]), g)
    assert_allclose(accuracy_gain(frame[names[order]], names[pred], names[best]), g)
    assert_allclose(
        accuracy_gain(counts[:, order], names[pred], names[best], classes=names[order]), g
    )
    assert_allclose(accuracy_gain(KnownProbabilities(counts / 4), pred, best), g)
    rows = RNG.permutation(50)
    assert_allclose(accuracy_gain(counts[rows], pred[rows], best[rows]), g[rows])
    assert_allclose(accuracy_gain(counts, best, pred), -g)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["a", "b"], ["a"], ["a", "b"]), "y_pred has 1 samples, expected 2"),
        ((["a", "b"], ["a", "b"], [0, 1]), "must hold the same classes"),
        (
            ([[1, 0], [0, 1]], [0, 2], [0, 1]),
            "y_pred predicts .*2.* in sample 1, which is none of the classes",
        ),
        (([[1, 0], [0, 1]], [0, 1], ["a", "b"]), "y_reference predicts .*'a'.* in sample 0"),
        (
            ([[1, 0], [0, 1]], [[0.5, 0.5], [1, 0]], [0, 1]),
            "y_pred must be 1-D, got shape",
        ),
        (([[1, 0], [0, 0]], [0, 1], [0, 1]), "without labels"),
    ],
)
def test_errors_of_the_gain(arguments, message):
    with pytest.raises(ValueError, match=message):
        accuracy_gain(*arguments)


# --- calibration error ---


def draw(e, seed, disagree=0.3, raters=1):
    """Gains with expectation e: predictions disagree with probability max(e, disagree)."""
    rng = np.random.default_rng([seed, 1])
    d = np.maximum(e, disagree)
    up = rng.binomial(raters, (1 + e / d) / 2)
    return np.where(rng.uniform(size=len(e)) < d, 2 * up / raters - 1, 0.0)


def by_hand(g, e, n_bins, corrected=False):
    edges = np.quantile(e, np.linspace(0, 1, n_bins + 1))
    total = 0.0
    for m in range(n_bins):
        B = (e >= edges[m]) & ((e < edges[m + 1]) | (m == n_bins - 1))
        r = (g - e)[B]
        value = abs(r.mean()) if not corrected else r.mean() ** 2 - r.var(ddof=1) / len(r)
        total += len(r) / len(g) * value
    return total


def test_the_error_is_that_of_the_definition():
    e = RNG.uniform(0, 0.5, 200)
    g = draw(e, 0)
    for n_bins in (1, 5, 20):
        assert epistemic_calibration_error(g, e, n_bins=n_bins) == pytest.approx(
            by_hand(g, e, n_bins)
        )
        corrected = epistemic_calibration_error(g, e, n_bins=n_bins, bias_correction="residual")
        assert corrected == pytest.approx(by_hand(g, e, n_bins, corrected=True))
    assert epistemic_calibration_error(g, e, n_bins=1) == pytest.approx(abs(g.mean() - e.mean()))
    rows = RNG.permutation(200)
    assert epistemic_calibration_error(g[rows], e[rows]) == pytest.approx(
        epistemic_calibration_error(g, e)
    )
    assert epistemic_calibration_error(g, e, n_bins=[0, 0.2, 0.5]) == pytest.approx(
        np.mean(e < 0.2) * abs((g - e)[e < 0.2].mean())
        + np.mean(e >= 0.2) * abs((g - e)[e >= 0.2].mean())
    )
    uniform = epistemic_calibration_error(
        g, e, n_bins=2, strategy="uniform"
    )  # all in the lower half of [0, 1]
    assert uniform == pytest.approx(abs(g.mean() - e.mean()))


@pytest.mark.parametrize("bias_correction", [None, "residual"])
def test_bins_of_another_estimate(bias_correction):
    """P3 §5.2: a calibrated estimate in the bins of the uncalibrated one, as `gain_curve` has it.

    Of an increasing function of the estimate the bins are its own. A constant estimate has one bin
    of its own, in which it seems calibrated.
    """
    rng = np.random.default_rng(0)
    e = rng.uniform(0, 0.5, 600)
    g, c = (rng.uniform(size=600) < e).astype(float), e / 2
    how = {"n_bins": 6, "bias_correction": bias_correction}
    curve = gain_curve(g, e, calibrated=c, n_bins=6)
    squares = (curve.mean_gain - curve.mean_calibrated) ** 2
    if bias_correction is None:
        expected = curve.bin_counts @ np.sqrt(squares) / 600
    else:
        m = np.searchsorted(np.quantile(e, np.linspace(0, 1, 7))[1:-1], e, side="right")
        s2 = np.array([np.var((g - c)[m == b], ddof=1) for b in range(6)])
        expected = (curve.bin_counts * squares - s2).sum() / 600
    found = epistemic_calibration_error(g, c, bins_of=e, **how)
    assert found == pytest.approx(expected, rel=1e-9)
    assert found == pytest.approx(epistemic_calibration_error(g, c, **how), rel=1e-9)
    assert found == epistemic_calibration_error(g, c, bins_of=np.exp(e), **how)
    constant = np.full(600, g.mean())
    in_one = epistemic_calibration_error(g, constant, **how)
    assert in_one < 0.002 < epistemic_calibration_error(g, constant, bins_of=e, **how)
    null = null_epistemic_error(g, constant, n_bins=6, bins_of=e, random_state=0)
    assert null.estimate == epistemic_calibration_error(g, constant, n_bins=6, bins_of=e)
    assert null.p_value < 0.01
    with pytest.raises(ValueError, match="bins_of must hold one estimate per sample"):
        epistemic_calibration_error(g, c, bins_of=e[1:])


def test_a_calibrated_estimate_tends_to_zero():
    errors = []
    for n in (500, 50_000):
        e = np.random.default_rng(n).uniform(0, 0.5, n)
        errors.append(np.mean([epistemic_calibration_error(draw(e, s), e) for s in range(20)]))
    assert errors[1] == pytest.approx(errors[0] / 10, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("raters", [1, 5])
def test_the_corrected_error_of_a_calibrated_estimate_has_mean_zero(raters):
    e = np.random.default_rng(0).uniform(0, 0.5, 60)
    values = np.array(
        [
            epistemic_calibration_error(draw(e, s, raters=raters), e, bias_correction="residual")
            for s in range(4000)
        ]
    )
    se = values.std() / np.sqrt(len(values))
    assert abs(values.mean()) < 4 * se
    plain = np.mean(
        [epistemic_calibration_error(draw(e, s, raters=raters), e) ** 2 for s in range(200)]
    )
    assert plain > 50 * se  # which the floor of the plain one is far above


def test_the_corrected_error_measures_miscalibration():
    e = np.random.default_rng(0).uniform(0, 0.3, 200)
    values = np.array(
        [
            epistemic_calibration_error(draw(e, s), e + 0.1, bias_correction="residual")
            for s in range(1000)
        ]
    )
    assert abs(values.mean() - 0.01) < 4 * values.std() / np.sqrt(1000)


def test_the_correlation_is_spearmans():
    e = RNG.uniform(0, 0.5, 300)
    g = draw(e, 1)
    assert epistemic_correlation(g, e) == pytest.approx(spearmanr(g, e).statistic, abs=1e-12)
    assert epistemic_correlation(g, e.round(1)) == pytest.approx(
        spearmanr(g, e.round(1)).statistic, abs=1e-12
    )
    assert epistemic_correlation(g, np.exp(3 * e)) == pytest.approx(
        epistemic_correlation(g, e), abs=1e-12
    )
    with pytest.warns(UndefinedMetricWarning, match="all 5 gains are 0"):
        assert np.isnan(epistemic_correlation(np.zeros(5), np.arange(5)))
    with pytest.warns(UndefinedMetricWarning, match="all 4 estimates are 1"):
        assert np.isnan(epistemic_correlation(np.array([0, 1, 0, -1]), np.ones(4)))


@pytest.mark.parametrize(
    "metric", [epistemic_calibration_error, epistemic_correlation, null_epistemic_error]
)
@pytest.mark.parametrize(
    ("g", "e", "message"),
    [
        ([], [], "not empty"),
        ([[0.0]], [[0.1]], "gain must have shape"),
        ([0, 1], [0.1], "one estimate per sample"),
        ([0, 2], [0.1, 0.2], "between -1 and 1"),
        ([0, np.nan], [0.1, 0.2], "between -1 and 1"),
        ([0, 1], [0.1, -0.2], "not negative"),
        ([0, 1], [0.1, np.inf], "finite"),
    ],
)
def test_errors_of_the_metrics(metric, g, e, message):
    with pytest.raises(ValueError, match=message):
        metric(g, e)


# --- null level ---


@pytest.mark.slow
@pytest.mark.parametrize(("disagree", "raters"), [(0.3, 1), (0.3, 4), (0.0, 1)])
def test_p_values_are_uniform_under_calibration(disagree, raters):
    p, error, mean = [], [], []
    for seed in range(300):
        e = np.random.default_rng(seed).uniform(0, 0.25, 600)
        null = null_epistemic_error(
            draw(e, seed, disagree, raters), e, n_bins=6, n_draws=99, random_state=seed
        )
        p.append(null.p_value)
        error.append(null.estimate)
        mean.append(null.mean)
    assert kstest(p, "uniform").pvalue > 1e-3
    assert abs(np.mean(mean) - np.mean(error)) < 4 * np.std(error) / np.sqrt(300)


@pytest.mark.slow
def test_p_values_are_uniform_in_bins_of_another_estimate():
    """A calibrated estimate of five values, in twenty bins of the estimate that it was made of."""
    p = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        e = rng.uniform(0, 0.4, 800)
        c = np.round(e, 1) / 2 + 0.02
        g = (rng.uniform(size=800) < c).astype(float)
        p.append(null_epistemic_error(g, c, bins_of=e, n_draws=99, random_state=seed).p_value)
    p -= np.random.default_rng(0).uniform(0, 0.01, 150)
    assert kstest(p, "uniform").pvalue > 1e-3


def test_the_null_level_of_a_study_of_usual_size():
    """5,000 samples and 20 bins: noise alone scores about .02."""
    e = np.random.default_rng(0).uniform(0, 0.25, 5000)
    null = null_epistemic_error(draw(e, 0, disagree=0.2), e, n_draws=200, random_state=0)
    assert 0.01 < null.quantiles[0] < null.quantiles[1] < null.quantiles[2] < 0.03
    assert null.quantiles[0] < null.mean < null.quantiles[2]
    assert null_epistemic_error(draw(e, 0), e + 0.1, n_draws=200, random_state=0).p_value == 1 / 201
    again = null_epistemic_error(draw(e, 0, disagree=0.2), e, n_draws=200, random_state=0)
    assert_array_equal(again.quantiles, null.quantiles)


def test_the_number_of_a_bin_makes_no_difference():
    """All estimates in the middle one of three, or in one alone."""
    e = np.random.default_rng(0).uniform(0.4, 0.6, 50)
    options = {"strategy": "uniform", "n_draws": 20, "random_state": 0}
    middle, alone = (
        null_epistemic_error(draw(e, 0), e, n_bins=n_bins, **options) for n_bins in (3, 1)
    )
    assert_allclose(middle.quantiles, alone.quantiles, rtol=1e-12)


def test_the_null_level_is_that_of_calibrated_estimates_with_few_rows_in_a_bin():
    """Ten rows a bin, of which one in twenty loses: the mean over 300 studies is known to 1 %."""
    rng = np.random.default_rng(5)
    null, scored = [], []
    for seed in range(300):
        e = rng.beta(1, 12, 200)
        gain = np.where(rng.random(200) < 0.05, -1, rng.random(200) < (e + 0.05) / 0.95)
        found = null_epistemic_error(gain, e, n_draws=10, random_state=seed)
        null.append(found.mean)
        scored.append(found.estimate)
    assert np.mean(null) == pytest.approx(np.mean(scored), rel=0.04)


def test_errors_of_the_null_level():
    with pytest.raises(ValueError, match=r"No gain exceeds 1, but the estimate reaches 1\.2"):
        null_epistemic_error([0, 1], [0.1, 1.2])
    with pytest.raises(ValueError, match="n_draws must be an int"):
        null_epistemic_error([0, 1], [0.1, 0.2], n_draws=0)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [0.0, 0.01, 0.03])
def test_size_of_the_null_where_few_gains_differ_from_0(loss):
    rejected = []
    for seed in range(400):
        rng = np.random.default_rng([seed, 3])
        e = rng.uniform(0, 0.03, 120)
        x = rng.random(120)
        g = (x < e + loss).astype(float) - (x > 1 - loss)
        p = null_epistemic_error(g, e, n_draws=300, random_state=seed).p_value
        rejected.append(p <= 0.05)
    assert np.mean(rejected) < 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / 400)
