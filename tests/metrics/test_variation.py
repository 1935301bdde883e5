"""Distance, entropy and order of classes of single rows: hand fractions, enumeration, limits."""

from functools import partial
from itertools import permutations
from math import log

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import expectation, random_proba
from scipy.stats import entropy

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.label_histogram import KnownProbabilities
from sklearn_lhcal.metrics import (
    confidence_interval,
    distribution_calibration_error,
    entropy_calibration_error,
    ranking_score,
)

METRICS = [
    distribution_calibration_error,
    entropy_calibration_error,
    partial(entropy_calibration_error, absolute=False),
    partial(entropy_calibration_error, bias_correction="harmonic"),
    ranking_score,
]
SIGNED = partial(entropy_calibration_error, absolute=False)


@pytest.fixture
def data():
    return make_label_histograms(200, n_classes=3, n_raters=(2, 6), random_state=0)


def test_hand_fractions():
    counts = [[3, 1, 0], [2, 2, 0]]
    z = [[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]]
    # (¼ + ¼)/2 and (½ + ½)/2
    assert distribution_calibration_error(counts, z) == pytest.approx((0.25 + 0.5) / 2)
    # H(z) is 1.5 log 2 and 0; H(μ̂) is 2 log 2 − ¾ log 3 and log 2
    away = 0.75 * log(3) - 0.5 * log(2), -log(2)
    assert entropy_calibration_error(counts, z) == pytest.approx((away[0] - away[1]) / 2)
    assert SIGNED(counts, z) == pytest.approx(sum(away) / 2)
    # harmonic: ¾·⅓ + ¼(1 + ½ + ⅓) and ½(½ + ⅓) twice
    corrected = 1.5 * log(2) - (0.25 + 11 / 24), -5 / 6
    found = SIGNED(counts, z, bias_correction="harmonic")
    assert found == pytest.approx(sum(corrected) / 2)


def test_definitions_row_by_row(data):
    """As the paper writes them, with SciPy's entropy."""
    mu = data.counts / data.counts.sum(axis=1, keepdims=True)
    z = data.prediction
    away = entropy(z, axis=1) - entropy(mu, axis=1)
    distance = np.abs(mu - z).sum(axis=1) / 2
    assert distribution_calibration_error(data.counts, z) == pytest.approx(distance.mean())
    assert entropy_calibration_error(data.counts, z) == pytest.approx(np.abs(away).mean())
    assert SIGNED(data.counts, z) == pytest.approx(away.mean())


@pytest.mark.parametrize("n", [2, 3, 6])
@pytest.mark.parametrize("Q", [(0.5, 0.3, 0.2), (0.9, 0.1, 0.0)])
def test_the_corrected_entropy_lacks_the_tail_of_its_series(n, Q):
    """Exactly, by enumeration of all labels: H = Σ_{v≥1} Σ_k Q(1−Q)^v / v."""
    Q = np.array([Q])
    z = np.array([[0.4, 0.4, 0.2]])
    metric = partial(SIGNED, prediction=z, bias_correction="harmonic")
    mean = expectation(metric, Q, [n])
    seen = sum((Q * (1 - Q) ** v).sum() / v for v in range(1, n))
    assert mean == pytest.approx(entropy(z[0]) - seen, rel=1e-12)
    # Nearer to the truth than the plugin is.
    truth = entropy(z[0]) - entropy(Q[0])
    plugin = expectation(partial(SIGNED, prediction=z), Q, [n])
    assert abs(mean - truth) < abs(plugin - truth)


def test_few_raters_make_the_distance_too_large_and_by_no_more_than_is_said():
    Q = random_proba(np.random.default_rng(0), 2, 3)
    for n in (1, 2, 4):
        mean = expectation(partial(distribution_calibration_error, prediction=Q), Q, [n, n])
        assert 0 < mean <= (np.sqrt(Q * (1 - Q) / n).sum(axis=1) / 2).mean()


def order_by_hand(mu, z):
    """All ways to break ties on either side, all pairs of them."""

    def orders(a):
        found = permutations(range(len(a)))
        return {o for o in found if all(a[o[i]] >= a[o[i + 1]] for i in range(len(a) - 1))}

    of_mu, of_z = orders(mu), orders(z)
    return len(of_mu & of_z) / (len(of_mu) * len(of_z))


def test_orders_with_ties_are_those_of_all_ways_to_break_them():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 3, size=(300, 4))
    counts[:, 0] += 1
    z = rng.integers(1, 4, size=(300, 4)).astype(float)
    z[::3] = counts[::3] + 1
    z /= z.sum(axis=1, keepdims=True)
    by_hand = [order_by_hand(*row) for row in zip(counts, z, strict=True)]
    found = [ranking_score(counts[[i]], z[[i]]) for i in range(300)]
    assert_allclose(found, by_hand, rtol=1e-12)
    assert len(set(np.round(by_hand, 9))) > 5


@pytest.mark.parametrize("metric", METRICS, ids=range(len(METRICS)))
def test_a_perfect_prediction(metric):
    Q = random_proba(np.random.default_rng(0), 200, 3)
    best = 1.0 if metric is ranking_score else 0.0
    assert metric(KnownProbabilities(Q), Q) == pytest.approx(best, abs=1e-12)
    many = np.round(1e9 * Q).astype(int)
    assert metric(many, many / many.sum(axis=1, keepdims=True)) == pytest.approx(best, abs=1e-8)


@pytest.mark.parametrize("metric", METRICS, ids=range(len(METRICS)))
def test_rows_weights_and_classes(metric, data):
    y, z = data.counts, data.prediction
    rng = np.random.default_rng(0)
    w = rng.integers(0, 3, size=200)
    whole = metric(y, z, sample_weight=w)
    assert whole == pytest.approx(metric(np.repeat(y, w, axis=0), np.repeat(z, w, axis=0)))
    rows, columns = rng.permutation(200), rng.permutation(3)
    moved = metric(y[rows][:, columns], z[rows][:, columns], sample_weight=w[rows])
    assert moved == pytest.approx(whole, rel=1e-12)
    assert metric(y, Dirichlet(3 * z)) == pytest.approx(metric(y, z), rel=1e-9)


@pytest.mark.filterwarnings("ignore:.* is biased upwards")
def test_intervals_and_orientation(data):
    y, z = data.counts, data.prediction
    inside = confidence_interval(distribution_calibration_error, y, z, random_state=0)
    assert inside.low < distribution_calibration_error(y, z) < inside.high
    inside = confidence_interval(entropy_calibration_error, y, z, random_state=0, absolute=False)
    assert inside.low < SIGNED(y, z) < inside.high


def test_rows_with_one_label_have_no_corrected_entropy():
    counts = [[1, 0], [2, 0]]
    z = [[0.5, 0.5], [0.9, 0.1]]
    both = entropy_calibration_error(counts, z, bias_correction="harmonic")
    assert both == pytest.approx(entropy([0.9, 0.1]))
    with pytest.raises(ValueError, match='bias_correction must be "harmonic" or None'):
        entropy_calibration_error(counts, z, bias_correction="residual")


@pytest.mark.parametrize("absolute", [True, False])
@pytest.mark.parametrize("bias_correction", [None, "harmonic"])
def test_intervals_of_entropy_errors_say_that_they_lie_too_high(absolute, bias_correction):
    how = {"absolute": absolute, "bias_correction": bias_correction}
    counts = np.random.default_rng(0).multinomial(3, [0.5, 0.3, 0.2], 40)
    z = np.full((40, 3), 1 / 3)
    with pytest.warns(UserWarning, match="is biased upwards"):
        confidence_interval(entropy_calibration_error, counts, z, random_state=0, **how)
