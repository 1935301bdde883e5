"""Sparse variational inference for latents with Gaussian process priors.

Letters: a sample has n labels, y of them of the class. The first m samples of Φ are L⁻¹K_mn with
L Lᵀ = K_mm at m inducing points, the last one is of ones. Latents are g = Φᵀv + noise of variance
k(x, x) − ΦᵀJΦ, where J = diag(1, …, 1, 0) leaves out the ones. The last entry of v is the constant
mean c0. The prior of v is N(0, P⁻¹) with P = diag(1, …, 1, 1/MEAN_VARIANCE), and q(v) = N(μ, S).
There are C latents: one for two classes, else one a class. All share Φ, and each has its own μ and
S = RᵀR. A likelihood enters by κ and θ of each sample and latent, the terms of exp(κg − θg²/2). Φ
is computed in float64. It and its products may be in float32, block by block; sums over blocks and
everything of size m² or (C, samples) are in float64.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import hardshrink

from ._kernels import Kernel

# Entries of Φ at a time: they stay in a processor's cache.
_BLOCK = 2**18
# What is added to the diagonal of K_mm, in units of the kernel's variance.
JITTER = 1e-6
# That of the normal prior of c0.
MEAN_VARIANCE = 100.0
# Polishing ends where a step smaller than this would lower the bound.
_LEAST_STEP = 0.05


class Labels(NamedTuple):
    """n labels of each sample, y of them of the latent's class, both of shape (C, samples).

    Weights make them fractions.
    """

    n: Tensor
    y: Tensor

    def at(self, rows) -> "Labels":
        """The labels of some samples."""
        return Labels(self.n[:, rows], self.y[:, rows])

    def of_bound(self, tol: float) -> float:
        """A rise of the bound, given per label of a latent."""
        return tol * float(self.n[0].sum())


class Data(NamedTuple):
    """Scaled samples X (n, n_features), inducing points Z, labels, and the type of Φ in products.

    Where there is only a prediction there are no labels.
    """

    X: Tensor
    Z: Tensor
    labels: Any
    dtype: torch.dtype

    def at(self, rows) -> "Data":
        """Some of the samples."""
        return self._replace(X=self.X[rows], labels=self.labels.at(rows))


class Latent(NamedTuple):
    """q(v) of C latents: mu (C, m + 1), and lower triangles R (C, m + 1, m + 1) with S = RᵀR."""

    mu: Tensor
    R: Tensor

    @property
    def mean(self) -> Tensor:
        """The posterior mean of c0, shape (C,)."""
        return self.mu[:, -1]

    @property
    def S(self) -> Tensor:
        """The covariances."""
        return self.R.mT @ self.R


class Local(NamedTuple):
    """The likelihood of each sample as exp(constant + κ·g − θ·g²/2), or a bound of it.

    All have the shape (C, samples).
    """

    kappa: Tensor
    theta: Tensor
    constant: Tensor

    def at(self, rows) -> "Local":
        """The terms of some samples."""
        return Local(*(a[:, rows] for a in self))


# The terms of samples from their labels, and from mean and variance of g.
Terms = Callable[[Labels, Tensor, Tensor], Local]


class Block(NamedTuple):
    """Φ (m + 1, rows) of some rows, and k(x, x) − ΦᵀJΦ (samples,), the variance that Φ leaves."""

    rows: slice | Tensor
    phi: Tensor
    rest: Tensor


class Features:
    """Φ of samples with their labels, block by block; kept in memory where asked for."""

    def __init__(self, data: Data, kernel: Kernel, *, keep: bool = False):
        self.X, self.Z, self.labels, self.dtype = data
        self.kernel = kernel
        self.whitener = kernel.whitener(self.Z, JITTER)
        n = len(self.X)
        step = max(1, _BLOCK // len(self.Z))
        self.rows = [slice(i, min(i + step, n)) for i in range(0, n, step)]
        self._kept = None
        if keep:
            self._kept = list(self)

    def at(self, rows) -> Block:
        """Φ of some samples."""
        phi = self.whitener @ self.kernel(self.Z, self.X[rows])
        rest = self.kernel.variance - (phi**2).sum(0)
        phi = torch.cat([narrow(phi, self.dtype), phi.new_ones(1, len(rest), dtype=self.dtype)])
        return Block(rows, phi, rest.clamp_min(0))

    def __iter__(self) -> Iterator[Block]:
        """Block by block."""
        return iter(self._kept or (self.at(rows) for rows in self.rows))


def narrow(a: Tensor, dtype) -> Tensor:
    """a in the precision of Φ.

    In float32 tiny values become 0: their products would be denormal numbers, which are slow.
    """
    return a if dtype == torch.float64 else hardshrink(a, 1e-18).to(dtype)


def diagonal(like: Tensor, last: float) -> Tensor:
    """diag(1, …, 1, last), as long as the last axis of `like`."""
    entries = like.new_ones(like.shape[-1])
    entries[-1] = last
    return torch.diag(entries)


def diagonals(a: Tensor) -> Tensor:
    """The diagonal of each of C matrices, shape (C, m + 1)."""
    return torch.diagonal(a, dim1=1, dim2=2)


def prior(n_latents: int, Z: Tensor) -> Latent:
    """q(v) from where passes start: N(0, J).

    That is the prior, but c0 = 0 is known. At its prior variance the first θ would be too small.
    """
    mu = Z.new_zeros(n_latents, len(Z) + 1)
    return Latent(mu, diagonal(mu, 0.0).repeat(n_latents, 1, 1))


def moments(latent: Latent, block: Block) -> tuple[Tensor, Tensor]:
    """Mean Φᵀμ and variance k(x, x) − ΦᵀJΦ + ‖RΦ‖² of g at a block, both of shape (C, samples)."""
    phi = block.phi
    mean = latent.mu.to(phi.dtype) @ phi
    var = [(R @ phi).square_().sum(0) for R in narrow(latent.R, phi.dtype)]
    return mean.double(), (block.rest + torch.stack(var).double()).clamp_min(1e-12)


class Sums(NamedTuple):
    """What samples tell about q(v): ΦΘΦᵀ, Φκ and the sum of the constants, for each latent."""

    gram: Tensor
    kappa: Tensor
    constant: Tensor

    @classmethod
    def total(cls, blocks: Iterable[tuple[Block, Local]]) -> "Sums":
        """Those of all blocks of samples, pairs of features and local terms."""
        sums: Any = None
        for block, local in blocks:
            phi = block.phi
            if sums is None:
                sums = cls.zeros(len(local.theta), len(phi), phi)
            for gram, theta in zip(sums.gram, local.theta.to(phi.dtype), strict=True):
                gram += (phi * theta) @ phi.T
            sums.kappa.add_(local.kappa.to(phi.dtype) @ phi.T)
            sums.constant.add_(local.constant.sum(1))
        return sums

    @classmethod
    def zeros(cls, n_latents: int, m: int, like: Tensor) -> "Sums":
        """Sums of no samples, of m samples of Φ."""
        shapes = (n_latents, m, m), (n_latents, m), (n_latents,)
        return cls(*(like.new_zeros(shape, dtype=torch.float64) for shape in shapes))

    def towards(self, other: "Sums", step: float) -> "Sums":
        """(1 − step)·self + step·other."""
        return Sums(*((1 - step) * x + step * y for x, y in zip(self, other, strict=True)))


def solve(sums: Sums, variance) -> tuple[Latent, float]:
    """The best q(v) for given κ and θ, and the bound there.

    With A = P + ΦΘΦᵀ = LLᵀ and b = Φκ: R = L⁻¹, S = A⁻¹, μ = Sb; the bound is
    ½bᵀSb − ½log|A| + ½log|P| + ½tr(JΦΘΦᵀ) − ½k(x, x)Σθ + Σ constant. The last entry of ΦΘΦᵀ is Σθ.
    """
    P = diagonal(sums.gram, 1 / MEAN_VARIANCE)
    b = sums.kappa
    L = torch.linalg.cholesky(P + sums.gram)
    R = torch.linalg.solve_triangular(L, torch.eye(len(P)).to(P), upper=False)
    mu = torch.einsum("cji,cj->ci", R, torch.einsum("cij,cj->ci", R, b))
    theta = diagonals(sums.gram)
    bound = (
        (b * mu).sum(1) / 2
        - torch.log(diagonals(L)).sum(1)
        - np.log(MEAN_VARIANCE) / 2
        + theta[:, :-1].sum(1) / 2
        - variance * theta[:, -1] / 2
        + sums.constant
    )
    return Latent(mu, R), float(bound.sum())


def local_blocks(features: Features, latent: Latent, local: Terms) -> Iterator[tuple[Block, Local]]:
    """Features and the local terms at q, block by block."""
    for block in features:
        yield block, local(features.labels.at(block.rows), *moments(latent, block))


def local_terms(features: Features, latent: Latent, local: Terms) -> Local:
    """κ, θ and constants of all samples at q."""
    parts = [result for _, result in local_blocks(features, latent, local)]
    return Local(*(torch.cat(a, dim=1) for a in zip(*parts, strict=True)))


def sums_of(features: Features, local: Local) -> Sums:
    """The sums of given κ and θ."""
    return Sums.total((block, local.at(block.rows)) for block in features)


def sweep(features: Features, latent: Latent, local: Terms) -> Sums:
    """One pass over all samples: the sums of κ and θ at q."""
    return Sums.total(local_blocks(features, latent, local))


def coordinate_ascent(
    features: Features, latent: Latent, local: Terms, *, max_iter: int, tol: float
):
    """Yield (q, bound) after each pass, until the bound rises by less than `tol` per label.

    The bound never falls. A pass starts ahead of q, on from μ by Nesterov's share of its last step.
    One that would lower the bound is done again from q itself.
    """
    enough = features.labels.of_bound(tol)
    last = -np.inf
    ahead = latent
    k = 0

    def step(start):
        return solve(sweep(features, start, local), features.kernel.variance)

    for _ in range(max_iter):
        new, bound = step(ahead)
        if bound < last and k:
            k = 0
            new, bound = step(latent)
        yield new, bound
        if bound - last < enough:
            return
        ahead = new._replace(mu=new.mu + k / (k + 3) * (new.mu - latent.mu))
        latent = new
        last = bound
        k += 1


def natural_gradients(features: Features, latent: Latent, local: Terms, batch_size: int, generator):
    """Yield (q, estimate of the bound) after an epoch of natural-gradient steps on mini-batches.

    A step blends the sums of the data with those of a batch, scaled to all samples. Its size t^−0.7
    begins at 1.
    """
    n = len(features.X)
    variance = features.kernel.variance
    sums = Sums.zeros(len(latent.mu), len(latent.mu[0]), latent.mu)
    order = torch.randperm(n, generator=generator).to(features.X.device)
    for t, rows in enumerate(order.split(batch_size), 1):
        block = features.at(rows)
        here = local(features.labels.at(rows), *moments(latent, block))
        scale = n / len(rows)
        part = Sums(*(scale * x for x in Sums.total([(block, here)])))
        sums = sums.towards(part, t**-0.7)
        latent, bound = solve(sums, variance)
    yield latent, bound


def natural_ascent(
    features: Features, latent: Latent, tried: Sums, local: Terms, *, max_iter: int, tol: float
):
    """Yield (q, bound) of natural-gradient ascent on the true bound E_q[log-likelihood] − KL.

    It starts at q, with the sums that q solves. The bound never falls: a step that would lower it
    is taken back and halved.
    """
    enough = features.labels.of_bound(tol)
    last = -np.inf
    step = 1.0
    for _ in range(max_iter):
        here = sweep(features, latent, local)
        bound = float(here.constant.sum()) - divergence(latent)
        if bound < last:
            step /= 2
            if step < _LEAST_STEP:
                return
        else:
            yield latent, bound
            if bound - last < enough:
                return
            last = bound
            at = tried
            goal = here
        tried = at.towards(goal, step)
        latent, _ = solve(tried, features.kernel.variance)


def follow(last: Latent, steps, history: list, report) -> Latent:
    """The last q of passes that begin at one, their bounds added to the history."""
    for latent, bound in steps:
        history.append(bound)
        report(bound)
        last = latent
    return last


def divergence(latent: Latent) -> float:
    """KL(q(v) ‖ N(0, P⁻¹)), summed over the latents."""
    mu, R = latent
    P = torch.diagonal(diagonal(R, 1 / MEAN_VARIANCE))
    trace = (P * (mu**2 + (R**2).sum(1))).sum(1)
    log_det = 2 * torch.log(diagonals(R)).sum(1) - np.log(MEAN_VARIANCE)
    return float(((trace - log_det - len(P)) / 2).sum())
