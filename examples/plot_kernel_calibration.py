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

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.display import SimplexCalibrationDisplay
from sklearn_lhcal.metrics import (
    binned_canonical_error,
    kernel_calibration_error,
    kernel_sharpness,
    loo_bandwidth,
    null_calibration_error,
)

FULL = bool(int(os.environ.get("FULL", "0")))
SIZES = [100, 200, 500, 1000, 2000, 5000, 10_000, 20_000] if FULL else [100, 200, 500, 1000, 2000]
DRAWS = 20 if FULL else 5
FOLDER = Path(os.path.relpath(Path(sys.argv[0]).parent), "output")


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


# %%
# Convergence
# -----------
# The binned estimate has more cells than rows and does not come down. The published kernel estimate
# compares smoothed labels with unsmoothed predictions and starts several times too large. The
# residual correction smooths what is left of the label after the prediction; its mean is 0 for a
# calibrated predictor whatever n, and it loses some of the error by smoothing. The second-order
# estimate, at the bandwidth that predicts left-out residuals best, loses least.
ESTIMATES = {
    "triangular bins (Doane)": (binned_canonical_error, {}),
    "kernel, published": (kernel_calibration_error, {"bias_correction": None}),
    "kernel, residual": (kernel_calibration_error, {"bias_correction": "residual"}),
    "kernel, second order": (
        kernel_calibration_error,
        {"bias_correction": "second_order", "bandwidth": "cv"},
    ),
}
COLORS = dict(zip(ESTIMATES, ["0.6", "tab:red", "tab:orange", "tab:blue"], strict=True))


def convergence(n_classes: int) -> dict:
    """By estimate: values of shape (n_sizes, n_draws)."""
    values = {name: np.empty((len(SIZES), DRAWS)) for name in ESTIMATES}
    for i, n in enumerate(SIZES):
        for draw in range(DRAWS):
            rng = np.random.default_rng(draw)
            q, z = problem(n, n_classes, rng)
            y = rng.multinomial(1, q)
            likely = {"bandwidth": loo_bandwidth(z)}
            for name, (metric, options) in ESTIMATES.items():
                bandwidth = (
                    likely
                    if metric is kernel_calibration_error and "bandwidth" not in options
                    else {}
                )
                values[name][i, draw] = metric(y, z, p=2, **options, **bandwidth)
    return values


def plot_convergence(ax, n_classes: int) -> None:
    true, values = truth(n_classes), convergence(n_classes)
    print(f"{n_classes} classes, true error {true:.4f}; mean estimates (standard error)")
    print(f"{'':26}" + "".join(f"{n:>17,}" for n in SIZES))
    ax.axhline(true, color="black", linewidth=1, linestyle=(0, (4, 2)), label="truth")
    for name, v in values.items():
        mean, error = v.mean(axis=1), v.std(axis=1, ddof=1) / np.sqrt(DRAWS)
        print(
            f"{name:26}" + "".join(f"{m:8.4f} ({e:.4f})" for m, e in zip(mean, error, strict=True))
        )
        ax.errorbar(
            SIZES,
            mean,
            1.645 * error,
            marker="o",
            markersize=4,
            capsize=2,
            color=COLORS[name],
            label=name,
        )
    print()
    ax.set(
        xscale="log",
        yscale="symlog",
        xlabel="Rows",
        ylabel="Canonical error, p = 2 (squared probability)",
    )
    ax.set_yscale("symlog", linthresh=0.05)
    ax.set_yticks([0, 0.02, 0.05, 0.1, 0.2, 0.5], ["0", ".02", ".05", ".1", ".2", ".5"])
    ax.set_ylim(bottom=-0.005)
    ax.set_title(f"{n_classes} classes", fontsize=10)


# %%
# Sharpness
# ---------
# E‖E[y|z]‖² is a mean of ratios, and a ratio of means is biased. The second-order correction of the
# ratio helps at the wide bandwidth of the paper's experiment, .5, and with few rows; what remains
# there is the smoothing itself.
def plot_sharpness(ax) -> None:
    sizes, draws = [32, 64, 128, 256, 512], 2000 if FULL else 100
    rng = np.random.default_rng(0)
    values = np.empty((2, len(sizes), draws))
    for i, n in enumerate(sizes):
        for draw in range(draws):
            q = rng.dirichlet(np.ones(2), size=n)
            y, z = rng.multinomial(1, q), sharpened(q)
            for j, correction in enumerate((None, "ratio")):
                values[j, i, draw] = kernel_sharpness(
                    y, z, bandwidth=0.5, bias_correction=correction
                )
    q = rng.dirichlet(np.ones(2), size=20_000)
    limit = kernel_sharpness(rng.multinomial(1, q), sharpened(q), bandwidth=0.5)
    ax.axhline(limit, color="black", linewidth=1, linestyle=(0, (4, 2)), label="20 000 rows")
    for v, label, color in zip(
        values, ("ratio of U-statistics", "corrected ratio"), ("tab:red", "tab:blue"), strict=True
    ):
        error = 1.645 * v.std(axis=1, ddof=1) / np.sqrt(draws)
        ax.errorbar(
            sizes,
            v.mean(axis=1),
            error,
            marker="o",
            markersize=4,
            capsize=2,
            color=color,
            label=label,
        )
    ax.set(xscale="log", xlabel="Rows", ylabel="Sharpness (squared probability)")
    ax.set_xticks(sizes, map(str, sizes))
    ax.minorticks_off()
    ax.set_title("Two classes, bandwidth .5", fontsize=10)


# %%
# The bandwidth
# -------------
# Narrow kernels rest on one or two neighbours and the published estimate is all noise; wide ones
# smooth the error away. The residual estimate has no such bias at the narrow end, where only its
# spread grows; the second-order estimate is flat over a wide range, and that is where
# cross-validation puts it. The grey band is what the published estimate gives for labels drawn from
# the predictions themselves: nothing inside it speaks against calibration.
def plot_bandwidth(ax, n: int = 1000) -> None:
    bandwidths = np.logspace(-3, 0, 10)
    rng = np.random.default_rng(0)
    q, z = problem(n, 4, rng)
    y = rng.multinomial(1, q)
    options = {"bias_correction": None, "n_draws": 40, "random_state": 0}
    null = [null_calibration_error(y, z, bandwidth=h, **options).quantiles for h in bandwidths]
    ax.fill_between(
        bandwidths,
        *np.array(null)[:, [0, 2]].T,
        color="0.8",
        label="published, if calibrated (90 %)",
    )
    ax.axhline(truth(4), color="black", linewidth=1, linestyle=(0, (4, 2)), label="truth")
    for name, correction in [
        ("kernel, published", None),
        ("kernel, residual", "residual"),
        ("kernel, second order", "second_order"),
    ]:
        v = [
            kernel_calibration_error(y, z, p=2, bandwidth=h, bias_correction=correction)
            for h in bandwidths
        ]
        ax.plot(bandwidths, v, "o-", markersize=4, color=COLORS[name], label=name)
    ax.set(xscale="log", xlabel="Bandwidth", ylabel="Canonical error, p = 2 (squared probability)")
    ax.set_yscale("symlog", linthresh=0.05)
    ax.set_yticks([0, 0.02, 0.05, 0.1, 0.2, 0.5], ["0", ".02", ".05", ".1", ".2", ".5"])
    ax.set_ylim(bottom=-0.005)
    ax.set_title(f"Four classes, {n:,} rows", fontsize=10)


def curves():
    fig, axes = plt.subplots(2, 2, figsize=(11, 8.4), layout="constrained")
    plot_convergence(axes[0, 0], 4)
    plot_convergence(axes[0, 1], 8)
    plot_sharpness(axes[1, 0])
    plot_bandwidth(axes[1, 1])
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", color="0.93")
    for ax in (axes[0, 0], axes[1, 0], axes[1, 1]):
        ax.legend(
            frameon=False,
            fontsize=8,
            title="bars: 90 % intervals of the mean" if ax is not axes[1, 1] else None,
            title_fontsize=8,
        )
    return fig


# %%
# Where on the simplex
# --------------------
# For three classes the picture says more than the number: overconfident predictions, whose observed
# frequencies lie towards the middle.
def triangle():
    data = make_label_histograms(3000, 3, 2, overconfidence=2.5, class_sep=1.0, random_state=0)
    names = ["benign", "unclear", "malignant"]
    counts, proba = (pd.DataFrame(a, columns=names) for a in (data.counts, data.prediction))
    return SimplexCalibrationDisplay.from_predictions(counts, proba).figure_


def main() -> None:
    torch.set_num_threads(1)  # problems this small are no slower so
    matplotlib.use("Agg")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, fig in [("kernel_calibration", curves()), ("simplex", triangle())]:
        fig.savefig(FOLDER / f"{name}.png", dpi=150)
        print(f"Figure: {FOLDER / name}.png")


if __name__ == "__main__":
    main()
