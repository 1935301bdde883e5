"""Which criterion, for which map?

The table of a paper on calibration for decision making (P4 §5): three maps, each fitted by four
criteria, and what the decisions then cost. NLL and the calibration error of the top label (ECE) are
generic; the direct loss and margin rescaling know costs. Here they are given the costs of the task,
or generic ones (0/1), so that it shows what knowing the task is worth. The maps have no mixing, as
in the paper; the last row is a stack of maps that have one.

Two problems: mushrooms with the paper's costs, 6 classes and 2 decisions, and text of 20 Python
modules with random costs. ``FULL=1`` in the environment runs 20 splits in place of 3."""

import os
import sysconfig
import warnings
from pathlib import Path

import numpy as np
import torch
from scipy.stats import t
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from sklearn_lhcal.calibration import DecisionCalibration
from sklearn_lhcal.metrics import bayes_decision, decision_risk

# Two problems.
# Naive Bayes is overconfident about the mushrooms, whose features are correlated. A forest of few
# trees prints zeros for modules of which no tree has seen such lines.
torch.set_num_threads(1)  # small problems are no slower so
# that intervals are wide open, and that forests print zeros, is what this page is about
warnings.simplefilter("ignore", UserWarning)
SPLITS = 20 if os.environ.get("FULL") == "1" else 3
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

# The table. No safeguard: what is shown is the best candidate of each criterion, by
# cross-validation on the costs that it knows. 1,000 samples train the classifier, 1,000 calibrate
# it, and the rest is for tests.
CRITERIA = ["ece", "direct", "margin"]
MAPS = {"temperature": None, "bias_corrected": None, "vector": None, "stacked": "uniform"}


def one_split(X, y, model, costs, seed):
    """Risk of the test samples, by map and criterion."""
    X, X_rest, y, y_rest = train_test_split(X, y, train_size=1000, stratify=y, random_state=seed)
    X_cal, X_test, y_cal, y_test = train_test_split(
        X_rest, y_rest, train_size=1000, stratify=y_rest, random_state=seed
    )
    model.fit(X, y)
    z, z_test = (model.predict_proba(part) for part in (X_cal, X_test))

    def risk(proba):
        return decision_risk(y_test, bayes_decision(proba, costs), costs)

    found = {("", "none", ""): risk(z_test)}
    for scaling, mixing in MAPS.items():
        ways = [("nll", "", None)]
        for criterion in CRITERIA:
            ways += [(criterion, "generic", None), (criterion, "task", costs)]
        for criterion, knows, C in ways:
            calibrator = DecisionCalibration(
                "proba",
                C,
                scaling=scaling,
                mixing=mixing,
                criterion=criterion,
                inner_cv=5,
                safeguard=None,
            )
            found[scaling, criterion, knows] = risk(calibrator.fit(z, y_cal).predict_proba(z_test))
    return found


def half_width(values) -> float:
    """Of the 95% interval of the mean over splits."""
    n = len(values)
    return t.ppf(0.975, n - 1) * np.std(values, ddof=1) / np.sqrt(n)


risks = {}
for name, problem in problems.items():
    splits = [one_split(*problem, seed) for seed in range(SPLITS)]
    risks[name] = {way: np.array([split[way] for split in splits]) for way in splits[0]}

for name, found in risks.items():
    none = found["", "none", ""]
    print(f"{name}: mean cost over {SPLITS} splits, ± 95%; uncalibrated {none.mean():.3g}")
    ways = [way[1:] for way in found if way[0] == "vector"]
    print(" " * 15 + "".join(" ".join(way).rjust(17) for way in ways))
    for scaling in MAPS:
        cells = [found[scaling, *way] for way in ways]
        shown = [f"{cell.mean():.3g} ± {half_width(cell):.2g}" for cell in cells]
        print(f"{scaling:15}" + "".join(cell.rjust(17) for cell in shown))
    print()
