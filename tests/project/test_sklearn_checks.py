"""scikit-learn's own checks, over every estimator of the package."""

import inspect
import warnings

import numpy as np
import pytest
from fuzz_cases import public
from networks import net_of_any_shape
from sklearn import clone, config_context
from sklearn.base import ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from sklearn_lhcal.calibration import (
    AlphaCalibration,
    BiasCorrectedTemperatureScaling,
    DecisionCalibration,
    EpistemicCalibration,
    GroupedCalibration,
    OrdinalScaling,
    PrecomputedClassifier,
    StackedCalibration,
    TemperatureScaling,
    VectorScaling,
)
from sklearn_lhcal.ensemble import (
    DeepEnsembleClassifier,
    MCDropoutClassifier,
    TestTimeAugmentationClassifier,
)
from sklearn_lhcal.gaussian_process import SparseGPClassifier
from sklearn_lhcal.neural_network import NeuralClassifier


class Unchanged:
    """Of X, whatever it is; it prints the same in every process, as names of tests must."""

    def __call__(self, X, random_state):
        return X

    def __repr__(self):
        return "unchanged"


class Signs:
    """Two groups, by the sign of what stands first in a sample, whatever X is."""

    def __call__(self, X):
        samples = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
        return [str(sample).lstrip("[ ").startswith("-") for sample in samples]

    def __repr__(self):
        return "signs"


# with options, or not made of a classifier alone
LISTED = [
    TemperatureScaling(LogisticRegression(), cv="holdout", random_state=0),
    BiasCorrectedTemperatureScaling(LogisticRegression(), mixing="prior"),
    TemperatureScaling(LogisticRegression(), mixing="uniform"),
    VectorScaling(LogisticRegression(), mixing="uniform"),
    AlphaCalibration(LogisticRegression(), likelihood="dirichlet_multinomial"),
    AlphaCalibration(),
    EpistemicCalibration(LogisticRegression(), uncertainty="entropy"),
    DecisionCalibration(LogisticRegression(), inner_cv=3),
    DecisionCalibration(LogisticRegression(), scaling="bias_corrected", inner_cv=3),
    DecisionCalibration(LogisticRegression(), scaling="temperature", inner_cv=3),
    GroupedCalibration(TemperatureScaling(LogisticRegression()), by=Signs()),
    PrecomputedClassifier("logits"),
    DeepEnsembleClassifier(LogisticRegression(), n_estimators=2, random_state=0),
    TestTimeAugmentationClassifier(LogisticRegression(), Unchanged(), n_samples=2),
    net_of_any_shape(),
    MCDropoutClassifier(net_of_any_shape(module__dropout=0.1), n_samples=2, random_state=0),
    SparseGPClassifier(random_state=0),
    SparseGPClassifier(
        "matern32", n_inducing=10, ard=True, polish=True, batch_size=32, random_state=0
    ),
]
# what cannot be had by default
SPECIAL = (
    DecisionCalibration,
    DeepEnsembleClassifier,
    GroupedCalibration,
    MCDropoutClassifier,
    NeuralClassifier,
    PrecomputedClassifier,
    SparseGPClassifier,
    TestTimeAugmentationClassifier,
)


def around_a_classifier():
    """Every other public classifier, around a logistic regression, with a seed if it takes one."""
    for _, kind in public():
        if inspect.isclass(kind) and issubclass(kind, ClassifierMixin) and kind not in SPECIAL:
            model = kind(LogisticRegression())
            if "random_state" in model.get_params(deep=False):
                model.set_params(random_state=0)
            yield model


ESTIMATORS = [*around_a_classifier(), *LISTED]


def is_slow(estimator):
    """What fits many scalings, whose smaller relatives are checked as well."""
    stacked = getattr(estimator, "scaling", None) in ("stacked", "bias_corrected")
    wraps = isinstance(estimator, AlphaCalibration) and estimator.estimator is None
    return stacked or wraps or isinstance(estimator, StackedCalibration)


QUICK = [estimator for estimator in ESTIMATORS if not is_slow(estimator)]
SLOW = [estimator for estimator in ESTIMATORS if is_slow(estimator)]


COLUMNS = "each column of X is a class, whichever labels occur in y"
PRECOMPUTED = {
    "check_classifiers_train": COLUMNS,
    "check_classifiers_one_label": COLUMNS,
    "check_classifiers_classes": COLUMNS,
}


NETWORK = {"check_no_attributes_set_in_init": "skorch notes there that it has no history yet"}


# Repeated rows fill the folds of a stack otherwise than weighted ones, and its weights follow them.
STACK = {
    f"check_sample_weight_equivalence_on_{kind}_data": "the weights of a stack follow its folds"
    for kind in ("dense", "sparse")
}


ORDINAL = {"check_classifiers_classes": "three classes of text have no order"}


def expected_failures(estimator):
    if isinstance(estimator, OrdinalScaling):
        return ORDINAL
    decides = isinstance(estimator, DecisionCalibration) and estimator.scaling == "stacked"
    wraps = isinstance(estimator, AlphaCalibration) and estimator.estimator is None
    if decides or wraps or isinstance(estimator, StackedCalibration):
        return STACK
    if isinstance(estimator, NeuralClassifier):
        return NETWORK
    return PRECOMPUTED if isinstance(estimator, PrecomputedClassifier) else {}


WARNS = (
    "The calibration labels are separable",
    "by makes",
    "y does not say who gave the labels",
    "No calibration sample has two labels",
    ".* carved samples are too few",
    "The estimate is .* for all carved samples",
    "The fitted gain is flat",
    "The .* calibration samples cannot tell",
)


def passes(estimator, check):
    with warnings.catch_warnings():
        for message in WARNS:
            warnings.filterwarnings("ignore", message, UserWarning)
        check(estimator)


@parametrize_with_checks(QUICK, expected_failed_checks=expected_failures)
def test_sklearn_checks(estimator, check):
    passes(estimator, check)


@pytest.mark.slow
@parametrize_with_checks(SLOW, expected_failed_checks=expected_failures)
def test_slow_sklearn_checks(estimator, check):
    passes(estimator, check)


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [PrecomputedClassifier("logits"), net_of_any_shape(), OrdinalScaling(random_state=0)],
)
def test_what_is_expected_to_fail_fails(estimator):
    expected = expected_failures(estimator)
    results = check_estimator(
        estimator, expected_failed_checks=expected, on_skip=None, on_fail=None
    )
    failed = {result["check_name"] for result in results if result["status"] == "xfail"}
    assert failed == set(expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_a_fit_with_nothing_to_route_is_the_same(estimator):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=90)
    X = rng.standard_normal((90, 3)) + y[:, None] * [1.0, -1.0, 0.5]
    plain = clone(estimator).fit(X, y).predict_proba(X)
    with config_context(enable_metadata_routing=True):
        routed = clone(estimator).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(routed, plain)
