"""Dirichlet distributions; mixtures of point masses and of Dirichlets, with exact posteriors."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincinv, expit, logsumexp

from .._ground.checks import as_floats, plain_array
from .._ground.names import column_names
from .._ground.simplex import check_proba, gini
from ._base import (
    Distribution,
    PointMass,
    frozen,
    in_columns,
    log,
    tails,
)
from ._likelihood import digamma1p, digamma_minus_log, is_corner, log_dirichlet_multinomial


class Dirichlet(Distribution):
    """Dirichlet distribution: class probabilities known as well as α0 labels would tell.

    Mean and logarithm of the total are kept apart, so that totals from 1e-12 to 1e12 stay exact.

    Parameters
    ----------
    concentration : array-like of shape (n, K)
        α, at least 0, with a positive row sum α0.

    Examples
    --------
    >>> d = Dirichlet([[1.0, 1.0]])
    >>> d.disagreement()
    array([0.33333333])
    >>> d.posterior([[1, 0]]).mean()
    array([[0.66666667, 0.33333333]])
    """

    def __init__(self, concentration: ArrayLike):
        alpha = as_floats(concentration, "concentration")
        if alpha.ndim != 2 or not np.isfinite(alpha).all() or (alpha < 0).any() or not (alpha.sum(axis=1) > 0).all():
            raise ValueError("concentration must have shape (n, K), be finite and at least 0, with positive row sums.")
        total = alpha.sum(axis=1)
        self._z = frozen(alpha / total[:, None])
        self._log_total = frozen(np.log(total))
        self._classes = column_names(concentration)

    @classmethod
    def from_mean(cls, proba: ArrayLike, total: ArrayLike) -> "Dirichlet":
        """From the mean, shape (n, K), and the total α0, a scalar or shape (n,); see `from_log_total` for extremes."""
        t = as_floats(total, "total")
        if not np.isfinite(t).all() or (t <= 0).any():
            raise ValueError("total must be positive and finite.")
        return cls.from_log_total(proba, np.log(t))

    @classmethod
    def from_log_total(cls, proba: ArrayLike, log_total: ArrayLike) -> "Dirichlet":
        """From the mean, shape (n, K), and log α0, a scalar or shape (n,)."""
        z = check_proba(proba)
        log_total = as_floats(log_total, "log_total")
        if log_total.shape not in ((), (1,), (len(z),)) or not np.isfinite(log_total).all():
            raise ValueError(f"The total must be one number or one per row, shape ({len(z)},), and finite.")
        return cls.of_checked(z, np.broadcast_to(log_total, len(z)))._named(column_names(proba))

    @classmethod
    def of_checked(cls, z: NDArray[np.float64], log_total: NDArray[np.float64]) -> "Dirichlet":
        """Of a mean (n, K) that passed the gate, as for `PointMass.of_checked`, and log α0, shape (n,)."""
        self = cls.__new__(cls)
        self._z = frozen(z)
        self._log_total = frozen(log_total)
        return self

    def _take(self, rows):
        return Dirichlet.of_checked(self._z[rows], self._log_total[rows])

    @property
    def total(self) -> NDArray[np.float64]:
        """α0, shape (n,)."""
        return np.exp(self._log_total)

    @property
    def concentration(self) -> NDArray[np.float64]:
        """α = α0·E[z], shape (n, K)."""
        return self.total[:, None] * self._z

    def mean(self):
        return self._z

    def variance(self):
        return expit(-self._log_total)[:, None] * self._z * (1 - self._z)  # s = 1/(α0+1)

    def disagreement(self, pairs=None):
        if pairs is not None:
            return super().disagreement(pairs)
        return expit(self._log_total) * gini(self._z)

    def class_disagreement(self):
        return 2 * expit(self._log_total)[:, None] * self._z * (1 - self._z)

    def _mean_after(self, k):
        s = expit(-self._log_total)[:, None]
        z = (1 - s) * self._z
        z[:, k] += s[:, 0]
        return z

    def expected_entropy(self):
        a, z = np.exp(np.minimum(self._log_total, 0.0))[:, None], self._z
        small = (z * (digamma1p(a) - digamma1p(a * z))).sum(axis=1)  # exact to α0 = 0, where MI would cancel
        return np.where(self._log_total < 0, small, np.maximum(self.entropy() - self._information_large(), 0.0))

    def mutual_information(self):
        small = self.entropy() - self.expected_entropy()
        return np.maximum(np.where(self._log_total < 0, small, self._information_large()), 0.0)

    def _information_large(self):
        """Σ z_k g(α0 z_k) − g(α0), g(x) = ψ(x+1) − log x: exact to α0 = ∞, where entropies would cancel."""
        a, z = np.exp(np.maximum(self._log_total, 0.0))[:, None], self._z
        return (z * digamma_minus_log(np.where(z > 0, a * z, 1.0))).sum(axis=1) - digamma_minus_log(a[:, 0])

    def _posterior(self, y):
        n = y.sum(axis=1)
        log_n = log(n)
        z = expit(self._log_total - log_n)[:, None] * self._z + expit(log_n - self._log_total)[:, None] * (
            y / np.maximum(n, 1)[:, None]
        )
        return Dirichlet.of_checked(z, np.logaddexp(self._log_total, log_n))

    def _log_prob(self, y):
        return log_dirichlet_multinomial(y, self._z, self._log_total)

    def _interval(self, level):
        q = tails(level)
        a = self.concentration[:, :, None]
        b = self.total[:, None, None] * (1 - self._z[:, :, None])
        inner = (self._z > 0) & (self._z < 1)
        ends = betaincinv(np.where(inner[:, :, None], a, 1.0), np.where(inner[:, :, None], b, 1.0), q)
        ends = np.where(inner[:, :, None], ends, self._z[:, :, None])
        lost = np.isnan(ends).any(axis=(1, 2))  # near α0 = 1e12, SciPy below 1.17: there by bisection
        if lost.any():
            ends[lost] = Mixture.of(self[lost], np.zeros((1, lost.sum())))._interval(level)
        corner = is_corner(self._log_total)
        ends[corner] = q > 1 - self._z[corner][:, :, None]
        return ends

    def _embed(self, columns, n_classes):
        return Dirichlet.of_checked(in_columns(self._z, columns, n_classes), self._log_total)

    @classmethod
    def _joined(cls, batches):
        log_total = np.concatenate([b._log_total for b in batches])
        return cls.of_checked(np.concatenate([b._z for b in batches]), log_total)

    def _sample(self, n_draws, rng):
        a = np.broadcast_to(self.concentration, (n_draws, *self._z.shape))
        # G(a) = G(a+1)·U^(1/a) in logs: a draw never underflows to 0/0, however small the total
        # at the corners, the first of exponential waiting times with the rates z
        corner = is_corner(self._log_total)
        a = np.where(corner[:, None], self._z, a)
        with np.errstate(divide="ignore", over="ignore"):
            log_gamma = np.log(rng.standard_gamma(a + 1))
            waiting = np.log(1 - rng.random_sample(a.shape)) / a
        log_g = np.where(a > 0, np.where(corner[:, None], 0.0, log_gamma) + waiting, -np.inf)
        z = np.exp(log_g - log_g.max(axis=2, keepdims=True))
        z = np.where(corner[:, None], z == 1, z)
        return z / z.sum(axis=2, keepdims=True)


class Mixture(Distribution):
    """Weighted mixture over S members: base of `Ensemble` and `DirichletMixture`.

    Examples
    --------
    >>> import numpy as np
    >>> parts = Dirichlet([[9.0, 1.0], [1.0, 9.0]])  # two members of one row
    >>> Mixture.of(parts, np.log([[0.5], [0.5]])).mean()
    array([[0.5, 0.5]])
    """

    # one batch of S·n rows, member by member

    _parts: Distribution
    _log_w: NDArray[np.float64]  # (S, n), each column normalised

    @classmethod
    def of(cls, parts: Distribution, log_weights: ArrayLike) -> "Mixture":
        """The mixture of S·n rows, member by member, with log-weights of shape (S, n).

        An `Ensemble` of point masses, else a `DirichletMixture`. It has the classes of its parts.
        """
        kind = Ensemble if isinstance(parts, PointMass) else DirichletMixture
        self = kind.__new__(kind)
        log_w = np.asarray(log_weights, dtype=np.float64)
        self._parts = parts
        self._log_w = frozen(log_w - logsumexp(log_w, axis=0))
        return self._named(parts.classes)

    def _per_member(self, values):
        return values.reshape(*self._log_w.shape, *values.shape[1:])

    def _member(self, s: int) -> Distribution:
        n = len(self)
        return self._parts[np.arange(s * n, (s + 1) * n)]

    def _average(self, values):
        """Σ_s w_s·(values of member s), for values with S·n rows."""
        return np.einsum("sn,sn...->n...", self.weights, self._per_member(values))

    def _tiled(self, y):
        return np.tile(y, (len(self._log_w), 1))

    def member_means(self) -> NDArray[np.float64]:
        """Mean of each member, shape (S, n, K)."""
        return self._per_member(self._parts.mean())

    @property
    def weights(self) -> NDArray[np.float64]:
        """Weight of each member in each row, shape (S, n); sums to 1 over members."""
        return np.exp(self._log_w)

    def __len__(self):
        return self._log_w.shape[1]

    def _take(self, rows):
        S, n = self._log_w.shape
        index = np.arange(S * n).reshape(S, n)[:, rows]
        return self.of(self._parts[index.ravel()], self._log_w[:, rows])

    def mean(self):
        return self._average(self._parts.mean())

    def variance(self):  # law of total variance
        between = (self._per_member(self._parts.mean()) - self.mean()) ** 2
        return self._average(self._parts.variance()) + np.einsum("sn,snk->nk", self.weights, between)

    def disagreement(self, pairs=None):
        return self._average(self._parts.disagreement(pairs))

    def class_disagreement(self):
        return self._average(self._parts.class_disagreement())

    def expected_entropy(self):
        return self._average(self._parts.expected_entropy())

    def mutual_information(self):
        """Information of the members about z, plus information about the member (a divergence, at least 0)."""
        z, m = self._per_member(self._parts.mean()), self.mean()
        seen = self.weights[..., None] * z > np.finfo(np.float64).tiny  # elsewhere the mean may be 0
        ratio = np.where(seen, z, 1.0) / np.where(seen, m, 1.0)
        between = np.einsum("sn,snk->n", self.weights, z * np.log(ratio))
        return np.maximum(between, 0.0) + self._average(self._parts.mutual_information())

    def _mean_after(self, k):
        w = self.weights * self._per_member(self._parts.mean()[:, k])  # w_s ∝ w_s·P_s(k)
        total = w.sum(axis=0)
        w = np.where(total > 0, w / np.where(total > 0, total, 1.0), self.weights)
        return np.einsum("sn,snk->nk", w, self._per_member(self._parts._mean_after(k)))

    def _posterior(self, y):
        y = self._tiled(y)
        log_w = self._log_w + self._per_member(self._parts._log_prob(y))  # the product likelihood, in logs
        impossible = np.isneginf(log_w).all(axis=0)  # no member allows these labels: nothing can be learnt from them
        return self.of(self._parts._posterior(y), np.where(impossible, self._log_w, log_w))

    def _log_prob(self, y):
        return logsumexp(self._log_w + self._per_member(self._parts._log_prob(self._tiled(y))), axis=0)

    def _embed(self, columns, n_classes):
        return self.of(self._parts._embed(columns, n_classes), self._log_w)

    @classmethod
    def _joined(cls, batches):
        S = {b._log_w.shape[0] for b in batches}
        if len(S) > 1:
            raise ValueError(f"Mixtures with different numbers of members cannot be joined: {sorted(S)}.")
        members = [Distribution.concatenate([b._member(s) for b in batches]) for s in range(S.pop())]
        return cls.of(Distribution.concatenate(members), np.concatenate([b._log_w for b in batches], axis=1))

    def _sample(self, n_draws, rng):
        n = len(self)
        u = rng.random_sample((n_draws, 1, n))
        member = np.minimum((u > np.cumsum(self.weights, axis=0)).sum(axis=1), len(self._log_w) - 1)  # (n_draws, n)
        rows = member * n + np.arange(n)
        return self._parts[rows.ravel()]._sample(1, rng)[0].reshape(n_draws, n, -1)


class Ensemble(Mixture):
    """Mixture of point masses: MC dropout, test-time augmentation, deep ensembles, forests.

    Parameters
    ----------
    proba : array-like of shape (S, n, K)
        Class probabilities of each of S members.
    weights : array-like of shape (S,) or (S, n), optional
        Weights of the members, at least 0; normalised over members. Default: equal.

    Examples
    --------
    >>> e = Ensemble([[[0.9, 0.1]], [[0.1, 0.9]]])
    >>> e.mean(), e.posterior([0]).mean()
    (array([[0.5, 0.5]]), array([[0.82, 0.18]]))
    """

    def __init__(self, proba: ArrayLike, weights: ArrayLike | None = None):
        p, self._classes = _members(proba)
        self._parts = PointMass(p.reshape(-1, p.shape[2]))
        self._log_w = _log_weights(weights, p.shape[:2])

    @property
    def proba(self) -> NDArray[np.float64]:
        """Class probabilities of the members, shape (S, n, K)."""
        return self._per_member(self._parts.mean())

    def _interval(self, level):
        q = tails(level)
        order = np.argsort(self.proba, axis=0, kind="stable")  # the weighted quantile is the first value to reach q
        values = np.take_along_axis(self.proba, order, axis=0)
        below = np.cumsum(np.take_along_axis(self.weights[:, :, None], order, axis=0), axis=0)
        first = [np.minimum((below < level - 1e-12).sum(axis=0), len(below) - 1) for level in q]
        return np.stack([np.take_along_axis(values, i[None], axis=0)[0] for i in first], axis=2)


class DirichletMixture(Mixture):
    """Mixture of Dirichlet distributions: an ensemble after α-calibration.

    Parameters
    ----------
    proba : array-like of shape (S, n, K)
        Mean of each of S members.
    total : array-like of shape (S, n)
        Total α0 of each member.
    weights : array-like of shape (S,) or (S, n), optional
        Weights of the members, at least 0; normalised over members. Default: equal.

    Examples
    --------
    >>> d = DirichletMixture([[[0.9, 0.1]], [[0.1, 0.9]]], total=[[4.0], [4.0]])
    >>> d.mean(), d.posterior([0]).mean().round(3)
    (array([[0.5, 0.5]]), array([[0.856, 0.144]]))
    """

    def __init__(self, proba: ArrayLike, total: ArrayLike, weights: ArrayLike | None = None):
        p, self._classes = _members(proba)
        total = as_floats(total, "total")
        if total.shape != p.shape[:2]:
            raise ValueError(f"total must have shape (S, n) = {p.shape[:2]}, got {total.shape}.")
        self._parts = Dirichlet.from_mean(p.reshape(-1, p.shape[2]), total.ravel())
        self._log_w = _log_weights(weights, p.shape[:2])

    def _interval(self, level):
        z = self._per_member(self._parts.mean())[..., None]  # (S, n, K, 1)
        total = self._per_member(self._parts.total)[..., None, None]
        w = self.weights[..., None, None]
        inner = (z > 0) & (z < 1)
        a, b = np.where(inner, total * z, 1.0), np.where(inner, total * (1 - z), 1.0)
        q = tails(level)
        low, high = np.zeros((*z.shape[1:3], 2)), np.ones((*z.shape[1:3], 2))
        for _ in range(60):  # bisection of the mixture's distribution function
            x = (low + high) / 2
            cdf = (w * np.where(inner, betainc(a, b, x), z <= 0)).sum(axis=0)
            low, high = np.where(cdf < q, x, low), np.where(cdf < q, high, x)
        return (low + high) / 2


def _members(proba) -> tuple[NDArray[np.float64], NDArray | None]:
    """Probabilities (S, n, K) of the members, and their classes; frames are matched by name."""
    classes = column_names(proba[0]) if isinstance(proba, (list, tuple)) and len(proba) else None
    if classes is not None:
        proba = [PointMass(member).in_order(classes).mean() for member in proba]
    p = plain_array(proba, "proba")
    p = p if p.dtype == np.float32 else as_floats(p, "proba")
    if p.ndim != 3 or p.shape[0] == 0:
        raise ValueError(f"proba must have shape (S, n, K), S members, got {p.shape}.")
    return p, classes


def _log_weights(weights, shape: tuple[int, int]) -> NDArray[np.float64]:
    """Normalised log-weights of shape (S, n) from weights of shape (S,) or (S, n), or None."""
    if weights is None:
        return frozen(np.full(shape, -np.log(shape[0])))
    w = as_floats(weights, "weights")
    w = w[:, None] if w.ndim == 1 else w
    if w.shape not in (shape, (shape[0], 1)):
        raise ValueError(f"weights must have shape (S,) or (S, n) = {shape}, got {np.shape(weights)}.")
    if not np.isfinite(w).all() or (w < 0).any() or not (w.sum(axis=0) > 0).all():
        raise ValueError("weights must be finite and at least 0, with a positive sum over members.")
    return frozen(np.broadcast_to(log(w) - np.log(w.sum(axis=0)), shape))
