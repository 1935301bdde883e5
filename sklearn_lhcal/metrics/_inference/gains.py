"""Bins of an estimate of epistemic uncertainty: the mean gain of each, and its interval."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._rows import Rows
from ..._utils.arrays import Floats, row_units
from ..._utils.checks import checked, read_groups
from ..._utils.names import check_row_names
from ..._utils.results import result
from ..._utils.types import ArrayLike, BinsLike, Groups, Raters, Strategy
from .._binned import squares
from .._epistemic import accuracy_gain, check_gains, gain_sums
from .means import spread_of_bin, student_ends, told_panel
from .raters import random_raters


@result
class GainCurve(NamedTuple):
    """What `gain_curve` returns, of B bins of the estimate.

    Attributes
    ----------
    bin_counts : ndarray of shape (B,)
        Number of samples.
    interval : ndarray of shape (B, 2)
        For the mean gain; NaN in bins of fewer than three raters where these are random.
    mean_gain, mean_uncertainty : ndarray of shape (B,)
        Means over the samples of the bin.
    mean_calibrated : ndarray of shape (B,) or None
    """

    bin_counts: NDArray
    interval: Floats
    mean_gain: Floats
    mean_uncertainty: Floats
    mean_calibrated: Floats | None = None


@checked
def gain_curve(
    gain: ArrayLike,
    uncertainty: ArrayLike,
    *,
    labels: tuple | None = None,
    calibrated: ArrayLike | None = None,
    groups: Groups = None,
    raters: Raters = None,
    n_bins: BinsLike = 20,
    strategy: Strategy = "quantile",
    confidence_level: float = 0.95,
) -> GainCurve:
    """Mean gain in accuracy in bins of an estimate of epistemic uncertainty, with intervals.

    Parameters
    ----------
    gain : array-like of shape (n_samples,)
        What more data gained, see `accuracy_gain`.
    uncertainty : array-like of shape (n_samples,)
        The estimate, at least 0. It makes the bins.
    labels : tuple (y, y_pred, y_reference), optional
        The arguments of `accuracy_gain` that the gain comes from, which tell whose labels it is.
    calibrated : array-like of shape (n_samples,), optional
        The calibrated estimate.
    groups : array-like of shape (n_samples,), optional
        Samples of one group (one patient, say) are dependent: intervals take them together.
    raters : {"random", "fixed"}, optional
        Whether intervals are for new raters, which needs `Annotations`, or for these. None:
        "random" with `Annotations`, "fixed" with all else.
    n_bins : int or array-like of shape (n_edges,), default=20
        Number of bins, or their edges.
    strategy : {"uniform", "quantile"}, default="quantile"
        Bins of equal width on [0, 1], or with equal numbers of samples.
    confidence_level : float, default=0.95
        Level of the intervals.

    Returns
    -------
    GainCurve

    Raises
    ------
    ValueError
        `confidence_level` outside (0, 1), lengths that differ, pandas objects whose samples are in
        different orders; fewer than three raters where they are random, or labels without raters.

    Warns
    -----
    UserWarning
        Fewer than five raters where they are random.

    Examples
    --------
    >>> curve = gain_curve([0, 0, 1, 0, 1, 1], [0.1, 0.1, 0.1, 0.5, 0.5, 0.5], n_bins=2)
    >>> curve.mean_gain.round(2)
    array([0.33, 0.67])
    """
    y, y_pred, y_reference = (None, None, None) if labels is None else labels
    y = random_raters(y, raters)
    check_row_names(gain=gain, uncertainty=uncertainty, calibrated=calibrated, groups=groups)
    g, e = check_gains(gain, uncertainty)
    sums = gain_sums(g, e, n_bins, strategy)
    index = sums.bins.index(e[:, None])[:, 0]
    counts = sums.w[0]
    B = len(counts)
    n = np.maximum(counts, 1)
    mean_e, mean_g = (means[0] for means in sums.means())
    groups = read_groups(groups, len(g))
    unit = row_units(groups, len(g))
    # samples or groups in each bin
    bins = np.unique(unit * B + index) % B
    units = np.bincount(bins, minlength=B)
    spread = squares(g - mean_g[index], unit, index, B)
    # each bin borrows one of them of the average spread
    average = spread.sum() / max(units.sum() - (counts > 0).sum(), 1)
    V = (spread + average) / n / n
    df = np.maximum(units, 1).astype(np.float64)
    if y is not None:
        told_panel(y, None, 1)
        rows = Rows(y, np.empty((len(y), 0)), groups=groups)
        for b in range(B):
            inside = np.flatnonzero(index == b)
            terms = _gains(np.asarray(y_pred)[inside], np.asarray(y_reference)[inside])
            V[b], df[b] = spread_of_bin(terms, rows.take(inside), V[b], df[b])
    interval = student_ends(mean_g, V, df, confidence_level)
    mean_c = None
    if calibrated is not None:
        _, c = check_gains(gain, calibrated)
        mean_c = np.bincount(index, c, B) / np.where(counts > 0, counts, np.nan)
    return GainCurve(counts.astype(np.int64), interval, mean_g, mean_e, mean_c)


def _gains(pred: NDArray, reference: NDArray) -> Callable:
    """Terms of a bin's mean gain."""

    def terms(part: Rows, at: NDArray) -> tuple[Floats, Floats]:
        return accuracy_gain(part.labels, pred[at], reference[at]), np.ones(len(part))

    return terms
