"""Scores of predicted disagreement, and of what one more label teaches (P1 §4, App. C)."""

from collections.abc import Callable
from functools import partial

import numpy as np

from .._rows import PredictionLike, Rows
from .._utils.bins import Bins
from .._utils.distances import Distance, placed
from .._utils.simplex import row_sum
from .._utils.tags import LossOverBins, MeanOfTerms, metric
from .._utils.types import BinsLike, Floats, Groups, LabelsLike, NDArray, Strategy, Weights
from ._binned import Binned, BinSums, Correction, correction_of
from ._calibration import calibration_of, calibration_parts
from ._evaluate import apart, mean_loss, mean_of, points_of, score, signed_root
from ._statistic import squared


def pair_rates(rows: Rows, P: Floats | None = None) -> NDArray:
    """Observed disagreement of two raters, shape (n, 1): the mean of P over pairs of labels."""
    if P is None:
        return rows.labels.class_disagreement.sum(axis=1, keepdims=True) / 2
    # n/(n−1) is 1 for infinitely many raters
    pairs = np.einsum("nk,kl,nl->n", rows.mu, P, rows.mu, optimize=True)
    return (pairs * (1 + 1 / (rows.n - 1)))[:, None]


def _predicted_pairs(rows: Rows, P: Floats | None = None) -> NDArray:
    return rows.distribution._disagreement(P)[:, None]


def _class_rates(rows: Rows) -> NDArray:
    """Observed disagreement on each class, shape (n, K)."""
    return rows.labels.class_disagreement


def _pair_losses(rows: Rows, P: Floats | None) -> NDArray:
    d = pair_rates(rows, P)
    phi = _predicted_pairs(rows, P)
    if P is None:
        return squared(d, phi)[:, 0]
    # E(P − φ̂)², of which Eq. (40) is the case that P is 0 or 1
    return (pair_rates(rows, P**2) - 2 * d * phi + phi**2)[:, 0]


def _pair_terms(rows: Rows, *, distance: Distance):
    P = apart(rows, distance)
    return mean_of(partial(_pair_losses, P=P))(rows)


def _pair_tags(*, distance: Distance) -> MeanOfTerms:
    return _of_pairs(terms=_pair_terms, limits=(0.0, 1.0) if distance is None else None)


def _predicted_classes(rows: Rows) -> NDArray:
    return rows.distribution.class_disagreement()


def _class_losses(rows: Rows) -> NDArray:
    return squared(_class_rates(rows), _predicted_classes(rows)).mean(axis=1)


def _binned(
    rows: Rows,
    phi: NDArray,
    rates: Callable,
    differ: Callable,
    *,
    n_bins,
    strategy,
    bias_correction,
    limits: tuple | None = None,
) -> Binned:
    """What is binned by φ̂; ``differ(a, b, k)``: how much two labels disagree by column k."""
    return Binned(
        Bins(phi, n_bins, strategy, limits),
        phi,
        # rates need no correction for the number of raters
        observed=lambda rows: (rates(rows), np.full(len(rows), np.inf), None),
        correction=correction_of(rows, bias_correction),
        of_ratings=lambda rows: differ,
        pairs=True,
    )


def _pair_binned(rows: Rows, *, distance: Distance, **options) -> Binned:
    P = apart(rows, distance)
    phi = rows.each(partial(_predicted_pairs, P=P))
    if P is None:
        return _binned(rows, phi, pair_rates, lambda a, b, _: a != b, **options)
    options["limits"] = np.zeros(1), np.array([P.max()])
    return _binned(rows, phi, partial(pair_rates, P=P), lambda a, b, _: P[a, b], **options)


def _class_binned(rows: Rows, **options) -> Binned:
    phi = rows.each(_predicted_classes)
    return _binned(rows, phi, _class_rates, lambda a, b, k: (a == k) != (b == k), **options)


def _class_of(sums: BinSums, **options) -> float:
    """Signed square of the mean over classes of the signed roots."""
    root = signed_root(calibration_parts(sums).sum(axis=1)).mean()
    return float(root * abs(root))


@np.errstate(under="ignore")
def posterior_losses(rows: Rows, B: Floats | None = None) -> NDArray:
    """‖Q − z'(Y)‖² of each sample, without bias, where z'(k) = E[z | k]; with classes at points B.

    ``‖Q‖² + Σ_k μ̂_k (‖z'(k)‖² − 2 ⟨Q, z'(k)⟩)``, in which Q stands for labels beside that of k.
    """
    mu, n = rows.mu, rows.n
    x, s, _ = placed(mu, mu, B)
    loss = row_sum(x**2) - row_sum(s) / (n - 1)
    points = np.eye(mu.shape[1]) if B is None else B
    for k, point in enumerate(points):
        named = np.flatnonzero(mu[:, k])
        if not len(named):
            continue
        p = rows.distribution[named]._mean_after(k)
        if B is not None:
            p = p @ B
        m = n[named] - 1
        others = (1 + 1 / m) * row_sum(x[named] * p) - p @ point / m
        loss[named] += mu[named, k] * (row_sum(p**2) - 2 * others)
    return loss


def _posterior_terms(rows: Rows, *, distance: Distance):
    return mean_of(partial(posterior_losses, B=points_of(rows, distance)))(rows)


_of_pairs = partial(mean_loss, least_raters=2, takes_distribution=True)


def _bins_tags(
    binned: Callable, of_sums: Callable, signed_root: bool = True, *, bias_correction, **others
) -> LossOverBins:
    """Tags of a binned loss, or of its signed root."""
    return LossOverBins(
        greater_is_better=False,
        least_raters=2,
        takes_distribution=True,
        biased=bias_correction is None,
        signed_root=signed_root,
        binned=binned,
        of_sums=of_sums,
    )


@metric(_pair_tags)
def disagreement_squared_loss(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    sample_weight: Weights = None,
    distance: Distance = None,
) -> float:
    """Expected squared loss ``L_φ`` of predicted disagreement: smaller is better, minimum 0.

    Predicted is the probability that two raters of a sample give different labels.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes. Samples with one rater are left out.
    prediction : Distribution, or array-like of shape (n_samples, n_classes) or (n_samples,)
        Its `disagreement()` φ̂ is scored. Class probabilities z are taken for a point mass, whose
        ``φ̂ = 1 − Σz²``; 1-D they are of the second class, never φ̂ itself.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the samples; only their ratios matter.
    distance : None, "linear", "quadratic" or array-like of shape (n_classes, n_classes), optional
        As in `expected_squared_loss`. Predicted and observed is then half the mean squared
        distance of two raters, for "linear" half of how many steps they are apart.

    Returns
    -------
    loss : float
        Squared probability; NaN with an UndefinedMetricWarning where no sample has two raters. With
        a distance in units of d⁴.

    Examples
    --------
    >>> disagreement_squared_loss([[1, 1], [2, 0]], [[0.5, 0.5], [1.0, 0.0]])
    0.125
    """
    return score(disagreement_squared_loss, **locals())


@metric(partial(_bins_tags, _pair_binned, calibration_of, signed_root=False))
def disagreement_calibration_loss(
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
    """Squared calibration error ``CL_φ`` of predicted disagreement: 0 if it is calibrated.

    A bias-corrected loss may be negative (P1 eq. 44).

    Parameters
    ----------
    y, prediction, sample_weight
        As in `disagreement_squared_loss`.
    groups, n_bins, strategy, bias_correction
        As in `calibration_loss`.
    distance : None, "linear", "quadratic" or array-like of shape (n_classes, n_classes), optional
        As in `disagreement_squared_loss`; bins are between 0 and the largest ½ d².

    Returns
    -------
    loss : float
        Squared probability; NaN with an UndefinedMetricWarning where no sample has two raters.

    Notes
    -----
    With `Annotations` of four raters or more the residual correction averages over pairs of pairs
    of labels without a common sample or rater. Counts, and fewer raters, leave out samples alone:
    what raters share then looks like miscalibration. Time and memory grow with the pairs of labels.

    Examples
    --------
    >>> disagreement_calibration_loss(
    ...     [[1, 1], [2, 0]], [[0.5, 0.5], [0.5, 0.5]], bias_correction=None
    ... )
    0.0
    """
    return score(disagreement_calibration_loss, **locals())


@metric(partial(_bins_tags, _pair_binned, calibration_of))
def disagreement_calibration_error(
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
    """Signed root of `disagreement_calibration_loss`: 0 if predicted disagreement is calibrated.

    It is negative where the bias-corrected loss is.

    Parameters
    ----------
    y, prediction, sample_weight, groups, n_bins, strategy, bias_correction, distance
        As in `disagreement_calibration_loss`.

    Returns
    -------
    error : float
        In units of probability.

    Examples
    --------
    >>> disagreement_calibration_error(
    ...     [[2, 0], [2, 0]], [[0.5, 0.5], [0.5, 0.5]], bias_correction=None
    ... )
    0.5
    """
    return score(disagreement_calibration_error, **locals())


@metric(_of_pairs(terms=mean_of(_class_losses), limits=(0.0, 1.0)))
def class_disagreement_squared_loss(
    y: LabelsLike, prediction: PredictionLike, *, sample_weight: Weights = None
) -> float:
    """Expected squared loss of class-wise disagreement: smaller is better, minimum 0.

    The mean over classes. For class k the event is that one of two raters names it and the other
    does not.

    Parameters
    ----------
    y, prediction, sample_weight
        As in `disagreement_squared_loss`; the `class_disagreement()` of the prediction is scored.

    Returns
    -------
    loss : float
        Squared probability; NaN with an UndefinedMetricWarning where no sample has two raters.

    Examples
    --------
    >>> class_disagreement_squared_loss([[1, 1], [2, 0]], [[0.5, 0.5], [1.0, 0.0]])
    0.125
    """
    return score(class_disagreement_squared_loss, **locals())


@metric(partial(_bins_tags, _class_binned, _class_of))
def class_disagreement_calibration_error(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    sample_weight: Weights = None,
    groups: Groups = None,
    n_bins: BinsLike = 15,
    strategy: Strategy = "uniform",
    bias_correction: Correction = "residual",
) -> float:
    """Calibration error of class-wise disagreement: 0 if it is calibrated.

    The mean over classes of the signed roots of their losses; it may be negative when corrected.

    Parameters
    ----------
    y, prediction, sample_weight, groups, n_bins, strategy, bias_correction
        As in `disagreement_calibration_loss`; the `class_disagreement()` of the prediction is
        scored.

    Returns
    -------
    error : float
        In units of probability; NaN with an UndefinedMetricWarning where no sample has two raters.

    Examples
    --------
    >>> class_disagreement_calibration_error(
    ...     [[2, 0], [2, 0]], [[0.5, 0.5], [0.5, 0.5]], bias_correction=None
    ... )
    0.5
    """
    return score(class_disagreement_calibration_error, **locals())


@metric(_of_pairs(terms=_posterior_terms))
def posterior_epistemic_loss(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    sample_weight: Weights = None,
    distance: Distance = None,
) -> float:
    """Epistemic loss after one more label: 0 for a perfect model; an estimate may be negative.

    It is ``E‖Q − z'(Y)‖²``: Y is a rater's label, and z'(k) the posterior mean after a label k. The
    estimate is unbiased, and so may be negative. It needs no sampling: ``Σ_k y_k(y_k−1)/(n(n−1)) −
    2 Σ_kl y_k(y_l−δ_kl) z'_l(k)/(n(n−1)) + Σ_k (y_k/n)‖z'(k)‖²``.

    Parameters
    ----------
    y, sample_weight
        As in `disagreement_squared_loss`.
    prediction : Distribution, or array-like of shape (n_samples, n_classes) or (n_samples,)
        Predictive distribution before the label. Class probabilities are taken for a point mass,
        which no label moves.
    distance : None, "linear", "quadratic" or array-like of shape (n_classes, n_classes), optional
        As in `expected_squared_loss`.

    Returns
    -------
    loss : float
        Squared probability summed over classes; NaN with an UndefinedMetricWarning where no sample
        has two raters.

    Examples
    --------
    >>> from sklearn_lhcal.distributions import Dirichlet
    >>> round(posterior_epistemic_loss([[2, 0], [0, 2]], Dirichlet([[1.0, 1.0], [1.0, 1.0]])), 4)
    0.2222
    """
    return score(posterior_epistemic_loss, **locals())
