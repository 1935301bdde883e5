"""The page of a report and its JSON."""

import base64
import hashlib
import importlib.util
import json
import math
from importlib.resources import files

from ._figures import Picture
from ._numbers import Number
from ._study import Study
from ._verdict import MARGIN, TITLES, TOLERANCE, text, with_interval

EXTRAS = ("jinja2", "matplotlib")
# What the main table says, in its order: name, words, which way is better.
ROWS = {
    "accuracy": ("Accuracy: share of labels that are the first choice", "larger is better"),
    "overconfidence": ("Confidence minus accuracy (the primary comparison)", "0 is best"),
    "log_loss": ("Log loss per label, in nats", "smaller is better"),
    "expected_squared_loss": ("Brier score, summed over classes", "smaller is better"),
    "irreducible_loss": ("… of which the raters' own disagreement IL", "no model changes it"),
    "epistemic_loss": ("… of which avoidable, EL = CL + DL", "smaller is better"),
    "calibration_error": ("Calibration error CE, bias-corrected", "0 is best"),
    "expected_calibration_error": ("Expected calibration error ECE", "smaller is better"),
    "classwise_calibration_error": ("ECE class by class, mean", "smaller is better"),
    "excess_disagreement": ("Predicted minus observed disagreement", "0 is best"),
    "disagreement_squared_loss": ("Brier score of the disagreement", "smaller is better"),
    "disagreement_calibration_error": (
        "Calibration error of the disagreement, bias-corrected",
        "0 is best",
    ),
    "decision_risk": ("Mean cost of the advised decisions", "smaller is better"),
}
AGREEMENT = {
    "percent_agreement": "Two labels of a case agree",
    "fleiss_kappa": "Fleiss' κ",
    "krippendorff_alpha": "Krippendorff's α",
    "gwet_ac": "Gwet's AC1",
}
# Of each class: what is told apart, and what is calibrated.
DISCRIMINATION = {
    "share_of_labels": "share of labels",
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "auc": "AUC",
}
CALIBRATION = {
    "mean_probability": "mean probability",
    "calibration_intercept": "intercept",
    "calibration_slope": "slope",
    "calibration_error": "CE",
    "expected_calibration_error": "ECE",
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
    drawn: dict[str, list[Picture]],
) -> str:
    """The page, everything in it escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("sklearn_lhcal.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.filters |= {"interval": _cell, "ends": _ends, "text": text, "share": _whole_percent}
    style, script = (_resource(name) for name in ("page.css", "page.js"))
    pictures = {
        about: [{"source": _data_uri(picture.svg), "alt": picture.alt} for picture in side_by_side]
        for about, side_by_side in drawn.items()
    }
    return environment.get_template("page.html").render(
        data=data,
        study=study,
        found=found,
        rows=_table(found),
        style=style,
        script=script,
        hashes={"style": _hash(style), "script": _hash(script)},
        titles=TITLES,
        tolerance=TOLERANCE,
        margin=MARGIN,
        agreement={words: found.get((name, "labels")) for name, words in AGREEMENT.items()},
        differences=[number for (_, subset), number in found.items() if subset == "difference"],
        columns={"discrimination": DISCRIMINATION, "calibration": CALIBRATION},
        by_class=_by_class(by_class),
        words=ROWS,
        pictures=pictures,
    )


def _cell(number: Number) -> str:
    """An estimate and its interval, which no line breaks."""
    return with_interval(number).replace(", ", ",\N{NO-BREAK SPACE}")


def _ends(ends) -> str:
    """The same of three numbers."""
    low, high = (text(end) for end in ends[1:])
    return f"{text(ends[0])} [{low},\N{NO-BREAK SPACE}{high}]"


def _whole_percent(share: float) -> str:
    return "–" if not math.isfinite(share) else f"{100 * share:.0f}%"


def _hash(content: str) -> str:
    """What a content security policy calls an inline style or script."""
    digest = hashlib.sha256(content.encode("utf-8")).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _data_uri(svg: bytes) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii")


def _table(found: dict[tuple[str, str], Number]) -> list[dict]:
    """Lines of the main table: words, orientation, and a cell for each prediction."""
    return [
        {
            "words": words,
            "better": better,
            "uncalibrated": found[(name, "uncalibrated")],
            "recalibrated": found.get((name, "recalibrated")),
        }
        for name, (words, better) in ROWS.items()
        if (name, "uncalibrated") in found
    ]


def _by_class(numbers: list[Number]) -> dict[str, dict[str, Number]]:
    """The numbers of each class, by name, in the order of columns."""
    table: dict[str, dict[str, Number]] = {}
    for number in numbers:
        table.setdefault(str(number.class_name), {})[number.name] = number
    return table
