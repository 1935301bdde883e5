"""Intervals for new rows and new raters: the textbook's, by two routes, and their coverage."""

import pickle
import warnings
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from sklearn_lhcal.datasets import make_label_histograms, make_rater_study
from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.label_histogram import Annotations, fleiss_kappa
from sklearn_lhcal.metrics import (
    ConfidenceInterval,
    VarianceComponents,
    calibration_error,
    calibration_loss,
    confidence_interval,
    decision_risk,
    disagreement_squared_loss,
    epistemic_loss,
    expected_accuracy,
    expected_squared_loss,
    histogram_log_loss,
    irreducible_loss,
    label_log_loss,
    paired_difference,
    posterior_epistemic_loss,
)

K = 3
ONE = (expected_squared_loss, label_log_loss, histogram_log_loss, expected_accuracy)
PAIRS = (epistemic_loss, irreducible_loss, disagreement_squared_loss, posterior_epistemic_loss)


def study(n=40, R=6, s=0.5, read=1.0, least=1, seed=0):
    """Annotations by readers with tilts N(0, s²), and a model's probabilities."""
    rng = np.random.default_rng(seed)
    u = np.array([1.0, 0.0, -1.0]) + rng.normal(size=(n, K))
    p = np.exp(u[:, None] + s * rng.normal(size=(R, K)))
    p /= p.sum(axis=2, keepdims=True)
    label = (p.cumsum(axis=2) < rng.random((n, R, 1))).sum(axis=2).clip(max=K - 1)
    order = rng.random((n, R)).argsort(axis=1).argsort(axis=1)
    seen = (rng.random((n, R)) < read) | (order < least)
    row, rater = np.nonzero(seen)
    indptr = np.append(0, np.cumsum(seen.sum(axis=1)))
    z = np.exp(1.3 * u)
    y = Annotations(indptr, rater, label[row, rater], raters=np.arange(R), classes=np.arange(K))
    return y, z / z.sum(axis=1, keepdims=True)


def unknown(metric):
    """The metric as a function that says nothing of itself: it is evaluated again and again."""
    return lambda y, prediction, **options: metric(y, prediction, **options)


# --- against the textbook ---


@pytest.mark.filterwarnings("ignore:There are only 3 raters")
@pytest.mark.parametrize("R", [3, 6])
def test_components_of_a_crossed_mean_are_those_of_the_textbook(R):
    """Squared standard errors of the means of rows and of raters, and of what is within rows."""
    y, z = study(n=60, R=R)
    n = 60
    x = (y.label == z.argmax(axis=1)[y.row]).reshape(n, R)
    found = confidence_interval(expected_accuracy, y, z, n_blocks=n, random_state=0)
    within = ((x - x.mean(axis=1, keepdims=True)) ** 2).sum()
    expected = (
        stats.sem(x.mean(axis=1)) ** 2,
        stats.sem(x.mean(axis=0)) ** 2,
        within / (n**2 * R * (R - 1)),
    )
    assert_allclose(found.components, expected, rtol=1e-10)
    assert found.n_raters == R
    reach = stats.t.ppf(0.975, found.df) * found.standard_error
    assert_allclose(found[1:3], [found.estimate - reach, found.estimate + reach], rtol=1e-12)
    if R > 3:
        # the variance of the raters has a posterior
        return
    V_row, V_rat, V_cell = found.components
    V = V_row + max(V_rat - V_cell, 0)
    assert found.standard_error == pytest.approx(np.sqrt(V), rel=1e-12)
    # Satterthwaite
    df = V**2 / (V_row**2 / (n - 1) + V_rat**2 / (R - 1) + V_cell**2 / (n - 1))
    assert found.df == pytest.approx(df, rel=1e-12)


@pytest.mark.filterwarnings("ignore:.*the standard error (may be too small|is 0)")
def test_blocks_of_raters_are_as_good_as_raters():
    """A hundred in 50 pairs at random: over deals, the variance over raters has the same mean."""
    y, z = study(n=12, R=100)
    x = (y.label == z.argmax(axis=1)[y.row]).reshape(12, 100)
    found = [
        confidence_interval(expected_accuracy, y, z, n_blocks=10, random_state=seed)
        for seed in range(30)
    ]
    over_raters = np.array([one.components.raters for one in found])
    within = 4 * stats.sem(over_raters)
    assert within < 0.2 * over_raters.mean()
    assert over_raters.mean() == pytest.approx(stats.sem(x.mean(axis=0)) ** 2, abs=within)


@pytest.mark.filterwarnings("ignore:.* is biased upwards")
def test_fixed_raters_are_the_interval_of_their_counts():
    y, z = study(read=0.6)
    metrics = expected_squared_loss, irreducible_loss, calibration_loss
    for metric in (*metrics, partial(calibration_loss, p=1)):
        options = {"bias_correction": None} if isinstance(metric, partial) else {}
        fixed, counts = (
            confidence_interval(metric, labels, z, raters="fixed", random_state=0, **options)
            for labels in (y, y.counts)
        )
        # by sums over bins, and by evaluation
        assert_allclose(fixed, counts, rtol=1e-9)
        default = confidence_interval(metric, y.counts, z, random_state=0, **options)
        assert counts == default
        assert fixed.n_raters is None
        assert fixed.df == 39
        assert fixed.components == VarianceComponents(pytest.approx(fixed.standard_error**2))


def test_predictions_of_fixed_raters_have_no_error():
    """Four biased raters read all, and the prediction is their mean: calibrated to them alone."""
    rng = np.random.default_rng(0)
    bias = np.array([-0.2, -0.1, 0.1, 0.3])
    u = rng.uniform(0.3, 0.6, size=(100, 1, 40))
    votes = (rng.random((100, 4, 40)) < u + bias[:, None]).astype(int)
    z = (u + bias[:, None]).mean(axis=1)
    estimates = [
        confidence_interval(
            calibration_loss, Annotations.from_matrix(said), p, raters="fixed", n_blocks=2
        ).estimate
        for said, p in zip(votes.transpose(2, 0, 1), z.T, strict=True)
    ]
    error = stats.sem(estimates)
    assert abs(np.mean(estimates)) < 4 * error
    # what these raters have in common would be taken off for new ones
    assert error < bias.var() / 4


def test_raters_of_a_row_each_leave_the_interval_of_counts_about_as_it_is():
    """Nobody reads twice: raters explain nothing but their own ratings."""
    y, z = study(n=200)
    own = Annotations.from_counts(y.counts)
    found = confidence_interval(irreducible_loss, own, z, random_state=0)
    plain = confidence_interval(irreducible_loss, y.counts, z, random_state=0)
    assert found.n_raters == 1200
    assert found.standard_error == pytest.approx(plain.standard_error, rel=0.1)


# --- two routes ---


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("R", [6, 60])
@pytest.mark.parametrize("metric", [*ONE, *PAIRS])
@pytest.mark.filterwarnings("ignore:.*the standard error (may be too small|is 0)")
def test_sums_agree_with_evaluation(metric, R, grouped):
    """Blocks of one cell: leaving ratings out by sums is evaluating the metric without them.

    With 60 raters these are left out in blocks, which may hold several ratings of a row.
    """
    y, z = study(n=24, R=R, read=6 / R * 0.6, least=1 if metric in ONE else 3)
    rng = np.random.default_rng(0)
    how = {
        "sample_weight": rng.uniform(0.5, 2, 24),
        "groups": rng.integers(0, 9, 24) if grouped else None,
        "n_blocks": len(y.rater),
        "random_state": 0,
    }
    dist = Dirichlet.from_mean(z, 4.0)
    sums, evaluated = (confidence_interval(m, y, dist, **how) for m in (metric, unknown(metric)))
    assert sums.estimate == pytest.approx(evaluated.estimate, rel=1e-9)
    assert_allclose(sums.components, evaluated.components, rtol=1e-9)
    # blocks of 50 raters and all cells by themselves
    sums, evaluated = (
        confidence_interval(m, y, dist, **(how | {"n_blocks": 50}))
        for m in (metric, unknown(metric))
    )
    assert_allclose(sums.components[:2], evaluated.components[:2], rtol=1e-9)


@pytest.mark.filterwarnings("ignore:.*the standard error (may be too small|is 0)")
def test_sums_agree_with_evaluation_for_many_classes():
    """Most of them without a label in most rows."""
    rng = np.random.default_rng(0)
    said = rng.integers(9, size=(20, 6)).astype(object)
    said[:14, 2:] = None
    y, z = Annotations.from_matrix(said, classes=range(9)), rng.dirichlet(np.ones(9), 20)
    for seed in range(3):
        how = {"n_blocks": len(y.rater), "random_state": seed}
        sums, evaluated = (
            confidence_interval(m, y, z, **how) for m in (epistemic_loss, unknown(epistemic_loss))
        )
        assert sums.estimate == pytest.approx(evaluated.estimate, rel=1e-9)
        assert_allclose(sums.components, evaluated.components, rtol=1e-9)


def test_sums_agree_with_evaluation_for_decisions():
    y, z = study(n=30, read=0.5)
    how = {"cost_matrix": 1 - np.eye(K), "n_blocks": len(y.rater), "random_state": 0}
    d = z.argmax(axis=1)
    sums, evaluated = (
        confidence_interval(m, y, d, **how) for m in (decision_risk, unknown(decision_risk))
    )
    assert_allclose(sums.components, evaluated.components, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:.*the standard error (may be too small|is 0)")
def test_intervals_have_the_unit_of_the_costs():
    rng = np.random.default_rng(0)
    y = Annotations.from_matrix(rng.integers(2, size=(20, 6)))
    d, C = rng.integers(2, size=20), np.array([[0.0, 1.0], [3.0, 0.0]])
    how = {"groups": np.arange(20) // 2, "random_state": 0}
    one, many = (
        confidence_interval(decision_risk, y, d, cost_matrix=unit * C, **how) for unit in (1, 1e13)
    )
    assert_allclose(many, 1e13 * np.array(one), rtol=1e-9)


# --- laws ---


def test_order_of_rows_and_names_of_raters_make_no_difference():
    """With a block for each row, nothing is left to chance."""
    y, z = study(n=30, read=0.6)
    rng = np.random.default_rng(1)
    rows, names = rng.permutation(30), rng.permutation(6)
    renamed = Annotations.from_long(
        item=y.row, rater=names[y.rater], label=y.label, classes=np.arange(K)
    )
    how = {"n_blocks": 200, "random_state": 0}
    first = confidence_interval(irreducible_loss, y, z, **how)
    for labels, proba in ((y[rows], z[rows]), (renamed, z)):
        again = confidence_interval(irreducible_loss, labels, proba, **how)
        assert_allclose([*again, again.df], [*first, first.df], rtol=1e-10)


@pytest.mark.parametrize("wrap", [lambda metric: metric, unknown])
@pytest.mark.filterwarnings("ignore:.*the standard error (may be too small|is 0)")
def test_rows_without_ratings_are_dropped_with_all_that_is_theirs(wrap):
    y, z = study(n=40)
    empty = np.arange(40) % 4 == 0
    gaps = y.keep(~empty[y.row])
    w, groups = np.linspace(1, 2, 40), np.arange(40) // 2
    metric = wrap(expected_squared_loss)
    with_gaps = confidence_interval(metric, gaps, z, sample_weight=w, groups=groups, random_state=0)
    without = confidence_interval(
        metric, y[~empty], z[~empty], sample_weight=w[~empty], groups=groups[~empty], random_state=0
    )
    assert_allclose(with_gaps, without, rtol=1e-12)


def test_copies_of_a_rater_do_not_become_raters():
    """Raters who always say the same as another: the variance over raters hardly falls."""
    y, z = study(n=100, R=5, s=1.0, seed=3)
    labels = y.label.reshape(100, 5)
    doubled = Annotations.from_matrix(np.repeat(labels, 2, axis=1), classes=range(K))
    own, twice = (
        confidence_interval(expected_accuracy, labels, z, random_state=0) for labels in (y, doubled)
    )
    assert twice.components.raters < own.components.raters
    assert twice.components.rows == pytest.approx(own.components.rows)


def test_weights_are_shares():
    y, z = study(n=40, read=0.6)
    w = np.random.default_rng(0).uniform(0.2, 3, 40)
    one, ten = (
        confidence_interval(irreducible_loss, y, z, sample_weight=f * w, random_state=0)
        for f in (1, 10)
    )
    assert_allclose(one, ten, rtol=1e-10)
    kept = np.arange(40) < 30
    zeros = confidence_interval(
        irreducible_loss, y, z, sample_weight=w * kept, n_blocks=50, random_state=0
    )
    assert zeros.components.raters == pytest.approx(
        confidence_interval(
            irreducible_loss, y[kept], z[kept], sample_weight=w[kept], random_state=0
        ).components.raters,
        rel=1e-10,
    )


# --- the result ---


def test_an_interval_is_four_numbers_that_know_more():
    y, z = study()
    found = confidence_interval(expected_accuracy, y, z, random_state=0)
    estimate, low, high, error = found
    assert (estimate, low, high, error) == found
    assert found._fields == ("estimate", "low", "high", "standard_error")
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    assert (again.df, again.components, again.n_raters) == (
        found.df,
        found.components,
        found.n_raters,
    )
    bare = ConfidenceInterval(1.0, 0.5, 1.5, 0.2)
    assert (bare.df, bare.components, bare.n_raters) == (None, None, None)


def test_too_few_raters():
    y, z = study(R=2)
    with pytest.raises(ValueError, match='three raters at least, got 2; raters="fixed"'):
        confidence_interval(expected_accuracy, y, z)
    confidence_interval(expected_accuracy, y, z, raters="fixed")
    y, z = study(R=4)
    with pytest.warns(UserWarning, match="only 4 raters"):
        confidence_interval(expected_accuracy, y, z)
    with pytest.warns(UserWarning, match="only 4 raters"):
        paired_difference(expected_accuracy, y, z, z[:, ::-1])
    # raters who have spoken in no row with two raters do not count
    alone = Annotations.from_long(
        item=[*y.row, *range(40, 43)],
        rater=[*y.rater, 7, 8, 9],
        label=[*y.label, 0, 0, 0],
        classes=range(K),
    )
    more = np.concatenate([z, z[:3]])
    with pytest.warns(UserWarning, match="only 4 raters"):
        confidence_interval(irreducible_loss, alone, more)


def test_raters_of_unequal_loads_count_as_fewer():
    """They are worth Kish's (Σ c)²/Σ c² of equal loads, and may look alike by chance."""
    # all readings are alike: no variance over raters, and none to explain
    loads = [90, 90, 20, 5, 5, 5]
    row = np.concatenate([np.arange(load) + first for first, load in enumerate(loads)])
    rater = np.repeat(np.arange(6), loads)
    label = row % 2
    y = Annotations.from_long(row, rater, label, classes=[0, 1])
    z = np.full((len(y), 2), 0.5)
    z[:, 0] = np.where(np.arange(len(y)) < 30, 0.9, 0.4)
    z[:, 1] = 1 - z[:, 0]
    share = np.bincount(y.rater, 1 / y.n[y.row])
    worth = share.sum() ** 2 / (share**2).sum()
    assert worth < 3
    with pytest.warns(UserWarning, match=f"The 6 raters are worth only {worth:.1f} with equal"):
        few = confidence_interval(unknown(expected_accuracy), y, z, random_state=0)
    # they may look alike by chance, and their degrees of freedom count
    assert few.components.raters <= few.components.cells
    effective = (share**2).sum() ** 2 / (share**4).sum()
    rows, raters, cells = few.components
    # blocks of one row and of two
    sizes = np.bincount(np.arange(len(y)) % 50)
    df = sizes.sum() ** 2 / (sizes**2).sum() - 1
    noise = rows**2 / df + raters**2 / (effective - 1) + cells**2 / df
    assert few.df == pytest.approx(max(rows**2 / noise, 2), rel=1e-9)


def test_counts_know_no_raters():
    y, z = study()
    with pytest.raises(ValueError, match="needs to know who gave each label"):
        confidence_interval(expected_accuracy, y.counts, z, raters="random")
    with pytest.raises(ValueError, match="raters must be"):
        confidence_interval(expected_accuracy, y, z, raters="both")


# --- paired differences ---


def test_paired_differences_of_means_agree_with_evaluation():
    y, z = study(n=24, read=0.7, least=3)
    other = z[:, [1, 0, 2]]
    how = {"n_blocks": len(y.rater), "random_state": 0}
    for metric in (expected_squared_loss, epistemic_loss):
        sums, evaluated = (
            paired_difference(m, y, z, other, **how) for m in (metric, unknown(metric))
        )
        assert sums.estimate == pytest.approx(evaluated.estimate, rel=1e-8)
        assert_allclose(sums.components, evaluated.components, rtol=1e-8)
    swapped = paired_difference(epistemic_loss, y, other, z, **how)
    assert_allclose([swapped.low, swapped.high], [-sums.high, -sums.low], rtol=1e-8)


@pytest.mark.parametrize("known", [True, False])
def test_differences_of_roots_are_made_of_mapped_intervals(known):
    y, z = study(n=150)
    labels = y if known else y.counts
    other = z**2 / (z**2).sum(axis=1, keepdims=True)
    how = {"n_bins": 4, "random_state": 0}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "More than 5%")
        difference = partial(paired_difference, calibration_error, labels, **how)
        found = difference(z, other)
        a, b = (confidence_interval(calibration_error, labels, p, **how) for p in (z, other))
        same = difference(z, z)
        swapped = difference(other, z)
    assert found.estimate == pytest.approx(a.estimate - b.estimate, abs=1e-12)
    assert found.low < found.estimate < found.high
    # no wider than of two errors that know nothing of each other
    assert found.low >= a.low - b.high
    assert found.high <= a.high - b.low
    assert_allclose(swapped[:3], [-found.estimate, -found.high, -found.low], atol=1e-12)
    assert_allclose(same, 0, atol=1e-7)


def test_differences_of_large_roots_are_those_of_evaluation():
    """Far from 0 a root is a straight line: the two routes differ by 1 % or 2 % at 600 rows."""
    data = make_label_histograms(600, n_raters=3, overconfidence=2.0, random_state=0)
    z, how = data.prediction, {"n_blocks": 20, "random_state": 0}
    ends = []
    for metric in (calibration_error, unknown(calibration_error)):
        found = paired_difference(metric, data.counts, z, z[:, [1, 2, 0]], n_bins=5, **how)
        ends.append(found[1:3])
    assert np.ptp(ends[0]) == pytest.approx(np.ptp(ends[1]), rel=0.1)


def test_against_a_reference_without_error_a_root_is_mapped_as_by_itself():
    """All labels as predicted: the second error is 0 without any spread."""
    y = np.random.default_rng(0).integers(0, 2, 200)
    sure = np.eye(2)[y]
    z = 0.8 * sure + 0.1
    how = {"n_bins": 4, "random_state": 0}
    found = paired_difference(calibration_error, y, z, sure, **how)
    # of a function without tags, whose interval is Student's however few labels speak
    alone = np.array(confidence_interval(unknown(calibration_loss), y, z, **how)[:3])
    assert_allclose(found[:3], np.sign(alone) * np.sqrt(np.abs(alone)), rtol=1e-6)


# --- coverage ---


def test_intervals_over_raters_cover_where_those_over_rows_do_not():
    """Nominal .95, five readers who differ much read all samples."""
    runs = 150
    truth = irreducible_loss(*truth_of(0.8))
    covered = np.zeros(2)
    for seed in range(runs):
        y, z = study(n=150, R=5, s=0.8, seed=seed)
        for k, raters in enumerate(("random", "fixed")):
            found = confidence_interval(irreducible_loss, y, z, raters=raters, random_state=seed)
            covered[k] += found.low <= truth <= found.high
    random, fixed = covered / runs
    error = np.sqrt(0.93 * 0.07 / runs)
    assert random >= 0.93 - 2.5 * error
    assert fixed < 0.85


def truth_of(s, n=40_000):
    """Counts where each row has readers of its own."""
    rng = np.random.default_rng(10**6)
    u = np.array([1.0, 0.0, -1.0]) + rng.normal(size=(n, K))
    counts = np.zeros((n, K), dtype=int)
    for _ in range(5):
        p = np.exp(u + s * rng.normal(size=(n, K)))
        p /= p.sum(axis=1, keepdims=True)
        label = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=K - 1)
        counts[np.arange(n), label] += 1
    return counts, None


def test_any_function_of_annotations_has_an_interval():
    y, _ = study(n=40, R=5)
    found = confidence_interval(
        lambda y, prediction: fleiss_kappa(y), y, None, n_blocks=20, random_state=0
    )
    assert found.n_raters == 5
    assert found.low < fleiss_kappa(y) < found.high


@pytest.mark.filterwarnings("ignore:There are only 4 raters")
@pytest.mark.parametrize("n_raters", [4, 5])
def test_few_raters_who_look_alike_still_count(n_raters):
    """Where they differ no more than their ratings would: always in a mean, else below five."""
    y = make_rater_study(100, n_raters, rater_std=0.0, slope_std=0.0, random_state=0).y
    assert 2 < confidence_interval(irreducible_loss, y, None, random_state=0).df < 10
    found = confidence_interval(unknown(irreducible_loss), y, None, random_state=0)
    assert found.components.raters < found.components.cells
    if n_raters < 5:
        assert 2 <= found.df < 10
    else:
        assert found.df == pytest.approx(49)


@pytest.mark.slow
def test_degrees_of_freedom_are_two_at_least():
    """With few readings a row an excess of raters is a small difference of large variances."""
    found = []
    for seed in range(12):
        how = {"design": "partial", "per_row": 3, "rater_std": 0.3, "random_state": seed}
        y = make_rater_study(150, 6, **how).y
        metric = unknown(irreducible_loss)
        found.append(confidence_interval(metric, y, None, random_state=seed).df)
    assert min(found) == 2
    # more than that where the variance says so
    assert sum(df > 2 for df in found) > 6


def test_pairs_of_ratings_need_rows_with_two():
    y = make_rater_study(30, 5, design="nested", random_state=0).y
    with pytest.raises(ValueError, match="got 0 with samples of 2 labels or more"):
        confidence_interval(irreducible_loss, y, None)
