"""Results: how a console and a notebook show them, and the interval that many of them hold."""

from html import escape
from typing import Any, NamedTuple, Self, TypeVar

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


class VarianceComponents(NamedTuple):
    """What the variance of an estimate is made of: ``rows + max(raters − cells, 0)``.

    Attributes
    ----------
    rows : float
        By the jackknife over samples, or groups of them.
    raters : float
        By the jackknife over raters, times the factor for their finite number; 0 where raters are
        fixed or unknown.
    cells : float
        By the jackknife over single labels, times the same factor: what both others count.
    """

    rows: float
    raters: float = 0.0
    cells: float = 0.0


class _Ends(NamedTuple):
    estimate: float
    low: float
    high: float
    standard_error: float


class ConfidenceInterval(_Ends):
    """An estimate and its interval: a tuple of four, which knows how it was made.

    Attributes
    ----------
    estimate : float
        The metric on all samples.
    low, high : float
        Ends of the interval.
    standard_error : float
        Of the estimate; of its signed square for the calibration and dispersion errors, which are
        signed roots (in `paired_difference`, of the difference of both squares).
    df : float or None
        Degrees of freedom of Student's t; None where the interval is none of Student's.
    components : VarianceComponents or None
        What the squared standard error is made of.
    n_raters : int or None
        How many raters it generalises from; None where raters are fixed or unknown.
    effective_rows : float or None
        Of `prediction_powered`: how many samples with labels of people alone are worth as much.

    Examples
    --------
    >>> estimate, low, high, error = ConfidenceInterval(0.5, 0.4, 0.6, 0.05)
    """

    df: float | None
    components: VarianceComponents | None
    n_raters: int | None
    effective_rows: float | None = None

    def __new__(
        cls,
        estimate: float,
        low: float,
        high: float,
        standard_error: float,
        *,
        df: float | None = None,
        components: VarianceComponents | None = None,
        n_raters: int | None = None,
    ) -> Self:
        """The four numbers, and what they come from."""
        interval = super().__new__(cls, estimate, low, high, standard_error)
        interval.df = df
        interval.components = components
        interval.n_raters = n_raters
        return interval
