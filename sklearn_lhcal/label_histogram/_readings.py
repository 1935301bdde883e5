"""Readings: what the readers of a study said of cases whose truth is known."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from .._utils.checks import (
    as_floats,
    check_same_length,
    checked,
    errors_of,
    is_gap,
    n_rows,
    warn_alike,
)
from .._utils.names import check_row_names, row_names, typed
from .._utils.types import ArrayLike, Floats, Integers, NDArray
from ._long_table import as_columns, coded, named_by, rater_names


class Readings(NamedTuple):
    """Scores that readers gave to cases with a known truth, under one or several conditions.

    A column is one reader under one condition: unaided, aided, a model alone. Any reading may be
    missing. Memory is that of a dense matrix. Make them by `from_long`, `from_matrix` or
    `from_imrmc`.

    Attributes
    ----------
    truth : ndarray of shape (n_cases,)
        1 for positive cases, 0 for negative ones, int64.
    scores : ndarray of shape (n_cases, n_columns)
        Higher for positive cases; NaN where a case was not read.
    conditions, readers : ndarray of shape (n_columns,)
        Names: of the condition and of the reader of each column.
    items : ndarray of shape (n_cases,)
        Names of the cases.

    See Also
    --------
    sklearn_lhcal.metrics.reader_study : AUC, sensitivity and specificity of such readings.

    Examples
    --------
    >>> unaided, aided = np.array([[3, 2], [1, 2]]), np.array([[4, 3], [1, np.nan]])
    >>> Readings.from_matrix([1, 0], {"unaided": unaided, "aided": aided})
    Readings(2 readers, 2 cases, 50% positive; conditions: unaided, aided)
    """

    truth: Integers
    scores: Floats
    conditions: NDArray
    readers: NDArray
    items: NDArray

    def __repr__(self) -> str:
        under, who = (list(dict.fromkeys(a.tolist())) for a in (self.conditions, self.readers))
        about = f"{len(who)} readers, {len(self.truth)} cases, {self.truth.mean():.0%} positive"
        return f"Readings({about}; conditions: {', '.join(map(str, under))})"

    @classmethod
    @checked
    def from_long(
        cls,
        *table: Any,
        item: str | ArrayLike = "case",
        reader: str | ArrayLike = "reader",
        score: str | ArrayLike = "score",
        truth: str | ArrayLike = "truth",
        condition: str | ArrayLike | None = "condition",
    ) -> Self:
        """Readings from a long table, one reading a row.

        Parameters
        ----------
        *table : frame
            A pandas or polars frame, or a dict of arrays, whose columns the other arguments name.
            Nothing: these are arrays.
        item, reader : str, or array-like of shape (n_readings,)
            What was read, and by whom.
        score : str, or array-like of shape (n_readings,)
            A number that is higher for positive cases; a missing one is no reading.
        truth : str, or array-like of shape (n_readings,)
            1 or 0, the same in all rows of a case.
        condition : str, array-like of shape (n_readings,) or None, default="condition"
            How it was read; None: all readings are of one condition, "all".

        Returns
        -------
        Readings
            Cases, conditions and readers are sorted.

        Raises
        ------
        ValueError
            A row without a case, reader, condition or truth, a truth other than 0 and 1, two truths
            of a case, two scores of a reader for a case in one condition, no score at all.

        Warns
        -----
        UserWarning
            Readers that differ only in case or blanks.

        Examples
        --------
        >>> table = {"case": [1, 1, 2], "who": ["A", "B", "A"], "score": [5, 4, 2]}
        >>> table["ill"] = [1, 1, 0]
        >>> Readings.from_long(table, reader="who", truth="ill", condition=None).scores
        array([[ 5.,  4.],
               [ 2., nan]])
        """
        named = {"item": item, "reader": reader, "score": score, "truth": truth}
        named = named_by(table, named | {"condition": condition})
        items, readers, scores, truths, under = as_columns(named, 4)
        under = np.full(len(items), "all") if under is None else under
        case, cases = coded(items, "item")
        who, names = coded(readers, "reader")
        m, conditions = coded(under, "condition")
        warn_alike(names, "readers", "name them alike")
        unnamed = np.min([case, who, m], axis=0) < 0
        _check_none(unnamed, "row {} has no item, reader or condition; name it.", np.arange(len(m)))
        said = _numbers(scores, "score")
        true = _truth(truths, items)
        of_case = np.zeros(len(cases), dtype=np.int64)
        of_case[case] = true
        _check_none(true != of_case[case], "truth: case {} has two, 0 and 1; keep one.", items)
        given = np.flatnonzero(~np.isnan(said))
        if not given.size:
            raise ValueError("score holds no scores: all are missing.")
        cells, column = np.unique((m * len(names) + who)[given], return_inverse=True)
        place = case[given] * len(cells) + column
        problem = (
            "score: reader {} has two of a case under a condition (case {}); keep one, or name "
            "them as two conditions."
        )
        _check_none(np.bincount(place)[place] > 1, problem, readers[given], items[given])
        found = np.full((len(cases), len(cells)), np.nan)
        found.flat[place] = said[given]
        under_m, of_reader = np.divmod(cells, len(names))
        return cls(of_case, found, conditions[under_m], names[of_reader], cases)

    @classmethod
    @checked
    def from_matrix(cls, truth: ArrayLike, scores: Mapping) -> Self:
        """Readings from one matrix a condition, with one row a case and one column a reader.

        Parameters
        ----------
        truth : array-like of shape (n_cases,)
            1 or 0.
        scores : dict of array-like of shape (n_cases, n_readers) or (n_cases,)
            By the names of the conditions; NaN where a case was not read. One axis: one reader, or
            a model, called as the condition is. Columns of one name, or of one number where frames
            do not name them, are one reader.

        Returns
        -------
        Readings

        Raises
        ------
        ValueError
            As `from_long`; lengths that differ.

        Examples
        --------
        >>> Readings.from_matrix([1, 0], {"reader": [[3, 2], [1, 2]], "model": [0.9, 0.2]}).readers
        array([0, 1, 'model'], dtype=object)
        """
        check_row_names(truth=truth, **{str(name): matrix for name, matrix in scores.items()})
        index = row_names(truth)
        items = np.arange(n_rows(truth, "truth")) if index is None else index
        true = _truth(truth, items)
        parts: list[Any] = []
        for name, matrix in scores.items():
            with errors_of(f"scores[{name!r}], beside truth"):
                check_same_length(len(items), scores=matrix)
                array = np.atleast_1d(_numbers(matrix, "scores"))
                own = [name] if array.ndim == 1 else rater_names(matrix, None).tolist()
                columns = array.reshape(len(items), len(own)).T
            parts += [(name, reader, column) for reader, column in zip(own, columns, strict=True)]
        if not parts:
            raise ValueError("scores is empty; give matrices by the names of conditions.")
        conditions, readers, found = zip(*parts, strict=True)
        return cls(true, np.column_stack(found), typed(conditions), typed(readers), items)

    @classmethod
    @checked
    def from_imrmc(cls, path: str | Path) -> Self:
        """Readings from a file of iMRMC: after ``BEGIN DATA:`` reader, case, modality, score.

        Parameters
        ----------
        path : str or Path
            Rows whose reader is "truth", or -1, hold the truth of a case.

        Returns
        -------
        Readings

        Raises
        ------
        ValueError
            As `from_long`; no ``BEGIN DATA:``, a row of fewer than four columns, a case without a
            row of its truth.
        OSError
            No such file.

        Examples
        --------
        >>> import tempfile
        >>> rows = ["BEGIN DATA:", "truth,1,truth,1", "truth,2,truth,0", "A,1,CT,4", "A,2,CT,3"]
        >>> file = Path(tempfile.mkdtemp()) / "study.imrmc"
        >>> n_characters = file.write_text(chr(10).join(rows))
        >>> Readings.from_imrmc(file)
        Readings(1 readers, 2 cases, 50% positive; conditions: CT)
        """
        _, begin, body = Path(path).read_text(encoding="utf-8-sig").partition("BEGIN DATA:")
        if not begin:
            raise ValueError(f"{path} has no line BEGIN DATA:, after which rows of readings stand.")
        with errors_of(str(path)):
            lines = [line for line in body.splitlines() if line.strip()]
            rows = np.loadtxt(lines, str, None, ",", usecols=range(4), ndmin=2)
            who, case, condition, score = np.char.strip(rows).T
            known = np.isin(np.char.lower(who), ("truth", "-1"))
            value = score.astype(float)
            of_case = dict(zip(case[known], value[known], strict=True))
            table = {"case": case, "reader": who, "condition": condition, "score": value}
            table = {name: column[~known] for name, column in table.items()}
            return cls.from_long(table, truth=[of_case.get(name, np.nan) for name in table["case"]])


def _numbers(a, name: str) -> Floats:
    """Numbers with NaN for gaps, none of them infinite."""
    if isinstance(a, np.ndarray) and a.dtype.kind == "O":
        a = np.where(np.reshape([is_gap(one) for one in a.flat], a.shape), np.nan, a)
    array = as_floats(a, name)
    if np.isinf(array).any():
        raise ValueError(f"{name} contains infinite values; give finite ones.")
    return array


def _truth(a, items: NDArray) -> Integers:
    """0 or 1 of each of these cases."""
    try:
        truth = _numbers(a, "truth")
    except ValueError as error:
        remedy = "1 is positive and 0 negative: truth == 'yes', or of the command --map yes=1 no=0."
        raise ValueError(f"{error} {remedy}") from None
    if truth.shape != items.shape:
        raise ValueError(f"truth must be 1-D, one value a case, got shape {truth.shape}.")
    wrong = ~np.isin(truth, (0, 1))
    _check_none(wrong, "truth must be 0 or 1; that of case {} is {}.", items, truth)
    return truth.astype(np.int64)


def _check_none(wrong: NDArray, problem: str, *named: NDArray) -> None:
    """ValueError about the first place that is wrong."""
    if wrong.any():
        raise ValueError(problem.format(*(a.tolist()[wrong.argmax()] for a in named)))
