"""Slow and obvious versions of what the package computes, for tests to compare with."""

from itertools import combinations_with_replacement, product
from math import factorial, prod

import numpy as np

from sklearn_lhcal.distributions import Dirichlet, DirichletMixture, Ensemble, PointMass


def histograms(n, K):
    """All label histograms of n raters over K classes, shape (n_histograms, K)."""
    draws = combinations_with_replacement(range(K), n)
    return np.array([np.bincount(np.array(d, dtype=int), minlength=K) for d in draws])


def multinomial(counts, Q):
    """Probability of one histogram when each rater draws from Q."""
    counts = [int(y) for y in counts]
    coefficient = factorial(sum(counts)) // prod(factorial(y) for y in counts)
    return coefficient * prod(float(q) ** y for q, y in zip(Q, counts, strict=True))


def row_outcomes(Q, n):
    """All histograms of one row, shape (n_histograms, K), and their probabilities."""
    counts = histograms(n, len(Q))
    return counts, np.array([multinomial(y, Q) for y in counts])


def joint_outcomes(Q, raters):
    """All label histograms of several independent rows, as pairs (counts (n, K), probability)."""
    rows = [list(zip(*row_outcomes(q, n), strict=True)) for q, n in zip(Q, raters, strict=True)]
    for outcome in product(*rows):
        yield np.array([y for y, _ in outcome]), prod(p for _, p in outcome)


def expectation(metric, Q, raters):
    """Exact mean of ``metric(counts)`` over all label outcomes."""
    return sum(p * metric(counts) for counts, p in joint_outcomes(Q, raters))


def random_proba(rng, *shape):
    """Points of the simplex, uniform, the last axis being the classes."""
    return rng.dirichlet(np.ones(shape[-1]), size=shape[:-1])


def all_distributions(n, K, seed=0):
    """One distribution of every kind, by name."""
    rng = np.random.default_rng(seed)
    members, total = random_proba(rng, 3, n, K), rng.uniform(0.5, 8, size=(3, n))
    weights = rng.uniform(0.1, 1, size=(3, n))
    return {
        "point mass": PointMass(random_proba(rng, n, K)),
        "dirichlet": Dirichlet(rng.uniform(0.2, 5, size=(n, K))),
        "ensemble": Ensemble(members, weights),
        "dirichlet mixture": DirichletMixture(members, total, weights),
    }


KINDS = ["point mass", "dirichlet", "ensemble", "dirichlet mixture"]


def naive_decomposition(y, z, w, edges, correction):
    """L, EL, IL, CL per class and bin from the formulas, one class and one bin at a time.

    `edges` is one array of edges per class; a value at an inner edge belongs to the bin above.
    Returns L (K,), EL (K, B), IL (K,), CL (K, B).
    """
    y, z, w = np.asarray(y, float), np.asarray(z, float), np.asarray(w, float)
    n, K, B = y.sum(axis=1), z.shape[1], max(len(e) for e in edges) - 1
    keep = n >= (1 if correction is None else 2)
    y, z, w, n = y[keep], z[keep], w[keep], n[keep]
    mu, W = y / n[:, None], w.sum()
    L, IL, EL, CL = np.zeros(K), np.zeros(K), np.zeros((K, B)), np.zeros((K, B))
    for k in range(K):
        m, s = mu[:, k], mu[:, k] * (1 - mu[:, k])
        L[k] = (w * ((m - z[:, k]) ** 2 + s)).sum() / W
        el = (m - z[:, k]) ** 2 - (0 if correction is None else s / (n - 1))
        IL[k] = (w * (s if correction is None else s * n / (n - 1))).sum() / W
        bins = np.searchsorted(edges[k][1:-1], z[:, k], side="right")
        for b in np.unique(bins):
            i = bins == b
            EL[k, b] = (w[i] * el[i]).sum() / W
            CL[k, b] = naive_bin_loss(m[i], z[i, k], w[i], W, correction)
    return L, EL, IL, CL


def naive_bin_loss(c, z, w, W, correction):
    """CL of one bin: its rows' frequencies c, predictions z and weights w.

    W is the weight of all samples.
    """
    Wb = w.sum()
    c_bar, z_bar = (w * c).sum() / Wb, (w * z).sum() / Wb
    plugin = Wb / W * (c_bar - z_bar) ** 2
    if correction is None:
        return plugin
    if len(c) == 1:
        return 0.0
    if correction == "residual":
        e = c - z
        pairs = [(w[i] * w[j], e[i] * e[j]) for i, j in product(range(len(e)), repeat=2) if i != j]
        return Wb / W * sum(v * ee for v, ee in pairs) / sum(v for v, _ in pairs)
    h = ((w / Wb) ** 2).sum()
    return plugin - Wb / W * (w * (c - c_bar) ** 2).sum() / Wb * h / (1 - h)
