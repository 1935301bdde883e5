"""decision_risks: its numbers are those of the metrics; its display and what is drawn."""

import pickle

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.datasets import load_breast_cancer
from sklearn.naive_bayes import GaussianNB

from sklearn_lhcal.calibration import DecisionCalibration
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.display import DecisionRiskDisplay
from sklearn_lhcal.metrics import (
    bayes_decision,
    confidence_interval,
    decision_risk,
    decision_risks,
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
    risks = decision_risks(data.counts, models, C)
    for i, z in enumerate(models.values()):
        d = bayes_decision(z, C)
        assert_allclose(risks.true_risk[i, 0], decision_risk(data.counts, d, C))
        assert_allclose(risks.model_risk[i, 0], model_risk(z, C))
        interval = confidence_interval(decision_risk, data.counts, d, cost_matrix=C, random_state=0)
        assert_allclose(risks.interval[i], [interval.low, interval.high])
    parts = risk_decomposition(data.counts, data.prediction.round(1) * 0 + 1 / 3, C)
    assert_allclose(risks.default_risk, [parts.uncertainty])
    assert_allclose(risks.difference_interval[0], 0, atol=1e-12)
    assert risks.true_risk[0] > risks.model_risk[0]


def test_numbers_of_splits(data, models):
    parts = np.array_split(np.arange(300), 5)
    ys = [data.counts[rows] for rows in parts]
    predictions = [{name: z[rows] for name, z in models.items()} for rows in parts]
    risks = decision_risks(ys, predictions, C, reference="calibrated")
    one = decision_risks(ys[2], predictions[2], C)
    assert_allclose(risks.true_risk[:, 2], one.true_risk[:, 0])
    assert_allclose(risks.interval.mean(axis=1), risks.true_risk.mean(axis=1))
    assert_allclose(risks.difference_interval[1], 0)
    wide = decision_risks(ys, predictions, C, reference="calibrated", test_fraction=0.5)
    ratio = np.ptp(wide.interval, axis=1) / np.ptp(risks.interval, axis=1)
    assert_allclose(ratio, np.sqrt((1 / 5 + 1) / (1 / 5)))


def test_a_model_keeps_its_colour(data, models):
    colours = ["#123456", "#654321"]
    own = [{"color": colour} for colour in colours]
    display = show(data.counts, models, C, point_kwargs=own)
    for kind in (display.points_, display.model_points_):
        assert [line.get_color() for line in kind] == colours
    labels = [text.get_text() for text in display.legend_.get_texts()]
    assert labels[:2] == ["by the labels", "as the model estimates"]
    assert display.plot_differences(point_kwargs=own).points_[0].get_color() == colours[1]
    with pytest.raises(ValueError, match="point_kwargs must be a dict, or a list of 2"):
        show(data.counts, models, C, point_kwargs=own[:1])


def test_what_is_drawn(data, models):
    ax = plt.subplots()[1]
    display = show(data.counts, models, C, ax=ax, point_kwargs={"markersize": 9})
    assert display.ax_ is ax
    assert [
        line.get_ydata().tolist() for line in display.points_
    ] == display.result.true_risk.tolist()
    assert [
        line.get_ydata().tolist() for line in display.model_points_
    ] == display.result.model_risk.tolist()
    assert display.points_[0].get_markersize() == 9
    assert_allclose(display.default_.get_ydata()[0], display.result.default_risk.mean())
    assert [t.get_text() for t in ax.get_xticklabels()] == ["sharp", "calibrated"]
    labels = [t.get_text() for t in display.legend_.get_texts()]
    assert labels == [
        "by the labels",
        "as the model estimates",
        "best default decision",
        "mean, 95%",
    ]
    kept = DecisionRiskDisplay(pickle.loads(pickle.dumps(display.result))).plot()
    for one, other in zip(kept.points_, display.points_, strict=True):
        assert_array_equal(one.get_xydata(), other.get_xydata())
    assert_array_equal(kept.errorbar_[0].get_ydata(), display.result.true_risk.mean(axis=1))
    display.plot_differences()
    assert display.ax_ is not ax
    assert display.ax_.get_xlabel() == "Risk minus that of sharp (mean cost)"
    assert_allclose(display.points_[0].get_xdata(), display.result.difference[1])


def test_its_frame(data, models):
    risks = decision_risks(data.counts, models, C, reference="calibrated")
    frame = risks.to_frame()
    assert frame.index.tolist() == risks.names
    assert_array_equal(frame["true_risk"], risks.true_risk[:, 0])
    assert_array_equal(frame["model_risk"], risks.model_risk[:, 0])
    assert_array_equal(frame[["low", "high"]], risks.interval)
    assert_array_equal(frame["difference"], risks.difference[:, 0])
    ends = frame[["difference_low", "difference_high"]]
    assert_array_equal(ends, risks.difference_interval)


# naive Bayes prints zeros
@pytest.mark.filterwarnings("ignore:.*labels to which the classifier gives no probability")
def test_from_several_estimators_and_frames():
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
        display.result.true_risk[0], decision_risk(names[300:], bayes_decision(z, costs), costs)
    )
    by_frames = decision_risks(names[300:], {"plain": z}, costs)
    assert_allclose(by_frames.true_risk[0], display.result.true_risk[0])
    assert_allclose(by_frames.default_risk, display.result.default_risk)
    with pytest.raises(ValueError, match="No estimator has a cost matrix; pass cost_matrix"):
        DecisionRiskDisplay.from_estimator(plain, X, names)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence_level": 1.0}, "confidence_level must lie between 0 and 1"),
        ({"test_fraction": 0.0}, "test_fraction must lie between 0 and 1"),
        ({"reference": "nobody"}, "reference must be one of the models"),
    ],
)
def test_what_is_refused(options, message, data, models):
    with pytest.raises(ValueError, match=message):
        decision_risks(data.counts, models, C, **options)
    with pytest.raises(ValueError, match="predictions of the same models"):
        decision_risks([data.counts] * 2, [models], C)
