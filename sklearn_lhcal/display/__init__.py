"""Figures in the manner of scikit-learn's displays; matplotlib is imported when something is plotted."""

from ._disagreement import DisagreementReliabilityDisplay
from ._reliability import ReliabilityDisplay
from ._second_opinion import SecondOpinionDisplay

__all__ = ["DisagreementReliabilityDisplay", "ReliabilityDisplay", "SecondOpinionDisplay"]
