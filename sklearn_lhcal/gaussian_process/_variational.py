"""Sparse variational inference for the logistic likelihood, in closed form by Pólya–Gamma augmentation.

Letters: a row has n labels, y of them of the class; κ = y − n/2. The first m rows of Φ are L⁻¹K_mn
with L Lᵀ = K_mm at m inducing points, the last one is of ones. Log-odds are g = Φᵀv + noise of
variance k(x, x) − ΦᵀJΦ, where J = diag(1, …, 1, 0) leaves out the ones. The last entry of v is the
constant mean c0. The prior of v is N(0, P⁻¹) with P = diag(1, …, 1, 1/MEAN_VARIANCE), and
q(v) = N(μ, S). There are C latents, one for two classes, else one a class against the rest; all
share Φ, each has its own μ and S. Matrices of the size of Φ may be in float32; everything of size
m² or (C, rows) is in float64.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ._kernels import Kernel

_BLOCK = 2**20  # entries of Φ at a time
MEAN_VARIANCE = 100.0  # of the normal prior of c0


class Labels(NamedTuple):
    """n labels of each row, y of them of the latent's class, both of shape (C, rows); weights make them fractions."""

    n: Tensor
    y: Tensor

    def at(self, rows) -> "Labels":
        """Those of some rows."""
        return Labels(self.n[:, rows], self.y[:, rows])


class Latent(NamedTuple):
    """q(v): mu (C, m + 1), S (C, m + 1, m + 1)."""

    mu: Tensor
    S: Tensor

    @property
    def mean(self) -> Tensor:
        """The posterior mean of c0, shape (C,)."""
        return self.mu[:, -1]


class Local(NamedTuple):
    """The likelihood of each row as exp(constant + κ·g − θ·g²/2), or a bound of it; all of shape (C, rows)."""

    kappa: Tensor
    theta: Tensor
    constant: Tensor


class Features:
    """Φ of rows X (n, n_features), block by block; kept in memory where asked for."""

    def __init__(self, X: Tensor, Z: Tensor, kernel: Kernel, *, dtype, keep: bool = False):
        self.X, self.Z, self.kernel, self.dtype = X, Z, kernel, dtype
        self.whitener = kernel.whitener(Z, jitter(dtype))
        step = max(1, _BLOCK // len(Z))
        self.rows = [slice(i, min(i + step, len(X))) for i in range(0, len(X), step)]
        self._kept = [self.at(rows) for rows in self.rows] if keep else None

    def at(self, rows) -> Tensor:
        """Φ of some rows, shape (m + 1, rows)."""
        phi = narrow(self.whitener, self.dtype) @ self.kernel(self.Z, self.X[rows], self.dtype)
        return torch.cat([narrow(phi, self.dtype), torch.ones_like(phi[:1])])

    def __iter__(self):
        for i, rows in enumerate(self.rows):
            yield rows, self.at(rows) if self._kept is None else self._kept[i]


def jitter(dtype) -> float:
    """What is added to the diagonal of K_mm, in units of the kernel's variance."""
    return 1e-6 if dtype == torch.float64 else 1e-5


def narrow(a: Tensor, dtype) -> Tensor:
    """a in the precision of Φ; in float32 without tiny values, whose products are slow, denormal numbers."""
    return a if dtype == torch.float64 else torch.nn.functional.hardshrink(a, 1e-18).to(dtype)


def diagonal(like: Tensor, last: float) -> Tensor:
    """diag(1, …, 1, last), as long as the last axis of `like`."""
    entries = like.new_ones(like.shape[-1])
    entries[-1] = last
    return torch.diag(entries)


def prior(n_latents: int, Z: Tensor) -> Latent:
    """q(v) from where passes start: N(0, J).

    That is the prior, but c0 = 0 is known. At its prior variance the first θ would be too small.
    """
    mu = Z.new_zeros(n_latents, len(Z) + 1)
    return Latent(mu, diagonal(mu, 0.0).repeat(n_latents, 1, 1))


def moments(latent: Latent, phi: Tensor, variance) -> tuple[Tensor, Tensor]:
    """Mean Φᵀμ and variance k(x, x) − Φᵀ(J − S)Φ of g at rows of Φ, both of shape (C, rows)."""
    mu = latent.mu.to(phi.dtype)
    known = narrow(diagonal(latent.S, 0.0) - latent.S, phi.dtype)
    known = torch.stack([((a @ phi) * phi).sum(0) for a in known]).double()
    return (mu @ phi).double(), (variance - known).clamp_min(1e-12)


def polya_gamma(labels: Labels, mean: Tensor, var: Tensor) -> Local:
    """The bound at its best c = √(m² + s²), where θ = n·tanh(c/2)/(2c)."""
    c = torch.sqrt(mean**2 + var)
    theta = labels.n * torch.tanh(c / 2) / (2 * c)
    constant = theta * c**2 / 2 - labels.n * (c / 2 + torch.log1p(torch.exp(-c)))
    return Local(labels.y - labels.n / 2, theta, constant)


def quadratic(labels: Labels, mean: Tensor, var: Tensor) -> Local:
    """The expected log-likelihood itself, to second order around q: θ = n·E[σ(1−σ)], κ = y − n·E[σ] + θm.

    Its fixed point is the best Gaussian q. `constant` is y·m − n·E[log(1 + eᵍ)]. Expectations by the trapezoidal rule.
    """
    t = torch.arange(-40, 41, dtype=mean.dtype, device=mean.device) / 5
    w = torch.softmax(-(t**2) / 2, 0)
    g = mean[..., None] + torch.sqrt(var)[..., None] * t
    up = torch.sigmoid(g)
    theta = labels.n * ((up * (1 - up)) @ w).clamp_min(1e-12)
    kappa = labels.y - labels.n * (up @ w) + theta * mean
    return Local(kappa, theta, labels.y * mean - labels.n * (torch.nn.functional.softplus(g) @ w))


class Sums(NamedTuple):
    """What rows tell about q(v): ΦΘΦᵀ, Φκ and the sum of the constants, for each latent."""

    gram: Tensor
    kappa: Tensor
    constant: Tensor

    @classmethod
    def of(cls, phi: Tensor, local: Local) -> "Sums":
        """Those of rows with features Φ."""
        kappa, theta = local.kappa.to(phi.dtype), local.theta.to(phi.dtype)
        gram = torch.stack([(phi * t) @ phi.T for t in theta]).double()
        return cls(gram, (kappa @ phi.T).double(), local.constant.sum(1))

    def plus(self, other: "Sums", a: float = 1.0, b: float = 1.0) -> "Sums":
        """a·self + b·other."""
        return Sums(*(a * x + b * y for x, y in zip(self, other, strict=True)))


def total(parts) -> Sums:
    """The sum of several."""
    out = None
    for part in parts:
        out = part if out is None else out.plus(part)
    return out


def solve(sums: Sums, variance) -> tuple[Latent, float]:
    """The best q(v) for given κ and θ, and the bound there.

    With A = P + ΦΘΦᵀ and b = Φκ: S = A⁻¹, μ = Sb; the bound is
    ½bᵀSb − ½log|A| + ½log|P| + ½tr(JΦΘΦᵀ) − ½k(x, x)Σθ + Σ constant. The last entry of ΦΘΦᵀ is Σθ.
    """
    A = diagonal(sums.gram, 1 / MEAN_VARIANCE) + sums.gram
    b = sums.kappa
    L = torch.linalg.cholesky(A)
    S = torch.cholesky_inverse(L)
    mu = torch.einsum("cij,cj->ci", S, b)
    theta = torch.diagonal(sums.gram, dim1=1, dim2=2)
    bound = (
        (b * mu).sum(1) / 2
        - torch.log(torch.diagonal(L, dim1=1, dim2=2)).sum(1)
        - np.log(MEAN_VARIANCE) / 2
        + theta[:, :-1].sum(1) / 2
        - variance * theta[:, -1] / 2
        + sums.constant
    )
    return Latent(mu, S), float(bound.sum())


def sweep(features: Features, labels: Labels, latent: Latent, local=polya_gamma) -> Sums:
    """One pass over all rows: the sums of κ and θ at q."""
    variance = features.kernel.variance
    return total(
        Sums.of(phi, local(labels.at(rows), *moments(latent, phi, variance)))
        for rows, phi in features
    )


def coordinate_ascent(
    features: Features, labels: Labels, latent: Latent, *, max_iter: int, tol: float
):
    """Yield (q, bound) after each pass, until the bound rises by less than `tol` per label; it never falls.

    A pass starts ahead of q, on from μ by Nesterov's share of its last step. One that would lower the bound is done
    again from q itself.
    """
    enough, last, ahead, k = tol * float(labels.n[0].sum()), -float("inf"), latent, 0
    for _ in range(max_iter):
        new, bound = solve(sweep(features, labels, ahead), features.kernel.variance)
        if bound < last and k:
            k, (new, bound) = 0, solve(sweep(features, labels, latent), features.kernel.variance)
        yield new, bound
        if bound - last < enough:
            return
        ahead = new._replace(mu=new.mu + k / (k + 3) * (new.mu - latent.mu))
        latent, last, k = new, bound, k + 1


def natural_gradients(
    features: Features, labels: Labels, latent: Latent, *, batch_size: int, epochs: int, generator
):
    """Yield (q, estimate of the bound) after each epoch of natural-gradient steps on mini-batches.

    A step blends the sums of the data with those of a batch, scaled to all rows; its size t^−0.7 begins at 1.
    """
    n, sums, t, variance = len(features.X), None, 0, features.kernel.variance
    for _ in range(epochs):
        for rows in torch.randperm(n, generator=generator).to(features.X.device).split(batch_size):
            phi = features.at(rows)
            part = Sums.of(phi, polya_gamma(labels.at(rows), *moments(latent, phi, variance)))
            t += 1
            step, scale = t**-0.7, n / len(rows)
            sums = (
                part.plus(part, scale, 0.0)
                if sums is None
                else sums.plus(part, 1 - step, step * scale)
            )
            latent, bound = solve(sums, variance)
        yield latent, bound


def polish(features: Features, labels: Labels, latent: Latent, *, max_iter: int, tol: float):
    """Yield (q, bound) of natural-gradient ascent on the true bound E_q[log-likelihood] − KL, which never falls.

    A step that would lower the bound is taken back and halved.
    """
    enough, step, variance = tol * float(labels.n[0].sum()), 1.0, features.kernel.variance
    at, last = (
        sweep(features, labels, latent),
        -float("inf"),
    )  # the Pólya–Gamma sums stand for q before the first step
    new = at
    for _ in range(max_iter):
        here = sweep(features, labels, latent, quadratic)
        bound = float(here.constant.sum()) - divergence(latent)
        if bound < last:
            step /= 2
            if step < 0.05:
                return
        else:
            yield latent, bound
            if bound - last < enough:
                return
            last, at, new = (
                bound,
                (at if last == -float("inf") else at.plus(new, 1 - step, step)),
                here,
            )
        latent, _ = solve(at.plus(new, 1 - step, step), variance)


def divergence(latent: Latent) -> float:
    """KL(q(v) ‖ N(0, P⁻¹)), summed over the latents."""
    mu, S = latent
    P = torch.diagonal(diagonal(S, 1 / MEAN_VARIANCE))
    trace = (P * torch.diagonal(S, dim1=1, dim2=2)).sum(1)
    log_det = torch.linalg.slogdet(S).logabsdet - np.log(MEAN_VARIANCE)
    return float((((P * mu**2).sum(1) + trace - log_det - len(P)) / 2).sum())
