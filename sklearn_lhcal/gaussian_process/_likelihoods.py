"""The two likelihoods: logistic for one latent of two classes, softmax for one a class."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from .._utils.arrays import Floats
from ._kernels import Kernel
from ._variational import (
    Features,
    Labels,
    Latent,
    Local,
    Sums,
    coordinate_ascent,
    divergence,
    follow,
    local_terms,
    moments,
    natural_ascent,
    prior,
    solve,
    sums_of,
    sweep,
)

# The least variance of a kernel.
LEAST_VARIANCE = 1e-4
# By how much it is divided for a smaller leave-one-out loss, which then falls by such a share at
# least.
_LESS = 4.0
_LEAST_FALL = 1e-3
# Steps of `settled`.
_STEPS = 3
# The least share of its precision that a row may leave to the others.
_LEAST_LEFT = 1e-6
# Pairs ±z of nodes for expectations over all latents.
_PAIRS = 16
# Length of a step of the softmax. It knows only the diagonal of the curvature diag(p) − ppᵀ, whose
# double is larger than the whole: steps below 1 come nearer.
_STEP = 0.7


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


class Likelihood(Protocol):
    """What passes and the search for a kernel ask for.

    First lengthscales are tried on one of `share` rows.
    """

    share: int

    def local(self, labels: Labels, mean: Tensor, var: Tensor) -> Local:
        """The terms of rows whose latents have this mean and variance, both (C, rows)."""

    def start(self, labels: Labels, Z: Tensor) -> Latent:
        """From where passes begin."""

    def ascent(
        self, features: Features, labels: Labels, latent: Latent, *, max_iter: int, tol: float
    ) -> Iterator[tuple[Latent, float]]:
        """Yield (q, bound) after each pass, until it rises by less than `tol` per label."""

    def polish(
        self, features: Features, labels: Labels, latent: Latent, *, max_iter: int, tol: float
    ) -> Iterator[tuple[Latent, float]]:
        """Go on from there to the bound that has no looser one in its place."""

    def bound(self, sums: Sums, latent: Latent, variance: Tensor) -> float:
        """The bound at q from the sums there, or from estimates of them."""

    def settled(self, features: Features, labels: Labels, local: Local) -> Settled:
        """A few steps from κ and θ of a kernel nearby."""

    def reconsidered(
        self,
        X: Tensor,
        Z: Tensor,
        labels: Labels,
        kernel: Kernel,
        latent: Latent,
        *,
        dtype,
        report,
    ) -> tuple[Kernel, Latent]:
        """The kernel to take where another has the largest bound, and q there."""


class Logistic:
    """y of n labels are of the second class, with log-odds g: its Pólya–Gamma bound."""

    share = 1
    local = staticmethod(polya_gamma)

    def start(self, labels: Labels, Z: Tensor) -> Latent:
        """See `prior`."""
        return prior(len(labels.n), Z)

    def ascent(self, features: Features, labels: Labels, latent: Latent, **passes):
        """Accelerated coordinate ascent."""
        return coordinate_ascent(features, labels, latent, self.local, **passes)

    def polish(self, features: Features, labels: Labels, latent: Latent, **passes):
        """On from there to the bound itself, without that of Pólya and Gamma."""
        sums = sweep(features, labels, latent, polya_gamma)
        return natural_ascent(features, labels, latent, sums, quadratic, step=1.0, **passes)

    def bound(self, sums: Sums, latent: Latent, variance: Tensor) -> float:
        """That of the best q for these sums."""
        return solve(sums, variance)[1]

    def settled(self, features: Features, labels: Labels, local: Local) -> Settled:
        """The bound is that of the best q for the last κ and θ."""
        variance = features.kernel.variance
        for _ in range(_STEPS):
            latent, _ = solve(sums_of(features, local), variance)
            local = local_terms(features, labels, latent, self.local)
        sums = sums_of(features, local)
        return Settled(local, sums, *solve(sums, variance))

    def reconsidered(
        self,
        X,
        Z,
        labels: Labels,
        kernel: Kernel,
        latent: Latent,
        *,
        dtype,
        report,
    ):
        """The same."""
        return kernel, latent


class Softmax:
    """p_k = exp(g_k)/Σ_j exp(g_j) for K latents: the bound E_q[log-likelihood] − KL itself.

    Expectations are means over nodes ±z, shape (S, K), that integrate cubic polynomials exactly, of
    more than 16 classes nearly so.
    """

    share = 4

    def __init__(self, nodes: Tensor):
        self.nodes = nodes

    def local(self, labels: Labels, mean: Tensor, var: Tensor) -> Local:
        """The expected log-likelihood to second order around q, class by class.

        θ_k = n·E[p_k(1 − p_k)], κ_k = y_k − n·E[p_k] + θ_k·m_k. The constants add up to
        Σ y_k·m_k − n·E[log Σ exp(g_j)].
        """
        scale = torch.sqrt(var)
        p = torch.zeros_like(mean)
        p2 = torch.zeros_like(mean)
        log_sum = torch.zeros_like(mean[0])
        for z in self.nodes:
            g = torch.addcmul(mean, scale, z[:, None])
            top = g.amax(0)
            e = g.sub_(top).exp_()
            total = e.sum(0)
            e /= total
            p += e
            p2.addcmul_(e, e)
            log_sum += top.add_(total.log_())
        S, K = self.nodes.shape
        p /= S
        theta = labels.n * (p - p2 / S).clamp_min(1e-12)
        kappa = labels.y - labels.n * p + theta * mean
        return Local(kappa, theta, labels.y * mean - labels.n * log_sum / (S * K))

    def proba(self, mean: Tensor, var: Tensor) -> Tensor:
        """E[p], shape (K, rows)."""
        scale = torch.sqrt(var)
        p = torch.zeros_like(mean)
        for z in self.nodes:
            p += torch.softmax(mean + scale * z[:, None], 0)
        return p / len(self.nodes)

    def start(self, labels: Labels, Z: Tensor) -> Latent:
        """All latents known to be 0: the first step is one of Newton from there."""
        mu = Z.new_zeros(len(labels.n), len(Z) + 1)
        return Latent(mu, mu.new_zeros(*mu.shape, mu.shape[1]))

    def ascent(self, features: Features, labels: Labels, latent: Latent, **passes):
        """Natural-gradient ascent, after a careful step."""
        sums = sweep(features, labels, latent, self.careful)
        latent, _ = solve(sums, features.kernel.variance)
        return natural_ascent(features, labels, latent, sums, self.local, step=_STEP, **passes)

    def polish(self, features: Features, labels: Labels, latent: Latent, **passes):
        """No pass: this is the bound itself."""
        return iter(())

    def careful(self, labels: Labels, mean: Tensor, var: Tensor) -> Local:
        """The same with larger θ, so that a row that q is sure of and wrong about moves by little.

        They are those of the Jaakkola–Jordan bound in each g_k alone.
        """
        kappa, theta, constant = self.local(labels, mean, var)
        p = torch.softmax(mean, 0)
        c = torch.logit(p, eps=1e-15).abs().clamp_min(1e-6)
        larger = torch.maximum(labels.n * torch.tanh(c / 2) / (2 * c), theta)
        return Local(kappa + (larger - theta) * mean, larger, constant)

    def bound(self, sums: Sums, latent: Latent, variance: Tensor) -> float:
        """E_q[log-likelihood] − KL."""
        return float(sums.constant.sum()) - divergence(latent)

    def settled(self, features: Features, labels: Labels, local: Local) -> Settled:
        """The bound is that of the last q."""
        variance = features.kernel.variance
        for _ in range(_STEPS):
            latent, _ = solve(sums_of(features, local), variance)
            here = local_terms(features, labels, latent, self.local)
            local = local.towards(here, _STEP)
        sums = sums_of(features, here)
        return Settled(here, sums, latent, self.bound(sums, latent, variance))

    def reconsidered(
        self,
        X,
        Z,
        labels: Labels,
        kernel: Kernel,
        latent: Latent,
        *,
        dtype,
        report,
    ):
        """That of less variance, as long as this lessens the leave-one-out loss.

        The bound takes labels of one row for those of as many rows alike. Where they have more in
        common, it favours kernels that follow single rows, and the loss of rows left out does not.
        """
        features = Features(X, Z, kernel, dtype=dtype, keep=True)
        local = local_terms(features, labels, latent, self.local)
        least = self.left_out_loss(features, labels, latent, local)
        while kernel.variance > LEAST_VARIANCE:
            less = kernel._replace(variance=kernel.variance / _LESS)
            features = Features(X, Z, less, dtype=dtype, keep=True)
            there, _ = solve(sums_of(features, local), less.variance)
            steps = self.ascent(features, labels, there, max_iter=10, tol=1e-3)
            there = follow(there, steps, [], report)
            local = local_terms(features, labels, there, self.local)
            loss = self.left_out_loss(features, labels, there, local)
            if loss > (1 - _LEAST_FALL) * least:
                break
            least = loss
            kernel = less
            latent = there
        return kernel, latent

    def left_out_loss(
        self, features: Features, labels: Labels, latent: Latent, local: Local
    ) -> float:
        """Log loss of each row's labels given those of all others, nats, the mean over labels.

        Without its own term, a row's Φᵀv of mean m and variance a under q has the variance
        a/(1 − θa) and the mean (m − κa)/(1 − θa): Vehtari et al. (2016), section 3.2.
        """
        total = 0.0
        for block in features:
            mean, var = moments(latent, block)
            kappa, theta, _ = local.at(block.rows)
            a = (var - block.rest).clamp_min(0)
            left = (1 - theta * a).clamp_min(_LEAST_LEFT)
            p = self.proba((mean - kappa * a) / left, a / left + block.rest)
            total -= float(torch.xlogy(labels.at(block.rows).y, p).sum())
        return total / float(labels.n[0].sum())


def likelihood_of(counts: Floats, seed: int, like: Tensor) -> Likelihood:
    """That of counts, shape (n, K), with nodes on the device of a tensor.

    Columns of nodes belong to the classes by the rank of their labels: the order does not matter.
    """
    K = counts.shape[1]
    if K == 2:
        return Logistic()
    same = np.unique(counts.T, axis=0, return_inverse=True)[1].ravel()
    rank = same.argsort(kind="stable").argsort()
    return Softmax(like.new_tensor(nodes(K, seed)[:, rank]))


def nodes(K: int, seed: int) -> Floats:
    """Nodes of K standard normal variables, shape (32, K), of weight 1/32 each.

    They are quasi-random pairs ±z, and orthogonal from class to class, 16 classes at a time.
    """
    uniform = torch.quasirandom.SobolEngine(K, scramble=True, seed=seed).draw(
        _PAIRS, dtype=torch.float64
    )
    z = torch.special.ndtri(uniform.clamp(1e-9, 1 - 1e-9))
    z = torch.cat([torch.linalg.qr(part).Q for part in z.split(_PAIRS, dim=1)], 1)
    z *= _PAIRS**0.5
    return torch.cat([z, -z]).numpy()
