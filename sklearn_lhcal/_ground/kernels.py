"""Smoothing with Dirichlet and Beta kernels; it serves the metrics and the losses.

Letters are those of `kernel_sums`, with e targets (n, ...). Row j is smoothed over the rows i ≠ j.
z are predictions (n, C) and y observed frequencies (n, S, C) in S versions, of which a metric has
one and its null distribution many. All functions but the bandwidths can be differentiated. P2 is
Popordanoska, Sayer and Blaschko (2022).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
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
NOTIONS = ("canonical", "marginal", "top_label")

LogWeight = Tensor | None


class SmoothingProblem(NamedTuple):
    """Points x (n, d) to smooth over, predictions z (n, C) there and frequencies y (n, S, C)."""

    x: Tensor
    z: Tensor
    y: Tensor

    @property
    def residuals(self) -> Tensor:
        """e = y − z, shape (n, S, C)."""
        return self.y - self.z[:, None]


def problems(notion: str, z: Tensor, y: Tensor) -> Iterator[SmoothingProblem]:
    """The problems over which the calibration error of a notion sums; z (n, K), y (n, S, K)."""
    if notion == "canonical":
        yield SmoothingProblem(clipped(z), z, y)
    elif notion == "marginal":
        for k in range(z.shape[1]):
            yield _binary(z[:, k : k + 1], y[:, :, k : k + 1])
    elif notion == "top_label":
        top, label = z.max(dim=1, keepdim=True)
        yield _binary(top, y.gather(2, label[:, None].expand(-1, y.shape[1], 1)))
    else:
        raise ValueError(f"notion must be one of {', '.join(NOTIONS)}, got {notion!r}.")


def _binary(z: Tensor, y: Tensor) -> SmoothingProblem:
    return SmoothingProblem(clipped(torch.cat([z, 1 - z], dim=1)), z, y)


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
    (n, 1, ...), the others that of e.
    """

    lead: Tensor
    e1: Tensor
    a: Tensor
    aa: Tensor
    ac: Tensor
    cc: Tensor

    @classmethod
    def of_columns(cls, columns: Tensor, shape: tuple) -> "Moments":
        """From all of them side by side, (n, 4C + 2), for targets of a shape (n, ...)."""
        C = math.prod(shape[1:])
        lead, *sums, cc = columns.split([1, C, C, C, C, 1], dim=1)
        row = (len(columns), *(1 for _ in shape[1:]))
        return cls._make((lead.view(row), *(a.view(shape) for a in sums), cc.view(row)))

    def pairs(self) -> Tensor:
        """The product of two neighbours' targets, ``[(Σ a)² − Σ a²] / [(Σ c)² − Σ c²]``."""
        s, e1, a, aa, _, cc = self
        return (2 * s * e1 * a + (1 - s) * (a * a - aa)) / (2 * s + (1 - s) * (1 - cc))

    def ratio(self) -> Tensor:
        """``Σ a / Σ c``."""
        return self.lead * self.e1 + (1 - self.lead) * self.a

    def relative_covariances(self) -> tuple[Tensor, Tensor]:
        """``s_ac/c̄²`` and ``s_cc/c̄²``, covariances over the m = n−1 neighbours."""
        s, e1, _, _, ac, cc = self
        m = len(s) - 1
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
    return Moments.of_columns(out[back], shape)


def plugin_rows(
    problem: SmoothingProblem, h: float, p: float, log_weight: LogWeight = None
) -> Tensor:
    """``Σ_c |r_jc − z_jc|^p`` (P2 eq. 9), shape (n, S)."""
    x, z, y = problem
    return power(smooth(x, y, h, log_weight) - z[:, None], p).sum(dim=2)


def ratio_corrected_rows(
    problem: SmoothingProblem, h: float, p: float, log_weight: LogWeight = None
) -> Tensor:
    """The same with Tin's ratio ``r + (s_ac/c̄² − r·s_cc/c̄²)/m``, unbiased to O(1/m²), (n, S)."""
    x, z, y = problem
    M = moments(x, y, h, log_weight)
    r = M.ratio()
    s_ac, s_cc = M.relative_covariances()
    r = r + (s_ac - r * s_cc) / (len(r) - 1)
    return power(r - z[:, None], p).sum(dim=2)


def residual_rows(problem: SmoothingProblem, h: float, log_weight: LogWeight = None) -> Tensor:
    """S2: the product of two neighbours' residuals e = y − z, summed over classes, shape (n, S)."""
    return moments(problem.x, problem.residuals, h, log_weight).pairs().sum(dim=2)


def second_order_rows(problem: SmoothingProblem, h: float, log_weight: LogWeight = None) -> Tensor:
    """``2·S1 − S2`` with S1 = e_j·(Se)_j, shape (n, S)."""
    e = problem.residuals
    M = moments(problem.x, e, h, log_weight)
    return (2 * e * M.ratio() - M.pairs()).sum(dim=2)


def sharpness_rows(
    problem: SmoothingProblem, h: float, log_weight: LogWeight = None, corrected: bool = False
) -> Tensor:
    """``Σ_c E[y_c|f]²`` as a ratio ρ of U-statistics (P2 eq. 7), shape (n, S).

    `corrected`: ρ·[1 + (4/m)(s_ac/(ā c̄) − s_cc/c̄²)].
    """
    M = moments(problem.x, problem.y, h, log_weight)
    rho = M.pairs()
    if corrected:
        # ā = r·c̄
        r = M.ratio()
        s_ac, s_cc = M.relative_covariances()
        relative = torch.where(r > 0, s_ac / torch.where(r > 0, r, 1.0), 0.0) - s_cc
        rho = rho * (1 + 4 / (len(r) - 1) * relative)
    return rho.sum(dim=2)


def power(a: Tensor, p: float) -> Tensor:
    """|a|^p, with a gradient at 0."""
    if p == 2:
        return a * a
    a = a.abs()
    if p == 1:
        return a
    return a.clamp(min=1e-300) ** p


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


@torch.no_grad()
def cross_validation_errors(
    problem: SmoothingProblem, hs: Sequence[float], log_weight: LogWeight = None
) -> list[float]:
    """Mean of ‖e_j − (Se)_j‖², each row left out for itself, for each bandwidth; e = y − z."""
    x = problem.x
    e = problem.residuals.flatten(1)
    w = torch.ones_like(x[:, 0]) if log_weight is None else log_weight.exp()
    errors = [(e - smooth(x, e, h, log_weight)).square().sum(dim=1) for h in hs]
    return [float(w @ error / w.sum()) for error in errors]


def best_bandwidth(cost: Callable[[Floats], ArrayLike]) -> float:
    """Minimum of a cost over [1e-5, 1] in ten evaluations.

    They are at decades, then within the bracket. A parabola in log h gives the result.
    """
    t = np.linspace(-5.0, 0.0, 6)
    f = np.asarray(cost(10**t))
    bracket = t[max(np.argmin(f) - 1, 0) : np.argmin(f) + 2]
    # Four points between the two or three of the bracket.
    inner = np.linspace(bracket[0], bracket[-1], 4 + len(bracket))
    inner = np.setdiff1d(np.round(inner, 12), t)
    t = np.append(t, inner)
    f = np.append(f, cost(10**inner))
    order = np.argsort(t)
    t = t[order]
    f = f[order]
    i = int(np.argmin(f))
    if 0 < i < len(t) - 1:
        a, b, c = t[i - 1 : i + 2]
        fa, fb, fc = f[i - 1 : i + 2]
        below = (b - a) * (fb - fc)
        above = (b - c) * (fb - fa)
        if below < above:
            b -= 0.5 * ((b - a) * below - (b - c) * above) / (below - above)
            return float(10**b)
    return float(10 ** t[i])
