"""The raters of a report: a model beside them, who stands out, and who is taken for whom."""

from contextlib import suppress
from typing import Any, NamedTuple, cast

import numpy as np

from .._utils.arrays import Floats
from .._utils.simplex import votes_of
from ..label_histogram import Annotations
from ..metrics import RaterComparison, RaterTable, rater_comparison, rater_table
from ._numbers import Intervals
from ._study import LEAST_RATERS, Study
from ._verdict import MARGIN, error_state
from ._words import lines, said

MOST_RATERS = 50


class Raters(NamedTuple):
    """What was found of named raters.

    Attributes
    ----------
    these : RaterComparison
        Its intervals hold for these raters and new cases.
    new : RaterComparison or None
        For new raters too; None where they are too few.
    table : RaterTable or None
        None for fewer than three raters.
    names : list of str
    """

    these: RaterComparison
    new: RaterComparison | None
    table: RaterTable | None
    names: list[str]


def raters_of(intervals: Intervals, sensitive: bool) -> Raters | None:
    """The model beside the raters; None where these have no names, or share no case."""
    study = intervals.study
    labels = study.labels
    if not isinstance(labels, Annotations) or labels.n_raters < 2 or not study.has_pairs:
        return None
    options: dict = {"margin": MARGIN, "distance": study.distance, **intervals.how}
    these = _compared(labels, study.prediction, raters="fixed", **options)
    names = [str(name) for name in these.readers.raters.tolist()]
    if sensitive:
        names = [f"rater {i + 1}" for i in range(len(names))]
    new = table = None
    if labels.n_raters >= LEAST_RATERS:
        table = rater_table(labels, distance=study.distance, **intervals.how)
        # one rater may have labelled nearly all cases
        with suppress(ValueError):
            new = _compared(labels, study.prediction, raters="random", **options)
    return Raters(these, new, table, names)


def _compared(labels: Annotations, prediction: Any, **options: Any) -> RaterComparison:
    """Of one model, which is no dictionary of judges."""
    return cast(RaterComparison, rater_comparison(labels, prediction, **options))


def facts(found: Raters | None, study: Study) -> dict | None:
    """What the page says of named raters; None where there are none."""
    if found is None:
        return None
    rows = rows_of_raters(found, study)
    return {
        "sentences": lines("beside_raters", raters=found, state_of=error_state, margin=MARGIN),
        "stands_out": said("stands_out", rows=rows, table=found.table),
        "model_error": list(found.these.model_error[:3]),
        "rater_error": list(found.these.reader_error[:3]),
        "table": rows,
    }


def rows_of_raters(found: Raters, study: Study) -> list[dict]:
    """A row for each rater, those with the most cases first."""
    each = found.these.readers
    # a mean would move with the one who stands out
    usual = float(np.nanmedian(each.error))
    order = np.argsort(-each.n_rows, kind="stable")[:MOST_RATERS]
    error = np.column_stack([each.error, each.error_interval]).tolist()
    difference = np.column_stack([each.difference, each.difference_interval]).tolist()
    about = {"table": found.table, "classes": study.classes}
    return [
        {
            "rater": found.names[r],
            "n_cases": int(each.n_rows[r]),
            "disagreement": error[r],
            "model_minus_rater": difference[r],
            "stands_out": lines("differs", error=error[r], usual=usual, r=r, **about),
        }
        for r in order.tolist()
    ]


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
