"""The null of a calibration error where raters rate many rows."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, norm

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
    for name in ("estimate", "mean", "quantiles", "p_value"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9)
    assert found.p_values == expected.p_values


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


def sharpened(q, temperature):
    z = q ** (1 / temperature)
    return z / z.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("kind", ["canonical", "marginal", "top_label"])
@pytest.mark.parametrize(("temperature", "word"), [(0.5, "over"), (2.0, "under")])
def test_a_wrong_temperature_is_found_and_named(kind, temperature, word):
    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.ones(3), 300)
    z = sharpened(q, temperature)
    null = null_calibration_error(rng.multinomial(1, q), z, kind=kind, n_draws=99)
    assert null.culprit == f"{word}confident"
    assert null.p_value == 0.01
    hypothesis = "H0: the predictions are calibrated; p = 0.01; what stands out most: "
    assert str(null) == hypothesis + null.culprit


def test_what_else_is_wrong_is_named():
    """Too much of one class; and a wave, which leaves the mean and the temperature as they are."""
    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.ones(3), 400)
    z = q * [2.0, 1.0, 1.0]
    null = null_calibration_error(
        rng.multinomial(1, q), z / z.sum(axis=1, keepdims=True), n_draws=99
    )
    assert null.culprit == "class frequencies"
    assert null.p_value == 0.01
    z = rng.uniform(0.25, 0.75, 800)
    y = rng.binomial(1, z + 0.25 * np.cos(4 * np.pi * (z - 0.25)))
    null = null_calibration_error(y, z, n_draws=99)
    assert null.culprit == "shape"
    assert null.p_value == 0.01 < min(null.p_values[s] for s in ("sharpness", "class frequencies"))


def test_the_p_value_is_valid_by_enumeration():
    """All 32 outcomes of five rows: P(p ≤ level) is at most the level.

    With 999 draws a p-value is off by a standard error of 0.01 at most; four of them are allowed.
    """
    z = np.array([0.1, 0.25, 0.5, 0.6, 0.9])
    chances, p_values = [], []
    for y in product([0, 1], repeat=5):
        chances.append(np.prod(np.where(y, z, 1 - z)))
        p_values.append(null_calibration_error(np.array(y), z, n_draws=999).p_value)
    assert sum(chances) == pytest.approx(1)
    for level in (0.05, 0.1, 0.2, 0.5):
        assert np.array(chances) @ (np.array(p_values) <= level) <= level + 0.04


def test_two_of_the_statistics_have_oracles():
    """The binomial test where all predictions are alike; and the normal one of Σ logit(z)(y − z).

    Within four standard errors of 999 draws, 0.016 each; the normal distribution is off by less
    than 0.01 at 400 rows.
    """
    rng = np.random.default_rng(0)
    z = np.full(50, 0.3)
    y = np.repeat([0, 1], [31, 19])
    k = np.arange(51)
    expected = binom.pmf(k, 50, 0.3)[np.abs(k - 15) >= 4].sum()
    found = null_calibration_error(y, z, bandwidth=0.1, n_draws=999)
    assert found.p_values["class frequencies"] == pytest.approx(expected, abs=0.064)
    z = rng.uniform(0.05, 0.95, 400)
    y = rng.binomial(1, z)
    logit = np.log(z / (1 - z))
    ratio = logit @ (y - z) / np.sqrt(logit**2 @ (z * (1 - z)))
    found = null_calibration_error(y, z, bandwidth=0.1, n_draws=999)
    assert found.p_values["sharpness"] == pytest.approx(2 * norm.sf(abs(ratio)), abs=0.074)


@pytest.mark.parametrize("raters", [1, 4])
def test_names_of_groups_make_no_difference(raters):
    rng = np.random.default_rng(0)
    z = rng.dirichlet(np.ones(3), 60)
    y = rng.multinomial(raters, z)
    groups = rng.integers(20, size=60)
    names = rng.permutation([f"patient {g}" for g in range(20)])
    one, two = (null_calibration_error(y, z, groups=g, n_draws=49) for g in (groups, names[groups]))
    assert one.p_value == two.p_value
    assert one.mean == pytest.approx(two.mean, rel=1e-9)


def test_of_several_bandwidths_the_one_that_stands_out_counts():
    y, z = study(0)
    null = null_calibration_error(y, z, n_draws=49)
    assert null.bandwidth in (0.02, 0.1, 0.5)
    alone = null_calibration_error(y, z, n_draws=49, bandwidth=null.bandwidth)
    assert alone.bandwidth == null.bandwidth
    assert alone.estimate == pytest.approx(null.estimate, rel=1e-12)
    np.testing.assert_allclose(alone.quantiles, null.quantiles, rtol=1e-9)


def test_one_draw_at_least():
    y, z = study(1)
    with pytest.raises(ValueError, match="n_draws must be an int from 1"):
        null_calibration_error(y, z, **OPTIONS | {"n_draws": 0})
