"""Ensembles by dropout, augmentation and seeds: laws of their draws."""

import pickle

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from sklearn_lhcal.calibration import AlphaCalibration, TemperatureScaling
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import DirichletMixture, Ensemble
from sklearn_lhcal.ensemble import (
    DeepEnsembleClassifier,
    MCDropoutClassifier,
    TestTimeAugmentationClassifier,
)
from sklearn_lhcal.neural_network import NeuralClassifier


class Net(nn.Module):
    """Dropout at several depths, of several kinds, and batch normalisation."""

    def __init__(self, dropout=nn.Dropout, p=0.5):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(5, 32), nn.BatchNorm1d(32), nn.ReLU())
        self.rest = nn.ModuleDict(
            {"block": nn.Sequential(nn.Sequential(dropout(p)), nn.Linear(32, 3))}
        )

    def forward(self, X):
        return self.rest["block"](self.first(X))


def shifted(X, random_state):
    return X + 0.2 * random_state.standard_normal(X.shape[1])


@pytest.fixture(scope="module")
def data():
    return make_label_histograms(150, n_classes=3, n_features=5, n_raters=3, random_state=0)


@pytest.fixture(scope="module")
def net(data):
    return NeuralClassifier(Net, max_epochs=15, lr=0.01, random_state=0).fit(data.X, data.counts)


def ensembles(net):
    return [
        MCDropoutClassifier(FrozenEstimator(net), n_samples=6, random_state=0),
        TestTimeAugmentationClassifier(FrozenEstimator(net), shifted, n_samples=6, random_state=0),
        DeepEnsembleClassifier(clone(net).set_params(max_epochs=2), n_estimators=6, random_state=0),
        DeepEnsembleClassifier(
            MLPClassifier((8,), max_iter=500, tol=1e-2, learning_rate_init=0.05),
            n_estimators=6,
            random_state=0,
        ),
    ]


@pytest.mark.parametrize("which", range(4), ids=["dropout", "augmentation", "deep", "deep of MLPs"])
def test_grammar(which, data, net):
    model = ensembles(net)[which].fit(data.X, data.counts)
    dist = model.predict_dist(data.X)
    assert isinstance(dist, Ensemble)
    assert dist.proba.shape == (6, 150, 3)
    assert dist.mutual_information().min() > 0
    assert_allclose(model.predict_proba(data.X), dist.mean(), atol=1e-12)
    assert_array_equal(model.predict(data.X), model.classes_[dist.mean().argmax(axis=1)])
    assert model.score(data.X, data.counts) > 0.4
    assert_array_equal(model.predict_dist(data.X).proba, dist.proba)  # the same at every call
    again = clone(model).fit(data.X, data.counts)
    assert_array_equal(again.predict_dist(data.X).proba, dist.proba)
    other = clone(model).set_params(random_state=1).fit(data.X, data.counts)
    assert not np.array_equal(other.predict_dist(data.X).proba, dist.proba)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict_dist(data.X).proba, dist.proba)
    assert_allclose(
        model.sample_proba(data.X, 4, random_state=3), model.sample_proba(data.X, 4, random_state=3)
    )
    assert model.sample_proba(data.X, 4, random_state=3).shape == (4, 150, 3)


@pytest.mark.parametrize("which", range(4), ids=["dropout", "augmentation", "deep", "deep of MLPs"])
def test_rows_do_not_depend_on_each_other(which, data, net):
    model = ensembles(net)[which].fit(data.X, data.counts)
    whole = model.predict_dist(data.X).proba
    rows = np.random.default_rng(0).permutation(150)
    assert_allclose(model.predict_dist(data.X[rows]).proba, whole[:, rows], atol=1e-6)
    assert_allclose(model.predict_dist(data.X[:7]).proba, whole[:, :7], atol=1e-6)


def test_dropout_does_not_depend_on_the_size_of_batches(data, net):
    small = NeuralClassifier.from_trained(net.module_, [0, 1, 2], batch_size=11)
    a, b = (
        MCDropoutClassifier(FrozenEstimator(n), random_state=0)
        .fit(data.X, data.counts)
        .predict_dist(data.X)
        .proba
        for n in (net, small)
    )
    assert_allclose(a, b, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("dropout", [nn.Dropout, nn.AlphaDropout])
def test_draws_have_the_moments_of_dropout(dropout):
    """A linear module behind dropout.

    Mean and variance of the logits over draws are those of torch's own.
    """
    torch.manual_seed(0)
    module = nn.Sequential(dropout(0.3), nn.Linear(5, 2))
    x = torch.randn(1, 5)
    net = NeuralClassifier.from_trained(module, [0, 1])
    model = MCDropoutClassifier(FrozenEstimator(net), n_samples=3000, random_state=0).fit(
        x.numpy(), [[1, 1]]
    )
    p = model.sample_proba(x.numpy())[:, 0]
    ours = np.log(p[:, 1] / p[:, 0])
    module.train()
    with torch.no_grad():
        u = module(x.expand(3000, 5)).numpy()
    theirs = u[:, 1] - u[:, 0]
    error = np.sqrt((ours.var() + theirs.var()) / 3000)
    assert abs(ours.mean() - theirs.mean()) < 4 * error
    assert abs(ours.std() / theirs.std() - 1) < 0.08


def test_whole_channels_are_dropped():
    """Dropout2d keeps or drops a channel: every pixel of it alike."""
    module = nn.Sequential(nn.Dropout2d(0.5), nn.Flatten(), nn.Linear(12, 2, bias=False))
    with torch.no_grad():
        module[2].weight.copy_(torch.tensor([[1.0] * 4 + [10.0] * 4 + [100.0] * 4, [0.0] * 12]))
    X = np.full((1, 3, 2, 2), 0.01, dtype=np.float32)
    net = NeuralClassifier.from_trained(module, [0, 1])
    p = (
        MCDropoutClassifier(FrozenEstimator(net), n_samples=40, random_state=0)
        .fit(X, [[1, 1]])
        .sample_proba(X)[:, 0]
    )
    logit = np.log(p[:, 0] / p[:, 1])
    kept = {round(0.08 * (a + 10 * b + 100 * c), 3) for a in (0, 1) for b in (0, 1) for c in (0, 1)}
    assert {round(float(v), 3) for v in logit} <= kept
    assert len({round(float(v), 3) for v in logit}) > 4


def test_batch_normalisation_stays_as_it_is(data, net):
    before = net.module_.first[1].running_mean.clone()
    model = MCDropoutClassifier(FrozenEstimator(net), random_state=0).fit(data.X, data.counts)
    model.predict_dist(data.X)
    assert torch.equal(net.module_.first[1].running_mean, before)
    assert not any(m._forward_hooks for m in net.module_.modules())
    expected = net.predict_proba(data.X)
    model.predict_dist(data.X)
    assert_allclose(net.predict_proba(data.X), expected)  # plain predictions are plain again


class Shared(nn.Module):
    """One dropout module, used behind two layers."""

    def __init__(self, width):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(5, 16), nn.Linear(16, width), nn.Linear(width, 3)
        self.drop = nn.Dropout(0.5)

    def forward(self, X):
        return self.c(self.drop(torch.relu(self.b(self.drop(torch.relu(self.a(X)))))))


@pytest.mark.slow
@pytest.mark.parametrize("width", [16, 8])
def test_each_use_of_a_dropout_module_has_a_mask_of_its_own(width, data):
    """The mean of the logits is that of torch's own dropout.

    Two equal masks would be one, twice as strong.
    """
    torch.manual_seed(0)
    net = NeuralClassifier.from_trained(Shared(width), [0, 1, 2])
    X = data.X[:2].astype(np.float32)
    u = (
        MCDropoutClassifier(FrozenEstimator(net), n_samples=2_000, random_state=0)
        .fit(X, [0, 1])
        .sample_proba(X)
    )
    u = np.log(u) - np.log(u).mean(axis=2, keepdims=True)
    with torch.no_grad():
        module = net.module_.train()
        v = module(torch.as_tensor(X).repeat(2_000, 1)).reshape(2_000, 2, 3).numpy()
        module.eval()
    v -= v.mean(axis=2, keepdims=True)
    for moment in (1, 2):
        se = np.sqrt(((u**moment).var(axis=0) + (v**moment).var(axis=0)) / 2_000)
        assert (np.abs((u**moment).mean(axis=0) - (v**moment).mean(axis=0)) < 4.5 * se).all()
    whole = MCDropoutClassifier(FrozenEstimator(net), n_samples=3, random_state=0).fit(
        data.X, data.counts
    )
    one = np.concatenate([whole.predict_dist(data.X[i : i + 1]).proba for i in range(3)], axis=1)
    assert_allclose(one, whole.predict_dist(data.X[:3]).proba, atol=1e-6)


def test_without_dropout_is_an_error(data):
    for module in (nn.Linear(5, 3), Net(p=0.0)):
        net = NeuralClassifier.from_trained(module, [0, 1, 2])
        with pytest.raises(ValueError, match="no dropout module"):
            MCDropoutClassifier(FrozenEstimator(net)).fit(data.X, data.counts)
    with pytest.raises(ValueError, match="needs a skorch net"):
        MCDropoutClassifier(KNeighborsClassifier()).fit(data.X, data.counts)


def test_deep_ensembles_need_seeds(data, net):
    for estimator in (KNeighborsClassifier(), FrozenEstimator(net)):
        with pytest.raises(ValueError, match="no random_state"):
            DeepEnsembleClassifier(estimator).fit(data.X, data.counts)
    instance = make_pipeline(StandardScaler(), NeuralClassifier(Net(), random_state=0))
    with pytest.raises(ValueError, match="neuralclassifier__module is an instance"):
        DeepEnsembleClassifier(instance).fit(data.X, data.counts)


def test_members_of_deep_ensembles_start_apart(data, net):
    """One step on all samples at once: what tells the members apart is where they started."""
    one = clone(net).set_params(max_epochs=1, batch_size=-1, lr=1e-6)
    proba = (
        DeepEnsembleClassifier(one, n_estimators=3, random_state=0)
        .fit(data.X, data.counts)
        .sample_proba(data.X)
    )
    assert proba.std(axis=0).mean() > 0.01


def test_in_pipelines_and_under_calibrators(data, net):
    inside = MCDropoutClassifier(
        make_pipeline(StandardScaler(), clone(net)), n_samples=4, random_state=0
    )
    chain = AlphaCalibration(TemperatureScaling(inside), cv=2).fit(data.X, data.counts)
    dist = chain.predict_dist(data.X)
    assert isinstance(dist, DirichletMixture)
    assert len(dist.member_means()) == (4 if chain.uses_members_ else 1)
    assert_allclose(chain.predict_proba(data.X), dist.mean(), atol=1e-12)


def test_posterior_of_an_ensemble_is_the_product_rule(data, net):
    dist = MCDropoutClassifier(FrozenEstimator(net), n_samples=5, random_state=0).fit(
        data.X, data.counts
    )
    dist = dist.predict_dist(data.X)
    likelihood = np.prod(dist.proba**data.counts, axis=2)
    assert_allclose(
        dist.posterior(data.counts).weights, likelihood / likelihood.sum(axis=0), rtol=1e-9
    )


def test_one_class_is_certain(data):
    net = NeuralClassifier(
        nn.Sequential(nn.Dropout(), nn.Linear(5, 1)), max_epochs=1, random_state=0
    )
    for model in (
        net.fit(data.X, ["a"] * 150),
        MCDropoutClassifier(FrozenEstimator(net), random_state=0),
    ):
        assert model.fit(data.X, ["a"] * 150).score(data.X, ["a"] * 150) == 1


def test_a_trained_network_that_is_not_frozen_warns(data, net):
    with pytest.warns(UserWarning, match=r"trained already.*FrozenEstimator"):
        MCDropoutClassifier(net, random_state=0).fit(data.X, data.counts)
