"""Scaling of logits, u' = W u + b in four families, each fitted to optimality (P1 App. D.1, P4 §5)."""

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from .._fit import check_not_negative
from ..neural_network import LBFGS, Newton
from ._affine import AffineMap, BiasCorrectedMap, MatrixMap, TemperatureMap, VectorMap
from ._base import _BaseCalibrator
from ._fitted_map import FittedMap, floor_shape, seen, warn
from ._likelihood import Prior, ScalingProblem
from ._rows import CalibrationRows
from ._shrinkage import STRENGTHS, fit_shrunk, fit_temperature

_FLOORS = ("uniform", "prior")


class _Scaling(_BaseCalibrator):
    """What the families share; a subclass names its family, how it is fitted, and its floor."""

    # Only some maps have a floor, and a parameter of that name.
    floor = None
    shrinkage = None
    _remedy = 'floor="uniform"'

    @abstractmethod
    def _family(self, n_classes: int) -> AffineMap:
        """The family of maps for so many classes."""

    def _fit_x(self, family: AffineMap, rows: CalibrationRows, floor) -> NDArray[np.float64]:
        """The parameters of the family; with a floor logit e is the last."""
        strengths = STRENGTHS
        if self.shrinkage is not None:
            strengths = [_strength(self.shrinkage)]
        return fit_shrunk(family, rows, floor, self._solve_scaling, strengths)

    def _solve_scaling(self, problem: ScalingProblem):
        return self._solve(problem, _default_solver(problem))

    def _check(self, one_model):
        if self.floor is not None and self.floor not in _FLOORS:
            raise ValueError(f'floor must be None, "uniform" or "prior", got {self.floor!r}.')
        if self.shrinkage is not None:
            check_not_negative(shrinkage=self.shrinkage)

    def _fit_map(self, rows):
        rows = seen(rows)
        fitted = self._fitted(rows)
        warn(rows, fitted, self._remedy)
        return {"_fitted_map": fitted, **fitted.attributes()}

    def _fitted(self, rows) -> FittedMap:
        """The map of least log loss on rows of positive weight."""
        family = self._family(rows.n_classes)
        floor = floor_shape(self.floor, rows)
        return FittedMap.of(family, self._fit_x(family, rows, floor), floor)

    def _map(self, rows):
        return self._fitted_map.distribution(rows)


def _default_solver(problem: ScalingProblem):
    """Newton for few parameters of point predictions, else L-BFGS."""
    if problem.rows.is_ensemble or isinstance(problem.family, MatrixMap):
        return LBFGS(max_iter=5000, tol=1e-8)
    return Newton()


def _strength(shrinkage: float) -> tuple[float, float]:
    """Standard deviations of scales and biases: a unit of a bias is a tenth as unlikely."""
    if shrinkage == 0:
        return np.inf, np.inf
    return shrinkage**-0.5, (shrinkage / 10) ** -0.5


def _published_prior(family: AffineMap, n_rows: float, off_diagonal: float, bias: float) -> Prior:
    """P1 eq. (47), (48): λ_w ΣW_offdiag²/(K(K−1)) + λ_b mean(b²), nats per label."""
    K = family.K
    entries = np.full((K, K), 2 * off_diagonal / max(K * (K - 1), 1))
    np.fill_diagonal(entries, 0.0)
    scales = entries if isinstance(family, MatrixMap) else np.zeros((K, 1))
    biases = np.full(K, 2 * bias / K)
    if isinstance(family, MatrixMap):
        precision = np.column_stack([scales, biases]).ravel()
    else:
        precision = np.append(scales, biases)
    with np.errstate(divide="ignore"):
        return Prior(np.zeros(len(precision)), (n_rows * precision) ** -0.5)


class TemperatureScaling(_Scaling):
    """Divides the logits by one positive temperature, fitted on label histograms.

    ``u' = u/T``. T minimises the log loss of all labels plus ``½ (log T)²`` for one row's worth of
    labels: a weak prior, which keeps T finite where labels are separable. The argmax of point
    predictions never changes. The map sees log-probabilities, so that ``"logits"`` and ``"proba"``
    name one model.

    Around an ensemble T acts on each member and is fitted on the mixture. The search starts from
    the best of 15 temperatures, because such problems have several valleys.

    Parameters
    ----------
    estimator : classifier, default=None
        What to calibrate: any scikit-learn classifier (None: LogisticRegression), a skorch net, a
        FrozenEstimator (then all data goes to calibration), another calibrator, or ``"logits"`` /
        ``"proba"`` where X holds the outputs of a model that ran elsewhere.
    floor : {None, "uniform", "prior"}, default=None
        A probability below which no class falls: ``z = (1−e) softmax(u/T) + e π`` with a fitted e.
        π is uniform, or the share of the classes among the labels. It is the remedy for
        classifiers that print zeros: forests, nearest neighbours, naive Bayes, rounded files.
        Around an ensemble the floor is one more member.
    cv : int, splitter, list of splits or "holdout", default=None
        How the classifier's out-of-fold predictions are made. None: what a wrapped calibrator says,
        else 5 folds. An int stratifies by majority vote. "holdout": fit on 80 %, calibrate that
        model on the rest, no refit.
    solver : Newton, LBFGS, Adam or None, default=None
        None: Newton for point predictions, L-BFGS around ensembles.
    random_state : int, RandomState or None, default=None
        Seed of the holdout split.
    verbose : int, default=0
        Above 0: progress bars.

    Attributes
    ----------
    temperature_ : float
        T; above 1 where the classifier was overconfident.
    floor_weight_ : float
        e, where there is a floor.
    floor_ : ndarray of shape (n_classes,)
        π, where there is a floor.
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.
    estimator_ : classifier
        The fitted classifier.

    Warns
    -----
    UserWarning
        Where labels have probability 0 and there is no floor. Where the labels are separable, so
        that the prior alone bounds T. Where the weights sum to far less than the number of rows:
        they count rows.

    References
    ----------
    Guo, Pleiss, Sun and Weinberger (2017), On calibration of modern neural networks. Zhang,
    Kailkhura and Han (2020), Mix-n-match: ensemble and compositional methods for uncertainty
    calibration, for a relative of the floor.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0]] * 100)
    >>> counts = [[3, 1], [3, 1], [1, 3]] * 100
    >>> calibrator = TemperatureScaling("logits").fit(logits, counts)
    >>> calibrator.predict_proba(logits[:1]).round(2)
    array([[0.75, 0.25]])
    """

    def __init__(
        self, estimator=None, *, floor=None, cv=None, solver=None, random_state=None, verbose=0
    ):
        super().__init__(
            estimator, cv=cv, solver=solver, random_state=random_state, verbose=verbose
        )
        self.floor = floor

    def _family(self, n_classes):
        return TemperatureMap(n_classes)

    def _fit_x(self, family, rows, floor):
        return fit_temperature(rows, floor, self._solve_scaling)


class BiasCorrectedTemperatureScaling(_Scaling):
    """Divides the logits by one positive temperature after adding a bias to each class.

    ``u' = (u+b)/T``, for models whose class frequencies are off: by a shift of the label
    distribution, say. Biases are shrunk to 0, temperatures as in `TemperatureScaling`.

    Parameters
    ----------
    estimator : classifier, default=None
        As in `TemperatureScaling`.
    floor : {None, "uniform", "prior"}, default=None
        As in `TemperatureScaling`.
    shrinkage : float or None, default=None
        As in `VectorScaling`; for biases alone.
    cv, solver, random_state, verbose
        As in `TemperatureScaling`.

    Attributes
    ----------
    temperature_ : float
        The temperature T.
    bias_ : ndarray of shape (n_classes,)
        b, with mean 0: a constant for all classes changes nothing.
    floor_weight_, floor_
        As in `TemperatureScaling`.
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.
    estimator_ : classifier
        The fitted classifier.

    Warns
    -----
    UserWarning
        As `TemperatureScaling` does.

    References
    ----------
    Alexandari, Kundaje and Shrikumar (2020), Maximum likelihood with bias-corrected calibration is
    hard-to-beat at label shift adaptation.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]] * 100)
    >>> counts = [[3, 1], [1, 1], [2, 1]] * 100
    >>> calibrator = BiasCorrectedTemperatureScaling("logits").fit(logits, counts)
    >>> calibrator.predict_proba(logits[2:3]).round(2)
    array([[0.65, 0.35]])
    """

    def __init__(
        self,
        estimator=None,
        *,
        floor=None,
        shrinkage=None,
        cv=None,
        solver=None,
        random_state=None,
        verbose=0,
    ):
        super().__init__(
            estimator, cv=cv, solver=solver, random_state=random_state, verbose=verbose
        )
        self.floor = floor
        self.shrinkage = shrinkage

    def _family(self, n_classes):
        return BiasCorrectedMap(n_classes)


class _Published(_Scaling):
    """A family that may be fitted with the penalties of P1 in place of shrinkage."""

    off_diagonal_penalty = None

    def _penalties(self) -> tuple:
        return self.off_diagonal_penalty, self.bias_penalty

    def _check(self, one_model):
        super()._check(one_model)
        named = {
            "off_diagonal_penalty": self.off_diagonal_penalty,
            "bias_penalty": self.bias_penalty,
        }
        given = {name: value for name, value in named.items() if value is not None}
        check_not_negative(**given)
        if given and self.shrinkage is not None:
            raise ValueError(f"Give shrinkage or {' and '.join(given)}, not both.")

    def _fit_x(self, family, rows, floor):
        penalties = self._penalties()
        if penalties == (None, None):
            return super()._fit_x(family, rows, floor)
        off_diagonal, bias = (value or 0.0 for value in penalties)
        prior = _published_prior(family, rows.weight.sum(), off_diagonal, bias)
        return self._solve_scaling(ScalingProblem(family, rows, prior, floor))


class VectorScaling(_Published):
    """Scales and shifts the logit of each class: ``u' = v∘u + b``.

    Scales are shrunk to that of the common temperature, ``v = (1+d)/T``, and shifts to 0, so that
    few rows do not overfit. How much is decided by the rows: the map is the average of those of
    four strengths, weighted by their evidence. The map sees log-probabilities, on whose constant
    per row it depends: a deviation from P1, without which ``"logits"`` and ``"proba"`` would name
    two models.

    Parameters
    ----------
    estimator : classifier, default=None
        As in `TemperatureScaling`.
    floor : {None, "uniform", "prior"}, default=None
        As in `TemperatureScaling`.
    shrinkage : float or None, default=None
        λ of the penalty ``λ/2 (Σ d² + Σ b²/10)``, in nats for all rows. None: by evidence. 0: none.
    bias_penalty : float or None, default=None
        λ_b of P1's penalty ``λ_b mean(b²)``, nats per label, in place of shrinkage. None: shrinkage.
    cv, solver, random_state, verbose
        As in `TemperatureScaling`.

    Attributes
    ----------
    scale_ : ndarray of shape (n_classes,)
        The factor v of each class.
    intercept_ : ndarray of shape (n_classes,)
        The shift b of each class.
    floor_weight_, floor_
        As in `TemperatureScaling`.
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.
    estimator_ : classifier
        The fitted classifier.

    Warns
    -----
    UserWarning
        As `TemperatureScaling` does.

    References
    ----------
    Guo, Pleiss, Sun and Weinberger (2017), On calibration of modern neural networks; P1 App. D.1.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[2.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    >>> calibrator = VectorScaling("logits").fit(logits, [[3, 1], [1, 3], [2, 2]])
    >>> calibrator.predict_proba(logits[2:]).round(2)
    array([[0.5, 0.5]])
    """

    def __init__(
        self,
        estimator=None,
        *,
        floor=None,
        shrinkage=None,
        bias_penalty=None,
        cv=None,
        solver=None,
        random_state=None,
        verbose=0,
    ):
        super().__init__(
            estimator, cv=cv, solver=solver, random_state=random_state, verbose=verbose
        )
        self.floor = floor
        self.shrinkage = shrinkage
        self.bias_penalty = bias_penalty

    def _family(self, n_classes):
        return VectorMap(n_classes)


class MatrixScaling(_Published):
    """Any affine map of the logits, ``u' = W u + b``.

    W is shrunk to the common temperature's, ``W = (1+D)/T``, and b to 0, by the evidence, as in
    `VectorScaling`; or penalised as P1 does. The map sees log-probabilities, as there.

    Parameters
    ----------
    estimator : classifier, default=None
        As in `TemperatureScaling`.
    shrinkage : float or None, default=None
        As in `VectorScaling`; the squares of D off the diagonal count K times.
    off_diagonal_penalty, bias_penalty : float or None, default=None
        λ_w and λ_b of P1's penalty ``λ_w ΣW_offdiag²/(K(K−1)) + λ_b mean(b²)`` (ODIR), nats per
        label, in place of shrinkage. None: shrinkage, or 0 where the other is given.
    cv, solver, random_state, verbose
        As in `TemperatureScaling`, but that the default solver is L-BFGS on whitened logits.

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

    Warns
    -----
    UserWarning
        As `TemperatureScaling` does.

    References
    ----------
    Kull, Perello Nieto, Kängsepp, Silva Filho, Song and Flach (2019), Beyond temperature scaling;
    P1 App. D.1.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[2.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    >>> calibrator = MatrixScaling("logits").fit(logits, [[3, 1], [1, 3], [2, 2]])
    >>> calibrator.predict_proba(logits[2:]).round(2)
    array([[0.5, 0.5]])
    """

    _remedy = 'TemperatureScaling(…, floor="uniform") around the classifier'

    def __init__(
        self,
        estimator=None,
        *,
        shrinkage=None,
        off_diagonal_penalty=None,
        bias_penalty=None,
        cv=None,
        solver=None,
        random_state=None,
        verbose=0,
    ):
        super().__init__(
            estimator, cv=cv, solver=solver, random_state=random_state, verbose=verbose
        )
        self.shrinkage = shrinkage
        self.off_diagonal_penalty = off_diagonal_penalty
        self.bias_penalty = bias_penalty

    def _family(self, n_classes):
        return MatrixMap(n_classes)
