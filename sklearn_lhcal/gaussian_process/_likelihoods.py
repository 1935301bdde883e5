"""The two likelihoods: logistic for one latent of two classes, Dirichlet for one a class."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from ._variational import (
    Features,
    Labels,
    Latent,
    Local,
    Sums,
    coordinate_ascent,
    local_terms,
    moments,
    natural_ascent,
    solve,
    sums_of,
    sweep,
)

# Steps of `settled`.
_STEPS = 3
# The least share of its precision that a sample may leave to the others.
_LEAST_LEFT = 1e-6
# Draws of all latents for expectations over them.
_DRAWS = 128


def polya_gamma(labels: Labels, mean: Tensor, var: Tensor) -> Local:
    """The bound at its best c = √(m² + s²), where θ = n·tanh(c/2)/(2c)."""
    c = torch.sqrt(mean**2 + var)
    theta = labels.n * torch.tanh(c / 2) / (2 * c)
    constant = theta * c**2 / 2 - labels.n * (c / 2 + torch.log1p(torch.exp(-c)))
    return Local(labels.y - labels.n / 2, theta, constant)


def quadratic(labels: Labels, mean: Tensor, var: Tensor) -> Local:
    """The expected log-likelihood itself to second order around q, whose fixed point is the best q.

    θ = n·E[σ(1−σ)], κ = y − n·E[σ] + θm, and the constant is y·m − n·E[log(1 + eᵍ)]. Expectations
    come from the trapezoidal rule.
    """
    t = torch.arange(-40, 41, dtype=mean.dtype, device=mean.device) / 5
    w = torch.softmax(-(t**2) / 2, 0)
    g = mean[..., None] + torch.sqrt(var)[..., None] * t
    up = torch.sigmoid(g)
    theta = labels.n * ((up * (1 - up)) @ w).clamp_min(1e-12)
    kappa = labels.y - labels.n * (up @ w) + theta * mean
    return Local(kappa, theta, labels.y * mean - labels.n * (softplus(g) @ w))


class Settled(NamedTuple):
    """q at one kernel with the terms and the sums there, and the bound."""

    local: Local
    sums: Sums
    latent: Latent
    bound: float


class Logistic:
    """y of n labels are of the second class, with log-odds g: its Pólya–Gamma bound."""

    local = staticmethod(polya_gamma)
    parameters: tuple[float, ...] = ()

    def at(self, parameters: Sequence[float]) -> "Logistic":
        """The same, without any."""
        return self

    def slope(self, features: Features, at: Settled) -> Tensor:
        """That in none."""
        return features.labels.y.new_empty(0)

    def ascent(self, features: Features, latent: Latent, **passes):
        """Accelerated coordinate ascent."""
        return coordinate_ascent(features, latent, self.local, **passes)

    def polish(self, features: Features, latent: Latent, **passes):
        """On from there to the bound itself, without that of Pólya and Gamma."""
        sums = sweep(features, latent, polya_gamma)
        return natural_ascent(features, latent, sums, quadratic, **passes)

    def settled(self, features: Features, local: Local) -> Settled:
        """The bound is that of the best q for the last κ and θ."""
        variance = features.kernel.variance
        for _ in range(_STEPS):
            latent, _ = solve(sums_of(features, local), variance)
            local = local_terms(features, latent, self.local)
        sums = sums_of(features, local)
        return Settled(local, sums, *solve(sums, variance))


class Dirichlet(NamedTuple):
    """y_k + ε of class k make a regression with known noise for each of K latents.

    Milios et al. (2018): p_k = G_k/Σ_j G_j with gamma variables G_k = exp(g_k) of shape α_k. Noise
    of the variance s² is added, for what labels of one sample have in common.
    """

    epsilon: float
    noise: float

    def local(self, labels: Labels, *q: Tensor) -> Local:
        """log α − σ²/2 = g + noise of variance σ² + s², σ² = log(1 + 1/α), whatever q is."""
        alpha = labels.y + self.epsilon
        var = torch.log1p(1 / alpha)
        target = torch.log(alpha) - var / 2
        var += self.noise
        constant = -(target**2 / var + torch.log(2 * torch.pi * var)) / 2
        return Local(target / var, 1 / var, constant)

    @property
    def parameters(self) -> tuple[float, ...]:
        """log s²."""
        return (math.log(self.noise),)

    def at(self, parameters: Sequence[float]) -> "Dirichlet":
        """The same with another s²."""
        return self._replace(noise=math.exp(parameters[0]))

    def slope(self, features: Features, at: Settled) -> Tensor:
        """s²·Σ θ/2·(θ·E_q[(g − target)²] − 1)."""
        total = features.labels.y.new_zeros(1)
        for block in features:
            mean, var = moments(at.latent, block)
            kappa, theta, _ = at.local.at(block.rows)
            square = (theta * mean - kappa) ** 2 + theta**2 * var
            total += (square - theta).sum()
        return self.noise / 2 * total

    def ascent(self, features: Features, latent: Latent, **passes):
        """One pass, which is exact."""
        sums = sums_of(features, self.local(features.labels))
        yield solve(sums, features.kernel.variance)

    def polish(self, features: Features, latent: Latent, **passes):
        """No pass: there is nothing nearer."""
        return iter(())

    def settled(self, features: Features, local: Local) -> Settled:
        """The best q, at once."""
        local = self.local(features.labels)
        sums = sums_of(features, local)
        return Settled(local, sums, *solve(sums, features.kernel.variance))

    def left_out_loss(self, features: Features, latent: Latent, draws: Tensor) -> float:
        """Log loss of each sample's labels given those of all others, nats, the mean over labels.

        Without its own term, a sample's Φᵀv of mean m and variance a under q has the variance
        a/(1 − θa) and the mean (m − κa)/(1 − θa).
        """
        total = 0.0
        for block in features:
            here = features.labels.at(block.rows)
            mean, var = moments(latent, block)
            kappa, theta, _ = self.local(here)
            a = (var - block.rest).clamp_min(0)
            left = (1 - theta * a).clamp_min(_LEAST_LEFT)
            scale = torch.sqrt(a / left + block.rest)
            p = proba((mean - kappa * a) / left, scale, draws)
            total -= float(torch.xlogy(here.y, p).sum())
        return total / float(features.labels.n[0].sum())


# what passes and the search for a kernel ask for
Likelihood = Logistic | Dirichlet


def normal_draws(mean: Tensor, seed: int) -> Tensor:
    """128 quasi-random draws of K standard normal variables, shape (128, K).

    Columns belong to the classes by the rank of their means: the order does not matter.
    """
    sobol = torch.quasirandom.SobolEngine(len(mean), scramble=True, seed=seed)
    uniform = sobol.draw(_DRAWS, dtype=torch.float64).clamp(1e-9, 1 - 1e-9)
    rank = mean.cpu().argsort(stable=True).argsort()
    return torch.special.ndtri(uniform[:, rank]).to(mean)


def proba(mean: Tensor, scale: Tensor, draws: Tensor) -> Tensor:
    """The mean over draws of the softmax of latents, all of shape (K, samples)."""
    p = torch.zeros_like(mean)
    for z in draws:
        p += torch.softmax(torch.addcmul(mean, scale, z[:, None]), 0)
    return p / len(draws)
