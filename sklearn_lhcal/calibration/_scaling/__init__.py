"""Scaling maps of logits, u' = W u + b.

`maps` are the families, `objective` their log loss, `curvature` its second derivatives, `fit` the
search, `stack` mixtures of maps, `checks` what is said about calibration rows, and `estimators` the
public classes.
"""

from .checks import seen, warn
from .estimators import (
    BiasCorrectedTemperatureScaling,
    MatrixScaling,
    PublishedScaling,
    StackedCalibration,
    TemperatureScaling,
    VectorScaling,
)
from .fit import fit_shrunk, fit_temperature
from .maps import AffineMap, FittedMap, TemperatureMap, transform
from .stack import FAMILIES, StackAtTemperature, fit_stack

__all__ = [
    "FAMILIES",
    "AffineMap",
    "BiasCorrectedTemperatureScaling",
    "FittedMap",
    "MatrixScaling",
    "PublishedScaling",
    "StackAtTemperature",
    "StackedCalibration",
    "TemperatureMap",
    "TemperatureScaling",
    "VectorScaling",
    "fit_shrunk",
    "fit_stack",
    "fit_temperature",
    "seen",
    "transform",
    "warn",
]
