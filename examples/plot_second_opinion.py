"""
Who needs a second opinion?
===========================

A second rater for every row is expensive, and for most rows a waste. What one more label of a row
is worth can be told beforehand: a predictive distribution over its class probabilities knows how
far the label would move it. This is `second_opinion_value`, the expected drop of the epistemic
loss, the squared distance to the true class probabilities.

It is large where the model does not know what raters would know, and small both where the model is
sure and where raters are split anyway. Two simpler rules are compared with it: the entropy of the
class probabilities, and the predicted probability that two raters disagree. Raters of the test rows
tell what was really gained.

The same for the saved predictions of any model on any data with several labels per row::

    python examples/plot_second_opinion.py --counts counts.npy --proba proba.npy

Files are .npy, .npz (with arrays "counts" and "proba") or .csv, whose header names the classes:
where both have names, they meet by name. A first column without a name or numbers names the rows.
"""

# %%
# The model
# ---------
# Digits, a third of which are two digits mixed, on which raters are split. And half of the images
# reach the model as thumbnails of 2 x 2 pixels only, while raters see the originals: there a label
# tells it much. Any classifier will do: here logistic regression on kernel features, trained on one
# label per row. Temperature scaling and α-calibration, on two labels per row, put a Dirichlet
# distribution around each prediction, whose concentration may depend on any feature of the row:
# whether it is a thumbnail.
import argparse
import os
import sys
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from sklearn_lhcal.calibration import AlphaCalibration, PrecomputedClassifier, TemperatureScaling
from sklearn_lhcal.datasets import load_mixed_digits
from sklearn_lhcal.display import SecondOpinionDisplay
from sklearn_lhcal.label_histogram import check_counts
from sklearn_lhcal.metrics import expected_accuracy


def thumbnails(X: np.ndarray, rng) -> np.ndarray:
    """The images with a random half of them reduced to 2 x 2 grey squares."""
    blocks = X.reshape(-1, 2, 4, 2, 4)  # image, row and row in it, column and column in it
    small = np.broadcast_to(blocks.mean(axis=(2, 4), keepdims=True), blocks.shape).reshape(X.shape)
    return np.where(rng.random((len(X), 1)) < 0.5, small, X)


def is_thumbnail(X: np.ndarray) -> np.ndarray:
    """The feature for α-calibration, shape (n, 1): 1 where the squares are uniform."""
    return (np.ptp(X.reshape(-1, 2, 4, 2, 4), axis=(2, 4)).max(axis=(1, 2)) < 1e-9).astype(float)[
        :, None
    ]


def digits():
    """A calibrated model, and (X, counts) for the test."""
    data, rng = load_mixed_digits(raters=2), np.random.default_rng(0)
    train, calibration, test = (
        thumbnails(data[f"X_{part}"], rng) for part in ("train", "validation", "test")
    )
    kernel = Nystroem(gamma=0.1, n_components=300, random_state=0)
    classifier = make_pipeline(kernel, LogisticRegression(C=10, max_iter=1000))
    classifier.fit(train, data.counts_train.argmax(axis=1))
    model = AlphaCalibration(TemperatureScaling(FrozenEstimator(classifier)), features=is_thumbnail)
    return model.fit(calibration, data.counts_validation), test, data.counts_test


# %%
# Predictions of another model
# ----------------------------
# X holds class probabilities. A random half of the rows calibrates, the other tests.
def saved(counts_file: str, proba_file: str):
    """The same from two files."""
    counts, proba = read(counts_file, "counts"), read(proba_file, "proba")
    # an error where the names of classes do not fit, or rows are in another order
    expected_accuracy(counts, proba)
    calibration, test = np.array_split(np.random.default_rng(0).permutation(len(counts)), 2)
    # bare probabilities have the names of the counts
    classes = None if has_names(proba) else check_counts(counts)[1]
    classifier = PrecomputedClassifier("proba", classes=classes)
    model = AlphaCalibration(TemperatureScaling(classifier))
    model.fit(take(proba, calibration), take(counts, calibration))
    return model, take(proba, test), take(counts, test)


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
    import pandas as pd

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


# %%
# Three rules
# -----------
# The left panel shows the gain itself, in the order of the rule that knows its size. The dashed
# line is known before anyone is asked: where it flattens, further labels are wasted, and a price
# per label says where to stop. It can be believed as far as the solid one follows it.
#
# The right panel compares the rules, each by its share of the gain of asking about every row.
# Disagreement sends the mixed digits to the raters, who are split on them and have little to tell:
# worse than drawing rows at random. Entropy finds the thumbnails, as there are ten digits to be
# unsure of and two in a mixture, but not what they are worth.
RULES = ["second_opinion_value", "entropy", "disagreement"]
FRACTIONS = [0.01, 0.05, 0.1, 0.2]
FIGURE = Path(os.path.relpath(Path(sys.argv[0]).parent), "output", "second_opinion.png")


def figure(model, X, counts):
    """The figure; the display of its left panel, and those of the rules."""
    _, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
    gain = SecondOpinionDisplay.from_estimator(
        model, X, counts, name="by second opinion value", ax=left
    )
    shares = [
        SecondOpinionDisplay.from_estimator(
            model,
            X,
            counts,
            rule=rule,
            normalize=True,
            name=f"by {rule.replace('_', ' ')}",
            ax=right,
            plot_expected=False,
        )
        for rule in RULES
    ]
    return gain, shares


def table(shares) -> str:
    """Share of the gain, ± standard error, in the rows that each rule refers first."""
    lines = [f"{'':24}" + "".join(f"{f'first {fraction:.0%}':>16}" for fraction in FRACTIONS)]
    for display in shares:
        values = (
            100 * np.interp(FRACTIONS, display.fraction, c)
            for c in (display.realised_gain, display.standard_error)
        )
        lines.append(
            f"{display.name:24}"
            + "".join(f"{v:8.1f} ± {s:3.1f} %" for v, s in zip(*values, strict=True))
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Which rows to refer to a second rater, and what is gained."
    )
    parser.add_argument(
        "--counts", metavar="FILE", help="label histograms, shape (n_samples, n_classes)"
    )
    parser.add_argument(
        "--proba", metavar="FILE", help="predicted class probabilities, of the same shape"
    )
    parser.add_argument("--figure", type=Path, default=FIGURE, metavar="FILE")
    options = parser.parse_args()
    if (options.counts is None) != (options.proba is None):
        parser.error("--counts and --proba go together")
    matplotlib.use("Agg")
    model, X, counts = digits() if options.counts is None else saved(options.counts, options.proba)
    gain, shares = figure(model, X, counts)
    print(f"One more label for each of the {len(counts)} test rows lowers the epistemic loss by")
    expected, realised, error = (
        gain.expected_gain[-1],
        gain.realised_gain[-1],
        gain.standard_error[-1],
    )
    print(f"{expected:.4f} as expected, {realised:.4f} ± {error:.4f} in fact.\n")
    print("Share of that in the rows referred first, ± standard error")
    print(table(shares))
    options.figure.parent.mkdir(parents=True, exist_ok=True)
    gain.figure_.savefig(options.figure, dpi=150)
    print(f"\nFigure: {options.figure}")


if __name__ == "__main__":
    main()
