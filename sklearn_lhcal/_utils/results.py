"""Results: how a console and a notebook show them, and the interval that many of them hold."""

from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import numpy as np

if TYPE_CHECKING:
    from pandas import DataFrame
else:
    # pandas is imported where a frame is made
    DataFrame = Any

Result = TypeVar("Result", bound=type)
_LONG = 60
# lines of a table that a console shows
_LINES = 16
# an end of an interval that is the least of all floats is 0
_TINY = 1e-300


def result(cls: Result) -> Result:
    """Decorator of a named tuple: its settings in one line, and printed with its first rows."""
    shown: Any = cls
    shown.__repr__ = _one_line
    if "__str__" not in vars(cls):
        shown.__str__ = _text
    shown._repr_html_ = _html
    return cls


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_frame needs pandas: pip install 'sklearn-lhcal[report]'.") from error
    return pandas


def frame_of_rows(rows: dict[Any, dict]) -> "DataFrame":
    """A DataFrame of rows by their names; ImportError without pandas."""
    return _pandas().DataFrame(rows).T.infer_objects()


def frame_of(index: dict[str, Any], **columns) -> "DataFrame":
    """A DataFrame of arrays whose axes are those of the index; an interval is two columns."""
    pd = _pandas()
    at = pd.MultiIndex.from_product(index.values(), names=index)
    shape = tuple(map(len, index.values()))
    shown: dict[str, Any] = {}
    for name, values in columns.items():
        ends = {name: values}
        if name.endswith("interval"):
            low, high = np.moveaxis(values, -1, 0)
            ends = {name.replace("interval", "low"): low, name.replace("interval", "high"): high}
        shown |= {end: np.broadcast_to(a, shape).ravel() for end, a in ends.items()}
    return pd.DataFrame(shown, index=at if len(index) > 1 else at.get_level_values(0))


def fields(found, first: str, last: str) -> dict[str, Any]:
    """The fields of a result from one to another, by name, in their order."""
    names = found._fields
    chosen = names[names.index(first) : names.index(last) + 1]
    return {name: getattr(found, name) for name in chosen}


def _table(found: Any) -> Any:
    """The result as a DataFrame; None where it has no rows, or pandas is absent."""
    try:
        return found.to_frame()
    except (AttributeError, ImportError):
        return None


def _text(found) -> str:
    table = _table(found)
    rows = "" if table is None else table.to_string(max_rows=_LINES, float_format=_number)
    return f"{_one_line(found)}\n{rows}".rstrip("\n")


def _html(found) -> str:
    table = _table(found)
    if table is None:
        cells = (
            f"<tr><th>{escape(name)}</th><td>{escape(_short(getattr(found, name)))}</td></tr>"
            for name in found._fields
        )
        return f"<table><caption>{type(found).__name__}</caption>{''.join(cells)}</table>"
    shown = table.to_html(max_rows=_LINES, float_format=_number, border=0)
    return f"<p>{escape(_one_line(found))}</p>{shown}"


def _number(x: float) -> str:
    return f"{0.0 if abs(x) < _TINY else x:.4g}"


def _one_line(found) -> str:
    short = {name: _short(getattr(found, name)) for name in found._fields}
    shown = [f"{name}={text}" for name, text in short.items() if not text.startswith("array")]
    arrays = len(short) - len(shown)
    if arrays:
        shown.append(f"{arrays} arrays")
    return f"{type(found).__name__}({', '.join(shown)})"


def _short(value) -> str:
    if isinstance(value, np.ndarray) and value.ndim:
        return f"array of shape {value.shape}"
    if isinstance(value, float):
        return _number(value)
    if hasattr(value, "low") and hasattr(value, "high"):
        return f"{_short(value.estimate)} [{_short(value.low)}, {_short(value.high)}]"
    if hasattr(value, "_fields"):
        return f"{type(value).__name__}(...)"
    if isinstance(value, tuple):
        return f"({', '.join(map(_short, value))})"
    if isinstance(value, dict):
        few = ", ".join(f"{key!r}: {_short(of)}" for key, of in list(value.items())[:3])
        small = len(value) <= 3 and len(few) <= 80
        return f"{{{few}}}" if small else f"dict of {len(value)}"
    text = repr(value)
    return text if len(text) <= _LONG else f"{text[:_LONG]}..."


class VarianceComponents(NamedTuple):
    """What the variance of an estimate is made of, by three jackknives.

    It is ``rows + max(raters − cells, 0)``; of a mean over four random raters or more it is `rows`
    and what a posterior of the raters' variance adds, as `confidence_interval` says.

    Attributes
    ----------
    rows : float
        By the jackknife over samples, or groups of them.
    raters : float
        By the jackknife over raters, times the factor for their finite number; 0 where raters are
        fixed or unknown, NaN where the metric is undefined without one of them.
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
    confidence_level : float or None
        None where there is no interval.
    df : float or None
        Degrees of freedom of Student's t; None where the interval is none of Student's.
    components : VarianceComponents or None
        What the squared standard error is made of.
    n_raters : int or None
        How many raters it generalises from; None where raters are fixed or unknown.
    effective_rows : float or None
        Of `prediction_powered`: how many samples with labels of people alone are worth as much.
    rests_on : str
        How many samples the estimate is of and which, where some have too few labels; else empty.
        Where these are harder or easier than the others, so is the estimate.
    notes : list of str
        What to read beside the numbers, and is printed with them: `rests_on`, and a variance
        between raters that is estimated as 0.

    Examples
    --------
    >>> estimate, low, high, error = ConfidenceInterval(0.5, 0.4, 0.6, 0.05)
    """

    confidence_level: float | None = None
    df: float | None = None
    components: VarianceComponents | None = None
    n_raters: int | None = None
    effective_rows: float | None = None
    rests_on: str = ""

    def __new__(
        cls, estimate: float, low: float, high: float, standard_error: float, **made: Any
    ) -> Self:
        """The four numbers; what they come from, by the names of the attributes."""
        interval = super().__new__(cls, estimate, low, high, standard_error)
        vars(interval).update(made)
        return interval

    @property
    def notes(self) -> list[str]:
        """What to read beside the numbers."""
        notes = [self.rests_on] if self.rests_on else []
        V = self.components
        if self.n_raters and V is not None and V.raters <= V.cells:
            notes.append("raters differ here no more than by chance; others may")
        return notes

    def __repr__(self) -> str:
        numbers = super().__repr__()
        return f"{numbers[:-1]}, notes={self.notes})" if self.notes else numbers
