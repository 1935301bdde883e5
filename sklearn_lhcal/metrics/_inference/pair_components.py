"""What of a metric's variance is particular to pairs of raters, and to pairs of readings of a row.

T_rs, the metric of raters r and s alone, is T + β_r + β_s + γ_rs. The variance of γ over pairs is
that of pairs of raters, σ_G², and that of the n_rs rows that both have read, σ_D²/n_rs, which a
jackknife over rows tells.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np

from ..._ground.arrays import Floats
from .raters import Blocks
from .statistic import Statistic

# raters whose pairs are looked at, and rows that a pair needs
_MOST = 12
_LEAST_ROWS = 10


class PairComponents(NamedTuple):
    """What is particular to pairs: mean squares of γ over pairs, and of what rows make of it.

    Attributes
    ----------
    gamma, noise : float
        Mean squares; 0 where there are too few pairs to tell.
    df : float
        Degrees of freedom of the first.
    n_rows : float
        Mean number of rows of a pair.
    """

    gamma: float = 0.0
    noise: float = 0.0
    df: float = 1.0
    n_rows: float = 0.0


def pair_components(statistic: Statistic, block: Blocks) -> PairComponents:
    """Of a statistic of pairs of readings."""
    y = statistic.labels
    times = np.bincount(y.rater, minlength=len(y.raters))
    most = np.argsort(-times, kind="stable")[:_MOST]
    pairs, values, rows = [], [], []
    for r, s in combinations(most[times[most] > 0], 2):
        found = _of_pair(statistic, block, y.rater == r, y.rater == s)
        if found is not None:
            pairs.append((r, s))
            values.append(found[0])
            rows.append(found[1])
    if not pairs:
        return PairComponents()
    # each pair has an effect of either rater; all effects together hold the mean
    X = (np.array(pairs)[:, :, None] == most).any(axis=1).astype(np.float64)
    left = np.eye(len(X)) - X @ np.linalg.pinv(X)
    df = np.trace(left)
    if df < 0.5:
        return PairComponents()
    T, *without = np.stack(values, axis=1)
    G = block.n
    gamma = left @ T
    noise = (G - 1) / G * sum(((left @ t - gamma) ** 2).sum() for t in without) / df
    return PairComponents(*map(float, ((gamma**2).sum() / df, noise, df, np.mean(rows))))


def _of_pair(statistic: Statistic, block: Blocks, one, other) -> tuple[Floats, int] | None:
    """The statistic of two raters, and without each block of rows, and their number of rows."""
    row = statistic.labels.row
    rows = np.intersect1d(row[one], row[other])
    if len(rows) < _LEAST_ROWS:
        return None
    of_pair = statistic.of_part(one | other, rows)
    T = of_pair.estimate()
    inside, code = np.unique(block.code[rows], return_inverse=True)
    values = np.full(block.n + 1, T)
    values[1 + inside] = of_pair.without_rows(Blocks(code, len(inside)))
    return (values, len(rows)) if np.isfinite(values).all() else None
