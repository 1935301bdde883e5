"""Seeds hold in threads, and what several predict at once does not meet."""

import pickle
import threading

import joblib
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler, random_split

from sklearn_lhcal.calibration import TemperatureScaling
from sklearn_lhcal.ensemble import DeepEnsembleClassifier, MCDropoutClassifier
from sklearn_lhcal.gaussian_process import SparseGPClassifier
from sklearn_lhcal.neural_network import LayerFeatures, NeuralClassifier

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 5)).astype(np.float32)
Y = rng.multinomial(3, [0.5, 0.3, 0.2], size=200)


def body():
    return nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 3))


def at_once(*functions):
    """What each returns, when they run at the same time, each ten times."""
    results = [[] for _ in functions]
    begin = threading.Barrier(len(functions))

    def work(function, found):
        begin.wait(20)
        for _ in range(10):
            found.append(function())

    pairs = zip(functions, results, strict=True)
    threads = [threading.Thread(target=work, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(len(found) == 10 for found in results)
    return results


def test_dropout_draws_and_the_plain_net_do_not_meet():
    net = NeuralClassifier.from_trained(body(), [0, 1, 2], batch_size=20)
    dropout = MCDropoutClassifier(FrozenEstimator(net), n_samples=5, random_state=0).fit(X, Y)
    of_net, of_dropout = (
        LayerFeatures(FrozenEstimator(model), "2").fit(X) for model in (net, dropout)
    )
    asked = [
        lambda: dropout.sample_proba(X),
        lambda: dropout.sample_proba(X[:90], random_state=1),
        lambda: net.predict_proba(X),
        lambda: of_net.transform(X[:70]),
        lambda: of_dropout.transform(X[:50]),
    ]
    alone = [function() for function in asked]
    for found, expected in zip(at_once(*asked), alone, strict=True):
        for result in found:
            assert_array_equal(result, expected)
    assert not any(module._forward_hooks for module in net.module_.modules())


def test_dropout_leaves_the_hooks_of_the_user():
    net = NeuralClassifier.from_trained(body(), [0, 1, 2])
    seen = []
    net.module_[0].register_forward_hook(lambda module, inputs, output: seen.append(len(output)))
    dropout = MCDropoutClassifier(FrozenEstimator(net), n_samples=2, random_state=0).fit(X, Y)
    dropout.predict_proba(X[:4])
    assert seen == [4, 4]


def test_a_module_that_keeps_an_output_of_training_can_be_asked():
    """Such a tensor cannot be copied by deepcopy."""

    class Keeps(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = body()

        def forward(self, x):
            self.last = self.body(x)
            return self.last

    dropout = MCDropoutClassifier(NeuralClassifier(Keeps, max_epochs=1), n_samples=2)
    fitted = dropout.fit(X, Y)
    fitted.estimator_.module_.train()(torch.as_tensor(X))
    assert fitted.predict_proba(X).shape == (200, 3)


@pytest.mark.parametrize("early_stopping", [None, 2])
def test_seeds_hold_in_threads(early_stopping):
    def fit(seed):
        options = {"max_epochs": 2, "early_stopping": early_stopping, "random_state": seed}
        # a class, so that initial weights are drawn too
        net = NeuralClassifier(MakesBody, **options)
        return net.fit(X, Y).predict_proba(X)

    alone = [fit(0), fit(1)]
    before = torch.get_rng_state()
    for found, expected in zip(at_once(lambda: fit(0), lambda: fit(1)), alone, strict=True):
        for result in found:
            assert_array_equal(result, expected)
    assert_array_equal(torch.get_rng_state(), before)


def test_an_optimizer_that_draws_follows_the_seed():
    class Noisy(torch.optim.SGD):
        def step(self, closure=None):
            loss = super().step(closure)
            with torch.no_grad():
                for parameter in self.param_groups[0]["params"]:
                    parameter += torch.randn_like(parameter) / 10
            return loss

    net = NeuralClassifier(body(), optimizer=Noisy, max_epochs=1, random_state=0)
    assert_array_equal(net.fit(X, Y).predict_proba(X), net.fit(X, Y).predict_proba(X))


class MakesBody(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = body()

    def forward(self, x):
        return self.body(x)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_members_of_deep_ensembles_do_not_depend_on_n_jobs(backend):
    net = NeuralClassifier(MakesBody, max_epochs=2)

    def proba(n_jobs):
        ensemble = DeepEnsembleClassifier(net, n_estimators=4, n_jobs=n_jobs, random_state=0)
        with joblib.parallel_backend(backend):
            return ensemble.fit(X, Y).sample_proba(X)

    states = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    assert_array_equal(proba(4), proba(1))
    assert_array_equal(np.random.get_state()[1], states[0])  # noqa: NPY002
    assert_array_equal(torch.get_rng_state(), states[1])


ONES = torch.ones(20, 6)
ROWS = TensorDataset(torch.arange(20))


def joined(**options):
    return torch.cat([rows for (rows,) in DataLoader(ROWS, **options)])


DRAWS = {
    "rand": lambda: torch.rand(3),
    "randn": lambda: torch.randn(3),
    "randint": lambda: torch.randint(99, (8,)),
    "randint from": lambda: torch.randint(2, 99, (8,)),
    "randperm": lambda: torch.randperm(9),
    "randn_like": lambda: torch.randn_like(ONES),
    "normal": lambda: torch.normal(ONES, ONES),
    "multinomial": lambda: torch.multinomial(torch.ones(90), 5),
    "uniform_": lambda: torch.empty(3).uniform_(),
    "Linear": lambda: nn.Linear(4, 4).weight.detach(),
    "Embedding": lambda: nn.Embedding(4, 4).weight.detach(),
    "orthogonal": lambda: nn.init.orthogonal_(torch.empty(4, 4)),
    "truncated": lambda: nn.init.trunc_normal_(torch.empty(4, 4)),
    "Dropout": lambda: nn.Dropout()(ONES),
    "Dropout2d": lambda: nn.Dropout2d()(ONES[None, :, :, None]),
    "AlphaDropout": lambda: nn.AlphaDropout()(ONES),
    "RReLU": lambda: nn.RReLU()(-ONES),
    "LSTM": lambda: nn.LSTM(6, 5, 2, dropout=0.5)(ONES[None])[0].detach(),
    "GRU": lambda: nn.GRU(6, 5, 2, dropout=0.5)(ONES[None])[0].detach(),
    "Transformer": lambda: nn.TransformerEncoderLayer(6, 2, 8)(ONES).detach(),
    "attention": lambda: nn.functional.scaled_dot_product_attention(
        ONES, ONES, ONES, dropout_p=0.5
    ),
    "Beta": lambda: torch.distributions.Beta(ONES, ONES).sample(),
    "DataLoader": lambda: joined(shuffle=True),
    "WeightedRandomSampler": lambda: joined(sampler=WeightedRandomSampler(torch.ones(20), 20)),
    "random_split": lambda: torch.tensor(random_split(ROWS, [10, 10])[0].indices),
}


def drawn(draw, seed):
    """What a module draws where a network with this seed makes it."""
    found = []

    class Draws(MakesBody):
        def __init__(self):
            super().__init__()
            found.append(draw())

    NeuralClassifier(Draws, max_epochs=1, random_state=seed).fit(X[:20], Y[:20])
    return found[0]


@pytest.mark.parametrize("name", DRAWS)
def test_whatever_torch_draws_follows_the_seed(name):
    before = torch.get_rng_state()
    found = [drawn(DRAWS[name], seed) for seed in (0, 0, 1)]
    assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])
    assert_array_equal(torch.get_rng_state(), before)


def test_seeded_draws_have_the_distribution_of_torch():
    kept, normal = drawn(
        lambda: (nn.Dropout(0.25)(torch.ones(100_000)), torch.randn(100_000)), seed=0
    )
    assert abs(float((kept > 0).double().mean()) - 0.75) < 4.5 * (0.75 * 0.25 / 100_000) ** 0.5
    assert_allclose(kept[kept > 0], 1 / 0.75, rtol=1e-6)
    assert abs(float(normal.mean())) < 4.5 / 100_000**0.5


def test_a_generator_of_the_caller_is_kept():
    own = torch.Generator().manual_seed(3)
    expected = torch.randperm(50, generator=torch.Generator().manual_seed(3))
    assert_array_equal(drawn(lambda: torch.randperm(50, generator=own), seed=0), expected)


def test_generators_are_put_back_after_an_error_and_within_another_seed():

    def fails():
        raise RuntimeError(torch.rand(9))

    def interrupted():
        first = torch.rand(1)
        with pytest.raises(RuntimeError):
            drawn(fails, seed=1)
        return torch.cat([first, torch.rand(1)])

    before = torch.get_rng_state()
    assert_array_equal(drawn(interrupted, seed=0), drawn(lambda: torch.rand(2), seed=0))
    assert_array_equal(torch.get_rng_state(), before)


# of predictions, whose gradients nobody asks for
@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad:UserWarning")
@pytest.mark.parametrize("use_reentrant", [True, False])
def test_seeds_hold_in_checkpoints(use_reentrant):
    """The backward pass draws the masks of the forward pass again."""

    class Checkpointed(MakesBody):
        def forward(self, x):
            return checkpoint(self.body, x, use_reentrant=use_reentrant)

    def fit(body):
        # a reentrant checkpoint has gradients only through what it is given
        net = NeuralClassifier(
            lambda: nn.Sequential(nn.Linear(5, 5), body()), max_epochs=2, random_state=0
        )
        return net.fit(X, Y).predict_proba(X)

    assert_array_equal(fit(Checkpointed), fit(MakesBody))


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is here")
@pytest.mark.parametrize("seed", [None, 0])
def test_a_device_that_is_absent_is_an_error_with_a_seed_too(seed):
    net = NeuralClassifier(body(), device="cuda", random_state=seed)
    with pytest.raises(ValueError, match="device='cuda' was asked for"):
        net.fit(X, Y)


def test_batches_are_dealt_on_the_cpu_whatever_the_default_device():
    """Where tensors that name no device have no values, as on a GPU other numbers are drawn."""
    net = NeuralClassifier(body(), max_epochs=1, iterator_train__shuffle=True, random_state=0)
    expected = net.fit(X, Y).predict_proba(X)
    with torch.device("meta"):
        found = net.predict_proba(X)
        batches = list(net.get_iterator(net.get_dataset(X, Y), training=True))
    assert_array_equal(found, expected)
    assert sum(len(x) for x, _ in batches) == len(X)


on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@on_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_calibrators_read_what_is_on_a_gpu(dtype):
    logits = torch.randn(200, 3, generator=torch.Generator().manual_seed(0)).to(dtype)
    logits.requires_grad_()
    expected = TemperatureScaling("logits").fit(logits, Y).predict_proba(logits)
    found = TemperatureScaling("logits").fit(logits.cuda(), Y).predict_proba(logits.cuda())
    assert_array_equal(found, expected)


@on_gpu
@pytest.mark.parametrize(
    "model",
    [
        NeuralClassifier(body(), max_epochs=2, device="cuda", random_state=0),
        SparseGPClassifier(n_inducing=20, max_iter=5, device="cuda", random_state=0),
    ],
)
def test_what_was_fitted_on_a_gpu_predicts_on_the_cpu(model):
    fitted = clone(model).fit(X, Y)
    expected = fitted.predict_proba(torch.tensor(X).cuda())
    again = pickle.loads(pickle.dumps(fitted)).set_params(device="cpu")
    assert_allclose(again.predict_proba(X), expected, atol=1e-6)
    assert_array_equal(fitted.predict_proba(X), expected)


@on_gpu
def test_a_gpu_as_default_device_changes_nothing():
    net = NeuralClassifier(MakesBody, max_epochs=2, device="cuda", random_state=0)
    with torch.device("cuda"):
        assert_allclose(clone(net).fit(X, Y).predict_proba(X).sum(axis=1), 1)
