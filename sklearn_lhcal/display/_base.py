"""What displays share: how they are made, axes, styles, legends and histograms of bin counts."""

from collections.abc import Callable
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from .._rows import rows_of
from .._utils.checks import checked
from .._utils.types import Estimator, LabelsLike, NDArray, Samples
from ..distributions import Distribution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
else:
    # matplotlib is imported where something is drawn
    Axes = Any

# sizes of figures in inches; a square diagram above its histogram needs the greater height
SQUARE = (5, 5.2)
WIDE = (6, 4.5)

# Okabe and Ito's colours, which people who see colours differently can tell apart too; their yellow
# is too light for a line
PALETTE = ["#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9"]

DOTTED = {"color": "0.35", "linewidth": 1, "linestyle": (0, (1, 1.5))}
NOTE = {"textcoords": "offset points", "fontsize": "small", "color": "0.4"}

# of the height of the axes; labels of the vertical axis stand beside what is above the histogram
STRIP_HEIGHT = 0.14
ABOVE_STRIP = (1 + STRIP_HEIGHT) / 2

_STRIP = "number in each bin"

# the user's own styles of models: for all of them, or one each
Styles = dict | list[dict] | None


class Display:
    """Base of all displays: holds the result of an analysis, and finds the axes to draw it on."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def _take_axes(self, ax, size: tuple[float, float], n_panels: int = 1) -> NDArray:
        """Draw on the axes given, else on those of a new figure; returns an array of panels."""
        self.ax_ = new_axes(size, n_panels) if ax is None else ax
        panels = np.atleast_1d(self.ax_)
        self.figure_ = panels[0].figure
        return panels

    def _draw_legend(self, title: str | None = None, **options) -> None:
        """A small legend, its title to the left."""
        small = {"fontsize": "small", "title_fontsize": "small"}
        self.legend_ = self.ax_.legend(title=title, alignment="left", **small, **options)

    @property
    def _level(self) -> str:
        """The confidence level as legends print it."""
        return f"{100 * self.result.confidence_level:g}%"


class PredictionDisplay(Display):
    """A display of predictions, made by a function of labels and these; subclasses fill `plot`."""

    analysis: ClassVar[Callable[..., Any]]
    plot: ClassVar[Callable[..., Any]]
    # whether several models are drawn together
    _several = False

    @classmethod
    def from_predictions(cls, *args: Any, ax: "Axes | None" = None, **options: Any) -> Self:
        """Compute the result, and draw it.

        Parameters
        ----------
        *args, **options
            Those of the function that the class names, and those of `plot`.
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.

        Returns
        -------
        display
            Of the class that was asked, with the `result`.

        Raises
        ------
        TypeError
            An option that neither the function nor `plot` has.
        ValueError
            As the function.
        """
        if "random_state" in signature(cls.analysis).parameters:
            # the same figure each time
            options.setdefault("random_state", 0)
        kept = _taken(options, cls.__init__)
        style = _taken(options, cls.plot)
        return cls(cls.analysis(*args, **options), **kept).plot(ax, **style)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Samples, y: LabelsLike, *args: Any, **options: Any
    ) -> Self:
        """Predict with a fitted classifier, compute the result, and draw it.

        Parameters
        ----------
        estimator : fitted classifier
            Its `predict_dist` is used where it has one, else its `predict_proba`. Forests, bagging
            and soft voting predict by the distribution of their members. Pipelines and searches are
            seen through. Where several models are drawn, a dict of these by their names, too.
        X : array-like of shape (n_samples, ...)
            Features of the samples.
        y : label histogram of shape (n_samples, n_classes)
            Named labels meet the estimator's classes by name. A class that the estimator never saw
            has probability 0.
        *args, **options
            As in `from_predictions`. Where there is a `name`, None stands for the name of the
            estimator's class.

        Returns
        -------
        display
            Of the class that was asked, with the `result`.

        Raises
        ------
        ValueError
            As `from_predictions`; an estimator that predicts no probabilities.
        """
        prediction: Any = (predicted_by_each if cls._several else predicted)(estimator, X, y)
        return cls.from_predictions(y, prediction, *args, **cls._named(estimator, options))

    @classmethod
    def _named(cls, estimator: Estimator, options: dict) -> dict:
        """The options, with what the legend calls an estimator."""
        return options


class NamedDisplay(PredictionDisplay):
    """A display of one prediction that a legend names."""

    @checked
    def __init__(self, result: Any, *, name: str | None = None) -> None:
        super().__init__(result)
        self.name = name

    @classmethod
    def _named(cls, estimator: Estimator, options: dict) -> dict:
        return options | {"name": options.get("name") or type(estimator).__name__}


def _taken(options: dict, function: Callable) -> dict:
    """The options that a function takes, taken out of these."""
    names = signature(function).parameters.keys() & options.keys()
    return {name: options.pop(name) for name in names}


# ------------------------------------------------------------------------------- what is displayed


def predicted(estimator, X, y) -> Distribution:
    """What a fitted classifier predicts, with the names of all its classes and of those of y."""
    rows = rows_of(estimator, X, y)
    return rows.prediction.with_classes(rows.classes)


def by_name(estimator) -> dict:
    """Estimators by name; one alone is called by its class."""
    return estimator if isinstance(estimator, dict) else {type(estimator).__name__: estimator}


def predicted_by_each(estimator, X, y) -> dict[str, Any]:
    """What each of the estimators predicts, by their names."""
    return {name: predicted(model, X, y) for name, model in by_name(estimator).items()}


# -------------------------------------------------------------------------------------- how to draw


def new_axes(size: tuple[float, float], n_panels: int = 1):
    """Axes of a new figure; an array of them for several panels side by side."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Displays need matplotlib: pip install 'sklearn-lhcal[plot]'.") from error
    axes = plt.subplots(1, n_panels, figsize=size, layout="constrained")[1]
    for ax in np.atleast_1d(axes):
        ax.set_prop_cycle(color=PALETTE)
    return axes


def color_of(i: int) -> str:
    """The colour of the i-th thing that is drawn."""
    return PALETTE[i % len(PALETTE)]


def look_of(i: int) -> dict:
    """The colour of the i-th curve, and dashes by which curves that coincide can be told apart."""
    return {"color": color_of(i), "linestyle": ("-", "--", "-.", ":")[i % 4]}


def styled(own: dict | None, **ours) -> dict:
    """Our style of an artist, overruled by the user's own."""
    return ours | (own or {})


def of_each(own: Styles, n: int, name: str) -> list[dict]:
    """The user's own styles of n models: one dict for all of them, or a list, one each."""
    if not isinstance(own, list):
        return [own or {}] * n
    if len(own) != n:
        raise ValueError(f"{name} must be a dict, or a list of {n}, one a model; got {len(own)}.")
    return list(own)


def drawn(artists, what: str) -> list:
    """The artists of one kind, of all displays on their axes."""
    return [artist for artist in artists if artist.get_gid() == what]


def draw_points(ax, i: int, x, y, own: dict) -> list:
    """Points of the i-th model, in its colour."""
    style = look_of(i) | {"marker": "o", "markersize": 4, "linestyle": "none"}
    return ax.plot(x, y, **styled(own, **style))


def draw_curves(ax, x, values, interval, names: dict, line_kwargs, band_kwargs):
    """Lines and bands of the curves in `names`, {row of values: name}, a colour each."""
    own_lines = of_each(line_kwargs, len(values), "line_kwargs")
    own_bands = of_each(band_kwargs, len(values), "band_kwargs")
    lines = []
    bands = []
    for i, name in names.items():
        style = styled(own_lines[i], linewidth=1.6, color=color_of(i), label=name)
        lines += ax.plot(x, values[i], **style)
        bands.append(draw_band(ax, x, interval[i], lines[-1], own_bands[i]))
    return lines, bands


def draw_band(ax, x, interval, line, own: dict | None, alpha: float = 0.15):
    """The band of a line, in its colour."""
    style = styled(own, color=line.get_color(), alpha=alpha, linewidth=0)
    return ax.fill_between(x, *interval.T, **style)


def draw_reference(ax, what: str, top: float = 1.0, right: float = 1.0):
    """The dotted line from (0, 0) to (right, top), drawn once; the first is in the legend."""
    results = drawn(ax.lines, what)
    for line in results:
        if np.isclose(line.get_ydata()[-1], top, rtol=1e-6, atol=0):
            return line
    label = None if results else what
    return ax.plot([0, right], [0, top], label=label, gid=what, zorder=1, **DOTTED)[0]


def reach(mean: NDArray, interval: NDArray) -> NDArray:
    """Distances of n means from the ends of their intervals, (2, n), as `errorbar` wants them."""
    return np.abs(interval - mean[:, None]).T


def draw_counts(ax, unit: str, counts, edges, own: dict | None, **style):
    """The numbers in each bin, as an outline along the lower edge."""
    strip = _strip_axes(ax, unit)
    strip.set_ylim(0, max(strip.get_ylim()[1], 1.15 * counts.max()))
    return strip.stairs(counts, edges, **styled(own, linewidth=1.2, **style))


def _strip_axes(ax, unit: str):
    """The axes of the histogram, made once."""
    if strips := drawn(ax.child_axes, _STRIP):
        return strips[0]
    strip = ax.inset_axes((0, 0, 1, STRIP_HEIGHT), sharex=ax, gid=_STRIP)
    strip.set(ylim=(0, 1), facecolor="none")
    strip.locator_params(axis="y", nbins=2)
    strip.yaxis.tick_right()
    strip.yaxis.set_label_position("right")
    strip.yaxis.set_major_formatter("{x:,.0f}")
    strip.set_ylabel(unit, fontsize="small")
    strip.tick_params(labelbottom=False, labelsize="small")
    strip.spines["top"].set_color("0.8")
    return strip
