"""Grades as scores: means, biases, names, intervals, a judge of many samples."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import special, stats

from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import (
    confidence_interval,
    decision_risk,
    mean_score,
    paired_difference,
    prediction_powered,
    rater_group_difference,
    score_bias,
)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_the_mean_of_numbers(rng):
    grades = rng.integers(1, 6, 50)
    w = rng.integers(1, 4, 50)
    assert mean_score(grades) == pytest.approx(grades.mean())
    assert mean_score(np.eye(6)[grades], scores=range(6)) == pytest.approx(grades.mean())
    assert mean_score(pd.Series(grades)) == pytest.approx(grades.mean())
    weighted = mean_score(pd.Series(grades), sample_weight=w)
    assert weighted == pytest.approx(mean_score(pd.Series(np.repeat(grades, w))))


def test_a_sample_counts_once_and_the_mean_is_unbiased_by_enumeration():
    Q, s = np.array([0.2, 0.5, 0.3]), np.array([0.0, 1.0, 4.0])
    pairs = [(j, k) for j in range(3) for k in range(3)]
    found = [mean_score([np.eye(3, dtype=int)[[j, k]].sum(0)], scores=s) for j, k in pairs]
    assert np.dot(found, [Q[j] * Q[k] for j, k in pairs]) == pytest.approx(Q @ s)
    # the sample of four raters counts as much as that of one
    assert mean_score([[4, 0, 0], [0, 0, 1]], scores=s) == 2


def test_bias_is_the_difference_of_two_means(rng):
    y, judge = rng.multinomial(4, [0.2, 0.5, 0.3], 80), rng.integers(0, 3, 80)
    s = [0.0, 1.0, 5.0]
    difference = mean_score(np.eye(3, dtype=int)[judge], scores=s) - mean_score(y, scores=s)
    assert score_bias(y, np.eye(3)[judge], scores=s) == pytest.approx(difference)
    # of a cost: the other public route
    s = np.array(s)
    assert_allclose(difference, decision_risk(y, judge, s - s[:, None]), rtol=1e-12)


def test_names_decide(rng):
    y = rng.multinomial(3, [0.2, 0.5, 0.3], 40)
    scores = {"poor": 0, "fair": 1, "good": 4}
    frame = pd.DataFrame(y, columns=list(scores))
    expected = mean_score(y, scores=[0, 1, 4])
    assert mean_score(frame, scores=scores) == pytest.approx(expected)
    assert mean_score(frame[["good", "poor", "fair"]], scores=scores) == pytest.approx(expected)
    z = pd.DataFrame(rng.dirichlet([1, 1, 1], 40), columns=list(scores))
    found = score_bias(frame, z, scores=scores)
    assert score_bias(frame, z[["good", "fair", "poor"]], scores=scores) == pytest.approx(found)
    assert score_bias(y, z.to_numpy(), scores=[0, 1, 4]) == pytest.approx(found)


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        (None, "one number for each"),
        ({"poor": 0, "fair": 1}, "finite"),
        ([0, 1], "poor.*fair.*good"),
        ([0, 1, np.nan], "finite"),
        (["a", "b", "c"], "scores"),
    ],
)
def test_scores_that_are_none(scores, said, rng):
    frame = pd.DataFrame(rng.multinomial(3, [0.2, 0.5, 0.3], 5), columns=["poor", "fair", "good"])
    with pytest.raises((TypeError, ValueError), match=said):
        mean_score(frame, scores=scores)


def test_all_inference_takes_them(rng):
    labels = rng.integers(1, 6, (60, 16))
    y = Annotations.from_matrix(labels)
    ends = confidence_interval(mean_score, y, None, random_state=0)
    assert ends.low < mean_score(y) < ends.high
    fixed = confidence_interval(mean_score, y, None, raters="fixed", random_state=0)
    of_rows = labels.mean(axis=1)
    assert fixed.standard_error == pytest.approx(of_rows.std(ddof=1) / np.sqrt(60), rel=0.3)
    groups = pd.Series(list("aaaaaaaabbbbbbbb"), index=y.raters)
    assert rater_group_difference(mean_score, y, groups, random_state=0) is not None
    z = [rng.dirichlet(np.ones(5), 60) for _ in "ab"]
    z = [pd.DataFrame(one, columns=np.arange(1, 6)) for one in z]
    apart = paired_difference(score_bias, y, *z, random_state=0)
    assert apart.estimate == pytest.approx(score_bias(y, z[0]) - score_bias(y, z[1]))


def test_a_judge_of_many_samples(rng):
    """The cost matrix of earlier recipes gives the same interval."""
    grades = rng.integers(0, 5, 300)
    judge = np.clip(grades + rng.integers(0, 2, 300), 0, 4)
    s = np.arange(5.0)
    powered = partial(prediction_powered, random_state=0)
    ends = powered(partial(mean_score, scores=s), grades[:60], None, judge[:60], judge[60:], None)
    never = np.zeros(300, int)
    costs = powered(
        partial(decision_risk, cost_matrix=s[:, None]),
        *(grades[:60], never[:60], judge[:60], judge[60:], never[60:]),
    )
    assert_allclose([ends.estimate, ends.low, ends.high], [costs.estimate, costs.low, costs.high])


def test_grades_of_a_judge_are_a_prediction():
    """However they are held; grades that people did not give join theirs."""
    rng = np.random.default_rng(0)
    people, judge = rng.integers(1, 5, 100), rng.integers(1, 6, 100)
    expected = judge.mean() - people.mean()
    for held in (judge, judge.astype(float), pd.Series(judge), judge.tolist()):
        assert score_bias(people, held) == pytest.approx(expected)
    found = confidence_interval(score_bias, people, judge)
    ends = stats.ttest_rel(judge, people).confidence_interval()
    np.testing.assert_allclose(found[1:3], ends, rtol=1e-9)
    pair = paired_difference(score_bias, people, judge, people)
    np.testing.assert_allclose(pair[:3], found[:3], rtol=1e-9)


@pytest.mark.parametrize(
    ("judge", "message"),
    [
        ([1, 2, None], "prediction has no label of sample 2"),
        ([1.0, 2.0, np.nan], "prediction has no label of sample 2"),
        (["1", "2", "refused"], r"no classes of y: \['refused'"),
    ],
)
def test_an_answer_without_a_grade_is_named(judge, message):
    with pytest.raises(ValueError, match=message):
        score_bias([1, 2, 3], judge)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Few samples:UserWarning")
@pytest.mark.filterwarnings("ignore:[0-9]+ of [0-9]+ samples have a label:UserWarning")
@pytest.mark.parametrize(("n", "rate"), [(100, 0.04), (500, 0.01)])
def test_the_interval_holds_where_few_are_ill(n, rate):
    held = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        p = special.expit(special.logit(rate) - 0.5 + rng.normal(size=n))
        ill = (rng.random(n) < p).astype(int)
        y = np.column_stack([1 - ill, ill])
        found = confidence_interval(score_bias, y, p, random_state=0)
        held.append(found.low <= 0 <= found.high)
    # by two standard errors
    assert np.mean(held) > 0.93
