"""Variance and lengthscales of the kernel, by maximising the bound."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._ground.arrays import Floats
from ._kernels import Kernel
from ._variational import (
    JITTER,
    BinaryLabels,
    Features,
    Latent,
    Local,
    Sums,
    coordinate_ascent,
    diagonal,
    local_blocks,
    narrow,
    prior,
    solve,
    sweep,
)

# Where learning looks, wider where it starts outside; lengthscales in units of the scaled X.
_VARIANCE = (1e-4, 1e4)
_LENGTHSCALE = (1e-3, np.inf)
# The largest change of the logarithm of a parameter in one step.
_LONGEST = 2.0
# Rows for each inducing point above which learning begins on a part of them: one row in so many,
# until the bound rises by less than this share of it.
_MANY = 5
_SHARE = 5
_ROUGH = 1e-3
# How many lengthscales are tried to begin with, with so many passes each.
_CANDIDATES = 5
_PASSES = 2


def sums_of(features: Features, local: Local) -> Sums:
    """The sums of given κ and θ."""
    return Sums.total((block, local.at(block.rows)) for block in features)


def value_and_gradient(features: Features, local: Local):
    """The bound at the best q for given κ and θ, its gradient in the kernel's parameters, and q.

    The parameters are the logarithms of variance and lengthscales. By the envelope theorem the
    gradient is the one at the best q. With D = J − S − μμᵀ, b = Φκ and W = L⁻¹,
    ∂/∂Φ = DΦΘ + μκᵀ and ∂/∂K_mm = −½ Wᵀ(DΦΘΦᵀ + μbᵀ)W: the bound does not depend on which root of
    the inverse of K_mm W is. Last rows and columns are left out, for the ones are constant.
    """
    sums = sums_of(features, local)
    kernel = features.kernel
    Z = features.Z
    latent, bound = solve(sums, kernel.variance)
    W = features.whitener
    mu = latent.mu
    D = diagonal(latent.S, 0.0) - latent.S - mu[:, :, None] * mu[:, None, :]
    E = (D @ sums.gram + mu[:, :, None] * sums.kappa[:, None, :]).sum(0)[:-1, :-1]
    to_K = W.T @ (E + E.T) @ W / -4
    gradient = kernel.pull_back(Z, Z, to_K)
    # what the diagonals hold beside, k(x, x) and the jitter, is in proportion to the variance
    diagonal_part = JITTER * torch.diagonal(to_K).sum() - local.theta.sum() / 2
    gradient[0] += kernel.variance * diagonal_part
    WD = narrow(W.T @ D[:, :-1], features.dtype)
    W_mu = narrow(W.T @ mu[:, :-1].T, features.dtype)
    for rows, phi, _ in features:
        to_k = W_mu @ local.kappa[:, rows].to(phi.dtype)
        for wd, theta in zip(WD, local.theta[:, rows].to(phi.dtype), strict=True):
            to_k += (wd @ phi).mul_(theta)
        gradient += kernel.pull_back(Z, features.X[rows], to_k)
    return bound, gradient, latent


def local_terms(features: Features, labels: BinaryLabels, latent: Latent) -> Local:
    """κ, θ and constants of all rows at q."""
    parts = [local for _, local in local_blocks(features, labels, latent)]
    return Local(*(torch.cat(a, dim=1) for a in zip(*parts, strict=True)))


def starting_lengthscale(X: Tensor, Z: Tensor, labels: BinaryLabels, profile, variance, dtype):
    """The best of five lengthscales, from the distance of neighbours to that of any two.

    Distances are those of inducing points.
    """
    # by differences: a product leaves some points 1e-8 away from themselves, as if neighbours
    distances = torch.cdist(Z, Z, compute_mode="donot_use_mm_for_euclid_dist")
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


class Place(NamedTuple):
    """A kernel and the logarithms of its parameters, the local terms and q there.

    With the bound, and its gradient in these logarithms.
    """

    kernel: Kernel
    parameters: Floats
    local: Local
    latent: Latent
    bound: float
    gradient: Floats


def learn_in_stages(X: Tensor, Z: Tensor, labels: BinaryLabels, kernel, latent, tol, **options):
    """The kernel that maximises the bound, and the best q there.

    Where there are many rows, most of the way is gone on a fifth of them.
    """
    inverse = None
    if len(X) > _MANY * len(Z):
        few = slice(None, None, _SHARE)
        kernel, latent, inverse = learn(
            X[few], Z, labels.at(few), kernel, latent, tol=_ROUGH, **options
        )
        inverse = inverse / _SHARE
    kernel, latent, _ = learn(X, Z, labels, kernel, latent, tol=tol, inverse=inverse, **options)
    return kernel, latent


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
    inverse: Floats | None = None,
) -> tuple[Kernel, Latent, Floats]:
    """The kernel that maximises the bound, the best q there, and the inverse of minus the Hessian.

    BFGS moves the logarithms of its parameters, from `kernel`, `latent` and the inverse Hessian of
    a fit to other rows. The first evaluation is that of `kernel` itself, so that the bound never
    ends below it. Each evaluation takes four steps of coordinate ascent from κ and θ of the best
    one so far. So the bound is nearly that of the best θ: with fewer steps, their progress would be
    taken for that of the kernel. As some of it is left, no line is searched. Every evaluation tells
    the curvature, and the next step begins at the best. The search ends when neither the last step
    nor, by the curvature, the next one raises the bound by `tol` of its value.
    """
    features = Features(X, Z, kernel, dtype=dtype, keep=True)
    *_, (latent, _) = coordinate_ascent(features, labels, latent, max_iter=10, tol=1e-3)
    start = torch.log(torch.cat([kernel.variance[None], kernel.lengthscale])).cpu().numpy()

    def evaluate(p, local):
        values = X.new_tensor(np.exp(p))
        there = kernel._replace(variance=values[0], lengthscale=values[1:])
        features = Features(X, Z, there, dtype=dtype, keep=True)
        for _ in range(3):
            latent, _ = solve(sums_of(features, local), there.variance)
            local = local_terms(features, labels, latent)
        bound, gradient, latent = value_and_gradient(features, local)
        report(bound)
        return Place(there, p, local, latent, bound, gradient.cpu().numpy())

    low, high = np.log([_VARIANCE] + [_LENGTHSCALE] * len(kernel.lengthscale)).T
    low = np.minimum(low, start)
    high = np.maximum(high, start)
    best = evaluate(start, local_terms(features, labels, latent))
    if inverse is None:
        # a first step of length 1
        inverse = np.eye(len(start)) / max(float(np.linalg.norm(best.gradient)), 1e-10)
    longest = _LONGEST
    for _ in range(max_iter - 1):
        step = inverse @ best.gradient
        step *= min(1.0, longest / max(np.abs(step).max(), 1e-10))
        new = evaluate(np.clip(best.parameters + step, low, high), best.local)
        inverse = with_curvature(
            inverse, new.parameters - best.parameters, best.gradient - new.gradient
        )
        rise = new.bound - best.bound
        if rise > 0:
            best = new
            longest = _LONGEST
        else:
            longest = np.abs(step).max() / 2
        next_rise = best.gradient @ inverse @ best.gradient / 2
        if max(abs(rise), next_rise) < tol * abs(best.bound):
            break
    return best.kernel, best.latent, inverse


def with_curvature(inverse: Floats, s: Floats, y: Floats) -> Floats:
    """BFGS: the inverse Hessian after a step s over which the gradient fell by y.

    It stays as it is where the gradient did not fall along the step.
    """
    sy = s @ y
    if sy <= 1e-10 * np.linalg.norm(s) * np.linalg.norm(y):
        return inverse
    V = np.eye(len(s)) - np.outer(s, y) / sy
    return V @ inverse @ V.T + np.outer(s, s) / sy


@contextmanager
def range_named() -> Iterator[None]:
    """A factorization that fails says what to look at."""
    try:
        yield
    except torch.linalg.LinAlgError as error:
        raise ValueError(
            f"X or sample_weight has too wide a range for stable computation: {error}"
        ) from error
