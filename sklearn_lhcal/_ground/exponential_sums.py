"""Sums of exponentials ``Σ_i exp(c_i + θ_j x_i) e_i`` for all j, in time that grows with n rather than n²."""

import math

import torch
from torch import Tensor

NODES, TOLERANCE, FAR = 24, 1e-14, 40.0
DIRECT = 2**16  # so many exponentials or fewer are summed one by one


def exponential_sums(theta: Tensor, x: Tensor, c: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
    """(sums, s) with ``Σ_i exp(c_i + θ_j x_i) (e_i, 1) = e^s_j · sums_j``; shapes (n, C+1) and (n,).

    x (m,) and θ (n,) increase; c (m,), e (m, C). In blocks of neighbouring θ the sums are interpolated from `NODES`
    Chebyshev nodes. With weights ``k_i = exp(c_i + θ₀ x_i)`` in the middle θ₀ of a block of half width δ, and x̄ their
    mean, ``exp((x_i − x̄)(θ − θ₀))`` is interpolated with an error of at most ``ε(ρ_i)``, ``ρ_i = δ|x_i − x̄|``,
    ``ε(ρ) = 2 (ρ/2)^p e^ρ / p!`` for p nodes, and ``Σ k_i exp((x_i − x̄)(θ − θ₀)) ≥ Σ k_i`` by Jensen's inequality.
    So the relative error of the sum of the exponentials is at most ``Σ k_i ε(ρ_i) / Σ k_i``, and that of the sums of
    e at most ``max|e|`` times as much: blocks are halved until it is below `TOLERANCE`. Terms left out of a sum are
    below e^-FAR of its largest together.
    """
    e = torch.cat([e, torch.ones_like(x)[:, None]], dim=1)
    sums, s = e.new_empty(len(theta), e.shape[1]), torch.empty_like(theta)
    u = torch.cos(torch.arange(NODES, dtype=x.dtype, device=x.device).add(0.5) * (math.pi / NODES))
    blocks = [(slice(0, len(theta)), slice(0, len(x)))]
    while blocks:
        rows, columns = blocks.pop()
        a, b = theta[rows.start].item(), theta[rows.stop - 1].item()
        columns = _window(a, b, x, c, columns)
        X, c_X, e_X, t = x[columns], c[columns], e[columns], theta[rows]
        if len(t) * len(X) <= max(DIRECT, NODES * len(X)):
            L = torch.addcmul(c_X, t[:, None], X)
            s[rows] = L.amax(dim=1)
            sums[rows] = L.sub_(s[rows, None]).clamp_(min=-350).exp_() @ e_X
            continue
        middle, half = (a + b) / 2, (b - a) / 2
        L = c_X + middle * X
        top = L.max()
        k = (L - top).exp()
        mean = (k @ X) / k.sum()
        rho = half * (X - mean).abs()
        log_error = NODES * (rho / 2).log() + rho + math.log(2) - math.lgamma(NODES + 1)
        if (L - top + log_error).exp().sum() > TOLERANCE * k.sum():
            cut = rows.start + int(torch.searchsorted(t, middle))
            blocks += [(slice(rows.start, cut), columns), (slice(cut, rows.stop), columns)]
            continue
        at_nodes = torch.addcmul(L - top, half * u[:, None], X - mean).clamp_(min=-350).exp_() @ e_X
        sums[rows] = _chebyshev(u, (t - middle) / max(half, 1e-300)) @ at_nodes
        s[rows] = top + mean * (t - middle)
    return sums, s


def _window(a: float, b: float, x: Tensor, c: Tensor, columns: slice) -> slice:
    """Columns that matter for θ from a to b: the first near the largest term at a to the last near that at b.

    Both ends of the near columns rise with θ, since a term grows by x_i for each unit of θ.
    """
    ends = []
    for theta in (a, b):
        g = c[columns] + theta * x[columns]
        near = torch.nonzero(g >= g.max() - FAR - math.log(len(x)))
        ends.append((near[0].item(), near[-1].item() + 1))
    return slice(columns.start + ends[0][0], columns.start + ends[1][1])


def _chebyshev(u: Tensor, v: Tensor) -> Tensor:
    """Values at v (n,) of the Lagrange polynomials of the Chebyshev nodes u (p,), shape (n, p)."""
    order = torch.arange(len(u), dtype=u.dtype, device=u.device)
    T = torch.cos(order * torch.acos(v.clamp(-1, 1))[:, None])
    weights = torch.cos(order[:, None] * torch.acos(u)) * (2 / len(u))
    weights[0] /= 2
    return T @ weights
