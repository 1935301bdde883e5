"""Dirichlet and Beta kernels in log space, and sums of them over rows, in blocks and tiles.

Beta kernels of many rows are summed in time that grows with n, others with n²; memory grows with n.

Letters: x points on the simplex (n, d), away from its faces; h bandwidth; e targets (n, C); the
kernel is ``k_ji = Dir(x_j | x_i/h + 1)``, for d = 2 the Beta kernel, and c_i its logarithm less the
terms in x_j, plus a log-weight. Every sum is divided by a kernel near the largest of its row, so
that no denominator underflows.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

# Kernels in memory at a time, which stay in a processor's cache.
BLOCK = 2**17
# Rows and columns of a tile of kernels, on a processor or on CUDA.
TILE = {False: (128, 1024), True: (4096, 4096)}
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
) -> Iterator:
    """(rows, columns, log k_ji + log w_i), for blocks of the rows j.

    They are −inf where i = j, or where both are of one group. Rows increase; None stands for all.
    Beta kernels are narrow where h is small: of x sorted (d = 2), the columns that matter are
    neighbours.
    """
    n, d = x.shape
    size = max(BLOCK // n, 16)
    if x.is_cuda:
        size *= 128
    left = torch.cat([x.log() / h, torch.ones_like(x[:, :1])], dim=1)
    right = torch.cat([x.T, c[None]])
    # One buffer for all blocks: fresh memory for each would take longer than its kernels.
    buffer = None if left.requires_grad else left.new_empty(size * n)
    if rows is None:
        rows = torch.arange(n, device=x.device)
    for part in rows.split(size):
        # Where there are no rows, one empty part is all.
        if not len(part):
            return
        narrow = d == 2 and n > 2 * size and groups is None
        columns = _neighbours(left, right, part) if narrow else slice(0, n)
        L = _product(left[part], right[:, columns], buffer)
        if groups is None:
            L.scatter_(1, part[:, None] - columns.start, -torch.inf)
        else:
            L.masked_fill_(groups[part, None] == groups, -torch.inf)
        yield part, columns, L


def _product(a: Tensor, b: Tensor, buffer: Tensor | None) -> Tensor:
    """a @ b, in the memory of a buffer where there is one."""
    if buffer is None:
        return a @ b
    shape = (len(a), b.shape[1])
    return torch.mm(a, b, out=buffer[: math.prod(shape)].view(shape))


@torch.no_grad()
def _neighbours(left: Tensor, right: Tensor, rows: Tensor) -> slice:
    """The columns that matter to neighbouring rows.

    All other kernels of a row together are below e^-FAR of its two largest but for its own. The
    mixed derivative of ``log k_ji`` in x_i and x_j is positive. So both ends of the set where it
    exceeds its third largest value (one may be the row's own) less a margin rise with x_j. The
    first row bounds the window from below, the last one from above.
    """
    first, last = rows[[0, -1]].tolist()
    ends = []
    for j in (first, last):
        g = left[j] @ right
        ends.append(near(g, g.topk(3).values[2], len(g)))
    return slice(min(ends[0].start, first), max(ends[1].stop, last + 1))


def beta_sums(x: Tensor, e: Tensor, h: float, c: Tensor, power: int = 1) -> tuple:
    """``e^-s_j Σ_{i≠j} k_ji^power (e_i, 1)``, shape (n, C+1), the scales s, and whether sound.

    x is sorted (d = 2). The row's own term is taken away from the sum over all. That is sound where
    it leaves half of the sum.
    """
    log_x = x.log()
    # log k_ji = θ_j x_i + c_i + a term of j
    theta = (log_x[:, 0] - log_x[:, 1]) / h
    sums, s = exponential_sums(power * theta, x[:, 0].contiguous(), power * c, e)
    own = (power * (c + theta * x[:, 0]) - s).exp()
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


def dirichlet_sums(x: Tensor, e: Tensor, h: float, c: Tensor) -> tuple:
    """``Σ_{i≠j} k_ji/k_jj (e_i, 1)``, shape (n, C+1), and where they are sound: not huge or tiny.

    They are made in tiles, without a look at the largest kernel of a row. e^-700 stands for less,
    since denormal numbers are slow.
    """
    log_x = x.log()
    e = with_one(e)
    own = (x * log_x).sum(dim=1) / h + c
    left = with_one(torch.cat([log_x / h, -own[:, None]], dim=1))
    right = torch.cat([with_one(x), c[:, None]], dim=1).T.contiguous()
    height, width = TILE[x.is_cuda]
    n = len(x)
    buffer = x.new_empty(height * width)
    sums = torch.zeros_like(e)
    for j in range(0, n, height):
        rows = left[j : j + height]
        for i in range(0, n, width):
            L = _product(rows, right[:, i : i + width], buffer)
            if -len(L) < j - i < L.shape[1]:
                L.diagonal(j - i).fill_(-torch.inf)
            sums[j : j + height] += L.clamp_(min=-700).exp_() @ e[i : i + width]
    return sums, sums[:, -1].log().abs() < 300


def with_one(e: Tensor) -> Tensor:
    """e with a last column of ones."""
    return torch.cat([e, torch.ones_like(e[:, :1])], dim=1)


def exp_in_place(L: Tensor) -> tuple[Tensor, Tensor]:
    """``e^(L − top)`` in the place of L, with top the largest of each row.

    To derivatives top is a constant. e^-350 stands for less, since denormal numbers are slow.
    """
    top = L.detach().amax(dim=1, keepdim=True)
    return L.sub_(top).clamp_(min=-350).exp_(), top
