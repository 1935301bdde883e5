"""What each map of class probabilities costs or gains on real data: held-out log loss.

    python benchmarks/maps.py [--splits 20] [--cifar10h FILE.npz] [--only PART_OF_A_NAME]

Each problem: repeated random splits into rows for training, calibration and test. A row of the
table is a problem and a number of calibration rows; a column is a map. Shown is the mean log loss
per label of the test rows, nats, and behind ± two standard errors of its difference from that of
temperature scaling, paired by split. Raw probabilities are clipped at 1e-12. FILE.npz holds
"counts" of human labels and "proba" of a trained network.
"""

import argparse
import sysconfig
import warnings
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_lhcal.calibration import (
    BiasCorrectedTemperatureScaling,
    MatrixScaling,
    TemperatureScaling,
    VectorScaling,
)
from sklearn_lhcal.metrics import label_log_loss

SIZES = (50, 200, 1000)
MAPS = {
    "T": TemperatureScaling("proba"),
    "BC": BiasCorrectedTemperatureScaling("proba"),
    "vector": VectorScaling("proba"),
    "matrix": MatrixScaling("proba"),
    "T floor": TemperatureScaling("proba", floor="uniform"),
    "BC floor": BiasCorrectedTemperatureScaling("proba", floor="uniform"),
    "vec floor": VectorScaling("proba", floor="uniform"),
}
LOGISTIC = make_pipeline(StandardScaler(), LogisticRegression(C=10.0, max_iter=2000))
FOREST = RandomForestClassifier(100, random_state=0)
# A forest is read as the mean of its trees here: one model, not an ensemble.
CLASSIFIERS = {
    "LR": LOGISTIC,
    "forest": FOREST,
    "NB": GaussianNB(),
    "kNN": KNeighborsClassifier(10),
}
TABLES = {
    "digits": (load_digits, 300, ("LR", "forest", "NB", "kNN")),
    "wine": (load_wine, 50, ("LR", "NB")),
    "cancer": (load_breast_cancer, 100, ("LR", "forest", "NB")),
    "iris": (load_iris, 40, ("LR", "forest")),
}
# Modules whose text has to be told apart, in pieces of so many lines.
MODULES = [
    *("argparse", "ast", "calendar", "difflib", "doctest", "inspect", "locale", "mailbox"),
    *("optparse", "pdb", "pickle", "shutil", "smtplib", "statistics", "subprocess", "tarfile"),
    *("threading", "turtle", "typing", "zipfile"),
]
LINES = 6


@cache
def module_text() -> tuple[np.ndarray, np.ndarray]:
    """Word counts of pieces of standard modules, and the number of the module."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    pieces = []
    labels = []
    for k, name in enumerate(MODULES):
        path = folder / f"{name}.py"
        path = path if path.exists() else folder / name / "__init__.py"
        lines = path.read_text(encoding="utf-8").splitlines()
        lines = [line for line in lines if line.strip()]
        for begin in range(0, len(lines) - LINES, LINES):
            pieces.append(" ".join(lines[begin : begin + LINES]))
            labels.append(k)
    return CountVectorizer(min_df=5).fit_transform(pieces), np.array(labels)


def trained(model, X, y, n_train: int, seed: int):
    """Probabilities and one-hot labels of the rows that the model was not trained on."""
    parts = train_test_split(X, y, train_size=n_train, stratify=y, random_state=seed)
    X_train, X_rest, y_train, y_rest = parts
    return model.fit(X_train, y_train).predict_proba(X_rest), np.eye(y.max() + 1, dtype=int)[y_rest]


def problems(cifar10h: Path | None) -> dict:
    """Functions of a seed that return probabilities and counts, by name."""
    found = {}
    for table, (load, n_train, names) in TABLES.items():
        X, y = load(return_X_y=True)
        for name in names:
            found[f"{table} {name}"] = lambda seed, a=(CLASSIFIERS[name], X, y, n_train): trained(
                *a, seed
            )
    for name, model in (("NB", MultinomialNB(alpha=0.1)), ("LR", LogisticRegression(max_iter=500))):
        found[f"modules {name}"] = lambda seed, model=model: trained(
            model, *module_text(), 1500, seed
        )
    if cifar10h is not None:
        with np.load(cifar10h) as file:
            votes = file["proba"], file["counts"]
        found["cifar10h"] = lambda seed: votes
    return found


def losses(proba, counts, n: int, seed: int) -> list[float]:
    """Raw log loss on the test rows, and that of each map fitted on n rows."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(proba))
    fit, test = order[:n], order[n:]
    z = np.maximum(proba, 1e-12)
    found = [label_log_loss(counts[test], (z / z.sum(axis=1, keepdims=True))[test])]
    for calibrator in MAPS.values():
        calibrator.fit(proba[fit], counts[fit])
        found.append(label_log_loss(counts[test], calibrator.predict_proba(proba[test])))
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--cifar10h", type=Path)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    names = ["raw", *MAPS]
    print("problem, rows".ljust(22) + "".join(name.rjust(16) for name in names))
    excess = {name: {} for name in names}
    for name, problem in problems(options.cifar10h).items():
        if options.only not in name:
            continue
        data = [problem(seed) for seed in range(options.splits)]
        for n in SIZES:
            # At least half of the rows are for testing.
            if 2 * n > len(data[0][0]):
                continue
            table = np.array([losses(*data[seed], n, seed) for seed in range(options.splits)])
            mean = table.mean(axis=0)
            away = table - table[:, [1]]
            error = 2 * away.std(axis=0, ddof=1) / np.sqrt(len(table))
            cells = [f"{m:9.4f} ±{e:.4f}" for m, e in zip(mean, error, strict=True)]
            print(f"{name}, {n}".ljust(22) + "".join(cell.rjust(16) for cell in cells), flush=True)
            least = min(mean[0], mean[1])
            for column, m in zip(names, mean, strict=True):
                excess[column].setdefault(n, []).append(m / least)
    print("\ngeometric mean and worst of the ratio to the better of raw and T")
    for n in SIZES:
        if n not in excess["raw"]:
            continue
        ratios = [np.array(excess[name][n]) for name in names]
        cells = [f"{np.exp(np.log(r).mean()):.3f}, {r.max():.3f}" for r in ratios]
        print(f"{n} rows".ljust(22) + "".join(cell.rjust(16) for cell in cells))


if __name__ == "__main__":
    main()
