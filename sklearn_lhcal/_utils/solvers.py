"""Solvers that need derivatives alone, and no torch: each has one method that solves a problem."""

import warnings
from collections.abc import Iterable

import numpy as np
from scipy.linalg import cho_solve
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from .arrays import Floats
from .checks import check_params
from .problems import Problem, Solver, Vector
from .progress import Progress
from .types import Seed

# The share of its decrement by which a Newton step lowers the objective at least: Armijo's rule.
_LEAST_SHARE = 1e-4
# A Newton step moves no parameter by more.
_LONGEST_STEP = 5.0
# The function is quadratic where a step would lower it by no more, nats.
_QUADRATIC = 1e-4
# Pivots, over the largest, above which a matrix is positive definite beyond doubt.
_LEAST_PIVOT = 1e-4


class Newton(Solver):
    """Safeguarded Newton iterations, for transforms with few parameters.

    Every step descends, also where the objective is not convex: there eigenvalues of the Hessian
    are taken by their absolute values. Steps are halved until the objective falls; without that,
    Newton's method diverges on these problems.

    Parameters
    ----------
    max_iter : int, default=100
        Most iterations; more raise a ConvergenceWarning.
    tol : float, default=1e-10
        Iterations end with the step whose decrement, by how much it would lower a quadratic
        objective, is less than this, in nats per label or sample. What it leaves is far smaller
        still, as convergence is quadratic.

    Examples
    --------
    >>> Newton(max_iter=50)
    Newton(max_iter=50)
    """

    def __init__(self, max_iter: int = 100, tol: float = 1e-10) -> None:
        self.max_iter = max_iter
        self.tol = tol

    def solve(self, problem: Problem, *, random_state: Seed = None, verbose: int = 0) -> Floats:
        """Minimise by second derivatives; nothing here is random.

        Parameters
        ----------
        problem : problem with a method ``hessian``
        random_state : ignored
        verbose : int, default=0
            Above 0: a progress bar.

        Returns
        -------
        x : ndarray of shape (p,)
        """
        check_params(self)
        x = problem.start
        f, g, H = problem.hessian(x)
        steps: Iterable = range(self.max_iter)
        if verbose:
            steps = Progress(steps, desc="Newton", leave=False)
        for _ in steps:
            step = -_solved(H, g)
            decrement = -float(g @ step) / 2
            if decrement <= self.tol:
                # The last step needs no evaluation.
                is_quadratic = self.tol <= _QUADRATIC and np.all(np.abs(step) < 1)
                return x + step if is_quadratic else x
            found = _lower(problem, x, f, step, decrement)
            if found is None:
                # Rounding hides the rest, unless there was much to gain.
                if decrement > 1e-6 * (1 + abs(f)):
                    message = "Newton found no step that lowers the objective; use solver=LBFGS()."
                    warnings.warn(message, ConvergenceWarning, stacklevel=2)
                return x
            x, (f, g, H) = found
        warnings.warn(
            f"Newton stopped after max_iter={self.max_iter} iterations; raise max_iter, "
            "or use solver=LBFGS().",
            ConvergenceWarning,
            stacklevel=2,
        )
        return x


def _solved(H: Floats, g: Vector) -> Vector:
    """H⁻¹g; where H is not positive, with eigenvalues by their absolute values.

    Along null directions nothing is to gain.
    """
    try:
        L = np.linalg.cholesky(H)
    except np.linalg.LinAlgError:
        L = np.zeros_like(H)
    pivots = L.diagonal() ** 2
    if pivots.min() > _LEAST_PIVOT * pivots.max():
        return cho_solve((L, True), g)
    values, vectors = np.linalg.eigh(H)
    size = np.abs(values)
    curved = size > 1e-12 * size.max() + 1e-300
    vectors = vectors[:, curved]
    return vectors @ ((vectors.T @ g) / size[curved])


def _lower(problem: Problem, x: Vector, f: float, step: Vector, decrement: float):
    """The next x, and the objective there: the step is halved until it lowers the objective enough.

    None where no step does.
    """
    scale = first = min(1.0, _LONGEST_STEP / np.abs(step).max())
    while scale >= 1e-10 * first:
        trial = problem.hessian(x + scale * step)
        if trial[0] <= f - _LEAST_SHARE * scale * decrement:
            return x + scale * step, trial
        scale /= 2
    return None


class LBFGS(Solver):
    """L-BFGS on all samples at once, in float64.

    Parameters
    ----------
    max_iter : int, default=1000
        Most iterations; more raise a ConvergenceWarning.
    tol : float, default=1e-9
        Iterations end where no entry of the gradient is larger than this, in nats per label or
        sample.

    Examples
    --------
    >>> LBFGS(max_iter=50)
    LBFGS(max_iter=50)
    """

    def __init__(self, max_iter: int = 1000, tol: float = 1e-9) -> None:
        self.max_iter = max_iter
        self.tol = tol

    def solve(self, problem: Problem, *, random_state: Seed = None, verbose: int = 0) -> Floats:
        """Minimise by first derivatives, in the coordinates of the problem; nothing is random.

        As in `Newton.solve`, for a problem with a method ``gradient``.
        """
        check_params(self)
        position, pulled, size = problem.coordinates(problem.start)

        def objective(s):
            value, slope = problem.gradient(position(s))
            return value, pulled(slope)

        most = 10 * self.max_iter
        # The search ends by `tol`, or where rounding leaves no smaller value.
        options = {
            "maxiter": self.max_iter,
            "maxfun": most,
            "maxcor": 20,
            "gtol": self.tol,
            "ftol": 1e-16,
        }
        with Progress(desc="L-BFGS", disable=not verbose, leave=False) as bar:
            found = minimize(
                objective,
                np.zeros(size),
                jac=True,
                method="L-BFGS-B",
                options=options,
                callback=lambda _: bar.update(),
            )
        if found.nit >= self.max_iter or found.nfev >= most:
            warnings.warn(
                f"L-BFGS stopped after max_iter={self.max_iter} iterations; raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return position(found.x)
