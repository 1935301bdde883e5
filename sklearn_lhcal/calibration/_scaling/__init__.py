"""Scaling of logits, u' = W u + b.

`maps` are the families and fitted maps, `fit` the search for the least log loss, `stack` mixtures
of maps, and `estimators` the public classes.
"""

from .estimators import (
    BiasCorrectedTemperatureScaling,
    MatrixScaling,
    Scaling,
    StackedCalibration,
    TemperatureScaling,
    VectorScaling,
    check_folds,
    warn,
)
from .fit import rows_for_fit
from .maps import FittedMap, TemperatureMap, VectorMap, transform
from .stack import StackAtTemperature, fit_stack, predicted_out_of_fold

__all__ = [
    "BiasCorrectedTemperatureScaling",
    "FittedMap",
    "MatrixScaling",
    "Scaling",
    "StackAtTemperature",
    "StackedCalibration",
    "TemperatureMap",
    "TemperatureScaling",
    "VectorMap",
    "VectorScaling",
    "check_folds",
    "fit_stack",
    "predicted_out_of_fold",
    "rows_for_fit",
    "transform",
    "warn",
]
