"""The out-of-fold loop of calibrators: one for a chain, its folds, groups and weights."""

import pickle
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_softmax
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from sklearn_lhcal.calibration import (
    AlphaCalibration,
    BiasCorrectedTemperatureScaling,
    TemperatureScaling,
)
from sklearn_lhcal.distributions import Mixture, predict_dist
from sklearn_lhcal.metrics import get_scorer


class Recorder(ClassifierMixin, BaseEstimator):
    """Counts its fits, and takes label histograms as they are."""

    accepts_label_histograms = True
    fits: ClassVar[list] = []

    def fit(self, X, y, sample_weight=None, note=None):
        Recorder.fits.append((len(X), y.copy(), sample_weight, note))
        self.prior_ = np.asarray(y).sum(axis=0) + 1.0
        self.classes_ = np.arange(y.shape[1])
        return self

    def predict_proba(self, X):
        return np.tile(self.prior_ / self.prior_.sum(), (len(X), 1))


@pytest.fixture
def fits():
    Recorder.fits = []
    return Recorder.fits


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_one_loop_for_a_whole_chain(data, fits, depth):
    estimator = Recorder()
    for _ in range(depth):
        estimator = TemperatureScaling(estimator)
    estimator.fit(data.X, data.counts)
    assert [n for n, *_ in fits] == [240] * 5 + [300]  # five folds, then everything, once


@pytest.mark.parametrize(
    ("cv", "sizes"),
    [
        (3, [200] * 3 + [300]),
        ("holdout", [240]),
        (KFold(2), [150, 150, 300]),
        ([([0, 1, 2], [3, 4])], [3, 300]),
    ],
)
def test_forms_of_cv(data, fits, cv, sizes):
    TemperatureScaling(Recorder(), cv=cv).fit(data.X, data.counts)
    assert [n for n, *_ in fits] == sizes


def test_inner_cv_counts_where_the_outer_sets_none(data, fits):
    AlphaCalibration(TemperatureScaling(Recorder(), cv=2)).fit(data.X, data.counts)
    assert len(fits) == 3


def test_frozen_estimators_are_not_refitted_at_any_level(data, fits):
    frozen = FrozenEstimator(Recorder().fit(data.X, data.counts))
    chain = AlphaCalibration(TemperatureScaling(frozen)).fit(data.X[:50], data.counts[:50])
    assert len(fits) == 1
    assert_array_equal(chain.classes_, [0, 1, 2])


def test_out_of_fold_scores_are_out_of_fold(data):
    """The temperature equals that of scores made by hand, fold by fold."""
    cv = KFold(4, shuffle=True, random_state=0)
    calibrator = TemperatureScaling(LogisticRegression(), cv=cv).fit(data.X, data.counts)
    scores, rows = [], []
    for train, test in cv.split(data.X):
        i, k = np.nonzero(data.counts[train])
        model = LogisticRegression().fit(
            data.X[train][i], k, sample_weight=data.counts[train][i, k]
        )
        scores.append(model.predict_log_proba(data.X[test]))
        rows.append(test)
    by_hand = TemperatureScaling("logits").fit(
        np.concatenate(scores), data.counts[np.concatenate(rows)]
    )
    assert_allclose(calibrator.temperature_, by_hand.temperature_, rtol=1e-6)


@pytest.mark.parametrize(
    "base",
    [
        LogisticRegression(),
        LinearSVC(),
        RandomForestClassifier(5, max_depth=4, random_state=0),
        make_pipeline(StandardScaler(), GaussianNB()),
    ],
    ids=lambda base: type(base).__name__,
)
def test_an_ensemble_is_the_mean_of_the_folds(base, data):
    """The mean of what the calibrator of saved out-of-fold outputs makes of the folds' models."""
    y = data.counts.argmax(axis=1)
    # of two classes, for the decision function
    y = np.minimum(y, 1) if isinstance(base, LinearSVC) else y
    cv = KFold(4)
    found = TemperatureScaling(base, ensemble=True, cv=cv).fit(data.X, y)

    def output(model, X):
        if isinstance(model, LinearSVC):
            u = model.decision_function(X)
            return log_softmax(np.column_stack([0 * u, u]), axis=1)
        return model.predict_proba(X)

    models = [clone(base).fit(data.X[train], y[train]) for train, _ in cv.split(data.X)]
    parts = zip(models, cv.split(data.X), strict=True)
    saved = np.concatenate([output(model, data.X[test]) for model, (_, test) in parts])
    response = "logits" if isinstance(base, LinearSVC) else "proba"
    by_hand = TemperatureScaling(response).fit(saved, y)
    each = [by_hand.predict_proba(output(model, data.X)) for model in models]
    assert_allclose(found.predict_proba(data.X), np.mean(each, axis=0), rtol=1e-4)
    assert_allclose(np.exp(found.predict_log_proba(data.X)), np.mean(each, axis=0), rtol=1e-4)
    assert_array_equal(found.estimator_.classes_, found.classes_)
    assert found.n_features_in_ == data.X.shape[1]
    again = pickle.loads(pickle.dumps(found))
    assert_allclose(again.predict_proba(data.X), found.predict_proba(data.X), rtol=1e-12)
    chain = BiasCorrectedTemperatureScaling(found, cv=cv).fit(data.X, y)
    assert_allclose(chain.estimator_.predict_proba(data.X), np.mean(each, axis=0), rtol=1e-4)


def test_an_ensemble_of_forests_has_all_trees(data):
    forest = RandomForestClassifier(5, random_state=0)
    model = TemperatureScaling(forest, cv=3, ensemble=True).fit(data.X, data.counts)
    trees = predict_dist(model.estimator_, data.X)
    assert trees.weights.shape == (15, 300)
    assert_allclose(trees.mean(), model.estimator_.predict_proba(data.X))
    chain = AlphaCalibration(model).fit(data.X, data.counts)
    assert isinstance(chain.predict_dist(data.X), Mixture)


def test_an_ensemble_of_dirichlets_is_their_mixture(data):
    """The probability that two raters disagree is the mean of those of the folds' models."""
    cv = KFold(3)
    found = AlphaCalibration(LogisticRegression(), ensemble=True, cv=cv).fit(data.X, data.counts)
    saved = np.concatenate(
        [
            model.predict_proba(data.X[test])
            for model, (_, test) in zip(found.estimator_.models, cv.split(data.X), strict=True)
        ]
    )
    by_hand = AlphaCalibration("proba").fit(saved, data.counts)
    each = [by_hand.predict_dist(m.predict_proba(data.X)) for m in found.estimator_.models]
    disagreement = np.mean([dist.disagreement() for dist in each], axis=0)
    assert_allclose(found.predict_dist(data.X).disagreement(), disagreement, rtol=1e-4)
    after = np.mean([dist.mean() for dist in each], axis=0)
    assert_allclose(found.predict_proba(data.X), after, rtol=1e-4)


@pytest.mark.parametrize(
    ("estimator", "cv", "message"),
    [("logits", None, "one model a fold"), (LogisticRegression(), "holdout", "one model a fold")],
)
def test_what_is_no_ensemble(estimator, cv, message, data):
    model = TemperatureScaling(estimator, cv=cv, ensemble=True)
    with pytest.raises(ValueError, match=message):
        model.fit(data.X[:, :3], data.counts)


def test_chain_maps_are_fitted_in_order_on_the_same_scores(data, logits):
    chain = AlphaCalibration(TemperatureScaling("logits")).fit(logits, data.counts)
    inner = TemperatureScaling("logits").fit(logits, data.counts)
    outer = AlphaCalibration("proba").fit(inner.predict_proba(logits), data.counts)
    assert_allclose(chain.estimator_.temperature_, inner.temperature_, rtol=1e-12)
    assert_allclose(
        [*chain.coef_, chain.intercept_], [*outer.coef_, outer.intercept_], rtol=1e-6, atol=1e-9
    )


def test_groups_go_to_the_splitter_and_parameters_row_by_row_to_the_classifier(data, fits):
    groups = np.repeat(np.arange(30), 10)
    seen = []

    class Spy(GroupKFold):
        def split(self, X, y=None, groups=None):
            for train, test in super().split(X, y, groups):
                seen.append(set(groups[train]) & set(groups[test]))
                yield train, test

    TemperatureScaling(Recorder(), cv=Spy(3)).fit(
        data.X, data.counts, groups=groups, note=np.arange(300)
    )
    assert seen == [set()] * 3
    assert [len(note) for *_, note in fits] == [200, 200, 200, 300]


@pytest.mark.parametrize("cv", [5, "holdout"])
def test_groups_are_kept_together_by_default_splits(data, fits, cv):
    groups = np.repeat(np.arange(30), 10)
    AlphaCalibration(TemperatureScaling(Recorder()), cv=cv).fit(
        data.X, data.counts, groups=groups, note=groups
    )
    assert len(fits) == {5: 6, "holdout": 1}[cv]
    for n, _, _, note in fits:
        assert n % 10 == 0
        assert (np.unique(note, return_counts=True)[1] == 10).all()


def test_weights_reach_the_classifier_and_the_map(data, fits):
    w = np.arange(300) / 100
    TemperatureScaling(Recorder(), cv=KFold(3)).fit(data.X, data.counts, sample_weight=w)
    assert_array_equal(fits[0][2], w[100:])
    with pytest.warns(UserWarning, match="takes no sample_weight in fit"):
        TemperatureScaling(KNeighborsClassifier(60)).fit(data.X, data.counts, sample_weight=w)


def test_metadata_routing(data, fits):
    w, groups = np.arange(300) / 100, np.repeat(np.arange(30), 10)
    with config_context(enable_metadata_routing=True):
        base = Recorder().set_fit_request(sample_weight=True, note=False)
        chain = AlphaCalibration(TemperatureScaling(base), cv=GroupKFold(3)).set_fit_request(
            sample_weight=True
        )
        chain.fit(data.X, data.counts, sample_weight=w, groups=groups)
        assert [len(w) for _, _, w, _ in fits] == [200, 200, 200, 300]
        fits.clear()
        chain.set_params(estimator__estimator=Recorder().set_fit_request(sample_weight=False))
        chain.fit(data.X, data.counts, sample_weight=w, groups=groups)
        assert [w for _, _, w, _ in fits] == [None] * 4
        search = GridSearchCV(
            TemperatureScaling(cv=GroupKFold(3)).set_fit_request(sample_weight=True),
            {
                "estimator": [
                    LogisticRegression(C=c).set_fit_request(sample_weight=True) for c in (0.1, 1)
                ]
            },
            scoring=get_scorer("neg_label_log_loss").set_score_request(sample_weight=True),
            cv=GroupKFold(2),
        )
        search.fit(data.X, data.counts, sample_weight=w, groups=groups)
        TemperatureScaling().fit(data.X, data.counts, sample_weight=w)


# --- errors ---


def test_a_class_missing_from_a_training_fold_is_named(data):
    frame = pd.DataFrame(data.counts * [1, 1, 0] + [1, 1, 0], columns=["a", "b", "rare"])
    frame.loc[7, "rare"] = 1
    with pytest.raises(ValueError, match=r"No label of class \['rare'\] in training fold 0"):
        TemperatureScaling().fit(data.X, frame)


@pytest.mark.parametrize("estimator", ["proba", "frozen"])
def test_misspelt_arguments_of_fit_are_errors(estimator, data):
    X = data.prediction if estimator == "proba" else data.X
    inner = (
        estimator
        if estimator == "proba"
        else FrozenEstimator(LogisticRegression().fit(data.X, data.counts.argmax(1)))
    )
    with pytest.raises(TypeError, match="sample_weights"):
        TemperatureScaling(inner).fit(X, data.counts, sample_weights=np.ones(len(X)))
