"""Any scikit-learn classifier, trained on label histograms."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone, is_classifier
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from .._utils.arrays import Floats
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
from .._utils.simplex import accuracy, in_columns
from .._utils.types import Estimator, LabelsLike, Samples, Weights
from ._boosting import boosted
from ._labels import read_labels, weight_of


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
        labels = read_labels(y).for_fit(class_order(self.estimator, X))
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
