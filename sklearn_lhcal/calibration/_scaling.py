"""Scaling of logits: u' = u/T (P1 App. D.1, P4 §5)."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from .._simplex import row_sum, softmax
from ..distributions import PointMass
from ..neural_network import LBFGS, LabelLogLoss, Newton
from ._base import _BaseCalibrator

_SAMPLE = 20_000  # rows above which Newton starts from the optimum of a part of them


class TemperatureScaling(_BaseCalibrator):
    """Divides the logits by one positive temperature, fitted on label histograms.

    ``u' = u/T``; T minimises the log loss per label, a convex problem in 1/T, solved to optimality. The argmax never
    changes. The map sees log-probabilities, so that ``"logits"`` and ``"proba"`` name one model.

    Parameters
    ----------
    estimator : classifier, default=None
        What to calibrate: any scikit-learn classifier (None: LogisticRegression), a skorch net, a FrozenEstimator (then
        all data goes to calibration), another calibrator, or ``"logits"`` / ``"proba"`` where X holds the outputs of a
        model that ran elsewhere.
    cv : int, splitter, list of splits or "holdout", default=None
        How the classifier's out-of-fold predictions are made. None: what a wrapped calibrator says, else 5 folds. An
        int stratifies by majority vote. "holdout": fit on 80 %, calibrate that model on the rest, no refit.
    solver : Newton, LBFGS or None, default=None
        None: Newton for point predictions, L-BFGS around ensembles.
    random_state : int, RandomState or None, default=None
        Seed of the holdout split.
    verbose : int, default=0
        Above 0: progress bars.

    Attributes
    ----------
    temperature_ : float
        T; above 1 where the classifier was overconfident.
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.
    estimator_ : classifier
        The fitted classifier.

    References
    ----------
    Guo, Pleiss, Sun and Weinberger (2017), On calibration of modern neural networks.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    >>> counts = [[3, 1], [3, 1], [1, 3]]
    >>> calibrator = TemperatureScaling("logits").fit(logits, counts)
    >>> calibrator.predict_proba(logits[:1]).round(3)
    array([[0.75, 0.25]])
    """

    def _fit_map(self, logits, features, counts, weight, log_weights=None):
        solver = self.solver or (Newton() if logits.ndim == 2 else LBFGS())
        if isinstance(solver, Newton):
            if logits.ndim == 3:
                raise ValueError("Newton() fits point predictions; around an ensemble use LBFGS().")
            theta = self._newton(solver, logits, np.asarray(counts), weight)
        else:
            inputs = {"logits": logits, "log_weights": log_weights}
            if logits.ndim == 3:
                inputs = {"logits": np.moveaxis(logits, 0, 1), "log_weights": log_weights.T}
            module = _Temperature()
            options = {"random_state": self.random_state, "verbose": self.verbose}
            solver.train(module, LabelLogLoss(), inputs, counts, weight, **options)
            theta = module.log_beta.item()
        self.temperature_ = float(np.exp(-theta))

    def _newton(self, solver, u, y, w):
        v = u - u.max(axis=1, keepdims=True)
        y = y.astype(np.float64) if w is None else y * w[:, None]
        theta = np.zeros(1)
        step = -(-len(v) // _SAMPLE)
        if step > 1:
            theta = solver.minimize(lambda t: _objective(t, v[::step], y[::step]), theta)
        return solver.minimize(lambda t: _objective(t, v, y), theta, verbose=self.verbose)[0]

    def _map(self, logits, features):
        return PointMass(softmax(logits / self.temperature_))


def _objective(theta: NDArray, v: NDArray, y: NDArray) -> tuple[float, NDArray, NDArray]:
    """Log loss per label of softmax(βv), β = e^θ, with both derivatives in θ; rows of v have maximum 0.

    With m = E_β[v]:  F = Σ n·lse(βv) − β Σ y·v,  F' = Σ n·m − Σ y·v,  F'' = Σ n·Var_β[v].
    """
    beta = np.exp(theta[0])
    F = G = H = N = 0.0
    for start in range(0, len(v), 4096):
        a, c = v[start : start + 4096], y[start : start + 4096]
        n, p = row_sum(c), np.exp(beta * a)
        Z = row_sum(p)
        p *= a
        m, q, s = row_sum(p) / Z, np.einsum("ij,ij->i", p, a) / Z, np.einsum("ij,ij->", c, a)
        F += n @ np.log(Z) - beta * s
        G += n @ m - s
        H += n @ (q - m * m)
        N += n.sum()
    return F / N, np.array([beta * G / N]), np.array([[(beta * beta * H + beta * G) / N]])


class _Temperature(nn.Module):
    """The same map for torch: logits (n, K), or (n, S, K) with log-weights (n, S), to log-probabilities (n, K)."""

    def __init__(self):
        super().__init__()
        self.log_beta = nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(self, logits: Tensor, log_weights: Tensor | None = None) -> Tensor:
        log_z = torch.log_softmax(logits * self.log_beta.exp(), dim=-1)
        return log_z if log_weights is None else torch.logsumexp(log_z + log_weights[..., None], dim=1)
