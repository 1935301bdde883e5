"""Who is asked, and who spoke: log loss of the label of a reader on held-out rows, in nats.

    python benchmarks/reader_effects.py [draws]

Rows have eight readers, true log-odds that features explain in part, and readers with effects
N(0, .8²) on the log-odds of each class. 250 rows are for training, 250 for the test. Of a test row
m labels are known; the next is asked of another reader. "blind": `AlphaCalibration` after m labels,
whoever gave them. "asked": `ReaderEffects` around it knows who is asked, but not who spoke.
"spoke": it knows both. In brackets standard errors of the difference from the column before."""

import sys

import numpy as np

from sklearn_lhcal.calibration import AlphaCalibration, ReaderEffects, VectorScaling
from sklearn_lhcal.label_histogram import Annotations

N_READERS = 8
STD = 0.8
SEEN = (0, 1, 3, 5)


def study(K: int, n: int, rng):
    """Features, and labels (n, R)."""
    X = rng.standard_normal((n, K))
    u = 1.5 * X + rng.standard_normal((n, K))
    p = np.exp(u[:, None] + STD * rng.standard_normal((N_READERS, K)))
    p /= p.sum(axis=2, keepdims=True)
    return X, (p.cumsum(axis=2) < rng.random((n, N_READERS, 1))).sum(axis=2)


def losses(K: int, m: int, seed: int):
    """Mean log loss of the three, after m labels."""
    rng = np.random.default_rng(seed)
    X, said = study(K, 500, rng)
    classes = np.arange(K)
    names = np.array([f"reader {r}" for r in range(N_READERS)])
    y = Annotations.from_matrix(said[:250], raters=names, classes=classes)
    blind = AlphaCalibration(VectorScaling()).fit(X[:250], y)
    model = ReaderEffects(AlphaCalibration(VectorScaling())).fit(X[:250], y)
    order = rng.random((250, N_READERS)).argsort(axis=1)
    rows = np.arange(250)
    asked = order[:, 0]
    truth = said[250:][rows, asked]
    # labels of the next m readers
    seen = np.full((250, N_READERS), None)
    for j in range(1, m + 1):
        seen[rows, order[:, j]] = said[250:][rows, order[:, j]]
    z = X[250:]
    given = counts = None
    dist = blind.predict_dist(z)
    if m:
        given = Annotations.from_matrix(seen, raters=names, classes=classes)
        counts = given.counts
        dist = dist.posterior(counts)
    found = (
        dist.mean(),
        model.predict_proba(z, rater=names[asked], given=counts),
        model.predict_proba(z, rater=names[asked], given=given),
    )
    return [-np.log(p[rows, truth]).mean() for p in found]


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    print(f"{draws} draws{'blind':>22}{'asked':>18}{'spoke':>18}")
    for K in (2, 3):
        for m in SEEN:
            each = np.array([losses(K, m, seed) for seed in range(draws)])
            error = np.diff(each, axis=1).std(axis=0) / np.sqrt(draws)
            blind, asked, spoke = each.mean(axis=0)
            print(
                f"K = {K}, {m} labels seen {blind:9.3f}"
                f"{asked:10.3f} ({error[0]:.4f}){spoke:9.3f} ({error[1]:.4f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
