"""
Five annotators a text, and three seeds of a model
==================================================

Five people have called each text toxic or not. Three trainings of one model have left their
probabilities. What is the model unsure of: the text, or itself?
"""

# %%
# Arrays to try it with
# ---------------------
# Yours come from ``np.load``: counts of shape (texts, classes), probabilities of shape (seeds,
# texts, classes).
import os
import sys
from pathlib import Path

import numpy as np

from sklearn_lhcal.datasets import make_label_histograms

rng = np.random.default_rng(0)
data = make_label_histograms(2000, n_classes=2, n_raters=5, overconfidence=2.0, random_state=0)
counts = data.counts
logits = np.log(data.prediction) + rng.normal(scale=0.7, size=(3, 2000, 2))
proba = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)

# %%
# Three predictions
# -----------------
# An `Ensemble` keeps the members, and calibration is of their mixture. Averaging first is simpler
# and quicker, and forgets where members disagree.
from sklearn_lhcal.calibration import AlphaCalibration, TemperatureScaling
from sklearn_lhcal.distributions import Ensemble
from sklearn_lhcal.metrics import (
    confidence_interval,
    disagreement_calibration_error,
    epistemic_loss,
)

members, fit, test = Ensemble(proba), slice(0, 1000), slice(1000, 2000)
mean = proba.mean(axis=0)
predictions = {
    "members as given": members[test],
    "members, TS + α": AlphaCalibration(TemperatureScaling("proba"))
    .fit(members[fit], counts[fit])
    .predict_dist(members[test]),
    "average, TS + α": AlphaCalibration(TemperatureScaling("proba"))
    .fit(mean[fit], counts[fit])
    .predict_dist(mean[test]),
}
print("Epistemic loss, and error of the predicted disagreement (95 % intervals)")
for name, prediction in predictions.items():
    cells = []
    for metric in (epistemic_loss, disagreement_calibration_error):
        found = confidence_interval(metric, counts[test], prediction, random_state=0)
        cells.append(f"{found.estimate:7.3f} ({found.low:.3f} to {found.high:.3f})")
    print(f"{name:18}" + "".join(cells))

# %%
# Where members agree and people are split, no further training will help: the disagreement is the
# texts' own. Is its size right?

# %%
# As a picture
# ------------
from sklearn_lhcal.display import DisagreementReliabilityDisplay

ax = None
for name, prediction in predictions.items():
    show = DisagreementReliabilityDisplay.from_predictions
    ax = show(counts[test], prediction, name=name, n_bins=6, ax=ax).ax_
folder = Path(os.path.relpath(Path(sys.argv[0]).parent), "output")
folder.mkdir(exist_ok=True)
ax.figure.savefig(folder / "start_seeds.png", dpi=150)
