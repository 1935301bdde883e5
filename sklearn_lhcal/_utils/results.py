"""How results are shown: one line in a console, a small table in a notebook."""

from html import escape
from typing import Any, TypeVar

import numpy as np

Result = TypeVar("Result", bound=type)
_LONG = 60
# an end of an interval that is the least of all floats is 0
_TINY = 1e-300


def result(cls: Result) -> Result:
    """Decorator of a named tuple: numbers of four digits, and how many arrays beside them."""
    shown: Any = cls
    shown.__repr__ = _one_line
    shown._repr_html_ = _table
    return cls


def _one_line(found: Any) -> str:
    short = {name: _short(getattr(found, name)) for name in found._fields}
    shown = [f"{name}={text}" for name, text in short.items() if not text.startswith("array")]
    arrays = len(short) - len(shown)
    if arrays:
        shown.append(f"{arrays} arrays")
    return f"{type(found).__name__}({', '.join(shown)})"


def _table(found: Any) -> str:
    cells = (
        f"<tr><th>{escape(name)}</th><td>{escape(_short(getattr(found, name)))}</td></tr>"
        for name in found._fields
    )
    return f"<table><caption>{type(found).__name__}</caption>{''.join(cells)}</table>"


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.ndim:
        return f"array of shape {value.shape}"
    if isinstance(value, float):
        return f"{0.0 if abs(value) < _TINY else value:.4g}"
    if hasattr(value, "low") and hasattr(value, "high"):
        return f"{_short(value.estimate)} [{_short(value.low)}, {_short(value.high)}]"
    if hasattr(value, "_fields"):
        return f"{type(value).__name__}(...)"
    if isinstance(value, tuple):
        return f"({', '.join(map(_short, value))})"
    text = repr(value)
    return text if len(text) <= _LONG else f"{text[:_LONG]}..."
