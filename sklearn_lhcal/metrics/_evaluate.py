"""How rows become the number of a metric, from the facts that it carries."""

import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning

from .._ground.arrays import Floats
from .._ground.bins import signed_root
from .._ground.facts import facts_of, unwrapped
from .._rows import Rows, read_rows


def evaluate(metric: Callable, rows: Rows, **options) -> float:
    """The metric of checked rows; NaN with a warning where no row can contribute."""
    facts = facts_of(metric, **options)
    seen = rows.contributing(facts.least_raters)
    if seen is None:
        return undefined(unwrapped(metric, {})[0].__name__, facts.least_raters)
    if facts.terms is not None:
        numerator, denominator = facts.terms(seen, **options)
        return float(numerator.sum() / denominator.sum())
    if facts.loss is not None:
        return float(signed_root(facts.loss(seen, **options)))
    if facts.value is None:
        raise TypeError(f"{unwrapped(metric, {})[0].__name__} says neither terms, value nor loss.")
    return float(facts.value(seen, **options))


def read_for(metric: Callable, y, prediction, sample_weight=None, groups=None, **options):
    """Rows as the metric reads them, its options checked before."""
    facts = facts_of(metric, **options)
    if facts.check is not None:
        facts.check(**options)
    read = partial(read_rows, optional=facts.of_labels)
    if facts.read is not None:
        read = partial(facts.read, **options)
    rows = read(y, prediction, sample_weight, groups)
    if facts.least_raters > 1:
        rows.labels.warn_if_adjudicated()
    return rows


def score(metric: Callable, y, prediction, sample_weight=None, groups=None, **options) -> float:
    """What a public metric does: read, evaluate, return."""
    rows = read_for(metric, y, prediction, sample_weight, groups, **options)
    return evaluate(metric, rows, **options)


def mean(row_loss: Callable[..., Floats]) -> Callable:
    """Terms of the weighted mean of ``row_loss(mu, n, z)`` over rows."""

    def terms(rows: Rows, **options):
        losses = np.empty(len(rows))
        start = 0
        for mu, n, z, _ in rows.blocks():
            losses[start : start + len(n)] = row_loss(mu, n, z)
            start += len(n)
        return weighted(rows, losses)

    return terms


def mean_of(losses: Callable[[Rows], Floats]) -> Callable:
    """Terms of the weighted mean of ``losses(rows)`` over rows, found block by block."""

    def terms(rows: Rows):
        return weighted(rows, rows.each(losses))

    return terms


def weighted(rows: Rows, losses: Floats) -> tuple[NDArray, NDArray]:
    """Terms of the weighted mean of one loss a row."""
    w = rows.weight
    if rows.w is None:
        return losses, w
    return w * losses, w


def undefined(name: str, least_raters: int) -> float:
    """NaN, with the one warning that says why."""
    needs = f"{least_raters} raters" if least_raters > 1 else "a rater"
    warnings.warn(
        f"{name} is undefined and set to NaN: no row with a positive weight has {needs} or more.",
        UndefinedMetricWarning,
        stacklevel=4,
    )
    return float("nan")
