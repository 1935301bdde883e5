"""What rules of asking for labels cost together, and how surely."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._ground.arrays import Floats, Indices, row_units
from .._rows import Rows
from ._bins import mean_spread, student_interval
from ._replay import Replayed, Rules, mean_costs
from ._rows_without import RowsWithout, SharedNoise, rows_without

# parts of the rows, of which each gets the number and the threshold that are best on the others
_FOLDS = 5


def _folds(rows: Rows, rng) -> Indices:
    """The number of the fold of each row, shape (n,); rows of one group share theirs."""
    units = row_units(rows.groups, len(rows))
    return (rng.permutation(units.max() + 1) % _FOLDS)[units]


def policy_curves(
    found: Replayed, rows: Rows, C: Floats, prices: Floats, rng, raters: str | None, level: float
) -> tuple[NDArray, ...]:
    """Total costs, intervals, differences, intervals, labels, and costs of fixed numbers."""
    folds = _folds(rows, rng)
    w = rows.weight / rows.weight.sum()
    at = np.arange(len(rows))
    rules = [found.policy, found.fixed, found.by_entropy]
    # of each row
    total = np.empty((len(rows), len(rules), len(prices)))
    chosen = np.empty((len(rules), len(prices), len(rows)), dtype=np.intp)
    n_labels = np.empty(chosen.shape[:2])
    for j, price in enumerate(prices):
        for i, (cost, labels) in enumerate(rules):
            each = cost + price * labels
            # the cheapest on other rows; of the policies, the one that is made for the price
            chosen[i, j] = _best_elsewhere(each, w, folds) if i else j
            total[:, i, j] = each[at, chosen[i, j]]
            n_labels[i, j] = w @ labels[at, chosen[i, j]]
    cost, labels = found.fixed
    fixed_cost = (w @ cost)[:, None] + (w @ labels)[:, None] * prices
    horizon = cost.shape[1] - 1
    value = partial(mean_costs, rows, rules=Rules(C, prices, horizon, *chosen[1:]))
    without = rows_without(rows, raters, horizon + 1, value)
    how = (w, rows.groups, level)
    if without is None:
        curves = _intervals(total, *how)
        return *curves, *_intervals(_differences(total), *how), n_labels, fixed_cost
    # over all orders of the labels
    whole = value(rows.labels.counts, at)
    curves = _intervals(total, *how, without, whole)
    of_differences = (without.part(_differences), _differences(whole))
    differences = _intervals(_differences(total), *how, *of_differences)
    return *curves, *differences, n_labels, fixed_cost


def _differences(total: Floats) -> Floats:
    """Total costs (n, n_rules, n_prices) less those of the first rule."""
    return total - total[:, :1]


def _best_elsewhere(each: Floats, w: Floats, folds: Indices) -> Indices:
    """For each row the rule, of `each` (n, n_rules), that is cheapest on the other folds, (n,)."""
    weights = w * (folds != np.arange(folds.max() + 1)[:, None])
    return (weights @ each).argmin(axis=1)[folds]


def _intervals(
    values: Floats,
    w: Floats,
    groups: NDArray | None,
    level: float,
    without: RowsWithout | None = None,
    whole: Any = None,
) -> tuple[NDArray, NDArray]:
    """Means over rows of values (n, rules, prices), and their intervals.

    `without` and `whole` (n, rules, prices): the same over all orders of the labels.
    """
    mean = np.empty(values.shape[1:])
    interval = np.empty((*mean.shape, 2))
    for i, j in np.ndindex(mean.shape):
        mean[i, j], variance, df = mean_spread(values[:, i, j], w, groups)
        if without is not None:
            one = without.part(partial(_one, i=i, j=j))
            variance, df, _ = SharedNoise(one, w, w * whole[:, i, j]).spread(variance, df)
        error = np.sqrt(variance)
        interval[i, j] = student_interval(mean[i, j : j + 1], error, df, level)[0]
    return mean, interval


def _one(values: NDArray, *, i: int, j: int) -> NDArray:
    return values[:, i, j]
