"""Intervals where hardly any sample speaks: means near an end of their range, and good models.

A mean of terms in a known range [a, b] has the endpoint interval. For other metrics the samples
with a label other than the predicted one are counted. How frequent these may be bounds a factor r
on the odds of all classes but the predicted one, and r the metric: its value for raters with the
probabilities z(r). Letters: S_g sums of terms and W_g weights of unit g, a sample or a group.

Differences and curves are means of terms X_i that are alike for most samples. How far others may
lie is seen from X_ik, the term of sample i if all its raters say k.
"""

from collections.abc import Callable
from math import isqrt

import numpy as np
from scipy import sparse
from scipy.optimize import brentq

from ..._rows import KnownProbabilities, Labels, Rows, names_of
from ..._utils.arrays import in_blocks, row_units
from ..._utils.checks import warn
from ..._utils.simplex import EPS
from ..._utils.tags import OfSums
from ..._utils.types import Floats, Indices
from .._evaluate import Metric
from .replicates import MeanStatistic, Statistic
from .two_way import FIXED_RATERS, worth

# samples that speak, below which the jackknife is not believed
FEW = 10
# the same of units whose terms are apart from the others
FEW_TERMS = 20
# of the range: one label of five does not make a sample speak
_APART = 0.22
_DRAWS = 4000
# units at either end of their order that are drawn one by one
_SINGLE = 500
_TOO_SMALL = "the standard error may be too small"
_FOR_NEW = f"{_TOO_SMALL} for new raters; {FIXED_RATERS}"
# of how far a term may lie from the median: one label of five does
_DIFFERS = 0.1
# evaluated of samples, times their classes
_TERMS = 2 * 10**6
# samples whose labels are replayed, times pairs of classes
_REPLAYED = 2000
# sums of a coefficient
_MOST_SUMS = 10_000
# of log r
_FARTHEST = 40.0
_UNKNOWN = np.full(2, np.nan)


# the lower and the upper end, and whether they stand in place of Student's
ScarceEnds = tuple[float, float, bool]


def scarce_ends(
    statistic: Statistic, raters: bool, level: float, few: int = FEW
) -> ScarceEnds | None:
    """Ends over samples where few differ from the others, with a warning that counts them.

    None where many do. `raters` says whether raters are random, who make samples depend on each
    other.
    """
    metric = statistic.metric
    rows = statistic.data
    if metric is None or not isinstance(rows, Rows):
        return None
    limits = limits_of(metric, rows)
    if isinstance(metric.tags, OfSums):
        ends = ends_of_sums(metric, rows, level)
    elif not isinstance(statistic, MeanStatistic):
        return _shifted(metric, rows, level, few)
    elif limits is not None:
        ends = _between(statistic, metric, limits, raters, level, few)
    else:
        values = values_of(statistic)
        if metric.tags.elsewhere is not None:
            values = metric.tags.elsewhere(rows, **metric.options)
        else:
            shifted = _shifted(metric, rows, level, few)
            if shifted is not None or metric.tags.bounds is None:
                return shifted
        possible = possible_terms(values, rows, statistic.least_raters)
        ends = ends_of_few(statistic.of_row, *possible, rows, level)
    return None if np.isnan(ends).any() else (*ends, True)


def _between(
    mean: MeanStatistic, metric: Metric, limits: tuple, raters: bool, level: float, few: int
) -> Floats:
    """Ends of a mean of terms in a known range, where it is near an end."""
    W, S = of_units(mean.of_row, mean.data)
    X = S.sum() / W.sum()
    each = S / W
    a, b = limits
    apart = each - a if X - a < b - X else b - each
    several = (apart > _APART * (b - a)).sum() >= few
    if several or not is_near_end(X, worth(W), limits, few):
        return _UNKNOWN
    name = metric.name
    if np.ptp(each) <= 1e-12 * abs(each).max():
        warn(f"All {len(W)} samples or groups have the same {name}: the standard error is 0.")
    elif raters:
        warn(f"Few samples differ from the others in {name}: {_FOR_NEW}")
    return endpoints(S, W, limits, level)


def limits_of(metric, rows: Rows) -> tuple[float, float] | None:
    """Between which the terms of a mean lie, where that is known beforehand."""
    limits = metric.tags.limits
    return limits(rows) if callable(limits) else limits


def difference_ends(
    one: Statistic, other: Statistic, raters: bool, level: float
) -> ScarceEnds | None:
    """The same of the difference of two means, where few samples differ in their terms."""
    if not isinstance(one, MeanStatistic) or not isinstance(other, MeanStatistic):
        return None
    if one.metric is not None and one.metric.tags.of_labels:
        return None
    # grades that one judge alone gives
    if not np.array_equal(names_of(one.labels), names_of(other.labels)):
        return None
    (first, p), (second, q) = (possible_terms(values_of(x), x.data) for x in (one, other))
    apart = first - second
    # decisions may be alike where predictions are not
    hard = np.isin(p, (0, 1)).all() or (one.metric is not None and one.metric.tags.of_decisions)
    differ = one is not other and (hard or not np.array_equal(p, q))
    if differ and np.ptp(apart) <= EPS:
        # alike here, whatever raters say; elsewhere one may have any of its terms
        reach = max(first.max(), second.max()) - min(first.min(), second.min())
        apart[0], apart[1:] = -reach, reach
    W, S = one.of_row
    how = np.array([W, S - other.of_row[1]]), apart, p + q, one.data, level
    ends = ends_of_few(*how)
    if np.isnan(ends).any():
        return None
    if raters and not np.isnan(ends_of_few(*how, FEW)).any():
        name = "their terms" if one.metric is None else one.metric.name
        warn(f"Few samples differ in {name}: {_FOR_NEW}")
    return *ends, True


def values_of(mean: MeanStatistic) -> Callable:
    """The values of samples, which their terms are without weights."""

    def values(rows: Rows, at: Indices) -> Floats:
        numerator, denominator = mean.terms(rows, at)
        return numerator / denominator

    return values


@np.errstate(all="ignore")
def possible_terms(values: Callable, rows: Rows, least_raters: int = 1) -> tuple[Floats, Floats]:
    """X_ik of terms ``values(rows, at)``, (K, n, ...), and p_ik, how likely k is, up to a factor.

    Where `least_raters` is above 1, as many say k but the last, who says l: then both are of pairs
    k, l, K² of them. Of many samples some, sure and unsure.
    """
    n, K = len(rows), rows.labels.shape[1]
    first = last = np.arange(K)
    most = _TERMS
    if least_raters > 1:
        # of very many classes some, from the most frequent to rare ones
        step = 1 + isqrt(K**3 // _TERMS)
        some = np.argsort(rows.z.mean(axis=0), kind="stable")[::-step]
        first, last = (some[of].ravel() for of in np.indices((len(some),) * 2))
        most = _REPLAYED
    # whatever the order of the samples
    surer = np.argsort((rows.z**2).sum(axis=1), kind="stable")
    at = np.sort(surer[:: 1 + n * K * K // most])
    # pairs of raters at least, as some metrics ask for
    said = np.eye(K, dtype=np.int64)
    said = (max(least_raters, 2) - 1) * said[first] + said[last]
    each = np.repeat(at, len(said))
    part = rows.take(each)
    labels = Labels(np.tile(said, (len(at), 1)), rows.classes, graded=rows.labels.graded)
    X = values(Rows(labels, part.prediction, part.w, part.groups), each)
    X = X.reshape(len(at), len(said), *X.shape[1:]).swapaxes(0, 1)
    # where the prediction is a table of costs, expensive classes count more
    p = np.abs(rows.z[at])
    return X, p[:, first] * p[:, last] if least_raters > 1 else p


def ends_of_few(
    of_row: Floats, possible: Floats, p: Floats, rows: Rows, level: float, few: float = FEW_TERMS
) -> Floats:
    """The endpoint interval of a mean of terms that few units have other than the median.

    `of_row` (2, n) are weights and weighted terms; `possible` and p are those of `possible_terms`.
    NaN where `few` units are apart or more, or half of them from FEW on, or FEW_TERMS, or none may
    be.
    """
    W, S = of_units(of_row, rows)
    each = S / W
    middle = np.median(each)
    up = _reach(possible - middle, p)
    down = _reach(middle - possible, p)
    reach = max(up, down)
    if reach <= EPS:
        return _UNKNOWN
    apart = np.abs(each - middle) / reach
    few = min(few, np.clip(len(W) / 2, FEW, FEW_TERMS))
    if (apart > _DIFFERS).sum() >= few or worth(W) * np.average(apart, weights=W) >= few:
        return _UNKNOWN
    return endpoints(S, W, (middle - down, middle + up), level)


def _reach(x: Floats, p: Floats) -> float:
    """``Σ p x²/Σ p x`` of all x > 0, (K, n): how far terms lie that are on this side."""
    x = np.where(np.isfinite(x), np.maximum(x, 0), 0).T
    if (p * x).sum() <= EPS:
        p = np.ones_like(p)
    return float((p * x**2).sum() / max((p * x).sum(), EPS))


def endpoints(
    S: Floats, W: Floats, limits: tuple[float, float], level: float, n_draws: int = _DRAWS
) -> Floats:
    """α/2 and 1 − α/2 quantiles of ``(Σ_g D_g S_g + D_0 w̄ e) / (Σ_g D_g W_g + D_0 w̄)``, (2,).

    D are Exp(1), e = a for the lower end and b for the upper one (Gaffke 2005). The units in the
    middle of a large sample are drawn together.
    """
    order, start, m = _alike(np.stack([S / W, W]))
    rng = np.random.default_rng(0)
    D = rng.standard_gamma(m, (n_draws, len(m)))
    N, M = (D @ (np.add.reduceat(v[order], start) / m) for v in (S, W))
    more = W.mean() * rng.standard_exponential(n_draws)
    tail = (1 - level) / 2
    low, high = ((N + more * end) / (M + more) for end in limits)
    return np.array([np.quantile(low, tail), np.quantile(high, 1 - tail)])


def _alike(keys: Floats) -> tuple[Indices, Indices, Indices]:
    """Units in the order of two keys (2, G); where those that are drawn together start; and m.

    These are equal in both, but for rounding, or in the middle of many.
    """
    keys = np.round(keys / np.maximum(np.abs(keys).max(axis=1, keepdims=True), EPS), 12)
    order = np.lexsort(keys[::-1])
    start = np.flatnonzero(np.append(True, (np.diff(keys[:, order]) != 0).any(axis=0)))
    at = np.arange(len(start))
    ends = np.minimum(at, at[::-1]) < _SINGLE
    start = start[ends | (at % (1 + len(at) // _SINGLE) == 0)]
    return order, start, np.diff(start, append=len(order))


def ends_of_sums(metric: Metric, rows: Rows, level: float) -> Floats:
    """``min_e`` of α/2 and ``max_e`` of 1 − α/2 quantiles of ``f(Σ_g D_g A_g + D_0 e)``, (2,).

    A_g are sums of the terms of units, D are Exp(1). A unit e that may be has labels that all
    agree, or of which one or half say another class. NaN where no sample has two labels, or sums
    are too many.
    """
    tags, options, own = metric.tags, metric.options, rows.labels.own
    several = np.flatnonzero(rows.n > 1)
    A = sparse.csr_array(tags.terms(rows, **options))
    if not len(several) or own.sum() < 2 or A.shape[1] > _MOST_SUMS:
        return _UNKNOWN
    unit = row_units(rows.groups, len(rows))
    A = sparse.csr_array((np.ones(len(rows)), (unit, np.arange(len(rows))))) @ A
    total = A.sum(axis=0)
    w = rows.weight[several].sum() / len(np.unique(unit[several]))
    # of known probabilities infinitely many
    n = min(np.rint(rows.n[several].mean()), 2**20)

    # 0/0: all agree
    def f(sums: Floats) -> Floats:
        return np.nan_to_num(tags.of_sums(sums, rows.labels, **options), nan=1.0)

    def possible(mu: Floats) -> Floats:
        return w * sparse.csr_array(tags.of_unit(mu, n, rows, **options)).toarray()

    # of more than ten classes those that change most
    pure = np.eye(len(own))[own]
    at = np.argsort(f(total + possible(pure)), kind="stable")
    pure = pure[np.unique(np.concatenate([at[:5], at[-5:]]))]
    mixed = [pure + m / n * (one - pure) for m in (1, n // 2) for one in pure]
    units = possible(np.unique(np.concatenate(mixed), axis=0))
    middle = A.shape[0] * units.mean(axis=0)

    # by what they change, here and where classes are mixed: whatever the order of the classes
    def changed(block: slice) -> Floats:
        sums = total + A[block].toarray()
        return np.stack([f(sums), f(sums + middle)], axis=1)

    order, _, m = _alike(in_blocks(changed, *A.shape).T)
    together = sparse.csr_array((np.repeat(1 / m, m), (np.repeat(np.arange(len(m)), m), order)))
    rng = np.random.default_rng(0)
    B = int(np.clip(50 / (1 - level), 1000, 20_000))
    sums = rng.standard_gamma(m, (B, len(m))) @ (together @ A).toarray()
    more = rng.standard_exponential((B, 1))
    tail = (1 - level) / 2
    drawn = [np.quantile(f(sums + more * unit), (tail, 1 - tail)) for unit in units]
    return np.array([np.min(drawn, axis=0)[0], np.max(drawn, axis=0)[1]])


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
    differ = f"{c} of {len(rows)} samples have a label other than the predicted one"
    if metric.tags.takes_distribution:
        warn(f"{differ}: {_TOO_SMALL}.")
        return None
    warn(f"{differ}: {_TOO_SMALL}; the interval assumes one factor on the odds of these labels.")
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
