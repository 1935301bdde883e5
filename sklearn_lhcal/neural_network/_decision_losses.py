"""Losses for decisions under a known cost matrix: bounds of the risk with gradients (P4 §4.3).

Letters: C the costs over their largest value (K, D), f = zC the expected costs of the decisions (n,
D), c = μ̂C their costs under the sample's labels (n, D). min^β x = −(1/β) log Σ exp(−βx); for β =
None it is the hard minimum.
"""

from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from .._utils.checks import checked
from .._utils.costs import check_cost_matrix
from .._utils.types import ArrayLike
from ._losses import _MeanOverRows, frequencies


def smooth_min(x: Tensor, beta: float | None) -> Tensor:
    """min^β over the last axis."""
    if beta is None:
        return x.min(dim=-1).values
    return -torch.logsumexp(-beta * x, dim=-1) / beta


class _DecisionLoss(_MeanOverRows):
    """Mean over samples of a bound of the cost of the sample's decision; a subclass says which."""

    costs: Tensor
    _bound: Callable[[Tensor, Tensor], Tensor]

    @checked
    def __init__(self, cost_matrix: ArrayLike, lam: float = 1.0, beta: float | None = None) -> None:
        super().__init__()
        self.cost_matrix = cost_matrix
        self.lam = lam
        self.beta = beta
        C = check_cost_matrix(cost_matrix).C
        # between 0 and 1: of each class less its least below 0, over the largest of all
        C = C - np.minimum(C.min(axis=1, keepdims=True), 0.0)
        if C.max() == 0:
            raise ValueError("cost_matrix has equal costs for all decisions: nothing is to decide.")
        self.register_buffer("costs", torch.as_tensor(C / C.max()), persistent=False)

    def row_loss(self, logits: Tensor, counts: Tensor) -> Tensor:
        """The loss of each sample, shape (n,)."""
        K = logits.shape[-1]
        if len(self.costs) != K:
            raise ValueError(
                f"cost_matrix has {len(self.costs)} classes, but there are {K} logits."
            )
        z = torch.softmax(logits.double(), dim=-1)
        return self.of_probabilities(z, frequencies(counts, z.dtype)).to(logits.dtype)

    def of_probabilities(self, z: Tensor, mu: Tensor) -> Tensor:
        """The loss of each sample, shape (..., n), from probabilities and frequencies of labels."""
        # smooth minima are nearly equal: their difference needs the digits of float64
        C = self.costs.double()
        return self._bound(z @ C, mu @ C)


class DirectLoss(_DecisionLoss):
    """Direct loss: a bound of the mean cost of a model's decisions, from below or above.

    ``L± = ±(1/λ)·(min_d f(d) − min_d [f(d) ∓ λ c(d)])`` (P4 eq. 18), the mean over samples. f holds
    the expected costs of the decisions under the model, and c their costs under the sample's
    labels, both over the largest cost. Its gradient is that of direct loss minimisation.

    With the hard minimum L⁻ bounds the cost of the sample's decision from below, and L⁺ from above.
    With β both bound the mean cost of decisions drawn with probabilities proportional to exp(−βf).
    For a sample with several labels c is the mean cost: a tighter bound than the mean of the
    labels' losses.

    The unit of cost does not matter. In P4 it does: there λ is divided by the largest cost, and not
    the costs, so that β depends on it.

    Parameters
    ----------
    cost_matrix : array-like of shape (n_classes, n_decisions)
        Cost of each decision under each class. A class with negative costs is shifted to least cost
        0; that shifts its losses by a constant.
    lam : float, default=1.0
        The λ, above 0, in units of the largest cost. The smaller it is, the tighter is the bound,
        and the flatter almost everywhere.
    beta : float or None, default=None
        β of the smooth minimum, per largest cost. None: the hard minimum.
    bound : {"upper", "lower"}, default="upper"
        L⁺, or L⁻, whose gradient is that of P4 eq. (17).

    References
    ----------
    P4 §4.3, eq. (17) and (18); Song, Schwing, Zemel and Urtasun (2016), Training deep neural
    networks via direct loss minimization; Vlastelica et al. (2019), Differentiation of blackbox
    combinatorial solvers.

    Examples
    --------
    >>> import torch
    >>> loss = DirectLoss([[0.0, 1.0], [4.0, 0.0]], lam=0.5)
    >>> # decides for 1, at cost .25 of the largest
    >>> loss(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
    tensor(0.2500)
    """

    @checked
    def __init__(
        self,
        cost_matrix: ArrayLike,
        lam: float = 1.0,
        beta: float | None = None,
        bound: Literal["upper", "lower"] = "upper",
    ) -> None:
        super().__init__(cost_matrix, lam, beta)
        self.bound = bound

    def _bound(self, f, c):
        """L± of each sample (P4 eq. 18), from f and c of shape (..., n, D); L− has −λ."""
        lam = self.lam if self.bound == "upper" else -self.lam
        return (smooth_min(f, self.beta) - smooth_min(f - lam * c, self.beta)) / lam


class MarginRescalingLoss(_DecisionLoss):
    """Margin rescaling: an upper bound of the mean cost of a model's decisions.

    ``L^MR = (1/λ)·(f(d*) − min_d [f(d) − λ c(d)])`` (P4 eq. 19), where d* is the best decision for
    the sample's labels. It is convex in the expected costs f. All else is as in `DirectLoss`: its
    upper bound is never larger than this one, and equal where the decision is the best.

    Parameters
    ----------
    cost_matrix, lam, beta
        As in `DirectLoss`.

    References
    ----------
    P4 §4.3, eq. (19); Tsochantaridis, Joachims, Hofmann and Altun (2005), Large margin methods for
    structured and interdependent output variables.

    Examples
    --------
    >>> import torch
    >>> loss = MarginRescalingLoss([[0.0, 1.0], [4.0, 0.0]], lam=0.5)
    >>> loss(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
    tensor(1.)
    """

    def _bound(self, f, c):
        """L^MR of each sample, eq. (19); d* is the best decision for the sample's labels."""
        best = c.argmin(dim=-1, keepdim=True).expand(*f.shape[:-1], 1)
        return (f.gather(-1, best)[..., 0] - smooth_min(f - self.lam * c, self.beta)) / self.lam
