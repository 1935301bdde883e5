"""Logistic-normal distribution of two classes: what a Gaussian process classifier predicts."""

from typing import Self

import numpy as np
from scipy.special import expit, log_expit, logsumexp, ndtri

from .._utils.arrays import in_blocks
from .._utils.checks import as_floats
from .._utils.simplex import in_columns
from .._utils.types import ArrayLike, Floats
from ._arithmetic import bennett, bisect, frozen, quotient, tails
from ._base import Distribution, PointMass
from ._likelihood import HALF_LOG_2PI, log_binomial
from ._mixture import Mixture
from ._nodes import lattice, with_mean

_LARGEST_LOC = 1e100
_LARGEST_SCALE = 1e4
# Nodes in memory at a time, and about how many each sample has where it has its own.
_BLOCK = 2**18
_NODES = 128
# Distance of the nodes in v that a posterior's mean needs. Its ensemble has so many for each, for
# its intervals. An edge is so many times more curved than the peak.
_STEP = 0.06
_FINER = 3
_EDGE = 16.0
# The nodes of a posterior end where its density is e^-40 of its peak.
_DEPTH = 40.0


class LogisticNormal(Distribution):
    """Logistic-normal distribution of two classes: z = (1 − σ(g), σ(g)) with Gaussian log-odds g.

    Moments and entropies are exact to about 1e-13. They come from the trapezoidal rule in g, whose
    error falls faster than any power of its step.

    Parameters
    ----------
    loc : array-like of shape (n,)
        Mean of the log-odds of the second class, at most 1e100 from 0.
    scale : float or array-like of shape (n,)
        Standard deviation of the log-odds, between 0 and 1e4.

    Raises
    ------
    ValueError
        Lengths that differ, NaN or infinite values, a mean or a scale out of its range.

    Notes
    -----
    A posterior after more labels is an `Ensemble` of weighted nodes, for it is no logistic-normal
    distribution. The nodes, a thousand at most, are close enough together for exact moments. The
    ends of its intervals are nodes, a tenth of a standard deviation apart.

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

    # The columns of the two classes among so many.
    _columns = (0, 1)
    _n_classes = 2

    def __init__(self, loc: ArrayLike, scale: ArrayLike) -> None:
        m = as_floats(loc, "loc")
        s = as_floats(scale, "scale")
        if m.ndim != 1 or s.shape not in ((), m.shape):
            raise ValueError(
                f"loc must have shape (n,), scale the same or none, got {m.shape} and {s.shape}."
            )
        if not (np.abs(m) <= _LARGEST_LOC).all() or not ((s >= 0) & (s <= _LARGEST_SCALE)).all():
            raise ValueError(
                f"loc must be within ±{_LARGEST_LOC:g}, and scale between 0 and {_LARGEST_SCALE:g}."
            )
        self._m = frozen(m)
        self._s = frozen(np.broadcast_to(s, m.shape))

    def _in(self, columns, n_classes: int) -> Self:
        self._columns = tuple(columns)
        self._n_classes = n_classes
        return self

    def _spread(self, z):
        """What is said of the two classes (axis 1), or of both alike, in their columns."""
        return in_columns(z, list(self._columns), self._n_classes)

    def _take(self, rows):
        return type(self)(self._m[rows], self._s[rows])._in(self._columns, self._n_classes)

    def __len__(self) -> int:
        return len(self._m)

    @property
    def n_classes(self) -> int:
        """K: 2, unless embedded into more classes."""
        return self._n_classes

    @property
    def loc(self) -> Floats:
        """Mean of the log-odds, shape (n,)."""
        return self._m

    @property
    def scale(self) -> Floats:
        """Standard deviation of the log-odds, shape (n,)."""
        return self._s

    def _average(self, f, *per_row) -> Floats:
        """E[f(g, …)], shape (number of values, n), by the trapezoidal rule on m ± 9s.

        The step is s/2^k, at most min(s, 1)/2. Samples of one k share their nodes in units of s,
        and no sample depends on the others. `per_row` holds arrays (n,), which f takes after g.
        """
        k = np.ceil(np.log2(2 * np.maximum(self._s, 1))).astype(int)
        results = []
        order = []
        for halvings in np.unique(k):
            t = np.arange(-9 * 2**halvings, 9 * 2**halvings + 1) / 2.0**halvings
            w = np.exp(-(t**2) / 2)
            w /= w.sum()
            rows = np.flatnonzero(k == halvings)
            step = max(1, _BLOCK // len(t))
            for start in range(0, len(rows), step):
                block = rows[start : start + step, None]
                values = f(self._m[block] + self._s[block] * t, *(a[block] for a in per_row))
                results.append([np.einsum("ij,j->i", v, w) for v in values])
            order.append(rows)
        return np.hstack(results)[:, np.argsort(np.concatenate(order))]

    def _mean(self):
        """E[z] of the two classes, shape (2, n)."""
        return self._average(lambda g: (expit(-g), expit(g)))

    def _deviations(self):
        """E[δ] and E[δ²] of δ = σ(g) − σ(m), shape (2, n)."""

        def powers(g, m):
            d = _difference(g, m)
            return d, d**2

        return self._average(powers, self._m)

    def mean(self) -> Floats:
        return self._spread(self._mean().T)

    def variance(self) -> Floats:
        first, second = self._deviations()
        return self._spread(np.maximum(second - first**2, 0.0)[:, None])

    def _disagreement(self, pairs):
        (phi,) = 2 * self._average(lambda g: (expit(g) * expit(-g),))
        if pairs is None:
            return phi
        return phi * pairs[self._columns]

    def class_disagreement(self) -> Floats:
        return self._spread(self._disagreement(None)[:, None])

    def expected_entropy(self) -> Floats:
        def entropy(g):
            a = np.abs(g)
            yield a * expit(-a) - log_expit(a)

        return self._average(entropy)[0]

    def mutual_information(self) -> Floats:
        """Σ_k E[z_k]·E[(1+r)·log(1+r) − r] with r = z_k/E[z_k] − 1.

        It is a divergence, whose terms are all at least 0.
        """

        def divergence(g, m, shift, z0, z1):
            d = _difference(g, m) - shift
            yield z0 * bennett(quotient(-d, z0, 0.0))
            yield z1 * bennett(quotient(d, z1, 0.0))

        shift, _ = self._deviations()
        return self._average(divergence, self._m, shift, *self._mean()).sum(axis=0)

    def _mean_after(self, k):
        if k not in self._columns:
            return self.mean()
        sign = 2 * self._columns.index(k) - 1

        def joint(g):
            p = expit(sign * g)
            return expit(-g) * p, expit(g) * p

        z = self._average(joint)
        return self._spread(quotient(z, z.sum(axis=0), self._mean()).T)

    def _posterior(self, y) -> Mixture:
        """The posterior, as an `Ensemble` of points at the nodes of a quadrature."""
        y, possible = self._own_labels(y)
        first, second = np.where(possible, y, 0.0)
        g, log_w, _ = _posterior_nodes(self._m, self._s, first, second, _FINER)
        return Mixture.of(PointMass.of_checked(self._at(g)), log_w)

    def _at(self, g):
        """z at log-odds g of any shape, shape (g.size, K)."""
        g = g.reshape(-1, 1)
        return self._spread(expit(np.hstack([-g, g])))

    def _log_prob(self, labels):
        y, possible = self._own_labels(labels)

        def of_rows(rows):
            m, s = self._m[rows], self._s[rows]
            _, log_w, peak = _posterior_nodes(m, s, *y[:, rows], 1)
            at_peak = -(quotient(peak - m, s, 0.0) ** 2) / 2 - HALF_LOG_2PI
            return log_binomial(y[:, rows].T, peak) + at_peak + logsumexp(log_w, axis=0)

        return np.where(possible, in_blocks(of_rows, len(self), _NODES), -np.inf)

    def _own_labels(self, y):
        """Labels of the two classes, (2, n), and whether a row has none of an impossible class."""
        own = y[:, self._columns].T
        return own, own.sum(axis=0) == y.sum(axis=1)

    def _interval(self, level):
        g = self._m[:, None] + self._s[:, None] * ndtri(tails(level))
        return self._spread(expit(np.stack([-g[:, ::-1], g], axis=1)))

    def _embed(self, columns, n_classes):
        columns = [int(columns[k]) for k in self._columns]
        return type(self)(self._m, self._s)._in(columns, n_classes)

    @classmethod
    def _joined(cls, batches):
        (first, *_) = places = [(b._columns, b._n_classes) for b in batches]
        if len(set(places)) > 1:
            raise ValueError("Logistic-normal distributions of different classes cannot be joined.")
        m = np.concatenate([b._m for b in batches])
        return cls(m, np.concatenate([b._s for b in batches]))._in(*first)

    def _sample(self, n_draws, rng):
        g = self._m + self._s * rng.standard_normal((n_draws, len(self)))
        return self._at(g).reshape(*g.shape, -1)

    def _nodes(self, n_nodes):
        g = self._m + self._s * ndtri(lattice(n_nodes, 1))
        return with_mean(self._at(g).reshape(*g.shape, -1), self.mean(), 1 / n_nodes)


def _difference(a, b):
    """σ(a) − σ(b), exact where they are close, or both close to 0 or to 1."""
    d = a - b
    larger = expit(np.maximum(a, b)) * expit(-np.minimum(a, b))
    return np.sign(d) * -np.expm1(-np.abs(d)) * larger


def _posterior_nodes(m, s, y0, y1, finer: int):
    """Nodes of g ~ N(m, s²) after y0 and y1 labels, and their log-weights, both of shape (S, n).

    Third comes the peak of the density, shape (n,). The log-weights are relative to it: they sum to
    log ∫ σ(−g)^y0 σ(g)^y1 p(g) dg, less its value at the peak. Nodes are evenly spaced in v, where
    (g − c)/s = ε·sinh(v): close together at the peak c, and ever farther apart beyond. c is the
    steepest place instead where that is an edge of width 1 beside a tail of width s.
    """
    n = y0 + y1
    peak = _posterior_peak(m, s, y0, y1)
    t = quotient(peak - m, s, 0.0)

    def log_density(u):
        """At the peak and u standard deviations of the prior, less that at the peak."""
        labels = y1 * _log_change(peak, s * u) + y0 * _log_change(-peak, -s * u)
        return labels - u * (u + 2 * t) / 2

    def curvature(g):
        return 1 + s**2 * n * expit(g) * expit(-g)

    # The ends. log p is concave, and at least as curved as that of a normal distribution.
    near = np.zeros_like(peak)
    far = near + np.sqrt(2 * _DEPTH)
    a = -bisect(lambda u: log_density(-u) > -_DEPTH, near, far, 60)
    b = bisect(lambda u: log_density(u) > -_DEPTH, near, far, 60)
    steepest = np.clip(0.0, peak + s * a, peak + s * b)
    edge = curvature(steepest) > _EDGE * curvature(peak)
    centre = np.where(edge, quotient(steepest - peak, s, 0.0), 0.0)
    scale = 1 / np.maximum(np.sqrt(curvature(steepest)), s)
    a = np.arcsinh((a - centre) / scale)
    b = np.arcsinh((b - centre) / scale)
    S = int(np.ceil(((b - a) * finer / _STEP).max())) + 1
    v = a + (b - a) * np.linspace(0, 1, S)[:, None]
    u = centre + scale * np.sinh(v)
    log_width = np.log(scale * np.cosh(v)) + np.log((b - a) / (S - 1))
    return peak + s * u, log_density(u) + log_width, peak


def _posterior_peak(m, s, y0, y1):
    """Where s²·(y1·σ(−g) − y0·σ(g)) = g − m."""
    lowest = np.minimum(m, 0) - np.log1p(s**2 * y0) - 1
    highest = np.maximum(m, 0) + np.log1p(s**2 * y1) + 1
    low = np.maximum(m - s**2 * y0, lowest)
    high = np.minimum(m + s**2 * y1, highest)
    return bisect(lambda g: s**2 * (y1 * expit(-g) - y0 * expit(g)) > g - m, low, high, 90)


def _log_change(g, d):
    """log σ(g + d) − log σ(g), exact where d is small."""
    small = np.clip(d, -1.0, 1.0)
    near = -np.log1p(expit(-g) * np.expm1(-small))
    return np.where(np.abs(d) < 1, near, log_expit(g + d) - log_expit(g))
