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
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from sklearn_lhcal.calibration import TemperatureScaling
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.display import MonitorDisplay
from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.metrics import CalibrationMonitor, expected_accuracy

# sphinx_gallery_thumbnail_number = 3
PALETTE = ["#0072B2", "#D55E00"]
X, y = load_digits(return_X_y=True)
shuffled = np.random.default_rng(0).permutation(len(y))
orders = {"file order": np.arange(len(y)), "random order": shuffled}
monitors = {}
for n in (600, 400):
    for name, order in orders.items():
        first, later = order[:n], order[n:]
        model = TemperatureScaling(LogisticRegression(max_iter=2000), cv=5)
        model.fit(X[first] / 16, y[first])
        z = model.predict_proba(X[later] / 16)
        monitors[name] = CalibrationMonitor().update(y[later], z)
        print(
            f"fitted on {n}, {name:12}: accuracy {expected_accuracy(y[later], z):.3f}, "
            f"predicted {z.max(axis=1).mean():.3f}, alarm {monitors[name].alarm}"
        )

# %%
# In file order the accuracy that the model predicts is not reached. The size of the first part
# matters: with 600 digits, more writers, there is no alarm in either order. The figure is of 400.
figure, axes = plt.subplots(1, 2, figsize=(7.5, 4), sharey=True, layout="constrained")
for ax, (name, monitor) in zip(axes, monitors.items(), strict=True):
    ax.set_prop_cycle(color=PALETTE)
    display = MonitorDisplay(monitor).plot(ax)
    ax.set_title(name)
display.legend_.remove()  # the left one names the same lines
axes[0].set_ylim(-1.5, 8.5)
axes[1].set_ylabel("")

# %%
# Each digit has one label, so disagreement was not seen, and its e-value stays at 1.

# %%
# A late change
# -------------
# An e-value falls while all is well, and what it has lost must be won back. A detector starts a
# new bet with each sample. Its threshold is a mean run: 10,000 samples or more, on average, before
# the first false alarm. Here 3,000 simulated samples are calibrated, and from the grey line on the
# model is overconfident.
before = make_label_histograms(3000, n_raters=1, random_state=0)
after = make_label_histograms(2000, n_raters=1, overconfidence=1.7, random_state=1)
figure, axes = plt.subplots(1, 2, figsize=(7.5, 4.8), layout="constrained")
for ax, mean_run in zip(axes, (None, 10_000), strict=True):
    monitor = CalibrationMonitor(mean_run=mean_run)
    for data in (before, after):
        monitor.update(data.counts, data.prediction)
    MonitorDisplay(monitor).plot(ax)
    ax.axvline(3000, color="0.7", zorder=0, label="overconfident from here on")
    ax.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.15))
    ax.set_title("one bet from the start" if mean_run is None else "detector")
    print(f"mean_run {mean_run}: alarm {monitor.alarm - 3000} samples after the change")

# %%
# Raters change, class means do not
# ---------------------------------
# Three raters label each simulated sample. After 1,000 samples they agree more, perhaps because
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
print(f"class means: alarm {monitor.alarm}; disagreement: alarm {monitor.disagreement_alarm}")
