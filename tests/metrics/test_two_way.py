"""The jackknives over rows and raters beside the exact variance of a crossed design."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from rater_oracles import (
    mean_of_rows,
    pair_mean_of_rows,
    pairs_of,
    ratings_of,
    reach_over_raters,
    two_way_variance,
)

from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import confidence_interval, expected_accuracy, irreducible_loss


def study(n, R, seed):
    rng = np.random.default_rng(seed)
    tilt = rng.normal(size=R)
    return (rng.normal(size=(n, 1)) + tilt + rng.logistic(size=(n, R)) > 0).astype(float)


@pytest.mark.filterwarnings("ignore:.*the standard error (may be too small|is 0)")
def test_of_a_crossed_design_it_is_the_analysis_of_variance():
    """Var of the mean = sem² of rows + sem² of raters − MSE/(nR)."""
    x = study(20, 5, 0)
    n, R = x.shape
    rows, raters = x.mean(axis=1), x.mean(axis=0)
    residual = x - rows[:, None] - raters + x.mean()
    mse = (residual**2).sum() / ((n - 1) * (R - 1))
    expected = rows.var(ddof=1) / n + raters.var(ddof=1) / R - mse / (n * R)
    assert_allclose(two_way_variance(ratings_of(x))[1], expected, rtol=1e-12)
    # the three jackknives are its three parts; that of cells counts the residuals alone
    y = Annotations.from_matrix(x.astype(int))
    z = np.tile([0.2, 0.8], (n, 1))
    found = confidence_interval(expected_accuracy, y, z, n_blocks=n, random_state=0)
    parts = found.components
    assert parts.rows == pytest.approx(rows.var(ddof=1) / n, rel=1e-10)
    assert parts.raters == pytest.approx(raters.var(ddof=1) / R, rel=1e-10)


@pytest.mark.parametrize("metric", [expected_accuracy, irreducible_loss])
def test_the_jackknife_is_near_the_exact_variance(metric):
    """The three jackknives of a crossed design, up to terms of order 1/n and 1/R."""
    x = study(40, 10, 1)
    terms = pairs_of(x, lambda a, b: float(a != b))
    proba = None
    if metric is expected_accuracy:
        terms = ratings_of(x)
        proba = np.tile([0.2, 0.8], (40, 1))
    mean, variance = two_way_variance(terms)
    y = Annotations.from_matrix(x.astype(int))
    found = confidence_interval(metric, y, proba, n_blocks=40, random_state=0)
    assert found.estimate == pytest.approx(mean, rel=1e-12)
    # a jackknife of pairs is wider, by terms of order 1/R
    rows, raters, cells = found.components
    assert 0.9 < np.sqrt((rows + max(raters - cells, 0)) / variance) < 1.35
    # the scale of Student's t is that of few degrees of freedom
    assert 0.9 < found.standard_error / np.sqrt(variance) < 1.6


def gaps(design, n, R, seed=0):
    """The same, of which raters give some."""
    x = study(n, R, seed)
    rng = np.random.default_rng(seed)
    seen = np.ones((n, R), dtype=bool)
    if design == "heavy":
        seen[:, 1:] = rng.random((n, R - 1)) < 0.3
        seen[np.arange(n), 1 + np.arange(n) % (R - 1)] = True
        seen[rng.random(n) < 0.2, 0] = False
    if design == "star":
        seen[:, 1:] = np.arange(n)[:, None] % (R - 1) == np.arange(R - 1)
    return np.where(seen, x, np.nan)


def said(x):
    return Annotations.from_matrix(
        [[None if np.isnan(a) else int(a) for a in row] for row in x], classes=[0, 1]
    )


@pytest.mark.filterwarnings("ignore:There are only 4 raters", "ignore:The 5 raters are worth")
@pytest.mark.parametrize(("n", "R"), [(30, 4), (30, 6)])
@pytest.mark.parametrize("design", ["all", "heavy", "star"])
@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("metric", [expected_accuracy, irreducible_loss])
def test_the_interval_is_the_quantile_of_the_mixture(metric, level, design, n, R):
    """Student's t of the posterior's log-variance beside the mixture over it, by integration."""
    if design == "star" and metric is irreducible_loss:
        R += 1  # the one who reads all cannot be left out
    x = gaps(design, n, R)
    value, least = (mean_of_rows, 1) if metric is expected_accuracy else (pair_mean_of_rows, 2)
    proba = np.tile([0.2, 0.8], (n, 1)) if metric is expected_accuracy else None
    found = confidence_interval(
        metric, said(x), proba, confidence_level=level, n_blocks=n, random_state=0
    )
    assert found.estimate == pytest.approx(value(x))
    reach = reach_over_raters(x, value, least, level)
    # both metrics are 1 at most
    reach = min(reach, 1 - found.estimate)
    assert found.high - found.estimate == pytest.approx(reach, rel=0.03)


@pytest.mark.filterwarnings("ignore:All 40 samples or groups have the same irreducible_loss")
def test_raters_who_say_the_same_add_nothing():
    """Of no labels that differ within samples no variance of raters follows."""
    x = np.repeat(study(40, 1, 0), 5, axis=1)
    y, z = said(x), np.tile([0.2, 0.8], (40, 1))
    new, these = (
        confidence_interval(expected_accuracy, y, z, raters=raters, random_state=0)
        for raters in ("random", "fixed")
    )
    assert_allclose(new, these, rtol=1e-12)
    assert confidence_interval(irreducible_loss, y, None, random_state=0).standard_error == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The 6 raters are worth")
@pytest.mark.parametrize("design", ["heavy", "star"])
@pytest.mark.parametrize("metric", [expected_accuracy, irreducible_loss])
def test_unbalanced_raters_cover(metric, design):
    """Nominal .95 where one of six gives half of the labels, each rater with her own threshold."""
    runs, n = 200, 120
    z = np.tile([0.2, 0.8], (n, 1))
    # of many samples with raters of their own: P(1) = ½; P(two differ) by simulation
    rng = np.random.default_rng(10**6)
    u = rng.normal(size=(400_000, 1))
    pair = (u + rng.normal(size=(400_000, 2)) + rng.logistic(size=(400_000, 2)) > 0).astype(int)
    truth = 0.5 if metric is expected_accuracy else (pair[:, 0] != pair[:, 1]).mean()
    covered = 0
    for seed in range(runs):
        found = confidence_interval(metric, said(gaps(design, n, 6, seed)), z, random_state=seed)
        covered += found.low <= truth <= found.high
    assert covered / runs >= 0.95 - 2.5 * np.sqrt(0.95 * 0.05 / runs)
