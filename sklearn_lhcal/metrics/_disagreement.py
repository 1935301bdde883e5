"""Scores of predicted disagreement, and of what one more label teaches (P1 §4, App. C; §3 of its posterior theory)."""

import numpy as np
from numpy.typing import NDArray

from .._fit import check_same_length
from ..distributions import Distribution
from ..label_histogram import KnownProbabilities, class_disagreement, frequencies, pairwise_disagreement
from ._binning import Bins, BinSums, check_bias_correction, signed_root
from ._inputs import as_distribution, row_weights, undefined


def statistic_squared_loss(rate, predicted, *, sample_weight=None) -> float:
    """Expected squared loss of a predicted probability of any 0/1 statistic of raters: smaller is better, minimum 0.

    Unbiased for ``E(φ − φ̂)²`` because φ is 0 or 1: mean of ``d(1−d) + (d−φ̂)²`` (P1 eq. 39).

    Parameters
    ----------
    rate : array-like of shape (n_samples,)
        Unbiased estimate d of the statistic's probability in each row, as `u_statistic` and `pairwise_disagreement`
        return; rows with NaN are left out.
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
    d, phi, w = _check_statistic(rate, predicted, sample_weight)
    if d is None:
        return undefined("statistic_squared_loss", 2)
    return float(np.average(d * (1 - d) + (d - phi) ** 2, weights=w, axis=0).mean())


def statistic_calibration_loss(
    rate, predicted, *, sample_weight=None, n_bins=15, strategy="uniform", bias_correction: str | None = "residual"
) -> float:
    """Calibration loss of a predicted probability of any 0/1 statistic of raters: smaller is better, minimum 0.

    The binned formula of `calibration_loss` with d for μ̂ and φ̂ for z (P1 eq. 41–44). May be negative when corrected.

    Parameters
    ----------
    rate, predicted, sample_weight
        As in `statistic_squared_loss`.
    n_bins, strategy, bias_correction
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
    losses = _calibration_losses(rate, predicted, sample_weight, n_bins, strategy, bias_correction)
    return undefined("statistic_calibration_loss", 2) if losses is None else float(losses[0])


def disagreement_squared_loss(y, prediction, *, sample_weight=None) -> float:
    """Expected squared loss of the predicted disagreement of two raters, ``L_φ``: smaller is better, minimum 0.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes; rows with one rater are left out.
    prediction : Distribution, or array-like of shape (n_samples, n_classes) or (n_samples,)
        Its `disagreement()` is scored; class probabilities z stand for a point mass, ``φ̂ = 1 − Σz²``.
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
    counts, distribution = as_distribution(y, prediction)
    d, phi, w = _check_statistic(pairwise_disagreement(counts), distribution.disagreement(), sample_weight)
    if d is None:
        return undefined("disagreement_squared_loss", 2)
    return float(np.average(d * (1 - d) + (d - phi) ** 2, weights=w, axis=0).mean())


def disagreement_calibration_loss(
    y, prediction, *, sample_weight=None, n_bins=15, strategy="uniform", bias_correction: str | None = "residual"
) -> float:
    """Calibration loss of the predicted disagreement of two raters, ``CL_φ``: smaller is better, minimum 0.

    May be negative when corrected (P1 eq. 43).

    Parameters
    ----------
    y, prediction, sample_weight
        As in `disagreement_squared_loss`.
    n_bins, strategy, bias_correction
        As in `calibration_loss`.

    Returns
    -------
    loss : float
        Squared probability; NaN with an UndefinedMetricWarning where no row has two raters.

    Examples
    --------
    >>> disagreement_calibration_loss([[1, 1], [2, 0]], [[0.5, 0.5], [0.5, 0.5]], bias_correction=None)
    0.0
    """
    counts, distribution = as_distribution(y, prediction)
    losses = _calibration_losses(
        pairwise_disagreement(counts),
        distribution.disagreement(),
        sample_weight,
        n_bins,
        strategy,
        _unless_known(counts, bias_correction),
    )
    return undefined("disagreement_calibration_loss", 2) if losses is None else float(losses[0])


def disagreement_calibration_error(
    y, prediction, *, sample_weight=None, n_bins=15, strategy="uniform", bias_correction: str | None = "residual"
) -> float:
    """Signed root of `disagreement_calibration_loss`: smaller is better, minimum 0; negative where that loss is.

    Parameters
    ----------
    y, prediction, sample_weight, n_bins, strategy, bias_correction
        As in `disagreement_calibration_loss`.

    Returns
    -------
    error : float
        In units of probability.

    Examples
    --------
    >>> disagreement_calibration_error([[2, 0], [2, 0]], [[0.5, 0.5], [0.5, 0.5]], bias_correction=None)
    0.5
    """
    return signed_root(
        disagreement_calibration_loss(
            y,
            prediction,
            sample_weight=sample_weight,
            n_bins=n_bins,
            strategy=strategy,
            bias_correction=bias_correction,
        )
    )


def class_disagreement_squared_loss(y, prediction, *, sample_weight=None) -> float:
    """Expected squared loss of predicted class-wise disagreement, mean over classes: smaller is better, minimum 0.

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
    counts, distribution = as_distribution(y, prediction)
    d, phi, w = _check_statistic(class_disagreement(counts), distribution.class_disagreement(), sample_weight)
    if d is None:
        return undefined("class_disagreement_squared_loss", 2)
    return float(np.average(d * (1 - d) + (d - phi) ** 2, weights=w, axis=0).mean())


def class_disagreement_calibration_error(
    y, prediction, *, sample_weight=None, n_bins=15, strategy="uniform", bias_correction: str | None = "residual"
) -> float:
    """Calibration error of predicted class-wise disagreement, mean over classes of the signed roots: smaller is better.

    Parameters
    ----------
    y, prediction, sample_weight, n_bins, strategy, bias_correction
        As in `disagreement_calibration_loss`; the `class_disagreement()` of the prediction is scored.

    Returns
    -------
    error : float
        In units of probability; NaN with an UndefinedMetricWarning where no row has two raters.

    Examples
    --------
    >>> class_disagreement_calibration_error([[2, 0], [2, 0]], [[0.5, 0.5], [0.5, 0.5]], bias_correction=None)
    0.5
    """
    counts, distribution = as_distribution(y, prediction)
    losses = _calibration_losses(
        class_disagreement(counts),
        distribution.class_disagreement(),
        sample_weight,
        n_bins,
        strategy,
        _unless_known(counts, bias_correction),
    )
    if losses is None:
        return undefined("class_disagreement_calibration_error", 2)
    return float(np.mean(np.sign(losses) * np.sqrt(np.abs(losses))))


def posterior_epistemic_loss(y, distribution, *, sample_weight=None) -> float:
    """Epistemic loss after one more expert label: smaller is better, minimum 0; may be negative, being unbiased.

    With z'(k) the posterior mean after a label k and Y a rater's label, unbiased for ``E‖Q − z'(Y)‖²`` without any
    sampling: ``Σ_k y_k(y_k−1)/(n(n−1)) − 2 Σ_kl y_k(y_l−δ_kl) z'_l(k)/(n(n−1)) + Σ_k (y_k/n)‖z'(k)‖²``.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes; rows with one rater are left out.
    distribution : Distribution, or array-like of shape (n_samples, n_classes) or (n_samples,)
        Predictive distribution before the label; class probabilities stand for a point mass, which no label moves.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows; only their ratios matter.

    Returns
    -------
    loss : float
        Squared probability summed over classes; NaN with an UndefinedMetricWarning where no row has two raters.

    Examples
    --------
    >>> from sklearn_lhcal.distributions import Dirichlet
    >>> round(posterior_epistemic_loss([[2, 0], [0, 2]], Dirichlet([[1.0, 1.0], [1.0, 1.0]])), 4)
    0.2222
    """
    counts, distribution = as_distribution(y, distribution)
    w = row_weights(sample_weight, len(counts))
    mu, n = frequencies(counts)
    keep = n >= 2 if w is None else (n >= 2) & (w > 0)
    if not keep.any():
        return undefined("posterior_epistemic_loss", 2)
    loss = posterior_epistemic_rows(mu[keep], n[keep], distribution[np.flatnonzero(keep)])
    return float(np.average(loss, weights=None if w is None else w[keep]))


def posterior_epistemic_rows(mu, n, distribution: Distribution) -> NDArray[np.float64]:
    """The estimate of each row, shape (n_rows,), from frequencies (n_rows, K) and raters (n_rows,), two or more."""
    n = n[:, None]
    scale = 1 + 1 / (n - 1)
    loss = np.zeros(len(mu))
    for k in range(mu.shape[1]):
        z = distribution.mean_after(k)  # z'(k)
        other = mu - np.where(np.arange(mu.shape[1]) == k, 1 / n, 0.0)  # (y_l − δ_kl)/n
        loss += mu[:, k] * (scale[:, 0] * (other[:, k] - 2 * (other * z).sum(axis=1)) + (z * z).sum(axis=1))
    return loss


def _check_statistic(rate, predicted, sample_weight) -> tuple[NDArray | None, NDArray, NDArray | None]:
    """Rates and predictions (n, m) without the rows that lack a rate or weight; rates None where no row is left."""
    d, phi = np.asarray(rate, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    check_same_length(len(d), predicted=phi)
    if d.shape != phi.shape:
        raise ValueError(f"rate and predicted must have one shape, got {d.shape} and {phi.shape}.")
    d, phi = d.reshape(len(d), -1), phi.reshape(len(phi), -1)
    for name, a in (("rate", d), ("predicted", phi)):
        if (a < -1e-9).any() or (a > 1 + 1e-9).any():
            raise ValueError(f"{name} must hold probabilities, between 0 and 1.")
    if np.isnan(phi).any():
        raise ValueError("predicted contains NaN.")
    w = row_weights(sample_weight, len(d))
    keep = ~np.isnan(d).any(axis=1) if w is None else ~np.isnan(d).any(axis=1) & (w > 0)
    return d[keep] if keep.any() else None, phi[keep], None if w is None else w[keep]


def _calibration_losses(rate, predicted, sample_weight, n_bins, strategy, bias_correction) -> NDArray | None:
    """CL of each column, shape (m,)."""
    check_bias_correction(bias_correction)
    d, phi, w = _check_statistic(rate, predicted, sample_weight)
    if d is None:
        return None
    sums = BinSums(Bins(phi, n_bins, strategy), phi.shape[1])
    sums.add(d, np.full(len(d), np.inf), phi, w)
    return sums.calibration_loss(bias_correction).sum(axis=1)


def _unless_known(counts, bias_correction: str | None) -> str | None:
    check_bias_correction(bias_correction)
    return None if isinstance(counts, KnownProbabilities) else bias_correction
