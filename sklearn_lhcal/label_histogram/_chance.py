"""Agreement of raters beyond chance: one observed agreement, and several chances.

Letters: y_ik counts, n_i raters and μ̂_i shares of sample i, w_i weights of samples, S similarity
of classes, π class shares, p_r those of rater r.
"""

import warnings
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning

from .._utils.arrays import Floats
from .._utils.checks import as_floats, check_finite
from .._utils.distances import Distance, half_squares, points
from .._utils.names import numbers_of
from .._utils.types import ArrayLike
from ._annotations import Annotations
from ._labels import Labels, read_labels, weight_of

Similarity = Literal["nominal", "ordinal", "linear", "quadratic", "interval"] | ArrayLike


class _Labelled(NamedTuple):
    """Labels and weights of samples: all that agreement depends on."""

    labels: Labels
    weight: Floats
    scale: int = 0


def score(value: Callable, y, weights, sample_weight, **options) -> float:
    """What a public function does: read, check, return."""
    labels = read_labels(y)
    labels.warn_if_adjudicated()
    w = weight_of(labels, None, y, sample_weight)
    w = np.ones(len(labels)) if w is None else w
    found = float(value(_Labelled(labels, w), weights=weights, **options))
    if np.isnan(found):
        warnings.warn(
            "Agreement is undefined and set to NaN: no sample with a positive weight has two "
            "labels, or all labels are of one class.",
            UndefinedMetricWarning,
            stacklevel=3,
        )
    return found


def fleiss(rows, *, weights: Similarity) -> float:
    """The coefficient of ``p_e = πᵀSπ``, with the mean π of μ̂_i over the samples with a rater."""
    S = similarity(weights, rows.labels)
    pi = _mean_shares(rows)
    return _beyond(float(pi @ S @ pi), _observed(rows, S))


def gwet(rows, *, weights: Similarity) -> float:
    """The coefficient of ``p_e = ΣS/(K(K − 1)) Σ_k π_k(1 − π_k)``, of the same π."""
    S = similarity(weights, rows.labels)
    pi = _mean_shares(rows)
    K = len(pi)
    if K == 1:
        return float("nan")
    p_e = float(S.sum() / (K * (K - 1)) * (pi * (1 - pi)).sum())
    return _beyond(p_e, _observed(rows, S))


def conger(rows, *, weights: Similarity) -> float:
    """The coefficient of ``p_e = [(Σp_r)ᵀS(Σp_r) − Σ p_rᵀSp_r] / (R(R − 1))``.

    That is two different raters, a sample each.
    """
    S = similarity(weights, rows.labels)
    p = _rater_shares(rows)
    R = len(p)
    if R < 2:
        return float("nan")
    total = p.sum(axis=0)
    p_e = float(total @ S @ total - np.einsum("rk,kl,rl->", p, S, p)) / (R * (R - 1))
    return _beyond(p_e, _observed(rows, S))


def cohen(rows, *, weights: Similarity) -> float:
    """`conger` for two raters, or for one, where it is NaN."""
    R = len(_rater_shares(rows))
    if R > 2:
        raise ValueError(
            f"cohen_kappa is of two raters, y has {R}; use conger_kappa for any number of raters."
        )
    return conger(rows, weights=weights)


def _beyond(p_e: float, p_a: float) -> float:
    """``(p_a − p_e)/(1 − p_e)``; where all labels are of one class nothing is beyond chance."""
    if not p_e < 1 - 1e-12:
        return float("nan")
    return (p_a - p_e) / (1 - p_e)


def _mean_shares(rows) -> Floats:
    """π, shape (K,): the mean of μ̂_i over the samples with a rater."""
    w = np.where(rows.labels.n > 0, rows.weight, 0.0)
    return w @ np.nan_to_num(rows.labels.mu) / (w.sum() or np.nan)


def observed_agreement(rows, *, weights: Similarity) -> float:
    """p_a for weights of any form."""
    return _observed(rows, similarity(weights, rows.labels))


def _observed(rows, S: Floats) -> float:
    """``p_a = mean_i Σ_k y_ik ((yS)_ik − 1) / (n_i(n_i − 1))`` over samples with two raters."""
    several = rows.labels.n > 1
    w = rows.weight[several]
    if not w.sum() > 0:
        return float("nan")
    mu = rows.labels.mu[several]
    n = rows.labels.n[several]
    return float(np.average(_of_rows(mu, n, S), weights=w))


def _of_rows(mu, n, S: Floats) -> Floats:
    """p_a of each sample, (n,): q is the agreement of two draws with replacement."""
    q = np.einsum("ik,kl,il->i", mu, S, mu, optimize=True)
    return q - (1 - q) / (n - 1)


def agreement_terms(rows, *, weights: Similarity) -> tuple[Floats, Floats]:
    """Numerators and denominators of p_a, for samples with two raters or more."""
    S = similarity(weights, rows.labels)
    return rows.weight * _of_rows(rows.labels.mu, rows.labels.n, S), rows.weight


def _rater_shares(rows) -> Floats:
    """``p_r``, shape (R, K): the class shares of each rater with a label."""
    labels = _annotated(rows.labels)
    K = labels.shape[1]
    R = len(labels.raters)
    w = rows.weight[labels.row]
    p = np.bincount(labels.rater * K + labels.label, weights=w, minlength=R * K).reshape(R, K)
    given = p.sum(axis=1)
    return p[given > 0] / given[given > 0, None]


def _annotated(labels: Labels) -> Annotations:
    """Labels that say who gave them; others are refused."""
    if not isinstance(labels, Annotations):
        raise TypeError(
            "This coefficient needs to know who said what: y must be Annotations, got counts or "
            "labels. fleiss_kappa and gwet_ac need no names."
        )
    return labels


def alpha(rows, *, weights: Similarity, distance: Distance) -> float:
    """``1 − D_o/D_e``, over samples with two raters or more."""
    labels = rows.labels
    B = points(distance, labels.shape[1], labels.classes, labels.graded)
    if B is not None and not (isinstance(weights, str) and weights == "nominal"):
        raise ValueError("Give weights or a distance, not both.")
    if labels.known:
        raise ValueError("krippendorff_alpha needs finitely many raters; give counts.")
    several = (labels.n > 1) & (rows.weight > 0)
    if not several.any():
        return float("nan")
    y = labels.counts[several]
    n = labels.n[several]
    w = np.ldexp(rows.weight[several], rows.scale)
    N = w @ n
    if not N > 1:
        raise ValueError(
            f"sample_weight repeats samples: all labels weigh {N:.3g}, no more than one."
        )
    Y = w @ y
    delta = 1 - similarity(weights, labels) if B is None else half_squares(B)
    if isinstance(weights, str) and weights == "ordinal":
        delta = _ordinal_distances(Y)
    D_o = (w / (n - 1)) @ np.einsum("ik,kl,il->i", y, delta, y, optimize=True) / N
    D_e = Y @ delta @ Y / (N * (N - 1))
    if not D_e > 0:
        return float("nan")
    return float(1 - D_o / D_e)


def _ordinal_distances(Y: Floats) -> Floats:
    """``δ_kl = (Σ_{g=k..l} Y_g − (Y_k + Y_l)/2)²``: how many labels lie between."""
    middle = np.cumsum(Y) - Y / 2
    return (middle[:, None] - middle) ** 2


def similarity(weights: Similarity, labels: Labels) -> Floats:
    """How alike two classes are, shape (K, K): 1 on the diagonal, less elsewhere."""
    K = labels.shape[1]
    if not isinstance(weights, str):
        return _checked(as_floats(weights, "weights"), K)
    if weights not in ("nominal", "ordinal", "linear", "quadratic", "interval"):
        raise ValueError(
            "weights must be 'nominal', 'ordinal', 'linear', 'quadratic' (or 'interval') or a "
            f"matrix, got {weights!r}."
        )
    if weights == "nominal" or K == 1:
        return np.eye(K)
    numbers = None if labels.classes is None else numbers_of(labels.classes)
    if not labels.has_order:
        raise ValueError(
            f"weights={weights!r} needs an order of the classes, but {labels.classes.tolist()[:20]}"
            " are text: make the labels an ordered Categorical, or give Annotations classes=[...], "
            "or pass counts without names, y.to_numpy(), whose columns are in order."
        )
    place = np.arange(K, dtype=np.float64)
    if numbers is not None and weights != "ordinal":
        place = numbers.astype(np.float64)
    distance = np.abs(place[:, None] - place)
    if weights == "ordinal":
        # pairs among the classes from k to l
        pairs = distance * (distance + 1) / 2
        return 1 - pairs / pairs.max()
    power = 1 if weights == "linear" else 2
    return 1 - (distance / distance.max()) ** power


def _checked(S: Floats, K: int) -> Floats:
    """The user's similarities, refused unless they are symmetric with 1 on the diagonal."""
    if S.shape != (K, K):
        raise ValueError(f"weights must have shape ({K}, {K}), one row a class, got {S.shape}.")
    check_finite(S, "weights")
    if not np.array_equal(S, S.T) or (np.diag(S) != 1).any() or (S > 1).any():
        raise ValueError(
            "weights must be a symmetric matrix of similarities, 1 on the diagonal and at most 1 "
            "elsewhere."
        )
    return S
