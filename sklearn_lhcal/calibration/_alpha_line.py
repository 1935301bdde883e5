"""log α0 = w·h + c on rows with features h: its problem, its optimum, and whether h pays."""

import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from .._utils.arrays import Floats
from .._utils.devices import on_cpu
from .._utils.problems import Problem
from .._utils.simplex import gini, row_sum
from ..neural_network import LBFGS, Adam, Newton
from ..neural_network._solvers import TorchProblem
from ._rows import CalibrationRows

# The concentration that stands for an infinite one, and a log α0 from which it can be seen.
MAX_LOG_TOTAL = np.log(1e12)
_FAR = 20.0
# Labels that stand for infinitely many.
_MANY = 1e9
# Rows above which a search starts from the optimum of a part of them, of 50 a parameter at least,
# and features are kept unjudged: they cost less than a hundredth of a nat.
_SAMPLE = 5_000
_A_PARAMETER = 50
# Features, and rows, at a time: what is made of them stays in cache.
_BLOCK = 2**19
_ROWS = 4_096
_FOLDS = 5
# Bins of rows predicted alike, of so many rows at least; in them observed disagreement is too much
# by so many standard errors, and in all by this part of itself.
_BINS = 5
_LEAST_ROWS = 10
_ERRORS = 3.0
_SHARE = 0.1


class Concentration(NamedTuple):
    """log α0 of features: ``w·hidden(h) + c``."""

    hidden: nn.Module
    coef: Floats
    intercept: float

    @classmethod
    def constant(cls, log_total: float, n_features: int) -> "Concentration":
        """One log α0 for all rows, whatever their features."""
        return cls(nn.Identity(), np.zeros(n_features), log_total)

    def log_total(self, h: "Floats | Standardised") -> Floats:
        """Log α0 of rows, (n,), or of members, (n, S), from features (…, f)."""
        found = np.empty(h.shape[:-1])
        for start in range(0, len(found), _ROWS):
            rows = slice(start, start + _ROWS)
            with torch.no_grad(), on_cpu():
                hidden = self.hidden(torch.as_tensor(h[rows])).numpy()
            found[rows] = hidden @ self.coef + self.intercept
        return np.clip(found, -MAX_LOG_TOTAL, MAX_LOG_TOTAL)


class Standardised:
    """Features (h − mean)/scale, which are made of the rows that are asked for, and not kept."""

    def __init__(self, h: Floats, mean: Floats, scale: Floats):
        self._h = h
        self.mean = mean
        self.scale = scale

    @classmethod
    def of(cls, h: Floats) -> "Standardised":
        """By the mean and the standard deviation of all rows and members; 1 where it is 0."""
        flat = h.reshape(-1, h.shape[-1])
        mean = flat.mean(axis=0)
        return cls(h, mean, _scale(flat, mean))

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, f), or (n, S, f) for members."""
        return self._h.shape

    def __len__(self) -> int:
        return len(self._h)

    def __getitem__(self, rows) -> Floats:
        h = self._h[rows] - self.mean
        h /= self.scale
        return h

    def __array__(self, dtype=None, copy=None) -> Floats:
        # what trains on tensors has all of them
        return self[:].astype(dtype or np.float64, copy=False)

    def take(self, rows) -> "Standardised":
        """The features of some rows, still by the mean and deviation of all."""
        return Standardised(self._h[rows], self.mean, self.scale)


def _scale(h: Floats, mean: Floats) -> Floats:
    """Standard deviations of features (n, f); 1 where one is constant."""
    squares = np.zeros_like(mean)
    for start in range(0, len(h), _ROWS):
        away = h[start : start + _ROWS] - mean
        squares += np.einsum("ij,ij->j", away, away)
    scale = np.sqrt(squares / len(h))
    return np.where(scale > 1e-12 * np.maximum(1.0, np.abs(mean)), scale, 1.0)


Features = Floats | Standardised
Fit = Callable[[CalibrationRows, Features], Concentration]


def is_any_spread_left(rows: CalibrationRows, likelihood: type[nn.Module]) -> bool:
    """Whether some finite constant α0 is likelier than an infinite one."""
    none = np.empty((*rows.log_proba.shape[:-1], 0))
    slope = problem_of(LogTotal(0), likelihood(0.0), rows, none).gradient(np.array([_FAR]))[1]
    return bool(slope[0] > 0)


def do_features_pay(rows: CalibrationRows, h: Features, loss: nn.Module, fits: Sequence[Fit]):
    """Whether the first fit, with features, predicts rows that are left out better than the other.

    In five folds; rows have no order.
    """
    fold = np.random.RandomState(0).permutation(len(rows)) % _FOLDS
    gain = 0.0
    for left_out in range(_FOLDS):
        train = rows.take(fold != left_out)
        test = rows.take(fold == left_out)
        h_train = h[fold != left_out]
        h_test = h[fold == left_out]
        featured, constant = (total_loss(loss, test, h_test, fit(train, h_train)) for fit in fits)
        gain += constant - featured
    return gain > 0


def are_worth_judging(n_rows: int, n_parameters: int) -> bool:
    """Whether features could cost a hundredth of a nat."""
    return n_rows <= max(_SAMPLE, _A_PARAMETER * n_parameters)


def can_be_judged(n_rows: int) -> bool:
    """Whether each fold has two rows."""
    return n_rows >= 2 * _FOLDS


def total_loss(loss, rows: CalibrationRows, h: Features, fit: Concentration) -> float:
    """The loss of each row under a fitted line, summed with the rows' weights."""
    inputs = [rows.log_proba, fit.log_total(h), _labels(rows)]
    if rows.is_ensemble:
        inputs.append(rows.log_weights)
    values = loss.row_loss(*(torch.as_tensor(np.ascontiguousarray(a)) for a in inputs))
    return float(rows.weight @ values.numpy())


def check_means(rows: CalibrationRows) -> bool:
    """Whether raters disagree more often than any α0 allows: than 1 − Σz². A warning says it.

    If z is calibrated they do not, in expectation and in any set of rows. So rows are compared in
    bins of 1 − Σz²; one of these holds the rows where z is sure.
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
    edges = np.quantile(most, np.linspace(0, 1, n_bins + 1)[1:-1]) if n_bins else np.empty(0)
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
        f"Raters of the calibration rows disagree more often than the class probabilities allow: "
        f"two of a row disagree with probability {w @ observed:.3f} where these leave "
        f"{w @ most:.3f} at most. Among rows predicted alike it is too much by {found:.3f}. The "
        "probabilities are not calibrated, and no α0 mends that: calibrate them first, as in "
        "AlphaCalibration(TemperatureScaling(…)). If they are calibrated, the raters are not "
        "exchangeable: the same two opposed readers label every row, for example.",
        stacklevel=5,
    )
    return True


def fitted(
    rows: CalibrationRows, h: Features, loss: nn.Module, module: "LogTotal", solve
) -> Concentration:
    """The optimum of w, c and hidden layers."""
    problem = problem_of(module, loss, rows, h)
    x = solve(problem, problem.default_solver)
    with torch.no_grad():
        nn.utils.vector_to_parameters(torch.as_tensor(x), module.parameters())
    return Concentration(module.hidden, module.weight.detach().numpy().copy(), module.bias.item())


def problem_of(module: "LogTotal", loss: nn.Module, rows: CalibrationRows, h: Features):
    """The problem of a line: a closed form where there is one, else a torch module."""
    simple = not rows.is_ensemble and not len(module.hidden)
    make = _LineProblem if simple else _AlphaProblem
    return make(module, loss, rows, h)


def _labels(rows: CalibrationRows) -> Floats:
    return rows.counts * (_MANY if rows.known else 1)


class _AlphaProblem(TorchProblem):
    """The mean row loss in (w, c) and in the weights of hidden layers."""

    def __init__(self, module, loss, rows: CalibrationRows, h):
        counts = _labels(rows)
        inputs = {"logits": rows.log_proba, "features": h, "log_weights": rows.log_weights}
        super().__init__(module, loss, inputs, counts, rows.weight)
        self.default_solver = LBFGS()
        if len(module.hidden):
            # Their optimum overfits.
            self.default_solver = Adam(learning_rate=0.01, max_epochs=1000)

    def hessian(self, x):
        """Refused: many weights, or a mixture that is not convex."""
        return Problem.hessian(self, x)


class _LineProblem(_AlphaProblem):
    """The same in (w, c) alone, for point predictions: rows meet only through η_i = w·h_i + c."""

    def __init__(self, module, loss, rows: CalibrationRows, h):
        super().__init__(module, loss, rows, h)
        self.default_solver = Newton()
        self.parts = module, loss, rows, h
        self.h = h
        self.w = rows.weight / rows.weight.sum()
        self.size = int(np.clip(_BLOCK // (h.shape[1] + 1), 4_096, 32_768))
        counts = self.training().counts
        self.row_losses = {}
        for begin in range(0, len(h), self.size):
            block = slice(begin, begin + self.size)
            u = torch.as_tensor(rows.log_proba[block])
            self.row_losses[begin] = loss.in_log_total(u, torch.as_tensor(counts[block]))

    @property
    def stages(self):
        """A part of the rows first, where there are many."""
        module, loss, rows, h = self.parts
        step = -(-len(h) // max(_SAMPLE, _A_PARAMETER * (h.shape[1] + 1)))
        if step < 2:
            return (self,)
        index = slice(None, None, step)
        return (_LineProblem(module, loss, rows.take(index), h[index]), self)

    def gradient(self, x):
        """Value and gradient of the mean row loss."""
        return self.hessian(x)[:2]

    def hessian(self, x):
        """Value, gradient and Hessian of the mean row loss."""

        F = 0.0
        G = np.zeros(len(x))
        H = np.zeros((len(x), len(x)))
        for start, losses in self.row_losses.items():
            rows = slice(start, start + self.size)
            h = self.h[rows]
            w = self.w[rows]
            f, g, s = (w * a.numpy() for a in losses(torch.as_tensor(h @ x[:-1] + x[-1])))
            F += f.sum()
            G += np.append(g @ h, g.sum())
            # Σ s hhᵀ = AᵀA − 2 BᵀB: a product with itself takes half the time
            A = np.sqrt(np.abs(s))[:, None] * h
            B = A[s < 0]
            H[:-1, :-1] += A.T @ A - 2 * (B.T @ B)
            H[:-1, -1] += s @ h
            H[-1, -1] += s.sum()
        H[-1, :-1] = H[:-1, -1]
        return float(F), G, H


class LogTotal(nn.Module):
    """log α0 = w·h + c for torch; hands logits and log-weights through to the loss.

    It starts at α0 = 1: w and c are 0, behind hidden layers too.
    """

    def __init__(self, n_features: int, hidden_layer_sizes=()):
        super().__init__()
        sizes = [n_features, *np.ravel(hidden_layer_sizes or ()).tolist()]
        layers = [(nn.Linear(a, b, dtype=torch.float64), nn.Tanh()) for a, b in pairwise(sizes)]
        self.hidden = nn.Sequential(*(part for layer in layers for part in layer))
        self.weight = nn.Parameter(torch.zeros(sizes[-1], dtype=torch.float64))
        self.bias = nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(
        self, logits: Tensor, features: Tensor, log_weights: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        log_total = self.hidden(features) @ self.weight + self.bias
        return (logits, log_total) if log_weights is None else (logits, log_total, log_weights)
