"""What a metric says of itself: one attribute on the function, read by whoever handles metrics."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

Function = TypeVar("Function", bound=Callable)


class Facts(NamedTuple):
    """What a metric says of itself; the defaults are those of a function that says nothing.

    Attributes
    ----------
    greater_is_better : bool or None
        Orientation; None: unknown.
    least_raters : int
        Rows with fewer raters are left out.
    read : callable or None
        ``read(y, prediction, sample_weight, groups, **options) -> rows``, checked and aligned.
    terms : callable or None
        ``terms(rows, **options) -> (numerators, denominators)``, both of shape (n,): the metric is
        the ratio of their sums.
    value : callable or None
        ``value(rows, **options) -> float``, where the metric is no ratio of sums.
    loss : callable or None
        ``loss(rows, **options) -> float``, the loss whose signed root the metric is: it may be
        negative, and its interval is mapped.
    sums : callable or None
        ``sums(rows, **options) -> BinSums``, where the metric follows from sums over fixed bins;
        or of anything else whose ``plus`` adds the sums of other rows. Those of rows without labels
        of shared raters add up.
    of_sums : callable or None
        ``of_sums(sums, rows, **options) -> float``, what `value` or `loss` is of these sums.
    binned : callable or None
        ``binned(rows, **options) -> Binned``, what the sums are of: where raters are known it tells
        what their ratings change.
    check : callable or None
        ``check(**options)`` raises before anything is read.
    unsaid : callable or None
        ``unsaid(*arguments) -> str``, why the metric is undefined for these; empty where it is
        defined.
    compares_raters : bool
        Whether ratings of a row are compared with each other, where `least_raters` does not tell.
    takes_distribution : bool
        Whether more of a prediction counts than its mean.
    of_labels : bool
        Whether labels alone count, so that the prediction may be None.
    """

    greater_is_better: bool | None = None
    least_raters: int = 1
    read: Callable | None = None
    terms: Callable | None = None
    value: Callable | None = None
    loss: Callable | None = None
    sums: Callable | None = None
    of_sums: Callable | None = None
    binned: Callable | None = None
    check: Callable | None = None
    unsaid: Callable | None = None
    compares_raters: bool = False
    takes_distribution: bool = False
    of_labels: bool = False

    @property
    def of_rows(self) -> bool:
        """Whether it says how rows become its number."""
        return any(said is not None for said in (self.terms, self.value, self.loss))

    @classmethod
    def by_sums(
        cls, sums: Callable, of_sums: Callable, *, rooted: bool = False, **others: Any
    ) -> "Facts":
        """Of a loss that follows from sums, or of its signed root: smaller is better."""
        value = partial(_value, sums, of_sums)
        found = cls(False, sums=sums, of_sums=of_sums, **others)
        if rooted:
            return found._replace(loss=value)
        return found._replace(value=value)


def _value(sums: Callable, of_sums: Callable, rows: Any, /, **options: Any) -> float:
    return of_sums(sums(rows, **options), rows, **options)


def metric(facts: Facts | Callable[..., Facts]) -> Callable[[Function], Function]:
    """Decorator that attaches facts, or a function of the metric's options that returns them."""

    def attach(function: Function) -> Function:
        vars(function)["facts"] = facts
        return function

    return attach


def facts_of(function: Callable, **options) -> Facts:
    """The facts of a metric, called with these options; `functools.partial` is seen through."""
    function, options = unwrapped(function, options)
    facts = getattr(function, "facts", Facts())
    if isinstance(facts, Facts):
        return facts
    return facts(**options)


def unwrapped(function: Any, options: dict) -> tuple[Any, dict]:
    """The function within `functools.partial`, and its options beside the others."""
    while isinstance(function, partial) and not function.args:
        function, options = function.func, function.keywords | options
    return function, options
