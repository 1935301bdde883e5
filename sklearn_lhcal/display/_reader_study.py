"""Readers against the truth: each under two conditions, their means, and a model alone."""

from typing import Any, Self

import numpy as np

from .._rows import Readings
from ..metrics import ReaderStudy, reader_study
from ._base import DOTTED, Axes, Display, _taken, look_of, reach, styled

# inches, and of the distance of two conditions what means stand beside
_SIZE, _BESIDE = (5, 4.5), 0.12


class ReaderStudyDisplay(Display):
    """Readers under each condition, with their means: AUC, sensitivity or specificity.

    It draws the result of `reader_study`, which `from_readings` calls. A line is a reader, from the
    second compared condition to the first; those who got worse are dashed. Diamonds are the means
    over readers, with intervals. The dotted line is a model, or another reader alone, in the
    band of its interval. The title gives the difference.

    Parameters
    ----------
    result : ReaderStudy

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        Readers.
    means_ : matplotlib ErrorbarContainer
        Means of conditions with several readers.
    references_, bands_ : list of matplotlib Line2D, of matplotlib Patch
        Conditions with one reader, with their intervals.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    legend_ : matplotlib Legend

    See Also
    --------
    sklearn_lhcal.metrics.reader_study : The numbers that are drawn.

    Examples
    --------
    >>> from sklearn_lhcal.label_histogram import Readings
    >>> rng = np.random.default_rng(0)
    >>> truth = np.repeat([0, 1], 40)
    >>> case = truth + rng.normal(size=80)
    >>> unaided, aided = (case[:, None] + s * rng.normal(size=(80, 6)) for s in (1.5, 0.5))
    >>> readings = Readings.from_matrix(truth, {"unaided": unaided, "aided": aided})
    >>> display = ReaderStudyDisplay.from_readings(readings, compare=("aided", "unaided"))
    >>> len(display.lines_)
    6
    """

    result: ReaderStudy

    @classmethod
    def from_readings(cls, readings: Readings, *, ax: "Axes | None" = None, **options: Any) -> Self:
        """Compute the result, and draw it.

        Parameters
        ----------
        readings : Readings
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        **options
            Those of `reader_study`, and those of `plot`.

        Returns
        -------
        display
            With the `result`.

        Raises
        ------
        ValueError
            As `reader_study`.
        """
        style = _taken(options, cls.plot)
        return cls(reader_study(readings, **options)).plot(ax, **style)

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        reader_kwargs: dict | None = None,
        mean_kwargs: dict | None = None,
    ) -> Self:
        """Draw readers, their means, and who is alone under a condition.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        reader_kwargs, mean_kwargs : dict, optional
            Passed on to matplotlib's `plot` (readers) and `errorbar` (means).

        Returns
        -------
        display
            Itself, with its artists.
        """
        self._take_axes(ax, _SIZE)
        study = self.result
        names = [*study.values]
        n_readers = np.isfinite(study.reader_values).sum(axis=0)
        # the old condition is compared second, and stands on the left
        at = np.flatnonzero(n_readers > 1)[:: -1 if study.compare else 1]
        x = np.arange(len(at))
        each = study.reader_values[:, at]
        self.lines_ = []
        for of_reader in each[np.isfinite(each).any(axis=1)]:
            worse = bool(study.compare) and of_reader[-1] < of_reader[0]
            look = {"marker": "o", "markersize": 3, "linewidth": 1} | look_of(int(worse))
            self.lines_ += self.ax_.plot(x, of_reader, **styled(reader_kwargs, **look))
        ends = np.reshape([study.values[names[i]][:3] for i in at], (-1, 3))
        beside = x + _BESIDE * np.where(x > 0, 1, -1)
        bars = beside, ends[:, 0], reach(ends[:, 0], ends[:, 1:])
        label = f"mean, {self._level} interval"
        style = styled(mean_kwargs, fmt="D", capsize=3, color="black", label=label)
        self.means_ = self.ax_.errorbar(*bars, **style)
        self.references_, self.bands_ = [], []
        grey = {"color": "0.5", "alpha": 0.15, "linewidth": 0}
        for name in [names[i] for i in np.flatnonzero(n_readers == 1)]:
            one = study.values[name]
            label = f"{name}, {self._level} interval"
            self.references_.append(self.ax_.axhline(one.estimate, label=label, **DOTTED))
            self.bands_.append(self.ax_.axhspan(one.low, one.high, **grey))
        metric = {"auc": "AUC"}.get(study.metric, study.metric)
        self.ax_.set(ylabel=metric, xticks=x, xlim=(-0.4, max(len(x) - 0.6, 0.4)))
        self.ax_.set_xticklabels([names[i] for i in at])
        self.ax_.set_title(_title(study), fontsize="medium")
        self._draw_legend()
        return self


def _title(study: ReaderStudy) -> str:
    """The difference with its interval, p-value and verdict."""
    if study.difference is None or study.compare is None:
        return ""
    estimate, low, high, _ = study.difference
    new, old = study.compare
    text = f"{new} minus {old}\n{estimate:.3f} ({low:.3f} to {high:.3f}), p = {study.p_value:.2g}"
    if study.margin is not None:
        verdict = "non-inferior" if study.non_inferior else "not shown to be non-inferior"
        text += f"\n{verdict} at {study.margin:g}"
    return text.replace("-0", "−0")
