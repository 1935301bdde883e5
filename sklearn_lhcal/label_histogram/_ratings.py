"""Labels as long arrays of single labels, in the order of their samples."""

import warnings
from typing import Self

import numpy as np
from numpy.typing import NDArray

from .._utils.arrays import Floats, Indices, Integers
from .._utils.checks import as_names, checked, plain_array, take_rows
from .._utils.types import ArrayLike, Selection
from ._adjudication import AdjudicatedRatingsWarning, looks_adjudicated
from ._labels import Labels


class Ratings(Labels):
    """What `Annotations` hold: who rated which sample as what; see there for the attributes."""

    @checked
    def __init__(
        self,
        indptr: ArrayLike,
        rater: ArrayLike,
        label: ArrayLike,
        *,
        raters: ArrayLike,
        classes: ArrayLike,
        items: ArrayLike | None = None,
        ordered: bool = False,
    ) -> None:
        self.indptr = np.array(_as_integers(indptr, "indptr"), dtype=np.intp)
        self.rater = np.array(_as_integers(rater, "rater"), dtype=np.int32)
        self.label = np.array(_as_integers(label, "label"), dtype=np.int32)
        self.raters = as_names(raters, "raters")
        self.items = None if items is None else as_names(items, "items")
        self.ordered = ordered
        self.left_out: dict = {}
        names = as_names(classes, "classes")
        self._check(names)
        super().__init__(self._count(len(names)), names)
        self._make_read_only()
        self.adjudicated = looks_adjudicated(self)
        self.warn_if_adjudicated()

    def warn_if_adjudicated(self) -> None:
        """Warn where samples on which raters disagree have more labels."""
        if self.adjudicated:
            warnings.warn(
                "Samples on which raters disagree have more labels. If a further rater was asked "
                "because the first ones differed, pairs of labels disagree too seldom: "
                "irreducible losses, disagreement and agreement are biased. Then keep the labels "
                "that every sample was to have, as in y.first(2), which needs their order. Ignore "
                "this if hard samples were given more raters beforehand.",
                AdjudicatedRatingsWarning,
                stacklevel=3,
            )

    def _check(self, classes: NDArray) -> None:
        """ValueError unless the arrays fit together."""
        N = len(self.rater)
        if not self.indptr.ndim == self.rater.ndim == self.label.ndim == 1:
            raise ValueError("indptr, rater and label must be 1-D.")
        fits = self.indptr[:1].tolist() == [0] and self.indptr[-1] == N == len(self.label)
        if not fits or (np.diff(self.indptr) < 0).any():
            raise ValueError(
                "indptr must rise from 0 to the number of labels, and rater and label have one "
                f"entry a label; got {N} raters and {len(self.label)} labels."
            )
        for codes, names, word in (
            (self.rater, self.raters, "raters"),
            (self.label, classes, "classes"),
        ):
            if N and not (codes.min() >= 0 and codes.max() < len(names)):
                raise ValueError(f"There are numbers of {word} that have no name in {word}.")
        if self.items is not None and len(self.items) != len(self.indptr) - 1:
            raise ValueError(f"items has {len(self.items)} names for {len(self.indptr) - 1} rows.")

    def _count(self, K: int) -> Integers:
        """How many raters gave each sample each class."""
        n = len(self.indptr) - 1
        return np.bincount(self.row * K + self.label, minlength=n * K).reshape(n, K)

    def _make_read_only(self) -> None:
        for array in (self.indptr, self.rater, self.label, self.counts):
            array.flags.writeable = False

    def __setstate__(self, state: dict) -> None:
        # an array that was pickled can be written to; a copy, as of each block, looks at no sample
        vars(self).update(state)
        self._make_read_only()

    # --- numbers ---

    @property
    def row(self) -> Indices:
        """The sample of each label, shape (n_ratings,)."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))

    @property
    def n(self) -> Floats:
        """Raters of each sample n_i, shape (n_samples,)."""
        return np.diff(self.indptr).astype(np.float64)

    @property
    def n_raters(self) -> int:
        """How many raters gave a label in these samples."""
        return int(np.count_nonzero(np.bincount(self.rater, minlength=len(self.raters))))

    def plain(self) -> Self:
        """Itself, since an array would not hold the raters."""
        return self

    # --- some of them ---

    def _with(self, classes, columns, K: int) -> Self:
        labels = super()._with(classes, columns, K)
        if labels.counts is not self.counts:
            labels.label = columns.astype(np.int32)[self.label]
            labels._make_read_only()
        return labels

    def take(self, rows: Selection) -> Self:
        """Some of the samples, with their raters."""
        part = super().take(rows)
        index = np.arange(len(self))[rows]
        sizes = self.indptr[index + 1] - self.indptr[index]
        part.indptr = np.concatenate([[0], np.cumsum(sizes)])
        moved = self.indptr[index] - part.indptr[:-1]
        ratings = np.arange(part.indptr[-1]) + np.repeat(moved, sizes)
        part.rater = self.rater[ratings]
        part.label = self.label[ratings]
        part.items = take_rows(self.items, rows)
        part._make_read_only()
        return part


def _as_integers(a, name: str) -> NDArray:
    """Anything array-like that holds whole numbers."""
    array = plain_array(a, name)
    if array.dtype.kind == "O":
        array = np.asarray(array.tolist())
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} must hold integers, got an array of dtype {array.dtype}.")
    return array
