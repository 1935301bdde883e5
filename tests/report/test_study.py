"""What a report is about: labels and predictions that met, in one order of classes.

The tests take the place of `report_on`, which a study is handed to, and draw no page.
"""

import sys

import numpy as np
import pandas as pd
import pytest

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import ranked_probability_score
from sklearn_lhcal.report import report

GRADES = ["low", "mid", "high"]


@pytest.fixture(scope="module")
def data():
    return make_label_histograms(40, n_classes=3, n_raters=3, random_state=0)


@pytest.fixture
def read_study(monkeypatch):
    """What `report` hands on."""
    monkeypatch.setattr(sys.modules[report.__module__], "report_on", lambda study, **_: study)
    return report


def frames(data, names):
    counts = pd.DataFrame(data.counts, columns=names)
    return counts, pd.DataFrame(np.asarray(data.prediction), columns=names)


def score(study):
    return ranked_probability_score(study.labels, study.prediction)


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]])
def test_grades_are_in_the_order_of_the_labels_of_numbers_or_of_the_prediction(
    data, read_study, order
):
    expected = ranked_probability_score(data.counts, data.prediction)
    counts, z = frames(data, GRADES)
    turned = read_study(counts[[GRADES[k] for k in order]], z, distance="linear")
    assert turned.classes == GRADES
    assert score(turned) == pytest.approx(expected, rel=1e-12)
    counts, z = frames(data, ["1", "2", "10"])
    numbers = read_study(counts, z[z.columns[order]], distance="linear")
    assert numbers.classes == ["1", "2", "10"]
    assert score(numbers) == pytest.approx(expected, rel=1e-12)
    label = np.concatenate([np.repeat(GRADES, row) for row in data.counts])
    item = np.repeat(np.arange(40), 3)
    y = Annotations.from_long(item, np.tile(np.arange(3), 40), label, classes=GRADES)
    _, z = frames(data, GRADES)
    known = read_study(y, z[[GRADES[k] for k in order]], distance="linear")
    assert known.classes == GRADES
    assert score(known) == pytest.approx(expected, rel=1e-12)


def test_labels_stay_as_they_are(data, read_study):
    y = Annotations.from_counts(data.counts)
    graded = y.graded
    read_study(y, data.prediction, distance="linear")
    assert y.graded == graded


def test_subgroups_follow_the_cases_with_labels(data, read_study):
    y = Annotations.from_counts(np.where(np.arange(40)[:, None] == 3, 0, data.counts))
    site = np.arange(40) % 7
    for subgroups in ({"site": site}, pd.DataFrame({"site": site})):
        study = read_study(y, data.prediction, subgroups=subgroups)
        np.testing.assert_array_equal(study.subgroups["site"], np.delete(site, 3))
    with pytest.raises(ValueError, match="site"):
        read_study(y, data.prediction, subgroups={"site": site[:-1]})


def test_one_class_a_case_is_no_probability(data, read_study):
    hard = np.eye(3)[data.counts.argmax(axis=1)]
    assert read_study(data.counts, hard).hard
    hard[0] = 1 / 3
    assert not read_study(data.counts, hard).hard


def test_a_distance_of_another_name(data):
    with pytest.raises(ValueError, match="distance must be"):
        report(data.counts, data.prediction, distance="ordered")
