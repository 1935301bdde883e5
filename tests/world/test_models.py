"""A part of the matrix of models: what people calibrate comes out calibrated.

`world_cases` says what a cell must hold; ``benchmarks/world.py`` runs all cells, with more splits.
"""

import warnings

import numpy as np
import pytest
import world_cases as world
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_predict, cross_val_score, train_test_split

# as LightGBM 4.6 makes scikit-learn say of every array
pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")
ROWS = world.rows()
# what one split may differ by, where all splits may by two standard errors of their mean
SLACK = 0.03
# Some of each kind in the fast part: one that prints zeros, has no probabilities, or a sampler.
FAST = ("forest, leaves of 5", "naive Bayes", "SVC", "SMOTE, logistic regression")


def parts(names, fast):
    """All names, of which the others are in the slow part."""
    return [name if name in fast else pytest.param(name, marks=pytest.mark.slow) for name in names]


def faults(row, situation, keys, n=400):
    """Of the calibrators around a model, in one split."""
    if row not in ROWS:
        pytest.skip("not installed")
    if situation in world.SHARES:
        model = world.of_classes(ROWS[row], len(world.SHARES[situation]))
        at = world.situation(model, situation, n, 2_000, seed=0)
    else:
        at = world.formed(world.of_classes(ROWS[row], 3), situation, seed=0, n_test=2_000)
    found = {key: world.judged(key, [world.measured(key, at)], False, SLACK) for key in keys}
    return {key: some for key, some in found.items() if some}


@pytest.mark.slow
@pytest.mark.parametrize("row", parts(ROWS, (*FAST, "XGBoost", "LightGBM", "nearest neighbours")))
def test_a_stack_around_every_model(row):
    assert faults(row, "balanced", ["S"]) == {}


@pytest.mark.slow
@pytest.mark.parametrize("row", parts([*FAST, "forest", "boosting", "NeuralClassifier"], FAST))
@pytest.mark.parametrize("situation", ["balanced", "rare"])
def test_every_calibrator_around_some_models(row, situation):
    assert faults(row, situation, world.CALIBRATORS) == {}


@pytest.mark.parametrize(
    "row", parts(["forest", "boosting", "logistic regression"], ["logistic regression"])
)
def test_changed_class_frequencies(row):
    """Trained balanced, calibrated where one class has 3%: the mean probability follows."""
    at = world.situation(world.of_classes(ROWS[row], 2), "shifted", 1_000, 4_000, seed=0)
    for key in ("BC", "V", "M", "S"):
        cell = world.measured(key, at)
        assert not world.judged(key, [cell], True, SLACK)
        assert abs(cell.numbers["away"]) < 0.012


@pytest.mark.parametrize("name", [*world.FORMS, "frozen", *world.SITUATIONS])
@pytest.mark.parametrize("row", parts(["forest", "logistic regression"], ["logistic regression"]))
def test_forms_and_situations(row, name):
    assert faults(row, name, ["BC", "S"]) == {}


@pytest.mark.slow
def test_the_oracles_see_a_calibrator_that_does_nothing():
    """The same cells with the model in place of its calibrator."""
    at = world.situation(clone(ROWS["extra trees"]), "balanced", 400, 2_000, seed=0)
    cell = world.measured("S", at)
    idle = cell._replace(numbers=cell.numbers | {"loss": cell.numbers["itself"] + 0.05})
    assert world.judged("S", [idle], False, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
def test_trees_on_digits(kind):
    """Trees that say 0 or 1 were an obstacle: a log loss of 0.36 that no calibrator lowered."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, train_size=1000, stratify=y, random_state=0)
    model = kind(100, random_state=0)
    itself = model.fit(X, y).predict_proba(X_test)
    saved = cross_val_predict(model, X, y, cv=5, method="predict_proba")
    peer = CalibratedClassifierCV(model, cv=5, ensemble=False).fit(X, y)
    for key in ("T", "S"):
        calibrator = world.SCALINGS[key]
        p = calibrator(model).fit(X, y).predict_proba(X_test)
        same = calibrator("proba").fit(saved, y).predict_proba(itself)
        assert log_loss(y_test, p) < 0.09
        assert log_loss(y_test, p) < log_loss(y_test, peer.predict_proba(X_test))
        assert abs(log_loss(y_test, p) - log_loss(y_test, same)) < 0.005


@pytest.mark.slow
def test_a_forest_of_balanced_classes_where_one_has_6_percent():
    """Uncalibrated and after a temperature it says 35 %."""
    share = np.array([0.94, 0.06])
    model = RandomForestClassifier(200, random_state=0)
    even = world.drawn(1000, np.full(2, 0.5), 1)
    model = FrozenEstimator(model.fit(even.X, even.y))
    train, test = world.drawn(2000, share, 2), world.drawn(10_000, share, 3)
    peer = CalibratedClassifierCV(model, ensemble=False).fit(train.X, train.y)
    most = log_loss(test.y, peer.predict_proba(test.X)) + 0.01
    assert model.predict_proba(test.X)[:, 1].mean() > test.y.mean() + 0.05
    for key in ("BC", "V", "M", "S"):
        p = world.SCALINGS[key](model).fit(train.X, train.y).predict_proba(test.X)
        assert abs(p[:, 1].mean() - test.y.mean()) < 0.01
        assert log_loss(test.y, p) < most


@pytest.mark.slow
def test_a_rare_class_around_boosting():
    """2% by a weak model, where a fit on all samples is surer than those of the folds.

    The ensemble of folds has the right rate, and at most the loss of scikit-learn's default.
    """
    rates, losses = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(14_000, 20))
        y = (rng.random(14_000) < 1 / (1 + np.exp(4.2 - X[:, 0] - X[:, 1] / 2))).astype(int)
        model = HistGradientBoostingClassifier(random_state=0)
        ours = world.SCALINGS["S"](model, ensemble=True), world.SCALINGS["S"](model)
        p = [
            one.fit(X[:4000], y[:4000]).predict_proba(X[4000:])
            for one in (*ours, CalibratedClassifierCV(model))
        ]
        rates.append([one[:, 1].mean() / y[4000:].mean() for one in p])
        losses.append([log_loss(y[4000:], one) for one in p])
    kept, refitted, _ = np.mean(rates, axis=0)
    assert 0.9 < kept < 1.1 < refitted
    kept, refitted, theirs = np.mean(losses, axis=0)
    assert kept < refitted
    assert kept < 1.005 * theirs


@pytest.mark.slow
def test_scores_of_any_scale_are_ranked():
    """Probabilities of separable data are 0 and 1; the decision function still has an order."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    X = 1e4 * (np.column_stack([2 * y - 1]) + 0.4 * rng.normal(size=(200, 1)))
    for model in (Perceptron(), LogisticRegression(C=1e6)):
        for key in ("T", "BC", "S"):
            with np.errstate(all="ignore"):
                calibrator = world.SCALINGS[key](model)
                scores = cross_val_score(calibrator, X, y, scoring="roc_auc", cv=3)
            assert (scores > 0.98).all()


@pytest.mark.parametrize("name", [*world.others()])
def test_other_classifiers_of_scikit_learn_are_fitted(name):
    """What CalibratedClassifierCV fits, a temperature fits."""
    train = world.drawn(90, world.SHARES["balanced"], 0)
    model = world.others()[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            CalibratedClassifierCV(model, cv=2, ensemble=False).fit(train.X, train.y)
        except (TypeError, ValueError):
            pytest.skip("refused by CalibratedClassifierCV too")
        fitted = world.SCALINGS["T"](model, cv=2).fit(train.X, train.y)
        assert fitted.predict_proba(train.X).shape == (90, 3)
