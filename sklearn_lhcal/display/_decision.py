"""Risk of decisions: true, estimated, in pairs, and over all ratios of two costs."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .._rows import PredictionLike, Rows, read_with_costs
from .._utils.checks import checked
from .._utils.costs import Costs, bayes_columns, check_cost_matrix, expected_cost
from .._utils.names import sorted_names
from .._utils.types import ArrayLike, Estimator, Groups, LabelsLike, Raters, Samples
from ..metrics import (
    confidence_interval,
    cost_curve,
    decision_risk,
    interval_over_splits,
    paired_difference,
)
from ._base import (
    DOTTED,
    SQUARE,
    Axes,
    Display,
    Styles,
    by_name,
    check_reference,
    draw_curves,
    draw_legend,
    draw_points,
    look_of,
    models_of,
    of_each,
    predicted_by_each,
    reach,
    styled,
)

_CONSTANT = DOTTED | {"label": "best default decision"}
_RISK = "Risk (mean cost)"


@dataclass(eq=False, repr=False)
class DecisionRiskDisplay(Display):
    """Risk of the decisions of several models, on one or several test sets: true and estimated.

    Make it with `from_predictions` or `from_estimator`. `plot` shows two risks of each model and
    split: the true one (filled), and the one that the model expects of its own decisions (open).
    The dotted line is the best default decision. `plot_differences` shows the true risk of each
    model minus that of a reference on the same samples. Where a mistake is rare and expensive, this
    tells more than the risks themselves. `plot_cost_curves` is for two classes and shows the risk
    over all ratios of the costs of the two mistakes.

    **Intervals.** On one test set they are the jackknife's over its samples; over several,
    Student's for the mean over splits. Repeated random splits of the same samples overlap: with
    `test_share` the variance is multiplied by ``1/S + test_share/(1−test_share)`` in place of 1/S.

    Parameters
    ----------
    names : list of str
        The models.
    true_risk, model_risk : array-like of shape (n_models, n_splits)
        Risk on the test samples, and risk as the model estimates it, in the unit of the costs.
    interval : array-like of shape (n_models, 2)
        Ends of the interval of the mean true risk.
    difference_interval : array-like of shape (n_models, 2)
        Ends of the interval of the mean difference from the reference.
    constant_risk : array-like of shape (n_splits,)
        Risk of the best default decision, in the unit of the costs.
    curves : array-like of shape (n_models + 1, 101), optional
        Cost curves of the models, and of the better constant decision. They hold the risk for s
        from 0 to 1, where a missed second class costs s and a missed first one 1 − s. Classes with
        names are sorted. None: more than two classes.
    reference : int, default=0
        Number of the model that differences are taken from.
    confidence_level : float, default=0.95
        Level of the intervals.
    class_names : sequence of two, optional
        The classes of the cost curves. None: they have no names.
    curve_interval : array-like of shape (n_models, 101, 2), optional
        Ends of the intervals of the models' cost curves, at each s.

    Attributes
    ----------
    points_ : list of matplotlib Line2D
        True risks, or differences, of the splits, one artist a model.
    model_points_ : list of matplotlib Line2D
        Self-assessed risks.
    errorbar_ : matplotlib ErrorbarContainer
        Means and intervals.
    constant_ : matplotlib Line2D
        The best default decision.
    lines_, bands_ : list of matplotlib Line2D, and of PolyCollection
        Cost curves and their intervals.
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

    names: list
    true_risk: NDArray
    model_risk: NDArray
    interval: NDArray
    difference_interval: NDArray
    constant_risk: NDArray
    curves: NDArray | None = None
    _: KW_ONLY
    reference: int = 0
    confidence_level: float = 0.95
    class_names: list | None = None
    curve_interval: NDArray | None = None

    @classmethod
    @checked
    def from_predictions(
        cls,
        y: LabelsLike | list[LabelsLike],
        predictions: PredictionLike | Mapping[str, PredictionLike] | list,
        cost_matrix: ArrayLike,
        *,
        reference: str | None = None,
        test_share: float | None = None,
        groups: Groups = None,
        raters: Raters = None,
        confidence_level: float = 0.95,
        ax: "Axes | None" = None,
        **plot_kwargs: Any,
    ) -> Self:
        """Risks of the Bayes decisions from class probabilities.

        Parameters
        ----------
        y : label histogram of shape (n_samples, n_classes), or list of these
            Anything `check_counts` takes; a list where `predictions` is one.
        predictions : dict, list of dicts, or array-like of shape (n_samples, n_classes)
            Class probabilities, or distributions, of each model by its name. A list holds one such
            dict for each split into calibration and test samples. An array is that of one model.
        cost_matrix : array-like or frame of shape (n_classes, n_decisions)
            As in `sklearn_lhcal.metrics.bayes_decision`: named classes meet those of labels and
            predictions by name.
        reference : str, optional
            The model that differences are taken from; None: the first.
        test_share : float, optional
            The share of the samples that test, where the splits are repeated random ones of the
            same samples. None: the splits do not overlap.
        groups : array-like of shape (n_samples,), optional
            Samples of one group (one patient, say) are dependent: intervals take them together. For
            one test set; the intervals of several splits are over splits.
        raters : {"random", "fixed"}, optional
            Whether the intervals of one test set are for new raters, which needs `Annotations`, or
            for these. None: "random" with `Annotations`, else "fixed", as in `confidence_interval`.
        confidence_level : float, default=0.95
            Level of the intervals.
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
            Splits with different models, groups for several splits, an unknown reference, a level
            or share outside (0, 1), other classes than the cost matrix has, or an unknown order.
        """
        ys, splits, names = splits_of(y, predictions)
        check_reference(reference, names)
        if groups is not None and len(ys) > 1:
            raise ValueError("groups are for one test set; intervals of splits are over splits.")
        costs = check_cost_matrix(cost_matrix)
        models = decide(ys, splits, names, costs, groups)
        first = 0 if reference is None else names.index(reference)
        risk, difference = intervals(models, first, confidence_level, test_share, raters)
        return cls(
            names,
            true_risks(models),
            np.array([[decided.model_risk for decided in model] for model in models]),
            risk,
            difference,
            np.array([decided.constant_risk for decided in models[first]]),
            **of_two_classes(models, confidence_level, test_share, raters),
            reference=first,
            confidence_level=confidence_level,
        ).plot(ax, **plot_kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Estimator,
        X: Samples,
        y: LabelsLike,
        cost_matrix: ArrayLike | None = None,
        **kwargs: Any,
    ) -> Self:
        """Risks of the Bayes decisions of fitted classifiers on one test set.

        Parameters
        ----------
        estimator : fitted classifier, or dict of these by name
            All with the same classes.
        X : array-like of shape (n_samples, ...)
            Features of the samples.
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes. Named labels meet the estimator's classes by name.
        cost_matrix : array-like or frame of shape (n_classes, n_decisions), optional
            Named classes meet those of the estimator by name. Where the matrix names none, the
            estimator's must be sorted. None: the matrix of the first fitted `DecisionCalibration`
            among the estimators.
        **kwargs
            As in `from_predictions`: `reference`, `groups`, `raters`, `confidence_level`, `ax` and
            those of `plot`.

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
        costs: Any = known_costs(estimator) if cost_matrix is None else cost_matrix
        return cls.from_predictions(y, predicted_by_each(estimator, X, y), costs, **kwargs)

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        point_kwargs: Styles = None,
        model_kwargs: Styles = None,
        errorbar_kwargs: dict | None = None,
    ) -> Self:
        """Draw true and estimated risks.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        point_kwargs, model_kwargs : dict or list of dict, optional
            Passed on to matplotlib's `plot`, of true risks and of estimated ones; a list has
            one for each model. Estimated risks have the colour of the true ones.
        errorbar_kwargs : dict, optional
            Passed on to matplotlib's `errorbar` (the mean of the true ones and its interval).

        Returns
        -------
        display
            Itself, with its artists.
        """
        self._take_axes(ax, SQUARE)
        self.points_ = []
        self.model_points_ = []
        true = of_each(point_kwargs, len(self.names), "point_kwargs")
        said = of_each(model_kwargs, len(self.names), "model_kwargs")
        # the legend names them once
        true[0] = {"label": "by the labels"} | true[0]
        said[0] = {"label": "as the model estimates"} | said[0]
        for i, both in enumerate(np.stack([self.true_risk, self.model_risk], axis=1)):
            sides = np.broadcast_to([[i - 0.1], [i + 0.2]], both.shape)
            self.ax_.plot(sides, both, color="0.8", linewidth=0.7, zorder=1)
            self.points_ += draw_points(self.ax_, i, sides[0], both[0], true[i])
            own = {"color": self.points_[-1].get_color(), "markerfacecolor": "white"} | said[i]
            self.model_points_ += draw_points(self.ax_, i, sides[1], both[1], own)
        mean = self.true_risk.mean(axis=1)
        x = np.arange(len(mean))
        style = self._mean_style("_", errorbar_kwargs)
        # beside the points of several test sets, on the point of one
        at = x - (0.26 if self.true_risk.shape[1] > 1 else 0.1)
        self.errorbar_ = self.ax_.errorbar(at, mean, reach(mean, self.interval), **style)
        self.constant_ = self.ax_.axhline(self.constant_risk.mean(), **_CONSTANT)
        self.ax_.set(ylabel=_RISK, xlim=(-0.5, len(x) - 0.5), xticks=x)
        # as many letters as fit beside each other
        long = len(self.names) * max(map(len, self.names)) > 40
        self.ax_.set_xticklabels(self.names, rotation=20 if long else 0)
        # costs that are all positive are seen from 0 on
        if self.ax_.get_ylim()[0] > 0:
            self.ax_.set_ylim(bottom=0)
        self.legend_ = draw_legend(self.ax_)
        for handle in self.legend_.legend_handles[:2]:
            handle.set(color="0.3")
        return self

    def plot_differences(
        self,
        ax: "Axes | None" = None,
        *,
        point_kwargs: Styles = None,
        errorbar_kwargs: dict | None = None,
    ) -> Self:
        """Draw the true risk of each model minus that of the reference; below 0 it is better.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        point_kwargs : dict or list of dict, optional
            Passed on to matplotlib's `plot` (splits); a list has one for each model.
        errorbar_kwargs : dict, optional
            Passed on to matplotlib's `errorbar` (mean and interval).

        Returns
        -------
        display
            Itself, with its artists.
        """
        self._take_axes(ax, SQUARE)
        others = [i for i in range(len(self.names)) if i != self.reference]
        difference = self.true_risk - self.true_risk[self.reference]
        own = of_each(point_kwargs, len(self.names), "point_kwargs")
        self.points_ = []
        for row, i in enumerate(others):
            at = np.full(difference.shape[1], row - 0.15)
            self.points_ += draw_points(self.ax_, i, difference[i], at, {"alpha": 0.6} | own[i])
        mean = difference[others].mean(axis=1)
        bars = reach(mean, self.difference_interval[others])
        rows = np.arange(len(others))
        style = self._mean_style("|", errorbar_kwargs)
        self.errorbar_ = self.ax_.errorbar(mean, rows + 0.15, xerr=bars, **style)
        self.ax_.axvline(0, **DOTTED)
        self.ax_.set(yticks=rows, ylim=(len(others) - 0.5, -0.5))
        self.ax_.set_yticklabels([self.names[i] for i in others])
        self.ax_.set_xlabel(f"Risk minus that of {self.names[self.reference]} (mean cost)")
        self.legend_ = draw_legend(self.ax_)
        return self

    def plot_cost_curves(
        self,
        ax: "Axes | None" = None,
        *,
        line_kwargs: Styles = None,
        band_kwargs: dict | None = None,
    ) -> Self:
        """Draw the risk over all ratios of the costs of the two mistakes; two classes only.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        line_kwargs : dict or list of dict, optional
            Passed on to matplotlib's `plot`; a list has one for each model.
        band_kwargs : dict, optional
            Passed on to matplotlib's `fill_between` (intervals at each s).

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
        self._take_axes(ax, SQUARE)
        own = of_each(line_kwargs, len(self.names), "line_kwargs")
        dashed = [look_of(i) | style for i, style in enumerate(own)]
        *curves, constant = self.curves
        shown = (curves, self.curve_interval, dict(enumerate(self.names)))
        self.lines_, self.bands_ = draw_curves(self.ax_, SHARES, *shown, dashed, band_kwargs)
        (self.constant_,) = self.ax_.plot(SHARES, constant, **_CONSTANT)
        first, second = "first", "the second class"
        if self.class_names is not None:
            first, second = (f"class {name}" for name in self.class_names)
        self.ax_.set(xlabel=f"Cost s of missing {second} ({first}: 1 − s)", xlim=(0, 1))
        self.ax_.set(ylabel=_RISK, ylim=(0, None))
        self._draw_legend()
        return self

    def _mean_style(self, marker: str, own: dict | None) -> dict:
        """How means and their intervals are drawn."""
        style = {"color": "0.15", "markersize": 9, "capsize": 3, "zorder": 1.5}
        return styled(own, fmt=marker, label=f"mean, {self._level}", **style)


# ------------------------------------------------------------------------------------ what is shown

# the cost of a missed second class; a missed first one costs the rest of 1
SHARES = np.linspace(0, 1, 101)


def splits_of(y, predictions) -> tuple[list, list, list]:
    """One label histogram and one dict of predictions for each split, and the models' names."""
    several = isinstance(predictions, (list, tuple)) and len(predictions)
    if not several or not all(isinstance(split, dict) for split in predictions):
        y = [y]
        predictions = [predictions]
    splits = [models_of(split) for split in predictions]
    names = list(splits[0])
    if any(list(split) != names for split in splits) or len(y) != len(splits):
        raise ValueError("Each split needs one y, and predictions of the same models.")
    return y, splits, names


class Decided:
    """The Bayes decisions of one model on one split; they are column numbers from here on."""

    def __init__(self, rows: Rows, costs: Costs):
        self.rows = rows
        costs = costs.for_classes(rows.classes, rows.z.shape[1])
        self.costs = costs._replace(decisions=None)
        C = self.costs.C
        self.d = bayes_columns(rows.z, C)
        self.true_risk = expected_cost(rows.mu, self.d, C).mean()
        self.model_risk = expected_cost(rows.z, self.d, C).mean()
        self.constant_risk = (rows.mu.mean(axis=0) @ C).min()


def known_costs(estimator) -> Costs:
    """The cost matrix of the first of the fitted estimators that has one."""
    for model in by_name(estimator).values():
        if hasattr(model, "cost_matrix_"):
            return Costs(model.cost_matrix_, np.asarray(model.classes_), None)
    raise ValueError("No estimator has a cost matrix; pass cost_matrix.")


def decide(ys, splits: list[dict], names: list, costs: Costs, groups) -> list[list[Decided]]:
    """The decisions of each model on each split, (n_models, n_splits)."""
    return [
        [
            Decided(read_with_costs(y, split[name], costs, None, groups), costs)
            for y, split in zip(ys, splits, strict=True)
        ]
        for name in names
    ]


def intervals(
    models: list[list[Decided]],
    first: int,
    confidence_level: float,
    test_share: float | None,
    raters: str | None,
) -> list[NDArray]:
    """Intervals of the risks and of the differences from the reference, (n_models, 2).

    Over the samples of one split, or over several splits.
    """
    if len(models[0]) == 1:
        return _over_rows([model[0] for model in models], first, confidence_level, raters)
    risk = true_risks(models)
    difference = risk - risk[first]
    return [_over_splits(v, test_share, confidence_level) for v in (risk, difference)]


def true_risks(models: list[list[Decided]]) -> NDArray:
    """The true risk of each model on each split, (n_models, n_splits)."""
    return np.array([[decided.true_risk for decided in model] for model in models])


def _over_rows(
    models: list[Decided], first: int, confidence_level: float, raters: str | None
) -> list[NDArray]:
    """Jackknife intervals of the risks and of the differences from the reference, (n_models, 2)."""
    how: dict = {"confidence_level": confidence_level, "random_state": 0}
    how |= {"groups": models[0].rows.groups, "raters": raters}
    single = [
        confidence_interval(
            decision_risk, model.rows.labels, model.d, cost_matrix=model.costs, **how
        )
        for model in models
    ]
    # decisions are column numbers, whatever the order of a model's classes
    reference = models[first]
    y = reference.rows.labels
    how["cost_matrix"] = reference.costs
    paired = [paired_difference(decision_risk, y, model.d, reference.d, **how) for model in models]
    return [np.array([(i.low, i.high) for i in found]) for found in (single, paired)]


def _over_splits(values, test_share: float | None, confidence_level: float) -> NDArray:
    """Intervals of the means over splits, of values (n, n_splits), shape (n, 2)."""
    how: dict = {"test_fraction": test_share, "confidence_level": confidence_level}
    found = [interval_over_splits(of, **how) for of in values]
    return np.array([(interval.low, interval.high) for interval in found])


def of_two_classes(
    models: list[list[Decided]],
    confidence_level: float,
    test_share: float | None,
    raters: str | None,
) -> dict:
    """Cost curves, and the names of the classes where they have names; nothing for more classes."""
    one = models[0][0]
    if len(one.costs.C) != 2:
        return {}
    classes = one.costs.classes
    how: dict = {"raters": raters, "confidence_level": confidence_level}
    curves = [
        [
            cost_curve(split.rows.labels, split.rows.distribution, groups=split.rows.groups, **how)
            for split in model
        ]
        for model in models
    ]
    # (n_models, n_splits, 101); the constant decision is the same for all models
    risk = np.array([[curve.risk for curve in model] for model in curves])
    ends = [model[0].interval for model in curves]
    if risk.shape[1] > 1:
        ends = [_over_splits(of.T, test_share, confidence_level) for of in risk]
    default = np.mean([curve.default_risk for curve in curves[-1]], axis=0)
    return {
        "curves": np.vstack([risk.mean(axis=1), default]),
        "curve_interval": np.array(ends),
        "class_names": None if classes is None else sorted_names(classes).tolist(),
    }
