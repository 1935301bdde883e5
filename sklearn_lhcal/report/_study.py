"""What a report is about: labels and predictions that have met, and who the rows are."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .._rows import Labels, PredictionLike, read_labels, read_rows
from .._utils.arrays import Floats, Indices
from .._utils.checks import check_same_length
from .._utils.costs import check_cost_matrix
from .._utils.names import row_names
from .._utils.types import ArrayLike, LabelsLike
from ..distributions import Distribution
from ..label_histogram import Annotations

# From fewer people nothing can be said of others; nor, from fewer in the second, of their pairs.
LEAST_RATERS = 3
LEAST_FOR_PAIRS = 4


@dataclass(frozen=True)
class Study:
    """Checked rows, in the order of the prediction's classes.

    Attributes
    ----------
    labels : Labels
        Of n rows and K classes.
    prediction : Distribution
        Its `classes` are those of the labels.
    groups : ndarray of shape (n,) or None
        Number of the group of each row.
    ids : ndarray of shape (n,) or None
        Names of the rows.
    costs : array-like of shape (K, n_decisions), or None
    n_dropped : int
        How many rows had no label, and were left out.
    notes : sequence of str
        What was done to the files before they were read.
    """

    labels: Labels
    prediction: Distribution
    groups: Indices | None
    ids: NDArray | None
    costs: ArrayLike | None
    n_dropped: int
    notes: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def classes(self) -> list[str]:
        """Names of the classes, as a page prints them."""
        return [str(name) for name in self.labels.classes.tolist()]

    @property
    def n_groups(self) -> int:
        """Number of independent units: groups, else rows."""
        if self.groups is None:
            return len(self)
        return int(self.groups.max()) + 1

    @cached_property
    def z(self) -> Floats:
        """Class probabilities, shape (n, K)."""
        return self.prediction.mean()

    @cached_property
    def n_labels(self) -> Indices:
        """Labels of each row, shape (n,)."""
        return self.labels.n.astype(int)

    @property
    def n_raters(self) -> int | None:
        """How many people gave the labels; None where that is unknown."""
        return self.labels.n_raters if isinstance(self.labels, Annotations) else None

    @property
    def raters(self) -> Literal["random", "fixed"]:
        """Whether intervals hold for other raters too: three at least must be known."""
        known = self.n_raters
        return "fixed" if known is None or known < LEAST_RATERS else "random"

    @property
    def raters_of_pairs(self) -> Literal["random", "fixed"]:
        """The same of a diagram of pairs of raters, which needs four."""
        known = self.n_raters
        return "fixed" if known is None or known < LEAST_FOR_PAIRS else "random"

    def shown(self, most: int) -> list[int]:
        """Columns of classes that are shown each: the most frequent, or the second of two."""
        if len(self.classes) == 2:
            return [1]
        votes = self.labels.counts.sum(axis=0)
        return np.argsort(-votes, kind="stable")[:most].tolist()

    @property
    def has_pairs(self) -> bool:
        """Whether some row has two labels."""
        return bool((self.n_labels >= 2).any())


def read_study(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    groups: ArrayLike | None = None,
    cost_matrix: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    ids: ArrayLike | None = None,
) -> Study:
    """Check everything that a report is made from."""
    given = read_labels(y)
    check_same_length(len(given), ids=ids)
    # rows without labels are left out here
    rows = read_rows(given, prediction, None, groups, classes=classes)
    labels = rows.labels
    if labels.known:
        raise ValueError(
            "A report is about labels; KnownProbabilities hold none. Pass counts: how many raters "
            "chose each class."
        )
    names = np.arange(labels.shape[1]) if labels.classes is None else labels.classes
    if cost_matrix is not None:
        check_cost_matrix(cost_matrix).for_classes(names, len(names))
    numbers = rows.groups
    n_units = len(labels) if numbers is None else len(np.unique(numbers))
    if n_units < 2:
        raise ValueError(f"A report needs two rows or groups with labels at least, got {n_units}.")
    if numbers is not None:
        numbers = np.unique(numbers, return_inverse=True)[1]
    if ids is None:
        ids = _own_ids(y, prediction)
    if ids is not None:
        ids = np.asarray(ids)
        ids = ids[given.rated]
    return Study(
        labels=labels.in_order(names, sure=True),
        prediction=rows.distribution.with_classes(names),
        groups=numbers,
        ids=ids,
        costs=cost_matrix,
        n_dropped=len(given) - len(labels),
    )


def _own_ids(y, prediction) -> NDArray | None:
    """What annotations, or the index of a frame, call the rows."""
    if isinstance(y, Annotations) and y.items is not None:
        return y.items
    names = [row_names(side) for side in (y, prediction)]
    return next((own for own in names if own is not None), None)
