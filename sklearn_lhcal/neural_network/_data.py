"""Inputs of networks: what becomes an array, and arrays in batches."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from skorch.dataset import Dataset
from skorch.helper import SliceDict
from skorch.utils import to_tensor
from torch import Generator, Tensor, isfinite, zeros
from torch.utils.data import DataLoader, Subset, default_collate

from .._ground.checks import (
    as_floats,
    check_finite,
    check_samples,
    n_rows,
    plain_array,
    take_rows,
)


class ArrayRows(Dataset):
    """skorch's data set of arrays, X and a target or a tuple of targets.

    A DataLoader takes whole batches from it.
    """

    def __getitems__(self, rows):
        if self.y is None:
            y = zeros(len(rows))
        else:
            y = tuple(a[rows] for a in self.y) if isinstance(self.y, tuple) else self.y[rows]
        return to_tensor(take_rows(self.X, rows), device="cpu"), y


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
        iterator.collate_fn, iterator.generator = _as_it_is, Generator()
    return iterator


def _as_it_is(batch):
    return batch


def as_arrays(X):
    """Frames, lists and sparse matrices as arrays of native byte order; dicts by their parts.

    Tensors stay tensors, without their history. All numbers have to be finite.
    """
    if isinstance(X, Mapping):
        n_rows(X)
        return SliceDict(**{k: as_arrays(v) for k, v in X.items()})
    check_samples(X)
    if isinstance(X, Tensor):
        if X.is_floating_point() and not isfinite(X).all():
            row = int((~isfinite(X)).nonzero()[0, 0])
            raise ValueError(
                f"X contains NaN or infinite values (first in row {row}); drop or repair these "
                "rows."
            )
        return X.detach()
    a = plain_array(X.toarray() if hasattr(X, "toarray") else X, "X")
    a = as_floats(a, "X") if a.dtype == object else a.astype(a.dtype.newbyteorder("="), copy=False)
    if a.dtype.kind == "f":
        check_finite(a, "X")
    return a


def to_dtype(x, dtype):
    """Floating point tensors in a precision, others as they are; dicts and lists by their parts."""
    if isinstance(x, Mapping):
        return {k: to_dtype(v, dtype) for k, v in x.items()}
    if isinstance(x, list):
        return [to_dtype(v, dtype) for v in x]
    return x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x


@contextmanager
def refusal_named() -> Iterator[None]:
    """torch's words for another width or type of X; its own kinds of error, out of memory, stay."""
    try:
        yield
    except RuntimeError as error:
        if type(error) is not RuntimeError:
            raise
        raise ValueError(f"The module cannot take this X: {error}.") from error
