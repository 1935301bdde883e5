"""Slow and obvious variances over rows and raters, for tests to compare with."""

from itertools import combinations

import numpy as np


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
