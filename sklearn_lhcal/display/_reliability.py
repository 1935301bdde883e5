"""Reliability diagrams of class probabilities, and of predicted disagreement."""

from typing import Self

import numpy as np

from .._utils.distances import is_linear
from ..metrics import ReliabilityCurve, reliability_curve
from ._base import (
    ABOVE_STRIP,
    SQUARE,
    STRIP_HEIGHT,
    Axes,
    NamedDisplay,
    draw_counts,
    draw_reference,
    drawn,
    reach,
    styled,
)

# what the axes show beyond their limits, as a share of the range
_MARGIN = 0.02

_POINTS = "points of a display"


class ReliabilityDisplay(NamedDisplay):
    """Reliability diagram: predicted probabilities, or disagreement, against what raters say.

    It draws the result of `reliability_curve`, which `from_predictions` calls. A point stands for a
    bin of predictions. It lies above the diagonal where the class is more frequent, or raters
    disagree more often, than predicted. Bars are intervals, each at its own level; they do not hold
    all at once. Bins without samples have no point, and a bin with one sample has an open one
    without an interval. The histogram below shows how many samples are in each bin. With
    ``kind="disagreement"`` the axes end just beyond the last point and the highest interval.

    Parameters
    ----------
    result : ReliabilityCurve
    name : str, optional
        What the legend calls it; of an estimator, the name of its class.

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
    ...     data.counts, data.prediction, n_bins=5, kind=0
    ... )
    >>> curve = display.result
    >>> (curve.mean_observed - curve.mean_predicted).round(2)  # too extreme at both ends
    array([ 0.05, -0.02, -0.  , -0.07, -0.11])

    Of disagreement. Probabilities alone leave out what the features do not tell. A Dirichlet
    distribution around them does not:

    >>> from sklearn_lhcal.distributions import Dirichlet
    >>> data = make_label_histograms(500, total=2.0, random_state=0)
    >>> how = {"kind": "disagreement", "n_bins": 4}
    >>> show = ReliabilityDisplay.from_predictions
    >>> raw = show(data.counts, data.prediction, name="raw", **how)
    >>> dirichlet = Dirichlet.from_mean(data.prediction, data.total)
    >>> calibrated = show(data.counts, dirichlet, name="Dirichlet", ax=raw.ax_, **how)

    Of a fitted classifier:

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = LogisticRegression(max_iter=1000).fit(X, y)
    >>> ReliabilityDisplay.from_estimator(model, X, y, n_bins=3).result.bin_counts
    array([289,  22, 139])
    """

    result: ReliabilityCurve
    analysis = staticmethod(reliability_curve)

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
        curve = self.result
        limit = _limit(curve)
        if drawn(self.ax_.lines, _POINTS):
            # of a display that is already on these axes
            limit = max(limit, self.ax_.get_xlim()[1] / (1 + _MARGIN))
        end = max(limit, 1.0)
        self.reference_ = draw_reference(self.ax_, "perfect calibration", end, end)
        label = self.name if name is None else name
        marker = "os^Dv"[len(drawn(self.ax_.lines, _POINTS)) % 5]
        style = styled(line_kwargs, marker=marker, markersize=5, linewidth=1, label=label)
        (self.line_,) = self.ax_.plot(
            curve.mean_predicted, curve.mean_observed, gid=_POINTS, **style
        )
        color = self.line_.get_color()
        has = ~np.isnan(curve.interval[:, 0])
        # points without an interval are open, lest they look the surest of all
        single = ~has & (curve.bin_counts > 0)
        own = {"color": color, "linestyle": "none", "label": None}
        look = {"markerfacecolor": "white", "zorder": 2.1} | style | own
        at = curve.mean_predicted[single], curve.mean_observed[single]
        (self.open_points_,) = self.ax_.plot(*at, **look)
        look = {"ecolor": color, "elinewidth": 1.2, "capsize": 2, "fmt": "none", "zorder": 1.9}
        rate = curve.mean_observed[has]
        crosses = curve.mean_predicted[has], rate, reach(rate, curve.interval[has])
        self.errorbar_ = self.ax_.errorbar(*crosses, **styled(errorbar_kwargs, **look))
        bars = styled(histogram_kwargs, color=color)
        unit = "samples × classes" if curve.kind == "classwise" else "samples"
        self.histogram_ = draw_counts(self.ax_, unit, curve.bin_counts, curve.edges, bars)
        self.histogram_ax_ = self.histogram_.axes
        predicted, observed = _in_words(curve)
        self.ax_.set_xlabel(predicted)
        self.ax_.set_ylabel(observed, y=ABOVE_STRIP)
        _frame(self.ax_, limit)
        above_the_strip = (0, STRIP_HEIGHT, 1, 1 - STRIP_HEIGHT)
        self._draw_legend(f"bars: {self._level} intervals", bbox_to_anchor=above_the_strip)
        return self


def _in_words(curve: ReliabilityCurve) -> tuple[str, str]:
    """What stands at the two axes."""
    if curve.kind != "disagreement":
        what = "each class" if curve.kind == "classwise" else f"class {curve.kind}"
        if curve.distance is not None:
            what = f"at most {what}"
        return f"Predicted probability of {what}", f"Observed frequency of {what} (probability)"
    if curve.distance is None:
        return (
            "Predicted probability that two raters disagree",
            "Observed rate of disagreement (probability)",
        )
    unit = "steps" if is_linear(curve.distance) else "squared distance"
    what = f"disagreement of two raters ({unit})"
    return f"Predicted {what}", f"Observed {what}"


def _limit(curve: ReliabilityCurve) -> float:
    """Where both axes end; of disagreement where points and intervals do, and a little more."""
    if curve.kind != "disagreement":
        return 1.0
    ends = [*curve.mean_predicted, *curve.mean_observed, *curve.interval[:, 1], 0.1]
    limit = 1.05 * float(np.nanmax(ends))
    return min(1.0, limit) if curve.distance is None else limit


def _frame(ax, limit: float) -> None:
    """Equal scales from 0 to `limit`, and space for the histogram below 0."""
    from matplotlib.ticker import MaxNLocator

    ticks = MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(0, limit)
    ticks = [t for t in ticks if 0 <= t <= limit + 1e-9]
    top = (1 + _MARGIN) * limit
    below = (2 * _MARGIN + (1 + _MARGIN) * STRIP_HEIGHT) / (1 - STRIP_HEIGHT)
    ax.set(xticks=ticks, yticks=ticks, aspect="equal")
    ax.set(xlim=(-_MARGIN * limit, top), ylim=(-below * limit, top))
