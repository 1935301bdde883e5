"""Metrics of arrays or frames of Dask, partition by partition."""

from copy import deepcopy
from functools import reduce

import dask
import numpy as np


@dask.delayed
def sums_of(empty, y, prediction, weight=None):
    return deepcopy(empty).update(y, prediction, sample_weight=weight)


def accumulate(empty, *parts):
    """An accumulator that has seen every partition of y, prediction and perhaps weights."""
    blocks = (np.array(part.to_delayed(), object).ravel() for part in parts)
    sums = dask.compute(*(sums_of(empty, *rows) for rows in zip(*blocks, strict=True)))
    return reduce(type(empty).merge, sums, deepcopy(empty))
