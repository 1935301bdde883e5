"""log α0 = w·h + c on samples with features h: its problem, its optimum, and whether h pays."""

import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._utils.arrays import Floats, row_blocks
from .._utils.problems import Problem
from .._utils.simplex import gini, row_sum
from .._utils.solvers import Newton
from .._utils.types import Seed
from ._alpha_likelihood import Likelihood
from ._rows import CalibrationRows

if TYPE_CHECKING:
    from torch import nn

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


class Concentration(NamedTuple):
    """log α0 of features: ``w·hidden(h) + c``, or ``w·h + c``."""

    hidden: "nn.Module | None"
    coef: Floats
    intercept: float

    @classmethod
    def constant(cls, log_total: float, n_features: int) -> "Concentration":
        """One log α0 for all samples, whatever their features."""
        return cls(None, np.zeros(n_features), log_total)

    def log_total(self, h: Floats) -> Floats:
        """Log α0 of samples, (n,), or of members, (n, S), from features (…, f)."""
        if self.hidden is not None:
            from ._alpha_torch import of_hidden

            h = of_hidden(self.hidden, h)
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
    hidden: tuple[int, ...] = ()
    random_state: Seed = None

    def labels(self, rows: CalibrationRows) -> Floats:
        """Those of the samples; known probabilities are as many as infinitely many."""
        return rows.counts * (_MANY if rows.known else 1)

    def problem(self, rows: CalibrationRows, h: Floats):
        """In closed form where there is one, else a torch module."""
        if not rows.is_ensemble and not self.hidden:
            return _LineProblem(rows, h, self)
        from ._alpha_torch import AlphaProblem

        return AlphaProblem(rows, h, self)

    def fitted(self, rows: CalibrationRows, h: Floats, solve) -> Concentration:
        """The optimum of w, c and hidden layers."""
        problem = self.problem(rows, h)
        return Concentration(*problem.solution(solve(problem, problem.default_solver)))

    def n_parameters(self, n_features: int) -> int:
        """How many numbers are fitted."""
        sizes = n_features, *self.hidden
        return sum((a + 1) * b for a, b in pairwise(sizes)) + sizes[-1] + 1

    def total(self, rows: CalibrationRows, log_total: Floats) -> float:
        """The loss of each sample at log α0, summed with the samples' weights."""
        if rows.is_ensemble:
            from ._alpha_torch import ensemble_losses

            return float(rows.weight @ ensemble_losses(rows, log_total, self))
        values, *_ = self.likelihood(rows.log_proba, self.labels(rows))(log_total)
        return float(rows.weight @ (values + self.penalty * log_total**2))


def is_any_spread_left(rows: CalibrationRows, likelihood: Likelihood) -> bool:
    """Whether some finite constant α0 is likelier than an infinite one."""
    none = np.empty((*rows.log_proba.shape[:-1], 0))
    slope = Objective(likelihood, 0.0).problem(rows, none).gradient(np.array([_FAR]))[1]
    return bool(slope[0] > 0)


def do_features_pay(
    rows: CalibrationRows, h: Floats, objective: Objective, fits: Sequence[Fit]
) -> bool:
    """Whether the first fit, with features, predicts rows that are left out better than the other.

    In five folds; samples have no order.
    """
    fold = np.random.RandomState(0).permutation(len(rows)) % _FOLDS
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


def are_worth_judging(n_rows: int, n_parameters: int) -> bool:
    """Whether features could cost a hundredth of a nat."""
    return n_rows <= max(_SAMPLE, _A_PARAMETER * n_parameters)


def can_be_judged(n_rows: int) -> bool:
    """Whether each fold has two samples."""
    return n_rows >= 2 * _FOLDS


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
    found = 0.0
    for b in range(n_bins):
        part = np.flatnonzero(index == b)
        share = w[part].sum()
        away = observed[part] - most[part]
        excess = w[part] @ away / max(share, 1e-300)
        error = np.sqrt(w[part] ** 2 @ (away - excess) ** 2) / max(share, 1e-300)
        if len(part) >= _LEAST_ROWS and excess > _ERRORS * error:
            found += share * excess
    if found <= _SHARE * float(w @ observed):
        return False
    warnings.warn(
        f"Raters of the calibration samples disagree more often than the class probabilities "
        f"allow: two of a sample disagree with probability {w @ observed:.3f} where these leave "
        f"{w @ most:.3f} at most. Among samples predicted alike it is too much by {found:.3f}. The "
        "probabilities are not calibrated, and no α0 mends that: calibrate them first, as in "
        "AlphaCalibration(TemperatureScaling(…)). If they are calibrated, the raters are not "
        "exchangeable: the same two opposed readers label every sample, for example.",
        stacklevel=5,
    )
    return True


class _LineProblem(Problem):
    """The mean sample loss in (w, c): samples meet only through η_i = w·h_i + c."""

    def __init__(self, rows: CalibrationRows, h: Floats, objective: Objective):
        self.parts = rows, h, objective
        self.default_solver = Newton()
        self.h = h
        # α0 = 1 for all samples
        self.start = np.zeros(h.shape[1] + 1)
        self.w = rows.weight / rows.weight.sum()
        self.penalty = objective.penalty
        self.losses = objective.likelihood(rows.log_proba, objective.labels(rows))

    def hessian(self, x):
        """Value, gradient and Hessian of the mean sample loss."""
        h = self.h
        eta = h @ x[:-1] + x[-1]
        f, g, s = self.losses(eta)
        f = self.w * (f + self.penalty * eta**2)
        g = self.w * (g + 2 * self.penalty * eta)
        s = self.w * (s + 2 * self.penalty)
        G = np.append(g @ h, g.sum())
        H = np.zeros((len(x), len(x)))
        for rows in row_blocks(*h.shape):
            # Σ s hhᵀ = AᵀA − 2 BᵀB: a product with itself takes half the time
            A = np.sqrt(np.abs(s[rows]))[:, None] * h[rows]
            B = A[s[rows] < 0]
            H[:-1, :-1] += A.T @ A - 2 * (B.T @ B)
        H[:-1, -1] = H[-1, :-1] = s @ h
        H[-1, -1] = s.sum()
        return float(f.sum()), G, H

    def training(self):
        """A torch module, for solvers that train one."""
        from ._alpha_torch import AlphaProblem

        return AlphaProblem(*self.parts).training()

    def solution(self, x: Floats) -> tuple[None, Floats, float]:
        """No hidden layers, w and c."""
        return None, x[:-1], float(x[-1])
