"""make_rater_study: who reads what, and that its truth is the truth."""

import numpy as np
import pytest

from sklearn_lhcal.datasets import make_rater_study
from sklearn_lhcal.label_histogram import KnownProbabilities
from sklearn_lhcal.metrics import (
    calibration_loss,
    expected_squared_loss,
    irreducible_loss,
    null_calibration_error,
)

DESIGNS = ["crossed", "partial", "nested", "split_plot", "crowd"]


@pytest.mark.parametrize("design", DESIGNS)
def test_designs(design):
    """Readings of a row, rows of a reader, and how many of them share how much."""
    y = make_rater_study(60, 8, design=design, random_state=0).y
    I = np.zeros((60, len(y.raters)), dtype=int)  # noqa: E741
    np.add.at(I, (y.row, y.rater), 1)
    assert I.max() == 1
    readings = {"crossed": 8, "partial": 3, "nested": 1, "split_plot": 4, "crowd": 3}
    np.testing.assert_array_equal(I.sum(axis=1), readings[design])
    loads = I.sum(axis=0)
    if design in ("nested", "split_plot"):
        assert np.ptp(loads) <= 1
    if design == "split_plot":
        assert len(np.unique(I, axis=0)) == 2
    if design == "partial":
        # 60 samples with 3 of 8: binomial, five standard deviations
        assert np.abs(loads - 22.5).max() < 5 * np.sqrt(60 * 3 / 8 * 5 / 8)
        assert len(np.unique(I, axis=0)) > 20
    if design == "crowd":
        assert (loads == 1).all()


@pytest.mark.parametrize(("rater_std", "slope_std"), [(0.0, 0.0), (1.0, 0.5)])
def test_the_truth_is_what_new_readers_say(rater_std, slope_std):
    """Shares of a crowd of 400 readers a row against `proba`: chi-square over rows and classes.

    The mean of squared standardised differences is 1 within five standard errors.
    """
    study = make_rater_study(
        100, design="crowd", per_row=400, rater_std=rater_std, slope_std=slope_std, random_state=1
    )
    Q = study.proba
    np.testing.assert_allclose(Q.sum(axis=1), 1, rtol=1e-12)
    squared = (study.y.mu - Q) ** 2 / (Q * (1 - Q) / 400)
    assert abs(squared.mean() - 1) < 5 * np.sqrt(2 / 200)
    truth = irreducible_loss(KnownProbabilities(Q))
    assert irreducible_loss(study.y) == pytest.approx(truth, abs=0.01)


@pytest.mark.slow
def test_the_prediction_is_calibrated_for_new_readers():
    calibrated = make_rater_study(600, design="crowd", rater_std=0.8, slope_std=0.3, random_state=0)
    sharp = make_rater_study(
        600, design="crowd", rater_std=0.8, slope_std=0.3, overconfidence=2, random_state=0
    )
    np.testing.assert_array_equal(calibrated.y.label, sharp.y.label)
    options = {"bandwidth": 0.1, "n_draws": 49}
    assert null_calibration_error(calibrated.y, calibrated.prediction, **options).p_value > 0.02
    assert null_calibration_error(sharp.y, sharp.prediction, **options).p_value == 1 / 50
    assert calibration_loss(sharp.y, sharp.prediction) > 0.01
    losses = [expected_squared_loss(s.y, s.prediction) for s in (calibrated, sharp)]
    assert losses[0] < losses[1]


def test_readers_differ_as_much_as_is_said():
    study = make_rater_study(10, 2000, 2, rater_std=0.7, slope_std=0.4, random_state=0)
    # the standard error of a standard deviation is σ/√(2R)
    assert abs(study.bias.std() - 0.7) < 5 * 0.7 / np.sqrt(8000)
    assert abs(study.slope.std() - 0.4) < 5 * 0.4 / np.sqrt(4000)
    assert study.bias.shape == (2000, 2)
    again = make_rater_study(10, 2000, 2, rater_std=0.7, slope_std=0.4, random_state=0)
    np.testing.assert_array_equal(again.y.label, study.y.label)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"design": "none"}, 'design must be .*"crowd"'),
        ({"design": "partial", "per_row": 6}, "there are 5 raters"),
        ({"design": "split_plot"}, "two panels at least"),
        ({"n_classes": 1}, "n_classes must be an int from 2"),
        ({"n_rows": 0}, "n_rows"),
        ({"rater_std": -1.0}, "rater_std"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make_rater_study(**options)
