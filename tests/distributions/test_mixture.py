"""Mixtures and ensembles: their moments, intervals and posteriors against brute force."""

from itertools import product

import mpmath as mp
import numpy as np
import pandas as pd
import pytest
from distribution_cases import assert_same
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from oracles import all_distributions, multinomial, random_proba
from scipy import stats

from sklearn_lhcal.distributions import (
    Dirichlet,
    DirichletMixture,
    Distribution,
    Ensemble,
    Mixture,
    PointMass,
)

mp.mp.dps = 60


# Intervals


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
        reached = [v for v, s in zip(z[:, i, k], share, strict=True) if s >= q - 1e-12]
        assert ends[i, k, j] == pytest.approx(min(reached))


def test_a_member_that_reaches_the_level_is_the_end_of_the_interval():
    z = np.array([0.1, 0.2, 0.3, 0.4])[:, None, None]
    ends = Ensemble(np.concatenate([z, 1 - z], axis=2)).interval(0.5)
    np.testing.assert_allclose(ends, [[[0.1, 0.3], [0.6, 0.8]]])


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
        assert d.log_prob_counts([[40, 0]]) == [pytest.approx(0, abs=1e-12)]
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


def test_weights_are_at_least_0():
    with pytest.raises(ValueError, match="weights"):
        Ensemble([[[0.5, 0.5]], [[0.1, 0.9]]], [2.0, -1.0])


@pytest.mark.parametrize("log_weights", [np.zeros(3), np.zeros((2, 2)), np.zeros((0, 3))])
def test_weights_have_a_row_for_each_member(log_weights):
    with pytest.raises(ValueError, match=r"log_weights must have shape \(S, n\) for the 3 samples"):
        Mixture.of(PointMass(np.eye(3)), log_weights)


def test_members_in_float32_are_rounded_as_float32():
    """Their sums may be off by 1e-3, those of float64 by 1e-6."""
    off = 1.0005 * np.array([[[0.2, 0.8]], [[0.6, 0.4]]])
    found = Ensemble(off.astype(np.float32)).mean()
    np.testing.assert_allclose(found, [[0.4, 0.6]], rtol=1e-3)
    with pytest.raises(ValueError, match="must sum to 1"):
        Ensemble(off)


# Another mean


def random_mixtures():
    """An ensemble, one with zeros and a member without weight, and a mixture of Dirichlets."""
    z, total, w = mixture_of_two(n=5, K=4)
    zeros = z.copy()
    zeros[0, :, 1] = 0.0
    zeros[:, :2, 2] = 0.0
    zeros /= zeros.sum(axis=2, keepdims=True)
    more = np.concatenate([zeros, np.tile(np.eye(4)[:1], (1, 5, 1))])
    return {
        "ensemble": Ensemble(z, w),
        "zeros": Ensemble(more, [*w, np.zeros(5)]),
        "dirichlet": DirichletMixture(z, total, w),
    }


@pytest.fixture(params=random_mixtures().values(), ids=random_mixtures())
def mixture(request):
    return request.param


@pytest.fixture
def mean():
    """With classes that have no probability."""
    p = random_proba(np.random.default_rng(4), 5, 4)
    p[1, 0] = p[4, 3] = 0.0
    return p / p.sum(axis=1, keepdims=True)


def test_with_a_mean_a_label_tells_members_apart_as_before(mixture, mean):
    """Bayes' rule row by row; a class that no member expects tells nothing."""
    found = mixture.with_mean(mean)
    assert isinstance(found, Ensemble)
    np.testing.assert_allclose(found.mean(), mean, atol=1e-15)
    np.testing.assert_allclose(found.weights.sum(axis=0), 1, rtol=1e-14)
    np.testing.assert_allclose(found.proba.sum(axis=2), 1, rtol=1e-14)
    S = len(mixture.weights)
    for i, k in product(range(5), range(4)):
        joint = [mixture.weights[s, i] * mixture.member_means()[s, i, k] for s in range(S)]
        share = np.array(joint) / sum(joint) if sum(joint) else mixture.weights[:, i]
        np.testing.assert_allclose(
            found.weights[:, i] * found.proba[:, i, k], mean[i, k] * share, rtol=1e-12, atol=1e-300
        )


def test_a_label_then_says_of_members_what_it_said(mixture, mean):
    """The public posterior, wherever both allow the label."""
    found = mixture.with_mean(mean)
    for k in range(4):
        allowed = (mixture.mean()[:, k] > 0) & (mean[:, k] > 0)
        y = np.full(5, k)
        after, before = found.posterior(y).weights, mixture.posterior(y).weights
        np.testing.assert_allclose(after[:, allowed], before[:, allowed], rtol=1e-12, atol=1e-300)


def test_its_own_mean_changes_nothing(mixture):
    found = mixture.with_mean(mixture.mean())
    np.testing.assert_allclose(found.weights, mixture.weights, rtol=1e-13)
    np.testing.assert_allclose(found.member_means(), mixture.member_means(), atol=1e-14)


def test_two_means_are_the_last_one(mixture, mean):
    """Where the first leaves each class a probability."""
    first = random_proba(np.random.default_rng(5), 5, 4)
    found, expected = mixture.with_mean(first).with_mean(mean), mixture.with_mean(mean)
    np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-12)
    np.testing.assert_allclose(found.proba, expected.proba, atol=1e-14)


def test_equal_members_are_moved_to_the_mean(mean):
    z = random_proba(np.random.default_rng(0), 5, 4)
    found = Ensemble(np.stack([z] * 3), [0.2, 0.5, 0.3]).with_mean(mean)
    np.testing.assert_allclose(found.proba, np.stack([mean] * 3), atol=1e-15)
    np.testing.assert_allclose(found.weights, np.tile([[0.2], [0.5], [0.3]], 5), rtol=1e-14)


def test_a_mean_takes_members_in_any_order_and_none_without_weight(mean):
    z, w = random_proba(np.random.default_rng(0), 3, 5, 4), np.array([0.2, 0.5, 0.3])
    expected = Ensemble(z, w).with_mean(mean)
    turned = Ensemble(z[::-1], w[::-1]).with_mean(mean)
    np.testing.assert_allclose(turned.weights[::-1], expected.weights, rtol=1e-13)
    np.testing.assert_allclose(turned.proba[::-1], expected.proba, atol=1e-15)
    more = Ensemble([*z, np.tile(np.eye(4)[3], (5, 1))], [*w, 0.0]).with_mean(mean)
    np.testing.assert_allclose(more.weights, [*expected.weights, np.zeros(5)], rtol=1e-14)
    np.testing.assert_allclose(more.proba[:3], expected.proba, atol=1e-15)
    # as it was, since nothing is said of it
    np.testing.assert_array_equal(more.proba[3], np.tile(np.eye(4)[3], (5, 1)))


def test_a_certain_mean_has_certain_members():
    """And members that exclude the class have no weight."""
    z = np.array([[[0.5, 0.5, 0.0]], [[0.0, 0.6, 0.4]], [[0.2, 0.3, 0.5]]])
    found = Ensemble(z).with_mean([[1.0, 0.0, 0.0]])
    np.testing.assert_allclose(found.weights, [[5 / 7], [0], [2 / 7]], rtol=1e-14)
    np.testing.assert_allclose(found.proba[[0, 2]], np.tile([1.0, 0, 0], (2, 1, 1)), atol=1e-15)
    np.testing.assert_array_equal(found.proba[1], z[1])


def test_a_class_that_no_member_expects_is_given_to_all_by_weight():
    found = Ensemble([[[1.0, 0.0]], [[1.0, 0.0]]], [0.3, 0.7]).with_mean([[0.6, 0.4]])
    np.testing.assert_allclose(found.weights, [[0.3], [0.7]], rtol=1e-14)
    np.testing.assert_allclose(found.proba, [[[0.6, 0.4]]] * 2, rtol=1e-14)


def test_a_mean_with_names_is_read_by_name(mean):
    names, order = np.array(["c", "a", "d", "b"]), [1, 3, 0, 2]
    z = random_proba(np.random.default_rng(0), 2, 5, 4)
    bare = Ensemble(z).with_mean(mean)
    assert bare.classes is None
    named = Ensemble([pd.DataFrame(member, columns=names) for member in z])
    for p in (mean, pd.DataFrame(mean, columns=names)[names[order]]):
        found = named.with_mean(p)
        np.testing.assert_array_equal(found.classes, named.classes)
        np.testing.assert_allclose(found.mean(), mean, atol=1e-15)
        np.testing.assert_allclose(found.weights, bare.weights, rtol=1e-14)
    with pytest.raises(ValueError, match="classes"):
        named.with_mean(pd.DataFrame(mean, columns=["a", "b", "c", "e"]))


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (1, 4)])
def test_a_mean_has_the_shape_of_the_mixture(mixture, shape):
    with pytest.raises(ValueError, match=r"mean must have shape \(5, 4\), got"):
        mixture.with_mean(np.full(shape, 1 / shape[1]))


def test_a_mean_is_on_the_simplex(mixture):
    with pytest.raises(ValueError, match="must sum to 1"):
        mixture.with_mean(np.full((5, 4), 0.3))


def test_a_mean_does_not_write_to_what_it_is_made_of(mixture, mean):
    p, before = mean.copy(), (mixture.weights.copy(), mixture.member_means().copy())
    found = mixture.with_mean(p)
    p[:] = 0.25
    np.testing.assert_allclose(found.mean(), mean, atol=1e-15)
    np.testing.assert_array_equal(mixture.weights, before[0])
    np.testing.assert_array_equal(mixture.member_means(), before[1])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.integers(0, 10**6))
def test_a_mean_is_at_most_1(S, seed):
    """Weights of thirds do not sum to 1 in floats."""
    rng = np.random.default_rng(seed)
    z = np.tile([1.0, 0.0], (S, 6, 1))
    for w in (None, rng.uniform(0, 1, (S, 6)), rng.integers(1, 4, (S, 6)) / 3):
        for d in (Ensemble(z, w), DirichletMixture(z, np.full((S, 6), 2.0), w)):
            assert (d.mean() <= 1).all()
            np.testing.assert_allclose(d.mean()[:, 0], 1, rtol=1e-14)


@pytest.mark.parametrize("kind", [Ensemble, DirichletMixture])
def test_mixtures_of_different_numbers_of_members_are_joined(kind):
    """What is known of each sample stays what it was."""
    rng = np.random.default_rng(0)
    y = rng.multinomial(2, [0.2, 0.3, 0.5], 9)
    parts = []
    for size, n in ((4, 3), (1, 6)):
        z = rng.dirichlet(np.ones(3), (size, n))
        totals = () if kind is Ensemble else (rng.uniform(1, 9, (size, n)),)
        parts.append(kind(z, *totals))
    joined = Distribution.concatenate(parts)
    for rows, part in ((slice(0, 3), parts[0]), (slice(3, 9), parts[1])):
        for name in ("mean", "variance", "disagreement", "mutual_information", "interval"):
            assert_allclose(getattr(joined[rows], name)(), getattr(part, name)(), atol=1e-12)
        after = joined.posterior(y)[rows].mean()
        assert_allclose(after, part.posterior(y[rows]).mean(), atol=1e-12)
        log_prob = joined.log_prob_counts(y)[rows]
        assert_allclose(log_prob, part.log_prob_counts(y[rows]), atol=1e-12)
