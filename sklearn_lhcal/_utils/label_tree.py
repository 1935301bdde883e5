"""The labels that a sample may be given, counted; when to stop asking; what so many are worth.

Letters: c the counts of the labels so far, one state of the tree; z_c the class probabilities after
them; C_d the costs of decision d; V_h(c) the least total cost to expect from c on, of h labels.
"""

from math import comb
from typing import NamedTuple

import numpy as np

from .costs import expected_costs
from .types import Floats, Indices, Integers, Mask

# More states than this are not worth their time.
MOST_STATES = 20_000
# Numbers of floats in memory at a time.
_BLOCK = 2**21
# In units of the largest cost: a gain this small is rounding.
_ROUNDING = 1e-12


class Level(NamedTuple):
    """All counts of h labels.

    Attributes
    ----------
    counts : ndarray of shape (S, K)
    after : ndarray of shape (S, K)
        The state of the next level after one more label, by its class; none on the last level.
    """

    counts: Integers
    after: Indices


class Tree(NamedTuple):
    """What is known of B samples in every state, level by level.

    Attributes
    ----------
    levels : list of Level
    z : list of ndarray of shape (S, B, K)
        Class probabilities z_c.
    stop : list of ndarray of shape (S, B)
        Cost to expect of the best decision, ``min_d z_c·C_d``.
    """

    levels: list[Level]
    z: list[Floats]
    stop: list[Floats]


class Stopping(NamedTuple):
    """Optimal stopping of B samples.

    Attributes
    ----------
    ask : list of ndarray of shape (S, B)
        Whether to ask for one more label, in every state but those of the last level.
    cost : ndarray of shape (B,)
        Total cost to expect before any label, V_0(0).
    labels : ndarray of shape (B,)
        Number of labels to expect.
    """

    ask: list[Mask]
    cost: Floats
    labels: Floats


def label_levels(K: int, horizon: int) -> list[Level]:
    """Counts of 0, 1, …, `horizon` labels of K classes, C(horizon + K, K) states."""
    n_states = comb(horizon + K, K)
    if n_states > MOST_STATES:
        raise ValueError(
            f"{horizon} labels of {K} classes have {n_states:,} states, more than "
            f"{MOST_STATES:,}; look fewer labels ahead."
        )
    levels = []
    states = [(0,) * K]
    for _ in range(horizon):
        grown = [[(*c[:k], c[k] + 1, *c[k + 1 :]) for k in range(K)] for c in states]
        number: dict[tuple[int, ...], int] = {}
        after = [[number.setdefault(c, len(number)) for c in row] for row in grown]
        levels.append(Level(np.array(states), np.array(after)))
        states = list(number)
    return [*levels, Level(np.array(states), np.empty((0, K), dtype=np.intp))]


def rows_at_a_time(levels: list[Level]) -> int:
    """Samples whose trees fit into memory together."""
    return max(1, _BLOCK // sum(level.counts.size for level in levels))


def grow(levels: list[Level], distribution, C: Floats) -> Tree:
    """The tree of B rows with a distribution; costs C are (K, D), or one per sample, (B, K, D)."""

    def mean_after(c: Integers) -> Floats:
        if not c.any():
            return distribution.mean()
        more = np.tile(c.astype(float), (len(distribution), 1))
        return distribution._posterior(more).mean()

    z = [np.stack([mean_after(c) for c in level.counts]) for level in levels]
    stop = [expected_costs(z_c, C).min(axis=2) for z_c in z]
    return Tree(levels, z, stop)


def optimal_stopping(tree: Tree, price: float | Floats, C: Floats) -> Stopping:
    """``V_h(c) = min(min_d z_c·C_d, price + Σ_k z_ck V_h+1(c + e_k))``, the last level first."""
    least_gain = _ROUNDING * np.abs(C).max(axis=(-2, -1))
    *before, (_, _, V) = zip(tree.levels, tree.z, tree.stop, strict=True)
    labels = np.zeros_like(V)
    asks = []
    for level, z, stop in reversed(before):
        go_on = price + expected(z, V, level)
        ask = go_on < stop - least_gain
        V = np.where(ask, go_on, stop)
        labels = np.where(ask, 1 + expected(z, labels, level), 0.0)
        asks.append(ask)
    return Stopping(asks[::-1], V[0], labels[0])


def expected(z: Floats, V: Floats, level: Level) -> Floats:
    """Σ_k z_ck V(c + e_k), shape (S, B)."""
    return np.einsum("sbk,skb->sb", z, V[level.after])
