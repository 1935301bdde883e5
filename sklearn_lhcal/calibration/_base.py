"""The bases of all that wraps a classifier, and of calibrators: one loop for a whole chain."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY
from functools import cache
from threading import Lock
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from scipy.special import logsumexp
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted, has_fit_parameter
from threadpoolctl import ThreadpoolController

from .._rows import DistributionClassifierMixin, Labels, parameters, predicted_dist, read_labels
from .._utils.checks import (
    check_params,
    check_same_length,
    check_sample_weight,
    check_samples,
    take_params,
    take_rows,
    warn,
)
from .._utils.devices import on_cpu, recorded
from .._utils.estimators import (
    atomic,
    class_order,
    default_classifier,
    fit_on_labels,
    take_feature_names,
    takes_label_histograms,
    weight_params,
)
from .._utils.names import check_row_names
from .._utils.progress import Progress
from .._utils.simplex import log
from .._utils.types import Estimator, Floats, Folds, LabelsLike, Samples, Seed, Verbose, Weights
from .._utils.version import __version__
from ..distributions import Distribution, Mixture
from ..model_selection import StratifiedVotesKFold, check_cv
from ._precomputed import PrecomputedClassifier
from ._rows import CalibrationRows, FoldModels

# what a calibrator calibrates; None is a logistic regression
Calibrated = Estimator | Literal["logits", "proba"] | None
# how folds are made; a holdout is one of them
Cv = Folds | Literal["holdout"]

_limited = Lock()


@cache
def _libraries() -> ThreadpoolController:
    # once, for it looks at all loaded libraries
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """A context for products of small blocks, which wait for the threads of BLAS longer than they
    would take alone.

    This is the one exception to the rule that no global state is changed. BLAS knows no limit for a
    single Python thread: the limit holds for the whole process, until the first that set it leaves.
    It stays: matrix scaling of many rows is several times slower without the limit, and its sums
    would depend on the number of threads.
    """
    if not _limited.acquire(blocking=False):
        yield
        return
    try:
        with _libraries().limit(limits=1, user_api="blas"):
            yield
    finally:
        _limited.release()


class TrainingRows(NamedTuple):
    """What classifiers are fitted on: samples, labels, weights or None, all else that fit takes."""

    X: Samples
    labels: Labels
    weight: Floats | None
    params: dict

    def fit(self, model, rows, where: str, remedy: str = "fewer folds or stratified ones"):
        """The model, fitted in place on some samples, among which all classes must be."""
        part = self.labels.take(rows)
        part.check_all_seen(where, remedy)
        params = take_params(self.params, rows, len(self.labels))
        weight = take_rows(self.weight, rows)
        return fit_on_labels(model, take_rows(self.X, rows), part, weight, **params)


class _Wrapper(DistributionClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A classifier around a classifier: what it hands on, what its tags are, what a fit leaves.

    `_wrapped` names the classifier inside, before a fit; `estimator_` is it after one.
    """

    accepts_label_histograms = True

    def __getstate__(self):
        return super().__getstate__() | {"_saved_by": __version__}

    def __setstate__(self, state):
        saved_by = state.get("_saved_by", "an older version")
        if saved_by != __version__:
            warn(
                f"{type(self).__name__} was saved by sklearn_lhcal {saved_by} and is loaded by "
                f"{__version__}: its predictions may differ, or fail. Fit it again."
            )
        super().__setstate__({k: v for k, v in state.items() if k != "_saved_by"})

    def _wrapped(self):
        """The classifier that `fit` fits a clone of."""
        return classifier_of(self.estimator, cloned=False)

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
        """Predictive distribution of the classifier, a batch of n_samples samples."""
        check_is_fitted(self, "estimator_")
        return predicted_dist(self.estimator_, X, self.classes_)

    def _class_order(self, X, y=None):
        return class_order(self._wrapped(), X, y)

    def _routed(self, fit_params: dict, weight: Floats | None = None) -> tuple[dict, dict]:
        """What the classifier's fit gets, and the splitter; with metadata routing as requested."""
        params = weight_params(weight) | fit_params
        if not get_config()["enable_metadata_routing"]:
            return params, {}
        routed = process_routing(self, "fit", **params)
        to_split = {}
        # "in" never ends where scikit-learn has nothing to route
        splitter = routed.get("splitter")
        if splitter is not None:
            to_split = dict(splitter.split)
        return dict(routed.estimator.fit), to_split

    def get_metadata_routing(self) -> MetadataRouter:
        """What `fit` passes on: to the classifier's fit."""
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=self).add_self_request(self)
        return router.add(estimator=self._wrapped(), method_mapping=to_fit)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self._wrapped()).input_tags
        return tags


@parameters
class _BaseCalibrator(_Wrapper):
    """A classifier that wraps a classifier and transforms its probabilities, sample by sample.

    Subclasses fill two methods, `_fit_map` and `_map`. A chain of calibrators makes one loop around
    the innermost classifier, with the `cv` of the outermost calibrator that sets one, and an
    `ensemble` if any asks for it. Their transforms are then fitted in order, on the same samples.
    """

    estimator: Calibrated = None
    _: KW_ONLY
    cv: Cv = None
    ensemble: bool = False
    random_state: Seed = None
    verbose: Verbose = 0

    # makes what stands in the place of None
    _default: ClassVar[Callable] = staticmethod(default_classifier)

    def _inside(self):
        """What is calibrated: a classifier, another calibrator or what stands for one."""
        return self._default() if self.estimator is None else self.estimator

    def _wrapped(self):
        return _chain(self, cloned=False)[1]

    @abstractmethod
    def _fit_map(self, rows: CalibrationRows) -> dict:
        """What is learnt from labelled samples, by name of attribute; nothing is set here."""

    @abstractmethod
    def _map(self, rows: CalibrationRows) -> Distribution:
        """The distribution of each sample; of an ensemble's samples a mixture."""

    def _check(self, one_model: bool) -> None:
        """Refuse wrong parameters before anything is computed.

        `one_model` says whether all calibration samples are predicted by one model: folds give
        several.
        """

    def _check_data(self, X: Samples, labels: Labels) -> None:
        """Refuse data that the method is not for, before anything is computed."""

    @atomic
    def fit(
        self, X: Samples, y: LabelsLike, sample_weight: Weights = None, **fit_params: Any
    ) -> Self:
        """Fit the classifier and the calibration method, all or nothing.

        Parameters
        ----------
        X : array-like, frame, list or anything that has a length and whose rows can be indexed
            What the innermost classifier takes.
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes. The columns of frames are sorted by name.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples, for the calibration, and for the classifier where it takes them.
        **fit_params
            `groups` goes to the splitter. The rest goes to the classifier's fit, sample by sample
            where it has one entry per sample. With scikit-learn's metadata routing switched on,
            each of the two gets what it requests. A search around a calibrator hands `groups` on
            only then, see `StratifiedVotesKFold`.

        Returns
        -------
        self
        """
        X = check_samples(X)
        calibrators, base = _chain(self)
        check_row_names(X=X, y=y, sample_weight=sample_weight, groups=fit_params.get("groups"))
        labels, fitted = read_for_fit(base, X, y, set(fit_params) - {"groups"})
        weight = check_sample_weight(sample_weight, len(labels))
        one_model = fitted or isinstance(_cv(calibrators), str)
        if one_model and any(calibrator.ensemble for calibrator in calibrators):
            raise ValueError(
                "ensemble=True is the mean of one model a fold: it needs a classifier that is not "
                'fitted yet, and cv other than "holdout".'
            )
        for calibrator in calibrators:
            check_params(calibrator)
            calibrator._check(one_model=one_model)
            calibrator._check_data(X, labels)
        classes = labels.classes
        if fitted:
            rows = CalibrationRows.predicted(base, X, classes).labelled(labels, weight)
        else:
            if getattr(self._wrapped(), "initialized_", False):
                warn(
                    "The network is trained already, and will be trained again, once a fold; "
                    "FrozenEstimator(network) stays as it is."
                )
            base, rows = self._out_of_fold(base, X, labels, weight, fit_params)
        for calibrator in reversed(calibrators):
            with one_blas_thread(), recorded(), on_cpu(), np.errstate(under="ignore"):
                learnt = calibrator._fit_map(rows)
            calibrator._keep(base, classes, learnt)
            if calibrator is not self:
                rows = rows.mapped(calibrator._map(rows), calibrator)
                base = calibrator
        return self

    def _out_of_fold(self, base, X, labels: Labels, weight, fit_params: dict):
        """The classifier to keep, and rows as fits without them predict them."""
        params, to_split = self._routed(fit_params, weight)
        if "groups" in params and not get_config()["enable_metadata_routing"]:
            to_split = {"groups": params.pop("groups")}
        _drop_unused_weights(base, params)
        training = TrainingRows(X, labels, params.pop("sample_weight", None), params)
        calibrators = _chain(self, cloned=False)[0]
        cv = _cv(calibrators)
        ensemble = any(calibrator.ensemble for calibrator in calibrators)
        splits = _splits(cv, training, self.random_state, to_split)
        predicted, models = [], []
        for i, (train, test) in enumerate(Progress(splits, desc="folds", disable=not self.verbose)):
            where = f"training fold {i}"
            if isinstance(cv, str):
                where = "the 80% it was fitted on"
            model = training.fit(clone(base), train, where)
            X_test = take_rows(X, test)
            predicted.append(CalibrationRows.predicted(model, X_test, labels.classes))
            models.append(model if ensemble else None)
        if ensemble:
            model = FoldModels(models, labels.classes)
        elif not isinstance(cv, str):
            model = training.fit(base, np.arange(len(labels)), "y")
        index = np.concatenate([test for _, test in splits])
        rows = CalibrationRows.joined(predicted, take_rows(X, index), model)
        return model, rows.labelled(labels.take(index), take_rows(weight, index))

    def predict_dist(self, X: Samples) -> Distribution:
        """Predictive distribution over class probabilities, a batch of n_samples samples."""
        with np.errstate(under="ignore"):
            each = [self._map(rows) for rows in self._predicted(X)]
        return Mixture.mean_of(each).with_classes(self.classes_)

    def predict_log_proba(self, X: Samples) -> Floats:
        """Logarithm of `predict_proba`, shape (n_samples, n_classes).

        Of a scaling it is exact where the probability is too small for floating-point numbers.
        """
        with np.errstate(under="ignore"):
            each = [self._log_z(rows) for rows in self._predicted(X)]
        return each[0] if len(each) == 1 else logsumexp(each, axis=0) - np.log(len(each))

    def _predicted(self, X) -> list[CalibrationRows]:
        """What the fitted classifier says of X, or each of the folds' models."""
        # the tags of a chain, which are asked for there, take longer than to predict
        if not hasattr(self, "estimator_"):
            check_is_fitted(self, "estimator_")
        X = check_samples(X)
        if isinstance(self.estimator_, FoldModels):
            return self.estimator_.predicted(X)
        return [CalibrationRows.predicted(self.estimator_, X, self.classes_)]

    def _log_z(self, rows: CalibrationRows) -> Floats:
        return log(self._map(rows).mean())

    def decision_function(self, X: Samples) -> Floats:
        """Calibrated logits, shape (n_samples, n_classes).

        Of two classes the log-odds of the second, shape (n_samples,).
        """
        u = self.predict_log_proba(X)
        return u[:, 1] - u[:, 0] if u.shape[1] == 2 else u

    def get_metadata_routing(self) -> MetadataRouter:
        """What `fit` passes on: to the innermost classifier's fit, and to the splitter."""
        router = super().get_metadata_routing()
        cv = _cv(_chain(self, cloned=False)[0])
        # what an int and "holdout" stand for
        if isinstance(cv, (int, np.integer, str)):
            cv = StratifiedVotesKFold()
        if hasattr(cv, "split"):
            to_split = MethodMapping().add(caller="fit", callee="split")
            router.add(splitter=cv, method_mapping=to_split)
        return router


def _splits(cv, training: TrainingRows, random_state, to_split: dict) -> list:
    """(training samples, test samples) of each fold; of a holdout one."""
    is_holdout = isinstance(cv, str)
    if is_holdout and cv != "holdout":
        raise ValueError(
            f'cv must be an int, a splitter, a list of splits or "holdout", got {cv!r}; of a '
            "classifier that is fitted already, make a FrozenEstimator(fitted)."
        )
    if is_holdout:
        cv = StratifiedVotesKFold(5, shuffle=True, random_state=random_state)
    votes = training.labels.majority
    X = training.X
    if isinstance(X, dict):
        X = np.zeros((len(votes), 1))
    splits = list(check_cv(cv).split(X, votes, **to_split))
    return splits[:1] if is_holdout else splits


def _drop_unused_weights(base, params: dict) -> None:
    """Remove weights that the classifier does not take."""
    if params.get("sample_weight") is None or takes_label_histograms(base):
        return
    if not has_fit_parameter(base, "sample_weight"):
        del params["sample_weight"]
        warn(
            f"{type(base).__name__} takes no sample_weight in fit: the weights are used for the "
            "calibration only."
        )


def _chain(calibrator, cloned: bool = True):
    """([the calibrator, the one that it wraps, …], the classifier), cloned but for the first."""
    calibrators = [calibrator]
    inner = calibrator._inside()
    while isinstance(inner, _BaseCalibrator):
        calibrators.append(clone(inner) if cloned else inner)
        inner = inner._inside()
    return calibrators, classifier_of(inner, cloned)


def read_for_fit(base, X, y, arguments) -> tuple[Labels, bool]:
    """The labels, in the order of a classifier's classes, and whether it is fitted already.

    An order that the labels have of their own, as grades do, is kept. Outputs that were saved are
    fitted here: y says what their columns are. `arguments` names those for the fit of the
    classifier.
    """
    given = read_labels(y)
    fitted = isinstance(base, (PrecomputedClassifier, FrozenEstimator))
    if isinstance(base, PrecomputedClassifier):
        base._read_columns(X, given)
    if fitted:
        check_is_fitted(base)
    if fitted and arguments:
        raise TypeError(
            f"fit() got {sorted(arguments)}, but the classifier is fitted already and takes no "
            "more arguments."
        )
    brought = np.asarray(base.classes_) if fitted else class_order(base, X)
    if brought is not None and given.graded and set(given.classes) == set(brought):
        brought = given.classes
    labels = given.for_fit(brought)
    # a list of classes is an order
    labels.graded |= getattr(base, "classes", None) is not None
    check_same_length(len(labels), X=X)
    return labels, fitted


def classifier_of(estimator: Calibrated, cloned: bool = True):
    """The classifier that `estimator` stands for; cloned, so that the caller's stays as it is."""
    if estimator is None:
        return default_classifier()
    if isinstance(estimator, str):
        response: Any = estimator
        return PrecomputedClassifier(response)
    if not hasattr(estimator, "fit") or not (
        hasattr(estimator, "predict_proba") or hasattr(estimator, "decision_function")
    ):
        raise ValueError(
            "estimator must be a classifier with predict_proba or decision_function, got "
            f"{type(estimator).__name__}; if it has them only once fitted, pass it as "
            "FrozenEstimator(fitted), or with its final estimator set. Other outputs, of a booster "
            'say, are passed as X, with estimator="proba" or "logits".'
        )
    return clone(estimator) if cloned else estimator


def _cv(calibrators):
    """The outermost calibrator's cv that is set; 5 folds by default."""
    return next((c.cv for c in calibrators if c.cv is not None), 5)
