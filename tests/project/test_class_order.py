"""Models that bring their classes in an order of their own keep it, whatever stands around them."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sklearn_lhcal.calibration import AlphaCalibration, PrecomputedClassifier, TemperatureScaling
from sklearn_lhcal.ensemble import TestTimeAugmentationClassifier
from sklearn_lhcal.gaussian_process import SparseGPClassifier
from sklearn_lhcal.label_histogram import LabelHistogramClassifier
from sklearn_lhcal.model_selection import cross_val_predict


class Outputs(ClassifierMixin, BaseEstimator):
    """A trained model whose outputs are in an order that is not sorted."""

    accepts_label_histograms = True

    def __init__(self, names=None):
        self.names = names

    def fit(self, X, y):
        self.classes_ = np.array(self.names)
        return self

    def predict_proba(self, X):
        return np.asarray(X)


NAMES = ["tumour", "cyst", "other"]
FROZEN = FrozenEstimator(Outputs(NAMES).fit(None, None))
UNSORTED = {
    "frozen": TemperatureScaling(FROZEN),
    "saved": TemperatureScaling(PrecomputedClassifier("proba", classes=NAMES)),
    "frame": TemperatureScaling("proba"),
    "wrapped": LabelHistogramClassifier(TemperatureScaling("proba")),
    "augmented": TemperatureScaling(
        TestTimeAugmentationClassifier(FROZEN, lambda X, random_state: X, n_samples=2)
    ),
    "searched": AlphaCalibration(
        GridSearchCV(TemperatureScaling(FROZEN), {"cv": [2]}, cv=2, scoring="neg_label_log_loss")
    ),
    "in a pipeline": AlphaCalibration(make_pipeline("passthrough", TemperatureScaling(FROZEN))),
}


@pytest.mark.parametrize("labels", ["counts", "names"])
@pytest.mark.parametrize("which", UNSORTED)
@pytest.mark.filterwarnings(
    "ignore:No calibration sample has two labels:UserWarning"
)  # of names; said elsewhere
def test_classes_keep_the_order_of_a_model_that_is_trained(which, labels, data):
    X, counts = (
        pd.DataFrame(data.prediction, columns=NAMES),
        pd.DataFrame(data.counts, columns=NAMES),
    )
    named = np.array(NAMES)[data.counts.argmax(axis=1)]
    y = counts if labels == "counts" else named
    plain = data.counts if labels == "counts" else np.eye(3, dtype=int)[data.counts.argmax(axis=1)]
    expected = TemperatureScaling("proba").fit(data.prediction, plain)
    model = UNSORTED[which].fit(X, y)
    order = sorted(NAMES) if which in ("frame", "wrapped") else NAMES
    assert list(model.classes_) == order
    proba = model.predict_proba(X)[:, [order.index(name) for name in NAMES]]
    assert_allclose(proba, expected.predict_proba(data.prediction), atol=1e-6)
    assert_allclose(model.score(X, counts), expected.score(data.prediction, data.counts))
    assert (cross_val_predict(UNSORTED[which], X, y, cv=2, method="predict") == named).mean() > 0.6


def test_names_are_followed_behind_a_transformer(data):
    # which hides the names of the columns
    scaler = FunctionTransformer(np.asarray)
    X = pd.DataFrame(data.prediction, columns=NAMES)
    y = pd.DataFrame(data.counts, columns=NAMES)
    behind = make_pipeline(FunctionTransformer(), PrecomputedClassifier("proba"))
    model = AlphaCalibration(behind).fit(X, y)
    assert_allclose(model.predict_proba(X), X[model.classes_.tolist()])
    saved = PrecomputedClassifier("proba", classes=NAMES)
    assert AlphaCalibration(make_pipeline(scaler, saved)).fit(X, y).score(X, y) > 0.6


@pytest.mark.parametrize("known", [False, True])
def test_one_class_through_wrappers(known):
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.full(40, "healthy")
    inner = SparseGPClassifier(n_inducing=5, random_state=0)
    if known:
        inner = FrozenEstimator(inner.fit(X, y))
    model = LabelHistogramClassifier(inner).fit(X, y)
    assert list(model.classes_) == ["healthy"]
    assert_allclose(model.predict_proba(X), 1)
    assert model.score(X, y) == 1
    assert (cross_val_predict(inner, X, y, cv=2, method="predict") == y).all()
