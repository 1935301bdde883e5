"""What one more label gains by the labels of fewer raters, and what raters add to a variance.

Letters: a_i the share of row i that is referred, r_i the noise of its gain (times its weight), T
the sum of a_i r_i over the weight of the rows.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from .._ground.facts import facts_of
from .._ground.jackknife import (
    MOST_SINGLE,
    Blocks,
    LeftOut,
    Panel,
    Spread,
    cells_of,
    over_raters,
    panel_of,
    row_blocks,
    warn_of_few,
)
from .._rows import Rows, random_raters
from ..distributions import Distribution, PointMass
from ..label_histogram import Annotations
from ..label_histogram._labels import Labels
from ..metrics import posterior_epistemic_loss


class Lost(NamedTuple):
    """Gains of rows that lost labels, and the unit that was left out.

    Attributes
    ----------
    row : ndarray of shape (m,)
    gain : ndarray of shape (m,)
        Of that row by the labels that it keeps; NaN where these are fewer than two.
    unit : Blocks
        The block of raters, or the cell, (m,).
    """

    row: NDArray
    gain: NDArray
    unit: Blocks


class GainsWithout(NamedTuple):
    """Gains without each block of raters, and without each cell."""

    panel: Panel
    raters: Lost
    cells: Lost


class RaterNoise:
    """What raters add to the variance of sums over rows.

    Parameters
    ----------
    without : GainsWithout
    w : ndarray of shape (n,)
        Weights, of sum 1.
    noise, explained : ndarray of shape (n,)
        Noise r of each gain, and what was expected of it, both times its weight.
    unit : float
        What gains are divided by.
    """

    def __init__(self, without: GainsWithout, w, noise, explained, unit: float):
        self.panel = without.panel
        self.noise = noise / unit
        self.lost = []
        for row, gain, of in (without.raters, without.cells):
            gone = np.isnan(gain)
            # a row of which too little is left counts no more, and its weight neither
            kept = np.where(gone, 0.0, w[row] * gain - explained[row])
            left = 1 - np.bincount(of.code, gone * w[row], of.n)
            left[left < 1e-12] = np.nan
            self.lost.append((row, (kept - noise[row]) / unit, of, left))

    def spread(self, a: NDArray, V_row: float, df_row: float) -> Spread:
        """The variance of ``Σ a_i r_i``, from that over rows."""
        T = a @ self.noise
        values = []
        for row, change, of, left in self.lost:
            values.append((T + np.bincount(of.code, a[row] * change, of.n)) / left)
        found = over_raters(T, LeftOut(*values), V_row, df_row, self.panel)
        # what is taken off may be more than what few rows seem to vary
        least = min(df_row, self.panel.effective - 1)
        return found._replace(df=max(found.df, least))


def realised_gain(labels: Labels, distribution: Distribution) -> NDArray:
    """The unbiased estimate of what one more label of each row gains, (n,)."""
    # without weights, terms are the losses themselves; a label does not move a point mass
    losses: Any = facts_of(posterior_epistemic_loss).terms
    now, _ = losses(Rows(labels, PointMass.of_checked(distribution.mean())))
    after, _ = losses(Rows(labels, distribution))
    return now - after


def gains_without(rows: Rows, raters: str | None) -> GainsWithout | None:
    """Gains of rows with two raters or more, without raters; None where these are fixed."""
    y = random_raters(rows.labels, raters)
    if y is None:
        return None
    panel = panel_of(y, rows.w, 2, MOST_SINGLE, check_random_state(0))
    warn_of_few(panel)
    row = y.row
    single = np.concatenate([gain[which] for _, gain, which in _each(rows, y, y.label)])
    cells = Blocks(np.arange(len(row)), len(row))
    if rows.groups is not None:
        cells = cells_of(y, rows.groups)
    code = panel.raters.code[y.rater]
    unit = Blocks(code, panel.raters.n)
    of_raters = Lost(row, single, unit)
    if not panel.raters.apart:
        parts = list(_each(rows, y, code, together=True))
        at, block = (np.concatenate([p[0][i] for p in parts]) for i in range(2))
        of_raters = Lost(at, np.concatenate([p[1] for p in parts]), Blocks(block, unit.n))
    return GainsWithout(panel, of_raters, Lost(row, single, cells))


def _each(
    rows: Rows, y: Annotations, code: NDArray, *, together: bool = False
) -> Iterator[tuple[tuple[NDArray, NDArray], NDArray, NDArray]]:
    """Rows and codes that occur together, the gains without, and which of them is each rating's.

    Without one rating of this code; or without all of them, where they go together.
    """
    K = y.shape[1]
    size = int(code.max()) + 1
    for part, ratings, row in row_blocks(y):
        pair, which = np.unique(row * size + code[ratings], return_inverse=True)
        at, of = np.divmod(pair, size)
        gone = np.bincount(which * K + y.label[ratings], minlength=len(pair) * K)
        gone = gone.reshape(-1, K)
        if not together:
            gone = np.minimum(gone, 1)
        left = y.counts[part][at] - gone
        at = at + part.start
        enough = np.flatnonzero(left.sum(axis=1) >= 2)
        gain = np.full(len(at), np.nan)
        if len(enough):
            gain[enough] = realised_gain(Labels(left[enough]), rows.distribution[at[enough]])
        yield (at, of), gain, which
