"""Mini-batches without bias: a sample keeps its share in the loss, in whatever batch it is.

How weights are scaled is private: that the mean over all batches is the whole is seen by
enumeration.
"""

from itertools import combinations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar

from sklearn_lhcal.metrics import label_log_loss
from sklearn_lhcal.neural_network import (
    DirichletMultinomialLoss,
    LabelLogLoss,
    NeuralClassifier,
    PairwiseLoss,
)
from sklearn_lhcal.neural_network._training import batch_loss, scaled_weight


@pytest.mark.parametrize(
    "loss", [LabelLogLoss(), PairwiseLoss(0.1), DirichletMultinomialLoss(0.1)], ids=repr
)
def test_gradients_of_batches_are_unbiased(loss):
    """Over all batches of 3 of 7 rows their mean is the gradient of all samples, P1 eq. (82).

    That of naive batches is not.
    """
    rng = np.random.default_rng(0)
    counts = torch.as_tensor(
        [[9, 1, 0], [1, 0, 0], [0, 2, 1], [0, 0, 1], [0, 30, 5], [1, 1, 0], [2, 0, 0]]
    )
    u, w = torch.as_tensor(rng.normal(size=(7, 3))), torch.as_tensor(rng.uniform(0.1, 3, 7))
    beta = torch.ones((), dtype=torch.float64, requires_grad=True)

    def gradient(f, rows, weight):
        rows = list(rows)
        prediction = beta * u[rows]
        if not isinstance(loss, LabelLogLoss):
            prediction = prediction, beta * u[rows, 0]
        return torch.autograd.grad(f(prediction, counts[rows], weight[rows]), beta)[0].item()

    scaled = scaled_weight(loss, counts, w)
    batches = list(combinations(range(7), 3))
    ours = np.mean(
        [gradient(lambda *batch: batch_loss(loss, *batch), rows, scaled) for rows in batches]
    )
    naive = np.mean([gradient(loss, rows, w) for rows in batches])
    whole = gradient(loss, range(7), w)
    assert_allclose(ours, whole, rtol=1e-12)
    assert abs(naive - whole) > 0.002 * abs(whole)


class LogTemperature(torch.nn.Module):
    """log T, the simplest map."""

    def __init__(self):
        super().__init__()
        self.x = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def forward(self, logits):
        return logits / self.x.exp()


class Plain(torch.nn.Module):
    """Divides each batch by its own labels: that there is a total is not said."""

    def forward(self, *batch):
        return LabelLogLoss()(*batch)


@pytest.mark.slow
def test_few_rows_with_many_labels_keep_their_share():
    """Where 5 of 500 rows hold half of the labels.

    Batches that divide by their own labels end far away.
    """
    rng = np.random.default_rng(0)
    n = np.where(np.arange(500) < 5, 100, 1)
    u = 2 * rng.normal(size=(500, 2))
    slope = np.where(
        np.arange(500) < 5, -0.5, 1.5
    )  # the samples with many labels contradict the others
    votes = rng.binomial(n, 1 / (1 + np.exp(-slope * (u[:, 1] - u[:, 0]))))
    counts = np.column_stack([n - votes, votes])

    def loss(t):
        p = 1 / (1 + np.exp((u[:, 0] - u[:, 1]) / np.exp(t)))
        return label_log_loss(counts, np.column_stack([1 - p, p]))

    best = minimize_scalar(loss, bounds=(-3, 3)).x

    def error(loss):
        net = NeuralClassifier(
            LogTemperature, loss=loss, lr=0.003, batch_size=16, max_epochs=100, random_state=0
        )
        return abs(net.fit(u, counts).module_.x.item() - best)

    assert error(LabelLogLoss()) < 0.1
    assert error(Plain()) > 0.3
