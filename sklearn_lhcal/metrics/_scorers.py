"""Scorer objects, and their names for ``scoring=``: all that knows scikit-learn's registry."""

import sys
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from inspect import signature
from types import FunctionType
from typing import ClassVar, Literal

from sklearn.base import BaseEstimator
from sklearn.metrics import get_scorer as sklearn_get_scorer
from sklearn.utils.metadata_routing import UNUSED

from .._rows import labels_for, rated_only, rows_of
from .._utils.checks import check_params, check_samples, checked, warn
from .._utils.costs import Costs, bayes_columns, check_cost_matrix, of_decisions
from .._utils.estimators import epistemic_estimates, weight_params
from .._utils.names import check_row_names
from .._utils.tags import Tags, tags_of, unwrapped
from .._utils.types import (
    ArrayLike,
    CostsOfRows,
    Estimator,
    KernelKind,
    LabelsLike,
    MetricFunction,
    Samples,
    Weights,
)
from ..distributions import predict_epistemic
from ._decision import decision_risk
from ._epistemic import accuracy_gain, epistemic_calibration_error, epistemic_correlation
from ._evaluate import with_options
from ._kernel import kernel_calibration_error


class LabelHistogramScorer(BaseEstimator):
    """Scorer of a classifier's predictions against labels or label histograms: larger is better.

    Labels and predictions meet by the estimator's ``classes_``. A class that training never saw has
    probability 0. A metric of this package that reads distributions is given that of `predict_dist`
    through pipelines and searches, any other metric class probabilities.

    Parameters
    ----------
    metric : callable
        ``metric(y, prediction, sample_weight=None)``, one of this package's or any other.
    sign : {1, -1} or None, default=None
        -1 for metrics that are better when smaller. None: what the metric says of itself, and 1
        where it says nothing.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_lhcal.metrics import get_scorer
    >>> X, y = load_iris(return_X_y=True)
    >>> round(get_scorer("expected_accuracy")(LogisticRegression(max_iter=1000).fit(X, y), X, y), 2)
    0.97
    """

    __metadata_request__score: ClassVar = {"estimator": UNUSED}

    def __init__(self, metric: MetricFunction, sign: Literal[1, -1] | None = None) -> None:
        self.metric = metric
        self.sign = sign

    @checked
    def score(
        self, estimator: Estimator, X: Samples, y: LabelsLike, sample_weight: Weights = None
    ) -> float:
        """The metric of what the estimator predicts for X, larger being better."""
        check_params(self)
        tags = tags_of(self.metric)
        rows = rows_of(estimator, X, y, sample_weight, distribution=tags.takes_distribution)
        sign = _sign(self.sign, tags)
        metric = with_options(self.metric, {})
        if metric is not None:
            least = metric.tags.least_raters
            if rows.contributing(least) is None:
                raise ValueError(
                    f"{metric.name} needs samples with a positive weight and {least} labels or "
                    f"more, and of these {len(rows)} samples none has; take neg_label_log_loss, or "
                    "more raters."
                )
            return sign * metric(rows)
        labels = rows.labels if rows.labels.known else rows.labels.counts
        return sign * self.metric(labels, rows.prediction, **weight_params(rows.w))

    __call__ = score

    # read by scikit-learn >= 1.7 where metadata routing is off
    def _accept_sample_weight(self):
        return "sample_weight" in signature(self.metric).parameters


def _sign(given: int | None, tags: Tags) -> int:
    """The sign that is given, else the one that makes larger better."""
    best = -1 if tags.greater_is_better is False else 1
    return given or best


class EpistemicScorer(BaseEstimator):
    """Scorer of a classifier's epistemic uncertainty against what more data gain: larger is better.

    The estimate is `predict_epistemic` where the estimator offers it, as
    `calibration.EpistemicCalibration` does; bins are then those of the uncalibrated estimate. Else
    it is the mutual information of its predictive distribution. Both are found through pipelines
    and searches.

    `reference_prediction` is what f_aug of P3 predicts: the same classifier, fitted on training and
    carved samples. Scikit-learn gives a scorer a fitted estimator and the test samples, so that a
    string in ``scoring=`` never sees the carved samples. ``BallCarvingSplit.scorer(X, y)`` does,
    and fits f_aug of each candidate and split.

    One reference for all candidates and splits can be passed through scikit-learn's metadata
    routing, ``sklearn.set_config(enable_metadata_routing=True)``: ``search.fit(X, y,
    reference_prediction=...)`` hands each fold its samples. Out-of-fold predictions of
    `cross_val_predict` are such a reference. They are not f_aug, and their gains are smaller, as
    each learnt from a part of the carved samples only.

    Parameters
    ----------
    metric : callable
        ``metric(gain, uncertainty)``.
    sign : {1, -1} or None, default=None
        As in `LabelHistogramScorer`.

    Raises
    ------
    ValueError
        Where the scorer cannot say anything, with the reason: no `reference_prediction`, or a
        metric that is undefined, such as the correlation where all gains are equal. A search then
        has NaN there, and shows the reason in its warning.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn_lhcal.datasets import make_random_checkerboard
    >>> from sklearn_lhcal.metrics import get_scorer
    >>> from sklearn_lhcal.model_selection import BallCarvingSplit
    >>> X, y = make_random_checkerboard(2000, n_rows=8, n_columns=8, cell_std=0.25, random_state=0)
    >>> train, augmented, test = BallCarvingSplit(random_state=0).split_augmented(X, y)
    >>> f_tr = RandomForestClassifier(10, random_state=0).fit(X[train], y[train])
    >>> f_aug = RandomForestClassifier(10, random_state=0).fit(X[augmented], y[augmented])
    >>> scorer = get_scorer("epistemic_correlation")
    >>> scorer(f_tr, X[test], y[test], reference_prediction=f_aug.predict(X[test])) > 0.1
    True
    """

    __metadata_request__score: ClassVar = {"estimator": UNUSED, "reference_prediction": True}

    def __init__(self, metric: MetricFunction, sign: Literal[1, -1] | None = None) -> None:
        self.metric = metric
        self.sign = sign

    @checked
    def score(
        self,
        estimator: Estimator,
        X: Samples,
        y: LabelsLike | None,
        reference_prediction: ArrayLike | None = None,
    ) -> float:
        """The metric of gain and estimate at the samples of X, larger being better."""
        check_params(self)
        if reference_prediction is None:
            raise ValueError(
                "The epistemic scorers need reference_prediction, the labels predicted with more "
                "data. Give a search scoring=splitter.scorer(X, y) of its BallCarvingSplit, or "
                "compare candidates by model_selection.evaluate_epistemic. A reference for all "
                "candidates goes to fit of the search, or in params of cross_validate, after "
                "sklearn.set_config(enable_metadata_routing=True)."
            )
        check_row_names(y=y, reference_prediction=reference_prediction)
        y, X, reference_prediction = rated_only(y, X, reference_prediction)
        labels = labels_for(estimator, y)
        gain = accuracy_gain(labels, estimator.predict(check_samples(X)), reference_prediction)
        both = epistemic_estimates(estimator, X)
        before, estimate = both or (predict_epistemic(estimator, X),) * 2
        bins = {"bins_of": before} if "bins_of" in signature(self.metric).parameters else {}
        tags = tags_of(self.metric)
        if tags.undefined_reason is not None and (reason := tags.undefined_reason(gain, estimate)):
            raise ValueError(
                f"The scorer of {unwrapped(self.metric, {})[0].__name__} cannot say anything about "
                f"{type(estimator).__name__} here: {reason}. Estimates differ only with a "
                "predictive distribution (a forest, a Gaussian process), gains only where "
                "reference_prediction is not what it predicts: carve larger balls."
            )
        return _sign(self.sign, tags) * self.metric(gain, estimate, **bins)

    __call__ = score

    # read by scikit-learn >= 1.7 where metadata routing is off
    def _accept_sample_weight(self):
        return False


def scorers_of(metrics) -> dict:
    """Scorers by the name of the metric, ``neg_`` before those that are better when smaller."""
    results = {}
    for function in metrics:
        worse = tags_of(function).greater_is_better is False
        name = f"neg_{function.__name__}" if worse else function.__name__
        results[name] = LabelHistogramScorer(function)
    return results


def _kernel_scorer(kind: KernelKind) -> LabelHistogramScorer:
    """Comparable over candidates, and 0 on average for a calibrated one."""
    return LabelHistogramScorer(partial(kernel_calibration_error, kind=kind, bandwidth=0.05))


# the metrics that `metrics/__init__.py` names come to these
SCORERS: dict = {
    "neg_kernel_canonical_error": _kernel_scorer("canonical"),
    "neg_kernel_marginal_error": _kernel_scorer("marginal"),
    "neg_kernel_top_label_error": _kernel_scorer("top_label"),
    "neg_epistemic_calibration_error": EpistemicScorer(epistemic_calibration_error),
    "epistemic_correlation": EpistemicScorer(epistemic_correlation),
}


@checked
def get_scorer(scoring: str | Callable) -> MetricFunction:
    """A scorer by name: one of this package, else one of scikit-learn.

    Parameters
    ----------
    scoring : str or callable
        A name of `get_scorer_names` or of scikit-learn; a callable is returned as it is.

    Returns
    -------
    scorer : callable
        ``scorer(estimator, X, y)``, larger is better.

    Raises
    ------
    ValueError
        For a name that neither knows.

    Examples
    --------
    >>> get_scorer("neg_epistemic_loss").metric.__name__
    'epistemic_loss'
    """
    if isinstance(scoring, str) and scoring in SCORERS:
        # as scikit-learn: a request set on it must not reach the next caller
        return deepcopy(SCORERS[scoring])
    return sklearn_get_scorer(scoring)


def get_scorer_names() -> list[str]:
    """Names of the scorers of this package, sorted.

    Returns
    -------
    list of str

    Examples
    --------
    >>> "expected_accuracy" in get_scorer_names()
    True
    """
    return sorted(SCORERS)


# ---------------------------------------------------------------------------------------- decisions


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

    __call__ = score

    def _costs(self, X, given) -> Costs:
        """Those of the samples, those given once for all, or those that X says."""
        costs = self.cost_matrix if given is None else given
        if costs is None:
            raise ValueError(
                "The scorer has no cost_matrix: give it to make_decision_scorer; or, with metadata "
                "routing, to fit of the search, or in params of cross_validate."
            )
        if callable(costs):
            costs = costs(X)
        return check_cost_matrix(costs, a_row=True)

    def _accept_sample_weight(self):
        return True


def make_decision_scorer(cost_matrix: CostsOfRows | None = None) -> _DecisionScorer:
    """A scorer for ``scoring=``: minus the risk of a classifier's Bayes decisions.

    Parameters
    ----------
    cost_matrix : array-like, frame, callable or None, default=None
        As in `bayes_decision`, of shape (n_classes, n_decisions); named by the index of a frame, or
        rows in the order of the estimator's ``classes_``, which must then be sorted. A callable
        gets the X that is scored and returns one, or costs a sample of shape (n_samples, n_classes,
        n_decisions). None: costs a sample come by scikit-learn's metadata routing, which has to be
        switched on; ``search.fit(X, y, cost_matrix=C)`` then hands each fold its samples.

    Returns
    -------
    scorer : callable
        ``scorer(estimator, X, y, sample_weight=None, cost_matrix=None)``, larger is better, in the
        unit of the costs. A `cost_matrix` in the call takes the place of that of the scorer.

    Raises
    ------
    ValueError
        NaN or infinite costs; when it scores, other classes than those of the estimator, costs of
        another number of samples, no costs at all.

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


# Marks an option set that lists scorer names.
_SENTINELS = {"accuracy", "neg_log_loss", "r2"}


def register_scorers(*metrics: Callable) -> None:
    """Name scorers of these metrics, and make all names known to scikit-learn's ``scoring=``.

    Things may have been imported in any order. Scikit-learn has no public registry: where its
    private one is gone, this warns, and scorer objects still work.
    """
    SCORERS.update(scorers_of(metrics))
    try:
        from sklearn.metrics import _scorer
        from sklearn.utils._param_validation import StrOptions

        registry = _scorer._SCORERS
        # a name that scikit-learn has too stays its own
        own = {}
        for name, scorer in SCORERS.items():
            module = type(registry.get(name)).__module__
            if not module.startswith("sklearn."):
                own[name] = scorer
        registry.update(own)
        for constraints in _option_lists():
            for option in constraints:
                if type(option) is StrOptions and set(option.options) >= _SENTINELS:
                    option.options = set(option.options) | set(own)
    except (ImportError, AttributeError) as error:
        warn(
            f"sklearn_lhcal could not register its scorer strings ({error}); pass scorer objects.",
            RuntimeWarning,
        )


def _option_lists():
    """Every list of parameter options that scikit-learn's modules have frozen so far."""
    for name, module in list(sys.modules.items()):
        if module is None or name.partition(".")[0] != "sklearn":
            continue
        for thing in list(vars(module).values()):
            if isinstance(thing, (type, FunctionType)):
                for attribute in ("_parameter_constraints", "_skl_parameter_constraints"):
                    constraints = getattr(thing, attribute, None)
                    if isinstance(constraints, dict):
                        yield from (c for c in constraints.values() if isinstance(c, (list, tuple)))
