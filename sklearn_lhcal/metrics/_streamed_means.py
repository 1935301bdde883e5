"""Moments of the terms of a mean, of rows that come in batches."""

import numpy as np
from numpy.typing import NDArray

from .._ground.arrays import Floats, Indices
from .._ground.jackknife import Spread, VarianceComponents


class StreamedMeans:
    """Sums and products of numerators N and denominators D of rows, merged without cancellation.

    The products are taken about the means of a batch, and moved when two are merged (Chan, Golub
    and LeVeque 1983).
    """

    def __init__(self, n_blocks: int):
        self.n = 0
        self.mean = np.zeros(2)
        self.scatter = np.zeros((2, 2))
        # sums of each block of rows
        self.sums = np.zeros((2, n_blocks))

    def add(self, numerator: NDArray, denominator: NDArray, block: Indices) -> None:
        """Add the terms of a batch, and the blocks of its rows, all of shape (n,)."""
        V = np.stack([numerator, denominator])
        mean = V.mean(axis=1)
        centred = V - mean[:, None]
        self._add(len(block), mean, centred @ centred.T)
        n_blocks = self.sums.shape[1]
        self.sums += np.stack([np.bincount(block, v, n_blocks) for v in V])

    def merge(self, other: "StreamedMeans") -> None:
        """Add what another one has seen."""
        self._add(other.n, other.mean, other.scatter)
        self.sums += other.sums

    def _add(self, n: int, mean: Floats, scatter: Floats) -> None:
        total = self.n + n
        if not total:
            return
        step = mean - self.mean
        self.scatter = self.scatter + scatter + np.outer(step, step) * (self.n * n / total)
        self.mean = self.mean + step * (n / total)
        self.n = total

    def totals(self) -> tuple[float, float]:
        """ΣN and ΣD."""
        N, D = self.sums.sum(axis=1).tolist()
        return N, D

    def estimate(self) -> float:
        """T = ΣN/ΣD."""
        N, D = self.sums.sum(axis=1)
        return float(N / D)

    def without_each(self) -> Floats:
        """T without each block that holds rows."""
        some = self.sums[:, self.sums.any(axis=0)]
        N, D = some.sum(axis=1, keepdims=True) - some
        return N / D

    def spread(self) -> Spread | None:
        """Of independent rows, ``n/(n−1) · Σ(N − T·D)² / (ΣD)²``; None where there is one row."""
        if self.n < 2:
            return None
        direction = np.array([1.0, -self.estimate()])
        squares = direction @ self.scatter @ direction
        V = float(squares * self.n / (self.n - 1) / self.sums[1].sum() ** 2)
        return Spread(V, self.n - 1.0, VarianceComponents(V))
