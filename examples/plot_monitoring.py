"""
When a model stops being calibrated
===================================

A model of digits is found to be miscalibrated after 180 digits in the order of their file, and
not in random order. Labels come after the predictions, one per sample; a false alarm is raised in
5% of studies at most. The digits are real; two other changes are in **simulated** data.
"""

# %%
# Digits, in order and shuffled
# -----------------------------
# The file of scikit-learn's digits keeps the order in which they were collected: neighbours are
# alike, as those of one writer are. A model is fitted and calibrated on the first 400, and then
# reads the others as a service would. In random order, the same model sees all writers at once.
import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from colours import PALETTE
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from sklearn_lhcal.calibration import TemperatureScaling
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.display import MonitorDisplay
from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.metrics import CalibrationMonitor, expected_accuracy

FOLDER = Path(os.path.relpath(Path(sys.argv[0]).parent), "output")
FOLDER.mkdir(exist_ok=True)
X, y = load_digits(return_X_y=True)
shuffled = np.random.default_rng(0).permutation(len(y))
monitors = {}
for name, order in (("file order", np.arange(len(y))), ("random order", shuffled)):
    first, later = order[:400], order[400:]
    model = TemperatureScaling(LogisticRegression(max_iter=2000), cv=5)
    model.fit(X[first] / 16, y[first])
    z = model.predict_proba(X[later] / 16)
    monitors[name] = CalibrationMonitor().update(y[later], z)
    print(
        f"{name:13} accuracy {expected_accuracy(y[later], z):.3f}, predicted "
        f"{z.max(axis=1).mean():.3f}, alarm {monitors[name].alarm}"
    )

# %%
# Both models predict nearly the same accuracy, and in file order it is not reached. The
# size of the first part matters: with 600 digits, more writers, there is no alarm in either order.
figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for ax, (name, monitor) in zip(axes, monitors.items(), strict=True):
    ax.set_prop_cycle(color=PALETTE)
    MonitorDisplay(monitor).plot(ax)
    ax.set_title(name)
figure.savefig(FOLDER / "monitor_digits.png", dpi=150)

# %%
# Each digit has one label, so disagreement was not seen, and its line stays at 1.

# %%
# A late change
# -------------
# An e-value falls while all is well, and what it has lost must be won back. A detector starts a
# new bet with each sample. Its threshold is a mean run: 10,000 samples or more, on average, before
# the first false alarm. Here 3,000 simulated samples are calibrated, and from the grey line on the
# model is overconfident.
before = make_label_histograms(3000, n_raters=1, random_state=0)
after = make_label_histograms(2000, n_raters=1, overconfidence=1.7, random_state=1)
figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for ax, mean_run in zip(axes, (None, 10_000), strict=True):
    monitor = CalibrationMonitor(mean_run=mean_run)
    for data in (before, after):
        monitor.update(data.counts, data.prediction)
    MonitorDisplay(monitor).plot(ax)
    ax.axvline(3000, color="0.7", zorder=0, label="overconfident from here on")
    ax.legend(fontsize="small")
    ax.set_title("one bet from the start" if mean_run is None else "detector")
    print(f"mean_run {mean_run}: alarm {monitor.alarm - 3000} samples after the change")
figure.savefig(FOLDER / "monitor_late.png", dpi=150)

# %%
# Raters change, class means do not
# ---------------------------------
# Three raters label each simulated sample. From sample 1,001 on they agree more, perhaps because
# they see each other's labels. Class frequencies stay as predicted, so only the predicted
# disagreement is wrong.
rng = np.random.default_rng(0)
z = rng.dirichlet([2.0, 1.0, 1.0], 2000)
shared = np.where(np.arange(2000) < 1000, 4.0, 1.5)
opinion = np.maximum(rng.gamma(shared[:, None] * z), 1e-300)
labels = rng.multinomial(3, opinion / opinion.sum(axis=1, keepdims=True))
monitor = CalibrationMonitor().update(labels, Dirichlet.from_mean(z, np.full(2000, 4.0)))
display = MonitorDisplay(monitor).plot()
display.ax_.axvline(1000, color="0.7", zorder=0, label="more agreement from here on")
display.ax_.legend(fontsize="small")
display.figure_.savefig(FOLDER / "monitor_raters.png", dpi=150)
print(f"class means: alarm {monitor.alarm}; disagreement: alarm {monitor.disagreement_alarm}")
