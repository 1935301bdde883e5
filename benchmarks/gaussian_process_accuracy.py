"""Mutual information of the Gaussian process classifier against exact inference.

    python benchmarks/gaussian_process_accuracy.py [n_draws]

Three data sets of 40 to 60 rows, two seeds each, three prior variances. All rows are inducing
points and the kernel is given, so that the model is one and the same: only the approximation of the
posterior differs. Exact posteriors of the log-odds, constant mean included, are drawn by Gibbs
sampling with Pólya–Gamma variables.

Printed for each prior variance and kind of place: our mean mutual information over the exact one,
without and with `polish`, smallest to largest over data sets and seeds, and on average. The places
are the rows, 50 random ones among and around them, and one so far away that only the prior and the
mean are left. Half the difference between two halves of a chain says how exact "exact" is. It takes
some minutes."""

import itertools
import sys
import warnings

import numpy as np
from scipy.special import expit
from sklearn.datasets import make_moons

from sklearn_lhcal.distributions import Ensemble
from sklearn_lhcal.gaussian_process import SparseGPClassifier

MEAN_VARIANCE = 100.0  # that of the classifier
LENGTHSCALE = 0.8
FAR = np.array([[1e3, 1e3]])


def waves(seed):
    """60 rows in a square with one label each, log-odds a wave."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (60, 2))
    y = rng.binomial(1, expit(3 * np.sin(2 * X[:, 0]) + X[:, 1]))
    return X, np.column_stack([1 - y, y])


def moons(seed):
    """50 rows of two moons with one label each."""
    X, y = make_moons(50, noise=0.3, random_state=seed)
    return X, np.column_stack([1 - y, y])


def raters(seed):
    """40 rows on a line with three labels each, the second class rare."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (40, 1))
    y = rng.binomial(3, expit(2 * np.sin(2 * X[:, 0]) - 1))
    return X, np.column_stack([3 - y, y])


def covariance(A, B, variance):
    """Squared exponential kernel, and the constant that stands for the mean."""
    r2 = ((A[:, None] - B) ** 2).sum(axis=2) / LENGTHSCALE**2
    return variance * np.exp(-r2 / 2) + MEAN_VARIANCE


def polya_gamma(n, c, rng, terms=200):
    """Draws of PG(n, c): the first terms of its sum of gamma variables, and the others' mean."""
    scale = 2 * np.pi**2 * ((np.arange(terms) + 0.5) ** 2 + (c[:, None] / (2 * np.pi)) ** 2)
    first = (rng.gamma(n[:, None], size=scale.shape) / scale).sum(axis=1)
    return first + n * np.tanh(c / 2) / (2 * c) - (n[:, None] / scale).sum(axis=1)


def exact_draws(counts, K, n_draws, rng):
    """Log-odds at all places (n_draws, len(K)) given labels at the first len(counts) of them.

    Gibbs sampling: ω | g ~ PG(n, g), then g | ω, Gaussian with pseudo-data κ/ω of variance 1/ω.
    They correct a draw f of the prior (Matheron's rule)."""
    rows = len(counts)
    n = counts.sum(axis=1)
    kappa = counts[:, 1] - n / 2
    root = np.linalg.cholesky(K + 1e-8 * np.trace(K) / len(K) * np.eye(len(K)))
    g = np.full(len(K), 0.1)
    draws = np.empty((n_draws, len(K)))
    for step in range(-n_draws // 10, n_draws):
        omega = polya_gamma(n, np.abs(g[:rows]) + 1e-9, rng)
        f = root @ rng.normal(size=len(K))
        residual = kappa / omega - f[:rows] - rng.normal(size=rows) / np.sqrt(omega)
        g = f + K[:, :rows] @ np.linalg.solve(K[:rows, :rows] + np.diag(1 / omega), residual)
        if step >= 0:
            draws[step] = g
    return draws


def mutual_information(draws):
    """The mean over places of that of draws of log-odds, nats."""
    z = expit(draws)
    return Ensemble(np.stack([1 - z, z], axis=2)).mutual_information().mean()


def posterior(X, counts, places, variance, polish):
    """Ours at the places."""
    gp = SparseGPClassifier(
        optimize_hyperparameters=False,
        variance=variance,
        lengthscale=LENGTHSCALE,
        tol=1e-8,
        max_iter=5000,
        polish=polish,
    )
    return gp.fit(X, counts).predict_dist(places)


def ratios(data, seed, variance, n_draws):
    """Our mutual information over the exact one, plain and polished, and the error of the latter.

    An array for each kind of place.
    """
    X, counts = data(seed)
    rng = np.random.default_rng(1000 + seed)
    new = rng.uniform(X.min(axis=0) - 1, X.max(axis=0) + 1, (50, X.shape[1]))
    places = np.concatenate([X, new, FAR[:, : X.shape[1]]])
    kinds = {
        "rows": slice(0, len(X)),
        "between": slice(len(X), len(X) + len(new)),
        "far": slice(len(X) + len(new), len(places)),
    }
    K = covariance(places, places, variance)
    draws = exact_draws(counts, K, n_draws, rng)
    ours = [posterior(X, counts, places, variance, polish) for polish in (False, True)]
    ours = [d.mutual_information() for d in ours]
    found = {}
    for kind, part in kinds.items():
        exact = mutual_information(draws[:, part])
        first, second = (mutual_information(half[:, part]) for half in np.array_split(draws, 2))
        error = abs(first - second) / 2 / exact
        found[kind] = np.array([*(a[part].mean() / exact for a in ours), error])
    return found


def main() -> None:
    warnings.simplefilter("error")
    n_draws = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    for variance in (2.0, 10.0, 30.0):
        runs = itertools.product((waves, moons, raters), (0, 1))
        found = [ratios(data, seed, variance, n_draws) for data, seed in runs]
        for kind in ("rows", "between", "far"):
            plain, polished, error = np.transpose([f[kind] for f in found])
            line = f"prior variance {variance:4.0f}, {kind:8}"
            for name, a in (("plain", plain), ("polished", polished)):
                line += f"   {name} {a.min():.3f} to {a.max():.3f}, mean {a.mean():.3f}"
            print(f"{line}   error {error.max():.3f}", flush=True)


if __name__ == "__main__":
    main()
