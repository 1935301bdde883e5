"""Terms of binned losses that one rater has in several rows, summed by rater and bin.

A term is a rating of a row, or a pair of them: C is its share of the weight of the row, U that
times its residual. With S_u the sum of C or U over a unit u, a rater or a pair of raters, terms of
different rows that share a rater have the products ``Σ_r S_r² − Σ_{r<s} S_rs² − Σ_i q_i``: the
second sum is of pairs only, and q_i is the same within row i.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from .._ground.arrays import Floats, Indices
from .._ground.bins import Bins
from .._ground.two_way import pairs_within
from .._rows import Rows
from ..label_histogram import Annotations

# cells that are summed in place
DENSE = 2**22
# disjoint pairs of raters need so many
FOUR = 4
# terms in memory at a time
_TERMS = 2**14


class Binned(NamedTuple):
    """What a binned loss compares, of rows with Annotations.

    Attributes
    ----------
    bins : Bins
    z : ndarray of shape (n, m)
        Predictions, which decide the bins.
    observed : callable
        ``observed(rows) -> (mu, n)``: frequencies (n, m), and the raters they come from, (n,).
    says : callable
        ``says(rows) -> x``: ``x(y, k)`` is what each rating says of column k; of pairs,
        ``x(a, b, k)`` is whether two labels differ by it.
    pairs : bool
        Whether terms are pairs of ratings.
    corrected : bool
        Whether products of terms that share a rater are left out.
    """

    bins: Bins
    z: Floats
    observed: Callable
    says: Callable
    pairs: bool = False
    corrected: bool = True

    def how_many(self, n: NDArray) -> NDArray:
        """Terms that n ratings of a row have."""
        return n * (n - 1) / 2 if self.pairs else n


def annotations(rows: Rows) -> Annotations:
    """Labels that know their raters."""
    return cast(Annotations, rows.labels)


def least_sharing(pairs: bool) -> int:
    """Raters that terms without a common rater need: two, or four of pairs."""
    return FOUR if pairs else 2


class Terms(NamedTuple):
    """The terms of rows, in their order.

    Attributes
    ----------
    indptr : ndarray of shape (n + 1,)
        Where the terms of each row begin.
    ratings : ndarray of shape (1, n_terms) or (2, n_terms)
        The ratings that a term is made of.
    values : ndarray of shape (1 + m, n_terms)
        C, and U of each column.
    """

    indptr: Indices
    ratings: Indices
    values: Floats

    @property
    def row(self) -> Indices:
        """The row of each term."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))


def terms_of(rows: Rows, binned: Binned, z: NDArray) -> Terms:
    """The terms of some of the rows, whose predictions are z."""
    y = annotations(rows)
    x = binned.says(rows)
    indptr = np.append(0, np.cumsum(binned.how_many(rows.n))).astype(np.intp)
    share = rows.weight / np.maximum(binned.how_many(rows.n), 1)
    if not binned.pairs:
        row = y.row
        ratings = np.arange(len(row), dtype=np.intp)[None]
        residuals = [x(y, k) - z[row, k] for k in range(z.shape[1])]
    else:
        ratings = np.stack(pairs_within(y.indptr))
        in_order = np.argsort(y.row[ratings[0]], kind="stable")
        ratings = ratings[:, in_order]
        row = y.row[ratings[0]]
        a, b = y.label[ratings]
        residuals = [x(a, b, k) - z[row, k] for k in range(z.shape[1])]
    C = share[row]
    return Terms(indptr, ratings, np.stack([C, *(C * e for e in residuals)]))


def units_of(rater: NDArray, ratings: NDArray, R: int) -> list[list[Indices]]:
    """Numbers of the units of each term: of its rater or raters, and of a pair of raters."""
    raters = list(rater[ratings].astype(np.intp))
    if len(raters) == 1:
        return [raters]
    first, second = np.sort(raters, axis=0)
    return [raters, [first * R + second]]


def within(values: NDArray, term_of: NDArray, slots: NDArray, slot_of: NDArray, n: int) -> Floats:
    """q of n rows, or of what is left of them, shape (1 + m, n).

    `term_of` is the row of each term, `slot_of` that of each rating; `slots` are the ratings of
    each term, (1 or 2, n_terms).
    """
    squares: Floats = np.stack([np.bincount(term_of, v * v, n).astype(float) for v in values])
    if len(slots) == 1:
        return squares
    # A_ir: pairs that hold a rating
    A = [sum(np.bincount(s, v, len(slot_of)) for s in slots) for v in values]
    together = [np.bincount(slot_of, a * a, n).astype(float) for a in A]
    return np.stack(together) - squares


class Cells:
    """Pairs of sums by cell of a large grid, of which few may occur."""

    def __init__(self, size: int):
        self._dense = np.zeros((2, size)) if size <= DENSE else None
        self._keys: list[Indices] = []
        self._sums: list[Floats] = []

    def add(self, key: NDArray, values) -> None:
        """Add two values each, (2, n), to the cells with these numbers, (n,)."""
        if self._dense is None:
            keys, place = np.unique(key, return_inverse=True)
            self._keys.append(keys)
            self._sums.append(np.stack([np.bincount(place, v, len(keys)) for v in values]))
            return
        size = self._dense.shape[1]
        for sums, v in zip(self._dense, values, strict=True):
            if size <= len(key):
                sums += np.bincount(key, v, size)
            else:
                np.add.at(sums, key, v)

    def occupied(self) -> tuple[Indices, Floats]:
        """Numbers of the cells that occur, ascending, and their sums, (2, n_cells)."""
        if self._dense is not None:
            keys = np.flatnonzero(self._dense.any(axis=0))
            return keys, self._dense[:, keys]
        if not self._keys:
            return np.zeros(0, np.intp), np.zeros((2, 0))
        keys, place = np.unique(np.concatenate(self._keys), return_inverse=True)
        sums = np.concatenate(self._sums, axis=1)
        return keys, np.stack([np.bincount(place, s, len(keys)) for s in sums])


class SharedTerms:
    """Sums of terms over units, by column and bin, of rows that come in parts.

    Parameters
    ----------
    rows : Rows
        With Annotations, without groups.
    binned : Binned
    """

    def __init__(self, rows: Rows, binned: Binned):
        self.rows = rows
        self.binned = binned
        # columns and bins, numbered together
        self.n_places = binned.z.shape[1] * binned.bins.n_bins
        self.R = len(annotations(rows).raters)
        self.sizes = [self.R * self.n_places]
        if binned.pairs:
            self.sizes.append(self.R**2 * self.n_places)
        self.cells = [Cells(size) for size in self.sizes]
        # Σ_i q_i of C and of U
        self.within = np.zeros((2, self.n_places))

    def parts(self) -> Iterator[slice]:
        """Rows whose terms fit into memory."""
        cost = np.append(0, np.cumsum(self.binned.how_many(self.rows.n)))
        start = 0
        while start < len(cost) - 1:
            stop = int(np.searchsorted(cost, cost[start] + _TERMS, side="right")) - 1
            stop = max(stop, start + 1)
            yield slice(start, stop)
            start = stop

    def places(self, z: NDArray) -> Indices:
        """Number of column and bin of each prediction, shape of z."""
        return self.binned.bins.index(z) + np.arange(z.shape[1]) * self.binned.bins.n_bins

    def add(self, part: slice) -> tuple[Terms, Floats, Indices]:
        """Add a part of the rows: its terms, q of each row, and its places."""
        rows, z = self.rows.take(part), self.binned.z[part]
        y = annotations(rows)
        terms = terms_of(rows, self.binned, z)
        place = self.places(z)
        row = terms.row
        units = units_of(y.rater, terms.ratings, self.R)
        for cells, codes in zip(self.cells, units, strict=True):
            add_columns(cells, codes, terms.values, place[row], self.n_places)
        q = within(terms.values, row, terms.ratings, y.row, len(rows))
        self.within += by_place(q, place, self.n_places)
        return terms, q, place

    def products(self) -> Floats:
        """Products of terms of different rows that share a rater, shape (2, n_places)."""
        found = -self.within
        for sign, cells in zip((1, -1), self.cells, strict=False):
            keys, sums = cells.occupied()
            for total, s in zip(found, sums, strict=True):
                total += sign * np.bincount(keys % self.n_places, s * s, self.n_places)
        return found


def add_columns(
    cells: Cells, units: list[Indices], values: Floats, place: Indices, n_places: int
) -> None:
    """Add C and U of terms to the cells of their units; `place` (n_terms, m) is within a unit."""
    for k in range(place.shape[1]):
        for unit in units:
            cells.add(unit * n_places + place[:, k], values[[0, 1 + k]])


def by_place(q: Floats, place: Indices, n_places: int) -> Floats:
    """Sums of C's and U's of rows, (1 + m, n), over those with the same place, (2, n_places)."""
    found = np.zeros((2, n_places))
    for k in range(place.shape[1]):
        for total, v in zip(found, q[[0, 1 + k]], strict=True):
            total += np.bincount(place[:, k], v, n_places)
    return found
