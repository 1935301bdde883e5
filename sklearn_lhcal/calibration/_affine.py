"""The affine maps of logits u' = W u + b in four shapes: value, gradient and Hessian of the log loss in closed form.

A shape holds its parameters as one vector x; `start` changes nothing. Letters: u log-probabilities (n, K), y counts
times row weights (n, K), with sum 1, n = Σ_k y_k, Z = Σ_k exp(u'_k), p = exp(u')/Z, q = n p. The loss is per label,
Σ n log Z − Σ y u', with the penalties of P1 eq. (47) and (48). Its gradient in the linear parameters θ is a statistic
of q, Σ q ∂u'/∂θ, less the same of y, called S.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor, nn

from .._ground.simplex import row_sum
from .._ground.threads import sum_over_rows
from ..neural_network import Newton

_BLOCK = 2**17  # numbers of a block: it stays in cache
_SAMPLE = 200_000  # logits above which a start is the optimum of a part of the rows, 10 a parameter at least
_EXACT = 30  # classes above which the blocks of the Hessian are approximated
_OWN_BLOCKS = 300  # classes above which one preconditioner serves all
Result = tuple[float, NDArray[np.float64], NDArray[np.float64]]
Objective = Callable[[NDArray[np.float64]], Result]


class AffineMap(ABC):
    """One shape of the map for K classes."""

    def __init__(
        self, n_classes: int, off_diagonal_penalty: float = 0.0, bias_penalty: float = 0.0
    ):
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
    def objective(self, u: NDArray, y: NDArray) -> Objective:
        """Loss per label with penalties, gradient (P,) and Hessian (P, P), as a function of x."""

    def start_for(self, u: NDArray, y: NDArray) -> NDArray[np.float64]:
        """x of the best temperature of a part of the rows, where softmax is not saturated."""
        step = -(-u.size // _SAMPLE)
        return self.start(np.exp(TemperatureMap(self.K).newton(u[::step], y[::step], Newton())[0]))

    def newton(
        self, u: NDArray, y: NDArray, solver: Newton, verbose: int = 0
    ) -> NDArray[np.float64]:
        """The optimum x by Newton's method, on a part of the rows first."""
        x = self.start_for(u, y)
        step = -(-len(u) // max(_SAMPLE // self.K, 10 * len(x)))
        if step > 1:
            x = solver.minimize(self.objective(u[::step], y[::step]), x)
        return solver.minimize(self.objective(u, y), x, verbose=verbose)

    def penalty(self, W, b):
        """λ_w·ΣW_offdiag²/(K(K−1)) + λ_b·mean(b²)."""
        value = 0.0
        if self.bias_penalty and b is not None:
            value = value + self.bias_penalty * (b**2).mean()
        if self.off_diagonal_penalty and W.ndim == 2:
            off = (W**2).sum() - (W.diagonal() ** 2).sum()
            value = value + self.off_diagonal_penalty * off / (self.K * (self.K - 1))
        return value

    def sums(self, statistic: Callable, x: NDArray, u: NDArray, y: NDArray, n: NDArray) -> list:
        """The loss without penalties, and the sums over rows of the tuple that `statistic(u, n, p)` returns."""
        W, b = self.affine(x)

        def block(rows):
            a, m = u[rows], n[rows]
            v = transform(a, W, b)
            if (
                max(v.max(), -v.min()) > 80
            ):  # else no exponential leaves the range of float32, and maxima are slow
                v -= v.max(axis=1, keepdims=True)
            labels = float(np.einsum("ij,ij->", y[rows], v))
            p = np.exp(v, out=v)
            Z = row_sum(p)
            p /= Z[:, None]
            return float(m @ np.log(Z)) - labels, *statistic(a, m, p)

        return sum_over_rows(block, len(u), max(_BLOCK // self.K, 64))


def transform(u, W, b):
    """W u + b, for W as a matrix, a diagonal or a number."""
    v = u @ W.T if W.ndim == 2 else u * W
    if b is not None:
        v += b
    return v


def _normalised(y):
    """y with sum 1, and n."""
    y = y / y.sum()
    return y, row_sum(y)


class TemperatureMap(AffineMap):
    """u' = βu, x = (log β,): positive by construction; the loss is convex in β = 1/T."""

    def start(self, beta=1.0):
        return np.log([beta])

    def start_for(self, u, y):
        return self.start()

    def affine(self, x, xp=np):
        return xp.exp(x[0]), None

    def objective(self, u, y):
        y, n = _normalised(y)
        S = np.einsum("ij,ij->", y, u)

        def moments(a, n, p):  # Σ n E_p[u], Σ n Var_p(u)
            p *= a
            m = row_sum(p)
            return n @ m, n @ (np.einsum("ij,ij->i", p, a) - m * m)

        def loss(x):
            beta = np.exp(x[0])
            F, m, H = self.sums(moments, x, u, y, n)
            G = m - S
            return F, np.array([beta * G]), np.array([[beta * beta * H + beta * G]])

        return loss


class BiasCorrectedMap(AffineMap):
    """u' = βu + c, x = (log β, c): the loss is convex in (β, c) = (1/T, b/T)."""

    def start(self, beta=1.0):
        return np.append(np.log(beta), np.zeros(self.K))

    def affine(self, x, xp=np):
        return xp.exp(x[0]), x[1:]

    def objective(self, u, y):
        y, n = _normalised(y)
        S = np.append(np.einsum("ij,ij->", y, u), y.sum(axis=0))

        def moments(a, n, p):  # the gradient's and the Hessian's in (β, c)
            q, m = n[:, None] * p, np.einsum("ij,ij->i", p, a)
            qa, q1 = q * a, q.sum(axis=0)
            H = np.empty((1 + self.K, 1 + self.K))
            H[0, 0] = np.einsum("ij,ij->", qa, a) - n @ (m * m)
            H[0, 1:] = H[1:, 0] = qa.sum(axis=0) - m @ q
            H[1:, 1:] = np.diag(q1) - q.T @ p
            return np.append(n @ m, q1), H

        def loss(x):
            D = np.append(np.exp(x[0]), np.ones(self.K))  # dβ/d log β
            F, G, H = self.sums(moments, x, u, y, n)
            G = D * (G - S)
            H *= D[:, None] * D
            H[0, 0] += G[0]
            return F, G, H

        return loss


class VectorMap(AffineMap):
    """u' = v∘u + b, x = (v, b)."""

    def start(self, beta=1.0):
        return np.append(np.full(self.K, beta), np.zeros(self.K))

    def affine(self, x, xp=np):
        return x[: self.K], x[self.K :]

    def objective(self, u, y):
        y, n = _normalised(y)
        K, S = self.K, np.append(np.einsum("ij,ij->j", y, u), y.sum(axis=0))
        curvature = np.repeat([0.0, 2 * self.bias_penalty / self.K], K)

        def moments(a, n, p):
            q = np.sqrt(n)[:, None] * np.concatenate([p * a, p], axis=1)
            H = -(q.T @ q)  # of one array: half the products
            q *= np.sqrt(n)[:, None]
            G = np.einsum("ij->j", q)  # Σ q u and Σ q
            cross = np.diag(G[:K])
            H += np.block(
                [[np.diag(np.einsum("ij,ij->j", q[:, :K], a)), cross], [cross, np.diag(G[K:])]]
            )
            return G, H

        def loss(x):
            F, G, H = self.sums(moments, x, u, y, n)
            return F + self.penalty(*self.affine(x)), G - S + curvature * x, H + np.diag(curvature)

        return loss


class MatrixMap(AffineMap):
    """u' = W u + b, x = the rows θ_k of (W, b); ũ = (u, 1)."""

    def start(self, beta=1.0):
        return np.column_stack([beta * np.eye(self.K), np.zeros(self.K)]).ravel()

    def affine(self, x, xp=np):
        x = x.reshape(self.K, self.K + 1)
        return x[:, : self.K], x[:, self.K]

    def objective(self, u, y):
        y, n = _normalised(y)
        S, curvature = _moments(u, y).ravel(), self._curvature().ravel()

        def moments(a, n, p):
            q, a = n[:, None] * p, _with_ones(a)
            Z = (p[:, :, None] * a[:, None, :]).reshape(len(a), -1)
            H = -(Z.T @ (n[:, None] * Z))
            for k in range(self.K):  # the blocks of one class: Σ q_k ũũᵀ
                own = slice(k * (self.K + 1), (k + 1) * (self.K + 1))
                H[own, own] += a.T @ (q[:, k : k + 1] * a)
            return (q.T @ a).ravel(), H

        def loss(x):
            F, G, H = self.sums(moments, x, u, y, n)
            return F + self.penalty(*self.affine(x)), G - S + curvature * x, H + np.diag(curvature)

        return loss

    def _curvature(self):
        """Second derivatives of the penalties in (W, b), shape (K, K+1)."""
        off = 2 * self.off_diagonal_penalty / max(self.K * (self.K - 1), 1) * (1 - np.eye(self.K))
        return np.column_stack([off, np.full(self.K, 2 * self.bias_penalty / self.K)])

    def minimize(self, u, y, max_iter: int = 5000, tol: float = 1e-7) -> NDArray[np.float64]:
        """The optimum by preconditioned L-BFGS, from the best temperature of a part of the rows.

        The first iterations are in float32, which is twice as fast; the last ones, preconditioned anew, decide.
        """
        step = -(-u.size // _SAMPLE)
        part = u[::step], *_normalised(y[::step])
        theta = self.start_for(u, y).reshape(self.K, -1)
        y, n = _normalised(y)
        S = _moments(u, y)
        options = {"maxiter": max_iter, "maxfun": 2 * max_iter, "maxcor": 20}
        for dtype, accuracy in (
            (np.float32, {"gtol": 1e-4, "ftol": 1e-8}),
            (np.float64, {"gtol": tol, "ftol": 1e-16}),
        ):
            A = self._preconditioner(theta, *part)
            rows = [a.astype(dtype, copy=False) for a in (u, y, n)]
            theta, n_iter = self._descend(theta, A, *rows, S, options | accuracy)
        if n_iter >= max_iter:
            warnings.warn(
                f"L-BFGS stopped after {max_iter} iterations; raise the penalties, or use solver=LBFGS(max_iter=…).",
                ConvergenceWarning,
                stacklevel=2,
            )
        return theta.ravel()

    def _descend(self, theta, A, u, y, n, S, options):
        """L-BFGS on (x, s), where the Hessian is nearly 1, θ_k + A_k x_k + B s in place of θ_k: optimum and iterations.

        A shift of all θ_k alike costs nothing but penalty; s, though redundant, gives it a scale of its own.
        """
        K, curvature = self.K, self._curvature()
        common = curvature.sum(axis=0)
        B = np.where(common > 0, 1 / np.sqrt(np.where(common > 0, common, 1.0)), 0.0)
        split = K * (K + 1)

        def moments(a, n, p):
            p *= n[:, None]
            return p.T @ a, np.einsum("ij->j", p)

        def at(x):
            return theta + np.matmul(A, x[:split].reshape(K, -1, 1))[:, :, 0] + B * x[split:]

        def loss(x):
            t = at(x)
            F, *G = self.sums(moments, t.astype(u.dtype), u, y, n)
            G = np.column_stack(G) - S + curvature * t
            gradient = np.append(np.matmul(G[:, None, :], A).ravel(), B * G.sum(axis=0))
            return F + 0.5 * (curvature * t**2).sum(), gradient

        found = minimize(
            loss, np.zeros(split + K + 1), jac=True, method="L-BFGS-B", options=options
        )
        return at(found.x), found.nit

    def _preconditioner(self, theta, u, y, n):
        """A_k, shape (K or 1, K+1, K+1), with A_kᵀ H_k A_k = 1, H_k = Σ w_k ũũᵀ + the penalties' curvature.

        w_k = q_k(1−p_k) at θ. With many classes Σ w_k ũũᵀ = Σ w_k (μ_k μ_kᵀ + C), by class μ_k, the mean of ũ, and by a
        common covariance C; with very many, one mean serves all.
        """
        K, curvature = self.K, self._curvature()

        def exact(a, n, p):
            w, a = n[:, None] * p * (1 + 1e-12 - p), _with_ones(a)
            return (np.stack([a.T @ (w[:, k : k + 1] * a) for k in range(K)]),)

        def pooled(a, n, p):
            w, a = n[:, None] * p * (1 + 1e-12 - p), _with_ones(a)
            return np.einsum("ij->j", w), w.T @ a, a.T @ (row_sum(w)[:, None] * a)

        if K <= _EXACT:
            _, H = self.sums(exact, theta, u, y, n)
            common = H.sum(axis=0)
        else:
            _, s, M, common = self.sums(pooled, theta, u, y, n)
            mu = M / np.maximum(s, 1e-300)[:, None]
            C = (common - M.T @ mu) / s.sum()
            H = (
                s[:, None, None] * (mu[:, :, None] * mu[:, None, :] + C)
                if K <= _OWN_BLOCKS
                else common[None] / K
            )
        if K > _OWN_BLOCKS:
            curvature = curvature.mean(axis=0, keepdims=True)
        H = H + 1e-3 / K * common  # for classes that are hardly predicted
        H += (curvature + 1e-9 * np.trace(H, axis1=1, axis2=2)[:, None] / K)[:, :, None] * np.eye(
            K + 1
        )
        return np.stack([lapack.dtrtri(factor.T)[0] for factor in np.linalg.cholesky(H)])


def _with_ones(u):
    """ũ = (u, 1)."""
    return np.column_stack([u, np.ones(len(u), dtype=u.dtype)])


def _moments(u, y):
    """Σ y ũᵀ, shape (K, K+1)."""
    return np.column_stack([y.T @ u, y.sum(axis=0)])


class AffineModule(nn.Module):
    """The same map for torch: logits (n, K), or (n, S, K) with log-weights (n, S), to log-probabilities (n, K)."""

    def __init__(self, shape: AffineMap, beta: float = 1.0):
        super().__init__()
        self.shape = shape
        self.x = nn.Parameter(torch.as_tensor(shape.start(beta)))

    def forward(self, logits: Tensor, log_weights: Tensor | None = None) -> Tensor:
        log_z = torch.log_softmax(transform(logits, *self.shape.affine(self.x, torch)), dim=-1)
        return (
            log_z if log_weights is None else torch.logsumexp(log_z + log_weights[..., None], dim=1)
        )

    def penalty(self):
        """What the training loop adds to the loss."""
        return self.shape.penalty(*self.shape.affine(self.x, torch))
