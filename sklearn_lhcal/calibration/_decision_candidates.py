"""Sets of candidates of `DecisionCalibration`: parameters that may make cheap decisions."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray
from torch import nn

from .._ground.arrays import Floats
from ._affine import TemperatureMap
from ._decision_search import (
    SMOOTHING,
    Surrogates,
    TemperaturePath,
    cost_scale,
    descend,
    direct,
    ece,
    margin,
    of_module,
    probabilities,
)
from ._fitted_map import FittedMap
from ._rows import CalibrationRows


class Candidates(ABC):
    """What is tried beside the solution of least log loss, NLL; `params` are one dict each."""

    params: list[dict]

    @abstractmethod
    def fit(self, start: NDArray, part: NDArray) -> Floats:
        """Parameters (P, p) on a part of the rows, from their NLL solution `start`."""


class NoCandidates(Candidates):
    """NLL alone."""

    params = []  # noqa: RUF012

    def fit(self, start, part):
        """Nothing."""
        return np.empty((0, len(start)))


class SurrogateCandidates(Candidates):
    """Minima of smooth losses in place of the mean cost.

    Parameters
    ----------
    surrogates : Surrogates
    fitted : FittedMap
    rows : CalibrationRows
    C : ndarray of shape (K, D)
        Relative costs, the largest 1.
    """

    def __init__(self, surrogates: Surrogates, fitted: FittedMap, rows: CalibrationRows, C):
        self.surrogates = surrogates
        self.family = fitted.family
        self.rows = rows
        self.C = C
        self.params = surrogates.params

    def fit(self, start, part):
        """By Adam, all at once."""
        return descend(self.family, start, self.rows.take(part), self.C, self.surrogates)


class TemperatureCandidates(Candidates):
    """Minima of the mean cost itself, a step function of one temperature, exact and smoothed.

    Parameters
    ----------
    fitted, rows, C
        As in `SurrogateCandidates`.
    """

    params = [{"criterion": "direct", "smoothing": h} for h in SMOOTHING]  # noqa: RUF012

    def __init__(self, fitted: FittedMap, rows: CalibrationRows, C):
        self.path = TemperaturePath.of(fitted.x[0], rows, C)
        self.weight = rows.weight

    def fit(self, start, part):
        """Along the path of all steps."""
        w = np.zeros(len(self.weight))
        w[part] = self.weight[part]
        return np.array([[self.path.minimise(w, start[0], h)] for h in SMOOTHING])


def _direct(fitted: FittedMap, rows: CalibrationRows, C) -> Candidates:
    if isinstance(fitted.family, TemperatureMap):
        return TemperatureCandidates(fitted, rows, C)
    return SurrogateCandidates(direct(_kappa(fitted, rows, C)), fitted, rows, C)


def _margin(fitted: FittedMap, rows: CalibrationRows, C) -> Candidates:
    return SurrogateCandidates(margin(_kappa(fitted, rows, C)), fitted, rows, C)


def _ece(fitted: FittedMap, rows: CalibrationRows, C) -> Candidates:
    return SurrogateCandidates(ece(), fitted, rows, C)


def _nll(fitted: FittedMap, rows: CalibrationRows, C) -> Candidates:
    return NoCandidates()


def _kappa(fitted: FittedMap, rows: CalibrationRows, C) -> float:
    return cost_scale(probabilities(fitted.family, fitted.x, rows), C, rows.weight)


# What each criterion tries. "auto" is what has proved worth trying.
CRITERIA = {"auto": _direct, "direct": _direct, "margin": _margin, "nll": _nll, "ece": _ece}


def candidates_of(criterion, fitted: FittedMap, rows: CalibrationRows, C) -> Candidates:
    """The set of a criterion, or of a torch module that is a loss."""
    if isinstance(criterion, nn.Module):
        return SurrogateCandidates(of_module(criterion), fitted, rows, C)
    return CRITERIA[criterion](fitted, rows, C)
