"""Metrics from batches of samples, in fixed memory."""

from itertools import islice
from typing import Any, Self, cast

import numpy as np

from ..._rows import Annotations, PredictionLike, Rows, read_for
from ..._utils.checks import as_floats, checked, warn
from ..._utils.results import ConfidenceInterval, VarianceComponents
from ..._utils.tags import LossOverBins, unwrapped
from ..._utils.types import Floats, LabelsLike, MetricFunction, Weights
from .._binned import BinSums
from .._decomposition import NOTHING, LossDecomposition, loss_decomposition
from .._evaluate import Metric, signed_root, undefined, with_options
from .intervals import interval_from
from .scarce import is_near_end
from .two_way import Replicates, Spread, row_variance


class MetricAccumulator:
    """Computes a metric and its interval from batches, for data that is never in memory at once.

    The metric is a mean over samples, or follows from sums over fixed bins: all metrics of this
    package but the kernel and canonical ones, and those with bins by quantiles. The estimate is
    that of the metric on all samples, whatever the batches. Accumulators of parts of the data can
    be merged, and pickled.

    Parameters
    ----------
    metric : callable
        A metric of this package, or `loss_decomposition`.
    n_blocks : int, default=50
        Blocks of samples for the standard errors of binned metrics, as in `confidence_interval`.
        Memory grows with it; 1: no standard errors of these.
    **options
        Go to the metric.

    Raises
    ------
    ValueError
        A metric that needs all samples at once, or options that it refuses.

    Notes
    -----
    Samples are independent and raters fixed. The standard error of a mean is exact in any batches.
    For binned metrics it is the jackknife of `confidence_interval`. Samples go to blocks in turn as
    they come, so that merging deals them anew. What depends on groups or raters needs all samples
    at once, in `confidence_interval`.

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

    All parts of the expected squared loss:

    >>> MetricAccumulator(loss_decomposition).update(data.counts, data.prediction).result().n_rows
    1000
    """

    @checked
    def __init__(self, metric: MetricFunction, *, n_blocks: int = 50, **options: Any) -> None:
        if options.pop("raters", "fixed") != "fixed":
            raise ValueError(
                "Batches give no interval for new raters; use confidence_interval with all samples."
            )
        self.metric, self.options = unwrapped(metric, options)
        self.n_blocks = n_blocks
        bound = with_options(self.metric, self.options)
        if bound is None or not (bound.is_mean or isinstance(bound.tags, LossOverBins)):
            name = getattr(self.metric, "__name__", repr(self.metric))
            raise ValueError(
                f"{name} needs all samples at once: it is not a mean over samples, and does not "
                "follow from sums over bins."
            )
        if bound.options.get("strategy", "uniform") != "uniform":
            raise ValueError(
                "Bins by quantiles need all samples at once; pass the edges of the bins as n_bins."
            )
        # a sample of the first batch, which knows the classes and the kind of labels
        self._first: Rows | None = None
        # samples in each block
        self._sizes = np.zeros(n_blocks, np.int64)
        self._moments = _Moments()
        self._bins: BinSums | None = None

    @property
    def n_rows(self) -> int:
        """How many samples it has seen that count."""
        return int(self._sizes.sum())

    @property
    def _bound(self) -> Metric:
        # looked up again after pickling
        return cast(Metric, with_options(self.metric, self.options))

    def update(
        self,
        y: LabelsLike,
        prediction: PredictionLike,
        *,
        sample_weight: Weights = None,
        groups: None = None,
    ) -> Self:
        """Add a batch; parameters as in `confidence_interval`. Returns itself.

        Raises
        ------
        ValueError
            Batches with different numbers of classes, or counts after `KnownProbabilities`; groups,
            or `Annotations` in a bias-corrected metric, which need all samples at once.
        """
        if groups is not None:
            raise ValueError(
                "Batches take samples as independent; use confidence_interval with groups and all "
                "samples at once."
            )
        if sample_weight is not None:
            w = as_floats(sample_weight, "sample_weight")
            # other batches may have weight
            if w.size > 0 and not w.any():
                return self
        metric = self._bound
        rows = read_for(metric, y, prediction, sample_weight)
        seen = rows.contributing(metric.tags.least_raters)
        if seen is None:
            return self
        seen = self._fitting(seen)
        block = (self.n_rows + np.arange(len(seen))) % self.n_blocks
        if metric.is_mean:
            self._moments.add(np.stack(metric.terms(seen)))
        else:
            binned = metric.tags.binned(seen, **metric.options)
            if binned.correction is not None and isinstance(seen.labels, Annotations):
                raise ValueError(
                    "Batches take raters as independent; use confidence_interval with all "
                    "Annotations at once, or pass the counts of y."
                )
            if self._bins is None:
                K = binned.z.shape[1]
                self._bins = BinSums(binned.bins, K, self.n_blocks, binned.correction)
            binned.add_to(self._bins, seen, block)
        if self._first is None:
            self._first = seen.take([0])
        self._sizes += np.bincount(block, minlength=self.n_blocks)
        return self

    def _fitting(self, rows: Rows) -> Rows:
        """The samples in the order of the first batch, with the weights as given."""
        if self._first is not None:
            rows = rows.in_order(self._first.classes, "the first")
            self._check_kind(rows)
        # batches must share one scale
        if rows.scale > 500:
            raise ValueError("sample_weight has values above 1e150, whose squares overflow.")
        w = None if rows.w is None else np.ldexp(rows.w, rows.scale)
        return Rows(rows.labels, rows.prediction, w)

    def _check_kind(self, rows: Rows) -> None:
        first = cast(Rows, self._first)
        if first.labels.known != rows.labels.known:
            raise ValueError("Counts and KnownProbabilities cannot be accumulated together.")
        if not np.array_equal(first.labels.classes, rows.labels.classes):
            raise ValueError("Accumulators with different classes cannot be merged.")
        K = first.labels.shape[1]
        if rows.labels.shape[1] != K:
            raise ValueError(f"All batches must have {K} classes and the same bins.")

    def merge(self, other: "MetricAccumulator") -> Self:
        """Add what another one has seen; returns itself, the other stays as it is."""
        same = self.metric is other.metric and self.n_blocks == other.n_blocks
        if not same or not _same(self.options, other.options):
            raise ValueError("Accumulators of different metrics or options cannot be merged.")
        if other._first is None:
            return self
        if self._first is not None:
            self._check_kind(other._first)
        if self._bins is not None and other._bins is not None:
            self._bins.merge(other._bins)
        elif other._bins is not None:
            self._bins = other._bins.of_table(other._bins.table.copy())
        self._moments.merge(other._moments)
        self._first = other._first
        self._sizes += other._sizes
        return self

    @checked
    def result(self, confidence_level: float = 0.95) -> ConfidenceInterval | LossDecomposition:
        """The metric of all samples so far, and its interval; its ends are NaN for fewer than two.

        Of `loss_decomposition`, all its parts. The standard error is of the signed square where the
        metric is a signed root. NaN with an UndefinedMetricWarning where no sample counts.
        """
        metric = self._bound
        if self._first is None:
            nan = undefined(metric.name, metric.tags.least_raters)
            empty = ConfidenceInterval(nan, nan, nan, nan)
            return NOTHING if metric.function is loss_decomposition else empty
        if metric.is_mean:
            estimate = self._moments.mean()
            spread = self._moments.spread()
        else:
            estimate, spread = self._of_bins(metric)
        if isinstance(estimate, LossDecomposition):
            return estimate
        mapped = metric.tags.signed_root
        if spread is None:
            estimate = float(signed_root(estimate)) if mapped else estimate
            return ConfidenceInterval(estimate, np.nan, np.nan, np.nan)
        limits = metric.tags.limits
        if isinstance(limits, tuple) and is_near_end(estimate, self.n_rows, limits):
            warn(
                "Too few samples differ from the others: use confidence_interval with all at once."
            )
        return interval_from(estimate, spread, confidence_level, mapped)

    def _of_bins(self, metric: Metric) -> tuple[Any, Spread | None]:
        """The value of the sums over bins, and its variance where there are several blocks."""
        bins = cast(BinSums, self._bins)
        # the blocks are filled in turn
        filled = self._sizes[self._sizes > 0]
        sums = bins.without_parts(self.n_blocks)
        estimate = metric.tags.of_sums(next(sums), **metric.options)
        if len(filled) < 2 or isinstance(estimate, LossDecomposition):
            return estimate, None
        some = islice(sums, len(filled))
        without = np.array([metric.tags.of_sums(left, **metric.options) for left in some])
        V = row_variance(Replicates(estimate, without), filled)
        return estimate, Spread(V, len(filled) - 1.0, VarianceComponents(V))


class _Moments:
    """Means and products of numerators N and denominators D of rows, merged without cancellation.

    The products are taken about the means of a batch, and moved when two are merged (Chan, Golub
    and LeVeque 1983).
    """

    def __init__(self) -> None:
        self.n = 0
        self.means = np.zeros(2)
        self.scatter = np.zeros((2, 2))

    def add(self, terms: Floats) -> None:
        """Add the terms of a batch, shape (2, n)."""
        means = terms.mean(axis=1)
        centred = terms - means[:, None]
        self._add(terms.shape[1], means, centred @ centred.T)

    def merge(self, other: "_Moments") -> None:
        """Add what another one has seen."""
        self._add(other.n, other.means, other.scatter)

    def _add(self, n: int, means: Floats, scatter: Floats) -> None:
        total = self.n + n
        if not total:
            return
        step = means - self.means
        self.scatter = self.scatter + scatter + np.outer(step, step) * (self.n * n / total)
        self.means = self.means + step * (n / total)
        self.n = total

    def mean(self) -> float:
        """T = ΣN/ΣD."""
        return float(self.means[0] / self.means[1])

    def spread(self) -> Spread | None:
        """Of independent rows, ``n/(n−1) · Σ(N − T·D)² / (ΣD)²``; None where there is one row."""
        if self.n < 2:
            return None
        direction = np.array([1.0, -self.mean()])
        squares = direction @ self.scatter @ direction
        V = float(squares / (self.n - 1) / self.n / self.means[1] ** 2)
        return Spread(V, self.n - 1.0, VarianceComponents(V))


def _same(options: dict, others: dict) -> bool:
    """Whether options have the same values, arrays among them."""
    return options.keys() == others.keys() and all(
        np.array_equal(value, others[name]) for name, value in options.items()
    )
