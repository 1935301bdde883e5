"""Where the search for a temperature begins: the best of a grid, each with its best floor.

The prior's square of log T and mixtures make the problem one of several valleys. Letters as in
`_label_loss`, and as axes: B inverse temperatures β, L pairs of a row and a class that was its
label, of which y (L,) are the shares.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, logsumexp

from .._ground.arrays import Floats
from .._ground.simplex import row_sum
from ._label_loss import LEAST
from ._rows import CalibrationRows

# Weight of log e + log(1−e) in the prior of the floor, in rows.
FLOOR_PRIOR = 0.1
# The inverse temperatures that are tried.
_GRID = np.exp(np.linspace(-4, 3, 15))
# Numbers of a block of temperatures.
_BLOCK = 2**17
# The search for η = logit e: where it begins (e of .02), where it ends on either side, the longest
# step, the most steps, and what the last one may still promise, nats of a label.
_FIRST = -4.0
_LARGEST = 60.0
_LONGEST = 5.0
_MOST = 50
_PROMISE = 1e-6
_TINY = 1e-300

Array = Floats


def best_start(rows: CalibrationRows, n_rows: float, floor) -> tuple[float, float]:
    """β and η of least loss, with the prior of `n_rows` rows; η = −∞ without a floor."""
    size = max(1, _BLOCK // rows.log_proba.size)
    parts = [_GRID[begin : begin + size] for begin in range(0, len(_GRID), size)]
    tried = [_losses(rows, beta, n_rows, floor) for beta in parts]
    F, eta = np.concatenate(tried, axis=1)
    best = F.argmin()
    return float(_GRID[best]), float(eta[best])


def _losses(rows: CalibrationRows, beta: Array, n_rows: float, floor) -> tuple[Array, Array]:
    """Loss with prior (B,), and the η (B,) at which it is least."""
    i, k, y, _ = rows.label_pairs
    log_p = _log_p(rows, beta, i, k)
    prior = 0.5 * np.log(beta) ** 2 / n_rows
    if floor is None:
        return prior - log_p @ y, np.full(len(beta), -np.inf)
    weight = FLOOR_PRIOR / n_rows
    log_pi = np.log(floor)[k]
    eta = _best_eta(log_p - log_pi, y, weight)
    log_e = log_expit(eta)
    log_rest = log_expit(-eta)
    log_z = np.logaddexp(log_rest[:, None] + log_p, log_e[:, None] + log_pi)
    return prior - log_z @ y - weight * (log_e + log_rest), eta


def _log_p(rows: CalibrationRows, beta: Array, i: NDArray, k: NDArray) -> Array:
    """Log-probability of class k in row i at each temperature, without a floor, (B, L)."""
    u = rows.log_proba - rows.log_proba.max(axis=-1, keepdims=True)
    Z = row_sum(np.exp(np.maximum(np.multiply.outer(beta, u), LEAST)))
    log_p = np.multiply.outer(beta, u[i, ..., k]) - np.log(Z)[:, i]
    if rows.is_ensemble:
        log_p = logsumexp(log_p + rows.log_weights[i], axis=-1)
    return log_p


def _best_eta(log_odds: Array, y: Array, weight: float) -> Array:
    """η (B,) of least loss for log p/π (B, L): Newton's steps between ends that draw together.

    The loss is convex in e, so that its slope in η changes its sign once.
    """
    # π/p, within the range of floats
    ratio = np.exp(np.minimum(-log_odds, -LEAST))
    eta = np.full(len(ratio), _FIRST)
    low = np.full(len(ratio), -_LARGEST)
    high = np.full(len(ratio), _LARGEST)
    for _ in range(_MOST):
        e = expit(eta)
        r = 1 / (1 + np.exp(eta)[:, None] * ratio)
        of_map = r @ y
        G = e - (1 - of_map) + weight * (2 * e - 1)
        H = e * (1 - e) * (1 + 2 * weight) - (of_map - (r * r) @ y)
        size = np.maximum(np.abs(H), _TINY)
        low = np.where(G < 0, eta, low)
        high = np.where(G > 0, eta, high)
        step = eta - np.minimum(np.maximum(G / size, -_LONGEST), _LONGEST)
        has_ended = 2 * _PROMISE * size >= G**2
        if has_ended.all():
            break
        # The others go on.
        inside = (step > low) & (step < high)
        eta = np.where(has_ended, eta, np.where(inside, step, (low + high) / 2))
    return eta
