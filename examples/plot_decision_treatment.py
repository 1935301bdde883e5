"""
Treat, test or wait
===================

A tumour is malignant or benign; a physician may treat, order one more test, or wait. To wait with a
malignant tumour costs 50, to treat a benign one 5, the test 1 whatever the tumour is, and 2 more if
it is malignant and time is lost. To order a test is the reject option: one more column of the cost
matrix.

Which decision is the cheapest depends on whether the probability of a malignant tumour is 2 % or 10
%. Naive Bayes on the thirty correlated measurements of the breast-cancer data, all but certain of
every row, does not know."""

# %%
# Decisions
# ---------
# The index of the frame names the classes, its columns the decisions. Decisions are scored as
# anything else, so that the smoothing of naive Bayes can be searched for these costs too.
import os
import sys
import warnings
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.naive_bayes import GaussianNB

from sklearn_lhcal.calibration import DecisionCalibration, DecisionCalibrationWarning, decide
from sklearn_lhcal.display import DecisionRiskDisplay
from sklearn_lhcal.metrics import bayes_decision, decision_risk, make_decision_scorer, model_risk

FULL = bool(int(os.environ.get("FULL", "0")))
SPLITS = 40 if FULL else 10
FIGURE = Path(os.path.relpath(Path(sys.argv[0]).parent), "output", "decision_treatment.png")
COSTS = pd.DataFrame(
    {"treat": [0, 5], "test": [3, 1], "wait": [50, 0]}, index=["malignant", "benign"], dtype=float
)


def one_split(X, y, seed: int):
    """Test labels, probabilities by method, and the decisions of the calibrated model."""
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=seed)
    X, X_cal, y, y_cal = train_test_split(X, y, test_size=0.6, stratify=y, random_state=seed)
    grid = {"var_smoothing": [1e-9, 1e-6, 1e-3]}
    search = GridSearchCV(GaussianNB(), grid, scoring=make_decision_scorer(COSTS), cv=3).fit(X, y)
    found = {"none": _frame(search, X_test)}
    for criterion in ("nll", "auto"):
        model = DecisionCalibration(
            FrozenEstimator(search), COSTS, scaling="temperature", criterion=criterion
        )
        found[criterion] = _frame(model.fit(X_cal, y_cal), X_test)
    return y_test, found, decide(FrozenEstimator(model), X_test)


def _frame(model, X) -> pd.DataFrame:
    return pd.DataFrame(model.predict_proba(X), columns=model.classes_)


# %%
# What it costs
# -------------
# Of a temperature the mean cost is a step function, whose steps are all looked at. The
# self-assessed risk of the uncalibrated model is near 0: it believes that it makes no mistakes, and
# so never asks for a test.
def table(splits) -> str:
    lines = [
        f"{'':8}{'risk':>8}{'spread':>8}{'self-assessed':>15}"
        + "".join(f"{d:>8}" for d in COSTS.columns)
    ]
    for name in splits[0][1]:
        decisions = [bayes_decision(found[name], COSTS) for _, found, _ in splits]
        risks = [decision_risk(y, d, COSTS) for (y, _, _), d in zip(splits, decisions, strict=True)]
        said = np.mean([model_risk(found[name], COSTS) for _, found, _ in splits])
        shares = "".join(
            f"{np.mean([np.mean(d == what) for d in decisions]):8.1%}" for what in COSTS.columns
        )
        lines.append(
            f"{name:8}{np.mean(risks):8.3f}{np.std(risks, ddof=1):8.3f}{said:15.3f}{shares}"
        )
    for what in COSTS.columns:
        risks = [decision_risk(y, np.full(len(y), what), COSTS) for y, _, _ in splits]
        lines.append(f"{what:8}{np.mean(risks):8.3f}{np.std(risks, ddof=1):8.3f}   always")
    return "\n".join(lines)


# %%
# Other costs
# -----------
# A cost curve shows the risk over all ratios of the costs of the two mistakes, without a test:
# right in the middle they are equal. What is calibrated well for one ratio need not be for another.
def figure(splits):
    _, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    ys, predictions = [y for y, _, _ in splits], [found for _, found, _ in splits]
    display = DecisionRiskDisplay.from_predictions(
        ys, predictions, COSTS, test_share=0.4, ax=axes[0]
    )
    display.plot_differences(axes[1])
    display.plot_cost_curves(axes[2])
    for ax, title in zip(axes, ("risk of the splits", "in pairs", "other costs"), strict=True):
        ax.set_title(title)
    return display.figure_


def main() -> None:
    matplotlib.use("Agg")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", DecisionCalibrationWarning)
    data = load_breast_cancer()
    splits = [one_split(data.data, data.target_names[data.target], seed) for seed in range(SPLITS)]
    print(f"Mean cost of a patient, {SPLITS} splits\n{table(splits)}")
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure(splits).savefig(FIGURE, dpi=150)
    print(f"Figure: {FIGURE}")


if __name__ == "__main__":
    main()
