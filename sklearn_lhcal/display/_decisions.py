"""Decisions of several models: net benefit over thresholds, cost over ratios of costs, and risk."""

from typing import Any, Self

import numpy as np

from .._utils.costs import Costs
from .._utils.types import ArrayLike, LabelsLike, Samples
from ..metrics import (
    CostCurve,
    DecisionCurve,
    DecisionRisks,
    cost_curve,
    decision_curve,
    decision_risks,
)
from ._base import (
    DOTTED,
    SQUARE,
    WIDE,
    Axes,
    PredictionDisplay,
    Styles,
    by_name,
    draw_curves,
    draw_points,
    look_of,
    of_each,
    reach,
    styled,
)

# in units of the largest net benefit: how far below 0 the axis goes
_BELOW = 0.15

_DEFAULT = DOTTED | {"label": "best default decision"}
_RISK = "Risk (mean cost)"


class DecisionCurveDisplay(PredictionDisplay):
    """Decision curves: the net benefit of acting on predictions, against the threshold.

    It draws the result of `decision_curve`, which `from_predictions` calls. To act on all samples
    whose probability of a class is t or more means that a false alarm weighs t/(1 − t) missed
    cases. The curve of a model shows the net benefit at each such t, see `net_benefit`. Two
    policies need no model: to act on every sample, or on none. The net benefit of acting on none is
    0. A model is useful where it lies above both. Only thresholds that somebody would choose
    matter.

    Parameters
    ----------
    result : DecisionCurve

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        The curves of the models.
    bands_ : list of matplotlib PolyCollection
        The intervals.
    all_, none_ : matplotlib Line2D
        Acting on every sample, and on none.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    legend_ : matplotlib Legend

    References
    ----------
    Vickers and Elkin (2006), Decision curve analysis: a novel method for evaluating prediction
    models.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(1000, 2, overconfidence=3.0, random_state=0)
    >>> display = DecisionCurveDisplay.from_predictions(
    ...     data.counts, {"overconfident": data.prediction, "true": data.proba}
    ... )
    >>> curve = display.result
    >>> low = curve.thresholds < 0.3  # there, who trusts the overconfident model gains less
    >>> curve.difference[:, low].mean(axis=1).round(3)
    array([0.021, 0.043])
    """

    result: DecisionCurve
    analysis = staticmethod(decision_curve)
    _several = True

    def plot(
        self, ax: "Axes | None" = None, *, line_kwargs: Styles = None, band_kwargs: Styles = None
    ) -> Self:
        """Draw the net benefit of the models, of acting on every sample, and on none.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        line_kwargs, band_kwargs : dict or list of dict, optional
            Passed on to matplotlib's `plot` (curves) and `fill_between` (intervals); a list has one
            for each model.

        Returns
        -------
        display
            Itself, with its artists.
        """
        self._take_axes(ax, WIDE)
        curve = self.result
        shown = dict(enumerate(curve.names))
        self._draw(curve.net_benefit, curve.interval, shown, line_kwargs, band_kwargs)
        grey = DOTTED | {"linestyle": "-", "color": "0.6", "zorder": 1}
        (self.all_,) = self.ax_.plot(curve.thresholds, curve.treat_all, label="act on all", **grey)
        self.none_ = self.ax_.axhline(0, label="act on none", **DOTTED)
        top = 1.08 * max(curve.net_benefit.max(), curve.treat_all.max(), 1e-6)
        self.ax_.set_ylim(-_BELOW * top, top)
        self.ax_.set_ylabel("Net benefit (true alarms per sample)")
        self._draw_legend(f"{self._level} intervals")
        return self

    def plot_differences(
        self, ax: "Axes | None" = None, *, line_kwargs: Styles = None, band_kwargs: Styles = None
    ) -> Self:
        """Draw the net benefit of the models minus that of the reference; above 0 they are better.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        line_kwargs, band_kwargs : dict or list of dict, optional
            As in `plot`.

        Returns
        -------
        display
            Itself, with its artists.
        """
        self._take_axes(ax, WIDE)
        curve = self.result
        shown = {i: name for i, name in enumerate(curve.names) if name != curve.reference}
        self._draw(curve.difference, curve.difference_interval, shown, line_kwargs, band_kwargs)
        what = curve.reference or "acting on all"
        self.none_ = self.ax_.axhline(0, label=what, **DOTTED)
        self.ax_.set_ylabel(f"Net benefit minus that of {what}\n(true alarms per sample)")
        # where one acts on all, false alarms at high thresholds would fill the figure
        reach = max(curve.net_benefit.max(), 1e-6)
        ends = np.clip(curve.difference_interval[list(shown)], -reach, reach)
        self.ax_.set_ylim(ends.min() - 0.05 * reach, ends.max() + 0.05 * reach)
        self._draw_legend(f"{self._level} intervals")
        return self

    def _draw(self, *curves) -> None:
        self.lines_, self.bands_ = draw_curves(self.ax_, self.result.thresholds, *curves)
        label = f"Threshold t: act where class {self.result.class_name} has probability t or more"
        self.ax_.set(xlabel=label, xlim=(0, 1))


class CostCurveDisplay(PredictionDisplay):
    """Cost curves of two classes: the risk of decisions over all ratios of the two costs.

    It draws the result of `cost_curve`, which `from_predictions` calls. A missed second class costs
    s, a missed first one 1 − s. The dotted line is the best default decision: a model is useful
    where it lies below.

    Parameters
    ----------
    result : CostCurve

    Attributes
    ----------
    lines_, bands_ : list of matplotlib Line2D, and of PolyCollection
        The curves of the models, and their intervals at each s.
    default_ : matplotlib Line2D
        The best default decision.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    legend_ : matplotlib Legend

    References
    ----------
    Drummond and Holte (2006), Cost curves.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(500, 2, overconfidence=3.0, random_state=0)
    >>> models = {"overconfident": data.prediction, "true": data.proba}
    >>> CostCurveDisplay.from_predictions(data.counts, models).result.risk[:, 20].round(3)
    array([0.063, 0.047])
    """

    result: CostCurve
    analysis = staticmethod(cost_curve)
    _several = True

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        line_kwargs: Styles = None,
        band_kwargs: dict | None = None,
    ) -> Self:
        """Draw the risk over all ratios of the costs of the two mistakes.

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
        """
        self._take_axes(ax, SQUARE)
        curve = self.result
        own = of_each(line_kwargs, len(curve.names), "line_kwargs")
        dashed = [look_of(i) | style for i, style in enumerate(own)]
        shown = (curve.risk, curve.interval, dict(enumerate(curve.names)))
        self.lines_, self.bands_ = draw_curves(self.ax_, curve.share, *shown, dashed, band_kwargs)
        (self.default_,) = self.ax_.plot(curve.share, curve.default_risk, **_DEFAULT)
        first, second = "first", "the second class"
        if curve.class_names is not None:
            first, second = (f"class {name}" for name in curve.class_names)
        self.ax_.set(xlabel=f"Cost s of missing {second} ({first}: 1 − s)", xlim=(0, 1))
        self.ax_.set(ylabel=_RISK, ylim=(0, None))
        self._draw_legend(f"{self._level} intervals")
        return self


class DecisionRiskDisplay(PredictionDisplay):
    """Risk of the decisions of several models, on one or several test sets: true and estimated.

    It draws the result of `decision_risks`, which `from_predictions` calls. `plot` shows two risks
    of each model and split: the true one (filled), and the one that the model expects of its own
    decisions (open). The dotted line is the best default decision. `plot_differences` shows the
    true risk of each model minus that of a reference on the same samples. Where a mistake is rare
    and expensive, this tells more than the risks themselves.

    Parameters
    ----------
    result : DecisionRisks

    Attributes
    ----------
    points_ : list of matplotlib Line2D
        True risks, or differences, of the splits, one artist a model.
    model_points_ : list of matplotlib Line2D
        Self-assessed risks.
    errorbar_ : matplotlib ErrorbarContainer
        Means and intervals.
    default_ : matplotlib Line2D
        The best default decision.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    legend_ : matplotlib Legend

    References
    ----------
    P4 Fig. 3.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(500, overconfidence=3.0, random_state=0)
    >>> u = np.log(data.prediction)
    >>> z = np.exp(u / 3) / np.exp(u / 3).sum(axis=1, keepdims=True)
    >>> models = {"overconfident": data.prediction, "calibrated": z}
    >>> costs = [[0, 1, 2], [5, 0, 1], [20, 3, 0]]
    >>> display = DecisionRiskDisplay.from_predictions(data.counts, models, costs)
    >>> risks = display.result
    >>> (risks.true_risk > risks.model_risk).ravel()  # whose risk is larger than it says
    array([ True, False])
    """

    result: DecisionRisks
    analysis = staticmethod(decision_risks)
    _several = True

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Samples,
        y: LabelsLike,
        cost_matrix: ArrayLike | None = None,
        **options: Any,
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
        **options
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
        >>> display.result.names
        ['GaussianNB']
        """
        costs: Any = known_costs(estimator) if cost_matrix is None else cost_matrix
        return super().from_estimator(estimator, X, y, costs, **options)

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
        risks = self.result
        self.points_ = []
        self.model_points_ = []
        true = of_each(point_kwargs, len(risks.names), "point_kwargs")
        said = of_each(model_kwargs, len(risks.names), "model_kwargs")
        # the legend names them once
        true[0] = {"label": "by the labels"} | true[0]
        said[0] = {"label": "as the model estimates"} | said[0]
        for i, both in enumerate(np.stack([risks.true_risk, risks.model_risk], axis=1)):
            sides = np.broadcast_to([[i - 0.1], [i + 0.2]], both.shape)
            self.ax_.plot(sides, both, color="0.8", linewidth=0.7, zorder=1)
            self.points_ += draw_points(self.ax_, i, sides[0], both[0], true[i])
            own = {"color": self.points_[-1].get_color(), "markerfacecolor": "white"} | said[i]
            self.model_points_ += draw_points(self.ax_, i, sides[1], both[1], own)
        mean = risks.true_risk.mean(axis=1)
        x = np.arange(len(mean))
        style = self._mean_style("_", errorbar_kwargs)
        # beside the points of several test sets, on the point of one
        at = x - (0.26 if risks.true_risk.shape[1] > 1 else 0.1)
        self.errorbar_ = self.ax_.errorbar(at, mean, reach(mean, risks.interval), **style)
        self.default_ = self.ax_.axhline(risks.default_risk.mean(), **_DEFAULT)
        self.ax_.set(ylabel=_RISK, xlim=(-0.5, len(x) - 0.5), xticks=x)
        # as many letters as fit beside each other
        long = len(risks.names) * max(map(len, risks.names)) > 40
        self.ax_.set_xticklabels(risks.names, rotation=20 if long else 0)
        # costs that are all positive are seen from 0 on
        if self.ax_.get_ylim()[0] > 0:
            self.ax_.set_ylim(bottom=0)
        self._draw_legend()
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
        risks = self.result
        others = [i for i, name in enumerate(risks.names) if name != risks.reference]
        difference = risks.difference
        own = of_each(point_kwargs, len(risks.names), "point_kwargs")
        self.points_ = []
        for row, i in enumerate(others):
            at = np.full(difference.shape[1], row - 0.15)
            self.points_ += draw_points(self.ax_, i, difference[i], at, {"alpha": 0.6} | own[i])
        mean = difference[others].mean(axis=1)
        bars = reach(mean, risks.difference_interval[others])
        rows = np.arange(len(others))
        style = self._mean_style("|", errorbar_kwargs)
        self.errorbar_ = self.ax_.errorbar(mean, rows + 0.15, xerr=bars, **style)
        self.ax_.axvline(0, **DOTTED)
        self.ax_.set(yticks=rows, ylim=(len(others) - 0.5, -0.5))
        self.ax_.set_yticklabels([risks.names[i] for i in others])
        self.ax_.set_xlabel(f"Risk minus that of {risks.reference} (mean cost)")
        self._draw_legend()
        return self

    def _mean_style(self, marker: str, own: dict | None) -> dict:
        """How means and their intervals are drawn."""
        style = {"color": "0.15", "markersize": 9, "capsize": 3, "zorder": 1.5}
        return styled(own, fmt=marker, label=f"mean, {self._level}", **style)


def known_costs(estimator) -> Costs:
    """The cost matrix of the first of the fitted estimators that has one."""
    for model in by_name(estimator).values():
        if hasattr(model, "cost_matrix_"):
            return Costs(model.cost_matrix_, np.asarray(model.classes_), None)
    raise ValueError("No estimator has a cost matrix; pass cost_matrix.")
