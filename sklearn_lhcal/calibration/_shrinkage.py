"""How far a map may leave the temperature: Laplace evidence for a few strengths, and their average.

A family of maps is shrunk to its temperature T: parameters x about those of u' = u/T, with standard
deviations s. Letters: n rows, J the loss of all rows in nats with the prior, H its Hessian.

    log evidence = −J(x̂) − ½ log det H(x̂) − Σ log s        over the parameters that are shrunk

A row with several labels counts once: its labels are alike.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .._ground.arrays import Floats
from .._ground.simplex import softmax
from ._affine import AffineMap, TemperatureMap
from ._likelihood import Prior, ScalingProblem, weak_prior
from ._preconditioner import class_blocks
from ._rows import CalibrationRows

# Standard deviations of scales (over the temperature's) and of biases. A scale of a few per cent is
# a small correction, of 1 any; ratios of three are as fine as a few hundred rows can tell.
STRENGTHS = ((0.03, 0.1), (0.1, 0.3), (0.3, 1.0))
# Parameters above which the determinant is that of the classes' blocks.
_EXACT_DETERMINANT = 500
# Nats of all rows that a search may leave at first, and those by which evidence may then fall
# behind before its optimum is no longer looked for: its weight is below 1e-9.
_ROUGH = 0.1
_HOPELESS = 22.0
# Pivots of a Hessian, over its largest, above which it needs no eigenvalues.
_LEAST_PIVOT = 1e-4
# Weights below which a strength is not fitted again.
_NEGLIGIBLE = 0.01

Array = Floats
Solve = Callable[[ScalingProblem], Array]


def fit_temperature(rows: CalibrationRows, floor, solve: Solve, near=None) -> Array:
    """(log β,) or, with a floor, (log β, η); the search begins at `near` where it is given."""
    family = TemperatureMap(rows.n_classes)
    return solve(ScalingProblem(family, rows, weak_prior(rows), floor, near, near is None))


def shrunk(family: AffineMap, beta: float, scale: float, bias: float) -> Prior:
    """About the temperature 1/β; the temperature itself, where the family has one, about 1."""
    free = ~family.is_shrunk
    center = np.where(free, 0.0, family.start(beta))
    spread = np.where(free, 1.0, family.spread(beta, scale, bias))
    return Prior(center, spread)


def fit_shrunk(family: AffineMap, rows, floor, solve: Solve, strengths=STRENGTHS) -> Array:
    """x averaged over the strengths by their evidence; of one strength its optimum."""
    T = fit_temperature(rows, floor, solve)
    return Average.of(family, rows, floor, solve, T, strengths).x


class Average(NamedTuple):
    """Fits of several strengths, and their weights by evidence."""

    fits: list["Fit"]
    weights: Array

    @property
    def x(self) -> Array:
        """The parameters, averaged over the strengths by their weights."""
        return self.weights @ np.array([fit.x for fit in self.fits])

    @classmethod
    def of(cls, family: AffineMap, rows, floor, solve: Solve, T, strengths=STRENGTHS) -> "Average":
        """Fits of all strengths, shrunk towards the solution T of `fit_temperature`."""
        beta = np.exp(T[0])
        start = np.append(family.start(beta), T[1:])
        # From tight to loose: each optimum is a start for the next, and its Hessian is known.
        priors = [shrunk(family, beta, *strength) for strength in sorted(strengths)]
        problem = ScalingProblem(family, rows, priors[0], floor, start)
        if len(priors) == 1:
            return cls([Fit(problem, solve(problem), 0.0)], np.ones(1))
        fits = [Fit.of_temperature(problem, start)]
        best = fits[0].log_evidence
        for prior in priors:
            problem = problem.with_prior(prior, fits[-1].x, _ROUGH)
            fit = Fit.of(problem, solve(problem))
            if fit.log_evidence > best - _HOPELESS:
                problem = problem.with_prior(prior, fit.x)
                fit = Fit.of(problem, solve(problem))
            fits.append(fit)
            best = max(best, fit.log_evidence)
        return cls(fits, softmax(np.array([fit.log_evidence for fit in fits])))

    def on(self, rows, floor, solve: Solve, T) -> Array:
        """The same average on almost the same rows, whose evidence would hardly be another."""
        kept = self.weights > _NEGLIGIBLE
        found = [self.fits[j].on(rows, floor, solve, T) for j in np.flatnonzero(kept)]
        return self.weights[kept] @ np.array(found) / self.weights[kept].sum()


class Fit(NamedTuple):
    """An optimum x, and its log evidence by Laplace up to a constant."""

    problem: ScalingProblem
    x: Array
    log_evidence: float
    is_temperature: bool = False

    @classmethod
    def of(cls, problem: ScalingProblem, x: Array) -> "Fit":
        """The fit at x under the prior of one strength, with its evidence."""
        value, log_det = _value_and_log_det(problem, x)
        log_spread = np.log(problem.prior.spread[problem.family.is_shrunk]).sum()
        return cls(problem, x, -value - 0.5 * log_det - float(log_spread))

    @classmethod
    def of_temperature(cls, problem: ScalingProblem, x: Array) -> "Fit":
        """Of the temperature alone, at its optimum x: what is shrunk is fixed."""
        n = problem.n_rows
        free = ~problem.family.is_shrunk
        if problem.floor is not None:
            free = np.append(free, True)
        if not free.any():
            return cls(problem, x, -n * problem.gradient(x)[0], True)
        value, _, H = problem.second_derivatives(x)
        precision = problem.prior_curvature(x)
        log_det = _log_det(n * H[np.ix_(free, free)], n * precision[free])
        return cls(problem, x, -n * value - 0.5 * log_det, True)

    def on(self, rows, floor, solve: Solve, T) -> Array:
        """x on almost the same rows, of which T is the temperature."""
        family = self.problem.family
        if self.is_temperature:
            return np.append(family.start(np.exp(T[0])), T[1:])
        return solve(ScalingProblem(family, rows, self.problem.prior, floor, self.x, False))


def _value_and_log_det(problem: ScalingProblem, x: Array):
    """J, and log det of its Hessian."""
    n = problem.n_rows
    if len(x) <= _EXACT_DETERMINANT or not problem.family.is_whitened:
        value, _, H = problem.second_derivatives(x)
        H *= n
        return n * value, _log_det(H, n * problem.prior_curvature(x))
    K = problem.family.K
    u, n_labels, p = problem.members(x)
    blocks = class_blocks(u, n_labels, p)
    blocks *= n
    if len(blocks) == 1:
        blocks = np.repeat(blocks, K, axis=0)
    np.einsum("kii->ki", blocks)[:] += problem.prior.precision.reshape(K, -1)
    log_det = 2 * np.log(np.einsum("kii->ki", np.linalg.cholesky(blocks))).sum()
    return n * problem.gradient(x)[0], float(log_det)


def _log_det(H: Array, precision: Array) -> float:
    """log det H, where no direction counts for less than half of what the prior leaves it.

    The prior leaves diag(precision): next to nothing of η. The loss alone is not convex where there
    is a floor, nor in log β.
    """
    least = 0.5 * precision
    try:
        # It has a factor where no direction counts for less; then H's own will do.
        np.linalg.cholesky(H - np.diag(least))
        pivots = np.diagonal(np.linalg.cholesky(H))
        if pivots.min() > _LEAST_PIVOT * pivots.max():
            return 2 * float(np.log(pivots).sum())
    except np.linalg.LinAlgError:
        pass
    units = np.sqrt(least)
    ratios = np.maximum(np.linalg.eigvalsh(H / np.multiply.outer(units, units)), 1.0)
    return float(np.log(ratios).sum() + np.log(least).sum())
