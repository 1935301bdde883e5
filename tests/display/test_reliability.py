"""Displays: points, intervals and what is drawn."""

import pickle
import subprocess
import sys
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from sklearn.calibration import calibration_curve
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.display import ReliabilityDisplay
from sklearn_lhcal.distributions import Dirichlet, Ensemble
from sklearn_lhcal.label_histogram import KnownProbabilities, pairwise_disagreement
from sklearn_lhcal.metrics import (
    ReliabilityCurve,
    disagreement_calibration_loss,
    loss_decomposition,
    reliability_curve,
)

KINDS = ["classwise", "disagreement"]
show = ReliabilityDisplay.from_predictions


@pytest.fixture
def data():
    return make_label_histograms(300, n_raters=(2, 6), overconfidence=2.0, random_state=0)


def points(curve):
    return np.column_stack([curve.mean_predicted, curve.mean_observed])


# ------------------------------------------------------------------------------------------- points


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_points_are_those_of_sklearn_for_two_classes_with_one_label(strategy):
    data = make_label_histograms(1000, 2, 1, random_state=0)
    y, z = data.counts[:, 1], data.prediction[:, 1]
    curve = reliability_curve(y, z, kind=1, n_bins=7, strategy=strategy)
    observed, predicted = calibration_curve(y, z, n_bins=7, strategy=strategy)
    np.testing.assert_allclose(points(curve), np.column_stack([predicted, observed]), rtol=1e-12)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("weighted", [False, True])
def test_points_are_those_of_the_loss_decomposition(data, strategy, weighted):
    w = np.random.RandomState(0).random_sample(300) if weighted else np.ones(300)
    parts = loss_decomposition(
        data.counts, data.prediction, sample_weight=w, strategy=strategy, bias_correction=None
    )
    for k in range(3):
        curve = reliability_curve(
            data.counts, data.prediction, kind=k, strategy=strategy, sample_weight=w
        )
        np.testing.assert_allclose(curve.edges, parts.bin_edges[k])
        np.testing.assert_allclose(curve.mean_predicted, parts.bin_mean_proba[k], rtol=1e-9)
        np.testing.assert_allclose(
            curve.mean_observed, parts.bin_mean_frequency[k], rtol=1e-9, atol=1e-12
        )


def test_gaps_make_up_the_disagreement_calibration_loss(data):
    distribution = Dirichlet.from_mean(data.prediction, 3.0)
    curve = reliability_curve(data.counts, distribution, kind="disagreement", n_bins=9)
    gap = curve.mean_observed - curve.mean_predicted
    loss = disagreement_calibration_loss(data.counts, distribution, n_bins=9, bias_correction=None)
    assert np.nansum(curve.bin_counts / 300 * gap**2) == pytest.approx(loss, rel=1e-9)


def test_points_by_hand():
    curve = reliability_curve(
        [[1, 3], [4, 0], [0, 2]], [[0.1, 0.9], [0.2, 0.8], [0.9, 0.1]], kind=1, n_bins=2
    )
    np.testing.assert_allclose(points(curve), [[0.1, 1.0], [0.85, 0.375]])
    assert curve.bin_counts.tolist() == [1, 2]
    pooled = reliability_curve(
        [[1, 3], [4, 0], [0, 2]], [[0.1, 0.9], [0.2, 0.8], [0.9, 0.1]], n_bins=2
    )
    np.testing.assert_allclose(points(pooled), [[0.4 / 3, 2.25 / 3], [2.6 / 3, 0.75 / 3]])
    assert pooled.bin_counts.tolist() == [3, 3]
    disagreement = reliability_curve(
        [[1, 1], [2, 2], [3, 0], [1, 0]],
        [[0.5, 0.5], [0.4, 0.6], [1, 0], [0.5, 0.5]],
        kind="disagreement",
        n_bins=[0, 0.4, 0.8, 1],
    )
    np.testing.assert_allclose(points(disagreement), [[0.0, 0.0], [0.49, 5 / 6], [np.nan, np.nan]])
    assert disagreement.bin_counts.tolist() == [1, 2, 0]  # the row with one rater is left out


@pytest.mark.parametrize("kind", KINDS)
def test_integer_weights_repeat_rows_and_zero_weights_drop_them(kind, data):
    curve = partial(reliability_curve, kind=kind)
    w = np.random.RandomState(0).randint(0, 4, size=300)
    weighted = curve(data.counts, data.prediction, sample_weight=w)
    repeated = curve(np.repeat(data.counts, w, axis=0), np.repeat(data.prediction, w, axis=0))
    np.testing.assert_allclose(points(weighted), points(repeated), rtol=1e-9)
    dropped = curve(data.counts[w > 0], data.prediction[w > 0], sample_weight=7.0 * w[w > 0])
    np.testing.assert_allclose(dropped.interval, weighted.interval, rtol=1e-9)
    assert np.array_equal(dropped.bin_counts, weighted.bin_counts)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_may_be_of_any_size(kind, data):
    """Only ratios matter; a weight beyond all others leaves its row alone in the bin."""
    curve = partial(reliability_curve, kind=kind)
    w = np.random.RandomState(0).uniform(1, 2, size=300)
    shown = curve(data.counts, data.prediction, sample_weight=w)
    for scale in (1e-290, 1e290):
        scaled = curve(data.counts, data.prediction, sample_weight=scale * w)
        np.testing.assert_allclose(points(scaled), points(shown), rtol=1e-9)
        np.testing.assert_allclose(scaled.interval, shown.interval, rtol=1e-9)
    for huge in (1e30, 1e300):
        w[7] = huge
        one = curve(data.counts, data.prediction, sample_weight=w)
        alone = curve(data.counts[[7]], data.prediction[[7]])
        k = np.flatnonzero(alone.bin_counts)
        np.testing.assert_allclose(points(one)[k], points(alone)[k], atol=1e-12)
        assert np.isnan(one.interval[k]).all()


def test_a_distribution_counts_by_its_mean_or_by_its_disagreement(data):
    distribution = Dirichlet.from_mean(data.prediction, 1.0)
    same = [reliability_curve(data.counts, p) for p in (data.prediction, distribution)]
    np.testing.assert_allclose(points(same[0]), points(same[1]))
    point, dirichlet = (
        reliability_curve(data.counts, p, kind="disagreement", n_bins=[0, 1])
        for p in (data.prediction, distribution)
    )
    assert dirichlet.mean_predicted[0] == pytest.approx(point.mean_predicted[0] / 2)  # α0/(α0+1)


def test_known_probabilities_are_perfectly_reliable(data):
    Q = KnownProbabilities(data.proba)
    for kind in KINDS:
        curve = reliability_curve(Q, data.proba, kind=kind)
        np.testing.assert_allclose(curve.mean_observed, curve.mean_predicted, atol=1e-12)


# -------------------------------------------------------------------------------------------- doors


@pytest.fixture
def named():
    """A classifier of named classes, features, and a frame of counts in another order."""
    data = make_label_histograms(200, random_state=0)
    names = np.array(["cat", "dog", "eel"])
    model = LogisticRegression().fit(data.X, names[data.counts.argmax(axis=1)])
    counts = pd.DataFrame(data.counts, columns=names)[["eel", "cat", "dog"]]
    return model, data.X, counts


@pytest.mark.parametrize("kind", KINDS)
def test_an_estimators_classes_are_aligned_by_name(kind, named):
    model, X, counts = named
    shown = ReliabilityDisplay.from_estimator(model, X, counts, kind=kind)
    expected = reliability_curve(
        counts[["cat", "dog", "eel"]].to_numpy(), model.predict_proba(X), kind=kind
    )
    np.testing.assert_allclose(points(shown.result), points(expected))
    np.testing.assert_allclose(shown.result.interval, expected.interval)
    assert shown.name == "LogisticRegression"
    named = ReliabilityDisplay.from_estimator(model, X, counts, kind=kind, name="mine")
    assert named.name == "mine"


def test_classes_are_found_by_number_or_name(named):
    model, X, counts = named
    proba = model.predict_proba(X)
    by_name = ReliabilityDisplay.from_estimator(model, X, counts, kind="eel")
    assert by_name.result.kind == "eel"
    assert "class eel" in by_name.ax_.get_xlabel()
    frame = pd.DataFrame(proba, columns=model.classes_)
    sorted_counts = counts.to_numpy()[:, [1, 2, 0]]
    others = [
        ReliabilityDisplay.from_estimator(model, X, counts, kind=2).result,
        reliability_curve(counts, frame, kind="eel"),
        # column numbers are those of the prediction
        reliability_curve(counts, frame, kind=2),
        reliability_curve(sorted_counts, frame, kind="eel"),
        reliability_curve(sorted_counts, proba, kind="eel", classes=["cat", "dog", "eel"]),
    ]
    for other in others:
        assert other.kind == "eel"
        np.testing.assert_allclose(points(other), points(by_name.result))


def test_string_labels_name_their_classes():
    curve = reliability_curve(["b", "a", "b"], [0.9, 0.2, 0.6], kind="b", n_bins=1)
    np.testing.assert_allclose(points(curve), [[1.7 / 3, 2 / 3]])


def test_a_class_that_training_never_saw_has_probability_0(named):
    model, X, counts = named
    more = counts.assign(yak=1)
    yak = ReliabilityDisplay.from_estimator(model, X, more, kind="yak", n_bins=1).result
    assert yak.mean_predicted[0] == 0
    assert yak.mean_observed[0] > 0
    how = {"kind": "disagreement", "n_bins": [0, 1]}
    raw = ReliabilityDisplay.from_estimator(model, X, more, **how).result
    assert raw.mean_observed[0] == pytest.approx(pairwise_disagreement(more).mean())
    z = model.predict_proba(X)
    assert raw.mean_predicted[0] == pytest.approx((1 - (z**2).sum(axis=1)).mean())


def test_an_ensemble_predicts_disagreement_as_a_distribution_through_a_pipeline(data):
    y = data.counts.argmax(axis=1)
    model = make_pipeline(StandardScaler(), RandomForestClassifier(10, random_state=0)).fit(
        data.X, y
    )
    scaled = model[:-1].transform(data.X)
    members = Ensemble(np.stack([tree.predict_proba(scaled) for tree in model[-1].estimators_]))
    how = {"kind": "disagreement"}
    shown = ReliabilityDisplay.from_estimator(model, data.X, data.counts, **how)
    expected = reliability_curve(data.counts, members, **how)
    np.testing.assert_allclose(points(shown.result), points(expected))


# ------------------------------------------------------------------------------------------ drawing


@pytest.mark.parametrize("kind", KINDS)
def test_artists_are_kept_and_drawn(kind, data):
    how = {"kind": kind, "confidence_level": 0.8}
    shown = show(data.counts, data.prediction, name="raw", **how)
    curve = shown.result
    assert [getattr(curve, name) for name in how] == list(how.values())
    np.testing.assert_array_equal(shown.line_.get_xydata(), points(curve))
    bars = shown.errorbar_.lines[2][0].get_segments()
    assert len(bars) == np.isfinite(curve.interval[:, 0]).sum()
    np.testing.assert_array_equal(shown.histogram_.get_data().values, curve.bin_counts)
    assert shown.ax_.get_aspect() == 1
    assert "probability" in shown.ax_.get_xlabel()
    assert "probability" in shown.ax_.get_ylabel()
    assert [t.get_text() for t in shown.legend_.get_texts()] == ["perfect calibration", "raw"]
    assert shown.legend_.get_title().get_text() == "bars: 80% intervals"
    assert shown.figure_ is shown.ax_.figure
    assert min(shown.ax_.get_yticks()) == 0
    assert max(shown.ax_.get_yticks()) <= 1
    shown.figure_.canvas.draw()


def test_interval_ends_are_drawn_where_they_are(data):
    shown = show(data.counts, data.prediction)
    ends = np.array([segment[:, 1] for segment in shown.errorbar_.lines[2][0].get_segments()])
    interval = shown.result.interval
    np.testing.assert_allclose(ends, interval[np.isfinite(interval[:, 0])], atol=1e-12)


def test_points_without_an_interval_are_open():
    shown = show([[1, 1], [2, 0], [0, 2]], [0.1, 0.12, 0.9], kind=1)
    np.testing.assert_allclose(shown.open_points_.get_xydata()[-1], [0.9, 1.0])
    assert np.isfinite(shown.open_points_.get_xydata()).all(axis=1).sum() == 1
    assert shown.open_points_.get_markerfacecolor() == "white"


@pytest.mark.parametrize("kind", KINDS)
def test_two_displays_share_axes_diagonal_and_strip(kind, data):
    few, many = data.counts[:50], data.counts
    first = show(few, data.prediction[:50], kind=kind, name="raw")
    limit = first.ax_.get_xlim()[1]
    flat = softmax(np.log(data.prediction) / 2, axis=1)
    second = show(many, flat, kind=kind, name="TS", ax=first.ax_)
    assert second.ax_ is first.ax_
    assert second.line_.get_marker() != first.line_.get_marker()
    assert second.open_points_.get_marker() == second.line_.get_marker()
    assert second.reference_ is first.reference_
    assert second.histogram_ax_ is first.histogram_ax_
    assert len(first.ax_.child_axes) == 1
    assert first.line_.get_color() != second.line_.get_color()
    assert [t.get_text() for t in second.legend_.get_texts()] == [
        "perfect calibration",
        "raw",
        "TS",
    ]
    assert second.histogram_ax_.get_ylim()[1] >= second.result.bin_counts.max()
    # the axes show both, whoever reaches farther
    alone = ReliabilityDisplay(second.result).plot().ax_.get_xlim()[1]
    assert first.ax_.get_xlim()[1] == pytest.approx(max(limit, alone))
    first.figure_.canvas.draw()


def test_the_limit_of_disagreement_shows_everything_and_little_more():
    counts = np.array([[9, 1], [8, 2], [10, 0], [9, 1]] * 10)
    how = {"kind": "disagreement"}
    shown = show(counts, np.tile([0.9, 0.1], (40, 1)), n_bins=10, **how)
    # one point, at φ̂ = .18
    limit = 1.05 * max(0.18, shown.result.interval[1, 1])
    assert shown.reference_.get_ydata()[-1] == 1
    assert limit < shown.ax_.get_xlim()[1] < 1.05 * limit
    worse = show([[1, 1]] * 4, [0.01] * 4, **how)
    assert 1 < worse.ax_.get_xlim()[1] < 1.05


def test_styles_reach_their_artists(data):
    shown = show(
        data.counts,
        data.prediction,
        line_kwargs={"color": "red", "marker": "s"},
        errorbar_kwargs={"ecolor": "green", "capsize": 0},
        histogram_kwargs={"alpha": 0.1},
    )
    assert shown.line_.get_color() == "red"
    assert shown.line_.get_marker() == "s"
    assert shown.open_points_.get_color() == "red"
    assert np.allclose(shown.errorbar_.lines[2][0].get_color(), [[0, 0.5, 0, 1]], atol=0.01)
    assert shown.histogram_.get_alpha() == 0.1
    with pytest.raises(TypeError, match="markers"):
        show(data.counts, data.prediction, markers="x")


def test_plot_draws_again_and_on_given_axes(data):
    shown = show(data.counts, data.prediction, name="raw")
    figure, axes = plt.subplots(1, 2, figsize=(9, 4))
    assert shown.plot(axes[1], name="again") is shown
    assert shown.ax_ is axes[1]
    assert shown.figure_ is figure
    assert not axes[0].lines
    assert shown.line_.get_label() == "again"
    assert shown.name == "raw"
    figure.tight_layout()
    figure.canvas.draw()


def test_a_display_can_be_made_from_numbers():
    ends = np.array([[0.2, 0.4], [np.nan, np.nan]])
    of_bins = {"mean_predicted": [0.2, 0.8], "mean_observed": [0.3, 0.6], "edges": [0, 0.5, 1]}
    of_bins |= {"interval": ends, "bin_counts": [7, 1]}
    curve = ReliabilityCurve(**{name: np.array(value) for name, value in of_bins.items()})
    shown = ReliabilityDisplay(curve).plot()
    assert len(shown.errorbar_.lines[2][0].get_segments()) == 1
    none = curve._replace(interval=np.full((2, 2), np.nan), kind="disagreement")
    ReliabilityDisplay(none).plot().figure_.canvas.draw()


@pytest.mark.parametrize("kind", [*KINDS, 1])
def test_a_curve_is_drawn_from_its_pickle(kind, data):
    curve = reliability_curve(data.counts, data.prediction, kind=kind, confidence_level=0.8)
    first, again = (
        ReliabilityDisplay(of).plot() for of in (curve, pickle.loads(pickle.dumps(curve)))
    )
    np.testing.assert_array_equal(again.line_.get_xydata(), first.line_.get_xydata())
    bars = [shown.errorbar_.lines[2][0].get_segments() for shown in (first, again)]
    np.testing.assert_array_equal(*bars)
    assert again.ax_.get_xlabel() == first.ax_.get_xlabel()
    assert again.legend_.get_title().get_text() == "bars: 80% intervals"


def test_the_frame_has_a_row_for_each_bin(data):
    curve = reliability_curve(data.counts, data.prediction, n_bins=5)
    frame = curve.to_frame()
    np.testing.assert_array_equal(frame.index, curve.edges[:-1])
    np.testing.assert_array_equal(frame["to"], curve.edges[1:])
    np.testing.assert_array_equal(frame[["mean_predicted", "mean_observed"]], points(curve))
    np.testing.assert_array_equal(frame[["low", "high"]], curve.interval)
    np.testing.assert_array_equal(frame["bin_counts"], curve.bin_counts)
    assert len(repr(curve).splitlines()) == 1
    assert len(str(curve).splitlines()) <= 20


@pytest.mark.slow
def test_matplotlib_is_imported_when_something_is_plotted():
    code = "import sys, sklearn_lhcal.display; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_matplotlib_the_error_says_what_to_install(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'sklearn-lhcal\[plot\]'"):
        show(data.counts, data.prediction)
    monkeypatch.undo()


# ------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"confidence_level": 1.0}, "confidence_level must lie between 0 and 1"),
        ({"confidence_level": 90}, "confidence_level must lie between 0 and 1"),
        ({"n_bins": 0}, "n_bins must be a positive integer"),
        ({"strategy": "equal"}, "strategy must be"),
        ({"sample_weight": [1.0, -1.0]}, "sample_weight contains NaN, infinite or negative"),
        ({"sample_weight": [1.0]}, "sample_weight must have shape"),
        ({"y": [[1, 1]]}, "samples"),
        ({"y": [[1.5, 1], [1, 1]]}, "fractional counts"),
        ({"y": [[1, 1, 1], [1, 1, 1]]}, "3 classes"),
        ({"prediction": [[0.5, 0.6], [0.5, 0.5]]}, "must sum to 1"),
        ({"prediction": [[np.nan, 0.6], [0.5, 0.5]]}, "NaN"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_drawn(kind, arguments, message):
    arguments = {"y": [[1, 1], [2, 0]], "prediction": [[0.5, 0.5], [0.2, 0.8]]} | arguments
    with pytest.raises(ValueError, match=message):
        show(**arguments, kind=kind)
    assert not plt.get_fignums()


@pytest.mark.parametrize("kind", [2, -1, "cat", 0.5])
def test_unknown_classes_are_refused(kind):
    with pytest.raises(ValueError, match=f"{kind}.* is (no column number|not among the classes)"):
        show([[1, 1]], [[0.5, 0.5]], kind=kind)


def test_wrong_number_of_class_names_is_refused():
    with pytest.raises(ValueError, match=r"2 different names"):
        show([[1, 1]], [[0.5, 0.5]], kind=0, classes=["cat"])


def test_single_labels_show_no_disagreement():
    how = {"kind": "disagreement"}
    with pytest.raises(ValueError, match="another kind for single labels"):
        show([0, 1], [[0.5, 0.5], [0.2, 0.8]], **how)
    with pytest.raises(ValueError, match="two raters"):
        show([[1, 1], [1, 0]], [0.5, 0.2], sample_weight=[0, 1], **how)


@pytest.mark.parametrize("kind", KINDS)
def test_an_estimator_without_probabilities_is_refused(kind, data):
    model = RidgeClassifier().fit(data.X, data.counts.argmax(axis=1))
    with pytest.raises(ValueError, match="predicts no probabilities"):
        ReliabilityDisplay.from_estimator(model, data.X, data.counts, kind=kind)


@pytest.mark.parametrize("kind", KINDS)
def test_callers_arrays_are_left_alone(kind, data):
    counts, z, w = data.counts.copy(), data.prediction.copy(), np.arange(300.0)
    for a in (counts, z, w):
        a.flags.writeable = False
    show(counts, z, sample_weight=w, kind=kind)
    assert np.array_equal(counts, data.counts)


# --------------------------------------------------------------------------------- classes in order


def test_cumulative_reliability_is_that_of_at_most_each_class(data):
    at_most = data.counts.cumsum(axis=1)
    F = data.prediction.cumsum(axis=1)
    shown = []
    for j in range(2):
        two = np.column_stack([at_most[:, -1] - at_most[:, j], at_most[:, j]])
        expected = reliability_curve(two, F[:, j], kind=1)
        found = show(data.counts, data.prediction, kind=j, distance="linear")
        np.testing.assert_allclose(points(found.result), points(expected), rtol=1e-9)
        np.testing.assert_allclose(found.result.interval, expected.interval, rtol=1e-9)
        assert found.ax_.get_xlabel() == f"Predicted probability of at most class {j}"
        shown.append(found.result)
    pooled = show(data.counts, data.prediction, distance="linear")
    np.testing.assert_array_equal(pooled.result.bin_counts, sum(one.bin_counts for one in shown))
    assert "at most each class" in pooled.ax_.get_xlabel()


def test_cumulative_reliability_needs_an_order_and_a_class_before_the_last(data):
    with pytest.raises(ValueError, match="last class"):
        show(data.counts, data.prediction, kind=2, distance="linear")
    text = pd.DataFrame(data.counts, columns=["bad", "fair", "good"])
    with pytest.raises(ValueError, match="needs an order of the classes"):
        show(text, data.prediction, distance="linear")
    with pytest.raises(ValueError, match="'linear' or None"):
        show(data.counts, data.prediction, distance="quadratic")


@pytest.mark.parametrize("distance", ["linear", "quadratic"])
def test_disagreement_is_in_the_unit_of_its_distance(data, distance):
    """The mean over pairs of labels, and that of two draws of the prediction."""
    place = np.arange(3)
    squares = np.abs(np.subtract.outer(place, place)) ** (1 if distance == "linear" else 2)
    d = Dirichlet.from_mean(data.prediction, data.total)
    how = {"kind": "disagreement", "distance": distance, "n_bins": [0.0, squares.max()]}
    display = show(data.counts, d, **how)
    curve = display.result
    y, n = data.counts, data.counts.sum(axis=1)
    observed = np.einsum("nk,kl,nl->n", y, squares, y) / (n * (n - 1))
    predicted = np.einsum("nk,kl,nl->n", data.prediction, squares, data.prediction)
    predicted *= data.total / (data.total + 1)
    np.testing.assert_allclose(points(curve), [[predicted.mean(), observed.mean()]])
    assert curve.edges[-1] == squares.max()
    unit = "steps" if distance == "linear" else "squared distance"
    assert unit in display.ax_.get_ylabel()
    # the line of perfect calibration reaches as far as the points
    assert display.reference_.get_xdata()[-1] >= np.max([points(curve)[:, 1], curve.interval[:, 1]])


def test_a_distance_that_takes_classes_alike_changes_the_unit_alone(data):
    curve = partial(reliability_curve, kind="disagreement", n_bins=6)
    plain = curve(data.counts, data.prediction)
    twice = curve(data.counts, data.prediction, distance=2 * (1 - np.eye(3)))
    np.testing.assert_allclose(points(twice), 2 * points(plain), rtol=1e-9)
    np.testing.assert_allclose(twice.interval, 2 * plain.interval, rtol=1e-9)
    np.testing.assert_array_equal(twice.bin_counts, plain.bin_counts)
