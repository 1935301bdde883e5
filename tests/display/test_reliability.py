"""Displays: points, intervals and what is drawn."""

import subprocess
import sys

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
from sklearn_lhcal.display import DisagreementReliabilityDisplay, ReliabilityDisplay
from sklearn_lhcal.distributions import Dirichlet, Ensemble
from sklearn_lhcal.label_histogram import KnownProbabilities, pairwise_disagreement
from sklearn_lhcal.metrics import (
    disagreement_calibration_loss,
    loss_decomposition,
    reliability_curve,
)

DISPLAYS = [ReliabilityDisplay, DisagreementReliabilityDisplay]


@pytest.fixture
def data():
    return make_label_histograms(300, n_raters=(2, 6), overconfidence=2.0, random_state=0)


def points(display):
    return np.column_stack([display.mean_predicted, display.mean_observed])


# ------------------------------------------------------------------------------------------- points


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_points_are_those_of_sklearn_for_two_classes_with_one_label(strategy):
    data = make_label_histograms(1000, 2, 1, random_state=0)
    y, z = data.counts[:, 1], data.prediction[:, 1]
    display = ReliabilityDisplay.from_predictions(y, z, class_index=1, n_bins=7, strategy=strategy)
    observed, predicted = calibration_curve(y, z, n_bins=7, strategy=strategy)
    np.testing.assert_allclose(points(display), np.column_stack([predicted, observed]), rtol=1e-12)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("weighted", [False, True])
def test_points_are_those_of_the_loss_decomposition(data, strategy, weighted):
    w = np.random.RandomState(0).random_sample(300) if weighted else np.ones(300)
    parts = loss_decomposition(
        data.counts, data.prediction, sample_weight=w, strategy=strategy, bias_correction=None
    )
    for k in range(3):
        display = ReliabilityDisplay.from_predictions(
            data.counts, data.prediction, class_index=k, strategy=strategy, sample_weight=w
        )
        np.testing.assert_allclose(display.edges, parts.bin_edges[k])
        np.testing.assert_allclose(display.mean_predicted, parts.bin_mean_proba[k], rtol=1e-9)
        np.testing.assert_allclose(
            display.mean_observed, parts.bin_mean_frequency[k], rtol=1e-9, atol=1e-12
        )


def test_gaps_make_up_the_disagreement_calibration_loss(data):
    distribution = Dirichlet.from_mean(data.prediction, 3.0)
    display = DisagreementReliabilityDisplay.from_predictions(data.counts, distribution, n_bins=9)
    gap = display.mean_observed - display.mean_predicted
    loss = disagreement_calibration_loss(data.counts, distribution, n_bins=9, bias_correction=None)
    assert np.nansum(display.bin_counts / 300 * gap**2) == pytest.approx(loss, rel=1e-9)


def test_points_by_hand():
    display = ReliabilityDisplay.from_predictions(
        [[1, 3], [4, 0], [0, 2]], [[0.1, 0.9], [0.2, 0.8], [0.9, 0.1]], class_index=1, n_bins=2
    )
    np.testing.assert_allclose(points(display), [[0.1, 1.0], [0.85, 0.375]])
    assert display.bin_counts.tolist() == [1, 2]
    pooled = ReliabilityDisplay.from_predictions(
        [[1, 3], [4, 0], [0, 2]], [[0.1, 0.9], [0.2, 0.8], [0.9, 0.1]], n_bins=2
    )
    np.testing.assert_allclose(points(pooled), [[0.4 / 3, 2.25 / 3], [2.6 / 3, 0.75 / 3]])
    assert pooled.bin_counts.tolist() == [3, 3]
    disagreement = DisagreementReliabilityDisplay.from_predictions(
        [[1, 1], [2, 2], [3, 0], [1, 0]],
        [[0.5, 0.5], [0.4, 0.6], [1, 0], [0.5, 0.5]],
        n_bins=[0, 0.4, 0.8, 1],
    )
    np.testing.assert_allclose(points(disagreement), [[0.0, 0.0], [0.49, 5 / 6], [np.nan, np.nan]])
    assert disagreement.bin_counts.tolist() == [1, 2, 0]  # the row with one rater is left out


@pytest.mark.parametrize("display", DISPLAYS)
def test_integer_weights_repeat_rows_and_zero_weights_drop_them(display, data):
    w = np.random.RandomState(0).randint(0, 4, size=300)
    weighted = display.from_predictions(data.counts, data.prediction, sample_weight=w)
    repeated = display.from_predictions(
        np.repeat(data.counts, w, axis=0), np.repeat(data.prediction, w, axis=0)
    )
    np.testing.assert_allclose(points(weighted), points(repeated), rtol=1e-9)
    dropped = display.from_predictions(
        data.counts[w > 0], data.prediction[w > 0], sample_weight=7.0 * w[w > 0]
    )
    np.testing.assert_allclose(dropped.interval, weighted.interval, rtol=1e-9)
    assert np.array_equal(dropped.bin_counts, weighted.bin_counts)


@pytest.mark.parametrize("display", DISPLAYS)
def test_weights_may_be_of_any_size(display, data):
    """Only ratios matter; a weight beyond all others leaves its row alone in the bin."""
    w = np.random.RandomState(0).uniform(1, 2, size=300)
    shown = display.from_predictions(data.counts, data.prediction, sample_weight=w)
    for scale in (1e-290, 1e290):
        scaled = display.from_predictions(data.counts, data.prediction, sample_weight=scale * w)
        np.testing.assert_allclose(points(scaled), points(shown), rtol=1e-9)
        np.testing.assert_allclose(scaled.interval, shown.interval, rtol=1e-9)
    for huge in (1e30, 1e300):
        w[7] = huge
        one = display.from_predictions(data.counts, data.prediction, sample_weight=w)
        alone = display.from_predictions(data.counts[[7]], data.prediction[[7]])
        k = np.flatnonzero(alone.bin_counts)
        np.testing.assert_allclose(points(one)[k], points(alone)[k], atol=1e-12)
        assert np.isnan(one.interval[k]).all()


def test_a_distribution_counts_by_its_mean_or_by_its_disagreement(data):
    distribution = Dirichlet.from_mean(data.prediction, 1.0)
    same = [
        ReliabilityDisplay.from_predictions(data.counts, p) for p in (data.prediction, distribution)
    ]
    np.testing.assert_allclose(points(same[0]), points(same[1]))
    point, dirichlet = (
        DisagreementReliabilityDisplay.from_predictions(data.counts, p, n_bins=[0, 1])
        for p in (data.prediction, distribution)
    )
    assert dirichlet.mean_predicted[0] == pytest.approx(point.mean_predicted[0] / 2)  # α0/(α0+1)


def test_known_probabilities_are_perfectly_reliable(data):
    Q = KnownProbabilities(data.proba)
    for display in DISPLAYS:
        shown = display.from_predictions(Q, data.proba)
        np.testing.assert_allclose(shown.mean_observed, shown.mean_predicted, atol=1e-12)


# -------------------------------------------------------------------------------------------- doors


@pytest.fixture
def named():
    """A classifier of named classes, features, and a frame of counts in another order."""
    data = make_label_histograms(200, random_state=0)
    names = np.array(["cat", "dog", "eel"])
    model = LogisticRegression().fit(data.X, names[data.counts.argmax(axis=1)])
    counts = pd.DataFrame(data.counts, columns=names)[["eel", "cat", "dog"]]
    return model, data.X, counts


@pytest.mark.parametrize("display", DISPLAYS)
def test_an_estimators_classes_are_aligned_by_name(display, named):
    model, X, counts = named
    shown = display.from_estimator(model, X, counts)
    expected = display.from_predictions(
        counts[["cat", "dog", "eel"]].to_numpy(), model.predict_proba(X)
    )
    np.testing.assert_allclose(points(shown), points(expected))
    np.testing.assert_allclose(shown.interval, expected.interval)
    assert shown.name == "LogisticRegression"
    assert display.from_estimator(model, X, counts, name="mine").name == "mine"


def test_classes_are_found_by_number_or_name(named):
    model, X, counts = named
    proba = model.predict_proba(X)
    by_name = ReliabilityDisplay.from_estimator(model, X, counts, class_index="eel")
    assert by_name.class_name == "eel"
    assert "class eel" in by_name.ax_.get_xlabel()
    frame = pd.DataFrame(proba, columns=model.classes_)
    others = [
        ReliabilityDisplay.from_estimator(model, X, counts, class_index=2),
        ReliabilityDisplay.from_predictions(counts, frame, class_index="eel"),
        # column numbers are those of the prediction
        ReliabilityDisplay.from_predictions(counts, frame, class_index=2),
        ReliabilityDisplay.from_predictions(
            counts.to_numpy()[:, [1, 2, 0]], frame, class_index="eel"
        ),
        ReliabilityDisplay.from_predictions(
            counts.to_numpy()[:, [1, 2, 0]], proba, class_index="eel", classes=["cat", "dog", "eel"]
        ),
    ]
    for other in others:
        assert other.class_name == "eel"
        np.testing.assert_allclose(points(other), points(by_name))


def test_string_labels_name_their_classes():
    display = ReliabilityDisplay.from_predictions(
        ["b", "a", "b"], [0.9, 0.2, 0.6], class_index="b", n_bins=1
    )
    np.testing.assert_allclose(points(display), [[1.7 / 3, 2 / 3]])


def test_a_class_that_training_never_saw_has_probability_0(named):
    model, X, counts = named
    more = counts.assign(yak=1)
    display = ReliabilityDisplay.from_estimator(model, X, more, class_index="yak", n_bins=1)
    assert display.mean_predicted[0] == 0
    assert display.mean_observed[0] > 0
    raw = DisagreementReliabilityDisplay.from_estimator(model, X, more, n_bins=[0, 1])
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
    shown = DisagreementReliabilityDisplay.from_estimator(model, data.X, data.counts)
    expected = DisagreementReliabilityDisplay.from_predictions(data.counts, members)
    np.testing.assert_allclose(points(shown), points(expected))


# ------------------------------------------------------------------------------------------ drawing


@pytest.mark.parametrize("display", DISPLAYS)
def test_artists_are_kept_and_drawn(display, data):
    shown = display.from_predictions(data.counts, data.prediction, name="raw", confidence_level=0.8)
    np.testing.assert_array_equal(shown.line_.get_xydata(), points(shown))
    assert (
        len(shown.errorbar_.lines[2][0].get_segments()) == np.isfinite(shown.interval[:, 0]).sum()
    )
    np.testing.assert_array_equal(shown.histogram_.get_data().values, shown.bin_counts)
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
    shown = ReliabilityDisplay.from_predictions(data.counts, data.prediction)
    ends = np.array([segment[:, 1] for segment in shown.errorbar_.lines[2][0].get_segments()])
    np.testing.assert_allclose(ends, shown.interval[np.isfinite(shown.interval[:, 0])], atol=1e-12)


def test_points_without_an_interval_are_open():
    shown = ReliabilityDisplay.from_predictions(
        [[1, 1], [2, 0], [0, 2]], [0.1, 0.12, 0.9], class_index=1
    )
    np.testing.assert_allclose(shown.open_points_.get_xydata()[-1], [0.9, 1.0])
    assert np.isfinite(shown.open_points_.get_xydata()).all(axis=1).sum() == 1
    assert shown.open_points_.get_markerfacecolor() == "white"


@pytest.mark.parametrize("display", DISPLAYS)
def test_two_displays_share_axes_diagonal_and_strip(display, data):
    few, many = data.counts[:50], data.counts
    first = display.from_predictions(few, data.prediction[:50], name="raw")
    second = display.from_predictions(
        many, softmax(np.log(data.prediction) / 2, axis=1), name="TS", ax=first.ax_
    )
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
    assert second.histogram_ax_.get_ylim()[1] >= second.bin_counts.max()
    limit = max(first.limit, second.limit)
    assert limit < first.ax_.get_xlim()[1] < limit + 0.05
    first.figure_.canvas.draw()


def test_the_limit_of_disagreement_shows_everything_and_little_more():
    counts = np.array([[9, 1], [8, 2], [10, 0], [9, 1]] * 10)
    shown = DisagreementReliabilityDisplay.from_predictions(
        counts, np.tile([0.9, 0.1], (40, 1)), n_bins=10
    )
    assert shown.limit == pytest.approx(
        1.05 * max(0.18, shown.interval[1, 1])
    )  # one point, at φ̂ = .18
    worse = DisagreementReliabilityDisplay.from_predictions([[1, 1]] * 4, [0.01] * 4)
    assert worse.limit == 1.0


def test_styles_reach_their_artists(data):
    shown = ReliabilityDisplay.from_predictions(
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
        ReliabilityDisplay.from_predictions(data.counts, data.prediction, markers="x")


def test_plot_draws_again_and_on_given_axes(data):
    shown = ReliabilityDisplay.from_predictions(data.counts, data.prediction, name="raw")
    figure, axes = plt.subplots(1, 2, figsize=(9, 4))
    assert shown.plot(axes[1], name="again") is shown
    assert shown.ax_ is axes[1]
    assert shown.figure_ is figure
    assert not axes[0].lines
    assert shown.line_.get_label() == "again"
    figure.tight_layout()
    figure.canvas.draw()


def test_a_display_can_be_made_from_numbers():
    shown = ReliabilityDisplay(
        [0.2, 0.8], [0.3, 0.6], [[0.2, 0.4], [np.nan, np.nan]], [7, 1], [0, 0.5, 1]
    ).plot()
    assert len(shown.errorbar_.lines[2][0].get_segments()) == 1
    none = [[np.nan, np.nan]] * 2
    DisagreementReliabilityDisplay(
        [0.2, 0.8], [0.3, 0.6], none, [1, 1], [0, 0.5, 1]
    ).plot().figure_.canvas.draw()


@pytest.mark.slow
def test_matplotlib_is_imported_when_something_is_plotted():
    code = "import sys, sklearn_lhcal.display; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_matplotlib_the_error_says_what_to_install(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'sklearn-lhcal\[plot\]'"):
        ReliabilityDisplay.from_predictions(data.counts, data.prediction)
    monkeypatch.undo()


# ------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("display", DISPLAYS)
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
def test_bad_arguments_are_refused_before_anything_is_drawn(display, arguments, message):
    arguments = {"y": [[1, 1], [2, 0]], "prediction": [[0.5, 0.5], [0.2, 0.8]]} | arguments
    with pytest.raises(ValueError, match=message):
        display.from_predictions(**arguments)
    assert not plt.get_fignums()


@pytest.mark.parametrize("class_index", [2, -1, "cat", 0.5])
def test_unknown_classes_are_refused(class_index):
    with pytest.raises(ValueError, match="class_index"):
        ReliabilityDisplay.from_predictions([[1, 1]], [[0.5, 0.5]], class_index=class_index)


def test_wrong_number_of_class_names_is_refused():
    with pytest.raises(ValueError, match=r"2 different names"):
        ReliabilityDisplay.from_predictions([[1, 1]], [[0.5, 0.5]], class_index=0, classes=["cat"])


def test_single_labels_show_no_disagreement():
    with pytest.raises(ValueError, match="use ReliabilityDisplay"):
        DisagreementReliabilityDisplay.from_predictions([0, 1], [[0.5, 0.5], [0.2, 0.8]])
    with pytest.raises(ValueError, match="two raters"):
        DisagreementReliabilityDisplay.from_predictions(
            [[1, 1], [1, 0]], [0.5, 0.2], sample_weight=[0, 1]
        )


@pytest.mark.parametrize("display", DISPLAYS)
def test_an_estimator_without_probabilities_is_refused(display, data):
    model = RidgeClassifier().fit(data.X, data.counts.argmax(axis=1))
    with pytest.raises(ValueError, match="predicts no probabilities"):
        display.from_estimator(model, data.X, data.counts)


@pytest.mark.parametrize("display", DISPLAYS)
def test_callers_arrays_are_left_alone(display, data):
    counts, z, w = data.counts.copy(), data.prediction.copy(), np.arange(300.0)
    for a in (counts, z, w):
        a.flags.writeable = False
    display.from_predictions(counts, z, sample_weight=w)
    assert np.array_equal(counts, data.counts)


# --------------------------------------------------------------------------------- classes in order


def test_cumulative_reliability_is_that_of_at_most_each_class(data):
    at_most = data.counts.cumsum(axis=1)
    F = data.prediction.cumsum(axis=1)
    shown = []
    for j in range(2):
        two = np.column_stack([at_most[:, -1] - at_most[:, j], at_most[:, j]])
        expected = ReliabilityDisplay.from_predictions(two, F[:, j], class_index=1)
        found = ReliabilityDisplay.from_predictions(
            data.counts, data.prediction, class_index=j, distance="ordinal"
        )
        np.testing.assert_allclose(points(found), points(expected), rtol=1e-9)
        np.testing.assert_allclose(found.interval, expected.interval, rtol=1e-9)
        assert found.ax_.get_xlabel() == f"Predicted probability of at most class {j}"
        shown.append(found)
    pooled = ReliabilityDisplay.from_predictions(data.counts, data.prediction, distance="ordinal")
    np.testing.assert_array_equal(pooled.bin_counts, sum(one.bin_counts for one in shown))
    assert "at most each class" in pooled.ax_.get_xlabel()


def test_cumulative_reliability_needs_an_order_and_a_class_before_the_last(data):
    show = ReliabilityDisplay.from_predictions
    with pytest.raises(ValueError, match="last class"):
        show(data.counts, data.prediction, class_index=2, distance="ordinal")
    text = pd.DataFrame(data.counts, columns=["bad", "fair", "good"])
    with pytest.raises(ValueError, match="needs an order of the classes"):
        show(text, data.prediction, distance="ordinal")
    with pytest.raises(ValueError, match="distance must be"):
        show(data.counts, data.prediction, distance="interval")
    with pytest.raises(ValueError, match="'ordinal' or None"):
        reliability_curve(data.counts, data.prediction, distance="interval")


@pytest.mark.parametrize("distance", ["ordinal", "interval"])
def test_disagreement_is_in_the_unit_of_its_distance(data, distance):
    """The mean over pairs of labels, and that of two draws of the prediction."""
    place = np.arange(3)
    squares = np.abs(np.subtract.outer(place, place)) ** (1 if distance == "ordinal" else 2)
    d = Dirichlet.from_mean(data.prediction, data.total)
    show = DisagreementReliabilityDisplay.from_predictions
    display = show(data.counts, d, distance=distance, n_bins=[0.0, squares.max()])
    y, n = data.counts, data.counts.sum(axis=1)
    observed = np.einsum("nk,kl,nl->n", y, squares, y) / (n * (n - 1))
    predicted = np.einsum("nk,kl,nl->n", data.prediction, squares, data.prediction)
    predicted *= data.total / (data.total + 1)
    np.testing.assert_allclose(points(display), [[predicted.mean(), observed.mean()]])
    assert display.edges[-1] == squares.max()
    unit = "steps" if distance == "ordinal" else "squared distance"
    assert unit in display.ax_.get_ylabel()
    # the line of perfect calibration reaches as far as the points
    assert display.reference_.get_xdata()[-1] >= display.limit


def test_a_distance_that_takes_classes_alike_changes_the_unit_alone(data):
    show = DisagreementReliabilityDisplay.from_predictions
    plain = show(data.counts, data.prediction, n_bins=6)
    twice = show(data.counts, data.prediction, n_bins=6, distance=2 * (1 - np.eye(3)))
    np.testing.assert_allclose(points(twice), 2 * points(plain), rtol=1e-9)
    np.testing.assert_allclose(twice.interval, 2 * plain.interval, rtol=1e-9)
    np.testing.assert_array_equal(twice.bin_counts, plain.bin_counts)
