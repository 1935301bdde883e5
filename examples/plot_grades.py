"""
How far apart are graders, and a model?
=======================================

Five anaesthetists graded the fitness of 45 patients from 1 (fit) to 4 (Dawid and Skene 1979). The
labels are **real**. A grade is a place on a line: how many steps apart are two raters?
"""

# %%
# Graders, in steps
# -----------------
# The first anaesthetist graded three times; here each one counts once. One patient a row, one
# rater a column.
import matplotlib.pyplot as plt
import numpy as np
from colours import PALETTE

from sklearn_lhcal.datasets import load_anesthesia_ratings, make_label_histograms
from sklearn_lhcal.display import DisagreementReliabilityDisplay, ReliabilityDisplay
from sklearn_lhcal.label_histogram import Annotations, krippendorff_alpha
from sklearn_lhcal.metrics import confidence_interval, irreducible_loss, loss_decomposition

ratings = load_anesthesia_ratings().annotations[:, [0, 3, 4, 5, 6]]
y = Annotations.from_matrix(ratings, classes=[1, 2, 3, 4])

apart = confidence_interval(irreducible_loss, y, None, distance="ordinal", random_state=0)
print(f"two differ by {2 * apart.estimate:.2f} steps [{2 * apart.low:.2f}, {2 * apart.high:.2f}]")
for distance in (None, "ordinal", "interval"):
    alpha = confidence_interval(krippendorff_alpha, y, None, distance=distance, random_state=0)
    print(
        f"alpha, {distance or 'nominal'}: {alpha.estimate:.2f} [{alpha.low:.2f}, {alpha.high:.2f}]"
    )

# %%
# How many steps lie between two graders of a patient, by the patient's mean grade. The area of a
# dot counts patients: most are graded alike, the fit ones above all.
grade = np.arange(1, 5)
steps = np.abs(np.subtract.outer(grade, grade))
between = np.einsum("nk,kl,nl->n", y.mu, steps, y.mu) * y.n / (y.n - 1)
places, patients = np.unique(
    np.column_stack([y.mu @ grade, between]).round(6), axis=0, return_counts=True
)

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.scatter(*places.T, s=40 * patients, color=PALETTE[0], alpha=0.6, linewidths=0)
for (x, height), count in zip(places, patients, strict=True):
    if count > 1:
        ax.annotate(count, (x, height), ha="center", va="center", fontsize=8)
ax.axhline(2 * apart.estimate, color="0.5", linestyle=":", label="mean of all patients")
ax.set(
    xlabel="mean grade of a patient",
    ylabel="steps between two raters of the patient",
    title="45 patients, 5 anaesthetists (real labels)",
)
ax.legend()

# %%
# A model of grades
# -----------------
# **Simulated** data: an overconfident model of four grades, and three raters per sample. The ranked
# probability score has the parts of every loss here.
data = make_label_histograms(1500, n_classes=4, n_raters=3, overconfidence=2.0, random_state=0)
parts = loss_decomposition(data.counts, data.prediction, distance="ordinal")
print(f"ranked probability score {parts.expected_squared_loss:.3f}")
print(f"  raters among themselves {parts.irreducible_loss:.3f}")
print(f"  the model's error       {parts.epistemic_loss:.3f}")
print(f"  of it, calibration      {parts.calibration_loss:.3f}")

# %%
# Reliability of cumulative probabilities: is "at most grade j" as frequent as the model says? One
# curve per step. Where the model says 0.9, fewer raters agree.
fig, ax = plt.subplots(figsize=(5, 5.6), layout="constrained")
ax.set_prop_cycle(color=PALETTE)
for j in range(3):
    ReliabilityDisplay.from_predictions(
        data.counts,
        data.prediction,
        class_index=j,
        distance="ordinal",
        name=f"at most grade {j + 1}",
        n_bins=10,
        ax=ax,
    )
ax.set_xlabel("Predicted probability of at most that grade")
ax.set_ylabel("Observed frequency of at most that grade")
ax.set_title("Cumulative reliability of a model, simulated data")

# %%
# Disagreement in steps: how far apart two raters of a sample are, against what the model predicts.
# It takes its probabilities for those of each rater, and is overconfident.
show = DisagreementReliabilityDisplay.from_predictions
display = show(data.counts, data.prediction, distance="ordinal", n_bins=8, name="model")
display.ax_.set_title("Steps between two raters, simulated data")
plt.show()
