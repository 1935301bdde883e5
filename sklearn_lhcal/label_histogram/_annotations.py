"""Counts from single annotations, a matrix with gaps or a long table."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._ground.names import sorted_names, typed
from ._labels import Labels, is_gap, one_hot


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

    counts: NDArray[np.int64]
    classes: NDArray
    items: NDArray


def counts_from_annotations(
    annotations,
    *,
    classes: ArrayLike | None = None,
    item: str | None = None,
    label: str | None = None,
) -> AnnotationCounts:
    """Count single annotations, from a matrix (one column a rater) or a long table (one row an annotation).

    Parameters
    ----------
    annotations : array-like of shape (n_items, n_raters), or frame
        Without `item` and `label`: row i holds the labels of item i, one a rater; gaps are None, NaN or pandas' NA.
        With them: a frame with one row per annotation.
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
        An item without any label, a missing item id, a label that is not among `classes`, labels of types that cannot
        be sorted together, `item` without `label` or the reverse.

    Examples
    --------
    >>> counts_from_annotations([["a", "b", None], ["b", "b", "b"]]).counts
    array([[1, 1],
           [0, 3]])
    """
    if (item is None) != (label is None):
        raise ValueError(
            "A long table needs both item= and label=, the names of its columns; a matrix needs neither."
        )
    if item is not None:
        row_items, labels = (
            np.asarray(annotations[item]),
            np.asarray(annotations[label], dtype=object),
        )
        nameless = np.flatnonzero([is_gap(i) for i in row_items.tolist()])
        if nameless.size:
            raise ValueError(
                f"{nameless.size} rows have no item id in {item!r} (first: row {nameless[0]}); give each row an id or "
                "drop it."
            )
        items, rows = np.unique(row_items, return_inverse=True)
    else:
        matrix = np.asarray(annotations, dtype=object)
        if matrix.ndim != 2:
            raise ValueError(
                f"annotations must have shape (n_items, n_raters), got {matrix.shape}."
            )
        items = (
            np.asarray(annotations.index)
            if hasattr(annotations, "iloc")
            else np.arange(len(matrix))
        )
        rows, labels = np.repeat(np.arange(len(matrix)), matrix.shape[1]), matrix.ravel()
    given = np.array([not is_gap(v) for v in labels], dtype=bool)
    without = np.setdiff1d(np.arange(len(items)), rows[given])
    if without.size:
        first = items[without].tolist()[0]
        raise ValueError(
            f"{without.size} items have no label (first: {first!r}); drop them here and in X."
        )
    single = Labels(*one_hot(typed(labels[given].tolist())), single=True)
    ratings = single.in_order(sorted_names(single.classes) if classes is None else classes)
    counts = np.zeros((len(items), ratings.shape[1]), np.int64)
    np.add.at(counts, rows[given], ratings.counts)
    return AnnotationCounts(counts, ratings.classes, items)
