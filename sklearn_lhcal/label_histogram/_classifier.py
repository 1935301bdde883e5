"""Any scikit-learn classifier, trained on label histograms."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone, is_classifier
from sklearn.utils import get_tags, indexable
from sklearn.utils.validation import check_is_fitted

from .._ground.checks import check_same_length, check_sample_weight
from .._ground.estimators import (
    atomic,
    class_order,
    default_classifier,
    fit_on_labels,
    own_classes,
    take_feature_names,
)
from .._ground.names import positions
from .._ground.simplex import accuracy
from ._labels import read_labels


class LabelHistogramClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Any scikit-learn classifier, trained on label histograms.

    Counts go to the classifier as they are where its class says ``accepts_label_histograms = True``; else as rows
    repeated once per class with the count as weight; else as rows repeated once per label.

    Search outside, ``GridSearchCV(LabelHistogramClassifier(...))``: the folds of a search *inside* would have copies of
    the same row on both sides, and its scores would be too good.

    Parameters
    ----------
    estimator : classifier, default=None
        What to train; None stands for ``LogisticRegression()``.

    Attributes
    ----------
    estimator_ : classifier
        The fitted clone.
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

    def __init__(self, estimator=None):
        self.estimator = estimator

    @atomic
    def fit(self, X, y, sample_weight=None, **fit_params):
        """Fit a clone of the estimator on X, shape (n_samples, ...), and y, anything `check_counts` takes."""
        (X,) = indexable(X)
        labels = read_labels(y).for_fit(class_order(self.estimator, X))
        check_same_length(len(labels), X=X)
        sample_weight = check_sample_weight(sample_weight, len(labels))
        estimator = default_classifier() if self.estimator is None else clone(self.estimator)
        if not is_classifier(estimator):
            raise ValueError(f"estimator must be a classifier, got {type(estimator).__name__}.")
        fit_on_labels(estimator, X, labels, sample_weight, **fit_params)
        self.estimator_, self.classes_ = estimator, labels.classes
        take_feature_names(self, estimator)
        return self

    def predict_proba(self, X):
        """Class probabilities, shape (n_samples, n_classes), columns in the order of `classes_`.

        0 for a class without any label in training.
        """
        check_is_fitted(self, "estimator_")
        proba = self.estimator_.predict_proba(X)
        columns = positions(own_classes(self.estimator_, self.classes_), self.classes_)
        if np.array_equal(columns, np.arange(len(self.classes_))):
            return proba
        padded = np.zeros((len(proba), len(self.classes_)))
        padded[:, columns] = proba
        return padded

    @property
    def _passes_to(self):
        """The classifier, where each class had a label in training."""
        fitted = getattr(self, "estimator_", None)
        return fitted if fitted is not None and len(fitted.classes_) == len(self.classes_) else None

    def predict(self, X):
        """The most probable class of each row, shape (n_samples,)."""
        check_is_fitted(self, "estimator_")
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def score(self, X, y, sample_weight=None):
        """Expected accuracy on label histograms: larger is better, between 0 and 1.

        Ties of the probabilities are shared evenly.
        """
        check_is_fitted(self, "estimator_")
        labels = read_labels(y).in_order(self.classes_)
        check_same_length(len(labels), X=X)
        weight = check_sample_weight(sample_weight, len(labels))
        return float(np.average(accuracy(labels.mu, self.predict_proba(X)), weights=weight))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = get_tags(default_classifier() if self.estimator is None else self.estimator)
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        return tags
