"""A fit that fails or is interrupted, wherever it is, leaves the estimator as it was."""

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from faults import OTHER, OTHER_Y, Fault, X, Y, failing, points, same, state
from sklearn.exceptions import NotFittedError
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.validation import check_is_fitted
from torch import nn

from sklearn_lhcal.calibration import (
    AlphaCalibration,
    DecisionCalibration,
    EpistemicCalibration,
    PrecomputedClassifier,
    StackedCalibration,
    TemperatureScaling,
    VectorScaling,
)
from sklearn_lhcal.ensemble import (
    DeepEnsembleClassifier,
    MCDropoutClassifier,
    TestTimeAugmentationClassifier,
)
from sklearn_lhcal.gaussian_process import SparseGPClassifier
from sklearn_lhcal.label_histogram import LabelHistogramClassifier
from sklearn_lhcal.neural_network import NeuralClassifier


class Net(nn.Module):
    """As many inputs and outputs as it meets: one estimator can be fitted on both."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))

    def forward(self, x):
        # two classes where there are three features
        return self.body(x.float())[:, : 5 - x.shape[1]]


def uncertainty(model, X):
    return np.abs(X[:, 0])


def augment(X, random_state):
    return X + 0.1 * random_state.standard_normal(X.shape[1])


def network(**options):
    return NeuralClassifier(Net, max_epochs=2, **options)


PROBA = np.eye(3)[[0, 1, 2] * 20] * 0.4 + 0.2
OTHER_PROBA = pd.DataFrame(np.full((50, 2), 0.5), columns=["a", "b"])

# an estimator and two sets of data
CASES = {
    "LabelHistogramClassifier": (lambda: LabelHistogramClassifier(GaussianNB()), X, OTHER),
    "EpistemicCalibration": (
        lambda: EpistemicCalibration(GaussianNB(), uncertainty=uncertainty, n_bins=3),
        X,
        OTHER,
    ),
    "MCDropoutClassifier": (lambda: MCDropoutClassifier(network(), random_state=0), X, OTHER),
    "TestTimeAugmentationClassifier": (
        lambda: TestTimeAugmentationClassifier(GaussianNB(), augment, random_state=0),
        X,
        OTHER,
    ),
    "DeepEnsembleClassifier": (
        lambda: DeepEnsembleClassifier(network(), n_estimators=2, random_state=0),
        X,
        OTHER,
    ),
    "SparseGPClassifier": (
        lambda: SparseGPClassifier(n_inducing=10, max_iter=100, random_state=0),
        X,
        OTHER,
    ),
    "NeuralClassifier": (lambda: network(random_state=0, early_stopping=2), X, OTHER),
    "PrecomputedClassifier": (lambda: PrecomputedClassifier("proba"), PROBA, OTHER_PROBA),
}
CASES |= {
    name: (make, X, OTHER)
    for name, make in {
        "chain": lambda: AlphaCalibration(TemperatureScaling(GaussianNB(), cv=2)),
        "VectorScaling": lambda: VectorScaling(GaussianNB(), cv=2),
        "DecisionCalibration": lambda: DecisionCalibration(
            GaussianNB(), scaling="temperature", inner_cv=2, cv=2
        ),
        "StackedCalibration": lambda: StackedCalibration(GaussianNB(), inner_cv=2, cv=2),
    }.items()
}
ERRORS = [ValueError, KeyboardInterrupt]


def calls_of(name) -> int:
    """Calls in a whole fit on the other data."""
    make, _, other = CASES[name]
    # the first fit also reads signatures, and keeps what they say
    make().fit(other, OTHER_Y)
    with failing(0, Fault) as seen:
        make().fit(other, OTHER_Y)
    return seen["calls"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The fitted gain is flat:UserWarning")
@pytest.mark.filterwarnings("ignore:Raters disagree as often:UserWarning")
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("name", CASES)
def test_a_refit_that_fails_changes_nothing(name, error):
    make, first, other = CASES[name]
    model = make().fit(first, Y)
    expected, held = model.predict_proba(first), state(model)
    for at in points(calls_of(name)):
        with failing(at, error), pytest.raises(error):
            model.fit(other, OTHER_Y)
        assert same(state(model), held), f"call {at}"
        np.testing.assert_array_equal(model.predict_proba(first), expected)
    assert model.fit(other, OTHER_Y).predict_proba(other).shape == (50, 2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The fitted gain is flat:UserWarning")
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("name", CASES)
def test_a_first_fit_that_fails_leaves_nothing(name, error):
    make, _, other = CASES[name]
    model = make()
    held = set(vars(model))
    for at in points(calls_of(name)):
        with failing(at, error), pytest.raises(error):
            model.fit(other, OTHER_Y)
        assert set(vars(model)) == held, f"call {at}"
    for method in ("predict", "predict_proba", "predict_dist"):
        if hasattr(model, method):
            with pytest.raises(NotFittedError):
                getattr(model, method)(other)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)


class FailsAt(GaussianNB):
    """Its calls of fit and predict are counted; the one named in `at` raises."""

    calls: ClassVar = []
    at: ClassVar = None
    error: ClassVar = None

    def _count(self, what):
        FailsAt.calls.append(what)
        if len(FailsAt.calls) == FailsAt.at:
            raise FailsAt.error(what)

    def fit(self, X, y, sample_weight=None):
        self._count("fit")
        return super().fit(X, y, sample_weight)

    def predict(self, X):
        self._count("predict")
        return super().predict(X)


@pytest.mark.filterwarnings("ignore:The fitted gain is flat:UserWarning")
@pytest.mark.parametrize("error", ERRORS)
def test_a_classifier_that_fails_inside(error):
    model = EpistemicCalibration(FailsAt(), uncertainty=uncertainty, n_bins=3, n_carvings=1).fit(
        X, Y
    )
    FailsAt.error = error
    expected, held = model.predict_epistemic(X), state(model)
    for at in range(1, 6):
        FailsAt.calls.clear()
        FailsAt.at = at
        with pytest.raises(error):
            model.fit(OTHER, OTHER_Y)
        FailsAt.at = None
        assert same(state(model), held)
        np.testing.assert_array_equal(model.predict_epistemic(X), expected)
    FailsAt.calls.clear()
    model.fit(OTHER, OTHER_Y)
    assert len(FailsAt.calls) == 5


class Stop(nn.Module):
    """A loss that raises at its batch number `at`."""

    def __init__(self, at, error):
        super().__init__()
        self.at, self.error, self.seen = at, error, 0

    def forward(self, logits, counts, weight=None):
        self.seen += 1
        if self.seen == self.at:
            raise self.error("in a batch")
        return -(torch.log_softmax(logits, 1) * counts).mean()


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("how", ["partial_fit", "warm_start"])
def test_training_on_that_fails_keeps_its_steps(error, how):
    """Here weights are trained in place; nothing else of the net changes."""
    module = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    options = {"lr": 0.1, "batch_size": 20, "max_epochs": 2, "random_state": 0}
    net = NeuralClassifier(module, loss=Stop(0, error), warm_start=how == "warm_start", **options)
    net.fit(X, Y)
    held = set(vars(net))
    train = net.fit if how == "warm_start" else net.partial_fit
    for at in (1, 2, 6):
        expected = net.predict_proba(X)
        net.criterion_.seen, net.criterion_.at = 0, at
        with pytest.raises(error):
            train(X, Y)
        assert set(vars(net)) == held
        # a batch passes through batch normalisation before its loss fails
        assert 0 < np.abs(net.predict_proba(X) - expected).max() < 1
    net.criterion_.at = 0
    assert np.abs(train(X, Y).predict_proba(X) - expected).max() > 1e-3


def test_training_on_with_other_data_changes_nothing():
    net = NeuralClassifier(nn.Linear(2, 3), max_epochs=2, random_state=0)
    held = set(vars(net))
    with pytest.raises(ValueError):
        net.partial_fit(X, Y * 0.5)
    assert set(vars(net)) == held
    expected, held = net.fit(X, Y).predict_proba(X), state(net)
    for bad in ((OTHER, Y[:50]), (X, OTHER_Y), (X, Y * 0.5)):
        with pytest.raises(ValueError):
            net.partial_fit(*bad)
        assert same(state(net), held)
        np.testing.assert_array_equal(net.predict_proba(X), expected)


def test_a_net_without_classes_is_not_fitted():
    with pytest.raises(NotFittedError):
        NeuralClassifier(nn.Linear(2, 3)).initialize().predict(X)


@pytest.mark.parametrize("labels", [Y[:5], Y * 0.5, None])
def test_bad_data_leave_no_number_of_features(labels):
    for make in (lambda: SparseGPClassifier(n_inducing=10), lambda: LabelHistogramClassifier()):
        model = make()
        with pytest.raises(ValueError):
            model.fit(X, labels)
        assert not hasattr(model, "n_features_in_")


def test_bad_outputs_leave_no_number_of_features():
    model = PrecomputedClassifier("proba")
    with pytest.raises(ValueError, match="sum to 1"):
        model.fit(PROBA * 2)
    assert not hasattr(model, "n_features_in_")
    frame = pd.DataFrame(PROBA, columns=list("abc"))
    model.fit(frame)
    with pytest.raises(ValueError, match="sum to 1"):
        model.fit(OTHER_PROBA * 2)
    assert model.feature_names_in_.tolist() == list("abc")
    np.testing.assert_array_equal(model.predict_proba(frame), PROBA)
