"""Solvers, each with one method that solves a problem."""

import warnings
from collections.abc import Iterable
from functools import cached_property

import numpy as np
import torch
from scipy.linalg import cho_solve
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from tqdm.auto import tqdm

from .._utils.arrays import Floats
from .._utils.checks import check_not_negative, check_positive_int
from .._utils.devices import check_device, seeded
from .._utils.problems import Problem, Solver, Training, Vector
from .._utils.types import Seed
from ._training import TensorRows, early_stopping, held_out, penalised_loss, train

# The share of its decrement by which a Newton step lowers the objective at least: Armijo's rule.
_LEAST_SHARE = 1e-4
# A Newton step moves no parameter by more.
_LONGEST_STEP = 5.0
# Stages before the last one only make a start: they end at this gradient or decrement, nats.
_ROUGH = 1e-4
# Pivots, over the largest, above which a matrix is positive definite beyond doubt.
_LEAST_PIVOT = 1e-4
# Epochs lower the held-out loss by less than this share where training has converged.
_FLAT = 1e-3


class TorchProblem(Problem):
    """The loss of a torch module on rows; derivatives by automatic differentiation.

    Parameters
    ----------
    module, loss, inputs, counts, weight
        As in `Training`. A `PenalisedModule` adds its penalty to the loss.
    """

    def __init__(self, module: nn.Module, loss: nn.Module, inputs: dict, counts, weight=None):
        self._training = Training(module.double(), loss, inputs, counts, weight)

    @cached_property
    def _rows(self) -> TensorRows:
        """A copy of the rows, which problems in closed form do without."""
        _, loss, inputs, counts, weight = self._training
        return TensorRows(loss, inputs, counts, weight)

    @property
    def start(self):
        """The parameters of the module as they are."""
        return _parameters(self._training.module)

    def gradient(self, x):
        """Value and gradient of the loss of all rows."""
        value, slopes = self._slopes(x)
        return value.item(), parameters_to_vector(slopes).numpy()

    def hessian(self, x):
        """Value, gradient and Hessian: a second pass for each of p parameters, which are few."""
        value, slopes = self._slopes(x, create_graph=True)
        slope = parameters_to_vector(slopes)
        parameters = list(self._training.module.parameters())
        rows = [torch.autograd.grad(one, parameters, retain_graph=True) for one in slope]
        H = torch.stack([parameters_to_vector(row) for row in rows])
        return value.item(), slope.detach().numpy(), H.numpy()

    def _slopes(self, x, create_graph: bool = False):
        """The loss at x, and its gradient by parameter."""
        module = self._training.module
        loss = self._training.loss
        with torch.no_grad():
            vector_to_parameters(torch.as_tensor(x), module.parameters())
        inputs, (counts, weight) = self._rows[:]
        value = penalised_loss(module, loss, module(**inputs), counts, weight)
        parameters = list(module.parameters())
        return value, torch.autograd.grad(value, parameters, create_graph=create_graph)

    def training(self):
        """The module and its rows."""
        return self._training


def _parameters(module: nn.Module) -> Vector:
    return parameters_to_vector(module.parameters()).detach().numpy().copy()


class Newton(Solver):
    """Safeguarded Newton iterations, for maps with few parameters.

    Every step descends, also where the objective is not convex: there eigenvalues of the Hessian
    are taken by their absolute values. Steps are halved until the objective falls; without that,
    Newton's method diverges on these problems.

    Parameters
    ----------
    max_iter : int, default=100
        Most iterations; more raise a ConvergenceWarning.
    tol : float, default=1e-10
        Iterations end with the step whose decrement, by how much it would lower a quadratic
        objective, is less than this, in nats per label or row. What it leaves is far smaller still,
        as convergence is quadratic.

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
        check_positive_int(max_iter=self.max_iter)
        check_not_negative(tol=self.tol)
        x = problem.start
        *rough, last = problem.stages
        for stage in rough:
            x = self._descend(stage, x, max(self.tol, _ROUGH / 100), verbose)
        return self._descend(last, x, self.tol, verbose)

    def _descend(self, problem: Problem, x: Vector, tol: float, verbose: int) -> Vector:
        f, g, H = problem.hessian(x)
        steps: Iterable = range(self.max_iter)
        if verbose:
            steps = tqdm(steps, desc="Newton", leave=False)
        for _ in steps:
            step = -_solved(H, g)
            decrement = -float(g @ step) / 2
            if decrement <= tol:
                # The function is quadratic here: the last step needs no evaluation.
                is_quadratic = tol <= _ROUGH and np.all(np.abs(step) < 1)
                return x + step if is_quadratic else x
            found = _lower(problem, x, f, step, decrement)
            if found is None:
                # Rounding hides the rest, unless there was much to gain.
                if decrement > 1e-6 * (1 + abs(f)):
                    message = "Newton found no step that lowers the objective; use solver=LBFGS()."
                    warnings.warn(message, ConvergenceWarning, stacklevel=3)
                return x
            x, (f, g, H) = found
        warnings.warn(
            f"Newton stopped after max_iter={self.max_iter} iterations; raise max_iter, "
            "or use solver=LBFGS().",
            ConvergenceWarning,
            stacklevel=3,
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
    """L-BFGS on all rows at once, in float64.

    Parameters
    ----------
    max_iter : int, default=1000
        Most iterations; more raise a ConvergenceWarning.
    tol : float, default=1e-9
        Iterations end where no entry of the gradient is larger than this, in nats per label or row.

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
        check_positive_int(max_iter=self.max_iter)
        check_not_negative(tol=self.tol)
        x = problem.start
        *rough, last = problem.stages
        for stage in rough:
            x = self._descend(stage, x, max(self.tol, _ROUGH), verbose)
        return self._descend(last, x, self.tol, verbose)

    def _descend(self, problem: Problem, x: Vector, tol: float, verbose: int) -> Vector:
        position, pulled, size = problem.coordinates(x)

        def objective(s):
            value, slope = problem.gradient(position(s))
            return value, pulled(slope)

        most = 10 * self.max_iter
        # The search ends by `tol`, or where rounding leaves no smaller value.
        options = {
            "maxiter": self.max_iter,
            "maxfun": most,
            "maxcor": 20,
            "gtol": tol,
            "ftol": 1e-16,
        }
        with tqdm(desc="L-BFGS", disable=not verbose, leave=False) as bar:
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
                stacklevel=3,
            )
        return position(found.x)


class Adam(Solver):
    """Mini-batches with Adam and early stopping, on CPU or GPU, through skorch.

    The defaults are those of P1: a fifth of the rows is held out, and the weights with the best
    loss on it are kept. They suit thousands of rows, as a parameter moves by no more than the
    learning rate in a step. The gradient of a batch is, on average, that of all rows, also where
    rows have different numbers of labels.

    With batches and a constant learning rate the parameters go on to fluctuate about the optimum:
    the smaller the rate, the less. On all rows at once (``batch_size=-1``), without early stopping
    and with enough epochs, they agree with those of `LBFGS` to four decimals.

    Parameters
    ----------
    learning_rate : float, default=0.001
    batch_size : int, default=128
        -1: all rows at once.
    max_epochs : int, default=50
        A ConvergenceWarning says where the loss of the held-out rows was still falling then.
    early_stopping : int or None, default=10
        Patience: epochs without a new minimum of the held-out rows' loss. None: all epochs, on all
        rows.
    device : str, default="cpu"
        "cpu" or "cuda".

    Examples
    --------
    >>> Adam(max_epochs=100)
    Adam(max_epochs=100)
    """

    def __init__(
        self,
        learning_rate: float = 1e-3,
        batch_size: int = 128,
        max_epochs: int = 50,
        early_stopping: int | None = 10,
        device: str = "cpu",
    ) -> None:
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.early_stopping = early_stopping
        self.device = device

    def solve(self, problem: Problem, *, random_state: Seed = None, verbose: int = 0) -> Floats:
        """Train the module of the problem, in place.

        Parameters
        ----------
        problem : problem with a method ``training``
        random_state : int, RandomState or None, default=None
            An int makes the result reproducible and leaves torch's generators alone. None draws
            from them.
        verbose : int, default=0
            Above 0: a line an epoch.

        Returns
        -------
        x : ndarray of shape (p,)
            The parameters of the module, one after the other.
        """
        self._check()
        module, loss, inputs, counts, weight = problem.training()
        options = {
            "optimizer": torch.optim.Adam,
            "lr": self.learning_rate,
            "batch_size": self.batch_size,
            "max_epochs": self.max_epochs,
            "device": self.device,
        }
        if self.early_stopping is not None:
            options["train_split"] = held_out
            options["callbacks"] = [early_stopping(self.early_stopping)]
        with seeded(random_state, self.device):
            rows = TensorRows(loss, inputs, counts, weight)
            net = train(module, loss, rows, options, verbose)
        net.module_.to("cpu")
        self._check_convergence(net.history)
        return _parameters(module)

    def _check(self):
        check_device(self.device)
        check_not_negative(learning_rate=self.learning_rate)
        check_positive_int(max_epochs=self.max_epochs)
        if self.batch_size != -1:
            check_positive_int(batch_size=self.batch_size)
        if self.early_stopping is not None:
            check_positive_int(early_stopping=self.early_stopping)

    def _check_convergence(self, history):
        """Warn where the last epochs, as many as the patience, still lowered the held-out loss."""
        if self.early_stopping is None or not self.early_stopping < len(history) == self.max_epochs:
            return
        loss = history[:, "valid_loss"]
        before = min(loss[: -self.early_stopping])
        if before - min(loss) > _FLAT * abs(before):
            warnings.warn(
                f"Adam stopped after max_epochs={self.max_epochs} while the held-out loss was "
                "still falling; raise max_epochs or learning_rate.",
                ConvergenceWarning,
                stacklevel=3,
            )
