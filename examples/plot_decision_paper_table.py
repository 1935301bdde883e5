"""
Which criterion, for which map?
===============================

The table of a paper on calibration for decision making (P4 §5): three maps, each fitted by four
criteria, and what the decisions then cost. NLL and the calibration error of the top label (ECE) are
generic; the direct loss and margin rescaling know costs. Here they are given the costs of the task,
or generic ones (0/1), so that it shows what knowing the task is worth. The maps have no floor, as
in the paper; the last row is a stack of maps that have one.

Two problems: mushrooms with the paper's costs, 6 classes and 2 decisions, and text of 20 Python
modules with random costs. ``FULL=1`` in the environment runs 20 splits in place of 3."""

# %%
# Two problems
# ------------
# Naive Bayes is too sure of the mushrooms, whose features are correlated. A forest of few trees
# prints zeros for modules of which no tree has seen such lines.
import os
import sys
import sysconfig
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from colours import PALETTE
from matplotlib.ticker import NullLocator
from scipy.stats import t
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from sklearn_lhcal.calibration import DecisionCalibration
from sklearn_lhcal.metrics import bayes_decision, decision_risk

torch.set_num_threads(1)  # small problems are no slower so
# that intervals are wide open, and that forests print zeros, is what this page is about
warnings.simplefilter("ignore", UserWarning)
SPLITS = 20 if os.environ.get("FULL") == "1" else 3
FIGURE = Path(os.path.relpath(Path(sys.argv[0]).parent), "output", "decision_paper_table.png")
MODULES = [
    *("argparse", "ast", "calendar", "difflib", "doctest", "inspect", "locale", "mailbox"),
    *("optparse", "pdb", "pickle", "shutil", "smtplib", "statistics", "subprocess", "tarfile"),
    *("threading", "turtle", "typing", "zipfile"),
]


def mushrooms():
    """Features (n, 12) and classes, from deadly to good."""
    rng = np.random.default_rng(0)
    y = rng.choice(6, size=8000, p=[0.02, 0.08, 0.35, 0.2, 0.2, 0.15])
    means = np.random.default_rng(0).normal(0, 2.0, (6, 4))
    hidden = means[y] + rng.normal(size=(8000, 4))
    return hidden @ np.tile(np.eye(4), 3) + 0.5 * rng.normal(size=(8000, 12)), y


def module_text():
    """Word counts of six lines each, and the number of the module they are from."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    pieces, labels = [], []
    for k, name in enumerate(MODULES):
        path = folder / f"{name}.py"
        path = path if path.exists() else folder / name / "__init__.py"
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        found = [" ".join(lines[i : i + 6]) for i in range(0, len(lines) - 6, 6)]
        pieces += found
        labels += [k] * len(found)
    return CountVectorizer(min_df=5).fit_transform(pieces), np.array(labels)


eat = np.array([[10_000, 0], [1_000, 0], [100, 0], [40, 0], [0, 10], [0, 20]], dtype=float)
random = np.random.default_rng(0).exponential(size=(20, 20)) ** 2 * (1 - np.eye(20))
forest = RandomForestClassifier(30, random_state=0)
problems = {
    "mushrooms": (*mushrooms(), GaussianNB(), eat),
    "text": (*module_text(), forest, random),
}

# %%
# The table
# ---------
# No safeguard: what is shown is the best candidate of each criterion, by cross-validation on the
# costs that it knows. 1000 rows train the classifier, 1000 calibrate it, and the rest is for tests.
TICKS = [0.1, 0.2, 0.5, 1, 2, 5, 10]
CRITERIA = ["ece", "direct", "margin"]
MAPS = {"temperature": None, "bias_corrected": None, "vector": None, "stacked": "uniform"}


def one_split(X, y, model, costs, seed):
    """Risk of the test rows, by map and criterion."""
    X, X_rest, y, y_rest = train_test_split(X, y, train_size=1000, stratify=y, random_state=seed)
    X_cal, X_test, y_cal, y_test = train_test_split(
        X_rest, y_rest, train_size=1000, stratify=y_rest, random_state=seed
    )
    model.fit(X, y)
    z, z_test = (model.predict_proba(part) for part in (X_cal, X_test))

    def risk(proba):
        return decision_risk(y_test, bayes_decision(proba, costs), costs)

    found = {("", "none", ""): risk(z_test)}
    for scaling, floor in MAPS.items():
        ways = [("nll", "", None)]
        for criterion in CRITERIA:
            ways += [(criterion, "generic", None), (criterion, "task", costs)]
        for criterion, knows, C in ways:
            calibrator = DecisionCalibration(
                "proba",
                C,
                scaling=scaling,
                floor=floor,
                criterion=criterion,
                inner_cv=5,
                safeguard=None,
            )
            found[scaling, criterion, knows] = risk(calibrator.fit(z, y_cal).predict_proba(z_test))
    return found


def half_width(values) -> float:
    """Of the 95 % interval of the mean over splits."""
    n = len(values)
    return t.ppf(0.975, n - 1) * np.std(values, ddof=1) / np.sqrt(n)


risks = {}
for name, problem in problems.items():
    splits = [one_split(*problem, seed) for seed in range(SPLITS)]
    risks[name] = {way: np.array([split[way] for split in splits]) for way in splits[0]}

for name, found in risks.items():
    none = found["", "none", ""]
    print(f"{name}: mean cost over {SPLITS} splits, ± 95 %; uncalibrated {none.mean():.3g}")
    ways = [way[1:] for way in found if way[0] == "vector"]
    print(" " * 15 + "".join(" ".join(way).rjust(17) for way in ways))
    for scaling in MAPS:
        cells = [found[scaling, *way] for way in ways]
        shown = [f"{cell.mean():.3g} ± {half_width(cell):.2g}" for cell in cells]
        print(f"{scaling:15}" + "".join(cell.rjust(17) for cell in shown))
    print()

# %%
# Paired with NLL
# ---------------
# The ratio of a criterion's risk to that of NLL, map by map and in pairs: splits share what is hard
# about them. Filled where the criterion knows the costs of the task.
#
# Over 20 splits direct loss with the costs of the task did better than NLL on text: .37 against
# .51 for a temperature (± .01 and .03), .37 against .50 with biases. The forest prints zeros. To
# NLL each wrong one is a disaster, and the temperature that avoids it is wrong for all other rows.
# The calibration error of the top label, a tamer loss, mends that too (.36), but not with biases.
# A better map takes the gain away: the stack with its floor has .34 by NLL, without a look at the
# costs, and nothing is left for the direct loss.
#
# On mushrooms it lost: 3.4 ± .7 against 2.64 ± .07, and 5.5 ± 1.6 against 2.55 ± .07 with biases.
# Each feature is seen three times, which a temperature of about three mends, and NLL finds it from
# all rows. The mean cost sees some twenty deadly mushrooms of a thousand, at 10 000 each, and fits
# those: the failure that the safeguard of `DecisionCalibration` is for, which is switched off here.
# Margin rescaling, the looser bound, did worse than direct loss nearly everywhere. Generic costs
# are no substitute: 0/1 decisions do not depend on small probabilities.
figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.6), layout="constrained", sharey=True)
ways = [(criterion, knows) for criterion in CRITERIA for knows in ("generic", "task")]
for ax, (name, found) in zip(axes, risks.items(), strict=True):
    for i, scaling in enumerate(MAPS):
        nll = found[scaling, "nll", ""]
        for j, (criterion, knows) in enumerate(ways):
            ratio = np.log(found[scaling, criterion, knows] / nll)
            reach = half_width(ratio)
            low, middle, high = np.exp([ratio.mean() - reach, ratio.mean(), ratio.mean() + reach])
            color = PALETTE[CRITERIA.index(criterion)]
            label = f"{criterion}, {'0/1 costs' if knows == 'generic' else 'costs of the task'}"
            ax.errorbar(
                middle,
                i + 0.12 * (j - 2.5),
                xerr=[[middle - low], [high - middle]],
                fmt="o",
                color=color,
                markerfacecolor=color if knows == "task" else "white",
                markersize=5,
                linewidth=1,
                capsize=2,
                label=label if i == 0 else None,
            )
    ax.axvline(1, color="0.35", linewidth=1)
    ax.set(xscale="log", title=name, xlabel="risk / risk by NLL of the same map, 95 %")
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    ax.set_xlim(0.2, 12)
axes[0].set_yticks(range(len(MAPS)), [scaling.replace("_", "-") for scaling in MAPS])
axes[0].invert_yaxis()
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
FIGURE.parent.mkdir(parents=True, exist_ok=True)
figure.savefig(FIGURE, dpi=150)
# not among the tables, which a page of the documentation shows as they are printed
print(f"Figure: {FIGURE}", file=sys.stderr)

# %%
# No criterion that knows the costs is better than NLL with all maps and on both problems.
