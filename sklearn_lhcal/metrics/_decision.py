"""Risk of decisions under a known cost matrix (P4 §3.2, §4.2).

P4 is *Calibration for decision making via empirical risk minimization* (anonymous, under review).
Letters: C costs (K, D), z class probabilities, μ̂ = y/n_i label frequencies, ``f(d) = Σ_k z_k
C_kd`` the expected cost of a decision."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from .._rows import (
    PredictionLike,
    Rows,
    class_column,
    proba_of,
    read_labels,
    read_prediction,
    read_with_costs,
)
from .._utils.bins import below
from .._utils.checks import check_same_length, check_sample_weight, checked
from .._utils.costs import Costs, bayes_columns, check_cost_matrix, expected_cost, of_decisions
from .._utils.names import Side, check_row_names
from .._utils.results import result
from .._utils.tags import MeanOfTerms, metric
from .._utils.types import ArrayLike, Bandwidth, Floats, LabelsLike, NDArray, Weights
from ._binned import group_means
from ._evaluate import score, weighted
from ._kernel_bandwidth import as_tensor, choose_bandwidth

# samples of one prediction, on average, whose labels choose decisions about themselves
_ALIKE = 50


def _meet(prediction, cost_matrix) -> tuple[Floats, Costs]:
    """Class probabilities, and costs with their samples in the same order."""
    found, classes = read_prediction(prediction)
    z = proba_of(found)
    costs = check_cost_matrix(cost_matrix, a_row=True).for_classes(classes, z.shape[1])
    costs.check_rows(len(z))
    return z, costs


def read_decisions(y, decisions, sample_weight, groups, *, cost_matrix) -> Rows:
    """Labels in the order of the classes of the cost matrix; what decisions cost as prediction."""
    costs = check_cost_matrix(cost_matrix, a_row=True)
    side = Side("cost_matrix", costs.classes, costs.C.shape[-2], "cost_matrix", "index")
    labels = read_labels(y).matched(side)
    columns = costs.columns(decisions)
    check_same_length(len(labels), decisions=columns)
    costs.check_rows(len(labels))
    check_row_names(y=y, decisions=decisions, sample_weight=sample_weight, groups=groups)
    return Rows.of(labels, of_decisions(columns, costs.C), sample_weight, groups)


def cost_terms(rows: Rows, *, cost_matrix) -> tuple:
    """Σ_k μ̂_k C_kd̂ of each sample, Eq. (6); the prediction holds C_kd̂."""
    return weighted(rows, np.einsum("nk,nk->n", rows.mu, rows.prediction))


def _read_with_costs(y, prediction, sample_weight, groups, *, cost_matrix) -> Rows:
    return read_with_costs(y, prediction, check_cost_matrix(cost_matrix), sample_weight, groups)


def _gap_terms(rows: Rows, *, cost_matrix) -> tuple:
    """Cost of the model's decision less what the model expects of it."""
    C = check_cost_matrix(cost_matrix).for_classes(rows.classes, rows.z.shape[1]).C
    d = bayes_columns(rows.z, C)
    return weighted(rows, expected_cost(rows.mu, d, C) - expected_cost(rows.z, d, C))


def bayes_decision(prediction: PredictionLike, cost_matrix: ArrayLike) -> NDArray:
    """The decision of least expected cost for each sample, ``argmin_d Σ_k z_k C_kd`` (P4 eq. 1).

    Ties go to the first column. Costs count relative to the best decision for the class, which
    changes no decision.

    Parameters
    ----------
    prediction : array-like of shape (n_samples, n_classes) or (n_samples,), or Distribution
        Class probabilities, those of the second of two classes, or a distribution, of which the
        mean counts.
    cost_matrix : array-like or frame of shape (n_classes, n_decisions)
        Cost of each decision (column) under each class (row), in any unit; negative costs are
        gains. To reject is one decision more. An array of shape (n_samples, n_classes, n_decisions)
        holds the costs of each sample: of a loan by its size, say. The columns of a frame name the
        decisions; the index of a pandas frame, or a first column of a polars frame that holds no
        numbers, names the classes. They are matched by name with those of `prediction`; where that
        has no names, they must be sorted.

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
    >>> # a missed second class costs four times as much
    >>> bayes_decision([[0.9, 0.1], [0.6, 0.4]], [[0, 1], [4, 0]])
    array([0, 1])
    """
    z, costs = _meet(prediction, cost_matrix)
    return costs.names(bayes_columns(z, costs.C))


_risk = MeanOfTerms(
    greater_is_better=False,
    of_decisions=True,
    read=read_decisions,
    terms=cost_terms,
    # the least and the largest cost of the decisions that were made
    limits=lambda rows: (float(rows.prediction.min()), float(rows.prediction.max())),
)


@metric(_risk)
def decision_risk(
    y: LabelsLike, decisions: ArrayLike, cost_matrix: ArrayLike, *, sample_weight: Weights = None
) -> float:
    """Mean cost of decisions: smaller is better; between the least and the largest cost.

    ``R = mean Σ_k μ̂_k C_kd̂`` (P4 eq. 6); with one label per sample the mean of ``C_yd̂``. Its
    interval is ``confidence_interval(decision_risk, y, decisions, cost_matrix=C)``; where one cost
    is much larger than the others, see `risk_bound` too.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes; 1-D integers are row numbers of the cost matrix. Named
        labels, and frames, are matched by name with a cost matrix that names its classes.
    decisions : array-like of shape (n_samples,)
        Column numbers of the cost matrix, or names of its columns; of two decisions also whether
        the second is taken, ``proba[:, 1] > threshold``.
    cost_matrix : array-like or frame of shape (n_classes, n_decisions)
        As in `bayes_decision`, also one per sample; costs count as they are, negative ones too.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the samples; only their ratios matter.

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
    prediction: PredictionLike, cost_matrix: ArrayLike, *, sample_weight: Weights = None
) -> float:
    """The risk that a model expects of its own decisions (P4 eq. 7).

    ``R̂ = mean min_d Σ_k z_k C_kd``.

    Parameters
    ----------
    prediction, cost_matrix
        As in `bayes_decision`.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the samples; only their ratios matter.

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


@metric(MeanOfTerms(read=_read_with_costs, terms=_gap_terms))
def risk_gap(
    y: LabelsLike,
    prediction: PredictionLike,
    cost_matrix: ArrayLike,
    *,
    sample_weight: Weights = None,
) -> float:
    """True risk less `model_risk` of a model's own decisions: 0 where it assesses them rightly.

    Above 0 where the model is too confident of its decisions. ``R − R̂``; 0 in expectation for a
    calibrated model, under any cost matrix (Zhao et al. 2021). Intervals of it, and of
    `decision_risk`, cover too rarely where few of the samples show the most expensive mistake; the
    guide says how rarely.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        As in `decision_risk`.
    prediction, cost_matrix
        As in `bayes_decision`.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the samples; only their ratios matter.

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
    return score(risk_gap, **locals())


# -------------------------------------------------------------------------------------- net benefit


def acts_on(rows: Rows, k, t) -> NDArray[np.int8]:
    """1{p_i ≥ t} of the class in column k, (n,); of a list of one, at thresholds (T,), (n, T)."""
    # 1 − 0.9 is below 0.1, and 0.7 in float32 below 0.7
    return (rows.z[:, k] >= t - below(t, t)).astype(np.int8)


def benefits(rows: Rows, at, *, acts: NDArray, k, t) -> Floats:
    """``1{p_i ≥ t} [μ̂_i − (1 − μ̂_i) t/(1 − t)]`` of samples with the numbers `at`."""
    mu = rows.mu[:, k]
    return acts[at] * (mu - (1 - mu) * t / (1 - t))


def _benefits(rows: Rows, elsewhere: bool = True, *, threshold: float, class_index) -> Callable:
    """Those at one threshold. Where nobody acts, and `elsewhere`, everybody does."""
    how: dict = {"k": class_column(class_index, rows), "t": threshold}
    acts = acts_on(rows, **how)
    return partial(benefits, acts=acts if acts.any() or not elsewhere else 1 - acts, **how)


def _benefit_terms(rows: Rows, **options) -> tuple:
    return weighted(rows, _benefits(rows, False, **options)(rows, slice(None)))


@metric(MeanOfTerms(greater_is_better=True, terms=_benefit_terms, elsewhere=_benefits))
@checked
def net_benefit(
    y: LabelsLike,
    prediction: PredictionLike,
    threshold: float,
    *,
    sample_weight: Weights = None,
    class_index: object = None,
) -> float:
    """Net benefit of acting on the samples with ``p ≥ threshold``: larger is better, at most the
    share of the class.

    ``NB(t) = mean 1{p_i ≥ t} [μ̂_i − (1 − μ̂_i) t/(1 − t)]``: true alarms per sample, less false
    ones at their exchange rate. To act from a probability t on means that a false alarm weighs t/(1
    − t) missed cases. Acting on no sample has net benefit 0; acting on every sample has that of ``p
    = 1``. A model is useful at this threshold where it is above both.

    It is unbiased with any number of raters per sample. Samples count alike, however many raters
    they have. Where a missed case costs 1 − t and a false alarm t, ``NB = share − R / (1 − t)``
    with R the `decision_risk`.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes.
    prediction : array-like of shape (n_samples, n_classes) or (n_samples,), or Distribution
        Class probabilities, those of the second of two classes, or a distribution, of which the
        mean counts.
    threshold : float
        The probability t from which on one acts, at least 0 and below 1. Predictions that rounding
        alone puts below it count as at it.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the samples; only their ratios matter.
    class_index : int or class name, optional
        The class that calls for acting, against all others: its name, or its column number where
        names are no numbers. None: the second of two.

    Returns
    -------
    benefit : float
        In true alarms per sample: 0.05 is worth five true alarms in 100 samples without a false
        one.

    Raises
    ------
    ValueError
        A threshold outside [0, 1), an unknown class, more than two classes and no `class_index`.

    See Also
    --------
    sklearn_lhcal.display.DecisionCurveDisplay : Net benefit over thresholds, with intervals.

    References
    ----------
    Vickers and Elkin (2006), Decision curve analysis: a novel method for evaluating prediction
    models.

    Examples
    --------
    >>> y, p = [0, 0, 1, 1], [0.1, 0.6, 0.4, 0.9]
    >>> net_benefit(y, p, 0.5), round(net_benefit(y, p, 0.25), 3)
    (0.0, 0.417)

    Its interval:

    >>> from sklearn_lhcal.metrics import confidence_interval
    >>> confidence_interval(net_benefit, y * 50, p * 50, threshold=0.25, random_state=0).low > 0
    True
    """
    return score(net_benefit, **locals())


# -------------------------------------------------------------------------------- parts of the risk


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

    The calibrated prediction φ is the label frequencies among samples predicted alike, and R[φ] is
    the risk of the decisions made from it. Resolution is uncertainty − R[φ], and reliability is
    risk − R[φ]. Where 50 samples on average have the same prediction, φ is exact: their mean. Fewer
    samples would choose decisions that suit their own labels. φ is then estimated by Dirichlet
    kernels, ``φ_j = z_j + Σ k (μ̂_i − z_i) / Σ k`` over the other samples i, and R[φ] is an
    out-of-sample risk. The parts still add up, and the reliability of a calibrated model is 0 or a
    little below.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        As in `decision_risk`.
    prediction, cost_matrix
        As in `bayes_decision`.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the samples, read as repetition where predictions repeat.
    bandwidth : None, "loo", "cv" or float, default=None
        Of the kernels, as in `kernel_calibration_error`. None: samples with the same prediction
        where these are 50 on average, else "cv"; "loo" smooths too much here as a rule.

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
    >>> proba = [[0.9, 0.1]] * 64 + [[0.2, 0.8]] * 64
    >>> # of the first 64 samples, half are of the second class
    >>> risk_decomposition([0, 1] * 32 + [1] * 64, proba, [[0, 1], [4, 0]])
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
    """φ of each sample, (n, K): by groups of equal predictions, or by kernels."""
    different, group = np.unique(rows.z, axis=0, return_inverse=True)
    if bandwidth is None and _ALIKE * len(different) <= len(rows):
        return group_means(rows.mu, w, group.ravel())
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
