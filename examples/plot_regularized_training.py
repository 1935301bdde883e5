"""
Training with a calibration penalty
===================================

Does it help to put the calibration error into the training objective? Accuracy against calibration
error over the weight λ of the penalty, as in Fig. 4 and Table 4 of Popordanoska, Sayer and Blaschko
(2022), A consistent and differentiable Lp canonical calibration error estimator, on mixed digits.

- cross-entropy: no penalty; focal, focal 5/3: the focal loss with γ = 3, and with γ = 5 for labels
  of probability below .2, in place of it;
- MMCE: with the weighted maximum mean calibration error of the top class;
- kernel, plugin: with the paper's estimate of the canonical L1 calibration error on the batch, at
  the most likely bandwidth of each batch;
- kernel, residual: with the form of this package, p = 2, which is 0 on average for a calibrated
  network.

``FULL=1`` in the environment repeats everything on ten random splits of the data, with a finer grid
of λ."""

# %%
# The networks
# ------------
# One hidden layer, 300 training rows with one label each, and many epochs: without a penalty the
# network is overconfident. 540 test rows with ten labels each.
import os
import sys
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.stats import t as student
from sklearn.utils import Bunch
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

FULL = bool(int(os.environ.get("FULL", "0")))
SPLITS = 10 if FULL else 1
PUBLISHED = [0.001, 0.01, 0.05, 0.1, 0.2] if FULL else [0.01, 0.2]
FIGURE = Path(os.path.relpath(Path(sys.argv[0]).parent), "output", "regularized_training.png")

PENALTIES = {
    "MMCE": MMCEPenalty(weighted=True),
    "kernel, plugin": KernelCalibrationPenalty(1, "loo", bias_correction=None),
    "kernel, residual": KernelCalibrationPenalty(),
}
GRIDS = {
    "MMCE": [*PUBLISHED, 1],
    "kernel, plugin": PUBLISHED,
    "kernel, residual": [0.2, 1, 3, *([5] if FULL else [])],
}
MODELS = {
    ("cross-entropy", 0): {},
    ("focal", 0): {"loss": "focal"},
    ("focal 5/3", 0): {"loss": "focal_53"},
    **{
        (name, w): {"regularizer": PENALTIES[name], "regularizer_weight": w}
        for name in GRIDS
        for w in GRIDS[name]
    },
}
REFERENCE = ("cross-entropy", 0)


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def one_split(seed: int) -> Bunch:
    """Test counts, and the test probabilities of every model.

    Nothing is chosen on the validation rows: they test.
    """
    data = load_mixed_digits(raters=10, random_state=seed)
    X, y = data.X_train[:300], data.counts_train[:300]
    X_test = np.vstack([data.X_test, data.X_validation])
    proba = {}
    for model, options in MODELS.items():
        net = NeuralClassifier(perceptron, lr=5e-3, max_epochs=60, random_state=seed, **options)
        proba[model] = net.fit(X, y).predict_proba(X_test)
    return Bunch(counts=np.vstack([data.counts_test, data.counts_validation]), proba=proba)


# %%
# What is measured
# ----------------
# Accuracy, log loss per label, and three calibration errors: the canonical L1 error as it was
# published, by the plugin at the most likely bandwidth; and the squared errors, canonical and of
# the top class, by the residual form, whose mean is 0 for a calibrated network. The plugin's is
# not: what it would be is estimated from labels drawn from the predictions themselves (the null
# level).
#
# The intervals: jackknife, of the one network on these test rows; with ``FULL=1`` Student's, over
# the ten splits.
def canonical(y, proba, **options):
    return kernel_calibration_error(
        y, proba, p=2, bandwidth=0.05, bias_correction="residual", **options
    )


def published(y, proba, **options):
    return kernel_calibration_error(y, proba, p=1, bias_correction=None, **options)


def top_label(y, proba, **options):
    return canonical(y, proba, notion="top_label", **options)


METRICS = {
    "accuracy": expected_accuracy,
    "log loss": label_log_loss,
    "canonical L1": published,
    "canonical": canonical,
    "top class": top_label,
}


def options_of(metric, proba) -> dict:
    """The bandwidth of the published measure.

    One number for a model, so that it is not sought for every block.
    """
    return {"bandwidth": loo_bandwidth(proba)} if metric is published else {}


def interval(splits: list, model, metric) -> tuple[float, float, float]:
    """Estimate and its 90 % interval."""
    if len(splits) > 1:
        return student_interval(
            [metric(s.counts, s.proba[model], **options_of(metric, s.proba[model])) for s in splits]
        )
    (s,) = splits
    options = {
        "confidence_level": 0.9,
        "n_blocks": 20,
        "random_state": 0,
        **options_of(metric, s.proba[model]),
    }
    return confidence_interval(metric, s.counts, s.proba[model], **options)[:3]


def difference(splits: list, model, metric) -> tuple[float, float, float]:
    """Change against cross-entropy alone, on the same rows, and its 90 % interval."""
    if len(splits) > 1:
        return student_interval(
            [
                metric(s.counts, s.proba[model]) - metric(s.counts, s.proba[REFERENCE])
                for s in splits
            ]
        )
    (s,) = splits
    options = {"confidence_level": 0.9, "n_blocks": 20, "random_state": 0}
    return paired_difference(metric, s.counts, s.proba[model], s.proba[REFERENCE], **options)[:3]


def student_interval(values: list) -> tuple[float, float, float]:
    mean, half = (
        np.mean(values),
        student.ppf(0.95, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5,
    )
    return mean, mean - half, mean + half


def title(model) -> str:
    return f"{model[0]}, λ = {model[1]:g}" if model[1] else model[0]


def table(results: dict) -> str:
    """One line a model: estimates, each with half its 90 % interval."""
    lines = [f"{'':26}" + "".join(f"{name:>17}" for name in METRICS)]
    for model, row in results.items():
        cells = [f"{value:9.4f} ±{(high - low) / 2:.4f} " for value, low, high in row.values()]
        lines.append(f"{title(model):26}" + "".join(cells))
    return "\n".join(lines)


def differences(splits: list) -> str:
    names = ["accuracy", "log loss", "top class"]
    lines = [
        "Change against cross-entropy, and its 90 % interval",
        f"{'':26}" + "".join(f"{n:>30}" for n in names),
    ]
    for model in MODELS:
        if model != REFERENCE:
            cells = [difference(splits, model, METRICS[name]) for name in names]
            lines.append(
                f"{title(model):26}"
                + "".join(f"{d:+11.4f} ({a:+.4f}, {b:+.4f})" for d, a, b in cells)
            )
    return "\n".join(lines)


# %%
# What a penalty costs
# --------------------
# Time of a step, in the shortest of a few epochs, for a convolutional network and for the
# perceptron above. A penalty takes one or two milliseconds a batch, some more where it seeks its
# bandwidth, whatever the network: a few per cent of what convolutions take, and more than all that
# a perceptron of one hidden layer does.
def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 64, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 128, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(128, 128, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, 10),
    )


def epoch_times() -> str:
    data = load_mixed_digits()
    X, y = data.X_train[:320], data.counts_train[:320]
    lines = [f"{'ms per batch of 64 rows':26}{'convolutions':>15}{'perceptron':>15}"]
    for name, penalty in {"cross-entropy": None, **PENALTIES}.items():
        line = f"{name:26}"
        for module, epochs in ((convolutions, 4), (perceptron, 20)):
            net = NeuralClassifier(
                module, max_epochs=epochs, regularizer=penalty, random_state=0
            ).fit(X, y)
            line += f"{1000 * min(net.history_[:, 'dur']) / 5:15.1f}"
        lines.append(line)
    return "\n".join(lines)


# %%
# What it shows
# -------------
# On one split (540 test rows) intervals are as wide as the differences between most methods; only
# paired differences tell anything. There λ = 3 of the residual form lowers the log loss and the
# error of the top class, and the published measure is twice what it would be for a calibrated
# network with these predictions. Over ten splits (``FULL=1``):
#
# - The residual form at λ = 3 has a higher accuracy than cross-entropy alone (+.012, interval .006
#   to .018), a lower log loss (.72 to .63) and squared error of the top class (.0041 to .0011). At
#   λ = .2, the end of the published grid, it does next to nothing: the penalty is a squared error,
#   some hundredths large. At λ = 5 it costs a tenth of the accuracy: predictions that are squeezed
#   together within a bandwidth look calibrated.
# - The published plugin does little up to λ = .1 (log loss −.01); at .2 some networks collapse to
#   the class frequencies, which are calibrated, and of no use. The estimate is biased on batches,
#   and prefers predictions far from calibrated.
# - The focal losses lower the log loss and the error of the top class as much as the residual form,
#   but at the price of accuracy (−.01), and of the canonical error, which they double. MMCE at λ =
#   1 triples it.
# - The published measure ranks otherwise: best are the networks with the most confident
#   predictions, as smoothing then finds less noise in the labels to take for an error.
#
# The figure leaves out what has lost more than a tenth in accuracy, and says so.
COLORS = {
    "cross-entropy": "black",
    "focal": "tab:green",
    "focal 5/3": "tab:olive",
    "MMCE": "tab:orange",
    "kernel, plugin": "tab:red",
    "kernel, residual": "tab:blue",
}


def panel(ax, results: dict, name: str) -> None:
    """Accuracy against a calibration error, a line a penalty, λ from .2 on beside the points."""
    for method, color in COLORS.items():
        models = [model for model in results if model[0] == method]
        x, y = (
            np.array([results[model][metric] for model in models]).T
            for metric in ("accuracy", name)
        )
        bars = {"xerr": [x[0] - x[1], x[2] - x[0]], "yerr": [y[0] - y[1], y[2] - y[0]]}
        ax.errorbar(x[0], y[0], **bars, fmt="none", ecolor=color, alpha=0.2)
        ax.plot(x[0], y[0], "o-", color=color, markersize=4, linewidth=0.8, label=method)
        for model, a, b in zip(models, x[0], y[0], strict=True):
            if model[1] >= 0.2:
                ax.annotate(
                    f"{model[1]:g}",
                    (a, b),
                    (4, 3),
                    textcoords="offset points",
                    fontsize=7,
                    color=color,
                )
    ax.set_xlabel("Expected accuracy (small numbers: λ)")
    ax.spines[["top", "right"]].set_visible(False)


def figure(results: dict, null_level: float):
    worst = results[REFERENCE]["accuracy"][0] - 0.1
    lost = [
        f"{title(model)} (accuracy {row['accuracy'][0]:.2f})"
        for model, row in results.items()
        if row["accuracy"][0] < worst
    ]
    results = {model: row for model, row in results.items() if row["accuracy"][0] >= worst}
    fig, axes = plt.subplots(1, 3, figsize=(14, 5), layout="constrained", sharex=True)
    for ax, name in zip(axes, ("canonical L1", "canonical", "top class"), strict=True):
        panel(ax, results, name)
    axes[0].axhline(
        null_level, color="black", linestyle=":", label="cross-entropy, were it calibrated"
    )
    axes[0].set(ylim=0, ylabel="L1 calibration error", title="Canonical, as published (plugin)")
    for ax, what in zip(axes[1:], ("Canonical", "Top class"), strict=True):
        ax.axhline(0, color="black", linestyle=":")
        ax.set(ylabel="Squared calibration error", title=f"{what}, residual form")
    if lost:
        fig.suptitle(f"Not shown: {', '.join(lost)}", fontsize=9)
    fig.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=7,
        frameon=False,
        fontsize=8,
    )
    return fig


def main() -> None:
    torch.set_num_threads(1)  # networks so small are no slower so
    matplotlib.use("Agg")
    splits = [one_split(seed) for seed in range(SPLITS)]
    results = {
        model: {name: interval(splits, model, metric) for name, metric in METRICS.items()}
        for model in MODELS
    }
    plugin = {"p": 1, "bias_correction": None, "random_state": 0}
    nulls = [null_calibration_error(s.counts, s.proba[REFERENCE], **plugin).mean for s in splits]
    print(f"{table(results)}\n\n{differences(splits)}\n\n{epoch_times()}\n")
    print(
        "Canonical L1 error of the cross-entropy network, were it calibrated: "
        f"{np.mean(nulls):.3f}\n"
    )
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure(results, np.mean(nulls)).savefig(FIGURE, dpi=150)
    print(f"Figure: {FIGURE}")


if __name__ == "__main__":
    main()
