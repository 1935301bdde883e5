"""Scaling of logits, u' = W u + b in four families, fitted to optimality (P1 App. D.1, P4 §5)."""

from typing import Literal

from .._ground.problems import Solver
from .._ground.types import Calibrated, Folds, Seed
from ._affine import BiasCorrectedMap, MatrixMap, TemperatureMap, VectorMap
from ._scaling_base import PublishedScaling, Scaling
from ._shrinkage import fit_temperature


class TemperatureScaling(Scaling):
    """Divides the logits by one positive temperature, fitted on label histograms.

    ``u' = u/T``. T minimises the log loss of all labels plus ``½ (log T)²`` for one row's worth of
    labels: a weak prior, which keeps T finite where labels are separable. The argmax of point
    predictions never changes. The map sees log-probabilities, so that ``"logits"`` and ``"proba"``
    give the same model. Probabilities are clipped at 1e-12 first; with a floor they are not.

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
        that the prior alone bounds T. Where the weights, which count rows, sum to far less than the
        number of rows.

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
        self,
        estimator: Calibrated = None,
        *,
        floor: Literal["uniform", "prior"] | None = None,
        cv: Folds | Literal["holdout"] = None,
        solver: Solver | None = None,
        random_state: Seed = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            estimator, cv=cv, solver=solver, random_state=random_state, verbose=verbose
        )
        self.floor = floor

    def _family(self, n_classes):
        return TemperatureMap(n_classes)

    def _fit_x(self, family, rows, floor):
        return fit_temperature(rows, floor, self._solve_scaling)


class BiasCorrectedTemperatureScaling(Scaling):
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
    array([[0.64, 0.36]])
    """

    def __init__(
        self,
        estimator: Calibrated = None,
        *,
        floor: Literal["uniform", "prior"] | None = None,
        shrinkage: float | None = None,
        cv: Folds | Literal["holdout"] = None,
        solver: Solver | None = None,
        random_state: Seed = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            estimator, cv=cv, solver=solver, random_state=random_state, verbose=verbose
        )
        self.floor = floor
        self.shrinkage = shrinkage

    def _family(self, n_classes):
        return BiasCorrectedMap(n_classes)


class VectorScaling(PublishedScaling):
    """Scales and shifts the logit of each class: ``u' = v∘u + b``.

    Scales are shrunk to that of the common temperature, ``v = (1+d)/T``, and shifts to 0, so that
    few rows do not overfit. The rows decide how much: the map is the average over four strengths,
    weighted by their evidence. The map depends on a constant added to the logits of a row, so it
    always sees log-probabilities. This deviates from P1; otherwise ``"logits"`` and ``"proba"``
    would give two models.

    Parameters
    ----------
    estimator : classifier, default=None
        As in `TemperatureScaling`.
    floor : {None, "uniform", "prior"}, default=None
        As in `TemperatureScaling`.
    shrinkage : float or None, default=None
        λ of the penalty ``λ/2 (Σ d² + Σ b²/10)``, in nats for all rows. None: by evidence. 0: none.
    bias_penalty : float or None, default=None
        λ_b of P1's penalty ``λ_b mean(b²)``, nats per label, in place of shrinkage.
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
        estimator: Calibrated = None,
        *,
        floor: Literal["uniform", "prior"] | None = None,
        shrinkage: float | None = None,
        bias_penalty: float | None = None,
        cv: Folds | Literal["holdout"] = None,
        solver: Solver | None = None,
        random_state: Seed = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            estimator, cv=cv, solver=solver, random_state=random_state, verbose=verbose
        )
        self.floor = floor
        self.shrinkage = shrinkage
        self.bias_penalty = bias_penalty

    def _family(self, n_classes):
        return VectorMap(n_classes)


class MatrixScaling(PublishedScaling):
    """Any affine map of the logits, ``u' = W u + b``.

    W is shrunk to that of the common temperature, ``W = (1+D)/T``, and b to 0, by the evidence, as
    in `VectorScaling`. Or both are penalised as P1 does. The map sees log-probabilities, as there.

    Parameters
    ----------
    estimator : classifier, default=None
        As in `TemperatureScaling`.
    shrinkage : float or None, default=None
        As in `VectorScaling`; the squares of D off the diagonal count K times.
    off_diagonal_penalty, bias_penalty : float or None, default=None
        λ_w and λ_b of P1's penalty ``λ_w ΣW_offdiag²/(K(K−1)) + λ_b mean(b²)`` (ODIR), nats per
        label, in place of shrinkage. None: shrinkage, or 0 where the other penalty is given.
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
        estimator: Calibrated = None,
        *,
        shrinkage: float | None = None,
        off_diagonal_penalty: float | None = None,
        bias_penalty: float | None = None,
        cv: Folds | Literal["holdout"] = None,
        solver: Solver | None = None,
        random_state: Seed = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            estimator, cv=cv, solver=solver, random_state=random_state, verbose=verbose
        )
        self.shrinkage = shrinkage
        self.off_diagonal_penalty = off_diagonal_penalty
        self.bias_penalty = bias_penalty

    def _family(self, n_classes):
        return MatrixMap(n_classes)
