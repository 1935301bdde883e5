"""People's labels for few samples, cheap labels for many: prediction-powered inference.

Letters: h and g the terms of a mean by people's labels and by the proxy's; n samples have both,
N − n have g alone; θ̂ the estimate, λ the weight of the proxy.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from sklearn.utils import check_random_state

from ..._rows import Labels, PredictionLike, Rows, read_for, read_labels, with_grades
from ..._utils.checks import as_names, check_same_length, checked, errors_of, warn
from ..._utils.names import Side, check_apart, check_row_names
from ..._utils.results import ConfidenceInterval
from ..._utils.types import Floats, Groups, LabelsLike, MetricFunction, Raters, Seed, Weights
from .._evaluate import Metric, with_options
from .intervals import interval_from, interval_of, with_ends
from .replicates import MeanStatistic, of_metric
from .scarce import FEW, endpoints, limits_of, of_units, possible_terms, values_of
from .two_way import Design, Replicates, Spread, spread_of


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
    n_blocks: int | None = None,
    random_state: Seed = None,
    **options: Any,
) -> ConfidenceInterval:
    """Confidence interval of a mean, from people's labels of few samples and cheap labels of many.

    The proxy is a language model, a single rater, or whoever else labels cheaply: n samples have
    labels of people and of the proxy, N − n samples the proxy's alone. With the samples' terms h by
    people's labels and g by the proxy's, ``θ̂ = λ mean(g, rest) + mean(h − λg, both)``. It
    estimates what people's labels would give, however wrong the proxy is. The better g follows h,
    the shorter is the interval; λ is chosen for that. Where g does not rise with h, λ is 0, and the
    result is the interval of people's labels alone.

    **Samples with labels of people must be a random sample of all samples**, not those that looked
    difficult, or that the proxy was unsure of.

    Parameters
    ----------
    metric : callable
        A metric of this package that is a mean over samples, and not biased: `expected_accuracy`,
        `expected_squared_loss`, `epistemic_loss`, `irreducible_loss`, `label_log_loss`,
        `decision_risk` and others. The rate of a class is the `expected_accuracy` of a prediction
        that always names it. `mean_score` and `score_bias` are those of graded labels.
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
        As in `confidence_interval`, for the raters of y: by default random for `Annotations` of
        three raters or more. The proxy says nothing of new raters, so with few raters that interval
        is hardly shorter than people's alone, or longer; "fixed" shows what the proxy is worth. The
        proxy is fixed: nothing is said of other proxies.
    confidence_level, n_blocks, random_state
        As in `confidence_interval`.
    **options
        Go to the metric.

    Returns
    -------
    ConfidenceInterval
        Its `effective_rows` is how many samples with labels of people alone would give an interval
        as short, over samples with raters fixed: whether the proxy was worth it. It is below n
        where the proxy was not.

    Raises
    ------
    ValueError
        A metric that is not a mean of this package, or biased; groups in both sets; a sample
        without a label of the proxy; a class that y does not know; lengths that differ; weights or
        groups of one set only.

    Warns
    -----
    UserWarning
        Fewer than ten samples or groups whose terms differ from the others, by people's labels, by
        the proxy's, or in the difference of both: the interval is then that of few samples. Few
        raters, as in `confidence_interval`.

    Notes
    -----
    ``λ = Cov(h, g)/[Var(g)(1 + n/(N−n))]`` of the n samples, cut to [0, 1], and
    ``V = λ² Var(g, rest)/(N−n) + Var(h − λg)/n``, both variances by the jackknife, the latter over
    raters too where they are random. λ comes from the same samples: the bias is of order 1/n, and
    below that order the interval takes λ as known.

    Where few samples differ, the mean X̄ of ``X = h − λg`` has the endpoint interval [L, U] of
    `confidence_interval`. X lies in [a − λb, b − λa], where terms lie in [a, b]. With s the reach
    of Student's interval of ``λ mean(g, rest)``, the ends are ``θ̂ − √((X̄ − L)² + s²)`` and
    ``θ̂ + √((U − X̄)² + s²)``. With random raters they hold Student's interval too. Ends are cut to
    [a, b].

    A judge's probabilities may be calibrated first, on other samples. With one label per sample and
    a proxy that is no better than the evaluated model, effective samples are at most about twice n
    (Dorner et al. 2024).

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
    own = (sample_weight, groups)
    of_rest = (sample_weight_rest, groups_rest)
    people, judge, rest = _read(
        mean, y, (prediction, *own), proxy, (proxy_rest, prediction_rest, *of_rest)
    )
    rng = check_random_state(random_state)
    designs = people.design(raters, n_blocks, rng), rest.design("fixed", n_blocks, rng)
    return _powered((people, judge, rest), designs, confidence_level)


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
    graded = metric.tags.ordered
    given = {"proxy": proxy, "proxy_rest": others[0]}
    said = []
    for name, each in given.items():
        with errors_of(name):
            said.append(read_labels(each, name=name, fractions=graded))
    if graded:
        labels = with_grades(labels, *said)
    check_same_length(len(labels), proxy=proxy)
    check_row_names(y=y, proxy=proxy)
    check_apart(proxy=proxy, proxy_rest=others[0])
    rows = read_for(metric, labels, *own)
    least = metric.tags.least_raters
    enough = np.flatnonzero(rows.contributes(least))
    if not len(enough):
        raise ValueError(f"{metric.name} needs {least} labels of people, which no sample of y has.")
    judged = _of_proxy(metric, rows, "proxy", said[0], *own)
    rest = _of_proxy(metric, rows, "proxy_rest", said[1], *others[1:])
    if rest.w is not None:
        # on the scale of the others
        rest.w = np.ldexp(rest.w, rest.scale - rows.scale)
    parts = rows.take(enough), judged.take(labels.rated[enough]), rest
    return tuple(cast(MeanStatistic, of_metric(metric, part)) for part in parts)


def _of_proxy(metric: Metric, rows: Rows, name: str, said: Labels, *own) -> Rows:
    """Samples of the proxy's labels, with the classes of those of people; an error says whose."""
    classes = Side("the labels of people", rows.classes, rows.labels.shape[1])
    with errors_of(name):
        said = said.matched(classes)
        said.graded = rows.labels.graded
        result = read_for(metric, said, *own)
    least = metric.tags.least_raters
    if said.has_gaps or (result.n < least).any():
        raise ValueError(
            f"{name} must have {least} or more labels of each sample for {metric.name}: leave the "
            "other samples out, or give the proxy's probabilities as KnownProbabilities."
        )
    return result


def _powered(means: tuple, designs: tuple, level: float) -> ConfidenceInterval:
    """θ̂ and its interval, from endpoints of h − λg where few samples or groups differ."""
    people, judge, rest = means
    design, others = designs
    (W, H), (_, G) = (of_units(mean.of_row, mean.data) for mean in (people, judge))
    h, g = H / W, G / W
    c = [int((abs(x - np.median(x)) > 1e-9).sum()) for x in (h, g, h - g)]
    few = min(c) < FEW
    if few:
        warn(
            f"Few samples or groups differ from the others in {people.metric.name}: {c[0]} by "
            f"people's labels, {c[1]} by the proxy's, {c[2]} in the difference of both. The "
            "interval is that of few."
        )
    lam = _weight(W, h, g, W.sum() / rest.total[0]) if c[1] else 0.0
    n = float(len(people.data))
    if lam == 0:
        alone = interval_of(people, design, level)
        return with_ends(alone, alone.low, alone.high, effective_rows=n)
    # θ̂ = mean(h) − λ (mean(g, both) − mean(g, rest))
    of_rest = rest.estimate()
    moved = lam * (judge.estimate() - of_rest)
    without = lam * (judge.without_rows(design.rows) - of_rest)
    found = people.replicates(design).minus(
        Replicates(moved, without, moved, moved, without[:, None])
    )
    V_rest = spread_of(rest.replicates(others), others)
    rows = Design(design.rows)
    of_rows, spread = (_sum(spread_of(found, part), lam**2, V_rest) for part in (rows, design))
    low, high = interval_from(found.estimate, of_rows, level, False)[1:3]
    a, b = limits_of(people.metric, people.data) or _possible(people, h, g)
    if few:
        X = h - lam * g
        apart = endpoints(W * X, W, (a - lam * b, b - lam * a), level) - np.average(X, weights=W)
        s = lam * interval_from(0.0, V_rest, level, False).high
        low, high = found.estimate + np.array([-1, 1]) * np.hypot(apart, s)
    alone = interval_of(people, rows, level)
    effective = n * ((alone.high - alone.low) / (high - low)) ** 2
    interval = interval_from(found.estimate, spread, level, False, design.panel)
    if design.panel is not None:
        low = min(low, interval.low)
        high = max(high, interval.high)
    # an estimate may lie beyond the terms
    low = min(max(low, a), found.estimate)
    high = max(min(high, b), found.estimate)
    said = {"df": None if few else interval.df, "rests_on": people.rests_on}
    return with_ends(interval, float(low), float(high), effective_rows=float(effective), **said)


def _weight(W: Floats, h: Floats, g: Floats, more: float) -> float:
    """λ = Cov(h, g)/[Var(g)(1 + n/(N−n))], cut to [0, 1]; `more` is n/(N−n)."""
    h, g = (W * (x - np.average(x, weights=W)) for x in (h, g))
    return float(np.clip(h @ g / (g @ g * (1 + more)), 0, 1))


def _possible(people: MeanStatistic, h: Floats, g: Floats) -> tuple[float, float]:
    """Between which terms lie, whatever raters say."""
    possible, _ = possible_terms(values_of(people), people.data, people.least_raters)
    every = np.concatenate([possible.ravel(), h, g])
    return float(np.nanmin(every)), float(np.nanmax(every))


def _sum(people: Spread, square: float, rest: Spread) -> Spread:
    """The spread of the sum of independent parts, the square of the latter's factor being given."""
    V = square * rest.variance
    total = people.variance + V
    parts = people.components._replace(rows=people.components.rows + V)
    df = total**2 / (people.variance**2 / people.df + V**2 / rest.df)
    return Spread(total, df, parts)
