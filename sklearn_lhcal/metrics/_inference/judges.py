"""Two judges of the same samples: who is better, and whether they err together.

Letters: Q class probabilities of people, x what a judge says, as points where classes have a
distance; μ̂ class frequencies of n labels of a sample.
"""

from collections.abc import Callable

import numpy as np

from ..._rows import Rows
from ..._utils.arrays import Floats, Indices
from ..._utils.distances import placed
from ..._utils.results import ConfidenceInterval
from ..._utils.simplex import row_sum
from .intervals import interval_between, interval_from, with_ends
from .raters import Design, Replicates, spread_of
from .statistic import MeanStatistic


def difference_of(
    terms: Callable, one: Rows, other: Rows, design: Design, confidence_level: float
) -> ConfidenceInterval:
    """The interval of the difference of a mean between two judges' samples."""
    first, second = (
        MeanStatistic(lambda rows, _: terms(rows), judge, least_raters=2) for judge in (one, other)
    )
    return interval_between(first, second, design, confidence_level)


def correlation_of(
    B: Floats | None, one: Rows, other: Rows, design: Design, confidence_level: float
) -> ConfidenceInterval:
    """The interval of ``E⟨x − Q, x′ − Q⟩ / √(E‖x − Q‖² E‖x′ − Q‖²)``, of two judges' samples."""

    def terms(rows: Rows, at: Indices):
        # of ⟨x − μ̂, x′ − μ̂⟩ the variance of μ̂ is taken off, Eq. (9) of P1
        mu, s, x = placed(rows.mu, one.z[at], B)
        _, _, other_x = placed(rows.mu, other.z[at], B)
        own = row_sum(s) / (rows.n - 1)
        pairs = (x, other_x), (x, x), (other_x, other_x)
        products = [row_sum((a - mu) * (b - mu)) - own for a, b in pairs]
        return rows.weight[:, None] * np.stack(products, axis=1), rows.weight

    found = MeanStatistic(terms, one, least_raters=2).replicates(design)
    found = Replicates._make(None if C is None else _correlation(C) for C in found)
    spread = spread_of(found, design, second_order=True)
    interval = interval_from(found.estimate, spread, confidence_level, False, design.panel)
    return with_ends(interval, *np.clip([interval.low, interval.high], -1, 1).tolist())


def _correlation(C: Floats) -> Floats:
    """Of a covariance and two variances, in the last axis; NaN where one is not above 0."""
    scale = np.where((C[..., 1:] > 0).all(axis=-1), C[..., 1] * C[..., 2], np.nan)
    return C[..., 0] / np.sqrt(scale)
