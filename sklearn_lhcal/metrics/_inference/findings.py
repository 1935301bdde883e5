"""A metric of each of several findings, with intervals that hold for all of them together.

Letters: F findings, B blocks of samples, V the covariance of the findings' estimates, all by one
jackknife: the blocks that are left out are the same for all findings."""

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.utils import check_random_state

from ..._rows import Annotations, MultiLabelCounts
from ..._utils.arrays import Floats, Indices, Integers, row_units
from ..._utils.checks import (
    check_same_length,
    check_sample_weight,
    checked,
    read_groups,
    take_rows,
    warn_undefined,
)
from ..._utils.finding_tables import about_finding, finding_table, warn_of_findings
from ..._utils.names import check_row_names
from ..._utils.results import ConfidenceInterval, DataFrame, fields, frame_of, result
from ..._utils.simplex import EPS
from ..._utils.types import ArrayLike, Groups, MetricFunction, Raters, Seed, Weights
from .._evaluate import with_options
from .intervals import interval_at
from .replicates import Given, MeanStatistic, Statistic, statistic_of
from .scarce import FEW, ScarceEnds, scarce_ends
from .two_way import Blocks, Design, Replicates, blocks_of, cells_of, panel_of, row_deviations

# events, below which a finding is rare among several
_RARE = 20
_DRAWS = 10_000
_TOO_FEW = "fewer than two samples or groups count, and the metric is set to NaN."
# from which on Student's t is normal
_MOST_DF = 200


@result
class FindingTable(NamedTuple):
    """What `per_finding` returns; all arrays have shape (n_findings,), in the order of y.

    Attributes
    ----------
    finding : ndarray
        Names of the findings.
    estimate, low, high : ndarray
        The metric and its interval, which holds for one finding chosen beforehand.
    simultaneous_low, simultaneous_high : ndarray
        Intervals that hold for all findings together.
    n : ndarray
        Samples that count.
    confidence_level : float
    """

    finding: NDArray
    estimate: Floats
    low: Floats
    high: Floats
    simultaneous_low: Floats
    simultaneous_high: Floats
    n: Integers
    confidence_level: float

    def to_frame(self) -> "DataFrame":
        """A pandas DataFrame with one row for each finding."""
        return frame_of({"finding": self.finding}, **fields(self, "estimate", "n"))


class _Finding(NamedTuple):
    """The metric of one finding: its samples, blocks of them, and its values without these."""

    rows: Indices
    statistic: Statistic
    design: Design
    found: Replicates

    def scarce(self, level: float, few: int) -> ScarceEnds | None:
        """Ends where fewer units speak."""
        return scarce_ends(self.statistic, self.design.panel is not None, level, few)

    def interval(self, level: float, scarce: ScarceEnds | None) -> ConfidenceInterval:
        """Student's interval, or the one with these ends."""
        return interval_at(self.statistic, self.found, self.design, level, scarce)


@checked
def per_finding(
    metric: MetricFunction,
    y: MultiLabelCounts,
    prediction: ArrayLike | Mapping | None,
    *,
    sample_weight: Weights = None,
    groups: Groups = None,
    raters: Raters = None,
    confidence_level: float = 0.95,
    n_blocks: int | None = None,
    random_state: Seed = None,
    **options: Any,
) -> FindingTable:
    """A metric of each finding, with intervals for each one and for all of them together.

    Each finding is a yes or no, scored by itself as two classes, over the samples of which somebody
    was asked about it. ``low`` and ``high`` are those of `confidence_interval`: 95% of such
    intervals hold the truth of their finding. With 14 findings, one or more then often misses. All
    14 simultaneous intervals hold the truth together in 95% of the studies. Use these to say which
    findings are above or below a value.

    Parameters
    ----------
    metric : callable
        ``metric(y, prediction, **options)``, as in `confidence_interval`.
    y : MultiLabelCounts of shape (n_samples, n_findings)
        Labels. A sample does not count for a finding of which nobody was asked there.
    prediction : array-like or frame of shape (n_samples, n_findings), dict, or None
        Probability that each finding is present. Columns with names meet findings by name. A dict
        ``{finding: prediction}`` may hold anything that the metric takes, such as what
        `sklearn_lhcal.calibration.PerFinding.predict_dist` returns. None: for metrics of labels
        alone.
    sample_weight, groups, n_blocks, random_state
        As in `confidence_interval`. Samples, or groups, are independent.
    raters : {"random", "fixed"}, optional
        As in `confidence_interval`; "random" needs y of `MultiLabelCounts.from_long`.
    confidence_level : float, default=0.95
        Of each interval, and of all simultaneous ones together.
    **options
        Go to the metric.

    Returns
    -------
    FindingTable
        `to_frame` has one row for each finding: estimate, low, high, simultaneous_low,
        simultaneous_high, n.

    Raises
    ------
    TypeError
        y that is no MultiLabelCounts.
    ValueError
        Findings of y and the prediction that differ, values that are no probabilities, lengths that
        differ; what `confidence_interval` raises, with the name of the finding.

    Warns
    -----
    UndefinedMetricWarning
        A finding with fewer than two samples or groups that count: its row is NaN, and it is
        none of the F findings below.
    UserWarning
        As `confidence_interval`, with the names of the findings.

    Notes
    -----
    All findings leave out the same blocks of samples, so that the jackknife also estimates how
    their estimates are correlated. Of F findings, F_r are rare: fewer than 20 samples or groups
    speak, counted as `confidence_interval` counts ten. These have its interval for few samples at
    the level 1 − α/F. The others have Student's intervals at the quantile of the largest ``|t|`` at
    the level 1 − α(F − F_r)/F. It is simulated: 10,000 normal draws with the estimated correlation,
    whose variances have as many degrees of freedom as there are blocks, less one. Samples that
    many findings share make these intervals narrower than Bonferroni's.

    With random raters the covariance is ``V_row + V_rat − V_cell``, projected to the nearest
    positive semi-definite matrix. Each finding has its own degrees of freedom in ``low`` and
    ``high``; the simultaneous intervals of all common findings have the fewest of these, since
    raters who are alike by chance make an interval too short.
    ``benchmarks/intervals.py findings`` measures coverage; see the validation page.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_lhcal.label_histogram import MultiLabelCounts
    >>> from sklearn_lhcal.metrics import expected_squared_loss, per_finding
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(1, 3, size=(300, 2))
    >>> y = MultiLabelCounts(rng.binomial(3, p), 3, findings=["edema", "mass"])
    >>> per_finding(expected_squared_loss, y, p, random_state=0).to_frame().reset_index().round(2)
      finding  estimate   low  high  simultaneous_low  simultaneous_high    n
    0   edema      0.31  0.27  0.34              0.27               0.34  300
    1    mass      0.28  0.25  0.31              0.24               0.31  300
    """
    if not isinstance(y, MultiLabelCounts):
        raise TypeError(f"y must be MultiLabelCounts, got {type(y).__name__}.")
    check_row_names(y=y, prediction=prediction, sample_weight=sample_weight, groups=groups)
    given = _predictions(y, prediction)
    w = check_sample_weight(sample_weight, len(y))
    groups = read_groups(groups, len(y))
    bound = with_options(metric, options)
    least = 1 if bound is None else bound.tags.least_raters
    counts = y.asked >= least
    if w is not None:
        counts &= (w > 0)[:, None]
    used = np.flatnonzero(counts.any(axis=1))
    data = Given(_asked(y.take(used)), None, take_rows(w, used), take_rows(groups, used))
    together = Statistic(metric, data, least_raters=least)
    if bound is not None and bound.is_mean:
        together.most_blocks = MeanStatistic.most_blocks
    design = together.design(raters, n_blocks, check_random_state(random_state))
    if design.panel is not None and bound is not None and bound.is_mean:
        design = design._replace(cells=cells_of(data.labels, data.groups))
    heard: dict = {}
    findings, alone = {}, {}
    for f, name in enumerate(y.findings.tolist()):
        rows = np.flatnonzero(counts[used, f])
        with about_finding(name, heard):
            if len(np.unique(design.rows.code[rows])) < 2:
                warn_undefined(_TOO_FEW)
                continue
            labels, z, weight, unit = (
                take_rows(a, used[rows]) for a in (y.of(name), given[f], w, groups)
            )
            statistic = statistic_of(metric, labels, z, weight, unit, options, raters)
            findings[f] = _finding(statistic, rows, data, design)
            scarce = findings[f].scarce(confidence_level, FEW)
            alone[f] = findings[f].interval(confidence_level, scarce)
    warn_of_findings(heard)
    ends = np.full((5, len(y.findings)), np.nan)
    ends[:3, list(alone)] = np.array([interval[:3] for interval in alone.values()]).T
    ends[3:, list(alone)] = _simultaneous(findings, alone, design, confidence_level)
    return FindingTable._make([y.findings, *ends, counts.sum(axis=0), confidence_level])


def _predictions(y: MultiLabelCounts, prediction) -> list:
    """The prediction of each finding."""
    if prediction is None:
        return [None] * len(y.findings)
    if not isinstance(prediction, Mapping):
        check_same_length(len(y), prediction=prediction)
        return list(finding_table(y.side, prediction, "prediction").T)
    names = y.findings.tolist()
    alone = set(prediction) ^ set(names)
    if alone:
        raise ValueError(
            f"The findings of y and prediction differ by {sorted(alone, key=str)[:20]}."
        )
    check_same_length(len(y), **{f"prediction of {name!r}": prediction[name] for name in names})
    return [prediction[name] for name in names]


def _asked(y: MultiLabelCounts):
    """Who was asked about each sample, whatever the finding; counts where nobody knows."""
    labels: list[Any] = [y.of(name) for name in y.findings.tolist()]
    if not isinstance(labels[0], Annotations):
        return labels[0]
    raters = labels[0].raters
    cells = np.concatenate([part.row * len(raters) + part.rater for part in labels])
    row, rater = np.divmod(np.unique(cells), len(raters))
    indptr = np.searchsorted(row, np.arange(len(y) + 1))
    return Annotations(indptr, rater, np.zeros_like(rater), raters=raters, classes=[0])


def _finding(statistic: Statistic, rows: Indices, data: Given, design: Design) -> _Finding:
    """One finding, without the blocks that all findings leave out; its samples are `rows`."""
    unit = row_units(data.groups, len(data))
    own = Design(blocks_of(design.rows.code[rows], unit[rows], statistic.data.w))
    if design.panel is not None and design.cells is not None:
        y, asked = statistic.labels, data.labels
        R = len(asked.raters)
        cell = np.searchsorted(asked.row * R + asked.rater, rows[y.row] * R + y.rater)
        block_of = np.zeros(R, dtype=np.intp)
        block_of[asked.rater] = design.panel.blocks.code
        dealt = design.panel.blocks._replace(code=block_of)
        own = own._replace(
            panel=panel_of(y, statistic.data.w, statistic.least_raters, 0, None, dealt),
            cells=design.cells._replace(code=design.cells.code[cell]),
        )
    return _Finding(rows, statistic, own, statistic.replicates(own))


# --------------------------------------------------------------------------------------- together


def _simultaneous(
    findings: dict[int, _Finding],
    alone: dict[int, ConfidenceInterval],
    design: Design,
    level: float,
) -> Floats:
    """Ends of the intervals that hold together, (2, F)."""
    F = len(findings)
    alpha = 1 - level
    # what is scarce was said
    with warnings.catch_warnings(action="ignore"):
        scarce = {f: finding.scarce(1 - alpha / F, _RARE) for f, finding in findings.items()}
    common = [f for f in findings if scarce[f] is None]
    levels = dict.fromkeys(findings, 1 - alpha / F)
    if common:
        errors = np.array([alone[f].standard_error for f in common])
        root = _correlation_root([findings[f] for f in common], errors, design.rows)
        tail = _tail_of_largest(root, design.rows.n - 1, alpha * len(common) / F)
        df = {f: cast(float, alone[f].df) for f in common}
        if design.panel is not None:
            # the largest |t| is mostly of a finding on which raters are alike by chance
            t = student.isf(tail / 2, min(df.values()))
            levels |= {f: 1 - 2 * float(student.sf(t, df[f])) for f in common}
        else:
            levels |= dict.fromkeys(common, 1 - tail)
    both = [(alone[f], findings[f].interval(levels[f], scarce[f])) for f in findings]
    low = [min(one.low, wide.low) for one, wide in both]
    high = [max(one.high, wide.high) for one, wide in both]
    return np.array([low, high])


def _correlation_root(findings: list[_Finding], errors: Floats, blocks: Blocks) -> Floats:
    """A, with A Aᵀ the correlation of the findings' estimates, (F, F)."""
    scale = np.where(errors > 0, errors, 1.0)
    D_row = np.zeros((blocks.n, len(findings)))
    for f, (rows, _, design, found) in enumerate(findings):
        sizes = np.bincount(design.rows.code)
        present = np.unique(blocks.code[rows])
        D_row[present, f] = row_deviations(found, sizes) / np.sqrt(len(sizes)) / scale[f]
    V = D_row.T @ D_row
    if findings[0].design.panel is not None:
        # V_row + V_rat − V_cell
        D_rat, D_cell = (
            np.stack([_moved(finding, part) for finding in findings], axis=1) / scale
            for part in ("without_raters", "without_cells")
        )
        V += D_rat.T @ D_rat - D_cell.T @ D_cell
    values, vectors = np.linalg.eigh(V)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    length = np.sqrt((root**2).sum(axis=1, keepdims=True))
    return root / np.where(length > 0, length, 1.0)


def _moved(finding: _Finding, part: str) -> Floats:
    """By how much the estimate moves without each block, whose sum of squares is a variance."""
    panel: Any = finding.design.panel
    # undefined without some raters, it says nothing of them
    return np.sqrt(panel.f) * np.nan_to_num(getattr(finding.found, part) - finding.found.estimate)


def _tail_of_largest(root: Floats, df: int, alpha: float) -> float:
    """The two-sided tail of Student's t beyond the 1 − α quantile of the largest absolute one.

    Variances are those of as many normal vectors as there are degrees of freedom.
    """
    df = min(df, _MOST_DF)
    rng = np.random.default_rng(0)
    shape = (_DRAWS, len(root))
    squares = np.zeros(shape)
    for _ in range(df):
        squares += (rng.standard_normal(shape) @ root.T) ** 2
    t = rng.standard_normal(shape) @ root.T / np.sqrt(np.maximum(squares / df, EPS))
    return float(2 * student.sf(np.quantile(abs(t).max(axis=1), 1 - alpha), df))
