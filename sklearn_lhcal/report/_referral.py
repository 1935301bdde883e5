"""Which cases to refer: the share captured by those with the most predicted disagreement."""

from typing import Any, NamedTuple

import numpy as np

from .. import metrics
from .._rows import Rows, read_rows
from .._utils.tags import MeanOfTerms, defaults_of, metric, tags_of
from ._numbers import Intervals, Number, ratio
from ._words import said

# Shares of the cases that are referred.
SENT = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
# What is captured: the disagreement between raters, and the loss.
CAPTURED = {
    "irreducible_loss": metrics.irreducible_loss,
    "expected_squared_loss": metrics.expected_squared_loss,
}
WORDS = {
    "irreducible_loss": "disagreement between raters",
    "expected_squared_loss": "Brier score",
}
# A sentence is about that share of the cases.
_TENTH = 0.1
# Rounding does not decide which cases are referred.
_ROUNDING = 1e-9


class Referral(NamedTuple):
    """Shares captured by cases that are referred in the order of their predicted disagreement.

    Attributes
    ----------
    sent : list of float
        Shares of the cases, ascending; cases with one predicted disagreement go together.
    captured : dict of str to list of Number
        Of each quantity, the share in these cases.
    """

    sent: list[float]
    captured: dict[str, list[Number]]

    @property
    def curves(self) -> dict:
        """The same as lists: estimate, low and high of each quantity at each share."""
        ends = {name: [list(n[2:5]) for n in points] for name, points in self.captured.items()}
        return {"share_referred": self.sent, **ends}


def referral(intervals: Intervals) -> Referral:
    """Cases by predicted disagreement, the largest first: how much each share captures."""
    study = intervals.study
    predicted = study.prediction.disagreement()
    place = np.ceil(np.array(SENT) * len(study)).astype(int) - 1
    above = np.unique(-np.sort(-predicted)[place] - _ROUNDING)[::-1]
    wanted = [name for name in CAPTURED if study.has_pairs or name != "irreducible_loss"]
    captured = {
        name: [
            intervals.measure(name, share_captured, study.prediction, of=CAPTURED[name], above=a)
            for a in above
        ]
        for name in wanted
    }
    return Referral([float((predicted >= a).mean()) for a in above], captured)


def captured(sent: Referral) -> str:
    """What the tenth of the cases with the most predicted disagreement captures."""
    at = int(np.abs(np.array(sent.sent) - _TENTH).argmin())
    points = {WORDS[name]: points[at] for name, points in sent.captured.items()}
    return said("captured", share=sent.sent[at], points=points)


def _captured_terms(rows: Rows, *, of, above: float) -> tuple:
    tags: Any = tags_of(of)
    whole = tags.terms(rows, **defaults_of(of))[0]
    return np.where(rows.distribution.disagreement() >= above, whole, 0.0), whole


def _tags(*, of, above: float) -> MeanOfTerms:
    return MeanOfTerms(least_raters=tags_of(of).least_raters, terms=_captured_terms)


@metric(_tags)
def share_captured(y, prediction, *, of, above: float) -> float:
    """Share of the sum of a metric over rows in those with a predicted disagreement above some."""
    rows = read_rows(y, prediction)
    return ratio(_captured_terms, rows, tags_of(of).least_raters, of=of, above=above)
