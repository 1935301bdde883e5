"""How readers tilt class probabilities: the fit of their effects, and a reader not yet met.

    P(a_r = k | Q) ∝ Q_k exp(b_rk),   b_rk ~ N(0, τ²),   posterior weights of Q ∝ w Π_r P(a_r | Q)

Letters: S nodes of Q in each of n samples, K classes, R readers, T labels.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from .._utils.arrays import Floats, Indices
from .._utils.search import lbfgs
from .._utils.simplex import EPS, row_sum

# Probabilities of classes of this many labels and nodes are in memory at a time.
_BLOCK = 2**20
# The least and the largest τ that is looked for, logits.
_SPREADS = (0.01, 5.0)
# The largest slope of a label's loss where a search ends, nats.
_TOLERANCE = 1e-7


class Ratings(NamedTuple):
    """Who said what of samples whose class probabilities are known as weighted nodes.

    Attributes
    ----------
    Q : ndarray of shape (S, n, K)
    log_w : ndarray of shape (S, n)
        Log-weights of the nodes.
    indptr : ndarray of shape (n + 1,)
        Where the labels of each sample begin.
    reader, label : ndarray of shape (T,)
        Numbers of the reader and of the class of each label.
    weight : ndarray of shape (n,)
        Weights of the samples.
    n_readers : int
    """

    Q: Floats
    log_w: Floats
    indptr: Indices
    reader: Indices
    label: Indices
    weight: Floats
    n_readers: int

    @property
    def row(self) -> Indices:
        """The sample of each label, shape (T,)."""
        return np.repeat(np.arange(len(self.weight)), np.diff(self.indptr))

    def blocks(self) -> Iterator["Ratings"]:
        """Some samples at a time: what is made of them stays small."""
        most = int(np.diff(self.indptr).max())
        step = max(1, _BLOCK // (self.Q.shape[0] * self.Q.shape[2] * most))
        for start in range(0, len(self.weight), step):
            rows = slice(start, start + step)
            indptr = self.indptr[start : start + step + 1]
            ratings = slice(indptr[0], indptr[-1])
            yield self._replace(
                Q=self.Q[:, rows],
                log_w=self.log_w[:, rows],
                indptr=indptr - indptr[0],
                reader=self.reader[ratings],
                label=self.label[ratings],
                weight=self.weight[rows],
            )


def tilted(Q: Floats, b: Floats) -> Floats:
    """Q_k exp(b_k), with sum 1 over the last axis."""
    P = Q * np.exp(b - b.max(axis=-1, keepdims=True))
    P /= row_sum(P)[..., None]
    return P


def posterior(log_w: Floats, log_p: Floats, indptr: Indices) -> tuple[Floats, Floats]:
    """Weights of the nodes after labels, (S, n), and log Σ_s w_s Π_t P_ts of each sample, (n,).

    `log_p` holds log P(a_t | Q_s), shape (S, T); all samples have labels.
    """
    joint = log_w + np.add.reduceat(log_p, indptr[:-1], axis=1)
    log_likelihood = logsumexp(joint, axis=0)
    return np.exp(joint - log_likelihood), log_likelihood


class TiltProblem:
    """Mean loss of a label in the effects b of all readers, with their prior; nats.

    x is b, reader by reader, shape (R·K,).
    """

    def __init__(self, ratings: Ratings, spread: float):
        self.ratings = ratings
        self.spread = spread
        self.total = ratings.weight[ratings.row].sum()

    def solved(self, start: Floats) -> Floats:
        """The optimum, searched in units of each reader: the root of Σ p(1 − p) + 1/τ² at b = 0."""
        _, _, curvature = self.parts(np.zeros_like(start))
        scale = 1 / np.sqrt((curvature.ravel() + self.spread**-2) / self.total)

        def terms(s):
            value, slope = self.gradient(start + scale * s)
            return value, scale * slope

        return start + scale * lbfgs(terms, np.zeros_like(start), tol=_TOLERANCE)

    def gradient(self, x):
        """Value and gradient: b/τ² − Σ (1[a = k] − E p_k), over the posterior of Q."""
        value, slope, _ = self.parts(x)
        b = x / self.spread
        value += b @ b / 2
        return value / self.total, (slope.ravel() + b / self.spread) / self.total

    def parts(self, x) -> tuple[float, Floats, Floats]:
        """−log likelihood, its gradient, and Σ E p(1 − p), the last two of shape (R, K)."""
        R = self.ratings.n_readers
        K = self.ratings.Q.shape[2]
        b = x.reshape(R, K)
        value = 0.0
        slope = np.zeros((R, K))
        curvature = np.zeros((R, K))
        for block in self.ratings.blocks():
            row, a = block.row, block.label
            P = tilted(block.Q[:, row], b[block.reader])
            log_p = np.log(np.take_along_axis(P, a[None, :, None], axis=2)[..., 0])
            w, log_likelihood = posterior(block.log_w, log_p, block.indptr)
            value -= float(block.weight @ log_likelihood)
            at = w[:, row, None]
            mean = (at * P).sum(axis=0)
            weight = block.weight[row, None]
            push = weight * mean
            push[np.arange(len(a)), a] -= weight[:, 0]
            width = weight * (at * P * (1 - P)).sum(axis=0)
            for k in range(K):
                slope[:, k] += np.bincount(block.reader, push[:, k], minlength=R)
                curvature[:, k] += np.bincount(block.reader, width[:, k], minlength=R)
        return value, slope, curvature

    def evidence(self, x) -> float:
        """Log likelihood with b integrated out, by Laplace; 0 is that of no effects at all.

        log det(1 + τ²H) of a reader, exact for two classes and for even probabilities.
        """
        value, _, h = self.parts(x)
        b = x / self.spread
        K = h.shape[1]
        log_det = (K - 1) / K * np.log1p(self.spread**2 * h * K / (K - 1)).sum()
        nothing, _, _ = self.parts(np.zeros_like(x))
        return nothing - value - b @ b / 2 - log_det / 2


def fit_effects(ratings: Ratings, spread: float | None) -> tuple[Floats, float]:
    """b, shape (R, K), and τ: that given, or that of the largest evidence; 0 if there is none."""
    shape = (ratings.n_readers, ratings.Q.shape[2])
    ratings = ratings._replace(Q=np.maximum(ratings.Q, EPS))
    b = np.zeros(shape).ravel()
    if spread == 0:
        return b.reshape(shape), 0.0
    if spread is not None:
        return TiltProblem(ratings, spread).solved(b).reshape(shape), spread
    nearest = {"b": b}

    def loss(log_spread):
        problem = TiltProblem(ratings, np.exp(log_spread))
        # each search begins where the last one ended
        nearest["b"] = problem.solved(nearest["b"])
        return -problem.evidence(nearest["b"])

    near = {"xatol": 0.02}
    best = minimize_scalar(loss, bounds=np.log(_SPREADS), method="bounded", options=near)
    if best.fun >= 0:
        return np.zeros(shape), 0.0
    spread = float(np.exp(best.x))
    return TiltProblem(ratings, spread).solved(nearest["b"]).reshape(shape), spread


class NewReader:
    """Class probabilities of a reader not yet met, E tilted(Q, b) over b_k ~ N(0, τ²).

    b_k plus a Gumbel variable has the distribution function F. Which class has the largest
    log Q_k + b_k + Gumbel is the label, so that

        P(k) = ∫ dF(x − u_k) Π_{j≠k} F(x − u_j),   u = log Q,

    whatever the number of classes; by the trapezoidal rule, to about 1e-6.
    """

    def __init__(self, spread: float):
        self.spread = spread
        low, high = -4 - 7 * spread, 18 + 7 * spread
        self.x = np.arange(low, high, 0.6)
        v = np.arange(low - 1, high + 1, 0.05)
        e, w = np.polynomial.hermite_e.hermegauss(61)
        shifted = v[:, None] - spread * e
        log_F = logsumexp(-np.exp(-shifted), b=w / w.sum(), axis=1)
        log_f = logsumexp(-shifted - np.exp(-shifted), b=w / w.sum(), axis=1)
        self.top = high
        self.log_F = CubicSpline(v, log_F)
        # d log F / dx
        self.log_rate = CubicSpline(v, log_f - log_F)

    def __call__(self, Q: Floats) -> Floats:
        """Of class probabilities, any shape with the classes last."""
        flat = Q.reshape(-1, Q.shape[-1])
        step = max(1, _BLOCK // (flat.shape[1] * len(self.x)))
        parts = [self._block(flat[i : i + step]) for i in range(0, len(flat), step)]
        return np.concatenate(parts).reshape(Q.shape)

    def _block(self, Q: Floats) -> Floats:
        possible = Q > 0
        u = np.log(np.where(possible, Q, 1.0))
        best = np.where(possible, u, -np.inf).max(axis=1, keepdims=True)
        v = (best - u)[..., None] + self.x
        # both fall as exp(−v) from there on
        beyond = np.maximum(v - self.top, 0.0)
        v = np.minimum(v, self.top)
        log_F = np.where(possible[..., None], self.log_F(v) * np.exp(-beyond), 0.0)
        log_p = self.log_rate(v) - beyond + log_F.sum(axis=1)[:, None]
        p = np.where(possible, np.exp(log_p).sum(axis=2), 0.0)
        return p / row_sum(p)[:, None]
