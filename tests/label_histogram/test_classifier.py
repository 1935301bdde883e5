"""LabelHistogramClassifier: any classifier trained on counts."""

import numpy as np
import pandas as pd
import pytest
from count_forms import FORMS
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_lhcal.calibration import TemperatureScaling
from sklearn_lhcal.label_histogram import KnownProbabilities, LabelHistogramClassifier
from sklearn_lhcal.metrics import get_scorer, label_log_loss


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    Q = np.exp(X @ rng.normal(size=(3, 3)))
    counts = np.array([rng.multinomial(rng.integers(1, 5), q / q.sum()) for q in Q])
    return X, counts


def repeated(X, counts):
    """One row per label."""
    rows, codes = np.nonzero(counts)
    times = counts[rows, codes]
    return X[np.repeat(rows, times)], np.repeat(codes, times)


@pytest.mark.parametrize(
    "base", [LogisticRegression(), GaussianNB(), KNeighborsClassifier(5), DummyClassifier()]
)
def test_training_on_counts_is_training_on_single_labels(problem, base):
    """Weights where the classifier takes them, repetition where not.

    Either way one row per label.
    """
    X, counts = problem
    proba = LabelHistogramClassifier(base).fit(X, counts).predict_proba(X)
    np.testing.assert_allclose(
        proba, clone(base).fit(*repeated(X, counts)).predict_proba(X), rtol=1e-3, atol=1e-4
    )


def test_sample_weights_multiply_counts(problem):
    X, counts = problem
    w = np.random.default_rng(1).integers(1, 4, len(X))
    weighted = LabelHistogramClassifier(GaussianNB()).fit(X, counts, sample_weight=w)
    multiplied = LabelHistogramClassifier(GaussianNB()).fit(X, counts * w[:, None])
    np.testing.assert_allclose(weighted.predict_proba(X), multiplied.predict_proba(X), rtol=1e-10)


def test_known_probabilities_weigh_every_class(problem):
    X, counts = problem
    Q = KnownProbabilities(counts / counts.sum(axis=1, keepdims=True))
    known = LabelHistogramClassifier(GaussianNB()).fit(X, Q)
    weighted = LabelHistogramClassifier(GaussianNB()).fit(
        X, counts, sample_weight=1 / counts.sum(axis=1)
    )
    np.testing.assert_allclose(known.predict_proba(X), weighted.predict_proba(X), rtol=1e-10)


def test_single_labels_train_the_classifier_as_ever(problem):
    X, _ = problem
    y = np.array(["u", "v", "w"])[np.arange(len(X)) % 3]
    wrapped = LabelHistogramClassifier().fit(X, y)
    assert wrapped.classes_.tolist() == ["u", "v", "w"]
    np.testing.assert_array_equal(
        wrapped.predict_proba(X), LogisticRegression().fit(X, y).predict_proba(X)
    )
    np.testing.assert_array_equal(wrapped.predict(X), LogisticRegression().fit(X, y).predict(X))


class Recorder(ClassifierMixin, BaseEstimator):
    """Takes label histograms, keeps what it was given."""

    accepts_label_histograms = True

    def fit(self, X, y, sample_weight=None):
        self.y_, self.weight_ = y, sample_weight
        self.classes_ = np.arange(y.shape[1])
        return self

    def predict_proba(self, X):
        return np.tile(self.y_.sum(axis=0) / self.y_.sum(), (len(X), 1))


@pytest.mark.parametrize(
    "wrap",
    [lambda e: e, lambda e: make_pipeline(StandardScaler(), e)],
    ids=["itself", "at the end of a pipeline"],
)
def test_counts_go_as_they_are_to_whoever_takes_them(problem, wrap):
    X, counts = problem
    fitted = LabelHistogramClassifier(wrap(Recorder())).fit(X, counts).estimator_
    recorder = fitted[-1] if hasattr(fitted, "steps") else fitted
    np.testing.assert_array_equal(recorder.y_, counts)


def test_named_columns_are_sorted_at_fit_and_aligned_afterwards(problem):
    X, counts = problem
    frame = pd.DataFrame(counts, columns=["c", "a", "b"])
    model = LabelHistogramClassifier().fit(X, frame)
    assert model.classes_.tolist() == ["a", "b", "c"]
    plain = LabelHistogramClassifier().fit(X, counts[:, [1, 2, 0]])
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
    assert (
        model.score(X, frame)
        == model.score(X, frame[["b", "c", "a"]])
        == plain.score(X, counts[:, [1, 2, 0]])
    )


@pytest.mark.parametrize("wrap", [LabelHistogramClassifier, TemperatureScaling])
def test_labels_of_a_class_never_seen_count_as_wrong(wrap):
    """As scikit-learn's own score does, and the scorer of the same name."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    seen = np.where(X[:, 0] > 0, "c", "a")
    y = np.append(["b", "b", "d"], seen[3:])
    model = wrap(LogisticRegression()).fit(X, seen)
    for labels in (y, pd.get_dummies(y).astype(int)):
        score = model.score(X, labels)
        assert score == pytest.approx(accuracy_score(y, model.predict(X)), rel=1e-12)
        assert score == pytest.approx(get_scorer("expected_accuracy")(model, X, labels), rel=1e-12)


def test_score_is_expected_accuracy(problem):
    X, counts = problem
    model = LabelHistogramClassifier().fit(X, counts)
    mu = counts / counts.sum(axis=1, keepdims=True)
    expected = mu[np.arange(len(X)), model.predict_proba(X).argmax(axis=1)]
    assert model.score(X, counts) == pytest.approx(expected.mean(), rel=1e-12)
    w = np.arange(1.0, len(X) + 1)
    assert model.score(X, counts, sample_weight=w) == pytest.approx(
        np.average(expected, weights=w), rel=1e-12
    )


def test_a_class_without_labels_gets_probability_0(problem):
    X, counts = problem
    wide = np.insert(counts, 1, 0, axis=1)
    model = LabelHistogramClassifier().fit(X, wide)
    proba = model.predict_proba(X)
    assert model.classes_.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(proba[:, 1], 0)
    np.testing.assert_allclose(
        proba[:, [0, 2, 3]], LabelHistogramClassifier().fit(X, counts).predict_proba(X), rtol=1e-6
    )


@pytest.mark.parametrize("form", ["csr array", "pandas Int64", "polars", "uint8", "list"])
def test_every_form_of_counts_trains_the_same_model(problem, form):
    X, counts = problem
    model = LabelHistogramClassifier(GaussianNB()).fit(X, FORMS[form](counts))
    plain = LabelHistogramClassifier(GaussianNB()).fit(X, counts)
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))


def test_searchable_on_counts(problem):
    X, counts = problem
    search = GridSearchCV(
        LabelHistogramClassifier(LogisticRegression()), {"estimator__C": [1e-4, 1.0]}, cv=3
    )
    search.fit(X, counts)
    assert search.best_params_ == {"estimator__C": 1.0}
    pipe = make_pipeline(StandardScaler(), LabelHistogramClassifier())
    assert np.isfinite(cross_val_score(pipe, X, counts, cv=3, error_score="raise")).all()


def test_fit_changes_neither_parameters_nor_data(problem):
    X, counts = problem
    X.flags.writeable = counts.flags.writeable = False
    base = LogisticRegression()
    model = LabelHistogramClassifier(base).fit(X, counts)
    assert model.estimator is base
    assert not hasattr(base, "classes_")
    assert label_log_loss(counts, model.predict_proba(X)) < np.log(3)
