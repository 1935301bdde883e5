"""Cost matrices: the one gate for what each decision costs under each class."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._simplex import frame_names


class Costs(NamedTuple):
    """A checked cost matrix C (K, D), and the names of its classes and decisions; None where they are numbers."""

    C: NDArray[np.float64]
    classes: NDArray | None
    decisions: NDArray | None

    def names(self, columns: NDArray[np.intp]) -> NDArray:
        """What users call these columns: names where there are, else the numbers themselves."""
        return columns if self.decisions is None else self.decisions[columns]

    def columns(self, decisions: ArrayLike) -> NDArray[np.intp]:
        """Column numbers of decisions, (n,); integers are column numbers unless decisions have integers as names."""
        d, D = np.asarray(decisions), self.C.shape[1]
        if d.ndim != 1 or not d.size:
            raise ValueError(f"decisions must be 1-D, one a row, got shape {d.shape}.")
        if self.decisions is None or (d.dtype.kind in "iu" and self.decisions.dtype.kind not in "iu"):
            if d.dtype.kind not in "iu":
                raise ValueError(
                    f"decisions must be column numbers, got dtype {d.dtype}; decisions by name need a cost matrix that "
                    "is a frame with these column names."
                )
            if d.min() < 0 or d.max() >= D:
                raise ValueError(f"decisions must lie between 0 and {D - 1}, got {int(d.min())} to {int(d.max())}.")
            return d.astype(np.intp)
        position = {name: i for i, name in enumerate(self.decisions.tolist())}
        unknown = sorted({str(name) for name in d.tolist() if name not in position})
        if unknown:
            raise ValueError(f"Unknown decisions {unknown[:5]}; the cost matrix has {self.decisions.tolist()[:20]}.")
        return np.array([position[name] for name in d.tolist()], dtype=np.intp)


def check_cost_matrix(
    cost_matrix: ArrayLike, *, n_classes: int | None = None, classes: ArrayLike | None = None
) -> Costs:
    """Check a cost matrix; rows in the order of `classes` where both name them.

    Parameters
    ----------
    cost_matrix : array-like or frame of shape (n_classes, n_decisions)
        Cost of each decision (column) under each class (row), in any unit; negative costs are gains. The columns of a
        frame name the decisions; the index of a pandas frame, or a first column of a polars frame that holds no
        numbers, names the classes. Names 0, 1, 2, … in this order count as none.
    n_classes : int, optional
        The number of rows to insist on.
    classes : array-like of shape (n_classes,), optional
        The classes in order. A frame that names its classes is brought into this order; any other matrix has its rows
        in this order already, which is only taken for granted where the classes are numbers.

    Raises
    ------
    ValueError
        NaN or infinite costs, another shape, other classes, names twice, no names where classes have some.
    """
    C, rows, columns = _parts(cost_matrix)
    if C.ndim != 2 or not C.size:
        raise ValueError(f"cost_matrix must have shape (n_classes, n_decisions), got {C.shape}.")
    if not np.isfinite(C).all():
        row = int(np.flatnonzero(~np.isfinite(C).all(axis=1))[0])
        raise ValueError(f"cost_matrix contains NaN or infinite values (first in row {row}); give each cost a number.")
    known = None if classes is None else np.asarray(classes)
    n_classes = n_classes if known is None else len(known)
    if n_classes is not None and len(C) != n_classes:
        raise ValueError(f"cost_matrix has {len(C)} rows, expected one for each of {n_classes} classes.")
    rows, columns = _named(rows, "classes"), _named(columns, "decisions")
    if known is None:
        return Costs(C, rows, columns)
    if rows is None:
        if any(isinstance(name, str) for name in known.tolist()):
            raise ValueError(
                f"The classes have names, {known.tolist()[:20]}: pass cost_matrix as a DataFrame whose index holds "
                "them."
            )
        return Costs(C, known, columns)
    position = {name: i for i, name in enumerate(rows.tolist())}
    if set(position) != set(known.tolist()):
        raise ValueError(f"cost_matrix has the classes {rows.tolist()[:20]}, expected {known.tolist()[:20]}.")
    return Costs(C[[position[name] for name in known.tolist()]], known, columns)


def relative(C: NDArray[np.float64]) -> NDArray[np.float64]:
    """Costs above those of the best decision for the class: the same decisions, at least 0, whatever was added."""
    return C - C.min(axis=1, keepdims=True)


def _parts(cost_matrix) -> tuple[NDArray[np.float64], list | None, list | None]:
    """Values, names of the rows and of the columns."""
    columns, rows = frame_names(cost_matrix), None
    if columns is not None and hasattr(cost_matrix, "iloc"):
        rows = list(cost_matrix.index)
    elif columns and np.asarray(cost_matrix[columns[0]]).dtype.kind not in "iufb":
        rows, columns = cost_matrix[columns[0]].to_list(), columns[1:]
        cost_matrix = cost_matrix[columns]
    try:
        return np.array(cost_matrix, dtype=np.float64), rows, columns
    except (TypeError, ValueError):
        raise ValueError("cost_matrix must hold numbers, one cost for each class and decision.") from None


def _named(names: list | None, what: str) -> NDArray | None:
    """Names as an array; None where they only count."""
    if names is None or names == list(range(len(names))):
        return None
    if len(set(names)) < len(names):
        raise ValueError(f"cost_matrix names {what} twice: {names[:20]}.")
    array = np.asarray(names)
    return array if array.dtype.kind != "U" or all(isinstance(name, str) for name in names) else np.array(names, object)
