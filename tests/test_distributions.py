"""Distributions over class probabilities against mpmath, brute force and their own limits."""

from itertools import product

import mpmath as mp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import KINDS, all_distributions, histograms, multinomial, random_proba
from scipy import stats
from scipy.special import gammaln
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from sklearn_lhcal.distributions import (
    Dirichlet,
    DirichletMixture,
    Distribution,
    Ensemble,
    PointMass,
    predict_dist,
    second_opinion_value,
)
from sklearn_lhcal.label_histogram import LabelHistogramClassifier

mp.mp.dps = 60

TOTALS = [1e-12, 1e-9, 1e-6, 1e-3, 0.1, 0.999, 1.0, 1.001, 7.0, 19.0, 1e3, 1e6, 1e9, 1e12]
# exact in binary, rows sum to exactly 1: the oracle sees the same numbers
DYADIC = [
    (0.5, 0.25, 0.25),
    (0.9375, 0.0625, 0.0),
    (1 - 2.0**-20, 2.0**-21, 2.0**-21),
    (1 - 2.0**-40, 2.0**-40, 0.0),
]
BATCH = {"n": 4, "K": 3, "seed": 5}


@pytest.fixture(params=KINDS)
def distribution(request):
    """Four rows, three classes, of each kind."""
    return all_distributions(BATCH["n"], BATCH["K"], BATCH["seed"])[request.param]


def methods(d):
    """Everything a distribution says, by name."""
    y = np.arange(len(d) * d.n_classes).reshape(len(d), -1) % 4
    return {
        "mean": d.mean(),
        "second_moment": d.second_moment(),
        "variance": d.variance(),
        "disagreement": d.disagreement(),
        "pairs": d.disagreement(np.eye(d.n_classes)[::-1] * (1 - np.eye(d.n_classes))),
        "class_disagreement": d.class_disagreement(),
        "entropy": d.entropy(),
        "expected_entropy": d.expected_entropy(),
        "mutual_information": d.mutual_information(),
        "posterior mean": d.posterior(y).mean(),
        "posterior variance": d.posterior(y).variance(),
        "mean_after": np.stack([d.mean_after(k) for k in range(d.n_classes)]),
        "log_prob_counts": d.log_prob_counts(y),
        "interval": d.interval(0.8),
        "second_opinion_value": second_opinion_value(d),
    }


def assert_same(a, b, rtol=1e-12, atol=1e-14, but=()):
    a, b = methods(a), methods(b)
    for name in a:
        if name not in but:
            np.testing.assert_allclose(a[name], b[name], rtol=rtol, atol=atol, err_msg=name)


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
    rounding = {"rel": 1e-11, "abs": 1e-14 * min(float(total), 1)}
    assert d.expected_entropy()[0] == pytest.approx(float(aleatoric), **rounding)
    rounding["abs"] = 3e-14 * min(1 / float(total), 1)
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
    """Rounding grows with the number of labels only: no difference of lgamma at α0 is left."""
    z = np.array(DYADIC)
    value = Dirichlet.from_mean(z, total).log_prob_counts(np.tile(y, (len(z), 1)))
    n = sum(y)
    for row, v in zip(z, value, strict=True):
        exact = float(mp_log_prob([mp.mpf(q) for q in row], mp.mpf(total), y))
        assert v == pytest.approx(
            exact, rel=1e-12, abs=5e-16 * n * (abs(np.log(total)) + np.log(n + 1) + 1)
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


# Every distribution


def label_pairs(d):
    """P(one label is k, the other l) for k ≤ l, from the likelihood of two labels."""
    K = d.n_classes
    two = [(k, other) for k in range(K) for other in range(k, K)]
    counts = [np.eye(K, dtype=int)[k] + np.eye(K, dtype=int)[other] for k, other in two]
    return two, np.array([np.exp(d.log_prob_counts(np.tile(y, (len(d), 1)))) for y in counts])


def test_disagreement_is_that_of_two_labels(distribution):
    two, p = label_pairs(distribution)
    differ = np.array([k != other for k, other in two])
    np.testing.assert_allclose(distribution.disagreement(), differ @ p, rtol=1e-12, atol=1e-15)
    for k in range(3):
        one_of_two = np.array([(a == k) != (b == k) for a, b in two])
        np.testing.assert_allclose(
            distribution.class_disagreement()[:, k], one_of_two @ p, rtol=1e-12, atol=1e-15
        )
    np.testing.assert_allclose(
        1 - distribution.second_moment().sum(axis=1), differ @ p, rtol=1e-12, atol=1e-15
    )


@pytest.mark.parametrize("apart", [(0, 1), (0, 2), (1, 2)])
def test_disagreement_of_chosen_pairs_is_that_of_two_labels(distribution, apart):
    pairs = np.zeros((3, 3), int)
    pairs[apart] = pairs[apart[::-1]] = 1
    two, p = label_pairs(distribution)
    np.testing.assert_allclose(
        distribution.disagreement(pairs), p[two.index(apart)], rtol=1e-12, atol=1e-15
    )


def test_all_pairs_are_the_default(distribution):
    np.testing.assert_allclose(
        distribution.disagreement(1 - np.eye(3)), distribution.disagreement(), rtol=1e-12
    )


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_the_probabilities_of_all_histograms_sum_to_one(distribution, n):
    p = sum(
        np.exp(distribution.log_prob_counts(np.tile(y, (len(distribution), 1))))
        for y in histograms(n, 3)
    )
    np.testing.assert_allclose(p, 1, rtol=1e-12)


def test_no_labels_have_probability_one_and_teach_nothing(distribution):
    none = np.zeros((len(distribution), 3), int)
    np.testing.assert_allclose(distribution.log_prob_counts(none), 0, atol=1e-14)
    assert_same(distribution.posterior(none), distribution)


def test_one_label_has_the_probability_of_the_mean(distribution):
    for k in range(3):
        log_p = distribution.log_prob_counts(np.full(len(distribution), k))
        np.testing.assert_allclose(np.exp(log_p), distribution.mean()[:, k], rtol=1e-12)


def test_posterior_twice_is_the_posterior_of_the_sum(distribution):
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 4, (2, len(distribution), 3))
    assert_same(
        distribution.posterior(first).posterior(second),
        distribution.posterior(first + second),
        rtol=1e-10,
    )


def test_likelihoods_obey_the_chain_rule(distribution):
    """P(y¹ then y²) = P(y¹)·P(y²|y¹) for sequences of labels; the coefficients count the orders."""
    rng = np.random.default_rng(1)
    first, second = rng.integers(0, 4, (2, len(distribution), 3))

    def orders(y):
        return gammaln(y.sum(axis=1) + 1) - gammaln(y + 1).sum(axis=1)

    both = distribution.log_prob_counts(first + second) - orders(first + second)
    then = distribution.posterior(first).log_prob_counts(second) - orders(second)
    np.testing.assert_allclose(
        distribution.log_prob_counts(first) - orders(first) + then, both, rtol=1e-11
    )


def test_mean_after_is_the_mean_of_the_posterior(distribution):
    for k in range(3):
        np.testing.assert_allclose(
            distribution.mean_after(k),
            distribution.posterior(np.full(len(distribution), k)).mean(),
            rtol=1e-12,
        )


def test_the_posterior_mean_is_a_martingale(distribution):
    z = distribution.mean()
    after = sum(z[:, [k]] * distribution.mean_after(k) for k in range(3))
    np.testing.assert_allclose(after, z, rtol=1e-12)


def test_entropies_add_up(distribution):
    d = distribution
    z = d.mean()
    np.testing.assert_allclose(d.entropy(), -(z * np.log(z)).sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(
        d.expected_entropy() + d.mutual_information(), d.entropy(), rtol=1e-12
    )


def test_variance_is_second_moment_less_square(distribution):
    d = distribution
    np.testing.assert_allclose(d.variance(), d.second_moment() - d.mean() ** 2, atol=1e-14)


def test_second_opinion_value_is_the_expected_drop_of_variance(distribution):
    """E‖Q − z‖² is Σ Var[z_k], now and after one label, weighted by the label's probability."""
    z, after = distribution.mean(), 0.0
    for k in range(3):
        after += z[:, k] * distribution.posterior(np.full(len(z), k)).variance().sum(axis=1)
    drop = distribution.variance().sum(axis=1) - after
    np.testing.assert_allclose(second_opinion_value(distribution), drop, rtol=1e-9, atol=1e-15)


def test_second_opinion_value_under_costs_is_the_expected_drop_of_cost(distribution):
    C = np.array([[0.0, 1.0, 4.0], [2.0, 0.0, 1.5], [10.0, 3.0, 0.0]])
    z, drop = distribution.mean(), []
    for i in range(len(z)):
        after = [z[i, k] * (distribution[i].posterior([k]).mean()[0] @ C).min() for k in range(3)]
        drop.append((z[i] @ C).min() - sum(after))
    np.testing.assert_allclose(second_opinion_value(distribution, C), drop, rtol=1e-9, atol=1e-14)


def test_a_second_opinion_on_a_point_mass_is_worth_nothing():
    d = PointMass(random_proba(np.random.default_rng(0), 5, 3))
    np.testing.assert_array_equal(second_opinion_value(d), 0)
    np.testing.assert_allclose(second_opinion_value(d, 1 - np.eye(3)), 0, atol=1e-15)


def test_samples_have_the_moments(distribution):
    draws = distribution.sample(20_000, random_state=0)
    assert draws.shape == (20_000, len(distribution), 3)
    np.testing.assert_allclose(draws.sum(axis=2), 1, rtol=1e-12)
    for power, expected in ((1, distribution.mean()), (2, distribution.second_moment())):
        values = draws**power
        error = values.std(axis=0) / np.sqrt(len(draws))
        assert (np.abs(values.mean(axis=0) - expected) <= 4 * error + 1e-12).all()


def test_samples_have_the_expected_entropy(distribution):
    draws = distribution.sample(20_000, random_state=2)
    h = -(draws * np.log(np.where(draws > 0, draws, 1))).sum(axis=2)
    error = h.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(h.mean(axis=0) - distribution.expected_entropy()) <= 4 * error + 1e-12).all()


def test_samples_are_covered_by_the_intervals(distribution):
    draws, level = distribution.sample(20_000, random_state=3), 0.8
    low, high = np.moveaxis(distribution.interval(level), 2, 0)
    assert distribution.interval(level).shape == (len(distribution), 3, 2)
    error = 4 * np.sqrt(0.1 * 0.9 / len(draws))
    assert ((draws < low - 1e-12).mean(axis=0) <= 0.1 + error).all()
    assert ((draws <= low + 1e-12).mean(axis=0) >= 0.1 - error).all()
    assert ((draws > high + 1e-12).mean(axis=0) <= 0.1 + error).all()
    assert ((draws >= high - 1e-12).mean(axis=0) >= 0.1 - error).all()


def test_seeds_are_honoured_and_the_global_state_is_untouched(distribution):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, again = distribution.sample(3, random_state=7), distribution.sample(3, random_state=7)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    np.testing.assert_array_equal(first, again)
    state = np.random.RandomState(7)
    np.testing.assert_array_equal(distribution.sample(3, random_state=state), first)
    if not isinstance(distribution, PointMass):
        assert not np.array_equal(first, distribution.sample(3, random_state=8))
        assert not np.array_equal(first, distribution.sample(3, random_state=state))


@pytest.mark.parametrize(
    "rows",
    [
        slice(1, 3),
        [3, 0, 0],
        np.array([True, False, True, False]),
        np.array([2]),
        slice(None, None, -1),
    ],
)
def test_row_indexing_commutes_with_every_method(distribution, rows):
    part = distribution[rows]
    assert type(part) is type(distribution)
    assert len(part) == len(np.arange(4)[rows])
    y = np.arange(12).reshape(4, 3) % 4
    for name in (
        "mean",
        "variance",
        "disagreement",
        "expected_entropy",
        "mutual_information",
        "interval",
    ):
        np.testing.assert_allclose(
            getattr(part, name)(), getattr(distribution, name)()[rows], 1e-12, 1e-15, name
        )
    np.testing.assert_allclose(
        part.log_prob_counts(y[rows]), distribution.log_prob_counts(y)[rows], rtol=1e-12
    )
    np.testing.assert_allclose(
        part.posterior(y[rows]).mean(), distribution.posterior(y).mean()[rows], rtol=1e-12
    )


def test_an_integer_selects_a_batch_of_one_row(distribution):
    assert len(distribution[2]) == 1
    np.testing.assert_allclose(distribution[2].mean(), distribution.mean()[[2]], rtol=1e-12)
    np.testing.assert_allclose(distribution[-1].mean(), distribution.mean()[[3]], rtol=1e-12)
    np.testing.assert_allclose(
        distribution[np.int64(1)].mean(), distribution.mean()[[1]], rtol=1e-12
    )


def test_distributions_are_immutable(distribution):
    """Writing into what a method returned fails or changes a copy.

    Nothing public can be assigned.
    """
    before = {name: value.copy() for name, value in methods(distribution).items()}
    members = ("concentration", "total", "proba", "weights")
    arrays = [
        distribution.mean(),
        distribution.variance(),
        distribution.interval(),
        distribution.sample(2, 0),
    ]
    arrays += [getattr(distribution, name) for name in members if hasattr(distribution, name)]
    for a in arrays:
        if a.flags.writeable:
            a[...] = 0.25
        else:
            with pytest.raises(ValueError, match="read-only"):
                a[...] = 0.25
    for name, value in methods(distribution).items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
    for name in (m for m in members if hasattr(distribution, m)):
        with pytest.raises(AttributeError):
            setattr(distribution, name, 1.0)


def test_distributions_copy_their_inputs():
    z, alpha, total, w = (
        np.array([[[0.3, 0.7]]]),
        np.array([[1.0, 2.0]]),
        np.array([[2.0]]),
        np.array([1.0]),
    )
    made = [PointMass(z[0]), Dirichlet(alpha), Dirichlet.from_mean(z[0], total[0]), Ensemble(z, w)]
    made.append(DirichletMixture(z, total, w))
    before = [methods(d) for d in made]
    for a in (z, alpha, total, w):
        a[...] = 0.5
    for d, old in zip(made, before, strict=True):
        for name, value in methods(d).items():
            np.testing.assert_array_equal(value, old[name])


def test_distributions_take_read_only_input_and_leave_it_alone():
    z = random_proba(np.random.default_rng(0), 2, 3, 4)
    total, y = np.ones((2, 3)), np.ones((3, 4), int)
    for a in (z, total, y):
        a.flags.writeable = False
    for d in (PointMass(z[0]), Dirichlet(z[0]), Ensemble(z), DirichletMixture(z, total)):
        d.posterior(y)
        d.log_prob_counts(y)


@pytest.mark.parametrize(
    "form",
    [
        np.uint8,
        np.int8,
        np.float32,
        lambda y: y.tolist(),
        pd.DataFrame,
        lambda y: pd.DataFrame(y, dtype="Int64"),
        sp.csr_matrix,
        sp.csr_array,
    ],
)
@pytest.mark.parametrize("empty", [False, True])
def test_further_labels_come_in_every_form(distribution, form, empty):
    y = np.array([[100, 0, 90], [0, 0, 0] if empty else [1, 0, 0], [1, 1, 1], [0, 2, 120]])
    np.testing.assert_array_equal(
        distribution.log_prob_counts(form(y)), distribution.log_prob_counts(y)
    )
    np.testing.assert_array_equal(
        distribution.posterior(form(y)).mean(), distribution.posterior(y).mean()
    )


def test_further_labels_may_be_one_label_a_row(distribution):
    labels = [2, 0, 1, 1]
    counts = np.eye(3, dtype=int)[labels]
    np.testing.assert_array_equal(
        distribution.log_prob_counts(labels), distribution.log_prob_counts(counts)
    )
    np.testing.assert_array_equal(
        distribution.posterior(labels).mean(), distribution.posterior(counts).mean()
    )


def test_two_classes_may_be_one_column():
    p = np.array([0.2, 0.9])
    assert_same(PointMass(p), PointMass(np.column_stack([1 - p, p])))
    assert_same(Dirichlet.from_mean(p, 3.0), Dirichlet.from_mean(np.column_stack([1 - p, p]), 3.0))


def test_more_classes_have_probability_zero(distribution):
    wide = distribution.embed([3, 0, 1], 4)
    assert type(wide) is type(distribution)
    np.testing.assert_allclose(wide.mean()[:, [3, 0, 1]], distribution.mean(), rtol=1e-12)
    np.testing.assert_array_equal(wide.mean()[:, 2], 0)
    np.testing.assert_allclose(
        wide.disagreement(), distribution.disagreement(), rtol=1e-12, atol=1e-15
    )
    np.testing.assert_allclose(
        wide.mutual_information(), distribution.mutual_information(), rtol=1e-12, atol=1e-15
    )
    y = np.arange(12).reshape(4, 3)
    spread = np.insert(y[:, [1, 2, 0]], 2, 0, axis=1)
    np.testing.assert_allclose(
        wide.log_prob_counts(spread), distribution.log_prob_counts(y), rtol=1e-12
    )


@pytest.mark.parametrize("cut", [1, 2])
def test_joined_batches_are_the_batch(distribution, cut):
    assert_same(Distribution.concatenate([distribution[:cut], distribution[cut:]]), distribution)


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


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_mixture_intervals_cut_off_the_tails_of_the_mixture(level):
    rng = np.random.default_rng(0)
    z, total, w = (
        random_proba(rng, 4, 3, 3),
        rng.uniform(1, 30, (4, 3)),
        rng.dirichlet(np.ones(4), 3).T,
    )
    low, high = np.moveaxis(DirichletMixture(z, total, w).interval(level), 2, 0)
    a, b = total[..., None] * z, total[..., None] * (1 - z)

    def below(x):
        return (w[..., None] * stats.beta.cdf(x, a, b)).sum(axis=0)

    for ends, tail in ((low, (1 - level) / 2), (high, (1 + level) / 2)):
        assert (below(ends - 1e-12) <= tail).all()
        assert (below(ends + 1e-12) >= tail).all()


def test_ensemble_intervals_are_weighted_quantiles():
    rng = np.random.default_rng(0)
    z, w = random_proba(rng, 7, 5, 3), rng.uniform(0.1, 1, (7, 5))
    ends = Ensemble(z, w).interval(0.6)
    for i, k, (j, q) in product(range(5), range(3), enumerate((0.2, 0.8))):
        share = [w[z[:, i, k] <= v, i].sum() / w[:, i].sum() for v in z[:, i, k]]
        assert ends[i, k, j] == min(
            v for v, s in zip(z[:, i, k], share, strict=True) if s >= q - 1e-12
        )


# Mixtures


def mixture_of_two(n=3, K=3, seed=0):
    rng = np.random.default_rng(seed)
    return random_proba(rng, 2, n, K), rng.uniform(0.5, 5, (2, n)), rng.uniform(0.2, 1, (2, n))


@pytest.mark.parametrize("weights", [None, [0.2, 0.5, 0.3]])
def test_a_mixture_of_equal_members_is_the_member(weights):
    rng = np.random.default_rng(0)
    z, total = random_proba(rng, 4, 3), rng.uniform(0.5, 5, 4)
    assert_same(Ensemble(np.stack([z] * 3), weights), PointMass(z))
    mixture = DirichletMixture(np.stack([z] * 3), np.stack([total] * 3), weights)
    assert_same(mixture, Dirichlet.from_mean(z, total), rtol=1e-10, atol=1e-12)


def test_a_mixture_of_large_totals_is_an_ensemble():
    z, total, w = mixture_of_two()
    mixture, ensemble = DirichletMixture(z, np.full_like(total, 1e12), w), Ensemble(z, w)
    assert_same(mixture, ensemble, rtol=1e-9, atol=1e-10, but=["interval"])


def test_members_of_weight_zero_do_not_count():
    z, total, _ = mixture_of_two()
    z[1] = np.eye(3)  # what only the dropped member knows about must not make NaN
    z[0, :, 0], z[0, :, 1:] = 0.0, 0.5
    assert_same(Ensemble(z, [1.0, 0.0]), PointMass(z[0]))
    assert_same(
        DirichletMixture(z, total, [1.0, 0.0]),
        Dirichlet.from_mean(z[0], total[0]),
        rtol=1e-10,
        atol=1e-12,
    )


def test_weights_are_normalised_and_may_differ_by_row():
    z, _, w = mixture_of_two()
    np.testing.assert_allclose(Ensemble(z, 7 * w).weights, w / w.sum(axis=0), rtol=1e-14)
    np.testing.assert_allclose(
        Ensemble(z, [1.0, 3.0]).weights, np.tile([[0.25], [0.75]], (1, 3)), rtol=1e-14
    )
    np.testing.assert_allclose(
        Ensemble(z, w).mean(), np.average(z, axis=0, weights=np.dstack([w] * 3)), rtol=1e-13
    )


def test_member_order_does_not_matter():
    z, total, w = mixture_of_two()
    assert_same(DirichletMixture(z, total, w), DirichletMixture(z[::-1], total[::-1], w[::-1]))
    assert_same(Ensemble(z, w), Ensemble(z[::-1], w[::-1]))


def test_ensemble_posterior_weights_use_the_product_of_probabilities():
    """Published code sums z^y over classes.

    Weight .52 where .99 is right for K = 10 and one label.
    """
    z = np.full((2, 1, 10), 0.1 / 9)
    z[0, 0, 0] = z[1, 0, 1] = 0.9
    posterior = Ensemble(z).posterior([0])
    assert posterior.weights[0, 0] == pytest.approx(0.9 / (0.9 + 0.1 / 9), rel=1e-12)
    twice = Ensemble(z).posterior([[2, 0, 0, 0, 0, 0, 0, 0, 0, 0]])
    assert twice.weights[0, 0] == pytest.approx(0.81 / (0.81 + (0.1 / 9) ** 2), rel=1e-12)


def test_the_mean_of_a_mixture_is_the_mean_of_the_means():
    """Published code normalises the mean of the α's.

    (.971, .010, .019) where (.495, .010, .495) is right.
    """
    z = np.array([[[0.98, 0.01, 0.01]], [[0.01, 0.01, 0.98]]])
    np.testing.assert_allclose(
        DirichletMixture(z, [[100.0], [1.0]]).mean(), [[0.495, 0.01, 0.495]], rtol=1e-13
    )


def test_posterior_weights_of_very_many_labels_stay_finite():
    z, total, w = mixture_of_two()
    y = np.tile([900_000, 90_000, 10_000], (3, 1))
    for d in (Ensemble(z, w), DirichletMixture(z, total, w)):
        posterior = d.posterior(y)
        np.testing.assert_allclose(posterior.weights.sum(axis=0), 1, rtol=1e-12)
        assert np.isfinite(posterior.mutual_information()).all()
        assert np.isfinite(d.log_prob_counts(y)).all()


def test_an_impossible_label_has_probability_zero_and_moves_no_point():
    z = np.array([[[1.0, 0.0]], [[1.0, 0.0]]])
    for d in (
        PointMass(z[0]),
        Ensemble(z, [0.3, 0.7]),
        Dirichlet(z[0]),
        DirichletMixture(z, [[1.0], [2.0]]),
    ):
        assert d.log_prob_counts([[3, 40]]) == [-np.inf]
        assert d.log_prob_counts([[40, 0]]) == [pytest.approx(0, abs=1e-14)]
    np.testing.assert_allclose(Ensemble(z, [0.3, 0.7]).posterior([1]).weights, [[0.3], [0.7]])
    np.testing.assert_allclose(Dirichlet(z[0]).posterior([1]).mean(), [[0.5, 0.5]])


@pytest.mark.parametrize("counts", [(1, 0), (3, 2), (0, 12)])
def test_mixture_posterior_of_two_classes_against_numerical_integration(counts):
    """Mean, second moment and likelihood by integrating the Beta densities."""
    z, total, w = mixture_of_two(n=1, K=2, seed=3)
    y = np.array([counts])
    d = DirichletMixture(z, total, w)
    share = (w / w.sum(axis=0))[:, 0]

    def integral(power):
        """∫ θ^power P(y|θ) p(θ) dθ."""
        value = mp.mpf(0)
        for s, a, b in zip(share, total[:, 0] * z[:, 0, 1], total[:, 0] * z[:, 0, 0], strict=True):
            up, down = power + counts[1] + mp.mpf(a) - 1, counts[0] + mp.mpf(b) - 1
            value += (
                s
                * mp.quad(lambda t, up=up, down=down: t**up * (1 - t) ** down, [0, 0.5, 1])
                / mp.beta(a, b)
            )
        return float(multinomial_coefficient(counts) * value)

    evidence = integral(0)
    assert d.log_prob_counts(y)[0] == pytest.approx(np.log(evidence), rel=1e-9)
    assert d.posterior(y).mean()[0, 1] == pytest.approx(integral(1) / evidence, rel=1e-9)
    assert d.posterior(y).second_moment()[0, 1] == pytest.approx(integral(2) / evidence, rel=1e-9)


def multinomial_coefficient(counts):
    return multinomial(counts, np.ones(len(counts)))


@pytest.mark.parametrize("kind", ["dirichlet", "ensemble", "dirichlet mixture"])
def test_posterior_of_three_classes_against_importance_sampling(kind):
    d = all_distributions(1, 3, seed=2)[kind]
    y = np.array([2, 0, 3])
    draws = d.sample(40_000, random_state=0)[:, 0]
    likelihood = multinomial_coefficient(y) * (draws**y).prod(axis=1)
    error = likelihood.std() / np.sqrt(len(draws))
    assert abs(likelihood.mean() - np.exp(d.log_prob_counts([y])[0])) < 4 * error
    posterior, w = d.posterior([y]), likelihood / likelihood.sum()
    for power, expected in ((1, posterior.mean()[0]), (2, posterior.second_moment()[0])):
        estimate = w @ draws**power
        error = np.sqrt((w**2) @ (draws**power - estimate) ** 2)
        assert (np.abs(estimate - expected) < 4 * error + 1e-12).all()


def test_mixture_moments_obey_the_law_of_total_variance():
    z, total, w = mixture_of_two()
    d, p = DirichletMixture(z, total, w), (w / w.sum(axis=0))[..., None]
    mean, s = (p * z).sum(axis=0), 1 / (total[..., None] + 1)
    np.testing.assert_allclose(d.mean(), mean, rtol=1e-13)
    np.testing.assert_allclose(
        d.second_moment(),
        (p * (s * z * (1 - z) + z**2)).sum(axis=0),
        rtol=1e-13,
        err_msg="Σ w E_s[z²]",
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(2, 6), st.integers(0, 10**6))
def test_uncertainties_are_ordered(S, n, K, seed):
    """0 ≤ MI ≤ H, 0 ≤ E[H] ≤ H ≤ log K, φ ≤ 1 − Σ E[z]², intervals inside [0, 1] and ordered."""
    rng = np.random.default_rng(seed)
    d = DirichletMixture(
        rng.dirichlet(np.full(K, 0.2), (S, n)), 10 ** rng.uniform(-6, 6, (S, n)), rng.random((S, n))
    )
    h, aleatoric, information = d.entropy(), d.expected_entropy(), d.mutual_information()
    assert (information >= 0).all()
    assert (aleatoric >= 0).all()
    assert (aleatoric <= h + 1e-12).all()
    assert (information <= h + 1e-12).all()
    assert (h <= np.log(K) + 1e-12).all()
    assert (d.disagreement() <= 1 - (d.mean() ** 2).sum(axis=1) + 1e-12).all()
    ends = d.interval()
    assert ((ends >= 0) & (ends <= 1)).all()
    assert (ends[..., 0] <= ends[..., 1]).all()


# predict_dist


IRIS = load_iris(return_X_y=True)
VOTERS = [
    ("logistic", make_pipeline(StandardScaler(), LogisticRegression())),
    ("gone", "drop"),
    ("tree", DecisionTreeClassifier(max_depth=2, random_state=0)),
    ("bayes", GaussianNB()),
]
ENSEMBLES = {
    "forest": (RandomForestClassifier(7, max_depth=3, random_state=0), 7),
    "extra trees": (ExtraTreesClassifier(7, max_depth=3, random_state=0), 7),
    "bagging": (
        BaggingClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=7, random_state=0),
        7,
    ),
    "bagging of features": (
        BaggingClassifier(GaussianNB(), n_estimators=7, max_features=2, random_state=0),
        7,
    ),
    "bagging without all classes": (
        BaggingClassifier(KNeighborsClassifier(1), n_estimators=7, max_samples=4, random_state=0),
        7,
    ),
    "voting": (VotingClassifier([VOTERS[0], *VOTERS[2:]], voting="soft"), 3),
    "voting with weights": (
        VotingClassifier([VOTERS[0], *VOTERS[2:]], voting="soft", weights=[1, 2, 5]),
        3,
    ),
    "voting with a dropped member": (
        VotingClassifier(VOTERS, voting="soft", weights=[1, 9, 2, 5]),
        3,
    ),
}
WRAPPERS = {
    "itself": lambda e: e,
    "pipeline": lambda e: make_pipeline(StandardScaler(), e),
    "pipeline of one": lambda e: make_pipeline(e),
    "search": lambda e: GridSearchCV(e, {}, cv=2),
    "search in a pipeline": lambda e: make_pipeline(StandardScaler(), GridSearchCV(e, {}, cv=2)),
    "pipeline in a search": lambda e: GridSearchCV(make_pipeline(StandardScaler(), e), {}, cv=2),
    "label histograms": LabelHistogramClassifier,
}


@pytest.mark.parametrize("name", ENSEMBLES)
def test_predict_dist_of_a_fitted_ensemble(name):
    X, y = IRIS
    estimator, n_members = ENSEMBLES[name]
    fitted = clone(estimator).fit(X, y)
    d = predict_dist(fitted, X)
    assert isinstance(d, Ensemble)
    assert len(d.weights) == n_members
    np.testing.assert_allclose(d.mean(), fitted.predict_proba(X), atol=1e-12)
    assert d.mutual_information().max() > 0.01


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("name", ["forest", "voting with a dropped member", None])
def test_predict_dist_sees_through_wrappers(name, wrapper):
    X, y = IRIS
    base = LogisticRegression(max_iter=1000) if name is None else clone(ENSEMBLES[name][0])
    fitted = WRAPPERS[wrapper](base).fit(X, y)
    for estimator in (fitted, FrozenEstimator(fitted), make_pipeline(FrozenEstimator(fitted))):
        d = predict_dist(estimator, X)
        assert isinstance(d, PointMass if name is None else Ensemble)
        np.testing.assert_allclose(d.mean(), estimator.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize("name", ["forest", "bagging", "bagging of features", "voting"])
def test_predict_dist_takes_frames(name):
    X, y = pd.DataFrame(IRIS[0], columns=list("pqrs")), IRIS[1]
    fitted = clone(ENSEMBLES[name][0]).fit(X, y)
    np.testing.assert_allclose(predict_dist(fitted, X).mean(), fitted.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize(
    "name", ["forest", "extra trees", "bagging", "bagging without all classes"]
)
def test_predict_dist_takes_sparse_matrices(name):
    X, y = sp.csr_array(IRIS[0]), IRIS[1]
    fitted = clone(ENSEMBLES[name][0]).fit(X, y)
    np.testing.assert_allclose(predict_dist(fitted, X).mean(), fitted.predict_proba(X), atol=1e-12)


def test_predict_dist_of_string_classes_and_two_classes():
    X, y = IRIS
    names = np.array(["b", "a"])[(y == 1).astype(int)]
    for estimator, _ in ENSEMBLES.values():
        fitted = clone(estimator).fit(X, names)
        np.testing.assert_allclose(
            predict_dist(fitted, X).mean(), fitted.predict_proba(X), atol=1e-12
        )


def test_other_classifiers_are_point_masses():
    X, y = IRIS
    for estimator in (
        AdaBoostClassifier(n_estimators=3),
        GaussianNB(),
        make_pipeline(GaussianNB()),
    ):
        d = predict_dist(estimator.fit(X, y), X)
        assert isinstance(d, PointMass)
        np.testing.assert_allclose(d.mean(), estimator.predict_proba(X), atol=1e-12)


def test_predict_dist_of_a_histogram_classifier_with_an_unseen_class():
    X, y = IRIS
    counts = np.eye(4, dtype=int)[y]
    fitted = LabelHistogramClassifier(RandomForestClassifier(3, random_state=0)).fit(X, counts)
    assert predict_dist(fitted, X).n_classes == 4
    np.testing.assert_allclose(predict_dist(fitted, X).mean(), fitted.predict_proba(X), atol=1e-12)


class Own:
    """An estimator that offers its own distribution."""

    def predict_dist(self, X):
        return Dirichlet(np.ones((len(X), 2)))


def test_predict_dist_takes_the_estimators_own_first():
    assert isinstance(predict_dist(Own(), np.zeros((3, 1))), Dirichlet)


@pytest.mark.parametrize("p", ["its own mean", "another"])
def test_what_one_label_changes_is_the_sum_over_classes(distribution, p):
    """Closed forms against the loop over labels that other kinds take."""
    z = distribution.mean()
    p = z if p == "its own mean" else random_proba(np.random.default_rng(1), 4, 3)
    C = np.array([[0.0, 1.0, 4.0, 1.0], [2.0, 0.0, 1.5, 1.0], [10.0, 3.0, 0.0, 1.0]])
    for found, expected in zip(
        distribution._changes(p), Distribution._changes(distribution, p), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-15)
    np.testing.assert_allclose(
        distribution._least_cost_after(C),
        Distribution._least_cost_after(distribution, C),
        rtol=1e-12,
    )


def test_disagreement_on_pairs_is_the_sum_over_classes(distribution):
    P = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    z = distribution.mean()
    expected = sum(z[:, k] * (distribution.mean_after(k) @ P[k]) for k in range(3))
    np.testing.assert_allclose(distribution.disagreement(P), expected, rtol=1e-12)
    np.testing.assert_allclose(
        distribution.disagreement(1 - np.eye(3)), distribution.disagreement(), rtol=1e-12
    )


@pytest.mark.parametrize("total", TOTALS)
def test_the_value_of_a_label_is_exact_for_extreme_totals(total):
    """s²·(1 − Σz²) with s = 1/(α0 + 1), near a corner too."""
    z = np.array(DYADIC)
    value = second_opinion_value(Dirichlet.from_mean(z, total))
    for row, v in zip(z, value, strict=True):
        exact = mp.fsum(mp.mpf(q) * (1 - mp.mpf(q)) for q in row) / (mp.mpf(total) + 1) ** 2
        assert v == pytest.approx(float(exact), rel=1e-12, abs=0)
