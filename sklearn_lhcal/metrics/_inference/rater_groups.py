"""A metric of the labels of two groups of raters, who rate the same samples, and its difference.

Samples are shared, so that both groups lose the same blocks of them. Raters of the two groups are
independent: what they add to the variance is summed. Letters as in `two_way`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from ..._rows import Annotations, PredictionLike
from ..._utils.arrays import Mask
from ..._utils.checks import as_floats, as_names, checked, distinct, errors_of, is_gap
from ..._utils.names import row_names
from ..._utils.results import ConfidenceInterval
from ..._utils.tags import OfSums
from ..._utils.types import ArrayLike, Groups, LabelsLike, MetricFunction, Raters, Seed, Weights
from .intervals import interval_at, interval_from, with_ends
from .rater_comparison import named_raters
from .replicates import Statistic, statistic_of
from .scarce import scarce_ends
from .two_way import Design, Replicates, deal_rows, of_raters, over_panels, row_variance


class _Side(NamedTuple):
    """A metric of the labels of one group of raters, and which of all samples count for it."""

    statistic: Statistic
    design: Design
    found: Replicates
    counts: Mask


@checked
def rater_group_difference(
    metric: MetricFunction,
    y: LabelsLike,
    rater_groups: Mapping | ArrayLike,
    prediction: PredictionLike | None = None,
    *,
    compare: Sequence | None = None,
    sample_weight: Weights = None,
    groups: Groups = None,
    raters: Raters = None,
    confidence_level: float = 0.95,
    n_blocks: int | None = None,
    random_state: Seed = None,
    **options: Any,
) -> ConfidenceInterval:
    """Difference of a metric between two groups of raters of the same samples, with its interval.

    The metric of group a, on the labels of its raters alone, minus that of group b: do experts
    disagree less than trainees, does a model agree better with women than with men? Samples are
    left out of both groups together, so that what they share cancels. Raters of the two groups are
    independent draws.

    Parameters
    ----------
    metric : callable
        ``metric(y, prediction, **options)``, as in `confidence_interval`.
    y : Annotations of shape (n_samples, n_classes)
    rater_groups : mapping, Series or array-like of shape (n_raters,)
        The group of each rater: a mapping from raters to groups, a pandas Series whose index is the
        raters, or one group for each of ``y.raters``, in their order. None or NaN: in no group.
    prediction : array-like of shape (n_samples, ...) or Distribution, optional
        None for metrics of labels alone, such as `irreducible_loss` or a coefficient of agreement.
    compare : sequence of two groups, optional
        ``(a, b)``: the difference is a minus b. Other groups are left out. Default: the only two
        groups, sorted.
    sample_weight, groups, confidence_level, n_blocks, random_state, **options
        As in `confidence_interval`.
    raters : {"random", "fixed"}, optional
        "random", the default: for new raters of both groups and new samples, which needs three
        raters of each group. "fixed": for these raters and new samples.

    Returns
    -------
    ConfidenceInterval
        ``(estimate, low, high, standard_error)`` in the unit of the metric. Its `n_raters` and
        `components` are sums over both groups.

    Raises
    ------
    ValueError
        Labels without raters, a rater without a group, groups that are not two, where `compare`
        chooses none, fewer than three raters of a group where they are random, fewer than two
        samples that count for a group, and what `confidence_interval` refuses.

    Warns
    -----
    UserWarning
        Fewer than five raters of a group, or few samples that differ from the others, as
        `confidence_interval`.

    Notes
    -----
    A sample counts for a group whose raters gave it as many labels as the metric needs. If the
    groups rated different samples, the difference is due to these too. Metrics that depend on the
    number of labels (`vote_accuracy`, plug-in calibration errors) compare groups fairly only where
    both gave equally many.

    The variance is that of the samples and what raters of both groups add to it, as in
    `confidence_interval`: by the posterior of either group's variance where the metric is a mean
    and both have four raters, else ``rows + Σ max(raters − cells, 0)`` with Satterthwaite's degrees
    of freedom. Those of the samples are those of the group with fewer. Where a metric is a signed
    root, or few samples of a group differ from the others, the interval is that of square-and-add,
    from ``d − sqrt((T_a − l_a)² + (u_b − T_b)²)`` to ``d + sqrt((u_a − T_a)² + (T_b − l_b)²)``,
    with the estimates T and the intervals [l, u] of both groups (Newcombe 1998): what they share
    then does not narrow it. Coefficients of agreement have that interval with the correlation ρ of
    both, less ``2ρ (T_a − l_a)(u_b − T_b)`` under the root (Zou and Donner 2008). A group whose
    samples all lie in one block has no interval; give a larger `n_blocks`.

    References
    ----------
    Newcombe (1998), Interval estimation for the difference between independent proportions.
    Statistics in Medicine 17, 873–890. Zou and Donner (2008), Construction of confidence limits
    about effect measures: a general approach. Statistics in Medicine 27, 1693–1702.

    Examples
    --------
    Experts, who call fewer of 200 images ill than trainees do:

    >>> import numpy as np
    >>> from sklearn_lhcal.label_histogram import Annotations
    >>> from sklearn_lhcal.metrics import irreducible_loss
    >>> rng = np.random.default_rng(0)
    >>> share = np.repeat([0.2, 0.5], 6)
    >>> y = Annotations.from_matrix((rng.random((200, 12)) < share).astype(int))
    >>> status = ["expert"] * 6 + ["trainee"] * 6
    >>> difference = rater_group_difference(irreducible_loss, y, status, random_state=0)
    >>> round(difference.estimate, 2), difference.high < 0, difference.n_raters
    (-0.18, True, 12)
    """
    labels = named_raters(y)
    w = as_floats(1.0 if sample_weight is None else sample_weight, "sample_weight")
    seed = check_random_state(random_state).randint(2**31 - 1)
    how = sample_weight, groups, options, raters
    sides = []
    for name, member in _members(rater_groups, labels, compare):
        with errors_of(f"Group {name!r} of rater_groups"):
            own = labels.keep(member[labels.rater])
            statistic = statistic_of(metric, own, prediction, *how)
            counts = (own.n >= statistic.least_raters) & ((w > 0) | (statistic.metric is None))
            if not counts.any():
                raise ValueError(f"no sample has labels of {statistic.least_raters} of its raters.")
            design = statistic.design(raters, n_blocks, check_random_state(seed))
            sides.append(_Side(statistic, design, statistic.replicates(design), counts))
    # both groups lose the same blocks of samples
    at = np.flatnonzero(sides[0].counts | sides[1].counts)
    unit = None if groups is None else distinct(as_names(groups, "groups"), "groups")[1][at]
    of_rows = n_blocks or sides[0].statistic.most_blocks
    rows = deal_rows(len(at), unit, of_rows, check_random_state(seed))
    block = np.zeros(len(labels), dtype=np.intp)
    block[at] = rows.code
    one, other = (s.statistic.without_rows(rows._replace(code=block[s.counts])) for s in sides)
    T_one, T_other = (side.found.estimate for side in sides)
    sizes = np.bincount(rows.code)
    V_one, V_other, V_row = (
        row_variance(Replicates(*of), sizes)
        for of in ((T_one, one), (T_other, other), (T_one - T_other, one - other))
    )
    return _difference(sides, V_row, (V_one + V_other - V_row) / 2, confidence_level)


def _difference(
    sides: list[_Side], V_row: float, shared: float, level: float
) -> ConfidenceInterval:
    """The interval of the difference, whose variance over samples is known, and the covariance."""
    intervals, panels, apart, n_raters = [], [], False, 0
    of_sums = True
    for statistic, design, found, _ in sides:
        scarce = scarce_ends(statistic, design.panel is not None, level)
        intervals.append(interval_at(statistic, found, design, level, scarce))
        apart |= scarce is not None or statistic.signed_root
        of_sums &= statistic.metric is not None and isinstance(statistic.metric.tags, OfSums)
        if design.panel is not None:
            panels.append(of_raters(found, design, statistic.second_order))
            n_raters += design.panel.n_raters
    spread = over_panels(V_row, min(side.design.rows.df for side in sides), panels)
    a, b = intervals
    difference = interval_from(a.estimate - b.estimate, spread, level, mapped=False)
    d, low, high, _ = difference
    # undefined without one rater of a group, and of the other group there is no posterior
    if apart or np.isnan(spread.variance):
        error = a.standard_error * b.standard_error
        # of few samples, or near 0, a correlation is not known
        rho = float(np.clip(shared / error, -1, 1)) if of_sums and error > 0 else 0.0
        low = d - _square_and_add(a.estimate - a.low, b.high - b.estimate, rho)
        high = d + _square_and_add(a.high - a.estimate, b.estimate - b.low, rho)
    return with_ends(difference, low, high, n_raters=n_raters or None)


def _square_and_add(one: float, other: float, rho: float) -> float:
    """The reach of a difference, from those of two estimates with the correlation ρ."""
    return float(np.sqrt(max(one**2 + other**2 - 2 * rho * one * other, 0.0)))


def _members(rater_groups, labels: Annotations, compare) -> list[tuple[Any, Mask]]:
    """The two groups that are compared, and who belongs to each, shape (n_raters,)."""
    raters = labels.raters.tolist()
    if not isinstance(rater_groups, Mapping):
        given = as_names(rater_groups, "rater_groups").tolist()
        names = row_names(rater_groups)
        known = raters if names is None else names.tolist()
        if len(given) != len(known):
            raise ValueError(f"rater_groups has {len(given)} groups for {len(known)} raters.")
        rater_groups = dict(zip(known, given, strict=True))
    missing = [raters[r] for r in np.unique(labels.rater) if raters[r] not in rater_groups]
    if missing:
        raise ValueError(f"rater_groups lacks the raters {missing[:20]}; None is in no group.")
    group_of = [rater_groups.get(rater) for rater in raters]
    named = as_names([g for g in group_of if not is_gap(g)], "rater_groups")
    groups = distinct(named, "rater_groups")[0].tolist()
    chosen = groups if compare is None else list(compare)
    if len(chosen) != 2 or sum(g in chosen for g in groups) != 2:
        raise ValueError(
            f"Choose two of the groups in rater_groups, {groups[:20]}, by compare=(a, b); got "
            f"compare={compare!r}."
        )
    return [(name, np.array([not is_gap(g) and g == name for g in group_of])) for name in chosen]
