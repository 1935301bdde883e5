"""Training of NeuralClassifier: early stopping, seeds, and training that goes on."""

import copy

import numpy as np
import pandas as pd
import pytest
import torch
from networks import FULL_BATCH, MLP, Recorder, proba
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from skorch.helper import predefined_split
from torch.utils.data import TensorDataset

from sklearn_lhcal.calibration import AlphaCalibration, TemperatureScaling
from sklearn_lhcal.metrics import label_log_loss
from sklearn_lhcal.neural_network import NeuralClassifier

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


@pytest.mark.slow
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


@pytest.mark.slow
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


# a network that was not trained may be right less often than chance
@pytest.mark.filterwarnings("ignore:Classes are labelled less often:UserWarning")
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
