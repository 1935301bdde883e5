"""How large a study: the pilot itself, bounds, and a forecast that comes true."""

from contextlib import nullcontext
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import chi2
from scipy.stats import t as student

from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import (
    confidence_interval,
    expected_accuracy,
    irreducible_loss,
    study_size,
)


def study(n, R, rng, tau=0.4):
    """Labels of two classes; readers differ by N(0, τ²) logits."""
    g = 1.5 * rng.standard_normal((n, 1)) + 0.5 + tau * rng.standard_normal(R)
    return (rng.random((n, R)) < 1 / (1 + np.exp(-g))).astype(int)


@pytest.fixture
def y():
    return Annotations.from_matrix(study(150, 6, np.random.default_rng(0)))


def test_the_pilot_itself(y):
    size = study_size(irreducible_loss, y, half_width=0.05, random_state=0)
    found = confidence_interval(irreducible_loss, y, None, random_state=0)
    width = (found.high - found.low) / 2
    # degrees of freedom go by numbers of readers and rows here, by their shares there
    assert_allclose(size.half_width(150, 6, 6), width, rtol=0.1)


def test_the_number_of_rows_is_the_least_that_suffices(y):
    size = study_size(irreducible_loss, y, half_width=0.04, random_state=0)
    finite = np.isfinite(size.n_rows)
    assert finite.any()
    n, R, m = (a[finite] for a in (size.n_rows, size.n_raters, size.per_row))
    assert (size.half_width(n, R, m) <= 0.04).all()
    assert (size.half_width(n - 1, R, m) > 0.04).all()
    # no number of rows makes up for too few readers
    assert (size.half_width(10**8, size.n_raters[~finite], size.per_row[~finite]) > 0.04).all()
    assert (np.diff(n) <= 0).all()
    low, high = size.n_rows_range[finite].T
    assert ((low <= n) & (n <= high)).all()


def test_few_readers_count_even_where_they_look_alike():
    """As in the interval of such a study: below five readers Satterthwaite counts them always.

    Of means the interval has a posterior of readers, other statistics have not.
    """
    # each says 1 in a quarter of the rows, and each in others
    said = (np.arange(100)[:, None] + np.arange(8)) % 4 == 0
    y = Annotations.from_matrix(said.astype(int))
    size = study_size(expected_accuracy, y, np.full(100, 0.7), half_width=0.1, random_state=0)
    assert size.raters == 0
    assert size.is_mean
    size = size._replace(is_mean=False)
    V = size.rows / 100 + size.ratings / 400
    cells = size.ratings / 400
    df = V**2 / (V**2 / 99 + cells**2 / 3 + cells**2 / 99)
    assert_allclose(size.half_width(100, 4, 4), student.ppf(0.975, df) * np.sqrt(V))
    # readers who look alike are no reason from five on
    V = size.rows / 100 + size.ratings / 500
    assert_allclose(size.half_width(100, 5, 5), student.ppf(0.975, 99) * np.sqrt(V))


def test_fewer_readings_a_row_need_more_rows(y):
    how = {"half_width": 0.04, "n_raters": [10, 20], "random_state": 0}
    all_read = study_size(irreducible_loss, y, **how)
    three = study_size(irreducible_loss, y, per_row=3, **how)
    assert three.per_row.tolist() == [3, 3]
    assert (three.n_rows > all_read.n_rows).all()


@pytest.mark.slow
def test_the_forecast_comes_true():
    """The mean of pilots of 100 rows and 5 readers, for 200 rows and 10 readers."""
    rng = np.random.default_rng(0)
    how = {"half_width": 0.05, "n_raters": [10], "random_state": 0}
    z = np.full(100, 0.7)
    pilots = [
        study_size(expected_accuracy, Annotations.from_matrix(study(100, 5, rng)), z, **how)
        for _ in range(60)
    ]
    A, B, C = np.mean([(p.rows, p.raters, p.ratings) for p in pilots], axis=0)
    forecast = A / 200 + B / 10 + C / 2000
    values = [study(200, 10, rng).mean() for _ in range(1500)]
    # sixty pilots know the spread of readers to 9 % and 1,500 studies their variance to 4 %
    assert 0.75 < forecast / np.var(values) < 1.3


@pytest.mark.parametrize("tau", [0.0, 0.4])
@pytest.mark.filterwarnings("ignore:There are only 4 raters")
def test_four_readers_are_forecast_as_their_interval_is(tau):
    """Of a mean, whose interval knows little of how much four readers differ."""
    rng = np.random.default_rng(0)
    z = np.full(150, 0.7)
    forecast, found = [], []
    for _ in range(15):
        y = Annotations.from_matrix(study(150, 4, rng, tau))
        size = study_size(expected_accuracy, y, z, half_width=0.1, n_raters=[4])
        interval = confidence_interval(expected_accuracy, y, z)
        forecast.append(size.half_width(150, 4, 4))
        found.append((interval.high - interval.low) / 2)
    assert_allclose(np.mean(forecast), np.mean(found), rtol=0.05)


@pytest.mark.slow
def test_the_range_holds_the_right_number():
    """Nominally .80: what eight readers need on average, by pilots of five."""
    rng = np.random.default_rng(0)
    widths = []
    for _ in range(60):
        y = Annotations.from_matrix(study(100, 8, rng))
        found = confidence_interval(irreducible_loss, y, None, random_state=0)
        widths.append((found.high - found.low) / 2)
    how = {"half_width": np.mean(widths), "n_raters": [8], "random_state": 0}
    ranges = [
        study_size(irreducible_loss, Annotations.from_matrix(study(100, 5, rng)), **how)
        for _ in range(40)
    ]
    low, high = np.array([size.n_rows_range[0] for size in ranges]).T
    # three standard errors of forty pilots are .19
    assert 0.61 <= np.mean((low <= 100) & (high >= 100)) <= 0.99


def test_a_wider_interval_never_needs_more_rows(y):
    widths = (0.03, 0.05, 0.1)
    sizes = [study_size(irreducible_loss, y, half_width=h, random_state=0) for h in widths]
    needed = np.array([np.column_stack([size.n_rows, size.n_rows_range]) for size in sizes])
    # from inf to inf is no step
    assert (needed[1:] <= needed[:-1]).all()
    assert (needed[0] > needed[-1]).any()


@pytest.mark.parametrize("R", [5, 8])
def test_the_range_where_only_readers_vary(R):
    """Readers who always say the same: no number of rows helps, their variance σ² alone decides.

    Its estimate s² has ``Var s²/σ⁴ = 2/(R − 1) + κ/R`` (Box 1953), κ = 1, so that s²·df/χ²_df may
    be σ². The high end is finite where nine in ten of these are small enough.
    """
    said = np.tile((np.arange(R) < R // 2).astype(int), (400, 1))
    y = Annotations.from_matrix(said, classes=[0, 1])
    z = np.tile([0.3, 0.7], (400, 1))
    s2 = said[0].var(ddof=1)
    df = 2 / (2 / (R - 1) + 1 / R)
    for tail, end in ((0.1, 1), (0.9, 0)):
        sigma2 = s2 * df / chi2.ppf(tail, df)
        # ten readers, whose interval has nine degrees of freedom
        reach = student.ppf(0.975, 9) * np.sqrt(sigma2 / 10)
        for factor, finite in ((0.94, False), (1.06, True)):
            how = {"half_width": factor * reach, "n_raters": [10], "random_state": 0}
            size = study_size(expected_accuracy, y, z, **how)
            assert np.isfinite(size.n_rows_range[0, end]) == finite


@pytest.mark.filterwarnings("ignore:.*the standard error (may be too small|is 0)")
@pytest.mark.filterwarnings("ignore:Fewer than 10% of the labels")
def test_what_is_particular_to_pairs_of_readers_falls_faster():
    """Each reader always says the same: that two differ is no effect of either of them.

    Whether two differ has the variance 1/4; a jackknife over readers takes it for a multiple.
    """
    rng = np.random.default_rng(0)
    pairs, raters, jackknife = [], [], []
    for _ in range(25):
        said = np.tile(rng.integers(2, size=6), (10, 1))
        y = Annotations.from_matrix(said, classes=[0, 1])
        size = study_size(irreducible_loss, y, half_width=0.1, n_raters=[6], random_state=0)
        found = confidence_interval(irreducible_loss, y, None, random_state=0).components
        pairs.append(size.rater_pairs)
        raters.append(size.raters)
        jackknife.append(6 * (found.raters - found.cells))
        # rows are all alike
        assert max(size.rows, size.reading_pairs) < 1e-20
    # its standard deviation is .15 a pilot
    assert np.mean(pairs) == pytest.approx(0.25, abs=0.12)
    # not 0, as no component may be negative
    assert np.mean(raters) < 0.7 * np.mean(jackknife)


@pytest.mark.filterwarnings("ignore:.*the standard error (may be too small|is 0)")
def test_components_of_pairs_by_least_squares():
    """Whether two differ, less an effect of either reader: its variances over rows and pairs."""
    said = study(20, 6, np.random.default_rng(1), tau=2.0)
    pairs = list(combinations(range(6), 2))
    differ = np.array([said[:, r] != said[:, s] for r, s in pairs], dtype=np.float64)
    X = np.array([np.isin(np.arange(6), pair) for pair in pairs], dtype=np.float64)
    residual = differ - X @ np.linalg.lstsq(X, differ, rcond=None)[0]
    df = 15 - 6
    readings = residual.var(axis=1, ddof=1).sum() / df
    of_raters = (residual.mean(axis=1) ** 2).sum() / df - readings / 20
    assert of_raters > 0
    y = Annotations.from_matrix(said)
    size = study_size(irreducible_loss, y, half_width=0.1, random_state=0)
    assert_allclose((size.reading_pairs, size.rater_pairs), (readings, of_raters), rtol=1e-9)


def test_means_have_no_pairs(y):
    z = np.full((150, 2), 0.5)
    size = study_size(expected_accuracy, y, z, half_width=0.1, random_state=0)
    assert size.rater_pairs == size.reading_pairs == 0


@pytest.mark.parametrize(("readers", "two_a_row"), [(3, False), (6, True)])
def test_pairs_that_cannot_tell_add_nothing(readers, two_a_row):
    """Three pairs are as many as their readers; of four rows a pair tells little."""
    said = study(60, readers, np.random.default_rng(1), tau=3).astype(object)
    if two_a_row:
        # in turn all pairs
        pairs = np.array([(r, s) for r in range(readers) for s in range(r)])
        of_row = pairs[np.arange(60) % len(pairs)]
        unread = np.ones(said.shape, bool)
        unread[np.arange(60)[:, None], of_row] = False
        said[unread] = None
    pilot = Annotations.from_matrix(said)
    few = readers < 5
    with pytest.warns(UserWarning, match="raters") if few else nullcontext():
        size = study_size(irreducible_loss, pilot, half_width=0.1, random_state=0)
        found = confidence_interval(irreducible_loss, pilot, None, random_state=0)
    assert (size.rater_pairs, size.reading_pairs) == (0, 0)
    # so that all that raters add falls as 1/R
    excess = found.components.raters - found.components.cells
    assert excess > 0
    assert_allclose(size.raters, readers * excess)


def test_predictions_and_weights_are_those_of_the_metric(y):
    z = np.full((150, 2), 0.5)
    z[:, 0] = np.linspace(0.1, 0.9, 150)
    z[:, 1] = 1 - z[:, 0]
    # 100 of 150 rows count
    weight = np.arange(150) % 3
    size = study_size(expected_accuracy, y, z, half_width=0.1, sample_weight=weight, random_state=0)
    found = confidence_interval(expected_accuracy, y, z, sample_weight=weight, random_state=0)
    rows, raters, cells = found.components
    assert_allclose(size.raters, 6 * max(raters - cells, 0))
    assert_allclose(size.rows, 100 * max(rows - cells, 0))
    assert_allclose(size.ratings, 600 * cells)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"half_width": 0.0}, "half_width must be a finite number above 0"),
        ({"half_width": 0.1, "n_raters": [2]}, "n_raters must list numbers of at least 3"),
        ({"half_width": 0.1, "n_raters": []}, "n_raters must list numbers of at least 3"),
        ({"half_width": 0.1, "n_raters": [2.5]}, "n_raters must hold ints"),
        ({"half_width": 0.1, "per_row": 0}, "per_row must be an int of at least 1"),
        ({"half_width": 0.1, "per_row": 1}, "per_row must be at least 2"),
        ({"half_width": 0.1, "confidence_level": 1.0}, "confidence_level must lie between"),
    ],
)
def test_errors(y, options, message):
    with pytest.raises(ValueError, match=message):
        study_size(irreducible_loss, y, **options)


def test_labels_without_raters_are_refused(y):
    with pytest.raises(ValueError, match="y does not say who gave the labels"):
        study_size(irreducible_loss, y.counts, half_width=0.1)
