"""Confidence intervals for any metric, by leaving out blocks of samples, of raters and of labels.

A bootstrap that resamples samples is invalid for bias-corrected binned metrics and for kernel
metrics: repeated samples undo the correction and lie at distance 0 of each other. One that
resamples raters is too: a repeated rater agrees with himself. For risks there is a bound that needs
no variance.
"""

from typing import Any, Literal, cast

import numpy as np
from scipy.stats import t as student
from sklearn.utils import check_random_state

from ..._rows import PredictionLike, Rows
from ..._utils.arrays import Floats, row_units
from ..._utils.checks import as_floats, check_finite, checked, warn
from ..._utils.costs import check_cost_matrix
from ..._utils.results import ConfidenceInterval, VarianceComponents
from ..._utils.tags import Tags, tags_of, unwrapped
from ..._utils.types import ArrayLike, Groups, LabelsLike, MetricFunction, Raters, Seed, Weights
from .._decision import cost_terms, read_decisions
from .._evaluate import signed_root
from .means import student_ends
from .replicates import Statistic, statistic_of
from .scarce import ScarceEnds, difference_ends, scarce_ends
from .two_way import FIXED_RATERS, Design, Panel, Replicates, Spread, over_raters, spread_of

# of points on an ellipse
_ANGLES = 20_001
# of labels that are not of the commonest class, and raters
_RARE = 0.1
_SEVERAL_RATERS = 15


@checked
def confidence_interval(
    metric: MetricFunction,
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    sample_weight: Weights = None,
    groups: Groups = None,
    raters: Raters = None,
    confidence_level: float = 0.95,
    n_blocks: int | None = None,
    random_state: Seed = None,
    **options: Any,
) -> ConfidenceInterval:
    """Confidence interval of a metric by the jackknife, over samples or over samples and raters.

    Samples, or groups of samples, are dealt to blocks at random. The metric is computed without
    each block, and Student's interval follows from the variance of these values (Busing, Meijer and
    van der Leeden 1999, for blocks of unequal size). With `Annotations` raters are left out too,
    one by one, and blocks of single labels. The interval then holds for new samples and new raters.
    An error that is the signed root of a loss gets the roots of that loss's interval, since the
    root itself is far from normal near 0.

    Parameters
    ----------
    metric : callable
        ``metric(y, prediction, **options)``, a mean over samples or nearly so, such as all metrics
        of this package.
    y : label histogram of shape (n_samples, n_classes)
        Anything that the metric takes and whose rows can be indexed.
    prediction : array-like of shape (n_samples, ...), Distribution or None
    sample_weight : array-like of shape (n_samples,), optional
        Goes to the metric.
    groups : array-like of shape (n_samples,), optional
        Samples of one group (one patient, say) may depend on each other. They go to one block.
        Metrics of this package that are corrected for sampling leave their pairs out of the
        correction, as with ``groups=`` of their own. Groups are independent.
    raters : {"random", "fixed"}, optional
        "random": the raters are a sample, and the interval is for new raters and samples, which
        needs `Annotations` with three raters or more. "fixed": it is for these raters and new
        samples. Binned metrics are then those of the counts of y: the biases of these raters are no
        noise. None: "random" with `Annotations`, "fixed" with all else. **Counts do not say who
        spoke**: their interval holds for new raters only where each sample has raters of its own.
        Where the same few read many samples it is too narrow.
    confidence_level : float, default=0.95
    n_blocks : int, optional
        Most blocks of samples, or groups, and of labels. None: 1,000 for a mean over samples, 50
        for other metrics. With as many blocks as samples nothing is random; an interval of 50
        blocks is wider or narrower by a tenth, as `random_state` has it. Up to 50 raters are left
        out one by one, more in blocks.
    random_state : int, RandomState instance or None, default=None
        Decides the blocks, where there are fewer of them than samples or groups.
    **options
        Go to the metric.

    Returns
    -------
    ConfidenceInterval
        ``(estimate, low, high, standard_error)`` in the unit of the metric, but the error of a
        signed root is that of its square. Its `components`, `df` and `n_raters` say what it is made
        of; `notes`, which are printed, say of how many samples and which it is, where some have too
        few labels, and where no difference between raters was found.

    Raises
    ------
    ValueError
        Fewer than two samples or groups that count, missing groups, a confidence_level outside (0,
        1), lengths that differ, a metric that returns several numbers, fewer than three raters
        where they are random, or labels without raters; of three raters, or for metrics that are
        no means, one who reads nearly every sample that has labels enough, so that hardly any is
        left without (``raters="fixed"`` is the remedy).

    Warns
    -----
    UserWarning
        Fewer than five raters, or raters who are worth fewer than three of equal loads: the
        interval may cover too rarely. A metric that is biased upwards, such as a plug-in
        calibration error. A log loss or `irreducible_loss` with fewer than 15 random raters where
        fewer than 10% of the labels are not of the commonest class: the mean over raters may be
        ruled by one who is not among them. Fewer than ten samples with a label other than the
        predicted one, or terms that are all alike: the standard error may be too small, or 0.
        Groups of such unequal size that they are worth less than half of their number, and fewer
        than ten.

    Notes
    -----
    With fixed raters, Student's t has one degree of freedom less than there are blocks, or groups
    where these are fewer; of unequal blocks as many as are worth them, ``(Σ_b v_b)²/Σ_b v_b² − 1``
    with v_b the sum of squares of the weights of the groups in a block. Samples that do not count,
    for lack of weight or of raters, are no units. Ten groups may still cover too rarely. From 50
    groups of alike samples on, 90% intervals covered 0.91 or more in ``benchmarks/intervals.py
    groups``.

    A mean of terms in a known range [a, b], such as accuracy or the expected squared loss, near one
    of its ends has the endpoint interval. Its ends are quantiles of ``(Σ_g D_g S_g + D_0 w̄ e) /
    (Σ_g D_g W_g + D_0 w̄)``, with W_g the weight of group or sample g and S_g the sum of its
    weighted terms, D drawn from Exp(1), e = b for the upper end and a for the lower one (Gaffke
    2005). It is Clopper and Pearson's for terms 0 and 1 of independent samples; otherwise its
    coverage is simulated, no proof is known. It is used where the mean lies within 10/n of the
    range from an end, n the units' worth, and fewer than ten units lie further than 22% of it from
    there.

    A mean without such a range, such as `epistemic_loss`, `label_log_loss` or `net_benefit`, has
    the interval for few samples of `paired_difference`, where fewer than 20 units are apart
    from the others and the next paragraph finds nothing.

    Other metrics need labels other than the predicted one, and those on which all agree. Where
    fewer than ten samples have either, the jackknife's interval is widened. Such labels are as
    frequent as the endpoint interval of their share says; one factor on the odds of all classes but
    the predicted one then gives the metric's values at both ends and at what was predicted. Other
    forms of miscalibration cannot be seen in so few labels.

    A coefficient of agreement, such as `fleiss_kappa`, always has endpoints: it is a function f of
    sums over units, and its ends are the least and the largest quantile of ``f(Σ_g D_g A_g + D_0
    e)`` over units e that may be. Their labels all agree, or one or half of them say another class.
    Where all labels drawn are of one class, they agree. Coverage is simulated, no proof is known.
    With more than 10,000 sums, as of the raters of a large crowd, the interval is the jackknife's.

    With random raters an end of these at distance a of the estimate T moves to ``T ± sqrt(a² + t²
    (V − V_row))``, by what raters add to the variance. Widened intervals hold the jackknife's.
    Ends outside the range of the truth, such as an `epistemic_loss` below 0, are cut, but not
    beyond the estimate. ``benchmarks/intervals.py edges`` measures coverage.

    With random raters the variance of a mean over samples is ``rows + Σ_r c_r² σ²``, with c_r the
    share of rater r in the data. Each rater says something of the variance σ² of the raters'
    biases, by how much the metric changes without her, against what samples and labels alone would
    do. Raters without whom it is undefined say nothing. The standard error and the degrees of
    freedom are those of Student's t that has the mean and the variance of the logarithm of that
    variance, over the posterior of σ² (as in Smyth 2004).

    For other metrics, and three raters, the variance is ``rows + max(raters − cells, 0)``. The
    jackknife over labels measures what both others count. Degrees of freedom follow Satterthwaite;
    they are 2 at least. Those of the raters count where the excess is above 0. They always count
    where raters may look alike by chance: where their shares are worth fewer than 4.5 raters of
    equal shares, by ``(Σ_r c_r)²/Σ_r c_r²`` (Kish 1965).

    Raters, and samples, are taken as exchangeable; the design may be incomplete.
    ``benchmarks/intervals.py readers`` measures coverage; the validation page has its table.

    References
    ----------
    Gaffke (2005), Three test statistics for a nonparametric one-sided hypothesis on the mean of a
    nonnegative variable. Mathematical Methods of Statistics 14, 451–467.

    Smyth (2004), Linear models and empirical Bayes methods for assessing differential expression in
    microarray experiments. Statistical Applications in Genetics and Molecular Biology 3, 3.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> from sklearn_lhcal.metrics import expected_accuracy
    >>> data = make_label_histograms(500, random_state=0)
    >>> interval = confidence_interval(
    ...     expected_accuracy, data.counts, data.prediction, random_state=0
    ... )
    >>> interval.low < interval.estimate < interval.high
    True

    Five readers of 100 samples, the first of whom says 1 more often:

    >>> import numpy as np
    >>> from sklearn_lhcal.label_histogram import Annotations
    >>> from sklearn_lhcal.metrics import irreducible_loss
    >>> rng = np.random.default_rng(0)
    >>> votes = (rng.random((100, 5)) < [0.9, 0.5, 0.4, 0.6, 0.3]).astype(int)
    >>> y = Annotations.from_matrix(votes)
    >>> new_readers = confidence_interval(irreducible_loss, y, None, random_state=0)
    >>> these = confidence_interval(irreducible_loss, y, None, raters="fixed", random_state=0)
    >>> new_readers.n_raters, new_readers.standard_error > these.standard_error
    (5, True)
    """
    if tags_of(metric, **options).biased:
        function, _ = unwrapped(metric, {})
        warn(
            f"{function.__name__} is biased upwards, and its interval lies too high; "
            "use bias_correction where it has one."
        )
    statistic = statistic_of(metric, y, prediction, sample_weight, groups, options, raters)
    design = statistic.design(raters, n_blocks, check_random_state(random_state))
    return interval_of(statistic, design, confidence_level)


@checked
def paired_difference(
    metric: MetricFunction,
    y: LabelsLike,
    prediction: PredictionLike,
    reference: PredictionLike,
    *,
    sample_weight: Weights = None,
    groups: Groups = None,
    raters: Raters = None,
    confidence_level: float = 0.95,
    n_blocks: int | None = None,
    random_state: Seed = None,
    **options: Any,
) -> ConfidenceInterval:
    """Difference of a metric between two predictions for the same samples, with its interval.

    ``metric(y, prediction) − metric(y, reference)``, by the same jackknife as
    `confidence_interval`. What both predictions share cancels, so that the interval is narrower
    than those of the two metrics. Calibration and dispersion errors are signed roots of losses, and
    the interval is made for both losses first: they lie in an ellipse whose shadow on any line is
    Student's interval. The interval holds the differences of the roots of all pairs in it.

    Parameters
    ----------
    metric, y, prediction
        As in `confidence_interval`.
    reference : array-like of shape (n_samples, ...) or Distribution
        What to compare with.
    groups, raters, confidence_level, n_blocks, random_state, sample_weight, **options
        As in `confidence_interval`.

    Returns
    -------
    ConfidenceInterval
        ``(estimate, low, high, standard_error)``; for losses and errors a negative difference
        favours `prediction`.

    Raises
    ------
    ValueError
        As `confidence_interval`.

    Warns
    -----
    UserWarning
        Few raters, or groups of unequal size, as `confidence_interval`; random raters and fewer
        than ten samples in which the terms of a mean differ.

    Notes
    -----
    Where both models have nearly the same terms in all but fewer than 20 samples or groups (and
    fewer than half of them, from ten on), the difference of two means has the endpoint interval of
    `confidence_interval`. Nearly the same: the difference
    X_i lies within a tenth of e from its median. The ends e are how far X may lie on
    either side, ``Σ p x²/Σ p x`` over samples and classes k, where x is the distance of X_i from
    the median if all raters say k, and p the sum of both probabilities of k. If both models are
    right or wrong in the same samples, whatever raters say, e is the largest difference of their
    terms. Class probabilities that are equal on all samples are those of one model, and the
    interval is 0; of decisions or hard labels only where both are the same object. Coverage is
    simulated, no proof is known.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> from sklearn_lhcal.metrics import epistemic_loss
    >>> data = make_label_histograms(500, overconfidence=3.0, random_state=0)
    >>> better = paired_difference(
    ...     epistemic_loss, data.counts, data.proba, data.prediction, random_state=0
    ... )
    >>> better.high < 0
    True
    """
    how_read = sample_weight, groups, options, raters
    one = other = statistic_of(metric, y, prediction, *how_read)
    if one.metric is not None and one.metric.tags.of_labels:
        raise ValueError(f"{one.metric.name} is of labels alone: no prediction changes it.")
    if reference is not prediction:
        other = statistic_of(metric, y, reference, *how_read)
    design = one.design(raters, n_blocks, check_random_state(random_state))
    if not one.signed_root:
        return interval_between(one, other, design, confidence_level)
    first, second = (statistic.replicates(design) for statistic in (one, other))
    how = {"second_order": one.second_order}
    spread = spread_of(first.minus(second), design, **how)
    spreads = [spread_of(result, design, **how) for result in (first, second)]
    both = [first.estimate, second.estimate]
    ends = _root_difference(both, spreads, spread, confidence_level)
    return _interval(ends, spread, confidence_level, design.panel)


def interval_of(statistic: Statistic, design: Design, level: float) -> ConfidenceInterval:
    """The interval of a statistic, from its values without the blocks of a design."""
    scarce = scarce_ends(statistic, design.panel is not None, level)
    metric = statistic.metric
    if design.panel is not None and metric is not None and metric.tags.ruled_by_raters:
        # all classes but one are rare, and raters few
        rows = cast(Rows, statistic.data)
        said = rows.weight @ rows.labels.counts
        if 1 - said.max() / said.sum() < _RARE and design.panel.worth < _SEVERAL_RATERS:
            warn(
                f"Fewer than {_RARE:.0%} of the labels are not of the commonest class: one more "
                f"rater may change {metric.name} much, and intervals for new raters may cover too "
                f"rarely; {FIXED_RATERS}"
            )
    return interval_at(statistic, statistic.replicates(design), design, level, scarce)


def interval_between(
    one: Statistic, other: Statistic, design: Design, level: float
) -> ConfidenceInterval:
    """The interval of the difference of two statistics of the same samples."""
    scarce = difference_ends(one, other, design.panel is not None, level)
    result = one.replicates(design).minus(other.replicates(design))
    return interval_at(one, result, design, level, scarce, bounded=False)


def interval_at(
    statistic: Statistic,
    found: Replicates,
    design: Design,
    level: float,
    scarce: ScarceEnds | None,
    bounded: bool = True,
) -> ConfidenceInterval:
    """The same of values that are known, with the ends where few samples differ.

    Ends beyond the range of the truth are cut, where `bounded`, but not beyond the estimate.
    """
    T = found.estimate
    spread = spread_of(found, design, second_order=statistic.second_order)
    ends = _ends(T, spread, level)
    alone = scarce is not None and scarce[2]
    if scarce is not None and alone:
        ends[1:] = over_raters(T, scarce[:2], spread, level)
    elif scarce is not None:
        ends[1:] = np.fmin(scarce[0], ends[1]), np.fmax(scarce[1], ends[2])
    if statistic.signed_root:
        ends = signed_root(ends)
    tags = Tags() if statistic.metric is None else statistic.metric.tags
    bounds = tags.limits if isinstance(tags.limits, tuple) else tags.bounds
    if bounded and bounds is not None:
        low, high = np.clip(ends[1:], *bounds)
        ends[1:] = np.fmin(low, T), np.fmax(high, T)
    students = not alone or design.panel is not None
    made = _interval(ends, spread, level, design.panel, students)
    made.rests_on = statistic.rests_on
    return made


def interval_from(
    estimate: float, spread: Spread, level: float, mapped: bool, panel: Panel | None = None
) -> ConfidenceInterval:
    """Student's interval; `mapped`: the root of it, where the estimate is a signed square."""
    ends = _ends(estimate, spread, level)
    if mapped:
        ends = signed_root(ends)
    return _interval(ends, spread, level, panel)


def _ends(estimate: float, spread: Spread, level: float) -> Floats:
    """The estimate and the ends of Student's interval, shape (3,)."""
    ends = student_ends(estimate, spread.variance, spread.df, level)
    return np.array([estimate, *ends])


def _root_difference(
    roots: list[float], spreads: list[Spread], of_both: Spread, level: float
) -> Floats:
    """The difference of two signed roots, and its least and largest value over an ellipse.

    The ellipse is that of both squares, whose shadow on any line is Student's interval.
    """
    a, b = roots
    V_a, V_b = (spread.variance for spread in spreads)
    t = student.ppf((1 + level) / 2, of_both.df)
    error = np.sqrt(V_a * V_b)
    correlation = 0.0
    if error > 0:
        correlation = float(np.clip((V_a + V_b - of_both.variance) / (2 * error), -1, 1))
    angle = np.linspace(0, 2 * np.pi, _ANGLES)
    x = np.cos(angle)
    y = correlation * x + np.sqrt(1 - correlation**2) * np.sin(angle)
    result = signed_root(a + t * np.sqrt(V_a) * x) - signed_root(b + t * np.sqrt(V_b) * y)
    return np.array([signed_root(a) - signed_root(b), result.min(), result.max()])


def _interval(
    ends: Floats, spread: Spread, level: float, panel: Panel | None, students: bool = True
) -> ConfidenceInterval:
    estimate, low, high = ends.tolist()
    return ConfidenceInterval(
        estimate,
        low,
        high,
        float(np.sqrt(spread.variance)),
        confidence_level=level,
        df=float(spread.df) if students else None,
        components=VarianceComponents(*map(float, spread.components)),
        n_raters=None if panel is None else panel.n_raters,
    )


def with_ends(
    interval: ConfidenceInterval, low: float, high: float, **attributes
) -> ConfidenceInterval:
    """The interval with other ends, and other attributes."""
    made = interval._replace(low=low, high=high)
    vars(made).update(vars(interval) | attributes)
    return made


@checked
def interval_over_splits(
    values: ArrayLike, *, test_fraction: float | None = None, confidence_level: float = 0.95
) -> ConfidenceInterval:
    """Mean over random splits of the data, with Student's interval.

    Parameters
    ----------
    values : array-like of shape (n_splits,)
        A metric, or the difference of two, of each split.
    test_fraction : float, optional
        Share of the samples that is tested in each split, where splits are drawn from the same
        samples: the variance is ``s² (1/S + q/(1 − q))``, as splits share samples (Nadeau and
        Bengio 2003). None: splits are independent.
    confidence_level : float, default=0.95

    Returns
    -------
    ConfidenceInterval
        ``(estimate, low, high, standard_error)`` in the unit of the values.

    Raises
    ------
    ValueError
        Fewer than two splits, values that are NaN or infinite, levels or fractions outside (0, 1).

    References
    ----------
    Nadeau and Bengio (2003), Inference for the generalization error.

    Examples
    --------
    >>> interval = interval_over_splits([0.81, 0.79, 0.83], test_fraction=0.25)
    >>> round(interval.estimate, 2), round(interval.low, 2)
    (0.81, 0.74)
    """
    x = as_floats(values, "values")
    if x.ndim != 1 or len(x) < 2:
        raise ValueError(f"values must hold two splits or more, shape (n_splits,), not {x.shape}.")
    check_finite(x, "values", "repair these splits, or leave them out")
    # whose squares are numbers still
    if np.abs(x).max() > 1e150:
        raise ValueError("values must lie between -1e150 and 1e150.")
    q = test_fraction or 0.0
    S = len(x)
    spread = Spread(x.var(ddof=1) * (1 / S + q / (1 - q)), S - 1.0, VarianceComponents(0.0))
    mean, low, high = _ends(float(x.mean()), spread, confidence_level).tolist()
    error = float(np.sqrt(spread.variance))
    return ConfidenceInterval(mean, low, high, error, confidence_level=confidence_level, df=S - 1.0)


@checked
def risk_bound(
    y: LabelsLike,
    decisions: ArrayLike,
    cost_matrix: ArrayLike,
    *,
    method: Literal["hoeffding", "empirical_bernstein"] = "hoeffding",
    groups: Groups = None,
    confidence_level: float = 0.95,
) -> ConfidenceInterval:
    """Interval for the risk of decisions that holds for any distribution of the costs, from their
    range alone.

    Where a rare mistake is very expensive, the samples at hand may show none. Intervals that are
    made of the spread of their costs are then far too short. These intervals hold at every sample
    size. They are wide for that reason.

    - ``"hoeffding"``: ``R ± Δ·sqrt(log(2/δ)/(2n))``, Δ the largest minus the least cost, δ = 1 −
      confidence_level.
    - ``"empirical_bernstein"``: ``R ± [sqrt(2V·log(4/δ)/n) + 7Δ·log(4/δ)/(3(n−1))]`` with V the
      variance of the costs: shorter where that is small, and n is not.

    Parameters
    ----------
    y, decisions, cost_matrix
        As in `decision_risk`. Samples, or groups, must be independent, and the decisions not chosen
        on them. Readers who read several samples are taken as fixed. Samples count alike: there are
        no weights, which the guarantee would not survive where they depend on the samples.
    method : {"hoeffding", "empirical_bernstein"}, default="hoeffding"
        Which of the two.
    groups : array-like of shape (n_samples,), optional
        Samples of one group (one patient, say) may depend on each other. A group is one cost then,
        the mean of its samples, and n the number of groups. The risk is that of a sample drawn from
        a new group: groups count alike, however many samples they have.
    confidence_level : float, default=0.95
        The interval holds the risk with at least this probability.

    Returns
    -------
    ConfidenceInterval
        ``(estimate, low, high, standard_error)`` in the unit of the costs; ends are cut to the
        range of the costs.

    Raises
    ------
    ValueError
        An unknown method, a level outside (0, 1), missing groups, fewer than two samples or groups
        for the empirical Bernstein bound.

    References
    ----------
    Hoeffding (1963), Probability inequalities for sums of bounded random variables; Maurer and
    Pontil (2009), Empirical Bernstein bounds and sample variance penalization, Theorem 4; P4 §5.3.

    Examples
    --------
    >>> bound = risk_bound([0, 1] * 500, [0, 1] * 500, [[0, 1], [100, 0]])
    >>> bound.estimate, round(bound.high, 1)
    (0.0, 4.3)
    """
    rows = read_decisions(y, decisions, None, groups, cost_matrix=cost_matrix)
    cost, _ = cost_terms(rows, cost_matrix=cost_matrix)
    unit = row_units(rows.groups, len(cost))
    cost = np.bincount(unit, cost) / np.bincount(unit)
    C = check_cost_matrix(cost_matrix, a_row=True).C
    n = len(cost)
    delta = 1 - confidence_level
    width = np.ptp(C)
    if method == "hoeffding":
        reach = width * np.sqrt(np.log(2 / delta) / (2 * n))
    else:
        if n < 2:
            raise ValueError(
                "The empirical Bernstein bound needs two samples or groups; use method='hoeffding'."
            )
        log = np.log(4 / delta)
        reach = np.sqrt(2 * cost.var(ddof=1) * log / n) + 7 * width * log / (3 * (n - 1))
    risk = cost.mean()
    low = max(risk - reach, C.min())
    high = min(risk + reach, C.max())
    error = np.nan
    if n > 1:
        error = np.sqrt(cost.var(ddof=1) / n)
    found = map(float, (risk, low, high, error))
    return ConfidenceInterval(*found, confidence_level=confidence_level)
