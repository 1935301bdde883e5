"""Few labels of people, many of a judge: the published formula, its limits, names, errors."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from sklearn_lhcal.distributions import PointMass
from sklearn_lhcal.label_histogram import Annotations, KnownProbabilities
from sklearn_lhcal.metrics import (
    calibration_loss,
    confidence_interval,
    decision_risk,
    epistemic_loss,
    expected_accuracy,
    expected_squared_loss,
    irreducible_loss,
    label_log_loss,
    prediction_powered,
)

N_BOTH, N_REST = 60, 400
SEEN, REST = slice(N_BOTH), slice(N_BOTH, None)
accuracy = partial(prediction_powered, expected_accuracy, random_state=0)


def drawn(rng, n=N_BOTH + N_REST, m=1, noise=0.7):
    """Labels of m people, the judge's label, and the model's probabilities, of two classes."""
    u = 1.5 * rng.normal(size=n) - 0.5
    ones = rng.binomial(m, 1 / (1 + np.exp(-u)))
    judge = (u + 0.4 + noise * rng.normal(size=n) > 0).astype(int)
    p = 1 / (1 + np.exp(-1.3 * (u + rng.normal(size=n))))
    return np.column_stack([m - ones, ones]), judge, np.column_stack([1 - p, p])


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def split(y, judge, z):
    """The arguments in their order."""
    return y[SEEN], z[SEEN], judge[SEEN], judge[REST], z[REST]


# -------------------------------------------------------------------------------------- the formula


@pytest.mark.parametrize("loss", [expected_accuracy, expected_squared_loss, label_log_loss])
def test_the_published_formula(loss, rng):
    """PPI++ for a mean, Angelopoulos, Duchi and Zrnic (2023), sample by sample.

    Var(g) is that of the n samples alone. Their program has it of all N, and n for n − 1 in the
    standard error.
    """
    y, judge, z = drawn(rng)
    h, g = ([loss(label[[i]], z[[i]]) for i in range(len(z))] for label in (y, np.eye(2)[judge]))
    h, g = np.array(h)[SEEN], np.array(g)
    n, N = N_BOTH, N_REST
    lam = np.cov(h, g[SEEN], ddof=0)[0, 1] / (g[SEEN].var() * (1 + n / N))
    estimate = lam * g[REST].mean() + (h - lam * g[SEEN]).mean()
    V = lam**2 * g[REST].var(ddof=1) / N + (h - lam * g[SEEN]).var(ddof=1) / n
    how = {"n_blocks": N, "random_state": 0}
    found = prediction_powered(loss, *split(y, judge, z), **how)
    assert_allclose(found.estimate, estimate, rtol=1e-12)
    assert_allclose(found.standard_error, np.sqrt(V), rtol=1e-10)
    alone = confidence_interval(loss, y[SEEN], z[SEEN], **how)
    shorter = (alone.high - alone.low) / (found.high - found.low)
    assert_allclose(found.effective_rows, n * shorter**2, rtol=1e-10)


def test_a_judge_who_says_one_class_leaves_the_interval_of_people():
    y, _, z = drawn(np.random.default_rng(1), m=3)
    for metric in (expected_accuracy, epistemic_loss):
        constant = KnownProbabilities(np.tile([0.3, 0.7], (len(z), 1)))
        prediction = np.tile([0.2, 0.8], (len(z), 1))
        with pytest.warns(UserWarning, match="Few .*, 0 by the proxy's"):
            found = prediction_powered(metric, *split(y, constant, prediction), random_state=0)
        alone = confidence_interval(metric, y[SEEN], prediction[SEEN], random_state=0)
        assert_allclose(found, alone, rtol=1e-12)
        assert_allclose(found.df, alone.df)
        assert found.effective_rows == N_BOTH


def test_a_judge_who_says_the_contrary_is_not_used(rng):
    y, judge, _ = drawn(rng)
    rate = np.tile([0.0, 1.0], (len(y), 1))
    found = accuracy(*split(y, 1 - judge, rate))
    assert found == confidence_interval(expected_accuracy, y[SEEN], rate[SEEN], random_state=0)
    assert found.effective_rows == N_BOTH


def test_a_perfect_judge_makes_all_samples_count(rng):
    y, _, _ = drawn(rng, 2 * N_BOTH)
    y[N_BOTH:] = y[:N_BOTH]
    z = np.tile([0.0, 1.0], (len(y), 1))
    first, rest = slice(N_BOTH), slice(N_BOTH, None)
    with pytest.warns(UserWarning, match="25 by the proxy's, 0 in the difference"):
        found = accuracy(y[first], z[first], y[first], y[rest], z[rest], n_blocks=N_BOTH)
    alone = confidence_interval(expected_accuracy, y[first], z[first], n_blocks=N_BOTH)
    # both halves are alike: λ = 1/2, and the variance is halved
    assert_allclose(found.estimate, alone.estimate)
    assert_allclose(found.standard_error, alone.standard_error / np.sqrt(2), rtol=1e-10)


def test_what_60_samples_show_of_a_perfect_judge(rng):
    """No error of 60: the interval of Clopper and Pearson, and the error of the judge's mean."""
    N = 20_000
    ones = (rng.random(N) < 0.4).astype(int)
    z = np.tile([0.0, 1.0], (N, 1))
    with pytest.warns(UserWarning, match="0 in the difference"):
        found = accuracy(*split(ones, ones, z))
    reach = np.hypot(1 - 0.025 ** (1 / N_BOTH), 1.96 * np.sqrt(0.24 / N))
    assert_allclose([found.estimate - found.low, found.high - found.estimate], reach, rtol=0.02)
    assert found.df is None


def test_unbiased_whatever_the_judge_says():
    """A judge who is lenient, and few people: within four standard errors of the truth."""
    rng = np.random.default_rng(3)
    for metric, m in ((expected_accuracy, 1), (irreducible_loss, 3)):
        apart = []
        for _ in range(150):
            y, judge, _ = drawn(rng, m=m)
            z = np.tile([0.0, 1.0], (len(y), 1))
            q = np.where(judge == 1, 0.9, 0.2)
            proxy = KnownProbabilities(np.column_stack([1 - q, q]))
            found = prediction_powered(metric, *split(y, proxy, z), random_state=0)
            apart.append(found.estimate - metric(y, z))
        assert abs(np.mean(apart)) < 4 * np.std(apart) / np.sqrt(len(apart))


@pytest.mark.slow
@pytest.mark.parametrize(("metric", "m"), [(expected_accuracy, 1), (irreducible_loss, 5)])
def test_intervals_hold_the_truth(metric, m):
    """And are shorter than those of people alone. The benchmark of the same name has more."""
    rng = np.random.default_rng(4)
    u = 1.5 * rng.normal(size=10**6) - 0.5
    p = 1 / (1 + np.exp(-u))
    truth = metric(KnownProbabilities(np.column_stack([1 - p, p])), np.tile([0.0, 1.0], (10**6, 1)))
    draws, held, shorter = 400, 0, 0
    for _ in range(draws):
        u = 1.5 * rng.normal(size=1500) - 0.5
        ones = rng.binomial(m, 1 / (1 + np.exp(-u)))
        q = 1 / (1 + np.exp(-1.2 * (u + 0.7 * rng.normal(size=1500))))
        y, z = np.column_stack([m - ones, ones])[:150], np.tile([0.0, 1.0], (1500, 1))
        judge = np.column_stack([1 - q, q])
        both, rest = KnownProbabilities(judge[:150]), KnownProbabilities(judge[150:])
        found = prediction_powered(metric, y, z[:150], both, rest, z[150:], random_state=0)
        held += found.low <= truth <= found.high
        shorter += found.effective_rows > 150
    assert held / draws > 0.94 - 3 * np.sqrt(0.05 * 0.95 / draws)
    assert shorter > 0.7 * draws


# --------------------------------------------------------------------------------- raters, groups


def test_the_judge_is_no_rater(rng):
    """What raters add to the variance is what they add without a judge."""
    y, judge, z = drawn(rng)
    said = np.where(
        rng.random((N_BOTH, 6)) < [0.9, 0.6, 0.8, 0.7, 0.9, 0.8], y[SEEN, 1:], judge[SEEN, None]
    )
    people = Annotations.from_matrix(said, classes=[0, 1])
    found = accuracy(people, z[SEEN], judge[SEEN], judge[REST], z[REST])
    alone = confidence_interval(expected_accuracy, people, z[SEEN], random_state=0)
    assert found.n_raters == 6
    assert_allclose(found.components[1:], alone.components[1:], rtol=1e-10)
    fixed = accuracy(people, z[SEEN], judge[SEEN], judge[REST], z[REST], raters="fixed")
    assert_allclose(fixed.components.rows, found.components.rows, rtol=1e-12)
    assert fixed.n_raters is None


def test_groups_of_one_sample_are_no_groups_and_groups_that_agree_widen(rng):
    data = split(*drawn(rng))
    alone = accuracy(*data, n_blocks=N_REST)
    each = {"groups": np.arange(N_BOTH), "groups_rest": np.arange(N_REST) + N_BOTH}
    assert_allclose(accuracy(*data, n_blocks=N_REST, **each), alone, rtol=1e-10)
    thrice = [np.repeat(part, 3, axis=0) for part in data]
    copies = {
        "groups": np.repeat(each["groups"], 3),
        "groups_rest": np.repeat(each["groups_rest"], 3),
    }
    # three copies of each sample say no more than one
    assert_allclose(accuracy(*thrice, n_blocks=N_REST, **copies), alone, rtol=1e-10)


# a scale that is no power of two, and one that is
@pytest.mark.parametrize("scale", [1.0, 0.3, 1024.0])
@pytest.mark.parametrize("size", [1, 2])
def test_weights_repeat_samples(scale, size, rng):
    """Copies of a sample are one group, or go to the same one; a weight of 0 leaves it out."""
    y, judge, _ = drawn(rng)
    data = split(y, judge, np.tile([0.0, 1.0], (len(y), 1)))
    w, w_rest = np.arange(N_BOTH) % 4, (1 + np.arange(N_REST)) % 3
    times = [w, w, w, w_rest, w_rest]
    copies = [np.repeat(part, m, axis=0) for part, m in zip(data, times, strict=True)]
    group, group_rest = np.arange(N_BOTH) // size, np.arange(N_REST) // size + N_BOTH
    how = {"n_blocks": N_REST}
    weights = {"sample_weight": scale * w, "sample_weight_rest": scale * w_rest}
    found = accuracy(*data, **how, **weights, groups=group, groups_rest=group_rest)
    groups = {"groups": np.repeat(group, w), "groups_rest": np.repeat(group_rest, w_rest)}
    repeated = accuracy(*copies, **how, **groups)
    assert_allclose(found.estimate, repeated.estimate, rtol=1e-10)
    # the jackknife knows how many samples a block has, not what they weigh
    assert_allclose(found, repeated, rtol=0.1)
    ones = {"sample_weight": np.full(N_BOTH, scale), "sample_weight_rest": np.full(N_REST, scale)}
    assert_allclose(accuracy(*data, **how, **ones), accuracy(*data, **how), rtol=1e-10)


def test_the_weighted_formula(rng):
    """λ written out: a weight of w is w copies of one sample, not w independent samples."""
    y, judge, _ = drawn(rng)
    data = split(y, judge, np.tile([0.0, 1.0], (len(y), 1)))
    w, v = np.arange(N_BOTH) % 4, (1 + np.arange(N_REST)) % 3
    found = accuracy(*data, n_blocks=N_REST, sample_weight=w, sample_weight_rest=v)
    # what people and the judge say of both, and the judge of the rest
    h, g, g_rest = y[SEEN, 1], judge[SEEN], judge[REST]
    h_mean, g_mean = np.average(h, weights=w), np.average(g, weights=w)
    rest_mean = np.average(g_rest, weights=v)
    W, V = w.sum(), v.sum()
    covariance = w**2 @ ((h - h_mean) * (g - g_mean))
    lam = covariance / (w**2 @ (g - g_mean) ** 2 * (1 + W / V))
    assert_allclose(found.estimate, h_mean - lam * (g_mean - rest_mean), rtol=1e-12)
    # copies that count as independent have another λ
    times = [w, w, w, v, v]
    copies = [np.repeat(part, m, axis=0) for part, m in zip(data, times, strict=True)]
    independent = accuracy(*copies, n_blocks=N_REST)
    assert abs(found.estimate - independent.estimate) > 1e-4


def test_weighted_means_are_unbiased_whatever_the_judge_says():
    rng = np.random.default_rng(5)
    n = N_BOTH + N_REST
    apart = []
    for _ in range(150):
        y, judge, _ = drawn(rng, noise=2.0)
        z = np.tile([0.0, 1.0], (n, 1))
        w = rng.uniform(0.5, 2, size=n)
        weights = {"sample_weight": w[SEEN], "sample_weight_rest": w[REST]}
        found = accuracy(*split(y, judge, z), **weights)
        apart.append(found.estimate - expected_accuracy(y, z, sample_weight=w))
    assert abs(np.mean(apart)) < 4 * np.std(apart) / np.sqrt(len(apart))


def test_samples_with_too_few_labels_are_left_out(rng):
    y, judge, z = drawn(rng, m=3)
    y[:10] = [[0, 1]]
    q = np.where(judge == 1, 0.9, 0.2)
    proxy = KnownProbabilities(np.column_stack([1 - q, q]))
    found = prediction_powered(irreducible_loss, *split(y, proxy, z), random_state=0)
    seen = slice(10, N_BOTH)
    how = (y[seen], z[seen], proxy[seen], proxy[REST], z[REST])
    assert_allclose(found, prediction_powered(irreducible_loss, *how, random_state=0), rtol=1e-12)
    # rows of annotations that nobody rated, too
    said = np.where(rng.random((N_BOTH, 5)) < 0.7, judge[SEEN, None], 0).astype(object)
    said[:10] = None
    people = Annotations.from_matrix(said, classes=[0, 1])
    found = accuracy(people, z[SEEN], judge[SEEN], judge[REST], z[REST])
    other = accuracy(people[seen], z[seen], judge[seen], judge[REST], z[REST])
    assert_allclose(found, other, rtol=1e-12)


# ------------------------------------------------------------------------------------------- names


def test_names_of_classes_decide(rng):
    y, judge, z = drawn(rng)
    codes = y.argmax(axis=1)
    words = np.array(["no", "yes"])
    expected = accuracy(*split(codes, judge, z))
    frame = pd.DataFrame(z[:, ::-1], columns=["yes", "no"])
    named = (words[codes[SEEN]], frame[SEEN], words[judge[SEEN]], words[judge[REST]], frame[REST])
    assert_allclose(accuracy(*named), expected, rtol=1e-12)
    # the rest in another order of columns; a judge who never says no in a few samples
    turned = (*named[:4], frame[REST][["no", "yes"]])
    assert_allclose(accuracy(*turned), expected, rtol=1e-12)
    counts = pd.DataFrame(np.eye(2, dtype=int)[judge], columns=["no", "yes"])
    mixed = (*named[:2], counts[SEEN], words[judge[REST]], PointMass(z[REST]).with_classes(words))
    assert_allclose(accuracy(*mixed), expected, rtol=1e-12)


def test_grades_have_a_distance_and_decisions_costs(rng):
    u = rng.normal(size=N_BOTH + N_REST)
    said = np.digitize(u[:, None] + 0.7 * rng.normal(size=(len(u), 4)), [-1, 0, 1])
    grades = np.array(["low", "medium", "high", "severe"])
    people = Annotations.from_matrix(grades[said[SEEN, :3]], classes=grades)
    z = PointMass(np.eye(4)[np.digitize(u, [-1, 0, 1])])
    data = (people, z[SEEN], grades[said[SEEN, 3]], grades[said[REST, 3]], z[REST])
    how = {"raters": "fixed", "random_state": 0}
    loss = expected_squared_loss
    found = prediction_powered(loss, *data, distance="linear", **how)
    by_code = (people.counts, z[SEEN], said[SEEN, 3], said[REST, 3], z[REST])
    assert_allclose(prediction_powered(loss, *by_code, distance="linear", **how), found, rtol=1e-12)
    costs = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    decided = z.mean().argmax(axis=1)
    risk = prediction_powered(
        decision_risk,
        people.counts,
        decided[SEEN],
        *by_code[2:4],
        decided[REST],
        cost_matrix=costs,
        **how,
    )
    # steps: the cost of a decision is its ranked probability score
    assert_allclose(risk, found, rtol=1e-10)


def test_mean_scores_and_signed_bias_of_grades(rng):
    """As costs of decisions, in place of the samples' own means."""
    scores = np.array([1.0, 2.0, 3.5])
    u = rng.normal(size=N_BOTH + N_REST)
    said, judge, model = (
        np.digitize(u + 0.6 * rng.normal(size=len(u)), [-0.5, 0.8]) for _ in range(3)
    )
    never = np.zeros(len(u), dtype=int)
    how = {"random_state": 0}
    for decided, costs, h, g in (
        (never, scores[:, None], scores[said], scores[judge]),
        (
            model,
            scores - scores[:, None],
            scores[model] - scores[said],
            scores[model] - scores[judge],
        ),
    ):
        data = said[SEEN], decided[SEEN], judge[SEEN], judge[REST], decided[REST]
        found = prediction_powered(decision_risk, *data, cost_matrix=costs, **how)
        lam = np.cov(h[SEEN], g[SEEN], ddof=0)[0, 1] / (g[SEEN].var() * (1 + N_BOTH / N_REST))
        expected = h[SEEN].mean() - lam * (g[SEEN].mean() - g[REST].mean())
        assert_allclose(found.estimate, expected, rtol=1e-10)
        assert found.low < h.mean() < found.high


def test_the_interval_keeps_its_effective_rows_when_pickled(rng):
    found = accuracy(*split(*drawn(rng)))
    assert pickle.loads(pickle.dumps(found)).effective_rows == found.effective_rows
    assert (
        confidence_interval(
            expected_accuracy, [0, 1, 0], [[1, 0]] * 3, raters="fixed", n_blocks=3
        ).effective_rows
        is None
    )


# ---------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"metric": calibration_loss}, "metric must be a mean"),
        ({"metric": lambda y, p: 0.0}, "metric must be a mean"),
        ({"metric": epistemic_loss, "bias_correction": None}, "and not biased"),
        ({"metric": irreducible_loss}, "2 labels of people"),
        ({"sample_weight": np.ones(N_BOTH)}, "sample_weight and sample_weight_rest"),
        (
            {"sample_weight": np.ones(N_BOTH), "sample_weight_rest": np.ones(3)},
            "proxy_rest: sample_weight must have shape",
        ),
        ({"groups": np.arange(N_BOTH)}, "given together"),
        ({"groups": np.arange(N_BOTH), "groups_rest": np.arange(N_REST)}, r"share \[0, 1, 2"),
        ({"proxy": np.zeros(3, int)}, "proxy has 3 samples"),
        ({"proxy": np.full(N_BOTH, "x")}, "proxy: .*'x'"),
        (
            {"proxy_rest": np.array([None, *[1] * (N_REST - 1)], dtype=object)},
            "proxy_rest: .*sample 0",
        ),
        ({"prediction_rest": np.full((5, 2), 0.5)}, "proxy_rest: .*5"),
    ],
)
def test_refusals(changed, match, rng):
    y, judge, z = drawn(rng)
    names = ("y", "prediction", "proxy", "proxy_rest", "prediction_rest")
    good = {"metric": expected_accuracy, **dict(zip(names, split(y, judge, z), strict=True))}
    words = {"y": np.array(["a", "b"])[y[SEEN].argmax(axis=1)]} if "'x'" in match else {}
    with pytest.raises(ValueError, match=match):
        prediction_powered(**good | words | changed)


def test_one_label_of_the_judge_is_too_few_for_disagreement(rng):
    y, judge, z = drawn(rng, m=2)
    with pytest.raises(ValueError, match="proxy must have 2 or more labels"):
        prediction_powered(irreducible_loss, *split(y, judge, z))


def test_few_events_are_said_and_the_judge_still_counts(rng):
    y, judge, _ = drawn(rng)
    y[SEEN] = [[1, 0]]
    y[:4] = [[0, 1]]
    judge[:4] = 1
    z = np.tile([0.0, 1.0], (len(y), 1))
    with pytest.warns(UserWarning, match="4 by people's labels, 29 by the proxy's, 25 in"):
        found = accuracy(*split(y, judge, z))
    h, g = y[SEEN, 1], judge[SEEN]
    lam = np.cov(h, g, ddof=0)[0, 1] / (g.var() * (1 + N_BOTH / N_REST))
    assert_allclose(found.estimate, h.mean() - lam * (g.mean() - judge[REST].mean()), rtol=1e-12)
    assert 0 <= found.low < found.estimate < found.high


@pytest.mark.parametrize("metric", [expected_accuracy, label_log_loss])
@pytest.mark.filterwarnings("ignore:Few samples or groups differ:UserWarning")
def test_order_does_not_matter_where_few_samples_differ(metric, rng):
    """Of samples and of classes; blocks are single samples."""
    y, judge, z = drawn(rng)
    judge[SEEN] = np.where(np.arange(N_BOTH) < 4, judge[SEEN], y[SEEN, 1])
    how = {"n_blocks": N_REST, "random_state": 0}
    found = prediction_powered(metric, *split(y, judge, z), **how)
    order = np.concatenate([rng.permutation(N_BOTH), N_BOTH + rng.permutation(N_REST)])
    turned = split(y[order][:, ::-1], 1 - judge[order], z[order][:, ::-1])
    other = prediction_powered(metric, *turned, **how)
    assert_allclose(other, found, rtol=1e-10)
    assert_allclose(other.effective_rows, found.effective_rows, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Few samples or groups differ:UserWarning")
@pytest.mark.parametrize(
    ("n", "rate", "error"), [(60, 0.16, 0.0), (60, 0.5, 0.03), (200, 0.05, 0.02)]
)
def test_few_errors_of_the_judge(n, rate, error):
    """Unbiased, 95 % of intervals hold the truth, and they are shorter than those of people."""
    rng = np.random.default_rng(6)
    draws, found, widths = 200, [], []
    z = np.tile([0.0, 1.0], (2000, 1))
    for _ in range(draws):
        ones = (rng.random(2000) < rate).astype(int)
        judge = np.where(rng.random(2000) < error, 1 - ones, ones)
        said = judge[:n], judge[n:], z[n:]
        found.append(prediction_powered(expected_accuracy, ones[:n], z[:n], *said, random_state=0))
        alone = confidence_interval(expected_accuracy, ones[:n], z[:n], random_state=0)
        widths.append(alone.high - alone.low)
    estimate, low, high, _ = np.array(found).T
    assert abs(estimate.mean() - rate) < 4 * estimate.std() / np.sqrt(draws)
    assert ((low <= rate) & (rate <= high)).mean() > 0.95 - 3 * np.sqrt(0.05 * 0.95 / draws)
    assert (high - low).mean() < 0.9 * np.mean(widths)
