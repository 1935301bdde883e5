"""Losses that stand in for the mean cost of decisions, which has no gradient.

Letters: z class probabilities, y label frequencies μ̂, C costs relative to the best decision of the
class, over the largest (K, D). Minimised are means over samples of the bounds of `DirectLoss` and
`MarginRescalingLoss` (P4 eq. 18 and 19), or, with w the weight of a sample, the sum over M bins, of
the most probable class k of each sample,

    ece      Σ_m |Σ_i w_i h_m(z_ik) (z_ik − y_ik)|

in which hats h_m take the place of bins with walls, which would leave no gradient.

A loss is called as ``loss(z, y, w)`` and has shape (B,), for the predictions of B transforms, of
shape (B, K, n), at y of shape (K, n) and w of shape (B, n), weights of each with sum 1. Rows are
the last axis, as a softmax over a short last axis is slow.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..._utils.types import Floats
from ...neural_network import DirectLoss, MarginRescalingLoss

# What a grid leaves out; rates are the first of Adam, in logits.
DEFAULTS = {"lam": (0.1,), "beta": (30.0,), "rate": (0.05, 0.2)}
# P4 Table B.1. Its row of λ is missing in the text at hand, which divides λ by the largest cost.
PAPER = {
    "lam": (0.1, 1.0, 10.0),
    "beta": (None, 1.0, 5.0, 10.0, 20.0, 30.0, 40.0),
    "rate": (1.0, 0.1, 0.01, 0.001),
}
_BINS = 15

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
Grid = Mapping[str, Sequence[float | None]] | Literal["paper"] | None


class Candidate(NamedTuple):
    """A loss, the first rate of the search for its minimum, and what users call both."""

    params: dict
    loss: Loss
    rate: float


def bound_loss(bound: DirectLoss | MarginRescalingLoss, z: Tensor, y: Tensor, w: Tensor) -> Tensor:
    """A bound of the mean cost (B,)."""
    return (w * bound.of_probabilities(z.mT, y.T)).sum(dim=-1)


def top_label_error(z: Tensor, y: Tensor, w: Tensor) -> Tensor:
    """ECE (B,): confidence less accuracy of the most probable class, absolute, in hat bins."""
    confidence, top = z.max(dim=-2)
    accuracy = y.gather(0, top)
    gap = w * (confidence - accuracy)
    position = confidence * (_BINS - 1)
    low = position.detach().floor().long().clamp(max=_BINS - 2)
    share = position - low
    of_bins = gap.new_zeros(len(gap), _BINS)
    of_bins = of_bins.scatter_add(-1, low, (1 - share) * gap)
    of_bins = of_bins.scatter_add(-1, low + 1, share * gap)
    return of_bins.abs().sum(dim=-1)


def module_loss(module: nn.Module, z: Tensor, y: Tensor, w: Tensor) -> Tensor:
    """A loss (B,) of the user's: it sees the samples of one transform, with weights of mean 1."""
    values = []
    for one, weight in zip(z, w, strict=True):
        kept = weight > 0
        log_z = torch.log(one.T[kept].clamp(min=1e-300))
        values.append(module(log_z, y.T[kept], weight[kept] * kept.sum()))
    return torch.stack(values)


# Bounds by name, and the pairs (λ/κ, βκ) that are tried without a grid.
BOUNDS: dict[str, tuple] = {
    "direct": (DirectLoss, [(0.03, 10.0), (0.03, 30.0), (0.3, 30.0)]),
    "margin": (MarginRescalingLoss, [(1.0, 30.0)]),
}
# What has proved worth trying.
AUTO = "direct"
CRITERIA = ["auto", "nll", "ece", *BOUNDS]


def candidates_of(
    criterion: str | nn.Module, C: Floats, kappa: float, grid: Grid
) -> list[Candidate]:
    """All losses of a criterion but "nll", at all rates; a β of None is infinite."""
    given: Any = PAPER
    if grid != "paper":
        given = DEFAULTS | dict(grid or {})
    name = criterion
    losses: list
    if isinstance(criterion, nn.Module):
        name = type(criterion).__name__
        losses = [({}, partial(module_loss, criterion))]
    elif criterion == "ece":
        losses = [({}, top_label_error)]
    else:
        bound, pairs = BOUNDS[criterion]
        chosen = [(lam * kappa, beta / kappa) for lam, beta in pairs]
        if grid is not None:
            chosen = list(product(given["lam"], given["beta"]))
        losses = [
            ({"lam": lam, "beta": beta}, partial(bound_loss, bound(C, lam, beta)))
            for lam, beta in chosen
        ]
    return [
        Candidate({"criterion": name} | params | {"rate": rate}, loss, rate)
        for rate in given["rate"]
        for params, loss in losses
    ]


def check_criterion(criterion) -> None:
    """Refuse what is neither a known word nor a torch module."""
    if not isinstance(criterion, nn.Module) and criterion not in CRITERIA:
        raise ValueError(
            f"criterion must be one of {CRITERIA} or a torch module, got {criterion!r}."
        )


def check_grid(grid, criterion) -> None:
    """Refuse other names, values that are no lists of positive numbers, and what is not used."""
    if grid is None or (isinstance(grid, str) and grid == "paper"):
        return
    if not isinstance(grid, Mapping) or not set(grid) <= set(DEFAULTS):
        raise ValueError(
            f'grid must be "paper", None or a dict with keys among {list(DEFAULTS)}, got {grid!r}.'
        )
    for name, values in grid.items():
        if np.ndim(values) != 1 or len(values) == 0 or not all(_fits(name, v) for v in values):
            raise ValueError(
                f"grid[{name!r}] must hold positive numbers, got {values!r}; give a list."
            )
    used = [] if criterion == "nll" else ["rate"]
    if criterion in ("auto", *BOUNDS):
        used = list(DEFAULTS)
    unused = [name for name in grid if name not in used]
    if unused:
        raise ValueError(
            f"grid has {unused}, which criterion={criterion!r} does not use; it uses {used}."
        )


def _fits(name: str, value) -> bool:
    """Whether it is positive, or a β of None."""
    if value is None:
        return name == "beta"
    return isinstance(value, (int, float, np.number)) and bool(value > 0)
