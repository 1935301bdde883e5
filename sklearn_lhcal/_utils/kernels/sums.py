"""Dirichlet and Beta kernels in log space, and sums of them over samples, in blocks.

Beta kernels of many samples are summed in time that grows with n, others with n²; memory grows with
n.

Letters: x points on the simplex (n, d), away from its faces; h bandwidth; e targets (n, C); the
kernel is ``k_ji = Dir(x_j | x_i/h + 1)``, for d = 2 the Beta kernel, and c_i its logarithm less the
terms in x_j, plus a log-weight. Every sum is divided by a kernel near the largest of its sample, so
that no denominator underflows.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

# Kernels in memory at a time, which stay in a processor's cache.
BLOCK = 2**17
# Chebyshev nodes of a block of θ, and the largest relative error of its sums.
NODES = 24
TOLERANCE = 1e-14
# Terms left out of a sum are below e^-FAR of its largest together.
FAR = 40.0
# So many exponentials or fewer are summed one by one.
DIRECT = 2**16


def log_normaliser(x: Tensor, h: float, log_weight: Tensor | None = None) -> Tensor:
    """c_i = −log B(x_i/h + 1) + log w_i, shape (n,)."""
    a = x / h + 1
    c = torch.lgamma(a.sum(dim=1)) - torch.lgamma(a).sum(dim=1)
    if log_weight is None:
        return c
    return c + log_weight


def log_kernels(
    x: Tensor, h: float, c: Tensor, rows: Tensor | None = None, groups: Tensor | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """(samples, log k_ji + log w_i), for blocks of the samples j; None stands for all.

    They are −inf where i = j, or where both are of one group.
    """
    n = len(x)
    size = max(BLOCK // n, 16)
    if x.is_cuda:
        size *= 128
    left = torch.cat([x.log() / h, torch.ones_like(x[:, :1])], dim=1)
    right = torch.cat([x.T, c[None]])
    # One buffer for all blocks: fresh memory for each would take longer than its kernels.
    buffer = None if left.requires_grad else left.new_empty(size, n)
    if rows is None:
        rows = torch.arange(n, device=x.device)
    for part in rows.split(size):
        # Where there are no samples, one empty part is all.
        if not len(part):
            return
        out = None if buffer is None else buffer[: len(part)]
        L = torch.mm(left[part], right, out=out)
        if groups is None:
            L.scatter_(1, part[:, None], -torch.inf)
        else:
            L.masked_fill_(groups[part, None] == groups, -torch.inf)
        yield part, L


def beta_sums(x: Tensor, e: Tensor, h: float, c: Tensor, power: int = 1) -> tuple:
    """``e^-s_j Σ_{i≠j} k_ji^power (e_i, 1)``, shape (n, C+1), the scales s, and whether sound.

    For d = 2. The sample's own term is taken away from the sum over all. That is sound where it
    leaves half of the sum.
    """
    log_x = x.log()
    # log k_ji = θ_j x_i + c_i + a term of j
    theta = power * (log_x[:, 0] - log_x[:, 1]) / h
    x = x[:, 0]
    c = power * c
    order = theta.argsort()
    sums, s = exponential_sums(theta[order], x[order], c[order], e[order])
    back = order.argsort()
    sums, s = sums[back], s[back]
    own = (c + theta * x - s).exp()
    sums -= own[:, None] * with_one(e)
    return sums, s, own <= sums[:, -1]


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
    e = with_one(e)
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
            k, top = exp_in_place(L)
            s[rows] = top[:, 0]
            sums[rows] = k @ e[columns]
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


def _window(a: float, b: float, x: Tensor, c: Tensor, columns: slice) -> slice:
    """The columns that matter for θ from a to b.

    They are those from the first near the largest term at a to the last near that at b. Both ends
    of the near columns rise with θ, since a term grows by x_i for each unit of θ.
    """
    ends = []
    for theta in (a, b):
        g = c[columns] + theta * x[columns]
        near = torch.nonzero(g >= g.max() - FAR - math.log(len(x)))
        ends.append(near[[0, -1], 0].tolist())
    return slice(columns.start + ends[0][0], columns.start + ends[1][1] + 1)


def _chebyshev(u: Tensor, v: Tensor) -> Tensor:
    """Values at v (n,) of the Lagrange polynomials of the Chebyshev nodes u (p,), shape (n, p)."""
    order = torch.arange(len(u), dtype=u.dtype, device=u.device)
    T = torch.cos(order * torch.acos(v.clamp(-1, 1))[:, None])
    weights = torch.cos(order[:, None] * torch.acos(u)) * (2 / len(u))
    weights[0] /= 2
    return T @ weights


def with_one(e: Tensor) -> Tensor:
    """e with a last column of ones."""
    return torch.cat([e, torch.ones_like(e[:, :1])], dim=1)


def exp_in_place(L: Tensor) -> tuple[Tensor, Tensor]:
    """``e^(L − top)`` in the place of L, with top the largest of each sample.

    To derivatives top is a constant. e^-350 stands for less, since denormal numbers are slow.
    """
    top = L.detach().amax(dim=1, keepdim=True)
    return L.sub_(top).clamp_(min=-350).exp_(), top
