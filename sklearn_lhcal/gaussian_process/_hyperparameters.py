"""Variance and lengthscales of the kernel, by maximising the bound."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._utils.arrays import Floats
from ._kernels import Kernel
from ._likelihoods import LEAST_VARIANCE, Likelihood, Settled
from ._variational import (
    JITTER,
    Features,
    Labels,
    Latent,
    diagonal,
    local_terms,
    narrow,
)

# Where learning looks, wider where it starts outside; lengthscales in units of the scaled X.
_VARIANCE = (LEAST_VARIANCE, 1e4)
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


def gradient(features: Features, at: Settled) -> Tensor:
    """That of the bound in the logarithms of variance and lengthscales.

    By the envelope theorem it is the one at the best q. With D = J − S − μμᵀ and b = Φκ,
    ∂/∂Φ = DΦΘ + μκᵀ and ∂/∂K_mm = −½ Wᵀ(DΦΘΦᵀ + μbᵀ)W for W = L⁻¹: the bound does not depend on
    which root of the inverse of K_mm W is. Last rows and columns are left out, for the ones are
    constant.
    """
    local, sums, latent, _ = at
    kernel = features.kernel
    Z = features.Z
    W = features.whitener
    mu = latent.mu
    D = diagonal(mu, 0.0) - latent.S - mu[:, :, None] * mu[:, None, :]
    E = (D @ sums.gram + mu[:, :, None] * sums.kappa[:, None, :]).sum(0)[:-1, :-1]
    to_K = W.T @ (E + E.T) @ W / -4
    found = kernel.pull_back(Z, Z, to_K)
    # what the diagonals hold beside, k(x, x) and the jitter, is in proportion to the variance
    diagonal_part = JITTER * torch.diagonal(to_K).sum() - local.theta.sum() / 2
    found[0] += kernel.variance * diagonal_part
    WD = narrow(W.T @ D[:, :-1], features.dtype)
    W_mu = narrow(W.T @ mu[:, :-1].T, features.dtype)
    for rows, phi, _ in features:
        to_k = W_mu @ local.kappa[:, rows].to(phi.dtype)
        for wd, theta in zip(WD, local.theta[:, rows].to(phi.dtype), strict=True):
            to_k += (wd @ phi).mul_(theta)
        found += kernel.pull_back(Z, features.X[rows], to_k)
    return found


def starting_lengthscale(
    X: Tensor,
    Z: Tensor,
    labels: Labels,
    likelihood: Likelihood,
    profile,
    variance,
    dtype,
):
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
        start = likelihood.start(labels, Z)
        *_, (_, bound) = likelihood.ascent(features, labels, start, max_iter=_PASSES, tol=0.0)
        bounds.append(bound)
    return float(candidates[np.argmax(bounds)])


class Place(NamedTuple):
    """A kernel and the logarithms of its parameters, q there, and the gradient in these."""

    kernel: Kernel
    parameters: Floats
    at: Settled
    gradient: Floats


def learn_in_stages(
    X: Tensor, Z: Tensor, labels: Labels, likelihood: Likelihood, kernel, tol, **options
):
    """The kernel that maximises the bound, and the best q there.

    Where there are many rows, most of the way is gone on a fifth of them.
    """
    inverse = None
    latent = likelihood.start(labels, Z)
    if len(X) > _MANY * len(Z):
        few = slice(None, None, _SHARE)
        kernel, latent, inverse = learn(
            X[few], Z, labels.at(few), likelihood, kernel, latent, tol=_ROUGH, **options
        )
        inverse = inverse / _SHARE
    kernel, latent, _ = learn(
        X, Z, labels, likelihood, kernel, latent, tol=tol, inverse=inverse, **options
    )
    return kernel, latent


def learn(
    X: Tensor,
    Z: Tensor,
    labels: Labels,
    likelihood: Likelihood,
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
    ends below it. Each evaluation takes a few steps from κ and θ of the best one so
    far. So the bound is nearly that of the best q: with fewer steps, their progress would be taken
    for that of the kernel. As some of it is left, no line is searched. Every evaluation tells
    the curvature, and the next step begins at the best. The search ends when neither the last step
    nor, by the curvature, the next one raises the bound by `tol` of its value.
    """
    features = Features(X, Z, kernel, dtype=dtype, keep=True)
    *_, (latent, _) = likelihood.ascent(features, labels, latent, max_iter=10, tol=1e-3)
    start = torch.log(torch.cat([kernel.variance[None], kernel.lengthscale])).cpu().numpy()

    def evaluate(p, local):
        values = X.new_tensor(np.exp(p))
        there = kernel._replace(variance=values[0], lengthscale=values[1:])
        features = Features(X, Z, there, dtype=dtype, keep=True)
        at = likelihood.settled(features, labels, local)
        report(at.bound)
        return Place(there, p, at, gradient(features, at).cpu().numpy())

    low, high = np.log([_VARIANCE] + [_LENGTHSCALE] * len(kernel.lengthscale)).T
    low = np.minimum(low, start)
    high = np.maximum(high, start)
    best = evaluate(start, local_terms(features, labels, latent, likelihood.local))
    if inverse is None:
        # a first step of length 1
        inverse = np.eye(len(start)) / max(float(np.linalg.norm(best.gradient)), 1e-10)
    longest = _LONGEST
    for _ in range(max_iter - 1):
        step = inverse @ best.gradient
        step *= min(1.0, longest / max(np.abs(step).max(), 1e-10))
        new = evaluate(np.clip(best.parameters + step, low, high), best.at.local)
        inverse = with_curvature(
            inverse, new.parameters - best.parameters, best.gradient - new.gradient
        )
        rise = new.at.bound - best.at.bound
        if rise > 0:
            best = new
            longest = _LONGEST
        else:
            longest = np.abs(step).max() / 2
        next_rise = best.gradient @ inverse @ best.gradient / 2
        if max(abs(rise), next_rise) < tol * abs(best.at.bound):
            break
    return best.kernel, best.at.latent, inverse


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
