"""The price of a label: optimal stopping and allocation, against enumeration and simulation."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import KINDS, all_distributions, histograms

from sklearn_lhcal.distributions import (
    Dirichlet,
    Ensemble,
    LogisticNormal,
    PointMass,
    allocate_labels,
    label_policy,
    second_opinion_value,
)

COSTS = np.array([[0.0, 1.0, 2.0], [5.0, 0.0, 1.0], [20.0, 3.0, 0.0]])
TWO = np.array([[0.0, 1.0], [4.0, 0.0]])
UNCERTAIN = [kind for kind in KINDS if kind != "point mass"]


def distribution_of(kind):
    d = all_distributions(5, 3)[kind]
    return d, COSTS


def least(d, C):
    return (d.mean() @ C).min(axis=1)


def by_recursion(d, C, price, left, y=None):
    """The least total cost to expect with so many labels left, by its definition, one row."""
    y = np.zeros((1, len(C)), dtype=int) if y is None else y
    after = d.posterior(y) if y.any() else d
    stop = least(after, C)[0]
    if not left:
        return stop
    z = after.mean()[0]
    units = np.eye(len(C), dtype=int)
    go_on = sum(z[k] * by_recursion(d, C, price, left - 1, y + units[[k]]) for k in range(len(C)))
    return min(stop, price + go_on)


# --------------------------------------------------------------------------------- optimal stopping


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("price", [0.0, 0.02, 0.3])
def test_it_is_the_recursion(kind, price):
    d, C = distribution_of(kind)
    policy = label_policy(d, C, price, 3)
    expected = [by_recursion(d[i], C, price, 3) for i in range(len(d))]
    assert_allclose(policy.expected_cost, expected, rtol=1e-10)


@pytest.mark.parametrize("make", [
    lambda: LogisticNormal([0.0, -1.0, 2.0], [1.0, 3.0, 0.5]),
    lambda: Dirichlet([[1.0, 1.0], [3.0, 0.5], [2.0, 7.0]]),
])  # fmt: skip
def test_two_classes(make):
    d = make()
    policy = label_policy(d, TWO, 0.05, 4)
    expected = [by_recursion(d[i], TWO, 0.05, 4) for i in range(len(d))]
    assert_allclose(policy.expected_cost, expected, rtol=1e-9)


def test_no_other_rule_is_cheaper():
    """Every rule that looks at the counts of at most two labels of two classes, by enumeration."""
    d = Dirichlet([[1.5, 0.5]])
    price = 0.08
    best = label_policy(d, TWO, price, 2)
    # (ask at first?, ask after a label of the first class?, of the second?)
    totals = []
    for first, *then in product([False, True], repeat=3):
        total = least(d, TWO)[0]
        if first:
            total = price
            for k, ask in enumerate(then):
                total += d.mean()[0, k] * _after(d, np.eye(2, dtype=int)[[k]], ask, price)
        totals.append(total)
    assert best.expected_cost[0] == pytest.approx(min(totals), rel=1e-12)


def _after(d, y, ask, price):
    d = d.posterior(y)
    return price + _one_label(d) if ask else least(d, TWO)[0]


def _one_label(d):
    units = np.eye(2, dtype=int)
    return sum(d.mean()[0, k] * least(d.posterior(units[[k]]), TWO)[0] for k in range(2))


@pytest.mark.parametrize("kind", UNCERTAIN)
def test_one_label_is_worth_a_second_opinion(kind):
    d, C = distribution_of(kind)
    policy = label_policy(d, C, 0.0, 1)
    assert_allclose(least(d, C) - policy.expected_cost, second_opinion_value(d, C), atol=1e-12)


def test_two_labels_may_change_what_one_cannot():
    """Where one label leaves the decision as it is, its value is 0, and asking for two pays."""
    d, C = Dirichlet([[2.6, 1.0]]), 1 - np.eye(2)
    assert second_opinion_value(d, C)[0] == 0
    assert not label_policy(d, C, 1e-3, 1).ask()[0]
    assert label_policy(d, C, 1e-3, 2).ask()[0]


@pytest.mark.parametrize("kind", UNCERTAIN)
def test_laws_of_price_and_horizon(kind):
    """Concave and rising in the price, falling in the horizon, never dearer than no label."""
    d, C = distribution_of(kind)
    prices = np.linspace(0, 0.5, 11)
    cost = np.array([label_policy(d, C, p, 3).expected_cost for p in prices])
    assert (np.diff(cost, axis=0) >= -1e-12).all()
    assert (np.diff(cost, 2, axis=0) <= 1e-12).all()
    # the slope is the number of labels, where it has one
    labels = label_policy(d, C, 0.2, 3).expected_labels
    slopes = np.diff(cost, axis=0) / 0.05
    assert ((slopes[4] <= labels + 1e-9) & (labels <= slopes[3] + 1e-9)).all()
    by_horizon = [label_policy(d, C, 0.05, h).expected_cost for h in (1, 2, 3, 4)]
    assert (np.diff(by_horizon, axis=0) <= 1e-12).all()
    assert (by_horizon[0] <= least(d, C) + 1e-12).all()
    dear = label_policy(d, C, 100.0, 3)
    assert_allclose(dear.expected_cost, least(d, C))
    assert not dear.ask().any()


def test_a_point_mass_is_never_asked():
    z = np.random.default_rng(0).dirichlet(np.ones(3), size=4)
    for d in (PointMass(z), Ensemble([z, z])):
        policy = label_policy(d, COSTS, 0.0, 3)
        assert not policy.ask().any()
        assert_allclose(policy.expected_cost, least(d, COSTS))


@pytest.mark.slow
@pytest.mark.parametrize("kind", UNCERTAIN)
def test_it_costs_what_it_says(kind):
    """In a world as it expects: labels drawn from draws of the distribution, 4000 a row."""
    d, C = distribution_of(kind)
    rng = np.random.default_rng(0)
    Q = np.moveaxis(d.sample(4000, random_state=0), 0, 1).reshape(-1, 3)
    world = d[np.repeat(np.arange(5), 4000)]
    policy = label_policy(world, C, 0.1, 3)
    counts = np.zeros(Q.shape, dtype=int)
    for _ in range(3):
        labels = (rng.random((len(Q), 1)) > np.cumsum(Q, axis=1)[:, :2]).sum(axis=1)
        rows = np.flatnonzero(policy.ask(counts))
        counts[rows, labels[rows]] += 1
    assert not policy.ask(counts).any()
    cost = np.einsum("nk,nk->n", Q, C.T[policy.decide(counts)]) + 0.1 * counts.sum(axis=1)
    for row in range(5):
        mine = slice(4000 * row, 4000 * (row + 1))
        for found, said in (
            (cost[mine], policy.expected_cost[mine.start]),
            (counts[mine].sum(axis=1), policy.expected_labels[mine.start]),
        ):
            assert abs(found.mean() - said) <= 4.5 * found.std() / np.sqrt(4000) + 1e-9


def test_classes_prices_and_names():
    d = all_distributions(5, 3)["dirichlet"]
    order, names = [2, 0, 1], ["a", "b", "c"]
    costs = pd.DataFrame(COSTS, index=names, columns=["wait", "test", "treat"])
    plain = label_policy(d, COSTS, 0.1, 2)
    named = label_policy(d.with_classes(names), costs.iloc[order], 0.1, 2)
    assert_allclose(named.expected_cost, plain.expected_cost, rtol=1e-12)
    assert_array_equal(named.decide(), costs.columns[plain.decide()])
    n = len(d)
    assert_array_equal(named.ask(["b"] * n), plain.ask([[0, 1, 0]] * n))
    each = label_policy(d, COSTS, np.linspace(0, 0.4, n), 2)
    for i, price in enumerate(np.linspace(0, 0.4, n)):
        one = label_policy(d[i], COSTS, price, 2)
        assert each.expected_cost[i] == pytest.approx(one.expected_cost[0], rel=1e-12)
        assert each.ask()[i] == one.ask()[0]


def test_costs_of_each_row():
    """Rows with their own costs are rows on their own, in policies and in allocation."""
    d, C = distribution_of("dirichlet")
    n = len(d)
    own = np.linspace(0.5, 3, n)[:, None, None] * C
    own[:, :, 0] += np.arange(n)[:, None]
    policy = label_policy(d, own, 0.3, 2)
    alone = [label_policy(d[i], own[i], 0.3, 2) for i in range(n)]
    expected = np.concatenate([one.expected_cost for one in alone])
    assert_allclose(policy.expected_cost, expected, rtol=1e-12)
    for c in histograms(1, 3):
        y = np.tile(c, (n, 1))
        assert_array_equal(policy.ask(y), [one.ask(c[None])[0] for one in alone])
        assert_array_equal(policy.decide(y), [one.decide(c[None])[0] for one in alone])
    V = np.array([drops(d[i], own[i], 2)[0] for i in range(n)])
    m = allocate_labels(d, own, 2 * n, max_labels=2)
    assert_allclose(V[np.arange(n), m], V.max(axis=1), atol=1e-12)
    assert_array_equal(allocate_labels(d, own * 0 + C, 4), allocate_labels(d, C, 4))
    with pytest.raises(ValueError, match=f"cost_matrix has {n - 1} samples, expected {n}"):
        label_policy(d, own[1:], 0.3, 2)


def test_rows_are_on_their_own():
    d, C = distribution_of("dirichlet mixture")
    whole = label_policy(d, C, 0.05, 3)
    alone = [label_policy(d[i], C, 0.05, 3) for i in range(len(d))]
    expected = np.concatenate([p.expected_cost for p in alone])
    assert_allclose(whole.expected_cost, expected, rtol=1e-13)
    for c in histograms(2, 3):
        y = np.tile(c, (len(d), 1))
        assert_array_equal(whole.ask(y), [p.ask(c[None])[0] for p in alone])
    assert not whole.ask(np.tile([3, 0, 0], (len(d), 1))).any()
    assert repr(whole) == "LabelPolicy(n=5, horizon=3)"


def test_rows_that_do_not_fit_into_memory_together():
    """Ten classes and three labels have trees of 2,860 numbers a row: blocks of 733 rows."""
    d = Dirichlet(np.random.default_rng(0).gamma(1.0, size=(740, 10)))
    y = np.eye(10, dtype=int)[np.arange(740) % 10]
    policies = [label_policy(some, 1 - np.eye(10), 0.05, 3) for some in (d, d[:400], d[400:])]
    whole, first, second = (p.ask(y[: len(p)]) for p in policies)
    assert_array_equal(whole, np.concatenate([first, second]))
    assert 0 < whole.sum() < 740


def test_bad_arguments():
    d = Dirichlet([[1.0, 1.0]])
    for price in (-0.1, np.nan, [0.1, 0.2], "cheap"):
        with pytest.raises(ValueError, match="price"):
            label_policy(d, TWO, price, 2)
    for horizon in (0, 1.5):
        with pytest.raises(ValueError, match="horizon"):
            label_policy(d, TWO, 0.1, horizon)
    with pytest.raises(ValueError, match="look fewer labels ahead"):
        label_policy(Dirichlet(np.ones((1, 30))), np.eye(30), 0.1, 8)
    with pytest.raises(ValueError, match="cost_matrix has 3 rows"):
        label_policy(d, COSTS, 0.1, 2)
    for budget in (-1, 1.5, True):
        with pytest.raises(ValueError, match="budget"):
            allocate_labels(d, TWO, budget)


# --------------------------------------------------------------------------------------- allocation


def drops(d, C, most):
    """V_m of each row by enumeration of the labels, (n, most + 1)."""
    values = []
    for m in range(most + 1):
        after = 0
        for c in histograms(m, len(C)) if m else np.zeros((1, len(C)), dtype=int):
            y = np.tile(c, (len(d), 1))
            p = np.exp(d.log_prob_counts(y)) if m else 1.0
            after = after + p * least(d.posterior(y), C)
        values.append(least(d, C) - after)
    return np.array(values).T


@pytest.mark.parametrize("kind", UNCERTAIN)
def test_no_allocation_of_as_many_labels_is_better(kind):
    """Against every allocation, at the budgets that a price a label would spend."""
    d, C = distribution_of(kind)
    d = d[:4]
    V = drops(d, C, 3)
    every = np.array(list(product(range(4), repeat=4)))
    for price in np.geomspace(1e-4, 1, 9):
        budget = (V - price * np.arange(4)).argmax(axis=1).sum()
        m = allocate_labels(d, C, int(budget), max_labels=3)
        best = V[np.arange(4), every[every.sum(axis=1) <= budget]].sum(axis=1).max()
        assert V[np.arange(4), m].sum() == pytest.approx(best, rel=1e-10, abs=1e-12)
    for budget in range(13):
        assert allocate_labels(d, C, budget, max_labels=3).sum() <= budget
    m = allocate_labels(d, C, 12, max_labels=3)
    assert_allclose(V[np.arange(4), m], V.max(axis=1), atol=1e-12)


def test_labels_go_where_they_gain_most():
    d = Dirichlet([[1.0, 1.0], [9.0, 1.0], [30.0, 30.0], [50.0, 50.0]])
    gain = second_opinion_value(d, 1 - np.eye(2))
    m = allocate_labels(d, 1 - np.eye(2), 2, max_labels=1)
    assert_array_equal(np.flatnonzero(m), np.sort(np.argsort(-gain)[:2]))
    assert allocate_labels(d, 1 - np.eye(2), 0).sum() == 0
    assert_array_equal(allocate_labels(PointMass(d.mean()), 1 - np.eye(2), 9), 0)


def test_order_of_rows_and_classes():
    d, C = distribution_of(UNCERTAIN[0])
    m = allocate_labels(d, C, 7)
    rows = np.random.default_rng(0).permutation(len(d))
    assert_array_equal(allocate_labels(d[rows], C, 7), m[rows])
    order = [2, 0, 1]
    turned = d.with_classes(list("abc")).in_order(np.array(list("abc"))[order])
    costs = pd.DataFrame(C, index=list("abc"))
    assert_array_equal(allocate_labels(turned, costs, 7), m)
