"""
How far off are uncorrected losses?
===================================

Few raters per row, few rows per bin: the plugin estimates of calibration and epistemic loss take
the noise of the labels for errors of the model. Here the model is perfect, so that all its
avoidable losses are 0, and what an estimate says beyond that is its bias. It is Fig. 2 of Mimori,
Sasada, Matsui and Sato (2021), Diagnostic uncertainty calibration, App. B.5, with the residual
correction added, which is this package's default.

Two classes; the true probability of a row is uniform on [0, 1], and the model predicts just that;
15 equal bins. ``FULL=1`` in the environment draws 200 replicates in place of the paper's ten."""

# %%
# The three estimates
# -------------------
# EL, the epistemic loss, is the squared distance to the true probabilities; CL, the calibration
# loss, what of it can be seen in bins of rows predicted alike; DL = EL − CL, the dispersion loss,
# the rest.
#
# - plugin: frequencies of labels taken for probabilities;
# - label: the paper's correction, by the variance of the labels within a bin;
# - residual: by the variance of label frequency less prediction. It differs for CL and DL only.
import os
import sys
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import t

from sklearn_lhcal.metrics import loss_decomposition

FULL = bool(int(os.environ.get("FULL", "0")))
REPLICATES = 200 if FULL else 10
ROWS = [100, 300, 1000, 3000, 10_000]
RATERS = [2, 5]
LOSSES = {"CL": "calibration_loss", "EL": "epistemic_loss", "DL": "dispersion_loss"}
ESTIMATES = {"plugin": None, "label": "label", "residual": "residual"}
FIGURE = Path(os.path.relpath(Path(sys.argv[0]).parent), "output", "debiasing.png")


def one_replicate(rows: int, raters: int, rng, n_bins: int = 15) -> np.ndarray:
    """Estimated losses of the perfect model, shape (estimates, losses): all should be 0."""
    q = rng.random(rows)
    yes = rng.binomial(raters, q)
    counts, prediction = np.column_stack([raters - yes, yes]), np.column_stack([1 - q, q])
    parts = [
        loss_decomposition(counts, prediction, n_bins=n_bins, bias_correction=c)
        for c in ESTIMATES.values()
    ]
    return np.array([[getattr(part, loss) for loss in LOSSES.values()] for part in parts])


def replicates(rows: int, raters: int, **options) -> np.ndarray:
    """Shape (replicates, estimates, losses); all estimates see the same labels."""
    rng = np.random.default_rng([rows, raters])
    return np.array([one_replicate(rows, raters, rng, **options) for _ in range(REPLICATES)])


def mean_and_halfwidth(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean over replicates, and half the width of its 90 % interval (Student's)."""
    n = len(values)
    return values.mean(axis=0), t.ppf(0.95, n - 1) * values.std(axis=0, ddof=1) / np.sqrt(n)


# %%
# What it shows
# -------------
# With two raters, the plugin says that the perfect model has an epistemic loss of 1/6, with five of
# 1/15, and no number of rows helps: that bias comes from the few raters of a row. The bias of the
# plugin CL falls as one over the number of rows; with two raters it is .027 at 100 rows. Of the
# corrected estimates, about nine in ten of the 90 % intervals cover 0, as they should.
#
# The paper's correction takes a little too much, the variance of the predictions within a bin:
# -.011/n with 15 bins on n rows, far below the noise of a single estimate. It counts with wide bins
# and few rows; the last lines of the output show the two corrections on the same labels with 3
# bins, where theory says -.056/n.
def table(results: dict) -> str:
    """Mean over replicates ± half its 90 % interval, one line for each number of rows and loss."""
    lines = [f"{'raters':>6}{'rows':>8}  loss" + "".join(f"{name:>22}" for name in ESTIMATES)]
    for (raters, rows), values in results.items():
        mean, half = mean_and_halfwidth(values)
        for j, loss in enumerate(LOSSES):
            cells = "".join(
                f"{m:12.5f} ± {h:.5f}" for m, h in zip(mean[:, j], half[:, j], strict=True)
            )
            lines.append(f"{raters:6}{rows:8}  {loss:4}  {cells}")
    return "\n".join(lines)


def label_against_residual() -> str:
    """Difference of the two corrected CL on the same labels, 3 bins."""
    lines = ["CL by label less CL by residual correction, 3 bins, 5 raters"]
    for rows in ROWS[:3]:
        cl = replicates(rows, 5, n_bins=3)[:, 1:, 0]
        mean, half = mean_and_halfwidth(cl[:, 0] - cl[:, 1])
        lines.append(
            f"{rows:6} rows: {mean:9.6f} ± {half:.6f}   theory "
            f"{-2 * 3 * (1 / 3) ** 2 / 12 / rows:9.6f}"
        )
    return "\n".join(lines)


# %%
# The figure
# ----------
# Markers are shifted a little sideways, so that intervals do not cover each other.
def figure(results: dict):
    """One column a loss, one row a number of raters."""
    styles = {
        "plugin": ("tab:red", "s"),
        "label": ("tab:orange", "^"),
        "residual": ("tab:blue", "o"),
    }
    fig, axes = plt.subplots(
        2, 3, figsize=(10.5, 5.6), sharex=True, sharey="col", layout="constrained"
    )
    titles = ["calibration loss CL", "epistemic loss EL", "dispersion loss DL"]
    for row, raters in zip(axes, RATERS, strict=True):
        for j, ax in enumerate(row):
            ax.axhline(0, color="black", linewidth=1, linestyle="--", label="truth")
            for shift, (name, (color, marker)) in zip((1, 0.93, 1.07), styles.items(), strict=True):
                i = list(ESTIMATES).index(name)
                mean, half = zip(
                    *(mean_and_halfwidth(results[raters, n][:, i, j]) for n in ROWS), strict=True
                )
                style = {
                    "color": color,
                    "marker": marker,
                    "markersize": 5,
                    "linewidth": 1,
                    "capsize": 2,
                }
                ax.errorbar(np.array(ROWS) * shift, mean, half, label=name, **style)
            ax.set_xscale("log")
            ax.set_title(f"{titles[j]}, {raters} raters", fontsize=10)
            ax.spines[["top", "right"]].set_visible(False)
    for ax in axes[1]:
        ax.set_xlabel("rows")
    for ax in axes[:, 0]:
        ax.set_ylabel("squared probability")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    labels = [
        {"label": "corrected by label", "residual": "corrected by residual"}.get(name, name)
        for name in labels
    ]
    axes[0, 0].legend(handles, labels, frameon=False, fontsize=9)
    fig.suptitle(
        f"A perfect model: mean of {REPLICATES} replicates and its 90 % interval", fontsize=11
    )
    return fig


def main() -> None:
    matplotlib.use("Agg")
    results = {(raters, rows): replicates(rows, raters) for raters in RATERS for rows in ROWS}
    print(
        f"Losses of a perfect model: mean of {REPLICATES} replicates ± half of its 90 % interval. "
        "The truth is 0.\n"
    )
    print(table(results))
    print()
    print(label_against_residual())
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure(results).savefig(FIGURE, dpi=150)
    print(f"\nFigure: {FIGURE}")


if __name__ == "__main__":
    main()
