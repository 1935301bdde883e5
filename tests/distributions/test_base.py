"""Laws of every distribution over class probabilities."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from distribution_cases import BATCH, assert_same, label_pairs, methods
from oracles import KINDS, all_distributions, histograms, random_proba
from scipy.special import entr, gammaln

from sklearn_lhcal.distributions import (
    Dirichlet,
    DirichletMixture,
    Distribution,
    Ensemble,
    LogisticNormal,
    PointMass,
    second_opinion_value,
)

# of three classes, of which the second is impossible
NORMAL = LogisticNormal([0.0, -1.5, 4.0, 0.3], [1.0, 3.0, 0.2, 9.0]).embed([2, 0], 3)


@pytest.fixture(params=[*KINDS, "logistic normal"])
def distribution(request):
    """Four rows, three classes, of each kind."""
    kinds = all_distributions(BATCH["n"], BATCH["K"], BATCH["seed"])
    return (kinds | {"logistic normal": NORMAL})[request.param]


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


def some_labels(distribution, seed):
    """Two batches of possible labels, (2, n, 3)."""
    possible = distribution.mean() > 0
    return np.random.default_rng(seed).integers(0, 4, (2, len(distribution), 3)) * possible


def test_no_labels_have_probability_one_and_teach_nothing(distribution):
    none = np.zeros((len(distribution), 3), int)
    np.testing.assert_allclose(distribution.log_prob_counts(none), 0, atol=1e-14)
    # nodes stand for a normal distribution: an end of its interval is one of them
    nodes = distribution is NORMAL
    but = ["interval"] * nodes
    assert_same(distribution.posterior(none), distribution, rtol=1e-9 if nodes else 1e-12, but=but)


def test_one_label_has_the_probability_of_the_mean(distribution):
    for k in range(3):
        log_p = distribution.log_prob_counts(np.full(len(distribution), k))
        np.testing.assert_allclose(np.exp(log_p), distribution.mean()[:, k], rtol=1e-12)


def test_posterior_twice_is_the_posterior_of_the_sum(distribution):
    first, second = some_labels(distribution, seed=0)
    twice = distribution.posterior(first).posterior(second)
    once = distribution.posterior(first + second)
    nodes = distribution is NORMAL
    assert_same(twice, once, rtol=1e-9 if nodes else 1e-10, but=["interval"] * nodes)


def test_likelihoods_obey_the_chain_rule(distribution):
    """P(y¹ then y²) = P(y¹)·P(y²|y¹) for sequences of labels; the coefficients count the orders."""
    first, second = some_labels(distribution, seed=1)

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
    np.testing.assert_allclose(d.entropy(), entr(z).sum(axis=1), rtol=1e-12)
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
    # costs of each row
    size = np.linspace(1, 2, len(z))
    value = second_opinion_value(distribution, size[:, None, None] * C)
    np.testing.assert_allclose(value, size * drop, rtol=1e-9, atol=1e-13)
    with pytest.raises(ValueError, match="cost_matrix has 2 samples, expected"):
        second_opinion_value(distribution, np.stack([C, C]))


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
    y = np.arange(12).reshape(4, 3) % 4 * (distribution.mean() > 0)
    # these take labels that depend on the place of a row, or classes first
    others = {"posterior mean", "posterior variance", "log_prob_counts", "mean_after"}
    before, after = methods(distribution), methods(part)
    for name in set(before) - others:
        np.testing.assert_allclose(after[name], before[name][rows], 1e-12, 1e-15, err_msg=name)
    np.testing.assert_allclose(
        part.log_prob_counts(y[rows]), distribution.log_prob_counts(y)[rows], rtol=1e-12
    )
    np.testing.assert_allclose(
        part.posterior(y[rows]).mean(), distribution.posterior(y).mean()[rows], rtol=1e-12
    )


def test_an_integer_selects_a_batch_of_one_row(distribution):
    assert len(distribution[2]) == len(distribution[2, ...]) == 1
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
    members = ("concentration", "total", "proba", "weights", "loc", "scale")
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


def test_what_is_made_of_a_subclass_is_of_that_subclass(distribution):
    own = distribution.with_classes(["a", "b", "c"])
    own.__class__ = type("Own", (type(distribution),), {})
    made = [own[:2], own[1], own.with_classes(None), own.in_order(["c", "a", "b"])]
    made += [own.embed([0, 1, 2], 4), Distribution.concatenate([own[2:], own[:2]])]
    assert {type(one) for one in made} == {type(own)}
    assert_same(made[-1][2:], own[:2])


def test_distributions_copy_their_inputs():
    z, alpha = np.array([[[0.3, 0.7]]]), np.array([[1.0, 2.0]])
    total, w = np.array([[2.0]]), np.array([1.0])
    loc, scale = np.array([1.0]), np.array([2.0])
    made = [PointMass(z[0]), Dirichlet(alpha), Dirichlet.from_mean(z[0], total[0]), Ensemble(z, w)]
    made += [DirichletMixture(z, total, w), LogisticNormal(loc, scale)]
    before = [methods(d) for d in made]
    for a in (z, alpha, total, w, loc, scale):
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
    for columns in ([-1, 0, 1], [0, 1, 4]):
        with pytest.raises(ValueError, match="columns must lie between 0 and 3"):
            distribution.embed(columns, 4)


@pytest.mark.parametrize("cut", [1, 2])
def test_joined_batches_are_the_batch(distribution, cut):
    assert_same(Distribution.concatenate([distribution[:cut], distribution[cut:]]), distribution)


def test_joined_batches_have_the_order_of_classes_of_the_first(distribution):
    first = distribution.with_classes(["a", "b", "c"])
    joined = Distribution.concatenate([first, first.in_order(["b", "c", "a"])])
    assert joined.classes.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(joined.mean(), np.tile(first.mean(), (2, 1)), rtol=1e-12)


# What labels change


def test_the_value_of_a_label_of_many_classes():
    """With decisions that are never the best, and a class that is impossible."""
    rng = np.random.default_rng(0)
    n, K = 12, 40
    z = rng.dirichlet(np.full(K, 0.2), size=n)
    z[::4, 0] = 0.0
    z /= z.sum(axis=1, keepdims=True)
    d = Dirichlet.from_mean(z, np.exp(rng.normal(size=n) * 4))
    C = np.column_stack([1 - np.eye(K), rng.normal(size=K) + 1])
    z = d.mean()
    after = np.array([d.mean_after(k) for k in range(K)])
    drop = (z.T * ((after - z) ** 2).sum(axis=2)).sum(axis=0)
    np.testing.assert_allclose(second_opinion_value(d), drop, rtol=1e-9)
    # a difference of costs of some 3
    drop = (z @ C).min(axis=1) - (z.T * (after @ C).min(axis=2)).sum(axis=0)
    np.testing.assert_allclose(second_opinion_value(d, C), drop, atol=1e-13)


def test_blocks_of_rows_do_not_matter():
    """Ten thousand rows take several blocks, and two thousand classes make them short."""
    rng = np.random.default_rng(0)
    for n, K in ((10_000, 2), (100, 2_000)):
        d = Dirichlet.from_mean(rng.dirichlet(np.ones(K), size=n), rng.uniform(1, 9, n))
        some = np.array([0, n // 2, n - 1])
        for ask in (Dirichlet.mutual_information, Dirichlet.expected_entropy, second_opinion_value):
            np.testing.assert_allclose(ask(d)[some], ask(d[some]), rtol=1e-12)


def test_disagreement_on_pairs_is_the_sum_over_classes(distribution):
    P = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    z = distribution.mean()
    expected = sum(z[:, k] * (distribution.mean_after(k) @ P[k]) for k in range(3))
    np.testing.assert_allclose(distribution.disagreement(P), expected, rtol=1e-12)
    np.testing.assert_allclose(
        distribution.disagreement(1 - np.eye(3)), distribution.disagreement(), rtol=1e-12
    )
