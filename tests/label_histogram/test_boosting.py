"""LightGBM and XGBoost on counts: the library's own objective on repeated rows is the oracle."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.label_histogram import LabelHistogramClassifier

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")

# A leaf that holds almost no curvature splits by rounding; min_child_weight keeps such leaves away.
# Where LightGBM counts rows, repeated rows count several times: no limit of that kind here.
BOOSTERS = [
    lightgbm.LGBMClassifier(
        n_estimators=8,
        num_leaves=7,
        min_child_samples=0,
        min_data_in_bin=1,
        min_child_weight=5.0,
        n_jobs=1,
        verbose=-1,
    ),
    xgboost.XGBClassifier(n_estimators=8, max_depth=3, min_child_weight=5.0, n_jobs=1),
]
each_booster = pytest.mark.parametrize("booster", BOOSTERS, ids=["LightGBM", "XGBoost"])


def histograms(n_classes, n=200):
    data = make_label_histograms(n, n_classes=n_classes, n_raters=5, random_state=0)
    # few distinct values: quantiles that bound the bins would else move where rows are repeated
    return np.round(data.X, 1), data.counts


def on_repeated_rows(booster, X, counts, sample_weight=1.0):
    """The library's own objective, from margins that are the logarithms of class frequencies."""
    weighted = counts * np.reshape(sample_weight, (-1, 1))
    rows, codes = np.nonzero(weighted)
    prior = np.log(weighted.sum(axis=0) / weighted.sum())
    model, weight = clone(booster), weighted[rows, codes]
    if isinstance(model, lightgbm.LGBMClassifier):
        # it begins with the frequencies by itself
        proba = model.fit(X[rows], codes, sample_weight=weight).booster_.predict(X)
    else:
        first = prior if len(prior) > 2 else prior[1] - prior[0]
        start, again = (np.tile(first, (n, 1)).squeeze() for n in (len(rows), len(X)))
        model.fit(X[rows], codes, sample_weight=weight, base_margin=start)
        proba = model.predict_proba(X, base_margin=again)
    return proba if proba.ndim == 2 else np.column_stack([1 - proba, proba])


@each_booster
@pytest.mark.parametrize("n_classes", [2, 4])
def test_probabilities_are_those_of_repeated_rows(booster, n_classes):
    X, counts = histograms(n_classes)
    expected = on_repeated_rows(booster, X, counts)
    model = LabelHistogramClassifier(booster).fit(X, counts)
    # the libraries keep gradients in float32
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-5)
    assert np.ptp(expected[:, 0]) > 0.1


@each_booster
def test_weights_multiply_counts(booster):
    X, counts = histograms(3)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(X))
    expected = on_repeated_rows(booster, X, counts, weight)
    model = LabelHistogramClassifier(booster).fit(X, counts, sample_weight=weight)
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-5)


@each_booster
def test_many_copies_of_small_weight_are_one_row(booster):
    # more rows than a block of the objective holds
    X, counts = histograms(3)
    expected = LabelHistogramClassifier(booster).fit(X, counts).predict_proba(X)
    many = [np.tile(a, (50, 1)) for a in (X, counts)]
    model = LabelHistogramClassifier(booster).fit(*many, sample_weight=np.full(10_000, 1 / 50))
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-5)


@each_booster
def test_named_classes_and_columns_of_frames(booster):
    pd = pytest.importorskip("pandas")
    X, counts = histograms(3)
    X = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    plain = LabelHistogramClassifier(booster).fit(X, counts)
    named = pd.DataFrame(counts[:, [2, 0, 1]], columns=["c", "a", "b"])
    model = LabelHistogramClassifier(booster).fit(X, named)
    assert list(model.classes_) == ["a", "b", "c"]
    assert list(model.feature_names_in_) == list(X.columns)
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=1e-6)
    with pytest.raises(ValueError, match="feature names"):
        model.predict_proba(X[X.columns[::-1]])


@each_booster
def test_a_class_without_labels_has_probability_0(booster):
    X, counts = histograms(3)
    gap = np.insert(counts, 1, 0, axis=1)
    proba = LabelHistogramClassifier(booster).fit(X, gap).predict_proba(X)
    assert (proba[:, 1] == 0).all()
    expected = LabelHistogramClassifier(booster).fit(X, counts).predict_proba(X)
    np.testing.assert_allclose(proba[:, [0, 2, 3]], expected, atol=1e-6)


@each_booster
def test_pickles_hold_no_labels(booster):
    X, counts = histograms(3)
    model = LabelHistogramClassifier(booster).fit(X, counts)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert model.estimator_.model_.get_params()["objective"].counts is None


@each_booster
def test_searches_go_around_the_wrapper(booster):
    X, counts = histograms(3)
    grid = {"estimator__n_estimators": [1, 8]}
    search = GridSearchCV(
        LabelHistogramClassifier(booster), grid, cv=2, scoring="neg_label_log_loss"
    )
    search.fit(X, counts)
    assert search.best_params_ == {"estimator__n_estimators": 8}


@each_booster
def test_refusals(booster):
    X, counts = histograms(3)
    model = LabelHistogramClassifier(booster)
    with pytest.raises(ValueError, match="eval_set is not taken"):
        model.fit(X, counts, eval_set=[(X, counts)])
    for name in ("init_score", "base_margin"):
        with pytest.raises(ValueError, match=f"{name} is not taken"):
            model.fit(X, counts, **{name: np.zeros(counts.shape)})
    with pytest.raises(ValueError, match="labels of one class only"):
        model.fit(X, np.eye(3, dtype=int)[np.zeros(len(X), dtype=int)])
    weighted = LabelHistogramClassifier(clone(booster).set_params(scale_pos_weight=2.0))
    with pytest.raises(ValueError, match="scale_pos_weight"):
        weighted.fit(X, counts)
