"""log α0 of ensembles and behind hidden layers: what needs torch."""

from itertools import pairwise as neighbours

import numpy as np
import torch
from torch import Tensor, nn

from .._utils.arrays import Floats
from .._utils.devices import on_cpu, seeded
from .._utils.problems import Problem, Solver
from .._utils.solvers import LBFGS
from ..neural_network import Adam, DirichletMultinomialLoss, PairwiseLoss
from ..neural_network._solvers import TorchProblem
from ._alpha_likelihood import dirichlet_multinomial, pairwise
from ._rows import CalibrationRows

_LOSSES = {dirichlet_multinomial: DirichletMultinomialLoss, pairwise: PairwiseLoss}


class AlphaProblem(TorchProblem):
    """The mean sample loss in (w, c) and in the weights of hidden layers."""

    def __init__(self, rows: CalibrationRows, h, objective):
        sizes = objective.hidden
        with seeded(objective.random_state):
            module = LogTotal(h.shape[-1], sizes)
        loss = _LOSSES[objective.likelihood](objective.penalty)
        inputs = {"logits": rows.log_proba, "features": h, "log_weights": rows.log_weights}
        super().__init__(module, loss, inputs, objective.labels(rows), rows.weight)
        self.module = module
        # The optimum of hidden layers overfits.
        early = Adam(learning_rate=0.01, max_epochs=1000)
        self.default_solver: Solver = early if len(sizes) else LBFGS()

    def hessian(self, x):
        """Refused: many weights, or a mixture that is not convex."""
        return Problem.hessian(self, x)

    def solution(self, x: Floats) -> tuple[nn.Module | None, Floats, float]:
        """Hidden layers or None, w and c."""
        module = self.module
        with torch.no_grad():
            nn.utils.vector_to_parameters(torch.as_tensor(x), module.parameters())
        hidden = module.hidden if len(module.hidden) else None
        return hidden, module.weight.detach().numpy().copy(), module.bias.item()


def ensemble_losses(rows: CalibrationRows, log_total: Floats, objective) -> Floats:
    """The loss of each sample, shape (n,)."""
    loss = _LOSSES[objective.likelihood](objective.penalty)
    inputs = rows.log_proba, log_total, objective.labels(rows), rows.log_weights
    return loss.row_loss(*(torch.as_tensor(np.ascontiguousarray(a)) for a in inputs)).numpy()


def of_hidden(module: nn.Module, h: Floats) -> Floats:
    """What hidden layers make of features."""
    with torch.no_grad(), on_cpu():
        return module(torch.as_tensor(h)).numpy()


class LogTotal(nn.Module):
    """log α0 = w·h + c for torch; hands logits and log-weights through to the loss.

    It starts at α0 = 1: w and c are 0, behind hidden layers too.
    """

    def __init__(self, n_features: int, hidden_layer_sizes=()):
        super().__init__()
        sizes = [n_features, *hidden_layer_sizes]
        layers = [(nn.Linear(a, b, dtype=torch.float64), nn.Tanh()) for a, b in neighbours(sizes)]
        self.hidden = nn.Sequential(*(part for layer in layers for part in layer))
        self.weight = nn.Parameter(torch.zeros(sizes[-1], dtype=torch.float64))
        self.bias = nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(
        self, logits: Tensor, features: Tensor, log_weights: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        log_total = self.hidden(features) @ self.weight + self.bias
        if log_weights is None:
            return logits, log_total
        return logits, log_total, log_weights
