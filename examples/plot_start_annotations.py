"""
A table of annotations and saved softmax outputs
================================================

Calibration brings the error of the predicted disagreement from 0.159 to 0.019, which is not
distinguishable from 0. You have two files: the labels that raters gave, and what a network predicts
for each image.
"""

# %%
# Files to try it with
# --------------------
# Yours look the same: in ``annotations.csv`` a row is a label of one rater; in ``softmax.csv`` a
# row is an image, and a column a class. These two are **simulated**.
from pathlib import Path

import numpy as np
import pandas as pd

from sklearn_lhcal.datasets import make_rater_study

folder = Path("output")
folder.mkdir(exist_ok=True)
study = make_rater_study(1500, 6, design="partial", overconfidence=2.0, random_state=0)
findings = np.array(["benign", "malignant", "unclear"])
images = pd.Index([f"image {i:04}" for i in range(1500)], name="image")
annotations = {
    "image": images[study.y.row],
    "reader": study.y.rater,
    "finding": findings[study.y.label],
}
pd.DataFrame(annotations).to_csv(folder / "annotations.csv", index=False)
pd.DataFrame(study.prediction, images, findings).to_csv(folder / "softmax.csv")

table = pd.read_csv(folder / "annotations.csv")
proba = pd.read_csv(folder / "softmax.csv", index_col="image")
print(table.head(3), proba.head(3).round(2), sep="\n\n", end="\n\n")

# %%
# Calibrate and compare
# ---------------------
# `items=` sorts the annotations as the network's samples are; classes are matched by name.
# The network has not seen these images in training; half of them calibrate, the others test.
# Intervals are for other images and other raters.
from sklearn.model_selection import train_test_split

from sklearn_lhcal.calibration import AlphaCalibration, StackedCalibration
from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import confidence_interval, disagreement_calibration_error

y = Annotations.from_long(table, item="image", rater="reader", label="finding", items=proba.index)
p, p_test, y_train, y_test = train_test_split(proba, y, test_size=0.5, random_state=0)
model = AlphaCalibration(StackedCalibration("proba")).fit(p, y_train)
predictions = {"uncalibrated": p_test, "calibrated": model.predict_dist(p_test)}
for name, prediction in predictions.items():
    found = confidence_interval(disagreement_calibration_error, y_test, prediction, random_state=0)
    print(f"{name:14}{found.estimate:6.3f}  ({found.low:.3f} to {found.high:.3f})")

# %%
# The printed number is the calibration error of the predicted probability that two raters disagree:
# 0 for a perfect model. Where the interval reaches below 0 it is not distinguishable from 0.

# %%
# The figure
# ----------
import matplotlib.pyplot as plt

from sklearn_lhcal.display import ReliabilityDisplay

ax = None
for (name, prediction), color in zip(predictions.items(), ("#0072B2", "#009E73"), strict=True):
    show = ReliabilityDisplay.from_predictions
    how = {"kind": "disagreement", "n_bins": 6, "line_kwargs": {"color": color}}
    ax = show(y_test, prediction, name=name, ax=ax, **how).ax_
plt.show()

# %%
# The calibrated points lie nearer to the diagonal. The whole report, without code::
#
#     python -m sklearn_lhcal report --annotations annotations.csv --columns image reader finding \
#         --proba softmax.csv --output out
