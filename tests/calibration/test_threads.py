"""Fits on many rows are the same for any number of threads, and BLAS gets its own threads back.

The limit is private: two threads enter it at the same time.
"""

import multiprocessing
import threading

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_info

from sklearn_lhcal.calibration import AlphaCalibration, PrecomputedClassifier
from sklearn_lhcal.calibration._base import one_blas_thread

# rows of 63 features, of which a block of sums holds 8,192
N = 12_000
rng = np.random.default_rng(0)
Z = rng.dirichlet([2, 2, 2], N)
H = rng.normal(size=(N, 63))
SAID = np.stack([rng.dirichlet(a * z) for a, z in zip(3 * np.exp(H[:, 0] / 2), Z, strict=True)])
Y = rng.multinomial(4, SAID)


@pytest.fixture
def set_threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def features(X):
    return X[:, 3:]


def line(times=1):
    """log α0 on the features, fitted on so many copies of the rows."""
    outputs = PrecomputedClassifier("proba", columns=[0, 1, 2])
    calibrator = AlphaCalibration(outputs, features=features)
    X = np.hstack([Z, H])
    fitted = calibrator.fit(np.tile(X, (times, 1)), np.tile(Y, (times, 1)))
    return np.append(fitted.coef_, fitted.intercept_)


def test_sums_over_rows_are_the_same_to_the_bit_for_any_number_of_threads(set_threads):
    found = []
    for threads in (1, 2, 7):
        set_threads(threads)
        found.append(line())
    assert_array_equal(found[1], found[0])
    assert_array_equal(found[2], found[0])
    # other blocks: 4e-11 was seen
    assert_allclose(line(2), found[0], atol=1e-9)


def product(a):
    with one_blas_thread():
        return a.T @ a


def compute(a, expected, n_threads):
    assert_array_equal(product(a), expected)
    if n_threads is not None:
        assert torch.get_num_threads() == n_threads


@pytest.mark.slow
@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
@pytest.mark.filterwarnings(
    "ignore:.*fork:DeprecationWarning"
)  # of Python: threads and fork, what is tested here
def test_a_child_process_computes_the_same(method, set_threads):
    """A forked one has as many threads of torch as its parent."""
    set_threads(2)
    arguments = (H, product(H), 2 if method == "fork" else None)
    child = multiprocessing.get_context(method).Process(target=compute, args=arguments)
    child.start()
    # it imports torch; that takes long where much else runs
    child.join(240)
    child.kill()
    assert child.exitcode == 0


def test_blas_has_its_threads_back_after_overlapping_limits():
    def threads():
        return [
            library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
        ]

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
