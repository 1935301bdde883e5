"""Decisions of a calibrator that something else wraps."""

from collections.abc import Callable

from numpy.typing import ArrayLike, NDArray

from .._ground.arrays import Floats
from .._ground.checks import check_samples
from .._ground.estimators import resolve
from .._ground.types import Estimator, Samples
from ._risk_controlled import RiskControlledDecision

# What `decide` takes: costs (K, D), or one a row (n, K, D), or what returns them for X.
CostsOfRows = ArrayLike | Callable[[Samples], ArrayLike] | None


def decide(estimator: Estimator, X: Samples, cost_matrix: CostsOfRows = None) -> NDArray:
    """Decisions of a fitted `DecisionCalibration`, also in a Pipeline, a search, or frozen.

    Parameters
    ----------
    estimator : fitted estimator
        It, or what it wraps, has a method `decide`.
    X : array-like of shape (n_samples, ...)
        What the outermost estimator takes.
    cost_matrix : array-like, callable or None, default=None
        As in `DecisionCalibration.decide`; a callable gets this X. A `RiskControlledDecision`
        takes none: its promise is for the costs of its fit.

    Returns
    -------
    decisions : ndarray of shape (n_samples,)
        Column numbers of the cost matrix, or names of its columns.

    Raises
    ------
    ValueError
        Where nothing decides, or other costs are given to a promise.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.frozen import FrozenEstimator
    >>> from sklearn_lhcal.calibration import DecisionCalibration
    >>> proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
    >>> model = DecisionCalibration("proba", [[0, 1], [4, 0]], criterion="nll")
    >>> model = model.fit(proba, [[9, 1], [6, 4], [2, 8]])
    >>> decide(FrozenEstimator(model), proba)
    array([0, 1, 1])
    """
    return _walk(estimator, X, cost_matrix, "decide")


def expected_cost(estimator: Estimator, X: Samples, cost_matrix: CostsOfRows = None) -> Floats:
    """Expected costs of decisions under a fitted `DecisionCalibration`, wrapped as for `decide`.

    Parameters
    ----------
    estimator, X, cost_matrix
        As in `decide`.

    Returns
    -------
    cost : ndarray of shape (n_samples, n_decisions)
        In the unit of the costs.

    Raises
    ------
    ValueError
        Where nothing decides, or other costs are given to a promise.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_lhcal.calibration import DecisionCalibration
    >>> proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
    >>> model = DecisionCalibration("proba", [[0, 1], [4, 0]], criterion="nll")
    >>> model = model.fit(proba, [[9, 1], [6, 4], [2, 8]])
    >>> expected_cost(model, proba[:1]).round(1)
    array([[0.7, 0.8]])
    """
    return _walk(estimator, X, cost_matrix, "expected_cost")


def _walk(estimator, X, cost_matrix, method: str):
    if callable(cost_matrix):
        cost_matrix = cost_matrix(X)
    estimator, X = resolve(estimator, check_samples(X), method)
    if not hasattr(estimator, method):
        raise ValueError(
            f"{type(estimator).__name__} decides nothing; wrap it in "
            "DecisionCalibration(estimator, cost_matrix), or use "
            "sklearn_lhcal.metrics.bayes_decision(proba, cost_matrix)."
        )
    if cost_matrix is None:
        return getattr(estimator, method)(X)
    if isinstance(estimator, RiskControlledDecision):
        raise ValueError(
            f"cost_matrix was given to {method}, but a promise holds for the costs of its fit "
            "alone: leave it out, or fit RiskControlledDecision(estimator, cost_matrix, …) with "
            "these costs; a callable of X makes costs of each row."
        )
    return getattr(estimator, method)(X, cost_matrix)
