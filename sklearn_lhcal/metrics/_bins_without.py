"""Sums over bins without each block of rows, or of ratings, where raters are known.

A rating that goes changes its row: the others of the row weigh more. With S_u the sum of terms over
a unit and Δ_u what a block changes of it, ``Σ_u (S_u + Δ_u)²`` takes the place of ``Σ_u S_u²``:
only units and rows that a block touches are looked at again. Letters as in `_shared_terms`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._ground.arrays import Floats, Indices
from .._ground.bins import BinSums
from .._rows import Rows
from ..label_histogram import Annotations
from ..label_histogram._labels import Labels
from ._shared_terms import (
    Binned,
    Cells,
    SharedTerms,
    add_columns,
    annotations,
    by_place,
    least_sharing,
    units_of,
    within,
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
    """

    at: Indices
    block: Indices
    counts: NDArray
    n: Floats


def touched(y: Annotations, code: NDArray, n_blocks: int, least: int) -> Touched:
    """The rows that blocks touch; `code` is the block of each rating."""
    K = y.shape[1]
    pair, place = np.unique(y.row * n_blocks + code, return_inverse=True)
    gone = np.bincount(place * K + y.label, minlength=len(pair) * K).reshape(-1, K)
    at, block = np.divmod(pair, n_blocks)
    counts = y.counts[at] - gone
    n = counts.sum(axis=1).astype(np.float64)
    return Touched(at, block, counts, np.where(n >= least, n, 0.0))


class SumsWithout:
    """The sums of all rows, and what each block of ratings changes of them.

    Parameters
    ----------
    rows : Rows
        Rows that contribute, with Annotations, without groups.
    binned : Binned
    code : ndarray of shape (n_ratings,)
        Block of each rating.
    n_blocks : int
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
        for part in self.terms.parts(np.minimum(rows.n, n_blocks)):
            self._add(part)

    def _add(self, part: slice) -> None:
        rows, z = self.rows.take(part), self.binned.z[part]
        y = annotations(rows)
        first, last = annotations(self.rows).indptr[[part.start, part.stop]]
        code = self.code[first:last]
        what = touched(y, code, self.n_blocks, self.least)
        # the raters' correction of rows with one rater, never read
        with np.errstate(divide="ignore", invalid="ignore"):
            self._add_rows(rows, z, what)
        if self.binned.corrected:
            self._add_terms(part, what, y, code)

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

    def _add_terms(self, part: slice, what: Touched, y: Annotations, code: NDArray) -> None:
        terms, q, place = self.terms.add(part)
        at, block = what.at, what.block
        size = np.diff(terms.indptr)[at]
        # of each touched row p its terms t
        p = np.repeat(np.arange(len(at)), size)
        t = np.arange(size.sum()) + np.repeat(terms.indptr[at] - np.cumsum(size) + size, size)
        ratings = terms.ratings[:, t]
        kept = (code[ratings] != block[p]).all(axis=0)
        # those left weigh more
        before, after = (self.binned.how_many(n) for n in (y.n[at], what.n))
        scale = np.where(kept, np.divide(before, after, np.zeros(len(at)), where=after > 0)[p], 0.0)
        values = terms.values[:, t]
        units = units_of(y.rater, ratings, self.terms.R)
        places = place[at] * self.n_blocks + block[:, None]
        n_places = self.terms.n_places * self.n_blocks
        for cells, codes in zip(self.changes, units, strict=True):
            add_columns(cells, codes, (scale - 1) * values, places[p], n_places)
        slots = np.diff(y.indptr)[at]
        first = np.cumsum(slots) - slots - y.indptr[at]
        slot_of = np.repeat(np.arange(len(at)), slots)
        left = within(scale * values, p, ratings + first[p], slot_of, len(at))
        self.within += by_place(left - q[:, at], places, n_places)

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
        cell, times = np.unique(rater * self.n_blocks + self.code, return_counts=True)
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
