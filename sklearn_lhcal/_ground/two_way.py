"""Sums over ratings that depend on each other, because they share a row or a rater.

With T = Σ_t c_t x_t over ratings t, or over pairs of ratings of one row, the products of any two
terms that depend on each other add up to Q = Σ U_t U_t'. From Q follow the variance of T over rows
and raters, and the mean of products of terms that are independent. All sums are taken bin by bin.
"""

import numpy as np
from numpy.typing import NDArray

from .arrays import Floats, Indices

# cells that are summed in place, however few values there are
_DENSE = 2**20


def squares(values: NDArray, codes: NDArray, index: NDArray, n_bins: int) -> Floats:
    """Σ_c (Σ_{t∈c} v_t)² over the units c that values belong to, by bin, shape (n_bins,).

    `codes` are the units, `index` the bins, both of shape (n_values,).
    """
    if not len(values):
        return np.zeros(n_bins)
    cell = codes * n_bins + index
    size = (int(codes.max()) + 1) * n_bins
    if size <= len(values) + _DENSE:
        sums = np.bincount(cell, weights=values, minlength=size)
        return (sums.reshape(-1, n_bins) ** 2).sum(axis=0)
    # units and bins that occur together: at most as many as there are values
    cells, cell = np.unique(cell, return_inverse=True)
    sums = np.bincount(cell, weights=values)
    return np.bincount(cells % n_bins, weights=sums**2, minlength=n_bins).astype(np.float64)


def dependent_ratings(
    U: NDArray, row: NDArray, rater: NDArray, index: NDArray, n_bins: int
) -> Floats:
    """Q = Σ_i U_i.² + Σ_r U_r.² − Σ_ir U_ir² of ratings, by bin, shape (n_bins,).

    `row` may be the group of the row: ratings of one group and rater are then one cell.
    """
    cell = row * (int(rater.max(initial=0)) + 1) + rater
    by_row, by_rater, by_cell = (squares(U, c, index, n_bins) for c in (row, rater, cell))
    return by_row + by_rater - by_cell


def dependent_pairs(
    U: NDArray, row: NDArray, r: NDArray, s: NDArray, index: NDArray, n_bins: int
) -> Floats:
    """The same of pairs of ratings of one row, by raters r and s, by bin, shape (n_bins,).

    Q = Σ_i U_i..² + [Σ_r A_r² − Σ_{r<s} B_rs²] − [Σ_ir A_ir² − Σ_{i,r<s} U_irs²]: A_r and A_ir are
    sums over the pairs that hold r, B_rs over the rows of a pair of raters.
    """
    R = int(max(r.max(initial=0), s.max(initial=0))) + 1
    both = np.minimum(r, s) * R + np.maximum(r, s)
    # each pair once for each of its raters
    UU = np.concatenate([U, U])
    one = np.concatenate([r, s])
    row_one = np.concatenate([row, row]) * R + one
    bins = np.concatenate([index, index])
    by_rater = squares(UU, one, bins, n_bins) - squares(U, both, index, n_bins)
    # rows and pairs that occur together, numbered: their product may exceed 64 bits
    pair = np.unique(both, return_inverse=True)[1]
    row_pair = row * (int(pair.max(initial=0)) + 1) + pair
    by_cell = squares(UU, row_one, bins, n_bins) - squares(U, row_pair, index, n_bins)
    return squares(U, row, index, n_bins) + by_rater - by_cell


def pairs_within(indptr: NDArray) -> tuple[Indices, Indices]:
    """Both places of every pair of ratings of one row, shape (n_pairs,) each.

    `indptr` says where the ratings of each row begin, shape (n + 1,).
    """
    n = np.diff(indptr)
    first, second = [], []
    for lag in range(1, int(n.max(initial=0))):
        # ratings that are followed by so many others of their row
        left = np.maximum(n - lag, 0)
        start = np.repeat(indptr[:-1] - np.cumsum(left) + left, left)
        place = start + np.arange(left.sum())
        first.append(place)
        second.append(place + lag)
    nothing = [np.zeros(0, np.intp)]
    return np.concatenate(first or nothing), np.concatenate(second or nothing)
