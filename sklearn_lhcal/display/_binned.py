"""The base of the reliability diagrams: how binned rates are drawn."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from .._utils.types import ArrayLike, Estimator, LabelsLike, Samples
from ._base import (
    ABOVE_STRIP,
    SQUARE,
    STRIP_HEIGHT,
    Display,
    draw_counts,
    draw_legend,
    draw_reference,
    drawn,
    has_strip,
    marker_of,
    name_of,
    predicted,
    reach,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# what the axes show beyond their limits, as a share of the range
_MARGIN = 0.02

_POINTS = "points of a display"


@dataclass(eq=False, repr=False)
class BinnedReliabilityDisplay(Display):
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

    _unit = "rows"
    _xlabel: ClassVar[str]
    _ylabel: ClassVar[str]
    from_predictions: ClassVar[Callable[..., Self]]

    @classmethod
    def from_estimator(
        cls,
        estimator: Estimator,
        X: Samples,
        y: LabelsLike,
        *,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Reliability diagram of a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier
            Its `predict_dist` is used where it has one, else its `predict_proba`. Forests, bagging
            and soft voting predict by the distribution of their members. Pipelines and searches are
            seen through.
        X : array-like of shape (n_samples, ...)
            Features of the rows.
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes. Named labels meet the estimator's classes by name. A
            class that the estimator never saw has probability 0.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows; only their ratios matter.
        name : str, optional
            What the legend calls it; None: the name of the estimator's class.
        **kwargs
            All else that `from_predictions` takes.

        Returns
        -------
        display
            Of the class that was asked.

        Raises
        ------
        ValueError
            As `from_predictions`; an estimator that predicts no probabilities.
        """
        kwargs |= {"sample_weight": sample_weight, "name": name_of(estimator, name)}
        return cls.from_predictions(y, predicted(estimator, X, y), **kwargs)

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
    if has_strip(ax):
        return ax.get_xlim()[1] / (1 + _MARGIN)
    return 0.0


def _frame(ax, limit: float) -> None:
    """Equal scales from 0 to `limit`, and room for the strip below 0."""
    from matplotlib.ticker import MaxNLocator

    ticks = MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(0, limit)
    ticks = [t for t in ticks if 0 <= t <= limit + 1e-9]
    top = (1 + _MARGIN) * limit
    below = (2 * _MARGIN + (1 + _MARGIN) * STRIP_HEIGHT) / (1 - STRIP_HEIGHT)
    ax.set(xticks=ticks, yticks=ticks, aspect="equal")
    ax.set(xlim=(-_MARGIN * limit, top), ylim=(-below * limit, top))
