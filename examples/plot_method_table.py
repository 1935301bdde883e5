"""
Which uncertainty method, with which calibration?
=================================================

Three ways to predict, four ways to calibrate the class probabilities, with and without
α-calibration on top: the method table of Mimori, Sasada, Matsui and Sato (2021), Diagnostic
uncertainty calibration, section 7, on mixed digits.

- Raw: the network as it is; MCDO: Monte Carlo dropout; TTA: test-time augmentation, by shifts of up
  to half a pixel.
- none, ts, vs, ms: no, temperature, vector and matrix scaling, of every member of an ensemble
  alike.
- α: a Dirichlet distribution around each class probability, or around that of every member.

``FULL=1`` in the environment trains longer, makes 50 draws in place of 10, and adds a table for
five labels on each calibration row."""

# %%
# The predictors
# --------------
# One network, trained on every image and on a shifted copy of it, so that shifts are nothing new to
# it. It is asked once, and the calibrators work on what it said: class probabilities, or draws of
# them.
import os
import sys
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.colors import to_rgba
from scipy.ndimage import shift
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from torch import nn

from sklearn_lhcal.calibration import (
    AlphaCalibration,
    MatrixScaling,
    PrecomputedClassifier,
    TemperatureScaling,
    VectorScaling,
)
from sklearn_lhcal.datasets import load_mixed_digits
from sklearn_lhcal.display import CalibrationDispersionDisplay
from sklearn_lhcal.distributions import Ensemble, predict_dist
from sklearn_lhcal.ensemble import MCDropoutClassifier, TestTimeAugmentationClassifier
from sklearn_lhcal.metrics import (
    calibration_error,
    class_disagreement_calibration_error,
    class_disagreement_squared_loss,
    disagreement_calibration_error,
    disagreement_squared_loss,
    dispersion_error,
    epistemic_loss,
    expected_accuracy,
    expected_squared_loss,
    paired_difference,
    posterior_epistemic_loss,
)
from sklearn_lhcal.neural_network import NeuralClassifier

FULL = bool(int(os.environ.get("FULL", "0")))
LABELS = [2, 5] if FULL else [2]
EPOCHS, DRAWS = (100, 50) if FULL else (25, 10)
FIGURE = Path(os.path.relpath(Path(sys.argv[0]).parent), "output", "method_table.png")


def small_network() -> nn.Module:
    """Three convolutions on 8 x 8 pixels, then an average over the image."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(64, 128, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(128, 10),
    )


def shifted(X: np.ndarray, random_state) -> np.ndarray:
    """All images moved by one shift of up to half a pixel."""
    by = random_state.uniform(-0.5, 0.5, size=2)
    return shift(X.reshape(-1, 8, 8), (0, *by), order=1).reshape(X.shape)


class Saved(ClassifierMixin, BaseEstimator):
    """An ensemble that was asked before.

    X holds its class probabilities, shape (n_samples, n_draws, n_classes).
    """

    def fit(self, X, y=None):
        self.classes_ = np.arange(X.shape[2])
        return self

    def predict_dist(self, X):
        return Ensemble(np.moveaxis(X, 1, 0))

    def predict_proba(self, X):
        return self.predict_dist(X).mean()


SCALINGS = {"none": None, "ts": TemperatureScaling, "vs": VectorScaling, "ms": MatrixScaling}


def outputs(net, *parts) -> dict:
    """By predictor: a classifier of saved outputs, and those outputs for each of the parts of X."""
    ensembles = {
        "MCDO": MCDropoutClassifier(FrozenEstimator(net), n_samples=DRAWS, random_state=0),
        "TTA": TestTimeAugmentationClassifier(
            FrozenEstimator(net), shifted, n_samples=DRAWS, random_state=0
        ),
    }
    saved = {"Raw": (PrecomputedClassifier("proba"), [net.predict_proba(X) for X in parts])}
    for name, ensemble in ensembles.items():
        ensemble.fit(
            parts[0], np.arange(len(parts[0])) % 10
        )  # the network is frozen: only the draws are decided
        saved[name] = Saved(), [np.moveaxis(ensemble.sample_proba(X), 0, 1) for X in parts]
    return saved


def predictions(saved: dict, counts) -> dict:
    """Distributions of the test rows by (predictor, scaling, α or not).

    Fitted on counts of the calibration rows.
    """
    dists = {}
    for name, (predictor, (X, X_test)) in saved.items():
        predictor = FrozenEstimator(predictor.fit(X))
        for scaling, calibrator in SCALINGS.items():
            model = (
                predictor
                if calibrator is None
                else FrozenEstimator(calibrator(predictor).fit(X, counts))
            )
            dists[name, scaling, ""] = predict_dist(model, X_test)
            dists[name, scaling, "α"] = predict_dist(AlphaCalibration(model).fit(X, counts), X_test)
    return dists


# %%
# The posterior of an ensemble
# ----------------------------
# After an expert's label y, members are weighted by the probability they gave it, the product of
# z_k^y_k. The code published with the paper takes the sum over classes instead, in which the K − 1
# classes not named count 1 each.
class PublishedRule(Ensemble):
    """An ensemble whose members are weighted, after a label k.

    By Σ_j z_j^y_j = z_k + K − 1 in place of z_k.
    """

    def mean_after(self, label):
        w = self.weights * (self.proba[:, :, label] + self.n_classes - 1)
        return np.einsum("sn,snk->nk", w / w.sum(axis=0), self.proba)


def published_posterior_loss(counts, dist) -> float:
    """Epistemic loss after one label under that rule; NaN for what it is not defined for."""
    return (
        posterior_epistemic_loss(counts, PublishedRule(dist.proba))
        if isinstance(dist, Ensemble)
        else np.nan
    )


# %%
# The table
# ---------
# Acc is better when large, all else when small. L: expected squared loss, CE and DE: calibration
# and dispersion error of the class probabilities; L_φ, CE_φ: loss and calibration error of the
# predicted disagreement of two raters, L_φk and CE_φk the same class by class. EL: epistemic loss,
# the squared distance to the true probabilities; EL′: after one expert label, by the published rule
# (sum) and by ours.
#
# With two labels per calibration row it says:
#
# - α improves all four metrics of disagreement in every row. L_φ falls from .085 – .106 to .076 –
#   .080, and the intervals of all differences lie below 0. Class probabilities, and with them Acc
#   to DE, stay what they are.
# - Disagreement is predicted worst, with α, after matrix scaling of Raw (CE_φ = .08, the others .04
#   to .07).
# - Scaling and ensembles matter little here: all epistemic losses lie between .07 and .09, with 90
#   % intervals .04 to .05 wide. A corrected CE may come out negative, which says "not above the
#   noise".
# - One label lowers the epistemic loss of ensembles by .001 under the published rule and by .013 to
#   .027 under the product rule. With α it falls for all, Raw too, to about half of what it was:
#   draws differ too little among themselves for one label to move them as far as it should.
#
# The exception comes with ``FULL=1``: trained four times as long, the network is overconfident, and
# so predicts little disagreement, which is right here for the wrong reason. In the three rows
# without scaling α then leaves L_φ about as it is (differences of -.002 to -.001, whose intervals
# include 0), and CE_φ of Raw rises from .06 to .07. Temperature scaling makes the class
# probabilities softer and the predicted disagreement too large, and α is needed again. EL′ falls by
# it in every row.
COLUMNS = {
    "Acc": expected_accuracy,
    "L": expected_squared_loss,
    "CE": calibration_error,
    "DE": dispersion_error,
    "L_φ": disagreement_squared_loss,
    "CE_φ": disagreement_calibration_error,
    "L_φk": class_disagreement_squared_loss,
    "CE_φk": class_disagreement_calibration_error,
    "EL": epistemic_loss,
    "EL′ sum": published_posterior_loss,
    "EL′": posterior_epistemic_loss,
}
ORDER_2 = ["L_φ", "CE_φ", "L_φk", "CE_φk"]


def scores(dists: dict, counts) -> dict:
    return {
        row: {name: metric(counts, dist) for name, metric in COLUMNS.items()}
        for row, dist in dists.items()
    }


def table(rows: dict) -> str:
    """One line a method, with α below without."""
    lines = [f"{'':12}" + "".join(f"{name:>9}" for name in COLUMNS)]
    for (name, scaling, alpha), values in rows.items():
        cells = "".join(f"{'–':>9}" if np.isnan(v) else f"{v:9.4f}" for v in values.values())
        lines.append(f"{name + ' ' + scaling + (' +α' if alpha else ''):12}{cells}")
    return "\n".join(lines)


def effect_of_alpha(dists: dict, counts) -> str:
    """Change of the disagreement loss by α, row by row, with its paired interval."""
    lines = ["L_φ with α less L_φ without, and its 90 % interval"]
    for (name, scaling, alpha), dist in dists.items():
        if not alpha:
            better = dists[name, scaling, "α"]
            options = {"confidence_level": 0.9, "random_state": 0}
            d = paired_difference(disagreement_squared_loss, counts, better, dist, **options)
            lines.append(
                f"{name + ' ' + scaling:12}{d.estimate:9.4f}   {d.low:7.4f} – {d.high:7.4f}"
            )
    return "\n".join(lines)


# %%
# The figure
# ----------
# Left, calibration against dispersion: α would not move a point. Intervals are those of each method
# alone; the methods share their rows, so that differences between them are surer than that. Right,
# the epistemic loss before and after one label; class probabilities alone (Raw without α) learn
# nothing from it.
COLORS = {"Raw": "black", "MCDO": "tab:blue", "TTA": "tab:orange"}
MARKERS = {"none": "o", "ts": "s", "vs": "^", "ms": "D"}


def plot_map(ax, dists: dict, counts) -> None:
    """Dispersion loss against calibration loss: a colour a predictor, a marker a scaling."""
    for (name, scaling, alpha), dist in dists.items():
        if not alpha:
            style = {
                "fmt": MARKERS[scaling],
                "color": COLORS[name],
                "ecolor": to_rgba(COLORS[name], 0.25),
                "capsize": 0,
            }
            shown = CalibrationDispersionDisplay.from_predictions(
                counts, {"": dist}, ax=ax, errorbar_kwargs=style
            )
    colors = [ax.plot([], [], "o", color=color, label=name)[0] for name, color in COLORS.items()]
    markers = [
        ax.plot([], [], marker, color="0.5", label=name)[0] for name, marker in MARKERS.items()
    ]
    handles = [*colors, shown.iso_lines_, *markers]
    ax.legend(
        handles=handles,
        frameon=False,
        fontsize=8,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.11),
        ncols=2,
    )


def plot_posterior(ax, rows: dict) -> None:
    """Epistemic loss before and after one label, method by method."""
    methods = [(name, scaling) for name, scaling, alpha in rows if not alpha]
    height = np.arange(len(methods))[::-1]
    columns = [
        ("before any label", "EL", "", "0.6", "o"),
        ("after one, published rule (sum)", "EL′ sum", "", "tab:red", "x"),
        ("after one, product rule", "EL′", "", "tab:blue", "o"),
        ("after one, product rule, with α", "EL′", "α", "tab:green", "o"),
    ]
    for label, column, alpha, color, marker in columns:
        values = [rows[*method, alpha][column] for method in methods]
        style = {"markersize": 9, "fillstyle": "none"} if color == "0.6" else {"markersize": 6}
        ax.plot(values, height, marker, color=color, label=label, **style)
    ax.set_yticks(height, [" ".join(method) for method in methods])
    ax.set_xlim(left=0)
    ax.grid(axis="x", color="0.9")
    ax.set_xlabel("Epistemic loss (squared probability)")
    ax.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.11), ncols=2)


def figure(dists: dict, rows: dict, counts, labels: int):
    fig, (left, right) = plt.subplots(1, 2, figsize=(12, 5.6), layout="constrained")
    plot_map(left, dists, counts)
    left.set_title("Class probabilities, and 95 % intervals", fontsize=10)
    plot_posterior(right, rows)
    right.set_title("What one expert label tells", fontsize=10)
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    fig.suptitle(f"Mixed digits, {labels} labels per calibration row", fontsize=11)
    return fig


def main() -> None:
    torch.set_num_threads(1)  # networks so small are no slower so
    matplotlib.use("Agg")
    data = load_mixed_digits()
    moved = np.vstack([shifted(x, rng) for rng in [np.random.RandomState(0)] for x in data.X_train])
    net = NeuralClassifier(small_network, lr=2e-3, batch_size=64, max_epochs=EPOCHS, random_state=0)
    net.fit(np.vstack([data.X_train, moved]), np.vstack([data.counts_train] * 2))
    saved = outputs(net, data.X_validation, data.X_test)
    for labels in LABELS:
        counts = data.counts_test
        dists = predictions(saved, load_mixed_digits(raters=labels).counts_validation)
        rows = scores(dists, counts)
        print(
            f"{labels} labels per calibration "
            f"row\n\n{table(rows)}\n\n{effect_of_alpha(dists, counts)}\n"
        )
        worse = [
            (*row, m)
            for row in rows
            if row[2]
            for m in ORDER_2
            if rows[row][m] >= rows[*row[:2], ""][m]
        ]
        print(f"Order-2 metrics that α makes worse: {worse or 'none'}\n")
        chart = figure(dists, rows, counts, labels)
        if labels == LABELS[0]:
            FIGURE.parent.mkdir(parents=True, exist_ok=True)
            chart.savefig(FIGURE, dpi=150)
            print(f"Figure: {FIGURE}\n")


if __name__ == "__main__":
    main()
