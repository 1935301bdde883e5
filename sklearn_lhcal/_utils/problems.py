"""What solvers and transforms agree on: problems that are solved, and solvers that solve them."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from .arrays import Floats
from .types import Seed

if TYPE_CHECKING:
    from torch import nn

Vector = Floats


class Training(NamedTuple):
    """What a torch module is trained on; the first axis of inputs is samples."""

    module: "nn.Module"
    loss: "nn.Module"
    inputs: dict
    counts: NDArray
    weight: NDArray | None = None


class Problem(ABC):
    """A function of a vector x of shape (p,), which solvers minimise.

    Each solver asks for one of three forms. A problem fills those that it has.
    """

    # where the search begins, shape (p,)
    start: Vector

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

    def training(self) -> Training:
        """A torch module whose parameters, one after the other, are x."""
        raise ValueError("Adam() needs a torch module, which this calibrator lacks; use LBFGS().")

    def coordinates(self, x: Vector) -> tuple[Callable, Callable, int]:
        """Coordinates s in which to search: x(s), the gradient in s, the length of s.

        They are x itself, unless a problem knows some in which its Hessian is nearer to 1. s = 0 is
        the given x.
        """
        return lambda s: x + s, lambda slope: slope, len(x)


class Solver(BaseEstimator, ABC):
    """What minimises a problem."""

    @abstractmethod
    def solve(self, problem: Problem, *, random_state: Seed = None, verbose: int = 0) -> Vector:
        """The x of least value, shape (p,)."""
