"""α-calibration: how sure a model is of its class probabilities (P1 §5.3, App. D.2)."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from torch import Tensor, nn
from torch.nn.utils import vector_to_parameters

from .._ground.arrays import Floats
from .._ground.checks import check_not_negative, n_rows
from .._ground.devices import seeded
from .._ground.problems import Solver
from .._ground.simplex import entropy, gini
from .._ground.threads import sum_over_rows
from .._ground.types import Calibrated, Folds, Seed
from ..distributions import Dirichlet
from ..neural_network import LBFGS, Adam, DirichletMultinomialLoss, Newton, PairwiseLoss
from ..neural_network._features import forward_features
from ..neural_network._solvers import TorchProblem
from ._base import _BaseCalibrator
from ._rows import CalibrationRows

_LIKELIHOODS = {
    "dirichlet_multinomial": (DirichletMultinomialLoss, 5e-3),
    "pairwise": (PairwiseLoss, 5e-4),
}
_MAX_LOG_TOTAL = np.log(1e12)
# Labels that stand for infinitely many.
_MANY = 1e9
# Rows above which a search starts from the optimum of a part of them, of 50 a parameter at least.
_SAMPLE = 5_000
# Features at a time: what is made of them stays in cache.
_BLOCK = 2**19


class AlphaCalibration(_BaseCalibrator):
    """Adds to each prediction a Dirichlet distribution around it: how far it can be trusted.

    Class probabilities z are kept. Their total concentration ``α0 = exp(w·h + c)`` depends on
    features h of the row and is fitted on the labels of several raters: a large α0 says that the
    row is known to be ambiguous, a small one that the model is unsure while raters would agree.

    Parameters
    ----------
    estimator : classifier, default=None
        As in `TemperatureScaling`; most often a temperature scaling, so that z is calibrated first.
    features : None, "logits", layer name, callable or transformer, default=None
        h. None: log(1−Σz²) and the entropy of z, which do not depend on the order of the classes.
        "logits": the log-probabilities. Any other word: the outputs of the layer of that name of
        the torch network at the bottom, averaged over positions; it needs one network, so a
        FrozenEstimator or ``cv="holdout"``. A callable maps X to an array of shape (n_samples,
        n_features); a transformer is cloned and fitted on the calibration rows. All are
        standardised.
    likelihood : {"pairwise", "dirichlet_multinomial"}, default="pairwise"
        What is maximised: the composite likelihood of pairs of raters, or P1's likelihood of the
        histogram, which many raters per row distort. On six data sets with 2 to 50 raters a row,
        the epistemic loss after one label is between .007 smaller and .0002 larger with pairs
        (``benchmarks/alpha_likelihood.py``).
    penalty : float or None, default=None
        λ_α, weight of ``mean (log α0)²``, nats per row. None: 5e-4 for pairs, P1's 5e-3 for
        histograms, of which a row carries more information.
    hidden_layer_sizes : int or tuple of int, default=()
        Widths of hidden layers between h and log α0, with tanh units; seeded by `random_state`.
    cv, solver, random_state, verbose
        As in `TemperatureScaling`; with hidden layers, whose optimum overfits, the default solver
        is ``Adam(learning_rate=0.01, max_epochs=1000)``, stopped by a fifth of the rows.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        w, for the standardised features, or for the last hidden layer.
    intercept_ : float
        The c of log α0.
    feature_mean_, feature_scale_ : ndarray of shape (n_features,)
        What standardises the features.
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.
    estimator_ : classifier
        The fitted classifier.

    Warns
    -----
    UserWarning
        Where no calibration row has two labels, which say nothing on α0: it is then 1.

    Notes
    -----
    Rows with one label are left out of the fit; P1 keeps them, where they only add penalty.

    References
    ----------
    Mimori, Sasada, Matsui and Sato (2021), Diagnostic uncertainty calibration, eq. (49)–(51).

    Examples
    --------
    >>> import numpy as np
    >>> proba = np.array([[0.5, 0.5]] * 4)
    >>> counts = [[2, 0], [0, 2], [1, 1], [2, 0]]
    >>> dist = AlphaCalibration("proba", penalty=0.0).fit(proba, counts).predict_dist(proba[:1])
    >>> dist.disagreement().round(3)  # one pair of four disagrees
    array([0.25])
    """

    def __init__(
        self,
        estimator: Calibrated = None,
        *,
        features: str | Callable | None = None,
        likelihood: Literal["pairwise", "dirichlet_multinomial"] = "pairwise",
        penalty: float | None = None,
        hidden_layer_sizes: Sequence[int] = (),
        cv: Folds | Literal["holdout"] = None,
        solver: Solver | None = None,
        random_state: Seed = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            estimator, cv=cv, solver=solver, random_state=random_state, verbose=verbose
        )
        self.features = features
        self.likelihood = likelihood
        self.penalty = penalty
        self.hidden_layer_sizes = hidden_layer_sizes

    def _check(self, one_model):
        if self.likelihood not in _LIKELIHOODS:
            raise ValueError(
                f"likelihood must be one of {sorted(_LIKELIHOODS)}, got {self.likelihood!r}."
            )
        if self.penalty is not None:
            check_not_negative(penalty=self.penalty)
        if self._names_a_layer() and not one_model:
            raise ValueError(
                f"features={self.features!r} names a layer of one network, but each fold trains "
                "its own, whose hidden units do not correspond; use FrozenEstimator(net), or "
                'cv="holdout".'
            )
        known = self.features is None or isinstance(self.features, str) or callable(self.features)
        if not known and not hasattr(self.features, "transform"):
            raise ValueError(
                'features must be None, "logits", a layer name, a callable or a transformer, got '
                f"{self.features!r}."
            )

    def _names_a_layer(self):
        return isinstance(self.features, str) and self.features != "logits"

    def _fit_map(self, rows):
        learnt = {"feature_map_": self._fitted_features(rows)}
        h = _features(rows, learnt["feature_map_"])
        flat = h.reshape(-1, h.shape[-1])
        learnt["feature_mean_"] = mean = flat.mean(axis=0)
        learnt["feature_scale_"] = scale = _scale(flat, mean)
        h = (h - mean) / scale
        several = self._informative(rows)
        if not several.any():
            warnings.warn(
                "No calibration row has two labels, so that nothing is known on the concentration: "
                "α0 = 1. Calibrate on rows with two raters or more.",
                stacklevel=4,
            )
            unknown = {"_hidden": nn.Identity(), "coef_": np.zeros(h.shape[-1]), "intercept_": 0.0}
            return learnt | unknown
        rows = replace(rows, X=None)
        if not several.all():
            rows = rows.take(several)
            h = h[several]
        return learnt | self._fit_line(rows, h)

    def _fitted_features(self, rows):
        """What makes the features, itself fitted where it is a transformer."""
        if hasattr(self.features, "transform"):
            return clone(self.features).fit(rows.X)
        return self.features

    def _informative(self, rows) -> NDArray[np.bool_]:
        """Rows with two labels or more, and a positive weight."""
        if not rows.known:
            return (rows.counts.sum(axis=1) > 1) & (rows.weight > 0)
        if self.likelihood != "pairwise":
            raise ValueError(
                'KnownProbabilities have no histogram likelihood; use likelihood="pairwise".'
            )
        return rows.weight > 0

    def _fit_line(self, rows, h) -> dict:
        """w, c and what hidden layers there are, on informative rows with features (n, …, f)."""
        make_loss, default_penalty = _LIKELIHOODS[self.likelihood]
        penalty = default_penalty if self.penalty is None else self.penalty
        with seeded(self.random_state):
            module = _LogTotal(h.shape[-1], self.hidden_layer_sizes)
        simple = not rows.is_ensemble and not self.hidden_layer_sizes
        make_problem = _LineProblem if simple else _AlphaProblem
        problem = make_problem(module, make_loss(penalty), rows, h)
        x = self._solve(problem, problem.default_solver)
        with torch.no_grad():
            vector_to_parameters(torch.as_tensor(x), module.parameters())
        return {
            "_hidden": module.hidden,
            "coef_": module.weight.detach().numpy().copy(),
            "intercept_": module.bias.item(),
        }

    def _map(self, rows):
        log_total = self._log_total(rows)
        if rows.proba is not None and not rows.is_ensemble:
            # As it is; where it is 0, a label of that class stays possible.
            return Dirichlet.of_checked(np.maximum(rows.proba, 1e-300), log_total)
        z = np.exp(rows.of_members(rows.log_proba))
        parts = Dirichlet.from_log_total(z, rows.of_members(log_total))
        return rows.distribution(parts)

    def _log_total(self, rows):
        """log α0 of each row, (n,), or of each member, (n, S)."""
        h = (_features(rows, self.feature_map_) - self.feature_mean_) / self.feature_scale_
        with torch.no_grad():
            h = self._hidden(torch.as_tensor(h)).numpy()
        eta = h @ self.coef_ + self.intercept_
        return np.clip(eta, -_MAX_LOG_TOTAL, _MAX_LOG_TOTAL)


def _features(rows: CalibrationRows, feature_map) -> Floats:
    """h of the rows, shape (n, n_features), or (n, S, n_features) for members."""
    u = rows.log_proba
    if feature_map is None:
        z = np.exp(u)
        return np.stack([np.log(np.maximum(gini(z), 1e-6)), entropy(z)], axis=-1)
    if isinstance(feature_map, str) and feature_map == "logits":
        return u
    if isinstance(feature_map, str):
        h = forward_features(rows.model, rows.X, feature_map)
    elif hasattr(feature_map, "transform"):
        h = _matrix(feature_map.transform(rows.X), rows.X)
    else:
        h = _matrix(feature_map(rows.X), rows.X)
    if not rows.is_ensemble:
        return h
    return np.broadcast_to(h[:, None], (*u.shape[:2], h.shape[1]))


def _scale(h: NDArray, mean: NDArray) -> Floats:
    """Standard deviations of features (n, f); 1 where one is constant."""
    away = h - mean
    scale = np.sqrt(np.einsum("ij,ij->j", away, away) / len(h))
    return np.where(scale > 1e-12 * np.maximum(1.0, np.abs(mean)), scale, 1.0)


class _AlphaProblem(TorchProblem):
    """The mean row loss in (w, c) and in the weights of hidden layers."""

    def __init__(self, module, loss, rows: CalibrationRows, h):
        counts = rows.counts * (_MANY if rows.known else 1)
        inputs = {"logits": rows.log_proba, "features": h, "log_weights": rows.log_weights}
        super().__init__(module, loss, inputs, counts, rows.weight)
        self.default_solver = LBFGS()
        if len(module.hidden):
            # Their optimum overfits.
            self.default_solver = Adam(learning_rate=0.01, max_epochs=1000)


class _LineProblem(_AlphaProblem):
    """The same in (w, c) alone, for point predictions: rows meet only through η_i = w·h_i + c."""

    def __init__(self, module, loss, rows: CalibrationRows, h):
        super().__init__(module, loss, rows, h)
        self.default_solver = Newton()
        self.parts = module, loss, rows, h
        self.h = h
        self.w = rows.weight / rows.weight.sum()
        self.size = int(np.clip(_BLOCK // (h.shape[1] + 1), 4_096, 32_768))
        counts = self.training().counts
        self.row_losses = {}
        for begin in range(0, len(h), self.size):
            block = slice(begin, begin + self.size)
            u = torch.as_tensor(rows.log_proba[block])
            self.row_losses[begin] = loss.in_log_total(u, torch.as_tensor(counts[block]))

    @property
    def stages(self):
        """A part of the rows first, where there are many."""
        module, loss, rows, h = self.parts
        step = -(-len(h) // max(_SAMPLE, 50 * (h.shape[1] + 1)))
        if step < 2:
            return (self,)
        index = slice(None, None, step)
        return (_LineProblem(module, loss, rows.take(index), h[index]), self)

    def gradient(self, x):
        """Value and gradient of the mean row loss."""
        return self.hessian(x)[:2]

    def hessian(self, x):
        """Value, gradient and Hessian of the mean row loss."""

        def block(rows):
            h = self.h[rows]
            w = self.w[rows]
            eta = torch.as_tensor(h @ x[:-1] + x[-1])
            f, g, s = (w * a.numpy() for a in self.row_losses[rows.start](eta))
            H = np.empty((len(x), len(x)))
            H[:-1, :-1] = (h.T * s) @ h
            H[:-1, -1] = H[-1, :-1] = s @ h
            H[-1, -1] = s.sum()
            return f.sum(), np.append(g @ h, g.sum()), H

        F, G, H = sum_over_rows(block, len(self.h), self.size)
        return float(F), G, H


class _LogTotal(nn.Module):
    """log α0 = w·h + c for torch; hands logits and log-weights through to the loss.

    It starts at α0 = 1: w and c are 0, behind hidden layers too.
    """

    def __init__(self, n_features: int, hidden_layer_sizes=()):
        super().__init__()
        sizes = [n_features, *np.ravel(hidden_layer_sizes or ()).tolist()]
        layers = [(nn.Linear(a, b, dtype=torch.float64), nn.Tanh()) for a, b in pairwise(sizes)]
        self.hidden = nn.Sequential(*(part for layer in layers for part in layer))
        self.weight = nn.Parameter(torch.zeros(sizes[-1], dtype=torch.float64))
        self.bias = nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(
        self, logits: Tensor, features: Tensor, log_weights: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        log_total = self.hidden(features) @ self.weight + self.bias
        return (logits, log_total) if log_weights is None else (logits, log_total, log_weights)


def _matrix(features, X) -> Floats:
    h = np.asarray(
        features.toarray() if hasattr(features, "toarray") else features, dtype=np.float64
    )
    if h.ndim == 0 or len(h) != n_rows(X):
        rows = f"{len(h)} rows" if h.ndim else "a single number"
        raise ValueError(
            f"features must return one row for each of the {n_rows(X)} rows of X, it returned "
            f"{rows}."
        )
    h = h.reshape(len(h), -1) if h.ndim > 1 else h[:, None]
    if not np.isfinite(h).all():
        raise ValueError("The features of AlphaCalibration contain NaN or infinite values.")
    return h
