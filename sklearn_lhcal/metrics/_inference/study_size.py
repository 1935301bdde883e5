"""How many samples, readers and labels a study needs, from the variance components of a pilot.

What is particular to pairs of raters, and to pairs of labels of a sample: T_rs, the metric of
raters r and s alone, is T + β_r + β_s + γ_rs. The variance of γ over pairs is that of pairs of
raters, σ_G², and that of the n_rs samples that both have read, σ_D²/n_rs, which a jackknife over
samples tells.
"""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit
from scipy.stats import chi2, qmc
from sklearn.utils import check_random_state

from ..._rows import Annotations, PredictionLike
from ..._utils.checks import checked, is_count
from ..._utils.results import DataFrame, frame_of, result
from ..._utils.types import ArrayLike, Floats, Groups, Integers, MetricFunction, Seed, Weights
from .rater_comparison import named_raters
from .replicates import MeanStatistic, Statistic, statistic_of
from .scarce import scarce_ends
from .two_way import (
    FEW_RATERS,
    LEAST_OF_MEANS,
    Blocks,
    Panel,
    of_biases,
    of_points,
    over_panels,
    spread_of,
)

# raters whose pairs are looked at, and samples that a pair needs
_MOST = 12
_LEAST_ROWS = 10


class PairComponents(NamedTuple):
    """What is particular to pairs: mean squares of γ over pairs, and of what samples make of it.

    Attributes
    ----------
    gamma, noise : float
        Mean squares; 0 where there are too few pairs to tell.
    df : float
        Degrees of freedom of the first.
    n_rows : float
        Mean number of samples of a pair.
    """

    gamma: float = 0.0
    noise: float = 0.0
    df: float = 1.0
    n_rows: float = 0.0


def pair_components(statistic: Statistic, block: Blocks) -> PairComponents:
    """Of a statistic of pairs of readings."""
    y = statistic.labels
    times = np.bincount(y.rater, minlength=len(y.raters))
    most = np.argsort(-times, kind="stable")[:_MOST]
    pairs = combinations(most[times[most] > 0], 2)
    found = {(r, s): _of_pair(statistic, block, y.rater == r, y.rater == s) for r, s in pairs}
    found = {pair: one for pair, one in found.items() if one is not None}
    if not found:
        return PairComponents()
    values, rows = zip(*found.values(), strict=True)
    # each pair has an effect of either rater; all effects together hold the mean
    X = (np.array(list(found))[:, :, None] == most).any(axis=1).astype(float)
    left = np.eye(len(X)) - X @ np.linalg.pinv(X)
    df = np.trace(left)
    if df < 0.5:
        return PairComponents()
    T, *without = np.stack(values, axis=1)
    G = block.n
    gamma = left @ T
    noise = (G - 1) / G * sum(((left @ t - gamma) ** 2).sum() for t in without) / df
    return PairComponents(*map(float, ((gamma**2).sum() / df, noise, df, np.mean(rows))))


def _of_pair(statistic: Statistic, block: Blocks, one, other) -> tuple[Floats, int] | None:
    """The statistic of two raters, and without each block of rows, and their number of samples."""
    row = statistic.labels.row
    rows = np.intersect1d(row[one], row[other])
    if len(rows) < _LEAST_ROWS:
        return None
    part = statistic.data.keep(one | other).take(rows)
    of_pair = Statistic(statistic.value, part)
    T = of_pair.estimate()
    inside, code = np.unique(block.code[rows], return_inverse=True)
    values = np.full(block.n + 1, T)
    values[1 + inside] = of_pair.without_rows(Blocks(code, len(inside)))
    return (values, len(rows)) if np.isfinite(values).all() else None


# samples above which a study is called impossible
_MOST_ROWS = 10**8
# the range that a pilot leaves open is between the 10% and the 90% point of so many draws
_TAIL = 0.1
# excess kurtosis of what a reader adds to a metric: that of a normal effect and its square, which
# has q = 4% of the variance, is 24q − 12q²
_KURTOSIS = 1.0
_DRAWS = 256
# of σ², of each draw
_POINTS = 50
_LOW = round(_TAIL * _DRAWS)
_HIGH = _DRAWS - 1 - _LOW


@result
class StudySize(NamedTuple):
    """What `study_size` returns: ``V(n, R, m) = rows/n + raters/R + ratings/(n·m)`` and pairs.

    Metrics that compare two labels of a sample also have ``2·rater_pairs/(R(R − 1)) +
    2·reading_pairs/(n·m(m − 1))``.

    Attributes
    ----------
    n_raters, per_row : ndarray of shape (n_designs,)
        R and m of each design.
    n_rows : ndarray of shape (n_designs,)
        Samples that bring the half-width down to the one wanted; inf where no number does.
    n_rows_range : ndarray of shape (n_designs, 2)
        What the pilot leaves open of them: 10% and 90% points.
    rows, raters, ratings : float
        The components of the variance, each for one unit.
    rater_pairs, reading_pairs : float
        Those of pairs of raters, and of pairs of labels of a sample; 0 for other metrics.
    confidence_level : float
    n_blocks : int
        Of the jackknife that is to be used.
    is_mean : bool
        Whether the metric is a mean over samples.
    """

    n_raters: Integers
    per_row: Integers
    n_rows: Floats
    n_rows_range: Floats
    rows: float
    raters: float
    ratings: float
    rater_pairs: float
    reading_pairs: float
    confidence_level: float
    n_blocks: int
    is_mean: bool = False

    def to_frame(self) -> "DataFrame":
        """A pandas DataFrame, one row for each design."""
        ends = {
            "per_row": self.per_row,
            "n_rows": self.n_rows,
            "n_rows_interval": self.n_rows_range,
        }
        return frame_of({"n_raters": self.n_raters}, **ends)

    def half_width(self, n_rows: ArrayLike, n_raters: ArrayLike, per_row: ArrayLike) -> Floats:
        """Half of the expected width of the interval: n samples, R readers, m labels a sample.

        From what the jackknives of such a study are on average, as `confidence_interval` reads
        them.
        """
        n, R, m = (np.asarray(a, dtype=float) for a in (n_rows, n_raters, per_row))
        of_readings = self.ratings / m + _share(self.reading_pairs, m)
        rows = (self.rows + of_readings) / n
        cells = (self.ratings / m + _counted(self.reading_pairs, m)) / n
        excess = np.maximum(self.raters / R + _counted(self.rater_pairs, R), 0.0)
        df_row = np.minimum(n, self.n_blocks) - 1
        # degrees of freedom of few raters always count
        few = R < FEW_RATERS
        counted = few | (excess > 0)
        noise = (excess + cells) ** 2 / (R - 1) + cells**2 / df_row
        part = excess + cells, cells, np.where(counted, noise, 0.0), None
        V, df, _ = over_panels(rows, df_row, [part])
        if self.is_mean:
            # what labels add to a reader's mean, and the squares of readers' distances
            noise = R * np.maximum(cells, np.finfo(float).tiny)
            sq = np.maximum(self.raters + noise, 0.0)
            sigma2, p = of_biases(sq[None], noise[None], R, _POINTS)
            of_few = of_points(rows + sigma2 / R, p, df_row)
            V, df = np.where(R < LEAST_OF_MEANS, (V, df), of_few)
        return stdtrit(df, (1 + self.confidence_level) / 2) * np.sqrt(V)


@checked
def study_size(
    metric: MetricFunction,
    y: Annotations,
    prediction: PredictionLike | None = None,
    *,
    half_width: float,
    n_raters: Sequence[int] = (3, 4, 5, 6, 8, 10, 15, 20),
    per_row: int | None = None,
    groups: Groups = None,
    confidence_level: float = 0.95,
    n_blocks: int | None = None,
    random_state: Seed = None,
    sample_weight: Weights = None,
    **options: Any,
) -> StudySize:
    """Numbers of samples, readers and labels per sample that a study needs, from a pilot.

    The jackknives of `confidence_interval` give the variance components of the pilot. The variance
    of another design follows from ``V(n, R, m) = A/n + B/R + C/(nm)`` with n samples, R readers and
    m labels per sample, and the width of its interval as `confidence_interval` makes it.

    Parameters
    ----------
    metric : callable
        As in `confidence_interval`; a mean over samples, such as accuracy or the expected squared
        loss, disagreement or a kappa. The forecast is unreliable for EL and CL.
    y : Annotations of shape (n_samples, n_classes)
        The pilot.
    prediction : array-like of shape (n_samples, ...), Distribution or None
        Of the pilot; None for metrics of the readers alone.
    half_width : float
        What is wanted: half the width of the interval, in the unit of the metric.
    n_raters : sequence of int
        Numbers of readers to consider.
    per_row : int, optional
        How many of them read each sample. None: all.
    groups, confidence_level, n_blocks, random_state, sample_weight, **options
        As in `confidence_interval`.

    Returns
    -------
    StudySize

    Raises
    ------
    ValueError
        As `confidence_interval`; a half-width that is not positive, a design with fewer than three
        readers, of whom no interval for new ones follows, or with fewer labels per sample than
        the metric needs.

    Warns
    -----
    UserWarning
        Fewer than five raters in the pilot; a pilot in which few samples count, as with a class of
        2%: then the range holds too rarely.

    Notes
    -----
    A pilot with few readers knows little of how much readers differ. `n_rows_range` says how much
    this leaves open. It is a generalised confidence interval (Weerahandi 1993): each jackknife's
    variance is divided by values drawn from χ²/df, and the samples needed are computed for each.
    Samples and labels have the number of blocks less one as degrees of freedom. Raters have fewer
    than their effective number R less one, ``2/(2/(R − 1) + 1/R)``: what a reader adds to a metric
    is given an excess kurtosis of 1 (Box 1953). A normal effect and its square have it where the
    square makes 4% of the variance. A pilot cannot tell: that of five values is never above 1/4.
    The differences of these variances may be negative in a draw; their sum is not. The level of the
    range is nominally 80%; the guide says what it holds in simulated pilots. From five readers it
    is mostly open above.

    Disagreement and kappas compare pairs of labels. What is particular to a pair of readers falls
    as 1/R², and a jackknife counts it more than twice where readers are few. It comes from the
    metric of each pair of readers, fitted by an effect of either reader: what is left over is
    particular to the pair, less what the samples explain. That needs four readers; with three
    everything is taken to fall as 1/R, and the forecast for more readers is too wide. Of more than
    12 readers those with the most labels are used.

    References
    ----------
    Box, G. E. P. (1953). Non-normality and tests on variances. Biometrika 40, 318–335.

    Weerahandi, S. (1993). Generalized confidence intervals. Journal of the American Statistical
    Association 88, 899–905.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_lhcal.label_histogram import Annotations
    >>> from sklearn_lhcal.metrics import irreducible_loss
    >>> rng = np.random.default_rng(0)
    >>> said = (rng.random((100, 6)) < rng.random((100, 1))).astype(int)
    >>> size = study_size(
    ...     irreducible_loss,
    ...     Annotations.from_matrix(said),
    ...     half_width=0.05,
    ...     n_raters=[5, 10],
    ...     random_state=0,
    ... )
    >>> bool(size.n_rows[0] > size.n_rows[1])  # more readers need fewer rows
    True
    """
    R, m = designs(n_raters, per_row)
    labels = named_raters(y)
    statistic = statistic_of(metric, labels, prediction, sample_weight, groups, options)
    design = statistic.design("random", n_blocks, check_random_state(random_state))
    statistic.check_rows_remain()
    panel = cast(Panel, design.panel)
    components = spread_of(statistic.replicates(design), design).components
    # where few samples differ from the others, a warning says so
    scarce_ends(statistic, True, confidence_level)
    pairs = PairComponents()
    if statistic.compares_raters:
        if m.min() < 2:
            raise ValueError("per_row must be at least 2: the metric compares labels of a sample.")
        pairs = pair_components(statistic, design.rows)
    known = Pilot(*components, pairs.gamma, pairs.noise)
    # samples that contribute, and their mean number of readings
    readings = float(statistic.labels.n.mean())
    sizes = (len(statistic.data), readings, panel.n_raters, pairs.n_rows)
    # no component of the pilot itself is negative
    found = known._replace(gamma=max(pairs.gamma, pairs.noise)).components(*sizes)
    at_least_0 = {name: max(float(value), 0.0) for name, value in found.items()}
    pilot = StudySize(
        n_raters=R,
        per_row=m,
        n_rows=np.empty(len(R)),
        n_rows_range=np.empty((len(R), 2)),
        **at_least_0,
        confidence_level=confidence_level,
        n_blocks=n_blocks or statistic.most_blocks,
        is_mean=isinstance(statistic, MeanStatistic),
    )
    needed = _rows_needed(pilot, half_width)
    dfs = (design.rows.n - 1.0, df_of_raters(panel.df + 1), pairs.df)
    drawn = known.drawn(*dfs).components(*sizes)
    of_draws = pilot._replace(**{name: value[:, None] for name, value in drawn.items()})
    ends = with_found(_rows_needed(of_draws, half_width), needed)
    return pilot._replace(n_rows=needed, n_rows_range=ends)


def designs(n_raters, per_row: int | None, name: str = "n_raters") -> tuple[Integers, Integers]:
    """Readers and readings a sample of each design."""
    if not all(is_count(R) for R in n_raters):
        raise ValueError(f"{name} must hold ints of at least 1, got {n_raters!r}.")
    R = np.array(n_raters, dtype=np.int64)
    if R.ndim != 1 or not len(R) or R.min() < 3:
        raise ValueError(f"{name} must list numbers of at least 3, got {n_raters!r}.")
    if per_row is None:
        return R, R
    return R, np.minimum(R, per_row)


class Pilot(NamedTuple):
    """Variances of the pilot: the three jackknives, and mean squares of pairs of raters."""

    rows: Any
    raters: Any
    cells: Any
    gamma: Any
    noise: Any

    def drawn(self, df_row: float, df_rat: float, df_pair: float) -> "Pilot":
        """Each over draws of χ²/df, shape (n_draws,)."""
        # with fewer a draw may divide by 0
        dfs = np.maximum([df_row, df_rat, df_row, df_pair, df_row], 0.5)
        chance = qmc.Sobol(len(dfs), seed=0).random(_DRAWS)
        return Pilot(*(np.array(self) * dfs / chi2.ppf(chance, dfs)).T)

    def components(self, n: float, m: float, R: float, n_rows: float) -> dict:
        """Those of `StudySize`, of n samples with m readings of R raters; some may be negative.

        What pairs add has been taken off the jackknives.
        """
        of_raters = self.gamma - self.noise
        readings = self.noise * n_rows
        ratings = np.maximum(n * m * self.cells - m * _counted(readings, m), 0.0)
        of_readings = ratings / m + _share(readings, m)
        return {
            "rows": np.maximum(n * self.rows - of_readings, 0.0),
            "raters": R * (self.raters - self.cells) - R * _counted(of_raters, R),
            "ratings": ratings,
            "rater_pairs": of_raters,
            "reading_pairs": readings,
        }


def df_of_raters(R: float) -> float:
    """Degrees of freedom of a variance of R raters: ``Var s²/σ⁴ = 2/(R − 1) + κ/R``, Box (1953)."""
    return 2 / (2 / max(R - 1, 1e-9) + _KURTOSIS / R)


def _share(component, m):
    """What pairs among m add to the variance of their mean."""
    return 2 * component / (m * np.maximum(m - 1, 1))


def _counted(component, m):
    """What a jackknife over m takes that for, on average: 2(m − 1)/(m − 2) times as much."""
    return 4 * component / (m * np.maximum(m - 2, 1))


def _rows_needed(size: StudySize, half_width: float) -> Floats:
    """The least number of samples of each design; inf where the most are too few."""
    shape = np.broadcast_shapes(size.n_raters.shape, np.shape(size.rows))
    design = (size.n_raters, size.per_row)
    return least_enough(lambda n: size.half_width(n, *design) <= half_width, shape)


def least_enough(enough: Callable[[Floats], NDArray], shape: tuple[int, ...]) -> Floats:
    """The least numbers of samples that are enough, by bisection; inf where the most are not."""
    low = np.full(shape, 2.0)
    high = np.full(shape, float(_MOST_ROWS))
    possible = enough(high)
    while (high - low > 1).any():
        middle = np.floor((low + high) / 2)
        reached = enough(middle)
        high = np.where(reached, middle, high)
        low = np.where(reached, low, middle)
    return np.where(possible, high, np.inf)


def with_found(drawn: Floats, found: Floats) -> Floats:
    """The range of draws, first axis, that holds what was found; ends last."""
    low, high = np.sort(drawn, axis=0)[[_LOW, _HIGH]]
    return np.stack([np.minimum(low, found), np.maximum(high, found)], axis=-1)
