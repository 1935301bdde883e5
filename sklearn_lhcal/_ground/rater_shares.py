"""Shares of raters in a mean over rows, and how they move where raters are left out.

Letters: r and b raters, or blocks of them, c_r their shares, n ratings a row.
"""

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from .arrays import Floats, Indices

# ratings whose rows are in memory at a time
_RATINGS = 2**15
# raters whose shares without each block are in memory at a time
_RATERS = 100_000


class Ratings(Protocol):
    """Who rated which row, as `Annotations` hold it; see there for the attributes."""

    indptr: Indices
    rater: NDArray
    raters: NDArray

    @property
    def n(self) -> Floats:
        """Number of ratings of each row, shape (n,)."""

    @property
    def row(self) -> Indices:
        """The row of each rating, shape (n_ratings,)."""

    def __len__(self) -> int:
        """Number of rows."""


def row_blocks(y: Ratings) -> Iterator[tuple[slice, slice, Indices]]:
    """Rows with a fixed number of ratings in all, their ratings, and the row in it of each."""
    start = 0
    while start < len(y):
        stop = int(np.searchsorted(y.indptr, y.indptr[start] + _RATINGS, side="right")) - 1
        stop = min(max(stop, start + 1), len(y))
        row = np.repeat(np.arange(stop - start), np.diff(y.indptr[start : stop + 1]))
        yield slice(start, stop), slice(y.indptr[start], y.indptr[stop]), row
        start = stop


def shares(y: Ratings, n: NDArray, weight: NDArray) -> Floats:
    """c_r, the share of each rater in a mean over rows, shape (n_raters,)."""
    R = len(y.raters)
    if (n == R).all() and weight.any():
        # each rater rates each row
        return np.full(R, 1 / R)
    share = np.zeros(R)
    for rows, ratings, row in row_blocks(y):
        share += np.bincount(y.rater[ratings], (weight[rows] / n[rows])[row], R)
    return share / max(weight.sum(), np.finfo(float).tiny)


def moved_raters(y: Ratings, weight, least_raters: int, share, block_of, R: int) -> float:
    """Σ_b Σ_r (c_r − c_r(without b))² where each block is one of R raters."""
    n = y.n
    if (n == R).all() and least_raters < R:
        # each rater rates each row
        return 1 / (R - 1)
    c = np.bincount(block_of, share, R)
    together, lost = pairs_of_raters(y, weight, least_raters, block_of[y.rater], R)
    return moved_shares(c, weight.sum(), together, lost)


def pairs_of_raters(
    y: Ratings, weight: NDArray, least_raters: int, rater: Indices, R: int
) -> tuple[Floats, Floats]:
    """What raters r gain, in sums of shares, where rater b is left out: (R, R) of (r, b).

    And the weight (R,) of the rows that then do not count. `rater` is that of each rating.
    """
    n = y.n
    # how the weight of a rating changes where another of its row is left out
    kept = n > least_raters
    change = np.where(kept, weight / np.maximum(n - 1, 1), 0.0) - weight / n
    lost = np.where(kept, 0.0, weight)
    ratings = csr_array((np.ones(len(rater)), rater, y.indptr), shape=(len(y), R))
    changes = csr_array((change[y.row], rater, y.indptr), shape=(len(y), R))
    return (ratings.T @ changes).toarray(), ratings.T @ lost


def moved_shares(c: NDArray, W: float, together: Floats, lost: Floats) -> float:
    """Σ_b Σ_r (c_r − c_r(without b))² of shares c (R,) in rows of the weight W."""
    without = (c * W + together) / (W - lost[:, None])
    np.fill_diagonal(without, 0.0)
    return float(((c - without) ** 2).sum())


def moved_blocks(y: Ratings, weight, least_raters: int, share, block_of, B: int) -> float:
    """Σ_b Σ_r (c_r − c_r(without b))² where each of B blocks holds many raters."""
    n, R = len(y), len(y.raters)
    # ratings of each row by each block of raters
    ones = np.ones(len(y.rater))
    lost = csr_array((ones, block_of[y.rater], y.indptr), shape=(n, B), copy=True)
    lost.sum_duplicates()
    row = np.repeat(np.arange(n), np.diff(lost.indptr))
    left = y.n[row] - lost.data
    kept = left >= least_raters
    W = weight.sum() - np.bincount(lost.indices, np.where(kept, 0.0, weight[row]), B)
    after = np.where(kept, weight[row] / np.maximum(left, 1), 0.0)
    lost.data = after - weight[row] / y.n[row]
    ratings = csr_array((ones, y.rater, y.indptr), shape=(n, R)).T.tocsr()
    own = block_of[:, None] == np.arange(B)
    total = 0.0
    for start in range(0, R, _RATERS):
        part = slice(start, start + _RATERS)
        c = share[part, None]
        without = (c * weight.sum() + (ratings[part] @ lost).toarray()) / W
        total += ((c - np.where(own[part], 0.0, without)) ** 2).sum()
    return float(total)
