"""
Treat, test or wait?
====================

A tumour is malignant or benign; a physician may treat, order one more test, or wait. Which decision
is the cheapest depends on whether the probability of a malignant tumour is 2% or 10%. What does a
classifier cost that does not know, and what does calibration save?
"""

# %%
# Decisions
# ---------
# The index of the frame names the classes, its columns the decisions. To wait with a malignant
# tumour costs 50, to treat a benign one 5. A test costs 1, and 2 more if the tumour is malignant
# and time is lost. The unit is the cost of one test.
#
# Naive Bayes takes the thirty correlated measurements of the breast-cancer data for independent,
# and is all but certain of every patient. Its smoothing is searched for these costs.
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
# by split: labels of the test samples, and probabilities by method
labels, predictions = [], []
for seed in range(SPLITS):
    X, X_test, y, y_test = train_test_split(
        data.data, diagnosis, test_size=0.4, stratify=diagnosis, random_state=seed
    )
    X, X_cal, y, y_cal = train_test_split(X, y, test_size=0.6, stratify=y, random_state=seed)
    search = GridSearchCV(GaussianNB(), GRID, scoring=make_decision_scorer(COSTS), cv=3)
    search.fit(X, y)
    models = {"uncalibrated": search}
    for name, criterion in {"log loss": "nll", "cost": "auto"}.items():
        models[name] = DecisionCalibration(
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
# "uncalibrated" is the model as trained, "log loss" is temperature scaling fitted by the log loss,
# and "cost" is the default: a temperature for these costs where cross-validation shows that it is
# better, and else that of the log loss. "expected" is the cost that the model itself expects.
from sklearn_lhcal.metrics import bayes_decision, decision_risk, model_risk

print(f"Mean cost of a patient, {SPLITS} splits")
shares = "".join(f"{decision:>8}" for decision in COSTS.columns)
print(f"{'':14}{'cost':>8}{'sd':>8}{'expected':>10}{shares}")
for name in models:
    found = [z[name] for z in predictions]
    decisions = [bayes_decision(z, COSTS) for z in found]
    risks = [decision_risk(y, d, COSTS) for y, d in zip(labels, decisions, strict=True)]
    said = np.mean([model_risk(z, COSTS) for z in found])
    shares = [np.mean([np.mean(d == what) for d in decisions]) for what in COSTS.columns]
    cells = "".join(f"{share:8.1%}" for share in shares)
    print(f"{name:14}{np.mean(risks):8.3f}{np.std(risks, ddof=1):8.3f}{said:10.3f}{cells}")
for what in COSTS.columns:
    risks = [decision_risk(y, np.full(len(y), what), COSTS) for y in labels]
    print(f"{what:14}{np.mean(risks):8.3f}{np.std(risks, ddof=1):8.3f}   always")

# %%
# Other costs
# -----------
# The matrix above is one case. A cost curve has no test: a missed malignant tumour costs s, and a
# treated benign one 1 − s. At s = 0.5 both cost the same.
from sklearn_lhcal.display import DecisionRiskDisplay

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
display = DecisionRiskDisplay.from_predictions(labels, predictions, COSTS, test_share=0.4, ax=left)
left.set(title="Cost with the matrix above", ylabel="Mean cost per patient (unit: one test)")
left.tick_params(axis="x", labelrotation=0)
display.plot_cost_curves(right)
right.set(
    title="Cost with other costs of the mistakes",
    xlabel="s: cost of a missed malignant tumour (a treated benign one: 1 − s)",
    ylabel="Mean cost per patient",
)

FIGURE = Path(os.path.relpath(Path(sys.argv[0]).parent), "output", "decision_treatment.png")
FIGURE.parent.mkdir(exist_ok=True)
figure.savefig(FIGURE, dpi=150)
print(f"Figure: {FIGURE}")

# %%
# The uncalibrated model costs more than a test for every patient, and expects to cost next to
# nothing. After calibration the cost is a third of that, and the model expects it.
