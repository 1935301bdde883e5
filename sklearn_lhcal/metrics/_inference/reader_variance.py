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
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import rankdata
from scipy.stats import t as student

from ..._utils.arrays import Floats, Indices, Integers, Mask
from .two_way import Spread, over_panels

# the least number to divide by, and quantiles beyond which no p-value is told
_TINY, _FARTHEST = 1e-300, 1e6


# ------------------------------------------------------------------------------ one reader's metric


def placements(y: NDArray, score: Floats) -> tuple[float, Floats]:
    """AUC and its influences ``(V10_i − A)/n1``, ``(V01_i − A)/n0``; NaN is not read."""
    d = np.zeros(len(y))
    p, q = (~np.isnan(score) & (y == k) for k in (1, 0))
    n1, n0 = p.sum(), q.sum()
    ranks = rankdata(np.concatenate([score[p], score[q]]))
    V10 = (ranks[:n1] - rankdata(score[p])) / n0
    V01 = 1 - (ranks[n1:] - rankdata(score[q])) / n1
    A = V10.mean()
    d[p], d[q] = (V10 - A) / n1, (V01 - A) / n0
    return float(A), d


def shares(y: NDArray, call: Floats, *, k: int) -> tuple[float, Floats]:
    """Share of the cases of truth k that are called k, and its influences."""
    d = np.zeros(len(y))
    at = ~np.isnan(call) & (y == k)
    x = call[at] == k
    d[at] = (x - x.mean()) / at.sum()
    return float(x.mean()), d


INFLUENCES: dict[str, Callable] = {
    "auc": placements,
    "sensitivity": partial(shares, k=1),
    "specificity": partial(shares, k=0),
}


def left_out(metric: Callable, y: NDArray, score: Floats, *, unit: Indices) -> tuple[float, Floats]:
    """Any metric, and ``√((G − 1)/G) (T₋g − mean)`` of the G units, in whose place they stand."""
    seen = np.flatnonzero(~np.isnan(score))
    y, score, own = y[seen], score[seen], unit[seen]
    units = np.unique(own)
    T = np.array([float(metric(y[own != g], score[own != g])) for g in units])
    d = np.zeros(int(unit.max()) + 1)
    d[units] = np.sqrt(1 - 1 / len(units)) * (T - T.mean())
    return float(metric(y, score)), d


def covariances(D: Floats, seen: Mask, strata: Indices) -> Floats:
    """V of all columns, of each stratum of cases, (S, C, C), whatever is missing.

    ``V(a, b) = Σ_i d_ai d_bi / (1 − 1/n_a − 1/n_b + n_ab/(n_a n_b))``, which is DeLong's where
    nothing is.
    """
    found = []
    for k in np.unique(strata):
        d, s = D[strata == k], seen[strata == k].astype(np.float64)
        n = np.maximum(s.sum(axis=0), 1)
        factor = 1 - 1 / n[:, None] - 1 / n + s.T @ s / np.outer(n, n)
        found.append(d.T @ d / np.maximum(factor, 1e-9))
    return np.array(found)


def measured(metric: Any, y: NDArray, scores: Floats, unit: Indices) -> tuple[Floats, Floats]:
    """θ of each column, and their covariances (S, C, C); cases of a unit are not independent."""
    of = INFLUENCES.get(metric) or partial(left_out, metric, unit=unit)
    theta, d = (np.array(a) for a in zip(*(of(y, score) for score in scores.T), strict=True))
    if callable(metric):
        return theta, (d @ d.T)[None]
    D, seen, strata = d, ~np.isnan(scores.T), y
    if unit.max() + 1 < len(y):
        D, seen = (np.array([np.bincount(unit, row) for row in of]) for of in (D, seen))
        strata = np.zeros(D.shape[1], dtype=np.int64)
    return theta, covariances(D.T, seen.T > 0, strata)


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
    n_readers : float
        Readers a condition, their harmonic mean; 0 where they are fixed.
    n_cases : ndarray of shape (2,)
        Negative and positive ones, or groups of them.
    n_scarce : float
        The fewest of those that the metric is about.
    """

    estimate: float
    V_R: float
    C: Floats
    V_fix: Floats
    df_R: float
    n_readers: float
    n_cases: Floats
    n_scarce: float

    def spread(self, logits: bool = False) -> Spread:
        """V with its degrees of freedom, which cases have on the logit scale, too."""
        C, F = max(float(self.C.sum()), 0.0), max(float(self.V_fix.sum()), 0.0)
        V, _, components = over_panels(F, np.inf, [(self.V_R, F - C, 0.0, None)])
        of_cases = (V - self.V_R) ** 2 / (self.n_scarce - 1) if logits else 0.0
        noise = self.V_R**2 / self.df_R + of_cases
        return Spread(float(V), float(V**2 / noise) if noise > 0 else np.inf, components)


class Study(NamedTuple):
    """θ of each column, a reader under a condition, and their covariances V over cases.

    `unit` is the group of each case, and `counted` the truths of cases that the metric is about.
    """

    y: Integers
    seen: Mask
    unit: Indices
    theta: Floats
    V: Floats
    counted: list[int]
    random: bool

    def n_cases(self, side: dict) -> Floats:
        """Negative and positive cases, or groups of them, that were read in these columns."""
        read = self.seen[:, [*side.values()]].any(axis=1)
        return np.array([len(np.unique(self.unit[read & (self.y == k)])) for k in (0, 1)], float)

    def contrast(self, *sides: dict, random: bool = True) -> Contrast:
        """Of the first side, by reader the column, minus a second one."""
        theta, signed = self.theta, [*zip((1.0, -1.0), sides, strict=False)]
        T = sum(s * theta[[*a.values()]].mean() for s, a in signed)
        V_R, C, F = 0.0, np.zeros(len(self.V)), np.zeros(len(self.V))
        for (s, a), (t, b) in product(signed, repeat=2):
            W = s * t * self.V[:, [*a.values()]][:, :, [*b.values()]]
            other = np.array([[r != q for q in b] for r in a])
            F += W.mean(axis=(1, 2))
            # of one reader alone: its own
            C += W[:, other if other.any() else ~other].mean(axis=1)
            both = [r for r in a if r in b]
            if len(both) > 1:
                pair = np.cov(theta[[a[r] for r in both]], theta[[b[r] for r in both]])
                V_R += s * t * len(both) / (len(a) * len(b)) * pair[0, 1]
        n = np.array([self.n_cases(side) for side in sides])
        sizes = n.max(axis=0), float(n[:, self.counted].min())
        several = [a for a in sides if len(a) > 1]
        if not (random and self.random and several):
            return Contrast(float(T), 0.0, F, F, np.inf, 0.0, *sizes)
        J = np.array([len(a) for a in several])
        df = J.min() - 1.0
        if len(several) == 2 and not set(several[0]) & set(several[1]):
            # Satterthwaite's, of readers who differ
            v = np.array([theta[[*a.values()]].var(ddof=1) for a in several]) / J
            df = v.sum() ** 2 / max((v**2 / (J - 1)).sum(), _TINY)
        return Contrast(float(T), float(V_R), C, F, float(df), 1 / float(np.mean(1 / J)), *sizes)


def obuchowski(theta: Floats, V: Floats, sides: list[dict]) -> dict[str, float]:
    """Components by the names of Obuchowski and Rockette, of conditions with the same readers.

    With the covariances S of conditions over readers: mean S_mk is σ²_R + cov1 − cov3 for m ≠ k,
    and more by σ²_TR + error − cov1 − cov2 + cov3 for m = k.
    """
    columns = np.array([[side[r] for r in sides[0]] for side in sides])
    W = V.sum(axis=0)[columns[:, :, None, None], columns]
    m, r = np.eye(len(columns)) > 0, np.eye(columns.shape[1]) > 0
    S = np.cov(theta[columns])
    m4, r4 = m[:, None, :, None], r[None, :, None, :]
    masks = m4 & r4, ~m4 & r4, m4 & ~r4, ~m4 & ~r4
    error, cov1, cov2, cov3 = (float(W[at].mean()) for at in masks)
    found = {"error": error, "cov1": cov1, "cov2": cov2, "cov3": cov3}
    found["reader"] = float(S[~m].mean()) - cov1 + cov3
    more = float(S[m].mean() - S[~m].mean())
    return found | {"condition x reader": more - error + cov1 + cov2 - cov3}


# ---------------------------------------------------------------------------------------- intervals


def ends(
    q: float, estimate: float, V: float, df: float, parts: list[Contrast]
) -> tuple[float, float]:
    """Ends of an interval at the quantile q of Student's t with df.

    `parts` are what the estimate is, or is the difference of, on the logit scale; else none. Of a
    difference they are those of MOVER (Zou and Donner 2008).
    """
    if not V > 0 and len(parts) != 1:
        return np.nan, np.nan
    if not parts:
        return estimate - q * V**0.5, estimate + q * V**0.5
    (l1, u1), *others = (_logit_ends(q, df, part) for part in parts)
    if not others:
        return l1, u1
    (l2, u2), (a, b) = others[0], (part.estimate for part in parts)
    V_a, V_b = (part.spread().variance for part in parts)
    rho = np.clip((V_a + V_b - V) / 2 / max((V_a * V_b) ** 0.5, _TINY), -1, 1)
    L = (a - l1) ** 2 + (u2 - b) ** 2 - 2 * rho * (a - l1) * (u2 - b)
    U = (u1 - a) ** 2 + (b - l2) ** 2 - 2 * rho * (u1 - a) * (b - l2)
    return a - b - float(max(L, 0.0)) ** 0.5, a - b + float(max(U, 0.0)) ** 0.5


def _logit_ends(q: float, df: float, part: Contrast) -> tuple[float, float]:
    """Of one value; where all cases are right, or wrong, Clopper and Pearson's of the scarce."""
    a, V = part.estimate, part.spread().variance
    if V > 0 and 0 < a < 1:
        low, high = expit(logit(a) + np.array([-q, q]) * V**0.5 / (a * (1 - a))).tolist()
        return low, high
    far = float(student.sf(q, df) ** (1 / part.n_scarce))
    return (far, 1.0) if a >= 1 else (0.0, 1 - far) if a <= 0 else (np.nan, np.nan)


def tail(point: float, at: Callable, found: Any) -> float:
    """One-sided p-value of `point` or less: the level at which an end of it is there."""
    side, sign = (0, 1) if found.estimate > point else (1, -1)

    def beyond(q: float) -> float:
        return sign * (at(q)[side] - point)

    p = 0.0 if beyond(0.0) > 0 else 0.5 if beyond(0.0) <= 0 else np.nan
    if beyond(0.0) > 0 > beyond(_FARTHEST):
        p = float(student.sf(brentq(beyond, 0.0, _FARTHEST, xtol=1e-12), found.df))
    return p if sign == 1 else 1 - p
