"""
To eat, or not to eat
=====================

Six kinds of mushrooms, two decisions. To eat a deadly one costs 10 000, a poisonous one 1 000, an
inedible one 100, a bad one 40; to reject an edible one costs 10, a good one 20. The expected cost
of a decision depends on small probabilities, which an overconfident classifier gets wrong by orders
of magnitude.

The costs are those of a paper on calibration for decision making (P4 §5.1), whose mushrooms are
photographs. Here the classes are synthetic, with shares as uneven as theirs: deadly mushrooms are
rare. ``FULL=1`` in the environment runs 20 splits in place of 5."""

# %%
# Six classes
# -----------
# Twelve features, correlated, which naive Bayes takes for independent: it is too sure of itself.
import os
import sys
import warnings
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from sklearn.naive_bayes import GaussianNB

from sklearn_lhcal.calibration import DecisionCalibration, DecisionCalibrationWarning
from sklearn_lhcal.display import DecisionRiskDisplay
from sklearn_lhcal.metrics import bayes_decision, decision_risk, model_risk

FULL = bool(int(os.environ.get("FULL", "0")))
SPLITS = 20 if FULL else 5
FIGURE = Path(os.path.relpath(Path(sys.argv[0]).parent), "output", "decision_mushrooms.png")
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
    return hidden @ np.tile(np.eye(4), 3) + 0.5 * rng.normal(size=(n, 12)), np.array(list(SHARES))[
        y
    ]


# %%
# The frame's index names the classes, so their order does not matter; its columns name the
# decisions.
def one_split(seed: int):
    """Labels of the test rows, probabilities by method, and what was selected."""
    rng = np.random.default_rng(seed)
    X, y = mushrooms(10_000, rng)
    train, calibration, test = np.split(np.arange(len(X)), [1500, 4000])
    model = GaussianNB().fit(X[train], y[train])
    z, z_test = (
        pd.DataFrame(model.predict_proba(X[rows]), columns=model.classes_)
        for rows in (calibration, test)
    )
    found = {"none": z_test}
    for criterion in ("nll", "auto"):
        calibrator = DecisionCalibration("proba", COSTS, criterion=criterion).fit(z, y[calibration])
        found[criterion] = pd.DataFrame(
            calibrator.predict_proba(z_test), columns=calibrator.classes_
        )
    return y[test], found, calibrator


def interval(calibrator) -> str:
    difference = calibrator.risk_difference_
    ends = f"({difference.low:.2f} to {difference.high:.2f})"
    return f"{difference.estimate:6.2f}  {ends}  {calibrator.criterion_}"


# %%
# What it costs
# -------------
# "none" is the classifier as it is, "nll" a stack of scalings with the least log loss, "auto" the
# same stack at a temperature for these costs, where that is surely better out of fold. A constant
# decision looks at nothing.
#
# Without calibration the classifier expects its decisions to cost a fraction of what they do, and
# is worse than to reject everything. The log loss mends that. Whether a temperature for the costs
# themselves does better is another question: one deadly mushroom eaten among the calibration rows
# weighs more than all else, and with few or none of them the difference has an interval that
# reaches far to both sides. Then NLL is kept, and where the interval reaches beyond the whole risk,
# a `DecisionCalibrationWarning` says so.
def table(splits) -> str:
    lines = [f"{'':10}{'risk':>8}{'spread':>9}{'self-assessed':>15}{'eaten deadly':>14}"]
    for name in splits[0][1]:
        decisions = [bayes_decision(found[name], COSTS) for _, found, _ in splits]
        risks = [decision_risk(y, d, COSTS) for (y, _, _), d in zip(splits, decisions, strict=True)]
        said = np.mean([model_risk(found[name], COSTS) for _, found, _ in splits])
        deadly = np.mean(
            [
                ((y == "deadly") & (d == "eat")).sum()
                for (y, _, _), d in zip(splits, decisions, strict=True)
            ]
        )
        lines.append(
            f"{name:10}{np.mean(risks):8.2f}{np.std(risks, ddof=1):9.2f}{said:15.2f}{deadly:14.1f}"
        )
    for decision in COSTS.columns:
        risks = [decision_risk(y, np.full(len(y), decision), COSTS) for y, _, _ in splits]
        lines.append(
            f"{decision:10}{np.mean(risks):8.2f}{np.std(risks, ddof=1):9.2f}   whatever it is"
        )
    return "\n".join(lines)


def figure(splits):
    _, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
    ys, predictions = [y for y, _, _ in splits], [found for _, found, _ in splits]
    display = DecisionRiskDisplay.from_predictions(ys, predictions, COSTS, reference="nll", ax=left)
    left.set_title("risk of the splits")
    display.plot_differences(right)
    right.set_title("in pairs")
    return display.figure_


def main() -> None:
    matplotlib.use("Agg")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", DecisionCalibrationWarning)  # the intervals are printed below
    splits = [one_split(seed) for seed in range(SPLITS)]
    print(f"Mean cost of a mushroom, {SPLITS} splits of 6000 test rows\n{table(splits)}\n")
    print("Best other candidate less NLL out of fold, 95 % interval, and what was taken")
    print("\n".join(interval(calibrator) for _, _, calibrator in splits))
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure(splits).savefig(FIGURE, dpi=150)
    print(f"Figure: {FIGURE}")


if __name__ == "__main__":
    main()
