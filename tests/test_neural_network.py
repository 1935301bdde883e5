"""NeuralClassifier: what it trains on, what it learns, and how it lives in scikit-learn."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch.callbacks import Callback, LRScheduler
from skorch.helper import predefined_split
from torch import nn
from torch.utils.data import TensorDataset

from sklearn_lhcal.calibration import AlphaCalibration, TemperatureScaling
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import Dirichlet, PointMass, predict_dist
from sklearn_lhcal.label_histogram import KnownProbabilities
from sklearn_lhcal.metrics import expected_accuracy, label_log_loss
from sklearn_lhcal.neural_network import LabelLogLoss, NeuralClassifier
from sklearn_lhcal.neural_network._data import as_arrays

FULL_BATCH = {"batch_size": -1, "lr": 0.05, "max_epochs": 30, "random_state": 0}
LBFGS = {
    "optimizer": torch.optim.LBFGS,
    "optimizer__line_search_fn": "strong_wolfe",
    "optimizer__max_iter": 500,
    "optimizer__tolerance_change": 1e-15,
    "optimizer__tolerance_grad": 1e-10,
    "lr": 1.0,
    "batch_size": -1,
    "max_epochs": 3,
}


class MLP(nn.Module):
    def __init__(self, n_classes=3, n_hidden=8, dropout=0.0, norm=False):
        super().__init__()
        norm = nn.BatchNorm1d(n_hidden) if norm else nn.Identity()
        body = nn.Linear(5, n_hidden), norm, nn.ReLU(), nn.Dropout(dropout)
        self.layers = nn.Sequential(*body, nn.Linear(n_hidden, n_classes))

    def forward(self, X):
        return self.layers(X)


class Affine(nn.Linear):
    """All logits 0 at first, so that two of them start alike."""

    def __init__(self, n_features=5, n_classes=3):
        super().__init__(n_features, n_classes)
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)


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


class Recorder(Callback):
    """Rows of the parts, and predictions after each epoch."""

    def __init__(self, X):
        self.X = X

    def on_train_begin(self, net, **_):
        self.proba_ = []

    def on_epoch_end(self, net, dataset_train=None, dataset_valid=None, **_):
        self.proba_.append(net.predict_proba(self.X))
        self.parts_ = [getattr(part, "indices", None) for part in (dataset_train, dataset_valid)]


@pytest.fixture
def data():
    return make_label_histograms(300, n_classes=3, n_raters=(1, 6), total=3.0, random_state=0)


def proba(data, y=None, X=None, module=Affine, **options):
    net = NeuralClassifier(module, **FULL_BATCH | options)
    return net.fit(data.X if X is None else X, data.counts if y is None else y).predict_proba(
        data.X
    )


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
    assert net.score(data.X, frame(data.counts, columns=["mild", "severe", "benign"])) == score


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
    expected = proba(data, X=X)
    for frame in (pd.DataFrame, pl.DataFrame):
        names = list("abcde")
        mixed = frame({n: X[:, i].astype(int if i < 2 else float) for i, n in enumerate(names)})
        assert_array_equal(proba(data, X=mixed), expected)
    assert_array_equal(proba(data, X=pd.DataFrame(X).astype(object)), expected)


def test_dict_of_inputs_and_tuple_of_outputs(data):
    X = {"left": data.X[:, :2], "right": pd.DataFrame(data.X[:, 2:])}
    net = NeuralClassifier(TwoInputs, **FULL_BATCH).fit(X, data.counts)
    assert_allclose(net.predict_proba(X), proba(data), atol=1e-6)
    calibrator = TemperatureScaling(net, cv=3).fit(X, data.counts)
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
    net = NeuralClassifier(Lookup, **LBFGS).fit(codes, data.counts)
    shares = np.stack([data.counts[codes[:, 0] == i].sum(axis=0) for i in range(4)])
    assert_allclose(
        net.predict_proba(np.arange(4)[:, None]),
        shares / shares.sum(axis=1, keepdims=True),
        atol=1e-4,
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_modules_of_another_precision(data, dtype):
    assert_allclose(proba(data, module=Affine().to(dtype)), proba(data), atol=0.03)
    if dtype == torch.float64:
        assert_array_equal(
            proba(data, X=data.X.astype(np.float32), module=Affine().double()).shape, (300, 3)
        )


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
    """P1 eq.

    (53) of the whole part, whatever the batches: with learning rate 0 all epochs are alike.
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


def test_a_loss_that_is_no_number_is_a_warning(data):
    with pytest.warns(ConvergenceWarning, match="lower lr, or scale X"):
        NeuralClassifier(MLP, optimizer=torch.optim.SGD, lr=1e30, max_epochs=5).fit(
            data.X * 1e10, data.counts
        )


# --- early stopping ---


@pytest.mark.parametrize(("batch_size", "lr"), [(16, 0.003), (-1, 0.05)])
def test_early_stopping_keeps_the_best_weights(data, batch_size, lr):
    recorder = Recorder(data.X)
    net = NeuralClassifier(
        MLP,
        batch_size=batch_size,
        lr=lr,
        max_epochs=200,
        early_stopping=4,
        callbacks=[recorder],
        random_state=0,
    ).fit(data.X, data.counts)
    loss = np.array(net.history_[:, "valid_loss"])
    best = loss.argmin()
    assert 0 < best < 195
    assert len(loss) == best + 1 + 4
    assert_array_equal(net.predict_proba(data.X), recorder.proba_[best])
    assert not np.array_equal(recorder.proba_[best], recorder.proba_[-1])


def test_early_stopping_holds_out_a_stratified_fifth(data):
    recorder = Recorder(data.X)
    NeuralClassifier(MLP, max_epochs=2, early_stopping=4, callbacks=[recorder]).fit(
        data.X, data.counts
    )
    train, valid = recorder.parts_
    assert sorted([*train, *valid]) == list(range(300))
    votes = data.counts.argmax(axis=1)
    assert_allclose(np.bincount(votes[valid]), np.bincount(votes) / 5, atol=1)


def test_early_stopping_on_rows_of_the_user(data):
    rows = np.arange(300) % 3 == 0
    held_out = TensorDataset(torch.Tensor(data.X[rows]), torch.as_tensor(data.counts[rows]))
    net = NeuralClassifier(
        MLP,
        lr=0.05,
        max_epochs=300,
        batch_size=-1,
        early_stopping=4,
        train_split=predefined_split(held_out),
    ).fit(data.X[~rows], data.counts[~rows])
    loss = net.history_[:, "valid_loss"]
    assert_allclose(
        label_log_loss(data.counts[rows], net.predict_proba(data.X[rows])), min(loss), rtol=1e-5
    )
    assert len(loss) == np.argmin(loss) + 5


# --- the module, and its seeds ---


def test_a_module_instance_is_copied(data):
    module = MLP()
    before = copy.deepcopy(module.state_dict())
    net = NeuralClassifier(module, **FULL_BATCH).fit(data.X, data.counts)
    for name, weight in module.state_dict().items():
        assert torch.equal(weight, before[name])
        assert not torch.equal(weight, net.module_.state_dict()[name])
    z = net.predict_proba(data.X)
    assert_array_equal(net.fit(data.X, data.counts).predict_proba(data.X), z)
    assert_array_equal(clone(net).fit(data.X, data.counts).predict_proba(data.X), z)


@pytest.mark.parametrize("options", [{}, {"early_stopping": 3}], ids=str)
def test_seeds(data, options):
    """The initial weights, the batches, dropout and the held-out rows follow the seed.

    And nothing else does.
    """

    def fit(seed, module=MLP):
        return proba(
            data, module=module, module__dropout=0.5, batch_size=32, random_state=seed, **options
        )

    np.random.seed(3)  # noqa: NPY002
    torch.manual_seed(3)
    expected = np.random.rand(), torch.rand(1).item()  # noqa: NPY002
    np.random.seed(3)  # noqa: NPY002
    torch.manual_seed(3)
    first = fit(0)
    assert (np.random.rand(), torch.rand(1).item()) == expected  # noqa: NPY002
    assert_array_equal(fit(0), first)
    assert_array_equal(fit(np.random.RandomState(1)), fit(np.random.RandomState(1)))
    assert np.abs(fit(1) - first).max() > 1e-3
    torch.manual_seed(5)
    free = fit(None)
    assert np.abs(fit(None) - free).max() > 1e-3
    torch.manual_seed(5)
    assert_array_equal(fit(None), free)


def test_each_source_of_randomness_follows_the_seed(data):
    """One at a time: the held-out rows; the batches, with given weights and no dropout.

    Dropout, with one batch.
    """
    held_out = []
    for seed in (0, 0, 1):
        recorder = Recorder(data.X)
        proba(data, early_stopping=2, callbacks=[recorder], random_state=seed)
        held_out.append(set(recorder.parts_[1]))
    assert held_out[0] == held_out[1] != held_out[2]
    for options in (
        {"module": MLP(), "batch_size": 32},
        {"module": MLP(dropout=0.5), "batch_size": -1},
    ):
        a, b, c = (proba(data, **options | {"random_state": seed}) for seed in (0, 0, 1))
        assert_array_equal(a, b)
        assert np.abs(a - c).max() > 1e-4


@pytest.mark.parametrize("options", [{"module__dropout": 0.5}, {"module__norm": True}], ids=str)
def test_predictions_do_not_depend_on_the_batches(data, options):
    net = NeuralClassifier(MLP, batch_size=50, max_epochs=5, random_state=0, **options).fit(
        data.X, data.counts
    )
    z = net.predict_proba(data.X)
    assert_array_equal(net.predict_proba(data.X), z)
    order = np.random.default_rng(0).permutation(300)
    assert_allclose(net.predict_proba(data.X[order]), z[order], atol=1e-6)
    assert_allclose(net.set_params(batch_size=7).predict_proba(data.X), z, atol=1e-6)
    assert_allclose(net.predict_proba(data.X[:1]), z[:1], atol=1e-6)


def test_from_trained(data):
    module = MLP(dropout=0.5)
    logits = module.eval()(torch.Tensor(data.X)).detach().numpy().astype(float)
    module.train()
    net = NeuralClassifier.from_trained(module, ["c", "a", "b"])
    assert_allclose(net.predict_proba(data.X), softmax(logits, axis=1), atol=1e-6)
    assert net.classes_.tolist() == ["c", "a", "b"]
    assert_array_equal(net.predict(data.X), np.array(["c", "a", "b"])[logits.argmax(axis=1)])
    frame = pd.DataFrame(data.counts, columns=["c", "a", "b"])
    before = copy.deepcopy(module.state_dict())
    chain = AlphaCalibration(TemperatureScaling(FrozenEstimator(net))).fit(
        data.X, frame[["a", "b", "c"]]
    )
    assert all(
        torch.equal(weight, before[name]) for name, weight in net.module_.state_dict().items()
    )
    by_hand = AlphaCalibration(TemperatureScaling("logits")).fit(logits, data.counts)
    assert_allclose(chain.estimator_.temperature_, by_hand.estimator_.temperature_, rtol=1e-5)
    assert_allclose(chain.predict_dist(data.X).total, by_hand.predict_dist(logits).total, rtol=1e-4)
    assert chain.score(data.X, frame) == by_hand.score(logits, data.counts)


def test_partial_fit_goes_on(data):
    names = np.array(["a", "b", "c"])[data.counts.argmax(axis=1)]
    module = MLP()
    whole = NeuralClassifier(module, **FULL_BATCH | {"max_epochs": 20}).fit(data.X, names)
    parts = NeuralClassifier(module, **FULL_BATCH | {"max_epochs": 10})
    parts.partial_fit(data.X, names).partial_fit(data.X, names)
    assert_allclose(parts.predict_proba(data.X), whole.predict_proba(data.X), atol=1e-5)
    parts.partial_fit(data.X[names != "a"], names[names != "a"])
    assert parts.classes_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="not known"):
        parts.partial_fit(data.X[:3], ["a", "b", "d"])
    first = NeuralClassifier(MLP, **FULL_BATCH).partial_fit(
        data.X[:2], ["b", "c"], classes=["c", "b", "a"]
    )
    assert first.classes_.tolist() == ["a", "b", "c"]
    assert parts.fit(data.X, data.counts).classes_.tolist() == [0, 1, 2]
    warm = NeuralClassifier(module, warm_start=True, **FULL_BATCH | {"max_epochs": 10}).fit(
        data.X, names
    )
    assert_allclose(
        warm.fit(data.X, names).predict_proba(data.X), whole.predict_proba(data.X), atol=1e-5
    )


# --- in scikit-learn ---


def test_parameters_copies_and_pickles(data):
    net = NeuralClassifier(
        MLP, module__n_hidden=4, early_stopping=3, callbacks=[LRScheduler("StepLR", step_size=5)]
    )
    assert is_classifier(net)
    params = net.get_params()
    assert (params["lr"], params["module__n_hidden"], params["loss"]) == (1e-3, 4, "label_log_loss")
    net.set_params(lr=0.1, module__n_hidden=6, max_epochs=7, random_state=0).fit(
        data.X, data.counts
    )
    assert net.module_.layers[0].out_features == 6
    z = net.predict_proba(data.X)
    for other in (
        pickle.loads(pickle.dumps(net)),
        copy.deepcopy(net),
        clone(net).fit(data.X, data.counts),
    ):
        assert_array_equal(other.predict_proba(data.X), z)
        assert_array_equal(other.classes_, [0, 1, 2])
    with pytest.raises(NotFittedError):
        clone(net).predict_proba(data.X)
    for call in ("predict", "predict_proba"):
        with pytest.raises(NotFittedError):
            getattr(NeuralClassifier(MLP), call)(data.X)


def test_grid_search_in_two_processes(data):
    frame = pd.DataFrame(data.counts, columns=list("bca"))
    net = NeuralClassifier(
        MLP, max_epochs=10, random_state=0, callbacks=[("rate", LRScheduler("StepLR", step_size=5))]
    )
    grid = {"lr": [1e-4, 0.05], "module__n_hidden": [4], "callbacks__rate__step_size": [2]}
    scores = []
    for n_jobs in (1, 2):
        search = GridSearchCV(
            net, grid, scoring="neg_epistemic_loss", cv=3, n_jobs=n_jobs, error_score="raise"
        )
        scores.append(search.fit(data.X, frame).cv_results_["mean_test_score"])
        assert search.best_params_["lr"] == 0.05
        assert search.best_estimator_.module_.layers[0].out_features == 4
    assert_allclose(scores[0], scores[1], rtol=1e-6)


@pytest.mark.parametrize("cv", [3, "holdout"])
def test_in_a_pipeline_and_in_calibrators(data, cv):
    net = NeuralClassifier(MLP, lr=0.05, max_epochs=10, random_state=0)
    frame = pd.DataFrame(data.counts, columns=list("bca"))
    pipeline = make_pipeline(StandardScaler(), net)
    assert isinstance(predict_dist(pipeline.fit(data.X, frame), data.X), PointMass)
    for inner in (net, pipeline):
        chain = AlphaCalibration(TemperatureScaling(inner), cv=cv, random_state=0).fit(
            data.X, frame
        )
        dist = chain.predict_dist(data.X)
        assert isinstance(dist, Dirichlet)
        assert_allclose(chain.predict_proba(data.X), dist.mean(), atol=1e-12)
        assert chain.classes_.tolist() == ["a", "b", "c"]
        assert label_log_loss(data.counts[:, [2, 0, 1]], dist.mean()) < 0.9
        assert chain.score(data.X, frame) > 0.5


def test_out_of_fold_scores_of_networks_by_hand(data):
    net = NeuralClassifier(MLP, lr=0.05, max_epochs=10, random_state=0)
    calibrator = TemperatureScaling(net, cv=KFold(3)).fit(data.X, data.counts)
    scores = [
        np.log(clone(net).fit(data.X[train], data.counts[train]).predict_proba(data.X[test]))
        for train, test in KFold(3).split(data.X)
    ]
    by_hand = TemperatureScaling("logits").fit(np.concatenate(scores), data.counts)
    assert_allclose(calibrator.temperature_, by_hand.temperature_, rtol=1e-6)


def test_weights_under_metadata_routing(data):
    w = np.random.default_rng(0).uniform(0, 3, 300)
    net = NeuralClassifier(Affine, **FULL_BATCH)
    plain = TemperatureScaling(net, cv=3).fit(data.X, data.counts, sample_weight=w)
    with config_context(enable_metadata_routing=True):
        routed = TemperatureScaling(net.set_fit_request(sample_weight=True), cv=3)
        routed.set_fit_request(sample_weight=True).fit(data.X, data.counts, sample_weight=w)
        unweighted = TemperatureScaling(clone(net).set_fit_request(sample_weight=False), cv=3)
        unweighted.set_fit_request(sample_weight=True).fit(data.X, data.counts, sample_weight=w)
        search = GridSearchCV(
            net.set_score_request(sample_weight=True), {"lr": [0.05]}, cv=3, error_score="raise"
        )
        search.fit(data.X, data.counts, sample_weight=w)
    assert_allclose(routed.predict_proba(data.X), plain.predict_proba(data.X))
    direct = clone(net).fit(data.X, data.counts, sample_weight=w)
    assert_allclose(search.predict_proba(data.X), direct.predict_proba(data.X))
    assert np.abs(unweighted.predict_proba(data.X) - plain.predict_proba(data.X)).max() > 1e-3


def test_progress_is_printed_on_demand(data, capsys):
    options = {"max_epochs": 20, "early_stopping": 2, "lr": 0.5, "random_state": 0}
    NeuralClassifier(MLP, **options).fit(data.X, data.counts)
    assert capsys.readouterr() == ("", "")
    NeuralClassifier(MLP, verbose=1, **options).fit(data.X, data.counts)
    assert "valid_loss" in capsys.readouterr().out


# --- errors ---


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "hinge"}, r"loss must be a torch module or one of \['brier', .*\], got 'hinge'"),
        ({"loss": LabelLogLoss}, "loss must be a torch module or one of"),
        ({"criterion": nn.CrossEntropyLoss}, "takes its criterion as loss="),
        ({"module__n_classes": 4}, r"one logit a class, shape \(n, 3\); it returned \(64, 4\)"),
        (
            {"module": lambda: nn.Sequential(nn.Linear(5, 1), nn.Flatten(0))},
            r"shape \(n, 3\); it returned \(64,\)",
        ),
        ({"max_iter": 3}, "max_iter"),
    ],
)
def test_wrong_parameters(data, options, message):
    with pytest.raises(ValueError, match=message):
        NeuralClassifier(**{"module": MLP} | options).fit(data.X, data.counts)


def test_wrong_data(data):
    net = NeuralClassifier(MLP, max_epochs=1)
    with pytest.raises(ValueError, match="X has 299 rows, expected 300"):
        net.fit(data.X[:299], data.counts)
    with pytest.raises(ValueError, match="fractional"):
        net.fit(data.X, data.counts / 2)
    with pytest.raises(ValueError, match="requires y"):
        net.fit(data.X)
    with pytest.raises(ValueError, match="sample_weight"):
        net.fit(data.X, data.counts, sample_weight=-np.ones(300))
    with pytest.raises(ValueError, match=r"shape \(n, 2\); it returned \(64, 3\)"):
        NeuralClassifier.from_trained(MLP(), ["a", "b"]).predict_proba(data.X)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_absent_cuda_is_an_error(data):
    for device in ("cuda", "cuda:1"):
        with pytest.raises(ValueError, match="no CUDA device here; use device='cpu'"):
            NeuralClassifier(MLP, device=device).fit(data.X, data.counts)
        with pytest.raises(ValueError, match="no CUDA device"):
            NeuralClassifier.from_trained(MLP(), [0, 1, 2], device=device)


def test_targets_go_to_the_device_of_the_outputs():
    """Without a GPU at hand, by torch's device that holds no data."""
    net = NeuralClassifier(MLP, device="meta", classes=[0, 1, 2]).initialize()
    logits = torch.zeros(2, 3, device="meta")
    for y in (torch.ones(2, 3), (torch.ones(2, 3), torch.ones(2)), torch.tensor([0, 2])):
        assert net.get_loss(logits, y).device.type == "meta"


@pytest.mark.parametrize("dtype", [">f8", ">f4"])
def test_foreign_byte_order(dtype, data):
    native = data.X.astype(dtype[1:])
    assert as_arrays(native) is native
    assert_array_equal(proba(data, X=native.astype(dtype)), proba(data, X=native))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_cuda(data):
    torch.cuda.manual_seed(3)
    expected = torch.rand(1, device="cuda").item()
    torch.cuda.manual_seed(3)
    options = {"module__dropout": 0.5, "device": "cuda", "early_stopping": 5}
    first, second = (proba(data, module=MLP, **options) for _ in range(2))
    assert torch.rand(1, device="cuda").item() == expected
    assert_allclose(first, second, atol=1e-4)
    assert_allclose(proba(data, device="cuda"), proba(data), atol=1e-4)
