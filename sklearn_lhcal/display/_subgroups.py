"""For whom the probabilities are wrong: mean errors of subgroups with simultaneous limits."""

from collections.abc import Hashable
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..metrics import SubgroupAudit, subgroup_audit
from ._base import DOTTED, WIDE, Axes, PredictionDisplay, color_of, reach, styled

# a subgroup's line in inches, the least number of them, and what the axis needs
_LINE = 0.28
_FEWEST = 5
_AXIS = 1.3


class SubgroupDisplay(PredictionDisplay):
    """Subgroups on one axis: how far the mean prediction of a class is from the mean label share.

    It draws the result of `subgroup_audit`, which `from_predictions` calls. A dot on the right of
    the dotted line says that the model predicts the class too often in this subgroup, on the left
    too rarely. Limits hold for all subgroups and classes together. Those that leave 0 out are
    filled. The number of samples stands behind the name.

    Parameters
    ----------
    result : SubgroupAudit

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
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['site=north (100)', 'site=south (100)']
    """

    result: SubgroupAudit
    analysis = staticmethod(subgroup_audit)

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        class_name: Hashable = None,
        dot_kwargs: dict | None = None,
    ) -> Self:
        """Draw the subgroups, the first at the top.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        class_name : optional
            The class to show, a column number where there are no names; None: the one that stands
            out most.
        dot_kwargs : dict, optional
            Passed on to matplotlib's `errorbar`.

        Returns
        -------
        display
            Itself, with its artists.

        Raises
        ------
        ValueError
            An unknown class.
        """
        audit = self.result
        shown = audit.worst[1] if class_name is None else class_name
        if shown not in audit.classes:
            raise ValueError(f"class_name={class_name!r} is none of the classes.")
        k = audit.classes.index(shown)
        ends = np.column_stack([audit.columns[x][:, k] for x in ("estimate", "low", "high")])
        G = len(ends)
        self._take_axes(ax, (WIDE[0], _AXIS + _LINE * max(G, _FEWEST)))
        wrong = (ends[:, 1] > 0) | (ends[:, 2] < 0)
        self.calibrated_ = self._dots(ends, ~wrong, dot_kwargs, color_of(0), "white")
        self.wrong_ = self._dots(ends, wrong, dot_kwargs, color_of(1), color_of(1))
        self.reference_ = self.ax_.axvline(0, zorder=0, **DOTTED)
        self.ax_.set(
            xlabel=f"Predicted too rarely (−) or too often (+), {self._level} limits",
            ylim=(G - 0.4, -0.6),
            yticks=np.arange(G),
        )
        sizes = zip(audit.subgroups, audit.columns["n"][:, 0], strict=True)
        self.ax_.set_yticklabels([f"{name} ({n})" for name, n in sizes])
        title = f"class {shown}; H0: all subgroups calibrated, p = {audit.p_value:.2g}"
        self.ax_.set_title(title, fontsize="medium")
        return self

    def _dots(self, ends: NDArray, which: NDArray, own: dict | None, color: str, face: str):
        style = {"fmt": "o", "capsize": 3, "color": color, "markerfacecolor": face}
        mean, bars = ends[which, 0], reach(ends[which, 0], ends[which, 1:])
        return self.ax_.errorbar(mean, np.flatnonzero(which), xerr=bars, **styled(own, **style))
