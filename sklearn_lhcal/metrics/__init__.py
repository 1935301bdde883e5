"""Metrics on label histograms, and scorers."""

from ._accumulator import LabelHistogramAccumulator
from ._disagreement import (
    class_disagreement_calibration_error,
    class_disagreement_squared_loss,
    disagreement_calibration_error,
    disagreement_calibration_loss,
    disagreement_squared_loss,
    posterior_epistemic_loss,
    statistic_calibration_loss,
    statistic_squared_loss,
)
from ._intervals import ConfidenceInterval, confidence_interval, paired_difference
from ._label_histogram import (
    LossDecomposition,
    calibration_error,
    calibration_loss,
    dispersion_error,
    dispersion_loss,
    epistemic_loss,
    expected_accuracy,
    expected_squared_loss,
    histogram_log_loss,
    irreducible_loss,
    label_log_loss,
    loss_decomposition,
    vote_accuracy,
)
from ._scorers import SCORERS, LabelHistogramScorer, get_scorer, get_scorer_names

__all__ = [
    "SCORERS",
    "ConfidenceInterval",
    "LabelHistogramAccumulator",
    "LabelHistogramScorer",
    "LossDecomposition",
    "calibration_error",
    "calibration_loss",
    "class_disagreement_calibration_error",
    "class_disagreement_squared_loss",
    "confidence_interval",
    "disagreement_calibration_error",
    "disagreement_calibration_loss",
    "disagreement_squared_loss",
    "dispersion_error",
    "dispersion_loss",
    "epistemic_loss",
    "expected_accuracy",
    "expected_squared_loss",
    "get_scorer",
    "get_scorer_names",
    "histogram_log_loss",
    "irreducible_loss",
    "label_log_loss",
    "loss_decomposition",
    "paired_difference",
    "posterior_epistemic_loss",
    "statistic_calibration_loss",
    "statistic_squared_loss",
    "vote_accuracy",
]
