"""Samples: where labels and predictions meet, once; with their weights and groups."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self, TypeVar, cast, dataclass_transform

import numpy as np
from sklearn.base import ClassifierMixin

from ._utils.arrays import in_blocks
from ._utils.checks import (
    check_grouped,
    check_same_length,
    check_sample_weight,
    check_samples,
    holds_text,
    is_gap,
    plain_array,
    read_groups,
    take_rows,
    warn,
)
from ._utils.costs import Costs
from ._utils.estimators import own_classes
from ._utils.names import (
    Side,
    check_classes,
    check_row_names,
    column_names,
    is_numeric,
    is_sorted,
    matched,
    positions,
)
from ._utils.simplex import EPS, accuracy, check_proba, in_columns, row_sum
from ._utils.types import ArrayLike, Floats, LabelsLike, Mask, NDArray, Samples, Weights
from .distributions import Distribution, PointMass, predict_dist
from .label_histogram import Annotations as Annotations
from .label_histogram import KnownProbabilities as KnownProbabilities
from .label_histogram import MultiLabelCounts as MultiLabelCounts
from .label_histogram import Readings as Readings
from .label_histogram._labels import Labels as Labels
from .label_histogram._labels import names_of as names_of
from .label_histogram._labels import read_labels as read_labels
from .label_histogram._labels import weight_of as weight_of

PredictionLike = ArrayLike | Distribution
Owner = TypeVar("Owner")

# So many samples, and standard errors, make a warning of exchanged classes.
_FEW = 20
_ERRORS = 4.0
# of classes that are grades, a column each
_MOST_GRADES = 1000


@dataclass(eq=False, repr=False)
class Rows:
    """Checked samples: labels and predictions with the same columns, weights and groups.

    Attributes
    ----------
    labels : Labels
        Its `classes` are those of the prediction too; None where neither side has names.
    prediction : Distribution, or ndarray of shape (n, ...)
        As it was given; an array was checked.
    w : ndarray of shape (n,) or None
        Weights, times the power of two that brings the largest near 1: squares stay in range.
    scale : int
        The weights as given are ``w * 2**scale``.
    groups : ndarray of shape (n,) or None
        Number of the group of each sample.
    """

    labels: Labels
    prediction: Any
    w: Any = None
    groups: Any = None
    scale: int = 0

    @classmethod
    def of(cls, labels: Labels, prediction, sample_weight, groups) -> Self:
        """Of aligned labels and predictions; weights and groups are checked.

        The one place where samples without labels are dropped, with all that belongs to them.
        """
        groups = read_groups(groups, len(labels))
        w = check_sample_weight(sample_weight, len(labels))
        if labels.has_gaps:
            rated = labels.rated
            labels = labels.take(rated)
            prediction = prediction[rated]
            groups = take_rows(groups, rated)
            w = take_rows(w, rated)
        scale = 0
        if w is not None:
            scale = int(np.frexp(w.max(initial=0))[1])
            w = np.ldexp(w, -scale)
        return cls(labels, prediction, w, groups, scale)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def classes(self) -> NDArray | None:
        """Names of the columns of both sides; None where neither has names."""
        return self.labels.classes

    @cached_property
    def n(self) -> Floats:
        """Raters of each sample, shape (n,); inf where probabilities are known."""
        return self.labels.n

    @cached_property
    def mu(self) -> Floats:
        """Class frequencies μ̂, shape (n, K)."""
        return self.labels.mu

    @cached_property
    def z(self) -> Floats:
        """Class probabilities, shape (n, K): the mean of the prediction."""
        return proba_of(self.prediction)

    @cached_property
    def distribution(self) -> Distribution:
        """The prediction as a distribution: a point mass where it holds probabilities."""
        if isinstance(self.prediction, Distribution):
            return self.prediction
        return PointMass.of_checked(self.prediction).with_classes(self.classes)

    @property
    def weight(self) -> Floats:
        """Weights, shape (n,): ones where there are none."""
        return np.ones(len(self)) if self.w is None else self.w

    def take(self, rows) -> Self:
        """Some of the samples."""
        w = take_rows(self.w, rows)
        groups = take_rows(self.groups, rows)
        return type(self)(self.labels.take(rows), self.prediction[rows], w, groups, self.scale)

    def keep(self, ratings: Mask) -> Self:
        """The samples with some of their labels, of `Annotations`; samples may become empty."""
        return replace(self, labels=cast(Annotations, self.labels).keep(ratings))

    def anonymous(self) -> Self:
        """The samples with labels that do not say who gave them."""
        y = self.labels
        if not isinstance(y, Annotations):
            return self
        return replace(self, labels=Labels(y.counts, y.classes, graded=y.graded))

    def contributes(self, least_raters: int = 1) -> Mask:
        """Which samples have so many raters and a positive weight, shape (n,)."""
        keep = self.n >= least_raters
        if self.w is not None:
            keep &= self.w > 0
        return keep

    def contributing(self, least_raters: int = 1) -> Self | None:
        """The samples with so many raters and a positive weight; None if there are none."""
        keep = self.contributes(least_raters)
        if not keep.any():
            return None
        return self if keep.all() else self.take(np.flatnonzero(keep))

    def weighted(self) -> Self:
        """The rows with a positive weight: every sample has a rater, and some sample has weight."""
        return cast(Self, self.contributing())

    def in_order(self, classes: NDArray | None, other: str) -> Self:
        """The rows with their columns in the order of the classes of other samples."""
        K = self.labels.shape[1]
        both, columns = matched(Side("this batch", self.classes, K), Side(other, classes, K))
        if both is None or np.array_equal(columns, np.arange(K)):
            return self
        prediction = _widened(self.prediction, self.labels.classes, both)
        return replace(self, labels=self.labels.in_order(both), prediction=prediction)

    def each(self, of_rows: Callable[["Rows"], NDArray]) -> Floats:
        """``of_rows(rows)``, one value or more a sample, of blocks of samples, joined."""
        return in_blocks(lambda rows: of_rows(self.take(rows)), *self.labels.shape)


def read_rows(
    y,
    prediction,
    sample_weight=None,
    groups=None,
    *,
    classes: ArrayLike | None = None,
    add: bool = False,
    optional: bool = False,
) -> Rows:
    """The one reader of labels and predictions together.

    Parameters
    ----------
    y : label histogram
        Anything `check_counts` takes.
    prediction : Distribution, or array-like of shape (n, K) or (n,)
    sample_weight, groups : array-like of shape (n,), optional
    classes : array-like of shape (K,), optional
        Names of the columns of a prediction; those that it brings itself must be the same.
    add : bool, default=False
        Whether classes of y that the prediction does not know join it with probability 0, which is
        for estimators: their training rows may have lacked a class. Else they are an error.
    optional : bool, default=False
        Whether the prediction may be None, which stands for the class frequencies themselves.
    """
    if prediction is None and not optional:
        raise ValueError("prediction is None; give class probabilities, or a distribution.")
    labels = read_labels(y)
    check_row_names(y=y, prediction=prediction, sample_weight=sample_weight, groups=groups)
    if prediction is None:
        return Rows.of(labels, labels.mu, sample_weight, groups)
    given = prediction
    prediction, own = read_prediction(given)
    if classes is None and not isinstance(given, Distribution) and np.ndim(given) == 1:
        _check_one_row(labels, prediction[:, 1])
    check_same_length(len(prediction), y=labels)
    K = prediction.shape[1]
    if classes is not None:
        classes = check_classes(classes, K)
        if own is not None and not np.array_equal(own, classes):
            raise ValueError(
                f"The prediction names its columns {own.tolist()[:20]}, but classes is "
                f"{classes.tolist()[:20]}; leave classes out."
            )
        own = classes
    labels = labels.matched(Side("the prediction", own, K), add=add)
    if own is not None:
        prediction = _widened(prediction, own, labels.classes)
    rows = Rows.of(labels, prediction, sample_weight, groups)
    if not isinstance(given, Distribution) and np.ndim(given) == 1:
        _warn_of_one_column(rows)
    return rows


def _check_one_row(labels: Labels, p: Floats) -> None:
    """ValueError for a sample's counts or probabilities without their second axis."""
    one = len(p) > 2 and abs(p.sum() - 1) < 1e-6
    counts = labels.single and is_numeric(labels.classes) and labels.classes.max() > 1
    if one and (counts or len(labels) == 1):
        raise ValueError(
            "prediction is 1-D and sums to 1, as the probabilities of one sample do: pass 2-D "
            "arrays, y[:1] and prediction[:1]."
        )


def with_votes(
    labels: Labels, prediction: PredictionLike, *, add: bool = False
) -> tuple[Labels, PredictionLike]:
    """The labels, and the prediction as probabilities: 1-D labels that a model gives are certain.

    1-D numbers that are not whole, or not above 1, are probabilities of the second class, as
    everywhere. With `add`, grades that nobody gave join those of the labels, and if these are above
    1, grades of the prediction need not be whole.
    """
    names = labels.classes
    fractions = add and names is not None and is_numeric(names) and names.max() > 1
    if not _are_labels(prediction, fractions):
        return labels, prediction
    each = plain_array(prediction, "prediction").tolist()
    gap = next((row for row, label in enumerate(each) if is_gap(label)), None)
    if gap is not None:
        items = getattr(labels, "items", None)
        item = gap if items is None else items[gap]
        raise ValueError(f"prediction has no label of sample {item}; leave it out of y as well.")
    said = read_labels(prediction, fractions=fractions)
    if add:
        labels = with_grades(labels, said)
    classes = names_of(labels)
    unseen = said.classes[positions(said.classes, classes) < 0].tolist()
    # words first
    unseen.sort(key=lambda name: str(name).isdigit())
    # integers may be column numbers where no class is a number
    if unseen and (is_numeric(classes) or not is_numeric(said.classes)):
        raise ValueError(
            f"prediction has labels that are no classes of y: {unseen[:5]}; y has "
            f"{classes.tolist()[:20]}. Correct the spelling, drop samples without a class and make "
            "text numbers where y has numbers, or name all classes in y: "
            "Annotations.from_matrix(..., classes=[...])."
        )
    said = said.in_order(classes, other="y")
    return labels, PointMass(said.counts.astype(float)).with_classes(said.classes)


def with_grades(labels: Labels, *others: Labels) -> Labels:
    """The labels, whose classes are joined by numbers that only others gave."""
    classes = [side.classes for side in (labels, *others)]
    if not all(names is not None and is_numeric(names) for names in classes):
        return labels
    grades = np.unique(np.concatenate(classes))
    if len(grades) > _MOST_GRADES:
        raise ValueError(f"There are {len(grades)} different grades; round them.")
    return labels.in_order(grades)


def _are_labels(prediction, fractions: bool = False) -> bool:
    """Whether a prediction is one label per sample; `fractions` may be grades."""
    if prediction is None or hasattr(prediction, "disagreement"):
        return False
    a = plain_array(prediction, "prediction")
    if a.ndim == 1 and a.dtype.kind == "f":
        # of numbers that a table made floats
        return bool((a > 1).any() and (fractions or (a % 1 == 0)[~np.isnan(a)].all()))
    if a.ndim != 2:
        return a.ndim == 1
    whole = a.dtype.kind in "iub" and (a.sum(axis=1) != 1).any()
    if whole or (a.shape[1] == 1 and a.dtype.kind != "f") or holds_text(a):
        raise ValueError(
            f"prediction of shape {a.shape} holds labels: pass one judge as a 1-D array, several "
            "as a dict, dict(frame.items())."
        )
    return False


def read_for(metric, y, prediction, sample_weight=None, groups=None) -> Rows:
    """Samples as a metric reads them, by its `tags` and its `options`."""
    read = partial(read_rows, optional=metric.tags.of_labels)
    if metric.tags.read is not None:
        read = partial(metric.tags.read, **metric.options)
    rows = read(y, prediction, sample_weight, groups)
    check_grouped(rows.groups, metric.options.get("bias_correction"))
    if metric.tags.least_raters > 1:
        rows.labels.warn_if_adjudicated()
    return rows


def read_prediction(prediction: PredictionLike) -> tuple[Any, NDArray | None]:
    """A distribution, or checked probabilities (n, K); and the names that its columns bring."""
    if isinstance(prediction, Distribution):
        return prediction, prediction.classes
    names = column_names(prediction, "prediction")
    return check_proba(prediction, name="prediction"), names


def proba_of(prediction) -> Floats:
    """The mean of a distribution, or checked probabilities as they are, shape (n, K)."""
    if isinstance(prediction, Distribution):
        return prediction.mean()
    return prediction


def _warn_of_one_column(rows: Rows) -> None:
    """Where the one column of a prediction is that of the other class."""
    errors = inversion(rows.mu, np.log(np.maximum(rows.z, EPS)), rows.weight)
    if errors:
        last = "the second class" if rows.classes is None else repr(rows.classes.tolist()[-1])
        warn(
            f"The one column of the prediction is read as that of {last}, which is labelled less "
            f"often the larger it is, by {errors:.1f} standard errors: pass 1 - prediction?"
        )


def inversion(mu: Floats, log_z: Floats, weight: Floats) -> float:
    """By how many standard errors classes are labelled less often the more probable they are.

    0 where it is not beyond chance.
    """
    share = weight / weight.sum()
    covariance = row_sum((mu - share @ mu) * (log_z - share @ log_z))
    mean = float(share @ covariance)
    errors = -mean / (EPS + np.sqrt(share**2 @ (covariance - mean) ** 2))
    return errors if len(mu) >= _FEW and errors > _ERRORS else 0.0


def read_with_costs(y, prediction, costs: Costs, sample_weight=None, groups=None) -> Rows:
    """Rows that meet a cost matrix: 1-D labels are names of its classes, where they are sorted.

    A bare prediction has its columns in that order too.
    """
    named = costs.classes is not None and is_sorted(costs.classes) and read_labels(y).single
    classes = costs.classes if named and read_prediction(prediction)[1] is None else None
    return read_rows(y, prediction, sample_weight, groups, classes=classes)


def _widened(prediction, classes: NDArray, wanted: NDArray):
    """The prediction over all the classes wanted, in their order: the others have probability 0."""
    if np.array_equal(classes, wanted):
        return prediction
    columns = positions(classes, wanted)
    if isinstance(prediction, Distribution):
        return prediction.embed(columns, len(wanted)).with_classes(wanted)
    return in_columns(prediction, columns, len(wanted))


def rows_of(estimator, X, y, sample_weight=None, groups=None, *, distribution: bool = True) -> Rows:
    """Labels, and what a fitted classifier predicts for X, in the order of its classes.

    With `distribution` its predictive distribution, else its class probabilities. A class that
    training never saw has probability 0.
    """
    if not hasattr(estimator, "predict_proba") and not hasattr(estimator, "predict_dist"):
        raise ValueError(
            f"{type(estimator).__name__} predicts no probabilities; pass a classifier with "
            "predict_proba, or wrap it in sklearn.calibration.CalibratedClassifierCV."
        )
    check_row_names(X=X, y=y, sample_weight=sample_weight, groups=groups)
    prediction: PredictionLike
    if distribution:
        prediction = predict_dist(estimator, X)
    else:
        prediction = np.asarray(estimator.predict_proba(check_samples(X)))
    classes = np.asarray(estimator.classes_)
    return read_rows(y, prediction, sample_weight, groups, classes=classes, add=True)


def predicted_dist(model, X, classes: NDArray) -> Distribution:
    """What a fitted classifier predicts, in the order of these classes."""
    return predict_dist(model, X).with_classes(own_classes(model, classes)).in_order(classes)


def predicted_classes(model, X, classes: NDArray) -> NDArray:
    """The class that a fitted classifier predicts for each sample, by its name among these."""
    result = np.asarray(model.predict(check_samples(X)))
    columns = (result[:, None] == model.classes_).argmax(axis=1)
    return own_classes(model, classes)[columns]


def shares_of(labels: Labels, names: ArrayLike) -> Floats:
    """Share of the labels of each sample that name the class given for it, shape (n,)."""
    return labels.mu[np.arange(len(labels)), positions(names, labels.classes)]


def rated_only(y, *others) -> tuple:
    """The samples with labels of y, and of what belongs to them, for whoever needs no `Rows`."""
    labels = read_labels(y)
    if not labels.has_gaps:
        return y, *others
    return tuple(take_rows(a, labels.rated) for a in (y, *others))


def labels_for(estimator, y) -> Labels:
    """Labels in the order of a fitted classifier's classes, and of those it never saw."""
    return read_labels(y).in_order(np.asarray(estimator.classes_), add=True)


def class_names(rows: Rows) -> list:
    """What users call the columns: names where there are, else the numbers themselves."""
    return names_of(rows.labels).tolist()


def class_column(class_index, rows: Rows) -> int:
    """Column of a class: integers are column numbers unless classes have numbers for names.

    None stands for the second of two classes.
    """
    names = class_names(rows)
    if class_index is None and len(names) == 2:
        return 1
    if class_index is None:
        raise ValueError(f"Choose one of the {len(names)} classes {names[:20]}.")
    whole = isinstance(class_index, (int, np.integer)) and not isinstance(class_index, bool)
    if whole and not is_numeric(rows.classes):
        if not 0 <= class_index < len(names):
            raise ValueError(
                f"Class {class_index} is no column number: there are {len(names)} classes, "
                f"{names[:20]}, in the columns 0 to {len(names) - 1}."
            )
        return int(class_index)
    if class_index not in names:
        raise ValueError(f"Class {class_index!r} is not among the classes {names[:20]}.")
    return names.index(class_index)


@dataclass_transform(eq_default=False)
def parameters(owner: type[Owner]) -> type[Owner]:
    """Make fields of an estimator the parameters that its constructor stores; decorates classes."""
    return dataclass(eq=False, repr=False)(owner)


class DistributionClassifierMixin(ClassifierMixin):
    """What a classifier with `predict_dist` predicts: its mean, and the most probable class."""

    classes_: NDArray

    @abstractmethod
    def predict_dist(self, X: Samples) -> Distribution:
        """The distribution of each sample's class probabilities."""

    def predict_proba(self, X: Samples) -> Floats:
        """Class probabilities, shape (n_samples, n_classes): the mean of `predict_dist`."""
        return np.array(self.predict_dist(X).mean())

    def predict(self, X: Samples) -> NDArray:
        """The most probable class of each sample, shape (n_samples,)."""
        columns = self.predict_proba(X).argmax(axis=1)
        return self.classes_[columns]

    def score(self, X: Samples, y: LabelsLike, sample_weight: Weights = None) -> float:
        """Expected accuracy, see `sklearn_lhcal.metrics.expected_accuracy`: larger is better.

        Between 0 and 1; ties of the probabilities are shared evenly. A label of a class that
        training never saw counts as wrong, as with scikit-learn's classifiers.
        """
        rows = rows_of(self, X, y, sample_weight)
        return float(np.average(accuracy(rows.mu, rows.z), weights=rows.w))
