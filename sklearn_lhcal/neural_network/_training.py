"""How batches meet a loss: scaled weights, early stopping and the samples that it holds out."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from skorch.callbacks import EarlyStopping
from torch import Tensor

from ..model_selection import StratifiedVotesKFold


@runtime_checkable
class SizedLoss(Protocol):
    """A loss that says what it divides: its mean is ``total / size``.

    Any other loss is taken as a weighted mean over samples.
    """

    def total(self, prediction: Any, counts: Tensor, weight: Tensor) -> Tensor:
        """The sum over samples, or over labels."""
        ...

    def size(self, counts: Tensor, weight: Tensor) -> Tensor:
        """The weight of these samples, or of these labels."""
        ...


def early_stopping(patience: int) -> EarlyStopping:
    """skorch's callback: stop after so many epochs without a new minimum, and go back to it."""
    return EarlyStopping(patience=patience, threshold=0, load_best=True, sink=_silent)


def _silent(*_):
    """Early stopping is told by the history, not on the screen."""


def scaled_weight(loss, counts: Tensor, weight: Tensor) -> Tensor:
    """Weights times a number: the size of the loss of all n samples becomes n, or their mean 1."""
    weight = weight / weight.max().clamp(min=torch.finfo(weight.dtype).tiny)
    size = weight.sum()
    if isinstance(loss, SizedLoss):
        size = loss.size(counts, weight)
    return weight * (len(weight) / size.clamp(min=1e-30))


def batch_loss(loss, prediction, counts: Tensor, weight: Tensor) -> Tensor:
    """The part that a batch, with scaled weights, has in the loss of all samples.

    Its mean over random batches is that loss.
    """
    if isinstance(loss, SizedLoss):
        return loss.total(prediction, counts, weight) / len(counts)
    return loss(prediction, counts, weight)


def stratified_fifth(n: int, counts) -> tuple[NDArray, NDArray]:
    """Four fifths of n samples and the rest, by torch's generator.

    Stratified by majority label where counts are known.
    """
    votes = np.zeros(n, dtype=int) if counts is None else np.asarray(counts).argmax(axis=1)
    splitter = StratifiedVotesKFold(5, shuffle=True, random_state=int(torch.randint(2**31 - 1, ())))
    return next(splitter.split(None, votes))
