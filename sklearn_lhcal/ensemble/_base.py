"""What classifiers that ask many times share: fit, and the ensemble of the answers."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted

from .._rows import DistributionClassifierMixin, read_labels, weight_of
from .._utils.arrays import Floats
from .._utils.checks import check_samples, checked
from .._utils.estimators import atomic, class_order, fit_on_labels, own_columns, take_feature_names
from .._utils.types import LabelsLike, Samples, Seed, Weights
from ..distributions import Ensemble


class EnsembleClassifier(
    DistributionClassifierMixin, ClassifierMixin, MetaEstimatorMixin, BaseEstimator
):
    """What they share: everything but how members are fitted and asked."""

    accepts_label_histograms = True

    n_samples: int

    @checked
    def sample_proba(
        self, X: Samples, n_samples: int | None = None, random_state: Seed = None
    ) -> Floats:
        """Class probabilities of `n_samples` draws of a member, shape (n_samples, n, K).

        With `n_samples` of None they are the draws of `predict_dist`.
        """
        check_is_fitted(self, "seed_")
        n = self.n_samples if n_samples is None else n_samples
        return np.stack(self._draws(X, n, self._rng(random_state)))

    def _draws(self, X, n: int, rng) -> list[Floats]:
        """Class probabilities of n draws, each (n_samples, n_classes)."""
        raise NotImplementedError

    @atomic
    def fit(
        self, X: Samples, y: LabelsLike, sample_weight: Weights = None, **fit_params: Any
    ) -> Self:
        """Fit the estimator; a fit that fails or is interrupted leaves it as it was.

        Parameters
        ----------
        X : anything that holds n_samples samples
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes.
        sample_weight : array-like of shape (n_samples,), optional
        **fit_params
            Goes to the estimator's fit.

        Returns
        -------
        self
        """
        X = check_samples(X)
        if isinstance(self.estimator, FrozenEstimator):
            check_is_fitted(self.estimator)
        labels = read_labels(y).for_fit(class_order(self.estimator, X))
        weight = weight_of(labels, X, y, sample_weight)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        fitted = self._fit(X, labels, weight, seed, fit_params)
        self.__dict__.update(fitted, classes_=labels.classes, seed_=seed)
        take_feature_names(self, self._member())
        return self

    def _member(self):
        """A fitted estimator, which knows the features."""
        return self.estimator_

    def _fit(self, X, labels, weight, seed, fit_params) -> dict:
        """The attributes that hold what was fitted."""
        model = clone(self.estimator)
        return {"estimator_": fit_on_labels(model, X, labels, weight, **fit_params)}

    def predict_dist(self, X: Samples) -> Ensemble:
        """An `Ensemble` of the members' class probabilities, the same at every call."""
        check_is_fitted(self, "seed_")
        return Ensemble(self.sample_proba(X)).with_classes(self.classes_)

    def _proba(self, estimator, X) -> Floats:
        """Class probabilities of a fitted estimator, columns in the order of `classes_`."""
        proba = estimator.predict_proba(check_samples(X))
        return proba[:, own_columns(estimator, self.classes_)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    def _rng(self, random_state):
        return check_random_state(self.seed_ if random_state is None else random_state)
