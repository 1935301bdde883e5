"""The verdict of a report, which one comparison decides; the rest is reconciled with it.

The primary comparison is the overconfidence g of the uncalibrated prediction: the mean over cases
of the largest probability minus the share of the raters' labels that agree with it. Its interval is
for these raters and new cases. The verdict is

- "calibrated" where the interval lies within ±0.02,
- "overconfident" where it lies above 0.02, and "underconfident" where it lies below −0.02,
- else "inconclusive".

Smaller errors do not matter, so that a verdict of overconfidence is wrong for any of them.

Where raters are named, a second line says the same of new raters; where these data show no
difference between raters, so that its interval is not wider, it says so instead. The advice follows
from the verdict and the difference of log loss, out of fold, that calibration makes. All other
numbers are secondary: `reconciled` says how those that seem to contradict the verdict agree with
it.

A model that gives labels without probabilities cannot be calibrated. Its primary comparison is the
excess error Δ: how much more often a rater disagrees with the model than with another rater, a
share of comparisons, whether classes are grades or not. It is "better" below 0, "as good" below the
margin, "worse" above 0 and else "inconclusive".

A data check that failed withholds the verdict.
"""

from functools import partial

from ._classes import class_mean, share
from ._numbers import Intervals, Number, overconfidence
from ._study import Study
from ._words import lines, said

# A difference of probabilities up to which confidence is called calibrated.
TOLERANCE = 0.02
Numbers = dict[tuple[str, str], Number]


def confidence_state(gap: Number) -> str:
    """What an interval of overconfidence says."""
    if gap.low >= -TOLERANCE and gap.high <= TOLERANCE:
        return "calibrated"
    if gap.low > TOLERANCE:
        return "overconfident"
    if gap.high < -TOLERANCE:
        return "underconfident"
    return "inconclusive"


def error_state(excess: Number, margin: float) -> str:
    """What an interval of the excess error says, which may be below the margin."""
    if excess.high < 0:
        return "better"
    if excess.high < margin:
        return "as_good"
    if excess.low > 0:
        return "worse"
    return "inconclusive"


def of_findings(intervals: Intervals) -> list[tuple[Number, Number]]:
    """Overconfidence and share of labels of each finding, with intervals for all together."""
    if intervals.study.hard:
        return []
    findings = intervals.study.findings
    level = 1 - (1 - intervals.level) / max(len(findings), 1)
    every = []
    for name, study in findings.items():
        own = intervals._replace(study=study, level=level)
        gap = own.sought("overconfidence", overconfidence)
        votes = own.sought("share_of_labels", class_mean, "labels", of=1, what=share)
        every.append((gap._replace(part=name), votes._replace(part=name)))
    return every


def advice_state(state: str, change: Number) -> str:
    """What follows from the verdict and from what calibration does to the log loss."""
    if change.low > 0 or state == "calibrated":
        return "leave"
    if change.high < 0:
        return "recalibrate"
    return "wait"


def _sentence(about: str, state: str, words: str, alike: bool = False) -> dict[str, str]:
    title = said("title", state=state, about=about, alike=alike)
    return {"about": about, "state": state, "words": words, "title": title}


def verdicts(
    numbers: Numbers, study: Study, failures: list[str], margin: float
) -> list[dict[str, str]]:
    """The verdict, most important sentence first; one sentence where a data check failed.

    A sentence is `about` "these_raters", "any_rater" or "advice"; "data" where the verdict is
    withheld.
    """
    if failures:
        return [_sentence("data", "withheld", said("withheld", failures=failures))]
    if study.hard and not study.has_pairs:
        return [_sentence("data", "withheld", said("no_probabilities"))]
    primary = study.primary
    state_of = partial(error_state, margin=margin) if study.hard else confidence_state
    number = numbers[(primary, "uncalibrated")]
    state = state_of(number)
    about = {"state": state, "numbers": numbers, "study": study}
    words = said(primary, **about, tolerance=TOLERANCE, margin=margin)
    results = [_sentence("these_raters", state, words)]
    if (primary, "new_raters") in numbers:
        wide = numbers[(primary, "new_raters")]
        same = state_of(wide) == state
        alike = not wide.is_wider(number)
        words = said("any_rater", number=wide, same=same, alike=alike, study=study)
        results.append(_sentence("any_rater", state_of(wide), words, alike))
    if ("log_loss", "difference") in numbers:
        change = numbers[("log_loss", "difference")]
        advice = advice_state(state, change)
        about = {"state": advice, "verdict": state, "change": change}
        words = said("advice", **about, numbers=numbers)
        results.append(_sentence("advice", advice, words))
    return results


def reconciled(numbers: Numbers, state: str, margin: float) -> list[str]:
    """How the numbers that seem to say otherwise agree with the verdict, a sentence each."""
    if state == "withheld" or ("overconfidence", "uncalibrated") not in numbers:
        return []
    state_of = partial(error_state, margin=margin)
    return lines("reconciled", state=state, numbers=numbers, error_state=state_of)
