r"""The table of P4 (Fig. 2) for saved predictions, labels and costs.

    python benchmarks/papers/decision_files.py --proba proba.npy --labels labels.npy \
        --costs costs.csv
    python benchmarks/papers/decision_files.py --shape lesions

Files are .npy or .csv without a header: class probabilities (n, K), class numbers (n,), and costs
(K, decisions). Without files a problem is made in the shape of the paper's: mushrooms have six
classes, of which the deadly is rare, and the paper's costs; lesions have the seven classes and the
frequencies of HAM10000, and costs of three decisions. Both come with predictions that count the
frequencies of the classes twice.

Criteria are NLL; the calibration error of the top label and the direct loss by the method of the
paper, ``grid="paper"``; and the direct loss with the candidates of this package ("direct, ours").

Samples are split --splits times: a share of --test is for testing, the rest calibrates. Printed are
the mean cost of a sample and its standard deviation over splits, as in the paper, and the share of
it that the model expects by its own account; then the difference to NLL of the same map in pairs,
with a 95% interval over splits. Splits share samples, so that the interval is too narrow for new
data."""

import argparse
import warnings
from pathlib import Path

import numpy as np
from scipy.special import softmax
from scipy.stats import t
from sklearn.model_selection import StratifiedShuffleSplit

from sklearn_lhcal.calibration import DecisionCalibration
from sklearn_lhcal.metrics import bayes_decision, decision_risk

MUSHROOMS = [[10_000, 0], [1_000, 0], [100, 0], [40, 0], [0, 10], [0, 20]]
# treat, refer, leave; harmless ones first, melanoma last
LESIONS = [[4, 1, 0], [4, 1, 0], [3, 1, 0], [3, 1, 0], [0.5, 1, 6], [0.5, 1, 8], [0, 2, 20]]
SHAPES = {
    "mushrooms": ([0.02, 0.08, 0.35, 0.2, 0.2, 0.15], MUSHROOMS, 6000),
    "lesions": (np.array([6705, 1099, 142, 115, 327, 514, 1113]) / 10_015, LESIONS, 2500),
}
MAPS = ["temperature", "bias_corrected", "vector"]
CRITERIA = {
    "nll": {"criterion": "nll"},
    "ece": {"criterion": "ece", "grid": "paper"},
    "direct": {"criterion": "direct", "grid": "paper"},
    "direct, ours": {"criterion": "direct"},
}


def made(shape: str):
    """Probabilities, labels, costs.

    By Bayes' rule logits would be log(shares) + 2.5·x, where x is what a sample shows."""
    shares, costs, n = SHAPES[shape]
    rng = np.random.default_rng(0)
    labels = rng.choice(len(shares), size=n, p=shares)
    x = 2.5 * np.eye(len(shares))[labels] + rng.normal(size=(n, len(shares)))
    return softmax(2 * (np.log(shares) + x), axis=1), labels, np.array(costs, dtype=float)


def read(path: Path) -> np.ndarray:
    """The array of a file."""
    if path.suffix == ".npy":
        return np.load(path)
    return np.loadtxt(path, delimiter=",")


def one_split(proba, labels, costs, train, test) -> dict:
    """(Risk of the test samples, what the model expects) by map and criterion."""

    def judged(z):
        decided = bayes_decision(z, costs)
        expected = (z @ costs)[np.arange(len(z)), decided].mean()
        return decision_risk(labels[test], decided, costs), expected

    found = {("none", ""): judged(proba[test])}
    for scaling in MAPS:
        for criterion, options in CRITERIA.items():
            calibrator = DecisionCalibration(
                "proba", costs, scaling=scaling, mixing=None, safeguard=None, **options
            )
            model = calibrator.fit(proba[train], labels[train])
            found[scaling, criterion] = judged(model.predict_proba(proba[test]))
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Which criterion, for which map.")
    for name in ("proba", "labels", "costs"):
        parser.add_argument(f"--{name}", type=Path, metavar="FILE")
    parser.add_argument("--shape", choices=sorted(SHAPES), default="mushrooms")
    parser.add_argument("--splits", type=int, default=15)
    parser.add_argument("--test", type=float, default=0.4, help="share of the rows")
    options = parser.parse_args()
    paths = [options.proba, options.labels, options.costs]
    if any(paths) and not all(paths):
        parser.error("--proba, --labels and --costs go together")
    if options.splits < 2:
        parser.error("--splits: two at least, as the table shows their spread")
    if all(paths):
        proba, labels, costs = (read(path) for path in paths)
        labels = labels.astype(int)
    else:
        proba, labels, costs = made(options.shape)

    warnings.simplefilter("ignore", UserWarning)  # wide intervals are what the table shows
    splitter = StratifiedShuffleSplit(options.splits, test_size=options.test, random_state=0)
    splits = [one_split(proba, labels, costs, *rows) for rows in splitter.split(proba, labels)]
    values = {way: np.array([split[way] for split in splits]) for way in splits[0]}

    print(f"{len(labels)} rows, {options.splits} splits")
    print(f"{'map':16}{'criterion':14}{'cost ± sd':>20}{'expected':>10}{'less NLL, 95 %':>28}")
    reach = t.ppf(0.975, options.splits - 1) / np.sqrt(options.splits)
    for (scaling, criterion), found in values.items():
        risk, expected = found.T
        shown = f"{risk.mean():.4g} ± {risk.std(ddof=1):.3g}"
        line = f"{scaling:16}{criterion:14}{shown:>20}{expected.mean():10.4g}"
        if criterion not in ("", "nll"):
            change = risk - values[scaling, "nll"][:, 0]
            half = reach * change.std(ddof=1)
            interval = (
                f"{change.mean():.3g} ({change.mean() - half:.3g}, {change.mean() + half:.3g})"
            )
            line += f"{interval:>28}"
        print(line)


if __name__ == "__main__":
    main()
