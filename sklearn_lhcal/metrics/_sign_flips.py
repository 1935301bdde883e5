"""Draws of residuals by random signs: of groups of rows, and of raters who share rows.

Letters: e_ir = a_ir − z_i is what the rating of row i by rater r, as a one-hot vector, says beyond
the prediction; n_i ratings of row i, n_r of rater r.
"""

from collections.abc import Callable
from typing import cast

import numpy as np
from scipy.sparse import csr_matrix

from .._ground.arrays import Floats, row_units
from .._rows import Rows
from ..label_histogram import Annotations
from ._binned import raters_repeat

# (generator, number of draws S) -> μ̂ of shape (n, S, K)
Draw = Callable[[np.random.Generator, int], Floats]


def signs(rows: Rows) -> Draw:
    """``z + ε(μ̂ − z − b) + Σ_r η_r B_r / n_i`` with b_i = Σ_r B_r / n_i, B_r the bias of rater r.

    ε = ±1 is one sign for each group, or row without groups; η_r = ±1 is one for each rater.
    """
    n, K = rows.z.shape
    unit = row_units(rows.groups, n)
    M, B = _biases(rows)
    z = rows.z[:, None, :]
    own = (rows.mu - rows.z - M @ B)[:, None, :]

    def draw(generator, S: int):
        epsilon = generator.choice([-1.0, 1.0], size=(unit.max() + 1, S))
        eta = generator.choice([-1.0, 1.0], size=(len(B), S))
        flipped = (eta[:, :, None] * B[:, None, :]).reshape(len(B), S * K)
        return z + epsilon[unit][:, :, None] * own + (M @ flipped).reshape(n, S, K)

    return draw


def _biases(rows: Rows) -> tuple[csr_matrix, Floats]:
    """The mean over the raters of each row, (n, R), and the raters' biases B, (R, K).

    ``B_r = √(σ²/(σ² + (τ² − σ²)/n_r)) · mean_i e_ir``: as large on average as the biases are, of
    variance σ², where single residuals have τ².
    """
    n, K = rows.z.shape
    if not raters_repeat(rows):
        return csr_matrix((n, 0)), np.zeros((0, K))
    labels = cast(Annotations, rows.labels)
    R = len(labels.raters)
    incidence = csr_matrix((np.ones(len(labels.rater)), labels.rater, labels.indptr), shape=(n, R))
    n_r = np.bincount(labels.rater, minlength=R)
    said = np.bincount(labels.rater * K + labels.label, minlength=R * K).reshape(R, K)
    sums = said - incidence.T @ rows.z
    # |e_ir|² = 1 − 2 z_ia + |z_i|²
    squares = 1 - 2 * rows.z[labels.row, labels.label] + (rows.z**2).sum(axis=1)[labels.row]
    tau2 = squares.mean()
    # pairs of rows of one rater
    sigma2 = ((sums**2).sum() - squares.sum()) / (n_r * (n_r - 1.0)).sum()
    sigma2 = min(max(sigma2, 0.0), tau2)
    seen = np.maximum(n_r, 1)
    if sigma2 == 0:
        shrink = np.zeros(R)
    else:
        shrink = np.sqrt(sigma2 / (sigma2 + (tau2 - sigma2) / seen))
    means = csr_matrix((1 / rows.n[labels.row], labels.rater, labels.indptr), shape=(n, R))
    return means, (shrink / seen)[:, None] * sums
