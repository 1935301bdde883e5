"""What readers differ in: the bias of each, and whether they differ at all."""

from typing import NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import f as fisher
from sklearn.utils import check_random_state

from ..._ground.arrays import Floats, Integers
from ..._ground.types import Seed
from ...label_histogram import Annotations
from ...label_histogram._labels import names_of
from .each_reader import (
    compared,
    named_raters,
    reader_means,
    rows_of_pairs,
    statistic_of_pairs,
)
from .raters import Panel, spread_of

__all__ = ["ReaderTable", "reader_table"]


class ReaderTable(NamedTuple):
    """What `reader_table` returns.

    Attributes
    ----------
    raters : ndarray of shape (n_raters,)
    classes : ndarray of shape (n_classes,)
    n_rows : ndarray of shape (n_raters,)
        Rows that the reader shares with others.
    bias : ndarray of shape (n_raters, n_classes)
        How much more often than the others of her rows the reader names the class.
    interval : ndarray of shape (n_raters, n_classes, 2)
        Of the biases; they hold for all readers and classes together, and for new rows.
    statistic : float
        F of the class whose shares differ most surely.
    df : tuple of two floats
        Degrees of freedom of F.
    pvalue : float
        That readers do not differ at all; Bonferroni's over classes.
    """

    raters: NDArray
    classes: NDArray
    n_rows: Integers
    bias: Floats
    interval: Floats
    statistic: float
    df: tuple[float, float]
    pvalue: float


def reader_table(
    y: Annotations,
    *,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    confidence_level: float = 0.95,
    n_blocks: int = 50,
    random_state: Seed = None,
) -> ReaderTable:
    """Which readers name which classes more often than others do, and whether they differ at all.

    The bias of a reader is the share of her labels in a class less the share of the other labels of
    the same rows. Whether readers differ is decided by ``F = V_rat/V_cell``, the jackknife over
    readers against that over single ratings, of the share of each class.

    Parameters
    ----------
    y : Annotations of shape (n_samples, n_classes)
        Rows with two readers or more count.
    sample_weight, groups, confidence_level, n_blocks, random_state
        As in `confidence_interval`.

    Returns
    -------
    ReaderTable

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
    Bonferroni's intervals, by the jackknife over rows: they hold for these readers and new rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_lhcal.label_histogram import Annotations
    >>> rng = np.random.default_rng(0)
    >>> said = (rng.random((200, 5)) < [0.8, 0.5, 0.5, 0.5, 0.5]).astype(int)
    >>> table = reader_table(Annotations.from_matrix(said), random_state=0)
    >>> table.raters[table.interval[:, 1, 0] > 0], table.pvalue < 0.01
    (array([0]), True)
    """
    labels = named_raters(y)
    rows = rows_of_pairs(labels, None, sample_weight, groups)
    shares = statistic_of_pairs(lambda rows: (rows.weight[:, None] * rows.mu, rows.weight), rows)
    design = shares.design("random", n_blocks, check_random_state(random_state))
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
    df = (float(panel.effective) - 1, design.rows.n - 1.0)
    _, V_rat, V_cell = spread_of(shares.replicates(design), design).components
    # 0 where all ratings are alike
    F = float(np.divide(V_rat, V_cell, out=np.zeros(K), where=V_cell > 0)[:free].max())
    pvalue = np.minimum(free * fisher.sf(F, *df), 1.0)
    return ReaderTable(
        raters=labels.raters,
        classes=names_of(rows.labels),
        n_rows=np.bincount(at.reader, minlength=R),
        bias=np.stack([m.mean for m in means], axis=1),
        interval=np.stack([m.interval for m in means], axis=1),
        statistic=F,
        df=df,
        pvalue=float(pvalue),
    )
