"""What each map of class probabilities costs or gains on real data: held-out log loss.

    python benchmarks/maps.py [--splits 20] [--rows 50 200 1000 5000] [--only PART_OF_A_NAME]
                              [--cifar10h FILE.npz] [--votes | --aside] [--keep FILE.jsonl]
                              [--table FILE.csv]

Each problem: repeated random splits into samples for training, calibration and test. A row of the
table is a problem and a number of calibration samples; a column is a map. Shown is the mean log
loss per label of the test samples, nats, and behind ± two standard errors of its difference from
that of temperature scaling, paired by split. Raw probabilities are clipped at 1e-12. FILE.npz holds
"counts" of human labels and "proba" of a trained network; a map is fitted on one drawn label a
sample.

``--votes``: six problems with 5 to 100 labels a sample and two of a medical kind, by simulated
readers: each draws from what cross-validated models say, at a temperature of 1.5 and with 3% of
guesses. The classifier is trained on one label a sample, all labels calibrate. ``--aside``: four
problems that were set aside before any result was seen. FILE.jsonl keeps the loss of each split;
what it holds is not computed again, and all of it is shown. FILE.csv gets the mean losses.

Peers, where they are installed: structured vector and matrix scaling of probmetrics ("svs", "sms"),
scikit-learn's three methods ("sigmoid", "isotonic", "sk T"), beta calibration of betacal, of more
classes one against the rest ("beta"), and Venn–Abers predictors of venn-abers, inductive for two
classes and pairwise for more ("VA"). A peer takes no labels: it gets a row for each of up to 20.
Then come the bounds that our maps must keep, each case that breaks one, geometric means over the
problems, and how long a fit takes: CPU seconds with one thread of BLAS and of torch, which do not
depend on what else the machine does.
"""

import argparse
import csv
import json
import sysconfig
import time
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import sklearn
import torch
from lib.peers import BETA, HAS_PROBMETRICS, SKLEARN, VENN_ABERS, fitted_peer
from lib.problems import cancer, digits, health, in_groups, marriage, mnist, party, visits
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
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from sklearn_lhcal.calibration import (
    BiasCorrectedTemperatureScaling,
    MatrixScaling,
    StackedCalibration,
    TemperatureScaling,
    VectorScaling,
)
from sklearn_lhcal.metrics import label_log_loss

SIZES = (50, 200, 1000, 5000)
MAPS = {
    "T": TemperatureScaling("proba", mixing=None),
    "BC": BiasCorrectedTemperatureScaling("proba", mixing=None),
    "vector": VectorScaling("proba", mixing=None),
    "matrix": MatrixScaling("proba", mixing=None),
    "T mixing": TemperatureScaling("proba", mixing="uniform"),
    "BC mixing": BiasCorrectedTemperatureScaling("proba", mixing="uniform"),
    "vec mixing": VectorScaling("proba", mixing="uniform"),
    "mat mixing": MatrixScaling("proba", mixing="uniform"),
    "stack": StackedCalibration("proba"),
}
PROBMETRICS = ("svs", "sms") if HAS_PROBMETRICS else ()
PEERS = (*PROBMETRICS, *SKLEARN, *BETA, *VENN_ABERS)
# Labels of a sample that a peer sees, and test samples.
MOST_VOTES = 20
MOST_TESTED = 5_000
NAMES = ["raw", *MAPS, *PEERS]
LOGISTIC = make_pipeline(StandardScaler(), LogisticRegression(C=10.0, max_iter=2000))
FOREST = RandomForestClassifier(100, random_state=0)
CLASSIFIERS = {
    "LR": LOGISTIC,
    "forest": FOREST,
    "NB": GaussianNB(),
    "kNN": KNeighborsClassifier(10),
    "boosting": HistGradientBoostingClassifier(max_iter=30, random_state=0),
    "net": MLPClassifier((50,), early_stopping=True, max_iter=60, random_state=0),
}


def like_covertype():
    """Seven classes, the largest half of all samples, and labels of which 3% are wrong."""
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
    """As many samples a class as training and calibration on some thousands leave: few."""
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


def rare_class():
    """Two classes, the second with 6% of all samples."""
    return make_classification(
        4_000, n_features=10, n_informative=5, weights=[0.95], flip_y=0.02, random_state=1
    )


TABLES = {
    "digits": (load_digits, 300, ("LR", "forest", "NB", "kNN")),
    "wine": (load_wine, 50, ("LR", "NB")),
    "cancer": (load_breast_cancer, 100, ("LR", "forest", "NB")),
    "iris": (load_iris, 40, ("LR", "forest")),
    "seven": (like_covertype, 2_000, ("LR", "forest", "boosting")),
    "mnist": (mnist, 1_000, ("forest", "net")),
}
MADE = ("seven", "hundred", "mnist", "rare")
# Not among those whose means are shown, unless named: --only hundred, --only rare.
NAMED = {"hundred": (hundred_classes, 8_000, ("LR",)), "rare": (rare_class, 500, ("LR", "NB"))}
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
    "vector with mixing, up to 10 classes": (2, 10, "vec mixing", "vec mixing", "svs"),
    "vector, mixing for zeros, up to 10 classes": (2, 10, "vector", "vec mixing", "svs"),
    "vector, more classes": (11, 1000, "vector", "vector", "svs"),
    "vector with mixing, more classes": (11, 1000, "vec mixing", "vec mixing", "svs"),
    "matrix": (2, 1000, "matrix", "matrix", "sms"),
    "matrix around temperature with mixing": (2, 1000, "mat mixing", "mat mixing", "sms"),
}
RATIOS = {
    **{f"{name} / better of raw and T": ((name,), BEST) for name in MAPS},
    **{f"{name} / better of raw and T": ((name,), BEST) for name in PEERS},
    "vector / svs": (("vector",), ("svs",)),
    "vector with mixing / svs": (("vec mixing",), ("svs",)),
    "matrix / sms": (("matrix",), ("sms",)),
    "matrix with mixing / sms": (("mat mixing",), ("sms",)),
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


def text_in_five():
    return in_groups(module_text, 5)


def source_in_five():
    return in_groups(package_text, 5)


# name: data, classifier, samples for training, labels a sample, and whose cross-validated
# probabilities readers draw from
VOTES = {
    "digits NB, 5": (digits, GaussianNB(var_smoothing=1e-3), 300, 5, LOGISTIC),
    "marriage LR, 5": (marriage, LOGISTIC, 500, 5, FOREST),
    "mnist forest, 10": (mnist, FOREST, 1000, 10, LOGISTIC),
    "seven boosting, 20": (like_covertype, CLASSIFIERS["boosting"], 2000, 20, FOREST),
    "modules LR, 50": (module_text, LogisticRegression(max_iter=300), 1500, 50, MultinomialNB()),
    "text NB, 100": (text_in_five, MultinomialNB(alpha=0.1), 600, 100, LogisticRegression()),
    "health boosting, 5": (health, CLASSIFIERS["boosting"], 1000, 5, LOGISTIC),
    "cancer forest, 7": (cancer, FOREST, 60, 7, LOGISTIC),
}
ASIDE = {
    "visits NB, 5": (visits, GaussianNB(), 1000, 5, CLASSIFIERS["boosting"]),
    "party LR": (party, LOGISTIC, 200, None, None),
    "digits kNN, 20": (digits, KNeighborsClassifier(10), 300, 20, LOGISTIC),
    "source LR": (source_in_five, LogisticRegression(max_iter=300), 1000, None, None),
}


def trained(model, X, y, n_train: int, seed: int):
    """Probabilities and one-hot labels of the samples that the model was not trained on."""
    parts = train_test_split(X, y, train_size=n_train, stratify=y, random_state=seed)
    X_train, X_rest, y_train, y_rest = parts
    return model.fit(X_train, y_train).predict_proba(X_rest), np.eye(y.max() + 1, dtype=int)[y_rest]


@cache
def what_readers_see(name: str):
    """X, labels, and the probabilities of each reader's vote; None where there is one label."""
    load, _, _, votes, reader = (VOTES | ASIDE)[name]
    X, y = load()
    if votes is None:
        return X, y, None
    Q = cross_val_predict(reader, X, y, cv=5, method="predict_proba")
    Q = np.maximum(Q, 1e-12) ** (1 / 1.5)
    Q /= Q.sum(axis=1, keepdims=True)
    return X, y, 0.97 * Q + 0.03 / Q.shape[1]


def voted(name: str, seed: int):
    """Probabilities and labels of the samples that the model was not trained on."""
    _, model, n_train, votes, _ = (VOTES | ASIDE)[name]
    X, y, Q = what_readers_see(name)
    if votes is None:
        return trained(model, X, y, n_train, seed)
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(votes, Q)
    # one label a sample, for training
    own = (Q.cumsum(axis=1) < rng.random((len(Q), 1))).sum(axis=1).clip(max=Q.shape[1] - 1)
    parts = train_test_split(np.arange(len(y)), train_size=n_train, stratify=y, random_state=seed)
    train, rest = parts
    model.fit(X[train], own[train])
    proba = np.zeros((len(rest), Q.shape[1]))
    proba[:, model.classes_] = model.predict_proba(X[rest])
    return proba, counts[rest]


def drawn(proba, counts, seed: int):
    """One label of each sample, one-hot."""
    return proba, np.random.default_rng(seed).multinomial(1, counts / counts.sum(axis=1)[:, None])


def problems(cifar10h: Path | None, only: str, voters: dict | None = None) -> dict:
    """Functions of a seed that return probabilities and labels, by name."""
    if voters is not None:
        return {name: lambda seed, name=name: voted(name, seed) for name in voters}
    found = {}
    tables = {only: NAMED[only]} if only in NAMED else TABLES
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


def fitted(name: str, proba, counts, seed: int):
    """A function of probabilities, the map of that name."""
    if name in MAPS:
        return MAPS[name].fit(proba, counts).predict_proba
    proba, labels = one_label_a_row(proba, counts, seed)
    return fitted_peer(name, proba, labels)


def one_label_a_row(proba, counts, seed: int):
    """Rows repeated for each label, of which a sample keeps some."""
    if counts.sum(axis=1).max() > MOST_VOTES:
        rng = np.random.default_rng(seed)
        counts = np.array([rng.multivariate_hypergeometric(c, MOST_VOTES) for c in counts])
    i, k = np.nonzero(counts)
    return proba[np.repeat(i, counts[i, k])], np.repeat(k, counts[i, k])


def losses(proba, labels, n: int, seed: int):
    """Test log loss, raw and of each map fitted on n samples, and seconds of each fit."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(proba))
    fit, test = order[:n], order[n:][:MOST_TESTED]
    z = np.maximum(proba, 1e-12)
    found = {"raw": label_log_loss(labels[test], (z / z.sum(axis=1, keepdims=True))[test])}
    seconds = {"raw": 0.0}
    # Only with all classes: a peer has no other.
    for name in NAMES[1:]:
        begin = time.process_time()
        try:
            predict = fitted(name, proba[fit], labels[fit], seed)
            spent = time.process_time() - begin
            q = np.asarray(predict(proba[test]), dtype=np.float64)
            q = np.maximum(q, 1e-12)
            if q.shape != proba[test].shape or not np.isfinite(q).all():
                raise ValueError("a class is missing")
        except (ValueError, AssertionError, IndexError):
            if name in MAPS:
                raise
            continue
        seconds[name] = spent
        found[name] = label_log_loss(labels[test], q / q.sum(axis=1, keepdims=True))
    return found, seconds


def records(options) -> list[dict]:
    """What was found of each problem, calibration size and split; new ones are kept."""
    kept = {}
    if options.keep is not None and options.keep.exists():
        lines = options.keep.read_text(encoding="utf-8").splitlines()
        kept = {(one["problem"], one["n"], one["seed"]): one for one in map(json.loads, lines)}
    voters = (options.votes and VOTES) or (options.aside and ASIDE) or None
    for name, problem in problems(options.cifar10h, options.only, voters).items():
        if options.only not in name:
            continue
        for seed in range(options.splits):
            if all((name, n, seed) in kept for n in options.rows):
                continue
            proba, labels = problem(seed)
            for n in options.rows:
                if (name, n, seed) in kept:
                    continue
                one = {"problem": name, "n": n, "seed": seed, "classes": proba.shape[1]}
                # At least half of the samples are for testing.
                if 2 * n <= len(proba):
                    one["zeros"] = float((proba < 1e-12).mean())
                    one["loss"], one["seconds"] = losses(proba, labels, n, seed)
                kept[name, n, seed] = one
                if options.keep is not None:
                    with options.keep.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(one) + "\n")
    return [one for one in kept.values() if "loss" in one and options.only in one["problem"]]


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


def print_means(means: dict) -> None:
    """Of the problems that all maps were fitted on, and of those that one peer more was."""
    print("\nmean log loss over problems, of which a peer may miss some")
    for n, rows in means.items():
        rows = np.array(rows)
        if len(rows):
            for name, column in zip(NAMES, rows.T, strict=True):
                has = np.isfinite(column)
                of_stack = rows[has, NAMES.index("stack")].mean() if has.any() else np.nan
                print(
                    f"  {n} rows, {has.sum()} problems: {name:10}{column[has].mean():.4f}, "
                    f"stack there {of_stack:.4f}"
                )


def write_table(path: Path, cells: list) -> None:
    """A line of each problem and number of samples."""
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["problem", "rows", "splits", *NAMES])
        for name, n, splits, mean in cells:
            shown = ["" if np.isnan(m) else f"{m:.4f}" for m in mean]
            out.writerow([name, n, splits, *shown])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--rows", type=int, nargs="+", default=SIZES)
    parser.add_argument("--cifar10h", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--votes", action="store_true")
    parser.add_argument("--aside", action="store_true")
    parser.add_argument("--keep", type=Path, metavar="FILE")
    parser.add_argument("--table", type=Path, metavar="FILE")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    threadpool_limits(1)
    torch.set_num_threads(1)
    print("problem, rows".ljust(22) + "".join(name.rjust(16) for name in NAMES))
    # By number of samples: a list over problems of mean losses (maps,), and of median seconds.
    means = {n: [] for n in options.rows}
    times = {n: [] for n in options.rows}
    # Whether the classifier prints zeros.
    zeros = {n: [] for n in options.rows}
    classes = {n: [] for n in options.rows}
    broken = []
    # Name, number of samples and of splits, mean losses.
    cells_of = []
    found = records(options)
    for name, n in dict.fromkeys((one["problem"], one["n"]) for one in found):
        runs = [one for one in found if (one["problem"], one["n"]) == (name, n)]
        table = np.array([[one["loss"].get(m, np.nan) for m in NAMES] for one in runs])
        # a peer that was refused half of the splits is left out
        mean = np.where(np.isnan(table).mean(axis=0) > 0.5, np.nan, np.nanmean(table, axis=0))
        error = 2 * np.nanstd(table - table[:, [1]], axis=0, ddof=1) / np.sqrt(len(table))
        cells = [f"{m:9.4f} ±{e:.4f}" for m, e in zip(mean, error, strict=True)]
        print(f"{name}, {n}".ljust(22) + "".join(cell.rjust(16) for cell in cells), flush=True)
        means[n].append(mean)
        zeros[n].append(np.mean([one["zeros"] for one in runs]) > ZEROS)
        seconds = [[one["seconds"].get(m, np.nan) for m in NAMES] for one in runs]
        times[n].append(np.nanmedian(seconds, axis=0))
        classes[n].append(runs[0]["classes"])
        cells_of.append((name, n, len(runs), mean))
        lost = table[:, NAMES.index("stack")] - table[:, [0, 1]].T
        least = lost[np.argmax(lost.mean(axis=1))]
        if least.mean() > max(0.003, 2 * least.std(ddof=1) / np.sqrt(len(least))):
            broken.append(f"{name}, {n}: stack over raw or T by {least.mean():.4f} nats")
        most = bound(n, mean, error)
        for column in range(1, 1 + len(MAPS)):
            if mean[column] > most[column]:
                excess = mean[column] - most[column]
                broken.append(f"{name}, {n}: {NAMES[column]} by {excess:.4f} nats")
    print_means(means)
    if options.table is not None:
        write_table(options.table, cells_of)
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
    for ours, with_mixing, peer in (
        ("vector", "vec mixing", "svs"),
        ("matrix", "mat mixing", "sms"),
    ):
        print(f"{ours}, with mixing where the classifier prints zeros / {peer}")
        for n in options.rows:
            own = [
                m[NAMES.index(with_mixing if printed else ours)]
                for m, printed in zip(means[n], zeros[n], strict=True)
            ]
            ratios = np.divide(own, [m[NAMES.index(peer)] for m in means[n]])
            print(f"  {n} rows, {len(ratios)} problems: {geometric(ratios)}")
    print("seconds of a fit over those of the peer, geometric mean over problems")
    for title, (least, most, ours, with_mixing, peer) in TIMES.items():
        print(title)
        for n in options.rows:
            ratios = [
                t[NAMES.index(with_mixing if printed else ours)] / t[NAMES.index(peer)]
                for t, K, printed in zip(times[n], classes[n], zeros[n], strict=True)
                if least <= K <= most
            ]
            if np.isfinite(ratios).any():
                print(f"  {n} rows, {len(ratios)} problems: {geometric(ratios)}")


if __name__ == "__main__":
    main()
