"""Scores of a predicted probability of any 0/1 statistic of raters (P1 App. C)."""

import numpy as np

from .._utils.bins import Bins
from .._utils.checks import (
    as_floats,
    check_grouped,
    check_same_length,
    check_sample_weight,
    checked,
    read_groups,
    take_rows,
)
from .._utils.types import ArrayLike, BinsLike, Groups, Strategy, Weights
from ._binned import BinSums, Correction
from ._calibration import calibration_parts
from ._evaluate import undefined


def squared(d, phi):
    """Unbiased squared loss of each row and column, shape (n, m), Eq. (40)."""
    return d * (1 - d) + (d - phi) ** 2


def statistic_squared_loss(
    rate: ArrayLike, predicted: ArrayLike, *, sample_weight: Weights = None
) -> float:
    """Expected squared loss of a predicted 0/1 statistic of raters: smaller is better, minimum 0.

    The mean of ``d(1−d) + (d−φ̂)²`` (P1 eq. 40). It is unbiased for ``E(φ − φ̂)²``, as φ is 0 or 1.

    Parameters
    ----------
    rate : array-like of shape (n_samples,)
        Unbiased estimate d of the statistic's probability in each sample, as `u_statistic` and
        `pairwise_disagreement` return. Samples with NaN are left out.
    predicted : array-like of shape (n_samples,)
        Predicted probability φ̂.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the samples; only their ratios matter.

    Returns
    -------
    loss : float
        Squared probability; NaN with an UndefinedMetricWarning where no sample has a rate.

    Examples
    --------
    >>> statistic_squared_loss([1.0, 0.0], [0.5, 0.5])
    0.25
    """
    result = _read(rate, predicted, sample_weight)
    if result is None:
        return undefined("statistic_squared_loss", 2)
    d, phi, w, _ = result
    return float(np.average(squared(d, phi), weights=w, axis=0).mean())


@checked
def statistic_calibration_loss(
    rate: ArrayLike,
    predicted: ArrayLike,
    *,
    sample_weight: Weights = None,
    groups: Groups = None,
    n_bins: BinsLike = 15,
    strategy: Strategy = "uniform",
    bias_correction: Correction = "residual",
) -> float:
    """Squared calibration error of a predicted 0/1 statistic of raters: 0 if it is calibrated.

    The binned formula of `calibration_loss` with d for μ̂ and φ̂ for z (P1 eq. 42–45). A corrected
    loss may be negative.

    Parameters
    ----------
    rate, predicted, sample_weight
        As in `statistic_squared_loss`.
    groups, n_bins, strategy, bias_correction
        As in `calibration_loss`.

    Returns
    -------
    loss : float
        Squared probability; NaN with an UndefinedMetricWarning where no sample has a rate.

    Examples
    --------
    >>> statistic_calibration_loss([1.0, 0.0], [0.25, 0.25], bias_correction=None)
    0.0625
    """
    result = _read(rate, predicted, sample_weight, groups)
    if result is None:
        return undefined("statistic_calibration_loss", 2)
    d, phi, w, codes = result
    check_grouped(codes, bias_correction)
    sums = BinSums(Bins(phi, n_bins, strategy), 1, correction=bias_correction)
    sums.add(d, np.full(len(d), np.inf), phi, w)
    if codes is not None:
        sums.by_group(d, phi, codes, w)
        sums.dependent = True
    # Eq. (42) to (45)
    return float(calibration_parts(sums).sum())


def _read(rate, predicted, sample_weight, groups=None) -> tuple | None:
    """Rates and predictions (n, 1), weights, codes of groups; None where no sample has a rate."""
    d = as_floats(rate, "rate")
    phi = as_floats(predicted, "predicted")
    if d.ndim == phi.ndim == 1:
        check_same_length(len(d), predicted=phi)
    if d.ndim != 1 or d.shape != phi.shape:
        raise ValueError(
            f"rate and predicted must have one shape (n_samples,), not {d.shape} and {phi.shape}."
        )
    keep = ~np.isnan(d)
    for name, a in (("rate", d[keep]), ("predicted", phi)):
        if not ((a >= -1e-9) & (a <= 1 + 1e-9)).all():
            raise ValueError(f"{name} must hold probabilities, between 0 and 1.")
    w = check_sample_weight(sample_weight, len(d))
    if w is not None:
        keep &= w > 0
    codes = read_groups(groups, len(d))
    if not keep.any():
        return None
    return tuple(take_rows(a, keep) for a in (d[:, None], phi[:, None], w, codes))
