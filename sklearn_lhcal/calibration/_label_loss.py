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
from .._ground.simplex import log_softmax, row_sum
from ._affine import AffineMap

# Logits beyond which exponentials could leave the range of floats; below, maxima are not needed.
_LARGE = 80
# Rows of which the floor has everything.
_TINY = 1e-300

Array = Floats


def plain(family: AffineMap, u: Array, v: Array, n: Array, curved: bool) -> tuple:
    """Of points without a floor, and without what the labels add: −θ·Σ Jᵀy and its gradient.

    v = u' is overwritten.
    """
    F = 0.0
    if max(v.max(), -v.min()) > _LARGE:
        most = v.max(axis=1, keepdims=True)
        F = float(n @ most[:, 0])
        v -= most
    p = np.exp(v, out=v)
    Z = row_sum(p)
    p /= Z[:, None]
    F += float(n @ np.log(Z))
    if not curved:
        p *= n[:, None]
        return F, family.pulled_sum(u, p), 0.0
    P = family.pulled(u, p)
    root = np.sqrt(n)
    P *= root[:, None]
    p *= n[:, None]
    # H = Σ n Jᵀ(diag p − p pᵀ)J
    H = family.diagonal(u, p)
    H -= P.T @ P
    return F, root @ P, 0.0, H, 0.0, 0.0


def floored(family: AffineMap, u: Array, v: Array, y: Array, floor, eta: float, curved: bool):
    """The loss of points whose map has a floor, and its derivatives."""
    i, k = np.nonzero(y)
    y_seen = y[i, k]
    v = v - v.max(axis=1, keepdims=True)
    log_p = v[i, k]
    p = np.exp(v, out=v)
    Z = row_sum(p)
    p /= Z[:, None]
    log_p -= np.log(Z)[i]
    log_rest = log_expit(-eta) + log_p
    log_z = np.logaddexp(log_rest, log_expit(eta) + np.log(floor)[k])
    r = np.exp(log_rest - log_z)
    F = -float(y_seen @ log_z)
    yr = np.zeros_like(p)
    yr[i, k] = y_seen * r
    n_r = row_sum(yr)
    e = expit(eta)
    n = y_seen.sum()
    G = family.pulled_sum(u, n_r[:, None] * p - yr)
    # ∂ log z_k/∂η = (1 − r_k) − e
    by_eta = float(y_seen @ r) - (1 - e) * n
    if not curved:
        return F, G, by_eta
    # c = y r (1−r): that a label does not say whether it comes from the map or from the floor.
    c = np.zeros_like(p)
    c[i, k] = y_seen * r * (1 - r)
    C = row_sum(c)
    M = np.maximum(n_r + C, _TINY)
    # The Hessian in u' is diag(n_r p − c) − M q qᵀ + c cᵀ/M with q = p − c/M.
    Q = family.pulled(u, p - c / M[:, None]) * np.sqrt(M)[:, None]
    D = family.pulled(u, c) / np.sqrt(M)[:, None]
    H = family.diagonal(u, n_r[:, None] * p - c) - Q.T @ Q + D.T @ D
    cross = family.pulled_sum(u, c - C[:, None] * p)
    return F, G, by_eta, H, cross, e * (1 - e) * n - float(C.sum())


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
    G = family.pulled_sum(u, n_r[:, None] * p - yr)
    by_eta = float(n_r.sum()) - (1 - e) * n
    if not curved:
        return F, G, by_eta
    P = family.pulled(u, p) * np.sqrt(n_r)[:, None]
    H = family.diagonal(u, n_r[:, None] * p) - P.T @ P
    return F, G, by_eta, H, np.zeros(len(G)), e * (1 - e) * n
