"""Confidence intervals for any metric, by deleting blocks of rows.

A bootstrap that resamples rows is invalid for corrected binned metrics and for kernel metrics: repeated rows undo the
correction and lie at distance 0 of each other.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.utils import check_random_state

from .._costs import check_cost_matrix
from .._fit import check_same_length, n_rows, take_rows
from .._simplex import frame_names
from ..label_histogram import check_counts, is_gap
from ._disagreement import class_disagreement_calibration_error, disagreement_calibration_error
from ._kernel import kernel_calibration_error
from ._label_histogram import calibration_error, dispersion_error

__all__ = ["ConfidenceInterval", "confidence_interval", "paired_difference"]

_SIGNED_ROOTS = (
    calibration_error,
    dispersion_error,
    disagreement_calibration_error,
    class_disagreement_calibration_error,
)


class ConfidenceInterval(NamedTuple):
    """An estimate and its interval.

    Attributes
    ----------
    estimate : float
        The metric on all rows.
    low, high : float
        Ends of the interval.
    standard_error : float
        Of the estimate; of its signed square for the calibration and dispersion errors, which are signed roots.
    """

    estimate: float
    low: float
    high: float
    standard_error: float


def confidence_interval(
    metric,
    y,
    prediction,
    *,
    groups=None,
    level: float = 0.95,
    n_blocks: int = 50,
    random_state=None,
    sample_weight=None,
    **options,
) -> ConfidenceInterval:
    """Confidence interval of a metric by the delete-a-block jackknife.

    Rows, or groups of rows, are dealt to blocks at random; the metric is computed without each block, and Student's
    interval made of its variance (Busing, Meijer and van der Leeden 1999, for blocks of unequal size). Errors that are
    signed roots of a loss get the interval of the loss, mapped: the root itself is far from normal near 0.

    Parameters
    ----------
    metric : callable
        ``metric(y, prediction, **options)``, a mean over rows or nearly so, such as all metrics of this package.
    y : label histogram of shape (n_samples, n_classes)
        Anything that the metric takes and whose rows can be indexed.
    prediction : array-like of shape (n_samples, ...), Distribution or None
    groups : array-like of shape (n_samples,), optional
        Rows of one group (one patient, say) are dependent and go to one block.
    level : float, default=0.95
    n_blocks : int, default=50
        Most blocks; fewer where there are fewer groups.
    random_state : int, RandomState instance or None, default=None
        Decides the blocks.
    sample_weight : array-like of shape (n_samples,), optional
        Goes to the metric.
    **options
        Go to the metric.

    Returns
    -------
    ConfidenceInterval
        ``(estimate, low, high, standard_error)`` in the unit of the metric.

    Raises
    ------
    ValueError
        Fewer than two rows or groups, missing groups, a level outside (0, 1), lengths that differ, a metric that
        returns several numbers.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> from sklearn_lhcal.metrics import expected_accuracy
    >>> data = make_label_histograms(500, random_state=0)
    >>> interval = confidence_interval(expected_accuracy, data.counts, data.prediction, random_state=0)
    >>> interval.low < interval.estimate < interval.high
    True
    """
    metric, options = _plain(metric, options)
    root = _is_signed_root(metric, options)

    def value(rows):
        weight = {} if sample_weight is None else {"sample_weight": take_rows(sample_weight, rows)}
        x = metric(take_rows(y, rows), None if prediction is None else take_rows(prediction, rows), **weight, **options)
        return x * abs(x) if root else _number(x)

    check_same_length(n_rows(y), prediction=prediction, groups=groups, sample_weight=sample_weight)
    y = _all_classes(metric, y, prediction, options)
    estimate, error, t = _jackknife(value, n_rows(y), groups, level, n_blocks, random_state)
    ends = np.array([estimate, estimate - t * error, estimate + t * error])
    if root:
        ends = np.sign(ends) * np.sqrt(np.abs(ends))
    return ConfidenceInterval(*ends.tolist(), float(error))


def paired_difference(
    metric,
    y,
    prediction,
    reference,
    *,
    groups=None,
    level: float = 0.95,
    n_blocks: int = 50,
    random_state=None,
    sample_weight=None,
    **options,
) -> ConfidenceInterval:
    """Difference of a metric between two predictions for the same rows, with its interval.

    ``metric(y, prediction) − metric(y, reference)``, by the same jackknife as `confidence_interval`. What both
    predictions share cancels, so that the interval is narrower than those of the two metrics.

    Parameters
    ----------
    metric, y, prediction
        As in `confidence_interval`.
    reference : array-like of shape (n_samples, ...) or Distribution
        What to compare with.
    groups, level, n_blocks, random_state, sample_weight, **options
        As in `confidence_interval`.

    Returns
    -------
    ConfidenceInterval
        ``(estimate, low, high, standard_error)``; for losses and errors a negative difference favours `prediction`.

    Raises
    ------
    ValueError
        As `confidence_interval`.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> from sklearn_lhcal.metrics import epistemic_loss
    >>> data = make_label_histograms(500, overconfidence=3.0, random_state=0)
    >>> better = paired_difference(epistemic_loss, data.counts, data.proba, data.prediction, random_state=0)
    >>> better.high < 0
    True
    """
    metric, options = _plain(metric, options)

    def value(rows):
        weight = {} if sample_weight is None else {"sample_weight": take_rows(sample_weight, rows)}
        first, second = (metric(take_rows(a, rows), take_rows(p, rows), **weight, **options) for a, p in pairs)
        return _number(first) - _number(second)

    check_same_length(n_rows(y), prediction=prediction, reference=reference, groups=groups, sample_weight=sample_weight)
    pairs = [(_all_classes(metric, y, p, options), p) for p in (prediction, reference)]
    estimate, error, t = _jackknife(value, n_rows(y), groups, level, n_blocks, random_state)
    return ConfidenceInterval(float(estimate), float(estimate - t * error), float(estimate + t * error), float(error))


def _all_classes(metric, y, prediction, options):
    """y as the metrics of this package read it on all rows: without a block, labels may not show every class.

    Labels that are matched by name, and those of other metrics, stay as they are.
    """
    ours = str(getattr(metric, "__module__", None)).startswith(__package__)
    if not ours or np.ndim(y) != 1 or np.asarray(y).dtype.kind in "iubf":
        return y
    costs = options.get("cost_matrix")
    names = frame_names(prediction) if costs is None else check_cost_matrix(costs).classes
    counts, classes = check_counts(y)
    return counts if names is None and len(classes) > 1 else y


def _is_signed_root(metric, options) -> bool:
    """Whether the metric is the root of a loss that is corrected, and so may be negative; always a square root."""
    if metric is kernel_calibration_error:
        return bool(options.get("root")) and options.get("bias_correction") is not None
    return metric in _SIGNED_ROOTS


def _plain(metric, options):
    """The function within `functools.partial`, and its options beside the others."""
    while isinstance(metric, partial) and not metric.args:
        metric, options = metric.func, metric.keywords | options
    return metric, options


def _number(value):
    if isinstance(value, (tuple, list)) or np.ndim(value):
        raise ValueError(
            f"metric must return one number, it returned a {type(value).__name__}; choose one of its parts."
        )
    return value


def _jackknife(value, n: int, groups, level: float, n_blocks: int, random_state) -> tuple[float, float, float]:
    """(estimate, standard error, Student's quantile): ``value(rows)`` without each block."""
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}.")
    block = _blocks(n, groups, n_blocks, check_random_state(random_state))
    B = block.max() + 1
    estimate = value(np.arange(n))
    without = np.array([value(np.flatnonzero(block != b)) for b in range(B)])
    h = n / np.bincount(block)  # n/m_b
    pseudo = h * estimate - (h - 1) * without
    centre = B * estimate - ((1 - 1 / h) * without).sum()
    variance = np.mean((pseudo - centre) ** 2 / (h - 1))
    return float(estimate), float(np.sqrt(variance)), float(student.ppf((1 + level) / 2, B - 1))


def _blocks(n: int, groups, n_blocks: int, rng) -> NDArray[np.intp]:
    """The block of each row: groups in random order, dealt so that blocks have nearly equal numbers of rows."""
    if groups is not None and any(is_gap(g) for g in np.asarray(groups).ravel().tolist()):
        raise ValueError("groups must not have missing values; give each row without a group one of its own.")
    codes = np.arange(n) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1].ravel()
    sizes = np.bincount(codes)
    if len(sizes) < 2 or n_blocks < 2:
        raise ValueError(f"An interval needs two rows or groups and two blocks at least, got {len(sizes)}, {n_blocks}.")
    shuffled = rng.permutation(len(sizes))
    B = min(n_blocks, len(sizes))
    if sizes.max() == 1:
        block_of = np.empty(len(sizes), dtype=np.intp)
        block_of[shuffled] = np.arange(len(sizes)) % B
        return block_of[codes]
    order = shuffled[np.argsort(-sizes[shuffled], kind="stable")]  # the largest first, each to the emptiest block
    block_of, load = np.empty(len(sizes), dtype=np.intp), np.zeros(B)
    for group in order:
        block_of[group] = np.argmin(load)
        load[block_of[group]] += sizes[group]
    return block_of[codes]
