"""cost_curve: the risk at each ratio of two costs; its display and that of decision_curve."""

import pickle

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import t as student
from sklearn.linear_model import LogisticRegression

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.display import CostCurveDisplay, DecisionCurveDisplay
from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import (
    bayes_decision,
    cost_curve,
    decision_curve,
    decision_risk,
    decision_risks,
)

DISPLAYS = {cost_curve: CostCurveDisplay, decision_curve: DecisionCurveDisplay}


@pytest.fixture
def data():
    return make_label_histograms(200, n_classes=2, overconfidence=2.0, random_state=0)


@pytest.fixture
def models(data):
    return {"a": data.prediction, "b": data.proba}


def test_cost_curves_are_the_risk_at_each_ratio(data):
    display = CostCurveDisplay.from_predictions(data.counts, data.prediction)
    curve = display.result
    s = np.linspace(0, 1, 101)
    assert_allclose(curve.share, s)
    for j in (0, 20, 77, 100):
        costs = [[0, 1 - s[j]], [s[j], 0]]
        assert_allclose(
            curve.risk[0, j],
            decision_risk(data.counts, bayes_decision(data.prediction, costs), costs),
        )
    share = (data.counts / data.counts.sum(axis=1, keepdims=True)).mean(axis=0)
    assert_allclose(curve.default_risk, np.minimum((1 - s) * share[0], s * share[1]), atol=1e-12)
    assert curve.names == ["model"]
    assert_allclose(display.lines_[0].get_ydata(), curve.risk[0])
    assert_allclose(display.default_.get_ydata(), curve.default_risk)
    assert display.ax_.get_xlabel().startswith("Cost s of missing the second class")
    # at each ratio the interval is that of the mean over rows: sd/√n
    costs = np.array([[0, 0.7], [0.3, 0]])
    mu = data.counts / data.counts.sum(axis=1, keepdims=True)
    d = bayes_decision(data.prediction, costs)
    cost = (mu * costs[:, d].T).sum(axis=1)
    half = student.ppf(0.975, 199) * cost.std(ddof=1) / np.sqrt(200)
    assert_allclose(curve.interval[0, 30], cost.mean() + half * np.array([-1, 1]))
    (path,) = display.bands_[0].get_paths()
    assert_allclose(path.vertices[:, 1].max(), curve.interval[0, :, 1].max())


@pytest.mark.parametrize("raters", ["random", "fixed"])
def test_intervals_of_cost_curves_over_raters(raters):
    data = make_label_histograms(120, n_classes=2, n_raters=5, random_state=0)
    said = np.array([np.repeat([0, 1], c) for c in data.counts])
    y = Annotations.from_matrix(np.random.default_rng(0).permuted(said, axis=1))
    curve = cost_curve(y, data.prediction, raters=raters)
    risks = decision_risks(y, data.prediction, [[0, 0.6], [0.4, 0]], raters=raters)
    assert curve.raters == risks.raters == raters
    half = np.ptp([curve.interval[0, 40], risks.interval[0]], axis=1)
    # the variance over rows has blocks, where that of curves has rows
    assert_allclose(*half, rtol=0.4)


def test_several_models_are_those_alone(data, models):
    w = np.random.default_rng(0).random(200)
    both = cost_curve(data.counts, models, sample_weight=w, groups=np.arange(200) // 2)
    for i, z in enumerate(models.values()):
        one = cost_curve(data.counts, z, sample_weight=w, groups=np.arange(200) // 2)
        assert_array_equal(both.risk[i], one.risk[0])
        assert_array_equal(both.interval[i], one.interval[0])


def test_estimators_meet_by_name(data):
    words = np.array(["yes", "no"])[data.counts.argmax(axis=1)]
    model = LogisticRegression().fit(data.X, words)
    display = CostCurveDisplay.from_estimator(model, data.X, words)
    assert display.result.names == ["LogisticRegression"]
    # "no" is the first of the names
    z = model.predict_proba(data.X)
    expected = cost_curve((words == "yes").astype(int), z)
    assert_allclose(display.result.risk, expected.risk)
    assert display.ax_.get_xlabel() == "Cost s of missing class yes (class no: 1 − s)"


@pytest.mark.parametrize("function", DISPLAYS)
def test_a_model_keeps_its_colour(data, models, function):
    colours = ["#123456", "#654321"]
    own = [{"color": colour} for colour in colours]
    drawn = DISPLAYS[function].from_predictions(data.counts, models, line_kwargs=own)
    assert [line.get_color() for line in drawn.lines_] == colours
    assert [line.get_label() for line in drawn.lines_] == ["a", "b"]
    assert_allclose(drawn.bands_[1].get_facecolor()[0, :3], to_rgb(colours[1]))
    with pytest.raises(ValueError, match="line_kwargs must be a dict, or a list of 2"):
        DISPLAYS[function].from_predictions(data.counts, models, line_kwargs=own[:1])


@pytest.mark.parametrize("function", DISPLAYS)
def test_a_result_is_all_that_is_drawn(data, models, function):
    curve = function(data.counts, models, confidence_level=0.9)
    kept = DISPLAYS[function](pickle.loads(pickle.dumps(curve))).plot()
    other = DISPLAYS[function].from_predictions(data.counts, models, confidence_level=0.9)
    for line, same in zip(kept.ax_.lines, other.ax_.lines, strict=True):
        assert_array_equal(line.get_xydata(), same.get_xydata())
    assert kept.legend_.get_title().get_text() == "90% intervals"


@pytest.mark.parametrize(
    ("function", "value", "x", "reference"),
    [
        (cost_curve, "risk", "share", "default_risk"),
        (decision_curve, "net_benefit", "thresholds", "treat_all"),
    ],
)
def test_its_frame(data, models, function, value, x, reference):
    curve = function(data.counts, models)
    frame = curve.to_frame()
    for i, name in enumerate(curve.names):
        own = frame.loc[name]
        assert_array_equal(own.index, getattr(curve, x))
        assert_array_equal(own[value], getattr(curve, value)[i])
        assert_array_equal(own[["low", "high"]], curve.interval[i])
        assert_array_equal(own[reference], getattr(curve, reference))


def test_what_is_refused():
    data = make_label_histograms(60, n_classes=3, random_state=0)
    with pytest.raises(ValueError, match="A cost curve is of two classes; y and prediction have 3"):
        cost_curve(data.counts, data.prediction)
    with pytest.raises(ValueError, match="prediction is an empty dict"):
        cost_curve(data.counts, {})
