"""Curves of decisions of two kinds: net benefit against the threshold, cost against the costs."""

from collections.abc import Hashable
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._rows import PredictionLike, Rows, class_column, class_names, read_rows
from ..._utils.arrays import Floats, Indices
from ..._utils.bins import below
from ..._utils.checks import as_floats, checked
from ..._utils.names import positions, sorted_names
from ..._utils.results import result
from ..._utils.types import ArrayLike, Groups, LabelsLike, Raters, Weights
from .means import intervals_of_means


@result
class DecisionCurve(NamedTuple):
    """What `decision_curve` returns.

    Attributes
    ----------
    thresholds, net_benefit : ndarray of shape (n_thresholds,)
        Net benefit, or how much it is above that of the reference.
    interval : ndarray of shape (n_thresholds, 2)
    treat_all : ndarray of shape (n_thresholds,)
        Net benefit of acting on every sample.
    class_name : object
        The class that calls for acting.
    """

    thresholds: Floats
    net_benefit: Floats
    interval: Floats
    treat_all: Floats
    class_name: Any


@checked
def decision_curve(
    y: LabelsLike,
    prediction: PredictionLike | Literal["all"],
    *,
    reference: PredictionLike | Literal["all"] | None = None,
    thresholds: ArrayLike | None = None,
    class_index: int | Hashable | None = None,
    sample_weight: Weights = None,
    groups: Groups = None,
    raters: Raters = None,
    confidence_level: float = 0.95,
) -> DecisionCurve:
    """Net benefit of acting on a prediction at each threshold, with intervals.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes.
    prediction : array-like of shape (n_samples, n_classes) or (n_samples,), or Distribution
        Class probabilities.
    reference : prediction or "all", optional
        What is compared with: another prediction for the same samples, or "all", to act on every
        sample. None: nothing; the net benefit of acting on none is 0.
    thresholds : array-like of shape (n_thresholds,), optional
        Ascending probabilities below 1. None: 0.01, 0.02, …, 0.99.
    class_index : int or class name, optional
        The class that calls for acting; None: the second of two.
    sample_weight, groups, raters, confidence_level
        As in `confidence_interval`.

    Returns
    -------
    DecisionCurve

    Raises
    ------
    ValueError
        Thresholds outside [0, 1) or not ascending, an unknown class, fewer than two samples or
        groups, and whatever `net_benefit` and `confidence_interval` refuse.

    See Also
    --------
    net_benefit : At one threshold.

    Notes
    -----
    Where fewer than ten samples or groups are apart from the others, intervals are those of
    `paired_difference` for few samples. Where no sample calls for acting, the net benefit is 0; the
    interval is of as many samples that would as may be by chance, whatever their labels.

    Examples
    --------
    >>> curve = decision_curve([0, 0, 1, 1], [0.2, 0.4, 0.6, 0.8], thresholds=[0.1, 0.5])
    >>> curve.net_benefit.round(3)
    array([0.444, 0.5  ])
    """
    t = np.arange(1, 100) / 100 if thresholds is None else _checked(thresholds)
    rows = read_rows(y, prediction, sample_weight, groups).weighted()
    k = class_column(class_index, rows)
    acts = _acts(rows, k, t)
    # what a sample may do that acts otherwise than the reference
    moves = [1]
    if reference is not None:
        if isinstance(reference, str) and reference == "all":
            acts -= 1
            moves = [-1]
        else:
            other = read_rows(y, reference, sample_weight, groups).weighted()
            acts -= _acts(other, class_column(class_index, other), t)
            moves = [] if reference is prediction else [1, -1]

    def values(rows: Rows, at: Indices, acts: NDArray = acts) -> Floats:
        # 1{p_i ≥ t} [μ̂_i − (1 − μ̂_i) t/(1 − t)]
        mu = rows.mu[:, [k]]
        return acts[at] * (mu - (1 - mu) * t / (1 - t))

    elsewhere = [partial(values, acts=np.where(acts.any(axis=0), acts, move)) for move in moves]
    mean, interval = intervals_of_means(values, rows, raters, confidence_level, elsewhere=elsewhere)
    mu = np.average(rows.mu[:, k], weights=rows.w)
    treat_all = mu - (1 - mu) * t / (1 - t)
    return DecisionCurve(t, mean, interval, treat_all, class_names(rows)[k])


def _acts(rows: Rows, k: int, t: Floats) -> NDArray[np.int8]:
    """1{p_i ≥ t}, shape (n, n_thresholds)."""
    # 1 − 0.9 is below 0.1, and 0.7 in float32 below 0.7
    return (rows.z[:, [k]] >= t - below(t, t)).astype(np.int8)


def _checked(thresholds) -> Floats:
    t = as_floats(thresholds, "thresholds")
    if t.ndim != 1 or not t.size or not ((t >= 0) & (t < 1)).all() or (np.diff(t) <= 0).any():
        raise ValueError(
            "thresholds must be ascending probabilities, at least 0 and below 1, in a 1-D array."
        )
    return t


@result
class CostCurve(NamedTuple):
    """What `cost_curve` returns.

    Attributes
    ----------
    share : ndarray of shape (101,)
        Cost of a missed second class; a missed first one costs the rest of 1.
    risk : ndarray of shape (101,)
        Mean cost of the Bayes decisions at these costs.
    interval : ndarray of shape (101, 2)
    default_risk : ndarray of shape (101,)
        Mean cost of the best default decision.
    """

    share: Floats
    risk: Floats
    interval: Floats
    default_risk: Floats


@checked
def cost_curve(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    sample_weight: Weights = None,
    groups: Groups = None,
    raters: Raters = None,
    confidence_level: float = 0.95,
) -> CostCurve:
    """Mean cost of Bayes decisions between two classes, for all ratios of their costs.

    Parameters
    ----------
    y : label histogram of shape (n_samples, 2)
        Anything `check_counts` takes.
    prediction : array-like of shape (n_samples, 2) or (n_samples,), or Distribution
        Class probabilities. Classes are in sorted order.
    sample_weight, groups, raters, confidence_level
        As in `confidence_interval`.

    Returns
    -------
    CostCurve

    Raises
    ------
    ValueError
        More than two classes, fewer than two samples or groups, and whatever `confidence_interval`
        refuses.

    Examples
    --------
    >>> curve = cost_curve([0, 0, 1, 1], [0.2, 0.4, 0.6, 0.3])
    >>> float(curve.risk[50])  # a quarter is decided wrongly, at a cost of 1/2
    0.125
    """
    rows = read_rows(y, prediction, sample_weight, groups).weighted()
    if rows.z.shape[1] != 2:
        raise ValueError(f"A cost curve is of two classes, got {rows.z.shape[1]}.")
    columns = np.arange(2)
    if rows.classes is not None:
        columns = positions(rows.classes, sorted_names(rows.classes))
    share = np.linspace(0, 1, 101)
    z = rows.z[:, columns]
    # costs of deciding for the first and the second class; ties go to the first
    second = (1 - share) * z[:, :1] < share * z[:, 1:]

    def values(rows: Rows, at: Indices) -> Floats:
        mu = rows.mu[:, columns]
        return np.where(second[at], (1 - share) * mu[:, :1], share * mu[:, 1:])

    risk, interval = intervals_of_means(values, rows, raters, confidence_level)
    mu = np.average(rows.mu[:, columns], axis=0, weights=rows.w)
    return CostCurve(share, risk, interval, np.minimum((1 - share) * mu[0], share * mu[1]))
