"""The cost of labels and decisions together, replayed on samples whose labels are known.

A rule asks for labels of a sample in random order, and the labels that are left are the truth. What
this costs on average over all orders follows without drawing: the tree is walked backwards, and
each label is as likely as there are such labels left.
"""

from typing import NamedTuple

import numpy as np

from ..._rows import Rows
from ..._utils.arrays import Floats, Indices, Mask
from ..._utils.costs import bayes_columns, of_decisions, of_rows
from ..._utils.label_tree import (
    Level,
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


class Replayed(NamedTuple):
    """Means over all orders of the labels, of each sample under every rule.

    Attributes
    ----------
    policy, fixed, by_entropy : ndarray of shape (2, m, number of rules)
        Cost of the decision, and number of labels. For the policies that are optimal at each of the
        prices; for 0, 1, … labels; for thresholds of the entropy.
    """

    policy: Floats
    fixed: Floats
    by_entropy: Floats


def replay(
    rows: Rows, counts: Indices, at: Indices, C: Floats, prices: Floats, horizon: int
) -> Replayed:
    """Replay every rule on samples `at` of rows, which have labels counts (m, K).

    Every sample has more than `horizon` labels, or known probabilities. The order of `at` is
    ascending. Costs C are (K, D), or one matrix a row, (n, K, D).
    """
    levels = label_levels(rows.z.shape[1], horizon)
    size = max(1, rows_at_a_time(levels) // 4)
    parts = []
    for start in range(0, len(at), size):
        some = slice(start, start + size)
        row, own = np.unique(at[some], return_inverse=True)
        costs = of_rows(C, row)
        tree = grow(levels, rows.distribution[row], costs)
        left = [_left(counts[some], level, rows.labels.known) for level in levels]
        parts.append(_of_block(tree, costs, left, own, prices))
    return Replayed._make(np.concatenate(of, axis=1) for of in zip(*parts, strict=True))


def _left(counts: Indices, level: Level, known: bool) -> Floats:
    """The share of each class among the labels that are left in every state, (S, m, K)."""
    taken = level.counts[:, None]
    if known:
        return counts * np.ones(taken.shape)
    n = counts.sum(axis=1, keepdims=True) - taken.sum(axis=2, keepdims=True)
    return np.maximum(counts - taken, 0) / n


def _of_block(tree: Tree, C: Floats, left: list[Floats], own: Indices, prices: Floats) -> list:
    """The fields of `Replayed` for some samples, which are `own` (m,) of the tree."""
    # cost of deciding in every state, (S, m)
    cost = []
    for z, p in zip(tree.z, left, strict=True):
        charged = of_decisions(bayes_columns(z, C), C)[:, own]
        cost.append(np.einsum("smk,smk->sm", p, charged))
    before = tree.z[:-1]
    doubt = [entropy(z) / np.log(z.shape[2]) for z in before]
    # whether a rule asks for one more label, in every state
    asks = [
        [optimal_stopping(tree, price, C).ask for price in prices],
        [[np.full(d.shape, h < m) for h, d in enumerate(doubt)] for m in range(len(tree.z))],
        [[d > share for d in doubt] for share in _SHARES],
    ]

    def of(ask: list[Mask]) -> tuple[Floats, Floats]:
        V = cost[-1]
        labels = np.zeros_like(V)
        walk = zip(tree.levels, left, cost, ask, strict=False)
        for level, p, stop, more in reversed(list(walk)):
            V = np.where(more[:, own], expected(p, V, level), stop)
            labels = np.where(more[:, own], 1 + expected(p, labels, level), 0.0)
        return V[0], labels[0]

    return [np.transpose([of(ask) for ask in rules], (1, 2, 0)) for rules in asks]
