"""Risk of decisions: true, self-assessed, in pairs, and over all ratios of two costs."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student

from .._ground.checks import check_fraction
from .._ground.costs import Costs, bayes_columns, check_cost_matrix, expected_cost
from .._ground.names import sort_order
from .._rows import Rows, read_priced, rows_of
from ..metrics import confidence_interval, decision_risk, paired_difference
from ._base import DOTTED, SQUARE, in_percent, new_axes

_SHARES = np.linspace(0, 1, 101)
_CONSTANT = DOTTED | {"label": "best constant decision"}


class DecisionRiskDisplay:
    """Risk of the decisions of several models, on one or several test sets: true and self-assessed.

    Make it with `from_predictions` or `from_estimator`. `plot` shows, for each model and split, the
    true risk (filled) and the risk that the model expects of its own decisions (open); the dotted
    line is the best constant decision. `plot_differences` shows the true risk of each model less
    that of a reference on the same rows; where a mistake is rare and expensive, this tells more
    than the risks themselves. `plot_cost_curves`, for two classes, shows the risk over all ratios
    of the costs of the two mistakes.

    **Intervals.** On one test set they are jackknife intervals over its rows. Over several they are
    Student's, for the mean over splits; repeated random splits of the same rows overlap, and
    `test_share` then widens them by Nadeau and Bengio's correction, their variance being multiplied
    by ``1/S + test_share/(1−test_share)`` in place of 1/S.

    Parameters
    ----------
    names : list of str
        The models.
    true_risk, model_risk : array-like of shape (n_models, n_splits)
        Risk on the test rows, and self-assessed risk, in the unit of the costs.
    interval : array-like of shape (n_models, 2)
        Ends of the interval of the mean true risk.
    difference_interval : array-like of shape (n_models, 2)
        Ends of the interval of the mean difference from the reference.
    constant_risk : array-like of shape (n_splits,)
        Risk of the best constant decision.
    curves : array-like of shape (n_models + 1, 101), optional
        Cost curves of the models, and of the better constant decision: the risk under costs s of a
        missed second class and 1 − s of a missed first one, for s from 0 to 1; classes with names
        are sorted. None: more than two classes.
    reference : int, default=0
        Number of the model that differences are taken from.
    confidence_level : float, default=0.95
        Of the intervals.
    class_names : sequence of two, optional
        The classes of the cost curves. None: they have no names.

    Attributes
    ----------
    points_ : list of matplotlib Line2D
        True risks, or differences, of the splits, one artist a model.
    model_points_ : list of matplotlib Line2D
        Self-assessed risks.
    errorbar_ : matplotlib ErrorbarContainer
        Means and intervals.
    constant_ : matplotlib Line2D
        The best constant decision.
    lines_ : list of matplotlib Line2D
        Cost curves.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    legend_ : matplotlib Legend

    References
    ----------
    P4 Fig. 3; Drummond and Holte (2006), Cost curves; Nadeau and Bengio (2003), Inference for the
    generalization error.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(500, overconfidence=3.0, random_state=0)
    >>> u = np.log(data.prediction)
    >>> z = np.exp(u / 3) / np.exp(u / 3).sum(axis=1, keepdims=True)
    >>> models = {"overconfident": data.prediction, "calibrated": z}
    >>> costs = [[0, 1, 2], [5, 0, 1], [20, 3, 0]]
    >>> display = DecisionRiskDisplay.from_predictions(data.counts, models, costs)
    >>> (display.true_risk > display.model_risk).ravel()  # whose risk is larger than it says
    array([ True, False])
    """

    def __init__(
        self,
        names: list[str],
        true_risk: ArrayLike,
        model_risk: ArrayLike,
        interval: ArrayLike,
        difference_interval: ArrayLike,
        constant_risk: ArrayLike,
        curves: ArrayLike | None = None,
        *,
        reference: int = 0,
        confidence_level: float = 0.95,
        class_names=None,
    ):
        self.names = list(names)
        self.true_risk = np.asarray(true_risk)
        self.model_risk = np.asarray(model_risk)
        self.interval = np.asarray(interval)
        self.difference_interval = np.asarray(difference_interval)
        self.constant_risk = np.asarray(constant_risk)
        self.curves = None if curves is None else np.asarray(curves)
        self.reference = reference
        self.confidence_level = confidence_level
        self.class_names = None if class_names is None else list(class_names)

    @classmethod
    def from_predictions(
        cls,
        y,
        predictions,
        cost_matrix,
        *,
        reference: str | None = None,
        test_share: float | None = None,
        confidence_level: float = 0.95,
        ax=None,
        **plot_kwargs,
    ) -> "DecisionRiskDisplay":
        """Risks of the Bayes decisions from class probabilities.

        Parameters
        ----------
        y : label histogram of shape (n_samples, n_classes), or list of these
            Anything `check_counts` takes; a list where `predictions` is one.
        predictions : dict, list of dicts, or array-like of shape (n_samples, n_classes)
            Class probabilities, or distributions, of each model by its name; a list of such dicts,
            one for each split into calibration and test rows; or those of one model.
        cost_matrix : array-like or frame of shape (n_classes, n_decisions)
            As in `sklearn_lhcal.metrics.bayes_decision`: named classes are matched by name with
            those of labels and predictions.
        reference : str, optional
            The model that differences are taken from; None: the first.
        test_share : float, optional
            Where the splits are repeated random ones of the same rows: the share of the rows that
            test.
        confidence_level : float, default=0.95
            Of the intervals.
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        **plot_kwargs
            Passed on to `plot`.

        Returns
        -------
        DecisionRiskDisplay

        Raises
        ------
        ValueError
            Splits with different models, an unknown reference, `confidence_level` or `test_share`
            outside (0, 1), classes that are not those of the cost matrix, or whose order is
            unknown, and whatever `check_counts`, `check_proba` and the cost matrix's gate refuse.
        """
        ys, splits = [y], [predictions]
        if _are_splits(predictions):
            ys, splits = list(y), list(predictions)
        splits = [split if isinstance(split, dict) else {"model": split} for split in splits]
        names = list(splits[0])
        if any(list(split) != names for split in splits) or len(ys) != len(splits):
            raise ValueError("Each split needs one y, and predictions of the same models.")
        costs = check_cost_matrix(cost_matrix)
        return cls._of_rows(
            [
                {name: _Decided.of(read_priced(y, z, costs), costs) for name, z in split.items()}
                for y, split in zip(ys, splits, strict=True)
            ],
            reference=reference,
            test_share=test_share,
            confidence_level=confidence_level,
            ax=ax,
            **plot_kwargs,
        )

    @classmethod
    def from_estimator(cls, estimator, X, y, cost_matrix=None, **kwargs) -> "DecisionRiskDisplay":
        """Risks of the Bayes decisions of fitted classifiers on one test set.

        Parameters
        ----------
        estimator : fitted classifier, or dict of these by name
            All with the same classes.
        X : array-like of shape (n_samples, ...)
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes; frames are aligned with the estimator's classes by name.
        cost_matrix : array-like or frame of shape (n_classes, n_decisions), optional
            Named classes are matched by name with those of the estimator; where the matrix names
            none, the estimator's must be sorted. None: that of the first fitted
            `DecisionCalibration` among the estimators.
        **kwargs
            As in `from_predictions`: `reference`, `confidence_level`, `ax` and those of `plot`.

        Returns
        -------
        DecisionRiskDisplay

        Raises
        ------
        ValueError
            As `from_predictions`; no cost matrix at all.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.naive_bayes import GaussianNB
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> model = GaussianNB().fit(X[:300], y[:300])
        >>> display = DecisionRiskDisplay.from_estimator(model, X[300:], y[300:], [[0, 20], [1, 0]])
        >>> display.names
        ['GaussianNB']
        """
        models = estimator if isinstance(estimator, dict) else {type(estimator).__name__: estimator}
        if cost_matrix is not None:
            costs = check_cost_matrix(cost_matrix)
        else:
            known = [model for model in models.values() if hasattr(model, "cost_matrix_")]
            if not known:
                raise ValueError("No estimator has a cost matrix; pass cost_matrix.")
            costs = Costs(known[0].cost_matrix_, np.asarray(known[0].classes_), None)
        decided = {name: _Decided.of(rows_of(model, X, y), costs) for name, model in models.items()}
        return cls._of_rows([decided], **kwargs)

    @classmethod
    def _of_rows(
        cls,
        splits: "list[dict[str, _Decided]]",
        *,
        reference=None,
        test_share=None,
        confidence_level=0.95,
        ax=None,
        **plot_kwargs,
    ) -> "DecisionRiskDisplay":
        check_fraction(confidence_level=confidence_level)
        if test_share is not None:
            check_fraction(test_share=test_share)
        names = list(splits[0])
        if reference is not None and reference not in names:
            raise ValueError(f"reference must be one of the models {names}, got {reference!r}.")
        first = 0 if reference is None else names.index(reference)
        models = [[split[name] for split in splits] for name in names]
        true = np.array([[decided.true_risk for decided in model] for model in models])
        said = np.array([[decided.model_risk for decided in model] for model in models])
        constant = [decided.constant_risk for decided in models[first]]
        if len(splits) == 1:
            decided = [model[0] for model in models]
            intervals = _over_rows(decided, decided[first], confidence_level)
        else:
            intervals = [
                _over_splits(values, test_share, confidence_level)
                for values in (true, true - true[first])
            ]
        curves, classes = None, None
        if len(models[0][0].costs.C) == 2:
            curves = _curves(models)
            classes = models[0][0].class_names
        display = cls(
            names,
            true,
            said,
            *intervals,
            constant,
            curves,
            reference=first,
            confidence_level=confidence_level,
            class_names=classes,
        )
        return display.plot(ax, **plot_kwargs)

    def plot(self, ax=None, *, point_kwargs=None, model_kwargs=None, errorbar_kwargs=None):
        """Draw true and self-assessed risks.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        point_kwargs, model_kwargs, errorbar_kwargs : dict, optional
            Passed on to matplotlib's `plot` (true risks), `plot` (self-assessed ones) and
            `errorbar` (the mean of the true ones and its interval).

        Returns
        -------
        display
            Itself, with its artists.
        """
        self._axes(ax)
        self.points_, self.model_points_ = [], []
        x = np.arange(len(self.names))
        for i in x:
            sides = np.array([i - 0.06, i + 0.22])[:, None] * np.ones((1, self.true_risk.shape[1]))
            both = [self.true_risk[i], self.model_risk[i]]
            self.ax_.plot(sides, both, color="0.8", linewidth=0.7, zorder=1)
            style = {"marker": "o", "markersize": 4, "linestyle": "none", "color": f"C{i}"}
            own = {"label": None if i else "true"} | (point_kwargs or {})
            self.points_ += self.ax_.plot(sides[0], both[0], **style | own)
            own = {"markerfacecolor": "white", "label": None if i else "self-assessed"}
            own |= model_kwargs or {}
            self.model_points_ += self.ax_.plot(sides[1], both[1], **style | own)
        mean = self.true_risk.mean(axis=1)
        reach = np.abs(self.interval - mean[:, None]).T
        style = self._mean_style("_") | (errorbar_kwargs or {})
        self.errorbar_ = self.ax_.errorbar(x - 0.22, mean, reach, **style)
        self.constant_ = self.ax_.axhline(self.constant_risk.mean(), **_CONSTANT)
        self.ax_.set(ylabel="Risk (mean cost)", xlim=(-0.5, len(x) - 0.5), xticks=x)
        self.ax_.set_xticklabels(self.names, rotation=20 if max(map(len, self.names)) > 10 else 0)
        self.legend_ = self.ax_.legend(fontsize="small")
        return self

    def plot_differences(self, ax=None, *, point_kwargs=None, errorbar_kwargs=None):
        """Draw the true risk of each model less that of the reference; below 0 it is better.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        point_kwargs, errorbar_kwargs : dict, optional
            Passed on to matplotlib's `plot` (splits) and `errorbar` (mean and interval).

        Returns
        -------
        display
            Itself, with its artists.
        """
        self._axes(ax)
        others = [i for i in range(len(self.names)) if i != self.reference]
        difference = self.true_risk - self.true_risk[self.reference]
        self.points_ = []
        for row, i in enumerate(others):
            style = {"marker": "o", "markersize": 4, "linestyle": "none", "alpha": 0.6}
            style |= {"color": f"C{i}"} | (point_kwargs or {})
            at = np.full(difference.shape[1], row - 0.15)
            self.points_ += self.ax_.plot(difference[i], at, **style)
        mean = difference[others].mean(axis=1)
        reach = np.abs(self.difference_interval[others] - mean[:, None]).T
        style = self._mean_style("|") | (errorbar_kwargs or {})
        at = np.arange(len(others)) + 0.15
        self.errorbar_ = self.ax_.errorbar(mean, at, xerr=reach, **style)
        self.ax_.axvline(0, **DOTTED)
        self.ax_.set(yticks=range(len(others)), ylim=(len(others) - 0.5, -0.5))
        self.ax_.set_yticklabels([self.names[i] for i in others])
        self.ax_.set_xlabel(f"Risk less that of {self.names[self.reference]} (mean cost)")
        self.legend_ = self.ax_.legend(fontsize="small")
        return self

    def plot_cost_curves(self, ax=None, *, line_kwargs=None):
        """Draw the risk over all ratios of the costs of the two mistakes; two classes only.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        line_kwargs : dict, optional
            Passed on to matplotlib's `plot`.

        Returns
        -------
        display
            Itself, with its artists.

        Raises
        ------
        ValueError
            More than two classes.
        """
        if self.curves is None:
            raise ValueError("Cost curves are for two classes; these predictions have more.")
        self._axes(ax)
        self.lines_ = []
        for name, curve in zip(self.names, self.curves, strict=False):
            style = {"linewidth": 1.5, "label": name} | (line_kwargs or {})
            self.lines_ += self.ax_.plot(_SHARES, curve, **style)
        (self.constant_,) = self.ax_.plot(_SHARES, self.curves[-1], **_CONSTANT)
        first, second = "first", "the second class"
        if self.class_names is not None:
            first, second = (f"class {name}" for name in self.class_names)
        self.ax_.set(xlabel=f"Cost s of missing {second} ({first}: 1 − s)", xlim=(0, 1))
        self.ax_.set_ylabel("Risk (mean cost)")
        self.ax_.set_ylim(bottom=0)
        self.legend_ = self.ax_.legend(fontsize="small")
        return self

    def _axes(self, ax) -> None:
        self.ax_ = new_axes(SQUARE) if ax is None else ax
        self.figure_ = self.ax_.figure

    def _mean_style(self, marker: str) -> dict:
        """How means and their intervals are drawn."""
        label = f"mean, {in_percent(self.confidence_level)}"
        return {"fmt": marker, "color": "0.15", "markersize": 9, "capsize": 3, "label": label}


class _Decided(NamedTuple):
    """Rows of one model on one split, costs in the order of their columns, and the decisions."""

    rows: Rows
    costs: Costs
    d: NDArray[np.intp]

    @classmethod
    def of(cls, rows: Rows, costs: Costs) -> "_Decided":
        """The Bayes decisions for checked rows; decisions are column numbers from here on."""
        costs = costs.for_classes(rows.classes, rows.z.shape[1])._replace(decisions=None)
        return cls(rows, costs, bayes_columns(rows.z, costs.C))

    @property
    def true_risk(self) -> float:
        return expected_cost(self.rows.mu, self.d, self.costs.C).mean()

    @property
    def model_risk(self) -> float:
        return expected_cost(self.rows.z, self.d, self.costs.C).mean()

    @property
    def constant_risk(self) -> float:
        return (self.rows.mu.mean(axis=0) @ self.costs.C).min()

    @property
    def class_names(self) -> list | None:
        """Sorted names of the classes."""
        classes = self.costs.classes
        return None if classes is None else classes[sort_order(classes)].tolist()

    def curve(self) -> NDArray[np.float64]:
        """Risk at each share of the costs: the model's, and the better constant decision's."""
        z, mu = self.rows.z, self.rows.mu
        if self.rows.classes is not None:
            order = sort_order(self.rows.classes)
            z, mu = z[:, order], mu[:, order]
        risks = np.empty((2, len(_SHARES)))
        for j, s in enumerate(_SHARES):
            C = np.array([[0.0, 1 - s], [s, 0.0]])
            risks[0, j] = expected_cost(mu, bayes_columns(z, C), C).mean()
            risks[1, j] = (mu.mean(axis=0) @ C).min()
        return risks


def _are_splits(predictions) -> bool:
    if not isinstance(predictions, (list, tuple)) or not len(predictions):
        return False
    return all(isinstance(split, dict) for split in predictions)


def _over_rows(models: list[_Decided], reference: _Decided, confidence_level: float) -> list:
    """Jackknife intervals of the risks and of the differences from the reference, (n_models, 2)."""
    how = {"confidence_level": confidence_level, "random_state": 0}
    single = [
        confidence_interval(
            decision_risk, model.rows.labels, model.d, cost_matrix=model.costs, **how
        )
        for model in models
    ]
    # decisions are column numbers, whatever the order of a model's classes
    y = reference.rows.labels
    how["cost_matrix"] = reference.costs
    paired = [paired_difference(decision_risk, y, model.d, reference.d, **how) for model in models]
    return [np.array([(i.low, i.high) for i in found]) for found in (single, paired)]


def _over_splits(values, test_share: float | None, confidence_level: float):
    """Student's interval of the mean over splits, (n_models, 2)."""
    S = values.shape[1]
    overlap = 0.0 if test_share is None else test_share / (1 - test_share)
    error = np.sqrt(values.var(axis=1, ddof=1) * (1 / S + overlap))
    reach = student.ppf((1 + confidence_level) / 2, S - 1) * error
    return values.mean(axis=1)[:, None] + reach[:, None] * np.array([-1.0, 1.0])


def _curves(models: list[list[_Decided]]) -> NDArray[np.float64]:
    """Mean over splits of the curves of the models, then of the better constant decision."""
    # (n_models, 2, 101); the constant decision is the same for all models
    means = np.array([np.mean([decided.curve() for decided in model], axis=0) for model in models])
    return np.vstack([means[:, 0], means[-1:, 1]])
