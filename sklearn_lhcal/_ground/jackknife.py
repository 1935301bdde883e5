"""Variances over rows and raters, from a statistic's values without blocks of its data.

Letters: T the statistic of all data, G blocks of rows, r raters, c_r their shares of the data,
V_row, V_rat and V_cell the three jackknives.
"""

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .arrays import Floats, Indices, row_units
from .rater_shares import Ratings, moved_blocks, moved_raters, shares

# with fewer degrees of freedom Student's quantile is of no use; V is V_row at least
_LEAST_DF = 2.0
# fewer raters may look alike by chance, and intervals for new ones may cover too rarely
FEW_RATERS = 5
# from fewer raters no interval for new ones follows
LEAST_RATERS = 3
# more raters than this are left out in blocks
MOST_SINGLE = 50


class Blocks(NamedTuple):
    """Which block each unit belongs to.

    Attributes
    ----------
    code : ndarray of shape (n_units,)
        Number of the block of each row, rater or rating.
    n : int
        Number of blocks.
    apart : bool
        Whether no two ratings of one row share a block.
    """

    code: Indices
    n: int
    apart: bool = False


class LeftOut(NamedTuple):
    """A statistic's values without each block of raters, and without each cell or block of cells.

    A cell is what one rater said of one row, or group of rows. Each value of `cells` stands for so
    many as `times` says.
    """

    raters: Floats
    cells: Floats
    times: NDArray | float = 1.0


class Replicates(NamedTuple):
    """A statistic, its values without each block of rows, and without ratings."""

    estimate: float
    rows: Floats
    ratings: LeftOut | None = None

    def minus(self, other: "Replicates") -> "Replicates":
        """Those of the difference of two statistics of the same data."""
        ratings = None
        if self.ratings is not None and other.ratings is not None:
            raters = self.ratings.raters - other.ratings.raters
            cells = self.ratings.cells - other.ratings.cells
            ratings = LeftOut(raters, cells, self.ratings.times)
        return Replicates(self.estimate - other.estimate, self.rows - other.rows, ratings)


class VarianceComponents(NamedTuple):
    """What the variance of an estimate is made of: ``rows + max(raters − cells, 0)``.

    Attributes
    ----------
    rows : float
        By the jackknife over rows, or groups of them.
    raters : float
        By the jackknife over raters, times the factor for their finite number; 0 where raters are
        fixed or unknown.
    cells : float
        By the jackknife over single ratings, times the same factor: what both others count.
    """

    rows: float
    raters: float = 0.0
    cells: float = 0.0


class Spread(NamedTuple):
    """Variance of a statistic, its degrees of freedom, and what it is made of."""

    variance: float
    df: float
    components: VarianceComponents


class Panel(NamedTuple):
    """Blocks of raters and of cells, and what a sum of squares over raters is worth.

    Attributes
    ----------
    raters : Blocks
        Of each rater.
    f : float
        Factor of V_rat and V_cell; (R − 1)/R where each rater rates each row.
    effective : float
        Effective number of blocks of raters.
    n_raters : int
        Raters that contribute.
    worth : float
        How many raters with equal loads they are worth.
    cells : Blocks or None
        Of each rating; None: each rating by itself.
    """

    raters: Blocks
    f: float
    effective: float
    n_raters: int
    worth: float
    cells: Blocks | None = None


# ----------------------------------------------------------------------------------------- blocks


def deal(sizes: NDArray, n_blocks: int, rng) -> Blocks:
    """Units of different sizes, in random order, dealt so that blocks have like sizes."""
    shuffled = rng.permutation(len(sizes))
    B = min(n_blocks, len(sizes))
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


def deal_rows(n: int, groups: NDArray | None, n_blocks: int, rng) -> Blocks:
    """Blocks of n rows, the rows of a group together."""
    unit = row_units(groups, n)
    sizes = np.bincount(unit)
    if len(sizes) < 2 or n_blocks < 2:
        raise ValueError(
            f"An interval needs two rows or groups that count, and two blocks at least, got "
            f"{len(sizes)} rows or groups and {n_blocks} blocks."
        )
    dealt = deal(sizes, n_blocks, rng)
    return Blocks(dealt.code[unit], dealt.n)


def cells_of(y: Ratings, groups: NDArray) -> Blocks:
    """The cell of each rating: what one rater said of one group."""
    cells, cell = np.unique(groups[y.row] * len(y.raters) + y.rater, return_inverse=True)
    return Blocks(cell, len(cells))


def deal_cells(y: Ratings, groups: NDArray | None, n_blocks: int, rng) -> Blocks:
    """Blocks of cells; those of a row go to different ones as far as there are enough."""
    N = len(y.rater)
    B = min(n_blocks, N)
    if groups is None and B == N:
        return Blocks(np.arange(N), N, apart=True)
    if groups is None:
        # the cells of a row go to blocks in turn, from one of its own on
        turn = rng.permutation(len(y)) * B // len(y) - y.indptr[:-1]
        return Blocks((np.arange(N) + turn[y.row]) % B, B, apart=bool(y.n.max() <= B))
    cells = cells_of(y, groups)
    B = min(B, cells.n)
    return Blocks(rng.permutation(cells.n)[cells.code] % B, B)


def panel_of(y: Ratings, w, least_raters: int, n_blocks: int, rng) -> Panel:
    """Blocks of raters, and their shares; `w` are the weights of rows or None."""
    n = y.n
    weight = np.where(n >= least_raters, 1.0 if w is None else w, 0.0)
    share = shares(y, n, weight)
    present = np.flatnonzero(share)
    check_several_raters(len(present), least_raters)
    most = max(n_blocks, MOST_SINGLE)
    dealt = Blocks(np.arange(len(present)), len(present), apart=True)
    if len(present) > most:
        dealt = deal(np.bincount(y.rater)[present], most, rng)
    # raters who contribute nothing belong to any block
    block_of = np.zeros(len(y.raters), dtype=np.intp)
    block_of[present] = dealt.code
    c_b = np.bincount(block_of, share, dealt.n)
    moved = moved_raters if dealt.apart else moved_blocks
    return Panel(
        raters=Blocks(block_of, dealt.n, dealt.apart),
        f=(share**2).sum() / moved(y, weight, least_raters, share, block_of, dealt.n),
        effective=effective_number(c_b),
        n_raters=len(present),
        worth=worth(share),
    )


def worth(c: NDArray) -> float:
    """``(Σ_r c_r)²/Σ_r c_r²``: how many raters of equal loads are worth those with loads c.

    A mean over them is as certain (Kish 1965).
    """
    return float(c.sum() ** 2 / (c**2).sum())


def effective_number(c: NDArray) -> float:
    """How many raters of equal shares are worth those with shares c, of a sum of squares."""
    return worth(c**2)


def check_several_raters(n_raters: int, least_raters: int) -> None:
    """ValueError for fewer than three raters, of rows that need so many ratings to count."""
    if n_raters >= LEAST_RATERS:
        return
    of_rows = ""
    if least_raters > 1:
        of_rows = f" with rows of {least_raters} ratings or more"
    raise ValueError(
        f"Intervals for new raters need three raters at least, got {n_raters}{of_rows}; "
        'raters="fixed" gives the interval for these raters and new rows.'
    )


def warn_of_few(n_raters: int, worth: float) -> None:
    """Warn of few raters, or of few who give most of the ratings, the caller of whoever calls."""
    if n_raters < FEW_RATERS:
        found = f"There are only {n_raters} raters"
    elif worth < LEAST_RATERS:
        found = f"The {n_raters} raters are worth only {worth:.1f} with equal loads"
    else:
        return
    warnings.warn(
        f"{found}: intervals for new raters may cover too rarely. "
        'With raters="fixed" the interval is for these raters.',
        UserWarning,
        stacklevel=4,
    )


# -------------------------------------------------------------------------------------- variances


def spread_of(
    found: Replicates, block: Blocks, panel: Panel | None = None, *, second_order: bool = False
) -> Spread:
    """The variance of a statistic and its degrees of freedom, raters fixed where there is no panel.

    `second_order` says that the statistic is no mean of rows, but of products of them.
    """
    V_row = row_variance(found, np.bincount(block.code))
    G = block.n
    without = found.ratings
    if panel is None or without is None:
        return Spread(V_row, G - 1.0, VarianceComponents(V_row))
    return over_raters(found.estimate, without, V_row, G - 1.0, panel, second_order=second_order)


def over_raters(
    T: float,
    without: LeftOut,
    V_row: float,
    df_row: float,
    panel: Panel,
    *,
    second_order: bool = False,
) -> Spread:
    """The variance over rows and raters; that over rows has `df_row` degrees of freedom."""
    V_rat = panel.f * ((without.raters - T) ** 2).sum()
    moved = without.cells - T
    moved *= moved
    moved *= without.times
    V_cell = panel.f * moved.sum()
    return of_components(V_row, V_rat, V_cell, df_row, panel, second_order=second_order)


def of_components(
    V_row: float,
    V_rat: float,
    V_cell: float,
    df_row: float,
    panel: Panel,
    *,
    second_order: bool = False,
) -> Spread:
    """The variance over rows and raters, from those of the three jackknives."""
    excess = V_rat - V_cell
    V = V_row + max(excess, 0.0)
    # few raters may look alike by chance, in whole ones of equal loads
    uncertain = second_order or panel.worth < FEW_RATERS - 0.5
    # Satterthwaite's degrees of freedom
    noise = V_row**2 / df_row
    if excess > 0 or uncertain:
        noise += V_rat**2 / max(panel.effective - 1, 1e-9) + V_cell**2 / df_row
    df = df_row
    if noise > 0:
        df = float(V**2 / noise)
    # V_rat − V_cell may be a small difference of large numbers
    df = max(df, min(df_row, _LEAST_DF))
    components = (V_row, V_rat, V_cell)
    return Spread(float(V), df, VarianceComponents(*map(float, components)))


def row_variance(found: Replicates, sizes: NDArray) -> float:
    """The delete-a-block jackknife for blocks of so many rows each, from pseudo-values."""
    B = len(sizes)
    # n/m_b
    h = sizes.sum() / sizes
    pseudo = h * found.estimate - (h - 1) * found.rows
    centre = B * found.estimate - ((1 - 1 / h) * found.rows).sum()
    return float(np.mean((pseudo - centre) ** 2 / (h - 1)))
