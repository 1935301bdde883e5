"""Single cases of a report: how they came here, and which to read again."""

import numpy as np

from ..label_histogram import pairwise_disagreement
from ._study import Step, Study
from ._words import said

MOST_CASES = 20


def flow(study: Study, sensitive: bool) -> list[dict]:
    """From what was read to the cases on the page, a step each."""
    steps = [*study.flow, Step("cases on this page", len(study))]
    return [{**step._asdict(), "ids": [] if sensitive else list(step.ids)} for step in steps]


def disputed(study: Study, sensitive: bool) -> list[dict]:
    """The cases to read again: raters, or a rater and the model, disagree most about them.

    First by the share of pairs of raters who disagree, then by how improbable the model finds a
    label.
    """
    observed = np.full(len(study), np.nan)
    several = study.n_labels >= 2
    if several.any():
        observed[several] = pairwise_disagreement(study.labels.counts[several])
    predicted = study.prediction.disagreement()
    surprise = 1 - (study.labels.mu * study.z).sum(axis=1)
    order = np.lexsort((-surprise, -np.nan_to_num(observed).round(9)))[:MOST_CASES]
    names = np.arange(len(study)) if study.ids is None or sensitive else study.ids
    patients = study.groups if sensitive else study.patients
    return [
        {
            "case": str(names[i]),
            "patient": "" if patients is None else str(patients[i]),
            "labels": _listed(study, study.labels.counts[i], "{:g}"),
            "prediction": _listed(study, study.z[i], "{:.2f}"),
            "disagreement": float(observed[i]),
            "predicted_disagreement": float(predicted[i]),
            "reason": _reason(study, i),
        }
        for i in order.tolist()
        if observed[i] > 0 or study.labels.mu[i, study.z[i].argmax()] < 1
    ]


def _listed(study: Study, values, form: str) -> str:
    """Classes with the three largest values, largest first."""
    largest = np.argsort(-values, kind="stable")[:3]
    return ", ".join(
        f"{study.classes[k]} {form.format(values[k])}" for k in largest if values[k] > 0
    )


def _reason(study: Study, i: int) -> str:
    """Why a case is on the list."""
    votes = study.labels.counts[i]
    tied = (votes == votes.max()).sum() > 1
    names = {"first": study.classes[study.z[i].argmax()], "most": study.classes[votes.argmax()]}
    return said("reason", tied=tied, n=study.n_labels[i], **names)
