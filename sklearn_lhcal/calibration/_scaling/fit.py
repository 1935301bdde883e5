"""How an affine map is fitted: least log loss with a normal prior, averaged over its strengths.

Letters: n rows, F the log loss of a label (see `objective`), x the parameters of the map, with a
floor also η = logit e; β = 1/T; c the parameters of u' = βu.

1. The temperature, n F(β) + ½ (log β)², is least at β. The search begins at the best of a grid.
2. For each strength (s_d, s_b) the other parameters are shrunk towards c: scales with the standard
   deviation s = β s_d, biases with s = s_b. With d = 1/s²

       J(x) = n F(x) + ½ Σ d (x − c)²   is least at x̂.

3. How likely the labels are under this strength, by Laplace with H = ∂²J/∂x² at x̂:

       log evidence = −J(x̂) − ½ log det H + ½ Σ log d   over the d that the strength decides.

   The temperature alone, x = c, is the limit s → 0 and one more strength.
4. The map is that of x = Σ softmax(log evidence) x̂ over the strengths.

Each minimum is found by L-BFGS in t, x = x₀ + L⁻ᵀt, where LLᵀ is H at the start x₀ (Cholesky): in
t it is 1 there. The search for a strength begins where that for the one before ended.
"""

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from ..._ground.arrays import Floats
from ..._ground.simplex import softmax
from .._rows import CalibrationRows
from .curvature import ClassInformation, Information
from .maps import AffineMap, TemperatureMap
from .objective import LogLoss

# Standard deviations of scales (over the temperature's) and of biases. A scale of a few per cent is
# a small correction, of 1 any; ratios of three are as fine as a few hundred rows can tell.
STRENGTHS = ((0.03, 0.1), (0.1, 0.3), (0.3, 1.0))
# The log β and, with a floor, the η that are tried, on so many rows, more of ensembles, as their
# loss has many valleys.
_LOG_BETAS = np.linspace(-10, 3, 14)
_ETAS = (-6.0, -2.0)
_START_ROWS = 200
_START_ROWS_OF_MEMBERS = 2_000
# The most steps; the slope in t at which a search ends, and that above which it has failed. Half
# the square of the slope is what is left, in nats of a row.
_MOST = 2_000
_TOLERANCE = 1e-7
_FAILED = 1e-4


class Prior(NamedTuple):
    """½ Σ d (x − c)², in nats of rows; d is 0 where nothing is known.

    `is_shrunk` where the strength decides d.
    """

    center: Floats
    d: Floats
    is_shrunk: NDArray[np.bool_]


class Fit(NamedTuple):
    """A minimum x̂ with its log evidence, up to a constant; and ∂²F/∂x² there."""

    x: Floats
    log_evidence: float
    information: Information | ClassInformation


def fit_temperature(rows: CalibrationRows, floor: Floats | None) -> Floats:
    """(log β,) or, with a floor, (log β, η)."""
    loss = LogLoss(TemperatureMap(rows.n_classes), rows, floor)
    return fit(loss, shrunk(loss, 1.0, np.inf, np.inf), _best_of_grid(rows, floor)).x


def fit_shrunk(
    family: AffineMap,
    rows: CalibrationRows,
    floor: Floats | None,
    strengths: Sequence[tuple[float, float]] = STRENGTHS,
    T: Floats | None = None,
) -> Floats:
    """x averaged over the strengths by their evidence; of one strength its minimum.

    T is what `fit_temperature` finds, where that is known.
    """
    if T is None:
        T = fit_temperature(rows, floor)
    beta = np.exp(T[0])
    start = np.append(family.start(beta), T[1:])
    loss = LogLoss(family, rows, floor)
    priors = [shrunk(loss, beta, *strength) for strength in sorted(strengths)]
    if len(priors) == 1:
        return fit(loss, priors[0], start).x
    fits = [_temperature_alone(loss, priors[0], start)]
    for prior in priors:
        fits.append(fit(loss, prior, fits[-1].x, fits[-1].information))
    weights = softmax(np.array([one.log_evidence for one in fits]))
    return weights @ np.array([one.x for one in fits])


def fit_penalised(
    family: AffineMap, rows: CalibrationRows, floor: Floats | None, precision: Floats
) -> Floats:
    """x of least n F + ½ Σ precision x², in nats of rows."""
    T = fit_temperature(rows, floor)
    loss = LogLoss(family, rows, floor)
    is_shrunk = np.zeros(len(precision), dtype=bool)
    prior = _with_floor(loss, Prior(np.zeros(len(precision)), precision, is_shrunk))
    return fit(loss, prior, np.append(family.start(np.exp(T[0])), T[1:])).x


def shrunk(loss: LogLoss, beta: float, scale: float, bias: float) -> Prior:
    """About the temperature 1/β; the temperature itself, where the family has one, about 1."""
    is_shrunk = np.isfinite(loss.family.spread(1.0, 1.0, 1.0))
    spread = np.where(is_shrunk, loss.family.spread(beta, scale, bias), 1.0)
    center = np.where(is_shrunk, loss.family.start(beta), 0.0)
    return _with_floor(loss, Prior(center, spread**-2.0, is_shrunk))


def _with_floor(loss: LogLoss, prior: Prior) -> Prior:
    """With nothing about η, whose prior is a part of the log loss."""
    if loss.floor is None:
        return prior
    center, d, is_shrunk = prior
    return Prior(np.append(center, 0.0), np.append(d, 0.0), np.append(is_shrunk, False))


def fit(
    loss: LogLoss,
    prior: Prior,
    start: Floats,
    information: Information | ClassInformation | None = None,
) -> Fit:
    """The minimum of J; the search begins where the log loss has this information."""
    if information is None:
        information = loss.information(start)
    x = _minimised(loss, prior, start, information)
    information = loss.information(x)
    value, slope = _value(loss, prior, x)
    M = information.factor(prior.d / loss.n_rows)
    log_d = np.log(np.maximum(prior.d[prior.is_shrunk], 1e-300))
    evidence = _log_evidence(loss.n_rows, value, M.log_det, len(x)) + 0.5 * log_d.sum()
    # A last step, of Newton, takes what rounding hid from the search.
    return Fit(x - M.solved(slope), evidence, information)


def _temperature_alone(loss: LogLoss, prior: Prior, x: Floats) -> Fit:
    """The fit where x is the temperature's, and what is shrunk stays where it is."""
    information = loss.information(x)
    value, _ = _value(loss, prior, x)
    free = ~prior.is_shrunk
    log_det = 0.0
    # Of a matrix, which alone has another kind, nothing is free.
    if isinstance(information, Information):
        log_det = information.among(free).factor(prior.d[free] / loss.n_rows).log_det
    return Fit(x, _log_evidence(loss.n_rows, value, log_det, free.sum()), information)


def _log_evidence(n: float, value: float, log_det: float, p: int) -> float:
    """−J − ½ log det H, of J/n and H/n (p, p)."""
    return -n * value - 0.5 * (log_det + p * np.log(n))


def _value(loss: LogLoss, prior: Prior, x: Floats) -> tuple[float, Floats]:
    """J/n and its gradient."""
    F, G = loss(x)
    away = x - prior.center
    slope = prior.d / loss.n_rows * away
    return F + 0.5 * float(slope @ away), G + slope


def _minimised(
    loss: LogLoss, prior: Prior, start: Floats, information: Information | ClassInformation
) -> Floats:
    """x of least J/n, by L-BFGS in t: x = start + A t."""
    A = information.factor(prior.d / loss.n_rows)

    def objective(t):
        value, slope = _value(loss, prior, start + A.times(t))
        return value, A.pulled(slope)

    steps = {"maxiter": _MOST, "maxfun": 2 * _MOST, "maxcor": 20}
    options = {**steps, "gtol": _TOLERANCE, "ftol": 1e-16}
    t = np.zeros(len(start))
    found = minimize(objective, t, jac=True, method="L-BFGS-B", options=options)
    if found.status == 1 or np.abs(found.jac).max() > _FAILED:
        warnings.warn(
            f"The search for a scaling map stopped after {found.nit} iterations, before its "
            "minimum; shrink the map more (shrinkage or a penalty), or calibrate on more rows.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return start + A.times(found.x)


def _best_of_grid(rows: CalibrationRows, floor: Floats | None) -> Floats:
    """(log β,) or, with a floor, (log β, η) of least loss on a part of the rows."""
    most = _START_ROWS_OF_MEMBERS if rows.is_ensemble else _START_ROWS
    part = slice(None, None, -(-len(rows) // most))
    log_weights = rows.log_weights[part] if rows.is_ensemble else None
    some = CalibrationRows(
        rows.log_proba[part], log_weights, counts=rows.counts[part], weight=rows.weight[part]
    )
    loss = LogLoss(TemperatureMap(rows.n_classes), some, floor)
    etas = [()] if floor is None else [(eta,) for eta in _ETAS]
    grid = np.array([(log_beta, *eta) for log_beta in _LOG_BETAS for eta in etas])
    values = [loss.value(x) + 0.5 * x[0] ** 2 / rows.weight.sum() for x in grid]
    return grid[np.argmin(values)]
