"""Tables of labels and predictions in files: read, named, and brought into one order of rows."""

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._ground.names import column_names

# A first column of this name names the rows, whatever it holds.
ID_NAMES = ("id", "item", "row", "image", "case")


class Table(NamedTuple):
    """A table of numbers, shape (n, D), and the names of its rows.

    Attributes
    ----------
    values : DataFrame, or ndarray where columns have no names
    ids : ndarray of shape (n,) or None
    facts : dict
        Name and SHA-256 of the file.
    """

    values: Any
    ids: NDArray | None
    facts: dict


def read_table(
    file: str, what: str, *, id_column: str | None = None, with_ids: bool = True
) -> Table:
    """A table from .csv, .parquet, .npy or .npz.

    Parameters
    ----------
    file : str
        A .npz file holds one array, or one that is called `what`.
    what : str
        What messages call the table.
    id_column : str, optional
        The column that names the rows. None: the first one, if it holds no numbers, has no name, or
        is called id, item, row, image or case.
    """
    path = Path(file)
    facts = {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    readers = {".csv": _csv, ".parquet": _parquet, ".npy": _npy, ".npz": _npz}
    if path.suffix not in readers:
        raise ValueError(f"--{what} is {path.name}; it must end in {', '.join(readers)}.")
    read = readers[path.suffix](path, what)
    if isinstance(read, np.ndarray):
        if id_column is not None:
            raise ValueError(f"--id names a column, but {path.name} has no named columns.")
        return Table(read, None, facts)
    if not with_ids:
        return Table(read, None, facts)
    values, ids = _without_ids(read, id_column, path.name)
    return Table(values, ids, facts)


def _csv(path: Path, what: str):
    import pandas as pd

    try:
        return pd.read_csv(path, skipinitialspace=True)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise ValueError(f"--{what}: {path.name} is no table: {error}") from None


def _parquet(path: Path, what: str):
    import pandas as pd

    try:
        return pd.read_parquet(path).reset_index(drop=True)
    except ValueError as error:
        raise ValueError(f"--{what}: {path.name} is no parquet file: {error}") from None


def _npy(path: Path, what: str) -> NDArray:
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"--{what}: {path.name} holds no array: {error}") from None


def _npz(path: Path, what: str) -> NDArray:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            names = list(arrays)
            name = what if what in names else names[0]
            if len(names) > 1 and what not in names:
                raise ValueError(f"it holds {names}; call one of them {what!r}")
            return arrays[name]
    except (ValueError, EOFError, AttributeError, IndexError) as error:
        raise ValueError(f"--{what}: {path.name}: {error}.") from None


def _without_ids(frame, id_column: str | None, file: str) -> tuple:
    """The frame without the column that names its rows, and that column."""
    if id_column is None:
        id_column = _guessed_ids(frame)
    elif id_column not in frame.columns:
        raise ValueError(f"--id: {file} has no column {id_column!r}, only {list(frame.columns)}.")
    if id_column is None:
        return frame, None
    ids = frame[id_column]
    if ids.isna().any():
        raise ValueError(f"{file}: row {int(ids.isna().argmax())} has no id in {id_column!r}.")
    if ids.duplicated().any():
        twice = ids[ids.duplicated()].iloc[0]
        raise ValueError(f"{file}: the id {twice!r} occurs twice in column {id_column!r}.")
    return frame.drop(columns=id_column), ids.to_numpy()


def _guessed_ids(frame) -> str | None:
    """The first column, where it looks like names of rows."""
    import pandas as pd

    if frame.shape[1] == 1:
        return None
    first = frame.columns[0]
    unnamed = str(first).startswith("Unnamed: 0")
    known = str(first).lower() in ID_NAMES
    text = not pd.api.types.is_numeric_dtype(frame[first])
    return first if unnamed or known or text else None


def in_one_order(tables: dict[str, Table]) -> tuple[dict[str, Table], NDArray | None]:
    """All tables in the order of the rows of the first that has ids; sets of ids must agree."""
    named = {what: table.ids for what, table in tables.items() if table.ids is not None}
    if not named:
        return tables, None
    reference, first = next(iter(named.items()))
    place = {name: i for i, name in enumerate(first.tolist())}
    ordered = dict(tables)
    for what, ids in named.items():
        missing = set(place) ^ set(ids.tolist())
        if missing:
            raise ValueError(
                f"--{reference} and --{what} have different ids: {len(missing)} occur in one of "
                f"them only, {sorted(missing, key=str)[:5]}."
            )
        order = np.argsort([place[name] for name in ids.tolist()])
        values = _rows(tables[what].values, order)
        ordered[what] = tables[what]._replace(values=values, ids=first)
    return ordered, first


def _rows(values, order):
    return values.iloc[order].reset_index(drop=True) if hasattr(values, "iloc") else values[order]


def check_named(table: Table, what: str, classes: list[str] | None) -> None:
    """ValueError where columns of more than two classes have no names, and none were given."""
    K = np.shape(table.values)[-1]
    if K > 2 and classes is None and column_names(table.values, "prediction") is None:
        raise ValueError(
            f"--{what} has {K} columns without names: say what they stand for, --classes a b c …, "
            "in their order."
        )


def with_classes(table: Table, classes: list[str] | None):
    """The values as a frame with these names, where it has none of its own."""
    if classes is None or column_names(table.values, "prediction") is not None:
        return table.values
    import pandas as pd

    values = np.asarray(table.values)
    if values.shape[-1] != len(classes):
        raise ValueError(
            f"--classes names {len(classes)} classes, but a file has {values.shape[-1]} columns."
        )
    return pd.DataFrame(values, columns=classes)
