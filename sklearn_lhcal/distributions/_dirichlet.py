"""Dirichlet distributions, exact for totals from 1e-12 to 1e12."""

from typing import Self

import numpy as np
from numpy.polynomial.polynomial import polyval
from scipy.special import betainc, betaincinv, digamma, expit, zeta

from .._utils.checks import as_floats
from .._utils.costs import expected_costs
from .._utils.names import column_names
from .._utils.rising import digamma_minus_log
from .._utils.simplex import check_proba, gini, in_columns, log, softmax
from .._utils.types import ArrayLike, Floats
from ._arithmetic import bisect, by_blocks, cross_moment, frozen, tails
from ._base import Distribution
from ._likelihood import CORNER, log_dirichlet_multinomial
from ._nodes import dirichlet_nodes, with_mean

# log of the total from which on all quantiles are 0 or 1, and SciPy 1.12 is wrong about them.
_ENDS = -200.0
# stands for the share of a label that moves nothing
_TINY = 1e-100


class Dirichlet(Distribution):
    """Dirichlet distribution: class probabilities known as well as α0 labels would tell.

    The mean and the logarithm of the total are kept apart. So totals from 1e-12 to 1e12 stay exact.

    Parameters
    ----------
    concentration : array-like of shape (n, K)
        α, at least 0, with a positive sample sum α0.

    Examples
    --------
    >>> d = Dirichlet([[1.0, 1.0]])
    >>> d.disagreement()
    array([0.33333333])
    >>> d.posterior([[1, 0]]).mean()
    array([[0.66666667, 0.33333333]])
    """

    def __init__(self, concentration: ArrayLike) -> None:
        alpha = as_floats(concentration, "concentration")
        with np.errstate(over="ignore"):
            total = alpha.sum(axis=-1)
        fits = alpha.ndim == 2 and alpha.size > 0 and (alpha >= 0).all()
        if not fits or not ((total > 0) & np.isfinite(total)).all():
            raise ValueError(
                "concentration must have shape (n, K), be at least 0, and have finite sums above 0."
            )
        self._z = frozen(alpha / total[:, None])
        self._log_total = frozen(np.log(total))
        self._classes = column_names(concentration, "concentration")

    @classmethod
    def from_mean(cls, proba: ArrayLike, total: ArrayLike) -> Self:
        """From the mean, shape (n, K), and the total α0, a scalar or of shape (n,).

        `from_log_total` takes totals that are too small or too large for a number.
        """
        t = as_floats(total, "total")
        if not np.isfinite(t).all() or (t <= 0).any():
            raise ValueError("total must be positive and finite.")
        return cls.from_log_total(proba, np.log(t))

    @classmethod
    def from_log_total(cls, proba: ArrayLike, log_total: ArrayLike) -> Self:
        """From the mean, shape (n, K), and log α0, a scalar or of shape (n,)."""
        z = check_proba(proba)
        n = len(z)
        log_total = as_floats(log_total, "log_total")
        if log_total.shape not in ((), (1,), (n,)) or not np.isfinite(log_total).all():
            raise ValueError(
                f"total and log_total must be finite: one number or one per sample, shape ({n},)."
            )
        made = cls.of_checked(z, np.broadcast_to(log_total, n))
        return made._named(column_names(proba, "proba"))

    @classmethod
    def of_checked(cls, z: Floats, log_total: Floats) -> Self:
        """Of a mean (n, K), checked before as in `PointMass.of_checked`, and log α0, shape (n,)."""
        self = cls.__new__(cls)
        self._z = frozen(z)
        self._log_total = frozen(log_total)
        return self

    def _take(self, rows):
        return self.of_checked(self._z[rows], self._log_total[rows])

    @property
    def total(self) -> Floats:
        """α0, shape (n,)."""
        return np.exp(self._log_total)

    @property
    def concentration(self) -> Floats:
        """α = α0·E[z], shape (n, K)."""
        return self.total[:, None] * self._z

    @property
    def _label_share(self):
        """s = 1/(α0 + 1), the share of one label in the mean after it, shape (n, 1)."""
        return expit(-self._log_total)[:, None]

    @property
    def _prior_share(self):
        """1 − s = α0/(α0 + 1), the share of the mean before that label, shape (n, 1)."""
        return expit(self._log_total)[:, None]

    def mean(self) -> Floats:
        return self._z

    def variance(self) -> Floats:
        return self._label_share * self._z * (1 - self._z)

    def _disagreement(self, pairs):
        return expit(self._log_total) * cross_moment(self._z, pairs)

    def class_disagreement(self) -> Floats:
        return 2 * self._prior_share * self._z * (1 - self._z)

    def _mean_after(self, k):
        z = self._prior_share * self._z
        z[:, k] += self._label_share[:, 0]
        return z

    def _move(self, k):
        # s(e_k − z), exact however small s is
        move = -self._label_share * self._z
        move[:, k] = self._label_share[:, 0] * (1 - self._z[:, k])
        return move

    def _expected_move(self, B):
        if B is not None:
            return super()._expected_move(B)
        # Σ_k z_k ‖e_k − z‖² = Σ_k z_k (1 − z_k)
        return self._label_share[:, 0] ** 2 * gini(self._z)

    def _least_cost_after(self, C):
        """E[z | k]ᵀC_d = (1 − s) zᵀC_d + s C_kd = s (b_d + C_kd) with b_d = (1/s − 1) zᵀC_d."""
        s = np.maximum(self._label_share, _TINY)
        b = self._prior_share * expected_costs(self._z, C) / s
        least = np.full(self._z.shape, np.inf)
        for d in range(C.shape[-1]):
            np.minimum(least, b[:, [d]] + C[..., d], out=least)
        return s[:, 0] * np.einsum("nk,nk->n", self._z, least)

    def expected_entropy(self) -> Floats:
        return by_blocks(Dirichlet._expected_entropy, self)

    def mutual_information(self) -> Floats:
        return by_blocks(Dirichlet._mutual_information, self)

    def _expected_entropy(self) -> Floats:
        # For α0 < 1 in a form that is exact to α0 = 0, where a difference of entropies cancels.
        a = np.exp(np.minimum(self._log_total, 0.0))[:, None]
        small = (self._z * (_digamma1p(a) - _digamma1p(a * self._z))).sum(axis=1)
        large = np.maximum(self.entropy() - self._information_large(), 0.0)
        return np.where(self._log_total < 0, small, large)

    def _mutual_information(self) -> Floats:
        small = self.entropy() - self._expected_entropy()
        information = np.where(self._log_total < 0, small, self._information_large())
        return np.maximum(information, 0.0)

    def _information_large(self):
        """Σ z_k g(α0 z_k) − g(α0) with g(x) = ψ(x+1) − log x.

        It is exact to α0 = ∞, where a difference of entropies cancels.
        """
        a = np.exp(np.maximum(self._log_total, 0.0))
        x = np.where(self._z > 0, a[:, None] * self._z, 1.0)
        return (self._z * _digamma_minus_log(x)).sum(axis=1) - _digamma_minus_log(a)

    def _posterior(self, y):
        n = y.sum(axis=1)
        log_n = log(n)
        log_odds = (self._log_total - log_n)[:, None]
        z = expit(log_odds) * self._z + expit(-log_odds) * y / np.maximum(n, 1)[:, None]
        return self.of_checked(z, np.logaddexp(self._log_total, log_n))

    def _log_prob(self, y):
        return log_dirichlet_multinomial(y, self._z, self._log_total)

    def _interval(self, level):
        z = self._z[..., None]
        total = self.total[:, None, None]
        inner, a, b = _beta(z, total)
        ends = np.where(inner, betaincinv(a, b, tails(level)), z)
        # Near α0 = 1e12, SciPy below 1.17 finds none.
        lost = np.isnan(ends).any(axis=(1, 2))
        if lost.any():
            ends[lost] = beta_interval(z[None, lost], total[None, lost], 1.0, level)
        at_ends = self._log_total < _ENDS
        ends[at_ends] = tails(level) > 1 - z[at_ends]
        return ends

    def _embed(self, columns, n_classes):
        return self.of_checked(in_columns(self._z, columns, n_classes), self._log_total)

    @classmethod
    def _joined(cls, batches):
        log_total = np.concatenate([b._log_total for b in batches])
        return cls.of_checked(np.concatenate([b._z for b in batches]), log_total)

    def _sample(self, n_draws, rng):
        corner = (self._log_total < CORNER)[:, None]
        # At a corner, the class whose exponential waiting time with the rate z_k ends first.
        a = np.where(corner, self._z, self.concentration)
        a = np.broadcast_to(a, (n_draws, *self._z.shape))
        # G(a) = G(a+1)·U^(1/a) in logs: a draw never underflows to 0/0, however small the total.
        with np.errstate(divide="ignore", over="ignore"):
            log_gamma = np.log(rng.standard_gamma(a + 1))
            waiting = np.log(1 - rng.random_sample(a.shape)) / a
        log_g = np.where(a > 0, np.where(corner, 0.0, log_gamma) + waiting, -np.inf)
        at_corner = log_g == log_g.max(axis=2, keepdims=True)
        return np.where(corner, at_corner, softmax(log_g))

    def _nodes(self, n_nodes):
        return with_mean(dirichlet_nodes(self._z, self.total, n_nodes), self._z, 1 / n_nodes)


def _beta(z, total):
    """Whether z_k is random, and then the parameters of its Beta distribution, else 1 and 1."""
    inner = (z > 0) & (z < 1)
    return inner, np.where(inner, total * z, 1.0), np.where(inner, total * (1 - z), 1.0)


def beta_interval(z, total, weights, level: float) -> Floats:
    """Equal-tailed intervals under mixtures of Dirichlets, shape (n, K, 2), by bisection.

    Means z have shape (S, n, K, 1); totals and weights of the members, (S, n, 1, 1).
    """
    q = tails(level)
    inner, a, b = _beta(z, total)

    def below(x):
        return (weights * np.where(inner, betainc(a, b, x), z <= 0)).sum(axis=0) < q

    low = np.zeros((*z.shape[1:3], 2))
    return bisect(below, low, low + 1, 60)


# Coefficients of ψ(1+x) − ψ(1) = ζ(2)x − ζ(3)x² + …
_SERIES = np.append(0.0, zeta(np.arange(2, 16)) * np.resize([1.0, -1.0], 14))


def _digamma1p(x):
    """ψ(1+x) − ψ(1) for 0 ≤ x ≤ 1, with its leading term x·π²/6 exact to the last bit near 0."""
    return np.where(x < 1 / 16, polyval(x, _SERIES), digamma(1 + x) - digamma(1.0))


def _digamma_minus_log(x):
    """ψ(1+x) − log x for x > 0: 1/x + ψ(x) − log x, exact where both logarithms are large."""
    large = np.maximum(x, 32.0)
    small = np.minimum(x, 32.0)
    return np.where(
        x < 32, digamma(1 + small) - np.log(small), 1 / large + digamma_minus_log(large)
    )
