"""What was found wrong with the data of a report."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from ._recalibrated import Recalibrated, prints_zeros
from ._study import Study

# Another order of the columns is named where it is right so much more often.
CLEARLY_BETTER = 0.2
FEW_ROWS = 200
FEW_APART = 10
FEW_GROUPS = 20
FEW_RATERS = 5


class Check(NamedTuple):
    """Something about the data that a reader should know: an "info", a "warning" or a "failure"."""

    code: str
    severity: str
    message: str


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
        message = f"{study.n_dropped} cases have no label and are left out."
        yield Check("rows_without_labels", "info", message)
    if len(study) < FEW_ROWS:
        message = f"There are {len(study)} cases: with fewer than {FEW_ROWS}, intervals are wide."
        yield Check("few_rows", "warning", message)
    top = np.arange(len(study)), study.z.argmax(axis=1)
    apart = (study.labels.mu[top] < 1).sum()
    if apart < FEW_APART:
        message = f"{apart} of {len(study)} cases have a label other than the predicted one."
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
            f"There are {study.n_groups} patients: with fewer than {FEW_GROUPS}, intervals are too "
            "narrow.",
        )


def _of_labels(study: Study):
    if not study.has_pairs:
        yield Check(
            "single_labels",
            "info",
            "No case has two labels: how often raters disagree, and which part of the loss is due "
            "to that, cannot be estimated.",
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
            f"In {rows} cases the model gives probability 0 to a class that someone chose: the log "
            "loss depends on how such zeros are clipped.",
        )
    order = _better_order(study)
    if order:
        yield Check(
            "column_order",
            "failure",
            "The columns of the prediction seem to be in another order than those of the labels: "
            f"with {order} they agree much better. Name the columns.",
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
