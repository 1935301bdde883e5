"""Calibration for decisions under a known cost matrix (P4): a transform, candidates, a rule."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..._utils.checks import check_samples, checked
from ..._utils.costs import Costs, bayes_columns, check_cost_matrix, expected_costs, relative
from ..._utils.estimators import resolve
from ..._utils.types import ArrayLike, CostsOfRows, Estimator, Floats, NDArray, Samples
from .._rows import CalibrationRows, parameters
from .._scaling.fit import rows_for_fit, warn_of
from .._scaling.maps import FittedMap, TemperatureMap
from .._scaling.scalings import (
    BiasCorrectedTemperatureScaling,
    Scaling,
    StackedCalibration,
    TemperatureScaling,
    VectorScaling,
)
from .._scaling.stack import fit_stack

if TYPE_CHECKING:
    from torch import nn

STACKED = "stacked"
SCALINGS: dict[str, type] = {
    STACKED: StackedCalibration,
    "temperature": TemperatureScaling,
    "bias_corrected": BiasCorrectedTemperatureScaling,
    "vector": VectorScaling,
}
# As in StackedCalibration.
STACK_FOLDS = 5


@parameters
class DecisionCalibration(Scaling):
    """Scales logits so that decisions under a known cost matrix are cheap.

    The calibration method is that of `StackedCalibration` or one scaling, with uniform mixing. The
    fit minimises the mean cost of the decisions ``argmin_d Σ_k z_k C_kd``, and not the log loss
    alone. This improves only the calibration that matters under these costs (P4 Theorem 1, Def. 4):
    the probabilities may be worse elsewhere.

    **Candidates.** The mean cost has no gradient. So several surrogates of it are minimised on all
    samples, each from the solution of least log loss (NLL). They vary the parameters of the
    calibration method; the weight of the uniform mixing stays. For a stacked calibrator they vary
    one temperature of its probabilities, on predictions that its methods made out of fold. The
    stacked calibrator itself has a matrix and the class frequencies among its methods: where
    predictions say nothing it takes the frequencies, whose decision is the best that is the same
    for all samples.

    **Selection.** Candidates are compared by the mean cost of their decisions out of fold, on
    `inner_cv` folds of the calibration samples. Where a rare mistake is very expensive this
    overfits (P4 §5.3). So NLL is a candidate too. It is kept unless the best other beats it by more
    than `safeguard` standard errors of the paired difference. For each fold the other folds choose
    the best, so that no candidate is judged by the samples that chose it. The standard error is
    widened twice:

    - Folds share training samples, so a gain that they all show is one gain (Nadeau and Bengio
      2003).
    - An expensive mistake may have failed to occur in these samples by luck. Its variance is taken
      from NLL's probabilities, up to that of one mistake of the worst kind.

    Last, the best decision that is the same for all samples, the default decision, is compared with
    what was selected. Where it is cheaper out of fold by more than `safeguard` standard errors, the
    class frequencies are predicted for each sample, and so it is decided everywhere.

    **Fits.** NLL is fitted on all samples and on each fold, ``1 + inner_cv`` times, and so is each
    candidate. For a stacked calibrator, NLL is fitted once, and the mean cost of a temperature is
    found once for all fits, on a grid of T with steps of 1%. This takes less time than the other
    scalings.

    **Rare classes.** The cost that the model expects, `sklearn_lhcal.metrics.model_risk`, may be
    far off, too high or too low, where few labels are of an expensive class: 4% of 200 are 8.
    Believe `sklearn_lhcal.metrics.decision_risk` on other samples; more
    calibration samples bring both together.

    Samples are dealt to the folds by their labels and predictions, so that their order does not
    matter.

    Parameters
    ----------
    estimator : classifier, default=None
        As in `TemperatureScaling`.
    cost_matrix : array-like or frame of shape (n_classes, n_decisions), default=None
        Cost of each decision under each class, as in `sklearn_lhcal.metrics.bayes_decision`;
        samples in the order of the sorted classes. Classes with names need a DataFrame whose index
        holds them. None: 0/1 costs. Candidates are smoothed and compared in the unit of this one
        matrix; `decide` takes costs of each sample.
    scaling : {"stacked", "temperature", "bias_corrected", "vector"}, default="stacked"
        The calibration method.
    mixing : {"auto", "uniform", "prior", None}, default="auto"
        As in `TemperatureScaling`. None: no uniform mixing. "auto": "uniform", but None with the
        grid of the paper.
    criterion : str or torch.nn.Module, default="auto"
        Where the candidates come from beside NLL.

        - "nll": nowhere.
        - "direct": upper direct losses, which lower costs in some problems and not in others. A
          temperature, also that of a stacked calibrator, minimises
          the mean cost itself, and that cost smoothed by a Gaussian of width 0.1 and 0.3 in log T.
        - "margin": margin rescaling, a looser bound (P4 Prop. 4).
        - "ece": the calibration error of the most probable class, in 15 hat-shaped bins, which
          leave a gradient.
        - "auto": what has proved worth trying, today "direct".
        - A module is called as ``loss(log_proba, frequencies, weight)``.
    grid : dict, "paper" or None, default=None
        Lists of hyper-parameters of the losses, tried in all combinations; {} is None. A grid
        replaces the exact search for a temperature: with ``scaling="stacked"`` (the default) or
        "temperature", "direct" minimises the mean cost itself without a grid, and upper direct
        losses, by Adam, with one.

        - "lam": λ of "direct" and "margin", in units of the largest cost; 0.1 if left out.
        - "beta": β of the two, in units of its inverse; 30 if left out. A β of None is the minimum
          that is not smoothed.
        - "rate": the first rate of Adam in logits, which falls to 0 over 50 steps; 0.05 and 0.2 if
          left out. "ece" and modules take no other key, "nll" takes none.

        None: (λ/κ, βκ) of (0.03, 10), (0.03, 30) and (0.3, 30) for "direct" and (1, 30) for
        "margin". Here κ is the standard deviation of the expected costs of the decisions, its mean
        over samples.

        "paper": P4's method (App. B.1), with "temperature", "bias_corrected" or "vector" scaling.
        Eq. (18) is minimised, for a temperature too, without uniform mixing and without NLL among
        the candidates. Ten folds choose among its rates 1, 0.1, 0.01 and 0.001, its β None, 1, 5,
        10, 20, 30 and 40, and λ of 0.1, 1 and 10, in units of the largest cost.
    bias_penalty : float or None, default=None
        As in `VectorScaling`, for the log loss of vector scaling; only with it.
    inner_cv : int, default=10
        Number of folds of the selection, alike in majority labels and predictions; no more than
        samples with one majority label.
    safeguard : "auto", float or None, default="auto"
        Corrected standard errors by which a candidate must beat NLL; None: NLL is no candidate.
        "auto": 1, but None with the grid of the paper.
    cv, ensemble, random_state, verbose
        As in `TemperatureScaling`.

    Attributes
    ----------
    criterion_ : str
        What was selected: "nll", "direct", …, or "default": the class frequencies for each sample,
        as of a vector scaling with scales of 0.
    best_params_ : dict
        Its hyper-parameters.
    cv_results_ : dict of lists and arrays
        ``params``, ``mean_risk`` out of fold, ``mean_difference`` from NLL, ``standard_error`` of
        the difference, and ``rank_risk``, candidate by candidate, in the unit of the costs. NaN
        where nothing was compared: with "nll", or with samples too few for two folds.
    risk_difference_ : ConfidenceInterval
        Out-of-fold risk of the best other candidate, chosen for each fold by the other folds, less
        that of NLL; with its 95% interval. Below 0 where the candidate is cheaper, NaN where
        nothing was compared.
    cost_matrix_ : ndarray of shape (n_classes, n_decisions)
        Costs in the order of `classes_`.
    decisions_ : ndarray of shape (n_decisions,)
        What `decide` returns: column numbers, or the names of a frame's columns.
    temperature_, bias_, scale_, intercept_, mixing_proba_, mixing_weight_, weights_, parameters_
        Parameters of the method, as in the calibrator of its name. Of a stacked one,
        `temperature_` is that of its probabilities, 1 for NLL.
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.
    estimator_ : classifier
        The fitted classifier.

    Warns
    -----
    DecisionCalibrationWarning
        Where the calibration samples cannot tell: a candidate looks better than NLL, but the
        interval of the difference reaches above NLL's whole risk. NLL is then kept. The message
        holds the interval.

    Raises
    ------
    ValueError
        A cost matrix that does not fit the classes or leaves nothing to decide, an unknown scaling,
        `mixing` or criterion, an `inner_cv` below 2, a negative `safeguard`, a `grid` with keys
        that the criterion does not use or values that are not lists of positive numbers, a
        `bias_penalty` without vector scaling.

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

    cost_matrix: ArrayLike | None = None
    _: KW_ONLY
    scaling: Literal["stacked", "temperature", "bias_corrected", "vector"] = "stacked"
    criterion: Literal["auto", "nll", "ece", "direct", "margin"] | "nn.Module" = "auto"
    grid: Mapping[str, Sequence[float | None]] | Literal["paper"] | None = None
    bias_penalty: float | None = None
    inner_cv: int = 10
    safeguard: float | Literal["auto"] | None = "auto"

    def decide(self, X: Samples, cost_matrix: CostsOfRows | None = None) -> NDArray:
        """The decision of least expected cost for each sample, shape (n_samples,).

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            What the classifier takes.
        cost_matrix : array-like, callable or None, default=None
            What the same decisions cost now: shape (n_classes, n_decisions), or (n_samples,
            n_classes, n_decisions) for costs of each sample; or a callable that returns either for
            X. None: as in the fit.

        Returns
        -------
        decisions : ndarray of shape (n_samples,)
            Column numbers, or a frame's names.
        """
        z = self.predict_proba(X)
        return self.decisions_[bayes_columns(z, self._costs_of(X, cost_matrix, len(z)))]

    def expected_cost(self, X: Samples, cost_matrix: CostsOfRows | None = None) -> Floats:
        """What the model expects each decision to cost, shape (n_samples, n_decisions).

        Parameters
        ----------
        X, cost_matrix
            As in `decide`.

        Returns
        -------
        cost : ndarray of shape (n_samples, n_decisions)
        """
        z = self.predict_proba(X)
        return expected_costs(z, self._costs_of(X, cost_matrix, len(z)))

    def _costs_of(self, X, given, n: int) -> Floats:
        """Costs (K, D), or one per sample (n, K, D), in the order of the classes."""
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

    def _resolved(self) -> tuple[str | None, float | None]:
        """Uniform mixing and the safeguard, of which the method of the paper has none."""
        ours = self.grid != "paper"
        mixing = self.mixing
        safeguard = self.safeguard
        if mixing == "auto":
            mixing = "uniform" if ours else None
        if safeguard == "auto":
            safeguard = 1.0 if ours else None
        return mixing, safeguard

    def _scaling(self) -> Scaling:
        """The scaling of that name, with the parameters of this calibrator."""
        options = {"bias_penalty": self.bias_penalty} if self.scaling == "vector" else {}
        return SCALINGS[self.scaling](mixing=self._resolved()[0], **options)

    def _check(self, one_model):
        if self.bias_penalty is not None and self.scaling != "vector":
            raise ValueError(
                f'bias_penalty is for scaling="vector" alone; leave it None for {self.scaling!r}.'
            )
        from .objective import check_criterion, check_grid

        check_criterion(self.criterion)
        check_grid(self.grid, self.criterion)
        self._scaling()._check(one_model)

    def _fitted(self, rows, mixing):
        return self._scaling()._fitted(rows, mixing)

    def _fit_map(self, rows):
        # what searches needs torch, which what decides does without
        from .objective import AUTO
        from .select import Search, select

        mixing, safeguard = self._resolved()
        rows = rows_for_fit(rows, mixing)
        cost_matrix, decisions = self._costs(rows.classes)
        if relative(cost_matrix).max() == 0:
            raise ValueError("cost_matrix has equal costs for all decisions: nothing is to decide.")
        is_stack = self.scaling == STACKED
        if is_stack:
            stack, folds = fit_stack(rows, mixing, STACK_FOLDS, self.verbose)
            warn_of(rows, stack.maps, *self._remedies)
            # the samples as stacked calibrators that did not see them predict them
            u = np.empty_like(rows.log_proba)
            for test, one in folds:
                u[test] = one.log_z(rows.log_proba[test])
            rows = replace(rows, log_proba=u)
            # It has predicted out of fold already: its temperature is 1 and is not fitted.
            family = TemperatureMap(rows.n_classes)
            nll = FittedMap(family, family.start())
        else:
            nll = self._fitted(rows, mixing)
            warn_of(rows, [nll], *self._remedies)

        def refit(part: CalibrationRows) -> FittedMap:
            return nll if is_stack else self._fitted(part, mixing)

        search = Search(
            rows=rows,
            C=cost_matrix,
            nll=nll,
            refit=refit,
            splits=rows.dealt(self.inner_cv),
            criterion=AUTO if self.criterion == "auto" else self.criterion,
            grid=self.grid or None,
            safeguard=safeguard,
            verbose=self.verbose,
        )
        fitted, learnt = select(search)
        if is_stack:
            fitted = fitted.after(stack)
        learnt |= {"_fitted_map": fitted, "cost_matrix_": cost_matrix, "decisions_": decisions}
        return learnt | fitted.attributes()

    def _costs(self, classes):
        """The cost matrix in the order of the classes, and the names of its decisions."""
        given = self.cost_matrix
        if given is None:
            given = Costs(1.0 - np.eye(len(classes)), classes, None)
        costs = check_cost_matrix(given).for_classes(classes, len(classes), "the classifier")
        return costs.C, costs.names(np.arange(costs.C.shape[1]))


@checked
def decide(estimator: Estimator, X: Samples, cost_matrix: CostsOfRows | None = None) -> NDArray:
    """Decisions of a fitted `DecisionCalibration`, also in a Pipeline, a search, or frozen.

    Parameters
    ----------
    estimator : fitted estimator
        It, or what it wraps, has a method `decide`.
    X : array-like of shape (n_samples, ...)
        What the outermost estimator takes.
    cost_matrix : array-like, callable or None, default=None
        As in `DecisionCalibration.decide`; a callable gets this X. A `RiskControlledDecision`
        takes none: its guarantee holds for the costs of its fit.

    Returns
    -------
    decisions : ndarray of shape (n_samples,)
        Column numbers of the cost matrix, or names of its columns.

    Raises
    ------
    ValueError
        Where nothing decides, or other costs are given to a guarantee.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.frozen import FrozenEstimator
    >>> from sklearn_lhcal.calibration import DecisionCalibration
    >>> proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
    >>> model = DecisionCalibration("proba", [[0, 1], [4, 0]], criterion="nll")
    >>> model = model.fit(proba, [[9, 1], [6, 4], [2, 8]])
    >>> decide(FrozenEstimator(model), proba)
    array([0, 1, 1])
    """
    return _call_inner(estimator, X, cost_matrix, "decide")


@checked
def expected_cost(
    estimator: Estimator, X: Samples, cost_matrix: CostsOfRows | None = None
) -> Floats:
    """Expected costs of decisions under a fitted `DecisionCalibration`, wrapped as for `decide`.

    Parameters
    ----------
    estimator, X, cost_matrix
        As in `decide`.

    Returns
    -------
    cost : ndarray of shape (n_samples, n_decisions)
        In the unit of the costs.

    Raises
    ------
    ValueError
        Where nothing decides, or other costs are given to a guarantee.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_lhcal.calibration import DecisionCalibration
    >>> proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
    >>> model = DecisionCalibration("proba", [[0, 1], [4, 0]], criterion="nll")
    >>> model = model.fit(proba, [[9, 1], [6, 4], [2, 8]])
    >>> expected_cost(model, proba[:1]).round(2)
    array([[0.77, 0.81]])
    """
    return _call_inner(estimator, X, cost_matrix, "expected_cost")


def _call_inner(estimator, X, cost_matrix, method: str):
    if callable(cost_matrix):
        cost_matrix = cost_matrix(X)
    estimator, X = resolve(estimator, check_samples(X), method)
    if not hasattr(estimator, method):
        raise ValueError(
            f"{type(estimator).__name__} decides nothing: take metrics.bayes_decision of its "
            "probabilities, or DecisionCalibration(model, cost_matrix) of a model that is not "
            "calibrated yet."
        )
    call = getattr(estimator, method)
    if cost_matrix is None:
        return call(X)
    if "cost_matrix" not in inspect.signature(call).parameters:
        raise ValueError(
            f"cost_matrix was given to {method}, but the guarantee of {type(estimator).__name__} "
            "holds for the costs of its fit alone: leave it out, or fit again with these costs."
        )
    return call(X, cost_matrix)
