"""Speed as ratios to a peer, both measured in this run, in turn.

    python benchmarks/run.py [part of a name ...]

Each row: median time of the peer over median time of ours (above 1: ours is faster), both medians,
and what must hold besides: no worse result, memory."""

import sys
import time
import tracemalloc
from statistics import median

import numpy as np

RUNS = 7


def in_turn(ours, peer, runs: int = RUNS):
    """Median seconds of both, run A B A B …, after one warm-up each.

    And what they returned last.
    """
    times, results = ([], []), [None, None]
    for run in range(runs + 1):
        for i, function in enumerate((ours, peer)):
            start = time.perf_counter()
            results[i] = function()
            if run:
                times[i].append(time.perf_counter() - start)
    return median(times[0]), median(times[1]), *results


def temperature_scaling():
    """100 000 x 10 logits, one label a row.

    Peer: CalibratedClassifierCV(method="temperature") of scikit-learn.
    """
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
    """1 000 000 x 10, five labels a row.

    Peer: the formulas written out, bin by bin and class by class.
    """
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


def _logits(n, n_classes):
    """Logits, and labels drawn from an affine map of them."""
    rng = np.random.default_rng(0)
    u = rng.normal(size=(n, n_classes)) * 2
    W = 0.7 * np.eye(n_classes) + rng.normal(size=(n_classes, n_classes)) * 0.1 / np.sqrt(n_classes)
    v = u @ W.T + rng.normal(size=n_classes) * 0.3
    return u, (v + rng.gumbel(size=v.shape)).argmax(axis=1)


def _matrix_scaling(n, n_classes):
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    from sklearn_lhcal.calibration import MatrixScaling

    u, y = _logits(n, n_classes)
    u -= np.log(np.exp(u).sum(axis=1, keepdims=True))
    ours, peer, a, b = in_turn(
        lambda: MatrixScaling("logits", off_diagonal_penalty=0.0, bias_penalty=0.0).fit(u, y),
        lambda: LogisticRegression(C=np.inf, max_iter=10_000).fit(u, y),
        runs=3,
    )
    excess = log_loss(y, a.predict_proba(u)) - log_loss(y, b.predict_proba(u))
    return ours, peer, f"log loss less the peer's: {excess:+.1e} nats"


def matrix_scaling_10():
    """50 000 x 10 log-probabilities, no penalties.

    Peer: LogisticRegression without penalty on the same.
    """
    return _matrix_scaling(50_000, 10)


def matrix_scaling_100():
    """20 000 x 100 log-probabilities, no penalties.

    Peer: LogisticRegression without penalty on the same.
    """
    return _matrix_scaling(20_000, 100)


def _structured_scaling(calibrator, peer_name, n, n_classes):
    from probmetrics.calibrators import get_calibrator
    from sklearn.metrics import log_loss

    u, y = _logits(n, n_classes)
    p = np.exp(u)
    p /= p.sum(axis=1, keepdims=True)

    def peer():
        fitted = get_calibrator(peer_name)
        fitted.fit(p, y)
        return fitted

    ours, theirs, a, b = in_turn(lambda: calibrator.fit(p, y), peer, runs=3)
    excess = log_loss(y, a.predict_proba(p)) - log_loss(y, b.predict_proba(p))
    return ours, theirs, f"log loss less the peer's: {excess:+.1e} nats"


def _vector_scaling(n, n_classes):
    """The peer scales centred logits, another family than scaled log-probabilities.

    Our optimum of that one, too.
    """
    from probmetrics.calibrators import get_calibrator
    from sklearn.metrics import log_loss

    from sklearn_lhcal.calibration import VectorScaling
    from sklearn_lhcal.calibration._affine import VectorMap
    from sklearn_lhcal.neural_network import Newton

    result = _structured_scaling(VectorScaling("proba", bias_penalty=0.0), "svs", n, n_classes)
    u, y = _logits(n, n_classes)
    p = np.exp(u) / np.exp(u).sum(axis=1, keepdims=True)
    u, y_hot, shape = u - u.mean(axis=1, keepdims=True), np.eye(n_classes)[y], VectorMap(n_classes)
    best = shape.objective(u, y_hot)(shape.newton(u, y_hot, Newton()))[0]
    excess = best - log_loss(y, get_calibrator("svs").fit(p, y).predict_proba(p))
    return *result[:2], f"{result[2]}; on centred logits: {excess:+.1e}"


def vector_scaling_10():
    """50 000 x 10 probabilities, no penalty; peer: structured vector scaling of probmetrics."""
    return _vector_scaling(50_000, 10)


def vector_scaling_100():
    """20 000 x 100 probabilities, no penalty; peer: structured vector scaling of probmetrics."""
    return _vector_scaling(20_000, 100)


def _structured_matrix_scaling(n, n_classes):
    from sklearn_lhcal.calibration import MatrixScaling

    off_diagonal, bias = (
        (n_classes * (n_classes - 1)) ** 2 / n,
        n_classes**2 / n,
    )  # the peer's, as multiples of means
    calibrator = MatrixScaling("proba", off_diagonal_penalty=off_diagonal, bias_penalty=bias)
    return _structured_scaling(calibrator, "sms", n, n_classes)


def structured_matrix_scaling_10():
    """50 000 x 10 probabilities.

    Peer: structured matrix scaling of probmetrics, same penalties off the diagonal.
    """
    return _structured_matrix_scaling(50_000, 10)


def structured_matrix_scaling_100():
    """20 000 x 100 probabilities.

    Peer: structured matrix scaling of probmetrics, same penalties off the diagonal.
    """
    return _structured_matrix_scaling(20_000, 100)


def alpha_calibration():
    """100 000 rows x 128 features, two raters.

    Peer: one LogisticRegression of the same features (at most 3x).
    """
    from sklearn.linear_model import LogisticRegression

    from sklearn_lhcal.calibration import AlphaCalibration, PrecomputedClassifier

    rng = np.random.default_rng(0)
    h = rng.normal(size=(100_000, 128))
    z = rng.dirichlet(np.ones(5), size=len(h))
    total = np.exp(h[:, :4].sum(axis=1) / 2)[:, None]
    q = rng.standard_gamma(np.maximum(total * z, 1e-3))
    counts = rng.multinomial(2, q / q.sum(axis=1, keepdims=True))
    X = np.column_stack([z, h])
    base = PrecomputedClassifier("proba", columns=slice(0, 5))
    labels = counts.argmax(axis=1)
    ours, peer, *_ = in_turn(
        lambda: AlphaCalibration(base, features=lambda X: X[:, 5:]).fit(X, counts),
        lambda: LogisticRegression(max_iter=1000).fit(h, labels),
        runs=3,
    )
    return ours, peer, f"ours / peer: {ours / peer:.2f}"


class _Saved:
    """A classifier whose predictions cost nothing."""

    def __init__(self, proba):
        self.proba = proba
        self.classes_ = np.arange(proba.shape[1])

    def predict_proba(self, X):
        return self.proba


def _histograms(n):
    """n x 10 probabilities, and five labels a row."""
    rng = np.random.default_rng(0)
    z = rng.dirichlet(np.full(10, 0.3), size=n)
    return rng.multinomial(5, z), z


def interval():
    """confidence_interval, 10 000 x 10; peer: the metric, and again without each of 50 blocks."""
    from sklearn_lhcal.metrics import confidence_interval, expected_squared_loss

    y, z = _histograms(10_000)
    block = np.empty(len(y), dtype=int)
    block[np.random.RandomState(0).permutation(len(y))] = np.arange(len(y)) % 50

    def loop():
        estimate = expected_squared_loss(y, z)
        parts = [block != b for b in range(50)]
        without = np.array([expected_squared_loss(y[rows], z[rows]) for rows in parts])
        return estimate, np.sqrt(49 * without.var())

    def ours():
        return confidence_interval(expected_squared_loss, y, z, random_state=0)

    seconds, peer, a, b = in_turn(ours, loop, runs=21)
    return seconds, peer, f"standard errors: {a.standard_error:.6f} and {b[1]:.6f}"


def _scorer(n):
    from sklearn_lhcal.metrics import expected_squared_loss, get_scorer

    y, z = _histograms(n)
    model, scorer = _Saved(z), get_scorer("neg_expected_squared_loss")
    runs = 2_000_000 // n + 21
    scored, alone = lambda: scorer(model, z, y), lambda: expected_squared_loss(y, z)
    ours, peer, a, b = in_turn(scored, alone, runs)
    return ours, peer, f"ours / peer: {ours / peer:.2f}; difference: {a + b:.0e}"


def scorer_1000():
    """A scorer, 1 000 x 10, predictions saved; peer: its metric on the same (at most 1.2x)."""
    return _scorer(1_000)


def scorer_10000():
    """A scorer, 10 000 x 10, predictions saved; peer: its metric on the same (at most 1.2x)."""
    return _scorer(10_000)


def scorer_100000():
    """A scorer, 100 000 x 10, predictions saved; peer: its metric on the same (at most 1.2x)."""
    return _scorer(100_000)


def annotations():
    """1 000 000 ratings of 200 000 rows by 10 000 raters, five classes; peer: pandas' groupby.

    Who said what is kept; the peer counts alone.
    """
    import pandas as pd

    from sklearn_lhcal.label_histogram import Annotations

    rng = np.random.default_rng(0)
    row = np.repeat(np.arange(200_000), 5)
    # five different raters a row
    rater = (rng.integers(10_000, size=200_000)[:, None] + 1000 * np.arange(5)).ravel() % 10_000
    label = rng.integers(5, size=len(row))
    frame = pd.DataFrame({"row": row, "label": label})
    ours, peer, y, table = in_turn(
        lambda: Annotations.from_long(row, rater, label),
        lambda: frame.groupby(["row", "label"]).size().unstack(fill_value=0),
    )
    again, _, _, _ = in_turn(
        lambda: Annotations(y.indptr, y.rater, y.label, raters=y.raters, classes=y.classes),
        lambda: None,
    )
    counts, _, _, _ = in_turn(lambda: y.keep(np.ones(len(row), dtype=bool)).counts, lambda: None)
    size = sum(a.nbytes for a in (y.rater, y.label, y.indptr)) / len(row)
    same = np.array_equal(y.counts, table.to_numpy())
    return (
        ours,
        peer,
        f"from long arrays {again * 1e3:.0f} ms, counts alone {counts * 1e3:.0f} ms; {size:.1f} "
        f"bytes a rating; same counts: {same}",
    )


BENCHMARKS = [
    annotations,
    temperature_scaling,
    loss_decomposition,
    vector_scaling_10,
    vector_scaling_100,
    structured_matrix_scaling_10,
    structured_matrix_scaling_100,
    matrix_scaling_10,
    matrix_scaling_100,
    alpha_calibration,
    interval,
    scorer_1000,
    scorer_10000,
    scorer_100000,
]


def main() -> None:
    asked = sys.argv[1:]
    for benchmark in BENCHMARKS:
        if asked and not any(part in benchmark.__name__ for part in asked):
            continue
        print(f"{benchmark.__name__}: {benchmark.__doc__}")
        try:
            ours, peer, note = benchmark()
        except ImportError as error:
            print(f"  not run: {error}; pip install -r benchmarks/requirements.txt\n")
            continue
        print(
            f"  ratio {peer / ours:5.1f}   ours {ours * 1e3:7.1f} ms   peer {peer * 1e3:7.1f} ms   "
            f"{note}\n"
        )


if __name__ == "__main__":
    main()
