"""A classifier whose outputs were computed elsewhere."""

from dataclasses import KW_ONLY
from typing import Literal, Self

import numpy as np
from scipy.special import log_softmax, logsumexp
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from .._rows import DistributionClassifierMixin, parameters, read_labels
from .._utils.checks import check_params, check_same_length, check_samples, holds_text, plain_array
from .._utils.devices import on_host
from .._utils.estimators import atomic
from .._utils.names import (
    Side,
    check_by_position,
    check_classes,
    column_names,
    columns_by_name,
    is_numeric,
    sorted_names,
)
from .._utils.simplex import EPS, check_proba, row_sum, softmax
from .._utils.types import ArrayLike, Floats, LabelsLike, NDArray, Samples
from ..distributions import Distribution, PointMass


def log_proba(z: Floats, least: float = EPS) -> Floats:
    """Scores of calibrators: log(clip(z, least, 1)), renormalised over the last axis."""
    v = np.maximum(z, least)
    v /= row_sum(v)[..., None]
    return np.log(v, out=v)


@parameters
class PrecomputedClassifier(DistributionClassifierMixin, BaseEstimator):
    """Classifier for which X holds the outputs of a model that ran elsewhere.

    The words ``"logits"`` and ``"proba"`` as a calibrator's `estimator` are short for it. X may be
    any distribution. Pass saved members of an ensemble, such as several seeds of a network, as an
    `sklearn_lhcal.distributions.Ensemble`.

    Parameters
    ----------
    response : {"logits", "proba"}
        What the columns of X hold. It is never guessed from their values. A distribution holds
        probabilities, whatever is said here.
    columns : list of names, list of positions or slice, optional
        Which columns of X are the outputs, where features stand beside them. None: all. Integers
        are positions, from the end if negative, also on a frame that has integers as names.
    classes : array-like of shape (n_classes,), optional
        What these columns stand for, in their order. None: the column names of a frame, which are
        sorted at fit and matched by name afterwards; else ``arange(n_classes)``. Labels that happen
        to occur are never used.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)

    Raises
    ------
    ValueError
        NaN or infinite values, but for logits of −inf, a class ruled out; probabilities that do
        not sum to 1, a number of columns that differs, one column for two classes.

    Examples
    --------
    >>> PrecomputedClassifier("logits").fit([[0.0, 0.0]]).predict_proba([[0.0, 0.0]])
    array([[0.5, 0.5]])
    """

    accepts_label_histograms = True

    response: Literal["logits", "proba"] = "proba"
    _: KW_ONLY
    columns: ArrayLike | None = None
    classes: ArrayLike | None = None

    @atomic
    def fit(self, X: Samples, y: LabelsLike | None = None) -> Self:
        """Set `classes_`; nothing is learnt.

        Only the names in y are read. They name columns that have no names, where they are sorted.
        They also show whether one column stands for two classes.
        """
        self._read_columns(X, y)
        if not isinstance(X, Distribution):
            X = self._checked(self._outputs(X))
        if y is not None:
            check_same_length(len(X), y=read_labels(y))
        return self

    def _read_columns(self, X, y) -> None:
        """Set `classes_`: all of a fit but for the values of X, which a prediction looks at."""
        check_params(self)
        labels = None if y is None else read_labels(y)
        names, K = self._named_columns(X, labels)
        if self.classes is not None:
            names = None
            classes = np.asarray(self.classes)
        elif names is not None:
            classes = sorted_names(names)
        elif labels is None or not _has_names(labels) or (labels.single and labels.shape[1] != K):
            classes = np.arange(K)
        else:
            classes = labels.matched(Side("X", None, K, "X")).classes
        check_classes(classes, K)
        self.classes_ = classes
        self.n_features_in_ = K
        self._names = names

    def _named_columns(self, X, labels) -> tuple[NDArray | None, int]:
        """The names of the columns, or None, and their number."""
        if isinstance(X, Distribution):
            if self.columns is not None:
                raise ValueError(
                    "columns selects columns of a table, but X is a distribution; leave columns "
                    "out."
                )
            return X.classes, X.n_classes
        outputs = self._outputs(X)
        names = column_names(outputs, "X")
        if names is not None and self.classes is None:
            outputs = outputs[sorted_names(names).tolist()]
            if labels is not None and not _has_names(labels):
                check_by_position(names, "X", "y", "y")
        _check_axes(outputs, labels)
        validate_data(self, outputs, skip_check_array=True)
        return names, np.shape(outputs)[1]

    def _class_order(self, X, y=None):
        if self.classes is not None:
            return np.asarray(self.classes)
        return None if X is None else clone(self).fit(X, y).classes_

    def predict_proba(self, X: Samples) -> Floats:
        """Class probabilities, shape (n_samples, n_classes)."""
        check_is_fitted(self, "classes_")
        if isinstance(X, Distribution):
            return np.array(self.predict_dist(X).mean())
        outputs = self._checked(self._outputs(X))
        return softmax(outputs) if self.response == "logits" else outputs

    def predict_dist(self, X: Samples) -> Distribution:
        """The distribution that X is, or a point mass at the probabilities that it holds."""
        check_is_fitted(self, "classes_")
        if not isinstance(X, Distribution):
            return PointMass.of_checked(self.predict_proba(X)).with_classes(self.classes_)
        if X.classes is not None:
            return X.in_order(self.classes_)
        if self._names is not None:
            check_by_position(self._names, "X at fit", "X", "X")
        return X.with_classes(self.classes_)

    def predict_log_proba(self, X: Samples) -> Floats:
        """Logarithms of the class probabilities.

        Logits give them directly, so that small probabilities are not lost.
        """
        check_is_fitted(self, "classes_")
        if self.response == "logits" and not isinstance(X, Distribution):
            return log_softmax(self._checked(self._outputs(X)), axis=-1)
        return log_proba(self.predict_proba(X))

    def _outputs(self, X):
        X = on_host(check_samples(X))
        if self.columns is None:
            return X
        if not isinstance(self.columns, slice) and np.ndim(self.columns) != 1:
            raise ValueError(
                "columns must be a list of names, a list of positions or a slice, got "
                f"{self.columns!r}."
            )
        try:
            if not hasattr(X, "columns"):
                return plain_array(X, "X")[:, self.columns]
            # names are sought, positions are counted
            if isinstance(self.columns, slice) or not isinstance(self.columns[0], str):
                return X[list(np.asarray(X.columns)[self.columns])]
            return X[list(self.columns)]
        except (IndexError, KeyError) as error:
            known = list(getattr(X, "columns", range(np.shape(X)[-1])))[:20]
            raise ValueError(f"columns {self.columns!r} are not all in {known} of X.") from error

    def _in_order(self, outputs):
        """Outputs with their columns in the order of the classes, which X named at fit."""
        names = column_names(outputs, "X")
        if names is not None:
            columns_by_name(names, self.classes_, "X", "the classifier")
            return outputs[self.classes_.tolist()]
        check_by_position(self._names, "X at fit", "X", "X")
        return outputs

    def _checked(self, outputs):
        if self._names is not None:
            outputs = self._in_order(outputs)
        _check_axes(outputs)
        if holds_text(plain_array(outputs, "X")):
            raise ValueError("X must be numeric, but holds text; convert it to numbers.")
        # their type stays, and with it the tolerance of probabilities
        a = validate_data(self, outputs, reset=False, ensure_all_finite=False)
        if self.response == "proba":
            return check_proba(a, name="X")
        u = np.asarray(a, dtype=float)
        if not np.isfinite(logsumexp(u, axis=1)).all():
            raise ValueError("X contains NaN or infinity; only some logits may be -inf.")
        return u


def _check_axes(outputs, labels=None) -> None:
    """Refuse members and single columns, and say how they are given."""
    ndim = plain_array(outputs, "X").ndim
    if ndim == 3:
        raise ValueError(
            f"Found array with dim 3: X has shape {np.shape(outputs)}. Pass members of an ensemble "
            "as sklearn_lhcal.distributions.Ensemble(proba), or average them first."
        )
    if ndim == 1:
        raise ValueError(
            "Reshape your data: X has one number per sample; the outputs of two classes are two "
            "columns: np.column_stack([1 - p, p]) of probabilities p of the second class, "
            "np.column_stack([0 * u, u]) of its log-odds u."
        )
    if labels is not None and labels.shape[1] > 1 and np.shape(outputs)[1] == 1:
        raise ValueError(
            f"X has 1 feature(s) for the {labels.shape[1]} classes of y; the outputs of two "
            "classes are two columns, [0, u] for log-odds u, [1 - p, p] for a probability p."
        )


def _has_names(labels) -> bool:
    """Whether labels name classes: numbers alone may count columns."""
    return labels.classes is not None and not (labels.single and is_numeric(labels.classes))
