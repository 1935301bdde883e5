"""The cost of labels and decisions together, replayed on samples whose labels are known.

Replays draw the order of the labels. What they cost on average over all orders follows without
drawing: the tree is walked backwards, and each label is as likely as there are such labels left.
"""

from typing import NamedTuple

import numpy as np

from ..._rows import Rows
from ..._utils.arrays import Floats, Indices
from ..._utils.costs import bayes_columns, of_decisions, of_rows
from ..._utils.label_tree import (
    Tree,
    expected,
    grow,
    label_levels,
    optimal_stopping,
    rows_at_a_time,
)
from ..._utils.simplex import entropy

# thresholds of the entropy rule, in units of log K
_SHARES = np.linspace(0, 1, 41) ** 2
# numbers of floats in memory at a time
_BLOCK = 2**21


class Replayed(NamedTuple):
    """Means over replays, of each sample under every rule.

    Attributes
    ----------
    fixed, by_entropy, policy : tuple of two ndarrays of shape (n, number of rules)
        Cost of the decision, and number of labels: for 0, 1, … labels; for thresholds of the
        entropy; for the policies that are optimal at each of the prices.
    """

    fixed: tuple[Floats, Floats]
    by_entropy: tuple[Floats, Floats]
    policy: tuple[Floats, Floats]


def replay(
    rows: Rows,
    C: Floats,
    prices: Floats,
    horizon: int,
    n_replays: int,
    rng,
) -> Replayed:
    """Replay every rule on the same labels, drawn from the labels; the other labels are the truth.

    Costs C are (K, D), or one matrix a row, (n, K, D).
    """
    K = rows.z.shape[1]
    levels = label_levels(K, horizon)
    labels = drawn_labels(rows, horizon, n_replays, rng)
    size = min(rows_at_a_time(levels), max(1, _BLOCK // (n_replays * K * (horizon + 1))))
    parts = []
    for start in range(0, len(rows), size):
        block = slice(start, start + size)
        costs = of_rows(C, block)
        tree = grow(levels, rows.distribution[block], costs)
        part = rows.take(np.arange(len(rows))[block])
        truth = _truth(part, labels[:, block])
        parts.append(_of_block(tree, labels[:, block], truth, prices, costs))
    joined = [
        tuple(np.concatenate(of) for of in zip(*rule, strict=True))
        for rule in zip(*parts, strict=True)
    ]
    return Replayed._make(joined)


def drawn_labels(rows: Rows, horizon: int, n_replays: int, rng) -> Indices:
    """The first labels of each sample in each replay, shape (R, n, horizon).

    From the labels, without replacement; from known probabilities, independently.
    """
    R, n, K = n_replays, *rows.mu.shape
    left = np.tile(rows.labels.counts.astype(np.float64), (R, 1, 1))
    labels = np.empty((R, n, horizon), dtype=np.intp)
    for h in range(horizon):
        below = np.cumsum(left, axis=2)
        u = rng.random_sample((R, n, 1)) * below[..., -1:]
        k = np.minimum((u >= below).sum(axis=2), K - 1)
        labels[..., h] = k
        if not rows.labels.known:
            left -= np.eye(K)[k]
    return labels


def _truth(rows: Rows, labels: Indices) -> Floats:
    """Class frequencies among the labels that were not drawn, (R, n, K), or those known."""
    if rows.labels.known:
        return np.broadcast_to(rows.mu, (len(labels), *rows.mu.shape))
    K = rows.mu.shape[1]
    left = rows.labels.counts - np.eye(K)[labels].sum(axis=2)
    return left / left.sum(axis=2, keepdims=True)


def _of_block(tree: Tree, labels: Indices, truth: Floats, prices: Floats, C: Floats) -> tuple:
    """The fields of `Replayed` for one block of B samples."""
    R, B, horizon = labels.shape
    at = np.arange(B)
    state = np.zeros((R, B), dtype=np.intp)
    states = [state]
    for h in range(horizon):
        state = tree.levels[h].after[state, labels[..., h]]
        states.append(state)
    z = [of[s, at] for of, s in zip(tree.z, states, strict=True)]
    # cost of the decision after h labels, (horizon + 1, R, B)
    decided = [of_decisions(bayes_columns(p, C), C) for p in z]
    cost = np.array([np.einsum("rbk,rbk->rb", truth, C_d) for C_d in decided])
    doubt = np.array([entropy(p) for p in z]) / np.log(truth.shape[2])

    policies = []
    for price in prices:
        ask = optimal_stopping(tree, price, C).ask
        policies.append(_first([~a[s, at] for a, s in zip(ask, states, strict=False)]))
    return (
        _of_rules(cost, [np.full((R, B), m) for m in range(horizon + 1)]),
        _of_rules(cost, [_first(doubt[:horizon] <= share) for share in _SHARES]),
        _of_rules(cost, policies),
    )


def _first(stop) -> Indices:
    """The number of labels at which one stops, (R, B): after the last at the latest."""
    at_last = np.ones_like(stop[:1])
    return np.concatenate([stop, at_last]).argmax(axis=0)


def _of_rules(cost: Floats, stops: list[Indices]) -> tuple[Floats, Floats]:
    """Mean over replays of the cost and of the number of labels, (B, number of rules)."""
    costs = [np.take_along_axis(cost, stop[None], axis=0)[0].mean(axis=0) for stop in stops]
    return np.stack(costs, axis=1), np.stack([stop.mean(axis=0) for stop in stops], axis=1)


# ------------------------------------------------------------------------- means over all orders


class Rules(NamedTuple):
    """The rules at each price: the optimal policy, and those chosen for each sample.

    Attributes
    ----------
    C : ndarray of shape (K, D) or (n, K, D)
        Costs.
    prices : ndarray of shape (J,)
    horizon : int
    fixed, threshold : ndarray of shape (J, n)
        Which number of labels, and which threshold of the entropy, is each sample's.
    """

    C: Floats
    prices: Floats
    horizon: int
    fixed: Indices
    threshold: Indices


def mean_costs(rows: Rows, counts: Indices, at: Indices, rules: Rules) -> Floats:
    """Total costs over all orders of the labels, shape (m, 3, J), of rows `at` with counts (m, K).

    Every sample has more than `horizon` labels. The order of `at` is ascending.
    """
    K = counts.shape[1]
    levels = label_levels(K, rules.horizon)
    size = max(1, rows_at_a_time(levels) // 4)
    parts = [np.empty((0, 3, len(rules.prices)))]
    for start in range(0, len(at), size):
        some = slice(start, start + size)
        row, own = np.unique(at[some], return_inverse=True)
        costs = of_rows(rules.C, row)
        tree = grow(levels, rows.distribution[row], costs)
        walk = _Orders(tree, costs, counts[some], own)
        fixed, threshold = (of[:, at[some]] for of in (rules.fixed, rules.threshold))
        parts.append(walk.totals(rules.prices, fixed, threshold))
    return np.concatenate(parts)


class _Orders:
    """The tree of some samples, and what their labels make of it.

    `counts` (m, K) are the labels, of the samples `own` (m,) of the tree.
    """

    def __init__(self, tree: Tree, C: Floats, counts: Indices, own: Indices):
        self.tree = tree
        self.C = C
        self.own = own
        n = counts.sum(axis=1)[:, None]
        # the share of each class among the labels that are left in every state, (S, m, K)
        self.p = [
            np.maximum(counts - level.counts[:, None], 0) / (n - h)
            for h, level in enumerate(tree.levels)
        ]
        # cost of deciding in every state, (S, m)
        self.cost = []
        for z, p in zip(tree.z, self.p, strict=True):
            charged = of_decisions(bayes_columns(z, C), C)[:, own]
            self.cost.append(np.einsum("smk,smk->sm", p, charged))

    def totals(self, prices: Floats, fixed: Indices, threshold: Indices) -> Floats:
        """Total costs of the three rules, shape (m, 3, J)."""
        K = self.tree.z[0].shape[2]
        doubt = [entropy(z)[:, self.own] / np.log(K) for z in self.tree.z[:-1]]
        total = np.empty((len(self.own), 3, len(prices)))
        for j, price in enumerate(prices):
            ask = optimal_stopping(self.tree, price, self.C).ask
            cost, labels = self._of([a[:, self.own] for a in ask])
            total[:, 0, j] = cost + price * labels
        ask_all = [np.full(d.shape, True) for d in doubt]
        by_number = {
            int(m): self._of([a if h < m else ~a for h, a in enumerate(ask_all)])
            for m in np.unique(fixed)
        }
        by_doubt = {int(t): self._of([d > _SHARES[t] for d in doubt]) for t in np.unique(threshold)}
        for i, (rules, chosen) in enumerate(((by_number, fixed), (by_doubt, threshold)), 1):
            for number, (cost, labels) in rules.items():
                at, own = np.nonzero(chosen == number)
                total[own, i, at] = cost[own] + prices[at] * labels[own]
        return total

    def _of(self, ask) -> tuple[Floats, Floats]:
        """Cost of the decision and number of labels of a rule that asks on in some states, (m,)."""
        V = self.cost[-1]
        labels = np.zeros_like(V)
        walk = zip(self.tree.levels[:-1], self.p, self.cost, ask, strict=False)
        for level, p, cost, more in reversed(list(walk)):
            V = np.where(more, expected(p, V, level), cost)
            labels = np.where(more, 1 + expected(p, labels, level), 0.0)
        return V[0], labels[0]
