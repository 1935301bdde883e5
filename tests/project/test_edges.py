"""Edges of the numbers: very many labels, very small totals."""

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_lhcal.distributions import Dirichlet, PointMass
from sklearn_lhcal.label_histogram import check_counts
from sklearn_lhcal.metrics import histogram_log_loss, label_log_loss

Z = [0.25, 0.25, 0.5]


def counts(n):
    """About what is expected of so many labels, and a little off."""
    off = 3 * int(n**0.5) // 4
    return [n // 4 + off, n // 4, n - 2 * (n // 4) - off]


def exact(y, alpha=None):
    """−log P of counts under Z, or under a Dirichlet distribution, in 60 digits."""
    with mp.workdps(60):
        n = sum(y)
        log_p = mp.loggamma(n + 1) - sum(mp.loggamma(k + 1) for k in y)
        if alpha is None:
            return float(-log_p - sum(k * mp.log(mp.mpf(p)) for k, p in zip(y, Z, strict=True)))
        alpha = [mp.mpf(a) for a in alpha]
        A = sum(alpha)
        log_p += mp.loggamma(A) - mp.loggamma(A + n)
        pairs = zip(alpha, y, strict=True)
        return float(-log_p - sum(mp.loggamma(a + k) - mp.loggamma(a) for a, k in pairs))


MANY = [10, 10**5, 10**7, 10**10, 10**12, 10**15, 2**53]


@pytest.mark.parametrize("n", MANY)
def test_log_loss_of_many_labels(n):
    y = counts(n)
    assert_allclose(histogram_log_loss([y], [Z]), exact(y), rtol=1e-10)
    for alpha in (
        [1.0, 2.0, 3.0],
        [1e-3, 0.5, 40.0],
        [1e14, 1e14, 2e14],
        [2.0**90, 2.0**90, 2.0**91],
    ):
        found = histogram_log_loss([y], Dirichlet([alpha]))
        assert_allclose(found, exact(y, alpha), rtol=1e-9)


def test_log_loss_of_many_labels_with_classes_that_have_none():
    y = [10**12, 0, 0]
    alpha = [5.0, 1e-9, 2.0]
    assert_allclose(histogram_log_loss([y], Dirichlet([alpha])), exact(y, alpha), rtol=1e-10)
    assert_allclose(PointMass([[1.0, 0.0, 0.0]]).log_prob_counts([y]), 0.0, atol=1e-12)
    for impossible in (PointMass([[1.0, 0.0, 0.0]]), Dirichlet([[1.0, 0.0, 0.0]])):
        assert impossible.log_prob_counts([[10**12, 1, 0]])[0] == -np.inf


def test_many_labels_far_from_what_was_expected():
    y = [10**12, 10**3, 7]
    found = PointMass([Z]).log_prob_counts([y])[0]
    assert_allclose(-found, exact(y), rtol=1e-14)


def test_the_sum_of_counts_does_not_overflow():
    K = 2048
    y = np.full((3, K), 2**53)
    assert check_counts(y)[0] is not None
    proba = np.full((3, K), 1 / K)
    assert_allclose(label_log_loss(y, proba), np.log(K))
    # each count is at its mode: ½·log of the determinant of the covariance
    expected = (K - 1) / 2 * np.log(2 * np.pi * 2.0**53) - np.log(K) / 2
    assert_allclose(histogram_log_loss(y, proba), expected, rtol=1e-9)


TOTALS = [1e-280, 1e-290, 1e-300, 1e-305, 1e-308, 5e-324]


@pytest.mark.parametrize("total", TOTALS)
def test_the_smallest_totals(total):
    """Draws are corners, class k with probability z_k; labels of two classes cost log α0."""
    z = np.array([[0.3, 0.7]])
    d = Dirichlet.from_mean(z, total)
    draws = d.sample(4000, random_state=0)[:, 0]
    assert_array_equal(np.sort(draws, axis=1), [[0.0, 1.0]] * 4000)
    assert abs(draws[:, 0].mean() - 0.3) < 4.5 * (0.21 / 4000) ** 0.5
    log_total = float(mp.log(mp.mpf(total)))
    y = [[1, 0], [2, 0], [1, 1], [2, 3], [0, 0]]
    found = Dirichlet.from_mean(np.repeat(z, 5, axis=0), total).log_prob_counts(y)
    two = np.log(0.3 * 0.7) + log_total
    expected = [np.log(0.3), np.log(0.3), two + np.log(2), two + np.log(5 / 6), 0.0]
    assert_allclose(found, expected, rtol=1e-12)
    assert_allclose(d.interval(0.9), [[[0.0, 1.0], [0.0, 1.0]]], atol=1e-300)
    assert_allclose(d.interval(0.3)[0, 0], [0.0, 0.0], atol=1e-300)
    assert_allclose(d.posterior([[1, 0]]).mean(), [[1.0, 0.0]], atol=1e-15)


def test_totals_below_all_numbers():
    d = Dirichlet.from_log_total([[0.3, 0.7]], -1e6)
    assert_allclose(d.log_prob_counts([[1, 1]]), np.log(0.42) - 1e6)
    assert d.sample(5, random_state=0).max(axis=2).min() == 1


def test_a_rare_class_of_many_labels():
    z, n, k = 2.0**-20, 10**7, 33
    with mp.workdps(60):
        expected = mp.log(mp.binomial(n, k) * mp.mpf(z) ** k) + (n - k) * mp.log1p(-mp.mpf(z))
    found = PointMass([[1 - z, z]]).log_prob_counts([[n - k, k]])
    assert_allclose(found, float(expected), rtol=1e-10)
