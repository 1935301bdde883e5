"""The gain from more data, beside the gain that an uncertainty estimate predicted."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import sem
from scipy.stats import t as student

from .._rows import labels_for, rated_only
from .._utils.checks import check_samples, check_values, checked
from .._utils.estimators import resolve
from .._utils.names import check_row_names
from .._utils.types import (
    ArrayLike,
    BinsLike,
    Estimator,
    Groups,
    LabelsLike,
    Raters,
    Samples,
    Strategy,
)
from ..distributions import predict_epistemic
from ..metrics import accuracy_gain, gain_curve
from ._base import (
    ABOVE_STRIP,
    STRIP_HEIGHT,
    WIDE,
    Axes,
    Display,
    color_of,
    draw_band,
    draw_counts,
    draw_legend,
    name_of,
    styled,
)


@dataclass(eq=False, repr=False)
class EpistemicGainDisplay(Display):
    """Gain in accuracy and estimates of epistemic uncertainty, by bins of the estimate.

    Make it with `from_estimator`, `from_labels` or `from_predictions`. A good estimate rises
    together with the gain; a calibrated one lies on it. The strip below shows, on a logarithmic
    scale, how many samples are in each bin.

    **Bands.** For one run the band is Student's interval for the mean gain of the bin, from the
    spread of the gain within the bin. One sample of the average spread is added, so that a bin in
    which nothing is gained has a band too. For several runs (such as random seeds) lines are means
    over the runs, and bands are Student's intervals for these means: other seeds, other data.

    **Raters.** The gain of a sample is the mean of the gains by each of its labels. With
    `Annotations` the band is therefore for new samples and new raters: what raters share is added
    to the variance of the bin, as in `confidence_interval`, with degrees of freedom by
    Satterthwaite. Gains that are given as numbers do not say who labelled, and their bands are for
    these raters.

    Parameters
    ----------
    mean_gain, mean_uncertainty : array-like of shape (n_bins,) or (n_runs, n_bins)
        Mean gain, a difference of probabilities, and mean estimate in each bin: a probability, or
        nats where it is an entropy.
    mean_calibrated : array-like of the same shape, optional
        Mean calibrated estimate, a probability.
    interval : array-like of shape (n_bins, 2), optional
        Interval for the mean gain, of one run.
    bin_counts : array-like of shape (n_bins,), optional
        Number of samples in each bin, of all runs together.
    confidence_level : float, default=0.95
        Level of the intervals.
    name : str, optional
        What the legend calls the estimate.

    Attributes
    ----------
    gain_line_, uncertainty_line_, calibrated_line_ : matplotlib Line2D or None
        Means by bin; None where they are not drawn.
    gain_band_, uncertainty_band_, calibrated_band_ : matplotlib PolyCollection or None
        Intervals; None where there are none.
    histogram_ : matplotlib StepPatch or None
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
    >>> display = EpistemicGainDisplay.from_predictions(
    ...     gain, uncertainty, calibrated=uncertainty / 2, n_bins=4
    ... )
    >>> display.mean_gain.round(2), display.mean_uncertainty.round(2)
    (array([0.03, 0.09, 0.15, 0.24]), array([0.06, 0.19, 0.31, 0.44]))
    """

    mean_gain: NDArray
    mean_uncertainty: NDArray
    mean_calibrated: NDArray | None = None
    _: KW_ONLY
    interval: NDArray | None = None
    bin_counts: NDArray | None = None
    confidence_level: float = 0.95
    name: str | None = None

    @classmethod
    @checked
    def from_predictions(
        cls,
        gain: ArrayLike,
        uncertainty: ArrayLike | Sequence[ArrayLike],
        *,
        calibrated: ArrayLike | None = None,
        groups: Groups = None,
        n_bins: BinsLike = 20,
        strategy: Strategy = "quantile",
        confidence_level: float = 0.95,
        name: str | None = None,
        ax: "Axes | None" = None,
        **plot_kwargs: Any,
    ) -> Self:
        """Display of gains and estimates, of one run or several.

        Parameters
        ----------
        gain : array-like of shape (n_samples,), or list of such, one a run
            What more data gained, see `metrics.accuracy_gain`. These are numbers; `from_labels`
            knows the raters too.
        uncertainty : array-like of shape (n_samples,), or list of such
            The estimate. It makes the bins of its run.
        calibrated : array-like of shape (n_samples,), or list of such, optional
            The calibrated estimate.
        groups : array-like of shape (n_samples,), optional
            Samples of one group (one patient, say) are dependent: intervals take them together. For
            one run; the bands of several are intervals over runs.
        n_bins : int or array-like of shape (n_edges,), default=20
            Number of bins, or their edges.
        strategy : {"uniform", "quantile"}, default="quantile"
            Bins of equal width on [0, 1], or with equal numbers of samples.
        confidence_level : float, default=0.95
            Level of the intervals.
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
            objects whose samples are in different orders, runs with different numbers of bins,
            groups for several runs.
        """
        if gain is None or uncertainty is None:
            raise ValueError(
                "gain and uncertainty must hold a number per sample; one of them is None."
            )
        how: dict = {"n_bins": n_bins, "strategy": strategy}
        how["confidence_level"] = confidence_level
        given: list[Any] = [a for a in (gain, uncertainty, calibrated) if a is not None]
        if not _are_runs(gain):
            run = gain_curve(*given[:2], calibrated=calibrated, groups=groups, **how)
            return cls._of_run(run, confidence_level, name).plot(ax, **plot_kwargs)
        sizes = [len(a) for a in given]
        if len(set(sizes)) > 1:
            raise ValueError(
                f"gain, uncertainty and calibrated have unequal numbers of runs: {sizes}."
            )
        if groups is not None:
            raise ValueError("groups are for one run; the bands of several are over runs.")
        runs = []
        for g, e, *c in zip(*given, strict=True):
            runs.append(gain_curve(g, e, calibrated=c[0] if c else None, **how))
        if len({len(run.bin_counts) for run in runs}) > 1:
            raise ValueError(
                "Ties of the estimate leave some runs with fewer bins; use fewer bins, or edges."
            )
        means: list[Any]
        counts, _, *means = map(np.array, zip(*runs, strict=True))
        of_all = counts.sum(axis=0), None, *means[: len(given)]
        return cls._of_run(of_all, confidence_level, name).plot(ax, **plot_kwargs)

    @classmethod
    @checked
    def from_labels(
        cls,
        y: LabelsLike,
        y_pred: ArrayLike,
        y_reference: ArrayLike,
        uncertainty: ArrayLike,
        *,
        calibrated: ArrayLike | None = None,
        groups: Groups = None,
        raters: Raters = None,
        n_bins: BinsLike = 20,
        strategy: Strategy = "quantile",
        confidence_level: float = 0.95,
        name: str | None = None,
        ax: "Axes | None" = None,
        **plot_kwargs: Any,
    ) -> Self:
        """Display of saved predictions, whose gain is computed from the labels.

        Parameters
        ----------
        y, y_pred, y_reference
            As in `metrics.accuracy_gain`.
        uncertainty, calibrated, groups
            As in `from_predictions`, of one run.
        raters : {"random", "fixed"}, optional
            Whether intervals are for new raters, which needs `Annotations`, or for these. None:
            "random" with `Annotations`, "fixed" with all else.
        n_bins, strategy, confidence_level, name, ax, **plot_kwargs
            As in `from_predictions`.

        Returns
        -------
        EpistemicGainDisplay

        Raises
        ------
        ValueError
            As `from_predictions` and `metrics.accuracy_gain`; fewer than three raters where they
            are random, or labels without raters. Fewer than five bring a warning.
        """
        names = {"calibrated": calibrated, "groups": groups}
        check_row_names(
            y=y, y_pred=y_pred, y_reference=y_reference, uncertainty=uncertainty, **names
        )
        y, pred, reference, uncertainty, calibrated, groups = rated_only(
            y, y_pred, y_reference, uncertainty, calibrated, groups
        )
        run = gain_curve(
            accuracy_gain(y, pred, reference),
            uncertainty,
            labels=(y, pred, reference),
            calibrated=calibrated,
            groups=groups,
            raters=raters,
            n_bins=n_bins,
            strategy=strategy,
            confidence_level=confidence_level,
        )
        return cls._of_run(run, confidence_level, name).plot(ax, **plot_kwargs)

    @classmethod
    def _of_run(cls, run: tuple, confidence_level: float, name: str | None) -> Self:
        """Of the fields of a `GainCurve`."""
        counts, interval, *means = run
        kept: dict = {"interval": interval, "bin_counts": counts, "name": name}
        return cls(*means, confidence_level=confidence_level, **kept)

    @classmethod
    @checked
    def from_estimator(
        cls,
        estimator: Estimator,
        X: Samples,
        y: LabelsLike,
        *,
        reference_prediction: ArrayLike,
        name: str | None = None,
        **kwargs: Any,
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
        name : str, optional
            What the legend calls the estimate; None: the name of the estimator's class.
        **kwargs
            As in `from_labels`: `groups`, `raters`, `n_bins`, `strategy`, `confidence_level`, `ax`
            and those of `plot`.

        Returns
        -------
        EpistemicGainDisplay

        Raises
        ------
        ValueError
            As `from_labels`.
        """
        groups = kwargs.get("groups")
        check_row_names(y=y, reference_prediction=reference_prediction, groups=groups)
        y, X, reference_prediction, groups = rated_only(y, X, reference_prediction, groups)
        labels = labels_for(estimator, y)
        pred = estimator.predict(check_samples(X))
        inner, seen = resolve(estimator, X, "predict_uncalibrated")
        if hasattr(inner, "predict_uncalibrated"):
            kwargs["calibrated"] = inner.predict_epistemic(seen)
            uncertainty = inner.predict_uncalibrated(seen)
        else:
            uncertainty = predict_epistemic(estimator, X)
        kwargs |= {"groups": groups, "name": name_of(estimator, name)}
        return cls.from_labels(labels, pred, reference_prediction, uncertainty, **kwargs)

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
        name = (self.name if name is None else name) or "estimate"
        estimate = self.mean_uncertainty if plot_uncertainty else None
        gain = styled(gain_kwargs, label="gain in accuracy", color=color_of(1), marker="o")
        raw = styled(uncertainty_kwargs, label=name, color=color_of(0), marker="s")
        name = f"{name}, calibrated"
        other = styled(calibrated_kwargs, label=name, color=color_of(3), marker="^")
        draw = partial(self._draw, band_kwargs)
        self.gain_line_, self.gain_band_ = draw(self.mean_gain, gain, self.interval)
        self.uncertainty_line_, self.uncertainty_band_ = draw(estimate, raw)
        self.calibrated_line_, self.calibrated_band_ = draw(self.mean_calibrated, other)
        self.ax_.axhline(0, color="0.35", linewidth=0.8, zorder=1)
        last = self.mean_gain.shape[-1] + 0.5
        self.ax_.set(xlabel="Bin of the estimate, in ascending order", xlim=(0.5, last))
        self.ax_.set_ylabel("Mean in the bin (probability; entropies in nats)", y=ABOVE_STRIP)
        self.histogram_ = self._draw_strip(histogram_kwargs)
        self.legend_ = draw_legend(self.ax_, self._band_in_words(), loc="upper left")
        return self

    def _band_in_words(self) -> str:
        if self.mean_gain.ndim == 2 and len(self.mean_gain) > 1:
            return f"bands: {self._level} intervals over {len(self.mean_gain)} runs"
        return f"band: {self._level} intervals"

    def _draw(self, band_kwargs: dict | None, values, style: dict, interval=None):
        """The line of one quantity and its band, where there are such."""
        if values is None:
            return None, None
        runs = np.atleast_2d(values)
        mean = runs.mean(axis=0)
        x = np.arange(len(mean)) + 1
        (line,) = self.ax_.plot(x, mean, **styled(style, markersize=4, linewidth=1.4))
        if len(runs) > 1:
            t = student.ppf((1 + self.confidence_level) / 2, len(runs) - 1)
            reach = t * sem(runs, axis=0)
            interval = np.column_stack([mean - reach, mean + reach])
        if interval is None:
            return line, None
        return line, draw_band(self.ax_, x, interval, line, band_kwargs, alpha=0.18)

    def _draw_strip(self, own: dict | None):
        """The numbers of rows, below room that is made for them; None where they are not known."""
        if self.bin_counts is None:
            return None
        low, high = self.ax_.get_ylim()
        self.ax_.set_yticks([tick for tick in self.ax_.get_yticks() if low <= tick <= high])
        self.ax_.set_ylim(low - (high - low) * STRIP_HEIGHT / (1 - STRIP_HEIGHT), high)
        edges = np.arange(len(self.bin_counts) + 1) + 0.5
        return draw_counts(self.ax_, "samples", self.bin_counts, edges, own, color="0.5")


def _are_runs(gain) -> bool:
    """Whether it holds several runs, one below the other; their lengths may differ."""
    check_values(gain, "gain")
    no_rows = isinstance(gain, (dict, str, bytes)) or getattr(gain, "ndim", 1) == 0
    if no_rows or not hasattr(gain, "__len__") or not len(gain):
        raise ValueError(f"gain must have one sample at least, got {type(gain).__name__}.")
    return np.ndim(next(iter(gain))) == 1
