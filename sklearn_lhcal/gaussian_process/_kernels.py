"""Stationary kernels of scaled squared distances, in torch."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

# How covariance falls with the squared distance, and the derivative of that.
Profile = Callable[[Tensor], tuple[Tensor, Tensor]]


def rbf(r2: Tensor) -> tuple[Tensor, Tensor]:
    """exp(−r²/2), and its derivative in r²."""
    value = _decay(r2 / 2)
    return value, value / -2


def matern12(r2: Tensor) -> tuple[Tensor, Tensor]:
    """exp(−r), and its derivative in r², −e^−r/2r, which stays as it is nearer than r = 1e-4."""
    r = torch.sqrt(r2.clamp_min(1e-8))
    return _decay(torch.sqrt(r2)), _decay(r) / (-2 * r)


def matern32(r2: Tensor) -> tuple[Tensor, Tensor]:
    """(1 + √3 r)·exp(−√3 r), and its derivative in r²."""
    a = torch.sqrt(3 * r2)
    decay = _decay(a)
    return (1 + a) * decay, decay * (-3 / 2)


def matern52(r2: Tensor) -> tuple[Tensor, Tensor]:
    """(1 + √5 r + 5r²/3)·exp(−√5 r), and its derivative in r²."""
    a = torch.sqrt(5 * r2)
    decay = _decay(a)
    return (1 + a + a**2 / 3) * decay, (1 + a) * decay * (-5 / 6)


def _decay(a: Tensor) -> Tensor:
    """e^−a, but 4e-18 at least: denormal numbers are slow."""
    return torch.exp(-a.clamp_max(40))


PROFILES = {"rbf": rbf, "matern12": matern12, "matern32": matern32, "matern52": matern52}


class Kernel(NamedTuple):
    """k(x, x') = variance · profile(‖(x − x')/lengthscale‖²).

    The lengthscale has shape (1,) or (n_features,).
    """

    profile: Profile
    variance: Tensor
    lengthscale: Tensor

    def __call__(self, x: Tensor, z: Tensor) -> Tensor:
        """The matrix of k between the rows of x and of z."""
        value, _ = self.profile(self._distances(x, z))
        return value.mul_(self.variance)

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
        value, slope = self.profile(r2)
        of_variance = (weight * value).sum(dtype=torch.float64)
        M = (weight * slope).double()
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
