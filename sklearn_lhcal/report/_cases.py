"""Single cases of a report: how they came here, who disagrees about them, who should see them."""

import numpy as np

from ..label_histogram import pairwise_disagreement
from ._study import Step, Study
from ._words import said

MOST_CASES = 20
# Probabilities closer than this are alike: rounding does not decide an order.
_ROUNDING = 1e-9


def flow(study: Study, sensitive: bool) -> list[dict]:
    """From what was read to the cases on the page, a step each."""
    steps = [*study.flow, Step("cases on this page", len(study))]
    return [{**step._asdict(), "ids": [] if sensitive else list(step.ids)} for step in steps]


def names_of_cases(study: Study, sensitive: bool) -> list[str]:
    """What the page calls each case; numbers from 0 where names are unknown or left out."""
    if study.ids is None or sensitive:
        return [str(i) for i in range(len(study))]
    return [str(name) for name in study.ids.tolist()]


def disputed(study: Study, sensitive: bool) -> list[dict]:
    """The cases about which raters, or a rater and the model, disagree most.

    First by the share of pairs of raters who disagree, then by how improbable the model finds a
    label.
    """
    observed = np.zeros(len(study))
    several = study.n_labels >= 2
    if several.any():
        observed[several] = pairwise_disagreement(study.labels.counts[several])
    surprise = 1 - (study.labels.mu * study.z).sum(axis=1)
    order = np.lexsort((-surprise, -observed.round(9)))[:MOST_CASES]
    names = names_of_cases(study, sensitive)
    return [
        {
            "case": names[i],
            "patient": _patient(study, i, sensitive),
            "labels": _listed(study, study.labels.counts[i], "{:g}"),
            "prediction": _listed(study, study.z[i], "{:.2f}"),
            "disagreement": float(observed[i]),
            "reason": _reason(study, i),
        }
        for i in order.tolist()
        if observed[i] > 0 or study.labels.mu[i, study.z[i].argmax()] < 1
    ]


def _patient(study: Study, i: int, sensitive: bool) -> str:
    names = study.groups if sensitive else study.patients
    return "" if names is None else str(names[i])


def _listed(study: Study, values, form: str) -> str:
    """Classes with the three largest values, largest first."""
    largest = np.argsort(-values, kind="stable")[:3]
    return ", ".join(
        f"{study.classes[k]} {form.format(values[k])}" for k in largest if values[k] > 0
    )


def _reason(study: Study, i: int) -> str:
    """Why a case is on the list."""
    mu = study.labels.mu[i]
    most = mu.argmax()
    tied = (mu >= mu[most] - _ROUNDING).sum() > 1
    names = {"first": study.classes[study.z[i].argmax()], "most": study.classes[most]}
    return said("reason", tied=tied, n=study.n_labels[i], **names)


def referred(study: Study, sensitive: bool) -> list[dict]:
    """The cases to refer first: with the largest predicted probability that two raters disagree."""
    predicted = study.prediction.disagreement()
    order = np.argsort(-predicted, kind="stable")[:MOST_CASES]
    names = names_of_cases(study, sensitive)
    return [
        {
            "case": names[i],
            "predicted_disagreement": float(predicted[i]),
            "labels": int(study.n_labels[i]),
        }
        for i in order.tolist()
        if predicted[i] > 0
    ]
