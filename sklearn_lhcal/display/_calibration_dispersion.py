"""The calibration-dispersion map (P1 Fig. 2a): which part of the epistemic loss a method has."""

from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from .._ground.checks import check_fraction
from .._rows import Rows, read_rows, rows_of
from ..distributions import PointMass
from ..metrics import calibration_loss, confidence_interval, dispersion_loss
from ._base import WIDE, draw_legend, drawn, in_percent, new_axes

_NAME = "name of a method"
_ISO_LABEL = "label of a line of equal epistemic loss"
_ZERO = "no loss"
_ISO = "equal epistemic loss CL + DL"
_XLABEL = "Calibration loss CL (squared probability)"
_YLABEL = "Dispersion loss DL (squared probability)"


class CalibrationDispersionDisplay:
    """Map of methods: one point each, calibration loss CL against dispersion loss DL.

    Make it with `from_predictions`, `from_estimators` or `from_estimator`. The epistemic loss EL of
    a prediction is the sum of the two: along the lines it is equal, and smaller towards the lower
    left. A method far to the right can be calibrated; one far up confuses rows whose class
    probabilities differ, which no calibration can mend (P1 Fig. 2a).

    Both losses are corrected and may be negative. They are taken on the rows with two raters or
    more, those of `loss_decomposition`. Bars show their intervals (delete-a-block jackknife, the
    same blocks for all methods). Methods share their rows, so that intervals may overlap where
    `paired_difference` finds a clear one.

    Parameters
    ----------
    calibration_loss, dispersion_loss : array-like of shape (n_methods,)
        Squared probability, summed over classes.
    calibration_interval, dispersion_interval : array-like of shape (n_methods, 2)
        Ends of their intervals.
    names : sequence of str, of length n_methods
        What the methods are called.
    confidence_level : float, default=0.95
        Of the intervals.

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
        confidence_level: float = 0.95,
    ):
        self.calibration_loss = np.asarray(calibration_loss)
        self.dispersion_loss = np.asarray(dispersion_loss)
        self.calibration_interval = np.asarray(calibration_interval)
        self.dispersion_interval = np.asarray(dispersion_interval)
        self.names = list(names)
        self.confidence_level = confidence_level
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
        confidence_level: float = 0.95,
        random_state=0,
        ax=None,
        **plot_kwargs,
    ) -> "CalibrationDispersionDisplay":
        """Map of several predictions for the same rows.

        Parameters
        ----------
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes; rows with fewer than two raters are left out.
        predictions : dict of str to array-like or Distribution
            By the name of the method: class probabilities, of shape (n_samples, n_classes), those
            of the second of two classes, of shape (n_samples,), or a distribution, of which the
            mean counts. Each meets y by its own names.
        n_bins : int or array-like of edges, default=15
            As in `calibration_loss`.
        strategy : {"uniform", "quantile"}, default="uniform"
            As in `calibration_loss`.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows; only their ratios matter.
        groups : array-like of shape (n_samples,), optional
            Rows of one group (one patient, say) are dependent: intervals take them together.
        confidence_level : float, default=0.95
            Of the intervals.
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
            No prediction, or no dict of them; no row with two raters and a positive weight;
            `confidence_level` outside (0, 1); and whatever `calibration_loss` refuses.
        """
        predictions = _check_named(predictions, "predictions")
        return cls._of_rows(
            {name: read_rows(y, z, sample_weight, groups) for name, z in predictions.items()},
            n_bins=n_bins,
            strategy=strategy,
            confidence_level=confidence_level,
            random_state=random_state,
            ax=ax,
            **plot_kwargs,
        )

    @classmethod
    def from_estimators(
        cls,
        estimators,
        X,
        y,
        *,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        **kwargs,
    ) -> "CalibrationDispersionDisplay":
        """Map of several fitted classifiers.

        Parameters
        ----------
        estimators : dict of str to fitted classifier
            By the name of the method. Pipelines and searches are seen through.
        X : array-like of shape (n_samples, ...)
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes; frames are aligned with each estimator's classes by name.
            A class that an estimator never saw has probability 0.
        sample_weight, groups : array-like of shape (n_samples,), optional
            As in `from_predictions`.
        **kwargs
            As in `from_predictions`: `n_bins`, `strategy`, `confidence_level`, `random_state`, `ax`
            and those of `plot`.

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
        found = {
            name: rows_of(estimator, X, y, sample_weight, groups)
            for name, estimator in estimators.items()
        }
        return cls._of_rows(found, **kwargs)

    @classmethod
    def _of_rows(
        cls,
        named: dict[str, Rows],
        *,
        n_bins=15,
        strategy="uniform",
        confidence_level=0.95,
        random_state=0,
        ax=None,
        **plot_kwargs,
    ) -> "CalibrationDispersionDisplay":
        check_fraction(confidence_level=confidence_level)
        seed = random_state
        if not isinstance(seed, Integral):
            seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
        how = {"n_bins": n_bins, "strategy": strategy, "random_state": seed}
        how["confidence_level"] = confidence_level
        losses = np.array([_losses(rows, **how) for rows in named.values()])
        # (n_methods, 3) each: estimate, low, high
        CL, DL = losses.swapaxes(0, 1)
        points = CL[:, 0], DL[:, 0], CL[:, 1:], DL[:, 1:]
        return cls(*points, named, confidence_level=confidence_level).plot(ax, **plot_kwargs)

    @classmethod
    def from_estimator(
        cls, estimator, X, y, *, name: str | None = None, **kwargs
    ) -> "CalibrationDispersionDisplay":
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
        name = type(estimator).__name__ if name is None else name
        return cls.from_estimators({name: estimator}, X, y, **kwargs)

    def plot(self, ax=None, *, errorbar_kwargs=None, text_kwargs=None, iso_kwargs=None):
        """Draw the map. Drawing a second one on the same axes adds its methods.

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
        self.ax_ = new_axes(WIDE) if ax is None else ax
        self.figure_ = self.ax_.figure
        style = {"fmt": "o", "markersize": 6, "elinewidth": 1, "capsize": 2}
        self.points_ = self._draw_points(style | (errorbar_kwargs or {}))
        _frame(self.ax_)
        iso = _draw_iso_lines(self.ax_, iso_kwargs or {})
        self.iso_lines_, self.iso_levels_, self.iso_labels_ = iso
        self.names_ = self._draw_names({"fontsize": "small"} | (text_kwargs or {}))
        _place_names(self.ax_)
        self.legend_ = self._draw_legend()
        return self

    def _draw_points(self, style: dict) -> list:
        CL, DL = self.calibration_loss, self.dispersion_loss
        # (n_methods, 2, 1), as errorbar wants it
        x_reach = np.abs(self.calibration_interval - CL[:, None])[:, :, None]
        y_reach = np.abs(self.dispersion_interval - DL[:, None])[:, :, None]
        return [
            self.ax_.errorbar([CL[m]], [DL[m]], xerr=x_reach[m], yerr=y_reach[m], **style)
            for m in range(len(self.names))
        ]

    def _draw_names(self, style: dict) -> list:
        at = zip(self.names, self.calibration_loss, self.dispersion_loss, self.points_, strict=True)
        style = {"xytext": (6, 6), "textcoords": "offset points", "gid": _NAME} | style
        return [
            self.ax_.annotate(name, (CL, DL), **{"color": point[0].get_color()} | style)
            for name, CL, DL, point in at
        ]

    def _draw_legend(self):
        title = f"bars: {in_percent(self.confidence_level)} intervals"
        return draw_legend(self.ax_, title, handles=[self.iso_lines_])


def _check_named(given, what: str) -> dict:
    if not isinstance(given, dict) or not given:
        raise ValueError(
            f"{what} must be a dict with one name or more, {{'my method': ...}}, got {given!r:.80}."
        )
    return {str(name): value for name, value in given.items()}


def _losses(rows: Rows, **how) -> list:
    """CL and DL, each with the ends of its interval, of the rows that have them."""
    seen = rows.contributing(2)
    if seen is None:
        raise ValueError(
            "No row has two raters and a positive weight; the corrected losses need some."
        )
    # of a distribution the mean counts, and takes less to cut into blocks
    z = PointMass.of_checked(seen.z).with_classes(seen.classes)
    how |= {"sample_weight": seen.w, "groups": seen.groups}
    both = (calibration_loss, dispersion_loss)
    return [confidence_interval(loss, seen.labels, z, **how)[:3] for loss in both]


def _frame(ax) -> None:
    """Limits around all points and intervals, and 0 where it is near; room for names."""
    low, high = ax.dataLim.min, ax.dataLim.max
    low = np.where((low > 0) & (low <= high - low), 0, low)
    size = np.maximum(high - low, 1e-6)
    (x0, y0), (x1, y1) = low - 0.04 * size, high + (0.12, 0.06) * size
    ax.set(xlim=(x0, x1), ylim=(y0, y1), xlabel=_XLABEL, ylabel=_YLABEL)
    style = {"colors": "0.35", "linewidths": 0.8, "linestyles": [(0, (1, 1.5))], "zorder": 0.6}
    _draw_lines(ax, [[(0, y0), (0, y1)], [(x0, 0), (x1, 0)]], _ZERO, style)


def _draw_lines(ax, segments: list, what: str, style: dict):
    """Lines across the axes, which the limits do not follow, in place of those of their kind."""
    from matplotlib.collections import LineCollection

    for old in drawn(ax.collections, what):
        old.remove()
    return ax.add_collection(LineCollection(segments, gid=what, **style), autolim=False)


def _draw_iso_lines(ax, style: dict):
    """Lines CL + DL = EL, their levels EL and labels."""
    from matplotlib.ticker import MaxNLocator

    (x0, x1), (y0, y1) = ax.get_xlim(), ax.get_ylim()
    levels = MaxNLocator(8, steps=[1, 2, 5, 10]).tick_values(x0 + y0, x1 + y1)
    # none in the corner
    inside = (levels > 0.92 * x0 + 0.08 * x1 + y0) & (levels < x1 + y1)
    levels = levels[inside].round(12)
    segments = [[(EL - y1, y1), (EL - y0, y0)] for EL in levels]
    style = {"colors": "0.75", "linewidths": 0.9, "zorder": 0.5, "label": _ISO} | style
    lines = _draw_lines(ax, segments, _ISO, style)
    for old in drawn(ax.texts, _ISO_LABEL):
        old.remove()
    return lines, levels, [_label_iso_line(ax, EL, (x0, x1), y0) for EL in levels]


def _label_iso_line(ax, EL: float, xlim: tuple, y0: float):
    """A label where the line leaves the axes: beside their right edge, or above the lower one."""
    style = {"textcoords": "offset points", "fontsize": "x-small", "color": "0.45"}
    style["gid"] = _ISO_LABEL
    text = f"EL = {EL:.3g}"
    x0, x1 = xlim
    if EL - x1 > y0:
        return ax.annotate(text, (x1, EL - x1), (4, 0), va="center", annotation_clip=False, **style)
    style["ha"] = "center" if EL - y0 < 0.08 * x0 + 0.92 * x1 else "right"
    box = {"facecolor": ax.get_facecolor(), "edgecolor": "none", "pad": 1}
    return ax.annotate(text, (EL - y0, y0), (0, 4), va="bottom", zorder=0.7, bbox=box, **style)


def _place_names(ax) -> None:
    """Each name where it hides least beside its point: the first of the best places tried."""
    names = drawn(ax.texts, _NAME)
    taken = [
        *_boxes_of_points(ax),
        *(text.get_window_extent().extents for text in drawn(ax.texts, _ISO_LABEL)),
    ]
    inside = ax.get_window_extent().extents
    for text in names:
        tried = []
        for up in (6, 18, 30, 42):
            for dx, dy in ((6, up), (6, -up), (-6, up), (-6, -up)):
                _move(text, dx, dy)
                box = text.get_window_extent().extents
                area = np.prod(box[2:] - box[:2])
                hidden = _overlap(box, np.array(taken)).sum()
                outside = area - _overlap(box, inside[None])[0]
                tried.append((hidden + outside, dx, dy))
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

    points = [c for c in ax.containers if isinstance(c, ErrorbarContainer)]
    bars = [line for container in points for line in container[2]]
    ends = [segment for line in bars for segment in line.get_segments()]
    pixels = [ax.transData.transform(segment) for segment in ends]
    pixels += [np.tile(ax.transData.transform(text.xy), (2, 1)) for text in drawn(ax.texts, _NAME)]
    reach = [1] * len(ends) + [4] * (len(pixels) - len(ends))
    return [
        np.concatenate([p.min(axis=0) - r, p.max(axis=0) + r])
        for p, r in zip(pixels, reach, strict=True)
    ]
