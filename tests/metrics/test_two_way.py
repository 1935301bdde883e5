"""The jackknives over rows and raters beside the exact variance of a crossed design."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from rater_oracles import pairs_of, ratings_of, two_way_variance

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
    assert 0.9 < found.standard_error / np.sqrt(variance) < 1.35
