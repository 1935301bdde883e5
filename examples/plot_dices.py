"""
A small panel, and what it says of everybody
============================================

How often do two people disagree on whether a conversation is safe? Panels of six are drawn from
a study in which everybody judged everything, each with 200 of its conversations, and each panel's
interval is held against the answer of the whole study. Over rows alone it is far too narrow: the
same six people judged every row, and six others would have said something else.

``FULL=1`` in the environment takes DICES, 350 conversations judged by 123 people (Aroyo and others
2023; downloaded once), and 200 panels. Else the study is made to be like it, and panels are 60.
"""

# sphinx_gallery_thumbnail_number = 1
import os

import matplotlib.pyplot as plt
import numpy as np
from colours import BLUE, ORANGE

from sklearn_lhcal.datasets import fetch_dices, make_reader_study
from sklearn_lhcal.label_histogram import conger_kappa
from sklearn_lhcal.metrics import confidence_interval, irreducible_loss

FULL = os.environ.get("FULL") == "1"
DRAWS = 200 if FULL else 60
SHOWN = 30
COLOURS = {"fixed": BLUE, "random": ORANGE}
NAMES = {"fixed": "these six people, new rows", "random": "new people, new rows"}

# %%
# The study
# ---------
# The value of the whole study is the target: people who were not asked, conversations that were
# not shown.

if FULL:
    study = fetch_dices(version="350").y
else:
    study = make_reader_study(350, 123, rater_std=0.7, slope_std=0.4, random_state=0).y
target = irreducible_loss(study)
print(study)
print(f"two people disagree with probability {target:.3f}; kappa {conger_kappa(study):.3f}")

# %%
# Panels
# ------
# `subsample` draws the panel, indexing the rows.

rng = np.random.RandomState(0)
intervals = {raters: [] for raters in NAMES}
for _ in range(DRAWS):
    rows = rng.choice(len(study), 200, replace=False)
    panel = study[rows].subsample(n_raters=6, random_state=rng)
    for raters, found in intervals.items():
        found.append(
            confidence_interval(irreducible_loss, panel, None, raters=raters, random_state=0)
        )

for raters, found in intervals.items():
    covered = np.mean([i.low <= target <= i.high for i in found])
    width = np.median([i.high - i.low for i in found])
    print(f"{NAMES[raters]}: .95 intervals cover {covered:.2f}, median width {width:.3f}")

# %%
fig, axes = plt.subplots(1, 2, figsize=(8, 4.5), sharex=True, sharey=True, layout="constrained")
for ax, (raters, found) in zip(axes, intervals.items(), strict=True):
    for k, interval in enumerate(found[:SHOWN]):
        missed = not interval.low <= target <= interval.high
        ax.plot(
            [interval.low, interval.high],
            [k, k],
            color=COLOURS[raters],
            alpha=1.0 if missed else 0.4,
            linewidth=2.5 if missed else 1.5,
        )
    ax.axvline(
        target, color="black", linewidth=1, linestyle="--", label="the whole study; 95 % intervals"
    )
    ax.set(title=NAMES[raters], xlabel="Probability that two people disagree")
axes[0].set(ylabel=f"Panel (the first {SHOWN}; misses are bold)", yticks=[])
handles, labels = axes[0].get_legend_handles_labels()
fig.legend(handles, labels, loc="outside lower center")
plt.show()

# %%
# Intervals for these six people cover the value of the whole study in 62 of 100 panels. Those for
# new people are almost three times as wide, and cover it in all.
