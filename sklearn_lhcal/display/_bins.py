"""What a reliability diagram shows of each bin: mean prediction, observed rate and its interval."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from .._ground.arrays import row_blocks, row_units
from .._ground.bins import Bins
from .._ground.checks import check_fraction
from .._ground.two_way import squares

# (weights, centre, index, B) -> what raters share of the sums of squares of residuals, of weights,
# and of the weights of single ratings
Shared = Callable[[NDArray, NDArray, NDArray, int], tuple[NDArray, NDArray, NDArray]]


class ReliabilityBins(NamedTuple):
    """B bins; means and intervals are NaN in empty ones.

    Attributes
    ----------
    mean_predicted, mean_observed : ndarray of shape (B,)
    interval : ndarray of shape (B, 2)
        NaN where a bin holds fewer than two rows.
    bin_counts : ndarray of shape (B,)
        Number of values in the bin.
    edges : ndarray of shape (B + 1,)
    """

    mean_predicted: NDArray
    mean_observed: NDArray
    interval: NDArray
    bin_counts: NDArray
    edges: NDArray


def reliability_bins(
    z,
    rate,
    w,
    *,
    n_bins,
    strategy: str,
    confidence_level: float,
    groups: NDArray | None = None,
    shared: Shared | None = None,
) -> ReliabilityBins:
    """Bin predictions z with observed rates, both of shape (n, m); weights (n,) or None.

    The m values of a row share one set of bins and may depend on each other. Rows, or groups of
    them, are independent except for their raters: ``shared(p, centre, index, B)`` is what raters
    add to the sums of squares.
    """
    check_fraction(confidence_level=confidence_level)
    bins = Bins(z.reshape(-1, 1), n_bins, strategy)
    B = bins.n_bins
    index = bins.index(z.reshape(-1, 1)).reshape(z.shape)

    def total(values):
        return np.bincount(index.ravel(), weights=values.ravel(), minlength=B)

    counts = np.bincount(index.ravel(), minlength=B)
    w = _comparable(np.broadcast_to(1.0 if w is None else w[:, None], z.shape), index, B)
    filled = np.where(counts > 0, 1.0, np.nan)
    W = filled * total(w)
    # quotients of like sums: a mean of ones is 1 to the last bit
    mean_z = total(w * z) / W
    mean_rate = total(w * rate) / W
    p = w / W[index]
    centre = z + (mean_rate - mean_z)[index]
    spread = _unit_squares(index, p * (rate - centre), B, groups)
    h = _unit_squares(index, p, B, groups)
    units = h.copy()
    if shared is not None:
        more, more_h, more_units = shared(p, centre, index, B)
        # raters who agree more than by chance explain nothing
        spread += np.maximum(more, 0.0)
        h += more_h
        units += more_units
    h = filled * h
    h_values = filled * total(p * p)
    interval = _interval(mean_rate, spread, h, units, h_values, confidence_level)
    return ReliabilityBins(mean_z, mean_rate, interval, counts, bins.edges[0])


def _comparable(w: NDArray, index: NDArray, B: int) -> NDArray:
    """Weights whose largest is 1 in each bin, however large or small they are."""
    largest = np.zeros(B)
    np.maximum.at(largest, index, w)
    return w / largest[index]


def _unit_squares(index: NDArray, values: NDArray, B: int, groups: NDArray | None) -> NDArray:
    """Σ_g (Σ_j v_gj)² over the values j of row or group g in each bin, (B,)."""
    if groups is None:
        return _row_sums_of_squares(index, values, B)
    unit = np.broadcast_to(groups[:, None], index.shape)
    return squares(values.ravel(), unit.ravel(), index.ravel(), B)


def _row_sums_of_squares(index: NDArray, values: NDArray, B: int) -> NDArray:
    """Σ_i (Σ_j v_ij)² over the values j of row i in each bin, (B,)."""
    total = np.zeros(B)
    for block in row_blocks(len(index), max(B, index.shape[1])):
        m = len(index[block])
        # one cell for each row and bin
        cell = index[block] + B * np.arange(m)[:, None]
        sums = np.bincount(cell.ravel(), weights=values[block].ravel(), minlength=m * B)
        total += (sums.reshape(m, B) ** 2).sum(axis=0)
    return total


def _interval(rate, spread, h, units, h_values, confidence_level: float) -> NDArray:
    """Wilson's score interval for each bin's rate c̄, (B, 2), at an effective number of labels.

    V is the variance of the mean residual, with rows as units; D = c̄(1−c̄)/h_values would be the
    binomial variance of the total, were every value one independent label. The design effect of a
    bin is f = (V/h_values²) / D. A bin with few events estimates it badly. One unit is therefore
    added to numerator and denominator at the design effect f0 of the diagram, and to f0 itself at
    1. So a bin without any variance gets an interval too. Student's quantile has the (effective)
    rows less one as degrees of freedom, and more in proportion to the unit borrowed. h and h_values
    are Σp² over the weights p of the rows and of the values. Where raters are random, spread/(1−h)
    is the variance Q/(1−D) over rows and raters, and 1/units, D of single ratings, is how many
    units there are.
    """
    several = np.less(h, 1 - 1e-12, where=~np.isnan(h), out=np.zeros(len(h), dtype=bool))
    c = np.clip(rate[several], 0, 1)
    h_values = h_values[several]
    h = h[several]
    variance = spread[several] / (1 - h) / h_values**2
    D = c * (1 - c) / h_values
    f0 = (variance.sum() + 1) / (D.sum() + 1)
    f = (variance + f0) / (D + 1)
    freedom = (1 / units[several] - 1) * (1 + 1 / np.maximum(D, 1e-9))
    t = stdtrit(freedom, (1 + confidence_level) / 2)
    # t²/N, N = 1/(h_values·f) labels
    q2 = t**2 * h_values * f
    centre = (c + q2 / 2) / (1 + q2)
    half = np.sqrt(q2 * (c * (1 - c) + q2 / 4)) / (1 + q2)
    interval = np.full((len(rate), 2), np.nan)
    interval[several, 0] = np.clip(centre - half, 0, c)
    interval[several, 1] = np.clip(centre + half, c, 1)
    return interval


def student_interval(mean, error, freedom, confidence_level: float) -> NDArray:
    """Student's interval of each mean, (n, 2), from standard errors and degrees of freedom."""
    reach = stdtrit(freedom, (1 + confidence_level) / 2) * error
    return np.column_stack([mean - reach, mean + reach])


def mean_interval(values, w, groups, confidence_level: float) -> tuple[float, NDArray]:
    """Mean of n values with weights of sum 1, and Student's interval, (2,); groups are the units.

    With equal weights and each row a group of its own the standard error is sd/√n.
    """
    mean, variance, df = mean_spread(values, w, groups)
    return mean, student_interval(np.array([mean]), np.sqrt(variance), df, confidence_level)[0]


def mean_spread(values, w, groups) -> tuple[float, float, float]:
    """Mean of n values with weights of sum 1, its variance and degrees of freedom."""
    mean = w @ values
    sums = np.bincount(row_units(groups, len(values)), weights=w * (values - mean))
    G = len(sums)
    if G < 2:
        raise ValueError("An interval needs two rows or groups at least.")
    return mean, float(G / (G - 1) * (sums @ sums)), G - 1.0
