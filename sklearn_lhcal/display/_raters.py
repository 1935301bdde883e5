"""What raters share of the sums of squares from which a reliability diagram takes its intervals.

Of the mean x̄ of a bin, Q = Σ_i U_i.² + Σ_r U_r.² − Σ_ir U_ir²: rows, and what is given here.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from .._ground.two_way import dependent_pairs, pairs_within, squares
from .._rows import Rows, random_raters
from ..label_histogram import Annotations
from ._bins import Shared


def shared_ratings(rows: Rows, columns: NDArray, raters: str | None) -> Shared | None:
    """`shared` for the shares of labels of some columns; None where raters are fixed."""
    y = sample_of(rows.labels, raters, 3)
    return None if y is None else partial(_of_ratings, y, rows.groups, columns)


def shared_pairs(rows: Rows, raters: str | None) -> Shared | None:
    """`shared` for the disagreement of pairs of raters; None where raters are fixed."""
    y = sample_of(rows.labels, raters, 4)
    return None if y is None else partial(_of_pairs, y, rows.groups)


def sample_of(labels, raters: str | None, least: int) -> Annotations | None:
    """The annotations, where raters are random; ValueError for too few."""
    y = random_raters(labels, raters)
    if y is not None and y.n_raters < least:
        raise ValueError(
            f"Intervals for new raters need {least} raters at least here, got {y.n_raters}; "
            'raters="fixed" gives the intervals for these raters and new rows.'
        )
    return y


def _of_ratings(y: Annotations, groups, columns, w, centre, index, B: int) -> tuple:
    """Σ_r U_r.² − Σ_ir U_ir² of residuals and, twice, of weights, (B,) each."""
    row = y.row
    C = w[row] / y.n[row, None]
    U = C * ((y.label[:, None] == columns) - centre[row])
    cell = np.arange(len(row))
    if groups is not None:
        cell = groups[row] * len(y.raters) + y.rater
    bins = index[row].ravel()

    def total(values: NDArray) -> NDArray:
        by_rater, by_cell = (
            squares(values.ravel(), np.repeat(unit, len(columns)), bins, B)
            for unit in (y.rater, cell)
        )
        return by_rater - by_cell

    of_weights = total(C)
    return total(U), of_weights, of_weights


def _of_pairs(y: Annotations, groups, w, centre, index, B: int) -> tuple:
    """The same of pairs of ratings of one row, and of the weights of ratings; of one column."""
    first, second = pairs_within(y.indptr)
    row = y.row[first]
    places = np.stack([first, second])
    unit = row if groups is None else groups[row]
    cells = places if groups is None else None
    C = w[row, 0] / (y.n * (y.n - 1) / 2)[row]
    U = C * ((y.label[first] != y.label[second]) - centre[row, 0])
    bins = index[row, 0]
    both = np.stack([U, C])
    raters = y.rater[places].astype(np.intp)
    shared = dependent_pairs(both, unit, raters, cells, bins, B) - squares(both, unit, bins, B)
    single = _of_ratings(y, groups, np.zeros(1), w, centre, index, B)
    return shared[0], shared[1], single[1]
