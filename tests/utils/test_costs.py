"""Costs that differ from row to row: decisions, risks, scorers, promises, and callables of X."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_lhcal.calibration import (
    DecisionCalibration,
    PrecomputedClassifier,
    RiskControlledDecision,
    decide,
    expected_cost,
)
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.metrics import (
    bayes_decision,
    confidence_interval,
    decision_risk,
    make_decision_scorer,
    model_risk,
    paired_difference,
    risk_bound,
    risk_decomposition,
    risk_gap,
)

N = 60


@pytest.fixture(scope="module")
def rows():
    """Probabilities, counts and costs of each row, three classes and four decisions."""
    rng = np.random.default_rng(0)
    z = rng.dirichlet(np.ones(3), N)
    y = np.array([rng.multinomial(4, p) for p in z])
    return z, y, rng.exponential(size=(N, 3, 4))


@pytest.fixture(scope="module")
def loans():
    """Features, of which the first is the size of a loan; and whether it was paid back."""
    X, y = make_classification(300, 5, n_informative=3, random_state=0)
    X[:, 0] = np.exp(X[:, 0])
    return X, y


def loss_of(X):
    """To grant a loan that fails costs its size; to refuse a good one a tenth of it."""
    size = np.asarray(X)[:, 0]
    zero = np.zeros_like(size)
    return np.stack([np.stack([size, zero], 1), np.stack([zero, 0.1 * size], 1)], axis=1)


def test_each_row_is_decided_by_its_own_costs(rows):
    z, y, C = rows
    one_by_one = [bayes_decision(z[i : i + 1], C[i])[0] for i in range(N)]
    d = bayes_decision(z, C)
    assert_array_equal(d, one_by_one)
    assert len(set(d)) == 4
    cost = np.array([decision_risk(y[i : i + 1], d[i : i + 1], C[i]) for i in range(N)])
    assert decision_risk(y, d, C) == pytest.approx(cost.mean())
    w = np.arange(N) % 3.0
    assert decision_risk(y, d, C, sample_weight=w) == pytest.approx(w @ cost / w.sum())
    expected = [model_risk(z[i : i + 1], C[i]) for i in range(N)]
    assert model_risk(z, C) == pytest.approx(np.mean(expected))
    order = np.random.default_rng(1).permutation(N)
    assert_array_equal(bayes_decision(z[order], C[order]), d[order])


def test_the_same_costs_in_each_row_are_one_matrix(rows):
    z, y, C = rows
    same = np.broadcast_to(C[0], C.shape)
    d = bayes_decision(z, C[0])
    assert_array_equal(bayes_decision(z, same), d)
    w = np.random.default_rng(0).uniform(0, 2, N)
    w[:5] = 0
    for weight in (None, w):
        options = {"sample_weight": weight}
        assert decision_risk(y, d, same, **options) == decision_risk(y, d, C[0], **options)
        intervals = [
            confidence_interval(decision_risk, y, d, cost_matrix=c, random_state=0, **options)
            for c in (same, C[0])
        ]
        assert_allclose(*intervals, rtol=1e-12)
    assert_allclose(risk_bound(y, d, same), risk_bound(y, d, C[0]))
    pairs = [
        paired_difference(decision_risk, y, d, np.zeros(N, int), cost_matrix=c, random_state=0)
        for c in (same, C[0])
    ]
    assert_allclose(*pairs, rtol=1e-12)


def test_an_interval_of_costs_a_row_is_that_of_their_mean(rows):
    z, y, C = rows
    d = bayes_decision(z, C)
    found = confidence_interval(decision_risk, y, d, cost_matrix=C, random_state=0)
    cost = np.einsum("nk,nk->n", y / 4, C[np.arange(N), :, d])
    assert found.estimate == pytest.approx(cost.mean())
    # of blocks of rows, which are a few: within a quarter of the error of all samples
    assert found.standard_error == pytest.approx(cost.std(ddof=1) / np.sqrt(N), rel=0.25)


def test_calibrated_decisions_take_costs_of_rows(loans):
    X, y = loans
    frame = pd.DataFrame([[1.0, 0.0], [0.0, 0.1]], index=[0, 1], columns=["grant", "refuse"])
    model = DecisionCalibration(LogisticRegression(), frame, criterion="nll").fit(X, y)
    C = loss_of(X)
    z = model.predict_proba(X)
    names = np.array(["grant", "refuse"])
    by_hand = names[bayes_decision(z, C)]
    assert_array_equal(model.decide(X, C), by_hand)
    assert_array_equal(model.decide(X, loss_of), by_hand)
    assert_array_equal(decide(model, X, loss_of), by_hand)
    assert_allclose(expected_cost(model, X, C), np.einsum("nk,nkd->nd", z, C))
    assert_array_equal(model.decide(X, frame), model.decide(X))


def test_a_callable_sees_the_x_of_the_outermost_estimator(loans):
    X, y = loans
    model = DecisionCalibration(LogisticRegression(), [[1, 0], [0, 0.1]], criterion="nll")
    pipe = make_pipeline(StandardScaler(), model).fit(X, y)
    expected = bayes_decision(pipe.predict_proba(X), loss_of(X))
    assert_array_equal(decide(pipe, X, loss_of), expected)


def test_scorers_take_callables(loans):
    X, y = loans
    model = LogisticRegression().fit(X, y)
    C = loss_of(X)
    by_hand = -decision_risk(y, bayes_decision(model.predict_proba(X), C), C)
    assert make_decision_scorer(loss_of)(model, X, y) == pytest.approx(by_hand)
    assert make_decision_scorer()(model, X, y, cost_matrix=C) == pytest.approx(by_hand)
    search = GridSearchCV(
        LogisticRegression(), {"C": [0.01, 1]}, scoring=make_decision_scorer(loss_of)
    )
    assert search.fit(X, y).best_score_ < 0


def test_costs_of_rows_are_routed_to_scorers(loans):
    X, y = loans
    C = loss_of(X)
    folds = KFold(3)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = cross_validate(
            LogisticRegression(),
            X,
            y,
            scoring=make_decision_scorer(),
            cv=folds,
            params={"cost_matrix": C},
        )["test_score"]
        search = GridSearchCV(
            LogisticRegression(), {"C": [0.01, 1.0]}, scoring=make_decision_scorer(), cv=folds
        )
        best = search.fit(X, y, cost_matrix=C).cv_results_["mean_test_score"][1]
    called = cross_validate(
        LogisticRegression(), X, y, scoring=make_decision_scorer(loss_of), cv=folds
    )["test_score"]
    assert_allclose(routed, called)
    assert best == pytest.approx(called.mean())


# ---------------------------------------------------------------------------------------- promises

COSTS = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 1.0], [9.0, 2.0, 0.0]])
SAVED = PrecomputedClassifier("proba", columns=[0, 1, 2])


def staked(X):
    """COSTS times the stake of a row, which stands behind its probabilities."""
    return X[:, 3, None, None] * COSTS


@pytest.fixture(scope="module")
def pool():
    """Overconfident probabilities and stakes of rows, and the distributions of their votes."""
    data = make_label_histograms(3000, 3, 1, total=6.0, overconfidence=2.0, random_state=0)
    stake = np.random.default_rng(1).exponential(size=3000)
    return np.column_stack([data.prediction, stake]), data.proba


def test_the_mean_of_costs_a_row_keeps_to_the_budget(pool):
    """Over 80 resplits with votes drawn anew, to two standard errors; and rows are decided."""
    X, Q = pool
    model = RiskControlledDecision(SAVED, staked, budget=0.3)
    found = []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(X))
        first, rest = order[:300], order[300:1300]
        model.fit(X[first], rng.multinomial(1, Q[first]))
        own = model.accepted(X[rest])
        C = model.costs(X[rest])
        cost = np.einsum("nk,nk->n", Q[rest], C[np.arange(1000), :, model.decide(X[rest])])
        found.append((cost.mean(), own.mean()))
    cost, decided = np.array(found).T
    assert cost.mean() <= 0.3 + 2 * cost.std(ddof=1) / np.sqrt(len(cost))
    assert decided.mean() > 0.5


@pytest.mark.parametrize("referral", [None, 3])
def test_thresholds_are_those_of_a_row_with_its_own_worst_cost(pool, referral):
    """The definition, row by row; and rows on their own get the same decisions."""
    X, Q = pool
    y = np.random.default_rng(0).multinomial(2, Q[:80])
    c, budget = 0.0, 0.4
    costs = staked
    if referral is not None:
        c, budget = 0.3, 0.6

        def costs(X):
            return np.concatenate([staked(X), np.full((len(X), 3, 1), c)], axis=2)

    model = RiskControlledDecision(SAVED, costs, budget=budget, referral=referral)
    model.fit(X[:80], y)

    def best(X):
        d = bayes_decision(X[:, :3], staked(X))
        of_d = staked(X)[np.arange(len(X)), :, d]
        return np.einsum("nk,nk->n", X[:, :3], of_d), of_d

    g, of_d = best(X[:80])
    excess = np.maximum(np.einsum("nk,nk->n", y / 2, of_d) - c, 0)
    g_new, of_d_new = best(X[80:120])
    for i in range(40):
        most = max(of_d_new[i].max() - c, 0)
        held = [
            t for t in [*g, np.inf] if (excess * (g < t)).sum() + most <= 81 * (budget - c) + 1e-9
        ]
        row = X[80 + i : 81 + i]
        assert model.accepted(row)[0] == (g_new[i] < max(held, default=-np.inf))
        assert model.decide(row)[0] == model.decide(X[80:120])[i]
    assert 0 < model.accepted(X[80:120]).sum() < 40
    assert_allclose(
        model.expected_cost(X[:80])[:, :3], np.einsum("nk,nkd->nd", X[:80, :3], staked(X[:80]))
    )


def test_a_promise_for_the_same_costs_in_each_row_is_that_of_one_matrix(pool):
    X, Q = pool
    y = np.random.default_rng(0).multinomial(2, Q[:200])
    model = RiskControlledDecision(SAVED, lambda X: np.tile(COSTS, (len(X), 1, 1)), budget=0.4)
    one = RiskControlledDecision(SAVED, COSTS, budget=0.4).fit(X[:200], y)
    model.fit(X[:200], y)
    assert_array_equal(model.decide(X), one.decide(X))
    assert model.thresholds_ is None
    assert model.automated_ == one.automated_
    assert model.guarantee_ == one.guarantee_
    assert_array_equal(model.costs(X)[7], one.costs(X))


def test_what_a_promise_refuses(pool):
    X, Q = pool
    y = np.random.default_rng(0).multinomial(2, Q)
    made = RiskControlledDecision
    with pytest.raises(ValueError, match="costs of each give a callable"):
        made(SAVED, staked(X)).fit(X, y)
    with pytest.raises(ValueError, match='use method="conformal"'):
        made(SAVED, staked, method="learn_then_test").fit(X, y)
    with pytest.raises(ValueError, match="the same under all classes and in all samples"):
        made(SAVED, lambda X: staked(X) + X[:, 3, None, None], referral=0).fit(X, y)
    model = made(SAVED, lambda X: np.ones((len(X), 3, 2 + (len(X) < 99))), budget=2).fit(X, y)
    with pytest.raises(ValueError, match="4 decisions with the referral, but had 3"):
        model.decide(X[:9])
    dearer = made(SAVED, lambda X: np.full((len(X), 3, 2), 2000 / len(X)), budget=2, referral=1)
    with pytest.raises(ValueError, match=r"costs 20 .* but cost 0\.666667 in the fit"):
        dearer.fit(X, y).decide(X[:100])
    for function in (decide, expected_cost):
        with pytest.raises(ValueError, match="holds for the costs of its fit"):
            function(model, X, COSTS)


def test_what_is_refused(rows, loans):
    z, y, C = rows
    d = bayes_decision(z, C)
    with pytest.raises(ValueError, match="cost_matrix has 59 samples, expected 60"):
        bayes_decision(z, C[:-1])
    with pytest.raises(ValueError, match="cost_matrix has 59 samples, expected 60"):
        decision_risk(y, d, C[:-1])
    with pytest.raises(ValueError, match="has 2 rows, expected one for each of 3 classes"):
        bayes_decision(z, C[:, :2])
    wrong = C.copy()
    wrong[7, 1, 2] = np.nan
    with pytest.raises(ValueError, match=r"NaN or infinite values \(first in sample 7\)"):
        decision_risk(y, d, wrong)
    for function in (risk_gap, risk_decomposition):
        with pytest.raises(ValueError, match="here, one for all samples"):
            function(y, z, C)
    X, labels = loans
    with pytest.raises(ValueError, match="here, one for all samples"):
        DecisionCalibration(LogisticRegression(), loss_of(X)).fit(X, labels)
    model = DecisionCalibration(LogisticRegression(), criterion="nll").fit(X, labels)
    with pytest.raises(ValueError, match="3 columns, but the calibrator was fitted for 2"):
        model.decide(X, np.ones((2, 3)))
    with pytest.raises(ValueError, match="names the decisions"):
        model.decide(X, pd.DataFrame(np.eye(2), index=[0, 1], columns=["a", "b"]))
    with pytest.raises(ValueError, match="cost_matrix has 5 samples, expected 300"):
        model.decide(X, loss_of(X)[:5])
    with pytest.raises(ValueError, match="metadata routing"):
        make_decision_scorer()(model, X, labels)
