"""The out-of-fold loop of calibrators: one for a chain, its folds, groups and weights."""

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.neighbors import KNeighborsClassifier

from sklearn_lhcal.calibration import AlphaCalibration, TemperatureScaling
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
