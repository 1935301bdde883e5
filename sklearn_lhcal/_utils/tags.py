"""What a metric is: one attribute of its function, which whoever handles metrics reads."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any, TypeVar

from .types import Floats

Function = TypeVar("Function", bound=Callable)

# arguments of a metric that are data, not options
_DATA = ("sample_weight", "groups")


@dataclass(frozen=True, kw_only=True)
class Tags:
    """Plain facts about a metric; the defaults are those of a function without tags.

    Attributes
    ----------
    greater_is_better : bool or None
        None: neither end is better, or unknown.
    least_raters : int
        Samples with fewer raters are left out.
    compares_raters : bool
        Whether labels of one sample are compared with each other, where `least_raters` does not
        tell.
    takes_distribution : bool
        Whether more of a prediction counts than its mean.
    of_labels : bool
        Whether labels alone count, so that the prediction may be None.
    of_decisions : bool
        Whether the prediction holds decisions, which may be alike where probabilities are not.
    limits : tuple of two floats, callable or None
        Between which the terms of a mean lie, or ``limits(rows)`` that looks at no label; None: not
        known beforehand.
    elsewhere : callable or None
        ``elsewhere(rows, **options)`` gives ``values(rows, at)``, terms that further samples may
        have where those of a mean say too little; None: the terms themselves.
    bounds : tuple of two floats or None
        Between which the truth lies, though an unbiased estimate need not; None: unknown. A
        pair of `limits` is narrower. A mean with bounds has an interval for few terms.
    ordered : bool
        Whether the classes must have an order.
    ruled_by_raters : bool
        Whether one of few raters may rule it where a class is rare.
    biased : bool
        Whether the mean of the estimate is above what it estimates.
    signed_root : bool
        Whether the metric is the signed root of its `value`.
    read : callable or None
        ``read(y, prediction, sample_weight, groups, **options) -> rows``, checked and aligned;
        None: `read_rows`.
    undefined_reason : callable or None
        ``undefined_reason(*arguments) -> str``, why the metric is undefined for these; empty where
        it is defined.
    """

    greater_is_better: bool | None = None
    least_raters: int = 1
    compares_raters: bool = False
    takes_distribution: bool = False
    of_labels: bool = False
    of_decisions: bool = False
    limits: tuple[float, float] | Callable | None = None
    elsewhere: Callable | None = None
    bounds: tuple[float, float] | None = None
    ordered: bool = False
    ruled_by_raters: bool = False
    biased: bool = False
    signed_root: bool = False
    read: Callable | None = None
    undefined_reason: Callable[..., str] | None = None


@dataclass(frozen=True, kw_only=True)
class OfRows(Tags):
    """A function of samples: ``of_rows(rows, **options)``."""

    of_rows: Callable

    def value(self, rows: Any, **options: Any) -> Any:
        """The function of these samples."""
        return self.of_rows(rows, **options)


@dataclass(frozen=True, kw_only=True)
class MeanOfTerms(Tags):
    """A ratio of sums over samples.

    ``terms(rows, **options)`` are numerators and denominators, both of shape (n,).
    """

    terms: Callable[..., tuple[Floats, Floats]]

    def value(self, rows, **options) -> float:
        """The ratio of the sums over these samples."""
        numerator, denominator = self.terms(rows, **options)
        return float(numerator.sum() / denominator.sum())


@dataclass(frozen=True, kw_only=True)
class OfSums(Tags):
    """A function of sums over samples.

    ``terms(rows, **options)`` are what is summed, (n, m), an array or sparse.
    ``of_sums(sums, labels, **options)`` is the value of sums (..., m), NaN where it is undefined.
    ``of_unit(mu, n, rows, **options)`` are the terms of further samples, of weight 1, with n labels
    in shares mu (e, K).
    """

    terms: Callable
    of_sums: Callable
    of_unit: Callable

    def value(self, rows, **options) -> float:
        """The function of the sums over these samples."""
        return float(self.of_sums(self.terms(rows, **options).sum(axis=0), rows.labels, **options))


@dataclass(frozen=True, kw_only=True)
class LossOverBins(Tags):
    """A function of sums over bins.

    ``binned(rows, **options)`` says what is binned, and ``of_sums(sums, **options)`` is the value
    of its sums.
    """

    binned: Callable
    of_sums: Callable

    def value(self, rows: Any, **options: Any) -> Any:
        """The function of the sums of these samples."""
        return self.of_sums(self.binned(rows, **options).sums(rows), **options)


def metric(tags: Tags | Callable[..., Tags]) -> Callable[[Function], Function]:
    """Decorator that attaches tags, or a function of all the metric's options that returns them.

    Such a function also checks the options.
    """

    def attach(function: Function) -> Function:
        vars(function)["tags"] = tags
        return function

    return attach


def tags_of(function: Callable, **options) -> Tags:
    """The tags of a metric, called with these options and else its defaults."""
    function, options = unwrapped(function, options)
    tags = getattr(function, "tags", None)
    if tags is None:
        return Tags()
    known = defaults_of(function)
    all_names = list(signature(function).parameters)
    for name in options.keys() - set(all_names):
        own = [one for one in all_names[2:] if one not in _DATA]
        raise TypeError(f"{function.__name__} has no option {name!r}; it has {own}.")
    if isinstance(tags, Tags):
        return tags
    return tags(**(known | options))


def defaults_of(function: Callable) -> dict:
    """The options of a metric and their defaults."""
    return {
        name: p.default
        for name, p in signature(function).parameters.items()
        if p.kind is p.KEYWORD_ONLY and p.default is not p.empty and name not in _DATA
    }


def unwrapped(function, options: dict) -> tuple[Any, dict]:
    """The function within `functools.partial`, and its options beside the others."""
    while isinstance(function, partial) and not function.args:
        function, options = function.func, function.keywords | options
    return function, options
