"""How many rows a number needs: those at which its 95 % interval is narrow enough, and those from
which a calibrator helps.

    python benchmarks/rows_needed.py [draws]

Three problems with known class probabilities: made rows of 3 and of 10 classes, overconfident, and
mixed digits under logistic regression, drawn with replacement. Raters are drawn anew each time. For
means over rows the half-width falls as 1/√n, so it is measured at 1,000 rows. A calibration error
is measured on predictions that are calibrated: the rows at which the upper end of its interval is
below .1 in the median draw. For a calibrator: the rows with which it lowered its loss on 5,000
other rows, in 19 of 20 draws or more; "-" says that it did not for any number of rows up to 2,000.
"""

import sys
import warnings
from functools import cache

import numpy as np
from sklearn.linear_model import LogisticRegression

from sklearn_lhcal.calibration import AlphaCalibration, TemperatureScaling
from sklearn_lhcal.datasets import load_mixed_digits, make_label_histograms
from sklearn_lhcal.distributions import Dirichlet, PointMass
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
)

SIZES = (50, 100, 200, 500, 1000, 2000, 5000)
MEANS = {expected_accuracy: 0.05, expected_squared_loss: 0.05}
MEANS |= {irreducible_loss: 0.05, epistemic_loss: 0.05}


@cache
def pool(problem: str):
    """True class probabilities Q and predictions z of many rows."""
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
    """Counts of m raters and predictions of n rows."""
    Q, z = pool(problem)
    rows = rng.integers(len(z), size=n)
    return rng.multinomial(m, Q[rows] / Q[rows].sum(axis=1, keepdims=True)), z[rows]


def rows_of_mean(metric, width: float, problem: str, m: int, draws: int) -> int:
    """Rows for which half the interval is `width` wide."""
    found = []
    for seed in range(draws):
        y, z = draw(problem, 1000, m, np.random.default_rng(seed))
        prediction = None if metric is irreducible_loss else z
        interval = confidence_interval(metric, y, prediction, random_state=0)
        found.append((interval.high - interval.low) / 2)
    return int(np.ceil(1000 * (np.median(found) / width) ** 2))


def rows_of_error(metric, n_classes: int, m: int, draws: int) -> int | None:
    """Rows at which the interval of a calibrated prediction ends below .1."""
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
    """Rows with which a calibrator lowers the loss, from there on."""
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


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    for metric, width in MEANS.items():
        for m in (1, 2, 5):
            if m == 1 and metric in (irreducible_loss, epistemic_loss):
                continue
            rows = [rows_of_mean(metric, width, p, m, draws) for p in ("3", "10", "digits")]
            print(f"{metric.__name__:32} {m} raters, ± {width}: {rows}", flush=True)
    for metric in (calibration_error, disagreement_calibration_error):
        for m in (1, 2, 5)[metric is disagreement_calibration_error :]:
            rows = [rows_of_error(metric, K, m, draws) for K in (3, 10)]
            print(f"{metric.__name__:32} {m} raters: {rows}", flush=True)
    for m in (1, 2, 5):
        rows = [
            rows_of_map(lambda: TemperatureScaling("proba"), raw, label_log_loss, p, m, draws)
            for p in ("3", "10", "digits")
        ]
        print(f"temperature                      {m} raters: {rows}", flush=True)
    for m in (2, 5):
        rows = [
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
        print(f"alpha                            {m} raters: {rows}", flush=True)
