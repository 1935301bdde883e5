"""From a study with its own class frequencies to a clinic, by weights of the patients.

The recipe of the guide, "Your data in". Patients of a class are alike in both places, and the
classes by which they are drawn are known.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import softmax

from sklearn_lhcal.calibration import DecisionCalibration, StackedCalibration
from sklearn_lhcal.label_histogram import KnownProbabilities
from sklearn_lhcal.metrics import (
    bayes_decision,
    calibration_loss,
    confidence_interval,
    decision_risk,
    expected_squared_loss,
)

CLINIC, STUDY = np.array([0.75, 0.2, 0.05]), np.array([0.4, 0.2, 0.4])
W = CLINIC / STUDY
COSTS = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 1.0], [20.0, 6.0, 0.0]])
# what raters look at, who do not know the class
SEEN = np.array([[-1.0, 0.5, 0.5], [0.0, -1.0, 1.0]])
MEANS = np.array([[0.0, 0.0], [1.5, 0.0], [1.0, 1.5]])


def patients(frequencies, n, seed):
    """X, the class by which each is drawn, and what is known of it from X."""
    rng = np.random.default_rng(seed)
    k = rng.choice(3, n, p=frequencies)
    X = rng.normal(MEANS[k])
    density = np.exp(-((X[:, None] - MEANS) ** 2).sum(axis=2) / 2)
    p = density * frequencies
    return X, k, p / p.sum(axis=1, keepdims=True)


def moved(z):
    return z * W / (z * W).sum(axis=1, keepdims=True)


def in_study(p):
    """What is known of the clinic's patients, were they patients of the study."""
    return p / W / (p / W).sum(axis=1, keepdims=True)


def overconfident(p):
    """What a model says that was made in the study."""
    z = p**2 * [1.0, 2.0, 0.5]
    return z / z.sum(axis=1, keepdims=True)


def test_probabilities_of_the_study_are_moved_in_closed_form():
    X, _, p = patients(STUDY, 50, 0)
    density = np.exp(-((X[:, None] - MEANS) ** 2).sum(axis=2) / 2) * CLINIC
    assert_allclose(moved(p), density / density.sum(axis=1, keepdims=True), rtol=1e-12)


@pytest.mark.parametrize("votes", ["class", "raters"])
def test_what_weighted_patients_calibrate_is_calibrated_in_the_clinic(votes):
    """Whether labels are the classes by which patients were drawn, or of raters who see X alone."""
    X, k, p = patients(STUDY, 2000, 0)
    X_clinic, _, p_clinic = patients(CLINIC, 20_000, 1)
    z, z_clinic = overconfident(p), overconfident(in_study(p_clinic))
    labels, truth = k, p_clinic
    if votes == "raters":
        Q, truth = softmax(X @ SEEN, axis=1), softmax(X_clinic @ SEEN, axis=1)
        labels = np.random.default_rng(2).multinomial(3, Q)
    model = StackedCalibration("proba")
    model.fit(moved(z), labels, sample_weight=W[k])
    found = model.predict_proba(moved(z_clinic))
    y = KnownProbabilities(truth)
    # a tenth of what the model of the study has there
    assert calibration_loss(y, found) < 0.1 * calibration_loss(y, z_clinic)
    assert_allclose(found.mean(axis=0), truth.mean(axis=0), atol=0.03)


def test_weighted_intervals_hold_what_the_clinic_shows():
    _, _, p = patients(CLINIC, 50_000, 99)
    z = moved(overconfident(in_study(p)))
    y = KnownProbabilities(p)
    risk = decision_risk(y, bayes_decision(z, COSTS), COSTS)
    loss = expected_squared_loss(y, z)
    inside = []
    for seed in range(40):
        _, k, p = patients(STUDY, 400, seed)
        z = moved(overconfident(p))
        options = {"sample_weight": W[k], "random_state": 0}
        found = confidence_interval(
            decision_risk, k, bayes_decision(z, COSTS), cost_matrix=COSTS, **options
        )
        inside.append(found.low <= risk <= found.high)
        found = confidence_interval(expected_squared_loss, np.eye(3, dtype=int)[k], z, **options)
        inside.append(found.low <= loss <= found.high)
    # .95 of 80, which are half of them independent, less three standard errors
    assert np.mean(inside) > 0.95 - 3 * np.sqrt(0.95 * 0.05 / 40)


def test_decisions_of_the_weighted_study_are_those_of_the_clinic():
    _, k, of_study = patients(STUDY, 400, 1)
    _, _, p = patients(CLINIC, 20_000, 2)
    raw = overconfident(in_study(p))
    model = DecisionCalibration("proba", COSTS, criterion="nll")
    model.fit(moved(overconfident(of_study)), k, sample_weight=W[k])
    y = KnownProbabilities(p)
    best = decision_risk(y, bayes_decision(p, COSTS), COSTS)
    assert decision_risk(y, model.decide(moved(raw)), COSTS) < 1.05 * best
    unmoved = bayes_decision(raw, COSTS)
    assert decision_risk(y, unmoved, COSTS) > 1.1 * best
