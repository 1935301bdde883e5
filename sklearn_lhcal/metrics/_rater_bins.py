"""Corrections of binned calibration losses where raters read several rows.

Two ratings by one rater depend on each other, as two of one row do: only pairs of ratings that
share neither are unbiased for the square of a bin's residual. With U_ir = w_i (x_ir − z_i)/n_i and
C_ir = w_i/n_i, ``CL_b = W_b/W · p(U)/p(C)``, p(V) the sum of V·V' over such pairs.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .._ground.bins import BinSums
from .._ground.two_way import dependent_pairs, pairs_within, squares
from .._rows import Rows
from ..label_histogram import Annotations

# disjoint pairs of raters need so many
FOUR = 4


def leave_out_raters(sums: BinSums, rows: Rows, z: NDArray, x: Callable) -> bool:
    """Leave pairs of one rater out of the residual correction; whether there were any.

    ``x(y, k)`` is what each rating says of column k of the predictions z, shape (n_ratings,). One
    rater alone has no pairs with others: the labels are then his.
    """
    y = rows.labels
    if not isinstance(y, Annotations) or not share_raters(y, 2):
        return False
    B = sums.bins.n_bins
    row = y.row
    C = (rows.weight / y.n)[row]
    cell = None
    if rows.groups is not None:
        cell = rows.groups[row] * len(y.raters) + y.rater
    index = sums.bins.index(z)
    for k in range(z.shape[1]):
        b = index[row, k]
        U = C * (x(y, k) - z[row, k])
        for total, V in ((sums.ww, C), (sums.wwee, U)):
            total[k] += squares(V, y.rater, b, B)
            # those of one row, or group, have been left out already
            total[k] -= np.bincount(b, V * V, B) if cell is None else squares(V, cell, b, B)
    return True


def leave_out_pairs(sums: BinSums, rows: Rows, phi: NDArray, differ: Callable) -> bool:
    """The same for pairs of ratings of one row: only pairs of pairs without a common rater count.

    ``differ(a, b, k)`` is whether two labels differ by column k. Below four raters there are no
    such pairs, and those of one row alone are left out.
    """
    y = rows.labels
    if not isinstance(y, Annotations) or not share_raters(y, FOUR):
        return False
    B = sums.bins.n_bins
    first, second = pairs_within(y.indptr)
    row = y.row[first]
    places = np.stack([first, second])
    unit = row if rows.groups is None else rows.groups[row]
    raters = y.rater[places].astype(np.intp)
    cells = places if rows.groups is None else None
    C = (rows.weight / (y.n * (y.n - 1) / 2))[row]
    index = sums.bins.index(phi)
    for k in range(phi.shape[1]):
        U = C * (differ(y.label[first], y.label[second], k) - phi[row, k])
        both = np.stack([C, U])
        sums.ww[k], sums.wwee[k] = dependent_pairs(both, unit, raters, cells, index[row, k], B)
    return True


def share_raters(y: Annotations, least: int) -> bool:
    """Whether there are so many raters, and one of them rated two rows."""
    times = np.bincount(y.rater)
    return bool(np.count_nonzero(times) >= least and times.max() > 1)
