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
from ..metrics import JudgeTable, rater_comparison
from ._base import DOTTED, WIDE, Axes, PredictionDisplay, color_of, reach, styled

_MODEL = color_of(1)
_READERS = color_of(0)
_ERROR = "Probability that a reader disagrees"
# lines of the figure in inches, the least of them, and what the axis needs
_LINE = 0.32
_FEWEST = 8
_AXIS = 1.4


@dataclass(eq=False, repr=False)
class RaterDisplay(PredictionDisplay):
    """A model and each reader on one axis: how often a reader disagrees with them.

    Make it with `from_predictions` or `from_estimator`. The uppermost line is the model, or each
    of several. The next is "one more reader": how often two readers disagree. Below it stands each
    reader, by how often the others disagree with her. The dotted line marks the value of one more
    reader.

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
        Estimate and both ends, of the model, of one more reader, and of Δ. Of several models the
        first and the last have shape (n_models, 3).
    confidence_level : float, default=0.95
        Level of the intervals.
    upper : float or array-like of shape (n_models,), optional
        One-sided upper bound of Δ.
    margin : float, optional
        The difference that does not matter: the model is non-inferior where `upper` is below.
    name : str or list of str, optional
        What the model, or each of several, is called.
    what : str, optional
        What the errors are: probabilities that a reader disagrees, or halves of a mean distance.

    Attributes
    ----------
    readers_ : matplotlib ErrorbarContainer
        Each reader.
    reader_ : matplotlib ErrorbarContainer
        One more reader.
    model_ : matplotlib ErrorbarContainer
        The model, or all of them.
    reference_ : matplotlib Line2D
        The dotted line.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    See Also
    --------
    sklearn_lhcal.metrics.rater_comparison : The numbers that are drawn.

    Examples
    --------
    >>> from sklearn_lhcal.label_histogram import Annotations
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(2, size=(300, 1))
    >>> said = np.where(rng.random((300, 6)) < 0.8, truth, 1 - truth)
    >>> y = Annotations.from_matrix(said[:, :5], raters=["Ann", "Bob", "Cem", "Dee", "Eve"])
    >>> display = RaterDisplay.from_predictions(y, said[:, 5], margin=0.1, random_state=0)
    >>> bool(display.upper < display.margin)
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
    upper: float | NDArray | None = None
    margin: float | None = None
    name: str | list[str] | None = None
    what: str = _ERROR

    @classmethod
    @checked
    def from_predictions(
        cls,
        y: Annotations,
        prediction: PredictionLike | Mapping[str, PredictionLike],
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
        prediction : array-like of shape (n_samples, ...), Distribution or dict
            As in `sklearn_lhcal.metrics.rater_comparison`. A dict holds several models, or judges,
            by their names; readers are the same beside all of them.
        distance, sample_weight, groups, raters, confidence_level, n_blocks, random_state
            As in `sklearn_lhcal.metrics.rater_comparison`.
        margin : float, default=0.0
            The difference of probabilities that does not matter, for the verdict; with a distance
            that of its halves.
        name : str, optional
            What the model is called; None: "model". Models of a dict have names.
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        **plot_kwargs
            Passed on to `plot`.

        Returns
        -------
        RaterDisplay

        Raises
        ------
        ValueError
            As in `sklearn_lhcal.metrics.rater_comparison`.
        """
        found = rater_comparison(
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
        names: str | list[str] | None = name
        if isinstance(found, JudgeTable):
            models, names = list(found.comparisons.values()), list(found.comparisons)
        else:
            models = [found]
        model_error = [one.model_error[:3] for one in models]
        difference = [one.difference[:3] for one in models]
        each = models[0].readers
        # from the best on; those who share no samples with others are left out
        order = np.argsort(each.error, kind="stable")
        order = order[np.isfinite(each.error[order])]
        return cls(
            each.raters[order].tolist(),
            each.error[order],
            each.error_interval[order],
            np.squeeze(model_error),
            np.array(models[0].reader_error[:3]),
            np.squeeze(difference),
            confidence_level=confidence_level,
            upper=np.squeeze([one.upper for one in models]),
            margin=models[0].margin,
            name=names,
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
        # lines of the models, of one more reader, and of the readers
        models = np.reshape(self.model_error, (-1, 3))
        R, J = len(self.names), len(models)
        lines = np.arange(R) + J + 1.5
        self._take_axes(ax, (WIDE[0], _AXIS + _LINE * max(R + J + 1, _FEWEST)))
        shared = {"fmt": "o", "capsize": 3}
        of_models = styled(model_kwargs, color=_MODEL, **shared)
        self.model_ = self._bars(np.arange(J), models, of_models)
        mean = {"fmt": "D", "capsize": 3, "color": _READERS}
        self.reader_ = self._bars([J], self.reader_error[None], mean)
        style = {"markersize": 4, "elinewidth": 1, "markerfacecolor": "white"}
        each = styled(reader_kwargs, color=_READERS, **shared, **style)
        self.readers_ = self._bars(lines, np.column_stack([self.error, self.interval]), each)
        self.reference_ = self.ax_.axvline(self.reader_error[0], zorder=0, **DOTTED)
        self.ax_.set(
            xlabel=f"{self.what} ({self._level} intervals)",
            ylim=(R + J + 1.2, -0.7),
            yticks=[*range(J + 1), *lines],
        )
        names = np.ravel("model" if self.name is None else self.name)
        self.ax_.set_yticklabels([*names, "one more reader", *self.names])
        self.ax_.set_title(self._verdicts(names), fontsize="medium")
        return self

    def _bars(self, lines: Any, ends: NDArray, style: dict):
        """Estimates with their intervals, (m, 3)."""
        return self.ax_.errorbar(ends[:, 0], lines, xerr=reach(ends[:, 0], ends[:, 1:]), **style)

    def _verdicts(self, names: NDArray) -> str:
        """Δ of each model with its bound, and what follows from it."""
        differences = np.reshape(self.difference, (-1, 3))
        bounds = [None] * len(names) if self.upper is None else np.ravel(self.upper)
        found = [self._verdict(*pair) for pair in zip(differences, bounds, strict=True)]
        if len(names) == 1:
            return found[0]
        return "\n".join(f"{name}: {one}" for name, one in zip(names, found, strict=True))

    def _verdict(self, difference: NDArray, upper: float | None) -> str:
        mean, low, high = (_signed(x) for x in difference)
        if upper is None or self.margin is None:
            return f"Δ = {mean} ({low} to {high})"
        verdict = "non-inferior"
        if upper >= self.margin:
            verdict = "not shown to be non-inferior"
        return f"Δ = {mean}, at most {_signed(upper)}: {verdict} at {self.margin:g}"


def _signed(x: float) -> str:
    return f"{x:.3f}".replace("-", "−")
