"""Smoothing with Dirichlet and Beta kernels, in log space and in blocks of rows; serves the metrics and the losses.

Beta kernels of many rows are summed in time that grows with n, others with n²; memory grows with n.

Letters: x points on the simplex (n, d), away from its faces; h bandwidth; e targets (n, C); the kernel is
``k_ji = Dir(x_j | x_i/h + 1)``, for d = 2 the Beta kernel. Row j is smoothed over the rows i ≠ j, and every sum is
divided by a kernel near the largest of its row, so that no denominator underflows. z predictions (n, C) and y observed
frequencies (n, S, C) in S versions, of which a metric has one and its null distribution many. All functions but the
bandwidths can be differentiated. P2 is Popordanoska, Sayer and Blaschko (2022).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .exponential_sums import FAR, exponential_sums
from .simplex import EPS

BLOCK = 2**17  # kernels in memory at a time, which stay in a processor's cache
TILE = {
    False: (128, 1024),
    True: (4096, 4096),
}  # rows and columns of so many, on a processor or on CUDA
MANY = 2000  # rows from which on Beta kernels are summed by `exponential_sums`, unless derivatives are asked for
NOTIONS = ("canonical", "marginal", "top_label")


class Problem(NamedTuple):
    """Points x (n, d) to smooth over, the predictions z (n, C) there and the frequencies y (n, S, C)."""

    x: Tensor
    z: Tensor
    y: Tensor


def problems(notion: str, z: Tensor, y: Tensor) -> Iterator[Problem]:
    """The smoothing problems over which the calibration error of a notion sums; z (n, K), y (n, S, K)."""
    if notion == "canonical":
        yield Problem(clipped(z), z, y)
    elif notion == "marginal":
        for k in range(z.shape[1]):
            yield _binary(z[:, k : k + 1], y[:, :, k : k + 1])
    elif notion == "top_label":
        top, k = z.max(dim=1, keepdim=True)
        yield _binary(top, y.gather(2, k[:, None].expand(-1, y.shape[1], 1)))
    else:
        raise ValueError(f"notion must be one of {', '.join(NOTIONS)}, got {notion!r}.")


def _binary(z: Tensor, y: Tensor) -> Problem:
    return Problem(clipped(torch.cat([z, 1 - z], dim=1)), z, y)


def clipped(z: Tensor) -> Tensor:
    """z away from 0, renormalised."""
    z = z.clamp(min=EPS)
    return z / z.sum(dim=1, keepdim=True)


def log_kernels(
    x: Tensor,
    h: float,
    log_weight: Tensor | None = None,
    block: int = BLOCK,
    rows: Tensor | None = None,
) -> Iterator:
    """(rows, columns, log k_ji + log w_i), for blocks of the rows j (increasing; None: all); −inf where i = j.

    Beta kernels are narrow where h is small: of x sorted (d = 2), the columns that matter are neighbours.
    """
    n, d = x.shape
    log_x, c = x.log(), log_normaliser(x, h, log_weight)
    size = max(block // n, 16) * (128 if x.is_cuda else 1)
    left, right = (
        torch.cat([log_x / h, torch.ones_like(c)[:, None]], dim=1),
        torch.cat([x.T, c[None]]),
    )
    # one buffer for all blocks: fresh memory for each would take longer than its kernels
    buffer = None if left.requires_grad else left.new_empty(size * n)
    own = torch.arange(n, device=x.device)
    parts = (
        [slice(start, start + size) for start in range(0, n, size)]
        if rows is None
        else rows.split(size)
    )
    for part in parts:
        if not len(own[part]):
            return
        columns = _window(left, right, own[part]) if d == 2 and n > 2 * size else slice(0, n)
        a, b = left[part], right[:, columns]
        L = (
            a @ b
            if buffer is None
            else torch.mm(a, b, out=buffer[: len(a) * b.shape[1]].view(len(a), -1))
        )
        L.scatter_(1, own[part, None] - columns.start, -torch.inf)
        yield part, columns, L


def log_normaliser(x: Tensor, h: float, log_weight: Tensor | None = None) -> Tensor:
    """−log B(x_i/h + 1) + log w_i, shape (n,)."""
    a = x / h + 1
    c = torch.lgamma(a.sum(dim=1)) - torch.lgamma(a).sum(dim=1)
    return c if log_weight is None else c + log_weight


@torch.no_grad()
def _window(left: Tensor, right: Tensor, rows: Tensor) -> slice:
    """Columns outside of which all kernels of a row together are below e^-FAR of the two largest but for its own.

    The mixed derivative of ``log k_ji`` in x_i and x_j is positive. So both ends of the set where it exceeds its third
    largest value (one may be the row's own) less a margin rise with x_j: the first row bounds the window from below,
    the last one from above.
    """
    first, last = rows[0].item(), rows[-1].item()
    ends = []
    for j in (first, last):
        g = left[j] @ right
        near = torch.nonzero(g >= g.topk(3).values[2] - FAR - math.log(len(g)))
        ends.append((near[0].item(), near[-1].item() + 1))
    return slice(min(ends[0][0], first), max(ends[1][1], last + 1))


def _beta_sums(
    x: Tensor, e: Tensor, h: float, log_weight: Tensor | None, power: int = 1
) -> tuple[Tensor, Tensor, Tensor]:
    """``e^-s_j Σ_{i≠j} k_ji^power (e_i, 1)``, shape (n, C+1), the logs s of their scales, and where they are sound.

    x sorted (d = 2). The row's own term is taken away from the sum over all: sound where that leaves half of it.
    """
    log_x, c = x.log(), log_normaliser(x, h, log_weight)
    theta = (log_x[:, 0] - log_x[:, 1]) / h  # log k_ji = θ_j x_i + c_i + a term of j
    sums, s = exponential_sums(power * theta, x[:, 0].contiguous(), power * c, e)
    own = (power * (c + theta * x[:, 0]) - s).exp()
    sums -= own[:, None] * with_one(e)
    return sums, s, own <= sums[:, -1]


def _dirichlet_sums(
    x: Tensor, e: Tensor, h: float, log_weight: Tensor | None
) -> tuple[Tensor, Tensor]:
    """``Σ_{i≠j} k_ji/k_jj (e_i, 1)``, shape (n, C+1), and where they are sound: neither huge nor tiny.

    In tiles, without a look at the largest kernel of a row; e^-700 stands for less, since denormal numbers are slow.
    """
    log_x, c, e = x.log(), log_normaliser(x, h, log_weight), with_one(e)
    one, own = torch.ones_like(c)[:, None], (x * log_x).sum(dim=1) / h + c
    left = torch.cat([log_x / h, one, -own[:, None]], dim=1)
    right = torch.cat([x, c[:, None], one], dim=1).T.contiguous()
    height, width = TILE[x.is_cuda]
    n, buffer, sums = len(x), x.new_empty(height * width), torch.zeros_like(e)
    for j in range(0, n, height):
        rows = left[j : j + height]
        for i in range(0, n, width):
            columns = right[:, i : i + width]
            m, w = len(rows), columns.shape[1]
            L = torch.mm(rows, columns, out=buffer[: m * w].view(m, w))
            if -m < j - i < w:
                L.diagonal(j - i).fill_(-torch.inf)
            sums[j : j + height] += L.clamp_(min=-700).exp_() @ e[i : i + width]
    return sums, sums[:, -1].log().abs() < 300


def smooth(
    x: Tensor, e: Tensor, h: float, log_weight: Tensor | None = None, block: int = BLOCK
) -> Tensor:
    """``r_j = Σ_{i≠j} k_ji e_i / Σ_{i≠j} k_ji`` (P2 eq. 3), shape (n, C)."""
    x, e, log_weight, back = _sorted(x, e, log_weight)
    r, rows = torch.empty_like(e), None
    if not (x.requires_grad or e.requires_grad) and (x.shape[1] > 2 or len(x) >= MANY):
        sums, *_, sound = (_dirichlet_sums if x.shape[1] > 2 else _beta_sums)(x, e, h, log_weight)
        r, rows = sums[:, :-1] / sums[:, -1:], torch.nonzero(~sound)[:, 0]
    for part, columns, L in log_kernels(x, h, log_weight, block, rows):
        k, _ = exp_in_place(L)
        r[part] = k @ e[columns] / k.sum(dim=1, keepdim=True)
    return r[back]


def _sorted(x: Tensor, e: Tensor, log_weight: Tensor | None) -> tuple:
    """All in the order of the logit of the first coordinate where points are binary, and the index that undoes it."""
    if x.shape[1] > 2:
        return x, e, log_weight, slice(None)
    order = (x[:, 0] / x[:, 1]).argsort()
    return x[order], e[order], None if log_weight is None else log_weight[order], order.argsort()


def with_one(e: Tensor) -> Tensor:
    """e with a column of ones, shape (n, C+1)."""
    return torch.cat([e, e.new_ones(len(e), 1)], dim=1)


def exp_in_place(L: Tensor) -> tuple[Tensor, Tensor]:
    """``e^(L − top)`` in the place of L, with top the largest of each row, a constant to derivatives.

    e^-350 stands for less, since denormal numbers are slow.
    """
    top = L.detach().amax(dim=1, keepdim=True)
    return L.sub_(top).clamp_(min=-350).exp_(), top


def smooth_at(
    points: Tensor, x: Tensor, e: Tensor, h: float, log_weight: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The smooth at any points (m, d), shape (m, C), and how many rows it effectively averages, ``(Σk)²/Σk²``."""
    c = log_normaliser(x, h, log_weight)
    share = torch.softmax(torch.addmm(c, points.log(), x.T, alpha=1 / h), dim=1)
    return share @ e, 1 / (share * share).sum(dim=1)


class Moments(NamedTuple):
    """Sums over i ≠ j for U-statistics of pairs of neighbours, with a = k·e and c = k.

    The largest kernel of a row may stand apart, with its share `lead` (n,) of all and its target `e1` (n, C); then
    pairs never cancel, however isolated a row is. a, aa, ac : (n, C) and cc : (n,), sums of p·e, p²e², p²e and p² over
    the other kernels, each a share p of these.
    """

    lead: Tensor
    e1: Tensor
    a: Tensor
    aa: Tensor
    ac: Tensor
    cc: Tensor

    def pairs(self) -> Tensor:
        """``[(Σ a)² − Σ a²] / [(Σ c)² − Σ c²]`` over i ≠ j, shape (n, C): the product of two neighbours' targets."""
        s, e1, a, aa, cc = self.lead[:, None], self.e1, self.a, self.aa, self.cc[:, None]
        return (2 * s * e1 * a + (1 - s) * (a * a - aa)) / (2 * s + (1 - s) * (1 - cc))

    def ratio(self) -> Tensor:
        """``Σ a / Σ c``, shape (n, C)."""
        s = self.lead[:, None]
        return s * self.e1 + (1 - s) * self.a

    def relative_covariances(self) -> tuple[Tensor, Tensor]:
        """``s_ac/c̄²`` (n, C) and ``s_cc/c̄²`` (n, 1), covariances over the m = n−1 neighbours."""
        s, m = self.lead[:, None], len(self.lead) - 1
        ac, cc = s**2 * self.e1 + (1 - s) ** 2 * self.ac, s**2 + (1 - s) ** 2 * self.cc[:, None]
        return m * (m * ac - self.ratio()) / (m - 1), m * (m * cc - 1) / (m - 1)


def moments(
    x: Tensor, e: Tensor, h: float, log_weight: Tensor | None = None, block: int = BLOCK
) -> Moments:
    """The sums that U-statistics over pairs of neighbours are made of; three rows at least."""
    n, C = e.shape
    x, e, log_weight, back = _sorted(x, e, log_weight)
    e2 = with_one(torch.cat([e * e, e], dim=1))
    out, rows = e.new_empty(n, 4 * C + 2), None
    if not (x.requires_grad or e.requires_grad) and x.shape[1] == 2 and n >= MANY:
        k, s, sound = _beta_sums(x, e, h, log_weight)
        k2, s2, sound2 = _beta_sums(x, e2[:, :-1], h, log_weight, power=2)
        k2 *= (s2 - 2 * s).exp()[:, None] / k[:, -1:] ** 2
        out = torch.cat([torch.zeros_like(k), k[:, :-1] / k[:, -1:], k2], dim=1)
        rows = torch.nonzero(~(sound & sound2 & (k2[:, -1] < 0.5)))[:, 0]  # else pairs may cancel
    for part, columns, L in log_kernels(x, h, log_weight, block, rows):
        first, star = L.max(dim=1, keepdim=True)
        k, second = exp_in_place(L.scatter_(1, star, -torch.inf))
        total, sums = k.sum(dim=1, keepdim=True), k @ e[columns]
        squares = (k * k if k.requires_grad else k.square_()) @ e2[columns]
        lead = 1 / (1 + total * (second - first).exp())
        out[part] = torch.cat(
            [lead, e[columns][star[:, 0]], sums / total, squares / total**2], dim=1
        )
    lead, e1, a, aa, ac, cc = out[back].split([1, C, C, C, C, 1], dim=1)
    return Moments(lead[:, 0], e1, a, aa, ac, cc[:, 0])


def plugin_rows(problem: Problem, h: float, p: float, log_weight: Tensor | None = None) -> Tensor:
    """``Σ_c |r_jc − z_jc|^p`` (P2 eq. 9), shape (n, S)."""
    x, z, y = problem
    r = smooth(x, y.flatten(1), h, log_weight).view_as(y)
    return power(r - z[:, None], p).sum(dim=2)


def ratio_corrected_rows(
    problem: Problem, h: float, p: float, log_weight: Tensor | None = None
) -> Tensor:
    """The same with Tin's ratio ``r + (s_ac/c̄² − r·s_cc/c̄²)/m``, unbiased to O(1/m²), shape (n, S)."""
    x, z, y = problem
    M = moments(x, y.flatten(1), h, log_weight)
    r, (s_ac, s_cc) = M.ratio(), M.relative_covariances()
    r = r + (s_ac - r * s_cc) / (len(r) - 1)
    return power(r.view_as(y) - z[:, None], p).sum(dim=2)


def residual_rows(problem: Problem, h: float, log_weight: Tensor | None = None) -> Tensor:
    """S2: the product of two neighbours' residuals e = y − z, summed over classes, shape (n, S)."""
    x, z, y = problem
    e = y - z[:, None]
    return residual_of(moments(x, e.flatten(1), h, log_weight), e)


def residual_of(M: Moments, e: Tensor) -> Tensor:
    """S2 from the moments of e (n, S, C), shape (n, S)."""
    return M.pairs().view_as(e).sum(dim=2)


def second_order_rows(problem: Problem, h: float, log_weight: Tensor | None = None) -> Tensor:
    """``2·S1 − S2`` with S1 = e_j·(Se)_j, shape (n, S)."""
    x, z, y = problem
    e = y - z[:, None]
    return second_order_of(moments(x, e.flatten(1), h, log_weight), e)


def second_order_of(M: Moments, e: Tensor) -> Tensor:
    """2·S1 − S2 from the moments of e (n, S, C), shape (n, S)."""
    return (2 * e * M.ratio().view_as(e) - M.pairs().view_as(e)).sum(dim=2)


def sharpness_rows(
    problem: Problem, h: float, log_weight: Tensor | None = None, corrected: bool = False
) -> Tensor:
    """``Σ_c E[y_c|f]²`` as a ratio ρ of U-statistics (P2 eq. 7), shape (n, S).

    `corrected`: ρ·[1 + (4/m)(s_ac/(ā c̄) − s_cc/c̄²)].
    """
    x, _, y = problem
    M = moments(x, y.flatten(1), h, log_weight)
    rho = M.pairs()
    if corrected:
        r, (s_ac, s_cc) = M.ratio(), M.relative_covariances()
        relative = torch.where(r > 0, s_ac / torch.where(r > 0, r, 1.0), 0.0) - s_cc  # ā = r·c̄
        rho = rho * (1 + 4 / (len(r) - 1) * relative)
    return rho.view_as(y).sum(dim=2)


def power(a: Tensor, p: float) -> Tensor:
    """|a|^p, with a gradient at 0."""
    return a * a if p == 2 else a.abs() if p == 1 else a.abs().clamp(min=1e-300) ** p


@torch.no_grad()
def log_likelihoods(x: Tensor, hs: Sequence[float], block: int = BLOCK) -> list[float]:
    """Mean over rows of ``log Σ_{i: x_i≠x_j} k_ji/(n − m_j)``, for each bandwidth; m_j rows tie with j.

    Ties are left out: at the distance 0 they would make the smallest bandwidth the best. The product log x·xᵀ is
    made once for all bandwidths.
    """
    n = len(x)
    x, m = torch.unique(x, dim=0, return_counts=True)
    if len(x) < 2:
        raise ValueError(
            "All predictions are equal: no bandwidth follows from them; give a number."
        )
    m = m.to(x.dtype)
    log_x = x.log()
    size = max(block // len(x), 16)
    total = torch.zeros(len(hs), dtype=torch.float64)
    normalisers = [log_normaliser(x, h) + m.log() for h in hs]
    for start in range(0, len(x), size):
        rows = slice(start, start + size)
        P, weight = log_x[rows] @ x.T, m[rows]
        for t, (h, c) in enumerate(zip(hs, normalisers, strict=True)):
            L = torch.add(c, P, alpha=1 / h)
            L.diagonal(start).fill_(-torch.inf)
            k, top = exp_in_place(L)
            total[t] += float(weight @ (k.sum(dim=1).log() + top[:, 0] - (n - weight).log()))
    return (total / n).tolist()


@torch.no_grad()
def cross_validation_errors(
    problem: Problem, hs: Sequence[float], log_weight: Tensor | None = None
) -> list[float]:
    """Mean of ‖e_j − (Se)_j‖², each row left out for itself, for each bandwidth; e = y − z."""
    x, z, y = problem
    e = (y - z[:, None]).flatten(1)
    w = torch.ones_like(x[:, 0]) if log_weight is None else log_weight.exp()
    return [float(w @ ((e - smooth(x, e, h, log_weight)) ** 2).sum(dim=1) / w.sum()) for h in hs]


def best_bandwidth(cost: Callable[[Sequence[float]], Sequence[float]]) -> float:
    """Minimum of a cost over [1e-5, 1] in ten evaluations: decades, then the bracket, then a parabola in log h."""
    t = np.linspace(-5.0, 0.0, 6)
    f = np.asarray(cost(10**t))
    low, high = t[max(np.argmin(f) - 1, 0)], t[min(np.argmin(f) + 1, 5)]
    inner = np.setdiff1d(
        np.round(np.linspace(low, high, 7 if high - low > 1.5 else 6), 12), np.round(t, 12)
    )
    t, f = np.append(t, inner), np.append(f, cost(10**inner))
    order = np.argsort(t)
    t, f = t[order], f[order]
    i = int(np.argmin(f))
    if 0 < i < len(t) - 1:
        (a, b, c), (fa, fb, fc) = t[i - 1 : i + 2], f[i - 1 : i + 2]
        bend = (b - a) * (fb - fc) - (b - c) * (fb - fa)
        if bend < 0:
            return float(
                10 ** (b - 0.5 * ((b - a) ** 2 * (fb - fc) - (b - c) ** 2 * (fb - fa)) / bend)
            )
    return float(10 ** t[i])
