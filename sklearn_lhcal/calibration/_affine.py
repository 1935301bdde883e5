"""The affine maps of logits u' = W u + b, a family for each shape of W.

Letters: K classes, u log-probabilities (n, K), θ the parameters in which u' is linear, x those in
which a search moves; J = ∂u'/∂θ, of shape (K, p) for each row. What a family knows of J suffices
for the gradient and the Hessian of any loss of u'.
"""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._ground.arrays import Floats
from .._ground.simplex import row_sum
from ..neural_network import LBFGS, Newton

Array = Floats
# Rows, classes and shares (L,) of pairs that have labels.
Labels = tuple[NDArray[np.intp], NDArray[np.intp], Array]


class FlooredLabels(NamedTuple):
    """Labels above a floor: rows, classes, c = y r (1−r), and c less what is diagonal in c cᵀ/M.

    `are_alone`: each row has labels of one class, and n c/M is what is on the diagonal.
    """

    i: NDArray[np.intp]
    k: NDArray[np.intp]
    c: Array
    on_diagonal: Array
    are_alone: bool


class AffineMap(ABC):
    """One family of maps for K classes."""

    default_solver = Newton()
    # Whether entries are so differently curved that a search needs whitened logits.
    is_whitened = False
    # Whether a search may begin in float32.
    starts_narrow = False
    # Whether x is θ: the log loss is convex in θ.
    is_linear = True

    def __init__(self, n_classes: int):
        self.K = n_classes

    @abstractmethod
    def start(self, beta: float = 1.0) -> Array:
        """x of u' = βu; the identity for β = 1."""

    @abstractmethod
    def affine(self, x, xp=np):
        """(W, b): W (K, K), or (K,) a diagonal, or () a multiple of 1; b (K,) or None."""

    @abstractmethod
    def attributes(self, x: Array) -> dict:
        """What users know the parameters by."""

    @abstractmethod
    def spread(self, beta: float, scale: float, bias: float) -> Array:
        """Standard deviations (p,) of x about `start(beta)`; infinite for what is not shrunk."""

    @abstractmethod
    def pulled(self, u: Array, a: Array) -> Array:
        """Jᵀa of each row, shape (n, p)."""

    @abstractmethod
    def diagonal(self, u: Array, a: Array) -> Array:
        """Σ Jᵀ diag(a) J over the rows, shape (p, p)."""

    @cached_property
    def is_shrunk(self) -> NDArray[np.bool_]:
        """Which parameters (p,) the strength is about: not the temperature."""
        return np.isfinite(self.spread(1.0, 1.0, 1.0))

    def published_precision(self, off_diagonal: float, bias: float) -> Array:
        """Second derivatives (p,) of P1's penalties, eq. (47), (48), nats per label."""
        raise NotImplementedError

    def pulled_sum(self, u: Array, a: Array, w: Array) -> Array:
        """Σ w Jᵀa over the rows, shape (p,)."""
        return w @ self.pulled(u, a)

    def label_sum(self, u: Array, labels: Labels) -> Array:
        """Σ Jᵀa over the rows, shape (p,), for an a that is 0 but where labels are."""
        i, k, y = labels
        a = np.zeros_like(u)
        a[i, k] = y
        return self.pulled_sum(u, a, np.ones(len(u)))

    def softmax_sums(self, u: Array, e: Array, Z: Array, n: Array) -> tuple[Array, Array]:
        """Σ n Jᵀp and Σ n Jᵀ(diag p − p pᵀ)J over the rows, for p = e/Z; e is overwritten."""
        root = np.sqrt(n)
        e *= (root / Z)[:, None]
        P = self.pulled(u, e)
        e *= root[:, None]
        H = self.diagonal(u, e)
        H -= P.T @ P
        return root @ P, H

    def floored_sums(self, u, e, Z, n, M, labels: FlooredLabels) -> tuple[Array, Array, Array]:
        """Σ n Jᵀp, Σ M Jᵀq and Σ Jᵀ(diag(n p − c) − M q qᵀ)J, where p = e/Z and q = p − c/M.

        The c on the diagonal is that of `on_diagonal`; e is overwritten.
        """
        i, k, c, on_diagonal, _ = labels
        root = np.sqrt(M)
        e *= (root / Z)[:, None]
        G = self.pulled_sum(u, e, n / root)
        a = (n / root)[:, None] * e
        a[i, k] -= on_diagonal
        H = self.diagonal(u, a)
        e[i, k] -= c / root[i]
        Q = self.pulled(u, e)
        H -= Q.T @ Q
        return G, root @ Q, H

    def linear(self, x: Array) -> Array:
        """θ of x."""
        return x

    def chain(self, x: Array, G: Array) -> Array:
        """The gradient in x from that in θ."""
        return G

    def curved_chain(self, x: Array, G: Array, H: Array) -> Array:
        """The Hessian in x from gradient and Hessian in θ."""
        return H


class _PositiveScale(AffineMap):
    """x begins with log β, θ with β: positive by construction."""

    is_linear = False

    def linear(self, x):
        theta = x.copy()
        theta[0] = np.exp(x[0])
        return theta

    def chain(self, x, G):
        slope = G.copy()
        slope[0] *= np.exp(x[0])
        return slope

    def curved_chain(self, x, G, H):
        D = np.ones(len(G))
        D[0] = np.exp(x[0])
        H = D[:, None] * H * D
        H[0, 0] += D[0] * G[0]
        return H


class TemperatureMap(_PositiveScale):
    """u' = βu, x = (log β,)."""

    starts_narrow = True

    def start(self, beta=1.0):
        return np.log([beta])

    def affine(self, x, xp=np):
        return xp.exp(x[0]), None

    def attributes(self, x):
        return {"temperature_": float(np.exp(-x[0]))}

    def spread(self, beta, scale, bias):
        return np.full(1, np.inf)

    def pulled(self, u, a):
        return np.einsum("ij,ij->i", u, a)[:, None]

    def pulled_sum(self, u, a, w):
        return (w @ np.einsum("ij,ij->i", u, a)).reshape(1)

    def diagonal(self, u, a):
        return np.einsum("ij,ij->", u * u, a).reshape(1, 1)

    def label_sum(self, u, labels):
        i, k, y = labels
        return (y @ u[i, k]).reshape(1)

    def softmax_sums(self, u, e, Z, n):
        # n times the mean and the variance of u under p, row by row
        mean, square = _moments(u, e, Z)
        return (n @ mean).reshape(1), (n @ (square - mean**2)).reshape(1, 1)

    def floored_sums(self, u, e, Z, n, M, labels):
        i, k, c, on_diagonal, _ = labels
        mean, square = _moments(u, e, Z)
        at = u[i, k]
        of_q = M * mean - np.bincount(i, c * at, len(u))
        H = n @ square - on_diagonal @ at**2 - (of_q / M) @ of_q
        return (n @ mean).reshape(1), of_q.sum().reshape(1), H.reshape(1, 1)


def _moments(u: Array, e: Array, Z: Array) -> tuple[Array, Array]:
    """Means of u and of u² under e/Z, row by row; e is overwritten."""
    e *= u
    return row_sum(e) / Z, np.einsum("ij,ij->i", e, u) / Z


class BiasCorrectedMap(_PositiveScale):
    """u' = βu + c, x = (log β, c); θ = (β, c) = (1/T, b/T)."""

    def start(self, beta=1.0):
        return np.append(np.log(beta), np.zeros(self.K))

    def affine(self, x, xp=np):
        return xp.exp(x[0]), x[1:]

    def attributes(self, x):
        T = float(np.exp(-x[0]))
        # A constant for all classes changes nothing: the mean is 0.
        return {"temperature_": T, "bias_": (x[1:] - x[1:].mean()) * T}

    def spread(self, beta, scale, bias):
        return np.append(np.inf, np.full(self.K, bias))

    def pulled(self, u, a):
        return np.column_stack([np.einsum("ij,ij->i", u, a), a])

    def pulled_sum(self, u, a, w):
        return np.append(w @ np.einsum("ij,ij->i", u, a), w @ a)

    def label_sum(self, u, labels):
        i, k, y = labels
        return np.append(y @ u[i, k], np.bincount(k, y, self.K))

    def diagonal(self, u, a):
        ua = u * a
        H = np.diag(np.append(np.einsum("ij,ij->", u, ua), np.einsum("ij->j", a)))
        H[0, 1:] = H[1:, 0] = np.einsum("ij->j", ua)
        return H


class VectorMap(AffineMap):
    """u' = v∘u + b, x = θ = (v, b)."""

    def start(self, beta=1.0):
        return np.append(np.full(self.K, beta), np.zeros(self.K))

    def affine(self, x, xp=np):
        return x[: self.K], x[self.K :]

    def attributes(self, x):
        return {"scale_": x[: self.K].copy(), "intercept_": x[self.K :].copy()}

    def spread(self, beta, scale, bias):
        return np.repeat([beta * scale, bias], self.K)

    def published_precision(self, off_diagonal, bias):
        return np.repeat([0.0, 2 * bias / self.K], self.K)

    def pulled(self, u, a):
        P = np.empty((len(u), 2 * self.K))
        np.multiply(u, a, out=P[:, : self.K])
        P[:, self.K :] = a
        return P

    def pulled_sum(self, u, a, w):
        return np.append(w @ (u * a), w @ a)

    def label_sum(self, u, labels):
        i, k, y = labels
        return self._of_labels(k, u[i, k], y)

    def diagonal(self, u, a):
        ua = u * a
        H = np.zeros((2, self.K, 2, self.K))
        # A class's factor and shift meet each other alone.
        own = np.einsum("ikjk->ijk", H)
        own[0, 0] = np.einsum("ij,ij->j", u, ua)
        own[0, 1] = own[1, 0] = np.einsum("ij->j", ua)
        own[1, 1] = np.einsum("ij->j", a)
        return H.reshape(2 * self.K, -1)

    def softmax_sums(self, u, e, Z, n):
        # The same with products that are shared: the sums of n Jᵀp stand on the diagonal too.
        root = np.sqrt(n)
        P = np.empty((len(u), 2 * self.K))
        np.multiply(e, (root / Z)[:, None], out=P[:, self.K :])
        np.multiply(u, P[:, self.K :], out=P[:, : self.K])
        G = root @ P
        second = root @ np.multiply(u, P[:, : self.K], out=e)
        return G, self._less_square(P, G, second)

    def floored_sums(self, u, e, Z, n, M, labels):
        i, k, c, on_diagonal, are_alone = labels
        root = np.sqrt(M)
        P = np.empty((len(u), 2 * self.K))
        q = P[:, self.K :]
        np.multiply(e, (root / Z)[:, None], out=q)
        q[i, k] -= c / root[i]
        np.multiply(u, q, out=P[:, : self.K])
        # Sums of n q; those of n p have t = n c/M more, those of n p − c the rest of t.
        share = n / root
        own = share @ P
        second = share @ np.multiply(u, P[:, : self.K], out=e)
        t = (n / M)[i] * c
        at = u[i, k]
        G = own + self._of_labels(k, at, t)
        if not are_alone:
            t -= on_diagonal
            own += self._of_labels(k, at, t)
            second += np.bincount(k, t * at**2, self.K)
        return G, root @ P, self._less_square(P, own, second)

    def _of_labels(self, k, at, y) -> Array:
        """Σ Jᵀy for labels of class k at logits `at`."""
        return np.append(np.bincount(k, y * at, self.K), np.bincount(k, y, self.K))

    def _less_square(self, P: Array, first: Array, second: Array) -> Array:
        """−PᵀP, and the classes' own sums of u a and a (2K,), and of u² a (K,)."""
        H = P.T @ P
        np.negative(H, out=H)
        own = np.einsum("ikjk->ijk", H.reshape(2, self.K, 2, self.K))
        own[0, 0] += second
        own[0, 1] += first[: self.K]
        own[1, 0] += first[: self.K]
        own[1, 1] += first[self.K :]
        return H


class MatrixMap(AffineMap):
    """u' = W u + b, x = θ = the rows θ_k of (W, b), so that u'_k = θ_k·ũ with ũ = (u, 1)."""

    default_solver = LBFGS(max_iter=5000, tol=1e-7)
    is_whitened = True

    def start(self, beta=1.0):
        return np.column_stack([beta * np.eye(self.K), np.zeros(self.K)]).ravel()

    def affine(self, x, xp=np):
        x = x.reshape(self.K, self.K + 1)
        return x[:, : self.K], x[:, self.K]

    def attributes(self, x):
        W, b = self.affine(x)
        return {"coef_": W.copy(), "intercept_": b.copy()}

    def spread(self, beta, scale, bias):
        # Off the diagonal the K entries of a row move a logit together as much as the one on it.
        W = np.full((self.K, self.K), beta * scale / np.sqrt(self.K))
        np.fill_diagonal(W, beta * scale)
        return np.column_stack([W, np.full(self.K, bias)]).ravel()

    def published_precision(self, off_diagonal, bias):
        pairs = max(self.K * (self.K - 1), 1)
        W = 2 * off_diagonal / pairs * (1 - np.eye(self.K))
        return np.column_stack([W, np.full(self.K, 2 * bias / self.K)]).ravel()

    def pulled(self, u, a):
        return (a[:, :, None] * with_ones(u)[:, None, :]).reshape(len(u), -1)

    def pulled_sum(self, u, a, w):
        return np.column_stack([(w[:, None] * a).T @ u, w @ a]).ravel()

    def diagonal(self, u, a):
        size = self.K + 1
        ones = with_ones(u)
        H = np.zeros((self.K * size, self.K * size))
        for k in range(self.K):
            own = slice(k * size, (k + 1) * size)
            H[own, own] = ones.T @ (a[:, k : k + 1] * ones)
        return H


def with_ones(u: Array) -> Array:
    """ũ = (u, 1)."""
    return np.column_stack([u, np.ones(len(u), dtype=u.dtype)])


def transform(u, W, b):
    """W u + b, for W as a matrix, a diagonal or a number; classes are the last axis of u."""
    v = u @ W.T if W.ndim == 2 else u * W
    if b is not None:
        v += b
    return v
