"""Unbiasedness, by exact enumeration of all label outcomes, and Theorem 1 of P1."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from oracles import KINDS, all_distributions, expectation, random_proba, row_outcomes

from sklearn_lhcal import metrics
from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.label_histogram import (
    KnownProbabilities,
    class_disagreement,
    pairwise_disagreement,
    u_statistic,
)

Q_ROWS = [(0.2, 0.3, 0.5), (0.0, 0.9, 0.1), (1 / 3, 1 / 3, 1 / 3), (1.0, 0.0, 0.0)]
Z_ROWS = [(0.1, 0.6, 0.3), (1 / 3, 1 / 3, 1 / 3), (0.0, 1.0, 0.0)]
EXACT = {"rel": 1e-12, "abs": 1e-12}


def squared(a, b):
    return ((np.asarray(a) - np.asarray(b)) ** 2).sum(axis=-1)


def gini(Q):
    return 1 - squared(Q, 0)


def event_loss(v, phi):
    """E(φ − φ̂)² for an event of probability v."""
    return v * (1 - phi) ** 2 + (1 - v) * phi**2


def mean_over_outcomes(metric, Q, n, z):
    """The outcomes as rows and their probabilities as weights.

    The weighted mean is the exact expectation.
    """
    counts, p = row_outcomes(Q, n)
    return metric(counts, np.tile(z, (len(counts), 1)), sample_weight=p)


@pytest.mark.parametrize(("Q", "z", "n"), list(product(Q_ROWS, Z_ROWS, [1, 2, 3, 4])))
def test_expected_squared_loss_is_unbiased(Q, z, n):
    expected = sum(q * squared(np.eye(3)[k], z) for k, q in enumerate(Q))
    assert mean_over_outcomes(metrics.expected_squared_loss, Q, n, z) == pytest.approx(
        expected, **EXACT
    )


@pytest.mark.parametrize(("Q", "z", "n"), list(product(Q_ROWS, Z_ROWS, [2, 3, 4])))
def test_epistemic_and_irreducible_loss_are_unbiased(Q, z, n):
    assert mean_over_outcomes(metrics.epistemic_loss, Q, n, z) == pytest.approx(
        squared(Q, z), **EXACT
    )
    assert mean_over_outcomes(metrics.irreducible_loss, Q, n, z) == pytest.approx(gini(Q), **EXACT)


@pytest.mark.parametrize(("Q", "z", "n"), list(product(Q_ROWS, Z_ROWS, [1, 3])))
def test_the_plugin_epistemic_loss_also_counts_the_sampling_of_raters(Q, z, n):
    plugin = partial(metrics.epistemic_loss, bias_correction=None)
    assert mean_over_outcomes(plugin, Q, n, z) == pytest.approx(
        squared(Q, z) + gini(Q) / n, **EXACT
    )


@pytest.mark.parametrize(("Q", "n"), list(product(Q_ROWS, [2, 3, 4])))
def test_disagreement_is_unbiased(Q, n):
    counts, p = row_outcomes(Q, n)
    Q = np.array(Q)
    assert p @ pairwise_disagreement(counts) == pytest.approx(gini(Q), **EXACT)
    assert p @ class_disagreement(counts) == pytest.approx(2 * Q * (1 - Q), **EXACT)


def test_u_statistic_of_known_probabilities_is_the_polynomial():
    """Three labels are of three classes with probability 6 q₁q₂q₃, of one with Σ q³."""
    Q = np.array([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]])

    def all_differ(counts):
        return counts.max(axis=1) == 1

    found = u_statistic(KnownProbabilities(Q), all_differ, 3)
    np.testing.assert_allclose(found, 6 * Q.prod(axis=1), rtol=1e-12)
    found = u_statistic(KnownProbabilities(Q), lambda counts: counts.max(axis=1) == 3, 3)
    np.testing.assert_allclose(found, (Q**3).sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(u_statistic([[3, 1]], lambda c: c[:, 0], 1), [0.75])


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("Q", Q_ROWS)
def test_u_statistic_is_unbiased(Q, order):
    def unanimous(subsets):
        return subsets.max(axis=1) == order

    def asymmetric(subsets):  # any function of the subset's counts
        return np.column_stack([subsets @ [1.0, 10.0, 100.0], np.cos(subsets @ [1.0, 2.0, 3.0])])

    draws = list(product(range(3), repeat=order))
    p = np.prod(np.array(Q)[draws], axis=1)
    seen = np.array([np.bincount(d, minlength=3) for d in draws])
    for n in range(order, 5):
        counts, weight = row_outcomes(Q, n)
        assert weight @ u_statistic(counts, unanimous, order) == pytest.approx(
            p @ unanimous(seen), **EXACT
        )
        assert weight @ u_statistic(counts, asymmetric, order) == pytest.approx(
            p @ asymmetric(seen), **EXACT
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("Q", "n"), list(product(Q_ROWS, [2, 3, 4])))
def test_distribution_losses_are_unbiased(Q, n, kind):
    """L_φ, its class-wise form and the loss after one expert label, for every distribution."""
    distribution = all_distributions(1, 3, seed=n)[kind]
    counts, p = row_outcomes(Q, n)
    batch, Q = distribution[np.zeros(len(counts), int)], np.array(Q)

    def mean(metric):
        return metric(counts, batch, sample_weight=p)

    loss = event_loss(gini(Q), distribution.disagreement()[0])
    assert mean(metrics.disagreement_squared_loss) == pytest.approx(loss, **EXACT)
    losses = event_loss(2 * Q * (1 - Q), distribution.class_disagreement()[0])
    assert mean(metrics.class_disagreement_squared_loss) == pytest.approx(losses.mean(), **EXACT)
    after = sum(Q[k] * squared(Q, distribution.posterior([k]).mean()[0]) for k in range(3))
    assert mean(metrics.posterior_epistemic_loss) == pytest.approx(after, **EXACT)


@pytest.mark.parametrize("raters", [(1, 2, 3), (2, 2, 4), (3, 1, 1)])
def test_means_over_rows_with_different_numbers_of_raters_are_unbiased(raters):
    """Without weights, by joint enumeration.

    Rows with one rater are left out where they must be.
    """
    rng = np.random.default_rng(sum(raters))
    Q, z = random_proba(rng, 3, 3), random_proba(rng, 3, 3)
    d = all_distributions(3, 3)["dirichlet mixture"]
    pairs = np.array(raters) >= 2
    after = sum(Q[:, k] * squared(Q, d.mean_after(k)) for k in range(3))
    population = {
        metrics.expected_squared_loss: (squared(Q, z) + gini(Q)).mean(),
        metrics.epistemic_loss: squared(Q, z)[pairs].mean(),
        metrics.irreducible_loss: gini(Q)[pairs].mean(),
    }
    for metric, value in population.items():
        assert expectation(lambda y, m=metric: m(y, z), Q, raters) == pytest.approx(value, **EXACT)
    population = {
        metrics.disagreement_squared_loss: event_loss(gini(Q), d.disagreement())[pairs].mean(),
        metrics.class_disagreement_squared_loss: event_loss(
            2 * Q * (1 - Q), d.class_disagreement()
        )[pairs].mean(),
        metrics.posterior_epistemic_loss: after[pairs].mean(),
    }
    for metric, value in population.items():
        assert expectation(lambda y, m=metric: m(y, d), Q, raters) == pytest.approx(value, **EXACT)


# Rows are drawn in turn from the types of their bin: (z, Q, probability). Bins are those of two
# equal widths.
LOW = [((0.1, 0.9), (0.3, 0.7), 0.4), ((0.4, 0.6), (0.2, 0.8), 0.6)]
HIGH = [((0.7, 0.3), (0.9, 0.1), 0.5), ((0.9, 0.1), (0.55, 0.45), 0.5)]
CALIBRATED_LOW = [((0.1, 0.9), (0.1, 0.9), 0.4), ((0.4, 0.6), (0.4, 0.6), 0.6)]
CALIBRATED_HIGH = [((0.7, 0.3), (0.7, 0.3), 0.3), ((0.9, 0.1), (0.9, 0.1), 0.7)]


def row_types_expectation(metric, bins, raters):
    """Exact mean of ``metric(y, z)`` over the rows' types and their labels.

    Bins[i] is the type list of row i.
    """
    total = 0.0
    for types in product(*bins):
        z, Q = np.array([t[0] for t in types]), np.array([t[1] for t in types])
        p = np.prod([t[2] for t in types])
        total += p * expectation(lambda y, z=z: metric(y, z), Q, raters)
    return total


def type_moments(types):
    """E[Q − z] and Var[z] of a bin, shape (K,) each."""
    z, Q, p = (np.array([t[i] for t in types]) for i in range(3))
    return p @ (Q - z), p @ z**2 - (p @ z) ** 2


def population_cl(bins):
    """Σ_b N_b/N ‖E[Q − z | b]‖², summed over classes."""
    return sum(squared(type_moments(b)[0], 0) for b in bins) / len(bins)


FEW_ROWS = [
    pytest.param([LOW, LOW], [1, 1], id="two samples, one label"),
    pytest.param([LOW, LOW, LOW], [1, 2, 1], id="three rows"),
    pytest.param([LOW, LOW, HIGH, HIGH], [1, 1, 1, 1], id="two bins"),
    pytest.param([CALIBRATED_LOW] * 2 + [CALIBRATED_HIGH] * 2, [1, 1, 2, 1], id="calibrated"),
]


@pytest.mark.parametrize(("bins", "raters"), FEW_ROWS)
@pytest.mark.parametrize("weighted", [False, True])
def test_residual_corrected_calibration_loss_is_exactly_unbiased(bins, raters, weighted):
    """In wide bins with two rows or more, whatever the weights.

    The weights' shares stand for N_b/N.
    """
    w = np.linspace(1, 3, len(bins)) if weighted else np.ones(len(bins))
    metric = partial(metrics.calibration_loss, n_bins=2, sample_weight=w)
    expected = (
        sum(v * squared(type_moments(b)[0], 0) for v, b in zip(w, bins, strict=True)) / w.sum()
    )
    assert row_types_expectation(metric, bins, raters) == pytest.approx(expected, **EXACT)


@pytest.mark.slow
def test_residual_corrected_dispersion_loss_is_exactly_unbiased():
    """E‖Q − z‖² less the calibration loss, from samples with two raters."""
    bins = [LOW, LOW, HIGH, HIGH]
    metric = partial(metrics.dispersion_loss, n_bins=2)
    el = np.mean([sum(p * squared(Q, z) for z, Q, p in types) for types in bins])
    assert row_types_expectation(metric, bins, [2, 2, 2, 2]) == pytest.approx(
        el - population_cl(bins), **EXACT
    )


@pytest.mark.parametrize("correction", [None, "label"])
def test_other_calibration_losses_are_biased(correction):
    """What the residual correction is for.

    Neither of the others has the right mean on the same rows.
    """
    metric = partial(metrics.calibration_loss, n_bins=2, bias_correction=correction)
    bins = [LOW, LOW, HIGH, HIGH]
    assert abs(row_types_expectation(metric, bins, [1] * 4) - population_cl(bins)) > 0.01


@pytest.mark.parametrize("raters", [[1, 1, 1, 1], [2, 1, 2, 1]])
def test_label_correction_leaves_the_spread_of_predictions_within_bins(raters):
    """Calibrated predictor.

    The bias is −Σ_b Var_b(z)/n, n the number of rows, summed over classes.
    """
    bins = [CALIBRATED_LOW] * 2 + [CALIBRATED_HIGH] * 2
    metric = partial(metrics.calibration_loss, n_bins=2, bias_correction="label")
    bias = -sum(type_moments(b)[1].sum() for b in (CALIBRATED_LOW, CALIBRATED_HIGH)) / 4
    assert row_types_expectation(metric, bins, raters) == pytest.approx(bias, **EXACT)
    residual = partial(metrics.calibration_loss, n_bins=2)
    assert row_types_expectation(residual, bins, raters) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.slow
def test_disagreement_calibration_loss_is_exactly_unbiased():
    """Three rows of two raters in one bin; v = 1 − ΣQ², φ̂ = 1 − Σz²."""
    types = [(z, Q, p / 2) for z, Q, p in LOW + HIGH]
    z, Q, p = (np.array([t[i] for t in types]) for i in range(3))
    population = (p @ (gini(Q) - gini(z))) ** 2
    loss = partial(metrics.disagreement_calibration_loss, n_bins=1)
    assert row_types_expectation(loss, [types] * 3, [2, 2, 2]) == pytest.approx(population, **EXACT)


GRID = np.array(
    [0.05, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.95]
)  # three values of z in each of three bins


def simulated_losses(seed, shift, *, n_rows=30, repeats=1500, n_bins=3):
    """Corrected losses of random rows in wide bins.

    Q scatters around z + shift(z), 1 to 3 raters a row.
    """
    rng = np.random.default_rng(seed)
    losses = {"residual": [], "label": []}
    for _ in range(repeats):
        z = rng.choice(GRID, n_rows)
        n = rng.integers(1, 4, n_rows)
        ones = rng.binomial(n, z + shift(z) + rng.choice([-0.04, 0.04], n_rows))
        counts, proba = np.column_stack([ones, n - ones]), np.column_stack([z, 1 - z])
        for name, values in losses.items():
            values.append(
                metrics.calibration_loss(counts, proba, n_bins=n_bins, bias_correction=name)
            )
    return {name: (np.mean(v), np.std(v) / np.sqrt(repeats)) for name, v in losses.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "shift", [lambda z: 0 * z, lambda z: 0.6 * (0.5 - z)], ids=["calibrated", "miscalibrated"]
)
@pytest.mark.parametrize("n_bins", [1, 3])
def test_residual_corrected_calibration_loss_is_unbiased_in_simulation(shift, n_bins):
    """Random rows, so random numbers of rows in the bins.

    All three bins hold two rows or more but once in 1e4.
    """
    mean, error = simulated_losses(0, shift, n_bins=n_bins)["residual"]
    by_bin = shift(GRID).reshape(n_bins, -1).mean(axis=1)
    truth = 2 * (by_bin**2).mean()
    assert abs(mean - truth) < 4 * error


@pytest.mark.slow
def test_label_correction_is_biased_in_simulation():
    """−Σ_b Var_b(z)/n for both classes, within 4 standard errors, and 4 of them away from 0."""
    mean, error = simulated_losses(1, lambda z: 0 * z, repeats=3000)["label"]
    bias = -2 * GRID.reshape(3, 3).var(axis=1).sum() / 30
    assert abs(mean - bias) < 4 * error
    assert mean < -4 * error


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_bins", [2, 5])
def test_label_correction_is_twice_the_debiased_reliability(seed, n_bins):
    """Two classes, one label a row.

    Ferro and Fricker (2012), Σ_b N_b/N·[(ō−f̄)² − ō(1−ō)/(N_b−1)].
    """
    rng = np.random.default_rng(seed)
    f = rng.random(60)
    o = rng.random(60) < f**2
    reliability = 0.0
    for b in range(n_bins):
        i = np.minimum((f * n_bins).astype(int), n_bins - 1) == b
        N_b = i.sum()
        assert N_b > 1
        reliability += (
            N_b
            / 60
            * ((o[i].mean() - f[i].mean()) ** 2 - o[i].mean() * (1 - o[i].mean()) / (N_b - 1))
        )
    loss = metrics.calibration_loss(o.astype(int), f, n_bins=n_bins, bias_correction="label")
    assert loss == pytest.approx(2 * reliability, **EXACT)


class Feature:
    """One value of the feature.

    Z is predicted for all samples, Q is one of `types` with their probabilities.
    """

    def __init__(self, z, types):
        outcomes = [(*row_outcomes(Q, 3), p) for Q, p in types]
        self.counts = np.concatenate([counts for counts, _, _ in outcomes])
        self.weight = np.concatenate([p * share for _, share, p in outcomes])
        self.z = np.array(z)
        self.v = sum(p * gini(Q) for Q, p in types)
        self.el = sum(p * squared(Q, z) for Q, p in types)
        self.mean = sum(p * np.array(Q) for Q, p in types)

    def loss(self, metric, s):
        """Exact expected loss of Dirichlet(α0 z), s = 1/(α0+1)."""
        batch = np.tile(self.z, (len(self.counts), 1))
        prediction = batch if s == 0 else Dirichlet.from_mean(batch, 1 / s - 1)
        return metric(self.counts, prediction, sample_weight=self.weight)

    def optimum(self, metric):
        """s* of Theorem 1."""
        if metric is metrics.disagreement_squared_loss:
            return 1 - self.v / gini(self.z)
        return self.el / (self.el + self.v)


TYPES = [((0.8, 0.1, 0.1), 0.5), ((0.1, 0.7, 0.2), 0.3), ((0.0, 0.2, 0.8), 0.2)]
TASKS = [metrics.disagreement_squared_loss, metrics.posterior_epistemic_loss]


@pytest.mark.parametrize("metric", TASKS)
@pytest.mark.parametrize("z", [(0.43, 0.3, 0.27), (0.5, 0.25, 0.25), (1 / 3, 1 / 3, 1 / 3)])
def test_theorem_1(metric, z):
    """Expected loss improves on α0 = ∞ exactly for 0 < s < 2s*, and is best at s*."""
    feature = Feature(z, TYPES)
    best, start = feature.optimum(metric), feature.loss(metric, 0)
    assert 0 < best < 0.5
    assert feature.loss(metric, 2 * best) == pytest.approx(start, **EXACT)
    for s in np.linspace(0.02, 0.98, 25):
        assert (feature.loss(metric, s) < start) == (s < 2 * best)
        assert feature.loss(metric, s) >= feature.loss(metric, best)


def test_theorem_1_needs_more_predicted_than_actual_disagreement():
    """Where v ≥ u = 1 − Σz² no α0 improves the disagreement.

    One expert label still helps the probabilities.
    """
    feature = Feature((0.9, 0.05, 0.05), TYPES)
    assert feature.v > gini(feature.z)
    for s in np.linspace(0.02, 0.98, 10):
        assert feature.loss(metrics.disagreement_squared_loss, s) > feature.loss(
            metrics.disagreement_squared_loss, 0
        )
    best = feature.optimum(metrics.posterior_epistemic_loss)
    assert feature.loss(metrics.posterior_epistemic_loss, best) < feature.el


def test_both_optima_of_theorem_1_coincide_for_the_mean():
    """z = E[Q | feature]: α0* = v/(u−v), which is IL/EL."""
    feature = Feature(sum(p * np.array(Q) for Q, p in TYPES), TYPES)
    s = [feature.optimum(metric) for metric in TASKS]
    u = gini(feature.z)
    assert s[0] == pytest.approx(s[1], **EXACT)
    assert 1 / s[0] - 1 == pytest.approx(feature.v / (u - feature.v), **EXACT)


@pytest.mark.parametrize("total", [1e-12, 0.3, 5.0, 1e12])
def test_loss_after_one_label_of_a_dirichlet_has_the_closed_form(total):
    """(1−s)²·EL_i + s²·IL_i with s = 1/(α0+1), on the same labels."""
    rng = np.random.default_rng(0)
    z, counts = random_proba(rng, 5, 3), rng.integers(1, 4, (5, 3))
    s = 1 / (total + 1)
    closed = (1 - s) ** 2 * metrics.epistemic_loss(counts, z) + s**2 * metrics.irreducible_loss(
        counts
    )
    after = metrics.posterior_epistemic_loss(counts, Dirichlet.from_mean(z, total))
    assert after == pytest.approx(closed, **EXACT)


def test_of_a_fixed_panel_the_epistemic_loss_is_too_small_by_how_much_raters_differ():
    """``EL_panel − E[estimate] = Σ_k Var_r(q_rk)/(R − 1)``, over all labels of three raters."""
    q = np.array([0.2, 0.5, 0.9])
    z = np.array([[0.7, 0.3]])
    expected = 0.0
    for said in product((0, 1), repeat=3):
        p = np.prod(np.where(said, q, 1 - q))
        counts = [[3 - sum(said), sum(said)]]
        expected += p * metrics.epistemic_loss(counts, z)
    panel = 2 * (q.mean() - z[0, 1]) ** 2
    assert panel - expected == pytest.approx(2 * q.var() / 2, rel=1e-10)
