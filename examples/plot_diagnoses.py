"""
Which diagnoses do psychiatrists agree on?
==========================================

Two of six psychiatrists disagree about 44% of patients. They agree best on schizophrenia and
"other", worst on depression and personality disorder. Each diagnosed 30 patients, in five
categories (Fleiss 1971). The labels are **real**.
"""

# %%
# Agreement of all diagnoses
# --------------------------
# The table says how many of the six gave each diagnosis, not who: the six differ from patient to
# patient. So counts are all there is, and an interval is for new patients, each with six raters.
import matplotlib.pyplot as plt
import numpy as np

from sklearn_lhcal.datasets import load_psychiatric_diagnoses
from sklearn_lhcal.label_histogram import fleiss_kappa, krippendorff_alpha
from sklearn_lhcal.metrics import confidence_interval, irreducible_loss

BLUE = "#0072B2"
data = load_psychiatric_diagnoses()
counts, names = data.counts, data.target_names


def kappa(y, prediction):
    return fleiss_kappa(y)


for name, statistic in (("two disagree with probability", irreducible_loss), ("kappa", kappa)):
    found = confidence_interval(statistic, counts, None, random_state=0)
    print(f"{name} {found.estimate:.2f} (95% interval {found.low:.2f} to {found.high:.2f})")

# %%
# Each diagnosis against all others
# ---------------------------------
# Five intervals are read together, so each has a level of 99%: by Bonferroni's inequality all five
# hold at once in 95% of studies.
agreement = []
for k in range(len(names)):
    yes_or_no = np.column_stack([counts[:, k], counts.sum(axis=1) - counts[:, k]])
    agreement.append(
        confidence_interval(
            krippendorff_alpha, yes_or_no, None, confidence_level=0.99, random_state=0
        )
    )

fig, ax = plt.subplots(figsize=(6.5, 3), layout="constrained")
for k, (name, found) in enumerate(zip(names, agreement, strict=True)):
    ax.hlines(k, found.low, found.high, color=BLUE, linewidth=3)
    ax.plot(found.estimate, k, "o", color="white", markeredgecolor=BLUE, markersize=7)
    print(f"{name:21} alpha {found.estimate:.2f} ({found.low:.2f} to {found.high:.2f})")
ax.axvline(0, color="0.35", linestyle=(0, (1, 1.5)))
shares = counts.sum(axis=0) / counts.sum()
labels = [f"{name} ({share:.0%})" for name, share in zip(names, shares, strict=True)]
ax.set_yticks(range(len(names)), labels)
ax.invert_yaxis()
ax.set(
    xlabel="Krippendorff's alpha (0: chance, 1: full agreement)",
    xlim=(-0.3, 1),
    ylabel="diagnosis (share of labels)",
    title="Five simultaneous 95% intervals",
)

# %%
# All five lie above 0: on each diagnosis the raters agree more often than by chance, on depression
# and personality disorder perhaps only just.

# %%
# What the next psychiatrist says
# -------------------------------
# The share of the second psychiatrist's diagnoses, given the first one's. Every ordered pair of
# labels of a patient counts.
pairs = counts.T @ counts - np.diag(counts.sum(axis=0))
second = pairs / pairs.sum(axis=1, keepdims=True)

fig, ax = plt.subplots(figsize=(6, 4.6), layout="constrained")
image = ax.imshow(second, cmap="Blues", vmin=0, vmax=1)
for k, row in enumerate(second):
    for j, share in enumerate(row):
        color = "white" if share > 0.7 else "black"
        ax.annotate(f"{share:.0%}", (j, k), ha="center", va="center", color=color)
ax.set_xticks(range(len(names)), names, rotation=30, ha="right")
ax.set_yticks(range(len(names)), names)
ax.set(xlabel="second psychiatrist", ylabel="first psychiatrist")
fig.colorbar(image, label="share of second diagnoses")

# %%
# After "depression" the next psychiatrist says "neurosis" nearly as often as "depression". A model
# of these diagnoses that is trained on the majority would not learn that.
plt.show()
