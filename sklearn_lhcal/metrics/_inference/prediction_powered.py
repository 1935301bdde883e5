"""People's labels for few samples, cheap labels for many: prediction-powered inference.

Letters: h and g the terms of a mean by people's labels and by the proxy's; n samples have both,
N − n have g alone; θ̂ the estimate, λ the weight of the proxy.
"""

import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from sklearn.utils import check_random_state

from ..._rows import Labels, PredictionLike, Rows, read_for, read_labels
from ..._utils.arrays import Floats
from ..._utils.checks import as_names, check_same_length, checked
from ..._utils.names import Side, check_row_names
from ..._utils.types import ArrayLike, LabelsLike, Seed
from .._evaluate import Metric, with_options
from .intervals import ConfidenceInterval, interval_from, interval_of
from .raters import Replicates, Spread, VarianceComponents, spread_of
from .scarce import of_units
from .statistic import MeanStatistic, of_metric

# samples that speak, below which a proxy is not trusted
_FEW = 10


class _Means(NamedTuple):
    """A mean by people's labels, and by the proxy's of the same samples and of the rest."""

    people: MeanStatistic
    proxy: MeanStatistic
    rest: MeanStatistic


@checked
def prediction_powered(
    metric: Callable[..., float],
    y: LabelsLike,
    prediction: PredictionLike,
    proxy: LabelsLike,
    proxy_rest: LabelsLike,
    prediction_rest: PredictionLike,
    *,
    groups: ArrayLike | None = None,
    groups_rest: ArrayLike | None = None,
    raters: Literal["random", "fixed"] | None = None,
    confidence_level: float = 0.95,
    n_blocks: int = 50,
    random_state: Seed = None,
    **options: Any,
) -> ConfidenceInterval:
    """Confidence interval of a mean, from people's labels of few samples and cheap labels of many.

    The proxy is a language model, a single rater, or whoever else labels cheaply: n samples have
    labels of people and of the proxy, N − n samples the proxy's alone. With the samples' terms h by
    people's labels and g by the proxy's, ``θ̂ = λ mean(g, rest) + mean(h − λg, both)``. It estimates
    what people's labels would give, however wrong the proxy is. The better g follows h, the shorter
    is the interval; λ is chosen for that.

    **Samples with labels of people must be a random sample of all samples**, not those that looked
    difficult, or that the proxy was unsure of.

    Parameters
    ----------
    metric : callable
        A metric of this package that is a mean over samples, and not biased: `expected_accuracy`,
        `expected_squared_loss`, `epistemic_loss`, `irreducible_loss`, `label_log_loss`,
        `decision_risk` and others. The rate of a class is the `expected_accuracy` of a prediction
        that always names it.
    y : label histogram of shape (n_samples, n_classes)
        Labels of people, anything that the metric takes. Samples with too few of them are left out.
    prediction : array-like of shape (n_samples, ...), Distribution or None
        What the metric compares with y; None for a metric of labels alone.
    proxy : label histogram of shape (n_samples, n_classes)
        The proxy's labels of the same samples: class names or indices, shape (n_samples,); counts
        of several proxies; or probabilities, as `KnownProbabilities`. Where the metric needs two
        labels a sample, so does the proxy, or its probabilities.
    proxy_rest : label histogram of shape (n_rest, n_classes)
        The proxy's labels of the other samples.
    prediction_rest : array-like of shape (n_rest, ...), Distribution or None
        As `prediction`, for the other samples.
    groups : array-like of shape (n_samples,), optional
        As in `confidence_interval`. No group may have samples in both sets.
    groups_rest : array-like of shape (n_rest,), optional
        Groups of the other samples; given where `groups` is given.
    raters : {"random", "fixed"}, optional
        As in `confidence_interval`, for the raters of y. The proxy is fixed: nothing is said of
        other proxies.
    confidence_level, n_blocks, random_state
        As in `confidence_interval`.
    **options
        Go to the metric. Weights of samples are not supported.

    Returns
    -------
    ConfidenceInterval
        Its `effective_rows` is how many samples with labels of people alone would be worth as much,
        by the part of the variance that is over samples: whether the proxy was worth it.

    Raises
    ------
    ValueError
        A metric that is no mean of this package, or biased; groups in both sets; a sample without a
        label of the proxy; a class that y does not know; lengths that differ; weights.

    Warns
    -----
    UserWarning
        Fewer than ten samples or groups whose terms differ from the others, by people's labels or
        by the proxy's: it is not used then. Fewer than ten whose terms by people's labels and by
        the proxy's differ: the interval then holds that of people alone too, as hardly anything is
        known of the proxy's errors. Few raters, as in `confidence_interval`.

    Notes
    -----
    ``λ = Cov(h, g)/[Var(g)(1 + n/(N−n))]``, with Var over all samples, and
    ``V = λ² Var(g, rest)/(N−n) + Var(h − λg)/n``, both variances by the jackknife, the latter over
    raters too where they are random. λ comes from the same samples: the bias is of order 1/n, and
    below that order the interval takes λ as known. With one label a sample and a proxy that is no
    better than the evaluated model, effective rows are at most about twice n (Dorner et al. 2024).

    References
    ----------
    Angelopoulos, Duchi and Zrnic (2023), PPI++: Efficient prediction-powered inference. Dorner,
    Nastl and Hardt (2024), Limits to scalable evaluation at the frontier.

    Examples
    --------
    >>> from sklearn_lhcal.metrics import expected_accuracy
    >>> rng = np.random.default_rng(0)
    >>> model = rng.integers(2, size=2200)
    >>> people = np.where(rng.random(2200) < 0.8, model, 1 - model)
    >>> judge = np.where(rng.random(2200) < 0.9, people, 1 - people)
    >>> z = np.eye(2)[model]
    >>> interval = prediction_powered(
    ...     expected_accuracy,
    ...     people[:200],
    ...     z[:200],
    ...     judge[:200],
    ...     judge[200:],
    ...     z[200:],
    ...     random_state=0,
    ... )
    >>> interval.low < 0.8 < interval.high, interval.effective_rows > 250
    (True, True)
    """
    mean = _mean_metric(metric, options)
    _check_groups(groups, groups_rest)
    both = y, prediction, proxy, groups
    means = _read(mean, both, (proxy_rest, prediction_rest, groups_rest))
    people, judge, rest = means
    rng = check_random_state(random_state)
    design = people.design(raters, n_blocks, rng)
    alone = interval_of(people, design, confidence_level)
    lam = _weight(means, mean.name)
    n = len(people.data)
    if lam == 0:
        alone.effective_rows = float(n)
        return alone
    # θ̂ = mean(h) − λ (mean(g, both) − mean(g, rest))
    g = rest.estimate()
    moved = lam * (judge.estimate() - g)
    without = lam * (judge.without_rows(design.rows) - g)
    found = people.replicates(design).minus(Replicates(moved, without, moved, moved))
    others = rest.design("fixed", n_blocks, rng)
    spread = _sum(spread_of(found, design), lam**2, spread_of(rest.replicates(others), others))
    interval = interval_from(found.estimate, spread, confidence_level, False, design.panel)
    low, high = interval.low, interval.high
    if _few_differ(people, judge, mean.name):
        low, high = min(low, alone.low), max(high, alone.high)
    return ConfidenceInterval(
        interval.estimate,
        low,
        high,
        interval.standard_error,
        df=interval.df,
        components=spread.components,
        n_raters=interval.n_raters,
        effective_rows=n * _over_rows(alone) / _over_rows(interval),
    )


def _mean_metric(metric: Callable, options: dict) -> Metric:
    """A mean of unbiased terms, with its options."""
    if "sample_weight" in options:
        raise ValueError("sample_weight is not supported: samples must be a random sample of all.")
    found = with_options(metric, options)
    if found is None or not found.is_mean:
        raise ValueError(
            "metric must be a mean over samples of this package, such as expected_accuracy or "
            f"epistemic_loss, got {getattr(metric, '__name__', metric)!r:.80}."
        )
    if found.tags.biased:
        raise ValueError(
            f"metric must not be biased, but {found.name} is; use bias_correction where it has one."
        )
    return found


def _check_groups(groups, groups_rest) -> None:
    """Groups of both sets, none of which is in both."""
    if groups is None and groups_rest is None:
        return
    if groups is None or groups_rest is None:
        raise ValueError("groups and groups_rest must be given together: a group is in one set.")
    names = set(as_names(groups_rest, "groups_rest").tolist())
    shared = [name for name in as_names(groups, "groups").tolist() if name in names]
    if shared:
        raise ValueError(
            f"groups and groups_rest share {shared[:5]}: let people label whole groups, and leave "
            "other samples of these groups out of the rest."
        )


def _read(metric: Metric, both: tuple, others: tuple) -> _Means:
    """The three means, of samples with labels enough."""
    y, prediction, proxy, groups = both
    proxy_rest, prediction_rest, groups_rest = others
    labels = read_labels(y)
    check_same_length(len(labels), proxy=proxy)
    check_row_names(y=y, proxy=proxy)
    rows = read_for(metric, labels, prediction, None, groups)
    least = metric.tags.least_raters
    enough = np.flatnonzero(rows.contributes(least))
    if not len(enough):
        raise ValueError(f"{metric.name} needs {least} labels of people, which no row of y has.")
    judged = _of_proxy(metric, rows, "proxy", proxy, prediction, groups)
    rest = _of_proxy(metric, rows, "proxy_rest", proxy_rest, prediction_rest, groups_rest)
    parts = rows.take(enough), judged.take(labels.rated[enough]), rest
    return _Means(*(cast(MeanStatistic, of_metric(metric, part)) for part in parts))


def _of_proxy(metric: Metric, rows: Rows, name: str, labels, prediction, groups) -> Rows:
    """Rows of the proxy's labels, with the classes of those of people; an error says whose."""
    classes = Side("the labels of people", rows.classes, rows.labels.shape[1])
    try:
        said: Labels = read_labels(labels, name=name).matched(classes)
        said.graded = rows.labels.graded
        found = read_for(metric, said, prediction, None, groups)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from error
    least = metric.tags.least_raters
    if said.has_gaps or not found.contributes(least).all():
        raise ValueError(
            f"{name} must have {least} or more labels of each sample for {metric.name}: leave the "
            "other samples out, or give the proxy's probabilities as KnownProbabilities."
        )
    return found


def _weight(means: _Means, name: str) -> float:
    """λ = Cov(h, g)/[Var(g)(1 + n/(N−n))], by sums over samples or groups; Var is over all samples.

    0 where too few of them speak, with a warning.
    """
    speaking = min(_differing(_of_each(mean)) for mean in means[:2])
    (W, H), (D, G), (D_rest, G_rest) = (of_units(mean.of_row, mean.data) for mean in means)
    if speaking < _FEW:
        _warn(
            f"Only {speaking} of {len(W)} samples or groups differ from the others in {name}, by "
            "people's labels or by the proxy's: the proxy is not used."
        )
        return 0.0
    g = (G.sum() + G_rest.sum()) / (D.sum() + D_rest.sum())
    away = np.concatenate([G - g * D, G_rest - g * D_rest])
    residuals = (S - S.sum() / w.sum() * w for w, S in ((W, H), (D, G)))
    covariance = np.prod([*residuals], axis=0).sum() / (W.sum() * D.sum())
    variance = (away**2).sum() / (D.sum() + D_rest.sum())
    return float(covariance / (variance * (1 / D.sum() + 1 / D_rest.sum())))


def _sum(people: Spread, square: float, rest: Spread) -> Spread:
    """The spread of the sum of independent parts, the square of the latter's factor being given."""
    V = square * rest.variance
    total = people.variance + V
    parts = people.components._replace(rows=people.components.rows + V)
    df = people.df
    if V > 0:
        df = total**2 / (people.variance**2 / people.df + V**2 / rest.df)
    return Spread(total, df, parts)


def _few_differ(people: MeanStatistic, judge: MeanStatistic, name: str) -> bool:
    """Whether people's labels and the proxy's differ in few terms; with a warning."""
    h, g = (_of_each(mean) for mean in (people, judge))
    differing = _differing(h - g)
    if differing >= _FEW:
        return False
    _warn(
        f"Only {differing} of {len(h)} samples or groups differ between people's labels and the "
        f"proxy's in {name}: the interval holds that of people's labels alone too."
    )
    return True


def _of_each(mean: MeanStatistic) -> Floats:
    """The mean of each sample or group."""
    W, S = of_units(mean.of_row, mean.data)
    return S / W


def _differing(values: Floats) -> int:
    return int((abs(values - np.median(values)) > 1e-9).sum())


def _warn(found: str) -> None:
    warnings.warn(found, UserWarning, stacklevel=5)


def _over_rows(interval: ConfidenceInterval) -> float:
    """The part of the variance that is over samples."""
    return cast(VarianceComponents, interval.components).rows
