"""Speed as ratios to a peer, both measured in this run, in turn.

    python benchmarks/run.py [part of a name ...]

Each row: median time of the peer over median time of ours (above 1: ours is faster), both medians, and what must hold
besides: no worse result, memory.
"""

import sys
import time
import tracemalloc
from statistics import median

import numpy as np

RUNS = 7


def in_turn(ours, peer, runs: int = RUNS):
    """Median seconds of both, run A B A B …, after one warm-up each; and what they returned last."""
    times, results = ([], []), [None, None]
    for run in range(runs + 1):
        for i, function in enumerate((ours, peer)):
            start = time.perf_counter()
            results[i] = function()
            if run:
                times[i].append(time.perf_counter() - start)
    return median(times[0]), median(times[1]), *results


def temperature_scaling():
    """100 000 x 10 logits, one label a row; peer: CalibratedClassifierCV(method="temperature") of scikit-learn."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator
    from sklearn.metrics import log_loss

    from sklearn_lhcal.calibration import PrecomputedClassifier, TemperatureScaling

    rng = np.random.default_rng(0)
    logits = rng.normal(size=(100_000, 10)) * 3
    p = np.exp(logits / 1.7)
    y = (np.cumsum(p / p.sum(axis=1, keepdims=True), axis=1) < rng.random((len(p), 1))).sum(axis=1)
    frozen = FrozenEstimator(PrecomputedClassifier("logits").fit(logits))
    ours, peer, a, b = in_turn(
        lambda: TemperatureScaling(frozen).fit(logits, y),
        lambda: CalibratedClassifierCV(frozen, method="temperature", ensemble=False).fit(logits, y),
    )
    excess = log_loss(y, a.predict_proba(logits)) - log_loss(y, b.predict_proba(logits))
    return ours, peer, f"log loss less the peer's: {excess:+.1e} nats"


def loss_decomposition():
    """1 000 000 x 10, five labels a row; peer: the formulas written out, bin by bin and class by class."""
    from sklearn_lhcal.metrics import loss_decomposition

    rng = np.random.default_rng(0)
    z = rng.dirichlet(np.full(10, 0.3), size=1_000_000)
    y = rng.multinomial(5, z)

    def naive(n_bins=15):
        n = y.sum(axis=1, keepdims=True)
        mu = y / n
        L = ((mu - z) ** 2 + mu * (1 - mu)).sum(axis=1).mean()
        EL = ((mu - z) ** 2 - mu * (1 - mu) / (n - 1)).sum(axis=1).mean()
        index = np.minimum((z * n_bins).astype(int), n_bins - 1)
        CL = 0.0
        for k in range(z.shape[1]):
            for b in range(n_bins):
                rows = index[:, k] == b
                if rows.sum() > 1:
                    e = mu[rows, k] - z[rows, k]
                    CL += rows.mean() * (e.mean() ** 2 - e.var() / (rows.sum() - 1))
        return L, EL, L - EL, CL, EL - CL

    ours, peer, a, b = in_turn(lambda: loss_decomposition(y, z), naive, runs=3)
    tracemalloc.start()
    loss_decomposition(y, z)
    memory = tracemalloc.get_traced_memory()[1] / (y.nbytes + z.nbytes)
    tracemalloc.stop()
    difference = np.abs(np.subtract(a[:5], b)).max()
    return ours, peer, f"extra memory / input: {memory:.2f}; largest difference: {difference:.0e}"


BENCHMARKS = [temperature_scaling, loss_decomposition]


def main() -> None:
    asked = sys.argv[1:]
    for benchmark in BENCHMARKS:
        if asked and not any(part in benchmark.__name__ for part in asked):
            continue
        print(f"{benchmark.__name__}: {benchmark.__doc__}")
        ours, peer, note = benchmark()
        print(f"  ratio {peer / ours:5.1f}   ours {ours * 1e3:7.1f} ms   peer {peer * 1e3:7.1f} ms   {note}\n")


if __name__ == "__main__":
    main()
