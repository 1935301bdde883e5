"""The picture of a reader study shows its result."""

import pickle

import numpy as np
import pytest

from sklearn_lhcal.display import ReaderStudyDisplay
from sklearn_lhcal.label_histogram import Readings
from sklearn_lhcal.metrics import reader_study

NAMES = ("aided", "unaided")


def readings(model=False):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 40)
    case = y + rng.normal(size=80)
    old, new = (case[:, None] + noise * rng.normal(size=(80, 6)) for noise in (1.0, 0.8))
    scores = {"unaided": old, "aided": new}
    return Readings.from_matrix(y, {"unaided": old, "model": case} if model else scores)


def drawn(display):
    return [line.get_ydata() for line in display.lines_]


def test_lines_are_readers_and_diamonds_their_means():
    found = reader_study(readings(), compare=NAMES)
    display = ReaderStudyDisplay(found).plot()
    # from the old condition to the new one
    assert np.array(drawn(display)) == pytest.approx(found.reader_values[:, ::-1])
    dashed = [line.get_linestyle() == "--" for line in display.lines_]
    assert dashed == (found.reader_difference < 0).tolist()
    means = display.means_.lines[0].get_ydata()
    assert means == pytest.approx([found.values[m].estimate for m in NAMES[::-1]])
    bars = np.array([bar[:, 1] for bar in display.means_.lines[2][0].get_segments()])
    assert bars == pytest.approx(np.array([found.values[m][1:3] for m in NAMES[::-1]]))
    assert [label.get_text() for label in display.ax_.get_xticklabels()] == [*NAMES[::-1]]
    assert f"{found.difference.estimate:.3f}".replace("-", "−") in display.ax_.get_title()


def test_both_doors_and_pickles_draw_the_same():
    options = {"compare": NAMES, "margin": 0.05}
    one = ReaderStudyDisplay.from_readings(readings(), mean_kwargs={"color": "red"}, **options)
    other = ReaderStudyDisplay(pickle.loads(pickle.dumps(one.result))).plot()
    assert np.array_equal(drawn(one), drawn(other))
    assert one.ax_.get_title() == other.ax_.get_title()
    assert "inferior at 0.05" in one.ax_.get_title()


def test_a_model_is_a_dotted_line():
    display = ReaderStudyDisplay.from_readings(readings(True), compare=("model", "unaided"))
    (line,) = display.references_
    model = display.result.values["model"]
    assert line.get_ydata()[0] == model.estimate
    # in the band of its interval
    (band,) = display.bands_
    # a rectangle, or a polygon of older matplotlib
    in_data = band.get_extents().transformed(display.ax_.transData.inverted())
    assert in_data.intervaly == pytest.approx(model[1:3])
    assert len(display.lines_) == 6
    alone = ReaderStudyDisplay.from_readings(readings(True))
    assert alone.ax_.get_title() == ""
