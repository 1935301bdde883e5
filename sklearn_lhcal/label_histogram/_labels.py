"""Labels: what ``y`` may be, read once. Counts, the names of their classes, and what is known."""

import copy
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.utils import column_or_1d

from .._utils.arrays import Floats, Indices, Integers, Mask
from .._utils.checks import (
    as_floats,
    as_names,
    check_same_length,
    check_sample_weight,
    distinct,
    is_gap,
    plain_array,
    samples_of,
    warn,
    warn_alike,
)
from .._utils.names import Side, check_row_names, column_names, matched, numbers_of, sorted_names
from .._utils.simplex import check_proba, in_columns
from .._utils.types import ArrayLike, LabelsLike, Selection

HINT = "if y holds one label per rater, use Annotations.from_long or Annotations.from_matrix"
_NONE = f"a class that nobody chose has the count 0; {HINT}"


class Labels:
    """The labels of n samples: a container that goes wherever ``y`` goes, and keeps what it knows.

    Attributes
    ----------
    counts : ndarray of shape (n, K)
        How many raters chose each class, int64; the true class probabilities where they are known.
    classes : ndarray of shape (K,) or None
        Names of the classes; None where the columns have none.
    known : bool
        Whether `counts` holds class probabilities: infinitely many raters.
    single : bool
        Whether y was 1-D. Its classes are then those that occur, which need not be all.
    numbered : bool
        Whether these may be column numbers, where they are numbers.
    graded : bool
        Whether the classes have an order of their own, that of a list or an ordered Categorical.
    own : ndarray of shape (K,), bool
        The classes that y names or holds; the others were named by another side only.
    """

    ndim = 2
    known = False
    # whether the order of the labels of a sample is known
    ordered = False

    # an array or None; behind `for_fit` and `in_order`, and of single labels, always an array
    classes: Any

    def __init__(
        self,
        counts: NDArray,
        classes: NDArray | None = None,
        *,
        single: bool = False,
        graded: bool = False,
    ) -> None:
        self.counts = counts
        self.classes = classes
        self.single = self.numbered = single
        self.graded = graded
        self.own = np.ones(counts.shape[1], dtype=bool)

    def _with(self, classes: NDArray | None, columns: Indices, K: int) -> Self:
        """The labels with other classes: column c becomes column ``columns[c]`` of K.

        Classes that no column becomes have no labels.
        """
        labels = copy.copy(self)
        labels.classes = classes
        labels.single = labels.numbered = False
        # order is kept by what is not turned round
        labels.graded = self.graded and bool((np.diff(columns) > 0).all())
        labels.own = np.zeros(K, dtype=bool)
        labels.own[columns] = self.own
        if not np.array_equal(columns, np.arange(K)):
            labels.counts = in_columns(self.counts, columns, K, self.counts.dtype)
        return labels

    # --- a container, as scikit-learn sees it ---

    @property
    def shape(self) -> tuple[int, int]:
        """(n, K)."""
        return self.counts.shape

    @property
    def dtype(self) -> np.dtype:
        """That of the counts."""
        return self.counts.dtype

    def __len__(self) -> int:
        return len(self.counts)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray:
        # NumPy 1 has no copy=None.
        if copy is None:
            return np.asarray(self.counts, dtype=dtype)
        return np.array(self.counts, dtype=dtype, copy=copy)

    def __getitem__(self, key: Any) -> NDArray | Self:
        key = samples_of(key)
        if isinstance(key, (tuple, int, np.integer)):
            return self.counts[key]
        return self.take(key)

    def take(self, rows: Selection) -> Self:
        """Some of the samples."""
        labels = copy.copy(self)
        labels.counts = self.counts[samples_of(rows)]
        return labels

    # --- numbers ---

    @property
    def n(self) -> Floats:
        """Raters of each sample n_i, shape (n,); inf where probabilities are known."""
        if self.known:
            return np.full(len(self), np.inf)
        # the sum of 1,024 counts of 2**53 is no int64
        return np.einsum("nk->n", self.counts, dtype=np.float64)

    @property
    def mu(self) -> Floats:
        """Class frequencies μ̂ = y / n_i, shape (n, K)."""
        if self.known:
            return self.counts
        # NaN where nobody said anything
        return self.counts / np.where(self.n > 0, self.n, np.nan)[:, None]

    @property
    def class_disagreement(self) -> Floats:
        """How often exactly one of two raters names a class, 2·y_k(n_i−y_k)/(n_i(n_i−1)), (n, K).

        NaN for samples with fewer than two raters.
        """
        mu = self.mu
        # n/(n−1) is 1 for infinitely many raters, and NaN for one.
        scale = 1 + 1 / np.where(self.n > 1, self.n - 1, np.nan)
        return 2 * scale[:, None] * mu * (1 - mu)

    @property
    def has_order(self) -> bool:
        """Whether the classes have an order: their own, that of numbers, or that of columns."""
        return self.graded or self.classes is None or numbers_of(self.classes) is not None

    @property
    def rated(self) -> Indices:
        """The samples with a label, shape (n_rated_rows,)."""
        return np.flatnonzero(self.n)

    @property
    def has_gaps(self) -> bool:
        """Whether a sample is without labels, as annotations and findings allow."""
        return not self.n.all()

    def warn_if_adjudicated(self) -> None:
        """Warn where pairs of labels are not random pairs; only `Annotations` can tell."""

    @property
    def majority(self) -> Indices:
        """Column of the most voted class of each sample, the first of several."""
        return self.counts.argmax(axis=1)

    def check_all_seen(self, where: str, remedy: str = "fewer folds or stratified ones") -> None:
        """ValueError that names the classes without a label; `classes` are known."""
        missing = ~self.counts.any(axis=0)
        if missing.any():
            raise ValueError(
                f"No label of class {self.classes[missing].tolist()} in {where}; "
                f"give more data of this class, use {remedy}, or drop the class."
            )

    # --- names ---

    def in_order(
        self,
        classes: ArrayLike,
        *,
        other: str = "the classifier",
        add: bool = False,
        sure: bool = False,
    ) -> Self:
        """The labels with their columns in the order of given classes.

        Parameters
        ----------
        classes : array-like of shape (K,)
            Names of the other side, in order.
        other : str
            How messages call the other side.
        add : bool, default=False
            What happens to classes that the other side never saw: an error, or they join its own,
            in sorted order.
        sure : bool, default=False
            Whether columns without names are known to be in this order; else names must be sorted.
        """
        classes = as_names(classes, "classes")
        return self.matched(Side(other, classes, len(classes)), add=add, sure=sure)

    def matched(self, other: Side, *, add: bool = False, sure: bool = False) -> Self:
        """The labels beside another side, with its classes in its order: `names.matched`."""
        # categories that nobody gave need not be known
        labels = self if other.names is None else self._given()
        own = Side("y", labels.classes, labels.shape[1], "y")
        own = own._replace(single=self.single, numbered=self.numbered, graded=self.graded)
        classes, columns = matched(own, other, add=add, sure=sure)
        return labels._with(classes, columns, other.K if classes is None else len(classes))

    def for_fit(self, brought: NDArray | None = None) -> Self:
        """As estimators keep labels: classes in the order that a model brings, else sorted.

        Each sample must have a label.
        """
        if self.has_gaps:
            without = np.flatnonzero(self.n == 0)
            raise ValueError(
                f"y has {len(without)} samples without labels (first: sample {without[0]}), but "
                "estimators need a label in every sample: keep the samples y.rated of y and of X."
            )
        return self.sorted() if brought is None else self.in_order(brought)

    def sorted(self) -> Self:
        """Columns in the order of the sorted names, which are 0, 1, 2, … where there are none.

        Classes with an order of their own keep it; of 1-D labels those that occur.
        """
        labels = self._given()
        names = names_of(labels)
        return labels.in_order(names if labels.graded else sorted_names(names))

    def _given(self) -> Self:
        """1-D labels of an ordered Categorical without the categories that nobody gave."""
        if not (self.single and self.graded):
            return self
        labels = copy.copy(self)
        seen = self.counts.any(axis=0)
        labels.counts, labels.classes = self.counts[:, seen], self.classes[seen]
        labels.own = self.own[seen]
        return labels

    def plain(self) -> NDArray | Self:
        """What estimators that take counts are given: an array, unless it would lose something."""
        counted = np.array_equal(names_of(self), np.arange(self.shape[1]))
        one_class = self.shape[1] == 1
        return self.counts if counted and not self.known and not one_class else self


class KnownProbabilities(Labels):
    """True class probabilities in place of counts: infinitely many raters.

    Goes wherever a label histogram goes. Every correction for few raters is then 0. Binned
    losses are not bias-corrected for few samples either: they are those of these samples.

    Parameters
    ----------
    proba : array-like or frame of shape (n_samples, n_classes)
        The true probability of each class, rows on the simplex. The columns of a frame name the
        classes.

    Raises
    ------
    ValueError
        NaN, negative values, samples that do not sum to 1.

    Examples
    --------
    >>> from sklearn_lhcal.metrics import epistemic_loss
    >>> Q = KnownProbabilities([[0.5, 0.5], [1.0, 0.0]])
    >>> round(epistemic_loss(Q, [[0.5, 0.5], [0.9, 0.1]]), 12)
    0.01
    """

    known = True

    def __init__(self, proba: ArrayLike) -> None:
        Q = check_proba(proba, name="KnownProbabilities").copy()
        Q.flags.writeable = False
        super().__init__(Q, column_names(proba, "KnownProbabilities"))

    def __repr__(self) -> str:
        return f"KnownProbabilities({self.counts!r})"


def check_counts(
    y: LabelsLike, *, classes: ArrayLike | None = None
) -> tuple[NDArray | Labels, NDArray]:
    """Check labels of any accepted form and return them as counts: the public gate for ``y``.

    Parameters
    ----------
    y : array-like, frame or sparse matrix
        One of: 1-D labels of any type; counts of shape (n_samples, n_classes), integer or integral
        float, as ndarray, list, pandas or polars frame (column names are classes) or scipy sparse
        matrix; `Annotations`; `KnownProbabilities`.
    classes : array-like of shape (n_classes,), optional
        The classes in the order that the columns shall have. Names in y are looked up in it. Counts
        without names must have this order already; 1-D integers are column numbers where no class
        is a number.

    Returns
    -------
    counts : ndarray of shape (n_samples, n_classes), int64; or `KnownProbabilities`
        The caller's own memory where nothing had to be changed; it is never written to.
    classes : ndarray of shape (n_classes,)
        `classes` if given; else column names, the sorted distinct 1-D labels, or
        ``arange(n_classes)``.

    Raises
    ------
    ValueError
        NaN or infinite values, negative or fractional counts, a sample without labels, unknown
        class names or labels, a number of classes that differs, no samples at all.

    Examples
    --------
    >>> check_counts(["cat", "dog", "cat"])
    (array([[1, 0],
           [0, 1],
           [1, 0]]), array(['cat', 'dog'], dtype='<U3'))
    """
    labels = read_labels(y)
    own = names_of(labels)
    if classes is not None:
        own = as_names(classes, "classes")
        labels = labels.in_order(own, other="what is expected", sure=True)
    elif labels.single:
        warn_alike(own, "classes")
    return labels if labels.known else labels.counts, own


def names_of(labels: Labels) -> NDArray:
    """What users call the columns: names where there are, else the numbers themselves."""
    if labels.classes is None:
        return np.arange(labels.shape[1])
    return labels.classes


def weight_of(labels, X, y, sample_weight) -> Floats | None:
    """Checked weights of the rows of X, whose number and names are those of y; None stays None."""
    check_same_length(len(labels), X=X)
    check_row_names(X=X, y=y, sample_weight=sample_weight)
    return check_sample_weight(sample_weight, len(labels))


def given_order(labels) -> list | None:
    """The categories of an ordered Categorical, in their order; None of anything else."""
    dtype: Any = getattr(labels, "dtype", None)
    return list(dtype.categories) if getattr(dtype, "ordered", False) is True else None


def read_labels(y, *, name: str = "y", empty_rows: bool = False, fractions: bool = False) -> Labels:
    """The one reader of ``y``, of any form that `check_counts` takes.

    With `empty_rows` a sample of counts may have no labels; with `fractions` 1-D numbers are grades
    that need not be whole.
    """
    if isinstance(y, Labels):
        return y
    if y is None:
        raise ValueError(
            "This estimator or metric requires y to be passed, but the target y is None."
        )
    a = plain_array(y.toarray() if hasattr(y, "toarray") else y, name)
    if a.size == 0 or a.ndim == 0:
        raise ValueError(
            f"{name} must have at least one sample and be an array, a list or a frame, got "
            f"{type(y).__name__} of shape {a.shape}."
        )
    if a.ndim == 2 and a.shape[1] == 1:
        a = column_or_1d(a, warn=True)
    if a.ndim == 1:
        labels = Labels(*one_hot(a, fractions), single=True)
        order = given_order(y)
        if order is None:
            return labels
        labels = labels.in_order(order)
        labels.single = labels.graded = True
        labels.own[:] = True
        return labels
    if a.ndim != 2:
        raise ValueError(
            f"{name} must be 1-D labels or counts of shape (n_samples, n_classes), got shape "
            f"{a.shape}."
        )
    return Labels(_count_matrix(a, empty_rows), column_names(y, name))


def one_hot(labels: NDArray, graded: bool = False) -> tuple[Integers, NDArray]:
    """One-hot counts of 1-D labels, and the distinct labels, sorted; grades may be fractions."""
    labels = as_names(labels, "y")
    if labels.dtype.kind == "O" and all(isinstance(v, (bool, np.bool_)) for v in labels):
        labels = labels.astype(bool)
    if labels.dtype.kind == "O":
        gaps = np.array([is_gap(v) for v in labels], dtype=bool)
    else:
        gaps = labels != labels
    if gaps.any():
        row = gaps.argmax()
        raise ValueError(
            f"y contains missing labels, NaN or None (first in sample {row}); leave "
            f"these samples out; {HINT}"
        )
    if labels.dtype.kind == "f":
        if np.isinf(labels).any():
            raise ValueError(f"y contains infinite values; {HINT}")
        if not graded and (labels != np.floor(labels)).any():
            raise ValueError(
                "Unknown label type: continuous. 1-D labels must name classes; fractional numbers "
                "do not. If they are probabilities, y and the prediction are exchanged; if grades, "
                "give Annotations classes=[...]."
            )
    result, codes = distinct(labels, "y")
    counts = np.zeros((len(labels), len(result)), np.int64)
    counts[np.arange(len(labels)), codes] = 1
    return counts, result


def _count_matrix(a: NDArray, empty_rows: bool) -> Integers:
    """A 2-D array as counts; errors that a matrix of raters' labels would meet end with advice."""
    if a.dtype.kind not in "iub":
        a = _finite(a)
    if a.dtype.kind != "b" and a.min() < 0:
        raise ValueError(f"y contains negative counts ({_first(a < 0)}); {HINT}")
    if a.dtype.kind == "f" and (a != np.floor(a)).any():
        shares = np.allclose(a.sum(axis=1), 1, atol=1e-5)
        exchanged = "Were labels and probabilities exchanged? " if shares else ""
        raise ValueError(
            f"y contains fractional counts ({_first(a != np.floor(a))}). {exchanged}Give the "
            "counts, how many raters chose each class. KnownProbabilities is only for true class "
            f"probabilities, as of infinitely many raters; {HINT}"
        )
    if a.max() > 2**53:
        raise ValueError(f"y contains counts above 2**53 ({_first(a > 2**53)}).")
    several = np.count_nonzero(a.sum(axis=1) > 1)
    if a.shape[1] > 2 and a.max() == 1 and several >= 5 and not empty_rows:
        warn(
            "y holds only 0 and 1, and samples with several ones: it was read as counts of raters "
            "of whom no two agree. If its columns are findings, each a yes or no, make "
            "MultiLabelCounts(positive, asked) of them, for metrics.per_finding and "
            "calibration.PerFinding."
        )
    if len(a) >= 20 and a.shape[1] > 2 and 0 < a.min() < a.max() <= 10 and np.ptp(a.sum(axis=1)):
        warn(
            "y has no 0, and samples with different sums: it was read as counts of raters of whom "
            f"some chose each class; {HINT}."
        )
    # small integer types would overflow in products
    counts = np.ascontiguousarray(a, dtype=np.int64)
    empty = ~counts.any(axis=1)
    if empty.any() and not empty_rows:
        rows = np.flatnonzero(empty)
        raise ValueError(
            f"y has {len(rows)} samples without labels (first: sample {rows[0]}); drop them; {HINT}"
        )
    return counts


def _finite(a: NDArray) -> Floats:
    """Numbers of another type than integers, finite or a ValueError."""
    try:
        a = as_floats(a, "y")
    except ValueError:
        # strings, pandas' NA, or integers beyond floats
        raise ValueError(
            f"Counts in y must be numbers, without missing values (dtype {a.dtype}); {HINT}"
        ) from None
    if not np.isfinite(a).all():
        raise ValueError(f"y contains NaN or infinite values ({_first(~np.isfinite(a))}); {_NONE}")
    return a


def _first(wrong: Mask) -> str:
    """Where the first wrong value of a matrix is."""
    return f"first in sample {wrong.any(axis=1).argmax()}"
