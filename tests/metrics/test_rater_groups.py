"""Two groups of raters: by hand, beside the intervals of each group, and how often they cover."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import expit

from sklearn_lhcal.label_histogram import Annotations, conger_kappa, krippendorff_alpha
from sklearn_lhcal.metrics import (
    calibration_error,
    calibration_loss,
    confidence_interval,
    expected_accuracy,
    irreducible_loss,
    label_log_loss,
    rater_group_difference,
)

N, R = 40, 5
GROUP = np.repeat(["expert", "trainee"], [R, R + 1])
EXPERT = GROUP == "expert"
NAMES = np.array(list("abcdefghijk"))


def said_by(n=N, seed=0, bias=(-0.5, 0.5)):
    """0 or 1 of five experts and six trainees."""
    rng = np.random.default_rng(seed)
    tilt = np.repeat(bias, [R, R + 1]) + 0.3 * rng.standard_normal(len(GROUP))
    return (rng.random((n, len(GROUP))) < expit(rng.standard_normal((n, 1)) + tilt)).astype(int)


def of(said, **how):
    return Annotations.from_matrix(said, raters=NAMES[: said.shape[1]], classes=[0, 1], **how)


def proba_of(n=N, seed=1):
    return np.random.default_rng(seed).dirichlet([2, 2], n)


Y = of(said_by())
Z = proba_of()
# the share of label 1, as an accuracy
ONES = np.tile([0.2, 0.8], (N, 1))


# in bins that hold several raters each
LOSS = partial(calibration_loss, n_bins=2, strategy="quantile")
ERROR = partial(calibration_error, n_bins=2, strategy="quantile")


def numbers(interval):
    return [*interval, interval.df, *interval.components]


@pytest.mark.parametrize("raters", ["random", "fixed"])
@pytest.mark.parametrize(
    ("metric", "prediction"),
    [
        (expected_accuracy, Z),
        (label_log_loss, Z),
        (irreducible_loss, None),
        (conger_kappa, None),
        (krippendorff_alpha, None),
        (LOSS, Z),
        (ERROR, Z),
        (lambda y, p: float(np.sum(y.counts[:, 1]) / y.counts.sum()), None),
    ],
)
def test_it_is_the_difference_of_two_estimates(metric, prediction, raters):
    """Beside `confidence_interval` of the labels of each group alone, and never without width."""
    found = rater_group_difference(metric, Y, GROUP, prediction, raters=raters, random_state=0)
    each = [
        confidence_interval(metric, Y.keep(part[Y.rater]), prediction, raters=raters)
        for part in (EXPERT, ~EXPERT)
    ]
    assert found.estimate == pytest.approx(each[0].estimate - each[1].estimate, abs=1e-12)
    assert found.low < found.estimate < found.high
    assert found.n_raters == (len(GROUP) if raters == "random" else None)


@pytest.mark.parametrize("metric", [expected_accuracy, irreducible_loss])
def test_of_means_the_raters_are_those_of_each_group(metric):
    prediction = Z if metric is expected_accuracy else None
    found = rater_group_difference(metric, Y, GROUP, prediction)
    each = [
        confidence_interval(metric, Y.keep(part[Y.rater]), prediction).components
        for part in (EXPERT, ~EXPERT)
    ]
    assert found.components.raters == pytest.approx(sum(part.raters for part in each), rel=1e-12)
    assert found.components.cells == pytest.approx(sum(part.cells for part in each), rel=1e-12)


def test_fixed_raters_by_hand():
    """The jackknife over samples, of which trainees have labelled some: t of the fewer samples."""
    said = said_by().astype(object)
    said[25:, ~EXPERT] = None
    a = np.array([row[EXPERT].astype(float).mean() for row in said])
    b = np.array([row[~EXPERT].astype(float).mean() for row in said[:25]])
    T = a.mean() - b.mean()
    without = [np.delete(a, i).mean() - (np.delete(b, i) if i < 25 else b).mean() for i in range(N)]
    error = np.sqrt((N - 1) / N * ((without - np.mean(without)) ** 2).sum())
    reach = stats.t.ppf(0.95, 24) * error
    found = rater_group_difference(
        expected_accuracy, of(said), GROUP, ONES, raters="fixed", confidence_level=0.9
    )
    assert_allclose(found, [T, T - reach, T + reach, error], rtol=1e-10)
    assert found.df == pytest.approx(24)
    assert found.n_raters is None


@pytest.mark.filterwarnings("ignore:There are only 3 raters")
def test_three_random_raters_by_hand():
    """Three mean squares of a crossed design, and Satterthwaite's degrees of freedom."""
    x = said_by(bias=(-0.8, 0.8)).astype(float)
    three = [0, 1, 2, 5, 6, 7]
    parts = x[:, three[:3]], x[:, three[3:]]
    means = [part.mean(axis=1) for part in parts]
    V = V_row = (means[0] - means[1]).var(ddof=1) / N
    noise = V_row**2 / (N - 1)
    for part in parts:
        n_raters = part.shape[1]
        V_rat = part.mean(axis=0).var(ddof=1) / n_raters
        V_cell = part.var(axis=1).sum() / (N**2 * (n_raters - 1))
        V += max(V_rat - V_cell, 0)
        # three may look alike by chance
        noise += V_rat**2 / (n_raters - 1) + V_cell**2 / (N - 1)
    groups = dict.fromkeys(NAMES) | dict(zip(NAMES[three], GROUP[three], strict=True))
    found = rater_group_difference(expected_accuracy, of(x.astype(int)), groups, ONES)
    assert 1.2 * V_row < V
    assert found.standard_error == pytest.approx(np.sqrt(V), rel=1e-10)
    assert found.df == pytest.approx(V**2 / noise, rel=1e-10)
    reach = stats.t.ppf(0.975, V**2 / noise) * np.sqrt(V)
    assert_allclose(found[1:3], [found.estimate - reach, found.estimate + reach], rtol=1e-10)


def test_groups_of_other_samples_are_independent():
    """Where they share none, the variances over samples add up."""
    said = said_by(80).astype(object)
    said[:40, EXPERT] = None
    said[40:, ~EXPERT] = None
    y, z = of(said), proba_of(80)
    how = {"raters": "fixed", "n_blocks": 80}
    found = rater_group_difference(label_log_loss, y, GROUP, z, **how)
    each = [
        confidence_interval(label_log_loss, y.keep(part[y.rater]), z, **how).components.rows
        for part in (EXPERT, ~EXPERT)
    ]
    assert found.components.rows == pytest.approx(sum(each), rel=0.04)


def test_what_samples_share_cancels():
    """Of samples that are all easy or hard, the difference is surer than either group."""
    rng = np.random.default_rng(0)
    easy = rng.random((200, 1)) < 0.5
    y = of((rng.random((200, len(GROUP))) < np.where(easy, 0.95, 0.05)).astype(int))
    z = np.tile([0.2, 0.8], (200, 1))
    found = rater_group_difference(expected_accuracy, y, GROUP, z, raters="fixed", random_state=0)
    alone = confidence_interval(expected_accuracy, y.keep(EXPERT[y.rater]), z, raters="fixed")
    assert found.standard_error < 0.6 * alone.standard_error


@pytest.mark.parametrize("raters", ["random", "fixed"])
@pytest.mark.parametrize(
    ("metric", "prediction"), [(label_log_loss, Z), (conger_kappa, None), (ERROR, Z)]
)
def test_exchanged_groups_turn_the_sign(metric, prediction, raters):
    how = {"raters": raters, "random_state": 0}
    found = rater_group_difference(metric, Y, GROUP, prediction, **how)
    turned = np.where(EXPERT, "trainee", "expert")
    for other in (
        rater_group_difference(metric, Y, turned, prediction, **how),
        rater_group_difference(metric, Y, GROUP, prediction, compare=["trainee", "expert"], **how),
    ):
        assert_allclose(other[:3], [-found.estimate, -found.high, -found.low], atol=1e-12)
        assert_allclose([other[3], other.df], [found[3], found.df], rtol=1e-12)


def test_order_of_raters_and_samples():
    said = said_by()
    expected = numbers(rater_group_difference(irreducible_loss, Y, GROUP))
    order = np.random.default_rng(2).permutation(len(GROUP))
    y = Annotations.from_matrix(said[:, order], raters=NAMES[order], classes=[0, 1])
    found = rater_group_difference(irreducible_loss, y, GROUP[order])
    assert_allclose(numbers(found), expected, rtol=1e-10)
    order = np.random.default_rng(3).permutation(N)
    found = rater_group_difference(irreducible_loss, of(said[order]), GROUP, random_state=3)
    assert_allclose(numbers(found), expected, rtol=1e-10)


def test_groups_by_the_names_of_raters():
    """A dict or Series, in any order, of more raters than there are; others are in no group."""
    expected = numbers(rater_group_difference(irreducible_loss, Y, GROUP))
    named = pd.Series(GROUP, index=NAMES)
    more = pd.concat([named, pd.Series(["expert"], index=["Zoe"])])
    for groups in (GROUP.tolist(), named[::-1], more.to_dict(), pd.Series(GROUP)):
        found = rater_group_difference(irreducible_loss, Y, groups)
        assert_allclose(numbers(found), expected, rtol=1e-10)
    fewer = named.to_dict() | {"k": None, "j": pd.NA}
    with pytest.warns(UserWarning, match="only 4 raters"):
        found = rater_group_difference(irreducible_loss, Y, fewer)
    assert found.n_raters == 9
    three = named.to_dict() | {"k": "student"}
    found = rater_group_difference(
        irreducible_loss, Y, three, compare=("expert", "trainee"), raters="fixed"
    )
    assert found.estimate == pytest.approx(
        irreducible_loss(Y.keep(EXPERT[Y.rater]), None)
        - irreducible_loss(Y.keep((GROUP == "trainee")[Y.rater] & (Y.rater < 10)), None)
    )


@pytest.mark.parametrize("metric", [label_log_loss, irreducible_loss])
def test_weights_are_repetitions(metric):
    w = 1 + np.arange(N) % 3
    prediction = Z if metric is label_log_loss else None
    repeated = np.repeat(np.arange(N), w)
    found = rater_group_difference(metric, Y, GROUP, prediction, sample_weight=w)
    again = rater_group_difference(
        metric,
        Y[repeated],
        GROUP,
        None if prediction is None else prediction[repeated],
        groups=repeated,
    )
    assert found.estimate == pytest.approx(again.estimate, abs=1e-12)
    assert_allclose(found.components[1:], again.components[1:], rtol=1e-9)
    scaled = rater_group_difference(metric, Y, GROUP, prediction, sample_weight=1000.0 * w)
    assert_allclose(numbers(scaled), numbers(found), rtol=1e-9)


def test_samples_without_weight_do_not_count():
    w = np.r_[np.zeros(10), np.ones(N - 10)]
    found = rater_group_difference(label_log_loss, Y, GROUP, Z, sample_weight=w)
    left = rater_group_difference(label_log_loss, Y[10:], GROUP, Z[10:])
    assert_allclose(numbers(found), numbers(left), rtol=1e-10)


@pytest.mark.parametrize("raters", ["random", "fixed"])
def test_each_sample_twice_in_a_group_is_no_more_evidence(raters):
    twice = np.repeat(np.arange(N), 2)
    expected = rater_group_difference(label_log_loss, Y, GROUP, Z, raters=raters)
    patient = twice.astype(str)
    found = rater_group_difference(
        label_log_loss, Y[twice], GROUP, Z[twice], raters=raters, groups=patient
    )
    assert_allclose(numbers(found), numbers(expected), rtol=1e-9)


ALIKE = of(np.zeros((N, len(GROUP)), dtype=int))
SURE = np.tile([0.9, 0.1], (N, 1))


@pytest.mark.filterwarnings("ignore:All 40 samples .* the standard error is 0:UserWarning")
@pytest.mark.parametrize(
    ("metric", "y", "prediction"), [(ERROR, Y, Z), (expected_accuracy, ALIKE, SURE)]
)
@pytest.mark.parametrize("raters", ["random", "fixed"])
def test_roots_and_few_samples_are_squared_and_added(metric, y, prediction, raters):
    """Distances of the ends of both groups; where all agree with the model there is a width."""
    found = rater_group_difference(metric, y, GROUP, prediction, raters=raters)
    a, b = (
        confidence_interval(metric, y.keep(part[y.rater]), prediction, raters=raters)
        for part in (EXPERT, ~EXPERT)
    )
    d = a.estimate - b.estimate
    low = d - np.hypot(a.estimate - a.low, b.high - b.estimate)
    high = d + np.hypot(a.high - a.estimate, b.estimate - b.low)
    assert found.low < d < found.high
    if metric is expected_accuracy or raters == "fixed":
        # else blocks of cells are drawn
        assert_allclose(found[:3], [d, low, high], rtol=1e-10, atol=1e-12)


def test_a_rater_who_labels_nearly_all():
    """Without her hardly a sample is left: a very wide interval of a mean, else one for these."""
    said = said_by(60).astype(object)
    said[4:, 1:R] = None
    y, z = of(said), proba_of(60)
    with pytest.raises(
        ValueError,
        match=r"^Group 'expert' of rater_groups: Without rater a only 6\.7% .* raters=\"fixed\"",
    ):
        rater_group_difference(lambda y, z: label_log_loss(y, z), y, GROUP, z)
    fixed = rater_group_difference(label_log_loss, y, GROUP, z, raters="fixed")
    assert fixed.low < fixed.estimate < fixed.high
    with pytest.warns(UserWarning, match=r"The 5 raters are worth only 1\.1"):
        wide = rater_group_difference(label_log_loss, y, GROUP, z)
    assert wide.high - wide.low > 3 * (fixed.high - fixed.low)
    # the others give a quarter each: she is worth more than they are, and the interval is wide
    said = said_by(60).astype(object)
    given = np.random.default_rng(0).random((60, R - 1)) < 0.25
    said[:, 1:R][~given] = None
    with pytest.warns(UserWarning, match="The 5 raters are worth only"):
        wide = rater_group_difference(label_log_loss, of(said), GROUP, z)
    assert wide.high - wide.low > fixed.high - fixed.low


def test_a_group_in_one_block_has_no_interval():
    said = said_by(60).astype(object)
    said[2:, EXPERT] = None
    found = [
        rater_group_difference(
            expected_accuracy,
            of(said),
            GROUP,
            np.tile([0.45, 0.55], (60, 1)),
            raters="fixed",
            n_blocks=2,
            random_state=seed,
        )
        for seed in range(8)
    ]
    assert np.isfinite([one.estimate for one in found]).all()
    assert {bool(np.isnan(one.standard_error)) for one in found} == {True, False}


@pytest.mark.parametrize(
    ("groups", "how", "words"),
    [
        (
            ["a"] * 2 + ["b"] * 9,
            {},
            "^Group 'a' of .* three raters at least, got 2.*raters=\"fixed\"",
        ),
        (["a"] * 11, {}, r"two of the groups in rater_groups, \['a'\]"),
        ([None] * 11, {}, r"two of the groups in rater_groups, \[\]"),
        (list("aabbccddabc"), {}, r"\['a', 'b', 'c', 'd'\], by compare=\(a, b\); got compare=None"),
        (GROUP, {"compare": ("expert", "nurse")}, r"got compare=\('expert', 'nurse'\)"),
        (GROUP, {"compare": ("expert", "expert")}, "Choose two of the groups"),
        (GROUP, {"compare": ["expert"]}, "Choose two of the groups"),
        (GROUP, {"compare": 3}, "compare must be a list or None, got 3"),
        (GROUP[:5], {}, "rater_groups has 5 groups for 11 raters"),
        (dict.fromkeys("ab", 1), {}, r"rater_groups lacks the raters \['c', 'd'"),
        (np.array([GROUP, GROUP]), {}, "rater_groups must be 1-D"),
        (["a", 1] * 5 + ["a"], {}, "rater_groups holds types that cannot be sorted"),
        (
            ["a"] + ["b"] * 10,
            {"raters": "fixed"},
            "^Group 'a' of rater_groups: no sample has labels of 2 of its",
        ),
        (GROUP, {"raters": "new"}, 'raters must be "random", "fixed" or None'),
    ],
)
def test_what_is_refused(groups, how, words):
    with pytest.raises(ValueError, match=words):
        rater_group_difference(irreducible_loss, Y, groups, **how)


def test_labels_without_raters_and_without_prediction_are_refused():
    with pytest.raises(ValueError, match="y does not say who gave the labels"):
        rater_group_difference(irreducible_loss, Y.counts, GROUP)
    with pytest.raises(ValueError, match="Group 'expert' of rater_groups: prediction is None"):
        rater_group_difference(label_log_loss, Y, GROUP)


NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(61)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def value_of(metric, bias, spread):
    """What a metric is of all samples and all raters of a group."""
    p = expit(NODES[:, None] + bias + spread * NODES) @ WEIGHTS
    return p @ WEIGHTS if metric is expected_accuracy else 2 * (p * (1 - p)) @ WEIGHTS


@pytest.mark.parametrize("coefficient", [conger_kappa, krippendorff_alpha])
def test_a_correlation_narrows_the_difference_of_kappas(coefficient):
    """The same samples, hard or easy for both groups: as wide as a bootstrap of samples has it."""
    rng = np.random.default_rng(0)
    said = rng.random((150, 6)) < expit(4 * rng.standard_normal((150, 1)) + [0, 0, 0, 1, 1, 1])
    said = said.astype(int)
    groups = ["a"] * 3 + ["b"] * 3

    def difference(said):
        y = Annotations.from_matrix(said, classes=[0, 1])
        return coefficient(y.keep(y.rater < 3)) - coefficient(y.keep(y.rater >= 3))

    found = rater_group_difference(
        coefficient, Annotations.from_matrix(said), groups, raters="fixed", random_state=0
    )
    drawn = [difference(said[rng.integers(0, 150, 150)]) for _ in range(300)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert_allclose(found.estimate, difference(said))
    # 300 draws know their quantiles to 8 % of the width
    assert 0.85 < (found.high - found.low) / (high - low) < 1.35


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Few samples differ:UserWarning")
@pytest.mark.parametrize("metric", [expected_accuracy, irreducible_loss])
@pytest.mark.parametrize("bias", [0.0, 1.0])
@pytest.mark.parametrize("spreads", [(0.3, 0.3), (0.8, 0.8), (0.2, 0.8)])
def test_intervals_cover(metric, bias, spreads):
    """100 new samples and eight new raters of each group, in 400 draws; fixed raters would not."""
    rng = np.random.default_rng(0)
    n, n_raters, draws = 100, 8, 400
    z = np.tile([0.2, 0.8], (n, 1)) if metric is expected_accuracy else None
    truth = value_of(metric, 0.0, spreads[0]) - value_of(metric, bias, spreads[1])
    groups = ["a"] * n_raters + ["b"] * n_raters
    covered = []
    for _ in range(draws):
        tilt = np.repeat([0.0, bias], n_raters)
        tilt = tilt + np.repeat(spreads, n_raters) * rng.standard_normal(2 * n_raters)
        said = rng.random((n, 2 * n_raters)) < expit(rng.standard_normal((n, 1)) + tilt)
        y = Annotations.from_matrix(said.astype(int), classes=[0, 1])
        found = rater_group_difference(metric, y, groups, z, random_state=0)
        covered.append(found.low <= truth <= found.high)
    within = 3 * np.sqrt(0.95 * 0.05 / draws)
    # of pairs it is wider than need be, as `confidence_interval` is
    most = 1.0 if metric is irreducible_loss else 0.95 + within
    assert 0.95 - within <= np.mean(covered) <= most
