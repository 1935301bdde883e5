"""The calibration-dispersion map (P1 Fig. 5a): which part of the epistemic loss a method has."""

from functools import partial
from typing import Any, Self

import numpy as np

from .._rows import PredictionLike, read_labels
from .._utils.types import BinsLike, LabelsLike, Seed, Strategy, Weights
from ..metrics import MethodTable, calibration_loss, dispersion_loss, evaluate_methods
from ._base import NOTE, WIDE, Axes, PredictionDisplay, drawn, reach, styled

_NAME = "name of a method"
_LABEL = "label of a line of equal epistemic loss"
_ZERO = "no loss"
_ISO = "equal epistemic loss CL + DL"
_XLABEL = "Squared calibration error CL (squared probability)"
_YLABEL = "Grouping loss DL (squared probability)"

# where a name may stand beside its point, in points: near it first, right before left
_PLACES = [(dx, side * up) for up in (6, 18, 30, 42) for dx in (6, -6) for side in (1, -1)]


def _both_losses(
    y: LabelsLike,
    predictions: dict[str, PredictionLike],
    *,
    sample_weight: Weights = None,
    n_bins: BinsLike = 15,
    strategy: Strategy = "uniform",
    random_state: Seed = 0,
    **options: Any,
) -> MethodTable:
    """CL and DL of the samples that have both, so that their sum is EL."""
    several = read_labels(y).n > 1
    if not several.any():
        raise ValueError("No sample of y has two raters; the losses need some.")
    if not several.all():
        sample_weight = np.ones(len(several)) if sample_weight is None else sample_weight
        # other lengths are refused below
        if np.shape(sample_weight) == several.shape:
            sample_weight = np.multiply(sample_weight, several)
    losses = (calibration_loss, dispersion_loss)
    metrics = {of.__name__: partial(of, n_bins=n_bins, strategy=strategy) for of in losses}
    options |= {"sample_weight": sample_weight, "random_state": random_state}
    return evaluate_methods(predictions, y, metrics=metrics, **options)


class CalibrationDispersionDisplay(PredictionDisplay):
    """Plot of methods: one point each, calibration loss CL against dispersion loss DL.

    It draws the result of `evaluate_methods` for `calibration_loss` and `dispersion_loss`;
    ``from_predictions(y, predictions, n_bins=15, strategy="uniform", random_state=0, …)`` computes
    it, with the other options of `evaluate_methods`. The epistemic loss EL of a prediction is the
    sum of the two losses. It is equal along the lines, and smaller towards the lower left. A method
    far to the right can be calibrated. One far up confuses samples whose class probabilities
    differ, which no calibration can mend (P1 Fig. 5a).

    Both losses are corrected and may be negative. They are taken on the samples with two raters or
    more. Bars show their intervals (delete-a-block jackknife, the same blocks for all methods).
    Methods share their samples: `paired_difference` may find a clear difference where intervals
    overlap.

    Parameters
    ----------
    result : MethodTable
        With the metrics ``"calibration_loss"`` and ``"dispersion_loss"``.

    Attributes
    ----------
    points_ : list of matplotlib ErrorbarContainer
        A point with its intervals for each method.
    names_ : list of matplotlib Annotation
        The names beside the points.
    iso_lines_ : matplotlib LineCollection
        Lines of equal epistemic loss.
    iso_labels_ : list of matplotlib Annotation
        The labels of these lines.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    legend_ : matplotlib Legend

    See Also
    --------
    sklearn_lhcal.metrics.loss_decomposition : The losses in numbers, by class and bin.
    sklearn_lhcal.metrics.paired_difference : Whether one method is better than another.

    Examples
    --------
    An overconfident prediction can be calibrated. One that knows too little of the samples cannot:

    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(1000, overconfidence=3.0, total=50.0, random_state=0)
    >>> same_for_all = data.proba.mean(axis=0, keepdims=True).repeat(1000, axis=0)
    >>> methods = {"overconfident": data.prediction, "same for all": same_for_all}
    >>> display = CalibrationDispersionDisplay.from_predictions(data.counts, methods)
    >>> losses = display.result.intervals
    >>> [bool(CL.estimate > DL.estimate) for CL, DL in map(dict.values, losses.values())]
    [True, False]
    """

    result: MethodTable
    analysis = staticmethod(_both_losses)
    _several = True

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        errorbar_kwargs: dict | None = None,
        text_kwargs: dict | None = None,
        iso_kwargs: dict | None = None,
    ) -> Self:
        """Draw the plot. A second one on the same axes adds its methods.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        errorbar_kwargs, text_kwargs, iso_kwargs : dict, optional
            Passed on to matplotlib's `errorbar` (points and intervals), `annotate` (names) and
            `LineCollection` (lines of equal epistemic loss).

        Returns
        -------
        display
            Itself, with the artists `points_`, `names_`, `iso_lines_`, `iso_labels_` and `legend_`,
            and with `iso_levels_`, `ax_` and `figure_`.
        """
        self._take_axes(ax, WIDE)
        self._draw_points(errorbar_kwargs, text_kwargs)
        draw_frame(self.ax_)
        iso = draw_iso_lines(self.ax_, iso_kwargs)
        self.iso_lines_, self.iso_levels_, self.iso_labels_ = iso
        place_names(self.ax_)
        self._draw_legend(f"bars: {self._level} intervals", handles=[self.iso_lines_])
        return self

    def _draw_points(self, own_bars: dict | None, own_text: dict | None) -> None:
        style = styled(own_bars, fmt="o", markersize=6, elinewidth=1, capsize=2)
        self.points_ = []
        self.names_ = []
        for name, losses in self.result.intervals.items():
            CL = losses["calibration_loss"]
            DL = losses["dispersion_loss"]
            x_bar, y_bar = (reach(np.array([v[0]]), np.array([v[1:3]])) for v in (CL, DL))
            at = CL.estimate, DL.estimate
            point = self.ax_.errorbar(*at, xerr=x_bar, yerr=y_bar, **style)
            self.points_.append(point)
            # in the first place, before `place_names` finds the best
            place = {"xytext": _PLACES[0], "textcoords": "offset points", "gid": _NAME}
            text_style = styled(own_text, fontsize="small", color=point[0].get_color(), **place)
            self.names_.append(self.ax_.annotate(name, at, **text_style))


# ------------------------------------------------------------------------------------------ the map


def draw_frame(ax) -> None:
    """Limits around all points and intervals, and 0 where it is near; room for names."""
    low = ax.dataLim.min
    high = ax.dataLim.max
    low = np.where((low > 0) & (low <= high - low), 0, low)
    size = np.maximum(high - low, 1e-6)
    x0, y0 = low - 0.04 * size
    x1, y1 = high + (0.12, 0.06) * size
    ax.set(xlim=(x0, x1), ylim=(y0, y1), xlabel=_XLABEL, ylabel=_YLABEL)
    # numbers with many digits stay apart
    ax.locator_params(axis="x", nbins=6)
    upright = [(0, y0), (0, y1)]
    level = [(x0, 0), (x1, 0)]
    style = {"colors": "0.35", "linewidths": 0.8, "linestyles": [(0, (1, 1.5))]}
    _draw_lines(ax, [upright, level], _ZERO, zorder=0.6, **style)


def draw_iso_lines(ax, own: dict | None) -> tuple:
    """Lines CL + DL = EL, their levels EL and labels."""
    from matplotlib.ticker import MaxNLocator

    x0, x1 = ax.get_xlim()
    y0, y1 = ax.get_ylim()
    levels = MaxNLocator(8, steps=[1, 2, 5, 10]).tick_values(x0 + y0, x1 + y1)
    # none in the corner, where it would be short
    inside = (levels > 0.92 * x0 + 0.08 * x1 + y0) & (levels < x1 + y1)
    levels = levels[inside].round(12)
    segments = [[(EL - y1, y1), (EL - y0, y0)] for EL in levels]
    style = styled(own, colors="0.75", linewidths=0.9, zorder=0.5, label=_ISO)
    lines = _draw_lines(ax, segments, _ISO, **style)
    _remove(ax.texts, _LABEL)
    return lines, levels, [_label_line(ax, EL) for EL in levels]


def _remove(artists, what: str) -> None:
    for old in drawn(artists, what):
        old.remove()


def _draw_lines(ax, segments: list, what: str, **style):
    """Lines across the axes, which the limits do not follow, in place of those of their kind."""
    from matplotlib.collections import LineCollection

    _remove(ax.collections, what)
    lines = LineCollection(segments, gid=what, **style)
    return ax.add_collection(lines, autolim=False)


def _label_line(ax, EL: float):
    """A label where the line leaves the axes: beside their right edge, or above the lower one."""
    x0, x1 = ax.get_xlim()
    y0 = ax.get_ylim()[0]
    style = NOTE | {"gid": _LABEL}
    text = f"EL = {EL:.3g}"
    if EL - x1 > y0:
        at = (x1, EL - x1)
        return ax.annotate(text, at, (4, 0), va="center", annotation_clip=False, **style)
    near_corner = EL - y0 >= 0.08 * x0 + 0.92 * x1
    style["ha"] = "right" if near_corner else "center"
    # what is drawn below the label would make it hard to read
    box = {"facecolor": ax.get_facecolor(), "edgecolor": "none", "pad": 1}
    return ax.annotate(text, (EL - y0, y0), (0, 4), va="bottom", zorder=0.7, bbox=box, **style)


def place_names(ax) -> None:
    """Each name where it hides least beside its point: the first of the best places tried."""
    from matplotlib.container import ErrorbarContainer

    containers = [c for c in ax.containers if isinstance(c, ErrorbarContainer)]
    artists = [artist for point, _, bars in containers for artist in (point, *bars)]
    # a bar has no width: one pixel to either side
    taken = [artist.get_window_extent().padded(1).extents for artist in artists]
    taken += [_box(label) for label in drawn(ax.texts, _LABEL)]
    axes = _box(ax)
    for text in drawn(ax.texts, _NAME):
        hidden = [_hidden(_move(text, place), taken, axes) for place in _PLACES]
        best = _PLACES[np.argmin(hidden)]
        taken.append(_move(text, best))


def _box(artist):
    """(x0, y0, x1, y1) in pixels."""
    return artist.get_window_extent().extents


def _move(text, place: tuple):
    """Set a name beside its point; returns its box there."""
    dx, dy = place
    text.set_position(place)
    text.set(ha="left" if dx > 0 else "right", va="bottom" if dy > 0 else "top")
    return _box(text)


def _hidden(box, taken: list, axes) -> float:
    """Area that a name in this box hides or has outside the axes, in whole pixels."""
    whole, inside = _overlap(box, [box, axes])
    return (_overlap(box, taken).sum() + whole - inside).round()


def _overlap(box, others):
    """Common area of a box and each of the others, of shape (n, 4)."""
    others = np.array(others)
    low = np.maximum(box[:2], others[:, :2])
    high = np.minimum(box[2:], others[:, 2:])
    return np.clip(high - low, 0, None).prod(axis=1)
