"""A model among the readers: what is drawn is what the comparison says."""

import pickle

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression

from sklearn_lhcal.display import RaterDisplay
from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import rater_comparison


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 2))
    right = rng.random((120, 5)) < [0.9, 0.6, 0.8, 0.7, 0.75]
    said = np.where(right, X[:, :1] > 0, X[:, :1] <= 0)
    names = ["Ann", "Bob", "Cem", "Dee", "Eve"]
    y = Annotations.from_matrix(np.array(["no", "yes"])[said.astype(int)], raters=names)
    model = LogisticRegression().fit(X, X[:, 0] > 0.3)
    model.classes_ = np.array(["no", "yes"])
    return model, X, y


def test_what_is_drawn_is_what_the_comparison_says(data):
    model, X, y = data
    z = model.predict_proba(X)
    found = rater_comparison(y, z, margin=0.1, random_state=0)
    display = RaterDisplay(found, name="it").plot()
    points, _, (bars,) = display.readers_
    assert_allclose(points.get_xdata(), np.sort(found.readers.error))
    order = np.argsort(found.readers.error)
    ends = np.array([segment[:, 0] for segment in bars.get_segments()])
    assert_allclose(ends, found.readers.error_interval[order])
    for artist, interval in (
        (display.model_, found.model_error),
        (display.reader_, found.reader_error),
    ):
        points, _, (bars,) = artist
        assert_allclose(points.get_xdata(), [interval.estimate])
        assert_allclose(bars.get_segments()[0][:, 0], [interval.low, interval.high])
    labels = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert labels == ["it", "one more rater", *found.readers.raters[order]]
    assert labels[2] == "Ann"
    # the first line is the uppermost
    bottom, top = display.ax_.get_ylim()
    assert bottom > top
    assert f"at most {found.difference.high:.3f}" in display.ax_.get_title().replace("−", "-")
    assert ("not shown" in display.ax_.get_title()) == (not found.non_inferior)
    assert "95% intervals" in display.ax_.get_xlabel()
    again = RaterDisplay(pickle.loads(pickle.dumps(found)), name="it").plot()
    assert_allclose(again.readers_[0].get_xydata(), display.readers_[0].get_xydata())
    assert again.ax_.get_title() == display.ax_.get_title()


def test_from_predictions_is_of_the_comparison(data):
    model, X, y = data
    how = {"margin": 0.1, "random_state": 0, "confidence_level": 0.8}
    display = RaterDisplay.from_predictions(y, model.predict(X), name="it", **how)
    assert str(display.result) == str(rater_comparison(y, model.predict(X), **how))
    assert "80% intervals" in display.ax_.get_xlabel()
    assert display.name == "it"


def test_several_models_are_lines_of_their_own(data):
    model, X, y = data
    z = model.predict_proba(X)
    models = {"it": z, "its contrary": 1 - z}
    how = {"margin": 0.1, "random_state": 0}
    table = rater_comparison(y, models, **how)
    display = RaterDisplay(pickle.loads(pickle.dumps(table))).plot()
    labels = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert labels[:3] == [*models, "one more rater"]
    assert sorted(labels[3:]) == ["Ann", "Bob", "Cem", "Dee", "Eve"]
    points, _, (bars,) = display.model_
    ends = np.array([segment[:, 0] for segment in bars.get_segments()])
    for line, (name, own) in enumerate(table.comparisons.items()):
        drawn = points.get_xdata()[line], points.get_ydata()[line], *ends[line]
        mean, low, high = own.model_error[:3]
        assert_allclose(drawn, [mean, line, low, high])
        assert f"{name}: Δ = {own.difference.estimate:.3f}" in display.ax_.get_title().replace(
            "−", "-"
        )
        assert f"at most {own.difference.high:.3f}" in display.ax_.get_title().replace("−", "-")
    # beside each model the readers are the same
    alone = RaterDisplay.from_predictions(y, z, **how)
    for one, other in ((display.readers_, alone.readers_), (display.reader_, alone.reader_)):
        assert_allclose(one[0].get_xdata(), other[0].get_xdata())
    with pytest.raises(ValueError, match="judge 'other'"):
        RaterDisplay.from_predictions(y, {"it": z, "other": ["maybe"] * 120}, margin=0.1)


def test_from_estimator_is_from_its_predictions(data):
    model, X, y = data
    how = {"margin": 0.1, "random_state": 0}
    one = RaterDisplay.from_estimator(model, X, y, **how)
    other = rater_comparison(y, model.predict_proba(X), **how)
    assert_allclose(one.result.difference, other.difference)
    assert one.name == "LogisticRegression"


def test_axes_and_styles(data):
    model, X, y = data
    _, ax = plt.subplots()
    style = {"reader_kwargs": {"color": "k"}, "model_kwargs": {"color": "r"}}
    display = RaterDisplay.from_predictions(y, model.predict(X), margin=0.1, ax=ax, **style)
    assert display.ax_ is ax
    assert display.readers_[0].get_color() == "k"
    assert display.model_[0].get_color() == "r"
    with pytest.raises(TypeError, match="margin"):
        RaterDisplay.from_predictions(y, model.predict(X))


def test_readers_of_no_shared_rows_are_left_out():
    said = np.array([["a", "b", "a", None], ["b", "b", "a", None]] * 20, dtype=object)
    said[6] = [None, None, None, "a"]
    y = Annotations.from_matrix(said, raters=list("ABCD"))
    with pytest.warns(UserWarning, match="only 3 raters"):
        display = RaterDisplay.from_predictions(y, ["a"] * 40, margin=0.1)
    labels = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert sorted(labels[2:]) == list("ABC")


def test_grades_stand_at_a_distance():
    """What is drawn is half of the mean steps between a reader and another."""
    rng = np.random.default_rng(0)
    grade = rng.integers(4, size=(100, 1))
    said = np.clip(grade + rng.integers(-1, 2, (100, 5)), 0, 3)
    y = Annotations.from_matrix(said, classes=range(4))
    judge = np.clip(grade[:, 0] + rng.integers(-2, 3, 100), 0, 3)
    display = RaterDisplay.from_predictions(y, judge, margin=1.5, distance="linear")
    steps = np.abs(said[:, :, None] - said[:, None]).mean(axis=0)
    assert_allclose(display.readers_[0].get_xdata(), np.sort(steps.sum(axis=1) / 4 / 2))
    assert_allclose(display.model_[0].get_xdata(), np.abs(said - judge[:, None]).mean() / 2)
    assert "steps" in display.ax_.get_xlabel()
    alike = RaterDisplay.from_predictions(y, judge, margin=0.5, distance=1 - np.eye(4))
    assert "squared distance" in alike.ax_.get_xlabel()
