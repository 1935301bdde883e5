"""Metrics of data in partitions, by Dask: each partition is summed where it lies.

Needs the extra `dask`.
"""

from copy import deepcopy
from typing import Any, Protocol, TypeVar, overload

import numpy as np

from .metrics import LabelHistogramAccumulator, MetricAccumulator

__all__ = ["accumulate"]


class Partitions(Protocol):
    """An array, a dataframe or a series of Dask."""

    def to_delayed(self) -> Any:
        """One delayed object a partition."""


Accumulator = TypeVar("Accumulator", LabelHistogramAccumulator, MetricAccumulator)


@overload
def accumulate(
    y: Partitions,
    prediction: Partitions,
    *,
    sample_weight: Partitions | None = ...,
    groups: Partitions | None = ...,
    accumulator: None = ...,
    split_every: int = ...,
) -> LabelHistogramAccumulator: ...


@overload
def accumulate(
    y: Partitions,
    prediction: Partitions,
    *,
    sample_weight: Partitions | None = ...,
    groups: Partitions | None = ...,
    accumulator: Accumulator,
    split_every: int = ...,
) -> Accumulator: ...


def accumulate(
    y: Partitions,
    prediction: Partitions,
    *,
    sample_weight: Partitions | None = None,
    groups: Partitions | None = None,
    accumulator: LabelHistogramAccumulator | MetricAccumulator | None = None,
    split_every: int = 8,
) -> LabelHistogramAccumulator | MetricAccumulator:
    """An accumulator that has seen all partitions, by tree reduction.

    Each partition is read and summed by one task; what travels between workers are the sums over
    bins. The result does not depend on the partitions, up to rounding.

    Parameters
    ----------
    y : dask array or dataframe of shape (n_samples, n_classes)
        Counts. The columns of a dataframe name the classes.
    prediction : dask array or dataframe of shape (n_samples, n_classes)
        Class probabilities, in the same partitions of rows.
    sample_weight : dask array or series of shape (n_samples,), optional
        Weights, in the same partitions.
    groups : dask array or series of shape (n_samples,), optional
        Groups of rows that may depend on each other, in the same partitions. A group may have rows
        in several.
    accumulator : LabelHistogramAccumulator or MetricAccumulator, optional
        An empty one that says what is summed; it stays empty. None: a LabelHistogramAccumulator.
    split_every : int, default=8
        How many sums a task merges.

    Returns
    -------
    LabelHistogramAccumulator or MetricAccumulator
        Its `result` is the `sklearn_lhcal.metrics.loss_decomposition` of all rows, or the metric
        and its interval.

    Raises
    ------
    ImportError
        Without Dask: ``pip install 'sklearn-lhcal[dask]'``.
    ValueError
        Partitions that differ in number, columns that are split, fewer than 2 in `split_every`;
        what an accumulator refuses.

    Notes
    -----
    Rows, or groups of them, are taken as independent. Work is done by whatever scheduler Dask has
    been given: threads, processes, or a cluster.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(1000, random_state=0)
    >>> y, proba = da.from_array(data.counts, chunks=(300, -1)), data.prediction
    >>> accumulate(y, da.from_array(proba, chunks=(300, -1))).result().n_rows
    1000
    """
    try:
        from dask.base import compute
        from dask.delayed import delayed
    except ImportError as error:
        raise ImportError("accumulate needs Dask: pip install 'sklearn-lhcal[dask]'.") from error
    if split_every < 2:
        raise ValueError(f"split_every must be at least 2, got {split_every}.")
    empty: LabelHistogramAccumulator | MetricAccumulator = LabelHistogramAccumulator()
    if accumulator is not None:
        empty = accumulator
    given = {"y": y, "prediction": prediction}
    if sample_weight is not None:
        given["sample_weight"] = sample_weight
    if groups is not None:
        given["groups"] = groups
    parts = {name: _parts(a, name) for name, a in given.items()}
    sizes = {name: len(blocks) for name, blocks in parts.items()}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"There must be as many partitions of each; got {sizes}.")
    one, merge = delayed(_summed), delayed(_merged)
    level = [
        one(empty, **dict(zip(parts, blocks, strict=True)))
        for blocks in zip(*parts.values(), strict=True)
    ]
    while len(level) > 1:
        level = [merge(level[i : i + split_every]) for i in range(0, len(level), split_every)]
    return compute(level[0])[0]


def _parts(collection, name: str) -> list:
    """One delayed block of rows each."""
    if not hasattr(collection, "to_delayed"):
        raise ValueError(f"{name} must be a dask array or dataframe, got {type(collection)}.")
    blocks = np.asarray(collection.to_delayed(), dtype=object)
    if blocks.ndim == 2 and blocks.shape[1] > 1:
        raise ValueError(
            f"The columns of {name} are split into {blocks.shape[1]} chunks; bring them together "
            "by rechunk({1: -1})."
        )
    return blocks.ravel().tolist()


def _summed(empty, y, prediction, **others):
    """The sums of one partition."""
    return deepcopy(empty).update(y, prediction, **others)


def _merged(sums):
    """The sums of several; the first is changed, so it is a copy."""
    total = deepcopy(sums[0])
    for other in sums[1:]:
        total.merge(other)
    return total
