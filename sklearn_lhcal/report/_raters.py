"""The raters of a report: a model beside them, who stands out, and who is taken for whom."""

from typing import NamedTuple

import numpy as np

from .._utils.arrays import Floats
from .._utils.simplex import votes_of
from ..label_histogram import Annotations
from ..metrics import ReaderComparison, ReaderTable, reader_comparison, reader_table
from ._numbers import Intervals, Number
from ._study import LEAST_RATERS, Study
from ._verdict import MARGIN, error_state
from ._words import said, text

MOST_RATERS = 50


class Raters(NamedTuple):
    """What was found of named raters.

    Attributes
    ----------
    these : ReaderComparison
        Its intervals hold for these raters and new cases.
    new : ReaderComparison or None
        For new raters too; None where they are too few.
    table : ReaderTable or None
        None for fewer than three raters.
    names : list of str
    """

    these: ReaderComparison
    new: ReaderComparison | None
    table: ReaderTable | None
    names: list[str]


def raters_of(intervals: Intervals, sensitive: bool) -> Raters | None:
    """The model beside the raters; None where these have no names, or share no case."""
    study = intervals.study
    labels = study.labels
    if not isinstance(labels, Annotations) or labels.n_raters < 2 or not study.has_pairs:
        return None
    how: dict = {"margin": MARGIN, "distance": study.distance, **intervals.how}
    these = reader_comparison(labels, study.prediction, raters="fixed", **how)
    names = [str(name) for name in these.readers.raters.tolist()]
    if sensitive:
        names = [f"rater {i + 1}" for i in range(len(names))]
    if labels.n_raters < LEAST_RATERS:
        return Raters(these, None, None, names)
    try:
        new = reader_comparison(labels, study.prediction, raters="random", **how)
    except ValueError:
        # one rater labelled nearly all cases
        new = None
    table = reader_table(labels, distance=study.distance, **intervals.how)
    return Raters(these, new, table, names)


def as_number(interval, n: int) -> Number:
    """An interval as a number of the page."""
    estimate, low, high = interval[:3]
    return Number("", "uncalibrated", estimate, low, high, np.nan, n)


def facts(found: Raters | None, study: Study) -> dict | None:
    """What the page says of named raters; None where there are none."""
    if found is None:
        return None
    rows = rows_of_raters(found, study)
    return {
        "sentences": sentences(found, study),
        "stands_out": who_stands_out(rows, found),
        "table": rows,
    }


def sentences(found: Raters, study: Study) -> list[str]:
    """Whether the model is as good as one more rater, and what its probabilities are worth."""
    these = as_number(found.these.difference, len(study))
    about = {"these": found.these, "difference": these, "margin": MARGIN}
    words = [said("one_more_rater", state=error_state(these), **about)]
    if found.new is not None:
        wide = as_number(found.new.difference, len(study))
        words.append(said("one_more_new", difference=wide, state=error_state(wide)))
    return [*words, said("worth", these=found.these)]


def rows_of_raters(found: Raters, study: Study) -> list[dict]:
    """A sample for each rater, those with the most cases first."""
    each = found.these.readers
    # a mean would move with the one who stands out
    usual = float(np.nanmedian(each.error))
    order = np.argsort(-each.n_rows, kind="stable")[:MOST_RATERS]
    error = np.column_stack([each.error, each.error_interval]).tolist()
    difference = np.column_stack([each.difference, each.difference_interval]).tolist()
    return [
        {
            "rater": found.names[r],
            "n_cases": int(each.n_rows[r]),
            "disagreement": error[r],
            "model_minus_rater": difference[r],
            "stands_out": [*_by_error(error[r], usual), *_by_bias(found.table, r, study)],
        }
        for r in order.tolist()
    ]


def _by_error(error, usual: float):
    """Whether the others disagree with a rater more or less often than raters do in the median."""
    if error[1] > usual:
        yield "disagrees with the others more often than the median rater does"
    if error[2] < usual:
        yield "disagrees with the others less often than the median rater does"


def _by_bias(table: ReaderTable | None, r: int, study: Study):
    """The classes that a rater names more or less often than the others of the same cases."""
    if table is None:
        return
    for k, name in enumerate(study.classes):
        low, high = table.interval[r, k]
        if low > 0 or high < 0:
            way = "more" if low > 0 else "less"
            yield f"says {name} {way} often, by {text(abs(table.bias[r, k]))}"


def who_stands_out(rows: list[dict], found: Raters) -> str:
    """One sentence on the table of raters."""
    how = {row["rater"]: " ".join(row["stands_out"]) for row in rows}
    return said(
        "stands_out",
        by_disagreement=[rater for rater, why in how.items() if "disagrees" in why],
        by_class=[rater for rater, why in how.items() if "says" in why],
        p=found.table.pvalue if found.table else None,
        parts=found.table.p_values if found.table else {},
    )


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
    pairs = (y / (n * (n - 1))).T @ y - np.diag((y / (n * (n - 1))).sum(axis=0))
    return {"model": model, "raters": _shares(pairs)}


def _shares(a: Floats) -> list:
    total = a.sum(axis=1, keepdims=True)
    return np.divide(a, total, out=np.full(a.shape, np.nan), where=total > 0).tolist()
