"""
Canonical calibration error by kernels
======================================

Is the whole probability vector right, not only its largest entry? Popordanoska, Sayer and Blaschko
(2022) smooth labels with Dirichlet kernels and compare. Here are their convergence, debiasing and
bandwidth experiments (Fig. 2 and 3), with the two corrections of this package beside their
estimate.

``FULL=1`` in the environment goes to 20 000 rows and repeats everything more often.
"""

# %%
# Predictions with a known error
# ------------------------------
# Points are uniform on the simplex and sharpened with the temperature .6; labels are drawn from
# them. Sharpened once more, they are the predictions: E[y|z] is known, and the error is an integral
# over it, here a mean over 10⁶ points.
import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from colours import BLUE, ORANGE, VERMILLION

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.display import SimplexCalibrationDisplay
from sklearn_lhcal.metrics import (
    binned_canonical_error,
    kernel_calibration_error,
    kernel_sharpness,
    loo_bandwidth,
    null_calibration_error,
)

torch.set_num_threads(1)  # problems this small are no slower so
FULL = os.environ.get("FULL") == "1"
SIZES = [100, 200, 500, 1000, 2000, 5000, 10_000, 20_000] if FULL else [100, 200, 500, 1000, 2000]
DRAWS = 20 if FULL else 5
TRUTH = {"color": "black", "linewidth": 1, "linestyle": (0, (4, 2))}
POINTS = {"marker": "o", "markersize": 4, "capsize": 2}
FOLDER = Path(os.path.relpath(Path(sys.argv[0]).parent), "output")
FOLDER.mkdir(exist_ok=True)


def sharpened(q: np.ndarray, temperature: float = 0.6) -> np.ndarray:
    z = q ** (1 / temperature)
    return z / z.sum(axis=1, keepdims=True)


def problem(n: int, n_classes: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies E[y|z] and predictions z."""
    q = sharpened(rng.dirichlet(np.ones(n_classes), size=n))
    return q, sharpened(q)


def truth(n_classes: int) -> float:
    q, z = problem(1_000_000, n_classes, np.random.default_rng(0))
    return float(((q - z) ** 2).sum(axis=1).mean())


def save(figure, name: str) -> None:
    for ax in figure.axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", color="0.93")
    figure.savefig(FOLDER / f"{name}.png", dpi=150)
    print(f"Figure: {FOLDER / name}.png\n")


# %%
# Convergence
# -----------
# The binned estimate has more cells than rows and does not come down. The published kernel estimate
# compares smoothed labels with unsmoothed predictions and starts several times too large. The
# residual correction smooths what is left of the label after the prediction; its mean is 0 for a
# calibrated predictor whatever n, and it loses some of the error by smoothing. The second-order
# estimate, at the bandwidth that predicts left-out residuals best, loses least. Errors are shown on
# a scale that is linear up to .05, as estimates may be negative.


def estimates(y, z) -> dict:
    """Four estimates of the canonical error, p = 2, by name."""
    h = loo_bandwidth(z)
    error = kernel_calibration_error
    return {
        "triangular bins (Doane)": binned_canonical_error(y, z, p=2),
        "kernel, published": error(y, z, p=2, bandwidth=h, bias_correction=None),
        "kernel, residual": error(y, z, p=2, bandwidth=h, bias_correction="residual"),
        "kernel, second order": error(y, z, p=2, bandwidth="cv", bias_correction="second_order"),
    }


COLORS = {
    "triangular bins (Doane)": "0.6",
    "kernel, published": VERMILLION,
    "kernel, residual": ORANGE,
    "kernel, second order": BLUE,
}


def scale_of_errors(ax) -> None:
    ax.set(xscale="log", ylabel="Canonical error, p = 2 (squared probability)")
    ax.set_yscale("symlog", linthresh=0.05)
    ax.set_yticks([0, 0.02, 0.05, 0.1, 0.2, 0.5], ["0", ".02", ".05", ".1", ".2", ".5"])
    ax.set_ylim(bottom=-0.005)


figure, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
for ax, n_classes in zip(axes, (4, 8), strict=True):
    values = {name: np.empty((len(SIZES), DRAWS)) for name in COLORS}
    for i, n in enumerate(SIZES):
        for draw in range(DRAWS):
            rng = np.random.default_rng(draw)
            q, z = problem(n, n_classes, rng)
            for name, value in estimates(rng.multinomial(1, q), z).items():
                values[name][i, draw] = value

    true = truth(n_classes)
    print(f"{n_classes} classes, true error {true:.4f}; mean estimates (standard error)")
    print(f"{'':26}" + "".join(f"{n:>17,}" for n in SIZES))
    ax.axhline(true, label="truth", **TRUTH)
    for name, v in values.items():
        mean, error = v.mean(axis=1), v.std(axis=1, ddof=1) / np.sqrt(DRAWS)
        cells = [f"{m:8.4f} ({e:.4f})" for m, e in zip(mean, error, strict=True)]
        print(f"{name:26}" + "".join(cells))
        ax.errorbar(SIZES, mean, 1.96 * error, color=COLORS[name], label=name, **POINTS)
    print()
    scale_of_errors(ax)
    ax.set_xlabel("Rows")
    ax.set_title(f"{n_classes} classes", fontsize=10)
BARS = "bars: 95 % intervals of the mean"
axes[0].legend(frameon=False, fontsize=8, title=BARS, title_fontsize=8)
save(figure, "kernel_calibration")

# %%
# Sharpness
# ---------
# E‖E[y|z]‖² is a mean of ratios, and a ratio of means is biased. The second-order correction of the
# ratio helps at the wide bandwidth of the paper's experiment, .5, and with few rows; what remains
# there is the smoothing itself.
sizes, draws = [32, 64, 128, 256, 512], 2000 if FULL else 100
rng = np.random.default_rng(0)
plain, corrected = np.empty((len(sizes), draws)), np.empty((len(sizes), draws))
for i, n in enumerate(sizes):
    for draw in range(draws):
        q = rng.dirichlet(np.ones(2), size=n)
        y, z = rng.multinomial(1, q), sharpened(q)
        plain[i, draw] = kernel_sharpness(y, z, bandwidth=0.5, bias_correction=None)
        corrected[i, draw] = kernel_sharpness(y, z, bandwidth=0.5, bias_correction="ratio")
q = rng.dirichlet(np.ones(2), size=20_000)
limit = kernel_sharpness(rng.multinomial(1, q), sharpened(q), bandwidth=0.5)

figure, ax = plt.subplots(figsize=(5.6, 4.2), layout="constrained")
ax.axhline(limit, label="20 000 rows", **TRUTH)
for v, label, color in (
    (plain, "ratio of U-statistics", VERMILLION),
    (corrected, "corrected ratio", BLUE),
):
    error = 1.96 * v.std(axis=1, ddof=1) / np.sqrt(draws)
    ax.errorbar(sizes, v.mean(axis=1), error, color=color, label=label, **POINTS)
ax.set(xscale="log", xlabel="Rows", ylabel="Sharpness (squared probability)")
ax.set_xticks(sizes, map(str, sizes))
ax.minorticks_off()
ax.set_title("Two classes, bandwidth .5", fontsize=10)
ax.legend(frameon=False, fontsize=8, title=BARS, title_fontsize=8)
save(figure, "kernel_sharpness")

# %%
# The bandwidth
# -------------
# Narrow kernels rest on one or two neighbours and the published estimate is all noise; wide ones
# smooth the error away. The residual estimate has no such bias at the narrow end, where only its
# spread grows; the second-order estimate is flat over a wide range, and that is where
# cross-validation puts it. The grey band is what the published estimate gives for labels drawn from
# the predictions themselves, in 95 of 100 draws: nothing inside it speaks against calibration.
bandwidths = np.logspace(-3, 0, 10)
rng = np.random.default_rng(0)
q, z = problem(1000, 4, rng)
y = rng.multinomial(1, q)
options = {"bias_correction": None, "n_draws": 40, "random_state": 0}
options["quantiles"] = (0.025, 0.975)
null = [null_calibration_error(y, z, bandwidth=h, **options).quantiles for h in bandwidths]
low, high = np.transpose(null)

figure, ax = plt.subplots(figsize=(5.6, 4.2), layout="constrained")
ax.fill_between(bandwidths, low, high, color="0.8", label="published, if calibrated (95 %)")
ax.axhline(truth(4), label="truth", **TRUTH)
for name, correction in (
    ("kernel, published", None),
    ("kernel, residual", "residual"),
    ("kernel, second order", "second_order"),
):
    v = [
        kernel_calibration_error(y, z, p=2, bandwidth=h, bias_correction=correction)
        for h in bandwidths
    ]
    ax.plot(bandwidths, v, "o-", markersize=4, color=COLORS[name], label=name)
scale_of_errors(ax)
ax.set_xlabel("Bandwidth")
ax.set_title("Four classes, 1,000 rows", fontsize=10)
ax.legend(frameon=False, fontsize=8)
save(figure, "kernel_bandwidth")

# %%
# Where on the simplex
# --------------------
# For three classes the picture says more than the number. Each corner is a class that is predicted
# with certainty; along the lower side the upper class has probability 0. Dots are predictions. An
# arrow leads from a prediction to the frequencies that are observed there, and the colour says how
# far apart the two are.
data = make_label_histograms(3000, 3, 2, overconfidence=2.5, class_sep=1.0, random_state=0)
names = ["benign", "unclear", "malignant"]
counts = pd.DataFrame(data.counts, columns=names)
proba = pd.DataFrame(data.prediction, columns=names)
display = SimplexCalibrationDisplay.from_predictions(counts, proba)
display.figure_.savefig(FOLDER / "simplex.png", dpi=150)
print(f"Figure: {FOLDER / 'simplex'}.png")

# %%
# All arrows lead towards the middle: these predictions are overconfident everywhere, most of all
# near the corners. Single triangles on the right hold few rows, and are noisy.
