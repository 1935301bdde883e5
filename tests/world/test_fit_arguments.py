"""What fit takes beside X and y, sets for early stopping in their forms; and margins of pairs."""

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import world_cases as world
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsOneClassifier
from sklearn.svm import SVC, LinearSVC, NuSVC

from sklearn_lhcal.calibration import (
    BiasCorrectedTemperatureScaling,
    ConformalClassifier,
    TemperatureScaling,
)

# as LightGBM 4.6 makes scikit-learn say of every array
pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")
ROWS = world.rows()
BOOSTERS = ("XGBoost", "LightGBM", "CatBoost")
OTHER = world.drawn(150, world.SHARES["balanced"], 5)
MORE = world.drawn(90, world.SHARES["balanced"], 6)
NAMES = list("abcdef")
FRAME = pd.DataFrame(OTHER.X, columns=NAMES)
FORMS = {
    "a pair of arrays": [(OTHER.X, OTHER.y)],
    "a pair": (OTHER.X, OTHER.y),
    "a pair in a tuple": ((OTHER.X, OTHER.y),),
    "a frame and a series": [(FRAME, pd.Series(OTHER.y))],
    "two sets": [(OTHER.X, OTHER.y), (MORE.X, MORE.y)],
}
# what a booster itself does not take
REFUSED = {
    *(("CatBoost", "a pair in a tuple"), ("LightGBM", "a pair in a tuple")),
    *(("XGBoost", "a pair"), ("LightGBM", "a pair")),
}


@pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("row", BOOSTERS)
def test_sets_for_early_stopping(row, form):
    """The oracle is the booster's own fit in folds with the same set."""
    if row not in ROWS or (row, form) in REFUSED:
        pytest.skip("not installed, or refused by the booster")
    train = world.drawn(200, world.SHARES["balanced"], 4)
    X = pd.DataFrame(train.X, columns=NAMES) if "frame" in form else train.X
    sets = FORMS[form]
    calibrator = TemperatureScaling(clone(ROWS[row])).fit(X, train.y, eval_set=sets)
    peer = CalibratedClassifierCV(clone(ROWS[row]), ensemble=False)
    assert np.isfinite(peer.fit(X, train.y, eval_set=sets).predict_proba(X)).all()
    itself = clone(ROWS[row]).fit(X, train.y, eval_set=sets).predict_proba(X)
    assert_allclose(calibrator.estimator_.predict_proba(X), itself, atol=1e-6)


@pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated")
@pytest.mark.parametrize("row", ["forest", "boosting", "SMOTE, logistic regression", *BOOSTERS])
def test_the_models_of_the_folds_are_kept(row):
    """Around what people bring, with labels in words; the oracle is the mean of scikit-learn's."""
    train = world.drawn(200, world.SHARES["balanced"], 4)
    y, params = train.y, {}
    if row not in ROWS:
        pytest.skip("not installed")
    if row in BOOSTERS:
        params = {"eval_set": [(OTHER.X, OTHER.y)]}
    else:
        y = np.array(["fine", "ill", "worse"])[y]
    cv = KFold(3)
    found = TemperatureScaling(clone(ROWS[row]), cv=cv, ensemble=True).fit(train.X, y, **params)
    peer = CalibratedClassifierCV(clone(ROWS[row]), cv=cv).fit(train.X, y, **params)
    each = [one.estimator.predict_proba(OTHER.X) for one in peer.calibrated_classifiers_]
    assert_array_equal(found.classes_, peer.classes_)
    assert_allclose(found.estimator_.predict_proba(OTHER.X), np.mean(each, axis=0), atol=1e-6)


class Recording(LogisticRegression):
    """Keeps what its fits were given."""

    given: ClassVar[list] = []

    def fit(self, X, y, **params):
        self.given.append(params)
        return super().fit(X, y)


def test_what_has_one_entry_a_sample_is_cut():
    X = np.arange(12.0)[:, None]
    y = np.arange(12) % 2
    values = {
        "weights": np.arange(12.0),
        "list": list(range(12)),
        "names": list("abcdefghijkl"),
        "margin": np.arange(24.0).reshape(12, 2),
        "frame": pd.DataFrame({"a": range(12)}),
        "sets": [(OTHER.X, OTHER.y)] * 12,
        "arrays": [OTHER.y] * 12,
        "eval_y": np.arange(12),
        "other": np.arange(3),
        "number": 12,
        "text": "twelve",
    }
    Recording.given.clear()
    rows = np.arange(4)
    splits = [(np.delete(np.arange(12), rows), rows)]
    TemperatureScaling(Recording(), cv=splits).fit(X, y, **values)
    taken, whole = Recording.given
    for name in ("weights", "list", "names", "margin", "frame"):
        assert np.array_equal(np.asarray(taken[name]), np.asarray(values[name])[4:])
    for name in ("sets", "arrays", "eval_y", "other", "number", "text"):
        assert taken[name] is whole[name] is values[name]


@pytest.mark.parametrize("n_classes", [3, 4])
@pytest.mark.parametrize("kind", [SVC, NuSVC])
def test_margins_of_pairs_are_refused(kind, n_classes):
    """Of three classes there are three pairs: columns that would be taken for classes."""
    train = world.drawn(200, np.full(n_classes, 1 / n_classes), 4)
    model = kind(decision_function_shape="ovo")
    with pytest.raises(ValueError, match='decision_function_shape="ovr"'):
        BiasCorrectedTemperatureScaling(model).fit(train.X, train.y)
    # two classes have one pair, and a wrapper sums the margins of the pairs of a class
    two = world.drawn(200, np.full(2, 0.5), 4)
    for one, of in ((model, two), (OneVsOneClassifier(LinearSVC()), train)):
        fitted = BiasCorrectedTemperatureScaling(one).fit(of.X, of.y)
        assert fitted.score(of.X, of.y) > 0.6


@pytest.mark.slow
@pytest.mark.skipif("XGBoost" not in ROWS, reason="not installed")
@pytest.mark.parametrize("form", ["itself", "pipeline", "search"])
@pytest.mark.parametrize("names", [["mild", "none", "severe"], [1, 2, 3], [0, 1, 5]])
def test_xgboost_takes_names_of_classes(names, form):
    """It knows the classes 0, 1, 2 alone; the calibrator has the names."""
    model = clone(ROWS["XGBoost"]).set_params(n_estimators=5)
    if form != "itself":
        model = world.FORMS[form][0](model)
    names = np.array(names)
    train = world.drawn(200, world.SHARES["balanced"], 4)
    counts = world.raters(train.Q, 3, 0)
    for numbered, named in (
        (train.y, names[train.y]),
        (counts, pd.DataFrame(counts, columns=names)),
    ):
        expected = TemperatureScaling(clone(model)).fit(train.X, numbered)
        found = TemperatureScaling(clone(model)).fit(train.X, named)
        assert_allclose(found.predict_proba(train.X), expected.predict_proba(train.X), atol=1e-12)
        assert found.classes_.tolist() == names.tolist()
        assert set(found.predict(train.X)) <= set(names.tolist())


@pytest.mark.parametrize("row", ["logistic regression", "LightGBM", "XGBoost", "CatBoost"])
@pytest.mark.parametrize("form", ["itself", "pipeline", "LabelHistogramClassifier"])
def test_columns_in_another_order_are_refused_or_matched(row, form):
    """LightGBM alone reads them by position, whatever their names."""
    if row not in ROWS:
        pytest.skip("not installed")
    model = clone(ROWS[row])
    if form != "itself":
        model = world.FORMS[form][0](model)
    train = world.drawn(200, world.SHARES["balanced"], 4)
    X = pd.DataFrame(train.X, columns=NAMES)
    for calibrator in (TemperatureScaling(model), ConformalClassifier(model, random_state=0)):
        calibrator.fit(X, train.y)
        expected = calibrator.predict_proba(X)
        try:
            found = calibrator.predict_proba(X[NAMES[::-1]])
        except ValueError:
            continue
        assert_allclose(found, expected)
