"""Label histograms and class probabilities from files, for the examples that take any model's.

Files are .npy, .npz (with arrays "counts" and "proba") or .csv, whose header names the classes.
"""

import argparse
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from sklearn_lhcal.calibration import PrecomputedClassifier
from sklearn_lhcal.datasets import fetch_cifar10h, make_label_histograms
from sklearn_lhcal.label_histogram import check_counts
from sklearn_lhcal.metrics import expected_accuracy


def command_line(figure: str, description: str) -> argparse.Namespace:
    """The options of an example; without them it runs on digits."""
    figure = Path(os.path.relpath(Path(sys.argv[0]).parent), "output", figure)
    parser = argparse.ArgumentParser(description=description)
    add = parser.add_argument
    add("--counts", metavar="FILE", help="label histograms, shape (n_samples, n_classes)")
    add("--proba", metavar="FILE", help="predicted class probabilities, of the same shape")
    add("--labels", type=int, metavar="M", help="use M labels of each calibration sample")
    add("--epochs", type=int, default=80, help="epochs of training on digits (default: 80)")
    add("--figure", type=Path, default=figure, metavar="FILE")
    options = parser.parse_args()
    if (options.counts is None) != (options.proba is None):
        parser.error("--counts and --proba go together")
    return options


def halves(counts_file: str, proba_file: str, labels: int | None = None):
    """A model that returns its X, and (X, counts) of a random half each to calibrate and to test.

    At most `labels` labels of each calibration sample are kept, drawn at random.
    """
    counts = read(counts_file, "counts")
    proba = with_sums_of_one(read(proba_file, "proba"), proba_file)
    # an error where the names of classes do not fit, or samples are in another order
    expected_accuracy(counts, proba)
    rng = np.random.default_rng(0)
    first, second = np.array_split(rng.permutation(len(counts)), 2)
    calibration = take(counts, first)
    if labels is not None:
        calibration = some_labels(calibration, labels, rng)
    # bare probabilities have the names of the counts
    classes = None if has_names(proba) else check_counts(counts)[1]
    model = PrecomputedClassifier("proba", classes=classes).fit(proba)
    return model, (take(proba, first), calibration), (take(proba, second), take(counts, second))


def cifar10h() -> tuple[str, np.ndarray, np.ndarray]:
    """What it is, counts and class probabilities, both (n, 10): those in the file PREDICTIONS.

    The environment names it: a ``.npy`` file of class probabilities, (10,000, 10), in CIFAR-10's
    order of images and classes, whose label histograms `fetch_cifar10h` downloads once; or an
    ``.npz`` file that holds both, as ``proba`` and ``counts``. Without it, samples are simulated.
    """
    path = os.environ.get("PREDICTIONS")
    if path is None:
        print("PREDICTIONS names no file: simulated samples in place of CIFAR-10H.\n")
        data = make_label_histograms(
            5000, 10, 51, total=8.0, class_sep=4.0, overconfidence=1.5, random_state=0
        )
        return "Simulated samples, no CIFAR-10H", data.counts, data.prediction
    file = np.load(path)
    if isinstance(file, np.ndarray):
        return "CIFAR-10H", fetch_cifar10h().counts, file
    return "CIFAR-10H", file["counts"], file["proba"]


def with_sums_of_one(proba, name: str):
    """Probabilities that sum to 1, where they did so within a hundredth."""
    off = np.abs(proba.sum(axis=1) - 1).max()
    if 1e-6 < off < 1e-2:
        print(f"Rows of {name} sum to 1 within {off:.1e} only: renormalised.")
    return (proba.T / proba.sum(axis=1)).T if off < 1e-2 else proba


def some_labels(counts, n: int, rng):
    """At most n labels of each sample, drawn without replacement; a frame stays one."""
    drawn = counts.copy()
    rows = np.asarray(counts, dtype=int)
    drawn[:] = [rng.multivariate_hypergeometric(y, min(n, y.sum())) for y in rows]
    return drawn


def take(a, rows):
    """Rows of an array or a frame."""
    return a.iloc[rows] if hasattr(a, "iloc") else a[rows]


def has_names(a) -> bool:
    """Whether the columns have names: those that a frame gets by itself, 0, 1, 2, …, are none."""
    return hasattr(a, "columns") and list(a.columns) != list(range(a.shape[1]))


def read(file: str, name: str):
    """An array from .npy, or by name from .npz; a frame from .csv."""
    if file.endswith(".csv"):
        return read_csv(file)
    array = np.load(file)
    return array if file.endswith(".npy") else array[name]


def read_csv(file: str):
    """A frame of numbers. The first line is a header where it starts empty, or has names beyond."""
    line = pd.read_csv(file, header=None, nrows=1, dtype=str, keep_default_na=False)
    corner, *cells = line.loc[0]
    header = not corner.strip() or pd.to_numeric(pd.Series(cells), errors="coerce").isna().any()
    frame = pd.read_csv(file, header=0 if header else None, skipinitialspace=True)
    first = frame.columns[0]
    if not corner.strip() or not pd.api.types.is_numeric_dtype(frame[first]):
        frame = frame.set_index(first)
    if not header:
        frame.columns = range(frame.shape[1])
    return frame.astype(float)
