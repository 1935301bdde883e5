"""What every metric does first: check, align, drop the rows that cannot contribute; and how rows become one number."""

import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning

from .._fit import check_same_length, check_sample_weight
from .._simplex import check_proba, frame_names, row_sum
from ..distributions import Distribution, PointMass
from ..label_histogram import KnownProbabilities, check_counts, counts_for
from ._binning import BLOCK


class Rows(NamedTuple):
    """Checked rows of one metric: counts (n, K), raters (n,) (inf for known probabilities), z (n, K), weights."""

    counts: NDArray
    n: NDArray[np.float64]
    z: NDArray[np.float64]
    w: NDArray[np.float64] | None

    def blocks(self) -> Iterator[tuple[NDArray, NDArray, NDArray, NDArray | None]]:
        """(μ̂, n, z, w) for blocks of rows."""
        for start in range(0, len(self.z), BLOCK):
            b = slice(start, start + BLOCK)
            counts, n = self.counts[b], self.n[b]
            mu = np.asarray(counts) if isinstance(counts, KnownProbabilities) else counts / n[:, None]
            yield mu, n, self.z[b], None if self.w is None else self.w[b]


def check_rows(y, prediction, sample_weight, min_raters: int = 1) -> Rows | None:
    """Rows with `min_raters` raters and a positive weight, as counts and class probabilities; None if there is none."""
    counts, z = align(y, prediction)
    w = row_weights(sample_weight, len(counts))
    n = raters(counts)
    keep = n >= min_raters
    if w is not None:
        keep &= w > 0
    if keep.all():
        return Rows(counts, n, z, w)
    if not keep.any():
        return None
    return Rows(counts[keep], n[keep], z[keep], None if w is None else w[keep])


def align(y, prediction) -> tuple[NDArray, NDArray[np.float64]]:
    """Counts and class probabilities of equal shape: by position, or by name where both sides are frames."""
    names, own = frame_names(prediction), frame_names(y)
    if names is not None and own is not None and len(own) > 1 and names != own:
        if sorted(map(str, names)) != sorted(map(str, own)):
            raise ValueError(f"y has the classes {own}, the prediction {names}: the sets differ.")
        prediction = prediction[own]
    z = prediction.mean() if isinstance(prediction, Distribution) else check_proba(prediction, name="prediction")
    if names is not None and np.ndim(y) == 1 and np.asarray(y).dtype.kind not in "iubf":
        counts, _ = check_counts(y, classes=names)
    else:
        counts = counts_for(y, z.shape[1])
    check_same_length(len(z), y=counts)
    return counts, z


def as_distribution(y, prediction) -> tuple[NDArray, Distribution]:
    """Counts, and the prediction as a distribution: a point mass where it holds probabilities."""
    counts, z = align(y, prediction)
    return counts, prediction if isinstance(prediction, Distribution) else PointMass.of_checked(z)


def row_weights(sample_weight, n: int) -> NDArray[np.float64] | None:
    """Checked weights, times the power of two that brings the largest near 1: sums of squares stay in range."""
    w = check_sample_weight(sample_weight, n)
    return None if w is None else np.ldexp(w, -np.frexp(w.max())[1])


def raters(counts: NDArray) -> NDArray[np.float64]:
    """n_i, shape (n,); inf for known probabilities."""
    if isinstance(counts, KnownProbabilities):
        return np.full(len(counts), np.inf)
    return row_sum(counts).astype(np.float64)


def mean_over_rows(rows: Rows | None, row_loss: Callable, name: str, min_raters: int = 1) -> float:
    """Σ w_i·row_loss(μ̂, n, z)_i / Σ w_i, block by block."""
    if rows is None:
        return undefined(name, min_raters)
    total = weight = 0.0
    for mu, n, z, w in rows.blocks():
        values = row_loss(mu, n, z)
        total += values.sum() if w is None else w @ values
        weight += len(values) if w is None else w.sum()
    return float(total / weight)


def undefined(name: str, min_raters: int) -> float:
    """NaN, with the one warning that says why."""
    needs = f"{min_raters} raters" if min_raters > 1 else "a rater"
    warnings.warn(
        f"{name} is undefined and set to NaN: no row with a positive weight has {needs} or more.",
        UndefinedMetricWarning,
        stacklevel=3,
    )
    return float("nan")
