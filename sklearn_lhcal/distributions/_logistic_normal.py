"""Logistic-normal distribution of two classes: what a Gaussian process classifier predicts."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit, logsumexp, ndtri, xlog1py

from .._ground.checks import as_floats
from ._base import (
    Distribution,
    PointMass,
    frozen,
    in_columns,
    tails,
)
from ._likelihood import log_coefficient
from ._mixture import Ensemble, Mixture

_LARGEST_SCALE = 1e4
_BLOCK = 2**18  # nodes at a time
_FINER = 5  # members of a posterior's ensemble for each node that its mean needs: for its intervals
_DEPTH = 40.0  # nodes of a posterior end where its density is e^-40 of its peak


class LogisticNormal(Distribution):
    """Logistic-normal distribution of two classes: z = (1 − σ(g), σ(g)) with Gaussian log-odds g.

    Moments and entropies come from the trapezoidal rule in g, whose error falls faster than any power of its step; they
    are exact to about 1e-13. (Gauss–Hermite nodes are not: at a variance of 100, 32 of them give E[H] = .097 for .128.)

    Parameters
    ----------
    loc : array-like of shape (n,)
        Mean of the log-odds of the second class.
    scale : float or array-like of shape (n,)
        Standard deviation of the log-odds, between 0 and 1e4.

    Raises
    ------
    ValueError
        Lengths that differ, NaN or infinite values, a scale out of its range.

    Notes
    -----
    A posterior after more labels is no logistic-normal distribution. It is an `Ensemble` of weighted nodes, close
    enough together for exact moments; the ends of its intervals are nodes, a tenth of a standard deviation apart.

    Examples
    --------
    >>> d = LogisticNormal([0.0, 2.0], [10.0, 0.1])
    >>> d.mean().round(4)
    array([[0.5   , 0.5   ],
           [0.1196, 0.8804]])
    >>> d.posterior([[2, 3], [2, 3]]).mean().round(4)
    array([[0.401 , 0.599 ],
           [0.1211, 0.8789]])
    """

    def __init__(self, loc: ArrayLike, scale: ArrayLike):
        m, s = as_floats(loc, "loc"), as_floats(scale, "scale")
        if m.ndim != 1 or s.shape not in ((), m.shape):
            raise ValueError(f"loc must have shape (n,), and scale the same or none, got {m.shape} and {s.shape}.")
        if not np.isfinite(m).all() or not ((s >= 0) & (s <= _LARGEST_SCALE)).all():
            raise ValueError(f"loc must be finite, and scale between 0 and {_LARGEST_SCALE:g}.")
        self._m, self._s = frozen(m), frozen(np.broadcast_to(s, m.shape))
        self._columns, self._n_classes = [0, 1], 2

    def _in(self, columns, n_classes: int) -> "LogisticNormal":
        self._columns, self._n_classes = columns, n_classes
        return self

    def _take(self, rows):
        return LogisticNormal(self._m[rows], self._s[rows])._in(self._columns, self._n_classes)

    def __len__(self):
        return len(self._m)

    @property
    def n_classes(self) -> int:
        """K: 2, unless embedded into more classes."""
        return self._n_classes

    @property
    def loc(self) -> NDArray[np.float64]:
        """Mean of the log-odds, shape (n,)."""
        return self._m

    @property
    def scale(self) -> NDArray[np.float64]:
        """Standard deviation of the log-odds, shape (n,)."""
        return self._s

    def _average(self, f, *per_row) -> NDArray[np.float64]:
        """E[f(g, …)], shape (n, number of values), by the trapezoidal rule on m ± 9s, step at most min(s, 1)/2.

        The step is s/2^k: rows of one k share their nodes in units of s, and no row depends on the others. `per_row`
        holds arrays of shape (n,), which f takes after g.
        """
        k = np.ceil(np.log2(2 * np.maximum(self._s, 1))).astype(int)
        out = None
        for halvings in np.unique(k):
            t = np.arange(-9 * 2**halvings, 9 * 2**halvings + 1) / 2.0**halvings
            w = np.exp(-(t**2) / 2)
            w /= w.sum()
            rows = np.flatnonzero(k == halvings)
            step = max(1, _BLOCK // len(t))
            for block in (rows[i : i + step] for i in range(0, len(rows), step)):
                g = self._m[block, None] + self._s[block, None] * t
                values = [np.einsum("ij,j->i", v, w) for v in f(g, *(a[block, None] for a in per_row))]
                out = np.empty((len(self), len(values))) if out is None else out
                out[block] = np.stack(values, axis=1)
        return out

    def _mean(self):
        return self._average(lambda g: (expit(-g), expit(g)))

    def _deviations(self):
        """E[δ] and E[δ²] of δ = σ(g) − σ(m), shape (n, 2)."""
        return self._average(lambda g, m: ((d := _difference(g, m)), d**2), self._m)

    def mean(self):
        return in_columns(self._mean(), self._columns, self._n_classes)

    def variance(self):
        first, second = self._deviations().T
        var = np.maximum(second - first**2, 0.0)
        return in_columns(np.stack([var, var], axis=1), self._columns, self._n_classes)

    def disagreement(self, pairs=None):
        if pairs is not None:
            return super().disagreement(pairs)
        return 2 * self._average(lambda g: (expit(g) * expit(-g),))[:, 0]

    def class_disagreement(self):
        phi = self.disagreement()
        return in_columns(np.stack([phi, phi], axis=1), self._columns, self._n_classes)

    def expected_entropy(self):
        return self._average(lambda g: (np.abs(g) * expit(-np.abs(g)) - log_expit(np.abs(g)),))[:, 0]

    def mutual_information(self):
        """Σ_k E[z_k]·E[(1+r)·log(1+r) − r], r = z_k/E[z_k] − 1: a divergence, whose terms are all at least 0."""
        z, shift = self._mean(), self._deviations()[:, 0]

        def divergence(g, m, shift, z0, z1):
            d = _difference(g, m) - shift
            yield from (z * _excess(sign * d / np.where(z > 0, z, np.inf)) for sign, z in ((-1, z0), (1, z1)))

        return self._average(divergence, self._m, shift, z[:, 0], z[:, 1]).sum(axis=1)

    def _mean_after(self, k):
        if k not in self._columns:
            return self.mean()
        sign = 1 if list(self._columns).index(k) else -1
        z = self._average(lambda g: (expit(-g) * expit(sign * g), expit(g) * expit(sign * g)))
        total = z.sum(axis=1, keepdims=True)
        z = np.where(total > 0, z / np.where(total > 0, total, 1.0), self._mean())
        return in_columns(z, self._columns, self._n_classes)

    def _posterior(self, y) -> Ensemble:
        """An `Ensemble` at the nodes."""
        y, possible = self._own_labels(y)
        g, log_w = _posterior_nodes(self._m, self._s, *np.where(possible, y, 0.0), _FINER)
        z = np.stack([expit(-g), expit(g)], axis=-1).reshape(-1, 2)
        return Mixture.of(PointMass.of_checked(in_columns(z, self._columns, self._n_classes)), log_w)

    def _log_prob(self, labels):
        y, possible = self._own_labels(labels)
        out = np.empty(len(self))
        for i in range(0, len(self), 1024):
            rows = slice(i, i + 1024)
            out[rows] = logsumexp(_posterior_nodes(self._m[rows], self._s[rows], *y[:, rows], 1)[1], axis=0)
        return log_coefficient(labels) + np.where(possible, out, -np.inf)

    def _own_labels(self, y):
        """Labels of the two classes, shape (2, n), and whether the row has none of a class of probability 0."""
        own = y[:, list(self._columns)].T
        return own, own.sum(axis=0) == y.sum(axis=1)

    def _interval(self, level):
        q = ndtri(tails(level))
        g = self._m[:, None] + self._s[:, None] * q
        ends = expit(np.stack([-g[:, ::-1], g], axis=1))
        return np.stack([in_columns(ends[..., i], self._columns, self._n_classes) for i in (0, 1)], axis=2)

    def _embed(self, columns, n_classes):
        columns = np.asarray(columns)[list(self._columns)].tolist()
        return LogisticNormal(self._m, self._s)._in(columns, n_classes)

    @classmethod
    def _joined(cls, batches):
        m, s = (np.concatenate([getattr(b, a) for b in batches]) for a in ("_m", "_s"))
        if len({(*b._columns, b._n_classes) for b in batches}) > 1:
            raise ValueError("Logistic-normal distributions of different classes cannot be joined.")
        return cls(m, s)._in(batches[0]._columns, batches[0]._n_classes)

    def _sample(self, n_draws, rng):
        g = self._m + self._s * rng.standard_normal((n_draws, len(self)))
        z = np.stack([expit(-g), expit(g)], axis=-1).reshape(-1, 2)
        return in_columns(z, self._columns, self._n_classes).reshape(n_draws, len(self), -1)


def _difference(a, b):
    """σ(a) − σ(b), exact where they are close, or both close to 0 or to 1."""
    return np.sign(a - b) * -np.expm1(-np.abs(a - b)) * expit(np.maximum(a, b)) * expit(-np.minimum(a, b))


def _excess(r):
    """(1 + r)·log(1 + r) − r for r ≥ −1: r²/2 − r³/6 + r⁴/12 − …, exact near 0."""
    k = np.arange(2, 15)
    small = np.clip(r, -0.05, 0.05)
    series = small**2 * np.polynomial.polynomial.polyval(small, (-1.0) ** k / (k * (k - 1)))
    large = np.maximum(r, -1.0)
    return np.where(np.abs(r) < 0.05, series, xlog1py(1 + large, large) - large)


def _posterior_nodes(m, s, y0, y1, finer: int):
    """Nodes of g ~ N(m, s²) after y0 and y1 labels, and log-weights that sum to log ∫ σ(−g)^y0 σ(g)^y1 p(g) dg.

    Both of shape (S, n), evenly spaced in t = (g − m)/s from where the density has fallen to e^-40 of its peak to where
    it has again. The step is half the least width of the density between these ends, or less.
    """

    def log_density(t):
        g = m + s * t
        return y1 * log_expit(g) + y0 * log_expit(-g) - t**2 / 2 - np.log(2 * np.pi) / 2

    n = y0 + y1
    low, high = -s * y0, s * y1
    for _ in range(80):  # the peak, where s·(y1 − nσ(g)) = t
        t = (low + high) / 2
        rising = s * (y1 - n * expit(m + s * t)) > t
        low, high = np.where(rising, t, low), np.where(rising, high, t)
    peak, floor = (low + high) / 2, log_density((low + high) / 2) - _DEPTH
    ends = []
    for sign in (-1, 1):  # log p is concave, and at least as curved as that of a normal distribution
        near, far = np.zeros_like(peak), np.full_like(peak, np.sqrt(2 * _DEPTH))
        for _ in range(50):
            t = (near + far) / 2
            alive = log_density(peak + sign * t) > floor
            near, far = np.where(alive, t, near), np.where(alive, far, t)
        ends.append(peak + sign * far)
    a, b = ends
    steepest = np.clip(0.0, m + s * a, m + s * b)
    curvature = 1 + s**2 * n * expit(steepest) * expit(-steepest)
    h = 0.5 / np.maximum(np.sqrt(curvature), s) / finer
    S = int(np.ceil(((b - a) / h).max())) + 1
    t = a + (b - a) * np.linspace(0, 1, S)[:, None]
    return m + s * t, log_density(t) + np.log((b - a) / (S - 1))
