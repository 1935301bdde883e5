"""Sentences of a report, from its templates: `words.txt` for text, `page.html` for the page."""

from functools import cache

import numpy as np

from ._numbers import Number


def text(x: float) -> str:
    """A number as pages print it."""
    if not np.isfinite(x):
        return "not defined"
    return f"{x:.3f}".replace("-", "−")


def _with_interval(number) -> str:
    """An estimate and the ends of its interval, of a number or a list of the three."""
    if isinstance(number, Number):
        number = number[2:5]
    estimate, low, high = map(text, number[:3])
    if not np.isfinite(number[0]):
        return estimate
    if not np.isfinite(number[1]):
        return f"{estimate} (no interval)"
    return f"{estimate} [{low}, {high}]"


def _cell(number) -> str:
    """The same where no line breaks."""
    return _with_interval(number).replace(", ", ",\N{NO-BREAK SPACE}")


def _percent(x: float) -> str:
    return f"{100 * x:.1f}%"


def _whole_percent(x: float) -> str:
    return "–" if not np.isfinite(x) else f"{100 * x:.0f}%".replace("-", "−")


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
        "percent": _percent,
        "whole_percent": _whole_percent,
        "p_value": _p_value,
        "known": np.isfinite,
    }
    return made


def said(macro: str, **names) -> str:
    """What a macro of `words.txt` says of these, in one line."""
    return " ".join(lines(macro, **names))


def lines(macro: str, **names) -> list[str]:
    """The same line by line, without empty ones."""
    spoken = getattr(templates().get_template("words.txt").module, macro)(**names)
    return [" ".join(line.split()) for line in spoken.splitlines() if line.strip()]
