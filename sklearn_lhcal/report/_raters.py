"""The raters of a report: a model beside them, who stands out, and who is taken for whom.

How often two labels differ is a share of comparisons. Where classes are at a distance, the mean
number of steps, or the mean squared distance, stands beside it as a quantity of its own.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from .._utils.distances import is_linear
from .._utils.simplex import votes_of
from .._utils.types import Floats
from ..label_histogram import cohen_kappa, percent_agreement
from ..metrics import expected_accuracy, rater_comparison, rater_group_difference, rater_table
from ._numbers import MOST_CLASSES, Intervals, Number, call_of
from ._study import LEAST_RATERS, Study
from ._verdict import error_state
from ._words import lines, said

MOST_RATERS = 50
MOST_GROUPS = 6
# So many raters are compared in pairs.
MOST_IN_PAIRS = 6


# How often, or how far, others disagree with a rater.
SCALES = ("rater_error", "rater_steps", "rater_distance")


def raters_of(intervals: Intervals, sensitive: bool) -> list[Number]:
    """Numbers of all raters and of each, whose name is the `part`.

    There are none where raters have no names, or share no case.
    """
    study = intervals.study
    if (study.n_raters or 0) < 2 or not study.has_pairs:
        return []
    names = study.rater_names(sensitive)
    results = list(_compared(intervals, "error", names))
    if study.distance is not None:
        what = "steps" if is_linear(study.distance) else "distance"
        results += _compared(intervals, what, names)
    results += _pairs(intervals, names)
    if study.raters == "random":
        results += _table(intervals, names)
        # one rater may have labelled nearly all cases
        with suppress(ValueError):
            results.append(next(_compared(intervals, "error", names, raters="random")))
    return [*results, *_between_groups(intervals)]


def _compared(
    intervals: Intervals, what: str, names: Sequence[str], raters="fixed"
) -> Iterator[Number]:
    """The model beside one more rater by "error", "steps" or "distance", the difference first."""
    study: Any = intervals.study
    distance = None if what == "error" else study.distance
    options: dict = {"margin": intervals.margin, "raters": raters, "distance": distance}
    made: Any = rater_comparison(study.labels, study.prediction, **options, **intervals.how)
    # it has half of each squared distance
    factor = 1 if distance is None else 2
    call = call_of(rater_comparison, **options)
    call = call if distance is None else f"2 × {call}"
    several = int((study.n_labels >= 2).sum())
    whose = "uncalibrated" if raters == "fixed" else "new_raters"

    def number(who: str, field: str, ends, n: int = several, part: str | None = None):
        subset = "labels" if who == "rater" else whose
        estimate, low, high = (factor * np.asarray(ends)[:3]).tolist()
        about = intervals.level, n, f"{call}.{field}", None, part
        return Number(f"{who}_{what}", subset, estimate, low, high, *about)

    yield number("excess", "difference", made.difference)
    yield number("model", "model_error", made.model_error)
    yield number("rater", "reader_error", made.reader_error)
    if distance is None:
        worth = number("", "worth", [made.worth, made.worth_low, made.worth_high])
        yield worth._replace(quantity="equivalent_raters")
    each = made.readers
    for r, name in enumerate(names):
        about = int(each.n_rows[r]), name
        ends = [each.error[r], *each.error_interval[r]]
        yield number("rater", "readers.error", ends, *about)
        ends = [each.difference[r], *each.difference_interval[r]]
        yield number("excess", "readers.difference", ends, *about)


def _table(intervals: Intervals, names: Sequence[str]) -> Iterator[Number]:
    """Whether raters label alike, and how much more often than others each names each class."""
    study: Any = intervals.study
    level = intervals.level
    table = rater_table(study.labels, **intervals.how)
    several = int((study.n_labels >= 2).sum())
    for part, p in [(None, table.pvalue), *table.p_values.items()]:
        of_test = level, several, "rater_table()", None, part
        yield Number("raters_alike_p", "labels", p, np.nan, np.nan, *of_test)
    for r in np.argsort(-table.n_rows, kind="stable")[:MOST_RATERS].tolist():
        for k in study.shown(MOST_CLASSES):
            low, high = table.interval[r, k]
            about = level, int(table.n_rows[r]), "rater_table().bias", study.classes[k], names[r]
            yield Number("rater_bias", "labels", table.bias[r, k], low, high, *about)


def _pairs(intervals: Intervals, names: Sequence[str]) -> Iterator[Number]:
    """Agreement and Cohen's kappa of any two of few raters, by their names."""
    study: Any = intervals.study
    labels = study.labels
    who = np.unique(labels.rater).tolist()
    pairs = list(combinations(who, 2)) if len(who) <= MOST_IN_PAIRS else []
    # all intervals hold together
    level = 1 - (1 - intervals.level) / max(len(pairs), 1)
    graded = {"weights": "quadratic"} if isinstance(study.distance, str) else {}
    for pair in pairs:
        both = labels.keep(np.isin(labels.rater, pair))
        shared = np.flatnonzero(both.n == 2)
        own = intervals._replace(study=replace(study, labels=both).take(shared), level=level)
        part = " and ".join(names[r] for r in pair)
        for metric, options in ((percent_agreement, {}), (cohen_kappa, graded)):
            # of a case or two nothing follows
            with suppress(ValueError):
                made = own.measure(metric.__name__, metric, None, "labels", **options)
                yield made._replace(part=part)


def _between_groups(intervals: Intervals) -> Iterator[Number]:
    """Differences between groups of raters, for new raters where both groups have three."""
    study: Any = intervals.study
    labels = study.labels
    present = labels.raters[np.unique(labels.rater)].tolist()
    sizes = Counter(study.rater_groups[r] for r in present if r in study.rater_groups)
    pairs = list(combinations(sorted(sizes)[:MOST_GROUPS], 2))
    groups = dict.fromkeys(present) | study.rater_groups
    # labels beside the model, and beside each other
    plan: tuple = (
        ("accuracy_difference", expected_accuracy, study.prediction, "uncalibrated"),
        ("agreement_difference", percent_agreement, None, "labels"),
    )
    for pair in pairs:
        belongs = np.array([groups.get(rater) in pair for rater in labels.raters.tolist()])
        n = len(labels.keep(belongs[labels.rater]).rated)
        few = min(sizes[group] for group in pair) < LEAST_RATERS
        # all intervals of pairs hold together
        level = 1 - (1 - intervals.level) / len(pairs)
        how: dict = {"compare": pair, "raters": "fixed" if few else "random", **intervals.how}
        how["confidence_level"] = level
        for name, metric, prediction, whose in plan:
            # one rater has no pairs
            with suppress(ValueError):
                made = rater_group_difference(metric, labels, groups, prediction, **how)
                call = call_of(rater_group_difference, metric.__name__, **how)
                about: tuple = (level, n, call, None, " minus ".join(pair))
                yield Number(name, whose if few else "new_raters", *made[:3], *about)


def facts(
    found: list[Number], numbers: dict[tuple[str, str], Number], margin: float
) -> dict | None:
    """What the page says of named raters; None where there are none."""
    if not found:
        return None
    errors = [n for n in found if n.quantity in SCALES and n.part is not None]
    medians = {what: median_of(errors, what) for what in {n.quantity for n in errors}}
    about = {"medians": medians, "biases": [n for n in found if n.quantity == "rater_bias"]}
    first = sorted(errors, key=lambda n: (SCALES.index(n.quantity), -n.n))
    names = list(dict.fromkeys(n.part for n in first))[:MOST_RATERS]
    table = [
        {"rater": name, "stands_out": lines("differs", name=name, errors=errors, **about)}
        for name in names
    ]
    p_values = [n for n in found if n.quantity == "raters_alike_p"]
    state_of = partial(error_state, margin=margin)
    return {
        "sentences": lines("beside_raters", numbers=numbers, state_of=state_of, margin=margin),
        "stands_out": said("stands_out", rows=table, p_values=p_values),
        "table": table,
    }


def median_of(errors: list[Number], quantity: str) -> float:
    """The median rater: a mean would move with the one who stands out."""
    return float(np.nanmedian([n.estimate for n in errors if n.quantity == quantity]))


def confusion(study: Study) -> dict[str, list | None]:
    """Tables (K, K) of who says what where another says the class of the line; shares of lines.

    What raters say where the model says the class, and what another rater says where one does,
    which is None without pairs. Each case counts once.
    """
    mu = study.labels.mu
    model = _shares(votes_of(study.z).T @ mu)
    if not study.has_pairs:
        return {"model": model, "raters": None}
    several = study.n_labels >= 2
    y = study.labels.counts[several]
    n = y.sum(axis=1, keepdims=True)
    # pairs of two different labels of a case: y yᵀ − diag(y), each case weighing 1
    w = y / (n * (n - 1))
    pairs = w.T @ y - np.diag(w.sum(axis=0))
    return {"model": model, "raters": _shares(pairs)}


def _shares(a: Floats) -> list:
    total = a.sum(axis=1, keepdims=True)
    return np.divide(a, total, out=np.full(a.shape, np.nan), where=total > 0).tolist()
