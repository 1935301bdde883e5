"""What the Gaussian process makes of its rows: distinct ones, units, inducing points."""

import numpy as np
from sklearn.cluster import KMeans

from .._utils.arrays import Floats


def seed(rng) -> int:
    """A seed for another generator."""
    return int(rng.randint(2**31 - 1))


def merged(X, counts, weight) -> tuple[Floats, Floats]:
    """Distinct rows of X, sorted, and the weighted counts of each; rows without weight are gone."""
    if weight is not None:
        counts = counts * weight[:, None]
    some = counts.any(axis=1)
    X, where = np.unique(X[some], axis=0, return_inverse=True)
    merged = np.zeros((len(X), counts.shape[1]))
    np.add.at(merged, where.ravel(), counts[some])
    return X, merged


def units(X, ard: bool):
    """Standard deviation of each feature with ARD, else of the average feature; 1 where it is 0."""
    variance = X.var(axis=0)
    if not ard:
        variance = variance.mean(keepdims=True)
    s = np.sqrt(variance)
    return np.where(s > 0, s, 1.0)


def inducing_points(X, m: int, rng) -> Floats:
    """All rows where there are at most m, else the centres of k-means on at most 50·m of them."""
    if len(X) <= m:
        return X
    rows = np.sort(rng.choice(len(X), min(len(X), 50 * m), replace=False))
    return KMeans(m, n_init=1, max_iter=10, random_state=seed(rng)).fit(X[rows]).cluster_centers_
