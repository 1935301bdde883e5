"""A model among the readers: how often each disagrees with another reader."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .._utils.distances import is_linear
from ..metrics import JudgeTable, RaterComparison, rater_comparison
from ._base import DOTTED, WIDE, Axes, NamedDisplay, color_of, reach, styled

_MODEL = color_of(1)
_READERS = color_of(0)
# lines of the figure in inches, the least of them, and what the axis needs
_LINE = 0.32
_FEWEST = 8
_AXIS = 1.4


class RaterDisplay(NamedDisplay):
    """A model and each reader on one axis: how often a reader disagrees with them.

    It draws the result of `rater_comparison`, which `from_predictions` calls. The uppermost line is
    the model, or each of several. The next is "one more rater": how often two readers disagree.
    Below it stands each reader, by how often the others disagree with her. The dotted line marks
    the value of one more rater.

    **Intervals.** Those of the model and of one more rater are for new readers and new samples,
    see `confidence_interval`. They share samples and readers, so whether they overlap says little.
    The title gives their difference Δ and where its interval ends. Those of single readers are for
    these readers and new samples, and hold for all of them together.

    Parameters
    ----------
    result : RaterComparison or JudgeTable
    name : str, optional
        What the model is called; None: "model". Models of a dict have names.

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
    >>> display.result.non_inferior
    True
    """

    result: RaterComparison | JudgeTable
    analysis = staticmethod(rater_comparison)

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        reader_kwargs: dict | None = None,
        model_kwargs: dict | None = None,
    ) -> Self:
        """Draw the model, one more rater, and each reader.

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
        models: dict[str, Any] = {self.name or "model": self.result}
        if isinstance(self.result, JudgeTable):
            models = self.result.comparisons
        each = next(iter(models.values()))
        readers = each.readers
        # from the best on; those who share no samples with others are left out
        order = np.argsort(readers.error, kind="stable")
        order = order[np.isfinite(readers.error[order])]
        # lines of the models, of one more rater, and of the readers
        R, J = len(order), len(models)
        lines = np.arange(R) + J + 1.5
        self._take_axes(ax, (WIDE[0], _AXIS + _LINE * max(R + J + 1, _FEWEST)))
        shared = {"fmt": "o", "capsize": 3}
        of_models = styled(model_kwargs, color=_MODEL, **shared)
        self.model_ = self._bars(
            np.arange(J), np.array([m.model_error[:3] for m in models.values()]), of_models
        )
        mean = {"fmt": "D", "capsize": 3, "color": _READERS}
        self.reader_ = self._bars([J], np.array([each.reader_error[:3]]), mean)
        style = {"markersize": 4, "elinewidth": 1, "markerfacecolor": "white"}
        style = styled(reader_kwargs, color=_READERS, **shared, **style)
        ends = np.column_stack([readers.error, readers.error_interval])[order]
        self.readers_ = self._bars(lines, ends, style)
        self.reference_ = self.ax_.axvline(each.reader_error.estimate, zorder=0, **DOTTED)
        self.ax_.set(
            xlabel=f"{_in_words(each)} ({self._level} intervals)",
            ylim=(R + J + 1.2, -0.7),
            yticks=[*range(J + 1), *lines],
        )
        self.ax_.set_yticklabels([*models, "one more rater", *readers.raters[order].tolist()])
        title = "\n".join(f"{name}: {_verdict(of)}" for name, of in models.items())
        self.ax_.set_title(title if J > 1 else _verdict(each), fontsize="medium")
        return self

    def _bars(self, lines, ends: NDArray, style: dict):
        """Estimates with their intervals, (m, 3)."""
        return self.ax_.errorbar(ends[:, 0], lines, xerr=reach(ends[:, 0], ends[:, 1:]), **style)


def _in_words(comparison: RaterComparison) -> str:
    """What the errors are: probabilities that a reader disagrees, or halves of a mean distance."""
    if comparison.distance is None:
        return "Probability that a reader disagrees"
    squares = "steps" if is_linear(comparison.distance) else "squared distance"
    return f"Half of the mean {squares} from a reader"


def _verdict(comparison: RaterComparison) -> str:
    """Δ with its bound, and what follows from it."""
    verdict = "non-inferior" if comparison.non_inferior else "not shown to be non-inferior"
    mean = _signed(comparison.difference.estimate)
    upper = _signed(comparison.difference.high)
    return f"Δ = {mean}, at most {upper}: {verdict} at {comparison.margin:g}"


def _signed(x: float) -> str:
    return f"{x:.3f}".replace("-", "−")
