"""The variance of reader studies: Obuchowski and Rockette's, for any pattern of readings.

Letters: θ_mr the metric of reader r under condition m, J_m readers of m, J_mk readers of both m and
k, y the truth, d_i the influence of case i on a θ, V(mr, ks) the covariance of two of them over
cases, these readers fixed. A contrast is Σ_m s_m θ̄_m, with θ̄_m the mean over the readers of m.

    V_R   = Σ_mk s_m s_k J_mk/(J_m J_k) cov over readers of both (θ_mr, θ_kr)
    C     = Σ_mk s_m s_k mean over r ≠ s of V(mr, ks)
    V_fix = Σ_mk s_m s_k mean over r, s of V(mr, ks)
    V     = max(V_R + max(C, 0), V_fix),
    df    = V²/(V_R²/df_R + (V − V_R)²/(n − 1)),

the last term on the logit scale only, with n cases of the scarcer truth. In `VarianceComponents`
rows are V_fix, raters V_R and cells V_fix − max(C, 0).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import rankdata
from scipy.stats import t as student

from ..._utils.results import ConfidenceInterval
from ..._utils.types import Floats, Indices, Integers, Mask, NDArray
from .two_way import Spread, over_panels

# the truth of the cases that a metric is about; others are about both
COUNTED: dict[Any, list[int]] = {"sensitivity": [1], "specificity": [0]}
# the least number to divide by, and quantiles beyond which no p-value is told
TINY, _FARTHEST = 1e-300, 1e6


# ------------------------------------------------------------------------------ one reader's metric


def influences(metric: str, y: NDArray, score: Floats) -> tuple[float, Floats]:
    """θ, the mean of x over the n cases of a truth that were read, and ``(x_i − θ)/n`` of each.

    x is whether a case is called what it is; or the share of other cases that it is told from.
    """
    d, theta = np.zeros(len(y)), np.nan
    for k in COUNTED.get(metric, [0, 1]):
        own, other = (~np.isnan(score) & of for of in (y == k, y != k))
        x = score[own] == k
        if metric == "auc":
            s = (2 * k - 1) * score
            ranks = rankdata(np.concatenate([s[own], s[other]]))
            x = (ranks[: len(x)] - rankdata(s[own])) / other.sum()
        theta = float(x.mean())
        d[own] = (x - theta) / len(x)
    return theta, d


def left_out(metric: Callable, unit: Indices, y: NDArray, score: Floats) -> tuple[float, Floats]:
    """Any metric, and ``√((G − 1)/G) (T₋g − mean)`` of the G units, in whose place they stand."""
    seen = np.flatnonzero(~np.isnan(score))
    y, score, own = y[seen], score[seen], unit[seen]
    units = np.unique(own)
    T = np.array([float(metric(y[own != g], score[own != g])) for g in units])
    d = np.zeros(int(unit.max()) + 1)
    d[units] = np.sqrt(1 - 1 / len(units)) * (T - T.mean())
    return float(metric(y, score)), d


def covariances(D: Floats, seen: Mask, strata: NDArray) -> Floats:
    """V of all columns, of each stratum of cases, (S, C, C), whatever is missing.

    ``V(a, b) = Σ_i d_ai d_bi / (1 − 1/n_a − 1/n_b + n_ab/(n_a n_b))``, which is DeLong's where
    nothing is.
    """
    found = []
    for k in np.unique(strata):
        d = D[strata == k]
        s = seen[strata == k].astype(float)
        n = np.maximum(s.sum(axis=0), 1)
        factor = 1 - 1 / n[:, None] - 1 / n + s.T @ s / np.outer(n, n)
        found.append(d.T @ d / np.maximum(factor, 1e-9))
    return np.array(found)


def measured(metric, unit: Indices, y: NDArray, scores: Floats) -> tuple[Floats, Floats, Mask]:
    """θ of columns, their covariances (S, C, C), and whether each read units of truth k, (2, C, G).

    Cases of a unit are not independent.
    """
    of = partial(left_out, metric, unit) if callable(metric) else partial(influences, metric)
    theta, D = (np.array(a) for a in zip(*(of(y, score) for score in scores.T), strict=True))
    seen = ~np.isnan(scores.T)
    n_read = [[np.bincount(unit, row & (y == k)) for row in seen] for k in (0, 1)]
    read: Mask = np.greater(n_read, 0)
    if callable(metric):
        return theta, (D @ D.T)[None], read
    D = np.array([np.bincount(unit, row) for row in D])
    # groups may hold both truths
    strata = np.bincount(unit, y) * (len(y) == D.shape[1])
    return theta, covariances(D.T, (read[0] | read[1]).T, strata), read


# ------------------------------------------------------------------------------- means over readers


class Contrast(NamedTuple):
    """θ̄ of a condition, or the difference of two, and its variances.

    Attributes
    ----------
    estimate, V_R : float
        V_R is 0 where readers are fixed.
    C, V_fix : ndarray of shape (n_strata,)
        By strata of cases.
    df_R : float
        Degrees of freedom of V_R; inf where readers are fixed.
    J : ndarray of shape (n_conditions,)
        Readers of conditions with several; empty where they are fixed.
    n_cases : ndarray of shape (2,)
        Negative and positive ones, or groups of them.
    n_scarce : int
        The fewest of those that the metric is about.
    """

    estimate: float
    V_R: float
    C: Floats
    V_fix: Floats
    df_R: float
    J: Integers
    n_cases: Integers
    n_scarce: int

    def spread(self, logits: bool = False) -> Spread:
        """V with its degrees of freedom, which cases have on the logit scale, too."""
        C = max(float(self.C.sum()), 0.0)
        F = max(float(self.V_fix.sum()), 0.0)
        V, _, components = over_panels(F, np.inf, [(self.V_R, F - C, 0.0, None)])
        of_cases = (V - self.V_R) ** 2 / (self.n_scarce - 1) if logits else 0.0
        noise = self.V_R**2 / self.df_R + of_cases
        return Spread(float(V), float(V**2 / noise) if noise > 0 else np.inf, components)


def over_readers(theta: Floats, V: Floats, at: Indices) -> tuple[Floats, Floats, Floats, Floats]:
    """θ̄_m, (M,), and what V_R, (M, M), C and V_fix, (S, M, M), are sums of.

    `at` is the column of each reader under each condition, (R, M), −1 where there is none.
    """
    M = at.shape[1]
    T, R, (C, F) = np.zeros(M), np.zeros((M, M)), np.zeros((2, len(V), M, M))
    for m, k in np.ndindex(M, M):
        r, q = (np.flatnonzero(at[:, of] >= 0) for of in (m, k))
        a, b, both = at[r, m], at[q, k], np.intersect1d(r, q)
        T[m] = theta[a].mean()
        W = V[:, a][:, :, b]
        F[:, m, k] = W.mean(axis=(1, 2))
        # of one reader alone: its own
        other = (r[:, None] != q) | (len(r) == len(q) == len(both) == 1)
        C[:, m, k] = W[:, other].mean(axis=1)
        if len(both) > 1:
            pair = np.cov(theta[at[both, m]], theta[at[both, k]])
            R[m, k] = len(both) / (len(r) * len(q)) * pair[0, 1]
    return T, R, C, F


def contrast(
    theta: Floats, V: Floats, read: Mask, counted: list[int], random: bool, at: Indices
) -> Contrast:
    """Of one condition, or of the first of two minus the second.

    `read` says which groups of cases of truth 0 and 1, (2, C, G), have been read in a column,
    `counted` are the truths that the metric is about, `at` is as in `over_readers`.
    """
    s = np.array([1.0, -1.0])[: at.shape[1]]
    means, *pairs = over_readers(theta, V, at)
    T = float(s @ means)
    terms = [np.outer(s, s) * of for of in pairs]
    R, C, F = (of.sum(axis=(-2, -1)) for of in terms)
    # of scores that are the same, rounding is left
    C, F = (of * (np.abs(F) > 1e-12 * np.abs(terms[2]).max()) for of in (C, F))
    n = np.array([read[:, m[m >= 0]].any(axis=1).sum(axis=1) for m in at.T])
    sizes = n.max(axis=0), n[:, counted].min()
    has = (at >= 0)[:, (at >= 0).sum(axis=0) > 1]
    J = has.sum(axis=0)
    if not (random and len(J)):
        return Contrast(T, 0.0, F, F, np.inf, J[:0], *sizes)
    df = J.min() - 1.0
    if len(J) == 2 and not has.all(axis=1).any():
        # Satterthwaite's, of readers who differ
        v = terms[0].diagonal()
        df = v.sum() ** 2 / max((v**2 / (J - 1)).sum(), TINY)
    return Contrast(T, float(R), C, F, float(df), J, *sizes)


def obuchowski(theta: Floats, V: Floats, at: Indices) -> dict[str, float]:
    """Components by the names of Obuchowski and Rockette, of conditions with the same readers.

    With the covariances S of conditions over readers: mean S_mk is σ²_R + cov1 − cov3 for m ≠ k,
    and more by σ²_TR + error − cov1 − cov2 + cov3 for m = k.
    """
    J, M = at.shape
    _, R, *by_strata = over_readers(theta, V, at)
    others, every = (of.sum(axis=0) for of in by_strata)
    same = J * every - (J - 1) * others
    apart = ~np.eye(M, dtype=bool)
    means = [(of.diagonal().mean(), of[apart].mean()) for of in (same, others, J * R)]
    (error, cov1), (cov2, cov3), (S, S_mk) = np.array(means).tolist()
    found = {"error": error, "cov1": cov1, "cov2": cov2, "cov3": cov3}
    found["reader"] = S_mk - cov1 + cov3
    return found | {"condition x reader": S - S_mk - error + cov1 + cov2 - cov3}


# ---------------------------------------------------------------------------------------- intervals


def ends(q: float, whole: Contrast, parts: list[Contrast]) -> tuple[float, float]:
    """Ends of an interval at the quantile q of Student's t.

    `parts` are what the whole is, or is the difference of, on the logit scale; else none. Of a
    difference they are those of MOVER (Zou and Donner 2008).
    """
    V, df, _ = whole.spread(bool(parts))
    if len(parts) == 1:
        return _logit_ends(q, df, whole)
    if not V > 0:
        return np.nan, np.nan
    if not parts:
        return whole.estimate - q * V**0.5, whole.estimate + q * V**0.5
    a, b = (part.estimate for part in parts)
    (l1, u1), (l2, u2) = (_logit_ends(q, df, part) for part in parts)
    V_a, V_b = (part.spread().variance for part in parts)
    rho = np.clip((V_a + V_b - V) / 2 / max((V_a * V_b) ** 0.5, TINY), -1, 1)
    L = (a - l1) ** 2 + (u2 - b) ** 2 - 2 * rho * (a - l1) * (u2 - b)
    U = (u1 - a) ** 2 + (b - l2) ** 2 - 2 * rho * (u1 - a) * (b - l2)
    return a - b - float(max(L, 0.0)) ** 0.5, a - b + float(max(U, 0.0)) ** 0.5


def _logit_ends(q: float, df: float, part: Contrast) -> tuple[float, float]:
    """Of one value; where all cases are right, or wrong, Clopper and Pearson's of the scarce."""
    a = part.estimate
    V = part.spread().variance
    if V > 0 and 0 < a < 1:
        low, high = expit(logit(a) + np.array([-q, q]) * V**0.5 / (a * (1 - a))).tolist()
        return low, high
    far = float(student.sf(q, df) ** (1 / part.n_scarce))
    return (far, 1.0) if a >= 1 else (0.0, 1 - far) if a <= 0 else (np.nan, np.nan)


def interval(whole: Contrast, parts: list[Contrast], level: float) -> ConfidenceInterval:
    """The interval of a contrast; for `parts` see `ends`."""
    V, df, components = whole.spread(bool(parts))
    values = whole.estimate, *ends(float(student.ppf((1 + level) / 2, df)), whole, parts), V**0.5
    J = int(whole.J.min()) if len(whole.J) else None
    made = {"confidence_level": level, "df": df, "components": components, "n_raters": J}
    return ConfidenceInterval(*values, **made)


def tail(point: float, whole: Contrast, parts: list[Contrast]) -> float:
    """One-sided p-value of `point` or less: the level at which an end of the interval is there."""

    def above(q: float) -> float:
        return ends(abs(q), whole, parts)[int(q < 0)] - point

    low = above(_FARTHEST)
    high = above(-_FARTHEST)
    if not low < 0 < high:
        return np.nan if np.isnan(low) else float(low < 0)
    q = brentq(above, -_FARTHEST, _FARTHEST, xtol=1e-12, maxiter=1000)
    return float(student.sf(q, whole.spread(bool(parts)).df))
