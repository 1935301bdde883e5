"""The numbers of a report: public metrics, each with its interval."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from .. import metrics
from .._rows import Rows, read_rows
from .._utils.checks import take_rows
from .._utils.progress import Progress
from .._utils.simplex import accuracy
from .._utils.tags import MeanOfTerms, metric, tags_of
from .._utils.types import Floats
from ..calibration import TemperatureScaling
from ..distributions import Distribution, PointMass
from ..label_histogram import (
    fleiss_kappa,
    gwet_ac,
    krippendorff_alpha,
    pairwise_disagreement,
    percent_agreement,
)
from ..metrics import bayes_decision, confidence_interval, decision_risk, paired_difference
from ._study import Study
from ._words import glossary

MOST_CLASSES = 20
AGREEMENT = (percent_agreement, fleiss_kappa, krippendorff_alpha, gwet_ac)
OF_GRADES = (fleiss_kappa, "linear"), (fleiss_kappa, "quadratic"), (krippendorff_alpha, "ordinal")
# What calibration is judged by, in differences of one prediction from another.
COMPARED = ("log_loss", "expected_squared_loss", "disagreement_squared_loss")


class Number(NamedTuple):
    """One number of the page: a quantity, for whom, its interval, and of how many cases.

    `subset` is "uncalibrated", "recalibrated", "difference" (of these two) or "labels", whose
    intervals hold for these raters and new cases; "new_raters": the uncalibrated prediction, with
    an interval for new raters and new cases. `class_name` is the class, and `part` the rater, the
    finding, the subgroup or the share of cases; None: all of them. `computed` is the public call.
    """

    quantity: str
    subset: str
    estimate: float
    low: float
    high: float
    level: float
    n: int
    computed: str = ""
    class_name: str | None = None
    part: str | None = None

    @property
    def unit(self) -> str:
        """The unit of the quantity."""
        return glossary("units")[self.quantity]

    @property
    def ends(self) -> list[float]:
        """The estimate and the ends of the interval."""
        return [self.estimate, self.low, self.high]

    def is_wider(self, other: "Number") -> bool:
        """Whether the interval is wider, by more than rounding, or not known."""
        return not self.high - self.low <= (1 + 1e-9) * (other.high - other.low)


def call_of(door: Callable, *words: str, **options) -> str:
    """A public call in words, without options that are tables."""
    plain = {name: value for name, value in options.items() if isinstance(value, (str, float))}
    said = [*words, *(f"{name}={value!r}" for name, value in plain.items())]
    return f"{door.__name__}({', '.join(said)})"


def ratio(terms, rows: Rows, least_raters: int = 1, **options) -> float:
    """The ratio of the sums of both terms; NaN where no sample has so many raters."""
    seen = rows.contributing(least_raters)
    if seen is None:
        return float("nan")
    numerator, denominator = terms(seen, **options)
    return float(numerator.sum() / denominator.sum())


def _mean_of(what: Callable, least_raters: int = 1, least: float = -1.0) -> Callable:
    """The metric that is the mean over cases of ``what(rows)``, from `least` to 1."""

    def terms(rows: Rows) -> tuple:
        return rows.weight * what(rows), rows.weight

    @metric(MeanOfTerms(least_raters=least_raters, terms=terms, limits=(least, 1.0)))
    def function(y, prediction) -> float:
        return ratio(terms, read_rows(y, prediction), least_raters)

    function.__name__ = what.__name__
    return function


@partial(_mean_of, least=0.0)
def confidence(rows: Rows) -> Floats:
    """The largest probability."""
    return rows.z.max(axis=1)


@_mean_of
def overconfidence(rows: Rows) -> Floats:
    """The largest probability minus the share of labels that agree with it."""
    return rows.z.max(axis=1) - accuracy(rows.mu, rows.z)


@partial(_mean_of, least_raters=2)
def excess_disagreement(rows: Rows) -> Floats:
    """The predicted disagreement minus the observed one."""
    return rows.distribution.disagreement() - pairwise_disagreement(rows.labels)


@partial(_mean_of, least_raters=2)
def excess_error(rows: Rows) -> Floats:
    """How much more often a rater disagrees with the model than with another rater."""
    return 1 - accuracy(rows.mu, rows.z) - pairwise_disagreement(rows.labels)


PROBABILITIES: dict[str, Callable] = {
    "accuracy": metrics.expected_accuracy,
    "confidence": confidence,
    "log_loss": metrics.label_log_loss,
    "expected_squared_loss": metrics.expected_squared_loss,
    "expected_calibration_error": metrics.expected_calibration_error,
    "calibration_error": metrics.calibration_error,
    "overconfidence": overconfidence,
}
# These need two labels of a case.
_PAIRS = (
    metrics.epistemic_loss,
    metrics.irreducible_loss,
    metrics.calibration_loss,
    metrics.dispersion_loss,
    metrics.disagreement_squared_loss,
    metrics.disagreement_calibration_error,
    excess_disagreement,
    excess_error,
)
PAIRS: dict[str, Callable] = {of_pairs.__name__: of_pairs for of_pairs in _PAIRS}
# Of a prediction without probabilities.
OF_LABELS = ("accuracy", "excess_error")


class Intervals(NamedTuple):
    """How intervals are made: what they all share."""

    study: Study
    level: float
    random_state: int
    margin: float

    def measure(
        self, name: str, function, prediction, subset="uncalibrated", raters="fixed", **options
    ) -> Number:
        """One metric with its interval, for these raters and new cases.

        Of very many cases all but means are those of some of them.
        """
        study = self.study
        tags = tags_of(function, **options)
        words = glossary("meanings").get(name, function.__name__)
        if tags.biased:
            # an interval about it would not hold what it estimates
            estimate = function(study.labels, prediction, **options)
            return self._number(name, subset, (estimate, np.nan, np.nan), tags, f"{words}()")
        if not isinstance(tags, MeanOfTerms):
            prediction = take_rows(prediction, study.drawn)
            study = study.few
        own = self._replace(study=study)
        interval = confidence_interval(
            function, study.labels, prediction, raters=raters, **own.how, **options
        )
        call = call_of(confidence_interval, words, raters=raters, **options)
        return own._number(name, subset, interval, tags, call)

    def sought(self, name: str, function, subset="uncalibrated", **options) -> Number:
        """The same of the study's own prediction; NaN where too few cases or labels count."""
        try:
            return self.measure(name, function, self.study.prediction, subset, **options)
        except ValueError:
            return Number(name, subset, np.nan, np.nan, np.nan, self.level, 0)

    def compare(self, name: str, function, prediction) -> Number:
        """How much smaller a metric is than that of the study's own prediction."""
        own = self.study.labels, prediction, self.study.prediction
        interval = paired_difference(function, *own, raters="fixed", **self.how)
        call = call_of(paired_difference, function.__name__, raters="fixed")
        return self._number(name, "difference", interval, tags_of(function), call)

    def scaled(self, name: str) -> Number:
        """What temperature scaling of all cases found; it mixes only where probabilities are 0."""
        study = self.study.few
        fitted = TemperatureScaling("proba").fit(study.z, study.labels.counts)
        call = f'TemperatureScaling("proba").fit().{name}_'
        about = np.nan, np.nan, self.level, len(study), call
        return Number(name, "recalibrated", getattr(fitted, f"{name}_", 0.0), *about)

    @property
    def how(self) -> dict:
        """What all intervals share."""
        return {
            "groups": self.study.groups,
            "n_blocks": self.study.n_blocks,
            "confidence_level": self.level,
            "random_state": self.random_state,
        }

    def _number(self, name: str, subset: str, interval, tags, call: str) -> Number:
        n = int((self.study.n_labels >= tags.least_raters).sum())
        estimate, low, high = interval[:3]
        return Number(name, subset, estimate, low, high, self.level, n, call)


def numbers(
    intervals: Intervals, recalibrated: Distribution | None, verbose: bool = False
) -> dict[tuple[str, str], Number]:
    """All numbers by name and subset."""
    todo = list(_plan(intervals, recalibrated))
    results = [call() for call in Progress(todo, desc="intervals", disable=not verbose)]
    return {(number.quantity, number.subset): number for number in results}


def _plan(intervals: Intervals, recalibrated: Distribution | None) -> Iterator[Callable]:
    """The calls that make the numbers; none was made yet."""
    study = intervals.study
    chosen = dict(PROBABILITIES)
    if study.has_pairs:
        chosen |= PAIRS
        for of_labels in AGREEMENT:
            yield partial(intervals.measure, of_labels.__name__, of_labels, None, "labels")
        if isinstance(study.distance, str):
            for of_labels, weights in OF_GRADES:
                of_grades = f"{of_labels.__name__}_{weights}", of_labels, None, "labels"
                yield partial(intervals.measure, *of_grades, weights=weights)
    if study.hard:
        chosen = {name: chosen[name] for name in OF_LABELS if name in chosen}
    primary = study.primary
    if study.raters == "random" and primary in chosen:
        yield partial(intervals.sought, primary, chosen[primary], "new_raters", raters="random")
    predictions = {"uncalibrated": study.prediction}
    if recalibrated is not None:
        predictions["recalibrated"] = recalibrated
    if study.costs is not None:
        shares = np.broadcast_to(study.labels.mu.mean(axis=0), study.z.shape)
        same = PointMass(shares).with_classes(study.prediction.classes)
        default = "default_risk", decision_risk, bayes_decision(same, study.costs), "labels"
        yield partial(intervals.measure, *default, cost_matrix=study.costs)
    for subset, prediction in predictions.items():
        for name, function in chosen.items():
            yield partial(intervals.measure, name, function, prediction, subset)
        if study.costs is not None:
            advised = bayes_decision(prediction, study.costs)
            risk = "decision_risk", decision_risk, advised, subset
            yield partial(intervals.measure, *risk, cost_matrix=study.costs)
    if recalibrated is not None:
        yield from (partial(intervals.scaled, name) for name in ("temperature", "mixing_weight"))
        for name in COMPARED:
            if name in chosen:
                yield partial(intervals.compare, name, chosen[name], recalibrated)
