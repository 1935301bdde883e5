"""Paragraphs of a report that can be pasted into a paper, and the sentence on referral."""

from .._utils.version import __version__
from ._numbers import Number
from ._raters import Raters, as_number
from ._referral import Referral
from ._study import Study
from ._verdict import MARGIN, TOLERANCE, Numbers
from ._words import said

CAPTURED_WORDS = {
    "irreducible_loss": "disagreement between raters",
    "expected_squared_loss": "Brier score",
}
# A sentence is about that share of the cases.
_TENTH = 0.1


def captured(sent: Referral) -> str:
    """What the tenth of the cases with the most predicted disagreement captures."""
    at = min(range(len(sent.sent)), key=lambda i: abs(sent.sent[i] - _TENTH))
    points = {CAPTURED_WORDS[name]: points[at] for name, points in sent.captured.items()}
    return said("captured", share=sent.sent[at], points=points)


def results(
    numbers: Numbers, by_class: list[Number], raters: Raters | None, study: Study, level: float
) -> str:
    """Estimates and intervals; of single classes those of the first."""
    first = by_class[0].class_name
    difference = None
    if raters is not None:
        difference = as_number(raters.these.difference, len(study))
    return said(
        "results",
        study=study,
        numbers=numbers,
        own={number.name: number for number in by_class if number.class_name == first},
        raters=raters,
        difference=difference,
        level=f"{100 * level:g}%",
        margin=MARGIN,
    )


def methods(study: Study, level: float, calibrated: bool, seed: int) -> str:
    """How it was computed."""
    return said(
        "methods",
        study=study,
        level=f"{100 * level:g}%",
        calibrated=calibrated,
        version=__version__,
        seed=seed,
        tolerance=TOLERANCE,
        margin=MARGIN,
    )
