"""Parts of the risk of a model's decisions (P4 §4.2)."""

from typing import NamedTuple

import numpy as np

from .._rows import PredictionLike, Rows, read_with_costs
from .._utils.checks import checked
from .._utils.costs import bayes_columns, check_cost_matrix, expected_cost
from .._utils.results import result
from .._utils.types import ArrayLike, Bandwidth, LabelsLike, Weights
from ._kernel_bandwidth import as_tensor, choose_bandwidth


@result
class RiskDecomposition(NamedTuple):
    """Parts of the risk of a model's decisions: ``risk = uncertainty − resolution + reliability``.

    Attributes
    ----------
    risk : float
        Mean cost of the model's decisions, see `decision_risk`.
    uncertainty : float
        Risk of the best default decision: what anyone reaches who looks at nothing.
    resolution : float
        What the predictions are worth once calibrated: larger is better.
    reliability : float
        What the model loses by taking its probabilities at their word: smaller is better, 0 if it
        is calibrated where it matters for these costs.
    """

    risk: float
    uncertainty: float
    resolution: float
    reliability: float


@checked
def risk_decomposition(
    y: LabelsLike,
    prediction: PredictionLike,
    cost_matrix: ArrayLike,
    *,
    sample_weight: Weights = None,
    bandwidth: Bandwidth | None = None,
) -> RiskDecomposition:
    """Uncertainty, resolution and reliability of the risk of a model's decisions.

    P4 eq. 8 and corollary 1.

    The calibrated prediction φ is the label frequencies among rows predicted alike, and R[φ] is the
    risk of the decisions made from it. Resolution is uncertainty − R[φ], and reliability is risk −
    R[φ]. Where predictions repeat, φ is exact: the mean over the rows with the same prediction.
    Else it is estimated by Dirichlet kernels, ``φ_j = z_j + Σ k (μ̂_i − z_i) / Σ k`` over the other
    rows i. R[φ] is then an out-of-sample risk. The parts still add up, and the reliability of a
    calibrated model is 0 or a little below.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        As in `decision_risk`.
    prediction, cost_matrix
        As in `bayes_decision`.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows, read as repetition where predictions repeat.
    bandwidth : None, "loo", "cv" or float, default=None
        Of the kernels, as in `kernel_calibration_error`. None: rows with the same prediction where
        there are at most half as many predictions as rows, else "cv"; "loo" smooths too much here
        as a rule.

    Returns
    -------
    RiskDecomposition
        ``(risk, uncertainty, resolution, reliability)`` in the unit of the costs.

    Raises
    ------
    ValueError
        As `decision_risk`; a bandwidth that `kernel_calibration_error` would refuse.

    References
    ----------
    P4 eq. (8) and Corollary 1; Bröcker (2009), Reliability, sufficiency, and the decomposition of
    proper scores.

    Examples
    --------
    >>> proba = [[0.9, 0.1]] * 4 + [[0.2, 0.8]] * 4
    >>> # of the first four rows, two are of the second class
    >>> risk_decomposition([0, 0, 1, 1, 1, 1, 1, 1], proba, [[0, 1], [4, 0]])
    RiskDecomposition(risk=1, uncertainty=0.25, resolution=0, reliability=0.75)
    """
    costs = check_cost_matrix(cost_matrix)
    rows = read_with_costs(y, prediction, costs, sample_weight)
    C = costs.for_classes(rows.classes, rows.z.shape[1]).C
    w = rows.weight / rows.weight.sum()
    risk, calibrated = (
        float(w @ expected_cost(rows.mu, bayes_columns(p, C), C))
        for p in (rows.z, _calibrated(rows, w, bandwidth))
    )
    uncertainty = float((w @ rows.mu @ C).min())
    return RiskDecomposition(risk, uncertainty, uncertainty - calibrated, risk - calibrated)


def _calibrated(rows: Rows, w, bandwidth):
    """φ of each row, (n, K): by groups of equal predictions, or by kernels."""
    different, group = np.unique(rows.z, axis=0, return_inverse=True)
    if bandwidth is None and 2 * len(different) <= len(rows):
        return _group_means(rows.mu, w, group.ravel())
    # torch is imported where it is needed only
    from .._utils.kernels.smoothing import clipped, smooth

    keep = np.flatnonzero(w > 0)
    seen = rows.take(keep)
    h = "cv" if bandwidth is None else bandwidth
    h = choose_bandwidth(h, "canonical", seen, 0, "cpu")
    x, e, log_w = (as_tensor(a, "cpu") for a in (seen.z, seen.mu - seen.z, np.log(w[keep])))
    phi = rows.z.copy()
    phi[keep] += smooth(clipped(x), e, h, log_w).numpy()
    return phi


def _group_means(mu, w, group):
    """The weighted mean of μ̂ over the rows with the same prediction, shape (n, K)."""
    sums = np.stack([np.bincount(group, weights=w * mu[:, k]) for k in range(mu.shape[1])], axis=1)
    return (sums / np.maximum(np.bincount(group, weights=w), 1e-300)[:, None])[group]
