"""Canonical calibration error by kernels.

Is the whole probability vector right, not only its largest entry? Popordanoska, Sayer and Blaschko
(2022) smooth labels with Dirichlet kernels and compare. Here are their convergence, debiasing and
bandwidth experiments (Fig. 2 and 3), with the two corrections of this package beside their
estimate.

``FULL=1`` in the environment goes to 20,000 samples and repeats everything more often.
"""

import os

import numpy as np
import torch

from sklearn_lhcal.metrics import (
    binned_canonical_error,
    kernel_calibration_error,
    kernel_sharpness,
    loo_bandwidth,
    null_calibration_error,
)

# Predictions with a known error.
# Points are uniform on the simplex and sharpened with the temperature 0.6; labels are drawn from
# them. Sharpened once more, they are the predictions: E[y|z] is known, and the error is an integral
# over it, here a mean over 10⁶ points.
torch.set_num_threads(1)  # problems this small are no slower so
FULL = os.environ.get("FULL") == "1"
SIZES = [100, 200, 500, 1000, 2000, 5000, 10_000, 20_000] if FULL else [100, 200, 500, 1000, 2000]
DRAWS = 20 if FULL else 5
NAMES = ["triangular bins (Doane)", "kernel, published", "kernel, residual", "kernel, second order"]


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


# Convergence. The binned estimate has more cells than samples and does not come down. The published
# kernel estimate compares smoothed labels with unsmoothed predictions and starts several times too
# large. The residual correction smooths what is left of the label after the prediction; its mean is
# 0 for a calibrated predictor whatever n, and it loses some of the error by smoothing. The
# second-order estimate, at the bandwidth that predicts left-out residuals best, loses least.


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


for n_classes in (4, 8):
    values = {name: np.empty((len(SIZES), DRAWS)) for name in NAMES}
    for i, n in enumerate(SIZES):
        for draw in range(DRAWS):
            rng = np.random.default_rng(draw)
            q, z = problem(n, n_classes, rng)
            for name, value in estimates(rng.multinomial(1, q), z).items():
                values[name][i, draw] = value

    true = truth(n_classes)
    print(f"{n_classes} classes, true error {true:.4f}; mean estimates (standard error)")
    print(f"{'':26}" + "".join(f"{n:>17,}" for n in SIZES))
    for name, v in values.items():
        mean, error = v.mean(axis=1), v.std(axis=1, ddof=1) / np.sqrt(DRAWS)
        cells = [f"{m:8.4f} ({e:.4f})" for m, e in zip(mean, error, strict=True)]
        print(f"{name:26}" + "".join(cells))
    print()

# Sharpness. E‖E[y|z]‖² is a mean of ratios, and a ratio of means is biased. The second-order
# correction of the ratio helps at the wide bandwidth of the paper's experiment, 0.5, and with few
# samples; what remains there is the smoothing itself.
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

print("sharpness at bandwidth 0.5; mean estimates (standard error)")
print(f"{'':26}" + "".join(f"{n:>17,}" for n in sizes) + f"{'20,000':>12}")
for name, v in (("ratio of U-statistics", plain), ("corrected ratio", corrected)):
    error = v.std(axis=1, ddof=1) / np.sqrt(draws)
    cells = [f"{m:8.4f} ({e:.4f})" for m, e in zip(v.mean(axis=1), error, strict=True)]
    print(f"{name:26}" + "".join(cells) + f"{limit:12.4f}")

# The bandwidth. Narrow kernels rest on one or two neighbours and the published estimate is all
# noise; wide ones smooth the error away. The residual estimate has no such bias at the narrow end,
# where only its spread grows; the second-order estimate is flat over a wide range, and that is
# where cross-validation puts it. The first line is the 97.5% quantile of the published estimate for
# labels that are drawn from the predictions: nothing below it speaks against calibration.
bandwidths = np.logspace(-3, 0, 10)
rng = np.random.default_rng(0)
q, z = problem(1000, 4, rng)
y = rng.multinomial(1, q)
options = {"bias_correction": None, "n_draws": 40, "random_state": 0}
options["quantiles"] = (0.025, 0.975)
null = [null_calibration_error(y, z, bandwidth=h, **options).quantiles for h in bandwidths]
high = np.transpose(null)[1]

print("\nby bandwidth, four classes, 1,000 samples; estimates")
print(f"{'':26}" + "".join(f"{h:9.3f}" for h in bandwidths))
print(f"{'published, calibrated, to':26}" + "".join(f"{v:9.4f}" for v in high))
for name, correction in (
    ("kernel, published", None),
    ("kernel, residual", "residual"),
    ("kernel, second order", "second_order"),
):
    v = [
        kernel_calibration_error(y, z, p=2, bandwidth=h, bias_correction=correction)
        for h in bandwidths
    ]
    print(f"{name:26}" + "".join(f"{value:9.4f}" for value in v))
