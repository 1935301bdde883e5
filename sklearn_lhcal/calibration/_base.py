"""The base of all calibrators: one loop over the data for a whole chain, in the grammar of a classifier."""

import warnings
from abc import abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted, has_fit_parameter
from tqdm.auto import tqdm

from .._ground.checks import check_same_length, check_sample_weight, take_params, take_rows
from .._ground.estimators import (
    class_order,
    default_classifier,
    fit_on_labels,
    own_classes,
    resolve,
    take_feature_names,
    takes_label_histograms,
)
from .._ground.names import check_row_names, positions
from .._ground.simplex import log_proba, log_softmax
from .._ground.threads import one_blas_thread
from .._rows import DistributionClassifierMixin
from ..distributions import Distribution, Mixture, predict_dist
from ..label_histogram._labels import read_labels
from ..model_selection import StratifiedVotesKFold, check_cv
from ._precomputed import PrecomputedClassifier


class Scores(NamedTuple):
    """What a map sees: log-probabilities (n, K), or (S, n, K) and log-weights (S, n) of the members of an ensemble.

    And the probabilities (n, K) of a point prediction before they were clipped, where that may have changed them.
    """

    logits: NDArray[np.float64]
    log_weights: NDArray[np.float64] | None = None
    proba: NDArray[np.float64] | None = None

    @classmethod
    def of(cls, distribution: Distribution) -> "Scores":
        """log(clip(z, 1e-12, 1)) of a point prediction, or of each member's mean."""
        if isinstance(distribution, Mixture):
            return cls(
                log_proba(distribution.member_means()),
                np.log(np.maximum(distribution.weights, 1e-300)),
            )
        return cls(log_proba(distribution.mean()), proba=distribution.mean())

    @classmethod
    def join(cls, folds: list["Scores"]) -> "Scores":
        """Scores of several folds, one below the other."""
        if len({s.logits.shape[:-2] for s in folds}) > 1:
            raise ValueError(
                "The ensembles fitted on different folds have different numbers of members."
            )
        weights = (
            None
            if folds[0].log_weights is None
            else np.concatenate([s.log_weights for s in folds], axis=-1)
        )
        return cls(np.concatenate([s.logits for s in folds], axis=-2), weights)


class _BaseCalibrator(
    DistributionClassifierMixin, ClassifierMixin, MetaEstimatorMixin, BaseEstimator
):
    """A classifier that wraps a classifier and maps its class probabilities, row by row.

    Subclasses fill `_fit_map` and `_map`. A chain of calibrators makes one loop around the innermost classifier, with
    the `cv` of the outermost calibrator that sets one; its maps are then fitted in order, on the same rows.
    """

    accepts_label_histograms = True

    def __init__(self, estimator=None, *, cv=None, solver=None, random_state=None, verbose=0):
        self.estimator = estimator
        self.cv = cv
        self.solver = solver
        self.random_state = random_state
        self.verbose = verbose

    @abstractmethod
    def _fit_map(self, logits, features, counts, weight, log_weights=None) -> None:
        """Fit the map on log-probabilities (n, K), or (S, n, K) with log-weights (S, n), features and counts."""

    @abstractmethod
    def _map(self, logits, features) -> Distribution:
        """The distribution of each row: a PointMass or a Dirichlet."""

    def _check_loop(self, one_model: bool) -> None:
        """Refuse what needs one model for all calibration rows where folds give several."""

    def _fit_features(self, X):
        """Features of the calibration rows, shape (n, n_features), after fitting what makes them; None: none."""
        return None

    def _features(self, X):
        """Features of any rows, shape (n, n_features); None: none."""
        return None

    def fit(self, X, y, sample_weight=None, **fit_params):
        """Fit the classifier and the map.

        Parameters
        ----------
        X : array-like, frame, list or anything that has a length and whose rows can be indexed
            What the innermost classifier takes.
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes. The columns of frames are sorted by name.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows, for the map, and for the classifier where it takes them.
        **fit_params
            `groups` for the splitter; the rest goes to the classifier's fit, row by row where it has one entry a row.
            (A search around a calibrator hands `groups` on only with metadata routing, see `StratifiedVotesKFold`.)
            With scikit-learn's metadata routing switched on, what the classifier and the splitter request.

        Returns
        -------
        self
        """
        (X,) = indexable(X)
        calibrators, base = _chain(self)
        if isinstance(base, PrecomputedClassifier):
            base.fit(X, y)
        fitted = isinstance(base, (PrecomputedClassifier, FrozenEstimator))
        if fitted:
            check_is_fitted(base)
            if unknown := sorted(set(fit_params) - {"groups"}):
                raise TypeError(
                    f"fit() got {unknown}, but the classifier is fitted already and takes no more arguments."
                )
        brought = np.asarray(base.classes_) if fitted else class_order(base, X)
        labels = read_labels(y).for_fit(brought)
        classes = labels.classes
        check_same_length(len(labels), X=X)
        check_row_names(y=y, sample_weight=sample_weight)
        if isinstance(base, PrecomputedClassifier):
            check_row_names(y=y, X=X)
        weight = check_sample_weight(sample_weight, len(labels))
        for calibrator in calibrators:
            calibrator._check_loop(one_model=fitted or isinstance(_cv(calibrators), str))
            solver = getattr(calibrator, "solver", None)
            if (
                solver is not None
                and not hasattr(solver, "minimize")
                and not hasattr(solver, "train")
            ):
                raise ValueError(
                    f"solver must be None, Newton(), LBFGS() or Adam(), got {solver!r}."
                )
        if fitted:
            scores = base_scores(base, X, classes)
        else:
            loop = _Loop(self, calibrators, fit_params)
            base, rows, scores = loop.run(base, X, labels, weight)
            X = take_rows(X, rows)
            labels = labels.take(rows)
            weight = None if weight is None else weight[rows]
        for calibrator in reversed(calibrators):
            calibrator.estimator_, calibrator.classes_ = base, classes
            take_feature_names(calibrator, base)
            features = calibrator._fit_features(X)
            with one_blas_thread():
                calibrator._fit_map(scores.logits, features, labels, weight, scores.log_weights)
            if calibrator is not self:
                base, scores = calibrator, Scores.of(calibrator._distribution(scores, features))
        return self

    def _distribution(self, scores: Scores, features) -> Distribution:
        """The map on a point prediction, or on each member of an ensemble."""
        u = scores.logits
        if u.ndim == 2:
            return self._map(u, features)
        tiled = None if features is None else np.tile(features, (len(u), 1))
        return Mixture.of(self._map(u.reshape(-1, u.shape[2]), tiled), scores.log_weights)

    def predict_dist(self, X) -> Distribution:
        """Predictive distribution over class probabilities, a batch of n_samples rows."""
        check_is_fitted(self, "estimator_")
        (X,) = indexable(X)
        scores = base_scores(self.estimator_, X, self.classes_)
        return self._distribution(scores, self._features(X)).with_classes(self.classes_)

    def predict_log_proba(self, X):
        """Logarithm of `predict_proba`, shape (n_samples, n_classes)."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def decision_function(self, X):
        """Calibrated logits: log-odds of the second of two classes, shape (n_samples,), else (n_samples, n_classes)."""
        u = self.predict_log_proba(X)
        return u[:, 1] - u[:, 0] if u.shape[1] == 2 else u

    def _class_order(self, X):
        return class_order(_chain(self, cloned=False)[1], X)

    def get_metadata_routing(self):
        """What `fit` passes on: to the innermost classifier's fit, and to the splitter."""
        calibrators, base = _chain(self, cloned=False)
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        router = (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(estimator=base, method_mapping=to_fit)
        )
        cv = _cv(calibrators)
        cv = (
            StratifiedVotesKFold() if isinstance(cv, (int, np.integer, str)) else cv
        )  # what these stand for
        if hasattr(cv, "split"):
            router.add(
                splitter=cv, method_mapping=MethodMapping().add(caller="fit", callee="split")
            )
        return router

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(_chain(self, cloned=False)[1]).input_tags
        return tags


class _Loop:
    """Out-of-fold scores of the innermost classifier, and the classifier to keep."""

    def __init__(self, owner, calibrators, fit_params):
        self.owner, self.cv = owner, _cv(calibrators)
        self.fit_params, self.split_params = dict(fit_params), {}

    def run(self, base, X, labels, weight):
        """(classifier to keep, the rows that were scored, their scores)."""
        self._route(base, weight)
        splits = self._splits(X, labels.majority)
        if isinstance(self.cv, str):
            train, test = splits[0]
            model = self._fit(clone(base), X, labels, weight, train, "the 80 % it was fitted on")
            return model, test, base_scores(model, take_rows(X, test), labels.classes)
        rows, scores = [], []
        for i, (train, test) in enumerate(
            tqdm(splits, desc="folds", disable=not self.owner.verbose)
        ):
            model = self._fit(clone(base), X, labels, weight, train, f"training fold {i}")
            rows.append(test)
            scores.append(base_scores(model, take_rows(X, test), labels.classes))
        model = self._fit(base, X, labels, weight, np.arange(len(labels)), "y")
        return model, np.concatenate(rows), Scores.join(scores)

    def _route(self, base, weight):
        """Sort the fit parameters out: the splitter's, the classifier's, and whether the latter sees the weights."""
        self.weighted = weight is not None
        if get_config()["enable_metadata_routing"]:
            weights = {} if weight is None else {"sample_weight": weight}
            routed = process_routing(self.owner, "fit", **weights, **self.fit_params)
            self.fit_params = dict(routed.estimator.fit)
            self.split_params = dict(routed.splitter.split) if "splitter" in routed else {}
            self.weighted = self.fit_params.pop("sample_weight", None) is not None
        elif "groups" in self.fit_params:
            self.split_params = {"groups": self.fit_params.pop("groups")}
        if (
            self.weighted
            and not takes_label_histograms(base)
            and not has_fit_parameter(base, "sample_weight")
        ):
            warnings.warn(
                f"{type(base).__name__} takes no sample_weight in fit: the weights are used for the calibration only.",
                stacklevel=4,
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
    """([the calibrator, the one that it wraps, …], the innermost classifier), all but the first cloned."""
    calibrators, inner = [calibrator], calibrator.estimator
    while isinstance(inner, _BaseCalibrator):
        calibrators.append(clone(inner) if cloned else inner)
        inner = inner.estimator
    if inner is None:
        return calibrators, default_classifier()
    if isinstance(inner, str):
        if inner not in ("logits", "proba"):
            raise ValueError(f'estimator must be a classifier, "logits" or "proba", got {inner!r}.')
        return calibrators, PrecomputedClassifier(inner)
    if not hasattr(inner, "fit") or not (
        hasattr(inner, "predict_proba") or hasattr(inner, "decision_function")
    ):
        raise ValueError(
            f"estimator must be a classifier with predict_proba or decision_function, got {type(inner).__name__}; one "
            "that has them only once fitted goes in as FrozenEstimator(fitted), or with its final estimator set."
        )
    return calibrators, clone(inner) if cloned else inner


def _cv(calibrators):
    """The outermost calibrator's cv that is set; 5 folds by default."""
    return next((c.cv for c in calibrators if c.cv is not None), 5)


def base_scores(estimator, X, classes: NDArray) -> Scores:
    """Scores of a fitted classifier, columns in the order of `classes`.

    From its distribution, or its decision function where it has no probabilities.
    """
    inner, seen = resolve(estimator, X, "predict_dist")
    if isinstance(inner, PrecomputedClassifier) and inner.response == "logits":
        return Scores(inner.predict_log_proba(seen))
    if hasattr(inner, "predict_dist") or hasattr(inner, "predict_proba"):
        distribution = predict_dist(estimator, X)
        own = own_classes(estimator, classes)
        return Scores.of(distribution.with_classes(own).in_order(classes))
    u = np.asarray(inner.decision_function(seen), dtype=np.float64)
    if u.ndim == 1:
        u = np.column_stack([np.zeros_like(u), u])
    return Scores(log_softmax(u)[:, positions(classes, own_classes(inner, classes))])
