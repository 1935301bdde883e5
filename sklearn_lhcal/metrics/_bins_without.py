"""Sums over bins without each block of rows, or of ratings, where raters are known.

A rating that goes changes its row: the others of the row weigh more. With S_u the sum of terms over
a unit and Δ_u what a block changes of it, ``Σ_u (S_u + Δ_u)²`` takes the place of ``Σ_u S_u²``:
only units and rows that a block touches are looked at again. Letters as in `_shared_terms`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from .._ground.arrays import Floats, Indices
from .._ground.bins import BinSums
from .._rows import Rows
from ..label_histogram import Annotations
from ..label_histogram._labels import Labels
from ._shared_terms import (
    DENSE,
    Binned,
    Cells,
    SharedTerms,
    Terms,
    add_columns,
    annotations,
    by_place,
    least_sharing,
    units_of,
)


class Left(Labels):
    """Labels that are left, with the number of each row's raters counted beforehand."""

    def __init__(self, counts: NDArray, n: Floats, classes: NDArray | None):
        super().__init__(counts, classes)
        self._n = n

    @property
    def n(self) -> Floats:
        return self._n

    @property
    def mu(self) -> Floats:
        return self.counts / self._n[:, None]

    def take(self, rows):
        return Left(self.counts[rows], self._n[rows], self.classes)


class Touched(NamedTuple):
    """Rows that lose ratings to a block, each once for each block that it loses some to.

    Attributes
    ----------
    at, block : ndarray of shape (n_touched,)
        Row and block.
    counts : ndarray of shape (n_touched, K)
        What is left of the row.
    n : ndarray of shape (n_touched,)
        How many ratings are left; 0 where they are too few.
    lost_to : ndarray of shape (n_ways, n_ratings)
        Which of these loses each rating.
    """

    at: Indices
    block: Indices
    counts: NDArray
    n: Floats
    lost_to: Indices


def touched(y: Annotations, code: NDArray, n_blocks: int, least: int) -> Touched:
    """The rows that blocks touch; `code` (n_ways, n_ratings) is the block of each rating."""
    K = y.shape[1]
    pair, place = np.unique((y.row * n_blocks + code).ravel(), return_inverse=True)
    place = place.reshape(code.shape)
    gone = np.bincount((place * K + y.label).ravel(), minlength=len(pair) * K).reshape(-1, K)
    at, block = np.divmod(pair, n_blocks)
    counts = y.counts[at] - gone
    n = counts.sum(axis=1).astype(np.float64)
    return Touched(at, block, counts, np.where(n >= least, n, 0.0), place)


def _weighed(
    weigh: csr_array, terms: Terms, units: list[Indices], place: Indices, n_places: int, size: int
) -> tuple[Indices, Floats]:
    """Sums of C and U over units and blocks, where a block weighs the terms of a row alike.

    `weigh` has shape (n_blocks, n_rows). Returned are numbers of cells, and two sums of each.
    """
    cell = np.stack([unit[:, None] * n_places + place[terms.row] for unit in units], axis=1)
    # C and U in one product, as real and imaginary part
    C, U = terms.values[0, :, None], terms.values[1:].T
    V = np.broadcast_to((C + 1j * U)[:, None], cell.shape)
    column = cell.ravel()
    if size > DENSE:
        cells, column = np.unique(column, return_inverse=True)
    else:
        cells = np.arange(size)
    indptr = terms.indptr * (len(units) * place.shape[1])
    in_rows = csr_array((V.ravel(), column, indptr), shape=(len(place), len(cells)))
    found = (weigh @ in_rows).tocoo()
    key = cells[found.col] * weigh.shape[0] + found.row
    return key, np.stack([found.data.real, found.data.imag])


def _lost(terms: Terms, what: Touched) -> tuple[Indices, Indices]:
    """Terms that touched rows lose: which term, and which of these rows; each pair of them once."""
    p = what.lost_to[:, terms.ratings]
    t = np.broadcast_to(np.arange(p.shape[-1]), p.shape)
    once = np.ones(p.shape, dtype=bool)
    once[:, 1:] = p[:, 1:] != p[:, :-1]
    return t[once], p[once]


def _within_left(terms: Terms, y: Annotations, what: Touched, t: Indices, p: Indices) -> Floats:
    """q of what is left of touched rows, its terms with their old values, (1 + m, n_touched).

    The touched rows `p` lose the terms `t`.
    """
    row, at, n = terms.row, what.at, len(what.at)
    squares = np.stack(
        [np.bincount(row, v * v, len(y))[at] - np.bincount(p, v[t] ** 2, n) for v in terms.values]
    )
    if len(terms.ratings) == 1:
        return squares
    # a slot is a rating of a touched row
    slots = np.diff(y.indptr)[at]
    slot_of = np.repeat(np.arange(n), slots)
    shift = np.cumsum(slots) - slots - y.indptr[at]
    rating = np.arange(len(slot_of)) - shift[slot_of]
    kept = np.ones(len(slot_of), dtype=bool)
    kept[np.arange(len(y.rater)) + shift[what.lost_to]] = False
    # the slot of the other of a pair, where the one is lost
    other = (terms.ratings[::-1] + shift[what.lost_to[:, terms.ratings]]).ravel()
    found = -squares
    for total, v in zip(found, terms.values, strict=True):
        twice = np.append(v, v)
        A = np.bincount(terms.ratings.ravel(), twice, len(y.rater))
        lost = np.tile(twice, len(what.lost_to))
        left = kept * (A[rating] - np.bincount(other, lost, len(slot_of)))
        total += np.bincount(slot_of, left * left, n)
    return found


class SumsWithout:
    """The sums of all rows, and what each block of ratings changes of them.

    Parameters
    ----------
    rows : Rows
        Rows that contribute, with Annotations, without groups.
    binned : Binned
    code : ndarray of shape (n_ways, n_ratings)
        Block of each rating; ways to divide them have blocks of their own.
    n_blocks : int
        Blocks of all ways.
    least : int
        Ratings that a row needs.
    """

    def __init__(self, rows: Rows, binned: Binned, code: NDArray, n_blocks: int, least: int):
        self.rows = rows
        self.binned = binned
        self.code = code
        self.n_blocks = n_blocks
        self.least = least
        m = binned.z.shape[1]
        self.total = BinSums(binned.bins, m)
        self.were = BinSums(binned.bins, m, n_blocks)
        self.left = BinSums(binned.bins, m, n_blocks)
        self.terms = SharedTerms(rows, binned)
        self.changes = [Cells(size * n_blocks) for size in self.terms.sizes]
        # what blocks change of Σ_i q_i
        self.within = np.zeros((2, self.terms.n_places * n_blocks))
        for part in self.terms.parts():
            self._add(part)

    def _add(self, part: slice) -> None:
        rows, z = self.rows.take(part), self.binned.z[part]
        y = annotations(rows)
        first, last = annotations(self.rows).indptr[[part.start, part.stop]]
        code = self.code[:, first:last]
        what = touched(y, code, self.n_blocks, self.least)
        # the raters' correction of rows with one rater, never read
        with np.errstate(divide="ignore", invalid="ignore"):
            self._add_rows(rows, z, what)
        if self.binned.corrected:
            self._add_terms(part, what, y)

    def _add_rows(self, rows: Rows, z: NDArray, what: Touched) -> None:
        w = rows.w
        mu, n = self.binned.observed(rows)
        self.total.add(mu, n, z, w)
        at, stays = what.at, np.flatnonzero(what.n)
        self.were.add(mu[at], n[at], z[at], None if w is None else w[at], what.block)
        if len(stays):
            labels = Left(what.counts[stays], what.n[stays], rows.classes)
            left = Rows(labels, rows.z[at[stays]])
            mu, n = self.binned.observed(left)
            at = at[stays]
            self.left.add(mu, n, z[at], None if w is None else w[at], what.block[stays])

    def _add_terms(self, part: slice, what: Touched, y: Annotations) -> None:
        terms, q, place = self.terms.add(part)
        at, block = what.at, what.block
        places = place[at] * self.n_blocks + block[:, None]
        # terms that are left weigh more
        before, after = (self.binned.how_many(n) for n in (y.n[at], what.n))
        scale = np.divide(before, after, np.zeros(len(at)), where=after > 0)
        left = -q[:, at]
        units = units_of(y.rater, terms.ratings, self.terms.R)
        weigh = csr_array((scale - 1, (block, at)), shape=(self.n_blocks, len(y)))
        for cells, codes, size in zip(self.changes, units, self.terms.sizes, strict=True):
            cells.add(*_weighed(weigh, terms, codes, place, self.terms.n_places, size))
        if scale.any():
            t, p = _lost(terms, what)
            gone = terms.values[:, t]
            for cells, codes in zip(self.changes, units, strict=True):
                codes = [unit[t] for unit in codes]
                n_places = self.terms.n_places * self.n_blocks
                add_columns(cells, codes, -scale[p] * gone, places[p], n_places)
            left += scale**2 * _within_left(terms, y, what, t, p)
        self.within += by_place(left, places, self.terms.n_places * self.n_blocks)

    def products(self) -> Floats:
        """Products of terms that share a rater without each block, (2, n_places, n_blocks)."""
        shape = (2, self.terms.n_places, self.n_blocks)
        found = self.terms.products()[:, :, None] - self.within.reshape(shape)
        for sign, cells, changes in zip((1, -1), self.terms.cells, self.changes, strict=False):
            whole, sums = cells.occupied()
            keys, moved = changes.occupied()
            cell, block = np.divmod(keys, self.n_blocks)
            S = sums[:, np.searchsorted(whole, cell)]
            place = (cell % self.terms.n_places) * self.n_blocks + block
            for total, s, d in zip(found, S, moved, strict=True):
                change = np.bincount(place, (2 * s + d) * d, total.size)
                total += sign * change.reshape(total.shape)
        return found

    def _few(self) -> NDArray[np.bool_]:
        """Without which blocks there are too few raters to have terms that share none."""
        rater = annotations(self.rows).rater.astype(np.intp)
        given = np.bincount(rater)
        cell, times = np.unique((rater * self.n_blocks + self.code).ravel(), return_counts=True)
        whole = times == given[cell // self.n_blocks]
        lost = np.bincount(cell[whole] % self.n_blocks, minlength=self.n_blocks)
        return np.count_nonzero(given) - lost < least_sharing(self.binned.pairs)

    def sums(self) -> list[BinSums]:
        """The sums without each block."""
        found = self.total.changed(self.were, self.left)
        if not self.binned.corrected:
            return found
        shape = self.total.w.shape
        products = self.products()
        for b in np.flatnonzero(~self._few()):
            ww, wwee = products[:, :, b]
            found[b].ww[...] += ww.reshape(shape)
            found[b].wwee[...] += wwee.reshape(shape)
        return found
