"""What a reliability diagram shows: mean prediction and observed rate of each bin, with an interval for the rate."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from ..metrics._binning import BLOCK, Bins


class ReliabilityBins(NamedTuple):
    """B bins; NaN in empty ones."""

    mean_predicted: NDArray[np.float64]  # (B,)
    mean_observed: NDArray[np.float64]  # (B,)
    interval: NDArray[np.float64]  # (B, 2), NaN where a bin holds fewer than two rows
    bin_counts: NDArray[np.int64]  # (B,), values in the bin
    edges: NDArray[np.float64]  # (B+1,)


def reliability_bins(z, rate, w, *, n_bins, strategy: str, level: float) -> ReliabilityBins:
    """Bin predictions z of shape (n, m), with observed rates of shape (n, m) and weights of shape (n,) or None.

    The m values of a row share one set of bins and may depend on each other; rows are independent.
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}.")
    bins = Bins(z.reshape(-1, 1), n_bins, strategy)
    index, B = bins.index(z.reshape(-1, 1)).reshape(z.shape), bins.n_bins
    w = np.broadcast_to(1.0 if w is None else w[:, None], z.shape)

    def total(values):
        return np.bincount(index.ravel(), weights=values.ravel(), minlength=B)

    counts = np.bincount(index.ravel(), minlength=B)
    W = np.where(counts > 0, total(w), np.nan)
    mean_z, mean_rate = total(w * z) / W, total(w * rate) / W
    residual = w * (rate - z - (mean_rate - mean_z)[index])
    spread, h = _row_sums_of_squares(index, residual, w, B) / W**2
    interval = _interval(mean_rate, spread, h, total(w * w) / W**2, level)
    return ReliabilityBins(mean_z, mean_rate, interval, counts, bins.edges[0])


def _row_sums_of_squares(index: NDArray, residual: NDArray, w: NDArray, n_bins: int) -> NDArray[np.float64]:
    """Σ_i (Σ_j r_ij)² and Σ_i (Σ_j w_ij)² over the values j of row i in each bin, shape (2, B)."""
    squares = np.zeros((2, n_bins))
    for start in range(0, len(index), BLOCK):
        b = slice(start, start + BLOCK)
        rows = len(index[b])
        cell = (index[b] + n_bins * np.arange(rows)[:, None]).ravel()
        for total, values in zip(squares, (residual[b], w[b]), strict=True):
            sums = np.bincount(cell, weights=values.ravel(), minlength=rows * n_bins).reshape(rows, n_bins)
            total += (sums**2).sum(axis=0)
    return squares


def _interval(rate, spread, h, h_values, level: float) -> NDArray[np.float64]:
    """Wilson's score interval for the rate c̄ of each bin, at an effective number of labels; shape (B, 2).

    With V the variance of the mean residual, rows being the units, and D = c̄(1−c̄)/h_values, the binomial variance of
    the total, were every value one independent label: a bin's design effect is f = (V/h_values²) / D. As a bin with few
    events knows its own badly, one unit is added to numerator and denominator at the diagram's design effect f0, and to
    f0 itself at 1: so that a bin without any variance gets an interval too. Student's quantile has the (effective) rows
    less one as degrees of freedom, and more in proportion to the unit borrowed. h and h_values are Σp² over the
    weights p of the rows and of the values.
    """
    several = np.less(h, 1 - 1e-12, where=~np.isnan(h), out=np.zeros(len(h), dtype=bool))
    c, h_values, h = np.clip(rate[several], 0, 1), h_values[several], h[several]
    variance = spread[several] / (1 - h) / h_values**2
    D = c * (1 - c) / h_values
    f0 = (variance.sum() + 1) / (D.sum() + 1)
    f = (variance + f0) / (D + 1)
    freedom = (1 / h - 1) * (1 + 1 / np.maximum(D, 1e-9))
    q2 = stdtrit(freedom, (1 + level) / 2) ** 2 * h_values * f  # t²/N, N = 1/(h_values·f) labels
    centre = (c + q2 / 2) / (1 + q2)
    half = np.sqrt(q2 * (c * (1 - c) + q2 / 4)) / (1 + q2)
    interval = np.full((len(rate), 2), np.nan)
    interval[several, 0] = np.clip(centre - half, 0, c)
    interval[several, 1] = np.clip(centre + half, c, 1)
    return interval
