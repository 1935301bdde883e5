"""Losses of decisions: direct loss and margin rescaling, their bounds and gradients."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from torch import nn

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.metrics import bayes_decision, decision_risk
from sklearn_lhcal.neural_network import DirectLoss, MarginRescalingLoss, NeuralClassifier

BOUNDS = [("lower", DirectLoss), ("upper", DirectLoss), (None, MarginRescalingLoss)]


@pytest.fixture
def data():
    return make_label_histograms(
        300, n_classes=3, n_raters=(1, 5), overconfidence=2.0, random_state=0
    )


@pytest.fixture
def C():
    """Four decisions for three classes: the last is to reject."""
    return np.array([[0.0, 1.0, 2.0, 0.5], [5.0, 0.0, 1.0, 0.5], [20.0, 3.0, 0.0, 0.5]])


def problem(seed, n=6, K=3, D=4):
    rng = np.random.default_rng(seed)
    return (
        rng.normal(size=(n, K)) * 2,
        rng.multinomial(rng.integers(1, 4), rng.dirichlet(np.ones(K), n)),
        rng,
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 100))
def test_bounds_of_the_hard_minimum(seed, lam):
    """L⁻ ≤ cost of the decision ≤ L⁺ ≤ L^MR, row by row (P4 Prop. 3 and 4).

    And L⁺ = L^MR where the decision is best.
    """
    u, y, rng = problem(seed)
    C = rng.exponential(size=(3, 4))
    u, y = torch.as_tensor(u), torch.as_tensor(y)
    lower, upper, margin = (
        loss(C, lam, **({"bound": b} if b else {})).row_loss(u, y).numpy() for b, loss in BOUNDS
    )
    c = (y / y.sum(dim=1, keepdim=True).double()).numpy() @ C / C.max()
    d = bayes_decision(torch.softmax(u, dim=1).numpy(), C)
    cost = c[np.arange(len(c)), d]
    tol = 1e-9 * max(1, 1 / lam)
    assert (lower <= cost + tol).all()
    assert (cost <= upper + tol).all()
    assert (upper <= margin + tol).all()
    best = d == c.argmin(axis=1)
    assert_allclose(upper[best], margin[best], atol=tol)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.05, 10), st.floats(0.5, 60))
def test_bounds_of_the_smooth_minimum(seed, lam, beta):
    """The same chain for decisions drawn by softmin."""
    u, y, rng = problem(seed)
    C = rng.exponential(size=(3, 4))
    u, y = torch.as_tensor(u), torch.as_tensor(y)
    lower, upper, margin = (
        loss(C, lam, beta, **({"bound": b} if b else {})).row_loss(u, y).numpy()
        for b, loss in BOUNDS
    )
    f = torch.softmax(u, dim=1).numpy() @ C / C.max()
    p = np.exp(-beta * (f - f.min(axis=1, keepdims=True)))
    p /= p.sum(axis=1, keepdims=True)
    c = (y / y.sum(dim=1, keepdim=True).double()).numpy() @ C / C.max()
    cost, tol = (p * c).sum(axis=1), 1e-8
    assert (lower <= cost + tol).all()
    assert (cost <= upper + tol).all()
    assert (upper <= margin + tol).all()


def test_gradient_is_the_papers(C):
    """Eq. (17): ∇_π = (1/λ)[l(·, d̂_λ) − l(·, d̂)] of L⁻, with costs over the largest."""
    u, _, rng = problem(3, n=50)
    y, lam = rng.integers(3, size=50), 0.7
    scaled = C / C.max()
    loss = DirectLoss(C, lam, bound="lower")
    z = torch.softmax(torch.as_tensor(u), dim=1).requires_grad_()
    one_hot = nn.functional.one_hot(torch.as_tensor(y), 3).double()
    loss._bound(z @ loss.costs, one_hot @ loss.costs).sum().backward()
    f = z.detach().numpy() @ scaled
    decided, perturbed = f.argmin(axis=1), (f + lam * scaled[y]).argmin(axis=1)
    assert (decided != perturbed).any()
    assert_allclose(z.grad.numpy(), (scaled[:, perturbed] - scaled[:, decided]).T / lam, atol=1e-12)


@pytest.mark.parametrize(("bound", "loss"), BOUNDS, ids=["lower", "upper", "margin"])
def test_gradients_of_the_smooth_losses(bound, loss, C):
    loss = loss(C, 0.4, 7.0, **({"bound": bound} if bound else {}))
    u, y, _ = problem(0)
    u = torch.as_tensor(u).requires_grad_()
    assert torch.autograd.gradcheck(lambda u: loss(u, torch.as_tensor(y)), u)
    assert torch.autograd.gradcheck(
        lambda u: loss(u, torch.as_tensor(y), torch.arange(6.0).double()), u
    )


@pytest.mark.parametrize("beta", [None, 5.0])
@pytest.mark.parametrize(("bound", "loss"), BOUNDS, ids=["lower", "upper", "margin"])
def test_losses_do_not_depend_on_the_unit_of_cost(bound, loss, beta, C):
    u, y, _ = problem(1)
    u, y = torch.as_tensor(u), torch.as_tensor(y)
    options = {"bound": bound} if bound else {}
    a, b = (loss(unit * C, 0.3, beta, **options)(u, y) for unit in (1.0, 1e4))
    assert_allclose(a, b)
    weighted = loss(C, 0.3, beta, **options)(u, y, torch.tensor([1.0, 0, 2, 0, 0, 1]))
    rows = [0, 2, 2, 5]
    assert_allclose(weighted, loss(C, 0.3, beta, **options)(u[rows], y[rows]))


def test_negative_costs_are_shifted(C):
    """A gain of 3 for the first class.

    The losses of its rows move by a constant, and no gradient does.
    """
    gain = C - np.array([[3.0], [0.0], [0.0]])
    u, y, _ = problem(2)
    grads = []
    for matrix in (C, gain):
        x = torch.tensor(u, requires_grad=True)
        DirectLoss(matrix, 0.3, 5.0)(x, torch.as_tensor(y)).backward()
        grads.append(x.grad)
    assert_allclose(grads[0], grads[1], atol=1e-12)


def test_a_histogram_is_a_tighter_bound_than_its_labels(C):
    u, _, _ = problem(4)
    y, u = torch.tensor([[2, 1, 3]] * 6), torch.as_tensor(u)
    loss = DirectLoss(C, 0.5)
    single = torch.stack([loss.row_loss(u, torch.eye(3)[[k] * 6]) for k in range(3)], dim=1)
    mean = (single * y / 6).sum(dim=1)
    assert (loss.row_loss(u, y) <= mean + 1e-12).all()
    assert (loss.row_loss(u, y) < mean - 1e-3).any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda C: DirectLoss(C, 0.0), "lam must be a finite number of at least 1e-8"),
        (lambda C: DirectLoss(C, beta=0.0), "beta must be a finite number of at least 1e-8"),
        (lambda C: DirectLoss(C, bound="both"), 'bound must be "upper" or "lower"'),
        (lambda C: MarginRescalingLoss(np.ones((3, 2)) * 0), "nothing is to decide"),
        (
            lambda C: DirectLoss(C)(torch.zeros(1, 2), torch.ones(1, 2)),
            "has 3 classes, but there are 2 logits",
        ),
    ],
)
def test_losses_that_are_refused(C, make, message):
    with pytest.raises(ValueError, match=message):
        make(C)


@pytest.mark.parametrize("loss", [DirectLoss, MarginRescalingLoss])
def test_a_network_learns_decisions(loss):
    """From the loss alone, in float32 and mini-batches.

    Cheaper decisions than a constant, and than at the start.
    """
    data = make_label_histograms(
        400, n_classes=3, n_raters=3, total=50.0, class_sep=4.0, random_state=0
    )
    C = np.array([[0.0, 1.0, 2.0], [8.0, 0.0, 1.0], [2.0, 2.0, 0.0]])
    net = NeuralClassifier(
        nn.Linear(5, 3), loss=loss(C, 1.0, 20.0), lr=0.05, max_epochs=25, random_state=0
    )
    net.fit(data.X[:300], data.counts[:300])
    X, counts = data.X[300:], data.counts[300:]
    risk = decision_risk(counts, bayes_decision(net.predict_proba(X), C), C)
    best = decision_risk(counts, bayes_decision(data.prediction[300:], C), C)
    constant = min(decision_risk(counts, np.full(100, d), C) for d in range(3))
    assert risk < best + 0.35 * (constant - best)
