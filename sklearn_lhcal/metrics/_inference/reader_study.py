"""Reader studies with truth: AUC, sensitivity and specificity for any reader and any case."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.stats import nct
from scipy.stats import t as student

from ..._rows import Readings
from ..._utils.arrays import row_units
from ..._utils.checks import checked, is_real, read_groups, warn
from ..._utils.names import positions, typed
from ..._utils.results import ConfidenceInterval, DataFrame, frame_of, result
from ..._utils.types import ArrayLike, Floats, Groups, Indices, Integers, Mask, NDArray
from .reader_variance import COUNTED, TINY, Contrast, contrast, interval, measured, obuchowski, tail
from .study_size import Pilot, designs, df_of_raters, least_enough, with_found
from .two_way import check_several_raters, warn_of_few

Metric = Literal["auc", "sensitivity", "specificity"] | Callable
# near 1 intervals need so many cases of each truth; noncentral t has no more degrees of freedom
_HIGH, _FEW_CASES, _MOST_DF = 0.95, 25, 1e5


@result
class ReaderStudySize(NamedTuple):
    """What `ReaderStudy.study_size` returns: ``V(n, J) = rows/n + raters/J + ratings/(n·J)``.

    Attributes
    ----------
    n_readers : ndarray of shape (n_designs,)
        J, readers a condition.
    n_cases : ndarray of shape (n_designs,)
        n, cases that bring the power wanted, or groups of cases; inf where no number does. Each
        reader reads the same share of them as in the pilot.
    n_cases_range : ndarray of shape (n_designs, 2)
        What the pilot leaves open of them: 10% and 90% points.
    rows, raters, ratings : float
        Components of the variance of the difference, each for one case, reader and reading.
    effect : float
    margin : float or None
    confidence_level : float
    unit : {"cases", "groups"}
        What n counts: groups, patients say, where the pilot has groups.
    """

    n_readers: Integers
    n_cases: Any
    n_cases_range: Any
    rows: Any
    raters: Any
    ratings: Any
    effect: float
    margin: float | None
    confidence_level: float
    unit: str

    def to_frame(self) -> "DataFrame":
        """A pandas DataFrame, one row for each number of readers."""
        return frame_of(
            {"n_readers": self.n_readers}, n_cases=self.n_cases, n_cases_interval=self.n_cases_range
        )

    def power(self, n_cases: ArrayLike, n_readers: ArrayLike) -> Floats:
        """Probability that such a study shows the effect, or non-inferiority."""
        n, J = (np.asarray(a, dtype=float) for a in (n_cases, n_readers))
        V_R = (self.raters + self.ratings / n) / J
        V = V_R + self.rows / n
        df = np.minimum(V**2 * (J - 1) / np.maximum(V_R**2, TINY), _MOST_DF)
        t = student.ppf((1 + self.confidence_level) / 2, df)
        effect = abs(self.effect) if self.margin is None else self.effect + self.margin
        # beyond, power is 1, and scipy has no number for the other tail
        shift = np.clip(effect / np.sqrt(V), -30, 30)
        with np.errstate(invalid="ignore"):
            other = nct.cdf(-t, df, shift) if self.margin is None else 0.0
            return nct.sf(t, df, shift) + np.nan_to_num(other)


@result
class ReaderStudy(NamedTuple):
    """What `reader_study` returns.

    Attributes
    ----------
    values : dict of ConfidenceInterval
        The mean over readers under each condition.
    difference : ConfidenceInterval or None
        The first compared condition minus the second.
    p_value : float
        Of no difference, two-sided; NaN without a comparison.
    margin : float or None
    non_inferior : bool or None
        Whether the lower end of `difference` is above −margin.
    p_non_inferior : float
        Of a difference of −margin or less, one-sided: compare it with ``(1 − confidence_level)/2``.
    readers : ndarray of shape (n_readers,)
        Names.
    reader_values : ndarray of shape (n_readers, n_conditions)
        NaN where a reader read nothing.
    n_read : ndarray of shape (n_readers, n_conditions, 2)
        Negative and positive cases that each has read.
    reader_difference : ndarray of shape (n_readers,)
        As `difference`; a condition of one reader alone is compared with each.
    reader_difference_interval : ndarray of shape (n_readers, 2)
        For these readers and new cases, and for all of them together (Bonferroni's).
    n_cases : ndarray of shape (2,)
        Negative and positive cases that anyone has read.
    components : dict of float
        By the names of Obuchowski and Rockette: error, cov1, cov2, cov3, reader and condition x
        reader, where the same readers read under several conditions; else empty.
    design : str
        "crossed"; "split plot", groups of readers with cases of their own; "partial", some readings
        are missing; "different readers" under each condition; "model against readers"; "single
        readers".
    metric, scale : str
        `scale` is that of the difference.
    compare : tuple or None
    raters : {"random", "fixed"}
        Whether intervals are for new readers, or for these.
    confidence_level : float
    contrast : tuple or None
        What `study_size` reads.
    """

    values: dict[Any, ConfidenceInterval]
    difference: ConfidenceInterval | None
    p_value: float
    margin: float | None
    non_inferior: bool | None
    p_non_inferior: float
    readers: NDArray
    reader_values: Floats
    n_read: Integers
    reader_difference: Floats
    reader_difference_interval: Floats
    n_cases: Integers
    components: dict[str, float]
    design: str
    metric: str
    scale: str
    compare: tuple | None
    raters: str
    confidence_level: float
    contrast: Contrast | None

    def to_frame(self) -> "DataFrame":
        """A pandas DataFrame, one row for each reader."""
        columns = dict(zip(map(str, self.values), self.reader_values.T, strict=True))
        if self.compare is not None:
            columns["difference"] = self.reader_difference
            columns["difference_interval"] = self.reader_difference_interval
        return frame_of({"reader": self.readers}, **columns)

    @checked
    def study_size(
        self,
        *,
        effect: float,
        power: float = 0.8,
        margin: float | Literal["study"] | None = "study",
        n_readers: Sequence[int] = (5, 8, 10, 15),
        prevalence: float | None = None,
    ) -> ReaderStudySize:
        """Numbers of cases and readers that a study of this comparison needs.

        Parameters
        ----------
        effect : float
            The true difference. For non-inferiority often 0.
        power : float, default=0.8
            How probable it shall be that the study shows it.
        margin : float, "study" or None, default="study"
            Plan for non-inferiority at this margin, by default at that of this study if it has one;
            None: for a difference from 0.
        n_readers : sequence of int
            Readers a condition to consider.
        prevalence : float, optional
            Share of positive cases in the new study; None: as in this one.

        Returns
        -------
        ReaderStudySize

        Raises
        ------
        ValueError
            Readers that were fixed, no comparison, nothing to show, fewer than three readers to
            consider, a prevalence with groups or with a metric of one's own.

        Notes
        -----
        Power is that of the linear scale (Hillis, Obuchowski and Berbaum 2011), with a variance
        between readers of 0 where the pilot's is negative. A pilot of five readers leaves it open
        by 0.2 or 0.3; `n_cases_range` says what that does to the number of cases, as in
        `study_size`.
        """
        found = self.contrast
        margin = self.margin if margin == "study" else margin
        if found is None or not len(found.J):
            raise ValueError('study_size needs compare= and random readers, readers="random".')
        if (effect if margin is None else effect + margin > 0) == 0:
            raise ValueError("effect must differ from 0, or from -margin: there is none to show.")
        n, weight = found.n_cases.sum(), np.ones(1)
        if prevalence is not None:
            weight = found.n_cases / n / [1 - prevalence, prevalence]
            if len(found.C) == 1:
                raise ValueError("prevalence needs a built-in metric, and cases without groups.")
        new = found._replace(C=weight * found.C, V_fix=weight * found.V_fix)
        (_, V_R, cells), (rows, _, ratings) = (of.spread().components for of in (found, new))
        # single readings are in V_R, too
        pilot = Pilot(rows, V_R + ratings - cells, ratings, 0.0, 0.0)
        drawn = pilot.drawn(found.n_scarce - 1, df_of_raters(found.df_R + 1), 1.0)
        # the pilot itself, and then draws
        every = Pilot(*(np.append(one, of)[:, None] for one, of in zip(pilot, drawn, strict=True)))
        read = 1 / float(np.mean(1 / found.J))
        parts = [np.maximum(a, 0.0) for a in every.components(n, read, read, 1.0).values()][:3]
        J, _ = designs(n_readers, None, "n_readers")
        unit = "groups" if n < self.n_cases.sum() else "cases"
        about = effect, margin, self.confidence_level, unit
        size = ReaderStudySize._make((J, J, J, *parts, *about))
        needed = least_enough(lambda n: size.power(n, J) >= power, (len(parts[0]), len(J)))
        ends = with_found(needed[1:], needed[0])
        rows, raters, ratings = (float(a[0, 0]) for a in parts)
        size = size._replace(rows=rows, raters=raters, ratings=ratings)
        return size._replace(n_cases=needed[0], n_cases_range=ends)


@checked
def reader_study(
    readings: Readings,
    *,
    metric: Metric = "auc",
    compare: Sequence | None = None,
    margin: float | None = None,
    threshold: object = None,
    groups: Groups = None,
    readers: Literal["random", "fixed"] = "random",
    scale: Literal["linear", "logit"] | None = None,
    confidence_level: float = 0.95,
) -> ReaderStudy:
    """AUC, sensitivity or specificity of readers, and its difference between two conditions.

    Multi-reader multi-case (MRMC) studies with known truth, by the method of Obuchowski and
    Rockette: crossed or split plots, missing readings, different readers under each condition, a
    model alone against readers.

    Parameters
    ----------
    readings : Readings
    metric : {"auc", "sensitivity", "specificity"} or callable, default="auc"
        A callable ``metric(truth, score) -> float``, higher is better, is computed again without
        each case.
    compare : (new, old), optional
        Two conditions; the difference is new minus old. None: each condition alone.
    margin : float, optional
        Above 0: new is non-inferior where the lower end of the difference is above −margin. At the
        default level of 0.95 this is the one-sided test at 2.5% that regulators ask for. Choose it
        before the data are seen.
    threshold : float, optional
        Scores of at least this are positive calls. None: sensitivity and specificity need scores of
        0 and 1.
    groups : array-like of shape (n_cases,), optional
        What cases belong to, as the lesions of a patient, in the order of ``readings.items``.
        `n_cases` then counts cases, `study_size` groups.
    readers : {"random", "fixed"}, default="random"
        Whether intervals are for new readers and new cases, or for these readers and new cases. One
        reader alone under a condition, a model, is always fixed.
    scale : {"linear", "logit"}, optional
        Of intervals. None: logit, but linear for the difference of two conditions with several
        readers, and for a metric of one's own.
    confidence_level : float, default=0.95

    Returns
    -------
    ReaderStudy

    Raises
    ------
    ValueError
        An unknown condition; fewer than three random readers; fewer than two positive or negative
        cases of a reader; sensitivity of scores that are no calls; a margin that is not above 0, or
        without `compare`.

    Warns
    -----
    UserWarning
        Fewer than five random readers; fewer than 25 cases of one truth and a value above 0.95; a
        variance of 0; some, but not all, readers that read under one condition only.

    Notes
    -----
    Readers count equally, however many cases each has read. The variance is Obuchowski and
    Rockette's, with DeLong's covariances, but not less than that for fixed readers: by chance
    readers may look more alike than new ones would, and the `notes` of the interval say so. Degrees
    of freedom are Hillis's; on the logit scale cases have theirs, too. On the linear scale, where
    that bound is not reached, a difference has the numbers of MRMCaov. Whether cases were chosen by
    what readers saw in them cannot be seen in the data.

    References
    ----------
    Obuchowski, N. A. and Rockette, H. E. (1995). Hypothesis testing of diagnostic accuracy for
    multiple readers and multiple tests. Communications in Statistics 24, 285–308.

    Hillis, S. L. (2007). A comparison of denominator degrees of freedom methods for multiple
    observer ROC analysis. Statistics in Medicine 26, 596–619.

    Zou, G. Y. and Donner, A. (2008). Construction of confidence limits about effect measures: a
    general approach. Statistics in Medicine 27, 1693–1702.

    Examples
    --------
    >>> from sklearn_lhcal.label_histogram import Readings
    >>> rng = np.random.default_rng(0)
    >>> truth = np.repeat([0, 1], 40)
    >>> case = truth + rng.normal(size=80)
    >>> unaided, aided = (case[:, None] + s * rng.normal(size=(80, 6)) for s in (1.5, 0.5))
    >>> readings = Readings.from_matrix(truth, {"unaided": unaided, "aided": aided})
    >>> found = reader_study(readings, compare=("aided", "unaided"), margin=0.05)
    >>> found.non_inferior, found.design
    (True, 'crossed')
    >>> isinstance(found.study_size(effect=0.1), ReaderStudySize)
    True
    """
    if margin is not None and not (compare and margin > 0):
        raise ValueError(f"margin must be above 0, and beside compare=; got {margin!r}.")
    conditions, names, kept, at = _table(readings, compare)
    has, J = at >= 0, (at >= 0).sum(axis=0)
    y, scores, level = readings.truth, readings.scores[:, kept], confidence_level
    seen = ~np.isnan(scores)
    counted = COUNTED.get(metric, [0, 1])
    n_read = np.where(has, np.array([seen[y == k].sum(axis=0) for k in (0, 1)])[:, at], 0)
    for k, r, m in np.argwhere(has & (n_read < 2)).tolist():
        if k in counted:
            raise ValueError(
                f"readings under {conditions[m]!r}: reader {names[r]} has read {n_read[k, r, m]} "
                f"cases of truth {k}; two are needed, or leave this reader out."
            )
    several = has[:, J > 1] & (readers == "random")
    if several.any():
        check_several_raters(J[J > 1].min(), 1, "reader")
    scores = _calls(scores, metric, threshold)
    unit = row_units(read_groups(groups, len(y)), len(y))
    if min(len(np.unique(unit[y == k])) for k in counted) < 2:
        raise ValueError("groups: all cases of one truth are in one group; two are needed.")
    theta, V, read = measured(metric, unit, y, scores)
    logits = scale == "logit" or (scale is None and isinstance(metric, str))
    if logits and (np.abs(theta - 0.5) > 0.5).any():
        raise ValueError('scale="logit" needs a metric from 0 to 1.')
    of = partial(contrast, theta, V, read, counted, bool(several.any()))
    parts = [of(at[:, [m]]) for m in range(len(J))]
    found = [interval(part, [part] if logits else [], level) for part in parts]
    whole, difference, p, p_non_inferior = None, None, np.nan, np.nan
    of_readers = np.full((len(names), 3), np.nan)
    if compare is not None:
        whole = of(at)
        logits = logits and (scale == "logit" or J.min() == 1)
        sides = parts if logits else []
        difference = interval(whole, sides, level)
        p = tail(0.0, whole, sides)
        p_non_inferior = tail(-margin, whole, sides) if margin else np.nan
        of_readers = _differences(of, at, logits, level)
    values = dict(zip(conditions, found, strict=True))
    _warn(values, parts, difference, several)
    return ReaderStudy(
        values=values,
        difference=difference,
        p_value=2 * min(p, 1 - p),
        margin=margin,
        non_inferior=difference.low > -margin if difference and margin else None,
        p_non_inferior=p_non_inferior,
        readers=names,
        reader_values=np.where(has, theta[at], np.nan),
        n_read=n_read.transpose(1, 2, 0),
        reader_difference=of_readers[:, 0],
        reader_difference_interval=of_readers[:, 1:],
        n_cases=np.array([np.count_nonzero(seen[y == k].any(axis=1)) for k in (0, 1)]),
        components=obuchowski(theta, V, at) if has.all() and min(at.shape) > 1 else {},
        design=_design(has, seen),
        metric=getattr(metric, "__name__", str(metric)),
        scale="logit" if logits else "linear",
        compare=None if compare is None else tuple(compare),
        raters=readers,
        confidence_level=level,
        contrast=whole,
    )


def _table(readings: Readings, compare: Sequence | None) -> tuple[list, NDArray, list, Indices]:
    """Conditions and readers that are studied, their columns, and `at` among these."""
    under = readings.conditions.tolist()
    conditions = names = [*dict.fromkeys(under)]
    if compare is not None:
        if isinstance(compare, str) or not len(compare) == len({*compare} & {*under}) == 2:
            raise ValueError(f"compare must name two of the conditions {names}, got {compare!r}.")
        conditions = [*compare]
    kept = [column for m in conditions for column, name in enumerate(under) if name == m]
    readers = readings.readers[kept]
    who = typed([*dict.fromkeys(readers.tolist())])
    at = np.full((len(who), len(conditions)), -1)
    m = positions(readings.conditions[kept], typed(conditions))
    at[positions(readers, who), m] = np.arange(len(kept))
    return conditions, who, kept, at


def _calls(scores: Floats, metric: Metric, threshold) -> Floats:
    """Scores, or calls where there is a threshold."""
    seen = ~np.isnan(scores)
    if threshold is not None:
        if not (is_real(threshold) and np.isfinite(threshold)):
            raise ValueError(f"threshold must be a number or None, got {threshold!r}.")
        return np.where(seen, scores >= threshold, np.nan)
    if metric in COUNTED and not np.isin(scores[seen], (0, 1)).all():
        raise ValueError(f"{metric} needs calls, 0 or 1, but scores differ; give threshold=.")
    return scores


def _differences(of: Callable, at: Indices, logits: bool, level: float) -> Floats:
    """Differences of each reader with Bonferroni's ends, (R, 3)."""
    # in place of a condition of one reader alone, a model, stands that one
    alone = np.where((at >= 0).sum(axis=0) == 1, at.max(axis=0), -1)
    pairs = np.where(at < 0, alone, at)[:, None]
    whole = np.flatnonzero((pairs >= 0).all(axis=(1, 2)))
    found = np.full((len(at), 3), np.nan)
    for r in whole:
        parts = [of(pairs[r][:, [m]]) for m in (0, 1)] if logits else []
        each = 1 - (1 - level) / len(whole)
        found[r] = interval(of(pairs[r]), parts, each)[:3]
    return found


def _design(has: Mask, seen: Mask) -> str:
    """Who has read what."""
    several = has[:, has.sum(axis=0) > 1]
    if several.shape[1] < has.shape[1]:
        return "model against readers" if several.size else "single readers"
    if has.shape[1] > 1 and not several.all(axis=1).any():
        return "different readers"
    read = seen[seen.any(axis=1)]
    if has.all() and read.all():
        return "crossed"
    # parts whose readers have no case in common
    return "split plot" if connected_components(read.T @ read)[0] > 1 else "partial"


def _warn(values: dict, parts: list[Contrast], difference, several: Mask) -> None:
    """Warn of what makes intervals unsure; `several` says who reads where readers are random."""
    if several.any():
        J = several.sum(axis=0).min()
        warn_of_few(J, J, "reader")
        if 0 < several.all(axis=1).sum() < several.any(axis=1).sum():
            warn("Some readers read under one condition only: each mean is of its own readers.")
    if any(one.standard_error == 0 for one in (*values.values(), difference) if one):
        warn("A variance is 0: no p-value of a difference follows.")
    for m, part in zip(values, parts, strict=True):
        if part.n_scarce < _FEW_CASES and part.estimate > _HIGH:
            few = f"{part.n_scarce} cases of one truth, a value above {_HIGH}"
            warn(f"Under {m!r}, {few}: intervals may cover too rarely.")
