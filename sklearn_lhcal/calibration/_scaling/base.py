"""What scalings share: mixing, warnings of calibration samples, shrinkage."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from .._base import _BaseCalibrator
from .._rows import CalibrationRows
from .fit import (
    as_read,
    fit_penalised,
    fit_shrunk,
    fit_temperature,
    mixing_probabilities,
    resolved_mixing,
    rows_for_fit,
    warn,
)
from .maps import (
    BiasCorrectedMap,
    Family,
    FittedMap,
    MatrixMap,
    TemperatureMap,
    VectorMap,
)
from .stack import Member, StackedMap

# what is mixed in
Mixing = Literal["auto", "uniform", "prior"] | None


@dataclass(eq=False, repr=False, kw_only=True)
class Scaling(_BaseCalibrator):
    """Mixing, warnings of calibration samples, predictions; a subclass fills `_fitted`."""

    mixing: Mixing = "auto"
    # What to do about zeros, and about a search that did not end.
    _remedies = 'mixing="uniform"', "calibrate on more samples"

    def _fitted(self, rows: CalibrationRows, mixing: str | None) -> Member | StackedMap:
        """What is fitted on samples of positive weight, with this mixing."""
        raise NotImplementedError

    def _fit_map(self, rows):
        mixing = resolved_mixing(self.mixing, rows)
        rows = rows_for_fit(rows, mixing)
        fitted = self._fitted(rows, mixing)
        warn(rows, fitted.maps, *self._remedies)
        return {"_fitted_map": fitted, **fitted.attributes()}

    def _map(self, rows):
        return rows.moved(self._log_z(rows))

    def _log_z(self, rows):
        return self._fitted_map.log_z(as_read(rows, self._fitted_map.pi).log_proba)


@dataclass(eq=False, repr=False, kw_only=True)
class ShrunkScaling(Scaling):
    """One family of transforms, shrunk to the temperature."""

    shrinkage: float | None = None
    _family: ClassVar[type[Family]]
    _remedies = 'mixing="uniform"', "raise shrinkage, or calibrate on more samples"

    def _fitted(self, rows, mixing):
        pi = mixing_probabilities(mixing, rows)
        _, alone = self._families()
        return self._fitted_from(fit_temperature(rows, pi, alone), rows)

    def _families(self) -> tuple[type[Family], type[Family]]:
        """The family, and that without what is shrunk."""
        return self._family, TemperatureMap

    def _fitted_from(self, below: FittedMap, rows: CalibrationRows) -> FittedMap:
        strengths = None if self.shrinkage is None else [_strength(self.shrinkage)]
        family, _ = self._families()
        return fit_shrunk(family(rows.n_classes), rows, below, strengths)


def _strength(shrinkage: float) -> tuple[float, float]:
    """Standard deviations of scales and biases: a unit of a bias is a tenth as unlikely."""
    sd = shrinkage**-0.5 if shrinkage else np.inf
    return sd, sd * 10**0.5


@dataclass(eq=False, repr=False, kw_only=True)
class PublishedScaling(ShrunkScaling):
    """A family that may be fitted with the penalties of P1 in place of shrinkage."""

    bias_penalty: float | None = None
    _family: ClassVar[type[VectorMap | MatrixMap]]
    _remedies = 'mixing="uniform"', "raise shrinkage or the penalty, or calibrate on more samples"

    def _check(self, one_model):
        super()._check(one_model)
        given = self._penalties()
        if given and self.shrinkage is not None:
            raise ValueError(f"Give shrinkage or {' and '.join(given)}, not both.")

    def _penalties(self) -> dict:
        """Those that are given."""
        names = "off_diagonal_penalty", "bias_penalty"
        found = {name: getattr(self, name, None) for name in names}
        return {name: value for name, value in found.items() if value is not None}

    def _fitted_from(self, temperature, rows):
        penalties = self._penalties()
        if not penalties:
            below = temperature
            if self.shrinkage is None:
                below = fit_shrunk(BiasCorrectedMap(rows.n_classes), rows, temperature)
            return super()._fitted_from(below, rows)
        family = self._family(rows.n_classes)
        precision = family.published_precision(**penalties)
        return fit_penalised(family, rows, temperature, rows.weight.sum() * precision)
