"""The exact variance over rows and raters, of ratings and of pairs of them.

It imports a private module: sums over dependent ratings stand below the metrics that use them.
"""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from rater_oracles import pairs_of, ratings_of, two_way_variance

from sklearn_lhcal._ground.two_way import dependent_pairs, pairs_within, squares
from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import confidence_interval, expected_accuracy, irreducible_loss

IMRMC = Path(__file__).parent / "data" / "imrmc_crossed.npz"


def dependent_ratings(U, row, rater, index, n_bins):
    """Q = Σ_i U_i.² + Σ_r U_r.² − Σ_ir U_ir² of ratings, by bin."""
    cell = row * (rater.max() + 1) + rater
    by_row, by_rater, by_cell = (squares(U, unit, index, n_bins) for unit in (row, rater, cell))
    return by_row + by_rater - by_cell


def of_ratings(matrix):
    """(mean, variance) by sums over rows, raters and cells."""
    row, rater = np.nonzero(~np.isnan(matrix))
    x = matrix[row, rater]
    c = np.full(len(x), 1 / len(x))
    T = c @ x
    index = np.zeros(len(x), dtype=int)
    Q, D = (dependent_ratings(U, row, rater, index, 1)[0] for U in (c * (x - T), c))
    return T, Q / (1 - D)


def of_pairs(matrix):
    """The same of the disagreement of pairs."""
    row, rater = np.nonzero(~np.isnan(matrix))
    indptr = np.append(0, np.cumsum((~np.isnan(matrix)).sum(axis=1)))
    a, b = pairs_within(indptr)
    x = (matrix[row[a], rater[a]] != matrix[row[b], rater[b]]).astype(float)
    c = np.full(len(x), 1 / len(x))
    T = c @ x
    index = np.zeros(len(x), dtype=int)
    raters, cells = rater[np.stack([a, b])], np.stack([a, b])
    both = np.stack([c * (x - T), c])
    Q, D = dependent_pairs(both, row[a], raters, cells, index, 1)[:, 0]
    # rows as groups of one
    grouped = dependent_pairs(both, row[a], raters, None, index, 1)[:, 0]
    assert_allclose(grouped, [Q, D], rtol=1e-12)
    return T, Q / (1 - D)


def study(missing, n=12, R=5, seed=0):
    rng = np.random.default_rng(seed)
    matrix = rng.integers(0, 3, (n, R)).astype(float)
    matrix[rng.random((n, R)) < missing] = np.nan
    return matrix


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_sums_are_those_over_all_dependent_terms(missing):
    matrix = study(missing)
    assert_allclose(of_ratings(matrix), two_way_variance(ratings_of(matrix)), rtol=1e-12)
    pairs = pairs_of(matrix, lambda x, y: float(x != y))
    assert_allclose(of_pairs(matrix), two_way_variance(pairs), rtol=1e-12)


def test_it_is_what_imrmc_returns():
    """FDA's iMRMC on its own fixture: two modalities and their difference."""
    with np.load(IMRMC) as published:
        A, B = published["kernel_A"], published["kernel_B"]
        expected = np.column_stack([published["mean"], published["var"]])
    assert_allclose([of_ratings(x) for x in (A, B, A - B)], expected, rtol=1e-12)


def test_of_a_crossed_design_it_is_the_analysis_of_variance():
    """Var of the mean = sem² of rows + sem² of raters − MSE/(nR)."""
    x = study(0.0, n=20)
    n, R = x.shape
    rows, raters = x.mean(axis=1), x.mean(axis=0)
    residual = x - rows[:, None] - raters + x.mean()
    mse = (residual**2).sum() / ((n - 1) * (R - 1))
    expected = rows.var(ddof=1) / n + raters.var(ddof=1) / R - mse / (n * R)
    assert_allclose(of_ratings(x)[1], expected, rtol=1e-12)


def test_bins_are_apart():
    """Terms of different bins never meet."""
    x = study(0.2, n=30)
    row, rater = np.nonzero(~np.isnan(x))
    U = np.random.default_rng(0).normal(size=len(row))
    index = row % 3
    together = dependent_ratings(U, row, rater, index, 3)
    for b in range(3):
        kept = index == b
        alone = dependent_ratings(U[kept], row[kept], rater[kept], np.zeros(kept.sum(), int), 1)
        assert_allclose(together[b], alone[0], rtol=1e-12)


@pytest.mark.parametrize("metric", [expected_accuracy, irreducible_loss])
def test_the_jackknife_is_near_the_exact_variance(metric):
    """The three jackknives of a crossed design, up to terms of order 1/n and 1/R."""
    rng = np.random.default_rng(1)
    n, R = 300, 12
    tilt = rng.normal(size=R)
    x = (rng.normal(size=(n, 1)) + tilt + rng.logistic(size=(n, R)) > 0).astype(float)
    exact = of_pairs(x)
    proba = None
    if metric is expected_accuracy:
        exact = of_ratings(x)
        proba = np.tile([0.2, 0.8], (n, 1))
    y = Annotations.from_matrix(x.astype(int))
    found = confidence_interval(metric, y, proba, n_blocks=n, random_state=0)
    assert found.estimate == pytest.approx(exact[0], rel=1e-12)
    # one jackknife of pairs is wider by 1/R, about
    assert found.standard_error == pytest.approx(np.sqrt(exact[1]), rel=0.1)
