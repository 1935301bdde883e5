"""Means over samples with a variance of their own: what curves are made of.

A curve has the variance of its means over rows in closed form. The jackknives over raters and cells
add what raters who read several samples share.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from scipy.stats import t as student
from sklearn.utils import check_random_state

from ..._rows import Annotations, Rows
from ..._utils.arrays import row_units
from ..._utils.results import VarianceComponents
from ..._utils.types import Floats, Indices, NDArray
from .replicates import MeanStatistic, Terms
from .scarce import ends_of_few, possible_terms
from .two_way import (
    MOST_SINGLE,
    Panel,
    Spread,
    cells_of,
    check_rows_remain,
    of_panel,
    over_panels,
    over_raters,
    panel_of,
    random_raters,
    warn_of_few,
)


def mean_and_spread(values: Floats, w: Floats, groups: NDArray | None) -> tuple[Any, Any, float]:
    """Means of values (n, ...) with weights of sum 1, their variances and degrees of freedom."""
    mean = np.tensordot(w, values, 1)
    unit = row_units(groups, len(values))
    residual = (w * (values - mean).T).T
    sums = np.zeros((unit.max() + 1, *residual.shape[1:]))
    np.add.at(sums, unit, residual)
    G = len(sums)
    if G < 2:
        raise ValueError("An interval needs two samples or groups at least.")
    return mean, G / (G - 1) * (sums**2).sum(axis=0), G - 1.0


def student_ends(mean, variance, df, level: float) -> Floats:
    """Student's interval of each mean, ends last."""
    reach = student.ppf((1 + level) / 2, df) * np.sqrt(variance)
    return np.stack([mean - reach, mean + reach], axis=-1)


def usual_panel(y: Annotations, w, least_raters: int) -> Panel:
    """Raters one by one, or in the usual number of blocks, the same ones each time."""
    check_rows_remain(y, w, least_raters)
    return panel_of(y, w, least_raters, MOST_SINGLE, check_random_state(0))


def told_panel(y: Annotations, w, least_raters: int) -> Panel:
    """`usual_panel`, and a warning where raters are few."""
    panel = usual_panel(y, w, least_raters)
    warn_of_few(panel.n_raters, panel.worth)
    return panel


def spread_over_raters(
    terms: Terms, rows: Rows, panel: Panel, V_row, df_row, least_raters: int = 1
) -> Spread:
    """The variance of means over rows and raters, from that over rows; `terms` of `MeanStatistic`.

    The degrees of freedom are no fewer than those of samples or of raters, whichever are fewer: a
    bin may hold so few samples that V_row is too small by chance, and V_rat − V_cell with it.
    """
    mean = MeanStatistic(terms, rows, least_raters=least_raters)
    blocks = panel.blocks, cells_of(mean.labels, rows.groups)
    without = [mean.without_ratings(block) for block in blocks]
    part = of_panel(mean.estimate(), without, df_row, panel)
    spread = over_panels(V_row, df_row, [part])
    least = np.minimum(df_row, panel.df)
    return spread._replace(df=np.maximum(spread.df, least))


def spread_of_bin(terms: Terms, rows: Rows, V, df, least_raters: int = 1) -> tuple[float, float]:
    """The same of the mean of a bin, and its degrees of freedom; NaN where raters are too few."""
    y = cast(Annotations, rows.labels)
    if y.n_raters < 2 + least_raters:
        return np.nan, np.nan
    panel = usual_panel(y, rows.w, least_raters)
    V, df, _ = spread_over_raters(terms, rows, panel, V, df, least_raters)
    return float(V), float(df)


def intervals_of_means(
    values: Callable[[Rows, Indices], Floats],
    rows: Rows,
    raters: str | None,
    level: float,
    least_raters: int = 1,
    elsewhere: Sequence[Callable] = (),
) -> tuple[Floats, Floats]:
    """Weighted means over samples, (m,), and intervals of them, (m, 2).

    ``values(part, at)`` are of shape (n, m), of samples that have the numbers `at`; they may have
    lost labels, down to `least_raters`. `elsewhere` are values that other samples may have, where
    not these.
    """
    w = rows.weight / rows.weight.sum()
    X = values(rows, np.arange(len(rows)))
    mean, V, df = mean_and_spread(X, w, rows.groups)
    y = random_raters(rows.labels, raters)
    spread = Spread(V, df, VarianceComponents(V))
    if y is not None:

        def terms(part: Rows, at: Indices) -> tuple[Floats, Floats]:
            return w[at, None] * values(part, at), w[at]

        panel = told_panel(y, rows.w, least_raters)
        spread = spread_over_raters(terms, rows, panel, V, df, least_raters)
    ends = student_ends(mean, spread.variance, spread.df, level)
    results = [possible_terms(of, rows, least_raters) for of in elsewhere or [values]]
    possible = np.concatenate([x for x, _ in results])
    p = np.concatenate([p for _, p in results], axis=1)
    one = np.ones(len(X))
    few = [
        ends_of_few(rows.weight * [one, x], possible[..., j], p, rows, level)
        for j, x in enumerate(X.T)
    ]
    scarce = over_raters(mean, few, spread, level)
    return mean, np.where(np.isnan(scarce), ends, scarce)
