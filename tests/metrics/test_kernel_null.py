"""The null of a calibration error where raters rate many rows."""

import numpy as np
import pytest

from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import null_calibration_error

OPTIONS = {"bandwidth": 0.1, "n_draws": 49, "random_state": 0}


def study(seed, n=100, R=5, lean=0.8):
    """Ratings by a crossed panel, and predictions that are right on average over new raters.

    A rater moves probability between the first two classes, one way or the other.
    """
    rng = np.random.default_rng(seed)
    z = rng.dirichlet(np.ones(3), n)
    Q = rng.gamma(8 * z)
    Q /= Q.sum(axis=1, keepdims=True)
    moved = lean * rng.choice([-1, 1], R) * np.minimum(Q[:, 0], Q[:, 1])[:, None]
    p = np.stack([Q[:, :1] + moved, Q[:, 1:2] - moved, np.repeat(Q[:, 2:], R, axis=1)], axis=2)
    labels = (rng.random((n, R, 1)) > p.cumsum(axis=2)[:, :, :2]).sum(axis=2)
    return Annotations.from_matrix(labels, classes=[0, 1, 2]), z


@pytest.mark.slow
def test_a_panel_that_leans_by_chance_is_no_miscalibration():
    """Rejections at .10, within four standard errors of .10; .5 where raters are forgotten."""
    known, forgotten = [], []
    for seed in range(80):
        y, z = study(seed)
        known.append(null_calibration_error(y, z, **OPTIONS).p_value)
        forgotten.append(null_calibration_error(y.counts, z, **OPTIONS).p_value)
    four = 4 * np.sqrt(0.1 * 0.9 / 80)
    assert np.mean(np.array(known) <= 0.1) < 0.1 + four < np.mean(np.array(forgotten) <= 0.1)


def test_predictions_that_are_too_sharp_are_found():
    y, z = study(0, n=300, lean=0.3)
    sharp = z**2 / (z**2).sum(axis=1, keepdims=True)
    assert null_calibration_error(y, sharp, **OPTIONS).p_value == 1 / 50


def test_raters_of_one_rating_each_change_nothing():
    """Then nobody is shared, and the null is that of bare counts; with groups too."""
    y, z = study(1)
    for groups in (None, np.arange(100) // 4):
        bare = null_calibration_error(y.counts, z, groups=groups, **OPTIONS)
        alone = null_calibration_error(
            Annotations.from_counts(y.counts), z, groups=groups, **OPTIONS
        )
        np.testing.assert_equal(alone._asdict(), bare._asdict())


def test_a_rater_without_ratings_changes_nothing():
    y, z = study(1)
    more = Annotations(y.indptr, y.rater, y.label, raters=np.arange(6), classes=y.classes)
    found, expected = (null_calibration_error(labels, z, **OPTIONS) for labels in (more, y))
    for name, value in found._asdict().items():
        np.testing.assert_allclose(value, getattr(expected, name), rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("groups", [None, np.arange(100) // 4])
def test_order_and_names_of_raters_make_no_difference_to_the_error(groups):
    """The draws differ, the level and the spread of the null do not: five standard errors."""
    y, z = study(2)
    other = Annotations.from_long(
        y.row, np.array(list("edcba"))[y.rater], y.label, classes=[0, 1, 2]
    )
    options = OPTIONS | {"n_draws": 400}
    one = null_calibration_error(y, z, groups=groups, **options)
    two = null_calibration_error(other, z, groups=groups, **options)
    assert one.estimate == pytest.approx(two.estimate, rel=1e-12)
    spread = (one.quantiles[-1] - one.quantiles[0]) / 3.3
    assert abs(one.mean - two.mean) < 5 * spread * np.sqrt(2 / 400)


def test_raters_who_always_say_the_same_are_drawn_whole():
    """Of two, the signs are alike or not."""
    y = Annotations.from_matrix(np.tile([0, 1], (10, 1)))
    null = null_calibration_error(
        y, np.tile([0.7, 0.3], (10, 1)), **OPTIONS, quantiles=np.linspace(0, 1, 49)
    )
    assert len(np.unique(null.quantiles.round(10))) == 2


def test_a_rater_who_does_not_lean_changes_nothing():
    """The null is that of rows that are groups of their own."""
    y = Annotations.from_matrix([[0], [0], [0], [1], [1], [1], [1], [1]])
    z = np.linspace([0.4, 0.6], [0.6, 0.4], 8)
    found, expected = (
        null_calibration_error(labels, z, groups=np.arange(8), **OPTIONS)
        for labels in (y, y.counts)
    )
    np.testing.assert_equal(found._asdict(), expected._asdict())


def test_one_draw_at_least():
    y, z = study(1)
    with pytest.raises(ValueError, match="n_draws must be an int of at least 1"):
        null_calibration_error(y, z, **OPTIONS | {"n_draws": 0})
