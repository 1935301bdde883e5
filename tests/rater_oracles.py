"""Slow and obvious variances over rows and raters, for tests to compare with."""

from itertools import combinations

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import t as student


def ratings_of(matrix):
    """Terms of a mean over ratings: {row, rater} and the value of each; gaps are NaN."""
    return [
        ({("row", i), ("rater", r)}, matrix[i, r])
        for i, r in zip(*np.nonzero(~np.isnan(matrix)), strict=True)
    ]


def pairs_of(matrix, kernel):
    """Terms of a mean over pairs of ratings of one row."""
    terms = []
    for i, row in enumerate(matrix):
        for r, s in combinations(np.flatnonzero(~np.isnan(row)), 2):
            terms.append(({("row", i), ("rater", r), ("rater", s)}, kernel(row[r], row[s])))
    return terms


def two_way_variance(terms):
    """(mean, Q/(1 − D)): products of all terms that share a row or a rater, one by one."""
    c = 1 / len(terms)
    T = c * sum(x for _, x in terms)
    Q = D = 0.0
    for one, x in terms:
        for other, y in terms:
            if one & other:
                Q += c * (x - T) * c * (y - T)
                D += c * c
    return T, Q / (1 - D)


def mean_of_rows(matrix):
    """The mean of the rows' means; gaps are NaN, and rows of gaps do not count."""
    seen = matrix[~np.isnan(matrix).all(axis=1)]
    return np.nanmean(seen, axis=1).mean()


def pair_mean_of_rows(matrix):
    """The mean over rows with two ratings or more of how often two of them differ."""
    rows = (row[~np.isnan(row)] for row in matrix)
    each = [
        np.mean([a != b for a, b in combinations(row.tolist(), 2)]) for row in rows if len(row) > 1
    ]
    return np.mean(each) if each else np.nan


def rater_shares(matrix, least):
    """The share of each rater in a mean over the rows with so many ratings."""
    seen = ~np.isnan(matrix)
    seen[seen.sum(axis=1) < least] = False
    n = seen.sum(axis=1, keepdims=True)
    return (seen / np.maximum(n, 1)).sum(axis=0) / max((n > 0).sum(), 1)


def without_rater(matrix, r):
    """The matrix with gaps in place of her ratings."""
    left = matrix.copy()
    left[:, r] = np.nan
    return left


def row_jackknife(value, matrix):
    """(n − 1)/n Σ_i (value without row i − their mean)²."""
    n = len(matrix)
    left = np.array([value(np.delete(matrix, i, axis=0)) for i in range(n)])
    return (n - 1) / n * ((left - left.mean()) ** 2).sum()


def reach_over_raters(matrix, value, least, level, few=5):
    """Half the width of an interval of a mean over rows and raters with a posterior of σ².

    By the quantile of the mixture of Student's t over the posterior, integrated numerically.
    """
    n, R = matrix.shape
    c = rater_shares(matrix, least)
    labels = (~np.isnan(matrix)).sum(axis=0)
    sq, R_r, shape, alike, m = [], [], [], [], []
    for r in range(R):
        left = without_rater(matrix, r)
        if np.isnan(value(left)):
            continue
        moved = (c - rater_shares(left, least)) ** 2
        shape.append(moved.sum())
        alike.append((moved / labels).sum())
        m.append(labels[r])
        sq.append((value(matrix) - value(left)) ** 2 / moved.sum())
        R_r.append(row_jackknife(lambda x, r=r: value(x) - value(without_rater(x, r)), matrix))
    sq, R_r, shape, alike, m = map(np.array, (sq, R_r, shape, alike, m))
    R_r = (m * R_r + few * alike * R_r.sum() / alike.sum()) / (m + few)
    noise = R_r / shape
    nu = len(noise) / (1 / noise).sum() / 5
    power = (len(sq) - 1) / len(sq)

    def density(u):
        E = np.exp(u) - nu + noise
        return np.exp(-power / 2 * (np.log(E / noise.mean()) + sq / E).sum())

    ends = np.log(nu), np.log(nu + 100 * (sq + noise).max())
    V_row = row_jackknife(value, matrix)

    def beyond(reach):
        def of(u):
            V = V_row + (c**2).sum() * (np.exp(u) - nu)
            return 2 * student.sf(reach / np.sqrt(V), n - 1) * density(u)

        return quad(of, *ends, epsrel=1e-8)[0] / quad(density, *ends, epsrel=1e-8)[0]

    return brentq(lambda reach: beyond(reach) - (1 - level), 1e-6, 100 * np.sqrt(V_row))
