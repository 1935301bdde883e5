"""
Quickstart: calibrate a network and predict disagreement
========================================================

Calibration lowers the log loss of a small network from 0.467 to 0.395, and α-calibration the error
of its predicted disagreement from 0.130 to 0.032. The network is trained on digits; half of the
images are mixtures of two digits, so that the simulated raters disagree about them. Three
calibrators are compared with the uncalibrated network:

- temperature scaling (one number) and `StackedCalibration` (a mixture of scaling methods) correct
  the class probabilities;
- `AlphaCalibration` adds a Dirichlet distribution, which predicts how often two raters disagree.

For saved predictions of any model, :doc:`/quickstart` does the same with two arrays, and
:doc:`/guide/report` with two files.
"""

# %%
# Train the network
# -----------------
# A training image has one label, a calibration image two, and a test image ten. The images of the
# calibration part are mixed ten times over, which makes 2,693 samples. The network is trained in
# float64: in float32 the last bit differs between processors, and training enlarges the difference.
from functools import partial

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from sklearn_lhcal.datasets import load_mixed_digits, make_mixed_images
from sklearn_lhcal.neural_network import NeuralClassifier


def small_network() -> nn.Module:
    """Three convolutions on 8 x 8 pixels, then an average over the image."""
    convolution = partial(nn.Conv2d, kernel_size=3, padding=1, dtype=torch.float64)
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        *(convolution(1, 16), nn.ReLU()),
        *(convolution(16, 32), nn.ReLU(), nn.MaxPool2d(2)),
        *(convolution(32, 96), nn.ReLU(), nn.AdaptiveAvgPool2d(1)),
        *(nn.Flatten(), nn.Dropout(0.5), nn.Linear(96, 10, dtype=torch.float64)),
    )


data = load_mixed_digits()
torch.set_num_threads(1)  # a network so small is no slower so
model = NeuralClassifier(small_network, lr=1e-3, batch_size=32, max_epochs=80, random_state=0)
model.fit(data.X_train, data.counts_train)

digits = load_digits()
images = np.tile(np.unique(data.indices_validation), 10)
calibration = make_mixed_images(digits.data[images] / 16, digits.target[images], 2, random_state=0)
X, counts = calibration.X, calibration.counts
X_test, counts_test = data.X_test, data.counts_test
print(f"{len(counts)} calibration samples, {len(counts_test)} test samples\n")

# %%
# Calibrate
# ---------
# The network is frozen, so that it is not trained again and all calibration samples go to the
# calibrators.
from sklearn.frozen import FrozenEstimator

from sklearn_lhcal.calibration import AlphaCalibration, StackedCalibration, TemperatureScaling
from sklearn_lhcal.distributions import predict_dist

frozen = FrozenEstimator(model)
models = {
    "uncalibrated": frozen,
    "temperature": TemperatureScaling(frozen).fit(X, counts),
    "stacked": StackedCalibration(frozen).fit(X, counts),
    "stacked + α": AlphaCalibration(StackedCalibration(frozen)).fit(X, counts),
}
predictions = {name: predict_dist(model, X_test) for name, model in models.items()}

# %%
# Evaluate
# --------
# One metric per column, with its 95% confidence interval below. Accuracy is better when large, all
# other metrics when small. An estimate below 0 is not distinguishable from 0.
from sklearn_lhcal.metrics import (
    calibration_error,
    confidence_interval,
    disagreement_calibration_error,
    expected_accuracy,
    expected_squared_loss,
    label_log_loss,
    paired_difference,
    posterior_epistemic_loss,
)

METRICS = {
    "accuracy": expected_accuracy,
    "log loss": label_log_loss,
    "Brier score": expected_squared_loss,
    "calibration": calibration_error,
    "disagreement": disagreement_calibration_error,
    "after a label": posterior_epistemic_loss,
}
print(f"{'':13}" + "".join(f"{name:>16}" for name in METRICS))
for name, prediction in predictions.items():
    intervals = [
        confidence_interval(metric, counts_test, prediction, random_state=0)
        for metric in METRICS.values()
    ]
    print(f"{name:13}" + "".join(f"{i.estimate:16.3f}" for i in intervals))
    print(f"{'':13}" + "".join(f"{f'{i.low:.3f} – {i.high:.3f}':>16}" for i in intervals))

print("""
calibration    calibration error of the class probabilities
disagreement   calibration error of the predicted probability that two raters disagree
after a label  epistemic loss (Brier score minus disagreement) after one more label
""")

# %%
# Two predictions for the same samples are compared by the interval of their difference.
for metric in (label_log_loss, disagreement_calibration_error):
    change = paired_difference(
        metric, counts_test, predictions["stacked + α"], predictions["uncalibrated"], random_state=0
    )
    print(f"{metric.__name__}: {change.estimate:.3f} ({change.low:.3f} – {change.high:.3f})")

# %%
# Predicted against observed disagreement
# ---------------------------------------
# Each point is a bin of test samples, and its bar a 95% confidence interval.
from pathlib import Path

from sklearn_lhcal.display import ReliabilityDisplay

folder = Path("output")
folder.mkdir(exist_ok=True)

ax = None
for name, color in (("uncalibrated", "#0072B2"), ("stacked + α", "#009E73")):
    display = ReliabilityDisplay.from_predictions(
        counts_test,
        predictions[name],
        kind="disagreement",
        name=name,
        n_bins=6,
        ax=ax,
        line_kwargs={"color": color},
    )
    ax = display.ax_

display.figure_.savefig(folder / "quickstart.png", dpi=150, bbox_inches="tight")

# %%
# Where the uncalibrated network is unsure it predicts two to three times as much disagreement as
# there is. The intervals of "stacked + α" reach the diagonal.

# %%
# A report
# --------
# The report says the same of the uncalibrated network in words and figures, for people who do not
# read code.
from sklearn_lhcal.report import report

page = report(counts_test, predictions["uncalibrated"]).save(folder / "report")
print(f"Report: {page.as_posix()}")
