"""Coverage of 95 % intervals for new rows and new raters, and what the intervals cost.

    python benchmarks/reader_intervals.py [draws] [draws over rows] [designs …]
    python benchmarks/reader_intervals.py cost

K = 3. Rows have true log-odds N((1, 0, −1), 1), readers tilts N(0, s²) of the log-odds of each
class. The model knows the rows but not the readers; it is 1.3 times too sure. Each draw has new
rows and new readers. Coverage is of the value of the metric for 200 000 rows with five readers each
of their own; in brackets is that of intervals over rows, which counts get, in the first draws."""

import sys
import time
import warnings
from functools import partial

import numpy as np

from sklearn_lhcal.label_histogram import Annotations, fleiss_kappa
from sklearn_lhcal.metrics import (
    calibration_loss,
    confidence_interval,
    disagreement_calibration_loss,
    disagreement_squared_loss,
    epistemic_loss,
    expected_accuracy,
    expected_squared_loss,
    irreducible_loss,
    paired_difference,
)

K = 3
SURE = 1.3
# mean log-odds: one class is common, one rare
COMMON = np.array([1.0, 0.0, -1.0])


def softmax(u):
    p = np.exp(u - u.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


def kappa(y, prediction):
    return fleiss_kappa(y)


METRICS = {
    "accuracy": expected_accuracy,
    "L": expected_squared_loss,
    "IL": irreducible_loss,
    "L_phi": disagreement_squared_loss,
    "kappa": kappa,
    "EL": epistemic_loss,
    "CL": partial(calibration_loss, n_bins=5),
    "CL_phi": partial(disagreement_calibration_loss, n_bins=5),
}
# metrics that one reader a row is enough for, and those of pairs of readers
ONE = ("accuracy", "L", "CL")
PAIRS = ("IL", "L_phi", "kappa", "EL", "CL_phi")


# ---------------------------------------------------------------------------------------- designs


def crossed(n: int, R: int, rng):
    """Each reader reads each row."""
    return np.ones((n, R), dtype=bool)


def some(n: int, R: int, rng, m: int = 3):
    """m readers a row, at random."""
    return rng.random((n, R)).argsort(axis=1).argsort(axis=1) < m


def unequal(n: int, R: int, rng, m: int = 3):
    """m readers a row; the first readers read far more than the last."""
    keys = rng.random((n, R)) ** np.linspace(0.2, 2, R)
    return keys.argsort(axis=1).argsort(axis=1) >= R - m


def heavy(n: int, R: int, rng, m: int = 2):
    """m readers a row; the first two are drawn eight times as readily as any other."""
    keys = rng.gumbel(size=(n, R))
    keys[:, :2] += np.log(8)
    return keys.argsort(axis=1).argsort(axis=1) >= R - m


def split_plot(n: int, R: int, rng, m: int = 4):
    """Teams of m readers, each with rows of its own."""
    team = np.arange(n) % (R // m)
    return team[:, None] == np.arange(R) // m


def nested(n: int, R: int, rng):
    """One reader a row: nobody disagrees."""
    return rng.integers(0, R, n)[:, None] == np.arange(R)


def two(n: int, R: int, rng):
    """Two readers a row, at random."""
    return some(n, R, rng, m=2)


def crowd(n: int, R: int, rng):
    """Three readers a row, nobody twice."""
    return np.repeat(np.arange(n), 3)[None, :] == np.arange(n)[:, None]


DESIGNS = [
    (crossed, 200, 3, 0.3),
    (crossed, 200, 3, 0.8),
    (crossed, 200, 5, 0.0),
    (crossed, 200, 5, 0.3),
    (crossed, 200, 5, 0.8),
    (crossed, 100, 5, 0.3),
    (crossed, 500, 5, 0.3),
    (crossed, 200, 8, 0.3),
    (crossed, 200, 20, 0.3),
    (some, 200, 5, 0.3),
    (some, 200, 8, 0.3),
    (some, 200, 20, 0.3),
    (unequal, 200, 8, 0.3),
    (unequal, 200, 20, 0.3),
    (split_plot, 200, 8, 0.3),
    (split_plot, 200, 20, 0.3),
    (nested, 300, 5, 0.3),
    (nested, 300, 8, 0.3),
    (nested, 300, 20, 0.3),
    (two, 200, 5, 0.3),
    (crowd, 200, 600, 0.3),
    (heavy, 200, 5, 0.8),
]


def study(design, n: int, R: int, s: float, rng, sure: float = SURE):
    """Annotations, and the probabilities of a model that knows rows but no readers."""
    u = COMMON + rng.normal(size=(n, K))
    read = design(n, R, rng)
    row, rater = np.nonzero(read)
    tilt = s * rng.normal(size=(read.shape[1], K))
    p = softmax(u[row] + tilt[rater])
    label = (p.cumsum(axis=1) < rng.random((len(row), 1))).sum(axis=1).clip(max=K - 1)
    indptr = np.append(0, np.cumsum(read.sum(axis=1)))
    raters = np.arange(read.shape[1])
    return Annotations(indptr, rater, label, raters=raters, classes=np.arange(K)), softmax(sure * u)


def truths(s: float) -> dict:
    """The value of each metric where each row has readers of its own."""
    rng = np.random.default_rng(10**6)
    n = 200_000
    u = COMMON + rng.normal(size=(n, K))
    counts = np.zeros((n, K), dtype=int)
    for _ in range(5):
        p = softmax(u + s * rng.normal(size=(n, K)))
        label = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=K - 1)
        counts[np.arange(n), label] += 1
    return {name: metric(counts, softmax(SURE * u)) for name, metric in METRICS.items()}


# --------------------------------------------------------------------------------------- coverage


def coverage(design, n: int, R: int, s: float, runs: tuple[int, int], names, truth: dict) -> dict:
    """Share of intervals that hold the truth, over rows and raters, and over rows: name → pair.

    `runs` are the draws of either.
    """
    hits = {name: np.zeros(2) for name in names}
    for seed in range(max(runs)):
        y, z = study(design, n, R, s, np.random.default_rng(seed))
        wanted = [k for k in range(2) if seed < runs[k]]
        for name in names:
            for k in wanted:
                how = {"raters": ("random", "fixed")[k], "random_state": seed}
                found = confidence_interval(METRICS[name], y, z, **how)
                hits[name][k] += found.low <= truth[name] <= found.high
    return {name: hit / runs for name, hit in hits.items()}


def table(runs: tuple[int, int], only: list[str]) -> None:
    designs = [case for case in DESIGNS if not only or case[0].__name__ in only]
    truth = {s: truths(s) for s in {case[-1] for case in designs}}
    print(f"{runs[0]} draws, {runs[1]} over rows")
    print(f"{'':28}" + "".join(f"{name:>14}" for name in METRICS))
    for design, n, R, s in designs:
        of_pairs = () if design is nested else PAIRS
        names = [name for name in METRICS if name in ONE + of_pairs]
        found = coverage(design, n, R, s, runs, names, truth[s])
        cells = ["-"] * len(METRICS)
        for k, name in enumerate(METRICS):
            if name in found:
                cells[k] = f"{found[name][0]:.3f} ({found[name][1]:.2f})"
        head = f"{design.__name__} {n} x {R}, s = {s}"
        print(f"{head:28}" + "".join(f"{c:>14}" for c in cells), flush=True)


# ------------------------------------------------------------------------------------------- cost


def best(*functions, times: int = 5) -> list[float]:
    """Least processor time of several calls of each, in turn, in seconds."""
    spent = np.full((times, len(functions)), np.inf)
    for row in spent:
        for k, function in enumerate(functions):
            start = time.process_time()
            function()
            row[k] = time.process_time() - start
    return spent.min(axis=0).tolist()


def cost() -> None:
    """Times the metric: the interval over rows, and over rows and raters."""
    rng = np.random.default_rng(0)
    n, R = 10**5, 5
    p = softmax(1.5 * rng.normal(size=(n, K)))
    label = (p.cumsum(axis=1)[:, None] < rng.random((n, R, 1))).sum(axis=2).clip(max=K - 1)
    indptr = np.arange(0, n * R + 1, R)
    rater = np.tile(np.arange(R), n)
    y = Annotations(indptr, rater, label.ravel(), raters=np.arange(R), classes=np.arange(K))
    print(
        f"\n{n} rows x {R} raters: seconds of the metric; interval over rows, over both: times it"
    )
    # as many bins as they have by default
    binned = {"CL": calibration_loss, "CL_phi": disagreement_calibration_loss}
    for name in ("accuracy", "L", "IL", "L_phi", "EL", "CL", "CL_phi"):
        metric = (METRICS | binned)[name]
        intervals = [
            partial(confidence_interval, metric, y, p, raters=raters)
            for raters in ("fixed", "random")
        ]
        once, fixed, random = best(partial(metric, y, p), *intervals)
        print(f"{name:10}{once:8.3f}{fixed / once:8.1f}{random / once:8.1f}", flush=True)
    rows, R = 20_000, 2_000
    rater = np.concatenate([rng.choice(R, 5, replace=False) for _ in range(rows)])
    label = rng.integers(0, K, 5 * rows)
    indptr = np.arange(0, 5 * rows + 1, 5)
    y = Annotations(indptr, rater, label, raters=np.arange(R), classes=np.arange(K))
    p = softmax(rng.normal(size=(rows, K)))
    print("\n100 000 ratings by 2 000 raters, seconds")
    for name in ("L", "IL", "kappa", "CL", "CL_phi"):
        metric = METRICS[name]
        (spent,) = best(partial(confidence_interval, metric, y, p), times=2)
        print(f"{name:10}{spent:8.2f}", flush=True)


def paired(runs: int) -> None:
    """Coverage for the difference of two models."""
    print(f"\npaired differences, {runs} draws")
    for name in ("L", "EL"):
        for R, s in ((5, 0.3), (5, 0.8), (8, 0.3)):
            rng = np.random.default_rng(10**6)
            u = COMMON + rng.normal(size=(200_000, K))
            q = np.mean([softmax(u + s * rng.normal(size=u.shape)) for _ in range(30)], axis=0)
            a, b = ((softmax(sure * u) - q) ** 2 for sure in (SURE, 0.8))
            truth = a.sum(axis=1).mean() - b.sum(axis=1).mean()
            hits = np.zeros(2)
            for seed in range(runs):
                y, z = study(crossed, 200, R, s, np.random.default_rng(seed))
                other = z ** (0.8 / SURE)
                other /= other.sum(axis=1, keepdims=True)
                for k, raters in enumerate(("random", "fixed")):
                    found = paired_difference(
                        METRICS[name], y, z, other, raters=raters, random_state=seed
                    )
                    hits[k] += found.low <= truth <= found.high
            print(f"{name} crossed 200 x {R}, s = {s}: {hits[0] / runs:.3f} ({hits[1] / runs:.2f})")


def main() -> None:
    # three raters are few, two of five give most ratings, and some bins have few rows
    warnings.filterwarnings("ignore", "There are only|The 5 raters are worth")
    warnings.filterwarnings("ignore", "More than 5 %")
    if "cost" in sys.argv:
        cost()
        return
    runs, over_rows = [int(a) for a in sys.argv[1:3]] or (2000, 500)
    table((runs, over_rows), sys.argv[3:])
    if not sys.argv[3:]:
        paired(runs)


if __name__ == "__main__":
    main()
