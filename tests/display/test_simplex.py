"""SimplexCalibrationDisplay: what it shows is the estimate; what it must not show is not there."""

import pickle
from itertools import product

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.stats import dirichlet
from sklearn.linear_model import LogisticRegression

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.display import SimplexCalibrationDisplay

show = SimplexCalibrationDisplay.from_predictions


@pytest.fixture
def data():
    return make_label_histograms(400, 3, 2, overconfidence=2.0, random_state=0)


def test_kernel_frequencies_are_the_ratio_of_densities(data):
    found = show(data.counts, data.prediction, bandwidth=0.1).result
    i = int(np.flatnonzero(~np.isnan(found.kernel_frequencies[:, 0]))[7])
    z = np.clip(data.prediction, 1e-12, None)
    k = np.array(
        [dirichlet.pdf(found.points[i], row / 0.1 + 1) for row in z / z.sum(axis=1, keepdims=True)]
    )
    np.testing.assert_allclose(
        found.kernel_frequencies[i], k @ (data.counts / 2) / k.sum(), rtol=1e-6
    )


def test_bins_are_triangles_with_all_rows(data):
    found = show(data.counts, data.prediction, n_bins=4).result
    assert found.bin_counts.sum() == 400
    assert len(found.bin_counts) == 16
    # the ten triangles that point up, and the six that point down
    corners = [c for c in product(range(4), repeat=3) if sum(c) in (2, 3)]
    centers = np.array([(np.array(c) + (4 - sum(c)) / 3) / 4 for c in corners])
    assert centers.shape == (16, 3)
    nearest = ((data.prediction[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    number = np.bincount(nearest, minlength=16)
    np.testing.assert_array_equal(np.sort(number), np.sort(found.bin_counts))
    expected = (data.counts[nearest == number.argmax()] / 2).mean(axis=0)
    np.testing.assert_allclose(found.bin_frequencies[found.bin_counts.argmax()], expected)
    assert np.isnan(found.bin_frequencies[found.bin_counts < 5]).all()


def test_calibrated_predictions_are_paler():
    data = make_label_histograms(
        4000, 3, 5, overconfidence=3.0, class_sep=1.0, total=100.0, random_state=0
    )
    u = np.log(data.prediction) / 3
    calibrated = np.exp(u) / np.exp(u).sum(axis=1, keepdims=True)
    means = []
    for z in (calibrated, data.prediction):
        display = show(data.counts, z)
        counts = display.result.bin_counts
        shown = ~np.isnan(display.result.bin_frequencies[:, 0])
        means.append(np.average(display.bin_colors_.get_array(), weights=counts[shown]))
    assert means[0] < means[1] / 3


def test_three_of_more_classes():
    data = make_label_histograms(500, 5, 3, random_state=0)
    names = ["a", "b", "c", "d", "e"]
    display = show(data.counts, data.prediction, classes=names, which=["e", "b", 3])
    found = display.result
    assert found.class_names == ["e", "b", "d"]
    assert "3 of 5 classes" in display.ax_[0].get_title()
    np.testing.assert_allclose(found.z.sum(axis=1), 1)
    kept = data.counts[:, [4, 1, 3]].sum(axis=1) > 0
    assert found.bin_counts.sum() == kept.sum()
    most = np.sort(np.argsort(-data.prediction.mean(axis=0))[:3])
    assert show(data.counts, data.prediction).result.class_names == most.tolist()


def test_axes_and_estimators(data):
    ax = plt.subplots()[1]
    display = show(data.counts, data.prediction, ax=ax, vmax=0.5)
    assert display.ax_ is ax
    assert display.bin_colors_ is None
    assert display.kernel_colors_.get_clim() == (0, 0.5)
    assert "probability" in display.colorbar_.ax.get_ylabel()
    labels = np.array(["x", "y", "z"])[data.counts.argmax(axis=1)]
    model = LogisticRegression().fit(data.X, labels)
    of_model = SimplexCalibrationDisplay.from_estimator(model, data.X, labels, bandwidth="loo")
    assert of_model.result.class_names == ["x", "y", "z"]


def test_it_is_drawn_from_the_pickle_of_its_result(data):
    display = show(data.counts, data.prediction, n_bins=4)
    again = SimplexCalibrationDisplay(pickle.loads(pickle.dumps(display.result))).plot()
    for name in ("kernel_colors_", "bin_colors_"):
        colors = [getattr(one, name).get_array() for one in (display, again)]
        np.testing.assert_array_equal(*colors)
    np.testing.assert_array_equal(again.arrows_.U, display.arrows_.U)
    np.testing.assert_array_equal(again.dots_[0].get_offsets(), display.dots_[0].get_offsets())


def test_weights_as_deletion(data):
    w = (np.arange(400) < 250).astype(float)
    a = show(data.counts, data.prediction, sample_weight=w).result
    b = show(data.counts[:250], data.prediction[:250]).result
    np.testing.assert_allclose(a.kernel_frequencies, b.kernel_frequencies, rtol=1e-10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"which": [0, 1]}, "which must name three different classes"),
        ({"which": [0, 1, 1]}, "which must name three different classes"),
        ({"which": [0, 1, 9]}, "is no column number"),
        ({"bandwidth": 0}, "bandwidth must be a number from 1e-100"),
        ({"n_bins": 1.5}, "n_bins must be an int"),
    ],
)
def test_errors(data, options, message):
    with pytest.raises(ValueError, match=message):
        show(data.counts, data.prediction, **options)


def test_two_classes_are_refused_and_so_are_rows_without_the_three():
    with pytest.raises(ValueError, match="needs three classes, got 2"):
        show([0, 1], [0.2, 0.4])
    with pytest.raises(ValueError, match="No sample has a label among the classes"):
        show([3, 3], np.full((2, 4), 0.25), which=[0, 1, 2])
