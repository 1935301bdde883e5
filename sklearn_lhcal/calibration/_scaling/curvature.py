"""What calibration rows know of parameters, ∂²F/∂x², and coordinates in which that is 1.

With the second derivatives d of a prior the Hessian is M = H + diag d. By Cholesky M = LLᵀ,
and A = L⁻ᵀ makes it AᵀMA = 1.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg.lapack import dpotrs, dtrtri

from ..._ground.arrays import Floats

# Of its diagonal, what makes a matrix positive definite along directions that change nothing.
_RIDGE = 1e-10
# Of what a class knows in the mean, in what each of them knows: some are hardly predicted.
_SHARE = 1e-3


class Factor:
    """M = LLᵀ in B blocks of the diagonal, shape (B, p/B, p/B), which are changed."""

    def __init__(self, M: Floats):
        diagonal = np.einsum("bii->bi", M)
        least = _RIDGE * diagonal.max(initial=0.0) + 1e-300
        diagonal += _RIDGE * np.maximum(diagonal, least)
        self.L = np.linalg.cholesky(M)

    @property
    def log_det(self) -> float:
        """log det M."""
        return 2 * float(np.log(np.einsum("bii->bi", self.L)).sum())

    @cached_property
    def A(self) -> Floats:
        """L⁻ᵀ, block by block."""
        return np.stack([dtrtri(block.T)[0] for block in self.L])

    def times(self, t: Floats) -> Floats:
        """A t."""
        return np.matmul(self.A, t.reshape(len(self.A), -1, 1)).ravel()

    def pulled(self, g: Floats) -> Floats:
        """Aᵀg."""
        return np.matmul(g.reshape(len(self.A), 1, -1), self.A).ravel()

    def solved(self, g: Floats) -> Floats:
        """M⁻¹g."""
        blocks = zip(self.L, g.reshape(len(self.L), -1), strict=True)
        return np.concatenate([dpotrs(L.T, part)[0] for L, part in blocks])


@dataclass(frozen=True)
class Information:
    """H itself, shape (p, p)."""

    H: Floats

    def __add__(self, other: "Information") -> "Information":
        return Information(self.H + other.H)

    def among(self, some) -> "Information":
        """That of some of the parameters."""
        return Information(self.H[np.ix_(some, some)])

    def with_one_more(self, corner: float) -> "Information":
        """With one more parameter, of which the others say nothing."""
        H = np.pad(self.H, (0, 1))
        H[-1, -1] = corner
        return Information(H)

    def factor(self, d: Floats) -> Factor:
        """That of H + diag d."""
        return Factor((self.H + np.diag(d))[None])


@dataclass(frozen=True)
class ClassInformation:
    """H of a matrix of many classes, nearly: a block for each row θ_k of (W, b).

    H_k = s_k (C + μ_k μ_kᵀ) with the mean μ_k of ũ = (u, 1) under the weights w_k = n p_k (1 − p_k)
    and a covariance C that all classes share.

    Parameters
    ----------
    s : ndarray of shape (K,)
        Σ w_k over the rows.
    m : ndarray of shape (K, K+1)
        Σ w_k ũ.
    second : ndarray of shape (K+1, K+1)
        Σ_k Σ w_k ũũᵀ.
    """

    s: Floats
    m: Floats
    second: Floats

    def __add__(self, other: "ClassInformation") -> "ClassInformation":
        return ClassInformation(self.s + other.s, self.m + other.m, self.second + other.second)

    def factor(self, d: Floats) -> Factor:
        """That of the blocks H_k + diag d_k."""
        mu = self.m / np.maximum(self.s, 1e-300)[:, None]
        C = (self.second - mu.T @ self.m) / self.s.sum()
        s = self.s + _SHARE * self.s.mean()
        M = mu[:, :, None] * mu[:, None, :]
        M += C
        M *= s[:, None, None]
        np.einsum("kii->ki", M)[:] += d.reshape(len(s), -1)
        return Factor(M)
