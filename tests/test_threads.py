"""Sums over blocks of rows: the plain sum, the same to the bit for any number of threads, also in a forked child."""

import os

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_lhcal._threads import one_blas_thread, sum_over_rows


@pytest.fixture
def set_threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def moments(a):
    with one_blas_thread():
        return sum_over_rows(lambda rows: (a[rows].sum(), a[rows].T @ a[rows]), len(a), 10)


@pytest.mark.parametrize("n", [1, 10, 11, 1_237])
def test_sums_are_the_plain_ones_to_the_bit_for_any_number_of_threads(n, set_threads):
    a = np.random.default_rng(0).normal(size=(n, 3))
    found = []
    for threads in (1, 2, 3, 7):
        set_threads(threads)
        found.append(moments(a))
    assert_allclose(found[0][0], a.sum())
    assert_allclose(found[0][1], a.T @ a)
    for other in found[1:]:
        assert_array_equal(other[0], found[0][0])
        assert_array_equal(other[1], found[0][1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of Python: threads and fork, what is tested here
def test_a_forked_child_has_threads_of_its_own(set_threads):
    set_threads(2)
    a = np.random.default_rng(0).normal(size=(1_000, 3))
    expected = moments(a)[0]
    child = os.fork()
    if child == 0:
        os._exit(0 if moments(a)[0] == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_an_error_in_a_thread_is_raised(set_threads):
    set_threads(2)

    def fail(rows):
        raise ValueError(f"row {rows.start}")

    with pytest.raises(ValueError, match="row 0"):
        sum_over_rows(fail, 1_000, 10)
