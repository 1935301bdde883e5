"""A monitor is drawn as it stands."""

import pickle

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.display import MonitorDisplay
from sklearn_lhcal.metrics import CalibrationMonitor


@pytest.fixture
def data():
    return make_label_histograms(300, n_raters=2, overconfidence=2.0, random_state=0)


def test_what_is_drawn_is_the_history(data):
    monitor = CalibrationMonitor().update(data.counts, data.prediction)
    display = MonitorDisplay(monitor).plot()
    means, pairs = display.lines_
    history = monitor.history
    assert_allclose(means.get_xdata(), history.sample)
    assert_allclose(means.get_ydata(), history.log_e / np.log(10))
    assert_allclose(pairs.get_ydata(), history.log_e_disagreement / np.log(10))
    assert_allclose(display.threshold_.get_ydata(), np.log10(20))
    alarms = [circle.get_xdata()[0] for circle in display.alarms_]
    assert alarms == [monitor.alarm, monitor.disagreement_alarm]
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert "class means" in legend
    assert "threshold 20" in legend
    assert f"alarm at sample {monitor.alarm}" in legend
    assert "samples" in display.ax_.get_xlabel()
    assert "log" in display.ax_.get_ylabel()


def test_axes_styles_and_what_there_is_not(data):
    ax = plt.figure().subplots()
    monitor = CalibrationMonitor(mean_run=10**6)
    display = MonitorDisplay(monitor).plot(ax, line_kwargs={"linewidth": 3})
    assert display.ax_ is ax
    assert not display.alarms_
    assert {line.get_linewidth() for line in display.lines_} == {3}
    assert_allclose(display.threshold_.get_ydata(), 6)
    # one label a sample: no disagreement was seen
    single = (data.counts > 0) & (data.counts.cumsum(axis=1) == data.counts)
    monitor.update(single.astype(int), data.prediction)
    display = MonitorDisplay(monitor).plot()
    assert not np.isfinite(display.lines_[1].get_ydata()).any()
    assert np.isfinite(display.lines_[0].get_ydata()).all()


def test_it_is_drawn_from_the_pickle_of_a_monitor(data):
    monitor = CalibrationMonitor().update(data.counts, data.prediction)
    first, again = (
        MonitorDisplay(of).plot() for of in (monitor, pickle.loads(pickle.dumps(monitor)))
    )
    for one, other in zip(again.lines_, first.lines_, strict=True):
        assert_allclose(one.get_xydata(), other.get_xydata())


def test_the_axis_ends_where_nothing_more_is_to_be_seen(data):
    monitor = CalibrationMonitor()
    for _ in range(30):
        monitor.update(data.counts, data.prediction)
    display = MonitorDisplay(monitor).plot()
    assert monitor.history.log_e[-1] > 100
    low, high = display.ax_.get_ylim()
    assert low >= -5
    assert high == 10


def test_only_monitors_are_drawn(data):
    with pytest.raises(ValueError, match="must be a CalibrationMonitor, got"):
        MonitorDisplay(data)
