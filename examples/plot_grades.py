"""
How far apart are two graders, and one grader from himself?
===========================================================

Two anaesthetists disagree about 28% of patients, and one with himself about 19%: much of the
disagreement is not between people. Five graded the fitness of 45 patients from 1 (fit) to 4 (Dawid
and Skene 1979), the first of them three times. The labels are **real**.
"""

# %%
# Graders, in steps
# -----------------
# A row is a patient, a column a rater. The first three columns are the first anaesthetist's; one
# of them stands for him beside the others. A grade is a place on a line: ``distance="linear"``
# counts the steps between two grades.
import matplotlib.pyplot as plt
from scipy.stats import ttest_1samp

from sklearn_lhcal.datasets import load_anesthesia_ratings, make_label_histograms
from sklearn_lhcal.display import ReliabilityDisplay
from sklearn_lhcal.label_histogram import Annotations, krippendorff_alpha, pairwise_disagreement
from sklearn_lhcal.metrics import confidence_interval, irreducible_loss, loss_decomposition

BLUE, VERMILLION, GREEN = "#0072B2", "#D55E00", "#009E73"
grades = load_anesthesia_ratings().annotations
himself = Annotations.from_matrix(grades[:, :3], classes=[1, 2, 3, 4])
others = Annotations.from_matrix(grades[:, [0, 3, 4, 5, 6]], classes=[1, 2, 3, 4])

print(others)
apart = confidence_interval(irreducible_loss, others, None, distance="linear", random_state=0)
print(f"two differ by {2 * apart.estimate:.2f} steps ({2 * apart.low:.2f} to {2 * apart.high:.2f})")
for kind in ("nominal", "linear", "quadratic"):
    alpha = confidence_interval(krippendorff_alpha, others, None, weights=kind, random_state=0)
    print(f"alpha, {kind}: {alpha.estimate:.2f} ({alpha.low:.2f} to {alpha.high:.2f})")

# %%
# One grader on two occasions
# ---------------------------
# The difference is taken patient by patient, since both kinds of pairs share the patients.
# Intervals are for new patients and these anaesthetists.
for name, y in (("the same rater, twice", himself), ("two raters", others)):
    found = confidence_interval(irreducible_loss, y, None, raters="fixed", random_state=0)
    print(f"{name:22} {found.estimate:.3f} ({found.low:.3f} to {found.high:.3f})")
gap = pairwise_disagreement(others) - pairwise_disagreement(himself)
low, high = ttest_1samp(gap, 0).confidence_interval(0.95)
print(f"{'difference':22} {gap.mean():.3f} ({low:.3f} to {high:.3f})")

fig, ax = plt.subplots(figsize=(6.5, 4.6), layout="constrained")
shown = {"1 and 1, on two occasions": (himself, VERMILLION)}
for i in range(5):
    for j in range(i + 1, 5):
        columns = grades[:, [0, 3, 4, 5, 6]][:, [i, j]]
        pair = Annotations.from_matrix(columns, classes=[1, 2, 3, 4])
        shown[f"{i + 1} and {j + 1}"] = (pair, BLUE)
for at, (y, color) in enumerate(shown.values()):
    each = confidence_interval(irreducible_loss, y, None, raters="fixed", random_state=0)
    ax.hlines(at, each.low, each.high, color=color, linewidth=2.5)
    ax.plot(each.estimate, at, "o", color="white", markeredgecolor=color, markersize=7)
ax.set_yticks(range(len(shown)), list(shown))
ax.invert_yaxis()
ax.set(
    xlabel="probability that two grades of a patient differ, 95% intervals",
    xlim=(0, None),
    ylabel="anaesthetists",
)

# %%
# The difference is not distinguishable from 0: most of the disagreement may be of the first kind,
# which no discussion of the criteria removes.

# %%
# A model of grades
# -----------------
# **Simulated** data: an overconfident model of four grades, and three raters per sample. The ranked
# probability score has the parts of every loss here. Where the model says "at most that grade" with
# probability 0.9, fewer raters agree.
data = make_label_histograms(1500, n_classes=4, n_raters=3, overconfidence=2.0, random_state=0)
parts = loss_decomposition(data.counts, data.prediction, distance="linear")
print(f"ranked probability score {parts.expected_squared_loss:.3f}")
print(f"  aleatoric loss          {parts.irreducible_loss:.3f}")
print(f"  epistemic loss          {parts.epistemic_loss:.3f}")
print(f"  of it, calibration      {parts.calibration_loss:.3f}")

fig, ax = plt.subplots(figsize=(5, 5.2), layout="constrained")
ax.set_prop_cycle(color=[BLUE, VERMILLION, GREEN])
for j in range(3):
    ReliabilityDisplay.from_predictions(
        data.counts,
        data.prediction,
        kind=j,
        distance="linear",
        name=f"at most grade {j + 1}",
        n_bins=10,
        ax=ax,
    )
ax.set_xlabel("Predicted probability of at most that grade")
ax.set_ylabel("Observed frequency of at most that grade")
ax.set_title("Cumulative reliability of a model, simulated data")
plt.show()
