"""Paragraphs of a report that can be pasted into a paper, with estimates and with methods."""

import numpy as np

from ._numbers import Number
from ._raters import Raters, as_number
from ._referral import Referral
from ._study import Study
from ._verdict import MARGIN, TOLERANCE, Numbers, with_interval

CAPTURED_WORDS = {
    "irreducible_loss": "disagreement between raters",
    "expected_squared_loss": "Brier score",
}
# A sentence is about that share of the cases.
_TENTH = 0.1


def captured(sent: Referral) -> str:
    """What the tenth of the cases with the most predicted disagreement captures."""
    at = min(range(len(sent.sent)), key=lambda i: abs(sent.sent[i] - _TENTH))
    shares = [
        f"{_percent(points[at])} of the {CAPTURED_WORDS[name]}"
        for name, points in sent.captured.items()
    ]
    share = f"{100 * sent.sent[at]:.0f}%"
    return (
        f"The {share} of the cases with the highest predicted disagreement capture "
        f"{' and '.join(shares)}. Cases chosen at random would capture {share}."
    )


def _percent(number: Number) -> str:
    """A share and its interval, in per cent."""
    if not np.isfinite(number.estimate):
        return "an undefined share"
    share, low, high = (f"{100 * x:.0f}".replace("-", "−") for x in number[2:5])
    return f"{share}% [{low}, {high}]"


def results(
    numbers: Numbers, by_class: list[Number], raters: Raters | None, study: Study, level: float
) -> str:
    """Estimates and intervals."""
    sentences = [
        f"We compared {study.model_name or 'the model'} with {_labels(study)}.",
        f"Accuracy against single labels was "
        f"{with_interval(numbers[('accuracy', 'uncalibrated')])}.",
    ]
    if study.has_pairs:
        sentences.append(
            "Two raters agreed with probability "
            f"{with_interval(numbers[('percent_agreement', 'labels')])} (Krippendorff's α "
            f"{with_interval(numbers[('krippendorff_alpha', 'labels')])})."
        )
    if not study.hard:
        sentences += _of_calibration(numbers)
    if raters is not None:
        difference = as_number(raters.these.difference, level, len(study))
        sentences.append(
            "A rater disagreed with the model minus with another rater with probability "
            f"{with_interval(difference)} (margin {MARGIN})."
        )
    sentences += _of_single(by_class)
    return " ".join([*sentences, f"Brackets hold {100 * level:g}% confidence intervals."])


def _labels(study: Study) -> str:
    """What the model was compared with."""
    cases = f"{len(study):,} cases"
    if study.groups is not None:
        cases += f" of {study.n_groups:,} patients"
    by = "" if study.n_raters is None else f" by {study.n_raters} raters"
    return f"{int(study.n_labels.sum()):,} labels{by} of {cases}, {_span(study.n_labels)} a case"


def _of_calibration(numbers: Numbers):
    new = ""
    if ("overconfidence", "new_raters") in numbers:
        wide = numbers[("overconfidence", "new_raters")]
        new = f"; for new raters {with_interval(wide)}"
    yield (
        "Mean confidence minus accuracy was "
        f"{with_interval(numbers[('overconfidence', 'uncalibrated')])} for these raters{new}."
    )
    yield (
        "The log loss was "
        f"{with_interval(numbers[('log_loss', 'uncalibrated')])} nats per label and the Brier "
        f"score {with_interval(numbers[('expected_squared_loss', 'uncalibrated')])}."
    )
    if ("log_loss", "difference") in numbers:
        change = with_interval(numbers[("log_loss", "difference")])
        yield f"Recalibration changed the log loss by {change} out of fold."


def _of_single(by_class: list[Number]):
    """Discrimination and calibration of the class that comes first."""
    first = by_class[0].class_name
    own = {number.name: number for number in by_class if number.class_name == first}
    yield (
        f"For {first}, sensitivity was {with_interval(own['sensitivity'])}, specificity "
        f"{with_interval(own['specificity'])} and AUC {with_interval(own['auc'])}; calibration "
        f"intercept {with_interval(own['calibration_intercept'])} and slope "
        f"{with_interval(own['calibration_slope'])}."
    )


def _span(numbers) -> str:
    """From the fewest to the most."""
    low = int(numbers.min())
    high = int(numbers.max())
    if low == high:
        return str(low)
    return f"{low} to {high:,}"


def methods(study: Study, level: float, calibrated: bool, version: str, seed: int) -> str:
    """How it was computed."""
    units = "cases" if study.groups is None else "patients"
    sentences = [
        f"Predictions of {len(study.classes)} classes were compared with single labels; each "
        "label of a case counted 1/n of it, with n the number of its labels, so that no "
        "reference standard was formed by majority.",
    ]
    if not study.hard:
        sentences.append(
            "The primary comparison was mean confidence minus accuracy: calibrated where its "
            f"interval lay within ±{TOLERANCE}, overconfident above 0, underconfident below 0. "
            "Calibration errors (CE) were bias-corrected for the numbers of labels and cases, "
            "expected calibration errors (ECE) were not; both have 15 bins of equal width."
        )
    sentences.append(
        f"Intervals ({100 * level:g}%) come from a delete-a-block jackknife over {units}, for "
        "these raters and new cases."
    )
    if study.raters == "random":
        sentences.append(
            "Intervals for new raters add a jackknife over raters (random readers and random "
            "cases); all others take raters as fixed (random cases only)."
        )
    if study.n_raters is not None and study.has_pairs:
        sentences.append(
            f"The model was compared with one more rater at a margin of {MARGIN}. Intervals of "
            "single raters hold for all raters together (Bonferroni)."
        )
    if calibrated:
        spread = ", then a Dirichlet distribution around the probabilities" * study.has_pairs
        sentences.append(
            f"Recalibration was temperature scaling{spread}, fitted out of fold in five folds."
        )
    return " ".join([*sentences, f"Computed with sklearn_lhcal {version}, seed {seed}."])
