"""The alternative annotator test against a plain transcript of its definition."""

import numpy as np
import pytest
from scipy.stats import binom, ttest_1samp
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
    # enough for 20 samples of each reader that one wins alone
    truth = rng.integers(3, size=(200, 1))
    said = np.where(rng.random((200, 5)) < 0.6, truth, rng.integers(3, size=(200, 5)))
    said = np.array(list("abc"), dtype=object)[said]
    said[rng.random(said.shape) < gaps] = None
    # a reader with few rows, and a row without ratings
    said[20:, 4] = None
    said[7] = None
    model = np.where(rng.random(200) < skill, truth[:, 0], rng.integers(3, size=200))
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
    # of 40 samples none would be hers alone, though a fifth were
    same = alternative_annotator_test(y, ["a"] * 40)
    np.testing.assert_allclose(same.p_value, 0.8**40, rtol=1e-9)
    worse = alternative_annotator_test(y, ["b"] * 40)
    assert worse.p_value.tolist() == [1.0] * 3
    assert not worse.passed


def won_alone(a: int, b: int, n: int):
    """The first of three raters wins a of n samples alone, the model wins b."""
    votes = np.zeros((n, 3), dtype=int)
    model = np.zeros(n, dtype=int)
    model[:a] = 1
    votes[a : a + b, 0] = 1
    return Annotations.from_matrix(votes, classes=[0, 1]), model


@pytest.mark.parametrize(("a", "n", "epsilon"), [(0, 40, 0.05), (3, 60, 0.1), (11, 100, 0.2)])
def test_few_samples_that_she_wins_alone_are_binomial(a, n, epsilon):
    found = alternative_annotator_test(*won_alone(a, 0, n), epsilon=epsilon)
    assert found.p_value[0] == pytest.approx(binom.cdf(a, n, epsilon), rel=1e-9)


@pytest.mark.parametrize(("a", "b", "n", "epsilon"), [(3, 2, 40, 0.1), (1, 5, 50, 0.05)])
def test_few_samples_that_either_wins_alone_by_draws(a, b, n, epsilon):
    found = alternative_annotator_test(*won_alone(a, b, n), epsilon=epsilon)
    shares = np.random.default_rng(0).dirichlet([a + 1, b, n - a - b], 200_000)
    drawn = (shares[:, 0] - shares[:, 1] >= epsilon).mean()
    assert abs(found.p_value[0] - drawn) < 4 * np.sqrt(drawn / 200_000)


@pytest.mark.parametrize(("p_a", "p_b"), [(0.05, 0.0), (0.12, 0.02), (0.25, 0.05)])
def test_size_where_few_samples_are_won_alone(p_a, p_b):
    rng = np.random.default_rng(0)
    rejected = []
    for _ in range(400):
        a, b, _ = rng.multinomial(40, [p_a, p_b, 1 - p_a - p_b])
        found = alternative_annotator_test(*won_alone(a, b, 40), epsilon=p_a - p_b)
        rejected.append(found.p_value[0] <= 0.05)
    # Student's test in 4,000 draws: 0.135, 0.094 and 0.051
    assert np.mean(rejected) < 0.05 + 2 * np.sqrt(0.05 * 0.95 / 400)


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
