"""Searches for the minimum of a smooth function of parameters x (p,), convex or not."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from .checks import warn_unconverged
from .types import Floats

# The decrement, by which a last step would lower a quadratic function, nats.
_TOLERANCE = 1e-10
_MOST = 100
# No step moves a parameter by more; a step is halved so often, until the function falls by this
# share of its decrement (Armijo's rule).
_LONGEST_STEP = 5.0
_HALVINGS = 34
_LEAST_SHARE = 1e-4


def newton(terms: Callable[[Floats], tuple[float, Floats, Floats]], x: Floats) -> Floats:
    """The minimum near x (p,) of the function of which `terms` gives value, gradient and Hessian.

    Each step descends: eigenvalues of the Hessian are taken by their absolute values. Without that,
    and without halved steps, Newton's method diverges on these problems.
    """
    f, g, H = terms(x)
    for _ in range(_MOST):
        values, vectors = np.linalg.eigh(H)
        size = np.abs(values)
        # along null directions nothing is to gain
        curved = size > 1e-12 * size.max() + 1e-300
        V = vectors[:, curved]
        step = -V @ ((V.T @ g) / size[curved])
        decrement = -float(g @ step) / 2
        if decrement <= _TOLERANCE:
            # the last step needs no evaluation
            return x + step if np.all(np.abs(step) < 1) else x
        scale = min(1.0, _LONGEST_STEP / np.abs(step).max())
        for share in scale * 0.5 ** np.arange(_HALVINGS):
            trial = terms(x + share * step)
            if trial[0] <= f - _LEAST_SHARE * share * decrement:
                break
        else:
            break
        x = x + share * step
        f, g, H = trial
    # rounding hides a rest, but not much
    if decrement > 1e-6 * (1 + abs(f)):
        warn_unfinished()
    return x


def lbfgs(terms: Callable[[Floats], tuple[float, Floats]], x: Floats, tol: float = 1e-9) -> Floats:
    """The minimum near x of the function of which `terms` gives value and gradient, by SciPy.

    It ends where no entry of the gradient is larger than `tol`, or where rounding leaves no smaller
    value.
    """
    options = {"maxiter": 1000, "maxfun": 10_000, "maxcor": 20, "gtol": tol, "ftol": 1e-16}
    result = minimize(terms, x, jac=True, method="L-BFGS-B", options=options)
    # too many steps
    if result.status == 1:
        warn_unfinished()
    return result.x


def warn_unfinished(remedy: str = "calibrate on more samples") -> None:
    """What is said where no minimum was reached."""
    warn_unconverged(f"The search for the parameters stopped before its minimum; {remedy}.")
