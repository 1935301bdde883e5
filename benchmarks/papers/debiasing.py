"""Bias of plug-in estimates: Fig. 2 of P1, with the residual correction beside the paper's.

Two classes; the true probability of a sample is uniform on [0, 1], and the model predicts just
that, so that all losses are 0. Estimates have 15 equal bins:

- plug-in: frequencies of labels taken for probabilities;
- label: the paper's correction, by the variance of the labels within a bin;
- residual: by the variance of label frequency minus prediction, this package's default. It differs
  for CL and DL only.

``FULL=1`` in the environment draws 200 replicates in place of ten.
"""

import os

import numpy as np
from scipy.stats import t

from sklearn_lhcal.metrics import loss_decomposition

REPLICATES = 200 if os.environ.get("FULL") == "1" else 10
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


print(
    f"Losses of a perfect model: mean of {REPLICATES} replicates ± half of its 95% interval. "
    "The truth is 0.\n"
)
print(f"{'raters':>6}{'samples':>8}  loss" + "".join(f"{name:>22}" for name in ESTIMATES))
for raters in RATERS:
    for rows in ROWS:
        mean, half = mean_and_halfwidth(replicates(rows, raters))
        for j, loss in enumerate(LOSSES):
            cells = [f"{m:12.5f} ± {h:.5f}" for m, h in zip(mean[:, j], half[:, j], strict=True)]
            print(f"{raters:6}{rows:8}  {loss:4}  " + "".join(cells))

# The paper's correction takes too much: the variance of the predictions within a bin.
print("\nCL by label minus CL by residual correction, 3 bins, 5 raters")
for rows in ROWS[:3]:
    loss = replicates(rows, 5, n_bins=3)[:, :, 0]
    by_label, by_residual = loss[:, 1], loss[:, 2]
    mean, half = mean_and_halfwidth(by_label - by_residual)
    theory = -2 * 3 * (1 / 3) ** 2 / 12 / rows
    print(f"{rows:6} samples: {mean:9.6f} ± {half:.6f}   theory {theory:9.6f}")
