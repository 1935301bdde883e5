"""Laws of the metrics, and their numbers against scikit-learn and the formulas written naively."""

import inspect
import warnings
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import (
    all_distributions,
    naive_bin_loss,
    naive_decomposition,
    random_proba,
    row_outcomes,
)
from scipy.stats import binom
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss

from sklearn_lhcal import metrics
from sklearn_lhcal.distributions import Dirichlet, DirichletMixture, PointMass
from sklearn_lhcal.label_histogram import (
    KnownProbabilities,
    class_disagreement,
    pairwise_disagreement,
    u_statistic,
)

EXACT = {"rel": 1e-12, "abs": 1e-14}

PLAIN = {
    name: getattr(metrics, name)
    for name in (
        "expected_squared_loss",
        "label_log_loss",
        "histogram_log_loss",
        "expected_accuracy",
        "vote_accuracy",
        "disagreement_squared_loss",
        "class_disagreement_squared_loss",
        "posterior_epistemic_loss",
    )
}
CORRECTED = {
    name: getattr(metrics, name)
    for name in (
        "epistemic_loss",
        "irreducible_loss",
        "calibration_loss",
        "calibration_error",
        "dispersion_loss",
        "dispersion_error",
        "disagreement_calibration_loss",
        "disagreement_calibration_error",
        "class_disagreement_calibration_error",
    )
}
CORRECTIONS = ("residual", "label", None)
ALL = PLAIN | {
    f"{name} {correction}": partial(metric, bias_correction=correction)
    for name, metric in CORRECTED.items()
    for correction in CORRECTIONS
}
BINNED = {name: m for name, m in CORRECTED.items() if "n_bins" in inspect.signature(m).parameters}
NEEDS_TWO = {
    name: metric
    for name, metric in ALL.items()
    if "disagreement" in name
    or "posterior" in name
    or (name.startswith(("epistemic", "irreducible", "dispersion")) and "None" not in name)
}
ON_DISTRIBUTIONS = [
    n for n in ALL if "disagreement" in n or n in ("histogram_log_loss", "posterior_epistemic_loss")
]


def case(seed=0, n=60, K=3, least=1):
    """Counts of `least` to 5 raters a row, predictions, integer weights; Q correlates with z."""
    rng = np.random.default_rng(seed)
    z = rng.dirichlet(np.ones(K), n)
    raters = rng.integers(least, 6, n)
    counts = np.array(
        [rng.multinomial(m, 0.7 * p + 0.3 / K) for m, p in zip(raters, z, strict=True)]
    )
    return counts, z, rng.integers(1, 4, n)


@pytest.fixture(params=ALL)
def metric(request):
    return ALL[request.param]


# The decomposition


EDGES = [0.0, 0.05, 0.3, 0.31, 0.9, 1.0]
STRATEGIES = {
    "uniform 15": {},
    "uniform 1": {"n_bins": 1},
    "uniform 200": {"n_bins": 200},  # most bins with a row or none
    "quantile 4": {"n_bins": 4, "strategy": "quantile"},
    "given edges": {"n_bins": EDGES},
}


def edges_of(z, options):
    """Edges of each class, from the definition."""
    n_bins = options.get("n_bins", 15)
    if np.ndim(n_bins):
        return [np.array(n_bins)] * z.shape[1]
    if options.get("strategy") == "quantile":
        return [np.unique(np.quantile(column, np.linspace(0, 1, n_bins + 1))) for column in z.T]
    return [np.linspace(0, 1, n_bins + 1)] * z.shape[1]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("K", [2, 4])
def test_decomposition_against_the_naive_formulas(strategy, correction, weighted, K):
    options = STRATEGIES[strategy]
    counts, z, w = case(K, K=K)
    w = w + 0.5 if weighted else np.ones(len(z))
    used = counts.sum(axis=1) >= (1 if correction is None else 2)
    parts = metrics.loss_decomposition(
        counts, z, bias_correction=correction, sample_weight=w if weighted else None, **options
    )
    L, EL, IL, CL = naive_decomposition(counts, z, w, edges_of(z[used], options), correction)
    B = EL.shape[1]
    close = partial(np.testing.assert_allclose, rtol=1e-11, atol=1e-14)
    close(parts.class_expected_squared_loss, L)
    close(parts.class_irreducible_loss, IL)
    close(parts.bin_epistemic_loss[:, :B], EL)
    close(parts.bin_calibration_loss[:, :B], CL)
    close(parts.bin_dispersion_loss[:, :B], EL - CL)
    assert parts.n_rows == used.sum()


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(2, 5),
    st.integers(1, 30),
    st.sampled_from(CORRECTIONS),
    st.sampled_from(list(STRATEGIES)),
    st.booleans(),
)
def test_the_parts_add_up(seed, K, n, correction, strategy, weighted):
    """L = EL + IL and EL = CL + DL, exactly, in total, per class and per bin.

    On one row set with mixed n_i.
    """
    counts, z, w = case(seed, n=n, K=K)
    counts[0, 0] += 2
    w = w * 0.3 if weighted else None
    p = metrics.loss_decomposition(
        counts, z, bias_correction=correction, sample_weight=w, **STRATEGIES[strategy]
    )
    close = partial(np.testing.assert_allclose, rtol=1e-11, atol=1e-13)
    close(p.expected_squared_loss, p.epistemic_loss + p.irreducible_loss)
    close(p.epistemic_loss, p.calibration_loss + p.dispersion_loss)
    close(p.class_expected_squared_loss, p.class_epistemic_loss + p.class_irreducible_loss)
    close(p.class_epistemic_loss, p.class_calibration_loss + p.class_dispersion_loss)
    close(p.bin_epistemic_loss, p.bin_calibration_loss + p.bin_dispersion_loss)
    for part in ("epistemic_loss", "calibration_loss", "dispersion_loss"):
        close(getattr(p, f"bin_{part}").sum(axis=1), getattr(p, f"class_{part}"))
    for part in (
        "expected_squared_loss",
        "irreducible_loss",
        "epistemic_loss",
        "calibration_loss",
        "dispersion_loss",
    ):
        close(getattr(p, f"class_{part}").sum(), getattr(p, part))
    close(p.bin_weight.sum(axis=1), 1)
    if correction is None:
        assert (p.bin_dispersion_loss > -1e-13).all()


@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("weighted", [False, True])
def test_decomposition_holds_the_metrics_of_its_rows(correction, weighted):
    counts, z, w = case(n=200)
    w = w / 7 if weighted else np.ones(len(z))
    kept = counts.sum(axis=1) >= (1 if correction is None else 2)
    assert not kept.all() or correction is None
    p = metrics.loss_decomposition(counts, z, bias_correction=correction, sample_weight=w)
    own = {"sample_weight": w[kept]}
    corrected = {"bias_correction": correction, **own}
    y, q = counts[kept], z[kept]
    assert p.expected_squared_loss == pytest.approx(
        metrics.expected_squared_loss(y, q, **own), **EXACT
    )
    assert p.epistemic_loss == pytest.approx(metrics.epistemic_loss(y, q, **corrected), **EXACT)
    assert p.irreducible_loss == pytest.approx(metrics.irreducible_loss(y, q, **corrected), **EXACT)
    assert p.calibration_loss == pytest.approx(metrics.calibration_loss(y, q, **corrected), **EXACT)
    assert p.dispersion_loss == metrics.dispersion_loss(
        counts, z, bias_correction=correction, sample_weight=w
    )


def test_calibration_loss_alone_uses_rows_with_one_rater():
    counts, z, w = case(n=100)
    loss, mu = 0.0, counts / counts.sum(axis=1, keepdims=True)
    for k, b in product(range(3), range(15)):
        i = np.minimum((z[:, k] * 15).astype(int), 14) == b
        if i.any():
            loss += naive_bin_loss(mu[i, k], z[i, k], w[i].astype(float), w.sum(), "residual")
    assert metrics.calibration_loss(counts, z, sample_weight=w) == pytest.approx(loss, **EXACT)
    assert metrics.loss_decomposition(counts, z, sample_weight=w).calibration_loss != pytest.approx(
        loss, rel=1e-6
    )


def test_uniform_bins_follow_the_floor_of_z_times_n_bins():
    """A value at an inner edge belongs to the bin above, 1 to the last bin."""
    z = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    parts = metrics.loss_decomposition(np.ones((6, 2), int), np.column_stack([z, 1 - z]), n_bins=5)
    np.testing.assert_allclose(parts.bin_weight[0], np.array([1, 1, 1, 1, 2]) / 6)
    np.testing.assert_allclose(parts.bin_edges, np.tile(np.linspace(0, 1, 6), (2, 1)))
    np.testing.assert_allclose(parts.bin_mean_proba[0], [0, 0.2, 0.4, 0.6, 0.9])
    np.testing.assert_allclose(parts.bin_mean_frequency[0], 0.5)


def test_empty_bins_have_no_means_and_no_loss():
    parts = metrics.loss_decomposition([[1, 1], [1, 1]], [[0.5, 0.5]] * 2, n_bins=3)
    np.testing.assert_array_equal(np.isnan(parts.bin_mean_proba), [[True, False, True]] * 2)
    np.testing.assert_array_equal(np.isnan(parts.bin_mean_frequency), [[True, False, True]] * 2)
    np.testing.assert_array_equal(parts.bin_calibration_loss[:, [0, 2]], 0)


def test_equal_quantile_edges_are_merged():
    z = np.array([0.1] * 8 + [0.5, 0.9])
    counts = np.array([[1, 1]] * 10)
    parts = metrics.loss_decomposition(
        counts, np.column_stack([z, 1 - z]), n_bins=5, strategy="quantile"
    )
    edges = np.unique(np.quantile(z, np.linspace(0, 1, 6)))
    assert len(edges) < 6
    np.testing.assert_allclose(parts.bin_edges[0][: len(edges)], edges)
    assert np.isnan(parts.bin_edges[0][len(edges) :]).all()
    assert (parts.bin_weight[0][: len(edges) - 1] > 0).all()


def test_constant_predictions_fall_into_one_quantile_bin():
    counts, _, _ = case(n=20)
    z = np.tile([0.5, 0.3, 0.2], (20, 1))
    for correction in CORRECTIONS:
        quantile = metrics.calibration_loss(
            counts, z, strategy="quantile", bias_correction=correction
        )
        one = metrics.calibration_loss(counts, z, n_bins=1, bias_correction=correction)
        assert quantile == pytest.approx(one, **EXACT)


def test_values_outside_the_given_edges_belong_to_the_outer_bins():
    counts, z, _ = case()
    inner = metrics.calibration_loss(counts, z, n_bins=[0.2, 0.5, 0.7])
    assert inner == pytest.approx(metrics.calibration_loss(counts, z, n_bins=[0, 0.5, 1]), **EXACT)


@pytest.mark.parametrize("correction", ["residual", "label"])
def test_a_bin_with_one_row_contributes_nothing_and_breaks_nothing(correction):
    """Published code: the bias of such a bin is NaN and skipped, so that EL ≠ CL + DL."""
    z = np.array([[0.1, 0.9], [0.12, 0.88], [0.55, 0.45]])
    counts = [[2, 1], [0, 3], [1, 1]]
    p = metrics.loss_decomposition(counts, z, n_bins=2, bias_correction=correction)
    assert p.bin_calibration_loss[0, 1] == 0
    assert p.bin_calibration_loss[0, 0] != 0
    assert p.bin_epistemic_loss[0, 1] == p.bin_dispersion_loss[0, 1] != 0
    assert p.epistemic_loss == pytest.approx(p.calibration_loss + p.dispersion_loss, **EXACT)


def test_blocks_do_not_show():
    """More rows than a block holds: sums equal those of the plain formula."""
    rng = np.random.default_rng(0)
    z = rng.dirichlet(np.ones(3), 20_001)
    counts = rng.integers(0, 3, (20_001, 3)) + 1
    w = rng.random(20_001)
    L, EL, IL, CL = naive_decomposition(counts, z, w, [np.linspace(0, 1, 16)] * 3, None)
    p = metrics.loss_decomposition(counts, z, sample_weight=w, bias_correction=None)
    for value, expected in zip(p[:4], (L, EL, IL, CL), strict=True):
        assert value == pytest.approx(expected.sum(), rel=1e-11)
    assert metrics.expected_squared_loss(counts, z, sample_weight=w) == pytest.approx(
        L.sum(), rel=1e-11
    )


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
    """A calibrated predictor, half the rows with one rater, half with five.

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


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_a_bin_with_nearly_all_weight_on_one_row(correction):
    """The formula as long as it can be computed.

    Then the bin counts as one with one row, never inf or NaN.
    """
    counts, z, _ = case(n=5)
    mu = counts / counts.sum(axis=1, keepdims=True)
    for tiny in (1e-3, 1e-5):
        w = np.array([1.0, tiny, tiny, tiny, 2 * tiny])
        naive = sum(naive_bin_loss(mu[:, k], z[:, k], w, w.sum(), correction) for k in range(3))
        loss = metrics.calibration_loss(
            counts, z, n_bins=1, sample_weight=w, bias_correction=correction
        )
        assert loss == pytest.approx(naive, rel=1e-6)
    plugin = ((mu - z)[0] ** 2).sum()
    for tiny in (1e-14, 1e-20, 1e-160, 1e-300):
        w = np.array([1.0, tiny, tiny, tiny, tiny])
        loss = metrics.calibration_loss(
            counts, z, n_bins=1, sample_weight=w, bias_correction=correction
        )
        assert loss == pytest.approx(plugin if correction is None else 0, rel=1e-12)
        many = metrics.calibration_loss(
            counts, z, n_bins=50, sample_weight=w, bias_correction=correction
        )
        assert many == pytest.approx(plugin if correction is None else 0, rel=1e-12)


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
    with pytest.warns(UndefinedMetricWarning, match="no row with a positive weight has 2 raters"):
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
    zero = [n for n in ALL if not n.endswith("accuracy")]
    for name in zero:
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


# Weights, order, known probabilities


REPETITION = [n for n in ALL if n in PLAIN or n.endswith("None")]
REPETITION += ["epistemic_loss residual", "irreducible_loss residual"]


@pytest.mark.parametrize("name", REPETITION)
def test_weights_are_repetition(name):
    """Of plugins, of log losses, and of means over rows."""
    counts, z, w = case()
    repeated = np.repeat(np.arange(len(z)), w)
    assert ALL[name](counts, z, sample_weight=w) == pytest.approx(
        ALL[name](counts[repeated], z[repeated]), **EXACT
    )


@pytest.mark.parametrize("name", ["calibration_loss", "disagreement_calibration_loss"])
@pytest.mark.parametrize("correction", ["residual", "label"])
def test_weights_are_not_repetition_where_rows_are_corrected(name, correction):
    """Repeated rows would undo the correction."""
    counts, z, w = case(least=2)
    loss = partial(CORRECTED[name], bias_correction=correction)
    repeated = np.repeat(np.arange(len(z)), w)
    assert loss(counts[repeated], z[repeated]) > loss(counts, z, sample_weight=w) + 1e-4


def test_weights_have_no_scale(metric):
    counts, z, w = case()
    value = metric(counts, z, sample_weight=w)
    for scale in (1e-200, 1e-3, 0.7, 1e6, 1e150):
        assert metric(counts, z, sample_weight=w * scale) == pytest.approx(
            value, rel=1e-11, abs=1e-13
        )


def test_equal_weights_are_no_weights(metric):
    counts, z, _ = case()
    for w in (np.ones(len(z)), np.full(len(z), 0.3), 2.0):
        assert metric(counts, z, sample_weight=w) == pytest.approx(
            metric(counts, z), rel=1e-11, abs=1e-13
        )


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 5), st.booleans())
def test_order_of_rows_and_classes_does_not_matter(seed, K, distributions):
    counts, z, w = case(seed, n=25, K=K, least=2)
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(25), rng.permutation(K)
    total = rng.uniform(0.5, 9, 25)
    for name, metric in ALL.items():
        a, b = z, z[rows][:, columns]
        if distributions:
            a, b = Dirichlet.from_mean(a, total), Dirichlet.from_mean(b, total[rows])
        value = metric(counts, a, sample_weight=w)
        permuted = metric(counts[rows][:, columns], b, sample_weight=w[rows])
        assert permuted == pytest.approx(
            value, rel=1e-9, abs=1e-10 if "error" not in name else 1e-6
        ), name


def test_repeated_calls_agree_and_leave_the_input_alone(metric):
    """Read-only arrays go in, equal copies come out."""
    counts, z, w = case()
    w = w.astype(float)
    copies = [a.copy() for a in (counts, z, w)]
    for a in (counts, z, w):
        a.flags.writeable = False
    assert metric(counts, z, sample_weight=w) == metric(counts, z, sample_weight=w)
    for a, copy in zip((counts, z, w), copies, strict=True):
        np.testing.assert_array_equal(a, copy)


KNOWN = [n for n in ALL if n != "histogram_log_loss"]


@pytest.mark.parametrize("name", [n for n in KNOWN if n in PLAIN or n.endswith("None")])
def test_known_probabilities_are_the_limit_of_many_raters(name):
    Q = np.random.default_rng(0).integers(1, 8, (30, 3))
    Q[:, 2] = 20 - Q[:, 0] - Q[:, 1]
    z = case(n=30)[1]
    many = ALL[name](Q * 10**8, z)
    known = ALL[name](KnownProbabilities(Q / 20), z)
    assert known == pytest.approx(many, rel=1e-7, abs=1e-8 if "error" not in name else 1e-4)


@pytest.mark.parametrize("name", CORRECTED)
def test_known_probabilities_need_no_correction(name):
    _, z, w = case()
    Q = KnownProbabilities(random_proba(np.random.default_rng(1), len(z), 3))
    values = [CORRECTED[name](Q, z, sample_weight=w, bias_correction=c) for c in CORRECTIONS]
    assert values[0] == values[1] == values[2]


def test_known_probabilities_by_hand():
    Q, z = np.array([[0.5, 0.5], [0.9, 0.1]]), np.array([[0.4, 0.6], [0.4, 0.6]])
    known = KnownProbabilities(Q)
    assert metrics.epistemic_loss(known, z) == pytest.approx((2 * 0.01 + 2 * 0.25) / 2, rel=1e-12)
    assert metrics.irreducible_loss(known) == pytest.approx((0.5 + 0.18) / 2, rel=1e-12)
    assert metrics.calibration_loss(known, z) == pytest.approx(2 * 0.3**2, rel=1e-12)
    assert metrics.dispersion_loss(known, z) == pytest.approx(0.26 - 0.18, rel=1e-12)
    assert metrics.label_log_loss(known, z) == pytest.approx(
        -(0.7 * np.log(0.4) + 0.3 * np.log(0.6)), rel=1e-12
    )
    assert metrics.expected_accuracy(known, z) == pytest.approx(0.3, rel=1e-12)
    assert metrics.vote_accuracy(known, z) == pytest.approx(0.25, rel=1e-12)
    parts = metrics.loss_decomposition(known, z)
    assert parts.expected_squared_loss == pytest.approx(
        parts.epistemic_loss + parts.irreducible_loss, **EXACT
    )


# Every form of input


NAMES = ["a", "b", "c"]
FORMS = {
    "list": lambda c: c.tolist(),
    **{
        t: lambda c, t=t: c.astype(t)
        for t in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "uint64")
    },
    "float64": lambda c: c.astype(float),
    "float32": lambda c: c.astype(np.float32),
    "fortran": np.asfortranarray,
    "strided": lambda c: np.repeat(c, 2, axis=0)[::2],
    "csr matrix": sp.csr_matrix,
    "csr array": sp.csr_array,
    "pandas": lambda c: pd.DataFrame(c, columns=NAMES),
    "pandas Int64": lambda c: pd.DataFrame(c, columns=NAMES, dtype="Int64"),
    "polars": lambda c: pl.DataFrame(c, schema=NAMES, orient="row"),
}


@pytest.mark.parametrize("form", FORMS)
def test_counts_in_every_form_give_equal_results(form):
    """Counts up to 120, which uint8 and int8 products would overflow."""
    rng = np.random.default_rng(0)
    counts, z, w = (
        rng.integers(0, 120, (30, 3)) + np.eye(3, dtype=int)[0],
        random_proba(rng, 30, 3),
        rng.random(30),
    )
    d = DirichletMixture(np.stack([z, z[::-1]]), np.full((2, 30), 3.0))
    for name, metric in ALL.items():
        for prediction in (z, d):
            assert metric(FORMS[form](counts), prediction) == metric(counts, prediction), name
            value = metric(FORMS[form](counts), prediction, sample_weight=w)
            assert value == metric(counts, prediction, sample_weight=w), name
    assert metrics.irreducible_loss(FORMS[form](counts)) == metrics.irreducible_loss(counts)
    for value, expected in zip(
        metrics.loss_decomposition(FORMS[form](counts), z),
        metrics.loss_decomposition(counts, z),
        strict=True,
    ):
        np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, float])
def test_one_hot_counts_and_labels_agree(dtype):
    _, z, _ = case()
    labels = np.random.default_rng(0).integers(0, 2, len(z))  # the third class never occurs
    for name in (n for n in ALL if n not in NEEDS_TWO):
        one_hot = ALL[name](np.eye(3)[labels].astype(dtype), z)
        for y in (
            labels,
            labels.tolist(),
            labels.astype(np.uint8),
            labels.astype(float),
            pd.Series(labels),
        ):
            assert ALL[name](y, z) == one_hot, name


def test_boolean_labels_are_the_two_columns():
    p = np.array([0.2, 0.9, 0.4])
    assert metrics.expected_squared_loss([False, True, True], p) == metrics.expected_squared_loss(
        [0, 1, 1], p
    )


def test_names_are_sorted_where_all_occur():
    z = np.array([[0.2, 0.8], [0.7, 0.3]])
    assert metrics.label_log_loss(["dog", "cat"], z) == metrics.label_log_loss([1, 0], z)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_on_both_sides_are_matched_by_name(frame):
    counts, z, _ = case()
    y, named = (frame(dict(zip(NAMES, a.T, strict=True))) for a in (counts, z))
    shuffled = frame({NAMES[k]: z[:, k] for k in (2, 0, 1)})
    for name, metric in ALL.items():
        expected = pytest.approx(metric(counts, z), **EXACT)
        assert metric(y, named) == expected, name
        assert metric(y, shuffled) == expected, name
        assert metric(y, z) == expected, name
        with pytest.raises(ValueError, match="not sorted"):
            metric(counts, shuffled)


def test_names_of_labels_are_looked_up_in_a_frame():
    z = pd.DataFrame([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]], columns=["c", "a", "b"])
    assert metrics.label_log_loss(["b", "c"], z) == metrics.label_log_loss([2, 0], z.to_numpy())


PREDICTIONS = {
    "list": np.ndarray.tolist,
    "fortran": np.asfortranarray,
    "object": lambda z: z.astype(object),
    "pandas": pd.DataFrame,
    "polars": lambda z: pl.DataFrame(z, schema=NAMES, orient="row"),
}


@pytest.mark.parametrize("form", PREDICTIONS)
def test_predictions_in_every_form_give_equal_results(form):
    counts, z, _ = case()
    for name, metric in ALL.items():
        assert metric(counts, PREDICTIONS[form](z)) == pytest.approx(metric(counts, z), **EXACT), (
            name
        )
