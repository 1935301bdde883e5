"""
Five raters per text, and three seeds of a model
================================================

Three networks predict too little disagreement between raters; after calibration they predict it
well. Five people have called each text toxic or not, and a model was trained three times.
"""

# %%
# Arrays to try it with
# ---------------------
# Yours come from ``np.load``: counts of shape (texts, classes), probabilities of shape (seeds,
# texts, classes). These are **simulated**.
import numpy as np

from sklearn_lhcal.datasets import make_label_histograms

data = make_label_histograms(2000, n_classes=2, n_raters=5, overconfidence=2.0, random_state=0)
noise = np.random.default_rng(0).normal(scale=0.7, size=(3, 2000, 2))
proba = np.exp(np.log(data.prediction) + noise)
proba /= proba.sum(axis=2, keepdims=True)
counts = data.counts

# %%
# Before and after calibration
# ----------------------------
# An `Ensemble` keeps the members. What is calibrated is their mean, so averaging first would give
# the same class probabilities.
from sklearn_lhcal import metrics
from sklearn_lhcal.calibration import AlphaCalibration, StackedCalibration
from sklearn_lhcal.distributions import Ensemble

members, fit, test = Ensemble(proba), slice(0, 1000), slice(1000, 2000)
model = AlphaCalibration(StackedCalibration("proba"))
predictions = {
    "members, uncalibrated": members[test],
    "members, stacked + α": model.fit(members[fit], counts[fit]).predict_dist(members[test]),
}
print("Epistemic loss, and error of the predicted disagreement (95% intervals)")
for name, prediction in predictions.items():
    cells = []
    for metric in (metrics.epistemic_loss, metrics.disagreement_calibration_error):
        found = metrics.confidence_interval(metric, counts[test], prediction, random_state=0)
        cells.append(f"{found.estimate:7.3f} ({found.low:.3f} to {found.high:.3f})")
    print(f"{name:22}" + "".join(cells))

# %%
# The figure
# ----------
import matplotlib.pyplot as plt

from sklearn_lhcal.display import ReliabilityDisplay

ax = None
for (name, z), color in zip(predictions.items(), ("#0072B2", "#009E73"), strict=True):
    show = ReliabilityDisplay.from_predictions
    how = {"kind": "disagreement", "n_bins": 6, "line_kwargs": {"color": color}}
    ax = show(counts[test], z, name=name, ax=ax, **how).ax_
plt.show()

# %%
# Uncalibrated, the members predict less disagreement than there is. After calibration the points
# lie on the diagonal.
