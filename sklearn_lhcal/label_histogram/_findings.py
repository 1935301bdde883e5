"""Several findings of each sample, each a yes or no by several raters."""

import copy
from collections.abc import Hashable, Mapping
from typing import Any, Literal, NoReturn, Self

import numpy as np

from .._utils.checks import (
    as_floats,
    as_names,
    check_finite,
    check_same_length,
    checked,
    errors_of,
    is_gap,
    is_real,
    samples_of,
    take_rows,
)
from .._utils.finding_tables import finding_table
from .._utils.names import Side, check_classes, check_row_names, column_names, positions, row_names
from .._utils.types import ArrayLike, Integers, NDArray, Selection
from ._annotations import Annotations
from ._labels import Labels
from ._long_table import coded, placed, read_table, without_others


class MultiLabelCounts:
    """Several findings of each sample: how many raters said yes, of how many who were asked.

    A chest film has 14 findings, each a yes or no by several raters. Each finding has a label
    histogram with the two classes 0 (absent) and 1 (present), which `of` returns. Raters may be
    asked about some findings only. `sklearn_lhcal.metrics.per_finding` scores each finding, and
    `sklearn_lhcal.calibration.PerFinding` calibrates each one.

    Where it is known who said what, use `from_long` or `from_annotations`: intervals can then hold
    for new raters.

    Parameters
    ----------
    positive : array-like or frame of shape (n_samples, n_findings)
        How many raters said that the finding is present.
    asked : array-like or frame of shape (n_samples, n_findings), or int
        How many raters were asked about the finding in this sample; 0: nobody. One number holds for
        all: 1 where `positive` is a table of 0 and 1.
    findings : array-like of shape (n_findings,), optional
        Names of the findings, in the order of the columns. Default: the columns of a frame, else
        0, 1, 2, ….

    Attributes
    ----------
    findings : ndarray of shape (n_findings,)
        Names of the findings.
    positive, asked : ndarray of shape (n_samples, n_findings), int64
    shape : tuple of two int
        ``(n_samples, n_findings)``.
    items : ndarray of shape (n_samples,) or None
        Names of the samples, where they are known.

    Raises
    ------
    ValueError
        More yes than raters who were asked, negative or fractional numbers, NaN, shapes that
        differ, names that are not one for each finding, or that come twice.

    Examples
    --------
    >>> y = MultiLabelCounts([[2, 0], [1, 1]], asked=[[3, 3], [3, 1]], findings=["a", "b"])
    >>> y
    MultiLabelCounts(2 samples, 2 findings, 10 labels)
    >>> y.of("a").counts
    array([[1, 2],
           [2, 1]])
    >>> y[[1]].positive
    array([[1, 1]])
    """

    ndim = 2

    def __init__(
        self, positive: ArrayLike, asked: ArrayLike, findings: ArrayLike | None = None
    ) -> None:
        check_row_names(positive=positive, asked=asked)
        names = column_names(positive, "positive")
        L = np.atleast_2d(as_floats(positive, "positive")).shape[1]
        if findings is not None:
            names = check_classes(findings, L, "findings")
        side = Side("y", names, L, "y", graded=findings is not None, noun="findings")
        yes = _whole_numbers(side, positive, "positive")
        if is_real(asked):
            n = _whole_numbers(side._replace(names=None), np.full(yes.shape, asked), "asked")
        else:
            n = _whole_numbers(side, asked, "asked")
        self.side = side
        check_same_length(len(yes), asked=n)
        wrong = np.argwhere(yes > n)
        if len(wrong):
            i, f = wrong[0]
            raise ValueError(
                f"positive is {yes[i, f]}, above asked, {n[i, f]}, in sample {i}, finding "
                f"{self.findings.tolist()[f]!r}: asked counts all raters who said yes or no."
            )
        counts = np.stack([n - yes, yes], axis=-1)
        self._labels: list = [Labels(counts[:, f]) for f in range(L)]
        self.items = next((a for a in map(row_names, (positive, asked)) if a is not None), None)

    @classmethod
    def from_annotations(cls, annotations: Mapping[Any, Annotations]) -> Self:
        """Findings of the same samples, each with who said what.

        Parameters
        ----------
        annotations : dict of Annotations
            ``{finding: Annotations}``, of two classes each, absent before present. All have the
            same samples in the same order; samples may be without labels.

        Returns
        -------
        MultiLabelCounts

        Raises
        ------
        TypeError
            No dict, or an empty one.
        ValueError
            A finding that is no Annotations, or has another number of samples or classes.

        Examples
        --------
        >>> y = Annotations.from_matrix([[1, 0], [0, 0]])
        >>> MultiLabelCounts.from_annotations({"edema": y}).asked
        array([[2],
               [2]])
        """
        if not isinstance(annotations, Mapping) or not annotations:
            raise TypeError(f"annotations must be a dict of Annotations, got {annotations!r:.80}.")
        labels = list(annotations.values())
        for name, y in annotations.items():
            if not isinstance(y, Annotations) or y.shape != (len(labels[0]), 2):
                raise ValueError(
                    f"Finding {name!r} must be Annotations of shape ({len(labels[0])}, 2), of the "
                    f"same samples and the classes absent and present, got {y!r:.80}."
                )
        everybody = np.unique(np.concatenate([y.raters for y in labels]))
        names = as_names(list(annotations), "findings")
        made = cls.__new__(cls)
        made._labels = [_of_raters(y, everybody) for y in labels]
        made.side = Side("y", names, len(labels), "y", graded=True, noun="findings")
        made.items = labels[0].items
        return made

    @classmethod
    @checked
    def from_long(
        cls,
        *table: Any,
        item: str | ArrayLike = "item",
        rater: str | ArrayLike = "rater",
        label: str | ArrayLike = "label",
        finding: str | ArrayLike = "finding",
        order: str | ArrayLike | None = None,
        items: ArrayLike | None = None,
        findings: ArrayLike | None = None,
        classes: ArrayLike = (0, 1),
        on_duplicate: Literal["raise", "first", "last"] = "raise",
        not_a_class: ArrayLike | None = None,
    ) -> Self:
        """Findings from a long table: one row is what one rater said of one finding of one sample.

        Parameters
        ----------
        *table : frame, or three array-likes of shape (n_ratings,)
            As in `Annotations.from_long`.
        item, rater, label, finding : str, or array-like of shape (n_ratings,)
            Which sample, by whom, yes or no, and about what. A missing label is none.
        order : str, or array-like of shape (n_ratings,), optional
            As in `Annotations.from_long`.
        items : array-like of shape (n_samples,), optional
            The samples in the order of the predictions. Default: the sorted distinct items.
        findings : array-like of shape (n_findings,), optional
            All findings in the order of the columns, also those that nobody was asked about.
            Default: the sorted distinct findings.
        classes : array-like of shape (2,), default=(0, 1)
            What stands for absent and for present, ``["no", "yes"]`` say.
        on_duplicate, not_a_class
            As in `Annotations.from_long`.

        Returns
        -------
        MultiLabelCounts

        Raises
        ------
        ValueError
            As `Annotations.from_long`, with the name of the finding; a sample without a finding, a
            finding that is not among `findings`; without `findings`, one that has no label.

        Examples
        --------
        >>> import pandas as pd
        >>> table = pd.DataFrame(
        ...     {
        ...         "film": [1, 1, 1, 2],
        ...         "reader": ["Ann", "Bob", "Ann", "Ann"],
        ...         "finding": ["edema", "edema", "mass", "edema"],
        ...         "present": [1, 0, 0, 1],
        ...     }
        ... )
        >>> y = MultiLabelCounts.from_long(
        ...     table, item="film", rater="reader", label="present", finding="finding"
        ... )
        >>> y.findings, y.asked.tolist()
        (array(['edema', 'mass'], dtype='<U5'), [[2, 1], [1, 0]])
        """
        long = read_table(table, item, rater, label, order, finding)
        code, names = coded(as_names(long.finding, "finding"), "finding")
        if (code < 0).any():
            raise ValueError(f"finding has no value in sample {code.argmin()}; drop such samples.")
        if findings is not None:
            code, names = placed(code, names, as_names(findings, "findings"), "findings")
        items = coded(long.item, "item")[1] if items is None else as_names(items, "items")
        long, _ = without_others(long, not_a_class)
        asked = np.array([not is_gap(said) for said in long.label.tolist()])
        options: dict = {"items": items, "classes": classes, "on_duplicate": on_duplicate}
        parts = {}
        for f, name in enumerate(names.tolist()):
            rows = asked & (code == f)
            *columns, when = (None if column is None else column[rows] for column in long[:4])
            with errors_of(f"Finding {name!r}"):
                if findings is None or rows.any():
                    parts[name] = Annotations.from_long(*columns, order=when, **options)
                else:
                    parts[name] = _of_nobody(items, coded(long.rater, "rater")[1], classes)
        made = cls.from_annotations(parts)
        made.side = made.side._replace(names=names, graded=findings is not None)
        return made

    def of(self, finding: Hashable) -> Labels:
        """The label histogram of one finding, which goes wherever `y` goes.

        Parameters
        ----------
        finding : object
            Its name.

        Returns
        -------
        y : label histogram of shape (n_samples, 2)
            Its `counts` are how many raters said absent and present; `Annotations` where raters are
            known. A sample of which nobody was asked has no label: metrics leave it out, and
            estimators need the samples ``y.rated``.

        Raises
        ------
        ValueError
            An unknown finding.
        """
        column = positions(np.array([finding], dtype=object), self.findings)[0]
        if column < 0:
            raise ValueError(
                f"finding={finding!r} is none of the findings {self.findings.tolist()[:20]}."
            )
        return self._labels[column]

    @property
    def findings(self) -> NDArray:
        """Names of the findings, shape (n_findings,)."""
        return np.arange(self.side.K) if self.side.names is None else self.side.names

    @property
    def positive(self) -> Integers:
        """How many raters said yes, shape (n_samples, n_findings)."""
        return np.column_stack([labels.counts[:, 1] for labels in self._labels])

    @property
    def asked(self) -> Integers:
        """How many raters were asked, shape (n_samples, n_findings)."""
        return np.column_stack([labels.counts.sum(axis=1) for labels in self._labels])

    @property
    def shape(self) -> tuple[int, int]:
        """(n_samples, n_findings)."""
        return len(self), self.side.K

    def __len__(self) -> int:
        return len(self._labels[0])

    def __getitem__(self, key: Any) -> Self:
        key = samples_of(key)
        if isinstance(key, (tuple, int, np.integer, str)):
            raise IndexError("Select samples by a slice or a list; of(finding) is one finding.")
        return self.take(key)

    def take(self, rows: Selection) -> Self:
        """Some of the samples, with all findings."""
        part = copy.copy(self)
        part._labels = [labels.take(rows) for labels in self._labels]
        part.items = take_rows(self.items, rows)
        return part

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            "MultiLabelCounts hold several findings; use metrics.per_finding, or of(finding)"
        )

    def __repr__(self) -> str:
        n, L = self.shape
        return f"MultiLabelCounts({n} samples, {L} findings, {self.asked.sum()} labels)"


def _whole_numbers(findings: Side, table: ArrayLike, name: str) -> Integers:
    """Whole numbers of at least 0, shape (n_samples, n_findings)."""
    numbers = finding_table(findings, table, name)
    check_finite(numbers, name, "where nobody was asked, positive and asked are 0")
    wrong = np.argwhere((numbers < 0) | (numbers != np.floor(numbers)) | (numbers > 2**53))
    if len(wrong):
        i, f = wrong[0]
        raise ValueError(
            f"{name} must hold whole numbers from 0 on, how many raters; it has {numbers[i, f]:g} "
            f"in sample {i}, finding {f}."
        )
    return numbers.astype(np.int64)


def _of_nobody(items: NDArray, raters: NDArray, classes: ArrayLike) -> Annotations:
    """Samples without labels."""
    start = np.zeros(len(items) + 1, np.intp)
    none = np.zeros(0, np.intp)
    return Annotations(start, none, none, raters=raters, classes=classes, items=items)


def _of_raters(y: Annotations, everybody: NDArray) -> Annotations:
    """The annotations with the names of all raters."""
    part = copy.copy(y)
    part.raters = everybody
    part.rater = positions(y.raters, everybody).astype(np.int32)[y.rater]
    part._make_read_only()
    return part
