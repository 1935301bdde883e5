"""The log loss of an affine map on calibration rows: value, gradient, information.

    z = (1−e) Σ_s w_s p_s + e π,   p_s = softmax(W u_s + b),   e = σ(η)

over the members s of an ensemble, of which a point prediction has one; π is the floor. A label of
class k comes from member s with probability r_s = (1−e) w_s p_sk / z_k. Letters: y the share (L,)
of each label in the weighted sum of all, n_s = Σ y r_s over the labels of a row, J as in `maps`.

    F = −Σ y log z,   ∂F/∂x = Σ Jᵀ(n_s p_s − Σ y r_s e_k),   ∂F/∂η = Σ y (Σ_s r_s − (1−e))

The weight e of the floor has the prior −.1 (log e + log(1−e)), in nats of one row.
"""

from collections.abc import Iterator
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, log_expit

from ..._ground.arrays import Floats, Indices
from ..._ground.simplex import row_max, row_sum
from .._rows import CalibrationRows
from .curvature import ClassInformation, Information
from .maps import AffineMap, transform

# Weight of the prior of the floor, in rows.
_FLOOR_PRIOR = 0.1
# Numbers of a block: it stays in cache.
_BLOCK = 2**16
# Logits below the best of a row are no lower: exponentials beyond the range of floats take long.
_LEAST = -300.0


class _Block(NamedTuple):
    """Some rows with their members one below the other, and the labels of these rows.

    u (m·S, K), log-weights of the labels' members (L, S), classes k and shares y (L,); the rows of
    u where their members stand, (L, S), and the entries of u.ravel() where these have class k.
    """

    u: Floats
    log_w: Floats
    k: Indices
    y: Floats
    at: Indices
    entry: Indices


class LogLoss:
    """F and its derivatives in the parameters of a family, behind which η stands with a floor.

    Parameters
    ----------
    family : AffineMap
    rows : CalibrationRows
    floor : ndarray of shape (K,) or None
        π.
    """

    def __init__(self, family: AffineMap, rows: CalibrationRows, floor: Floats | None):
        self.family = family
        self.rows = rows
        self.floor = floor
        # Nats of a row in those of a label: a prior is one for all rows.
        self.n_rows = float(rows.weight.sum())
        self._blocks = list(_blocks(rows))

    def split(self, x: Floats) -> tuple[Floats, float]:
        """Parameters of the map, and η."""
        if self.floor is None:
            return x, -np.inf
        return x[:-1], x[-1]

    def value(self, x: Floats) -> float:
        """F."""
        of_map, eta = self.split(x)
        F = sum(self._members(block, of_map, eta)[-1] for block in self._blocks)
        return F + self._prior(eta)[0]

    def __call__(self, x: Floats) -> tuple[float, Floats]:
        """F and its gradient, shape (p,)."""
        of_map, eta = self.split(x)
        F, slope = self._prior(eta)
        G = np.zeros(len(of_map))
        of_members = 0.0
        for block in self._blocks:
            p, Z, a, value = self._members(block, of_map, eta)
            F += value
            of_members += a.sum()
            p *= (_sums(block.at, a, len(p)) / Z)[:, None]
            p.ravel()[block.entry] -= a
            G += self.family.slope(of_map, block.u, p)
        if self.floor is None:
            return F, G
        return F, np.append(G, of_members - expit(-eta) + slope)

    def information(self, x: Floats) -> Information | ClassInformation:
        """Second derivatives if it were known which member a label comes from.

        They are those of F for points without a floor, but for the curvature of log β. Else they
        are larger: of an ensemble F is not convex.
        """
        of_map, eta = self.split(x)

        def of(block):
            p, Z, a, _ = self._members(block, of_map, eta)
            p /= Z[:, None]
            return self.family.information(of_map, block.u, p, _sums(block.at, a, len(p)))

        total: Any = reduce(add, map(of, self._blocks))
        if self.floor is None:
            return total
        weight = 1 + 2 * _FLOOR_PRIOR / self.n_rows
        return total.with_one_more(weight * expit(eta) * expit(-eta))

    def _prior(self, eta: float) -> tuple[float, float]:
        """−.1 (log e + log(1−e)) and its derivative, in rows."""
        if self.floor is None:
            return 0.0, 0.0
        weight = _FLOOR_PRIOR / self.n_rows
        return -weight * (log_expit(eta) + log_expit(-eta)), weight * (expit(eta) - expit(-eta))

    def _members(
        self, block: _Block, x: Floats, eta: float
    ) -> tuple[Floats, Floats, Floats, float]:
        """Z p of the members (m·S, K), Z (m·S,), y r of the labels (L, S), and the value."""
        # In the order of rows, in which entries of labels are counted.
        v = np.ascontiguousarray(transform(block.u, *self.family.affine(x)))
        v -= row_max(v)[:, None]
        log_p = v.ravel()[block.entry]
        p = np.exp(np.maximum(v, _LEAST, out=v), out=v)
        Z = row_sum(p)
        log_p -= np.log(Z)[block.at]
        log_p += block.log_w + log_expit(-eta)
        log_z = np.logaddexp.reduce(log_p, axis=1)
        if self.floor is not None:
            log_z = np.logaddexp(log_z, log_expit(eta) + np.log(self.floor)[block.k])
        a = block.y[:, None] * np.exp(log_p - log_z[:, None])
        return p, Z, a, -float(block.y @ log_z)


def _sums(at: Indices, a: Floats, size: int) -> Floats:
    """Σ a over the entries that have the same number."""
    return np.bincount(at.ravel(), a.ravel(), size).astype(np.float64, copy=False)


def _blocks(rows: CalibrationRows) -> Iterator[_Block]:
    """The rows, some at a time."""
    K = rows.n_classes
    S = rows.log_proba[0].size // K
    i, k, y = rows.label_pairs
    size = max(_BLOCK // (S * K), 64)
    for begin in range(0, len(rows), size):
        u = rows.log_proba[begin : begin + size].reshape(-1, K)
        own = slice(*np.searchsorted(i, [begin, begin + size]))
        at = (i[own] - begin)[:, None] * S + np.arange(S)
        log_w = rows.log_weights[i[own]] if rows.is_ensemble else np.zeros((1, 1))
        yield _Block(u, log_w, k[own], y[own], at, at * K + k[own, None])
