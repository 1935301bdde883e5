"""Any scikit-learn classifier, trained on label histograms.

Gradient boosting sees every sample once, by a multinomial objective. With the counts c of a sample,
n their sum, margins f, the logarithms b of the class frequencies, and p = softmax(b + f), the loss
of a sample is

    -sum_k c_k log p_k,    gradient  n p_k - c_k,    curvature  s n p_k (1 - p_k),

where s is what the library multiplies the curvature of its own objective by. The trees begin at
f = 0; that b is no part of them saves the libraries an array of first margins, and copies of it.
Two classes have one margin, that of the second.
"""

import sys
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone, is_classifier
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from .._utils.arrays import row_blocks
from .._utils.checks import check_samples
from .._utils.estimators import (
    atomic,
    class_order,
    default_classifier,
    fit_on_labels,
    own_classes,
    take_feature_names,
)
from .._utils.names import positions
from .._utils.simplex import accuracy, in_columns, softmax
from .._utils.types import Estimator, Floats, LabelsLike, NDArray, Samples, Weights
from ._labels import read_labels, weight_of


class MultinomialObjective:
    """Gradient and curvature of the loss, as both libraries ask for them.

    They are in float32, as the libraries keep them, and in the order of the margins. Only the
    numbers of a block of samples are there in float64.
    """

    def __init__(self, counts: NDArray, weight: Floats, prior: Floats, scale: float) -> None:
        self.counts: Any = counts
        self.weight: Any = weight
        self.prior = prior
        self.scale = scale

    def __deepcopy__(self, memo: dict) -> Self:
        """Itself: LightGBM copies its parameters twice, and the labels are not to be."""
        return self

    def __call__(self, y_true, margins: NDArray) -> tuple[NDArray, NDArray]:
        f = margins.reshape(len(self.counts), -1)
        gradient, curvature = np.empty((2, *f.shape), dtype=np.float32)
        first = self.counts.shape[1] - f.shape[1]
        for rows in row_blocks(*self.counts.shape):
            c = self.weight[rows, None] * self.counts[rows]
            n = c.sum(axis=1, keepdims=True)
            p = class_shares(self.prior + f[rows])
            gradient[rows] = (n * p - c)[:, first:]
            # a curvature of 0 would divide by 0 in leaves whose samples are all certain
            curvature[rows] = np.maximum(self.scale * n * p * (1 - p), 1e-16)[:, first:]
        return gradient.reshape(margins.shape), curvature.reshape(margins.shape)


def class_shares(margins: Floats) -> Floats:
    """Probabilities of the margins; the first of two classes has the margin 0."""
    if margins.shape[1] == 1:
        margins = np.hstack([np.zeros_like(margins), margins])
    return softmax(margins)


class BoostedTrees(ClassifierMixin, BaseEstimator):
    """What `LabelHistogramClassifier` puts around a classifier of LightGBM or of XGBoost."""

    accepts_label_histograms = True

    def __init__(self, estimator) -> None:
        self.estimator = estimator

    def fit(self, X, y, sample_weight=None, **fit_params) -> Self:
        """Train on counts; a class without labels gets no margin."""
        if any(name.startswith("eval_") for name in fit_params):
            raise ValueError(
                "eval_set is not taken with label histograms: choose n_estimators by GridSearchCV "
                "around LabelHistogramClassifier."
            )
        for name in ("init_score", "base_margin"):
            if fit_params.get(name) is not None:
                raise ValueError(
                    f"{name} is not taken with label histograms: trees begin at the logarithms of "
                    "the class frequencies."
                )
        labels = read_labels(y).for_fit()
        counts = labels.counts
        weight = np.ones(len(counts)) if sample_weight is None else sample_weight
        # without a copy of the counts in float64
        total = np.einsum("n,nk->k", weight, counts)
        seen = total > 0
        if seen.sum() < 2:
            raise ValueError("y has labels of one class only; boosting needs two classes or more.")
        validate_data(self, X, skip_check_array=True)
        prior = np.log(total[seen] / total.sum())
        K = len(prior)
        scale = self._curvature_scale(K)
        if K == 2:
            prior = prior[1:] - prior[:1]
            scale = 1.0
        objective = MultinomialObjective(counts[:, seen], weight, prior, scale)
        model = self._model(objective, K).fit(X, np.zeros(len(counts), np.float32), **fit_params)
        # the objective stays with the model, which does not need the labels and their weights
        objective.counts = objective.weight = None
        self.model_ = model
        self.prior_ = prior
        self.classes_ = labels.classes[seen]
        return self

    def predict_proba(self, X) -> Floats:
        """Class probabilities, one column a class that had labels."""
        validate_data(self, X, skip_check_array=True, reset=False)
        margins = self._margins(X)
        return class_shares(self.prior_ + margins.reshape(len(margins), -1))

    def _regressor(self, library: str, regressor: str, K: int, **params):
        """The library's model that takes an objective, with what the classifier was given."""
        given = self.estimator.get_params()
        for name in ("class_weight", "scale_pos_weight", "is_unbalance"):
            if given.pop(name, None) not in (None, False, 1):
                raise ValueError(
                    f"{name} of {type(self.estimator).__name__} is not taken with label "
                    "histograms: multiply the columns of the counts instead."
                )
        if K > 2:
            params["num_class"] = K
        return getattr(sys.modules[library], regressor)(**given | params)


class BoostedByLightGBM(BoostedTrees):
    """Around ``lightgbm.LGBMClassifier``."""

    def _curvature_scale(self, K: int) -> float:
        return K / (K - 1)

    def _model(self, objective: MultinomialObjective, K: int):
        # its default metric does not go with another objective
        return self._regressor("lightgbm", "LGBMRegressor", K, objective=objective, metric="None")

    def _margins(self, X) -> NDArray:
        # not by the model: LightGBM before 4.7 warns of names that it gave itself
        threads = self.model_.n_jobs or 0
        return self.model_.booster_.predict(X, raw_score=True, num_threads=threads)


class BoostedByXGBoost(BoostedTrees):
    """Around ``xgboost.XGBClassifier``."""

    def _curvature_scale(self, K: int) -> float:
        return 2.0

    def _model(self, objective: MultinomialObjective, K: int):
        return self._regressor("xgboost", "XGBRegressor", K, objective=objective, base_score=0.0)

    def _margins(self, X) -> NDArray:
        return self.model_.predict(X, output_margin=True)


def boosted(estimator):
    """The estimator, wrapped where it is a booster that would need samples repeated."""
    for library, classifier, wrapper in (
        ("lightgbm", "LGBMClassifier", BoostedByLightGBM),
        ("xgboost", "XGBClassifier", BoostedByXGBoost),
    ):
        # an instance of the class means that its library is imported
        module = sys.modules.get(library)
        if module is not None and isinstance(estimator, getattr(module, classifier)):
            return wrapper(estimator)
    return estimator


class LabelHistogramClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Any scikit-learn classifier, trained on label histograms.

    A classifier whose class has ``accepts_label_histograms = True`` takes counts as they are. One
    that takes weights gets each sample once per class, with the count as its weight. Any other gets
    each sample once per label. ``LGBMClassifier`` and ``XGBClassifier`` (extra ``boosting``) see
    each sample once: they are trained by the multinomial likelihood of the counts.

    Search outside, ``GridSearchCV(LabelHistogramClassifier(...))``. The folds of a search *inside*
    would have copies of one sample on both sides, and its scores would be too good.

    Parameters
    ----------
    estimator : classifier, default=None
        What to train; None stands for ``LogisticRegression()``.

    Attributes
    ----------
    estimator_ : classifier
        The fitted clone. For LightGBM and XGBoost, its `model_` is the fitted model of the library.
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> counts = [[3, 0], [2, 1], [1, 2], [0, 3]]
    >>> LabelHistogramClassifier().fit(X, counts).predict(X)
    array([0, 0, 1, 1])
    """

    accepts_label_histograms = True

    def __init__(self, estimator: Estimator | None = None) -> None:
        self.estimator = estimator

    @atomic
    def fit(
        self, X: Samples, y: LabelsLike, sample_weight: Weights = None, **fit_params: Any
    ) -> Self:
        """Fit a clone of the estimator.

        X has n_samples samples, and y is anything `check_counts` takes. `sample_weight` multiplies
        the counts of the samples; `fit_params` go to the classifier.
        """
        X = check_samples(X)
        given = read_labels(y)
        labels = given.for_fit(class_order(self.estimator, X, given))
        sample_weight = weight_of(labels, X, y, sample_weight)
        estimator = clone(self._unfitted())
        if not is_classifier(estimator):
            raise ValueError(f"estimator must be a classifier, got {type(estimator).__name__}.")
        estimator = boosted(estimator)
        fit_on_labels(estimator, X, labels, sample_weight, **fit_params)
        self.estimator_ = estimator
        self.classes_ = labels.classes
        take_feature_names(self, estimator)
        return self

    def _unfitted(self):
        if self.estimator is None:
            return default_classifier()
        return self.estimator

    def predict_proba(self, X: Samples) -> Floats:
        """Class probabilities, shape (n_samples, n_classes), columns in the order of `classes_`.

        A class without any label in training has probability 0.
        """
        check_is_fitted(self, "estimator_")
        proba = self.estimator_.predict_proba(check_samples(X))
        columns = positions(own_classes(self.estimator_, self.classes_), self.classes_)
        if np.array_equal(columns, np.arange(len(self.classes_))):
            return proba
        return in_columns(proba, columns, len(self.classes_))

    @property
    def _passes_to(self):
        """The classifier, where each class had a label in training."""
        fitted = getattr(self, "estimator_", None)
        if fitted is None or len(fitted.classes_) < len(self.classes_):
            return None
        return fitted

    def predict(self, X: Samples) -> NDArray:
        """The most probable class of each sample, shape (n_samples,)."""
        check_is_fitted(self, "estimator_")
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def score(self, X: Samples, y: LabelsLike, sample_weight: Weights = None) -> float:
        """Expected accuracy on label histograms: larger is better, between 0 and 1.

        Ties of the probabilities are shared evenly. A label of a class that training never saw
        counts as wrong, as with scikit-learn's classifiers.
        """
        check_is_fitted(self, "estimator_")
        labels = read_labels(y).in_order(self.classes_, add=True)
        weight = weight_of(labels, X, y, sample_weight)
        known = labels.mu[:, positions(self.classes_, labels.classes)]
        return float(np.average(accuracy(known, self.predict_proba(X)), weights=weight))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = get_tags(self._unfitted()).input_tags
        tags.input_tags.sparse = inner.sparse
        tags.input_tags.allow_nan = inner.allow_nan
        return tags
