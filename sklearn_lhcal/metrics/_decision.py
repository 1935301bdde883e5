"""Risk of decisions under a known cost matrix (P4 §3.2, §4.2).

P4 is *Calibration for decision making via empirical risk minimization* (anonymous, under review).
Letters: C costs (K, D), z class probabilities, μ̂ = y/n_i label frequencies, ``f(d) = Σ_k z_k
C_kd`` the expected cost of a decision."""

import numpy as np
from numpy.typing import NDArray

from .._rows import PredictionLike, Rows, read_labels, read_prediction, read_with_costs
from .._utils.arrays import Floats
from .._utils.checks import check_same_length, check_sample_weight
from .._utils.costs import (
    Costs,
    bayes_columns,
    check_cost_matrix,
    expected_cost,
    of_decisions,
)
from .._utils.names import Side, check_row_names
from .._utils.tags import MeanOfTerms, metric
from .._utils.types import ArrayLike, LabelsLike, Weights
from ..distributions import Distribution
from ._evaluate import score, weighted


def _meet(prediction, cost_matrix) -> tuple[Floats, Costs]:
    """Class probabilities, and costs with their rows in the same order."""
    found, classes = read_prediction(prediction)
    z = found.mean() if isinstance(found, Distribution) else found
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
    """Σ_k μ̂_k C_kd̂ of each row, Eq. (6); the prediction holds C_kd̂."""
    return weighted(rows, np.einsum("nk,nk->n", rows.mu, rows.prediction))


def _read_with_costs(y, prediction, sample_weight, groups, *, cost_matrix) -> Rows:
    return read_with_costs(y, prediction, check_cost_matrix(cost_matrix), sample_weight, groups)


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
        gains. To reject is one decision more. An array of shape (n_samples, n_classes, n_decisions)
        holds the costs of each row: of a loan by its size, say. The columns of a frame name the
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


def _range_of_costs(rows: Rows) -> tuple[float, float]:
    """The least and the largest cost of the decisions that were made."""
    return float(rows.prediction.min()), float(rows.prediction.max())


_risk = MeanOfTerms(
    greater_is_better=False, read=read_decisions, terms=cost_terms, limits=_range_of_costs
)


@metric(_risk)
def decision_risk(
    y: LabelsLike,
    decisions: ArrayLike,
    cost_matrix: ArrayLike,
    *,
    sample_weight: Weights = None,
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
        As in `bayes_decision`, also one a row; costs count as they are, negative ones too.
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
    prediction: PredictionLike, cost_matrix: ArrayLike, *, sample_weight: Weights = None
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
    `decision_risk`, cover too rarely where few of the rows show the dearest mistake; the guide says
    how rarely.

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
