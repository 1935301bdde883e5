"""
Are machine judges as good as one more person?
==============================================

Two of three simulated judges are at least as good as one more person, but the second adds little:
it errs where the first errs. And 400 answers that people labelled are worth 522 beside a judge's
labels of 5,000. Judges are language models that call answers of a chatbot harmful or not. The data
are **simulated**.
"""

# %%
# People and judges
# -----------------
# People differ a little in how readily they say "harmful". The first judge knows the answers well.
# The second mostly repeats the first. The third is strict.
import matplotlib.pyplot as plt
import numpy as np

from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import (
    confidence_interval,
    expected_accuracy,
    prediction_powered,
    rater_comparison,
)

PALETTE = ["#0072B2", "#D55E00", "#009E73"]
rng = np.random.default_rng(0)


def says(u):
    return (rng.random(u.shape) < 1 / (1 + np.exp(-u))).astype(int)


n = 600
u = 1.5 * rng.normal(size=n) - 0.5
people = Annotations.from_matrix(says(u[:, None] + 0.4 * rng.normal(size=6)), classes=[0, 1])
first = says(2 * u + rng.normal(size=n))
judges = {
    "first": first,
    "second": np.where(rng.random(n) < 0.8, first, says(2 * u + rng.normal(size=n))),
    "strict": says(u + 1.5),
}

# %%
# As good as one more person?
# ---------------------------
# The table has a line for each judge. Below 0 a person agrees with the judge more often than with
# another person. Intervals are for new people and new answers.
table = rater_comparison(people, judges, margin=0.05, random_state=0)
print(table.to_frame()[["difference", "difference_low", "difference_high", "worth"]].round(3))

# %%
# Do they err together?
# ---------------------
# The correlation is 0 for two judges that err as independently as two people do on the same answer,
# and 1 for copies. To ask the second judge beside the first adds little.
shown = ["difference", "correlation", "correlation_low", "correlation_high"]
print(table.to_frame(by="pair")[shown].round(3))

# %%
# Labels of a judge beside labels of people
# -----------------------------------------
# A strict judge labels 5,000 answers. Its rate of harmful answers is far too high. People label n
# of them, drawn at random, three people per answer. Both together estimate what people would say of
# all, by an interval that is shorter than that of people alone.
N = 5000
u = 1.5 * rng.normal(size=N) - 0.5
judge = says(2 * u + 1.5 + rng.normal(size=N))
labels = np.stack([says(u) for _ in range(3)], axis=1)
counts = np.column_stack([(labels == k).sum(axis=1) for k in (0, 1)])
harmful = np.tile([0.0, 1.0], (N, 1))
sizes = [100, 200, 400, 800]
alone, both = [], []
for m in sizes:
    alone.append(confidence_interval(expected_accuracy, counts[:m], harmful[:m], random_state=0))
    both.append(
        prediction_powered(
            expected_accuracy,
            counts[:m],
            harmful[:m],
            judge[:m],
            judge[m:],
            harmful[m:],
            random_state=0,
        )
    )
    print(f"{m} answers with labels of people are worth {both[-1].effective_rows:.0f}")

# %%
# The figure
# ----------
figure, (left, right) = plt.subplots(1, 2, figsize=(7.5, 3.6), layout="constrained")
for line, found in enumerate(table.comparisons.values()):
    delta = found.difference
    reach = [[delta.estimate - delta.low], [delta.high - delta.estimate]]
    left.errorbar(delta.estimate, line, xerr=reach, fmt="o", capsize=3, color=PALETTE[line])
left.axvline(0, color="0.5", linestyle=":")
left.set(
    xticks=[-0.05, 0, 0.05, 0.1],
    yticks=range(3),
    yticklabels=list(judges),
    ylim=(2.5, -0.5),
    xlabel="disagreement beyond that of two people",
    title="Judges beside one more person",
)
truth = (1 / (1 + np.exp(-u))).mean()
for shift, name, found in ((-0.06, "people alone", alone), (0.06, "people and judge", both)):
    rate = np.array([interval.estimate for interval in found])
    ends = np.array([[interval.low, interval.high] for interval in found]).T
    colour = PALETTE[0] if name == "people alone" else PALETTE[1]
    x = np.array(sizes) * 2**shift
    right.errorbar(x, rate, yerr=abs(ends - rate), fmt="o", capsize=3, color=colour, label=name)
right.axhline(truth, color="0.5", linestyle=":", label="truth")
right.axhline(judge.mean(), color=PALETTE[2], linestyle="--", label="judge alone")
right.set_xscale("log", base=2)
right.set_xticks(sizes, [str(m) for m in sizes])
right.set(xlabel="answers with labels of people", ylabel="rate of harmful answers")
right.set_title("5,000 answers with labels of a judge")
right.legend(fontsize="small", ncols=2, loc="upper center", bbox_to_anchor=(0.5, 0.9))
plt.show()
