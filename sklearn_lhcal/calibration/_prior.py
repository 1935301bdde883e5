"""What is known of a map before its calibration rows: a normal distribution of its parameters."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._ground.arrays import Floats
from ._rows import CalibrationRows

Array = Floats


@dataclass(frozen=True)
class Prior:
    """½ Σ_j (x_j − c_j)²/s_j² in nats of rows, for the parameters x of a map without its floor.

    Parameters
    ----------
    center : ndarray of shape (p,)
        c.
    spread : ndarray of shape (p,)
        s; infinite where nothing is known.
    """

    center: Array
    spread: Array

    @cached_property
    def precision(self) -> Array:
        """1/s²."""
        return self.spread**-2.0


def weak_prior(rows: CalibrationRows) -> Prior:
    """½ (log T)²: one row's worth that the classifier is right."""
    return Prior(np.zeros(1), np.ones(1))
