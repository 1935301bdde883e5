"""Who needs a second opinion: what one more label of the rows referred first is worth."""

import numpy as np
from numpy.typing import ArrayLike

from .._ground.checks import check_fraction
from .._ground.names import check_row_names
from .._rows import Rows, read_rows, rows_of
from ._base import DOTTED, WIDE, draw_legend, drawn, in_percent, new_axes
from ._referral import gains, priorities, referral_curves, rule_in_words

_REFERENCE = "refer at random"
_EXPECTED = "expected gain"
_GAIN = "Drop of the epistemic loss (squared probability)"
_SHARE = "Share of the gain of referring every row"


class SecondOpinionDisplay:
    """Who needs a second opinion: what one more label is worth, by the fraction of rows given one.

    Make it with `from_estimator` or `from_predictions`. Rows are referred to a second rater in the
    order of a rule. The gain is the drop of the epistemic loss ``‖Q − z‖²`` when the distribution
    learns the label it gets, averaged over all rows, those that are not referred gaining nothing.
    Two curves show it: what the distribution expects, the mean of `second_opinion_value` (dashed),
    and what the raters' labels say, without bias (solid). A good rule rises early; a distribution
    that knows what it does not know has both curves alike. Referring at random gains along the
    straight line.

    **Realised gain.** Of each row the estimate of `epistemic_loss` less that of
    `posterior_epistemic_loss`, both unbiased, from its raters; rows with fewer than two raters are
    left out, of the expected gain too. Rows of equal priority are referred in random order; the
    curves show the mean over these orders.

    **Intervals.** A band shows, at each fraction, an interval for the mean true gain of rows
    predicted as these were, rows being independent. The gain at one fraction is a sum over rows,
    ``Σ a_i g_i / n`` with a_i = 1 where row i is referred, and its standard error ``√(Σ a_i² r_i²)
    / n``, where the residual r of the realised gains g on the expected ones v stands for the noise,
    ``r = g − v·Σgv/Σv²``. Student's quantile goes with it, at ``2 (Σ a²r²)² / Σ a⁴r⁴`` degrees of
    freedom: few rows may carry most of the variance. Of shares, which are ratios, a_i less the
    share takes the place of a_i (delta method); their bands are too wide where the gain of all rows
    is hardly known, and too short where the share comes near 1, which rests on the few late rows
    that gain anything.

    Parameters
    ----------
    fraction : array-like of shape (n_points,)
        Fraction of the rows (of their weight) that is referred, from 0 to 1.
    expected_gain, realised_gain : array-like of shape (n_points,)
        Squared probability, summed over classes, per row; or shares of their last values.
    standard_error : array-like of shape (n_points,)
        Of the realised gain.
    interval : array-like of shape (n_points, 2)
        Ends of the interval for the realised gain.
    confidence_level : float, default=0.95
        Of the intervals.
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
    sklearn_lhcal.distributions.second_opinion_value : The expected gain of each row.
    sklearn_lhcal.metrics.posterior_epistemic_loss : The epistemic loss after one more label for
        every row.

    Examples
    --------
    Entropy refers rows on which raters are known to be split, whom one more label hardly helps:

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

    def __init__(
        self,
        fraction: ArrayLike,
        expected_gain: ArrayLike,
        realised_gain: ArrayLike,
        standard_error: ArrayLike,
        interval: ArrayLike,
        *,
        confidence_level: float = 0.95,
        normalize: bool = False,
        name: str | None = None,
    ):
        self.fraction = np.asarray(fraction)
        self.expected_gain = np.asarray(expected_gain)
        self.realised_gain = np.asarray(realised_gain)
        self.standard_error = np.asarray(standard_error)
        self.interval = np.asarray(interval)
        self.confidence_level = confidence_level
        self.normalize = normalize
        self.name = name

    @classmethod
    def from_predictions(
        cls,
        y,
        prediction,
        *,
        rule: str | ArrayLike = "second_opinion_value",
        normalize: bool = False,
        sample_weight: ArrayLike | None = None,
        n_points: int = 201,
        confidence_level: float = 0.95,
        name: str | None = None,
        ax=None,
        **plot_kwargs,
    ) -> "SecondOpinionDisplay":
        """Gain against the fraction referred, from a predictive distribution and label histograms.

        Parameters
        ----------
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes; rows with fewer than two raters are left out.
        prediction : Distribution
            A batch of n_samples rows, before the second opinion. Of class probabilities, which no
            label moves, nothing can be shown.
        rule : {"second_opinion_value", "entropy", "disagreement"} or array-like, \
default="second_opinion_value"
            What decides who is referred first, the largest: the expected gain itself, the entropy
            of the mean, the predicted disagreement of two raters, or priorities of your own, of
            shape (n_samples,).
        normalize : bool, default=False
            False: gains in squared probability per row, which can be compared between models and
            with each other. True: each curve divided by its last value, the share of the gain of
            referring every row; it hides whether that gain is the expected one.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows; only their ratios matter.
        n_points : int, default=201
            Number of points of the curves, equally spaced from fraction 0 to 1.
        confidence_level : float, default=0.95
            Of the intervals.
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
            An unknown rule; priorities of another shape, NaN or infinite; no row with two raters
            and a positive weight; a distribution that no label moves, a point mass say; with
            `normalize`, a realised gain of all rows that is not positive; `confidence_level`
            outside (0, 1); `n_points` below 2; and whatever `check_counts` refuses.
        """
        check_row_names(y=y, rule=rule)
        return cls._of_rows(
            read_rows(y, prediction, sample_weight),
            rule=rule,
            normalize=normalize,
            n_points=n_points,
            confidence_level=confidence_level,
            name=rule_in_words(rule) if name is None else name,
            ax=ax,
            **plot_kwargs,
        )

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y,
        *,
        rule: str | ArrayLike = "second_opinion_value",
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        **kwargs,
    ) -> "SecondOpinionDisplay":
        """Gain against the fraction referred, of a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier
            Its `predict_dist` is used, which sees through pipelines and searches:
            `AlphaCalibration` around any classifier, or an ensemble. Other classifiers predict
            point masses, which no label moves.
        X : array-like of shape (n_samples, ...)
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes; frames are aligned with the estimator's classes by name.
            A class that the estimator never saw has probability 0.
        rule : str or array-like of shape (n_samples,), default="second_opinion_value"
            As in `from_predictions`.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows; only their ratios matter.
        name : str, optional
            What the legend calls it; None: the name of the estimator's class, and the rule.
        **kwargs
            As in `from_predictions`: `normalize`, `n_points`, `confidence_level`, `ax` and those of
            `plot`.

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
        check_row_names(y=y, rule=rule)
        rows = rows_of(estimator, X, y, sample_weight)
        name = f"{type(estimator).__name__}, {rule_in_words(rule)}" if name is None else name
        return cls._of_rows(rows, rule=rule, name=name, **kwargs)

    @classmethod
    def _of_rows(
        cls,
        rows: Rows,
        *,
        rule,
        name,
        normalize=False,
        n_points=201,
        confidence_level=0.95,
        ax=None,
        **plot_kwargs,
    ) -> "SecondOpinionDisplay":
        check_fraction(confidence_level=confidence_level)
        if not isinstance(n_points, (int, np.integer)) or n_points < 2:
            raise ValueError(f"n_points must be an integer, 2 or more, got {n_points!r}.")
        priority = priorities(rule, rows.distribution)
        keep = np.flatnonzero((rows.n >= 2) & (rows.weight > 0))
        rows = rows.take(keep)
        expected, realised = gains(rows)
        fraction = np.linspace(0, 1, n_points)
        how = {"confidence_level": confidence_level, "normalize": normalize}
        curves = referral_curves(fraction, priority[keep], expected, realised, rows.weight, **how)
        return cls(*curves, **how, name=name).plot(ax, **plot_kwargs)

    def plot(
        self,
        ax=None,
        *,
        name=None,
        plot_expected=True,
        line_kwargs=None,
        expected_kwargs=None,
        band_kwargs=None,
    ):
        """Draw the display. Drawing a second one on the same axes compares the two.

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
        self.ax_ = new_axes(WIDE) if ax is None else ax
        self.figure_ = self.ax_.figure
        self.reference_ = _reference(self.ax_, self.realised_gain[-1])
        label = self.name if name is None else name
        style = {"linewidth": 1.8, "label": label} | (line_kwargs or {})
        (self.line_,) = self.ax_.plot(self.fraction, self.realised_gain, **style)
        color = self.line_.get_color()
        style = {"color": color, "alpha": 0.15, "linewidth": 0} | (band_kwargs or {})
        self.band_ = self.ax_.fill_between(self.fraction, *self.interval.T, **style)
        self.expected_line_ = None
        if plot_expected:
            style = {"color": color, "linewidth": 1.2, "linestyle": (0, (5, 2)), "gid": _EXPECTED}
            style |= expected_kwargs or {}
            (self.expected_line_,) = self.ax_.plot(self.fraction, self.expected_gain, **style)
        _label(self.ax_, self.normalize)
        self.legend_ = self._draw_legend()
        return self

    def _draw_legend(self):
        title = f"solid: realised, {in_percent(self.confidence_level)} intervals"
        dashed = "\ndashed: expected" if drawn(self.ax_.lines, _EXPECTED) else ""
        return draw_legend(self.ax_, title + dashed)


def _reference(ax, total: float):
    """The straight line from nothing to the gain of all rows, once."""
    found = drawn(ax.lines, _REFERENCE)
    for line in found:
        if np.allclose(line.get_ydata()[-1], total, rtol=1e-6, atol=0):
            return line
    style = DOTTED | {"zorder": 1, "gid": _REFERENCE}
    return ax.plot([0, 1], [0, total], label=None if found else _REFERENCE, **style)[0]


def _label(ax, normalize: bool) -> None:
    from matplotlib.ticker import PercentFormatter

    ax.set(xlabel="Rows referred to a second rater", xlim=(0, 1))
    ax.set_ylabel(_SHARE if normalize else _GAIN)
    ax.xaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    if normalize:
        ax.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
