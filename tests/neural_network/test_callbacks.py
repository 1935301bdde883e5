"""skorch's callbacks around the classifier: they see labels as `fit` was given them."""

import warnings

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import accuracy_score, log_loss
from skorch.callbacks import (
    BatchScoring,
    Callback,
    Checkpoint,
    EarlyStopping,
    EpochScoring,
    EpochTimer,
    Freezer,
    GradientNormClipping,
    InputShapeSetter,
    LoadInitState,
    LRScheduler,
    PassthroughScoring,
    ProgressBar,
    TrainEndCheckpoint,
)
from skorch.dataset import Dataset, ValidSplit
from skorch.helper import predefined_split
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR, ReduceLROnPlateau, StepLR

from sklearn_lhcal.metrics import expected_squared_loss
from sklearn_lhcal.neural_network import NeuralClassifier


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4)).astype(np.float32)
    counts = rng.multinomial(3, [0.5, 0.3, 0.2], 90)
    return X, counts, np.array(["no", "maybe", "yes"])[counts.argmax(axis=1)]


def trained(X, y, *callbacks, early_stopping=5, **options):
    options = {"lr": 0.05, "max_epochs": 3, "random_state": 0, **options}
    named = [(str(i), callback) for i, callback in enumerate(callbacks)]
    net = NeuralClassifier(
        nn.Linear, module__in_features=4, module__out_features=3,
        early_stopping=early_stopping, callbacks=named, **options,
    )  # fmt: skip
    return net.fit(X, y)


class Seen(Callback):
    """The labels that a callback is given, and the probabilities of the held-out samples."""

    def on_epoch_end(self, net, dataset_train, dataset_valid, **_):
        rows = dataset_valid.indices
        self.y_, self.X_ = dataset_valid.dataset.y[rows], dataset_valid.dataset.X[rows]
        self.proba_ = net.predict_proba(self.X_)


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("named", [True, False])
def test_score_of_held_out_samples_by_hand(data, named, cached):
    """Strings, scorers and functions, of names and of counts."""
    X, counts, names = data
    y = names if named else counts
    metric = log_loss if named else expected_squared_loss
    scorings = {
        "string": "neg_log_loss" if named else "neg_expected_squared_loss",
        "function": lambda net, X, y: -metric(y, net.predict_proba(X)),
    }
    callbacks = [
        EpochScoring(s, lower_is_better=False, name=name, use_caching=cached)
        for name, s in scorings.items()
    ]
    seen = Seen()
    net = trained(X, y, *callbacks, seen)
    right = -metric(np.asarray(seen.y_), seen.proba_)
    for name in scorings:
        assert_allclose(net.history_[-1, name], right, rtol=1e-6)
    assert {tuple(np.atleast_1d(row)) for row in np.asarray(seen.y_)} <= {
        tuple(np.atleast_1d(row)) for row in y
    }


@pytest.mark.parametrize("scoring", [EpochScoring, BatchScoring])
@pytest.mark.parametrize("on_train", [True, False])
@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize(
    "score", [None, "accuracy", lambda net, X, y: accuracy_score(y, net.predict(X))]
)
def test_three_ways_to_say_accuracy(data, scoring, on_train, cached, score):
    """In each setting they agree with the mean over samples of a prediction that never moves."""
    X, _, names = data
    callback = scoring(score, on_train=on_train, use_caching=cached, name="score")
    net = trained(X, names, callback, lr=0.0)
    hits = net.predict(X) == names
    n = 72 if on_train else 18
    found = net.history_[:, "score"]
    assert_allclose(np.array(found) * n, np.round(np.array(found) * n), atol=1e-9)
    other = trained(X, names, scoring("accuracy", on_train=not on_train, name="score"), lr=0.0)
    total = n * found[0] + (90 - n) * other.history_[0, "score"]
    assert_allclose(total, hits.sum())


@pytest.mark.parametrize(("split", "n"), [(ValidSplit(5), 18), ("own", 30), ("the network's", 18)])
def test_forms_of_held_out_samples(data, split, n):
    X, counts, _ = data
    labels = torch.as_tensor(counts.argmax(axis=1))
    if split == "own":
        split = predefined_split(Dataset(X[:30], labels[:30]))
    if split == "the network's":
        split = None
    callback = EpochScoring(lambda net, X, y: float(len(y)), name="n")
    net = trained(X, counts, callback, train_split=split)
    assert net.history_[-1, "n"] == n
    assert np.isfinite(net.history_[-1, "valid_loss"])


@pytest.mark.parametrize("named", [True, False])
def test_the_other_callbacks(data, named, tmp_path, capsys):
    X, counts, names = data
    callbacks = [
        Checkpoint(dirname=tmp_path),
        TrainEndCheckpoint(dirname=tmp_path),
        LRScheduler(StepLR, step_size=1),
        LRScheduler(OneCycleLR, max_lr=0.1, total_steps=100, step_every="batch"),
        LRScheduler(ReduceLROnPlateau, monitor="valid_loss"),
        GradientNormClipping(1.0),
        ProgressBar(),
        EpochTimer(),
        Freezer("nothing.*"),
        EarlyStopping(patience=2),
        PassthroughScoring("train_loss", on_train=True),
    ]
    for callback in callbacks:
        net = trained(X, names if named else counts, callback)
        assert_array_equal(np.isfinite(net.predict_proba(X)), True)
    saved = Checkpoint(dirname=tmp_path)
    again = trained(X, counts, LoadInitState(saved), max_epochs=1)
    assert len(again.history_) > 1


def test_shape_of_the_input_is_set(data):
    X, counts, _ = data
    net = NeuralClassifier(
        nn.Linear, module__in_features=1, module__out_features=3, max_epochs=1,
        callbacks=[InputShapeSetter(param_name="in_features")],
    )  # fmt: skip
    assert net.fit(X, counts).predict_proba(X).shape == (90, 3)


def test_without_held_out_samples_the_remedy_is_named(data):
    X, counts, _ = data
    with pytest.raises(ValueError, match=r"'valid_loss'.*pass early_stopping= or train_split="):
        trained(X, counts, EarlyStopping(), early_stopping=None)
    trained(X, counts, EarlyStopping(monitor="train_loss"), early_stopping=None)


def test_errors_of_a_callback_stay(data):
    class Wrong(Callback):
        def on_epoch_end(self, net, **_):
            return {}["absent"]

    with pytest.raises(KeyError, match="absent"):
        trained(*data[:2], Wrong())


class Named(nn.Linear):
    """What models of language return."""

    def __init__(self, kind):
        super().__init__(4, 3)
        self.kind = kind

    def forward(self, X):
        logits = super().forward(X)
        if self.kind == "dict":
            return {"loss": None, "logits": logits}
        return logits if self.kind == "tensor" else type("Output", (), {"logits": logits})()


@pytest.mark.parametrize("kind", ["dict", "object"])
def test_outputs_that_name_their_logits(data, kind):
    X, counts, _ = data
    nets = [
        NeuralClassifier(Named, module__kind=k, max_epochs=3, random_state=0, early_stopping=2)
        for k in ("tensor", kind)
    ]
    right, found = [net.fit(X, counts).predict_proba(X) for net in nets]
    assert_array_equal(found, right)


@pytest.mark.parametrize(
    "loss", [nn.CrossEntropyLoss(), nn.NLLLoss(), nn.BCEWithLogitsLoss(), nn.KLDivLoss()]
)
def test_plain_losses_are_refused_with_their_remedy(data, loss):
    X, counts, names = data
    for y in (counts, names):
        with pytest.raises(ValueError, match=rf'^loss .*{type(loss).__name__}.*"label_log_loss"'):
            trained(X, y, loss=loss)
        with pytest.raises(ValueError, match=r"^regularizer is called with logits"):
            trained(X, y, regularizer=loss)


class Squashed(nn.Module):
    def __init__(self, squash):
        super().__init__()
        self.layer, self.squash = nn.Linear(4, 3), squash

    def forward(self, X):
        return self.squash(self.layer(X))


@pytest.mark.parametrize("squash", [lambda u: torch.softmax(u, 1), torch.sigmoid, torch.erf])
def test_probabilities_in_place_of_logits(data, squash):
    """They are seen in the first batch, and once: erf has values below 0."""
    X, counts, _ = data
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        NeuralClassifier(Squashed(squash), max_epochs=2, batch_size=16).fit(X, counts)
    assert len(caught) == (squash is not torch.erf)
    if caught:
        assert "must return logits" in str(caught[0].message)


def test_probabilities_of_a_trained_module(data):
    module = Squashed(lambda u: torch.softmax(u, 1))
    net = NeuralClassifier.from_trained(module, classes=[0, 1, 2])
    with pytest.warns(UserWarning, match="must return logits"):
        net.predict_proba(data[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # too few to say
        net.predict_proba(data[0][:6])
    for last in (nn.Softmax(1), nn.Sigmoid()):
        with pytest.raises(ValueError, match=f"ends in a {type(last).__name__}"):
            NeuralClassifier.from_trained(nn.Sequential(nn.Linear(4, 3), last), classes=[0, 1, 2])


def test_a_layer_of_zeros_is_no_probability(data):
    module = nn.Linear(4, 3)
    nn.init.zeros_(module.weight)
    nn.init.zeros_(module.bias)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NeuralClassifier(module, max_epochs=1).fit(data[0], data[1])
