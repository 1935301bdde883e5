"""Label histograms: the gate for ``y``, what raters disagree on, and classifiers trained on counts."""

from collections.abc import Callable
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone, is_classifier
from sklearn.utils import column_or_1d, get_tags, indexable
from sklearn.utils.validation import check_is_fitted

from ._fit import check_same_length, check_sample_weight, default_classifier, fit_on_counts
from ._simplex import check_proba, frame_names, row_sum

__all__ = [
    "AnnotationCounts",
    "KnownProbabilities",
    "LabelHistogramClassifier",
    "check_counts",
    "class_disagreement",
    "counts_from_annotations",
    "fleiss_kappa",
    "pairwise_disagreement",
    "u_statistic",
]

_HINT = "if y holds one label per rater, use counts_from_annotations"


class KnownProbabilities(np.ndarray):
    """True class probabilities in place of counts: infinitely many raters.

    Goes wherever a label histogram goes. Every correction for few raters or few rows is then 0.

    Parameters
    ----------
    proba : array-like of shape (n_samples, n_classes)
        The true probability of each class, rows on the simplex. The order of the columns is the order of the classes.

    Examples
    --------
    >>> from sklearn_lhcal.metrics import epistemic_loss
    >>> Q = KnownProbabilities([[0.5, 0.5], [1.0, 0.0]])
    >>> round(epistemic_loss(Q, [[0.5, 0.5], [0.9, 0.1]]), 12)
    0.01
    """

    def __new__(cls, proba: ArrayLike) -> "KnownProbabilities":
        return check_proba(proba, name="KnownProbabilities").copy().view(cls)


class AnnotationCounts(NamedTuple):
    """What `counts_from_annotations` returns.

    Attributes
    ----------
    counts : ndarray of shape (n_items, n_classes), int64
        How many raters gave each item each class.
    classes : ndarray of shape (n_classes,)
        What the columns of `counts` stand for.
    items : ndarray of shape (n_items,)
        What the rows of `counts` stand for: use it to bring X into the same order.
    """

    counts: NDArray[np.int64]
    classes: NDArray
    items: NDArray


def check_counts(y, *, classes: ArrayLike | None = None) -> tuple[NDArray, NDArray]:
    """Check labels of any accepted form and return them as counts; the only gate through which ``y`` enters.

    Parameters
    ----------
    y : array-like, frame or sparse matrix
        One of: 1-D labels of any type; counts of shape (n_samples, n_classes), integer or integral float, as ndarray,
        list, pandas or polars frame (column names are classes) or scipy sparse matrix; `KnownProbabilities`.
    classes : array-like of shape (n_classes,), optional
        What the columns stand for. 1-D labels are looked up in it; 1-D integers are column numbers where the classes
        are not integers themselves.

    Returns
    -------
    counts : ndarray of shape (n_samples, n_classes), int64; or the `KnownProbabilities` themselves
        Never reordered. The caller's own memory where it is int64 already; it is never written to.
    classes : ndarray of shape (n_classes,)
        `classes` if given; else column names, the sorted distinct 1-D labels, or ``arange(n_classes)``.

    Raises
    ------
    ValueError
        NaN or infinite values, negative or fractional counts, a row without labels, unknown class names or labels,
        frame columns in another order than `classes`, a number of classes that differs, no rows at all.

    Examples
    --------
    >>> check_counts(["cat", "dog", "cat"])
    (array([[1, 0],
           [0, 1],
           [1, 0]]), array(['cat', 'dog'], dtype='<U3'))
    """
    names = frame_names(y)
    if isinstance(y, KnownProbabilities):
        counts = y
    else:
        a = as_array(y)
        if a.ndim == 2 and a.shape[1] == 1:
            a, names = column_or_1d(a, warn=True), None
        if a.ndim == 1:
            return _one_hot(a, None if classes is None else np.asarray(classes))
        if a.ndim != 2:
            raise ValueError(f"y must be 1-D labels or counts of shape (n_samples, n_classes), got shape {a.shape}.")
        counts = count_matrix(a)
    own = np.arange(counts.shape[1]) if names is None else _name_array(names)
    if classes is None:
        return counts, own
    classes = np.asarray(classes)
    if len(classes) != counts.shape[1]:
        raise ValueError(f"y has {counts.shape[1]} classes, expected {len(classes)}: {classes.tolist()}.")
    if names is not None and not np.array_equal(own, classes):
        _name_positions(own, classes)  # says which names are unknown
        raise ValueError(f"The columns of y are ordered {names}, expected {classes.tolist()}: select them by name.")
    return counts, classes


def _name_array(names: list) -> NDArray:
    """Column names as an array that keeps their types: numbers among strings stay numbers."""
    array = np.asarray(names)
    same = array.dtype.kind != "U" or all(isinstance(name, str) for name in names)
    return array if same else np.array(names, dtype=object)


def as_array(y) -> NDArray:
    """y as an array, from anything that `check_counts` takes."""
    if y is None:
        raise ValueError("This estimator or metric requires y to be passed, but the target y is None.")
    if hasattr(y, "toarray"):
        y = y.toarray()
    a = np.asarray(y)
    if a.size == 0 or a.ndim == 0:
        raise ValueError(f"y must have at least one row, got shape {a.shape}.")
    return a


def count_matrix(a: NDArray, *, empty_rows: bool = False) -> NDArray[np.int64]:
    """A 2-D array as counts; the errors that a matrix of raters' labels would meet end with the same advice."""
    if a.dtype.kind not in "iub":
        try:
            a = a.astype(np.float64, copy=False)
        except (TypeError, ValueError):  # strings, or pandas' NA
            raise ValueError(
                f"Counts in y must be numbers, without missing values (dtype {a.dtype}); {_HINT}"
            ) from None
        if not np.isfinite(a).all():
            row = int(np.flatnonzero(~np.isfinite(a).all(axis=1))[0])
            raise ValueError(f"y contains NaN or infinite values (first in row {row}); {_HINT}")
    if a.dtype.kind != "b" and a.min() < 0:
        row = int(np.flatnonzero((a < 0).any(axis=1))[0])
        raise ValueError(f"y contains negative counts (first in row {row}); {_HINT}")
    if a.dtype.kind == "f" and (a != np.floor(a)).any():
        row = int(np.flatnonzero((a != np.floor(a)).any(axis=1))[0])
        raise ValueError(
            f"y contains fractional counts (first in row {row}); wrap true class probabilities in KnownProbabilities; "
            f"{_HINT}"
        )
    if a.max() > 2**53:
        raise ValueError(f"y contains counts above 2**53 (first in row {int(a.max(axis=1).argmax())}).")
    counts = np.ascontiguousarray(a, dtype=np.int64)  # small integer types would overflow in products
    empty = row_sum(counts) == 0
    if empty.any() and not empty_rows:
        rows = np.flatnonzero(empty)
        raise ValueError(f"y has {len(rows)} rows without labels (first: row {rows[0]}); drop them; {_HINT}")
    return counts


def _one_hot(labels: NDArray, classes: NDArray | None) -> tuple[NDArray[np.int64], NDArray]:
    if labels.dtype == object and labels.size and isinstance(labels[0], (bool, np.bool_)):
        labels = labels.astype(bool)
    missing = np.array([_is_gap(v) for v in labels]) if labels.dtype == object else labels != labels
    if np.any(missing):
        raise ValueError(f"y contains missing labels, NaN (first in row {int(np.flatnonzero(missing)[0])}); {_HINT}")
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            raise ValueError(f"y contains infinite values; {_HINT}")
        if (labels != np.floor(labels)).any():
            raise ValueError("Unknown label type: continuous. 1-D labels must name classes; fractional numbers do not.")
    try:
        found, codes = np.unique(labels, return_inverse=True)
    except TypeError:
        raise ValueError("y mixes labels of types that cannot be sorted together; make them all strings.") from None
    position = np.arange(len(found)) if classes is None else _label_positions(found, classes)
    classes = found if classes is None else classes
    counts = np.zeros((len(labels), len(classes)), np.int64)
    counts[np.arange(len(labels)), position[codes.ravel()]] = 1
    return counts, classes


def _label_positions(found: NDArray, classes: NDArray) -> NDArray[np.intp]:
    """Columns of the distinct labels `found`; integers are column numbers where classes are no numbers."""
    if found.dtype.kind in "iubf" and classes.dtype.kind not in "iubf":
        classes = np.arange(len(classes))
    return _name_positions(found, classes)


def _name_positions(found, classes) -> NDArray[np.intp]:
    position = {c: i for i, c in enumerate(classes.tolist())}
    unknown = [f for f in np.asarray(found).tolist() if f not in position]
    if unknown:
        raise ValueError(
            f"y has classes that are not known: {unknown[:5]}; known are {classes.tolist()[:20]}. "
            "(1-D integers are column numbers where the number of classes is known.)"
        )
    return np.array([position[f] for f in np.asarray(found).tolist()], dtype=np.intp)


def aligned_counts(y, classes: NDArray) -> NDArray:
    """Counts in the order of `classes`: frames by name, anything else by position. A frame may lack no class."""
    names = frame_names(y)
    if names is None or len(names) < 2:
        return check_counts(y, classes=classes)[0]
    counts, own = check_counts(y)
    if len(own) != len(classes) or set(own.tolist()) != set(classes.tolist()):
        raise ValueError(f"y has the classes {own.tolist()}, expected {classes.tolist()}.")
    return counts[:, _name_positions(classes, own)]


def counts_for(y, n_classes: int) -> NDArray:
    """Counts for a prediction with `n_classes` columns and no names: 1-D integers are column numbers.

    1-D labels that are not numbers are sorted, as everywhere in scikit-learn, and must show every class.
    """
    counts, classes = check_counts(y)
    if np.ndim(y) == 1 or (np.ndim(y) == 2 and np.shape(y)[1] == 1):
        if classes.dtype.kind in "iubf":
            return check_counts(np.ravel(y), classes=np.arange(n_classes))[0]
        if len(classes) != n_classes:
            raise ValueError(
                f"y has the {len(classes)} distinct labels {classes.tolist()[:20]} but the prediction {n_classes} "
                "columns: which label is which column is unknown; pass column numbers or counts."
            )
    elif counts.shape[1] != n_classes:
        raise ValueError(f"y has {counts.shape[1]} classes, but the prediction has {n_classes} columns.")
    return counts


def frequencies(counts: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """μ̂ = y / n_i, shape (n, K), and n_i, shape (n,); n_i is inf for known probabilities."""
    if isinstance(counts, KnownProbabilities):
        return np.asarray(counts), np.full(len(counts), np.inf)
    n = row_sum(counts).astype(np.float64)
    return counts / n[:, None], n


def counts_from_annotations(
    annotations, *, classes: ArrayLike | None = None, item: str | None = None, label: str | None = None
) -> AnnotationCounts:
    """Count single annotations, from a matrix (one column a rater) or a long table (one row an annotation).

    Parameters
    ----------
    annotations : array-like of shape (n_items, n_raters), or frame
        Without `item` and `label`: row i holds the labels of item i, one a rater; gaps are None, NaN or pandas' NA.
        With them: a frame with one row per annotation.
    classes : array-like of shape (n_classes,), optional
        The classes, in the order that the columns shall have. Default: the sorted distinct labels.
    item, label : str, optional
        Names of the columns of a long table that hold the item and the label.

    Returns
    -------
    AnnotationCounts
        ``(counts, classes, items)``; the items of a long table are sorted.

    Raises
    ------
    ValueError
        An item without any label, a label that is not among `classes`, `item` without `label` or the reverse.

    Examples
    --------
    >>> counts_from_annotations([["a", "b", None], ["b", "b", "b"]]).counts
    array([[1, 1],
           [0, 3]])
    """
    if (item is None) != (label is None):
        raise ValueError("A long table needs both item= and label=, the names of its columns; a matrix needs neither.")
    if item is not None:
        row_items, labels = np.asarray(annotations[item]), np.asarray(annotations[label], dtype=object)
        items, rows = np.unique(row_items, return_inverse=True)
    else:
        matrix = np.asarray(annotations, dtype=object)
        if matrix.ndim != 2:
            raise ValueError(f"annotations must have shape (n_items, n_raters), got {matrix.shape}.")
        items = np.asarray(annotations.index) if hasattr(annotations, "iloc") else np.arange(len(matrix))
        rows, labels = np.repeat(np.arange(len(matrix)), matrix.shape[1]), matrix.ravel()
    given = np.array([not _is_gap(v) for v in labels], dtype=bool)
    without = np.setdiff1d(np.arange(len(items)), rows[given])
    if without.size:
        first = items[without].tolist()[0]
        raise ValueError(f"{without.size} items have no label (first: {first!r}); drop them here and in X.")
    one_hot, classes = _one_hot(np.array(labels[given].tolist()), None if classes is None else np.asarray(classes))
    counts = np.zeros((len(items), len(classes)), np.int64)
    np.add.at(counts, rows[given], one_hot)
    return AnnotationCounts(counts, classes, items)


def _is_gap(value) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(value != value)


def pairwise_disagreement(y) -> NDArray[np.float64]:
    """Unbiased estimate, for each row, of the probability that two raters give different labels.

    ``d_i = 1 − Σ_k y_k(y_k−1) / (n_i(n_i−1))``, the U-statistic of P1 eq. (17) for ``Y¹ ≠ Y²``.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes.

    Returns
    -------
    disagreement : ndarray of shape (n_samples,)
        Probabilities; NaN for rows with fewer than two raters.

    Examples
    --------
    >>> pairwise_disagreement([[1, 1, 0], [3, 0, 0]])
    array([1., 0.])
    """
    mu, n = frequencies(check_counts(y)[0])
    return _rater_scale(n) * (mu * (1 - mu)).sum(axis=1)


def class_disagreement(y) -> NDArray[np.float64]:
    """Unbiased estimate, for each row and class, of the probability that one of two raters names the class and one not.

    ``d_ik = 2·y_k(n_i−y_k) / (n_i(n_i−1))``.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes.

    Returns
    -------
    disagreement : ndarray of shape (n_samples, n_classes)
        Probabilities; NaN for rows with fewer than two raters. The row sum is twice `pairwise_disagreement`.

    Examples
    --------
    >>> class_disagreement([[1, 1, 0], [3, 0, 0]])
    array([[1., 1., 0.],
           [0., 0., 0.]])
    """
    mu, n = frequencies(check_counts(y)[0])
    return 2 * _rater_scale(n)[:, None] * mu * (1 - mu)


def _rater_scale(n: NDArray[np.float64]) -> NDArray[np.float64]:
    """n/(n−1): 1 for infinitely many raters, NaN for one."""
    return 1 + 1 / np.where(n > 1, n - 1, np.nan)


def u_statistic(y, kernel: Callable[[NDArray[np.int64]], ArrayLike], order: int) -> NDArray[np.float64]:
    """Unbiased estimate, for each row, of the mean of a symmetric statistic of `order` raters.

    The mean of the kernel over all subsets of `order` raters of the row (P1 eq. 17).

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes.
    kernel : callable
        Takes counts of shape (n_subsets, n_classes), each row with `order` labels, and returns the statistic of each
        row: shape (n_subsets,), or (n_subsets, m) for m statistics at once.
    order : int
        How many raters the statistic takes.

    Returns
    -------
    estimate : ndarray of shape (n_samples,) or (n_samples, m)
        NaN for rows with fewer raters.

    Raises
    ------
    ValueError
        If `order` is below 1, or the kernel returns another number of rows than it was given.

    Examples
    --------
    >>> all_differ = lambda counts: counts.max(axis=1) == 1
    >>> u_statistic([[2, 1, 1]], all_differ, order=3)
    array([0.5])
    """
    counts, _ = check_counts(y)
    if order < 1:
        raise ValueError(f"order must be at least 1, got {order}.")
    K = counts.shape[1]
    draws = np.array(list(combinations_with_replacement(range(K), order)))
    subsets = (draws[:, :, None] == np.arange(K)).sum(axis=1)  # (n_subsets, K), each row sums to `order`
    values = np.asarray(kernel(subsets), dtype=np.float64)
    if values.ndim not in (1, 2) or len(values) != len(subsets):
        raise ValueError(f"The kernel must return one value a row, {len(subsets)}; it returned shape {values.shape}.")
    estimate = np.empty((len(counts), *values.shape[1:]))
    step = max(1, 2_000_000 // subsets.size)
    for start in range(0, len(counts), step):
        block = slice(start, start + step)
        estimate[block] = _subset_probability(counts[block], subsets) @ values
    if not isinstance(counts, KnownProbabilities):
        estimate[counts.sum(axis=1) < order] = np.nan
    return estimate


def _subset_probability(counts: NDArray, subsets: NDArray) -> NDArray[np.float64]:
    """Π_k C(y_k, c_k) / C(n, m): how often a random subset of m raters shows the counts c; shape (n, n_subsets).

    As a product over the m draws, so that nothing overflows; m!/Π c! · Π Q^c for known probabilities.
    """
    m = int(subsets[0].sum())
    coefficient = np.exp(gammaln(m + 1) - gammaln(subsets + 1.0).sum(axis=1)).round()
    if isinstance(counts, KnownProbabilities):
        Q = np.asarray(counts)
        return coefficient * (Q[:, None, :] ** subsets).prod(axis=2)
    n = counts.sum(axis=1, keepdims=True).astype(np.float64)
    p = np.ones((len(counts), len(subsets)))
    for k in range(counts.shape[1]):
        for j in range(int(subsets[:, k].max())):
            p *= np.where(subsets[:, k] > j, np.maximum(counts[:, k, None] - j, 0), 1.0)
    return coefficient * p / np.prod(np.maximum(n - np.arange(m), 1), axis=1, keepdims=True)


def fleiss_kappa(y) -> float:
    """Fleiss' kappa, the agreement between raters beyond chance: larger is better, maximum 1, 0 at chance.

    Rows may have different numbers of raters: the observed agreement is the mean over rows of ``1 − d_i`` (rows with
    two raters or more), the chance agreement ``Σ_k p_k²`` with p the class frequencies over all labels.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes.

    Returns
    -------
    kappa : float
        NaN where no row has two raters, or all labels are of one class.

    References
    ----------
    Fleiss (1971), Measuring nominal scale agreement among many raters.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import load_psychiatric_diagnoses
    >>> round(fleiss_kappa(load_psychiatric_diagnoses().counts), 3)
    0.43
    """
    counts, _ = check_counts(y)
    agreement = 1 - pairwise_disagreement(counts)
    known = ~np.isnan(agreement)
    p = np.asarray(counts).sum(axis=0) / np.asarray(counts).sum()
    chance = (p**2).sum()
    if not known.any() or chance == 1:
        return float("nan")
    return float((agreement[known].mean() - chance) / (1 - chance))


class LabelHistogramClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Any scikit-learn classifier, trained on label histograms.

    Counts go to the classifier as they are where its class says ``accepts_label_histograms = True``; else as rows
    repeated once per class with the count as weight; else as rows repeated once per label.

    Search outside, ``GridSearchCV(LabelHistogramClassifier(...))``: the folds of a search *inside* would have copies of
    the same row on both sides, and its scores would be too good.

    Parameters
    ----------
    estimator : classifier, default=None
        What to train; None stands for ``LogisticRegression()``.

    Attributes
    ----------
    estimator_ : classifier
        The fitted clone.
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> counts = [[3, 0], [2, 1], [1, 2], [0, 3]]
    >>> LabelHistogramClassifier().fit(X, counts).predict(X)
    array([0, 0, 1, 1])
    """

    accepts_label_histograms = True

    def __init__(self, estimator=None):
        self.estimator = estimator

    def fit(self, X, y, sample_weight=None, **fit_params):
        """Fit a clone of the estimator on X, shape (n_samples, ...), and y, anything `check_counts` takes."""
        (X,) = indexable(X)
        counts, self.classes_ = sorted_counts(y)
        check_same_length(len(counts), X=X)
        sample_weight = check_sample_weight(sample_weight, len(counts))
        estimator = default_classifier() if self.estimator is None else clone(self.estimator)
        if not is_classifier(estimator):
            raise ValueError(f"estimator must be a classifier, got {type(estimator).__name__}.")
        self.estimator_ = fit_on_counts(estimator, X, counts, self.classes_, sample_weight, **fit_params)
        if hasattr(self.estimator_, "n_features_in_"):
            self.n_features_in_ = self.estimator_.n_features_in_
        return self

    def predict_proba(self, X):
        """Class probabilities, shape (n_samples, n_classes), columns in the order of `classes_`.

        0 for a class without any label in training.
        """
        check_is_fitted(self, "estimator_")
        proba = self.estimator_.predict_proba(X)
        if self.saw_all_classes:
            return proba
        padded = np.zeros((len(proba), len(self.classes_)))
        padded[:, np.searchsorted(self.classes_, self.estimator_.classes_)] = proba
        return padded

    @property
    def saw_all_classes(self) -> bool:
        """Whether each class had a label in training."""
        check_is_fitted(self, "estimator_")
        return len(self.estimator_.classes_) == len(self.classes_)

    def predict(self, X):
        """The most probable class of each row, shape (n_samples,)."""
        check_is_fitted(self, "estimator_")
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def score(self, X, y, sample_weight=None):
        """Expected accuracy on label histograms: larger is better, between 0 and 1."""
        counts = aligned_counts(y, self.classes_)
        check_same_length(len(counts), X=X)
        mu, _ = frequencies(counts)
        codes = np.searchsorted(self.classes_, self.predict(X))
        return float(np.average(mu[np.arange(len(mu)), codes], weights=check_sample_weight(sample_weight, len(mu))))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = get_tags(default_classifier() if self.estimator is None else self.estimator)
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        return tags


def sorted_counts(y) -> tuple[NDArray, NDArray]:
    """Counts and sorted classes, as every estimator keeps them: named columns are reordered, once, at fit."""
    counts, classes = check_counts(y)
    try:
        order = np.argsort(classes, kind="stable")
    except TypeError:
        raise ValueError(
            f"The class names {classes.tolist()} cannot be sorted together; make them all strings."
        ) from None
    if len(set(classes.tolist())) < len(classes):
        raise ValueError(f"The class names {classes.tolist()} are not distinct.")
    return (counts, classes) if np.array_equal(order, np.arange(len(order))) else (counts[:, order], classes[order])
