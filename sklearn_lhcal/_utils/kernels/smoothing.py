"""Smoothing with Dirichlet and Beta kernels: sample j is smoothed over the samples i ≠ j.

Letters: x points on the simplex (n, d), away from its faces; h bandwidth; e targets (n, ...); v
log-weights (n,); the kernel is ``k_ji = Dir(x_j | x_i/h + 1)``, for d = 2 the Beta kernel, and c_i
its logarithm less the terms in x_j, plus a log-weight. Beta kernels of many samples are summed in
time that grows with n, others with n²; memory grows with n. Every sum is divided by a kernel near
the largest of its sample, so that no denominator underflows.

Where samples have groups g (n,), sample j is smoothed over the samples of other groups. Samples of
one group (one patient, say) may depend on each other: only pairs of different groups have products
of residuals with mean 0. All but the likelihoods can be differentiated. P2 is Popordanoska, Sayer
and Blaschko (2022).
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..simplex import EPS
from ..types import Floats

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
    if rows is None:
        rows = torch.arange(n, device=x.device)
    for part in rows.split(size):
        # Where there are no samples, one empty part is all.
        if not len(part):
            return
        L = left[part] @ right
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


# Samples from which on Beta kernels are summed by interpolation.
MANY = 2000

LogWeight = Tensor | None
Groups = Tensor | None


def clipped(z: Tensor) -> Tensor:
    """z away from 0, renormalised."""
    z = z.clamp(min=EPS)
    return z / z.sum(dim=1, keepdim=True)


def smooth(x: Tensor, e: Tensor, h: float, v: LogWeight = None, g: Groups = None) -> Tensor:
    """``r_j = Σ_{i≠j} k_ji e_i / Σ_{i≠j} k_ji`` (P2 eq. 3), in the shape of e."""
    shape = e.shape
    e = e.flatten(1)
    c = log_normaliser(x, h, v)
    r = torch.empty_like(e)
    rows = None
    if _interpolated(x, e, g):
        sums, _, sound = beta_sums(x, e, h, c)
        r = sums[:, :-1] / sums[:, -1:]
        rows = torch.nonzero(~sound)[:, 0]
    for part, L in log_kernels(x, h, c, rows, g):
        k, _ = exp_in_place(L)
        r[part] = k @ e / k.sum(dim=1, keepdim=True)
    return r.view(shape)


def _interpolated(x: Tensor, e: Tensor, g: Groups) -> bool:
    """Whether sums are those of many Beta kernels, without derivatives or groups."""
    derivatives = x.requires_grad or e.requires_grad
    return g is None and not derivatives and x.shape[1] == 2 and len(x) >= MANY


def smooth_at(points: Tensor, x: Tensor, e: Tensor, h: float, v: LogWeight = None) -> tuple:
    """The smooth at any points (m, d), shape (m, C), and ``(Σk)²/Σk²``, shape (m,).

    The latter is how many samples it effectively averages.
    """
    c = log_normaliser(x, h, v)
    share = torch.softmax(torch.addmm(c, points.log(), x.T, alpha=1 / h), dim=1)
    return share @ e, 1 / (share * share).sum(dim=1)


class Moments(NamedTuple):
    """Sums over i ≠ j for U-statistics of pairs of neighbours, with a = k·e and c = k.

    The largest kernel of a sample may stand apart, with its share `lead` of all and its target
    `e1`. Then pairs never cancel, however isolated a sample is. a, aa, ac and cc are the sums of
    p·e, p²e², p²e and p² over the other kernels, each a share p of these. `lead` and `cc` have the
    shape (n, 1, ...), the others that of e. `m` is the number of neighbours: samples, or groups of
    them.
    """

    lead: Tensor
    e1: Tensor
    a: Tensor
    aa: Tensor
    ac: Tensor
    cc: Tensor
    m: int

    def pairs(self) -> Tensor:
        """The product of two neighbours' targets, ``[(Σ a)² − Σ a²] / [(Σ c)² − Σ c²]``."""
        s, e1, a, aa, _, cc, _ = self
        return (2 * s * e1 * a + (1 - s) * (a * a - aa)) / (2 * s + (1 - s) * (1 - cc))

    def ratio(self) -> Tensor:
        """``Σ a / Σ c``."""
        return self.lead * self.e1 + (1 - self.lead) * self.a

    def relative_covariances(self) -> tuple[Tensor, Tensor]:
        """``s_ac/c̄²`` and ``s_cc/c̄²``, covariances over the m neighbours."""
        s, e1, _, _, ac, cc, m = self
        ac = s**2 * e1 + (1 - s) ** 2 * ac
        cc = s**2 + (1 - s) ** 2 * cc
        return m * (m * ac - self.ratio()) / (m - 1), m * (m * cc - 1) / (m - 1)


def moments(x: Tensor, e: Tensor, h: float, v: LogWeight = None, g: Groups = None) -> Moments:
    """The sums that U-statistics over pairs of neighbours are made of; three samples at least.

    With groups the units are groups, three at least: a_g is the sum of k·e over the group g, c_g
    that of k, and the group of the largest kernel stands apart.
    """
    shape = e.shape
    e = e.flatten(1)
    c = log_normaliser(x, h, v)
    n, C = e.shape
    out = e.new_empty(n, 4 * C + 2)
    rows = None
    m = n - 1
    if g is not None:
        names, g = torch.unique(g, return_inverse=True)
        m = len(names) - 1
    elif _interpolated(x, e, g):
        # the columns of `Moments` without a lead
        k, s, sound = beta_sums(x, e, h, c)
        k2, s2, sound2 = beta_sums(x, torch.cat([e * e, e], dim=1), h, c, power=2)
        k2 *= (s2 - 2 * s).exp()[:, None] / k[:, -1:] ** 2
        out = torch.cat([torch.zeros_like(k), k[:, :-1] / k[:, -1:], k2], dim=1)
        # Where one kernel is most of the sum, pairs may cancel.
        rows = torch.nonzero(~(sound & sound2 & (k2[:, -1] < 0.5)))[:, 0]
    e = with_one(e)
    for part, L in log_kernels(x, h, c, rows, g):
        if g is None:
            out[part] = _row_moments(L, e)
        else:
            out[part] = _group_moments(L, e, g)
    lead, *sums, cc = out.split([1, C, C, C, C, 1], dim=1)
    row = (n, *(1 for _ in shape[1:]))
    return Moments._make((lead.view(row), *(a.view(shape) for a in sums), cc.view(row), m))


def _row_moments(L: Tensor, e: Tensor) -> Tensor:
    """The columns of `Moments` for a block of rows; the last column of e holds ones."""
    first, star = L.max(dim=1, keepdim=True)
    k, second = exp_in_place(L.scatter_(1, star, -torch.inf))
    sums = k @ e
    total = sums[:, -1:]
    squares = k * k if k.requires_grad else k.square_()
    squares = squares @ torch.cat([e[:, :-1].square(), e], dim=1) / total**2
    lead = 1 / (1 + total * (second - first).exp())
    return torch.cat([lead, e[star[:, 0], :-1], sums[:, :-1] / total, squares], dim=1)


def _group_moments(L: Tensor, e: Tensor, g: Tensor) -> Tensor:
    """The same where units are groups, with numbers from 0."""
    leads = g[L.argmax(dim=1)][:, None] == g
    k, first = exp_in_place(L.masked_fill(~leads, -torch.inf))
    own = (k * leads) @ e
    k, second = exp_in_place(L.masked_fill_(leads, -torch.inf))
    sums = k @ e
    total = sums[:, -1:]
    # a_g and c_g, shape (samples, groups) each
    of_groups = k.new_zeros(len(k), int(g.max()) + 1)
    *a, c = (of_groups.index_add(1, g, k * column) for column in e.T)
    products = [one * one for one in a] + [one * c for one in (*a, c)]
    squares = torch.stack([one.sum(dim=1) for one in products], dim=1) / total**2
    lead = 1 / (1 + total / own[:, -1:] * (second - first).exp())
    return torch.cat([lead, own[:, :-1] / own[:, -1:], sums[:, :-1] / total, squares], dim=1)


@torch.no_grad()
def log_likelihoods(x: Tensor, hs: Sequence[float] | Floats, g: Groups = None) -> list[float]:
    """Mean over samples of the log mean kernel of the other samples, for each bandwidth.

    Others have another x: at the distance 0 they would make the smallest bandwidth the best. With
    groups they are of another group. Samples without any others are left out.
    """
    points, codes = torch.unique(x, dim=0, return_inverse=True)
    g = codes if g is None else torch.unique(g, return_inverse=True)[1]
    # m samples each that are alike, and n others
    alike, m = torch.unique(torch.stack([codes, g]), dim=1, return_counts=True)
    n = len(x) + m - sum(torch.bincount(a, m)[a] for a in alike)
    w = m * (n > 0)
    if not w.any():
        raise ValueError("All predictions are equal, or no two groups differ; pass a number.")
    x = points[alike[0]]
    means = [_log_densities(x, h, m.to(x.dtype), alike) - n.log() for h in hs]
    return [float(torch.where(n > 0, w * mean, 0.0).sum() / w.sum()) for mean in means]


def _log_densities(x: Tensor, h: float, m: Tensor, alike: Tensor) -> Tensor:
    """``log Σ_i m_i k_ji`` over the others of m samples each that are alike, shape (n,).

    Others differ in both of the numbers `alike` (2, n), of their x and of their group.
    """
    c = log_normaliser(x, h, m.log())
    out, rows = torch.empty_like(m), None
    g = alike[1] if (alike[0] != alike[1]).any() else None
    if _interpolated(x, x, g):
        sums, s, sound = beta_sums(x, x[:, :1], h, c)
        out = sums[:, -1].log() + s + x[:, 1].log() / h
        rows = torch.nonzero(~sound)[:, 0]
    for part, L in log_kernels(x, h, c, rows, g):
        if g is not None:
            L.masked_fill_(alike[0, part, None] == alike[0], -torch.inf)
        k, top = exp_in_place(L)
        out[part] = k.sum(dim=1).log() + top[:, 0]
    return out
