"""Very many cases, and very many votes of one case: what all of them need, and what some do.

The limit is lowered, since studies above it take half a minute.
"""

import sys

import numpy as np
import pytest

from sklearn_lhcal import metrics
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.report import report

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")


def number(made, name):
    key = (name, "uncalibrated", None, None)
    fields = ("quantity", "subset", "class_name", "part")
    (found,) = [m for m in made.data["numbers"] if tuple(m[f] for f in fields) == key]
    return found


@pytest.mark.slow
def test_of_very_many_cases_some_make_what_is_no_mean(monkeypatch):
    """And fewer blocks; the verdict is that of all cases, and the page says so."""
    data = make_label_histograms(400, n_raters=2, overconfidence=3.0, random_state=0)
    site = np.repeat(["north", "south"], 200)
    whole = report(data.counts, data.prediction, subgroups={"site": site})
    door = sys.modules[report.__module__]
    monkeypatch.setitem(door.read_study.__globals__, "MOST_CASES", 200)
    made = report(data.counts, data.prediction, subgroups={"site": site})
    for name in ("overconfidence", "log_loss"):
        assert number(made, name)["n"] == 400
        assert number(made, name)["estimate"] == number(whole, name)["estimate"]
    assert number(made, "calibration_error")["n"] == 200
    assert number(made, "expected_calibration_error")["n"] == 400
    of_class = [m for m in made.data["numbers"] if m["class_name"] and not m["part"]]
    assert {m["n"] for m in of_class} == {200}
    (check,) = [c for c in made.data["checks"] if c["code"] == "many_cases"]
    assert "200 of them, drawn at random" in check["message"]
    assert "20 blocks" in made.data["paragraphs"]["methods"]
    assert not [c for c in whole.data["checks"] if c["code"] == "many_cases"]


@pytest.mark.slow
def test_20_000_votes_of_one_case_cost_nothing():
    """The numbers are those of shares, and the figure has bins."""
    data = make_label_histograms(60, n_raters=3, random_state=0)
    counts = np.array(data.counts)
    counts[7] = [9_000, 6_000, 5_000]
    made = report(counts, data.prediction)
    accuracy = metrics.expected_accuracy(counts, data.prediction)
    assert number(made, "accuracy")["estimate"] == pytest.approx(accuracy, rel=1e-12)
    assert "Cases have 3 to 20,000 labels" in made.html
    assert len(made.html) < 1_500_000
