"""How the time of each call grows with the number of samples and of classes.

    python benchmarks/growth.py [part of a name ...] [--most 1e7]

Processor seconds on one thread for 10,000, 100,000 and 1,000,000 samples of 10 classes, and for 2,
10, 100 and 1,000 classes of 10,000 samples, up to `most` values. "Exponent" is the slope of log
seconds in log size from 10,000 on, the largest of a step; below 1.1 a call grows as its data do.
Steps of less than a tenth of a second say nothing and are left out. Results go into
``results/growth.csv``.
"""

import argparse
import csv
import time
import warnings
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from sklearn_lhcal import calibration, metrics
from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.label_histogram import Annotations, fleiss_kappa

RESULTS = Path(__file__).parent / "results/growth.csv"
SAMPLES, CLASSES, N, K = (10_000, 100_000, 1_000_000), (2, 10, 100, 1000), 10_000, 10
RATERS, LABELS = 30, 3
# seconds below which a step says nothing
LEAST = 0.1
# seconds after which a call is not timed again
LONG = 2.0


class Data:
    """Probabilities, three labels a sample by some of 30 raters, and what follows from them."""

    def __init__(self, n: int, k: int):
        rng = np.random.default_rng(0)
        self.z = rng.dirichlet(np.ones(k), n)
        self.other = self.z[::-1].copy()
        up = self.z.cumsum(axis=1)
        columns = [(rng.random((n, 1)) > up).sum(axis=1).clip(max=k - 1) for _ in range(LABELS)]
        label = np.column_stack(columns)
        first = rng.integers(RATERS, size=(n, 1))
        rater = (first + np.array([0, 7, 19])) % RATERS
        indptr = np.arange(0, LABELS * n + 1, LABELS)
        names = {"raters": np.arange(RATERS), "classes": np.arange(k)}
        self.annotations = Annotations(indptr, rater.ravel(), label.ravel(), **names)
        self.y = self.annotations.counts
        self.one = label[:, 0]
        self.dist = Dirichlet.from_mean(self.z, 5.0)
        self.costs = 1.0 - np.eye(k)
        self.subgroups = {"a": rng.integers(4, size=n), "b": rng.integers(5, size=n)}
        self.groups = rng.integers(n // 4, size=n)


def interval(metric, **options):
    """An interval of a metric, by its name."""
    function = getattr(metrics, metric)
    how = {"random_state": 0} | options
    return lambda d: metrics.confidence_interval(function, d.y, d.z, **how)


def fitted(name, labels="y"):
    """A calibrator of saved probabilities, by its name."""
    return lambda d: getattr(calibration, name)("proba").fit(d.z, getattr(d, labels))


CALLS = {
    "epistemic_loss": lambda d: metrics.epistemic_loss(d.y, d.z),
    "loss_decomposition": lambda d: metrics.loss_decomposition(d.y, d.z),
    "disagreement_calibration_error": (
        lambda d: metrics.disagreement_calibration_error(d.y, d.dist)
    ),
    "histogram_log_loss": lambda d: metrics.histogram_log_loss(d.y, d.dist),
    "ranking_score": lambda d: metrics.ranking_score(d.y, d.z),
    "interval of a mean": interval("epistemic_loss"),
    "interval of a mean, random raters": lambda d: metrics.confidence_interval(
        metrics.epistemic_loss, d.annotations, d.z, random_state=0
    ),
    "interval of a binned loss": interval("calibration_loss"),
    "interval of fleiss_kappa": lambda d: metrics.confidence_interval(
        fleiss_kappa, d.annotations, None, raters="fixed", random_state=0
    ),
    "paired_difference": lambda d: metrics.paired_difference(
        metrics.calibration_loss, d.y, d.z, d.other, random_state=0
    ),
    "evaluate_methods": lambda d: metrics.evaluate_methods(
        {"a": d.z, "b": d.other}, d.y, random_state=0
    ),
    "reliability_curve": lambda d: metrics.reliability_curve(d.y, d.z),
    "referral_curve": lambda d: metrics.referral_curve(d.y, d.dist),
    "decision_risks": lambda d: metrics.decision_risks(d.y, {"a": d.z}, d.costs, test_fraction=0.5),
    "subgroup_audit": lambda d: metrics.subgroup_audit(d.y, d.z, d.subgroups),
    "rater_comparison": lambda d: metrics.rater_comparison(
        d.annotations, d.z, margin=0.05, random_state=0
    ),
    "prediction_powered": lambda d: metrics.prediction_powered(
        metrics.expected_accuracy,
        *(d.y[: len(d.z) // 2], d.z[: len(d.z) // 2], d.one[: len(d.z) // 2]),
        *(d.one[len(d.z) // 2 :], d.z[len(d.z) // 2 :]),
        random_state=0,
    ),
    "marginal kernel error": lambda d: metrics.kernel_calibration_error(
        d.y, d.z, kind="marginal", bandwidth=0.05
    ),
    "TemperatureScaling": fitted("TemperatureScaling", "one"),
    "VectorScaling": fitted("VectorScaling", "one"),
    "StackedCalibration": fitted("StackedCalibration", "one"),
    "AlphaCalibration": lambda d: calibration.AlphaCalibration(
        calibration.TemperatureScaling("proba")
    ).fit(d.z, d.y),
}


def seconds(call, n: int, k: int) -> float:
    """Processor time of a call on data of this size, which are made before.

    The least of three runs, lest the first touch of memory counts; of one that takes seconds.
    """
    data, times = Data(n, k), []
    with threadpool_limits(1):
        while len(times) < 3 and sum(times) < LONG:
            start = time.process_time()
            call(data)
            times.append(time.process_time() - start)
    return min(times)


def exponent(sizes, times) -> float:
    """The largest slope of log seconds in log size over the steps that take long enough."""
    steps = np.diff(np.log(times)) / np.diff(np.log(sizes[: len(times)]))
    return max(steps[np.array(times[1:]) >= LEAST], default=np.nan)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--most", type=float, default=1e7)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    names = [f"{n:,} × {K}" for n in SAMPLES] + ["exponent of samples"]
    names += [f"{N:,} × {k:,}" for k in CLASSES] + ["exponent of classes"]
    table = [["call", *names]]
    print(f"{'':36}" + "".join(f"{name:>20}" for name in names))
    for name, call in CALLS.items():
        if args.names and not any(part in name for part in args.names):
            continue
        # what is imported late, and compiled
        seconds(call, 1000, K)
        by_n = [seconds(call, n, K) for n in SAMPLES if n * K <= args.most]
        by_k = [seconds(call, N, k) for k in CLASSES if N * k <= args.most]
        shown = [f"{t:.3g}" for t in by_n] + [""] * (len(SAMPLES) - len(by_n))
        shown += [f"{exponent(SAMPLES, by_n):.2f}"]
        shown += [f"{t:.3g}" for t in by_k] + [""] * (len(CLASSES) - len(by_k))
        shown += [f"{exponent(CLASSES, by_k):.2f}"]
        table.append([name, *(s.replace("nan", "–") for s in shown)])
        print(f"{name:36}" + "".join(f"{text:>20}" for text in table[-1][1:]), flush=True)
    if not args.names:
        with RESULTS.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(table)


if __name__ == "__main__":
    main()
