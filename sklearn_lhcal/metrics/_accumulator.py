"""The loss decomposition from batches of rows, in fixed memory."""

import numpy as np

from ..label_histogram import KnownProbabilities
from ._binning import Bins, BinSums, check_bias_correction
from ._inputs import check_rows, undefined
from ._label_histogram import LossDecomposition, add_rows, decomposition

__all__ = ["LabelHistogramAccumulator"]


class LabelHistogramAccumulator:
    """Computes `loss_decomposition` from batches, as for data that never is in memory at once.

    Parameters
    ----------
    n_bins : int or array-like of edges, default=15
        Number of bins of equal width on [0, 1] for each class, or their edges. (Quantiles would need all rows.)
    bias_correction : {"residual", "label", None}, default="residual"
        As in `calibration_loss`.

    Examples
    --------
    >>> import numpy as np
    >>> counts, proba = np.array([[3, 1], [4, 0], [1, 3]]), np.array([[0.7, 0.3], [0.8, 0.2], [0.3, 0.7]])
    >>> first, rest = LabelHistogramAccumulator(), LabelHistogramAccumulator()
    >>> first.update(counts[:1], proba[:1]).merge(rest.update(counts[1:], proba[1:])).result().n_rows
    3
    """

    def __init__(self, n_bins=15, *, bias_correction="residual"):
        check_bias_correction(bias_correction)
        self.n_bins = n_bins
        self.bias_correction = bias_correction
        self._sums: BinSums | None = None
        self._n_rows = 0
        self._known: bool | None = None

    def update(self, y, prediction, *, sample_weight=None) -> "LabelHistogramAccumulator":
        """Add a batch; parameters as in `loss_decomposition`. Returns itself.

        Raises
        ------
        ValueError
            Batches with different numbers of classes, or counts after `KnownProbabilities`.
        """
        rows = check_rows(y, prediction, sample_weight, 1 if self.bias_correction is None else 2)
        known = isinstance(y, KnownProbabilities)
        if rows is None:
            return self
        if rows.w is not None:  # batches must share one scale
            rows = rows._replace(w=np.ldexp(rows.w, np.frexp(np.max(sample_weight))[1]))
        bins = Bins(rows.z, self.n_bins, "uniform")
        self._agree(known, rows.z.shape[1], bins)
        add_rows(self._sums, rows)
        self._n_rows += len(rows.z)
        return self

    def merge(self, other: "LabelHistogramAccumulator") -> "LabelHistogramAccumulator":
        """Add what another one has seen; returns itself, the other stays as it is."""
        if self.bias_correction != other.bias_correction:
            raise ValueError("Accumulators with different bias_correction cannot be merged.")
        if other._sums is not None:
            self._agree(other._known, len(other._sums.w), other._sums.bins)
            self._sums.merge(other._sums)
            self._n_rows += other._n_rows
        return self

    def result(self) -> LossDecomposition:
        """The decomposition of all rows so far; NaN with an UndefinedMetricWarning where there is none."""
        if self._sums is None:
            nan = undefined("loss_decomposition", 1 if self.bias_correction is None else 2)
            empty = np.full(0, nan)
            fields = dict.fromkeys(LossDecomposition._fields, empty) | dict.fromkeys(LossDecomposition._fields[:5], nan)
            return LossDecomposition(**fields | {"n_rows": 0})
        return decomposition(self._sums, None if self._known else self.bias_correction, self._n_rows)

    def _agree(self, known: bool, n_classes: int, bins: Bins) -> None:
        """Make the sums for the first rows; insist on the same kind for all others."""
        if self._sums is None:
            self._sums, self._known = BinSums(bins, n_classes), known
        if self._known != known:
            raise ValueError("Counts and KnownProbabilities cannot be accumulated together.")
        if self._sums.w.shape[0] != n_classes or not np.array_equal(self._sums.bins.edges, bins.edges):
            raise ValueError(f"All batches must have {self._sums.w.shape[0]} classes and the same bins.")
