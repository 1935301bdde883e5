"""
A small panel, and what it says of everybody
============================================

Intervals for six raters cover the disagreement of everybody in 60% of panels. Intervals for new
raters cover it in all, and are almost three times as wide. A panel is six raters who judge 200
conversations.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_lhcal.datasets import fetch_dices, make_rater_study
from sklearn_lhcal.label_histogram import conger_kappa
from sklearn_lhcal.metrics import confidence_interval, irreducible_loss

PANELS, SHOWN = 60, 30
COLOURS = {"fixed": "#0072B2", "random": "#E69F00"}
NAMES = {"fixed": "these six raters, new conversations", "random": "new raters, new conversations"}

# %%
# The study
# ---------
# In DICES, 123 raters judged all of 350 conversations (Aroyo and others 2023, CC BY 4.0). The
# example takes it if ``fetch_dices()`` has downloaded it before, and else **simulates** such a
# study. The value of the whole study is the truth that intervals should cover.

try:
    study, source = fetch_dices(download_if_missing=False).y, "DICES, real raters"
except OSError:
    source = "a simulated study like DICES"
    study = make_rater_study(350, 123, rater_std=0.7, slope_std=0.4, random_state=0).y
target = irreducible_loss(study)
print(f"{source}: {study}")
print(f"two raters disagree with probability {target:.3f}; kappa {conger_kappa(study):.3f}")

# %%
# Panels
# ------
# Each panel is six raters and 200 conversations, drawn at random.

rng = np.random.RandomState(0)
intervals = {raters: [] for raters in NAMES}
for _ in range(PANELS):
    rows = rng.choice(len(study), 200, replace=False)
    panel = study[rows].subsample(n_raters=6, random_state=rng)
    for raters, found in intervals.items():
        found.append(
            confidence_interval(irreducible_loss, panel, None, raters=raters, random_state=0)
        )

for raters, found in intervals.items():
    covered = np.mean([i.low <= target <= i.high for i in found])
    width = np.median([i.high - i.low for i in found])
    print(f"{NAMES[raters]}: 95% intervals cover {covered:.0%}, median width {width:.3f}")

# %%
fig, axes = plt.subplots(1, 2, figsize=(7.5, 4.5), sharex=True, sharey=True, layout="constrained")
for ax, (raters, found) in zip(axes, intervals.items(), strict=True):
    for k, interval in enumerate(found[:SHOWN]):
        missed = not interval.low <= target <= interval.high
        ax.plot(
            [interval.low, interval.high],
            [k, k],
            color=COLOURS[raters],
            alpha=1.0 if missed else 0.6,
            linewidth=2.5 if missed else 1.5,
        )
    ax.axvline(
        target, color="black", linewidth=1, linestyle="--", label="the whole study; 95% intervals"
    )
    ax.set(title=NAMES[raters], xlabel="Probability that two raters disagree")
axes[0].set(ylabel=f"Panel (the first {SHOWN}; misses are bold)", yticks=[])
handles, labels = axes[0].get_legend_handles_labels()
fig.legend(handles, labels, loc="outside lower center")
plt.show()

# %%
# Intervals for these six raters cover the value of the whole study in 60% of the panels. Those for
# new raters are almost three times as wide, and cover it in all.
