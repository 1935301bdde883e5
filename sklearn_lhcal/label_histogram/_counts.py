"""The gate for ``y``: counts, labels or known probabilities of rows and classes."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import column_or_1d

from .._simplex import check_proba, frame_names, row_sum

_HINT = "if y holds one label per rater, use counts_from_annotations"


class KnownProbabilities(np.ndarray):
    """True class probabilities in place of counts: infinitely many raters.

    Goes wherever a label histogram goes. Every correction for few raters or few rows is then 0.

    Parameters
    ----------
    proba : array-like of shape (n_samples, n_classes)
        The true probability of each class, rows on the simplex. The order of the columns is the order of the classes.

    Examples
    --------
    >>> from sklearn_lhcal.metrics import epistemic_loss
    >>> Q = KnownProbabilities([[0.5, 0.5], [1.0, 0.0]])
    >>> round(epistemic_loss(Q, [[0.5, 0.5], [0.9, 0.1]]), 12)
    0.01
    """

    def __new__(cls, proba: ArrayLike) -> "KnownProbabilities":
        return check_proba(proba, name="KnownProbabilities").copy().view(cls)


def check_counts(y, *, classes: ArrayLike | None = None) -> tuple[NDArray, NDArray]:
    """Check labels of any accepted form and return them as counts; the only gate through which ``y`` enters.

    Parameters
    ----------
    y : array-like, frame or sparse matrix
        One of: 1-D labels of any type; counts of shape (n_samples, n_classes), integer or integral float, as ndarray,
        list, pandas or polars frame (column names are classes) or scipy sparse matrix; `KnownProbabilities`.
    classes : array-like of shape (n_classes,), optional
        What the columns stand for. 1-D labels are looked up in it; 1-D integers are column numbers where the classes
        are not integers themselves.

    Returns
    -------
    counts : ndarray of shape (n_samples, n_classes), int64; or the `KnownProbabilities` themselves
        Never reordered. The caller's own memory where it is int64 already; it is never written to.
    classes : ndarray of shape (n_classes,)
        `classes` if given; else column names, the sorted distinct 1-D labels, or ``arange(n_classes)``.

    Raises
    ------
    ValueError
        NaN or infinite values, negative or fractional counts, a row without labels, unknown class names or labels,
        frame columns in another order than `classes`, a number of classes that differs, no rows at all.

    Examples
    --------
    >>> check_counts(["cat", "dog", "cat"])
    (array([[1, 0],
           [0, 1],
           [1, 0]]), array(['cat', 'dog'], dtype='<U3'))
    """
    names = frame_names(y)
    if isinstance(y, KnownProbabilities):
        counts = y
    else:
        a = as_array(y)
        if a.ndim == 2 and a.shape[1] == 1:
            a, names = column_or_1d(a, warn=True), None
        if a.ndim == 1:
            return one_hot(a, None if classes is None else np.asarray(classes))
        if a.ndim != 2:
            raise ValueError(f"y must be 1-D labels or counts of shape (n_samples, n_classes), got shape {a.shape}.")
        counts = count_matrix(a)
    own = np.arange(counts.shape[1]) if names is None else typed(names)
    if classes is None:
        return counts, own
    classes = np.asarray(classes)
    if len(classes) != counts.shape[1]:
        raise ValueError(f"y has {counts.shape[1]} classes, expected {len(classes)}: {classes.tolist()}.")
    if names is not None and not np.array_equal(own, classes):
        _name_positions(own, classes)  # says which names are unknown
        raise ValueError(f"The columns of y are ordered {names}, expected {classes.tolist()}: select them by name.")
    return counts, classes


def typed(names: list) -> NDArray:
    """Names of classes as an array that keeps their types: numbers among strings stay numbers."""
    array = np.asarray(names)
    same = array.dtype.kind != "U" or all(isinstance(name, str) for name in names)
    return array if same else np.array(names, dtype=object)


def as_array(y) -> NDArray:
    """y as an array, from anything that `check_counts` takes."""
    if y is None:
        raise ValueError("This estimator or metric requires y to be passed, but the target y is None.")
    if hasattr(y, "toarray"):
        y = y.toarray()
    a = np.asarray(y)
    if a.size == 0 or a.ndim == 0:
        raise ValueError(f"y must have at least one row, got shape {a.shape}.")
    return a


def count_matrix(a: NDArray, *, empty_rows: bool = False) -> NDArray[np.int64]:
    """A 2-D array as counts; the errors that a matrix of raters' labels would meet end with the same advice."""
    if a.dtype.kind not in "iub":
        try:
            a = a.astype(np.float64, copy=False)
        except (TypeError, ValueError):  # strings, or pandas' NA
            raise ValueError(
                f"Counts in y must be numbers, without missing values (dtype {a.dtype}); {_HINT}"
            ) from None
        if not np.isfinite(a).all():
            row = int(np.flatnonzero(~np.isfinite(a).all(axis=1))[0])
            raise ValueError(f"y contains NaN or infinite values (first in row {row}); {_HINT}")
    if a.dtype.kind != "b" and a.min() < 0:
        row = int(np.flatnonzero((a < 0).any(axis=1))[0])
        raise ValueError(f"y contains negative counts (first in row {row}); {_HINT}")
    if a.dtype.kind == "f" and (a != np.floor(a)).any():
        row = int(np.flatnonzero((a != np.floor(a)).any(axis=1))[0])
        raise ValueError(
            f"y contains fractional counts (first in row {row}); wrap true class probabilities in KnownProbabilities; "
            f"{_HINT}"
        )
    if a.max() > 2**53:
        raise ValueError(f"y contains counts above 2**53 (first in row {int(a.max(axis=1).argmax())}).")
    counts = np.ascontiguousarray(a, dtype=np.int64)  # small integer types would overflow in products
    empty = row_sum(counts) == 0
    if empty.any() and not empty_rows:
        rows = np.flatnonzero(empty)
        raise ValueError(f"y has {len(rows)} rows without labels (first: row {rows[0]}); drop them; {_HINT}")
    return counts


def one_hot(labels: NDArray, classes: NDArray | None) -> tuple[NDArray[np.int64], NDArray]:
    """One-hot counts of labels, and the classes: those given, else the distinct labels."""
    if labels.dtype == object and all(isinstance(v, (bool, np.bool_)) for v in labels):
        labels = labels.astype(bool)
    missing = np.array([is_gap(v) for v in labels]) if labels.dtype == object else labels != labels
    if np.any(missing):
        raise ValueError(f"y contains missing labels, NaN (first in row {int(np.flatnonzero(missing)[0])}); {_HINT}")
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            raise ValueError(f"y contains infinite values; {_HINT}")
        if (labels != np.floor(labels)).any():
            raise ValueError("Unknown label type: continuous. 1-D labels must name classes; fractional numbers do not.")
    try:
        found, codes = np.unique(labels, return_inverse=True)
    except TypeError:
        raise ValueError("y mixes labels of types that cannot be sorted together; make them all strings.") from None
    position = np.arange(len(found)) if classes is None else _label_positions(found, classes)
    classes = found if classes is None else classes
    counts = np.zeros((len(labels), len(classes)), np.int64)
    counts[np.arange(len(labels)), position[codes.ravel()]] = 1
    return counts, classes


def _label_positions(found: NDArray, classes: NDArray) -> NDArray[np.intp]:
    """Columns of the distinct labels `found`; integers are column numbers where classes are no numbers."""
    if found.dtype.kind in "iubf" and classes.dtype.kind not in "iubf":
        classes = np.arange(len(classes))
    return _name_positions(found, classes)


def _name_positions(found, classes) -> NDArray[np.intp]:
    position = {c: i for i, c in enumerate(classes.tolist())}
    unknown = [f for f in np.asarray(found).tolist() if f not in position]
    if unknown:
        raise ValueError(
            f"y has classes that are not known: {unknown[:5]}; known are {classes.tolist()[:20]}. "
            "(1-D integers are column numbers where the number of classes is known.)"
        )
    return np.array([position[f] for f in np.asarray(found).tolist()], dtype=np.intp)


def aligned_counts(y, classes: NDArray) -> NDArray:
    """Counts in the order of `classes`: frames by name, anything else by position. A frame may lack no class."""
    names = frame_names(y)
    if names is None or len(names) < 2:
        return check_counts(y, classes=classes)[0]
    counts, own = check_counts(y)
    if len(own) != len(classes) or set(own.tolist()) != set(classes.tolist()):
        raise ValueError(f"y has the classes {own.tolist()}, expected {classes.tolist()}.")
    return counts[:, _name_positions(classes, own)]


def counts_for(y, n_classes: int) -> NDArray:
    """Counts for a prediction with `n_classes` columns and no names: 1-D integers are column numbers.

    1-D labels that are not numbers are sorted, as everywhere in scikit-learn, and must show every class.
    """
    counts, classes = check_counts(y)
    if np.ndim(y) == 1 or (np.ndim(y) == 2 and np.shape(y)[1] == 1):
        if classes.dtype.kind in "iubf":
            return check_counts(np.ravel(y), classes=np.arange(n_classes))[0]
        if len(classes) != n_classes:
            raise ValueError(
                f"y has the {len(classes)} distinct labels {classes.tolist()[:20]} but the prediction {n_classes} "
                "columns: which label is which column is unknown; pass column numbers or counts."
            )
    elif counts.shape[1] != n_classes:
        raise ValueError(f"y has {counts.shape[1]} classes, but the prediction has {n_classes} columns.")
    return counts


def frequencies(counts: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """μ̂ = y / n_i, shape (n, K), and n_i, shape (n,); n_i is inf for known probabilities."""
    if isinstance(counts, KnownProbabilities):
        return np.asarray(counts), np.full(len(counts), np.inf)
    n = row_sum(counts).astype(np.float64)
    return counts / n[:, None], n


def is_gap(value) -> bool:
    """Whether a label is missing: None, NaN, or pandas' NA and NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(value != value)


def sorted_counts(y, known: NDArray | None = None) -> tuple[NDArray, NDArray]:
    """Counts and sorted classes, as every estimator keeps them: named columns are reordered, once, at fit.

    Where the classes are `known`, in their order.
    """
    if known is not None:
        return aligned_counts(y, known), known
    counts, classes = check_counts(y)
    try:
        order = np.argsort(classes, kind="stable")
    except TypeError:
        raise ValueError(
            f"The class names {classes.tolist()} cannot be sorted together; make them all strings."
        ) from None
    if len(set(classes.tolist())) < len(classes):
        raise ValueError(f"The class names {classes.tolist()} are not distinct.")
    return (counts, classes) if np.array_equal(order, np.arange(len(order))) else (counts[:, order], classes[order])
