"""Counts from single annotations, a matrix with gaps or a long table."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._ground.arrays import Integers
from .._ground.checks import is_gap
from .._ground.names import sorted_names, typed
from ._counts import one_hot
from ._labels import Labels


class AnnotationCounts(NamedTuple):
    """What `counts_from_annotations` returns.

    Attributes
    ----------
    counts : ndarray of shape (n_items, n_classes), int64
        How many raters gave each item each class.
    classes : ndarray of shape (n_classes,)
        What the columns of `counts` stand for.
    items : ndarray of shape (n_items,)
        What the rows of `counts` stand for: use it to bring X into the same order.
    """

    counts: Integers
    classes: NDArray
    items: NDArray


def counts_from_annotations(
    annotations: ArrayLike,
    *,
    classes: ArrayLike | None = None,
    item: str | None = None,
    label: str | None = None,
) -> AnnotationCounts:
    """Count single annotations, from a matrix or from a long table.

    A matrix has one column a rater, a long table one row an annotation.

    Parameters
    ----------
    annotations : array-like of shape (n_items, n_raters), or frame
        Without `item` and `label`: row i holds the labels of item i, one a rater. Gaps are None,
        NaN or pandas' NA. With them: a frame with one row per annotation.
    classes : array-like of shape (n_classes,), optional
        The classes, in the order that the columns shall have. Default: the sorted distinct labels.
    item, label : str, optional
        Names of the columns of a long table that hold the item and the label.

    Returns
    -------
    AnnotationCounts
        ``(counts, classes, items)``; the items of a long table are sorted.

    Raises
    ------
    ValueError
        An item without any label, a missing item id, a label that is not among `classes`, labels of
        types that cannot be sorted together, `item` without `label` or the reverse.

    Examples
    --------
    >>> counts_from_annotations([["a", "b", None], ["b", "b", "b"]]).counts
    array([[1, 1],
           [0, 3]])
    """
    if (item is None) != (label is None):
        raise ValueError(
            "A long table needs both item= and label=, the names of its columns; a matrix needs "
            "neither."
        )
    if item is None:
        items, rows, labels = _matrix(annotations)
    else:
        items, rows, labels = _long_table(annotations, item, label)
    given = ~_gaps(labels)
    without = np.setdiff1d(np.arange(len(items)), rows[given])
    if without.size:
        first = items[without].tolist()[0]
        raise ValueError(
            f"{without.size} items have no label (first: {first!r}); drop them here and in X."
        )
    single = Labels(*one_hot(typed(labels[given].tolist())), single=True)
    if classes is None:
        classes = sorted_names(single.classes)
    ratings = single.in_order(classes)
    counts = np.zeros((len(items), ratings.shape[1]), np.int64)
    np.add.at(counts, rows[given], ratings.counts)
    return AnnotationCounts(counts, ratings.classes, items)


def _matrix(annotations) -> tuple:
    """The items, and for each annotation the row of its item and its label."""
    matrix = np.asarray(annotations, dtype=object)
    if matrix.ndim != 2:
        raise ValueError(f"annotations must have shape (n_items, n_raters), got {matrix.shape}.")
    items = numbers = np.arange(len(matrix))
    if hasattr(annotations, "iloc"):
        items = np.asarray(annotations.index)
    return items, np.repeat(numbers, matrix.shape[1]), matrix.ravel()


def _long_table(table, item: str, label: str) -> tuple:
    """The same of a frame with one row per annotation."""
    row_items = np.asarray(table[item])
    nameless = np.flatnonzero(_gaps(row_items))
    if nameless.size:
        raise ValueError(
            f"{nameless.size} rows have no item id in {item!r} (first: row {nameless[0]}); give "
            "each row an id or drop it."
        )
    items, rows = np.unique(row_items, return_inverse=True)
    return items, rows, np.asarray(table[label], dtype=object)


def _gaps(values: NDArray) -> NDArray:
    return np.array([is_gap(value) for value in values.tolist()], dtype=bool)
