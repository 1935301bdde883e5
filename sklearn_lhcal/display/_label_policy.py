"""What labels and decisions cost together, against the cost of a label."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

from numpy.typing import NDArray

from .._utils.checks import checked
from .._utils.types import (
    ArrayLike,
    CostsOfRows,
    Estimator,
    Groups,
    LabelsLike,
    Raters,
    Samples,
    Seed,
    Weights,
)
from ..distributions import Distribution
from ..metrics import policy_curve
from ._base import DOTTED, WIDE, Axes, Display, Styles, draw_curves, predicted, styled


@dataclass(eq=False, repr=False)
class LabelPolicyDisplay(Display):
    """What labels and decisions cost together, against the cost of a label.

    Make it with `from_predictions` or `from_estimator`. It replays the labels of samples that have
    many. Labels come one after the other, and after each a rule says whether to ask for the next or
    to decide. The labels that were not asked for say what the decision costs. Three rules are
    compared at each price, by the mean over all orders of the labels. Optimal stopping is
    `label_policy`, which knows only the price and the distribution of these samples. The second
    rule is the best fixed number of labels per sample. The third asks on while the entropy is above
    the best threshold. Number and threshold are tuned on other samples: each fifth of the samples,
    or of their groups, gets those of least total cost on the other four. So the two rules learn
    from replayed labels, and optimal stopping from none. Grey lines are fixed numbers of labels;
    their slope is that number.

    **Intervals.** A sample is one unit, or a group of samples. The bands are Student's intervals;
    where fewer than ten are apart from the others, those of `paired_difference` for few samples.
    Where one mistake costs twenty times another they may be too narrow: `risk_bound` holds there.
    `plot_differences` shows the total cost of the rules minus that of optimal stopping, so that
    what they share cancels.

    **Raters.** With `Annotations` the bands hold for new samples and new raters. The variance is
    ``rows + max(raters − cells, 0)``, as in `confidence_interval`. The last two are jackknives of
    the total cost of a sample, without each rater and without each single label. The rules stay as
    they were chosen. A sample is left out where no more than `horizon` labels are left.

    Parameters
    ----------
    prices : array-like of shape (n_prices,)
        Cost of one label in the unit of the costs.
    names : list of str
        The three rules.
    total_cost : array-like of shape (3, n_prices)
        Mean cost of a sample, labels and decision, by rule.
    interval : array-like of shape (3, n_prices, 2)
        Ends of the intervals.
    difference, difference_interval : array-like of shape (3, n_prices[, 2])
        Total cost minus that of optimal stopping, and its intervals.
    n_labels : array-like of shape (3, n_prices)
        Labels a sample.
    fixed_cost : array-like of shape (horizon + 1, n_prices)
        Total cost of 0, 1, … labels for every sample.
    confidence_level : float, default=0.95
        Level of the intervals.

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        The rules.
    bands_ : list of matplotlib PolyCollection
        The intervals.
    fixed_lines_ : list of matplotlib Line2D
        The fixed numbers of labels.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    legend_ : matplotlib Legend

    See Also
    --------
    sklearn_lhcal.distributions.label_policy : The rule itself.
    SecondOpinionDisplay : What one label is worth in squared probability.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> from sklearn_lhcal.distributions import Dirichlet
    >>> data = make_label_histograms(500, n_raters=20, total=2.0, random_state=0)
    >>> distribution = Dirichlet.from_mean(data.prediction, data.total)
    >>> display = LabelPolicyDisplay.from_predictions(
    ...     data.counts, distribution, 1 - np.eye(3), horizon=3, random_state=0
    ... )
    >>> bool((display.difference_interval[:, :, 1] >= 0).all())
    True
    """

    prices: NDArray
    names: list
    total_cost: NDArray
    interval: NDArray
    difference: NDArray
    difference_interval: NDArray
    n_labels: NDArray
    fixed_cost: NDArray
    _: KW_ONLY
    confidence_level: float = 0.95

    @classmethod
    @checked
    def from_predictions(
        cls,
        y: LabelsLike,
        prediction: Distribution,
        cost_matrix: ArrayLike,
        *,
        prices: ArrayLike | None = None,
        horizon: int = 4,
        sample_weight: Weights = None,
        groups: Groups = None,
        raters: Raters = None,
        confidence_level: float = 0.95,
        random_state: Seed = None,
        ax: "Axes | None" = None,
        **plot_kwargs: Any,
    ) -> Self:
        """Replay the labels of samples, from a predictive distribution and label histograms.

        Parameters
        ----------
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes. Samples with `horizon` raters or fewer are left out.
            Known probabilities give both the labels drawn and the costs of decisions.
        prediction : Distribution
            A batch of n_samples samples, before any label.
        cost_matrix : array-like or frame of shape (n_classes, n_decisions)
            As in `sklearn_lhcal.metrics.bayes_decision`, for all samples, or, as an array of shape
            (n_samples, n_classes, n_decisions), for each.
        prices : array-like of shape (n_prices,), optional
            At least 0, ascending. None: 25, from 0 to what one label is worth to one sample in
            twenty.
        horizon : int, default=4
            Most labels of a sample.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples; only their ratios matter.
        groups : array-like of shape (n_samples,), optional
            Samples of one group may depend on each other. Groups are independent.
        raters : {"random", "fixed"}, optional
            Whether intervals are for new raters, which needs `Annotations`, or for these. None:
            "random" with `Annotations`, "fixed" with all else. See `confidence_interval`.
        confidence_level : float, default=0.95
            Level of the intervals.
        random_state : int, RandomState instance or None, default=None
            Decides which labels are drawn, and which samples are tuned on together.
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        **plot_kwargs
            Passed on to `plot`.

        Returns
        -------
        LabelPolicyDisplay

        Raises
        ------
        ValueError
            No sample with more than `horizon` raters, prices that are negative or not ascending,
            costs of another number of samples, a distribution to which one label is worth nothing
            where `prices` is None, and whatever `label_policy` and `check_counts` refuse. Where
            raters are random: labels without raters, fewer than three raters, and a rater without
            whom no sample has more than `horizon` labels.

        Warns
        -----
        UserWarning
            Fewer than five raters where they are random: bands may cover too rarely.
        """
        curve = policy_curve(
            y,
            prediction,
            cost_matrix,
            prices=prices,
            horizon=horizon,
            sample_weight=sample_weight,
            groups=groups,
            raters=raters,
            confidence_level=confidence_level,
            random_state=random_state,
        )
        return cls(*curve, confidence_level=confidence_level).plot(ax, **plot_kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Estimator,
        X: Samples,
        y: LabelsLike,
        cost_matrix: CostsOfRows,
        **kwargs: Any,
    ) -> Self:
        """Replay the labels of samples, from a fitted classifier and label histograms.

        Parameters
        ----------
        estimator : fitted classifier
            Its predictive distribution is used, through pipelines and searches: that of
            `AlphaCalibration` around any classifier, say.
        X : array-like of shape (n_samples, ...)
            Features of the samples.
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes. Named labels meet the estimator's classes by name.
        cost_matrix : array-like, frame or callable
            As in `from_predictions`. A callable makes the costs of X.
        **kwargs
            As in `from_predictions`.

        Returns
        -------
        LabelPolicyDisplay

        Raises
        ------
        ValueError
            As `from_predictions`; an estimator that predicts no probabilities.
        """
        costs: Any = cost_matrix(X) if callable(cost_matrix) else cost_matrix
        return cls.from_predictions(y, predicted(estimator, X, y), costs, **kwargs)

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        line_kwargs: Styles = None,
        band_kwargs: Styles = None,
        fixed_kwargs: dict | None = None,
    ) -> Self:
        """Draw the total cost of the rules against the cost of a label.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        line_kwargs, band_kwargs : dict or list of dict, optional
            Passed on to matplotlib's `plot` (rules) and `fill_between` (intervals); a list has one
            for each rule.
        fixed_kwargs : dict, optional
            Passed on to matplotlib's `plot` (fixed numbers of labels).

        Returns
        -------
        display
            Itself, with its artists.
        """
        self._take_axes(ax, WIDE)
        style = styled(fixed_kwargs, color="0.7", linewidth=0.8, zorder=1)
        self.fixed_lines_ = self.ax_.plot(self.prices, self.fixed_cost.T, **style)
        # the legend names them once
        last = len(self.fixed_cost) - 1
        self.fixed_lines_[0].set_label(f"0, 1, …, {last} labels for every sample")
        shown = dict(enumerate(self.names))
        self._draw(self.total_cost, self.interval, shown, line_kwargs, band_kwargs)
        # expensive numbers of labels would fill the figure
        low, high = self.interval.min(), self.interval.max()
        margin = 0.08 * (high - low)
        self.ax_.set_ylim(low - margin, high + margin)
        self.ax_.set_ylabel("Total cost of a sample (unit of the costs)")
        self._draw_legend()
        return self

    def plot_differences(
        self, ax: "Axes | None" = None, *, line_kwargs: Styles = None, band_kwargs: Styles = None
    ) -> Self:
        """Draw the total cost of the rules minus that of optimal stopping; above 0 they cost more.

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
        self.fixed_lines_ = []
        shown = {1: self.names[1], 2: self.names[2]}
        self._draw(self.difference, self.difference_interval, shown, line_kwargs, band_kwargs)
        self.ax_.axhline(0, label=self.names[0], **DOTTED)
        self.ax_.set_ylabel("Total cost minus that of optimal stopping\n(unit of the costs)")
        self._draw_legend()
        return self

    def _draw(self, *curves) -> None:
        self.lines_, self.bands_ = draw_curves(self.ax_, self.prices, *curves)
        self.ax_.set(xlabel="Cost of a label (unit of the costs)", xlim=self.prices[[0, -1]])
