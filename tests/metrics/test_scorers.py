"""Scorers: every name wherever scikit-learn takes ``scoring=``, on counts."""

from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from metric_cases import tags_of
from scorer_cases import CV, MODEL, NOMINAL, SCORERS, problem
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import check_scoring
from sklearn.metrics import get_scorer as sklearn_get_scorer
from sklearn.metrics import get_scorer_names as sklearn_get_scorer_names
from sklearn.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
    cross_val_score,
    cross_validate,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_lhcal import metrics
from sklearn_lhcal.distributions import predict_dist
from sklearn_lhcal.label_histogram import KnownProbabilities, LabelHistogramClassifier
from sklearn_lhcal.metrics import LabelHistogramScorer, get_scorer, get_scorer_names

GRID = {"estimator__var_smoothing": [1e-9, 10.0]}


def metric_of(name):
    """The metric of this name; a kernel error at the settings that make candidates comparable."""
    name = name.removeprefix("neg_")
    if not name.startswith("kernel_"):
        return getattr(metrics, name)
    kind = name.removeprefix("kernel_").removesuffix("_error")
    options = {"kind": kind, "p": 2, "bandwidth": 0.05, "bias_correction": "residual"}
    return partial(metrics.kernel_calibration_error, **options)


def expected_score(name, estimator, X, y, **weight):
    """What the scorer of this name shall say, from the metric of this name."""
    metric = metric_of(name)
    whole = tags_of(metric).takes_distribution
    prediction = predict_dist(estimator, X) if whole else estimator.predict_proba(X)
    return (-1 if name.startswith("neg_") else 1) * metric(y, prediction, **weight)


def manual_scores(name, estimator, X, y):
    scores = []
    for train, test in CV.split(X):
        fitted = clone(estimator).fit(X[train], y[train])
        scores.append(expected_score(name, fitted, X[test], y[test]))
    return scores


def test_names():
    assert set(get_scorer_names()) < set(sklearn_get_scorer_names())
    for name, scorer in SCORERS.items():
        smaller_is_better = tags_of(scorer.metric).greater_is_better is False
        assert name.startswith("neg_") == smaller_is_better
    assert tags_of(SCORERS["expected_accuracy"].metric).greater_is_better


@pytest.mark.parametrize("name", SCORERS)
def test_cross_val_score_on_counts(name):
    X, counts = problem()
    scores = cross_val_score(MODEL, X, counts, scoring=name, cv=CV, error_score="raise")
    np.testing.assert_allclose(scores, manual_scores(name, MODEL, X, counts), rtol=1e-12)
    assert scores.std() > 0


@pytest.mark.parametrize("name", SCORERS)
def test_two_classes_are_scored_on_full_probabilities(name):
    """Scikit-learn's own scorers hand a metric the positive column only."""
    X, counts = problem(K=2)
    model = clone(MODEL).fit(X, counts)
    assert get_scorer(name)(model, X, counts) == expected_score(name, model, X, counts)
    scores = cross_val_score(MODEL, X, counts, scoring=name, cv=CV, error_score="raise")
    np.testing.assert_allclose(scores, manual_scores(name, MODEL, X, counts), rtol=1e-12)


@pytest.mark.parametrize("name", SCORERS)
def test_searches_on_counts(name):
    X, counts = problem()
    search = GridSearchCV(MODEL, GRID, scoring=name, cv=CV, error_score="raise").fit(X, counts)
    for i, value in enumerate(GRID["estimator__var_smoothing"]):
        scores = manual_scores(
            name, clone(MODEL).set_params(estimator__var_smoothing=value), X, counts
        )
        np.testing.assert_allclose(
            search.cv_results_["mean_test_score"][i], np.mean(scores), rtol=1e-12
        )
    assert search.best_index_ == search.cv_results_["mean_test_score"].argmax()
    assert search.score(X, counts) == pytest.approx(
        expected_score(name, search.best_estimator_, X, counts), rel=1e-12
    )


def test_better_models_score_higher():
    """Orientation: the model that learnt beats the one that never saw X.

    Calibration is another matter.
    """
    X, counts = problem(n=600)
    good = clone(MODEL).fit(X, counts)
    poor = LabelHistogramClassifier(DummyClassifier(strategy="uniform")).fit(X, counts)
    names = [n for n in SCORERS if "calibration" not in n and "kernel" not in n]
    assert len(names) > 8
    for name in names:
        assert get_scorer(name)(good, X, counts) > get_scorer(name)(poor, X, counts), name


@pytest.mark.parametrize(
    "scoring", [list(SCORERS), {n: n for n in SCORERS}, dict(SCORERS), "callable"]
)
def test_many_scorers_at_once(scoring):
    X, counts = problem()
    if scoring == "callable":
        scoring = {
            "one": SCORERS["neg_epistemic_loss"],
            "two": "accuracy",
            "three": lambda e, X, y: 0.5,
        }
        counts = counts.argmax(axis=1)  # the accuracy of scikit-learn takes labels only
        scoring["one"] = SCORERS["neg_expected_squared_loss"]
    results = cross_validate(MODEL, X, counts, scoring=scoring, cv=CV, error_score="raise")
    for key, scorer in (
        scoring.items() if isinstance(scoring, dict) else zip(scoring, scoring, strict=True)
    ):
        alone = cross_val_score(MODEL, X, counts, scoring=scorer, cv=CV, error_score="raise")
        np.testing.assert_allclose(results[f"test_{key}"], alone, rtol=1e-12)


def test_other_doors_of_scikit_learn():
    X, counts = problem()
    model = clone(MODEL)
    scorer = check_scoring(model, scoring="neg_epistemic_loss")
    assert scorer(model.fit(X, counts), X, counts) == expected_score(
        "neg_epistemic_loss", model, X, counts
    )
    assert sklearn_get_scorer("neg_epistemic_loss").metric is metrics.epistemic_loss
    search = RandomizedSearchCV(
        model, GRID, n_iter=2, scoring="neg_label_log_loss", cv=CV, random_state=0
    )
    assert search.fit(X, counts).best_score_ < 0


def test_searches_with_several_names_refit_by_one():
    X, counts = problem()
    search = GridSearchCV(
        MODEL, GRID, scoring=list(SCORERS), refit="neg_label_log_loss", cv=CV
    ).fit(X, counts)
    assert search.best_index_ == search.cv_results_["mean_test_neg_label_log_loss"].argmax()
    assert np.isfinite(search.cv_results_["mean_test_neg_posterior_epistemic_loss"]).all()


# Pipelines, searches, ensembles


@pytest.mark.parametrize("name", SCORERS)
@pytest.mark.parametrize(
    "wrap",
    [
        lambda e: make_pipeline(StandardScaler(), LabelHistogramClassifier(e)),
        lambda e: LabelHistogramClassifier(make_pipeline(StandardScaler(), e)),
        lambda e: GridSearchCV(LabelHistogramClassifier(e), {}, cv=2),
        lambda e: make_pipeline(
            StandardScaler(), GridSearchCV(LabelHistogramClassifier(e), {}, cv=2)
        ),
    ],
    ids=["pipeline around", "pipeline inside", "search", "search in a pipeline"],
)
def test_scorers_see_through_wrappers(name, wrap):
    X, counts = problem()
    estimator = wrap(GaussianNB()).fit(X, counts)
    expected = pytest.approx(expected_score(name, estimator, X, counts), rel=1e-12)
    assert SCORERS[name](estimator, X, counts) == expected
    assert SCORERS[name](FrozenEstimator(estimator), X, counts) == expected


def test_ensembles_are_scored_as_ensembles():
    """The disagreement of the members' mixture is scored, not that of their mean."""
    X, counts = problem()
    labels = counts.argmax(axis=1)
    forest = make_pipeline(
        StandardScaler(), RandomForestClassifier(20, max_depth=2, random_state=0)
    ).fit(X, labels)
    score = SCORERS["neg_disagreement_squared_loss"](forest, X, counts)
    assert score == -metrics.disagreement_squared_loss(counts, predict_dist(forest, X))
    assert score != pytest.approx(
        -metrics.disagreement_squared_loss(counts, forest.predict_proba(X)), rel=1e-3
    )


# Names of classes


def frame_of(kind, counts, columns):
    if kind == "pandas":
        return pd.DataFrame(counts, columns=columns)
    return pl.DataFrame(counts, schema=columns, orient="row")


@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize("name", NOMINAL)
def test_frames_are_aligned_by_name(name, kind):
    X, counts = problem()
    y = frame_of(kind, counts, ["c", "a", "b"])
    model = clone(MODEL).fit(X, y)
    expected = expected_score(name, model, X, counts[:, [1, 2, 0]])
    assert SCORERS[name](model, X, y) == pytest.approx(expected, rel=1e-12)
    assert SCORERS[name](model, X, y[["b", "c", "a"]]) == pytest.approx(expected, rel=1e-12)
    scores = cross_val_score(MODEL, X, y, scoring=name, cv=CV, error_score="raise")
    again = cross_val_score(MODEL, X, y[["b", "c", "a"]], scoring=name, cv=CV)
    np.testing.assert_allclose(scores, again, rtol=1e-12)


def test_labels_are_aligned_by_name():
    X, counts = problem()
    labels = np.array(["x", "y", "z"])[counts.argmax(axis=1)]
    model = LogisticRegression().fit(X, labels)
    one_hot = (labels[:, None] == model.classes_).astype(int)
    for name in (
        "neg_expected_squared_loss",
        "neg_label_log_loss",
        "neg_histogram_log_loss",
        "expected_accuracy",
    ):
        expected = expected_score(name, model, X, one_hot)
        assert SCORERS[name](model, X, labels) == pytest.approx(expected, rel=1e-12)
        assert SCORERS[name](model, X, pd.Series(labels)) == pytest.approx(expected, rel=1e-12)
        few = labels != "y"  # a fold in which one class does not occur
        expected = expected_score(name, model, X[few], one_hot[few])
        assert SCORERS[name](model, X[few], labels[few]) == pytest.approx(expected, rel=1e-12)


def padded_score(name, y, proba):
    """The metric of this name on class probabilities, as a score."""
    metric = metric_of(name)
    return (-1 if name.startswith("neg_") else 1) * metric(y, proba)


@pytest.mark.parametrize("name", NOMINAL)
@pytest.mark.parametrize("form", ["array", "pandas", "polars"])
def test_a_class_without_labels_in_the_training_fold_has_probability_zero(name, form):
    X, counts = problem()
    y = counts if form == "array" else frame_of(form, counts, ["u", "v", "w"])
    train, test = np.flatnonzero(counts[:, 1] == 0), np.flatnonzero(counts[:, 1] > 0)
    proba = clone(MODEL).fit(X[train], counts[train]).predict_proba(X[test])
    assert (proba[:, 1] == 0).all()
    scores = cross_val_score(MODEL, X, y, scoring=name, cv=[(train, test)], error_score="raise")
    assert scores[0] == pytest.approx(padded_score(name, counts[test], proba), rel=1e-12)


ONE_LABEL = [
    "neg_expected_squared_loss",
    "neg_calibration_loss",
    "neg_label_log_loss",
    "neg_histogram_log_loss",
]


@pytest.mark.parametrize("name", [*ONE_LABEL, "expected_accuracy", "vote_accuracy"])
@pytest.mark.parametrize("names", [["u", "v", "w"], [3, 5, 9]])
def test_a_label_that_the_training_fold_lacks_has_probability_zero(name, names):
    X, counts = problem()
    codes = counts.argmax(axis=1)
    train, test = np.flatnonzero(codes != 1), np.arange(len(X))
    y = np.array(names)[codes]
    proba = np.insert(GaussianNB().fit(X[train], y[train]).predict_proba(X), 1, 0, axis=1)
    scores = cross_val_score(
        GaussianNB(), X, y, scoring=name, cv=[(train, test)], error_score="raise"
    )
    assert scores[0] == pytest.approx(
        padded_score(name, np.eye(3, dtype=int)[codes], proba), rel=1e-12
    )


def test_counts_of_more_classes_than_the_estimator_knows():
    """Columns without names are no new classes: nothing says which of them training knew."""
    X, counts = problem()
    model = LogisticRegression().fit(X, np.arange(len(X)) % 2)
    for name in SCORERS:
        with pytest.raises(ValueError, match=r"3 classes, but the .* has 2 columns"):
            SCORERS[name](model, X, counts)


@pytest.mark.slow
def test_known_probabilities_may_be_scored():
    X, counts = problem()
    Q = KnownProbabilities(counts / counts.sum(axis=1, keepdims=True))
    for name in set(SCORERS) - {"neg_histogram_log_loss"}:
        scores = cross_val_score(MODEL, X, Q, scoring=name, cv=CV, error_score="raise")
        np.testing.assert_allclose(scores, manual_scores(name, MODEL, X, Q), rtol=1e-12)


# Weights and metadata routing


@pytest.mark.parametrize("name", SCORERS)
def test_weights_reach_the_metric(name):
    X, counts = problem()
    w = np.random.default_rng(0).random(len(X))
    model = clone(MODEL).fit(X, counts)
    expected = expected_score(name, model, X, counts, sample_weight=w)
    assert SCORERS[name](model, X, counts, sample_weight=w) == pytest.approx(expected, rel=1e-12)
    assert SCORERS[name](model, X, counts) != pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", SCORERS)
def test_routed_weights_reach_fit_and_score(name):
    X, counts = problem()
    w = np.random.default_rng(0).random(len(X))
    with sklearn.config_context(enable_metadata_routing=True):
        model = clone(MODEL).set_fit_request(sample_weight=True)
        scorer = get_scorer(name).set_score_request(sample_weight=True)
        scores = cross_validate(
            model,
            X,
            counts,
            scoring=scorer,
            cv=CV,
            params={"sample_weight": w},
            error_score="raise",
        )["test_score"]
        search = GridSearchCV(model, {}, scoring=scorer, cv=CV, error_score="raise").fit(
            X, counts, sample_weight=w
        )
    expected = []
    for train, test in CV.split(X):
        fitted = clone(MODEL).fit(X[train], counts[train], sample_weight=w[train])
        expected.append(expected_score(name, fitted, X[test], counts[test], sample_weight=w[test]))
    np.testing.assert_allclose(scores, expected, rtol=1e-12)
    np.testing.assert_allclose(search.best_score_, np.mean(expected), rtol=1e-12)


def test_weights_without_a_request_are_refused():
    X, counts = problem()
    with sklearn.config_context(enable_metadata_routing=True):
        model = clone(MODEL).set_fit_request(sample_weight=True)
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            cross_validate(
                model,
                X,
                counts,
                scoring="neg_epistemic_loss",
                cv=CV,
                params={"sample_weight": np.ones(len(X))},
            )


def test_a_request_does_not_change_the_registered_scorers():
    with sklearn.config_context(enable_metadata_routing=True):
        get_scorer("neg_epistemic_loss").set_score_request(sample_weight=True)
        sklearn_get_scorer("neg_epistemic_loss").set_score_request(sample_weight=True)
        for door in (get_scorer, sklearn_get_scorer):
            request = door("neg_epistemic_loss").get_metadata_routing().score.requests
            assert request["sample_weight"] is None


def test_weights_without_routing():
    """A search hands them to fit, and from scikit-learn 1.7 to the scorers too.

    Dicts of scorers must not break.
    """
    X, counts = problem()
    w = np.random.default_rng(0).random(len(X))
    search = GridSearchCV(MODEL, {}, scoring=list(SCORERS), refit=False, cv=CV)
    search.fit(X, counts, sample_weight=w)
    for name in SCORERS:
        assert np.isfinite(search.cv_results_[f"mean_test_{name}"]).all()


def test_a_function_that_says_nothing_of_itself_gets_labels_and_predictions():
    X, counts = problem()
    fitted = MODEL.fit(X, counts)
    Q = KnownProbabilities(counts / counts.sum(axis=1, keepdims=True))
    for y in (counts, Q):
        seen = []

        def metric(labels, prediction, sample_weight=None, seen=seen):
            seen[:] = [labels, prediction, sample_weight]
            return 0.5

        assert LabelHistogramScorer(metric, sign=-1)(fitted, X, y) == -0.5
        assert type(seen[0]) is type(y)
        np.testing.assert_array_equal(np.asarray(seen[0]), np.asarray(y))
        np.testing.assert_allclose(seen[1], fitted.predict_proba(X))
        assert seen[2] is None
        w = np.arange(1.0, len(X) + 1)
        assert LabelHistogramScorer(metric)(fitted, X, y, sample_weight=w) == 0.5
        # weights are known up to their unit
        np.testing.assert_allclose(seen[2] / seen[2].sum(), w / w.sum())
