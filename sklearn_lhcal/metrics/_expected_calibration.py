"""The binned calibration errors that everyone reports: expected and maximum.

They are of the top label or of classes. Letters as in `_label_histogram`: μ̂ observed frequencies,
z predictions, c̄ and z̄ their means in a bin.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import partial

import numpy as np

from .._rows import PredictionLike, Rows, class_names
from .._utils.bins import Bins
from .._utils.simplex import accuracy, votes_of
from .._utils.tags import LossOverBins, metric
from .._utils.types import BinsLike, Groups, LabelsLike, NDArray, Strategy, Weights
from ._binned import Binned, BinSums, Correction, check_exponent, correction_of
from ._calibration import calibration_parts
from ._evaluate import score, signed_root


def _columns(rows: Rows, kind) -> tuple[NDArray, NDArray]:
    """Observed frequencies and predictions (n, m): of the top label, of all classes, or of one."""
    if kind == "top_label":
        return accuracy(rows.mu, rows.z)[:, None], rows.z.max(axis=1, keepdims=True)
    columns = _classes(rows, kind)
    return rows.mu[:, columns], rows.z[:, columns]


def _said(rows: Rows, kind) -> Callable:
    """What each label says of a column: 1 where it names its class, ties shared evenly."""
    if kind == "top_label":
        share = votes_of(rows.z)
        return lambda y, k: share[y.row, y.label]
    columns = _classes(rows, kind)
    return lambda y, k: y.label == columns[k]


def _classes(rows: Rows, kind) -> Sequence[int]:
    """All columns, or that of one class: by its name where classes have names, else its number."""
    names = class_names(rows)
    if kind == "classwise":
        return range(len(names))
    if kind not in names:
        raise ValueError(
            f'kind must be "top_label", "classwise" or one of the classes {names[:20]}, got '
            f"{kind!r}."
        )
    return [names.index(kind)]


def _binned(rows: Rows, *, kind, n_bins, strategy, bias_correction=None, **others) -> Binned:
    z = _columns(rows, kind)[1]
    return Binned(
        Bins(z, n_bins, strategy),
        z,
        partial(_observed, kind=kind),
        correction_of(rows, bias_correction),
        partial(_said, kind=kind),
    )


def _observed(rows: Rows, kind) -> tuple[NDArray, NDArray, None]:
    """Frequencies, which are not bias-corrected for the number of raters."""
    return _columns(rows, kind)[0], np.full(len(rows), np.inf), None


def _loss_of(sums: BinSums, *, p: float, **others) -> float:
    """``Σ_b W_b/W |c̄−z̄|^p``, mean over columns; for p = ∞ the largest gap."""
    if sums.correction is not None:
        return float(calibration_parts(sums).sum(axis=1).mean())
    powers = sums.powers(p)
    return float(powers.max() if np.isinf(p) else powers.mean())


def _rooted_of(sums: BinSums, *, p: float, **options) -> float:
    return signed_root(_loss_of(sums, p=p), p)


_of_bins = partial(LossOverBins, greater_is_better=False, binned=_binned)


def _tags(*, p, bias_correction, **others) -> LossOverBins:
    """A bias-corrected error is a signed root (p = 2); its interval comes from its square."""
    check_exponent(p, bias_correction)
    if bias_correction is not None:
        return _of_bins(of_sums=_loss_of, signed_root=True)
    return _of_bins(of_sums=_rooted_of, biased=True)


@metric(_tags)
def expected_calibration_error(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    sample_weight: Weights = None,
    groups: Groups = None,
    kind: str | Hashable = "top_label",
    p: float = 1,
    n_bins: BinsLike = 15,
    strategy: Strategy = "uniform",
    bias_correction: Correction = None,
) -> float:
    """Expected calibration error (ECE) as the literature reports it: smaller is better, minimum 0.

    The distance between how often a class occurs and how often it was predicted to, in bins b of
    the predicted probability: ``(Σ_b W_b/W · |c̄_b − z̄_b|^p)^(1/p)``. With p = 1 and the top label
    it is the ECE of Guo et al. (2017).

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes. One rater per sample is enough. Counts are read as
        frequencies.
    prediction : array-like of shape (n_samples, n_classes) or (n_samples,), or Distribution
        Class probabilities, or those of the second of two classes, or a distribution, whose mean
        counts.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the samples. The plug-in reads them as repetition.
    groups : array-like of shape (n_samples,), optional
        Samples of one group may depend on each other. The correction leaves out pairs of one group,
        and those of one rater of `Annotations`, see `calibration_loss`. The plug-in does not
        change.
    kind : "top_label", "classwise", or a class, default="top_label"
        What is to be calibrated. "top_label": the largest probability of a sample; ties share its
        frequency evenly, so that the order of classes does not matter. "classwise": every class by
        itself, the p-th powers averaged over classes. A class: that class alone, by its name, or by
        its column where classes have no names. For two classes ``kind=1`` is the second, whose bins
        scikit-learn's `calibration_curve` shows. No class may be called "top_label" or "classwise".
    p : float, default=1
        Exponent, 1 or more; ``np.inf`` is `maximum_calibration_error`.
    n_bins : int or array-like of edges, default=15
        Number of bins, or their edges.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width on [0, 1], or with equal numbers of samples, whatever their weights:
        ``np.quantile``, where equal edges are merged.
    bias_correction : {"residual", "label", None}, default=None
        None: the plug-in, as published. It is above 0 for a calibrated predictor too, the more so
        the fewer samples a bin has. "residual", for p = 2 only: without that bias. The square has
        mean 0 for a calibrated predictor, and so may be negative; the error is its signed root.
        Bins of one sample contribute 0. "label": the debiased error of Kumar et al. (2019), whose
        square is too small by the spread of predictions within bins.

    Returns
    -------
    error : float
        A difference of probabilities, at most 1.

    Raises
    ------
    ValueError
        p below 1, a correction for p ≠ 2, a class that is not there, unknown words.

    Notes
    -----
    A value at an inner edge belongs to the bin above, 1 to the last bin, as in torchmetrics and
    NumPy's histograms. Guo et al., netcal and scikit-learn's `calibration_curve` close bins above:
    there it belongs to the bin below. This matters only to predictions that lie exactly on edges,
    such as the shares of labels of a forest.

    ``kind="classwise"`` is the mean over classes of Nixon et al. (2019) and Kull et al. (2019). For
    p = 2 `calibration_error` is √K times as large, as its squares are summed over classes.

    An interval of the plug-in by `confidence_interval` describes the plug-in, bias included: it
    does not reach down to 0. That of the bias-corrected error does.

    References
    ----------
    Guo, Pleiss, Sun and Weinberger (2017), On calibration of modern neural networks.
    Kumar, Liang and Ma (2019), Verified uncertainty calibration (the debiased error of p = 2).

    Examples
    --------
    >>> y, z = [0, 1, 1, 1], [[0.7, 0.3], [0.6, 0.4], [0.1, 0.9], [0.1, 0.9]]
    >>> round(expected_calibration_error(y, z, n_bins=2), 3)  # |3/4 − .775|
    0.025
    >>> round(expected_calibration_error(y, z, kind=1, n_bins=2), 3)  # (|1/2 − .35| + |1 − .9|)/2
    0.125
    """
    return score(expected_calibration_error, **locals())


@metric(_of_bins(of_sums=partial(_rooted_of, p=np.inf), biased=True))
def maximum_calibration_error(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    sample_weight: Weights = None,
    groups: Groups = None,
    kind: str | Hashable = "top_label",
    n_bins: BinsLike = 15,
    strategy: Strategy = "uniform",
) -> float:
    """Largest gap of a bin between frequency and prediction (MCE): smaller is better, minimum 0.

    ``max_b |c̄_b − z̄_b|`` (Naeini, Cooper and Hauskrecht 2015), at most 1. It is
    `expected_calibration_error` for p = ∞. A bin with few samples decides it, as one sample alone
    has a gap near 1. So give few bins, or ``strategy="quantile"``, whose bins all have many
    samples.

    Parameters
    ----------
    y, prediction, sample_weight, kind, n_bins, strategy
        As in `expected_calibration_error`; the kind "classwise" is the largest gap of all classes.
    groups : array-like of shape (n_samples,), optional
        Accepted as by all calibration errors. There is no correction that it could change.

    Returns
    -------
    error : float
        A difference of probabilities.

    Raises
    ------
    ValueError
        As `expected_calibration_error`.

    Examples
    --------
    >>> maximum_calibration_error([0, 1, 1, 1], [0.3, 0.4, 0.9, 0.9], kind=1, n_bins=2).__round__(3)
    0.15
    """
    return score(maximum_calibration_error, **locals())
