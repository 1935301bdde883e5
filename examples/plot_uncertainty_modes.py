"""
Unsure, or split?
=================

A classifier says "40 %" of two rows, and is right to. Raters agree on the one, but its image does
not tell on what; on the other they are split, four to six. Here are three groups of rows:

- confident: raters agree, and the image tells on what;
- epistemic: the raters of a row agree, but the image does not tell on what;
- aleatoric: the raters of a row are split, as the class probability says.

Class probabilities are alike in the last two, and no calibration of them can tell the groups apart.
A distribution over class probabilities can: it is two peaks at 0 and 1 in the epistemic group, one
peak in the middle in the aleatoric one. This example asks who finds that: MC dropout, or
α-calibration, which has seen rows with several labels. It is the experiment of Mimori, Sasada,
Matsui and Sato (2021), Diagnostic uncertainty calibration, App. E, on the 8 x 8 digits that come
with scikit-learn. ``FULL=1`` in the environment adds the paper's other scenario, two labels per
calibration row."""

# %%
# Two classes from ten digits
# ---------------------------
# The digit t decides how the probability q of the second class is drawn for an image (eq. 52, λ =
# 20):
#
# - digits 0, 1: Beta(.99 λt, .99 λ(1−t)), a point exactly at 0 or 1;
# - digits 2 to 5: Beta with mean .2, .4, .6, .8 and total 1/λ, which is almost always next to 0 or
#   1;
# - digits 6 to 9: Beta with the same means and total λ, close to its mean.
#
# Raters of a row then say the second class with probability q: one label in training, five on
# calibration rows.
import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from colours import SKY
from sklearn.datasets import load_digits

torch.set_num_threads(1)  # networks so small are no slower so
FULL = os.environ.get("FULL") == "1"
CONCENTRATION = 20.0  # λ


def draw_probability(digit: np.ndarray, rng) -> np.ndarray:
    """q of each image: in {0, 1} for digits 0 and 1, else from its Beta distribution."""
    mean = np.where(digit < 6, 0.2 * (digit - 1), 0.2 * (digit - 5))
    total = np.where(digit < 6, 1 / CONCENTRATION, CONCENTRATION)
    drawn = digit > 1
    q = digit.astype(float)
    q[drawn] = rng.beta((mean * total)[drawn], ((1 - mean) * total)[drawn])
    return np.clip(q, 0, 1)


def labels_of(q: np.ndarray, raters: int, rng) -> np.ndarray:
    """How many of the raters say the first class, and how many the second."""
    yes = rng.binomial(raters, q)
    return np.column_stack([raters - yes, yes])


data, rng = load_digits(), np.random.default_rng(0)
X, digit = data.data / 16, data.target
q = draw_probability(digit, rng)
train, calibration, test = np.split(rng.permutation(len(X)), [600, 1350])

# %%
# The network
# -----------
# Its body ends in 64 averages over the image of the last convolution; they are the features of α.
from torch import nn

from sklearn_lhcal.neural_network import NeuralClassifier


def network() -> nn.Module:
    """Three convolutions on 8 x 8 pixels, averages over the image, and a linear layer."""
    body = nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    return nn.Sequential(body, nn.Dropout(0.5), nn.Linear(64, 2))


net = NeuralClassifier(network, lr=2e-3, batch_size=32, max_epochs=25, random_state=0)
net.fit(X[train], labels_of(q[train], 1, rng))


def last_convolution(X) -> np.ndarray:
    """Features of X: what the network's body makes of it, shape (n, 64)."""
    with torch.no_grad():
        return net.module_[0](torch.as_tensor(X, dtype=torch.float32)).numpy()


counts = labels_of(q[test], 10, rng)

# %%
# The predictions
# ---------------
# The network as it is, Monte Carlo dropout, and α after temperature scaling: with its default
# features, which are functions of the class probabilities, and with those of the network.
from sklearn.frozen import FrozenEstimator

from sklearn_lhcal.calibration import AlphaCalibration, TemperatureScaling
from sklearn_lhcal.distributions import predict_dist
from sklearn_lhcal.ensemble import MCDropoutClassifier

frozen = FrozenEstimator(net)
dropout = MCDropoutClassifier(frozen, n_samples=50, random_state=0)
models = {"Raw": frozen, "MC dropout": dropout}
counts_calibration = {
    labels: labels_of(q[calibration], labels, rng) for labels in ([5, 2] if FULL else [5])
}
dropout.fit(X[calibration], counts_calibration[5])
for labels, y in counts_calibration.items():
    for name, features in {"probabilities": None, "last convolution": last_convolution}.items():
        model = AlphaCalibration(TemperatureScaling(frozen), features=features)
        models[f"α, {name}, {labels} labels"] = model.fit(X[calibration], y)
dists = {name: predict_dist(model, X[test]) for name, model in models.items()}

# %%
# The table
# ---------
# For each group of test rows: W, the distance (Wasserstein) between the predicted distribution of
# probabilities and that of the true ones, pooled over the group; how often two raters agree, as
# predicted and in fact; the epistemic loss of the class probabilities before (EL) and after (EL′)
# one expert label.
from scipy.stats import wasserstein_distance

from sklearn_lhcal.metrics import epistemic_loss, irreducible_loss, posterior_epistemic_loss

DIGITS = {"confident": (0, 1), "epistemic": (2, 3, 4, 5), "aleatoric": (6, 7, 8, 9)}
GROUPS = {name: np.isin(digit[test], digits) for name, digits in DIGITS.items()}

# draws of the probability of the second class, shape (draws, n)
draws = {name: dist.sample(200, random_state=0)[:, :, 1] for name, dist in dists.items()}

print(
    f"{len(train)} rows for training, {len(calibration)} for calibration, {len(test)} for the "
    "test\n"
)
columns = ("W", "agree", "in fact", "EL", "EL′")
print(f"{'':34}{'group':10}" + "".join(f"{column:>9}" for column in columns))
for name, dist in dists.items():
    for group, rows in GROUPS.items():
        y, d = counts[rows], dist[rows]
        distance = wasserstein_distance(
            d.sample(200, random_state=0)[:, :, 1].ravel(), q[test][rows]
        )
        agree, in_fact = 1 - d.disagreement().mean(), 1 - irreducible_loss(y)
        values = (distance, agree, in_fact, epistemic_loss(y, d), posterior_epistemic_loss(y, d))
        print(f"{name:34}{group:10}" + "".join(f"{v:9.3f}" for v in values))

# %%
# Raters of the epistemic group agree in 97 of 100 pairs, those of the aleatoric group in 65. The
# network predicts 67 and 70, and MC dropout the same. With its default features, which are
# functions of the class probabilities, α predicts 82 for both: what these have lost, no calibration
# brings back. The last convolution has kept it, although the network was trained on one label per
# row, by which the groups cannot be told apart: α reads 91 and 72 out of it, and W falls from .22
# to .05 in the epistemic group. One label then corrects most of that group: its EL falls from .43
# to .06.
#
# The separation is not perfect. Some aleatoric rows are taken for epistemic ones and trust their
# one label too much: in that group the label makes things worse, .060 to .081, though less so than
# with the default features (.115). Temperature scaling, which goes before α, is a compromise
# between groups: EL of the aleatoric group gains by it, that of the confident group loses.

# %%
# The figure
# ----------
# One column a group, one row a method: MC dropout, and α with its default features and with those
# of the last convolution. Each panel pools the predicted distributions of the rows of a group; the
# line is that of the true probabilities.
shown = {name: drawn for name, drawn in draws.items() if name != "Raw"}
figure, axes = plt.subplots(
    len(shown),
    len(GROUPS),
    figsize=(9.5, 1.7 * len(shown) + 0.6),
    sharex=True,
    sharey="col",
    layout="constrained",
)
edges = np.linspace(0, 1, 21)
for line, (name, drawn) in zip(axes, shown.items(), strict=True):
    for ax, rows in zip(line, GROUPS.values(), strict=True):
        values, truth = drawn[:, rows].ravel(), q[test][rows]
        ax.hist(values, edges, weights=np.full(len(values), 100 / len(values)), color=SKY)
        share = 100 / len(truth) * np.histogram(truth, edges)[0]
        ax.stairs(share, edges, color="black", linewidth=1.2)
        ax.spines[["top", "right"]].set_visible(False)
    line[0].set_ylabel(name.replace(", ", "\n"), fontsize=9)
for ax, (group, digits) in zip(axes[0], DIGITS.items(), strict=True):
    ax.set_title(f"{group}: digits {digits[0]} to {digits[-1]}", fontsize=10)
for ax in axes[-1]:
    ax.set_xlabel("probability of the second class")
figure.supylabel("share in each of 20 bins (%)", fontsize=10)
axes[0, 0].plot([], [], color="black", linewidth=1.2, label="truth")
axes[0, 0].legend(frameon=False, fontsize=8, loc="upper center")

FIGURE = Path(os.path.relpath(Path(sys.argv[0]).parent), "output", "uncertainty_modes.png")
FIGURE.parent.mkdir(exist_ok=True)
figure.savefig(FIGURE, dpi=150)
print(f"\nFigure: {FIGURE}")

# %%
# MC dropout spreads both right-hand columns over the whole range. α with default
# features puts peaks at 0 and 1 into both. With the last convolution they are high where they
# belong; in the aleatoric group, where they do not, they are left from the rows that α mistakes.
