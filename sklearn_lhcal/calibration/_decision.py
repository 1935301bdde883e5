"""Calibration for decisions under a known cost matrix (P4): a map, candidates, a rule."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from torch import nn

from .._ground.arrays import Floats
from .._ground.checks import check_not_negative
from .._ground.costs import Costs, bayes_columns, check_cost_matrix, expected_costs, relative
from .._ground.types import Calibrated, Folds, Samples, Seed
from ._decide import CostsOfRows
from ._decision_candidates import CRITERIA, candidates_of, check_grid
from ._decision_selection import OutOfFold, PairedRule, in_sample, out_of_fold
from ._folds import deal
from ._rows import CalibrationRows
from ._scaling import (
    FAMILIES,
    FittedMap,
    PublishedScaling,
    StackAtTemperature,
    TemperatureMap,
    fit_shrunk,
    fit_stack,
    fit_temperature,
    seen,
    warn,
)

STACKED = "stacked"
# As in StackedCalibration.
STACK_FOLDS = 5


class DecisionCalibration(PublishedScaling):
    """Scales logits so that decisions under a known cost matrix are cheap.

    The map is that of `StackedCalibration` or of one scaling, with a floor. The fit minimises the
    mean cost of the decisions ``argmin_d Σ_k z_k C_kd``, and not the log loss alone. This improves
    only the calibration that matters under these costs (P4 Theorem 1, Def. 4): the probabilities
    may be worse elsewhere.

    **Candidates.** The mean cost has no gradient. So several surrogates of it are minimised on all
    rows, each from the solution of least log loss (NLL). They vary the parameters of the map; the
    weight of the floor stays. For a stack they vary one temperature of its probabilities, on
    predictions that its maps made out of fold.

    **Selection.** Candidates are compared by the mean cost of their decisions out of fold, on
    `inner_cv` folds of the calibration rows. Where a rare mistake is very expensive this overfits
    (P4 §5.3). So NLL is a candidate too. It is kept unless the best other beats it by more than
    `safeguard` standard errors of the paired difference. For each fold the other folds choose the
    best, so that no candidate is judged by the rows that chose it. The standard error is widened
    twice:

    - Folds share training rows, so a gain that they all show is one gain (Nadeau and Bengio 2003).
    - An expensive mistake may have failed to occur in these rows by luck. Its variance is taken
      from NLL's probabilities, up to that of one mistake of the worst kind.

    **Fits.** NLL is fitted on all rows and on each fold, ``1 + inner_cv`` times, and so is each
    candidate. For a stack, NLL is fitted once. A temperature's mean cost is a step function of one
    number, and all its steps are found at once, so that a stack or a temperature takes less time
    than the other maps.

    Rows are dealt to the folds by their votes and predictions, so that their order does not matter.

    Parameters
    ----------
    estimator : classifier, default=None
        As in `TemperatureScaling`.
    cost_matrix : array-like or frame of shape (n_classes, n_decisions), default=None
        Cost of each decision under each class, as in `sklearn_lhcal.metrics.bayes_decision`; rows
        in the order of the sorted classes. Classes with names need a DataFrame whose index holds
        them. None: 0/1 costs. One matrix for all rows, in whose unit candidates are smoothed and
        compared; `decide` takes costs of each row.
    scaling : {"stacked", "temperature", "bias_corrected", "vector"}, default="stacked"
        The map.
    floor : {"uniform", "prior", None}, default="uniform"
        As in `TemperatureScaling`. None: no floor.
    criterion : str or torch.nn.Module, default="auto"
        Where the candidates come from beside NLL.

        - "nll": nowhere.
        - "direct": upper direct losses. A temperature, also that of a stack, minimises the mean
          cost itself, and that cost smoothed by a Gaussian of width .1 and .3 in log T.
        - "margin": margin rescaling, a looser bound (P4 Prop. 4).
        - "ece": the calibration error of the most probable class, in 15 hat-shaped bins, which
          leave a gradient.
        - "classwise_ece": the squared calibration error of each class in such bins, summed.
        - "auto": what has proved worth trying, today "direct".
        - A module is called as ``loss(log_proba, frequencies, weight)``.
    grid : dict or None, default=None
        Lists of hyper-parameters of the losses, tried in all combinations.

        - "lam": λ of "direct" and "margin", in units of the largest cost; .1 if left out.
        - "beta": β of the two, in units of its inverse; 30 if left out. A β of None is the minimum
          that is not smoothed.
        - "rate": the first rate of Adam in logits, which falls to 0 over 50 steps; .05 and .2 if
          left out.

        None: (λ/κ, βκ) of (.03, 10), (.03, 30) and (.3, 30) for "direct" and (1, 30) for "margin".
        Here κ is the standard deviation of the expected costs of the decisions, its mean over rows.
    bias_penalty : float or None, default=None
        As in `VectorScaling`, for the log loss of vector scaling.
    inner_cv : int, default=10
        Number of folds of the selection, alike in majority votes and predictions.
    safeguard : float or None, default=1.0
        Corrected standard errors by which a candidate must beat NLL; None: NLL is no candidate.
    cv, random_state, verbose
        As in `TemperatureScaling`.

    Attributes
    ----------
    criterion_ : str
        What was selected: "nll", "direct", ….
    best_params_ : dict
        Its hyper-parameters.
    cv_results_ : dict of lists and arrays
        ``params``, ``mean_risk`` out of fold, ``mean_difference`` from NLL, ``standard_error`` of
        the difference, and ``rank_risk``, candidate by candidate, in the unit of the costs.
    risk_difference_ : ConfidenceInterval
        Out-of-fold risk of the best other candidate, chosen for each fold by the other folds, less
        that of NLL; with its 95 % interval. Below 0 where the candidate is cheaper.
    cost_matrix_ : ndarray of shape (n_classes, n_decisions)
        Costs in the order of `classes_`.
    decisions_ : ndarray of shape (n_decisions,)
        What `decide` returns: column numbers, or the names of a frame's columns.
    temperature_, bias_, scale_, intercept_, floor_, floor_weight_, weights_, parameters_
        Parameters of the map, as in the calibrator of its name. Of a stack, `temperature_` is that
        of its probabilities, 1 for NLL.
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.
    estimator_ : classifier
        The fitted classifier.

    Warns
    -----
    DecisionCalibrationWarning
        Where the calibration rows cannot tell: a candidate looks better than NLL, but the interval
        of the difference reaches above NLL's whole risk. NLL is then kept. The message holds the
        interval.

    Raises
    ------
    ValueError
        A cost matrix that does not fit the classes or leaves nothing to decide, an unknown scaling,
        floor or criterion, an `inner_cv` below 2, a negative `safeguard`, a `grid` with other keys
        or values that are not positive.

    References
    ----------
    P4, *Calibration for decision making via empirical risk minimization*; Zhao, Kim, Sahoo, Ma and
    Ermon (2021), Calibrating predictions to decisions; Nadeau and Bengio (2003), Inference for the
    generalization error.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(600, overconfidence=3.0, random_state=0)
    >>> costs = [[0, 1, 2], [5, 0, 1], [20, 3, 0]]
    >>> calibrator = DecisionCalibration("proba", costs)
    >>> calibrator = calibrator.fit(data.prediction[:300], data.counts[:300])
    >>> calibrator.decide(data.prediction[300:304])
    array([2, 0, 2, 1])
    """

    def __init__(
        self,
        estimator: Calibrated = None,
        cost_matrix: ArrayLike | None = None,
        *,
        scaling: Literal["stacked", "temperature", "bias_corrected", "vector"] = "stacked",
        floor: Literal["uniform", "prior"] | None = "uniform",
        criterion: Literal["auto", "direct", "margin", "nll", "ece", "classwise_ece"]
        | nn.Module = "auto",
        grid: Mapping[str, Sequence[float | None]] | None = None,
        bias_penalty: float | None = None,
        inner_cv: int = 10,
        safeguard: float | None = 1.0,
        cv: Folds | Literal["holdout"] = None,
        random_state: Seed = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(estimator, cv=cv, random_state=random_state, verbose=verbose)
        self.cost_matrix = cost_matrix
        self.scaling = scaling
        self.floor = floor
        self.criterion = criterion
        self.grid = grid
        self.bias_penalty = bias_penalty
        self.inner_cv = inner_cv
        self.safeguard = safeguard

    def decide(self, X: Samples, cost_matrix: CostsOfRows = None) -> NDArray:
        """The decision of least expected cost for each row, shape (n_samples,).

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            What the classifier takes.
        cost_matrix : array-like, callable or None, default=None
            What the same decisions cost now: shape (n_classes, n_decisions), or (n_samples,
            n_classes, n_decisions) for costs of each row; or a callable that returns either for X.
            None: as in the fit.

        Returns
        -------
        decisions : ndarray of shape (n_samples,)
            Column numbers, or a frame's names.
        """
        check_is_fitted(self, "estimator_")
        z = self.predict_proba(X)
        return self.decisions_[bayes_columns(z, self._costs_of(X, cost_matrix, len(z)))]

    def expected_cost(self, X: Samples, cost_matrix: CostsOfRows = None) -> Floats:
        """What the model expects each decision to cost, shape (n_samples, n_decisions).

        Parameters
        ----------
        X, cost_matrix
            As in `decide`.

        Returns
        -------
        cost : ndarray of shape (n_samples, n_decisions)
        """
        check_is_fitted(self, "estimator_")
        z = self.predict_proba(X)
        return expected_costs(z, self._costs_of(X, cost_matrix, len(z)))

    def _costs_of(self, X, given, n: int) -> Floats:
        """Costs (K, D), or one a row (n, K, D), in the order of the classes."""
        if given is None:
            return self.cost_matrix_
        if callable(given):
            given = given(X)
        costs = check_cost_matrix(given, a_row=True)
        costs = costs.for_classes(self.classes_, len(self.classes_), "the classifier")
        n_decisions = len(self.decisions_)
        if costs.C.shape[-1] != n_decisions:
            raise ValueError(
                f"cost_matrix has {costs.C.shape[-1]} columns, but the calibrator was fitted for "
                f"{n_decisions} decisions."
            )
        if costs.decisions is not None and not np.array_equal(costs.decisions, self.decisions_):
            raise ValueError(
                f"cost_matrix names the decisions {costs.decisions.tolist()[:20]}, the fit had "
                f"{self.decisions_.tolist()[:20]}."
            )
        costs.check_rows(n)
        return costs.C

    def _family(self, n_classes):
        return FAMILIES[self.scaling](n_classes)

    def _fit_x(self, family, rows, floor):
        if self.scaling == "temperature":
            return fit_temperature(rows, floor)
        if self.scaling == "vector":
            return super()._fit_x(family, rows, floor)
        return fit_shrunk(family, rows, floor)

    def _check(self, one_model):
        if self.scaling not in (STACKED, *FAMILIES):
            raise ValueError(
                f"scaling must be one of {[STACKED, *FAMILIES]}, got {self.scaling!r}."
            )
        if not isinstance(self.criterion, nn.Module) and self.criterion not in CRITERIA:
            raise ValueError(
                f"criterion must be one of {list(CRITERIA)} or a torch module, got "
                f"{self.criterion!r}."
            )
        if not isinstance(self.inner_cv, (int, np.integer)) or self.inner_cv < 2:
            raise ValueError(
                f"inner_cv must be an int of at least 2, got {self.inner_cv!r}; without a "
                'selection the criterion is "nll".'
            )
        check_not_negative(safeguard=0.0 if self.safeguard is None else self.safeguard)
        check_grid(self.grid)
        super()._check(one_model)

    def _fit_map(self, rows):
        rows = seen(rows, self.floor)
        cost_matrix, decisions = self._costs(rows.classes)
        C = relative(cost_matrix)
        if C.max() == 0:
            raise ValueError("cost_matrix has equal costs for all decisions: nothing is to decide.")
        C = C / C.max()
        stack, rows, fitted = self._solved(rows)
        candidates = candidates_of(self.criterion, fitted, rows, C, self.grid)
        found = self._out_of_fold(candidates, stack, fitted, rows, C)
        selection = PairedRule(self.safeguard).select(found, rows, cost_matrix)
        if selection.best:
            x = candidates.fit(fitted, np.arange(len(rows)))[selection.best - 1]
            fitted = fitted._replace(x=x)
        if stack is not None:
            fitted = StackAtTemperature(stack, fitted)
        params = found.params[selection.best]
        learnt = {
            "_fitted_map": fitted,
            "cost_matrix_": cost_matrix,
            "decisions_": decisions,
            "cv_results_": selection.results,
            "risk_difference_": selection.difference,
            "best_params_": params,
            "criterion_": params["criterion"],
        }
        return learnt | fitted.attributes()

    def _solved(self, rows):
        """The stack, or None; the rows that the search sees; and the map that it starts from."""
        if self.scaling != STACKED:
            fitted = self._fitted(rows)
            warn(rows, fitted, self._remedy)
            return None, rows, fitted
        stack, predicted = fit_stack(rows, self.floor, STACK_FOLDS, self.verbose)
        warn(rows, stack.maps[0], self._remedy)
        family = TemperatureMap(rows.n_classes)
        return stack, predicted, FittedMap(family, family.start())

    def _costs(self, classes):
        """The cost matrix in the order of the classes, and the names of its decisions."""
        given = self.cost_matrix
        if given is None:
            given = Costs(1.0 - np.eye(len(classes)), classes, None)
        costs = check_cost_matrix(given).for_classes(classes, len(classes), "the classifier")
        return costs.C, costs.names(np.arange(costs.C.shape[1]))

    def _out_of_fold(self, candidates, stack, fitted, rows: CalibrationRows, C) -> OutOfFold:
        """Decisions of all candidates for rows they were not fitted on."""
        votes = rows.counts.argmax(axis=1)
        folds = min(self.inner_cv, int(np.bincount(votes).max()))
        if folds < 2 or not candidates.params:
            return in_sample(fitted, rows, C)
        splits = deal(rows, folds)
        # The stack has predicted out of fold already.
        starts = [fitted] * folds
        if stack is None:
            with warnings.catch_warnings():
                # The fit on all rows has said it.
                warnings.simplefilter("ignore", ConvergenceWarning)
                starts = [self._fitted(rows.take(train)) for train, _ in splits]
        return out_of_fold(candidates, rows, C, starts, splits, self.verbose)
