"""Candidates of `DecisionCalibration`: parameters that may lead to cheap decisions."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray
from torch import nn

from .._ground.arrays import Floats
from ._decision_search import (
    GIVEN,
    SMOOTHING,
    Surrogates,
    TemperaturePath,
    bounds_of,
    classwise_ece,
    cost_scale,
    descend,
    ece,
    of_module,
    probabilities,
    rates_of,
)
from ._rows import CalibrationRows
from ._scaling import FittedMap, TemperatureMap


class Candidates(ABC):
    """What is tried beside the solution of least log loss, NLL; `params` are one dict each."""

    params: Sequence[dict]

    @abstractmethod
    def fit(self, start: FittedMap, part: NDArray) -> Floats:
        """Parameters (P, p) on a part of the rows, from their NLL solution `start`."""


class NoCandidates(Candidates):
    """No candidate beside NLL."""

    params = ()

    def fit(self, start, part):
        """No parameters, shape (0, p)."""
        return np.empty((0, len(start.x)))


class SurrogateCandidates(Candidates):
    """Minima of smooth losses in place of the mean cost.

    Parameters
    ----------
    surrogates : Surrogates
    rows : CalibrationRows
    C : ndarray of shape (K, D)
        Relative costs, the largest 1.
    """

    def __init__(self, surrogates: Surrogates, rows: CalibrationRows, C):
        self.surrogates = surrogates
        self.rows = rows
        self.C = C
        self.params = surrogates.params

    def fit(self, start, part):
        """The best points of Adam's runs, which are made all at once."""
        return descend(start, self.rows.take(part), self.C, self.surrogates)


class TemperatureCandidates(Candidates):
    """Minima of the mean cost itself, a step function of one temperature, exact and smoothed.

    Parameters
    ----------
    fitted : FittedMap
        NLL's, on all rows.
    rows, C
        As in `SurrogateCandidates`.
    """

    params = tuple({"criterion": "direct", "smoothing": h} for h in SMOOTHING)

    def __init__(self, fitted: FittedMap, rows: CalibrationRows, C):
        self.path = TemperaturePath.of(fitted, rows, C)
        self.weight = rows.weight

    def fit(self, start, part):
        """The cheapest temperatures of a path on which all steps of the cost are known."""
        w = np.zeros(len(self.weight))
        w[part] = self.weight[part]
        return np.array([[self.path.minimise(w, start.x[0], h)] for h in SMOOTHING])


def _direct(fitted: FittedMap, rows: CalibrationRows, C, grid) -> Candidates:
    if grid is None and isinstance(fitted.family, TemperatureMap):
        return TemperatureCandidates(fitted, rows, C)
    return _bounds("direct", fitted, rows, C, grid)


def _ece(fitted: FittedMap, rows: CalibrationRows, C, grid) -> Candidates:
    return SurrogateCandidates(ece(rates_of(grid)), rows, C)


def _classwise_ece(fitted: FittedMap, rows: CalibrationRows, C, grid) -> Candidates:
    return SurrogateCandidates(classwise_ece(rates_of(grid)), rows, C)


def _nll(fitted: FittedMap, rows: CalibrationRows, C, grid) -> Candidates:
    return NoCandidates()


def _bounds(name: str, fitted: FittedMap, rows: CalibrationRows, C, grid) -> Candidates:
    kappa = cost_scale(probabilities(fitted, rows), C, rows.weight)
    return SurrogateCandidates(bounds_of(name, kappa, grid), rows, C)


# What each criterion tries. "auto" is what has proved worth trying.
CRITERIA: dict[str, Callable[..., Candidates]] = {
    "auto": _direct,
    "direct": _direct,
    "margin": partial(_bounds, "margin"),
    "nll": _nll,
    "ece": _ece,
    "classwise_ece": _classwise_ece,
}


def check_grid(grid) -> None:
    """Refuse a grid with other names, empty lists, or values that are not positive."""
    if grid is None:
        return
    if not isinstance(grid, Mapping) or not set(grid) <= set(GIVEN):
        raise ValueError(f"grid must be a dict with keys among {list(GIVEN)}, got {grid!r}.")
    for name, values in grid.items():
        numbers = [v for v in values if not (name == "beta" and v is None)]
        if len(values) == 0 or not np.all(np.asarray(numbers, dtype=float) > 0):
            raise ValueError(f"grid[{name!r}] must hold positive numbers, got {values!r}.")


def candidates_of(criterion, fitted: FittedMap, rows: CalibrationRows, C, grid) -> Candidates:
    """The set of a criterion, or of a torch module that is a loss."""
    if isinstance(criterion, nn.Module):
        return SurrogateCandidates(of_module(criterion, rates_of(grid)), rows, C)
    return CRITERIA[criterion](fitted, rows, C, grid)
