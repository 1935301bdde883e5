"""The affine maps: derivatives, optimality by two routes, nested optima, invariances."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from sklearn_lhcal.calibration import (
    BiasCorrectedTemperatureScaling,
    MatrixScaling,
    TemperatureScaling,
    VectorScaling,
    _affine,
)
from sklearn_lhcal.calibration._affine import BiasCorrectedMap, MatrixMap, TemperatureMap, VectorMap
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.label_histogram import KnownProbabilities
from sklearn_lhcal.metrics import label_log_loss
from sklearn_lhcal.neural_network import LBFGS, Newton

MAPS = [TemperatureMap(3), BiasCorrectedMap(3), VectorMap(3, bias_penalty=0.3), MatrixMap(3, 0.5, 0.3)]
FREE_VECTOR = VectorScaling("logits", bias_penalty=0.0)
FREE_MATRIX = MatrixScaling("logits", bias_penalty=0.0, off_diagonal_penalty=0.0)
CALIBRATORS = [
    TemperatureScaling("logits"),
    BiasCorrectedTemperatureScaling("logits"),
    FREE_VECTOR,
    FREE_MATRIX,
    VectorScaling("logits", bias_penalty=1.0),
    MatrixScaling("logits", bias_penalty=1.0, off_diagonal_penalty=10.0),
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


@pytest.mark.parametrize("shape", MAPS, ids=name)
def test_derivatives_are_finite_differences(shape, data, logits):
    x = shape.start() + np.random.default_rng(0).normal(size=len(shape.start())) / 3
    y = data.counts.astype(float)
    loss = shape.objective(logits, y)
    _, g, H = loss(x)
    steps = 1e-5 * np.eye(len(x))
    numeric = [(loss(x + e)[0] - loss(x - e)[0]) / 2e-5 for e in steps]
    assert_allclose(g, numeric, atol=1e-8)
    numeric = [(loss(x + e)[1] - loss(x - e)[1]) / 2e-5 for e in steps]
    assert_allclose(H, numeric, atol=1e-8)


@pytest.mark.parametrize("shape", MAPS[1:], ids=name)
def test_the_optimum_is_scipys(shape, data, logits):
    def loss(x):
        W, b = shape.affine(x)
        v = logits @ (W.T if W.ndim == 2 else np.diag(W * np.ones(3))) + b
        return -(data.counts * log_softmax(v, axis=1)).sum() / data.counts.sum() + shape.penalty(W, b)

    best = minimize(loss, shape.start(), tol=1e-9)
    x = shape.newton(logits, data.counts.astype(float), Newton())
    assert loss(x) <= best.fun + 1e-10
    if isinstance(shape, MatrixMap):
        assert loss(shape.minimize(logits, data.counts.astype(float))) <= best.fun + 1e-10


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=name)
@pytest.mark.parametrize("weighted", [False, True])
def test_solvers_reach_one_optimum(calibrator, weighted, data, logits):
    w = np.linspace(0, 2, 400) if weighted else None
    fitted = [
        type(calibrator)(**calibrator.get_params() | {"solver": s}).fit(logits, data.counts, sample_weight=w)
        for s in (None, Newton(), LBFGS())
    ]
    for other in fitted[1:]:
        assert_allclose(other.predict_proba(logits), fitted[0].predict_proba(logits), atol=2e-6)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_the_unit_of_weights_does_not_matter(unit, data, logits):
    w = np.linspace(0, 2, 400)
    one, other = (MatrixScaling("logits").fit(logits, data.counts, sample_weight=s * w) for s in (1.0, unit))
    assert_allclose(other.predict_proba(logits), one.predict_proba(logits), rtol=1e-6)


def test_optima_are_nested(data, logits):
    losses = [
        label_log_loss(data.counts, c.fit(logits, data.counts).predict_proba(logits))
        for c in (
            TemperatureScaling("logits"),
            BiasCorrectedTemperatureScaling("logits"),
            VectorScaling("logits", bias_penalty=0.0),
            MatrixScaling("logits", bias_penalty=0.0, off_diagonal_penalty=0.0),
        )
    ]
    assert label_log_loss(data.counts, np.exp(logits)) > losses[0]
    assert (np.diff(losses) < -1e-6).all()


def test_large_penalties_lead_to_the_smaller_model(data, logits):
    vector = VectorScaling("logits", bias_penalty=1e6).fit(logits, data.counts)
    assert_allclose(vector.intercept_, 0, atol=1e-4)
    diagonal = MatrixScaling("logits", off_diagonal_penalty=1e6, bias_penalty=0.1).fit(logits, data.counts)
    vector = VectorScaling("logits", bias_penalty=0.1).fit(logits, data.counts)
    assert_allclose(diagonal.predict_proba(logits), vector.predict_proba(logits), atol=1e-4)


def test_parameters_mean_what_they_say(data, logits):
    c = BiasCorrectedTemperatureScaling("logits").fit(logits, data.counts)
    assert_allclose(c.bias_.mean(), 0, atol=1e-12)
    assert_allclose(c.predict_log_proba(logits), log_softmax((logits + c.bias_) / c.temperature_, axis=1))
    c = VectorScaling("logits").fit(logits, data.counts)
    assert_allclose(c.predict_log_proba(logits), log_softmax(c.scale_ * logits + c.intercept_, axis=1))
    c = MatrixScaling("logits").fit(logits, data.counts)
    assert_allclose(c.predict_log_proba(logits), log_softmax(logits @ c.coef_.T + c.intercept_, axis=1))


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
    assert_allclose(weighted, calibrator.fit(logits[kept], y[kept]).predict_proba(logits[:9]), rtol=1e-6)


@pytest.fixture(params=["exact", "pooled", "common"])
def preconditioner(request, monkeypatch):
    """The three of them, each for five classes."""
    exact, own = {"exact": (5, 9), "pooled": (0, 9), "common": (0, 0)}[request.param]
    monkeypatch.setattr(_affine, "_EXACT", exact)
    monkeypatch.setattr(_affine, "_OWN_BLOCKS", own)
    return request.param


@pytest.mark.parametrize("penalty", [0.0, 3.0])
def test_preconditioned_hessian(preconditioner, penalty):
    """A_kᵀ H_k A_k = 1; all three keep the sum of the H_k, whose parts are those of the Newton Hessian without p pᵀ."""
    data = make_label_histograms(300, n_classes=5, random_state=0)
    u, n = np.log(data.prediction), np.full(300, 1 / 300)
    shape = MatrixMap(5, off_diagonal_penalty=penalty, bias_penalty=penalty)
    A = shape._preconditioner(shape.start(), u, data.counts / data.counts.sum(), n)
    p, a = np.exp(u), np.column_stack([u, np.ones(300)])
    H = np.einsum("n,nk,ni,nj->kij", n, p * (1 - p), a, a)
    curvature = shape._curvature()[:, :, None] * np.eye(6)
    H, curvature = (H, curvature) if preconditioner != "common" else (H.mean(0)[None], curvature.mean(0)[None])
    if preconditioner == "pooled":
        assert_allclose(np.linalg.inv(A @ A.transpose(0, 2, 1)).sum(0), (H + curvature).sum(0), rtol=2e-3)
    else:
        assert_allclose(A.transpose(0, 2, 1) @ (H + curvature) @ A, np.broadcast_to(np.eye(6), H.shape), atol=2e-2)


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
    monkeypatch.setattr(_affine, "_BLOCK", 2**10)
    data = make_label_histograms(5_000, n_classes=4, n_raters=3, random_state=0)
    u, before, found = np.log(data.prediction), torch.get_num_threads(), []
    for threads in (1, 2, 5):
        torch.set_num_threads(threads)
        found.append([c.fit(u, data.counts).predict_proba(u) for c in CALIBRATORS])
    torch.set_num_threads(before)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf, "a", None])
@pytest.mark.parametrize("solver", [None, LBFGS()])
def test_penalties_must_not_be_negative(value, solver, data, logits):
    for model, name in (
        (VectorScaling, "bias_penalty"),
        (MatrixScaling, "bias_penalty"),
        (MatrixScaling, "off_diagonal_penalty"),
    ):
        with pytest.raises(ValueError, match=f"{name} must be a finite number of at least 0, got {value!r}"):
            model("logits", solver=solver, **{name: value}).fit(logits, data.counts)


@pytest.mark.parametrize("span", [0.01, 400.0, 1e4])
@pytest.mark.parametrize("shape", [BiasCorrectedMap(3), VectorMap(3), MatrixMap(3)], ids=name)
def test_logits_of_any_span(shape, span, data, logits):
    """Where the identity is saturated, too, which Newton's method could not leave."""
    y = data.counts.astype(float)
    best = shape.objective(logits, y)(shape.newton(logits, y, Newton()))[0]
    found = [shape.newton(span * logits, y, Newton())]
    found += [shape.minimize(span * logits, y)] if isinstance(shape, MatrixMap) else []
    for x in found:
        assert_allclose(shape.objective(span * logits, y)(x)[0], best, atol=1e-8)


def test_scaling_of_ensembles_takes_all_weights_and_known_probabilities(data):
    """Halves are as ones, a weight of zero as no row, known probabilities as any number of labels."""
    forest = FrozenEstimator(RandomForestClassifier(5, max_depth=3, random_state=0).fit(data.X, data.counts.argmax(1)))

    def temperature(rows, y, weight=None):
        return TemperatureScaling(forest).fit(data.X[rows], y[rows], sample_weight=weight).temperature_

    everything, rest, Q = slice(None), slice(1, None), KnownProbabilities(data.proba)
    many = np.round(1e6 * data.proba).astype(int)
    assert_allclose(temperature(everything, data.counts, np.full(400, 0.5)), temperature(everything, data.counts))
    assert_allclose(temperature(everything, data.counts, np.r_[0.0, np.ones(399)]), temperature(rest, data.counts))
    assert_allclose(temperature(everything, Q), temperature(everything, many), rtol=1e-4)


@pytest.mark.parametrize(
    ("solver", "rtol"),
    [(None, 1e-12), (LBFGS(), 2e-5)],
    ids=["closed form", "L-BFGS"],
)
@pytest.mark.parametrize("unit", [1e-200, 1e-35])
def test_tiny_weights(solver, rtol, unit, data, logits):
    """L-BFGS stops at a gradient of 1e-9; curvature .05 and logits to 20 make some 1e-6 of it."""
    w = np.linspace(0, 2, 400)
    calibrator = VectorScaling("logits", solver=solver)
    one, tiny = (clone(calibrator).fit(logits, data.counts, sample_weight=s * w) for s in (1, unit))
    assert_allclose(tiny.predict_proba(logits), one.predict_proba(logits), rtol=rtol)
