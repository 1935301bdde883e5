"""Figures in the manner of scikit-learn's displays; matplotlib is imported when something is plotted."""

from ._calibration_dispersion import CalibrationDispersionDisplay
from ._disagreement import DisagreementReliabilityDisplay
from ._epistemic import EpistemicGainDisplay
from ._reliability import ReliabilityDisplay
from ._second_opinion import SecondOpinionDisplay
from ._simplex import SimplexCalibrationDisplay

__all__ = [
    "CalibrationDispersionDisplay",
    "DisagreementReliabilityDisplay",
    "EpistemicGainDisplay",
    "ReliabilityDisplay",
    "SecondOpinionDisplay",
    "SimplexCalibrationDisplay",
]
