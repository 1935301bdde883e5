"""
A language model as judge
=========================

A language model judges whether answers of a chatbot are harmless, doubtful or harmful. Is it as
good as one more person? Its score against the majority cannot tell, because people disagree with
each other too. The data are **simulated**: a classifier plays the judge, among seven people.
"""

# %%
# The labels
# ----------
# A long table has one line a judgement: the answer, who judged, and what was said. Four of seven
# people saw each answer. Some are stricter than others, and two answers in five are hard.
import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from colours import PALETTE
from sklearn.ensemble import HistGradientBoostingClassifier

from sklearn_lhcal.calibration import ReaderEffects, VectorScaling
from sklearn_lhcal.display import ReaderDisplay, ReliabilityDisplay
from sklearn_lhcal.label_histogram import Annotations, conger_kappa
from sklearn_lhcal.metrics import (
    alternative_annotator_test,
    confidence_interval,
    epistemic_loss,
    expected_squared_loss,
    irreducible_loss,
    label_log_loss,
    loss_decomposition,
    paired_difference,
    reader_comparison,
    reader_table,
)

FOLDER = Path(os.path.relpath(Path(sys.argv[0]).parent), "output")
rng = np.random.default_rng(0)
CLASSES = np.array(["doubtful", "harmful", "harmless"])
PEOPLE = np.array(["Ann", "Ben", "Cem", "Dee", "Eli", "Fay", "Gus"])


def softmax(u):
    p = np.exp(u - u.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


def drawn(p):
    return (p.cumsum(axis=-1) < rng.random((*p.shape[:-1], 1))).sum(axis=-1)


n = 1600
X = rng.normal(size=(n, 8))
# what the features say of an answer, and how hard it is
hard = rng.random(n) < 0.4
u = X[:, :3] * np.array([1.0, 1.5, 1.5]) + 0.8 * X[:, 3:6] * X[:, [6]]
u = u / np.where(hard, 1.5, 0.5)[:, None]
strictness = 0.6 * rng.normal(size=(len(PEOPLE), 3))
said = drawn(softmax(u[:, None] + strictness))

# %%
# The judge
# ---------
# It has learnt from one strict person's judgements of 1,000 other answers, and is overconfident.
judged = np.arange(1000, n)
strict = drawn(softmax(u[:1000] + np.array([0.3, 0.9, -0.6])))
judge = HistGradientBoostingClassifier(max_iter=120, random_state=0).fit(X[:1000], CLASSES[strict])
proba = judge.predict_proba(X[judged])

asked = rng.random((len(judged), len(PEOPLE))).argsort(axis=1) < 4
item, person = np.nonzero(asked)
table = pd.DataFrame(
    {
        "answer": item,
        "person": PEOPLE[person],
        "label": CLASSES[said[judged][asked]],
    }
)
print(table.head(4).to_string(index=False))

# %%
# ``items`` is the order of the answers in the judge's probabilities.
y = Annotations.from_long(
    table, item="answer", rater="person", label="label", items=np.arange(len(judged))
)
print(y)

# %%
# The judge's error, and the raters' disagreement
# -----------------------------------------------
# The Brier score L of the judge is the sum of the expected disagreement IL of two people, which no
# judge can lower, and the epistemic loss EL of the judge. Intervals are for new answers and new
# people. Their variance has two parts: if most of it is of people, more answers would not help.
for name, metric in (
    ("L  Brier score", expected_squared_loss),
    ("IL people disagree", irreducible_loss),
    ("EL error of the judge", epistemic_loss),
):
    found = confidence_interval(metric, y, proba, random_state=0)
    print(f"{name:24} {found.estimate:.3f} ({found.low:.3f} to {found.high:.3f})")
whole = found.standard_error**2
print(f"share of answers in the variance of EL: {found.components.rows / whole:.2f}")
parts = loss_decomposition(y, proba)
print(f"of EL, calibration: {parts.calibration_loss:.3f}, grouping: {parts.dispersion_loss:.3f}")


def kappa(y, prediction):
    return conger_kappa(y)


found = confidence_interval(kappa, y, None, random_state=0)
print(f"kappa among people       {found.estimate:.3f} ({found.low:.3f} to {found.high:.3f})")

# %%
# Do people differ?
# -----------------
# The table of raters says who gives which label more often than the other raters of the same
# answers.
people = reader_table(y, random_state=0)
print(pd.DataFrame(people.bias, people.raters, people.classes).round(2).to_string())
print(people)

# %%
# As good as one more person?
# ---------------------------
# A person disagrees with the judge's label more often than with another person, by Δ. The judge
# is non-inferior where the upper bound of Δ is below the margin. The published test, which is for
# these seven people only, stands beside it.
result = reader_comparison(y, proba, margin=0.05, random_state=0)
delta = result.difference
print(f"difference {delta.estimate:.3f} ({delta.low:.3f} to {delta.high:.3f})")
print(f"upper bound {result.upper:.3f}: non-inferior at 0.05: {result.non_inferior}")
published = alternative_annotator_test(y, proba, epsilon=0.1)
print(f"alt-test: winning rate {published.winning_rate:.2f}, passed: {published.passed}")
print(
    f"its probabilities are worth {result.worth:.1f} people "
    f"({result.worth_low:.1f} to {result.worth_high:.1f})"
)

FOLDER.mkdir(exist_ok=True)
display = ReaderDisplay.from_predictions(y, proba, margin=0.05, name="the judge")
display.figure_.savefig(FOLDER / "judge_among_people.png", dpi=150)

# %%
# The judge disagrees with people a little more often than one more person does. The upper bound of
# the difference, 0.049, is just below the margin of 0.05.

# %%
# Recalibrate the judge
# ---------------------
# Vector scaling is fitted on 200 of the judged answers, and tested on the other 400, by a paired
# difference.
first, rest = np.arange(200), np.arange(200, len(judged))
frame = pd.DataFrame(proba, columns=judge.classes_)
vector = VectorScaling("proba").fit(frame.iloc[first], y[first])
recalibrated = vector.predict_dist(frame.iloc[rest])
better = paired_difference(
    epistemic_loss, y[rest], recalibrated, frame.iloc[rest].to_numpy(), random_state=0
)
print(f"change of EL {better.estimate:.3f} ({better.low:.3f} to {better.high:.3f})")
after = reader_comparison(y[rest], recalibrated, margin=0.05, random_state=0)
print(f"worth {after.worth:.1f} people ({after.worth_low:.1f} to {after.worth_high:.1f})")

figure, ax = plt.subplots(figsize=(5, 5.6), layout="constrained")
ax.set_prop_cycle(color=PALETTE)
for name, z in (("uncalibrated", frame.iloc[rest].to_numpy()), ("recalibrated", recalibrated)):
    ReliabilityDisplay.from_predictions(
        y[rest], z, class_index="harmful", n_bins=6, name=name, ax=ax
    )
figure.savefig(FOLDER / "judge_recalibrated.png", dpi=150)

# %%
# The intervals of the recalibrated judge reach the diagonal. Uncalibrated, the judge finds more
# harm than people do.

# %%
# Predict the label of one person
# -------------------------------
# Where the same people go on judging, `ReaderEffects` predicts what each of them says.
readers = ReaderEffects(VectorScaling("proba")).fit(frame.iloc[first], y[first])
labels = y[rest]
each = labels.row
spoken = labels.raters[labels.rater]
rows = frame.iloc[rest].iloc[each]
single = CLASSES[labels.label]
for name, z in (
    ("anybody", readers.predict_proba(rows)),
    ("this person", readers.predict_proba(rows, rater=spoken)),
):
    print(f"log loss of a label, {name:12} {label_log_loss(single, z):.3f}")
