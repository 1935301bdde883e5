"""Sums over bins without each block of rows, or of ratings, where raters are known.

Only rows and units that a block touches are looked at again. In a bin, row i has the terms V_it
(C, or U of a column): n_i ratings, or P_i = n_i(n_i − 1)/2 pairs of them; P_i = n_i for ratings.
A_ir sums those of rater r, S_u those of unit u, a rater or a pair of raters, over all rows. Terms
of different rows that share a rater have the products ::

    p = Σ_r S_r² − Σ_{r<s} S_rs² − Σ_i q_i,   q_i = Σ_r A_ir² − Σ_t V_it²   (pairs)
    p = Σ_r S_r² − Σ_i q_i,                   q_i = Σ_r A_ir²               (ratings)

A block takes some ratings of row i, and with them the terms "lost". P_i' terms are left, which
share the weight of the row: each weighs s_i = P_i/P_i' as much as before, 0 where they are too few.
Without the block the sums are S_u + Δ_u and q_i', ::

    Δ_u  = Σ_i [(s_i − 1) Σ_{t in u} V_it − s_i Σ_{t in u, lost} V_it],   Δ_r = Σ_s Δ_rs
    q_i' = s_i² (q_i − Σ_{r lost} A_ir² − Σ_{r left} [A_ir² − (A_ir − L_ir)²] + Σ_{t lost} V_it²)
    p'   = p + Σ_u ± (2 S_u + Δ_u) Δ_u − Σ_i (q_i' − q_i)

over rows i that are touched; L_ir are the pairs that a rating which is left has lost. Of ratings
the last two sums of q_i' are absent. A block of rows takes all they have: s_i = q_i' = 0. What rows
add to the sums of `BinSums` changes likewise, by what they add with fewer ratings. The rest is the
binned loss of all data, of other sums.
"""

from collections.abc import Iterator
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
    SharedTerms,
    Terms,
    annotations,
    least_sharing,
    of_columns,
    of_ratings,
    parts_of,
    squares_of,
    terms_of,
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
        rater = annotations(self.rows).rater.astype(np.intp)
        times = np.bincount(rater)
        left = np.full(n_blocks, np.count_nonzero(times))
        for block in code:
            # raters with more ratings than a block are in several
            if np.count_nonzero(times > np.bincount(block).max()) >= self._least:
                continue
            cells, cell = _numbered(rater * n_blocks + block, len(times) * n_blocks)
            of, at = np.divmod(cells, n_blocks)
            held = np.bincount(cell, minlength=len(cells))
            # raters all of whose ratings are in one block
            whole = (held > 0) & (held == times[of])
            left -= np.bincount(at[whole], minlength=n_blocks)
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

    def losses(self, terms: Terms) -> Iterator[tuple[Indices, Any]]:
        """Numbers of these that lose terms, and which terms; none loses a term twice."""
        all_of = slice(None)
        lost = self.lost_to[terms.ratings]
        yield lost[0], all_of
        if len(lost) > 1:
            apart = all_of if self.single else np.flatnonzero(lost[0] != lost[1])
            yield lost[1][apart], apart


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


def _squares_lost(terms: Terms, A: Floats, what: Touched) -> Iterator[tuple[Any, Floats]]:
    """What touched rows lose of q beside ``scale²``: their numbers, and values (1 + m, n)."""
    # a row that loses a rating loses all its terms
    yield slice(None) if what.single else what.lost_to, A * A
    if len(terms.ratings) == 1:
        return
    V = terms.values
    (a, b), (p, q) = terms.ratings, what.lost_to[terms.ratings]
    if what.single:
        # the other rating loses the pair: A² − (A − V)², less V² of the pair itself
        for lost, other in ((p, b), (q, a)):
            square = np.take(A, other, axis=1)
            square -= V
            square *= 2 * V
            yield lost, square
        return
    # both may be lost together, and others lose several pairs at once
    apart = np.flatnonzero(p != q)
    lost, other = np.concatenate([p[apart], q[apart]]), np.concatenate([b[apart], a[apart]])
    key, place = np.unique(lost * A.shape[1] + other, return_inverse=True)
    lost, other = np.divmod(key, A.shape[1])
    L: Floats = np.stack([np.bincount(place, np.tile(v[apart], 2), len(key)) for v in V])
    yield lost, L * (2 * np.take(A, other, axis=1) - L)
    for of, some in ((p, V), (q[apart], V[:, apart])):
        yield of, -some * some


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
    A = of_ratings(terms, len(y.rater))
    # terms that are left weigh more
    before, after = (binned.how_many(n) for n in (y.n[what.at], what.n))
    scale = np.divide(before, after, np.zeros_like(after), where=after > 0)
    q = np.take(squares_of(terms, A, y), what.at, axis=1)
    left = q.copy()
    for p, square in _squares_lost(terms, A, what):
        _add_at(left, p, -square)
    left *= scale * scale
    left -= q
    for number in places:
        shared.add_within(number, left)
    unit = units_of(terms, y) * shared.places.size
    shared.cells.add(*_weighed(terms, unit, scale - 1, what, binned.bins.index(z).T, shared))
    for p, e in what.losses(terms):
        moved = of_columns(-scale[p] * terms.values[:, e])
        for number in places:
            shared.cells.add(unit[e] + np.take(number, p, axis=1), moved)


def _add_at(totals: Floats, p: Indices | slice, values: Floats) -> None:
    """Add values, (m, n), to the totals of these touched rows."""
    if isinstance(p, slice):
        totals += values
        return
    for total, v in zip(totals, values, strict=True):
        total += np.bincount(p, v, len(total))


def _weighed(
    terms: Terms, unit: Indices, weight: Floats, what: Touched, index: NDArray, shared: SharedTerms
) -> tuple[Indices, Floats]:
    """Sums of C and U over units and blocks, where touched rows weigh all terms of a row alike.

    `unit` are the first cells of units, `index` (m, n) are bins. Returned are numbers of cells, and
    two sums of each.
    """
    n, ways = index.shape[1], len(what.block)
    touches = np.append(0, np.cumsum(np.bincount(what.at, minlength=n) * ways))
    weigh = csr_array(
        (np.repeat(weight, ways), what.block.T.ravel(), touches),
        shape=(n, shared.places.n_blocks),
    ).T.tocsr()
    whole = shared.places._replace(n_blocks=1)
    size = shared.places.size
    cell = np.take(whole.of(index), terms.row, axis=1) + unit // size * whole.size
    # C and U in one product, as real and imaginary part
    C, U = of_columns(terms.values)
    V = (C + 1j * U).T.ravel()
    cells, cell = _numbered(cell.T.ravel(), shared.R ** len(terms.ratings) * whole.size)
    indptr = np.append(0, np.cumsum(np.bincount(terms.row, minlength=n)))
    in_rows = csr_array((V, cell, indptr * whole.m), shape=(n, len(cells)))
    found = (weigh @ in_rows).tocoo()
    of_unit, place = np.divmod(cells[found.col], whole.size)
    number = of_unit * size + shared.places.within(place, found.row)
    return number, np.stack([found.data.real, found.data.imag])


def _numbered(cell: NDArray, size: int) -> tuple[Indices, Indices]:
    """Cells that are summed, and the number among them of each value's; all where they are few."""
    if size > DENSE:
        return np.unique(cell, return_inverse=True)
    return np.arange(size), cell
