"""What one more label gains where rows are chosen by a rule: expected, realised, and how surely."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._ground.checks import as_floats
from .._rows import Rows
from ..distributions import Distribution, second_opinion_value
from ._bins import student_interval
from ._referral_raters import realised_gain
from ._rows_without import RowsWithout, SharedNoise

_RULES: dict[str, Callable] = {
    "second_opinion_value": second_opinion_value,
    "entropy": Distribution.entropy,
    "disagreement": Distribution.disagreement,
}


class ReferralCurves(NamedTuple):
    """Gains at m fractions of rows referred.

    Attributes
    ----------
    fraction, expected_gain, realised_gain : ndarray of shape (m,)
    standard_error : ndarray of shape (m,)
        Of the realised gain.
    interval : ndarray of shape (m, 2)
        For the realised gain.
    """

    fraction: NDArray
    expected_gain: NDArray
    realised_gain: NDArray
    standard_error: NDArray
    interval: NDArray


def rule_in_words(rule) -> str:
    """What the legend says of a rule."""
    if isinstance(rule, str):
        return f"by {rule.replace('_', ' ')}"
    return "by given priorities"


def priorities(rule, distribution: Distribution) -> NDArray:
    """What decides who is referred first, shape (n,): the larger, the earlier."""
    if isinstance(rule, str):
        if rule not in _RULES:
            raise ValueError(
                f"rule must be one of {list(_RULES)} or an array of priorities, got {rule!r}."
            )
        return _RULES[rule](distribution)
    priority = as_floats(rule, "rule")
    if priority.shape != (len(distribution),):
        raise ValueError(
            f"rule must hold one priority per row, shape ({len(distribution)},), "
            f"got {priority.shape}."
        )
    if not np.isfinite(priority).all():
        raise ValueError("rule contains NaN or infinite priorities; give every row a finite one.")
    return priority


def gains(rows: Rows) -> tuple[NDArray, NDArray]:
    """What one more label of each row gains: expected, and by an unbiased estimate; both (n,)."""
    if not len(rows):
        raise ValueError(
            "No row of y with a positive weight has two raters or more, so the gain cannot be "
            "measured; see second_opinion_value for the expected one."
        )
    expected = second_opinion_value(rows.distribution)
    # zero, but for rounding
    if expected.max() < 1e-28:
        raise ValueError(
            "No label moves this prediction, which holds class probabilities without a "
            "distribution around them; pass that of AlphaCalibration, say, or of an ensemble."
        )
    return expected, realised_gain(rows.labels, rows.distribution)


def referral_curves(
    fraction,
    priority,
    expected,
    realised,
    w,
    groups: NDArray | None = None,
    without: RowsWithout | None = None,
    *,
    confidence_level: float,
    normalize: bool,
) -> ReferralCurves:
    """Both gains of rows referred in the order of their priority, with intervals.

    Rows are independent, or groups of them, except for their raters where there are gains without.
    """
    w = w / w.sum()
    v = w * expected
    g = w * realised
    explained = v * (g @ v) / (v @ v)
    noise = g - explained
    total = g.sum()
    unit = 1.0
    if normalize:
        if total <= 0:
            raise ValueError(
                f"Referring every row gains {total:.2g} here, of which there are no shares; use "
                "normalize=False, and calibrate the distribution, with AlphaCalibration say."
            )
        unit = total
        v = v / v.sum()
        g = g / total
    shared = None
    if without is not None:
        shared = SharedNoise(without, w, noise, explained, unit)
    noise = noise / unit
    referred = _referred(fraction, priority, w)
    points = [_point(a, v, g, noise, groups, normalize, shared) for a in referred]
    expected_gain, found, error, freedom = np.array(points).T
    interval = student_interval(found, error, freedom, confidence_level)
    return ReferralCurves(fraction, expected_gain, found, error, interval)


def _referred(fraction, priority, w):
    """The share a_i of each row, 0 to 1, shape (n,), that is referred at each fraction.

    Rows of one priority are referred alike.
    """
    _, group = np.unique(-priority, return_inverse=True)
    size = np.bincount(group, weights=w)
    before = np.cumsum(size) - size
    for f in fraction[:-1]:
        yield np.clip((f - before) / size, 0.0, 1.0)[group]
    yield np.ones(len(w))


def _point(
    a, v, g, noise, groups, normalize: bool, shared: SharedNoise | None
) -> tuple[float, float, float, float]:
    """Expected and realised gain, its standard error and degrees of freedom, a being referred."""
    expected = a @ v
    gain = a @ g
    if normalize:
        # a share is a ratio: delta method
        a = a - gain
    parts = a * noise
    if groups is not None:
        parts = np.bincount(groups, parts)
    squares = parts**2
    variance = squares.sum()
    if variance == 0:
        return expected, gain, 0.0, 1.0
    freedom = 2 / ((squares / variance) ** 2).sum()
    if shared is not None:
        variance, freedom, _ = shared.spread(variance, freedom, a)
    return expected, gain, np.sqrt(variance), freedom
