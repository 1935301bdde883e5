"""Costs that differ from row to row: decisions, risks, scorers, and callables of X."""

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

from sklearn_lhcal.calibration import DecisionCalibration, decide, expected_cost
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
    # of blocks of rows, which are a few: within a quarter of the error of all rows
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


def test_what_is_refused(rows, loans):
    z, y, C = rows
    d = bayes_decision(z, C)
    with pytest.raises(ValueError, match="cost_matrix has 59 rows, expected 60"):
        bayes_decision(z, C[:-1])
    with pytest.raises(ValueError, match="cost_matrix has 59 rows, expected 60"):
        decision_risk(y, d, C[:-1])
    with pytest.raises(ValueError, match="has 2 rows, expected one for each of 3 classes"):
        bayes_decision(z, C[:, :2])
    wrong = C.copy()
    wrong[7, 1, 2] = np.nan
    with pytest.raises(ValueError, match=r"NaN or infinite values \(first in row 7\)"):
        decision_risk(y, d, wrong)
    for function in (risk_gap, risk_decomposition):
        with pytest.raises(ValueError, match="here, one for all rows"):
            function(y, z, C)
    X, labels = loans
    with pytest.raises(ValueError, match="here, one for all rows"):
        DecisionCalibration(LogisticRegression(), loss_of(X)).fit(X, labels)
    model = DecisionCalibration(LogisticRegression(), criterion="nll").fit(X, labels)
    with pytest.raises(ValueError, match="3 columns, but the calibrator was fitted for 2"):
        model.decide(X, np.ones((2, 3)))
    with pytest.raises(ValueError, match="names the decisions"):
        model.decide(X, pd.DataFrame(np.eye(2), index=[0, 1], columns=["a", "b"]))
    with pytest.raises(ValueError, match="cost_matrix has 5 rows, expected 300"):
        model.decide(X, loss_of(X)[:5])
    with pytest.raises(ValueError, match="metadata routing"):
        make_decision_scorer()(model, X, labels)
