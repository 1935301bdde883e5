"""A metric of each finding: intervals of one, and of all together."""

import re
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from scipy.stats import t as student
from sklearn.exceptions import UndefinedMetricWarning

from sklearn_lhcal.label_histogram import Annotations, MultiLabelCounts
from sklearn_lhcal.metrics import (
    calibration_error,
    confidence_interval,
    disagreement_squared_loss,
    expected_accuracy,
    expected_squared_loss,
    irreducible_loss,
    label_log_loss,
    per_finding,
)

NAMES = ["edema", "mass", "nodule"]
ENDS = ["estimate", "low", "high", "simultaneous_low", "simultaneous_high"]


def study(n=200, prevalence=(0.3, 0.4, 0.5), n_raters=3, seed=0):
    """Findings with a common cause; the model knows the probability of a yes."""
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(n, 1)) + 0.5 * rng.normal(size=(n, len(prevalence)))
    p = norm.cdf(u + norm.ppf(prevalence) * 1.5)
    return MultiLabelCounts(rng.binomial(n_raters, p), n_raters, NAMES[: len(prevalence)]), p


def read_study(n=60, R=5, F=3, seed=0):
    """The same raters read all findings of all samples."""
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(n, 1, F)) + rng.normal(size=(R, 1)) + rng.logistic(size=(n, R, F))
    item, rater, finding = np.indices(u.shape).reshape(3, -1)
    label = (u > 0).ravel().astype(int)
    named = np.array(NAMES)[finding]
    y = MultiLabelCounts.from_long(item=item, rater=rater, label=label, finding=named)
    return y, rng.beta(2, 2, size=(n, F))


@pytest.mark.parametrize("metric", [expected_squared_loss, irreducible_loss, calibration_error])
def test_one_finding_has_the_interval_of_confidence_interval(metric):
    y, p = study()
    found = per_finding(metric, y, p, random_state=0)
    for f, name in enumerate(NAMES):
        alone = confidence_interval(metric, y.of(name), p[:, f], random_state=0)
        np.testing.assert_allclose([x[f] for x in found[1:4]], alone[:3], rtol=1e-12)
    assert found.n.tolist() == [200] * 3
    assert repr(found) == "FindingTable(confidence_level=0.95, 7 arrays)"


@pytest.mark.parametrize("metric", [expected_squared_loss, partial(calibration_error, n_bins=2)])
@pytest.mark.parametrize("grouped", [False, True])
def test_over_raters_too(metric, grouped):
    y, p = read_study()
    groups = np.arange(60) // 2 if grouped else None
    found = per_finding(metric, y, p, groups=groups, random_state=0)
    for f, name in enumerate(NAMES):
        alone = confidence_interval(metric, y.of(name), p[:, f], groups=groups, random_state=0)
        np.testing.assert_allclose([x[f] for x in found[1:4]], alone[:3], rtol=1e-9)
    fixed = per_finding(metric, y, p, raters="fixed", groups=groups, random_state=0)
    widths = [(each.simultaneous_high - each.simultaneous_low).mean() for each in (fixed, found)]
    assert widths[0] < widths[1]


def test_over_raters_common_findings_share_one_quantile():
    """That of the fewest degrees of freedom: raters may be alike in one finding by chance."""
    y, _ = read_study(n=300, seed=1)
    found = per_finding(irreducible_loss, y, None, random_state=0)
    alone = [confidence_interval(irreducible_loss, y.of(f), None, random_state=0) for f in NAMES]
    errors, df = np.array([(each.standard_error, each.df) for each in alone]).T
    t = (found.simultaneous_high - found.estimate) / errors
    np.testing.assert_allclose(t, t[0], rtol=1e-9)
    assert np.ptp(df) > 0.2
    # between a single interval and Bonferroni's
    alpha = 0.05 / len(NAMES)
    assert student.isf(0.025, df.min()) < t[0] < 1.02 * student.isf(alpha / 2, df.min())


def test_the_table():
    y, p = study()
    found = per_finding(expected_accuracy, y, p, random_state=0)
    frame = found.to_frame()
    assert list(frame.columns) == [*ENDS, "n"]
    assert frame.index.name == "finding"
    assert frame.index.tolist() == NAMES
    for name in frame:
        np.testing.assert_array_equal(frame[name], getattr(found, name))
    assert frame["n"].dtype == np.int64
    assert (frame["simultaneous_low"] <= frame["low"]).all()
    assert (frame["high"] <= frame["simultaneous_high"]).all()
    assert len(repr(found).splitlines()) == 1
    assert len(str(found).splitlines()) <= 20


# --- together ---


def test_one_finding_and_copies_of_it_need_no_more_than_one():
    """With correlation 1 the largest |t| is one |t|; the simulated quantile has an error of 2 %."""
    y, p = study(prevalence=(0.4,))
    three = MultiLabelCounts(np.repeat(y.positive, 3, axis=1), 3, NAMES)
    found = per_finding(expected_squared_loss, three, np.repeat(p, 3, axis=1), random_state=0)
    width = found.high - found.low
    np.testing.assert_allclose(found.simultaneous_high - found.simultaneous_low, width, rtol=0.02)


def test_independent_findings_need_almost_bonferroni():
    """The quantile of independent |t| is that of 1 − (1 − α)^F, each with 49 degrees of freedom."""
    rng = np.random.default_rng(0)
    p = rng.beta(2, 2, size=(2000, 8))
    y = MultiLabelCounts(rng.binomial(1, p), 1)
    found = per_finding(expected_squared_loss, y, p, random_state=0)
    ratio = (found.simultaneous_high - found.simultaneous_low) / (found.high - found.low)
    tail = -np.expm1(np.log(0.95) / 8)
    wanted = student.isf(tail / 2, 49) / student.isf(0.025, 49)
    np.testing.assert_allclose(ratio, wanted, rtol=0.04)


def test_rare_findings_share_the_level_with_the_others():
    """A finding of fewer than 20 events has the endpoint interval at level 1 − α/F."""
    y, p = study(400, (0.3, 0.4, 0.02), n_raters=1)
    p[:, 2] = 0.02
    found = per_finding(expected_accuracy, y, p, random_state=0)
    rare = confidence_interval(
        expected_accuracy, y.of("nodule"), p[:, 2], confidence_level=1 - 0.05 / 3, random_state=0
    )
    assert y.positive[:, 2].sum() < 10
    np.testing.assert_allclose([x[2] for x in found[4:6]], rare[1:3], rtol=1e-12)
    two = per_finding(
        expected_accuracy,
        MultiLabelCounts(y.positive[:, :2], 1),
        p[:, :2],
        confidence_level=1 - 0.05 * 2 / 3,
        random_state=0,
    )
    np.testing.assert_allclose(found.simultaneous_low[:2], two.simultaneous_low, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("common", [(0.3, 0.35, 0.4), (0.05, 0.02, 0.3)])
def test_all_hold_together(common):
    """100 draws: the share is within four standard errors of .95, or above."""
    held = 0
    u_known = np.random.default_rng(1).normal(size=(200_000, 1))
    for seed in range(100):
        rng = np.random.default_rng(seed)
        u = rng.normal(size=(200, 1))
        labels = u + rng.normal(size=(200, 3)) > norm.isf(common) * np.sqrt(2)
        p = norm.cdf(u - norm.isf(common) * np.sqrt(2))
        if seed == 0:
            q = norm.cdf(u_known - norm.isf(common) * np.sqrt(2))
            truth = (2 * q * (1 - q)).mean(axis=0)
        y = MultiLabelCounts(labels.astype(int), 1)
        found = per_finding(expected_squared_loss, y, p, random_state=seed)
        held += ((found.simultaneous_low <= truth) & (truth <= found.simultaneous_high)).all()
    assert held / 100 > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 100)


# --- samples, names, weights ---


def test_nobody_was_asked():
    """Samples that nobody was asked about do not count, as if they were not there."""
    y, p = study()
    asked = np.full((200, 3), 3)
    asked[:50, 1] = 0
    part = MultiLabelCounts(np.minimum(y.positive, asked), asked, NAMES)
    found = per_finding(irreducible_loss, part, p, random_state=0)
    assert found.n.tolist() == [200, 150, 200]
    assert found.estimate[1] == irreducible_loss(y.of("mass").counts[50:])
    with_one = np.where(asked == 0, 1, asked)
    few = MultiLabelCounts(np.minimum(y.positive, with_one), with_one, NAMES)
    assert per_finding(irreducible_loss, few, p, random_state=0).n.tolist() == [200, 150, 200]


def test_a_weight_of_0_is_a_sample_that_is_not_there():
    y, p = study()
    w = (np.arange(200) % 4 > 0).astype(float)
    kept = np.flatnonzero(w)
    weighted = per_finding(expected_squared_loss, y, p, sample_weight=w, random_state=0)
    fewer = per_finding(expected_squared_loss, y[kept], p[kept], random_state=0)
    for name in ENDS:
        np.testing.assert_allclose(getattr(weighted, name), getattr(fewer, name), rtol=1e-12)


def test_findings_meet_by_name():
    y, p = study()
    frame = pd.DataFrame(p, columns=NAMES)
    found = per_finding(expected_squared_loss, y, p, random_state=0)
    other = per_finding(expected_squared_loss, y, frame[NAMES[::-1]], random_state=0)
    named = {name: p[:, f] for f, name in enumerate(NAMES)}
    by_dict = per_finding(expected_squared_loss, y, named, random_state=0)
    np.testing.assert_array_equal(found.estimate, other.estimate)
    np.testing.assert_array_equal(found.simultaneous_high, by_dict.simultaneous_high)


def test_no_prediction_for_metrics_of_labels():
    y, p = study()
    without = per_finding(irreducible_loss, y, None, random_state=0)
    np.testing.assert_array_equal(
        without.estimate, per_finding(irreducible_loss, y, p, random_state=0).estimate
    )


def test_a_function_of_the_users_own():
    def sensitivity(y, prediction):
        said = np.asarray(y)[:, 1]
        return (said * (prediction > 0.5)).sum() / said.sum()

    y, p = study()
    found = per_finding(sensitivity, y, p, random_state=0)
    counts = y.of("mass").counts
    assert found.estimate[1] == sensitivity(counts, p[:, 1])


WRONG = {
    "the sets differ by ['edema', 'other']": lambda p: pd.DataFrame(
        p, columns=["other", "mass", "nodule"]
    ),
    "findings of y and prediction differ by ['edema', 'nodule']": lambda p: {"mass": p[:, 1]},
    "y has 3 findings, but prediction has 2 columns": lambda p: p[:, :2],
    "prediction has 199 samples, expected 200": lambda p: p[1:],
    "prediction must have shape (n_samples, n_findings)": lambda p: p[:, 0],
    "Finding 'mass': prediction": lambda p: p + np.eye(3)[1],
    "prediction of 'mass' has 2 samples": lambda p: (
        dict.fromkeys(NAMES, p[:, 0]) | {"mass": [0, 1]}
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_predictions_that_do_not_fit_are_refused(message):
    y, p = study()
    with pytest.raises(ValueError, match=re.escape(message)):
        per_finding(expected_squared_loss, y, WRONG[message](p))


def test_counts_of_one_finding_are_refused():
    y, p = study()
    with pytest.raises(TypeError, match="y must be MultiLabelCounts, got"):
        per_finding(expected_squared_loss, y.of("mass"), p)


def test_a_finding_without_labels_is_nan_with_a_warning():
    y, p = study()
    asked = y.asked * [1, 0, 1]
    empty = MultiLabelCounts(y.positive * [1, 0, 1], asked, NAMES)
    with pytest.warns(UndefinedMetricWarning, match="Finding mass: fewer than two samples"):
        found = per_finding(expected_squared_loss, empty, p, random_state=0)
    assert found.n.tolist() == [200, 0, 200]
    rest = MultiLabelCounts(y.positive[:, [0, 2]], 3, ["edema", "nodule"])
    others = per_finding(expected_squared_loss, rest, p[:, [0, 2]], random_state=0)
    for name in ENDS:
        column = getattr(found, name)
        assert np.isnan(column[1])
        np.testing.assert_array_equal(column[[0, 2]], getattr(others, name))


def test_a_finding_that_nobody_saw_has_an_interval():
    """One class only: the interval is no point, and says what is missing."""
    y, p = study()
    absent = MultiLabelCounts(y.positive * [1, 0, 1], 3, NAMES)
    with pytest.warns(UserWarning, match="Finding mass: All 200 samples"):
        found = per_finding(expected_accuracy, absent, p * [1, 0.1, 1], random_state=0)
    assert found.estimate[1] == found.high[1] == 1
    assert 0.95 < found.simultaneous_low[1] < found.low[1] < 1
    p[:, 1] = 0
    with pytest.warns(UserWarning, match="same expected_squared_loss"):
        found = per_finding(expected_squared_loss, absent, p, random_state=0)
    assert found.low[1] < 1e-12 < found.high[1] < found.simultaneous_high[1] < 0.1


def test_warnings_are_said_once_with_the_findings():
    y, p = study(60, (0.02, 0.02, 0.4), n_raters=1, seed=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        per_finding(label_log_loss, y, np.full_like(p, 0.4), random_state=0)
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == len(set(messages))
    assert all(message.startswith("Finding ") for message in messages)


def test_raters_of_some_findings_only():
    """A rater who is not asked about a finding is none of its raters."""
    y, p = read_study(R=6)
    mass = y.of("mass")
    without = mass.keep(mass.rater != 5)
    some = MultiLabelCounts.from_annotations({"edema": y.of("edema"), "mass": without})
    found = per_finding(expected_squared_loss, some, p[:, :2], random_state=0)
    alone = confidence_interval(expected_squared_loss, without, p[:, 1], random_state=0)
    np.testing.assert_allclose([x[1] for x in found[1:4]], alone[:3], rtol=1e-9)


def test_counts_have_no_random_raters():
    y, p = study()
    with pytest.raises(ValueError, match='raters="random" needs to know'):
        per_finding(expected_squared_loss, y, p, raters="random")


def test_more_raters_than_blocks():
    """Raters are dealt to blocks, which all findings share."""
    rng = np.random.default_rng(0)
    rater = rng.integers(80, size=(150, 4)) + 80 * np.arange(4)
    item = np.repeat(np.arange(150), 4)
    parts = {
        name: Annotations.from_long(
            item=item, rater=rater.ravel(), label=rng.integers(2, size=600), classes=[0, 1]
        )
        for name in NAMES
    }
    y = MultiLabelCounts.from_annotations(parts)
    p = rng.beta(2, 2, size=(150, 3))
    found = per_finding(disagreement_squared_loss, y, p, random_state=0)
    alone = confidence_interval(disagreement_squared_loss, y.of("mass"), p[:, 1], random_state=0)
    np.testing.assert_allclose([x[1] for x in found[1:4]], alone[:3], rtol=1e-9)
