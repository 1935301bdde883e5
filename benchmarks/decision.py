"""What calibration for decisions gains over the log loss, on the outputs of real classifiers; and
how long it takes.

    python benchmarks/decision.py [--splits 20] [--cifar10h FILE.npz] [--only NAME] [--time]

Each problem: repeated random splits into rows for training, calibration and test; costs drawn once
(exponential, none for the right class) but for some of them. Mean test risk without calibration,
with the least log loss (NLL), with `criterion="auto"`, with its best candidate where NLL is none
(safeguard=None), and of the best constant decision of the calibration rows; then auto less NLL,
paired by split, ± standard error over splits, and in brackets the one corrected for the rows that
splits share (Nadeau and Bengio 2003: variance × (1/splits + test rows / calibration rows)).
Calibration and test rows share out one set: where it is small, what looks better than it is on one
half looks worse than it is on the other. FILE.npz holds "counts" and "proba" of a trained network.
"""

import argparse
import sysconfig
import time
from functools import cache
from pathlib import Path

import numpy as np
import torch
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB
from sklearn.tree import DecisionTreeClassifier

from sklearn_lhcal._ground.costs import relative
from sklearn_lhcal.calibration import DecisionCalibration, TemperatureScaling
from sklearn_lhcal.calibration._affine import AffineModule, BiasCorrectedMap
from sklearn_lhcal.calibration._decision_search import (
    ITERATIONS,
    Rows,
    cost_scale,
    family_of,
    probabilities,
)
from sklearn_lhcal.metrics import bayes_decision, decision_risk, make_decision_scorer
from sklearn_lhcal.neural_network import DirectLoss


def costs(n_classes: int, seed: int = 0) -> np.ndarray:
    C = np.random.default_rng(seed).exponential(size=(n_classes, n_classes))
    np.fill_diagonal(C, 0)
    return C


def trained(model, X, y, train_size: int, seed: int):
    """Probabilities and counts of the rows that the model was not trained on."""
    X, rest, y, y_rest = train_test_split(
        X, y, train_size=train_size, stratify=y, random_state=seed
    )
    return clone(model).fit(X, y).predict_proba(rest), np.eye(len(np.unique(y)), dtype=int)[y_rest]


def digits(seed):
    """Gaussian naive Bayes on 300 digits."""
    X, y = load_digits(return_X_y=True)
    return trained(GaussianNB(var_smoothing=1e-3), X, y, 300, seed)


def wine(seed):
    """Gaussian naive Bayes on 4 features of 50 wines."""
    X, y = load_wine(return_X_y=True)
    return trained(GaussianNB(), X[:, :4], y, 50, seed)


def synthetic20(seed):
    """Gaussian naive Bayes, wrong for two clusters a class, 20 classes."""
    X, y = make_classification(
        6000, 30, n_informative=12, n_redundant=5, n_classes=20, flip_y=0.1, random_state=7
    )
    return trained(GaussianNB(), X, y, 2000, seed)


def words20(seed):
    """Multinomial naive Bayes on short texts of 20 kinds whose words come in bursts."""
    rng = np.random.default_rng(0)
    words = np.stack([rng.dirichlet(np.full(400, 0.5)) for _ in range(5)])
    words = np.stack([rng.dirichlet(400 * words[k % 5] + 1e-3) for k in range(20)])
    y = rng.integers(20, size=5500)
    X = np.stack(
        [rng.multinomial(rng.integers(10, 80), rng.dirichlet(20 * words[k] + 1e-4)) for k in y]
    )
    return trained(MultinomialNB(alpha=0.1), X, y, 1500, seed)


def breast_cancer(seed):
    """Gaussian naive Bayes on 30 correlated measurements; to treat, to test or to wait."""
    X, y = load_breast_cancer(return_X_y=True)
    return trained(GaussianNB(), X, y, 150, seed)


def tree20(seed):
    """A decision tree, leaves of 10 rows and more, on the 20 classes.

    Costs random for the right class too, squared.
    """
    X, y = make_classification(
        6000, 30, n_informative=12, n_redundant=5, n_classes=20, flip_y=0.1, random_state=7
    )
    return trained(DecisionTreeClassifier(min_samples_leaf=10, random_state=0), X, y, 2000, seed)


MODULES = (
    "argparse asyncio ctypes datetime email html http importlib inspect logging multiprocessing "
    "pickle subprocess tarfile tkinter turtle typing unittest urllib xml"
)


@cache
def snippets(lines: int, words: int):
    """Which frequent words (as counts) are in blocks of lines of Python's standard library.

    And of which module.
    """
    library, texts, y = Path(sysconfig.get_path("stdlib")), [], []
    for k, name in enumerate(MODULES.split()):
        files = [
            file
            for file in sorted((library / name).rglob("*.py"))
            if "test" not in file.relative_to(library).parts
        ]
        for file in files or [library / f"{name}.py"]:
            text = file.read_text(encoding="utf-8", errors="ignore").splitlines()
            found = [
                "\n".join(text[i : i + lines]) for i in range(0, len(text) - lines // 2, lines)
            ]
            texts, y = texts + found, y + [k] * len(found)
    words_of = CountVectorizer(max_features=words).set_params(**{"token_pattern": "[A-Za-z]{2,}"})
    return words_of.fit_transform(texts), np.array(y)


def text(model, lines: int, words: int, train_size: int, rows: int, seed: int):
    return (found[:rows] for found in trained(model, *snippets(lines, words), train_size, seed))


def text20(seed):
    """Bernoulli naive Bayes, 3000 words, from which module five lines of Python are.

    Costs as for `tree20`.
    """
    return text(BernoulliNB(), 5, 3000, 2000, 4000, seed)


def text20_forest(seed):
    """A forest of 20 flat trees, 3000 words, from which module twenty lines of Python are."""
    return text(RandomForestClassifier(20, max_depth=4, random_state=0), 20, 3000, 1600, 3000, seed)


def text20_counts(seed):
    """Multinomial naive Bayes, 50 words, from which module twenty lines of Python are."""
    return text(MultinomialNB(), 20, 50, 1600, 2000, seed)


SQUARED = np.random.default_rng(0).exponential(size=(20, 20)) ** 2
COSTS = {
    "breast_cancer": np.array([[0.0, 3.0, 50.0], [5.0, 1.0, 0.0]]),  # rows: malignant, benign
    "tree20": SQUARED,
    "text20": SQUARED,
}


def calibrated(scaling: str, C, z, y):
    """Decision functions of test probabilities.

    NLL, auto, and the best candidate without safeguard; what auto took.
    """
    free = DecisionCalibration("proba", C, scaling=scaling, safeguard=None).fit(z, y)
    nll = DecisionCalibration("proba", C, scaling=scaling, criterion="nll").fit(z, y)
    gain = free.risk_difference_
    auto = free if gain.estimate < -gain.standard_error else nll
    return {"nll": nll.decide, "auto": auto.decide, "best": free.decide}, auto.criterion_


def table(problem, scalings, splits: int) -> None:
    risks, taken = {s: [] for s in scalings}, {s: [] for s in scalings}
    for seed in range(splits):
        z, y = problem(seed)
        first, second = train_test_split(
            np.arange(len(z)), test_size=0.5, stratify=y.argmax(axis=1), random_state=seed
        )
        C = COSTS.get(problem.__name__, costs(z.shape[1]))
        for scaling in scalings:
            decide, criterion = calibrated(scaling, C, z[first], y[first])
            decide["none"] = lambda z, C=C: bayes_decision(z, C)
            share = (y[first] / y[first].sum(axis=1, keepdims=True)).mean(axis=0)
            constant = int((share @ C).argmin())
            decide["constant"] = lambda z, d=constant: np.full(len(z), d)
            risks[scaling].append(
                {k: decision_risk(y[second], d(z[second]), C) for k, d in decide.items()}
            )
            taken[scaling].append(criterion != "nll")
    print(
        f"{problem.__name__}: {problem.__doc__} {len(first)} rows calibrate, {z.shape[1]} classes."
    )
    for scaling in scalings:
        mean = {
            k: np.mean([r[k] for r in risks[scaling]])
            for k in ("none", "nll", "auto", "best", "constant")
        }
        d = np.array([r["auto"] - r["nll"] for r in risks[scaling]])
        spread = d.std(ddof=1) if splits > 1 else np.nan
        error, corrected = (
            spread / np.sqrt(splits),
            spread * np.sqrt(1 / splits + len(second) / len(first)),
        )
        print(
            f"  {scaling:15}" + "".join(f"{k} {v:.4f}   " for k, v in mean.items()),
            f"auto - nll {d.mean():+.4f} ± {error:.4f} ({corrected:.4f}), not NLL in "
            f"{sum(taken[scaling])} of {splits}",
            flush=True,
        )


class OneLoss(TemperatureScaling):
    """What a plain loop has.

    One loss of the library and one rate a fit, by autograd, no folds inside.
    """

    def __init__(self, cost_matrix=None, number=0):
        super().__init__("logits")
        self.cost_matrix = cost_matrix
        self.number = number

    def _shape(self, n_classes):
        return BiasCorrectedMap(n_classes)

    def _fit_map(self, logits, features, labels, weight, log_weights=None):
        super()._fit_map(logits, features, labels, weight)
        C = relative(self.cost_matrix) / relative(self.cost_matrix).max()
        rows = Rows(logits, None, labels.mu, np.ones(len(logits)))
        kappa = cost_scale(probabilities(self._fitted_shape, self._x, rows), C)
        params = family_of("auto", kappa).params[self.number]
        map_ = AffineModule(self._fitted_shape).double()
        map_.x.data = torch.as_tensor(self._x.copy())
        adam = torch.optim.Adam(map_.parameters(), lr=params["rate"])
        cosine = torch.optim.lr_scheduler.CosineAnnealingLR(adam, ITERATIONS)
        criterion = DirectLoss(C, params["lam"], params["beta"])
        u, y = torch.as_tensor(logits), torch.as_tensor(rows.y)
        for _ in range(ITERATIONS):
            adam.zero_grad()
            criterion(map_(u), y).backward()
            adam.step()
            cosine.step()
        self._x = map_.x.detach().numpy().copy()


def timing(n: int = 5000, n_classes: int = 10) -> None:
    """The nested search against a plain loop.

    GridSearchCV over the same losses, one fit after the other.
    """
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    u = 3 * rng.normal(size=(n, n_classes))
    y = (u / 1.5 + rng.gumbel(size=u.shape)).argmax(axis=1)
    C = costs(n_classes)
    ours = measured(lambda: DecisionCalibration("logits", C).fit(u, y))
    grid = {"number": list(range(len(family_of("auto", 1.0).params)))}
    search = GridSearchCV(
        OneLoss(C), grid, scoring=make_decision_scorer(C), cv=10, error_score="raise"
    )
    peer = measured(lambda: search.fit(u, y))
    print(
        f"n = {n}, K = {n_classes}, 10 folds, {len(grid['number'])} losses, seconds (of processors)"
    )
    print(f"nested search {ours}; GridSearchCV over the same losses, one after the other, {peer}")


def measured(function) -> str:
    wall, processors = time.perf_counter(), time.process_time()
    function()
    return f"{time.perf_counter() - wall:.1f} ({time.process_time() - processors:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description="Calibration for decisions against the log loss.")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--cifar10h", metavar="FILE", help='.npz with arrays "counts" and "proba"')
    parser.add_argument("--only", default="", help="part of the name of a problem")
    parser.add_argument("--scalings", default="temperature,bias_corrected,vector")
    parser.add_argument(
        "--time", action="store_true", help="the nested search against a plain loop, and no table"
    )
    options = parser.parse_args()
    if options.time:
        timing()
        return
    problems = [
        digits,
        wine,
        synthetic20,
        words20,
        breast_cancer,
        tree20,
        text20,
        text20_forest,
        text20_counts,
    ]
    if options.cifar10h:
        data = np.load(options.cifar10h)
        z, y = data["proba"] / data["proba"].sum(axis=1, keepdims=True), data["counts"].astype(int)

        def cifar10h(seed):
            """A convolutional network, about 51 raters a row."""
            return z, y

        problems.append(cifar10h)
    for problem in problems:
        if options.only in problem.__name__:
            table(problem, options.scalings.split(","), options.splits)


if __name__ == "__main__":
    main()
