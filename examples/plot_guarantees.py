"""
Prediction sets and risk control
================================

Prediction sets calibrated on labels cover 90% of the labels of new samples. Calibrated on
majorities they cover 81%, and the mean cost of automated decisions is 0.53, above its limit of
0.3. Calibration samples are drawn again and again, with new labels each time. The data are
**simulated**.
"""

# %%
# Simulated samples
# -----------------
# Samples with known distributions of labels, and the probabilities of an overconfident classifier.
# Each trial takes 300 samples to calibrate on, and 1,000 others are new. The labels of the 300 are
# one label per sample, three labels, or what most of eleven raters said.
import matplotlib.pyplot as plt
import numpy as np

from sklearn_lhcal.calibration import ConformalClassifier, RiskControlledDecision
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.display import DecisionCurveDisplay

TRIALS = 150
LABELS = {"one label": "#009E73", "three labels": "#0072B2", "majority of 11": "#D55E00"}
pool = make_label_histograms(4000, 3, 1, total=6.0, overconfidence=2.0, random_state=0)


def labels_of(Q: np.ndarray, kind: str, rng) -> np.ndarray:
    """Labels, as counts, of samples whose labels have the distributions Q."""
    if kind == "majority of 11":
        votes = rng.multinomial(11, Q) + rng.random(Q.shape)
        return np.eye(3, dtype=int)[votes.argmax(axis=1)]
    return rng.multinomial(1 if kind == "one label" else 3, Q)


def trials(model, kind: str, measure) -> np.ndarray:
    """What `measure` says of new samples, in each trial."""
    found = []
    for seed in range(TRIALS):
        rng = np.random.default_rng(seed)
        rows = rng.permutation(4000)
        first, new = rows[:300], rows[300:1300]
        model.fit(pool.prediction[first], labels_of(pool.proba[first], kind, rng))
        found.append(measure(model, pool.prediction[new], pool.proba[new]))
    return np.array(found)


def covered(model, X, Q) -> float:
    """Share of the labels of new samples that lie in their sets."""
    return (Q * model.predict_set(X)).sum(axis=1).mean()


def mean_cost(model, X, Q) -> float:
    """Mean cost of new samples."""
    return np.einsum("nk,nk->n", Q, model.cost_matrix_.T[model.decide(X)]).mean()


def draw(ax, values: dict, limit: float, what: str, line: str = "guaranteed for the mean"):
    """A dot for each trial, a bar for their mean, and a line for the limit."""
    rng = np.random.default_rng(0)
    for i, (kind, found) in enumerate(values.items()):
        beside = i + rng.uniform(-0.18, 0.18, len(found))
        ax.plot(beside, found, ".", color=LABELS[kind], alpha=0.4)
        ax.plot([i - 0.3, i + 0.3], [found.mean()] * 2, color=LABELS[kind], linewidth=3)
    ax.plot([], [], color="0.35", linewidth=3, label="mean of the trials")
    ax.axhline(limit, color="0.35", linestyle=(0, (1, 1.5)), label=line)
    ax.set(ylabel=what, xticks=range(len(values)), xticklabels=list(values))
    ax.legend(fontsize="small")


# sphinx_gallery_thumbnail_number = 2

# %%
# Coverage and mean cost
# ----------------------
# Left: the labels of new samples in their sets, guaranteed 0.9 at least, on average over trials.
# Right: the mean cost of new samples, guaranteed 0.3 at most; the other samples are referred at no
# cost.
costs = [[0, 1, 2], [3, 0, 1], [9, 2, 0]]
sets = ConformalClassifier("proba", confidence_level=0.9)
decisions = RiskControlledDecision("proba", costs, budget=0.3)

fig, (left, right) = plt.subplots(1, 2, figsize=(7.5, 4.2), layout="constrained")
coverage = {kind: trials(sets, kind, covered) for kind in LABELS}
draw(left, coverage, 0.9, "Labels of new samples covered (share)")
cost = {kind: trials(decisions, kind, mean_cost) for kind in LABELS}
draw(right, cost, 0.3, "Mean cost of new samples (unit of the costs)")
for kind in LABELS:
    print(f"{kind:15} covered {coverage[kind].mean():.3f}   mean cost {cost[kind].mean():.3f}")

# %%
# One label per sample is enough for both guarantees; with more labels, trials differ less. With
# majorities both fail, because a majority hides the labels of those who disagreed.

# %%
# Learn-then-test
# ---------------
# The guarantee above is for the mean over trials; single trials may exceed the limit.
# Learn-then-test limits how many do: here, that in nine of ten trials at most a quarter of the
# decided samples are decided wrongly.
tested = RiskControlledDecision(
    "proba", budget=0.25, method="learn_then_test", target="decided", confidence_level=0.9
)


def errors(model, X, Q) -> float:
    """Share of wrong decisions among the samples decided."""
    own = model.accepted(X)
    wrong = 1 - Q[np.arange(len(Q)), model.predict_proba(X).argmax(axis=1)]
    return wrong[own].mean() if own.any() else 0.0


fig, ax = plt.subplots(figsize=(6, 4.4), layout="constrained")
wrong = {kind: trials(tested, kind, errors) for kind in LABELS}
what = "Wrong decisions among the decided (share)"
draw(ax, wrong, 0.25, what, "guaranteed for 90% of trials")
for kind in LABELS:
    print(f"{kind:15} above the limit in {(wrong[kind] > 0.25).mean():.0%} of trials")
print(tested.guarantee_)

# %%
# With labels of single raters no trial exceeds the limit, where one in ten may. With majorities
# nearly all do.

# %%
# Is it worth acting on?
# ----------------------
# A decision curve shows whether acting on a prediction does more good than acting
# on every sample, or on none, at the threshold that somebody would choose. The true probabilities
# show what overconfidence costs.
models = {"overconfident": pool.prediction[:1000], "true probabilities": pool.proba[:1000]}
display = DecisionCurveDisplay.from_predictions(pool.counts[:1000], models, class_index=2)

plt.show()

# %%
# The true probabilities do at least as much good as the overconfident ones at all thresholds. At
# high thresholds it does harm to act on the overconfident ones.
