"""Intervals where hardly any sample speaks: rare classes, good models, groups of unequal size."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import (
    MetricAccumulator,
    calibration_error,
    calibration_loss,
    confidence_interval,
    decision_curve,
    decision_risk,
    epistemic_loss,
    expected_accuracy,
    expected_squared_loss,
    irreducible_loss,
    kernel_calibration_error,
    label_log_loss,
    net_benefit,
    paired_difference,
    policy_curve,
    ranked_probability_score,
    referral_curve,
    risk_gap,
    study_size,
)

FEW = "ignore:(.*the standard error (may be too small|is 0)|Fewer than 10% of the labels)"
ALL_ALIKE = "All 100 samples or groups have the same expected_accuracy: the standard error is 0"
COSTS = np.array([[0.0, 1.0], [1000.0, 0.0]])
# of 4 000 draws, a tail of .025 is within .010 of it (four standard errors)
TAIL = 0.01


def good_model(n: int, wrong: int, p: float = 0.01):
    """Labels, all predicted with p for the second class, which `wrong` of them are."""
    y = np.zeros((n, 2), dtype=int)
    y[:, 0] = np.arange(n) >= wrong
    y[:, 1] = 1 - y[:, 0]
    return y, np.tile([1 - p, p], (n, 1))


def plain(metric):
    """A function without tags, whose interval is Student's."""
    return lambda y, prediction, **options: metric(y, prediction, **options)


@pytest.mark.filterwarnings(FEW)
@pytest.mark.parametrize(
    ("n", "wrong"), [(20, 0), (100, 0), (100, 1), (100, 9), (3000, 5), (30_000, 7)]
)
def test_of_0_and_1_it_is_clopper_and_pearson(n, wrong):
    y, z = good_model(n, wrong)
    found = confidence_interval(expected_accuracy, y, z, random_state=0)
    # P(≥ right) at the lower end and P(≤ right) at the upper one are α/2
    right = n - wrong
    assert stats.binom.sf(right - 1, n, found.low) == pytest.approx(0.025, abs=TAIL)
    if wrong:
        assert stats.binom.cdf(right, n, found.high) == pytest.approx(0.025, abs=TAIL)
    else:
        assert found.high == 1
    assert found.df is None


@pytest.mark.filterwarnings(FEW)
def test_the_level_counts():
    y, z = good_model(100, 2)
    how = {"random_state": 0}
    wide, narrow = (
        confidence_interval(expected_accuracy, y, z, confidence_level=level, **how)
        for level in (0.99, 0.8)
    )
    assert wide.low < narrow.low < narrow.high < wide.high
    assert stats.binom.sf(97, 100, narrow.low) == pytest.approx(0.1, abs=2 * TAIL)


def test_without_an_exception_a_warning_counts_the_samples():
    y, z = good_model(100, 0)
    with pytest.warns(UserWarning, match=ALL_ALIKE):
        found = confidence_interval(expected_accuracy, y, z, random_state=0)
    assert found.standard_error < 1e-12
    assert found.low < 0.97


@pytest.mark.filterwarnings(FEW)
@pytest.mark.parametrize("shift", [0.0, 500.0])
def test_risks_reach_as_far_as_their_costs(shift):
    y, _ = good_model(100, 0)
    how = {"cost_matrix": COSTS + shift, "random_state": 0}
    found = confidence_interval(decision_risk, y, np.zeros(100, int), **how)
    # the lower end of Clopper and Pearson's for the others
    assert found.high - shift == pytest.approx(1000 * (1 - 0.025 ** (1 / 100)), rel=0.1)
    assert found.low == pytest.approx(shift, rel=1e-12)
    assert found.estimate == pytest.approx(shift, rel=1e-12)


@pytest.mark.filterwarnings(FEW)
def test_a_range_has_two_ends():
    y, z = good_model(60, 2)
    right = confidence_interval(expected_accuracy, y, z, random_state=0)
    wrong = confidence_interval(expected_accuracy, y, z[:, ::-1], random_state=0)
    # other draws: widths within a tenth
    assert_allclose([wrong.low, wrong.high], [1 - right.high, 1 - right.low], atol=0.01)


@pytest.mark.filterwarnings(FEW)
def test_weights_and_groups_are_worth_what_they_are():
    y, z = good_model(120, 3)
    how = {"random_state": 0}
    plain_ends = confidence_interval(expected_accuracy, y, z, **how)
    scaled = confidence_interval(expected_accuracy, y, z, sample_weight=np.full(120, 7.0), **how)
    assert_allclose(scaled, plain_ends, rtol=1e-12)
    # three rows a group, and groups that are wrong as a whole, are a third of the rows
    groups = np.arange(120) // 3
    grouped = confidence_interval(expected_accuracy, y, z, groups=groups, **how)
    fewer = confidence_interval(expected_accuracy, *good_model(40, 1), **how)
    assert_allclose(grouped[:3], fewer[:3], rtol=1e-12)


@pytest.mark.parametrize("metric", [expected_accuracy, expected_squared_loss, calibration_loss])
def test_where_many_speak_it_is_the_jackknife(metric):
    data = make_label_histograms(150, overconfidence=2.0, random_state=0)
    how = {"n_blocks": 150}
    found = confidence_interval(metric, data.counts, data.prediction, **how)
    student = confidence_interval(plain(metric), data.counts, data.prediction, **how)
    assert_allclose(found, student, rtol=1e-9)


@pytest.mark.parametrize(
    "metric", [calibration_loss, calibration_error, label_log_loss, kernel_calibration_error]
)
def test_few_labels_apart_are_counted(metric):
    y, z = good_model(100, 3)
    options = {"bandwidth": 0.1} if metric is kernel_calibration_error else {}
    with pytest.warns(UserWarning, match="^3 of 100 samples have a label other than the predicted"):
        found = confidence_interval(metric, y, z, random_state=0, **options)
    assert found.low <= found.estimate <= found.high


@pytest.mark.filterwarnings(FEW)
@pytest.mark.parametrize("wrong", [0, 1, 3, 9])
def test_of_one_prediction_the_loss_is_that_of_clopper_and_pearsons_ends(wrong):
    """All predictions alike: CL is 2(q − p)² and the log loss is linear in the frequency q."""
    y, z = good_model(100, wrong)
    low, high = (
        stats.beta.ppf(tail, wrong + more, 101 - wrong - more) if wrong + more else 0.0
        for tail, more in ((0.025, 0), (0.975, 1))
    )
    CL = confidence_interval(calibration_loss, y, z, random_state=0)
    assert CL.high >= 2 * max(high - 0.01, 0.01 - low) ** 2 * 0.9
    assert CL.low <= (0.0 if low <= 0.01 <= high else 2 * (low - 0.01) ** 2)
    loss = confidence_interval(label_log_loss, y, z, random_state=0)
    # the draws move an end by some hundredths of its distance
    assert loss.high >= -np.log(0.99) + 0.95 * high * np.log(99)
    assert loss.low <= -np.log(0.99) + 1.05 * low * np.log(99)


@pytest.mark.filterwarnings(FEW)
def test_a_calibrated_good_model_is_not_said_to_be_miscalibrated():
    rng = np.random.default_rng(0)
    for _ in range(20):
        y, z = good_model(100, rng.binomial(100, 0.01))
        for metric in (calibration_loss, calibration_error):
            found = confidence_interval(metric, y, z, random_state=0)
            assert found.low <= 0 <= found.high


@pytest.mark.filterwarnings(FEW)
@pytest.mark.parametrize("metric", [expected_accuracy, calibration_loss, irreducible_loss])
def test_random_raters_make_no_interval_narrower(metric):
    rng = np.random.default_rng(0)
    said = (rng.random((80, 5)) < 0.01).astype(int)
    y = Annotations.from_matrix(said, classes=[0, 1])
    z = np.tile([0.99, 0.01], (80, 1))
    found = confidence_interval(metric, y, z, random_state=0)
    fixed = confidence_interval(metric, y, z, raters="fixed", random_state=0)
    assert fixed.high - fixed.low <= (found.high - found.low) * (1 + 1e-9)


@pytest.mark.filterwarnings(FEW)
@pytest.mark.parametrize("metric", [epistemic_loss, calibration_loss])
def test_names_and_order_of_classes_make_no_difference(metric):
    rng = np.random.default_rng(0)
    z = rng.dirichlet([60, 2, 1], 50)
    y = np.array([rng.multinomial(2, p) for p in z])
    turned = [2, 0, 1]
    how = {"random_state": 0}
    found = confidence_interval(metric, y, z, **how)
    assert_allclose(confidence_interval(metric, y[:, turned], z[:, turned], **how), found)


@pytest.mark.filterwarnings(FEW)
def test_the_gap_of_risks_has_ends_too():
    y, z = good_model(100, 0)
    found = confidence_interval(risk_gap, y, z, cost_matrix=COSTS, random_state=0)
    assert found.low < found.high


# --- groups of unequal size ---


def test_degrees_of_freedom_know_the_sizes_of_groups():
    data = make_label_histograms(300, overconfidence=2.0, random_state=0)
    sizes = np.array([40] * 4 + [7] * 20)
    groups = np.repeat(np.arange(24), sizes)
    of = plain(expected_squared_loss)
    found = confidence_interval(of, data.counts, data.prediction, groups=groups, random_state=0)
    expected = (sizes**2).sum() ** 2 / (sizes**4).sum() - 1
    assert found.df == pytest.approx(expected, rel=1e-9)
    groups = np.arange(300) // 10
    alike = confidence_interval(of, data.counts, data.prediction, groups=groups, random_state=0)
    assert alike.df == pytest.approx(29)


def test_few_large_groups_are_warned_of():
    data = make_label_histograms(300, overconfidence=2.0, random_state=0)
    groups = np.maximum(np.arange(300) - 200, 0)
    with pytest.warns(UserWarning, match="The 100 groups are worth only 2.2 of equal size"):
        confidence_interval(
            expected_squared_loss, data.counts, data.prediction, groups=groups, random_state=0
        )


# --- what cannot have such ends says so ---


def test_batches_say_that_few_samples_speak():
    y, z = good_model(100, 2)
    seen = MetricAccumulator(expected_accuracy).update(y, z)
    with pytest.warns(UserWarning, match="use confidence_interval with all at once"):
        seen.result()


def test_a_pilot_with_a_rare_class_says_so():
    rng = np.random.default_rng(0)
    y = Annotations.from_matrix((rng.random((100, 5)) < 0.02).astype(int), classes=[0, 1])
    z = np.tile([0.98, 0.02], (100, 1))
    with pytest.warns(UserWarning, match="the others in expected_accuracy: .*fixed"):
        study_size(expected_accuracy, y, z, half_width=0.02)


# --- coverage ---


@pytest.mark.slow
@pytest.mark.filterwarnings(FEW)
@pytest.mark.parametrize("truth", [0.01, 0.047])
@pytest.mark.parametrize("metric", [expected_accuracy, expected_squared_loss, calibration_loss])
def test_good_models_are_covered(metric, truth):
    """100 samples with z = (.99, .01); the jackknife covers .43 to .97 of these."""
    of_truth = {
        expected_accuracy: 1 - truth,
        expected_squared_loss: 2 * ((1 - truth) * 0.01**2 + truth * 0.99**2),
        calibration_loss: 2 * (truth - 0.01) ** 2,
    }[metric]
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(200):
        y, z = good_model(100, rng.binomial(100, truth))
        found = confidence_interval(metric, y, z, random_state=0)
        held += found.low <= of_truth <= found.high
    assert held / 200 >= 0.95 - 2.5 * np.sqrt(0.95 * 0.05 / 200)


# --- differences and curves ---


def total_cost_of_stopping(counts, z):
    before = Dirichlet.from_mean(z, np.full(len(z), 4.0))
    C = [[0.0, 1.0], [20.0, 0.0]]
    curve = policy_curve(counts, before, C, horizon=2, prices=[0.01], random_state=0)
    return curve.total_cost[0, 0], curve.interval[0, 0]


def gain_of_a_fifth(counts, z):
    before = Dirichlet.from_mean(z, np.full(len(z), 4.0))
    curve = referral_curve(counts, before, n_points=6)
    return curve.realised_gain[1], curve.interval[1]


@pytest.mark.filterwarnings(FEW)
@pytest.mark.parametrize("metric", [epistemic_loss, label_log_loss, ranked_probability_score])
def test_means_without_limits_reach_to_what_few_terms_may_be(metric):
    """16 of 240 samples have one label that is predicted with .03."""
    rng = np.random.default_rng(0)
    z = np.tile([0.97, 0.03], (60, 1))
    y = np.tile([3, 0], (60, 1))
    y[:4] = [[2, 1]] * 4
    other = z + rng.uniform(-0.01, 0.01, size=(60, 1)) * [1, -1]
    found = confidence_interval(metric, np.vstack([y] * 4), np.vstack([other] * 4), random_state=0)
    students = confidence_interval(
        plain(metric), np.vstack([y] * 4), np.vstack([other] * 4), random_state=0
    )
    assert found.high > students.high
    assert found.low <= found.estimate


def test_ends_are_where_the_truth_may_be():
    """EL of a calibrated model: its estimate may be negative, and the truth not."""
    signs = set()
    rng = np.random.default_rng(0)
    for _ in range(20):
        Q = rng.dirichlet(np.ones(3), 60)
        y = rng.multinomial(3, Q)
        found = confidence_interval(epistemic_loss, y, Q, random_state=0)
        assert found.low == min(0, found.estimate) or found.low > 0
        assert found.high >= 0
        signs.add(found.estimate < 0)
    assert signs == {True, False}
    # a difference of two may be negative
    assert paired_difference(epistemic_loss, y, Q, Q[:, [1, 0, 2]], random_state=0).low < 0


@pytest.mark.parametrize("threshold", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("grouped", [False, True])
def test_net_benefit_alone_is_the_point_of_its_curve(threshold, grouped):
    """400 samples with 1 % of the class, of whom few are acted on, or nobody is."""
    rng = np.random.default_rng(0)
    p = 1 / (1 + np.exp(5.5 - 1.2 * rng.normal(size=400)))
    y, z = rng.binomial(3, p)[:, None] * [-1, 1] + [3, 0], np.column_stack([1 - p, p])
    how = {"groups": np.arange(400) // 2 if grouped else None, "sample_weight": 1 + p}
    alone = confidence_interval(net_benefit, y, z, threshold=threshold, random_state=0, **how)
    curve = decision_curve(y, z, thresholds=[threshold], **how)
    assert_allclose([alone.low, alone.high], curve.interval[0, 0], rtol=1e-9)
    assert alone.low < 0 < alone.high


@pytest.mark.slow
@pytest.mark.filterwarnings(FEW)
def test_losses_are_covered_where_a_class_is_rare():
    """3 % of the labels, a model that is too sure: Student's covers EL in .83 of such draws."""
    node, weight = np.polynomial.hermite_e.hermegauss(101)
    logit = -4.6 + 1.5 * node

    def chance(x):
        return 1 / (1 + np.exp(-x))

    loss = 2 * (chance(logit) - chance(1.5 * logit)) ** 2
    truth = weight @ loss / weight.sum()
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(200):
        x = -4.6 + 1.5 * rng.normal(size=150)
        said = rng.binomial(3, chance(x))
        z = np.column_stack([1 - chance(1.5 * x), chance(1.5 * x)])
        found = confidence_interval(
            epistemic_loss, np.column_stack([3 - said, said]), z, random_state=0
        )
        held += found.low <= truth <= found.high
    assert held / 200 >= 0.95 - 2.5 * np.sqrt(0.95 * 0.05 / 200)


@pytest.mark.parametrize("metric", [label_log_loss, irreducible_loss])
@pytest.mark.parametrize(
    ("share", "n_raters", "raters", "warned"),
    [
        (0.04, 5, "random", True),
        (0.04, 5, "fixed", False),
        (0.3, 5, "random", False),
        (0.04, 20, "random", False),
    ],
)
def test_few_raters_who_may_rule_a_rare_class_are_warned_of(
    metric, share, n_raters, raters, warned
):
    rng = np.random.default_rng(0)
    said = (rng.random((300, n_raters)) < share).astype(int)
    y = Annotations.from_matrix(said, classes=[0, 1])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        z = np.tile([1 - share, share], (300, 1))
        confidence_interval(metric, y, z, raters=raters, random_state=0)
    names = [metric.__name__ in str(w.message) for w in caught if "commonest" in str(w.message)]
    assert names == [True] * warned


def two_models(n: int, apart: int):
    """Labels, and two models of which the second is wrong in so many samples, the first never."""
    y, z = good_model(n, n // 2)
    z = np.where(y == 1, 0.9, 0.1)
    other = z.copy()
    other[:apart] = other[:apart, ::-1]
    return y, z, other


@pytest.mark.parametrize("apart", [1, 3, 9])
def test_models_that_differ_in_few_samples_have_the_ends_of_exponential_weights(apart):
    y, z, other = two_models(60, apart)
    found = paired_difference(expected_accuracy, y, z, other, random_state=0)
    assert found.estimate == pytest.approx(apart / 60)
    # (Σ_g D_g X_g ± D_0) / (Σ_g D_g + D_0)
    D = np.random.default_rng(1).standard_exponential((100_000, 61))
    for end, sign in ((found.low, -1), (found.high, 1)):
        drawn = (D[:, :apart].sum(axis=1) + sign * D[:, 60]) / D.sum(axis=1)
        assert (sign * drawn > sign * end).mean() == pytest.approx(0.025, abs=TAIL)
    # the other order of the samples draws other weights
    swapped = paired_difference(expected_accuracy, y, other, z, random_state=0)
    assert_allclose([swapped.low, swapped.high], [-found.high, -found.low], atol=0.006)


def test_models_that_decide_alike_may_differ_elsewhere():
    """Not one of 60 is of a share below 1 − 0.025^(1/60), by Clopper and Pearson."""
    y, z, _ = two_models(60, 0)
    how = {"random_state": 0}
    found = paired_difference(expected_accuracy, y, z, 0.5 * z + 0.25, **how)
    share = 1 - 0.025 ** (1 / 60)
    assert_allclose([found.low, found.high], [-share, share], rtol=0.1)
    # one model is no two
    assert paired_difference(expected_accuracy, y, z, z, **how)[:4] == (0, 0, 0, 0)
    # equal decisions and labels do not say how many models they are of
    d = y[:, 1]
    assert paired_difference(decision_risk, y, d, d, cost_matrix=COSTS, **how)[:4] == (0, 0, 0, 0)
    found = paired_difference(decision_risk, y, d, 1 * d, cost_matrix=COSTS, **how)
    assert_allclose([found.low, found.high], [-1000 * share, 1000 * share], rtol=0.1)
    found = paired_difference(expected_accuracy, y, 1.0 * y, 1.0 * y, **how)
    assert_allclose([found.low, found.high], [-share, share], rtol=0.1)


def test_where_many_differ_the_difference_is_students():
    data = make_label_histograms(200, random_state=0)
    for metric in (expected_accuracy, expected_squared_loss, label_log_loss):
        pair = data.counts, data.prediction, data.prediction[:, [1, 0, 2]]
        how = {"random_state": 0, "n_blocks": 50}
        expected = paired_difference(plain(metric), *pair, **how)
        assert_allclose(paired_difference(metric, *pair, **how), expected, rtol=1e-10)


def test_random_raters_keep_students_ends_too():
    y, z, other = two_models(60, 3)
    said = y.argmax(axis=1)[:, None].repeat(5, axis=1)
    said[0, :2] = 1 - said[0, :2]
    labels = Annotations.from_matrix(said)
    with pytest.warns(UserWarning, match="^Few samples differ in expected_accuracy: .*fixed"):
        found = paired_difference(expected_accuracy, labels, z, other, random_state=0)
    students = paired_difference(plain(expected_accuracy), labels, z, other, random_state=0)
    assert found.low < students.low
    assert found.high >= students.high


def test_differences_of_good_models_are_covered():
    """Accuracies of .99 and .98, which Student's intervals cover in .86 of the draws."""
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(200):
        y = rng.integers(2, size=100)
        models = (np.where(rng.random(100) < right, y, 1 - y) for right in (0.99, 0.98))
        z = [np.eye(2)[said] for said in models]
        found = paired_difference(expected_accuracy, np.eye(2, dtype=int)[y], *z, random_state=0)
        held += found.low <= 0.01 <= found.high
    assert held / 200 >= 0.95 - 2.5 * np.sqrt(0.95 * 0.05 / 200)


@pytest.mark.parametrize("events", [1, 4])
def test_net_benefit_of_acting_on_all_has_clopper_and_pearsons_ends(events):
    n, t = 50, 0.05
    y = (np.arange(n) < events).astype(int)
    curve = decision_curve(y, np.full(n, 0.1), thresholds=[t])
    for tail, end in zip((0.025, 0.975), curve.interval[0, 0], strict=True):
        a = events if tail < 0.5 else events + 1
        share = stats.beta.ppf(tail, a, n + 1 - a)
        assert end == pytest.approx(share - (1 - share) * t / (1 - t), rel=0.15)


@pytest.mark.parametrize(
    ("reference", "p", "low", "high"),
    [
        ("none", 0.1, -0.25, 1.0),
        ("all", 0.9, -1.0, 0.25),
        # either may be the one that acts: Σ p x²/Σ p x of x = 1 and .25
        ("model", 0.1, -0.48, 0.48),
    ],
)
def test_acting_that_no_sample_calls_for_may_be_called_for_elsewhere(reference, p, low, high):
    """Not one of 50 acts otherwise than the reference; of one, t = .2 makes t/(1 − t) or 1."""
    y = np.arange(50) % 2
    models = {"compared": np.full(50, p), "model": np.full(50, 0.15)}
    name = reference if reference in models else None
    curve = decision_curve(y, models, reference=name, thresholds=[0.2, 0.5])
    found, interval = curve.difference, curve.difference_interval
    if reference == "none":
        found, interval = curve.net_benefit, curve.interval
    assert found[0, 0] == 0
    share = 1 - 0.025 ** (1 / 50)
    assert_allclose(interval[0, 0], [low * share, high * share], rtol=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("of_curve", [total_cost_of_stopping, gain_of_a_fifth])
def test_points_of_curves_are_covered_where_a_class_is_rare(of_curve):
    """40 samples with 2 % of the second class: Student's intervals cover in .78 and .70."""
    rng = np.random.default_rng(0)

    def drawn(n):
        p = 1 / (1 + np.exp(4.5 - 1.2 * rng.normal(size=n)))
        return np.column_stack([1 - p, p])

    Q = drawn(20_000)
    truth, _ = of_curve(rng.multinomial(3, Q), Q)
    held = 0
    for _ in range(200):
        Q = drawn(40)
        _, (low, high) = of_curve(rng.multinomial(3, Q), Q)
        held += low <= truth <= high
    assert held / 200 >= 0.95 - 2.5 * np.sqrt(0.95 * 0.05 / 200)


def test_of_many_samples_and_classes_some_are_asked():
    """Of 4,000 samples of 100 classes one in three is asked what else its term may be."""
    rng = np.random.default_rng(0)
    z = rng.dirichlet(np.full(100, 0.1), 4000)
    y = rng.multinomial(1, z)
    flat = 0.5 * z + 0.005
    found = paired_difference(expected_squared_loss, y, z, flat, random_state=0)
    assert found.df == 999
