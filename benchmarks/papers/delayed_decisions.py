"""Which decisions to postpone until more data have come? A study that is not in P3.

A random checkerboard. Left of the middle three labels in ten are wrong, for good: aleatoric
uncertainty. And discs on either side have few training points, which will be more: epistemic
uncertainty. `BallCarvingSplit` makes the discs; the augmented samples are what will be known later,
the test samples are the cases to decide. ``FULL=1`` in the environment runs ten boards of 20,000
points in place of four of 4,000.
"""

import os

import numpy as np
import torch
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

now, later = (np.mean([case[when].mean() for case in studies]) for when in ("now", "later"))
print(
    f"Error rate now {now:.3f}, with everything postponed {later:.3f}\nshare of that gain when a "
    "tenth is postponed:"
)
tenth = {}  # by rule: the drop in each board
for rule in ("mutual information", "entropy"):
    drops = np.array([case["now"].mean() - risk(case, case[rule]) for case in studies])
    mean = now - drops.mean(axis=0)
    tenth[rule] = np.array([np.interp(0.1, FRACTION, drop) for drop in drops])
    print(f"  by {rule:<20} {(now - np.interp(0.1, FRACTION, mean)) / (now - later):4.0%}")
gap = (tenth["mutual information"] - tenth["entropy"]) / (now - later)
half = t.ppf(0.975, SEEDS - 1) * sem(gap)
low, high = gap.mean() - half, gap.mean() + half
print(f"  difference, 95%         {gap.mean():4.0%} ({low:.0%}, {high:.0%})")

# Postpone a case where the expected gain exceeds the cost of waiting, both in errors. This takes an
# estimate of the right size: entropy is none, the calibrated estimate is so by construction.
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
