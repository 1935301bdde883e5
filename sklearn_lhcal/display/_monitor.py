"""Calibration over time: the e-values of a monitor, and when they crossed the threshold."""

from typing import Self

import numpy as np

from ..metrics import CalibrationMonitor
from ._base import DOTTED, WIDE, Axes, Display, look_of, styled

_NAMES = ("class means", "disagreement")
# decades around e-value 1 that are shown at most
_LOWEST, _HIGHEST = -5.0, 10.0


class MonitorDisplay(Display):
    """Evidence against a model over time: the e-values of a `CalibrationMonitor`.

    ``MonitorDisplay(monitor).plot()`` draws what it has seen so far. One line is of the class
    means, the other of predicted disagreement. The dotted line is the threshold, 1/α or the mean
    run. A circle marks the sample of an alarm; the line may fall again, the alarm stays. Without
    two labels of any sample the line of disagreement stays at 1, and that of a detector is not
    drawn. The axis ends five decades below 1 and ten above.

    Parameters
    ----------
    result : CalibrationMonitor

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        Both e-values.
    alarms_ : list of matplotlib Line2D
        The circles, of the alarms that there were.
    threshold_ : matplotlib Line2D
        The dotted line.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    See Also
    --------
    sklearn_lhcal.metrics.CalibrationMonitor : The numbers that are drawn.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(1000, overconfidence=2.0, random_state=0)
    >>> monitor = CalibrationMonitor().update(data.counts, data.prediction)
    >>> MonitorDisplay(monitor).plot().threshold_.get_label()
    'threshold 20'
    """

    result: CalibrationMonitor

    def __init__(self, result: CalibrationMonitor) -> None:
        if not isinstance(result, CalibrationMonitor):
            raise ValueError(f"result must be a CalibrationMonitor, got {type(result).__name__}.")
        super().__init__(result)

    def plot(self, ax: "Axes | None" = None, *, line_kwargs: dict | None = None) -> Self:
        """Draw both e-values, the threshold, and the alarms.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        line_kwargs : dict, optional
            Passed on to matplotlib's `plot`, of both lines.

        Returns
        -------
        display
            Itself, with its artists.
        """
        self._take_axes(ax, WIDE)
        self.lines_, self.alarms_ = [], []
        monitor = self.result
        sample, *paths = monitor.history
        top = np.log10(monitor.threshold)
        alarms = (monitor.alarm, monitor.disagreement_alarm)
        for i, (name, path, alarm) in enumerate(zip(_NAMES, paths, alarms, strict=True)):
            style = styled(line_kwargs, linewidth=1.6, label=name, **look_of(i))
            self.lines_ += self.ax_.plot(sample, path / np.log(10), **style)
            if alarm is not None:
                circle = {"color": look_of(i)["color"], "marker": "o", "linestyle": "none"}
                label = f"alarm at sample {alarm:,}"
                self.alarms_ += self.ax_.plot([alarm], [top], label=label, **circle)
        label = f"threshold {monitor.threshold:,.0f}"
        self.threshold_ = self.ax_.axhline(top, zorder=1, label=label, **DOTTED)
        low, high = self.ax_.get_ylim()
        self.ax_.set(
            xlabel="Number of labelled samples",
            ylabel=r"$\log_{10}$ of the e-value",
            ylim=(max(low, _LOWEST), min(high, max(_HIGHEST, top + 1))),
        )
        self._draw_legend()
        return self
