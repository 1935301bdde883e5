"""Intervals of binned metrics: each row is looked at once, and nothing changes by it."""

import numpy as np
import pytest

from sklearn_lhcal import metrics
from sklearn_lhcal.datasets import make_label_histograms, make_rater_study
from sklearn_lhcal.label_histogram import Annotations, fleiss_kappa, gwet_ac
from sklearn_lhcal.metrics import confidence_interval


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("metric", "options", "mapped"),
    [
        (metrics.calibration_loss, {}, False),
        (metrics.calibration_error, {"n_bins": [0.0, 0.3, 1.0]}, True),
        (metrics.calibration_error, {"p": 1, "bias_correction": None}, False),
        (metrics.calibration_error, {"p": np.inf, "bias_correction": None}, False),
        (metrics.calibration_error, {"strategy": "quantile"}, True),
        (metrics.dispersion_loss, {}, False),
        (metrics.dispersion_error, {}, True),
        (metrics.expected_calibration_error, {}, False),
        (metrics.expected_calibration_error, {"kind": "classwise", "p": 2}, False),
        (metrics.expected_calibration_error, {"p": 2, "bias_correction": "residual"}, True),
        (metrics.maximum_calibration_error, {"kind": 1}, False),
        (metrics.disagreement_calibration_loss, {}, False),
        (metrics.disagreement_calibration_error, {"bias_correction": None}, True),
        (metrics.class_disagreement_calibration_error, {}, True),
    ],
)
@pytest.mark.filterwarnings("ignore:.* is biased upwards")
def test_bins_of_blocks_add_up(metric, options, mapped, weighted, grouped):
    """Leaving blocks out by sums over bins is evaluating the metric without them."""
    data = make_label_histograms(300, n_raters=(2, 4), overconfidence=2.0, random_state=0)
    rng = np.random.default_rng(0)
    how = {"n_blocks": 12, "random_state": 0, **options}
    if weighted:
        how["sample_weight"] = rng.integers(1, 4, 300)
    if grouped:
        how["groups"] = rng.integers(0, 60, 300)
    found = confidence_interval(metric, data.counts, data.prediction, **how)

    def evaluated(y, prediction, **given):
        x = metric(y[:, :3], prediction, **given)
        return x * abs(x) if mapped else x

    if grouped:
        # a function that says nothing of itself is not told of groups: they come as a column
        coded = np.column_stack([data.counts, how["groups"]])
        expected = confidence_interval(
            lambda y, z, **given: evaluated(y, z, groups=y[:, 3], **given),
            coded,
            data.prediction,
            **how,
        )
    else:
        expected = confidence_interval(evaluated, data.counts, data.prediction, **how)
    assert found.standard_error == pytest.approx(expected.standard_error, rel=1e-9)


@pytest.mark.filterwarnings("ignore:There are only 4 raters")
@pytest.mark.filterwarnings("ignore:More than 5%")
@pytest.mark.parametrize(("n_raters", "weighted"), [(4, False), (5, True)])
@pytest.mark.parametrize(
    ("metric", "options", "mapped"),
    [
        (metrics.calibration_loss, {"n_bins": 3}, False),
        (metrics.calibration_error, {"p": 1, "bias_correction": None}, False),
        (metrics.dispersion_error, {"n_bins": 3}, True),
        (metrics.expected_calibration_error, {"p": 2, "bias_correction": "residual"}, True),
        (metrics.disagreement_calibration_loss, {"n_bins": 3}, False),
        (metrics.class_disagreement_calibration_error, {"n_bins": 2}, True),
    ],
)
@pytest.mark.filterwarnings("ignore:.* is biased upwards")
def test_so_do_bins_with_raters(n_raters, metric, options, mapped, weighted):
    """A rating that goes changes its row and its rater's sums; with three raters left no pairs of
    pairs are without a common rater."""
    data = make_rater_study(24, n_raters, n_classes=3, random_state=0)
    how = {"n_blocks": 6, "random_state": 0, **options}
    if weighted:
        how["sample_weight"] = np.random.default_rng(0).integers(1, 4, 24) * 0.37

    _check_by_evaluation(metric, mapped, data.y, data.proba, how)


@pytest.mark.filterwarnings("ignore:More than 5%")
@pytest.mark.parametrize(
    ("metric", "options", "mapped", "n_raters", "each"),
    [
        # rows may lose all their ratings
        (metrics.calibration_loss, {"n_bins": 3}, False, 6, (1, 4)),
        (metrics.calibration_loss, {"bias_correction": "label"}, False, 6, (1, 4)),
        # raters in blocks: a block takes several ratings of a row
        (
            metrics.expected_calibration_error,
            {"p": 2, "bias_correction": "residual"},
            True,
            70,
            (1, 12),
        ),
        (metrics.disagreement_calibration_loss, {"n_bins": 2}, False, 70, (8, 12)),
    ],
)
def test_so_do_they_with_gaps_and_many_raters(metric, options, mapped, n_raters, each):
    rng = np.random.default_rng(0)
    n = 30
    place = rng.random((n, n_raters)).argsort(axis=1).argsort(axis=1)
    given = place < rng.integers(*each, n, endpoint=True)[:, None]
    said = np.where(given, rng.integers(0, 3, (n, n_raters)), np.nan)
    how = {"n_blocks": 6, "random_state": 0, "sample_weight": rng.integers(1, 4, n) * 0.37}
    how |= options
    y = Annotations.from_matrix(said, classes=[0, 1, 2])
    _check_by_evaluation(metric, mapped, y, rng.dirichlet(np.ones(3), n), how)


def _check_by_evaluation(metric, mapped, y, proba, how):
    def evaluated(y, prediction, **given):
        x = metric(y, prediction, **given)
        return x * abs(x) if mapped else x

    found, expected = (confidence_interval(of, y, proba, **how) for of in (metric, evaluated))
    np.testing.assert_allclose(found.components, expected.components, rtol=1e-9, atol=1e-15)


@pytest.mark.filterwarnings("ignore:The 6 raters are worth only")
@pytest.mark.filterwarnings("ignore:More than 5%")
@pytest.mark.parametrize(
    ("metric", "least", "options"),
    [
        (metrics.expected_accuracy, 1, {}),
        (metrics.irreducible_loss, 2, {}),
        (metrics.calibration_loss, 1, {}),
        (metrics.dispersion_error, 2, {"strategy": "quantile"}),
        (metrics.kernel_calibration_error, 1, {"bandwidth": 0.1}),
    ],
)
@pytest.mark.parametrize("raters", ["fixed", "random"])
@pytest.mark.filterwarnings("ignore:.*the standard error (may be too small|is 0)")
def test_rows_that_do_not_count_are_no_units(metric, least, options, raters):
    """Without weight, or with too few raters, a row is a row less: in blocks and in df too."""
    data = make_rater_study(60, 6, n_classes=3, random_state=0)
    rng = np.random.default_rng(0)
    single = rng.random(60) < 0.5
    y = data.y.keep(~single[data.y.row] | (data.y.rater == 0))
    w = rng.integers(0, 2, 60)
    how = {"n_blocks": 10, "raters": raters, "random_state": 0, **options}
    found = confidence_interval(metric, y, data.proba, sample_weight=w, **how)
    kept = np.flatnonzero((w > 0) & (y.n >= least))
    expected = confidence_interval(metric, y[kept], data.proba[kept], **how)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert found.df == pytest.approx(expected.df)


@pytest.mark.parametrize("coefficient", [fleiss_kappa, gwet_ac])
def test_sums_of_agreement_add_up(coefficient):
    """Leaving blocks out by sums over rows is evaluating the coefficient without them."""
    counts = make_label_histograms(200, n_raters=(1, 4), random_state=0).counts
    how = {"n_blocks": 12, "random_state": 0, "sample_weight": 1 + np.arange(200) % 3}

    def evaluated(y, prediction, sample_weight):
        return coefficient(y, sample_weight=sample_weight)

    found = confidence_interval(coefficient, counts, None, **how)
    expected = confidence_interval(evaluated, counts, counts, **how)
    # the ends are not the jackknife's
    np.testing.assert_allclose(np.array(found)[[0, 3]], np.array(expected)[[0, 3]], rtol=1e-9)


@pytest.mark.filterwarnings("ignore:More than 5%")
@pytest.mark.filterwarnings("ignore:.*the standard error (may be too small|is 0)")
def test_where_one_rater_is_left():
    """Blocks of three rows and of two, one of them all samples that the second has rated."""
    said = np.array([[0, 1], [None, 0], [None, 1], [1, None], [0, None]], dtype=object)
    y = Annotations.from_matrix(said, classes=[0, 1])
    z = np.linspace([0.3, 0.7], [0.4, 0.6], 5)
    for seed in range(20):
        how = {"raters": "fixed", "n_blocks": 2, "random_state": seed}
        found, expected = (
            confidence_interval(of, labels, z, **how).standard_error
            for labels, of in (
                (y, metrics.calibration_loss),
                (y.counts, lambda y, z: metrics.calibration_loss(y, z)),
            )
        )
        assert found == pytest.approx(expected, rel=1e-9)
