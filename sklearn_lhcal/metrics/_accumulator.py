"""The loss decomposition from batches of rows, in fixed memory."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._ground.bins import Bins, BinSums, check_bias_correction
from .._ground.types import Correction, LabelsLike
from .._rows import PredictionLike, Rows, read_rows
from ._calibration import add_rows
from ._decomposition import LossDecomposition, decomposition
from ._evaluate import undefined

__all__ = ["LabelHistogramAccumulator"]


class LabelHistogramAccumulator:
    """Computes `loss_decomposition` from batches, for data that is never in memory at once.

    It takes rows as independent. For rows in groups use `loss_decomposition`: a group may come in
    several batches, and an accumulator would have to remember every group in every bin.

    Parameters
    ----------
    n_bins : int or array-like of edges, default=15
        Number of bins of equal width on [0, 1] for each class, or their edges. Quantiles would need
        all rows.
    bias_correction : {"residual", "label", None}, default="residual"
        As in `calibration_loss`.

    Examples
    --------
    >>> import numpy as np
    >>> counts, proba = (
    ...     np.array([[3, 1], [4, 0], [1, 3]]),
    ...     np.array([[0.7, 0.3], [0.8, 0.2], [0.3, 0.7]]),
    ... )
    >>> first, rest = LabelHistogramAccumulator(), LabelHistogramAccumulator()
    >>> first.update(counts[:1], proba[:1]).merge(
    ...     rest.update(counts[1:], proba[1:])
    ... ).result().n_rows
    3
    """

    def __init__(
        self,
        n_bins: int | ArrayLike = 15,
        *,
        bias_correction: Correction = "residual",
    ) -> None:
        check_bias_correction(bias_correction)
        # whatever it refuses is refused here
        Bins(np.zeros((1, 1)), n_bins, "uniform")
        self.n_bins = n_bins
        self.bias_correction = bias_correction
        self._sums: BinSums | None = None
        self._n_rows = 0
        self._known: bool | None = None
        self._classes: NDArray | None = None

    def update(
        self, y: LabelsLike, prediction: PredictionLike, *, sample_weight: ArrayLike | None = None
    ) -> "LabelHistogramAccumulator":
        """Add a batch; parameters as in `loss_decomposition`. Returns itself.

        Raises
        ------
        ValueError
            Batches with different numbers of classes, or counts after `KnownProbabilities`.
        """
        rows = read_rows(y, prediction, sample_weight)
        seen = rows.contributing(self._least_raters)
        if seen is None:
            return self
        if self._sums is not None:
            seen = seen.in_order(self._classes, "the first")
        # batches must share one scale
        w = None if seen.w is None else np.ldexp(seen.w, seen.scale)
        bins = Bins(seen.z, self.n_bins, "uniform")
        sums = self._sums_for(seen.labels.known, seen.classes, seen.z.shape[1], bins)
        add_rows(sums, Rows(seen.labels, seen.z, w))
        self._n_rows += len(seen)
        return self

    @property
    def _least_raters(self) -> int:
        if self.bias_correction is None:
            return 1
        return 2

    def merge(self, other: "LabelHistogramAccumulator") -> "LabelHistogramAccumulator":
        """Add what another one has seen; returns itself, the other stays as it is."""
        if self.bias_correction != other.bias_correction:
            raise ValueError("Accumulators with different bias_correction cannot be merged.")
        if other._sums is not None:
            theirs = other._sums
            sums = self._sums_for(other._known, other._classes, len(theirs.w), theirs.bins)
            sums.merge(theirs)
            self._n_rows += other._n_rows
        return self

    def result(self) -> LossDecomposition:
        """The decomposition of all rows so far.

        NaN with an UndefinedMetricWarning where there is none.
        """
        if self._sums is None:
            nan = undefined("loss_decomposition", self._least_raters)
            empty = np.full(0, nan)
            fields: dict[str, Any] = dict.fromkeys(LossDecomposition._fields, empty)
            fields |= dict.fromkeys(LossDecomposition._fields[:5], nan)
            fields |= {"n_rows": 0, "dropped_weight": nan}
            return LossDecomposition(**fields)
        return decomposition(
            self._sums, None if self._known else self.bias_correction, self._n_rows
        )

    def _sums_for(self, known: bool | None, classes, n_classes: int, bins: Bins) -> BinSums:
        """The sums, made for the first rows; all others must be of the same kind."""
        if self._sums is None:
            self._sums = BinSums(bins, n_classes)
            self._known = known
            self._classes = classes
        if self._known != known:
            raise ValueError("Counts and KnownProbabilities cannot be accumulated together.")
        same_bins = np.array_equal(self._sums.bins.edges, bins.edges)
        if self._sums.w.shape[0] != n_classes or not same_bins:
            raise ValueError(
                f"All batches must have {self._sums.w.shape[0]} classes and the same bins."
            )
        if not _equal(self._classes, classes):
            raise ValueError("Accumulators with different classes cannot be merged.")
        return self._sums


def _equal(a: NDArray | None, b: NDArray | None) -> bool:
    """Whether neither has names, or both have the same."""
    return a is b or (a is not None and b is not None and np.array_equal(a, b))
