"""Variance and lengthscales of the kernel, by maximising the bound."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from ._kernels import Kernel
from ._variational import (
    BinaryLabels,
    Features,
    Latent,
    Local,
    Sums,
    coordinate_ascent,
    diagonal,
    jitter,
    local_blocks,
    narrow,
    prior,
    solve,
    sweep,
)

# Where learning looks, wider where it starts outside; lengthscales in units of the scaled X. One
# side is open: only then L-BFGS-B begins with a step of length 1, else one as long as the gradient.
_VARIANCE = (1e-4, 1e4)
_LENGTHSCALE = (1e-3, np.inf)
# How many lengthscales are tried to begin with, with so many passes each.
_CANDIDATES = 5
_PASSES = 2


def sums_of(features: Features, local: Local) -> Sums:
    """The sums of given κ and θ."""
    return Sums.total((phi, Local(*(a[:, rows] for a in local))) for rows, phi in features)


def value_and_gradient(features: Features, local: Local, parameters: Tensor, make_kernel):
    """The bound at the best q for given κ and θ, its gradient in the kernel's parameters, and q.

    By the envelope theorem the gradient is the one at the best q. With D = J − S − μμᵀ and b = Φκ,
    ∂/∂Φ = DΦΘ + μκᵀ and ∂/∂L⁻¹ = (DΦΘΦᵀ + μbᵀ)Lᵀ. Their last row and column are left out, for the
    ones are constant. Autograd differentiates the kernel.
    """
    sums = sums_of(features, local)
    latent, bound = solve(sums, features.kernel.variance)
    W = features.whitener
    mu = latent.mu
    D = diagonal(latent.S, 0.0) - latent.S - mu[:, :, None] * mu[:, None, :]
    to_W = (D @ sums.gram + mu[:, :, None] * sums.kappa[:, None, :]).sum(0)[:-1, :-1]
    to_W = torch.linalg.solve_triangular(W, to_W.T, upper=False).T
    p = parameters.detach().requires_grad_()
    kernel = make_kernel(p)
    outputs = [kernel.whitener(features.Z, jitter(features.dtype)), kernel.variance]
    gradient = torch.autograd.grad(outputs, p, [to_W, -local.theta.sum() / 2])[0]
    WD = narrow(W.T @ D[:, :-1], features.dtype)
    W_mu = narrow(W.T @ mu[:, :-1].T, features.dtype)
    for rows, phi in features:
        to_k = W_mu @ local.kappa[:, rows].to(phi.dtype)
        for wd, theta in zip(WD, local.theta[:, rows].to(phi.dtype), strict=True):
            to_k += (wd @ phi) * theta
        k = make_kernel(p)(features.Z, features.X[rows], phi.dtype)
        gradient = gradient + torch.autograd.grad(k, p, to_k)[0]
    return bound, gradient, latent


def local_terms(features: Features, labels: BinaryLabels, latent: Latent) -> Local:
    """κ, θ and constants of all rows at q."""
    parts = [local for _, local in local_blocks(features, labels, latent)]
    return Local(*(torch.cat(a, dim=1) for a in zip(*parts, strict=True)))


def starting_lengthscale(X: Tensor, Z: Tensor, labels: BinaryLabels, profile, variance, dtype):
    """The best of five lengthscales, from the distance of neighbours to that of any two.

    Distances are those of inducing points.
    """
    distances = torch.cdist(Z, Z)
    pairs = distances[distances > 0]
    if not len(pairs):
        return 1.0
    near = float(torch.where(distances > 0, distances, torch.inf).min(1).values.median())
    candidates = np.geomspace(near, max(float(pairs.median()), near), _CANDIDATES)
    bounds = []
    for candidate in candidates:
        kernel = Kernel(profile, X.new_tensor(variance), X.new_tensor([candidate]))
        features = Features(X, Z, kernel, dtype=dtype, keep=True)
        latent = prior(len(labels.n), Z)
        for _ in range(_PASSES):
            latent, bound = solve(sweep(features, labels, latent), kernel.variance)
        bounds.append(bound)
    return float(candidates[np.argmax(bounds)])


class _Evaluation(NamedTuple):
    """A kernel, the local terms and q there, and the bound."""

    bound: float
    kernel: Kernel
    local: Local
    latent: Latent


def learn(
    X: Tensor,
    Z: Tensor,
    labels: BinaryLabels,
    kernel: Kernel,
    latent: Latent,
    *,
    dtype,
    max_iter: int,
    tol: float,
    report,
) -> tuple[Kernel, Latent]:
    """The kernel that maximises the bound, and the best q there.

    L-BFGS moves the logarithms of its parameters. It begins at `kernel` and `latent`, and ends when
    a step raises the bound by less than `tol` of its value. The first evaluation is that of
    `kernel` itself, so that the bound never ends below it. Each evaluation takes four steps of
    coordinate ascent from κ and θ of the best one so far. So the bound is nearly that of the best
    θ: with fewer steps, L-BFGS takes their progress for that of the kernel.
    """
    features = Features(X, Z, kernel, dtype=dtype, keep=True)
    *_, (latent, _) = coordinate_ascent(features, labels, latent, max_iter=10, tol=1e-3)
    best = _Evaluation(-np.inf, kernel, local_terms(features, labels, latent), latent)

    def make_kernel(p):
        values = torch.exp(p)
        return Kernel(kernel.profile, values[0], values[1:])

    def negative(p):
        nonlocal best
        p = X.new_tensor(p)
        features = Features(X, Z, make_kernel(p), dtype=dtype, keep=True)
        local = best.local
        for _ in range(3):
            latent, _ = solve(sums_of(features, local), features.kernel.variance)
            local = local_terms(features, labels, latent)
        value, gradient, latent = value_and_gradient(features, local, p, make_kernel)
        report(value)
        if value > best.bound:
            best = _Evaluation(value, features.kernel, local, latent)
        return -value, -gradient.cpu().numpy()

    start = torch.log(torch.cat([kernel.variance[None], kernel.lengthscale])).cpu().numpy()
    low, high = np.log([_VARIANCE] + [_LENGTHSCALE] * len(kernel.lengthscale)).T
    minimize(
        negative,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=np.column_stack([np.minimum(low, start), np.maximum(high, start)]),
        options={"maxfun": max_iter, "maxls": 5, "ftol": tol},
    )
    return best.kernel, best.latent


@contextmanager
def range_named() -> Iterator[None]:
    """A factorization that fails says what to look at."""
    try:
        yield
    except torch.linalg.LinAlgError as error:
        raise ValueError(
            f"X or sample_weight has too wide a range for stable computation: {error}"
        ) from error
