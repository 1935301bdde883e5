"""The bundle of calibration samples: what a calibrator sees of them, on their way from the loop."""

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import log_softmax
from sklearn.base import BaseEstimator

from .._rows import DistributionClassifierMixin, Labels, predicted_dist
from .._rows import inversion as inversion
from .._rows import parameters as parameters
from .._utils.checks import take_rows
from .._utils.estimators import own_columns, resolve, take_feature_names
from .._utils.simplex import EPS, row_sum, softmax
from .._utils.types import Floats, Indices, NDArray, Samples
from ..distributions import Distribution, Mixture, PointMass
from ._precomputed import PrecomputedClassifier, log_proba

# The weight of a member whose weight is 0, and the least probability that has a logarithm.
_TINY = 1e-300

# (training samples, test samples) of a fold
Split = tuple[Indices, Indices]


@dataclass(frozen=True)
class CalibrationRows:
    """Samples as a calibrator sees them; without the labels where it predicts.

    Parameters
    ----------
    log_proba : ndarray of shape (n, K), or (n, S, K) `of_members`
        Log-probabilities, log(clip(z, 1e-12, 1)) renormalised, until they are `unclipped`; of an
        ensemble those of its mean.
    log_weights : ndarray of shape (n, S) or None
        Of the members.
    X : anything with n rows, or None
        What the classifier saw.
    model : fitted classifier or None
        Whose predictions these are.
    counts : ndarray of shape (n, K) or None
        Labels, as floats.
    weight : ndarray of shape (n,) or None
        Weights of the samples, 1 by default.
    classes : ndarray of shape (K,) or None
    known : bool
        Whether the counts are known probabilities: infinitely many labels.
    prediction : Distribution or None
        All that the classifier says of class probabilities; None for logits.
    labels : Labels or None
        Who gave the labels, where that is known.
    """

    log_proba: Floats
    # arrays, or None as said above: a calibrator knows which
    log_weights: Any = None
    X: Any = None
    model: Any = None
    counts: Any = None
    weight: Any = None
    classes: NDArray | None = None
    known: bool = False
    prediction: Distribution | None = None
    labels: Any = None

    @classmethod
    def predicted(cls, model, X, classes: NDArray) -> "CalibrationRows":
        """What a fitted classifier says of X, in the order of the classes.

        From its distribution, or from its decision function where it has no probabilities.
        """
        # without X, which is transformed once
        inner, _ = resolve(model, None, "predict_dist")
        saved = isinstance(inner, PrecomputedClassifier) and not isinstance(X, Distribution)
        is_logits = saved and inner.response == "logits"
        has_proba = hasattr(inner, "predict_dist") or hasattr(inner, "predict_proba")
        if has_proba and not is_logits:
            return cls.of(predicted_dist(model, X, classes), X, model)
        inner, X_inner = resolve(model, X, "predict_dist")
        if is_logits:
            u = inner.predict_log_proba(X_inner)
        else:
            u = _of_decisions(inner, X_inner, len(classes))
        u = u[:, own_columns(inner, classes)]
        masked = np.isneginf(u)
        # at the least of the others, or at 1e-12, where zeros are clipped
        least = np.where(masked, np.log(EPS), u).min(axis=1, keepdims=True)
        return cls(np.where(masked, least, u), X=X, model=model)

    @classmethod
    def of(cls, distribution: Distribution, X=None, model=None) -> "CalibrationRows":
        """Of the mean of what is predicted."""
        return cls(log_proba(distribution.mean()), X=X, model=model, prediction=distribution)

    @classmethod
    def joined(cls, folds: list["CalibrationRows"], X, model) -> "CalibrationRows":
        """Predictions of several folds, one below the other, with their X and the model to keep."""
        u = np.concatenate([rows.log_proba for rows in folds])
        predictions = [rows.prediction for rows in folds if rows.prediction is not None]
        joined = Distribution.concatenate(predictions) if predictions else None
        return cls(u, X=X, model=model, prediction=joined)

    def labelled(self, labels: Labels, weight: NDArray | None) -> "CalibrationRows":
        """With labels in the order of the columns."""
        counts = labels.counts.astype(float)
        weight = np.ones(len(counts)) if weight is None else weight
        names = labels.classes
        return replace(
            self, counts=counts, weight=weight, classes=names, known=labels.known, labels=labels
        )

    def mapped(self, distribution: Distribution, model) -> "CalibrationRows":
        """The same samples as a calibrator around the model predicts them."""
        u = log_proba(distribution.mean())
        return replace(self, log_proba=u, prediction=distribution, model=model)

    def unclipped(self) -> "CalibrationRows":
        """The same samples with the logarithms of all probabilities above 0, however small."""
        if self.proba is None or self.proba.min() >= EPS:
            return self
        return replace(self, log_proba=log_proba(self.proba, _TINY))

    def of_members(self) -> "CalibrationRows":
        """The same samples with the log-probabilities of each member, where there are members."""
        if not isinstance(self.prediction, Mixture):
            return self
        # The one place where the axis of members is moved: samples come first from here on.
        u = np.moveaxis(log_proba(self.prediction.member_means()), 0, 1)
        log_w = np.log(np.maximum(self.prediction.weights, _TINY)).T
        members = np.ascontiguousarray(u), np.ascontiguousarray(log_w)
        return replace(self, log_proba=members[0], log_weights=members[1])

    def take(self, index) -> "CalibrationRows":
        """Some of the samples."""
        index = np.arange(len(self))[index]
        per_row = {f.name for f in fields(self)} - {"model", "classes", "known"}
        taken = {name: take_rows(getattr(self, name), index) for name in per_row}
        return replace(self, **taken)

    def dealt(self, n_folds: int, at_random: bool = False) -> list[Split]:
        """Folds that are alike in labels and in predictions, or random ones.

        Neither depends on the order of the samples. They are sorted by their majority label and the
        log-probability of it, and dealt to the folds in turn. Or they are sorted by the mean
        log-probability of their labels, and dealt in a fixed random order. What is fitted on the
        other folds knows the label frequencies of a fold that is alike, so its loss there is as low
        as on its own samples; at random it is that of new ones.

        Ties are sorted by all else that the samples hold, so samples that still tie are the same.
        Folds are no more than the samples of the most frequent label; alike folds all hold it.
        """
        vote = self.counts.argmax(axis=1)
        n_folds = min(n_folds, int(np.bincount(vote).max()))
        own = self.log_proba[np.arange(len(self)), vote]
        # at random whatever the order of the classes
        keys = [row_sum(self.frequencies * self.log_proba)] if at_random else [own, vote]
        parts = [self.weight[:, None], self.counts, self.log_proba]
        order = np.lexsort([*np.concatenate(parts, axis=1).T, *keys])
        rng = np.random.default_rng(0)
        turn = rng.permutation(len(self)) if at_random else np.arange(len(self))
        fold = np.empty(len(self), dtype=np.intp)
        fold[order] = turn % n_folds
        return [(np.flatnonzero(fold != j), np.flatnonzero(fold == j)) for j in range(n_folds)]

    def __len__(self) -> int:
        return len(self.log_proba)

    @property
    def n_classes(self) -> int:
        """K."""
        return self.log_proba.shape[-1]

    @property
    def whole(self) -> Distribution:
        """What is predicted, as a distribution; logits are those of a point mass."""
        if self.prediction is None:
            return PointMass.of_checked(np.exp(self.log_proba))
        return self.prediction

    @cached_property
    def proba(self) -> Floats | None:
        """Probabilities before they were clipped, shape (n, K); None for logits."""
        return None if self.prediction is None else self.prediction.mean()

    @property
    def is_ensemble(self) -> bool:
        """Whether there are members."""
        return self.log_weights is not None

    @cached_property
    def label_shares(self) -> Floats:
        """Counts times sample weights, with sum 1, shape (n, K)."""
        share = self.weight / (self.weight @ row_sum(self.counts))
        return self.counts * share[:, None]

    @cached_property
    def label_pairs(self) -> tuple[NDArray, NDArray, Floats]:
        """Samples, classes and shares of the labels, (L,) each, in the order of the samples."""
        i, k = np.nonzero(self.label_shares)
        return i, k, self.label_shares[i, k]

    @cached_property
    def frequencies(self) -> Floats:
        """μ̂, shape (n, K)."""
        return self.counts / row_sum(self.counts)[:, None]

    def moved(self, log_z: Floats) -> Distribution:
        """The prediction with its mean at these probabilities: a point, or its members moved."""
        z = softmax(log_z)
        if isinstance(self.prediction, Mixture):
            return self.prediction.with_mean(z)
        return PointMass.of_checked(z)


class FoldModels(DistributionClassifierMixin, BaseEstimator):
    """Classifiers that each were fitted without a fold, which predict their mean."""

    def __init__(self, models: list, classes: NDArray) -> None:
        self.models = models
        self.classes = classes
        self.classes_ = classes
        take_feature_names(self, models[0])

    def predict_dist(self, X: Samples) -> Distribution:
        """The mean of probabilities, or all members of all ensembles."""
        return Mixture.mean_of([rows.whole for rows in self.predicted(X)])

    def predicted(self, X: Samples) -> list[CalibrationRows]:
        """What each says of X."""
        return [CalibrationRows.predicted(model, X, self.classes_) for model in self.models]


def _of_decisions(model, X, K: int) -> Floats:
    """The decision function as log-probabilities, shape (n, K)."""
    u = np.asarray(model.decision_function(X), dtype=float)
    if u.ndim == 1:
        u = np.column_stack([np.zeros_like(u), u])
    shape = getattr(model, "decision_function_shape", "ovr")
    if u.shape[1] != K or (shape == "ovo" and K > 2):
        raise ValueError(
            f"The decision function of {type(model).__name__} has {u.shape[1]} columns, not "
            f'one for each of {K} classes. Of an SVM set decision_function_shape="ovr".'
        )
    return log_softmax(u, axis=-1)
