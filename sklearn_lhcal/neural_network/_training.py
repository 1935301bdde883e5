"""Inputs of networks in batches, and how these meet a loss: weights, early stopping."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from skorch.callbacks import EarlyStopping
from skorch.dataset import Dataset
from skorch.helper import SliceDict
from skorch.utils import noop, to_tensor
from torch import Generator, Tensor, finfo, float32, float64, isfinite, zeros
from torch.utils.data import DataLoader, Subset, default_collate

from .._utils.checks import check_finite, check_samples, n_rows, plain_array, take_rows
from .._utils.devices import on_cpu
from ..model_selection import StratifiedVotesKFold


class ArrayRows(Dataset):
    """skorch's data set of arrays, X and a target or a tuple of targets.

    A DataLoader takes whole batches from it.
    """

    def __getitems__(self, rows):
        if self.y is None:
            y = zeros(len(rows))
        elif isinstance(self.y, tuple):
            y = tuple(a[rows] for a in self.y)
        else:
            y = self.y[rows]
        # tensors stay where they are: what is on a GPU would come to the host and go back
        return to_tensor(take_rows(self.X, rows), device=None), y


def whole_batches(iterator):
    """A DataLoader of `ArrayRows` that takes a whole batch at a time.

    Its own collation takes several times as long as the training. It would also draw a seed for
    workers from torch's global generator, even for predictions.
    """
    rows = getattr(iterator, "dataset", None)
    while isinstance(rows, Subset):
        rows = rows.dataset
    if (
        isinstance(iterator, DataLoader)
        and isinstance(rows, ArrayRows)
        and iterator.collate_fn is default_collate
    ):
        iterator.collate_fn = _as_it_is
        iterator.generator = Generator()
    return iterator


class OnCPU:
    """A DataLoader whose random numbers are the CPU's, whatever torch's default device is."""

    def __init__(self, iterator):
        self.iterator = iterator

    def __iter__(self):
        with on_cpu():
            batches = iter(self.iterator)
        while True:
            # the module, outside, may rely on the default device
            with on_cpu():
                batch = next(batches, None)
            if batch is None:
                return
            yield batch


def _as_it_is(batch):
    return batch


def as_arrays(X):
    """Frames, lists and sparse matrices as arrays of native byte order; dicts by their parts.

    Tensors stay tensors, without their history. All numbers have to be finite.
    """
    # a sparse matrix may be a dict too
    if hasattr(X, "toarray"):
        X = X.toarray()
    if isinstance(X, Mapping):
        n_rows(X)
        return SliceDict(**{k: as_arrays(v) for k, v in X.items()})
    check_samples(X)
    if isinstance(X, Tensor):
        if X.is_floating_point() and not isfinite(X).all():
            row = int((~isfinite(X)).nonzero()[0, 0])
            raise ValueError(
                f"X contains NaN or infinite values (first in sample {row}); drop or repair these "
                "samples."
            )
        if X.dtype == float64 and X.numel():
            _check_range(*X.detach().aminmax())
        return X.detach()
    a = plain_array(X, "X")
    if a.dtype == object:
        a = _numbers(a)
    a = a.astype(a.dtype.newbyteorder("="), copy=False)
    if a.ndim > 1 and 0 in a.shape[1:]:
        raise ValueError(
            f"X has 0 feature(s) (shape={a.shape}) while a minimum of 1 is required; give it "
            "columns."
        )
    if a.dtype.kind == "f":
        check_finite(a, "X")
        _check_range(a.min(initial=0.0), a.max(initial=0.0))
    return a


def _check_range(low, high):
    """Refuse finite numbers that are infinite in the precision of networks."""
    if max(-float(low), float(high)) > finfo(float32).max:
        raise ValueError("X holds numbers beyond 3.4e38, which float32 cannot hold; scale it.")


def _numbers(objects):
    try:
        return objects.astype(float)
    except OverflowError:
        raise ValueError("X holds an integer too large for a float; scale it.") from None
    except (TypeError, ValueError) as error:
        raise type(error)(f"X must be numeric: {error}.") from None


def is_table(X, arrays) -> bool:
    """Whether the columns of X are features: a frame's, or a matrix' of floats.

    Integers may be tokens, of which one text has more than another.
    """
    if hasattr(X, "columns"):
        return True
    if isinstance(X, Mapping) or arrays.ndim != 2:
        return False
    if isinstance(arrays, Tensor):
        return arrays.is_floating_point()
    return arrays.dtype.kind == "f"


def converted(x, dtype, integers: bool = False):
    """Tensors of floats in a precision, or `integers` too; dicts and lists by their parts."""
    if isinstance(x, Mapping):
        return {k: converted(v, dtype, integers) for k, v in x.items()}
    if isinstance(x, list):
        return [converted(v, dtype, integers) for v in x]
    if isinstance(x, Tensor) and (integers or x.is_floating_point()):
        return x.to(dtype)
    return x


@runtime_checkable
class SizedLoss(Protocol):
    """A loss that says what it divides: its mean is ``total / size``.

    Any other loss is taken as a weighted mean over samples.
    """

    def total(self, prediction: Any, counts: Tensor, weight: Tensor) -> Tensor:
        """The sum over samples, or over labels."""

    def size(self, counts: Tensor, weight: Tensor) -> Tensor:
        """The weight of these samples, or of these labels."""


def early_stopping(patience: int) -> EarlyStopping:
    """skorch's callback: stop after so many epochs without a new minimum, and go back to it."""
    # it is told by the history, not on the screen
    return EarlyStopping(patience=patience, threshold=0, load_best=True, sink=noop)


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
    votes = np.zeros(n, dtype=int)
    if counts is not None:
        votes = np.asarray(counts).argmax(axis=1)
    seed = int(torch.randint(2**31 - 1, ()))
    splitter = StratifiedVotesKFold(5, shuffle=True, random_state=seed)
    return next(splitter.split(None, votes))
