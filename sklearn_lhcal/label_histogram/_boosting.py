"""Gradient boosting on label histograms: every row once, by a multinomial objective.

With the counts c of a row, n their sum, margins f and p = softmax(f), the loss of a row is

    -sum_k c_k log p_k,    gradient  n p_k - c_k,    curvature  s n p_k (1 - p_k),

where s is what the library multiplies the curvature of its own objective by. The first margins are
the logarithms of the class frequencies. Two classes have one margin, that of the second.
"""

import sys
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import validate_data

from .._ground.arrays import Floats
from ._labels import read_labels


class MultinomialObjective:
    """Gradient and curvature of the loss, as both libraries ask for them."""

    def __init__(self, counts: Floats, scale: float) -> None:
        self.counts: Any = counts
        self.scale = scale

    def __call__(self, y_true: Any, margins: NDArray) -> tuple[NDArray, NDArray]:
        c = self.counts
        n = c.sum(axis=1, keepdims=True)
        p = class_shares(margins.reshape(len(c), -1))
        gradient = n * p - c
        curvature = self.scale * n * p * (1 - p)
        # a curvature of 0 would divide by 0 in leaves whose rows are all certain
        curvature = np.maximum(curvature, 1e-16)
        first = int(c.shape[1] == 2)
        return (
            gradient[:, first:].reshape(margins.shape),
            curvature[:, first:].reshape(margins.shape),
        )


def class_shares(margins: NDArray) -> Floats:
    """Probabilities of the margins; the first of two classes has the margin 0."""
    margins = margins.astype(np.float64)
    if margins.shape[1] == 1:
        margins = np.hstack([np.zeros_like(margins), margins])
    return softmax(margins, axis=1)


class BoostedTrees(ClassifierMixin, BaseEstimator):
    """What `LabelHistogramClassifier` puts around a classifier of LightGBM or of XGBoost."""

    accepts_label_histograms = True

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X, y, sample_weight=None, **fit_params) -> Self:
        """Train on counts; a class without labels gets no margin."""
        if any(name.startswith("eval_") for name in fit_params):
            raise ValueError(
                "eval_set is not taken with label histograms: choose n_estimators by GridSearchCV "
                "around LabelHistogramClassifier."
            )
        labels = read_labels(y).for_fit()
        counts = labels.counts.astype(np.float64)
        if sample_weight is not None:
            counts *= sample_weight[:, None]
        seen = counts.any(axis=0)
        if seen.sum() < 2:
            raise ValueError("y has labels of one class only; boosting needs two classes or more.")
        counts = counts[:, seen]
        validate_data(self, X, skip_check_array=True)
        prior = np.log(counts.sum(axis=0) / counts.sum())
        if len(prior) == 2:
            prior = prior[1:] - prior[:1]
        objective = MultinomialObjective(counts, self._curvature_scale(counts.shape[1]))
        model = self._train(X, objective, np.tile(prior, (len(counts), 1)), fit_params)
        # the objective stays with the model, its labels do not
        objective.counts = None
        self.model_ = model
        self.prior_ = prior
        self.classes_ = labels.classes[seen]
        return self

    def predict_proba(self, X) -> Floats:
        """Class probabilities, one column a class that had labels."""
        validate_data(self, X, skip_check_array=True, reset=False)
        return class_shares(self._margins(X))

    def _regressor(self, library: str, regressor: str, K: int, **params: Any):
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
        if K == 2:
            return 1.0
        return K / (K - 1)

    def _train(self, X, objective: MultinomialObjective, first: Floats, fit_params: dict):
        # its default metric does not go with another objective
        model = self._regressor(
            "lightgbm", "LGBMRegressor", first.shape[1], objective=objective, metric="None"
        )
        return model.fit(X, np.zeros(len(first)), init_score=_column(first), **fit_params)

    def _margins(self, X) -> NDArray:
        # not by the model: LightGBM before 4.7 warns of names that it gave itself
        threads = self.model_.n_jobs or 0
        margins = self.model_.booster_.predict(X, raw_score=True, num_threads=threads)
        return margins.reshape(len(margins), -1) + self.prior_


class BoostedByXGBoost(BoostedTrees):
    """Around ``xgboost.XGBClassifier``."""

    def _curvature_scale(self, K: int) -> float:
        if K == 2:
            return 1.0
        return 2.0

    def _train(self, X, objective: MultinomialObjective, first: Floats, fit_params: dict):
        model = self._regressor("xgboost", "XGBRegressor", first.shape[1], objective=objective)
        return model.fit(X, np.zeros(len(first)), base_margin=_column(first), **fit_params)

    def _margins(self, X) -> NDArray:
        first = np.tile(self.prior_, (X.shape[0], 1))
        margins = self.model_.predict(X, output_margin=True, base_margin=_column(first))
        return margins.reshape(X.shape[0], -1)


def _column(margins: Floats) -> Floats:
    """A single margin a row as a 1-D array."""
    if margins.shape[1] == 1:
        return margins[:, 0]
    return margins


def boosted(estimator):
    """The estimator, wrapped where it is a booster that would need rows repeated."""
    for library, classifier, wrapper in (
        ("lightgbm", "LGBMClassifier", BoostedByLightGBM),
        ("xgboost", "XGBClassifier", BoostedByXGBoost),
    ):
        # an instance of the class means that its library is imported
        module = sys.modules.get(library)
        if module is not None and isinstance(estimator, getattr(module, classifier)):
            return wrapper(estimator)
    return estimator
