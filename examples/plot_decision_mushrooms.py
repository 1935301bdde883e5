"""
To eat, or not to eat
=====================

Six kinds of mushrooms, two decisions. To eat a deadly one costs 10 000, a poisonous one 1 000, an
inedible one 100, a bad one 40; to reject an edible one costs 10, a good one 20. The expected cost
of a decision depends on small probabilities, which an overconfident classifier gets wrong by orders
of magnitude.

The costs are those of a paper on calibration for decision making (P4 §5.1), whose mushrooms are
photographs. Here the classes are synthetic, with shares as uneven as theirs: deadly mushrooms are
rare."""

# %%
# Six classes
# -----------
# Twelve features, correlated, which naive Bayes takes for independent: it is too sure of itself.
import os
import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch

torch.set_num_threads(1)
SPLITS = 20
SHARES = {
    "deadly": 0.02,
    "poisonous": 0.08,
    "inedible": 0.35,
    "bad": 0.2,
    "edible": 0.2,
    "good": 0.15,
}
COSTS = pd.DataFrame(
    {"eat": [10_000, 1_000, 100, 40, 0, 0], "reject": [0, 0, 0, 0, 10, 20]},
    index=list(SHARES),
    dtype=float,
)


def mushrooms(n: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """Features (n, 12) and names of classes (n,)."""
    y = rng.choice(len(SHARES), size=n, p=list(SHARES.values()))
    means = np.random.default_rng(0).normal(0, 2.0, (len(SHARES), 4))
    hidden = means[y] + rng.normal(size=(n, 4))
    X = hidden @ np.tile(np.eye(4), 3) + 0.5 * rng.normal(size=(n, 12))
    return X, np.array(list(SHARES))[y]


# %%
# Four models
# -----------
# "none" is the classifier as it is, "nll" a stack of scalings with the least log loss, "costs" the
# same stack at the temperature that is best for these costs out of fold (``safeguard=None``), and
# "auto" the default: "costs" where that is surely better than "nll" out of fold, else "nll". A
# constant decision looks at nothing.
#
# Without calibration the classifier expects its decisions to cost a fraction of what they do, and
# is worse than to reject everything. The log loss mends that. Whether a temperature for the costs
# themselves does better is another question: one deadly mushroom eaten among the calibration rows
# weighs more than all else, and with few or none of them the difference has an interval that
# reaches far to both sides. Then NLL is kept, and where the interval reaches beyond the whole risk,
# a `DecisionCalibrationWarning` says so.
#
# The frame's index names the classes, so their order does not matter; its columns name the
# decisions.
from sklearn.naive_bayes import GaussianNB

from sklearn_lhcal.calibration import DecisionCalibration, DecisionCalibrationWarning

warnings.simplefilter("ignore", DecisionCalibrationWarning)  # the intervals are printed below

CALIBRATORS = {"nll": {"criterion": "nll"}, "auto": {}, "costs": {"safeguard": None}}

# by split: labels of the test rows, probabilities by method, and what was selected
labels, predictions, selected = [], [], []
for seed in range(SPLITS):
    rng = np.random.default_rng(seed)
    X, y = mushrooms(10_000, rng)
    train, calibration, test = np.split(np.arange(len(X)), [1500, 4000])
    model = GaussianNB().fit(X[train], y[train])
    z = pd.DataFrame(model.predict_proba(X[calibration]), columns=model.classes_)
    z_test = pd.DataFrame(model.predict_proba(X[test]), columns=model.classes_)
    labels.append(y[test])
    predictions.append({"none": z_test})
    for name, options in CALIBRATORS.items():
        calibrator = DecisionCalibration("proba", COSTS, **options).fit(z, y[calibration])
        predictions[seed][name] = pd.DataFrame(
            calibrator.predict_proba(z_test), columns=calibrator.classes_
        )
    selected.append(calibrator)

# %%
# What it costs
# -------------
# Mean cost and its spread over splits, what the model expects, and deadly mushrooms eaten.
from sklearn_lhcal.metrics import bayes_decision, decision_risk, model_risk

print(f"Mean cost of a mushroom, {SPLITS} splits of 6000 test rows")
print(f"{'':10}{'risk':>8}{'spread':>9}{'self-assessed':>15}{'eaten deadly':>14}")
for name in ("none", *CALIBRATORS):
    risks, said, deadly = [], [], []
    for y, found in zip(labels, predictions, strict=True):
        decisions = bayes_decision(found[name], COSTS)
        risks.append(decision_risk(y, decisions, COSTS))
        said.append(model_risk(found[name], COSTS))
        deadly.append(((y == "deadly") & (decisions == "eat")).sum())
    spread = np.std(risks, ddof=1)
    print(
        f"{name:10}{np.mean(risks):8.2f}{spread:9.2f}{np.mean(said):15.2f}{np.mean(deadly):14.1f}"
    )
for decision in COSTS.columns:
    risks = [decision_risk(y, np.full(len(y), decision), COSTS) for y in labels]
    print(f"{decision:10}{np.mean(risks):8.2f}{np.std(risks, ddof=1):9.2f}   whatever it is")

print()
print("Best other candidate less NLL out of fold, 95 % interval, and what was taken")
for calibrator in selected:
    difference = calibrator.risk_difference_
    ends = f"({difference.low:.2f} to {difference.high:.2f})"
    print(f"{difference.estimate:6.2f}  {ends}  {calibrator.criterion_}")

# %%
# The figure
# ----------
# Left the risk of each split. Right what the costs change: the difference from NLL on the same
# rows, without the raw classifier, which is too far away.
from sklearn_lhcal.display import DecisionRiskDisplay

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
display = DecisionRiskDisplay.from_predictions(labels, predictions, COSTS, reference="nll", ax=left)
left.set_title(f"Risk of {SPLITS} splits", fontsize=10)
display.plot_differences(right)
right.set(xlim=(-4, 4), ylim=(2.5, 0.5))  # without "none"
right.set_title("On the same rows", fontsize=10)

FIGURE = Path(os.path.relpath(Path(sys.argv[0]).parent), "output", "decision_mushrooms.png")
FIGURE.parent.mkdir(exist_ok=True)
figure.savefig(FIGURE, dpi=150)
print(f"Figure: {FIGURE}")

# %%
# "costs" and "nll" cost the same on average, 3.2 and 3.3, and eat as many deadly mushrooms. "auto"
# can tell the two apart in no split, and stays with "nll".
