"""Temperature scaling: the optimum, and what it does to ensembles."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, softmax
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from sklearn_lhcal.calibration import AlphaCalibration, TemperatureScaling
from sklearn_lhcal.distributions import Ensemble
from sklearn_lhcal.label_histogram import KnownProbabilities
from sklearn_lhcal.neural_network import DirichletMultinomialLoss, PairwiseLoss


def label_loss(T, u, y, w=1.0):
    """Eq. (82) of P1 with scipy."""
    return (
        -(np.reshape(w, (-1, 1)) * y * log_softmax(u / T, axis=1)).sum()
        / (np.reshape(w, (-1, 1)) * y).sum()
    )


def best_temperature(u, y, w=1.0, unit=1.0):
    """The optimum by scipy: the loss with the weak prior, one row's worth of ½ (log T/unit)²."""
    n = np.sum(w * np.ones(len(u)))
    center = np.log(unit)

    def loss(t):
        return label_loss(np.exp(t), u, y, w) + 0.5 * (t - center) ** 2 / n

    grid = np.linspace(-5, 8, 131) + center
    start = grid[np.argmin([loss(t) for t in grid])]
    found = minimize_scalar(loss, bounds=(start - 0.2, start + 0.2), options={"xatol": 1e-10})
    return np.exp(found.x)


@pytest.mark.parametrize("weighted", [False, True])
def test_temperature_is_the_optimum(data, logits, weighted):
    w = np.random.default_rng(0).uniform(0, 3, 300) if weighted else np.ones(300)
    T = TemperatureScaling("logits").fit(logits, data.counts, sample_weight=w).temperature_
    assert_allclose(T, best_temperature(logits, data.counts, w), rtol=1e-6)


def median_lead(u):
    """Of the best class over the second, the lower of two medians."""
    lead = np.diff(np.sort(u, axis=1)[:, -2:], axis=1)
    return np.quantile(lead, 0.5, method="inverted_cdf")


@pytest.mark.parametrize("factor", [1e-6, 0.01, 0.3, 7.0, 1000.0, 1e30])
def test_temperature_of_stretched_logits(factor, data):
    """The prior's centre is 1, or brings scores of another scale to leads of .02 to 50 nats."""
    u = factor * np.log(data.prediction)
    lead = median_lead(u)
    unit = lead / np.clip(lead, 0.02, 50)
    assert (unit == 1) == (factor in (0.3, 7.0))
    T = TemperatureScaling("logits").fit(u, data.counts).temperature_
    assert_allclose(T, best_temperature(u, data.counts, unit=unit), rtol=1e-6)


@pytest.mark.parametrize("factors", [(1e3, 1e100), (1e-3, 1e-6)])
def test_scores_of_any_scale_are_one_model(factors, data):
    """As far as the logarithms of probabilities near 1/3 hold them."""
    u = np.log(data.prediction)
    one, other = (
        TemperatureScaling("logits").fit(factor * u, data.counts).predict_proba(factor * u)
        for factor in factors
    )
    assert_allclose(other, one, atol=1e-7)


def test_the_scale_of_scores_counts_weights_and_leaves_out_equal_classes(data):
    u = 1000 * np.log(data.prediction)
    w = np.where(median_lead(u) > np.ptp(u, axis=1), 3, np.arange(300) % 2)
    weighted = TemperatureScaling("logits").fit(u, data.counts, sample_weight=w)
    repeated = TemperatureScaling("logits")
    repeated.fit(np.repeat(u, w, axis=0), np.repeat(data.counts, w, axis=0))
    assert_allclose(weighted.temperature_, repeated.temperature_, rtol=1e-7)
    single = np.eye(3, dtype=int)[data.counts.argmax(axis=1)]
    alone = TemperatureScaling("logits").fit(u, single)
    more = TemperatureScaling("logits")
    more.fit(np.vstack([u, np.zeros((900, 3))]), np.vstack([single] + [np.eye(3, dtype=int)] * 300))
    assert_allclose(more.temperature_, alone.temperature_, rtol=1e-7)
    nothing = TemperatureScaling("logits").fit(np.zeros((300, 3)), single)
    assert_allclose(nothing.predict_proba(u[:1] * 0), 1 / 3)


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


@pytest.mark.filterwarnings("ignore:Raters of the calibration samples disagree:UserWarning")
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


@pytest.mark.filterwarnings("ignore:Raters of the calibration samples disagree:UserWarning")
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


# --- around ensembles ---


def test_around_a_forest_it_is_the_temperature_of_its_mean(data):
    forest = RandomForestClassifier(12, min_samples_leaf=20, random_state=0).fit(
        data.X, data.counts.argmax(axis=1)
    )
    calibrator = TemperatureScaling(FrozenEstimator(forest)).fit(data.X, data.counts)
    trees = np.stack([tree.predict_proba(data.X) for tree in forest.estimators_])
    z = trees.mean(axis=0)
    assert_allclose(calibrator.temperature_, best_temperature(np.log(z), data.counts), rtol=1e-6)
    expected = softmax(np.log(z) / calibrator.temperature_, axis=1)
    assert_allclose(calibrator.predict_proba(data.X), expected, atol=1e-12)
    # P(tree | label) is z_sk / Σ z_sk, and stays
    dist = calibrator.predict_dist(data.X)
    assert isinstance(dist, Ensemble)
    joint = dist.weights[..., None] * dist.proba
    assert_allclose(joint, expected * trees / trees.sum(axis=0), atol=1e-12)


def test_temperature_around_one_hot_members_is_the_global_optimum(data):
    """Members that say 0 or 1 have a mean with zeros, which are clipped at 1e-12."""
    forest = RandomForestClassifier(30, random_state=0).fit(
        data.X[:100], data.counts[:100].argmax(axis=1)
    )
    calibrator = TemperatureScaling(FrozenEstimator(forest), mixing=None)
    with pytest.warns(UserWarning, match="labels to which the classifier gives no probability"):
        calibrator.fit(data.X[100:], data.counts[100:])
    z = np.maximum(forest.predict_proba(data.X[100:]), 1e-12)
    u = np.log(z / z.sum(axis=1, keepdims=True))
    best = best_temperature(u, data.counts[100:])
    assert_allclose(calibrator.temperature_, best, rtol=1e-5)


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


def test_the_global_generators_stay_as_they_were(data, logits):
    forest = RandomForestClassifier(3, min_samples_leaf=20, random_state=0)
    forest.fit(data.X, data.counts.argmax(axis=1))
    np.random.seed(3)  # noqa: NPY002
    torch.manual_seed(3)
    expected = np.random.rand(), torch.rand(1).item()  # noqa: NPY002
    np.random.seed(3)  # noqa: NPY002
    torch.manual_seed(3)
    AlphaCalibration(TemperatureScaling("logits")).fit(logits, data.counts)
    AlphaCalibration(TemperatureScaling(FrozenEstimator(forest))).fit(data.X, data.counts)
    assert (np.random.rand(), torch.rand(1).item()) == expected  # noqa: NPY002
