"""Each reader against the others: how often they disagree, and how often the model does.

A rating is compared with the other ratings of its row. Letters: n_i ratings of row i, y_i its
counts, s_ik the model's share of a vote (more than one class where probabilities tie).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

from ..._ground.arrays import Floats, Indices, Integers
from ..._ground.checks import plain_array
from ..._ground.names import is_numeric, positions, sorted_names
from ..._ground.simplex import row_sum, votes_of
from ..._ground.types import LabelsLike
from ..._rows import PredictionLike, Rows, read_rows
from ...distributions import PointMass
from ...label_histogram import Annotations
from ...label_histogram._labels import read_labels
from .statistic import MeanStatistic


def statistic_of_pairs(terms: Callable, rows: Rows) -> MeanStatistic:
    """A ratio of sums over rows with two readers or more; ``terms(rows)`` are its terms."""
    return MeanStatistic(lambda rows, _: terms(rows), rows, least_raters=2)


def rows_of_pairs(labels, prediction, sample_weight, groups) -> Rows:
    """The rows with two readers or more; the prediction may be None."""
    rows = read_rows(labels, prediction, sample_weight, groups, optional=True)
    rows.labels.warn_if_adjudicated()
    seen = rows.contributing(2)
    if seen is None:
        raise ValueError("No row of y with a positive weight has labels of two readers.")
    return seen


class Comparisons(NamedTuple):
    """Ratings of rows with two or more, each against the others of its row.

    Attributes
    ----------
    row, reader, label : ndarray of shape (n_ratings,)
    reader_error, model_error : ndarray of shape (n_ratings,)
        Share of the other readers who disagree with the reader, and with the model.
    """

    row: Integers
    reader: Integers
    label: Integers
    reader_error: Floats
    model_error: Floats

    def excess(self, rows: Rows, k: int) -> Floats:
        """Whether each label is of class k, less the share of k among the others of its row."""
        own = (self.label == k).astype(np.float64)
        return own - (rows.labels.counts[self.row, k] - own) / (rows.n[self.row] - 1)


def with_votes(y: LabelsLike, prediction: PredictionLike) -> tuple[Annotations, PredictionLike]:
    """The labels, and the prediction as probabilities: 1-D labels that a model gives are certain.

    1-D numbers that are no integers are probabilities of the second class, as everywhere.
    """
    labels = named_raters(y)
    if not _are_labels(prediction):
        return labels, prediction
    said = read_labels(prediction)
    classes = labels.classes
    if labels.single:
        classes = sorted_names(list({*classes.tolist(), *said.classes.tolist()}))
    unseen = said.classes[positions(said.classes, classes) < 0]
    # integers may be column numbers where no class is a number
    if len(unseen) and (is_numeric(classes) or not is_numeric(said.classes)):
        raise ValueError(
            f"prediction has labels that are no classes of y: {unseen.tolist()[:5]}; y has "
            f"{classes.tolist()[:20]}."
        )
    said = said.in_order(classes, other="y")
    return labels, PointMass(said.counts.astype(np.float64)).with_classes(said.classes)


def named_raters(y: LabelsLike) -> Annotations:
    """Labels that know who gave them; else a ValueError."""
    labels = read_labels(y)
    if not isinstance(labels, Annotations):
        raise ValueError(
            "y does not say who gave the labels: make Annotations of it, by Annotations.from_long "
            "or Annotations.from_matrix."
        )
    return labels


def _are_labels(prediction) -> bool:
    """Whether a prediction is one label a row."""
    if prediction is None or hasattr(prediction, "disagreement"):
        return False
    a = plain_array(prediction, "prediction")
    return a.ndim == 1 and a.dtype.kind != "f"


def compared(rows: Rows) -> Comparisons:
    """Every rating of rows with two or more against the others of its row."""
    labels = named_raters(rows.labels)
    row = labels.row
    several = rows.n[row] > 1
    row = row[several]
    a = labels.label[several].astype(np.int64)
    reader = labels.rater[several].astype(np.int64)
    y = labels.counts
    share = votes_of(rows.z)
    others = rows.n[row] - 1
    agree = (y[row, a] - 1) / others
    model = (row_sum(share * y)[row] - share[row, a]) / others
    return Comparisons(row, reader, a, 1 - agree, 1 - model)


class Means(NamedTuple):
    """Means of each reader over her rows, with intervals that hold for all readers together.

    Attributes
    ----------
    mean : ndarray of shape (n_raters, ...)
    interval : ndarray of shape (n_raters, ..., 2)
    """

    mean: Floats
    interval: Floats


def reader_means(
    values: Floats,
    at: Comparisons,
    weight: Floats,
    block: Indices,
    n_readers: int,
    confidence_level: float,
    n_each: int = 1,
) -> Means:
    """Weighted means of one value a rating, reader by reader, by the jackknife over blocks of rows.

    Bonferroni's intervals over readers and the `n_each` means that each has. NaN for a
    reader all of whose rows are in one block.
    """
    B = int(block.max()) + 1
    w = weight[at.row]
    cell = block[at.row] * n_readers + at.reader
    N, D = (
        np.bincount(cell, a, minlength=B * n_readers).reshape(B, n_readers) for a in (w * values, w)
    )
    total = D.sum(axis=0)
    blocks = (D > 0).sum(axis=0)
    several = blocks > 1
    mean = N.sum(axis=0) / np.where(total > 0, total, np.nan)
    left = np.where(several, total - D, np.nan)
    without = (N.sum(axis=0) - N) / left
    # (b − 1)/b Σ_b (value without b − value)²; blocks without her rows add nothing
    variance = ((without - mean) ** 2).sum(axis=0) * (blocks - 1) / np.maximum(blocks, 1)
    asked = n_each * max(int((total > 0).sum()), 1)
    tail = (1 - confidence_level) / (2 * asked)
    reach = student.ppf(1 - tail, np.where(several, blocks - 1, np.nan)) * np.sqrt(variance)
    return Means(mean, np.stack([mean - reach, mean + reach], axis=-1))


def read_compared(y: LabelsLike, prediction: PredictionLike) -> tuple[Rows, Annotations]:
    """Rows whose prediction is votes or probabilities, and their labels, who know who gave them."""
    labels, prediction = with_votes(y, prediction)
    rows = read_rows(labels, prediction)
    return rows, named_raters(rows.labels)
