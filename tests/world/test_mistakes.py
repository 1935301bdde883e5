"""What people pass by mistake, and the words that tell them."""

import numpy as np
import pandas as pd
import pytest

from sklearn_lhcal.label_histogram import Annotations, krippendorff_alpha
from sklearn_lhcal.metrics import (
    confidence_interval,
    decision_risk,
    expected_accuracy,
    mean_score,
    paired_difference,
    prediction_powered,
    score_bias,
    subgroup_audit,
)

rng = np.random.default_rng(0)
GRADES = rng.integers(1, 6, (60, 5))
IDS = np.array([f"answer {i}" for i in range(60)])
P = rng.dirichlet(np.ones(3), 60)
LABEL = rng.integers(0, 3, 60)


def test_a_matrix_of_grades_is_told_from_counts():
    """Counts without a 0 are rare; those of equal sums, and large ones, are not told."""
    with pytest.warns(UserWarning, match="read as counts of raters"):
        krippendorff_alpha(GRADES)
    counts = rng.multinomial(3, [0.2, 0.3, 0.5], 60) + 1
    for y in (counts, GRADES * 10, np.column_stack([GRADES, 0 * LABEL])):
        krippendorff_alpha(y)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: expected_accuracy(P, LABEL), "Were labels and probabilities exchanged"),
        (lambda: expected_accuracy(P[:, 0], LABEL), "y and the prediction are exchanged"),
        (lambda: expected_accuracy(LABEL, P * (LABEL > 0)[:, None]), "0 for every class"),
        (lambda: krippendorff_alpha(LABEL * np.nan), "leave these samples out"),
    ],
)
def test_exchanged_or_missing(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_an_option_that_a_metric_needs_is_named():
    with pytest.raises(TypeError, match="decision_risk needs cost_matrix"):
        confidence_interval(decision_risk, LABEL, LABEL)
    with pytest.raises(TypeError, match=r"no option 'costs'; it has \['cost_matrix'\]"):
        confidence_interval(decision_risk, LABEL, LABEL, costs=np.eye(3))


def test_items_are_no_positions():
    y = Annotations.from_matrix(pd.DataFrame(GRADES, index=IDS))
    with pytest.raises(IndexError, match=r"np.isin\(y.items, items\)"):
        y[IDS[:3]]
    assert len(y[np.isin(y.items, IDS[:3])]) == 3


def test_samples_of_a_judge_are_counted_once():
    """Those that people graded are no rest; numbers that only count may be of another set."""
    people = pd.Series(GRADES[:20, 0], IDS[:20])
    judge = pd.Series(GRADES[:, 1], IDS)
    with pytest.raises(ValueError, match=r"20 samples of proxy are in proxy_rest too"):
        prediction_powered(mean_score, people, None, judge[:20], judge, None)
    rest = judge.drop(people.index)
    by_ids = prediction_powered(mean_score, people, None, judge[:20], rest, None)
    bare = prediction_powered(
        mean_score, GRADES[:20, 0], None, GRADES[:20, 1], GRADES[20:, 1], None
    )
    assert by_ids == pytest.approx(bare)


@pytest.mark.parametrize("scores", [None, dict(enumerate([0, 10, 20, 30, 40], 1))])
def test_a_judge_gives_grades_that_no_person_gave(scores):
    """Few graded samples lack a grade: it joins theirs, as if they had named all grades."""
    people = np.where(GRADES[:40, 0] == 5, 4, GRADES[:40, 0])
    named = Annotations.from_matrix(people[:, None], classes=[1, 2, 3, 4, 5])
    judge = GRADES[:40, 1], GRADES[40:, 1], None
    seen, all_grades = (
        prediction_powered(mean_score, y, None, *judge, raters="fixed", scores=scores)
        for y in (people, named)
    )
    assert seen == pytest.approx(all_grades)


def test_means_of_several_runs_of_a_judge_are_grades():
    """4.5 is a grade that no person gave; the bias is that of the numbers themselves."""
    runs = (GRADES[:, 1] + GRADES[:, 2]) / 2
    by_hand = np.mean(runs - GRADES[:, 0])
    assert score_bias(GRADES[:, 0], runs) == pytest.approx(by_hand)
    found = prediction_powered(mean_score, GRADES[:40, 0], None, runs[:40], runs[40:], None)
    assert found.low < GRADES[:40, 0].mean() < found.high
    with pytest.raises(ValueError, match=r"120\d different grades; round them"):
        score_bias(np.arange(1200) % 5, rng.uniform(1, 5, 1200))


def test_metrics_of_labels_alone_compare_no_predictions():
    with pytest.raises(ValueError, match="mean_score is of labels alone"):
        paired_difference(mean_score, LABEL, P, P[::-1])


def test_a_printed_audit_says_what_it_leaves_out():
    shops = {"shop": np.repeat(np.arange(15), 40).astype(str)}
    found = subgroup_audit(np.tile(LABEL > 0, 10), np.full(600, 0.6), shops, random_state=0)
    assert "… 3 more, see to_frame()" in str(found)
