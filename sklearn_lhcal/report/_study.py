"""What a report is about: labels and predictions that have met, and who the rows are."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._ground.arrays import Floats, Indices
from .._ground.checks import check_same_length
from .._ground.costs import Costs, check_cost_matrix
from .._rows import read_rows
from ..distributions import Distribution
from ..label_histogram._labels import Labels


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
    costs : Costs or None
    n_dropped : int
        How many rows had no label, and were left out.
    """

    labels: Labels
    prediction: Distribution
    groups: Indices | None
    ids: NDArray | None
    costs: Costs | None
    n_dropped: int

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def classes(self) -> list[str]:
        """Names of the classes, as a page prints them."""
        return [str(name) for name in self.prediction.classes.tolist()]

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
    def has_pairs(self) -> bool:
        """Whether some row has two labels."""
        return bool((self.n_labels >= 2).any())


def read_study(
    y,
    prediction,
    *,
    groups: ArrayLike | None = None,
    cost_matrix: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    ids: ArrayLike | None = None,
) -> Study:
    """Check everything that a report is made from."""
    rows = read_rows(y, prediction, None, groups, classes=classes)
    labels = rows.labels
    if labels.known:
        raise ValueError(
            "A report is about labels; KnownProbabilities hold none. Pass counts: how many raters "
            "chose each class."
        )
    names = np.arange(labels.shape[1]) if labels.classes is None else labels.classes
    check_same_length(len(labels), ids=ids)
    if ids is not None:
        ids = np.asarray(ids)
    costs = None
    if cost_matrix is not None:
        costs = check_cost_matrix(cost_matrix).for_classes(names, len(names), "the prediction")
    labelled = np.flatnonzero(labels.n > 0)
    labels = labels.in_order(names, sure=True).take(labelled)
    named = rows.distribution.with_classes(names)[labelled]
    groups = rows.groups
    if groups is not None:
        groups = np.unique(groups[labelled], return_inverse=True)[1]
    return Study(
        labels=labels,
        prediction=named,
        groups=groups,
        ids=None if ids is None else ids[labelled],
        costs=costs,
        n_dropped=len(rows) - len(labelled),
    )
