"""A calibrator whose refit fails is as it was."""

import numpy as np
import pytest
from faults import (
    OTHER,
    OTHER_Y,
    Fault,
    X,
    Y,
    failing,
    points,
    same,
    state,
)
from sklearn.linear_model import LogisticRegression

from sklearn_lhcal import calibration

CALIBRATORS = {
    "temperature": lambda: calibration.TemperatureScaling(LogisticRegression(), cv=2),
    "vector": lambda: calibration.VectorScaling(LogisticRegression(), cv=2),
    "alpha": lambda: calibration.AlphaCalibration(LogisticRegression(), cv=2),
    "chain": lambda: calibration.AlphaCalibration(
        calibration.TemperatureScaling(LogisticRegression()), cv=2
    ),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*so α0 is infinite:UserWarning")
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("name", CALIBRATORS)
def test_a_refit_that_fails_changes_nothing(name, error):
    make = CALIBRATORS[name]
    # signatures are read once
    make().fit(OTHER, OTHER_Y)
    with failing(0, Fault) as seen:
        make().fit(OTHER, OTHER_Y)
    model = make().fit(X, Y)
    expected, held = model.predict_proba(X), state(model)
    for at in points(seen["calls"]):
        with failing(at, error), pytest.raises(error):
            model.fit(OTHER, OTHER_Y)
        assert same(state(model), held), at
        np.testing.assert_array_equal(model.predict_proba(X), expected)


FURTHER = {
    "conformal": lambda: calibration.ConformalClassifier(LogisticRegression(), random_state=0),
    "risk": lambda: calibration.RiskControlledDecision(LogisticRegression(), random_state=0),
    "decision": lambda: calibration.DecisionCalibration(LogisticRegression(), inner_cv=2, cv=2),
    "readers": lambda: calibration.RaterEffects(LogisticRegression(), cv=2),
    "groups": lambda: calibration.GroupedCalibration(
        calibration.TemperatureScaling(), by=lambda X: np.arange(len(X)) % 2, cv=2
    ),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:y does not say who gave the labels:UserWarning")
@pytest.mark.parametrize("name", FURTHER)
def test_an_interrupted_refit_changes_nothing(name):
    make = FURTHER[name]
    # signatures are read once
    make().fit(OTHER, OTHER_Y)
    with failing(0, Fault) as seen:
        make().fit(OTHER, OTHER_Y)
    model = make().fit(X, Y)
    held = state(model)
    for at in np.linspace(1, seen["calls"], 6).astype(int):
        with failing(at, KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
            model.fit(OTHER, OTHER_Y)
        assert same(state(model), held), at
