"""Smoothing that leaves rows of one group out of each other's smooth, in log space and in blocks.

Letters as in `smoothing`; g_i is the group of row i. Rows of one group (one patient, say) may
depend on each other: only pairs of different groups have products of residuals with mean 0. Time
grows with n², memory with n. With one row a group everything here is what `smoothing` computes.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from .arrays import Floats
from .kernel_sums import BLOCK, exp_in_place, log_normaliser, with_one
from .smoothing import LogWeight, Moments

PRODUCTS = 2**21  # numbers in memory while sums of groups are squared


def log_kernels(
    x: Tensor, h: float, groups: Tensor, log_weight: LogWeight = None
) -> Iterator[tuple[slice, Tensor]]:
    """(rows j, log k_ji + log w_i) for blocks of rows; −inf where i and j are of one group."""
    n = len(x)
    left = x.log() / h
    right = x.T.contiguous()
    c = log_normaliser(x, h, log_weight)
    size = max(BLOCK // n, 16)
    for start in range(0, n, size):
        part = slice(start, start + size)
        L = torch.addmm(c, left[part], right)
        yield part, L.masked_fill_(groups[part, None] == groups, -torch.inf)


def smooth(x: Tensor, e: Tensor, h: float, groups: Tensor, log_weight: LogWeight = None) -> Tensor:
    """``r_j = Σ k_ji e_i / Σ k_ji`` over the rows i of other groups, in the shape of e."""
    shape = e.shape
    e = e.flatten(1)
    r = torch.empty_like(e)
    for part, L in log_kernels(x, h, groups, log_weight):
        k, _ = exp_in_place(L)
        r[part] = k @ e / k.sum(dim=1, keepdim=True)
    return r.view(shape)


def moments(
    x: Tensor, e: Tensor, h: float, groups: Tensor, log_weight: LogWeight = None
) -> Moments:
    """The sums of U-statistics whose units are groups; three groups at least.

    a_g is the sum of k·e over the group g, and c_g that of k: ``Σ a_g``, ``Σ a_g²``, ``Σ a_g c_g``
    and ``Σ c_g²`` are over groups other than that of j. The group of the largest kernel stands
    apart, as the row does in `smoothing.moments`.
    """
    e_one = with_one(e.flatten(1))
    layout = _layout(groups)
    n_groups = sum(len(rows) for rows in layout)
    out = e.new_empty(len(e), 4 * e_one.shape[1] - 2)
    for part, L in log_kernels(x, h, groups, log_weight):
        star = groups[L.argmax(dim=1)]
        leads = star[:, None] == groups
        k, first = exp_in_place(L.masked_fill(~leads, -torch.inf))
        own = (k * leads) @ e_one
        k, second = exp_in_place(L.masked_fill_(leads, -torch.inf))
        sums = k @ e_one
        squares, products = _sums_of_products(k, e_one, layout)
        total = sums[:, -1:]
        lead = 1 / (1 + total / own[:, -1:] * (second - first).exp())
        parts = [lead, own[:, :-1] / own[:, -1:], sums[:, :-1] / total]
        parts += [squares[:, :-1] / total**2, products / total**2]
        out[part] = torch.cat(parts, dim=1)
    return Moments.of_columns(out, e.shape, n_groups - 1)


def _layout(groups: Tensor) -> list[Tensor]:
    """The rows of all groups of one size, shape (G_s, s), for each size s that occurs."""
    order = groups.argsort(stable=True)
    _, sizes = torch.unique_consecutive(groups[order], return_counts=True)
    starts = sizes.cumsum(0) - sizes
    found = []
    for s in sizes.unique().tolist():
        first = starts[sizes == s]
        found.append(order[first[:, None] + torch.arange(s, device=order.device)])
    return found


def _sums_of_products(k: Tensor, e: Tensor, layout: list[Tensor]) -> tuple[Tensor, Tensor]:
    """``Σ_g (Σ_{i∈g} k_ji e_i)²`` and ``Σ_g (Σ_{i∈g} k_ji e_i)(Σ_{i∈g} k_ji)``, shape (m, C) each.

    The last column of e holds ones.
    """
    squares = k.new_zeros(len(k), e.shape[1])
    products = torch.zeros_like(squares)
    for rows in layout:
        if rows.shape[1] == 1:
            k2 = k[:, rows[:, 0]].square()
            squares += k2 @ e[rows[:, 0]].square()
            products += k2 @ e[rows[:, 0]]
            continue
        step = max(PRODUCTS // squares.numel(), 1)
        for some in rows.split(step):
            sums = torch.bmm(k[:, some].transpose(0, 1), e[some])
            products += (sums * sums[..., -1:]).sum(dim=0)
            squares += sums.square_().sum(dim=0)
    return squares, products


@torch.no_grad()
def log_likelihoods(x: Tensor, hs: Sequence[float] | Floats, groups: Tensor) -> list[float]:
    """Mean over rows of the log mean kernel of rows of other groups that do not tie with it.

    Rows that have no such other are left out.
    """
    codes = torch.unique(x, dim=0, return_inverse=True)[1]
    found = []
    for h in hs:
        total, rows = 0.0, 0
        for part, L in log_kernels(x, h, groups):
            L.masked_fill_(codes[part, None] == codes, -torch.inf)
            others = (-torch.inf < L).sum(dim=1)
            some = others > 0
            k, top = exp_in_place(L[some])
            total += float((k.sum(dim=1).log() + top[:, 0] - others[some].log()).sum())
            rows += int(some.sum())
        if not rows:
            raise ValueError("No two groups differ in their predictions; give a bandwidth.")
        found.append(total / rows)
    return found
