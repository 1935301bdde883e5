"""Sums over blocks of rows: the plain sum, the same to the bit for any number of threads, also in a forked child."""

import multiprocessing
import threading

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_info

from sklearn_lhcal._ground.threads import one_blas_thread, sum_over_rows


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


def compute(a, expected):
    assert moments(a)[0] == expected
    torch.ones(200_000).exp()


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of Python: threads and fork, what is tested here
def test_a_child_process_has_threads_of_its_own(method, set_threads):
    set_threads(2)
    a = np.random.default_rng(0).normal(size=(1_000, 3))
    torch.ones(200_000).exp()  # in threads that a forked child lacks and would wait for
    child = multiprocessing.get_context(method).Process(target=compute, args=(a, moments(a)[0]))
    child.start()
    child.join(60)
    child.kill()
    assert child.exitcode == 0


def test_blas_has_its_threads_back_after_overlapping_limits():
    def threads():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    seen = {}
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))

    def first():
        with one_blas_thread():
            first_is_in.set()
            second_is_in.wait(20)
            seen["both in"] = threads()
        first_is_out.set()

    def second():
        first_is_in.wait(20)
        with one_blas_thread():
            second_is_in.set()
            first_is_out.wait(20)

    before = threads()
    both = [threading.Thread(target=f) for f in (first, second)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert set(seen["both in"]) == {1}
    assert threads() == before


def test_an_error_in_a_thread_is_raised(set_threads):
    set_threads(2)

    def fail(rows):
        raise ValueError(f"row {rows.start}")

    with pytest.raises(ValueError, match="row 0"):
        sum_over_rows(fail, 1_000, 10)
