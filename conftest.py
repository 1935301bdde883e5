"""For all tests and doctests: one thread a process, figures unseen and closed after each."""

import os
import random
import sys

import pytest

os.environ.setdefault("MPLBACKEND", "Agg")
for threads in (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
):  # the tests run side by side, one process a core
    os.environ.setdefault(threads, "1")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def pytest_collection_modifyitems(items):
    """Any order, where SHUFFLE holds a seed: no test may lean on another."""
    if "SHUFFLE" in os.environ:
        random.Random(os.environ["SHUFFLE"]).shuffle(items)
