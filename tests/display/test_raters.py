"""What displays draw for new raters, and with groups: its intervals."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.display import CalibrationDispersionDisplay
from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import (
    confidence_interval,
    decision_curve,
    decision_risk,
    decision_risks,
    gain_curve,
    net_benefit,
    paired_difference,
    referral_curve,
    reliability_curve,
)


def study(n=200, R=6, s=1.0, seed=0):
    """Readers of two classes who differ, and a model that does not know them."""
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(n, 1))
    votes = (u + s * rng.normal(size=R) + rng.logistic(size=(n, R)) > 0).astype(int)
    return votes, (1 / (1 + np.exp(-u)))[:, 0]


def width(curve):
    return np.nanmean(np.diff(curve.interval, axis=1))


KINDS = {"one class": 1, "pooled": "classwise", "disagreement": "disagreement"}


@pytest.mark.parametrize("name", KINDS)
def test_readers_who_differ_widen_the_intervals(name):
    votes, z = study()
    y = Annotations.from_matrix(votes)
    show = partial(reliability_curve, kind=KINDS[name], n_bins=4)
    new, these, counts = (show(y, z), show(y, z, raters="fixed"), show(y.counts, z))
    assert_allclose(these.interval, counts.interval)
    assert [curve.raters for curve in (new, these, counts)] == ["random", "fixed", "fixed"]
    assert_allclose(new.mean_observed, counts.mean_observed)
    # of classes pooled, a reader's liking for one takes off what it adds to the other
    assert width(new) > (1.1 if name == "pooled" else 1.3) * width(these)
    # six raters: Student's quantile has about five degrees of freedom
    assert width(new) < 0.8
    # where nobody reads twice they stay
    own = show(Annotations.from_counts(y.counts), z)
    assert_allclose(own.interval, counts.interval, atol=0.03)


@pytest.mark.parametrize("name", KINDS)
def test_groups_of_copies_count_once(name):
    """Each row three times, in one group: the interval of the rows themselves."""
    votes, z = study(n=100)
    y = Annotations.from_matrix(votes)
    thrice = np.repeat(np.arange(100), 3)
    show = partial(reliability_curve, kind=KINDS[name], n_bins=4)
    for labels in (y.counts, y):
        alone = show(labels, z)
        copies = show(labels[thrice], z[thrice], groups=thrice)
        naive = show(labels[thrice], z[thrice], raters="fixed")
        # the design effect borrows a unit, of which copies have more
        assert width(copies) == pytest.approx(width(alone), rel=0.25)
        assert width(naive) < 0.8 * width(copies)


def test_too_few_raters_for_a_curve():
    votes, z = study(R=3)
    y = Annotations.from_matrix(votes)
    with pytest.warns(UserWarning, match="only 3 raters"):
        reliability_curve(y, z)
    with pytest.raises(ValueError, match='4 raters at least here, got 3; raters="fixed"'):
        reliability_curve(y, z, kind="disagreement")
    with pytest.raises(ValueError, match="3 raters at least here, got 2"):
        reliability_curve(y.keep(y.rater < 2), z)
    with pytest.raises(ValueError, match="needs to know who gave each label"):
        reliability_curve(y.counts, z, raters="random")


def test_risks_and_losses_take_raters_and_groups():
    votes, z = study()
    y = Annotations.from_matrix(votes)
    groups = np.arange(200) // 4
    costs = np.array([[0, 1], [1, 0]])
    show = partial(decision_risks, y, {"m": z}, costs)
    for how in ({"groups": groups}, {"raters": "fixed"}, {}):
        expected = confidence_interval(
            decision_risk, y, (z > 0.5).astype(int), cost_matrix=costs, random_state=0, **how
        )
        assert_allclose(show(**how).interval[0], expected[1:3])
    with pytest.raises(ValueError, match="groups are for one test set"):
        decision_risks([y, y], [{"m": z}] * 2, costs, groups=groups)
    show = partial(CalibrationDispersionDisplay.from_predictions, y, {"m": z}, n_bins=4)
    new, these = show(), show(raters="fixed")
    counts = CalibrationDispersionDisplay.from_predictions(y.counts, {"m": z}, n_bins=4)
    new, these, counts = (
        display.result.intervals["m"]["calibration_loss"] for display in (new, these, counts)
    )
    assert_allclose(these.estimate, counts.estimate)
    assert new.high - new.low != these.high - these.low
    assert (new.n_raters, these.n_raters) == (6, None)


def test_decision_curves_take_raters():
    votes, z = study(n=60)
    y = Annotations.from_matrix(votes)
    how = {"sample_weight": 1 + np.arange(60) % 3, "groups": np.arange(60) // 2}
    show = partial(decision_curve, thresholds=[0.3, 0.6], **how)
    models = {"m": z, "flat": np.sqrt(z)}
    new, these = show(y, models, reference="m"), show(y, models, reference="m", raters="fixed")
    assert_allclose(these.interval, show(y.counts, models).interval)
    assert_allclose(new.net_benefit, these.net_benefit, rtol=1e-12)
    assert_allclose(new.difference, these.difference, rtol=1e-12, atol=1e-15)
    how |= {"threshold": 0.6, "random_state": 0}
    # the variance over groups is that of a mean, and of the jackknife: 2 % apart with 30 groups
    assert_allclose(
        np.ptp(new.interval[0, 1]),
        np.ptp(confidence_interval(net_benefit, y, z, **how)[1:3]),
        rtol=0.1,
    )
    paired = paired_difference(net_benefit, y, np.sqrt(z), z, **how)
    assert_allclose(np.ptp(new.difference_interval[1, 1]), np.ptp(paired[1:3]), rtol=0.1)


def test_second_opinions_in_groups():
    data = make_label_histograms(150, total=2.0, random_state=0)
    thrice = np.repeat(np.arange(150), 3)
    dist = Dirichlet.from_mean(data.prediction, data.total)
    show = partial(referral_curve, n_points=5)
    alone = show(data.counts, dist)
    copies = show(data.counts[thrice], dist[thrice], groups=thrice)
    assert_allclose(copies.interval, alone.interval, atol=1e-9)
    assert_allclose(copies.realised_gain, alone.realised_gain)


def test_gains_in_groups():
    """Each row three times, in one group: the interval of the rows themselves."""
    rng = np.random.default_rng(0)
    gain, estimate = rng.uniform(-1, 1, 90), rng.random(90)
    thrice = np.repeat(np.arange(90), 3)
    show = partial(gain_curve, n_bins=[0, 0.3, 0.6, 1])
    alone = show(gain, estimate)
    copies = show(gain[thrice], estimate[thrice], groups=thrice)
    assert_allclose(copies.interval, alone.interval)
    assert_allclose(show(gain, estimate, groups=np.arange(90)).interval, alone.interval)
    with pytest.raises(ValueError, match="groups are for one run"):
        show([gain, gain], [estimate, estimate], groups=np.arange(90))
