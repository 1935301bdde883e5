"""What trains torch modules: their problem, and Adam."""

import warnings
from functools import cached_property

import torch
from sklearn.exceptions import ConvergenceWarning
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from .._utils.arrays import Floats
from .._utils.checks import check_params
from .._utils.devices import check_device, seeded
from .._utils.problems import Problem, Solver, Training, Vector
from .._utils.types import Seed
from ._training import TensorRows, early_stopping, held_out, penalised_loss, train

# Epochs lower the held-out loss by less than this share where training has converged.
_FLAT = 1e-3


class TorchProblem(Problem):
    """The loss of a torch module on samples; derivatives by automatic differentiation.

    Parameters
    ----------
    module, loss, inputs, counts, weight
        As in `Training`. A `PenalisedModule` adds its penalty to the loss.
    """

    def __init__(self, module: nn.Module, loss: nn.Module, inputs: dict, counts, weight=None):
        self._training = Training(module.double(), loss, inputs, counts, weight)
        self.start = _parameters(module)

    @cached_property
    def _rows(self) -> TensorRows:
        """A copy of the samples, which problems in closed form do without."""
        _, loss, inputs, counts, weight = self._training
        return TensorRows(loss, inputs, counts, weight)

    def gradient(self, x):
        """Value and gradient of the loss of all samples."""
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
        """The module and its samples."""
        return self._training


def _parameters(module: nn.Module) -> Vector:
    return parameters_to_vector(module.parameters()).detach().numpy().copy()


class Adam(Solver):
    """Mini-batches with Adam and early stopping, on CPU or GPU, through skorch.

    The defaults are those of P1: a fifth of the samples is held out, and the weights with the best
    loss on it are kept. They suit thousands of samples, as a parameter moves by no more than the
    learning rate in a step. The gradient of a batch is, on average, that of all samples, also where
    samples have different numbers of labels.

    With batches and a constant learning rate the parameters go on to fluctuate about the optimum:
    the smaller the rate, the less. On all samples at once (``batch_size=-1``), without early
    stopping and with enough epochs, they agree with those of `LBFGS` to four decimals.

    Parameters
    ----------
    learning_rate : float, default=0.001
    batch_size : int, default=128
        -1: all samples at once.
    max_epochs : int, default=50
        A ConvergenceWarning says where the loss of the held-out samples was still falling then.
    early_stopping : int or None, default=10
        Patience: epochs without a new minimum of the held-out samples' loss. None: all epochs, on
        all samples.
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
        check_params(self)
        check_device(self.device)
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
