"""How far a map may leave the temperature: Laplace evidence for a few strengths, and their average.

A family of maps is shrunk to its temperature T: parameters x about those of u' = u/T, with standard
deviations s. Letters: n rows, J the loss of all rows in nats with the prior, H its Hessian.

    log evidence = −J(x̂) − ½ log det H(x̂) − Σ log s        over the parameters that are shrunk

A row with several labels counts once: its labels are alike.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from .._ground.arrays import Floats
from .._ground.curvature import Curvature, upper_factor
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
# Nats by which evidence may be behind before its optimum is no longer looked for, though .6 of the
# promise λ² = gᵀH⁻¹g are added. J gains ½ λ² where it is quadratic. Where it is convex and no row's
# log-odds move by more than δ = .25 on the way, it gains at most .6 λ²: H falls to no less than
# e^(−2δt) H there, so that J falls by at most λ² δ²/(2δ − 1 + e^(−2δ)). That this δ is small and
# that log det H falls little is no theorem: the margin is for it, see the guide.
_HOPELESS = 30.0
_MOST_OF_PROMISE = 0.6
# A strength that is behind by more than so many nats, with the same share of its promise, is fitted
# only as exactly as its weight w asks: 1e-14/w² nats of all rows may be left. The more is promised,
# the less is certain.
_LEAST_MARGIN = 10.0
_MARGIN = 20.0
_FINE = 1e-14
# Promised nats of all rows below which a Newton step needs no evaluation.
_QUADRATIC = 1e-5
# Nats of all rows that a step may still gain without second derivatives anew: they change the
# evidence by 1e-6 or so.
_SETTLED = 1e-10
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
        tight = Fit.of(problem, start, exact=False)
        fits = [tight.of_temperature(), tight, *(tight.under(prior) for prior in priors[1:])]
        best = max(fit.log_evidence for fit in fits)
        # The most promising first: others mostly need no search, so far are they behind it.
        for j in sorted(range(1, len(fits)), key=lambda j: -fits[j].expected):
            if fits[j].ceiling >= best - _HOPELESS:
                fits[j] = fits[j].sought(solve, best)
                fits[j].problem.forget()
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
    is x, or a point that is hardly worse, where second derivatives are known, and `log_det` that of
    H there.
    """

    problem: ScalingProblem
    x: Array
    known: Array
    loss: float
    log_evidence: float
    promise: float = 0.0
    log_det: float = 0.0
    is_temperature: bool = False

    @classmethod
    def of(cls, problem: ScalingProblem, x: Array, exact: bool = True) -> "Fit":
        """The fit at x under the prior of one strength, with its evidence.

        Not exactly: where the search begins, and the evidence only says whether it is worth it.
        """
        at, value, log_det, step, promise = _expansion(problem, x, exact)
        log_spread = np.log(problem.prior.spread[problem.family.is_shrunk]).sum()
        evidence = -value - 0.5 * log_det - float(log_spread)
        if promise <= _QUADRATIC and step.any():
            # What a search has left.
            x = at + step
        return cls(problem, x, at, value, evidence, promise, log_det)

    def of_temperature(self) -> "Fit":
        """Of the temperature alone, where this is its optimum: what is shrunk is fixed."""
        problem = self.problem
        n = problem.n_rows
        free = ~problem.family.is_shrunk
        if problem.floor is not None:
            free = np.append(free, True)
        log_det = 0.0
        if free.any():
            _, g, curvature = problem.expansion(self.known)
            own = Curvature(curvature.H[np.ix_(free, free)], curvature.d[free])
            log_det, _ = _log_det(own, g[free], problem.is_convex)
            log_det += free.sum() * np.log(n)
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
        return Fit.of(self.problem.with_prior(prior, self.known), self.known, exact=False)

    def excess(self, best: float, value: float, promise: float, curvature=None) -> float:
        """Nats that a search may leave at a point of this value J, this promise and this curvature.

        An error of a fit is a smaller one of the average. Without the curvature log det H is taken
        as it is here.
        """
        ceiling = self.log_evidence + self.loss - value + _MOST_OF_PROMISE * promise
        if curvature is not None and curvature.factor is not None:
            log_n = np.log(self.problem.n_rows)
            ceiling += 0.5 * (self.log_det - len(self.x) * log_n - curvature.log_det)
        behind = best - ceiling
        if behind > _HOPELESS:
            return np.inf
        margin = min(_MARGIN, _LEAST_MARGIN + promise)
        return _FINE * float(np.expm1(2 * max(behind - margin, 0.0)))

    def sought(self, solve: Solve, best: float) -> "Fit":
        """The optimum, unless its evidence would be far behind the best that is known."""
        fit = self
        # A second search, where the first ended early by an outdated log det H.
        for least in (0.0, _QUADRATIC):
            if fit.promise > 2 * max(fit.excess(best, fit.loss, fit.promise), least):
                fit = fit.improved(solve, best)
        return fit

    def improved(self, solve: Solve, best: float) -> "Fit":
        """A search from here, which ends early where it would change nothing."""
        excess = partial(self.excess, best)
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


def _expansion(
    problem: ScalingProblem, x: Array, exact: bool
) -> tuple[Array, float, float, Array, float]:
    """A point that is as good as x; and there J, log det of its Hessian H, −H⁻¹g, and gᵀH⁻¹g."""
    n = problem.n_rows
    if len(x) > _EXACT_DETERMINANT and problem.family.is_whitened:
        return x, *_expansion_of_blocks(problem, x)
    at = x
    if problem.known_at is not None:
        value, g, curvature = problem.expansion(problem.known_at)
        if n * curvature.along(x - problem.known_at) <= _SETTLED:
            at = problem.known_at
    value, g, curvature = problem.expansion(at)
    log_det, step = _log_det(curvature, g, problem.is_convex, exact)
    return at, n * value, len(x) * np.log(n) + log_det, step, -n * float(g @ step)


def _expansion_of_blocks(problem: ScalingProblem, x: Array) -> tuple[float, float, Array, float]:
    """The same at x of a matrix, whose Hessian is taken as that of the classes' blocks alone.

    It is too rough for a step.
    """
    n = problem.n_rows
    value, g, A = problem.blocks(x)
    s = A.pulled(g.reshape(problem.family.K, -1))
    log_det = len(g) * np.log(n) - 2 * A.log_det
    return n * value, log_det, np.zeros(len(g)), n * float((s**2).sum())


def _log_det(
    curvature: Curvature, g: Array, is_convex: bool, exact: bool = True
) -> tuple[float, Array]:
    """log det H and −H⁻¹g; no direction counts for less than half of what the prior leaves it.

    The prior leaves diag(d): next to nothing of η. The loss alone is not convex where there is a
    floor, nor in log β. What is not exact takes any positive H as it is.
    """
    H = curvature.H
    least = 0.5 * curvature.d
    # H less this has a factor where no direction counts for less; then H's own will do.
    is_sure = is_convex or not exact or upper_factor(H, least, 0.0) is not None
    if is_sure and curvature.factor is not None:
        return curvature.log_det, -curvature.solved(g)
    A = H + np.diag(curvature.d)
    if not exact:
        return float(np.linalg.slogdet(A)[1]), -curvature.solved(g)
    units = np.sqrt(least)
    ratios = np.linalg.eigvalsh(A / np.multiply.outer(units, units))
    log_det = np.log(np.maximum(ratios, 1.0)).sum() + np.log(least).sum()
    return float(log_det), -curvature.solved(g)
