"""Sums over bins of rows that come in batches, in blocks of rows that can be left out.

Raters and groups come again in other batches. Their shares of a bin, C of weight and U of residual,
are kept for each of them, as ``Σ_u (Σ C)²`` and ``Σ_u (Σ U)²`` are no sums over rows. Letters as in
`_shared_terms`.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .._ground.arrays import Floats, Indices
from .._ground.bins import Bins, BinSums
from .._rows import Rows
from ..label_histogram import Annotations
from ._shared_terms import Binned, Cells, annotations

# values of a batch whose temporary arrays are in memory at a time
_VALUES = 2**17


class StreamedBins:
    """The sums over bins of all batches.

    Parameters
    ----------
    bins : Bins
        The same for all batches.
    n_columns : int
        How many columns are binned.
    n_blocks : int
        Blocks of rows.
    """

    def __init__(self, bins: Bins, n_columns: int, n_blocks: int):
        self.n_blocks = n_blocks
        # parts are blocks of rows
        self.sums = BinSums(bins, n_columns, n_blocks)
        # Σ C² and Σ U² of single ratings, which shares of raters hold too
        self.within = np.zeros((2, n_columns, n_blocks * bins.n_bins))
        # names of raters or groups, and their numbers
        self.units: dict = {}
        self.of_groups = False
        self.shares = Cells()

    @property
    def bins(self) -> Bins:
        """The bins of every column."""
        return self.sums.bins

    def add(self, rows: Rows, binned: Binned, block: Indices, groups: NDArray | None) -> None:
        """Add a batch; `block` (n,) numbers the blocks of its rows, `groups` (n,) names groups."""
        y = rows.labels
        raters = binned.corrected and isinstance(y, Annotations)
        if raters and groups is not None:
            raise ValueError(
                "Annotations and groups cannot be accumulated together: pass the counts of y, or "
                "all rows at once to the metric."
            )
        if raters and binned.pairs:
            raise ValueError(
                "Pairs of raters cannot be accumulated: pass the counts of y, or all rows at once "
                "to the metric."
            )
        values = max(_VALUES, self.sums.w.size)
        step = max(values // binned.z.shape[1], 1)
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            some = rows.take(part)
            # the raters' correction of rows with one rater, never read
            with np.errstate(divide="ignore", invalid="ignore"):
                rates, n = binned.observed(some)
                self.sums.add(rates, n, binned.z[part], some.w, self._parts(block[part]))
            if groups is not None:
                self._add_groups(rates, binned.z[part], some, block[part], groups[part])
        if raters:
            self._add_raters(rows, binned, block)

    def _parts(self, block: Indices) -> Indices | None:
        """The blocks as parts of the sums; None where there is one."""
        if self.n_blocks == 1:
            return None
        return block

    def _add_groups(self, rates, z, rows: Rows, block: Indices, groups: NDArray) -> None:
        self.of_groups = True
        names, code = np.unique(groups, return_inverse=True)
        unit = self._numbers(names.tolist())[code]
        index = self.bins.index(z)
        C = rows.weight
        for k in range(z.shape[1]):
            U = C * (rates[:, k] - z[:, k])
            self.shares.add(self._cells(unit, block, index[:, k], k), np.stack([C, U]))

    def _add_raters(self, rows: Rows, binned: Binned, block: Indices) -> None:
        y = annotations(rows)
        raters, code = np.unique(y.rater, return_inverse=True)
        unit = self._numbers(y.raters[raters].tolist())[code]
        row = y.row
        x = binned.says(rows)
        index = self.bins.index(binned.z)
        C = (rows.weight / y.n)[row]
        for k in range(binned.z.shape[1]):
            V = np.stack([C, C * (x(y, k) - binned.z[row, k])])
            b = index[row, k]
            self.shares.add(self._cells(unit, block[row], b, k), V)
            place = block[row] * self.bins.n_bins + b
            for total, v in zip(self.within[:, k], V, strict=True):
                total += np.bincount(place, v * v, len(total))

    def _numbers(self, names: list) -> Indices:
        """The number of each unit, new ones for new names."""
        numbers = [self.units.setdefault(name, len(self.units)) for name in names]
        return np.array(numbers, dtype=np.intp)

    def _cells(self, unit: Indices, block: Indices, b: Indices, k: int) -> Indices:
        """Numbers of units, columns, blocks and bins together."""
        place = (k * self.n_blocks + block) * self.bins.n_bins + b
        return unit.astype(np.int64) * self.sums.w.size + place

    def merge(self, other: "StreamedBins") -> None:
        """Add the sums of other batches, in the same bins and blocks."""
        self.sums.merge(other.sums)
        self.within += other.within
        self.of_groups |= other.of_groups
        keys, shares = other.shares.occupied()
        unit, place = np.divmod(keys, self.sums.w.size)
        mine = self._numbers(list(other.units))
        self.shares.add(mine[unit] * self.sums.w.size + place, shares)

    def total(self) -> BinSums:
        """The sums of all rows."""
        return self._left(self._in_blocks(self.sums.table).sum(axis=2), self._products()[0])

    def without_each(self) -> Iterator[BinSums]:
        """The sums without each block of rows that holds some."""
        total, change = self._products()
        parts = self._in_blocks(self.sums.table)
        whole = parts.sum(axis=2)
        for b in np.flatnonzero(parts[0].any(axis=(0, 2))):
            left = whole - parts[:, :, b]
            # what rounding leaves of a bin
            left[:, left[0] <= 1e-12 * whole[0]] = 0.0
            yield self._left(left, None if change is None else total + change[:, :, b])

    def _in_blocks(self, table: NDArray) -> NDArray:
        """A table (m, K, n_blocks · B) of shape (m, K, n_blocks, B)."""
        return table.reshape(len(table), -1, self.n_blocks, self.bins.n_bins)

    def _left(self, table: Floats, products: Floats | None) -> BinSums:
        """Sums with such a table (9, K, B), and products of rows that share a unit, (2, K, B)."""
        sums = BinSums(self.bins, table.shape[1])
        sums.table = table
        if products is not None:
            # groups take the place of rows; raters are left out beside rows
            if self.of_groups:
                sums.ww[...] = sums.wwee[...] = 0.0
            sums.ww[...] += products[0]
            sums.wwee[...] += products[1]
        return sums

    def _products(self) -> tuple:
        """``Σ_u S_u²`` (2, K, B), and what each block changes of it, (2, K, n_blocks, B).

        Of raters less their squares of single ratings. None where no units are known, or one rater
        alone, whose labels they are then.
        """
        if not self.units or (len(self.units) < 2 and not self.of_groups):
            return None, None
        size = self.sums.w.size
        keys, s = self.shares.occupied()
        unit, place = np.divmod(keys, size)
        rest, b = np.divmod(place, self.bins.n_bins)
        k = rest // self.n_blocks
        bins = k * self.bins.n_bins + b
        n_bins = size // self.n_blocks
        _, whole = np.unique(unit * n_bins + bins, return_inverse=True)
        S = np.stack([np.bincount(whole, v) for v in s])
        at = np.empty(S.shape[1], np.int64)
        at[whole] = bins
        shape = (len(s), -1, self.bins.n_bins)
        total = np.stack([np.bincount(at, v * v, n_bins) for v in S]).reshape(shape)
        # Σ (S − s)² − S² over the units of a block
        moved = np.stack([np.bincount(place, v, size) for v in (s - 2 * S[:, whole]) * s])
        change = self._in_blocks(moved.reshape(self.within.shape))
        within = self._in_blocks(self.within)
        return total - within.sum(axis=2), change + within
