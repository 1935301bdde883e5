"""Calibration and dispersion of class probabilities, in bins (P1 §3, App. B).

Letters as in `_label_histogram`; e = μ̂ − z.
"""

from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
from scipy.special import kl_div

from .._rows import PredictionLike, Rows
from .._utils.bins import Bins
from .._utils.checks import warn
from .._utils.distances import Distance, placed
from .._utils.tags import LossOverBins, metric
from .._utils.types import BinsLike, Floats, Groups, LabelsLike, NDArray, Strategy, Weights
from ._binned import Binned, BinSums, Correction, check_exponent, correction_of
from ._evaluate import points_of, score, signed_root
from ._label_histogram import least_raters
from ._predicted_labels import EPS

# weight in bins that one group or rater fills, above which a warning says so
_MUCH = 0.05


def class_bins(
    rows: Rows, *, n_bins, strategy, bias_correction, distance: Distance = None, **others
) -> Binned:
    """The bins of each class of each sample, (n, K), or of each coordinate of its mean point."""
    B = points_of(rows, distance)
    z = rows.z if B is None else rows.z @ B
    limits = None if B is None else (B.min(axis=0), B.max(axis=0))
    bins = Bins(z, n_bins, strategy, limits)
    correction = correction_of(rows, bias_correction)
    return Binned(bins, z, partial(_observed, B=B), correction, partial(_labels_at, B=B))


def _observed(rows: Rows, B: Floats | None) -> tuple[NDArray, NDArray, NDArray]:
    x, s, _ = placed(rows.mu, rows.mu, B)
    return x, rows.n, s


def _labels_at(rows: Rows, B: Floats | None):
    """Where each label is in column k: 1 for its class, else 0, without a distance."""
    if B is None:
        return lambda y, k: y.label == k
    return lambda y, k: B[y.label, k]


def calibration_parts(sums: BinSums) -> Floats:
    """CL_kb, shape (K, B); groups or raters may leave much of it out, which warns."""
    if sums.dependent and sums.dropped_weight() > _MUCH:
        # one text for all blocks of a jackknife, so that it is shown once
        warn(
            "More than 5% of the weight lies in bins whose samples all belong to one group or one "
            "rater; these bins count 0. Use fewer bins, or strategy='quantile'."
        )
    return sums.calibration_loss()


def calibration_of(sums: BinSums, *, p: float = 2, loss: str = "squared", **bins) -> float:
    """CL, in the disagreement of two raters Eq. (42) to (45); or of another exponent or loss."""
    if loss == "log":
        z, c = sums.means()
        # Σ_k of c log(c/z) − c + z is the divergence of the log loss, P1 Eq. (5)
        divergence = sums.w * kl_div(c, np.maximum(z, EPS))
        return float(np.nansum(divergence) / sums.w[0].sum())
    if p != 2:
        powers = sums.powers(p)
        return float(powers.max() if np.isinf(p) else powers.sum())
    return float(calibration_parts(sums).sum())


def _rooted_of(sums: BinSums, *, p: float, **options) -> float:
    return signed_root(calibration_of(sums, p=p, **options), p)


_of_classes = partial(LossOverBins, greater_is_better=False, binned=class_bins)


def _loss_tags(
    *, p, bias_correction, distance: Distance, loss: str = "squared", **others
) -> LossOverBins:
    check_exponent(p, bias_correction)
    if distance is not None and (p != 2 or loss != "squared"):
        raise ValueError("A distance is for p=2 and the squared loss only.")
    if loss == "log" and (p, bias_correction) != (2, None):
        raise ValueError(
            'loss must be "squared", or "log" with bias_correction=None and p=2, got '
            f"{loss!r} with {bias_correction!r} and {p!r}."
        )
    return _of_classes(of_sums=calibration_of, biased=bias_correction is None)


def _error_tags(*, p, **options) -> LossOverBins:
    """For p = 2 the loss may be negative, and intervals are those of the loss, mapped."""
    tags = _loss_tags(p=p, **options)
    if p == 2:
        return replace(tags, signed_root=True)
    return replace(tags, of_sums=_rooted_of)


def _dispersion_of(sums: BinSums, **options) -> float:
    return float((sums.epistemic_loss() - calibration_parts(sums)).sum(axis=1).sum())


def _dispersion_tags(*, bias_correction, signed_root: bool = False, **others) -> LossOverBins:
    return _of_classes(
        of_sums=_dispersion_of,
        signed_root=signed_root,
        least_raters=least_raters(bias_correction),
        biased=bias_correction is None,
    )


@metric(_loss_tags)
def calibration_loss(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    sample_weight: Weights = None,
    groups: Groups = None,
    p: float = 2,
    n_bins: BinsLike = 15,
    strategy: Strategy = "uniform",
    bias_correction: Correction = "residual",
    loss: Literal["squared", "log"] = "squared",
    distance: Distance = None,
) -> float:
    """Squared calibration error over bins (reliability): 0 for a calibrated model.

    The bias-corrected estimate, the default, may be negative. Samples predicted alike share a bin,
    for each class by itself. The loss is summed over the bins b of z_k and the classes k: the
    plug-in is ``CL_kb = W_b/W·(c̄−z̄)²`` (P1 eq. 13), or ``W_b/W·|c̄−z̄|^p`` (Def. 2).

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes. One rater per sample is enough. With `Annotations` the
        residual correction leaves out pairs of labels by one rater too.
    prediction : array-like of shape (n_samples, n_classes) or (n_samples,), or Distribution
        Class probabilities, or those of the second of two classes, or a distribution, whose mean
        counts.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the samples. The plug-in reads them as repetition. Corrected values do not depend
        on their scale.
    groups : array-like of shape (n_samples,), optional
        Samples of one group (one patient, say) may depend on each other; groups are independent.
        Without groups the corrections take samples as independent. With groups the residual
        correction leaves out pairs of samples of one group, and "label" is refused. A bin whose
        samples all belong to one group contributes 0. A warning says so where such bins hold more
        than 5% of the weight, and `LossDecomposition.dropped_weight` says how much. Plugins do not
        change.
    p : float, default=2
        Exponent, 1 or more. Only p = 2 has corrections; for others pass ``bias_correction=None``.
        ``np.inf``: the largest ``|c̄−z̄|`` of all classes and bins.
    n_bins : int or array-like of edges
        Number of bins for each class, or their edges.
    strategy : {"uniform", "quantile"}
        Equal widths on [0, 1], or ``np.quantile`` of z_k, where equal edges are merged. Weights do
        not enter the edges.
    bias_correction : {"residual", "label", None}
        What is taken off for the sampling of samples. "residual": the variance of ``μ̂ − z`` within
        the bin, which makes the binned loss exactly unbiased where bins have two samples or more.
        "label": the variance of μ̂ (P1 eq. 14), which is biased by the spread of z within bins; for
        one label per sample it is the debiased reliability of Bröcker 2012 and Ferro and Fricker
        2012. None: nothing. A corrected bin with one sample contributes 0. Raters of a sample need
        not be independent of each other.
    loss : {"squared", "log"}
        The proper loss of which this is the calibration part (P1 eq. 5). "log": the terms of the
        log loss, ``W_b/W·(c̄ log(c̄/z̄) − c̄ + z̄)``, whose sum over classes is a Kullback-Leibler
        divergence. It has no correction; pass ``bias_correction=None``. What is left of the mean
        log loss is its refinement loss.
    distance : None, "linear", "quadratic" or array-like of shape (n_classes, n_classes), optional
        As in `expected_squared_loss`. Bins are then of the coordinates of the mean point: with
        "linear" of the cumulative probabilities. "linear" and its own table of steps
        have the same L, IL and EL, but other bins, and so another CL.

    Returns
    -------
    loss : float
        ``|probability|^p``, summed over classes; for p = ∞ a probability. Nats for the log loss.

    Notes
    -----
    Counts do not say who spoke. Where the same few raters read many samples, what they share looks
    like miscalibration, and the loss of their counts is too large. That of their `Annotations` is
    not: it is an average over pairs of labels of different samples by different raters, as for a
    new rater. A bin whose labels are all of one rater contributes 0, as one of one group does.
    Where there is one rater in all, the labels are taken for his, and samples alone are left out.

    Examples
    --------
    >>> calibration_loss([[3, 1], [2, 2]], [[0.5, 0.5], [0.5, 0.5]], bias_correction=None)
    0.03125
    """
    return score(calibration_loss, **locals())


@metric(_error_tags)
def calibration_error(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    sample_weight: Weights = None,
    groups: Groups = None,
    p: float = 2,
    n_bins: BinsLike = 15,
    strategy: Strategy = "uniform",
    bias_correction: Correction = "residual",
    distance: Distance = None,
) -> float:
    """Calibration error, the signed root of `calibration_loss`: 0 for a calibrated model.

    ``CE = sign(CL)·|CL|^(1/p)``, the root of the sum over classes (P1 Def. 2); for p = ∞ the loss
    itself. It is negative where the bias-corrected loss is.

    Parameters
    ----------
    y, prediction, sample_weight, groups, p, n_bins, strategy, bias_correction, distance
        As in `calibration_loss`.

    Returns
    -------
    error : float
        In units of probability.

    Examples
    --------
    >>> calibration_error(
    ...     [[4, 0], [2, 2]], [[0.5, 0.5], [0.5, 0.5]], bias_correction=None
    ... ).__round__(4)
    0.3536
    """
    return score(calibration_error, **locals())


@metric(_dispersion_tags)
def dispersion_loss(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    sample_weight: Weights = None,
    groups: Groups = None,
    n_bins: BinsLike = 15,
    strategy: Strategy = "uniform",
    bias_correction: Correction = "residual",
    distance: Distance = None,
) -> float:
    """Grouping loss ``DL = EL − CL``: 0 where no better model could do more than calibration.

    It is the epistemic loss that calibration cannot remove: how much the true probabilities of
    samples predicted alike differ (P1 eq. 33, 35, 36). A bias-corrected loss may be negative. Both
    parts are taken on the same samples: those with two raters or more for corrected values, all for
    plugins.

    Parameters
    ----------
    y, prediction, sample_weight, groups, n_bins, strategy, bias_correction, distance
        As in `calibration_loss`.

    Returns
    -------
    loss : float
        Squared probability, summed over classes.

    Examples
    --------
    >>> round(dispersion_loss([[4, 0], [2, 2]], [[0.5, 0.5], [0.5, 0.5]], bias_correction=None), 4)
    0.125
    """
    return score(dispersion_loss, **locals())


@metric(partial(_dispersion_tags, signed_root=True))
def dispersion_error(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    sample_weight: Weights = None,
    groups: Groups = None,
    n_bins: BinsLike = 15,
    strategy: Strategy = "uniform",
    bias_correction: Correction = "residual",
    distance: Distance = None,
) -> float:
    """Signed root of `dispersion_loss`: 0 where no better model could do more than calibration.

    It is negative where the bias-corrected loss is.

    Parameters
    ----------
    y, prediction, sample_weight, groups, n_bins, strategy, bias_correction, distance
        As in `calibration_loss`.

    Returns
    -------
    error : float
        In units of probability.

    Examples
    --------
    >>> round(dispersion_error([[4, 0], [2, 2]], [[0.5, 0.5], [0.5, 0.5]], bias_correction=None), 4)
    0.3536
    """
    return score(dispersion_error, **locals())
