"""What a scaling map is fitted on, and what is said about these rows."""

import warnings
from dataclasses import replace

import numpy as np

from ..._ground.simplex import EPS, row_max
from .._rows import CalibrationRows
from .maps import FittedMap, transform

# Weights whose sum is below this share of the rows are hardly meant as numbers of rows.
_FRACTION = 0.1
# Rows at a time.
_BLOCK = 10_000


def as_read(rows: CalibrationRows, floor) -> CalibrationRows:
    """Rows as a map reads them: above a floor small probabilities need no clip, and get none."""
    if floor is None:
        return rows
    return rows.unclipped()


def seen(rows: CalibrationRows, floor) -> CalibrationRows:
    """Rows of positive weight, as a map with this floor reads them."""
    kept = rows.weight > 0
    rows = replace(as_read(rows, floor), X=None)
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
