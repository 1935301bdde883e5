"""predict_dist: the distribution that each kind of estimator predicts."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from sklearn_lhcal.distributions import Dirichlet, Ensemble, PointMass, predict_dist
from sklearn_lhcal.label_histogram import LabelHistogramClassifier

IRIS = load_iris(return_X_y=True)

VOTERS = [
    ("logistic", make_pipeline(StandardScaler(), LogisticRegression())),
    ("gone", "drop"),
    ("tree", DecisionTreeClassifier(max_depth=2, random_state=0)),
    ("bayes", GaussianNB()),
]

ENSEMBLES = {
    "forest": (RandomForestClassifier(7, max_depth=3, random_state=0), 7),
    "extra trees": (ExtraTreesClassifier(7, max_depth=3, random_state=0), 7),
    "bagging": (
        BaggingClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=7, random_state=0),
        7,
    ),
    "bagging of features": (
        BaggingClassifier(GaussianNB(), n_estimators=7, max_features=2, random_state=0),
        7,
    ),
    "bagging without all classes": (
        BaggingClassifier(KNeighborsClassifier(1), n_estimators=7, max_samples=4, random_state=0),
        7,
    ),
    "voting": (VotingClassifier([VOTERS[0], *VOTERS[2:]], voting="soft"), 3),
    "voting with weights": (
        VotingClassifier([VOTERS[0], *VOTERS[2:]], voting="soft", weights=[1, 2, 5]),
        3,
    ),
    "voting with a dropped member": (
        VotingClassifier(VOTERS, voting="soft", weights=[1, 9, 2, 5]),
        3,
    ),
}

WRAPPERS = {
    "itself": lambda e: e,
    "pipeline": lambda e: make_pipeline(StandardScaler(), e),
    "pipeline of one": lambda e: make_pipeline(e),
    "search": lambda e: GridSearchCV(e, {}, cv=2),
    "search in a pipeline": lambda e: make_pipeline(StandardScaler(), GridSearchCV(e, {}, cv=2)),
    "pipeline in a search": lambda e: GridSearchCV(make_pipeline(StandardScaler(), e), {}, cv=2),
    "label histograms": LabelHistogramClassifier,
}


@pytest.mark.parametrize("name", ENSEMBLES)
def test_predict_dist_of_a_fitted_ensemble(name):
    X, y = IRIS
    estimator, n_members = ENSEMBLES[name]
    fitted = clone(estimator).fit(X, y)
    d = predict_dist(fitted, X)
    assert isinstance(d, Ensemble)
    assert len(d.weights) == n_members
    np.testing.assert_allclose(d.mean(), fitted.predict_proba(X), atol=1e-12)
    assert d.mutual_information().max() > 0.01


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("name", ["forest", "voting with a dropped member", None])
def test_predict_dist_sees_through_wrappers(name, wrapper):
    X, y = IRIS
    base = LogisticRegression(max_iter=1000) if name is None else clone(ENSEMBLES[name][0])
    fitted = WRAPPERS[wrapper](base).fit(X, y)
    for estimator in (fitted, FrozenEstimator(fitted), make_pipeline(FrozenEstimator(fitted))):
        d = predict_dist(estimator, X)
        assert isinstance(d, PointMass if name is None else Ensemble)
        np.testing.assert_allclose(d.mean(), estimator.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize("name", ["forest", "bagging", "bagging of features", "voting"])
def test_predict_dist_takes_frames(name):
    X, y = pd.DataFrame(IRIS[0], columns=list("pqrs")), IRIS[1]
    fitted = clone(ENSEMBLES[name][0]).fit(X, y)
    np.testing.assert_allclose(predict_dist(fitted, X).mean(), fitted.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize(
    "name", ["forest", "extra trees", "bagging", "bagging without all classes"]
)
def test_predict_dist_takes_sparse_matrices(name):
    X, y = sp.csr_array(IRIS[0]), IRIS[1]
    fitted = clone(ENSEMBLES[name][0]).fit(X, y)
    np.testing.assert_allclose(predict_dist(fitted, X).mean(), fitted.predict_proba(X), atol=1e-12)


def test_predict_dist_of_string_classes_and_two_classes():
    X, y = IRIS
    names = np.array(["b", "a"])[(y == 1).astype(int)]
    for estimator, _ in ENSEMBLES.values():
        fitted = clone(estimator).fit(X, names)
        np.testing.assert_allclose(
            predict_dist(fitted, X).mean(), fitted.predict_proba(X), atol=1e-12
        )


def test_forests_that_know_gaps_keep_them():
    X, y = IRIS
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    for estimator in (RandomForestClassifier(3, random_state=0), BaggingClassifier(random_state=0)):
        fitted = estimator.fit(X, y)
        np.testing.assert_allclose(
            predict_dist(fitted, X).mean(), fitted.predict_proba(X), atol=1e-12
        )


def test_other_classifiers_are_point_masses():
    X, y = IRIS
    for estimator in (
        AdaBoostClassifier(n_estimators=3),
        GaussianNB(),
        make_pipeline(GaussianNB()),
    ):
        d = predict_dist(estimator.fit(X, y), X)
        assert isinstance(d, PointMass)
        np.testing.assert_allclose(d.mean(), estimator.predict_proba(X), atol=1e-12)


def test_predict_dist_of_a_histogram_classifier_with_an_unseen_class():
    X, y = IRIS
    counts = np.eye(4, dtype=int)[y]
    fitted = LabelHistogramClassifier(RandomForestClassifier(3, random_state=0)).fit(X, counts)
    assert predict_dist(fitted, X).n_classes == 4
    np.testing.assert_allclose(predict_dist(fitted, X).mean(), fitted.predict_proba(X), atol=1e-12)


class Own:
    """An estimator that offers its own distribution."""

    def predict_dist(self, X):
        return Dirichlet(np.ones((len(X), 2)))


def test_predict_dist_takes_the_estimators_own_first():
    assert isinstance(predict_dist(Own(), np.zeros((3, 1))), Dirichlet)


@pytest.mark.parametrize(
    ("own", "first"), [(["no", "yes"], 0.2), (["yes", "no"], 0.8), ([0, 1], 0.2)]
)
def test_names_and_their_order_are_those_of_the_estimator(own, first):
    """Names that are no names of its classes are numbers that a model gave to counts."""

    class Says:
        classes_ = np.array(["no", "yes"])

        def predict_dist(self, X):
            return PointMass([[0.2, 0.8]]).with_classes(own)

    said = predict_dist(Says(), [[0]])
    assert said.classes.tolist() == ["no", "yes"]
    assert said.mean()[0, 0] == first
