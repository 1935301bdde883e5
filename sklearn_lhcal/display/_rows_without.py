"""What rows come to by the labels of fewer raters, and what raters add to the variance of a mean.

Letters: w the weights of rows, x what each row comes to, T the sum of w·x over the weight of rows.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from .._ground.arrays import Floats, Indices
from .._ground.jackknife import (
    MOST_SINGLE,
    Blocks,
    LeftOut,
    Panel,
    Spread,
    cells_of,
    over_raters,
    panel_of,
    warn_of_few,
)
from .._ground.rater_shares import row_blocks
from .._rows import Rows, random_raters
from ..label_histogram import Annotations


class Lost(NamedTuple):
    """What rows come to that lost labels, and the unit that was left out.

    Attributes
    ----------
    row : ndarray of shape (m,)
    values : ndarray of shape (n_values, ...)
        By the labels that are left; NaN where these are too few.
    which : ndarray of shape (m,)
        Number of the row's value.
    unit : Blocks
        The block of raters, or the cell, (m,).
    """

    row: NDArray
    values: NDArray
    which: NDArray
    unit: Blocks


class RowsWithout(NamedTuple):
    """What rows come to without each block of raters, and without each cell."""

    panel: Panel
    raters: Lost
    cells: Lost

    def part(self, of: Callable[[NDArray], NDArray]) -> "RowsWithout":
        """Of one of several values of each row, which `of` selects."""
        lost = (each._replace(values=of(each.values)) for each in (self.raters, self.cells))
        return RowsWithout(self.panel, *lost)


def rows_without(
    rows: Rows, raters: str | None, least: int, value: Callable[[NDArray, Indices], NDArray]
) -> RowsWithout | None:
    """Rows with `least` labels or more, without raters; None where these are fixed.

    ``value(counts, at)`` is what rows `at` come to by counts (m, K), of shape (m, ...).
    """
    y = random_raters(rows.labels, raters)
    if y is None:
        return None
    _check_left(y, rows, least)
    panel = panel_of(y, rows.w, least, MOST_SINGLE, check_random_state(0))
    warn_of_few(panel.n_raters, panel.worth)
    cells = Blocks(np.arange(len(y.rater)), len(y.rater))
    if rows.groups is not None:
        cells = cells_of(y, rows.groups)
    values, which = _joined(_each(y, y.label, least, value))[1:]
    code = panel.raters.code[y.rater]
    unit = Blocks(code, panel.raters.n)
    of_raters = Lost(y.row, values, which, unit)
    if not panel.raters.apart:
        (at, block), several, _ = _joined(_each(y, code, least, value, together=True))
        of_raters = Lost(at, several, np.arange(len(at)), Blocks(block, unit.n))
    return RowsWithout(panel, of_raters, Lost(y.row, values, which, cells))


def _check_left(y: Annotations, rows: Rows, least: int) -> None:
    """Refuse raters without whom no row has enough labels."""
    if np.count_nonzero(np.bincount(y.rater)) < 3:
        # too few raters, which is another error
        return
    lost = np.where(y.n <= least, rows.weight, 0.0)[y.row]
    gone = np.bincount(y.rater, lost, len(y.raters))
    total = rows.weight.sum()
    if (gone >= (1 - 1e-12) * total).any():
        name = y.raters[int(gone.argmax())]
        raise ValueError(
            f"Without rater {name} no row has {least} labels: intervals for new raters need "
            'rows with more, or fewer labels to look at; raters="fixed" gives the intervals for '
            "these raters and new rows."
        )


def _joined(parts: Iterator[tuple]) -> tuple[tuple, NDArray, NDArray]:
    """Rows and codes, values, and which value is each rating's, of all parts."""
    at, values, which = zip(*parts, strict=True)
    before = np.cumsum([0] + [len(v) for v in values[:-1]])
    numbered = [place + first for place, first in zip(which, before, strict=True)]
    pairs = tuple(np.concatenate(side) for side in zip(*at, strict=True))
    return pairs, np.concatenate(values), np.concatenate(numbered)


def _each(
    y: Annotations, code: NDArray, least: int, value: Callable, *, together: bool = False
) -> Iterator[tuple[tuple[NDArray, NDArray], NDArray, NDArray]]:
    """Rows and codes that occur together, the values without, and which of them is each rating's.

    Without one rating of this code; or without all of them, where they go together.
    """
    K = y.shape[1]
    size = int(code.max()) + 1
    for part, ratings, row in row_blocks(y):
        pair, which = np.unique(row * size + code[ratings], return_inverse=True)
        at, of = np.divmod(pair, size)
        gone = np.bincount(which * K + y.label[ratings], minlength=len(pair) * K)
        gone = gone.reshape(-1, K)
        if not together:
            gone = np.minimum(gone, 1)
        left = y.counts[part][at] - gone
        at = at + part.start
        enough = left.sum(axis=1) >= least
        # the shape of a value, where there is none
        found = value(left[enough], at[enough])
        values = np.full((len(at), *found.shape[1:]), np.nan)
        values[enough] = found
        yield (at, of), values, which


def spread_of_few(T: float, without: LeftOut, V_row: float, df_row: float, panel: Panel) -> Spread:
    """The variance over rows and raters of a mean over few rows, and its degrees of freedom.

    They are no fewer than the least of rows' and raters'.
    """
    found = over_raters(T, without, V_row, df_row, panel)
    # what is taken off may be more than what few rows seem to vary
    least = min(df_row, panel.effective - 1)
    return found._replace(df=max(found.df, least))


class SharedNoise:
    """What raters add to the variance of sums over rows.

    Parameters
    ----------
    without : RowsWithout
        One number of each row.
    w : ndarray of shape (n,)
        Weights, of sum 1.
    noise : ndarray of shape (n,)
        What each row adds to the sum: its number times its weight, less what is explained of it.
    explained : ndarray of shape (n,) or float, default=0.0
    unit : float, default=1.0
        What sums are divided by.
    """

    def __init__(self, without: RowsWithout, w, noise, explained=0.0, unit: float = 1.0):
        self.panel = without.panel
        self.noise = noise / unit
        explained = np.broadcast_to(explained, w.shape)
        self.lost = []
        for row, values, which, of in (without.raters, without.cells):
            x = values[which]
            gone = np.isnan(x)
            # a row of which too little is left counts no more, and its weight neither
            kept = np.where(gone, 0.0, w[row] * x - explained[row])
            left = 1 - np.bincount(of.code, gone * w[row], of.n)
            left[left < 1e-12] = np.nan
            self.lost.append((row, (kept - noise[row]) / unit, of, left))

    def spread(self, V_row: float, df_row: float, a: Floats | None = None) -> Spread:
        """The variance of ``Σ a_i noise_i``, from that over rows; None for a is 1 for all."""
        a = np.ones(len(self.noise)) if a is None else a
        T = a @ self.noise
        values = []
        for row, change, of, left in self.lost:
            values.append((T + np.bincount(of.code, a[row] * change, of.n)) / left)
        return spread_of_few(T, LeftOut(*values), V_row, df_row, self.panel)
