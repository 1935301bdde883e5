"""Intervals where hardly any sample speaks: means near an end of their range, and good models.

A mean of terms in a known range [a, b] has the endpoint interval. For other metrics the samples
with a label other than the predicted one are counted. How frequent these may be bounds a factor r
on the odds of all classes but the predicted one, and r the metric: its value for raters with the
probabilities z(r). Letters: S_g sums of terms and W_g weights of unit g, a sample or a group.
"""

import warnings

import numpy as np
from scipy.optimize import brentq

from ..._rows import KnownProbabilities, Rows
from ..._utils.arrays import Floats, row_units
from ..._utils.simplex import EPS
from .._evaluate import Metric
from .raters import worth
from .statistic import MeanStatistic, Statistic

# samples that speak, below which the jackknife is not believed
FEW = 10
# of the range: one label of five does not make a sample speak
_APART = 0.22
_DRAWS = 4000
# units at either end of their order that are drawn one by one
_SINGLE = 500
_TOO_SMALL = "the standard error may be too small"
# of log r
_FARTHEST = 40.0


# the lower and the upper end, and whether they stand by themselves
ScarceEnds = tuple[float, float, bool]


def scarce_ends(
    statistic: Statistic, raters: bool, level: float, few: int = FEW
) -> ScarceEnds | None:
    """Ends where few samples speak, with a warning that counts them; None where many do.

    `raters` says whether raters are random, who make samples depend on each other.
    """
    metric = statistic.metric
    if metric is None or not isinstance(statistic.data, Rows):
        return None
    limits = metric.tags.limits
    if callable(limits):
        limits = limits(statistic.data)
    name = metric.name
    if limits is not None and isinstance(statistic, MeanStatistic):
        W, S = of_units(statistic.of_row, statistic.data)
        mean = S.sum() / W.sum()
        each = S / W
        a, b = limits
        apart = each - a if mean - a < b - mean else b - each
        several = (apart > _APART * (b - a)).sum() >= few
        if several or not is_near_end(mean, worth(W), limits, few):
            return None
        low, high = endpoints(S, W, limits, level)
        if np.ptp(each) <= 1e-12 * abs(each).max():
            _warn(f"All {len(W)} samples or groups have the same {name}: the standard error is 0.")
        elif raters:
            _warn(f"Few samples differ from the others in {name}: {_TOO_SMALL} for new raters.")
        return low, high, not raters
    return _shifted(metric, statistic.data, level, few)


def warn_if_few_differ(one: Statistic, other: Statistic) -> None:
    """Warn where two means differ in the terms of few samples."""
    if not isinstance(one, MeanStatistic) or not isinstance(other, MeanStatistic):
        return
    apart = np.ptp([one.of_row, other.of_row], axis=0).max(axis=0) > EPS
    if 0 < apart.sum() < FEW:
        _warn(f"{apart.sum()} of {len(apart)} samples differ in their terms: {_TOO_SMALL}.")


def endpoints(
    S: Floats, W: Floats, limits: tuple[float, float], level: float, n_draws: int = _DRAWS
) -> Floats:
    """α/2 and 1 − α/2 quantiles of ``(Σ_g D_g S_g + D_0 w̄ e) / (Σ_g D_g W_g + D_0 w̄)``, (2,).

    D are Exp(1), e = a for the lower end and b for the upper one (Gaffke 2005). The units in the
    middle of a large sample are drawn together.
    """
    G = len(W)
    order = np.argsort(S / W, kind="stable")
    ends = np.arange(min(G, _SINGLE)), np.arange(max(G - _SINGLE, 0), G)
    start = np.unique(np.concatenate([*ends, np.linspace(0, G - 1, _SINGLE).astype(int)]))
    m = np.diff(start, append=G)
    rng = np.random.default_rng(0)
    D = rng.standard_gamma(m, (n_draws, len(m)))
    N, M = (D @ (np.add.reduceat(v[order], start) / m) for v in (S, W))
    more = W.mean() * rng.standard_exponential(n_draws)
    tail = (1 - level) / 2
    drawn = ((N + more * end) / (M + more) for end in limits)
    return np.array([np.quantile(x, q) for x, q in zip(drawn, (tail, 1 - tail), strict=True)])


def of_units(terms: Floats, rows: Rows) -> Floats:
    """W_g and S_g, from weights and terms of samples, (2, n)."""
    unit = row_units(rows.groups, len(rows))
    return np.array([np.bincount(unit, of_row) for of_row in terms])


def is_near_end(mean: float, n: float, limits: tuple[float, float], few: int = FEW) -> bool:
    """Whether ``n·min(X̄ − a, b − X̄)/(b − a)`` is below `few`, n what the units are worth."""
    a, b = limits
    return bool(n * min(mean - a, b - mean) < few * (b - a))


def _shifted(metric: Metric, rows: Rows, level: float, few: int) -> ScarceEnds | None:
    """Ends from the samples with a label other than the predicted one, where these are few."""
    if metric.tags.of_labels or rows.labels.known:
        return None
    at = np.arange(len(rows)), rows.z.argmax(axis=1)
    other = 1 - rows.mu[at]
    c = int((other > 0).sum())
    if min(c, (other < 1).sum()) >= few:
        return None
    found = f"{c} of {len(rows)} samples have a label other than the predicted one: {_TOO_SMALL}"
    if metric.tags.takes_distribution:
        _warn(f"{found}.")
        return None
    _warn(f"{found}; the interval assumes one factor on the odds of these labels.")
    W, S = of_units(rows.weight * np.stack([np.ones(len(rows)), other]), rows)
    log_z = np.log(np.maximum(rows.z, EPS))

    def probabilities(log_r: float) -> Floats:
        p = np.exp(log_z + log_r - log_r * np.eye(rows.z.shape[1])[at[1]])
        return p / p.sum(axis=1, keepdims=True)

    def share_of(log_r: float) -> float:
        return float(np.average(1 - probabilities(log_r)[at], weights=rows.w))

    values = [_value(metric, rows, probabilities(0.0))]
    shifts = []
    for share in endpoints(S, W, (0.0, 1.0), level):
        reached = np.clip(share, share_of(-_FARTHEST), share_of(_FARTHEST))
        shifts.append(brentq(lambda x, q=reached: share_of(x) - q, -_FARTHEST, _FARTHEST))
        values.append(_value(metric, rows, probabilities(shifts[-1])))
    if shifts[0] > 0 or shifts[1] < 0:
        # the predicted probabilities themselves are not among those that may be
        values = values[1:]
    return min(values), max(values), False


def _value(metric: Metric, rows: Rows, p: Floats) -> float:
    """The metric of raters whose labels have the probabilities p."""
    labels = KnownProbabilities(p)
    labels.classes = rows.classes
    value = float(metric.value(Rows(labels, rows.prediction, rows.w, rows.groups)))
    # a calibrated prediction has a loss of 0, but for rounding
    return value if abs(value) > EPS else 0.0


def _warn(found: str) -> None:
    warnings.warn(found, UserWarning, stacklevel=5)
