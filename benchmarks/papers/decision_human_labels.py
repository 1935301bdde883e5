"""Decisions judged by human labels.

A camera beside a road says what it sees. To take an animal for a vehicle costs 20, for then nobody
is warned; a vehicle for an animal 5, for then all brake; one animal or vehicle for another 1; and
to ask a person costs 0.5. What is the truth? About 51 people said what each of these images shows:
CIFAR-10H of Peterson, Battleday, Griffiths and Russakovsky (2019). Where they disagree, the cost of
a decision is its mean over what they said, as if one of them was right, and nobody knows whom. Two
labels an image are used for calibration, all of them for judging.

    PREDICTIONS=my_network.npy python benchmarks/papers/decision_human_labels.py

`cifar10h` in ``benchmarks/lib/cifar10h.py`` says what that file holds, and what runs without it.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from sklearn_lhcal.calibration import DecisionCalibration, DecisionCalibrationWarning
from sklearn_lhcal.metrics import (
    bayes_decision,
    confidence_interval,
    decision_risk,
    model_risk,
    paired_difference,
)

# what benchmarks share
sys.path.insert(0, str(Path(__file__).parents[1]))
from lib.cifar10h import cifar10h, some_labels

# Ten classes, eleven decisions.
#


torch.set_num_threads(1)  # small problems are no slower so
LABELS = 2
CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
ANIMALS = np.isin(CLASSES, ["bird", "cat", "deer", "dog", "frog", "horse"])

# rows: what it is; columns: what the camera says, or that it asks
C = np.where(ANIMALS[:, None] & ~ANIMALS, 20.0, np.where(~ANIMALS[:, None] & ANIMALS, 5.0, 1.0))
np.fill_diagonal(C, 0.0)
C = pd.DataFrame(C, columns=CLASSES).assign(ask=0.5)

source, counts, z = cifar10h()
z = z / z.sum(axis=1, keepdims=True)
rng = np.random.default_rng(0)
rows = rng.permutation(len(z))
fit, test = rows[: len(z) // 2], rows[len(z) // 2 :]
labels = some_labels(counts[fit], LABELS, rng)
counts_test = counts[test]

# Four ways to decide. "none" is the network as it is, "nll" a stack of scalings with the least log
# loss, "auto" the same stack at a temperature for these costs, where that is surely better out of
# fold; "constant" is the decision that costs least on the calibration samples where all samples get
# the same. The 95% intervals are those of the mean over images, by the jackknife: with all labels
# of the test images, and with one label each, as data sets usually have it.

warnings.simplefilter("ignore", DecisionCalibrationWarning)  # the interval is printed below
found = {"none": z[test]}
for criterion in ("nll", "auto"):
    calibrator = DecisionCalibration("proba", C, criterion=criterion).fit(z[fit], labels)
    found[criterion] = calibrator.predict_proba(z[test])

decisions = {name: bayes_decision(proba, C) for name, proba in found.items()}
constant = min(C.columns, key=lambda name: decision_risk(labels, np.full(len(labels), name), C))
decisions["constant"] = np.full(len(test), constant)

# What the decisions cost. On the first 5,000 images, with the cross-validated predictions of a
# convolutional network that Northcutt, Athalye and Mueller (2021) published, the network expects to
# cost 0.05 an image and costs 0.22. Calibrated it costs 0.16, 0.06 less (0.02 to 0.10): it asks
# about 15% of the images and not 3%. A temperature for these costs is no better out of fold, so
# "auto" keeps NLL. With one label an image the interval of the 0.16 is almost three times as wide.

INTERVAL = {"cost_matrix": C, "random_state": 0}
one_label = some_labels(counts_test, 1, rng)

print(
    f"{source}: {len(fit)} images with {LABELS} labels calibrate, {len(test)} with all labels "
    "judge\n"
)
print(
    f"{'':10}{'risk':>7}{'95%, all labels':>18}{'95%, one label':>18}"
    f"{'self-assessed':>16}{'asks':>8}"
)
for name, d in decisions.items():
    i = confidence_interval(decision_risk, counts_test, d, **INTERVAL)
    j = confidence_interval(decision_risk, one_label, d, **INTERVAL)
    said = f"{model_risk(found[name], C):16.3f}" if name in found else f"{'':16}"
    intervals = f"{f'{i.low:.3f} – {i.high:.3f}':>18}{f'{j.low:.3f} – {j.high:.3f}':>18}"
    print(f"{name:10}{i.estimate:7.3f}{intervals}{said}{(d == 'ask').mean():8.1%}")

print("\nCost an image less that of nll, and its 95% interval")
for name in ("none", "auto", "constant"):
    d = paired_difference(decision_risk, counts_test, decisions[name], decisions["nll"], **INTERVAL)
    print(f"{name:10}{d.estimate:7.3f}   {d.low:.3f} – {d.high:.3f}")

print(f"\nThe best constant decision is {constant!r}.")
gain = calibrator.risk_difference_
print(
    f"Out of fold, the best other criterion less nll: {gain.estimate:.4f}, 95% interval "
    f"{gain.low:.4f} to {gain.high:.4f}."
)
print(f"Taken: {calibrator.criterion_}.")
