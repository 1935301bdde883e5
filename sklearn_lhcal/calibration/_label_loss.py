"""Sums over a block of rows that the log loss of an affine map and its derivatives are made of.

z = (1−e) Σ_s w_s p_s + e π over the members s of an ensemble, of which a point prediction has one;
p = softmax(u'), u' = W u + b. Letters: y counts times row weights (m, K), n = Σ_k y_k,
r_sk = (1−e) w_s p_sk / z_k the share of a member in the probability of a label, e = σ(η), J and θ
as in `_affine`. The loss is F = −Σ y log z.

Gradients are tuples (F, ∂F/∂θ, ∂F/∂η). Hessians follow with ∂²F/∂θ², ∂²F/∂θ∂η, ∂²F/∂η².
"""

import numpy as np
from scipy.special import expit, log_expit, logsumexp

from .._ground.arrays import Floats
from .._ground.simplex import log_softmax, row_max, row_sum
from ._affine import AffineMap, FlooredLabels

# Logits beyond which exponentials could leave the range of floats, half of that in float32; below,
# maxima are not needed.
_LARGE = 80
# Logits below the best of a row are no lower: squares of their exponentials stay floats, as what
# leaves their range takes long.
LEAST = -300.0
# Rows of which the floor has everything.
_TINY = 1e-300

Array = Floats


def plain(family: AffineMap, u: Array, v: Array, n: Array, curved: bool) -> tuple:
    """Of points without a floor, and without what the labels add: −θ·Σ Jᵀy and its gradient.

    v = u' is overwritten.
    """
    F = 0.0
    if _is_large(v):
        most = row_max(v)
        F = float(n @ most)
        v -= most[:, None]
    e = np.exp(v, out=v)
    Z = row_sum(e)
    F += float(n @ np.log(Z))
    if not curved:
        return F, family.pulled_sum(u, e, n / Z), 0.0
    G, H = family.softmax_sums(u, e, Z, n)
    return F, G, 0.0, H, 0.0, 0.0


def _is_large(v: Array) -> bool:
    """Whether exponentials could leave the range of floats."""
    return bool(max(v.max(), -v.min()) > _LARGE * v.itemsize / 8)


def floored(family: AffineMap, u: Array, v: Array, labels, floor, eta: float, curved: bool):
    """The loss of points whose map has a floor, and its derivatives; v = u' is overwritten.

    Labels are rows i, classes k and shares y (L,), of pairs that have labels: mostly few; and
    whether a row has labels of this class alone.
    """
    i, k, y, is_alone = labels
    n_rows = len(u)
    v -= row_max(v)[:, None]
    log_p = v[i, k]
    exp_v = np.exp(np.maximum(v, LEAST, out=v), out=v)
    Z = row_sum(exp_v)
    log_p -= np.log(Z)[i]
    log_rest = log_expit(-eta) + log_p
    log_z = np.logaddexp(log_rest, log_expit(eta) + np.log(floor)[k])
    r = np.exp(log_rest - log_z)
    F = -float(y @ log_z)
    a = y * r
    n_r = np.bincount(i, a, n_rows)
    from_labels = family.label_sum(u, (i, k, a))
    e = expit(eta)
    n = y.sum()
    # ∂ log z_k/∂η = (1 − r_k) − e
    by_eta = float(a.sum()) - (1 - e) * n
    if not curved:
        return F, family.pulled_sum(u, exp_v, n_r / Z) - from_labels, by_eta
    # c = y r (1−r): that a label does not say whether it comes from the map or from the floor.
    c = a * (1 - r)
    C = np.bincount(i, c, n_rows)
    M = np.maximum(n_r + C, _TINY)
    # The Hessian in u' is diag(n_r p − c) − M q qᵀ + c cᵀ/M with q = p − c/M.
    # Of a row with labels of one class c cᵀ/M is diagonal.
    on_diagonal = c - is_alone * c**2 / M[i]
    are_alone = bool(is_alone.all())
    of_labels = FlooredLabels(i, k, c, on_diagonal, are_alone)
    from_map, from_q, H = family.floored_sums(u, exp_v, Z, n_r, M, of_labels)
    if not are_alone:
        several = np.unique(i[~is_alone])
        dense = np.zeros_like(u)
        dense[i, k] = c
        D = family.pulled(u[several], dense[several] / np.sqrt(M)[several, None])
        H += D.T @ D
    # Σ Jᵀ(c − C p), as M q = (n_r + C) p − c
    cross = from_map - from_q
    return F, from_map - from_labels, by_eta, H, cross, e * (1 - e) * n - float(C.sum())


def mixed(family: AffineMap, u: Array, v: Array, y: Array, log_w, floor, eta, curved: bool):
    """Of an ensemble, u and v of shape (m, S, K), with a floor or without (η = −∞).

    The Hessian is that of the complete data, which say which member a label comes from.
    """
    log_p = log_softmax(v)
    log_parts = log_p + log_w[:, :, None] + log_expit(-eta)
    log_z = logsumexp(log_parts, axis=1)
    if floor is not None:
        log_z = np.logaddexp(log_z, log_expit(eta) + np.log(floor))
    F = -float(np.einsum("ij,ij->", y, log_z))
    yr = y[:, None] * np.exp(log_parts - log_z[:, None])
    u, p, yr = (a.reshape(-1, a.shape[-1]) for a in (u, np.exp(log_p), yr))
    n_r = row_sum(yr)
    e = expit(eta)
    n = y.sum()
    G = family.pulled_sum(u, n_r[:, None] * p - yr, np.ones(len(u)))
    by_eta = float(n_r.sum()) - (1 - e) * n
    if not curved:
        return F, G, by_eta
    P = family.pulled(u, p) * np.sqrt(n_r)[:, None]
    H = family.diagonal(u, n_r[:, None] * p) - P.T @ P
    return F, G, by_eta, H, np.zeros(len(G)), e * (1 - e) * n
