"""Treat, test or wait: calibration for a cost matrix, on the breast cancer data (P4, Fig. 3).

To wait with a malignant tumour costs 50, to treat a benign one 5. A test costs 1, and 2 more if the
tumour is malignant and time is lost. Naive Bayes takes the thirty correlated measurements for
independent, and is all but certain of every patient. Its smoothing is searched for these costs.

"uncalibrated" is the model as trained, "log loss" is temperature scaling fitted by the log loss,
and "cost" is the default: a temperature for these costs where cross-validation shows that it is
better. "expected" is the cost that the model itself expects. ``FULL=1`` in the environment runs 40
splits in place of ten.
"""

import os
import warnings

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.naive_bayes import GaussianNB

from sklearn_lhcal.calibration import DecisionCalibration, DecisionCalibrationWarning
from sklearn_lhcal.metrics import bayes_decision, decision_risk, make_decision_scorer, model_risk

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
