"""Arrays by what they hold, for signatures; and blocks of their rows."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Indices = NDArray[np.intp]

# rows, and values, whose temporary arrays stay in the processor's cache
_ROWS = 8192
_VALUES = 2**17


def row_blocks(n: int, n_columns: int) -> Iterator[slice]:
    """Blocks of n rows of so many columns, small enough for their temporary arrays."""
    step = min(_ROWS, max(_VALUES // max(n_columns, 1), 1))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))
