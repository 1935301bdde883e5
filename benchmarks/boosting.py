"""LightGBM and XGBoost on label histograms: each row once, against one weighted row a class.

    python benchmarks/boosting.py

Peers are the libraries' own multinomial objectives on repeated rows. Every fit runs in a process of
its own. Printed for each data set and library: the ratio of the times of the fits and of the peaks
of memory above that before the fit (ours to the peer's, medians of interleaved runs), and the
held-out log loss of both with the paired difference, ± two standard errors over rows.
"""

import multiprocessing
import resource
import time

import lightgbm
import numpy as np
import xgboost

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.label_histogram import LabelHistogramClassifier

# rows, features, classes, labels a row
DATA_SETS = [(20_000, 50, 3, 5), (20_000, 50, 10, 10), (40_000, 20, 10, 20)]
REPEATS = 3
TREES = 30


def classifier(library):
    if library == "LightGBM":
        return lightgbm.LGBMClassifier(n_estimators=TREES, n_jobs=1, verbose=-1)
    return xgboost.XGBClassifier(n_estimators=TREES, n_jobs=1)


def on_repeated_rows(library, X, counts):
    rows, codes = np.nonzero(counts)
    return classifier(library).fit(X[rows], codes, sample_weight=counts[rows, codes])


def on_histograms(library, X, counts):
    return LabelHistogramClassifier(classifier(library)).fit(X, counts)


def measure(way, library, size, pipe):
    """Time of the fit, peak of memory above that of the data in MB, held-out probabilities."""
    X, counts = rows_of(size)
    train = slice(0, len(X) // 2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    model = way(library, X[train], counts[train])
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    pipe.send((seconds, peak / 1024, model.predict_proba(X[len(X) // 2 :])))


def rows_of(size):
    n, n_features, n_classes, n_raters = size
    data = make_label_histograms(
        n, n_features=n_features, n_classes=n_classes, n_raters=n_raters, random_state=0
    )
    return data.X, data.counts


def in_a_process(*job):
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=measure, args=(*job, sender))
    process.start()
    result = receiver.recv()
    process.join()
    return result


def main() -> None:
    print(f"{'rows × features × classes × labels':36}{'':10}{'time':>6}{'memory':>8}  log loss")
    for size in DATA_SETS:
        counts = rows_of(size)[1][size[0] // 2 :]
        for library in ("LightGBM", "XGBoost"):
            runs = [
                [in_a_process(way, library, size) for way in (on_histograms, on_repeated_rows)]
                for _ in range(REPEATS)
            ]
            cost = np.array([[run[:2] for run in pair] for pair in runs])
            ours, peer = np.median(cost, axis=0)
            # the loss of each row, in nats a label
            losses = [
                -(counts * np.log(proba)).sum(axis=1) / counts.sum(axis=1)
                for proba in (runs[0][0][2], runs[0][1][2])
            ]
            difference = losses[0] - losses[1]
            error = 2 * difference.std(ddof=1) / np.sqrt(len(difference))
            print(
                f"{' × '.join(f'{s:,}' for s in size):36}{library:10}"
                f"{ours[0] / peer[0]:6.2f}{ours[1] / peer[1]:8.2f}  "
                f"{losses[0].mean():.4f} against {losses[1].mean():.4f}, "
                f"{difference.mean():+.4f} ± {error:.4f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
