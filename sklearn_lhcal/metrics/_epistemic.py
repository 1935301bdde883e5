"""Estimates of epistemic uncertainty against what more data gained (P3).

P3 is the paper "The evaluation and calibration of epistemic uncertainty estimates". Letters: μ̂
label frequencies, g gain, e estimate, T samples, B_m samples of bin m."""

from typing import Literal, NamedTuple

import numpy as np
from scipy.stats import spearmanr
from sklearn.utils import check_random_state

from .._rows import read_labels
from .._utils.arrays import in_batches
from .._utils.bins import Bins
from .._utils.checks import (
    as_floats,
    as_names,
    check_same_length,
    checked,
    distinct,
    is_gap,
    warn_undefined,
)
from .._utils.names import check_row_names, is_numeric, positions, sorted_names
from .._utils.tags import Tags, metric
from .._utils.types import ArrayLike, BinsLike, Floats, Indices, LabelsLike, NDArray, Seed, Strategy

# gains drawn at once
_DRAWS = 2_000_000
# samples of which losses are learnt
_POOL = 100


class NullEpistemicError(NamedTuple):
    """What `epistemic_calibration_error` would be if the estimate were calibrated.

    Attributes
    ----------
    estimate : float
        The error observed.
    mean : float
        Mean of the error under calibration: the level that noise alone reaches.
    quantiles : ndarray
        Quantiles of it.
    p_value : float
        How often calibrated estimates score the error observed or worse; in (0, 1].
    """

    estimate: float
    mean: float
    quantiles: Floats
    p_value: float

    def __str__(self) -> str:
        return f"H0: the estimate is calibrated; p = {self.p_value:.2g}"


def accuracy_gain(
    y: LabelsLike, y_pred: ArrayLike, y_reference: ArrayLike, *, classes: ArrayLike | None = None
) -> Floats:
    """What predictions made with more data gain in accuracy, sample by sample: between -1 and 1.

    ``g_i = μ̂_i[y_reference] − μ̂_i[y_pred]`` (P3 Def. 4); with one label ``1[y_reference = y] −
    1[y_pred = y]``. The larger it is, the more there is to learn. Given the sample its expectation
    is ``P(y_reference|x) − P(y_pred|x)``. Where the reference is the best prediction, that is the
    epistemic uncertainty under 0/1 loss (Def. 3). The mean of the gain is the difference of the two
    expected accuracies.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes. More raters leave the expectation as it is, and the variance
        smaller.
    y_pred, y_reference : array-like of shape (n_samples,)
        Predicted classes: by the model in question, and by one that has seen more data around these
        samples, but not their labels.
    classes : array-like of shape (n_classes,), optional
        What the columns of counts stand for. None: the column names of a frame, else column
        numbers.

    Returns
    -------
    gain : ndarray of shape (n_samples,)
        Differences of probabilities.

    Raises
    ------
    ValueError
        Lengths that differ, predictions that are none of the classes, names among numbers.

    Examples
    --------
    >>> accuracy_gain(["a", "b", "b"], ["b", "b", "a"], ["a", "b", "a"])
    array([1., 0., 0.])
    >>> accuracy_gain([[3, 1], [1, 3]], [1, 1], [0, 1])
    array([0.5, 0. ])
    """
    pred = as_names(y_pred, "y_pred")
    reference = as_names(y_reference, "y_reference")
    for name, predicted in (("y_pred", pred), ("y_reference", reference)):
        if predicted.dtype.kind == "O" and any(is_gap(label) for label in predicted.tolist()):
            raise ValueError(f"{name} has missing values; give each sample a predicted class.")
    labels = read_labels(y)
    if classes is not None:
        labels = labels.in_order(classes, other="what is expected", sure=True)
    elif labels.single:
        labels = labels.in_order(_distinct(labels.classes, pred, reference))
    else:
        labels = labels.sorted()
    check_same_length(len(labels), y_pred=pred, y_reference=reference)
    check_row_names(y=y, y_pred=y_pred, y_reference=y_reference)
    mu = labels.mu
    rows = np.arange(len(labels))
    lost = mu[rows, _columns(pred, labels.classes, "y_pred")]
    return mu[rows, _columns(reference, labels.classes, "y_reference")] - lost


def _distinct(*labels: NDArray) -> NDArray:
    if len({is_numeric(a) for a in labels}) > 1:
        raise ValueError(
            f"y, y_pred, y_reference must hold the same classes: {[str(a.dtype) for a in labels]}."
        )
    return sorted_names(distinct(np.concatenate(labels), "y_pred or y_reference")[0])


def _columns(labels: NDArray, classes: NDArray, name: str) -> Indices:
    """Column of each predicted class."""
    result, codes = distinct(labels, name)
    columns = positions(result, classes)
    if (columns < 0).any():
        row = (columns[codes] < 0).argmax()
        raise ValueError(
            f"{name} predicts {labels[row]!r} in sample {row}, which is none of the classes "
            f"{classes.tolist()[:20]}; pass classes= where the columns of y have names."
        )
    return columns[codes]


def check_levels(quantiles) -> Floats:
    """Levels of quantiles, float64, in [0, 1], one at least."""
    levels = as_floats(quantiles, "quantiles")
    if levels.ndim > 1 or not levels.size or not ((levels >= 0) & (levels <= 1)).all():
        raise ValueError(f"quantiles must hold numbers between 0 and 1, got {quantiles!r}.")
    return levels


def check_gains(gain, uncertainty, name: str = "uncertainty") -> tuple[Floats, Floats]:
    """Gains and estimates of epistemic uncertainty, shape (n,), float64, finite and in range."""
    g = as_floats(gain, "gain")
    e = as_floats(uncertainty, name)
    if g.ndim != 1 or not len(g):
        raise ValueError(f"gain must have shape (n_samples,), not empty, got {g.shape}.")
    if e.shape != g.shape:
        raise ValueError(
            f"{name} must hold one estimate per sample, shape {g.shape}, got {e.shape}."
        )
    if not np.isfinite(g).all() or np.abs(g).max() > 1 + 1e-9:
        raise ValueError("gain must lie between -1 and 1, without NaN: use accuracy_gain.")
    # the squares of more overflow
    if not ((e >= -1e-9) & (e <= 1e150)).all():
        raise ValueError(f"{name} must be finite, not negative, and at most 1e150.")
    return g, e


def partition(e: Floats, n_bins, strategy) -> tuple[Indices, int]:
    """The bin of each estimate e (n,), and the number of bins."""
    bins = Bins(e[:, None], n_bins, strategy)
    return bins.index(e[:, None])[:, 0], bins.n_bins


def _bin_of(g, e, bins_of, n_bins, strategy) -> Indices:
    """The bin of each sample, by the estimate e or another one."""
    if bins_of is not None:
        _, e = check_gains(g, bins_of, "bins_of")
    return partition(e, n_bins, strategy)[0]


@metric(Tags(greater_is_better=False))
@checked
def epistemic_calibration_error(
    gain: ArrayLike,
    uncertainty: ArrayLike,
    *,
    n_bins: BinsLike = 20,
    strategy: Strategy = "quantile",
    bins_of: ArrayLike | None = None,
    bias_correction: Literal["residual"] | None = None,
) -> float:
    """Calibration error of an estimate of epistemic uncertainty (EECE): smaller is better.

    In bins of the estimate, ``EECE = Σ_m |B_m|/T · |ḡ_m − ē_m|`` (P3 Def. 5, whose factor 1/M
    stands for 1/T). Noise keeps it above 0 for a calibrated estimate, see
    `null_epistemic_error`.

    The bias-corrected error is the mean square ``Σ_m |B_m|/T · [(ḡ_m − ē_m)² − s_m²/|B_m|]``, where
    s² is the variance of ``g − e`` within the bin. For a calibrated estimate it is 0 on average,
    and so often negative. Bins of one sample contribute 0.

    Parameters
    ----------
    gain : array-like of shape (n_samples,)
        What more data gained, see `accuracy_gain`; between -1 and 1.
    uncertainty : array-like of shape (n_samples,)
        The estimate, at least 0: mutual information or entropy in nats, or a calibrated estimate,
        which is a probability.
    n_bins : int or array-like of shape (n_edges,), default=20
        Number of bins, or their edges.
    strategy : {"uniform", "quantile"}, default="quantile"
        Bins of equal width on [0, 1], or with equal numbers of samples, whatever their weights.
        Quantiles that fall together are merged.
    bins_of : array-like of shape (n_samples,), optional
        The estimate that makes the bins: for a calibrated estimate the uncalibrated one, as P3
        (section 5.2) has one partition for both. None: `uncertainty`.
    bias_correction : {"residual", None}, default=None
        "residual": the corrected mean square.

    Returns
    -------
    error : float
        A difference of probabilities; corrected, a squared one.

    References
    ----------
    The evaluation and calibration of epistemic uncertainty estimates, Def. 5 (P3).

    Examples
    --------
    >>> round(epistemic_calibration_error([0, 1, 0, 1], [0.1, 0.1, 0.5, 0.5], n_bins=2), 3)
    0.2
    """
    g, e = check_gains(gain, uncertainty)
    m = _bin_of(g, e, bins_of, n_bins, strategy)
    T = len(g)
    # Σ_i∈B_m of g − e
    r = np.bincount(m, g - e)
    if bias_correction is None:
        return float(np.abs(r).sum() / T)
    others = np.maximum(np.bincount(m) - 1, 1)
    return float(((r**2 - np.bincount(m, (g - e) ** 2)) / others).sum() / T)


def _no_ranks(gain, uncertainty) -> str:
    """Why there is no rank correlation; empty where there is one."""
    g, e = check_gains(gain, uncertainty)
    for what, values in (("gains", g), ("estimates", e)):
        if values.min() == values.max():
            return f"all {len(values)} {what} are {values[0]:.3g}"
    return ""


@metric(Tags(greater_is_better=True, undefined_reason=_no_ranks))
def epistemic_correlation(gain: ArrayLike, uncertainty: ArrayLike) -> float:
    """Rank correlation of an estimate with the gain: larger is better, between -1 and 1.

    Spearman's, with mean ranks for ties (P3 Def. 6), of an estimate of epistemic uncertainty.
    Values of 0.1 are usual, and even the best estimate stays far below 1, as most gains are 0. The
    scale of the estimate does not matter.

    Parameters
    ----------
    gain : array-like of shape (n_samples,)
        What more data gained, see `accuracy_gain`.
    uncertainty : array-like of shape (n_samples,)
        The estimate, at least 0.

    Returns
    -------
    correlation : float
        NaN, with an UndefinedMetricWarning, where all gains or all estimates are equal.

    References
    ----------
    The evaluation and calibration of epistemic uncertainty estimates, Def. 6 (P3).

    Examples
    --------
    >>> round(epistemic_correlation([0, 0, 0, 1], [0.1, 0.2, 0.3, 0.4]), 3)
    0.775
    """
    g, e = check_gains(gain, uncertainty)
    if reason := _no_ranks(g, e):
        warn_undefined(f"epistemic_correlation is undefined and set to NaN: {reason}.")
        return float("nan")
    return float(spearmanr(g, e).statistic)


@checked
def null_epistemic_error(
    gain: ArrayLike,
    uncertainty: ArrayLike,
    *,
    n_bins: BinsLike = 20,
    strategy: Strategy = "quantile",
    bins_of: ArrayLike | None = None,
    n_draws: int = 1000,
    quantiles: ArrayLike = (0.05, 0.5, 0.95),
    random_state: Seed = None,
) -> NullEpistemicError:
    """Level of `epistemic_calibration_error` under perfect calibration, and a test of calibration.

    Gains are drawn whose expectation is the estimate of the sample. Negative gains are drawn as
    often as they occur in its bin and as many bins beside it as make 100 samples. Positive gains
    have the sizes that occur there, and are as frequent as calibration asks for. Where these cannot
    suffice, some gains are 1. Half a gain of −1 is added to those seen, as by Jeffreys' prior:
    where few samples show no negative gain, there may be some.

    Parameters
    ----------
    gain : array-like of shape (n_samples,)
        What more data gained, see `accuracy_gain`.
    uncertainty : array-like of shape (n_samples,)
        The estimate, between 0 and 1.
    n_bins : int or array-like of shape (n_edges,), default=20
        Number of bins, or their edges.
    strategy : {"uniform", "quantile"}, default="quantile"
        Bins of equal width on [0, 1], or with equal numbers of samples, whatever their weights.
    bins_of : array-like of shape (n_samples,), optional
        As in `epistemic_calibration_error`.
    n_draws : int, default=1000
        How often gains are drawn for all samples.
    quantiles : array-like, default=(0.05, 0.5, 0.95)
        Which quantiles to return.
    random_state : int, RandomState instance or None, default=None
        Seed of the draws.

    Returns
    -------
    NullEpistemicError
        ``(estimate, mean, quantiles, p_value)``.

    Raises
    ------
    ValueError
        Estimates above 1, an entropy of more than two classes say: no gain can reach them.
        Calibrate them first.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> uncertainty = rng.uniform(0, 0.3, 2000)
    >>> gain = rng.uniform(size=2000) < uncertainty  # calibrated
    >>> null = null_epistemic_error(gain, uncertainty, random_state=0)
    >>> round(null.estimate, 3), round(null.mean, 3), round(null.p_value, 1)
    (0.022, 0.026, 0.8)
    """
    g, e = check_gains(gain, uncertainty)
    if e.max() > 1:
        raise ValueError(
            f"No gain exceeds 1, but the estimate reaches {e.max():.3g}; calibrate it first."
        )
    levels = check_levels(quantiles)
    index = _bin_of(g, e, bins_of, n_bins, strategy)
    order = np.argsort(index, kind="stable")
    e_sorted = e[order]
    starts = np.flatnonzero(np.diff(index[order], prepend=-1))
    # where pools of adjacent bins begin
    pools = [0]
    for start in starts.tolist():
        if min(start - pools[-1], len(g) - start) >= _POOL:
            pools.append(start)
    draw = _null_gains(g[order], e_sorted, np.array(pools))
    rng = check_random_state(random_state)
    drawn = in_batches(draw, len(g), n_draws, rng, _DRAWS)
    sums = [np.add.reduceat(gains - e_sorted, starts, axis=1) for gains in drawn]
    null = np.abs(np.concatenate(sums)).sum(axis=1) / len(g)
    error = np.abs(np.bincount(index, g - e)).sum() / len(g)
    p_value = (1 + (null >= error - 1e-12).sum()) / (1 + n_draws)
    return NullEpistemicError(
        estimate=float(error),
        mean=float(null.mean()),
        quantiles=np.quantile(null, levels),
        p_value=float(p_value),
    )


def _null_gains(g, e, starts):
    """How to draw gains of expectation e, shape (m, n).

    Samples are sorted by pools of bins, which begin at `starts`. Losses and wins are as in the
    pool: the fewer samples say what they are like, the nearer to 0 the null is.
    """
    count = np.diff(starts, append=len(g))

    def per_row(values):
        return np.repeat(values, count)

    g = g[np.lexsort((g, per_row(starts)))]
    # half a loss of 1 more in all, as of Jeffreys: none seen are not none
    more = 0.5 / len(starts)
    lost = np.add.reduceat(g < 0, starts) + more
    won = np.add.reduceat(g > 0, starts)
    loss = (np.add.reduceat(np.maximum(-g, 0), starts) + more) / count
    size = np.where(won > 0, np.add.reduceat(np.maximum(g, 0), starts) / np.maximum(won, 1), 1.0)
    size, first, n, won, lost = (per_row(a) for a in (size, starts, count, won, lost))
    # mean gain of the samples that do not lose
    target = (e + per_row(loss)) / np.maximum(1 - lost / n, 1e-12)
    small = target <= size
    least = np.minimum(target, size) / size
    chance = np.where(small, least, (target - size) / np.where(size < 1, 1 - size, 1.0))

    def draw(rng, m):
        u, v, w = rng.random_sample((3, m, len(g)))
        gain = np.where(won > 0, g[first + n - 1 - (w * won).astype(np.intp)], 1.0)
        high = np.where(small, gain, 1.0)
        low = np.where(small, 0.0, gain)
        seen = np.where(u * n < lost - more, g[first + (u * n).astype(np.intp)], -1.0)
        return np.where(u * n < lost, seen, np.where(v < chance, high, low))

    return draw
