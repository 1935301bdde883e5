"""
Which decisions to postpone?
============================

Some decisions can wait until more data have come: a later model decides them. Which ones gain by
waiting? Those of large *epistemic* uncertainty, not those that will be just as unclear later. The
data are **simulated**.
"""

# %%
# Two kinds of uncertainty
# ------------------------
# A random checkerboard. Left of the middle three labels in ten are wrong, for good: aleatoric
# uncertainty. And discs on either side have few training points, which will be more: epistemic
# uncertainty. `BallCarvingSplit` makes the discs; the augmented samples are what will be known
# later, the test samples are the cases to decide.
import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from colours import BLUE, VERMILLION
from scipy.stats import sem, t

from sklearn_lhcal.calibration import EpistemicCalibration
from sklearn_lhcal.datasets import make_random_checkerboard
from sklearn_lhcal.gaussian_process import SparseGPClassifier
from sklearn_lhcal.model_selection import BallCarvingSplit

torch.set_num_threads(1)
SEEDS, N, SIDE, INDUCING = (
    (10, 20_000, 20, 600) if os.environ.get("FULL") == "1" else (4, 4_000, 9, 150)
)
FRACTION = np.linspace(0, 1, 51)
PRICES = (0.02, 0.05, 0.1, 0.2)


def cases(seed: int) -> dict:
    """Errors of the test cases, now and later, and the rules' priorities."""
    X, y = make_random_checkerboard(N, SIDE, SIDE, cell_std=0.2, random_state=seed)
    rng = np.random.default_rng(seed)
    y = np.where((X[:, 0] < (SIDE + 1) / 2) & (rng.random(N) < 0.3), 1 - y, y)
    train, augmented, test = BallCarvingSplit(random_state=seed).split_augmented(X, y)
    gp = SparseGPClassifier(n_inducing=INDUCING, random_state=0)
    now = EpistemicCalibration(gp, splitter=BallCarvingSplit(random_state=seed + 100)).fit(
        X[train], y[train]
    )
    later = gp.fit(X[augmented], y[augmented])
    distribution = now.predict_dist(X[test])
    return {
        "now": now.predict(X[test]) != y[test],
        "later": later.predict(X[test]) != y[test],
        "entropy": distribution.entropy(),
        "mutual information": distribution.mutual_information(),
        "calibrated": now.predict_epistemic(X[test]),
    }


def risk(case: dict, priority) -> np.ndarray:
    """Error rate when a fraction of the cases, those of highest priority, is decided later."""
    gain = case["now"].astype(float) - case["later"]
    saved = np.concatenate([[0.0], np.cumsum(gain[np.argsort(-priority, kind="stable")])]) / len(
        gain
    )
    return case["now"].mean() - np.interp(FRACTION * len(gain), np.arange(len(gain) + 1), saved)


studies = [cases(seed) for seed in range(SEEDS)]

# %%
# Risk against fraction postponed
# -------------------------------
# The dotted line postpones at random. Mutual information finds the cases that gain most sooner than
# entropy, which begins with those on the noisy side. Bands are 95% intervals, over boards, of the
# drop of the error rate.
figure, ax = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
now, later = (np.mean([case[when].mean() for case in studies]) for when in ("now", "later"))
print(
    f"Error rate now {now:.3f}, with everything postponed {later:.3f}\nshare of that gain when a "
    "tenth is postponed:"
)
tenth = {}  # by rule: the drop in each board
for rule, color in (("mutual information", BLUE), ("entropy", VERMILLION)):
    drops = np.array([case["now"].mean() - risk(case, case[rule]) for case in studies])
    mean, reach = now - drops.mean(axis=0), t.ppf(0.975, SEEDS - 1) * sem(drops)
    ax.plot(FRACTION, mean, color=color, label=f"by {rule}")
    ax.fill_between(FRACTION, mean - reach, mean + reach, color=color, alpha=0.2, linewidth=0)
    tenth[rule] = np.array([np.interp(0.1, FRACTION, drop) for drop in drops])
    print(f"  by {rule:<20} {(now - np.interp(0.1, FRACTION, mean)) / (now - later):4.0%}")
gap = (tenth["mutual information"] - tenth["entropy"]) / (now - later)
half = t.ppf(0.975, SEEDS - 1) * sem(gap)
low, high = gap.mean() - half, gap.mean() + half
print(f"  difference, 95%         {gap.mean():4.0%} ({low:.0%}, {high:.0%})")
ax.plot([0, 1], [now, later], color="0.35", linestyle=(0, (1, 1.5)), label="at random")
ax.set(xlabel="Fraction of decisions postponed", ylabel="Error rate", xlim=(0, 1))
title = f"mean of {SEEDS} boards, 95% intervals"
legend = ax.legend(title=title, title_fontsize="small", fontsize="small")

# %%
# Mutual information finds the decisions that profit from waiting sooner than entropy does, on
# average. But with four boards the paired difference is not distinguishable from 0.

# %%
# When waiting has a cost
# -----------------------
# Postpone a case where the expected gain exceeds the cost of waiting, both in errors. This takes
# an estimate of the right size. Entropy is none and postpones nearly everything; mutual information
# is roughly of the right size here, and the calibrated estimate is so by construction. Errors and
# costs paid, per case:
RULES = ("entropy", "mutual information", "calibrated")
print(f"\ncost of waiting    nobody waits   all wait   {'   '.join(RULES)}")
for price in PRICES:
    row = f"{price:>16.2f} {now:>14.3f} {later + price:>10.3f}"
    for rule in RULES:
        paid = [
            np.where(case[rule] > price, case["later"] + price, case["now"]).mean()
            for case in studies
        ]
        row += f"   {np.mean(paid):>{len(rule)}.3f}"
    print(row)

FIGURE = Path(os.path.relpath(Path(sys.argv[0]).parent), "output", "delayed_decisions.png")
FIGURE.parent.mkdir(exist_ok=True)
figure.savefig(FIGURE, dpi=150)
print(f"\nFigure: {FIGURE}")
