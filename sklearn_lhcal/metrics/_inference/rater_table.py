"""Raters beside each other: who names which class more often, and whether they differ at all."""

from typing import NamedTuple, cast

import numpy as np
from scipy.stats import f as fisher
from sklearn.utils import check_random_state

from ..._rows import Annotations, Rows, names_of, read_rows
from ..._utils.arrays import row_units
from ..._utils.checks import checked
from ..._utils.distances import Distance
from ..._utils.results import DataFrame, frame_of, result
from ..._utils.types import Floats, Groups, Integers, NDArray, Seed, Weights
from .._evaluate import mean, points_of
from .rater_comparison import (
    Losses,
    compared,
    named_raters,
    reader_means,
    rows_of_pairs,
    statistic_of_pairs,
)
from .replicates import MeanStatistic
from .two_way import Design, Panel, cells_of, panel_of


@result
class RaterTable(NamedTuple):
    """What `rater_table` returns.

    Attributes
    ----------
    raters : ndarray of shape (n_raters,)
    classes : ndarray of shape (n_classes,)
    n_rows : ndarray of shape (n_raters,)
        Samples that the reader shares with others.
    bias : ndarray of shape (n_raters, n_classes)
        How much more often than the others of her samples the reader names the class.
    interval : ndarray of shape (n_raters, n_classes, 2)
        Of the biases; they hold for all readers and classes together, and for new samples.
    statistic : float
        F of the class whose shares differ most surely.
    df : tuple of two floats
        Degrees of freedom of F.
    pvalue : float
        Of the hypothesis that readers label alike; Bonferroni's over classes and agreement.
    p_values : dict of str to float
        Of "class frequencies" and of "agreement with the others", each by itself. The latter is NaN
        where no sample has three readers.
    confidence_level : float
    """

    raters: NDArray
    classes: NDArray
    n_rows: Integers
    bias: Floats
    interval: Floats
    statistic: float
    df: tuple[float, float]
    pvalue: float
    p_values: dict[str, float]
    confidence_level: float

    def to_frame(self) -> "DataFrame":
        """A pandas DataFrame, one row for each reader and class."""
        return frame_of(
            {"rater": self.raters, "class": self.classes},
            bias=self.bias,
            interval=self.interval,
            n_rows=self.n_rows[:, None],
        )

    def __str__(self) -> str:
        parts = "; ".join(f"{name}: p = {p:.2g}" for name, p in self.p_values.items())
        return f"H0: readers label alike; p = {self.pvalue:.2g} ({parts})"


_COMPARED_BY = ("class frequencies", "agreement with the others")


@checked
def rater_table(
    y: Annotations,
    *,
    sample_weight: Weights = None,
    groups: Groups = None,
    confidence_level: float = 0.95,
    n_blocks: int | None = None,
    random_state: Seed = None,
    distance: Distance = None,
) -> RaterTable:
    """Which readers name which classes more often than others do, and whether they differ at all.

    The bias of a reader is the share of her labels in a class minus the share of the other labels
    of the same samples. Whether readers differ is decided by ``F = V_rat/V_cell``, the jackknife
    over readers against that over single labels, of the share of each class; and of how often two
    readers disagree, over the samples with three or more. This finds a reader who guesses, though
    with the class frequencies of the others.

    Parameters
    ----------
    y : Annotations of shape (n_samples, n_classes)
        Samples with two readers or more count.
    sample_weight, groups, confidence_level, n_blocks, random_state
        As in `confidence_interval`.
    distance : None, "linear", "quadratic" or array-like of shape (n_classes, n_classes), optional
        As in `rater_comparison`: by how much readers disagree, where their agreement is tested.

    Returns
    -------
    RaterTable

    Raises
    ------
    ValueError
        Labels without raters, fewer than three raters.

    Warns
    -----
    UserWarning
        Fewer than five raters.

    Notes
    -----
    Bonferroni's intervals, by the jackknife over samples: they hold for these readers and new
    samples.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_lhcal.label_histogram import Annotations
    >>> rng = np.random.default_rng(0)
    >>> said = (rng.random((200, 5)) < [0.8, 0.5, 0.5, 0.5, 0.5]).astype(int)
    >>> table = rater_table(Annotations.from_matrix(said), random_state=0)
    >>> table.raters[table.interval[:, 1, 0] > 0], table.pvalue < 0.01
    (array([0]), True)
    """
    labels = named_raters(y)
    rows = rows_of_pairs(read_rows(labels, None, sample_weight, groups, optional=True))
    shares = statistic_of_pairs(lambda rows: (rows.weight[:, None] * rows.mu, rows.weight), rows)
    design = shares.design("random", n_blocks, check_random_state(random_state))
    shares.check_rows_remain()
    panel = cast(Panel, design.panel)
    K = labels.shape[1]
    at = compared(rows)
    # two columns of two classes are one
    free = K if K > 2 else 1
    R = len(labels.raters)
    means = [
        reader_means(
            at.excess(rows, k), at, rows.weight, design.rows.code, R, confidence_level, n_each=free
        )
        for k in range(K)
    ]
    df = (panel.df, design.rows.n - 1.0)
    F = float(_ratios(shares, panel)[:free].max())
    p = [min(free * float(fisher.sf(F, *df)), 1.0), _p_of_agreement(rows, design, distance)]
    return RaterTable(
        raters=labels.raters,
        classes=names_of(rows.labels),
        n_rows=np.bincount(at.reader, minlength=R),
        bias=np.stack([m.mean for m in means], axis=1),
        interval=np.stack([m.interval for m in means], axis=1),
        statistic=F,
        df=df,
        pvalue=float(min(np.isfinite(p).sum() * np.nanmin(p), 1.0)),
        p_values=dict(zip(_COMPARED_BY, p, strict=True)),
        confidence_level=confidence_level,
    )


def _ratios(statistic: MeanStatistic, panel: Panel) -> Floats:
    """F = V_rat/V_cell of each mean, shape (m,); 0 where all labels are alike."""
    T = np.atleast_1d(statistic.estimate())
    blocks = panel.blocks, cells_of(statistic.labels, statistic.data.groups)
    left = (statistic.without_ratings(block).reshape(block.n, -1) for block in blocks)
    V_rat, V_cell = (((without - T) ** 2).sum(axis=0) for without in left)
    return np.divide(V_rat, V_cell, out=np.zeros(len(T)), where=V_cell > 0)


def _p_of_agreement(rows: Rows, design: Design, distance: Distance) -> float:
    """p of equal agreement with the others; NaN where no sample has three readers.

    Without one of three labels per sample still has a pair, and where readers label alike it
    disagrees as often as the sample's other pairs: V_rat and V_cell have one expectation.
    """
    several = rows.contributing(3)
    if several is None:
        return float("nan")
    y = named_raters(several.labels)
    n_blocks = cast(Panel, design.panel).blocks.n
    panel = panel_of(y, several.w, 2, n_blocks, check_random_state(0))
    units = len(np.unique(row_units(several.groups, len(several))))
    terms = mean(Losses(points_of(rows, distance)).disagreement)
    [F] = _ratios(statistic_of_pairs(terms, several), panel)
    return float(fisher.sf(F, panel.df, max(min(units, design.rows.n) - 1, 1)))
