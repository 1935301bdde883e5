"""referral_curve for new raters: its intervals."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from reader_studies import read_by
from sklearn.base import BaseEstimator, ClassifierMixin

from sklearn_lhcal.display import ReferralCurveDisplay
from sklearn_lhcal.distributions import Dirichlet, second_opinion_value
from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import epistemic_loss, posterior_epistemic_loss, referral_curve

curve = partial(referral_curve, n_points=5)


def study(n=40, R=5, s=1.0, seed=0):
    """Two classes, the second rare; readers who call it by thresholds of their own."""
    rng = np.random.RandomState(seed)
    total = np.exp(rng.normal(1, 1, size=n))
    p = rng.beta(1, 4, size=n).clip(0.02, 0.98)
    d = Dirichlet.from_mean(np.column_stack([1 - p, p]), total)
    return read_by(d, R, s, rng), d


def gain_of_row(votes, d):
    """What one more label of a single row gains, by two metrics."""
    counts = [[np.sum(votes == k) for k in range(d.n_classes)]]
    z = d.mean()
    return epistemic_loss(counts, z) - posterior_epistemic_loss(counts, d)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_the_variance_by_hand(normalize, grouped):
    """Each rater and each cell left out; the degrees of freedom of both jackknives."""
    n, R = 16, 5
    votes, d = study(n, R, seed=4)
    v = second_opinion_value(d)
    order = np.argsort(-v)
    w = 1 + np.arange(n) % 3
    w = w / w.sum()
    groups = np.arange(n) // 2 if grouped else np.arange(n)
    whole = np.array([gain_of_row(votes[i], d[[i]]) for i in range(n)])
    without = np.array(
        [[gain_of_row(np.delete(votes[i], r), d[[i]]) for r in range(R)] for i in range(n)]
    )
    how = {"normalize": normalize, "sample_weight": w, "groups": groups, "n_points": 3}
    new = curve(Annotations.from_matrix(votes), d, **how)
    these = curve(Annotations.from_matrix(votes), d, raters="fixed", **how)
    a = np.zeros(n)
    # half of the weight, in the order of the priorities
    before = np.cumsum(w[order]) - w[order]
    a[order] = np.clip((0.5 - before) / w[order], 0, 1)
    T, unit = a @ (w * whole), 1.0
    if normalize:
        unit = w @ whole
        a = a - T / unit
    change = (a * w / unit)[:, None] * (without - whole[:, None])
    V_rat = (R - 1) / R * (change.sum(axis=0) ** 2).sum()
    cells = np.stack([np.bincount(groups, c) for c in change.T])
    V_cell = (R - 1) / R * (cells**2).sum()
    r = w * (whole - v * ((w * v) @ (w * whole)) / ((w * v) @ (w * v)))
    squares = np.bincount(groups, a * r / unit) ** 2
    V_row = squares.sum()
    assert these.standard_error[1] ** 2 == pytest.approx(V_row, rel=1e-12)
    V = V_row + max(V_rat - V_cell, 0)
    assert new.standard_error[1] ** 2 == pytest.approx(V, rel=1e-12)
    assert_allclose(new.realised_gain, these.realised_gain)
    assert_allclose(new.expected_gain, these.expected_gain)


def test_raters_who_are_left_out_together():
    """Sixty raters go in fifty blocks; samples with two ratings are lost with one of them."""
    rng = np.random.default_rng(0)
    votes, d = study(90, 60, s=1.0)
    keep = rng.random(votes.shape).argsort(axis=1) < rng.integers(2, 5, size=90)[:, None]
    y = Annotations.from_matrix(np.where(keep, votes, np.nan))
    assert (y.n == 2).any()
    new, these = curve(y, d), curve(y, d, raters="fixed")
    assert np.isfinite(new.interval).all()
    assert (new.standard_error >= these.standard_error).all()


def test_readers_who_differ_widen_the_interval():
    votes, d = study(300, 8, s=2.0)
    y = Annotations.from_matrix(votes)
    new, these, counts = curve(y, d), curve(y, d, raters="fixed"), curve(y.counts, d)
    assert_allclose(these.interval, counts.interval)
    assert_allclose(new.realised_gain, counts.realised_gain)
    assert new.standard_error[-1] > 1.3 * these.standard_error[-1]


def test_where_nobody_reads_twice_or_differs_the_interval_stays():
    votes, d = study(300, 8, s=0.0)
    y = Annotations.from_matrix(votes)
    these = curve(y.counts, d)
    own = curve(Annotations.from_counts(y.counts), d, raters="random")
    assert_allclose(own.standard_error, these.standard_error, rtol=0.25)
    # without thresholds of readers the three jackknives see the same noise
    ratio = []
    for seed in range(1, 4):
        votes, d = study(300, 8, s=0.0, seed=seed)
        y = Annotations.from_matrix(votes)
        new, these = curve(y, d), curve(y, d, raters="fixed")
        ratio.append(new.standard_error[1:] / these.standard_error[1:])
    assert np.min(ratio) >= 1
    assert np.mean(ratio) < 1.25


def test_names_and_order_of_raters_do_not_matter():
    votes, d = study(60, 6)
    order = np.array([3, 5, 0, 1, 4, 2])
    names = ["f", "c", "a", "e", "b", "d"]
    one = curve(Annotations.from_matrix(votes), d)
    other = curve(Annotations.from_matrix(votes[:, order], raters=names), d)
    assert_allclose(other.interval, one.interval, rtol=1e-10, atol=1e-15)
    rows = np.random.default_rng(0).permutation(60)
    moved = curve(Annotations.from_matrix(votes)[rows], d[rows])
    assert_allclose(moved.interval, one.interval, rtol=1e-10, atol=1e-15)


def test_few_raters_are_told_and_fewer_refused():
    votes, d = study(60, 4)
    y = Annotations.from_matrix(votes)
    with pytest.warns(UserWarning, match='only 4 raters.*raters="fixed"'):
        curve(y, d)
    curve(y, d, raters="fixed")
    with pytest.raises(ValueError, match=r'three raters at least, got 2.*raters="fixed"'):
        curve(y.keep(y.rater < 2), d)
    with pytest.raises(ValueError, match="needs to know who gave each label"):
        curve(y.counts, d, raters="random")


class Told(ClassifierMixin, BaseEstimator):
    """Predicts the distribution that it was told."""

    def __init__(self, d):
        self.d = d

    def fit(self, X, y):
        self.classes_ = np.arange(2)
        return self

    def predict_dist(self, X):
        return self.d


def test_from_estimator_passes_raters_on():
    votes, d = study(60, 6)
    y = Annotations.from_matrix(votes)
    X = np.zeros((60, 1))
    model = Told(d).fit(X, y)
    for raters in ("random", "fixed"):
        shown = ReferralCurveDisplay.from_estimator(model, X, y, raters=raters, n_points=5)
        assert_allclose(shown.result.interval, curve(y, d, raters=raters).interval)


def test_intervals_cover_the_gain_of_new_raters():
    """A study's gain has the true one for its mean: that over studies by new readers."""
    n, draws = 100, 150
    d, at, rng = study(n)[1], [2, 5, 10], np.random.RandomState(0)
    how = {"confidence_level": 0.9, "n_points": 11}
    shown = {"random": [], "fixed": []}
    for _ in range(draws):
        y = Annotations.from_matrix(read_by(d, 6, 2.0, rng))
        for raters, found in shown.items():
            curve = referral_curve(y, d, raters=raters, **how)
            found.append([curve.realised_gain[at], *curve.interval[at].T])
    coverage = {}
    for raters, found in shown.items():
        mean, low, high = np.moveaxis(found, 1, 0)
        true = mean.mean(axis=0)
        coverage[raters] = ((low <= true) & (true <= high)).mean(axis=0)
    # three standard errors of 150 draws are .07
    assert (coverage["random"] >= 0.83).all(), coverage
    assert (coverage["fixed"][1:] < coverage["random"][1:] - 0.1).all(), coverage
