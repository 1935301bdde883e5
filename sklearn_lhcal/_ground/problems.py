"""What solvers and maps agree on: problems that are solved, and solvers that solve them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from torch import nn

from .arrays import Floats
from .curvature import Curvature
from .types import Seed

Vector = Floats


class Training(NamedTuple):
    """What a torch module is trained on; the first axis of inputs is rows."""

    module: nn.Module
    loss: nn.Module
    inputs: dict
    counts: NDArray
    weight: NDArray | None = None


class Problem(ABC):
    """A function of a vector x of shape (p,), which solvers minimise.

    Each solver asks for one of three forms. A problem fills those that it has.
    """

    @property
    @abstractmethod
    def start(self) -> Vector:
        """Where the search begins, shape (p,)."""

    @property
    def stages(self) -> Sequence["Problem"]:
        """Problems to solve in turn, each from the last optimum; the last is this one."""
        return (self,)

    def excess(self, value: float, promise: float, curvature: Curvature | None = None) -> float:
        """What a search may leave above the least value, roughly; 0: as the solver's `tol` says.

        It has come to this value, and a step promises to lower it by ½ `promise`. The curvature is
        the last that was found on the way.
        """
        return 0.0

    @property
    def keeps_curvature(self) -> bool:
        """Whether second derivatives take so long that they should serve for several steps."""
        return False

    @property
    def is_whitened(self) -> bool:
        """Whether the problem knows `coordinates` in which the Hessian is nearly 1."""
        return False

    def gradient(self, x: Vector) -> tuple[float, Vector]:
        """Value, and gradient of shape (p,)."""
        value, slope, _ = self.hessian(x)
        return value, slope

    def hessian(self, x: Vector) -> tuple[float, Vector, Vector]:
        """Value, gradient of shape (p,) and Hessian of shape (p, p)."""
        raise ValueError(
            "Newton() needs second derivatives: it fits no ensembles and no hidden layers; "
            "use LBFGS()."
        )

    def curvature(self, x: Vector) -> tuple[float, Vector, Curvature]:
        """As `hessian`, with what is solved by it."""
        value, slope, H = self.hessian(x)
        return value, slope, Curvature(H)

    def training(self) -> Training:
        """A torch module whose parameters, one after the other, are x."""
        raise ValueError("Adam() needs a torch module, which this map does not offer; use LBFGS().")

    def coordinates(self, x: Vector) -> tuple[Callable, Callable, int]:
        """Coordinates s in which the Hessian is nearly 1: x(s), the gradient in s, the length of s.

        They are x itself unless a problem knows better; s = 0 is the given x.
        """
        return lambda s: x + s, lambda slope: slope, len(x)


class SmoothProblem(Problem):
    """A function in closed form.

    Parameters
    ----------
    function : callable
        Of x: value, gradient of shape (p,) and Hessian of shape (p, p).
    start : ndarray of shape (p,)
    """

    def __init__(self, function: Callable, start: Vector):
        self._function = function
        self._start = start

    @property
    def start(self):
        """Where the search begins."""
        return self._start

    def hessian(self, x: Vector) -> tuple[float, Vector, Vector]:
        """Value, gradient and Hessian."""
        return self._function(x)


class Solver(BaseEstimator, ABC):
    """What minimises a problem."""

    @abstractmethod
    def solve(self, problem: Problem, *, random_state: Seed = None, verbose: int = 0) -> Vector:
        """The x of least value, shape (p,)."""
