"""Bins of an estimate of epistemic uncertainty: the mean gain of each, and its interval."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._rows import Rows, rated_only
from ..._utils.arrays import row_units
from ..._utils.checks import check_values, checked, read_groups
from ..._utils.names import check_row_names
from ..._utils.results import DataFrame, frame_of, result
from ..._utils.types import ArrayLike, BinsLike, Floats, Groups, NDArray, Raters, Strategy
from .._binned import squares
from .._epistemic import accuracy_gain, check_gains, partition
from .means import mean_and_spread, spread_of_bin, student_ends, told_panel
from .two_way import kind_of_raters, random_raters


@result
class GainCurve(NamedTuple):
    """What `gain_curve` returns, of B bins of the estimate.

    Attributes
    ----------
    bin_counts : ndarray of shape (B,)
        Number of samples, of all runs together.
    interval : ndarray of shape (B, 2)
        For the mean gain; NaN in bins of fewer than three raters where these are random.
    mean_gain, mean_uncertainty : ndarray of shape (B,)
        Means over the samples of the bin; of several runs, the means over the runs.
    mean_calibrated : ndarray of shape (B,) or None
    uncertainty_interval, calibrated_interval : ndarray of shape (B, 2) or None
        For the means over several runs.
    n_runs : int
    confidence_level : float
    raters : {"random", "fixed"}
        Whether intervals are for new raters, or for these.
    """

    bin_counts: NDArray
    interval: Floats
    mean_gain: Floats
    mean_uncertainty: Floats
    mean_calibrated: Floats | None
    uncertainty_interval: Floats | None = None
    calibrated_interval: Floats | None = None
    n_runs: int = 1
    confidence_level: float = 0.95
    raters: str = "fixed"

    def to_frame(self) -> "DataFrame":
        """A pandas DataFrame, one row for each bin."""
        columns = {name: of for name, of in self._asdict().items() if isinstance(of, np.ndarray)}
        return frame_of({"bin": range(len(self.bin_counts))}, **columns)


@checked
def gain_curve(
    gain: ArrayLike | Sequence[ArrayLike] | None,
    uncertainty: ArrayLike | Sequence[ArrayLike],
    *,
    labels: tuple | None = None,
    calibrated: ArrayLike | Sequence[ArrayLike] | None = None,
    groups: Groups = None,
    raters: Raters = None,
    n_bins: BinsLike = 20,
    strategy: Strategy = "quantile",
    confidence_level: float = 0.95,
) -> GainCurve:
    """Mean gain in accuracy in bins of an estimate of epistemic uncertainty, with intervals.

    Parameters
    ----------
    gain : array-like of shape (n_samples,), list of such, or None
        What more data gained, see `accuracy_gain`: a number per sample. A list holds several runs,
        such as random seeds; None: that of `labels`.
    uncertainty : array-like of shape (n_samples,), or list of such
        The estimate, at least 0. It makes the bins of its run.
    labels : tuple (y, y_pred, y_reference), optional
        The arguments of `accuracy_gain`, in place of the gain. They tell whose labels it comes
        from; samples without labels are left out.
    calibrated : array-like of shape (n_samples,), or list of such, optional
        The calibrated estimate.
    groups : array-like of shape (n_samples,), optional
        Samples of one group (one patient, say) are dependent: intervals take them together. For one
        run; the intervals of several are over runs.
    raters : {"random", "fixed"}, optional
        Whether intervals are for new raters, which needs `labels` of `Annotations`, or for these.
        None: "random" with `Annotations`, "fixed" with all else.
    n_bins : int or array-like of shape (n_edges,), default=20
        Number of bins, or their edges.
    strategy : {"uniform", "quantile"}, default="quantile"
        Bins of equal width on [0, 1], or with equal numbers of samples, whatever their weights.
    confidence_level : float, default=0.95
        Level of the intervals.

    Returns
    -------
    GainCurve

    Raises
    ------
    ValueError
        Neither gain nor labels, or both; `confidence_level` outside (0, 1), lengths or numbers of
        runs that differ, pandas objects whose samples are in different orders, runs with different
        numbers of bins, groups for several runs; fewer than three raters where they are random, or
        labels without raters.

    Warns
    -----
    UserWarning
        Fewer than five raters where they are random.

    Notes
    -----
    The interval of one run is Student's for the mean gain of the bin, from the spread of the gain
    within the bin. One sample of the average spread is added, so that a bin in which nothing is
    gained has an interval too. The gain of a sample is the mean of the gains by each of its labels.
    With `Annotations` the interval is therefore for new samples and new raters: what raters share
    is added to the variance of the bin by the three jackknives of `confidence_interval`, with
    degrees of freedom by Satterthwaite. Of several runs, means are over the runs, and intervals are
    Student's for these means: other seeds, other data.

    Examples
    --------
    >>> curve = gain_curve([0, 0, 1, 0, 1, 1], [0.1, 0.1, 0.1, 0.5, 0.5, 0.5], n_bins=2)
    >>> curve.mean_gain.round(2)
    array([0.33, 0.67])
    """
    if (gain is None) == (labels is None) or uncertainty is None:
        raise ValueError("Give uncertainty, and one of gain and labels: a number per sample.")
    options: dict = {"n_bins": n_bins, "strategy": strategy, "confidence_level": confidence_level}
    if labels is None and _are_runs(gain):
        if groups is not None:
            raise ValueError("groups are for one run; the intervals of several are over runs.")
        return _of_runs(gain, uncertainty, calibrated, raters, options)
    y = y_pred = y_reference = None
    names = {"uncertainty": uncertainty, "calibrated": calibrated, "groups": groups}
    if labels is not None:
        y, y_pred, y_reference = labels
        check_row_names(y=y, y_pred=y_pred, y_reference=y_reference, **names)
        y, y_pred, y_reference, uncertainty, calibrated, groups = rated_only(
            y, y_pred, y_reference, uncertainty, calibrated, groups
        )
        gain = accuracy_gain(y, y_pred, y_reference)
    panel = random_raters(y, raters)
    check_row_names(gain=gain, **names)
    g, e = check_gains(gain, uncertainty)
    index, B = partition(e, n_bins, strategy)
    counts = np.bincount(index, minlength=B)
    n = np.maximum(counts, 1)
    some = np.where(counts > 0, counts, np.nan)
    mean_e, mean_g = (np.bincount(index, a, B) / some for a in (e, g))
    groups = read_groups(groups, len(g))
    unit = row_units(groups, len(g))
    # samples or groups in each bin
    bins = np.unique(unit * B + index) % B
    units = np.bincount(bins, minlength=B)
    spread = squares(g - mean_g[index], unit, index, B)
    # each bin borrows one of them of the average spread
    average = spread.sum() / max(units.sum() - (counts > 0).sum(), 1)
    V = (spread + average) / n / n
    df = np.maximum(units, 1.0)
    if panel is not None:
        told_panel(panel, None, 1)
        rows = Rows(panel, np.empty((len(panel), 0)), groups=groups)
        for b in range(B):
            inside = np.flatnonzero(index == b)
            terms = _gains(np.asarray(y_pred)[inside], np.asarray(y_reference)[inside])
            V[b], df[b] = spread_of_bin(terms, rows.take(inside), V[b], df[b])
    interval = student_ends(mean_g, V, df, confidence_level)
    mean_c = None
    if calibrated is not None:
        _, c = check_gains(gain, calibrated)
        mean_c = np.bincount(index, c, B) / some
    return GainCurve(
        counts,
        interval,
        mean_g,
        mean_e,
        mean_c,
        confidence_level=confidence_level,
        raters=kind_of_raters(y, raters),
    )


def _are_runs(gain) -> bool:
    """Whether it holds several runs, one below the other; their lengths may differ."""
    check_values(gain, "gain")
    no_rows = isinstance(gain, (dict, str, bytes)) or getattr(gain, "ndim", 1) == 0
    if no_rows or not hasattr(gain, "__len__") or not len(gain):
        raise ValueError(f"gain must have one sample at least, got {type(gain).__name__}.")
    return np.ndim(next(iter(gain))) == 1


def _of_runs(gain, uncertainty, calibrated, raters: Raters, how: dict) -> GainCurve:
    """Means over runs, and Student's intervals for them."""
    given: list[Any] = [a for a in (gain, uncertainty, calibrated) if a is not None]
    sizes = [len(a) for a in given]
    if len(set(sizes)) > 1:
        raise ValueError(f"gain, uncertainty and calibrated have unequal numbers of runs: {sizes}.")
    runs = [
        gain_curve(g, e, calibrated=c[0] if c else None, raters=raters, **how)
        for g, e, *c in zip(*given, strict=True)
    ]
    if len(runs) == 1:
        return runs[0]
    if len({len(run.bin_counts) for run in runs}) > 1:
        raise ValueError(
            "Ties of the estimate leave some runs with fewer bins; use fewer bins, or edges."
        )
    level = how["confidence_level"]
    w = np.full(len(runs), 1 / len(runs))
    means: list[Any] = [None] * 3
    ends: list[Any] = [None] * 3
    for i in range(len(given)):
        mean, V, df = mean_and_spread(np.array([run[2 + i] for run in runs]), w, None)
        means[i], ends[i] = mean, student_ends(mean, V, df, level)
    counts = np.sum([run.bin_counts for run in runs], axis=0)
    found = GainCurve(counts, ends[0], *means, *ends[1:])
    return found._replace(n_runs=len(runs), confidence_level=level)


def _gains(pred: NDArray, reference: NDArray) -> Callable:
    """Terms of a bin's mean gain."""

    def terms(part: Rows, at: NDArray) -> tuple[Floats, Floats]:
        return accuracy_gain(part.labels, pred[at], reference[at]), np.ones(len(part))

    return terms
