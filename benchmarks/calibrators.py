"""What a calibrator should be fitted with: which likelihood, which output of an ensemble, how many
samples.

    python benchmarks/calibrators.py likelihood [--draws 5] [--cifar10h FILE.npz]
    python benchmarks/calibrators.py seeds [--draws 10]
    python benchmarks/calibrators.py rows [--draws 20]
    python benchmarks/calibrators.py around [--draws 10]
    python benchmarks/calibrators.py subgroups|mended [--draws 30]

"likelihood": data sets by raters per calibration sample. Epistemic loss after one label (smaller is
better), mean over random halves for calibration, and the standard error of the paired difference.
The file holds arrays `counts` and `proba`, human label histograms and a network's probabilities. It
takes two minutes on one core.

"seeds": several seeds of one network: calibrate their mixture, or average first? For each of three
public data sets and each split (two fifths of the samples train, one fifth calibrates, two fifths
test), five small networks are trained on bootstrap samples. Temperature scaling is fitted to the
mixture of the five, and to their average. Printed: the held-out log loss of the average as given,
of the calibrated mixture and of the calibrated average, in nats; the last minus the second with its
95% interval over splits (Student's t); the processor time of the fit to the mixture, as a multiple
of the other, the median over splits.

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
"""

import argparse
import time
import warnings
from functools import cache
from pathlib import Path

import numpy as np
from lib import subgroup_maps
from maps import VOTES, voted
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import resample

from sklearn_lhcal.calibration import AlphaCalibration, StackedCalibration, TemperatureScaling
from sklearn_lhcal.datasets import load_mixed_digits, make_label_histograms
from sklearn_lhcal.distributions import Dirichlet, Ensemble, PointMass, predict_dist
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


def likelihood(draws: int, cifar10h: Path | None) -> None:
    # Of labels to which naive Bayes gives no probability.
    warnings.simplefilter("ignore", UserWarning)
    print(
        f"{'':36}{'raters':>7}"
        + "".join(f"{name:>43}" for name in ("loss after one label", "disagreement loss"))
    )
    print(f"{'':43}" + f"{'pairwise':>12}{'Dir.-mult.':>12}{'difference':>19}" * 2)
    for name, (z, q) in data_sets(cifar10h):
        for raters in RATERS:
            losses = compare(z, q, raters, draws)
            line = f"{name:36}{raters:7d}"
            for pair in np.moveaxis(losses, 1, 0):
                d = pair[:, 0] - pair[:, 1]
                line += f"{pair[:, 0].mean():12.4f}{pair[:, 1].mean():12.4f}"
                line += f"{d.mean():+10.4f} ± {d.std(ddof=1) / np.sqrt(len(d)):.4f}"
            print(line, flush=True)


# --- seeds of a network ---

MEMBERS = 5
DATA_SETS = {"digits": load_digits, "breast cancer": load_breast_cancer, "wine": load_wine}


def trained(X, y, seed):
    """A network trained on a bootstrap sample that holds every class as often as `y` does."""
    X, y = resample(X, y, stratify=y, random_state=seed)
    network = MLPClassifier((50,), max_iter=300, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return make_pipeline(StandardScaler(), network).fit(X, y)


def fitted(outputs, y):
    """Temperature scaling of saved outputs, and the processor time of its fit in seconds."""
    start = time.process_time()
    with warnings.catch_warnings():
        # 35 samples of wine may be predicted without an error: only the prior bounds the map then
        warnings.filterwarnings("ignore", "The calibration labels are separable")
        model = TemperatureScaling("proba").fit(outputs, y)
    return model, time.process_time() - start


def one_split(X, y, seed):
    """Log losses of the average, the calibrated mixture, the calibrated average; ratio of times."""
    X, rest, y, y_rest = train_test_split(X, y, train_size=0.4, stratify=y, random_state=seed)
    networks = [trained(X, y, MEMBERS * seed + m) for m in range(MEMBERS)]
    members = np.stack([network.predict_proba(rest) for network in networks])
    fit, test = train_test_split(
        np.arange(len(rest)), train_size=1 / 3, stratify=y_rest, random_state=seed
    )
    mean = members.mean(axis=0)
    mixture, t_mixture = fitted(Ensemble(members[:, fit]), y_rest[fit])
    average, t_average = fitted(mean[fit], y_rest[fit])
    predictions = (
        mean[test],
        mixture.predict_proba(Ensemble(members[:, test])),
        average.predict_proba(mean[test]),
    )
    return *(log_loss(y_rest[test], p) for p in predictions), t_mixture / t_average


def seeds(draws: int, cifar10h: Path | None) -> None:
    print(f"{'':15}{'as given':>9}{'mixture':>9}{'average':>9}  average - mixture{'time':>13}")
    for name, load in DATA_SETS.items():
        X, y = load(return_X_y=True)
        found = np.array([one_split(X, y, seed) for seed in range(draws)])
        difference = found[:, 2] - found[:, 1]
        half = stats.t.ppf(0.975, draws - 1) * stats.sem(difference)
        cells = "".join(f"{loss:9.4f}" for loss in found[:, :3].mean(axis=0))
        print(
            f"{name:15}{cells}  {difference.mean():+.4f} ± {half:.4f}"
            f"{np.median(found[:, 3]):12.0f}×",
            flush=True,
        )


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


def rows(draws: int, cifar10h: Path | None) -> None:
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
    "seeds": (seeds, 10),
    "rows": (rows, 20),
    "around": (around, 10),
    "subgroups": (subgroup_maps.subgroups, 30),
    "mended": (subgroup_maps.mended, 30),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--draws", type=int)
    parser.add_argument("--cifar10h", type=Path, metavar="FILE")
    options = parser.parse_args()
    run, draws = STUDIES[options.study]
    run(options.draws or draws, options.cifar10h)


if __name__ == "__main__":
    main()
