"""Coordinates in which the Hessian of matrix scaling is nearly 1.

Letters: u log-probabilities (n, K), ũ = (u, 1), n label counts of the rows with sum 1, p the
probabilities of the map, θ_k the row of (W, b) of class k.
"""

from collections.abc import Callable

import numpy as np
from scipy.linalg import lapack

from .._ground.arrays import Floats
from .._ground.simplex import row_sum
from ._affine import with_ones

# Classes above which the blocks of the Hessian are approximated.
_EXACT = 30
# Classes above which one block serves all.
_OWN_BLOCKS = 300

Array = Floats


def class_blocks(u: Array, n: Array, p: Array) -> Array:
    """H_k = Σ w_k ũũᵀ with w_k = n p_k (1−p_k), shape (K or 1, K+1, K+1).

    With many classes Σ w_k ũũᵀ = Σ w_k (μ_k μ_kᵀ + C), by class μ_k, the mean of ũ, and by a common
    covariance C. With very many, one mean serves all.
    """
    K = p.shape[1]
    ones = with_ones(u)
    w = n[:, None] * p * (1 + 1e-12 - p)
    if K <= _EXACT:
        H = np.stack([ones.T @ (w[:, k : k + 1] * ones) for k in range(K)])
        return H + 1e-3 / K * H.sum(axis=0)
    common = ones.T @ (row_sum(w)[:, None] * ones)
    if K > _OWN_BLOCKS:
        return (1 / K + 1e-3 / K) * common[None]
    s = np.einsum("ij->j", w)
    mu = (w.T @ ones) / np.maximum(s, 1e-300)[:, None]
    C = (common - mu.T @ (s[:, None] * mu)) / s.sum()
    # A part of the common one, for classes that are hardly predicted.
    share = np.column_stack([s, np.full(K, 1e-3 / K)])
    H = (share @ np.stack([C.ravel(), common.ravel()])).reshape(K, K + 1, K + 1)
    H += (s[:, None] * mu)[:, :, None] * mu[:, None, :]
    return H


def preconditioner(u: Array, n: Array, p: Array, curvature: Array) -> Array:
    """A_k, shape (K or 1, K+1, K+1), with A_kᵀ (H_k + curvature_k) A_k = 1."""
    H = class_blocks(u, n, p)
    if len(H) == 1:
        curvature = curvature.mean(axis=0, keepdims=True)
    small = 1e-9 * np.trace(H, axis1=1, axis2=2)[:, None] / p.shape[1]
    np.einsum("kii->ki", H)[:] += curvature + small
    return np.stack([lapack.dtrtri(factor.T)[0] for factor in np.linalg.cholesky(H)])


def shifted_coordinates(x: Array, A: Array, curvature: Array) -> tuple[Callable, Callable, int]:
    """θ_k + A_k s_k + B t in place of θ_k: x of (s, t), the gradient in (s, t), their length.

    A shift of all θ_k alike costs nothing but penalty. t, though redundant, gives it a scale of
    its own.
    """
    K = len(curvature)
    split = curvature.size
    theta = x.reshape(K, -1)
    common = curvature.sum(axis=0)
    free = common > 0
    B = np.where(free, 1 / np.sqrt(np.where(free, common, 1.0)), 0.0)

    def position(s):
        moved = np.matmul(A, s[:split].reshape(K, -1, 1))[:, :, 0]
        return (theta + moved + B * s[split:]).ravel()

    def pulled(slope):
        G = slope.reshape(K, -1)
        return np.append(np.matmul(G[:, None, :], A).ravel(), B * G.sum(axis=0))

    return position, pulled, split + len(B)
