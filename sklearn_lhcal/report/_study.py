"""What a report is about: labels and predictions that have met, and the recalibrated ones."""

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from sklearn.model_selection import GroupKFold, KFold
from sklearn.utils import check_random_state

from .._rows import Labels, PredictionLike, names_of, read_labels, read_rows
from .._utils.checks import as_names, check_same_length, is_gap, take_rows
from .._utils.costs import check_cost_matrix
from .._utils.distances import Distance, points
from .._utils.names import numbers_of, row_names, sorted_names
from .._utils.types import ArrayLike, Floats, Indices, LabelsLike, NDArray
from ..calibration import AlphaCalibration, TemperatureScaling
from ..distributions import Distribution
from ..label_histogram import Annotations

# From fewer raters nothing can be said of others.
LEAST_RATERS = 3
# So many ids are named of those that were left out.
SHOWN = 20
# So many raters of one label of a case are named, and so many of its labels.
MOST_NAMES = 5
# What is not a mean over cases is made of so many at most, with fewer blocks.
MOST_CASES = 50_000


class Step(NamedTuple):
    """One step on the way from files to the cases of a report.

    Attributes
    ----------
    words : str
        What was read or left out, and why: "without a label".
    n : int
        How many cases, or labels where the words say so.
    ids : list of str
        Names of the first 20 that were left out.
    """

    words: str
    n: int
    ids: Sequence[str] = ()


@dataclass(frozen=True)
class Study:
    """Checked samples, in the order of the prediction's classes.

    Attributes
    ----------
    labels : Labels
        Of n samples and K classes.
    prediction : Distribution
        Its `classes` are those of the labels.
    groups : ndarray of shape (n,) or None
        Number of the group of each sample.
    ids : ndarray of shape (n,) or None
        Names of the samples.
    costs : array-like of shape (K, n_decisions), or None
    n_dropped : int
        How many samples had no label, and were left out.
    notes : sequence of str
        What was done to the files before they were read.
    subgroups : dict of str to ndarray of shape (n,)
        What each case is by each column: its site, its device.
    distance : None, "linear", "quadratic" or table of d², shape (K, K)
        How far apart classes are. With "linear" the columns are grades, from the lowest.
    flow : sequence of Step
        From what was read to the cases that are left, in order.
    title, model_name : str
        What the page is called, and whose predictions it is about; "" where that was not said.
    patients : ndarray of shape (n,) or None
        What each group is called.
    findings : dict of str to Study
        All findings, where this study is about one of several.
    rater_groups : dict of raters to str
        The group of each rater who is in one.
    """

    labels: Labels
    prediction: Distribution
    groups: Indices | None
    ids: NDArray | None
    costs: ArrayLike | None
    n_dropped: int
    notes: Sequence[str] = ()
    subgroups: Mapping[str, NDArray] = field(default_factory=dict)
    distance: Distance = None
    flow: Sequence[Step] = ()
    title: str = ""
    model_name: str = ""
    patients: NDArray | None = None
    findings: Mapping[str, Self] = field(default_factory=dict)
    rater_groups: Mapping[Any, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def classes(self) -> list[str]:
        """Names of the classes, as a page prints them."""
        return [str(name) for name in self.labels.classes.tolist()]

    @property
    def n_groups(self) -> int:
        """Number of independent units: groups, else samples."""
        if self.groups is None:
            return len(self)
        return int(self.groups.max()) + 1

    @cached_property
    def z(self) -> Floats:
        """Class probabilities, shape (n, K)."""
        return self.prediction.mean()

    @cached_property
    def n_labels(self) -> Indices:
        """Labels of each sample, shape (n,)."""
        return self.labels.n.astype(int)

    @property
    def n_raters(self) -> int | None:
        """How many people gave the labels; None where that is unknown."""
        return self.labels.n_raters if isinstance(self.labels, Annotations) else None

    @property
    def raters(self) -> Literal["random", "fixed"]:
        """Whether intervals hold for other raters too: three at least must be known."""
        return "random" if (self.n_raters or 0) >= LEAST_RATERS else "fixed"

    def shown(self, most: int) -> list[int]:
        """Columns of the most frequent classes, in their order; the second of two."""
        if len(self.classes) == 2:
            return [1]
        votes = self.labels.counts.sum(axis=0)
        return sorted(np.argsort(-votes, kind="stable")[:most].tolist())

    @cached_property
    def drawn(self) -> Any:
        """The cases that all but means are made of: all, or 50,000 at random."""
        if len(self) <= MOST_CASES:
            return slice(None)
        return np.random.default_rng(0).choice(len(self), MOST_CASES, replace=False)

    @cached_property
    def few(self) -> Self:
        """The study of these cases."""
        if len(self) <= MOST_CASES:
            return self
        return self.take(self.drawn)

    def take(self, rows: Indices) -> Self:
        """The study of some of the cases; it keeps no names of them."""
        return replace(
            self,
            labels=self.labels.take(rows),
            prediction=self.prediction[rows],
            groups=take_rows(self.groups, rows),
            subgroups={name: values[rows] for name, values in self.subgroups.items()},
        )

    def rater_names(self, sensitive: bool = False) -> list[str]:
        """What raters are called; none where nobody knows who gave a label."""
        if not isinstance(self.labels, Annotations):
            return []
        names = self.labels.raters.tolist()
        return [f"rater {i + 1}" if sensitive else str(name) for i, name in enumerate(names)]

    def said(self, i: int, raters: Sequence[str]) -> str:
        """The labels of a case, the most frequent first, and the names of who gave them."""
        labels: Any = self.labels.take([i])
        (n,) = labels.counts
        told = []
        for k in np.argsort(-n, kind="stable")[: min(np.count_nonzero(n), MOST_NAMES)].tolist():
            who = [raters[r] for r in labels.rater[labels.label == k]] if raters else []
            who = who[:MOST_NAMES] + ["…"] * (len(who) > MOST_NAMES)
            told.append(f"{self.classes[k]} {n[k]:g}" + (f": {', '.join(who)}" if who else ""))
        return "; ".join(told) if raters else ", ".join(told)

    @property
    def n_blocks(self) -> int | None:
        """Blocks of a jackknife; None: as many as the package takes."""
        return None if len(self) < MOST_CASES else 20

    @cached_property
    def hard(self) -> bool:
        """Whether the prediction is one class for each case: labels, not probabilities."""
        return bool((self.z.max(axis=1) == 1).all())

    @property
    def heading(self) -> str:
        """What the page is called."""
        return self.title or ("Comparison with raters" if self.hard else "Calibration report")

    @property
    def primary(self) -> str:
        """The number that decides the verdict."""
        return "excess_error" if self.hard else "overconfidence"

    @property
    def has_pairs(self) -> bool:
        """Whether some sample has two labels."""
        return bool((self.n_labels >= 2).any())


def read_study(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    groups: ArrayLike | None = None,
    cost_matrix: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    ids: ArrayLike | None = None,
    subgroups=None,
    distance: Distance = None,
    title: str | None = None,
    model_name: str | None = None,
    rater_groups: Mapping | None = None,
) -> Study:
    """Check everything that a report is made from."""
    given = read_labels(y)
    of = {} if subgroups is None else subgroups
    columns = {str(name): as_names(of[name], "subgroups") for name in getattr(of, "columns", of)}
    check_same_length(len(given), ids=ids, **columns)
    # samples without labels are left out here
    rows = read_rows(given, prediction, None, groups, classes=classes)
    labels = rows.labels
    if labels.known:
        raise ValueError(
            "A report is about labels; KnownProbabilities hold none. Pass counts: how many raters "
            "chose each class."
        )
    names = names_of(labels)
    if cost_matrix is not None:
        check_cost_matrix(cost_matrix).for_classes(names, len(names))
    numbers, patients = rows.groups, None
    if numbers is not None:
        numbers = np.unique(numbers, return_inverse=True)[1]
        patients = as_names(groups, "groups")[given.rated]
    if ids is None:
        ids = _own_ids(y, prediction)
    if ids is not None:
        ids = np.asarray(ids)[given.rated]
    prediction = rows.distribution.with_classes(names)
    if isinstance(distance, str):
        names = _graded(given, names)
        prediction = prediction.in_order(names)
    points(distance, len(names), names, graded=True)
    labels = copy.copy(labels.in_order(names, sure=True))
    labels.graded = isinstance(distance, str)
    n_dropped = len(given) - len(labels)
    flow = [Step("cases given", len(given)), Step("left out: without a label", n_dropped)]
    study = Study(
        labels=labels,
        prediction=prediction,
        groups=numbers,
        ids=ids,
        costs=cost_matrix,
        n_dropped=n_dropped,
        flow=flow,
        subgroups={name: values[given.rated] for name, values in columns.items()},
        distance=distance,
        title=title or "",
        model_name=model_name or "",
        patients=patients,
        rater_groups={r: str(g) for r, g in (rater_groups or {}).items() if not is_gap(g)},
    )
    n = study.n_groups
    if n < 2:
        raise ValueError(f"A report needs two rows or groups with labels at least, got {n}.")
    return study


def _graded(given: Labels, names: NDArray) -> NDArray:
    """Grades from the lowest: as the labels have them, as numbers, else as the columns are."""
    if given.graded and set(given.classes.tolist()) == set(names.tolist()):
        return given.classes
    return names if numbers_of(names) is None else sorted_names(names)


def _own_ids(y, prediction) -> NDArray | None:
    """What annotations, or the index of a frame, call the rows."""
    if isinstance(y, Annotations) and y.items is not None:
        return y.items
    names = [row_names(side) for side in (y, prediction)]
    return next((own for own in names if own is not None), None)


# Below so many cases or patients a calibrator learns little but noise.
LEAST_UNITS = 40
FOLDS = 5
# One or two numbers are learnt: more samples change their third digit.
MOST_ROWS = 100_000


class Recalibrated(NamedTuple):
    """The prediction after calibration; None, and the reason, where that was not possible."""

    prediction: Distribution | None
    reason: str
    messages: list[str]


def recalibrate(study: Study, random_state) -> Recalibrated:
    """Temperature scaling, and α-calibration where samples have two labels, out of fold."""
    if study.n_groups < LEAST_UNITS:
        reason = f"there are {study.n_groups} cases or patients, fewer than {LEAST_UNITS}"
        return Recalibrated(None, reason, [])
    with warnings.catch_warnings(record=True, action="always") as caught:
        try:
            prediction = _out_of_fold(study, check_random_state(random_state))
        except ValueError as error:
            return Recalibrated(None, str(error), [])
    return Recalibrated(prediction, "", [str(warning.message) for warning in caught])


def _out_of_fold(study: Study, rng: np.random.RandomState) -> Distribution:
    folds = KFold if study.groups is None else GroupKFold
    splitter = folds(FOLDS, shuffle=True, random_state=rng)
    scaling = TemperatureScaling("proba")
    calibrator = AlphaCalibration(scaling) if study.has_pairs else scaling
    parts, tested = [], []
    for train, test in splitter.split(study.z, groups=study.groups):
        if len(train) > MOST_ROWS:
            train = rng.choice(train, MOST_ROWS, replace=False)
        calibrator.fit(study.z[train], study.labels.counts[train])
        parts.append(calibrator.predict_dist(study.z[test]))
        tested.append(test)
    prediction = Distribution.concatenate(parts)[np.argsort(np.concatenate(tested))]
    return prediction.with_classes(study.prediction.classes)


def prints_zeros(study: Study) -> bool:
    """Whether a class that someone voted for was given probability 0."""
    return bool((study.labels.counts[study.z <= 0] > 0).any())
