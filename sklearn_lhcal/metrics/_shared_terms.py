"""Terms of binned losses that one rater has in several rows, summed by rater and bin.

A term is a rating of a row, or a pair of them: C is its share of the weight of the row, U that
times its residual. A_ir is what rater r has in row i: her term, or the sum of her pairs. Terms of
different rows that share a rater have the products ``Σ_r (A_r² − Σ_i A_ir²)``, with A_r = Σ_i A_ir;
pairs that share both raters are in it twice, and are taken off by the same sum over pairs. Only the
sums B_rs of pairs of raters are kept: A_r = Σ_s B_rs.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from .._ground.arrays import Floats, Indices
from .._ground.bins import Bins
from .._ground.two_way import pairs_within
from .._rows import Rows
from ..label_histogram import Annotations

# the sums over bins that a calibration loss is made of, by its correction
OF_CALIBRATION = {
    None: ("w", "we"),
    "residual": ("w", "we", "ww", "wwee"),
    "label": ("w", "we", "wz", "wmm", "ww"),
}
# cells that are summed in place
DENSE = 2**22
# disjoint pairs of raters need so many
FOUR = 4
# terms in memory at a time
_TERMS = 2**15
# sums in memory that may be of cells which have one already
_PENDING = 2**17


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
    needed : tuple of str
        The sums over bins that the loss is made of.
    pairs : bool
        Whether terms are pairs of ratings.
    """

    bins: Bins
    z: Floats
    observed: Callable
    says: Callable
    needed: tuple[str, ...]
    pairs: bool = False

    @property
    def corrected(self) -> bool:
        """Whether products of terms that share a rater are left out."""
        return "wwee" in self.needed

    def how_many(self, n: NDArray) -> NDArray:
        """Terms that n ratings of a row have."""
        return n * (n - 1) / 2 if self.pairs else n


def annotations(rows: Rows) -> Annotations:
    """Labels that know their raters."""
    return cast(Annotations, rows.labels)


def shares_raters(rows: Rows, least: int = 1) -> bool:
    """Whether so many raters are known, one of whom rated two rows."""
    if not isinstance(rows.labels, Annotations):
        return False
    times = np.bincount(rows.labels.rater)
    return bool(np.count_nonzero(times) >= least and times.max() > 1)


def least_sharing(pairs: bool) -> int:
    """Raters that terms without a common rater need: two, or four of pairs."""
    return FOUR if pairs else 2


class Terms(NamedTuple):
    """The terms of rows, in their order.

    Attributes
    ----------
    values : ndarray of shape (1 + m, n_terms)
        C, and U of each column.
    row : ndarray of shape (n_terms,)
    ratings : ndarray of shape (1, n_terms) or (2, n_terms)
        The ratings that a term is made of.
    """

    values: Floats
    row: Indices
    ratings: Indices


def terms_of(rows: Rows, binned: Binned, z: NDArray) -> Terms:
    """The terms of some of the rows, whose predictions are z."""
    y = annotations(rows)
    x = binned.says(rows)
    m = z.shape[1]
    share = rows.weight / np.maximum(binned.how_many(rows.n), 1)
    if not binned.pairs:
        row = y.row
        ratings = np.arange(len(row), dtype=np.intp)[None]
        says = (x(y, k) for k in range(m))
    else:
        ratings = np.stack(pairs_within(y.indptr))
        row = y.row[ratings[0]]
        a, b = y.label[ratings]
        says = (x(a, b, k) for k in range(m))
    values = np.empty((1 + m, len(row)))
    values[0] = C = share[row]
    for U, said, of_column in zip(values[1:], says, z.T, strict=True):
        np.subtract(said, of_column[row], out=U)
        U *= C
    return Terms(values, row, ratings)


def units_of(terms: Terms, y: Annotations) -> Indices:
    """Number of the rater of each term, or of its pair of raters, shape (n_terms,)."""
    rater = y.rater.astype(np.intp)
    if len(terms.ratings) == 1:
        return rater[terms.ratings[0]]
    a, b = rater[terms.ratings]
    return np.minimum(a, b) * len(y.raters) + np.maximum(a, b)


def of_ratings(terms: Terms, n_ratings: int) -> Floats:
    """A_ir, the sums of the terms of each rating, shape (1 + m, n_ratings)."""
    if len(terms.ratings) == 1:
        return terms.values
    A = [sum(np.bincount(held, v, n_ratings) for held in terms.ratings) for v in terms.values]
    return np.stack(A)


def squares_of(terms: Terms, A: Floats, y: Annotations) -> Floats:
    """q_i = Σ_r A_ir², less the same of pairs, of each row, shape (1 + m, n)."""
    n, row = len(y), y.row
    q: Floats = np.stack([np.bincount(row, a * a, n) for a in A])
    if len(terms.ratings) > 1:
        q -= np.stack([np.bincount(terms.row, v * v, n) for v in terms.values])
    return q


class Cells:
    """Pairs of sums by cell: of all cells where they are few, else of those that occur.

    Parameters
    ----------
    size : int, optional
        How many cells there are; None: so many that few occur.
    """

    def __init__(self, size: int | None = None):
        self._dense = None
        if size is not None and size <= DENSE:
            self._dense = np.zeros((2, size))
        self._keys: Indices = np.zeros(0, np.intp)
        self._sums: Floats = np.zeros((2, 0))
        # of cells that may occur in the others too
        self._new: list[tuple[Indices, Floats]] = []

    def add(self, key: NDArray, values: Iterable[NDArray]) -> None:
        """Add two values each, of the shape of key, to the cells with these numbers."""
        key = key.ravel()
        values = [np.ravel(v) for v in values]
        if self._dense is None:
            self._new.append(_summed(key, values))
            if sum(len(new) for new, _ in self._new) > len(self._keys) + _PENDING:
                self.occupied()
            return
        size = self._dense.shape[1]
        for sums, v in zip(self._dense, values, strict=True):
            if size <= 4 * len(key):
                sums += np.bincount(key, v, size)
            else:
                np.add.at(sums, key, v)

    def negate(self) -> None:
        """Change the sign of all sums."""
        if self._dense is not None:
            self._dense *= -1
        self._sums = -self._sums
        self._new = [(key, -sums) for key, sums in self._new]

    def occupied(self) -> tuple[Indices, Floats]:
        """Numbers of the cells that occur, ascending, and their sums, (2, n_cells)."""
        if self._dense is not None:
            keys = np.flatnonzero(self._dense.any(axis=0))
            return keys, self._dense[:, keys]
        if self._new:
            keys = np.concatenate([self._keys, *(new for new, _ in self._new)])
            sums = np.concatenate([self._sums, *(new for _, new in self._new)], axis=1)
            self._keys, self._sums = _summed(keys, sums)
            self._new = []
        return self._keys, self._sums


def _summed(key: NDArray, values: Iterable[NDArray]) -> tuple[Indices, Floats]:
    """The different numbers of cells, ascending, and the sums of the values of each."""
    keys, place = np.unique(key, return_inverse=True)
    return keys, np.stack([np.bincount(place, v, len(keys)) for v in values])


class Places(NamedTuple):
    """Numbers of a column, a block and a bin together.

    Attributes
    ----------
    m, n_blocks, n_bins : int
    """

    m: int
    n_blocks: int
    n_bins: int

    @property
    def size(self) -> int:
        """How many there are."""
        return self.m * self.n_blocks * self.n_bins

    def of(self, index: NDArray, block: NDArray | int = 0) -> Indices:
        """The numbers of bins (m, n), of things in blocks (n,)."""
        column = np.arange(self.m)[:, None]
        return (column * self.n_blocks + block) * self.n_bins + index

    def within(self, place: NDArray, block: NDArray) -> Indices:
        """The numbers of places that were numbered without blocks."""
        column, index = np.divmod(place, self.n_bins)
        return (column * self.n_blocks + block) * self.n_bins + index

    def without(self, number: NDArray) -> Indices:
        """The numbers that places would have without blocks."""
        column, rest = np.divmod(number, self.n_blocks * self.n_bins)
        return column * self.n_bins + rest % self.n_bins


def of_columns(values: Floats) -> tuple[NDArray, Floats]:
    """C and U of each column, (m, n_values) each."""
    U = values[1:]
    return np.broadcast_to(values[0], U.shape), U


class SharedTerms:
    """Sums of terms over units, by column, block of rows and bin.

    Parameters
    ----------
    rows : Rows
        With Annotations, without groups.
    binned : Binned
    n_blocks : int, default=1
    """

    def __init__(self, rows: Rows, binned: Binned, n_blocks: int = 1):
        self.rows = rows
        self.binned = binned
        self.places = Places(binned.z.shape[1], n_blocks, binned.bins.n_bins)
        self.R = len(annotations(rows).raters)
        self.cells = Cells(self.R ** (1 + binned.pairs) * self.places.size)
        # Σ_i q_i of C and of U, q_i = Σ_r A_ir², less the same of pairs
        self.within = np.zeros((2, self.places.size))

    def add(self, rows: Rows, z: NDArray, block: NDArray | int = 0) -> None:
        """Add some of the rows, whose predictions are z."""
        y = annotations(rows)
        place = self.places.of(self.binned.bins.index(z).T, block)
        terms = terms_of(rows, self.binned, z)
        number = np.take(place, terms.row, axis=1)
        number += units_of(terms, y) * self.places.size
        self.cells.add(number, of_columns(terms.values))
        self.add_within(place, squares_of(terms, of_ratings(terms, len(y.rater)), y))

    def add_within(self, place: NDArray, q: Floats) -> None:
        """Add q of rows, (1 + m, n), at their places, (m, n)."""
        for total, v in zip(self.within, of_columns(q), strict=True):
            total += np.bincount(place.ravel(), v.ravel(), self.places.size)

    def over_blocks(self) -> "SharedTerms":
        """The sums of all rows."""
        found = SharedTerms(self.rows, self.binned)
        found.within += self.within.reshape(2, *self.places).sum(axis=2).reshape(2, -1)
        key, sums = self.cells.occupied()
        found.cells.add(self._without_blocks(key), sums)
        return found

    def _without_blocks(self, key: Indices) -> Indices:
        """The cells that there would be without blocks."""
        unit, number = np.divmod(key, self.places.size)
        size = self.places.m * self.places.n_bins
        return unit * size + self.places.without(number)

    def negate(self) -> None:
        """Change the sign of all sums."""
        self.within *= -1
        self.cells.negate()

    def _levels(self) -> list[tuple[int, Indices, Floats]]:
        """Sign, cells and their sums: of raters, and of pairs of raters."""
        key, sums = self.cells.occupied()
        if not self.binned.pairs:
            return [(1, key, sums)]
        pair, place = np.divmod(key, self.places.size)
        # A_r = Σ_s B_rs
        of_raters = Cells(self.R * self.places.size)
        for rater in np.divmod(pair, self.R):
            of_raters.add(rater * self.places.size + place, sums)
        return [(1, *of_raters.occupied()), (-1, key, sums)]

    def products(self) -> Floats:
        """Products of terms of different rows that share a rater, shape (2, n_places)."""
        found = -self.within
        for sign, key, sums in self._levels():
            for total, s in zip(found, sums, strict=True):
                total += sign * np.bincount(key % self.places.size, s * s, self.places.size)
        return found

    def without(self, change: "SharedTerms") -> Floats:
        """The products without each block, of which `change` says what it changes of the sums."""
        places = change.places
        found = np.repeat(
            self.products().reshape(2, places.m, 1, places.n_bins), places.n_blocks, axis=2
        ).reshape(2, -1)
        found -= change.within
        levels = zip(self._levels(), change._levels(), strict=True)
        for (sign, whole, sums), (_, key, moved) in levels:
            S = sums[:, np.searchsorted(whole, change._without_blocks(key))]
            for total, s, d in zip(found, S, moved, strict=True):
                total += sign * np.bincount(key % places.size, (2 * s + d) * d, places.size)
        return found


def parts_of(rows: Rows, binned: Binned) -> Iterator[slice]:
    """Rows whose terms fit into memory."""
    cost = np.append(0, np.cumsum(binned.how_many(rows.n)))
    start = 0
    while start < len(cost) - 1:
        stop = int(np.searchsorted(cost, cost[start] + _TERMS, side="right")) - 1
        stop = max(stop, start + 1)
        yield slice(start, stop)
        start = stop
