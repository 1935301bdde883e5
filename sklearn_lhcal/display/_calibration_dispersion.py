"""The calibration-dispersion map (P1 Fig. 2a): which part of the epistemic loss a method has."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from .._rows import PredictionLike, Rows, read_rows
from .._utils.arrays import Floats
from .._utils.checks import checked
from .._utils.types import (
    BinsLike,
    Estimator,
    Groups,
    LabelsLike,
    Raters,
    Samples,
    Seed,
    Strategy,
    Weights,
)
from ..distributions import PointMass
from ..metrics import calibration_loss, confidence_interval, dispersion_loss
from ._base import NOTE, WIDE, Axes, Display, draw_legend, drawn, name_of, predicted, reach, styled

_NAME = "name of a method"
_LABEL = "label of a line of equal epistemic loss"
_ZERO = "no loss"
_ISO = "equal epistemic loss CL + DL"
_XLABEL = "Squared calibration error CL (squared probability)"
_YLABEL = "Grouping loss DL (squared probability)"

# where a name may stand beside its point, in points: near it first, right before left
_PLACES = [(dx, side * up) for up in (6, 18, 30, 42) for dx in (6, -6) for side in (1, -1)]


@dataclass(eq=False, repr=False)
class CalibrationDispersionDisplay(Display):
    """Plot of methods: one point each, calibration loss CL against dispersion loss DL.

    Make it with `from_predictions`, `from_estimators` or `from_estimator`. The epistemic loss EL of
    a prediction is the sum of the two losses. It is equal along the lines, and smaller towards the
    lower left. A method far to the right can be calibrated. One far up confuses samples whose class
    probabilities differ, which no calibration can mend (P1 Fig. 2a).

    Both losses are corrected and may be negative. They are taken on the samples with two raters or
    more, as in `loss_decomposition`. Bars show their intervals (delete-a-block jackknife, the same
    blocks for all methods). Methods share their samples: `paired_difference` may find a clear
    difference where intervals overlap.

    Parameters
    ----------
    calibration_loss, dispersion_loss : array-like of shape (n_methods,)
        Losses of the methods, in squared probability, summed over classes.
    calibration_interval, dispersion_interval : array-like of shape (n_methods, 2)
        Ends of their intervals, in the same unit.
    names : sequence of str, of length n_methods
        What the methods are called.
    confidence_level : float, default=0.95
        Level of the intervals.

    Attributes
    ----------
    epistemic_loss : ndarray of shape (n_methods,)
        The sum of both losses, in squared probability.
    points_ : list of matplotlib ErrorbarContainer
        A point with its intervals for each method.
    names_ : list of matplotlib Annotation
        The names beside the points.
    iso_lines_ : matplotlib LineCollection
        Lines of equal epistemic loss.
    iso_levels_ : ndarray
        The epistemic losses of these lines.
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
    >>> display = CalibrationDispersionDisplay.from_predictions(
    ...     data.counts, {"overconfident": data.prediction, "same for all": same_for_all}
    ... )
    >>> [bool(more > less) for more, less in zip(display.calibration_loss, display.dispersion_loss)]
    [True, False]
    """

    calibration_loss: NDArray
    dispersion_loss: NDArray
    calibration_interval: NDArray
    dispersion_interval: NDArray
    names: list
    _: KW_ONLY
    confidence_level: float = 0.95

    @property
    def epistemic_loss(self) -> Floats:
        """The sum of both losses, shape (n_methods,)."""
        return self.calibration_loss + self.dispersion_loss

    @classmethod
    @checked
    def from_predictions(
        cls,
        y: LabelsLike,
        predictions: Mapping[str, PredictionLike],
        *,
        sample_weight: Weights = None,
        groups: Groups = None,
        raters: Raters = None,
        n_bins: BinsLike = 15,
        strategy: Strategy = "uniform",
        confidence_level: float = 0.95,
        random_state: Seed = 0,
        ax: "Axes | None" = None,
        **plot_kwargs: Any,
    ) -> Self:
        """Plot of several predictions for the same samples.

        Parameters
        ----------
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes; samples with fewer than two raters are left out.
        predictions : dict of str to array-like or Distribution
            A prediction by the name of its method. It holds class probabilities, of shape
            (n_samples, n_classes), or those of the second of two classes, of shape (n_samples,), or
            is a distribution, of which the mean counts. Each meets y by its own names.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples; only their ratios matter.
        groups : array-like of shape (n_samples,), optional
            Samples of one group (one patient, say) are dependent: intervals take them together.
        raters : {"random", "fixed"}, optional
            Whether intervals are for new raters, which needs `Annotations`, or for these. None:
            "random" with `Annotations`, else "fixed", as in `confidence_interval`.
        n_bins : int or array-like of edges, default=15
            As in `calibration_loss`.
        strategy : {"uniform", "quantile"}, default="uniform"
            As in `calibration_loss`.
        confidence_level : float, default=0.95
            Level of the intervals.
        random_state : int, RandomState instance or None, default=0
            Decides the blocks of the jackknife, which all methods share.
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        **plot_kwargs
            Passed on to `plot`.

        Returns
        -------
        CalibrationDispersionDisplay

        Raises
        ------
        ValueError
            No prediction, or no dict of them; no sample with two raters and a positive weight;
            `confidence_level` outside (0, 1); and whatever `calibration_loss` refuses.
        """
        predictions = _check_named(predictions, "predictions")
        # one number, so that all methods share the blocks
        seed = random_state
        if not isinstance(seed, Integral):
            seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
        how: dict = {"n_bins": n_bins, "strategy": strategy, "random_state": seed}
        how["confidence_level"] = confidence_level
        how["raters"] = raters
        rows = [read_rows(y, z, sample_weight, groups) for z in predictions.values()]
        losses = np.array([_losses(one, **how) for one in rows])
        # (n_methods, 3) each: estimate, low, high
        CL, DL = losses.swapaxes(0, 1)
        points = CL[:, 0], DL[:, 0], CL[:, 1:], DL[:, 1:]
        display = cls(*points, list(predictions), confidence_level=confidence_level)
        return display.plot(ax, **plot_kwargs)

    @classmethod
    def from_estimators(
        cls, estimators: Mapping[str, Estimator], X: Samples, y: LabelsLike, **kwargs: Any
    ) -> Self:
        """Plot of several fitted classifiers.

        Parameters
        ----------
        estimators : dict of str to fitted classifier
            A classifier by the name of its method. Pipelines and searches are seen through.
        X : array-like of shape (n_samples, ...)
            Features of the samples.
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes. Named labels meet each estimator's classes by name. A
            class that an estimator never saw has probability 0.
        **kwargs
            As in `from_predictions`: `sample_weight`, `groups`, `raters`, `n_bins`,
            `strategy`, `confidence_level`, `random_state`, `ax` and those of `plot`.

        Returns
        -------
        CalibrationDispersionDisplay

        Raises
        ------
        ValueError
            As `from_predictions`; an estimator that predicts no probabilities.

        Examples
        --------
        >>> from sklearn.linear_model import LogisticRegression
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from sklearn_lhcal.datasets import make_label_histograms
        >>> data = make_label_histograms(200, random_state=0)
        >>> labels = data.counts[:100].argmax(axis=1)
        >>> estimators = {"logistic": LogisticRegression(), "naive Bayes": GaussianNB()}
        >>> fitted = {name: model.fit(data.X[:100], labels) for name, model in estimators.items()}
        >>> display = CalibrationDispersionDisplay.from_estimators(
        ...     fitted, data.X[100:], data.counts[100:]
        ... )
        >>> display.names
        ['logistic', 'naive Bayes']
        """
        estimators = _check_named(estimators, "estimators")
        predictions = {name: predicted(model, X, y) for name, model in estimators.items()}
        return cls.from_predictions(y, predictions, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Estimator,
        X: Samples,
        y: LabelsLike,
        *,
        name: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """One fitted classifier on the plot; give `ax` to set it beside others.

        Parameters
        ----------
        estimator : fitted classifier
            Pipelines and searches are seen through.
        X : array-like of shape (n_samples, ...)
            Features of the samples.
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes.
        name : str, optional
            What the plot calls it; None: the name of the estimator's class.
        **kwargs
            As in `from_estimators`.

        Returns
        -------
        CalibrationDispersionDisplay
        """
        return cls.from_estimators({name_of(estimator, name): estimator}, X, y, **kwargs)

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
        title = f"bars: {self._level} intervals"
        self.legend_ = draw_legend(self.ax_, title, handles=[self.iso_lines_])
        return self

    def _draw_points(self, own_bars: dict | None, own_text: dict | None) -> None:
        CL, DL = self.calibration_loss, self.dispersion_loss
        x_bars = reach(CL, self.calibration_interval)
        y_bars = reach(DL, self.dispersion_interval)
        style = styled(own_bars, fmt="o", markersize=6, elinewidth=1, capsize=2)
        self.points_ = []
        self.names_ = []
        for m, name in enumerate(self.names):
            bars = {"xerr": x_bars[:, [m]], "yerr": y_bars[:, [m]]}
            point = self.ax_.errorbar(CL[m], DL[m], **bars, **style)
            self.points_.append(point)
            color = point[0].get_color()
            text = draw_name(self.ax_, name, (CL[m], DL[m]), own_text, color)
            self.names_.append(text)


def _check_named(given, what: str) -> dict:
    if not isinstance(given, dict) or not given:
        raise ValueError(
            f"{what} must be a dict with one name or more, {{'my method': ...}}, got {given!r:.80}."
        )
    return {str(name): value for name, value in given.items()}


def _losses(rows: Rows, **how) -> list:
    """CL and DL, each with the ends of its interval, of the samples that have them."""
    seen = rows.contributing(2)
    if seen is None:
        raise ValueError(
            "No sample has two raters in y and a positive weight; the losses need some."
        )
    # of a distribution the mean counts, and takes less to cut into blocks
    z = PointMass.of_checked(seen.z).with_classes(seen.classes)
    how |= {"sample_weight": seen.w, "groups": seen.groups}
    both = (calibration_loss, dispersion_loss)
    return [confidence_interval(loss, seen.labels, z, **how)[:3] for loss in both]


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


def draw_name(ax, name: str, point: tuple, own: dict | None, color):
    """The name of a method, in its first place; `place_names` finds the best."""
    at = {"xytext": _PLACES[0], "textcoords": "offset points"}
    style = styled(own, fontsize="small", color=color, gid=_NAME, **at)
    return ax.annotate(name, point, **style)


def place_names(ax) -> None:
    """Each name where it hides least beside its point: the first of the best places tried."""
    taken = _boxes_of_points(ax)
    taken += [_box(label) for label in drawn(ax.texts, _LABEL)]
    axes = _box(ax)
    for text in drawn(ax.texts, _NAME):
        hidden = [_hidden(_move(text, place), taken, axes) for place in _PLACES]
        best = _PLACES[np.argmin(hidden)]
        taken.append(_move(text, best))


def _box(artist):
    """(x0, y0, x1, y1) in pixels."""
    return artist.get_window_extent().extents


def _boxes_of_points(ax) -> list:
    """Boxes around the points and along the bars of all displays on these axes."""
    from matplotlib.container import ErrorbarContainer

    containers = [c for c in ax.containers if isinstance(c, ErrorbarContainer)]
    artists = [artist for point, _, bars in containers for artist in (point, *bars)]
    # a bar has no width: one pixel to either side
    return [artist.get_window_extent().padded(1).extents for artist in artists]


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
