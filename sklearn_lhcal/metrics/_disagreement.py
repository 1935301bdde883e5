"""Scores of predicted disagreement, and of what one more label teaches (P1 §4, App. C)."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._ground.arrays import row_blocks
from .._ground.bins import Bins, BinSums, check_bias_correction, check_grouped, signed_root
from .._ground.facts import Facts, metric
from .._ground.types import Correction, LabelsLike, Strategy
from .._rows import PredictionLike, Rows
from ..label_histogram import class_disagreement, pairwise_disagreement
from ._calibration import calibration_parts, correction_of, pairs_are_left_out
from ._evaluate import mean_of, score
from ._rater_bins import leave_out_pairs
from ._shared_terms import FOUR, OF_CALIBRATION, Binned
from ._statistic import squared


def _check(bias_correction: Correction = "residual", **others) -> None:
    check_bias_correction(bias_correction)


def _pair_rates(rows: Rows) -> NDArray:
    """Observed disagreement of two raters, shape (n, 1)."""
    return pairwise_disagreement(rows.labels)[:, None]


def _predicted_pairs(rows: Rows) -> NDArray:
    return rows.distribution.disagreement()[:, None]


def _class_rates(rows: Rows) -> NDArray:
    """Observed disagreement on each class, shape (n, K)."""
    return class_disagreement(rows.labels)


def _pair_losses(rows: Rows) -> NDArray:
    return squared(_pair_rates(rows), _predicted_pairs(rows))[:, 0]


def _predicted_classes(rows: Rows) -> NDArray:
    return rows.distribution.class_disagreement()


def _class_losses(rows: Rows) -> NDArray:
    return squared(_class_rates(rows), _predicted_classes(rows)).mean(axis=1)


def _binned(
    rows: Rows,
    phi: NDArray,
    rates: Callable,
    differ: Callable,
    n_bins=15,
    strategy="uniform",
    bias_correction: Correction = "residual",
) -> Binned:
    """What is binned by φ̂; ``differ(a, b, k)``: whether two labels disagree by column k.

    Nothing is corrected where probabilities are known.
    """
    check_grouped(rows.groups, bias_correction)
    return Binned(
        Bins(phi, n_bins, strategy),
        phi,
        # rates need no correction for the number of raters
        observed=lambda rows: (rates(rows), np.full(len(rows), np.inf)),
        says=lambda rows: differ,
        needed=OF_CALIBRATION[correction_of(rows, bias_correction)],
        pairs=True,
    )


def _sums(rows: Rows, binned: Binned) -> BinSums:
    sums = BinSums(binned.bins, binned.z.shape[1])
    for part in row_blocks(*rows.labels.shape):
        some = rows.take(part)
        rates, n = binned.observed(some)
        sums.add(rates, n, binned.z[part], some.w)
    if rows.groups is not None:
        sums.by_group(binned.observed(rows)[0], binned.z, rows.groups, rows.w)
    if binned.corrected:
        leave_out_pairs(sums, rows, binned)
    return sums


def _losses(sums: BinSums, rows: Rows, bias_correction: Correction = "residual", **bins) -> NDArray:
    """CL of each column, Eq. (41) to (44)."""
    shared = partial(pairs_are_left_out, rows, FOUR)
    return calibration_parts(sums, correction_of(rows, bias_correction), shared).sum(axis=1)


def _pair_binned(rows: Rows, **options) -> Binned:
    phi = rows.each(_predicted_pairs)
    return _binned(rows, phi, _pair_rates, lambda a, b, _: a != b, **options)


def _pair_sums(rows: Rows, **options) -> BinSums:
    return _sums(rows, _pair_binned(rows, **options))


def _pair_of(sums: BinSums, rows: Rows, **options) -> float:
    return float(_losses(sums, rows, **options)[0])


def _class_binned(rows: Rows, **options) -> Binned:
    phi = rows.each(_predicted_classes)
    return _binned(rows, phi, _class_rates, lambda a, b, k: (a == k) != (b == k), **options)


def _class_sums(rows: Rows, **options) -> BinSums:
    return _sums(rows, _class_binned(rows, **options))


def _class_of(sums: BinSums, rows: Rows, **options) -> float:
    """Signed square of the mean over classes of the signed roots."""
    root = signed_root(_losses(sums, rows, **options)).mean()
    return float(root * abs(root))


@np.errstate(under="ignore")
def _posterior_losses(rows: Rows) -> NDArray:
    """Σ_k y_k(y_k−1)/(n(n−1)) − 2 Σ_kl y_k(y_l−δ_kl) z'_l(k)/(n(n−1)) + Σ_k (y_k/n)‖z'(k)‖²."""
    mu, n = rows.mu, rows.n
    z = rows.distribution.mean()
    move, own, squares = rows.distribution._changes(mu)
    # the pairs of labels in the first sum, those in the second, and the third sum
    agreeing = (mu * mu).sum(axis=1) - 1 / n
    predicted = (mu * (z + move)).sum(axis=1) - ((mu * z).sum(axis=1) + own) / n
    size = (z * (z + 2 * move)).sum(axis=1) + squares
    return (1 + 1 / (n - 1)) * (agreeing - 2 * predicted) + size


# a loss that needs two raters and the whole distribution; and a binned one
_of_pairs = partial(Facts, False, least_raters=2, takes_distribution=True)
_of_bins = partial(Facts.by_sums, least_raters=2, takes_distribution=True, check=_check)


@metric(_of_pairs(terms=mean_of(_pair_losses)))
def disagreement_squared_loss(
    y: LabelsLike, prediction: PredictionLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Expected squared loss ``L_φ`` of predicted disagreement: smaller is better, minimum 0.

    Predicted is the probability that two raters of a row give different labels.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes. Rows with one rater are left out.
    prediction : Distribution, or array-like of shape (n_samples, n_classes) or (n_samples,)
        Its `disagreement()` φ̂ is scored. Class probabilities z are taken for a point mass, whose
        ``φ̂ = 1 − Σz²``.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows; only their ratios matter.

    Returns
    -------
    loss : float
        Squared probability; NaN with an UndefinedMetricWarning where no row has two raters.

    Examples
    --------
    >>> disagreement_squared_loss([[1, 1], [2, 0]], [[0.5, 0.5], [1.0, 0.0]])
    0.125
    """
    return score(disagreement_squared_loss, y, prediction, sample_weight)


@metric(_of_bins(_pair_sums, _pair_of, binned=_pair_binned))
def disagreement_calibration_loss(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    n_bins: int | ArrayLike = 15,
    strategy: Strategy = "uniform",
    bias_correction: Correction = "residual",
) -> float:
    """Calibration loss ``CL_φ`` of predicted disagreement: smaller is better, minimum 0.

    A corrected loss may be negative (P1 eq. 43).

    Parameters
    ----------
    y, prediction, sample_weight
        As in `disagreement_squared_loss`.
    groups, n_bins, strategy, bias_correction
        As in `calibration_loss`.

    Returns
    -------
    loss : float
        Squared probability; NaN with an UndefinedMetricWarning where no row has two raters.

    Notes
    -----
    With `Annotations` of four raters or more the residual correction averages over pairs of pairs
    of ratings without a common row or rater. Counts, and fewer raters, leave out rows alone: what
    raters share then looks like miscalibration. Time and memory grow with the pairs of ratings.

    Examples
    --------
    >>> disagreement_calibration_loss(
    ...     [[1, 1], [2, 0]], [[0.5, 0.5], [0.5, 0.5]], bias_correction=None
    ... )
    0.0
    """
    how = {"n_bins": n_bins, "strategy": strategy, "bias_correction": bias_correction}
    return score(disagreement_calibration_loss, y, prediction, sample_weight, groups, **how)


@metric(_of_bins(_pair_sums, _pair_of, binned=_pair_binned, rooted=True))
def disagreement_calibration_error(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    n_bins: int | ArrayLike = 15,
    strategy: Strategy = "uniform",
    bias_correction: Correction = "residual",
) -> float:
    """Signed root of `disagreement_calibration_loss`: smaller is better, minimum 0.

    It is negative where the corrected loss is.

    Parameters
    ----------
    y, prediction, sample_weight, groups, n_bins, strategy, bias_correction
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
    how = {"n_bins": n_bins, "strategy": strategy, "bias_correction": bias_correction}
    return score(disagreement_calibration_error, y, prediction, sample_weight, groups, **how)


@metric(_of_pairs(terms=mean_of(_class_losses)))
def class_disagreement_squared_loss(
    y: LabelsLike, prediction: PredictionLike, *, sample_weight: ArrayLike | None = None
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
        Squared probability; NaN with an UndefinedMetricWarning where no row has two raters.

    Examples
    --------
    >>> class_disagreement_squared_loss([[1, 1], [2, 0]], [[0.5, 0.5], [1.0, 0.0]])
    0.125
    """
    return score(class_disagreement_squared_loss, y, prediction, sample_weight)


@metric(_of_bins(_class_sums, _class_of, binned=_class_binned, rooted=True))
def class_disagreement_calibration_error(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    n_bins: int | ArrayLike = 15,
    strategy: Strategy = "uniform",
    bias_correction: Correction = "residual",
) -> float:
    """Calibration error of class-wise disagreement: smaller is better, minimum 0.

    The mean over classes of the signed roots of their losses; it may be negative when corrected.

    Parameters
    ----------
    y, prediction, sample_weight, groups, n_bins, strategy, bias_correction
        As in `disagreement_calibration_loss`; the `class_disagreement()` of the prediction is
        scored.

    Returns
    -------
    error : float
        In units of probability; NaN with an UndefinedMetricWarning where no row has two raters.

    Examples
    --------
    >>> class_disagreement_calibration_error(
    ...     [[2, 0], [2, 0]], [[0.5, 0.5], [0.5, 0.5]], bias_correction=None
    ... )
    0.5
    """
    how = {"n_bins": n_bins, "strategy": strategy, "bias_correction": bias_correction}
    return score(class_disagreement_calibration_error, y, prediction, sample_weight, groups, **how)


@metric(_of_pairs(terms=mean_of(_posterior_losses)))
def posterior_epistemic_loss(
    y: LabelsLike, prediction: PredictionLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Epistemic loss after one more expert label: smaller is better, minimum 0.

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

    Returns
    -------
    loss : float
        Squared probability summed over classes; NaN with an UndefinedMetricWarning where no row has
        two raters.

    Examples
    --------
    >>> from sklearn_lhcal.distributions import Dirichlet
    >>> round(posterior_epistemic_loss([[2, 0], [0, 2]], Dirichlet([[1.0, 1.0], [1.0, 1.0]])), 4)
    0.2222
    """
    return score(posterior_epistemic_loss, y, prediction, sample_weight)
