"""Sharpness as a penalty: the metric of the batch, and the identity that it is meant for."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.metrics import kernel_sharpness
from sklearn_lhcal.neural_network import BrierLoss, NeuralClassifier, SharpnessPenalty


def batch(n=40, K=3, seed=0):
    rng = np.random.default_rng(seed)
    u = 1.5 * rng.normal(size=(n, K))
    q = rng.dirichlet(np.ones(K), size=n)
    y = np.array([rng.multinomial(rng.integers(1, 5), p) for p in q])
    return torch.tensor(u, requires_grad=True), torch.tensor(y, dtype=torch.float64)


@pytest.mark.parametrize("kind", ["canonical", "marginal", "top_label"])
@pytest.mark.parametrize("bandwidth", [0.05, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_the_metric_of_the_batch(kind, bandwidth, weighted):
    u, y = batch()
    w = np.random.default_rng(1).uniform(0, 2, 40) if weighted else None
    z = torch.softmax(u, dim=1).detach().numpy()
    options = {"kind": kind, "bandwidth": bandwidth, "bias_correction": None}
    expected = kernel_sharpness(y.numpy(), z, sample_weight=w, **options)
    weight = None if w is None else torch.tensor(w)
    assert_allclose(SharpnessPenalty(bandwidth, kind)(u, y, weight).item(), expected, rtol=1e-9)


@pytest.mark.parametrize("penalty", [0.1, 1.0, 10.0])
def test_squared_error_and_gamma_sharpness_is_squared_error_and_lambda_error(penalty):
    """P2 eq. 6, gradient by gradient: CE_2² = S − 2 E[z·y] + E‖z‖², γ = λ/(1+λ)."""
    u, y = batch()
    mu = y / y.sum(dim=1, keepdim=True)
    z = torch.softmax(u, dim=1)
    sharpness = SharpnessPenalty()
    error = sharpness(u, y) + (z * z - 2 * z * mu).sum(dim=1).mean()
    long = BrierLoss()(u, y) + penalty * error
    short = BrierLoss()(u, y) + penalty / (1 + penalty) * sharpness(u, y)
    (a,) = torch.autograd.grad(long, u, retain_graph=True)
    (b,) = torch.autograd.grad(short, u)
    assert_allclose(a, (1 + penalty) * b, rtol=1e-9, atol=1e-14)


def test_a_constant_has_the_sharpness_of_the_classes():
    """(Σ_i y_i)² without its diagonal, over pairs: an unbiased Σ_k P(k)²."""
    y = torch.tensor([[1.0, 0.0]] * 6 + [[0.0, 1.0]] * 4)
    u = torch.zeros(10, 2, dtype=torch.float64)
    # Each row is left out of its own estimate: means over rows of pairs among the nine others.
    left = [((5 * 4 + 4 * 3) / 72, 6), ((6 * 5 + 3 * 2) / 72, 4)]
    expected = sum(share * n for share, n in left) / 10
    assert_allclose(SharpnessPenalty()(u, y).item(), expected, rtol=1e-9)


def test_it_trains():
    """The larger γ, the less sharp the predictions."""
    data = make_label_histograms(300, n_raters=1, random_state=0)
    sharp = []
    for weight in (0.0, 0.5):
        net = NeuralClassifier(
            lambda: torch.nn.Linear(5, 3),
            loss=BrierLoss(),
            regularizer=SharpnessPenalty(),
            regularizer_weight=weight,
            max_epochs=15,
            lr=0.05,
            random_state=0,
        )
        z = net.fit(data.X, data.counts).predict_proba(data.X)
        sharp.append((z**2).sum(axis=1).mean())
    assert sharp[1] < sharp[0]


@pytest.mark.parametrize(
    ("penalty", "match"),
    [(SharpnessPenalty(0.0), "bandwidth"), (SharpnessPenalty(kind="all"), "kind")],
)
def test_wrong_parameters(penalty, match):
    with pytest.raises(ValueError, match=match):
        penalty(*batch())
