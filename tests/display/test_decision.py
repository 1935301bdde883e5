"""DecisionRiskDisplay: its numbers are those of the metrics, and what is drawn."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from numpy.testing import assert_allclose
from scipy.special import softmax
from scipy.stats import t as student
from sklearn.datasets import load_breast_cancer
from sklearn.naive_bayes import GaussianNB

from sklearn_lhcal.calibration import DecisionCalibration
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.display import DecisionCurveDisplay, DecisionRiskDisplay
from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import (
    bayes_decision,
    confidence_interval,
    decision_risk,
    model_risk,
    risk_decomposition,
)

C = np.array([[0.0, 1.0, 2.0, 0.5], [5.0, 0.0, 1.0, 0.5], [20.0, 3.0, 0.0, 0.5]])
show = DecisionRiskDisplay.from_predictions


@pytest.fixture
def data():
    return make_label_histograms(300, n_classes=3, n_raters=2, overconfidence=3.0, random_state=0)


@pytest.fixture
def models(data):
    return {"sharp": data.prediction, "calibrated": softmax(np.log(data.prediction) / 3, axis=1)}


def test_numbers_of_one_test_set(data, models):
    display = show(data.counts, models, C)
    for i, z in enumerate(models.values()):
        d = bayes_decision(z, C)
        assert_allclose(display.true_risk[i, 0], decision_risk(data.counts, d, C))
        assert_allclose(display.model_risk[i, 0], model_risk(z, C))
        interval = confidence_interval(decision_risk, data.counts, d, cost_matrix=C, random_state=0)
        assert_allclose(display.interval[i], [interval.low, interval.high])
    parts = risk_decomposition(data.counts, data.prediction.round(1) * 0 + 1 / 3, C)
    assert_allclose(display.constant_risk, [parts.uncertainty])
    assert display.curves is None
    assert_allclose(display.difference_interval[0], 0, atol=1e-12)
    assert display.true_risk[0] > display.model_risk[0]


def test_numbers_of_splits(data, models):
    parts = np.array_split(np.arange(300), 5)
    ys = [data.counts[rows] for rows in parts]
    predictions = [{name: z[rows] for name, z in models.items()} for rows in parts]
    display = show(ys, predictions, C, reference="calibrated")
    one = show(ys[2], predictions[2], C)
    assert_allclose(display.true_risk[:, 2], one.true_risk[:, 0])
    assert_allclose(display.interval.mean(axis=1), display.true_risk.mean(axis=1))
    assert_allclose(display.difference_interval[1], 0)
    wide = show(ys, predictions, C, reference="calibrated", test_share=0.5)
    ratio = np.ptp(wide.interval, axis=1) / np.ptp(display.interval, axis=1)
    assert_allclose(ratio, np.sqrt((1 / 5 + 1) / (1 / 5)))


def test_cost_curves_are_the_risk_at_each_ratio():
    data = make_label_histograms(200, n_classes=2, overconfidence=2.0, random_state=0)
    display = show(data.counts, data.prediction, [[0, 1], [4, 0]])
    s = np.linspace(0, 1, 101)
    for j in (0, 20, 77, 100):
        costs = [[0, 1 - s[j]], [s[j], 0]]
        assert_allclose(
            display.curves[0, j],
            decision_risk(data.counts, bayes_decision(data.prediction, costs), costs),
        )
    share = (data.counts / data.counts.sum(axis=1, keepdims=True)).mean(axis=0)
    assert_allclose(display.curves[1], np.minimum((1 - s) * share[0], s * share[1]), atol=1e-12)
    assert display.names == ["model"]
    drawn = display.plot_cost_curves()
    assert_allclose(drawn.lines_[0].get_ydata(), display.curves[0])
    assert drawn.ax_.get_xlabel().startswith("Cost s of missing the second class")
    # at each ratio the interval is that of the mean over rows: sd/√n
    costs = np.array([[0, 0.7], [0.3, 0]])
    mu = data.counts / data.counts.sum(axis=1, keepdims=True)
    d = bayes_decision(data.prediction, costs)
    cost = (mu * costs[:, d].T).sum(axis=1)
    half = student.ppf(0.975, 199) * cost.std(ddof=1) / np.sqrt(200)
    assert_allclose(display.curve_interval[0, 30], cost.mean() + half * np.array([-1, 1]))
    (path,) = drawn.bands_[0].get_paths()
    assert_allclose(path.vertices[:, 1].max(), display.curve_interval[0, :, 1].max())


def test_intervals_of_cost_curves_over_splits_and_raters():
    data = make_label_histograms(120, n_classes=2, n_raters=5, random_state=0)
    z = data.prediction
    parts = np.array_split(np.arange(120), 4)
    costs = [[0, 0.6], [0.4, 0]]
    splits = show([data.counts[p] for p in parts], [{"m": z[p]} for p in parts], costs)
    assert_allclose(splits.curve_interval[0, 40], splits.interval[0])
    said = np.array([np.repeat([0, 1], c) for c in data.counts])
    y = Annotations.from_matrix(np.random.default_rng(0).permuted(said, axis=1))
    for raters in ("random", "fixed"):
        display = show(y, z, costs, raters=raters)
        half = np.ptp([display.curve_interval[0, 40], display.interval[0]], axis=1)
        # the variance over rows has blocks, where that of curves has rows
        assert_allclose(*half, rtol=0.4)


def test_a_model_keeps_its_colour(data, models):
    colours = ["#123456", "#654321"]
    own = [{"color": colour} for colour in colours]
    display = show(data.counts, models, C, point_kwargs=own)
    for kind in (display.points_, display.model_points_):
        assert [line.get_color() for line in kind] == colours
    labels = [text.get_text() for text in display.legend_.get_texts()]
    assert labels[:2] == ["by the labels", "as the model estimates"]
    assert display.plot_differences(point_kwargs=own).points_[0].get_color() == colours[1]
    two = make_label_histograms(200, n_classes=2, random_state=0)
    both = {"a": two.prediction, "b": two.proba}
    drawn = show(two.counts, both, [[0, 1], [4, 0]]).plot_cost_curves(line_kwargs=own)
    assert [line.get_color() for line in drawn.lines_] == colours
    assert_allclose(drawn.bands_[1].get_facecolor()[0, :3], to_rgb(colours[1]))
    benefit = DecisionCurveDisplay.from_predictions(two.counts, both, line_kwargs=own)
    assert_allclose(benefit.bands_[1].get_facecolor()[0, :3], to_rgb(colours[1]))
    with pytest.raises(ValueError, match="point_kwargs must be a dict, or a list of 2"):
        show(data.counts, models, C, point_kwargs=own[:1])


def test_what_is_drawn(data, models):
    ax = plt.subplots()[1]
    display = show(data.counts, models, C, ax=ax, point_kwargs={"markersize": 9})
    assert display.ax_ is ax
    assert [line.get_ydata().tolist() for line in display.points_] == display.true_risk.tolist()
    assert [
        line.get_ydata().tolist() for line in display.model_points_
    ] == display.model_risk.tolist()
    assert display.points_[0].get_markersize() == 9
    assert_allclose(display.constant_.get_ydata()[0], display.constant_risk.mean())
    assert [t.get_text() for t in ax.get_xticklabels()] == ["sharp", "calibrated"]
    labels = [t.get_text() for t in display.legend_.get_texts()]
    assert labels == [
        "by the labels",
        "as the model estimates",
        "best default decision",
        "mean, 95%",
    ]
    display.plot_differences()
    assert display.ax_ is not ax
    assert display.ax_.get_xlabel() == "Risk minus that of sharp (mean cost)"
    assert_allclose(display.points_[0].get_xdata(), display.true_risk[1] - display.true_risk[0])


# naive Bayes prints zeros
@pytest.mark.filterwarnings("ignore:.*labels to which the classifier gives no probability")
def test_from_estimators_and_frames():
    X, y = load_breast_cancer(return_X_y=True)
    names = np.array(["malignant", "benign"])[y]
    costs = pd.DataFrame({"treat": [0, 5], "wait": [50, 0]}, index=["malignant", "benign"])
    plain = GaussianNB().fit(X[:200], names[:200])
    model = DecisionCalibration(GaussianNB(), costs, criterion="nll").fit(X[:300], names[:300])
    display = DecisionRiskDisplay.from_estimator(
        {"plain": plain, "calibrated": model}, X[300:], names[300:]
    )
    z = pd.DataFrame(plain.predict_proba(X[300:]), columns=plain.classes_)
    assert_allclose(
        display.true_risk[0], decision_risk(names[300:], bayes_decision(z, costs), costs)
    )
    by_frames = show(names[300:], {"plain": z}, costs)
    assert_allclose(by_frames.true_risk[0], display.true_risk[0])
    assert_allclose(by_frames.constant_risk, display.constant_risk)
    with pytest.raises(ValueError, match="No estimator has a cost matrix; pass cost_matrix"):
        DecisionRiskDisplay.from_estimator(plain, X, names)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence_level": 1.0}, "confidence_level must lie between 0 and 1"),
        ({"test_share": 0.0}, "test_share must lie between 0 and 1"),
        ({"reference": "nobody"}, "reference must be one of the models"),
    ],
)
def test_what_is_refused(options, message, data, models):
    with pytest.raises(ValueError, match=message):
        show(data.counts, models, C, **options)
    with pytest.raises(ValueError, match="predictions of the same models"):
        show([data.counts] * 2, [models], C)
    with pytest.raises(ValueError, match="Cost curves are for two classes"):
        show(data.counts, models, C).plot_cost_curves()
