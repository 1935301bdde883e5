"""Calibrators: classifiers that wrap a classifier and learn, from labels, what its outputs mean."""

from ._alpha import AlphaCalibration
from ._conformal import ConformalClassifier
from ._decide import decide, expected_cost
from ._decision import DecisionCalibration
from ._decision_selection import DecisionCalibrationWarning
from ._epistemic import EpistemicCalibration
from ._precomputed import PrecomputedClassifier
from ._readers import ReaderEffects
from ._risk_controlled import RiskControlledDecision
from ._scaling import (
    BiasCorrectedTemperatureScaling,
    MatrixScaling,
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
    "MatrixScaling",
    "PrecomputedClassifier",
    "ReaderEffects",
    "RiskControlledDecision",
    "StackedCalibration",
    "TemperatureScaling",
    "VectorScaling",
    "decide",
    "expected_cost",
]
