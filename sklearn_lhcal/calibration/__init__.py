"""Calibrators: classifiers that wrap a classifier and learn, from label histograms, what its outputs mean."""

from ._alpha import AlphaCalibration
from ._precomputed import PrecomputedClassifier
from ._scaling import TemperatureScaling

__all__ = ["AlphaCalibration", "PrecomputedClassifier", "TemperatureScaling"]
