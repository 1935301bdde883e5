"""Sums over blocks of rows in several threads.

NumPy and BLAS release Python's lock while they compute.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, reduce
from threading import Lock
from typing import Any

import torch
from threadpoolctl import ThreadpoolController

_limited = Lock()
_PARTS = 16  # of the rows, whatever the number of threads: what is added to what stays the same


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()  # once, for it looks at all loaded libraries


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """A context for products of small blocks, which wait for the threads of BLAS longer than they
    would take alone.

    This is the one exception to the rule that no global state is changed. BLAS knows no limit for a
    single Python thread: the limit holds for the whole process, until the first that set it leaves.
    It stays, because two threads of BLAS within each of two Python threads get in each other's way.
    Matrix scaling of many rows is many times slower without the limit.
    """
    if not _limited.acquire(blocking=False):
        yield
        return
    try:
        with _libraries().limit(limits=1, user_api="blas"):
            yield
    finally:
        _limited.release()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads)  # kept, for threads take a millisecond to start


if hasattr(os, "register_at_fork"):
    # a child has none of the threads of its parent, which the pool would wait for
    os.register_at_fork(after_in_child=_pool.cache_clear)


def sum_over_rows(function: Callable[[slice], Any], n_rows: int, size: int) -> list:
    """The sums over blocks of `size` rows of the tuple that `function(rows)` returns, in as many
    threads as torch uses.

    The result is the same to the bit for any number of threads. BLAS should have one thread, see
    `one_blas_thread`."""

    def add(total, more):
        return [a + b for a, b in zip(total, more, strict=True)]

    if n_rows <= size:
        return list(function(slice(0, n_rows)))
    blocks = [slice(begin, begin + size) for begin in range(0, n_rows, size)]
    step = -(-len(blocks) // _PARTS)
    parts = [blocks[begin : begin + step] for begin in range(0, len(blocks), step)]
    threads = min(torch.get_num_threads(), len(blocks) // 4)  # more would wait for one another
    if threads < 2:
        return reduce(add, (reduce(add, map(function, part)) for part in parts))
    return reduce(add, _pool(threads).map(lambda part: reduce(add, map(function, part)), parts))
