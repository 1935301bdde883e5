"""Variances over samples and raters, from a statistic's values without blocks of its data.

Letters: T the statistic of all data, G blocks of samples, r raters, c_r their shares of the data,
V_row, V_rat and V_cell the three jackknives; of means σ² the variance of the raters' biases, and
T_(r) the statistic without rater r.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, polygamma
from scipy.stats import t as student

from ..._rows import Annotations
from ..._utils.arrays import row_units
from ..._utils.checks import warn
from ..._utils.results import VarianceComponents
from ..._utils.types import Floats, Indices, NDArray

# with fewer degrees of freedom Student's quantile is of no use
_LEAST_DF = 2.0
# groups that are worth fewer of equal size, and less than half of their number, are few
_FEW_GROUPS = 10
# fewer raters may look alike by chance, and intervals for new ones may cover too rarely
FEW_RATERS = 5
# from fewer raters no interval for new ones follows
LEAST_RATERS = 3
# from fewer raters no distribution of σ² follows
LEAST_OF_MEANS = 4
# what all raters' noise counts beside a rater's own, in labels
_LABELS = 5
# points of σ², and the farthest, in units of the largest sq_r + noise_r
_POINTS, _FARTHEST = 200, 100.0
# of Newton, to all digits wherever it starts
_STEPS = 8
# what messages advise
FIXED_RATERS = 'raters="fixed" gives the interval for these raters and new samples.'
# share of the samples that may hang on one rater
_MOST_LOST = 0.9
# more raters than this are left out in blocks
MOST_SINGLE = 50


class Blocks(NamedTuple):
    """Which block each unit belongs to.

    Attributes
    ----------
    code : ndarray of shape (n_units,)
        Number of the block of each sample, rater or label.
    n : int
        Number of blocks.
    apart : bool
        Whether no two labels of one sample share a block, so that the changes of samples add up.
    df : float
        Satterthwaite's degrees of freedom of a sum of squares over blocks of samples.
    """

    code: Indices
    n: int
    apart: bool = False
    df: float = np.nan


class Replicates(NamedTuple):
    """A statistic, and its values without each block of samples, of raters and of cells.

    Statistics may be arrays: blocks come first. `without_both` is without a block of samples and
    one of raters, in this order; only means have it.
    """

    estimate: Any
    without_rows: Floats
    without_raters: Floats | None = None
    without_cells: Floats | None = None
    without_both: Floats | None = None

    def minus(self, other: "Replicates") -> "Replicates":
        """Those of the difference of two statistics of the same data."""
        pairs = zip(self, other, strict=True)
        return Replicates._make(None if a is None or b is None else a - b for a, b in pairs)


class Spread(NamedTuple):
    """Variance of a statistic, its degrees of freedom, and what it is made of."""

    variance: Any
    df: Any
    components: VarianceComponents


class Panel(NamedTuple):
    """Raters who are left out, and what a sum of squares over them is worth.

    Attributes
    ----------
    blocks : Blocks
        The rater of each label, or the block of raters.
    f : float
        The jackknife's factor of V_rat, (R − 1)/R where each rater rates each sample; and of
        V_cell, as without a cell the mean of its sample moves as that of all samples does without a
        rater.
    shape : ndarray of shape (n_blocks,)
        ``Σ_s (c_s − c_s(without r))²``, by how much shares move without each block r of raters.
    alike : ndarray of shape (n_blocks,)
        ``Σ_s (c_s − c_s(without r))²/m_s`` of raters s with m_s labels: the variance of T − T_(r)
        if labels were independent of variance 1.
    df : float
        Satterthwaite's degrees of freedom of a sum of squares over raters with unequal shares.
    n_raters : int
        Raters that contribute.
    worth : float
        How many raters with equal loads they are worth.
    """

    blocks: Blocks
    f: float
    shape: Floats
    alike: Floats
    df: float
    n_raters: int
    worth: float


class Design(NamedTuple):
    """What is left out at a time: blocks of rows, and of raters and cells where raters are random.

    A cell is what one rater said of one sample, or group of samples.
    """

    rows: Blocks
    panel: Panel | None = None
    cells: Blocks | None = None


# ----------------------------------------------------------------------------------------- blocks


def deal(sizes: NDArray, n_blocks: int, rng) -> Blocks:
    """Units of different sizes, in random order, dealt so that blocks have like sizes.

    Nothing is random where each unit is a block.
    """
    B = min(n_blocks, len(sizes))
    if len(sizes) == B:
        return Blocks(np.arange(B), B)
    shuffled = rng.permutation(len(sizes))
    block_of = np.empty(len(sizes), dtype=np.intp)
    if sizes.max() == 1:
        block_of[shuffled] = np.resize(np.arange(B), len(sizes))
        return Blocks(block_of, B)
    # the largest first, each to the emptiest block
    load = np.zeros(B)
    for unit in shuffled[np.argsort(-sizes[shuffled], kind="stable")]:
        block_of[unit] = np.argmin(load)
        load[block_of[unit]] += sizes[unit]
    return Blocks(block_of, B)


def deal_rows(n: int, groups: NDArray | None, n_blocks: int, rng, w=None) -> Blocks:
    """Blocks of n samples with weights w, the samples of a group together."""
    unit = row_units(groups, n)
    sizes = np.bincount(unit)
    if len(sizes) < 2 or n_blocks < 2:
        raise ValueError(
            f"An interval needs two samples or groups that count, and two blocks at least, got "
            f"{len(sizes)} samples or groups and {n_blocks} blocks."
        )
    dealt = deal(sizes, n_blocks, rng)
    W = np.bincount(unit, w)
    if groups is not None and worth(W) < min(_FEW_GROUPS, len(W) / 2):
        warn(
            f"The {len(W)} groups are worth only {worth(W):.1f} of equal size: the interval may "
            "cover too rarely."
        )
    return blocks_of(dealt.code[unit], unit, w)


def blocks_of(code: Indices, unit: Indices, w=None) -> Blocks:
    """Blocks of rows, from the number of the block of each row, and of its unit; w are weights."""
    present, code = np.unique(code, return_inverse=True)
    B = len(present)
    block = np.zeros(unit.max() + 1, dtype=np.intp)
    block[unit] = code
    # squares of sums over units, which are as unequal as their weights
    df = worth(np.bincount(block, np.bincount(unit, w) ** 2)) - 1
    return Blocks(code, B, df=max(df, min(B - 1.0, _LEAST_DF)))


def cells_of(y: Annotations, groups: NDArray | None) -> Blocks:
    """The cell of each label: itself, or what one rater said of one group."""
    N = len(y.rater)
    if groups is None:
        return Blocks(np.arange(N), N, apart=True)
    cells, cell = np.unique(groups[y.row] * len(y.raters) + y.rater, return_inverse=True)
    return Blocks(cell, len(cells), apart=True)


def deal_cells(y: Annotations, groups: NDArray | None, n_blocks: int, rng) -> Blocks:
    """Blocks of cells; those of a sample go to different ones as far as there are enough."""
    cells = cells_of(y, groups)
    B = min(n_blocks, cells.n)
    if groups is not None:
        return Blocks(rng.permutation(cells.n)[cells.code] % B, B)
    if cells.n == B:
        return cells
    # a sample has a block of its own, from which on its cells go to blocks in turn
    first = rng.permutation(len(y)) * B // len(y)
    place = np.arange(cells.n) - y.indptr[y.row]
    return Blocks((first[y.row] + place) % B, B)


def panel_of(
    y: Annotations, w, least_raters: int, n_blocks: int, rng, dealt: Blocks | None = None
) -> Panel:
    """Blocks of raters, and their shares; `w` are the weights of samples or None.

    `dealt` are blocks of all raters, where these are known.
    """
    w = np.ones(len(y)) if w is None else w
    row = y.row
    c = _shares(y, row, w, least_raters, slice(None))
    present = np.flatnonzero(c)
    check_several_raters(len(present), least_raters)
    if dealt is None:
        dealt = _deal_raters(y, present, n_blocks, rng)
    blocks = dealt._replace(code=dealt.code[y.rater])
    left = (np.flatnonzero(blocks.code != b) for b in range(dealt.n))
    without = (_shares(y, row, w, least_raters, kept) for kept in left)
    moved = np.array([(c - c_left) ** 2 for c_left in without])
    of_blocks = np.bincount(dealt.code, c, dealt.n)
    return Panel(
        blocks=blocks,
        f=float((c**2).sum() / moved.sum()),
        shape=moved.sum(axis=1),
        alike=(moved / np.maximum(np.bincount(y.rater, minlength=len(c)), 1)).sum(axis=1),
        # (Σc²)²/Σc⁴ squares of equal expectation are worth those of shares c
        df=worth(of_blocks**2) - 1,
        n_raters=len(present),
        worth=worth(c),
    )


def _deal_raters(y: Annotations, present: Indices, n_blocks: int, rng) -> Blocks:
    """Blocks of all raters; those who contribute nothing belong to any block."""
    most = max(n_blocks, MOST_SINGLE)
    dealt = Blocks(np.arange(len(present)), len(present), apart=True)
    if len(present) > most:
        dealt = deal(np.bincount(y.rater)[present], most, rng)
    code = np.zeros(len(y.raters), dtype=np.intp)
    code[present] = dealt.code
    return dealt._replace(code=code)


def check_rows_remain(y: Annotations, w: NDArray | None, least_raters: int) -> None:
    """Refuse raters without whom hardly a sample has enough labels; `w` are weights or None."""
    w = np.where(y.n >= least_raters, np.ones(len(y)) if w is None else w, 0.0)
    if np.count_nonzero(np.bincount(y.rater)) < LEAST_RATERS:
        # too few raters, which is another error
        return
    lost = np.where(y.n <= least_raters, w, 0.0)[y.row]
    gone = np.bincount(y.rater, lost, len(y.raters))
    lost = gone.max() / max(w.sum(), np.finfo(float).tiny)
    if lost > _MOST_LOST:
        name = y.raters[int(gone.argmax())]
        raise ValueError(
            f"Without rater {name} only {max(1 - lost, 0.0):.1%} of the samples have "
            f"{least_raters} labels: intervals for new raters need more; {FIXED_RATERS}"
        )


def _shares(y: Annotations, row: Indices, w: NDArray, least_raters: int, kept) -> Floats:
    """c_r, the share of each rater in a mean over samples of the labels kept, shape (n_raters,)."""
    row = row[kept]
    n = np.bincount(row, minlength=len(y))
    weight = np.where(n >= least_raters, w, 0.0)
    c = np.bincount(y.rater[kept], (weight / np.maximum(n, 1))[row], len(y.raters))
    return c / max(weight.sum(), np.finfo(float).tiny)


def worth(c: NDArray) -> float:
    """``(Σ_r c_r)²/Σ_r c_r²``: how many raters of equal loads are worth those with loads c.

    A mean over them is as certain (Kish 1965).
    """
    return float(c.sum() ** 2 / (c**2).sum())


def check_several_raters(n_raters: int, least_raters: int, noun: str = "rater") -> None:
    """ValueError for fewer than three raters, of samples that need so many labels to count."""
    if n_raters >= LEAST_RATERS:
        return
    of_rows = ""
    if least_raters > 1:
        of_rows = f" with samples of {least_raters} labels or more"
    problem = f"Intervals for new raters need three raters at least, got {n_raters}{of_rows}; "
    raise ValueError((problem + FIXED_RATERS).replace("rater", noun))


def warn_of_few(n_raters: int, worth: float, noun: str = "rater") -> None:
    """Warn of few raters, or of few who give most of the labels."""
    if n_raters < FEW_RATERS:
        reason = f"There are only {n_raters} raters"
    elif worth < LEAST_RATERS:
        reason = f"The {n_raters} raters are worth only {worth:.1f} with equal loads"
    else:
        return
    problem = f"{reason}: intervals for new raters may cover too rarely; {FIXED_RATERS}"
    warn(problem.replace("rater", noun))


# -------------------------------------------------------------------------------------- variances


def spread_of(found: Replicates, design: Design, *, second_order: bool = False) -> Spread:
    """The variance of a statistic and its degrees of freedom, raters fixed where there is no panel.

    `second_order` says that the statistic is not a mean of samples, but of products of them.
    """
    V_row = row_variance(found, np.bincount(design.rows.code))
    df_row = design.rows.df
    if design.panel is None:
        return Spread(V_row, df_row, VarianceComponents(V_row))
    return over_panels(V_row, df_row, [of_raters(found, design, second_order)])


def of_raters(found: Replicates, design: Design, second_order: bool = False) -> tuple:
    """`of_panel` of a statistic, with its `posterior`: what `over_panels` takes."""
    without = found.without_raters, found.without_cells
    part = of_panel(found.estimate, without, design.rows.df, design.panel, second_order)
    return *part[:3], posterior(found, design)


def of_panel(T, without, df_row, panel, second_order: bool = False) -> tuple[Any, Any, Any, None]:
    """V_rat and V_cell of the raters of a panel, and what they add to the noise of the variance.

    `without` are the values without each block of raters, and without each one of cells.
    """
    V_rat, V_cell = (panel.f * ((values - T) ** 2).sum(axis=0) for values in without)
    # few raters may look alike by chance: worth fewer than five, rounded
    uncertain = second_order or panel.worth < FEW_RATERS - 0.5
    # cells are as many as samples, or blocks of them
    noise = V_rat**2 / max(panel.df, 1e-9) + V_cell**2 / df_row
    return V_rat, V_cell, np.where((V_rat > V_cell) | uncertain, noise, 0.0), None


def posterior(found: Replicates, design) -> tuple[Floats, Floats] | None:
    """What raters add to the variance of a mean, C₂σ², at points, and how likely these are.

    Raters have biases of variance σ². Of them T has the variance C₂σ², C₂ = Σ_s c_s², and T − T_(r)
    has shape_r σ², beside R_r of samples and labels. However unequal the loads, each rater tells
    of the same σ²:

        sq_r = (T − T_(r))²/shape_r,   noise_r = R_r/shape_r,   E sq_r = σ² + noise_r.

    `of_biases` has p(σ²), of the B raters without whom T is defined. R_r is the jackknife over
    samples; it is uncertain if r has few cells, m_r, and becomes

        (m_r R_r + 5 alike_r ΣR/Σalike)/(m_r + 5).

    None for other statistics, fewer than four raters, and where R is 0.
    """
    T, T_j, T_r, _, T_jr = map(np.asarray, found)
    if found.without_both is None:
        return None
    blocks, f, shape, alike, *_ = design.panel
    known = (shape > 0) & np.isfinite(T_r) & np.isfinite(T_jr).all(axis=0)
    _, first = np.unique(design.cells.code, return_index=True)
    m = np.bincount(blocks.code[first], minlength=blocks.n)
    C2 = f * shape.sum()
    B = np.count_nonzero(known)
    T_r, T_jr, shape, alike, m = (a[..., known] for a in (T_r, T_jr, shape, alike, m))
    R = row_variance(Replicates(T - T_r, T_j[:, None] - T_jr), np.bincount(design.rows.code))
    if B < LEAST_OF_MEANS or not R.any():
        return None
    R = (m * R + _LABELS * alike * R.sum() / alike.sum()) / (m + _LABELS)
    sigma2, p = of_biases((T - T_r) ** 2 / shape, R / shape, B)
    return C2 * sigma2, p


def of_biases(sq, noise, B, n_points: int = _POINTS) -> tuple[Floats, Floats]:
    """Points of σ², first axis, and how likely these are, by what raters, first axis, are beside T.

    ``log p(σ²) = −(B − 1)/2 · mean_r [log(σ² + noise_r) + sq_r/(σ² + noise_r)]``; without labels
    flat in log(σ² + ν), ν a fifth of the harmonic mean of noise_r. B raters may be all alike.
    """
    nu = 1 / np.mean(1 / noise, axis=0) / 5
    u = np.multiply.outer(
        (np.arange(n_points) + 0.5) / n_points, np.log1p(_FARTHEST * (sq + noise).max(axis=0) / nu)
    )
    sigma2 = nu * np.expm1(u)
    E = sigma2[:, None] + noise
    log_p = -(B - 1) / 2 * (np.log(E) + sq / E).mean(axis=1)
    p = np.exp(log_p - log_p.max(axis=0))
    return sigma2, p / p.sum(axis=0)


def over_panels(V_row, df_row, panels: Sequence[tuple[Any, Any, Any, Any]]) -> Spread:
    """The variance over samples and the raters of independent panels, from `of_raters` of each.

    Where all have a posterior it is s² of `of_points`. Else V = V_row + Σ max(V_rat − V_cell,
    0): the jackknife over raters counts what single labels add, which is in V_row too.
    """
    V_rat, V_cell, noise, posteriors = zip((0.0, 0.0, 0.0, ()), *panels, strict=True)
    components = VarianceComponents(V_row, sum(V_rat), sum(V_cell))
    if any(posteriors) and all(posteriors[1:]):
        points, p = np.zeros(1), np.ones(1)
        for C2_sigma2, probability in posteriors[1:]:
            points = np.add.outer(points, C2_sigma2).ravel()
            p = np.multiply.outer(p, probability).ravel()
        return Spread(*of_points(V_row + points, p, df_row), components)
    V = V_row + sum(np.maximum(a - b, 0.0) for a, b in zip(V_rat, V_cell, strict=True))
    # Satterthwaite's degrees of freedom
    noise = V_row**2 / df_row + sum(noise)
    df = np.divide(V**2, noise, out=np.full(np.shape(V), df_row, dtype=float), where=noise > 0)
    # V_rat − V_cell may be a small difference of large numbers
    df = np.maximum(df, np.minimum(df_row, _LEAST_DF))
    return Spread(V, df, components)


def of_points(V: Floats, p: Floats, df_row) -> tuple[Any, Any]:
    """s² and degrees of freedom df of Student's t for the variance V = V_row + Σ C₂σ².

    V and p, first axis: points, and how likely they are. The logarithm of s² has, as that of V with
    df_row degrees of freedom, the mean and the variance (Smyth 2004)

        log s² + g(df) = E log V + g(df_row),   ψ′(df/2) = Var log V + ψ′(df_row/2),

    with g(x) = log(x/2) − ψ(x/2). Its quantiles are those of the mixture of Student's t over V to
    1% or 2%, in the far tails to 10%.
    """
    E = (p * np.log(V)).sum(axis=0)
    v = (p * (np.log(V) - E) ** 2).sum(axis=0) + polygamma(1, df_row / 2)
    # Newton's steps for 1/ψ′, which is convex, from above: ψ′(x) < 1/(x − ½)
    half = 0.5 + 1 / v
    for _ in range(_STEPS):
        slope = polygamma(1, half)
        half = half + slope * (1 - slope / v) / polygamma(2, half)
    df = 2 * half
    g_row, g = (np.log(x / 2) - digamma(x / 2) for x in (df_row, df))
    return np.exp(E + g_row - g), df


def over_raters(T, ends, spread: Spread, confidence_level: float) -> Floats:
    """Ends over samples (..., 2), moved away from T by what raters add to the variance.

    ``T ± sqrt((end − T)² + t² (V − V_row))``.
    """
    V, df, (V_row, *_) = spread
    added = student.ppf((1 + confidence_level) / 2, df) ** 2 * np.maximum(V - V_row, 0.0)
    away = np.subtract(ends, np.expand_dims(T, -1))
    reach = np.hypot(away, np.sqrt(np.expand_dims(added, -1)))
    return np.where(reach > abs(away), np.expand_dims(T, -1) + [-1, 1] * reach, ends)


def row_variance(found: Replicates, sizes: NDArray):
    """The delete-a-block jackknife for blocks of so many samples each."""
    return (row_deviations(found, sizes) ** 2).mean(axis=0)


def row_deviations(found: Replicates, sizes: NDArray):
    """Deviations of pseudo-values, blocks first, whose mean square is the variance."""
    B = len(sizes)
    # n/m_b, as many axes as the values have
    h = (sizes.sum() / sizes).reshape(-1, *[1] * np.ndim(found.estimate))
    pseudo = h * found.estimate - (h - 1) * found.without_rows
    centre = B * found.estimate - ((1 - 1 / h) * found.without_rows).sum(axis=0)
    return (pseudo - centre) / np.sqrt(h - 1)


def random_raters(y, raters: str | None) -> Annotations | None:
    """The annotations, where their raters are taken as a sample; None where they are fixed.

    None for `raters` is "random" with `Annotations`, "fixed" with all else.
    """
    if raters == "random" and not isinstance(y, Annotations):
        raise ValueError(
            'raters="random" needs to know who gave each label: make y of them by '
            "label_histogram.Annotations.from_long or from_matrix."
        )
    return y if raters != "fixed" and isinstance(y, Annotations) else None


def kind_of_raters(y, raters: str | None) -> str:
    """Whether intervals are for new raters, "random", or for these, "fixed"."""
    return "fixed" if random_raters(y, raters) is None else "random"
