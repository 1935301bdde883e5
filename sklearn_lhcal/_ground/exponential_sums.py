"""Sums of exponentials ``Σ_i exp(c_i + θ_j x_i) e_i`` for all j, in time that grows with n."""

import math

import torch
from torch import Tensor

# Chebyshev nodes of a block of θ, and the largest relative error of its sums.
NODES = 24
TOLERANCE = 1e-14
# Terms left out of a sum are below e^-FAR of its largest together.
FAR = 40.0
# So many exponentials or fewer are summed one by one.
DIRECT = 2**16


def exponential_sums(theta: Tensor, x: Tensor, c: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
    """(sums, s) with ``Σ_i exp(c_i + θ_j x_i) (e_i, 1) = e^s_j · sums_j``; (n, C+1) and (n,).

    x (m,) and θ (n,) increase; c (m,), e (m, C). In blocks of neighbouring θ the sums are
    interpolated from `NODES` Chebyshev nodes. Let ``k_i = exp(c_i + θ₀ x_i)`` be weights in the
    middle θ₀ of a block of half width δ, x̄ their mean and ``ρ_i = δ|x_i − x̄|``. Then
    ``exp((x_i − x̄)(θ − θ₀))`` is interpolated with an error of at most
    ``ε(ρ_i) = 2 (ρ_i/2)^p e^ρ_i / p!`` for p nodes. ``Σ k_i exp((x_i − x̄)(θ − θ₀)) ≥ Σ k_i`` by
    Jensen's inequality. So the relative error of the sum of the exponentials is at most
    ``Σ k_i ε(ρ_i) / Σ k_i``, and that of the sums of e at most ``max|e|`` times as much. Blocks are
    halved until it is below `TOLERANCE`.
    """
    e = torch.cat([e, torch.ones_like(e[:, :1])], dim=1)
    sums = e.new_empty(len(theta), e.shape[1])
    s = torch.empty_like(theta)
    u = torch.cos((torch.arange(NODES, dtype=x.dtype, device=x.device) + 0.5) * (math.pi / NODES))
    blocks = [(slice(0, len(theta)), slice(0, len(x)))]
    while blocks:
        rows, columns = blocks.pop()
        t = theta[rows]
        a, b = t[[0, -1]].tolist()
        columns = _window(a, b, x, c, columns)
        X = x[columns]
        if len(t) * len(X) <= max(DIRECT, NODES * len(X)):
            L = torch.addcmul(c[columns], t[:, None], X)
            s[rows] = L.amax(dim=1)
            sums[rows] = L.sub_(s[rows, None]).clamp_(min=-350).exp_() @ e[columns]
            continue
        middle = (a + b) / 2
        half = (b - a) / 2
        L = c[columns] + middle * X
        top = L.max()
        L -= top
        k = L.exp()
        mean = (k @ X) / k.sum()
        rho = half * (X - mean).abs()
        log_error = NODES * (rho / 2).log() + rho + math.log(2) - math.lgamma(NODES + 1)
        if (L + log_error).exp().sum() > TOLERANCE * k.sum():
            cut = rows.start + int(torch.searchsorted(t, middle))
            blocks += [(slice(rows.start, cut), columns), (slice(cut, rows.stop), columns)]
            continue
        at_nodes = torch.addcmul(L, half * u[:, None], X - mean).clamp_(min=-350).exp_()
        polynomials = _chebyshev(u, (t - middle) / max(half, 1e-300))
        sums[rows] = polynomials @ (at_nodes @ e[columns])
        s[rows] = top + mean * (t - middle)
    return sums, s


def near(g: Tensor, top: Tensor, n: int) -> slice:
    """From the first to the last of n log-terms g that matter beside e^top."""
    found = torch.nonzero(g >= top - FAR - math.log(n))
    return slice(found[0].item(), found[-1].item() + 1)


def _window(a: float, b: float, x: Tensor, c: Tensor, columns: slice) -> slice:
    """The columns that matter for θ from a to b.

    They are those from the first near the largest term at a to the last near that at b. Both ends
    of the near columns rise with θ, since a term grows by x_i for each unit of θ.
    """
    ends = []
    for theta in (a, b):
        g = c[columns] + theta * x[columns]
        ends.append(near(g, g.max(), len(x)))
    return slice(columns.start + ends[0].start, columns.start + ends[1].stop)


def _chebyshev(u: Tensor, v: Tensor) -> Tensor:
    """Values at v (n,) of the Lagrange polynomials of the Chebyshev nodes u (p,), shape (n, p)."""
    order = torch.arange(len(u), dtype=u.dtype, device=u.device)
    T = torch.cos(order * torch.acos(v.clamp(-1, 1))[:, None])
    weights = torch.cos(order[:, None] * torch.acos(u)) * (2 / len(u))
    weights[0] /= 2
    return T @ weights
