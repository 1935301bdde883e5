"""The alternative annotator test against a plain transcript of its definition."""

import numpy as np
import pytest
from scipy.stats import ttest_1samp
from sklearn.exceptions import UndefinedMetricWarning
from statsmodels.stats.multitest import multipletests

from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import alternative_annotator_test


def as_published(said, model, epsilon, q, least):
    """Calderon, Reichart and Dror (2025), section 3, reader by reader and row by row."""
    p_values, advantages = [], []
    for j in range(said.shape[1]):
        rows = [
            i
            for i in range(len(said))
            if said[i, j] is not None and sum(a is not None for a in said[i]) > 1
        ]
        if len(rows) < least:
            continue
        model_wins, human_wins = [], []
        for i in rows:
            others = [a for r, a in enumerate(said[i]) if r != j and a is not None]
            by_model = np.mean([model[i] == a for a in others])
            by_human = np.mean([said[i, j] == a for a in others])
            model_wins.append(float(by_model >= by_human))
            human_wins.append(float(by_human >= by_model))
        difference = np.subtract(human_wins, model_wins)
        p_values.append(ttest_1samp(difference, epsilon, alternative="less").pvalue)
        advantages.append(np.mean(model_wins))
    rejected = multipletests(p_values, q, method="fdr_by")[0]
    return rejected, np.array(p_values), np.mean(advantages)


@pytest.mark.parametrize("gaps", [0.0, 0.3])
@pytest.mark.parametrize("skill", [0.3, 0.5, 0.7])
def test_as_published(gaps, skill):
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=(120, 1))
    said = np.where(rng.random((120, 5)) < 0.6, truth, rng.integers(3, size=(120, 5)))
    said = np.array(list("abc"), dtype=object)[said]
    said[rng.random(said.shape) < gaps] = None
    # a reader with few rows, and a row without ratings
    said[20:, 4] = None
    said[7] = None
    model = np.where(rng.random(120) < skill, truth[:, 0], rng.integers(3, size=120))
    model = np.array(list("abc"))[model]
    y = Annotations.from_matrix(said, raters=list("ABCDE"))
    found = alternative_annotator_test(y, model, epsilon=0.15)
    replaced, p_value, advantage = as_published(said, model, 0.15, 0.05, 30)
    assert found.raters.tolist() == list("ABCD")
    assert found.replaced.dtype == bool
    np.testing.assert_array_equal(found.replaced, replaced)
    np.testing.assert_allclose(found.p_value, p_value, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(found.advantage, advantage, rtol=1e-12)
    assert found.winning_rate == replaced.mean()
    assert found.passed == (replaced.mean() >= 0.5)


def test_probabilities_are_the_label_of_the_largest():
    rng = np.random.default_rng(0)
    y = Annotations.from_matrix(rng.integers(2, size=(60, 3)))
    z = rng.random(60)
    by_label = alternative_annotator_test(y, (z > 0.5).astype(int))
    by_proba = alternative_annotator_test(y, z)
    np.testing.assert_array_equal(by_label.p_value, by_proba.p_value)
    of_mean = alternative_annotator_test(y, Dirichlet.from_mean(np.column_stack([1 - z, z]), 3.0))
    np.testing.assert_array_equal(of_mean.p_value, by_proba.p_value)


def test_a_model_may_say_what_nobody_said():
    y = Annotations.from_matrix([["a", "a", "b"]] * 40, classes=["a", "b", "c"])
    found = alternative_annotator_test(y, ["c"] * 40)
    assert found.advantage == pytest.approx(1 / 3)
    assert found.winning_rate == pytest.approx(1 / 3)


def test_constant_wins_decide_at_once():
    y = Annotations.from_matrix([["a", "a", "a"]] * 40, classes=["a", "b"])
    assert alternative_annotator_test(y, ["a"] * 40).p_value.tolist() == [0.0] * 3
    worse = alternative_annotator_test(y, ["b"] * 40)
    assert worse.p_value.tolist() == [1.0] * 3
    assert not worse.passed


@pytest.mark.parametrize(("name", "bad"), [("least_rows", 0), ("false_discovery_rate", 1.5)])
def test_bad_options(name, bad):
    y = Annotations.from_matrix([["a", "b", "b"]] * 40)
    with pytest.raises(ValueError, match=f"{name} must"):
        alternative_annotator_test(y, ["a"] * 40, **{name: bad})


def test_nobody_with_enough_rows():
    y = Annotations.from_matrix([["a", "b"]] * 10)
    with pytest.warns(UndefinedMetricWarning, match="No rater has 30 samples"):
        found = alternative_annotator_test(y, ["a"] * 10)
    assert np.isnan(found.winning_rate)
    assert not found.passed
    assert not len(found.raters)


@pytest.mark.parametrize(
    ("y", "prediction", "message"),
    [
        ([[1, 1]] * 3, [0, 1, 0], "y does not say who gave the labels"),
        (Annotations.from_matrix([[0, 1]] * 3), [0, 1], "y has 3 samples, expected 2"),
        (
            Annotations.from_matrix([["a", "b"]] * 3, classes=["a", "b"]),
            ["a", "c", "a"],
            "prediction has labels that are no classes of y: \\['c'\\]",
        ),
    ],
)
def test_errors(y, prediction, message):
    with pytest.raises(ValueError, match=message):
        alternative_annotator_test(y, prediction)
