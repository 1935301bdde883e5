"""Stationary kernels of scaled squared distances, in torch."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


def rbf(r2: Tensor) -> Tensor:
    """exp(−r²/2)."""
    return _decay(r2 / 2)


def rbf_slope(r2: Tensor) -> Tensor:
    """Its derivative in r²."""
    return _decay(r2 / 2) / -2


def matern12(r2: Tensor) -> Tensor:
    """exp(−r)."""
    return _decay(torch.sqrt(r2))


def matern12_slope(r2: Tensor) -> Tensor:
    """Its derivative in r², −e^−r/2r; nearer than r = 1e-4 it stays as it is there."""
    r = torch.sqrt(r2.clamp_min(1e-8))
    return _decay(r) / (-2 * r)


def matern32(r2: Tensor) -> Tensor:
    """(1 + √3 r)·exp(−√3 r)."""
    a = torch.sqrt(3 * r2)
    return (1 + a) * _decay(a)


def matern32_slope(r2: Tensor) -> Tensor:
    """Its derivative in r²."""
    return _decay(torch.sqrt(3 * r2)) * (-3 / 2)


def matern52(r2: Tensor) -> Tensor:
    """(1 + √5 r + 5r²/3)·exp(−√5 r)."""
    a = torch.sqrt(5 * r2)
    return (1 + a + a**2 / 3) * _decay(a)


def matern52_slope(r2: Tensor) -> Tensor:
    """Its derivative in r²."""
    a = torch.sqrt(5 * r2)
    return (1 + a) * _decay(a) * (-5 / 6)


def _decay(a: Tensor) -> Tensor:
    """e^−a, but 4e-18 at least: denormal numbers are slow."""
    return torch.exp(-a.clamp_max(40))


class Profile(NamedTuple):
    """How covariance falls with the squared distance, and the derivative of that."""

    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]


PROFILES = {
    "rbf": Profile(rbf, rbf_slope),
    "matern12": Profile(matern12, matern12_slope),
    "matern32": Profile(matern32, matern32_slope),
    "matern52": Profile(matern52, matern52_slope),
}


class Kernel(NamedTuple):
    """k(x, x') = variance · profile(‖(x − x')/lengthscale‖²).

    The lengthscale has shape (1,) or (n_features,).
    """

    profile: Profile
    variance: Tensor
    lengthscale: Tensor

    def __call__(self, x: Tensor, z: Tensor) -> Tensor:
        """The matrix of k between the rows of x and of z."""
        return self.profile.value(self._distances(x, z)).mul_(self.variance)

    def _distances(self, x: Tensor, z: Tensor) -> Tensor:
        """r² = ‖(x − z)/lengthscale‖² of each sample of x and of z."""
        x = x / self.lengthscale
        z = z / self.lengthscale
        x2 = (x**2).sum(1, keepdim=True)
        z2 = (z**2).sum(1, keepdim=True)
        # ‖x‖² + ‖z‖² − 2x·z in one product
        left = torch.cat([-2 * x, x2, torch.ones_like(x2)], 1)
        return (left @ torch.cat([z, torch.ones_like(z2), z2], 1).T).clamp_min_(0)

    def pull_back(self, x: Tensor, z: Tensor, weight: Tensor) -> Tensor:
        """The derivative of Σ weight ∘ k(x, z) in log variance and in log lengthscales.

        With M = weight ∘ ∂k/∂r², that in log ℓ is −2 Σ M (x − z)²/ℓ², feature by feature. Distances
        are in float64, exponentials as precise as the weight.
        """
        r2 = self._distances(x, z).to(weight.dtype)
        of_variance = (weight * self.profile.value(r2)).sum(dtype=torch.float64)
        M = (weight * self.profile.slope(r2)).double()
        x = x / self.lengthscale
        z = z / self.lengthscale
        squares = M.sum(1) @ x**2 + M.sum(0) @ z**2 - 2 * ((M @ z) * x).sum(0)
        of_lengthscale = squares.sum_to_size(self.lengthscale.shape)
        return self.variance * torch.cat([of_variance[None], -2 * of_lengthscale])

    def whitener(self, z: Tensor, jitter: float) -> Tensor:
        """L⁻¹ with L Lᵀ = K_zz + jitter·variance·I."""
        eye = torch.eye(len(z), dtype=z.dtype, device=z.device)
        L = torch.linalg.cholesky(self(z, z) + jitter * self.variance * eye)
        return torch.linalg.solve_triangular(L, eye, upper=False)
