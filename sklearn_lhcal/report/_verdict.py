"""The verdict of a report, which one comparison decides; the rest is reconciled with it.

The primary comparison is the overconfidence g of the uncalibrated prediction: the mean over cases
of the largest probability minus the share of the raters' labels that agree with it. Its interval is
for these raters and new cases. The verdict is

- "calibrated" where the interval lies within ±0.02,
- else "overconfident" where it lies above 0, and "underconfident" where it lies below 0,
- "inconclusive" where it holds 0 and more than ±0.02.

Where raters are named, a second line says the same of new raters. The advice follows from the
verdict and the difference of log loss, out of fold, that calibration makes. All other numbers are
secondary: `reconciled` says how those that seem to contradict the verdict agree with it.

A model that gives labels without probabilities cannot be calibrated. Its primary comparison is the
excess error Δ: how much more often a rater disagrees with the model than with another rater. It is
"better" below 0, "as good" below the margin, "worse" above 0 and else "inconclusive".

A data check that failed withholds the verdict.
"""

from typing import NamedTuple

import numpy as np

from ._numbers import Number
from ._study import Study

# A difference of probabilities up to which confidence is called calibrated.
TOLERANCE = 0.02
# By how much more often a rater may disagree with the model than with another rater.
MARGIN = 0.05
Numbers = dict[tuple[str, str], Number]
TITLES = {
    "withheld": "No verdict",
    "calibrated": "Calibrated",
    "overconfident": "Overconfident",
    "underconfident": "Underconfident",
    "inconclusive": "Inconclusive",
    "better": "Better than one more rater",
    "as_good": "As good as one more rater",
    "worse": "Worse than one more rater",
    "recalibrate": "Recalibrate",
    "leave": "Leave as it is",
    "wait": "No advice yet",
}


class Verdict(NamedTuple):
    """One sentence of the verdict: what it is `about`, its `state`, a key of `TITLES`, in words.

    `about` is "these_raters", "any_rater" or "advice"; "data" where the verdict is withheld.
    """

    about: str
    state: str
    words: str


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


def percent(x: float) -> str:
    """A share in per cent."""
    return f"{100 * x:.1f}%"


def confidence_state(gap: Number) -> str:
    """What an interval of overconfidence says."""
    if gap.low >= -TOLERANCE and gap.high <= TOLERANCE:
        return "calibrated"
    if gap.low > 0:
        return "overconfident"
    if gap.high < 0:
        return "underconfident"
    return "inconclusive"


def error_state(excess: Number) -> str:
    """What an interval of the excess error says."""
    if excess.high < 0:
        return "better"
    if excess.high < MARGIN:
        return "as_good"
    if excess.low > 0:
        return "worse"
    return "inconclusive"


def verdicts(numbers: Numbers, study: Study, failures: list[str]) -> list[Verdict]:
    """The verdict, most important sentence first; one sentence where a data check failed."""
    if failures:
        words = f"{' '.join(failures)} Mend the data, then make the report again."
        return [Verdict("data", "withheld", words)]
    if study.hard:
        return _of_labels(numbers, study)
    gap = numbers[("overconfidence", "uncalibrated")]
    said = [_of_confidence(gap, numbers[("accuracy", "uncalibrated")], study)]
    if ("overconfidence", "new_raters") in numbers:
        said.append(_of_new_raters(numbers[("overconfidence", "new_raters")], gap, study))
    if ("log_loss", "difference") in numbers:
        said.append(_advice(said[0].state, numbers[("log_loss", "difference")]))
    return said


def _of_confidence(gap: Number, accuracy: Number, study: Study) -> Verdict:
    state = confidence_state(gap)
    means = (
        f"On average the model gives its first choice a probability of "
        f"{percent(accuracy.estimate + gap.estimate)}, and {percent(accuracy.estimate)} of the "
        f"labels agree with it: a difference of {with_interval(gap)}."
    )
    meaning = {
        "calibrated": f"This is right to within {TOLERANCE}.",
        "overconfident": "Its probabilities promise more than they hold.",
        "underconfident": "Its first choice is right more often than its probabilities say.",
        "inconclusive": "The interval holds 0, and also differences that matter: more cases are "
        "needed.",
    }[state]
    return Verdict("these_raters", state, f"{means} {meaning} {_rests_on(study)}")


def _of_labels(numbers: Numbers, study: Study) -> list[Verdict]:
    """The verdict about a prediction of one class for each case."""
    if not study.has_pairs:
        words = (
            "The prediction is one class for each case, without probabilities, and no case has two "
            "labels: neither calibration nor the agreement of raters can be estimated."
        )
        return [Verdict("data", "withheld", words)]
    excess = numbers[("excess_error", "uncalibrated")]
    words = (
        f"A rater disagrees with the model minus with another rater: {with_interval(excess)}, a "
        f"difference of probabilities; below {MARGIN} it was taken not to matter. "
        f"{_rests_on(study)}"
    )
    said = [Verdict("these_raters", error_state(excess), words)]
    if ("excess_error", "new_raters") in numbers:
        wide = numbers[("excess_error", "new_raters")]
        words = f"For any raters like these {study.n_raters} it is {with_interval(wide)}."
        said.append(Verdict("any_rater", error_state(wide), words))
    return said


def _rests_on(study: Study) -> str:
    """What the primary comparison was made from, and for whom it holds."""
    cases = f"{len(study):,} cases"
    if study.groups is not None:
        cases += f" of {study.n_groups:,} patients"
    basis = f"It rests on {int(study.n_labels.sum()):,} labels of {cases}"
    if study.n_raters is None:
        return (
            f"{basis}. Who gave a label is not known, so it holds for other raters only where each "
            "case has raters of its own."
        )
    return f"{basis} and holds for these {study.n_raters} raters."


def _of_new_raters(wide: Number, gap: Number, study: Study) -> Verdict:
    state = confidence_state(wide)
    if not np.isfinite(wide.low):
        words = "One rater labelled nearly all cases, so nothing follows for other raters."
        return Verdict("any_rater", "inconclusive", words)
    words = f"For any raters like these {study.n_raters} the difference is {with_interval(wide)}"
    if state == confidence_state(gap):
        return Verdict("any_rater", state, f"{words}: the verdict is the same.")
    why = (
        f"the interval is wider, since {study.n_raters} raters say less about others than about "
        "themselves. This does not contradict the line above"
    )
    return Verdict("any_rater", state, f"{words}: {why}.")


def _advice(state: str, change: Number) -> Verdict:
    """Whether to calibrate: by the verdict, and by what it does to the log loss."""
    size = f"it changes the log loss by {with_interval(change)} on cases that it did not see"
    wrong = state in ("overconfident", "underconfident")
    if change.low > 0:
        return Verdict("advice", "leave", f"Temperature scaling does not help: {size}.")
    if state == "calibrated":
        return Verdict("advice", "leave", f"Confidence needs no calibration: {size}.")
    if change.high < 0 and wrong:
        return Verdict("advice", "recalibrate", f"Temperature scaling removes the error: {size}.")
    if change.high < 0:
        words = f"Temperature scaling helps: {size}. This is so although the mean error of "
        return Verdict("advice", "recalibrate", f"{words}confidence is not yet known.")
    if wrong:
        words = f"Confidence is wrong, but a gain is not shown: {size}. Calibrate, and check on "
        return Verdict("advice", "wait", f"{words}more cases.")
    return Verdict("advice", "wait", f"Neither an error nor a gain is shown: {size}.")


def reconciled(numbers: Numbers, state: str) -> list[str]:
    """How the numbers that seem to say otherwise agree with the verdict, a sentence each."""
    if state not in ("calibrated", "overconfident", "underconfident", "inconclusive"):
        return []
    wrong = state in ("overconfident", "underconfident")
    said = []
    error = numbers[("calibration_error", "uncalibrated")]
    if wrong and not error.low > 0:
        said.append(
            f"The interval of the calibration error, {with_interval(error)}, holds 0: it asks "
            "about all classes and all levels of probability at once, and needs more cases than "
            "the verdict, which asks about the first choice."
        )
    if not wrong and error.low > 0:
        said.append(
            f"The calibration error is {with_interval(error)}, above 0: probabilities of single "
            "classes are wrong although their errors do not show in the mean confidence. See "
            "“Class by class”."
        )
    said += _of_disagreement(numbers, state)
    said += _of_losses(numbers, state)
    excess = numbers.get(("excess_error", "uncalibrated"))
    if wrong and excess is not None and error_state(excess) in ("better", "as_good"):
        said.append(
            "The model's first choice is as good as that of one more rater, and its probabilities "
            "are wrong nevertheless: calibration does not change the first choice."
        )
    said.append(
        "The expected calibration error ECE is above 0 also for a calibrated model. It is shown "
        "for comparison with other papers and does not enter the verdict."
    )
    return said


def _of_disagreement(numbers: Numbers, state: str):
    """Two raters disagree more often than predicted where a model is overconfident."""
    excess = numbers.get(("excess_disagreement", "uncalibrated"))
    if excess is None:
        return
    size = f"({with_interval(excess)})"
    usual = {"overconfident": excess.high < 0, "underconfident": excess.low > 0}
    if usual.get(state, False):
        yield f"Predicted minus observed disagreement {size} has the sign that goes with it."
    elif excess.low > 0 or excess.high < 0:
        way = "more" if excess.high < 0 else "less"
        yield (
            f"Two raters disagree {way} often than predicted {size}. This is another question: the "
            "probability of the first choice may be right while the rest is spread wrongly, and "
            "raters may disagree with each other where the model cannot know it."
        )


def _of_losses(numbers: Numbers, state: str):
    """Losses that calibration would move another way than the log loss."""
    log_loss = numbers.get(("log_loss", "difference"))
    if log_loss is None:
        return
    if state == "calibrated" and log_loss.high < 0:
        yield (
            f"Temperature scaling would still lower the log loss, by {with_interval(log_loss)}: "
            "confidence is right on average, not at each level."
        )
    brier = numbers[("expected_squared_loss", "difference")]
    if (brier.high < 0 < log_loss.low) or (log_loss.high < 0 < brier.low):
        yield (
            f"The Brier score changes the other way, by {with_interval(brier)}: the log loss "
            "weighs rare, confident errors more."
        )
