"""How values are cut into bins, and which of them lie at an edge but for rounding."""

import numpy as np

from .checks import any_array, as_floats, is_count, is_real
from .types import Floats, Indices, NDArray

# values this near, as parts of themselves, differ by rounding: 1 − Σz² by the order of its terms
_ROUNDING = 1e-12
# where numbers begin to differ in float32: its 0.7 is below 0.7
_FLOAT32 = 2.0**-23
# bins of all columns together: their sums then take a gigabyte
_MOST = 2**24


class Bins:
    """How each column of values in [0, 1] is cut into bins.

    Parameters
    ----------
    z : ndarray of shape (n, K)
        The values; quantile bins are made from them.
    n_bins : int or array-like of shape (n_edges,)
        Number of bins, or the edges themselves, ascending; a value at an inner edge, or below it by
        rounding alone, also to float32, belongs to the bin above it.
    strategy : {"uniform", "quantile"}
        Equal widths on [0, 1], or equal numbers of samples by ``np.quantile``, column by column,
        equal edges merged.
    limits : tuple of two ndarrays of shape (K,), optional
        Ends of the columns' values, instead of 0 and 1.
    """

    def __init__(self, z: NDArray, n_bins, strategy: str, limits=None):
        K = z.shape[1]
        if is_count(n_bins) and n_bins * K > _MOST:
            raise ValueError(f"n_bins={n_bins} bins of {K} columns are more than {_MOST} bins.")
        given = n_bins if is_real(n_bins) else any_array(n_bins, "n_bins")
        # whether other values have the same bins
        self.fixed = np.ndim(given) == 1 or strategy == "uniform"
        # edges are of shape (K, B+1), short rows padded with NaN
        if np.ndim(given) == 1:
            edges = as_floats(given, "n_bins")
            if len(edges) < 2 or not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
                raise ValueError("n_bins must be strictly ascending edges, finite, two at least.")
            self.edges = np.tile(edges, (K, 1))
        elif not is_count(n_bins):
            raise ValueError(
                f"n_bins must be a positive integer or an array of edges, got {n_bins!r}."
            )
        elif strategy == "uniform":
            low, high = (np.zeros(K), np.ones(K)) if limits is None else limits
            share = np.linspace(0, 1, int(n_bins) + 1)
            self.edges = low[:, None] + (high - low)[:, None] * share
        else:
            self.edges = _merged(np.quantile(z, np.linspace(0, 1, int(n_bins) + 1), axis=0).T)
        self.n_bins = self.edges.shape[1] - 1
        upper = self.edges[:, 1:]
        # quantiles are values themselves
        margin = below(upper, np.diff(self.edges)) if self.fixed else _ROUNDING * np.abs(upper)
        self._inner = [e[~np.isnan(e)][:-1] for e in upper - margin]

    def index(self, z: NDArray) -> Indices:
        """Bin of each value, shape of z; the last one for what is beyond it."""
        columns = [np.searchsorted(e, z[:, k], side="right") for k, e in enumerate(self._inner)]
        return np.stack(columns, axis=1)


def below(edge: NDArray | float, width: NDArray | float):
    """How far below an edge values are at it but for rounding; `width` is that of the bin below.

    Values may have been rounded to float32, and 1 − z of them be taken: an absolute error, unless
    numbers are large. It is a thousandth of the bin at most.
    """
    size = np.maximum(np.abs(edge), 1.0)
    return np.maximum(np.minimum(_FLOAT32 * size, width / 1000), _ROUNDING * np.abs(edge))


def _distinct(edges: NDArray) -> Floats:
    """Those of ascending edges that differ by more than rounding; two at least."""
    step = np.diff(edges) > _ROUNDING * edges[1:]
    if not step.any():
        return edges[[0, 0]]
    return edges[np.concatenate([[True], step])]


def _merged(edges: NDArray) -> Floats:
    """Distinct edges of each row, padded with NaN; at least one bin."""
    distinct = [_distinct(e) for e in edges]
    out = np.full((len(edges), max(map(len, distinct))), np.nan)
    for row, e in zip(out, distinct, strict=True):
        row[: len(e)] = e
    return out
