"""policy_curve for new raters: its intervals."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from reader_studies import read_by
from scipy.stats import t as student

from sklearn_lhcal.distributions import Dirichlet, label_policy
from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import bayes_decision, policy_curve

COSTS = np.array([[0.0, 1.0], [3.0, 0.0]])
PRICES = np.array([0.0, 0.15])
curve = partial(policy_curve, prices=PRICES, random_state=0)


def study(n=40, R=6, s=1.0, seed=0):
    """Two classes; readers who call the second by thresholds of their own."""
    rng = np.random.RandomState(seed)
    p = rng.beta(1, 2, size=n).clip(0.02, 0.98)
    d = Dirichlet.from_mean(np.column_stack([1 - p, p]), np.exp(rng.normal(1, 1, size=n)))
    return read_by(d, R, s, rng), d


def cost_of_asking_one(votes, after, price):
    """Of each row: one of its labels is asked for, and the others charge the decision after it."""
    d = [bayes_decision(after(k), COSTS) for k in (0, 1)]
    n, R = votes.shape
    total = np.zeros(n)
    for r in range(R):
        decided = np.where(votes[:, r] == 0, *d)
        charged = COSTS[np.delete(votes, r, axis=1), decided[:, None]]
        total += charged.mean(axis=1) / R
    return price + total


def test_the_variance_of_a_policy_that_asks_by_hand():
    """Its cost over all orders of the labels, with each rater left out in turn."""
    n, R, price = 30, 6, 0.05
    votes, d = study(n, R)
    asks = label_policy(d, COSTS, price, 1).ask()
    assert 5 < asks.sum() < n - 5

    def costs(votes):
        one = cost_of_asking_one(votes, lambda k: d.posterior(np.eye(2, dtype=int)[[k] * n]), price)
        none = COSTS[votes, bayes_decision(d, COSTS)[:, None]].mean(axis=1)
        return np.where(asks, one, none)

    y = Annotations.from_matrix(votes, classes=[0, 1])
    how = {"horizon": 1, "prices": [price, 1e3]}
    new, these = (curve(y, d, COSTS, raters=raters, **how) for raters in ("random", "fixed"))
    T = costs(votes)
    assert new.total_cost[0, 0] == pytest.approx(T.mean(), rel=1e-10)
    change = np.array([costs(np.delete(votes, r, axis=1)) - T for r in range(R)]) / n
    V_rat = (R - 1) / R * (change.sum(axis=1) ** 2).sum()
    V_cell = (R - 1) / R * (change**2).sum()
    V_row = (np.ptp(these.interval[0, 0]) / 2 / student.ppf(0.975, n - 1)) ** 2
    assert V_rat > V_cell
    noise = V_row**2 / (n - 1) + V_rat**2 / (R - 1) + V_cell**2 / (n - 1)
    V = V_row + V_rat - V_cell
    half = student.ppf(0.975, max(V**2 / noise, R - 1)) * np.sqrt(V)
    assert np.ptp(new.interval[0, 0]) / 2 == pytest.approx(half, rel=1e-10)


@pytest.mark.parametrize("grouped", [False, True])
def test_the_variance_by_hand(grouped):
    """One label or none for all; each rater and each cell left out, their degrees of freedom."""
    n, R = 30, 6
    votes, d = study(n, R)
    w = 1 + np.arange(n) % 3
    w = w / w.sum()
    groups = np.arange(n) // 2 if grouped else np.arange(n)
    # decided at once: the cost of a row is the mean charge of its raters
    how = {"horizon": 1, "sample_weight": w, "groups": groups, "prices": [1e3, 2e3]}
    y = Annotations.from_matrix(votes, classes=[0, 1])
    new, these = (curve(y, d, COSTS, raters=raters, **how) for raters in ("random", "fixed"))
    charge = COSTS[votes, bayes_decision(d, COSTS)[:, None]]
    T = w @ charge.mean(axis=1)
    assert new.total_cost[0, 0] == pytest.approx(T, rel=1e-10)
    left = (charge.sum(axis=1, keepdims=True) - charge) / (R - 1)
    change = w[:, None] * (left - charge.mean(axis=1, keepdims=True))
    V_rat = (R - 1) / R * (change.sum(axis=0) ** 2).sum()
    cells = np.stack([np.bincount(groups, c) for c in change.T])
    V_cell = (R - 1) / R * (cells**2).sum()
    G = len(np.unique(groups))
    for i in range(3):
        V_row = (np.ptp(these.interval[i, 0]) / 2 / student.ppf(0.975, G - 1)) ** 2
        noise = V_row**2 / (G - 1)
        excess = max(V_rat - V_cell, 0)
        if excess:
            noise += V_rat**2 / (R - 1) + V_cell**2 / (G - 1)
        V = V_row + excess
        df = max(V**2 / noise, min(G - 1, R - 1))
        half = student.ppf(0.975, df) * np.sqrt(V)
        assert np.ptp(new.interval[i, 0]) / 2 == pytest.approx(half, rel=1e-10)
    # the three rules decide alike
    assert_allclose(new.difference_interval, 0, atol=1e-12)


def test_readers_who_differ_widen_the_intervals():
    votes, d = study(300, 8, s=2.0)
    y = Annotations.from_matrix(votes)
    how = {"horizon": 3}
    new, these = (curve(y, d, COSTS, raters=raters, **how) for raters in ("random", "fixed"))
    counts = curve(y.counts, d, COSTS, **how)
    assert_allclose(these.interval, counts.interval)
    assert_allclose(new.total_cost, counts.total_cost)
    assert (np.ptp(new.interval, axis=2) > 1.2 * np.ptp(these.interval, axis=2)).all()
    own = curve(Annotations.from_counts(y.counts), d, COSTS, **how)
    assert_allclose(np.ptp(own.interval, axis=2), np.ptp(these.interval, axis=2), rtol=0.3)


def test_who_is_needed_is_named():
    votes, d = study(60, 4)
    y = Annotations.from_matrix(votes, raters=["Ann", "Bob", "Cem", "Dee"])
    with pytest.raises(
        ValueError,
        match=r'Without rater Ann only 0.0% of the samples have 4 labels.*raters="fixed"',
    ):
        curve(y, d, COSTS, horizon=3)
    curve(y, d, COSTS, horizon=3, raters="fixed")
    with pytest.warns(UserWarning, match=r'only 4 raters.*raters="fixed"'):
        curve(y, d, COSTS, horizon=2)
    with pytest.raises(ValueError, match=r'three raters at least, got 2.*raters="fixed"'):
        curve(y.keep(y.rater < 2), d, COSTS, horizon=1)
    with pytest.raises(ValueError, match="needs to know who gave each label"):
        curve(y.counts, d, COSTS, horizon=1, raters="random")
