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
from ._words import templates

EXTRAS = ("jinja2", "matplotlib")


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
    by_class: dict[str, dict[str, Number]],
    drawn: dict[str, list[Picture]],
) -> str:
    """The page, everything in it escaped."""
    style, script = (
        files(__package__).joinpath(name).read_text(encoding="utf-8")
        for name in ("page.css", "page.js")
    )
    page = templates().get_template("page.html")
    made = page.render(
        data=data,
        study=study,
        found=found,
        style=style,
        script=script,
        hashes={"style": _hash(style), "script": _hash(script)},
        by_class=by_class,
        pictures=drawn,
    )
    return made.lstrip()


def _hash(content: str) -> str:
    """What a content security policy calls an inline style or script."""
    digest = hashlib.sha256(content.encode("utf-8")).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")


def by_name(numbers: list[Number]) -> dict[str, dict[str, Number]]:
    """The numbers of each class, by name, in the order of columns."""
    table: dict[str, dict[str, Number]] = {}
    for number in numbers:
        table.setdefault(str(number.class_name), {})[number.name] = number
    return table
