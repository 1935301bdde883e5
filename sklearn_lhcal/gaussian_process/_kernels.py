"""Stationary kernels of scaled squared distances, in torch."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


def rbf(r2: Tensor) -> Tensor:
    """exp(−r²/2)."""
    return _fall(r2 / 2)


def matern12(r2: Tensor) -> Tensor:
    """exp(−r)."""
    return _fall(_root(r2))


def matern32(r2: Tensor) -> Tensor:
    """(1 + √3 r)·exp(−√3 r)."""
    a = _root(3 * r2)
    return (1 + a) * _fall(a)


def matern52(r2: Tensor) -> Tensor:
    """(1 + √5 r + 5r²/3)·exp(−√5 r)."""
    a = _root(5 * r2)
    return (1 + a + a**2 / 3) * _fall(a)


def _fall(a: Tensor) -> Tensor:
    return torch.exp(-a.clamp_max(40))  # 4e-18 and nothing smaller: denormal numbers are slow


def _root(r2: Tensor) -> Tensor:
    return torch.sqrt(r2.clamp_min(1e-24))  # its derivative stays finite where points coincide


KERNELS = {"rbf": rbf, "matern12": matern12, "matern32": matern32, "matern52": matern52}


class Kernel(NamedTuple):
    """k(x, x') = variance · shape(‖(x − x')/lengthscale‖²); the lengthscale has shape (1,) or (n_features,)."""

    shape: Callable[[Tensor], Tensor]
    variance: Tensor
    lengthscale: Tensor

    def __call__(self, x: Tensor, z: Tensor, dtype=torch.float64) -> Tensor:
        """The matrix of k between the rows of x and of z; squared distances in float64, what follows in `dtype`."""
        x, z = x / self.lengthscale, z / self.lengthscale
        x2, z2 = (x**2).sum(1, keepdim=True), (z**2).sum(1, keepdim=True)
        r2 = (
            torch.cat([-2 * x, x2, torch.ones_like(x2)], 1)
            @ torch.cat([z, torch.ones_like(z2), z2], 1).T
        )
        return self.variance.to(dtype) * self.shape(r2.to(dtype).clamp_min(0))

    def whitener(self, z: Tensor, jitter: float) -> Tensor:
        """L⁻¹ with L Lᵀ = K_zz + jitter·variance·I."""
        eye = torch.eye(len(z), dtype=z.dtype, device=z.device)
        L = torch.linalg.cholesky(self(z, z) + jitter * self.variance * eye)
        return torch.linalg.solve_triangular(L, eye, upper=False)
