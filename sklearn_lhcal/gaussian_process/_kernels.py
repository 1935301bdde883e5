"""Stationary kernels of scaled squared distances, in torch."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


def rbf(r2: Tensor) -> Tensor:
    """exp(−r²/2)."""
    return torch.exp(-r2 / 2)


def matern12(r2: Tensor) -> Tensor:
    """exp(−r)."""
    return torch.exp(-_root(r2))


def matern32(r2: Tensor) -> Tensor:
    """(1 + √3 r)·exp(−√3 r)."""
    a = _root(3 * r2)
    return (1 + a) * torch.exp(-a)


def matern52(r2: Tensor) -> Tensor:
    """(1 + √5 r + 5r²/3)·exp(−√5 r)."""
    a = _root(5 * r2)
    return (1 + a + a**2 / 3) * torch.exp(-a)


def _root(r2: Tensor) -> Tensor:
    return torch.sqrt(r2.clamp_min(1e-24))  # its derivative stays finite where points coincide


KERNELS = {"rbf": rbf, "matern12": matern12, "matern32": matern32, "matern52": matern52}


class Kernel(NamedTuple):
    """k(x, x') = variance · shape(‖(x − x')/lengthscale‖²); the lengthscale has shape (1,) or (n_features,)."""

    shape: Callable[[Tensor], Tensor]
    variance: Tensor
    lengthscale: Tensor

    def __call__(self, x: Tensor, z: Tensor) -> Tensor:
        """The matrix of k between the rows of x and of z."""
        x, z = x / self.lengthscale, z / self.lengthscale
        r2 = (x**2).sum(1)[:, None] + (z**2).sum(1) - 2 * x @ z.T
        return self.variance * self.shape(r2.clamp_min(0))

    def whitener(self, z: Tensor, jitter: float) -> Tensor:
        """L⁻¹ with L Lᵀ = K_zz + jitter·variance·I."""
        eye = torch.eye(len(z), dtype=z.dtype, device=z.device)
        L = torch.linalg.cholesky(self(z, z) + jitter * self.variance * eye)
        return torch.linalg.solve_triangular(L, eye, upper=False)
