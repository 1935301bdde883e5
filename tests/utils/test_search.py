"""Searches for a minimum, by second derivatives and by first ones.

They are private: that they end at a minimum is seen without a calibrator, on functions in closed
form.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from sklearn_lhcal._utils import search
from sklearn_lhcal._utils.search import lbfgs, newton
from sklearn_lhcal.calibration import AlphaCalibration
from sklearn_lhcal.datasets import make_label_histograms


def slopes(function):
    """Value and gradient, without the Hessian."""
    return lambda x: function(x)[:2]


def recorded(function):
    """The function, and the list of places where it was asked."""
    places = []

    def terms(x):
        places.append(np.array(x))
        return function(x)

    return terms, places


def rosenbrock(x):
    a, b = 1 - x[0], x[1] - x[0] ** 2
    slope = np.array([-2 * a - 400 * x[0] * b, 200 * b])
    H = np.array([[2 - 400 * b + 800 * x[0] ** 2, -400 * x[0]], [-400 * x[0], 200]])
    return a**2 + 100 * b**2, slope, H


def hilly(height):
    """Of twelve parameters with a prior, and waves where the Hessian is indefinite."""
    A = np.random.default_rng(0).normal(size=(12, 12)) / 3
    d = np.full(12, 0.5)

    def function(x):
        v = A @ x
        value = 0.5 * d @ x**2 + np.logaddexp(0, v).sum() - height * np.cos(x).sum()
        p = 1 / (1 + np.exp(-v))
        slope = d * x + A.T @ p + height * np.sin(x)
        H = A.T @ np.diag(p * (1 - p)) @ A + np.diag(d + height * np.cos(x))
        return float(value), slope, H

    return function


def bowl(x):
    """√(1 + x²): |x| far from 0, where the plain iteration diverges."""
    root = np.sqrt(1 + x[0] ** 2)
    return float(root), x / root, np.array([[root**-3]])


# --- where there is a minimum ---


def test_a_quadratic_function_takes_one_step():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(5, 5))
    H = A @ A.T + np.eye(5)
    best = rng.normal(size=5)
    terms, places = recorded(lambda x: ((x - best) @ H @ (x - best) / 2, H @ (x - best), H))
    assert_allclose(newton(terms, np.zeros(5)), best, rtol=1e-12)
    assert len(places) == 2
    assert_allclose(places[1], best, rtol=1e-12)
    assert_allclose(lbfgs(slopes(terms), np.zeros(5)), best, rtol=1e-7)


def test_both_find_the_end_of_a_bent_valley():
    start = np.array([-1.2, 1.0])
    assert_allclose(newton(rosenbrock, start), [1, 1], atol=1e-8)
    assert_allclose(lbfgs(slopes(rosenbrock), start), [1, 1], atol=1e-6)


@pytest.mark.parametrize("height", [0.0, 0.3, 2.0], ids=["convex", "convex waves", "waves"])
def test_newton_ends_at_a_minimum_of_what_is_not_convex(height):
    function, start = hilly(height), np.linspace(-3, 3, 12)
    assert (np.linalg.eigvalsh(function(start)[2]).min() < 0) == (height > 1)
    x = newton(function, start)
    _, slope, H = function(x)
    assert np.abs(slope).max() < 1e-6
    assert np.linalg.eigvalsh(H).min() > 0
    if height < 1:
        assert_allclose(x, lbfgs(slopes(function), start), atol=1e-6)


def test_newton_descends_where_the_plain_iteration_diverges():
    terms, places = recorded(bowl)
    assert_allclose(newton(terms, np.array([10.0])), 0, atol=1e-6)
    # no step is long, though the first would be of a thousand
    assert np.abs(np.diff(places, axis=0)).max() <= 5 + 1e-12
    assert_allclose(lbfgs(slopes(bowl), np.array([10.0])), 0, atol=1e-6)


def test_newton_leaves_a_maximum():
    """Beside one, where the plain iteration climbs; −cos has its minimum at 0."""
    x = newton(lambda x: (float(-np.cos(x[0])), np.sin(x), np.cos(x)[:, None]), np.array([3.0]))
    assert_allclose(x, 0, atol=1e-6)


def test_newton_stays_where_a_direction_does_not_matter():
    """Of x + y alone: the difference keeps its start."""

    def function(x):
        v = np.exp(x.sum()) - 1
        slope = np.full(2, 2 * v * (v + 1))
        return v**2, slope, np.full((2, 2), 2 * (v + 1) * (2 * v + 1))

    assert_allclose(newton(function, np.array([3.0, -2.0])), [2.5, -2.5])
    assert_allclose(lbfgs(slopes(function), np.array([3.0, -2.0])), [2.5, -2.5])


def test_the_start_stays_as_it_was():
    start = np.array([-1.2, 1.0])
    newton(rosenbrock, start)
    lbfgs(slopes(rosenbrock), start)
    assert_array_equal(start, [-1.2, 1.0])


def test_a_wide_tolerance_ends_sooner():
    counts = []
    for tol in (1e-9, 1e-2):
        terms, places = recorded(slopes(rosenbrock))
        x = lbfgs(terms, np.array([-1.2, 1.0]), tol=tol)
        assert np.abs(rosenbrock(x)[1]).max() <= tol
        counts.append(len(places))
    assert counts[1] < counts[0]


# --- where there is none ---

UNFINISHED = "stopped before its minimum"


def test_newton_says_where_there_is_no_minimum():
    """−log x falls for ever."""
    start = np.ones(1)
    with pytest.warns(ConvergenceWarning, match=UNFINISHED) as seen:
        x = newton(lambda x: (float(-np.log(x[0])), -1 / x, x[:, None] ** -2.0), start)
    assert x > 100
    assert [one.filename for one in seen] == [__file__]


def test_newton_says_where_it_is_stuck():
    """A gradient that the function does not follow."""
    with pytest.warns(ConvergenceWarning, match=UNFINISHED):
        x = newton(lambda x: (1.0, np.ones(1), np.eye(1)), np.zeros(1))
    assert_array_equal(x, 0)


@pytest.mark.parametrize("size", [0, 1e6])
def test_what_rounding_hides_is_no_warning(size):
    """Values in whole numbers show no step that falls; next to a million nothing is missed."""

    def terms(x):
        value, *others = bowl(x)
        return round(size + value), *others

    if size:
        assert abs(newton(terms, np.array([0.9]))) < 1
    else:
        with pytest.warns(ConvergenceWarning, match=UNFINISHED):
            newton(terms, np.array([0.9]))


def test_lbfgs_says_where_there_is_no_minimum():
    """A bent valley whose mixing falls for ever."""

    def function(x):
        b = x[1] - x[0] ** 2
        return 100 * b**2 - 0.01 * x[0], np.array([-400 * x[0] * b - 0.01, 200 * b])

    with pytest.warns(ConvergenceWarning, match=UNFINISHED) as seen:
        x = lbfgs(function, np.zeros(2))
    assert x[0] > 1
    assert [one.filename for one in seen] == [__file__]


def test_a_fit_whose_search_stops_says_the_remedy(monkeypatch):
    calibrator = AlphaCalibration("proba")
    data = make_label_histograms(300, n_classes=3, n_raters=4, total=3.0, random_state=0)
    calibrator.fit(data.prediction, data.counts)
    monkeypatch.setattr(search, "_MOST", 1)
    with pytest.warns(ConvergenceWarning, match="; calibrate on more samples"):
        calibrator.fit(data.prediction, data.counts)
