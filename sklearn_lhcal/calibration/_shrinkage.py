"""How far a map may leave the temperature: Laplace evidence for a few strengths, and their average.

A family of maps is shrunk to its temperature T: parameters x about those of u' = u/T, with standard
deviations s. Letters: n rows, J the loss of all rows in nats with the prior, H its Hessian.

    log evidence = −J(x̂) − ½ log det H(x̂) − Σ log s        over the parameters that are shrunk

A row with several labels counts once: its labels are alike.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from ._affine import AffineMap, MatrixMap, TemperatureMap
from ._likelihood import Prior, ScalingProblem, weak_prior
from ._preconditioner import class_blocks
from ._rows import CalibrationRows

# Standard deviations of scales (over the temperature's) and of biases. A scale of a few per cent is
# a small correction, of 1 any; ratios of three are as fine as a few hundred rows can tell.
STRENGTHS = ((0.03, 0.1), (0.1, 0.3), (0.3, 1.0))
# Parameters above which the determinant is that of the classes' blocks.
_EXACT_DETERMINANT = 500
# Nats by which evidence may fall behind before tighter strengths are no longer tried.
_HOPELESS = 20.0

Array = NDArray[np.float64]
Solve = Callable[[ScalingProblem], Array]


def fit_temperature(rows: CalibrationRows, floor, solve: Solve) -> Array:
    """(log β,) or, with a floor, (log β, η)."""
    family = TemperatureMap(rows.n_classes)
    return solve(ScalingProblem(family, rows, weak_prior(rows), floor))


def shrunk(family: AffineMap, beta: float, scale: float, bias: float) -> Prior:
    """About the temperature 1/β; the temperature itself, where the family has one, about 1."""
    free = np.isinf(family.spread(1.0, 1.0, 1.0))
    center = np.where(free, 0.0, family.start(beta))
    spread = np.where(free, 1.0, family.spread(beta, scale, bias))
    return Prior(center, spread)


def fit_shrunk(family: AffineMap, rows, floor, solve: Solve, strengths=STRENGTHS) -> Array:
    """x of the family, averaged over the strengths by their evidence; of one strength its optimum."""
    T = fit_temperature(rows, floor, solve)
    beta = np.exp(T[0])
    start = np.append(family.start(beta), T[1:])
    x = start
    fits = []
    problem = None
    # From loose to tight: with many rows the loosest leaves the others far behind.
    for strength in sorted(strengths, reverse=True):
        prior = shrunk(family, beta, *strength)
        if problem is None:
            problem = ScalingProblem(family, rows, prior, floor, start)
        else:
            problem = problem.with_prior(prior, x)
        x = solve(problem)
        if len(strengths) == 1:
            return x
        fits.append((log_evidence(problem, x), x))
        if fits[-1][0] < max(value for value, _ in fits) - _HOPELESS:
            break
    else:
        fits.append((log_evidence_of_temperature(problem, start), start))
    values, found = zip(*fits, strict=True)
    return softmax(values) @ np.array(found)


def log_evidence(problem: ScalingProblem, x: Array) -> float:
    """Laplace's approximation at the optimum x, up to a constant that all strengths share."""
    is_shrunk = _is_shrunk(problem)
    spread = problem.prior.spread[is_shrunk[: len(problem.prior.spread)]]
    value = problem.n_rows * problem.gradient(x)[0]
    return -value - 0.5 * _log_det(problem, x) - float(np.log(spread).sum())


def log_evidence_of_temperature(problem: ScalingProblem, x: Array) -> float:
    """Of the temperature alone, at its optimum x: what is shrunk is fixed."""
    value = problem.n_rows * problem.gradient(x)[0]
    free = ~_is_shrunk(problem)
    if not free.any():
        return -value
    H = problem.information(x)[np.ix_(free, free)]
    return -value - 0.5 * float(np.linalg.slogdet(problem.n_rows * H)[1])


def _is_shrunk(problem: ScalingProblem) -> NDArray[np.bool_]:
    """Which entries of x the strength is about: neither the temperature nor the floor."""
    finite = np.isfinite(problem.family.spread(1.0, 1.0, 1.0))
    return finite if problem.floor is None else np.append(finite, False)


def _log_det(problem: ScalingProblem, x: Array) -> float:
    """log det of the Hessian of J."""
    n = problem.n_rows
    if len(x) <= _EXACT_DETERMINANT or not isinstance(problem.family, MatrixMap):
        values = np.linalg.eigvalsh(n * problem.information(x))
        least = problem.prior.precision.min()
        return float(np.log(np.maximum(values, least)).sum())
    K = problem.family.K
    u, p = problem.members_and_probabilities(x)
    weight = np.repeat(problem.n, len(u) // len(problem.n)) / (len(u) // len(problem.n))
    H = n * class_blocks(u, weight, p)
    curvature = problem.prior.precision.reshape(K, -1)
    H = H + curvature[:, :, None] * np.eye(K + 1)
    return float(np.linalg.slogdet(H)[1].sum())
