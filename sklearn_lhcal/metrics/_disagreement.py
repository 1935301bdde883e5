"""Scores of predicted disagreement, and of what one more label teaches (P1 §4, App. C)."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._ground.bins import Bins, BinSums, check_bias_correction, check_grouped, signed_root
from .._ground.checks import as_floats, check_same_length, check_sample_weight
from .._ground.facts import Facts, metric
from .._ground.types import Correction, LabelsLike, Strategy
from .._rows import PredictionLike, Rows, read_groups
from ..label_histogram import class_disagreement, pairwise_disagreement
from ._calibration import calibration_parts
from ._evaluate import score, undefined, weighted


def _check(bias_correction: Correction = "residual", **others) -> None:
    check_bias_correction(bias_correction)


def _squared(d, phi):
    """Unbiased squared loss of each row and column, shape (n, m), Eq. (39)."""
    return d * (1 - d) + (d - phi) ** 2


def _calibration(
    d, phi, w, groups, n_bins=15, strategy="uniform", bias_correction: Correction = "residual"
) -> NDArray:
    """CL of each of m columns, shape (m,), Eq. (41) to (44); `groups` are codes (n,) or None."""
    check_grouped(groups, bias_correction)
    sums = BinSums(Bins(phi, n_bins, strategy), phi.shape[1])
    sums.add(d, np.full(len(d), np.inf), phi, w)
    if groups is not None:
        sums.by_group(d, phi, groups, w)
    return calibration_parts(sums, bias_correction, groups).sum(axis=1)


def _pairs(rows: Rows) -> tuple[NDArray, NDArray]:
    """Observed and predicted disagreement of two raters, shape (n, 1)."""
    d = pairwise_disagreement(rows.labels)
    return d[:, None], rows.distribution.disagreement()[:, None]


def _classes(rows: Rows) -> tuple[NDArray, NDArray]:
    """Observed and predicted disagreement on each class, shape (n, K)."""
    return class_disagreement(rows.labels), rows.distribution.class_disagreement()


def _pair_terms(rows: Rows) -> tuple:
    return weighted(rows, _squared(*_pairs(rows))[:, 0])


def _class_terms(rows: Rows) -> tuple:
    return weighted(rows, _squared(*_classes(rows)).mean(axis=1))


def _of_known(rows: Rows, bias_correction: Correction = "residual", **options) -> dict:
    """The options; nothing is corrected where probabilities are known."""
    return options | {"bias_correction": None if rows.labels.known else bias_correction}


def _pair_calibration(rows: Rows, **options) -> float:
    return float(_calibration(*_pairs(rows), rows.w, rows.groups, **_of_known(rows, **options))[0])


def _class_calibration(rows: Rows, **options) -> float:
    """Signed square of the mean over classes of the signed roots."""
    losses = _calibration(*_classes(rows), rows.w, rows.groups, **_of_known(rows, **options))
    root = signed_root(losses).mean()
    return float(root * abs(root))


def _posterior_terms(rows: Rows) -> tuple:
    """Σ_k y_k(y_k−1)/(n(n−1)) − 2 Σ_kl y_k(y_l−δ_kl) z'_l(k)/(n(n−1)) + Σ_k (y_k/n)‖z'(k)‖²."""
    mu, n = rows.mu, rows.n
    z = rows.distribution.mean()
    move, own, squares = rows.distribution._changes(mu)
    # the pairs of labels in the first sum, those in the second, and the third sum
    agreeing = (mu * mu).sum(axis=1) - 1 / n
    predicted = (mu * (z + move)).sum(axis=1) - ((mu * z).sum(axis=1) + own) / n
    size = (z * (z + 2 * move)).sum(axis=1) + squares
    return weighted(rows, (1 + 1 / (n - 1)) * (agreeing - 2 * predicted) + size)


def _of_pairs(**facts) -> Facts:
    """Facts of a loss that needs two raters and the whole distribution."""
    return Facts(False, least_raters=2, takes_distribution=True, **facts)


def statistic_squared_loss(
    rate: ArrayLike, predicted: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Expected squared loss of a predicted probability of any 0/1 statistic of raters: smaller is
    better, minimum 0.

    Unbiased for ``E(φ − φ̂)²`` because φ is 0 or 1: mean of ``d(1−d) + (d−φ̂)²`` (P1 eq. 39).

    Parameters
    ----------
    rate : array-like of shape (n_samples,)
        Unbiased estimate d of the statistic's probability in each row, as `u_statistic` and
        `pairwise_disagreement` return; rows with NaN are left out.
    predicted : array-like of shape (n_samples,)
        Predicted probability φ̂.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows; only their ratios matter.

    Returns
    -------
    loss : float
        Squared probability; NaN with an UndefinedMetricWarning where no row has a rate.

    Examples
    --------
    >>> statistic_squared_loss([1.0, 0.0], [0.5, 0.5])
    0.25
    """
    d, phi, w, _ = _check_statistic(rate, predicted, sample_weight)
    if d is None:
        return undefined("statistic_squared_loss", 2)
    return float(np.average(_squared(d, phi), weights=w, axis=0).mean())


def statistic_calibration_loss(
    rate: ArrayLike,
    predicted: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    n_bins: int | ArrayLike = 15,
    strategy: Strategy = "uniform",
    bias_correction: Correction = "residual",
) -> float:
    """Calibration loss of a predicted probability of any 0/1 statistic of raters: smaller is
    better, minimum 0.

    The binned formula of `calibration_loss` with d for μ̂ and φ̂ for z (P1 eq. 41–44). May be
    negative when corrected.

    Parameters
    ----------
    rate, predicted, sample_weight
        As in `statistic_squared_loss`.
    groups, n_bins, strategy, bias_correction
        As in `calibration_loss`.

    Returns
    -------
    loss : float
        Squared probability; NaN with an UndefinedMetricWarning where no row has a rate.

    Examples
    --------
    >>> statistic_calibration_loss([1.0, 0.0], [0.25, 0.25], bias_correction=None)
    0.0625
    """
    check_bias_correction(bias_correction)
    d, phi, w, codes = _check_statistic(rate, predicted, sample_weight, groups)
    if d is None:
        return undefined("statistic_calibration_loss", 2)
    return float(_calibration(d, phi, w, codes, n_bins, strategy, bias_correction)[0])


@metric(_of_pairs(terms=_pair_terms))
def disagreement_squared_loss(
    y: LabelsLike, prediction: PredictionLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Expected squared loss of the predicted disagreement of two raters, ``L_φ``: smaller is
    better, minimum 0.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes; rows with one rater are left out.
    prediction : Distribution, or array-like of shape (n_samples, n_classes) or (n_samples,)
        Its `disagreement()` is scored; class probabilities z stand for a point mass, ``φ̂ = 1 −
        Σz²``.
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


@metric(_of_pairs(value=_pair_calibration, check=_check))
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
    """Calibration loss of the predicted disagreement of two raters, ``CL_φ``: smaller is better,
    minimum 0.

    May be negative when corrected (P1 eq. 43).

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

    Examples
    --------
    >>> disagreement_calibration_loss(
    ...     [[1, 1], [2, 0]], [[0.5, 0.5], [0.5, 0.5]], bias_correction=None
    ... )
    0.0
    """
    return score(
        disagreement_calibration_loss,
        y,
        prediction,
        sample_weight,
        groups,
        n_bins=n_bins,
        strategy=strategy,
        bias_correction=bias_correction,
    )


@metric(_of_pairs(loss=_pair_calibration, check=_check))
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
    """Signed root of `disagreement_calibration_loss`: smaller is better, minimum 0; negative where
    that loss is.

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
    return score(
        disagreement_calibration_error,
        y,
        prediction,
        sample_weight,
        groups,
        n_bins=n_bins,
        strategy=strategy,
        bias_correction=bias_correction,
    )


@metric(_of_pairs(terms=_class_terms))
def class_disagreement_squared_loss(
    y: LabelsLike, prediction: PredictionLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Expected squared loss of predicted class-wise disagreement, mean over classes: smaller is
    better, minimum 0.

    For class k the event is that one of two raters names it and the other does not.

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


@metric(_of_pairs(loss=_class_calibration, check=_check))
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
    """Calibration error of predicted class-wise disagreement, mean over classes of the signed
    roots: smaller is better.

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
    return score(
        class_disagreement_calibration_error,
        y,
        prediction,
        sample_weight,
        groups,
        n_bins=n_bins,
        strategy=strategy,
        bias_correction=bias_correction,
    )


@metric(_of_pairs(terms=_posterior_terms))
def posterior_epistemic_loss(
    y: LabelsLike, prediction: PredictionLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Epistemic loss after one more expert label: smaller is better, minimum 0; may be negative,
    being unbiased.

    With z'(k) the posterior mean after a label k and Y a rater's label, unbiased for ``E‖Q −
    z'(Y)‖²`` without any sampling: ``Σ_k y_k(y_k−1)/(n(n−1)) − 2 Σ_kl y_k(y_l−δ_kl)
    z'_l(k)/(n(n−1)) + Σ_k (y_k/n)‖z'(k)‖²``.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes; rows with one rater are left out.
    prediction : Distribution, or array-like of shape (n_samples, n_classes) or (n_samples,)
        Predictive distribution before the label; class probabilities stand for a point mass, which
        no label moves.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows; only their ratios matter.

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


def _check_statistic(rate, predicted, sample_weight, groups=None) -> tuple:
    """Rates (None where no row has one), predictions (n, m), weights, codes of groups."""
    d = as_floats(rate, "rate")
    phi = as_floats(predicted, "predicted")
    check_same_length(len(d), predicted=phi)
    if d.shape != phi.shape:
        raise ValueError(f"rate and predicted must have one shape, got {d.shape} and {phi.shape}.")
    d, phi = d.reshape(len(d), -1), phi.reshape(len(phi), -1)
    for name, a in (("rate", d), ("predicted", phi)):
        if (a < -1e-9).any() or (a > 1 + 1e-9).any():
            raise ValueError(f"{name} must hold probabilities, between 0 and 1.")
    if np.isnan(phi).any():
        raise ValueError("predicted contains NaN.")
    w = check_sample_weight(sample_weight, len(d))
    keep = ~np.isnan(d).any(axis=1) if w is None else ~np.isnan(d).any(axis=1) & (w > 0)
    w = None if w is None else w[keep]
    codes = read_groups(groups, len(d))
    codes = None if codes is None else codes[keep]
    return d[keep] if keep.any() else None, phi[keep], w, codes
