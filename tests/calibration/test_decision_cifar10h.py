"""Decisions on real raters.

CIFAR-10H with the predictions of a real network, risk by label histograms.
"""

from pathlib import Path

import numpy as np
import pytest

from sklearn_lhcal.calibration import DecisionCalibration
from sklearn_lhcal.metrics import bayes_decision, decision_risk, model_risk, paired_difference

FILE = Path(__file__).parents[3] / "shared" / "data" / "cifar10h_first5000.npz"
pytestmark = pytest.mark.skipif(
    not FILE.exists(), reason="the file of CIFAR-10H samples is not beside the project"
)


@pytest.fixture(scope="module")
def halves():
    data, rng = np.load(FILE), np.random.default_rng(0)
    proba, counts = (
        data["proba"] / data["proba"].sum(axis=1, keepdims=True),
        data["counts"].astype(int),
    )
    first, second = np.array_split(rng.permutation(len(proba)), 2)
    return proba[first], counts[first], proba[second], counts[second]


@pytest.fixture(scope="module")
def C():
    """To take an animal for a vehicle costs 5, a vehicle for an animal 20, within the kinds 1.

    Asking costs .5.
    """
    animal = np.array([0, 0, 1, 1, 1, 1, 1, 1, 0, 0], dtype=bool)
    costs = np.where(animal[:, None] & ~animal, 5.0, np.where(~animal[:, None] & animal, 20.0, 1.0))
    np.fill_diagonal(costs, 0)
    return np.column_stack([costs, np.full(10, 0.5)])


def test_calibration_makes_decisions_of_a_network_cheaper(halves, C):
    X, counts, X_test, y = halves
    model = DecisionCalibration("proba", C, inner_cv=3).fit(X, counts)
    plain, calibrated = bayes_decision(X_test, C), model.decide(X_test)
    difference = paired_difference(
        decision_risk, y, calibrated, plain, cost_matrix=C, confidence_level=0.9, random_state=0
    )
    assert difference.high < 0
    constant = min(decision_risk(y, np.full(len(y), d), C) for d in range(11))
    assert decision_risk(y, calibrated, C) < constant / 2
    z = model.predict_proba(X_test)
    gaps = [abs(decision_risk(y, bayes_decision(p, C), C) - model_risk(p, C)) for p in (X_test, z)]
    assert gaps[1] < 0.6 * gaps[0]


def test_one_label_of_each_row_has_the_risk_of_all_on_average(halves, C):
    _, _, X_test, y = halves
    d, rng = bayes_decision(X_test, C), np.random.default_rng(0)
    single = [
        decision_risk(np.array([rng.multivariate_hypergeometric(r, 1) for r in y]), d, C)
        for _ in range(5)
    ]
    cost = y / y.sum(axis=1, keepdims=True) @ C**2
    error = np.sqrt(np.mean(cost[np.arange(len(d)), d]) / len(d) / 5)
    assert abs(np.mean(single) - decision_risk(y, d, C)) < 4 * error
