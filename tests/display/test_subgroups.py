"""A figure of subgroups: what it draws is what the audit says."""

import pickle

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.display import SubgroupDisplay
from sklearn_lhcal.metrics import subgroup_audit

N = 300
DATA = make_label_histograms(N, random_state=0)
SITE = np.array(["north", "south", "west"])[np.arange(N) % 3]
# in the west the first and the last class are exchanged
COUNTS = np.where((SITE == "west")[:, None], DATA.counts[:, ::-1], DATA.counts)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_it_draws_the_audit():
    audit = subgroup_audit(COUNTS, DATA.proba, {"site": SITE}, n_draws=50)
    display = SubgroupDisplay.from_predictions(COUNTS, DATA.proba, {"site": SITE}, n_draws=50)
    # the slope stands out most; of classes, this one
    assert audit.worst == ("site=west", "slope")
    shown = audit.to_frame().statistic.abs().idxmax()[1]
    frame = audit.to_frame().xs(shown, level="class")
    slopes = audit.sharpness.filter(like="slope").iloc[:, :3]
    assert display.result.p_value == audit.p_value
    assert_allclose(display.result.to_frame()[["low", "high"]], audit.to_frame()[["low", "high"]])
    for j, expected in enumerate((frame[["estimate", "low", "high"]], slopes)):
        kinds = display.calibrated_[j], display.wrong_[j]
        drawn = np.concatenate([dots[0].get_xdata() for dots in kinds])
        assert_allclose(np.sort(drawn), np.sort(expected.iloc[:, 0]))
        bars = np.concatenate(
            [dots[2][0].get_segments() for dots in kinds if len(dots[0].get_xdata())]
        )
        assert_allclose(np.sort(bars[:, :, 0], axis=0), np.sort(expected.iloc[:, 1:], axis=0))
        # the west stands on the third line
        assert_allclose(display.wrong_[j][0].get_ydata(), [2])
        assert_allclose(display.reference_[j].get_xdata(), j)
    left, right = display.ax_
    labels = [label.get_text() for label in left.get_yticklabels()]
    assert labels == ["site=north (100)", "site=south (100)", "site=west (100)"]
    assert not any(label.get_text() for label in right.get_yticklabels())
    assert f"class {shown}; " in left.get_title()
    assert f"p = {audit.p_value:.2g}" in left.get_title()
    assert "slope" in right.get_xlabel().lower()


def test_both_complaints_stand_apart():
    """In the west one class is predicted too often; in the south all are too sure."""
    rng = np.random.default_rng(0)
    Q = rng.dirichlet(np.ones(3), 900)
    site = np.array(["north", "south", "west"])[np.arange(900) % 3]
    z = np.where(
        (site == "south")[:, None], Q**2, Q * np.where((site == "west")[:, None], [1.5, 1, 1], 1)
    )
    z /= z.sum(axis=1, keepdims=True)
    display = SubgroupDisplay.from_predictions(rng.multinomial(4, Q), z, {"site": site})
    assert [dots[0].get_ydata().tolist() for dots in display.wrong_] == [[2], [1]]
    assert "class 0; " in display.ax_[0].get_title()
    assert display.result.worst == ("site=south", "slope")


def test_a_slope_without_an_end_leaves_the_others_in_sight():
    """The first site is sure and right, the second has no slope; the third is like the data."""
    z = np.where((SITE == "north")[:, None], [0.9, 0.05, 0.05], DATA.proba)
    z[SITE == "south"] = 1 / 3, 1 / 3, 1 / 3
    y = DATA.counts.copy()
    y[SITE == "north"] = 5, 0, 0
    display = SubgroupDisplay.from_predictions(y, z, {"site": SITE}, n_draws=20)
    assert display.result.columns["slope"][0] == 20
    assert display.ax_[1].get_xlim()[0] == 0
    assert 20 < display.ax_[1].get_xlim()[1] <= 21


def test_the_class_is_chosen():
    display = SubgroupDisplay.from_predictions(
        COUNTS, DATA.proba, {"site": SITE}, class_name=1, n_draws=20, min_rows=50
    )
    assert "class 1;" in display.ax_[0].get_title()
    with pytest.raises(ValueError, match="class_name=7"):
        SubgroupDisplay.from_predictions(COUNTS, DATA.proba, {"site": SITE}, class_name=7)


def test_an_estimator_and_its_predictions_are_alike():
    model = LogisticRegression().fit(DATA.X, COUNTS.argmax(axis=1))
    of_model = SubgroupDisplay.from_estimator(model, DATA.X, COUNTS, {"site": SITE}, n_draws=20)
    proba = model.predict_proba(DATA.X)
    of_proba = SubgroupDisplay.from_predictions(COUNTS, proba, {"site": SITE}, n_draws=20)
    found, expected = (display.result.columns for display in (of_model, of_proba))
    for end in ("low", "high"):
        assert_allclose(found[end], expected[end])


def test_it_is_drawn_from_a_pickle():
    ax = plt.figure().add_subplot()
    audit = subgroup_audit(COUNTS, DATA.proba, {"site": SITE}, n_draws=20, confidence_level=0.8)
    display = SubgroupDisplay(pickle.loads(pickle.dumps(audit)))
    assert display.plot(ax, class_name=0, dot_kwargs={"markersize": 3}) is display
    assert display.ax_ is ax
    assert len(display.wrong_) == 1
    assert display.wrong_[0][0].get_markersize() == 3
    assert "class 0" in ax.get_title()
    assert "80% limits" in ax.get_xlabel()
    expected = SubgroupDisplay(audit).plot(class_name=0)
    for own, other in zip(display.wrong_, expected.wrong_, strict=False):
        assert_allclose(own[0].get_xydata(), other[0].get_xydata())
