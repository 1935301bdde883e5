"""Figures in the manner of scikit-learn's displays; matplotlib is imported when they are drawn."""

from ._calibration_dispersion import CalibrationDispersionDisplay
from ._decisions import CostCurveDisplay, DecisionCurveDisplay, DecisionRiskDisplay
from ._gain_curve import GainCurveDisplay
from ._label_acquisition import PolicyCurveDisplay, ReferralCurveDisplay
from ._monitor import MonitorDisplay
from ._rater_comparison import RaterDisplay
from ._reader_study import ReaderStudyDisplay
from ._reliability import ReliabilityDisplay
from ._simplex_calibration import SimplexCalibrationDisplay
from ._subgroups import SubgroupDisplay

__all__ = [
    "CalibrationDispersionDisplay",
    "CostCurveDisplay",
    "DecisionCurveDisplay",
    "DecisionRiskDisplay",
    "GainCurveDisplay",
    "MonitorDisplay",
    "PolicyCurveDisplay",
    "RaterDisplay",
    "ReaderStudyDisplay",
    "ReferralCurveDisplay",
    "ReliabilityDisplay",
    "SimplexCalibrationDisplay",
    "SubgroupDisplay",
]
