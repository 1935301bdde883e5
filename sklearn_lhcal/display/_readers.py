"""A model among the readers: how often each disagrees with another reader."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .._rows import Annotations, PredictionLike
from .._utils.checks import checked
from .._utils.distances import Distance, is_ordinal
from .._utils.types import Groups, Raters, Seed, Weights
from ..metrics import reader_comparison
from ._base import DOTTED, WIDE, Axes, PredictionDisplay, color_of, reach, styled

_MODEL = color_of(1)
_READERS = color_of(0)
_ERROR = "Probability that a reader disagrees"
# lines of the figure in inches, the least of them, and what the axis needs
_LINE = 0.32
_FEWEST = 8
_AXIS = 1.4


@dataclass(eq=False, repr=False)
class ReaderDisplay(PredictionDisplay):
    """A model and each reader on one axis: how often a reader disagrees with them.

    Make it with `from_predictions` or `from_estimator`. The uppermost line is the model. The next
    is "one more reader": how often two readers disagree. Below it stands each reader, by how often
    the others disagree with her. The dotted line marks the value of one more reader.

    **Intervals.** Those of the model and of one more reader are for new readers and new samples,
    see `confidence_interval`. They share samples and readers, so whether they overlap says little.
    The title gives their difference Δ and its one-sided upper bound. Those of single readers are
    for these readers and new samples, and hold for all of them together.

    Parameters
    ----------
    names : list
        The readers, in the order that they are drawn, from the top.
    error : array-like of shape (n_raters,)
        How often the others disagree with each reader, a probability.
    interval : array-like of shape (n_raters, 2)
        Ends of its intervals.
    model_error, reader_error, difference : array-like of shape (3,)
        Estimate and both ends, of the model, of one more reader, and of Δ.
    confidence_level : float, default=0.95
        Level of the intervals.
    upper : float, optional
        One-sided upper bound of Δ.
    margin : float, optional
        The difference that does not matter: the model is non-inferior where `upper` is below.
    name : str, optional
        What the model is called.
    what : str, optional
        What the errors are: probabilities that a reader disagrees, or halves of a mean distance.

    Attributes
    ----------
    readers_ : matplotlib ErrorbarContainer
        Each reader.
    reader_ : matplotlib ErrorbarContainer
        One more reader.
    model_ : matplotlib ErrorbarContainer
        The model.
    reference_ : matplotlib Line2D
        The dotted line.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    See Also
    --------
    sklearn_lhcal.metrics.reader_comparison : The numbers that are drawn.

    Examples
    --------
    >>> from sklearn_lhcal.label_histogram import Annotations
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(2, size=(300, 1))
    >>> said = np.where(rng.random((300, 6)) < 0.8, truth, 1 - truth)
    >>> y = Annotations.from_matrix(said[:, :5], raters=["Ann", "Bob", "Cem", "Dee", "Eve"])
    >>> display = ReaderDisplay.from_predictions(y, said[:, 5], margin=0.1, random_state=0)
    >>> display.upper < display.margin
    True
    """

    names: list
    error: NDArray
    interval: NDArray
    model_error: NDArray
    reader_error: NDArray
    difference: NDArray
    _: KW_ONLY
    confidence_level: float = 0.95
    upper: float | None = None
    margin: float | None = None
    name: str | None = None
    what: str = _ERROR

    @classmethod
    @checked
    def from_predictions(
        cls,
        y: Annotations,
        prediction: PredictionLike,
        *,
        distance: Distance = None,
        sample_weight: Weights = None,
        groups: Groups = None,
        raters: Raters = None,
        margin: float = 0.0,
        confidence_level: float = 0.95,
        n_blocks: int = 50,
        random_state: Seed = 0,
        name: str | None = None,
        ax: "Axes | None" = None,
        **plot_kwargs: Any,
    ) -> Self:
        """A model's labels or class probabilities, among those who labelled.

        Parameters
        ----------
        y : Annotations of shape (n_samples, n_classes)
            Samples with two readers or more count.
        prediction : array-like of shape (n_samples,) or (n_samples, n_classes), or Distribution
            As in `sklearn_lhcal.metrics.reader_comparison`.
        distance, sample_weight, groups, raters, confidence_level, n_blocks, random_state
            As in `sklearn_lhcal.metrics.reader_comparison`.
        margin : float, default=0.0
            The difference of probabilities that does not matter, for the verdict; with a distance
            that of its halves.
        name : str, optional
            What the model is called; None: "model".
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        **plot_kwargs
            Passed on to `plot`.

        Returns
        -------
        ReaderDisplay

        Raises
        ------
        ValueError
            As in `sklearn_lhcal.metrics.reader_comparison`.
        """
        if isinstance(prediction, Mapping):
            raise ValueError("prediction must be of one model, not a dict: draw each by itself.")
        found = reader_comparison(
            y,
            prediction,
            margin=margin,
            distance=distance,
            groups=groups,
            raters=raters,
            confidence_level=confidence_level,
            n_blocks=n_blocks,
            random_state=random_state,
            sample_weight=sample_weight,
        )
        what = _ERROR
        if distance is not None:
            squares = "steps" if is_ordinal(distance) else "squared distance"
            what = f"Half of the mean {squares} from a reader"
        each = found.readers
        # from the best on; those who share no samples with others are left out
        order = np.argsort(each.error, kind="stable")
        order = order[np.isfinite(each.error[order])]
        return cls(
            each.raters[order].tolist(),
            each.error[order],
            each.error_interval[order],
            np.array(found.model_error[:3]),
            np.array(found.reader_error[:3]),
            np.array(found.difference[:3]),
            confidence_level=confidence_level,
            upper=found.upper,
            margin=found.margin,
            name=name,
            what=what,
        ).plot(ax, **plot_kwargs)

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        reader_kwargs: dict | None = None,
        model_kwargs: dict | None = None,
    ) -> Self:
        """Draw the model, one more reader, and each reader.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        reader_kwargs, model_kwargs : dict, optional
            Passed on to matplotlib's `errorbar`, of single readers and of the model.

        Returns
        -------
        display
            Itself, with its artists.
        """
        R = len(self.names)
        self._take_axes(ax, (WIDE[0], _AXIS + _LINE * max(R + 2, _FEWEST)))
        shared = {"fmt": "o", "capsize": 3}
        self.model_ = self._bar(0, self.model_error, styled(model_kwargs, color=_MODEL, **shared))
        mean = {"fmt": "D", "capsize": 3, "color": _READERS}
        self.reader_ = self._bar(1, self.reader_error, mean)
        style = {"markersize": 4, "elinewidth": 1, "markerfacecolor": "white"}
        each = styled(reader_kwargs, color=_READERS, **shared, **style)
        lines = np.arange(R) + 2.5
        bars = reach(self.error, self.interval)
        self.readers_ = self.ax_.errorbar(self.error, lines, xerr=bars, **each)
        self.reference_ = self.ax_.axvline(self.reader_error[0], zorder=0, **DOTTED)
        name = "model" if self.name is None else self.name
        self.ax_.set(
            xlabel=f"{self.what} ({self._level} intervals)",
            ylim=(R + 2.2, -0.7),
            yticks=[0, 1, *lines],
        )
        self.ax_.set_yticklabels([name, "one more reader", *self.names])
        self.ax_.set_title(self._verdict(), fontsize="medium")
        return self

    def _bar(self, line: float, ends: NDArray, style: dict):
        mean, low, high = ends[:, None]
        bars = reach(mean, np.stack([low, high], axis=1))
        return self.ax_.errorbar(mean, [line], xerr=bars, **style)

    def _verdict(self) -> str:
        """Δ with its bound, and what follows from it."""
        mean, low, high = (_signed(x) for x in self.difference)
        if self.upper is None or self.margin is None:
            return f"Δ = {mean} ({low} to {high})"
        verdict = "non-inferior"
        if self.upper >= self.margin:
            verdict = "not shown to be non-inferior"
        return f"Δ = {mean}, at most {_signed(self.upper)}: {verdict} at {self.margin:g}"


def _signed(x: float) -> str:
    return f"{x:.3f}".replace("-", "−")
