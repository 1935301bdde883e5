"""Calibrators: classifiers that wrap a classifier and learn, from labels, what its outputs mean."""

from ._alpha import AlphaCalibration
from ._decision import DecisionCalibrationWarning
from ._decision.estimator import DecisionCalibration, decide, expected_cost
from ._epistemic_calibration import EpistemicCalibration
from ._grouped import GroupedCalibration
from ._guarantee import ConformalClassifier
from ._per_finding import PerFinding
from ._precomputed import PrecomputedClassifier
from ._rater_effects import RaterEffects
from ._risk_control import RiskControlledDecision
from ._scaling.scalings import (
    BiasCorrectedTemperatureScaling,
    MatrixScaling,
    OrdinalScaling,
    StackedCalibration,
    TemperatureScaling,
    VectorScaling,
)

__all__ = [
    "AlphaCalibration",
    "BiasCorrectedTemperatureScaling",
    "ConformalClassifier",
    "DecisionCalibration",
    "DecisionCalibrationWarning",
    "EpistemicCalibration",
    "GroupedCalibration",
    "MatrixScaling",
    "OrdinalScaling",
    "PerFinding",
    "PrecomputedClassifier",
    "RaterEffects",
    "RiskControlledDecision",
    "StackedCalibration",
    "TemperatureScaling",
    "VectorScaling",
    "decide",
    "expected_cost",
]
