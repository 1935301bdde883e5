"""For whom the probabilities are wrong: mean errors and slopes of subgroups, with their limits."""

from collections.abc import Hashable
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..metrics import SubgroupAudit, subgroup_audit
from ._base import DOTTED, Axes, PredictionDisplay, color_of, reach, styled

# width of both panels, a subgroup's line, the least number of them, and what the axis needs
_WIDTH = 7.5
_LINE = 0.28
_FEWEST = 5
_AXIS = 1.5


class SubgroupDisplay(PredictionDisplay):
    """Subgroups side by side: how often a class is predicted, and how extreme probabilities are.

    It draws the result of `subgroup_audit`, which `from_predictions` calls. The left panel shows
    how far the mean prediction of a class is from its mean label share. A dot on the right of the
    dotted line says that the model predicts the class too often in this subgroup, on the left too
    rarely. The right panel shows the calibration slope. Below 1 the model is overconfident in this
    subgroup, above 1 underconfident. Limits hold for all subgroups, classes and slopes together.
    Those that leave the dotted line out are filled. The number of samples stands behind the name.

    Parameters
    ----------
    result : SubgroupAudit

    Attributes
    ----------
    figure_, ax_
        Figure and axes, an array of two for both panels.
    calibrated_, wrong_ : tuple of ErrorbarContainer
        Subgroups whose limits hold the dotted line, and the others; one for each panel.
    reference_ : tuple of Line2D
        The dotted lines.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> from sklearn_lhcal.display import SubgroupDisplay
    >>> data = make_label_histograms(200, random_state=0)
    >>> site = np.where(np.arange(200) % 2, "north", "south")
    >>> display = SubgroupDisplay.from_predictions(data.counts, data.proba, {"site": site})
    >>> [label.get_text() for label in display.ax_[0].get_yticklabels()]
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
        ax : matplotlib Axes or array of two, optional
            None makes a figure of two panels; a single Axes gets the left one alone.
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
        # of classes that stand out alike the last, as the second of two
        largest = np.abs(audit.columns["statistic"]).max(axis=0).round(9)
        shown = audit.classes[~largest[::-1].argmax()] if class_name is None else class_name
        if shown not in audit.classes:
            raise ValueError(f"class_name={class_name!r} is none of the classes.")
        k = audit.classes.index(shown)
        of_means = [audit.columns[name][:, k] for name in ("estimate", "low", "high")]
        of_slopes = [audit.columns[name][:, 0] for name in ("slope", "slope_low", "slope_high")]
        G = len(audit.subgroups)
        panels = self._take_axes(ax, (_WIDTH, _AXIS + _LINE * max(G, _FEWEST)), n_panels=2)
        each = zip(panels, (of_means, of_slopes), (0, 1), strict=False)
        artists = [
            _draw_dots(panel, np.transpose(ends), at, dot_kwargs) for panel, ends, at in each
        ]
        self.calibrated_, self.wrong_, self.reference_ = zip(*artists, strict=True)
        sizes = zip(audit.subgroups, audit.columns["n"][:, 0], strict=True)
        panels[0].set_yticklabels([f"{name} ({n})" for name, n in sizes])
        title = f"class {shown}; H0: all subgroups calibrated, p = {audit.p_value:.2g}"
        panels[0].set_title(title, fontsize="medium")
        panels[0].set_xlabel(f"Predicted too rarely (−)\nor too often (+), {self._level} limits")
        if len(panels) > 1:
            # limits may be as far as 20
            slope, high = np.nan_to_num(of_slopes, nan=1.0)[[0, 2]]
            panels[1].set(xlim=(0, min(1.05 * high.max(), 2 * max(slope.max(), 1))), yticklabels=[])
            panels[1].set_xlabel("Slope: overconfident (< 1)\nor underconfident (> 1)")
        return self


def _draw_dots(ax, ends: NDArray, at: float, own: dict | None) -> tuple:
    """Dots with limits of G subgroups (G, 3), filled where these leave `at` out; and its line."""
    wrong = (ends[:, 1] > at) | (ends[:, 2] < at)
    drawn = []
    for which, color, face in ((~wrong, color_of(0), "white"), (wrong, color_of(1), color_of(1))):
        style = {"fmt": "o", "capsize": 3, "color": color, "markerfacecolor": face}
        mean = ends[which, 0]
        bars = reach(ends[which, 0], ends[which, 1:])
        drawn.append(ax.errorbar(mean, np.flatnonzero(which), xerr=bars, **styled(own, **style)))
    ax.set(ylim=(len(ends) - 0.4, -0.6), yticks=np.arange(len(ends)))
    return *drawn, ax.axvline(at, zorder=0, **DOTTED)
