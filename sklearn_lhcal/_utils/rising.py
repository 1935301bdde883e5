"""Logarithms of rising factorials, for numpy and torch: no difference of lgamma ever appears."""

import numpy as np

# So many factors are multiplied out. Beyond, Stirling's series is exact to the last bit.
_DIRECT = 32


def log_rising(z, x, y, xp=np):
    """Σ_{j<y} log(z + j·x), elementwise.

    It is the log of a rising factorial, in units where its base α = z/x. With x = 1/α0 it is
    ``lnΓ(α0 z + y) − lnΓ(α0 z) − y·log α0``, exact to rounding for α0 from 1e-12 to 1e12 and counts
    of any size.

    Parameters
    ----------
    z : array or tensor, in [0, 1]
    x : array or tensor, positive, of the same shape
    y : array or tensor, integral counts of the same shape and of the dtype of z
    xp : module
        numpy or torch.
    """
    total = xp.zeros_like(z)
    if not len(y.reshape(-1)):
        return total
    most = int(y.max())
    for j in range(min(most, _DIRECT)):
        factor = y > j
        total = total + xp.where(factor, xp.log(xp.where(factor, z + j * x, 1.0)), 0.0)
    if most <= _DIRECT:
        return total
    # lnΓ(B) − lnΓ(A) + q·log x with A = z/x + 32, B = A + q: Stirling's series for both, in one
    # difference.
    rest = y > _DIRECT
    q = xp.where(rest, y - _DIRECT, 1.0)
    A = z / x + _DIRECT
    tail = (A - 0.5) * xp.log1p(q / A) + q * xp.log(z + (q + _DIRECT) * x) - q
    return total + xp.where(rest, tail + stirling(A + q) - stirling(A), 0.0)


def stirling(t):
    """lnΓ(t) − [(t − ½)·log t − t + ½ log 2π] for t ≥ 32."""
    s = 1 / (t * t)
    return (1 / 12 - s * (1 / 360 - s * (1 / 1260 - s / 1680))) / t
