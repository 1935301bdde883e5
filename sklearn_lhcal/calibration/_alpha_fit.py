"""log α0 = w·h + c on samples with features h: its likelihood, its optimum, and whether h pays.

Letters: z class probabilities and y labels of n samples (n, K), η = log α0, x = 1/α0 (P1 App. D.2).
A likelihood takes log z and y, and returns a function of η (n,): the loss of each sample, and its
first and second derivative by η. The losses are those of `DirichletMultinomialLoss` and
`PairwiseLoss`, which serve ensembles: there torch gives the slope.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, log_expit

from .._utils.arrays import row_blocks
from .._utils.checks import warn
from .._utils.rising import Terms, rising
from .._utils.search import lbfgs, newton
from .._utils.simplex import gini, row_sum
from .._utils.types import Floats
from ._rows import CalibrationRows

RowLoss = Callable[[Floats], Terms]
Likelihood = Callable[[Floats, Floats], RowLoss]

# The concentration that stands for an infinite one, and a log α0 from which it can be seen.
MAX_LOG_TOTAL = np.log(1e12)
_FAR = 20.0
# Labels that stand for infinitely many.
_MANY = 1e9
# Samples, of 50 a parameter at least, above which features are kept unjudged: they cost less than a
# hundredth of a nat.
_SAMPLE = 5_000
_A_PARAMETER = 50
_FOLDS = 5
# Bins of samples predicted alike, of so many samples at least; in them observed disagreement is too
# much by so many standard errors, and in all by this part of itself.
_BINS = 5
_LEAST_ROWS = 10
_ERRORS = 3.0
_SHARE = 0.1

# Beyond, where all is flat, powers of α0 overflow.
_MOST = 500.0


def dirichlet_multinomial(log_z: Floats, y: Floats) -> RowLoss:
    """−log of the Dirichlet-multinomial likelihood, without its coefficient."""
    n = row_sum(y)
    one = np.ones_like(n)
    # without labels a class adds nothing
    i, k = np.nonzero(y)
    z, y = np.exp(log_z[i, k]), y[i, k]

    def loss(eta):
        x = np.exp(-eta)
        classes = [np.bincount(i, a, len(n)) for a in rising(z, x[i], y)]
        whole = rising(one, x, n)
        return tuple(b - a for a, b in zip(classes, whole, strict=True))

    return loss


def pairwise(log_z: Floats, y: Floats) -> RowLoss:
    """−log of the likelihood of pairs of raters, the mean over the pairs of a sample.

    With p = α0/(α0+1), −log(p z_k + 1−p) has the derivatives r_k = p(1−p)(1−z_k)/(p z_k + 1−p) and
    (1−2p + r_k)·r_k.
    """
    n = row_sum(y)[:, None]
    pairs = np.maximum(n * (n - 1), 1.0)
    # shares of the pairs that agree on k, and half of those split on k
    agree = y * (y - 1) / pairs
    split = y * (n - y) / pairs
    share = agree + 2 * split
    fixed = -row_sum(np.where(share > 0, share * log_z, 0.0))
    split = row_sum(split)
    i, k = np.nonzero(agree)
    agree, z = agree[i, k], np.exp(log_z[i, k])

    def loss(eta):
        eta = np.clip(eta, -_MOST, _MOST)
        p, rest = expit(eta), expit(-eta)
        q = p[i] * z + rest[i]
        r = (p * rest)[i] * (1 - z) / q
        terms = -np.log(q), r, r * ((rest - p)[i] + r)
        alike = [np.bincount(i, agree * a, len(eta)) for a in terms]
        value = fixed - split * (np.log(2) + log_expit(eta))
        return value + alike[0], alike[1] - split * rest, alike[2] + split * p * rest

    return loss


class Concentration(NamedTuple):
    """log α0 = w·h + c of features h."""

    coef: Floats
    intercept: float

    @classmethod
    def constant(cls, log_total: float, n_features: int) -> "Concentration":
        """One log α0 for all samples, whatever their features."""
        return cls(np.zeros(n_features), log_total)

    def log_total(self, h: Floats) -> Floats:
        """Log α0 of samples, (n,), or of members, (n, S), from features (…, f)."""
        return np.clip(h @ self.coef + self.intercept, -MAX_LOG_TOTAL, MAX_LOG_TOTAL)


def standardised(h: Floats) -> tuple[Floats, Floats, Floats]:
    """Features (h − mean)/scale, with the mean and the standard deviation of samples and members.

    The scale is 1 where a feature is constant.
    """
    flat = h.reshape(-1, h.shape[-1])
    mean = flat.mean(axis=0)
    scale = flat.std(axis=0)
    scale = np.where(scale > 1e-12 * np.maximum(1.0, np.abs(mean)), scale, 1.0)
    h = h - mean
    # in place: features may fill half of the memory
    h /= scale
    return h, mean, scale


Fit = Callable[[CalibrationRows, Floats], Concentration]


class Objective(NamedTuple):
    """The mean over samples of a likelihood, plus ``penalty·(log α0)²``."""

    likelihood: Likelihood
    penalty: float

    def labels(self, rows: CalibrationRows) -> Floats:
        """Those of the samples; known probabilities are as many as infinitely many."""
        return rows.counts * (_MANY if rows.known else 1)

    def fitted(self, rows: CalibrationRows, h: Floats) -> Concentration:
        """The optimum of w and c, from α0 = 1 for all samples."""
        start = np.zeros(h.shape[-1] + 1)
        x = (lbfgs if rows.is_ensemble else newton)(self.terms(rows, h), start)
        return Concentration(x[:-1], float(x[-1]))

    def terms(self, rows: CalibrationRows, h: Floats) -> Callable[[Floats], tuple]:
        """Value and gradient in x = (w, c), of point predictions the Hessian, too."""
        if rows.is_ensemble:
            return _ensemble_terms(rows, h, self)
        w = rows.weight / rows.weight.sum()
        losses = self.likelihood(rows.log_proba, self.labels(rows))

        def terms(x):
            # samples meet only through η_i = w·h_i + c
            eta = h @ x[:-1] + x[-1]
            f, g, s = losses(eta)
            f = w * (f + self.penalty * eta**2)
            g = w * (g + 2 * self.penalty * eta)
            s = w * (s + 2 * self.penalty)
            return float(f.sum()), np.append(g @ h, g.sum()), _bordered(h, s)

        return terms

    def total(self, rows: CalibrationRows, log_total: Floats) -> float:
        """The loss of each sample at log α0, summed with the samples' weights."""
        if rows.is_ensemble:
            return float(rows.weight @ _member_losses(rows, self)(log_total).numpy())
        values, *_ = self.likelihood(rows.log_proba, self.labels(rows))(log_total)
        return float(rows.weight @ (values + self.penalty * log_total**2))


def _member_losses(rows: CalibrationRows, objective: Objective) -> Callable:
    """The loss of each sample (n,) as a function of log α0 of the members (n, S)."""
    import torch

    from ..neural_network import DirichletMultinomialLoss, PairwiseLoss

    kind = PairwiseLoss if objective.likelihood is pairwise else DirichletMultinomialLoss
    loss: Any = kind(objective.penalty)
    arrays = rows.log_proba, objective.labels(rows), rows.log_weights
    log_z, counts, log_w = (torch.as_tensor(np.ascontiguousarray(a)) for a in arrays)
    return lambda log_total: loss.row_loss(log_z, torch.as_tensor(log_total), counts, log_w)


def _ensemble_terms(rows: CalibrationRows, h: Floats, objective: Objective) -> Callable:
    """Value and gradient of the mean sample loss in x = (w, c)."""
    import torch

    losses = _member_losses(rows, objective)
    w = torch.as_tensor(rows.weight / rows.weight.sum())
    features = torch.as_tensor(h)

    def terms(x):
        at = torch.tensor(x, requires_grad=True)
        value = w @ losses(features @ at[:-1] + at[-1])
        (slope,) = torch.autograd.grad(value, at)
        return value.item(), slope.numpy()

    return terms


def is_any_spread_left(rows: CalibrationRows, likelihood: Likelihood) -> bool:
    """Whether some finite constant α0 is likelier than an infinite one."""
    none = np.empty((*rows.log_proba.shape[:-1], 0))
    _, slope, *_ = Objective(likelihood, 0.0).terms(rows, none)(np.array([_FAR]))
    return bool(slope[0] > 0)


def _bordered(h: Floats, s: Floats) -> Floats:
    """Σ_i s_i (h_i, 1)(h_i, 1)ᵀ."""
    H = np.zeros((h.shape[1] + 1, h.shape[1] + 1))
    for block in row_blocks(*h.shape):
        # Σ s hhᵀ = AᵀA − 2 BᵀB: a product with itself takes half the time
        A = np.sqrt(np.abs(s[block]))[:, None] * h[block]
        B = A[s[block] < 0]
        H[:-1, :-1] += A.T @ A - 2 * (B.T @ B)
    H[:-1, -1] = H[-1, :-1] = s @ h
    H[-1, -1] = s.sum()
    return H


def do_features_pay(
    rows: CalibrationRows, h: Floats, objective: Objective, fits: Sequence[Fit]
) -> bool:
    """Whether the first fit, with features, predicts rows that are left out better than the other.

    In five folds of two samples at least, alike in predictions, whatever the order of the samples.
    """
    if len(rows) > max(_SAMPLE, _A_PARAMETER * (h.shape[-1] + 1)):
        return True
    if len(rows) < 2 * _FOLDS:
        return False
    flat = [x.reshape(len(rows), -1) for x in (h, rows.weight, rows.counts, rows.log_proba)]
    # first by what the order of the classes does not change
    order = np.lexsort(np.concatenate([*flat, np.sort(flat[-1])], axis=1).T)
    fold = np.empty(len(rows), dtype=int)
    fold[order] = np.arange(len(rows)) % _FOLDS
    gain = 0.0
    for left_out in range(_FOLDS):
        train = rows.take(fold != left_out)
        test = rows.take(fold == left_out)
        h_train = h[fold != left_out]
        h_test = h[fold == left_out]
        lines = (fit(train, h_train) for fit in fits)
        featured, constant = (objective.total(test, line.log_total(h_test)) for line in lines)
        gain += constant - featured
    return gain > 0


def check_means(rows: CalibrationRows) -> bool:
    """Whether raters disagree more often than any α0 allows: than 1 − Σz². A warning says it.

    If z is calibrated they do not, in expectation and in any set of samples. So samples are
    compared in bins of 1 − Σz²; one of these holds the samples where z is sure.
    """
    z = np.exp(rows.log_proba)
    most = gini(z)
    if rows.is_ensemble:
        most = row_sum(np.exp(rows.log_weights) * most)
    n = row_sum(rows.counts)
    observed = gini(rows.frequencies)
    if not rows.known:
        observed = observed * n / (n - 1)
    w = rows.weight / rows.weight.sum()
    n_bins = min(_BINS, len(rows) // _LEAST_ROWS)
    levels = np.arange(1, n_bins) / max(n_bins, 1)
    edges = np.quantile(most, levels)
    index = np.searchsorted(edges, most)
    result = 0.0
    for b in range(n_bins):
        part = np.flatnonzero(index == b)
        share = w[part].sum()
        away = observed[part] - most[part]
        excess = w[part] @ away / max(share, 1e-300)
        error = np.sqrt(w[part] ** 2 @ (away - excess) ** 2) / max(share, 1e-300)
        if len(part) >= _LEAST_ROWS and excess > _ERRORS * error:
            result += share * excess
    if result <= _SHARE * float(w @ observed):
        return False
    warn(
        "Raters of the calibration samples disagree more often than the class probabilities "
        f"allow: two of a sample with probability {w @ observed:.3f} where these leave "
        f"{w @ most:.3f} at most; among samples predicted alike it is too much by {result:.3f}. "
        "Calibrate them first, as in AlphaCalibration(TemperatureScaling(…)). If they are, the "
        "raters are not exchangeable: two opposed readers label every sample, for example."
    )
    return True
