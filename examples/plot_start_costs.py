"""
A cost matrix and boosted trees, one label per patient
======================================================

Uncalibrated trees expect a mean cost of 0.54 and cause 1.52; calibrated, they expect 0.91 and cause
0.87. Mistakes have costs, and a doubtful case can be referred. Each patient has one label. The data
are **simulated**.
"""

# %%
# Data and costs
# --------------
# A row of the matrix is what is true, a column what is done. Both are found by name. A tenth of the
# labels is drawn at random, so no model can be certain.
import numpy as np
import pandas as pd
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

X, label = make_classification(3000, n_informative=5, weights=[0.35], flip_y=0.1, random_state=0)
y = np.array(["malignant", "benign"])[label]
COSTS = pd.DataFrame(
    {"treat": [0, 5], "wait": [50, 0], "ask": [1, 1]}, index=["malignant", "benign"], dtype=float
)

# %%
# Train, calibrate, decide
# ------------------------
# `DecisionCalibration` trains the trees anew in folds, learns from the samples left out how to
# correct their probabilities, and decides by expected cost.
from sklearn.ensemble import HistGradientBoostingClassifier

from sklearn_lhcal.calibration import DecisionCalibration
from sklearn_lhcal.metrics import bayes_decision, decision_risk, model_risk

X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
trees = HistGradientBoostingClassifier(random_state=0).fit(X, y)
calibrated = DecisionCalibration(trees, COSTS).fit(X, y)
predictions = {
    "uncalibrated": pd.DataFrame(trees.predict_proba(X_test), columns=trees.classes_),
    "calibrated": pd.DataFrame(calibrated.predict_proba(X_test), columns=calibrated.classes_),
}
print(f"Mean cost of a patient\n{'':14}{'expected':>10}{'observed':>10}{'asked':>8}")
for name, prediction in predictions.items():
    decisions = bayes_decision(prediction, COSTS)
    expected, fact = model_risk(prediction, COSTS), decision_risk(y_test, decisions, COSTS)
    print(f"{name:14}{expected:10.3f}{fact:10.3f}{np.mean(decisions == 'ask'):8.0%}")
print("\nFirst five patients:", *calibrated.decide(X_test)[:5])

# %%
# The figure
# ----------
# The mean cost of each model with its interval, and what the model itself expects. The difference
# of the two is of the same patients.
import matplotlib.pyplot as plt

from sklearn_lhcal.display import DecisionRiskDisplay
from sklearn_lhcal.metrics import decision_risks

risks = decision_risks(y_test, predictions, COSTS, reference="uncalibrated")
low, high = risks.difference_interval[1]
print(f"calibrated − uncalibrated: {risks.difference[1, 0]:.2f} ({low:.2f} to {high:.2f})")

ax = plt.subplots(figsize=(5.5, 4), layout="constrained")[1]
styles = [{"color": color, "markersize": 8, "zorder": 3} for color in ("#0072B2", "#009E73")]
display = DecisionRiskDisplay(risks).plot(ax, point_kwargs=styles, model_kwargs={"markersize": 8})
display.legend_.set_loc("upper right")
plt.show()

# %%
# The uncalibrated trees cost more than to ask about every patient, the best default decision, and
# expect a third of what they cost. The calibrated ones cost less than it, about as much as they
# expect.
#
# Several labels per sample go in the same way: pass counts for y. LightGBM and XGBoost learn from
# counts inside `LabelHistogramClassifier`, see :doc:`/guide/scikit_learn`.
