"""The affine maps of logits u' = W u + b in four shapes: value, gradient and Hessian of the log loss in closed form.

A shape holds its parameters as one vector x; `start` changes nothing. Letters: u log-probabilities (n, K), y counts
times row weights (n, K), n = Σ_k y_k, p = softmax(u'), r = n p − y the residual. The loss is per label, with the
penalties of P1 eq. (47) and (48).
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor, nn

from .._simplex import row_sum

_BLOCK = 2**16  # numbers of a block: it stays in cache
_OWN_BLOCKS = 300  # classes above which one preconditioner serves all
Result = tuple[float, NDArray[np.float64], NDArray[np.float64]]


class AffineMap(ABC):
    """One shape of the map for K classes."""

    def __init__(self, n_classes: int, off_diagonal_penalty: float = 0.0, bias_penalty: float = 0.0):
        self.K = n_classes
        self.off_diagonal_penalty = off_diagonal_penalty
        self.bias_penalty = bias_penalty

    @abstractmethod
    def start(self, beta: float = 1.0) -> NDArray[np.float64]:
        """x of u' = βu; the identity for β = 1."""

    @abstractmethod
    def affine(self, x, xp=np):
        """(W, b) of shapes (K, K) or (K,) for a diagonal or () for a multiple of the identity, and (K,) or None."""

    @abstractmethod
    def objective(self, x: NDArray, u: NDArray, y: NDArray) -> Result:
        """Loss per label with penalties, gradient (P,), Hessian (P, P)."""

    def penalty(self, W, b):
        """λ_w·ΣW_offdiag²/(K(K−1)) + λ_b·mean(b²)."""
        value = 0.0
        if self.bias_penalty and b is not None:
            value = value + self.bias_penalty * (b**2).mean()
        if self.off_diagonal_penalty and W.ndim == 2:
            off = (W**2).sum() - (W.diagonal() ** 2).sum()
            value = value + self.off_diagonal_penalty * off / (self.K * (self.K - 1))
        return value

    def blocks(self, x, u, y) -> Iterator[tuple[NDArray, NDArray, NDArray, NDArray, float]]:
        """(u, p, n, r, loss) of blocks of rows."""
        W, b = self.affine(x)
        size = max(_BLOCK // self.K, 64)
        for start in range(0, len(u), size):
            a, c = u[start : start + size], y[start : start + size]
            v = transform(a, W, b)
            if max(v.max(), -v.min()) > 80:  # else no exponential leaves the range of float32, and maxima are slow
                v -= v.max(axis=1, keepdims=True)
            n, loss = row_sum(c), -np.einsum("ij,ij->", c, v)
            p = np.exp(v, out=v)
            Z = row_sum(p)
            p /= Z[:, None]
            yield a, p, n, n[:, None] * p - c, loss + np.einsum("i,i->", n, np.log(Z))


def transform(u, W, b):
    """W u + b, for W as a matrix, a diagonal or a number."""
    v = u @ W.T if W.ndim == 2 else u * W
    return v if b is None else v + b


class TemperatureMap(AffineMap):
    """u' = βu, x = (log β,): positive by construction; the loss is convex in β = 1/T."""

    def start(self, beta=1.0):
        return np.log([beta])

    def affine(self, x, xp=np):
        return xp.exp(x[0]), None

    def objective(self, x, u, y):
        beta, N = np.exp(x[0]), y.sum()
        F = G = H = 0.0
        for a, p, n, r, loss in self.blocks(x, u, y):
            m = np.einsum("ij,ij->i", p, a)
            F += loss
            G += np.einsum("ij,ij->", r, a)
            H += np.einsum("i,i->", n, np.einsum("ij,ij,ij->i", p, a, a) - m * m)  # Σ n Var_p(u)
        return F / N, np.array([beta * G / N]), np.array([[beta * beta * H + beta * G]]) / N


class BiasCorrectedMap(AffineMap):
    """u' = βu + c, x = (log β, c): the loss is convex in (β, c) = (1/T, b/T)."""

    def start(self, beta=1.0):
        return np.append(np.log(beta), np.zeros(self.K))

    def affine(self, x, xp=np):
        return xp.exp(x[0]), x[1:]

    def objective(self, x, u, y):
        beta, N, K = np.exp(x[0]), y.sum(), self.K
        F, G, H = 0.0, np.zeros(1 + K), np.zeros((1 + K, 1 + K))
        for a, p, n, r, loss in self.blocks(x, u, y):
            m, q = np.einsum("ij,ij->i", p, a), n[:, None] * p
            F += loss
            G += np.append(np.einsum("ij,ij->", r, a), r.sum(axis=0))
            H[0, 0] += np.einsum("i,i->", n, np.einsum("ij,ij,ij->i", p, a, a) - m * m)
            H[0, 1:] += (q * (a - m[:, None])).sum(axis=0)
            H[1:, 1:] += np.diag(q.sum(axis=0)) - q.T @ p
        H[0, 1:] *= beta
        H[1:, 0] = H[0, 1:]
        H[0, 0] = beta * beta * H[0, 0] + beta * G[0]
        G[0] *= beta
        return F / N, G / N, H / N


class VectorMap(AffineMap):
    """u' = v∘u + b, x = (v, b)."""

    def start(self, beta=1.0):
        return np.append(np.full(self.K, beta), np.zeros(self.K))

    def affine(self, x, xp=np):
        return x[: self.K], x[self.K :]

    def objective(self, x, u, y):
        N, K, b = y.sum(), self.K, x[self.K :]
        F, G, H = 0.0, np.zeros(2 * K), np.zeros((2 * K, 2 * K))
        for a, p, n, r, loss in self.blocks(x, u, y):
            D = np.concatenate([p * a, p], axis=1)
            root = np.sqrt(n)[:, None]
            q = root * D
            F += loss
            G += np.append(np.einsum("ij,ij->j", r, a), np.einsum("ij->j", r))
            H -= q.T @ q  # of one array: half the products
            q *= root
            ones = np.einsum("ij->j", q)
            cross = np.diag(ones[:K])  # Σ n p u, Σ n p u² and Σ n p
            H += np.block([[np.diag(np.einsum("ij,ij->j", q[:, :K], a)), cross], [cross, np.diag(ones[K:])]])
        F, G, H = F / N + self.penalty(x[:K], b), G / N, H / N
        G[K:] += 2 * self.bias_penalty / K * b
        H[K:, K:] += 2 * self.bias_penalty / K * np.eye(K)
        return F, G, H


class MatrixMap(AffineMap):
    """u' = W u + b, x = the rows of (W, b)."""

    def start(self, beta=1.0):
        return np.column_stack([beta * np.eye(self.K), np.zeros(self.K)]).ravel()

    def affine(self, x, xp=np):
        x = x.reshape(self.K, self.K + 1)
        return x[:, : self.K], x[:, self.K]

    def objective(self, x, u, y):
        N, K = y.sum(), self.K
        W, b = self.affine(x)
        F, G, H = 0.0, np.zeros((K, K + 1)), np.zeros((K * (K + 1),) * 2)
        for a, p, n, r, loss in self.blocks(x, u, y):
            a = np.column_stack([a, np.ones(len(a))])
            F += loss
            G += r.T @ a
            Z = (p[:, :, None] * a[:, None, :]).reshape(len(a), -1)
            H -= Z.T @ (n[:, None] * Z)
            for k in range(K):  # the blocks of one class: Σ n p_k ũũᵀ
                own = slice(k * (K + 1), (k + 1) * (K + 1))
                H[own, own] += a.T @ ((n * p[:, k])[:, None] * a)
        curvature = self._curvature()
        G = G / N + curvature * np.column_stack([W, b])
        return F / N + self.penalty(W, b), G.ravel(), H / N + np.diag(curvature.ravel())

    def _curvature(self):
        """Second derivatives of the penalties in (W, b), shape (K, K+1)."""
        off = 2 * self.off_diagonal_penalty / max(self.K * (self.K - 1), 1) * (1 - np.eye(self.K))
        return np.column_stack([off, np.full(self.K, 2 * self.bias_penalty / self.K)])

    def minimize(self, u, y, max_iter: int = 5000, tol: float = 1e-7) -> NDArray[np.float64]:
        """The optimum by L-BFGS on (x, s), θ_k = A_k x_k + B s, where the Hessian is nearly 1.

        A shift of all θ_k alike costs nothing but penalty; s, though redundant, gives it a scale of its own. The first
        iterations are in float32, which is twice as fast; the last ones decide.
        """
        y = y / y.sum()
        curvature, A = self._curvature(), self._preconditioner(u, y)
        common = curvature.sum(axis=0)
        B = np.where(common > 0, 1 / np.sqrt(np.where(common > 0, common, 1.0)), 0.0)
        split = self.K * (self.K + 1)

        def theta(x):
            return np.matmul(A, x[:split].reshape(self.K, -1, 1))[:, :, 0] + B * x[split:]

        def objective(x, u, y):
            W_b = theta(x)
            F, G = 0.0, np.zeros_like(W_b)
            for a, _, _, r, loss in self.blocks(W_b.ravel().astype(u.dtype), u, y):
                F += float(loss)
                G[:, :-1] += r.T @ a
                G[:, -1] += r.sum(axis=0)
            G += curvature * W_b
            gradient = np.append(np.matmul(G[:, None, :], A).ravel(), B * G.sum(axis=0))
            return F + 0.5 * (curvature * W_b**2).sum(), gradient

        x = np.append(np.linalg.solve(A, self.start().reshape(self.K, -1, 1)).ravel(), np.zeros(self.K + 1))
        options = {"maxiter": max_iter, "maxfun": 2 * max_iter, "maxcor": 20}
        for dtype, accuracy in ((np.float32, {"gtol": 1e-4, "ftol": 1e-8}), (np.float64, {"gtol": tol, "ftol": 1e-16})):
            rows = u.astype(dtype, copy=False), y.astype(dtype, copy=False)
            found = minimize(objective, x, rows, jac=True, method="L-BFGS-B", options=options | accuracy)
            x = found.x
        if found.nit >= max_iter:
            warnings.warn(
                f"L-BFGS stopped after {max_iter} iterations; raise the penalties, or use solver=LBFGS(max_iter=…).",
                ConvergenceWarning,
                stacklevel=2,
            )
        return theta(x).ravel()

    def _preconditioner(self, u, y):
        """A_k of shape (K or 1, K+1, K+1) with A_kᵀ H_k A_k = 1, H_k = p̄_k·Σnũũᵀ + the penalties' curvature; Σy = 1."""
        a = np.column_stack([u, np.ones(len(u))])
        second, share = a.T @ (row_sum(y)[:, None] * a), y.sum(axis=0)
        curvature = self._curvature()
        if self.K > _OWN_BLOCKS:
            share, curvature = share.mean(keepdims=True), curvature.mean(axis=0, keepdims=True)
        H = np.maximum(share, 1e-3 / self.K)[:, None, None] * second
        H = H + (curvature + 1e-9 * np.trace(H, axis1=1, axis2=2)[:, None] / self.K)[:, :, None] * np.eye(self.K + 1)
        return np.linalg.inv(np.linalg.cholesky(H)).transpose(0, 2, 1)


class AffineModule(nn.Module):
    """The same map for torch: logits (n, K), or (n, S, K) with log-weights (n, S), to log-probabilities (n, K)."""

    def __init__(self, shape: AffineMap, beta: float = 1.0):
        super().__init__()
        self.shape = shape
        self.x = nn.Parameter(torch.as_tensor(shape.start(beta)))

    def forward(self, logits: Tensor, log_weights: Tensor | None = None) -> Tensor:
        log_z = torch.log_softmax(transform(logits, *self.shape.affine(self.x, torch)), dim=-1)
        return log_z if log_weights is None else torch.logsumexp(log_z + log_weights[..., None], dim=1)

    def penalty(self):
        """What the training loop adds to the loss."""
        return self.shape.penalty(*self.shape.affine(self.x, torch))
