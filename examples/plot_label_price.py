"""
What is a label worth?
======================

To ask for labels one after another costs up to 0.050 less per sample than the best fixed number of
labels, where a label costs 0.041. `label_policy` asks for one more label where its expected
value exceeds its cost. The data are **simulated** raters of real digits.
"""

# %%
# A model and its distribution
# ----------------------------
# Digits, a third of which are two digits mixed, so that raters are split. Costs are 0/1, but a
# missed nine costs ten times as much. Logistic regression on kernel features is scaled, and
# α-calibration puts a Dirichlet distribution around each prediction. Test samples have ten raters;
# those of four random splits stand one below the other.
import numpy as np
from matplotlib import pyplot as plt
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from sklearn_lhcal.calibration import AlphaCalibration, StackedCalibration
from sklearn_lhcal.datasets import load_mixed_digits
from sklearn_lhcal.display import PolicyCurveDisplay
from sklearn_lhcal.distributions import (
    Distribution,
    allocate_labels,
    label_policy,
    second_opinion_value,
)
from sklearn_lhcal.metrics import policy_curve

predicted = []
votes = []
for seed in range(4):
    data = load_mixed_digits(raters=3, random_state=seed)
    kernel = Nystroem(gamma=0.1, n_components=300, random_state=0)
    classifier = make_pipeline(kernel, LogisticRegression(C=10, max_iter=1000))
    classifier.fit(data.X_train, data.counts_train.argmax(axis=1))
    model = AlphaCalibration(StackedCalibration(FrozenEstimator(classifier)))
    model.fit(data.X_validation, data.counts_validation)
    predicted.append(model.predict_dist(data.X_test))
    votes.append(data.counts_test)

distribution = Distribution.concatenate(predicted)
counts = np.concatenate(votes)

costs = 1.0 - np.eye(10)
costs[9, :9] = 10

# %%
# When to ask
# -----------
# A label costs 0.05, and there are four per sample at most. The policy knows what it will spend,
# and what is left to pay for decisions.
policy = label_policy(distribution, costs, price=0.05, horizon=4)
ask = policy.ask()
print(f"asks about {ask.sum()} of {len(ask)} samples at first")
print(f"expects {policy.expected_labels.mean():.2f} labels per sample")
print(f"expects a total cost of {policy.expected_cost.mean():.3f} per sample")

# the first rater of each sample, drawn from its ten
first = np.random.default_rng(0).multivariate_hypergeometric
one = np.array([first(row, 1) for row in counts]) * ask[:, None]
print(f"and asks about {policy.ask(one)[ask].sum()} of these again")

# %%
# One label, or several
# ---------------------
# The value of one label is 0 where no single label can change the decision. Two or three agreeing
# ones could.
value = second_opinion_value(distribution, costs)
more = ask & (value < 0.05)
print(f"{more.sum()} samples are asked about although one label and no more would not pay")
entropy = distribution.entropy()
fig, ax = plt.subplots(figsize=(6, 4.5), layout="constrained")
for rows, color, what in (
    (~ask, "0.7", "decided at once"),
    (ask & ~more, "#0072B2", "asked: one label pays"),
    (more, "#E69F00", "asked: only several labels pay"),
):
    ax.plot(entropy[rows], value[rows], "o", color=color, alpha=0.7, label=what)
ax.axhline(0.05, color="0.35", linestyle=(0, (1, 1.5)), label="cost of a label")
ax.set(xlabel="Entropy of the prediction (nats)", ylabel="Value of one label (unit of the costs)")
legend = ax.legend(fontsize="small")

# %%
# Below the line one label alone would not pay, and yet the policy asks about some of these samples.
# A rule that looks one label ahead would leave them out.

# %%
# What it saves
# -------------
# Replayed on the test samples: some of the ten labels are drawn, one after the other, as each rule
# asks for them, and the others say what the decision costs. Two simpler rules are compared: the
# same number of labels for every sample, and labels as long as the entropy is above a threshold,
# both tuned on other samples. Differences are of the same samples, and bands are 95% intervals.
curve = policy_curve(counts, distribution, costs, horizon=4, random_state=0)
display = PolicyCurveDisplay(curve).plot_differences()
display.ax_.set_ylabel("Total cost minus that of optimal stopping\n(unit of the costs, per sample)")
for rule, cost, ends in zip(
    ("best fixed number", "entropy"),
    curve.total_cost[1:],
    curve.difference_interval[1:],
    strict=True,
):
    saved = cost - curve.total_cost[0]
    best = saved.argmax()
    sure = curve.prices[ends[:, 0] > 0].max()
    print(
        f"{rule}: stopping saves up to {saved[best]:.3f}, where a label costs "
        f"{curve.prices[best]:.3f}; the interval lies above 0 up to a cost of {sure:.3f}"
    )

# %%
# Optimal stopping costs least whatever a label costs. It saves most where a label costs 0.04 to
# 0.06. The intervals of the differences lie above 0 up to a cost of 0.228 and of 0.207.

# %%
# A number of labels to spend
# ---------------------------
# Where labels must be ordered at once, `allocate_labels` spends a given number. Samples get none,
# one or several.
for budget in (200, 400, 800):
    n_labels = allocate_labels(distribution, costs, budget)
    print(f"{budget} labels: samples with 0, 1, 2, 3 and 4:", np.bincount(n_labels, minlength=5))

plt.show()
