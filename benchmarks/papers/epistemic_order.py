"""Does the calibration of epistemic uncertainty keep its order and its size?

    python benchmarks/papers/epistemic_order.py [--seeds 8] [--data digits board modules]

From three data sets most samples of some regions are taken away, and given back: `BallCarvingSplit`
with seed s makes training, augmented and test samples. A forest is fitted without and with them.
Test samples are ranked by an estimate of the former, and the share of the gain in accuracy that
lies in the first fifth is printed, seeds together; samples with equal estimates share their gain.
Estimates are mutual information and entropy, uncalibrated, after `EpistemicCalibration` by the
method of the paper, and by the rising map; these carve the training samples with the seed s + 100.
The paper's map has the paper's bins, of the uncalibrated estimates at the test samples.

Beside it the epistemic calibration error. Its ten bins are those of the uncalibrated estimate for
all three. Bins of each map's own values would compare few bins with many, as a map with few values
has few quantiles, and so less noise: by those the paper's map is ahead.

digits     1,797 images of 8 × 8, ten classes
board      3,000 points of a random checkerboard; three labels in ten are wrong in its left half
modules    4,000 pieces of six lines of twenty Python modules, 20 components
Forests have 50 trees, for modules ten, so that estimates are discrete; three samples a leaf."""

import argparse
import sysconfig
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer

from sklearn_lhcal.calibration import EpistemicCalibration
from sklearn_lhcal.datasets import make_random_checkerboard
from sklearn_lhcal.metrics import accuracy_gain
from sklearn_lhcal.model_selection import BallCarvingSplit

MODULES = [
    *("argparse", "ast", "calendar", "difflib", "doctest", "inspect", "locale", "mailbox"),
    *("optparse", "pdb", "pickle", "shutil", "smtplib", "statistics", "subprocess", "tarfile"),
    *("threading", "turtle", "typing", "zipfile"),
]


def digits():
    """Pixels and classes."""
    return *load_digits(return_X_y=True), 50


def board():
    """Points, and labels that are noisy on the left."""
    X, y = make_random_checkerboard(3000, 9, 9, cell_std=0.2, random_state=0)
    noisy = (X[:, 0] < 5) & (np.random.default_rng(0).random(len(y)) < 0.3)
    return X, np.where(noisy, 1 - y, y), 50


def modules():
    """Components of the words of six lines, and the module they are from."""
    pieces, labels = [], []
    for k, name in enumerate(MODULES):
        path = Path(sysconfig.get_paths()["stdlib"]) / f"{name}.py"
        if not path.exists():
            continue
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        found = [" ".join(lines[i : i + 6]) for i in range(0, len(lines) - 6, 6)]
        pieces += found
        labels += [k] * len(found)
    words = TfidfVectorizer(min_df=5).fit_transform(pieces)
    X = TruncatedSVD(20, random_state=0).fit_transform(words)
    kept = np.random.default_rng(0).permutation(len(X))[:4000]
    return X[kept], np.array(labels)[kept], 10


DATA = {"digits": digits, "board": board, "modules": modules}


def gain_first(gain, estimate) -> float:
    """Gain of the first fifth of the samples; samples with equal estimates share theirs."""
    _, tie = np.unique(-estimate, return_inverse=True)
    shared = np.bincount(tie, gain)[tie] / np.bincount(tie)[tie]
    cumulated = np.append(0.0, np.cumsum(shared[np.argsort(tie, kind="stable")]))
    return float(np.interp(0.2 * len(gain), np.arange(len(gain) + 1), cumulated))


def error_in_bins(gain, estimate, order) -> float:
    """EECE (P3 Def. 5) in ten bins of samples in the order of another estimate."""
    bins = np.array_split(order, 10)
    return sum(abs(np.sum(gain[rows] - estimate[rows])) for rows in bins) / len(gain)


def one_seed(X, y, trees: int, seed: int) -> dict:
    """Gain of all test samples; by estimate and map that of the first fifth, error, flatness."""
    train, augmented, test = BallCarvingSplit(random_state=seed).split_augmented(X, y)
    forest = RandomForestClassifier(trees, min_samples_leaf=3, random_state=0)
    more = clone(forest).fit(X[augmented], y[augmented]).predict(X[test])
    carve = BallCarvingSplit(random_state=seed + 100)
    found = {}
    for uncertainty in ("mutual_information", "entropy"):
        for way in ("uncalibrated", "paper", "rising"):
            options = {} if way == "uncalibrated" else {"method": way}
            model = EpistemicCalibration(
                forest, uncertainty=uncertainty, splitter=carve, **options
            ).fit(X[train], y[train])
            gain = accuracy_gain(y[test], model.predict(X[test]), more)
            raw = model.predict_uncalibrated(X[test])
            mapped = model.with_bins_of(X[test]).predict_epistemic(X[test])
            e = raw if way == "uncalibrated" else mapped
            error = error_in_bins(gain, e, np.argsort(raw, kind="stable"))
            flat = np.ptp(e) == 0
            found[uncertainty, way] = gain.sum(), gain_first(gain, e), error, flat
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Order and size after calibration.")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--data", choices=DATA, nargs="*", default=list(DATA))
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    print(f"{options.seeds} seeds; share of the gain in the first fifth, EECE, flat maps")
    print(
        f"{'data':10}{'estimate':20}{'map':14}{'share':>7}{'EECE ± standard error':>23}{'flat':>6}"
    )
    for name in options.data:
        X, y, trees = DATA[name]()
        seeds = [one_seed(X, y, trees, seed) for seed in range(options.seeds)]
        for uncertainty, way in seeds[0]:
            total, first, error, flat = np.array([seed[uncertainty, way] for seed in seeds]).T
            spread = error.std(ddof=1) / np.sqrt(len(error))
            shown = f"{error.mean():.4f} ± {spread:.4f}"
            share = first.sum() / total.sum()
            print(f"{name:10}{uncertainty:20}{way:14}{share:7.3f}{shown:>23}{flat.sum():6.0f}")


if __name__ == "__main__":
    main()
