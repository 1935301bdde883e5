"""Rows that come in batches: what must be alike in them, and what is kept of them."""

import numpy as np
from numpy.typing import NDArray

from .._ground.arrays import Indices
from .._ground.checks import as_floats, as_names, distinct
from .._rows import Rows
from ._shared_terms import Binned
from ._streamed_bins import StreamedBins


class Batches:
    """Batches that fit each other, and the sums over bins of them: what accumulators share."""

    _n_blocks = 1

    def __init__(self) -> None:
        self._bins: StreamedBins | None = None
        # rows in each block
        self._sizes = np.zeros(self._n_blocks, np.int64)
        # a row of the first batch, which knows the classes and the kind of labels
        self._first: Rows | None = None
        self._grouped: bool | None = None

    @property
    def n_rows(self) -> int:
        """How many rows it has seen that count."""
        return int(self._sizes.sum())

    @staticmethod
    def _weigh_nothing(sample_weight) -> bool:
        """Whether no row of a batch counts, which may be where other batches have weight."""
        if sample_weight is None:
            return False
        w = as_floats(sample_weight, "sample_weight")
        return w.size > 0 and not w.any()

    def _seen_of(self, rows: Rows, groups, least: int) -> tuple[Rows, NDArray | None] | None:
        """The rows that count, in the order of the first batch, and the names of their groups."""
        if self._grouped not in (None, groups is not None):
            raise ValueError("groups must be given with all batches, or with none.")
        seen = rows.contributing(least)
        if seen is None:
            return None
        if self._first is not None:
            seen = seen.in_order(self._first.classes, "the first")
        self._check_kind(seen)
        # batches must share one scale
        if seen.scale > 500:
            raise ValueError("sample_weight has values above 1e150, whose squares overflow.")
        w = None if seen.w is None else np.ldexp(seen.w, seen.scale)
        seen = type(seen)(seen.labels, seen.prediction, w, seen.groups)
        if groups is None:
            return seen, None
        return seen, distinct(as_names(groups, "groups"), "groups")[0][seen.groups]

    def _check_kind(self, rows: Rows) -> None:
        if self._first is None:
            return
        if self._first.labels.known != rows.labels.known:
            raise ValueError("Counts and KnownProbabilities cannot be accumulated together.")
        if not _equal(self._first.classes, rows.classes):
            raise ValueError("Accumulators with different classes cannot be merged.")
        K = self._first.labels.shape[1]
        if rows.labels.shape[1] != K:
            raise ValueError(f"All batches must have {K} classes and the same bins.")

    def _keep(self, seen: Rows, block: Indices, grouped: bool) -> None:
        """Remember that these rows were added."""
        if self._first is None:
            self._first = seen.take([0])
        self._grouped = grouped
        self._sizes += np.bincount(block, minlength=self._n_blocks)

    def _add_bins(self, seen: Rows, binned: Binned, block: Indices, names) -> None:
        n_columns = binned.z.shape[1]
        bins = self._bins
        if bins is None:
            bins = StreamedBins(binned.bins, n_columns, self._n_blocks)
        # a correction alone asks who belongs together
        bins.add(seen, binned, block, names if binned.corrected else None)
        self._bins = bins

    def _merge_sums(self, other: "Batches") -> None:
        if other._first is None:
            return
        if self._grouped not in (None, other._grouped):
            raise ValueError("groups must be given with all batches, or with none.")
        self._check_kind(other._first)
        if other._bins is not None:
            theirs = other._bins
            if self._bins is None:
                self._bins = StreamedBins(theirs.bins, len(theirs.sums.w), self._n_blocks)
            self._bins.merge(theirs)
        self._first = other._first
        self._grouped = other._grouped
        self._sizes += other._sizes


def _equal(a: NDArray | None, b: NDArray | None) -> bool:
    """Whether neither has names, or both have the same."""
    return a is b or (a is not None and b is not None and np.array_equal(a, b))
