"""
Do the experts disagree, or is the model unsure?
================================================

A network that says "70 %" may mean that it is unsure, or that experts are split. With several
labels on the rows it is calibrated on, the two can be told apart. This example trains a small
convolutional network on digits, half of them mixed in pairs so that raters have something to
disagree on, calibrates it, and shows what that changes:

- temperature scaling (TS) makes the class probabilities right on average;
- α-calibration (α) adds a Dirichlet distribution around them: how far they can be trusted.

The same for the saved predictions of any model on any data with several labels per row::

    python examples/plot_quickstart.py --counts counts.npy --proba proba.npy

Files are .npy, .npz (with arrays "counts" and "proba") or .csv, whose header names the classes:
where both have names, they meet by name. A first column without a name or numbers names the rows.
A random half of the rows serves for calibration, the other for the table.
"""

# %%
# The model
# ---------
# One label per training row, two labels per calibration row, ten per test row. The network is
# frozen: all calibration rows go to the calibrators.
import argparse
import os
import sys
from pathlib import Path

import matplotlib
import numpy as np
import torch
from sklearn.frozen import FrozenEstimator
from torch import nn

from sklearn_lhcal.calibration import AlphaCalibration, PrecomputedClassifier, TemperatureScaling
from sklearn_lhcal.datasets import load_mixed_digits
from sklearn_lhcal.display import DisagreementReliabilityDisplay
from sklearn_lhcal.distributions import predict_dist
from sklearn_lhcal.label_histogram import check_counts
from sklearn_lhcal.metrics import (
    calibration_error,
    confidence_interval,
    disagreement_calibration_error,
    disagreement_squared_loss,
    epistemic_loss,
    expected_accuracy,
    expected_squared_loss,
    posterior_epistemic_loss,
)
from sklearn_lhcal.neural_network import NeuralClassifier


def small_network() -> nn.Module:
    """Three convolutions on 8 x 8 pixels, then an average over the image.

    All is in float64, from the first weights on. In float32 the last bit differs between
    processors, and training blows it up: CE came out anywhere within .05.
    """
    f64 = torch.float64
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 32, 3, padding=1, dtype=f64),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1, dtype=f64),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(64, 128, 3, padding=1, dtype=f64),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(128, 10, dtype=f64),
    )


def digits(epochs: int):
    """A trained network, and (X, counts) for calibration and for the test."""
    data = load_mixed_digits(raters=2)
    torch.set_num_threads(1)  # a network so small is no slower so
    net = NeuralClassifier(small_network, lr=1e-3, batch_size=32, max_epochs=epochs, random_state=0)
    net.fit(data.X_train, data.counts_train)
    return net, (data.X_validation, data.counts_validation), (data.X_test, data.counts_test)


# %%
# Predictions of another model
# ----------------------------
def saved(counts_file: str, proba_file: str, labels: int | None):
    """The same from two files; `labels` of each calibration row are kept, drawn at random."""
    counts, proba = read(counts_file, "counts"), read(proba_file, "proba")
    off = np.abs(proba.sum(axis=1) - 1).max()
    if 1e-6 < off < 1e-2:
        print(f"Rows of {proba_file} sum to 1 within {off:.1e} only: renormalised.")
    if off < 1e-2:
        proba = (proba.T / proba.sum(axis=1)).T
    # an error where the names of classes do not fit, or rows are in another order
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


def some_labels(counts, n: int, rng):
    """At most n labels of each row, drawn without replacement; a frame stays one."""
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
# Four models, one table
# ----------------------
# EL′ is the epistemic loss after one expert has given one label and the model has learnt from it.
COLUMNS = {
    "Acc": expected_accuracy,
    "L": expected_squared_loss,
    "EL": epistemic_loss,
    "CE": calibration_error,
    "L_φ": disagreement_squared_loss,
    "CE_φ": disagreement_calibration_error,
    "EL′": posterior_epistemic_loss,
}


def calibrated(model, X, counts) -> dict:
    """Raw, Raw+α, TS and TS+α, fitted on the calibration rows."""
    frozen = FrozenEstimator(model)
    return {
        "Raw": frozen,
        "Raw+α": AlphaCalibration(frozen).fit(X, counts),
        "TS": TemperatureScaling(frozen).fit(X, counts),
        "TS+α": AlphaCalibration(TemperatureScaling(frozen)).fit(X, counts),
    }


def table(models: dict, X, counts) -> str:
    """One row a model, one column a metric, and below each number the ends of its 90 % interval."""
    lines = [f"{'':6}" + "".join(f"{name:>17}" for name in COLUMNS)]
    for name, model in models.items():
        prediction = predict_dist(model, X)
        options = {"confidence_level": 0.9, "random_state": 0}
        cells = [confidence_interval(m, counts, prediction, **options) for m in COLUMNS.values()]
        lines.append(f"{name:6}" + "".join(f"{c.estimate:17.4f}" for c in cells))
        lines.append(f"{'':6}" + "".join(f"{f'{c.low:.3f} – {c.high:.3f}':>17}" for c in cells))
    return "\n".join(lines)


LEGEND = """
Acc   expected accuracy (larger is better; all else: smaller is better)
L     expected squared loss of the class probabilities
EL    its avoidable part, the distance from the true probabilities
CE    calibration error of the class probabilities
L_φ   squared loss of the predicted probability that two raters disagree; CE_φ its calibration error
EL′   epistemic loss after one expert label
All are corrected for the small number of raters and rows.
A corrected error below 0 says "not above the noise"."""


# %%
# The figure: predicted against observed disagreement
# ---------------------------------------------------
FIGURE = Path(os.path.relpath(Path(sys.argv[0]).parent), "output", "quickstart.png")


def figure(models: dict, X, counts, file: Path) -> None:
    """Reliability of predicted disagreement, raw against TS+α."""
    display = None
    for name in ("Raw", "TS+α"):
        display = DisagreementReliabilityDisplay.from_predictions(
            counts,
            predict_dist(models[name], X),
            name=name,
            n_bins=8,
            strategy="quantile",
            ax=display and display.ax_,
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    display.figure_.savefig(file, dpi=150, bbox_inches="tight")
    print(f"\nFigure: {file}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Calibrated disagreement, on digits or on the outputs of any model."
    )
    parser.add_argument(
        "--counts", metavar="FILE", help="label histograms, shape (n_samples, n_classes)"
    )
    parser.add_argument(
        "--proba", metavar="FILE", help="predicted class probabilities, of the same shape"
    )
    parser.add_argument(
        "--labels",
        type=int,
        metavar="M",
        help="use M labels of each calibration row (default: all)",
    )
    parser.add_argument(
        "--epochs", type=int, default=100, help="epochs of training on digits (default: 100)"
    )
    parser.add_argument("--figure", type=Path, default=FIGURE, metavar="FILE")
    options = parser.parse_args()
    if (options.counts is None) != (options.proba is None):
        parser.error("--counts and --proba go together")
    matplotlib.use("Agg")
    if options.counts is None:
        model, calibration, test = digits(options.epochs)
    else:
        model, calibration, test = saved(options.counts, options.proba, options.labels)
    models = calibrated(model, *calibration)
    print(f"{len(calibration[1])} rows for calibration, {len(test[1])} for the test\n")
    print(table(models, *test))
    print(LEGEND)
    figure(models, *test, options.figure)


if __name__ == "__main__":
    main()
