"""Gaussian processes of fixed kernels, and data for them."""

import numpy as np
from scipy.special import expit

from sklearn_lhcal.gaussian_process import SparseGPClassifier


def fixed(kernel="rbf", **kwargs):
    """A classifier with given hyper-parameters, run until nothing moves."""
    options = {
        "variance": 2.0,
        "lengthscale": 0.8,
        "tol": 1e-12,
        "max_iter": 5000,
        "batch_size": None,
    }
    return SparseGPClassifier(
        kernel, optimize_hyperparameters=False, random_state=0, **(options | kwargs)
    )


def waves(n=60, seed=0, raters=1):
    """Rows in the plane, and counts of two classes whose log-odds are a wave."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    y = rng.binomial(raters, expit(3 * np.sin(2 * X[:, 0]) + X[:, 1]))
    return X, np.column_stack([raters - y, y])
