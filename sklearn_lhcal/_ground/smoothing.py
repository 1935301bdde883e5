"""Smoothing with Dirichlet and Beta kernels: row j is smoothed over the rows i ≠ j.

Letters are those of `kernel_sums`, with e targets (n, ...). All but the likelihoods can be
differentiated. P2 is Popordanoska, Sayer and Blaschko (2022).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .arrays import Floats
from .kernel_sums import (
    BLOCK,
    beta_sums,
    dirichlet_sums,
    exp_in_place,
    log_kernels,
    log_normaliser,
    with_one,
)
from .simplex import EPS

# Rows from which on Beta kernels are summed by interpolation, unless derivatives are asked for.
MANY = 2000

LogWeight = Tensor | None


def clipped(z: Tensor) -> Tensor:
    """z away from 0, renormalised."""
    z = z.clamp(min=EPS)
    return z / z.sum(dim=1, keepdim=True)


def smooth(x: Tensor, e: Tensor, h: float, log_weight: LogWeight = None) -> Tensor:
    """``r_j = Σ_{i≠j} k_ji e_i / Σ_{i≠j} k_ji`` (P2 eq. 3), in the shape of e."""
    shape = e.shape
    x, e, c, back = _sorted(x, e.flatten(1), log_normaliser(x, h, log_weight))
    r = torch.empty_like(e)
    rows = None
    binary = x.shape[1] == 2
    if not _derivatives(x, e) and not (binary and len(x) < MANY):
        sums, *_, sound = (beta_sums if binary else dirichlet_sums)(x, e, h, c)
        r = sums[:, :-1] / sums[:, -1:]
        rows = torch.nonzero(~sound)[:, 0]
    for part, columns, L in log_kernels(x, h, c, rows):
        k, _ = exp_in_place(L)
        r[part] = k @ e[columns] / k.sum(dim=1, keepdim=True)
    return r[back].view(shape)


def _derivatives(x: Tensor, e: Tensor) -> bool:
    return x.requires_grad or e.requires_grad


def _sorted(x: Tensor, e: Tensor, c: Tensor) -> tuple:
    """All in the order of the logit of the first coordinate where points are binary.

    The index that undoes it comes last.
    """
    if x.shape[1] > 2:
        return x, e, c, slice(None)
    order = (x[:, 0] / x[:, 1]).argsort()
    return x[order], e[order], c[order], order.argsort()


def smooth_at(
    points: Tensor, x: Tensor, e: Tensor, h: float, log_weight: LogWeight = None
) -> tuple:
    """The smooth at any points (m, d), shape (m, C), and ``(Σk)²/Σk²``, shape (m,).

    The latter is how many rows it effectively averages.
    """
    c = log_normaliser(x, h, log_weight)
    share = torch.softmax(torch.addmm(c, points.log(), x.T, alpha=1 / h), dim=1)
    return share @ e, 1 / (share * share).sum(dim=1)


class Moments(NamedTuple):
    """Sums over i ≠ j for U-statistics of pairs of neighbours, with a = k·e and c = k.

    The largest kernel of a row may stand apart, with its share `lead` of all and its target `e1`.
    Then pairs never cancel, however isolated a row is. a, aa, ac and cc are the sums of p·e, p²e²,
    p²e and p² over the other kernels, each a share p of these. `lead` and `cc` have the shape
    (n, 1, ...), the others that of e. `m` is the number of neighbours: rows, or groups of them.
    """

    lead: Tensor
    e1: Tensor
    a: Tensor
    aa: Tensor
    ac: Tensor
    cc: Tensor
    m: int

    @classmethod
    def of_columns(cls, columns: Tensor, shape: tuple, m: int) -> "Moments":
        """From all sums side by side, (n, 4C + 2), for targets of a shape (n, ...)."""
        C = math.prod(shape[1:])
        lead, *sums, cc = columns.split([1, C, C, C, C, 1], dim=1)
        row = (len(columns), *(1 for _ in shape[1:]))
        return cls._make((lead.view(row), *(a.view(shape) for a in sums), cc.view(row), m))

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


def moments(x: Tensor, e: Tensor, h: float, log_weight: LogWeight = None) -> Moments:
    """The sums that U-statistics over pairs of neighbours are made of; three rows at least."""
    shape = e.shape
    x, e, c, back = _sorted(x, e.flatten(1), log_normaliser(x, h, log_weight))
    n, C = e.shape
    e2 = torch.cat([e * e, e], dim=1)
    out = e.new_empty(n, 4 * C + 2)
    rows = None
    if not _derivatives(x, e) and x.shape[1] == 2 and n >= MANY:
        k, s, sound = beta_sums(x, e, h, c)
        k2, s2, sound2 = beta_sums(x, e2, h, c, power=2)
        k2 *= (s2 - 2 * s).exp()[:, None] / k[:, -1:] ** 2
        out = torch.cat([torch.zeros_like(k), k[:, :-1] / k[:, -1:], k2], dim=1)
        # Where one kernel is most of the sum, pairs may cancel.
        rows = torch.nonzero(~(sound & sound2 & (k2[:, -1] < 0.5)))[:, 0]
    e2 = with_one(e2)
    for part, columns, L in log_kernels(x, h, c, rows):
        first, star = L.max(dim=1, keepdim=True)
        k, second = exp_in_place(L.scatter_(1, star, -torch.inf))
        total = k.sum(dim=1, keepdim=True)
        sums = k @ e[columns] / total
        squares = k * k if k.requires_grad else k.square_()
        squares = squares @ e2[columns] / total**2
        lead = 1 / (1 + total * (second - first).exp())
        out[part] = torch.cat([lead, e[columns][star[:, 0]], sums, squares], dim=1)
    return Moments.of_columns(out[back], shape, n - 1)


@torch.no_grad()
def log_likelihoods(x: Tensor, hs: Sequence[float] | Floats) -> list[float]:
    """Mean over rows of ``log Σ_{i: x_i≠x_j} k_ji/(n − m_j)``, for each bandwidth.

    m_j rows tie with j. They are left out: at the distance 0 they would make the smallest bandwidth
    the best.
    """
    n = len(x)
    x, m = torch.unique(x, dim=0, return_counts=True)
    if len(x) < 2:
        raise ValueError(
            "All predictions are equal, so that the prediction gives no bandwidth; pass a number."
        )
    m = m.to(x.dtype)
    log_x = x.log()
    normalisers = [log_normaliser(x, h, m.log()) for h in hs]
    # on the device of x: to fetch a number for each bandwidth would make it wait
    total = torch.zeros(len(hs), dtype=torch.float64, device=x.device)
    size = max(BLOCK // len(x), 16)
    for start in range(0, len(x), size):
        rows = slice(start, start + size)
        weight = m[rows]
        # The product is made once for all bandwidths.
        P = log_x[rows] @ x.T
        for t, (h, c) in enumerate(zip(hs, normalisers, strict=True)):
            L = torch.add(c, P, alpha=1 / h)
            L.diagonal(start).fill_(-torch.inf)
            k, top = exp_in_place(L)
            total[t] += weight @ (k.sum(dim=1).log() + top[:, 0] - (n - weight).log())
    return (total / n).tolist()
