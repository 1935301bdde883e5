"""Coordinates in which the Hessian of matrix scaling is nearly 1.

Letters: u log-probabilities (n, K), ũ = (u, 1), n label counts of the rows with sum 1, p the
probabilities of the map, θ_k the row of (W, b) of class k.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh, lapack

from .._ground.arrays import Floats
from .._ground.simplex import row_sum
from ._affine import with_ones

# Classes above which the blocks of the Hessian are approximated.
_EXACT = 30
# Of the trace: what makes a block positive definite.
_RIDGE = 1e-9
# Of the common block, in that of each class.
_SHARE = 1e-3

Array = Floats


class Blocks(NamedTuple):
    """Of few classes: a factor for each, with H_k = Σ w_k ũũᵀ."""

    A: Array

    @staticmethod
    def information(ones: Array, w: Array) -> tuple[Array]:
        """H_k; a part of the common block is for classes that are hardly predicted."""
        K = w.shape[1]
        H = np.stack([ones.T @ (w[:, k : k + 1] * ones) for k in range(K)])
        H += _SHARE / K * H.sum(axis=0)
        small = _RIDGE * np.trace(H, axis1=1, axis2=2)[:, None] / K
        np.einsum("kii->ki", H)[:] += small
        return (H,)

    @classmethod
    def of(cls, H: Array, curvature: Array) -> "Blocks":
        """From the blocks without their curvature."""
        H = H.copy()
        np.einsum("kii->ki", H)[:] += curvature
        return cls(np.stack([lapack.dtrtri(factor.T)[0] for factor in np.linalg.cholesky(H)]))

    @property
    def log_det(self) -> float:
        """Σ_k log det A_k."""
        return float(np.log(np.einsum("kii->ki", self.A)).sum())

    def applied(self, s: Array) -> Array:
        """A_k s_k, shape (K, K+1)."""
        return np.matmul(self.A, s[:, :, None])[:, :, 0]

    def pulled(self, G: Array) -> Array:
        """A_kᵀ G_k, shape (K, K+1)."""
        return np.matmul(G[:, None, :], self.A)[:, 0]


class CommonBlock(NamedTuple):
    """Of many classes: a common covariance C, and the mean μ_k of each class.

    H_k = s_k (C + μ_k μ_kᵀ), s_k = Σ w_k, with the curvature D but for entry k, where it is less by
    δ_k. V with Vᵀ(C + D)V = 1 and VᵀCV = Λ makes diagonals of C and D. The rest is of rank 2, in
    the span of Q_k:

        A_k = V g_k (1 + Q_k M_k Q_kᵀ),  g_k = (s_k Λ + 1 − Λ)^(−½)
    """

    V: Array
    g: Array
    Q: Array
    M: Array

    @property
    def log_det(self) -> float:
        """Σ_k log det A_k."""
        common = len(self.g) * np.linalg.slogdet(self.V)[1]
        own = np.linalg.slogdet(np.eye(2) + self.M)[1].sum()
        return float(common + np.log(self.g).sum() + own)

    @staticmethod
    def information(ones: Array, w: Array) -> tuple[Array, Array, Array]:
        """s, √s_k μ_k and C."""
        K = w.shape[1]
        s = np.einsum("ij->j", w)
        mu = (w.T @ ones) / np.maximum(s, 1e-300)[:, None]
        C = ones.T @ (row_sum(w)[:, None] * ones)
        C -= mu.T @ (s[:, None] * mu)
        np.einsum("ii->i", C)[:] += _RIDGE * np.trace(C)
        C /= s.sum()
        mu *= np.sqrt(s)[:, None]
        s += _SHARE / K * s.sum()
        return s, mu, C

    @classmethod
    def of(cls, s: Array, mu: Array, C: Array, curvature: Array) -> "CommonBlock":
        """From what the rows know, weighted with their uncertainty, and the curvature."""
        K = len(s)
        D = np.median(curvature, axis=0)
        delta = D[:K] - np.einsum("kk->k", curvature[:, :K])
        L, V = eigh(C, C + np.diag(D), check_finite=False)
        g = (np.multiply.outer(s, L) + np.maximum(1 - L, 0.0)) ** -0.5
        # (s_k C + D)^(−½) of √s_k μ_k and of √δ_k e_k; the second is taken away.
        a = g * (mu @ V)
        b = g * np.sqrt(np.maximum(delta, 0.0))[:, None] * V[:K]
        Q, R = _orthonormal(a, b)
        values, vectors = np.linalg.eigh(R @ np.diag([1.0, -1.0]) @ R.swapaxes(1, 2))
        # Above −1, but for rounding, as D_k is not negative.
        values = np.maximum(1 + values, 1e-6) ** -0.5 - 1
        return cls(V, g, Q, (vectors * values[:, None, :]) @ vectors.swapaxes(1, 2))

    def _own(self, s: Array) -> Array:
        """(1 + Q_k M_k Q_kᵀ) s_k."""
        along = np.einsum("kij,kj->ki", self.M, np.einsum("kij,kj->ki", self.Q, s))
        return s + np.einsum("kij,ki->kj", self.Q, along)

    def applied(self, s: Array) -> Array:
        """A_k s_k, shape (K, K+1)."""
        return (self.g * self._own(s)) @ self.V.T

    def pulled(self, G: Array) -> Array:
        """A_kᵀ G_k, shape (K, K+1)."""
        return self._own(self.g * (G @ self.V))


def _orthonormal(a: Array, b: Array) -> tuple[Array, Array]:
    """Q (K, 2, p) and R (K, 2, 2) of a_k = R_11 q_1 and b_k = R_12 q_1 + R_22 q_2."""
    Q = np.stack([a, b], axis=1)
    R = np.zeros((len(a), 2, 2))
    R[:, 0, 0] = _scaled_to_one(Q[:, 0])
    # Twice, as the first time leaves what rounding makes of parallels.
    for _ in range(2):
        share = np.einsum("ki,ki->k", Q[:, 0], Q[:, 1])
        Q[:, 1] -= share[:, None] * Q[:, 0]
        R[:, 0, 1] += share
    R[:, 1, 1] = _scaled_to_one(Q[:, 1])
    return Q, R


def _scaled_to_one(q: Array) -> Array:
    """The lengths of the rows of q, which are scaled to 1 in place."""
    size = np.sqrt(np.einsum("ki,ki->k", q, q))
    q /= np.maximum(size, 1e-300)[:, None]
    return size


class Information(NamedTuple):
    """What rows know of each class, H_k, of few or of many classes: it serves any penalty."""

    made: Callable[..., Blocks | CommonBlock]
    parts: tuple

    @classmethod
    def of(cls, u: Array, n: Array, p: Array) -> "Information":
        """w_k = n p_k (1−p_k) are the weights of the rows in H_k."""
        kind: Any = Blocks if p.shape[1] <= _EXACT else CommonBlock
        w = n[:, None] * p * (1 + 1e-12 - p)
        return cls(kind.of, kind.information(with_ones(u), w))

    def factors(self, curvature: Array) -> Blocks | CommonBlock:
        """A_k with A_kᵀ (H_k + curvature_k) A_k = 1; the curvature has shape (K, K+1)."""
        return self.made(*self.parts, curvature)


def shifted_coordinates(
    x: Array, A: Blocks | CommonBlock, curvature: Array
) -> tuple[Callable, Callable, int]:
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
        moved = A.applied(s[:split].reshape(K, -1))
        return (theta + moved + B * s[split:]).ravel()

    def pulled(slope):
        G = slope.reshape(K, -1)
        return np.append(A.pulled(G).ravel(), B * G.sum(axis=0))

    return position, pulled, split + len(B)
