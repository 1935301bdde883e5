"""Jackknife intervals and the accumulator.

Intervals against the textbook, with groups, and their coverage.
"""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import accuracy_score

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.label_histogram import Annotations, KnownProbabilities
from sklearn_lhcal.metrics import (
    MetricAccumulator,
    bayes_decision,
    calibration_error,
    calibration_loss,
    class_disagreement_calibration_error,
    confidence_interval,
    decision_risk,
    disagreement_calibration_error,
    disagreement_squared_loss,
    dispersion_error,
    epistemic_loss,
    expected_accuracy,
    expected_calibration_error,
    expected_squared_loss,
    histogram_log_loss,
    interval_over_splits,
    irreducible_loss,
    kernel_calibration_error,
    label_log_loss,
    loss_decomposition,
    maximum_calibration_error,
    paired_difference,
    posterior_epistemic_loss,
    risk_bound,
)


@pytest.fixture
def data():
    return make_label_histograms(200, n_raters=(2, 5), total=4.0, random_state=0)


def test_over_splits_is_students_interval_with_room_for_rows_that_they_share():
    """Nadeau and Bengio (2003): 1/S of the variance, and q/(1 − q) more for shared rows."""
    x = np.array([0.3, 0.1, 0.4, 0.15])
    alone = interval_over_splits(x)
    assert_allclose(alone[1:3], stats.t.interval(0.95, 3, x.mean(), stats.sem(x)), rtol=1e-12)
    shared = interval_over_splits(x, test_fraction=0.2)
    assert shared.df == alone.df == 3
    assert shared.standard_error == pytest.approx(x.std(ddof=1) * np.sqrt(1 / 4 + 0.2 / 0.8))
    with pytest.raises(ValueError, match="between -1e150 and 1e150"):
        interval_over_splits([1.0, -1e151])


@pytest.mark.parametrize("metric", [calibration_error, epistemic_loss])
def test_options_that_a_metric_lacks_are_refused(metric, data):
    with pytest.raises(TypeError, match=f"{metric.__name__} has no option 'kind'"):
        confidence_interval(metric, data.counts, data.prediction, kind=1)


def test_of_a_mean_is_students_interval(data):
    """With one row a block the jackknife of a mean is the textbook's."""
    interval = confidence_interval(
        expected_accuracy, data.counts, data.prediction, n_blocks=200, confidence_level=0.9
    )
    hits = (data.counts / data.counts.sum(axis=1, keepdims=True))[
        np.arange(200), data.prediction.argmax(axis=1)
    ]
    low, high = stats.t.interval(0.9, 199, hits.mean(), stats.sem(hits))
    assert_allclose(interval, [hits.mean(), low, high, stats.sem(hits)], rtol=1e-9)


def test_of_a_grouped_mean_is_the_clustered_interval():
    """Equal groups: the jackknife over groups is the interval of the means of groups."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 5)
    p = np.repeat(rng.random(40), 5)
    y = (rng.random(200) < p).astype(int)
    interval = confidence_interval(
        expected_accuracy, y, np.full(200, 0.9), groups=groups, confidence_level=0.9
    )
    means = y.reshape(40, 5).mean(axis=1)
    low, high = stats.t.interval(0.9, 39, means.mean(), stats.sem(means))
    assert_allclose(interval, [means.mean(), low, high, stats.sem(means)], rtol=1e-9)
    rows = confidence_interval(
        expected_accuracy, y, np.full(200, 0.9), n_blocks=200, confidence_level=0.9
    )
    assert rows.standard_error < 0.75 * interval.standard_error  # dependent rows are not so many


def test_unequal_groups_are_dealt_evenly_and_never_split():
    """By what a metric is shown: all samples, and those without a block, for each of five."""
    rng = np.random.default_rng(0)
    groups = rng.choice(list("abcdefghijklmnop"), 300, p=np.arange(1, 17) / 136)
    shown = []

    def metric(y, prediction, sample_weight=None):
        kept = np.ones(len(y)) if sample_weight is None else sample_weight
        shown.append(set(prediction[kept > 0, 0]))
        return 0.0

    z = np.arange(300) / 300
    confidence_interval(
        metric, z < 0.5, np.column_stack([z, 1 - z]), groups=groups, n_blocks=5, random_state=0
    )
    blocks = [set(z) - rows for rows in shown if len(rows) < 300]
    assert len(blocks) == 5
    assert set().union(*blocks) == set(z)
    for g in set(groups):
        assert sum(not block.isdisjoint(z[groups == g]) for block in blocks) == 1
    assert np.ptp([len(block) for block in blocks]) < 30


def test_signed_roots_are_mapped(data):
    loss = confidence_interval(calibration_loss, data.counts, data.prediction, random_state=0)
    error = confidence_interval(calibration_error, data.counts, data.prediction, random_state=0)
    assert_allclose(np.abs(error[:3]) ** 2 * np.sign(error[:3]), loss[:3])
    bound = confidence_interval(
        partial(calibration_error, n_bins=10), data.counts, data.prediction, random_state=0
    )
    assert bound == confidence_interval(
        calibration_error, data.counts, data.prediction, random_state=0, n_bins=10
    )


@pytest.mark.parametrize("bias_correction", ["residual", "second_order"])
def test_roots_of_corrected_kernel_errors_are_mapped(bias_correction, data):
    options = {"bandwidth": 0.1, "bias_correction": bias_correction, "p": 2}
    loss, error = (
        confidence_interval(
            kernel_calibration_error,
            data.counts,
            data.prediction,
            random_state=0,
            n_blocks=20,
            root=root,
            **options,
        )
        for root in (False, True)
    )
    assert loss.low < 0
    assert_allclose(np.abs(error[:3]) ** 2 * np.sign(error[:3]), loss[:3])


def test_paired_difference_is_narrower_than_the_metrics(data):
    other = 0.9 * data.prediction + 0.1 / 3
    both = paired_difference(
        expected_squared_loss, data.counts, data.prediction, other, random_state=0
    )
    one, two = (
        confidence_interval(expected_squared_loss, data.counts, p, random_state=0)
        for p in (data.prediction, other)
    )
    assert_allclose(both.estimate, one.estimate - two.estimate)
    assert both.standard_error < one.standard_error / 3
    swapped = paired_difference(
        expected_squared_loss, data.counts, other, data.prediction, random_state=0
    )
    assert_allclose([swapped.low, swapped.high], [-both.high, -both.low])


def test_everything_that_has_rows(data):
    dist = Dirichlet.from_mean(data.prediction, 4.0)
    w = np.linspace(0.5, 2, 200)
    a = confidence_interval(
        disagreement_squared_loss, data.counts, dist, sample_weight=w, random_state=0
    )
    b = confidence_interval(
        disagreement_squared_loss, data.counts.tolist(), dist, sample_weight=10 * w, random_state=0
    )
    assert_allclose(a, b)
    confidence_interval(epistemic_loss, KnownProbabilities(data.proba), data.prediction)
    confidence_interval(irreducible_loss, data.counts, None)


@pytest.mark.parametrize("metric", [epistemic_loss, posterior_epistemic_loss])
def test_rows_of_two_ratings_are_lost_with_one(metric):
    """Leaving a rating out leaves no labels to compare: the row is gone."""
    rng = np.random.default_rng(0)
    votes = rng.integers(0, 3, (60, 6)).astype(float)
    votes[rng.random(votes.shape).argsort(axis=1).argsort(axis=1) >= 2] = np.nan
    y, z = Annotations.from_matrix(votes), rng.dirichlet(np.ones(3), 60)
    found = confidence_interval(metric, y, z, n_blocks=60, random_state=0)
    without = [metric(y[y.rated[y.rated != i]], z[np.arange(60) != i]) for i in range(60)]
    assert_allclose(found.components.rows, 59 / 60 * np.sum((without - np.mean(without)) ** 2))
    assert found.components.cells > 0


def test_random_state_is_honoured(data):
    first, again, other = (
        confidence_interval(calibration_loss, data.counts, data.prediction, random_state=s)
        for s in (0, 0, 1)
    )
    assert first == again
    assert first.standard_error != other.standard_error


@pytest.mark.parametrize("raters", ["fixed", "random"])
def test_means_leave_out_samples_one_by_one(raters):
    """So that neither seed nor order decides; with fixed raters it is Student's interval."""
    rng = np.random.default_rng(0)
    said = (rng.random((300, 5)) < rng.random((300, 1))).astype(int)
    z = rng.random(300)
    order = rng.permutation(300)
    found = [
        confidence_interval(
            expected_squared_loss,
            Annotations.from_matrix(said[rows]),
            z[rows],
            raters=raters,
            random_state=seed,
        )
        for rows, seed in ((slice(None), 0), (order, 1))
    ]
    assert_allclose(found[0], found[1], rtol=1e-9)
    if raters == "fixed":
        losses = 2 * (said - z[:, None]) ** 2
        expected = stats.t.interval(0.95, 299, losses.mean(), stats.sem(losses.mean(axis=1)))
        assert_allclose(found[0][1:3], expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence_level": 1.0}, "confidence_level must lie"),
        ({"groups": np.zeros(200)}, "two samples or groups"),
        ({"groups": np.zeros(7)}, "groups has 7 samples"),
        ({"n_blocks": 1}, "two blocks"),
        ({"groups": [None, *"ab" * 99, "a"]}, "groups must not have missing values"),
        ({"groups": np.append(np.arange(199.0), np.nan)}, "groups must not have missing values"),
    ],
)
def test_errors(options, message, data):
    with pytest.raises(ValueError, match=message):
        confidence_interval(expected_accuracy, data.counts, data.prediction, **options)


def test_a_metric_must_return_one_number(data):
    with pytest.raises(
        ValueError, match="metric must return one number, it returned a LossDecomposition"
    ):
        confidence_interval(loss_decomposition, data.counts, data.prediction)
    with pytest.raises(ValueError, match="metric must return one number"):
        paired_difference(loss_decomposition, data.counts, data.prediction, data.prediction)
    with pytest.raises(ValueError, match="prediction has 199 samples, expected 200"):
        confidence_interval(lambda y, z: 0.5, data.counts, data.prediction[1:])


@pytest.mark.parametrize("named", [False, True])
def test_names_of_a_rare_class_are_read_on_all_rows(named, data):
    """Labels with names have the interval of their counts.

    Though one block holds all labels of a class.
    """
    names = np.array(["b", "c"])[np.arange(200) % 2]
    names[0] = "a"
    counts = (names[:, None] == np.array(list("abc"))).astype(int)
    p = pd.DataFrame(data.prediction, columns=list("abc"))
    shuffled = p[list("cab")] if named else data.prediction
    for_names = confidence_interval(label_log_loss, names, shuffled, random_state=0)
    assert for_names == confidence_interval(label_log_loss, counts, data.prediction, random_state=0)
    paired = paired_difference(
        label_log_loss, names, shuffled, data.prediction[::-1], random_state=0
    )
    assert paired == paired_difference(
        label_log_loss, counts, data.prediction, data.prediction[::-1], random_state=0
    )
    C = np.array([[0, 1, 2], [5, 0, 1], [20, 3, 0]])
    decisions = bayes_decision(data.prediction, C)
    costs = pd.DataFrame(C, index=list("abc")).iloc[[2, 0, 1]] if named else C
    risk = confidence_interval(decision_risk, names, decisions, cost_matrix=costs, random_state=0)
    assert risk == confidence_interval(
        decision_risk, counts, decisions, cost_matrix=C, random_state=0
    )


def test_metrics_of_others_read_their_own_labels():
    y, y_pred = np.repeat(["a", "b"], [1, 99]), np.repeat(["a", "b"], [20, 80])
    assert confidence_interval(accuracy_score, y, y_pred).estimate == 0.81


FAMILIES = {
    expected_squared_loss: {},
    epistemic_loss: {},
    calibration_error: {"n_bins": 5},
    dispersion_error: {"n_bins": 5},
    label_log_loss: {},
    histogram_log_loss: {},
    expected_accuracy: {},
    disagreement_squared_loss: {},
    disagreement_calibration_error: {"n_bins": 5},
    class_disagreement_calibration_error: {"n_bins": 5},
    posterior_epistemic_loss: {},
}


@pytest.mark.slow
@pytest.mark.parametrize("overconfidence", [1.0, 2.0], ids=["calibrated", "miscalibrated"])
@pytest.mark.parametrize("metric", FAMILIES, ids=lambda m: m.__name__)
def test_coverage(metric, overconfidence):
    """300 samples of 400 rows from one population: 90 % intervals cover its value .85 to .97 of the
    time.

    Where a corrected loss is 0 the jackknife is on the wide side: all its variance is of second
    order."""
    n, runs, total = 400, 150, 4.0 if overconfidence == 1 else 40.0
    data = make_label_histograms(
        n * runs, n_raters=(2, 5), total=4.0, overconfidence=overconfidence, random_state=0
    )
    dist = Dirichlet.from_mean(data.prediction, total)
    truth = metric(data.counts, dist, **FAMILIES[metric])
    if overconfidence == 1 and "calibration" in metric.__name__:
        truth = 0.0
    covered = 0
    for part in np.split(np.arange(n * runs), runs):
        interval = confidence_interval(
            metric,
            data.counts[part],
            dist[part],
            confidence_level=0.9,
            random_state=0,
            **FAMILIES[metric],
        )
        covered += interval.low <= truth <= interval.high
    error = 2 * np.sqrt(0.9 * 0.1 / runs)  # of the simulation
    assert 0.85 - error <= covered / runs <= 0.97 + error


# --- the accumulator ---


decomposing = partial(MetricAccumulator, loss_decomposition)


@pytest.mark.parametrize("bias_correction", ["residual", "label", None])
@pytest.mark.parametrize("weighted", [False, True])
def test_accumulated_batches_are_the_decomposition_of_all(bias_correction, weighted):
    data = make_label_histograms(300, n_raters=(1, 5), random_state=0)
    w = np.linspace(0, 2, 300) if weighted else None
    whole = loss_decomposition(
        data.counts, data.prediction, sample_weight=w, bias_correction=bias_correction
    )
    parts = [decomposing(bias_correction=bias_correction) for _ in range(3)]
    for accumulator, batches in zip(parts, np.split(np.arange(300), 3), strict=True):
        for rows in np.split(batches, 4):
            weight = None if w is None else w[rows]
            accumulator.update(data.counts[rows], data.prediction[rows], sample_weight=weight)
    merged = parts[0].merge(parts[1]).merge(parts[2])
    assert merged is parts[0]
    for a, b in zip(merged.result(), whole, strict=True):
        assert_allclose(a, b, rtol=1e-9, atol=1e-14)


def test_accumulator_mixes_weighted_and_unweighted_batches(data):
    half = np.arange(200) < 100
    mixed = decomposing().update(data.counts[half], data.prediction[half])
    mixed.update(data.counts[~half], data.prediction[~half], sample_weight=np.full(100, 2.0))
    whole = loss_decomposition(data.counts, data.prediction, sample_weight=np.where(half, 1.0, 2.0))
    assert_allclose(mixed.result()[:5], whole[:5])


def test_accumulator_errors(data):
    accumulator = decomposing().update(data.counts, data.prediction)
    with pytest.raises(ValueError, match="KnownProbabilities cannot be accumulated"):
        accumulator.update(KnownProbabilities(data.proba), data.prediction)
    with pytest.raises(ValueError, match="3 classes"):
        accumulator.update(data.counts[:, :2] + 1, np.full((200, 2), 0.5))
    with pytest.raises(ValueError, match="different metrics or options"):
        accumulator.merge(decomposing(bias_correction=None))
    named, others = (
        decomposing().update(pd.DataFrame(data.counts, columns=names), data.prediction)
        for names in (["a", "b", "c"], ["a", "b", "d"])
    )
    for other in (others, accumulator):
        with pytest.raises(ValueError, match="different classes cannot be merged"):
            named.merge(other)


def test_an_accumulator_without_rows():
    with pytest.raises(ValueError, match="bias_correction must be"):
        decomposing(bias_correction="debiased")
    with pytest.warns(UndefinedMetricWarning, match="has 2 raters or more"):
        found = decomposing().result()
    assert found.n_rows == 0
    assert found.bin_weight.shape == (0,)
    with pytest.warns(UndefinedMetricWarning, match="has a rater or more"):
        decomposing(bias_correction=None).result()
    with pytest.warns(match="undefined"):
        assert np.isnan(decomposing().result().epistemic_loss)


def test_blocks_of_groups_have_like_sizes():
    """Eight rows in pairs and four by themselves make four blocks of three."""
    sizes = set()

    def share(y, prediction):
        sizes.add(len(y))
        return y[:, 0].mean() / 2

    y = np.random.default_rng(0).multinomial(2, [0.5, 0.5], size=12)
    groups = [0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7]
    for seed in range(5):
        confidence_interval(share, y, None, groups=groups, n_blocks=4, random_state=seed)
    assert sizes == {12, 9}


@pytest.mark.parametrize(
    "metric",
    [
        expected_calibration_error,
        partial(calibration_error, p=1, bias_correction=None),
        maximum_calibration_error,
    ],
)
def test_plug_in_errors_say_that_they_are_biased(metric):
    data = make_label_histograms(60, random_state=0)
    with pytest.warns(UserWarning, match="error is biased upwards.*use bias_correction"):
        confidence_interval(metric, data.counts, data.prediction, random_state=0)


def test_corrected_errors_do_not():
    data = make_label_histograms(60, random_state=0)
    corrected = {"p": 2, "bias_correction": "residual"}
    how = {"random_state": 0, **corrected}
    confidence_interval(expected_calibration_error, data.counts, data.prediction, **how)


def test_an_interval_says_what_it_rests_on():
    """How many samples and which, where some have too few labels; it is kept when pickled."""
    rng = np.random.default_rng(0)
    y = rng.multinomial(np.repeat([1, 3], [30, 70]), [0.6, 0.4])
    z = np.tile([0.5, 0.5], (100, 1))
    for metric in (irreducible_loss, epistemic_loss):
        part = confidence_interval(metric, y, z, random_state=0)
        assert part.notes == ["70 of 100 samples, with 2+ labels"]
        assert repr(part).endswith("notes=['70 of 100 samples, with 2+ labels'])")
        assert pickle.loads(pickle.dumps(part)).notes == part.notes
        assert confidence_interval(metric, y[30:], z[30:], random_state=0).notes == []
    every = confidence_interval(expected_accuracy, y, z, random_state=0)
    assert every.notes == []
    assert repr(every).startswith("ConfidenceInterval(estimate=")
    assert "notes" not in repr(every)
    difference = paired_difference(epistemic_loss, y, z, np.roll(z, 1) * [1.2, 0.8], random_state=0)
    assert difference.notes == ["70 of 100 samples, with 2+ labels"]


def test_an_interval_says_where_no_difference_between_raters_was_found():
    """The jackknife over raters then finds no more than single labels explain."""
    rng = np.random.default_rng(0)
    z = np.tile([0.3, 0.7], (80, 1))
    for habit, alike in ((0.0, True), (0.35, False)):
        share = 0.5 + habit * np.array([-1, 1, -1, 1, 0, 0])
        said = (rng.random((80, 6)) < share).astype(int)
        said[:, :3] = 1 - said[:, 3:] if alike else said[:, :3]
        y = Annotations.from_matrix(said)
        new = confidence_interval(expected_accuracy, y, z, random_state=0)
        these = confidence_interval(expected_accuracy, y, z, raters="fixed", random_state=0)
        assert [note[:13] for note in new.notes] == ["raters differ"] * alike
        assert these.notes == []


def test_an_interval_knows_its_level():
    """Also when it was pickled."""
    rng = np.random.default_rng(0)
    y = rng.multinomial(3, [0.6, 0.4], 60)
    z = np.tile([0.5, 0.5], (60, 1))
    how = {"confidence_level": 0.8, "random_state": 0}
    several = [expected_accuracy(y[i::4], z[i::4]) for i in range(4)]
    found = [
        confidence_interval(irreducible_loss, y, z, **how),
        paired_difference(epistemic_loss, y, z, np.roll(z, 1) * [1.2, 0.8], **how),
        interval_over_splits(several, test_fraction=0.25, confidence_level=0.8),
        risk_bound(y, np.zeros(60, int), cost_matrix=[[0, 1], [1, 0]], confidence_level=0.8),
    ]
    for interval in found:
        assert interval.confidence_level == 0.8
        assert pickle.loads(pickle.dumps(interval)).confidence_level == 0.8
