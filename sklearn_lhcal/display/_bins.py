"""What a reliability diagram shows of each bin: mean prediction, observed rate and its interval."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from .._ground.bins import BLOCK, Bins
from .._ground.checks import check_fraction


class ReliabilityBins(NamedTuple):
    """B bins; NaN in empty ones."""

    mean_predicted: NDArray[np.float64]  # (B,)
    mean_observed: NDArray[np.float64]  # (B,)
    interval: NDArray[np.float64]  # (B, 2), NaN where a bin holds fewer than two rows
    bin_counts: NDArray[np.int64]  # (B,), values in the bin
    edges: NDArray[np.float64]  # (B+1,)


def reliability_bins(
    z, rate, w, *, n_bins, strategy: str, confidence_level: float
) -> ReliabilityBins:
    """Bin predictions z with observed rates, both of shape (n, m); weights (n,) or None.

    The m values of a row share one set of bins and may depend on each other; rows are independent.
    """
    check_fraction(confidence_level=confidence_level)
    bins = Bins(z.reshape(-1, 1), n_bins, strategy)
    B = bins.n_bins
    index = bins.index(z.reshape(-1, 1)).reshape(z.shape)
    w = np.broadcast_to(1.0 if w is None else w[:, None], z.shape)

    def total(values):
        return np.bincount(index.ravel(), weights=values.ravel(), minlength=B)

    counts = np.bincount(index.ravel(), minlength=B)
    W = np.where(counts > 0, total(w), np.nan)
    mean_z = total(w * z) / W
    mean_rate = total(w * rate) / W
    residual = w * (rate - z - (mean_rate - mean_z)[index])
    spread, h = _row_sums_of_squares(index, residual, w, B) / W**2
    interval = _interval(mean_rate, spread, h, total(w * w) / W**2, confidence_level)
    return ReliabilityBins(mean_z, mean_rate, interval, counts, bins.edges[0])


def _row_sums_of_squares(
    index: NDArray, residual: NDArray, w: NDArray, B: int
) -> NDArray[np.float64]:
    """Σ_i (Σ_j r_ij)² and Σ_i (Σ_j w_ij)² over the values j of row i in each bin, (2, B)."""
    squares = np.zeros((2, B))
    for start in range(0, len(index), BLOCK):
        b = slice(start, start + BLOCK)
        m = len(index[b])
        cell = (index[b] + B * np.arange(m)[:, None]).ravel()
        for total, values in zip(squares, (residual[b], w[b]), strict=True):
            sums = np.bincount(cell, weights=values.ravel(), minlength=m * B)
            total += (sums.reshape(m, B) ** 2).sum(axis=0)
    return squares


def _interval(rate, spread, h, h_values, confidence_level: float) -> NDArray[np.float64]:
    """Wilson's score interval for each bin's rate c̄, (B, 2), at an effective number of labels.

    With V the variance of the mean residual, rows being the units, and D = c̄(1−c̄)/h_values, the
    binomial variance of the total, were every value one independent label: a bin's design effect is
    f = (V/h_values²) / D. As a bin with few events knows its own badly, one unit is added to
    numerator and denominator at the diagram's design effect f0, and to f0 itself at 1: so that a
    bin without any variance gets an interval too. Student's quantile has the (effective) rows less
    one as degrees of freedom, and more in proportion to the unit borrowed. h and h_values are Σp²
    over the weights p of the rows and of the values.
    """
    several = np.less(h, 1 - 1e-12, where=~np.isnan(h), out=np.zeros(len(h), dtype=bool))
    c = np.clip(rate[several], 0, 1)
    h_values, h = h_values[several], h[several]
    variance = spread[several] / (1 - h) / h_values**2
    D = c * (1 - c) / h_values
    f0 = (variance.sum() + 1) / (D.sum() + 1)
    f = (variance + f0) / (D + 1)
    freedom = (1 / h - 1) * (1 + 1 / np.maximum(D, 1e-9))
    t = stdtrit(freedom, (1 + confidence_level) / 2)
    # t²/N, N = 1/(h_values·f) labels
    q2 = t**2 * h_values * f
    centre = (c + q2 / 2) / (1 + q2)
    half = np.sqrt(q2 * (c * (1 - c) + q2 / 4)) / (1 + q2)
    interval = np.full((len(rate), 2), np.nan)
    interval[several, 0] = np.clip(centre - half, 0, c)
    interval[several, 1] = np.clip(centre + half, c, 1)
    return interval
