"""Counts of single annotations, a matrix with gaps or a long table."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._ground.arrays import Integers
from .._ground.checks import n_rows
from ._annotations import Annotations


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

    A matrix has one column a rater, a long table one row an annotation. `Annotations` also keep who
    gave each label.

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
    if item is None or label is None:
        y = Annotations.from_matrix(annotations, classes=classes)
    else:
        # nobody is known: each rating has a rater of its own
        nobody = np.arange(n_rows(annotations))
        y = Annotations.from_long(
            annotations, item=item, rater=nobody, label=label, classes=classes
        )
    if y.has_gaps:
        without = np.asarray(y.items)[y.n == 0]
        raise ValueError(
            f"{len(without)} items have no label (first: {without.tolist()[0]!r}); drop them here "
            "and in X."
        )
    return AnnotationCounts(y.counts, y.classes, np.asarray(y.items))
