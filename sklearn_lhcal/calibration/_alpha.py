"""α-calibration: how sure a model is of its class probabilities (P1 §5.3, App. D.2)."""

import warnings
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from torch import Tensor, nn

from .._ground.checks import check_not_negative, n_rows
from .._ground.devices import seeded
from .._ground.simplex import entropy, gini
from .._ground.threads import sum_over_rows
from ..distributions import Dirichlet
from ..neural_network import LBFGS, Adam, DirichletMultinomialLoss, Newton, PairwiseLoss
from ..neural_network._features import forward_features
from ._base import _BaseCalibrator

_LIKELIHOODS = {
    "dirichlet_multinomial": (DirichletMultinomialLoss, 5e-3),
    "pairwise": (PairwiseLoss, 5e-4),
}
_MAX_LOG_TOTAL = np.log(1e12)
_MANY = 1e9  # labels that stand for infinitely many
_SAMPLE = 5_000  # rows above which Newton starts from the optimum of a part of them, 50 a parameter at least
_BLOCK = 2**19  # features at a time: what is made of them stays in cache


class AlphaCalibration(_BaseCalibrator):
    """Adds to each prediction a Dirichlet distribution around it: how far the class probabilities can be trusted.

    Class probabilities z are kept. Their total concentration ``α0 = exp(w·h + c)`` depends on features h of the row and
    is fitted on the labels of several raters: a large α0 says that the row is known to be ambiguous, a small one that
    the model is unsure while raters would agree.

    Parameters
    ----------
    estimator : classifier, default=None
        As in `TemperatureScaling`; most often a temperature scaling, so that z is calibrated first.
    features : None, "logits", layer name, callable or transformer, default=None
        h. None: log(1−Σz²) and the entropy of z, which do not depend on the order of the classes. "logits": the
        log-probabilities. Any other word: the outputs of the layer of that name of the torch network at the bottom,
        averaged over positions; it needs one network, so a FrozenEstimator or ``cv="holdout"``. A callable maps X to an
        array of shape (n_samples, n_features); a transformer is cloned and fitted on the calibration rows. All are
        standardised.
    likelihood : {"pairwise", "dirichlet_multinomial"}, default="pairwise"
        What is maximised: the composite likelihood of pairs of raters, or P1's likelihood of the histogram, which many
        raters per row distort. On six data sets with 2 to 50 raters a row, the epistemic loss after one label is
        between .007 smaller and .0002 larger with pairs (``benchmarks/alpha_likelihood.py``).
    penalty : float or None, default=None
        λ_α, weight of ``mean (log α0)²``, nats per row. None: 5e-4 for pairs, P1's 5e-3 for histograms, of which a row
        carries more information.
    hidden_layer_sizes : int or tuple of int, default=()
        Widths of hidden layers between h and log α0, with tanh units; seeded by `random_state`.
    cv, solver, random_state, verbose
        As in `TemperatureScaling`; with hidden layers, whose optimum overfits, the default solver is
        ``Adam(learning_rate=0.01, max_epochs=1000)``, stopped by a fifth of the rows.

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
        estimator=None,
        *,
        features=None,
        likelihood="pairwise",
        penalty=None,
        hidden_layer_sizes=(),
        cv=None,
        solver=None,
        random_state=None,
        verbose=0,
    ):
        super().__init__(
            estimator, cv=cv, solver=solver, random_state=random_state, verbose=verbose
        )
        self.features = features
        self.likelihood = likelihood
        self.penalty = penalty
        self.hidden_layer_sizes = hidden_layer_sizes

    def _check_loop(self, one_model):
        if self._names_a_layer() and not one_model:
            raise ValueError(
                f"features={self.features!r} names a layer of one network, but each fold trains its own, whose hidden "
                'units do not correspond; use FrozenEstimator(net), or cv="holdout".'
            )

    def _names_a_layer(self):
        return isinstance(self.features, str) and self.features != "logits"

    def _fit_features(self, X):
        known = self.features is None or isinstance(self.features, str)
        if not (known or callable(self.features) or hasattr(self.features, "transform")):
            raise ValueError(
                f'features must be None, "logits", a layer name, a callable or a transformer, got {self.features!r}.'
            )
        self.feature_map_ = self.features
        if hasattr(self.features, "transform"):
            self.feature_map_ = clone(self.features).fit(X)
        return self._features(X)

    def _features(self, X):
        if self._names_a_layer():
            return forward_features(self.estimator_, X, self.features)
        if hasattr(self.feature_map_, "transform"):
            return _matrix(self.feature_map_.transform(X), X)
        return _matrix(self.feature_map_(X), X) if callable(self.feature_map_) else None

    def _row_features(self, logits, features):
        """h of the rows, shape (..., n_features): given ones as they are, else from the log-probabilities."""
        if features is not None:
            return np.broadcast_to(features, (*logits.shape[:-1], features.shape[1]))
        if self.feature_map_ == "logits":
            return logits
        z = np.exp(logits)
        return np.stack([np.log(np.maximum(gini(z), 1e-6)), entropy(z)], axis=-1)

    def _fit_map(self, logits, features, labels, weight, log_weights=None):
        if self.likelihood not in _LIKELIHOODS:
            raise ValueError(
                f"likelihood must be one of {sorted(_LIKELIHOODS)}, got {self.likelihood!r}."
            )
        make_loss, penalty = _LIKELIHOODS[self.likelihood]
        penalty = penalty if self.penalty is None else self.penalty
        check_not_negative(penalty=penalty)
        loss = make_loss(penalty)
        h = self._row_features(logits, features)
        rows = h.reshape(-1, h.shape[-1])
        self.feature_mean_ = rows.mean(axis=0)
        rows = rows - self.feature_mean_
        scale = np.sqrt(np.einsum("ij,ij->j", rows, rows) / len(rows))
        self.feature_scale_ = np.where(
            scale > 1e-12 * np.maximum(1.0, np.abs(self.feature_mean_)), scale, 1.0
        )
        rows /= self.feature_scale_
        h = rows.reshape(h.shape)
        several = self._informative(labels)
        if weight is not None:
            several = several & (weight > 0)
        if not several.any():
            warnings.warn(
                "No calibration row has two labels, so that nothing is known on the concentration: α0 = 1. "
                "Calibrate on rows with two raters or more.",
                stacklevel=3,
            )
            self._hidden, self.coef_, self.intercept_ = nn.Identity(), np.zeros(h.shape[-1]), 0.0
            return
        several = slice(None) if several.all() else several  # no copy
        y = labels.counts.astype(np.float64)[several] * (_MANY if labels.known else 1)
        w = None if weight is None else weight[several]
        log_w = None if log_weights is None else log_weights[:, several]
        self._solve(loss, logits[..., several, :], h[..., several, :], y, w, log_w)

    def _informative(self, labels) -> NDArray[np.bool_]:
        if not labels.known:
            return labels.n > 1
        if self.likelihood != "pairwise":
            raise ValueError(
                'KnownProbabilities have no histogram likelihood; use likelihood="pairwise".'
            )
        return np.ones(len(labels), dtype=bool)

    def _solve(self, loss, u, h, y, w, log_w):
        simple = u.ndim == 2 and not self.hidden_layer_sizes
        default = Adam(learning_rate=0.01, max_epochs=1000) if self.hidden_layer_sizes else LBFGS()
        solver = self.solver or (Newton() if simple else default)
        with seeded(self.random_state):
            module = _LogTotal(h.shape[-1], self.hidden_layer_sizes)
        self._hidden = module.hidden
        if isinstance(solver, Newton):
            if not simple:
                raise ValueError("Newton() fits no ensembles and no hidden layers; use LBFGS().")
            x, w = (
                np.zeros(h.shape[1] + 1),
                np.full(len(y), 1 / len(y)) if w is None else w / w.sum(),
            )
            step = -(-len(u) // max(_SAMPLE, 50 * len(x)))
            if step > 1:
                x = solver.minimize(_Objective(loss, u[::step], h[::step], y[::step], w[::step]), x)
            x = solver.minimize(_Objective(loss, u, h, y, w), x, verbose=self.verbose)
        else:
            inputs = {"logits": u, "features": h, "log_weights": log_w}
            if u.ndim == 3:
                inputs = {
                    "logits": np.moveaxis(u, 0, 1),
                    "features": np.moveaxis(h, 0, 1),
                    "log_weights": log_w.T,
                }
            solver.train(
                module, loss, inputs, y, w, random_state=self.random_state, verbose=self.verbose
            )
            x = np.append(module.weight.detach().numpy(), module.bias.item())
        self.coef_, self.intercept_ = x[:-1], float(x[-1])

    def _distribution(self, scores, features):
        if scores.proba is None:
            return super()._distribution(scores, features)
        z = np.maximum(
            scores.proba, 1e-300
        )  # as it is; where it is 0, a label of that class stays possible
        return Dirichlet.of_checked(z, self._log_total(scores.logits, features))

    def _map(self, logits, features):
        return Dirichlet.from_log_total(np.exp(logits), self._log_total(logits, features))

    def _log_total(self, logits, features):
        h = (self._row_features(logits, features) - self.feature_mean_) / self.feature_scale_
        if self.hidden_layer_sizes:
            with torch.no_grad():
                h = self._hidden(torch.as_tensor(h)).numpy()
        return np.clip(h @ self.coef_ + self.intercept_, -_MAX_LOG_TOTAL, _MAX_LOG_TOTAL)


class _Objective:
    """Value, gradient and Hessian of the mean row loss in (w, c): rows meet only through η_i = w·h_i + c = log α0_i."""

    def __init__(self, loss, u, h, y, w):
        self.h, self.w = h, w
        self.size = int(np.clip(_BLOCK // (h.shape[1] + 1), 4_096, 32_768))
        blocks = [slice(begin, begin + self.size) for begin in range(0, len(h), self.size)]
        self.row_losses = {
            b.start: loss.in_log_total(torch.as_tensor(u[b]), torch.as_tensor(y[b])) for b in blocks
        }

    def __call__(self, x: NDArray) -> tuple[float, NDArray, NDArray]:
        def block(rows):
            h, w = self.h[rows], self.w[rows]
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
    """log α0 = w·h + c for torch; hands the logits (and log-weights of members) through to the loss.

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


def _matrix(features, X) -> NDArray[np.float64]:
    h = np.asarray(
        features.toarray() if hasattr(features, "toarray") else features, dtype=np.float64
    )
    if h.ndim == 0 or len(h) != n_rows(X):
        rows = f"{len(h)} rows" if h.ndim else "a single number"
        raise ValueError(
            f"features must return one row for each of the {n_rows(X)} rows of X, it returned {rows}."
        )
    h = h.reshape(len(h), -1) if h.ndim > 1 else h[:, None]
    if not np.isfinite(h).all():
        raise ValueError("The features of AlphaCalibration contain NaN or infinite values.")
    return h
