"""The affine maps: derivatives, optimality by two routes, nested optima, invariances.

Maps and problems are private: derivatives and optima are compared without a loop of folds.
"""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime, minimize
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

# Derivatives, priors and preconditioners have no public door, and are where mistakes would hide.
from sklearn_lhcal.calibration import (
    BiasCorrectedTemperatureScaling,
    MatrixScaling,
    TemperatureScaling,
    VectorScaling,
    _likelihood,
    _preconditioner,
)
from sklearn_lhcal.calibration._affine import BiasCorrectedMap, MatrixMap, TemperatureMap, VectorMap
from sklearn_lhcal.calibration._likelihood import ScalingProblem
from sklearn_lhcal.calibration._prior import Prior
from sklearn_lhcal.calibration._rows import CalibrationRows
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.label_histogram import KnownProbabilities
from sklearn_lhcal.label_histogram._labels import Labels
from sklearn_lhcal.metrics import label_log_loss
from sklearn_lhcal.neural_network import LBFGS, Newton

FAMILIES = [TemperatureMap(3), BiasCorrectedMap(3), VectorMap(3), MatrixMap(3)]
FREE_VECTOR = VectorScaling("logits", bias_penalty=0.0)
FREE_MATRIX = MatrixScaling("logits", bias_penalty=0.0, off_diagonal_penalty=0.0)
CALIBRATORS = [
    TemperatureScaling("logits"),
    BiasCorrectedTemperatureScaling("logits"),
    FREE_VECTOR,
    FREE_MATRIX,
    VectorScaling("logits", bias_penalty=1.0),
    MatrixScaling("logits", bias_penalty=1.0, off_diagonal_penalty=10.0),
    VectorScaling("logits"),
    MatrixScaling("logits"),
]


@pytest.fixture
def data():
    return make_label_histograms(400, n_classes=3, n_raters=(1, 4), total=5.0, random_state=0)


@pytest.fixture
def logits(data):
    """Overconfident, with a shift between the classes."""
    return log_softmax(1.8 * np.log(data.prediction) + [0.5, 0.0, -0.3], axis=1)


def name(thing):
    return type(thing).__name__


def problem_of(family, u, counts, floor, members):
    """A problem with a prior, weights, and members that disagree."""
    rng = np.random.default_rng(1)
    log_w = None
    if members:
        u = np.stack([u, u[:, ::-1], 0.3 * u], axis=1)
        log_w = np.log(rng.dirichlet(np.ones(3), len(u)))
    rows = CalibrationRows(u, log_w).labelled(
        Labels(np.asarray(counts)), rng.uniform(0.1, 2, len(u))
    )
    size = len(family.start())
    prior = Prior(rng.normal(size=size), rng.uniform(0.3, 1, size))
    x = family.start() + rng.normal(size=size) / 3
    if floor is not None:
        x = np.append(x, -1.3)
    return ScalingProblem(family, rows, prior, floor, start=x)


@pytest.mark.parametrize("members", [False, True], ids=["point", "ensemble"])
@pytest.mark.parametrize("floor", [None, np.array([0.2, 0.3, 0.5])], ids=["", "floor"])
@pytest.mark.parametrize("family", FAMILIES, ids=name)
def test_derivatives_are_finite_differences(family, floor, members, data, logits):
    problem = problem_of(family, logits, data.counts, floor, members)
    x = problem.start
    _, g = problem.gradient(x)
    steps = 1e-5 * np.eye(len(x))
    ahead = [problem.gradient(x + e) for e in steps]
    behind = [problem.gradient(x - e) for e in steps]
    # Central differences of step 1e-5 are right to 1e-10 or so.
    numeric = [(a[0] - b[0]) / 2e-5 for a, b in zip(ahead, behind, strict=True)]
    assert_allclose(g, numeric, atol=1e-9)
    if members:
        with pytest.raises(ValueError, match=r"use LBFGS\(\)"):
            problem.hessian(x)
        return
    numeric = [(a[1] - b[1]) / 2e-5 for a, b in zip(ahead, behind, strict=True)]
    assert_allclose(problem.hessian(x)[2], numeric, atol=1e-8)
    assert_allclose(problem.hessian(x)[1], g, atol=1e-14)


@pytest.mark.parametrize("members", [False, True], ids=["point", "ensemble"])
@pytest.mark.parametrize("floor", [None, np.array([0.2, 0.3, 0.5])], ids=["", "floor"])
@pytest.mark.parametrize("family", FAMILIES, ids=name)
def test_what_torch_trains_is_the_same_function(family, floor, members, data, logits):
    """So Adam and the others have one optimum."""
    problem = problem_of(family, logits, data.counts, floor, members)
    module, loss, inputs, counts, weight = problem.training()
    tensors = {k: None if a is None else torch.as_tensor(a) for k, a in inputs.items()}
    z = module(**tensors)
    value = loss(z, torch.as_tensor(counts), torch.as_tensor(weight)) + module.penalty()
    assert_allclose(value.item(), problem.gradient(problem.start)[0], rtol=1e-12)


def scipys_loss(W, b, u, counts):
    """The log loss per label by scipy."""
    W = W if np.ndim(W) == 2 else np.diag(W * np.ones(u.shape[1]))
    return -(counts * log_softmax(u @ W.T + b, axis=1)).sum() / counts.sum()


@pytest.mark.parametrize("solver", [None, Newton(), LBFGS()])
def test_published_penalties_have_scipys_optimum(solver, data, logits):
    """P1 eq. (48)."""

    def loss(x):
        W, b = x[:9].reshape(3, 3), x[9:]
        off = (W**2).sum() - (np.diag(W) ** 2).sum()
        return scipys_loss(W, b, logits, data.counts) + 0.5 * off / 6 + 0.3 * (b**2).mean()

    best = minimize(loss, np.append(np.eye(3).ravel(), np.zeros(3)), tol=1e-9)
    model = MatrixScaling("logits", off_diagonal_penalty=0.5, bias_penalty=0.3, solver=solver)
    model.fit(logits, data.counts)
    assert loss(np.append(model.coef_.ravel(), model.intercept_)) <= best.fun + 1e-10


@pytest.mark.parametrize("shrinkage", [1.0, 100.0])
def test_shrinkage_has_scipys_optimum(shrinkage, data, logits):
    """About the temperature, in nats for all rows: labels of one row count once."""
    beta = 1 / TemperatureScaling("logits").fit(logits, data.counts).temperature_

    def loss(x):
        d, b = x[:3], x[3:]
        penalty = shrinkage / 2 * ((d**2).sum() + (b**2).sum() / 10)
        return scipys_loss(beta * (1 + d), b, logits, data.counts) + penalty / 400

    best = minimize(loss, np.zeros(6), tol=1e-10)
    model = VectorScaling("logits", shrinkage=shrinkage).fit(logits, data.counts)
    found = np.append(model.scale_ / beta - 1, model.intercept_)
    assert loss(found) <= best.fun + 1e-10
    assert_allclose(found, best.x, atol=1e-3)


def test_shrinkage_of_many_classes_has_scipys_optimum():
    """Eighty parameters, for which second derivatives serve several steps."""
    many = make_label_histograms(300, n_classes=40, n_raters=(1, 3), random_state=0)
    u = log_softmax(2 * np.log(many.prediction), axis=1)
    beta = 1 / TemperatureScaling("logits").fit(u, many.counts).temperature_

    def loss(x):
        d, b = x[:40], x[40:]
        penalty = 0.5 * ((d**2).sum() + (b**2).sum() / 10)
        return scipys_loss(beta * (1 + d), b, u, many.counts) + penalty / 300

    model = VectorScaling("logits", shrinkage=1.0).fit(u, many.counts)
    found = np.append(model.scale_ / beta - 1, model.intercept_)
    slope = approx_fprime(found, loss, 1e-6)
    # Forward differences of step 1e-6 are right to 1e-6 or so; at the start they are .05.
    assert np.abs(slope).max() < 1e-5
    assert np.abs(approx_fprime(np.zeros(80), loss, 1e-6)).max() > 1e-3


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=name)
@pytest.mark.parametrize("weighted", [False, True])
def test_solvers_reach_one_optimum(calibrator, weighted, data, logits):
    w = np.linspace(0, 2, 400) if weighted else None
    fitted = [
        type(calibrator)(**calibrator.get_params() | {"solver": s}).fit(
            logits, data.counts, sample_weight=w
        )
        for s in (None, Newton(), LBFGS())
    ]
    for other in fitted[1:]:
        assert_allclose(other.predict_proba(logits), fitted[0].predict_proba(logits), atol=2e-6)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_without_a_prior_the_unit_of_weights_does_not_matter(unit, data, logits):
    w = np.linspace(0, 2, 400)
    one = clone(FREE_MATRIX).fit(logits, data.counts, sample_weight=w)
    with pytest.warns(UserWarning, match="Weights count rows") if unit < 1 else nullcontext():
        other = clone(FREE_MATRIX).fit(logits, data.counts, sample_weight=unit * w)
    assert_allclose(other.predict_proba(logits), one.predict_proba(logits), rtol=1e-6)


def test_optima_are_nested(data, logits):
    losses = [
        label_log_loss(data.counts, c.fit(logits, data.counts).predict_proba(logits))
        for c in (
            TemperatureScaling("logits"),
            BiasCorrectedTemperatureScaling("logits", shrinkage=0.0),
            VectorScaling("logits", bias_penalty=0.0),
            MatrixScaling("logits", bias_penalty=0.0, off_diagonal_penalty=0.0),
        )
    ]
    assert label_log_loss(data.counts, np.exp(logits)) > losses[0]
    assert (np.diff(losses) < -1e-6).all()


def test_large_penalties_lead_to_the_smaller_model(data, logits):
    vector = VectorScaling("logits", bias_penalty=1e6).fit(logits, data.counts)
    assert_allclose(vector.intercept_, 0, atol=1e-4)
    diagonal = MatrixScaling("logits", off_diagonal_penalty=1e6, bias_penalty=0.1).fit(
        logits, data.counts
    )
    vector = VectorScaling("logits", bias_penalty=0.1).fit(logits, data.counts)
    assert_allclose(diagonal.predict_proba(logits), vector.predict_proba(logits), atol=1e-4)


def test_parameters_mean_what_they_say(data, logits):
    c = BiasCorrectedTemperatureScaling("logits").fit(logits, data.counts)
    assert_allclose(c.bias_.mean(), 0, atol=1e-12)
    assert_allclose(
        c.predict_log_proba(logits), log_softmax((logits + c.bias_) / c.temperature_, axis=1)
    )
    c = VectorScaling("logits").fit(logits, data.counts)
    assert_allclose(
        c.predict_log_proba(logits), log_softmax(c.scale_ * logits + c.intercept_, axis=1)
    )
    c = MatrixScaling("logits").fit(logits, data.counts)
    assert_allclose(
        c.predict_log_proba(logits), log_softmax(logits @ c.coef_.T + c.intercept_, axis=1)
    )


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=name)
def test_logits_with_a_constant_and_probabilities_are_one_model(calibrator, data, logits):
    a = calibrator.fit(logits, data.counts).predict_proba(logits)
    shifted = logits + np.arange(400)[:, None]
    b = calibrator.fit(shifted, data.counts).predict_proba(shifted)
    assert_allclose(a, b, atol=1e-7)


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=name)
def test_permuted_classes(calibrator, data, logits):
    order = [2, 0, 1]
    a = calibrator.fit(logits, data.counts).predict_proba(logits)
    b = calibrator.fit(logits[:, order], data.counts[:, order]).predict_proba(logits[:, order])
    assert_allclose(b, a[:, order], atol=1e-6)


def test_bias_corrected_scaling_undoes_a_label_shift():
    """Predictions right under equal class frequencies, labels drawn with another prior."""
    rng = np.random.default_rng(0)
    z = rng.dirichlet([1, 1, 1], 20_000)
    prior = np.array([0.7, 0.2, 0.1])
    shifted = z * prior / (z @ prior)[:, None]
    y = rng.multinomial(3, shifted)
    calibrator = BiasCorrectedTemperatureScaling("proba").fit(z, y)
    assert abs(calibrator.temperature_ - 1) < 0.05
    bias = np.log(prior) - np.log(prior).mean()
    assert_allclose(calibrator.bias_, bias, atol=0.05)


def test_many_classes():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(600, 40))
    y = rng.multinomial(2, np.exp(log_softmax(0.5 * logits, axis=1)))
    fast = MatrixScaling("logits", off_diagonal_penalty=50.0).fit(logits, y)
    slow = MatrixScaling("logits", off_diagonal_penalty=50.0, solver=LBFGS()).fit(logits, y)
    assert_allclose(fast.predict_proba(logits), slow.predict_proba(logits), atol=1e-5)


@pytest.mark.parametrize("calibrator", CALIBRATORS[2:4], ids=name)
@pytest.mark.parametrize("step", [2, 3])
def test_rows_of_weight_zero_are_as_if_left_out(calibrator, step):
    """Also where a start that takes every second row would see nothing else."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(45_000, 10))
    y = np.eye(10)[(logits + rng.gumbel(size=logits.shape)).argmax(axis=1)].astype(int)
    kept = np.arange(len(y)) % step == 1
    weighted = calibrator.fit(logits, y, sample_weight=kept).predict_proba(logits[:9])
    assert_allclose(
        weighted, calibrator.fit(logits[kept], y[kept]).predict_proba(logits[:9]), rtol=1e-6
    )


@pytest.fixture(params=["exact", "common"])
def preconditioner(request, monkeypatch):
    """Both of them, each for five classes."""
    monkeypatch.setattr(_preconditioner, "_EXACT", {"exact": 5, "common": 0}[request.param])
    return request.param


@pytest.mark.parametrize("penalty", [0.0, 3.0])
def test_preconditioned_hessian(preconditioner, penalty):
    """A_kᵀ H_k A_k = 1, with less penalty on the diagonal of W.

    Both keep the sum of the H_k, whose parts are those of the Newton Hessian without p pᵀ.
    """
    data = make_label_histograms(300, n_classes=5, random_state=0)
    u, n = np.log(data.prediction), np.full(300, 1 / 300)
    curvature = np.full((5, 6), penalty)
    curvature[np.arange(5), np.arange(5)] /= 5
    p, a = np.exp(u), np.column_stack([u, np.ones(300)])
    factor = _preconditioner.Information.of(u, n, p).factors(curvature)
    units = np.repeat(np.eye(6)[:, None], 5, axis=1)
    A = np.stack([factor.applied(e) for e in units], axis=2)
    assert_allclose(np.stack([factor.pulled(e) for e in units], axis=1), A, atol=1e-9)
    H = np.einsum("n,nk,ni,nj->kij", n, p * (1 - p), a, a) + curvature[:, :, None] * np.eye(6)
    if preconditioner == "exact":
        assert_allclose(
            A.transpose(0, 2, 1) @ H @ A, np.broadcast_to(np.eye(6), H.shape), atol=2e-2
        )
    else:
        inverse = np.linalg.inv(A @ A.transpose(0, 2, 1))
        assert_allclose(inverse.sum(axis=0), H.sum(axis=0), rtol=5e-3, atol=1e-4)


def test_the_optimum_does_not_depend_on_the_preconditioner(preconditioner):
    data = make_label_histograms(500, n_classes=5, n_raters=2, random_state=1)
    u = 2 * np.log(data.prediction)
    fast, slow = (MatrixScaling("logits", solver=s).fit(u, data.counts) for s in (None, Newton()))
    assert_allclose(fast.predict_proba(u), slow.predict_proba(u), atol=1e-6)


def test_a_class_without_labels_and_a_constant_logit():
    data = make_label_histograms(300, n_classes=4, n_raters=2, random_state=0)
    u = np.column_stack([np.log(data.prediction), np.full(300, -27.0)])
    counts = np.column_stack([data.counts, np.zeros(300, dtype=int)])
    for scaling in (VectorScaling("logits"), MatrixScaling("logits")):
        p = scaling.fit(u, counts).predict_proba(u)
        assert p[:, 4].max() < 1e-3

        assert label_log_loss(counts, p) < label_log_loss(data.counts, np.exp(u[:, :4]))


def test_any_number_of_threads_gives_the_same_map(monkeypatch):
    monkeypatch.setattr(_likelihood, "_BLOCK", 2**10)
    data = make_label_histograms(5_000, n_classes=4, n_raters=3, random_state=0)
    u, before, found = np.log(data.prediction), torch.get_num_threads(), []
    for threads in (1, 2, 5):
        torch.set_num_threads(threads)
        found.append([c.fit(u, data.counts).predict_proba(u) for c in CALIBRATORS])
    torch.set_num_threads(before)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf, "a"])
def test_penalties_must_not_be_negative(value, data, logits):
    for model, name in (
        (VectorScaling, "bias_penalty"),
        (MatrixScaling, "bias_penalty"),
        (MatrixScaling, "off_diagonal_penalty"),
        (VectorScaling, "shrinkage"),
        (BiasCorrectedTemperatureScaling, "shrinkage"),
    ):
        with pytest.raises(
            ValueError, match=f"{name} must be a finite number of at least 0, got {value!r}"
        ):
            model("logits", **{name: value}).fit(logits, data.counts)


@pytest.mark.parametrize("solver", [Newton(), LBFGS()], ids=name)
@pytest.mark.parametrize("span", [0.01, 400.0, 1e4])
@pytest.mark.parametrize("family", FAMILIES[1:], ids=name)
def test_logits_of_any_span(family, span, solver, data, logits):
    """Where the identity is saturated, too, which Newton's method could not leave."""
    free = Prior(np.zeros(len(family.start())), np.full(len(family.start()), np.inf))

    def least(u):
        rows = CalibrationRows(u).labelled(Labels(np.asarray(data.counts)), None)
        problem = ScalingProblem(family, rows, free)
        return problem.gradient(solver.solve(problem))[0]

    assert_allclose(least(span * logits), least(logits), atol=1e-8)


def test_scaling_of_ensembles_takes_all_weights_and_known_probabilities(data):
    """Twos are two rows, a weight of zero is no row, known probabilities are as many labels."""
    forest = FrozenEstimator(
        RandomForestClassifier(5, max_depth=3, random_state=0).fit(data.X, data.counts.argmax(1))
    )

    def temperature(rows, y, weight=None):
        return (
            TemperatureScaling(forest).fit(data.X[rows], y[rows], sample_weight=weight).temperature_
        )

    everything, rest, Q = slice(None), slice(1, None), KnownProbabilities(data.proba)
    many = np.round(1e6 * data.proba).astype(int)
    twice = np.tile(np.arange(400), 2)
    two = temperature(everything, data.counts, np.full(400, 2.0))
    assert_allclose(two, temperature(twice, data.counts))
    assert_allclose(
        temperature(everything, data.counts, np.r_[0.0, np.ones(399)]),
        temperature(rest, data.counts),
    )
    assert_allclose(temperature(everything, Q), temperature(everything, many), rtol=1e-4)


@pytest.mark.parametrize("solver", [None, LBFGS()], ids=["Newton", "L-BFGS"])
@pytest.mark.parametrize("unit", [1e-200, 1e-35, 1e-3])
def test_weights_that_are_fractions_of_rows_are_said(solver, unit, data, logits):
    """They leave the map where it is without rows."""
    w = unit * np.linspace(0.1, 2, 400)
    for scaling in (TemperatureScaling, VectorScaling):
        calibrator = scaling("logits", solver=solver)
        with pytest.warns(UserWarning, match="Weights count rows.*divide the weights by"):
            model = clone(calibrator).fit(logits, data.counts, sample_weight=w)
        if unit < 1e-30:
            assert_allclose(model.predict_proba(logits), np.exp(logits), rtol=1e-6)
    free = clone(FREE_VECTOR).set_params(solver=solver)
    one = clone(free).fit(logits, data.counts, sample_weight=w / unit)
    with pytest.warns(UserWarning, match="Weights count rows"):
        tiny = clone(free).fit(logits, data.counts, sample_weight=w)
    assert_allclose(tiny.predict_proba(logits), one.predict_proba(logits), rtol=1e-6)
