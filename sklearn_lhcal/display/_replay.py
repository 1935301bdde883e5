"""The cost of labels and decisions together, replayed on rows whose votes are known."""

from functools import partial
from typing import NamedTuple

import numpy as np

from .._ground.arrays import Floats, Indices
from .._ground.costs import bayes_columns, of_decisions, of_rows
from .._ground.label_tree import Tree, grow, label_levels, optimal_stopping, rows_at_a_time
from .._ground.simplex import entropy
from .._rows import Rows
from ..distributions import Distribution

# thresholds of the entropy rule, in units of log K
_SHARES = np.linspace(0, 1, 41) ** 2
# numbers of floats in memory at a time
_BLOCK = 2**21


class Replayed(NamedTuple):
    """Means over replays, of each row under every rule.

    Attributes
    ----------
    fixed, by_entropy, policy : tuple of two ndarrays of shape (n, number of rules)
        Cost of the decision, and number of labels: for 0, 1, … labels; for thresholds of the
        entropy; for the policies that are optimal at each of the prices.
    """

    fixed: tuple[Floats, Floats]
    by_entropy: tuple[Floats, Floats]
    policy: tuple[Floats, Floats]


def replay(rows: Rows, C: Floats, prices: Floats, horizon: int, n_replays: int, rng) -> Replayed:
    """Replay every rule on the same labels, drawn from the votes; the other votes are the truth.

    Costs C are (K, D), or one matrix a row, (n, K, D).
    """
    K = rows.z.shape[1]
    levels = label_levels(K, horizon)
    labels = drawn_labels(rows, horizon, n_replays, rng)
    size = min(rows_at_a_time(levels), max(1, _BLOCK // (n_replays * K * (horizon + 1))))
    parts = []
    for start in range(0, len(rows), size):
        block = slice(start, start + size)
        distribution = rows.distribution[block]
        costs = of_rows(C, block)
        tree = grow(levels, partial(_mean_after, distribution), costs)
        part = rows.take(np.arange(len(rows))[block])
        truth = _truth(part, labels[:, block])
        parts.append(_of_block(tree, labels[:, block], truth, prices, costs))
    joined = [
        tuple(np.concatenate(of) for of in zip(*rule, strict=True))
        for rule in zip(*parts, strict=True)
    ]
    return Replayed._make(joined)


def drawn_labels(rows: Rows, horizon: int, n_replays: int, rng) -> Indices:
    """The first labels of each row in each replay, shape (R, n, horizon).

    From the votes, without replacement; from known probabilities, independently.
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
    """Class frequencies among the votes that were not drawn, (R, n, K), or those known."""
    if rows.labels.known:
        return np.broadcast_to(rows.mu, (len(labels), *rows.mu.shape))
    K = rows.mu.shape[1]
    left = rows.labels.counts - np.eye(K)[labels].sum(axis=2)
    return left / left.sum(axis=2, keepdims=True)


def _mean_after(distribution: Distribution, c) -> Floats:
    if not c.any():
        return distribution.mean()
    return distribution.posterior(np.tile(c, (len(distribution), 1))).mean()


def _of_block(tree: Tree, labels: Indices, truth: Floats, prices: Floats, C: Floats) -> tuple:
    """The fields of `Replayed` for one block of B rows."""
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
