"""NeuralClassifier: what it trains on and what it learns."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from networks import FULL_BATCH, LBFGS, MLP, Affine, Recorder, proba
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_score
from skorch.callbacks import Callback
from torch import nn
from torch.utils.data import TensorDataset

from sklearn_lhcal.calibration import TemperatureScaling
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.label_histogram import KnownProbabilities
from sklearn_lhcal.metrics import expected_accuracy, label_log_loss
from sklearn_lhcal.neural_network import LabelLogLoss, MMCEPenalty, NeuralClassifier


class TwoInputs(nn.Module):
    """Affine in its two inputs; returns a tuple that begins with the logits."""

    def __init__(self):
        super().__init__()
        self.affine = Affine()

    def forward(self, left, right):
        h = torch.cat([left, right], dim=1)
        return self.affine(h), h


class Lookup(nn.Module):
    """Logits by an integer code."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(4, 3)

    def forward(self, X):
        return self.table(X)[:, 0]


class RowBrier(nn.Module):
    """A loss of a user: weighted mean over rows."""

    def forward(self, logits, counts, weight=None):
        mu = counts / counts.sum(dim=1, keepdim=True)
        rows = ((logits.softmax(dim=1) - mu) ** 2).sum(dim=1)
        return rows.mean() if weight is None else (weight * rows).mean()


class MeanOverLabels(nn.Module):
    """A loss of a user that says what it divides."""

    def forward(self, logits, counts, weight=None):
        return self.total(logits, counts, weight) / self.size(counts, weight)

    def total(self, logits, counts, weight):
        return -(weight[:, None] * counts * logits.log_softmax(dim=1)).sum()

    def size(self, counts, weight):
        return (weight[:, None] * counts).sum()


# --- what it trains on ---


def test_forms_of_y(data):
    expected = proba(data)
    for y in (
        data.counts.tolist(),
        data.counts.astype(np.int16),
        data.counts.astype(float),
        sp.csr_array(data.counts),
    ):
        assert_array_equal(proba(data, y), expected)
    labels = data.counts.argmax(axis=1)
    one_hot = np.eye(3, dtype=int)[labels]
    assert_array_equal(proba(data, labels), proba(data, one_hot))
    assert_array_equal(proba(data, np.array(["a", "b", "c"])[labels]), proba(data, one_hot))


@pytest.mark.parametrize(
    "frame", [pd.DataFrame, lambda y, columns: pl.DataFrame(y, schema=columns)]
)
def test_named_classes_are_sorted(data, frame):
    net = NeuralClassifier(Affine, **FULL_BATCH).fit(
        data.X, frame(data.counts, columns=["mild", "severe", "benign"])
    )
    assert net.classes_.tolist() == ["benign", "mild", "severe"]
    assert_array_equal(net.predict_proba(data.X), proba(data, data.counts[:, [2, 0, 1]]))
    assert_array_equal(net.predict(data.X), net.classes_[net.predict_proba(data.X).argmax(axis=1)])
    score = expected_accuracy(data.counts[:, [2, 0, 1]], net.predict_proba(data.X))
    named = frame(data.counts, columns=["mild", "severe", "benign"])
    assert net.score(data.X, named) == pytest.approx(score)


@pytest.mark.filterwarnings("ignore:Raters of the calibration samples disagree:UserWarning")
def test_known_probabilities_are_the_limit_of_many_raters(data):
    many = np.round(data.proba * 1e6).astype(int)
    assert_allclose(proba(data, KnownProbabilities(data.proba)), proba(data, many), atol=1e-5)
    assert np.isfinite(proba(data, KnownProbabilities(data.proba), early_stopping=5)).all()


@pytest.mark.parametrize(
    "convert",
    [
        np.float32,
        np.asfortranarray,
        np.ndarray.tolist,
        pd.DataFrame,
        sp.csr_array,
        torch.as_tensor,
        torch.Tensor,
    ],
)
def test_kinds_of_X(data, convert):
    X = convert(data.X)
    net = NeuralClassifier(Affine, **FULL_BATCH).fit(X, data.counts)
    assert_allclose(net.predict_proba(X), proba(data), atol=1e-6)
    X = data.X.copy()
    X.flags.writeable = False
    assert_array_equal(net.fit(X, data.counts).predict_proba(X), proba(data))


def test_frames_of_several_types(data):
    X = np.column_stack([np.round(data.X[:, :2]), data.X[:, 2:]])
    net = NeuralClassifier(Affine, **FULL_BATCH)
    expected = net.fit(X, data.counts).predict_proba(X)
    for frame in (pd.DataFrame, pl.DataFrame):
        names = list("abcde")
        mixed = frame({n: X[:, i].astype(int if i < 2 else float) for i, n in enumerate(names)})
        assert_array_equal(net.fit(mixed, data.counts).predict_proba(mixed), expected)
        assert_array_equal(net.feature_names_in_, names)
    objects = pd.DataFrame(X).astype(object)
    assert_array_equal(net.fit(objects, data.counts).predict_proba(objects), expected)


@pytest.mark.slow
def test_dict_of_inputs_and_tuple_of_outputs(data):
    X = {"left": data.X[:, :2], "right": pd.DataFrame(data.X[:, 2:])}
    net = NeuralClassifier(TwoInputs, **FULL_BATCH).fit(X, data.counts)
    assert_allclose(net.predict_proba(X), proba(data), atol=1e-6)
    calibrator = TemperatureScaling(clone(net), cv=3).fit(X, data.counts)
    assert_allclose(
        calibrator.predict_proba(X),
        TemperatureScaling(NeuralClassifier(Affine, **FULL_BATCH), cv=3)
        .fit(data.X, data.counts)
        .predict_proba(data.X),
        atol=1e-5,
    )
    with pytest.raises(ValueError, match="inconsistent"):
        net.fit(X, data.counts[:299])


def test_integers_stay_integers(data):
    """As an embedding needs them.

    Without weights but for its table, it learns the shares of the classes.
    """
    codes = np.arange(300)[:, None] % 4
    net = NeuralClassifier(Lookup().double(), **LBFGS).fit(codes, data.counts)
    shares = np.stack([data.counts[codes[:, 0] == i].sum(axis=0) for i in range(4)])
    assert_allclose(
        net.predict_proba(np.arange(4)[:, None]),
        shares / shares.sum(axis=1, keepdims=True),
        atol=1e-6,
    )


@pytest.mark.slow
def test_layers_of_floats_read_integers(data):
    X = np.round(3 * data.X)
    for kind in (int, np.int16, bool):
        assert_array_equal(proba(data, X=X.astype(kind)), proba(data, X=X.astype(kind) * 1.0))
    halves = {"left": X[:, :2].astype(int), "right": X[:, 2:]}
    net = NeuralClassifier(TwoInputs, **FULL_BATCH)
    floats = {"left": X[:, :2], "right": X[:, 2:]}
    of_integers = net.fit(halves, data.counts).predict_proba(halves)
    assert_array_equal(of_integers, net.fit(floats, data.counts).predict_proba(floats))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_modules_of_another_precision(data, dtype):
    assert_allclose(proba(data, module=Affine().to(dtype)), proba(data), atol=0.03)
    if dtype == torch.float64:
        assert_array_equal(
            proba(data, X=data.X.astype(np.float32), module=Affine().double()).shape, (300, 3)
        )


@pytest.mark.slow
def test_two_classes(data):
    labels = (data.counts.argmax(axis=1) > 0).astype(int)
    net = NeuralClassifier(Affine, module__n_classes=2, **FULL_BATCH)
    assert net.fit(data.X, labels).predict_proba(data.X).shape == (300, 2)
    scores = cross_val_score(net, data.X, labels, scoring="neg_log_loss", cv=3)
    assert_allclose(
        cross_val_score(net, data.X, labels, scoring="neg_label_log_loss", cv=KFold(3)),
        cross_val_score(net, data.X, labels, scoring="neg_log_loss", cv=KFold(3)),
        rtol=1e-6,
    )
    assert (scores > -np.log(2)).all()


@pytest.mark.slow
def test_datasets(data):
    """Of counts, as their loss goes by the batch; of numbers of classes.

    With a held-out part by y or by chance.
    """
    X, counts = torch.Tensor(data.X), torch.as_tensor(data.counts)
    options = FULL_BATCH | {"classes": ["a", "b", "c"]}
    net = NeuralClassifier(Affine, **options).fit(TensorDataset(X, counts))
    assert_allclose(net.predict_proba(TensorDataset(X, counts)), proba(data), atol=1e-6)
    assert_allclose(net.predict_proba(data.X), proba(data), atol=1e-6)
    net.fit(TensorDataset(X.double(), counts.argmax(dim=1)))
    assert_allclose(net.predict_proba(data.X), proba(data, data.counts.argmax(axis=1)), atol=1e-6)
    for y in (None, data.counts):
        stopped = NeuralClassifier(Affine, early_stopping=3, **options).fit(
            TensorDataset(X, counts), y
        )
        assert np.isfinite(stopped.history_[:, "valid_loss"]).all()
    with pytest.raises(ValueError, match="pass classes="):
        NeuralClassifier(Affine).fit(TensorDataset(X, counts))
    with pytest.raises(ValueError, match="no sample_weight"):
        net.fit(TensorDataset(X, counts), sample_weight=np.ones(300))


# --- what it learns ---


def test_weights_and_counts_are_repetition(data):
    w = np.random.default_rng(0).integers(0, 4, 300)
    fit = NeuralClassifier(Affine, **FULL_BATCH).fit
    weighted = fit(data.X, data.counts, sample_weight=w).predict_proba(data.X)
    repeated = fit(np.repeat(data.X, w, axis=0), np.repeat(data.counts, w, axis=0)).predict_proba(
        data.X
    )
    assert_allclose(weighted, repeated, atol=1e-5)
    rows, labels = np.nonzero(data.counts)
    again = np.repeat(np.arange(len(rows)), data.counts[rows, labels])
    single = fit(data.X[rows[again]], labels[again]).predict_proba(data.X)
    assert_allclose(proba(data), single, atol=1e-5)
    assert np.abs(weighted - single).max() > 0.01


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_linear_module_converges_to_logistic_regression(n_classes, weighted):
    data = make_label_histograms(
        300, n_classes=n_classes, n_raters=(1, 6), total=3.0, random_state=0
    )
    w = np.random.default_rng(0).uniform(0, 3, 300) if weighted else np.ones(300)
    net = NeuralClassifier(Affine(5, n_classes).double(), **LBFGS).fit(
        data.X, data.counts, sample_weight=w
    )
    rows, labels = np.nonzero(data.counts)
    theirs = LogisticRegression(C=1e10, tol=1e-10, max_iter=1000)
    theirs.fit(data.X[rows], labels, sample_weight=w[rows] * data.counts[rows, labels])
    assert_allclose(net.predict_proba(data.X), theirs.predict_proba(data.X), atol=1e-5)


@pytest.mark.parametrize("batch_size", [7, 64, -1])
@pytest.mark.parametrize("weighted", [False, True])
def test_losses_of_the_history_are_the_label_log_loss(data, batch_size, weighted):
    """They are P1 eq. (82) of the whole part, whatever the batches.

    With learning rate 0 all epochs are alike.
    """
    w = np.random.default_rng(0).uniform(0, 3, 300) if weighted else np.ones(300)
    recorder = Recorder(data.X)
    net = NeuralClassifier(
        MLP, lr=0.0, batch_size=batch_size, max_epochs=2, early_stopping=9, callbacks=[recorder]
    )
    net.fit(data.X, data.counts, sample_weight=w)
    z = net.predict_proba(data.X)
    for name, rows in zip(("train_loss", "valid_loss"), recorder.parts_, strict=True):
        loss = label_log_loss(data.counts[rows], z[rows], sample_weight=w[rows])
        assert_allclose(net.history_[:, name], loss, rtol=1e-5)
    net.set_params(early_stopping=None, module=net.module_).fit(
        data.X, data.counts, sample_weight=w
    )
    assert_allclose(
        net.history_[:, "train_loss"], label_log_loss(data.counts, z, sample_weight=w), rtol=1e-5
    )


def test_a_loss_of_the_user(data):
    loss = RowBrier()
    net = NeuralClassifier(Affine().double(), loss=loss, **LBFGS).fit(data.X, data.counts)
    assert net.criterion_ is not loss
    mu = data.counts / data.counts.sum(axis=1, keepdims=True)
    brier = ((net.predict_proba(data.X) - mu) ** 2).sum(axis=1)
    assert_allclose(net.history_[-1, "train_loss"], brier.mean(), rtol=1e-6)
    assert (
        brier.mean()
        < ((proba(data, module=Affine().double(), **LBFGS) - mu) ** 2).sum(axis=1).mean()
    )
    w = np.random.default_rng(0).integers(0, 4, 300)
    weighted = net.fit(data.X, data.counts, sample_weight=w).predict_proba(data.X)
    repeated = net.fit(
        np.repeat(data.X, w, axis=0), np.repeat(data.counts, w, axis=0)
    ).predict_proba(data.X)
    assert_allclose(weighted, repeated, atol=1e-5)
    given = net.set_params(loss=LabelLogLoss()).fit(data.X, data.counts).predict_proba(data.X)
    named = net.set_params(loss="label_log_loss").fit(data.X, data.counts).predict_proba(data.X)
    assert_allclose(given, named, atol=1e-6)
    again = clone(net.set_params(loss=loss)).fit(data.X, data.counts, w).predict_proba(data.X)
    assert_allclose(again, weighted, atol=1e-6)


@pytest.mark.slow
def test_a_loss_of_the_user_that_says_what_it_divides(data):
    """Its batches add up to the mean over labels; those of a plain call each divide anew."""
    few = {"batch_size": 16, "max_epochs": 3, "lr": 0.1}
    theirs = proba(data, loss=MeanOverLabels(), **few)
    assert_allclose(theirs, proba(data, loss="label_log_loss", **few), atol=1e-5)

    class Plain(nn.Module):
        def forward(self, *batch):
            return MeanOverLabels()(*batch)

    assert np.abs(proba(data, loss=Plain(), **few) - theirs).max() > 1e-3


def test_a_loss_that_is_no_number_is_a_warning(data):
    with pytest.warns(ConvergenceWarning, match="lower lr, or scale X"):
        NeuralClassifier(MLP, optimizer=torch.optim.SGD, lr=1e30, max_epochs=5).fit(
            data.X * 1e10, data.counts
        )


@pytest.mark.parametrize("loss", ["focal", "focal_53", "label_log_loss", "brier"])
@pytest.mark.parametrize("regularizer", [None, MMCEPenalty()])
def test_early_stopping_never_keeps_a_diverged_epoch(data, loss, regularizer):
    """The weights are those of the last epoch with a loss; the history shows where it went."""

    class Diverging(Callback):
        def on_epoch_begin(self, net, **_):
            if len(net.history) == 3:
                with torch.no_grad():
                    next(net.module_.parameters()).fill_(torch.nan)

    net = NeuralClassifier(
        MLP, loss=loss, regularizer=regularizer, lr=0.01, max_epochs=8, early_stopping=4,
        callbacks=[Diverging()], random_state=0,
    )  # fmt: skip
    with pytest.warns(ConvergenceWarning, match="lower lr, or scale X"):
        net.fit(data.X, data.counts)
    assert np.isnan(net.history_[2:, "valid_loss"]).all()
    assert np.isfinite(net.predict_proba(data.X)).all()
