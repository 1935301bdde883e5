"""Corrections of binned calibration losses where raters read several rows.

Two ratings by one rater depend on each other, as two of one row do: only pairs of ratings that
share neither are unbiased for the square of a bin's residual. With U_ir = w_i (x_ir − z_i)/n_i and
C_ir = w_i/n_i, ``CL_b = W_b/W · p(U)/p(C)``, p(V) the sum of V·V' over such pairs.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .._ground.bins import BinSums
from .._ground.two_way import dependent_pairs, squares
from .._rows import Rows
from ._shared_terms import FOUR, Binned, SharedTerms, annotations, parts_of, shares_raters, terms_of


def leave_out_raters(sums: BinSums, rows: Rows, z: NDArray, x: Callable) -> None:
    """Leave pairs of one rater out of the residual correction.

    ``x(y, k)`` is what each rating says of column k of the predictions z, shape (n_ratings,). One
    rater alone has no pairs with others: the labels are then his.
    """
    if not shares_raters(rows, 2):
        return
    y = annotations(rows)
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


def leave_out_pairs(sums: BinSums, rows: Rows, binned: Binned) -> None:
    """The same for pairs of ratings of one row: only pairs of pairs without a common rater count.

    Below four raters there are no such pairs, and those of one row alone are left out.
    """
    if not shares_raters(rows, FOUR):
        return
    if rows.groups is not None:
        _leave_out_pairs_of_groups(sums, rows, binned)
        return
    shared = SharedTerms(rows, binned)
    for part in parts_of(rows, binned):
        shared.add(rows.take(part), binned.z[part])
    for total, products in zip((sums.ww, sums.wwee), shared.products(), strict=True):
        total += products.reshape(total.shape)


def _leave_out_pairs_of_groups(sums: BinSums, rows: Rows, binned: Binned) -> None:
    """Groups take the place of rows: two pairs of one group depend on each other."""
    B = sums.bins.n_bins
    index = sums.bins.index(binned.z)
    terms = terms_of(rows, binned, binned.z)
    row = terms.row
    group = rows.groups[row]
    raters = annotations(rows).rater[terms.ratings].astype(np.intp)
    for k in range(binned.z.shape[1]):
        values = terms.values[[0, 1 + k]]
        found = dependent_pairs(values, group, raters, None, index[row, k], B)
        sums.ww[k], sums.wwee[k] = found
