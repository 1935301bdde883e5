"""Reliability curves: mean prediction and observed rate of each bin, with intervals."""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from ..._rows import PredictionLike, Rows, class_column, class_names, read_rows
from ..._utils.arrays import Floats, row_units
from ..._utils.bins import Bins
from ..._utils.checks import as_floats, checked, is_real
from ..._utils.distances import Distance, is_linear
from ..._utils.results import DataFrame, fields, frame_of, result
from ..._utils.types import ArrayLike, BinsLike, Groups, LabelsLike, Raters, Strategy, Weights
from .._binned import squares
from .._disagreement import pair_rates
from .._evaluate import apart, points_of
from .means import spread_of_bin, told_panel
from .two_way import FIXED_RATERS, kind_of_raters, random_raters

# what is in the unit of a distance
_IN_UNITS = ("mean_predicted", "mean_observed", "interval", "edges")


@result
class ReliabilityCurve(NamedTuple):
    """What `reliability_curve` returns, of B bins; means and intervals are NaN in empty ones.

    Attributes
    ----------
    mean_predicted, mean_observed : ndarray of shape (B,)
        Probabilities, or mean squared distances.
    interval : ndarray of shape (B, 2)
        For the observed rate; NaN where a bin holds fewer than two samples, or too few raters.
    bin_counts : ndarray of shape (B,)
        Number of values in the bin.
    edges : ndarray of shape (B + 1,)
        Edges of the bins.
    kind : object
        "classwise", "disagreement", or the name of the class.
    distance : None, "linear", "quadratic" or ndarray of shape (n_classes, n_classes)
    confidence_level : float
    raters : {"random", "fixed"}
        Whether intervals are for new raters, or for these.
    """

    mean_predicted: Floats
    mean_observed: Floats
    interval: Floats
    bin_counts: NDArray
    edges: Floats
    kind: Any = "classwise"
    distance: Distance = None
    confidence_level: float = 0.95
    raters: str = "fixed"

    def to_frame(self) -> "DataFrame":
        """A pandas DataFrame, one row for each bin."""
        of_bins = fields(self, "mean_predicted", "bin_counts")
        return frame_of({"from": self.edges[:-1]}, to=self.edges[1:], **of_bins)


@checked
def reliability_curve(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    kind: str | Hashable = "classwise",
    distance: Distance = None,
    classes: ArrayLike | None = None,
    sample_weight: Weights = None,
    groups: Groups = None,
    raters: Raters = None,
    n_bins: BinsLike = 15,
    strategy: Strategy = "uniform",
    confidence_level: float = 0.95,
) -> ReliabilityCurve:
    """Mean prediction and observed rate in bins of the prediction, with intervals.

    The interval of a bin is for the mean true rate of its samples, whether or not the prediction is
    calibrated. It is Wilson's score interval at an effective number of labels, which follows from
    the variance of ``μ̂ − z`` between the samples of the bin. A bin with few events borrows from
    the others, so that a bin in which all samples agree has an interval too. The intervals do not
    hold all at once.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes.
    prediction : array-like of shape (n_samples, n_classes) or (n_samples,), or Distribution
        Class probabilities, or those of the second of two classes, or a distribution.
    kind : "classwise", "disagreement", or a class, default="classwise"
        "classwise": the probabilities of all classes, pooled; each sample counts K times.
        "disagreement": the predicted probability that two raters of a sample give different labels;
        samples with one rater are left out. A class: its name, or its column where names are no
        numbers.
    distance : None, "linear", "quadratic" or array-like of shape (n_classes, n_classes), optional
        How far classes are apart, as in `expected_squared_loss`. Disagreement is then the mean
        squared distance of two raters, in steps for "linear". Of probabilities only "linear" is
        meant: they are cumulative, of a class or any before it, and the last class is left out.
    classes : array-like of shape (n_classes,), optional
        Names of the columns of a bare array.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the samples; only their ratios matter.
    groups : array-like of shape (n_samples,), optional
        Samples of one group (one patient, say) are dependent: intervals take them together.
    raters : {"random", "fixed"}, optional
        Whether intervals are for new raters, which needs `Annotations`, or for these. None:
        "random" with `Annotations`, else "fixed", as in `confidence_interval`.
    n_bins : int or array-like of shape (n_edges,), default=15
        Number of bins, or their edges.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width on [0, 1], or of equal numbers of predictions, whatever their weights.
    confidence_level : float, default=0.95
        Level of the intervals.

    Returns
    -------
    ReliabilityCurve

    Raises
    ------
    ValueError
        Unknown class, `confidence_level` outside (0, 1), fewer than three raters where they are
        random (four for disagreement), no sample with two raters where disagreement is asked for,
        and whatever `check_counts` and `check_proba` refuse.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(500, overconfidence=2.0, random_state=0)
    >>> curve = reliability_curve(data.counts, data.prediction, kind=0, n_bins=5)
    >>> (curve.mean_observed - curve.mean_predicted).round(2)  # too extreme at both ends
    array([ 0.05, -0.02, -0.  , -0.07, -0.11])
    """
    options: dict = {"n_bins": n_bins, "strategy": strategy}
    options["confidence_level"] = confidence_level
    rows = read_rows(y, prediction, sample_weight, groups, classes=classes).weighted()
    said: dict = {"distance": distance, "raters": kind_of_raters(rows.labels, raters)}
    said["confidence_level"] = confidence_level
    if kind is None:
        raise ValueError("kind must be 'classwise', 'disagreement' or a class, got None.")
    if kind == "disagreement":
        curve = _of_disagreement(rows, distance, raters, **options)
        return curve._replace(kind="disagreement", **said)
    if distance is not None and not is_linear(distance):
        raise ValueError(f"Probabilities have the distance 'linear' or None, got {distance!r}.")
    B = points_of(rows, distance)
    K = len(class_names(rows)) - (B is not None)
    pooled = kind == "classwise"
    columns = list(range(K)) if pooled else [class_column(kind, rows)]
    if columns[-1:] == [K] or not columns:
        raise ValueError("The last class or any before it is certain; choose another class.")

    def shares(p: Floats) -> Floats:
        if B is not None:
            # sums of probabilities, but for rounding
            p = np.minimum(p @ B, 1.0)
        return p[:, columns]

    curve = _curve(rows, shares(rows.z), lambda rows: shares(rows.mu), raters, **options)
    return curve._replace(kind=kind if pooled else class_names(rows)[columns[0]], **said)


def _of_disagreement(
    rows: Rows, distance: Distance, raters: str | None, *, n_bins, **options
) -> ReliabilityCurve:
    seen = rows.contributing(2)
    if seen is None:
        raise ValueError(
            "No sample of y with a positive weight has two raters or more, so there is no "
            "disagreement to show; choose another kind for single labels."
        )
    P = apart(rows, distance)
    largest = 1.0
    if P is not None:
        # rates are shares of the largest squared distance
        largest = 2 * float(P.max()) or 1.0
        P = 2 * P / largest
        if not is_real(n_bins):
            n_bins = as_floats(n_bins, "n_bins") / largest
    phi = np.minimum(seen.distribution._disagreement(P), 1.0)[:, None]
    rate = partial(pair_rates, P=P)
    found = _curve(seen, phi, rate, raters, least_raters=2, n_bins=n_bins, **options)
    return found._replace(**{name: getattr(found, name) * largest for name in _IN_UNITS})


def _curve(
    rows: Rows,
    z: Floats,
    rate: Callable[[Rows], Floats],
    raters: str | None,
    *,
    n_bins,
    strategy: str,
    confidence_level: float,
    least_raters: int = 1,
) -> ReliabilityCurve:
    """Bin predictions z with observed rates, both of shape (n, m).

    The m values of a sample share one set of bins and may depend on each other. Samples, or groups
    of them, are independent except for their raters.
    """
    y = random_raters(rows.labels, raters)
    # the jackknife needs three raters, and pairs of them without a common one four
    needed = 2 + least_raters
    if y is not None and y.n_raters < needed:
        raise ValueError(
            f"Intervals for new raters need {needed} raters at least here, got {y.n_raters}; "
            f"{FIXED_RATERS}"
        )
    bins = Bins(z.reshape(-1, 1), n_bins, strategy)
    B = bins.n_bins
    index = bins.index(z.reshape(-1, 1)).reshape(z.shape)
    observed = rate(rows)

    def total(values):
        return np.bincount(index.ravel(), weights=values.ravel(), minlength=B)

    counts = np.bincount(index.ravel(), minlength=B)
    w = np.broadcast_to(rows.weight[:, None], z.shape)
    # the largest is 1 in each bin, however large or small they are
    largest = np.zeros(B)
    np.maximum.at(largest, index, w)
    w = w / largest[index]
    filled = np.where(counts > 0, 1.0, np.nan)
    W = filled * total(w)
    # quotients of like sums: a mean of ones is 1 to the last bit
    mean_z = total(w * z) / W
    mean_rate = total(w * observed) / W
    p = w / W[index]
    centre = z + (mean_rate - mean_z)[index]
    spread = _unit_squares(index, p * (observed - centre), B, rows.groups)
    h = filled * _unit_squares(index, p, B, rows.groups)
    several = np.less(h, 1 - 1e-12, where=~np.isnan(h), out=np.zeros(B, dtype=bool))
    V = np.full(B, np.nan)
    V[several] = spread[several] / (1 - h[several])
    df = 1 / h - 1
    if y is not None:
        told_panel(y, rows.w, least_raters)
        for b in np.flatnonzero(several):
            at = np.flatnonzero((index == b).any(axis=1))
            of_bin = p[at] * (index[at] == b)
            terms = _residuals(of_bin, centre[at], rate)
            V[b], df[b] = spread_of_bin(terms, rows.take(at), V[b], df[b], least_raters)
    interval = _interval(mean_rate, V, df, filled * total(p * p), confidence_level)
    return ReliabilityCurve(mean_z, mean_rate, interval, counts, bins.edges[0])


def _residuals(p: Floats, centre: Floats, rate: Callable) -> Callable:
    """Terms of a bin's mean: what samples of weights p are off its centre."""

    def terms(part: Rows, at: NDArray) -> tuple[Floats, Floats]:
        residual = p[at] * (rate(part) - centre[at])
        return residual.sum(axis=1), p[at].sum(axis=1)

    return terms


def _unit_squares(index: NDArray, values: NDArray, B: int, groups: NDArray | None) -> NDArray:
    """Σ_g (Σ_j v_gj)² over the values j of sample or group g in each bin, (B,)."""
    unit = np.broadcast_to(row_units(groups, len(index))[:, None], index.shape)
    return squares(values.ravel(), unit.ravel(), index.ravel(), B)


def _interval(rate, V, df, h_values, level: float) -> Floats:
    """Wilson's score interval for each bin's rate c̄, (B, 2), at an effective number of labels.

    V is the variance of the mean residual, with `df` degrees of freedom. D = c̄(1−c̄)/h_values is
    the binomial variance of the total, were every value one independent label; h_values is Σp² over
    the weights p of the values. The design effect of a bin is f = (V/h_values²) / D. A bin
    with few events estimates it badly. One unit is therefore added to numerator and denominator at
    the design effect f0 of the diagram, and to f0 itself at 1. So a bin without any variance gets
    an interval too. Student's quantile has more degrees of freedom in proportion to the unit
    borrowed.
    """
    several = ~np.isnan(V)
    c = np.clip(rate[several], 0, 1)
    h_values = h_values[several]
    variance = V[several] / h_values**2
    D = c * (1 - c) / h_values
    f0 = (variance.sum() + 1) / (D.sum() + 1)
    f = (variance + f0) / (D + 1)
    freedom = df[several] * (1 + 1 / np.maximum(D, 1e-9))
    t = stdtrit(freedom, (1 + level) / 2)
    # t²/N, N = 1/(h_values·f) labels
    q2 = t**2 * h_values * f
    centre = (c + q2 / 2) / (1 + q2)
    half = np.sqrt(q2 * (c * (1 - c) + q2 / 4)) / (1 + q2)
    interval = np.full((len(rate), 2), np.nan)
    interval[several, 0] = np.clip(centre - half, 0, c)
    interval[several, 1] = np.clip(centre + half, c, 1)
    return interval
