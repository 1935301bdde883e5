"""Who needs a second opinion: what one more label of the samples referred first is worth."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

from numpy.typing import NDArray

from .._rows import PredictionLike
from .._utils.checks import checked
from .._utils.types import ArrayLike, Estimator, Groups, LabelsLike, Raters, Samples, Weights
from ..metrics import referral_curve
from ._base import (
    WIDE,
    Axes,
    Display,
    draw_band,
    draw_legend,
    draw_reference,
    drawn,
    predicted,
    styled,
)

_EXPECTED = "expected gain"
_GAIN = "Drop of the epistemic loss (squared probability)"
_SHARE = "Share of the gain of referring every sample"


@dataclass(eq=False, repr=False)
class SecondOpinionDisplay(Display):
    """What one more label gains, by the fraction of samples that get one.

    Make it with `from_estimator` or `from_predictions`. Samples are referred to a second rater in
    the order of a rule. The gain of a sample is the drop of its epistemic loss ``‖Q − z‖²`` when
    the distribution learns the new label. It is averaged over all samples; those that are not
    referred gain nothing. Two curves show it. The dashed one is what the distribution expects, the
    mean of `second_opinion_value`. The solid one is what the raters' labels say, without bias. A
    good rule rises early. The two curves agree where the distribution is as uncertain as it should
    be. Referring at random gains along the straight line.

    **Realised gain.** It is the estimate of `epistemic_loss` minus that of
    `posterior_epistemic_loss`, both unbiased. Samples with fewer than two raters are left out, of
    the expected gain too. Samples of equal priority are referred in random order; the curves show
    the mean over these orders.

    **Intervals.** A band shows, at each fraction, an interval for the mean true gain of samples
    predicted as these were. Samples are independent. The gain at one fraction is a sum over
    samples, ``Σ a_i g_i / n``, with a_i = 1 where sample i is referred. Its standard error is ``√(Σ
    a_i² r_i²) / n``. The noise is the residual r of the realised gains g on the expected ones v,
    ``r = g − v·Σgv/Σv²``. Student's quantile has ``2 (Σ a²r²)² / Σ a⁴r⁴`` degrees of freedom,
    because few samples may carry most of the variance. For shares, which are ratios, a_i minus the
    share takes the place of a_i (delta method). The bands of shares are too wide where the gain of
    all samples is hardly known. They are too narrow where the share comes near 1 and depends on the
    few late samples that gain anything.

    **Raters.** With `Annotations` the band holds for new samples and new raters. Its variance is
    ``rows + max(raters − cells, 0)``, as that of `confidence_interval`. The samples are those
    squares. The others are jackknives of the same sum, without each rater and without each single
    label. The order of the samples stays, because it depends on the predictions alone. A sample
    that is left with one rater is left out. The gain of a sample is evaluated once more for each
    different label that it has, and each fraction sums over all labels. Degrees of freedom follow
    Satterthwaite, no fewer than the least of both. Raters are taken as exchangeable. Counts do not
    say who spoke: their band is for these raters and new samples.

    Parameters
    ----------
    fraction : array-like of shape (n_points,)
        Fraction of the samples (of their weight) that is referred, from 0 to 1.
    expected_gain, realised_gain : array-like of shape (n_points,)
        Gain per sample in squared probability, summed over classes; or shares of the last values.
    standard_error : array-like of shape (n_points,)
        Standard error of the realised gain, in its unit.
    interval : array-like of shape (n_points, 2)
        Ends of the interval for the realised gain.
    confidence_level : float, default=0.95
        Level of the intervals.
    normalize : bool, default=False
        Whether the gains are shares.
    name : str, optional
        What the legend calls it.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The realised gain.
    expected_line_ : matplotlib Line2D or None
        The expected gain.
    band_ : matplotlib PolyCollection
        The intervals.
    reference_ : matplotlib Line2D
        The gain of referring at random.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    legend_ : matplotlib Legend

    See Also
    --------
    sklearn_lhcal.distributions.second_opinion_value : The expected gain of each sample.
    sklearn_lhcal.metrics.posterior_epistemic_loss : The epistemic loss after one more label for
        every sample.

    Examples
    --------
    Entropy refers samples on which raters are known to be split. One more label hardly helps them:

    >>> import numpy as np
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> from sklearn_lhcal.distributions import Dirichlet
    >>> total = np.repeat([1.0, 30.0], 1000)
    >>> data = make_label_histograms(2000, total=total, random_state=0)
    >>> distribution = Dirichlet.from_mean(data.prediction, total)
    >>> value = SecondOpinionDisplay.from_predictions(data.counts, distribution, normalize=True)
    >>> entropy = SecondOpinionDisplay.from_predictions(
    ...     data.counts, distribution, rule="entropy", normalize=True, ax=value.ax_
    ... )
    >>> [round(float(np.interp(0.2, d.fraction, d.realised_gain)), 2) for d in (value, entropy)]
    [0.52, 0.31]
    """

    fraction: NDArray
    expected_gain: NDArray
    realised_gain: NDArray
    standard_error: NDArray
    interval: NDArray
    _: KW_ONLY
    confidence_level: float = 0.95
    normalize: bool = False
    name: str | None = None

    @classmethod
    @checked
    def from_predictions(
        cls,
        y: LabelsLike,
        prediction: PredictionLike,
        *,
        rule: str | ArrayLike = "second_opinion_value",
        normalize: bool = False,
        sample_weight: Weights = None,
        groups: Groups = None,
        raters: Raters = None,
        n_points: int = 201,
        confidence_level: float = 0.95,
        name: str | None = None,
        ax: "Axes | None" = None,
        **plot_kwargs: Any,
    ) -> Self:
        """Gain against the fraction referred, from a predictive distribution and label histograms.

        Parameters
        ----------
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes; samples with fewer than two raters are left out.
        prediction : Distribution
            A batch of n_samples samples, before the second opinion. Class probabilities are not
            enough: no label moves them.
        rule : {"second_opinion_value", "entropy", "disagreement"} or array-like, \
default="second_opinion_value"
            What decides who is referred first, the largest: the expected gain itself, the entropy
            of the mean, the predicted disagreement of two raters, or your own priorities, of shape
            (n_samples,).
        normalize : bool, default=False
            False: gains in squared probability per sample, which can be compared between models and
            with each other. True: shares of the gain of referring every sample, each curve divided
            by its last value. Shares hide whether that gain is the expected one.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples; only their ratios matter.
        groups : array-like of shape (n_samples,), optional
            Samples of one group (one patient, say) are dependent: intervals take them together.
        raters : {"random", "fixed"}, optional
            Whether intervals are for new raters, which needs `Annotations`, or for these. None:
            "random" with `Annotations`, "fixed" with all else. See `confidence_interval`.
        n_points : int, default=201
            Number of points of the curves, equally spaced from fraction 0 to 1.
        confidence_level : float, default=0.95
            Level of the intervals.
        name : str, optional
            What the legend calls it; None: the rule.
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        **plot_kwargs
            Passed on to `plot`.

        Returns
        -------
        SecondOpinionDisplay

        Raises
        ------
        ValueError
            An unknown rule; priorities of another shape, NaN or infinite; no sample with two raters
            and a positive weight; a distribution that no label moves, a point mass say; shares of
            a realised gain that is not positive; `confidence_level` outside (0, 1); `n_points`
            below 2; fewer than three raters where they are random, or labels without raters; and
            whatever `check_counts` refuses.

        Warns
        -----
        UserWarning
            Fewer than five raters where they are random: bands may cover too rarely.
        """
        curve = referral_curve(
            y,
            prediction,
            rule=rule,
            normalize=normalize,
            sample_weight=sample_weight,
            groups=groups,
            raters=raters,
            n_points=n_points,
            confidence_level=confidence_level,
        )
        kept: dict = {"confidence_level": confidence_level, "normalize": normalize}
        name = _rule_in_words(rule) if name is None else name
        return cls(*curve, **kept, name=name).plot(ax, **plot_kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Estimator,
        X: Samples,
        y: LabelsLike,
        *,
        rule: str | ArrayLike = "second_opinion_value",
        sample_weight: Weights = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Gain against the fraction referred, of a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier
            Its predictive distribution is used, through pipelines and searches: that of
            `AlphaCalibration` around any classifier, or of an ensemble. Other classifiers predict
            point masses, which no label moves.
        X : array-like of shape (n_samples, ...)
            Features of the samples.
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes. Named labels meet the estimator's classes by name. A
            class that the estimator never saw has probability 0.
        rule : str or array-like of shape (n_samples,), default="second_opinion_value"
            As in `from_predictions`.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples; only their ratios matter.
        name : str, optional
            What the legend calls it; None: the name of the estimator's class, and the rule.
        **kwargs
            As in `from_predictions`: `normalize`, `groups`, `raters`, `n_points`,
            `confidence_level`, `ax` and those of `plot`.

        Returns
        -------
        SecondOpinionDisplay

        Raises
        ------
        ValueError
            As `from_predictions`; an estimator that predicts no probabilities.

        Examples
        --------
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> from sklearn_lhcal.datasets import make_label_histograms
        >>> data = make_label_histograms(200, random_state=0)
        >>> labels = data.counts[:100].argmax(axis=1)
        >>> forest = RandomForestClassifier(20, random_state=0).fit(data.X[:100], labels)
        >>> display = SecondOpinionDisplay.from_estimator(forest, data.X[100:], data.counts[100:])
        >>> display.name
        'RandomForestClassifier, by second opinion value'
        """
        if name is None:
            name = f"{type(estimator).__name__}, {_rule_in_words(rule)}"
        kwargs |= {"rule": rule, "sample_weight": sample_weight, "name": name}
        return cls.from_predictions(y, predicted(estimator, X, y), **kwargs)

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        name: str | None = None,
        plot_expected: bool = True,
        line_kwargs: dict | None = None,
        expected_kwargs: dict | None = None,
        band_kwargs: dict | None = None,
    ) -> Self:
        """Draw the display. A second one on the same axes is compared with the first.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        name : str, optional
            What the legend calls it; None: the `name` that the display was made with.
        plot_expected : bool, default=True
            Whether to draw the expected gain.
        line_kwargs, expected_kwargs, band_kwargs : dict, optional
            Passed on to matplotlib's `plot` (realised gain), `plot` (expected gain) and
            `fill_between` (intervals).

        Returns
        -------
        display
            Itself, with the artists `line_`, `expected_line_`, `band_`, `reference_` and `legend_`,
            and with `ax_` and `figure_`.
        """
        self._take_axes(ax, WIDE)
        self.reference_ = draw_reference(self.ax_, "refer at random", self.realised_gain[-1])
        label = self.name if name is None else name
        style = styled(line_kwargs, linewidth=1.8, label=label)
        (self.line_,) = self.ax_.plot(self.fraction, self.realised_gain, **style)
        self.band_ = draw_band(self.ax_, self.fraction, self.interval, self.line_, band_kwargs)
        self.expected_line_ = None
        if plot_expected:
            dashed = {"linestyle": (0, (5, 2)), "linewidth": 1.2, "gid": _EXPECTED}
            style = styled(expected_kwargs, color=self.line_.get_color(), **dashed)
            (self.expected_line_,) = self.ax_.plot(self.fraction, self.expected_gain, **style)
        _label(self.ax_, self.normalize)
        title = f"solid: realised, {self._level} intervals"
        if drawn(self.ax_.lines, _EXPECTED):
            title += "\ndashed: expected"
        self.legend_ = draw_legend(self.ax_, title)
        return self


def _label(ax, normalize: bool) -> None:
    from matplotlib.ticker import PercentFormatter

    ax.set(xlabel="Samples referred to a second rater", xlim=(0, 1))
    ax.set_ylabel(_SHARE if normalize else _GAIN)
    ax.xaxis.set_major_formatter(PercentFormatter(1, symbol="%"))
    if normalize:
        ax.yaxis.set_major_formatter(PercentFormatter(1, symbol="%"))


def _rule_in_words(rule) -> str:
    """What the legend says of a rule."""
    if isinstance(rule, str):
        return f"by {rule.replace('_', ' ')}"
    return "by given priorities"
