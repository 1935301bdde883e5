"""Logarithms of rising factorials and their derivatives: no difference of lgamma ever appears."""

import numpy as np

from .types import Floats

Terms = tuple[Floats, Floats, Floats]

# So many factors are multiplied out. Beyond, Stirling's series is exact to the last bit.
DIRECT = 32


def log_rising(z: Floats, x: Floats, y: Floats) -> Floats:
    """Σ_{j<y} log(z + j·x), elementwise.

    It is the log of a rising factorial, in units where its base α = z/x. With x = 1/α0 it is
    ``lnΓ(α0 z + y) − lnΓ(α0 z) − y·log α0``, exact to rounding for α0 from 1e-12 to 1e12 and counts
    of any size.

    Parameters
    ----------
    z : ndarray, in [0, 1]
    x : ndarray, positive, of the same shape
    y : ndarray, integral counts of the same shape and of the dtype of z
    """
    total = np.zeros_like(z)
    most = int(y.max(initial=0))
    for j in range(min(most, DIRECT)):
        factor = y > j
        total = total + np.where(factor, np.log(np.where(factor, z + j * x, 1.0)), 0.0)
    if most <= DIRECT:
        return total
    # lnΓ(B) − lnΓ(A) + q·log x with A = z/x + 32, B = A + q: Stirling's series for both, in one
    # difference.
    rest = y > DIRECT
    q = np.where(rest, y - DIRECT, 1.0)
    A = z / x + DIRECT
    tail = (A - 0.5) * np.log1p(q / A) + q * np.log(z + (q + DIRECT) * x) - q
    return total + np.where(rest, tail + stirling(A + q) - stirling(A), 0.0)


def stirling(t):
    """lnΓ(t) − [(t − ½)·log t − t + ½ log 2π] for t ≥ 32."""
    s = 1 / (t * t)
    return (1 / 12 - s * (1 / 360 - s * (1 / 1260 - s / 1680))) / t


def rising(z: Floats, x: Floats, y: Floats) -> Terms:
    """Σ_{j<y} log(z + j·x) with x = exp(−η), and its derivatives by η.

    They are −Σ jx/(z + jx) and Σ jxz/(z + jx)².
    """
    first = np.zeros_like(z)
    second = np.zeros_like(z)
    for j in range(1, min(int(y.max(initial=0)), DIRECT)):
        r = np.where(y > j, j * x / (z + j * x), 0.0)
        first -= r
        second += r * (1 - r)
    (rest,) = np.nonzero(y > DIRECT)
    if len(rest):
        slope, curvature = _tail(z[rest] / x[rest], y[rest] - DIRECT)
        first[rest] += slope
        second[rest] += curvature
    return log_rising(z, x, y), first, second


def _tail(a: Floats, q: Floats) -> tuple[Floats, Floats]:
    """The derivatives of the q factors from the 32nd on, with a = z/x.

    −Σ j/(a + j) = a·[ψ(B) − ψ(A)] − q and Σ ja/(a + j)² = a·[ψ(B) − ψ(A)] − a²·[ψ′(A) − ψ′(B)],
    A = a + 32, B = A + q.
    """
    A = a + DIRECT
    B = A + q
    psi = np.log1p(q / A) + digamma_minus_log(B) - digamma_minus_log(A)
    trigamma = q / (A * B) + _trigamma_rest(A) - _trigamma_rest(B)
    return a * psi - q, a * psi - a**2 * trigamma


def digamma_minus_log(t: Floats) -> Floats:
    """ψ(t) − log t for t ≥ 32."""
    s = 1 / (t * t)
    return -1 / (2 * t) - s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s / 240)))


def _trigamma_rest(t: Floats) -> Floats:
    """ψ′(t) − 1/t for t ≥ 32."""
    s = 1 / (t * t)
    return s / 2 + s / t * (1 / 6 - s * (1 / 30 - s * (1 / 42 - s / 30)))
