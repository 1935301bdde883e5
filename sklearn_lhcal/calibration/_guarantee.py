"""The base of estimators with a promise: a classifier, and rows that it has not seen."""

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.model_selection import GroupShuffleSplit
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, process_routing
from sklearn.utils.validation import check_is_fitted

from .._ground.arrays import Floats, Indices, row_units
from .._ground.checks import (
    check_fraction,
    check_samples,
    take_params,
    take_rows,
)
from .._ground.estimators import (
    atomic,
    class_order,
    fit_on_labels,
    fit_router,
    resolve,
    take_feature_names,
)
from .._ground.names import check_row_names
from .._ground.types import Calibrated, LabelsLike, Samples, Seed
from .._rows import DistributionClassifierMixin, predicted_dist, read_groups
from ..distributions import Distribution
from ._base import classifier_of, read_for_fit


class HeldOut(NamedTuple):
    """Calibration rows, which the classifier has not seen.

    Attributes
    ----------
    z : ndarray of shape (n, K)
        What it predicts.
    mu : ndarray of shape (n, K)
        Votes as frequencies.
    units : ndarray of shape (n,)
        Number of the unit of each row: its group, else the row itself.
    X : anything with n rows
        What the classifier takes.
    """

    z: Floats
    mu: Floats
    units: Indices
    X: Samples


class _Guarantee(DistributionClassifierMixin, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A classifier with a promise, which is learnt on held-out rows; subclasses fill `_learn`."""

    accepts_label_histograms = True
    # with metadata routing, groups reach it inside a search by themselves
    __metadata_request__fit: ClassVar = {"groups": True}

    def __init__(
        self,
        estimator: Calibrated = None,
        *,
        calibration_size: float = 0.25,
        random_state: Seed = None,
    ) -> None:
        self.estimator = estimator
        self.calibration_size = calibration_size
        self.random_state = random_state

    @abstractmethod
    def _check(self, classes) -> Any:
        """Refuse wrong parameters before anything is fitted; returns what `_learn` needs of them.

        `classes` are those of the labels, in order.
        """

    @abstractmethod
    def _learn(self, rows: HeldOut, checked: Any) -> dict:
        """What is learnt from calibration rows, by name of attribute; nothing is set here."""

    @atomic
    def fit(
        self,
        X: Samples,
        y: LabelsLike,
        *,
        groups: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """Fit the classifier, and learn the promise on rows that it has not seen, all or nothing.

        Parameters
        ----------
        X : array-like, frame, list or anything that has a length and whose rows can be indexed
            What the classifier takes.
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes. One rater a row is enough. Rows count alike, however many
            raters they have.
        groups : array-like of shape (n_samples,), optional
            Rows of one group (one patient, say) may depend on each other. A group goes to one side
            of the split whole. The promise is for a row drawn from a new group, so that there must
            be many groups.
        **fit_params
            Passed to the classifier's fit, row by row where they have one entry a row. So is
            `sample_weight`, since the promise uses no weights. A classifier that is fitted already
            takes none.

        Returns
        -------
        self
        """
        X = check_samples(X)
        base = classifier_of(self.estimator)
        check_row_names(y=y, groups=groups, sample_weight=fit_params.get("sample_weight"))
        labels, fitted = read_for_fit(base, X, y, fit_params)
        n = len(labels)
        codes = read_groups(groups, n)
        checked = self._check(labels.classes)
        held_out = np.arange(n)
        if not fitted:
            train, held_out = self._split(n, codes)
            part = labels.take(train)
            part.check_all_seen("the rows that the classifier is fitted on", "another split")
            params = take_params(self._routed(fit_params), train, n)
            weight = params.pop("sample_weight", None)
            base = fit_on_labels(base, take_rows(X, train), part, weight, **params)
        X_held_out = take_rows(X, held_out)
        z = _predicted(base, X_held_out, labels.classes).mean()
        units = row_units(take_rows(codes, held_out), len(held_out))
        rows = HeldOut(z, labels.take(held_out).mu, units, X_held_out)
        learnt = self._learn(rows, checked)
        self.estimator_ = base
        self.classes_ = labels.classes
        self.n_calibration_ = int(units.max()) + 1
        take_feature_names(self, base)
        self.__dict__.update(learnt)
        return self

    def _split(self, n: int, codes) -> tuple[Indices, Indices]:
        """Rows to fit the classifier on, and to calibrate on: drawn at random, groups whole."""
        check_fraction(calibration_size=self.calibration_size)
        splitter = GroupShuffleSplit(
            1, test_size=self.calibration_size, random_state=self.random_state
        )
        return next(splitter.split(np.zeros(n), groups=row_units(codes, n)))

    def _routed(self, fit_params: dict) -> dict:
        if not get_config()["enable_metadata_routing"]:
            return fit_params
        return dict(process_routing(self, "fit", **fit_params).estimator.fit)

    def predict_dist(self, X: Samples) -> Distribution:
        """Predictive distribution of the classifier, a batch of n_samples rows."""
        check_is_fitted(self, "estimator_")
        X = check_samples(X)
        return _predicted(self.estimator_, X, self.classes_)

    def _class_order(self, X):
        return class_order(classifier_of(self.estimator, cloned=False), X)

    def get_metadata_routing(self) -> MetadataRouter:
        """What `fit` passes on: to the classifier's fit."""
        base = classifier_of(self.estimator, cloned=False)
        return fit_router(self, base)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = classifier_of(self.estimator, cloned=False)
        tags.input_tags = get_tags(inner).input_tags
        return tags


def _predicted(model, X: Samples, classes) -> Distribution:
    """What a fitted classifier predicts, in the order of the classes."""
    inner, _ = resolve(model, X, "predict_dist")
    if not hasattr(inner, "predict_dist") and not hasattr(inner, "predict_proba"):
        raise ValueError(
            f"{type(inner).__name__} predicts no probabilities; put TemperatureScaling around it."
        )
    return predicted_dist(model, X, classes)
