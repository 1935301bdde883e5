"""Metrics and their parts from batches of rows, in fixed memory."""

import zlib
from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._ground.arrays import Floats, Indices
from .._ground.bins import Bins, check_bias_correction, check_grouped, signed_root
from .._ground.checks import check_fraction, check_positive_int
from .._ground.facts import facts_of, unwrapped
from .._ground.jackknife import (
    Replicates,
    Spread,
    VarianceComponents,
    row_variance,
    warn_of_few,
)
from .._ground.types import Correction, LabelsLike
from .._rows import PredictionLike, Rows, random_raters
from ._batches import Batches
from ._calibration import calibration_loss, class_bins
from ._decomposition import LossDecomposition, decomposition
from ._evaluate import read_for, undefined
from ._intervals import ConfidenceInterval, interval_from
from ._label_histogram import least_raters
from ._replicates import OfMeans
from ._streamed_means import StreamedMeans
from ._streamed_raters import StreamedRaters

__all__ = ["LabelHistogramAccumulator", "MetricAccumulator"]


class LabelHistogramAccumulator(Batches):
    """Computes `loss_decomposition` from batches, for data that is never in memory at once.

    Accumulators of parts of the data can be merged, and pickled. `MetricAccumulator` has any other
    metric, and its interval.

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
        super().__init__()
        self.n_bins = n_bins
        self.bias_correction = bias_correction

    def update(
        self,
        y: LabelsLike,
        prediction: PredictionLike,
        *,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Add a batch; parameters as in `loss_decomposition`. Returns itself.

        Groups, and raters of `Annotations`, may come again in other batches: the sums of each are
        kept, in the bins where it occurs.

        Raises
        ------
        ValueError
            Batches with different numbers of classes, or counts after `KnownProbabilities`; groups
            in some batches only, or together with `Annotations`.
        """
        if self._weigh_nothing(sample_weight):
            return self
        rows = read_for(calibration_loss, y, prediction, sample_weight, groups)
        check_grouped(rows.groups, self.bias_correction)
        found = self._seen_of(rows, groups, self._least_raters)
        if found is None:
            return self
        seen, names = found
        block = np.zeros(len(seen), np.intp)
        seen = type(seen)(seen.labels, seen.z, seen.w, seen.groups)
        binned = class_bins(seen, self.n_bins, bias_correction=self.bias_correction)
        self._add_bins(seen, binned, block, names)
        self._keep(seen, block, names is not None)
        return self

    @property
    def _least_raters(self) -> int:
        return least_raters(self.bias_correction)

    def merge(self, other: "LabelHistogramAccumulator") -> Self:
        """Add what another one has seen; returns itself, the other stays as it is."""
        if self.bias_correction != other.bias_correction:
            raise ValueError("Accumulators with different bias_correction cannot be merged.")
        if not np.array_equal(self.n_bins, other.n_bins):
            raise ValueError("Accumulators with different bins cannot be merged.")
        self._merge_sums(other)
        return self

    def result(self) -> LossDecomposition:
        """The decomposition of all rows so far.

        NaN with an UndefinedMetricWarning where there is none.
        """
        if self._bins is None or self._first is None:
            nan = undefined("loss_decomposition", self._least_raters)
            empty = np.full(0, nan)
            fields: dict[str, Any] = dict.fromkeys(LossDecomposition._fields, empty)
            fields |= dict.fromkeys(LossDecomposition._fields[:5], nan)
            fields |= {"n_rows": 0, "dropped_weight": nan}
            return LossDecomposition(**fields)
        correction = None if self._first.labels.known else self.bias_correction
        return decomposition(self._bins.total(), correction, self.n_rows)


class MetricAccumulator(Batches):
    """Computes a metric and its interval from batches, for data that is never in memory at once.

    The metric is a mean over rows, or follows from sums over fixed bins: all metrics of this
    package but the kernel and canonical ones, and those with bins by quantiles. The estimate is
    that of the metric on all rows, whatever the batches. Accumulators of parts of the data can be
    merged, and pickled.

    Parameters
    ----------
    metric : callable
        A metric of this package.
    raters : {"fixed", "random"}, default="fixed"
        "random": the interval is for new raters and rows. It needs a mean over rows, `Annotations`
        in all batches, with three raters or more in all, and no groups. Memory grows with the
        square of the number of raters, of which there may be 2,000.
    n_blocks : int, default=50
        Blocks of rows for standard errors, as in `confidence_interval`. Memory of binned metrics
        grows with it; 1: no standard errors of these.
    **options
        Go to the metric.

    Raises
    ------
    ValueError
        A metric that needs all rows at once, or options that it refuses; random raters of a metric
        that is no mean over rows.

    Notes
    -----
    The standard error of a mean is that of independent rows, exact in any batches. For binned
    metrics, and with groups, it is the jackknife of `confidence_interval`. Rows go to blocks in
    turn as they come, so that merging deals them anew; groups go by their names, the same ones
    always. With random raters, single ratings are left out to first order; the rest is as in
    `confidence_interval` where that leaves raters out one by one.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> from sklearn_lhcal.metrics import expected_calibration_error
    >>> data = make_label_histograms(1000, overconfidence=2.0, random_state=0)
    >>> seen = MetricAccumulator(expected_calibration_error, n_bins=10)
    >>> for rows in (slice(0, 300), slice(300, 1000)):
    ...     seen.update(data.counts[rows], data.prediction[rows]).n_rows
    300
    1000
    >>> whole = expected_calibration_error(data.counts, data.prediction, n_bins=10)
    >>> abs(seen.result().estimate - whole) < 1e-10
    True
    """

    def __init__(
        self,
        metric: Callable[..., float],
        *,
        raters: Literal["fixed", "random"] = "fixed",
        n_blocks: int = 50,
        **options: Any,
    ) -> None:
        check_positive_int(n_blocks=n_blocks)
        self.metric, self.options = unwrapped(metric, options)
        facts = self._facts
        if facts.check is not None:
            facts.check(**self.options)
        if facts.terms is None and facts.binned is None:
            raise ValueError(
                f"{_name(self.metric)} needs all rows at once: it is no mean over rows, and does "
                "not follow from sums over bins."
            )
        if self.options.get("strategy", "uniform") != "uniform":
            raise ValueError(
                "Bins by quantiles need all rows at once; pass the edges of the bins as n_bins."
            )
        if raters not in ("fixed", "random"):
            raise ValueError(f'raters must be "fixed" or "random", got {raters!r}.')
        if raters == "random" and facts.terms is None:
            raise ValueError(
                f"{_name(self.metric)} is no mean over rows, and needs all rows at once for new "
                "raters; use confidence_interval."
            )
        self.raters = raters
        self.n_blocks = n_blocks
        self._n_blocks = n_blocks
        super().__init__()
        self._means = StreamedMeans(n_blocks)
        self._raters = StreamedRaters()

    @property
    def _facts(self) -> Any:
        # looked up again after pickling
        return facts_of(self.metric, **self.options)

    def update(
        self,
        y: LabelsLike,
        prediction: PredictionLike,
        *,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Add a batch; parameters as in `confidence_interval`. Returns itself.

        Raises
        ------
        ValueError
            Batches with different numbers of classes, or counts after `KnownProbabilities`; groups
            in some batches only, or in a corrected metric together with `Annotations`;
            `Annotations` in a corrected metric of pairs of raters; with random raters, groups, or
            labels that do not say whose they are.
        """
        is_random = random_raters(y, self.raters) is not None
        if is_random and groups is not None:
            raise ValueError("Random raters of batches go without groups; use confidence_interval.")
        if self._weigh_nothing(sample_weight):
            return self
        facts = self._facts
        rows = read_for(self.metric, y, prediction, sample_weight, groups, **self.options)
        found = self._seen_of(rows, groups, facts.least_raters)
        if found is None:
            return self
        seen, names = found
        block = (self.n_rows + np.arange(len(seen))) % self.n_blocks
        if names is not None:
            block = _dealt(names, self.n_blocks)
        if is_random:
            statistic = OfMeans(self.metric, seen, self.options)
            self._raters.add(statistic)
            self._means.add(statistic.numerator, statistic.denominator, block)
        elif facts.terms is not None:
            numerator, denominator = facts.terms(seen, **self.options)
            self._means.add(numerator, denominator, block)
        else:
            self._add_bins(seen, facts.binned(seen, **self.options), block, names)
        self._keep(seen, block, names is not None)
        return self

    def merge(self, other: "MetricAccumulator") -> Self:
        """Add what another one has seen; returns itself, the other stays as it is."""
        same = self.metric is other.metric and self.n_blocks == other.n_blocks
        same &= self.raters == other.raters
        if not same or not _same(self.options, other.options):
            raise ValueError("Accumulators of different metrics or options cannot be merged.")
        self._merge_sums(other)
        self._means.merge(other._means)
        self._raters.merge(other._raters)
        return self

    def result(self, confidence_level: float = 0.95) -> ConfidenceInterval:
        """The metric of all rows so far, and its interval; its ends are NaN for fewer than two.

        The standard error is of the signed square where the metric is a signed root. NaN with an
        UndefinedMetricWarning where no row counts.
        """
        check_fraction(confidence_level=confidence_level)
        facts = self._facts
        if self._first is None:
            nan = undefined(_name(self.metric), facts.least_raters)
            return ConfidenceInterval(nan, nan, nan, nan)
        mapped = facts.terms is None and facts.loss is not None
        estimate, spread = self._found(facts)
        if spread is None:
            if mapped:
                estimate = float(signed_root(estimate))
            return ConfidenceInterval(estimate, np.nan, np.nan, np.nan)
        if self.raters == "fixed":
            return interval_from(estimate, spread, confidence_level, mapped)
        panel = self._raters.panel(facts.least_raters)
        warn_of_few(panel.n_raters, panel.worth)
        spread = self._raters.spread(*self._means.totals(), spread, panel)
        return interval_from(estimate, spread, confidence_level, mapped, panel)

    def _found(self, facts: Any) -> tuple[float, Spread | None]:
        """The estimate, or its signed square, and its variance; None where it has none."""
        sizes = self._sizes[self._sizes > 0]
        if facts.terms is not None and not self._grouped:
            return self._means.estimate(), self._means.spread()
        if facts.terms is not None:
            estimate, without = self._means.estimate(), self._means.without_each()
        else:
            estimate, without = self._of_bins(facts, len(sizes) > 1)
        if len(sizes) < 2:
            return estimate, None
        V = row_variance(Replicates(estimate, without), sizes)
        return estimate, Spread(V, len(sizes) - 1.0, VarianceComponents(V))

    def _of_bins(self, facts: Any, several: bool) -> tuple[float, Floats]:
        """The value of the sums over bins, and without each block where there are several."""
        bins: Any = self._bins
        first: Any = self._first
        like = Rows(first.labels, first.prediction)
        if bins.units:
            # pairs of rows are left out
            like.groups = np.zeros(1, np.intp)

        def value(sums) -> float:
            return facts.of_sums(sums, like, **self.options)

        without = [value(left) for left in bins.without_each()] if several else []
        return value(bins.total()), np.array(without)


def _dealt(names: NDArray, n_blocks: int) -> Indices:
    """The block of each row by the name of its group, the same in any batch and any process."""
    distinct, code = np.unique(names, return_inverse=True)
    block = [zlib.crc32(repr(name).encode()) % n_blocks for name in distinct.tolist()]
    return np.array(block, dtype=np.intp)[code]


def _name(metric: Callable) -> str:
    return getattr(metric, "__name__", repr(metric))


def _same(options: dict, others: dict) -> bool:
    """Whether options have the same values, arrays among them."""
    return options.keys() == others.keys() and all(
        np.array_equal(value, others[name]) for name, value in options.items()
    )
