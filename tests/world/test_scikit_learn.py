"""scikit-learn's other tools, and others', around the calibrators."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import StackingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    TunedThresholdClassifierCV,
)

from sklearn_lhcal.calibration import PrecomputedClassifier, StackedCalibration, TemperatureScaling
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.label_histogram import LabelHistogramClassifier


@pytest.fixture(scope="module")
def data():
    return make_label_histograms(200, n_classes=2, n_raters=3, random_state=0)


@pytest.mark.slow
@pytest.mark.parametrize("calibrator", [TemperatureScaling, StackedCalibration])
def test_thresholds_of_calibrated_probabilities(data, calibrator):
    y = data.counts.argmax(axis=1)
    model = calibrator(LogisticRegression()).fit(data.X, y)
    p = model.predict_proba(data.X)[:, 1]
    fixed = FixedThresholdClassifier(FrozenEstimator(model), threshold=0.3).fit(data.X, y)
    assert_array_equal(fixed.predict(data.X), p >= 0.3)
    tuned = TunedThresholdClassifierCV(calibrator(LogisticRegression())).fit(data.X, y)
    assert 0 < tuned.best_threshold_ < 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "tool",
    [
        FixedThresholdClassifier(LogisticRegression()),
        TunedThresholdClassifierCV(LogisticRegression()),
        StackingClassifier([("one", LogisticRegression())]),
    ],
)
def test_tools_of_one_label_inside(data, tool):
    """Counts reach them through the wrapper; around an estimator of counts they refuse them."""
    model = TemperatureScaling(LabelHistogramClassifier(tool)).fit(data.X, data.counts)
    assert_allclose(model.predict_proba(data.X).sum(axis=1), 1)
    with pytest.raises(ValueError, match=r"binary|1d array"):
        type(tool)(
            [("one", TemperatureScaling())]
            if isinstance(tool, StackingClassifier)
            else TemperatureScaling()
        ).fit(data.X, data.counts)


@pytest.mark.slow
def test_progress_of_a_search(data):
    """It is as of scikit-learn's own classifiers: a search shows itself, and not what it fits."""
    callback = pytest.importorskip("sklearn.callback")
    pytest.importorskip("rich")
    search = GridSearchCV(StackedCalibration(), {"cv": [2, 3]}, cv=2)
    expected = search.fit(data.X, data.counts).predict_proba(data.X)
    shown = GridSearchCV(StackedCalibration(), {"cv": [2, 3]}, cv=2)
    shown.set_callbacks(callback.ProgressBar())
    with pytest.warns(UserWarning, match="will not be propagated"):
        shown.fit(data.X, data.counts)
    assert_array_equal(shown.predict_proba(data.X), expected)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
@pytest.mark.parametrize("frozen", [True, False])
def test_boosters_are_named_with_their_remedy(data, library, frozen):
    """Native models have no fit; their outputs are X."""
    lib = pytest.importorskip(library)
    y = data.counts.argmax(axis=1)
    if library == "xgboost":
        options = {"objective": "multi:softprob", "num_class": 2, "verbosity": 0}
        booster = lib.train(options, lib.DMatrix(data.X, y), 3)
        z = booster.predict(lib.DMatrix(data.X))
    else:
        options = {"objective": "multiclass", "num_class": 2, "verbose": -1}
        booster = lib.train(options, lib.Dataset(data.X, y), 3)
        z = booster.predict(data.X)
    model = FrozenEstimator(booster) if frozen else booster
    with pytest.raises(ValueError, match='a booster say, are passed as X, with estimator="proba"'):
        TemperatureScaling(model).fit(data.X, data.counts)
    assert TemperatureScaling("proba").fit(z, data.counts).predict_proba(z).shape == (200, 2)


def test_sets_of_mapie_around_saved_outputs(data):
    """The recipe of the page on migration, and what it stands for."""
    mapie = pytest.importorskip("mapie.classification")
    y = data.counts.argmax(axis=1)
    z = LogisticRegression().fit(data.X, y).predict_proba(data.X)
    outputs = PrecomputedClassifier("logits").fit(np.log(z[:100]), y[:100])
    sets = mapie.SplitConformalClassifier(outputs, prefit=True, confidence_level=0.9)
    sets.conformalize(np.log(z[:100]), y[:100])
    found = sets.predict_set(np.log(z[100:]))[1][:, :, 0]
    scores = np.sort(1 - z[np.arange(100), y[:100]])
    assert_array_equal(found, 1 - z[100:] <= scores[int(np.ceil(101 * 0.9)) - 1])
