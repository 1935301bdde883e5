"""A fitted affine map with its floor; what it is fitted on, and what is said about these rows."""

import warnings
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_expit

from .._ground.arrays import Floats
from .._ground.simplex import EPS, log_softmax, row_max, softmax
from ..distributions import Distribution, PointMass
from ._affine import AffineMap, transform
from ._likelihood import without_x
from ._rows import CalibrationRows

# Weights whose sum is below this share of the rows are hardly meant as numbers of rows.
_FRACTION = 0.1
# Rows at a time.
_BLOCK = 10_000


class FittedMap(NamedTuple):
    """An affine map with its parameters.

    Parameters
    ----------
    family : AffineMap
    x : ndarray of shape (p,)
    floor : ndarray of shape (K,) or None
        π of z = (1−e) softmax(u') + e π.
    eta : float
        logit e.
    """

    family: AffineMap
    x: Floats
    floor: Floats | None = None
    eta: float = -np.inf

    @classmethod
    def of(cls, family: AffineMap, x: Floats, floor) -> "FittedMap":
        """Of the parameters that a search returns: the floor's is the last."""
        if floor is None:
            return cls(family, x)
        return cls(family, x[:-1], floor, float(x[-1]))

    def attributes(self) -> dict:
        """What users know the parameters by."""
        learnt = self.family.attributes(self.x)
        if self.floor is not None:
            learnt |= {"floor_": self.floor, "floor_weight_": float(expit(self.eta))}
        return learnt

    def distribution(self, rows: CalibrationRows) -> Distribution:
        """Class probabilities of points; an ensemble, of which the floor is one more member."""
        rows = self._with_floor(rows)
        v = transform(rows.log_proba, *self.family.affine(self.x))
        if self.floor is None:
            return rows.distribution(PointMass.keeping(softmax(rows.of_members(v))))
        log_pi = np.log(self.floor)
        if not rows.is_ensemble:
            rest = log_expit(-self.eta) + log_softmax(v)
            return PointMass.keeping(softmax(np.logaddexp(rest, log_expit(self.eta) + log_pi)))
        # Whatever the map makes of the last member, it says π.
        v[:, -1] = log_pi
        return rows.distribution(PointMass.keeping(softmax(rows.of_members(v))))

    def _with_floor(self, rows: CalibrationRows) -> CalibrationRows:
        """One more member of weight e, where there are members and a floor."""
        if self.floor is None or not rows.is_ensemble:
            return rows
        n = len(rows)
        last = np.broadcast_to(np.log(self.floor), (n, 1, len(self.floor)))
        weights = [rows.log_weights + log_expit(-self.eta), np.full((n, 1), log_expit(self.eta))]
        return replace(
            rows,
            log_proba=np.concatenate([rows.log_proba, last], axis=1),
            log_weights=np.concatenate(weights, axis=1),
        )


def as_read(rows: CalibrationRows, floor) -> CalibrationRows:
    """Rows as a map reads them: above a floor small probabilities need no clip, and get none."""
    if floor is None:
        return rows
    return rows.unclipped()


def seen(rows: CalibrationRows, floor) -> CalibrationRows:
    """Rows of positive weight, as a map with this floor reads them."""
    kept = rows.weight > 0
    rows = without_x(as_read(rows, floor))
    return rows if kept.all() else rows.take(kept)


def floor_shape(floor, rows: CalibrationRows):
    """π: uniform, or shares of the classes with one row more, spread over all."""
    if floor is None:
        return None
    K = rows.n_classes
    if floor == "uniform":
        return np.full(K, 1 / K)
    share = rows.weight @ rows.frequencies
    return (share + 1 / K) / (share.sum() + 1)


def warn(rows: CalibrationRows, fitted: FittedMap, remedy: str) -> None:
    """Warn of calibration rows that make a map useless: small weights, zeros, separation."""
    _warn_of_weights(rows)
    if fitted.floor is None:
        _warn_of_zeros(rows, remedy)
        _warn_of_separation(rows, fitted)


def _warn_of_weights(rows: CalibrationRows) -> None:
    n = len(rows)
    total = rows.weight.sum()
    if total < _FRACTION * n:
        warnings.warn(
            f"The weights of {n} calibration rows sum to {total:.3g}. Weights count rows, so the "
            "map is fitted as if there were so few; divide the weights by their mean.",
            stacklevel=6,
        )


def _warn_of_zeros(rows: CalibrationRows, remedy: str) -> None:
    if rows.proba is None or rows.proba.min(initial=1.0) >= EPS:
        return
    refuted = (rows.proba < EPS) & (rows.counts > 0)
    n_refuted = int(refuted.any(axis=1).sum())
    if n_refuted:
        warnings.warn(
            f"{n_refuted} of {len(rows)} calibration rows have labels to which the classifier "
            f"gives no probability (below {EPS:g}, where it is clipped), so the loss depends on "
            f"the clip. The remedy is {remedy}.",
            stacklevel=6,
        )


def _warn_of_separation(rows: CalibrationRows, fitted: FittedMap) -> None:
    if rows.is_ensemble or rows.n_classes == 1:
        return
    W, b = fitted.family.affine(fitted.x)
    any_below = False
    # one label below the map's best class will do: mostly the first block has it
    for start in range(0, len(rows), _BLOCK):
        v = transform(rows.log_proba[start : start + _BLOCK], W, b)
        below = v < row_max(v)[:, None]
        if (below & (rows.counts[start : start + _BLOCK] > 0)).any():
            return
        any_below |= bool(below.any())
    if any_below:
        warnings.warn(
            "The calibration labels are separable: each is the class that the map finds most "
            "probable. Only the prior keeps the map from being certain; calibrate on more rows.",
            stacklevel=6,
        )
