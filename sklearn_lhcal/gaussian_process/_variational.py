"""Sparse variational inference for the logistic likelihood, in closed form by Pólya–Gamma augmentation.

Letters: a row has n labels, y of them of the class; κ = y − n/2; Φ = L⁻¹K_mn with L Lᵀ = K_mm at m inducing points;
log-odds g = c0 + Φᵀv + noise of variance k(x, x) − ‖Φ‖²; q(v) = N(μ, S), with the prior N(0, I). There are C latents,
one for two classes, else one a class against the rest; all share Φ, each has its own c0, μ and S. Matrices of the size
of Φ may be in float32; everything of size m² or (C, rows) is in float64.
"""

from typing import NamedTuple

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
    """q(v) and the constant mean: mu (C, m), S (C, m, m), mean c0 (C,)."""

    mu: Tensor
    S: Tensor
    mean: Tensor


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
        """Φ of some rows, shape (m, rows)."""
        phi = narrow(self.whitener, self.dtype) @ self.kernel(self.Z, self.X[rows], self.dtype)
        return narrow(phi, self.dtype)

    def __iter__(self):
        for i, rows in enumerate(self.rows):
            yield rows, self.at(rows) if self._kept is None else self._kept[i]


def jitter(dtype) -> float:
    """What is added to the diagonal of K_mm, in units of the kernel's variance."""
    return 1e-6 if dtype == torch.float64 else 1e-5


def narrow(a: Tensor, dtype) -> Tensor:
    """a in the precision of Φ; in float32 without tiny values, whose products are slow, denormal numbers."""
    return a if dtype == torch.float64 else torch.nn.functional.hardshrink(a, 1e-18).to(dtype)


def prior(n_latents: int, Z: Tensor) -> Latent:
    """q(v) = N(0, I) and a mean of 0."""
    eye = torch.eye(len(Z), dtype=Z.dtype, device=Z.device)
    return Latent(eye.new_zeros(n_latents, len(Z)), eye.repeat(n_latents, 1, 1), eye.new_zeros(n_latents))


def moments(latent: Latent, phi: Tensor, variance) -> tuple[Tensor, Tensor]:
    """Mean c0 + Φᵀμ and variance k(x, x) − Φᵀ(I − S)Φ of g at rows with features Φ, both of shape (C, rows)."""
    mu, S = latent.mu.to(phi.dtype), narrow(latent.S, phi.dtype)
    mean = latent.mean[:, None] + (mu @ phi).double()
    known = torch.stack([((phi - s @ phi) * phi).sum(0) for s in S]).double()
    return mean, (variance - known).clamp_min(1e-12)


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
    """What rows tell about q(v) and c0: ΦΘΦᵀ, Φκ, Φθ, Σκ, Σθ and the sum of the constants, for each latent."""

    gram: Tensor
    kappa: Tensor
    theta: Tensor
    total_kappa: Tensor
    total_theta: Tensor
    constant: Tensor

    @classmethod
    def of(cls, phi: Tensor, local: Local) -> "Sums":
        """Those of rows with features Φ."""
        kappa, theta = local.kappa.to(phi.dtype), local.theta.to(phi.dtype)
        gram = torch.stack([(phi * t) @ phi.T for t in theta]).double()
        totals = (a.sum(1) for a in local)
        return cls(gram, (kappa @ phi.T).double(), (theta @ phi.T).double(), *totals)

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
    """The best q(v) and c0 for given κ and θ, and the bound there.

    With A = I + ΦΘΦᵀ and b = Φ(κ − θ c0): S = A⁻¹, μ = Sb, c0 by generalised least squares; the bound is
    ½bᵀSb − ½log|A| + ½tr(A − I) − ½k(x, x)Σθ + c0 Σκ − ½c0² Σθ + Σ constant.
    """
    A = sums.gram + torch.eye(sums.gram.shape[-1], dtype=sums.gram.dtype, device=sums.gram.device)
    L = torch.linalg.cholesky(A)
    S = torch.cholesky_inverse(L)
    S_theta = torch.einsum("cij,cj->ci", S, sums.theta)
    precision = sums.total_theta + 1 / MEAN_VARIANCE
    mean = (sums.total_kappa - (sums.kappa * S_theta).sum(1)) / (precision - (sums.theta * S_theta).sum(1))
    b = sums.kappa - mean[:, None] * sums.theta
    mu = torch.einsum("cij,cj->ci", S, b)
    bound = (
        (b * mu).sum(1) / 2
        - torch.log(torch.diagonal(L, dim1=1, dim2=2)).sum(1)
        + torch.diagonal(sums.gram, dim1=1, dim2=2).sum(1) / 2
        - variance * sums.total_theta / 2
        + mean * sums.total_kappa
        - mean**2 * precision / 2
        + sums.constant
    )
    return Latent(mu, S, mean), float(bound.sum())


def sweep(features: Features, labels: Labels, latent: Latent, local=polya_gamma) -> Sums:
    """One pass over all rows: the sums of κ and θ at q."""
    variance = features.kernel.variance
    return total(Sums.of(phi, local(labels.at(rows), *moments(latent, phi, variance))) for rows, phi in features)


def coordinate_ascent(features: Features, labels: Labels, latent: Latent, *, max_iter: int, tol: float):
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


def natural_gradients(features: Features, labels: Labels, latent: Latent, *, batch_size: int, epochs: int, generator):
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
            sums = part.plus(part, scale, 0.0) if sums is None else sums.plus(part, 1 - step, step * scale)
            latent, bound = solve(sums, variance)
        yield latent, bound


def polish(features: Features, labels: Labels, latent: Latent, *, max_iter: int, tol: float):
    """Yield (q, bound) of natural-gradient ascent on the true bound E_q[log-likelihood] − KL, which never falls.

    A step that would lower the bound is taken back and halved.
    """
    enough, step, variance = tol * float(labels.n[0].sum()), 1.0, features.kernel.variance
    at, last = sweep(features, labels, latent), -float("inf")  # the Pólya–Gamma sums stand for q before the first step
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
            last, at, new = bound, (at if last == -float("inf") else at.plus(new, 1 - step, step)), here
        latent, _ = solve(at.plus(new, 1 - step, step), variance)


def divergence(latent: Latent) -> float:
    """KL(q(v) ‖ N(0, I)), and the penalty of c0."""
    m = latent.mu.shape[1]
    trace = torch.diagonal(latent.S, dim1=1, dim2=2).sum(1)
    kl = ((latent.mu**2).sum(1) + trace - torch.linalg.slogdet(latent.S).logabsdet - m) / 2
    return float((kl + latent.mean**2 / (2 * MEAN_VARIANCE)).sum())
