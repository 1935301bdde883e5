"""Numerics of `DecisionCalibration`, against brute force, and the rule of its selection.

Private modules are imported, because slopes, paths and rules are behind no public door.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_lhcal.calibration import _decision_search as search
from sklearn_lhcal.calibration._decision_search import (
    TemperaturePath,
    calibration_loss,
    descend,
    probabilities,
)
from sklearn_lhcal.calibration._decision_selection import OutOfFold, PairedRule, difference
from sklearn_lhcal.calibration._rows import CalibrationRows
from sklearn_lhcal.calibration._scaling import FittedMap, TemperatureMap
from sklearn_lhcal.calibration._scaling.maps import BiasCorrectedMap, VectorMap
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.label_histogram._labels import Labels
from sklearn_lhcal.neural_network import DirectLoss, MarginRescalingLoss

DIRECT = search.bounds_of("direct", 0.1, None)
SHAPES = [TemperatureMap(3), BiasCorrectedMap(3), VectorMap(3)]
PI = np.array([0.2, 0.3, 0.5])
C3 = np.array([[0.0, 1.0, 2.0], [5.0, 0.0, 1.0], [20.0, 3.0, 0.0]])


@pytest.fixture(scope="module")
def data():
    return make_label_histograms(
        400, n_classes=3, n_raters=(1, 4), overconfidence=2.5, random_state=0
    )


@pytest.fixture(scope="module")
def rows(data):
    return rows_of(np.log(data.prediction), data.counts)


def rows_of(u, counts, weight=None, log_weights=None):
    """The bundle that the search sees."""
    return CalibrationRows(u, log_weights).labelled(Labels(np.asarray(counts)), weight)


def started(shape, beta=1.0):
    """The map where a search starts."""
    return FittedMap(shape, shape.start(beta))


@pytest.mark.parametrize("floor", [None, PI])
def test_path_of_the_temperature_is_the_cost_of_its_decisions(rows, floor):
    fitted = FittedMap(TemperatureMap(3), np.array([0.3]), floor, -2.0)
    path = TemperaturePath.of(fitted, rows, C3 / 20)
    for t in np.random.default_rng(0).uniform(-2.5, 2.9, 20):
        d = (probabilities(fitted._replace(x=np.array([t])), rows) @ C3).argmin(axis=1)
        assert_allclose(path.cost(t), (rows.frequencies @ C3 / 20)[np.arange(400), d], atol=1e-12)
    assert len(path.at) > 100


def test_path_has_the_breaks_of_two_classes():
    """Two classes: z₁ = σ(βs) crosses the threshold 1/5 at β = log(1/4)/s, for s below 0."""
    s = np.array([-1.0, -2.0, -0.5, 1.0])
    u = np.column_stack([np.zeros(4), s])
    rows = rows_of(u, np.eye(2)[[0, 1, 0, 1]])
    path = TemperaturePath.of(started(TemperatureMap(2)), rows, np.array([[0, 1.0], [4, 0]]))
    assert_allclose(path.at, np.log(np.sort(np.log(4) / -s[:3])), atol=1e-8)
    assert_array_equal(path.row, [1, 0, 2])
    assert_allclose(path.jump, [4.0, -1.0, -1.0])


@pytest.mark.parametrize("weighted", [False, True])
def test_the_temperature_of_least_risk_is_found(rows, weighted):
    w = np.random.default_rng(0).uniform(0, 2, 400) if weighted else np.ones(400)
    path = TemperaturePath.of(started(TemperatureMap(3)), rows, C3 / 20)
    best = w @ path.cost(path.minimise(w, 0.0, 0.0))
    assert best <= min(w @ path.cost(t) for t in np.linspace(-3, 3, 3001)) + 1e-12
    assert path.minimise(w, path.minimise(w, 0.0, 0.0), 0.0) == path.minimise(
        w, 0.0, 0.0
    )  # the start, if it is best


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: type(s).__name__)
def test_descent_lowers_the_risk_of_a_wrong_start(shape, rows):
    start = shape.start(3.0)
    found = DIRECT
    x = descend(started(shape, 3.0), rows, C3 / 20, found)

    def risk(parameters):
        d = (probabilities(FittedMap(shape, parameters), rows) @ C3).argmin(axis=1)
        return (rows.frequencies @ C3)[np.arange(400), d].mean()

    assert min(risk(p) for p in x) < 0.9 * risk(start)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: type(s).__name__)
def test_candidates_do_not_meet(shape, rows):
    """All in one tensor, or one after the other."""
    together = descend(started(shape), rows, C3 / 20, DIRECT)
    for x, params in zip(together, DIRECT.params, strict=True):
        alone = search.bounds("direct", [(params["lam"], params["beta"])])
        apart = descend(started(shape), rows, C3 / 20, alone)
        assert_allclose(x, apart[search.RATES.index(params["rate"])], atol=1e-9)


def test_weights_are_repetition_in_the_descent(rows):
    w = np.random.default_rng(0).integers(1, 4, 400)
    repeated = rows.take(np.repeat(np.arange(400), w))
    shape, found = BiasCorrectedMap(3), DIRECT
    a = descend(started(shape), replace(rows, weight=w.astype(float)), C3 / 20, found)
    assert_allclose(a, descend(started(shape), repeated, C3 / 20, found), atol=1e-6)


def test_permuted_classes_in_the_descent(rows):
    order, shape, found = [2, 0, 1], BiasCorrectedMap(3), DIRECT
    turned = rows_of(rows.log_proba[:, order], rows.counts[:, order])
    a = descend(started(shape), rows, C3 / 20, found)
    b = descend(started(shape), turned, C3[order] / 20, found)
    assert_allclose(b[:, 1:], a[:, 1:][:, order], atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: type(s).__name__)
def test_an_ensemble_of_equal_members_is_one_model(shape, rows):
    u = np.stack([rows.log_proba] * 3, axis=1)
    members = replace(rows, log_proba=u, log_weights=np.full((400, 3), -np.log(3)))
    found = DIRECT
    one, three = (descend(started(shape), r, C3 / 20, found) for r in (rows, members))
    assert_allclose(one, three, atol=1e-6)
    at = [TemperaturePath.of(started(TemperatureMap(3)), r, C3 / 20).at for r in (rows, members)]
    assert_allclose(*at, atol=1e-8)


def test_the_error_of_the_top_label_is_confidence_less_accuracy():
    """Of one confidence the absolute difference, over its bins; with a gradient."""
    w = torch.full((50,), 1 / 50).double()
    z = torch.as_tensor(np.tile([0.7, 0.2, 0.1], (50, 1)))
    y = torch.eye(3)[[0] * 20 + [1] * 20 + [2] * 10].double()
    assert search.top_label_error(z[None], y, w).item() == pytest.approx(0.7 - 0.4)
    some = torch.as_tensor(np.random.default_rng(0).dirichlet(np.ones(3), 8))[None]
    slopes = some.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda p: search.top_label_error(p, y[15:23], torch.full((8,), 1 / 8).double()), slopes
    )


@pytest.mark.parametrize("name", ["direct", "margin"])
def test_a_beta_of_none_is_the_minimum_itself(name, rows):
    loss = {"direct": DirectLoss, "margin": MarginRescalingLoss}[name](C3 / 20, 0.1, None)
    family = search.bounds_of(name, 0.1, {"lam": [0.1], "beta": [None], "rate": [0.1]})
    fitted, C = started(BiasCorrectedMap(3)), torch.as_tensor(C3 / 20)
    block = search._block(rows, slice(0, 400), C)
    slope = search._slope(fitted, fitted.x[None], C, [block], family)
    theta = torch.as_tensor(fitted.x).requires_grad_()
    W, b = fitted.family.affine(theta, torch)
    log_z = torch.log_softmax(torch.as_tensor(rows.log_proba) * W + b, dim=-1)
    value = loss(log_z, torch.as_tensor(rows.frequencies), torch.ones(400).double())
    assert_allclose(slope[0], torch.autograd.grad(value, theta)[0].numpy(), atol=1e-12)


def test_hat_bins_are_a_calibration_error():
    """0 for known probabilities, the squared shift for a constant one; and its gradient."""
    z, w = (
        torch.as_tensor(np.random.default_rng(0).dirichlet(np.ones(3), 50)),
        torch.full((50,), 1 / 50).double(),
    )
    assert calibration_loss(z[None], z, w).item() == pytest.approx(0)
    off = torch.as_tensor(np.tile([0.5, 0.3, 0.2], (50, 1)))
    wrong = torch.as_tensor(np.tile([0.6, 0.3, 0.1], (50, 1)))
    both = calibration_loss(torch.stack([wrong, off]), off, w)
    assert both[1].item() == pytest.approx(0)
    assert 0.5 * 0.02 < both[0].item() <= 0.02 + 1e-12
    inputs = (z[None, :8] * 0.9 + 0.03).requires_grad_()
    y = torch.eye(3)[[0, 1, 2, 0, 1, 2, 0, 0]].double()
    assert torch.autograd.gradcheck(
        lambda p: calibration_loss(p, y, torch.full((8,), 1 / 8).double()), inputs
    )


@pytest.mark.parametrize(
    ("name", "loss"), [("direct", DirectLoss), ("margin", MarginRescalingLoss)]
)
@pytest.mark.parametrize("floor", [None, PI], ids=["bare", "floor"])
@pytest.mark.parametrize("ensemble", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: type(s).__name__)
def test_slopes_in_closed_form_are_those_of_the_losses(shape, ensemble, floor, name, loss, rows):
    """Against autograd through the public losses, the map and the mixture; in blocks, weighted."""
    rng, family = np.random.default_rng(0), search.bounds_of(name, 0.1, None)
    P, w = len(family.params), rng.uniform(0.5, 2, 400)
    rows = replace(rows, weight=w)
    if ensemble:
        u = np.stack([rows.log_proba, 0.5 * rows.log_proba[:, ::-1]], axis=1)
        rows = replace(rows, log_proba=u, log_weights=np.log([0.3, 0.7]) * np.ones((400, 2)))
    x, C = shape.start() + 0.1 * rng.normal(size=(P, len(shape.start()))), C3 / 20
    blocks = [search._block(rows, slice(i, i + 150), torch.as_tensor(C)) for i in (0, 150, 300)]
    fitted = FittedMap(shape, shape.start(), floor, -2.0)
    slope = search._slope(fitted, x, torch.as_tensor(C), blocks, family)
    for p, params in enumerate(family.params):
        theta = torch.as_tensor(x[p]).requires_grad_()
        W, b = shape.affine(theta, torch)
        z = torch.softmax(torch.as_tensor(rows.log_proba) * W + (0 if b is None else b), dim=-1)
        if ensemble:
            z = torch.einsum("ns,nsk->nk", torch.as_tensor(np.exp(rows.log_weights)), z)
        if floor is not None:
            e = 1 / (1 + np.exp(2.0))
            z = (1 - e) * z + e * torch.as_tensor(floor)
        bound = loss(C, params["lam"], params["beta"])
        value = bound(torch.log(z), torch.as_tensor(rows.frequencies), torch.as_tensor(w))
        assert_allclose(slope[p], torch.autograd.grad(value, theta)[0].numpy(), atol=1e-12)


def test_blocks_do_not_matter(rows, monkeypatch):
    shape, found = VectorMap(3), DIRECT
    whole = descend(started(shape), rows, C3 / 20, found)
    monkeypatch.setattr(search, "_BLOCK", 2000)
    assert_allclose(descend(started(shape), rows, C3 / 20, found), whole, atol=1e-9)


def test_difference_and_its_standard_error(rows):
    """Paired, and a mistake that did not occur.

    As far as NLL expects one, and one of the worst at most.
    """
    z = probabilities(started(TemperatureMap(3)), rows)
    d, fold = np.stack([(z @ C3).argmin(axis=1), np.full(400, 1)]), np.arange(400) % 5
    y = np.random.default_rng(0).integers(3, size=400)
    plain = replace(rows, counts=np.eye(3)[y])
    mean, error = difference(OutOfFold([], d, z, fold), d[1], plain, C3)
    paired = C3[y, d[1]] - C3[y, d[0]]
    assert mean == pytest.approx(paired.mean())
    D = C3.T[d[1]] - C3.T[d[0]]
    assert (z * D**2).sum() > (D**2).max()
    seen = paired.var(ddof=1) * (1 / 400 + 1 / 320)
    assert error == pytest.approx(np.sqrt(seen + (np.abs(D).max() / 400) ** 2))
    rare = np.where(np.abs(D).max() == D, 1e-9, 0.0)  # only the worst is possible, and hardly
    _, error = difference(OutOfFold([], d, rare, fold), d[1], plain, C3)
    assert error == pytest.approx(np.sqrt(seen), rel=1e-6)
    assert difference(OutOfFold([], d, z, fold), d[0], plain, C3) == (0, 0)


def test_the_best_candidate_is_judged_by_other_folds():
    cost = np.array(
        [[1.0, 1, 1, 1], [0, 0, 2, 2], [2, 2, 0, 0]]
    )  # each candidate is best on one fold alone
    found = OutOfFold(
        [], np.arange(3)[:, None] * np.ones((1, 4), dtype=int), None, np.array([0, 0, 1, 1])
    )
    assert_array_equal(found.selected(cost), [2, 2, 1, 1])


def test_the_rule_keeps_nll_unless_it_is_beaten_by_more_than_the_error(rows):
    """Another rule can take its place: it sees decisions out of fold and nothing else."""
    z = probabilities(started(TemperatureMap(3)), rows)
    best = (rows.frequencies @ C3).argmin(axis=1)
    d = np.stack([np.roll(best, 1), best])
    found = OutOfFold([{"criterion": "nll"}, {"criterion": "oracle"}], d, z, np.arange(400) % 5)
    chosen = PairedRule(1.0).select(found, rows, C3)
    assert chosen.best == 1
    assert chosen.difference.estimate == pytest.approx(np.diff(chosen.results["mean_risk"])[0])
    assert PairedRule(1e9).select(found, rows, C3).best == 0
    assert PairedRule(None).select(found, rows, C3).best == 1
