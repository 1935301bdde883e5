"""A classifier whose outputs were computed elsewhere."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from .._simplex import check_logits, check_proba, frame_names, softmax


class PrecomputedClassifier(ClassifierMixin, BaseEstimator):
    """Classifier for which X holds the outputs of a model that ran elsewhere.

    The words ``"logits"`` and ``"proba"`` as a calibrator's `estimator` are short for it.

    Parameters
    ----------
    response : {"logits", "proba"}
        What the columns of X hold. It is never guessed from their values.
    columns : array-like, slice or list of names, optional
        Which columns of X are the outputs, where features stand beside them. None: all.
    classes : array-like of shape (n_classes,), optional
        What these columns stand for. None: the column names of a frame, else ``arange(n_classes)``; never the labels
        that happen to occur.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)

    Raises
    ------
    ValueError
        NaN or infinite values, probabilities that do not sum to 1, a number of columns that differs.

    Examples
    --------
    >>> PrecomputedClassifier("logits").fit([[0.0, 0.0]]).predict_proba([[0.0, 0.0]])
    array([[0.5, 0.5]])
    """

    accepts_label_histograms = True

    def __init__(self, response="proba", *, columns=None, classes=None):
        self.response = response
        self.columns = columns
        self.classes = classes

    def fit(self, X, y=None, sample_weight=None):
        """Set `classes_`; nothing is learnt, and y and weights are ignored."""
        if self.response not in ("logits", "proba"):
            raise ValueError(f'response must be "logits" or "proba", got {self.response!r}.')
        outputs = self._outputs(X)
        names = frame_names(outputs)
        n_classes = np.asarray(outputs).shape[-1] if np.ndim(outputs) > 1 else 2
        if self.classes is not None:
            classes = np.asarray(self.classes)
        else:
            classes = np.arange(n_classes) if names is None else np.asarray(names)
        if len(classes) != n_classes:
            raise ValueError(f"classes has {len(classes)} entries, but X holds the outputs for {n_classes} classes.")
        self.classes_ = classes
        return self

    def predict_proba(self, X):
        """Class probabilities, shape (n_samples, n_classes)."""
        check_is_fitted(self, "classes_")
        outputs = np.asarray(self._outputs(X))
        if self.response == "logits":
            return softmax(check_logits(outputs, n_classes=len(self.classes_), name="X"))
        return check_proba(outputs, n_classes=len(self.classes_), name="X")

    def decision_function(self, X):
        """The logits, shape (n_samples, n_classes), or log-probabilities (zeros as log 1e-300)."""
        check_is_fitted(self, "classes_")
        if self.response == "logits":
            return check_logits(np.asarray(self._outputs(X)), n_classes=len(self.classes_), name="X")
        return np.log(np.maximum(self.predict_proba(X), 1e-300))

    def predict(self, X):
        """The most probable class of each row, shape (n_samples,)."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def _outputs(self, X):
        if self.columns is None:
            return X
        if hasattr(X, "columns"):
            names = (
                [X.columns[c] if isinstance(c, (int, np.integer)) else c for c in np.arange(X.shape[1])[self.columns]]
                if isinstance(self.columns, slice)
                else list(self.columns)
            )
            return X[names]
        return np.asarray(X)[:, self.columns]
