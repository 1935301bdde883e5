"""Where a report goes: looked at before anything is computed, and written whole or not at all."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

FILES = ("report.json", "report.html")
# Seconds for which one writer waits for another.
PATIENCE = 20


def check_folder(folder: Path) -> None:
    """OSError where the files of a report could not be written; nothing is left behind."""
    for name in FILES:
        if (folder / name).is_dir():
            raise IsADirectoryError(None, "is a folder", folder / name)
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if not there.is_dir():
        raise NotADirectoryError(None, "is a file, not a folder", there)
    try:
        # rights do not tell of full or read-only disks
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        raise type(error)(error.errno, error.strerror, there) from None


def write_together(folder: Path, contents: Mapping[str, str]) -> None:
    """Write all files or none; of two writers one waits for the other."""
    folder.mkdir(parents=True, exist_ok=True)
    check_folder(folder)
    with _alone(folder) as parts:
        for name, content in contents.items():
            (parts / name).write_text(content, encoding="utf-8")
            if (folder / name).exists():
                shutil.copy2(folder / name, parts / f"old {name}")
        try:
            for name in contents:
                os.replace(parts / name, folder / name)
        except BaseException:
            for name in contents:
                _restore(parts / f"old {name}", folder / name)
            raise


def _restore(old: Path, file: Path) -> None:
    """What stood in the place of a file; nothing where nothing did."""
    if old.exists():
        os.replace(old, file)
    else:
        file.unlink(missing_ok=True)


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
                said = "is of another writer; delete it where there is none"
                raise FileExistsError(None, said, parts) from None
            time.sleep(0.02)
    try:
        yield parts
    finally:
        shutil.rmtree(parts)
