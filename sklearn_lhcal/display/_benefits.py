"""Net benefit of models at thresholds, with intervals over rows, or over rows and raters."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._ground.facts import facts_of
from .._rows import Rows, random_raters
from ..distributions import PointMass
from ..metrics import confidence_interval, net_benefit, paired_difference
from ._bins import mean_interval


class Benefits:
    """What each row is worth to one who acts on a prediction."""

    def __init__(self, rows: Rows, class_index):
        self.rows = rows
        self.class_index = class_index

    def at(self, t: float) -> NDArray:
        """1{p_i ≥ t} [μ̂_i − (1 − μ̂_i) t/(1 − t)], shape (n,): their mean is NB(t)."""
        terms: Any = facts_of(net_benefit).terms
        benefit, w = terms(self.rows, threshold=t, class_index=self.class_index)
        return benefit / w

    def mean(self, thresholds) -> NDArray:
        """Net benefit at each threshold, (m,)."""
        w = self.rows.weight / self.rows.weight.sum()
        return np.array([w @ self.at(t) for t in thresholds])

    def curve(
        self,
        thresholds,
        *,
        confidence_level: float,
        raters: str | None,
        less: "Benefits | None" = None,
    ):
        """Net benefit at each threshold, less another's, and its intervals, (m,) and (m, 2)."""
        of_raters = random_raters(self.rows.labels, raters) is not None
        found = self._over_raters if of_raters else self._over_rows
        mean, interval = zip(*(found(t, less, confidence_level) for t in thresholds), strict=True)
        return np.array(mean), np.array(interval)

    def _over_rows(self, t: float, less: "Benefits | None", confidence_level: float):
        a = self.at(t)
        if less is not None:
            a = a - less.at(t)
        w = self.rows.weight / self.rows.weight.sum()
        return mean_interval(a, w, self.rows.groups, confidence_level)

    def _over_raters(self, t: float, less: "Benefits | None", confidence_level: float):
        rows = self.rows
        compared = () if less is None else (less.named,)
        interval_of: Any = confidence_interval if less is None else paired_difference
        found = interval_of(
            net_benefit,
            rows.labels,
            self.named,
            *compared,
            threshold=t,
            class_index=self.class_index,
            sample_weight=rows.w,
            groups=rows.groups,
            confidence_level=confidence_level,
            random_state=0,
        )
        return found.estimate, np.array([found.low, found.high])

    @property
    def named(self) -> PointMass:
        """The class probabilities, with the names of their classes."""
        return PointMass.of_checked(self.rows.z).with_classes(self.rows.classes)


def stacked(curves) -> list[NDArray]:
    """Means (n_models, m) and intervals (n_models, m, 2) of the curves of several models."""
    return [np.array(parts) for parts in zip(*curves, strict=True)]


def acting_on_all(rows: Rows) -> Rows:
    """The same rows with a prediction that reaches every threshold."""
    sure = PointMass.of_checked(np.ones_like(rows.z)).with_classes(rows.classes)
    return Rows(rows.labels, sure, rows.w, rows.groups)
