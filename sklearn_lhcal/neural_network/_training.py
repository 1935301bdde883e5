"""The one loop in which a torch module is trained: rows as tensors, batches, seeds and devices."""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from skorch import NeuralNet
from skorch.callbacks import EarlyStopping
from skorch.utils import to_tensor
from torch import Tensor, nn

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


@runtime_checkable
class PenalisedModule(Protocol):
    """A module whose parameters have a price of their own, which training adds to the loss."""

    def penalty(self) -> Tensor:
        """The price of the parameters as they are."""
        ...


def early_stopping(patience: int) -> EarlyStopping:
    """skorch's callback: stop after so many epochs without a new minimum, and go back to it."""
    return EarlyStopping(patience=patience, threshold=0, load_best=True, sink=_silent)


def _silent(*_):
    """Early stopping is told by the history, not on the screen."""


class _Net(NeuralNet):
    """skorch's loop, with targets of counts and weights, and a calibrator's penalty."""

    def get_loss(self, y_pred, y_true, X=None, training=False):
        counts, weight = to_tensor(y_true, device=self.device)
        return penalised_loss(self.module_, self.criterion_, y_pred, counts, weight)


class TensorRows(torch.utils.data.Dataset):
    """Inputs, counts and weights as float64 tensors.

    Weights are scaled so that the loss is its total over n samples. The mean over random batches of
    the total over the batch's samples is then the loss, whatever sizes the batches have.
    """

    def __init__(self, loss: nn.Module, inputs: dict, counts, weight=None):
        self.loss, self.counts = loss, _tensor(counts)
        self.inputs = {name: _tensor(a) for name, a in inputs.items() if a is not None}
        weight = torch.ones(len(self), dtype=torch.float64) if weight is None else _tensor(weight)
        self.weight = scaled_weight(loss, self.counts, weight)

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, rows):
        return {name: a[rows] for name, a in self.inputs.items()}, (
            self.counts[rows],
            self.weight[rows],
        )

    def part(self, rows) -> "TensorRows":
        """Some of the samples, with a scale of their own."""
        inputs, (counts, weight) = self[rows]
        return TensorRows(self.loss, inputs, counts, weight)


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


def penalised_loss(module, loss, prediction, counts: Tensor, weight: Tensor) -> Tensor:
    """The loss of a batch, with the penalty that a module may carry."""
    value = batch_loss(loss, prediction, counts, weight)
    if isinstance(module, PenalisedModule):
        return value + module.penalty()
    return value


class _Batches:
    """skorch's iterator by slices of tensors, for samples one by one are slow; −1: all at once."""

    def __init__(self, dataset, batch_size=-1, shuffle=False, **_):
        self.rows = dataset
        self.batch_size = len(dataset) if batch_size == -1 else batch_size
        self.shuffle = shuffle

    def __iter__(self) -> Iterator:
        order = torch.randperm(len(self.rows)) if self.shuffle else torch.arange(len(self.rows))
        for index in order.split(self.batch_size):
            yield self.rows[index]


def held_out(rows: TensorRows, y=None, **_) -> tuple[TensorRows, TensorRows]:
    """skorch's train_split: four fifths of the samples, and the rest."""
    first, rest = torch.randperm(len(rows)).tensor_split([-(-4 * len(rows) // 5)])
    return rows.part(first), rows.part(rest)


def stratified_fifth(n: int, counts) -> tuple[NDArray, NDArray]:
    """Four fifths of n samples and the rest, by torch's generator.

    Stratified by majority label where counts are known.
    """
    votes = np.zeros(n, dtype=int) if counts is None else np.asarray(counts).argmax(axis=1)
    splitter = StratifiedVotesKFold(5, shuffle=True, random_state=int(torch.randint(2**31 - 1, ())))
    return next(splitter.split(None, votes))


def train(
    module: nn.Module, loss: nn.Module, rows: TensorRows, options: dict, verbose: int
) -> NeuralNet:
    """Train a module in float64, in skorch's loop, which is returned with its history.

    `options` are skorch's; without them the loop takes one step on all samples.
    """
    quiet = {} if verbose else {"callbacks__print_log": None}
    options = {"batch_size": -1, "max_epochs": 1, "train_split": None, **quiet, **options}
    net = _Net(
        module.double(),
        criterion=loss,
        iterator_train=_Batches,
        iterator_train__shuffle=options["batch_size"] != -1,
        iterator_valid=_Batches,
        verbose=verbose,
        **options,
    )
    return net.fit(rows, None)


def _tensor(a: NDArray | Tensor) -> Tensor:
    if isinstance(a, Tensor):
        return a
    return torch.as_tensor(np.array(a, dtype=np.float64))
