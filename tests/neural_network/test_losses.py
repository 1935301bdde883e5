"""Losses and penalties for training networks.

Their values, derivatives, minima, and what leaves them alone.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from oracles import expectation, random_proba
from scipy.stats import dirichlet
from sklearn.base import clone
from torch import nn

from sklearn_lhcal.metrics import expected_squared_loss, kernel_calibration_error, loo_bandwidth
from sklearn_lhcal.neural_network import (
    BrierLoss,
    DirectLoss,
    FocalLoss,
    KernelCalibrationPenalty,
    LabelLogLoss,
    MarginRescalingLoss,
    MMCEPenalty,
    NeuralClassifier,
    SharpnessPenalty,
)

LOSSES = [FocalLoss(0.0), FocalLoss(0.5), FocalLoss(2.0), FocalLoss("53"), BrierLoss()]
KERNELS = [
    KernelCalibrationPenalty(p, bandwidth, kind, correction)
    for kind in ("canonical", "marginal", "top_label")
    for p, bandwidth, correction in [(2, 0.1, "residual"), (1, 0.02, None), (3, "loo", None)]
]
SHARPNESS = [SharpnessPenalty(), SharpnessPenalty("loo", "marginal")]
PENALTIES = [MMCEPenalty(), MMCEPenalty(weighted=True), *SHARPNESS, *KERNELS]
ALL = [*LOSSES, *PENALTIES]


def name(module):
    parameters = [str(v) for k, v in vars(module).items() if k[0] != "_" and k != "training"]
    return f"{type(module).__name__}({', '.join(parameters)})"


def batch(n=12, K=4, seed=0, raters=(1, 6), scale=2.0, dtype=torch.float64):
    """Logits and counts of n rows."""
    rng = np.random.default_rng(seed)
    u = scale * rng.normal(size=(n, K))
    q = rng.dirichlet(np.ones(K), size=n)
    y = np.array([rng.multinomial(rng.integers(*raters), p) for p in q])
    return torch.tensor(u, dtype=dtype), torch.tensor(y, dtype=dtype)


# --- values ---


def test_focal_loss_of_hand():
    """z = (1/10, 3/10, 3/5), labels (1, 0, 2): γ is 5 for the first class only."""
    logits = torch.tensor([[0.1, 0.3, 0.6]], dtype=torch.float64).log()
    y = torch.tensor([[1.0, 0.0, 2.0]])
    for gamma, (low, high) in {2: (2, 2), 3.0: (3, 3), "53": (5, 3)}.items():
        first, third = Fraction(9, 10) ** low, Fraction(2, 5) ** high
        expected = (float(first) * math.log(10) - 2 * float(third) * math.log(0.6)) / 3
        assert_allclose(FocalLoss(gamma)(logits, y), expected, rtol=1e-12)


def test_focal_rule_changes_at_a_fifth():
    for p, gamma in ((0.2 - 1e-9, 5), (0.2 + 1e-9, 3)):
        logits = torch.tensor([[p, 1 - p]], dtype=torch.float64).log()
        y = torch.tensor([[1.0, 0.0]])
        assert_allclose(FocalLoss("53")(logits, y), FocalLoss(gamma)(logits, y), rtol=1e-12)


def test_focal_loss_begins_with_the_log_loss():
    u, y = batch()
    w = torch.rand(12, dtype=torch.float64)
    assert_allclose(FocalLoss(0.0)(u, y, w), LabelLogLoss()(u, y, w), rtol=1e-12)
    values = [FocalLoss(gamma)(u, y).item() for gamma in (0.0, 0.5, 1.0, 3.0, 9.0)]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("gamma", [-1, math.inf, math.nan, "35"])
def test_wrong_gamma(gamma):
    with pytest.raises(ValueError, match=r"gamma must be a .*, got"):
        FocalLoss(gamma)


def test_brier_loss_is_the_metric():
    u, y = batch(30)
    w = np.random.default_rng(0).uniform(0, 3, 30)
    z = torch.softmax(u, dim=1).numpy()
    assert_allclose(BrierLoss()(u, y), expected_squared_loss(y.numpy(), z), rtol=1e-12)
    expected = expected_squared_loss(y.numpy(), z, sample_weight=w)
    assert_allclose(BrierLoss()(u, y, torch.tensor(w)), expected, rtol=1e-12)


def mmce_by_labels(z, y, w, weighted):
    """Kumar, Sarawagi and Jain (2018) on single labels.

    Every label of a row is a point with a share of its weight.
    """
    points = [
        (z[i].max(), float(k == z[i].argmax()), w[i] * y[i, k] / y[i].sum())
        for i in range(len(z))
        for k in range(z.shape[1])
    ]
    right = sum(v for _, c, v in points if c)
    wrong = sum(v for _, c, v in points if not c)
    total = 0.0
    for r, c, v in points:
        for s, d, u in points:
            k = np.exp(-abs(r - s) / 0.4)
            if not weighted:
                total += v * u * (c - r) * (d - s) * k / (right + wrong) ** 2
            elif c == d:
                total += v * u * ((1 - r) * (1 - s) / right**2 if c else r * s / wrong**2) * k
            elif c:
                total -= 2 * v * u * (1 - r) * s * k / (right * wrong)
    return np.sqrt(total)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("raters", [(1, 2), (1, 6)])
def test_mmce_by_a_double_loop_over_labels(weighted, raters):
    u, y = batch(20, raters=raters)
    w = np.random.default_rng(0).uniform(0, 3, 20)
    for weight in (np.ones(20), w):
        got = MMCEPenalty(weighted)(u, y, torch.tensor(weight))
        assert_allclose(
            got,
            mmce_by_labels(torch.softmax(u, dim=1).numpy(), y.numpy(), weight, weighted),
            rtol=1e-10,
        )
    assert_allclose(
        MMCEPenalty(weighted)(u, y), MMCEPenalty(weighted)(u, y, torch.ones(20)), rtol=1e-12
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_mmce_where_all_labels_are_right_or_wrong(weighted):
    u = torch.tensor([[2.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    r = torch.softmax(u, dim=1)[:, 0]
    k = torch.exp(-(r[0] - r[1]).abs() / 0.4)
    for label, a in ((0, 1 - r), (1, r)):
        y = torch.eye(2, dtype=torch.float64)[[label, label]]
        expected = torch.sqrt(a[0] ** 2 + a[1] ** 2 + 2 * a[0] * a[1] * k) / 2
        assert_allclose(MMCEPenalty(weighted)(u, y), expected, rtol=1e-12)


def log_kernel(x, c, h):
    """Of the Dirichlet distribution with concentration c/h + 1, at x."""
    return dirichlet(c / h + 1).logpdf(x)


def binary_problems(z, y, kind):
    """(predictions, frequencies, points) of each problem, from the definitions."""
    mu = y / y.sum(axis=1, keepdims=True)
    if kind == "canonical":
        return [(z, mu, z)]
    if kind == "marginal":
        pairs = [(z[:, [k]], mu[:, [k]]) for k in range(z.shape[1])]
    else:
        top = z.argmax(axis=1)
        pairs = [(z.max(axis=1, keepdims=True), mu[np.arange(len(z)), top][:, None])]
    return [(f, m, np.hstack([f, 1 - f])) for f, m in pairs]


def penalty_by_loops(z, y, w, p, h, kind, correction):
    """P2 eq. (9), or the pairs of math written out; one number a row, then the weighted mean."""
    total = 0.0
    for f, mu, x in binary_problems(z, y, kind):
        n = len(x)
        k = np.array(
            [[w[i] * np.exp(log_kernel(x[j], x[i], h)) for i in range(n)] for j in range(n)]
        )
        for j in range(n):
            others = [i for i in range(n) if i != j]
            if correction is None:
                r = sum(k[j, i] * mu[i] for i in others) / sum(k[j, i] for i in others)
                total += w[j] / w.sum() * (np.abs(r - f[j]) ** p).sum()
            else:
                e = mu - f
                pairs = [(i, m) for i in others for m in others if i != m]
                top = sum(k[j, i] * k[j, m] * (e[i] @ e[m]) for i, m in pairs)
                total += w[j] / w.sum() * top / sum(k[j, i] * k[j, m] for i, m in pairs)
    return total


@pytest.mark.parametrize("kind", ["canonical", "marginal", "top_label"])
@pytest.mark.parametrize(("p", "correction"), [(1, None), (1.5, None), (2, None), (2, "residual")])
@pytest.mark.parametrize("weighted", [False, True])
def test_kernel_penalty_by_loops(kind, p, correction, weighted):
    for K in (2, 4):
        u, y = batch(9, K)
        w = np.random.default_rng(0).uniform(0.1, 3, 9) if weighted else np.ones(9)
        for h in (0.01, 0.1, 1.0):
            got = KernelCalibrationPenalty(p, h, kind, correction)(u, y, torch.tensor(w))
            expected = penalty_by_loops(
                torch.softmax(u, dim=1).numpy(), y.numpy(), w, p, h, kind, correction
            )
            assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["canonical", "marginal", "top_label"])
@pytest.mark.parametrize("bandwidth", ["loo", 0.05])
def test_kernel_penalty_is_the_metric(kind, bandwidth):
    u, y = batch(60, 3)
    z, w = torch.softmax(u, dim=1).numpy(), np.random.default_rng(0).uniform(0.1, 3, 60)
    for p, correction in ((2, "residual"), (1, None), (3, None)):
        penalty = KernelCalibrationPenalty(p, bandwidth, kind, correction)
        options = {"kind": kind, "p": p, "bandwidth": bandwidth, "bias_correction": correction}
        assert_allclose(penalty(u, y), kernel_calibration_error(y.numpy(), z, **options), rtol=1e-8)
        expected = kernel_calibration_error(y.numpy(), z, sample_weight=w, **options)
        assert_allclose(penalty(u, y, torch.tensor(w)), expected, rtol=1e-8)


@pytest.mark.parametrize("h", [1e-4, 0.01, 1.0])
def test_large_batches_of_two_classes(h):
    """Far pairs are left out there; value and gradient are those of the whole matrix."""
    u, y = batch(1500, 2)
    gradients = []
    for penalty in (KernelCalibrationPenalty(1, h, bias_correction=None), whole_matrix):
        v = u.clone().requires_grad_()
        value = penalty(v, y) if penalty is not whole_matrix else whole_matrix(v, y, h)
        value.backward()
        gradients.append((value.item(), v.grad.numpy()))
    assert_allclose(gradients[0][0], gradients[1][0], rtol=1e-9)
    assert_allclose(gradients[0][1], gradients[1][1], rtol=1e-6, atol=1e-10)


def whole_matrix(u, y, h):
    """P2 eq. (9) for p = 1 as one softmax of log-kernels."""
    z = torch.softmax(u, dim=1)
    a = z / h + 1
    L = torch.lgamma(a.sum(dim=1)) - torch.lgamma(a).sum(dim=1) + z.log() @ (z.T / h)
    r = torch.softmax(L.masked_fill(torch.eye(len(z), dtype=torch.bool), -torch.inf), dim=1) @ (
        y / y.sum(1, True)
    )
    return (r - z).abs().sum(dim=1).mean()


# --- what leaves them alone ---


@pytest.mark.parametrize("loss", ALL, ids=name)
def test_order_of_rows_and_classes(loss):
    u, y = batch()
    w = torch.rand(12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rows, classes = torch.tensor([7, 3, 0, 11, 5, 1, 2, 10, 9, 4, 8, 6]), torch.tensor([2, 0, 3, 1])
    assert_allclose(loss(u[rows], y[rows], w[rows]), loss(u, y, w), rtol=1e-10)
    assert_allclose(loss(u[:, classes], y[:, classes], w), loss(u, y, w), rtol=1e-10)


@pytest.mark.parametrize("loss", ALL, ids=name)
def test_constants_of_logits_and_units_of_weights(loss):
    """Logits and log-probabilities are one model.

    Weights count by their ratios, and 0 takes a row out.
    """
    u, y = batch()
    w = torch.rand(12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert_allclose(loss(u + torch.arange(12.0)[:, None], y, w), loss(u, y, w), rtol=1e-10)
    assert_allclose(loss(torch.log_softmax(u, dim=1), y, 7 * w), loss(u, y, w), rtol=1e-10)
    w[[2, 5]] = 0
    kept = w > 0
    assert_allclose(loss(u[kept], y[kept], w[kept]), loss(u, y, w), rtol=1e-10)
    assert_allclose(loss(u[kept], y[kept]), loss(u, y, kept.double()), rtol=1e-10)


@pytest.mark.parametrize("loss", ALL, ids=name)
def test_precisions_agree(loss):
    u, y = batch(50)
    single = loss(u.float(), y.float())
    assert single.dtype == torch.float32
    assert_allclose(single, loss(u, y), rtol=1e-4, atol=1e-6)
    assert_allclose(loss(u, y.to(torch.int64)), loss(u, y), rtol=1e-12)


@pytest.mark.parametrize("loss", ALL, ids=name)
def test_arguments_stay_as_they_are(loss):
    u, y = batch()
    w = torch.ones(12, dtype=torch.float64)
    before = u.clone(), y.clone(), w.clone()
    u.requires_grad_()
    loss(u, y, w).backward()
    assert all(torch.equal(a, b) for a, b in zip((u.detach(), y, w), before, strict=True))


# --- derivatives ---


@pytest.mark.parametrize(
    "loss", [loss for loss in ALL if getattr(loss, "bandwidth", 0) != "loo"], ids=name
)
@pytest.mark.parametrize("weighted", [False, True])
def test_gradients(loss, weighted):
    u, y = batch(7, 3)
    w = (
        torch.rand(7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        if weighted
        else None
    )
    assert torch.autograd.gradcheck(lambda u: loss(u, y, w), u.requires_grad_(), atol=1e-6)


@pytest.mark.parametrize("kind", ["canonical", "marginal", "top_label"])
@pytest.mark.parametrize("correction", [None, "residual"])
def test_a_bandwidth_of_the_batch_is_a_constant(kind, correction):
    u, y = batch(30, 3)
    h = loo_bandwidth(torch.softmax(u, dim=1).numpy(), kind=kind)
    gradients = []
    for bandwidth in ("loo", h):
        v = u.clone().requires_grad_()
        KernelCalibrationPenalty(2, bandwidth, kind, correction)(v, y).backward()
        gradients.append(v.grad)
    assert_allclose(*gradients, rtol=1e-6, atol=1e-12)


def hard_batches():
    """Batches on which derivatives of a careless formula are no numbers."""
    u, y = batch(8, 4)
    absent = y.clone()
    absent[:, 2] = 0
    absent[:, 0] += 1
    return {
        "absent class": (u, absent),
        "one class": (u, torch.eye(4, dtype=torch.float64)[[1] * 8]),
        "all rows alike": (u[:1].expand(8, 4), y),
        "duplicated rows": (u[[0, 0, 1, 1, 2, 2, 2, 3]], y),
        "two rows": (u[:2], y[:2]),
        "two rows alike": (u[[0, 0]], y[:2]),
        "one row": (u[:1], y[:1]),
        "exact zeros and ones": (200 * u, y),
        "far beyond": (1e6 * u, y),
        "certain and right": (
            1e4 * torch.eye(4, dtype=torch.float64),
            torch.eye(4, dtype=torch.float64),
        ),
        "certain and wrong": (
            1e4 * torch.eye(4, dtype=torch.float64),
            torch.eye(4, dtype=torch.float64).roll(1, 0),
        ),
        "uniform": (torch.zeros(8, 4, dtype=torch.float64), y),
        "zero probabilities": (torch.where(y > 0, u, -torch.inf), y),
        "many classes": batch(8, 300),
        "two classes": batch(8, 2),
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("case", hard_batches())
@pytest.mark.parametrize("loss", ALL, ids=name)
def test_derivatives_are_numbers(loss, case, dtype):
    u, y = hard_batches()[case]
    u = u.to(dtype).clone().requires_grad_()
    value = loss(u, y.to(dtype))
    value.backward()
    assert value.isfinite()
    assert u.grad.isfinite().all()


LOGIT = st.floats(-4, 4) | st.floats(-1e4, 1e4) | st.sampled_from([0.0, 1.0, -1e30, 1e30])


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(1, 5), st.integers(2, 4), st.sampled_from(ALL))
def test_derivatives_are_numbers_for_any_batch(data, n, K, loss):
    def table(element):
        return data.draw(
            st.lists(st.lists(element, min_size=K, max_size=K), min_size=n, max_size=n)
        )

    u = torch.tensor(table(LOGIT), dtype=torch.float64, requires_grad=True)
    y = torch.tensor(table(st.integers(0, 3)), dtype=torch.float64)
    y[:, 0] += y.sum(dim=1) == 0
    value = loss(u, y)
    value.backward()
    assert value.isfinite()
    assert u.grad.isfinite().all()


# --- what they are minimal at ---


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["canonical", "marginal", "top_label"])
@pytest.mark.parametrize("weighted", [False, True])
def test_residual_form_is_unbiased(kind, weighted):
    """Its mean over all labels of a calibrated predictor is 0.

    Of another one, what the true probabilities give.
    """
    z = random_proba(np.random.default_rng(0), 4, 3)
    q = random_proba(np.random.default_rng(1), 4, 3)
    w = torch.tensor([1.0, 0.5, 2.0, 3.0]) if weighted else None
    penalty = KernelCalibrationPenalty(kind=kind)

    def value(y):
        return penalty(torch.tensor(z).log(), torch.tensor(y), w).item()

    assert_allclose(expectation(value, z, [1, 2, 1, 3]), 0, atol=1e-12)
    assert_allclose(expectation(value, q, [1, 2, 1, 3]), value(q), rtol=1e-9)
    assert abs(value(q)) > 1e-3


def temperatures_of_a_calibrated_model(penalty, n, K, n_draws, labels=True):
    """Mean penalty of q^(1/T) by T: q dense near the faces of the simplex, labels drawn from it."""
    rng = np.random.default_rng([n, K])
    temperatures, values = [0.4, 0.6, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0], []
    for _ in range(n_draws):
        log_q = torch.log_softmax(torch.tensor(np.log(random_proba(rng, n, K)) / 0.6), dim=1)
        y = torch.tensor(rng.multinomial(1, log_q.exp().numpy())) if labels else log_q.exp()
        values.append([penalty(log_q / t, y).item() for t in temperatures])
    return np.array(temperatures), np.mean(values, axis=0)


@pytest.mark.parametrize(("n", "K"), [(64, 5), (128, 5), (64, 10), (128, 10)])
@pytest.mark.parametrize("bandwidth", [0.01, 0.05, 0.2, "loo"])
def test_minimum_of_the_residual_form_is_at_the_calibrated_model(n, K, bandwidth):
    """Its mean over labels is its value at the true probabilities.

    As it is linear in each row's: nothing is noise.
    """
    penalty = KernelCalibrationPenalty(bandwidth=bandwidth)
    temperatures, mean = temperatures_of_a_calibrated_model(penalty, n, K, 4, labels=False)
    assert_allclose(mean[temperatures == 1], 0, atol=1e-12)
    assert (mean[temperatures != 1] > 1e-5).all()


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize(("n", "K", "bandwidth"), [(64, 5, 0.2), (128, 10, 0.05)])
def test_minimum_of_the_plugin_is_at_an_end(n, K, bandwidth, p):
    """Of the temperatures tried, it prefers the largest.

    It takes the noise of the smoothed labels for an error.
    """
    penalty = KernelCalibrationPenalty(p, bandwidth, bias_correction=None)
    temperatures, mean = temperatures_of_a_calibrated_model(penalty, n, K, 20)
    assert temperatures[mean.argmin()] == 2
    assert mean[temperatures == 1] > 1.3 * mean.min()


def test_minimum_of_the_residual_form_on_drawn_labels():
    temperatures, mean = temperatures_of_a_calibrated_model(KernelCalibrationPenalty(), 64, 5, 150)
    assert 0.8 <= temperatures[mean.argmin()] <= 1.25
    assert mean[0] > 0.03
    assert mean[-1] > 0.005


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_proper_losses_and_the_focal_loss(loss):
    """Under known probabilities Q, over Q^(1/T).

    Proper losses are minimal at T = 1, the focal loss beyond.
    """
    q = torch.tensor([[0.1, 0.2, 0.7]], dtype=torch.float64)
    temperatures = np.linspace(0.5, 3, 251)
    best = temperatures[np.argmin([loss(q.log() / t, q) for t in temperatures])]
    if isinstance(loss, BrierLoss) or loss.gamma == 0:
        assert_allclose(best, 1, atol=0.006)
    else:
        assert best > 1.15


# --- parameters ---


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"bias_correction": "S1"}, 'bias_correction must be "residual" or None, got'),
        ({"kind": "top"}, 'kind must be "canonical", "marginal" or "top_label"'),
        ({"bandwidth": 0.0}, "bandwidth must be a number from 1e-100"),
        ({"bandwidth": "cv"}, "bandwidth must be a number"),
        ({"bandwidth": math.nan}, "bandwidth must be a number"),
        ({"p": 0.5, "bias_correction": None}, "p must be a number, 1 or more, got 0.5"),
        ({"p": 1}, "exists for p = 2 only, got 1; use bias_correction="),
    ],
)
def test_wrong_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        KernelCalibrationPenalty(**parameters)(*batch())


@pytest.mark.parametrize("penalty", PENALTIES, ids=name)
def test_penalties_are_estimators(penalty):
    again = clone(penalty)
    assert again is not penalty
    assert again.get_params() == penalty.get_params()
    u, y = batch()
    assert torch.equal(again(u, y), penalty(u, y))


COSTS = [[0.0, 1.0], [2.0, 0.0], [1.0, 1.0]]
OF_LOGITS = [
    *(LabelLogLoss(), FocalLoss(), BrierLoss(), DirectLoss(COSTS), MarginRescalingLoss(COSTS)),
    *(KernelCalibrationPenalty(), SharpnessPenalty(), MMCEPenalty()),
]


@pytest.mark.parametrize("loss", OF_LOGITS, ids=lambda loss: type(loss).__name__)
def test_class_indices_are_one_hot_counts(loss):
    """Also in a batch of as many rows as classes, where indices have the shape of a row."""
    for n in (3, 8):
        logits = torch.randn(n, 3, generator=torch.Generator().manual_seed(n))
        index = torch.arange(n) % 3
        one_hot = nn.functional.one_hot(index, 3)
        assert loss(logits, index) == loss(logits, one_hot.float())
        assert loss(logits, one_hot.double()).item() == pytest.approx(loss(logits, index).item())


@pytest.mark.parametrize("loss", OF_LOGITS, ids=lambda loss: type(loss).__name__)
def test_labels_that_do_not_fit_are_refused(loss):
    logits = torch.zeros(4, 3)
    counts = torch.eye(3)[torch.arange(4) % 3]
    for wrong in (counts[:1], counts[:, :2], counts[:3], counts[:, 0]):
        with pytest.raises(ValueError, match="must be counts of shape"):
            loss(logits, wrong)
    for wrong in (-counts, 0 * counts):
        with pytest.raises(ValueError, match="must not be negative"):
            loss(logits, wrong)
    for wrong in (torch.tensor([0, 1, 2, 3]), torch.tensor([0, 1, 2, -1])):
        with pytest.raises(ValueError, match="must lie between 0 and 2"):
            loss(logits, wrong)


def test_a_module_that_ends_in_a_softmax_is_refused():
    model = NeuralClassifier(nn.Sequential(nn.Linear(2, 3), nn.Softmax(dim=-1)))
    with pytest.raises(ValueError, match="take the Softmax off"):
        model.fit(torch.zeros(6, 2).numpy(), [0, 1, 2, 0, 1, 2])
