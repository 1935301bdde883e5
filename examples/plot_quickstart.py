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
# What can be asked for
# ---------------------
# Without options the program runs on digits.
import argparse
import os
import sys
import warnings
from pathlib import Path

FIGURE = Path(os.path.relpath(Path(sys.argv[0]).parent), "output", "quickstart.png")

parser = argparse.ArgumentParser(
    description="Calibrated disagreement, on digits or on the outputs of any model."
)
add = parser.add_argument
add("--counts", metavar="FILE", help="label histograms, shape (n_samples, n_classes)")
add("--proba", metavar="FILE", help="predicted class probabilities, of the same shape")
add("--labels", type=int, metavar="M", help="use M labels of each calibration row (default: all)")
add("--epochs", type=int, default=100, help="epochs of training on digits (default: 100)")
add("--figure", type=Path, default=FIGURE, metavar="FILE")
options = parser.parse_args()
if (options.counts is None) != (options.proba is None):
    parser.error("--counts and --proba go together")

# %%
# The model
# ---------
# One label per training row, two labels per calibration row, ten per test row. The images of the
# calibration part are mixed ten times over: 359 of them make 2,693 rows, as a Dirichlet
# distribution asks for more rows than a temperature. The test rows are mixed once, as intervals are
# for independent rows. The network, which other examples train too:
#
# .. literalinclude:: ../../examples/small_network.py
#    :pyobject: small_network
#
# Here all of it is in float64, from the first weights on. In float32 the last bit differs between
# processors, and training blows it up.
import matplotlib
import numpy as np
import torch
from saved_predictions import halves
from sklearn.datasets import load_digits
from small_network import small_network

from sklearn_lhcal.datasets import load_mixed_digits, make_mixed_images
from sklearn_lhcal.neural_network import NeuralClassifier

matplotlib.use("Agg")

if options.counts is None:
    data = load_mixed_digits()
    torch.set_num_threads(1)  # a network so small is no slower so
    model = NeuralClassifier(
        small_network,
        module__dtype=torch.float64,
        lr=1e-3,
        batch_size=32,
        max_epochs=options.epochs,
        random_state=0,
    )
    model.fit(data.X_train, data.counts_train)
    digits = load_digits()
    images = np.tile(np.unique(data.indices_validation), 10)
    calibration = make_mixed_images(
        digits.data[images] / 16, digits.target[images], 2, random_state=0
    )
    X, counts = calibration.X, calibration.counts
    X_test, counts_test = data.X_test, data.counts_test
else:
    model, (X, counts), (X_test, counts_test) = halves(
        options.counts, options.proba, options.labels
    )
print(f"{len(counts)} rows for calibration, {len(counts_test)} for the test\n")

# %%
# Four predictions
# ----------------
# The network is frozen: all calibration rows go to the calibrators.
from sklearn.frozen import FrozenEstimator

from sklearn_lhcal.calibration import AlphaCalibration, TemperatureScaling
from sklearn_lhcal.distributions import predict_dist

# Raw probabilities are too sure of themselves, and α-calibration says so. Here it is the point.
warnings.filterwarnings("ignore", "Raters of the calibration rows disagree")
frozen = FrozenEstimator(model)
models = {
    "Raw": frozen,
    "Raw+α": AlphaCalibration(frozen).fit(X, counts),
    "TS": TemperatureScaling(frozen).fit(X, counts),
    "TS+α": AlphaCalibration(TemperatureScaling(frozen)).fit(X, counts),
}
predictions = {name: predict_dist(model, X_test) for name, model in models.items()}

# %%
# One table
# ---------
# One row a model, one column a metric, and below each number the ends of its 95 % interval. EL′ is
# the epistemic loss after one expert has given one label and the model has learnt from it.
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

METRICS = {
    "Acc": expected_accuracy,
    "L": expected_squared_loss,
    "EL": epistemic_loss,
    "CE": calibration_error,
    "L_φ": disagreement_squared_loss,
    "CE_φ": disagreement_calibration_error,
    "EL′": posterior_epistemic_loss,
}
print(f"{'':6}" + "".join(f"{name:>17}" for name in METRICS))
for name, prediction in predictions.items():
    intervals = [
        confidence_interval(metric, counts_test, prediction, random_state=0)
        for metric in METRICS.values()
    ]
    print(f"{name:6}" + "".join(f"{i.estimate:17.4f}" for i in intervals))
    print(f"{'':6}" + "".join(f"{f'{i.low:.3f} – {i.high:.3f}':>17}" for i in intervals))

print("""
Acc   expected accuracy (larger is better; all else: smaller is better)
L     expected squared loss of the class probabilities
EL    its avoidable part, the distance from the true probabilities
CE    calibration error of the class probabilities
L_φ   squared loss of the predicted probability that two raters disagree; CE_φ its calibration error
EL′   epistemic loss after one expert label
All are corrected for the small number of raters and rows.
A corrected error below 0 says "not above the noise".""")

# %%
# One figure: predicted against observed disagreement
# ---------------------------------------------------
# Reliability of predicted disagreement, raw against TS+α.
from colours import CALIBRATED, RAW

from sklearn_lhcal.display import DisagreementReliabilityDisplay

ax = None
for name, color in (("Raw", RAW), ("TS+α", CALIBRATED)):
    display = DisagreementReliabilityDisplay.from_predictions(
        counts_test,
        predictions[name],
        name=name,
        n_bins=6,
        ax=ax,
        line_kwargs={"color": color},
    )
    ax = display.ax_

options.figure.parent.mkdir(parents=True, exist_ok=True)
display.figure_.savefig(options.figure, dpi=150, bbox_inches="tight")
print(f"\nFigure: {options.figure}")

# %%
# The intervals of TS+α reach the diagonal. The raw network lies below it where it predicts much
# disagreement: there is less.

# %%
# One page
# --------
# A report says the same of the raw network in words and pictures, for people who read no code.
from sklearn_lhcal.report import report

page = report(counts_test, predictions["Raw"]).save(options.figure.parent / "report")
print(f"Page: {page}")
