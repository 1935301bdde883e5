"""Predicted against observed disagreement, before and after calibration."""

import matplotlib.pyplot as plt
from colours import CALIBRATED, RAW

from sklearn_lhcal.calibration import AlphaCalibration, StackedCalibration
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.display import ReliabilityDisplay

data = make_label_histograms(2000, n_raters=3, overconfidence=2.0, random_state=0)
proba, counts = data.prediction, data.counts
model = AlphaCalibration(StackedCalibration("proba")).fit(proba[:1000], counts[:1000])
predictions = {"uncalibrated": proba[1000:], "calibrated": model.predict_dist(proba[1000:])}
edges = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 2 / 3]

_, ax = plt.subplots(figsize=(5, 4.5))
for (name, prediction), color in zip(predictions.items(), (RAW, CALIBRATED), strict=True):
    ReliabilityDisplay.from_predictions(
        counts[1000:],
        prediction,
        kind="disagreement",
        name=name,
        n_bins=edges,
        ax=ax,
        line_kwargs={"color": color},
    )
