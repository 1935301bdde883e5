"""What more labels are worth: of the samples referred first, and against the cost of a label."""

from typing import Any, Self

from .._utils.types import CostsOfRows, Estimator, LabelsLike, Samples
from ..metrics import PolicyCurve, ReferralCurve, policy_curve, referral_curve
from ._base import (
    DOTTED,
    WIDE,
    Axes,
    NamedDisplay,
    PredictionDisplay,
    Styles,
    draw_band,
    draw_curves,
    draw_reference,
    drawn,
    styled,
)

_EXPECTED = "expected gain"
_GAIN = "Drop of the epistemic loss (squared probability)"
_SHARE = "Share of the gain of referring every sample"


class ReferralCurveDisplay(NamedDisplay):
    """What one more label gains, by the fraction of samples that get one.

    It draws the result of `referral_curve`, which `from_predictions` calls. Samples are referred to
    a second rater in the order of a rule. The gain of a sample is the drop of its epistemic loss
    ``‖Q − z‖²`` when the distribution learns the new label. It is averaged over all samples; those
    that are not referred gain nothing. Two curves show it. The dashed one is what the distribution
    expects, the mean of `second_opinion_value`. The solid one is what the raters' labels say,
    without bias. A good rule rises early. The two curves agree where the distribution is as
    uncertain as it should be. Referring at random gains along the straight line.

    Parameters
    ----------
    result : ReferralCurve
    name : str, optional
        What the legend calls it; None: the rule. Of an estimator, the name of its class, and the
        rule.

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
    >>> value = ReferralCurveDisplay.from_predictions(data.counts, distribution, normalize=True)
    >>> entropy = ReferralCurveDisplay.from_predictions(
    ...     data.counts, distribution, rule="entropy", normalize=True, ax=value.ax_
    ... )
    >>> curves = value.result, entropy.result
    >>> [round(float(np.interp(0.2, c.fraction, c.realised_gain)), 2) for c in curves]
    [0.52, 0.31]
    """

    result: ReferralCurve
    analysis = staticmethod(referral_curve)

    @classmethod
    def _named(cls, estimator: Estimator, options: dict) -> dict:
        rule = _in_words(options.get("rule", "second_opinion_value"))
        return options | {"name": options.get("name") or f"{type(estimator).__name__}, {rule}"}

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
        curve = self.result
        from matplotlib.ticker import PercentFormatter

        self.reference_ = draw_reference(self.ax_, "refer at random", curve.realised_gain[-1])
        label = name or self.name or _in_words(curve.rule)
        style = styled(line_kwargs, linewidth=1.8, label=label)
        (self.line_,) = self.ax_.plot(curve.fraction, curve.realised_gain, **style)
        self.band_ = draw_band(self.ax_, curve.fraction, curve.interval, self.line_, band_kwargs)
        self.expected_line_ = None
        if plot_expected:
            dashed = {"linestyle": (0, (5, 2)), "linewidth": 1.2, "gid": _EXPECTED}
            style = styled(expected_kwargs, color=self.line_.get_color(), **dashed)
            (self.expected_line_,) = self.ax_.plot(curve.fraction, curve.expected_gain, **style)
        self.ax_.set(xlabel="Samples referred to a second rater", xlim=(0, 1))
        self.ax_.set_ylabel(_SHARE if curve.normalize else _GAIN)
        self.ax_.xaxis.set_major_formatter(PercentFormatter(1))
        if curve.normalize:
            self.ax_.yaxis.set_major_formatter(PercentFormatter(1))
        title = f"solid: realised, {self._level} intervals"
        if drawn(self.ax_.lines, _EXPECTED):
            title += "\ndashed: expected"
        self._draw_legend(title)
        return self


def _in_words(rule) -> str:
    """What the legend says of a rule."""
    words = rule if isinstance(rule, str) else "given priorities"
    return f"by {words.replace('_', ' ')}"


class PolicyCurveDisplay(PredictionDisplay):
    """What labels and decisions cost together, against the cost of a label.

    It draws the result of `policy_curve`, which `from_predictions` calls. `plot` shows the total
    cost of three rules, and in grey that of fixed numbers of labels; their slope is that number.
    `plot_differences` shows the total cost of the rules minus that of optimal stopping, so that
    what they share cancels.

    Parameters
    ----------
    result : PolicyCurve

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        The rules.
    bands_ : list of matplotlib PolyCollection
        The intervals.
    fixed_lines_ : list of matplotlib Line2D
        The fixed numbers of labels.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    legend_ : matplotlib Legend

    See Also
    --------
    sklearn_lhcal.distributions.label_policy : The rule itself.
    ReferralCurveDisplay : What one label is worth in squared probability.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> from sklearn_lhcal.distributions import Dirichlet
    >>> data = make_label_histograms(500, n_raters=20, total=2.0, random_state=0)
    >>> distribution = Dirichlet.from_mean(data.prediction, data.total)
    >>> display = PolicyCurveDisplay.from_predictions(
    ...     data.counts, distribution, 1 - np.eye(3), horizon=3, random_state=0
    ... )
    >>> bool((display.result.difference_interval[:, :, 1] >= 0).all())
    True
    """

    result: PolicyCurve
    analysis = staticmethod(policy_curve)

    @classmethod
    def from_estimator(
        cls,
        estimator: Estimator,
        X: Samples,
        y: LabelsLike,
        cost_matrix: CostsOfRows,
        **options: Any,
    ) -> Self:
        """Replay the labels of samples, from a fitted classifier and label histograms.

        Parameters
        ----------
        estimator : fitted classifier
            Its predictive distribution is used, through pipelines and searches: that of
            `AlphaCalibration` around any classifier, say.
        X : array-like of shape (n_samples, ...)
            Features of the samples.
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes. Named labels meet the estimator's classes by name.
        cost_matrix : array-like, frame or callable
            As in `from_predictions`. A callable makes the costs of X.
        **options
            As in `from_predictions`.

        Returns
        -------
        PolicyCurveDisplay

        Raises
        ------
        ValueError
            As `from_predictions`; an estimator that predicts no probabilities.
        """
        costs: Any = cost_matrix(X) if callable(cost_matrix) else cost_matrix
        return super().from_estimator(estimator, X, y, costs, **options)

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        line_kwargs: Styles = None,
        band_kwargs: Styles = None,
        fixed_kwargs: dict | None = None,
    ) -> Self:
        """Draw the total cost of the rules against the cost of a label.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        line_kwargs, band_kwargs : dict or list of dict, optional
            Passed on to matplotlib's `plot` (rules) and `fill_between` (intervals); a list has one
            for each rule.
        fixed_kwargs : dict, optional
            Passed on to matplotlib's `plot` (fixed numbers of labels).

        Returns
        -------
        display
            Itself, with its artists.
        """
        self._take_axes(ax, WIDE)
        curve = self.result
        style = styled(fixed_kwargs, color="0.7", linewidth=0.8, zorder=1)
        self.fixed_lines_ = self.ax_.plot(curve.prices, curve.fixed_cost.T, **style)
        # the legend names them once
        last = len(curve.fixed_cost) - 1
        self.fixed_lines_[0].set_label(f"0, 1, …, {last} labels for every sample")
        shown = dict(enumerate(curve.names))
        self._draw(curve.total_cost, curve.interval, shown, line_kwargs, band_kwargs)
        # expensive numbers of labels would fill the figure
        low = curve.interval.min()
        high = curve.interval.max()
        margin = 0.08 * (high - low)
        self.ax_.set_ylim(low - margin, high + margin)
        self.ax_.set_ylabel("Total cost of a sample (unit of the costs)")
        self._draw_legend(f"{self._level} intervals")
        return self

    def plot_differences(
        self, ax: "Axes | None" = None, *, line_kwargs: Styles = None, band_kwargs: Styles = None
    ) -> Self:
        """Draw the total cost of the rules minus that of optimal stopping; above 0 they cost more.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        line_kwargs, band_kwargs : dict or list of dict, optional
            As in `plot`.

        Returns
        -------
        display
            Itself, with its artists.
        """
        self._take_axes(ax, WIDE)
        curve = self.result
        self.fixed_lines_ = []
        shown = {1: curve.names[1], 2: curve.names[2]}
        self._draw(curve.difference, curve.difference_interval, shown, line_kwargs, band_kwargs)
        self.ax_.axhline(0, label=curve.names[0], **DOTTED)
        self.ax_.set_ylabel("Total cost minus that of optimal stopping\n(unit of the costs)")
        self._draw_legend(f"{self._level} intervals")
        return self

    def _draw(self, *curves) -> None:
        self.lines_, self.bands_ = draw_curves(self.ax_, self.result.prices, *curves)
        ends = self.result.prices[[0, -1]]
        self.ax_.set(xlabel="Cost of a label (unit of the costs)", xlim=ends)
