"""Net benefit and decision curves: dcurves' numbers, its laws, and bands that cover."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from oracles import expectation, random_proba
from sklearn.linear_model import LogisticRegression

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.display import DecisionCurveDisplay
from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.label_histogram import KnownProbabilities
from sklearn_lhcal.metrics import (
    bayes_decision,
    confidence_interval,
    decision_curve,
    decision_risk,
    net_benefit,
    paired_difference,
)

show = decision_curve
draw = DecisionCurveDisplay.from_predictions
COUNTS = np.array([[3, 1, 0], [0, 2, 2], [1, 0, 4], [2, 2, 0], [0, 0, 1], [1, 1, 1]])
T = [0.0, 0.05, 0.2, 0.35, 0.5, 0.8]


@pytest.fixture
def data():
    return make_label_histograms(400, n_raters=(1, 4), overconfidence=2.0, random_state=0)


# --------------------------------------------------------------------------------------- the number


def test_it_is_that_of_dcurves():
    """Transcript of dcurves 1.1.7: ``dca(df, "y", ["p"], thresholds=T)``."""
    # fmt: off
    p = [0.32, 0.16, 0.34, 0.09, 0.24, 0.47, 0.66, 0.46, 0.33, 0.19, 0.08, 0.26, 0.61, 0.61, 0.66,
         0.15, 0.26, 0.49, 0.66, 0.37, 0.53, 0.61, 0.4, 0.41, 0.12, 0.25, 0.68, 0.29, 0.32, 0.42]
    y = [1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0]
    # fmt: on
    model = [0.263158, 0.175, 0.038462, -0.066667, 0.0]
    treat_all = [0.263158, 0.125, -0.076923, -0.4, -2.5]
    assert_allclose([net_benefit(y, p, t) for t in T[1:]], model, atol=5e-7)
    assert_allclose([net_benefit(y, np.ones(30), t) for t in T[1:]], treat_all, atol=5e-7)
    curve = show(y, p, thresholds=T[1:])
    assert_allclose(curve.net_benefit, [model], atol=5e-7)
    assert_allclose(curve.treat_all, treat_all, atol=5e-7)


@pytest.mark.parametrize("t", T)
@pytest.mark.parametrize("k", range(3))
def test_it_is_the_share_of_the_class_less_a_risk(data, t, k):
    y = np.column_stack([data.counts.sum(axis=1) - data.counts[:, k], data.counts[:, k]])
    p, w = data.prediction[:, k], np.random.default_rng(0).random(400)
    costs = [[0, t], [1 - t, 0]]
    # who is indifferent acts, so the row of ties is put on that side
    decisions = (p >= t).astype(int)
    risk = decision_risk(y, decisions, costs, sample_weight=w)
    share = np.average(y[:, 1] / y.sum(axis=1), weights=w)
    found = net_benefit(data.counts, data.prediction, t, class_index=k, sample_weight=w)
    assert found == pytest.approx(share - risk / (1 - t), rel=1e-12, abs=1e-14)
    if t:
        assert (bayes_decision(p, costs) == decisions).all()


@pytest.mark.parametrize("raters", [[1, 1, 1], [1, 2, 3]])
def test_it_is_unbiased_with_any_number_of_raters(raters):
    rng = np.random.default_rng(0)
    Q, z = random_proba(rng, 3, 2), random_proba(rng, 3, 2)
    for t in T:
        mean = expectation(lambda y, t=t: net_benefit(y, z, t), Q, raters)
        assert mean == pytest.approx(net_benefit(KnownProbabilities(Q), z, t), abs=1e-14)


def test_weights_are_repetitions_and_order_does_not_matter(data):
    w = np.random.default_rng(0).integers(0, 3, size=400)
    y, z = data.counts, data.prediction
    weighted = net_benefit(y, z, 0.3, class_index=2, sample_weight=w)
    repeated = net_benefit(np.repeat(y, w, axis=0), np.repeat(z, w, axis=0), 0.3, class_index=2)
    assert weighted == pytest.approx(repeated, rel=1e-12)
    order = np.random.default_rng(1).permutation(400)
    again = net_benefit(y[order], z[order], 0.3, class_index=2, sample_weight=w[order])
    assert again == pytest.approx(weighted, rel=1e-12)


@pytest.mark.parametrize("t", np.arange(1, 10) / 10)
def test_a_threshold_is_reached_in_any_precision(t):
    # 1 − .9 is below .1, and .7 in float32 below .7
    tenths = np.arange(11)
    y = [0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 1]
    acts = tenths >= round(10 * t)
    for k, p in ((1, tenths / 10), (0, 1 - tenths / 10)):
        expected = np.mean(acts * np.where(np.equal(y, k), 1, -t / (1 - t)))
        for z in (p, p.astype(np.float32), np.column_stack([1 - p, p])):
            assert net_benefit(y, z, t, class_index=k) == pytest.approx(expected, abs=1e-12)


def test_classes_meet_by_name(data):
    names = ["ant", "bee", "cat"]
    y, z = (pd.DataFrame(a, columns=names) for a in (data.counts, data.prediction))
    expected = net_benefit(data.counts, data.prediction, 0.3, class_index=1)
    for order in (names, names[::-1]):
        assert net_benefit(y, z[order], 0.3, class_index="bee") == pytest.approx(expected)
        d = Dirichlet.from_mean(z[order], 3.0)
        assert net_benefit(y, d, 0.3, class_index="bee") == pytest.approx(expected)
    models = {"a": z, "b": z[names[::-1]]}
    curve = show(y, models, thresholds=[0.3], class_index="bee", reference="a")
    assert_allclose(curve.net_benefit, expected)
    assert_allclose(curve.difference, 0, atol=1e-14)
    assert curve.class_name == "bee"


@pytest.mark.parametrize("t", [-0.1, 1.0, np.nan])
def test_thresholds_are_checked(t):
    with pytest.raises(ValueError, match="threshold must be"):
        net_benefit([0, 1], [0.2, 0.8], t)
    with pytest.raises(ValueError, match="thresholds must be"):
        show([0, 1], [0.2, 0.8], thresholds=[t])


def test_the_class_must_be_known():
    z = COUNTS / COUNTS.sum(axis=1, keepdims=True)
    with pytest.raises(ValueError, match="one of the 3 classes"):
        net_benefit(COUNTS, z, 0.5)
    with pytest.raises(ValueError, match="one of the 3 classes"):
        show(COUNTS, z)
    with pytest.raises(ValueError, match="Class 3 is no column"):
        show(COUNTS, z, class_index=3)


# ---------------------------------------------------------------------------------------- intervals


def test_bands_are_students_intervals_of_the_mean(data):
    """One row, one number: sd(a)/√n; paired with acting on all, and with another model."""
    y, z = data.counts, data.prediction
    models = {"model": z, "true": data.proba}
    curve = show(y, models, class_index=0, thresholds=[0.2, 0.6])
    mu = y[:, 0] / y.sum(axis=1)
    for j, t in enumerate(curve.thresholds):
        gain = mu - (1 - mu) * t / (1 - t)
        a = [np.where(p[:, 0] >= t, gain, 0) for p in models.values()]
        for i, values in enumerate(a):
            assert_allclose(curve.interval[i, j], _student(values), rtol=1e-10)
            assert_allclose(curve.difference_interval[i, j], _student(values - gain), rtol=1e-10)
        paired = show(y, models, class_index=0, thresholds=[t], reference="true")
        assert_allclose(paired.difference_interval[0, 0], _student(a[0] - a[1]), rtol=1e-10)
        assert_allclose(paired.difference_interval[1, 0], 0, atol=1e-14)


def _student(a):
    from scipy.stats import t as student

    return student.interval(0.95, len(a) - 1, a.mean(), a.std(ddof=1) / np.sqrt(len(a)))


def test_they_agree_with_the_jackknife(data):
    """Blocks of rows deviate from rows by their own noise: a standard error of 50 blocks is known
    to 1/√98, a tenth."""
    y, z = data.counts, data.prediction
    curve = show(y, {"z": z, "q": data.proba}, class_index=0, thresholds=[0.3], reference="q")
    how = {"threshold": 0.3, "class_index": 0, "random_state": 0}
    one = confidence_interval(net_benefit, y, z, **how)
    two = paired_difference(net_benefit, y, z, data.proba, **how)
    for found, interval in ((one, curve.interval), (two, curve.difference_interval)):
        assert np.ptp(interval[0, 0]) == pytest.approx(found.high - found.low, rel=0.5)
        assert interval[0, 0].mean() == pytest.approx(found.estimate, abs=1e-12)


def test_groups_are_the_units(data):
    """Each row twice, as one group: the same intervals as once."""
    y, z = data.counts, data.prediction
    once = show(y, z, class_index=0)
    twice = np.tile(np.arange(400), 2)
    groups = show(np.tile(y, (2, 1)), np.tile(z, (2, 1)), class_index=0, groups=twice)
    assert_allclose(groups.interval, once.interval, rtol=1e-10, atol=1e-14)
    assert_allclose(groups.difference_interval, once.difference_interval, rtol=1e-10, atol=1e-14)


@pytest.mark.slow
def test_intervals_cover():
    """Votes and rows anew: 600 draws of 300 rows at .95 have a standard error of .009."""
    truth = make_label_histograms(300_000, 2, 1, overconfidence=2.0, random_state=0)
    t = [0.1, 0.3, 0.6]
    expected = show(KnownProbabilities(truth.proba), truth.prediction, thresholds=t)
    rng = np.random.default_rng(1)
    covered = []
    for _ in range(600):
        rows = rng.integers(0, 300_000, size=300)
        n = rng.integers(1, 4, size=300)
        curve = show(rng.multinomial(n, truth.proba[rows]), truth.prediction[rows], thresholds=t)
        for name in ("net_benefit", "difference"):
            ends = getattr(curve, f"{'' if name == 'net_benefit' else 'difference_'}interval")[0]
            value = getattr(expected, name)[0]
            covered.append((ends[:, 0] <= value) & (value <= ends[:, 1]))
    assert np.abs(np.mean(covered, axis=0) - 0.95).max() < 0.03


# ------------------------------------------------------------------------------------------- figure


def test_what_is_drawn(data):
    models = {"model": data.prediction, "true": data.proba}
    display = draw(data.counts, models, class_index=1, reference="true")
    assert [line.get_label() for line in display.lines_] == ["model", "true"]
    assert_allclose(display.lines_[0].get_ydata(), display.result.net_benefit[0])
    assert_allclose(display.all_.get_ydata(), display.result.treat_all)
    assert "class 1" in display.ax_.get_xlabel()
    words = [text.get_text() for text in display.legend_.get_texts()]
    assert words == ["model", "true", "act on all", "act on none"]
    (line,) = display.plot_differences().lines_
    assert_allclose(line.get_ydata(), display.result.difference[0])
    ax = display.plot(plt.subplots()[1], line_kwargs={"linewidth": 3}).ax_
    assert ax is display.lines_[0].axes
    assert display.lines_[0].get_linewidth() == 3


def test_of_estimators(data):
    labels = data.counts.argmax(axis=1)
    model = LogisticRegression().fit(data.X[:200], labels[:200])
    one = DecisionCurveDisplay.from_estimator(model, data.X[200:], data.counts[200:], class_index=1)
    z = model.predict_proba(data.X[200:])
    assert one.result.names == ["LogisticRegression"]
    assert_allclose(one.result.net_benefit, show(data.counts[200:], z, class_index=1).net_benefit)


def test_bad_arguments():
    y, p = [0, 1, 1], [0.2, 0.8, 0.5]
    with pytest.raises(ValueError, match="reference must be one of the models"):
        show(y, {"a": p}, reference="b")
    with pytest.raises(ValueError, match="two samples or groups"):
        show(y, p, groups=[1, 1, 1])
    with pytest.raises(ValueError, match="confidence_level"):
        show(y, p, confidence_level=95)
    with pytest.raises(ValueError, match="thresholds must be"):
        show(y, p, thresholds=[0.5, 0.4])


def test_pos_label_names_the_argument_that_is_meant():
    for call in (net_benefit, show):
        with pytest.raises(TypeError, match="pos_label is class_index here"):
            call([0, 1] * 20, [0.1, 0.9] * 20, 0.5, pos_label=1)
