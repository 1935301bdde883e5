"""How far a map may leave the temperature: Laplace evidence for a few strengths, and their average.

A family of maps is shrunk to its temperature T: parameters x about those of u' = u/T, with standard
deviations s. Letters: n rows, J the loss of all rows in nats with the prior, H its Hessian.

    log evidence = −J(x̂) − ½ log det H(x̂) − Σ log s        over the parameters that are shrunk

A row with several labels counts once: its labels are alike.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from .._ground.arrays import Floats
from .._ground.simplex import softmax
from ._affine import AffineMap, TemperatureMap
from ._likelihood import ScalingProblem
from ._prior import Prior, weak_prior
from ._rows import CalibrationRows

# Standard deviations of scales (over the temperature's) and of biases. A scale of a few per cent is
# a small correction, of 1 any; ratios of three are as fine as a few hundred rows can tell.
STRENGTHS = ((0.03, 0.1), (0.1, 0.3), (0.3, 1.0))
# Parameters above which the determinant is that of the classes' blocks.
_EXACT_DETERMINANT = 500
# Nats of all rows that a search may leave at first.
_ROUGH = 10.0
# Nats by which evidence may be behind before its optimum is no longer looked for, though .6 of the
# promise λ² = gᵀH⁻¹g are added. J gains ½ λ² where it is quadratic. Where it is convex and no row's
# log-odds move by more than δ = .25 on the way, it gains at most .6 λ²: H falls to no less than
# e^(−2δt) H there, so that J falls by at most λ² δ²/(2δ − 1 + e^(−2δ)). That this δ is small and
# that log det H falls little is no theorem: the margin is for it, see the guide.
_HOPELESS = 30.0
_MOST_OF_PROMISE = 0.6
# A strength that is further behind than so many nats, with the same share of its promise, is fitted
# only as exactly as its weight w asks: 1e-10/w² nats of all rows may be left.
_MARGIN = 20.0
_FINE = 1e-10
# Nats of all rows that a step may still gain without second derivatives anew: they change the
# evidence by 1e-6 or so.
_SETTLED = 1e-10
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
        priors = [shrunk(family, beta, *strength) for strength in sorted(strengths)]
        problem = ScalingProblem(family, rows, priors[0], floor, start)
        if len(priors) == 1:
            x = solve(problem)
            return cls([Fit(problem, x, x, 0.0, 0.0)], np.ones(1))
        tight = Fit.of(problem, start)
        fits = [tight.of_temperature(), tight, *(tight.under(prior) for prior in priors[1:])]
        best = max(fit.log_evidence for fit in fits)
        # The most promising first: others mostly need no search, so far are they behind it.
        found: list[int] = []
        for j in sorted(range(1, len(fits)), key=lambda j: -fits[j].expected):
            if fits[j].ceiling < best - _HOPELESS:
                continue
            if found:
                # The optimum of a strength near this one is a start, whose Hessian is known.
                near = min(found, key=lambda i: abs(i - j))
                fits[j] = fits[near].under(priors[j - 1])
            fits[j] = fits[j].sought(solve, best)
            found.append(j)
            best = max(best, fits[j].log_evidence)
        return cls(fits, softmax(np.array([fit.expected for fit in fits])))

    def on(self, rows, floor, solve: Solve, T) -> Array:
        """The same average on almost the same rows, whose evidence would hardly be another."""
        kept = self.weights > _NEGLIGIBLE
        found = [self.fits[j].on(rows, floor, solve, T) for j in np.flatnonzero(kept)]
        return self.weights[kept] @ np.array(found) / self.weights[kept].sum()


class Fit(NamedTuple):
    """A point x, its log evidence by Laplace up to a constant, and what it may still gain.

    `loss` is J. `promise` is twice the nats that a Newton step would gain, 0 at an optimum. `known`
    is x, or a point that is hardly worse, where second derivatives are known.
    """

    problem: ScalingProblem
    x: Array
    known: Array
    loss: float
    log_evidence: float
    promise: float = 0.0
    is_temperature: bool = False

    @classmethod
    def of(cls, problem: ScalingProblem, x: Array) -> "Fit":
        """The fit at x under the prior of one strength, with its evidence."""
        at, value, log_det, promise = _expansion(problem, x)
        log_spread = np.log(problem.prior.spread[problem.family.is_shrunk]).sum()
        return cls(problem, x, at, value, -value - 0.5 * log_det - float(log_spread), promise)

    def of_temperature(self) -> "Fit":
        """Of the temperature alone, where this is its optimum: what is shrunk is fixed."""
        problem = self.problem
        n = problem.n_rows
        free = ~problem.family.is_shrunk
        if problem.floor is not None:
            free = np.append(free, True)
        log_det = 0.0
        if free.any():
            _, g, H = problem.second_derivatives(self.x)
            precision = n * problem.prior_curvature(self.x)[free]
            H = n * H[np.ix_(free, free)]
            log_det, _ = _log_det(H, n * g[free], precision, problem.is_convex)
        evidence = -self.loss - 0.5 * log_det
        return self._replace(log_evidence=evidence, promise=0.0, is_temperature=True)

    @property
    def expected(self) -> float:
        """What evidence a search would find, roughly."""
        return self.log_evidence + 0.5 * self.promise

    @property
    def ceiling(self) -> float:
        """What evidence a search would find at most, where it matters."""
        return self.log_evidence + _MOST_OF_PROMISE * self.promise

    def under(self, prior: Prior) -> "Fit":
        """The same point under another prior."""
        return Fit.of(self.problem.with_prior(prior, self.known), self.known)

    def sought(self, solve: Solve, best: float) -> "Fit":
        """The optimum, unless its evidence would be far behind the best that is known."""
        rough = max(_ROUGH, (best - self.expected) / 4)
        fit = self
        if fit.ceiling >= best - _HOPELESS and fit.promise > 2 * rough:
            fit = fit.improved(solve, rough)
        # An error of a fit is a smaller one of the average.
        fine = _FINE * float(np.expm1(2 * max(best - fit.ceiling - _MARGIN, 0.0)))
        if fit.ceiling >= best - _HOPELESS and fit.promise > 2 * fine:
            fit = fit.improved(solve, fine)
        return fit

    def improved(self, solve: Solve, excess: float) -> "Fit":
        """A search from here, which may leave so many nats."""
        problem = self.problem.with_prior(self.problem.prior, self.known, excess)
        x = solve(problem)
        if np.array_equal(x, self.known):
            return self._replace(x=x)
        return Fit.of(problem, x)

    def on(self, rows, floor, solve: Solve, T) -> Array:
        """x on almost the same rows, of which T is the temperature."""
        family = self.problem.family
        if self.is_temperature:
            return np.append(family.start(np.exp(T[0])), T[1:])
        return solve(ScalingProblem(family, rows, self.problem.prior, floor, self.x, False))


def _expansion(problem: ScalingProblem, x: Array) -> tuple[Array, float, float, float]:
    """A point that is as good as x; and there J, log det of its Hessian H, and gᵀH⁻¹g."""
    n = problem.n_rows
    if len(x) > _EXACT_DETERMINANT and problem.family.is_whitened:
        return x, *_expansion_of_blocks(problem, x)
    at = x if problem.known_at is None else problem.known_at
    value, g, H = problem.second_derivatives(at)
    step = x - at
    if n * (step @ H @ step) > max(_SETTLED, n * problem.excess):
        at = x
        value, g, H = problem.second_derivatives(x)
    H *= n
    precision = n * problem.prior_curvature(at)
    return at, n * value, *_log_det(H, n * g, precision, problem.is_convex)


def _expansion_of_blocks(problem: ScalingProblem, x: Array) -> tuple[float, float, float]:
    """The same of a matrix, whose Hessian is taken as that of the classes' blocks alone."""
    n = problem.n_rows
    value, g, A = problem.blocks(x)
    s = A.pulled(g.reshape(problem.family.K, -1))
    return n * value, len(g) * np.log(n) - 2 * A.log_det, n * float((s**2).sum())


def _log_det(H: Array, g: Array, precision: Array, is_convex: bool) -> tuple[float, float]:
    """log det H and gᵀH⁻¹g; no direction counts for less than half of what the prior leaves it.

    The prior leaves diag(precision): next to nothing of η. The loss alone is not convex where there
    is a floor, nor in log β.
    """
    least = 0.5 * precision
    # It has a factor where no direction counts for less; then H's own will do.
    if is_convex or _factor(H, -least, 0.0) is not None:
        factor = _factor(H)
        if factor is not None:
            return 2 * float(np.log(factor.diagonal()).sum()), _square(factor, g)
    units = np.sqrt(least)
    ratios = np.linalg.eigvalsh(H / np.multiply.outer(units, units))
    log_det = np.log(np.maximum(ratios, 1.0)).sum() + np.log(least).sum()
    # Now with as much curvature added as no direction then counts for less.
    factor = _factor(H, (max(1 - ratios[0], 0.0) + _LEAST_PIVOT) * least, 0.0)
    promise = np.inf if factor is None else _square(factor, g)
    return float(log_det), promise


def _factor(H: Array, more: Array | None = None, least_pivot: float = _LEAST_PIVOT):
    """The upper Cholesky factor of H + diag(more), where it has one beyond doubt."""
    A = H.copy()
    if more is not None:
        np.einsum("ii->i", A)[:] += more
    # A symmetric matrix in LAPACK's order without another copy.
    factor, failed = dpotrf(A.T, overwrite_a=1, clean=0)
    pivots = factor.diagonal()
    if failed or pivots.min() <= least_pivot * pivots.max():
        return None
    return factor


def _square(factor: Array, g: Array) -> float:
    """gᵀH⁻¹g."""
    return float(g @ dpotrs(factor, g)[0])
