"""Calibrators as classifiers: forms of X and y, their place in scikit-learn, errors."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier, StackingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from sklearn_lhcal.calibration import (
    AlphaCalibration,
    EpistemicCalibration,
    PrecomputedClassifier,
    TemperatureScaling,
)
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import Dirichlet, predict_dist
from sklearn_lhcal.label_histogram import LabelHistogramClassifier
from sklearn_lhcal.metrics import LabelHistogramScorer, get_scorer, get_scorer_names

# --- one pass ---


class Counting(StandardScaler):
    """A transformer that counts its calls."""

    calls = 0

    def transform(self, X, copy=None):
        Counting.calls += 1
        return super().transform(X, copy)


def test_a_prediction_transforms_once():
    data = make_label_histograms(60, random_state=0)
    model = TemperatureScaling(make_pipeline(Counting(), LogisticRegression()))
    model.fit(data.X, data.counts)
    Counting.calls = 0
    model.predict_proba(data.X)
    assert Counting.calls == 1


# --- kinds of classifiers, of X and of y ---


@pytest.mark.parametrize(
    "base",
    [
        None,
        GaussianNB(),
        KNeighborsClassifier(60),
        LinearSVC(),
        make_pipeline(StandardScaler(), LogisticRegression()),
        GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
        RandomForestClassifier(5, min_samples_leaf=10, random_state=0),
    ],
    ids=lambda b: type(b).__name__,
)
def test_any_classifier(base, data):
    chain = AlphaCalibration(TemperatureScaling(base), cv=3).fit(data.X, data.counts)
    proba = chain.predict_proba(data.X)
    assert_allclose(proba, chain.predict_dist(data.X).mean(), atol=1e-12)
    assert_allclose(proba.sum(axis=1), 1)
    assert_array_equal(chain.predict(data.X), chain.classes_[proba.argmax(axis=1)])
    assert_allclose(np.exp(chain.predict_log_proba(data.X)), proba)
    assert_array_equal(chain.decision_function(data.X).argmax(axis=1), proba.argmax(axis=1))
    assert 0.4 < chain.score(data.X, data.counts) < 1
    assert_allclose(pickle.loads(pickle.dumps(chain)).predict_proba(data.X), proba)


def test_two_classes_have_log_odds():
    data = make_label_histograms(200, n_classes=2, random_state=0)
    chain = TemperatureScaling().fit(data.X, data.counts)
    p = chain.predict_proba(data.X)
    assert chain.decision_function(data.X).shape == (200,)
    assert_allclose(chain.decision_function(data.X), np.log(p[:, 1] / p[:, 0]))


def test_named_counts_are_sorted_and_aligned(data):
    names = ["mild", "severe", "benign"]
    frame = pd.DataFrame(data.counts, columns=names)
    calibrator = TemperatureScaling().fit(data.X, frame)
    assert calibrator.classes_.tolist() == sorted(names)
    plain = TemperatureScaling().fit(data.X, data.counts[:, [2, 0, 1]])
    assert_allclose(calibrator.predict_proba(data.X), plain.predict_proba(data.X))
    for other in (frame[["severe", "benign", "mild"]], pl.DataFrame(data.counts, schema=names)):
        assert calibrator.score(data.X, other) == pytest.approx(
            plain.score(data.X, data.counts[:, [2, 0, 1]])
        )
    assert_allclose(
        TemperatureScaling().fit(data.X, pl.DataFrame(data.counts, schema=names)).temperature_,
        plain.temperature_,
    )
    with pytest.raises(ValueError, match="critical"):
        calibrator.score(data.X, frame.rename(columns={"mild": "critical"}))


@pytest.mark.parametrize(
    "convert", [pd.DataFrame, pl.DataFrame, sp.csr_matrix, sp.coo_array, list, np.float32]
)
def test_kinds_of_X(convert, data):
    X = (
        convert(data.X)
        if convert is not pl.DataFrame
        else pl.DataFrame(data.X, schema=list("abcde"))
    )
    base = LogisticRegression()
    expected = TemperatureScaling(base).fit(data.X, data.counts)
    got = TemperatureScaling(base).fit(X, data.counts)
    assert_allclose(got.temperature_, expected.temperature_, rtol=1e-3)


def test_X_is_opaque(data):
    """Sentences, or anything that has a length and rows."""
    from sklearn.feature_extraction.text import CountVectorizer

    words = np.array(["red", "green", "blue"])
    X = [" ".join(words[np.repeat(np.arange(3), y)]) for y in data.counts]
    base = make_pipeline(CountVectorizer(), LogisticRegression())
    assert TemperatureScaling(base).fit(X, data.counts).score(X, data.counts) > 0.7


@pytest.mark.parametrize("kind", [str, int, bool])
def test_kinds_of_labels(kind, data):
    labels = data.counts.argmax(axis=1)
    y = {str: np.array(["no", "perhaps", "yes"])[labels], int: labels + 5, bool: labels > 0}[kind]
    calibrator = TemperatureScaling().fit(data.X, y)
    assert_array_equal(calibrator.classes_, np.unique(y))
    assert calibrator.score(data.X, y) == pytest.approx(np.mean(calibrator.predict(data.X) == y))


def test_arrays_of_the_caller_are_not_written_to(data, logits):
    copies = [a.copy() for a in (logits, data.counts)]
    w = np.ones(300)
    for a in (logits, data.counts, w):
        a.flags.writeable = False
    AlphaCalibration(TemperatureScaling("logits")).fit(
        logits, data.counts, sample_weight=w
    ).predict_proba(logits)
    assert_array_equal(logits, copies[0])
    assert_array_equal(data.counts, copies[1])


# --- precomputed outputs ---


def test_precomputed_classes_are_never_the_labels_that_occur():
    proba = np.full((6, 4), 0.25)
    labels = [0, 0, 1, 1, 3, 3]
    assert TemperatureScaling("proba").fit(proba, labels).classes_.tolist() == [0, 1, 2, 3]
    frame = pd.DataFrame(proba, columns=list("dcba"))
    calibrator = TemperatureScaling("proba").fit(frame, list("aabbcc"))
    assert calibrator.classes_.tolist() == list("abcd")
    named = TemperatureScaling(PrecomputedClassifier("proba", classes=list("wxyz"))).fit(
        proba, list("wwxxzz")
    )
    assert named.classes_.tolist() == list("wxyz")


@pytest.mark.parametrize("as_frame", [False, True])
@pytest.mark.parametrize("columns", [slice(0, 3), [0, 1, 2]])
def test_precomputed_columns_beside_features(data, logits, columns, as_frame):
    X = np.column_stack([logits, data.X])
    plain = TemperatureScaling("logits").fit(logits, data.counts)
    if as_frame:
        X = pd.DataFrame(X, columns=[f"c{i}" for i in range(8)])
    beside = TemperatureScaling(PrecomputedClassifier("logits", columns=columns)).fit(
        X, data.counts
    )
    assert_allclose(beside.predict_proba(X), plain.predict_proba(logits))
    assert beside.classes_.tolist() == (["c0", "c1", "c2"] if as_frame else [0, 1, 2])
    if as_frame:
        by_name = PrecomputedClassifier("logits", columns=["c0", "c1", "c2"]).fit(X)
        assert_allclose(by_name.predict_proba(X), softmax(logits, axis=1))


# --- in scikit-learn ---


@pytest.mark.parametrize("response", ["logits", "proba"])
@pytest.mark.parametrize("names", [[0, 1], ["no", "yes"]])
def test_outputs_of_two_classes_need_two_columns(response, names):
    labels, X = np.array(names)[np.arange(9) % 2], np.linspace(0.1, 0.9, 9)[:, None]
    for y in (labels, [[1, 2]] * 9):
        with pytest.raises(
            ValueError, match=r"of two classes are two columns, \[0, u\] for log-odds"
        ):
            TemperatureScaling(response).fit(X, y)


def test_integer_columns_are_positions(data):
    frame = pd.DataFrame(
        np.column_stack([data.prediction, data.X]),
        columns=[2, 0, 1, *range(3, 3 + data.X.shape[1])],
    )
    for columns in ([0, 1, 2], np.array([0, 1, 2]), slice(3)):
        outputs = (
            PrecomputedClassifier("proba", columns=columns, classes=[0, 1, 2])
            .fit(frame)
            .predict_proba(frame)
        )
        assert_array_equal(outputs, data.prediction)


@pytest.mark.slow
@pytest.mark.parametrize(
    "scoring", [n for n in get_scorer_names() if isinstance(get_scorer(n), LabelHistogramScorer)]
)
def test_grid_search_with_every_scorer_string(scoring, data):
    """Over the classifier's and the calibrator's parameters, counts in a frame.

    In two processes.
    """
    # numbers have the order that some scorers need
    frame = pd.DataFrame(data.counts, columns=[2, 3, 1])
    chain = AlphaCalibration(TemperatureScaling(LogisticRegression()), cv=3)
    grid = {"estimator__estimator__C": [1e-3, 1.0], "penalty": [0.0, 1.0]}
    search = GridSearchCV(chain, grid, scoring=scoring, cv=3, n_jobs=2, error_score="raise").fit(
        data.X, frame
    )
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert (
        search.best_params_["estimator__estimator__C"] == 1.0
        or "calibration" in scoring
        or "dispersion" in scoring
    )


@pytest.mark.slow
def test_inside_and_around_a_pipeline(data):
    inside = make_pipeline(StandardScaler(), AlphaCalibration(LogisticRegression()))
    around = AlphaCalibration(make_pipeline(StandardScaler(), LogisticRegression()))
    for model in (inside, around):
        scores = cross_val_score(
            model, data.X, data.counts, cv=3, scoring="neg_disagreement_squared_loss"
        )
        assert np.isfinite(scores).all()
    search = GridSearchCV(
        inside,
        {"alphacalibration__estimator__C": [0.1, 1], "alphacalibration__likelihood": ["pairwise"]},
        scoring="neg_posterior_epistemic_loss",
        cv=3,
        error_score="raise",
    ).fit(data.X, data.counts)
    assert isinstance(predict_dist(search, data.X), Dirichlet)


def test_agrees_with_scikit_learn_on_single_labels(data):
    """One label a row.

    The same log loss as scikit-learn's own temperature scaling, where it has one.
    """
    calibration = (
        pytest.importorskip("sklearn", minversion="1.8")
        and __import__("sklearn.calibration").calibration
    )
    labels = data.counts.argmax(axis=1)
    frozen = FrozenEstimator(GaussianNB().fit(data.X, labels))
    theirs = calibration.CalibratedClassifierCV(frozen, method="temperature", ensemble=False).fit(
        data.X, labels
    )
    ours = TemperatureScaling(frozen).fit(data.X, labels)
    a, b = (log_loss(labels, model.predict_proba(data.X)) for model in (ours, theirs))
    # What the weak prior may cost: ½ (log T)²/n with log T of 1/10.
    assert_allclose(a, b, atol=2e-5)


@pytest.mark.parametrize(
    "wrap",
    [
        TemperatureScaling,
        lambda e: EpistemicCalibration(e, uncertainty="entropy"),
        LabelHistogramClassifier,
    ],
    ids=["calibrator", "epistemic", "histograms"],
)
def test_feature_names_are_those_of_the_last_fit(wrap, data):
    frame = pd.DataFrame(data.X).add_prefix("x")
    model = wrap(LogisticRegression(max_iter=1000)).fit(frame, data.counts)
    assert model.feature_names_in_.tolist() == list(frame)
    assert model.n_features_in_ == frame.shape[1]
    model.fit(data.X[:, 1:], data.counts)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == frame.shape[1] - 1


def test_one_class_is_certain():
    calibrator = TemperatureScaling("proba").fit(np.ones((9, 1)), np.zeros(9, int))
    assert calibrator.score(np.ones((9, 1)), np.zeros(9, int), sample_weight=np.arange(9.0)) == 1
    with pytest.raises(ValueError, match="inconsistent"):
        calibrator.score(np.ones((9, 1)), np.zeros(8, int))


# --- errors ---


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (TemperatureScaling("log-odds"), '"logits", "proba" or None'),
        (TemperatureScaling(StandardScaler()), "must be a classifier"),
        (TemperatureScaling(cv="half"), '"holdout"'),
        (AlphaCalibration(likelihood="gaussian"), 'likelihood must be "pairwise"'),
        (AlphaCalibration(features=3), "features must be"),
        (AlphaCalibration(features=lambda X: X * np.nan), "NaN"),
        (TemperatureScaling(PrecomputedClassifier("scores")), "response must be"),
        (
            TemperatureScaling(PrecomputedClassifier("logits", columns="p_b")),
            "columns must be a list .*got 'p_b'",
        ),
        (
            TemperatureScaling(PrecomputedClassifier("logits", columns=1)),
            "columns must be a list .*got 1",
        ),
        (
            TemperatureScaling(PrecomputedClassifier("logits", classes=["a", "b"])),
            "classes must hold 5 different names",
        ),
    ],
)
def test_wrong_parameters(estimator, message, data):
    with pytest.raises(ValueError, match=message):
        estimator.fit(data.X, data.counts)


def test_a_classifier_without_probabilities_before_fit(data):
    """The message says what to do, and that works."""
    stack = StackingClassifier([("nb", GaussianNB())], cv=2)
    with pytest.raises(
        ValueError, match=r"got StackingClassifier; .* FrozenEstimator\(fitted\), or with its fina"
    ):
        TemperatureScaling(stack).fit(data.X, data.counts)
    labels = data.counts.argmax(axis=1)
    TemperatureScaling(FrozenEstimator(clone(stack).fit(data.X, labels))).fit(data.X, data.counts)
    TemperatureScaling(stack.set_params(final_estimator=GaussianNB()), cv=2).fit(data.X, labels)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.full((300, 3), np.nan), "NaN"),
        (np.full((300, 3), np.inf), "infinite"),
        (np.full((300, 3), 0.5), "must sum to 1"),
        (np.tile([-0.5, 1.0, 0.5], (300, 1)), "negative"),
        (np.full((299, 3), 1 / 3), "inconsistent"),
        (np.full((300, 4), 1 / 4), "y has 3 classes, but the classifier has 4"),
        (np.full(300, 0.5), "Reshape your data"),
    ],
)
def test_wrong_outputs(X, message, data):
    with pytest.raises(ValueError, match=message):
        TemperatureScaling("proba").fit(X, data.counts)


def test_predictions_before_fit_and_with_other_columns(data, logits):
    from sklearn.exceptions import NotFittedError

    for call in (
        "predict",
        "predict_proba",
        "predict_dist",
        "decision_function",
        "predict_log_proba",
    ):
        with pytest.raises(NotFittedError):
            getattr(TemperatureScaling(), call)(data.X)
    calibrator = TemperatureScaling("logits").fit(logits, data.counts)
    with pytest.raises(ValueError, match="2 features"):
        calibrator.predict_proba(logits[:, :2])
