"""LabelPolicyDisplay for new raters: its bands.

Costs over all orders of labels are private: replays only come near them.
"""

from functools import partial
from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from reader_studies import read_by
from scipy.stats import t as student

from sklearn_lhcal._rows import read_rows
from sklearn_lhcal.display import LabelPolicyDisplay
from sklearn_lhcal.distributions import Dirichlet, label_policy
from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import bayes_decision
from sklearn_lhcal.metrics._inference.replay import _SHARES, Rules, mean_costs

COSTS = np.array([[0.0, 1.0], [3.0, 0.0]])
PRICES = np.array([0.0, 0.15])
show = partial(LabelPolicyDisplay.from_predictions, prices=PRICES, random_state=0)


def study(n=40, R=6, s=1.0, seed=0):
    """Two classes; readers who call the second by thresholds of their own."""
    rng = np.random.RandomState(seed)
    p = rng.beta(1, 2, size=n).clip(0.02, 0.98)
    d = Dirichlet.from_mean(np.column_stack([1 - p, p]), np.exp(rng.normal(1, 1, size=n)))
    return read_by(d, R, s, rng), d


def cost_of_order(d, votes, horizon, rule):
    """Total cost where votes come in this order: those that were not drawn charge."""
    counts = np.zeros(2, dtype=int)
    for h in range(horizon + 1):
        after = d.posterior(counts[None]) if h else d
        if h == horizon or rule(after, counts, h):
            break
        counts[votes[h]] += 1
    charged = COSTS[list(votes[h:]), bayes_decision(after, COSTS)[0]]
    return charged.mean(), h


def asks(d, price, horizon):
    """Optimal stopping, by what is left of the horizon."""

    def stop(after, counts, h):
        return not label_policy(after, COSTS, price, horizon - h).ask()[0]

    return stop


@pytest.mark.parametrize("horizon", [1, 2])
def test_mean_costs_by_every_order(horizon):
    """Of the policy, of fixed numbers and of thresholds."""
    votes, d = study(n=4, R=4)
    rows = read_rows(Annotations.from_matrix(votes, classes=[0, 1]), d)
    m, threshold = horizon, 25
    chosen = (np.full((2, 4), k) for k in (m, threshold))
    rules = Rules(COSTS, PRICES, horizon, *chosen)
    # of the third row one label less
    counts = rows.labels.counts.copy()
    counts[2, counts[2].argmax()] -= 1
    found = mean_costs(rows, counts, np.arange(4), rules)
    for i in range(4):
        labels = np.repeat([0, 1], counts[i])
        for j, price in enumerate(PRICES):
            stops = (
                asks(d[[i]], price, horizon),
                lambda after, counts, h: h == m,
                lambda after, counts, h: after.entropy()[0] / np.log(2) <= _SHARES[threshold],
            )
            for k, stop in enumerate(stops):
                each = [cost_of_order(d[[i]], o, horizon, stop) for o in permutations(labels)]
                cost, number = np.mean(each, axis=0)
                assert found[i, k, j] == pytest.approx(cost + price * number, abs=1e-12)


@pytest.mark.parametrize("grouped", [False, True])
def test_the_variance_by_hand(grouped):
    """One label or none for all; each rater and each cell left out, their degrees of freedom."""
    n, R = 30, 6
    votes, d = study(n, R)
    w = 1 + np.arange(n) % 3
    w = w / w.sum()
    groups = np.arange(n) // 2 if grouped else np.arange(n)
    # decided at once: the cost of a row is the mean charge of its raters
    how = {"horizon": 1, "n_replays": 4, "sample_weight": w, "groups": groups, "prices": [1e3, 2e3]}
    y = Annotations.from_matrix(votes, classes=[0, 1])
    new, these = (show(y, d, COSTS, raters=raters, **how) for raters in ("random", "fixed"))
    charge = COSTS[votes, bayes_decision(d, COSTS)[:, None]]
    T = w @ charge.mean(axis=1)
    assert new.total_cost[0, 0] == pytest.approx(T, abs=0.1)
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


def test_readers_who_differ_widen_the_bands():
    votes, d = study(300, 8, s=2.0)
    y = Annotations.from_matrix(votes)
    how = {"horizon": 3, "n_replays": 5}
    new, these = (show(y, d, COSTS, raters=raters, **how) for raters in ("random", "fixed"))
    counts = show(y.counts, d, COSTS, **how)
    assert_allclose(these.interval, counts.interval)
    assert_allclose(new.total_cost, counts.total_cost)
    assert (np.ptp(new.interval, axis=2) > 1.2 * np.ptp(these.interval, axis=2)).all()
    own = show(Annotations.from_counts(y.counts), d, COSTS, **how)
    assert_allclose(np.ptp(own.interval, axis=2), np.ptp(these.interval, axis=2), rtol=0.3)


def test_who_is_needed_is_named():
    votes, d = study(60, 4)
    y = Annotations.from_matrix(votes, raters=["Ann", "Bob", "Cem", "Dee"])
    with pytest.raises(ValueError, match=r'Without rater Ann no row has 4 labels.*raters="fixed"'):
        show(y, d, COSTS, horizon=3)
    show(y, d, COSTS, horizon=3, raters="fixed")
    with pytest.warns(UserWarning, match=r'only 4 raters.*raters="fixed"'):
        show(y, d, COSTS, horizon=2)
    with pytest.raises(ValueError, match=r'three raters at least, got 2.*raters="fixed"'):
        show(y.keep(y.rater < 2), d, COSTS, horizon=1)
    with pytest.raises(ValueError, match="needs to know who gave each label"):
        show(y.counts, d, COSTS, horizon=1, raters="random")
