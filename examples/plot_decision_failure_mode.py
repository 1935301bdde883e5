"""
One dangerous class
===================

Digits, of which one is dangerous: to take an 8 for anything else costs 10 000, any other mistake 1.
Calibration for these costs fails as described in a paper on it (P4 §5.3, for the trucks of
CIFAR-10). To save the small costs it declares fewer digits dangerous; whether an 8 is then missed
depends on few images, which may be among the calibration rows or not. Where there was none, the
mean cost of the calibration rows falls, and that of the test rows may explode.

What can be known is when rows are too few, and then nothing should be gained from them. A floor
under all probabilities says the same. ``FULL=1`` in the environment runs 100 splits in place of 30.
"""

# %%
# Four ways
# ---------
# The parameter is one temperature. "nll" minimises the log loss; "direct" the mean cost of the
# calibration rows, chosen out of fold among its candidates (``safeguard=None``); "safeguarded" is
# the rule of `DecisionCalibration`: NLL unless the best other candidate beats it by more than a
# standard error, to which mistakes belong that might have occurred. These have no floor, as in the
# paper; "direct, floor" has one.
import os
import sys
import warnings
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from sklearn_lhcal.calibration import DecisionCalibration, DecisionCalibrationWarning
from sklearn_lhcal.metrics import bayes_decision, decision_risk, risk_bound

FULL = bool(int(os.environ.get("FULL", "0")))
SPLITS = 100 if FULL else 30
FIGURE = Path(os.path.relpath(Path(sys.argv[0]).parent), "output", "decision_failure_mode.png")
COSTS = 1.0 - np.eye(10)
COSTS[8, :8] = COSTS[8, 9] = 10_000.0
WAYS = {
    "nll": {"criterion": "nll", "floor": None},
    "direct": {"criterion": "direct", "safeguard": None, "floor": None},
    "safeguarded": {"criterion": "direct", "floor": None},
    "direct, floor": {"criterion": "direct", "safeguard": None, "floor": "uniform"},
}


def one_split(X, y, seed: int):
    """Decisions of the calibration and of the test rows by way.

    With their labels, and how many warnings there were.
    """
    X, rest, y, y_rest = train_test_split(X, y, train_size=400, stratify=y, random_state=seed)
    model = GaussianNB(var_smoothing=1e-2).fit(X, y)
    z = model.predict_proba(rest)
    z, z_test, y, y_test = train_test_split(
        z, y_rest, train_size=700, stratify=y_rest, random_state=seed
    )
    found = {"none": (bayes_decision(z, COSTS), bayes_decision(z_test, COSTS))}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DecisionCalibrationWarning)
        for name, options in WAYS.items():
            calibrator = DecisionCalibration("proba", COSTS, scaling="temperature", **options)
            calibrator.fit(z, y)
            found[name] = calibrator.decide(z), calibrator.decide(z_test)
    always = np.full(len(y), 8), np.full(len(y_test), 8)
    said = [w for w in caught if issubclass(w.category, DecisionCalibrationWarning)]
    return y, y_test, found | {"always an 8": always}, len(said)


# %%
# What happens
# ------------
# Risks of single splits are shown on a logarithmic scale. The last column is the upper end of an
# interval for the risk that holds whatever the distribution, by Hoeffding's inequality: with a cost
# of 10 000 and some 700 test rows it says that nothing is known, which is right. Means of such
# costs compare by luck.
#
# Here NLL decides as whoever calls every digit an 8, and that is the best that can be known: a
# probability of 1/10 000 of the dangerous class is not learnt from 700 rows. "direct" finds cheaper
# decisions for the calibration rows, and misses an 8 in several splits. The safeguard keeps NLL,
# and warns where the difference is wide open. With a floor "direct" finds cheaper decisions in one
# split of thirty: what the floor says of the dangerous class forbids them at other temperatures.
def risks(splits) -> dict[str, np.ndarray]:
    """Risk of calibration and test rows of each split, (n_splits, 2), by way."""
    return {
        name: np.array(
            [
                [decision_risk(y, f[name][0], COSTS), decision_risk(y_test, f[name][1], COSTS)]
                for y, y_test, f, _ in splits
            ]
        )
        for name in splits[0][2]
    }


def table(found, splits) -> str:
    lines = [
        f"{'':14}{'calibration':>12}{'test':>9}{'median':>9}{'missed an 8 in':>16}{'Hoeffding':>11}"
    ]
    for name, r in found.items():
        missed = sum(np.any((f[name][1] != 8) & (y_test == 8)) for _, y_test, f, _ in splits)
        bound = np.mean([risk_bound(y_test, f[name][1], COSTS).high for _, y_test, f, _ in splits])
        means = f"{r[:, 0].mean():12.2f}{r[:, 1].mean():9.2f}{np.median(r[:, 1]):9.3f}"
        lines.append(f"{name:14}{means}{missed:10} of {len(splits)}{bound:11.0f}")
    return "\n".join(lines)


def figure(found):
    figure, ax = plt.subplots(figsize=(7, 4.4), layout="constrained")
    constant = found["always an 8"][:, 1].mean()
    ax.axhline(constant, color="0.35", linewidth=1, linestyle=(0, (1, 1.5)), label="always an 8")
    for i, name in enumerate(["none", *WAYS]):
        r = found[name][:, 1]
        ax.plot(
            np.arange(len(r)) + 0.17 * (i - 2),
            r,
            "os^Dv"[i],
            color=f"C{i}",
            markersize=4.5,
            label=name,
        )
    ax.set(xlabel="split", ylabel="risk of the test rows (mean cost)", yscale="log")
    ax.legend(fontsize="small", ncols=2)
    return figure


def main() -> None:
    matplotlib.use("Agg")
    torch.set_num_threads(1)
    X, y = load_digits(return_X_y=True)
    splits = [one_split(X, y, seed) for seed in range(SPLITS)]
    found = risks(splits)
    print(f"Mean cost of a row, {SPLITS} splits\n{table(found, splits)}\n")
    same = sum(np.array_equal(f["safeguarded"][1], f["nll"][1]) for _, _, f, _ in splits)
    print(
        f"The safeguard kept NLL's decisions in {same} splits, with a warning in "
        f"{sum(w for *_, w in splits)}."
    )
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure(found).savefig(FIGURE, dpi=150)
    print(f"Figure: {FIGURE}")


if __name__ == "__main__":
    main()
