"""Arrays by what they hold, for signatures; and blocks of their samples."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]

# samples, and values, whose temporary arrays stay in the processor's cache
_ROWS = 8192
_VALUES = 2**17
# numbers per array while draws are used together
_DRAWS = 2**21


def row_blocks(n: int, n_columns: int) -> Iterator[slice]:
    """Blocks of n rows of so many columns, small enough for their temporary arrays."""
    step = min(_ROWS, max(_VALUES // max(n_columns, 1), 1))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def in_blocks(of_rows: Callable[[slice], NDArray], n: int, n_columns: int) -> Floats:
    """``of_rows(rows)``, one value or more a sample, of such blocks of samples, joined."""
    return np.concatenate([of_rows(rows) for rows in row_blocks(n, n_columns)])


def in_batches(draw: Callable, size: int, n_draws: int, generator, most: int = _DRAWS) -> Iterator:
    """``draw(generator, S)``, S draws of `size` numbers each: all draws, some at a time."""
    batch = max(most // size, 1)
    return (draw(generator, min(batch, n_draws - at)) for at in range(0, n_draws, batch))


def row_units(groups: NDArray | None, n: int) -> Indices:
    """The number of the unit of each of n rows, from 0 on: its group, or itself without groups."""
    if groups is None:
        return np.arange(n)
    return np.unique(groups, return_inverse=True)[1]
