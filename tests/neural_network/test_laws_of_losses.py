"""Laws that all torch losses and penalties obey: forms of labels, order of rows and classes."""

import inspect

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from sklearn_lhcal import neural_network
from sklearn_lhcal.neural_network import DirichletMultinomialLoss

N, K = 12, 3
COSTS = np.array([[0.0, 1.0], [2.0, 0.5], [4.0, 0.0]])
LOSSES = {
    name: loss
    for name in neural_network.__all__
    if inspect.isclass(loss := getattr(neural_network, name)) and issubclass(loss, nn.Module)
}
OF_PAIRS = ("DirichletMultinomialLoss", "PairwiseLoss")
# of the others a batch is more than its rows: all pairs of rows count
MEANS = ("BrierLoss", "DirectLoss", "FocalLoss", "LabelLogLoss", "MarginRescalingLoss", *OF_PAIRS)


# of those with forms that compute otherwise
OPTIONS: dict[str, list[dict]] = {
    "FocalLoss": [{"gamma": 0.0}, {"gamma": 0.5}, {"gamma": "53"}],
    "MMCEPenalty": [{"weighted": False}, {"weighted": True}],
    "DirectLoss": [{"bound": "lower"}, {"beta": 3.0}],
    "KernelCalibrationPenalty": [
        {"kind": kind, "bias_correction": form, "bandwidth": h}
        for kind in ("canonical", "marginal", "top_label")
        for form in ("residual", None)
        for h in (0.1, "loo")
    ],
    "SharpnessPenalty": [{"kind": "top_label"}, {"bandwidth": "loo"}],
}


def made(name, costs=COSTS, **options):
    """A loss; those of decisions with costs."""
    takes_costs = "cost_matrix" in inspect.signature(LOSSES[name]).parameters
    return LOSSES[name](*[costs] * takes_costs, **options)


def batch(name, rows=slice(None), columns=slice(None), dtype=torch.float64):
    """Prediction and counts of some rows, with their columns in some order."""
    rng = np.random.default_rng(0)
    logits = torch.tensor(rng.normal(size=(N, K)), dtype=dtype)[rows][:, columns]
    total = torch.tensor(rng.normal(size=N), dtype=dtype)[rows]
    counts = rng.multinomial(3, [0.5, 0.3, 0.2], N) + np.eye(K, dtype=int)[np.arange(N) % K]
    counts = torch.tensor(counts)[rows][:, columns]
    return ((logits, total) if name in OF_PAIRS else logits), counts


@pytest.mark.parametrize("name", LOSSES)
def test_order_of_rows(name):
    order = torch.arange(N).flip(0)
    loss = made(name)
    assert_close(loss(*batch(name, order)), loss(*batch(name)), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_order_of_classes(name):
    """Of logits, counts and costs together."""
    columns = [2, 0, 1]
    found = made(name, COSTS[columns])(*batch(name, columns=columns))
    assert_close(found, made(name)(*batch(name)), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_forms_of_labels(name):
    """Class indices are one label each, in a batch of K rows too; counts of any type are counts."""
    loss = made(name)
    for rows in (slice(None), slice(K)):
        z, counts = batch(name, rows)
        index = counts.argmax(dim=1)
        one_hot = nn.functional.one_hot(index, K)
        right = loss(z, one_hot)
        for form in (
            index,
            index.int(),
            one_hot.double(),
            one_hot.float(),
            one_hot.to(torch.uint8),
        ):
            assert_close(loss(z, form), right, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", LOSSES)
def test_equal_weights_are_none(name):
    loss, (z, counts) = made(name), batch(name)
    weighted = loss(z, counts, torch.full((N,), 2.0, dtype=torch.float64))
    assert_close(weighted, loss(z, counts), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", MEANS)
def test_weights_repeat_rows(name):
    """A weight of two is the row twice."""
    loss = made(name)
    weight = 1 + torch.arange(N) % 2
    twice = torch.arange(N).repeat_interleave(weight)
    assert_close(loss(*batch(name), weight.double()), loss(*batch(name, twice)), rtol=1e-10, atol=0)


@pytest.mark.parametrize("name", LOSSES)
def test_what_does_not_fit_is_refused(name):
    loss, (z, counts) = made(name), batch(name)
    for wrong in (
        *(counts[:1], counts[:, :2], counts[:-1], counts - 5, counts * 0, counts.T),
        *(counts.argmax(dim=1) + K, counts.argmax(dim=1)[:-1], counts[:, None, :]),
        *(counts * torch.nan, counts.numpy(), None),
    ):
        with pytest.raises((ValueError, TypeError), match=r"Labels|Counts|Class indices"):
            loss(z, wrong)
    for wrong in (torch.ones(N, 1), torch.ones(1), torch.ones(N + 1)):
        with pytest.raises(ValueError, match="Weights must have shape"):
            loss(z, counts, wrong)
    for wrong in (-torch.ones(N), torch.ones(N) * torch.nan, torch.arange(N) - 1):
        with pytest.raises(ValueError, match="Weights must be numbers of at least 0"):
            loss(z, counts, wrong)
    with pytest.raises(ValueError, match="infinite"):
        loss(z, torch.where(counts == counts.max(), torch.inf, counts.double()))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
@pytest.mark.parametrize("n", [1, 2, N])
def test_no_number_stays_none(name, dtype, n):
    """One logit that is NaN makes a loss, or a penalty, NaN: in small batches and single labels."""
    z, counts = batch(name, slice(n), dtype=dtype)
    logits = z[0] if name in OF_PAIRS else z
    logits[0, 1] = torch.nan
    for options in OPTIONS.get(name, [{}]):
        for y in (counts, counts.argmax(dim=1)):
            value = made(name, **options)(z, y)
            assert value.isnan(), options


@pytest.mark.parametrize("name", LOSSES)
def test_masked_classes(name):
    """A logit of −inf, for a class that nobody chose, is the limit of very low ones."""
    z, counts = batch(name)
    counts[:, 2] = 0
    counts[:, 0] += 1
    values = []
    for low in (-1e3, -torch.inf):
        logits = (z[0] if name in OF_PAIRS else z).clone()
        logits[:, 2] = low
        values.append(made(name)((logits, z[1]) if name in OF_PAIRS else logits, counts))
    assert values[1].isfinite()
    assert_close(values[1], values[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("gap", [30.0, 100.0, 104.0, 800.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
@pytest.mark.parametrize("y", [(2, 1), (1, 40), (0, 3), (50, 50)])
def test_dirichlet_multinomial_of_impossible_labels(gap, dtype, y):
    """Against exact arithmetic with 60 digits, value and derivative."""
    mpmath = pytest.importorskip("mpmath")
    logits = torch.tensor([[gap, 0.0]], dtype=dtype, requires_grad=True)
    log_total = torch.tensor([1.5], dtype=dtype)
    value = DirichletMultinomialLoss()((logits, log_total), torch.tensor([y]))
    value.backward()
    with mpmath.workdps(60):
        # of gap so great z is 1 to more digits than these
        alpha = mpmath.e ** mpmath.mpf(1.5)

        def right(u):
            a = [alpha / (1 + mpmath.e ** (-u)), alpha / (1 + mpmath.e**u)]
            parts = [mpmath.rf(b, k) for b, k in zip(a, y, strict=True)]
            return -mpmath.log(parts[0] * parts[1] / mpmath.rf(alpha, sum(y)))

        u = mpmath.mpf(float(logits[0, 0].detach()))
        slope = mpmath.diff(right, u, h=mpmath.mpf(10) ** -20)
        expected = float(right(u)), float(slope)
    tolerance = 1e-10 if dtype == torch.float64 else 2e-3 if dtype == torch.float16 else 2e-6
    assert_close(value.item(), expected[0], rtol=tolerance, atol=tolerance)
    assert_close(logits.grad[0, 0].item(), expected[1], rtol=tolerance * 10, atol=tolerance)


@pytest.mark.parametrize("name", LOSSES)
def test_precision(name):
    """float32 agrees with float64 to seven digits, and no counts change type on the way."""
    single = made(name)(*batch(name, dtype=torch.float32))
    assert single.dtype == torch.float32
    assert_close(single.double(), made(name)(*batch(name)), rtol=1e-4, atol=1e-5)
