"""Thresholds that hold their promise on new rows: conformal, and by betting.

Letters: s_ik the score of class k in row i; μ̂_i the votes of row i as frequencies; g_i what its
decision is expected to cost, C̄_i = Σ_k μ̂_ik C_k,d(i) what it costs; c the cost of a referral; n
the number of units, rows or groups of rows; w_i the share of row i in its unit.
"""

import numpy as np
from scipy.special import logsumexp

from .._ground.arrays import Floats, Indices

# of sums of n votes
_ROUNDING = 1e-9
# Bets, in units of the largest that cannot ruin.
_BETS = np.geomspace(0.01, 0.99, 10)


def least_scores(z: Floats) -> Floats:
    """1 − z_k, shape (n, K): sets of least ambiguity (Sadinle, Lei and Wasserman 2019)."""
    return 1 - z


def adaptive_scores(z: Floats) -> Floats:
    """Σ_j z_j over the classes more probable than k, and half of those as probable, shape (n, K).

    The mean of the randomised score of Romano, Sesia and Candès (2020), which is a draw between the
    two ends. It tells a sure class (½) from an impossible one (1).
    """
    order = np.argsort(-z, axis=1, kind="stable")
    ranked = np.take_along_axis(z, order, axis=1)
    upto = np.cumsum(ranked, axis=1)
    above = upto - ranked
    # classes of equal probability share both sums
    tied = ranked[:, 1:] == ranked[:, :-1]
    for k in range(1, z.shape[1]):
        above[:, k] = np.where(tied[:, k - 1], above[:, k - 1], upto[:, k - 1])
    for k in range(z.shape[1] - 2, -1, -1):
        upto[:, k] = np.where(tied[:, k], upto[:, k + 1], upto[:, k])
    s = np.empty_like(z)
    np.put_along_axis(s, order, (above + upto) / 2, axis=1)
    return s


def unit_shares(units: Indices) -> Floats:
    """1/(rows in the unit) of each row, shape (n,): their sum is the number of units."""
    return 1 / np.bincount(units)[units]


def vote_threshold(s: Floats, mu: Floats, units: Indices, confidence_level: float) -> float:
    """The smallest t with ``Σ_i w_i Σ_k μ̂_ik 1{s_ik ≤ t} ≥ (n + 1)·level``; inf if there is none.

    Split conformal prediction with votes as fractional labels.
    """
    w = unit_shares(units)
    order = np.argsort(s, axis=None, kind="stable")
    covered = np.cumsum((w[:, None] * mu).ravel()[order])
    needed = (units.max() + 2) * confidence_level - _ROUNDING
    first = int(np.searchsorted(covered, needed))
    return float(np.append(s.ravel()[order], np.inf)[first])


def cost_thresholds(g: Floats, excess: Floats, most: Floats, units: Indices, room: float) -> Floats:
    """The largest λ_d with ``[Σ_i w_i (C̄_i − c)₊ 1{g_i < λ} + (B_d − c)₊]/(n + 1) ≤ budget − c``.

    Conformal risk control (Angelopoulos et al. 2024) of an excess that grows with λ. `most` holds
    the bounds ``(B_d − c)₊`` of the decisions, (D,), or those of the decisions of new rows, whose
    bound may depend on the row; and `room` is budget − c. −inf where no row may be decided, inf
    where all may.
    """
    n = units.max() + 1
    order = np.argsort(g, kind="stable")
    total = np.cumsum((unit_shares(units) * excess)[order])
    limit = (n + 1) * room - most
    first = np.searchsorted(total, limit + _ROUNDING * np.maximum(1.0, most), side="right")
    thresholds = np.append(g[order], np.inf)[first]
    return np.where(limit < 0, -np.inf, thresholds)


def log_wealth(g: Floats, x: Floats, high: float, units: Indices, room: float) -> Floats:
    """Wealth of a bet that ``X(λ) = Σ w_i x_i 1{g_i < λ} − room`` of units has a mean below 0.

    For 0, 1, …, n rows decided in the order of g, in logs, shape (n + 1,). Where the mean is not
    below 0, wealth e^a or more has at most the probability e^−a (Markov). One bets a fixed share ν
    of one's wealth on every unit, ``Π (1 − ν X)``, and the wealth is divided among 10 such ν
    (diversified Kelly betting, Waudby-Smith and Ramdas 2024). It does not depend on the order of
    the rows. `high` is the largest X can be, above 0.
    """
    order = np.argsort(g, kind="stable")
    unit = units[order]
    own = (unit_shares(units) * x)[order]
    # X of the unit before this row is decided, and after
    after = _cumulated(own, unit)
    before = after - own
    nu = _BETS / high
    gained = np.log1p(-nu * (after - room)[:, None]) - np.log1p(-nu * (before - room)[:, None])
    start = (units.max() + 1) * np.log1p(nu * room)
    wealth = start + np.vstack([np.zeros(len(nu)), np.cumsum(gained, axis=0)])
    return logsumexp(wealth, axis=1) - np.log(len(nu))


def _cumulated(values: Floats, unit: Indices) -> Floats:
    """Cumulative sums within each unit, in the order of the rows."""
    order = np.argsort(unit, kind="stable")
    total = np.cumsum(values[order])
    first = np.flatnonzero(np.diff(unit[order], prepend=-1))
    base = np.repeat(total[first] - values[order][first], np.diff(np.append(first, len(values))))
    cumulated = np.empty_like(total)
    cumulated[order] = total - base
    return cumulated


def bet_threshold(g: Floats, wealth: Floats, starts: Floats, delta: float) -> float:
    """The largest λ that is reached from a start by tests that all reject, each at δ/number.

    Learn then Test (Angelopoulos et al. 2025) with fixed sequences: from each start upwards, one
    goes on as long as the mean is shown to be below 0. Rows with g < λ are decided.
    """
    values = np.sort(g, kind="stable")
    # how many rows are decided where λ lies between two values of g, and the λ at its upper end
    decided = np.append(np.flatnonzero(np.diff(values, prepend=-np.inf)), len(values))
    upper = np.append(values[decided[:-1]], np.inf)
    shown = wealth[decided] >= np.log(len(starts) / delta)
    reached = [-np.inf]
    for start in starts:
        first = int(np.searchsorted(upper, start))
        failed = np.flatnonzero(~shown[first:])
        if not len(failed):
            reached.append(np.inf)
        elif failed[0] > 0:
            reached.append(upper[first + failed[0] - 1])
    return float(max(reached))
