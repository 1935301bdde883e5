"""The page of a report and its JSON, and how both are written: whole or not at all."""

import base64
import csv
import hashlib
import importlib.util
import io
import json
import math
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path

from ._figures import Picture
from ._numbers import Number
from ._words import templates

EXTRAS = ("jinja2", "matplotlib")


def check_extras() -> None:
    """ImportError where a library of the extra is absent."""
    absent = [name for name in EXTRAS if importlib.util.find_spec(name) is None]
    if absent:
        raise ImportError(
            f"A report needs {' and '.join(absent)}: pip install 'sklearn-lhcal[report]'."
        )


def as_json(data: dict) -> str:
    """JSON text; null stands for what is not defined."""
    return json.dumps(_finite(data), indent=1, allow_nan=False, ensure_ascii=False)


def _finite(value):
    """The same with None for NaN and infinity."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def filled(template: str, **names) -> str:
    """A template with its style and script, everything in it escaped."""
    style, script = (
        files(__package__).joinpath(name).read_text(encoding="utf-8")
        for name in ("page.css", "page.js")
    )
    hashes = {"style": _hash(style), "script": _hash(script)}
    page = templates().get_template(template)
    return page.render(style=style, script=script, hashes=hashes, **names).lstrip()


def _hash(content: str) -> str:
    """What a content security policy calls an inline style or script."""
    digest = hashlib.sha256(content.encode("utf-8")).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")


def by_name(numbers: list[Number]) -> dict[str, dict[str, Number]]:
    """The numbers of each class, by name, in the order of columns."""
    table: dict[str, dict[str, Number]] = {}
    for number in numbers:
        table.setdefault(str(number.class_name), {})[number.quantity] = number
    return table


def tables(of: Mapping[str, Sequence[dict]]) -> dict[str, bytes]:
    """Tables as CSV by the names of their files; an empty cell stands for what is not defined.

    Numbers have six digits; columns without a value are left out.
    """
    files = {}
    for name, rows in of.items():
        if rows:
            cells = [{key: _cell(x) for key, x in row.items()} for row in rows]
            columns = [key for key in rows[0] if any(row[key] for row in cells)]
            text = io.StringIO()
            writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
            writer.writeheader()
            writer.writerows(cells)
            files[f"tables/{name}.csv"] = text.getvalue().encode("utf-8")
    return files


def _cell(x: object) -> str:
    """A value as it stands in a cell."""
    if isinstance(x, float):
        return f"{x:.6g}" if math.isfinite(x) else ""
    return "" if x is None else str(x)


def images(drawn: dict[str, list[Picture]]) -> dict[str, bytes]:
    """Pictures by the names of their files, those of one list with numbers."""
    named = {
        f"{what}_{i}" if len(several) > 1 else what: picture
        for what, several in drawn.items()
        for i, picture in enumerate(several, start=1)
    }
    files = {f"figures/{name}.svg": picture.svg for name, picture in named.items()}
    return files | {f"figures/{name}.png": picture.png for name, picture in named.items()}


FILES = ("report.json", "report.html")
FOLDERS = ("figures", "tables")
# Of a figure or a table beside the page.
_NAME = re.compile(r"(figures|tables)/\w+\.(svg|png|csv)")
# Seconds for which one writer waits for another.
PATIENCE = 20
_LEFT = "is of another writer; delete it where there is none"


def check_folder(folder: Path) -> None:
    """OSError where the files of a report could not be written; nothing is left behind."""
    for name in FILES:
        if (folder / name).is_dir():
            raise IsADirectoryError(None, "is a folder", folder / name)
    for place in (folder / name for name in FOLDERS):
        if place.is_file():
            raise NotADirectoryError(None, "is a file, not a folder", place)
    parts = folder / ".report"
    # another writer may remove it meanwhile
    with suppress(FileNotFoundError, NotADirectoryError):
        if time.time() - parts.stat().st_mtime > PATIENCE:
            raise FileExistsError(None, _LEFT, parts)
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if not there.is_dir():
        raise NotADirectoryError(None, "is a file, not a folder", there)
    try:
        # rights do not tell of full or read-only disks
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        raise type(error)(error.errno, error.strerror, there) from None


def write_together(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write all files or none, in place of those of the report that stood there.

    Of two writers one waits for the other.
    """
    folder.mkdir(parents=True, exist_ok=True)
    check_folder(folder)
    with _alone(folder) as parts:
        for name, content in contents.items():
            _within(parts / "new", name).write_bytes(content)
        gone = _written(folder) - set(contents)
        for name in (*contents, *gone):
            if (folder / name).exists():
                shutil.copy2(folder / name, _within(parts / "old", name))
        try:
            for name in contents:
                os.replace(parts / "new" / name, _within(folder, name))
            for name in gone:
                (folder / name).unlink(missing_ok=True)
        except BaseException:
            for name in (*contents, *gone):
                old = parts / "old" / name
                if old.exists():
                    os.replace(old, folder / name)
                else:
                    (folder / name).unlink(missing_ok=True)
            raise


def _within(folder: Path, name: str) -> Path:
    """The place of a file, whose folder is there."""
    place = folder / name
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def _written(folder: Path) -> set[str]:
    """Figures and tables of the report in a folder."""
    try:
        names = json.loads((folder / "report.json").read_text(encoding="utf-8"))["files"]
        return {name for name in names if _NAME.fullmatch(name)}
    except (OSError, ValueError, LookupError, TypeError):
        return set()


@contextmanager
def _alone(folder: Path) -> Iterator[Path]:
    """A new folder for the parts, which one writer at a time can make: on any system."""
    parts = folder / ".report"
    until = time.monotonic() + PATIENCE
    while True:
        try:
            parts.mkdir()
            break
        except FileExistsError:
            if time.monotonic() > until:
                raise FileExistsError(None, _LEFT, parts) from None
            time.sleep(0.02)
    try:
        yield parts
    finally:
        shutil.rmtree(parts)
