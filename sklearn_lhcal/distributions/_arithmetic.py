"""Arithmetic of arrays that several kinds of distributions share."""

from collections.abc import Callable

import numpy as np
from numpy.polynomial.polynomial import polyval
from scipy.special import xlog1py

from .._utils.arrays import in_blocks
from .._utils.simplex import gini
from .._utils.types import Floats, NDArray


def cross_moment(z: Floats, pairs: Floats | None) -> Floats:
    """zᵀPz of each sample, shape (n,); None stands for all pairs of different classes."""
    if pairs is None:
        return gini(z)
    return np.einsum("nk,nk->n", z @ pairs, z)


def by_blocks(of_rows: Callable[..., Floats], distribution) -> Floats:
    """``of_rows(distribution)`` of blocks of samples, joined: its temporary arrays stay small."""
    return in_blocks(lambda rows: of_rows(distribution[rows]), *distribution.shape)


def frozen(a: Floats) -> Floats:
    """A private, read-only copy."""
    a = np.array(a, dtype=float)
    a.flags.writeable = False
    return a


def quotient(a, b, otherwise):
    """a/b where b is positive, else `otherwise`."""
    positive = b > 0
    return np.where(positive, a / np.where(positive, b, 1.0), otherwise)


# powers of r in the series of `bennett`, and its coefficients from r² on
_POWERS = np.arange(2, 18)
_BENNETT = (-1.0) ** _POWERS / (_POWERS * (_POWERS - 1))


def bennett(r: Floats) -> Floats:
    """(1 + r)·log(1 + r) − r for r ≥ −1, Bennett's function: r²/2 − r³/6 + …, exact near 0."""
    small = np.clip(r, -0.1, 0.1)
    large = np.maximum(r, -1.0)
    exact = xlog1py(1 + large, large) - large
    return np.where(np.abs(r) < 0.1, small**2 * polyval(small, _BENNETT), exact)


def bisect(below: Callable[[NDArray], NDArray], low, high, steps: int) -> Floats:
    """Where `below`, which holds at low and not at high, ceases to hold, elementwise."""
    for _ in range(steps):
        middle = (low + high) / 2
        holds = below(middle)
        low = np.where(holds, middle, low)
        high = np.where(holds, high, middle)
    return (low + high) / 2


def tails(level: float) -> Floats:
    """Probabilities below either end of an equal-tailed interval, shape (2,)."""
    return np.array([1 - level, 1 + level]) / 2
