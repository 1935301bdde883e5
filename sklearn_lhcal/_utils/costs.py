"""Cost matrices: the one gate for what each decision costs under each class."""

from typing import NamedTuple

import numpy as np

from .checks import any_array, as_floats, check_finite, check_same_length
from .names import Side, column_names, is_numeric, matched, positions, typed
from .types import ArrayLike, Floats, Indices, NDArray


class Costs(NamedTuple):
    """A checked cost matrix C (K, D), or one a row (n, K, D), and the names of its two axes.

    Names are None where they are numbers.
    """

    C: Floats
    classes: NDArray | None
    decisions: NDArray | None

    def names(self, columns: Indices) -> NDArray:
        """What users call these columns: names where there are, else the numbers themselves."""
        if self.decisions is None:
            return columns
        return self.decisions[columns]

    def columns(self, decisions: ArrayLike) -> Indices:
        """Column numbers of decisions, (n,).

        Integers are column numbers unless decisions have integers as names.
        """
        d = any_array(decisions, "decisions")
        D = self.C.shape[-1]
        if d.ndim != 1 or not d.size:
            raise ValueError(
                f"decisions must be 1-D, one per sample, got shape {d.shape}; of probabilities "
                "take bayes_decision(proba, cost_matrix)."
            )
        named = self.decisions is not None and self.decisions.dtype.kind == "b"
        if d.dtype.kind == "b" and D == 2 and not named:
            # whether the second one is taken
            d = d.astype(np.intp)
        numbers = d.dtype.kind in "iu"
        if self.decisions is None or (numbers and self.decisions.dtype.kind not in "iu"):
            if not numbers:
                raise ValueError(
                    f"decisions must be column numbers, got dtype {d.dtype}; decisions by name "
                    "need a cost matrix that is a frame with these column names."
                )
            if d.min() < 0 or d.max() >= D:
                raise ValueError(
                    f"decisions must lie between 0 and {D - 1}, got {d.min()} to {d.max()}."
                )
            return d.astype(np.intp)
        columns = positions(d, self.decisions)
        if (columns < 0).any():
            unknown = sorted({str(name) for name in d[columns < 0].tolist()})
            raise ValueError(
                f"Unknown decisions {unknown[:5]}; cost_matrix has {self.decisions.tolist()[:20]}."
            )
        return columns

    def for_classes(self, classes: NDArray | None, K: int, other="the prediction") -> "Costs":
        """The samples in the order of the K classes of the other side, whose names may be None."""
        if self.C.shape[-2] != K:
            raise ValueError(
                f"cost_matrix has {self.C.shape[-2]} rows, expected one for each of {K} classes."
            )
        own = Side("cost_matrix", self.classes, K, "cost_matrix", "index")
        classes, rows = matched(own, Side(other, classes, K))
        return Costs(np.take(self.C, np.argsort(rows), axis=-2), classes, self.decisions)

    def check_rows(self, n: int) -> None:
        """Refuse costs a sample of another number of samples."""
        if self.C.ndim == 3:
            check_same_length(n, cost_matrix=self.C)


def check_cost_matrix(cost_matrix: ArrayLike, *, a_row: bool = False) -> Costs:
    """Check a cost matrix, and read its names.

    Parameters
    ----------
    cost_matrix : array-like or frame of shape (n_classes, n_decisions)
        Cost of each decision (column) under each class (row), in any unit; negative costs are
        gains. The columns of a frame name the decisions; the index of a pandas frame, or a first
        column of a polars frame that holds no numbers, names the classes. Names 0, 1, 2, … in this
        order count as none.
    a_row : bool, default=False
        Whether costs may differ from sample to sample: shape (n_samples, n_classes, n_decisions).

    Raises
    ------
    ValueError
        NaN or infinite costs, another shape, names twice.
    """
    if isinstance(cost_matrix, Costs):
        return cost_matrix
    C, rows, columns = _parts(cost_matrix)
    if C.ndim == 3 and not a_row:
        raise ValueError(
            "cost_matrix must have shape (n_classes, n_decisions) here, one for all samples, got "
            f"{C.shape}."
        )
    if C.ndim not in (2, 3) or not C.size:
        either = " or (n_samples, n_classes, n_decisions)" if a_row else ""
        raise ValueError(
            f"cost_matrix must have shape (n_classes, n_decisions){either}, got {C.shape}."
        )
    check_finite(C, "cost_matrix", "give each cost a number")
    if np.abs(C).max() > 1e150:
        raise ValueError("cost_matrix has costs beyond 1e150, whose squares overflow; scale them.")
    return Costs(C, _named(rows, "classes"), _named(columns, "decisions"))


def bayes_columns(z: Floats, C: Floats) -> Indices:
    """Column of the least expected cost of each sample, z (..., K), P4 eq. (1).

    By einsum, so that a sample's result is its own. Of costs that tie but for rounding the first.
    """
    f = expected_costs(z, relative(C))
    least = f.min(axis=-1, keepdims=True)
    # sums of terms of at least 0 are exact to a few units of the last digit
    return (f <= least * (1 + 1e-12)).argmax(axis=-1)


def expected_costs(p: Floats, C: Floats) -> Floats:
    """Σ_k p_k C_kd of all decisions, (..., D), for p (..., K); (..., n, D) with costs a sample."""
    return np.einsum("...k,...kd->...d", p, C)


def expected_cost(p: Floats, d: Indices, C: Floats) -> NDArray:
    """Σ_k p_k C_kd of the decision d of each sample, shape (n,)."""
    return np.einsum("nk,nk->n", p, of_decisions(d, C))


def of_decisions(d: Indices, C: Floats) -> Floats:
    """C_kd under each class of the decision d of each sample, (..., n, K) for d (..., n)."""
    if C.ndim == 3:
        return C[np.arange(len(C)), :, d]
    return C.T[d]


def of_rows(C: Floats, rows) -> Floats:
    """The costs of some rows, of one matrix for all or of one a row."""
    if C.ndim == 2:
        return C
    return C[rows]


def relative(C: Floats) -> Floats:
    """Costs above those of the best decision for the class.

    At least 0, whatever was added; the decisions stay the same.
    """
    return C - C.min(axis=-1, keepdims=True)


def _parts(cost_matrix) -> tuple[Floats, list | None, list | None]:
    """Values, names of the rows and of the columns."""
    columns = column_names(cost_matrix, "cost_matrix")
    columns = None if columns is None else columns.tolist()
    rows = None
    if hasattr(cost_matrix, "iloc"):
        # names on several levels are none, as those of columns
        rows = None if cost_matrix.index.nlevels > 1 else list(cost_matrix.index)
    elif columns and not is_numeric(np.asarray(cost_matrix[columns[0]])):
        rows = cost_matrix[columns[0]].to_list()
        columns = columns[1:]
        cost_matrix = cost_matrix[columns]
    return as_floats(cost_matrix, "cost_matrix").copy(), rows, columns


def _named(names: list | None, what: str) -> NDArray | None:
    """Names as an array; None where they only count."""
    if names is None or names == list(range(len(names))):
        return None
    if len(set(names)) < len(names):
        raise ValueError(f"cost_matrix names {what} twice: {names[:20]}.")
    return typed(names)
