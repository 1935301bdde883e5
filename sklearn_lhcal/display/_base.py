"""What displays share: the doors of an estimator, axes, and how binned rates are drawn."""

import numpy as np
from numpy.typing import ArrayLike

from .._rows import Rows

SQUARE = (5, 5.6)  # high enough for a square diagram above its strip
WIDE = (6, 4.5)
DOTTED = {"color": "0.35", "linewidth": 1, "linestyle": (0, (1, 1.5))}
STRIP_HEIGHT = 0.14  # of the height of the axes

_REFERENCE = "perfect calibration"
_STRIP = "number in each bin"
_MARGIN = 0.02  # beyond the limits, of their range


class BinnedReliabilityDisplay:
    """Base of the reliability displays: keeps what is to be drawn, and draws it."""

    _xlabel = "Predicted probability"
    _ylabel = "Observed frequency (probability)"
    _unit = "rows"

    def __init__(
        self,
        mean_predicted: ArrayLike,
        mean_observed: ArrayLike,
        interval: ArrayLike,
        bin_counts: ArrayLike,
        edges: ArrayLike,
        *,
        confidence_level: float = 0.95,
        limit: float = 1.0,
        name: str | None = None,
    ):
        self.mean_predicted = np.asarray(mean_predicted)
        self.mean_observed = np.asarray(mean_observed)
        self.interval = np.asarray(interval)
        self.bin_counts = np.asarray(bin_counts)
        self.edges = np.asarray(edges)
        self.confidence_level = confidence_level
        self.limit = limit
        self.name = name

    def plot(
        self, ax=None, *, name=None, line_kwargs=None, errorbar_kwargs=None, histogram_kwargs=None
    ):
        """Draw the display. Drawing a second one on the same axes compares the two.

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
        self.ax_ = new_axes(SQUARE) if ax is None else ax
        self.figure_ = self.ax_.figure
        limit = max(self.limit, _drawn_limit(self.ax_))
        self.reference_ = _reference(self.ax_)
        self.histogram_ax_ = strip_axes(self.ax_, self._unit)
        label = self.name if name is None else name
        style = {"marker": "o", "markersize": 5, "linewidth": 1, "label": label}
        style |= line_kwargs or {}
        (self.line_,) = self.ax_.plot(self.mean_predicted, self.mean_observed, **style)
        color = self.line_.get_color()
        self.open_points_ = self._draw_open_points(
            style | {"color": color, "linestyle": "none", "label": None}
        )
        self.errorbar_ = self._draw_intervals(
            {"ecolor": color, "elinewidth": 1.2, "capsize": 2} | (errorbar_kwargs or {})
        )
        style = {"color": color, "alpha": 0.4} | (histogram_kwargs or {})
        self.histogram_ = draw_counts(self.histogram_ax_, self.bin_counts, self.edges, style)
        self.ax_.set_xlabel(self._xlabel)
        # beside the diagram, not the strip
        self.ax_.set_ylabel(self._ylabel, y=(1 + STRIP_HEIGHT) / 2)
        _frame(self.ax_, limit)
        self.legend_ = self._draw_legend()
        return self

    def _draw_open_points(self, style: dict):
        """Points without an interval are open, lest they look the surest of all."""
        single = np.isnan(self.interval[:, 0]) & ~np.isnan(self.mean_observed)
        style = {"markerfacecolor": "white", "zorder": 2.1} | style
        return self.ax_.plot(self.mean_predicted[single], self.mean_observed[single], **style)[0]

    def _draw_intervals(self, style: dict):
        has = ~np.isnan(self.interval[:, 0])
        reach = np.abs(self.interval - self.mean_observed[:, None])[has].T
        style = {"fmt": "none", "zorder": 1.9} | style
        return self.ax_.errorbar(self.mean_predicted[has], self.mean_observed[has], reach, **style)

    def _draw_legend(self):
        above_the_strip = (0, STRIP_HEIGHT, 1, 1 - STRIP_HEIGHT)
        title = f"bars: {in_percent(self.confidence_level)} intervals"
        return draw_legend(self.ax_, title, bbox_to_anchor=above_the_strip)


def class_names(rows: Rows) -> list:
    """What users call the columns: names where there are, else the numbers themselves."""
    return list(range(rows.z.shape[1])) if rows.classes is None else rows.classes.tolist()


def new_axes(size: tuple[float, float], n_panels: int = 1):
    """Axes of a new figure; an array of them for several panels side by side."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Displays need matplotlib: pip install 'sklearn-lhcal[plot]'.") from error
    return plt.subplots(1, n_panels, figsize=size, layout="constrained")[1]


def drawn(artists, what: str) -> list:
    """The artists of one kind, of all displays on their axes."""
    return [artist for artist in artists if artist.get_gid() == what]


def in_percent(confidence_level: float) -> str:
    """A level as legends print it."""
    return f"{100 * confidence_level:g} %"


def draw_legend(ax, title: str, **options):
    """A legend with a title."""
    legend = ax.legend(**{"loc": "best", "fontsize": "small", "alignment": "left"} | options)
    legend.set_title(title, {"size": "small"})
    return legend


def _find_strip(ax):
    return next((child for child in ax.child_axes if child.get_label() == _STRIP), None)


def _drawn_limit(ax) -> float:
    """The limit of a display that is already on these axes; 0 where there is none."""
    return 0.0 if _find_strip(ax) is None else ax.get_xlim()[1] / (1 + _MARGIN)


def _reference(ax):
    """The diagonal, once."""
    for line in ax.lines:
        if line.get_label() == _REFERENCE:
            return line
    style = DOTTED | {"label": _REFERENCE, "zorder": 1}
    return ax.plot([0, 1], [0, 1], **style)[0]


def strip_axes(ax, unit: str):
    """The axes along the lower edge that hold the numbers in each bin, once."""
    strip = _find_strip(ax)
    if strip is None:
        strip = ax.inset_axes((0, 0, 1, STRIP_HEIGHT), sharex=ax, label=_STRIP)
        strip.set(yscale="log", ylim=(0.5, 1.0), facecolor="none")
        strip.yaxis.tick_right()
        strip.yaxis.set_label_position("right")
        strip.yaxis.set_major_formatter("{x:,.0f}")
        strip.minorticks_off()
        strip.set_ylabel(unit, fontsize="small")
        strip.tick_params(axis="x", labelbottom=False)
        strip.tick_params(axis="y", which="both", labelsize="x-small")
        strip.spines["top"].set_color("0.8")
    return strip


def draw_counts(strip, counts, edges, style: dict):
    """The numbers in each bin, on the axes along the lower edge."""
    strip.set_ylim(0.5, max(strip.get_ylim()[1], 2.0 * counts.max()))
    values = np.where(counts > 0, counts, np.nan)
    return strip.stairs(values, edges, **{"fill": True, "baseline": 0.5} | style)


def _frame(ax, limit: float) -> None:
    """Equal scales from 0 to `limit`, and room for the strip below 0."""
    from matplotlib.ticker import MaxNLocator

    ticks = MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(0, limit)
    ticks = [t for t in ticks if 0 <= t <= limit + 1e-9]
    top = (1 + _MARGIN) * limit
    below = (2 * _MARGIN + (1 + _MARGIN) * STRIP_HEIGHT) / (1 - STRIP_HEIGHT)
    ax.set(xticks=ticks, yticks=ticks, aspect="equal")
    ax.set(xlim=(-_MARGIN * limit, top), ylim=(-below * limit, top))
