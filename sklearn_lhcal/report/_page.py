"""The page of a report and its JSON."""

import base64
import importlib.util
import json
import math
from importlib.resources import files

from ._figures import Picture
from ._findings import with_interval
from ._numbers import Number
from ._referral import Referral
from ._study import Study

EXTRAS = ("jinja2", "matplotlib")
# What the tables say, in their order: name, words, which way is better.
ROWS = {
    "accuracy": ("Accuracy: share of votes for the most probable class", "larger is better"),
    "log_loss": ("Log loss per label, in nats", "smaller is better"),
    "expected_squared_loss": ("Squared loss L", "smaller is better"),
    "irreducible_loss": ("… of which the raters' own disagreement IL", "no model changes it"),
    "epistemic_loss": ("… of which avoidable, EL = CL + DL", "smaller is better"),
    "overconfidence": ("Confidence less accuracy", "0 is best"),
    "expected_calibration_error": ("Expected calibration error ECE", "smaller is better"),
    "classwise_calibration_error": ("ECE class by class, mean", "smaller is better"),
    "calibration_error": ("Calibration error CE, corrected", "smaller is better"),
    "excess_disagreement": ("Predicted less observed disagreement", "0 is best"),
    "disagreement_squared_loss": ("Squared loss of the disagreement", "smaller is better"),
    "disagreement_calibration_error": (
        "Calibration error of the disagreement",
        "smaller is better",
    ),
    "decision_risk": ("Mean cost of the advised decisions", "smaller is better"),
}
HELD_WORDS = {
    "irreducible_loss": "disagreement between raters",
    "expected_squared_loss": "squared loss",
}
# A sentence is about that share of the rows.
_TENTH = 0.1
GLOSSARY = {
    "Calibrated": "Of the rows that get 70 %, 70 % of the votes say so.",
    "Interval": "If the study were repeated, so large a share of such intervals would cover the "
    "true value.",
    "Corrected": "The noise of few labels and few rows is taken off. A corrected error may fall "
    "below 0: it is then not above the noise.",
    "Disagreement": "The probability that two raters of one row say different things.",
    "IL, CL, DL": "The parts of the squared loss: the raters' own disagreement; what calibration "
    "would remove; what only a better model would.",
    "ECE": "The mean distance between confidence and accuracy in bins of confidence. It is above 0 "
    "even for a perfect model, since rows are few.",
    "ECE class by class": "The same for one class: the mean distance between the probability that "
    "the model gives it and the share of votes that it gets.",
    "CE": "The root of the squared distance, summed over classes, without the noise that ECE has. "
    "That of one class is its own part.",
    "Out of fold": "Each row is predicted by a calibrator that was fitted without it, and without "
    "its group.",
    "Held": "Of all disagreement (or loss), the share that lies in some of the rows.",
    "Second opinion": "What one more label is expected to lower: the squared loss, or the cost "
    "where costs were given.",
}


def check_extras() -> None:
    """ImportError where a library of the extra is absent."""
    absent = [name for name in EXTRAS if importlib.util.find_spec(name) is None]
    if absent:
        raise ImportError(
            f"A report needs {' and '.join(absent)}: pip install 'sklearn-lhcal[report]'."
        )


def as_json(data: dict) -> str:
    """JSON text; null stands for what is not defined."""
    return json.dumps(_finite(data), indent=1, allow_nan=False, ensure_ascii=False)


def _finite(value):
    """The same with None for NaN and infinity."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def render(
    data: dict,
    study: Study,
    found: dict[tuple[str, str], Number],
    by_class: list[Number],
    sent: Referral,
    drawn: dict[str, list[Picture]],
) -> str:
    """The page, everything in it escaped."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["interval"] = _cell
    template = environment.from_string(_resource("page.html"))
    pictures = {
        about: [{"source": _data_uri(picture.svg), "alt": picture.alt} for picture in side_by_side]
        for about, side_by_side in drawn.items()
    }
    return template.render(
        data=data,
        found=found,
        rows=_table(found),
        other_raters=study.raters == "random",
        other_pairs=study.raters_of_pairs == study.raters,
        recalibrated=("accuracy", "recalibrated") in found,
        agreement=[found.get((name, "labels")) for name in ("percent_agreement", "fleiss_kappa")],
        differences=[number for (_, subset), number in found.items() if subset == "difference"],
        by_class=_by_class(by_class),
        held=_held(sent),
        words=ROWS,
        pictures=pictures,
        glossary=GLOSSARY,
        methods=_methods(data, study),
    )


def _cell(number: Number) -> str:
    """An estimate and its interval, which no line breaks."""
    return with_interval(number).replace(", ", ",\N{NO-BREAK SPACE}")


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _data_uri(svg: bytes) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii")


def _table(found: dict[tuple[str, str], Number]) -> list[dict]:
    """Rows of the main table: words, orientation, and a cell for each prediction."""
    return [
        {
            "words": words,
            "better": better,
            "given": found[(name, "as_given")],
            "recalibrated": found.get((name, "recalibrated")),
        }
        for name, (words, better) in ROWS.items()
        if (name, "as_given") in found
    ]


def _by_class(numbers: list[Number]) -> dict[str, list[Number]]:
    """The numbers of each class, in the order of columns."""
    table: dict[str, list[Number]] = {}
    for number in numbers:
        table.setdefault(str(number.class_name), []).append(number)
    return table


def _held(sent: Referral) -> str:
    """What the tenth of the rows holds of which the model is least sure, in a sentence."""
    at = min(range(len(sent.sent)), key=lambda i: abs(sent.sent[i] - _TENTH))
    held = [
        f"{_percent(points[at])} of the {HELD_WORDS[name]}" for name, points in sent.held.items()
    ]
    share = f"{100 * sent.sent[at]:.0f} %"
    return (
        f"The {share} of the rows with the highest predicted disagreement hold "
        f"{' and '.join(held)}. Rows chosen at random would hold {share}."
    )


def _percent(number: Number) -> str:
    """A share and its interval, in per cent."""
    if not math.isfinite(number.estimate):
        return "an undefined share"
    share, low, high = (f"{100 * x:.0f}".replace("-", "−") for x in number[2:5])
    return f"{share} % [{low}, {high}]"


def _units(study: Study) -> str:
    """What the jackknife leaves out."""
    rows = "rows" if study.groups is None else "groups"
    return f"{rows} and raters" if study.raters == "random" else rows


def _span(numbers) -> str:
    """From the fewest to the most."""
    low = int(numbers.min())
    high = int(numbers.max())
    if low == high:
        return str(low)
    return f"{low} to {high}"


def _methods(data: dict, study: Study) -> str:
    """A paragraph for a paper."""
    inputs = data["inputs"]
    n, K = inputs["shape"]
    unit = "rows"
    if study.groups is not None:
        unit = f"rows of {study.n_groups} groups"
    level = f"{100 * data['settings']['confidence_level']:g}"
    sentences = [
        f"Predicted probabilities of {K} classes were compared with {inputs['n_labels']:,} labels "
        f"of {n:,} {unit}, {_span(study.n_labels)} a row.",
        "Losses and calibration errors (CE) were estimated with corrections for the finite numbers "
        "of labels and rows, expected calibration errors (ECE) without, as published. Both have 15 "
        "bins of equal width.",
        f"Intervals have the level {level} % and come from a delete-a-block jackknife"
        f" over {_units(study)}.",
    ]
    if any(number["subset"] == "recalibrated" for number in data["metrics"]):
        sentences.append(
            "Recalibration was temperature scaling, then a Dirichlet distribution around the "
            "probabilities where rows have several labels, fitted out of fold in five folds."
        )
    package = data["package"]
    sentences.append(
        f"Computed with {package['name']} {package['version']}, seed "
        f"{data['settings']['random_state']}."
    )
    return " ".join(sentences)
