"""Which likelihood α-calibration should maximise: data sets by raters per calibration row.

    python benchmarks/alpha_likelihood.py [cifar10h.npz]

Epistemic loss after one label (smaller is better), mean over five random halves for calibration,
and the standard error of the paired difference. The file is optional: arrays `counts` and `proba`,
human label histograms and a network's probabilities. It takes two minutes on one core."""

import sys
import warnings

import numpy as np
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

from sklearn_lhcal.calibration import AlphaCalibration, TemperatureScaling
from sklearn_lhcal.datasets import load_mixed_digits, make_label_histograms
from sklearn_lhcal.distributions import predict_dist
from sklearn_lhcal.metrics import disagreement_squared_loss, posterior_epistemic_loss

RATERS = (2, 5, 20, 50)
LIKELIHOODS = ("pairwise", "dirichlet_multinomial")


def synthetic(n_classes, total, overconfidence):
    data = make_label_histograms(
        4000, n_classes, total=total, overconfidence=overconfidence, random_state=0
    )
    return data.prediction, data.proba


def uneven():
    """α0 varies over rows by a factor of 100, and the calibrator cannot see by what."""
    total = np.exp(np.random.default_rng(0).normal(size=4000) * 1.2 + 1)
    data = make_label_histograms(4000, 5, total=total, overconfidence=1.5, random_state=0)
    return data.prediction, data.proba


def digits(classifier):
    data = load_mixed_digits(raters=50)
    model = make_pipeline(PCA(20), classifier).fit(data.X_train, data.counts_train.argmax(axis=1))
    X, counts = (
        np.vstack([data.X_validation, data.X_test]),
        np.vstack([data.counts_validation, data.counts_test]),
    )
    return model.predict_proba(X), counts / counts.sum(axis=1, keepdims=True)


def data_sets(path):
    yield "synthetic, 3 classes, α0 = 10", synthetic(3, 10.0, 2.0)
    yield "synthetic, 10 classes, α0 = 2", synthetic(10, 2.0, 1.5)
    yield "synthetic, 5 classes, α0 uneven", uneven()
    yield "mixed digits, logistic regression", digits(LogisticRegression(max_iter=5000))
    yield "mixed digits, naive Bayes", digits(GaussianNB())
    if path is not None:
        with np.load(path) as file:
            yield (
                "CIFAR-10H, network",
                (file["proba"], file["counts"] / file["counts"].sum(axis=1, keepdims=True)),
            )


def compare(z, q, raters, n_splits=5):
    """Losses of both likelihoods on each split, shape (n_splits, 2 metrics, 2 likelihoods)."""
    losses = []
    for seed in range(n_splits):
        rng = np.random.default_rng(seed)
        rows = rng.permutation(len(z))
        fit, test = rows[: len(z) // 2], rows[len(z) // 2 :]
        counts, test_counts = rng.multinomial(raters, q[fit]), rng.multinomial(50, q[test])
        scaled = TemperatureScaling("proba").fit(z[fit], counts)
        dists = [
            predict_dist(AlphaCalibration(scaled, likelihood=v).fit(z[fit], counts), z[test])
            for v in LIKELIHOODS
        ]
        metrics = (posterior_epistemic_loss, disagreement_squared_loss)
        losses.append([[metric(test_counts, dist) for dist in dists] for metric in metrics])
    return np.array(losses)


def main() -> None:
    # Of labels to which naive Bayes gives no probability.
    warnings.simplefilter("ignore", UserWarning)
    print(
        f"{'':36}{'raters':>7}"
        + "".join(f"{name:>43}" for name in ("loss after one label", "disagreement loss"))
    )
    print(f"{'':43}" + f"{'pairwise':>12}{'Dir.-mult.':>12}{'difference':>19}" * 2)
    for name, (z, q) in data_sets(sys.argv[1] if len(sys.argv) > 1 else None):
        for raters in RATERS:
            losses = compare(z, q, raters)
            line = f"{name:36}{raters:7d}"
            for pair in np.moveaxis(losses, 1, 0):
                d = pair[:, 0] - pair[:, 1]
                line += f"{pair[:, 0].mean():12.4f}{pair[:, 1].mean():12.4f}"
                line += f"{d.mean():+10.4f} ± {d.std(ddof=1) / np.sqrt(len(d)):.4f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
