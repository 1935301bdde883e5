"""Annotations arrive at fit and at scorers with their raters.

Imports are few: other processes import this module too.
"""

import pickle
from copy import deepcopy

import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    ShuffleSplit,
    cross_val_score,
    cross_validate,
    learning_curve,
    permutation_test_score,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import resample, shuffle

from sklearn_lhcal.label_histogram import Annotations, LabelHistogramClassifier
from sklearn_lhcal.model_selection import BallCarvingSplit, StratifiedVotesKFold, check_cv

RATERS = np.array(["Ann", "Bob", "Cid", "Dora", "Eve"])
CLASSES = np.array(["cat", "dog", "fox"])
X = np.arange(60.0)[:, None]


def ratings():
    """The set of (row, rater, class) of an incomplete study; every row has a rating."""
    rng = np.random.default_rng(0)
    row, rater = (a.ravel() for a in np.indices((60, 5)))
    kept = (rng.random(300) > 0.3) | (rater == 0)
    label = CLASSES[rng.integers(3, size=300)]
    columns = (row[kept].tolist(), RATERS[rater][kept].tolist(), label[kept].tolist())
    return list(zip(*columns, strict=True))


@pytest.fixture
def y():
    return Annotations.from_long(*zip(*ratings(), strict=True))


def said(y):
    columns = (y.items[y.row], y.raters[y.rater], y.classes[y.label])
    return set(zip(*(a.tolist() for a in columns), strict=True))


class Asks(ClassifierMixin, BaseEstimator):
    """Fits nothing; fails unless its y holds raters, those of the rows it was given."""

    accepts_label_histograms = True

    def __init__(self, c=1.0):
        self.c = c

    def fit(self, X, y):
        check_arrived(X, y)
        self.classes_ = y.classes
        return self

    def predict_proba(self, X):
        return np.full((len(X), 3), 1 / 3)

    def predict(self, X):
        return self.classes_[np.zeros(len(X), dtype=int)]

    def score(self, X, y):
        return check_arrived(X, y)


def check_arrived(X, y):
    """The one feature is the row: the triples of these rows, and no others."""
    assert isinstance(y, Annotations), f"raters were lost: {type(y)}"
    rows = set(np.asarray(X)[:, 0].round().astype(int).tolist())
    assert said(y) == {triple for triple in ratings() if triple[0] in rows}
    return 1.0


def scorer(estimator, X, y):
    return check_arrived(X, y)


def test_splitters_and_searches_hand_raters_on(y):
    groups = np.arange(60) // 3
    cross_validate(Asks(), X, y, cv=KFold(3), scoring=scorer, error_score="raise")
    cross_validate(Asks(), X, y, cv=GroupKFold(3), groups=groups, error_score="raise")
    cross_validate(Asks(), X, y, cv=ShuffleSplit(2, random_state=0), error_score="raise")
    cross_validate(Asks(), X, y, cv=LeaveOneGroupOut(), groups=groups // 4, error_score="raise")
    for ours in (StratifiedVotesKFold(3), BallCarvingSplit(random_state=0), check_cv(3)):
        cross_val_score(Asks(), X, y, cv=ours, error_score="raise")
    cross_val_score(Asks(), X, y, cv=StratifiedVotesKFold(3), groups=groups, error_score="raise")
    pipe = make_pipeline(FunctionTransformer(), Asks())
    search = GridSearchCV(pipe, {"asks__c": [1, 2]}, scoring=scorer, cv=3, error_score="raise")
    search.fit(X, y)
    learning_curve(Asks(), X, y, cv=3, scoring=scorer, error_score="raise", shuffle=True)
    permutation = permutation_test_score(
        LabelHistogramClassifier(), X, y, cv=3, n_permutations=3, scoring="neg_epistemic_loss"
    )
    assert permutation[1].shape == (3,)


@pytest.mark.slow
def test_raters_arrive_in_other_processes(y):
    pipe = make_pipeline(FunctionTransformer(), Asks())
    search = GridSearchCV(pipe, {"asks__c": [1, 2]}, cv=2, n_jobs=2, error_score="raise")
    search.fit(X, y)
    assert search.best_score_ == 1


def test_single_steps_hand_raters_on(y):
    train, test, _, _ = train_test_split(y, X, random_state=0)
    assert said(train) | said(test) == said(y)
    assert not said(train) & said(test)
    assert said(shuffle(y, random_state=0)) == said(y)
    assert said(resample(y, random_state=0)) <= said(y)
    for copied in (deepcopy(y), pickle.loads(pickle.dumps(y)), clone([y], safe=False)[0]):
        assert said(copied) == said(y)
        np.testing.assert_array_equal(copied.counts, y.counts)
    assert joblib.hash(y) == joblib.hash(deepcopy(y)) != joblib.hash(y[::-1])


def test_a_meta_estimator_hands_raters_to_the_classifier_inside(y):
    fitted = LabelHistogramClassifier(Asks()).fit(X, y)
    np.testing.assert_array_equal(fitted.predict_proba(X), np.full((60, 3), 1 / 3))
