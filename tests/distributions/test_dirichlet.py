"""The Dirichlet distribution against mpmath, scipy and its own limits."""

from itertools import product

import mpmath as mp
import numpy as np
import pytest
from distribution_cases import DYADIC, TOTALS, assert_same
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import random_proba
from scipy import stats

from sklearn_lhcal.distributions import (
    Dirichlet,
    DirichletMixture,
    Ensemble,
    PointMass,
    second_opinion_value,
)

mp.mp.dps = 60


# Dirichlet against mpmath


def mp_expected_entropy(z, total):
    return mp.digamma(total + 1) - mp.fsum(q * mp.digamma(total * q + 1) for q in z)


def mp_entropy(z):
    return -mp.fsum(q * mp.log(q) for q in z if q > 0)


def mp_log_prob(z, total, y):
    n = sum(y)
    value = mp.loggamma(n + 1) + mp.loggamma(total) - mp.loggamma(total + n)
    for q, count in zip(z, y, strict=True):
        value -= mp.loggamma(count + 1)
        if count:
            value += mp.loggamma(total * q + count) - mp.loggamma(total * q)
    return value


@pytest.mark.parametrize(("z", "total"), list(product(DYADIC, TOTALS)))
def test_dirichlet_entropies_are_exact(z, total):
    d = Dirichlet.from_mean([z], total)
    z, total = [mp.mpf(q) for q in z], mp.mpf(total)
    aleatoric, entropy = mp_expected_entropy(z, total), mp_entropy(z)
    assert d.entropy()[0] == pytest.approx(float(entropy), rel=1e-12, abs=0)
    # near a corner both are small differences of terms of the size of α0 (below 1) and of 1/α0
    # (above)
    rounding = {"rel": 1e-11, "abs": 5e-14 * min(float(total), 1)}
    assert d.expected_entropy()[0] == pytest.approx(float(aleatoric), **rounding)
    rounding["abs"] = 1e-13 * min(1 / float(total), 1)
    assert d.mutual_information()[0] == pytest.approx(float(entropy - aleatoric), **rounding)


@pytest.mark.parametrize(("z", "total"), list(product(DYADIC, TOTALS)))
def test_dirichlet_moments_are_exact(z, total):
    d = Dirichlet.from_mean([z], total)
    z, s = [mp.mpf(q) for q in z], 1 / (mp.mpf(total) + 1)
    variance = [s * q * (1 - q) for q in z]
    np.testing.assert_allclose(d.variance()[0], np.array(variance, dtype=float), rtol=1e-13)
    np.testing.assert_allclose(
        d.second_moment()[0], [float(v + q * q) for v, q in zip(variance, z, strict=True)]
    )
    assert d.disagreement()[0] == pytest.approx(
        float((1 - s) * mp.fsum(q * (1 - q) for q in z)), rel=1e-12, abs=0
    )
    np.testing.assert_allclose(
        d.class_disagreement()[0], [float(2 * (1 - s) * q * (1 - q)) for q in z], rtol=1e-12, atol=0
    )


COUNTS = [
    (1, 0, 0),
    (0, 1, 0),
    (3, 2, 0),
    (31, 33, 0),
    (32, 1, 0),
    (10**6, 0, 0),
    (10**6, 70_000, 0),
]


@pytest.mark.parametrize("total", TOTALS)
@pytest.mark.parametrize("y", COUNTS)
def test_dirichlet_log_prob_counts_is_exact(total, y):
    """Rounding gsamples with the number of labels only: no difference of lgamma at α0 is left."""
    z = np.array(DYADIC)
    value = Dirichlet.from_mean(z, total).log_prob_counts(np.tile(y, (len(z), 1)))
    n = sum(y)
    for row, v in zip(z, value, strict=True):
        exact = float(mp_log_prob([mp.mpf(q) for q in row], mp.mpf(total), y))
        assert v == pytest.approx(
            exact, rel=1e-12, abs=2e-15 * n * (abs(np.log(total)) + np.log(n + 1) + 1)
        )


@pytest.mark.parametrize("total", TOTALS)
def test_counts_of_the_size_of_a_small_class_are_exact(total):
    z, y = (0.5, 0.25, 0.25), (5, 4, 3)
    exact = mp_log_prob([mp.mpf(q) for q in z], mp.mpf(total), y)
    assert Dirichlet.from_mean([z], total).log_prob_counts([y])[0] == pytest.approx(
        float(exact), rel=1e-13, abs=0
    )


def test_log_likelihood_at_large_totals_does_not_cancel():
    """Published code: 4.0 at α0 = 1e6 and −128 at 1e8, where the multinomial limit is right."""
    z, y = (
        random_proba(np.random.default_rng(0), 3, 5).astype(np.float32),
        np.array([[2, 1, 0, 1, 1]] * 3),
    )
    for total in (1e8, 1e12):
        np.testing.assert_allclose(
            Dirichlet.from_mean(z, total).log_prob_counts(y),
            PointMass(z).log_prob_counts(y),
            rtol=1e-6,
        )


@settings(max_examples=60, deadline=None)
@given(
    st.floats(-27.6, 27.6),
    st.lists(st.integers(0, 2**20), min_size=2, max_size=5),
    st.integers(0, 50),
)
def test_dirichlet_against_mpmath_anywhere(log_total, parts, n):
    parts = [p + 1 for p in parts]
    z = np.array(parts) / sum(parts)
    total = float(np.exp(log_total))
    y = np.random.default_rng(n).multinomial(n, z)
    d = Dirichlet.from_mean([z], total)
    exact_z, exact_total = [mp.mpf(p) / sum(parts) for p in parts], mp.mpf(total)
    entropy, aleatoric = mp_entropy(exact_z), mp_expected_entropy(exact_z, exact_total)
    assert d.expected_entropy()[0] == pytest.approx(float(aleatoric), rel=1e-9, abs=1e-14)
    assert d.mutual_information()[0] == pytest.approx(
        float(entropy - aleatoric), rel=1e-9, abs=1e-14
    )
    if n:
        exact = float(mp_log_prob(exact_z, exact_total, y.tolist()))
        assert d.log_prob_counts([y])[0] == pytest.approx(exact, rel=1e-11, abs=1e-12)


# Limits of the total


@pytest.mark.parametrize("total", [1e9, 1e12])
def test_a_dirichlet_of_large_total_is_a_point_mass(total):
    z = random_proba(np.random.default_rng(0), 5, 4)
    d = Dirichlet.from_mean(z, total)
    assert_same(d, PointMass(z), rtol=1e-13, atol=100 / total, but=["interval", "log_prob_counts"])
    y = np.tile([3, 0, 1, 2], (5, 1))
    np.testing.assert_allclose(
        d.log_prob_counts(y), PointMass(z).log_prob_counts(y), atol=(10 / total / z).max()
    )
    width = np.ptp(Dirichlet.from_mean(z, total).interval(), axis=2)
    assert (width < 4 / np.sqrt(total)).all()


@pytest.mark.parametrize("total", [1e-9, 1e-12])
def test_a_dirichlet_of_small_total_is_one_class_for_certain(total):
    z = random_proba(np.random.default_rng(0), 5, 4)
    d = Dirichlet.from_mean(z, total)
    np.testing.assert_allclose(d.second_moment(), z, rtol=1e-8)
    np.testing.assert_allclose(d.mutual_information(), d.entropy(), rtol=1e-8)
    assert (d.disagreement() < total).all()
    assert (d.expected_entropy() < 10 * total).all()
    for k in range(4):
        np.testing.assert_allclose(
            d.posterior(np.full(5, k)).mean(), np.tile(np.eye(4)[k], (5, 1)), atol=2 * total
        )
    assert (d.posterior(np.full(5, 0)).disagreement() < 2 * total).all()
    draws = d.sample(50, 0)
    np.testing.assert_array_equal(draws.max(axis=2), 1)


@pytest.mark.parametrize("total", [1e-12, 1e-3, 1e12])
def test_samples_are_probabilities_at_any_total(total):
    draws = Dirichlet.from_mean(random_proba(np.random.default_rng(0), 3, 4), total).sample(200, 1)
    assert np.isfinite(draws).all()
    np.testing.assert_allclose(draws.sum(axis=2), 1, rtol=1e-12)


def test_from_mean_and_concentration_agree():
    z, total = random_proba(np.random.default_rng(0), 5, 3), np.array([0.01, 0.5, 1, 20, 300])
    assert_same(Dirichlet(z * total[:, None]), Dirichlet.from_mean(z, total), rtol=1e-11)
    np.testing.assert_allclose(
        Dirichlet.from_mean(z, total).concentration, z * total[:, None], rtol=1e-13
    )
    np.testing.assert_allclose(Dirichlet.from_mean(z, 3.0).total, np.full(5, 3.0), rtol=1e-14)
    assert_same(Dirichlet.from_log_total(z, np.log(total)), Dirichlet.from_mean(z, total))


@pytest.mark.parametrize("total", [1e-12, 1.0, 1e12])
def test_the_mean_is_kept_exactly_at_any_total(total):
    """Published code clips each α_k, which moves the mean."""
    z = np.array([[1.0, 0.0, 0.0], [1e-15, 0.5, 0.5 - 1e-15], [0.2, 0.3, 0.5]])
    np.testing.assert_array_equal(Dirichlet.from_mean(z, total).mean(), z)


# Intervals


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_dirichlet_intervals_are_those_of_scipys_beta(level):
    alpha = np.random.default_rng(0).uniform(0.3, 30, (6, 4))
    a, b = alpha, alpha.sum(axis=1, keepdims=True) - alpha
    ends = Dirichlet(alpha).interval(level)
    np.testing.assert_allclose(ends[..., 0], stats.beta.ppf((1 - level) / 2, a, b), rtol=1e-9)
    np.testing.assert_allclose(ends[..., 1], stats.beta.ppf((1 + level) / 2, a, b), rtol=1e-9)


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("total", [1.0, 2.0, 30.0, 1e3])
def test_intervals_cut_off_tails_of_the_beta_distribution_of_mpmath(total, mixed):
    z = np.array([[0.5, 0.375, 0.125]])
    d = DirichletMixture(z[None], [[total]]) if mixed else Dirichlet.from_mean(z, total)
    for q, ends in zip(z[0], d.interval(0.9)[0], strict=True):
        for end, tail in zip(ends, (0.05, 0.95), strict=True):
            below = mp.betainc(total * q, total * (1 - q), 0, mp.mpf(end), regularized=True)
            assert float(below) == pytest.approx(tail, rel=1e-8)


@pytest.mark.parametrize("total", [1e9, 1e12])
def test_dirichlet_intervals_of_large_totals_are_normal(total):
    z = np.array([[0.5, 0.3, 0.2]])
    half = stats.norm.ppf(0.95) * np.sqrt(z * (1 - z) / total)
    ends = Dirichlet.from_mean(z, total).interval(0.9)
    np.testing.assert_allclose(ends[..., 1] - z, half, rtol=1e-3)
    np.testing.assert_allclose(z - ends[..., 0], half, rtol=1e-3)


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("total", [1e-9, 1e-12])
def test_intervals_of_small_totals_are_those_of_one_class_for_certain(total, mixed):
    """z_k is 1 with probability E[z_k], else 0."""
    z = np.array([[0.5, 0.47, 0.03]])
    d = (
        DirichletMixture(np.stack([z, z]), np.full((2, 1), total))
        if mixed
        else Dirichlet.from_mean(z, total)
    )
    np.testing.assert_allclose(d.interval(0.9)[0], [[0, 1], [0, 1], [0, 0]], atol=1e-12)


def test_intervals_of_impossible_and_certain_classes():
    z = np.array([[1.0, 0.0, 0.0]])
    expected = [[[1, 1], [0, 0], [0, 0]]]
    for d in (
        PointMass(z),
        Dirichlet(z),
        Ensemble([z, z]),
        DirichletMixture([z, z], [[1.0], [2.0]]),
    ):
        np.testing.assert_allclose(d.interval(), expected, atol=1e-15)


@pytest.mark.parametrize("total", TOTALS)
def test_the_value_of_a_label_is_exact_for_extreme_totals(total):
    """s²·(1 − Σz²) with s = 1/(α0 + 1), near a corner too."""
    z = np.array(DYADIC)
    value = second_opinion_value(Dirichlet.from_mean(z, total))
    for row, v in zip(z, value, strict=True):
        exact = mp.fsum(mp.mpf(q) * (1 - mp.mpf(q)) for q in row) / (mp.mpf(total) + 1) ** 2
        assert v == pytest.approx(float(exact), rel=1e-12, abs=0)


def test_a_class_without_probability_is_never_drawn():
    draws = Dirichlet([[0.3, 0.0, 2.0], [0.0, 0.0, 1.0]]).sample(50, random_state=0)
    assert not draws[:, :, 1].any()
    np.testing.assert_array_equal(draws[:, 1], [[0, 0, 1]] * 50)
    np.testing.assert_allclose(draws.sum(axis=2), 1, rtol=1e-12)
    nearly = Dirichlet([[1e-310, 1.0]]).sample(50, random_state=0)
    np.testing.assert_array_equal(nearly, [[[0, 1]]] * 50)


def test_one_bad_row_is_refused():
    with pytest.raises(ValueError, match="total must be positive and finite"):
        Dirichlet.from_mean([[0.5, 0.5]] * 2, [1.0, np.inf])
    for wrong in ([[1.0, 1.0], [0.0, 0.0]], [[1.0, 1.0], [1.0, -1.0]]):
        with pytest.raises(ValueError, match="concentration must"):
            Dirichlet(wrong)


@pytest.mark.parametrize("alpha", [(21.0, 60.0), (25.0, 1e3)])
def test_mutual_information_of_a_few_dozen_labels_is_exact(alpha):
    """Here it is a series, whose last digits count."""
    total = mp.fsum(alpha)
    z = [mp.mpf(a) / total for a in alpha]
    expected = mp_entropy(z) - mp_expected_entropy(z, total)
    found = Dirichlet([alpha]).mutual_information()[0]
    assert found == pytest.approx(float(expected), rel=1e-11)
