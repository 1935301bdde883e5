"""Scaling of logits, u' = W u + b in four shapes, each fitted to optimality (P1 App. D.1, P4 §5)."""

import numpy as np

from .._ground.checks import check_not_negative
from .._ground.simplex import softmax
from ..distributions import PointMass
from ..neural_network import LBFGS, LabelLogLoss, Newton
from ._affine import (
    AffineMap,
    AffineModule,
    BiasCorrectedMap,
    MatrixMap,
    TemperatureMap,
    VectorMap,
    transform,
)
from ._base import _BaseCalibrator

_STARTS = np.exp(np.linspace(-4, 3, 15))  # 1/T, around ensembles, where the problem is not convex


def _mixed(logits, log_weights):
    """Class probabilities (n, K) of an ensemble's logits (S, n, K)."""
    return np.einsum("sn,snk->nk", np.exp(log_weights), softmax(logits))


class _Scaling(_BaseCalibrator):
    """What the shapes share: the choice of the solver, and the map; a subclass names its shape and its parameters."""

    def _shape(self, n_classes: int) -> AffineMap:
        raise NotImplementedError

    def _store(self, x) -> None:
        """Set the attributes by which users know the parameters x."""
        raise NotImplementedError

    def _fit_map(self, logits, features, labels, weight, log_weights=None):
        self._fitted_shape = shape = self._shape(logits.shape[-1])
        self._x = self._minimise(shape, logits, labels.counts, weight, log_weights)
        self._store(self._x)

    def _minimise(self, shape, logits, counts, weight, log_weights):
        """The parameters x of least log loss."""
        solver = self.solver or (
            LBFGS() if logits.ndim == 3 else None if hasattr(shape, "minimize") else Newton()
        )
        y = np.asarray(counts, dtype=np.float64)
        y = y if weight is None else y * weight[:, None]
        if solver is None or isinstance(solver, Newton):
            if logits.ndim == 3:
                raise ValueError("Newton() fits point predictions; around an ensemble use LBFGS().")
            weighted = y.any(axis=1)
            logits, y = (logits, y) if weighted.all() else (logits[weighted], y[weighted])
            return (
                shape.minimize(logits, y)
                if solver is None
                else shape.newton(logits, y, solver, self.verbose)
            )
        inputs, beta = {"logits": logits}, 1.0
        if logits.ndim == 3:
            inputs = {"logits": np.moveaxis(logits, 0, 1), "log_weights": log_weights.T}
            beta = min(
                _STARTS, key=lambda b: -(y * np.log(_mixed(logits * b, log_weights) + 1e-300)).sum()
            )
        module = AffineModule(shape, beta)
        options = {"random_state": self.random_state, "verbose": self.verbose}
        solver.train(module, LabelLogLoss(), inputs, counts, weight, **options)
        return module.x.detach().numpy().copy()

    def _map(self, logits, features):
        return PointMass(softmax(transform(logits, *self._fitted_shape.affine(self._x))))


class TemperatureScaling(_Scaling):
    """Divides the logits by one positive temperature, fitted on label histograms.

    ``u' = u/T``; T minimises the log loss per label, a convex problem in 1/T, solved to optimality. The argmax of point
    predictions never changes. The map sees log-probabilities, so that ``"logits"`` and ``"proba"`` name one model.

    Around an ensemble T acts on each member and is fitted on the mixture, which is not convex: L-BFGS starts from the
    best of 15 temperatures. (Members that say 0 or 1, as the trees of a forest, can hardly be calibrated by scaling.)

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

    def _shape(self, n_classes):
        return TemperatureMap(n_classes)

    def _store(self, x):
        self.temperature_ = float(np.exp(-x[0]))


class BiasCorrectedTemperatureScaling(_Scaling):
    """Divides the logits by one positive temperature after adding a bias to each class: ``u' = (u+b)/T``.

    For models whose class frequencies are off, by a shift of the label distribution, say. The log loss per label is
    convex in (1/T, b/T) and solved to optimality.

    Parameters
    ----------
    estimator, cv, solver, random_state, verbose
        As in `TemperatureScaling`.

    Attributes
    ----------
    temperature_ : float
        The temperature T.
    bias_ : ndarray of shape (n_classes,)
        b, with mean 0: a constant for all classes changes nothing.
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.
    estimator_ : classifier
        The fitted classifier.

    References
    ----------
    Alexandari, Kundaje and Shrikumar (2020), Maximum likelihood with bias-corrected calibration is hard-to-beat at
    label shift adaptation.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    >>> counts = [[3, 1], [1, 1], [2, 1]]
    >>> BiasCorrectedTemperatureScaling("logits").fit(logits, counts).predict_proba(logits[2:]).round(2)
    array([[0.65, 0.35]])
    """

    def _shape(self, n_classes):
        return BiasCorrectedMap(n_classes)

    def _store(self, x):
        self.temperature_ = float(np.exp(-x[0]))
        self.bias_ = (x[1:] - x[1:].mean()) * self.temperature_


class VectorScaling(_Scaling):
    """Scales and shifts the logit of each class: ``u' = v∘u + b``.

    Fitted to the log loss per label plus ``bias_penalty·mean(b²)`` (P1 eq. 47), convex, to optimality. The map sees
    log-probabilities, on whose constant per row it depends: a deviation from P1, without which ``"logits"`` and
    ``"proba"`` would name two models.

    Parameters
    ----------
    estimator : classifier, default=None
        As in `TemperatureScaling`.
    bias_penalty : float, default=0.1
        λ_b, nats per label.
    cv, solver, random_state, verbose
        As in `TemperatureScaling`.

    Attributes
    ----------
    scale_ : ndarray of shape (n_classes,)
        The factor v of each class.
    intercept_ : ndarray of shape (n_classes,)
        The shift b of each class.
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.
    estimator_ : classifier
        The fitted classifier.

    References
    ----------
    Guo, Pleiss, Sun and Weinberger (2017), On calibration of modern neural networks; P1 App. D.1.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[2.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    >>> VectorScaling("logits").fit(logits, [[3, 1], [1, 3], [2, 2]]).predict_proba(logits[2:]).round(2)
    array([[0.5, 0.5]])
    """

    def __init__(
        self,
        estimator=None,
        *,
        bias_penalty=0.1,
        cv=None,
        solver=None,
        random_state=None,
        verbose=0,
    ):
        super().__init__(
            estimator, cv=cv, solver=solver, random_state=random_state, verbose=verbose
        )
        self.bias_penalty = bias_penalty

    def _shape(self, n_classes):
        check_not_negative(bias_penalty=self.bias_penalty)
        return VectorMap(n_classes, bias_penalty=self.bias_penalty)

    def _store(self, x):
        self.scale_, self.intercept_ = VectorMap(len(x) // 2).affine(x)


class MatrixScaling(_Scaling):
    """Any affine map of the logits, ``u' = W u + b``, with off-diagonal and intercept regularisation (ODIR).

    Fitted to the log loss per label plus ``off_diagonal_penalty·ΣW_offdiag²/(K(K−1)) + bias_penalty·mean(b²)`` (P1 eq.
    48), convex, to optimality. The map sees log-probabilities, as in `VectorScaling`.

    Parameters
    ----------
    estimator : classifier, default=None
        As in `TemperatureScaling`.
    off_diagonal_penalty : float, default=1.0
        λ_w, nats per label.
    bias_penalty : float, default=0.1
        λ_b, nats per label.
    cv, solver, random_state, verbose
        As in `TemperatureScaling`, but that the default solver is L-BFGS with closed-form gradients on whitened logits.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_classes)
        The matrix W.
    intercept_ : ndarray of shape (n_classes,)
        The shift b of each class.
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.
    estimator_ : classifier
        The fitted classifier.

    References
    ----------
    Kull, Perello Nieto, Kängsepp, Silva Filho, Song and Flach (2019), Beyond temperature scaling; P1 App. D.1.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[2.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    >>> MatrixScaling("logits").fit(logits, [[3, 1], [1, 3], [2, 2]]).predict_proba(logits[2:]).round(2)
    array([[0.5, 0.5]])
    """

    def __init__(
        self,
        estimator=None,
        *,
        off_diagonal_penalty=1.0,
        bias_penalty=0.1,
        cv=None,
        solver=None,
        random_state=None,
        verbose=0,
    ):
        super().__init__(
            estimator, cv=cv, solver=solver, random_state=random_state, verbose=verbose
        )
        self.off_diagonal_penalty = off_diagonal_penalty
        self.bias_penalty = bias_penalty

    def _shape(self, n_classes):
        check_not_negative(
            off_diagonal_penalty=self.off_diagonal_penalty, bias_penalty=self.bias_penalty
        )
        return MatrixMap(n_classes, self.off_diagonal_penalty, self.bias_penalty)

    def _store(self, x):
        self.coef_, self.intercept_ = self._fitted_shape.affine(x)
