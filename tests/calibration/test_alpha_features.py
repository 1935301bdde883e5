"""α-calibration on the hidden layer of a network, by name, and on other features."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, SplineTransformer, StandardScaler
from torch import nn

from sklearn_lhcal.calibration import AlphaCalibration, PrecomputedClassifier, TemperatureScaling
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import DirichletMixture
from sklearn_lhcal.ensemble import MCDropoutClassifier
from sklearn_lhcal.metrics import histogram_log_loss
from sklearn_lhcal.neural_network import LayerFeatures, NeuralClassifier


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Unflatten(1, (1, 5)), nn.Conv1d(1, 4, 3), nn.ReLU())
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(12, 3)

    def forward(self, X):
        return self.head(self.drop(self.body(X).flatten(1)))


@pytest.fixture(scope="module")
def data():
    return make_label_histograms(
        200, n_classes=3, n_features=5, n_raters=4, total=3.0, random_state=0
    )


@pytest.fixture(scope="module")
def net(data):
    return NeuralClassifier(Net, max_epochs=5, random_state=0).fit(data.X, data.counts)


def wrapped(net, data):
    """The same network in everything that can stand above it, and what its layer sees."""
    scaler = StandardScaler().fit(data.X)
    frozen = FrozenEstimator(net)
    pipeline = make_pipeline(FrozenEstimator(scaler), frozen).fit(data.X, data.counts)
    search = GridSearchCV(net, {"max_epochs": [2]}, cv=2, scoring="neg_label_log_loss").fit(
        data.X, data.counts
    )
    chain = TemperatureScaling(frozen).fit(data.X, data.counts)
    return [
        (frozen, net, data.X),
        (pipeline, net, scaler.transform(data.X)),
        (search, search.best_estimator_, data.X),
        (AlphaCalibration(chain.estimator).fit(data.X, data.counts), net, data.X),
        (chain, net, data.X),
        (MCDropoutClassifier(frozen, random_state=0).fit(data.X, data.counts), net, data.X),
    ]


def outputs(estimator, X, layer):
    return LayerFeatures(FrozenEstimator(estimator), layer).fit_transform(X)


@pytest.mark.slow
def test_a_layer_is_found_below_everything(data, net):
    for estimator, inner, X in wrapped(net, data):
        with torch.no_grad():
            maps = inner.module_.eval().body(torch.as_tensor(X, dtype=torch.float32))
        expected = maps.mean(dim=2).numpy()  # positions are averaged
        assert_allclose(outputs(estimator, data.X, "body"), expected, atol=1e-6)
        flat = outputs(estimator, data.X, "drop")  # dropout is off
        assert_allclose(flat, maps.flatten(1).numpy(), atol=1e-6)


def test_batches_do_not_matter(data, net):
    small = NeuralClassifier.from_trained(net.module_, [0, 1, 2], batch_size=7)
    assert_allclose(outputs(small, data.X, "drop"), outputs(net, data.X, "drop"), atol=1e-6)


def test_a_named_layer_is_that_layers_outputs_as_features(data, net):
    named = AlphaCalibration(TemperatureScaling(FrozenEstimator(net)), features="drop").fit(
        data.X, data.counts
    )
    given = AlphaCalibration(
        TemperatureScaling(FrozenEstimator(net)), features=lambda X: outputs(net, X, "drop")
    ).fit(data.X, data.counts)
    assert_allclose(named.predict_dist(data.X).total, given.predict_dist(data.X).total, rtol=1e-6)
    assert len(named.coef_) == 12


def test_errors_about_layers(data, net):
    with pytest.raises(
        ValueError, match=r"no layer 'dropout'; its layers are body, body\.0, .*drop, head"
    ):
        AlphaCalibration(FrozenEstimator(net), features="dropout").fit(data.X, data.counts)
    with pytest.raises(ValueError, match=r"each fold trains its own.*use FrozenEstimator"):
        AlphaCalibration(net, features="drop").fit(data.X, data.counts)
    with pytest.raises(ValueError, match="at the bottom there is a LogisticRegression"):
        AlphaCalibration(LogisticRegression(), features="drop", cv="holdout").fit(
            data.X, data.counts
        )


def test_holdout_is_one_network(data, net):
    chain = AlphaCalibration(
        TemperatureScaling(clone(net)),
        features="drop",
        fallback=False,
        cv="holdout",
        random_state=0,
    )
    total = chain.fit(data.X, data.counts).predict_dist(data.X).total
    assert np.isfinite(total).all()
    assert np.ptp(total) > 0


def test_a_layer_around_a_dropout_ensemble(data, net):
    dropout = MCDropoutClassifier(FrozenEstimator(net), n_samples=4, random_state=0).fit(
        data.X, data.counts
    )
    chain = AlphaCalibration(FrozenEstimator(dropout), features="drop").fit(data.X, data.counts)
    dist = chain.predict_dist(data.X)
    assert isinstance(dist, DirichletMixture)
    assert_allclose(dist.mean(), dropout.predict_proba(data.X), atol=1e-9)


def test_splines_of_a_feature_fit_what_a_line_cannot():
    """α0 falls with |x|: a linear feature sees nothing, its splines do."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1500, 1))
    total = np.exp(3 - 4 * np.abs(x[:, 0]))
    q = np.array([rng.dirichlet([a / 2, a / 2]) for a in np.maximum(total, 1e-3)])
    counts, half = rng.multinomial(4, q), np.full((1500, 2), 0.5)
    X = np.column_stack([half, x])
    base = PrecomputedClassifier("proba", columns=[0, 1])
    losses = []
    for several in ([], [SplineTransformer(n_knots=6)]):
        features = make_pipeline(FunctionTransformer(lambda X: X[:, 2:]), *several)
        model = AlphaCalibration(base, features=features, penalty=1e-4)
        dist = model.fit(X[:1000], counts[:1000]).predict_dist(X[1000:])
        losses.append(histogram_log_loss(counts[1000:], dist))
    assert losses[1] < losses[0] - 0.02


def test_a_layer_before_an_in_place_activation(data):
    module = nn.Sequential(nn.Linear(5, 8), nn.ReLU(inplace=True), nn.Linear(8, 3))
    net = NeuralClassifier.from_trained(module, [0, 1, 2])
    with torch.no_grad():
        expected = module[0](torch.as_tensor(data.X, dtype=torch.float32)).numpy()
    assert expected.min() < 0
    assert_allclose(outputs(net, data.X, "0"), expected, atol=1e-6)


class Repeated(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(5, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        self.act, self.idle = nn.ReLU(), nn.ReLU()

    def forward(self, X):
        return self.c(self.act(self.b(self.act(self.a(X)))))


@pytest.mark.parametrize(("layer", "rows"), [("act", 2), ("idle", 0)])
def test_a_layer_that_is_used_twice_or_never_is_an_error(layer, rows, data):
    net = FrozenEstimator(NeuralClassifier.from_trained(Repeated(), [0, 1, 2]))
    with pytest.raises(
        ValueError, match=f"Layer '{layer}' gave {rows} samples for 1; name a layer"
    ):
        AlphaCalibration(net, features=layer).fit(data.X, data.counts)


@pytest.mark.parametrize("penalty", [-1, np.nan, "a"])
def test_the_penalty_must_not_be_negative(penalty, data):
    with pytest.raises(ValueError, match=rf"penalty must be a .*number.*, got {penalty!r}"):
        AlphaCalibration("proba", penalty=penalty).fit(data.prediction, data.counts)


@pytest.mark.parametrize(
    ("features", "returned"),
    [
        (lambda X: X[:-1], "199 samples"),
        (lambda X: X[0], "3 samples"),
        (lambda X: X.sum(), "a single number"),
        (FunctionTransformer(lambda X: np.vstack([X, X[:1]])), "201 samples"),
    ],
)
def test_features_have_one_row_for_each_row(features, returned, data):
    with pytest.raises(
        ValueError, match=f"one row for each of the 200 samples of X, it returned {returned}"
    ):
        AlphaCalibration("proba", features=features).fit(data.prediction, data.counts)
