"""What a row costs: microseconds of one core, by classes, and what a billion rows of ten take.

    OMP_NUM_THREADS=1 python benchmarks/scaling.py

Batches of 8,192 rows with three labels each come from memory. Printed are the best of three times
of all batches over their rows.

    OMP_NUM_THREADS=1 python benchmarks/scaling.py DIRECTORY

The peak of memory and the processor time of four accumulators that read a million rows of 1,000
classes from files, which are made in the directory first: 5 GB, and removed at the end.
"""

import sys
import tempfile
import time
from functools import partial

import numpy as np
from measure import held, in_child
from threadpoolctl import threadpool_limits

from sklearn_lhcal.calibration import AlphaCalibration, TemperatureScaling
from sklearn_lhcal.distributions import Dirichlet, predict_dist
from sklearn_lhcal.metrics import (
    MetricAccumulator,
    calibration_error,
    expected_calibration_error,
    expected_squared_loss,
    loss_decomposition,
    posterior_epistemic_loss,
)

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


def rows_of(K):
    """As many as fit into memory, and at least two batches."""
    return max(2 * BATCH, min(500_000, ENTRIES // K))


def tasks(K):
    """Names, and functions without arguments, at K classes."""
    rng = np.random.default_rng(0)
    n = rows_of(K)
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


def from_disk(directory, n=1_000_000, K=1000) -> None:
    """Prints what a process needs that reads the rows in batches."""
    with tempfile.TemporaryDirectory(dir=directory) as place:
        files = [(f"{place}/proba", np.float32), (f"{place}/counts", np.int8)]
        in_child(lambda: make_files(files, n, K))
        seconds, peak = in_child(lambda: read_files(files, n, K))
    print(f"{n:,} rows of {K:,} classes: {seconds:.0f} s, peak of the process {peak:.0f} MiB")


def make_files(files, n, K) -> None:
    """Probabilities, and three labels a row drawn from them."""
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


def main() -> None:
    table = {}
    for K in CLASSES:
        for name, task in tasks(K):
            table.setdefault(name, {})[K] = 1e6 * seconds_of(task) / rows_of(K)
    print(f"{'microseconds a row, by classes':40}" + "".join(f"{K:>9,}" for K in CLASSES))
    for name, cost in table.items():
        cells = "".join(f"{cost[K]:9.2f}" if K in cost else " " * 9 for K in CLASSES)
        hours = cost[10] * 1e9 / 1e6 / 3600
        print(f"{name:40}{cells}   {hours:.2f} core hours for a billion rows of 10 classes")


if __name__ == "__main__":
    with threadpool_limits(1):
        if sys.argv[1:]:
            from_disk(sys.argv[1])
        else:
            main()
