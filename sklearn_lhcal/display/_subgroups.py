"""For whom the probabilities are wrong: mean errors of subgroups with simultaneous limits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .._rows import PredictionLike
from .._utils.checks import checked
from .._utils.types import ArrayLike, LabelsLike
from ..metrics import subgroup_audit
from ._base import DOTTED, WIDE, Axes, PredictionDisplay, color_of, reach, styled

# a subgroup's line in inches, the least number of them, and what the axis needs
_LINE = 0.28
_FEWEST = 5
_AXIS = 1.3


@dataclass(eq=False, repr=False)
class SubgroupDisplay(PredictionDisplay):
    """Subgroups on one axis: how far the mean prediction of a class is from the mean label share.

    Make it with `from_predictions` or `from_estimator`. A dot on the right of the dotted line says
    that the model predicts the class too often in this subgroup, on the left too rarely. Limits
    hold for all subgroups and classes together, see `sklearn_lhcal.metrics.subgroup_audit`. Those
    that leave 0 out are filled. The number of samples stands behind the name.

    Parameters
    ----------
    names : list
        The subgroups, in the order that they are drawn, from the top.
    estimate : array-like of shape (n_subgroups,)
        Mean of ``z − μ̂``, of one class.
    interval : array-like of shape (n_subgroups, 2)
        Its simultaneous limits.
    n : array-like of shape (n_subgroups,)
        Samples of each subgroup.
    class_name
        What the class is called.
    p_value : float
        Of the hypothesis that the predictions are calibrated in all subgroups.
    confidence_level : float, default=0.95
        Level of the limits.

    Attributes
    ----------
    figure_, ax_
        Figure and axes.
    calibrated_, wrong_ : ErrorbarContainer
        Subgroups whose limits hold 0, and the others.
    reference_ : Line2D
        The dotted line.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> from sklearn_lhcal.display import SubgroupDisplay
    >>> data = make_label_histograms(200, random_state=0)
    >>> site = np.where(np.arange(200) % 2, "north", "south")
    >>> display = SubgroupDisplay.from_predictions(data.counts, data.proba, {"site": site})
    >>> display.names
    ['site=north', 'site=south']
    """

    names: list
    estimate: NDArray
    interval: NDArray
    n: NDArray
    class_name: object
    p_value: float
    confidence_level: float = 0.95

    @classmethod
    @checked
    def from_predictions(
        cls,
        y: LabelsLike,
        prediction: PredictionLike,
        subgroups: ArrayLike | Mapping,
        *,
        class_name: object = None,
        ax: "Axes | None" = None,
        dot_kwargs: dict | None = None,
        **options: Any,
    ) -> Self:
        """Of class probabilities.

        Parameters
        ----------
        y, prediction, subgroups
            As in `sklearn_lhcal.metrics.subgroup_audit`.
        class_name : optional
            The class to show, a column number where there are no names; None: the one that stands
            out most.
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        dot_kwargs : dict, optional
            Passed on to matplotlib's `errorbar`.
        **options
            As in `sklearn_lhcal.metrics.subgroup_audit`.

        Returns
        -------
        SubgroupDisplay

        Raises
        ------
        ValueError
            As in `sklearn_lhcal.metrics.subgroup_audit`; an unknown class.
        """
        audit = subgroup_audit(y, prediction, subgroups, **options)
        shown = audit.worst[1] if class_name is None else class_name
        if shown not in audit.frame.index.unique("class"):
            raise ValueError(f"class_name={class_name!r} is none of the classes.")
        frame = audit.frame.xs(shown, level="class")
        return cls(
            frame.index.tolist(),
            frame.estimate.to_numpy(),
            frame[["low", "high"]].to_numpy(),
            frame.n.to_numpy(),
            shown,
            audit.p_value,
            audit.confidence_level,
        ).plot(ax, dot_kwargs=dot_kwargs)

    def plot(self, ax: "Axes | None" = None, *, dot_kwargs: dict | None = None) -> Self:
        """Draw the subgroups, the first at the top.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        dot_kwargs : dict, optional
            Passed on to matplotlib's `errorbar`.

        Returns
        -------
        display
            Itself, with its artists.
        """
        G = len(self.names)
        self._take_axes(ax, (WIDE[0], _AXIS + _LINE * max(G, _FEWEST)))
        low, high = self.interval.T
        wrong = (low > 0) | (high < 0)
        self.calibrated_ = self._dots(~wrong, 0, "white", dot_kwargs)
        self.wrong_ = self._dots(wrong, 1, color_of(1), dot_kwargs)
        self.reference_ = self.ax_.axvline(0, zorder=0, **DOTTED)
        self.ax_.set(
            xlabel=f"Predicted too rarely (−) or too often (+), {self._level} limits",
            ylim=(G - 0.4, -0.6),
            yticks=np.arange(G),
        )
        labels = (f"{name} ({n})" for name, n in zip(self.names, self.n, strict=True))
        self.ax_.set_yticklabels(labels)
        title = f"class {self.class_name}; H0: all subgroups calibrated, p = {self.p_value:.2g}"
        self.ax_.set_title(title, fontsize="medium")
        return self

    def _dots(self, which: NDArray, color: int, face: str, own: dict | None):
        style = {"fmt": "o", "capsize": 3, "color": color_of(color), "markerfacecolor": face}
        mean = self.estimate[which]
        lines = np.flatnonzero(which)
        bars = reach(mean, self.interval[which])
        return self.ax_.errorbar(mean, lines, xerr=bars, **styled(own, **style))
