"""The affine transforms of logits u' = W u + b, a family for each shape of W; and a fitted one.

Letters: K classes, u log-probabilities (N, K), x parameters (p,) of a family, J = ∂u'/∂x of shape
(K, p) for each sample, p the probabilities softmax(u').

The Hessian of the log loss in x, `Information`, preconditions a search. With the second derivatives
d of a prior it is M = H + diag d. By Cholesky M = LLᵀ, and A = L⁻ᵀ makes AᵀMA = 1.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dtrtri
from scipy.special import expit, log_expit, log_softmax

from ..._utils.simplex import row_max, row_sum
from ..._utils.types import Floats, Mask

# Of families whose biases alone are shrunk.
BIASES = ((0.0, 0.1), (0.0, 0.3), (0.0, 1.0), (0.0, 3.0), (0.0, 10.0))
# Parameters above which the Hessian of a matrix is approximated.
MOST_EXACT = 500
# The ridge, as a share of the diagonal: some directions of the parameters change nothing.
_RIDGE = 1e-10
# Of the first part of a Hessian, from which most is subtracted where predictions are certain.
_ROUNDING = 1e-13
# The largest |log β|: the square of β times a log-probability is a float.
_MOST_LOG = 300.0
# Share of the mean weight of the classes that is added to each: some are hardly predicted.
_SHARE = 1e-3
# Quantiles at the knots of a spline (Harrell 2015, Regression modeling strategies, §2.4).
_KNOTS = (0.05, 0.23, 0.41, 0.59, 0.77, 0.95)
# Beyond such log-odds a curve is a line. Their distribution is kept in so many bins, over which
# some of it is spread: knots of few values keep apart.
_MOST_LOG_ODDS = 12.0
_N_BINS = 241
_SPREAD = 0.01


class Factor:
    """The Cholesky factor of M = LLᵀ, which preconditions a search.

    M has B blocks on its diagonal, shape (B, p/B, p/B). Its memory is overwritten.
    """

    def __init__(self, M: Floats):
        diagonal = np.einsum("bii->bi", M)
        least = _RIDGE * diagonal.max(initial=0.0) + 1e-300
        diagonal += _RIDGE * np.maximum(diagonal, least)
        self.L = np.linalg.cholesky(M)

    @property
    def log_det(self) -> float:
        """log det M."""
        return 2 * float(np.log(np.einsum("bii->bi", self.L)).sum())

    @cached_property
    def A(self) -> Floats:
        """L⁻ᵀ, block by block."""
        return np.stack([dtrtri(block.T)[0] for block in self.L])

    def times(self, t: Floats) -> Floats:
        """A t."""
        return np.matmul(self.A, t.reshape(len(self.A), -1, 1)).ravel()

    def pulled(self, g: Floats) -> Floats:
        """Aᵀg."""
        return np.matmul(g.reshape(len(self.A), 1, -1), self.A).ravel()

    def solved(self, g: Floats) -> Floats:
        """M⁻¹g."""
        return self.times(self.pulled(g))


@dataclass(frozen=True)
class Information:
    """The Hessian H of the log loss, shape (p, p)."""

    H: Floats

    def __add__(self, other: "Information") -> "Information":
        return Information(self.H + other.H)

    def factor(self, d: Floats) -> Factor:
        """The Cholesky factor of H + diag d."""
        return Factor((self.H + np.diag(d))[None])


@dataclass(frozen=True)
class ClassInformation:
    """An approximate Hessian for a matrix of many classes: a block for each sample θ_k of (W, b).

    H_k = s_k (C + μ_k μ_kᵀ) with the mean μ_k of ũ = (u, 1) under the weights w_k = n p_k (1 − p_k)
    and a covariance C that all classes share.

    Parameters
    ----------
    s : ndarray of shape (K,)
        Σ w_k over the samples.
    m : ndarray of shape (K, K+1)
        Σ w_k ũ.
    second : ndarray of shape (K+1, K+1)
        Σ_k Σ w_k ũũᵀ.
    """

    s: Floats
    m: Floats
    second: Floats

    def __add__(self, other: "ClassInformation") -> "ClassInformation":
        return ClassInformation(self.s + other.s, self.m + other.m, self.second + other.second)

    def factor(self, d: Floats) -> Factor:
        """The Cholesky factors of the blocks H_k + diag d_k."""
        mu = self.m / np.maximum(self.s, 1e-300)[:, None]
        C = (self.second - mu.T @ self.m) / self.s.sum()
        s = self.s + _SHARE * self.s.mean()
        M = mu[:, :, None] * mu[:, None, :]
        M += C
        M *= s[:, None, None]
        np.einsum("kii->ki", M)[:] += d.reshape(len(s), -1)
        return Factor(M)


class Family(ABC):
    """One family of transforms of logits for K classes."""

    # Prior standard deviations that are tried, of scales (over the temperature's) and of biases. A
    # scale of a few per cent is a small correction, of 1 any; ratios of three are as fine as a few
    # hundred samples can tell. Class frequencies may differ by orders of magnitude.
    strengths: tuple[tuple[float, float], ...] = (
        *((0.03, 0.1), (0.1, 0.3), (0.3, 1.0)),
        *((0.1, 3.0), (0.1, 10.0)),
    )

    def __init__(self, n_classes: int):
        self.K = n_classes

    def read(self, u: Floats) -> Floats:
        """What the transform makes of log-probabilities (n, K), whatever its parameters."""
        return u

    @abstractmethod
    def mapped(self, x: Floats, u: Floats) -> Floats:
        """u' of what was read, up to a constant a sample, shape (n, K)."""

    def best(self, v: Floats) -> Mask:
        """Of u', which classes a surer transform would choose, shape (n, K)."""
        return v == row_max(v)[:, None]

    @abstractmethod
    def start(self, beta: float = 1.0, c: float | Floats = 0.0) -> Floats:
        """x of u' = βu + c; the identity for β = 1."""

    def embedded(self, x: Floats) -> Floats:
        """This family's parameters for the transform at x of the family below."""
        return self.start(np.exp(x[0]), x[1:] if len(x) > 1 else 0.0)

    @abstractmethod
    def attributes(self, x: Floats) -> dict:
        """What users know the parameters by."""

    def prior_sd(self, beta: float, scale: float, bias: float) -> Floats:
        """Prior standard deviations (p,) of x about `start(beta)`; infinite if not shrunk."""
        return np.full(len(self.start()), np.inf)

    @abstractmethod
    def slope(self, x: Floats, u: Floats, a: Floats) -> Floats:
        """Σ Jᵀa over the samples, shape (p,)."""

    @abstractmethod
    def information(
        self, x: Floats, u: Floats, p: Floats, n: Floats
    ) -> Information | ClassInformation:
        """Σ n Jᵀ(diag p − p pᵀ)J over the samples."""


class AffineMap(Family):
    """Affine transforms u' = W u + b."""

    @abstractmethod
    def affine(self, x, xp=np):
        """(W, b): W (K, K), or (K,) a diagonal, or () a multiple of 1; b (K,) or None."""

    def mapped(self, x, u):
        return transform(u, *self.affine(x))


class _DiagonalMap(AffineMap):
    """Transforms u' = v∘u + b, whose v and b depend on x."""

    @abstractmethod
    def _derivatives(self, x: Floats) -> tuple[Floats, Floats]:
        """∂v/∂x and ∂b/∂x, shape (K, p) each."""

    def slope(self, x, u, a):
        V, B = self._derivatives(x)
        return np.einsum("nk,nk->k", u, a) @ V + np.einsum("nk->k", a) @ B

    def information(self, x, u, p, n):
        V, B = self._derivatives(x)
        a = n[:, None] * p
        ua = u * a
        cross = V.T @ (np.einsum("nk->k", ua)[:, None] * B)
        H = V.T @ (np.einsum("nk,nk->k", u, ua)[:, None] * V) + cross + cross.T
        H += B.T @ (np.einsum("nk->k", a)[:, None] * B)
        P = np.sqrt(n)[:, None] * ((u * p) @ V + p @ B)
        np.einsum("ii->i", H)[:] *= 1 + _ROUNDING
        return Information(H - P.T @ P)


class TemperatureMap(_DiagonalMap):
    """u' = βu, x = (log β,)."""

    def start(self, beta=1.0, c=0.0):
        return np.log([beta])

    def affine(self, x, xp=np):
        return beta_of(x, xp), None

    def attributes(self, x):
        return {"temperature_": float(np.exp(-x[0]))}

    def _derivatives(self, x):
        return np.full((self.K, 1), beta_of(x)), np.zeros((self.K, 1))


class BiasCorrectedMap(_DiagonalMap):
    """u' = βu + c, x = (log β, c); in the letters of the docstring β = 1/T and c = b/T."""

    strengths = BIASES

    def start(self, beta=1.0, c=0.0):
        return np.append(np.log(beta), np.zeros(self.K) + c)

    def affine(self, x, xp=np):
        return beta_of(x, xp), x[1:]

    def attributes(self, x):
        T = float(np.exp(-x[0]))
        # A constant for all classes changes nothing: the mean is 0.
        return {"temperature_": T, "bias_": (x[1:] - x[1:].mean()) * T}

    def prior_sd(self, beta, scale, bias):
        return np.append(np.inf, np.full(self.K, bias))

    def _derivatives(self, x):
        V = np.zeros((self.K, self.K + 1))
        V[:, 0] = beta_of(x)
        return V, np.eye(self.K, self.K + 1, 1)


class VectorMap(_DiagonalMap):
    """u' = v∘u + b, x = (v, b)."""

    def start(self, beta=1.0, c=0.0):
        return np.append(np.full(self.K, beta), np.zeros(self.K) + c)

    def affine(self, x, xp=np):
        return x[: self.K], x[self.K :]

    def attributes(self, x):
        return {"scale_": x[: self.K].copy(), "intercept_": x[self.K :].copy()}

    def prior_sd(self, beta, scale, bias):
        return np.repeat([beta * scale, bias], self.K)

    def published_precision(self, bias_penalty: float) -> Floats:
        """Second derivatives (p,) of P1's penalty λ_b mean(b²), nats per label."""
        return np.repeat([0.0, 2 * bias_penalty / self.K], self.K)

    def _derivatives(self, x):
        return np.eye(self.K, 2 * self.K), np.eye(self.K, 2 * self.K, self.K)


class MatrixMap(AffineMap):
    """u' = W u + b, x = the samples θ_k of (W, b), so that u'_k = θ_k·ũ with ũ = (u, 1)."""

    def start(self, beta=1.0, c=0.0):
        return np.column_stack([beta * np.eye(self.K), np.zeros(self.K) + c]).ravel()

    def affine(self, x, xp=np):
        x = x.reshape(self.K, self.K + 1)
        return x[:, : self.K], x[:, self.K]

    def attributes(self, x):
        W, b = self.affine(x)
        return {"coef_": W.copy(), "intercept_": b.copy()}

    def prior_sd(self, beta, scale, bias):
        # Off the diagonal the K entries of a sample move a logit together as much as the one on it.
        W = np.full((self.K, self.K), beta * scale / np.sqrt(self.K))
        np.fill_diagonal(W, beta * scale)
        return np.column_stack([W, np.full(self.K, bias)]).ravel()

    def published_precision(
        self, off_diagonal_penalty: float = 0.0, bias_penalty: float = 0.0
    ) -> Floats:
        """Second derivatives (p,) of P1's penalties, eq. (48), (49), nats per label."""
        pairs = max(self.K * (self.K - 1), 1)
        W = 2 * off_diagonal_penalty / pairs * (1 - np.eye(self.K))
        return np.column_stack([W, np.full(self.K, 2 * bias_penalty / self.K)]).ravel()

    def slope(self, x, u, a):
        return np.column_stack([a.T @ u, np.einsum("nk->k", a)]).ravel()

    def information(self, x, u, p, n):
        ones = np.column_stack([u, np.ones(len(u))])
        if len(x) > MOST_EXACT:
            w = n[:, None] * p * (1 - p)
            second = ones.T @ (row_sum(w)[:, None] * ones)
            return ClassInformation(np.einsum("nk->k", w), w.T @ ones, second)
        return _linear_information(np.broadcast_to(ones, (self.K, *ones.shape)), p, n)


class SplineMap(Family):
    """u'_k = β_k u_k + b_k + Σ_j c_kj φ_j(o_k), x = the samples θ_k of (β, b, c).

    The φ_j are natural cubic splines of the log-odds o_k = u_k − log(1 − e^{u_k}), clipped at ±12.
    The second derivative of h_j is a hat of height 1 at the inner knot t_j, and φ_j is what a line
    cannot say of it:

        h_j(o) = [(o − t_{j−1})₊³/a − (o − t_j)₊³ (1/a + 1/d) + (o − t_{j+1})₊³/d] / 6,
        φ_j = s (h_j − its regression on 1 and o),   a = t_j − t_{j−1},   d = t_{j+1} − t_j

    Beyond the outer knots φ is a line. Knots are quantiles of o over all samples and classes, under
    weights p (1 − p), and so is the regression. s gives Σ_j φ_j² the variance of o, so that c is of
    the size of a scale. One standard deviation for all c is one for the second derivatives at the
    knots. So rough directions, in which φ is small, are shrunk most.

    Parameters
    ----------
    u : ndarray of shape (n, K)
        Log-probabilities.
    weight : ndarray of shape (n,)
        Of the samples.
    """

    strengths = ((0.03, 0.1), (0.1, 0.3), (0.3, 1.0), (1.0, 3.0))

    def __init__(self, u: Floats, weight: Floats):
        super().__init__(u.shape[1])
        o = _log_odds(u)
        w = weight[:, None] * expit(o) * expit(-o)
        w, ends = np.histogram(o, _N_BINS, (-_MOST_LOG_ODDS, _MOST_LOG_ODDS), weights=w)
        w = (1 - _SPREAD) * w / w.sum() + _SPREAD / _N_BINS
        o = (ends[1:] + ends[:-1]) / 2
        t = self.knots = np.interp(_KNOTS, np.cumsum(w) - w / 2, o)
        H = np.diff(np.diff(np.eye(len(t)), axis=0) / np.diff(t)[:, None], axis=0).T / 6
        terms = _spline_terms(o, t)
        line, h = terms[:, -2:], terms[:, :-2] @ H
        wline = w * line.T
        # φ = ((o − t)₊³, 1, o) A
        self.A = np.concatenate([H, -np.linalg.solve(wline @ line, wline @ h)])
        self.A *= np.sqrt(w @ (o - w @ o) ** 2 / (w @ (terms @ self.A) ** 2).sum())

    def read(self, u):
        """(u, 1, φ) of each class, shape (K, n, 6)."""
        phi = _spline_terms(_log_odds(u.T), self.knots) @ self.A
        return np.concatenate([u.T[..., None], np.ones_like(phi[..., :1]), phi], axis=-1)

    def mapped(self, x, u):
        return np.matmul(u, x.reshape(self.K, -1, 1))[..., 0].T

    def start(self, beta=1.0, c=0.0):
        line = np.column_stack([np.full(self.K, beta), np.zeros(self.K) + c])
        return np.pad(line, ((0, 0), (0, self.A.shape[1]))).ravel()

    def attributes(self, x):
        beta, b, *c = x.reshape(self.K, -1).T
        curve = (_spline_terms(self.knots, self.knots) @ self.A @ c).T
        return {"scale_": beta, "intercept_": b, "knots_": self.knots, "curve_": curve}

    def prior_sd(self, beta, scale, bias):
        return np.where(self.start(0.0, 1.0) > 0, bias, beta * scale)

    def slope(self, x, u, a):
        return np.matmul(a.T[:, None], u).ravel()

    def information(self, x, u, p, n):
        return _linear_information(u, p, n)


def _log_odds(u: Floats) -> Floats:
    """Of log-probabilities, clipped."""
    o = u - np.log(np.maximum(-np.expm1(u), 1e-300))
    return np.clip(o, -_MOST_LOG_ODDS, _MOST_LOG_ODDS)


def _spline_terms(o: Floats, t: Floats) -> Floats:
    """(o − t)₊³, 1 and o."""
    cubes = np.maximum(o[..., None] - t, 0.0) ** 3
    return np.concatenate([cubes, np.ones_like(o)[..., None], o[..., None]], axis=-1)


def _linear_information(f: Floats, p: Floats, n: Floats) -> Information:
    """The Hessian in the samples θ_k of u'_k = θ_k·f_k, for f of shape (K, n, D)."""
    root = np.sqrt(n)[:, None] * p
    P = np.concatenate([q[:, None] * f_k for q, f_k in zip(root.T, f, strict=True)], axis=1)
    # a product with itself takes half of the time
    H = -(P.T @ P)
    for k, f_k in enumerate(f):
        own = slice(k * f.shape[2], (k + 1) * f.shape[2])
        block = f_k.T @ ((n * p[:, k])[:, None] * f_k)
        np.einsum("ii->i", block)[:] *= 1 + _ROUNDING
        H[own, own] += block
    return Information(H)


def beta_of(x, xp=np):
    """β of log β, which a search may try beyond the range of floats."""
    return xp.exp(xp.clip(x[0], -_MOST_LOG, _MOST_LOG))


def transform(u, W, b):
    """W u + b, for W as a matrix, a diagonal or a number; classes are the last axis of u."""
    v = u @ W.T if W.ndim == 2 else u * W
    if b is not None:
        v += b
    return v


class FittedMap(NamedTuple):
    """A transform with its parameters.

    Parameters
    ----------
    family : Family
    x : ndarray of shape (p,)
    pi : ndarray of shape (K,) or None
        π of z = (1−e) softmax(u') + e π.
    eta : float
        logit e.
    converged : bool
        Whether each search ended at its minimum.
    first : FittedMap, StackedMap or None
        What predicts the probabilities that are transformed, and mixes π in: e is 0 then. None: the
        classifier.
    minima : tuple of (strength, ndarray of shape (p,) or (p + 1,))
        Where the strength matters, x̂ and with mixing η. Their mean by evidence is x.
    """

    family: Family
    x: Floats
    pi: Floats | None = None
    eta: float = -np.inf
    converged: bool = True
    first: Any = None
    minima: tuple = ()

    def after(self, first) -> "FittedMap":
        """The same transform of what another predicts, which mixes π in."""
        return self._replace(pi=first.pi, first=first)

    @property
    def maps(self) -> list["FittedMap"]:
        """Itself; a stacked one has several."""
        return [self]

    def attributes(self) -> dict:
        """What users know the parameters by."""
        return self.family.attributes(self.x) | (self.first or self).of_mixture()

    def of_mixture(self) -> dict:
        """Those of the mixing."""
        if self.pi is None:
            return {}
        return {"mixing_proba_": self.pi, "mixing_weight_": float(expit(self.eta))}

    def mapped(self, u: Floats) -> Floats:
        """u' before mixing, (n, K)."""
        if self.first is not None:
            u = self.first.log_z(u)
        return self.family.mapped(self.x, self.family.read(u))

    def log_z(self, u: Floats) -> Floats:
        """Logarithms of probabilities, log((1−e) p + e π), at most 0, (n, K)."""
        log_p = log_softmax(self.mapped(u), axis=-1)
        if self.pi is None:
            return log_p
        log_e = log_expit(self.eta) + np.log(self.pi)
        return np.minimum(np.logaddexp(log_expit(-self.eta) + log_p, log_e), 0.0)
