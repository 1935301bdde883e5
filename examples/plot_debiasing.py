"""
Why do few raters need a correction?
====================================

A perfect model is scored with few raters per sample. Plug-in estimates take the noise of the labels
for errors of the model: how far off are they, and what does the bias correction change? The data
are **simulated**, so that all losses of the model are 0.
"""

# %%
# The three estimates
# -------------------
# Two classes; the true probability of a sample is uniform on [0, 1], and the model predicts just
# that. There are 15 equal bins. ``FULL=1`` in the environment draws 200 replicates in place of ten.
# This is Fig. 2 of Mimori, Sasada, Matsui and Sato (2021) with the residual correction, which is
# this package's default.
#
# EL, the epistemic loss, is the squared distance to the true probabilities; CL, the squared
# calibration error, is its part between bins of similar predictions; the grouping loss DL = EL − CL
# is the rest.
#
# - plug-in: frequencies of labels taken for probabilities;
# - label: the paper's correction, by the variance of the labels within a bin;
# - residual: by the variance of label frequency minus prediction. It differs for CL and DL only.
import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from colours import BLUE, ORANGE, VERMILLION
from scipy.stats import t

from sklearn_lhcal.metrics import loss_decomposition

FULL = os.environ.get("FULL") == "1"
REPLICATES = 200 if FULL else 10
ROWS = [100, 300, 1000, 3000, 10_000]
RATERS = [2, 5]
LOSSES = {"CL": "calibration_loss", "EL": "epistemic_loss", "DL": "dispersion_loss"}
ESTIMATES = {"plug-in": None, "label": "label", "residual": "residual"}


def replicates(rows: int, raters: int, n_bins: int = 15) -> np.ndarray:
    """Estimated losses of the perfect model, shape (replicates, estimates, losses).

    All should be 0. All estimates see the same labels.
    """
    rng = np.random.default_rng([rows, raters])
    values = np.empty((REPLICATES, len(ESTIMATES), len(LOSSES)))
    for replicate in range(REPLICATES):
        q = rng.random(rows)
        yes = rng.binomial(raters, q)
        counts, prediction = np.column_stack([raters - yes, yes]), np.column_stack([1 - q, q])
        for i, correction in enumerate(ESTIMATES.values()):
            parts = loss_decomposition(
                counts, prediction, n_bins=n_bins, bias_correction=correction
            )
            values[replicate, i] = [getattr(parts, loss) for loss in LOSSES.values()]
    return values


def mean_and_halfwidth(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean over replicates, and half the width of its 95% interval (Student's)."""
    n = len(values)
    return values.mean(axis=0), t.ppf(0.975, n - 1) * values.std(axis=0, ddof=1) / np.sqrt(n)


results = {(raters, rows): replicates(rows, raters) for raters in RATERS for rows in ROWS}

# %%
# What they say of a perfect model
# --------------------------------
# With two raters, the plug-in says that the perfect model has an epistemic loss of 1/6, with five
# of 1/15, and no number of samples helps: that bias comes from the few raters of a sample. The bias
# of the plug-in CL falls as one over the number of samples; with two raters it is 0.027 at 100
# samples. Of the corrected estimates, 57 of the 60 intervals of 95% cover 0, as they should.
print(
    f"Losses of a perfect model: mean of {REPLICATES} replicates ± half of its 95% interval. "
    "The truth is 0.\n"
)
print(f"{'raters':>6}{'samples':>8}  loss" + "".join(f"{name:>22}" for name in ESTIMATES))
for (raters, rows), values in results.items():
    mean, half = mean_and_halfwidth(values)
    for j, loss in enumerate(LOSSES):
        cells = [f"{m:12.5f} ± {h:.5f}" for m, h in zip(mean[:, j], half[:, j], strict=True)]
        print(f"{raters:6}{rows:8}  {loss:4}  " + "".join(cells))

# %%
# The paper's correction beside the residual one
# ----------------------------------------------
# The paper's correction takes a little too much, the variance of the predictions within a bin:
# -0.011/n with 15 bins on n samples, far below the noise of a single estimate. It counts with wide
# bins and few samples. Here are the two corrections on the same labels with 3 bins, where theory
# says -0.056/n.
print("\nCL by label minus CL by residual correction, 3 bins, 5 raters")
for rows in ROWS[:3]:
    loss = replicates(rows, 5, n_bins=3)[:, :, 0]
    by_label, by_residual = loss[:, 1], loss[:, 2]
    mean, half = mean_and_halfwidth(by_label - by_residual)
    theory = -2 * 3 * (1 / 3) ** 2 / 12 / rows
    print(f"{rows:6} samples: {mean:9.6f} ± {half:.6f}   theory {theory:9.6f}")

# %%
# The figure
# ----------
# One column a loss, one row a number of raters. Markers are shifted a little sideways, so that
# intervals do not cover each other.
STYLES = {
    "plug-in": {"label": "plug-in", "color": VERMILLION, "marker": "s"},
    "label": {"label": "corrected by label", "color": ORANGE, "marker": "^"},
    "residual": {"label": "corrected by residual", "color": BLUE, "marker": "o"},
}
SHIFTS = [1, 0.93, 1.07]
TITLES = ["squared calibration error CL", "epistemic loss EL", "grouping loss DL"]

figure, axes = plt.subplots(
    2, 3, figsize=(10.5, 5.6), sharex=True, sharey="col", layout="constrained"
)
for row, raters in zip(axes, RATERS, strict=True):
    for j, ax in enumerate(row):
        ax.axhline(0, color="black", linewidth=1, linestyle="--", label="truth")
        for i, style in enumerate(STYLES.values()):
            found = [mean_and_halfwidth(results[raters, rows][:, i, j]) for rows in ROWS]
            mean, half = np.array(found).T
            at = np.array(ROWS) * SHIFTS[i]
            ax.errorbar(at, mean, half, markersize=5, linewidth=1, capsize=2, **style)
        ax.set_xscale("log")
        ax.set_title(f"{TITLES[j]}, {raters} raters", fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
for ax in axes[1]:
    ax.set_xlabel("samples")
for ax in axes[:, 0]:
    ax.set_ylabel("squared probability")
axes[0, 0].legend(frameon=False, fontsize=9)
figure.suptitle(
    f"A perfect model: mean of {REPLICATES} replicates and its 95% interval", fontsize=11
)

FIGURE = Path(os.path.relpath(Path(sys.argv[0]).parent), "output", "debiasing.png")
FIGURE.parent.mkdir(exist_ok=True)
figure.savefig(FIGURE, dpi=150)
print(f"\nFigure: {FIGURE}")

# %%
# The plug-in's bias of CL falls with the number of samples. That of EL and DL falls with the number
# of raters only. The corrected estimates lie around 0 everywhere.
