"""Laws of the metrics, and their numbers against scikit-learn and the formulas written naively."""

import warnings
from functools import partial

import numpy as np
import pytest
from metric_cases import (
    ALL,
    BINNED,
    CORRECTIONS,
    EXACT,
    NEEDS_TWO,
    ON_DISTRIBUTIONS,
    STRATEGIES,
    case,
    edges_of,
    tags_of,
)
from oracles import all_distributions, naive_bin_loss, row_outcomes
from scipy.stats import binom
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss

from sklearn_lhcal import metrics
from sklearn_lhcal.distributions import Dirichlet, PointMass
from sklearn_lhcal.label_histogram import class_disagreement, pairwise_disagreement, u_statistic


@pytest.fixture(params=ALL)
def metric(request):
    return ALL[request.param]


# Rows


def test_losses_add_up_row_by_row():
    """L = EL + IL, and IL is the row's disagreement."""
    counts, z, _ = case(least=2)
    for y, q, d in zip(counts, z, pairwise_disagreement(counts), strict=True):
        L, EL = metrics.expected_squared_loss([y], [q]), metrics.epistemic_loss([y], [q])
        IL = metrics.irreducible_loss([y])
        assert pytest.approx(EL + IL, **EXACT) == L
        assert pytest.approx(d, **EXACT) == IL


@pytest.mark.parametrize("name", NEEDS_TWO)
def test_rows_with_one_rater_are_left_out_where_two_are_needed(name):
    """Published code masks the bias term, counts the row all the same.

    And calls the result debiased.
    """
    counts, z, w = case(n=80)
    two = counts.sum(axis=1) >= 2
    assert not two.all()
    value = NEEDS_TWO[name](counts, z, sample_weight=w)
    assert value == pytest.approx(
        NEEDS_TWO[name](counts[two], z[two], sample_weight=w[two]), **EXACT
    )
    assert np.isfinite(value)


def test_epistemic_loss_with_half_of_the_rows_rated_once():
    """A calibrated predictor, half the samples with one rater, half with five.

    Published code says .308, right is .058.
    """
    rng = np.random.default_rng(0)
    n, K = 20_000, 3
    z = rng.dirichlet(np.full(K, 2.0), n)
    Q = np.array([rng.dirichlet(7 * p) for p in z])
    raters = np.where(np.arange(n) % 2, 1, 5)
    counts = np.array([rng.multinomial(m, q) for m, q in zip(raters, Q, strict=True)])
    truth = ((Q - z) ** 2).sum(axis=1).mean()
    assert abs(metrics.epistemic_loss(counts, z) - truth) < 0.01
    assert metrics.epistemic_loss(counts, z, bias_correction=None) > 4 * truth


def test_a_disagreement_bin_of_rows_rated_once_does_not_spread_nan():
    """Published code: one such bin turns the whole loss into NaN."""
    z = np.array([[0.5, 0.5]] * 3 + [[0.99, 0.01]] * 3)
    counts = [[1, 1], [2, 0], [2, 1]] + [[1, 0]] * 3
    for correction in CORRECTIONS:
        loss = metrics.disagreement_calibration_loss(counts, z, bias_correction=correction)
        assert loss == pytest.approx(
            metrics.disagreement_calibration_loss(counts[:3], z[:3], bias_correction=correction),
            **EXACT,
        )


@pytest.mark.parametrize("name", NEEDS_TWO)
def test_undefined_is_nan_with_one_warning(name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = NEEDS_TWO[name]([[1, 0], [0, 1]], [[0.3, 0.7], [0.6, 0.4]])
    assert np.isnan(value)
    assert [w.category for w in caught] == [UndefinedMetricWarning]
    assert "2 raters" in str(caught[0].message)


def test_undefined_decomposition_is_nan_with_one_warning():
    with pytest.warns(UndefinedMetricWarning, match="loss_decomposition is undefined"):
        parts = metrics.loss_decomposition([[1, 0], [0, 1]], [[0.3, 0.7], [0.6, 0.4]])
    assert np.isnan(parts[:5]).all()
    assert parts.n_rows == 0


def test_rows_of_weight_zero_do_not_count(metric):
    counts, z, w = case(n=40)
    w[::3] = 0
    kept = w > 0
    assert metric(counts, z, sample_weight=w) == pytest.approx(
        metric(counts[kept], z[kept], sample_weight=w[kept]), **EXACT
    )


@pytest.mark.parametrize("name", BINNED)
def test_rows_of_weight_zero_do_not_move_quantile_edges(name):
    counts, z, w = case(n=40)
    w[z[:, 0] < 0.3] = 0
    kept = w > 0
    options = {"n_bins": 3, "strategy": "quantile"}
    alone = BINNED[name](counts[kept], z[kept], sample_weight=w[kept], **options)
    assert BINNED[name](counts, z, sample_weight=w, **options) == pytest.approx(alone, **EXACT)


@pytest.mark.parametrize("name", NEEDS_TWO)
def test_rows_of_weight_zero_cannot_define_a_metric(name):
    with pytest.warns(
        UndefinedMetricWarning, match="no sample with a positive weight has 2 raters"
    ):
        assert np.isnan(
            NEEDS_TWO[name]([[2, 0], [0, 1]], [[0.3, 0.7], [0.6, 0.4]], sample_weight=[0.0, 1.0])
        )


# Oracles for one label a row


@pytest.mark.parametrize("weighted", [False, True])
def test_scikit_learn_agrees_for_single_labels(weighted):
    rng = np.random.default_rng(0)
    z, labels = rng.dirichlet(np.ones(4), 200), rng.integers(0, 4, 200)
    w = rng.random(200) if weighted else None
    brier = sum(brier_score_loss(labels == k, z[:, k], sample_weight=w) for k in range(4))
    for y in (labels, np.eye(4, dtype=int)[labels]):
        assert metrics.expected_squared_loss(y, z, sample_weight=w) == pytest.approx(
            brier, rel=1e-12
        )
        assert metrics.label_log_loss(y, z, sample_weight=w) == pytest.approx(
            log_loss(labels, z, labels=range(4), sample_weight=w), rel=1e-10
        )
        accuracy = accuracy_score(labels, z.argmax(axis=1), sample_weight=w)
        assert metrics.expected_accuracy(y, z, sample_weight=w) == pytest.approx(
            accuracy, rel=1e-12
        )
        assert metrics.vote_accuracy(y, z, sample_weight=w) == pytest.approx(accuracy, rel=1e-12)


def test_log_losses_of_impossible_labels_are_finite():
    z = [[1.0, 0.0], [1.0, 0.0]]
    eps = np.finfo(float).eps
    assert metrics.label_log_loss([[0, 2], [2, 0]], z) == pytest.approx(-np.log(eps) / 2, rel=1e-12)
    assert metrics.histogram_log_loss([[0, 2], [2, 0]], z) == pytest.approx(-np.log(eps), rel=1e-12)


def test_label_log_loss_is_per_label():
    """Σ_i Σ_k y_ik log z_ik over the number of labels, as of repeated rows."""
    counts, z, _ = case()
    labels, rows = np.nonzero(counts.T)[::-1]
    times = counts[labels, rows]
    single = log_loss(np.repeat(rows, times), z[np.repeat(labels, times)], labels=range(3))
    assert metrics.label_log_loss(counts, z) == pytest.approx(single, rel=1e-10)


@pytest.mark.parametrize("kind", ["point mass", "dirichlet", "ensemble", "dirichlet mixture"])
def test_histogram_log_loss_is_the_mean_log_likelihood(kind):
    d = all_distributions(4, 3)[kind]
    counts, w = np.array([[2, 0, 1], [0, 1, 0], [3, 3, 1], [0, 0, 2]]), [1.0, 2.0, 3.0, 4.0]
    rows = d.log_prob_counts(counts)
    assert metrics.histogram_log_loss(counts, d) == pytest.approx(-rows.mean(), rel=1e-12)
    assert metrics.histogram_log_loss(counts, d, sample_weight=w) == pytest.approx(
        -np.average(rows, weights=w), rel=1e-12
    )


def test_accuracies_by_hand():
    counts = [[3, 1, 0], [1, 1, 0], [0, 2, 2], [0, 0, 5]]
    z = [[0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.4, 0.2, 0.4], [0.5, 0.25, 0.25]]
    expected = [3 / 4, 1 / 2, (0 + 1 / 2) / 2, 0]
    vote = [
        1,
        1 / 2,
        1 / 4,
        0,
    ]  # second: tied votes; third: classes 0, 2 tie for z and 1, 2 for the vote
    assert metrics.expected_accuracy(counts, z) == pytest.approx(np.mean(expected), rel=1e-12)
    assert metrics.vote_accuracy(counts, z) == pytest.approx(np.mean(vote), rel=1e-12)


def test_ties_are_not_broken_to_the_lowest_class():
    """Published code takes the argmax of the histogram.

    So that the order of the classes matters.
    """
    counts, z, _ = case(n=300)
    z = np.round(z, 1) + 1e-9
    z /= z.sum(axis=1, keepdims=True)
    ties = (counts == counts.max(axis=1, keepdims=True)).sum(axis=1) > 1
    assert ties.mean() > 0.1
    for name in ("vote_accuracy", "expected_accuracy"):
        assert ALL[name](counts, z) == pytest.approx(
            ALL[name](counts[:, ::-1], z[:, ::-1]), **EXACT
        )


@pytest.mark.parametrize("raters", [1, 2, 3, 4, 25])
def test_vote_accuracy_depends_on_the_number_of_raters_and_expected_accuracy_does_not(raters):
    """Exact, over all outcomes of raters who say 1 with probability .6.

    P(more than half) + P(half)/2, and .6.
    """
    counts, p = row_outcomes((0.4, 0.6), raters)
    votes = binom(raters, 0.6)
    majority = votes.sf(raters / 2) + (votes.pmf(raters / 2) / 2 if raters % 2 == 0 else 0)
    z = np.full(len(counts), 0.7)
    assert metrics.expected_accuracy(counts, z, sample_weight=p) == pytest.approx(0.6, rel=1e-12)
    assert metrics.vote_accuracy(counts, z, sample_weight=p) == pytest.approx(majority, rel=1e-12)


# Predictions


def test_two_classes_may_be_one_column(metric):
    counts, z, w = case(K=2, n=40)
    column = metric(counts, z[:, 1], sample_weight=w)
    assert column == pytest.approx(
        metric(counts, np.column_stack([1 - z[:, 1], z[:, 1]]), sample_weight=w), **EXACT
    )


def test_a_point_mass_is_its_probabilities(metric):
    counts, z, w = case()
    assert metric(counts, PointMass(z), sample_weight=w) == pytest.approx(
        metric(counts, z, sample_weight=w), **EXACT
    )


@pytest.mark.parametrize("name", ALL)
def test_of_a_distribution_the_mean_counts_unless_disagreement_or_labels_are_predicted(name):
    counts, z, _ = case()
    d = Dirichlet.from_mean(z, 2.0)
    if name in ON_DISTRIBUTIONS:
        assert ALL[name](counts, d) != pytest.approx(ALL[name](counts, z), rel=1e-6)
    else:
        assert ALL[name](counts, d) == pytest.approx(ALL[name](counts, z), **EXACT)


def test_perfect_predictions_have_no_loss():
    z = np.eye(3)[[0, 1, 2, 0]]
    counts = (3 * z).astype(int)
    # a mean score has no best value
    lossy = [n for n in ALL if not tags_of(ALL[n]).greater_is_better and n != "mean_score"]
    for name in lossy:
        assert ALL[name](counts, z) == pytest.approx(0, abs=1e-15), name
    assert metrics.vote_accuracy(counts, z) == metrics.expected_accuracy(counts, z) == 1


def test_float32_predictions_are_read_as_they_are(metric):
    counts, z, w = case()
    z32 = z.astype(np.float32)
    assert metric(counts, z32, sample_weight=w) == metric(
        counts, z32.astype(np.float64), sample_weight=w
    )


@pytest.mark.parametrize("name", [n for n in ALL if not any(n.startswith(b) for b in BINNED)])
def test_float32_predictions_agree_with_float64(name):
    counts, z, w = case()
    value = ALL[name](counts, z.astype(np.float32), sample_weight=w)
    assert value == pytest.approx(ALL[name](counts, z, sample_weight=w), rel=1e-5, abs=1e-6)


def test_errors_are_signed_roots():
    """sign(x)·sqrt|x| of a loss that may be negative."""
    seen = set()
    for seed in range(8):
        counts, z, _ = case(seed, least=2, n=20)
        for kind in ("calibration", "dispersion", "disagreement_calibration"):
            loss, error = (
                getattr(metrics, f"{kind}_loss")(counts, z),
                getattr(metrics, f"{kind}_error")(counts, z),
            )
            assert error * abs(error) == pytest.approx(loss, **EXACT)
            seen.add(np.sign(loss))
    assert seen == {-1, 1}


# Disagreement


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_disagreement_losses_are_the_statistic_losses_of_their_rates(correction):
    counts, z, w = case(n=80)
    d = Dirichlet.from_mean(z, 3.0)
    rate, phi, options = (
        pairwise_disagreement(counts),
        d.disagreement(),
        {"bias_correction": correction},
    )
    own = metrics.statistic_squared_loss(rate, phi, sample_weight=w)
    assert metrics.disagreement_squared_loss(counts, d, sample_weight=w) == pytest.approx(
        own, **EXACT
    )
    own = metrics.statistic_calibration_loss(rate, phi, sample_weight=w, **options)
    assert metrics.disagreement_calibration_loss(
        counts, d, sample_weight=w, **options
    ) == pytest.approx(own, **EXACT)
    rates, phis = class_disagreement(counts), d.class_disagreement()
    squared = [
        metrics.statistic_squared_loss(r, p, sample_weight=w)
        for r, p in zip(rates.T, phis.T, strict=True)
    ]
    assert metrics.class_disagreement_squared_loss(counts, d, sample_weight=w) == pytest.approx(
        np.mean(squared), **EXACT
    )
    calibration = partial(metrics.statistic_calibration_loss, sample_weight=w, **options)
    losses = [calibration(r, p) for r, p in zip(rates.T, phis.T, strict=True)]
    roots = np.mean(np.sign(losses) * np.sqrt(np.abs(losses)))
    assert metrics.class_disagreement_calibration_error(
        counts, d, sample_weight=w, **options
    ) == pytest.approx(roots, **EXACT)


@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_statistic_calibration_loss_against_the_naive_formula(correction, strategy):
    rng = np.random.default_rng(0)
    counts, _, w = case(n=70, least=3)
    rate = u_statistic(counts, lambda c: c.max(axis=1) == 1, 3)
    phi = np.clip(rate * 0.3 + rng.random(70) * 0.6, 0, 1)
    loss, edges = 0.0, edges_of(phi[:, None], STRATEGIES[strategy])[0]
    bins = np.searchsorted(edges[1:-1], phi, side="right")
    for b in np.unique(bins):
        i = bins == b
        loss += naive_bin_loss(rate[i], phi[i], w[i].astype(float), w.sum(), correction)
    value = metrics.statistic_calibration_loss(
        rate, phi, sample_weight=w, bias_correction=correction, **STRATEGIES[strategy]
    )
    assert value == pytest.approx(loss, rel=1e-11, abs=1e-14)
    squared = np.average(rate * (1 - rate) + (rate - phi) ** 2, weights=w)
    assert metrics.statistic_squared_loss(rate, phi, sample_weight=w) == pytest.approx(
        squared, rel=1e-12
    )


def test_rows_without_a_rate_are_left_out():
    rate, phi = [0.5, np.nan, 1.0], [0.4, 0.3, 0.2]
    assert metrics.statistic_squared_loss(rate, phi) == metrics.statistic_squared_loss(
        [0.5, 1.0], [0.4, 0.2]
    )
    with pytest.warns(UndefinedMetricWarning, match="statistic_squared_loss"):
        assert np.isnan(metrics.statistic_squared_loss([np.nan], [0.3]))
    with pytest.warns(UndefinedMetricWarning, match="statistic_calibration_loss"):
        assert np.isnan(metrics.statistic_calibration_loss([np.nan], [0.3]))
