"""Out-of-fold predictions: nothing leaks, nothing is reordered, counts stay counts."""

from typing import ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, ShuffleSplit
from sklearn.model_selection import cross_val_predict as sklearn_cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from sklearn_lhcal.calibration import AlphaCalibration, TemperatureScaling
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import (
    Dirichlet,
    DirichletMixture,
    Ensemble,
    PointMass,
    predict_dist,
)
from sklearn_lhcal.label_histogram import KnownProbabilities, LabelHistogramClassifier
from sklearn_lhcal.metrics import get_scorer
from sklearn_lhcal.model_selection import StratifiedVotesKFold, cross_val_predict


@pytest.fixture
def data():
    return make_label_histograms(240, n_classes=3, n_raters=(1, 6), total=3.0, random_state=0)


GROUPS = np.random.default_rng(0).permutation(np.arange(240) // 8)


class Spy(StratifiedVotesKFold):
    """Records, for each split, how many rows it divides and the groups that it was given."""

    seen: ClassVar[list] = []

    def split(self, X, y, groups=None):
        Spy.seen.append((len(y), None if groups is None else np.asarray(groups)))
        yield from super().split(X, y, groups)


@pytest.fixture
def seen():
    Spy.seen = []
    return Spy.seen


# --- cross_val_predict ---


MODELS = {
    "logistic": LogisticRegression(),
    "no weights": KNeighborsClassifier(20),
    "pipeline": make_pipeline(StandardScaler(), GaussianNB()),
    "search": GridSearchCV(
        LabelHistogramClassifier(), {"estimator": [LogisticRegression(), GaussianNB()]}, cv=2
    ),
    "repeated": LabelHistogramClassifier(KNeighborsClassifier(20)),
    "forest": RandomForestClassifier(5, min_samples_leaf=10, random_state=0),
    "temperature": TemperatureScaling(cv=2),
    "alpha": AlphaCalibration(cv=2),
    "mixture": AlphaCalibration(
        RandomForestClassifier(2, min_samples_leaf=10, random_state=0), cv=2
    ),
}

KINDS = {"forest": Ensemble, "alpha": Dirichlet, "mixture": DirichletMixture}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_predictions_equal_a_loop_by_hand(data, name):
    """Rows in the order of X, for shuffled folds; frames whose names are not sorted.

    All three methods.
    """
    names = np.array(["c", "a", "b"])
    frame, columns = pd.DataFrame(data.counts, columns=names), [1, 2, 0]
    cv = KFold(3, shuffle=True, random_state=0)
    dist, proba, label = (
        cross_val_predict(MODELS[name], data.X, frame, cv=cv, method=method)
        for method in ("predict_dist", "predict_proba", "predict")
    )
    assert type(dist) is KINDS.get(name, PointMass)
    assert_allclose(dist.mean(), proba, atol=1e-12)
    assert_array_equal(label, np.array(["a", "b", "c"])[proba.argmax(axis=1)])
    for train, test in cv.split(data.X):
        fitted = LabelHistogramClassifier(MODELS[name]).fit(
            data.X[train], data.counts[train][:, columns]
        )
        by_hand = predict_dist(fitted, data.X[test])
        assert_allclose(proba[test], by_hand.mean(), atol=1e-12)
        assert_allclose(dist[test].mean(), by_hand.mean(), atol=1e-12)
        assert_allclose(dist[test].disagreement(), by_hand.disagreement(), atol=1e-12)
        assert_allclose(
            dist[test].posterior(data.counts[test][:, columns]).mean(),
            by_hand.posterior(data.counts[test][:, columns]).mean(),
            atol=1e-12,
        )


def test_labels_of_classifiers_without_probabilities(data):
    names = np.array(["no", "perhaps", "yes"])[data.counts.argmax(axis=1)]
    got = cross_val_predict(LinearSVC(), data.X, names, cv=KFold(3), method="predict")
    assert_array_equal(got, sklearn_cross_val_predict(LinearSVC(), data.X, names, cv=KFold(3)))


class ArrayLike:
    """No more than what becomes an array."""

    def __init__(self, a):
        self.a = a

    def __array__(self, dtype=None, copy=None):
        return self.a

    def __len__(self):
        return len(self.a)


@pytest.mark.parametrize(
    "form",
    [pd.DataFrame, pl.DataFrame, sp.coo_array, np.ndarray.tolist, ArrayLike, lambda X: {"a": X}],
)
def test_kinds_of_X(data, form):
    class Inner(ClassifierMixin, BaseEstimator):
        def fit(self, X, y, sample_weight=None):
            self.model_ = GaussianNB().fit(array(X), y, sample_weight)
            self.classes_ = self.model_.classes_
            return self

        def predict_proba(self, X):
            return self.model_.predict_proba(array(X))

    def array(X):
        X = X["a"] if isinstance(X, dict) else X
        return X.toarray() if sp.issparse(X) else np.asarray(X)

    X = pl.DataFrame(data.X, schema=list("abcde")) if form is pl.DataFrame else form(data.X)
    assert_allclose(
        cross_val_predict(Inner(), X, data.counts),
        cross_val_predict(GaussianNB(), data.X, data.counts),
    )


def test_forms_of_cv_and_groups(data, seen):
    X, y, base = data.X, data.counts, GaussianNB()
    expected = cross_val_predict(base, X, y, cv=StratifiedVotesKFold(3))
    assert_array_equal(cross_val_predict(base, X, y, cv=3), expected)
    assert_array_equal(
        cross_val_predict(base, X, y, cv=list(StratifiedVotesKFold(3).split(X, y))), expected
    )
    assert_array_equal(
        cross_val_predict(base, X, y),
        cross_val_predict(base, X, y, cv=StratifiedVotesKFold(5), verbose=0),
    )
    grouped = cross_val_predict(base, X, y, cv=3, groups=GROUPS)
    assert_array_equal(
        cross_val_predict(base, X, y, cv=StratifiedVotesKFold(3), groups=GROUPS), grouped
    )
    assert np.abs(grouped - expected).max() > 1e-6
    by_hand = cross_val_predict(base, X, y, cv=list(GroupKFold(3).split(X, groups=GROUPS)))
    assert_array_equal(
        cross_val_predict(base, X, y, cv=GroupKFold(3), groups=GROUPS.tolist()), by_hand
    )


def test_fit_parameters_are_split_row_by_row(data):
    w = np.random.default_rng(0).integers(1, 4, 240)
    cv = KFold(3)
    weighted = cross_val_predict(
        GaussianNB(), data.X, data.counts, cv=cv, fit_params={"sample_weight": w}
    )
    multiplied = cross_val_predict(GaussianNB(), data.X, data.counts * w[:, None], cv=cv)
    assert_allclose(weighted, multiplied)
    known = KnownProbabilities(data.proba)
    assert np.abs(cross_val_predict(GaussianNB(), data.X, known, cv=cv) - multiplied).max() > 1e-3


def test_progress_is_shown_on_demand(data, capsys):
    cross_val_predict(GaussianNB(), data.X, data.counts)
    assert capsys.readouterr() == ("", "")
    cross_val_predict(GaussianNB(), data.X, data.counts, verbose=1)
    assert "folds" in capsys.readouterr().err


class Witness(ClassifierMixin, BaseEstimator):
    """Keeps what reaches its fit."""

    accepts_label_histograms = True
    counts: ClassVar[list] = []

    def fit(self, X, y):
        Witness.counts.append((X[:, 0].astype(int), np.asarray(y)))
        self.classes_ = np.arange(2)
        return self

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)

    def predict(self, X):
        return np.zeros(len(X), dtype=int)


def test_scikit_learns_own_corrupts_counts_silently():
    """It encodes each column as labels: 7 votes become column number 2.

    Ours hands the counts on.
    """
    counts = np.array([[0, 7], [3, 1], [7, 0], [3, 7], [0, 1], [7, 3]])
    X = np.arange(6)[:, None]
    for function, intact in ((cross_val_predict, True), (sklearn_cross_val_predict, False)):
        Witness.counts = []
        function(Witness(), X, counts, cv=KFold(2), method="predict_proba")
        assert len(Witness.counts) == 2
        for rows, got in Witness.counts:
            assert np.array_equal(got, counts[rows]) == intact
    assert (
        max(got.max() for _, got in Witness.counts) == 3
    )  # the number of distinct values in a column, less one


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "decision_function"}, "method must be"),
        ({"cv": ShuffleSplit(3, random_state=0)}, "every sample into one test part"),
        ({"cv": [(np.arange(100), np.arange(100, 240))]}, "every sample into one test part"),
        ({"cv": "holdout"}, "cv"),
        ({"estimator": StandardScaler()}, "must be a classifier, got StandardScaler"),
        ({"X": np.zeros((239, 5))}, "X has 239 samples, expected 240"),
        ({"groups": GROUPS[:-1]}, "groups has 239 samples"),
        ({"y": np.zeros((240, 3), dtype=int)}, "samples without labels"),
        (
            {"estimator": KNeighborsClassifier(), "fit_params": {"sample_weight": np.ones(240)}},
            "takes no sample_weight",
        ),
    ],
)
def test_errors(data, change, message):
    arguments = {"estimator": GaussianNB(), "X": data.X, "y": data.counts, "cv": 3} | change
    with pytest.raises(ValueError, match=message):
        cross_val_predict(**arguments)


def test_a_class_missing_from_a_training_fold_is_named(data):
    frame = pd.DataFrame(data.counts + 1, columns=["a", "b", "rare"])
    frame["rare"] = np.arange(240) == 7
    with pytest.raises(ValueError, match=r"No label of class \['rare'\] in training fold 0"):
        cross_val_predict(GaussianNB(), data.X, frame, cv=KFold(3))


# --- searching and weighting LabelHistogramClassifier ---


@pytest.mark.slow
@pytest.mark.parametrize("routing", [False, True])
def test_searches_over_counts_with_weights(data, routing):
    """Weights reach the fit of each candidate and, where they are asked for, the scorer.

    In two processes.
    """
    w = np.random.default_rng(0).integers(1, 4, 240)
    frame = pd.DataFrame(data.counts, columns=list("bca"))
    grid = {"estimator__C": [1e-3, 1.0]}
    with config_context(enable_metadata_routing=routing):
        model, scorer = (
            LabelHistogramClassifier(LogisticRegression()),
            get_scorer("neg_label_log_loss"),
        )
        if routing:
            model.set_fit_request(sample_weight=True)
            scorer = clone(scorer).set_score_request(sample_weight=False)
        search = GridSearchCV(
            model, grid, cv=KFold(3), scoring=scorer, n_jobs=2, error_score="raise"
        )
        search.fit(data.X, frame, sample_weight=w)
    best = LabelHistogramClassifier(LogisticRegression(C=1.0)).fit(
        data.X, data.counts[:, [2, 0, 1]] * w[:, None]
    )
    assert search.best_params_ == {"estimator__C": 1.0}
    assert search.classes_.tolist() == ["a", "b", "c"]
    assert_allclose(search.predict_proba(data.X), best.predict_proba(data.X), atol=1e-4)


def test_a_search_inside_repetition_leaks_rows():
    """Copies of a row fall on both sides of its folds.

    1-NN seems to know labels that X does not tell.
    """
    rng = np.random.default_rng(0)
    X, counts = rng.normal(size=(150, 5)), np.eye(3, dtype=int)[rng.integers(0, 3, 150)] * 6
    folds = []

    class Rows(KFold):
        def split(self, X, y=None, groups=None):
            for train, test in super().split(X, y, groups):
                folds.append({tuple(x) for x in X[train]} & {tuple(x) for x in X[test]})
                yield train, test

    cv, neighbour = Rows(3, shuffle=True, random_state=0), KNeighborsClassifier(1)
    inside = LabelHistogramClassifier(
        GridSearchCV(neighbour, {"n_neighbors": [1]}, cv=cv, scoring="expected_accuracy")
    )
    inside.fit(X, counts)
    assert min(map(len, folds)) > 100
    assert inside.estimator_.best_score_ > 0.9
    folds.clear()
    outside = GridSearchCV(
        LabelHistogramClassifier(neighbour),
        {"estimator__n_neighbors": [1]},
        cv=cv,
        scoring="expected_accuracy",
    )
    outside.fit(X, counts)
    assert folds == [set()] * 3
    assert outside.best_score_ < 0.5  # the truth is 1/3
