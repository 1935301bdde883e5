"""Counts from arrays of labels or of counts, checked."""

import numpy as np
from numpy.typing import NDArray

from .._ground.arrays import Floats, Integers
from .._ground.checks import as_floats, distinct, is_gap

HINT = "if y holds one label per rater, use counts_from_annotations"


def one_hot(labels: NDArray) -> tuple[Integers, NDArray]:
    """One-hot counts of 1-D labels, and the distinct labels, sorted."""
    if labels.dtype.kind == "O" and all(isinstance(v, (bool, np.bool_)) for v in labels):
        labels = labels.astype(bool)
    if labels.dtype.kind == "O":
        gaps = np.array([is_gap(v) for v in labels], dtype=bool)
    else:
        gaps = labels != labels
    if gaps.any():
        row = int(np.flatnonzero(gaps)[0])
        raise ValueError(f"y contains missing labels, NaN or None (first in row {row}); {HINT}")
    if labels.dtype.kind == "f":
        if np.isinf(labels).any():
            raise ValueError(f"y contains infinite values; {HINT}")
        if (labels != np.floor(labels)).any():
            raise ValueError(
                "Unknown label type: continuous. 1-D labels must name classes; fractional numbers "
                "do not."
            )
    found, codes = distinct(labels, "y")
    counts = np.zeros((len(labels), len(found)), np.int64)
    counts[np.arange(len(labels)), codes] = 1
    return counts, found


def count_matrix(a: NDArray, empty_rows: bool) -> Integers:
    """A 2-D array as counts; errors that a matrix of raters' labels would meet end with advice."""
    if a.dtype.kind not in "iub":
        a = _finite(a)
    if a.dtype.kind != "b" and a.min() < 0:
        raise ValueError(f"y contains negative counts ({_first(a < 0)}); {HINT}")
    if a.dtype.kind == "f" and (a != np.floor(a)).any():
        raise ValueError(
            f"y contains fractional counts ({_first(a != np.floor(a))}); give the counts, how many "
            "raters chose each class. KnownProbabilities is only for true class probabilities, "
            f"as of infinitely many raters; {HINT}"
        )
    if a.max() > 2**53:
        raise ValueError(f"y contains counts above 2**53 ({_first(a > 2**53)}).")
    # small integer types would overflow in products
    counts = np.ascontiguousarray(a, dtype=np.int64)
    empty = ~counts.any(axis=1)
    if empty.any() and not empty_rows:
        rows = np.flatnonzero(empty)
        raise ValueError(
            f"y has {len(rows)} rows without labels (first: row {rows[0]}); drop them; {HINT}"
        )
    return counts


def _finite(a: NDArray) -> Floats:
    """Numbers of another type than integers, finite or a ValueError."""
    try:
        a = as_floats(a, "y")
    except ValueError:
        # strings, pandas' NA, or integers beyond floats
        raise ValueError(
            f"Counts in y must be numbers, without missing values (dtype {a.dtype}); {HINT}"
        ) from None
    if not np.isfinite(a).all():
        raise ValueError(f"y contains NaN or infinite values ({_first(~np.isfinite(a))}); {HINT}")
    return a


def _first(wrong: NDArray[np.bool_]) -> str:
    """Where the first wrong value of a matrix is."""
    return f"first in row {int(np.flatnonzero(wrong.any(axis=1))[0])}"
