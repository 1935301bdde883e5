"""Likelihoods of label histograms as functions of log α0 (P1 App. D.2).

Letters: z class probabilities and y labels of n samples (n, K), η = log α0, x = 1/α0. Each function
takes log z and y, and returns a function of η (n,): the loss of each sample, and its first and
second derivative by η. The losses are those of `DirichletMultinomialLoss` and `PairwiseLoss`.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import expit, log_expit

from .._utils.arrays import Floats
from .._utils.rising import Terms, rising
from .._utils.simplex import row_sum

RowLoss = Callable[[Floats], Terms]
Likelihood = Callable[[Floats, Floats], RowLoss]

# Beyond, where all is flat, powers of α0 overflow.
_MOST = 500.0


def dirichlet_multinomial(log_z: Floats, y: Floats) -> RowLoss:
    """−log of the Dirichlet-multinomial likelihood, without its coefficient."""
    n = row_sum(y)
    one = np.ones_like(n)
    # without labels a class adds nothing
    i, k = np.nonzero(y)
    z, y = np.exp(log_z[i, k]), y[i, k]

    def loss(eta):
        x = np.exp(-eta)
        classes = [np.bincount(i, a, len(n)) for a in rising(z, x[i], y)]
        whole = rising(one, x, n)
        return tuple(b - a for a, b in zip(classes, whole, strict=True))

    return loss


def pairwise(log_z: Floats, y: Floats) -> RowLoss:
    """−log of the likelihood of pairs of raters, the mean over the pairs of a sample.

    With p = α0/(α0+1), −log(p z_k + 1−p) has the derivatives r_k = p(1−p)(1−z_k)/(p z_k + 1−p) and
    (1−2p + r_k)·r_k.
    """
    n = row_sum(y)[:, None]
    pairs = np.maximum(n * (n - 1), 1.0)
    # shares of the pairs that agree on k, and half of those split on k
    agree = y * (y - 1) / pairs
    split = y * (n - y) / pairs
    share = agree + 2 * split
    fixed = -row_sum(np.where(share > 0, share * log_z, 0.0))
    split = row_sum(split)
    i, k = np.nonzero(agree)
    agree, z = agree[i, k], np.exp(log_z[i, k])

    def loss(eta):
        eta = np.clip(eta, -_MOST, _MOST)
        p, rest = expit(eta), expit(-eta)
        q = p[i] * z + rest[i]
        r = (p * rest)[i] * (1 - z) / q
        terms = -np.log(q), r, r * ((rest - p)[i] + r)
        alike = [np.bincount(i, agree * a, len(eta)) for a in terms]
        value = fixed - split * (np.log(2) + log_expit(eta))
        return value + alike[0], alike[1] - split * rest, alike[2] + split * p * rest

    return loss
