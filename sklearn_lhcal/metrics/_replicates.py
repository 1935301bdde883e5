"""A metric without blocks of rows, and without blocks of ratings: the values of a jackknife."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._ground.arrays import Floats, Indices
from .._ground.bins import BinSums, without_each
from .._ground.checks import check_same_length, n_rows, take_rows
from .._ground.estimators import weight_params
from .._ground.facts import facts_of
from .._ground.jackknife import Blocks, LeftOut, Panel, Replicates, cells_of, deal_cells
from .._ground.rater_shares import row_blocks
from .._rows import Rows, read_groups
from ..label_histogram import Annotations
from ._bins_without import Left, RaterSums, changes_of_ratings, sums_of_blocks
from ._evaluate import evaluate, read_for
from ._shared_terms import Binned


class Statistic(ABC):
    """A metric of given data, which can leave parts of them out.

    Attributes
    ----------
    labels : Labels or other y
    w, groups : ndarray of shape (n,) or None
        Weights; numbers of groups.
    least_raters : int
    mapped : bool
        Whether values are those of the loss whose signed root the metric is.
    second_order : bool
        Whether it is no mean over rows, but of products of them.
    """

    # Annotations where ratings are left out
    labels: Any
    w: Any
    groups: NDArray | None
    least_raters: int = 1
    mapped = False
    second_order = False

    @property
    def n(self) -> int:
        """Number of rows."""
        return n_rows(self.labels)

    def replicates(self, rows: Blocks, panel: Panel | None) -> Replicates:
        """The value of all, and without each block of rows, raters and cells."""
        of_rows = self.without_rows(rows)
        ratings = None if panel is None else self.without_ratings(panel.raters, panel.cells)
        return Replicates(self.estimate(), of_rows, ratings)

    def cells(self, n_blocks: int, rng) -> Blocks | None:
        """What of its ratings is left out at a time, beside raters."""
        return deal_cells(self.labels, self.groups, n_blocks, rng)

    @property
    def of_pairs(self) -> bool:
        """Whether it compares the ratings of a row with each other."""
        return False

    @abstractmethod
    def estimate(self) -> float:
        """The statistic of all data."""

    @abstractmethod
    def without_rows(self, block: Blocks) -> Floats:
        """The statistic without each block of rows, shape (n_blocks,)."""

    @abstractmethod
    def without_ratings(self, raters: Blocks, cells: Any) -> LeftOut:
        """The statistic without each block of raters, and of cells."""


def statistic_of(metric, y, prediction, sample_weight, groups, options) -> Statistic:
    """What computes the replicates of a metric: by sums where it is a ratio of them."""
    facts = facts_of(metric, **options)
    if not facts.of_rows:
        return OfFunction(metric, y, prediction, sample_weight, groups, options)
    rows = read_for(metric, y, prediction, sample_weight, groups, **options)
    # rows that do not count are no units; where none does, the metric says so
    rows = rows.contributing(facts.least_raters) or rows
    if facts.terms is not None:
        return OfMeans(metric, rows, options)
    # bins by quantiles depend on the rows
    if facts.sums is None or options.get("strategy", "uniform") != "uniform":
        return OfRows(metric, rows, options)
    if not isinstance(rows.labels, Annotations):
        return OfBins(metric, rows, options)
    # what a rater says of a group may be in several rows
    if rows.groups is not None or facts.binned is None:
        return OfRows(metric, rows, options)
    return OfRaterBins(metric, rows, options)


class OfRows(Statistic):
    """By evaluation of a metric of this package on what is left; all rows contribute, or none."""

    def __init__(self, metric: Callable, rows: Rows, options: dict):
        facts = facts_of(metric, **options)
        self.metric = metric
        self.rows = rows
        self.options = options
        self.labels = rows.labels
        self.w = rows.w
        self.groups = rows.groups
        self.least_raters = facts.least_raters
        self.mapped = facts.loss is not None
        self.second_order = facts.terms is None
        self.empty = rows.contributing(self.least_raters) is None

    def estimate(self) -> float:
        return self._value(self.rows)

    def without_rows(self, block: Blocks) -> Floats:
        left = (np.flatnonzero(block.code != b) for b in range(block.n))
        return np.array([self._value(self.rows.take(rows)) for rows in left])

    def without_ratings(self, raters: Blocks, cells: Any) -> LeftOut:
        return _left_out(self.labels, raters, cells, lambda kept: self._value(self._of(kept)))

    @property
    def of_pairs(self) -> bool:
        return self.least_raters > 1 or facts_of(self.metric, **self.options).compares_raters

    def part(self, ratings: NDArray[np.bool_], rows: Indices) -> "Statistic":
        """Of some of the ratings, in some of the rows."""
        return type(self)(self.metric, self._of(ratings).take(rows), self.options)

    def _of(self, kept: NDArray[np.bool_]) -> Rows:
        """The rows with some of their ratings."""
        rows = self.rows
        return Rows(self.labels.keep(kept), rows.prediction, rows.w, rows.groups, rows.scale)

    def _value(self, rows: Rows) -> float:
        x = evaluate(self.metric, rows, **self.options)
        return x * abs(x) if self.mapped else x


class OfBins(OfRows):
    """By sums over bins, or over rows: those of all blocks but one are sums of what is left."""

    def without_rows(self, block: Blocks) -> Floats:
        if self.empty:
            return super().without_rows(block)
        facts: Any = facts_of(self.metric, **self.options)
        blocks = [self.rows.take(np.flatnonzero(block.code == b)) for b in range(block.n)]
        sums = [facts.sums(rows, **self.options) for rows in blocks]
        left = [facts.of_sums(s, self.rows, **self.options) for s in without_each(sums)]
        return np.array(left)


class OfRaterBins(OfRows):
    """By sums over bins, and of which raters have terms in several blocks: in two passes."""

    def __init__(self, metric: Callable, rows: Rows, options: dict):
        super().__init__(metric, rows, options)
        self.facts: Any = facts_of(metric, **options)

    @cached_property
    def binned(self) -> Binned:
        """What is compared."""
        return self.facts.binned(self.rows, **self.options)

    @cached_property
    def whole(self) -> RaterSums:
        """The sums of all rows."""
        return sums_of_blocks(self.rows, self.binned, np.zeros(self.n, np.intp), 1)

    def estimate(self) -> float:
        if self.empty:
            return self._value(self.rows)
        return self._of_sums(self.whole.sums())

    def without_rows(self, block: Blocks) -> Floats:
        if self.empty:
            return np.full(block.n, self._value(self.rows))
        change = sums_of_blocks(self.rows, self.binned, block.code, block.n)
        self.whole = change.over_blocks()
        change.negate()
        return self._without(change, block.code[self.labels.row][None])

    def without_ratings(self, raters: Blocks, cells: Blocks) -> LeftOut:
        if self.empty:
            value = self._value(self.rows)
            return LeftOut(np.full(raters.n, value), np.full(cells.n, value))
        of_rater = raters.code[self.labels.rater]
        of_cell = cells.code
        if raters.apart and cells.apart:
            # what a row loses is alike in both ways
            code = np.stack([of_rater, raters.n + of_cell])
            both = self._without_ratings(code, raters.n + cells.n, apart=True)
            return LeftOut(*np.split(both, [raters.n]))
        return LeftOut(
            self._without_ratings(of_rater[None], raters.n, raters.apart),
            self._without_ratings(of_cell[None], cells.n, cells.apart),
        )

    def _without_ratings(self, code: NDArray, n_blocks: int, apart: bool) -> Floats:
        least = self.least_raters
        change = changes_of_ratings(self.rows, self.binned, code, n_blocks, least, apart)
        return self._without(change, code)

    def _without(self, change: RaterSums, code: NDArray) -> Floats:
        """Values without each block, of ratings (n_ways, n_ratings) in the blocks of `code`."""
        few = self.whole.few(code, change.terms.places.n_blocks)
        return np.array([self._of_sums(sums) for sums in self.whole.without(change, few)])

    def _of_sums(self, sums: BinSums) -> float:
        return self.facts.of_sums(sums, self.rows, **self.options)


class OfMeans(OfRows):
    """By sums over blocks, of a metric that is a ratio of sums over rows.

    Each row is looked at once, and once more for each different label that it may lose.
    """

    terms: Any

    def __init__(self, metric: Callable, rows: Rows, options: dict):
        super().__init__(metric, rows, options)
        self.terms = facts_of(metric, **options).terms
        self.numerator = np.zeros(len(rows))
        self.denominator = np.zeros(len(rows))
        if not self.empty:
            self.numerator, self.denominator = self.terms(rows, **options)

    def estimate(self) -> float:
        if self.empty:
            return self._value(self.rows)
        N = self.numerator.sum()
        D = self.denominator.sum()
        return float(_ratios(np.stack([N, D]), D))

    def without_rows(self, block: Blocks) -> Floats:
        terms = (self.numerator, self.denominator)
        N, D = (np.bincount(block.code, a, minlength=block.n) for a in terms)
        return _ratios(np.stack([N.sum() - N, D.sum() - D]), D.sum())

    def cells(self, n_blocks: int, rng) -> Blocks | None:
        return None if self.groups is None else cells_of(self.labels, self.groups)

    def without_ratings(self, raters: Blocks, cells: Blocks | None) -> LeftOut:
        y = self.labels
        total = np.array([[self.numerator.sum()], [self.denominator.sum()]])
        without = np.repeat(total, raters.n, axis=1)
        each, times = [], []
        for rows, ratings, row in row_blocks(y):
            counts = y.counts[rows]
            label = y.label[ratings] * np.intp(len(counts)) + row
            code = raters.code[y.rater[ratings]]
            single, given = self._without_one(counts, rows)
            if cells is None:
                # ratings of one row that are alike are cells that are alike
                each.append(_ratios(total + single[:, given], total[1]))
                times.append(counts.T.ravel()[given])
            else:
                each.append(single[:, label])
            if not raters.apart:
                self._lose_several(without, counts, rows, row, code, label)
                continue
            for sums, change in zip(without, single, strict=True):
                # denominators seldom change
                if change.any():
                    sums += np.bincount(code, change[label], raters.n)
        of_raters = _ratios(without, total[1])
        if cells is None:
            return LeftOut(of_raters, np.concatenate(each), np.concatenate(times))
        changes = (np.bincount(cells.code, a, cells.n) for a in np.concatenate(each, axis=1))
        return LeftOut(of_raters, _ratios(total + np.stack(list(changes)), total[1]))

    def without_each_rating(self) -> Iterator[tuple[slice, Floats]]:
        """Some ratings, and what both terms change by without each of them, (2, n_ratings)."""
        y = self.labels
        for rows, ratings, row in row_blocks(y):
            single, _ = self._without_one(y.counts[rows], rows)
            yield ratings, single[:, y.label[ratings] * np.intp(rows.stop - rows.start) + row]

    def _without_one(self, counts: NDArray, rows: slice) -> tuple[Floats, Indices | slice]:
        """Changes of both terms where a row loses a label, (2, K·m), and the places that matter."""
        m, K = counts.shape
        n = self.rows.n[rows]
        changes = np.zeros((2, K * m))
        if 2 * np.count_nonzero(counts) < counts.size:
            given = np.flatnonzero(counts.T)
            column, at = np.divmod(given, m)
            left = counts[at]
            left[np.arange(len(at)), column] -= 1
            changes[:, given] = self._changes(left, n[at] - 1, at + rows.start)
            return changes, given
        for k in range(K):
            left = counts.copy()
            # a class without labels loses none
            loses = counts[:, k] > 0
            left[:, k] -= loses
            changes[:, k * m : (k + 1) * m] = self._changes(left, n - loses, rows)
        return changes, slice(None)

    def _lose_several(self, without, counts, rows: slice, row, code, label) -> None:
        """Add the changes where all ratings of a row in one block are lost together."""
        m, K = counts.shape
        B = without.shape[1]
        pair, place = np.unique(row * B + code, return_inverse=True)
        gone = np.bincount(place * K + label // m, minlength=len(pair) * K).reshape(-1, K)
        at, code = np.divmod(pair, B)
        n = self.rows.n[rows][at] - gone.sum(axis=1)
        changes = self._changes(counts[at] - gone, n, at + rows.start)
        for sums, change in zip(without, changes, strict=True):
            sums += np.bincount(code, change, B)

    def _changes(self, counts: NDArray, n: NDArray, rows) -> Floats:
        """Terms of rows with other counts less those of the rows themselves, shape (2, m)."""
        changes = np.empty((2, len(n)))
        np.negative(self.numerator[rows], out=changes[0])
        np.negative(self.denominator[rows], out=changes[1])
        contributes = n >= self.least_raters
        w = take_rows(self.w, rows)
        if w is not None:
            contributes &= w > 0
        if not contributes.any():
            return changes
        part = Rows(Left(counts, n, self.labels.classes), self.rows.prediction[rows], w)
        where: Any = slice(None)
        if not contributes.all():
            where = np.flatnonzero(contributes)
            part = part.take(where)
        for change, term in zip(changes, self.terms(part, **self.options), strict=True):
            change[where] += term
        return changes


def _ratios(sums: NDArray, whole: Any) -> Floats:
    """N/D of sums (2, m); NaN where nothing that contributes is left."""
    N, D = sums
    return N / np.where(1e-12 * whole < D, D, np.nan)


def _left_out(y: Annotations, raters: Blocks, cells: Blocks, value: Callable) -> LeftOut:
    """By evaluation: ``value(kept)`` of the ratings that are kept, (n_ratings,) bool."""
    block_of = raters.code[y.rater]
    return LeftOut(
        np.array([value(block_of != b) for b in range(raters.n)]),
        np.array([value(cells.code != b) for b in range(cells.n)]),
    )


class OfFunction(Statistic):
    """By evaluation of any function of rows, which says nothing of itself."""

    def __init__(self, metric: Callable, y, prediction, sample_weight, groups, options: dict):
        n = n_rows(y)
        check_same_length(n, prediction=prediction, groups=groups, sample_weight=sample_weight)
        self.metric = metric
        self.options = options
        self.least_raters = facts_of(metric, **options).least_raters
        self.groups = read_groups(groups, n)
        self.labels = y
        self.prediction = prediction
        self.w = sample_weight
        if isinstance(y, Annotations) and y.has_gaps:
            self.labels, self.prediction, self.w = self._of(y.rated)
            self.groups = take_rows(self.groups, y.rated)

    def estimate(self) -> float:
        return self._value(np.arange(self.n))

    def without_rows(self, block: Blocks) -> Floats:
        return np.array([self._value(np.flatnonzero(block.code != b)) for b in range(block.n)])

    def without_ratings(self, raters: Blocks, cells: Any) -> LeftOut:
        return _left_out(self.labels, raters, cells, self._kept)

    def _kept(self, ratings: NDArray[np.bool_]) -> float:
        """With some of the ratings, and the rows that still have one."""
        y = self.labels.keep(ratings)
        return self._value(y.rated, y)

    def _of(self, rows: Indices, y=None) -> tuple:
        """y, prediction and weights of some rows."""
        y = self.labels if y is None else y
        return tuple(take_rows(part, rows) for part in (y, self.prediction, self.w))

    def _value(self, rows: Indices, y=None) -> float:
        y, z, w = self._of(rows, y)
        x = self.metric(y, z, **weight_params(w), **self.options)
        if isinstance(x, (tuple, list)) or np.ndim(x):
            raise ValueError(
                f"metric must return one number, it returned a {type(x).__name__}; choose one of "
                "its parts."
            )
        return float(x)
