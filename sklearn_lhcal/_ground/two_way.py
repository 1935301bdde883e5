"""Sums over ratings that depend on each other, because they share a row or a rater.

With T = Σ_t c_t x_t over ratings t, or over pairs of ratings of one row, the products of any two
terms that depend on each other add up to Q = Σ U_t U_t'. Of ratings Q = Σ_i U_i.² + Σ_r U_r.² −
Σ_ir U_ir², of rows, raters and cells. From Q follow the variance of T over rows and raters, and the
mean of products of terms that are independent. All sums are taken bin by bin.
"""

import numpy as np
from numpy.typing import NDArray

from .arrays import Floats, Indices

# cells that are summed in place, however few values there are
_DENSE = 2**20


def squares(values: NDArray, codes: NDArray, index: NDArray, n_bins: int) -> Floats:
    """Σ_c (Σ_{t∈c} v_t)² over the units c that values belong to, by bin, shape (…, n_bins).

    `values` are of shape (…, n_values); `codes` are their units, `index` their bins, (n_values,).
    """
    if values.ndim > 1:
        cells, cell = _numbered(codes * n_bins + index, n_bins)
        return np.array([_squares(v, cells, cell, n_bins) for v in values])
    return _squares(values, *_numbered(codes * n_bins + index, n_bins), n_bins)


def _numbered(cell: NDArray, n_bins: int) -> tuple[NDArray | None, NDArray]:
    """Units and bins that occur together, and the number of each value's; None: all, as they are.

    There are at most as many as there are values.
    """
    if int(cell.max(initial=0)) < len(cell) + _DENSE:
        return None, cell
    return np.unique(cell, return_inverse=True)


def _squares(values: NDArray, cells: NDArray | None, cell: NDArray, n_bins: int) -> Floats:
    sums = np.bincount(cell, weights=values)
    if cells is None:
        sums = np.pad(sums, (0, -len(sums) % n_bins))
        return (sums.reshape(-1, n_bins) ** 2).sum(axis=0)
    return np.bincount(cells % n_bins, weights=sums**2, minlength=n_bins).astype(np.float64)


def dependent_pairs(
    U: NDArray, row: NDArray, raters: NDArray, cells: NDArray | None, index: NDArray, n_bins: int
) -> Floats:
    """Q of pairs of ratings of one row, by bin, shape (m, n_bins).

    Q = Σ_i U_i..² + [Σ_r A_r² − Σ_{r<s} B_rs²] − [Σ_ir A_ir² − Σ_{i,r<s} U_irs²]: A_r and A_ir are
    sums over the pairs that hold r, B_rs over the rows of a pair of raters.

    Parameters
    ----------
    U : ndarray of shape (m, n_pairs)
    row : ndarray of shape (n_pairs,)
        May be the group of the row.
    raters : ndarray of shape (2, n_pairs)
        Both raters.
    cells : ndarray of shape (2, n_pairs) or None
        Number of both ratings, where no two are by one rater of one row or group. None: rows are
        groups, and cells are made of them and of raters.
    index : ndarray of shape (n_pairs,)
    """
    R = int(raters.max(initial=0)) + 1
    # each pair once for each of its raters
    twice = np.concatenate([U, U], axis=-1)
    bins = np.concatenate([index, index])
    first, second = np.sort(raters, axis=0)
    both = first * R + second
    by_rater = squares(twice, raters.ravel(), bins, n_bins) - squares(U, both, index, n_bins)
    if cells is not None:
        # a pair of raters and a row occur together once
        once = np.array([np.bincount(index, u * u, n_bins) for u in U])
        by_cell = squares(twice, cells.ravel(), bins, n_bins) - once
    else:
        one = (np.concatenate([row, row]) * R) + raters.ravel()
        # pairs numbered: products of raters and rows may exceed 64 bits
        pair = np.unique(both, return_inverse=True)[1]
        row_pair = row * (int(pair.max(initial=0)) + 1) + pair
        by_cell = squares(twice, one, bins, n_bins) - squares(U, row_pair, index, n_bins)
    return squares(U, row, index, n_bins) + by_rater - by_cell


def pairs_within(indptr: NDArray) -> tuple[Indices, Indices]:
    """Both places of every pair of ratings of one row, in the order of rows, (n_pairs,) each.

    `indptr` says where the ratings of each row begin, shape (n + 1,).
    """
    N = int(indptr[-1])
    # the ratings of its row that follow each one
    left = np.repeat(indptr[1:], np.diff(indptr)) - np.arange(1, N + 1)
    first = np.repeat(np.arange(N), left)
    begin = np.cumsum(left) - left
    return first, np.arange(len(first)) - begin[first] + first + 1
