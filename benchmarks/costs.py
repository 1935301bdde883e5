"""What it costs: samples in batches, samples on disk, intervals, and boosting on label histograms.

    OMP_NUM_THREADS=1 python benchmarks/costs.py batches|disk|intervals|boosting [--scale 1]

"batches": microseconds of one core a sample, by classes, and what a billion samples of ten take.
Batches of 8,192 samples with three labels each come from memory. Printed are the best of three
times of all batches over their samples.

"disk": the peak of memory and the processor time of four accumulators that read a million samples
of 1,000 classes from files, which are made in a temporary directory first: 5 GB, and removed at the
end.

"intervals": seconds of a metric of 100,000 samples by five raters, and how many times that an
interval takes, over samples alone and over samples and raters; then seconds of intervals of 100,000
ratings by 2,000 raters.

"boosting": LightGBM and XGBoost on label histograms, each sample once, against one weighted row a
class. Peers are the libraries' own multinomial objectives on repeated rows. "few" are five labels a
sample, "soft" are class probabilities, nearly none of which is 0. "a row" is how often the peer has
it: for each class that somebody chose. Every fit runs once, in a process of its own, on one thread.
Printed for each data set and library, ours to the peer's: the ratio of the processor times of the
fits; the peaks of memory above that of the data in MiB, and their ratio. Then the held-out log loss
of both with the paired difference, ± two standard errors over samples.

--scale .01 takes a hundredth of the samples.
"""

import argparse
import ctypes
import tempfile
import time
from functools import partial

import numpy as np
from lib.measure import held, in_child
from lib.reader_studies import K as N_CLASSES
from lib.reader_studies import softmax
from threadpoolctl import threadpool_limits

from sklearn_lhcal.calibration import AlphaCalibration, TemperatureScaling
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import Dirichlet, predict_dist
from sklearn_lhcal.label_histogram import (
    Annotations,
    KnownProbabilities,
    LabelHistogramClassifier,
    fleiss_kappa,
)
from sklearn_lhcal.metrics import (
    MetricAccumulator,
    calibration_error,
    calibration_loss,
    confidence_interval,
    disagreement_calibration_loss,
    disagreement_squared_loss,
    epistemic_loss,
    expected_accuracy,
    expected_calibration_error,
    expected_squared_loss,
    irreducible_loss,
    loss_decomposition,
    posterior_epistemic_loss,
)

# --- samples in batches ---

BATCH = 8192
CLASSES = (3, 10, 100, 1000)
ENTRIES = 10_000_000
FITTED = 2000
ROUNDS = 3


def accumulated(metric, counts, proba):
    """A fresh accumulator reads all batches."""
    sums = MetricAccumulator(metric)
    for start in range(0, len(counts), BATCH):
        rows = slice(start, start + BATCH)
        sums.update(counts[rows], proba[rows])
    sums.result()


def scored(of_batch, *arrays):
    """A function of each batch."""
    for start in range(0, len(arrays[0]), BATCH):
        of_batch(*(a[start : start + BATCH] for a in arrays))


def rows_of(K, scale):
    """As many as fit into memory, and at least two batches."""
    return max(2 * BATCH, int(scale * min(500_000, ENTRIES // K)))


def tasks(K, scale):
    """Names, and functions without arguments, at K classes."""
    rng = np.random.default_rng(0)
    n = rows_of(K, scale)
    proba = rng.dirichlet(np.full(K, 0.5), n)
    counts = rng.multinomial(3, proba)
    concentration = 5 * proba + 1e-3
    yield "expected_squared_loss", partial(accumulated, expected_squared_loss, counts, proba)
    for metric in (expected_calibration_error, loss_decomposition, calibration_error):
        yield f"{metric.__name__}, 50 blocks", partial(accumulated, metric, counts, proba)
    yield (
        "posterior_epistemic_loss",
        partial(
            scored, lambda y, a: posterior_epistemic_loss(y, Dirichlet(a)), counts, concentration
        ),
    )
    # a thousand classes are fitted for minutes
    if K <= 100:
        logits = np.log(proba + 1e-12)
        few = counts[:FITTED], logits[:FITTED]
        for model in (TemperatureScaling("logits"), AlphaCalibration(TemperatureScaling("logits"))):
            model.fit(few[1], few[0])
            name = f"predict_dist after {type(model).__name__}"
            yield name, partial(scored, partial(predict_dist, model), logits)


def seconds_of(task):
    """Seconds of the processor, the best of three."""
    found = []
    for _ in range(ROUNDS):
        start = time.process_time()
        task()
        found.append(time.process_time() - start)
    return min(found)


def batches(scale: float) -> None:
    table = {}
    for K in CLASSES:
        for name, task in tasks(K, scale):
            table.setdefault(name, {})[K] = 1e6 * seconds_of(task) / rows_of(K, scale)
    print(f"{'microseconds a row, by classes':40}" + "".join(f"{K:>9,}" for K in CLASSES))
    for name, cost in table.items():
        cells = "".join(f"{cost[K]:9.2f}" if K in cost else " " * 9 for K in CLASSES)
        hours = cost[10] * 1e9 / 1e6 / 3600
        print(f"{name:40}{cells}   {hours:.2f} core hours for a billion rows of 10 classes")


# --- samples on disk ---


def disk(scale: float, K=1000) -> None:
    """Prints what a process needs that reads the samples in batches."""
    n = int(1_000_000 * scale)
    with tempfile.TemporaryDirectory() as place:
        files = [(f"{place}/proba", np.float32), (f"{place}/counts", np.int8)]
        in_child(lambda: make_files(files, n, K))
        seconds, peak = in_child(lambda: read_files(files, n, K))
    print(f"{n:,} rows of {K:,} classes: {seconds:.0f} s, peak of the process {peak:.0f} MiB")


def make_files(files, n, K) -> None:
    """Probabilities, and three labels a sample drawn from them."""
    rng = np.random.default_rng(0)
    with open(files[0][0], "wb") as probas, open(files[1][0], "wb") as counts:
        for start in range(0, n, BATCH):
            z = rng.standard_exponential((min(BATCH, n - start), K)) ** 3
            z /= z.sum(axis=1, keepdims=True)
            probas.write(z.astype(np.float32).tobytes())
            counts.write(rng.multinomial(3, z).astype(np.int8).tobytes())


def read_files(files, n, K):
    """Processor time, and peak of memory in MiB; each batch is mapped anew."""
    seen = [
        MetricAccumulator(loss_decomposition),
        MetricAccumulator(expected_calibration_error),
        MetricAccumulator(calibration_error),
        MetricAccumulator(expected_squared_loss),
    ]
    begin = time.process_time()
    for start in range(0, n, BATCH):
        shape = (min(BATCH, n - start), K)
        proba, counts = (
            np.memmap(path, dtype, "r", start * K * np.dtype(dtype).itemsize, shape)
            for path, dtype in files
        )
        for accumulator in seen:
            accumulator.update(counts, proba)
    for accumulator in seen:
        accumulator.result()
    return time.process_time() - begin, held("VmHWM") / 1024


# --- intervals ---

METRICS = {
    "accuracy": expected_accuracy,
    "L": expected_squared_loss,
    "IL": irreducible_loss,
    "L_phi": disagreement_squared_loss,
    "kappa": lambda y, prediction: fleiss_kappa(y),
    "EL": epistemic_loss,
    "CL": calibration_loss,
    "CL_phi": disagreement_calibration_loss,
}


def best(*functions, times: int = 5) -> list[float]:
    """Least processor time of several calls of each, in turn, in seconds."""
    spent = np.full((times, len(functions)), np.inf)
    for row in spent:
        for k, function in enumerate(functions):
            start = time.process_time()
            function()
            row[k] = time.process_time() - start
    return spent.min(axis=0).tolist()


def intervals(scale: float) -> None:
    """Times the metric: the interval over samples, and over samples and raters."""
    rng = np.random.default_rng(0)
    n, R = int(10**5 * scale), 5
    p = softmax(1.5 * rng.normal(size=(n, N_CLASSES)))
    label = (p.cumsum(axis=1)[:, None] < rng.random((n, R, 1))).sum(axis=2).clip(max=N_CLASSES - 1)
    indptr = np.arange(0, n * R + 1, R)
    rater = np.tile(np.arange(R), n)
    y = Annotations(indptr, rater, label.ravel(), raters=np.arange(R), classes=np.arange(N_CLASSES))
    print(f"{n} rows x {R} raters: seconds of the metric; interval over rows, over both: times it")
    for name in ("accuracy", "L", "IL", "L_phi", "EL", "CL", "CL_phi"):
        metric = METRICS[name]
        intervals = [
            partial(confidence_interval, metric, y, p, raters=raters)
            for raters in ("fixed", "random")
        ]
        once, fixed, random = best(partial(metric, y, p), *intervals)
        print(f"{name:10}{once:8.3f}{fixed / once:8.1f}{random / once:8.1f}", flush=True)
    rows, R = int(20_000 * scale), max(int(2_000 * scale), 5)
    rater = np.concatenate([rng.choice(R, 5, replace=False) for _ in range(rows)])
    label = rng.integers(0, N_CLASSES, 5 * rows)
    indptr = np.arange(0, 5 * rows + 1, 5)
    y = Annotations(indptr, rater, label, raters=np.arange(R), classes=np.arange(N_CLASSES))
    p = softmax(rng.normal(size=(rows, N_CLASSES)))
    print(f"\n{5 * rows} ratings by {R} raters, seconds")
    few_bins = {name: partial(METRICS[name], n_bins=5) for name in ("CL", "CL_phi")}
    for name in ("L", "IL", "kappa", "CL", "CL_phi"):
        metric = (METRICS | few_bins)[name]
        (spent,) = best(partial(confidence_interval, metric, y, p), times=2)
        print(f"{name:10}{spent:8.2f}", flush=True)


# --- boosting ---

# samples, features, classes
DATA_SETS = [(100_000, 20, 3), (100_000, 50, 10), (50_000, 50, 30)]
HELD_OUT = 10_000
TREES = 5


def classifier(library):
    import lightgbm
    import xgboost

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
    # the loss of each sample, in nats a label
    losses = -(y_test * np.log(model.predict_proba(X_test))).sum(axis=1) / y_test.sum(axis=1)
    return seconds, peak, losses.tolist()


def made(n, n_features, n_classes):
    return make_label_histograms(
        n + HELD_OUT, n_features=n_features, n_classes=n_classes, n_raters=5, random_state=0
    )


def boosting(scale: float) -> None:
    # the children find them imported, which costs neither side time or memory
    import lightgbm  # noqa: F401
    import xgboost  # noqa: F401

    print(f"{'rows × features × classes':26}{'a row':>6}{'':10}{'time':>6}{'MiB':>13}{'ratio':>7}")
    for n, *shape in DATA_SETS:
        size = (int(n * scale), *shape)
        data = made(*size)
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


STUDIES = {"batches": batches, "disk": disk, "intervals": intervals, "boosting": boosting}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--scale", type=float, default=1.0)
    options = parser.parse_args()
    with threadpool_limits(1):
        STUDIES[options.study](options.scale)


if __name__ == "__main__":
    main()
