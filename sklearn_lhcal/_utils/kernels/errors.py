"""Calibration errors by Dirichlet and Beta kernels, row by sample; metrics and losses share them.

z are predictions (n, C) and y observed frequencies (n, S, C) in S versions, of which a metric has
one and its null distribution many; h is the bandwidth. All functions but the bandwidths can be
differentiated. P2 is Popordanoska, Sayer and Blaschko (2022).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..types import Floats
from . import smoothing
from .smoothing import Groups, LogWeight, Moments, clipped


class SmoothingProblem(NamedTuple):
    """Points x (n, d) to smooth over, predictions z (n, C) there and frequencies y (n, S, C).

    Samples have log-weights v (n,), or weigh the same. A sample is left out of its own smooth, or
    all samples of its group g (n,).
    """

    x: Tensor
    z: Tensor
    y: Tensor
    v: LogWeight = None
    g: Groups = None

    @property
    def residuals(self) -> Tensor:
        """e = y − z, shape (n, S, C)."""
        return self.y - self.z[:, None]

    def smooth(self, e: Tensor, h: float) -> Tensor:
        """The smooth of targets e (n, ...) at the samples, in the shape of e."""
        return smoothing.smooth(self.x, e, h, self.v, self.g)

    def moments(self, e: Tensor, h: float) -> Moments:
        """The sums that U-statistics over pairs of neighbours are made of."""
        return smoothing.moments(self.x, e, h, self.v, self.g)

    def log_likelihoods(self, hs: Sequence[float] | Floats) -> list[float]:
        """The mean over samples of the log density of the others, for each bandwidth."""
        return smoothing.log_likelihoods(self.x, hs, self.g)


def problems(
    kind: str, z: Tensor, y: Tensor, v: LogWeight = None, g: Groups = None
) -> Iterator[SmoothingProblem]:
    """The problems over which the calibration error of a kind sums; z (n, K), y (n, S, K)."""
    if kind == "canonical":
        yield SmoothingProblem(clipped(z), z, y, v, g)
    elif kind == "marginal":
        for k in range(z.shape[1]):
            yield _binary(z[:, k : k + 1], y[:, :, k : k + 1], v, g)
    else:
        yield _binary(z.max(dim=1, keepdim=True).values, y @ top_share(z)[:, :, None], v, g)


def top_share(z: Tensor) -> Tensor:
    """The share of each class in the top label, shape (n, K): ties share it evenly."""
    top = (z == z.max(dim=1, keepdim=True).values).to(z.dtype)
    return top / top.sum(dim=1, keepdim=True)


def _binary(z: Tensor, y: Tensor, v: LogWeight, g: Groups) -> SmoothingProblem:
    return SmoothingProblem(clipped(torch.cat([z, 1 - z], dim=1)), z, y, v, g)


def plugin_rows(problem: SmoothingProblem, h: float, p: float) -> Tensor:
    """``Σ_c |r_jc − z_jc|^p`` with r the smooth of y (P2 eq. 9), shape (n, S)."""
    r = problem.smooth(problem.y, h)
    return power(r - problem.z[:, None], p).sum(dim=2)


def ratio_corrected_rows(problem: SmoothingProblem, h: float, p: float) -> Tensor:
    """The same with Tin's ratio ``r + (s_ac/c̄² − r·s_cc/c̄²)/m``, unbiased to O(1/m²), (n, S)."""
    M = problem.moments(problem.y, h)
    r = M.ratio()
    s_ac, s_cc = M.relative_covariances()
    r = r + (s_ac - r * s_cc) / M.m
    return power(r - problem.z[:, None], p).sum(dim=2)


def residual_rows(problem: SmoothingProblem, h: float) -> Tensor:
    """S2: the product of two neighbours' residuals e = y − z, summed over classes, shape (n, S)."""
    return problem.moments(problem.residuals, h).pairs().sum(dim=2)


def second_order_rows(problem: SmoothingProblem, h: float) -> Tensor:
    """``2·S1 − S2`` with S1 = e_j·(Se)_j, shape (n, S)."""
    e = problem.residuals
    M = problem.moments(e, h)
    return (2 * e * M.ratio() - M.pairs()).sum(dim=2)


def sharpness_rows(problem: SmoothingProblem, h: float, corrected: bool = False) -> Tensor:
    """``Σ_c E[y_c|f]²`` as a ratio ρ of U-statistics (P2 eq. 7), shape (n, S).

    `corrected`: ρ·[1 + (4/m)(s_ac/(ā c̄) − s_cc/c̄²)].
    """
    M = problem.moments(problem.y, h)
    rho = M.pairs()
    if corrected:
        # ā = r·c̄
        r = M.ratio()
        s_ac, s_cc = M.relative_covariances()
        relative = torch.where(r > 0, s_ac / torch.where(r > 0, r, 1.0), 0.0) - s_cc
        rho = rho * (1 + 4 / M.m * relative)
    return rho.sum(dim=2)


def power(a: Tensor, p: float) -> Tensor:
    """|a|^p, with a gradient at 0."""
    return a.abs().clamp(min=1e-300) ** p


@torch.no_grad()
def cross_validation_errors(
    problem: SmoothingProblem, hs: Sequence[float], of_residuals: bool
) -> list[float]:
    """Mean of ‖e_j − (Se)_j‖², each sample or group left out for itself, for each bandwidth.

    Else than of residuals e it is of frequencies y.
    """
    e = (problem.residuals if of_residuals else problem.y).flatten(1)
    w = torch.ones_like(e[:, 0]) if problem.v is None else problem.v.exp()
    errors = [(e - problem.smooth(e, h)).square().sum(dim=1) for h in hs]
    return [float(w @ error / w.sum()) for error in errors]


def best_bandwidth(cost: Callable[[Floats], Floats], start: float | None = None) -> float:
    """Minimum of a cost over [1e-5, 1]: of three values a decade, then of a parabola in log h.

    With a start it is the minimum that lies downhill from there, of few values.
    """
    t = np.linspace(-5.0, 0.0, 16)
    f: dict[int, float] = {}
    near = range(16) if start is None else [int(np.abs(t - np.log10(start)).argmin())]
    while new := [i for i in near if i not in f]:
        f.update(zip(new, cost(10 ** t[new]), strict=True))
        i = min(near, key=f.__getitem__)
        near = range(max(i - 1, 0), min(i + 2, 16))
    if 0 < i < len(t) - 1:
        below = f[i - 1] - f[i]
        above = f[i + 1] - f[i]
        if below + above > 0:
            return float(10 ** (t[i] + 0.5 * (t[1] - t[0]) * (below - above) / (below + above)))
    return float(10 ** t[i])
