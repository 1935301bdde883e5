"""Calibration for decisions under a known cost matrix (P4)."""

import warnings

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from torch import nn

from .._ground.checks import check_not_negative
from .._ground.costs import bayes_columns, check_cost_matrix, relative
from .._ground.estimators import resolve
from ..metrics import ConfidenceInterval
from ..model_selection import StratifiedVotesKFold
from ._affine import BiasCorrectedMap, TemperatureMap, VectorMap
from ._decision_search import (
    OutOfFold,
    Problem,
    Rows,
    TemperaturePath,
    cost_scale,
    difference,
    family_of,
    out_of_fold,
    probabilities,
)
from ._scaling import _Scaling

_SHAPES = {"temperature": TemperatureMap, "bias_corrected": BiasCorrectedMap, "vector": VectorMap}
_CRITERIA = ("auto", "direct", "margin", "nll", "ece")
_Z90 = 1.645  # both tails of the normal distribution together 10 %


class DecisionCalibrationWarning(UserWarning):
    """The calibration rows cannot tell whether calibrating for decisions pays: see `DecisionCalibration`.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("error", DecisionCalibrationWarning)  # where nothing may be left in doubt
    >>> warnings.simplefilter("default", DecisionCalibrationWarning)
    """


class DecisionCalibration(_Scaling):
    """Scales logits so that decisions under a known cost matrix are cheap.

    The map is that of `TemperatureScaling`, `BiasCorrectedTemperatureScaling` or `VectorScaling`; what is minimised is
    not (only) the log loss but the mean cost of the decisions ``argmin_d Σ_k z_k C_kd``. This improves the calibration
    that matters under these costs, and no other (P4 Theorem 1, Def. 4): the probabilities may be worse elsewhere.

    **Selection.** The mean cost has no gradient. Several surrogates of it are minimised, each from the solution of
    least log loss (NLL), and compared by the mean cost of their decisions out of fold, on `inner_cv` folds of the
    calibration rows. Where a rare mistake is very expensive this overfits (P4 §5.3). So NLL is a candidate too, and is
    kept unless the best other beats it by more than `safeguard` standard errors of the paired difference, where the
    best for each fold is chosen by the other folds: what was chosen because it looks good is judged by other rows. The
    variance of the difference is corrected for training rows that the folds share (Nadeau and Bengio 2003): a gain that
    these rows show again and again is still one of these rows. To it comes that of expensive mistakes that happened not
    to occur: what NLL's probabilities imply, but no more than one mistake of the worst kind.

    **Candidates.** Of "direct": the upper direct loss for (λ/κ, βκ) of (.03, 10), (.03, 30) and (.3, 30), κ being the
    mean over rows of the standard deviation of the expected costs of the decisions; of "margin": margin rescaling for
    (1, 30). Each is minimised on all rows by 50 steps of Adam with rates that fall from .05 and from .2 logits: the one
    refines NLL's solution, the other can leave it. A temperature is one number, and its mean cost a step function:
    "direct" then looks at all its steps, exactly, and at the minimum of the function smoothed by a Gaussian of width .1
    and .3 in log T. "ece" is the squared calibration error of each class in 15 hat-shaped bins, which has a gradient.
    "auto" is what has proved worth trying: today "direct", of which "margin" is a looser bound (P4 Prop. 4).

    Parameters
    ----------
    estimator : classifier, default=None
        As in `TemperatureScaling`.
    cost_matrix : array-like or frame of shape (n_classes, n_decisions), default=None
        Cost of each decision under each class, as in `sklearn_lhcal.metrics.bayes_decision`; rows in the order of the
        sorted classes. Classes with names need a DataFrame whose index holds them. None: 0/1 costs.
    scaling : {"temperature", "bias_corrected", "vector"}, default="bias_corrected"
        The map.
    criterion : {"auto", "direct", "margin", "nll", "ece"} or torch.nn.Module, default="auto"
        Where the candidates come from beside NLL. A module is called as ``loss(log_proba, frequencies, weight)``.
    bias_penalty : float, default=0.1
        As in `VectorScaling`, for the log loss of vector scaling.
    inner_cv : int, default=10
        Number of folds of the selection, stratified by majority vote.
    safeguard : float or None, default=1.0
        Corrected standard errors by which a candidate must beat NLL; None: NLL is no candidate.
    cv, solver, random_state, verbose
        As in `TemperatureScaling`; the solver is that of the log loss.

    Attributes
    ----------
    criterion_ : str
        What was selected: "nll", "direct", ….
    best_params_ : dict
        Its hyper-parameters.
    cv_results_ : dict of lists and arrays
        ``params``, ``mean_risk`` out of fold, ``mean_difference`` from NLL, ``standard_error`` of the difference, and
        ``rank_risk``, candidate by candidate, in the unit of the costs.
    risk_difference_ : ConfidenceInterval
        Out-of-fold risk of the best other candidate, for each fold that of the other folds, less that of NLL, with its
        90 % interval.
    cost_matrix_ : ndarray of shape (n_classes, n_decisions)
        Costs in the order of `classes_`.
    decisions_ : ndarray of shape (n_decisions,)
        What `decide` returns: column numbers, or the names of a frame's columns.
    temperature_, bias_, scale_, intercept_
        Parameters of the map, as in the calibrator of its name.
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.
    estimator_ : classifier
        The fitted classifier.

    Warns
    -----
    DecisionCalibrationWarning
        Where the calibration rows cannot tell: a candidate looks better than NLL, which is kept, and the interval of
        the difference reaches up to more than NLL's whole risk. The message holds the interval.

    Raises
    ------
    ValueError
        A cost matrix that does not fit the classes or leaves nothing to decide, an unknown scaling or criterion, an
        `inner_cv` below 2, a negative `safeguard`.

    References
    ----------
    P4, *Calibration for decision making via empirical risk minimization*; Zhao, Kim, Sahoo, Ma and Ermon (2021),
    Calibrating predictions to decisions; Nadeau and Bengio (2003), Inference for the generalization error.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(600, overconfidence=3.0, random_state=0)
    >>> costs = [[0, 1, 2], [5, 0, 1], [20, 3, 0]]
    >>> calibrator = DecisionCalibration("proba", costs).fit(data.prediction[:300], data.counts[:300])
    >>> calibrator.decide(data.prediction[300:304])
    array([2, 0, 2, 1])
    """

    def __init__(
        self,
        estimator=None,
        cost_matrix=None,
        *,
        scaling="bias_corrected",
        criterion="auto",
        bias_penalty=0.1,
        inner_cv=10,
        safeguard=1.0,
        cv=None,
        solver=None,
        random_state=None,
        verbose=0,
    ):
        super().__init__(
            estimator, cv=cv, solver=solver, random_state=random_state, verbose=verbose
        )
        self.cost_matrix = cost_matrix
        self.scaling = scaling
        self.criterion = criterion
        self.bias_penalty = bias_penalty
        self.inner_cv = inner_cv
        self.safeguard = safeguard

    def decide(self, X) -> NDArray:
        """The decision of least expected cost for each row, shape (n_samples,): column numbers, or a frame's names."""
        check_is_fitted(self, "estimator_")
        return self.decisions_[bayes_columns(self.predict_proba(X), self.cost_matrix_)]

    def expected_cost(self, X) -> NDArray[np.float64]:
        """What the model expects each decision to cost, shape (n_samples, n_decisions), in the unit of the costs."""
        check_is_fitted(self, "estimator_")
        return np.einsum("nk,kd->nd", self.predict_proba(X), self.cost_matrix_)

    def _shape(self, n_classes):
        shape = _SHAPES[self.scaling]
        return (
            shape(n_classes, bias_penalty=self.bias_penalty)
            if shape is VectorMap
            else shape(n_classes)
        )

    def _store(self, x):
        for name in (
            "temperature_",
            "bias_",
            "scale_",
            "intercept_",
        ):  # another shape may have been fitted before
            vars(self).pop(name, None)
        if self.scaling == "vector":
            self.scale_, self.intercept_ = x[: len(x) // 2].copy(), x[len(x) // 2 :].copy()
            return
        self.temperature_ = float(np.exp(-x[0]))
        if self.scaling == "bias_corrected":
            self.bias_ = (x[1:] - x[1:].mean()) * self.temperature_

    def _fit_map(self, logits, features, labels, weight, log_weights=None):
        module = self.criterion if isinstance(self.criterion, nn.Module) else None
        if self.scaling not in _SHAPES:
            raise ValueError(f"scaling must be one of {list(_SHAPES)}, got {self.scaling!r}.")
        if module is None and self.criterion not in _CRITERIA:
            raise ValueError(
                f"criterion must be one of {list(_CRITERIA)} or a torch module, got {self.criterion!r}."
            )
        if not isinstance(self.inner_cv, (int, np.integer)) or self.inner_cv < 2:
            raise ValueError(
                f"inner_cv must be an int of at least 2, got {self.inner_cv!r}; without a selection the criterion is "
                '"nll".'
            )
        check_not_negative(
            bias_penalty=self.bias_penalty,
            safeguard=0.0 if self.safeguard is None else self.safeguard,
        )
        self._set_costs()
        super()._fit_map(logits, features, labels, weight, log_weights)
        start, C = self._x, relative(self.cost_matrix_)
        unit = C.max()
        if unit == 0:
            raise ValueError("cost_matrix has equal costs for all decisions: nothing is to decide.")
        w = np.ones(len(labels)) if weight is None else weight
        problem = self._problem(module, start, Rows(logits, log_weights, labels.mu, w), C / unit)
        found = self._out_of_fold(problem, labels, weight)
        best = self._choose(found, problem, unit)
        if best:
            self._x = problem.candidates(start, np.arange(len(w)))[1][best]
        self.best_params_ = found.params[best]
        self.criterion_ = self.best_params_["criterion"]
        self._store(self._x)

    def _set_costs(self):
        if self.cost_matrix is None:
            self.cost_matrix_, names = 1.0 - np.eye(len(self.classes_)), None
        else:
            costs = check_cost_matrix(self.cost_matrix)
            K = len(self.classes_)
            self.cost_matrix_, _, names = costs.for_classes(self.classes_, K, "the classifier")
        self.decisions_ = np.arange(self.cost_matrix_.shape[1]) if names is None else names

    def _problem(self, module, start, rows, C) -> Problem:
        exact = (
            self.scaling == "temperature"
            and module is None
            and self.criterion in ("direct", "auto")
        )
        kappa = cost_scale(probabilities(self._fitted_shape, start, rows), C)
        family = None if exact else family_of(self.criterion, kappa, module)
        path = TemperaturePath.of(start[0], rows, C) if exact else None
        return Problem(self._fitted_shape, rows, C, family, path)

    def _out_of_fold(self, problem, labels, weight) -> OutOfFold:
        """Decisions of all candidates for rows they were not fitted on; of NLL alone where there is nothing to try."""
        n, u, log_w = len(labels), problem.rows.u, problem.rows.log_w
        folds = min(self.inner_cv, int(np.bincount(labels.majority).max()))
        if folds < 2 or (problem.family is None and problem.path is None):
            decisions, z = problem.decisions(self._x[None], np.arange(n))
            return OutOfFold([{"criterion": "nll"}], decisions, z, np.zeros(n, dtype=np.intp))
        splits = list(StratifiedVotesKFold(folds).split(None, labels))
        starts = []
        with warnings.catch_warnings():  # the fit on all rows has said it
            warnings.simplefilter("ignore", ConvergenceWarning)
            for train, _ in splits:
                w = None if weight is None else weight[train]
                log_w_train = None if log_w is None else log_w[:, train]
                starts.append(
                    self._minimise(
                        problem.shape, u[..., train, :], labels.counts[train], w, log_w_train
                    )
                )
        return out_of_fold(problem, starts, splits)

    def _choose(self, found: OutOfFold, problem: Problem, unit: float) -> int:
        """The candidate to take; sets what the search has found out."""
        rows, C = problem.rows, self.cost_matrix_
        cost = np.einsum("nk,pnk->pn", rows.y, C.T[found.decisions])
        risk = np.einsum("pn,n->p", cost, rows.w / rows.w.sum())
        mean, error = np.array([difference(found, d, rows, C) for d in found.decisions]).T
        self.cv_results_ = {
            "params": found.params,
            "mean_risk": risk,
            "mean_difference": mean,
            "standard_error": error,
            "rank_risk": rankdata(risk, method="min").astype(int),
        }
        best = 1 + int(risk[1:].argmin()) if len(risk) > 1 else 0
        gain, se = difference(found, found.selected(cost * rows.w), rows, C) if best else (0.0, 0.0)
        low, high = gain - _Z90 * se, gain + _Z90 * se
        self.risk_difference_ = ConfidenceInterval(gain, low, high, se)
        if self.safeguard is None or gain < -self.safeguard * se:
            return best
        nll = float(risk[0] - np.einsum("nk,k,n->", rows.y, C.min(axis=1), rows.w / rows.w.sum()))
        if gain < 0 and high > nll:
            warnings.warn(
                f"The {len(cost[0])} calibration rows cannot tell whether calibrating for decisions pays. Out of fold, "
                f"the best criterion costs {gain:.3g} a row compared with the least log loss, but an expensive "
                f"mistake may be missing: 90 % interval {low:.3g} to {high:.3g}, at a risk of {nll:.3g} above the best "
                "decisions. The least log loss is kept; more rows of the classes with expensive mistakes would tell.",
                DecisionCalibrationWarning,
                stacklevel=4,
            )
        return 0


def decide(estimator, X) -> NDArray:
    """Decisions of a fitted `DecisionCalibration` that may be wrapped: in a Pipeline, a search, a FrozenEstimator.

    Parameters
    ----------
    estimator : fitted estimator
        It, or what it wraps, has a method `decide`.
    X : array-like of shape (n_samples, ...)
        What the outermost estimator takes.

    Returns
    -------
    decisions : ndarray of shape (n_samples,)
        Column numbers of the cost matrix, or names of its columns.

    Raises
    ------
    ValueError
        Where nothing decides.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.frozen import FrozenEstimator
    >>> proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
    >>> model = DecisionCalibration("proba", [[0, 1], [4, 0]], criterion="nll").fit(proba, [[9, 1], [6, 4], [2, 8]])
    >>> decide(FrozenEstimator(model), proba)
    array([0, 1, 1])
    """
    return _walk(estimator, X, "decide")


def expected_cost(estimator, X) -> NDArray[np.float64]:
    """Expected costs of the decisions under a fitted `DecisionCalibration` that may be wrapped, as for `decide`.

    Parameters
    ----------
    estimator, X
        As in `decide`.

    Returns
    -------
    cost : ndarray of shape (n_samples, n_decisions)
        In the unit of the costs.

    Raises
    ------
    ValueError
        Where nothing decides.

    Examples
    --------
    >>> import numpy as np
    >>> proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
    >>> model = DecisionCalibration("proba", [[0, 1], [4, 0]], criterion="nll").fit(proba, [[9, 1], [6, 4], [2, 8]])
    >>> expected_cost(model, proba[:1]).round(1)
    array([[0.4, 0.9]])
    """
    return _walk(estimator, X, "expected_cost")


def _walk(estimator, X, method: str):
    estimator, X = resolve(estimator, X, method)
    if not hasattr(estimator, method):
        raise ValueError(
            f"{type(estimator).__name__} decides nothing; wrap it in DecisionCalibration(estimator, cost_matrix), or "
            "use sklearn_lhcal.metrics.bayes_decision(proba, cost_matrix)."
        )
    return getattr(estimator, method)(X)
