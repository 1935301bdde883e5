"""Sums over bins of rows, without the pairs that depend on each other.

Labels by one rater depend on each other, as those of one row or group do: only pairs of labels that
share neither are unbiased for the square of a bin's residual. With U_ir = w_i (x_ir − z_i)/n_i and
C_ir = w_i/n_i, ``CL_b = W_b/W · p(U)/p(C)``, p(V) the sum of V·V' over such pairs.
"""

from collections.abc import Callable
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from .._rows import Rows
from .._utils.arrays import Floats, row_blocks
from .._utils.bins import Bins, BinSums
from ..label_histogram import Annotations
from ._two_way import pairs_within, squares

# disjoint pairs of raters need so many
_FOUR = 4


class Binned(NamedTuple):
    """What a binned loss compares.

    Attributes
    ----------
    bins : Bins
    z : ndarray of shape (n, m)
        Predictions, which decide the bins.
    observed : callable
        ``observed(rows) -> (rates, n)``: observed rates (n, m), and the raters they come from,
        (n,); infinitely many where their sampling is not corrected.
    correction : {"residual", "label", None}
    of_ratings : callable
        ``of_ratings(rows) -> x``: ``x(y, k)`` is what each label contributes to the rate of column
        k; of pairs, ``x(a, b, k)`` is whether two labels differ by it.
    pairs : bool
        Whether rates are of pairs of labels.
    """

    bins: Bins
    z: Floats
    observed: Callable
    correction: str | None
    of_ratings: Callable
    pairs: bool = False

    def sums(self, rows: Rows) -> BinSums:
        """The sums of these rows, with their groups and raters."""
        sums = BinSums(self.bins, self.z.shape[1], correction=self.correction)
        self.add_to(sums, rows)
        # one rater alone has no pairs with others: the labels are then his
        repeated = raters_repeat(rows, _FOUR if self.pairs else 2)
        sums.dependent = rows.groups is not None or repeated
        if self.correction is None:
            return sums
        if rows.groups is not None:
            sums.by_group(self.observed(rows)[0], self.z, rows.groups, rows.w)
        if self.correction == "residual" and repeated:
            leave_out = _leave_out_pairs if self.pairs else _leave_out_ratings
            leave_out(self, sums, rows)
        return sums

    def add_to(self, sums: BinSums, rows: Rows, part: NDArray | None = None) -> None:
        """Add the rows to the sums of parts of the data, as if rows were independent."""
        for block in row_blocks(*rows.labels.shape):
            some = rows.take(block)
            rates, n = self.observed(some)
            sums.add(rates, n, self.z[block], some.w, None if part is None else part[block])


def raters_repeat(rows: Rows, least: int = 1) -> bool:
    """Whether so many raters are known, one of whom rated two rows."""
    if not isinstance(rows.labels, Annotations):
        return False
    times = np.bincount(rows.labels.rater)
    return bool(np.count_nonzero(times) >= least and times.max() > 1)


def correction_of(rows: Rows, bias_correction: str | None) -> str | None:
    """The correction to make: none where the class probabilities are known."""
    return None if rows.labels.known else bias_correction


def _leave_out_ratings(binned: Binned, sums: BinSums, rows: Rows) -> None:
    """Leave pairs of labels by one rater out: Σ_r U_r² − Σ_ir U_ir², and the same of C."""
    y = cast(Annotations, rows.labels)
    x = binned.of_ratings(rows)
    B = sums.bins.n_bins
    row = y.row
    C = (rows.weight / y.n)[row]
    cell = _cells(y, rows.groups)
    index = sums.bins.index(binned.z)
    for k, z in enumerate(binned.z.T):
        b = index[row, k]
        U = C * (x(y, k) - z[row])
        for total, V in ((sums.ww, C), (sums.wwee, U)):
            total[k] += squares(V, y.rater, b, B) - _squares_of_cells(V, cell, b, B)


def _leave_out_pairs(binned: Binned, sums: BinSums, rows: Rows) -> None:
    """The same where terms are pairs of labels: only pairs of them without a common rater count.

    With A_r and A_ir, sums of U_irs over the pairs that hold r, and B_rs, sums over rows, what is
    left out is Σ_r A_r² − Σ_{r<s} B_rs² − [Σ_ir A_ir² − Σ_{i,r<s} U_irs²].
    """
    y = cast(Annotations, rows.labels)
    differ = binned.of_ratings(rows)
    B = sums.bins.n_bins
    N, R = len(y.rater), len(y.raters)
    first, second = pairs_within(y.indptr)
    row = y.row
    row_of_pair = row[first]
    C = (rows.weight / np.maximum(y.n * (y.n - 1) / 2, 1))[row_of_pair]
    low, high = np.sort(y.rater[np.stack([first, second])].astype(np.intp), axis=0)
    raters = low * R + high
    cell = _cells(y, rows.groups)
    single = None
    if rows.groups is not None:
        # raters are numbered: products of pairs and groups may exceed 64 bits
        number = np.unique(raters, return_inverse=True)[1]
        single = rows.groups[row_of_pair] * (int(number.max(initial=0)) + 1) + number
    labels = y.label[first], y.label[second]
    index = sums.bins.index(binned.z)
    for k, z in enumerate(binned.z.T):
        b = index[row, k]
        b_of_pair = index[row_of_pair, k]
        U = C * (differ(*labels, k) - z[row_of_pair])
        for total, V in ((sums.ww, C), (sums.wwee, U)):
            A = np.bincount(first, V, N) + np.bincount(second, V, N)
            total[k] += squares(A, y.rater, b, B) - squares(V, raters, b_of_pair, B)
            total[k] -= _squares_of_cells(A, cell, b, B)
            total[k] += _squares_of_cells(V, single, b_of_pair, B)


def _cells(y: Annotations, groups: NDArray | None) -> NDArray | None:
    """Number of the rater and the group of each label; None: without groups each is its own."""
    if groups is None:
        return None
    return groups[y.row] * len(y.raters) + y.rater


def _squares_of_cells(V: NDArray, cell: NDArray | None, b: NDArray, B: int) -> NDArray:
    """Σ of the squares of the sums of cells, by bin; None: each value is a cell."""
    if cell is None:
        return np.bincount(b, V * V, B)
    return squares(V, cell, b, B)
