"""Calibrators.

Optimality of the maps, the grammar of a classifier, and where they live in scikit-learn.
"""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_softmax, softmax
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier, StackingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.svm import LinearSVC

# A problem in closed form, for the law of a solver alone: calibrators make their own.
from sklearn_lhcal._ground.problems import SmoothProblem
from sklearn_lhcal.calibration import (
    AlphaCalibration,
    EpistemicCalibration,
    PrecomputedClassifier,
    TemperatureScaling,
)
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import (
    Dirichlet,
    DirichletMixture,
    Ensemble,
    PointMass,
    predict_dist,
)
from sklearn_lhcal.label_histogram import KnownProbabilities, LabelHistogramClassifier
from sklearn_lhcal.metrics import (
    LabelHistogramScorer,
    disagreement_squared_loss,
    get_scorer,
    get_scorer_names,
    label_log_loss,
    posterior_epistemic_loss,
)
from sklearn_lhcal.neural_network import (
    LBFGS,
    DirichletMultinomialLoss,
    LabelLogLoss,
    Newton,
    PairwiseLoss,
)


@pytest.fixture
def data():
    return make_label_histograms(300, n_classes=3, n_raters=(1, 6), total=3.0, random_state=0)


@pytest.fixture
def logits(data):
    return (
        2.5 * np.log(data.prediction) + np.arange(300)[:, None] / 100
    )  # overconfident, with a constant per row


def label_loss(T, u, y, w=1.0):
    """Eq. (53) of P1 with scipy."""
    return (
        -(np.reshape(w, (-1, 1)) * y * log_softmax(u / T, axis=1)).sum()
        / (np.reshape(w, (-1, 1)) * y).sum()
    )


def best_temperature(u, y, w=1.0):
    """The optimum by scipy: the loss with the weak prior, one row's worth of ½ (log T)²."""
    n = np.sum(w * np.ones(len(u)))

    def loss(t):
        return label_loss(np.exp(t), u, y, w) + 0.5 * t**2 / n

    grid = np.linspace(-5, 8, 131)
    start = grid[np.argmin([loss(t) for t in grid])]
    found = minimize_scalar(loss, bounds=(start - 0.2, start + 0.2), options={"xatol": 1e-10})
    return np.exp(found.x)


# --- temperature scaling ---


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("solver", [None, Newton(), LBFGS()])
def test_temperature_is_the_optimum(data, logits, solver, weighted):
    w = np.random.default_rng(0).uniform(0, 3, 300) if weighted else np.ones(300)
    T = TemperatureScaling("logits", solver=solver)
    T = T.fit(logits, data.counts, sample_weight=w).temperature_
    # Solvers stop at a gradient of 1e-8 or so; the curvature is about .1.
    assert_allclose(T, best_temperature(logits, data.counts, w), rtol=1e-6)


@pytest.mark.parametrize("factor", [0.01, 0.3, 7.0, 1000.0])
def test_temperature_of_stretched_logits(factor, data):
    u = factor * np.log(data.prediction)
    T = TemperatureScaling("logits").fit(u, data.counts).temperature_
    assert_allclose(T, best_temperature(u, data.counts), rtol=1e-6)


def test_the_prior_of_the_temperature_is_weak(data):
    """In units of the classifier it is all but unpenalised, with 300 rows already."""
    u = np.log(data.prediction)
    T = TemperatureScaling("logits").fit(u, data.counts).temperature_
    free = minimize_scalar(lambda t: label_loss(np.exp(t), u, data.counts), bracket=(0, 1)).fun
    assert label_loss(T, u, data.counts) - free < 0.5 / 300


def test_temperature_recovers_the_truth():
    """Labels drawn from softmax(u/2): T = 2 within standard errors."""
    rng = np.random.default_rng(1)
    u = rng.normal(size=(4000, 4)) * 3
    counts = rng.multinomial(5, softmax(u / 2, axis=1))
    T = TemperatureScaling("logits").fit(u, counts).temperature_
    f = [label_loss(T + d, u, counts) for d in (-1e-3, 0, 1e-3)]
    se = 1 / np.sqrt((f[0] - 2 * f[1] + f[2]) / 1e-6 * counts.sum())
    assert abs(T - 2) < 4 * se


def test_temperature_with_a_start_from_a_part_of_the_rows(monkeypatch, data, logits):
    whole = TemperatureScaling("logits").fit(logits, data.counts).temperature_
    monkeypatch.setattr("sklearn_lhcal.calibration._likelihood._PART", 150)
    assert_allclose(
        TemperatureScaling("logits").fit(logits, data.counts).temperature_, whole, rtol=1e-6
    )


def test_temperature_stays_positive_and_finite_where_the_ranking_is_wrong():
    u = np.array([[3.0, 0.0], [0.0, 3.0]])
    counts = np.array([[0, 4], [4, 0]])
    calibrator = TemperatureScaling("logits").fit(u, counts)
    assert_allclose(calibrator.temperature_, best_temperature(u, counts), rtol=1e-5)
    assert calibrator.predict_proba(u).max() < expit(1.0)


@pytest.mark.parametrize("n", [2, 20, 200])
def test_separable_labels_are_said_and_leave_a_finite_temperature(n):
    u = np.tile([[3.0, 0.0], [0.0, 3.0]], (n // 2, 1))
    counts = np.tile([[4, 0], [0, 4]], (n // 2, 1))
    calibrator = TemperatureScaling("logits")
    with pytest.warns(UserWarning, match="labels are separable"):
        calibrator.fit(u, counts)
    assert_allclose(calibrator.temperature_, best_temperature(u, counts), rtol=1e-5)
    # A mistake on the next row stays possible, the less the more rows there are without one.
    mistakes = calibrator.predict_proba(u)[0, 1]
    assert 1 / (100 * n) < mistakes < 1 / n


def test_temperature_keeps_the_argmax(data, logits):
    calibrator = TemperatureScaling("logits").fit(logits, data.counts)
    assert_array_equal(calibrator.predict(logits), logits.argmax(axis=1))


def test_logits_and_proba_name_one_model(data, logits):
    """Where no probability is below 1e-12, at which those that are given as such are clipped."""
    logits = logits / 3
    a = TemperatureScaling("logits").fit(logits, data.counts)
    b = TemperatureScaling("proba").fit(softmax(logits, axis=1), data.counts)
    assert_allclose(a.temperature_, b.temperature_, rtol=1e-9)
    assert_allclose(a.predict_proba(logits), b.predict_proba(softmax(logits, axis=1)), rtol=1e-9)


def test_weights_are_repetition_for_the_map(data, logits):
    w = np.random.default_rng(0).integers(0, 4, 300)
    weighted = TemperatureScaling("logits").fit(logits, data.counts, sample_weight=w)
    repeated = TemperatureScaling("logits").fit(
        np.repeat(logits, w, axis=0), np.repeat(data.counts, w, axis=0)
    )
    assert_allclose(weighted.temperature_, repeated.temperature_, rtol=1e-8)


@pytest.mark.parametrize("estimator", [TemperatureScaling("logits"), AlphaCalibration("logits")])
def test_permutations_of_rows_and_classes(estimator, data, logits):
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(300), rng.permutation(3)
    plain = clone(estimator).fit(logits, data.counts).predict_dist(logits)
    mixed = clone(estimator).fit(logits[rows][:, columns], data.counts[rows][:, columns])
    mixed = mixed.predict_dist(logits[:, columns])
    assert_allclose(mixed.mean(), plain.mean()[:, columns], atol=1e-9)
    assert_allclose(mixed.disagreement(), plain.disagreement(), atol=1e-7)


def test_float32_inputs(data, logits):
    a = TemperatureScaling("logits").fit(logits, data.counts)
    b = TemperatureScaling("logits").fit(logits.astype(np.float32), data.counts)
    assert_allclose(a.temperature_, b.temperature_, rtol=1e-5)


def test_known_probabilities_are_the_limit_of_many_raters(data, logits):
    Q = KnownProbabilities(data.proba)
    many = np.round(data.proba * 1e7).astype(int)
    for estimator in (TemperatureScaling("logits"), AlphaCalibration("logits")):
        a = clone(estimator).fit(logits, Q).predict_dist(logits)
        b = clone(estimator).fit(logits, many).predict_dist(logits)
        assert_allclose(a.mean(), b.mean(), atol=1e-5)
        assert_allclose(a.disagreement(), b.disagreement(), atol=1e-4)
    with pytest.raises(ValueError, match='use likelihood="pairwise"'):
        AlphaCalibration("logits", likelihood="dirichlet_multinomial").fit(logits, Q)


# --- alpha calibration ---


def dirichlet_multinomial_loss(x, h, z, y, penalty):
    """P1 App. D.2 by lgamma, which is exact enough for moderate totals."""
    from scipy.special import gammaln

    log_total = h @ x[:-1] + x[-1]
    total = np.exp(log_total)[:, None]
    rising = (gammaln(total * z + y) - gammaln(total * z)).sum(axis=1)
    rising += gammaln(total[:, 0]) - gammaln(total[:, 0] + y.sum(axis=1))
    return np.mean(-rising + penalty * log_total**2)


def pairwise_loss(x, h, z, y, penalty):
    """The mean over pairs of raters, pair by pair."""
    log_total = h @ x[:-1] + x[-1]
    losses = []
    for z_i, y_i, log_a in zip(z, y, log_total, strict=True):
        a, raters = np.exp(log_a), np.repeat(np.arange(len(y_i)), y_i)
        pairs = [(k, m) for i, k in enumerate(raters) for m in raters[:i]]
        p = [
            z_i[k] * (a * z_i[k] + 1) / (a + 1) if k == m else 2 * a * z_i[k] * z_i[m] / (a + 1)
            for k, m in pairs
        ]
        losses.append(-np.mean(np.log(p)) + penalty * log_a**2)
    return np.mean(losses)


@pytest.mark.parametrize("solver", [None, LBFGS()])
@pytest.mark.parametrize(
    ("likelihood", "oracle"),
    [("dirichlet_multinomial", dirichlet_multinomial_loss), ("pairwise", pairwise_loss)],
)
def test_alpha_is_the_optimum(data, likelihood, oracle, solver):
    z, several = data.prediction[:100], data.counts[:100].sum(axis=1) > 1
    calibrator = AlphaCalibration(
        "proba", likelihood=likelihood, penalty=0.01, solver=solver, features="logits"
    )
    calibrator.fit(z, data.counts[:100])
    h = (np.log(z) - calibrator.feature_mean_) / calibrator.feature_scale_
    assert_allclose([h.mean(), h.std()], [0, 1], atol=1e-9)
    args = (h[several], z[several], data.counts[:100][several], 0.01)
    best = minimize(oracle, np.zeros(4), args=args, tol=1e-8)
    x = np.append(calibrator.coef_, calibrator.intercept_)
    assert oracle(x, *args) <= best.fun + 1e-9
    assert_allclose(x, best.x, atol=2e-3)


@pytest.mark.parametrize("likelihood", ["dirichlet_multinomial", "pairwise"])
def test_alpha_recovers_the_best_total(likelihood):
    """Q ~ Dirichlet(5 z): the optimum of both likelihoods is α0 = 5."""
    data = make_label_histograms(6000, n_raters=4, total=5.0, random_state=0)
    constant = AlphaCalibration(
        "proba", features=lambda X: np.zeros((len(X), 1)), likelihood=likelihood, penalty=0.0
    )
    log_total, log_best = [], []
    for part in np.split(np.arange(6000), 12):
        z, Q = data.prediction[part], data.proba[part]
        log_total.append(constant.fit(z, data.counts[part]).intercept_)
        u, v = 1 - (z**2).sum(axis=1).mean(), 1 - (Q**2).sum(axis=1).mean()
        log_best.append(np.log(v / (u - v)))  # α0* of Theorem 1
    for truth in (np.log(5.0), np.array(log_best)):
        error = np.array(log_total) - truth
        assert abs(error.mean()) < 4 * error.std(ddof=1) / np.sqrt(12)


def test_alpha_keeps_the_class_probabilities(data):
    calibrator = AlphaCalibration("proba").fit(data.prediction, data.counts)
    assert_allclose(calibrator.predict_proba(data.prediction), data.prediction, atol=1e-12)


def test_alpha_with_single_labels_warns_and_is_one(data):
    calibrator = AlphaCalibration("proba")
    with pytest.warns(UserWarning, match="No calibration row has two labels"):
        calibrator.fit(data.prediction, data.counts.argmax(axis=1))
    assert_allclose(calibrator.predict_dist(data.prediction).total, 1)


def test_rows_with_one_label_do_not_change_alpha(data):
    several = data.counts.sum(axis=1) > 1
    features = AlphaCalibration("proba", features=lambda X: X[:, :1])
    a = clone(features).fit(data.prediction, data.counts).predict_dist(data.prediction)
    b = (
        clone(features)
        .fit(data.prediction[several], data.counts[several])
        .predict_dist(data.prediction)
    )
    assert_allclose(a.total, b.total, rtol=1e-3)  # but for what standardises the features


@pytest.mark.parametrize(
    "features",
    [None, "logits", lambda X: X**2, PolynomialFeatures(2), StandardScaler()],
    ids=["default", "logits", "callable", "polynomial", "scaler"],
)
def test_alpha_features(features, data):
    calibrator = AlphaCalibration("proba", features=features).fit(data.prediction, data.counts)
    total = calibrator.predict_dist(data.prediction).total
    assert np.isfinite(total).all()
    assert_allclose(calibrator.predict_dist(data.prediction[:7]).total, total[:7], rtol=1e-12)


def test_refit_with_other_features_forgets_the_old(data):
    calibrator = AlphaCalibration("proba", features=StandardScaler()).fit(
        data.prediction, data.counts
    )
    calibrator.set_params(features=None).fit(data.prediction, data.counts)
    fresh = AlphaCalibration("proba").fit(data.prediction, data.counts)
    assert_allclose(calibrator.coef_, fresh.coef_)


def test_pairwise_likelihood_is_not_distorted_by_many_raters():
    """z informative but overdispersed in a way no Dirichlet has.

    Most rows are certain, some are split.
    """
    rng = np.random.default_rng(0)
    n = 20_000
    z = np.clip(rng.beta(2, 2, n), 0.05, 0.95)
    split = rng.random(n) < 0.3
    q = np.where(split, z, rng.random(n) < z)
    Q, z = np.column_stack([q, 1 - q]), np.column_stack([z, 1 - z])
    test = slice(n // 2, n)
    loss = {
        (name, m): posterior_epistemic_loss(
            KnownProbabilities(Q[test]),
            AlphaCalibration("proba", likelihood=name)
            .fit(z[: n // 2], rng.multinomial(m, Q[: n // 2]))
            .predict_dist(z[test]),
        )
        for name in ("pairwise", "dirichlet_multinomial")
        for m in (2, 50)
    }
    assert abs(loss["pairwise", 50] - loss["pairwise", 2]) < 0.0005
    assert loss["dirichlet_multinomial", 50] > loss["dirichlet_multinomial", 2] + 0.002


# --- around ensembles ---


def test_maps_act_on_each_member_of_an_ensemble(data):
    forest = RandomForestClassifier(12, min_samples_leaf=20, random_state=0).fit(
        data.X, data.counts.argmax(axis=1)
    )
    calibrator = TemperatureScaling(FrozenEstimator(forest)).fit(data.X, data.counts)
    members = np.stack(
        [np.maximum(tree.predict_proba(data.X), 1e-12) for tree in forest.estimators_]
    )
    members /= members.sum(axis=2, keepdims=True)

    def loss(t):
        z = softmax(np.log(members) / np.exp(t), axis=2).mean(axis=0)
        return label_log_loss(data.counts, z) + 0.5 * t**2 / 300

    best = minimize_scalar(loss, bracket=(0, 1))
    assert_allclose(calibrator.temperature_, np.exp(best.x), rtol=1e-5)
    dist = calibrator.predict_dist(data.X)
    assert isinstance(dist, Ensemble)
    assert_allclose(
        dist.proba, softmax(np.log(members) / calibrator.temperature_, axis=2), atol=1e-9
    )


def test_temperature_around_one_hot_members_is_the_global_optimum(data):
    """The mixture's loss over T has several valleys where members say 0 or 1."""
    forest = RandomForestClassifier(30, random_state=0).fit(
        data.X[:100], data.counts[:100].argmax(axis=1)
    )
    calibrator = TemperatureScaling(FrozenEstimator(forest))
    with pytest.warns(UserWarning, match="labels to which the classifier gives no probability"):
        calibrator.fit(data.X[100:], data.counts[100:])
    members = np.stack(
        [np.maximum(t.predict_proba(data.X[100:]), 1e-12) for t in forest.estimators_]
    )
    u = np.log(members / members.sum(axis=2, keepdims=True))

    def loss(t):
        z = softmax(u / np.exp(t), axis=2).mean(axis=0)
        return label_log_loss(data.counts[100:], z) + 0.5 * t**2 / 200

    best = min(loss(t) for t in np.linspace(-5, 5, 201))
    assert loss(np.log(calibrator.temperature_)) <= best + 1e-6


@pytest.mark.parametrize("likelihood", ["dirichlet_multinomial", "pairwise"])
def test_alpha_around_an_ensemble_is_a_mixture(data, likelihood):
    forest = RandomForestClassifier(12, min_samples_leaf=20, random_state=0).fit(
        data.X, data.counts.argmax(axis=1)
    )
    chain = AlphaCalibration(TemperatureScaling(FrozenEstimator(forest)), likelihood=likelihood)
    dist = chain.fit(data.X, data.counts).predict_dist(data.X)
    assert isinstance(dist, DirichletMixture)
    assert_allclose(dist.mean(), chain.estimator_.predict_proba(data.X), atol=1e-12)
    worse = [
        clone(chain)
        .set_params(penalty=p)
        .fit(data.X, data.counts)
        .predict_dist(data.X)
        .disagreement()
        for p in (1e3,)
    ]
    observed = data.counts
    assert disagreement_squared_loss(observed, dist) < disagreement_squared_loss(
        observed, dist.mean()
    )
    assert not np.allclose(worse[0], dist.disagreement())


def test_ensemble_of_one_member_is_the_member(data, logits):
    u = torch.as_tensor(log_softmax(logits, axis=1))
    eta, y = torch.linspace(-3, 3, 300, dtype=torch.float64), torch.as_tensor(data.counts)
    for loss in (PairwiseLoss(0.1), DirichletMultinomialLoss(0.1)):
        one = loss.row_loss(u, eta, y)
        both = loss.row_loss(
            u[:, None].expand(-1, 2, -1),
            eta[:, None].expand(-1, 2),
            y,
            torch.full((300, 2), np.log(0.5), dtype=torch.float64),
        )
        assert_allclose(one, both, rtol=1e-12)


def test_newton_around_an_ensemble_is_an_error(data):
    forest = RandomForestClassifier(3, random_state=0).fit(data.X, data.counts.argmax(axis=1))
    for calibrator in (TemperatureScaling, AlphaCalibration):
        with pytest.raises(ValueError, match=r"use LBFGS\(\)"):
            calibrator(FrozenEstimator(forest), solver=Newton()).fit(data.X, data.counts)


# --- losses ---


@pytest.mark.parametrize("loss", [PairwiseLoss(0.01), DirichletMultinomialLoss(0.01)])
@pytest.mark.parametrize("members", [0, 3])
def test_gradients_of_the_losses(loss, members):
    rng = np.random.default_rng(0)
    shape = (4, members, 3) if members else (4, 3)
    u = torch.as_tensor(rng.normal(size=shape)).requires_grad_()
    eta = torch.as_tensor(rng.normal(size=shape[:-1])).requires_grad_()
    y = torch.tensor([[2, 0, 1], [0, 0, 5], [40, 3, 0], [1, 0, 0]])
    log_w = (torch.full((4, members), -np.log(members)),) if members else ()
    assert torch.autograd.gradcheck(lambda u, eta: loss((u, eta, *log_w), y), (u, eta))


@pytest.mark.parametrize("loss", [PairwiseLoss(0.01), DirichletMultinomialLoss(0.01)])
def test_derivatives_in_the_log_total_are_those_of_autograd(loss):
    rng = np.random.default_rng(0)
    u = torch.as_tensor(np.log(np.clip(rng.dirichlet(np.full(6, 0.3), 400), 1e-12, None)))
    y = torch.as_tensor(rng.multinomial(rng.integers(1, 9, 400), np.full(6, 1 / 6)))
    eta = torch.as_tensor(rng.normal(scale=8, size=400)).requires_grad_()
    value, first, second = loss.in_log_total(u, y)(eta)
    rows = loss.row_loss(u, eta, y)
    (g,) = torch.autograd.grad(rows.sum(), eta, create_graph=True)
    (s,) = torch.autograd.grad(g.sum(), eta)
    for ours, theirs in ((value, rows), (first, g), (second, s)):
        assert_allclose(ours.detach(), theirs.detach(), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("sign", [-1, 1])
def test_pairs_at_an_extreme_log_total(sign):
    u, y = torch.log(torch.tensor([[0.2, 0.8]], dtype=torch.float64)), torch.tensor([[2, 1]])
    value, first, second = (
        a.item() for a in PairwiseLoss().in_log_total(u, y)(torch.tensor([sign * 100.0]).double())
    )
    # certain of 0.2 and 0.8, or of one class, which two of three pairs contradict
    certain = -(np.log(0.2**2) + 2 * np.log(2 * 0.2 * 0.8)) / 3
    one_class = -(np.log(0.2) + 2 * (np.log(2 * 0.2 * 0.8) - 100)) / 3
    assert_allclose(value, certain if sign > 0 else one_class, rtol=1e-12)
    assert_allclose(first, 0 if sign > 0 else -2 / 3, rtol=1e-12, atol=1e-12)
    assert_allclose(second, 0, atol=1e-12)


def test_label_log_loss_module_is_the_metric(data, logits):
    w = torch.linspace(0, 2, 300)
    module = LabelLogLoss()(torch.as_tensor(logits), torch.as_tensor(data.counts), w)
    metric = label_log_loss(data.counts, softmax(logits, axis=1), sample_weight=w.numpy())
    assert_allclose(module.item(), metric, rtol=1e-6)


def test_dirichlet_multinomial_loss_is_the_distribution(data, logits):
    z = softmax(logits, axis=1)
    for log_total in (-20.0, 0.0, 20.0):
        rows = DirichletMultinomialLoss().row_loss(
            torch.as_tensor(np.log(z)),
            torch.full((300,), log_total, dtype=torch.float64),
            torch.as_tensor(data.counts),
        )
        dist = Dirichlet.from_log_total(z, log_total)
        coefficient = PointMass(z).log_prob_counts(data.counts) - (data.counts * np.log(z)).sum(
            axis=1
        )
        assert_allclose(
            -rows.numpy() + coefficient, dist.log_prob_counts(data.counts), rtol=1e-9, atol=1e-9
        )


# --- solvers ---


def test_newton_descends_where_the_plain_iteration_diverges():
    def objective(x):  # |x| far from 0, a bowl near it
        return (
            float(np.sqrt(1 + x[0] ** 2)),
            x / np.sqrt(1 + x**2),
            np.array([[(1 + x[0] ** 2) ** -1.5]]),
        )

    assert_allclose(Newton().solve(SmoothProblem(objective, np.array([10.0]))), 0, atol=1e-6)


@pytest.mark.parametrize("solver", [Newton(max_iter=1), LBFGS(max_iter=2)])
def test_no_convergence_is_a_warning_with_the_remedy(solver, data):
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        AlphaCalibration("proba", solver=solver, penalty=0.0).fit(data.prediction, data.counts)


def test_the_global_generators_stay_as_they_were(data, logits):
    np.random.seed(3)  # noqa: NPY002
    torch.manual_seed(3)
    expected = np.random.rand(), torch.rand(1).item()  # noqa: NPY002
    np.random.seed(3)  # noqa: NPY002
    torch.manual_seed(3)
    AlphaCalibration(TemperatureScaling("logits", solver=LBFGS()), solver=LBFGS()).fit(
        logits, data.counts
    )
    assert (np.random.rand(), torch.rand(1).item()) == expected  # noqa: NPY002


# --- the loop ---


class Recorder(ClassifierMixin, BaseEstimator):
    """Counts its fits, and takes label histograms as they are."""

    accepts_label_histograms = True
    fits: list = []  # noqa: RUF012

    def fit(self, X, y, sample_weight=None, note=None):
        Recorder.fits.append((len(X), y.copy(), sample_weight, note))
        self.prior_ = np.asarray(y).sum(axis=0) + 1.0
        self.classes_ = np.arange(y.shape[1])
        return self

    def predict_proba(self, X):
        return np.tile(self.prior_ / self.prior_.sum(), (len(X), 1))


@pytest.fixture
def fits():
    Recorder.fits = []
    return Recorder.fits


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_one_loop_for_a_whole_chain(data, fits, depth):
    estimator = Recorder()
    for _ in range(depth):
        estimator = TemperatureScaling(estimator)
    estimator.fit(data.X, data.counts)
    assert [n for n, *_ in fits] == [240] * 5 + [300]  # five folds, then everything, once


@pytest.mark.parametrize(
    ("cv", "sizes"),
    [
        (3, [200] * 3 + [300]),
        ("holdout", [240]),
        (KFold(2), [150, 150, 300]),
        ([([0, 1, 2], [3, 4])], [3, 300]),
    ],
)
def test_forms_of_cv(data, fits, cv, sizes):
    TemperatureScaling(Recorder(), cv=cv).fit(data.X, data.counts)
    assert [n for n, *_ in fits] == sizes


def test_inner_cv_counts_where_the_outer_sets_none(data, fits):
    AlphaCalibration(TemperatureScaling(Recorder(), cv=2)).fit(data.X, data.counts)
    assert len(fits) == 3


def test_frozen_estimators_are_not_refitted_at_any_level(data, fits):
    frozen = FrozenEstimator(Recorder().fit(data.X, data.counts))
    chain = AlphaCalibration(TemperatureScaling(frozen)).fit(data.X[:50], data.counts[:50])
    assert len(fits) == 1
    assert_array_equal(chain.classes_, [0, 1, 2])


def test_out_of_fold_scores_are_out_of_fold(data):
    """The temperature equals that of scores made by hand, fold by fold."""
    cv = KFold(4, shuffle=True, random_state=0)
    calibrator = TemperatureScaling(LogisticRegression(), cv=cv).fit(data.X, data.counts)
    scores, rows = [], []
    for train, test in cv.split(data.X):
        i, k = np.nonzero(data.counts[train])
        model = LogisticRegression().fit(
            data.X[train][i], k, sample_weight=data.counts[train][i, k]
        )
        scores.append(model.predict_log_proba(data.X[test]))
        rows.append(test)
    by_hand = TemperatureScaling("logits").fit(
        np.concatenate(scores), data.counts[np.concatenate(rows)]
    )
    assert_allclose(calibrator.temperature_, by_hand.temperature_, rtol=1e-6)


def test_chain_maps_are_fitted_in_order_on_the_same_scores(data, logits):
    chain = AlphaCalibration(TemperatureScaling("logits")).fit(logits, data.counts)
    inner = TemperatureScaling("logits").fit(logits, data.counts)
    outer = AlphaCalibration("proba").fit(inner.predict_proba(logits), data.counts)
    assert_allclose(chain.estimator_.temperature_, inner.temperature_, rtol=1e-12)
    assert_allclose(
        [*chain.coef_, chain.intercept_], [*outer.coef_, outer.intercept_], rtol=1e-6, atol=1e-9
    )


def test_groups_go_to_the_splitter_and_parameters_row_by_row_to_the_classifier(data, fits):
    groups = np.repeat(np.arange(30), 10)
    seen = []

    class Spy(GroupKFold):
        def split(self, X, y=None, groups=None):
            for train, test in super().split(X, y, groups):
                seen.append(set(groups[train]) & set(groups[test]))
                yield train, test

    TemperatureScaling(Recorder(), cv=Spy(3)).fit(
        data.X, data.counts, groups=groups, note=np.arange(300)
    )
    assert seen == [set()] * 3
    assert [len(note) for *_, note in fits] == [200, 200, 200, 300]


@pytest.mark.parametrize("cv", [5, "holdout"])
def test_groups_are_kept_together_by_default_splits(data, fits, cv):
    groups = np.repeat(np.arange(30), 10)
    AlphaCalibration(TemperatureScaling(Recorder()), cv=cv).fit(
        data.X, data.counts, groups=groups, note=groups
    )
    for n, _, _, note in fits:
        assert n % 10 == 0
        assert (np.unique(note, return_counts=True)[1] == 10).all()


def test_weights_reach_the_classifier_and_the_map(data, fits):
    w = np.arange(300) / 100
    TemperatureScaling(Recorder(), cv=KFold(3)).fit(data.X, data.counts, sample_weight=w)
    assert_array_equal(fits[0][2], w[100:])
    with pytest.warns(UserWarning, match="takes no sample_weight in fit"):
        TemperatureScaling(KNeighborsClassifier(60)).fit(data.X, data.counts, sample_weight=w)


def test_metadata_routing(data, fits):
    w, groups = np.arange(300) / 100, np.repeat(np.arange(30), 10)
    with config_context(enable_metadata_routing=True):
        base = Recorder().set_fit_request(sample_weight=True, note=False)
        chain = AlphaCalibration(TemperatureScaling(base), cv=GroupKFold(3)).set_fit_request(
            sample_weight=True
        )
        chain.fit(data.X, data.counts, sample_weight=w, groups=groups)
        assert [len(w) for _, _, w, _ in fits] == [200, 200, 200, 300]
        fits.clear()
        chain.set_params(estimator__estimator=Recorder().set_fit_request(sample_weight=False))
        chain.fit(data.X, data.counts, sample_weight=w, groups=groups)
        assert [w for _, _, w, _ in fits] == [None] * 4
        search = GridSearchCV(
            TemperatureScaling(cv=GroupKFold(3)).set_fit_request(sample_weight=True),
            {
                "estimator": [
                    LogisticRegression(C=c).set_fit_request(sample_weight=True) for c in (0.1, 1)
                ]
            },
            scoring=get_scorer("neg_label_log_loss").set_score_request(sample_weight=True),
            cv=GroupKFold(2),
        )
        search.fit(data.X, data.counts, sample_weight=w, groups=groups)
        TemperatureScaling().fit(data.X, data.counts, sample_weight=w)


# --- kinds of classifiers, of X and of y ---


@pytest.mark.parametrize(
    "base",
    [
        None,
        GaussianNB(),
        KNeighborsClassifier(60),
        LinearSVC(),
        make_pipeline(StandardScaler(), LogisticRegression()),
        GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
        RandomForestClassifier(5, min_samples_leaf=10, random_state=0),
    ],
    ids=lambda b: type(b).__name__,
)
def test_any_classifier(base, data):
    chain = AlphaCalibration(TemperatureScaling(base), cv=3).fit(data.X, data.counts)
    proba = chain.predict_proba(data.X)
    assert_allclose(proba, chain.predict_dist(data.X).mean(), atol=1e-12)
    assert_allclose(proba.sum(axis=1), 1)
    assert_array_equal(chain.predict(data.X), chain.classes_[proba.argmax(axis=1)])
    assert_allclose(np.exp(chain.predict_log_proba(data.X)), proba)
    assert_array_equal(chain.decision_function(data.X).argmax(axis=1), proba.argmax(axis=1))
    assert 0.4 < chain.score(data.X, data.counts) < 1
    assert_allclose(pickle.loads(pickle.dumps(chain)).predict_proba(data.X), proba)


def test_two_classes_have_log_odds():
    data = make_label_histograms(200, n_classes=2, random_state=0)
    chain = TemperatureScaling().fit(data.X, data.counts)
    p = chain.predict_proba(data.X)
    assert chain.decision_function(data.X).shape == (200,)
    assert_allclose(chain.decision_function(data.X), np.log(p[:, 1] / p[:, 0]))


def test_named_counts_are_sorted_and_aligned(data):
    names = ["mild", "severe", "benign"]
    frame = pd.DataFrame(data.counts, columns=names)
    calibrator = TemperatureScaling().fit(data.X, frame)
    assert calibrator.classes_.tolist() == sorted(names)
    plain = TemperatureScaling().fit(data.X, data.counts[:, [2, 0, 1]])
    assert_allclose(calibrator.predict_proba(data.X), plain.predict_proba(data.X))
    for other in (frame[["severe", "benign", "mild"]], pl.DataFrame(data.counts, schema=names)):
        assert calibrator.score(data.X, other) == pytest.approx(
            plain.score(data.X, data.counts[:, [2, 0, 1]])
        )
    assert_allclose(
        TemperatureScaling().fit(data.X, pl.DataFrame(data.counts, schema=names)).temperature_,
        plain.temperature_,
    )
    with pytest.raises(ValueError, match="critical"):
        calibrator.score(data.X, frame.rename(columns={"mild": "critical"}))


@pytest.mark.parametrize(
    "convert", [pd.DataFrame, pl.DataFrame, sp.csr_matrix, sp.coo_array, list, np.float32]
)
def test_kinds_of_X(convert, data):
    X = (
        convert(data.X)
        if convert is not pl.DataFrame
        else pl.DataFrame(data.X, schema=list("abcde"))
    )
    base = LogisticRegression()
    expected = TemperatureScaling(base).fit(data.X, data.counts)
    got = TemperatureScaling(base).fit(X, data.counts)
    assert_allclose(got.temperature_, expected.temperature_, rtol=1e-3)


def test_X_is_opaque(data):
    """Sentences, or anything that has a length and rows."""
    from sklearn.feature_extraction.text import CountVectorizer

    words = np.array(["red", "green", "blue"])
    X = [" ".join(words[np.repeat(np.arange(3), y)]) for y in data.counts]
    base = make_pipeline(CountVectorizer(), LogisticRegression())
    assert TemperatureScaling(base).fit(X, data.counts).score(X, data.counts) > 0.7


@pytest.mark.parametrize("kind", [str, int, bool])
def test_kinds_of_labels(kind, data):
    labels = data.counts.argmax(axis=1)
    y = {str: np.array(["no", "perhaps", "yes"])[labels], int: labels + 5, bool: labels > 0}[kind]
    calibrator = TemperatureScaling().fit(data.X, y)
    assert_array_equal(calibrator.classes_, np.unique(y))
    assert calibrator.score(data.X, y) == pytest.approx(np.mean(calibrator.predict(data.X) == y))


def test_arrays_of_the_caller_are_not_written_to(data, logits):
    copies = [a.copy() for a in (logits, data.counts)]
    w = np.ones(300)
    for a in (logits, data.counts, w):
        a.flags.writeable = False
    AlphaCalibration(TemperatureScaling("logits")).fit(
        logits, data.counts, sample_weight=w
    ).predict_proba(logits)
    assert_array_equal(logits, copies[0])
    assert_array_equal(data.counts, copies[1])


# --- precomputed outputs ---


def test_precomputed_classes_are_never_the_labels_that_occur():
    proba = np.full((6, 4), 0.25)
    labels = [0, 0, 1, 1, 3, 3]
    assert TemperatureScaling("proba").fit(proba, labels).classes_.tolist() == [0, 1, 2, 3]
    frame = pd.DataFrame(proba, columns=list("dcba"))
    calibrator = TemperatureScaling("proba").fit(frame, list("aabbcc"))
    assert calibrator.classes_.tolist() == list("abcd")
    named = TemperatureScaling(PrecomputedClassifier("proba", classes=list("wxyz"))).fit(
        proba, list("wwxxzz")
    )
    assert named.classes_.tolist() == list("wxyz")


@pytest.mark.parametrize("as_frame", [False, True])
@pytest.mark.parametrize("columns", [slice(0, 3), [0, 1, 2]])
def test_precomputed_columns_beside_features(data, logits, columns, as_frame):
    X = np.column_stack([logits, data.X])
    plain = TemperatureScaling("logits").fit(logits, data.counts)
    if as_frame:
        X = pd.DataFrame(X, columns=[f"c{i}" for i in range(8)])
    beside = TemperatureScaling(PrecomputedClassifier("logits", columns=columns)).fit(
        X, data.counts
    )
    assert_allclose(beside.predict_proba(X), plain.predict_proba(logits))
    assert beside.classes_.tolist() == (["c0", "c1", "c2"] if as_frame else [0, 1, 2])
    if as_frame:
        by_name = PrecomputedClassifier("logits", columns=["c0", "c1", "c2"]).fit(X)
        assert_allclose(by_name.predict_proba(X), softmax(logits, axis=1))


# --- in scikit-learn ---


@pytest.mark.parametrize("response", ["logits", "proba"])
@pytest.mark.parametrize("names", [[0, 1], ["no", "yes"]])
def test_outputs_of_two_classes_need_two_columns(response, names):
    labels, X = np.array(names)[np.arange(9) % 2], np.linspace(0.1, 0.9, 9)[:, None]
    for y in (labels, [[1, 2]] * 9):
        with pytest.raises(
            ValueError, match=r"of two classes are two columns, \[0, u\] for log-odds"
        ):
            TemperatureScaling(response).fit(X, y)


def test_integer_columns_are_positions(data):
    frame = pd.DataFrame(
        np.column_stack([data.prediction, data.X]),
        columns=[2, 0, 1, *range(3, 3 + data.X.shape[1])],
    )
    for columns in ([0, 1, 2], np.array([0, 1, 2]), slice(3)):
        outputs = (
            PrecomputedClassifier("proba", columns=columns, classes=[0, 1, 2])
            .fit(frame)
            .predict_proba(frame)
        )
        assert_array_equal(outputs, data.prediction)


@pytest.mark.parametrize(
    "scoring", [n for n in get_scorer_names() if isinstance(get_scorer(n), LabelHistogramScorer)]
)
def test_grid_search_with_every_scorer_string(scoring, data):
    """Over the classifier's and the calibrator's parameters, counts in a frame.

    In two processes.
    """
    frame = pd.DataFrame(data.counts, columns=list("bca"))
    chain = AlphaCalibration(TemperatureScaling(LogisticRegression()), cv=3)
    grid = {"estimator__estimator__C": [1e-3, 1.0], "penalty": [0.0, 1.0]}
    search = GridSearchCV(chain, grid, scoring=scoring, cv=3, n_jobs=2, error_score="raise").fit(
        data.X, frame
    )
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert (
        search.best_params_["estimator__estimator__C"] == 1.0
        or "calibration" in scoring
        or "dispersion" in scoring
    )


def test_inside_and_around_a_pipeline(data):
    inside = make_pipeline(StandardScaler(), AlphaCalibration(LogisticRegression()))
    around = AlphaCalibration(make_pipeline(StandardScaler(), LogisticRegression()))
    for model in (inside, around):
        scores = cross_val_score(
            model, data.X, data.counts, cv=3, scoring="neg_disagreement_squared_loss"
        )
        assert np.isfinite(scores).all()
    search = GridSearchCV(
        inside,
        {"alphacalibration__estimator__C": [0.1, 1], "alphacalibration__likelihood": ["pairwise"]},
        scoring="neg_posterior_epistemic_loss",
        cv=3,
        error_score="raise",
    ).fit(data.X, data.counts)
    assert isinstance(predict_dist(search, data.X), Dirichlet)


@pytest.mark.parametrize("first", ["sklearn.model_selection", "sklearn_lhcal"])
def test_scorer_strings_in_either_import_order(first):
    code = f"""
import {first}
import sklearn_lhcal
from sklearn.model_selection import GridSearchCV
from sklearn_lhcal.calibration import TemperatureScaling
from sklearn_lhcal.datasets import make_label_histograms
data = make_label_histograms(100, random_state=0)
search = GridSearchCV(
    TemperatureScaling(), {{"estimator": [None]}}, scoring="neg_epistemic_loss", error_score="raise"
)
print(search.fit(data.X, data.counts).best_score_ < 1)
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "True"


def test_agrees_with_scikit_learn_on_single_labels(data):
    """One label a row.

    The same log loss as scikit-learn's own temperature scaling, where it has one.
    """
    calibration = (
        pytest.importorskip("sklearn", minversion="1.8")
        and __import__("sklearn.calibration").calibration
    )
    labels = data.counts.argmax(axis=1)
    frozen = FrozenEstimator(GaussianNB().fit(data.X, labels))
    theirs = calibration.CalibratedClassifierCV(frozen, method="temperature", ensemble=False).fit(
        data.X, labels
    )
    ours = TemperatureScaling(frozen).fit(data.X, labels)
    a, b = (log_loss(labels, model.predict_proba(data.X)) for model in (ours, theirs))
    # What the weak prior may cost: ½ (log T)²/n with log T of 1/10.
    assert_allclose(a, b, atol=2e-5)


@pytest.mark.parametrize(
    "wrap",
    [
        TemperatureScaling,
        lambda e: EpistemicCalibration(e, uncertainty="entropy"),
        LabelHistogramClassifier,
    ],
    ids=["calibrator", "epistemic", "histograms"],
)
def test_feature_names_are_those_of_the_last_fit(wrap, data):
    frame = pd.DataFrame(data.X).add_prefix("x")
    model = wrap(LogisticRegression(max_iter=1000)).fit(frame, data.counts)
    assert model.feature_names_in_.tolist() == list(frame)
    assert model.n_features_in_ == frame.shape[1]
    model.fit(data.X[:, 1:], data.counts)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == frame.shape[1] - 1


def test_one_class_is_certain():
    calibrator = TemperatureScaling("proba").fit(np.ones((9, 1)), np.zeros(9, int))
    assert calibrator.score(np.ones((9, 1)), np.zeros(9, int), sample_weight=np.arange(9.0)) == 1
    with pytest.raises(ValueError, match="inconsistent"):
        calibrator.score(np.ones((9, 1)), np.zeros(8, int))


# --- errors ---


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (TemperatureScaling("log-odds"), '"logits" or "proba"'),
        (TemperatureScaling(StandardScaler()), "must be a classifier"),
        (TemperatureScaling(cv="half"), '"holdout"'),
        (AlphaCalibration(likelihood="gaussian"), "likelihood must be one of"),
        (AlphaCalibration(features=3), "features must be"),
        (AlphaCalibration(features=lambda X: X * np.nan), "NaN"),
        (TemperatureScaling(PrecomputedClassifier("scores")), "response must be"),
        (
            TemperatureScaling(PrecomputedClassifier("logits", columns="p_b")),
            "columns must be a list .*got 'p_b'",
        ),
        (
            TemperatureScaling(PrecomputedClassifier("logits", columns=1)),
            "columns must be a list .*got 1",
        ),
        (
            TemperatureScaling(PrecomputedClassifier("logits", classes=["a", "b"])),
            "classes has 2 entries",
        ),
    ],
)
def test_wrong_parameters(estimator, message, data):
    with pytest.raises(ValueError, match=message):
        estimator.fit(data.X, data.counts)


def test_a_classifier_without_probabilities_before_fit(data):
    """The message says what to do, and that works."""
    stack = StackingClassifier([("nb", GaussianNB())], cv=2)
    with pytest.raises(
        ValueError, match=r"got StackingClassifier; .* FrozenEstimator\(fitted\), or with its fina"
    ):
        TemperatureScaling(stack).fit(data.X, data.counts)
    labels = data.counts.argmax(axis=1)
    TemperatureScaling(FrozenEstimator(clone(stack).fit(data.X, labels))).fit(data.X, data.counts)
    TemperatureScaling(stack.set_params(final_estimator=GaussianNB()), cv=2).fit(data.X, labels)


def test_a_class_missing_from_a_training_fold_is_named(data):
    frame = pd.DataFrame(data.counts * [1, 1, 0] + [1, 1, 0], columns=["a", "b", "rare"])
    frame.loc[7, "rare"] = 1
    with pytest.raises(ValueError, match=r"No label of class \['rare'\] in training fold 0"):
        TemperatureScaling().fit(data.X, frame)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.full((300, 3), np.nan), "NaN"),
        (np.full((300, 3), np.inf), "infinity"),
        (np.full((300, 3), 0.5), "must sum to 1"),
        (np.tile([-0.5, 1.0, 0.5], (300, 1)), "negative"),
        (np.full((299, 3), 1 / 3), "inconsistent"),
        (np.full((300, 4), 1 / 4), "y has 3 classes, but the classifier has 4"),
        (np.full(300, 0.5), "Reshape your data"),
    ],
)
def test_wrong_outputs(X, message, data):
    with pytest.raises(ValueError, match=message):
        TemperatureScaling("proba").fit(X, data.counts)


def test_predictions_before_fit_and_with_other_columns(data, logits):
    from sklearn.exceptions import NotFittedError

    for call in (
        "predict",
        "predict_proba",
        "predict_dist",
        "decision_function",
        "predict_log_proba",
    ):
        with pytest.raises(NotFittedError):
            getattr(TemperatureScaling(), call)(data.X)
    calibrator = TemperatureScaling("logits").fit(logits, data.counts)
    with pytest.raises(ValueError, match="2 features"):
        calibrator.predict_proba(logits[:, :2])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_alpha_keeps_probabilities_of_zero_and_tiny_ones(dtype):
    """To the bit, though its features see clipped ones.

    A label of a class of probability 0 remains possible.
    """
    rng = np.random.default_rng(0)
    z = softmax(40 * rng.normal(size=(300, 10)), axis=1).astype(dtype)
    z[:5] = np.eye(10)[:5]
    counts = rng.multinomial(3, z.astype(float) / z.astype(float).sum(axis=1, keepdims=True))
    for estimator in ("proba", TemperatureScaling("proba")):
        model = AlphaCalibration(estimator).fit(z, counts)
        expected = z if estimator == "proba" else model.estimator_.predict_proba(z)
        assert_allclose(model.predict_proba(z), expected, rtol=0, atol=1e-15)
        dist = model.predict_dist(z)
        surprised = dist.posterior(
            np.roll(np.eye(10, dtype=int), 1, axis=0)[rng.integers(10, size=300)]
        )
        for values in (
            surprised.mean(),
            dist.mutual_information(),
            dist.log_prob_counts(counts),
            dist.disagreement(),
        ):
            assert np.isfinite(values).all()


def test_a_member_of_weight_zero_does_not_count():
    """In the penalty of α-calibration either."""
    data = make_label_histograms(200, n_classes=3, n_raters=4, random_state=0)
    log_z = torch.as_tensor(np.log(np.stack([data.prediction, data.prediction[::-1]], axis=1)))
    eta, y = (
        torch.full((200, 2), 1.5, dtype=torch.float64) * torch.tensor([1.0, -3.0]),
        torch.as_tensor(data.counts),
    )
    log_w = torch.tensor([0.0, -1e9], dtype=torch.float64).expand(200, 2)
    for loss in (PairwiseLoss(0.7), DirichletMultinomialLoss(0.7)):
        mixed, single = (
            loss.row_loss(log_z, eta, y, log_w),
            loss.row_loss(log_z[:, 0], eta[:, 0], y),
        )
        assert_allclose(mixed, single, rtol=1e-12)


def test_rows_of_weight_zero_say_nothing_on_alpha(data):
    """Nor does a row with two labels make a fit of rows that have one."""
    single = np.eye(3, dtype=int)[data.counts.argmax(axis=1)]
    single[0] = [2, 1, 0]
    w = np.ones(len(single))
    w[0] = 0
    for likelihood in ("pairwise", "dirichlet_multinomial"):
        model = AlphaCalibration("proba", likelihood=likelihood)
        with pytest.warns(UserWarning, match="No calibration row has two labels"):
            model.fit(data.prediction, single, sample_weight=w)
        assert_allclose(model.predict_dist(data.prediction).total, 1)


@pytest.mark.parametrize("estimator", ["proba", "frozen"])
def test_misspelt_arguments_of_fit_are_errors(estimator, data):
    X = data.prediction if estimator == "proba" else data.X
    inner = (
        estimator
        if estimator == "proba"
        else FrozenEstimator(LogisticRegression().fit(data.X, data.counts.argmax(1)))
    )
    with pytest.raises(TypeError, match="sample_weights"):
        TemperatureScaling(inner).fit(X, data.counts, sample_weights=np.ones(len(X)))
