"""EpistemicGainDisplay: the means of the bins, honest bands, and what is drawn."""

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
from sklearn_lhcal.display import EpistemicGainDisplay
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
    display = EpistemicGainDisplay.from_predictions(g, 2 * e, calibrated=e, n_bins=5, name="MI")
    edges = np.quantile(e, np.linspace(0, 1, 6))
    index = np.minimum(np.searchsorted(edges, e, side="right") - 1, 4)
    for m in range(5):
        assert display.mean_gain[m] == pytest.approx(g[index == m].mean())
        assert display.mean_uncertainty[m] == pytest.approx(2 * e[index == m].mean())
        assert display.mean_calibrated[m] == pytest.approx(e[index == m].mean())
    assert_array_equal(display.bin_counts, np.bincount(index))
    gap = np.abs(display.mean_gain - display.mean_uncertainty)
    assert gap @ display.bin_counts / 1000 == pytest.approx(
        epistemic_calibration_error(g, 2 * e, n_bins=5)
    )


def test_intervals_hold_as_often_as_they_say():
    inside = []
    for seed in range(400):
        curve = gain_curve(*draw(seed, n=400), n_bins=4, confidence_level=0.9)
        low, high = curve.interval.T
        inside.append((low <= curve.mean_uncertainty) & (curve.mean_uncertainty <= high))
    assert 0.85 < np.mean(inside) < 0.97


def test_bins_where_nothing_is_gained_have_a_band():
    g, e = draw()
    g[e < 0.25] = 0
    display = EpistemicGainDisplay.from_predictions(g, e, n_bins=4)
    width = np.diff(display.interval, axis=1)[:, 0]
    assert display.mean_gain[0] == pytest.approx(0, abs=1e-15)
    assert 0 < width[0] < width[-1]
    lone = EpistemicGainDisplay.from_predictions([0.0, 1.0], [0.1, 0.3], n_bins=2)
    assert np.isfinite(lone.interval).all()


def test_runs_are_averaged_and_the_band_is_of_their_mean():
    runs = [draw(seed) for seed in range(4)]
    gains, estimates = zip(*runs, strict=True)
    display = EpistemicGainDisplay.from_predictions(
        list(gains), list(estimates), calibrated=list(estimates), n_bins=5
    )
    singles = [EpistemicGainDisplay.from_predictions(g, e, n_bins=5) for g, e in runs]
    assert_allclose(display.mean_gain, [single.mean_gain for single in singles])
    assert_array_equal(
        display.bin_counts, np.sum([single.bin_counts for single in singles], axis=0)
    )
    assert_allclose(display.gain_line_.get_ydata(), display.mean_gain.mean(axis=0))
    path = display.gain_band_.get_paths()[0].vertices
    of_runs = ttest_1samp(display.mean_gain, 0, axis=0).confidence_interval(0.95)
    assert path[:, 1].max() == pytest.approx(of_runs.high.max())
    assert path[:, 1].min() == pytest.approx(of_runs.low.min())
    assert display.calibrated_band_ is not None
    assert display.legend_.get_title().get_text() == "bands: 95% intervals over 4 runs"


def test_what_is_drawn():
    g, e = draw()
    display = EpistemicGainDisplay.from_predictions(
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
    plain = EpistemicGainDisplay(display.mean_gain, display.mean_uncertainty).plot()
    assert plain.histogram_ is None
    assert plain.gain_band_ is None


def test_from_estimator():
    X, y = make_random_checkerboard(1500, n_rows=6, n_columns=6, cell_std=0.25, random_state=0)
    forest = ExtraTreesClassifier(10, random_state=0)
    reference = cross_val_predict(forest, X, y, method="predict")
    train, test = next(BallCarvingSplit(random_state=0).split(X))
    plain = make_pipeline(StandardScaler(), forest).fit(X[train], y[train])
    arguments = {"reference_prediction": reference[test], "n_bins": 4}
    display = EpistemicGainDisplay.from_estimator(plain, X[test], y[test], **arguments)
    gain = accuracy_gain(y[test], plain.predict(X[test]), reference[test])
    by_hand = EpistemicGainDisplay.from_predictions(
        gain, predict_dist(plain, X[test]).mutual_information(), n_bins=4
    )
    assert_allclose(display.mean_gain, by_hand.mean_gain)
    assert_allclose(display.mean_uncertainty, by_hand.mean_uncertainty)
    assert display.name == "Pipeline"
    calibrated = make_pipeline(
        StandardScaler(), EpistemicCalibration(forest, uncertainty="entropy")
    )
    calibrated.fit(X[train], y[train])
    display = EpistemicGainDisplay.from_estimator(
        calibrated, X[test], y[test], name="entropy", **arguments
    )
    index = np.argsort(predict_dist(calibrated[-1], calibrated[:-1].transform(X[test])).entropy())[
        -5:
    ]
    assert display.mean_uncertainty[-1] > predict_dist(plain, X[test]).entropy()[index].mean() / 2
    assert display.mean_calibrated.max() <= 1
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
        EpistemicGainDisplay.from_predictions(*arguments, **change)
