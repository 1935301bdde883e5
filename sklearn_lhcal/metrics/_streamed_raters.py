"""What raters do to a mean, of rows that come in batches."""

import numpy as np
from numpy.typing import NDArray

from .._ground.arrays import Floats, Indices
from .._ground.jackknife import (
    Blocks,
    Panel,
    Spread,
    check_several_raters,
    effective_number,
    of_components,
    worth,
)
from .._ground.rater_shares import moved_shares, pairs_of_raters
from ..label_histogram import Annotations
from ._replicates import OfMeans

# pairs of raters are kept
MOST_RATERS = 2000


class StreamedRaters:
    """Sums over the ratings of each rater, by whose names batches meet.

    Letters: T = N/D the mean, δ the changes of N and D where ratings are left out, c_r the share of
    a rater in the mean.
    """

    def __init__(self) -> None:
        self.code: dict = {}
        # δ without each rater (2, R), and Σ δδᵀ over single ratings
        self.without = np.zeros((2, 0))
        self.scatter = np.zeros((2, 2))
        # Σ w and, for each rater, Σ w/n; what leaving one out does to the shares of others
        self.weight = 0.0
        self.share = np.zeros(0)
        self.together = np.zeros((0, 0))
        self.lost = np.zeros(0)

    def add(self, statistic: OfMeans) -> None:
        """Add a batch, all rows of which count."""
        y = statistic.labels
        w = statistic.rows.weight
        code = self._codes(y)
        rater = code[y.rater]
        R = len(self.code)
        for ratings, change in statistic.without_each_rating():
            self.scatter += change @ change.T
            self.without += np.stack([np.bincount(rater[ratings], d, R) for d in change])
        self.weight += w.sum()
        self.share += np.bincount(rater, (w / y.n)[y.row], R)
        together, lost = pairs_of_raters(y, w, statistic.least_raters, rater, R)
        self.together += together
        self.lost += lost

    def merge(self, other: "StreamedRaters") -> None:
        """Add what another one has seen."""
        code = self._places(list(other.code))
        self.without[:, code] += other.without
        self.scatter += other.scatter
        self.weight += other.weight
        self.share[code] += other.share
        self.together[np.ix_(code, code)] += other.together
        self.lost[code] += other.lost

    def panel(self, least_raters: int) -> Panel:
        """The raters so far, each left out by itself."""
        R = len(self.code)
        present = int(np.count_nonzero(self.share))
        check_several_raters(present, least_raters)
        c = self.share / self.weight
        moved = moved_shares(c, self.weight, self.together, self.lost)
        raters = Blocks(np.arange(R), R, apart=True)
        f = float((c**2).sum()) / moved
        return Panel(raters, f, effective_number(c), present, worth(c))

    def spread(self, N: float, D: float, rows: Spread, panel: Panel) -> Spread:
        """The variance of T over rows and raters; without a single rating to first order in δ."""
        T = N / D
        moved = (N + self.without[0]) / (D + self.without[1]) - T
        direction = np.array([1.0, -T]) / D
        V_rat = panel.f * float((moved**2).sum())
        V_cell = panel.f * float(direction @ self.scatter @ direction)
        return of_components(rows.variance, V_rat, V_cell, rows.df, panel)

    def _codes(self, y: Annotations) -> Indices:
        """The place of each rater of a batch who rated a row; 0 for the others."""
        code = np.zeros(len(y.raters), np.intp)
        present = np.unique(y.rater)
        code[present] = self._places(y.raters[present].tolist())
        return code

    def _places(self, names: list) -> Indices:
        """The place of each name; new ones get places behind the others."""
        new = [name for name in names if name not in self.code]
        R = len(self.code) + len(new)
        if R > MOST_RATERS:
            raise ValueError(
                f"Batches of more than {MOST_RATERS} raters give no interval for new ones; use "
                'confidence_interval, or raters="fixed".'
            )
        if new:
            self.code |= {name: len(self.code) + i for i, name in enumerate(new)}
            self.without = _padded(self.without, (2, R))
            self.share = _padded(self.share, (R,))
            self.together = _padded(self.together, (R, R))
            self.lost = _padded(self.lost, (R,))
        return np.array([self.code[name] for name in names], dtype=np.intp)


def _padded(a: Floats, shape: tuple[int, ...]) -> NDArray:
    """With zeros behind, up to a shape."""
    return np.pad(a, [(0, to - size) for to, size in zip(shape, a.shape, strict=True)])
