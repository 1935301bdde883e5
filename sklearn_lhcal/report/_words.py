"""Sentences of a report, from its templates: `words.txt` for text, `page.html` for the page."""

from functools import cache

import numpy as np

UNDEFINED = "not defined"


def text(x: float) -> str:
    """A number as pages print it."""
    if not np.isfinite(x):
        return UNDEFINED
    return _minus(f"{x:z.3f}")


def _minus(number: str) -> str:
    return number.replace("-", "−")


def _ends(number) -> list:
    """The estimate and the ends of the interval, of a number or a list of them."""
    return getattr(number, "ends", number)


def _with_interval(number) -> str:
    """An estimate and the ends of its interval."""
    estimate, low, high = map(text, _ends(number))
    if estimate == UNDEFINED:
        return estimate
    if low == UNDEFINED:
        return f"{estimate} (no interval)"
    return f"{estimate} [{low}, {high}]"


def _cell(number) -> str:
    """The same where no line breaks."""
    return _with_interval(number).replace(", ", ",\N{NO-BREAK SPACE}")


def _difference(number) -> str:
    """A difference with its interval and unit: of shares and probabilities, percentage points."""
    if not number.unit.startswith(("share", "probability")):
        return f"{_with_interval(number)} {number.unit}"
    estimate, low, high = (_minus(f"{100 * x:z.1f}") for x in _ends(number))
    return f"{estimate} [{low}, {high}] percentage points"


def _whole_percent(x: float) -> str:
    return _minus(f"{100 * x:z.0f}%") if np.isfinite(x) else "–"


def _p_value(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"


@cache
def templates():
    """The templates beside this module; what stands in those of pages is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    made = Environment(
        loader=PackageLoader("sklearn_lhcal.report", "."),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
    )
    made.filters |= {
        "interval": _with_interval,
        "cell": _cell,
        "text": text,
        "percent": "{:.1%}".format,
        "difference": _difference,
        "whole_percent": _whole_percent,
        "p_value": _p_value,
        "known": np.isfinite,
    }
    return made


def glossary(name: str) -> dict[str, str]:
    """What `words.txt` has of each quantity: "units", or "meanings" of what no metric is."""
    return getattr(templates().get_template("words.txt").module, name)


def said(macro: str, **names) -> str:
    """What a macro of `words.txt` says of these, in one line."""
    return " ".join(lines(macro, **names))


def lines(macro: str, **names) -> list[str]:
    """The same line by line, without empty ones."""
    spoken = getattr(templates().get_template("words.txt").module, macro)(**names)
    return [" ".join(line.split()) for line in spoken.splitlines() if line.strip()]
