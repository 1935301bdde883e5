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

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.naive_bayes import GaussianNB

from sklearn_lhcal.calibration import DecisionCalibration, DecisionCalibrationWarning
from sklearn_lhcal.metrics import make_decision_scorer

torch.set_num_threads(1)
warnings.simplefilter("ignore", DecisionCalibrationWarning)
FULL = os.environ.get("FULL") == "1"
SPLITS = 40 if FULL else 10
COSTS = pd.DataFrame(
    {"treat": [0, 5], "test": [3, 1], "wait": [50, 0]}, index=["malignant", "benign"], dtype=float
)
GRID = {"var_smoothing": [1e-9, 1e-6, 1e-3]}

data = load_breast_cancer()
diagnosis = data.target_names[data.target]
# by split: labels of the test rows, and probabilities by method
labels, predictions = [], []
for seed in range(SPLITS):
    X, X_test, y, y_test = train_test_split(
        data.data, diagnosis, test_size=0.4, stratify=diagnosis, random_state=seed
    )
    X, X_cal, y, y_cal = train_test_split(X, y, test_size=0.6, stratify=y, random_state=seed)
    search = GridSearchCV(GaussianNB(), GRID, scoring=make_decision_scorer(COSTS), cv=3)
    search.fit(X, y)
    models = {"none": search}
    for criterion in ("nll", "auto"):
        models[criterion] = DecisionCalibration(
            FrozenEstimator(search), COSTS, scaling="temperature", criterion=criterion
        ).fit(X_cal, y_cal)
    labels.append(y_test)
    predictions.append(
        {
            name: pd.DataFrame(model.predict_proba(X_test), columns=model.classes_)
            for name, model in models.items()
        }
    )

# %%
# What it costs
# -------------
# Of a temperature the mean cost is a step function, whose steps are all looked at. The
# self-assessed risk of the uncalibrated model is near 0: it believes that it makes no mistakes, and
# so never asks for a test.
from sklearn_lhcal.metrics import bayes_decision, decision_risk, model_risk

print(f"Mean cost of a patient, {SPLITS} splits")
shares = "".join(f"{decision:>8}" for decision in COSTS.columns)
print(f"{'':8}{'risk':>8}{'spread':>8}{'self-assessed':>15}{shares}")
for name in ("none", "nll", "auto"):
    found = [z[name] for z in predictions]
    decisions = [bayes_decision(z, COSTS) for z in found]
    risks = [decision_risk(y, d, COSTS) for y, d in zip(labels, decisions, strict=True)]
    said = np.mean([model_risk(z, COSTS) for z in found])
    shares = [np.mean([np.mean(d == what) for d in decisions]) for what in COSTS.columns]
    cells = "".join(f"{share:8.1%}" for share in shares)
    print(f"{name:8}{np.mean(risks):8.3f}{np.std(risks, ddof=1):8.3f}{said:15.3f}{cells}")
for what in COSTS.columns:
    risks = [decision_risk(y, np.full(len(y), what), COSTS) for y in labels]
    print(f"{what:8}{np.mean(risks):8.3f}{np.std(risks, ddof=1):8.3f}   always")

# %%
# Other costs
# -----------
# A cost curve shows the risk over all ratios of the costs of the two mistakes, without a test:
# right in the middle they are equal. What is calibrated well for one ratio need not be for another.
from sklearn_lhcal.display import DecisionRiskDisplay

figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
display = DecisionRiskDisplay.from_predictions(
    labels, predictions, COSTS, test_share=0.4, ax=axes[0]
)
display.plot_differences(axes[1])
display.plot_cost_curves(axes[2])
titles = ("risk of the splits", "in pairs", "other costs, bands: 95 %")
for ax, title in zip(axes, titles, strict=True):
    ax.set_title(title)
    # below the panel, where it hides nothing
    ax.legend(
        *ax.get_legend_handles_labels(),
        fontsize="small",
        loc="upper center",
        bbox_to_anchor=(0.5, -0.14),
        ncols=2,
    )

FIGURE = Path(os.path.relpath(Path(sys.argv[0]).parent), "output", "decision_treatment.png")
FIGURE.parent.mkdir(exist_ok=True)
figure.savefig(FIGURE, dpi=150)
print(f"Figure: {FIGURE}")

# %%
# On average the model as it is costs more than to test everybody, and expects to cost next to
# nothing. Both ways to calibrate cost a third of that, and know it.
