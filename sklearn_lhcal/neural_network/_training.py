"""Solvers: the one place where a torch module is trained, and Newton's method for small smooth problems."""

import warnings
from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from skorch import NeuralNet
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor, nn
from tqdm.auto import tqdm

Objective = Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64], NDArray[np.float64]]]


class Newton(BaseEstimator):
    """Safeguarded Newton iterations, for maps with few parameters.

    The Hessian's eigenvalues are taken by their absolute values, so that every step descends, also where the objective
    is not convex; steps are halved until the objective falls. Undamped, Newton's method diverges on these problems.

    Parameters
    ----------
    max_iter : int, default=100
        Most iterations; more raise a ConvergenceWarning.
    tol : float, default=1e-13
        Stop where the step promises to lower the objective (nats per label or row) by less.

    Examples
    --------
    >>> import numpy as np
    >>> def objective(x):
    ...     return np.cosh(x[0] - 2), np.sinh(x - 2), np.cosh(x - 2)[:, None]
    >>> Newton().minimize(objective, np.zeros(1)).round(6)
    array([2.])
    """

    def __init__(self, max_iter=100, tol=1e-13):
        self.max_iter = max_iter
        self.tol = tol

    def minimize(self, objective: Objective, x: NDArray[np.float64], verbose: int = 0) -> NDArray[np.float64]:
        """Minimise; `objective` returns value, gradient of shape (p,) and Hessian of shape (p, p)."""
        f, g, H = objective(x)
        for _ in tqdm(range(self.max_iter), desc="Newton", disable=not verbose, leave=False):
            values, vectors = np.linalg.eigh(H)
            size = np.abs(values)
            step = -vectors @ ((vectors.T @ g) / np.maximum(size, 1e-12 * size.max() + 1e-300))
            decrease = -(g @ step)
            if decrease <= 2 * self.tol:
                return x + step if np.all(np.abs(step) < 1) else x  # quadratic: the last step needs no evaluation
            scale = min(1.0, 5.0 / np.abs(step).max())
            while True:
                trial = objective(x + scale * step)
                if trial[0] <= f - 1e-4 * scale * decrease:
                    break
                scale /= 2
                if scale < 1e-10:  # rounding hides the rest
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

    def train(self, module: nn.Module, loss: nn.Module, inputs, counts, weight=None, *, verbose=0):
        """Train the module in place on inputs (a dict of arrays whose first axis is rows); returns it."""
        optimizer = {
            "optimizer": torch.optim.LBFGS,
            "optimizer__line_search_fn": "strong_wolfe",
            "optimizer__max_iter": self.max_iter,
            "optimizer__max_eval": 10 * self.max_iter,
            "optimizer__tolerance_grad": self.tol,
            "optimizer__tolerance_change": 0.0,
            "optimizer__history_size": 20,
        }
        net = _train(module, loss, _Rows(inputs, counts, weight), optimizer, verbose)
        state = next(iter(net.optimizer_.state.values()))
        if state["n_iter"] >= self.max_iter or state["func_evals"] >= 10 * self.max_iter:
            warnings.warn(
                f"L-BFGS stopped after max_iter={self.max_iter} iterations; raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return module


class _Net(NeuralNet):
    """skorch's loop, with targets of counts and weights, and the penalty that a map may carry."""

    def get_loss(self, y_pred, y_true, X=None, training=False):
        loss = self.criterion_(y_pred, *y_true)
        return loss + self.module_.penalty() if hasattr(self.module_, "penalty") else loss


class _Rows(torch.utils.data.Dataset):
    """Inputs, counts and weights as float64 tensors."""

    def __init__(self, inputs: dict[str, NDArray], counts: NDArray, weight: NDArray | None):
        self.inputs = {name: _tensor(a) for name, a in inputs.items() if a is not None}
        self.target = (_tensor(counts),) if weight is None else (_tensor(counts), _tensor(weight))

    def __len__(self) -> int:
        return len(self.target[0])

    def __getitem__(self, rows):
        return {name: a[rows] for name, a in self.inputs.items()}, tuple(a[rows] for a in self.target)


class _WholeBatch:
    """An iterator_train that hands skorch all rows at once: collating them one by one costs eight times the fit."""

    def __init__(self, dataset: _Rows, **_):
        self.dataset = dataset

    def __iter__(self) -> Iterator:
        yield self.dataset.inputs, self.dataset.target


def _train(module, loss, rows, optimizer, verbose) -> NeuralNet:
    net = _Net(
        module.double(),
        criterion=loss,
        iterator_train=_WholeBatch,
        train_split=None,
        max_epochs=1,
        verbose=verbose,
        callbacks=None if verbose else "disable",
        **optimizer,
    )
    return net.fit(rows, None)


def _tensor(a: NDArray) -> Tensor:
    return torch.as_tensor(np.array(a, dtype=np.float64))
