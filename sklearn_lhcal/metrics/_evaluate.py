"""How samples become the number of a metric, from the tags that it carries."""

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any, NamedTuple

import numpy as np

from .._rows import Rows, read_for
from .._utils.checks import check_arguments, warn_undefined
from .._utils.distances import Distance, half_squares, placed, points
from .._utils.tags import MeanOfTerms, Tags, defaults_of, tags_of, unwrapped
from .._utils.types import Floats, Indices, NDArray

# losses whose truth is 0 at least, though an unbiased estimate may be negative
mean_loss = partial(MeanOfTerms, greater_is_better=False, bounds=(0.0, np.inf))


class Metric(NamedTuple):
    """A metric of this package with all its options."""

    function: Callable
    options: dict
    tags: Any

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.function.__name__

    def terms(self, rows: Rows, at: Indices | None = None) -> tuple[Floats, Floats]:
        """Numerators and denominators of a mean, for samples that all contribute.

        Their numbers `at` say nothing more of them.
        """
        return self.tags.terms(rows, **self.options)

    @property
    def is_mean(self) -> bool:
        """Whether it has terms."""
        return isinstance(self.tags, MeanOfTerms)

    def value(self, rows: Rows):
        """The metric, or the loss whose signed root it is; NaN where no sample can contribute."""
        seen = rows.contributing(self.tags.least_raters)
        if seen is None:
            return undefined(self.name, self.tags.least_raters)
        return self.tags.value(seen, **self.options)

    def __call__(self, rows: Rows):
        """The metric of checked samples."""
        value = self.value(rows)
        if self.tags.signed_root:
            value = signed_root(value)
        # one number, no scalar of NumPy's; some metrics return several
        return float(value) if isinstance(value, np.floating) else value


def signed_root(value, p: float = 2):
    """The root of a bias-corrected loss, which may be negative.

    sign(x)·|x|^(1/p); x itself for p = ∞.
    """
    if np.isinf(p):
        return value
    return np.sign(value) * np.abs(value) ** (1 / p)


def with_options(function: Callable, options: dict) -> Metric | None:
    """A metric of this package with options, which its tags check; None for another function."""
    function, options = unwrapped(function, options)
    if type(tags_of(function, **options)) is Tags:
        return None
    return _metric(function, defaults_of(function) | options)


def _metric(function: Callable, options: dict) -> Metric:
    for name, parameter in list(signature(function).parameters.items())[2:]:
        if parameter.default is parameter.empty and name not in options:
            raise TypeError(f"{function.__name__} needs {name}: give it as an option, {name}=….")
    check_arguments(function, options)
    return Metric(function, options, tags_of(function, **options))


def score(function: Callable, y, prediction, sample_weight=None, groups=None, **options):
    """What a public metric does: read, evaluate, return."""
    metric = _metric(function, options)
    return metric(read_for(metric, y, prediction, sample_weight, groups))


def mean(row_loss: Callable[..., Floats]) -> Callable:
    """Terms of the weighted mean of ``row_loss(mu, n, z)`` over samples."""
    return mean_of(lambda rows: row_loss(rows.mu, rows.n, rows.z))


def points_of(rows: Rows, distance: Distance) -> Floats | None:
    """Where the classes of samples lie, (K, m); None without a distance."""
    return points(distance, rows.labels.shape[1], rows.classes, rows.labels.graded)


def apart(rows: Rows, distance: Distance) -> Floats | None:
    """How much two labels disagree, P = ½ d², (K, K); None: 1 where they differ."""
    B = points_of(rows, distance)
    return None if B is None else half_squares(B)


def mean_at(row_loss: Callable[..., Floats]) -> Callable:
    """Terms of the weighted mean of ``row_loss(x, s, z, n)`` over samples.

    x and z are the mean points of labels and prediction, s the variances of the labels.
    """

    def terms(rows: Rows, *, distance: Distance = None, **options):
        B = points_of(rows, distance)
        return mean(lambda mu, n, z: row_loss(*placed(mu, z, B), n))(rows)

    return terms


def mean_of(losses: Callable[[Rows], Floats]) -> Callable:
    """Terms of the weighted mean of ``losses(rows)`` over samples, found block by block."""

    def terms(rows: Rows, **options):
        return weighted(rows, rows.each(losses))

    return terms


def weighted(rows: Rows, losses: Floats) -> tuple[NDArray, NDArray]:
    """Terms of the weighted mean of one loss a sample."""
    return rows.weight * losses, rows.weight


def undefined(name: str, least_raters: int) -> float:
    """NaN, with the one warning that says why."""
    needs = f"{least_raters} raters or more" if least_raters > 1 else "a rater or more"
    warn_undefined(
        f"{name} is undefined and set to NaN: no sample with a positive weight has {needs}."
    )
    return float("nan")
