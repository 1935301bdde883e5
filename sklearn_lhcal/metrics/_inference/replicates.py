"""A metric that can be evaluated without some of its data.

A jackknife asks for the values of a statistic without each block of samples and, where raters are
random, without each block of raters and of single labels. `Statistic` evaluates it again on what
is left. A ratio of sums over samples, `MeanStatistic`, needs the terms of each sample only once,
and once more for each different label that the sample may lose.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..._rows import Annotations, Rows, read_for
from ..._utils.checks import as_floats, check_same_length, n_rows, read_groups, take_rows
from ..._utils.estimators import weight_params
from ..._utils.tags import LossOverBins
from ..._utils.types import Floats, Indices, Mask, NDArray
from .._evaluate import Metric, with_options
from .two_way import (
    FIXED_RATERS,
    LEAST_OF_MEANS,
    MOST_SINGLE,
    Blocks,
    Design,
    Replicates,
    cells_of,
    check_rows_remain,
    deal_cells,
    deal_rows,
    panel_of,
    random_raters,
    warn_of_few,
)

# terms(rows, at): numerators (n,), or (n, m) of m means, and denominators (n,), of samples that may
# have lost labels; they have the numbers `at` in the data, by which a closure finds what else it
# knows of them
Terms = Callable[[Rows, Indices], tuple[Floats, Floats]]


@dataclass(eq=False)
class Statistic:
    """A function of data, evaluated again without parts of them.

    Parameters
    ----------
    value : callable
        ``value(data) -> float``.
    data : Rows or Given
    least_raters : int, default=1
        Samples with fewer raters do not count.
    signed_root : bool, default=False
        Whether what is asked for is the signed root of the value.
    second_order : bool, default=False
        Whether the value is not a mean over samples, but of products of them.
    compares_raters : bool, default=False
        Whether labels of one sample are compared with each other.
    metric : Metric, optional
        What it is evaluated of.
    rests_on : str, optional
        How many samples count and which, where others have too few labels.
    """

    value: Callable
    data: "Rows | Given"
    _: KW_ONLY
    least_raters: int = 1
    signed_root: bool = False
    second_order: bool = False
    compares_raters: bool = False
    metric: Metric | None = None
    rests_on: str = ""
    # of sums over samples, which are known without samples and raters both
    is_mean = False
    # of samples, where nobody says
    most_blocks = 50

    @property
    def labels(self) -> Any:
        """The labels; `Annotations` where raters are left out."""
        return self.data.labels

    def design(self, raters: str | None, n_blocks: int | None, random_state) -> Design:
        """Blocks of samples; and of raters and cells, where raters are random."""
        data = self.data
        y = random_raters(data.labels, raters)
        w = None if data.w is None else as_floats(data.w, "sample_weight")
        of_rows = n_blocks or self.most_blocks
        rows = deal_rows(len(data), data.groups, of_rows, random_state, w)
        if y is None:
            return Design(rows)
        panel = panel_of(y, data.w, self.least_raters, n_blocks or MOST_SINGLE, random_state)
        if not self.is_mean or panel.blocks.n < LEAST_OF_MEANS:
            self.check_rows_remain()
        warn_of_few(panel.n_raters, panel.worth)
        if self.is_mean:
            return Design(rows, panel, cells_of(y, data.groups))
        return Design(rows, panel, deal_cells(y, data.groups, of_rows, random_state))

    def check_rows_remain(self) -> None:
        """Refuse raters without whom hardly a sample has enough labels."""
        least = max(self.least_raters, 1 + self.compares_raters)
        check_rows_remain(self.labels, self.data.w, least)

    def replicates(self, design: Design) -> Replicates:
        """The value of all data, and without each block of the design."""
        result = Replicates(self.estimate(), self.without_rows(design.rows))
        if design.panel is None or design.cells is None:
            return result
        without, both = self.without_raters(design)
        gone = np.flatnonzero(np.isnan(without.reshape(len(without), -1)).any(axis=1))
        enough = both is not None and len(without) - len(gone) >= LEAST_OF_MEANS
        if len(gone) and not enough and np.isfinite(result.estimate).all():
            y = self.labels
            names = y.raters[np.unique(y.rater[design.panel.blocks.code == gone[0]])]
            raise ValueError(
                f"Without rater {', '.join(map(str, names))} the metric is undefined; "
                f"{FIXED_RATERS}"
            )
        return Replicates(*result[:2], without, self.without_ratings(design.cells), both)

    def estimate(self) -> Any:
        """The value of all data."""
        x = self.value(self.data)
        if isinstance(x, (tuple, list)) or np.ndim(x):
            raise ValueError(
                f"metric must return one number, it returned a {type(x).__name__}; choose one of "
                "its parts."
            )
        return float(x)

    def without_rows(self, block: Blocks) -> Floats:
        """The value without each block of samples, blocks first."""
        metric, data = self.metric, self.data
        if metric is not None and isinstance(metric.tags, LossOverBins):
            binned = metric.tags.binned(data, **metric.options)
            # sums over bins that are the same without some samples add up
            if binned.bins.fixed and not (binned.correction and binned.repeated(data)):
                _, *left = binned.sums(data, block.code, block.n).without_parts(block.n)
                return np.array([metric.tags.of_sums(one, **metric.options) for one in left])
        kept = (np.flatnonzero(block.code != b) for b in range(block.n))
        return np.array([self.value(self.data.take(rows)) for rows in kept])

    def without_ratings(self, block: Blocks) -> Floats:
        """The value without each block of labels, blocks first."""
        kept = (block.code != b for b in range(block.n))
        return np.array([self.value(self.data.keep(ratings)) for ratings in kept])

    def without_raters(self, design) -> tuple[Floats, Floats | None]:
        """The value without each block of raters, and also without each of samples, samples first.

        None for the latter, which takes too long.
        """
        return self.without_ratings(design.panel.blocks), None


class MeanStatistic(Statistic):
    """A ratio of sums of the terms of samples, which depend on the counts of a sample alone.

    Parameters
    ----------
    terms : Terms
    data : Rows
        Samples that all count.
    value : callable, optional
        ``value(rows)``, the ratio of any samples; only `study_size` asks for it.
    **others
        Of `Statistic`.
    """

    data: Rows
    is_mean = True
    most_blocks = 1000

    def __init__(self, terms: Terms, data: Rows, value=None, **others):
        super().__init__(value, data, **others)
        self.terms = terms
        # (1 + m, n): the denominators come first
        self.of_row = self._terms(data, np.arange(len(data)))
        self.total = self.of_row.sum(axis=1)

    def _terms(self, rows: Rows, at: Indices) -> Floats:
        # without a label no sample may have enough
        if not len(rows):
            return np.zeros((len(self.of_row), 0))
        numerator, denominator = self.terms(rows, at)
        self._scalar = numerator.ndim == 1
        return np.vstack([denominator, numerator.T])

    def _ratio(self, sums: Floats):
        """N/D, of sums in the last axis; NaN where nothing that counts is left."""
        D = sums[..., :1]
        ratio = sums[..., 1:] / np.where(1e-12 * self.total[0] < D, D, np.nan)
        return ratio[..., 0] if self._scalar else ratio

    def estimate(self) -> Any:
        return self._ratio(self.total)

    def without_rows(self, block: Blocks) -> Floats:
        return self._ratio(self.total - _sums(block, self.of_row))

    def without_ratings(self, block: Blocks) -> Floats:
        return self._ratio(self._left(block, Blocks(np.zeros(len(self.data), np.intp), 1))[0])

    def without_raters(self, design) -> tuple[Floats, Floats]:
        left = self._left(design.panel.blocks, design.rows)
        whole = left.sum(axis=0)
        return self._ratio(whole), self._ratio(whole - left)

    def _left(self, block: Blocks, rows: Blocks) -> Floats:
        """Sums of the terms in blocks of samples, without each block of labels, (J, B, 1 + m)."""
        if block.apart:
            both = Blocks(rows.code[self.labels.row] * block.n + block.code, rows.n * block.n)
            changes = _sums(both, self._changes).reshape(rows.n, block.n, -1)
            return _sums(rows, self.of_row)[:, None] + changes
        kept = (self.data.keep(block.code != b) for b in range(block.n))
        return np.stack([self._of_blocks(left, rows) for left in kept], axis=1)

    def _of_blocks(self, data: Rows, rows: Blocks) -> Floats:
        """Sums of the terms of samples that may have lost labels, in blocks of these."""
        seen = np.flatnonzero(data.contributes(self.least_raters))
        return _sums(Blocks(rows.code[seen], rows.n), self._terms(data.take(seen), seen))

    @cached_property
    def _changes(self) -> Floats:
        """What the terms of its sample change by without each label, shape (1 + m, n_ratings).

        Labels of one sample that are alike change the same: each class is taken off once.
        """
        y: Annotations = self.labels
        row = y.row
        counted = self.data.anonymous()
        change = np.empty((len(self.of_row), len(row)))
        for k in range(y.shape[1]):
            at = np.flatnonzero(y.counts[:, k])
            losing = counted.take(at)
            losing.labels.counts[:, k] -= 1
            enough = np.flatnonzero(losing.contributes(self.least_raters))
            changed = -self.of_row
            changed[:, at[enough]] += self._terms(losing.take(enough), at[enough])
            given = np.flatnonzero(y.label == k)
            change[:, given] = changed[:, row[given]]
        return change


def _sums(block: Blocks, values: Floats) -> Floats:
    """Sums of values (m, n) over the units of each block, shape (n_blocks, m)."""
    return np.stack([np.bincount(block.code, v, block.n) for v in values], axis=1)


class Given:
    """Data of a function that is no metric of this package, as given."""

    def __init__(self, labels, prediction, w, groups: NDArray | None):
        self.labels = labels
        self.prediction = prediction
        self.w = w
        self.groups = groups

    @classmethod
    def read(cls, y: Any, prediction: Any, sample_weight: Any, groups: Any) -> "Given":
        """Data of one length, without the samples that nobody rated."""
        n = n_rows(y)
        check_same_length(n, prediction=prediction, groups=groups, sample_weight=sample_weight)
        data = cls(y, prediction, sample_weight, read_groups(groups, n))
        if isinstance(y, Annotations) and y.has_gaps:
            return data.take(y.rated)
        return data

    def __len__(self) -> int:
        return n_rows(self.labels)

    def take(self, rows: Indices) -> "Given":
        """Some of the samples."""
        parts = (self.labels, self.prediction, self.w, self.groups)
        return Given(*(take_rows(part, rows) for part in parts))

    def keep(self, ratings: Mask) -> "Given":
        """Some of the labels, and the samples that still have one."""
        y = self.labels.keep(ratings)
        return Given(y, self.prediction, self.w, self.groups).take(y.rated)


def statistic_of(
    metric: Callable, y, prediction, sample_weight, groups, options, raters: str | None = None
) -> Statistic:
    """The statistic that a metric is of these data, for `raters` who are fixed or a sample."""
    bound = with_options(metric, options)
    if bound is None:

        def value(data: Given) -> float:
            return metric(data.labels, data.prediction, **weight_params(data.w), **options)

        return Statistic(value, Given.read(y, prediction, sample_weight, groups))
    rows = read_for(bound, y, prediction, sample_weight, groups)
    if raters == "fixed" and isinstance(bound.tags, LossOverBins):
        # labels by one of these raters depend on each other within a sample only
        rows = rows.anonymous()
    return of_metric(bound, rows)


def of_metric(metric: Metric, rows: Rows) -> Statistic:
    """The statistic that a metric of this package is of these samples."""
    tags = metric.tags
    options = {
        "least_raters": tags.least_raters,
        "signed_root": tags.signed_root,
        "compares_raters": tags.compares_raters or tags.least_raters > 1,
        "metric": metric,
    }
    seen = rows.contributing(tags.least_raters)
    if (rows.n < tags.least_raters).any() and seen is not None:
        options["rests_on"] = (
            f"{len(seen)} of {len(rows)} samples, with {tags.least_raters}+ labels"
        )
    if metric.is_mean and seen is not None:
        return MeanStatistic(metric.terms, seen, value=metric.value, **options)
    # samples that do not count are no units; where none does, the metric says so
    return Statistic(metric.value, rows if seen is None else seen, second_order=True, **options)
