"""Scorers of decisions under a known cost matrix."""

from collections.abc import Callable
from typing import ClassVar

from .._rows import rows_of
from .._utils.costs import Costs, bayes_columns, check_cost_matrix, of_decisions
from .._utils.types import ArrayLike, Samples
from ._decision import decision_risk
from ._evaluate import with_options
from ._scorers import LabelHistogramScorer


class _DecisionScorer(LabelHistogramScorer):
    """Scorer of the decisions that a classifier's probabilities lead to: −risk."""

    __metadata_request__score: ClassVar = {"cost_matrix": True}

    def __init__(self, cost_matrix):
        self.cost_matrix = cost_matrix

    def score(self, estimator, X, y, sample_weight=None, cost_matrix=None):
        """Minus the mean cost of the Bayes decisions for X."""
        costs = self._costs(X, cost_matrix)
        rows = rows_of(estimator, X, y, sample_weight, distribution=False)
        costs = costs.for_classes(rows.classes, rows.z.shape[1], "the classifier")
        costs.check_rows(len(rows))
        rows.prediction = of_decisions(bayes_columns(rows.z, costs.C), costs.C)
        return -with_options(decision_risk, {"cost_matrix": costs})(rows)

    def _costs(self, X, given) -> Costs:
        """Those of the rows, those given once for all, or those that X says."""
        costs = self.cost_matrix if given is None else given
        if costs is None:
            raise ValueError(
                "The scorer has no cost_matrix: give it to make_decision_scorer. Or switch on "
                "scikit-learn's metadata routing and pass costs of each row, cost_matrix=…, to "
                "fit of the search, or in params of cross_validate."
            )
        if callable(costs):
            costs = costs(X)
        return check_cost_matrix(costs, a_row=True)

    def __call__(self, estimator, X, y, sample_weight=None, cost_matrix=None):
        return self.score(estimator, X, y, sample_weight=sample_weight, cost_matrix=cost_matrix)

    def _accept_sample_weight(self):
        return True


def make_decision_scorer(
    cost_matrix: ArrayLike | Callable[[Samples], ArrayLike] | None = None,
) -> _DecisionScorer:
    """A scorer for ``scoring=``: minus the risk of a classifier's Bayes decisions.

    Parameters
    ----------
    cost_matrix : array-like, frame, callable or None, default=None
        As in `bayes_decision`, of shape (n_classes, n_decisions); named by the index of a frame, or
        rows in the order of the estimator's ``classes_``, which must then be sorted. A callable
        gets the X that is scored and returns one, or costs a row of shape (n_samples, n_classes,
        n_decisions). None: costs a row come by scikit-learn's metadata routing, which has to be
        switched on; ``search.fit(X, y, cost_matrix=C)`` then hands each fold its rows.

    Returns
    -------
    scorer : callable
        ``scorer(estimator, X, y, sample_weight=None, cost_matrix=None)``, larger is better, in the
        unit of the costs. A `cost_matrix` in the call takes the place of that of the scorer.

    Raises
    ------
    ValueError
        NaN or infinite costs; when it scores, other classes than those of the estimator, costs of
        another number of rows, no costs at all.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> # an untreated malignant tumour (class 0) costs 20
    >>> scorer = make_decision_scorer([[0, 20], [1, 0]])
    >>> search = GridSearchCV(
    ...     GaussianNB(), {"var_smoothing": [1e-9, 1e-6, 1e-3]}, scoring=scorer
    ... ).fit(X, y)
    >>> search.best_score_ < 0
    np.True_
    """
    if not (cost_matrix is None or callable(cost_matrix)):
        check_cost_matrix(cost_matrix)
    return _DecisionScorer(cost_matrix)
