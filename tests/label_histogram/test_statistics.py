"""Disagreement, U-statistics and kappa against brute force and statsmodels."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import UndefinedMetricWarning
from statsmodels.stats.inter_rater import fleiss_kappa as statsmodels_kappa

from sklearn_lhcal.label_histogram import (
    KnownProbabilities,
    class_disagreement,
    fleiss_kappa,
    pairwise_disagreement,
    u_statistic,
)

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def random_counts(rng, n, K, most=6):
    counts = rng.integers(0, most, size=(n, K))
    counts[np.arange(n), rng.integers(0, K, n)] += 1
    return counts


# Disagreement and U-statistics


def brute_force_u_statistic(row, kernel, order):
    raters = np.repeat(np.arange(len(row)), row)
    subsets = [
        np.bincount(raters[list(s)], minlength=len(row))
        for s in combinations(range(len(raters)), order)
    ]
    return np.asarray(kernel(np.array(subsets)), dtype=float).mean(axis=0)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_u_statistic_is_the_mean_over_all_subsets(order):
    rng = np.random.default_rng(order)
    counts = random_counts(rng, 8, 3, most=3)
    counts[:, 0] += order  # enough raters

    def kernel(c):
        return np.column_stack([c.max(axis=1) == 1, np.sin(c @ [1.0, 2.0, 5.0])])

    expected = [brute_force_u_statistic(row, kernel, order) for row in counts]
    np.testing.assert_allclose(u_statistic(counts, kernel, order), expected, rtol=1e-12, atol=1e-14)


def test_disagreements_are_closed_forms_of_u_statistics():
    counts = random_counts(np.random.default_rng(1), 40, 4) + np.eye(4, dtype=int)[0]

    def differ(c):
        return c.max(axis=1) == 1

    def one_of_two(c):
        return c == 1

    np.testing.assert_allclose(
        u_statistic(counts, differ, 2), pairwise_disagreement(counts), rtol=1e-12, atol=1e-15
    )
    np.testing.assert_allclose(
        u_statistic(counts, one_of_two, 2), class_disagreement(counts), rtol=1e-12, atol=1e-15
    )


def test_u_statistic_of_known_probabilities():
    Q = np.array([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]])
    rate = u_statistic(KnownProbabilities(Q), lambda c: c.max(axis=1) == 1, 3)
    np.testing.assert_allclose(rate, 6 * Q.prod(axis=1), rtol=1e-12)


def test_u_statistic_of_very_many_raters_does_not_overflow():
    rate = u_statistic([[10**6, 10**6]], lambda c: c.max(axis=1) == 3, 3)
    n, m = 2 * 10**6, 10**6
    assert rate[0] == pytest.approx(2 * m * (m - 1) * (m - 2) / (n * (n - 1) * (n - 2)), rel=1e-12)


def test_rows_with_too_few_raters_are_nan():
    counts = [[1, 0], [1, 1], [2, 1]]
    assert np.isnan(pairwise_disagreement(counts)).tolist() == [True, False, False]
    assert np.isnan(class_disagreement(counts)).all(axis=1).tolist() == [True, False, False]
    assert np.isnan(u_statistic(counts, lambda c: c.max(axis=1) == 1, 3)).tolist() == [
        True,
        True,
        False,
    ]


def test_class_disagreement_sums_to_twice_the_disagreement():
    counts = random_counts(np.random.default_rng(2), 30, 5) + 2 * np.eye(5, dtype=int)[0]
    np.testing.assert_allclose(
        class_disagreement(counts).sum(axis=1), 2 * pairwise_disagreement(counts), rtol=1e-12
    )


def test_disagreement_of_known_probabilities_is_one_minus_sum_of_squares():
    Q = np.random.default_rng(0).dirichlet(np.ones(4), 20)
    np.testing.assert_allclose(
        pairwise_disagreement(KnownProbabilities(Q)), 1 - (Q**2).sum(axis=1), rtol=1e-12
    )
    np.testing.assert_allclose(
        class_disagreement(KnownProbabilities(Q)), 2 * Q * (1 - Q), rtol=1e-12
    )


@pytest.mark.parametrize("dtype", INTEGERS)
def test_small_integer_types_do_not_overflow(dtype):
    """Published code: uint8 counts gave agreement .30 where .90 is right."""
    counts = np.array([[95, 5], [120, 7]], dtype=dtype)
    d = [2 * 95 * 5 / (100 * 99), 2 * 120 * 7 / (127 * 126)]
    np.testing.assert_allclose(pairwise_disagreement(counts), d, rtol=1e-12)
    np.testing.assert_allclose(class_disagreement(counts)[:, 0], d, rtol=1e-12)


# Fleiss' kappa


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 8), st.integers(2, 5), st.integers(0, 10**6))
def test_kappa_agrees_with_statsmodels(raters, K, seed):
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(raters, rng.dirichlet(np.ones(K), 12))
    # where no two raters agree, a warning asks whether these are findings
    assume((counts.sum(axis=0) > 0).sum() > 1 and counts.max() > 1)
    assert fleiss_kappa(counts) == pytest.approx(statsmodels_kappa(counts), rel=1e-10, abs=1e-12)


def test_kappa_of_a_worked_example():
    """Ten subjects, fourteen raters, five categories.

    The table of the Wikipedia article, kappa .210.
    """
    table = [
        [0, 0, 0, 0, 14],
        [0, 2, 6, 4, 2],
        [0, 0, 3, 5, 6],
        [0, 3, 9, 2, 0],
        [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0],
        [3, 2, 6, 3, 0],
        [2, 5, 3, 2, 2],
        [6, 5, 2, 1, 0],
        [0, 2, 2, 3, 7],
    ]
    assert round(fleiss_kappa(table), 3) == 0.210


def test_kappa_of_unequal_raters_by_hand():
    """Agreement (1 + 1/3)/2 over the samples with two raters or more.

    π = (8/9, 1/9), the mean of the shares of all three rows.
    """
    agreement, chance = (1 + 1 / 3) / 2, (64 + 1) / 81
    assert fleiss_kappa([[2, 0], [2, 1], [1, 0]]) == pytest.approx(
        (agreement - chance) / (1 - chance), rel=1e-12
    )


def test_kappa_limits():
    assert fleiss_kappa([[3, 0], [0, 3]]) == 1
    with pytest.warns(UndefinedMetricWarning, match="Agreement is undefined"):
        assert np.isnan(fleiss_kappa([[1, 0], [0, 1]]))
    with pytest.warns(UndefinedMetricWarning, match="Agreement is undefined"):
        assert np.isnan(fleiss_kappa([[3, 0], [2, 0]]))
