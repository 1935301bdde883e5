"""
One rater, three times
======================

Five anaesthetists graded the fitness of 45 patients from 1 (fit) to 4 (Dawid and Skene 1979), the
first of them three times. The labels are **real**. How much of the disagreement between raters
would a single rater have with himself?
"""

# %%
# Two kinds of pairs
# ------------------
# Labels of one rater are not labels of independent raters. Three grades of the first anaesthetist
# say how far he repeats himself; one grade of each of the five says how far raters agree.
import matplotlib.pyplot as plt
from colours import BLUE, VERMILLION
from scipy.stats import ttest_1samp

from sklearn_lhcal.datasets import load_anesthesia_ratings
from sklearn_lhcal.label_histogram import Annotations, pairwise_disagreement
from sklearn_lhcal.metrics import confidence_interval, irreducible_loss

data = load_anesthesia_ratings()
grades, classes = data.annotations, data.target_names
himself = Annotations.from_matrix(grades[:, :3], classes=classes)
others = Annotations.from_matrix(grades[:, [0, 3, 4, 5, 6]], classes=classes)

# %%
# The probability that two grades differ
# --------------------------------------
# Intervals are for new patients and these anaesthetists. The difference is taken patient by
# patient, since both kinds of pairs share the patients.
found = {}
for name, y in (("the same rater, twice", himself), ("two raters", others)):
    found[name] = confidence_interval(irreducible_loss, y, None, raters="fixed", random_state=0)
    print(
        f"{name:22} {found[name].estimate:.3f} "
        f"(95% interval {found[name].low:.3f} to {found[name].high:.3f})"
    )
gap = pairwise_disagreement(others) - pairwise_disagreement(himself)
low, high = ttest_1samp(gap, 0).confidence_interval(0.95)
print(f"{'difference':22} {gap.mean():.3f} (95% interval {low:.3f} to {high:.3f})")

# %%
# Each pair of raters
# -------------------
# The first anaesthetist's first grades stand for him.
fig, ax = plt.subplots(figsize=(6.5, 4.6), layout="constrained")
shown = {"1 and 1, on two occasions": (himself, VERMILLION)}
for i in range(5):
    for j in range(i + 1, 5):
        columns = grades[:, [0, 3, 4, 5, 6]][:, [i, j]]
        pair = Annotations.from_matrix(columns, classes=classes)
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
# The first rater contradicts himself in 19% of pairs, and two raters differ in 28%. The difference
# is not distinguishable from 0: most of the disagreement may be of the first kind, which no
# discussion of the criteria removes.
plt.show()
