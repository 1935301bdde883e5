"""What scaling maps share: the problem that is solved, the prior, and what is kept."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Literal

import numpy as np

from .._ground.arrays import Floats
from .._ground.checks import check_not_negative
from ._affine import AffineMap
from ._base import _BaseCalibrator
from ._fitted_map import FittedMap, as_read, floor_shape, seen, warn
from ._likelihood import ScalingProblem
from ._prior import Prior
from ._rows import CalibrationRows
from ._shrinkage import STRENGTHS, fit_shrunk

FLOORS = ("uniform", "prior")


class Scaling(_BaseCalibrator):
    """What the families share; a subclass names its family, how it is fitted, and its floor."""

    # Only some maps have a floor, and a parameter of that name.
    floor: Literal["uniform", "prior"] | None = None
    shrinkage: float | None = None
    _remedy = 'floor="uniform"'

    @abstractmethod
    def _family(self, n_classes: int) -> AffineMap:
        """The family of maps for so many classes."""

    def _fit_x(self, family: AffineMap, rows: CalibrationRows, floor) -> Floats:
        """The parameters of the family; with a floor logit e is the last."""
        strengths: Sequence = STRENGTHS
        if self.shrinkage is not None:
            strengths = [_strength(self.shrinkage)]
        return fit_shrunk(family, rows, floor, self._solve_scaling, strengths)

    def _solve_scaling(self, problem: ScalingProblem):
        return self._solve(problem, problem.default_solver)

    def _check(self, one_model):
        if self.floor is not None and self.floor not in FLOORS:
            raise ValueError(f'floor must be None, "uniform" or "prior", got {self.floor!r}.')
        if self.shrinkage is not None:
            check_not_negative(shrinkage=self.shrinkage)

    def _fit_map(self, rows):
        rows = seen(rows, self.floor)
        fitted = self._fitted(rows)
        warn(rows, fitted, self._remedy)
        return {"_fitted_map": fitted, **fitted.attributes()}

    def _fitted(self, rows) -> FittedMap:
        """The map of least log loss on rows of positive weight."""
        family = self._family(rows.n_classes)
        floor = floor_shape(self.floor, rows)
        return FittedMap.of(family, self._fit_x(family, rows, floor), floor)

    def _map(self, rows):
        fitted = self._fitted_map
        return fitted.distribution(as_read(rows, fitted.floor))


def _strength(shrinkage: float) -> tuple[float, float]:
    """Standard deviations of scales and biases: a unit of a bias is a tenth as unlikely."""
    if shrinkage == 0:
        return np.inf, np.inf
    return shrinkage**-0.5, (shrinkage / 10) ** -0.5


class PublishedScaling(Scaling):
    """A family that may be fitted with the penalties of P1 in place of shrinkage."""

    off_diagonal_penalty: float | None = None

    def _penalties(self) -> tuple:
        return self.off_diagonal_penalty, self.bias_penalty

    def _check(self, one_model):
        super()._check(one_model)
        named = {
            "off_diagonal_penalty": self.off_diagonal_penalty,
            "bias_penalty": self.bias_penalty,
        }
        given = {name: value for name, value in named.items() if value is not None}
        check_not_negative(**given)
        if given and self.shrinkage is not None:
            raise ValueError(f"Give shrinkage or {' and '.join(given)}, not both.")

    def _fit_x(self, family, rows, floor):
        penalties = self._penalties()
        if penalties == (None, None):
            return super()._fit_x(family, rows, floor)
        off_diagonal, bias = (value or 0.0 for value in penalties)
        precision = rows.weight.sum() * family.published_precision(off_diagonal, bias)
        with np.errstate(divide="ignore"):
            prior = Prior(np.zeros(len(precision)), precision**-0.5)
        return self._solve_scaling(ScalingProblem(family, rows, prior, floor))
