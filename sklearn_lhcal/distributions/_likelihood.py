"""Log-probabilities of counts of any size, where differences of log-factorials would cancel."""

from math import fsum

import numpy as np
from scipy.special import expit, gammaln, xlogy

from .._utils.rising import log_rising, stirling
from .._utils.types import Floats, NDArray
from ._arithmetic import bennett

# Labels of a sample, from which log-factorials cancel: to 1e-9 there, to 1e-5 at 1e10.
_MANY = 1e6
HALF_LOG_2PI = np.log(2 * np.pi) / 2
# log of the total below which draws are corners of the simplex to the last bit
CORNER = -650.0


def log_multinomial(y: NDArray, z: NDArray) -> Floats:
    """log P(y | z), counts y (n, K), probabilities z (n, K), shape (n,)."""
    log_p = log_coefficient(y) + xlogy(y, z).sum(axis=1)
    many = y.sum(axis=1) > _MANY
    if many.any():
        log_p[many] = _many_multinomial(y[many], z[many])
    return log_p


def log_binomial(y: NDArray, g: NDArray) -> Floats:
    """log P(y | g), counts y (n, 2), log-odds g (n,) of the second class, shape (n,)."""
    # beyond ±700, where z underflows, a label costs what g grows by
    near = np.clip(g, -700.0, 700.0)
    beyond = y[:, 1] * np.minimum(g - near, 0) - y[:, 0] * np.maximum(g - near, 0)
    z = expit(np.stack([-near, near], axis=1))
    # z is rounded, and does not sum to 1 to the last bit; g does not mean this
    return log_multinomial(y, z) - y.sum(axis=1) * _excess(z) + beyond


def log_dirichlet_multinomial(y: NDArray, z: NDArray, log_total: NDArray) -> Floats:
    """log P(y) of counts y (n, K) whose probabilities are Dirichlet, mean z (n, K), log α0 (n,)."""
    n = y.sum(axis=1)
    x = np.exp(-np.maximum(log_total, CORNER))
    # a label that has probability 0 has log-probability -inf
    with np.errstate(divide="ignore"):
        rising = log_rising(z, np.broadcast_to(x[:, None], y.shape), y).sum(axis=1)
        log_p = log_coefficient(y) + rising - log_rising(np.ones_like(n), x, n)
        corner = log_total < CORNER
        many = (n > _MANY) & ~corner
        if many.any():
            log_p[many] = _many_dirichlet(y[many], z[many], np.exp(log_total[many]))
        if corner.any():
            log_p[corner] = _at_corners(y[corner], z[corner], log_total[corner])
    return log_p


def log_coefficient(y: NDArray) -> Floats:
    """log( n! / Π_k y_k! ), shape (n,)."""
    return gammaln(y.sum(axis=1) + 1) - gammaln(y + 1).sum(axis=1)


def _many_multinomial(y, z):
    """Loader's saddle point: −Σ D(y_k, n·z_k), and what Stirling's formula leaves."""
    n = y.sum(axis=1, keepdims=True)
    deviance = _deviance(y, n * z, y - n * z).sum(axis=1)
    # samples of z sum to 1 but for rounding, which n would multiply
    surplus = n[:, 0] * _excess(z)
    return _roots(n)[:, 0] - _roots(y).sum(axis=1) - deviance + surplus


def _many_dirichlet(y, z, total):
    """The same for Γ(y+a)/(Γ(a)·y!), a = α0·z, of each class and of their sum."""
    n = y.sum(axis=1, keepdims=True)
    A = total[:, None]
    a = A * z
    apart = y - n * z
    deviance = _deviance(y, (y + a) * (n / (n + A)), apart * (A / (n + A)))
    deviance += _deviance(a, (y + a) * (A / (n + A)), -apart * (A / (n + A)))
    classes = np.where(y > 0, _ratio(y, a), 0.0).sum(axis=1)
    return classes - _ratio(n, A)[:, 0] - deviance.sum(axis=1)


def _ratio(y, a):
    """log Γ(y+a)/(Γ(a)·y!) without its bulk (y+a)·log(y+a) − y·log y − a·log a."""
    y, zero = np.maximum(y, 1.0), a == 0
    a = np.where(zero, 1.0, a)
    roots = np.log(a / y) - np.log(y + a)
    rest = _stirling(y + a) - _stirling(a) - _stirling(y)
    return np.where(zero, -np.inf, roots / 2 + rest - HALF_LOG_2PI)


def _at_corners(y, z, log_total):
    """In the limit of small α0: it costs log α0 for each class beyond the first."""
    seen = y > 0
    n = y.sum(axis=1)
    at = np.where(seen, np.log(z) - np.log(np.maximum(y, 1)), 0.0).sum(axis=1)
    several = np.maximum(seen.sum(axis=1) - 1, 0)
    return at + np.log(np.maximum(n, 1)) + several * log_total


def _deviance(y, m, apart):
    """D(y, m) = y·log(y/m) + m − y, at least 0, given y − m; infinite where m is 0 and y is not."""
    inside = (m > 0) & (y > 0)
    safe = np.where(inside, m, 1.0)
    h = bennett(np.where(inside, apart / safe, 0.0))
    return np.where(inside, safe * h, np.where(y > 0, np.inf, m))


def _roots(y):
    """log y! − (y·log y − y)."""
    safe = np.maximum(y, 1.0)
    return np.where(y > 0, _stirling(safe) + np.log(safe) / 2 + HALF_LOG_2PI, 0.0)


def _stirling(t):
    """lnΓ(t) − [(t − ½)·log t − t + ½ log 2π] for t > 0."""
    small = np.minimum(t, 32.0)
    direct = gammaln(small) - ((small - 0.5) * np.log(small) - small + HALF_LOG_2PI)
    return np.where(t < 32, direct, stirling(np.maximum(t, 32.0)))


def _excess(z):
    """Σ_k z_k − 1 of each sample, exact to the last bit of the difference."""
    return np.array([fsum([*probabilities, -1.0]) for probabilities in z.tolist()])
