"""Intervals of reliability curves: what they are, and that they cover."""

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import binomtest

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.metrics import reliability_curve


@pytest.fixture
def data():
    return make_label_histograms(300, n_raters=(2, 6), overconfidence=2.0, random_state=0)


def test_interval_is_wilsons_where_rows_are_single_labels():
    rng = np.random.RandomState(0)
    y = rng.random_sample(4000) < 0.3
    how = {"kind": 1, "n_bins": 1, "confidence_level": 0.9}
    bins = reliability_curve(y.astype(int), np.full(4000, 0.3), **how)
    wilson = binomtest(int(y.sum()), 4000).proportion_ci(0.9, method="wilson")
    np.testing.assert_allclose(bins.interval[0], [wilson.low, wilson.high], atol=2e-5)


def test_intervals_grow_with_level_and_shrink_with_rows(data):
    narrow, wide = (
        reliability_curve(data.counts, data.prediction, confidence_level=level).interval
        for level in (0.5, 0.99)
    )
    assert (wide[:, 0] < narrow[:, 0]).all()
    assert (wide[:, 1] > narrow[:, 1]).all()
    more = reliability_curve(
        np.tile(data.counts, (4, 1)), np.tile(data.prediction, (4, 1)), confidence_level=0.5
    ).interval
    assert (np.diff(more) < np.diff(narrow)).all()


def test_two_classes_pooled_are_the_diagram_of_one_and_its_mirror_image(data):
    data = make_label_histograms(2000, 2, 3, random_state=0)
    pooled = reliability_curve(data.counts, data.prediction, n_bins=10)
    np.testing.assert_allclose(pooled.mean_observed, 1 - pooled.mean_observed[::-1])
    np.testing.assert_allclose(pooled.interval, 1 - pooled.interval[::-1, ::-1], atol=1e-12)


@pytest.mark.slow
def test_bins_of_one_row_have_no_interval_and_empty_bins_nothing():
    curve = reliability_curve(
        [[1, 1], [2, 0], [0, 2]], [[0.9, 0.1], [0.88, 0.12], [0.1, 0.9]], kind=1, n_bins=5
    )
    assert curve.bin_counts.tolist() == [2, 0, 0, 0, 1]
    assert np.isfinite(curve.interval[0]).all()
    assert np.isnan(curve.interval[1:]).all()
    for means in (curve.mean_predicted, curve.mean_observed):
        assert np.isnan(means).tolist() == [False, True, True, True, False]


@pytest.mark.parametrize("counts", [[[3, 0]] * 8, [[0, 3]] * 8])
def test_unanimous_bins_have_an_interval_that_shrinks_with_the_rows(counts):
    def width(rows):
        z = np.tile([0.95, 0.05], (len(rows), 1))
        curve = reliability_curve(rows, z, kind=1, n_bins=1)
        assert curve.interval[0, 0] <= curve.mean_observed[0] <= curve.interval[0, 1]
        return np.diff(curve.interval[0])[0]

    assert 0.1 < width(counts) < 0.5
    assert 0.001 < width(counts * 20) < 0.1


def test_intervals_contain_their_points_and_stay_within_0_and_1():
    for seed in range(5):
        data = make_label_histograms(60, 4, (1, 3), class_sep=4.0, random_state=seed)
        for kind in ("classwise", 0):
            d = reliability_curve(data.counts, data.prediction, kind=kind)
            has = ~np.isnan(d.interval[:, 0])
            assert has.sum() == (d.bin_counts > 1).sum() or kind == "classwise"
            assert (d.interval[has, 0] <= d.mean_observed[has]).all()
            assert (d.interval[has, 1] >= d.mean_observed[has]).all()
            assert (d.interval[has] >= 0).all()
            assert (d.interval[has] <= 1).all()


SCENARIOS = {  # rows, classes, raters, α0
    "one label": (300, 3, 1, 10.0),
    "two labels": (300, 3, 2, 10.0),
    "some labels, vague features": (300, 3, (2, 8), 1.0),
    "many labels": (300, 3, 50, 10.0),
    "ten classes": (600, 10, 5, 5.0),
    "two classes, known exactly": (300, 2, 3, np.inf),
}


def _drawn(what, scenario, overconfidence, seed):
    """Labels, the prediction, the kind of curve; and true rates beside those predicted, (n, m)."""
    n, K, raters, total = SCENARIOS[scenario]
    data = make_label_histograms(
        n, K, raters, total=total, overconfidence=overconfidence, random_state=seed
    )
    true = softmax(data.X @ data.coef.T, axis=1)
    z = data.prediction
    if what == "class":
        return data.counts, z, 0, z[:, :1], true[:, :1]
    if what == "pooled":
        return data.counts, z, "classwise", z, true
    s = 1 / (1 + total)
    predicted, rate = ((1 - s) * (1 - (p**2).sum(axis=1, keepdims=True)) for p in (z, true))
    distribution = z if np.isinf(total) else Dirichlet.from_mean(z, np.full(n, total))
    return data.counts, distribution, "disagreement", predicted, rate


def _cover(y, prediction, kind, z, true, w, strategy="uniform"):
    """Which intervals contain the true mean rate of the rows in their bin, and how many rows."""
    bins = reliability_curve(
        y, prediction, kind=kind, sample_weight=w, strategy=strategy, confidence_level=0.9
    )
    if kind == "disagreement":
        several = y.sum(axis=1) > 1
        z, true = z[several], true[several]
        w = None if w is None else w[several]
    index = np.searchsorted(bins.edges[1:-1] - 1e-9, z.ravel(), side="right")
    weight = np.repeat(np.ones(len(z)) if w is None else w, z.shape[1])
    B = len(bins.bin_counts)
    with np.errstate(invalid="ignore"):
        truth = np.bincount(index, weight * true.ravel(), B) / np.bincount(index, weight, B)
    low, high = bins.interval.T
    return (low <= truth) & (truth <= high), np.where(np.isnan(low), 0, bins.bin_counts)


@pytest.mark.slow
@pytest.mark.parametrize("overconfidence", [1.0, 0.6, 1.6])
@pytest.mark.parametrize(
    ("what", "scenario"),
    [
        (w, s)
        for w in ("class", "pooled", "disagreement")
        for s in SCENARIOS
        if (w, s) != ("disagreement", "one label")
    ],
)
def test_intervals_cover(what, scenario, overconfidence):
    """Calibrated or not: in all, and bin by bin as far as can be told."""
    hits, counts = map(
        np.array,
        zip(
            *(_cover(*_drawn(what, scenario, overconfidence, seed), None) for seed in range(120)),
            strict=True,
        ),
    )
    several, few = counts >= 10, (counts >= 2) & (counts < 10)
    assert 0.87 <= hits[several].mean() <= 0.97
    seen = several.sum(axis=0)
    often = seen >= 60
    by_bin = (hits & several).sum(axis=0)[often] / seen[often]
    assert (np.abs(by_bin - 0.91) <= 0.06 + 4 * np.sqrt(0.09 / seen[often])).all()
    if few.sum() > 100:
        assert 0.85 <= hits[few].mean() <= 0.99


@pytest.mark.slow
@pytest.mark.parametrize("overconfidence", [1.0, 1.6])
@pytest.mark.parametrize("what", ["class", "pooled", "disagreement"])
@pytest.mark.parametrize("how", ["weights", "quantile"])
def test_intervals_cover_with_weights_and_in_quantile_bins(how, what, overconfidence):
    hits, counts = [], []
    for seed in range(120):
        w = np.random.RandomState(seed).exponential(size=300) if how == "weights" else None
        drawn = _drawn(what, "some labels, vague features", overconfidence, seed)
        hit, count = _cover(*drawn, w, "quantile" if how == "quantile" else "uniform")
        hits.append(hit[count >= 10])
        counts.append(count)
    assert 0.86 <= np.concatenate(hits).mean() <= 0.97
