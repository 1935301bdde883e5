"""RiskControlledDecision: mean costs against budgets over resplits, with votes drawn anew.

The wealth of a bet is private: its law, that a fair bet keeps a mean of 1, cannot be seen from
outside, where only thresholds are.
"""

import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.stats import binomtest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from vote_cases import votes

from sklearn_lhcal.calibration import RiskControlledDecision, TemperatureScaling, decide
from sklearn_lhcal.calibration._risk_control import log_wealth
from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import bayes_decision, decision_risk

COSTS = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 1.0], [9.0, 2.0, 0.0]])
REFER = np.column_stack([COSTS, np.full(3, 0.3)])
BETTING = {"method": "learn_then_test", "confidence_level": 0.9}


def costs_of_new_rows(pool, model, kind, n_resplits, n=300):
    """(mean cost of new rows, share decided, mean cost of those decided) of each resplit."""
    found = []
    for seed in range(n_resplits):
        rng = np.random.default_rng(seed)
        rows = rng.permutation(len(pool.proba))
        first, rest = rows[:n], rows[n : n + 1000]
        model.fit(pool.prediction[first], votes(pool.proba[first], kind, rng))
        d = model.decide(pool.prediction[rest])
        cost = np.einsum("nk,nk->n", pool.proba[rest], model.cost_matrix_.T[d])
        own = d != model.referral_
        found.append((cost.mean(), own.mean(), cost[own].sum() / max(own.sum(), 1)))
    return np.array(found).T


def error(values):
    return values.std(ddof=1) / np.sqrt(len(values))


# ------------------------------------------------------------------------------------ what it costs


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "n_resplits"), [(1, 500), (3, 200), ("all", 200)])
def test_the_mean_cost_keeps_to_the_budget(pool, kind, n_resplits):
    model = RiskControlledDecision("proba", COSTS, budget=0.3)
    cost, decided, _ = costs_of_new_rows(pool, model, kind, n_resplits)
    assert cost.mean() <= 0.3 + 2 * error(cost)
    # and is not idle
    assert cost.mean() > 0.25
    assert decided.mean() > 0.5


def test_the_mean_cost_keeps_to_the_budget_where_referrals_cost(pool):
    model = RiskControlledDecision("proba", REFER, budget=0.45, referral=3)
    cost, decided, _ = costs_of_new_rows(pool, model, 1, 150)
    assert cost.mean() <= 0.45 + 2 * error(cost)
    assert decided.mean() > 0.3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The 300 calibration samples or groups do not show:UserWarning")
@pytest.mark.parametrize(
    ("C", "options", "bounded"),
    [
        (COSTS, {"budget": 0.3}, 0),
        (REFER, {"budget": 0.45, "referral": 3}, 0),
        (1 - np.eye(3), {"budget": 0.25, "target": "decided"}, 2),
    ],
)
def test_betting_is_seldom_above_the_budget(pool, C, options, bounded):
    """At most a tenth of calibration sets, to 2 standard errors of 200; and rows are decided."""
    model = RiskControlledDecision("proba", C, **options, **BETTING)
    found = costs_of_new_rows(pool, model, 1, 200)
    assert (found[bounded] > options["budget"]).mean() <= 0.1 + 2 * np.sqrt(0.1 * 0.9 / 200)
    assert found[1].mean() > 0.2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The 300 calibration samples or groups do not show:UserWarning")
def test_majorities_fail(pool):
    model = RiskControlledDecision("proba", COSTS, budget=0.3)
    cost, _, _ = costs_of_new_rows(pool, model, "majority", 60)
    assert cost.mean() > 0.3 + 5 * error(cost)
    model = RiskControlledDecision("proba", 1 - np.eye(3), budget=0.25, target="decided", **BETTING)
    *_, own = costs_of_new_rows(pool, model, "majority", 60)
    assert (own > 0.25).mean() > 0.2


# --------------------------------------------------------------------------------------- definition


@pytest.mark.parametrize(
    ("options", "grouped", "fewest"),
    [
        # four starts: of a binomial share log(4/.05)/−log(.9); of groups by bets
        ({"budget": 0.1, "target": "decided"}, False, 42),
        ({"budget": 0.1, "target": "decided"}, True, 68),
        # one start
        ({"budget": 0.1}, False, 29),
        ({"budget": 0.1}, True, 49),
        # two starts; gain .3 of .7 without a mistake
        ({"budget": 0.3, "referral": 2}, False, 17),
        ({"budget": 0.3, "referral": 2}, True, 17),
    ],
)
def test_from_how_many_rows_it_decides(options, grouped, fewest):
    """Of samples without a mistake; that number is in the message of one row less."""
    if "referral" in options:
        options = options | {"cost_matrix": [[0, 1, 0.4], [1, 0, 0.4]]}
    model = RiskControlledDecision("proba", method="learn_then_test", **options)
    repeats = 1 + grouped
    y = np.tile([[1, 0], [0, 1]], (repeats * fewest, 1))[: repeats * fewest]
    groups = np.arange(len(y)) // repeats
    assert model.fit(1.0 * y, y, groups=groups).accepted(1.0 * y).all()
    fails = pytest.raises(
        ValueError, match=f"takes {fewest} at least.*refer every sample costs 0.4"
    )
    if "referral" not in options:
        said = f"takes {fewest} at least.*about {fewest}.*referred"
        fails = pytest.warns(UserWarning, match=said)
    with fails:
        model.fit(1.0 * y[repeats:], y[repeats:], groups=groups[repeats:])


def test_a_budget_below_the_referral_is_kept_where_decisions_cost_less(pool):
    """At most a tenth of calibration sets, to 2 standard errors of 60; refused where not shown."""
    C = np.column_stack([COSTS, np.full(3, 1.2)])
    model = RiskControlledDecision("proba", C, budget=1.1, referral=3)
    z, y = pool.prediction, pool.counts
    with pytest.raises(ValueError, match=r'1.2, more than .* 1.1: .*"learn_then_test" may show'):
        model.fit(z, y)
    model.set_params(**BETTING)
    cost, decided, _ = costs_of_new_rows(pool, model, 3, 60, n=600)
    assert (cost > 1.1).mean() <= 0.1 + 2 * np.sqrt(0.1 * 0.9 / 60)
    assert decided.min() > 0.5
    with pytest.raises(ValueError, match="The 12 calibration samples or groups do not show"):
        model.fit(z[:12], y[:12])
    with pytest.raises(ValueError, match="even referring all samples would exceed it"):
        model.set_params(budget=0).fit(z, y)


@pytest.mark.parametrize("referral", [None, 3])
@pytest.mark.parametrize("grouped", [False, True])
def test_thresholds_are_the_largest_that_will_do(pool, referral, grouped):
    """By trying every threshold, each decision with its own worst cost as one more row."""
    rng = np.random.default_rng(0)
    z = np.round(pool.prediction[:80], 1)
    z /= z.sum(axis=1, keepdims=True)
    y = rng.multinomial(2, pool.proba[:80])
    groups = rng.integers(0, 40, size=80) if grouped else np.arange(80)
    C, budget, c = (COSTS, 0.4, 0.0) if referral is None else (REFER, 0.6, 0.3)
    model = RiskControlledDecision("proba", C, budget=budget, referral=referral)
    model.fit(z, y, groups=groups)
    d = bayes_decision(z, COSTS)
    g = np.einsum("nk,nk->n", z, COSTS.T[d])
    cost = np.einsum("nk,nk->n", y / 2, COSTS.T[d])
    share = 1 / (groups[:, None] == groups).sum(axis=1)
    n = len(np.unique(groups))
    for decision, threshold in enumerate(model.thresholds_[:3]):
        most = max(COSTS[:, decision].max() - c, 0)
        held = [
            t
            for t in [*np.unique(g), np.inf]
            if (share * np.maximum(cost - c, 0) * (g < t)).sum() + most <= (n + 1) * (budget - c)
        ]
        assert threshold == pytest.approx(max(held, default=-np.inf))
    # Rounding decides about a row at its threshold.
    clear = np.abs(g - model.thresholds_[d]) > 1e-12
    assert_array_equal(model.accepted(z)[clear], (g < model.thresholds_[d])[clear])
    assert model.automated_ == pytest.approx(model.accepted(z).mean())


def test_nothing_is_decided_where_a_mistake_is_too_dear(pool):
    """The worst cost counts as one row: with costs of 10,000 budgets nothing can be promised."""
    for options in ({}, BETTING):
        model = RiskControlledDecision("proba", COSTS * 1e4, budget=0.3, **options)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The 500 calibration samples or groups do not show")
            model.fit(pool.prediction[:500], pool.counts[:500])
        assert not model.accepted(pool.prediction).any()
        assert (model.decide(pool.prediction) == model.referral_).all()
    generous = RiskControlledDecision("proba", COSTS, budget=9.0)
    generous.fit(pool.prediction[:500], pool.counts[:500])
    assert generous.accepted(pool.prediction).all()
    assert_array_equal(generous.decide(pool.prediction), bayes_decision(pool.prediction, COSTS))


@pytest.mark.parametrize("groups", [[0, 1, 2, 3], [0, 0, 1, 1]])
def test_fair_bets_keep_a_mean_of_one(groups):
    """Over all outcomes of two equally likely costs of ±1: every number of rows decided."""
    g = np.array([0.1, 0.4, 0.2, 0.3])
    units = np.array(groups)
    wealth = [
        np.exp(log_wealth(g, np.array(x), 1.0, units, 0.0)) for x in product([-1.0, 1.0], repeat=4)
    ]
    assert_allclose(np.mean(wealth, axis=0), 1, rtol=1e-12)
    # and grow where costs are below the budget
    assert log_wealth(g, np.full(4, -0.5), 1.0, units, 0.0)[-1] > 0


def test_wealth_is_that_of_two_gamblers():
    """Each bets a fixed share of his wealth on every unit."""
    rng = np.random.default_rng(0)
    g, x, units = rng.random(9), rng.normal(size=9), np.array([0, 1, 2, 0, 1, 2, 3, 3, 3])
    room, high = 0.3, 4.0
    wealth = log_wealth(g, x, high, units, room)
    for m in range(10):
        decided = np.argsort(np.argsort(g)) < m
        X = np.array([(x * decided)[units == u].mean() for u in range(4)]) - room
        each = [np.prod(1 - nu / high * X) for nu in (0.2, 0.7)]
        assert wealth[m] == pytest.approx(np.log(np.mean(each)), rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("target", ["total", "decided"])
@pytest.mark.parametrize("unit", [1.0, 7.0])
def test_one_label_and_equal_costs_have_the_exact_test(pool, target, unit):
    """Binomial tests by SciPy, one after the other from each start; whatever the unit of costs."""
    z = np.round(pool.prediction[:400], 2)
    z /= z.sum(axis=1, keepdims=True)
    said = votes(pool.proba[:400], 1, np.random.default_rng(0)).argmax(axis=1)
    budget, g, wrong = 0.2, 1 - z.max(axis=1), z.argmax(axis=1) != said
    model = RiskControlledDecision(
        "proba", unit * (1 - np.eye(3)), budget=unit * budget, target=target, **BETTING
    ).fit(z, said)
    starts = [-np.inf] if target == "total" else [0.02 * budget, 0.1 * budget, 0.3 * budget, budget]
    reached = -np.inf
    for start in starts:
        for end in [*np.unique(g)[np.unique(g) >= start], np.inf]:
            decided = g < end
            trials = 400 if target == "total" else max(decided.sum(), 1)
            errors = (wrong & decided).sum()
            if binomtest(errors, trials, budget, "less").pvalue > 0.1 / len(starts):
                break
            reached = max(reached, end)
    assert 0 < reached < np.inf
    assert model.thresholds_[0] == pytest.approx(unit * reached)
    # two labels a sample, or groups of two samples, are not binomial
    bets = model.fit(z, 2 * np.eye(3, dtype=int)[said]).thresholds_[0]
    assert bets < unit * reached


def test_the_exact_test_keeps_its_level():
    """Over all outcomes of eight labels, of which as many are mistakes as the budget allows."""
    z = np.column_stack([np.linspace(0.7, 0.95, 8), np.linspace(0.3, 0.05, 8)])
    chance = 0.0
    model = RiskControlledDecision("proba", budget=0.4, target="decided", **BETTING)
    for wrong in product([0, 1], repeat=8):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The 8 calibration samples or groups do not show")
            decides = model.fit(z, np.eye(2, dtype=int)[list(wrong)]).accepted(z).any()
        chance += decides * np.prod(np.where(wrong, 0.4, 0.6))
    assert 0 < chance <= 0.1


def test_the_sequence_of_tests_is_that_of_mapie(pool):
    """Tests of the total cost in the order of g, at the level, until one fails."""
    mapie = pytest.importorskip("mapie.risk_control")
    z, y = pool.prediction[:400], pool.counts[:400]
    model = RiskControlledDecision("proba", COSTS, budget=0.5, **BETTING).fit(z, y)
    d = bayes_decision(z, COSTS)
    g = np.einsum("nk,nk->n", z, COSTS.T[d])
    cost = np.einsum("nk,nk->n", y, COSTS.T[d])
    wealth = log_wealth(g, cost, COSTS.max() - 0.5, np.arange(400), 0.5)
    rejected = mapie.control_fwer(np.exp(-wealth), 0.1, "fixed_sequence")
    assert 0 < len(rejected) < 400
    assert model.thresholds_[0] == pytest.approx(np.sort(g)[rejected.max()])


def test_order_of_rows_and_classes_does_not_matter(pool):
    z, y = pool.prediction[:400], pool.counts[:400]
    rows, order = np.random.default_rng(0).permutation(400), [2, 0, 1]
    for options in ({"budget": 0.3}, {"budget": 0.5, **BETTING}):
        model = RiskControlledDecision("proba", COSTS, **options).fit(z, y)
        turned = RiskControlledDecision("proba", COSTS[order], **options)
        turned.fit(z[rows][:, order], y[rows][:, order])
        assert_allclose(turned.thresholds_, model.thresholds_, rtol=1e-10)


# ---------------------------------------------------------------------------------------- estimator


def test_names_of_classes_and_decisions(pool):
    names, order = ["ant", "bee", "cat"], [2, 0, 1]
    z = pd.DataFrame(pool.prediction[:400], columns=names)
    y = pd.DataFrame(pool.counts[:400], columns=names)[[names[k] for k in order]]
    what = ["wait", "test", "treat", "ask"]
    costs = pd.DataFrame(REFER, index=names, columns=what).iloc[order]
    plain = RiskControlledDecision("proba", REFER, budget=0.45, referral=3)
    plain.fit(pool.prediction[:400], pool.counts[:400])
    named = RiskControlledDecision("proba", costs, budget=0.45, referral="ask").fit(z, y)
    assert_allclose(named.thresholds_, plain.thresholds_)
    decisions = named.decide(z)
    assert_array_equal(decisions, np.array(what)[plain.decide(pool.prediction[:400])])
    assert_array_equal(decisions != "ask", named.accepted(z))
    assert decision_risk(y, decisions, costs) == pytest.approx(
        decision_risk(pool.counts[:400], plain.decide(pool.prediction[:400]), REFER)
    )
    free = RiskControlledDecision("proba", costs.drop(columns="ask"), budget=0.3).fit(z, y)
    assert free.referral_ == "refer"
    assert set(free.decide(z)) <= {*what, "refer"}


def test_what_is_promised_is_said(pool):
    z, y = pool.prediction[:100], pool.counts[:100]
    made = RiskControlledDecision
    said = made("proba", REFER, budget=0.45, referral=3).fit(z, y).guarantee_
    assert said == (
        "E[cost of a sample, referrals at 0.3] <= 0.45, over 100 calibration samples and a new one"
    )
    model = made("proba", COSTS, budget=0.4, target="decided", **BETTING)
    with pytest.warns(
        UserWarning, match="The 25 calibration samples or groups do not show"
    ) as seen:
        said = model.fit(z, y, groups=np.arange(100) // 4).guarantee_
    assert seen[0].filename == __file__
    assert said == ("P(E[cost of a sample | decided] <= 0.4) >= 0.9, over 25 calibration groups")


def test_around_classifiers(pool):
    X, y = pool.X[:600], pool.counts[:600]
    model = RiskControlledDecision(TemperatureScaling(), COSTS, budget=0.5, random_state=0)
    model.fit(X, y)
    assert model.n_calibration_ == 150
    assert_array_equal(decide(FrozenEstimator(model), X), model.decide(X))
    costs = model.expected_cost(X)
    assert_allclose(costs, model.predict_proba(X) @ model.cost_matrix_)
    assert_array_equal(model.classes_[model.predict_proba(X).argmax(axis=1)], model.predict(X))
    classifier = LogisticRegression().fit(X, y.argmax(axis=1))
    frozen = RiskControlledDecision(FrozenEstimator(classifier), COSTS, budget=0.5).fit(X, y)
    assert frozen.n_calibration_ == 600
    saved = RiskControlledDecision("proba", COSTS, budget=0.5)
    saved.fit(classifier.predict_proba(X), y)
    assert_allclose(saved.thresholds_, frozen.thresholds_)
    labels = y.argmax(axis=1)
    annotated = Annotations.from_matrix(np.column_stack([labels, labels]))
    again = RiskControlledDecision("proba", COSTS, budget=0.5)
    again.fit(classifier.predict_proba(X), annotated)
    assert_allclose(again.thresholds_, saved.thresholds_)


def test_bad_arguments(pool):
    z, y = pool.prediction[:50], pool.counts[:50]
    for options, message in (
        ({"method": "hope"}, "method must be"),
        ({"target": "some"}, "target must be"),
        ({"target": "decided"}, "learn_then_test"),
        ({"budget": np.nan}, "budget must be"),
        ({"budget": -0.1}, "more than the budget"),
        ({"referral": 7}, "decisions must lie"),
        ({"referral": 0}, "must cost the same"),
        ({"cost_matrix": np.eye(2)}, "cost_matrix has 2 rows"),
        ({"cost_matrix": np.ones((3, 1)), "referral": 0, "budget": 2}, "beside the referral"),
        ({"confidence_level": 1.0}, "confidence_level"),
    ):
        with pytest.raises(ValueError, match=message):
            RiskControlledDecision("proba", **{"cost_matrix": COSTS, **options}).fit(z, y)
    named = RiskControlledDecision("proba", pd.DataFrame(COSTS, columns=list("abc")), referral="d")
    with pytest.raises(ValueError, match="Unknown decisions"):
        named.fit(z, y)
    # two decisions of one name: what the user's costs and a free one
    taken = RiskControlledDecision("proba", pd.DataFrame(COSTS, columns=["a", "refer", "c"]))
    with pytest.raises(ValueError, match='pass referral="refer"'):
        taken.fit(z, y)


def test_sparse_features():
    """Their rows are decided as those of an array."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int)
    model = RiskControlledDecision(
        LogisticRegression(), 1 - np.eye(2), budget=0.9, calibration_size=0.5, random_state=0
    ).fit(sparse.csr_array(X), y)
    assert_array_equal(model.decide(sparse.csr_array(X)), model.fit(X, y).decide(X))
