"""The parts of the expected squared loss, before and after calibration."""

import matplotlib.pyplot as plt

from sklearn_lhcal.calibration import StackedCalibration
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.metrics import loss_decomposition

data = make_label_histograms(4000, n_raters=5, total=3.0, overconfidence=1.5, random_state=0)
z, counts = data.prediction, data.counts
model = StackedCalibration("proba").fit(z[:2000], counts[:2000])
predictions = {"uncalibrated": z[2000:], "calibrated": model.predict_proba(z[2000:])}
PARTS = {
    "aleatoric loss IL": ("#999999", ""),
    "grouping loss DL": ("#56B4E9", "//"),
    "squared calibration error CL": ("#D55E00", "xx"),
}

_, ax = plt.subplots(figsize=(7.5, 2.4))
for name, prediction in predictions.items():
    parts = loss_decomposition(counts[2000:], prediction)
    losses = (parts.irreducible_loss, parts.dispersion_loss, parts.calibration_loss)
    left = 0.0
    for (part, (color, hatch)), loss in zip(PARTS.items(), losses, strict=True):
        label = part if name == "uncalibrated" else None
        ax.barh(name, loss, left=left, color=color, hatch=hatch, edgecolor="white", label=label)
        left += loss
ax.invert_yaxis()
ax.set(xlabel="Expected squared loss (squared probability)")
ax.legend(loc="upper center", bbox_to_anchor=(0.5, 1.35), ncols=3, frameon=False)
