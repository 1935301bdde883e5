"""gain_curve: the means of the bins, honest intervals; its display and what is drawn."""

import pickle

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import ttest_1samp
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_lhcal.calibration import EpistemicCalibration
from sklearn_lhcal.datasets import make_random_checkerboard
from sklearn_lhcal.display import GainCurveDisplay
from sklearn_lhcal.distributions import predict_dist
from sklearn_lhcal.metrics import accuracy_gain, epistemic_calibration_error, gain_curve
from sklearn_lhcal.model_selection import BallCarvingSplit, cross_val_predict


def draw(seed=0, n=1000, top=0.5):
    """A calibrated estimate, and its gains."""
    rng = np.random.default_rng(seed)
    e = rng.uniform(0, top, n)
    return (rng.uniform(size=n) < e).astype(float), e


def test_means_by_bin():
    g, e = draw()
    curve = gain_curve(g, 2 * e, calibrated=e, n_bins=5)
    edges = np.quantile(e, np.linspace(0, 1, 6))
    index = np.minimum(np.searchsorted(edges, e, side="right") - 1, 4)
    for m in range(5):
        assert curve.mean_gain[m] == pytest.approx(g[index == m].mean())
        assert curve.mean_uncertainty[m] == pytest.approx(2 * e[index == m].mean())
        assert curve.mean_calibrated[m] == pytest.approx(e[index == m].mean())
    assert_array_equal(curve.bin_counts, np.bincount(index))
    gap = np.abs(curve.mean_gain - curve.mean_uncertainty)
    assert gap @ curve.bin_counts / 1000 == pytest.approx(
        epistemic_calibration_error(g, 2 * e, n_bins=5)
    )


def test_intervals_hold_as_often_as_they_say():
    inside = []
    for seed in range(400):
        curve = gain_curve(*draw(seed, n=400), n_bins=4, confidence_level=0.9)
        low, high = curve.interval.T
        inside.append((low <= curve.mean_uncertainty) & (curve.mean_uncertainty <= high))
    assert 0.85 < np.mean(inside) < 0.97


def test_bins_where_nothing_is_gained_have_an_interval():
    g, e = draw()
    g[e < 0.25] = 0
    curve = gain_curve(g, e, n_bins=4)
    width = np.diff(curve.interval, axis=1)[:, 0]
    assert curve.mean_gain[0] == pytest.approx(0, abs=1e-15)
    assert 0 < width[0] < width[-1]
    lone = gain_curve([0.0, 1.0], [0.1, 0.3], n_bins=2)
    assert np.isfinite(lone.interval).all()


def test_runs_are_averaged_and_the_band_is_of_their_mean():
    runs = [draw(seed) for seed in range(4)]
    gains, estimates = map(list, zip(*runs, strict=True))
    display = GainCurveDisplay.from_predictions(
        gains, estimates, calibrated=[e / 2 for e in estimates], n_bins=5
    )
    curve = display.result
    singles = [gain_curve(g, e, calibrated=e / 2, n_bins=5) for g, e in runs]
    assert curve.n_runs == 4
    assert_array_equal(curve.bin_counts, np.sum([one.bin_counts for one in singles], axis=0))
    for name, ends in (
        ("mean_gain", curve.interval),
        ("mean_uncertainty", curve.uncertainty_interval),
        ("mean_calibrated", curve.calibrated_interval),
    ):
        of_runs = np.array([getattr(one, name) for one in singles])
        assert_allclose(getattr(curve, name), of_runs.mean(axis=0))
        assert_allclose(ends.T, ttest_1samp(of_runs, 0, axis=0).confidence_interval(0.95))
    assert_allclose(display.gain_line_.get_ydata(), curve.mean_gain)
    for band, ends in (
        (display.gain_band_, curve.interval),
        (display.uncertainty_band_, curve.uncertainty_interval),
        (display.calibrated_band_, curve.calibrated_interval),
    ):
        path = band.get_paths()[0].vertices
        assert path[:, 1].max() == pytest.approx(ends.max())
        assert path[:, 1].min() == pytest.approx(ends.min())
    assert display.legend_.get_title().get_text() == "bands: 95% intervals over 4 runs"
    # one run in a list is that run
    one = gain_curve(gains[:1], estimates[:1], n_bins=5)
    assert one.n_runs == 1
    assert_array_equal(one.interval, singles[0].interval)


def test_what_is_drawn():
    g, e = draw()
    display = GainCurveDisplay.from_predictions(
        g, e, n_bins=5, name="MI", gain_kwargs={"color": "k"}
    )
    texts = [text.get_text() for text in display.legend_.get_texts()]
    assert texts == ["gain in accuracy", "MI"]
    assert display.gain_line_.get_color() == "k"
    assert display.calibrated_line_ is None
    assert display.uncertainty_band_ is None
    assert display.legend_.get_title().get_text() == "band: 95% intervals"
    assert "nats" in display.ax_.get_ylabel()
    _, ax = plt.subplots()
    again = display.plot(ax, plot_uncertainty=False, name="other")
    assert again.ax_ is ax
    assert again.uncertainty_line_ is None
    kept = GainCurveDisplay(pickle.loads(pickle.dumps(display.result))).plot()
    assert_array_equal(kept.gain_line_.get_ydata(), display.result.mean_gain)
    assert_array_equal(kept.histogram_.get_data().values, display.result.bin_counts)


def test_its_frame():
    g, e = draw()
    curve = gain_curve(g, e, calibrated=e / 2, n_bins=5)
    frame = curve.to_frame()
    for name in ("mean_gain", "mean_uncertainty", "mean_calibrated", "bin_counts"):
        assert_array_equal(frame[name], getattr(curve, name))
    assert_array_equal(frame[["low", "high"]], curve.interval)
    assert "mean_calibrated" not in gain_curve(g, e, n_bins=5).to_frame()


def test_from_estimator():
    X, y = make_random_checkerboard(1500, n_rows=6, n_columns=6, cell_std=0.25, random_state=0)
    forest = ExtraTreesClassifier(10, random_state=0)
    reference = cross_val_predict(forest, X, y, method="predict")
    train, test = next(BallCarvingSplit(random_state=0).split(X))
    plain = make_pipeline(StandardScaler(), forest).fit(X[train], y[train])
    arguments = {"reference_prediction": reference[test], "n_bins": 4}
    display = GainCurveDisplay.from_estimator(plain, X[test], y[test], **arguments)
    gain = accuracy_gain(y[test], plain.predict(X[test]), reference[test])
    by_hand = gain_curve(gain, predict_dist(plain, X[test]).mutual_information(), n_bins=4)
    assert_allclose(display.result.mean_gain, by_hand.mean_gain)
    assert_allclose(display.result.mean_uncertainty, by_hand.mean_uncertainty)
    assert display.name == "Pipeline"
    calibrated = make_pipeline(
        StandardScaler(), EpistemicCalibration(forest, uncertainty="entropy")
    )
    calibrated.fit(X[train], y[train])
    display = GainCurveDisplay.from_estimator(
        calibrated, X[test], y[test], name="entropy", **arguments
    )
    index = np.argsort(predict_dist(calibrated[-1], calibrated[:-1].transform(X[test])).entropy())[
        -5:
    ]
    assert (
        display.result.mean_uncertainty[-1]
        > predict_dist(plain, X[test]).entropy()[index].mean() / 2
    )
    assert display.result.mean_calibrated.max() <= 1
    assert [t.get_text() for t in display.legend_.get_texts()][1:] == [
        "entropy",
        "entropy, calibrated",
    ]


@pytest.mark.parametrize(
    ("arguments", "change", "message"),
    [
        (draw(), {"confidence_level": 1.0}, "confidence_level must lie between 0 and 1"),
        (([[0.0, 1.0]], [[0.1, 0.2]] * 2), {}, r"unequal numbers of runs: \[1, 2\]"),
        (([[0.0, 1.0], [0.0, 0.0]], [[0.1, 0.2], [0.1, 0.1]]), {"n_bins": 2}, "fewer bins"),
        (([0.0, 1.0], [0.1]), {}, "one estimate per sample"),
        (([0.0, 1.0], [0.1, 0.2]), {"calibrated": [0.1, -0.2]}, "not negative"),
    ],
)
def test_errors(arguments, change, message):
    with pytest.raises(ValueError, match=message):
        gain_curve(*arguments, **change)
