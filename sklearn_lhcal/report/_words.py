"""Sentences of a report, from its templates: `words.txt` for text, `page.html` for the page."""

from functools import cache

import numpy as np

from ._numbers import Number


def text(x: float) -> str:
    """A number as pages print it."""
    if not np.isfinite(x):
        return "not defined"
    return f"{x:.3f}".replace("-", "−")


def with_interval(number: Number) -> str:
    """A number and the ends of its interval."""
    if not np.isfinite(number.estimate):
        return text(number.estimate)
    if not np.isfinite(number.low):
        return f"{text(number.estimate)} (no interval)"
    return f"{text(number.estimate)} [{text(number.low)}, {text(number.high)}]"


def _cell(number: Number) -> str:
    """The same where no line breaks."""
    return with_interval(number).replace(", ", ",\N{NO-BREAK SPACE}")


def _ends(ends) -> str:
    """An estimate and its interval as three numbers."""
    low, high = (text(end) for end in ends[1:])
    return f"{text(ends[0])} [{low},\N{NO-BREAK SPACE}{high}]"


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
        "interval": with_interval,
        "cell": _cell,
        "ends": _ends,
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
