"""Scorer objects, and their names for ``scoring=``: the one place that knows scikit-learn's private registry."""

import sys
import warnings
from copy import deepcopy
from inspect import signature
from types import FunctionType
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import get_scorer as sklearn_get_scorer
from sklearn.utils.metadata_routing import UNUSED

from .._costs import check_cost_matrix
from .._simplex import frame_names
from ..distributions import Distribution, predict_dist
from ..label_histogram import aligned_counts, check_counts
from . import _disagreement, _epistemic, _kernel, _label_histogram, _labels
from ._decision import bayes_columns, decision_risk

__all__ = [
    "SCORERS",
    "EpistemicScorer",
    "LabelHistogramScorer",
    "get_scorer",
    "get_scorer_names",
    "make_decision_scorer",
    "register_scorers",
]


class LabelHistogramScorer(BaseEstimator):
    """Scorer of a classifier's predictions against labels or label histograms: larger is better.

    Classes are aligned first: frames by name, anything else by position in the estimator's ``classes_``.

    Parameters
    ----------
    metric : callable
        ``metric(y, prediction, sample_weight=None)``.
    response : {"predict_proba", "predict_dist"}
        What of the estimator to score; `predict_dist` sees through pipelines and searches.
    sign : {1, -1}
        -1 for metrics that are better when smaller.

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

    def __init__(self, metric, response="predict_proba", sign=1):
        self.metric = metric
        self.response = response
        self.sign = sign

    def score(self, estimator, X, y, sample_weight=None):
        """sign · metric(y, prediction of the estimator for X)."""
        if self.response == "predict_dist":
            prediction = predict_dist(estimator, X)
        else:
            prediction = np.asarray(estimator.predict_proba(X))
        y, prediction = aligned(y, prediction, np.asarray(estimator.classes_))
        weight = {} if sample_weight is None else {"sample_weight": sample_weight}
        return self.sign * self.metric(y, prediction, **weight)

    def __call__(self, estimator, X, y, sample_weight=None):
        return self.score(estimator, X, y, sample_weight=sample_weight)

    def _accept_sample_weight(self):  # read by scikit-learn >= 1.7 where metadata routing is off
        return "sample_weight" in signature(self.metric).parameters


class EpistemicScorer(BaseEstimator):
    """Scorer of a classifier's epistemic uncertainty against what predictions made with more data gain.

    The estimate is `predict_epistemic` where the estimator offers it (`calibration.EpistemicCalibration`), else the
    mutual information of its predictive distribution; both are found through pipelines and searches.

    `reference_prediction` is requested through scikit-learn's metadata routing, which has to be switched on:
    ``sklearn.set_config(enable_metadata_routing=True)``. ``search.fit(X, y, reference_prediction=...)`` then hands each
    fold its rows. Without routing scikit-learn gives scorers X and y only; the scorer can be called by hand.

    Parameters
    ----------
    metric : callable
        ``metric(gain, uncertainty)``.
    sign : {1, -1}
        -1 for metrics that are better when smaller.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn_lhcal.datasets import make_random_checkerboard
    >>> from sklearn_lhcal.metrics import get_scorer
    >>> from sklearn_lhcal.model_selection import BallCarvingSplit, cross_val_predict
    >>> X, y = make_random_checkerboard(3000, n_rows=10, n_columns=10, cell_std=0.25, random_state=0)
    >>> forest = RandomForestClassifier(20, random_state=0)
    >>> reference = cross_val_predict(forest, X, y, method="predict")
    >>> train, test = next(BallCarvingSplit(random_state=0).split(X, y))
    >>> forest = forest.fit(X[train], y[train])
    >>> get_scorer("epistemic_correlation")(forest, X[test], y[test], reference_prediction=reference[test]) > 0.1
    True
    """

    __metadata_request__score: ClassVar = {"estimator": UNUSED, "reference_prediction": True}

    def __init__(self, metric, sign=1):
        self.metric = metric
        self.sign = sign

    def score(self, estimator, X, y, reference_prediction=None):
        """sign · metric(gain, estimate), both of the rows of X."""
        if reference_prediction is None:
            raise ValueError(
                "The epistemic scorers need reference_prediction, the labels predicted with more data, as of "
                'sklearn_lhcal.model_selection.cross_val_predict(..., method="predict"). Switch on scikit-learn\'s '
                "metadata routing, sklearn.set_config(enable_metadata_routing=True), and pass it to fit of the search "
                "or in params of cross_validate."
            )
        gain = _epistemic.estimator_gain(estimator, X, y, reference_prediction)
        return self.sign * self.metric(gain, _epistemic.epistemic_estimate(estimator, X))

    def __call__(self, estimator, X, y, reference_prediction=None):
        return self.score(estimator, X, y, reference_prediction=reference_prediction)

    def _accept_sample_weight(self):  # read by scikit-learn >= 1.7 where metadata routing is off
        return False


class _DecisionScorer(LabelHistogramScorer):
    """Scorer of the decisions that a classifier's probabilities lead to: −risk."""

    def __init__(self, cost_matrix):
        self.cost_matrix = cost_matrix

    def score(self, estimator, X, y, sample_weight=None):
        """Minus the mean cost of the Bayes decisions for X."""
        classes = np.asarray(estimator.classes_)
        y_aligned, z = aligned(y, np.asarray(estimator.predict_proba(X)), classes)
        if z.shape[1] > len(classes):  # y has classes that training never saw
            classes = np.union1d(classes, check_counts(y)[1])
        C = check_cost_matrix(self.cost_matrix, classes=classes).C
        return -decision_risk(y_aligned, bayes_columns(z, C), C, sample_weight=sample_weight)

    def _accept_sample_weight(self):
        return True


def make_decision_scorer(cost_matrix):
    """A scorer for ``scoring=``: minus the risk of the decisions that a classifier's probabilities lead to.

    Parameters
    ----------
    cost_matrix : array-like or frame of shape (n_classes, n_decisions)
        As in `bayes_decision`; rows in the order of the estimator's ``classes_``, or named by the index of a frame.
        Classes with names need such a frame.

    Returns
    -------
    scorer : callable
        ``scorer(estimator, X, y, sample_weight=None)``, larger is better, in the unit of the costs.

    Raises
    ------
    ValueError
        NaN or infinite costs; when it scores, other classes than those of the estimator.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> scorer = make_decision_scorer([[0, 20], [1, 0]])  # an untreated malignant tumour (class 0) costs 20
    >>> search = GridSearchCV(GaussianNB(), {"var_smoothing": [1e-9, 1e-6, 1e-3]}, scoring=scorer).fit(X, y)
    >>> search.best_score_ < 0
    np.True_
    """
    check_cost_matrix(cost_matrix)
    return _DecisionScorer(cost_matrix)


def aligned(y, prediction, classes):
    """Counts in the order of `classes`, and the prediction; probability 0 for classes that training never saw."""
    named = frame_names(y) is not None
    counts, own = check_counts(y)
    if named or own.dtype.kind in classes.dtype.kind or (own.dtype.kind in "iub" and classes.dtype.kind in "iub"):
        unseen = np.setdiff1d(own, classes)
    else:
        unseen = own[:0]
    if not len(unseen) or (named and len(np.setdiff1d(classes, own))):  # the latter raises, the names differ
        return aligned_counts(y, classes), prediction
    everything = np.union1d(classes, own)
    columns = np.searchsorted(everything, classes)
    if isinstance(prediction, Distribution):
        padded = prediction.embed(columns, len(everything))
    else:
        padded = np.zeros((len(prediction), len(everything)))
        padded[:, columns] = prediction
    if named or np.ndim(y) == 1:
        full = np.zeros((len(counts), len(everything)), dtype=counts.dtype)
        full[:, np.searchsorted(everything, own)] = counts
        return full, padded
    return aligned_counts(y, everything), padded


def _make(metric, response="predict_proba"):
    return LabelHistogramScorer(metric, response, 1 if metric.__name__.endswith("accuracy") else -1)


SCORERS = {
    "neg_expected_squared_loss": _make(_label_histogram.expected_squared_loss),
    "neg_epistemic_loss": _make(_label_histogram.epistemic_loss),
    "neg_calibration_loss": _make(_label_histogram.calibration_loss),
    "neg_dispersion_loss": _make(_label_histogram.dispersion_loss),
    "neg_label_log_loss": _make(_labels.label_log_loss),
    "neg_histogram_log_loss": _make(_labels.histogram_log_loss, "predict_dist"),
    "expected_accuracy": _make(_labels.expected_accuracy),
    "vote_accuracy": _make(_labels.vote_accuracy),
    "neg_disagreement_squared_loss": _make(_disagreement.disagreement_squared_loss, "predict_dist"),
    "neg_disagreement_calibration_error": _make(_disagreement.disagreement_calibration_error, "predict_dist"),
    "neg_class_disagreement_squared_loss": _make(_disagreement.class_disagreement_squared_loss, "predict_dist"),
    "neg_posterior_epistemic_loss": _make(_disagreement.posterior_epistemic_loss, "predict_dist"),
    "neg_kernel_canonical_error": _make(_kernel.canonical_error),
    "neg_kernel_marginal_error": _make(_kernel.marginal_error),
    "neg_kernel_top_label_error": _make(_kernel.top_label_error),
    "neg_epistemic_calibration_error": EpistemicScorer(_epistemic.epistemic_calibration_error, -1),
    "epistemic_correlation": EpistemicScorer(_epistemic.epistemic_correlation),
}


def get_scorer(scoring):
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
    >>> get_scorer("neg_epistemic_loss").sign
    -1
    """
    if isinstance(scoring, str) and scoring in SCORERS:
        return deepcopy(SCORERS[scoring])  # as scikit-learn: a request set on it must not reach the next caller
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


_SENTINELS = {"accuracy", "neg_log_loss", "r2"}  # marks an option set that lists scorer names


def register_scorers() -> None:
    """Make the names of `SCORERS` known to scikit-learn's ``scoring=``, in whichever order things were imported.

    Scikit-learn has no public registry. Where its private one is gone, this warns, and scorer objects still work.
    """
    try:
        from sklearn.metrics import _scorer
        from sklearn.utils._param_validation import StrOptions

        registry = _scorer._SCORERS
        clash = [k for k in SCORERS if type(registry.get(k)).__module__.startswith("sklearn.")]
        if clash:
            raise ImportError(f"scikit-learn itself defines the scorers {clash}")
        registry.update(SCORERS)
        for constraints in _option_lists():
            for option in constraints:
                if type(option) is StrOptions and set(option.options) >= _SENTINELS:
                    option.options = set(option.options) | set(SCORERS)
    except (ImportError, AttributeError) as error:
        warnings.warn(
            f"sklearn_lhcal could not register its scorer strings ({error}); pass the scorer objects of "
            "sklearn_lhcal.metrics.SCORERS as scoring= instead.",
            RuntimeWarning,
            stacklevel=2,
        )


def _option_lists():
    """Every list of parameter options that a module of scikit-learn, imported so far, has frozen."""
    for name, module in list(sys.modules.items()):
        if module is None or name.partition(".")[0] != "sklearn":
            continue
        for thing in list(vars(module).values()):
            if isinstance(thing, (type, FunctionType)):
                for attribute in ("_parameter_constraints", "_skl_parameter_constraints"):
                    constraints = getattr(thing, attribute, None)
                    if isinstance(constraints, dict):
                        yield from (c for c in constraints.values() if isinstance(c, (list, tuple)))
