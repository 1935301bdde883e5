"""The base of all calibrators: a classifier, with one loop over the data for a whole chain."""

import warnings
from abc import abstractmethod
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted, has_fit_parameter
from tqdm.auto import tqdm

from .._ground.arrays import Floats
from .._ground.checks import (
    check_same_length,
    check_sample_weight,
    check_samples,
    take_params,
    take_rows,
)
from .._ground.devices import on_cpu, recorded
from .._ground.estimators import (
    atomic,
    class_order,
    default_classifier,
    fit_on_labels,
    fit_router,
    take_feature_names,
    takes_label_histograms,
    weight_params,
)
from .._ground.names import check_row_names
from .._ground.problems import Problem, Solver
from .._ground.simplex import log
from .._ground.threads import one_blas_thread
from .._ground.types import Calibrated, Folds, LabelsLike, Samples, Seed
from .._rows import DistributionClassifierMixin
from ..distributions import Distribution
from ..label_histogram._labels import Labels, read_labels
from ..model_selection import StratifiedVotesKFold, check_cv
from ._precomputed import PrecomputedClassifier
from ._rows import CalibrationRows


class _BaseCalibrator(
    DistributionClassifierMixin, ClassifierMixin, MetaEstimatorMixin, BaseEstimator
):
    """A classifier that wraps a classifier and maps its class probabilities, row by row.

    Subclasses fill two methods, `_fit_map` and `_map`. A chain of calibrators makes one loop around
    the innermost classifier, with the `cv` of the outermost calibrator that sets one. Its maps are
    then fitted in order, on the same rows.
    """

    accepts_label_histograms = True

    def __init__(
        self,
        estimator: Calibrated = None,
        *,
        cv: Folds | Literal["holdout"] = None,
        random_state: Seed = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.cv = cv
        self.random_state = random_state
        self.verbose = verbose

    @abstractmethod
    def _fit_map(self, rows: CalibrationRows) -> dict:
        """What the map learns from labelled rows, by name of attribute; nothing is set here."""

    @abstractmethod
    def _map(self, rows: CalibrationRows) -> Distribution:
        """The distribution of each row; of an ensemble's rows a mixture."""

    def _check(self, one_model: bool) -> None:
        """Refuse wrong parameters before anything is computed.

        `one_model` says whether all calibration rows are predicted by one model: folds give
        several.
        """

    @atomic
    def fit(
        self, X: Samples, y: LabelsLike, sample_weight: ArrayLike | None = None, **fit_params: Any
    ) -> Self:
        """Fit the classifier and the map, all or nothing.

        Parameters
        ----------
        X : array-like, frame, list or anything that has a length and whose rows can be indexed
            What the innermost classifier takes.
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes. The columns of frames are sorted by name.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows, for the map, and for the classifier where it takes them.
        **fit_params
            `groups` goes to the splitter. The rest goes to the classifier's fit, row by row where
            it has one entry a row. With scikit-learn's metadata routing switched on, each of the
            two gets what it requests. A search around a calibrator hands `groups` on only then, see
            `StratifiedVotesKFold`.

        Returns
        -------
        self
        """
        X = check_samples(X)
        calibrators, base = _chain(self)
        check_row_names(y=y, sample_weight=sample_weight, groups=fit_params.get("groups"))
        labels, fitted = read_for_fit(base, X, y, set(fit_params) - {"groups"})
        weight = check_sample_weight(sample_weight, len(labels))
        for calibrator in calibrators:
            calibrator._check(one_model=fitted or isinstance(_cv(calibrators), str))
        classes = labels.classes
        if fitted:
            rows = CalibrationRows.predicted(base, X, classes)
        else:
            loop = _Loop(self, calibrators, fit_params)
            base, index, rows = loop.run(base, X, labels, weight)
            rows = replace(rows, X=take_rows(X, index), model=base)
            labels = labels.take(index)
            weight = take_rows(weight, index)
        rows = rows.labelled(labels, weight)
        for calibrator in reversed(calibrators):
            with one_blas_thread(), recorded(), on_cpu():
                learnt = calibrator._fit_map(rows)
            calibrator._keep(base, classes, learnt)
            if calibrator is not self:
                rows = rows.mapped(calibrator._map(rows), calibrator)
                base = calibrator
        return self

    def _keep(self, base, classes, learnt: dict) -> None:
        """Set what was learnt, and remove what an earlier fit has learnt."""
        for name in vars(self).get("_learnt", ()):
            self.__dict__.pop(name, None)
        self.estimator_ = base
        self.classes_ = classes
        take_feature_names(self, base)
        self._learnt = tuple(learnt)
        self.__dict__.update(learnt)

    def predict_dist(self, X: Samples) -> Distribution:
        """Predictive distribution over class probabilities, a batch of n_samples rows."""
        check_is_fitted(self, "estimator_")
        X = check_samples(X)
        rows = CalibrationRows.predicted(self.estimator_, X, self.classes_)
        return self._map(rows).with_classes(self.classes_)

    def predict_log_proba(self, X: Samples) -> Floats:
        """Logarithm of `predict_proba`, shape (n_samples, n_classes)."""
        return log(self.predict_proba(X))

    def decision_function(self, X: Samples) -> Floats:
        """Calibrated logits, shape (n_samples, n_classes).

        Of two classes the log-odds of the second, shape (n_samples,).
        """
        u = self.predict_log_proba(X)
        return u[:, 1] - u[:, 0] if u.shape[1] == 2 else u

    def _class_order(self, X):
        return class_order(_chain(self, cloned=False)[1], X)

    def get_metadata_routing(self) -> MetadataRouter:
        """What `fit` passes on: to the innermost classifier's fit, and to the splitter."""
        calibrators, base = _chain(self, cloned=False)
        router = fit_router(self, base)
        cv = _cv(calibrators)
        # what an int and "holdout" stand for
        if isinstance(cv, (int, np.integer, str)):
            cv = StratifiedVotesKFold()
        if hasattr(cv, "split"):
            to_split = MethodMapping().add(caller="fit", callee="split")
            router.add(splitter=cv, method_mapping=to_split)
        return router

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(_chain(self, cloned=False)[1]).input_tags
        return tags


class _TrainedCalibrator(_BaseCalibrator):
    """A calibrator whose map is a problem that a solver of the user's solves."""

    def __init__(
        self,
        estimator: Calibrated = None,
        *,
        cv: Folds | Literal["holdout"] = None,
        solver: Solver | None = None,
        random_state: Seed = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(estimator, cv=cv, random_state=random_state, verbose=verbose)
        self.solver = solver

    def _check(self, one_model):
        if not isinstance(self.solver, Solver | None):
            raise ValueError(
                f"solver must be None, Newton(), LBFGS() or Adam(), got {self.solver!r}."
            )

    def _solve(self, problem: Problem, default: Solver):
        """The optimum of a problem, by the user's solver if there is one, else by the default."""
        solver = default if self.solver is None else self.solver
        return solver.solve(problem, random_state=self.random_state, verbose=self.verbose)


class _Loop:
    """Out-of-fold predictions of the innermost classifier, and the classifier to keep."""

    def __init__(self, owner, calibrators, fit_params):
        self.owner = owner
        self.cv = _cv(calibrators)
        self.fit_params = dict(fit_params)
        self.split_params = {}

    def run(self, base, X, labels, weight):
        """The classifier to keep, the rows that were predicted, their predictions."""
        self._route(base, weight)
        splits = self._splits(X, labels.majority)
        if isinstance(self.cv, str):
            train, test = splits[0]
            where = "the 80 % it was fitted on"
            model = self._fit(clone(base), X, labels, weight, train, where)
            return model, test, self._predicted(model, X, test, labels)
        rows, predicted = [], []
        bar = tqdm(splits, desc="folds", disable=not self.owner.verbose)
        for i, (train, test) in enumerate(bar):
            model = self._fit(clone(base), X, labels, weight, train, f"training fold {i}")
            rows.append(test)
            predicted.append(self._predicted(model, X, test, labels))
        model = self._fit(base, X, labels, weight, np.arange(len(labels)), "y")
        return model, np.concatenate(rows), CalibrationRows.joined(predicted)

    def _predicted(self, model, X, rows, labels) -> CalibrationRows:
        return CalibrationRows.predicted(model, take_rows(X, rows), labels.classes)

    def _route(self, base, weight):
        """Decide what the splitter gets, what the classifier gets, and whether it gets weights."""
        self.weighted = weight is not None
        if get_config()["enable_metadata_routing"]:
            weights = weight_params(weight)
            routed = process_routing(self.owner, "fit", **weights, **self.fit_params)
            self.fit_params = dict(routed.estimator.fit)
            # "in" never ends where scikit-learn has nothing to route
            splitter = routed.get("splitter")
            self.split_params = {} if splitter is None else dict(splitter.split)
            self.weighted = self.fit_params.pop("sample_weight", None) is not None
        elif "groups" in self.fit_params:
            self.split_params = {"groups": self.fit_params.pop("groups")}
        if (
            self.weighted
            and not takes_label_histograms(base)
            and not has_fit_parameter(base, "sample_weight")
        ):
            warnings.warn(
                f"{type(base).__name__} takes no sample_weight in fit: the weights are used for "
                "the calibration only.",
                stacklevel=5,
            )
            self.weighted = False

    def _splits(self, X, votes):
        if not isinstance(self.cv, str):
            return self._split(self.cv, X, votes)
        if self.cv != "holdout":
            raise ValueError(
                f'cv must be an int, a splitter, a list of splits or "holdout", got {self.cv!r}.'
            )
        fifth = StratifiedVotesKFold(5, shuffle=True, random_state=self.owner.random_state)
        return self._split(fifth, X, votes)[:1]

    def _split(self, cv, X, votes):
        X = np.zeros((len(votes), 1)) if isinstance(X, dict) else X
        return list(check_cv(cv).split(X, votes, **self.split_params))

    def _fit(self, model, X, labels, weight, rows, where):
        part = labels.take(rows)
        part.check_all_seen(where)
        params = take_params(self.fit_params, rows, len(labels))
        w = weight[rows] if self.weighted else None
        return fit_on_labels(model, take_rows(X, rows), part, w, **params)


def _chain(calibrator, cloned: bool = True):
    """([the calibrator, the one that it wraps, …], the classifier), cloned but for the first."""
    calibrators, inner = [calibrator], calibrator.estimator
    while isinstance(inner, _BaseCalibrator):
        calibrators.append(clone(inner) if cloned else inner)
        inner = inner.estimator
    return calibrators, classifier_of(inner, cloned)


def read_for_fit(base, X, y, arguments) -> tuple[Labels, bool]:
    """The labels, in the order of a classifier's classes, and whether it is fitted already.

    Outputs that were saved are fitted here: y says what their columns are. `arguments` names those
    for the fit of the classifier.
    """
    given = read_labels(y)
    fitted = isinstance(base, (PrecomputedClassifier, FrozenEstimator))
    if isinstance(base, PrecomputedClassifier):
        check_row_names(y=y, X=X)
        base._read_columns(X, given)
    if fitted:
        check_is_fitted(base)
    if fitted and arguments:
        raise TypeError(
            f"fit() got {sorted(arguments)}, but the classifier is fitted already and takes no "
            "more arguments."
        )
    labels = given.for_fit(np.asarray(base.classes_) if fitted else class_order(base, X))
    check_same_length(len(labels), X=X)
    return labels, fitted


def classifier_of(estimator: Calibrated, cloned: bool = True):
    """The classifier that `estimator` stands for; cloned, so that the caller's stays as it is."""
    if estimator is None:
        return default_classifier()
    if isinstance(estimator, str):
        if estimator not in ("logits", "proba"):
            raise ValueError(
                f'estimator must be a classifier, "logits" or "proba", got {estimator!r}.'
            )
        response: Any = estimator
        return PrecomputedClassifier(response)
    if not hasattr(estimator, "fit") or not (
        hasattr(estimator, "predict_proba") or hasattr(estimator, "decision_function")
    ):
        raise ValueError(
            "estimator must be a classifier with predict_proba or decision_function, got "
            f"{type(estimator).__name__}; if it has them only once fitted, pass it as "
            "FrozenEstimator(fitted), or with its final estimator set."
        )
    return clone(estimator) if cloned else estimator


def _cv(calibrators):
    """The outermost calibrator's cv that is set; 5 folds by default."""
    return next((c.cv for c in calibrators if c.cv is not None), 5)
