"""The calibration-dispersion map (P1 Fig. 2a): which part of the epistemic loss a method has, and how much of it."""

from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from .._fit import check_same_length
from ..metrics._inputs import align, raters, row_weights
from ..metrics._intervals import confidence_interval
from ..metrics._label_histogram import calibration_loss, dispersion_loss
from ._response import response
from ._second_opinion import _wide_axes

_NAME, _ISO_LABEL, _ZERO = "name of a method", "label of a line of equal epistemic loss", "no loss"
_ISO = "equal epistemic loss CL + DL"
_XLABEL = "Calibration loss CL (squared probability)"
_YLABEL = "Dispersion loss DL (squared probability)"


class CalibrationDispersionDisplay:
    """Calibration-dispersion map: one point a method, calibration loss CL against dispersion loss DL.

    Make it with `from_predictions`, `from_estimators` or `from_estimator`. The epistemic loss EL of a prediction is the
    sum of the two: along the lines it is equal, and smaller towards the lower left. A method far to the right can be
    calibrated; one far up confuses rows whose class probabilities differ, which no calibration can mend (P1 Fig. 2a).

    Both losses are corrected and may be negative. They are taken on the rows with two raters or more, those of
    `loss_decomposition`. Bars show their intervals (delete-a-block jackknife, the same blocks for all methods). Methods
    share their rows, so that intervals may overlap where `paired_difference` finds a clear one.

    Parameters
    ----------
    calibration_loss, dispersion_loss : array-like of shape (n_methods,)
        Squared probability, summed over classes.
    calibration_interval, dispersion_interval : array-like of shape (n_methods, 2)
        Ends of their intervals.
    names : sequence of str, of length n_methods
        What the methods are called.
    level : float, default=0.9
        Level of the intervals.

    Attributes
    ----------
    epistemic_loss : ndarray of shape (n_methods,)
        The sum of both losses.
    points_ : list of matplotlib ErrorbarContainer
        A point with its intervals for each method.
    names_ : list of matplotlib Annotation
        The names beside the points.
    iso_lines_ : matplotlib LineCollection
        Lines of equal epistemic loss.
    iso_levels_ : ndarray
        The epistemic losses of these lines.
    iso_labels_ : list of matplotlib Annotation
        Their labels.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    legend_ : matplotlib Legend

    See Also
    --------
    sklearn_lhcal.metrics.loss_decomposition : The losses in numbers, by class and bin.
    sklearn_lhcal.metrics.paired_difference : Whether one method is better than another.

    Examples
    --------
    An overconfident prediction can be calibrated; one that knows too little of the rows cannot:

    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(1000, overconfidence=3.0, total=50.0, random_state=0)
    >>> same_for_all = data.proba.mean(axis=0, keepdims=True).repeat(1000, axis=0)
    >>> display = CalibrationDispersionDisplay.from_predictions(
    ...     data.counts, {"overconfident": data.prediction, "same for all": same_for_all}
    ... )
    >>> [bool(more > less) for more, less in zip(display.calibration_loss, display.dispersion_loss)]
    [True, False]
    """

    def __init__(
        self,
        calibration_loss: ArrayLike,
        dispersion_loss: ArrayLike,
        calibration_interval: ArrayLike,
        dispersion_interval: ArrayLike,
        names,
        *,
        level: float = 0.9,
    ):
        self.calibration_loss = np.asarray(calibration_loss)
        self.dispersion_loss = np.asarray(dispersion_loss)
        self.calibration_interval = np.asarray(calibration_interval)
        self.dispersion_interval = np.asarray(dispersion_interval)
        self.names = list(names)
        self.level = level
        self.epistemic_loss = self.calibration_loss + self.dispersion_loss

    @classmethod
    def from_predictions(
        cls,
        y,
        predictions,
        *,
        n_bins: int | ArrayLike = 15,
        strategy: str = "uniform",
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        level: float = 0.9,
        random_state=0,
        ax=None,
        **plot_kwargs,
    ) -> "CalibrationDispersionDisplay":
        """Map of several predictions for the same rows.

        Parameters
        ----------
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes; rows with fewer than two raters are left out.
        predictions : dict of str to array-like of shape (n_samples, n_classes) or (n_samples,), or Distribution
            By the name of the method: class probabilities, those of the second of two classes, or a distribution, of
            which the mean counts.
        n_bins : int or array-like of edges, default=15
            As in `calibration_loss`.
        strategy : {"uniform", "quantile"}, default="uniform"
            As in `calibration_loss`.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows; only their ratios matter.
        groups : array-like of shape (n_samples,), optional
            Rows of one group (one patient, say) are dependent: intervals take them together.
        level : float, default=0.9
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
            No prediction, or no dict of them; no row with two raters and a positive weight; `level` outside (0, 1); and
            whatever `calibration_loss` refuses.
        """
        named = {name: (y, prediction) for name, prediction in _check_named(predictions, "predictions").items()}
        how = {"n_bins": n_bins, "strategy": strategy, "level": level}
        losses = _losses(named.values(), sample_weight, groups, random_state, **how)
        return cls(*losses, named, level=level).plot(ax, **plot_kwargs)

    @classmethod
    def from_estimators(
        cls,
        estimators,
        X,
        y,
        *,
        n_bins: int | ArrayLike = 15,
        strategy: str = "uniform",
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        level: float = 0.9,
        random_state=0,
        ax=None,
        **plot_kwargs,
    ) -> "CalibrationDispersionDisplay":
        """Map of several fitted classifiers.

        Parameters
        ----------
        estimators : dict of str to fitted classifier
            By the name of the method. Pipelines and searches are seen through.
        X : array-like of shape (n_samples, ...)
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes; frames are aligned with each estimator's classes by name. A class that an
            estimator never saw has probability 0.
        n_bins, strategy, sample_weight, groups, level, random_state, ax, **plot_kwargs
            As in `from_predictions`.

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
        >>> fitted = {name: estimator.fit(data.X[:100], labels) for name, estimator in estimators.items()}
        >>> display = CalibrationDispersionDisplay.from_estimators(fitted, data.X[100:], data.counts[100:])
        >>> display.names
        ['logistic', 'naive Bayes']
        """
        estimators = _check_named(estimators, "estimators")
        named = {name: response(estimator, X, y)[:2] for name, estimator in estimators.items()}
        how = {"n_bins": n_bins, "strategy": strategy, "level": level}
        losses = _losses(named.values(), sample_weight, groups, random_state, **how)
        return cls(*losses, named, level=level).plot(ax, **plot_kwargs)

    @classmethod
    def from_estimator(cls, estimator, X, y, *, name: str | None = None, **kwargs) -> "CalibrationDispersionDisplay":
        """One fitted classifier on the map; give `ax` to set it beside others.

        Parameters
        ----------
        estimator : fitted classifier
        X : array-like of shape (n_samples, ...)
        y : label histogram of shape (n_samples, n_classes)
        name : str, optional
            What it is called; None: its class.
        **kwargs
            As in `from_estimators`.

        Returns
        -------
        CalibrationDispersionDisplay
        """
        return cls.from_estimators({type(estimator).__name__ if name is None else name: estimator}, X, y, **kwargs)

    def plot(self, ax=None, *, errorbar_kwargs=None, text_kwargs=None, iso_kwargs=None):
        """Draw the map. Drawing a second one on the same axes adds its methods.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        errorbar_kwargs, text_kwargs, iso_kwargs : dict, optional
            Passed on to matplotlib's `errorbar` (points and intervals), `annotate` (names) and `LineCollection` (lines
            of equal epistemic loss).

        Returns
        -------
        display
            Itself, with the artists `points_`, `names_`, `iso_lines_`, `iso_labels_` and `legend_`, and with
            `iso_levels_`, `ax_` and `figure_`.
        """
        self.ax_ = _wide_axes() if ax is None else ax
        self.figure_ = self.ax_.figure
        self.points_ = self._draw_points({"fmt": "o", "markersize": 6, "elinewidth": 1, "capsize": 2}, errorbar_kwargs)
        _frame(self.ax_)
        self.iso_lines_, self.iso_levels_, self.iso_labels_ = _draw_iso_lines(self.ax_, iso_kwargs or {})
        self.names_ = self._draw_names({"fontsize": "small"} | (text_kwargs or {}))
        _place_names(self.ax_)
        self.legend_ = self._draw_legend()
        return self

    def _draw_points(self, style: dict, own: dict | None) -> list:
        CL, DL = self.calibration_loss, self.dispersion_loss
        x_reach = np.abs(self.calibration_interval - CL[:, None])[:, :, None]  # (n_methods, 2, 1), as errorbar wants it
        y_reach = np.abs(self.dispersion_interval - DL[:, None])[:, :, None]
        style = style | (own or {})
        return [
            self.ax_.errorbar([CL[m]], [DL[m]], xerr=x_reach[m], yerr=y_reach[m], **style)
            for m in range(len(self.names))
        ]

    def _draw_names(self, style: dict) -> list:
        at = zip(self.names, self.calibration_loss, self.dispersion_loss, self.points_, strict=True)
        style = {"xytext": (6, 6), "textcoords": "offset points", "gid": _NAME} | style
        return [
            self.ax_.annotate(name, (CL, DL), **{"color": point[0].get_color()} | style) for name, CL, DL, point in at
        ]

    def _draw_legend(self):
        legend = self.ax_.legend(handles=[self.iso_lines_], loc="best", fontsize="small", alignment="left")
        legend.set_title(f"bars: {100 * self.level:g} % intervals", {"size": "small"})
        return legend


def _check_named(given, what: str) -> dict:
    if not isinstance(given, dict) or not given:
        raise ValueError(f"{what} must be a dict with one name or more, {{'my method': ...}}, got {given!r:.80}.")
    return {str(name): value for name, value in given.items()}


def _losses(pairs, sample_weight, groups, random_state, **how) -> tuple:
    """CL, DL, shape (n_methods,), and their intervals, shape (n_methods, 2), of pairs of counts and prediction."""
    fixed = isinstance(random_state, Integral)
    seed = random_state if fixed else check_random_state(random_state).randint(np.iinfo(np.int32).max)
    found = []
    for y, prediction in pairs:
        counts, z = align(y, prediction)
        check_same_length(len(z), groups=groups)
        w = row_weights(sample_weight, len(z))
        rows = (raters(counts) >= 2) & (True if w is None else w > 0)
        if not rows.any():
            raise ValueError("No row has two raters and a positive weight; the corrected losses need some.")
        of_rows = {"sample_weight": w, "groups": groups}
        how |= {key: None if value is None else np.asarray(value)[rows] for key, value in of_rows.items()}
        both = (calibration_loss, dispersion_loss)
        found.append([confidence_interval(loss, counts[rows], z[rows], random_state=seed, **how) for loss in both])
    CL, DL = np.array(found)[:, :, :3].swapaxes(0, 1)  # (n_methods, 3) each: estimate, low, high
    return CL[:, 0], DL[:, 0], CL[:, 1:], DL[:, 1:]


def _frame(ax) -> None:
    """Limits around all points and intervals on these axes, and 0 where it is near; room for names on the right."""
    low, high = ax.dataLim.min, ax.dataLim.max
    low = np.where((low > 0) & (low <= high - low), 0, low)
    size = np.maximum(high - low, 1e-6)
    (x0, y0), (x1, y1) = low - 0.04 * size, high + (0.12, 0.06) * size
    ax.set(xlim=(x0, x1), ylim=(y0, y1), xlabel=_XLABEL, ylabel=_YLABEL)
    style = {"colors": "0.35", "linewidths": 0.8, "linestyles": [(0, (1, 1.5))], "zorder": 0.6}
    _draw_lines(ax, [[(0, y0), (0, y1)], [(x0, 0), (x1, 0)]], _ZERO, style)


def _drawn(artists, what: str) -> list:
    """The artists of one kind, of all displays on these axes."""
    return [artist for artist in artists if artist.get_gid() == what]


def _draw_lines(ax, segments: list, what: str, style: dict):
    """Lines across the axes, which the limits do not follow, in the place of those of the same kind."""
    from matplotlib.collections import LineCollection

    for old in _drawn(ax.collections, what):
        old.remove()
    return ax.add_collection(LineCollection(segments, gid=what, **style), autolim=False)


def _draw_iso_lines(ax, style: dict):
    """Lines CL + DL = EL, their levels EL and labels."""
    from matplotlib.ticker import MaxNLocator

    (x0, x1), (y0, y1) = ax.get_xlim(), ax.get_ylim()
    levels = MaxNLocator(8, steps=[1, 2, 5, 10]).tick_values(x0 + y0, x1 + y1)
    levels = levels[(levels > 0.92 * x0 + 0.08 * x1 + y0) & (levels < x1 + y1)].round(12)  # none in the corner
    segments = [[(EL - y1, y1), (EL - y0, y0)] for EL in levels]
    style = {"colors": "0.75", "linewidths": 0.9, "zorder": 0.5, "label": _ISO} | style
    lines = _draw_lines(ax, segments, _ISO, style)
    for old in _drawn(ax.texts, _ISO_LABEL):
        old.remove()
    return lines, levels, [_label_iso_line(ax, EL, (x0, x1), y0) for EL in levels]


def _label_iso_line(ax, EL: float, xlim: tuple, y0: float):
    """A label where the line leaves the axes: beside their right edge, or above the lower one."""
    style = {"textcoords": "offset points", "fontsize": "x-small", "color": "0.45", "gid": _ISO_LABEL}
    text, (x0, x1) = f"EL = {EL:.3g}", xlim
    if EL - x1 > y0:
        return ax.annotate(text, (x1, EL - x1), (4, 0), va="center", annotation_clip=False, **style)
    style["ha"] = "center" if EL - y0 < 0.08 * x0 + 0.92 * x1 else "right"
    box = {"facecolor": ax.get_facecolor(), "edgecolor": "none", "pad": 1}
    return ax.annotate(text, (EL - y0, y0), (0, 4), va="bottom", zorder=0.7, bbox=box, **style)


def _place_names(ax) -> None:
    """Each name where it hides least: beside its point, of the places that are tried the first of the best."""
    names = _drawn(ax.texts, _NAME)
    taken = [*_boxes_of_points(ax), *(text.get_window_extent().extents for text in _drawn(ax.texts, _ISO_LABEL))]
    inside = ax.get_window_extent().extents
    for text in names:
        tried = []
        for up in (6, 18, 30, 42):
            for dx, dy in ((6, up), (6, -up), (-6, up), (-6, -up)):
                _move(text, dx, dy)
                box = text.get_window_extent().extents
                area = np.prod(box[2:] - box[:2])
                tried.append((_overlap(box, np.array(taken)).sum() + area - _overlap(box, inside[None])[0], dx, dy))
        best = min(tried, key=lambda place: round(place[0]))
        _move(text, *best[1:])
        taken.append(text.get_window_extent().extents)


def _move(text, dx: float, dy: float) -> None:
    text.set_position((dx, dy))
    text.set(ha="left" if dx > 0 else "right", va="bottom" if dy > 0 else "top")


def _overlap(box, others):
    """Common area of a box (x0, y0, x1, y1) and each of shape (n, 4)."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    return np.clip(sides, 0, None).prod(axis=1)


def _boxes_of_points(ax) -> list:
    """Boxes in pixels around the points and along the bars of all displays on these axes."""
    from matplotlib.container import ErrorbarContainer

    bars = [line for points in ax.containers if isinstance(points, ErrorbarContainer) for line in points[2]]
    ends = [segment for line in bars for segment in line.get_segments()]
    pixels = [ax.transData.transform(segment) for segment in ends]
    pixels += [np.tile(ax.transData.transform(text.xy), (2, 1)) for text in _drawn(ax.texts, _NAME)]
    reach = [1] * len(ends) + [4] * (len(pixels) - len(ends))
    return [np.concatenate([p.min(axis=0) - r, p.max(axis=0) + r]) for p, r in zip(pixels, reach, strict=True)]
