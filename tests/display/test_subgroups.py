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
    frame = audit.to_frame().xs(audit.worst[1], level="class")
    assert display.result.p_value == audit.p_value
    assert_allclose(display.result.to_frame()[["low", "high"]], audit.to_frame()[["low", "high"]])
    drawn = np.concatenate([display.calibrated_[0].get_xdata(), display.wrong_[0].get_xdata()])
    assert_allclose(np.sort(drawn), np.sort(frame.estimate))
    bars = np.concatenate(
        [dots[2][0].get_segments() for dots in (display.calibrated_, display.wrong_)]
    )
    assert_allclose(np.sort(bars[:, :, 0], axis=0), np.sort(frame[["low", "high"]], axis=0))
    # the west stands on the third line
    assert_allclose(display.wrong_[0].get_ydata(), [2])
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert labels == ["site=north (100)", "site=south (100)", "site=west (100)"]
    assert f"class {audit.worst[1]}; " in display.ax_.get_title()
    assert f"p = {audit.p_value:.2g}" in display.ax_.get_title()


def test_the_class_is_chosen():
    display = SubgroupDisplay.from_predictions(
        COUNTS, DATA.proba, {"site": SITE}, class_name=1, n_draws=20, min_rows=50
    )
    assert "class 1;" in display.ax_.get_title()
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
    assert display.wrong_[0].get_markersize() == 3
    assert "class 0" in ax.get_title()
    assert "80% limits" in ax.get_xlabel()
    expected = SubgroupDisplay(audit).plot(class_name=0)
    assert_allclose(display.wrong_[0].get_xydata(), expected.wrong_[0].get_xydata())
