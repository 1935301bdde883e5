"""The page of a report and its JSON."""

import base64
import importlib.util
import json
import math
from importlib.resources import files

from ._figures import Picture
from ._findings import with_interval
from ._numbers import Number
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
    "calibration_error": ("Calibration error CE, corrected", "smaller is better"),
    "excess_disagreement": ("Predicted less observed disagreement", "0 is best"),
    "disagreement_squared_loss": ("Squared loss of the disagreement", "smaller is better"),
    "disagreement_calibration_error": (
        "Calibration error of the disagreement",
        "smaller is better",
    ),
    "decision_risk": ("Mean cost of the advised decisions", "smaller is better"),
}
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
    "Out of fold": "Each row is predicted by a calibrator that was fitted without it, and without "
    "its group.",
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
    data: dict, study: Study, found: dict[tuple[str, str], Number], drawn: dict[str, list[Picture]]
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
        recalibrated=("accuracy", "recalibrated") in found,
        agreement=[found.get((name, "labels")) for name in ("percent_agreement", "fleiss_kappa")],
        differences=[number for (_, subset), number in found.items() if subset == "difference"],
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


def _units(study: Study) -> str:
    """What the jackknife leaves out."""
    rows = "rows" if study.groups is None else "groups"
    return f"{rows} and raters" if study.raters == "random" else rows


def _methods(data: dict, study: Study) -> str:
    """A paragraph for a paper."""
    inputs = data["inputs"]
    n, K = inputs["shape"]
    unit = "rows"
    if study.groups is not None:
        unit = f"rows of {study.n_groups} groups"
    level = f"{100 * data['settings']['confidence_level']:g}"
    sentences = [
        f"Predicted probabilities of {K} classes were compared with {inputs['n_labels']} labels of "
        f"{n} {unit}, from {study.n_labels.min()} to {study.n_labels.max()} labels a row.",
        "Losses and calibration errors were estimated with corrections for the finite numbers of "
        "labels and rows.",
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
