"""What every meta-estimator needs of the classifier inside: its classes, its fit, its outputs."""

import copy
from collections.abc import Callable, Iterator
from functools import wraps
from typing import TypeVar, cast

import numpy as np
from sklearn import get_config
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from .checks import check_params, check_sample_weight, take_params, take_rows
from .names import positions
from .types import Floats, Indices, NDArray

Function = TypeVar("Function", bound=Callable)


def default_classifier():
    """What ``estimator=None`` stands for."""
    # here, because `import sklearn_lhcal` shall stay quick
    from sklearn.linear_model import LogisticRegression

    classifier = LogisticRegression()
    if get_config()["enable_metadata_routing"]:
        classifier.set_fit_request(sample_weight=True)
    return classifier


def _layers(estimator) -> Iterator:
    """An estimator, what a Pipeline or a search ends in, what that ends in, and so on."""
    yield estimator
    if isinstance(estimator, Pipeline):
        yield from _layers(estimator.steps[-1][1])
    elif all(hasattr(estimator, name) for name in ("scoring", "refit", "estimator")):
        yield from _layers(estimator.estimator)


def takes_label_histograms(estimator) -> bool:
    """Whether fit takes counts.

    Its class has `accepts_label_histograms`, or the class of what a Pipeline or a search ends in.
    """
    return any(getattr(type(one), "accepts_label_histograms", False) for one in _layers(estimator))


def class_order(estimator, X, y=None):
    """The classes that an estimator brings, in the order of its outputs; None where it brings none.

    They are brought by what is fitted already, by outputs saved in X, whose names may be those of
    the labels y, and by a network that is told its `classes`.
    """
    while not isinstance(estimator, FrozenEstimator):
        if hasattr(estimator, "_class_order"):
            return estimator._class_order(X, y)
        if isinstance(estimator, Pipeline):
            kept = all(step in (None, "passthrough") for _, step in estimator.steps[:-1])
            estimator = estimator.steps[-1][1]
            X = X if kept else None
        elif not takes_label_histograms(estimator):
            return None
        elif not hasattr(estimator, "estimator"):
            classes = getattr(estimator, "classes", None)
            if classes is None:
                return None
            return np.asarray(classes)
        else:
            estimator = estimator.estimator
    return getattr(estimator, "classes_", None)


def own_classes(model, classes: NDArray) -> NDArray:
    """The names of a fitted model's outputs, among the `classes` of the labels it was fitted on.

    A model that was given counts and looked at no names calls its classes 0, 1, 2, ….
    """
    own = np.asarray(model.classes_)
    numbered = np.array_equal(own, np.arange(len(classes)))
    if numbered and (positions(own, classes) < 0).any():
        return classes
    return own


def own_columns(model, classes: NDArray) -> Indices:
    """The columns of a fitted model's outputs in the order of these classes."""
    return positions(classes, own_classes(model, classes))


def resolve(estimator, X, method: str):
    """The estimator that offers `method`, or the innermost one, and X as it sees it, or None.

    The one way through Pipeline, search objects, FrozenEstimator and whoever names the estimator
    it hands on to, `_passes_to`.
    """
    # a frozen estimator offers all that the one inside does, and is not that one
    while isinstance(estimator, FrozenEstimator) or not hasattr(estimator, method):
        if isinstance(estimator, Pipeline):
            for _, step in estimator.steps[:-1] if X is not None else ():
                # samplers of imbalanced-learn act in fit alone
                if step not in (None, "passthrough") and not hasattr(step, "fit_resample"):
                    X = step.transform(X)
            estimator = estimator[-1]
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif isinstance(estimator, FrozenEstimator):
            estimator = estimator.estimator
        elif getattr(estimator, "_passes_to", None) is not None:
            estimator = estimator._passes_to
        else:
            break
    check_order_of_columns(estimator, X)
    return estimator, X


def epistemic_estimates(estimator, X) -> tuple[Floats, Floats] | None:
    """Before and after calibration, by the bins of these samples; None where none is calibrated."""
    inner, X = resolve(estimator, X, "predict_uncalibrated")
    if not hasattr(inner, "predict_uncalibrated"):
        return None
    return inner.predict_uncalibrated(X), inner.with_bins_of(X).predict_epistemic(X)


def check_order_of_columns(estimator, X) -> None:
    """ValueError where X has the columns of the fit in another order, which not all models see."""
    names = getattr(estimator, "feature_names_in_", None)
    # whatever is around a model hands X on, and saved outputs are matched by name
    if names is None or hasattr(estimator, "predict_dist") or hasattr(X, "collect"):
        return
    fitted = np.asarray(names).tolist()
    given = list(getattr(X, "columns", ()))
    if fitted != given and set(fitted) == set(given):
        raise ValueError(
            f"The columns of X are {given[:9]}, in fit they were {fitted[:9]}; pass "
            "X[list(model.feature_names_in_)]."
        )


def weight_params(sample_weight) -> dict:
    """Weights as a parameter; none where there are none."""
    if sample_weight is None:
        return {}
    return {"sample_weight": sample_weight}


def fit_on_labels(estimator, X, labels, sample_weight=None, **fit_params):
    """Fit any scikit-learn classifier, in place, on label histograms with names for classes.

    An estimator that takes label histograms gets the labels as they are. Any other gets 1-D labels
    where every sample has one. Where samples have several, each sample comes once for each class
    that it was given, with the count as its weight. An estimator without weights gets it as often
    as that.
    """
    if takes_label_histograms(estimator):
        return estimator.fit(X, labels.plain(), **weight_params(sample_weight), **fit_params)
    takes_weights = has_fit_parameter(estimator, "sample_weight")
    if sample_weight is not None and not takes_weights:
        raise ValueError(
            f"{type(estimator).__name__} takes no sample_weight in fit; fit it without weights."
        )
    n, classes = len(labels), labels.classes
    *_, inner = _layers(estimator)
    # whose classes must be 0, 1, 2, …; `own_classes` names them again
    if type(inner).__module__.startswith("xgboost."):
        classes = np.arange(len(classes))
    # an array: a Series would be looked up by its labels, which some of its samples need not be
    sample_weight = check_sample_weight(sample_weight, n)
    rows, codes = np.nonzero(labels.counts)
    weight = labels.counts[rows, codes].astype(float)
    if len(rows) == n and (weight == 1).all():
        fit_params |= weight_params(sample_weight)
        return estimator.fit(X, classes[codes], **fit_params)
    if takes_weights:
        weight = weight if sample_weight is None else weight * sample_weight[rows]
    elif labels.known:
        raise ValueError(
            f"{type(estimator).__name__} takes no weights and cannot be fitted on "
            "KnownProbabilities; end a pipeline by LabelHistogramClassifier(classifier)."
        )
    else:
        repeat = np.repeat(np.arange(len(rows)), labels.counts[rows, codes])
        rows, codes = rows[repeat], codes[repeat]
    fit_params = take_params(fit_params, rows, n)
    if takes_weights:
        fit_params["sample_weight"] = weight
    return estimator.fit(take_rows(X, rows), classes[codes], **fit_params)


def take_feature_names(estimator, fitted) -> None:
    """Set number and names of the features as `fitted` has them; those of an earlier fit go."""
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(fitted, name):
            setattr(estimator, name, getattr(fitted, name))
        else:
            vars(estimator).pop(name, None)


def atomic(fit: Function) -> Function:
    """Decorator of fit methods: all of a fit, or nothing.

    A twin of the estimator is fitted, and the estimator takes over what the twin has, in one step
    at the end. Whatever is raised before leaves it as it was.
    """

    @wraps(fit)
    def fit_or_nothing(self, *args, **kwargs):
        check_params(self)
        twin = twin_of(self)
        fit(twin, *args, **kwargs)
        self.__dict__ = vars(twin)
        return self

    return cast(Function, fit_or_nothing)


def twin_of(estimator):
    """A shallow copy; not by `copy.copy`, by which a skorch net copies its weights too."""
    twin = object.__new__(type(estimator))
    vars(twin).update(vars(estimator))
    return twin


def with_own_module(net):
    """A fitted skorch net that may be hooked: its module is a copy that shares all tensors.

    What is done to it is not seen by whoever else predicts with the net at the same time.
    """
    while isinstance(net, FrozenEstimator):
        net = net.estimator
    tensors = {id(a): a for a in (*net.module_.parameters(), *net.module_.buffers())}
    for module in net.module_.modules():
        tensors |= {id(a): a for a in vars(module).values() if hasattr(a, "is_floating_point")}
    twin = twin_of(net)
    vars(twin)["module_"] = copy.deepcopy(net.module_, tensors)
    return twin
