"""Smoothing with Dirichlet and Beta kernels: sample j is smoothed over the samples i ≠ j.

Letters are those of `sums`, with e targets (n, ...) and v log-weights (n,). Where samples have
groups g (n,), sample j is smoothed over the samples of other groups. Samples of one group (one
patient, say) may depend on each other: only pairs of different groups have products of residuals
with mean 0. All but the likelihoods can be differentiated. P2 is Popordanoska, Sayer and Blaschko
(2022).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..arrays import Floats
from ..simplex import EPS
from .sums import BLOCK, beta_sums, exp_in_place, log_kernels, log_normaliser, with_one

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
        out, rows = _beta_moments(x, e, h, c)
    e = with_one(e)
    for part, L in log_kernels(x, h, c, rows, g):
        if g is None:
            out[part] = _row_moments(L, e)
        else:
            out[part] = _group_moments(L, e, g)
    return Moments.of_columns(out, shape, m)


def _beta_moments(x: Tensor, e: Tensor, h: float, c: Tensor) -> tuple[Tensor, Tensor]:
    """The columns of `Moments` without a lead, and the samples where they are not sound."""
    k, s, sound = beta_sums(x, e, h, c)
    k2, s2, sound2 = beta_sums(x, torch.cat([e * e, e], dim=1), h, c, power=2)
    k2 *= (s2 - 2 * s).exp()[:, None] / k[:, -1:] ** 2
    out = torch.cat([torch.zeros_like(k), k[:, :-1] / k[:, -1:], k2], dim=1)
    # Where one kernel is most of the sum, pairs may cancel.
    return out, torch.nonzero(~(sound & sound2 & (k2[:, -1] < 0.5)))[:, 0]


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
    codes = torch.unique(x, dim=0, return_inverse=True)[1]
    log_x = x.log()
    normalisers = [log_normaliser(x, h) for h in hs]
    # on the device of x: to fetch a number for each bandwidth would make it wait
    total = torch.zeros(len(hs) + 1, dtype=torch.float64, device=x.device)
    everyone = torch.arange(len(x), device=x.device)
    for rows in everyone.split(max(BLOCK // len(x), 16)):
        others = codes[rows, None] != codes
        if g is not None:
            others &= g[rows, None] != g
        n = others.sum(dim=1).to(x.dtype)
        some = n > 0
        # The product is made once for all bandwidths.
        P = (log_x[rows] @ x.T).masked_fill_(~others, -torch.inf)
        total[-1] += some.sum()
        for t, (h, c) in enumerate(zip(hs, normalisers, strict=True)):
            k, top = exp_in_place(torch.add(c, P, alpha=1 / h))
            log_mean = k.sum(dim=1).log() + top[:, 0] - n.log()
            total[t] += torch.where(some, log_mean, 0.0).sum()
    *sums, n_rows = total.tolist()
    if not n_rows:
        raise ValueError(
            "All predictions are equal, or no two groups differ in theirs, so that they give no "
            "bandwidth; pass a number."
        )
    return [one / n_rows for one in sums]
