"""Unsure, or split?

A classifier says "40%" of two samples, and is right to. Raters agree on the one, but its image does
not tell on what; on the other they are split, four to six. Here are three groups of samples:

- confident: raters agree, and the image tells on what;
- epistemic: the raters of a sample agree, but the image does not tell on what;
- aleatoric: the raters of a sample are split, as the class probability says.

Class probabilities are alike in the last two, and no calibration of them can tell the groups apart.
A distribution over class probabilities can: it is two peaks at 0 and 1 in the epistemic group, one
peak in the middle in the aleatoric one. This example asks who finds that: MC dropout, or
α-calibration, which has seen samples with several labels. It is the experiment of Mimori, Sasada,
Matsui and Sato (2021), Diagnostic uncertainty calibration, App. E of the preprint, on the 8 x 8
digits that come with scikit-learn. ``FULL=1`` in the environment adds the paper's other scenario,
two labels per calibration sample."""

import os

import numpy as np
import torch
from scipy.stats import wasserstein_distance
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from torch import nn

from sklearn_lhcal.calibration import AlphaCalibration, TemperatureScaling
from sklearn_lhcal.distributions import predict_dist
from sklearn_lhcal.ensemble import MCDropoutClassifier
from sklearn_lhcal.metrics import epistemic_loss, irreducible_loss, posterior_epistemic_loss
from sklearn_lhcal.neural_network import NeuralClassifier

# Two classes from ten digits.
# The digit t decides how the probability q of the second class is drawn for an image (its eq. 52,
# λ = 20):
#
# - digits 0, 1: Beta(0.99 λt, 0.99 λ(1−t)), a point exactly at 0 or 1;
# - digits 2 to 5: Beta with mean 0.2, 0.4, 0.6, 0.8 and total 1/λ, which is almost always next to 0
#   or 1;
# - digits 6 to 9: Beta with the same means and total λ, close to its mean.
# Raters of a sample then say the second class with probability q: one label in training, five on
# calibration samples.
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

# The network.
# Its body ends in 64 averages over the image of the last convolution; they are the features of α.


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

# The predictions.
# The network as it is, Monte Carlo dropout, and α after temperature scaling: with its default
# features, which are functions of the class probabilities, and with those of the network.
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

# The table. For each group of test samples: W, the distance (Wasserstein) between the predicted
# distribution of probabilities and that of the true ones, pooled over the group; how often two
# raters agree, as predicted and in fact; the epistemic loss of the class probabilities before (EL)
# and after (EL′) one expert label.
DIGITS = {"confident": (0, 1), "epistemic": (2, 3, 4, 5), "aleatoric": (6, 7, 8, 9)}
GROUPS = {name: np.isin(digit[test], digits) for name, digits in DIGITS.items()}

print(
    f"{len(train)} samples for training, {len(calibration)} for calibration, {len(test)} for the "
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
