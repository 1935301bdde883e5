"""CalibrationDispersionDisplay: its points, intervals and lines, and what is drawn."""

import pickle
from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_lhcal.calibration import TemperatureScaling
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.display import CalibrationDispersionDisplay
from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.label_histogram import KnownProbabilities
from sklearn_lhcal.metrics import (
    ConfidenceInterval,
    MethodTable,
    calibration_loss,
    confidence_interval,
    dispersion_loss,
    epistemic_loss,
    loss_decomposition,
)

show = CalibrationDispersionDisplay.from_predictions


@pytest.fixture
def data():
    """One to six raters a row."""
    return make_label_histograms(300, n_raters=(1, 6), total=5.0, random_state=0)


@pytest.fixture
def predictions(data):
    """Calibrated, overconfident, and noisy."""
    u = np.log(data.prediction)
    noise = np.random.default_rng(0).standard_normal(u.shape)
    return {
        "calibrated": data.prediction,
        "overconfident": softmax(3 * u, axis=1),
        "noisy": softmax(u + noise, axis=1),
    }


def cells(display, loss):
    """Estimate, low and high of a loss, (n_methods, 3)."""
    return np.array([row[f"{loss}_loss"][:3] for row in display.result.intervals.values()])


def losses(display):
    return np.column_stack([cells(display, loss)[:, 0] for loss in ("calibration", "dispersion")])


def ends(display, loss):
    return cells(display, loss)[:, 1:]


def names(display):
    return [text.get_text() for text in display.names_]


def everything(display):
    return np.column_stack([cells(display, loss) for loss in ("calibration", "dispersion")])


# ----------------------------------------------------------------------------- points and intervals


@pytest.mark.parametrize(
    "options", [{}, {"strategy": "quantile", "n_bins": 8}, {"n_bins": [0, 0.1, 0.5, 1]}]
)
@pytest.mark.parametrize("weighted", [False, True])
def test_points_are_those_of_the_decomposition(data, predictions, options, weighted):
    w = np.random.default_rng(1).integers(0, 3, size=300) if weighted else None
    display = show(data.counts, predictions, sample_weight=w, **options)
    assert names(display) == list(predictions)
    for m, z in enumerate(predictions.values()):
        parts = loss_decomposition(data.counts, z, sample_weight=w, **options)
        expected = [parts.calibration_loss, parts.dispersion_loss]
        np.testing.assert_allclose(losses(display)[m], expected, rtol=1e-10, atol=1e-14)
        assert losses(display)[m].sum() == pytest.approx(
            epistemic_loss(data.counts, z, sample_weight=w)
        )


@pytest.mark.parametrize("level", [0.5, 0.9])
@pytest.mark.parametrize("seed", [0, 3])
def test_intervals_are_those_of_the_jackknife_on_the_rows_that_count(
    data, predictions, level, seed
):
    display = show(data.counts, predictions, confidence_level=level, random_state=seed, n_bins=10)
    rows = data.counts.sum(axis=1) >= 2
    assert 0 < rows.sum() < 300
    pairs = (
        (calibration_loss, ends(display, "calibration")),
        (dispersion_loss, ends(display, "dispersion")),
    )
    for metric, interval in pairs:
        for m, z in enumerate(predictions.values()):
            expected = confidence_interval(
                metric,
                data.counts[rows],
                z[rows],
                confidence_level=level,
                random_state=seed,
                n_bins=10,
            )
            np.testing.assert_allclose(interval[m], [expected.low, expected.high], rtol=1e-9)


def test_groups_stay_together(data, predictions):
    """Every row ten times: intervals that know it are wider by about √10."""
    i = np.repeat(np.arange(300), 10)
    repeated = {name: z[i] for name, z in predictions.items()}
    once, apart, together = (
        show(data.counts, predictions),
        show(data.counts[i], repeated),
        show(data.counts[i], repeated, groups=i),
    )
    width = [np.diff(ends(d, "dispersion")).ravel() for d in (once, apart, together)]
    assert (width[2] > 2 * width[1]).all()
    np.testing.assert_allclose(width[2], width[0], rtol=0.35)


def test_scale_of_the_weights_does_not_matter(data, predictions):
    w = np.random.default_rng(1).uniform(size=300)
    one, other = (show(data.counts, predictions, sample_weight=c * w) for c in (1.0, 1e100))
    np.testing.assert_allclose(everything(one), everything(other), rtol=1e-9)


@pytest.mark.parametrize("kind", [int, np.random.RandomState, type(None)])
def test_methods_share_their_blocks(data, kind):
    random_state = None if kind is type(None) else kind(5)
    display = show(
        data.counts, {"one": data.prediction, "again": data.prediction}, random_state=random_state
    )
    one, again = everything(display)
    np.testing.assert_array_equal(one, again)


def test_calibration_moves_points_to_the_left_and_noise_up():
    data = make_label_histograms(5000, n_raters=3, random_state=0)
    u = np.log(data.prediction)
    noise = np.random.default_rng(0).standard_normal(u.shape)
    noisy = softmax(u + noise, axis=1)
    display = show(
        data.counts, {"best": data.prediction, "over": softmax(3 * u, axis=1), "noisy": noisy}
    )
    CL, DL = losses(display).T
    (best_low, best_high), (over_low, _), _ = ends(display, "calibration")
    assert best_low < 0 < best_high < over_low
    DL_ends = ends(display, "dispersion")
    assert DL_ends[2, 0] > DL_ends[0, 1]
    assert CL[1] > DL[1] - DL[0]


def test_all_forms_of_a_prediction(data):
    z = data.prediction
    forms = {
        "array": z,
        "list": z.tolist(),
        "frame": pd.DataFrame(z, columns=["a", "b", "c"]),
        "distribution": Dirichlet.from_mean(z, 3.0),
    }
    found = everything(show(pd.DataFrame(data.counts, columns=["a", "b", "c"]), forms))
    np.testing.assert_allclose(found, found[[0] * 4], rtol=1e-9, atol=1e-13)


def test_two_classes_from_a_column():
    data = make_label_histograms(100, 2, random_state=0)
    display = show(data.counts, {"both": data.prediction, "second": data.prediction[:, 1]})
    np.testing.assert_allclose(*everything(display), rtol=1e-9, atol=1e-13)


def test_known_probabilities_known_exactly(data):
    display = show(KnownProbabilities(data.proba), {"truth": data.proba, "other": data.prediction})
    np.testing.assert_allclose(losses(display)[0], 0, atol=1e-14)
    expected = ((data.proba - data.prediction) ** 2).sum(axis=1).mean()
    assert losses(display)[1].sum() == pytest.approx(expected)


def test_inputs_are_left_alone(data, predictions):
    before = {name: z.copy() for name, z in predictions.items()}
    counts = data.counts.copy()
    show(data.counts, predictions)
    assert np.array_equal(counts, data.counts)
    assert list(before) == list(predictions)
    assert all(np.array_equal(before[name], predictions[name]) for name in before)


# --------------------------------------------------------------------------------------- estimators


@pytest.fixture
def fitted(data):
    X, labels = data.X[:150], np.array(["cat", "dog", "eel"])[data.counts[:150].argmax(axis=1)]
    estimators = {
        "logistic": make_pipeline(StandardScaler(), LogisticRegression()),
        "forest": RandomForestClassifier(10, random_state=0),
    }
    return {name: estimator.fit(X, labels) for name, estimator in estimators.items()}


def test_estimators_are_their_predictions(data, fitted):
    X, y = data.X[150:], data.counts[150:]
    z = {name: estimator.predict_proba(X) for name, estimator in fitted.items()}
    options = {
        "n_bins": 7,
        "confidence_level": 0.8,
        "random_state": 2,
        "sample_weight": np.arange(150.0),
    }
    display = CalibrationDispersionDisplay.from_estimator(fitted, X, y, **options)
    np.testing.assert_allclose(
        everything(display), everything(show(y, z, **options)), rtol=1e-8, atol=1e-13
    )
    assert names(display) == ["logistic", "forest"]
    assert display.result.confidence_level == 0.8

    one = CalibrationDispersionDisplay.from_estimator(fitted["forest"], X, y, **options)
    np.testing.assert_array_equal(everything(one), everything(display)[1:])
    assert names(one) == ["RandomForestClassifier"]


def test_frames_are_aligned_by_name(data, fitted):
    X, y = data.X[150:], data.counts[150:]
    frame = pd.DataFrame(y[:, ::-1], columns=["eel", "dog", "cat"])
    one, other = (
        CalibrationDispersionDisplay.from_estimator(fitted, X, counts) for counts in (y, frame)
    )
    np.testing.assert_allclose(everything(one), everything(other), rtol=1e-8, atol=1e-13)


def test_estimators_that_know_different_classes(data, fitted):
    """What one never saw has probability 0; the other's point does not move."""
    X = data.X[:150]
    frame = pd.DataFrame(data.counts, columns=["cat", "dog", "eel"])
    labels = np.where(data.counts[:150, 0] > data.counts[:150, 1], "cat", "dog")
    few = {"two classes": LogisticRegression().fit(X, labels)}
    both = CalibrationDispersionDisplay.from_estimator(fitted | few, data.X, frame)
    alone = CalibrationDispersionDisplay.from_estimator(fitted, data.X, frame)
    np.testing.assert_allclose(everything(both)[:2], everything(alone), rtol=1e-9, atol=1e-13)
    padded = np.column_stack([few["two classes"].predict_proba(data.X), np.zeros(300)])
    np.testing.assert_allclose(
        everything(both)[2:], everything(show(data.counts, {"padded": padded})), rtol=1e-8
    )


def test_calibrators(data):
    calibrated = TemperatureScaling("proba").fit(data.prediction, data.counts)
    z = {"ts": calibrated.predict_proba(data.prediction)}
    display = CalibrationDispersionDisplay.from_estimator(calibrated, data.prediction, data.counts)
    np.testing.assert_allclose(
        everything(display), everything(show(data.counts, z)), rtol=1e-8, atol=1e-13
    )


# ------------------------------------------------------------------------------------ what is drawn


def test_points_and_bars_are_drawn_where_they_are(data, predictions):
    display = show(data.counts, predictions)
    assert len(display.points_) == len(display.names_) == 3
    for m, (point, _, (x_bar, y_bar)) in enumerate(display.points_):
        np.testing.assert_allclose(point.get_xydata()[0], losses(display)[m])
        np.testing.assert_allclose(x_bar.get_segments()[0][:, 0], ends(display, "calibration")[m])
        np.testing.assert_allclose(y_bar.get_segments()[0][:, 1], ends(display, "dispersion")[m])
        assert display.names_[m].get_text() == list(predictions)[m]
        np.testing.assert_allclose(display.names_[m].xy, losses(display)[m])
        assert display.names_[m].get_color() == point.get_color()


def assert_inside(display):
    (x0, x1), (y0, y1) = display.ax_.get_xlim(), display.ax_.get_ylim()
    x, y = ends(display, "calibration"), ends(display, "dispersion")
    assert x0 < x.min()
    assert x.max() < x1
    assert y0 < y.min()
    assert y.max() < y1


def test_epistemic_loss_is_equal_along_the_lines(data, predictions):
    display = show(data.counts, predictions)
    segments = display.iso_lines_.get_segments()
    assert 3 <= len(segments) == len(display.iso_levels_) == len(display.iso_labels_)
    (x0, x1), (y0, y1) = display.ax_.get_xlim(), display.ax_.get_ylim()
    for EL, segment, label in zip(display.iso_levels_, segments, display.iso_labels_, strict=True):
        np.testing.assert_allclose(segment.sum(axis=1), EL, atol=1e-12)
        assert sum(label.xy) == pytest.approx(EL, abs=1e-12)  # it stands on its line
        assert float(label.get_text().removeprefix("EL = ")) == pytest.approx(
            EL, rel=1e-3, abs=1e-12
        )
        assert np.ptp(segment[:, 1]) == pytest.approx(y1 - y0)  # from the lower edge to the upper
        assert x0 <= label.xy[0] <= x1 * (1 + 1e-12)
        assert y0 - 1e-12 <= label.xy[1] <= y1
    assert "equal epistemic loss CL + DL" in [
        text.get_text() for text in display.legend_.get_texts()
    ]


def test_axes_have_units_and_bars_a_level(data, predictions):
    display = show(data.counts, predictions, confidence_level=0.95)
    assert display.ax_.get_xlabel() == "Squared calibration error CL (squared probability)"
    assert display.ax_.get_ylabel() == "Grouping loss DL (squared probability)"
    assert display.legend_.get_title().get_text() == "bars: 95% intervals"
    assert_inside(display)


def test_a_second_display_on_the_same_axes_adds_its_methods(data, predictions):
    first_name, *others = predictions
    all_at_once = show(data.counts, predictions)
    first = show(data.counts, {name: predictions[name] for name in [first_name]})
    second = show(data.counts, {name: predictions[name] for name in others}, ax=first.ax_)
    assert second.figure_ is first.figure_
    for display in (first, second):
        assert_inside(display)
    np.testing.assert_allclose(second.ax_.axis(), all_at_once.ax_.axis(), rtol=1e-9)
    np.testing.assert_allclose(second.iso_levels_, all_at_once.iso_levels_)
    kinds = [
        sorted(str(artist.get_gid()) for artist in d.ax_.collections) for d in (second, all_at_once)
    ]
    assert kinds[0] == kinds[1]
    assert sorted(t.get_text() for t in second.ax_.texts) == sorted(
        t.get_text() for t in all_at_once.ax_.texts
    )
    colors = {point[0].get_color() for point in [*first.points_, *second.points_]}
    assert len(colors) == 3


def place(CL, DL, reach=0.002):
    def interval(loss):
        return ConfidenceInterval(loss, loss - reach, loss + reach, reach)

    table = {
        f"method {m}": {"calibration_loss": interval(x), "dispersion_loss": interval(y)}
        for m, (x, y) in enumerate(zip(CL, DL, strict=True))
    }
    return CalibrationDispersionDisplay(MethodTable(table, None, 0.95))


SPOTS = {
    "far apart": ([0.01, 0.05, 0.09], [0.1, 0.05, 0.2]),
    "in a row": ([0.01, 0.012, 0.014, 0.016, 0.05], [0.1, 0.1, 0.1, 0.1, 0.2]),
    "at the right edge": ([0.0, 0.1, 0.1], [0.1, 0.1, 0.101]),
    "all in one": ([0.03] * 6, [0.1] * 6),
}


@pytest.mark.parametrize("spots", SPOTS)
def test_names_do_not_hide_each_other(spots):
    display = place(*SPOTS[spots]).plot()
    display.figure_.draw_without_rendering()
    boxes = [text.get_window_extent() for text in display.names_]
    assert not [pair for pair in combinations(boxes, 2) if pair[0].overlaps(pair[1])]
    axes = display.ax_.get_window_extent().padded(1)
    assert all(axes.contains(*box.min) and axes.contains(*box.max) for box in boxes)


@pytest.mark.parametrize(
    ("CL", "zero"), [([0.001, 0.1], True), ([0.1, 0.101], False), ([-0.01, 0.02], True)]
)
def test_zero_is_shown_where_it_is_near(CL, zero):
    display = place(CL, [0.1, 0.2], reach=0.0005).plot()
    low, high = display.ax_.get_xlim()
    assert (low < 0 < high) == zero


@pytest.mark.parametrize("value", [0.0, 0.1])
def test_a_point_without_extent(value):
    display = place([value], [value], reach=0.0).plot()
    assert_inside(display)
    display.figure_.draw_without_rendering()


def test_it_is_drawn_again_from_the_pickle_of_its_table(data, predictions):
    display = show(data.counts, predictions, confidence_level=0.8)
    points = [point[0].get_xydata() for point in display.points_]
    table = pickle.loads(pickle.dumps(display.result))
    fresh = plt.subplots()[1]
    again = CalibrationDispersionDisplay(table)
    assert again.plot(fresh) is again
    assert again.ax_ is fresh
    np.testing.assert_array_equal([point[0].get_xydata() for point in again.points_], points)
    np.testing.assert_array_equal(again.ax_.axis(), display.ax_.axis())
    assert again.legend_.get_title().get_text() == "bars: 80% intervals"
    frame = table.to_frame().xs("estimate", axis=1, level=1)
    np.testing.assert_array_equal(frame, losses(display))


def test_keywords_reach_matplotlib(data, predictions):
    ax = plt.subplots()[1]
    display = show(
        data.counts,
        predictions,
        ax=ax,
        errorbar_kwargs={"markersize": 11, "fmt": "s"},
        text_kwargs={"color": "red"},
        iso_kwargs={"linewidths": 3},
    )
    assert display.ax_ is ax
    assert {point[0].get_markersize() for point in display.points_} == {11}
    assert {text.get_color() for text in display.names_} == {"red"}
    assert display.iso_lines_.get_linewidths().tolist() == [3]


# ------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("given", [{}, [], None, np.ones((300, 3)) / 3])
def test_methods_have_names(data, given):
    with pytest.raises(ValueError, match="predictions must be a dict"):
        show(data.counts, given)
    with pytest.raises(ValueError, match=r"must be a dict|predicts no probabilities"):
        CalibrationDispersionDisplay.from_estimator(given, data.X, data.counts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence_level": 1.0}, "confidence_level must lie between 0 and 1"),
        ({"strategy": "equal"}, "strategy"),
        ({"n_bins": 0}, "n_bins"),
        ({"sample_weight": np.ones(299)}, "sample_weight must have shape"),
        ({"groups": np.ones(299)}, "groups has 299 samples, expected 300"),
    ],
)
def test_bad_options(data, predictions, options, message):
    with pytest.raises(ValueError, match=message):
        show(data.counts, predictions, **options)


def test_one_rater_a_row_is_not_enough(data):
    with pytest.raises(ValueError, match="No sample of y has two raters"):
        show(np.eye(3, dtype=int)[data.counts.argmax(axis=1)], {"model": data.prediction})


def test_length_that_differs(data):
    with pytest.raises(ValueError, match="samples"):
        show(data.counts, {"model": data.prediction[:-1]})


def test_an_estimator_without_probabilities(data):
    ridge = RidgeClassifier().fit(data.X, data.counts.argmax(axis=1))
    with pytest.raises(ValueError, match="RidgeClassifier predicts no probabilities"):
        CalibrationDispersionDisplay.from_estimator({"ridge": ridge}, data.X, data.counts)
