"""policy_curve: what is replayed, by enumeration; that optimal stopping is cheapest; a figure."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import row_outcomes

from sklearn_lhcal.calibration import AlphaCalibration
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.display import PolicyCurveDisplay
from sklearn_lhcal.distributions import Dirichlet, PointMass, label_policy
from sklearn_lhcal.label_histogram import KnownProbabilities
from sklearn_lhcal.metrics import bayes_decision, policy_curve

COSTS = np.array([[0.0, 1.0, 2.0], [5.0, 0.0, 1.0], [20.0, 3.0, 0.0]])


@pytest.fixture(scope="module")
def data():
    """A world as the distribution expects: rows of it, and their raters."""
    total = np.exp(np.random.default_rng(1).normal(0.5, 1, size=400))
    return make_label_histograms(400, n_raters=8, total=total, random_state=0)


@pytest.fixture(scope="module")
def distribution(data):
    return Dirichlet.from_mean(data.prediction, data.total)


def test_fixed_numbers_by_enumeration(data, distribution):
    """From known probabilities: E[Q·C_d(c)] over the labels."""
    Q, d = data.proba[:40], distribution[:40]
    expected = np.zeros((3, 40))
    for i in range(40):
        for m in range(3):
            counts, p = row_outcomes(Q[i], m) if m else (np.zeros((1, 3), dtype=int), np.ones(1))
            after = d[[i] * len(counts)].posterior(counts)
            expected[m, i] = p @ (Q[i] @ COSTS[:, bayes_decision(after, COSTS)])
    curve = policy_curve(
        KnownProbabilities(Q), d, COSTS, prices=[0, 0.1], horizon=2, random_state=0
    )
    assert_allclose(curve.fixed_cost[:, 0], expected.mean(axis=1), rtol=1e-10)
    assert_allclose(np.diff(curve.fixed_cost, axis=1).ravel(), [0, 0.1, 0.2], atol=1e-12)


# its two votes always differ
@pytest.mark.filterwarnings("ignore:y holds only 0 and 1:UserWarning")
def test_votes_are_drawn_without_replacement():
    """Of two votes one is drawn and the other charges: if they differ, never the drawn one."""
    d = Dirichlet([[1.0, 1.0]] * 50)
    two = policy_curve([[1, 1]] * 50, d, 1 - np.eye(2), prices=[0, 1], horizon=1, random_state=0)
    # the decision follows the label that was drawn, and the one that is left says otherwise
    assert_allclose(two.fixed_cost[1, 0], 1.0)
    agreed = policy_curve([[0, 2]] * 50, d, 1 - np.eye(2), prices=[0, 1], horizon=1, random_state=0)
    assert_allclose(agreed.fixed_cost[:, 0], [1.0, 0.0])


def test_it_costs_what_the_policy_expects(data, distribution):
    """Where the distribution is true: to 4.5 standard errors over rows."""
    prices = [0.02, 0.1, 0.3]
    curve = policy_curve(
        data.counts, distribution, COSTS, prices=prices, confidence_level=0.99999, random_state=0
    )
    for j, price in enumerate(prices):
        policy = label_policy(distribution, COSTS, price, 4)
        low, high = curve.interval[0, j]
        assert low <= policy.expected_cost.mean() <= high
        assert curve.n_labels[0, j] == pytest.approx(policy.expected_labels.mean(), rel=0.2)


@pytest.mark.parametrize("seed", range(3))
def test_optimal_stopping_is_cheapest_within_its_interval(seed):
    """Against the best fixed number and the best threshold of the entropy, tuned on other rows.

    At 24 prices, which is why the level of an interval is .999."""
    total = np.exp(np.random.default_rng(seed).normal(0.5, 1, size=2000))
    data = make_label_histograms(2000, n_raters=9, total=total, random_state=seed)
    d = Dirichlet.from_mean(data.prediction, data.total)
    how = {"confidence_level": 0.999, "random_state": seed}
    curve = policy_curve(data.counts, d, COSTS, **how)
    # but for rounding where labels are free
    assert (curve.difference_interval[..., 1] >= -1e-12).all()
    assert (curve.difference.mean(axis=1)[1:] > 0).all()


def test_intervals_are_students_over_rows_or_groups(data, distribution):
    how = {"prices": [0.1, 0.2], "random_state": 0}
    once = policy_curve(data.counts, distribution, COSTS, **how)
    width = np.ptp(once.interval, axis=2)
    assert_allclose(once.interval.mean(axis=2), once.total_cost)
    assert_allclose(once.difference, once.total_cost - once.total_cost[0], atol=1e-12)
    assert_allclose(once.difference_interval.mean(axis=2), once.difference, atol=1e-12)
    assert (np.ptp(once.difference_interval, axis=2)[1:] < width[1:]).all()
    alone = policy_curve(data.counts, distribution, COSTS, groups=np.arange(400), **how)
    assert_allclose(alone.interval, once.interval)
    few = policy_curve(data.counts, distribution, COSTS, groups=np.arange(400) // 40, **how)
    # what is tuned for the other two is tuned on other groups
    assert_allclose(few.total_cost[0], once.total_cost[0])
    assert (np.ptp(few.interval, axis=2) != width).all()
    # rows of weight 0 are not there
    w = np.arange(400) < 200
    weighted = policy_curve(data.counts, distribution, COSTS, sample_weight=w, **how)
    taken = policy_curve(data.counts[w], distribution[w], COSTS, **how)
    assert_allclose(weighted.interval, taken.interval)


def test_numbers_and_thresholds_are_tuned_on_other_rows():
    """Of two groups one is best decided at once and the other after a label: each pays for the
    rule of the other."""
    d = Dirichlet([[1.0, 1.0]] * 40)
    y = np.array([[1, 1], [0, 2]] * 20)
    C = 1 - np.eye(2)
    groups = np.arange(40) % 2
    curve = policy_curve(y, d, C, prices=[0.0, 0.1], horizon=1, groups=groups, random_state=0)
    assert_allclose(curve.total_cost[1:], [[1.0, 1.05]] * 2)
    assert_allclose(curve.n_labels[1:], 0.5)


def test_costs_of_each_row(data, distribution):
    """The same ones, those of rows left out, and in another unit and order; a callable of X."""
    how = {"prices": [0.0, 0.1], "horizon": 3, "random_state": 0}
    counts = data.counts.copy()
    counts[:200] = [1, 0, 0]
    own = np.broadcast_to(COSTS, (400, 3, 3)).copy()
    own[:200] = 1e3
    rows = policy_curve(counts, distribution, own, **how)
    assert_allclose(rows.total_cost, policy_curve(counts, distribution, COSTS, **how).total_cost)
    # in another unit, where labels are free, a row counts so many times
    unit = np.linspace(1, 3, 400)
    own *= unit[:, None, None]
    own[::2] = own[::2, :, [2, 0, 1]]
    scaled = policy_curve(counts, distribution, own, **how)
    weighted = policy_curve(counts, distribution, COSTS, sample_weight=unit, **how)
    mean = unit[200:].mean()
    assert_allclose(scaled.fixed_cost[:, 0], mean * weighted.fixed_cost[:, 0])
    assert_allclose(scaled.total_cost[:, 0], mean * weighted.total_cost[:, 0])
    model = AlphaCalibration("proba").fit(data.prediction[:200], data.counts[:200])
    X = data.prediction
    made = PolicyCurveDisplay.from_estimator(model, X, counts, lambda X: own[: len(X)], **how)
    given = PolicyCurveDisplay.from_estimator(model, X, counts, own, **how)
    assert_allclose(made.result.total_cost, given.result.total_cost)
    with pytest.raises(ValueError, match="cost_matrix has 399 samples, expected 400"):
        policy_curve(counts, distribution, own[1:], **how)


def test_names_meet(data, distribution):
    names, order = list("abc"), [2, 0, 1]
    y = pd.DataFrame(data.counts, columns=names)[[names[k] for k in order]]
    costs = pd.DataFrame(COSTS, index=names).iloc[order]
    how = {"prices": [0.1, 0.2], "random_state": 0}
    plain = policy_curve(data.counts, distribution, COSTS, **how)
    named = policy_curve(y, distribution.with_classes(names), costs, **how)
    assert_allclose(named.total_cost, plain.total_cost)


def test_few_raters_are_left_out_and_bad_arguments_refused(data, distribution):
    counts = data.counts.copy()
    counts[:300] = np.eye(3, dtype=int)[0]
    some = policy_curve(counts, distribution, COSTS, prices=[0.1, 0.2], random_state=0)
    rest = policy_curve(counts[300:], distribution[300:], COSTS, prices=[0.1, 0.2], random_state=0)
    assert_allclose(some.total_cost, rest.total_cost)
    with pytest.raises(ValueError, match="more than 8 raters"):
        policy_curve(data.counts, distribution, COSTS, horizon=8)
    for prices in ([0.2, 0.1], [-0.1, 0.1], [np.nan], 0.1):
        with pytest.raises(ValueError, match="prices must be"):
            policy_curve(data.counts, distribution, COSTS, prices=prices)
    with pytest.raises(ValueError, match="changes no decision"):
        policy_curve(data.counts, PointMass(data.prediction), COSTS)


def test_what_is_drawn(data):
    model = AlphaCalibration("proba").fit(data.prediction[:200], data.counts[:200])
    X, y = data.prediction[200:], data.counts[200:]
    display = PolicyCurveDisplay.from_estimator(model, X, y, COSTS, horizon=3, random_state=0)
    curve = display.result
    assert [line.get_label() for line in display.lines_] == curve.names
    assert len(display.fixed_lines_) == 4
    assert len(curve.prices) == 25
    for line, cost in zip(display.lines_, curve.total_cost, strict=True):
        assert_allclose(line.get_ydata(), cost)
    again = PolicyCurveDisplay.from_estimator(model, X, y, COSTS, horizon=3, random_state=0)
    assert_allclose(again.result.total_cost, curve.total_cost)
    # nothing but the result is drawn
    kept = PolicyCurveDisplay(pickle.loads(pickle.dumps(curve))).plot()
    for line, other in zip(kept.lines_, display.lines_, strict=True):
        assert_array_equal(line.get_xydata(), other.get_xydata())
    assert len(display.plot_differences().lines_) == 2


def test_its_frame(data, distribution):
    curve = policy_curve(data.counts, distribution, COSTS, prices=[0.1, 0.2], random_state=0)
    frame = curve.to_frame()
    for name, row in zip(curve.names, range(3), strict=True):
        own = frame.loc[name]
        assert own.index.tolist() == [0.1, 0.2]
        assert_array_equal(own["total_cost"], curve.total_cost[row])
        assert_array_equal(own[["low", "high"]], curve.interval[row])
        ends = own[["difference_low", "difference_high"]]
        assert_array_equal(ends, curve.difference_interval[row])
        assert_array_equal(own["n_labels"], curve.n_labels[row])
