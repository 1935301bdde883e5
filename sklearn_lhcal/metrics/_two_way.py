"""Sums of squares over ratings that depend on each other, because they share a row or a rater."""

import numpy as np
from numpy.typing import NDArray

from .._utils.arrays import Floats, Indices

# cells that are summed in place, however few values there are
_DENSE = 2**16


def squares(values: NDArray, codes: NDArray, index: NDArray, n_bins: int) -> Floats:
    """Σ_c (Σ_{t∈c} v_t)² over the units c that values belong to, by bin, shape (n_bins,).

    `codes` are the units of the values, `index` their bins, all of shape (n_values,).
    """
    cell = codes * n_bins + index
    n_cells = (int(codes.max(initial=-1)) + 1) * n_bins
    if n_cells < 4 * len(cell) + _DENSE:
        sums = np.bincount(cell, values, n_cells)
        return (sums.reshape(-1, n_bins) ** 2).sum(axis=0)
    # units and bins that occur together: at most as many as there are values
    cells, cell = np.unique(cell, return_inverse=True)
    sums = np.bincount(cell, values)
    return np.bincount(cells % n_bins, sums**2, n_bins).astype(np.float64)


def pairs_within(indptr: NDArray) -> tuple[Indices, Indices]:
    """Both places of every pair of ratings of one row, in the order of rows, (n_pairs,) each.

    `indptr` holds where the ratings of each row begin, shape (n + 1,).
    """
    N = int(indptr[-1])
    # the ratings of its row that follow each one
    left = np.repeat(indptr[1:], np.diff(indptr)) - np.arange(1, N + 1)
    first = np.repeat(np.arange(N), left)
    begin = np.cumsum(left) - left
    return first, np.arange(len(first)) - begin[first] + first + 1
