"""The likelihood of α0 around ensembles: a mixture over members, whose slope torch gives."""

from collections.abc import Callable

import numpy as np
import torch

from .._utils.arrays import Floats
from ..neural_network import DirichletMultinomialLoss, PairwiseLoss
from ._alpha_likelihood import dirichlet_multinomial, pairwise
from ._rows import CalibrationRows

_LOSSES = {dirichlet_multinomial: DirichletMultinomialLoss, pairwise: PairwiseLoss}


def ensemble_terms(rows: CalibrationRows, h: Floats, objective) -> Callable[[Floats], tuple]:
    """Value and gradient of the mean sample loss in x = (w, c)."""
    losses = _losses(rows, objective)
    w = torch.as_tensor(rows.weight / rows.weight.sum())
    features = torch.as_tensor(h)

    def terms(x):
        at = torch.tensor(x, requires_grad=True)
        value = w @ losses(features @ at[:-1] + at[-1])
        (slope,) = torch.autograd.grad(value, at)
        return value.item(), slope.numpy()

    return terms


def ensemble_losses(rows: CalibrationRows, log_total: Floats, objective) -> Floats:
    """The loss of each sample, shape (n,)."""
    return _losses(rows, objective)(torch.as_tensor(log_total)).numpy()


def _losses(rows: CalibrationRows, objective):
    loss = _LOSSES[objective.likelihood](objective.penalty)
    arrays = rows.log_proba, objective.labels(rows), rows.log_weights
    log_z, counts, log_w = (torch.as_tensor(np.ascontiguousarray(a)) for a in arrays)
    return lambda log_total: loss.row_loss(log_z, log_total, counts, log_w)
