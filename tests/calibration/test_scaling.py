"""The affine maps: derivatives, optimality by scipy, nested optima, invariances.

Losses are private: derivatives have no public door, and are where mistakes would hide.
"""

from contextlib import nullcontext

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.interpolate import CubicSpline
from scipy.optimize import approx_fprime, minimize
from scipy.special import expit, log_softmax, logsumexp, softmax
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator

from sklearn_lhcal.calibration import (
    BiasCorrectedTemperatureScaling,
    DecisionCalibration,
    MatrixScaling,
    StackedCalibration,
    TemperatureScaling,
    VectorScaling,
)
from sklearn_lhcal.calibration._rows import CalibrationRows
from sklearn_lhcal.calibration._scaling import fit, maps
from sklearn_lhcal.calibration._scaling.fit import LogLoss
from sklearn_lhcal.calibration._scaling.maps import (
    BiasCorrectedMap,
    MatrixMap,
    SplineMap,
    TemperatureMap,
    VectorMap,
    transform,
)
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.label_histogram import KnownProbabilities
from sklearn_lhcal.metrics import label_log_loss

FAMILIES = [TemperatureMap(3), BiasCorrectedMap(3), VectorMap(3), MatrixMap(3)]
SPLINE = SplineMap(log_softmax(np.random.default_rng(3).normal(0, 2, (60, 3)), 1), np.ones(60))
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


def rows_of(u, counts):
    """With weights."""
    weight = np.random.default_rng(1).uniform(0.1, 2, len(u))
    return CalibrationRows(u, counts=np.asarray(counts, dtype=float), weight=weight)


def curved(u, *, scale_, intercept_, knots_, curve_):
    """u' of a spline: SciPy's natural splines through what is added at the knots."""
    with np.errstate(divide="ignore"):
        o = np.clip(u - np.log(-np.expm1(u)), -12, 12)
    at = np.clip(o, knots_[0], knots_[-1])
    added = np.empty_like(u)
    for k, values in enumerate(curve_):
        f = CubicSpline(knots_, values, bc_type="natural")
        added[:, k] = f(at[:, k]) + f(at[:, k], 1) * (o - at)[:, k]
    return scale_ * u + intercept_ + added


@pytest.fixture(params=["", "mixing"])
def loss_at(request, data, logits):
    """A function of a family: its loss, and a point; with mixing η is the last entry."""
    rows = rows_of(logits, data.counts)
    mixing = np.array([0.2, 0.3, 0.5]) if request.param else None

    def make(family):
        x = family.start() + np.random.default_rng(2).normal(size=len(family.start())) / 3
        return LogLoss(family, rows, mixing), x if mixing is None else np.append(x, -1.3)

    return make


def differences(function, x):
    """Central differences of step 1e-5, which are right to 1e-10 or so."""
    steps = 1e-5 * np.eye(len(x))
    return np.array([(function(x + e) - function(x - e)) / 2e-5 for e in steps])


@pytest.mark.parametrize("family", [*FAMILIES, SPLINE], ids=name)
def test_gradients_are_finite_differences(family, loss_at):
    loss, x = loss_at(family)
    value, slope = loss(x)
    assert value == loss.value(x)
    assert_allclose(slope, differences(loss.value, x), atol=1e-9)


@pytest.mark.parametrize("family", FAMILIES, ids=name)
def test_the_loss_is_that_of_scipy(family, loss_at):
    """The mixture with the mixing, written out."""
    loss, x = loss_at(family)
    of_map, eta = loss.split(x)
    rows = loss.rows
    v = transform(rows.log_proba, *family.affine(of_map))
    z = softmax(v, axis=-1)
    prior = 0.0
    if loss.pi is not None:
        z = expit(-eta) * z + expit(eta) * loss.pi
        prior = -0.1 * np.log(expit(eta) * expit(-eta)) / rows.weight.sum()
    y = rows.counts * rows.weight[:, None]
    expected = -(y * np.log(z)).sum() / y.sum() + prior
    assert loss.value(x) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("family", [VectorMap(3), MatrixMap(3), SPLINE], ids=name)
def test_the_information_without_mixing_is_the_hessian(family, data, logits):
    loss = LogLoss(family, rows_of(logits, data.counts), None)
    x = family.start() + np.random.default_rng(2).normal(size=len(family.start())) / 3
    H = differences(lambda x: loss(x)[1], x)
    assert_allclose(loss.information(x).H, H, atol=1e-8)


@pytest.mark.parametrize("family", FAMILIES, ids=name)
def test_the_information_is_no_less_than_the_curvature(family, loss_at):
    """At the minimum, where log β is curved as β is."""
    loss, x = loss_at(family)
    x = minimize(loss, x, jac=True, method="BFGS", options={"gtol": 1e-9}).x
    H = differences(lambda x: loss(x)[1], x)
    assert np.linalg.eigvalsh(loss.information(x).H - H).min() > -1e-7


def scipys_loss(W, b, u, counts):
    """The log loss per label by scipy."""
    W = W if np.ndim(W) == 2 else np.diag(W * np.ones(u.shape[1]))
    return -(counts * log_softmax(u @ W.T + b, axis=1)).sum() / counts.sum()


def test_published_penalties_have_scipys_optimum(data, logits):
    """P1 eq. (49)."""

    def loss(x):
        W, b = x[:9].reshape(3, 3), x[9:]
        off = (W**2).sum() - (np.diag(W) ** 2).sum()
        return scipys_loss(W, b, logits, data.counts) + 0.5 * off / 6 + 0.3 * (b**2).mean()

    best = minimize(loss, np.append(np.eye(3).ravel(), np.zeros(3)), tol=1e-9)
    model = MatrixScaling("logits", off_diagonal_penalty=0.5, bias_penalty=0.3)
    model.fit(logits, data.counts)
    assert loss(np.append(model.coef_.ravel(), model.intercept_)) <= best.fun + 1e-10


@pytest.mark.parametrize("shrinkage", [1.0, 100.0])
def test_shrinkage_has_scipys_optimum(shrinkage, data, logits):
    """About the temperature, in nats for all samples: labels of one row count once."""
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


@pytest.mark.parametrize("shrinkage", [1.0, 100.0])
def test_shrinkage_of_a_matrix_has_scipys_optimum(shrinkage, data, logits):
    """About the temperature; K entries off the diagonal count as the one on it."""
    beta = 1 / TemperatureScaling("logits").fit(logits, data.counts).temperature_
    precision = np.where(np.eye(3) == 1, 1.0, 3.0)

    def loss(x):
        D, b = x[:9].reshape(3, 3), x[9:]
        penalty = shrinkage / 2 * ((precision * D**2).sum() + (b**2).sum() / 10)
        W = beta * (np.eye(3) + D)
        return scipys_loss(W, b, logits, data.counts) + penalty / 400

    best = minimize(loss, np.zeros(12), tol=1e-10)
    model = MatrixScaling("logits", shrinkage=shrinkage).fit(logits, data.counts)
    found = np.append(model.coef_ / beta - np.eye(3), model.intercept_)
    assert loss(found) <= best.fun + 1e-10
    assert_allclose(found, best.x, atol=1e-3)


@pytest.mark.parametrize("shrinkage", [1.0, 300.0])
def test_shrinkage_of_biases_is_that_of_biases_over_the_temperature(shrinkage, data, logits):
    """λ/20 Σ (b/T)², with the temperature's own prior; both in nats of all samples."""

    def loss(x):
        T, b = np.exp(x[0]), x[1:]
        penalty = shrinkage / 20 * ((b / T) ** 2).sum() + 0.5 * x[0] ** 2
        return scipys_loss(1 / T, b / T, logits, data.counts) + penalty / 400

    best = minimize(loss, np.zeros(4), tol=1e-10)
    model = BiasCorrectedTemperatureScaling("logits", shrinkage=shrinkage).fit(logits, data.counts)
    found = np.append(np.log(model.temperature_), model.bias_)
    assert loss(found) <= best.fun + 1e-10
    assert_allclose(found, best.x, atol=1e-3)


@pytest.mark.parametrize("model", [FREE_VECTOR, FREE_MATRIX, VectorScaling("logits", shrinkage=0)])
@pytest.mark.parametrize("span", [3.0, 100.0])
def test_without_a_prior_separable_labels_are_said_to_have_none(model, span):
    u = np.tile(span * np.eye(3), (20, 1))
    with pytest.warns(UserWarning, match="are separable.*only a prior does, where there is one"):
        clone(model).fit(u, np.tile(np.eye(3, dtype=int), (20, 1)))


def test_shrinkage_of_many_classes_has_scipys_optimum():
    """Eighty parameters."""
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


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_without_a_prior_the_unit_of_weights_does_not_matter(unit, data, logits):
    w = np.linspace(0, 2, 400)
    one = clone(FREE_MATRIX).fit(logits, data.counts, sample_weight=w)
    with pytest.warns(UserWarning, match="Weights count samples") if unit < 1 else nullcontext():
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


@pytest.mark.parametrize("kind", [BiasCorrectedTemperatureScaling, VectorScaling, MatrixScaling])
def test_the_evidence_counts_labels_as_independent_as_they_are(kind):
    """Five raters who follow z alone are five samples; five who always agree are one."""
    rng = np.random.default_rng(0)
    z = rng.dirichlet([2.0, 1.0, 0.5], 100)
    u = np.log(z) - np.array([0.6, 0.0, -0.6])

    def found(X, y):
        return kind("logits").fit(X, y).predict_proba(u)

    def apart(p, q):
        return np.abs(p - q).mean()

    alone = rng.multinomial(5, z)
    each = np.concatenate([np.eye(3, dtype=int)[np.repeat(range(3), row)] for row in alone])
    as_samples = found(np.repeat(u, 5, axis=0), each)
    together = rng.multinomial(1, z)
    as_one = found(u, together)
    # the ratio of both sums is a few per cent from 5 and from 1; counted as one, .016 and more
    assert apart(found(u, alone), as_samples) < 0.01
    assert apart(found(u, 5 * together), as_one) < 0.01


@pytest.mark.parametrize("total", [1.0, 3.0])
@pytest.mark.parametrize("m", [2, 5, 20, np.inf])
def test_labels_are_worth_what_kish_says(m, total):
    """m / (1 + (m−1) ρ), Kish (1965), where ρ = 1/(1+α0) of Q ~ Dirichlet(α0 z); 1/ρ of m = ∞."""
    rng = np.random.default_rng(0)
    z = rng.dirichlet([2.0, 1.0, 0.5], 20_000)
    Q = np.array([rng.dirichlet(total * p) for p in z])
    known = np.isinf(m)
    y = Q if known else rng.multinomial(m, Q).astype(float)
    rows = CalibrationRows(np.log(z), counts=y, weight=np.ones(len(z)), known=known)
    worth = fit.labels_worth(rows, fit.fit_temperature(rows, None))
    rho = 1 / (1 + total)
    expected = 1 / rho if known else m / (1 + (m - 1) * rho)
    # the standard error of the ratio is below 1%
    assert_allclose(worth, expected, rtol=0.05)


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


FAR = np.array([[0.0, 1e3, -3e3], [0.0, 0.0, -1e5], [-5e3, 2.0, 3e3]])


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=name)
def test_logarithms_of_what_is_too_small_for_floats(calibrator, data, logits):
    """By the attributes; and where there are floats they are those of the probabilities."""
    model = clone(calibrator).fit(logits, data.counts)
    u = log_softmax(FAR, axis=1)
    if isinstance(model, MatrixScaling):
        v = u @ model.coef_.T + model.intercept_
    elif isinstance(model, VectorScaling):
        v = model.scale_ * u + model.intercept_
    else:
        v = (u + getattr(model, "bias_", 0.0)) / model.temperature_
    found = model.predict_log_proba(FAR)
    assert_allclose(found, log_softmax(v, axis=1), rtol=1e-12, atol=1e-12)
    assert (found < -1000).any()
    assert_allclose(model.decision_function(FAR), found)
    assert_allclose(model.predict_log_proba(logits), np.log(model.predict_proba(logits)))


def test_log_odds_of_calibrated_logits_are_the_logits():
    """Labels of softmax(u), known: T is 1, but for what the search leaves of its slope."""
    u = np.random.default_rng(0).normal(size=(300, 2))
    model = TemperatureScaling("logits").fit(u, KnownProbabilities(np.exp(log_softmax(u, axis=1))))
    assert_allclose(model.decision_function([[0.0, 1000.0], [7e4, 0.0]]), [1e3, -7e4], rtol=1e-6)


def test_logarithms_of_mixing_and_of_a_stack(data, logits):
    """log e π is the least; the stack has the mixture of the scalings."""
    model = TemperatureScaling("logits", mixing="prior").fit(logits, data.counts)
    least = np.log(model.mixing_weight_ * model.mixing_proba_)
    found = model.predict_log_proba(FAR)
    assert_allclose(found[1, 2], least[2], rtol=1e-12)
    assert (found >= least - 1e-12).all()
    assert (found <= 0).all()
    stack = StackedCalibration("logits", mixing=None, inner_cv=2).fit(logits, data.counts)
    u = log_softmax(FAR, axis=1)
    parts = stack.parameters_
    W, b = (parts["matrix"][of] for of in ("coef_", "intercept_"))
    corrected = (u + parts["bias_corrected"]["bias_"]) / parts["bias_corrected"]["temperature_"]
    log_p = log_softmax(corrected, axis=1)
    each = [
        u / parts["temperature"]["temperature_"],
        np.tile(parts["frequencies"]["intercept_"], (3, 1)),
        corrected,
        parts["vector"]["scale_"] * u + parts["vector"]["intercept_"],
        log_p @ W.T + b,
        curved(log_p, **parts["spline"]),
    ]
    with np.errstate(divide="ignore"):
        log_w = np.log(stack.weights_)[:, None, None]
    expected = logsumexp(log_w + log_softmax(each, axis=2), axis=0)
    assert_allclose(stack.predict_log_proba(FAR), expected, rtol=1e-10, atol=1e-10)


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


@pytest.mark.slow
@pytest.mark.parametrize("penalties", [(50.0, None), (0.1, 0.1)])
def test_a_matrix_of_many_classes_is_at_its_minimum(penalties, monkeypatch):
    """Forty classes, with information in blocks; the full one finds the same map."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(600, 40))
    y = rng.multinomial(2, np.exp(log_softmax(0.5 * logits, axis=1)))
    model = MatrixScaling("logits", off_diagonal_penalty=penalties[0], bias_penalty=penalties[1])
    with monkeypatch.context() as patch:
        # Several blocks of rows, whose information is added.
        patch.setattr(fit, "_BLOCK", 2**13)
        found = clone(model).fit(logits, y)
    monkeypatch.setattr(maps, "MOST_EXACT", np.inf)
    exact = clone(model).fit(logits, y)
    assert_allclose(found.predict_proba(logits), exact.predict_proba(logits), atol=1e-6)
    u = log_softmax(logits, axis=1)
    z = found.predict_proba(logits)
    slope = (z * y.sum(axis=1, keepdims=True) - y).T @ u / y.sum()
    off = 2 * penalties[0] / (40 * 39) * found.coef_ * (1 - np.eye(40))
    assert np.abs(slope + off).max() < 1e-6


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


def test_a_class_without_labels_and_a_constant_logit():
    data = make_label_histograms(300, n_classes=4, n_raters=2, random_state=0)
    u = np.column_stack([np.log(data.prediction), np.full(300, -27.0)])
    counts = np.column_stack([data.counts, np.zeros(300, dtype=int)])
    for scaling in (VectorScaling("logits"), MatrixScaling("logits")):
        p = scaling.fit(u, counts).predict_proba(u)
        assert p[:, 4].max() < 1e-3

        assert label_log_loss(counts, p) < label_log_loss(data.counts, np.exp(u[:, :4]))


@pytest.mark.parametrize("family", [*FAMILIES, SPLINE], ids=name)
def test_blocks_of_rows_add_up(family, loss_at, monkeypatch):
    loss, x = loss_at(family)
    monkeypatch.setattr(fit, "_BLOCK", 2**7)
    blocks = LogLoss(family, loss.rows, loss.pi)
    for a, b in zip(loss(x), blocks(x), strict=True):
        assert_allclose(a, b, rtol=1e-12)
    assert_allclose(blocks.information(x).H, loss.information(x).H, rtol=1e-10, atol=1e-14)


def test_no_convergence_is_a_warning_with_the_remedy(data, logits, monkeypatch):
    monkeypatch.setattr(fit, "_MOST", 2)
    for model in (
        TemperatureScaling("logits"),
        BiasCorrectedTemperatureScaling("logits"),
        VectorScaling("logits"),
        MatrixScaling("logits"),
        StackedCalibration("logits"),
        DecisionCalibration("logits", scaling="vector", inner_cv=2),
    ):
        with pytest.warns(ConvergenceWarning, match="or calibrate|; calibrate on more") as seen:
            model.fit(logits, data.counts)
        assert len(seen) == 1, "one of a fit, whatever it fits in folds"
        assert seen[0].filename == __file__
        message = str(seen[0].message)
        assert ("shrinkage" in message) == ("shrinkage" in model.get_params())
        penalties = {"bias_penalty"} & set(model.get_params())
        assert ("penalty" not in message) or penalties


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf, "a"])
def test_penalties_must_not_be_negative(value, data, logits):
    for model, name in (
        (VectorScaling, "bias_penalty"),
        (MatrixScaling, "bias_penalty"),
        (MatrixScaling, "off_diagonal_penalty"),
        (VectorScaling, "shrinkage"),
        (BiasCorrectedTemperatureScaling, "shrinkage"),
    ):
        with pytest.raises(ValueError, match=rf"{name} must be a .*number.*, got {value!r}"):
            model("logits", **{name: value}).fit(logits, data.counts)


@pytest.mark.parametrize("span", [0.01, 400.0, 1e4])
@pytest.mark.parametrize("family", FAMILIES[1:], ids=name)
def test_logits_of_any_span(family, span, data, logits):
    """Where the identity is saturated, too."""

    def least(u):
        counts = np.asarray(data.counts, dtype=float)
        rows = CalibrationRows(u, counts=counts, weight=np.ones(len(u)))
        temperature = fit.fit_temperature(rows, None)
        found = fit.fit_penalised(family, rows, temperature, np.zeros(len(family.start())))
        return LogLoss(family, rows, None).value(found.x)

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


@pytest.mark.parametrize("unit", [1e-200, 1e-35, 1e-3])
def test_weights_that_are_fractions_of_rows_are_said(unit, data, logits):
    """They leave the map where it is without rows."""
    w = unit * np.linspace(0.1, 2, 400)
    for scaling in (TemperatureScaling, VectorScaling):
        calibrator = scaling("logits")
        with pytest.warns(UserWarning, match="Weights count samples.*divide the weights by"):
            model = clone(calibrator).fit(logits, data.counts, sample_weight=w)
        if unit < 1e-30:
            assert_allclose(model.predict_proba(logits), np.exp(logits), rtol=1e-6)
    free = clone(FREE_VECTOR)
    one = clone(free).fit(logits, data.counts, sample_weight=w / unit)
    with pytest.warns(UserWarning, match="Weights count samples"):
        tiny = clone(free).fit(logits, data.counts, sample_weight=w)
    assert_allclose(tiny.predict_proba(logits), one.predict_proba(logits), rtol=1e-6)


def test_what_is_stored_has_names_of_text():
    """skops and JSON know no other keys of dicts."""
    data = make_label_histograms(300, random_state=0)
    calibrators = MatrixScaling("proba"), StackedCalibration("proba")
    found = [c.fit(data.prediction, data.counts) for c in calibrators]
    while found:
        one = found.pop()
        if isinstance(one, dict):
            assert all(isinstance(key, str) for key in one), one
            found += one.values()
        elif isinstance(one, (list, tuple)):
            found += one
        elif hasattr(one, "__dict__") and not isinstance(one, type):
            found.append(vars(one))
