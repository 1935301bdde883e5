"""Sums over bins without each block of rows, or of ratings, where raters are known.

A rating that goes changes its row: the others of the row weigh more. With S_u the sum of terms over
a unit and Δ_u what a block changes of it, ``Σ_u (S_u + Δ_u)²`` takes the place of ``Σ_u S_u²``:
only units and rows that a block touches are looked at again. Letters as in `_shared_terms`.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from .._ground.arrays import Floats, Indices
from .._ground.bins import SUMS, BinSums, Summands
from .._rows import Rows
from ..label_histogram import Annotations
from ..label_histogram._labels import Labels
from ._shared_terms import (
    DENSE,
    Binned,
    Level,
    SharedTerms,
    Terms,
    annotations,
    least_sharing,
    levels_of,
    of_columns,
    parts_of,
    terms_of,
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


class RaterSums:
    """Sums over bins, and of terms over units: of blocks of rows, or what blocks change of all.

    Parameters
    ----------
    rows : Rows
        Rows that contribute, with Annotations, without groups.
    binned : Binned
    n_blocks : int, default=1
    """

    def __init__(self, rows: Rows, binned: Binned, n_blocks: int = 1):
        self.rows = rows
        self.binned = binned
        self.bins = BinSums(binned.bins, binned.z.shape[1], n_blocks)
        self.terms = SharedTerms(rows, binned, n_blocks)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(m, n_blocks, n_bins)."""
        m, n_blocks, n_bins = self.terms.places
        return m, n_blocks, n_bins

    def over_blocks(self) -> "RaterSums":
        """The sums of all rows."""
        found = RaterSums(self.rows, self.binned)
        found.bins.table += self.bins.table.reshape(-1, *self.shape).sum(axis=2)
        found.terms = self.terms.over_blocks()
        return found

    def negate(self) -> None:
        """What blocks of rows add is what their loss takes away."""
        self.bins.table *= -1
        self.terms.negate()

    def sums(self) -> BinSums:
        """Those of a loss of all rows, which leaves out pairs of one rater where it can."""
        rater = annotations(self.rows).rater
        if not self.binned.corrected or np.count_nonzero(np.bincount(rater)) < self._least:
            return self.bins
        ww, wwee = self.terms.products().reshape(2, *self.bins.w.shape)
        return self.bins.plus_products(ww, wwee)

    def without(self, change: "RaterSums", few: NDArray[np.bool_]) -> list[BinSums]:
        """Those without each block, where `few` says that too few raters are left."""
        shape = change.shape
        more = change.bins.table.reshape(-1, *shape)
        found = self.bins.changed(more)
        if self.binned.corrected:
            ww, wwee = self.terms.without(change.terms).reshape(2, *shape)
            for b in np.flatnonzero(~few):
                found[b] = found[b].plus_products(ww[:, b], wwee[:, b])
        return found

    @property
    def _least(self) -> int:
        return least_sharing(self.binned.pairs)

    def few(self, code: NDArray, n_blocks: int) -> NDArray[np.bool_]:
        """Without which blocks there are too few raters to have terms that share none.

        `code` (n_ways, n_ratings) is the block of each rating.
        """
        rater = annotations(self.rows).rater
        times = np.bincount(rater)
        given = times > 0
        left = np.full(n_blocks, np.count_nonzero(given))
        for block in code:
            # raters with more ratings than a block are in several
            if np.count_nonzero(times > np.bincount(block).max()) >= self._least:
                continue
            # a rater all of whose ratings are in the block of one of them
            one = np.zeros(len(given), dtype=np.intp)
            one[rater] = block
            whole = given & (np.bincount(rater, block != one[rater]) == 0)
            left -= np.bincount(one[whole], minlength=n_blocks)
        return left < self._least


def sums_of_blocks(rows: Rows, binned: Binned, block: Indices, n_blocks: int) -> RaterSums:
    """The sums of each block of rows; `block` (n,) says which."""
    found = RaterSums(rows, binned, n_blocks)
    for part in parts_of(rows, binned):
        some, z = rows.take(part), binned.z[part]
        # the raters' correction of rows with one rater, never read
        with np.errstate(divide="ignore", invalid="ignore"):
            mu, n = binned.observed(some)
            found.bins.add(mu, n, z, some.w, block[part])
        if binned.corrected:
            found.terms.add(some, z, block[part])
    return found


# --------------------------------------------------------------------------- blocks of ratings


class Touched(NamedTuple):
    """Rows that lose ratings to a block, each once for each set of ratings that it loses.

    Attributes
    ----------
    at : ndarray of shape (n_touched,)
        The row.
    block : ndarray of shape (n_ways, n_touched)
        The block, in each way to divide the ratings.
    counts : ndarray of shape (n_touched, K)
        What is left of the row.
    n : ndarray of shape (n_touched,)
        How many ratings are left; 0 where they are too few.
    lost_to : ndarray of shape (n_ratings,)
        Which of these loses each rating.
    single : bool
        Whether each loses one rating, in the order of these.
    """

    at: Indices
    block: NDArray
    counts: NDArray
    n: Floats
    lost_to: Indices
    single: bool


def touched(y: Annotations, code: NDArray, n_blocks: int, least: int, apart: bool) -> Touched:
    """The rows that blocks touch; `code` (n_ways, n_ratings) is the block of each rating.

    There is one way to divide the ratings, unless no block takes two of one row (`apart`).
    """
    N, K = len(y.rater), y.shape[1]
    if apart:
        at, block, place = y.row, code, np.arange(N)
        counts = np.repeat(y.counts, np.diff(y.indptr), axis=0)
        counts[place, y.label] -= 1
        n = y.n[at] - 1
    else:
        pair, place = np.unique(y.row * n_blocks + code[0], return_inverse=True)
        at, of_pair = np.divmod(pair, n_blocks)
        block = of_pair[None]
        gone = np.bincount(place * K + y.label, minlength=len(pair) * K).reshape(-1, K)
        counts = y.counts[at] - gone
        n = counts.sum(axis=1).astype(np.float64)
    return Touched(at, block, counts, np.where(n >= least, n, 0.0), place, apart)


class Loss(NamedTuple):
    """What touched rows lose of the values of a level.

    Attributes
    ----------
    p : ndarray of shape (n_losses,) or slice
        The touched row.
    e : ndarray of shape (n_losses,) or slice
        Which value A.
    moved : ndarray of shape (1 + m, n_losses)
        ``−scale·L``, where L is what it loses: terms that are left weigh `scale` times as much.
    square : ndarray of shape (1 + m, n_losses) or None
        ``A² − (A − L)²``; None where another loss holds it.
    """

    p: Indices | slice
    e: Indices | slice
    moved: Floats
    square: Floats | None


def _losses(terms: Terms, levels: list[Level], what: Touched, scale: Floats) -> list[list[Loss]]:
    """The losses at each level; a touched row loses of each value once at most.

    What is left of touched rows weighs `scale` (n_touched,) times as much.
    """
    A, V = levels[0].values, terms.values
    all_of: Any = slice(None)
    touched_row = all_of if what.single else what.lost_to
    own = Loss(touched_row, all_of, -scale[touched_row] * A, A * A)
    if len(levels) == 1:
        return [[own]]
    others, pairs = [own], []
    squares = V * V
    (a, b), (p, q) = terms.ratings, what.lost_to[terms.ratings]
    if what.single:
        # both ratings of a pair are of one row
        moved = -scale[p] * V
        # a row that loses one of a pair: the other one loses the pair too
        for lost, other in ((p, b), (q, a)):
            # the squares of pairs have the other sign, and are taken off at once
            square = np.take(A, other, axis=1)
            square -= V
            square *= 2 * V
            others.append(Loss(lost, other, moved, square))
            pairs.append(Loss(lost, all_of, moved, None))
        return [others, pairs]
    # both may be lost together
    apart = np.flatnonzero(p != q)
    lost, other = np.concatenate([p[apart], q[apart]]), np.concatenate([b[apart], a[apart]])
    key, place = np.unique(lost * A.shape[1] + other, return_inverse=True)
    lost, other = np.divmod(key, A.shape[1])
    L: Floats = np.stack([np.bincount(place, np.tile(v[apart], 2), len(key)) for v in V])
    others.append(Loss(lost, other, -scale[lost] * L, L * (2 * np.take(A, other, axis=1) - L)))
    for of, e in ((p, all_of), (q[apart], apart)):
        pairs.append(Loss(of, e, -scale[of] * V[:, e], -squares[:, e]))
    return [others, pairs]


def changes_of_ratings(
    rows: Rows, binned: Binned, code: NDArray, n_blocks: int, least: int, apart: bool
) -> RaterSums:
    """What each block of ratings changes of the sums; `least`: the ratings that a row needs.

    `code` (n_ways, n_ratings) is the block of each rating; `apart` as in `touched`.
    """
    found = RaterSums(rows, binned, n_blocks)
    y = annotations(rows)
    for part in parts_of(rows, binned):
        some, z = rows.take(part), binned.z[part]
        ratings = slice(*y.indptr[[part.start, part.stop]])
        what = touched(annotations(some), code[:, ratings], n_blocks, least, apart)
        at = np.take(binned.bins.index(z).T, what.at, axis=1)
        # where what touched rows change is added, in each way
        places = [found.terms.places.of(at, block) for block in what.block]
        # the raters' correction of rows with one rater, never read
        with np.errstate(divide="ignore", invalid="ignore"):
            _add_rows(found.bins, some, z, what, binned, places)
        if binned.corrected:
            _add_terms(found.terms, some, z, what, places)
    return found


def _add_rows(
    sums: BinSums, rows: Rows, z: NDArray, what: Touched, binned: Binned, places: list[Indices]
) -> None:
    """What touched rows change of the sums over bins that a loss needs; the others are unknown."""
    at, stays = what.at, what.n > 0
    mu, n = binned.observed(rows)
    left = Rows(Left(what.counts, what.n, rows.classes), rows.z[at])
    mu_left, n_left = binned.observed(left)
    z, w = np.take(z.T, at, axis=1), np.float64(1)
    if rows.w is not None:
        w = rows.w[at]
    before = Summands(np.take(mu.T, at, axis=1), n[at], z, w)
    after = Summands(np.ascontiguousarray(mu_left.T), n_left, z, w)
    table = dict(zip(SUMS, sums.table.reshape(len(SUMS), -1), strict=True))
    for name in set(SUMS) - set(binned.needed):
        table[name][:] = np.nan
    for name in binned.needed:
        # weights change only where a row goes
        if name in ("w", "ww") and stays.all():
            continue
        change = getattr(after, name) - getattr(before, name)
        if not stays.all():
            change = np.where(stays, change, -getattr(before, name))
        for number in places:
            values = np.broadcast_to(change, number.shape).ravel()
            table[name] += np.bincount(number.ravel(), values, table[name].size)


def _add_terms(
    shared: SharedTerms, rows: Rows, z: NDArray, what: Touched, places: list[Indices]
) -> None:
    """What touched rows change of the sums of terms over units, and within rows."""
    y, binned = annotations(rows), shared.binned
    terms = terms_of(rows, binned, z)
    levels = levels_of(terms, y)
    # terms that are left weigh more
    before, after = (binned.how_many(n) for n in (y.n[what.at], what.n))
    scale = np.divide(before, after, np.zeros_like(after), where=after > 0)
    q = np.take(sum(level.squares(len(rows)) for level in levels), what.at, axis=1)
    left = q.copy()
    ways = len(what.block)
    touches = np.append(0, np.cumsum(np.bincount(what.at, minlength=len(rows)) * ways))
    weigh = csr_array(
        (np.repeat(scale - 1, ways), what.block.T.ravel(), touches),
        shape=(len(rows), shared.places.n_blocks),
    ).T.tocsr()
    index = binned.bins.index(z).T
    losses = _losses(terms, levels, what, scale)
    for level, cells, of_level in zip(levels, shared.cells, losses, strict=True):
        cells.add(*_weighed(weigh, level, index, shared))
        for p, e, moved, square in of_level:
            if square is not None:
                _add_at(left, p, -square)
            unit = level.unit[e] * shared.places.size
            for number in places:
                cells.add(unit + _of_touched(number, p), of_columns(moved))
    left *= scale * scale
    left -= q
    for number in places:
        shared.add_within(number, left)


def _of_touched(values: NDArray, p: Indices | slice) -> NDArray:
    """The values, (m, n), of these touched rows."""
    return values if isinstance(p, slice) else np.take(values, p, axis=1)


def _add_at(totals: Floats, p: Indices | slice, values: Floats) -> None:
    """Add values, (m, n), to the totals of these touched rows."""
    if isinstance(p, slice):
        totals += values
        return
    for total, v in zip(totals, values, strict=True):
        total += np.bincount(p, v, len(total))


def _weighed(
    weigh: csr_array, level: Level, index: NDArray, shared: SharedTerms
) -> tuple[Indices, Floats]:
    """Sums of C and U over units and blocks, where a block weighs the values of a row alike.

    `weigh` has shape (n_blocks, n), `index` (m, n) are bins. Returned are numbers of cells, and two
    sums of each.
    """
    whole = shared.places._replace(n_blocks=1)
    cell = (level.unit * whole.size + np.take(whole.of(index), level.row, axis=1)).T.ravel()
    # C and U in one product, as real and imaginary part
    C, U = of_columns(level.values)
    V = (C + 1j * U).T.ravel()
    size = shared.R ** (1 + (level.sign < 0)) * whole.size
    if size > DENSE:
        cells, cell = np.unique(cell, return_inverse=True)
    else:
        cells = np.arange(size)
    indptr = np.append(0, np.cumsum(np.bincount(level.row, minlength=index.shape[1])))
    in_rows = csr_array((V, cell, indptr * whole.m), shape=(index.shape[1], len(cells)))
    found = (weigh @ in_rows).tocoo()
    unit, place = np.divmod(cells[found.col], whole.size)
    number = unit * shared.places.size + shared.places.within(place, found.row)
    return number, np.stack([found.data.real, found.data.imag])
