"""What was found wrong with the data of a report."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from ._recalibrated import prints_zeros
from ._study import Study
from ._words import said

# Another order of the columns is named where it is right so much more often.
CLEARLY_BETTER = 0.2
FEW_ROWS = 200
FEW_GROUPS = 20
FEW_RATERS = 5


class Check(NamedTuple):
    """Something about the data that a reader should know: an "info", a "warning" or a "failure"."""

    code: str
    severity: str
    message: str


def checks(study: Study, reason: str, messages: list[str]) -> list[Check]:
    """What to know about the data before the numbers are believed.

    `reason` says why no calibration was tried, if so; `messages` are warnings of the package.
    """
    found = [*_of_size(study), *_of_labels(study), *_of_columns(study)]
    if reason:
        found.append(_check("no_calibration", "warning", reason=reason))
    found += [Check("numbers", "info", message) for message in messages]
    found += [Check("files", "info", note) for note in study.notes]
    return found


def _check(code: str, severity: str, **names) -> Check:
    """A check in the words of the macro that has its name."""
    return Check(code, severity, said(code, **names))


def _of_size(study: Study):
    n = len(study)
    if study.n_dropped:
        yield _check("rows_without_labels", "info", n=study.n_dropped)
    if study.few is not study:
        yield _check("many_cases", "info", study=study)
    if n < FEW_ROWS:
        yield _check("few_rows", "warning", n=n, few=FEW_ROWS)
    if study.n_raters is not None and study.n_raters < FEW_RATERS:
        fixed = study.raters == "fixed"
        yield _check("few_raters", "warning", n=study.n_raters, fixed=fixed)
    if study.groups is not None and study.n_groups < FEW_GROUPS:
        yield _check("few_groups", "warning", n=study.n_groups, few=FEW_GROUPS)


def _of_labels(study: Study):
    if not study.has_pairs:
        yield _check("single_labels", "info")
    unseen = ~study.labels.counts.any(axis=0)
    if unseen.any():
        names = np.array(study.classes)[unseen].tolist()
        yield _check("unseen_classes", "warning", names=names)


def _of_columns(study: Study):
    if prints_zeros(study) and not study.hard:
        rows = ((study.z <= 0) & (study.labels.counts > 0)).any(axis=1).sum()
        yield _check("printed_zeros", "warning", n=rows)
    order = _better_order(study)
    if order:
        yield _check("column_order", "failure", order=order)


def _better_order(study: Study) -> str:
    """The columns of the prediction in the order that fits the labels best; "" for their own."""
    mu = study.labels.mu
    to = linear_sum_assignment(study.z.T @ mu, maximize=True)[1]
    top = study.z.argmax(axis=1)
    rows = np.arange(len(study))
    gain = (mu[rows, to[top]] - mu[rows, top]).mean()
    if gain < CLEARLY_BETTER:
        return ""
    names = study.classes
    pairs = [f"{names[i]} → {names[k]}" for i, k in enumerate(to) if i != k]
    return ", ".join(pairs[:10])
