"""LightGBM and XGBoost on label histograms: each row once, against one weighted row a class.

    python benchmarks/boosting.py

Peers are the libraries' own multinomial objectives on repeated rows. "few" are five labels a row,
"soft" are class probabilities, nearly none of which is 0. "a row" is how often the peer has it: for
each class that somebody chose.

Every fit runs once, in a process of its own, on one thread. Printed for each data set and library,
ours to the peer's: the ratio of the processor times of the fits; the peaks of memory above that of
the data in MiB, and their ratio. Then the held-out log loss of both with the paired difference, ±
two standard errors over rows.
"""

import ctypes
import time
from functools import partial

import lightgbm
import numpy as np
import xgboost
from measure import held, in_child

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.label_histogram import KnownProbabilities, LabelHistogramClassifier

# rows, features, classes
DATA_SETS = [(100_000, 20, 3), (100_000, 50, 10), (50_000, 50, 30)]
HELD_OUT = 10_000
TREES = 5


def classifier(library):
    if library == "LightGBM":
        return lightgbm.LGBMClassifier(n_estimators=TREES, n_jobs=1, verbose=-1)
    return xgboost.XGBClassifier(n_estimators=TREES, n_jobs=1)


def on_repeated_rows(library, X, shares):
    rows, codes = np.nonzero(shares)
    return classifier(library).fit(X[rows], codes, sample_weight=shares[rows, codes])


def on_histograms(library, X, shares):
    y = shares
    if shares.dtype.kind == "f":
        y = KnownProbabilities(shares)
    return LabelHistogramClassifier(classifier(library)).fit(X, y)


def measured(way, library, X, y, X_test, y_test):
    """Processor time of the fit, peak of memory above that before it in MiB, held-out losses."""
    # what making the data left free would be used again unseen
    ctypes.CDLL(None).malloc_trim(0)
    before = held("VmRSS")
    start = time.process_time()
    model = way(library, X, y)
    seconds = time.process_time() - start
    peak = (held("VmHWM") - before) / 1024
    # the loss of each row, in nats a label
    losses = -(y_test * np.log(model.predict_proba(X_test))).sum(axis=1) / y_test.sum(axis=1)
    return seconds, peak, losses.tolist()


def rows_of(n, n_features, n_classes):
    return make_label_histograms(
        n + HELD_OUT, n_features=n_features, n_classes=n_classes, n_raters=5, random_state=0
    )


def main() -> None:
    print(f"{'rows × features × classes':26}{'a row':>6}{'':10}{'time':>6}{'MiB':>13}{'ratio':>7}")
    for size in DATA_SETS:
        data = rows_of(*size)
        for labels, y in (("few", data.counts), ("soft", data.proba)):
            compare(size, labels, data.X, y)


def compare(size, labels, X, y) -> None:
    """The lines of one data set."""
    n = size[0]
    parts = (X[:n], y[:n], X[n:], y[n:])
    a_row = (y[:n] > 0).sum() / n
    for library in ("LightGBM", "XGBoost"):
        ours, peer = (
            in_child(partial(measured, way, library, *parts))
            for way in (on_histograms, on_repeated_rows)
        )
        losses = np.array([ours[2], peer[2]])
        difference = losses[0] - losses[1]
        error = 2 * difference.std(ddof=1) / np.sqrt(len(difference))
        print(
            f"{' × '.join(f'{s:,}' for s in size) + ' ' + labels:26}{a_row:6.1f} {library:9}"
            f"{ours[0] / peer[0]:6.2f}{ours[1]:6.0f} :{peer[1]:5.0f}{ours[1] / peer[1]:7.2f}  "
            f"{losses[0].mean():.4f} against {losses[1].mean():.4f}, "
            f"{difference.mean():+.4f} ± {error:.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
