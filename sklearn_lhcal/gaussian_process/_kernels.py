"""Stationary kernels of scaled squared distances, in torch."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


def rbf(r2: Tensor) -> Tensor:
    """exp(−r²/2)."""
    return _decay(r2 / 2)


def matern12(r2: Tensor) -> Tensor:
    """exp(−r)."""
    return _decay(_root(r2))


def matern32(r2: Tensor) -> Tensor:
    """(1 + √3 r)·exp(−√3 r)."""
    a = _root(3 * r2)
    return (1 + a) * _decay(a)


def matern52(r2: Tensor) -> Tensor:
    """(1 + √5 r + 5r²/3)·exp(−√5 r)."""
    a = _root(5 * r2)
    return (1 + a + a**2 / 3) * _decay(a)


def _decay(a: Tensor) -> Tensor:
    """e^−a, but 4e-18 at least: denormal numbers are slow."""
    return torch.exp(-a.clamp_max(40))


def _root(r2: Tensor) -> Tensor:
    """√r², with a derivative that stays finite where points coincide."""
    return torch.sqrt(r2.clamp_min(1e-24))


PROFILES = {"rbf": rbf, "matern12": matern12, "matern32": matern32, "matern52": matern52}


class Kernel(NamedTuple):
    """k(x, x') = variance · profile(‖(x − x')/lengthscale‖²).

    The lengthscale has shape (1,) or (n_features,).
    """

    profile: Callable[[Tensor], Tensor]
    variance: Tensor
    lengthscale: Tensor

    def __call__(self, x: Tensor, z: Tensor, dtype=torch.float64) -> Tensor:
        """The matrix of k between the rows of x and of z.

        Squared distances are computed in float64, what follows in `dtype`.
        """
        x = x / self.lengthscale
        z = z / self.lengthscale
        x2 = (x**2).sum(1, keepdim=True)
        z2 = (z**2).sum(1, keepdim=True)
        # ‖x‖² + ‖z‖² − 2x·z in one product
        left = torch.cat([-2 * x, x2, torch.ones_like(x2)], 1)
        r2 = left @ torch.cat([z, torch.ones_like(z2), z2], 1).T
        return self.variance.to(dtype) * self.profile(r2.to(dtype).clamp_min(0))

    def whitener(self, z: Tensor, jitter: float) -> Tensor:
        """L⁻¹ with L Lᵀ = K_zz + jitter·variance·I."""
        eye = torch.eye(len(z), dtype=z.dtype, device=z.device)
        L = torch.linalg.cholesky(self(z, z) + jitter * self.variance * eye)
        return torch.linalg.solve_triangular(L, eye, upper=False)
