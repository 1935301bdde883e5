"""Files of data sets: those beside this one, and those that are downloaded once and checked."""

import hashlib
import re
import tempfile
import time
from collections.abc import Callable
from http.client import HTTPException
from importlib.resources import files
from pathlib import Path
from socket import SHUT_RDWR
from threading import Timer
from typing import Any, BinaryIO, NamedTuple
from urllib.error import HTTPError
from urllib.request import HTTPHandler, HTTPSHandler, build_opener

from sklearn.datasets import get_data_home


def text_of(*path: str) -> str:
    """What a file beside this one holds."""
    return files(__package__).joinpath(*path).read_text(encoding="utf-8")


def description(name: str) -> str:
    """The text about the data set of this name."""
    return text_of("descr", f"{name}.rst")


_SCHEMES = ("https", "http", "file")
# times the timeout, for the whole download
_LONGEST = 10


class _InTime:
    """Ends a connection whose headers come too slowly: a timeout is for each piece of them."""

    def do_open(self, http_class, req, **options):
        """A connection, which a timer ends."""
        made = []

        def connect(*args, **kwargs):
            made.append(http_class(*args, **kwargs))
            return made[0]

        def end():
            if made and made[0].sock is not None:
                made[0].sock.shutdown(SHUT_RDWR)

        timer = Timer(_LONGEST * req.timeout, end)
        timer.start()
        try:
            return super().do_open(connect, req, **options)
        finally:
            timer.cancel()


class _Http(_InTime, HTTPHandler):
    """Of http."""


class _Https(_InTime, HTTPSHandler):
    """Of https."""


class PublishedFile(NamedTuple):
    """A file as it was published.

    Parameters
    ----------
    name : str
    digest : str or None
        In hexadecimal digits; None where none was published, and `content` alone decides.
    algorithm : str
        Of the published digest: "sha256" or "md5".
    largest : int
        Bytes above which it is not this file.
    content : callable
        What the bytes hold; an OSError with the reason where it is something else.
    """

    name: str
    digest: str | None
    algorithm: str
    largest: int
    content: Callable[[bytes], Any]


def fetch(
    file: PublishedFile,
    data_home,
    download_if_missing: bool,
    base_url: str,
    checksum: str | None,
    timeout: float,
):
    """The content of the file in the data home, downloaded where it is missing."""
    if base_url.partition(":")[0].lower() not in _SCHEMES:
        raise ValueError(f"base_url must begin with one of {_SCHEMES}, got {base_url!r}.")
    if checksum is not None and not re.fullmatch("[0-9a-fA-F]{64}", str(checksum)):
        raise ValueError(f"checksum must hold 64 hexadecimal digits, got {checksum!r}.")
    path = Path(get_data_home(data_home)) / file.name
    url = f"{base_url.rstrip('/')}/{file.name}"
    if path.exists():
        return _read(file, path, checksum, f"{path} (remove it to download it again)")
    if download_if_missing:
        return _download(file, url, path, checksum, timeout)
    raise OSError(
        f"Data not found and `download_if_missing` is False: download {url} and put it at {path}."
    )


def _download(file: PublishedFile, url: str, path: Path, checksum: str | None, timeout: float):
    """The content of the file at `url`, which is at `path` only once it has been checked."""
    with tempfile.TemporaryDirectory(prefix=f"{path.name}.part_", dir=path.parent) as folder:
        part = Path(folder) / path.name
        try:
            deadline = time.monotonic() + _LONGEST * timeout
            opener = build_opener(_Http, _Https)
            # the scheme was checked above
            with opener.open(url, timeout=timeout) as response, part.open("wb") as target:
                size = _copy(response, target, deadline, file.largest)
                said = response.headers.get("Content-Length")
        except (OSError, HTTPException, ValueError) as error:
            if isinstance(error, HTTPError):
                error.close()
            raise OSError(
                f"Could not download {url} ({error}). Download it elsewhere and put it at {path}."
            ) from error
        if said is not None and said.strip().isdecimal() and size != int(said):
            raise OSError(f"The download of {url} is truncated: {size} of {said} bytes came.")
        content = _read(file, part, checksum, f"The file at {url}")
        part.replace(path)
    return content


def _copy(response: BinaryIO, file: BinaryIO, deadline: float, largest: int) -> int:
    """Bytes copied; an OSError where they are too many, or take too long."""
    # read1 returns what is there; read would wait for all of a chunk
    read = getattr(response, "read1", response.read)
    size, chunk = 0, b"-"
    # a connection that was ended for being late ends with an empty chunk
    while chunk:
        chunk = read(65_536)
        size += len(chunk)
        if size > largest:
            raise OSError(f"it has more than {largest} bytes")
        if time.monotonic() > deadline:
            raise OSError(f"it timed out after {size} bytes")
        file.write(chunk)
    return size


def _read(file: PublishedFile, path: Path, checksum: str | None, origin: str):
    """What a checked file holds; `origin` is what an error calls the file."""
    if (size := path.stat().st_size) > file.largest:
        raise OSError(f"{origin} has {size} bytes, more than {file.largest}.")
    data = path.read_bytes()
    algorithm = file.algorithm if checksum is None else "sha256"
    result = hashlib.new(algorithm, data, usedforsecurity=False).hexdigest()
    expected = checksum or file.digest
    if expected is not None and result != expected.lower():
        raise OSError(
            f"{origin} is truncated, or another file: checksum {result}, expected {expected}."
        )
    try:
        return file.content(data)
    except OSError as error:
        raise OSError(f"{origin} {error}") from error
