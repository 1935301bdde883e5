"""Figures in the manner of scikit-learn's displays; matplotlib is imported when they are drawn."""

from ._calibration_dispersion import CalibrationDispersionDisplay
from ._decision import DecisionRiskDisplay
from ._decision_curve import DecisionCurveDisplay
from ._epistemic import EpistemicGainDisplay
from ._label_policy import LabelPolicyDisplay
from ._monitor import MonitorDisplay
from ._readers import RaterDisplay
from ._reliability import DisagreementReliabilityDisplay, ReliabilityDisplay
from ._second_opinion import SecondOpinionDisplay
from ._simplex import SimplexCalibrationDisplay
from ._subgroups import SubgroupDisplay

__all__ = [
    "CalibrationDispersionDisplay",
    "DecisionCurveDisplay",
    "DecisionRiskDisplay",
    "DisagreementReliabilityDisplay",
    "EpistemicGainDisplay",
    "LabelPolicyDisplay",
    "MonitorDisplay",
    "RaterDisplay",
    "ReliabilityDisplay",
    "SecondOpinionDisplay",
    "SimplexCalibrationDisplay",
    "SubgroupDisplay",
]
