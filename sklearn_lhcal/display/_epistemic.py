"""What more data gains, beside what an estimate of epistemic uncertainty promised."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from .._ground.bins import check_gains, gain_sums
from .._ground.checks import check_fraction
from .._ground.estimators import resolve
from .._ground.names import check_row_names
from .._rows import labels_for
from ..distributions import predict_epistemic
from ..metrics import accuracy_gain
from ._base import STRIP_HEIGHT, WIDE, draw_counts, draw_legend, in_percent, new_axes, strip_axes


class EpistemicGainDisplay:
    """Gain in accuracy and estimates of epistemic uncertainty, by bins of the estimate.

    Make it with `from_estimator` or `from_predictions`. A good estimate rises together with the
    gain; a calibrated one lies on it. The strip below shows, on a logarithmic scale, how many rows
    are in each bin.

    **Bands.** Of one run the band is an interval for the mean gain of the bin: Student's, from the
    spread of the gain within the bin, with one row of the average spread added, so that a bin where
    nothing is gained has a band too. Of several runs (random seeds, say) lines are means over the
    runs, and bands reach one standard deviation to either side.

    Parameters
    ----------
    mean_gain, mean_uncertainty : array-like of shape (n_bins,) or (n_runs, n_bins)
        Mean gain (a difference of probabilities) and mean estimate in each bin.
    mean_calibrated : array-like of the same shape, optional
        Mean calibrated estimate.
    interval : array-like of shape (n_bins, 2), optional
        Interval for the mean gain, of one run.
    bin_counts : array-like of shape (n_bins,), optional
        Number of rows in each bin, of all runs together.
    confidence_level : float, default=0.95
        Of the intervals.
    name : str, optional
        What the legend calls the estimate.

    Attributes
    ----------
    gain_line_, uncertainty_line_, calibrated_line_ : matplotlib Line2D or None
        Means by bin.
    gain_band_, uncertainty_band_, calibrated_band_ : matplotlib PolyCollection or None
        Intervals, or the spread over runs.
    histogram_ : matplotlib StepPatch or None
        Rows in each bin.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    legend_ : matplotlib Legend

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> uncertainty = rng.uniform(0, 0.5, 2000)
    >>> gain = rng.uniform(size=2000) < uncertainty / 2  # half of what was promised
    >>> display = EpistemicGainDisplay.from_predictions(
    ...     gain, uncertainty, calibrated=uncertainty / 2, n_bins=4
    ... )
    >>> display.mean_gain.round(2), display.mean_uncertainty.round(2)
    (array([0.03, 0.09, 0.15, 0.24]), array([0.06, 0.19, 0.31, 0.44]))
    """

    def __init__(
        self,
        mean_gain: ArrayLike,
        mean_uncertainty: ArrayLike,
        mean_calibrated: ArrayLike | None = None,
        *,
        interval: ArrayLike | None = None,
        bin_counts: ArrayLike | None = None,
        confidence_level: float = 0.95,
        name: str | None = None,
    ):
        self.mean_gain = np.asarray(mean_gain)
        self.mean_uncertainty = np.asarray(mean_uncertainty)
        self.mean_calibrated = None if mean_calibrated is None else np.asarray(mean_calibrated)
        self.interval = None if interval is None else np.asarray(interval)
        self.bin_counts = None if bin_counts is None else np.asarray(bin_counts)
        self.confidence_level = confidence_level
        self.name = name

    @classmethod
    def from_predictions(
        cls,
        gain,
        uncertainty,
        *,
        calibrated=None,
        n_bins: int | ArrayLike = 20,
        strategy: str = "quantile",
        confidence_level: float = 0.95,
        name: str | None = None,
        ax=None,
        **plot_kwargs,
    ) -> "EpistemicGainDisplay":
        """Display of gains and estimates, of one run or several.

        Parameters
        ----------
        gain : array-like of shape (n_samples,), or list of such, one a run
            What more data gained, see `metrics.accuracy_gain`.
        uncertainty : array-like of shape (n_samples,), or list of such
            The estimate, which makes the bins of its run.
        calibrated : array-like of shape (n_samples,), or list of such, optional
            The calibrated estimate.
        n_bins : int or array-like of shape (n_edges,), default=20
            Number of bins, or their edges.
        strategy : {"uniform", "quantile"}, default="quantile"
            Bins of equal width on [0, 1], or with equal numbers of rows.
        confidence_level : float, default=0.95
            Of the intervals.
        name : str, optional
            What the legend calls the estimate.
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        **plot_kwargs
            Passed on to `plot`.

        Returns
        -------
        EpistemicGainDisplay

        Raises
        ------
        ValueError
            `confidence_level` outside (0, 1), lengths or numbers of runs that differ, pandas
            objects whose rows are in different orders, runs with different numbers of bins.
        """
        check_fraction(confidence_level=confidence_level)
        runs = [gain, uncertainty] if calibrated is None else [gain, uncertainty, calibrated]
        several = np.ndim(next(iter(gain))) == 1
        runs = runs if several else [[a] for a in runs]
        if len({len(a) for a in runs}) > 1:
            raise ValueError(
                f"gain, uncertainty and calibrated have unequal numbers of runs: {list(map(len, runs))}."
            )
        how = {"n_bins": n_bins, "strategy": strategy, "confidence_level": confidence_level}
        binned = [_binned(*run, **how) for run in zip(*runs, strict=True)]
        if len({len(counts) for counts, *_ in binned}) > 1:
            raise ValueError(
                "Ties of the estimate leave some runs with fewer bins; use fewer bins, or edges."
            )
        counts, interval, *means = (np.array(a) for a in zip(*binned, strict=True))
        shown = {"confidence_level": confidence_level, "name": name}
        if several:
            shown["bin_counts"] = counts.sum(axis=0)
        else:
            shown |= {"bin_counts": counts[0], "interval": interval[0]}
            means = [mean[0] for mean in means]
        return cls(*means, **shown).plot(ax, **plot_kwargs)

    @classmethod
    def from_estimator(
        cls, estimator, X, y, *, reference_prediction, name=None, **kwargs
    ) -> "EpistemicGainDisplay":
        """Display of a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier
            The estimate is `distributions.predict_epistemic`; of `EpistemicCalibration` the one
            that it calibrates, and the calibrated one is drawn too.
        X : array-like of shape (n_samples, ...)
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes; named labels meet the estimator's classes by name.
        reference_prediction : array-like of shape (n_samples,)
            Labels predicted with more data, by `model_selection.cross_val_predict` say.
        name : str, optional
            What the legend calls the estimate; None: the name of the estimator's class.
        **kwargs
            As in `from_predictions`.

        Returns
        -------
        EpistemicGainDisplay

        Raises
        ------
        ValueError
            As `from_predictions` and `metrics.accuracy_gain`.
        """
        check_row_names(y=y, reference_prediction=reference_prediction)
        labels = labels_for(estimator, y)
        gain = accuracy_gain(labels, estimator.predict(X), reference_prediction)
        inner, seen = resolve(estimator, X, "predict_uncalibrated")
        if hasattr(inner, "predict_uncalibrated"):
            kwargs["calibrated"] = inner.predict_epistemic(seen)
            uncertainty = inner.predict_uncalibrated(seen)
        else:
            uncertainty = predict_epistemic(estimator, X)
        name = type(estimator).__name__ if name is None else name
        return cls.from_predictions(gain, uncertainty, name=name, **kwargs)

    def plot(
        self,
        ax=None,
        *,
        name=None,
        plot_uncertainty=True,
        gain_kwargs=None,
        uncertainty_kwargs=None,
        calibrated_kwargs=None,
        band_kwargs=None,
        histogram_kwargs=None,
    ):
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
            Passed on to matplotlib's `fill_between` (bands) and `stairs` (rows in each bin).

        Returns
        -------
        display
            Itself, with its artists.
        """
        self.ax_ = new_axes(WIDE) if ax is None else ax
        self.figure_ = self.ax_.figure
        name = (self.name if name is None else name) or "estimate"
        self.gain_line_, self.gain_band_ = self._draw(
            self.mean_gain, "gain in accuracy", "C3", "o", gain_kwargs, band_kwargs, self.interval
        )
        self.uncertainty_line_ = self.uncertainty_band_ = None
        self.calibrated_line_ = self.calibrated_band_ = None
        if plot_uncertainty:
            self.uncertainty_line_, self.uncertainty_band_ = self._draw(
                self.mean_uncertainty, name, "C0", "s", uncertainty_kwargs, band_kwargs
            )
        if self.mean_calibrated is not None:
            label = f"{name}, calibrated"
            self.calibrated_line_, self.calibrated_band_ = self._draw(
                self.mean_calibrated, label, "C1", "^", calibrated_kwargs, band_kwargs
            )
        self.ax_.axhline(0, color="0.35", linewidth=0.8, zorder=1)
        last = self.mean_gain.shape[-1] + 0.5
        self.ax_.set(xlabel="Bin of the estimate, in ascending order", xlim=(0.5, last))
        quantity = "Mean in the bin (probability; entropies in nats)"
        self.ax_.set_ylabel(quantity, y=(1 + STRIP_HEIGHT) / 2)
        self.histogram_ = None if self.bin_counts is None else self._draw_counts(histogram_kwargs)
        self.legend_ = draw_legend(self.ax_, self._band_in_words(), loc="upper left")
        return self

    def _band_in_words(self) -> str:
        if self.mean_gain.ndim == 2 and len(self.mean_gain) > 1:
            return f"bands: standard deviation of {len(self.mean_gain)} runs"
        return f"band: {in_percent(self.confidence_level)} intervals"

    def _draw(self, values, label, color, marker, style, band_style, interval=None):
        """The line of one quantity, and its band, if any."""
        x = np.arange(1, values.shape[-1] + 1)
        mean = values.mean(axis=0) if values.ndim == 2 else values
        default = {"color": color, "marker": marker, "markersize": 4, "linewidth": 1.4}
        style = default | {"label": label} | (style or {})
        (line,) = self.ax_.plot(x, mean, **style)
        if values.ndim == 2:
            spread = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros_like(mean)
            interval = np.column_stack([mean - spread, mean + spread])
        if interval is None:
            return line, None
        band = {"color": line.get_color(), "alpha": 0.18, "linewidth": 0} | (band_style or {})
        return line, self.ax_.fill_between(x, *interval.T, **band)

    def _draw_counts(self, style):
        low, high = self.ax_.get_ylim()
        self.ax_.set_yticks([tick for tick in self.ax_.get_yticks() if low <= tick <= high])
        self.ax_.set_ylim(low - (high - low) * STRIP_HEIGHT / (1 - STRIP_HEIGHT), high)
        edges = np.arange(len(self.bin_counts) + 1) + 0.5
        style = {"color": "0.6", "alpha": 0.6} | (style or {})
        return draw_counts(strip_axes(self.ax_, "rows"), self.bin_counts, edges, style)


def _binned(
    gain, uncertainty, calibrated=None, *, n_bins, strategy: str, confidence_level: float
) -> list[NDArray]:
    """Of the bins of one run: rows, interval for the gain (B, 2), means of gain and estimates."""
    check_row_names(gain=gain, uncertainty=uncertainty, calibrated=calibrated)
    g, e = check_gains(gain, uncertainty)
    sums = gain_sums(g, e, n_bins, strategy)
    index = sums.bins.index(e[:, None])[:, 0]
    counts = sums.w[0]
    n = np.maximum(counts, 1)
    mean_e, mean_g = (means[0] for means in sums.means())
    squares = np.bincount(index, weights=(g - mean_g[index]) ** 2, minlength=len(counts))
    average = squares.sum() / max(len(g) - (counts > 0).sum(), 1)
    error = np.sqrt((squares + average) / n / n)
    reach = stdtrit(n, (1 + confidence_level) / 2) * error
    interval = np.column_stack([mean_g - reach, mean_g + reach])
    result = [counts.astype(np.int64), interval, mean_g, mean_e]
    if calibrated is not None:
        _, c = check_gains(gain, calibrated)
        total = np.bincount(index, weights=c, minlength=len(counts))
        result.append(total / np.where(counts > 0, counts, np.nan))
    return result
