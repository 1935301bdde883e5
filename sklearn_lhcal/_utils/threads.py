"""Sums over blocks of rows, the same to the bit whatever the number of threads."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, reduce
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

_limited = Lock()


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()  # once, for it looks at all loaded libraries


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """A context for products of small blocks, which wait for the threads of BLAS longer than they
    would take alone.

    This is the one exception to the rule that no global state is changed. BLAS knows no limit for a
    single Python thread: the limit holds for the whole process, until the first that set it leaves.
    It stays: matrix scaling of many rows is several times slower without the limit, and its sums
    would depend on the number of threads.
    """
    if not _limited.acquire(blocking=False):
        yield
        return
    try:
        with _libraries().limit(limits=1, user_api="blas"):
            yield
    finally:
        _limited.release()


def sum_over_rows(function: Callable[[slice], Any], n_rows: int, size: int) -> list:
    """The sums over blocks of `size` rows of the tuple that `function(rows)` returns.

    Blocks keep what is made on the way small.
    """
    blocks = (slice(start, start + size) for start in range(0, max(n_rows, 1), size))
    return list(reduce(_added, map(function, blocks)))


def _added(total, more):
    return [a + b for a, b in zip(total, more, strict=True)]
