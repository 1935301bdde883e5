"""Tables of labels and predictions in files: read, named, and brought into one order of rows."""

import hashlib
import re
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

# A first column of this name names the rows, whatever it holds.
ID_NAMES = ("id", "item", "row", "image", "case")
# What stands for a gap. "None" is none of them: it may be a class, of cases without a finding.
GAPS = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "nan", "NaN", "null", "NULL")
_READING: dict = {"keep_default_na": False, "na_values": GAPS}
# Bytes that a packed file may hold.
LARGEST = 2e9


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
    as_text : sequence of str
        Other columns whose values are text.
    """
    import pandas as pd

    path = Path(file)
    facts = {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    kind = path.suffix.lower()
    if kind not in READERS:
        raise ValueError(f"--{what} is {path.name}; it must end in {', '.join(READERS)}.")
    try:
        _check_size(path, kind)
        read, notes = READERS[kind](path, what, {id_column, likely_id, *as_text})
        named = isinstance(read, pd.DataFrame)
        frame = pd.DataFrame(read)
    except ImportError:
        if kind != ".xlsx":
            raise
        raise ImportError(
            f"--{what}: to read {path.name}, pip install openpyxl; or save its sheet as CSV."
        ) from None
    except Exception as error:
        # each library has its own exceptions for files that are broken
        said = str(error).partition("\n")[0].rstrip(".")
        raise ValueError(f"--{what}: {path.name} holds no {kind[1:]} table: {said}.") from None
    if not named:
        return Table(frame, None, facts, notes)
    frame, stripped = _stripped(frame)
    notes = [f"--{what}: {note}" for note in notes + stripped]
    if id_column is None:
        id_column = likely_id if likely_id in frame else _guessed_ids(frame)
    values, ids = _without_ids(frame, id_column, path.name)
    return Table(values, ids, facts, notes)


def _check_size(path: Path, kind: str) -> None:
    """ValueError for a file that would fill the memory when it is unpacked."""
    size = 0
    if kind in (".npz", ".xlsx"):
        with zipfile.ZipFile(path) as archive:
            size = sum(part.file_size for part in archive.infolist())
    if kind == ".parquet":
        from pyarrow.parquet import read_metadata

        facts = read_metadata(path)
        size = facts.num_rows * facts.num_columns * 8
    if size > LARGEST:
        raise ValueError(f"unpacked it has {size:.1e} bytes, more than {LARGEST:.0e}")


def _csv(path: Path, what: str, as_text: set) -> tuple:
    """Separated by commas, semicolons or tabs; beside the latter decimal commas are read too."""
    import pandas as pd

    encoding = _encoding(path)
    notes = []
    if encoding != "utf-8-sig":
        notes = [f"{path.name} is no UTF-8 and was read as {encoding}."]
    separator = _separator(path, encoding)
    options: dict = {"sep": separator, "skipinitialspace": True, "encoding": encoding, **_READING}
    names = pd.read_csv(path, nrows=0, **options).columns.str.strip()
    options |= {"names": names, "header": 0, "dtype": _text_columns(names, as_text)}
    points = pd.read_csv(path, **options)
    if separator == ",":
        return points, notes
    commas = pd.read_csv(path, decimal=",", **options)
    return max(points, commas, key=lambda frame: len(frame.select_dtypes("number").columns)), notes


def _encoding(path: Path) -> str:
    """The first encoding in which the whole file is text."""
    content = path.read_bytes()
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    for encoding in ("utf-8-sig", "cp1252"):
        with suppress(UnicodeDecodeError):
            content.decode(encoding)
            return encoding
    return "latin-1"


def _text_columns(names, as_text: set) -> dict:
    """Columns whose values stay text: 001 is no 1."""
    return {name: str for name in names if name in as_text or _names_rows(name)}


def _separator(path: Path, encoding: str) -> str:
    """The separator that is most frequent in the first line, outside of quotes."""
    with path.open(encoding=encoding) as lines:
        first = re.sub(r'"[^"]*"', "", lines.readline())
    return max(",;\t", key=first.count)


def _excel(path: Path, what: str, as_text: set) -> tuple:
    """The first sheet of a workbook."""
    import pandas as pd

    names = pd.read_excel(path, nrows=0, **_READING).columns
    frame = pd.read_excel(path, dtype=_text_columns(names, as_text), **_READING)
    frame.columns = frame.columns.astype(str).str.strip()
    return frame, [f"of {path.name} the first sheet was read."]


def _parquet(path: Path, what: str, as_text: set) -> tuple:
    import pandas as pd

    frame = pd.read_parquet(path).reset_index(drop=True)
    for name in as_text.intersection(frame):
        frame[name] = frame[name].astype(str).where(frame[name].notna())
    return frame, []


def _npy(path: Path, what: str, _: set) -> tuple:
    # the map refuses a header that promises more than the file holds
    return np.array(np.load(path, mmap_mode="r", allow_pickle=False)), []


def _npz(path: Path, what: str, _: set) -> tuple:
    with np.load(path, allow_pickle=False) as arrays:
        names = list(arrays)
        name = what if what in names else names[0]
        if len(names) > 1 and what not in names:
            raise ValueError(f"it holds {names}; call one of them {what!r}")
        return arrays[name], []


def _stripped(frame) -> tuple:
    """Text without blanks on either side, nothing in place of blank text; and what was done."""
    notes = []
    for name in frame.select_dtypes(["object", "string"]).columns:
        text = frame[name].map(_strip)
        n = int((text != frame[name])[frame[name].notna()].sum())
        if n:
            frame[name] = text
            notes.append(f"blanks were stripped from {n} values of column {name!r}.")
    return frame, notes


def _strip(value):
    """A value without blanks on either side; None where nothing is left."""
    if not isinstance(value, str):
        return value
    return value.strip() or None


READERS: dict[str, Callable[..., tuple]] = {
    ".csv": _csv,
    ".tsv": _csv,
    ".xlsx": _excel,
    ".parquet": _parquet,
    ".npy": _npy,
    ".npz": _npz,
}


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
    return _is_unnamed(column) or str(column).lower() in ID_NAMES


def _is_unnamed(column) -> bool:
    """Whether a first column had no name in the file."""
    return str(column).startswith("Unnamed: 0")
