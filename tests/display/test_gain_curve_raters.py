"""gain_curve for new raters: its intervals."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.stats import t as student
from sklearn.ensemble import RandomForestClassifier

from sklearn_lhcal.display import GainCurveDisplay
from sklearn_lhcal.distributions import predict_epistemic
from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import accuracy_gain, confidence_interval, gain_curve


def curve(y, pred, reference, e, **how):
    """Of two bins, from labels and both predictions."""
    return gain_curve(None, e, labels=(y, pred, reference), n_bins=2, **how)


def study(n=60, R=6, s=1.0, seed=0):
    """Readers who say "b" by thresholds of their own; two predictions and an estimate."""
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(n, 1))
    votes = np.where(u + s * rng.normal(size=R) + rng.logistic(size=(n, R)) > 0, "b", "a")
    pred, reference = np.where(rng.random((2, n)) < 0.5, "a", "b")
    return votes, pred, reference, rng.permutation(n) / n


def frame(y):
    """Its counts, which do not say who spoke."""
    return pd.DataFrame(y.counts, columns=y.classes)


def gain(y, prediction):
    """Mean gain of reference (second column) over prediction, as a metric."""
    return accuracy_gain(y, prediction[:, 0], prediction[:, 1]).mean()


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("gaps", [0.0, 0.6])
def test_the_variance_is_that_of_confidence_interval(grouped, gaps):
    """In each bin: what raters add to the variance over rows, and the degrees of freedom."""
    votes, pred, reference, e = study()
    rng = np.random.default_rng(1)
    votes = np.where(rng.random(votes.shape) < gaps, None, votes.astype(object))
    votes[:, 0] = np.where(votes[:, 0] == None, "a", votes[:, 0])  # noqa: E711
    y = Annotations.from_matrix(votes)
    groups = np.arange(60) // 2 if grouped else np.arange(60)
    new, these = (
        curve(y, pred, reference, e, groups=groups, raters=r) for r in ("random", "fixed")
    )
    both = np.column_stack([pred, reference])
    index = np.searchsorted([np.median(e)], e, side="right")
    for b in range(2):
        rows = index == b
        G = len(np.unique(groups[rows]))
        # as many blocks as there are cells: each by itself
        how = {"n_blocks": 400, "groups": groups[rows], "random_state": 0}
        found = confidence_interval(gain, y[rows], both[rows], **how)
        assert new.mean_gain[b] == pytest.approx(found.estimate, abs=1e-12)
        V_row = (np.ptp(these.interval[b]) / 2 / student.ppf(0.975, G)) ** 2
        _, V_rat, V_cell = found.components
        excess = max(V_rat - V_cell, 0)
        noise = V_row**2 / G
        share = np.bincount(y[rows].rater, 1 / y[rows].n[y[rows].row])
        effective = (share**2).sum() ** 2 / (share**4).sum()
        # of unequal loads six may be worth fewer than five
        few = share.sum() ** 2 / (share**2).sum() < 4.5
        if excess or few:
            noise += V_rat**2 / (effective - 1) + V_cell**2 / G
        V = V_row + excess
        # no fewer than 2, and than the least of rows' and raters'
        df = max(V**2 / noise, 2, min(G, effective - 1))
        half = student.ppf(0.975, df) * np.sqrt(V)
        assert np.ptp(new.interval[b]) / 2 == pytest.approx(half, rel=1e-9)


def test_readers_who_differ_widen_the_intervals():
    votes, pred, reference, e = study(300, s=1.5)
    y = Annotations.from_matrix(votes)
    reference[:] = "b"  # all ask the same of the readers
    new, these, counts = (
        curve(labels, pred, reference, e, raters=raters)
        for labels, raters in ((y, "random"), (y, "fixed"), (frame(y), None))
    )
    assert_allclose(these.interval, counts.interval)
    assert_allclose(new.mean_gain, counts.mean_gain)
    assert (np.ptp(new.interval, axis=1) > 1.3 * np.ptp(these.interval, axis=1)).all()
    # where every label has a rater of its own they stay
    own = Annotations.from_counts(y.counts)
    digits = (np.searchsorted(["a", "b"], a) for a in (pred, reference))
    # their blocks vary by chance
    widths = (np.ptp(shown.interval, axis=1) for shown in (curve(own, *digits, e), these))
    assert_allclose(*widths, rtol=0.3)
    # gains that are numbers do not know their raters
    numbers = gain_curve(accuracy_gain(y, pred, reference), e, n_bins=2)
    assert_allclose(numbers.interval, these.interval)


@pytest.mark.filterwarnings("ignore:The 60 raters are worth only")
def test_more_raters_than_are_left_out_singly():
    votes, pred, reference, e = study(200, R=60)
    keep = np.random.default_rng(0).random(votes.shape) < 0.05
    keep[:, 0] = True
    y = Annotations.from_matrix(np.where(keep, votes.astype(object), None))
    shown = curve(y, pred, reference, e)
    assert np.isfinite(shown.interval).all()
    # a bin that fewer than three raters have read has no interval
    lone = y.keep((y.row >= 100) | (y.rater == 0))
    shown = curve(lone, pred, reference, np.arange(200) / 200)
    assert np.isnan(shown.interval[0]).all()
    assert np.isfinite(shown.interval[1]).all()


def test_few_raters_are_told_and_fewer_refused():
    votes, pred, reference, e = study(R=4)
    y = Annotations.from_matrix(votes)
    with pytest.warns(UserWarning, match='only 4 raters.*raters="fixed"'):
        curve(y, pred, reference, e)
    curve(y, pred, reference, e, raters="fixed")
    with pytest.raises(ValueError, match='three raters at least, got 2; raters="fixed"'):
        curve(y.keep(y.rater < 2), pred, reference, e)
    with pytest.raises(ValueError, match="needs to know who gave each label"):
        curve(frame(y), pred, reference, e, raters="random")


def test_from_estimator_passes_raters_on():
    votes, _, reference, _ = study(100)
    y = Annotations.from_matrix(votes)
    # a row without ratings is left out
    y = y.keep(y.row > 0)
    X = np.random.default_rng(0).normal(size=(100, 2))
    model = RandomForestClassifier(5, random_state=0).fit(X, votes[:, 0])
    for raters in ("random", "fixed"):
        shown = GainCurveDisplay.from_estimator(
            model, X, y, reference_prediction=reference, raters=raters, n_bins=2
        )
        by_hand = curve(y, model.predict(X), reference, predict_epistemic(model, X), raters=raters)
        assert_allclose(shown.result.interval, by_hand.interval)
        assert_allclose(shown.result.mean_gain, by_hand.mean_gain)
