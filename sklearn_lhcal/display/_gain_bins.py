"""Bins of an estimate of epistemic uncertainty: the mean gain of each, and its interval."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from .._ground.arrays import Floats, Indices
from .._ground.bins import check_gains, gain_sums
from .._ground.checks import check_values
from .._ground.jackknife import (
    LEAST_RATERS,
    MOST_SINGLE,
    Blocks,
    LeftOut,
    cells_of,
    panel_of,
    warn_of_few,
    worth,
)
from .._ground.names import check_row_names
from .._ground.two_way import squares
from .._rows import read_groups
from ..label_histogram import Annotations
from ..metrics import accuracy_gain
from ._bins import student_interval
from ._raters import sample_of
from ._rows_without import spread_of_few


class GainsOfRaters(NamedTuple):
    """The gain by each single label, and who gave it."""

    y: Annotations
    gain: Floats


def gains_of_raters(y, y_pred, y_reference, raters: str | None) -> GainsOfRaters | None:
    """Gains by single labels; None where raters are fixed. Rows without ratings are left out."""
    known = sample_of(y, raters, LEAST_RATERS)
    if known is None:
        return None
    warn_of_few(known.n_raters, worth(np.bincount(known.rater, 1 / known.n[known.row])))
    label = known.label
    if known.classes is not None:
        label = known.classes[label]
    row = known.row
    pred, reference = (np.asarray(a)[row] for a in (y_pred, y_reference))
    return GainsOfRaters(known, accuracy_gain(label, pred, reference))


def binned_gains(
    gain,
    uncertainty,
    calibrated=None,
    *,
    n_bins,
    strategy: str,
    confidence_level: float,
    groups=None,
    by_rater: GainsOfRaters | None = None,
) -> list[NDArray]:
    """Of the bins of one run: rows, interval for the gain (B, 2), means of gain and estimates."""
    check_row_names(gain=gain, uncertainty=uncertainty, calibrated=calibrated, groups=groups)
    g, e = check_gains(gain, uncertainty)
    sums = gain_sums(g, e, n_bins, strategy)
    index = sums.bins.index(e[:, None])[:, 0]
    counts = sums.w[0]
    B = len(counts)
    n = np.maximum(counts, 1)
    mean_e, mean_g = (means[0] for means in sums.means())
    groups = read_groups(groups, len(g))
    unit = np.arange(len(g)) if groups is None else groups
    # rows or groups in each bin
    bins = np.unique(unit * B + index) % B
    units = np.bincount(bins, minlength=B)
    spread = squares(g - mean_g[index], unit, index, B)
    # each bin borrows one of them of the average spread
    average = spread.sum() / max(units.sum() - (counts > 0).sum(), 1)
    variance = (spread + average) / n / n
    df = np.maximum(units, 1).astype(np.float64)
    if by_rater is not None:
        variance, df = _over_raters(by_rater, groups, index, variance, df)
    interval = student_interval(mean_g, np.sqrt(variance), df, confidence_level)
    result = [counts.astype(np.int64), interval, mean_g, mean_e]
    if calibrated is not None:
        _, c = check_gains(gain, calibrated)
        total = np.bincount(index, weights=c, minlength=B)
        result.append(total / np.where(counts > 0, counts, np.nan))
    return result


def _over_raters(
    of: GainsOfRaters, groups, index: Indices, V_row: Floats, df_row: Floats
) -> tuple[Floats, Floats]:
    """Variances over rows and raters, and degrees of freedom, (B,).

    NaN in bins of fewer than three raters.
    """
    found = np.full((2, len(V_row)), np.nan)
    for b in np.unique(index):
        rows = np.flatnonzero(index == b)
        y = of.y.take(rows)
        if np.count_nonzero(np.bincount(y.rater)) < LEAST_RATERS:
            continue
        x = of.gain[index[of.y.row] == b]
        panel = panel_of(y, None, 1, MOST_SINGLE, check_random_state(0))
        cells = Blocks(np.arange(len(x)), len(x))
        if groups is not None:
            cells = cells_of(y, groups[rows])
        of_raters = Blocks(panel.raters.code[y.rater], panel.raters.n)
        left = LeftOut(_mean_without(y, x, of_raters), _mean_without(y, x, cells))
        T = (np.bincount(y.row, x) / y.n).mean()
        found[:, b] = spread_of_few(T, left, V_row[b], df_row[b], panel)[:2]
    return found[0], found[1]


def _mean_without(y: Annotations, x: Floats, block: Blocks) -> Floats:
    """The mean over rows of the mean of their ratings x, without each block of ratings."""
    total = np.bincount(y.row, x)
    # a row and a block that share ratings
    pair, place = np.unique(y.row * block.n + block.code, return_inverse=True)
    row, code = np.divmod(pair, block.n)
    lost = np.bincount(place, x)
    left = y.n[row] - np.bincount(place)
    gone = left == 0
    after = np.where(gone, 0.0, (total[row] - lost) / np.maximum(left, 1))
    mean = total / y.n
    changed = mean.sum() + np.bincount(code, after - mean[row], block.n)
    return changed / (len(y) - np.bincount(code, gone, block.n))


def are_runs(gain) -> bool:
    """Whether it holds several runs, one below the other; their lengths may differ."""
    check_values(gain, "gain")
    no_rows = isinstance(gain, (dict, str, bytes)) or getattr(gain, "ndim", 1) == 0
    if no_rows or not hasattr(gain, "__len__") or not len(gain):
        raise ValueError(f"gain must have one row at least, got {type(gain).__name__}.")
    return np.ndim(next(iter(gain))) == 1
