"""What to know about the data of a report: faults, how cases came here, which to read again."""

from collections import Counter
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from .._utils.distances import half_squares, points
from ._study import Step, Study, prints_zeros
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
    results = [*_of_size(study), *_of_labels(study), *_of_columns(study), *_of_patients(study)]
    if reason:
        results.append(_check("no_calibration", "warning", reason=reason))
    results += [Check("numbers", "info", message) for message in messages]
    results += [Check("files", "info", note) for note in study.notes]
    return results


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


def _of_patients(study: Study):
    if study.groups is None:
        return
    for name, values in study.subgroups.items():
        pairs = set(zip(study.groups, values, strict=True))
        n = sum(several > 1 for several in Counter(patient for patient, _ in pairs).values())
        if n:
            yield _check("patients_in_several", "warning", n=n, of=study.n_groups, name=name)


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


MOST_CASES = 20


def flow(study: Study, sensitive: bool) -> list[dict]:
    """From what was read to the cases on the page, a step each."""
    steps = [*study.flow, Step("cases on this page", len(study))]
    return [{**step._asdict(), "ids": [] if sensitive else list(step.ids)} for step in steps]


def disputed(study: Study, sensitive: bool) -> list[dict]:
    """The cases to read again: raters, or a rater and the model, disagree most about them.

    First by the mean distance of two labels, then by that of a label from the prediction. Classes
    without a distance are 1 apart.
    """
    y, n = study.labels.counts, study.labels.n
    B = points(study.distance, len(study.classes), study.labels.classes, graded=True)
    D = 1 - np.eye(len(study.classes)) if B is None else 2 * half_squares(B)
    pairs = np.where(n >= 2, n * (n - 1), np.nan)
    apart = (y @ D * y).sum(axis=1) / pairs
    observed = 1 - (y * (y - 1)).sum(axis=1) / pairs
    surprise = (study.labels.mu @ D * study.z).sum(axis=1)
    order = np.lexsort((-surprise.round(9), -np.nan_to_num(apart).round(9)))[:MOST_CASES]
    raters = study.rater_names(sensitive)
    predicted = study.prediction.disagreement() * (np.nan if study.hard else 1)
    names = np.arange(len(study)) if study.ids is None or sensitive else study.ids
    patients = study.groups if sensitive else study.patients
    return [
        {
            "case": str(names[i]),
            "patient": "" if patients is None else str(patients[i]),
            "labels": study.said(i, raters),
            "prediction": _predicted(study, study.z[i]),
            "disagreement": float(observed[i]),
            **({} if B is None else {"distance": float(apart[i])}),
            "predicted_disagreement": float(predicted[i]),
            "reason": _reason(study, i),
        }
        for i in order.tolist()
        if observed[i] > 0 or study.labels.mu[i, study.z[i].argmax()] < 1
    ]


def _predicted(study: Study, z) -> str:
    """The three most probable classes, or the one that is predicted."""
    largest = np.argsort(-z, kind="stable")[:3]
    if study.hard:
        return study.classes[largest[0]]
    return ", ".join(f"{study.classes[k]} {z[k]:.2f}" for k in largest if z[k] > 0)


def _reason(study: Study, i: int) -> str:
    """Why a case is on the list."""
    votes = study.labels.counts[i]
    tied = (votes == votes.max()).sum() > 1
    first = study.classes[study.z[i].argmax()]
    most = study.classes[votes.argmax()]
    return said("reason", tied=tied, n=study.n_labels[i], first=first, most=most)
