"""Reliability diagrams of class probabilities, and of predicted disagreement."""

from collections.abc import Hashable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from .._rows import PredictionLike
from .._utils.checks import checked
from .._utils.distances import Distance, is_ordinal
from .._utils.types import ArrayLike, BinsLike, Groups, LabelsLike, Raters, Strategy, Weights
from ..metrics import reliability_curve
from ._base import (
    ABOVE_STRIP,
    SQUARE,
    STRIP_HEIGHT,
    Axes,
    PredictionDisplay,
    draw_counts,
    draw_legend,
    draw_reference,
    drawn,
    has_strip,
    marker_of,
    reach,
    styled,
)

# what the axes show beyond their limits, as a share of the range
_MARGIN = 0.02

_POINTS = "points of a display"


@dataclass(eq=False, repr=False)
class _BinnedDisplay(PredictionDisplay):
    """Base of the reliability displays: keeps what is to be drawn, and draws it."""

    mean_predicted: NDArray
    mean_observed: NDArray
    interval: NDArray
    bin_counts: NDArray
    edges: NDArray
    _: KW_ONLY
    confidence_level: float = 0.95
    limit: float = 1.0
    name: str | None = None

    _unit = "samples"
    _xlabel: ClassVar[str]
    _ylabel: ClassVar[str]

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        name: str | None = None,
        line_kwargs: dict | None = None,
        errorbar_kwargs: dict | None = None,
        histogram_kwargs: dict | None = None,
    ) -> Self:
        """Draw the display. A second one on the same axes is compared with the first.

        It has another colour and another marker.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        name : str, optional
            What the legend calls it; None: the `name` that the display was made with.
        line_kwargs, errorbar_kwargs, histogram_kwargs : dict, optional
            Passed on to matplotlib's `plot` (the points), `errorbar` (the intervals) and `stairs`
            (the numbers in each bin, on a logarithmic scale).

        Returns
        -------
        display
            Itself, with the artists `line_`, `open_points_`, `errorbar_`, `histogram_`,
            `reference_` and `legend_`, and with `ax_`, `histogram_ax_` and `figure_`.
        """
        self._take_axes(ax, SQUARE)
        limit = max(self.limit, _drawn_limit(self.ax_))
        end = max(limit, 1.0)
        self.reference_ = draw_reference(self.ax_, "perfect calibration", end, end)
        label = self.name if name is None else name
        marker = marker_of(len(drawn(self.ax_.lines, _POINTS)))
        style = styled(line_kwargs, marker=marker, markersize=5, linewidth=1, label=label)
        (self.line_,) = self.ax_.plot(self.mean_predicted, self.mean_observed, gid=_POINTS, **style)
        color = self.line_.get_color()
        self._draw_open_points(style | {"color": color, "linestyle": "none", "label": None})
        self._draw_intervals(errorbar_kwargs, color)
        bars = styled(histogram_kwargs, color=color)
        self.histogram_ = draw_counts(self.ax_, self._unit, self.bin_counts, self.edges, bars)
        self.histogram_ax_ = self.histogram_.axes
        self.ax_.set_xlabel(self._xlabel)
        self.ax_.set_ylabel(self._ylabel, y=ABOVE_STRIP)
        _frame(self.ax_, limit)
        above_the_strip = (0, STRIP_HEIGHT, 1, 1 - STRIP_HEIGHT)
        title = f"bars: {self._level} intervals"
        self.legend_ = draw_legend(self.ax_, title, bbox_to_anchor=above_the_strip)
        return self

    def _draw_open_points(self, style: dict) -> None:
        """Points without an interval are open, lest they look the surest of all."""
        single = np.isnan(self.interval[:, 0]) & (self.bin_counts > 0)
        style = styled(style, markerfacecolor="white", zorder=2.1)
        at = self.mean_predicted[single], self.mean_observed[single]
        (self.open_points_,) = self.ax_.plot(*at, **style)

    def _draw_intervals(self, own: dict | None, color) -> None:
        has = ~np.isnan(self.interval[:, 0])
        style = styled(own, ecolor=color, elinewidth=1.2, capsize=2, fmt="none", zorder=1.9)
        rate = self.mean_observed[has]
        bars = reach(rate, self.interval[has])
        self.errorbar_ = self.ax_.errorbar(self.mean_predicted[has], rate, bars, **style)


def _drawn_limit(ax) -> float:
    """The limit of a display that is already on these axes; 0 where there is none."""
    return ax.get_xlim()[1] / (1 + _MARGIN) if has_strip(ax) else 0.0


def _frame(ax, limit: float) -> None:
    """Equal scales from 0 to `limit`, and space for the histogram below 0."""
    from matplotlib.ticker import MaxNLocator

    ticks = MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(0, limit)
    ticks = [t for t in ticks if 0 <= t <= limit + 1e-9]
    top = (1 + _MARGIN) * limit
    below = (2 * _MARGIN + (1 + _MARGIN) * STRIP_HEIGHT) / (1 - STRIP_HEIGHT)
    ax.set(xticks=ticks, yticks=ticks, aspect="equal")
    ax.set(xlim=(-_MARGIN * limit, top), ylim=(-below * limit, top))


@dataclass(eq=False, repr=False, kw_only=True)
class ReliabilityDisplay(_BinnedDisplay):
    """Reliability diagram: predicted probability of a class against how often raters name it.

    Make it with `from_estimator` or `from_predictions`. A point stands for a bin of predictions. It
    lies above the diagonal where the class is more frequent than predicted. Bins without samples
    have no point. The histogram below shows, on a logarithmic scale, how many samples are in each
    bin.

    **Intervals.** A bar is an interval for the mean true frequency of the samples in the bin. It
    holds with the level of that bin, whether or not the prediction is calibrated; the bars of a
    diagram do not hold all at once. It is Wilson's score interval at an effective number of labels,
    which follows from the spread of ``μ̂ − z`` between the samples of the bin. Samples are
    independent. The raters of one sample need not be, nor its classes where they are pooled. A bin
    with few events borrows the spread of the others, so that a bin in which all samples agree has
    an interval too. A bin with one sample has none, and its point is open.

    Parameters
    ----------
    mean_predicted, mean_observed : array-like of shape (n_bins,)
        Mean prediction and mean observed frequency in each bin, probabilities; NaN in empty bins.
    interval : array-like of shape (n_bins, 2)
        Ends of the interval for the frequency; NaN where there is none.
    bin_counts : array-like of shape (n_bins,)
        Number of predicted probabilities in each bin. A sample counts once, or K times where
        classes are pooled.
    edges : array-like of shape (n_bins + 1,)
        Edges of the bins, probabilities.
    confidence_level : float, default=0.95
        Level of the intervals.
    limit : float, default=1.0
        Upper end of both axes, a probability.
    name : str, optional
        What the legend calls it.
    class_name : object, optional
        The class of the diagram; None: all classes, pooled.
    cumulative : bool, default=False
        Whether probabilities are those of a class or any before it.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The points.
    open_points_ : matplotlib Line2D
        Points without an interval, which are drawn open.
    errorbar_ : matplotlib ErrorbarContainer
        The intervals.
    histogram_ : matplotlib StepPatch
        The numbers in each bin, drawn on `histogram_ax_`.
    reference_ : matplotlib Line2D
        The diagonal of perfect calibration.
    ax_, histogram_ax_ : matplotlib Axes
        The diagram, and the histogram of bin counts below it.
    figure_ : matplotlib Figure
    legend_ : matplotlib Legend

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(500, overconfidence=2.0, random_state=0)
    >>> display = ReliabilityDisplay.from_predictions(
    ...     data.counts, data.prediction, n_bins=5, class_index=0
    ... )
    >>> (display.mean_observed - display.mean_predicted).round(2)  # too extreme at both ends
    array([ 0.05, -0.02, -0.  , -0.07, -0.11])

    Of a fitted classifier:

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = LogisticRegression(max_iter=1000).fit(X, y)
    >>> ReliabilityDisplay.from_estimator(model, X, y, n_bins=3).bin_counts
    array([289,  22, 139])
    """

    class_name: object = None
    cumulative: bool = False

    def __post_init__(self):
        super().__post_init__()
        pooled = self.class_name is None
        what = "each class" if pooled else f"class {self.class_name}"
        if self.cumulative:
            what = f"at most {what}"
        self._xlabel = f"Predicted probability of {what}"
        self._ylabel = f"Observed frequency of {what} (probability)"
        if pooled:
            self._unit = "samples × classes"

    @classmethod
    @checked
    def from_predictions(
        cls,
        y: LabelsLike,
        prediction: PredictionLike,
        *,
        class_index: int | Hashable | None = None,
        distance: Literal["ordinal"] | None = None,
        classes: ArrayLike | None = None,
        sample_weight: Weights = None,
        groups: Groups = None,
        raters: Raters = None,
        n_bins: BinsLike = 15,
        strategy: Strategy = "uniform",
        confidence_level: float = 0.95,
        name: str | None = None,
        ax: "Axes | None" = None,
        **plot_kwargs: Any,
    ) -> Self:
        """Reliability diagram of predictions against labels or label histograms.

        Parameters
        ----------
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes.
        prediction : array-like of shape (n_samples, n_classes) or (n_samples,), or Distribution
            Class probabilities. A 1-D array holds those of the second of two classes. The mean of a
            distribution counts.
        class_index : int or class name, optional
            The class to look at: its name, or its column number in the prediction where names are
            no numbers. With the classes 0 and 1, or no names, 1 gives the usual diagram of the
            positive class. None pools all classes: each sample counts K times.
        distance : "ordinal", optional
            Cumulative reliability of classes with an order: the probability of a class or any
            before it. The last class, of which that is certain, is left out.
        classes : array-like of shape (n_classes,), optional
            Names of the columns of a bare array. Labels are matched with them by name. None: the
            names of y, which must be sorted, else the column numbers.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples; only their ratios matter.
        groups : array-like of shape (n_samples,), optional
            Samples of one group (one patient, say) are dependent: intervals take them together.
        raters : {"random", "fixed"}, optional
            Whether intervals are for new raters, which needs `Annotations`, or for these. None:
            "random" with `Annotations`, else "fixed", as in `confidence_interval`.
        n_bins : int or array-like of shape (n_edges,), default=15
            Number of bins, or their edges.
        strategy : {"uniform", "quantile"}, default="uniform"
            Bins of equal width on [0, 1], or of equal numbers of predictions.
        confidence_level : float, default=0.95
            Level of the intervals.
        name : str, optional
            What the legend calls it.
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        **plot_kwargs
            Passed on to `plot`.

        Returns
        -------
        ReliabilityDisplay

        Raises
        ------
        ValueError
            Unknown class, `confidence_level` outside (0, 1), fewer than three raters where they are
            random, and whatever `check_counts` and `check_proba` refuse.
        """
        *curve, class_name = reliability_curve(
            y,
            prediction,
            kind="classwise" if class_index is None else class_index,
            distance=distance,
            classes=classes,
            sample_weight=sample_weight,
            groups=groups,
            raters=raters,
            n_bins=n_bins,
            strategy=strategy,
            confidence_level=confidence_level,
        )
        kept: dict = {"confidence_level": confidence_level, "name": name}
        kept |= {"class_name": class_name, "cumulative": distance is not None}
        return cls(*curve, **kept).plot(ax, **plot_kwargs)


@dataclass(eq=False, repr=False, kw_only=True)
class DisagreementReliabilityDisplay(_BinnedDisplay):
    """Reliability diagram of disagreement: how often two raters disagree, against its prediction.

    Make it with `from_estimator` or `from_predictions`. A point stands for a bin of samples. It
    lies above the diagonal where raters disagree more than predicted. Bins without samples have no
    point. The histogram below shows, on a logarithmic scale, how many samples are in each bin.
    Samples with fewer than two raters are left out.

    **Intervals.** A bar is an interval for the mean true disagreement of the samples in the bin. It
    is made as `ReliabilityDisplay` says, from the spread of ``d − φ̂`` between samples. Here d is
    the share of the sample's pairs of raters that disagree, and φ̂ its prediction.

    Parameters
    ----------
    mean_predicted, mean_observed : array-like of shape (n_bins,)
        Mean prediction and mean observed rate of disagreement in each bin, probabilities; NaN in
        empty bins.
    interval : array-like of shape (n_bins, 2)
        Ends of the interval for the rate; NaN where there is none.
    bin_counts : array-like of shape (n_bins,)
        Number of samples in each bin.
    edges : array-like of shape (n_bins + 1,)
        Edges of the bins, probabilities.
    confidence_level : float, default=0.95
        Level of the intervals.
    limit : float, default=1.0
        Upper end of both axes, a probability. `from_predictions` puts it just beyond the last point
        and the highest interval: predictions above 1 − 1/K are impossible, and those above 0.5 are
        often rare.
    name : str, optional
        What the legend calls it.
    unit : str, optional
        The unit of a distance: "steps", or "squared distance". None: disagreement is a probability.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The points.
    open_points_ : matplotlib Line2D
        Points without an interval, which are drawn open.
    errorbar_ : matplotlib ErrorbarContainer
        The intervals.
    histogram_ : matplotlib StepPatch
        The numbers of samples, drawn on `histogram_ax_`.
    reference_ : matplotlib Line2D
        The diagonal of perfect calibration.
    ax_, histogram_ax_ : matplotlib Axes
        The diagram, and the histogram of bin counts below it.
    figure_ : matplotlib Figure
    legend_ : matplotlib Legend

    Examples
    --------
    Probabilities alone leave out what the features do not tell. A Dirichlet distribution around
    them does not:

    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> from sklearn_lhcal.distributions import Dirichlet
    >>> data = make_label_histograms(500, total=2.0, random_state=0)
    >>> show = DisagreementReliabilityDisplay.from_predictions
    >>> raw = show(data.counts, data.prediction, n_bins=4, name="raw")
    >>> dirichlet = Dirichlet.from_mean(data.prediction, data.total)
    >>> calibrated = show(data.counts, dirichlet, n_bins=4, name="Dirichlet", ax=raw.ax_)

    Of a fitted classifier:

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> data = make_label_histograms(200, random_state=0)
    >>> labels = data.counts[:100].argmax(axis=1)
    >>> forest = RandomForestClassifier(20, random_state=0).fit(data.X[:100], labels)
    >>> display = DisagreementReliabilityDisplay.from_estimator(
    ...     forest, data.X[100:], data.counts[100:], n_bins=5
    ... )
    >>> display.name
    'RandomForestClassifier'
    """

    _xlabel = "Predicted probability that two raters disagree"
    _ylabel = "Observed rate of disagreement (probability)"
    unit: str | None = None

    def __post_init__(self):
        super().__post_init__()
        if self.unit is not None:
            self._xlabel = f"Predicted disagreement of two raters ({self.unit})"
            self._ylabel = f"Observed disagreement of two raters ({self.unit})"

    @classmethod
    @checked
    def from_predictions(
        cls,
        y: LabelsLike,
        prediction: PredictionLike,
        *,
        distance: Distance = None,
        sample_weight: Weights = None,
        groups: Groups = None,
        raters: Raters = None,
        n_bins: BinsLike = 15,
        strategy: Strategy = "uniform",
        confidence_level: float = 0.95,
        name: str | None = None,
        ax: "Axes | None" = None,
        **plot_kwargs: Any,
    ) -> Self:
        """Reliability diagram of predicted disagreement against label histograms.

        Parameters
        ----------
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes; samples with one rater are left out.
        prediction : Distribution, or array-like of shape (n_samples, n_classes) or (n_samples,)
            Its `disagreement()` is shown. Class probabilities z stand for a point mass,
            ``φ̂ = 1 − Σz²``.
        distance : None, "ordinal", "interval" or array-like of shape (n_classes, n_classes)
            How far classes are apart. Shown is then the mean squared distance of two raters: for
            "ordinal" the steps between them.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples; only their ratios matter.
        groups : array-like of shape (n_samples,), optional
            Samples of one group (one patient, say) are dependent: intervals take them together.
        raters : {"random", "fixed"}, optional
            Whether intervals are for new raters, which needs `Annotations`, or for these. None:
            "random" with `Annotations`, else "fixed", as in `confidence_interval`.
        n_bins : int or array-like of shape (n_edges,), default=15
            Number of bins, or their edges.
        strategy : {"uniform", "quantile"}, default="uniform"
            Bins of equal width on [0, 1], or of equal numbers of samples.
        confidence_level : float, default=0.95
            Level of the intervals.
        name : str, optional
            What the legend calls it.
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        **plot_kwargs
            Passed on to `plot`.

        Returns
        -------
        DisagreementReliabilityDisplay

        Raises
        ------
        ValueError
            No sample with two raters and a positive weight, `confidence_level` outside (0, 1),
            fewer than four raters where they are random, and whatever `check_counts` and
            `check_proba` refuse.
        """
        curve = reliability_curve(
            y,
            prediction,
            kind="disagreement",
            distance=distance,
            sample_weight=sample_weight,
            groups=groups,
            raters=raters,
            n_bins=n_bins,
            strategy=strategy,
            confidence_level=confidence_level,
        )
        # where the points and their intervals end, and a little more
        ends = [*curve.mean_predicted, *curve.mean_observed, *curve.interval[:, 1], 0.1]
        limit = 1.05 * float(np.nanmax(ends))
        kept: dict = {"confidence_level": confidence_level, "name": name}
        if distance is None:
            kept["limit"] = min(1.0, limit)
        else:
            unit = "steps" if is_ordinal(distance) else "squared distance"
            kept |= {"limit": limit, "unit": unit}
        return cls(*curve[:-1], **kept).plot(ax, **plot_kwargs)
