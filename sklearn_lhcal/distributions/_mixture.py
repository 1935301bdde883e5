"""Mixtures of point masses and of Dirichlet distributions, with exact posteriors."""

import copy
from typing import Self

import numpy as np
from scipy.special import logsumexp, rel_entr

from .._utils.checks import as_floats, checked, plain_array
from .._utils.names import column_names
from .._utils.simplex import check_proba, log
from .._utils.types import ArrayLike, Floats, NDArray
from ._arithmetic import by_blocks, frozen, quotient, tails
from ._base import Distribution, PointMass
from ._dirichlet import Dirichlet, beta_interval
from ._nodes import with_mean

# Nodes of a member, however many members there are.
_LEAST_NODES = 8


class Mixture(Distribution):
    """Weighted mixture over S members: the base of `Ensemble` and `DirichletMixture`.

    Examples
    --------
    >>> import numpy as np
    >>> parts = Dirichlet([[9.0, 1.0], [1.0, 9.0]])  # two members of one row
    >>> Mixture.of(parts, np.log([[0.5], [0.5]])).mean()
    array([[0.5, 0.5]])
    """

    # One batch of S·n samples, member by member.
    _parts: Distribution
    # Log-weights of shape (S, n), each column normalised.
    _log_w: Floats

    @classmethod
    @checked
    def of(cls, parts: Distribution, log_weights: ArrayLike) -> "Mixture":
        """The mixture of S·n samples, member by member, with log-weights of shape (S, n).

        Point masses make an `Ensemble`, others a `DirichletMixture`. It has the classes of its
        parts.
        """
        log_w = as_floats(log_weights, "log_weights")
        if log_w.ndim != 2 or not log_w.size or log_w.size != len(parts):
            raise ValueError(
                f"log_weights must have shape (S, n) for the {len(parts)} samples, {log_w.shape}."
            )
        if not (log_w < np.inf).all() or np.isneginf(log_w).all(axis=0).any():
            raise ValueError("log_weights must be below inf, and above -inf for a member of each.")
        kind = Ensemble if isinstance(parts, PointMass) else DirichletMixture
        return kind.__new__(kind)._with(parts, log_w)._named(parts.classes)

    @staticmethod
    def mean_of(batches: list[Distribution]) -> Distribution:
        """Several batches of the same samples, each as likely: all members, or the mean of points.

        Of other distributions than these and Dirichlets the mean, a point.
        """
        if len(batches) == 1:
            return batches[0]
        if not all(isinstance(batch, (Mixture, Dirichlet)) for batch in batches):
            return PointMass.of_checked(np.mean([batch.mean() for batch in batches], axis=0))
        parts = Distribution.concatenate([getattr(batch, "_parts", batch) for batch in batches])
        log_w = [getattr(batch, "_log_w", np.zeros((1, len(batch)))) for batch in batches]
        return Mixture.of(parts, np.concatenate(log_w) - np.log(len(batches)))

    def _with(self, parts: Distribution, log_w: Floats) -> Self:
        """The same kind of mixture, without names, of other parts and log-weights."""
        other = copy.copy(self)
        other._parts = parts
        other._log_w = frozen(log_w - logsumexp(log_w, axis=0))
        return other._named(None)

    def _per_member(self, values):
        """Values of the parts, (S·n, ...), in shape (S, n, ...)."""
        return values.reshape(*self._log_w.shape, *values.shape[1:])

    def _member(self, s: int) -> Distribution:
        return self._parts[s * len(self) : (s + 1) * len(self)]

    def _average(self, values):
        """Σ_s w_s·(values of member s), shape (n, ...), of values of the parts (S·n, ...)."""
        return np.einsum("sn,sn...->n...", self.weights, self._per_member(values))

    def _tiled(self, y):
        """The same labels for each member."""
        return np.tile(y, (len(self._log_w), 1))

    def member_means(self) -> Floats:
        """Mean of each member, shape (S, n, K)."""
        return self._per_member(self._parts.mean())

    @property
    def weights(self) -> Floats:
        """Weight of each member in each sample, shape (S, n); the sum over members is 1."""
        return np.exp(self._log_w)

    def __len__(self) -> int:
        return self._log_w.shape[1]

    @property
    def n_classes(self) -> int:
        return self._parts.n_classes

    def _take(self, rows):
        index = np.arange(self._log_w.size).reshape(self._log_w.shape)[:, rows]
        return self._with(self._parts[index.ravel()], self._log_w[:, rows])

    def mean(self) -> Floats:
        # rounding may lead above 1
        return np.minimum(self._average(self._parts.mean()), 1.0)

    def with_mean(self, mean: ArrayLike) -> "Ensemble":
        """The ensemble with this mean whose members a label tells apart as it does here.

        With the mean z_s of member s of weight w_s, their mean z, and P(s | k) = w_s z_sk/z_k,
        which is w_s where z_k = 0, a mean p is moved to the members by

            P(s, k) = p_k P(s | k),   w'_s = Σ_k P(s, k),   z'_s = P(s, ·)/w'_s.

        Parameters
        ----------
        mean : array-like or frame of shape (n, K)
            Class probabilities p.

        Returns
        -------
        Ensemble
            Its mean is p, up to rounding.

        Raises
        ------
        ValueError
            Probabilities of another shape, or that do not sum to 1.

        Examples
        --------
        >>> moved = Ensemble([[[0.9, 0.1]], [[0.3, 0.7]]]).with_mean([[0.8, 0.2]])
        >>> moved.mean(), moved.weights.round(3).T
        (array([[0.8, 0.2]]), array([[0.625, 0.375]]))
        """
        point: Distribution = PointMass.of_checked(check_proba(mean, name="mean"))
        names = column_names(mean, "mean")
        if self.classes is not None and names is not None:
            point = point.with_classes(names).in_order(self.classes)
        p = point.mean()
        if p.shape != self.shape:
            raise ValueError(f"mean must have shape {self.shape}, got {p.shape}.")
        parts, weight = with_mean(self.member_means(), p, self.weights[..., None])
        members = PointMass.of_checked(parts.reshape(-1, self.n_classes))
        moved = Ensemble.__new__(Ensemble)
        return moved._with(members, log(weight))._named(self.classes)

    def variance(self) -> Floats:
        # The law of total variance.
        within = self._average(self._parts.variance())
        between = (self.member_means() - self.mean()) ** 2
        return within + np.einsum("sn,snk->nk", self.weights, between)

    def _disagreement(self, pairs):
        return self._average(self._parts._disagreement(pairs))

    def class_disagreement(self) -> Floats:
        return self._average(self._parts.class_disagreement())

    def expected_entropy(self) -> Floats:
        return self._average(self._parts.expected_entropy())

    def mutual_information(self) -> Floats:
        """Information of the members about z, on average, plus `member_information`."""
        return self.member_information() + self._average(self._parts.mutual_information())

    def member_information(self) -> Floats:
        """How far members differ: H(E[z]) − Σ_s w_s H(E[z | s]), shape (n,), nats, at least 0.

        The part of `mutual_information` that is no member's own spread: all of it for point masses.
        `AlphaCalibration` leaves it as it was where it keeps the members; its `estimator_` always
        has it.
        """
        return by_blocks(Mixture._member_information, self)

    def _member_information(self) -> Floats:
        z = self.member_means()
        # The mean may be 0 where a member's contribution to it underflows.
        seen = self.weights[..., None] * z > np.finfo(np.float64).tiny
        divergence = np.where(seen, rel_entr(z, self.mean()), 0.0)
        return np.maximum(np.einsum("sn,snk->n", self.weights, divergence), 0.0)

    def _mean_after(self, k):
        # w_s ∝ w_s·P_s(k)
        w = self.weights * self.member_means()[..., k]
        w = quotient(w, w.sum(axis=0), self.weights)
        return np.einsum("sn,snk->nk", w, self._per_member(self._parts._mean_after(k)))

    def _posterior(self, y):
        y = self._tiled(y)
        # The product likelihood, in logs.
        log_w = self._log_w + self._per_member(self._parts._log_prob(y))
        # Labels that no member allows teach nothing.
        impossible = np.isneginf(log_w).all(axis=0)
        return self._with(self._parts._posterior(y), np.where(impossible, self._log_w, log_w))

    def _log_prob(self, y):
        log_p = self._per_member(self._parts._log_prob(self._tiled(y)))
        return logsumexp(self._log_w + log_p, axis=0)

    def _embed(self, columns, n_classes):
        return self._with(self._parts._embed(columns, n_classes), self._log_w)

    @classmethod
    def _joined(cls, batches):
        size = max(len(b._log_w) for b in batches)
        batches = [b._padded(size) for b in batches]
        log_w = np.concatenate([b._log_w for b in batches], axis=1)
        members = [b._member(s) for s in range(len(log_w)) for b in batches]
        return batches[0]._with(Distribution.concatenate(members), log_w)

    def _padded(self, size: int) -> Self:
        """With so many members, the new ones of weight 0."""
        new = size - len(self._log_w)
        parts = Distribution.concatenate([self._parts, *[self._member(0)] * new])
        log_w = np.pad(self._log_w, ((0, new), (0, 0)), constant_values=-np.inf)
        return self._with(parts, log_w)

    def _sample(self, n_draws, rng):
        n = len(self)
        u = rng.random_sample((n_draws, 1, n))
        # The member of each draw and sample, shape (n_draws, n).
        member = (u > np.cumsum(self.weights, axis=0)).sum(axis=1)
        member = np.minimum(member, len(self._log_w) - 1)
        rows = member * n + np.arange(n)
        return self._parts[rows.ravel()]._sample(1, rng)[0].reshape(n_draws, n, -1)

    def _nodes(self, n_nodes):
        S = len(self._log_w)
        z, w = self._parts._nodes(max(n_nodes // S, _LEAST_NODES))
        n = len(self)
        w = w.reshape(-1, S, n) * self.weights
        return z.reshape(-1, n, z.shape[2]), w.reshape(-1, n)


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

    def __init__(self, proba: ArrayLike, weights: ArrayLike | None = None) -> None:
        p, self._classes = _members(proba)
        self._parts = PointMass(p.reshape(-1, p.shape[2]))
        self._log_w = _log_weights(weights, p.shape[:2])

    @property
    def proba(self) -> Floats:
        """Class probabilities of the members, shape (S, n, K)."""
        return self.member_means()

    def _interval(self, level):
        # The weighted quantile is the first value to reach the level.
        order = np.argsort(self.proba, axis=0, kind="stable")
        values = np.take_along_axis(self.proba, order, axis=0)
        weights = np.take_along_axis(self.weights[..., None], order, axis=0)
        below = np.cumsum(weights, axis=0)
        ends = []
        for q in tails(level):
            first = np.minimum((below < q - 1e-12).sum(axis=0), len(below) - 1)
            ends.append(np.take_along_axis(values, first[None], axis=0)[0])
        return np.stack(ends, axis=2)


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

    def __init__(
        self, proba: ArrayLike, total: ArrayLike, weights: ArrayLike | None = None
    ) -> None:
        p, self._classes = _members(proba)
        total = as_floats(total, "total")
        if total.shape != p.shape[:2]:
            raise ValueError(f"total must have shape (S, n) = {p.shape[:2]}, got {total.shape}.")
        self._parts = Dirichlet.from_mean(p.reshape(-1, p.shape[2]), total.ravel())
        self._log_w = _log_weights(weights, p.shape[:2])

    def _interval(self, level):
        z = self.member_means()[..., None]
        total = self._per_member(self._parts.total)[..., None, None]
        return beta_interval(z, total, self.weights[..., None, None], level)


def _members(proba) -> tuple[Floats, NDArray | None]:
    """Probabilities (S, n, K) of the members, and their classes; frames are matched by name."""
    classes = None
    if isinstance(proba, (list, tuple)) and len(proba):
        classes = column_names(proba[0], "proba")
    if classes is not None:
        proba = [PointMass(member).in_order(classes).mean() for member in proba]
    p = plain_array(proba, "proba")
    p = p if p.dtype == np.float32 else as_floats(p, "proba")
    if p.ndim != 3 or p.size == 0:
        raise ValueError(f"proba must have shape (S, n, K), S members, got {p.shape}.")
    return p, classes


def _log_weights(weights, shape: tuple[int, int]) -> Floats:
    """Normalised log-weights of shape (S, n) from weights of shape (S,) or (S, n), or None."""
    if weights is None:
        weights = np.ones(shape[0])
    w = as_floats(weights, "weights")
    if w.ndim == 1:
        w = w[:, None]
    if w.shape not in (shape, (shape[0], 1)):
        raise ValueError(
            f"weights must have shape (S,) or (S, n) = {shape}, got {np.shape(weights)}."
        )
    with np.errstate(over="ignore"):
        total = w.sum(axis=0)
    if not (np.isfinite(total) & (w >= 0)).all() or not (total > 0).all():
        raise ValueError("weights must be finite and at least 0, with a positive sum over members.")
    return frozen(np.broadcast_to(log(w) - np.log(total), shape))
