"""
A cost matrix and boosted trees, one label per patient
======================================================

Uncalibrated trees expect a mean cost of 0.36 and cause 0.55; calibrated, they expect 0.46 and cause
0.40. Mistakes have costs, and a doubtful case can be referred. Each patient has one label.
"""

# %%
# Data and costs
# --------------
# A row of the matrix is what is true, a column what is done. Both are found by name.
import pandas as pd
from colours import CALIBRATED, RAW
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from start_data import FOLDER

data = load_breast_cancer(as_frame=True)
y = data.target_names[data.target]
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

X, X_test, y, y_test = train_test_split(data.data, y, test_size=0.5, random_state=0, stratify=y)
trees = HistGradientBoostingClassifier(max_iter=50, random_state=0).fit(X, y)
calibrated = DecisionCalibration(trees, COSTS).fit(X, y)
predictions = {
    "uncalibrated": pd.DataFrame(trees.predict_proba(X_test), columns=trees.classes_),
    "calibrated": pd.DataFrame(calibrated.predict_proba(X_test), columns=calibrated.classes_),
}
print(f"Mean cost of a patient\n{'':14}{'expected':>10}{'observed':>10}")
for name, prediction in predictions.items():
    decisions = bayes_decision(prediction, COSTS)
    expected, fact = model_risk(prediction, COSTS), decision_risk(y_test, decisions, COSTS)
    print(f"{name:14}{expected:10.3f}{fact:10.3f}")
print("\nFirst five patients:", *calibrated.decide(X_test)[:5])

# %%
# The figure
# ----------
# The mean cost of each model with its interval, and what the model itself expects.
from sklearn_lhcal.display import DecisionRiskDisplay

COLOURS = [{"color": RAW}, {"color": CALIBRATED}]
display = DecisionRiskDisplay.from_predictions(y_test, predictions, COSTS, point_kwargs=COLOURS)
display.ax_.set_ylim(top=1.5)  # room for the legend
display.figure_.savefig(FOLDER / "start_costs.png", dpi=150)

# %%
# The uncalibrated trees expect less than their decisions cost. The intervals overlap: 285 patients
# are too few to tell which of the two models is cheaper.
#
# Several labels per sample go in the same way: pass counts for y. LightGBM and XGBoost learn from
# counts inside `LabelHistogramClassifier`, see :doc:`/guide/scikit_learn`.
