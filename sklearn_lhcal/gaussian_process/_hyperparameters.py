"""Variance and lengthscales of the kernel, by maximising the bound."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._utils.types import Floats
from ._kernels import Kernel
from ._likelihoods import Likelihood, Settled, normal_draws
from ._variational import JITTER, Data, Features, Latent, diagonal, local_terms, narrow, prior

# Where learning looks, wider where it starts outside; lengthscales in units of the scaled X.
_VARIANCE = (1e-4, 1e4)
_LENGTHSCALE = (1e-3, np.inf)
_NOISE = (1e-2, 1e2)
# The largest change of the logarithm of a parameter in one step.
_LONGEST = 2.0
# Samples for each inducing point above which learning begins on a part of them: one sample in so
# many, until the bound rises by less than this share of it.
_MANY = 5
_SHARE = 5
_ROUGH = 1e-3
# How many lengthscales are tried to begin with, with so many passes each.
_CANDIDATES = 5
_PASSES = 2
# Steps of ε in one direction, and by which share the loss must fall for the next.
_FURTHEST = 4
_LEAST_FALL = 1e-3


def gradient(features: Features, at: Settled) -> Tensor:
    """That of the bound in the logarithms of variance and lengthscales.

    By the envelope theorem it is the one at the best q. With D = J − S − μμᵀ and b = Φκ,
    ∂/∂Φ = DΦΘ + μκᵀ and ∂/∂K_mm = −½ WᵀEW for W = L⁻¹ and E = DΦΘΦᵀ + μbᵀ: the bound does not
    depend on which root of the inverse of K_mm W is. Last rows and columns are left out, for the
    ones are constant; there E = ΦΘΦᵀ − D, as S is the inverse of P + ΦΘΦᵀ and μ = Sb.
    """
    local, sums, latent, _ = at
    kernel = features.kernel
    Z = features.Z
    W = features.whitener
    mu = latent.mu
    D = diagonal(mu, 0.0) - latent.S - mu[:, :, None] * mu[:, None, :]
    E = (sums.gram - D).sum(0)[:-1, :-1]
    to_K = W.T @ E @ W / -2
    result = kernel.pull_back(Z, Z, to_K)
    # what the diagonals hold beside, k(x, x) and the jitter, is in proportion to the variance
    diagonal_part = JITTER * torch.diagonal(to_K).sum() - local.theta.sum() / 2
    result[0] += kernel.variance * diagonal_part
    WD = narrow(W.T @ D[:, :-1], features.dtype)
    W_mu = narrow(W.T @ mu[:, :-1].T, features.dtype)
    for rows, phi, _ in features:
        to_k = W_mu @ local.kappa[:, rows].to(phi.dtype)
        for wd, theta in zip(WD, local.theta[:, rows].to(phi.dtype), strict=True):
            to_k += (wd @ phi).mul_(theta)
        result += kernel.pull_back(Z, features.X[rows], to_k)
    return result


def starting_lengthscale(data: Data, likelihood: Likelihood, profile, variance):
    """The best of five lengthscales, from the distance of neighbours to that of any two.

    Distances are those of inducing points.
    """
    # by differences: a product leaves some points 1e-8 away from themselves, as if neighbours
    Z = data.Z
    distances = torch.cdist(Z, Z, compute_mode="donot_use_mm_for_euclid_dist")
    pairs = distances[distances > 0]
    if not len(pairs):
        return 1.0
    nearest = torch.where(distances > 0, distances, torch.inf).min(1).values
    near = float(nearest.median())
    candidates = np.geomspace(near, max(float(pairs.median()), near), _CANDIDATES)
    bounds = []
    for candidate in candidates:
        kernel = Kernel(profile, Z.new_tensor(variance), Z.new_tensor([candidate]))
        features = Features(data, kernel, keep=True)
        start = prior(len(data.labels.n), Z)
        *_, (_, bound) = likelihood.ascent(features, start, max_iter=_PASSES, tol=0.0)
        bounds.append(bound)
    return float(candidates[np.argmax(bounds)])


class Place(NamedTuple):
    """A likelihood, a kernel, the logarithms of parameters, q there, and the gradient in these."""

    likelihood: Likelihood
    kernel: Kernel
    parameters: Floats
    at: Settled
    gradient: Floats


class Learned(NamedTuple):
    """What maximises the bound, the best q there, and the inverse of minus the Hessian.

    The last one is None where a search begins.
    """

    likelihood: Any
    kernel: Kernel
    latent: Latent
    inverse: Any = None


def learn_in_stages(data: Data, start: Learned, tol, **options) -> Learned:
    """The likelihood and the kernel that maximise the bound.

    Where there are many samples, most of the way is gone on a fifth of them, unless the start is
    that of a search nearby.
    """
    if start.inverse is None and len(data.X) > _MANY * len(data.Z):
        few = data.at(slice(None, None, _SHARE))
        start = learn(few, start, tol=_ROUGH, **options)
        start = start._replace(inverse=start.inverse / _SHARE)
    return learn(data, start, tol=tol, **options)


def choose_epsilon(
    data: Data, start: Learned, fit: Callable[[Learned], Learned], seed: int
) -> Learned:
    """The power of ten of the smallest leave-one-out loss, from 1e-6 to 100.

    ε changes the targets, so that the bound cannot compare two of them. The walk begins at the ε of
    `start` and ends where the loss rises.
    """

    def visit(factor: float, near: Learned) -> tuple[float, Learned]:
        likelihood = near.likelihood._replace(epsilon=near.likelihood.epsilon * factor)
        result = fit(near._replace(likelihood=likelihood))
        features = Features(data, result.kernel)
        draws = normal_draws(result.latent.mean, seed)
        loss = result.likelihood.left_out_loss(features, result.latent, draws)
        return loss, result

    least, first = visit(1.0, start)
    best = first
    for factor in (0.1, 10.0):
        for _ in range(_FURTHEST):
            loss, new = visit(factor, best)
            if loss > (1 - _LEAST_FALL) * least:
                break
            least = loss
            best = new
        if best is not first:
            break
    return best


def learn(data: Data, start: Learned, *, max_iter: int, tol: float, report) -> Learned:
    """What maximises the bound.

    BFGS moves the logarithms of the parameters of kernel and likelihood, from `start` and the
    inverse Hessian there, of a fit to other samples say. The first evaluation is that of `start`
    itself, so that the bound never ends below it. Each takes a few steps from κ and θ of the best
    one so far. So the bound is nearly that of the best q: with fewer steps, their progress would be
    taken for that of the kernel. As some of it is left, no line is searched. Every evaluation tells
    the curvature, and the next step begins at the best. The search ends when neither the last step
    nor, by the curvature, the next one raises the bound by `tol` of its value.
    """
    likelihood, kernel, latent, inverse = start
    features = Features(data, kernel, keep=True)
    *_, (latent, _) = likelihood.ascent(features, latent, max_iter=10, tol=1e-3)
    parameters = torch.cat([kernel.variance[None], kernel.lengthscale])
    of_kernel = torch.log(parameters).cpu().numpy()
    own = len(of_kernel)
    begin = np.append(of_kernel, likelihood.parameters)

    def evaluate(p, local):
        values = data.X.new_tensor(np.exp(p[:own]))
        there = kernel._replace(variance=values[0], lengthscale=values[1:])
        model = likelihood.at(p[own:])
        features = Features(data, there, keep=True)
        at = model.settled(features, local)
        report(at.bound)
        slopes = gradient(features, at), model.slope(features, at)
        return Place(model, there, p, at, torch.cat(slopes).cpu().numpy())

    ranges = [_VARIANCE] + [_LENGTHSCALE] * len(kernel.lengthscale)
    ranges += [_NOISE] * len(likelihood.parameters)
    low, high = np.log(ranges).T
    low = np.minimum(low, begin)
    high = np.maximum(high, begin)
    best = evaluate(begin, local_terms(features, latent, likelihood.local))
    if inverse is None:
        # a first step of length 1
        inverse = np.eye(len(begin)) / max(float(np.linalg.norm(best.gradient)), 1e-10)
    longest = _LONGEST
    for _ in range(max_iter - 1):
        step = inverse @ inwards(best, low, high)
        step *= min(1.0, longest / max(np.abs(step).max(), 1e-10))
        new = evaluate(np.clip(best.parameters + step, low, high), best.at.local)
        s = new.parameters - best.parameters
        y = best.gradient - new.gradient
        # BFGS, unless the gradient did not fall along the step
        if s @ y > 1e-10 * np.linalg.norm(s) * np.linalg.norm(y):
            V = np.eye(len(s)) - np.outer(s, y) / (s @ y)
            inverse = V @ inverse @ V.T + np.outer(s, s) / (s @ y)
        rise = new.at.bound - best.at.bound
        if rise > 0:
            best = new
            longest = _LONGEST
        else:
            longest = np.abs(step).max() / 2
        ahead = inwards(best, low, high)
        next_rise = ahead @ inverse @ ahead / 2
        if max(abs(rise), next_rise) < tol * abs(best.at.bound):
            break
    return Learned(best.likelihood, best.kernel, best.at.latent, inverse)


def inwards(place: Place, low: Floats, high: Floats) -> Floats:
    """The gradient without what leads out of the range."""
    p, slope = place.parameters, place.gradient
    out = (p <= low) & (slope < 0) | (p >= high) & (slope > 0)
    return np.where(out, 0.0, slope)


@contextmanager
def range_named() -> Iterator[None]:
    """A factorization that fails says what to look at."""
    try:
        yield
    except torch.linalg.LinAlgError as error:
        raise ValueError(
            f"X or sample_weight has too wide a range for stable computation: {error}"
        ) from error
