"""BallCarvingSplit.

The set laws of its three parts, balls in dense places, whatever the scale and the dimension.
"""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import GaussianNB

from sklearn_lhcal.model_selection import BallCarvingSplit


def points(n=500, d=2, seed=0):
    return np.random.default_rng(seed).uniform(size=(n, d))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(20, 300),
    d=st.integers(1, 8),
    n_balls=st.integers(1, 8),
    low=st.floats(0, 0.5),
    width=st.floats(0, 0.3),
    test=st.floats(0.2, 0.5),
    radius=st.one_of(st.just("auto"), st.floats(0.3, 1)),
    seed=st.integers(0, 2**31 - 1),
)
def test_the_parts_obey_their_laws(n, d, n_balls, low, width, test, radius, seed):
    high = min(low + width, 1 - test)
    splitter = BallCarvingSplit(
        radius, n_balls, (min(low, high), high), test, n_splits=2, random_state=seed
    )
    X = points(n, d, seed)
    try:
        train, augmented, test_rows = splitter.split_augmented(X)
    except ValueError as error:  # balls that hold everything, or too little
        if "samples for training and" not in str(error):
            raise
        return
    assert set(train) <= set(augmented)
    assert not set(augmented) & set(test_rows)
    assert len(augmented) + len(test_rows) == n
    assert_array_equal(np.sort(np.concatenate([augmented, test_rows])), np.arange(n))
    for rows in (train, augmented, test_rows):
        assert (np.diff(rows) > 0).all()
    first = next(splitter.split(X))
    assert_array_equal(first[0], train)
    assert_array_equal(first[1], test_rows)


@pytest.mark.parametrize("d", [2, 50])
def test_what_is_carved_lies_in_balls_of_one_radius(d):
    """Each ball is full.

    Of the samples within the radius of its centre none is left in training if none is kept.
    """
    X, R = points(800, d), {2: 0.1, 50: 2.6}[d]
    train, _, _ = BallCarvingSplit(R, 5, keep_fraction=0.0, random_state=1).split_augmented(X)
    carved = np.setdiff1d(np.arange(800), train)
    within = cdist(X, X) <= R
    centres = [c for c in carved if np.isin(np.flatnonzero(within[c]), carved).all()]
    assert within[np.ix_(carved, centres)].any(axis=1).all()


def test_fractions_are_those_asked_for():
    X = points(20_000)
    train, augmented, test = BallCarvingSplit(0.05, 10, 0.25, 0.4, random_state=0).split_augmented(
        X
    )
    delayed = len(augmented) - len(train)
    carved = (len(test) + delayed) / 0.75
    assert len(test) == pytest.approx(0.4 * carved, rel=0.02)
    assert delayed == pytest.approx(0.35 * carved, rel=0.02)


def test_a_range_varies_what_is_kept():
    """The share kept differs between balls; a number keeps the same share in all."""
    cluster = np.repeat(np.arange(8), 100)
    X = 10.0 * cluster[:, None] + points(800)
    for keep in (0.3, (0.1, 0.6)):
        train, _, test = BallCarvingSplit(2.0, 6, keep, random_state=0).split_augmented(X)
        share = np.bincount(cluster[train])[np.unique(cluster[test])] / 100
        assert len(share) == 6
        if keep == 0.3:
            assert (share == 0.3).all()
        else:
            assert 0.1 <= share.min() < share.max() - 0.1 <= 0.5


def test_a_range_varies_what_is_tested():
    X, cluster = 10.0 * np.repeat(np.arange(8), 100)[:, None] + points(800), np.arange(800) // 100
    splitter = BallCarvingSplit(2.0, 6, 0.2, (0.1, 0.7), random_state=0)
    _, _, test = splitter.split_augmented(X)
    share = np.bincount(cluster[test])[np.unique(cluster[test])] / 100
    assert len(share) == 6
    assert 0.1 <= share.min() < share.max() - 0.1 <= 0.6
    # a range without width is a number
    for one, other in zip(
        BallCarvingSplit(test_fraction=0.4, random_state=0).split_augmented(X),
        BallCarvingSplit(test_fraction=(0.4, 0.4), random_state=0).split_augmented(X),
        strict=True,
    ):
        assert_array_equal(one, other)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_balls_around_given_centres(form):
    """All samples within the radius are carved, and no others."""
    X, centers = points(2000), [[0.2, 0.2], [0.2, 0.8], [0.8, 0.5]]
    splitter = BallCarvingSplit(0.1, keep_fraction=0.0, centers=centers, random_state=0)
    train, augmented, test = splitter.split_augmented(form(X))
    inside = (cdist(X, centers) <= 0.1).any(axis=1)
    assert_array_equal(train, np.flatnonzero(~inside))
    assert len(test) == pytest.approx(0.3 * inside.sum(), abs=3)
    assert len(augmented) + len(test) == 2000


def test_the_automatic_radius_of_given_centres():
    """Balls of a grid hold about thirty per cent, as those that are searched for."""
    X = points(4000)
    grid = np.stack(np.meshgrid([0.25, 0.5, 0.75], [0.25, 0.5, 0.75]), axis=-1).reshape(9, 2)
    train, *_ = BallCarvingSplit(keep_fraction=0.0, centers=grid, random_state=0).split_augmented(X)
    assert 0.2 < 1 - len(train) / 4000 < 0.35


def test_centres_lie_where_the_features_are():
    X = points(500)
    double = BallCarvingSplit(
        0.2, features=lambda X: 2 * X, centers=[[1.0, 1.0]], keep_fraction=0.0, random_state=0
    )
    plain = BallCarvingSplit(0.1, centers=[[0.5, 0.5]], keep_fraction=0.0, random_state=0)
    for one, other in zip(double.split_augmented(X), plain.split_augmented(X), strict=True):
        assert_array_equal(one, other)


@pytest.mark.parametrize("d", [2, 50])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_automatic_radius_knows_no_unit_and_no_dimension(d, scale):
    X = points(2000, d)
    parts = BallCarvingSplit(random_state=0).split_augmented(scale * X)
    for part, same in zip(BallCarvingSplit(random_state=0).split_augmented(X), parts, strict=True):
        assert_array_equal(part, same)
    assert 0.15 < 1 - len(parts[0]) / 2000 < 0.4  # thirty per cent less overlap and what is kept


def test_balls_are_carved_where_rows_are_dense_and_apart():
    rng = np.random.default_rng(0)
    dense, sparse = rng.normal(size=(900, 2)), rng.uniform(-30, 30, size=(300, 2))
    X = np.concatenate([dense, sparse])
    _, _, test = BallCarvingSplit(n_balls=4, random_state=0).split_augmented(X)
    assert (test < 900).mean() > 0.95
    X = points(5000)
    train, _, _ = BallCarvingSplit(0.05, 6, 0.0, random_state=0).split_augmented(X)
    assert (
        1 - len(train) / 5000 > 0.95 * 6 * (cdist(X, X[:200]) < 0.05).mean()
    )  # the balls do not overlap


def test_seeds_are_honoured_and_the_global_generator_is_left_alone():
    X = points()
    np.random.seed(0)  # noqa: NPY002
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    one, two, other = (
        list(BallCarvingSplit(n_splits=3, random_state=seed).split(X))
        for seed in (0, np.random.RandomState(0), 1)
    )
    assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    for a, b in zip(one, two, strict=True):
        assert_array_equal(a[0], b[0])
        assert_array_equal(a[1], b[1])
    assert not np.array_equal(one[0][1], other[0][1])
    assert not np.array_equal(one[0][1], one[1][1])


def test_forms_of_X():
    X = points()
    expected = BallCarvingSplit(random_state=0).split_augmented(X)
    for form in (pd.DataFrame(X), X.tolist(), sp.csc_array(X), X[:, ::-1]):
        for part, same in zip(
            expected, BallCarvingSplit(random_state=0).split_augmented(form), strict=True
        ):
            assert_array_equal(part, same, err_msg=type(form).__name__)


def test_it_is_a_splitter():
    X = points()
    y = (X[:, 0] > 0.5).astype(int)
    splitter = BallCarvingSplit(n_splits=3, random_state=0)
    assert splitter.get_n_splits(X, y) == 3
    assert clone(splitter).get_params() == splitter.get_params()
    scores = cross_val_score(GaussianNB(), X, y, cv=splitter)
    by_hand = [GaussianNB().fit(X[a], y[a]).score(X[b], y[b]) for a, b in splitter.split(X, y)]
    assert_array_equal(scores, by_hand)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"keep_fraction": (0.3, 0.1)}, "ascending range"),
        ({"keep_fraction": 1.0}, "keep_fraction must be a number"),
        ({"keep_fraction": 0.5, "test_fraction": 0.6}, "at most what is left"),
        ({"test_fraction": 0.0}, "test_fraction must lie between 0 and 1"),
        ({"n_balls": 0}, "n_balls must be an int of at least 1"),
        ({"n_splits": 0}, "n_splits must be an int of at least 1"),
        ({"test_fraction": (0.5, 0.2)}, "or such a range"),
        ({"keep_fraction": 0.5, "test_fraction": (0.1, 0.6)}, "at most what is left"),
        (
            {"centers": [[0.5, 0.5], [9.0, 0.5]], "radius": 0.2},
            r"1 of 2 centers lie outside the data, with no sample within 0.2: \{1: \[9.0, 0.5\]\}",
        ),
        ({"centers": [[0.5, 0.5], [9.0, 0.5]]}, r"outside the data.*\{1: \[9.0, 0.5\]\}"),
        ({"centers": [[0.5, 0.5, 0.5]]}, r"centers has shape \(1, 3\).* 2 dimensions"),
        ({"centers": [[np.nan, 0.5]]}, "centers contains NaN"),
        ({"centers": [0.5, 0.5]}, "Expected 2D array"),
        ({"radius": -1.0}, "radius must be a finite number above 0"),
        ({"radius": 1e-9}, "give a larger radius"),
        ({"radius": 10.0, "keep_fraction": 0.0}, "give a smaller radius"),
    ],
)
def test_errors(change, message):
    with pytest.raises(ValueError, match=message):
        BallCarvingSplit(random_state=0, **change).split_augmented(points())
    with pytest.raises(ValueError, match=message):
        next(BallCarvingSplit(random_state=0, **change).split(points()))


def test_a_class_that_only_the_balls_hold_is_named():
    X = np.concatenate([points(300), points(100) * 0.01 + 5])
    y = np.repeat(["common", "rare"], [300, 100])
    with pytest.raises(
        ValueError, match=r"No label of class \['rare'\] in the training samples beside the balls"
    ):
        BallCarvingSplit(0.1, 1, keep_fraction=0.0, random_state=0).split_augmented(X, y)
    with pytest.raises(ValueError, match="X has 400 samples, expected 399"):
        BallCarvingSplit(random_state=0).split_augmented(X, y[:-1])
