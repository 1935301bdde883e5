"""The affine maps of logits for torch: what Adam trains, and L-BFGS around an ensemble."""

import numpy as np
import torch
from torch import Tensor, nn

from .._ground.arrays import Floats
from ._affine import AffineMap, transform
from ._prior import Prior
from ._start import FLOOR_PRIOR

Array = Floats


class AffineModule(nn.Module):
    """The same map for torch, with its floor and its penalty.

    From logits (n, K), or (n, S, K) with log-weights (n, S), to log-probabilities (n, K).

    Parameters
    ----------
    family : AffineMap
    x : ndarray of shape (p,) or, with a floor, (p + 1,)
        Where training starts; the last entry of p + 1 is logit e.
    floor : ndarray of shape (K,) or None
        π of z = (1−e) softmax(u') + e π.
    penalty : callable
        Of x as a tensor: what the training loop adds to the loss.
    """

    def __init__(self, family: AffineMap, x: Array, floor=None, penalty=None):
        super().__init__()
        self.family = family
        self.floor = floor
        self.added = penalty
        self.x = nn.Parameter(torch.as_tensor(np.array(x)))

    def forward(self, logits: Tensor, log_weights: Tensor | None = None) -> Tensor:
        size = len(self.family.start())
        W, b = self.family.affine(self.x[:size], torch)
        log_z = torch.log_softmax(transform(logits, W, b), dim=-1)
        if log_weights is not None:
            log_z = torch.logsumexp(log_z + log_weights[..., None], dim=1)
        if self.floor is None:
            return log_z
        eta = self.x[-1]
        log_pi = torch.log(torch.as_tensor(self.floor, device=eta.device))
        rest = nn.functional.logsigmoid(-eta) + log_z
        return torch.logaddexp(rest, nn.functional.logsigmoid(eta) + log_pi)

    def penalty(self):
        """What the training loop adds to the loss."""
        if self.added is None:
            return 0.0
        return self.added(self.x)


def prior_loss(prior: Prior, n_rows: float, floor, x: Tensor) -> Tensor:
    """The prior of x, and of the floor's weight, in nats of a row."""
    theta = x[: len(prior.center)]
    precision = torch.as_tensor(prior.precision / n_rows, device=x.device)
    center = torch.as_tensor(prior.center, device=x.device)
    value = 0.5 * (precision * (theta - center) ** 2).sum()
    if floor is None:
        return value
    eta = x[-1]
    both = nn.functional.logsigmoid(eta) + nn.functional.logsigmoid(-eta)
    return value - FLOOR_PRIOR / n_rows * both
