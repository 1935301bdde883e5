"""Binned calibration errors.

Against published code, scikit-learn's curve, hand fractions and enumeration.
"""

from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from oracles import expectation
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.label_histogram import KnownProbabilities
from sklearn_lhcal.metrics import (
    calibration_error,
    calibration_loss,
    confidence_interval,
    expected_calibration_error,
    get_scorer,
    maximum_calibration_error,
)

KINDS = ["top_label", "classwise", 1]
P = [1, 2, 3, np.inf]


def case(n=400, K=4, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.dirichlet(np.full(K, 0.7), n)
    q = z**0.6
    y = np.array([rng.choice(K, p=p / p.sum()) for p in q])
    return y, z, rng.integers(1, 4, n)


def guo(y, z, p=1, n_bins=15):
    """The loop of Guo, Pleiss, Sun and Weinberger (2017) over bins (a, b] of the confidence.

    With p = 2 and ∞ as torchmetrics has them.
    """
    confidence, hit = z.max(axis=1), z.argmax(axis=1) == y
    edges = np.linspace(0, 1, n_bins + 1)
    gaps, shares = [], []
    for low, high in pairwise(edges):
        inside = (confidence > low) & (confidence <= high)
        if inside.any():
            gaps.append(abs(hit[inside].mean() - confidence[inside].mean()))
            shares.append(inside.mean())
    if np.isinf(p):
        return max(gaps)
    return np.dot(shares, np.power(gaps, p)) ** (1 / p)


@pytest.mark.parametrize("p", P)
@pytest.mark.parametrize("n_bins", [10, 15])
def test_top_label_is_the_published_loop(p, n_bins):
    y, z, _ = case()
    assert expected_calibration_error(y, z, p=p, n_bins=n_bins) == pytest.approx(
        guo(y, z, p, n_bins), rel=1e-12
    )
    if np.isinf(p):
        assert maximum_calibration_error(y, z, n_bins=n_bins) == pytest.approx(
            guo(y, z, p, n_bins), rel=1e-12
        )


# torchmetrics 1.9.0, torch 2.13, functional.classification.multiclass_calibration_error of these
# rows (single precision inside), and binary_calibration_error of class 1 (double precision).
TORCHMETRICS = {
    (10, 1): (0.08791109174489975, 0.09669797213491453),
    (10, 2): (0.12626346945762634, 0.14627731926996235),
    (10, np.inf): (0.2949579954147339, 0.32193084671862005),
    (15, 1): (0.11731205880641937, 0.0929213100180763),
    (15, 2): (0.13917848467826843, 0.1422678101070607),
    (15, np.inf): (0.3326796293258667, 0.32193084671862005),
}


@pytest.mark.parametrize(("n_bins", "p"), TORCHMETRICS)
def test_torchmetrics_finds_the_same(n_bins, p):
    i = np.arange(200)
    z = np.exp(np.stack([3 * np.sin(1.3 * i + k * k + 1) for k in range(4)], axis=1))
    z /= z.sum(axis=1, keepdims=True)
    y = (z.cumsum(axis=1) < (i * 0.6180339887498949 % 1)[:, None]).sum(axis=1)
    top, one = TORCHMETRICS[n_bins, p]
    found = expected_calibration_error(y, z, p=p, n_bins=n_bins)
    assert found == pytest.approx(top, abs=5e-6)
    found = expected_calibration_error(y, z, kind=1, p=p, n_bins=n_bins)
    assert found == pytest.approx(one, abs=1e-12)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_one_class_of_two_is_the_curve_of_scikit_learn(strategy):
    rng = np.random.default_rng(0)
    z = rng.beta(0.7, 0.7, 500)
    y = (rng.random(500) < z**1.3).astype(int)
    frequency, predicted = calibration_curve(y, z, n_bins=10, strategy=strategy)
    edges = (
        np.linspace(0, 1, 11) if strategy == "uniform" else np.quantile(z, np.linspace(0, 1, 11))
    )
    share = np.histogram(z, edges)[0] / 500
    options = {"kind": 1, "n_bins": 10, "strategy": strategy}
    gaps = np.abs(frequency - predicted)
    # both put the values at quantile edges in different bins: these are single rows
    exact = 1e-12 if strategy == "uniform" else 0.01
    assert expected_calibration_error(y, z, **options) == pytest.approx(share @ gaps, abs=exact)
    assert maximum_calibration_error(y, z, **options) == pytest.approx(gaps.max(), abs=3 * exact)


def test_hand_fractions():
    """Two raters a row; bins [0, ½) and [½, 1]."""
    counts = np.array([[2, 0], [1, 1], [0, 2], [1, 1]])
    z = np.array([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75], [0.625, 0.375]])
    # top label: frequencies 1, ½ (the tie shares), 1, ½; confidences ¾, ½, ¾, ⅝: one bin
    gap = Fraction(3, 4) - Fraction(21, 32)
    for p in P:
        assert expected_calibration_error(counts, z, p=p, n_bins=2) == pytest.approx(
            float(gap), rel=1e-12
        )
    # second class: rows 0 and 3 in [0, ½): ¼ against 5/16; rows 1 and 2: ¾ against ⅝
    low, high = Fraction(5, 16) - Fraction(1, 4), Fraction(3, 4) - Fraction(5, 8)
    assert expected_calibration_error(counts, z, kind=1, n_bins=2) == float((low + high) / 2)
    assert maximum_calibration_error(counts, z, kind=1, n_bins=2) == float(high)
    square = expected_calibration_error(counts, z, kind=1, n_bins=2, p=2) ** 2
    assert square == pytest.approx(float((low**2 + high**2) / 2))
    # first class: row 2 alone in [0, ½): 0 against ¼; rows 0, 1, 3: ⅔ against ⅝
    first = (Fraction(1, 4) + 3 * (Fraction(2, 3) - Fraction(5, 8))) / 4
    both = (first + (low + high) / 2) / 2
    assert expected_calibration_error(counts, z, kind="classwise", n_bins=2) == pytest.approx(
        float(both)
    )
    # row 2 has the largest gap of both classes
    assert maximum_calibration_error(counts, z, kind="classwise", n_bins=2) == 0.25


@pytest.mark.parametrize("bias_correction", [None, "residual"])
def test_all_classes_are_the_calibration_error(bias_correction):
    """Whose squares are summed over classes, not averaged."""
    y, z, w = case()
    options = {"sample_weight": w, "bias_correction": bias_correction, "n_bins": 10}
    loss = calibration_loss(y, z, **options)
    value = expected_calibration_error(y, z, kind="classwise", p=2, **options)
    assert value * abs(value) == pytest.approx(loss / 4)
    each = [expected_calibration_error(y, z, kind=k, p=2, **options) for k in range(4)]
    assert np.sum(np.multiply(each, np.abs(each))) == pytest.approx(loss)


@pytest.mark.parametrize("p", [1, 3, np.inf])
@pytest.mark.filterwarnings("ignore:.* is biased upwards")
def test_binned_errors_of_other_exponents(p):
    y, z, w = case()
    options = {"p": p, "bias_correction": None, "sample_weight": w, "n_bins": 8}
    each = [
        expected_calibration_error(y, z, kind=k, p=p, n_bins=8, sample_weight=w) for k in range(4)
    ]
    if np.isinf(p):
        assert calibration_error(y, z, **options) == calibration_loss(y, z, **options) == max(each)
    else:
        assert calibration_loss(y, z, **options) == pytest.approx(np.sum(np.power(each, p)))
        assert calibration_error(y, z, **options) == pytest.approx(
            np.sum(np.power(each, p)) ** (1 / p)
        )
    interval = confidence_interval(calibration_error, y, z, random_state=0, **options)
    assert interval.low < interval.estimate < interval.high


@pytest.mark.parametrize("kind", ["top_label", 1])
def test_corrected_square_has_mean_zero_for_a_calibrated_predictor_by_enumeration(kind):
    z = np.array([[0.2, 0.5, 0.3], [0.25, 0.45, 0.3], [0.6, 0.1, 0.3], [0.1, 0.65, 0.25]])

    def square(y, **options):
        value = expected_calibration_error(y, z, kind=kind, p=2, n_bins=1, **options)
        return value * abs(value)

    corrected = partial(square, bias_correction="residual")
    assert expectation(corrected, z, [1, 2, 1, 1]) == pytest.approx(0, abs=1e-13)
    assert expectation(square, z, [1, 2, 1, 1]) > 0.01


def test_label_correction_is_that_of_kumar():
    """``(c̄ − z̄)² − c̄(1 − c̄)/(|B| − 1)`` for one label a row."""
    y, z, _ = case()
    confidence, hit = z.max(axis=1), z.argmax(axis=1) == y
    b, square = np.minimum((confidence * 5).astype(int), 4), 0.0
    for cell in np.unique(b):
        c, p = hit[b == cell].mean(), confidence[b == cell].mean()
        square += (b == cell).mean() * ((c - p) ** 2 - c * (1 - c) / ((b == cell).sum() - 1))
    value = expected_calibration_error(y, z, p=2, n_bins=5, bias_correction="label")
    assert value == pytest.approx(np.sqrt(square), rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_groups(kind):
    data = make_label_histograms(300, n_raters=3, overconfidence=1.5, random_state=0)
    groups = np.arange(300) // 3
    options = {"kind": kind, "p": 2, "bias_correction": "residual", "n_bins": 4}
    alone = expected_calibration_error(
        data.counts, data.prediction, groups=np.arange(300), **options
    )
    assert alone == pytest.approx(
        expected_calibration_error(data.counts, data.prediction, **options), rel=1e-12
    )
    grouped = expected_calibration_error(data.counts, data.prediction, groups=groups, **options)
    assert grouped != pytest.approx(alone, rel=1e-9)
    interval = confidence_interval(
        expected_calibration_error,
        data.counts,
        data.prediction,
        groups=groups,
        random_state=0,
        **options,
    )
    assert interval.estimate == pytest.approx(grouped, rel=1e-12)
    for metric in (expected_calibration_error, maximum_calibration_error):
        plain = metric(data.counts, data.prediction, kind=kind)
        assert metric(data.counts, data.prediction, kind=kind, groups=groups) == plain


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", [expected_calibration_error, maximum_calibration_error])
def test_weights_repeat_rows_may_be_permuted_and_forms_agree(metric, kind):
    y, z, w = case()
    value = metric(y, z, kind=kind, sample_weight=w)
    assert metric(np.repeat(y, w), np.repeat(z, w, axis=0), kind=kind) == pytest.approx(
        value, rel=1e-11
    )
    rows = np.random.default_rng(1).permutation(len(y))
    assert metric(y[rows], z[rows], kind=kind, sample_weight=w[rows]) == pytest.approx(
        value, rel=1e-11
    )
    assert metric(
        5 * np.eye(4, dtype=int)[y], Dirichlet(3 * z), kind=kind, sample_weight=w
    ) == pytest.approx(value)
    assert metric(KnownProbabilities(np.eye(4)[y]), z, kind=kind, sample_weight=w) == pytest.approx(
        value
    )


def test_classes_may_be_permuted_and_are_found_by_name():
    y, z, _ = case()
    z[:40] = 0.25  # ties
    names, order = np.array(list("abcd")), [2, 0, 3, 1]
    frame = pd.DataFrame(z[:, order], columns=names[order])
    for kind in ("top_label", "classwise"):
        assert expected_calibration_error(names[y], frame, kind=kind) == pytest.approx(
            expected_calibration_error(y, z, kind=kind)
        )
    value = expected_calibration_error(y, z, kind=2)
    assert expected_calibration_error(names[y], frame, kind="c") == pytest.approx(value)
    assert expected_calibration_error(names[y], z, kind="c") == pytest.approx(value)
    # numbers as names: the name decides, not the place
    numbered = pd.DataFrame(z, columns=[3, 5, 7, 9])
    assert expected_calibration_error(np.array([3, 5, 7, 9])[y], numbered, kind=7) == value
    for kind, prediction in (("z", frame), (2, frame), (2, numbered), (4, z), (-1, z), ("a", z)):
        labels = (
            names[y]
            if prediction is frame
            else np.array([3, 5, 7, 9])[y]
            if prediction is numbered
            else y
        )
        with pytest.raises(
            ValueError, match='kind must be "top_label", "classwise" or one of the classes'
        ):
            expected_calibration_error(labels, prediction, kind=kind)


def test_a_value_at_an_edge_belongs_to_the_bin_above():
    """Guo et al. and `calibration_curve` put it into the bin below."""
    z, y = np.array([0.25, 0.5, 0.75]), [1, 1, 1]
    gaps = 1 - z
    assert maximum_calibration_error(y, z, kind=1, n_bins=2) == gaps[0]
    assert expected_calibration_error(y, z, kind=1, n_bins=2) == pytest.approx(gaps.mean())
    below = [0.25, 0.5]
    assert (
        maximum_calibration_error(y, np.array([*below, 0.75]), kind=1, n_bins=[0, 0.4, 1])
        == gaps[0]
    )


def test_corrections_are_for_p_2():
    y, z, _ = case(20)
    for metric in (
        calibration_loss,
        calibration_error,
        partial(expected_calibration_error, bias_correction="residual"),
    ):
        for p in (1, 3, np.inf):
            with pytest.raises(ValueError, match=r"is for p = 2 only.*bias_correction=None"):
                metric(y, z, p=p)
    for p in (0.5, "2", True, np.nan):
        with pytest.raises(ValueError, match="p must be a number"):
            expected_calibration_error(y, z, p=p)
    with pytest.raises(ValueError, match='bias_correction must be "residual", "label" or None'):
        expected_calibration_error(y, z, p=2, bias_correction="debiased")
    with pytest.raises(ValueError, match="'label' takes samples as independent"):
        expected_calibration_error(y, z, p=2, bias_correction="label", groups=np.arange(20))
    with pytest.raises(ValueError, match="strategy must be"):
        maximum_calibration_error(y, z, strategy="mass")


@pytest.mark.parametrize("metric", [expected_calibration_error, maximum_calibration_error])
def test_scorer_strings(metric):
    data = make_label_histograms(300, n_raters=1, random_state=0)
    y = data.counts.argmax(axis=1)
    name = f"neg_{metric.__name__}"
    model = LogisticRegression().fit(data.X, y)
    assert get_scorer(name)(model, data.X, y) == pytest.approx(
        -metric(y, model.predict_proba(data.X))
    )
    assert_allclose(np.sign(cross_val_score(model, data.X, y, scoring=name, cv=3)), -1)


def test_interval_of_the_corrected_error_is_that_of_its_square():
    y, z, _ = case()
    options = {"p": 2, "bias_correction": "residual", "random_state": 0}
    interval = confidence_interval(expected_calibration_error, y, z, **options)
    assert interval.low < interval.estimate < interval.high
    assert interval.estimate == expected_calibration_error(y, z, p=2, bias_correction="residual")
