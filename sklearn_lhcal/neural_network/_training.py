"""Solvers: the one place where a torch module is trained, and Newton's method for small smooth problems."""

import warnings
from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from skorch import NeuralNet
from skorch.callbacks import EarlyStopping
from skorch.utils import to_tensor
from torch import Tensor, nn
from tqdm.auto import tqdm

from .._ground.devices import check_device, seeded

Objective = Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64], NDArray[np.float64]]]


class Newton(BaseEstimator):
    """Safeguarded Newton iterations, for maps with few parameters.

    The Hessian's eigenvalues are taken by their absolute values, so that every step descends, also where the objective
    is not convex; steps are halved until the objective falls. Undamped, Newton's method diverges on these problems.

    Parameters
    ----------
    max_iter : int, default=100
        Most iterations; more raise a ConvergenceWarning.
    tol : float, default=1e-10
        The last step is the one that promises to lower the objective (nats per label or row) by less; convergence is
        quadratic, so that what it leaves is far smaller still.

    Examples
    --------
    >>> import numpy as np
    >>> def objective(x):
    ...     return np.cosh(x[0] - 2), np.sinh(x - 2), np.cosh(x - 2)[:, None]
    >>> Newton().minimize(objective, np.zeros(1)).round(6)
    array([2.])
    """

    def __init__(self, max_iter=100, tol=1e-10):
        self.max_iter = max_iter
        self.tol = tol

    def minimize(
        self, objective: Objective, x: NDArray[np.float64], verbose: int = 0
    ) -> NDArray[np.float64]:
        """Minimise; `objective` returns value, gradient of shape (p,) and Hessian of shape (p, p)."""
        f, g, H = objective(x)
        for _ in tqdm(range(self.max_iter), desc="Newton", disable=not verbose, leave=False):
            values, vectors = np.linalg.eigh(H)
            size = np.abs(values)
            curved = size > 1e-12 * size.max() + 1e-300  # along null directions nothing is to gain
            step = -vectors[:, curved] @ ((vectors[:, curved].T @ g) / size[curved])
            decrease = -(g @ step)
            if decrease <= 2 * self.tol:
                return (
                    x + step if np.all(np.abs(step) < 1) else x
                )  # quadratic: the last step needs no evaluation
            scale = first = min(1.0, 5.0 / np.abs(step).max())
            while True:
                trial = objective(x + scale * step)
                if trial[0] <= f - 1e-4 * scale * decrease:
                    break
                scale /= 2
                if scale < 1e-10 * first:  # rounding hides the rest
                    if decrease > 1e-6 * (1 + abs(f)):
                        message = (
                            "Newton found no step that lowers the objective; use solver=LBFGS()."
                        )
                        warnings.warn(message, ConvergenceWarning, stacklevel=2)
                    return x
            x, (f, g, H) = x + scale * step, trial
        warnings.warn(
            f"Newton stopped after max_iter={self.max_iter} iterations; raise max_iter, or use solver=LBFGS().",
            ConvergenceWarning,
            stacklevel=2,
        )
        return x


class LBFGS(BaseEstimator):
    """Full-batch L-BFGS with a strong-Wolfe line search, in float64, through skorch.

    Parameters
    ----------
    max_iter : int, default=1000
        Most iterations; more raise a ConvergenceWarning.
    tol : float, default=1e-9
        Stop where the largest absolute entry of the gradient (nats per label or row) is below.

    Examples
    --------
    >>> LBFGS(max_iter=50)
    LBFGS(max_iter=50)
    """

    def __init__(self, max_iter=1000, tol=1e-9):
        self.max_iter = max_iter
        self.tol = tol

    def train(
        self,
        module: nn.Module,
        loss: nn.Module,
        inputs,
        counts,
        weight=None,
        *,
        random_state=None,
        verbose=0,
    ):
        """Train the module in place on inputs (a dict of arrays whose first axis is rows); nothing here is random."""
        options = {
            "optimizer": torch.optim.LBFGS,
            "optimizer__line_search_fn": "strong_wolfe",
            "optimizer__max_iter": self.max_iter,
            "optimizer__max_eval": 10 * self.max_iter,
            "optimizer__tolerance_grad": self.tol,
            "optimizer__tolerance_change": 1e-15,
            "optimizer__history_size": 20,
        }
        net = _train(module, loss, _Rows(loss, inputs, counts, weight), options, verbose)
        state = next(iter(net.optimizer_.state.values()))
        if state["n_iter"] >= self.max_iter or state["func_evals"] >= 10 * self.max_iter:
            warnings.warn(
                f"L-BFGS stopped after max_iter={self.max_iter} iterations; raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return module


class Adam(BaseEstimator):
    """Mini-batches with Adam and early stopping, on CPU or GPU, through skorch.

    The defaults are those of P1: a fifth of the rows is held out, and the weights with the best loss on it are kept.
    They suit thousands of rows: a parameter moves by no more than the learning rate in a step. The gradient of a batch
    is, on average, that of all rows, also where rows have different numbers of labels. With batches and a constant
    learning rate the parameters go on to fluctuate about the optimum, the less the smaller the rate; without early
    stopping, on all rows at once (``batch_size=-1``) and given enough epochs, they agree with those of `LBFGS` to four
    decimals.

    Parameters
    ----------
    learning_rate : float, default=0.001
    batch_size : int, default=128
        -1: all rows at once.
    max_epochs : int, default=50
        A ConvergenceWarning says where the loss of the held-out rows was still falling then.
    early_stopping : int or None, default=10
        Patience: epochs without a new minimum of the held-out rows' loss. None: all epochs, on all rows.
    device : str, default="cpu"
        "cpu" or "cuda".

    Examples
    --------
    >>> Adam(max_epochs=100)
    Adam(max_epochs=100)
    """

    def __init__(
        self, learning_rate=1e-3, batch_size=128, max_epochs=50, early_stopping=10, device="cpu"
    ):
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.early_stopping = early_stopping
        self.device = device

    def train(
        self,
        module: nn.Module,
        loss: nn.Module,
        inputs,
        counts,
        weight=None,
        *,
        random_state=None,
        verbose=0,
    ) -> nn.Module:
        """Train the module in place on inputs (a dict of arrays whose first axis is rows); returns it.

        `random_state` makes it reproducible and leaves torch's generators alone; None draws from them.
        """
        check_device(self.device)
        options = {
            "optimizer": torch.optim.Adam,
            "lr": self.learning_rate,
            "batch_size": self.batch_size,
            "max_epochs": self.max_epochs,
            "device": self.device,
        }
        if self.early_stopping is not None:
            options["train_split"] = _held_out
            options["callbacks"] = [early_stopping(self.early_stopping)]
        with seeded(random_state, self.device):
            net = _train(module, loss, _Rows(loss, inputs, counts, weight), options, verbose)
        net.module_.to("cpu")
        self._check_convergence(net.history)
        return module

    def _check_convergence(self, history):
        """Warn where the last epochs, as many as the patience, still lowered the held-out loss, by .1 % or more."""
        if self.early_stopping is None or not self.early_stopping < len(history) == self.max_epochs:
            return
        loss = history[:, "valid_loss"]
        before, best = min(loss[: -self.early_stopping]), min(loss)
        if before - best > 1e-3 * abs(before):
            warnings.warn(
                f"Adam stopped after max_epochs={self.max_epochs} while the held-out loss was still falling; raise "
                "max_epochs or learning_rate.",
                ConvergenceWarning,
                stacklevel=2,
            )


def early_stopping(patience: int) -> EarlyStopping:
    """skorch's callback: stop after so many epochs without a new minimum, and keep the weights of the minimum."""
    return EarlyStopping(patience=patience, threshold=0, load_best=True, sink=_silent)


def _silent(*_):
    """Early stopping is told by the history, not on the screen."""


class _Net(NeuralNet):
    """skorch's loop, with targets of counts and weights, and the penalty that a map may carry."""

    def get_loss(self, y_pred, y_true, X=None, training=False):
        counts, weight = to_tensor(y_true, device=self.device)
        loss = batch_loss(self.criterion_, y_pred, counts, weight)
        return loss + self.module_.penalty() if hasattr(self.module_, "penalty") else loss


class _Rows(torch.utils.data.Dataset):
    """Inputs, counts and weights as float64 tensors; scaled weights, so that the loss is its total over n rows.

    The mean over random batches of the total over the batch's rows is then the loss, whatever sizes the batches have.
    """

    def __init__(self, loss: nn.Module, inputs: dict, counts, weight=None):
        self.loss, self.counts = loss, _tensor(counts)
        self.inputs = {name: _tensor(a) for name, a in inputs.items() if a is not None}
        weight = torch.ones(len(self), dtype=torch.float64) if weight is None else _tensor(weight)
        self.weight = scaled_weight(loss, self.counts, weight)

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, rows):
        return {name: a[rows] for name, a in self.inputs.items()}, (
            self.counts[rows],
            self.weight[rows],
        )

    def part(self, rows) -> "_Rows":
        """Some of the rows, with a scale of their own."""
        inputs, (counts, weight) = self[rows]
        return _Rows(self.loss, inputs, counts, weight)


def scaled_weight(loss: nn.Module, counts: Tensor, weight: Tensor) -> Tensor:
    """Weights times a number: the size of the loss of all n rows becomes n. Of a loss without `size`, their mean 1."""
    weight = weight / weight.max().clamp(min=torch.finfo(weight.dtype).tiny)
    size = loss.size(counts, weight) if hasattr(loss, "size") else weight.sum()
    return weight * (len(weight) / size.clamp(min=1e-30))


def batch_loss(loss: nn.Module, prediction, counts: Tensor, weight: Tensor) -> Tensor:
    """The part that a batch, with scaled weights, has in the loss of all rows: its mean over random batches is that."""
    if not hasattr(loss, "total"):
        return loss(prediction, counts, weight)
    return loss.total(prediction, counts, weight) / len(counts)


class _Batches:
    """skorch's iterator by slices of tensors: collating rows one by one costs eight times the fit. -1: all at once."""

    def __init__(self, dataset, batch_size=-1, shuffle=False, **_):
        self.rows = dataset
        self.batch_size = len(dataset) if batch_size == -1 else batch_size
        self.shuffle = shuffle

    def __iter__(self) -> Iterator:
        order = torch.randperm(len(self.rows)) if self.shuffle else torch.arange(len(self.rows))
        for index in order.split(self.batch_size):
            yield self.rows[index]


def _held_out(rows: _Rows, y=None, **_) -> tuple[_Rows, _Rows]:
    """skorch's train_split: four fifths of the rows, and the rest."""
    first, rest = torch.randperm(len(rows)).tensor_split([-(-4 * len(rows) // 5)])
    return rows.part(first), rows.part(rest)


def _train(module, loss, rows, options, verbose) -> NeuralNet:
    quiet = {} if verbose else {"callbacks__print_log": None}
    options = {"batch_size": -1, "max_epochs": 1, "train_split": None, **quiet, **options}
    net = _Net(
        module.double(),
        criterion=loss,
        iterator_train=_Batches,
        iterator_train__shuffle=options["batch_size"] != -1,
        iterator_valid=_Batches,
        verbose=verbose,
        **options,
    )
    return net.fit(rows, None)


def _tensor(a: NDArray | Tensor) -> Tensor:
    return a if isinstance(a, Tensor) else torch.as_tensor(np.array(a, dtype=np.float64))
