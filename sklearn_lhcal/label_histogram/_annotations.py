"""Annotations: labels that remember who spoke."""

import copy
from collections.abc import Iterator
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils import check_random_state

from .._utils.checks import any_array, as_names, checked, plain_array, take_rows, warn, warn_alike
from .._utils.types import ArrayLike, Indices, Integers, LabelsLike, NDArray, Seed, Selection
from ._adjudication import AdjudicatedRatingsWarning, looks_adjudicated
from ._labels import Labels, read_labels
from ._long_table import (
    assembled,
    coded,
    placed,
    rater_names,
    read_matrix,
    read_table,
    without_others,
)


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
            seen = "Samples on which raters disagree have more labels."
            if self.ordered:
                seen = "The first two labels of a sample differ more often than any two of it."
            warn(
                f"{seen} If a further rater was asked "
                "because the first ones differed, pairs of labels disagree too seldom: "
                "irreducible losses, disagreement and agreement are biased. Then keep the labels "
                "that every sample was to have, as in y.first(2), which needs their order. Ignore "
                "this if hard samples were given more raters beforehand.",
                AdjudicatedRatingsWarning,
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
        named = ("raters", self.rater, self.raters), ("classes", self.label, classes)
        for word, codes, names in named:
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
        part.indptr = np.append(0, np.cumsum(sizes))
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


class Annotations(Ratings):
    """Who said what: labels of n samples, each with the rater who gave it.

    They go wherever a label histogram goes, and look like counts of shape (n_samples, n_classes).
    Samples keep their raters when scikit-learn selects some of them. Memory is linear in the
    labels. Samples may be without labels: metrics leave them out, and estimators refuse them.

    Make them by `from_long`, `from_matrix` or `from_counts`.

    Parameters
    ----------
    indptr : array-like of shape (n_samples + 1,)
        The labels of sample i are the entries ``indptr[i]`` to ``indptr[i + 1]`` of `rater` and
        `label`.
    rater : array-like of shape (n_ratings,)
        Number of the rater of each label, his place in `raters`.
    label : array-like of shape (n_ratings,)
        Number of the class of each label, its place in `classes`.
    raters : array-like of shape (n_raters,)
        Names of the raters.
    classes : array-like of shape (n_classes,)
        Names of the classes.
    items : array-like of shape (n_samples,), optional
        Names of the samples.
    ordered : bool, default=False
        Whether the labels of a sample are in the order in which they were given.

    Attributes
    ----------
    indptr, rater, label : ndarray
        As above, read-only.
    row : ndarray of shape (n_ratings,)
        The sample of each label.
    raters, classes : ndarray
        Names; a selection of samples keeps all of them. `classes` is None where `from_counts` found
        no names.
    items : ndarray of shape (n_samples,) or None
        Names of the samples, where they are known.
    counts : ndarray of shape (n_samples, n_classes)
        How many raters gave each sample each class, int64, read-only.
    n : ndarray of shape (n_samples,)
        How many raters each sample has.
    rated : ndarray of shape (n_rated_rows,)
        Numbers of the samples with labels.
    has_gaps : bool
        Whether a sample is without labels.
    left_out : dict
        How often each label that is no class was given, in the whole table.
    adjudicated : bool
        Whether samples on which raters disagree have more labels, beyond doubt
        (`adjudication_test`). Then there is an `AdjudicatedRatingsWarning`, here and from metrics
        that compare raters of a sample.

    Raises
    ------
    ValueError
        Numbers of raters or classes that have no name, an `indptr` that does not fit.

    Examples
    --------
    >>> y = Annotations.from_long(
    ...     item=["i", "i", "j"], rater=["Ann", "Bob", "Ann"], label=["a", "b", "b"]
    ... )
    >>> y
    Annotations(2 samples, 2 raters, 3 labels of 2 classes)
    >>> y.counts
    array([[1, 1],
           [0, 1]])
    >>> y[[1]].raters[y[[1]].rater]
    array(['Ann'], dtype='<U3')
    """

    def __repr__(self) -> str:
        return (
            f"Annotations({len(self)} samples, {self.n_raters} raters, {len(self.rater)} labels of "
            f"{self.shape[1]} classes)"
        )

    # --- made of ---

    @classmethod
    @checked
    def from_long(
        cls,
        *table: Any,
        item: str | ArrayLike = "item",
        rater: str | ArrayLike = "rater",
        label: str | ArrayLike = "label",
        order: str | ArrayLike | None = None,
        items: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        on_duplicate: Literal["raise", "first", "last"] = "raise",
        not_a_class: ArrayLike | None = None,
    ) -> Self:
        """Annotations from a long table, one annotation a row.

        Parameters
        ----------
        *table : frame, or three array-likes of shape (n_ratings,)
            A pandas or polars frame, or a dict of arrays, whose columns `item`, `rater` and `label`
            name; or the three arrays themselves. Nothing: `item`, `rater` and `label` are arrays.
        item, rater, label : str, or array-like of shape (n_ratings,)
            What was rated, by whom, and as what. A missing label (None, NaN, NA) is no label.
        order : str, or array-like of shape (n_ratings,), optional
            When each label was given; it sorts the labels of an item. Numbers, also in text; times,
            also in text ("8:15", "9/30/2020", "Wed Dec 19 15:14:51 PST 2018"), whose names of time
            zones are dropped; or an ordered Categorical.
        items : array-like of shape (n_samples,), optional
            The items in the order of the samples of X; those that nobody rated become samples
            without labels. Default: the sorted distinct items.
        classes : array-like of shape (n_classes,), optional
            The classes in the order of the columns, which is kept everywhere; half grades, 1.5, are
            classes only if they are given. Default: the
            categories of an ordered Categorical in their order; else the sorted distinct labels,
            and a model may then know further classes, as with 1-D labels.
        on_duplicate : {"raise", "first", "last"}, default="raise"
            What happens where a rater rates an item twice: an error, or the first or the last label
            counts, by `order`, else by the rows of the table.
        not_a_class : array-like, optional
            Labels that answer nothing, "cannot grade": they are no labels, and `left_out` counts
            them.

        Returns
        -------
        Annotations

        Raises
        ------
        ValueError
            An item or rater without a name, a label given twice, a label that is not among
            `classes`, an item that is not among `items`, no label at all; an order that is neither
            numbers nor times, or whose days and months cannot be told apart.
        ImportError
            Times as text without pandas.

        Warns
        -----
        UserWarning
            Raters, or labels where `classes` are not given, that differ only in case or blanks, or
            are "None", "nan", "" or a list as text.

        Examples
        --------
        >>> import pandas as pd
        >>> table = pd.DataFrame({"image": [7, 7, 8], "who": [1, 2, 1], "said": ["a", "b", "b"]})
        >>> Annotations.from_long(table, item="image", rater="who", label="said").items
        array([7, 8])
        """
        long = read_table(table, item, rater, label, order)
        row, names = coded(long.item, "item")
        speaker, raters = coded(long.rater, "rater")
        for codes, word in ((row, "item"), (speaker, "rater")):
            without = np.flatnonzero(codes < 0)
            if without.size:
                raise ValueError(
                    f"{without.size} samples have no {word} id (first: sample {without[0]}); give "
                    "each sample an id or drop it."
                )
        if items is not None:
            row, names = placed(row, names, as_names(items, "items"))
        long = long._replace(item=row, rater=speaker)
        return cls._of(long, names, raters, classes, not_a_class, on_duplicate)

    @classmethod
    @checked
    def from_matrix(
        cls,
        matrix: ArrayLike,
        *,
        raters: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        ordered: bool = False,
        not_a_class: ArrayLike | None = None,
    ) -> Self:
        """Annotations from a matrix with one row an item and one column a rater.

        Parameters
        ----------
        matrix : array-like or frame of shape (n_samples, n_raters)
            Labels. Gaps are None, NaN or pandas' NA. (Where raters are the samples, transpose it.)
            Every column is a rater: make ids the index, and leave out a reference or consensus.
        raters : array-like of shape (n_raters,), optional
            Names of the raters. Default: the columns of a frame, else 0, 1, 2, ….
        classes : array-like of shape (n_classes,), optional
            As in `from_long`.
        ordered : bool, default=False
            Whether the columns are in the order in which the raters were asked.
        not_a_class : array-like, optional
            As in `from_long`.

        Returns
        -------
        Annotations

        Raises
        ------
        ValueError
            No matrix, a label that is not among `classes`, raters that are not distinct, no label
            at all. A column of a frame that looks like ids: its values are all different, and are
            text that occurs in no other column, of three rows or more; or there are more than ten
            rows, and the other columns have at most half as many different values as there are
            rows.

        Warns
        -----
        UserWarning
            As `from_long`.

        Examples
        --------
        >>> Annotations.from_matrix([["a", "b", None], ["b", "b", "b"]]).counts
        array([[1, 1],
               [0, 3]])
        """
        long, items = read_matrix(matrix)
        names = rater_names(matrix, raters)
        if ordered:
            long = long._replace(order=long.rater)
        return cls._of(long, items, names, classes, not_a_class)

    @classmethod
    def from_counts(cls, y: LabelsLike) -> Self:
        """Annotations from counts without raters: every label has a rater of its own.

        Parameters
        ----------
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes, but no known probabilities. Samples may be empty.

        Returns
        -------
        Annotations
            The raters are 0, 1, 2, ….

        Raises
        ------
        ValueError
            As `check_counts`; known probabilities.

        Examples
        --------
        >>> Annotations.from_counts([[2, 1], [0, 1]]).rater
        array([0, 1, 2, 3], dtype=int32)
        """
        labels = read_labels(y, empty_rows=True)
        if labels.known:
            raise ValueError("KnownProbabilities have no raters; give counts.")
        n, K = labels.shape
        N = int(labels.counts.sum())
        label = np.repeat(np.tile(np.arange(K), n), labels.counts.ravel())
        indptr = np.append(0, np.cumsum(labels.counts.sum(axis=1)))
        made = cls(indptr, np.arange(N), label, raters=np.arange(N), classes=np.arange(K))
        made.classes = labels.classes
        made.graded = labels.graded
        made.single = labels.single and not labels.graded
        made.numbered = labels.numbered
        return made

    @classmethod
    def _of(cls, long, items, raters, classes, not_a_class, on_duplicate: str = "raise") -> Self:
        """Of a table whose items and raters are numbers by now."""
        long, left_out = without_others(long, not_a_class)
        classes = long.classes if classes is None else classes
        parts = assembled(long, items, raters, classes, on_duplicate)
        warn_alike(parts["raters"], "raters")
        if classes is None:
            warn_alike(parts["classes"], "classes")
        made = cls(**parts)
        # classes that were not named are those that occur, and no column numbers: raters said them
        made.single = classes is None
        made.numbered = False
        made.graded = classes is not None
        made.left_out = left_out
        return made

    # --- some of them ---

    def keep(self, ratings: ArrayLike) -> Self:
        """Some of the labels, in the same samples; samples may become empty.

        Parameters
        ----------
        ratings : array-like of shape (n_ratings,), bool
            Which labels to keep, in the order of `rater` and `label`.

        Returns
        -------
        Annotations

        Examples
        --------
        >>> y = Annotations.from_matrix([["a", "b"], ["b", "b"]], raters=["Ann", "Bob"])
        >>> y.keep(y.raters[y.rater] == "Bob").counts
        array([[0, 1],
               [0, 1]])
        """
        kept = any_array(ratings, "ratings")
        if kept.shape != self.rater.shape or kept.dtype != bool:
            raise ValueError(
                f"ratings must hold {len(self.rater)} booleans, one a label, got dtype "
                f"{kept.dtype} and shape {kept.shape}."
            )
        part = copy.copy(self)
        part.indptr = np.append(0, np.cumsum(kept))[self.indptr]
        part.rater = self.rater[kept]
        part.label = self.label[kept]
        part.counts = part._count(self.shape[1])
        part._make_read_only()
        return part

    @checked
    def first(self, per_row: int) -> Self:
        """The first labels of each sample, free of what was asked for afterwards.

        Parameters
        ----------
        per_row : int
            How many; a sample with fewer keeps all.

        Returns
        -------
        Annotations

        Raises
        ------
        ValueError
            If the order of the labels is not known.

        Examples
        --------
        >>> y = Annotations.from_matrix([["a", "b", "b"], ["a", "a", None]], ordered=True)
        >>> y.first(2).counts
        array([[1, 1],
               [2, 0]])
        """
        if not self.ordered:
            raise ValueError(
                "Which labels came first is not known; give from_long order=, or from_matrix "
                "ordered=True."
            )
        part = self.keep(np.arange(len(self.rater)) - self.indptr[self.row] < per_row)
        part.adjudicated = looks_adjudicated(part)
        return part

    @checked
    def subsample(
        self, *, per_row: int | None = None, n_raters: int | None = None, random_state: Seed = None
    ) -> Self:
        """Fewer labels, as if fewer had been asked for: of a smaller panel, or of each sample.

        Parameters
        ----------
        per_row : int, optional
            How many labels of each sample to keep, at random; a sample with fewer keeps all.
        n_raters : int, optional
            How many raters to keep, drawn at random among those with labels; this comes before
            `per_row`.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        Annotations
            The same samples; some may be without labels where `n_raters` is given.

        Raises
        ------
        ValueError
            Numbers below 1, more raters than there are.

        Examples
        --------
        >>> y = Annotations.from_matrix([["a", "b", "a"], ["b", "b", "b"]])
        >>> y.subsample(per_row=2, random_state=0).n
        array([2., 2.])
        """
        rng = check_random_state(random_state)
        part = self
        if n_raters is not None:
            present = np.unique(self.rater)
            if n_raters > len(present):
                raise ValueError(f"n_raters is {n_raters}, but there are {len(present)} raters.")
            panel = np.zeros(len(self.raters), dtype=bool)
            panel[rng.choice(present, n_raters, replace=False)] = True
            part = part.keep(panel[part.rater])
        if per_row is not None:
            row = part.row
            shuffled = np.lexsort((rng.random_sample(len(row)), row))
            rank = np.empty(len(row), dtype=np.intp)
            rank[shuffled] = np.arange(len(row)) - part.indptr[row]
            part = part.keep(rank < per_row)
        return part

    def leave_one_rater_out(self) -> Iterator[tuple[Any, Self]]:
        """Each rater in turn, and the labels of all the others.

        Yields
        ------
        rater : object
            The name of one who gave a label.
        rest : Annotations
            The same samples without the labels of this rater; some may be without labels.

        Examples
        --------
        >>> y = Annotations.from_matrix([["a", "b"], ["b", "b"]], raters=["Ann", "Bob"])
        >>> for rater, rest in y.leave_one_rater_out():
        ...     print(rater, rest.counts.tolist())
        Ann [[0, 1], [0, 1]]
        Bob [[1, 0], [0, 1]]
        """
        for code in np.unique(self.rater).tolist():
            yield self.raters.tolist()[code], self.keep(self.rater != code)
