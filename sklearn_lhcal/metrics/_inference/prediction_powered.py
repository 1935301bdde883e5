"""People's labels for few samples, cheap labels for many: prediction-powered inference.

Letters: h and g the terms of a mean by people's labels and by the proxy's; n samples have both,
N − n have g alone; θ̂ the estimate, λ the weight of the proxy.
"""

import warnings
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from sklearn.utils import check_random_state

from ..._rows import Labels, PredictionLike, Rows, read_for, read_labels
from ..._utils.checks import as_names, check_same_length, checked, errors_of
from ..._utils.names import Side, check_row_names
from ..._utils.results import ConfidenceInterval
from ..._utils.types import Groups, LabelsLike, MetricFunction, Raters, Seed, Weights
from .._evaluate import Metric, with_options
from .intervals import interval_from, interval_of, with_ends
from .replicates import MeanStatistic, of_metric
from .scarce import of_units
from .two_way import Replicates, Spread, spread_of

# samples that speak, below which a proxy is not trusted
_FEW = 10


@checked
def prediction_powered(
    metric: MetricFunction,
    y: LabelsLike,
    prediction: PredictionLike,
    proxy: LabelsLike,
    proxy_rest: LabelsLike,
    prediction_rest: PredictionLike,
    *,
    sample_weight: Weights = None,
    sample_weight_rest: Weights = None,
    groups: Groups = None,
    groups_rest: Groups = None,
    raters: Raters = None,
    confidence_level: float = 0.95,
    n_blocks: int = 50,
    random_state: Seed = None,
    **options: Any,
) -> ConfidenceInterval:
    """Confidence interval of a mean, from people's labels of few samples and cheap labels of many.

    The proxy is a language model, a single rater, or whoever else labels cheaply: n samples have
    labels of people and of the proxy, N − n samples the proxy's alone. With the samples' terms h by
    people's labels and g by the proxy's, ``θ̂ = λ mean(g, rest) + mean(h − λg, both)``. It
    estimates what people's labels would give, however wrong the proxy is. The better g follows h,
    the shorter is the interval; λ is chosen for that.

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
        labels per sample, so does the proxy, or its probabilities.
    proxy_rest : label histogram of shape (n_rest, n_classes)
        The proxy's labels of the other samples.
    prediction_rest : array-like of shape (n_rest, ...), Distribution or None
        As `prediction`, for the other samples.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the samples, in the mean and in its variance. A weight of 2 is a sample that
        appears twice in one group, not two independent samples.
    sample_weight_rest : array-like of shape (n_rest,), optional
        Weights of the other samples, on the same scale; given where `sample_weight` is given.
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
        Go to the metric.

    Returns
    -------
    ConfidenceInterval
        Its `effective_rows` is how many samples with labels of people alone would be worth as much,
        by the part of the variance that is over samples: whether the proxy was worth it.

    Raises
    ------
    ValueError
        A metric that is not a mean of this package, or biased; groups in both sets; a sample
        without a label of the proxy; a class that y does not know; lengths that differ; weights or
        groups of one set only.

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
    below that order the interval takes λ as known. With one label per sample and a proxy that is no
    better than the evaluated model, effective samples are at most about twice n (Dorner et al.
    2024).

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
    if (sample_weight is None) != (sample_weight_rest is None):
        raise ValueError("sample_weight and sample_weight_rest must be given together.")
    own, of_rest = (sample_weight, groups), (sample_weight_rest, groups_rest)
    people, judge, rest = _read(
        mean, y, (prediction, *own), proxy, (proxy_rest, prediction_rest, *of_rest)
    )
    rng = check_random_state(random_state)
    design = people.design(raters, n_blocks, rng)
    alone = interval_of(people, design, confidence_level)
    n = len(people.data)
    speaking, apart = _speaking(people, judge)
    if speaking < _FEW:
        _warn(
            f"Only {speaking} samples or groups differ from the others in {mean.name}, by people's "
            "labels or by the proxy's: the proxy is not used."
        )
        return with_ends(alone, alone.low, alone.high, effective_rows=float(n))
    # θ̂ = mean(h) − λ (mean(g, both) − mean(g, rest))
    lam = _weight(people, judge, rest)
    g = rest.estimate()
    moved = lam * (judge.estimate() - g)
    without = lam * (judge.without_rows(design.rows) - g)
    result = people.replicates(design)
    before = spread_of(result, design)
    result = result.minus(Replicates(moved, without, moved, moved, without[:, None]))
    others = rest.design("fixed", n_blocks, rng)
    spread = _sum(spread_of(result, design), lam**2, spread_of(rest.replicates(others), others))
    interval = interval_from(result.estimate, spread, confidence_level, False, design.panel)
    low, high = interval.low, interval.high
    if apart < _FEW:
        _warn(
            f"Only {apart} samples or groups differ between people's labels and the proxy's in "
            f"{mean.name}: the interval holds that of people's labels alone too."
        )
        low, high = min(low, alone.low), max(high, alone.high)
    effective = n * before.components.rows / spread.components.rows
    return with_ends(interval, low, high, effective_rows=float(effective))


def _mean_metric(metric: Callable, options: dict) -> Metric:
    """A mean of unbiased terms, with its options."""
    result = with_options(metric, options)
    if result is None or not result.is_mean or result.tags.biased:
        raise ValueError(
            "metric must be a mean over samples of this package, and not biased, such as "
            f"expected_accuracy or epistemic_loss, got {getattr(metric, '__name__', metric)!r:.80}."
        )
    return result


def _check_groups(groups, groups_rest) -> None:
    """Groups of both sets, none of which is in both."""
    if (groups is None) != (groups_rest is None):
        raise ValueError("groups and groups_rest must be given together: a group is in one set.")
    if groups is None:
        return
    names = set(as_names(groups_rest, "groups_rest").tolist())
    shared = [name for name in as_names(groups, "groups").tolist() if name in names]
    if shared:
        raise ValueError(f"groups and groups_rest share {shared[:5]}: keep each group in one set.")


def _read(metric: Metric, y, own: tuple, proxy, others: tuple) -> tuple[MeanStatistic, ...]:
    """A mean by people's labels, and by the proxy's of the same samples and of the rest."""
    labels = read_labels(y)
    check_same_length(len(labels), proxy=proxy)
    check_row_names(y=y, proxy=proxy)
    rows = read_for(metric, labels, *own)
    least = metric.tags.least_raters
    enough = np.flatnonzero(rows.contributes(least))
    if not len(enough):
        raise ValueError(f"{metric.name} needs {least} labels of people, which no sample of y has.")
    judged = _of_proxy(metric, rows, "proxy", proxy, *own)
    rest = _of_proxy(metric, rows, "proxy_rest", *others)
    if rest.w is not None:
        # on the scale of the others
        rest.w = np.ldexp(rest.w, rest.scale - rows.scale)
    parts = rows.take(enough), judged.take(labels.rated[enough]), rest
    return tuple(cast(MeanStatistic, of_metric(metric, part)) for part in parts)


def _of_proxy(metric: Metric, rows: Rows, name: str, labels, prediction, w, groups) -> Rows:
    """Samples of the proxy's labels, with the classes of those of people; an error says whose."""
    classes = Side("the labels of people", rows.classes, rows.labels.shape[1])
    with errors_of(name):
        said: Labels = read_labels(labels, name=name).matched(classes)
        said.graded = rows.labels.graded
        result = read_for(metric, said, prediction, w, groups)
    least = metric.tags.least_raters
    if said.has_gaps or (result.n < least).any():
        raise ValueError(
            f"{name} must have {least} or more labels of each sample for {metric.name}: leave the "
            "other samples out, or give the proxy's probabilities as KnownProbabilities."
        )
    return result


def _speaking(people: MeanStatistic, judge: MeanStatistic) -> tuple[int, int]:
    """How many samples or groups differ from the others, and between people and the proxy."""
    (W, H), (D, G) = (of_units(mean.of_row, mean.data) for mean in (people, judge))
    h, g = H / W, G / D
    differing = [int((abs(x - np.median(x)) > 1e-9).sum()) for x in (h, g, h - g)]
    return min(differing[:2]), differing[2]


def _weight(people: MeanStatistic, judge: MeanStatistic, rest: MeanStatistic) -> float:
    """λ = Cov(h, g)/[Var(g)(1 + n/(N−n))], by sums over samples or groups; Var is over all."""
    means = people, judge, rest
    (W, H), (D, G), (D_rest, G_rest) = (of_units(mean.of_row, mean.data) for mean in means)
    own = (H - H.sum() / W.sum() * W) * (G - G.sum() / D.sum() * D)
    whole = D.sum() + D_rest.sum()
    g = (G.sum() + G_rest.sum()) / whole
    variance = (((G - g * D) ** 2).sum() + ((G_rest - g * D_rest) ** 2).sum()) / whole
    covariance = own.sum() / (W.sum() * D.sum())
    return float(covariance / (variance * (1 / D.sum() + 1 / D_rest.sum())))


def _sum(people: Spread, square: float, rest: Spread) -> Spread:
    """The spread of the sum of independent parts, the square of the latter's factor being given."""
    V = square * rest.variance
    total = people.variance + V
    parts = people.components._replace(rows=people.components.rows + V)
    df = total**2 / (people.variance**2 / people.df + V**2 / rest.df)
    return Spread(total, df, parts)


def _warn(found: str) -> None:
    warnings.warn(found, UserWarning, stacklevel=4)
