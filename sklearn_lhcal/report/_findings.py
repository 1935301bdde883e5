"""What a report says first: a verdict in words, and what was found wrong with the data."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from ._numbers import Number
from ._recalibrated import Recalibrated, prints_zeros
from ._study import Study

# A difference of probabilities up to which a prediction counts as right.
TOLERANCE = 0.02
# Another order of the columns is named where it is right so much more often.
CLEARLY_BETTER = 0.2
FEW_ROWS = 200
FEW_APART = 10
FEW_GROUPS = 20
FEW_RATERS = 5
# What calibration is advised by: the name of a difference, and what sentences call it.
LOSSES = {
    "log_loss": "the log loss",
    "expected_squared_loss": "the squared loss",
    "disagreement_squared_loss": "the squared loss of the disagreement",
}


class Verdict(NamedTuple):
    """One sentence of the verdict: "good", "bad", "open" or "advice", and in words."""

    state: str
    words: str


class Check(NamedTuple):
    """Something about the data that a reader should know: an "info" or a "warning"."""

    code: str
    severity: str
    message: str


def text(x: float) -> str:
    """A number as pages print it."""
    if not np.isfinite(x):
        return "not defined"
    return f"{x:.3f}".replace("-", "−")


def with_interval(number: Number) -> str:
    """A number and the ends of its interval."""
    if not np.isfinite(number.estimate):
        return text(number.estimate)
    if not np.isfinite(number.low):
        return f"{text(number.estimate)} (no interval)"
    return f"{text(number.estimate)} [{text(number.low)}, {text(number.high)}]"


def verdicts(numbers: dict[tuple[str, str], Number]) -> list[Verdict]:
    """The verdict, most important sentence first."""
    said = [
        _gap(
            numbers[("overconfidence", "as_given")],
            "The model is overconfident: its largest probability exceeds the share of votes that "
            "agree with it",
            "The model is underconfident: its largest probability falls short of the share of "
            "votes that agree with it",
            "confidence is right",
        )
    ]
    if ("excess_disagreement", "as_given") in numbers:
        said.append(
            _gap(
                numbers[("excess_disagreement", "as_given")],
                "Predicted disagreement is too high: two raters disagree less often than the "
                "model says",
                "Predicted disagreement is too low: two raters disagree more often than the "
                "model says",
                "predicted disagreement is right on average",
            )
        )
    changes = {
        words: numbers[(name, "difference")]
        for name, words in LOSSES.items()
        if (name, "difference") in numbers
    }
    if changes:
        said.append(_advice(changes))
    return said


def _gap(number: Number, above: str, below: str, right: str) -> Verdict:
    size = f"{text(abs(number.estimate))} [{_ends(number)}]"
    if number.low > TOLERANCE:
        return Verdict("bad", f"{above}, by {size}.")
    if number.high < -TOLERANCE:
        return Verdict("bad", f"{below}, by {size}.")
    if -TOLERANCE <= number.low <= number.high <= TOLERANCE:
        return Verdict(
            "good", f"{right.capitalize()} to within {TOLERANCE}: off by {with_interval(number)}."
        )
    return Verdict(
        "open",
        f"These rows cannot tell whether {right} to within {TOLERANCE}: it is off by "
        f"{with_interval(number)}.",
    )


def _advice(changes: dict[str, Number]) -> Verdict:
    """Whether to calibrate, by what it does to each loss."""
    lowered = [_moved(words, number) for words, number in changes.items() if number.high < 0]
    raised = [_moved(words, number) for words, number in changes.items() if number.low > 0]
    if lowered and raised:
        sides = f"lower {_listed(lowered)}, but raise {_listed(raised)}"
        return Verdict("advice", f"Calibration would {sides}. Decide by the loss that matters.")
    if lowered:
        return Verdict("advice", f"Calibrate: it would lower {_listed(lowered)}.")
    if raised:
        return Verdict("advice", f"Do not calibrate: it would raise {_listed(raised)}.")
    sizes = [f"{words} by {with_interval(number)}" for words, number in changes.items()]
    words = f"These rows show no gain from calibration: it changes {_listed(sizes)}."
    return Verdict("advice", words)


def _listed(items: list[str]) -> str:
    """Things in a sentence."""
    if len(items) < 3:
        return " and ".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def _moved(words: str, number: Number) -> str:
    return f"{words} by {text(abs(number.estimate))} [{_ends(number)}]"


def _ends(number: Number) -> str:
    """The ends of an interval on one side of 0, by size."""
    low, high = sorted((abs(number.low), abs(number.high)))
    return f"{text(low)}, {text(high)}"


def checks(study: Study, recalibrated: Recalibrated) -> list[Check]:
    """What to know about the data before the numbers are believed."""
    found = [
        *_of_size(study),
        *_of_labels(study),
        *_of_columns(study),
    ]
    if recalibrated.prediction is None:
        message = f"What calibration would change is left out: {recalibrated.reason}."
        found.append(Check("no_calibration", "warning", message))
    found += [Check("calibration", "info", message) for message in recalibrated.messages]
    found += [Check("files", "info", note) for note in study.notes]
    return found


def _of_size(study: Study):
    if study.n_dropped:
        message = f"{study.n_dropped} rows have no label and are left out."
        yield Check("rows_without_labels", "info", message)
    if len(study) < FEW_ROWS:
        message = f"There are {len(study)} rows: with fewer than {FEW_ROWS}, intervals are wide."
        yield Check("few_rows", "warning", message)
    top = np.arange(len(study)), study.z.argmax(axis=1)
    apart = (study.labels.mu[top] < 1).sum()
    if apart < FEW_APART:
        message = f"{apart} of {len(study)} rows have a label other than the predicted one."
        yield Check("few_labels_apart", "info", message)
    if study.n_raters is not None and study.n_raters < FEW_RATERS:
        message = f"There are {study.n_raters} raters: intervals may be too narrow for others."
        if study.raters == "fixed":
            message = f"There are {study.n_raters} raters: intervals hold for these raters only."
        yield Check("few_raters", "warning", message)
    if study.groups is not None and study.n_groups < FEW_GROUPS:
        yield Check(
            "few_groups",
            "warning",
            f"There are {study.n_groups} groups: with fewer than {FEW_GROUPS}, intervals are too "
            "narrow.",
        )


def _of_labels(study: Study):
    if not study.has_pairs:
        yield Check(
            "single_labels",
            "info",
            "No row has two labels, so these rows cannot tell how often raters disagree, nor which "
            "part of the loss is due to that.",
        )
    unseen = ~study.labels.counts.any(axis=0)
    if unseen.any():
        names = np.array(study.classes)[unseen].tolist()
        yield Check("unseen_classes", "warning", f"Nobody chose the classes {names}.")


def _of_columns(study: Study):
    if prints_zeros(study):
        rows = ((study.z <= 0) & (study.labels.counts > 0)).any(axis=1).sum()
        yield Check(
            "printed_zeros",
            "warning",
            f"In {rows} rows the model gives probability 0 to a class that someone chose: the log "
            "loss depends on how such zeros are clipped.",
        )
    order = _better_order(study)
    if order:
        yield Check(
            "column_order",
            "warning",
            f"Another order of the columns agrees much better: {order}. Name the columns.",
        )


def _better_order(study: Study) -> str:
    """The columns of the prediction in the order that fits the labels best; "" for their own."""
    mu = study.labels.mu
    mass = study.z.T @ mu
    of, to = linear_sum_assignment(mass, maximize=True)
    top = study.z.argmax(axis=1)
    rows = np.arange(len(study))
    gain = (mu[rows, to[top]] - mu[rows, top]).mean()
    if gain < CLEARLY_BETTER:
        return ""
    names = study.classes
    pairs = [f"{names[i]} → {names[k]}" for i, k in zip(of, to, strict=True) if i != k]
    return ", ".join(pairs[:10])
