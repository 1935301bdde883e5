"""Accumulators of any metric: batches and merging do not matter, nor whether they were pickled."""

import pickle
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from metric_cases import METRICS
from sklearn.exceptions import UndefinedMetricWarning

from sklearn_lhcal import metrics
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.label_histogram import Annotations, KnownProbabilities
from sklearn_lhcal.metrics import MetricAccumulator, loss_decomposition

N, B = 240, 8
MEANS = {
    metrics.expected_squared_loss: {},
    metrics.epistemic_loss: {"bias_correction": None},
    metrics.label_log_loss: {},
    metrics.posterior_epistemic_loss: {},
    metrics.net_benefit: {"threshold": 0.3, "class_index": 1},
}
BINNED = {
    metrics.calibration_loss: {"bias_correction": "label"},
    metrics.calibration_error: {"n_bins": 5},
    metrics.dispersion_error: {"n_bins": [0, 0.2, 1]},
    metrics.expected_calibration_error: {"kind": "classwise"},
    metrics.maximum_calibration_error: {},
    metrics.class_disagreement_calibration_error: {},
}
ALL = {metric: {} for metric in METRICS.values()} | MEANS | BINNED
CHUNKS = [0, 1, 90, 91, 200, N]
PARTS = [slice(a, b) for a, b in pairwise(CHUNKS)]


@pytest.fixture(scope="module")
def data():
    made = make_label_histograms(N, n_raters=(1, 5), overconfidence=2.0, random_state=0)
    total = np.random.default_rng(0).uniform(1, 20, N)
    return made.counts, Dirichlet.from_mean(made.prediction, total)


@pytest.fixture(scope="module")
def read_by_few():
    """Seven readers, of whom four read each row, and what they share."""
    rng = np.random.default_rng(1)
    z = rng.dirichlet(np.ones(3), N)
    row = np.repeat(np.arange(N), 4)
    reader = np.concatenate([rng.permutation(7)[:4] for _ in range(N)])
    liking = rng.normal(size=(7, 3))
    label = (np.log(z[row]) + liking[reader] + rng.gumbel(size=(4 * N, 3))).argmax(axis=1)
    return Annotations.from_long(row, np.char.add("r", reader.astype(str)), label), z


def batches(empty, y, prediction, **others):
    """Two accumulators, one of them pickled on its way, merged."""
    first, second = empty(), empty()
    for i, part in enumerate(PARTS):
        seen = first if i < 3 else second
        seen.update(y[part], prediction[part], **{k: v[part] for k, v in others.items()})
    return first.merge(pickle.loads(pickle.dumps(second)))


def agree(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.__name__)
def test_batches_are_the_metric_of_all_rows(data, metric, weighted):
    options = ALL[metric]
    others = {}
    if weighted:
        others["sample_weight"] = np.linspace(0, 2, N)
    found = batches(partial(MetricAccumulator, metric, **options), *data, **others)
    agree(found.result().estimate, metric(*data, **options, **others))


def test_errors_of_means_are_those_of_independent_rows(data):
    """The textbook's, and of a ratio the standard error of its linearisation."""
    w = np.random.default_rng(2).random(N)
    metric = metrics.expected_squared_loss
    loss = np.array([metric(data[0][[i]], data[1][[i]]) for i in range(N)])
    found = batches(partial(MetricAccumulator, metric), *data).result()
    agree(found.standard_error, loss.std(ddof=1) / np.sqrt(N))
    found = batches(partial(MetricAccumulator, metric), *data, sample_weight=w).result()
    residual = w * (loss - found.estimate)
    agree(found.standard_error, np.sqrt((residual**2).sum() * N / (N - 1)) / w.sum())
    assert found.low < found.estimate < found.high


def jackknife(metric, y, prediction, block, **options):
    """Standard error of blocks of equal size, by evaluation of what is left."""
    values = []
    for b in range(B):
        left = np.flatnonzero(block != b)
        x = metric(y[left], prediction[left], **options)
        values.append(x * abs(x) if metric.__name__.endswith("error") else x)
    return np.sqrt((B - 1) * np.var(values))


@pytest.mark.parametrize("metric", [metrics.calibration_loss, metrics.calibration_error])
@pytest.mark.parametrize("raters", [False, True])
def test_errors_of_bins_are_the_jackknife(read_by_few, metric, raters):
    """Raters are fixed: where nothing is corrected, it does not matter who they are."""
    y, z = read_by_few
    y, options = (y, {"bias_correction": None}) if raters else (y.counts, {})
    seen = MetricAccumulator(metric, n_blocks=B, **options)
    for part in PARTS:
        seen.update(y[part], z[part])
    expected = jackknife(metric, y, z, np.arange(N) % B, **options)
    np.testing.assert_allclose(seen.result().standard_error, expected, rtol=1e-9)


def test_merging_counts_the_rows_of_both(data):
    """And leaves the other as it was."""
    y, z = data
    metric = metrics.expected_calibration_error
    one, two = (
        MetricAccumulator(metric).update(y[part], z[part]) for part in (slice(0, 90), slice(90, N))
    )
    sizes = one.n_rows, two.n_rows
    assert one.merge(two).n_rows == sum(sizes) == N
    assert two.n_rows == sizes[1]


def test_two_blocks_differ_by_twice_the_error(data):
    y, z = data
    found = MetricAccumulator(metrics.calibration_loss, n_blocks=2).update(y, z).result()
    one, two = (metrics.calibration_loss(y[b::2], z[b::2]) for b in range(2))
    agree(found.standard_error, abs(one - two) / 2)


def test_fixed_raters_are_their_counts(read_by_few):
    y, z = read_by_few
    empty = partial(MetricAccumulator, metrics.epistemic_loss, raters="fixed")
    found = batches(empty, y, z).result()
    agree(found, batches(partial(MetricAccumulator, metrics.epistemic_loss), y.counts, z).result())
    assert found.n_raters is None


# what needs all samples at once: each has rows that batches must refuse, and says where to go
AT_ONCE = {
    "groups": (metrics.epistemic_loss, {"groups": np.arange(N)}),
    "groups of bins": (metrics.calibration_loss, {"groups": np.arange(N)}),
    "raters of bins": (metrics.calibration_loss, {}),
    "raters of pairs": (metrics.disagreement_calibration_loss, {}),
    "raters of all parts": (loss_decomposition, {}),
}


@pytest.mark.parametrize("name", AT_ONCE)
def test_what_needs_all_rows_at_once(read_by_few, name):
    metric, others = AT_ONCE[name]
    y, z = read_by_few
    seen = MetricAccumulator(metric)
    with pytest.raises(ValueError, match="use confidence_interval with"):
        seen.update(y, z, **others)
    # what was refused left nothing behind
    agree(seen.update(y.counts, z).n_rows, N)


def test_batches_know_no_new_raters():
    for metric in (metrics.epistemic_loss, metrics.calibration_error):
        for raters in ("random", "new"):
            with pytest.raises(ValueError, match="new raters; use confidence_interval with all"):
                MetricAccumulator(metric, raters=raters)


@pytest.mark.parametrize("options", [{}, {"n_bins": 7, "bias_correction": "label"}])
@pytest.mark.parametrize("weighted", [False, True])
def test_all_parts_of_the_loss(data, options, weighted):
    y, z = data[0], data[1].mean()
    w = {"sample_weight": np.linspace(0, 2, N)} if weighted else {}
    found = batches(partial(MetricAccumulator, loss_decomposition, **options), y, z, **w).result()
    expected = loss_decomposition(y, z, **options, **w)
    for name, part, wanted in zip(expected._fields, found, expected, strict=True):
        np.testing.assert_allclose(part, wanted, rtol=1e-10, atol=1e-13, err_msg=name)


def test_names_decide_and_options_are_seen_through(data):
    counts = pd.DataFrame(data[0], columns=["c", "a", "b"])
    d = data[1].with_classes(["c", "a", "b"])
    metric = partial(metrics.disagreement_squared_loss)
    seen = MetricAccumulator(metric).update(counts[:100], d[:100])
    seen.update(counts[100:][["a", "b", "c"]], d[100:].in_order(["a", "b", "c"]))
    agree(seen.result().estimate, metric(counts, d))
    C = 1 - np.eye(3)
    seen = MetricAccumulator(metrics.decision_risk, cost_matrix=C)
    chosen = metrics.bayes_decision(data[1], C)
    for part in PARTS:
        seen.update(data[0][part], chosen[part])
    agree(seen.result().estimate, metrics.decision_risk(data[0], chosen, C))


def test_what_has_no_error(data):
    """One row, or one block."""
    one = MetricAccumulator(metrics.expected_accuracy).update(data[0][:1], data[1][:1])
    bins = MetricAccumulator(metrics.calibration_error, n_blocks=1).update(*data)
    for seen in (one, bins):
        estimate, *others = seen.result()
        assert np.isfinite(estimate)
        assert np.isnan(others).all()
    agree(bins.result().estimate, metrics.calibration_error(*data))
    with pytest.warns(UndefinedMetricWarning, match="has 2 raters or more"):
        found = MetricAccumulator(metrics.epistemic_loss).result()
    assert np.isnan(found).all()


def test_errors(data):
    y, z = data
    with pytest.raises(ValueError, match="kernel_calibration_error needs all samples at once"):
        MetricAccumulator(metrics.kernel_calibration_error)
    with pytest.raises(ValueError, match="pass the edges"):
        MetricAccumulator(metrics.calibration_error, strategy="quantile")
    with pytest.raises(ValueError, match="bias_correction"):
        MetricAccumulator(metrics.calibration_error, bias_correction="none")
    with pytest.raises(ValueError, match="n_blocks"):
        MetricAccumulator(metrics.calibration_error, n_blocks=0)
    seen = MetricAccumulator(metrics.calibration_error).update(y, z)
    with pytest.raises(ValueError, match="3 classes"):
        seen.update(y[:, :2] + 1, np.full((N, 2), 0.5))
    with pytest.raises(ValueError, match="cannot be accumulated together"):
        seen.update(KnownProbabilities(z.mean()), z)
    other = MetricAccumulator(metrics.calibration_error, n_bins=3)
    with pytest.raises(ValueError, match="different metrics or options"):
        seen.merge(other)
    # what was refused left nothing behind
    agree(seen.result().estimate, metrics.calibration_error(y, z))
