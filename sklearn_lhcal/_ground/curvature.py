"""Second derivatives at a point, and what is solved with them."""

from functools import cached_property

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from .arrays import Floats

# Pivots, over the largest, above which a matrix is positive definite beyond doubt.
_LEAST_PIVOT = 1e-4
# Of the prior's own curvature, what a matrix without a factor is tried with.
_MULTIPLES = (1.5, 3.0, 9.0)

Array = Floats


class Curvature:
    """H + diag(d), the Hessian of a loss and of its prior; its Cholesky factor is found once.

    Parameters
    ----------
    H : ndarray of shape (p, p)
        Symmetric.
    d : ndarray of shape (p,) or 0
        What the prior adds, not negative.
    """

    def __init__(self, H: Array, d: Array | float = 0.0):
        self.H = H
        self.d = np.zeros(len(H)) + d

    @cached_property
    def factor(self) -> Array | None:
        """The upper Cholesky factor, where there is one beyond doubt."""
        return upper_factor(self.H, self.d)

    @cached_property
    def log_det(self) -> float:
        """log det of H + diag(d), which has a factor; else infinite."""
        if self.factor is None:
            return np.inf
        return 2 * float(np.log(self.factor.diagonal()).sum())

    def along(self, step: Array) -> float:
        """stepᵀ (H + diag(d)) step."""
        return float(step @ self.H @ step + self.d @ step**2)

    def solved(self, g: Array) -> Array:
        """(H + diag(d))⁻¹ g, of a matrix that is made positive where it is not.

        Multiples of a d > 0 are added until there is a factor. Without one, eigenvalues are taken
        by their absolute values; along null directions nothing is to gain.
        """
        factor = self.factor
        if factor is None:
            factor = self._raised
        if factor is not None:
            return np.asarray(dpotrs(factor, g)[0], dtype=np.float64)
        size, vectors = self._directions
        return vectors @ ((vectors.T @ g) / size)

    @cached_property
    def _raised(self) -> Array | None:
        """The factor of H + m diag(d) for the least of some multiples m that has one."""
        if not self.d.all():
            return None
        tried = (upper_factor(self.H, m * self.d) for m in _MULTIPLES)
        return next((factor for factor in tried if factor is not None), None)

    @cached_property
    def _directions(self) -> tuple[Array, Array]:
        """By how much H + diag(d) is curved where it is, and these directions as columns."""
        values, vectors = np.linalg.eigh(self.H + np.diag(self.d))
        size = np.abs(values)
        curved = size > 1e-12 * size.max() + 1e-300
        return size[curved], vectors[:, curved]


class Inverse:
    """H⁻¹ by the last second derivatives, corrected by what steps have said of H since.

    Letters: s steps, y = Δg the changes of the gradient on them; BFGS without matrices (Nocedal
    1980, Updating quasi-Newton matrices with limited storage).
    """

    def __init__(self, curvature: Curvature):
        self.curvature = curvature
        self._pairs: list[tuple[Array, Array, float]] = []

    def learn(self, s: Array, y: Array) -> None:
        """H s = y from now on, where that leaves H positive."""
        if s @ y > 0:
            self._pairs.append((s, y, float(s @ y)))

    def times(self, g: Array) -> Array:
        """H⁻¹ g."""
        q = g.copy()
        shares = []
        for s, y, sy in reversed(self._pairs):
            shares.append(s @ q / sy)
            q -= shares[-1] * y
        r = self.curvature.solved(q)
        for s, y, sy in self._pairs:
            r += (shares.pop() - y @ r / sy) * s
        return r


def upper_factor(H: Array, d: Array, least_pivot: float = _LEAST_PIVOT) -> Array | None:
    """The upper Cholesky factor of H + diag(d), where it has one beyond doubt."""
    A = H.copy()
    np.einsum("ii->i", A)[:] += d
    # LAPACK itself, as what stands around it takes longer. A symmetric matrix is in its order
    # without another copy.
    factor, failed = dpotrf(A.T, overwrite_a=1, clean=0)
    pivots = factor.diagonal()
    if failed or pivots.min() <= least_pivot * pivots.max():
        return None
    return np.asarray(factor, dtype=np.float64)


def bordered(H: Array, cross: Array, corner: float) -> Array:
    """H with one more row and column."""
    p = len(H)
    wider = np.empty((p + 1, p + 1))
    wider[:p, :p] = H
    wider[p, :p] = wider[:p, p] = cross
    wider[p, p] = corner
    return wider
