"""What one more label gains, and by the labels of fewer raters."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._ground.facts import facts_of
from .._rows import Rows
from ..distributions import Distribution, PointMass
from ..label_histogram._labels import Labels
from ..metrics import posterior_epistemic_loss
from ._rows_without import RowsWithout, rows_without


def realised_gain(labels: Labels, distribution: Distribution) -> NDArray:
    """The unbiased estimate of what one more label of each row gains, (n,)."""
    # without weights, terms are the losses themselves; a label does not move a point mass
    losses: Any = facts_of(posterior_epistemic_loss).terms
    now, _ = losses(Rows(labels, PointMass.of_checked(distribution.mean())))
    after, _ = losses(Rows(labels, distribution))
    return now - after


def gains_without(rows: Rows, raters: str | None) -> RowsWithout | None:
    """Gains of rows with two raters or more, without raters; None where these are fixed."""

    def gain(left: NDArray, at: NDArray) -> NDArray:
        if not len(at):
            return np.empty(0)
        return realised_gain(Labels(left), rows.distribution[at])

    return rows_without(rows, raters, 2, gain)
