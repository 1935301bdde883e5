"""
For whom is the model wrong?
============================

A model is calibrated on average and wrong in one hospital. Accuracy by hospital misleads, since in
another hospital raters merely disagree more. `subgroup_audit` finds the hospital where the model is
wrong; `GroupedCalibration` repairs it, on cases that neither saw. The data are simulated.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sklearn_lhcal.calibration import (
    GroupedCalibration,
    PrecomputedClassifier,
    StackedCalibration,
)
from sklearn_lhcal.display import SubgroupDisplay
from sklearn_lhcal.metrics import expected_accuracy, subgroup_audit

# %%
# 3,000 cases from three hospitals, each labelled by four raters. In the south raters disagree more.
# In the west the model underestimates the disease.
rng = np.random.default_rng(0)
n = 3000
cases = pd.DataFrame(
    {
        "hospital": rng.choice(["north", "south", "west"], n, p=[0.5, 0.3, 0.2]),
        "sex": rng.choice(["female", "male"], n),
        "age": rng.normal(60, 12, n).round(),
    }
)
logit = rng.normal(-0.5, 2.0, n)
logit[cases.hospital == "south"] /= 3
disease = 1 / (1 + np.exp(-logit - 0.8 * (cases.hospital == "west")))
counts = rng.binomial(4, disease)
y = pd.DataFrame({"healthy": 4 - counts, "disease": counts})
p = 1 / (1 + np.exp(-logit))
prediction = pd.DataFrame({"healthy": 1 - p, "disease": p})

# %%
# Accuracy is lowest in the south, where nothing is wrong with the model.
for hospital in ("north", "south", "west"):
    there = cases.hospital == hospital
    print(f"{hospital}: accuracy {expected_accuracy(y[there], prediction[there]):.2f}")

# %%
# The audit of one half of the cases names the west. IL, the disagreement of raters, is largest in
# the south; EL, the model's part of the loss, in the west.
audited, kept = np.arange(n) < n // 2, np.arange(n) >= n // 2
audit = subgroup_audit(y[audited], prediction[audited], cases[audited], random_state=0)
print(audit)

# %%
# One calibrator for all hospitals, with a slope and biases of each, fitted on the audited half. The
# hospital stands in X beside the model's outputs.
X = pd.concat([prediction, cases], axis=1)
saved = PrecomputedClassifier("proba", columns=["healthy", "disease"])
calibrator = GroupedCalibration(StackedCalibration(saved), by=["hospital"])
calibrator.fit(X[audited], y[audited])
print(calibrator.effects_.to_frame().xs("disease", level="class")[["n_samples", "slope", "bias"]])
repaired = pd.DataFrame(calibrator.predict_proba(X), columns=calibrator.classes_)

# %%
# The other half, before and after. Filled dots are subgroups whose simultaneous 95% limits leave 0
# out.
fig, axes = plt.subplots(1, 2, figsize=(10, 4), sharex=True, sharey=True, layout="constrained")
for ax, (name, z) in zip(axes, {"before": prediction, "after": repaired}.items(), strict=True):
    SubgroupDisplay.from_predictions(
        y[kept], z[kept], cases[kept], class_name="disease", random_state=0, ax=ax
    )
    ax.set_title(f"{name} calibration by hospital")
    ax.locator_params(axis="x", nbins=5)
axes[1].set_ylabel("")
plt.show()
