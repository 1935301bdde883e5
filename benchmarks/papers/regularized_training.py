"""Training with a calibration penalty.

Does it help to put the calibration error into the training objective? Accuracy against calibration
error over the weight λ of the penalty, as in Fig. 4 and Table 4 of Popordanoska, Sayer and Blaschko
(2022), A consistent and differentiable Lp canonical calibration error estimator, on mixed digits.

- cross-entropy: no penalty; focal, focal 5/3: the focal loss with γ = 3, and with γ = 5 for labels
  of probability below 0.2, in place of it;
- MMCE: with the weighted maximum mean calibration error of the top class;
- kernel, plug-in: with the paper's estimate of the canonical L1 calibration error on the batch, at
  the most likely bandwidth of each batch;
- kernel, residual: with the form of this package, p = 2, which is 0 on average for a calibrated
  network.

``FULL=1`` in the environment repeats everything on ten random splits of the data, with a finer grid
of λ."""

import os
import sys
from functools import partial
from pathlib import Path

import numpy as np
import torch
from scipy.stats import t as student
from torch import nn

from sklearn_lhcal.datasets import load_mixed_digits
from sklearn_lhcal.metrics import (
    confidence_interval,
    expected_accuracy,
    kernel_calibration_error,
    label_log_loss,
    loo_bandwidth,
    null_calibration_error,
    paired_difference,
)
from sklearn_lhcal.neural_network import KernelCalibrationPenalty, MMCEPenalty, NeuralClassifier

# what benchmarks share
sys.path.insert(0, str(Path(__file__).parents[1]))
from lib.small_network import small_network

# The networks.
# One hidden layer, 300 training samples with one label each, and many epochs: without a penalty the
# network is overconfident. 540 test samples with ten labels each.
torch.set_num_threads(1)  # networks so small are no slower so
FULL = os.environ.get("FULL") == "1"
SPLITS = 10 if FULL else 1
PUBLISHED = [0.001, 0.01, 0.05, 0.1, 0.2] if FULL else [0.01, 0.2]

PENALTIES = {
    "MMCE": MMCEPenalty(weighted=True),
    "kernel, plug-in": KernelCalibrationPenalty(1, "loo", bias_correction=None),
    "kernel, residual": KernelCalibrationPenalty(),
}
GRIDS = {
    "MMCE": [*PUBLISHED, 1],
    "kernel, plug-in": PUBLISHED,
    "kernel, residual": [0.2, 1, 3, 5] if FULL else [0.2, 1, 3],
}
# by (name, λ)
MODELS = {
    ("cross-entropy", 0): {},
    ("focal", 0): {"loss": "focal"},
    ("focal 5/3", 0): {"loss": "focal_53"},
}
for name, penalty in PENALTIES.items():
    for w in GRIDS[name]:
        MODELS[name, w] = {"regularizer": penalty, "regularizer_weight": w}
REFERENCE = ("cross-entropy", 0)


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


# by split: test counts, and the test probabilities of every model
counts, proba = [], []
for seed in range(SPLITS):
    data = load_mixed_digits(raters=10, random_state=seed)
    X, y = data.X_train[:300], data.counts_train[:300]
    # nothing is chosen on the validation samples: they test
    X_test = np.vstack([data.X_test, data.X_validation])
    counts.append(np.vstack([data.counts_test, data.counts_validation]))
    proba.append({})
    for model, options in MODELS.items():
        net = NeuralClassifier(perceptron, lr=5e-3, max_epochs=60, random_state=seed, **options)
        proba[seed][model] = net.fit(X, y).predict_proba(X_test)

# What is measured.
# Accuracy, log loss per label, and three calibration errors: the canonical L1 error as it was
# published, by the plug-in at the most likely bandwidth; and the squared errors, canonical and of
# the top class, by the residual form, whose mean is 0 for a calibrated network. The plug-in's is
# not: what it would be is estimated from labels drawn from the predictions themselves (the null
# level).
PLUGIN = {"p": 1, "bias_correction": None}
published = partial(kernel_calibration_error, bandwidth="loo", **PLUGIN)
residual = partial(kernel_calibration_error, p=2, bandwidth=0.05, bias_correction="residual")
METRICS = {
    "accuracy": expected_accuracy,
    "log loss": label_log_loss,
    "canonical L1": published,
    "canonical": residual,
    "top class": partial(residual, kind="top_label"),
}

# One line a model.
# Estimates, each with half its 95% interval. The intervals: jackknife, of the one network on these
# test samples; with ``FULL=1`` Student's, over the ten splits.
JACKKNIFE = {"n_blocks": 20, "random_state": 0}


def student_interval(values: list) -> tuple[float, float, float]:
    mean = np.mean(values)
    half = student.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5
    return mean, mean - half, mean + half


def interval(model, metric) -> tuple[float, float, float]:
    """Estimate and its 95% interval."""
    z = [p[model] for p in proba]
    metrics = [metric] * SPLITS
    if metric is published:
        # one bandwidth for a model, so that it is not sought for every block
        metrics = [partial(metric, bandwidth=loo_bandwidth(p)) for p in z]
    if FULL:
        return student_interval([m(y, p) for m, y, p in zip(metrics, counts, z, strict=True)])
    return confidence_interval(metrics[0], counts[0], z[0], **JACKKNIFE)[:3]


def title(model) -> str:
    return f"{model[0]}, λ = {model[1]:g}" if model[1] else model[0]


results = {
    model: {name: interval(model, metric) for name, metric in METRICS.items()} for model in MODELS
}
print(f"{'':26}" + "".join(f"{name:>17}" for name in METRICS))
for model, row in results.items():
    cells = [f"{value:9.4f} ±{(high - low) / 2:.4f} " for value, low, high in row.values()]
    print(f"{title(model):26}" + "".join(cells))

# Against cross-entropy alone. The change on the same samples. On one split (540 test samples)
# intervals are as wide as the differences between most methods; only paired differences tell
# anything. There λ = 3 of the residual form lowers the log loss; the interval for the error of the
# top class reaches 0.


def difference(model, metric) -> tuple[float, float, float]:
    """Change against cross-entropy alone, on the same samples, and its 95% interval."""
    if FULL:
        return student_interval(
            [
                metric(y, p[model]) - metric(y, p[REFERENCE])
                for y, p in zip(counts, proba, strict=True)
            ]
        )
    (y,), (p,) = counts, proba
    return paired_difference(metric, y, p[model], p[REFERENCE], **JACKKNIFE)[:3]


names = ["accuracy", "log loss", "top class"]
print("\nChange against cross-entropy, and its 95% interval")
print(f"{'':26}" + "".join(f"{name:>30}" for name in names))
others = [model for model in MODELS if model != REFERENCE]
changes = {model: [difference(model, METRICS[name]) for name in names] for model in others}
for model, found in changes.items():
    cells = [f"{d:+11.4f} ({low:+0.4f}, {high:+0.4f})" for d, low, high in found]
    print(f"{title(model):26}" + "".join(cells))

# What a penalty costs.
# Time of a step, in the shortest of a few epochs, for a convolutional network and for the
# perceptron above. A penalty takes a few milliseconds a batch, most where it seeks its bandwidth,
# whatever the network: a tenth or a fifth of what these convolutions take, and more than all that a
# perceptron of one hidden layer does.

convolutions = partial(small_network, widths=(64, 128, 128), dropout=0.0)

data = load_mixed_digits()
X, y = data.X_train[:320], data.counts_train[:320]
print(f"\n{'ms per batch of 64 samples':26}{'convolutions':>15}{'perceptron':>15}")
for name, penalty in {"cross-entropy": None, **PENALTIES}.items():
    line = f"{name:26}"
    for module, epochs in ((convolutions, 4), (perceptron, 20)):
        net = NeuralClassifier(module, max_epochs=epochs, regularizer=penalty, random_state=0)
        net.fit(X, y)
        line += f"{1000 * min(net.history_[:, 'dur']) / 5:15.1f}"
    print(line)

# What a calibrated network would get.
# Most of the published measure is no error: a calibrated network with the predictions of
# cross-entropy alone would have 0.24 of its 0.25.
null_level = np.mean(
    [
        null_calibration_error(y, p[REFERENCE], bandwidth="loo", **PLUGIN, random_state=0).mean
        for y, p in zip(counts, proba, strict=True)
    ]
)
print(f"\nCanonical L1 error of the cross-entropy network, were it calibrated: {null_level:.3f}\n")
