"""What `DecisionCalibration` compares and how it chooses, against brute force.

Private modules are imported, because slopes of losses, candidates and the rule are behind no
public door.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

from sklearn_lhcal.calibration._decision import select as selection
from sklearn_lhcal.calibration._decision.select import (
    OutOfFold,
    RowTensors,
    Search,
    best_of_others,
    candidates_of,
    cheapest_temperatures,
    choose,
    descended,
    difference,
    probabilities,
)
from sklearn_lhcal.calibration._rows import CalibrationRows
from sklearn_lhcal.calibration._scaling.maps import (
    BiasCorrectedMap,
    FittedMap,
    TemperatureMap,
    VectorMap,
)
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.neural_network import DirectLoss

SHAPES = [TemperatureMap(3), BiasCorrectedMap(3), VectorMap(3)]
PI = np.array([0.2, 0.3, 0.5])
C3 = np.array([[0.0, 1.0, 2.0], [5.0, 0.0, 1.0], [20.0, 3.0, 0.0]])
DIRECT = candidates_of("direct", C3 / 20, 0.1, None)


@pytest.fixture(scope="module")
def data():
    return make_label_histograms(
        400, n_classes=3, n_raters=(1, 4), overconfidence=2.5, random_state=0
    )


@pytest.fixture(scope="module")
def rows(data):
    return rows_of(np.log(data.prediction), data.counts)


def rows_of(u, counts):
    """The bundle that the search sees."""
    counts = np.asarray(counts, dtype=float)
    return CalibrationRows(u, counts=counts, weight=np.ones(len(counts)))


def started(shape, beta=1.0):
    """The map where a search starts."""
    return FittedMap(shape, shape.start(beta))


def search_of(rows, nll, C=C3, criterion="direct", safeguard=1.0):
    """A search without folds, for what needs none."""
    return Search(rows, C, nll, lambda part: nll, [], criterion, None, safeguard, 0)


def all_descended(start, rows, candidates=DIRECT, C=C3):
    """x (P, p) on all samples."""
    w = rows.weight[None] / rows.weight.sum()
    return np.array([descended(one, [start], rows, w)[0] for one in candidates])


def predicted(fitted, rows):
    """z of a map."""
    return np.exp(fitted.log_z(rows.log_proba))


def risk_at(fitted, rows, C=C3):
    """The mean cost of a map's decisions."""
    d = (predicted(fitted, rows) @ C).argmin(axis=1)
    return np.average((rows.frequencies @ C)[np.arange(len(rows)), d], weights=rows.weight)


@pytest.mark.parametrize("mixing", [None, PI])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: type(s).__name__)
def test_probabilities_are_those_of_the_fitted_maps(shape, mixing, rows):
    """With one mixing for each map."""
    x = shape.start() + np.random.default_rng(0).normal(0, 0.1, (2, len(shape.start())))
    mixings = [None, None] if mixing is None else [mixing, mixing[::-1]]
    maps = [FittedMap(shape, x[i], mixings[i], -2.0 - i) for i in (0, 1)]
    z = probabilities(torch.as_tensor(x), maps, RowTensors.of(rows))
    for found, one in zip(z, maps, strict=True):
        assert_allclose(found.T, predicted(one, rows), atol=1e-14)


@pytest.mark.parametrize("mixing", [None, PI])
@pytest.mark.parametrize("weighted", [False, True])
def test_no_temperature_of_the_grid_is_cheaper(rows, weighted, mixing):
    if weighted:
        rows = replace(rows, weight=np.random.default_rng(0).uniform(0, 2, 400))
    start = FittedMap(TemperatureMap(3), np.array([0.3]), mixing, -2.0)
    w = rows.weight[None] / rows.weight.sum()
    exact, *smooth = cheapest_temperatures(search_of(rows, start), [start], w)[0, :, 0]
    least = risk_at(start._replace(x=np.array([exact])), rows)
    grid = [start._replace(x=np.array([t])) for t in 0.3 + np.linspace(-3, 3, 601)]
    risks = np.array([risk_at(one, rows) for one in grid])
    assert least == pytest.approx(risks.min(), rel=1e-12)
    # of those that are as cheap the nearest
    assert abs(exact - 0.3) == pytest.approx(
        np.abs(np.linspace(-3, 3, 601))[risks <= risks.min() + 1e-12].min()
    )
    assert len({exact, *smooth}) > 1


def test_each_fit_has_the_floor_of_its_own(rows):
    """The cheapest temperature of a fold is that under the mixing with which the fold decides."""
    starts = [FittedMap(TemperatureMap(3), np.zeros(1), PI, eta) for eta in (-6.0, 1.0)]
    w = np.random.default_rng(0).dirichlet(np.ones(400), 2)
    together = cheapest_temperatures(search_of(rows, starts[0]), starts, w)
    alone = [
        cheapest_temperatures(search_of(rows, start), [start], weight[None])[0]
        for start, weight in zip(starts, w, strict=True)
    ]
    assert_array_equal(together, alone)
    other = cheapest_temperatures(search_of(rows, starts[0]), starts[:1], w[1:])[0]
    assert (other != alone[1]).any()


def test_the_temperature_of_two_classes_crosses_its_threshold():
    """z₁ = σ(βs) is above 1/5 for β < log(4)/|s|: rows of class 1 ask for less, of class 0 more."""
    s = np.array([-1.0, -1.0, -2.0])
    rows = rows_of(np.column_stack([np.zeros(3), s]), np.eye(2)[[1, 1, 0]])
    start = started(TemperatureMap(2))
    search = search_of(rows, start, np.array([[0, 1.0], [4, 0]]))
    (t, *_) = cheapest_temperatures(search, [start], np.full((1, 3), 1 / 3))[0, :, 0]
    assert np.log(4) / 2 < np.exp(t) < np.log(4)
    # the start, if it is best
    assert t == 0.0


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: type(s).__name__)
def test_descent_lowers_the_risk_of_a_wrong_start(shape, rows):
    start = started(shape, 3.0)
    risks = [risk_at(start._replace(x=x), rows) for x in all_descended(start, rows)]
    assert min(risks) < 0.9 * risk_at(start, rows)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: type(s).__name__)
def test_fits_do_not_meet(shape, rows, monkeypatch):
    """All in one tensor, or one after the other; each from its own start, with its own weights."""
    starts = [started(shape, beta) for beta in (0.5, 1.0, 2.0)]
    w = np.random.default_rng(0).uniform(size=(3, 400))
    w /= w.sum(axis=1, keepdims=True)
    together = descended(DIRECT[0], starts, rows, w)
    for i in range(3):
        alone = descended(DIRECT[0], starts[i : i + 1], rows, w[i : i + 1])
        assert_allclose(together[i], alone[0], atol=1e-9)
    monkeypatch.setattr(selection, "_BLOCK", 2000)
    assert_allclose(descended(DIRECT[0], starts, rows, w), together, atol=1e-9)


def test_weights_are_repetition_in_the_descent(rows):
    w = np.random.default_rng(0).integers(1, 4, 400)
    repeated = rows.take(np.repeat(np.arange(400), w))
    start = started(BiasCorrectedMap(3))
    a = all_descended(start, replace(rows, weight=w.astype(float)))
    assert_allclose(a, all_descended(start, repeated), atol=1e-6)


def test_permuted_classes_in_the_descent(rows):
    order, start = [2, 0, 1], started(BiasCorrectedMap(3))
    turned = rows_of(rows.log_proba[:, order], rows.counts[:, order])
    a = all_descended(start, rows)
    b = all_descended(start, turned, candidates_of("direct", C3[order] / 20, 0.1, None))
    assert_allclose(b[:, 1:], a[:, 1:][:, order], atol=1e-6)


def test_the_error_of_the_top_label_is_confidence_less_accuracy():
    """Of one confidence the absolute difference, over its bins; slopes are its differences."""

    def error(z, y, w):
        confidence, accuracy = z.max(axis=0), y[z.argmax(axis=0), np.arange(z.shape[1])]
        hats = np.maximum(1 - np.abs(14 * confidence - np.arange(15)[:, None]), 0)
        return np.abs(hats @ (w * (confidence - accuracy))).sum()

    y = np.eye(3)[[0] * 20 + [1] * 20 + [2] * 10].T
    z = np.tile([[0.7], [0.2], [0.1]], 50)
    assert error(z, y, np.full(50, 1 / 50)) == pytest.approx(0.7 - 0.4)
    rng = np.random.default_rng(0)
    z, w = rng.dirichlet(np.ones(3), 8).T, rng.dirichlet(np.ones(8))
    at = torch.as_tensor(z[None]).requires_grad_()
    loss = candidates_of("ece", C3, 1.0, None)[0].loss
    value = loss(at, *(torch.as_tensor(a) for a in (y[:, 15:23], w[None])))
    assert_allclose(value.item(), error(z, y[:, 15:23], w))
    found = torch.autograd.grad(value, at)[0][0]
    steps = 1e-6 * np.eye(24).reshape(24, 3, 8)
    differences = [error(z + e, y[:, 15:23], w) - error(z - e, y[:, 15:23], w) for e in steps]
    assert_allclose(found, np.reshape(differences, (3, 8)) / 2e-6, atol=1e-8)


@pytest.mark.parametrize("criterion", ["direct", "margin"])
@pytest.mark.parametrize("beta", [10.0, 30.0, None])
def test_slopes_of_bounds_in_closed_form(criterion, beta, rows):
    """∂L⁺/∂z = C (p(f) − p(f − λc))/λ and ∂L^MR/∂z = C (1{d = d*} − p(f − λc))/λ, P4 eq. (18, 19).

    p(x) = softmax(−βx); a β of None is the minimum itself.
    """
    rng = np.random.default_rng(0)
    z, y, w = rng.dirichlet(np.ones(3), 400), rows.frequencies, rng.dirichlet(np.ones(400))
    grid = {"lam": [0.1], "beta": [beta], "rate": [0.1]}
    (candidate,) = candidates_of(criterion, C3 / C3.max(), 1.0, grid)
    at = torch.as_tensor(z.T[None]).requires_grad_()
    value = candidate.loss(at, torch.as_tensor(y.T), torch.as_tensor(w[None])).sum()
    found = torch.autograd.grad(value, at)[0][0].T
    C = C3 / C3.max()
    f, c = z @ C, y @ C
    near = 1e9 if beta is None else beta
    at_best = softmax(-near * f, axis=1)
    if criterion == "margin":
        at_best = np.eye(C.shape[1])[c.argmin(axis=1)]
    expected = (at_best - softmax(-near * (f - 0.1 * c), axis=1)) @ C.T / 0.1
    assert_allclose(found, w[:, None] * expected, atol=1e-9)


def test_a_module_is_the_loss_that_it_computes(rows):
    """A module that is a bound goes where the bound goes; rows of weight 0 are not shown to it."""
    start, w = started(BiasCorrectedMap(3)), np.where(np.arange(400) < 300, 1 / 300, 0.0)[None]
    (module, _) = candidates_of(DirectLoss(C3, 0.1, 30.0), C3 / 20, 0.1, None)
    grid = {"lam": [0.1], "beta": [30.0], "rate": [module.rate]}
    (ours,) = candidates_of("direct", C3 / 20, 1.0, grid)
    found = [descended(one, [start], rows, w) for one in (module, ours)]
    assert_allclose(*found, atol=1e-7)


def test_difference_and_its_standard_error(rows):
    """Paired, and a mistake that did not occur.

    As far as NLL expects one, and one of the worst at most.
    """
    z = predicted(started(TemperatureMap(3)), rows)
    d, fold = np.stack([(z @ C3).argmin(axis=1), np.full(400, 1)]), np.arange(400) % 5
    y = np.random.default_rng(0).integers(3, size=400)
    plain = replace(rows, counts=np.eye(3)[y])
    mean, error = difference(OutOfFold(d, z, fold), d[1], plain, C3)
    paired = C3[y, d[1]] - C3[y, d[0]]
    assert mean == pytest.approx(paired.mean())
    D = C3.T[d[1]] - C3.T[d[0]]
    assert (z * D**2).sum() > (D**2).max()
    seen = paired.var(ddof=1) * (1 / 400 + 1 / 320)
    assert error == pytest.approx(np.sqrt(seen + (np.abs(D).max() / 400) ** 2))
    rare = np.where(np.abs(D).max() == D, 1e-9, 0.0)  # only the worst is possible, and hardly
    _, error = difference(OutOfFold(d, rare, fold), d[1], plain, C3)
    assert error == pytest.approx(np.sqrt(seen), rel=1e-6)
    assert difference(OutOfFold(d, z, fold), d[0], plain, C3) == (0, 0)


def test_the_best_candidate_is_judged_by_other_folds():
    # the last two candidates are best on one fold alone
    cost = np.array([[1.0, 1, 1.5, 1.5], [0, 0, 2, 2], [2, 2, 0, 0]])
    decisions = np.arange(4)[:, None] * np.ones((1, 4), dtype=int)
    found = OutOfFold(decisions, None, np.array([0, 0, 1, 1]))
    # the first are NLL's
    assert_array_equal(best_of_others(found, cost), [3, 3, 2, 2])


def test_the_rule_keeps_nll_unless_it_is_beaten_by_more_than_the_error(rows):
    """The rule sees decisions out of fold and nothing else."""
    start = started(TemperatureMap(3))
    best = (rows.frequencies @ C3).argmin(axis=1)
    d = np.stack([np.roll(best, 1), best])
    found = OutOfFold(d, predicted(start, rows), np.arange(400) % 5)
    chosen, results, gain = choose(found, search_of(rows, start))
    assert chosen == 1
    assert gain.estimate == pytest.approx(np.diff(results["mean_risk"])[0])
    assert choose(found, search_of(rows, start, safeguard=1e9))[0] == 0
    assert choose(found, search_of(rows, start, safeguard=None))[0] == 1
