"""What a calibrator should be fitted with: which likelihood, which output of an ensemble, how many
samples.

    python benchmarks/calibrators.py likelihood [--draws 5] [--cifar10h FILE.npz]
    python benchmarks/calibrators.py ensembles [--draws 3]
    python benchmarks/calibrators.py folds [--draws 3]
    python benchmarks/calibrators.py rows [--draws 20]
    python benchmarks/calibrators.py around [--draws 10]
    python benchmarks/calibrators.py subgroups|mended [--draws 30]
    python benchmarks/calibrators.py peers [--sets peers|aside] [--draws 5] [--keep FILE.jsonl]
                                           [--again METHOD ...] [--cells FOLDER] [--table FILE.csv]

"likelihood": data sets by raters per calibration sample. Epistemic loss after one label (smaller is
better), mean over random halves for calibration, and the standard error of the paired difference.
The file holds arrays `counts` and `proba`, human label histograms and a network's probabilities. It
takes two minutes on one core.

"ensembles": calibrators around ensembles, on 1,000 digits in five folds, and the rest for the test.
Printed: mean log losses of the ensemble, a sigmoid, and our methods around the ensemble over
splits; and the largest difference from the same methods on saved out-of-fold probabilities.

"folds": the stacked calibrator around boosters and others, which keeps a fit on all samples, or the
folds' fits (``ensemble=True``), and scikit-learn's default, a sigmoid for each fold. Four simulated
designs, 500 and 4,000 training samples, 10,000 for the test; breast cancer and digits, half for the
test. Printed: log loss of the ensemble divided by that of either of the others, geometric means;
and, after a fit on all samples and of the ensemble, the mean probability of the last class divided
by its rate in the test, and the factor of the log-probabilities that has the least loss there,
above 1 where they are underconfident.

"rows": how many samples a number needs: those at which its 95% interval is narrow enough, and those
from which a calibrator helps. Three problems with known class probabilities: simulated samples of 3
and of 10 classes, overconfident, and mixed digits under logistic regression, drawn with
replacement. Raters are drawn anew each time. For means over samples the half-width falls as 1/√n,
so it is measured at 1,000 samples. A calibration error is measured on predictions that are
calibrated: the samples at which the upper end of its interval is below 0.1 in the median draw. For
a calibrator: the samples with which it lowered its loss on 5,000 other samples, in 19 of 20 draws
or more; "-" says that it did not for any number of samples up to 2,000.

"around": what `AlphaCalibration` is fitted around: a classifier as it is, a temperature, or the
stacked calibrator. The eight problems with several labels of ``maps.py --votes``, 100 and 500
calibration samples, splits from the hundredth on. Printed: the disagreement loss around the stacked
calibrator minus that around each of the others, on test samples, with standard errors.

"subgroups" and "mended": whether calibration of each subgroup mends what an audit finds; designs
are in ``lib/subgroup_maps.py``.

"peers": the stacked calibrator beside simpler ones and those of other packages, on 16 data sets;
``lib/peer_table.py`` says what is shown, ``lib/peer_sets.py`` how the sets were chosen.
"""

import argparse
import warnings
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
from lib import peer_table, subgroup_maps
from lib.peer_sets import LISTS
from maps import VOTES, voted
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_lhcal.calibration import (
    AlphaCalibration,
    BiasCorrectedTemperatureScaling,
    StackedCalibration,
    TemperatureScaling,
    VectorScaling,
)
from sklearn_lhcal.datasets import load_mixed_digits, make_label_histograms
from sklearn_lhcal.distributions import Dirichlet, PointMass, predict_dist
from sklearn_lhcal.metrics import (
    calibration_error,
    confidence_interval,
    disagreement_calibration_error,
    disagreement_squared_loss,
    epistemic_loss,
    expected_accuracy,
    expected_squared_loss,
    irreducible_loss,
    label_log_loss,
    posterior_epistemic_loss,
)

# --- which likelihood of α ---

RATERS = (2, 5, 20, 50)
LIKELIHOODS = ("pairwise", "dirichlet_multinomial")


def synthetic(n_classes, total, overconfidence):
    data = make_label_histograms(
        4000, n_classes, total=total, overconfidence=overconfidence, random_state=0
    )
    return data.prediction, data.proba


def uneven():
    """α0 varies over samples by a factor of 100, and the calibrator cannot see by what."""
    total = np.exp(np.random.default_rng(0).normal(size=4000) * 1.2 + 1)
    data = make_label_histograms(4000, 5, total=total, overconfidence=1.5, random_state=0)
    return data.prediction, data.proba


def digits(classifier):
    data = load_mixed_digits(raters=50)
    model = make_pipeline(PCA(20), classifier).fit(data.X_train, data.counts_train.argmax(axis=1))
    X, counts = (
        np.vstack([data.X_validation, data.X_test]),
        np.vstack([data.counts_validation, data.counts_test]),
    )
    return model.predict_proba(X), counts / counts.sum(axis=1, keepdims=True)


def data_sets(path):
    yield "synthetic, 3 classes, α0 = 10", synthetic(3, 10.0, 2.0)
    yield "synthetic, 10 classes, α0 = 2", synthetic(10, 2.0, 1.5)
    yield "synthetic, 5 classes, α0 uneven", uneven()
    yield "mixed digits, logistic regression", digits(LogisticRegression(max_iter=5000))
    yield "mixed digits, naive Bayes", digits(GaussianNB())
    if path is not None:
        with np.load(path) as file:
            yield (
                "CIFAR-10H, network",
                (file["proba"], file["counts"] / file["counts"].sum(axis=1, keepdims=True)),
            )


def compare(z, q, raters, n_splits):
    """Losses of both likelihoods on each split, shape (n_splits, 2 metrics, 2 likelihoods)."""
    losses = []
    for seed in range(n_splits):
        rng = np.random.default_rng(seed)
        rows = rng.permutation(len(z))
        fit, test = rows[: len(z) // 2], rows[len(z) // 2 :]
        counts, test_counts = rng.multinomial(raters, q[fit]), rng.multinomial(50, q[test])
        scaled = TemperatureScaling("proba").fit(z[fit], counts)
        dists = [
            predict_dist(AlphaCalibration(scaled, likelihood=v).fit(z[fit], counts), z[test])
            for v in LIKELIHOODS
        ]
        metrics = (posterior_epistemic_loss, disagreement_squared_loss)
        losses.append([[metric(test_counts, dist) for dist in dists] for metric in metrics])
    return np.array(losses)


def likelihood(draws: int, options) -> None:
    # Of labels to which naive Bayes gives no probability.
    warnings.simplefilter("ignore", UserWarning)
    print(
        f"{'':36}{'raters':>7}"
        + "".join(f"{name:>43}" for name in ("loss after one label", "disagreement loss"))
    )
    print(f"{'':43}" + f"{'pairwise':>12}{'Dir.-mult.':>12}{'difference':>19}" * 2)
    for name, (z, q) in data_sets(options.cifar10h):
        for raters in RATERS:
            losses = compare(z, q, raters, draws)
            line = f"{name:36}{raters:7d}"
            for pair in np.moveaxis(losses, 1, 0):
                d = pair[:, 0] - pair[:, 1]
                line += f"{pair[:, 0].mean():12.4f}{pair[:, 1].mean():12.4f}"
                line += f"{d.mean():+10.4f} ± {d.std(ddof=1) / np.sqrt(len(d)):.4f}"
            print(line, flush=True)


# --- around an ensemble ---

VOTERS = [
    ("logistic regression", LogisticRegression(max_iter=300)),
    ("forest", RandomForestClassifier(30, random_state=0)),
    ("extra trees", ExtraTreesClassifier(10, random_state=0)),
]
ENSEMBLES = {
    "forest of 100": RandomForestClassifier(100, random_state=0),
    "100 extra trees": ExtraTreesClassifier(100, random_state=0),
    "50 bagged trees": BaggingClassifier(n_estimators=50, random_state=0),
    "soft voting": VotingClassifier(VOTERS, voting="soft"),
}
METHODS = {
    "temperature": TemperatureScaling,
    "bias-corrected": BiasCorrectedTemperatureScaling,
    "vector": VectorScaling,
    "stacked": StackedCalibration,
}


def around_ensemble(model, seed: int) -> tuple[list[float], float]:
    """Log losses of test samples, and the largest difference from saved probabilities."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, train_size=1000, stratify=y, random_state=seed)
    proba = model.fit(X, y).predict_proba(X_test)
    saved = cross_val_predict(model, X, y, cv=5, method="predict_proba")
    sigmoid = CalibratedClassifierCV(model, cv=5, ensemble=False).fit(X, y)

    def loss(p):
        p = np.maximum(p, 1e-7)
        return label_log_loss(y_test, p / p.sum(axis=1, keepdims=True))

    losses, away = [loss(proba), loss(sigmoid.predict_proba(X_test))], 0.0
    for method in METHODS.values():
        losses.append(loss(method(model).fit(X, y).predict_proba(X_test)))
        again = loss(method("proba").fit(saved, y).predict_proba(proba))
        away = max(away, abs(losses[-1] - again))
    return losses, away


def ensembles(draws: int, _) -> None:
    print(",".join(["ensemble", "itself", "sigmoid", *METHODS, "away from saved"]))
    for name, model in ENSEMBLES.items():
        losses, away = zip(*(around_ensemble(model, seed) for seed in range(draws)), strict=True)
        cells = (f"{loss:.3f}" for loss in np.mean(losses, axis=0))
        print(",".join([name, *cells, f"{max(away):.1e}"]), flush=True)


# --- the folds' fits, or one on all samples ---

RARE = {"weights": [0.96], "n_informative": 4}
THREE = {"n_classes": 3, "weights": [0.88, 0.09], "n_informative": 6}
DESIGNS = {
    "4% of two classes": lambda n, seed: made(n, seed, **RARE),
    "3% of three classes": lambda n, seed: made(n, seed, **THREE),
    "two even classes, 20% mislabelled": lambda n, seed: made(n, seed, n_informative=5, flip_y=0.2),
    "2% by a weak logistic model": lambda n, seed: weak(n, seed),
    "breast cancer": lambda n, seed: halves(load_breast_cancer, n, seed),
    "digits": lambda n, seed: halves(load_digits, n, seed),
}
MODELS = {
    "boosting": HistGradientBoostingClassifier(random_state=0),
    "boosting, early stopping": HistGradientBoostingClassifier(random_state=0, early_stopping=True),
    "forest": RandomForestClassifier(100, random_state=0),
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
}


def made(n: int, seed: int, **how):
    X, y = make_classification(n + 10_000, random_state=seed, **how)
    return X[:n], X[n:], y[:n], y[n:]


def weak(n: int, seed: int):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 10_000, 20))
    y = (rng.random(len(X)) < 1 / (1 + np.exp(4.2 - X[:, 0] - X[:, 1] / 2))).astype(int)
    return X[:n], X[n:], y[:n], y[n:]


def halves(load, n: int, seed: int):
    # of few samples there is one size
    X, y = load(return_X_y=True)
    return None if n > 500 else train_test_split(X, y, test_size=0.5, stratify=y, random_state=seed)


def sharpness(p, y) -> float:
    """The factor of log-probabilities that has the least log loss."""
    u = np.log(np.maximum(p, 1e-12))
    found = minimize_scalar(lambda s: label_log_loss(y, softmax(s * u, axis=1)), (0.5, 2.0))
    return float(found.x)


def folds(draws: int, _) -> None:
    print(
        'data,training samples,classifier,"loss, ensemble : one fit","loss, ensemble : '
        'scikit-learn","rate, one fit","rate, ensemble","factor, one fit","factor, ensemble"'
    )
    for (design, data), n in product(DESIGNS.items(), (500, 4000)):
        for name, model in MODELS.items():
            losses, rates, factors = [], [], []
            for seed in range(100, 100 + draws):
                if (drawn := data(n, seed)) is None:
                    continue
                X, X_test, y, y_test = drawn
                ours = [StackedCalibration(model, ensemble=kept) for kept in (False, True)]
                found = [
                    m.fit(X, y).predict_proba(X_test)
                    for m in (*ours, CalibratedClassifierCV(model))
                ]
                losses.append([label_log_loss(y_test, p) for p in found])
                rates.append([p[:, -1].mean() / (y_test == y.max()).mean() for p in found[:2]])
                factors.append([sharpness(p, y_test) for p in found[:2]])
            if losses:
                one, kept, theirs = np.log(losses).mean(axis=0)
                cells = [f"{np.exp(kept - other):.3f}" for other in (one, theirs)]
                cells += [f"{cell:.2f}" for cell in np.mean([rates, factors], axis=1).ravel()]
                print(f'"{design}",{len(y)},"{name}",{",".join(cells)}', flush=True)


# --- how many samples ---

SIZES = (50, 100, 200, 500, 1000, 2000, 5000)
MEANS = {expected_accuracy: 0.05, expected_squared_loss: 0.05}
MEANS |= {irreducible_loss: 0.05, epistemic_loss: 0.05}


@cache
def pool(problem: str):
    """True class probabilities Q and predictions z of many samples."""
    if problem == "digits":
        data = load_mixed_digits()
        model = LogisticRegression(max_iter=1000)
        model.fit(data.X_train, data.counts_train.argmax(axis=1))
        X = np.concatenate([data.X_validation, data.X_test])
        Q = np.concatenate([data.proba_validation, data.proba_test])
        return Q, model.predict_proba(X)
    n_classes = int(problem)
    data = make_label_histograms(
        40_000, n_classes, 1, total=3.0, overconfidence=1.5, random_state=0
    )
    return data.proba, data.prediction


def draw(problem: str, n: int, m: int, rng):
    """Counts of m raters and predictions of n samples."""
    Q, z = pool(problem)
    rows = rng.integers(len(z), size=n)
    return rng.multinomial(m, Q[rows] / Q[rows].sum(axis=1, keepdims=True)), z[rows]


def rows_of_mean(metric, width: float, problem: str, m: int, draws: int) -> int:
    """Samples for which half the interval is `width` wide."""
    found = []
    for seed in range(draws):
        y, z = draw(problem, 1000, m, np.random.default_rng(seed))
        prediction = None if metric is irreducible_loss else z
        interval = confidence_interval(metric, y, prediction, random_state=0)
        found.append((interval.high - interval.low) / 2)
    return int(np.ceil(1000 * (np.median(found) / width) ** 2))


def rows_of_error(metric, n_classes: int, m: int, draws: int) -> int | None:
    """Samples at which the interval of a calibrated prediction ends below 0.1."""
    for n in SIZES:
        ends = []
        for seed in range(draws):
            data = make_label_histograms(n, n_classes, m, total=3.0, random_state=seed)
            prediction = Dirichlet.from_mean(data.prediction, data.total)
            ends.append(confidence_interval(metric, data.counts, prediction, random_state=0).high)
        if np.median(ends) < 0.1:
            return n
    return None


def rows_of_map(make, before, loss, problem: str, m: int, draws: int) -> int | str:
    """Samples with which a calibrator lowers the loss, from there on."""
    Q, z = pool(problem)
    test = np.random.default_rng(0).integers(len(z), size=5000)
    y_test = np.random.default_rng(1).multinomial(20, Q[test] / Q[test].sum(1, keepdims=True))
    enough: int | str = "-"
    for n in reversed([size for size in SIZES if size <= 2000]):
        better = 0
        for seed in range(draws):
            y, proba = draw(problem, n, m, np.random.default_rng(seed))
            gained = loss(y_test, before(proba, y, z[test])) - loss(
                y_test, make().fit(proba, y).predict_dist(z[test])
            )
            better += gained > 0
        if better < 0.95 * draws:
            return enough
        enough = n
    return f"{enough} or fewer"


def scaled(proba, y, z):
    return TemperatureScaling("proba").fit(proba, y).predict_dist(z)


def raw(proba, y, z):
    return PointMass(z)


def rows(draws: int, _) -> None:
    warnings.simplefilter("ignore")
    for metric, width in MEANS.items():
        for m in (1, 2, 5):
            if m == 1 and metric in (irreducible_loss, epistemic_loss):
                continue
            found = [rows_of_mean(metric, width, p, m, draws) for p in ("3", "10", "digits")]
            print(f"{metric.__name__:32} {m} raters, ± {width}: {found}", flush=True)
    for metric in (calibration_error, disagreement_calibration_error):
        for m in (1, 2, 5)[metric is disagreement_calibration_error :]:
            found = [rows_of_error(metric, K, m, draws) for K in (3, 10)]
            print(f"{metric.__name__:32} {m} raters: {found}", flush=True)
    for m in (1, 2, 5):
        found = [
            rows_of_map(lambda: TemperatureScaling("proba"), raw, label_log_loss, p, m, draws)
            for p in ("3", "10", "digits")
        ]
        print(f"temperature                      {m} raters: {found}", flush=True)
    for m in (2, 5):
        found = [
            rows_of_map(
                lambda: AlphaCalibration(TemperatureScaling("proba")),
                scaled,
                disagreement_squared_loss,
                p,
                m,
                draws,
            )
            for p in ("3", "10", "digits")
        ]
        print(f"alpha                            {m} raters: {found}", flush=True)


def around(draws: int, _) -> None:
    # Of infinite α0, and of labels to which a classifier gives no probability.
    warnings.simplefilter("ignore", UserWarning)
    inner = ("proba", TemperatureScaling("proba"), StackedCalibration("proba"))
    print("problem,samples,minus classifier as it is,minus temperature")
    for name in VOTES:
        for n in (100, 500):
            losses = []
            for seed in range(100, 100 + draws):
                proba, counts = voted(name, seed)
                order = np.random.default_rng(seed).permutation(len(proba))
                fit, test = order[:n], order[n:][:3000]
                if len(test) < 100:
                    break
                dists = [
                    AlphaCalibration(one).fit(proba[fit], counts[fit]).predict_dist(proba[test])
                    for one in inner
                ]
                losses.append([disagreement_squared_loss(counts[test], dist) for dist in dists])
            if losses:
                *others, stack = np.transpose(losses)
                found = [stack - other for other in others]
                cells = [f"{d.mean():+.4f} ± {d.std(ddof=1) / np.sqrt(draws):.4f}" for d in found]
                line = ",".join([f'"{name}"', str(n), *cells])
                print(line.replace("-0", "−0"), flush=True)


STUDIES = {
    "likelihood": (likelihood, 5),
    "ensembles": (ensembles, 3),
    "folds": (folds, 3),
    "rows": (rows, 20),
    "around": (around, 10),
    "subgroups": (subgroup_maps.subgroups, 30),
    "mended": (subgroup_maps.mended, 30),
    "peers": (peer_table.peers, 5),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--draws", type=int)
    parser.add_argument("--cifar10h", type=Path, metavar="FILE")
    parser.add_argument("--sets", choices=LISTS, default="peers")
    parser.add_argument("--keep", type=Path, metavar="FILE")
    parser.add_argument("--again", nargs="+", default=[], metavar="METHOD")
    parser.add_argument("--cells", type=Path, metavar="FOLDER")
    parser.add_argument("--table", type=Path, metavar="FILE")
    options = parser.parse_args()
    run, draws = STUDIES[options.study]
    run(options.draws or draws, options)


if __name__ == "__main__":
    main()
