"""The affine maps: derivatives, optimality by two routes, nested optima, invariances."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import log_softmax

from sklearn_lhcal.calibration import (
    BiasCorrectedTemperatureScaling,
    MatrixScaling,
    TemperatureScaling,
    VectorScaling,
)
from sklearn_lhcal.calibration._affine import BiasCorrectedMap, MatrixMap, TemperatureMap, VectorMap
from sklearn_lhcal.datasets import make_label_histograms
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
    _, g, H = shape.objective(x, logits, y)
    steps = 1e-5 * np.eye(len(x))
    numeric = [(shape.objective(x + e, logits, y)[0] - shape.objective(x - e, logits, y)[0]) / 2e-5 for e in steps]
    assert_allclose(g, numeric, atol=1e-8)
    numeric = [(shape.objective(x + e, logits, y)[1] - shape.objective(x - e, logits, y)[1]) / 2e-5 for e in steps]
    assert_allclose(H, numeric, atol=1e-8)


@pytest.mark.parametrize("shape", MAPS[1:], ids=name)
def test_the_optimum_is_scipys(shape, data, logits):
    def loss(x):
        W, b = shape.affine(x)
        v = logits @ (W.T if W.ndim == 2 else np.diag(W * np.ones(3))) + b
        return -(data.counts * log_softmax(v, axis=1)).sum() / data.counts.sum() + shape.penalty(W, b)

    best = minimize(loss, shape.start(), tol=1e-9)
    x = Newton().minimize(lambda t: shape.objective(t, logits, data.counts.astype(float)), shape.start())
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
