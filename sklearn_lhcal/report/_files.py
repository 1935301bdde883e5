"""Tables of labels and predictions in files: read, named, and brought into one order of rows."""

import hashlib
import re
from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .._utils.checks import errors_of, warn
from .._utils.files import paths_of, read_file

# A first column of this name names the rows, whatever it holds.
ID_NAMES = ("id", "item", "row", "image", "case")

# Of tables of counts and predictions: a page of more takes hours.
MOST_COLUMNS = 1_000

_PERCENT = re.compile(r"\s*[-+]?\d+([.,]\d+)?\s*%\s*")


class Table(NamedTuple):
    """A table of numbers, shape (n, D), and the names of its rows.

    Attributes
    ----------
    values : DataFrame
    ids : ndarray of shape (n,) or None
    facts : dict
        Name and SHA-256 of the file.
    notes : list of str
        What was done to read it.
    """

    values: Any
    ids: Any
    facts: dict
    notes: Sequence[str] = ()


def read_table(
    file: str,
    what: str,
    *,
    id_column: str | None = None,
    likely_id: str | None = None,
    sheet: str | None = None,
    as_text: Sequence[str | None] = (),
) -> Table:
    """A table from .csv, .tsv, .xlsx, .parquet, .npy or .npz.

    Parameters
    ----------
    file : str
        A .npz file holds one array, or one that is called `what`.
    what : str
        What messages call the table.
    id_column : str, optional
        The column that names the rows. None: the first one, if it holds no numbers, has no name, or
        is called id, item, row, image or case; the second after one without a name, if it is
        called so. Its values are text: 001 stays 001.
    likely_id : str, optional
        It names the rows where there is such a column, and `id_column` is None.
    sheet : str, optional
        Of a workbook; None: the first.
    as_text : sequence of str
        Other columns whose values are text.
    """
    import pandas as pd

    path = paths_of(file)[0]
    text = {id_column, likely_id, *as_text}
    with errors_of(f"--{what}"):
        read, notes = read_file(path, lambda c: c in text or _names_rows(c), name=what, sheet=sheet)
    facts = facts_of([path])
    if isinstance(read, (list, dict)):
        raise ValueError(f"--{what}: {path.name} holds records, which only labels are read from.")
    frame = pd.DataFrame(read)
    if not len(frame):
        raise ValueError(f"--{what}: {path.name} has no rows.")
    if frame.shape[1] > MOST_COLUMNS:
        raise ValueError(
            f"--{what}: {path.name} has {frame.shape[1]} columns, more than {MOST_COLUMNS:,} "
            "classes or judges; keep those that the page is about."
        )
    if not isinstance(read, pd.DataFrame):
        return Table(frame, None, facts, notes)
    frame, stripped = _stripped(frame)
    notes = [f"--{what}: {note}" for note in notes + stripped]
    if id_column is None:
        id_column = likely_id if likely_id in frame else _guessed_ids(frame)
    values, ids = _without_ids(frame, id_column, path.name)
    return Table(values, ids, facts, notes)


def facts_of(paths: list[Path]) -> dict:
    """Names of files, and the SHA-256 of what they hold."""
    content = b"".join(path.read_bytes() for path in paths)
    names = ", ".join(path.name for path in paths)
    return {"file": names, "sha256": hashlib.sha256(content).hexdigest()}


def _stripped(frame) -> tuple:
    """Text without blanks on either side, nothing in place of blank text; and what was done."""
    notes = []
    for name in frame.select_dtypes(["object", "string"]).columns:
        text = frame[name].map(lambda cell: cell.strip() or None if isinstance(cell, str) else cell)
        n = int((text != frame[name])[frame[name].notna()].sum())
        if n:
            frame[name] = text
            notes.append(f"blanks were stripped from {n} values of column {name!r}.")
    return frame, notes


def from_percent(column):
    """Text such as 97% as numbers, 0.97, where all cells of the column that are given are that."""
    given = column.dropna()
    if len(given) and given.map(lambda cell: bool(_PERCENT.fullmatch(str(cell)))).all():
        text = column.map(lambda cell: cell.strip(" %").replace(",", "."), na_action="ignore")
        return text.astype(float) / 100
    return column


def warn_unmapped(changes: Iterable[str], known: Container[str]) -> None:
    """Warn of entries of --map that change nothing."""
    if unmet := [old for old in changes if old not in known]:
        warn(f"--map: nothing is called {', '.join(map(repr, unmet[:10]))}.")


def _without_ids(frame, id_column: str | None, file: str) -> tuple:
    """The frame without the column that names its rows, and that column."""
    if id_column is None:
        return frame, None
    if id_column not in frame:
        raise ValueError(
            f"{file} has no column {id_column!r}, only {list(frame)[:20]}: say which it is by --id "
            "or --columns CASE RATER LABEL."
        )
    ids = as_ids(frame[id_column])
    if ids.isna().any():
        raise ValueError(f"{file}: row {int(ids.isna().argmax())} has no id in {id_column!r}.")
    # a first column without a name that is not the ids is the index of a frame that was saved
    index = [name for name in frame.columns[:1] if _is_unnamed(name)]
    return frame.drop(columns=[id_column, *index]), ids.to_numpy(object)


def as_ids(column):
    """Ids as text; whole numbers that all were saved as floats, 1.0, 2.0, …, are 1, 2, …."""
    text = column.astype(str).where(column.notna())
    if text.dropna().str.fullmatch(r"-?\d+\.0").all():
        return text.str.removesuffix(".0")
    return text


def _guessed_ids(frame) -> str | None:
    """The first column, where it looks like names of rows."""
    import pandas as pd

    if frame.shape[1] == 1:
        return None
    first, second = frame.columns[:2]
    if _is_unnamed(first) and _names_rows(second):
        return second
    text = not pd.api.types.is_numeric_dtype(frame[first])
    return first if _names_rows(first) or text else None


def _names_rows(column) -> bool:
    """Whether a first column of this name holds ids."""
    name = str(column).lower()
    return _is_unnamed(column) or name in ID_NAMES or name.endswith((" id", "_id"))


def _is_unnamed(column) -> bool:
    """Whether a first column had no name in the file."""
    return str(column).startswith("Unnamed: 0")
