"""The gain from more data, beside the gain that an uncertainty estimate predicted."""

from functools import partial
from typing import Any, Self

import numpy as np

from .._rows import labels_for, rated_only
from .._utils.checks import check_samples, checked
from .._utils.estimators import epistemic_estimates
from .._utils.names import check_row_names
from .._utils.types import ArrayLike, Estimator, LabelsLike, Samples
from ..distributions import predict_epistemic
from ..metrics import GainCurve, gain_curve
from ._base import (
    ABOVE_STRIP,
    STRIP_HEIGHT,
    WIDE,
    Axes,
    NamedDisplay,
    color_of,
    draw_band,
    draw_counts,
    styled,
)


class GainCurveDisplay(NamedDisplay):
    """Gain in accuracy and estimates of epistemic uncertainty, by bins of the estimate.

    It draws the result of `gain_curve`, which `from_predictions` calls. A good estimate rises
    together with the gain; a calibrated one lies on it. The histogram below shows how many samples
    are in each bin. The band of one run is an interval for the mean gain of the bin; those of
    several runs are intervals over runs.

    Parameters
    ----------
    result : GainCurve
    name : str, optional
        What the legend calls the estimate.

    Attributes
    ----------
    gain_line_, uncertainty_line_, calibrated_line_ : matplotlib Line2D or None
        Means by bin; None where they are not drawn.
    gain_band_, uncertainty_band_, calibrated_band_ : matplotlib PolyCollection or None
        Intervals; None where there are none.
    histogram_ : matplotlib StepPatch
        Samples in each bin.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    legend_ : matplotlib Legend

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> uncertainty = rng.uniform(0, 0.5, 2000)
    >>> gain = rng.uniform(size=2000) < uncertainty / 2  # half of what was promised
    >>> curve = GainCurveDisplay.from_predictions(
    ...     gain, uncertainty, calibrated=uncertainty / 2, n_bins=4
    ... ).result
    >>> curve.mean_gain.round(2), curve.mean_uncertainty.round(2)
    (array([0.03, 0.09, 0.15, 0.24]), array([0.06, 0.19, 0.31, 0.44]))
    """

    result: GainCurve
    analysis = staticmethod(gain_curve)

    @classmethod
    @checked
    def from_estimator(
        cls,
        estimator: Estimator,
        X: Samples,
        y: LabelsLike,
        *,
        reference_prediction: ArrayLike,
        **options: Any,
    ) -> Self:
        """Display of a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier
            The estimate is its `distributions.predict_epistemic`. For `EpistemicCalibration` it is
            the estimate before calibration; the calibrated one is drawn too.
        X : array-like of shape (n_samples, ...)
            Features of the samples.
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes. Named labels meet the estimator's classes by name.
        reference_prediction : array-like of shape (n_samples,)
            Labels predicted with more data, by `model_selection.cross_val_predict` say.
        **options
            As in `from_predictions`: `groups`, `raters`, `n_bins`, `strategy`, `confidence_level`,
            `ax`, `name` and those of `plot`.

        Returns
        -------
        GainCurveDisplay

        Raises
        ------
        ValueError
            As `gain_curve`.
        """
        groups = options.get("groups")
        check_row_names(y=y, reference_prediction=reference_prediction, groups=groups)
        y, X, reference_prediction, groups = rated_only(y, X, reference_prediction, groups)
        labels = labels_for(estimator, y), estimator.predict(check_samples(X)), reference_prediction
        both = epistemic_estimates(estimator, X)
        uncertainty, options["calibrated"] = both or (predict_epistemic(estimator, X), None)
        options = cls._named(estimator, options) | {"groups": groups}
        return cls.from_predictions(None, uncertainty, labels=labels, **options)

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        name: str | None = None,
        plot_uncertainty: bool = True,
        gain_kwargs: dict | None = None,
        uncertainty_kwargs: dict | None = None,
        calibrated_kwargs: dict | None = None,
        band_kwargs: dict | None = None,
        histogram_kwargs: dict | None = None,
    ) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        name : str, optional
            What the legend calls the estimate; None: the `name` that the display was made with.
        plot_uncertainty : bool, default=True
            Whether to draw the estimate itself: an entropy may be far above the rest.
        gain_kwargs, uncertainty_kwargs, calibrated_kwargs : dict, optional
            Passed on to matplotlib's `plot`: the three lines.
        band_kwargs, histogram_kwargs : dict, optional
            Passed on to matplotlib's `fill_between` (bands) and `stairs` (samples in each bin).

        Returns
        -------
        display
            Itself, with its artists.
        """
        self._take_axes(ax, WIDE)
        curve = self.result
        name = (self.name if name is None else name) or "estimate"
        estimate = curve.mean_uncertainty if plot_uncertainty else None
        gain = styled(gain_kwargs, label="gain in accuracy", color=color_of(1), marker="o")
        raw = styled(uncertainty_kwargs, label=name, color=color_of(0), marker="s")
        name = f"{name}, calibrated"
        other = styled(calibrated_kwargs, label=name, color=color_of(3), marker="^")
        draw = partial(self._draw, band_kwargs)
        self.gain_line_, self.gain_band_ = draw(curve.mean_gain, gain, curve.interval)
        self.uncertainty_line_, self.uncertainty_band_ = draw(
            estimate, raw, curve.uncertainty_interval
        )
        self.calibrated_line_, self.calibrated_band_ = draw(
            curve.mean_calibrated, other, curve.calibrated_interval
        )
        self.ax_.axhline(0, color="0.35", linewidth=0.8, zorder=1)
        last = len(curve.mean_gain) + 0.5
        self.ax_.set(xlabel="Bin of the estimate, in ascending order", xlim=(0.5, last))
        self.ax_.set_ylabel("Mean in the bin (probability; entropies in nats)", y=ABOVE_STRIP)
        # the numbers of samples, below room that is made for them
        low, high = self.ax_.get_ylim()
        self.ax_.set_yticks([tick for tick in self.ax_.get_yticks() if low <= tick <= high])
        self.ax_.set_ylim(low - (high - low) * STRIP_HEIGHT / (1 - STRIP_HEIGHT), high)
        edges = np.arange(len(curve.bin_counts) + 1) + 0.5
        bars = styled(histogram_kwargs, color="0.5")
        self.histogram_ = draw_counts(self.ax_, "samples", curve.bin_counts, edges, bars)
        title = f"band: {self._level} intervals"
        if curve.n_runs > 1:
            title = f"bands: {self._level} intervals over {curve.n_runs} runs"
        self._draw_legend(title, loc="upper left")
        return self

    def _draw(self, band_kwargs: dict | None, mean, style: dict, interval):
        """The line of one quantity and its band, where there are such."""
        if mean is None:
            return None, None
        x = np.arange(len(mean)) + 1
        (line,) = self.ax_.plot(x, mean, **styled(style, markersize=4, linewidth=1.4))
        if interval is None:
            return line, None
        return line, draw_band(self.ax_, x, interval, line, band_kwargs, alpha=0.18)
