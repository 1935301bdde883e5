"""Risk of decisions under a known cost matrix (P4 §3.2, §4.2).

P4 is *Calibration for decision making via empirical risk minimization* (anonymous, under review).
Letters: C costs (K, D), z class probabilities, μ̂ = y/n_i label frequencies, ``f(d) = Σ_k z_k
C_kd`` the expected cost of a decision."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._ground.arrays import Floats
from .._ground.checks import check_fraction, check_same_length, check_sample_weight
from .._ground.costs import Costs, bayes_columns, check_cost_matrix, expected_cost
from .._ground.facts import Facts, metric
from .._ground.names import check_row_names, column_names
from .._ground.simplex import check_proba
from .._ground.types import LabelsLike
from .._rows import PredictionLike, Rows, read_priced
from ..distributions import Distribution
from ..label_histogram._labels import read_labels
from ._evaluate import read_for, score, weighted
from ._intervals import ConfidenceInterval
from ._kernel_bandwidth import as_tensor, choose_bandwidth

__all__ = [
    "RiskDecomposition",
    "bayes_decision",
    "decision_risk",
    "model_risk",
    "risk_bound",
    "risk_decomposition",
    "risk_gap",
]


def _meet(prediction, cost_matrix) -> tuple[Floats, Costs]:
    """Class probabilities, and costs with their rows in the same order."""
    if isinstance(prediction, Distribution):
        z, classes = prediction.mean(), prediction.classes
    else:
        z, classes = check_proba(prediction, name="prediction"), column_names(prediction)
    return z, check_cost_matrix(cost_matrix).for_classes(classes, z.shape[1])


def _read_decisions(y, decisions, sample_weight, groups, *, cost_matrix) -> Rows:
    """Labels in the order of the rows of the cost matrix, and columns of it as the prediction."""
    costs = check_cost_matrix(cost_matrix)
    labels = read_labels(y)
    if costs.classes is None:
        labels = labels.of_width(len(costs.C), "cost_matrix", "cost_matrix", "index")
    else:
        labels = labels.in_order(costs.classes, other="cost_matrix")
    columns = costs.columns(decisions)
    check_same_length(len(labels), decisions=columns)
    check_row_names(y=y, decisions=decisions, sample_weight=sample_weight, groups=groups)
    return Rows.of(labels, columns, sample_weight, groups)


def _cost_terms(rows: Rows, *, cost_matrix) -> tuple:
    """Σ_k μ̂_k C_kd̂ of each row, Eq. (6)."""
    return weighted(rows, expected_cost(rows.mu, rows.prediction, check_cost_matrix(cost_matrix).C))


def _read_priced(y, prediction, sample_weight, groups, *, cost_matrix) -> Rows:
    return read_priced(y, prediction, check_cost_matrix(cost_matrix), sample_weight, groups)


def _gap_terms(rows: Rows, *, cost_matrix) -> tuple:
    """Cost of the model's decision less what the model expects of it."""
    C = check_cost_matrix(cost_matrix).for_classes(rows.classes, rows.z.shape[1]).C
    d = bayes_columns(rows.z, C)
    return weighted(rows, expected_cost(rows.mu, d, C) - expected_cost(rows.z, d, C))


def bayes_decision(prediction: PredictionLike, cost_matrix: ArrayLike) -> NDArray:
    """The decision of least expected cost for each row, ``argmin_d Σ_k z_k C_kd`` (P4 eq. 1).

    Ties go to the first column. Costs count relative to the best decision for the class, which
    changes no decision.

    Parameters
    ----------
    prediction : array-like of shape (n_samples, n_classes) or (n_samples,), or Distribution
        Class probabilities, those of the second of two classes, or a distribution, of which the
        mean counts.
    cost_matrix : array-like or frame of shape (n_classes, n_decisions)
        Cost of each decision (column) under each class (row), in any unit; negative costs are
        gains. To reject is one decision more. The columns of a frame name the decisions; the index
        of a pandas frame, or a first column of a polars frame that holds no numbers, names the
        classes. They are matched by name with those of `prediction`; where that has no names, they
        must be sorted.

    Returns
    -------
    decisions : ndarray of shape (n_samples,)
        Column numbers, or names of columns where the cost matrix is a frame.

    Raises
    ------
    ValueError
        NaN or infinite costs, another number of classes, other classes than those of `prediction`,
        names that are not sorted beside a bare array.

    Examples
    --------
    >>> bayes_decision(
    ...     [[0.9, 0.1], [0.6, 0.4]], [[0, 1], [4, 0]]
    ... )  # a missed second class costs four times as much
    array([0, 1])
    """
    z, costs = _meet(prediction, cost_matrix)
    return costs.names(bayes_columns(z, costs.C))


@metric(Facts(False, read=_read_decisions, terms=_cost_terms))
def decision_risk(
    y: LabelsLike,
    decisions: ArrayLike,
    cost_matrix: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Mean cost of decisions: smaller is better; between the least and the largest cost.

    ``R = mean Σ_k μ̂_k C_kd̂`` (P4 eq. 6); with one label a row the mean of ``C_yd̂``. Its interval
    is ``confidence_interval(decision_risk, y, decisions, cost_matrix=C)``; where one cost is much
    larger than the others, see `risk_bound` too.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes; 1-D integers are row numbers of the cost matrix. Named
        labels, and frames, are matched by name with a cost matrix that names its classes.
    decisions : array-like of shape (n_samples,)
        Column numbers of the cost matrix, or names of its columns.
    cost_matrix : array-like or frame of shape (n_classes, n_decisions)
        As in `bayes_decision`; costs count as they are, negative ones too.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows; only their ratios matter.

    Returns
    -------
    risk : float
        In the unit of the costs.

    Raises
    ------
    ValueError
        Unknown decisions or classes, lengths that differ, NaN or infinite costs.

    Examples
    --------
    >>> decision_risk([0, 1, 1], [0, 0, 1], [[0, 1], [4, 0]])
    1.3333333333333333
    """
    return score(decision_risk, y, decisions, sample_weight, cost_matrix=cost_matrix)


def model_risk(
    prediction: PredictionLike, cost_matrix: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """The risk that a model expects of its own decisions (P4 eq. 7).

    ``R̂ = mean min_d Σ_k z_k C_kd``.

    Parameters
    ----------
    prediction, cost_matrix
        As in `bayes_decision`.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows; only their ratios matter.

    Returns
    -------
    risk : float
        In the unit of the costs. An overconfident model expects too little; see `risk_gap`.

    Raises
    ------
    ValueError
        As `bayes_decision`.

    Examples
    --------
    >>> round(model_risk([[0.9, 0.1], [0.6, 0.4]], [[0, 1], [4, 0]]), 12)
    0.5
    """
    z, costs = _meet(prediction, cost_matrix)
    w = check_sample_weight(sample_weight, len(z))
    d = bayes_columns(z, costs.C)
    return float(np.average(expected_cost(z, d, costs.C), weights=w))


@metric(Facts(read=_read_priced, terms=_gap_terms))
def risk_gap(
    y: LabelsLike,
    prediction: PredictionLike,
    cost_matrix: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """True risk less `model_risk` of a model's own decisions: 0 where it assesses them rightly.

    Above 0 where the model is too confident of its decisions. ``R − R̂``; 0 in expectation for a
    calibrated model, under any cost matrix (Zhao et al. 2021).

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        As in `decision_risk`.
    prediction, cost_matrix
        As in `bayes_decision`.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows; only their ratios matter.

    Returns
    -------
    gap : float
        In the unit of the costs; at most the range of the costs, up or down.

    Raises
    ------
    ValueError
        As `decision_risk`.

    References
    ----------
    Zhao, Kim, Sahoo, Ma and Ermon (2021), Calibrating predictions to decisions.

    Examples
    --------
    >>> round(risk_gap([0, 1], [[0.9, 0.1], [0.9, 0.1]], [[0, 1], [1, 0]]), 12)
    0.4
    """
    return score(risk_gap, y, prediction, sample_weight, cost_matrix=cost_matrix)


class RiskDecomposition(NamedTuple):
    """Parts of the risk of a model's decisions: ``risk = uncertainty − resolution + reliability``.

    Attributes
    ----------
    risk : float
        Mean cost of the model's decisions, see `decision_risk`.
    uncertainty : float
        Risk of the best constant decision: what anyone reaches who looks at nothing.
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


def risk_decomposition(
    y: LabelsLike,
    prediction: PredictionLike,
    cost_matrix: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    bandwidth: float | Literal["loo", "cv"] | None = None,
) -> RiskDecomposition:
    """Uncertainty, resolution and reliability of the risk of a model's decisions.

    P4 eq. 8 and corollary 1.

    With φ the calibrated prediction, the label frequencies among rows predicted alike, and R[φ] the
    risk of the decisions made from it: resolution is uncertainty − R[φ], reliability risk − R[φ].
    Where predictions repeat, φ is exact: the mean over the rows with the same prediction. Else it
    is estimated by Dirichlet kernels, ``φ_j = z_j + Σ k (μ̂_i − z_i) / Σ k`` over the other rows i,
    and R[φ] is an out-of-sample risk: the parts still add up, and the reliability of a calibrated
    model is 0 or a little below.

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
    >>> proba = [[0.9, 0.1]] * 4 + [
    ...     [0.2, 0.8]
    ... ] * 4  # of the first four rows, two are of the second class
    >>> risk_decomposition([0, 0, 1, 1, 1, 1, 1, 1], proba, [[0, 1], [4, 0]])
    RiskDecomposition(risk=1.0, uncertainty=0.25, resolution=0.0, reliability=0.75)
    """
    costs = check_cost_matrix(cost_matrix)
    rows = read_priced(y, prediction, costs, sample_weight)
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
    from .._ground import kernels as _kernels

    keep = np.flatnonzero(w > 0)
    seen = rows.take(keep)
    h = "cv" if bandwidth is None else bandwidth
    h = choose_bandwidth(h, "canonical", seen, seen.mu[:, None], 0, "cpu")
    x, e, log_w = (as_tensor(a, "cpu") for a in (seen.z, seen.mu - seen.z, np.log(w[keep])))
    phi = rows.z.copy()
    phi[keep] += _kernels.smooth(_kernels.clipped(x), e, h, log_w).numpy()
    return phi


def _group_means(mu, w, group):
    """The weighted mean of μ̂ over the rows with the same prediction, shape (n, K)."""
    sums = np.stack([np.bincount(group, weights=w * mu[:, k]) for k in range(mu.shape[1])], axis=1)
    return (sums / np.maximum(np.bincount(group, weights=w), 1e-300)[:, None])[group]


def risk_bound(
    y: LabelsLike,
    decisions: ArrayLike,
    cost_matrix: ArrayLike,
    *,
    method: Literal["hoeffding", "empirical_bernstein"] = "hoeffding",
    confidence_level: float = 0.95,
) -> ConfidenceInterval:
    """Interval for the risk of decisions that holds for any distribution of the costs, from their
    range alone.

    Where a rare mistake is very expensive the costs of the rows at hand may show none, and
    intervals that are made of their spread are then far too short. These hold at every sample size;
    they are wide, and honestly so.

    - ``"hoeffding"``: ``R ± Δ·sqrt(log(2/δ)/(2n))``, Δ the largest less the least cost, δ = 1 −
      confidence_level.
    - ``"empirical_bernstein"``: ``R ± [sqrt(2V·log(4/δ)/n) + 7Δ·log(4/δ)/(3(n−1))]`` with V the
      variance of the costs: shorter where that is small, and n is not.

    Parameters
    ----------
    y, decisions, cost_matrix
        As in `decision_risk`. The decisions must not have been chosen on the same rows.
    method : {"hoeffding", "empirical_bernstein"}, default="hoeffding"
        Which of the two.
    confidence_level : float, default=0.95
        The interval holds the risk with at least this probability.

    Returns
    -------
    ConfidenceInterval
        ``(estimate, low, high, standard_error)`` in the unit of the costs; ends are cut to the
        range of the costs.

    Raises
    ------
    ValueError
        An unknown method, a level outside (0, 1), fewer than two rows for the empirical Bernstein
        bound.

    References
    ----------
    Hoeffding (1963), Probability inequalities for sums of bounded random variables; Maurer and
    Pontil (2009), Empirical Bernstein bounds and sample variance penalization, Theorem 4; P4 §5.3.

    Examples
    --------
    >>> bound = risk_bound([0, 1] * 500, [0, 1] * 500, [[0, 1], [100, 0]])
    >>> bound.estimate, round(bound.high, 1)
    (0.0, 4.3)
    """
    check_fraction(confidence_level=confidence_level)
    rows = read_for(decision_risk, y, decisions, cost_matrix=cost_matrix)
    cost, _ = _cost_terms(rows, cost_matrix=cost_matrix)
    C = check_cost_matrix(cost_matrix).C
    n = len(cost)
    delta = 1 - confidence_level
    width = np.ptp(C)
    if method == "hoeffding":
        reach = width * np.sqrt(np.log(2 / delta) / (2 * n))
    elif method == "empirical_bernstein":
        if n < 2:
            raise ValueError(
                "The empirical Bernstein bound needs two rows; use method='hoeffding'."
            )
        log = np.log(4 / delta)
        reach = np.sqrt(2 * cost.var(ddof=1) * log / n) + 7 * width * log / (3 * (n - 1))
    else:
        raise ValueError(f'method must be "hoeffding" or "empirical_bernstein", got {method!r}.')
    risk, error = cost.mean(), np.sqrt(cost.var(ddof=1) / n) if n > 1 else np.nan
    low, high = max(risk - reach, C.min()), min(risk + reach, C.max())
    return ConfidenceInterval(float(risk), float(low), float(high), float(error))
