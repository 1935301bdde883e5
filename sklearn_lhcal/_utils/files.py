"""Files as tables and records: by suffix, in any usual encoding, packed or not."""

import json
import re
import warnings
import zipfile
from collections.abc import Callable
from contextlib import suppress
from glob import glob
from pathlib import Path

import numpy as np

# What stands for a gap. "None" is none of them: it may be a class, of cases without a finding.
GAPS = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "nan", "NaN", "null", "NULL")
_READING: dict = {"keep_default_na": False, "na_values": GAPS}
# Bytes that a file may hold, unpacked.
LARGEST = 2e9
# Lines that programs write above the names of columns.
_ABOVE = re.compile(r"^(sep=.|#.*)$")


def paths_of(source: str | Path) -> list[Path]:
    """The files that a name, or a pattern with `*`, stands for; OSError where there is none."""
    path = Path(source)
    found = [path] if path.exists() else sorted(map(Path, glob(str(source))))
    if not found:
        raise FileNotFoundError(None, "there is no such file", str(source))
    return found


def read_file(
    path: Path, as_text: Callable[[str], bool], *, name: str = "", sheet: str | None = None
) -> tuple:
    """A frame, an array or records, and what was done to read them.

    Parameters
    ----------
    path : Path
        .csv, .tsv, .txt, .xlsx, .xlsm, .parquet, .npy, .npz, .json, .jsonl or .manifest; each also
        as .gz.
    as_text : callable
        Whether the values of a column of this name stay text: 001 is no 1.
    name : str
        What an array of several in a .npz file may be called.
    sheet : str, optional
        Of a workbook; "*" reads all that have the columns of the first, with their names in a
        column `sheet`. None: the first.

    Raises
    ------
    ValueError
        Another suffix; what is broken, or would fill the memory.
    """
    kind = Path(path.name.removesuffix(".gz")).suffix.lower()
    if kind not in READERS:
        raise ValueError(f"{path.name} must end in {', '.join(READERS)}, or that and .gz")
    if not path.is_file():
        raise ValueError(f"{path.name} is no file of a table")
    try:
        _check_size(path, kind)
        return READERS[kind](path, name=name, stays=as_text, sheet=sheet)
    except ImportError:
        if kind not in (".xlsx", ".xlsm"):
            raise
        raise ImportError(
            f"to read {path.name}, pip install openpyxl; or save its sheet as CSV."
        ) from None
    except Exception as error:
        # each library has its own exceptions for files that are broken
        said = str(error).partition("\n")[0].rstrip(".")
        raise ValueError(f"{path.name} holds no {kind[1:]} table: {said}") from None


def read_source(source: str | Path, sheet: str | None = None) -> tuple:
    """All that a name or a pattern stands for, as text, in one frame or list; and notes.

    Several files have their names without suffixes in a column `file`.
    """
    import pandas as pd

    parts: list = []
    notes: list[str] = []
    files = paths_of(source)
    for path in files:
        read, said = read_file(path, lambda name: True, sheet=sheet)
        notes += said
        if len(files) == 1:
            return read if isinstance(read, (list, dict)) else pd.DataFrame(read), notes
        if isinstance(read, dict):
            raise ValueError(f"{path.name} is one record; several files must hold tables or lists")
        name = path.name.partition(".")[0]
        records = isinstance(read, list)
        parts += [{**r, "file": name} for r in read] if records else [read.assign(file=name)]
    return parts if isinstance(parts[0], dict) else pd.concat(parts, ignore_index=True), notes


def sheets_of(path: Path) -> list[str]:
    """Names of the sheets of a workbook; none where it cannot be read, or is none."""
    import pandas as pd

    ignored = warnings.catch_warnings(action="ignore")
    with suppress(Exception), ignored, pd.ExcelFile(path) as book:
        return [str(name) for name in book.sheet_names]
    return []


def _check_size(path: Path, kind: str) -> None:
    """ValueError for a file that would fill the memory when it is unpacked."""
    size: float = path.stat().st_size
    if path.suffix == ".gz":
        # as text is seldom packed to less than a twentieth
        size *= 20
    elif kind in (".npz", ".xlsx", ".xlsm"):
        with zipfile.ZipFile(path) as archive:
            size = sum(part.file_size for part in archive.infolist())
    elif kind == ".parquet":
        from pyarrow.parquet import read_metadata

        facts = read_metadata(path)
        size = facts.num_rows * facts.num_columns * 8
    if size > LARGEST:
        raise ValueError(f"unpacked it has {size:.1e} bytes, more than {LARGEST:.0e}")


def _csv(path: Path, *, stays: Callable, **_) -> tuple:
    """Separated by commas, semicolons, tabs or bars; a decimal comma is read beside the others."""
    import io

    import pandas as pd

    text, encoding = _text_of(path)
    notes = []
    if encoding != "utf-8-sig":
        notes = [f"{path.name} is no UTF-8 and was read as {encoding}."]
    lines = text.split("\n")
    above = next((i for i, line in enumerate(lines) if not _ABOVE.match(line.strip())), 0)
    separator = max(",;\t|", key=re.sub(r'"[^"]*"', "", lines[above]).count)
    options: dict = {"sep": separator, "skipinitialspace": True, "skiprows": above, **_READING}
    names = pd.read_csv(io.StringIO(text), nrows=0, **options).columns.str.strip()
    kept = {column: str for column in names if stays(column)}
    options |= {"names": names, "header": 0, "dtype": kept, "skip_blank_lines": True}
    frame = pd.read_csv(io.StringIO(text), **options)
    if separator != ",":
        commas = pd.read_csv(io.StringIO(text), decimal=",", **options)
        frame = max(commas, frame, key=lambda read: len(read.select_dtypes("number").columns))
    frame = frame.dropna(how="all")
    # Qualtrics writes its questions and ids into two rows below the names
    top = frame.head(3).astype(str).to_numpy(str)
    (ids,) = np.nonzero(np.char.startswith(top, '{"ImportId"').any(axis=1))
    return frame.iloc[ids.max() + 1 :] if ids.size else frame, notes


def _text_of(path: Path) -> tuple[str, str]:
    """A file as text, and the first encoding in which all of it is."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        import gzip

        content = gzip.decompress(content)
    encodings = ["utf-8-sig", "cp1252", "latin-1"]
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        encodings = ["utf-16"]
    for encoding in encodings:
        with suppress(UnicodeDecodeError):
            return content.decode(encoding).replace("\r\n", "\n").replace("\r", "\n"), encoding
    raise ValueError("it is no text")


def _excel(path: Path, *, stays: Callable, sheet: str | None, **_) -> tuple:
    """One sheet of a workbook, or all that have the same columns."""
    import pandas as pd

    frames = {}
    # of styles and extensions that openpyxl leaves out
    with warnings.catch_warnings(action="ignore"), pd.ExcelFile(path) as book:
        sheets = book.sheet_names
        if sheet not in (None, "*", *sheets):
            raise ValueError(f"its sheets are {sheets}, none is called {sheet!r}")
        chosen = sheets if sheet == "*" else [sheets[0] if sheet is None else sheet]
        for one in chosen:
            names = book.parse(one, nrows=0, **_READING).columns
            kept = {column: str for column in names if stays(str(column).strip())}
            frame = book.parse(one, dtype=kept, **_READING).dropna(how="all")
            frames[str(one)] = frame.set_axis(frame.columns.astype(str).str.strip(), axis=1)
    first = next(iter(frames.values()))
    if sheet == "*":
        alike = {n: f for n, f in frames.items() if list(f.columns) == list(first.columns)}
        left = [name for name in frames if name not in alike]
        notes = [f"of {path.name} the sheets {left} have other columns, left out."] * bool(left)
        return pd.concat([f.assign(sheet=n) for n, f in alike.items()], ignore_index=True), notes
    others = sheets[1:] if sheet is None else []
    notes = [f"of {path.name} the sheet {chosen[0]!r} was read, not {others}."] * bool(others)
    return first, notes


def _parquet(path: Path, *, stays: Callable, **_) -> tuple:
    import pandas as pd

    frame = pd.read_parquet(path).reset_index(drop=True)
    # lists stay lists
    for column in filter(stays, frame.select_dtypes("number")):
        frame[column] = frame[column].astype(str).where(frame[column].notna())
    return frame, []


def _npy(path: Path, **_) -> tuple:
    # the map refuses a header that promises more than the file holds
    return np.array(np.load(path, mmap_mode="r", allow_pickle=False)), []


def _npz(path: Path, *, name: str, **_) -> tuple:
    with np.load(path, allow_pickle=False) as arrays:
        names = list(arrays)
        chosen = name if name in names else names[0]
        if len(names) > 1 and name not in names:
            raise ValueError(f"it holds {names}; call one of them {name!r}")
        return arrays[chosen], []


def _json(path: Path, **_) -> tuple:
    return json.loads(_text_of(path)[0]), []


def _json_lines(path: Path, **_) -> tuple:
    lines = _text_of(path)[0].split("\n")
    return [json.loads(line) for line in lines if line.strip()], []


READERS: dict[str, Callable[..., tuple]] = {
    ".csv": _csv,
    ".tsv": _csv,
    ".txt": _csv,
    ".xlsx": _excel,
    ".xlsm": _excel,
    ".parquet": _parquet,
    ".npy": _npy,
    ".npz": _npz,
    ".json": _json,
    ".jsonl": _json_lines,
    ".manifest": _json_lines,
}
