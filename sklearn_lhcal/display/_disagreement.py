"""Reliability diagram of predicted disagreement."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from .._rows import PredictionLike
from .._utils.checks import checked
from .._utils.distances import Distance, is_ordinal
from .._utils.types import ArrayLike, LabelsLike, Strategy
from ..metrics import reliability_curve
from ._binned import BinnedReliabilityDisplay

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False, kw_only=True)
class DisagreementReliabilityDisplay(BinnedReliabilityDisplay):
    """Reliability diagram of disagreement: how often two raters disagree, against its prediction.

    Make it with `from_estimator` or `from_predictions`. A point stands for a bin of rows. It lies
    above the diagonal where raters disagree more than predicted. Bins without rows have no point.
    The strip below shows, on a logarithmic scale, how many rows are in each bin. Rows with fewer
    than two raters are left out.

    **Intervals.** A bar is an interval for the mean true disagreement of the rows in the bin. It is
    made as `ReliabilityDisplay` says, from the spread of ``d − φ̂`` between rows. Here d is the
    share of the row's pairs of raters that disagree, and φ̂ its prediction.

    Parameters
    ----------
    mean_predicted, mean_observed : array-like of shape (n_bins,)
        Mean prediction and mean observed rate of disagreement in each bin, probabilities; NaN in
        empty bins.
    interval : array-like of shape (n_bins, 2)
        Ends of the interval for the rate; NaN where there is none.
    bin_counts : array-like of shape (n_bins,)
        Number of rows in each bin.
    edges : array-like of shape (n_bins + 1,)
        Edges of the bins, probabilities.
    confidence_level : float, default=0.95
        Level of the intervals.
    limit : float, default=1.0
        Upper end of both axes, a probability. `from_predictions` puts it just beyond the last point
        and the highest interval: predictions above 1 − 1/K are impossible, and those above 0.5 are
        often rare.
    name : str, optional
        What the legend calls it.
    unit : str, optional
        The unit of a distance: "steps", or "squared distance". None: disagreement is a probability.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The points.
    open_points_ : matplotlib Line2D
        Points without an interval, which are drawn open.
    errorbar_ : matplotlib ErrorbarContainer
        The intervals.
    histogram_ : matplotlib StepPatch
        The numbers of rows, drawn on `histogram_ax_`.
    reference_ : matplotlib Line2D
        The diagonal of perfect calibration.
    ax_, histogram_ax_ : matplotlib Axes
        The diagram, and the strip below it.
    figure_ : matplotlib Figure
    legend_ : matplotlib Legend

    Examples
    --------
    Probabilities alone leave out what the features do not tell. A Dirichlet distribution around
    them does not:

    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> from sklearn_lhcal.distributions import Dirichlet
    >>> data = make_label_histograms(500, total=2.0, random_state=0)
    >>> show = DisagreementReliabilityDisplay.from_predictions
    >>> raw = show(data.counts, data.prediction, n_bins=4, name="raw")
    >>> dirichlet = Dirichlet.from_mean(data.prediction, data.total)
    >>> calibrated = show(data.counts, dirichlet, n_bins=4, name="Dirichlet", ax=raw.ax_)

    Of a fitted classifier:

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> data = make_label_histograms(200, random_state=0)
    >>> labels = data.counts[:100].argmax(axis=1)
    >>> forest = RandomForestClassifier(20, random_state=0).fit(data.X[:100], labels)
    >>> display = DisagreementReliabilityDisplay.from_estimator(
    ...     forest, data.X[100:], data.counts[100:], n_bins=5
    ... )
    >>> display.name
    'RandomForestClassifier'
    """

    _xlabel = "Predicted probability that two raters disagree"
    _ylabel = "Observed rate of disagreement (probability)"
    unit: str | None = None

    def __post_init__(self):
        super().__post_init__()
        if self.unit is not None:
            self._xlabel = f"Predicted disagreement of two raters ({self.unit})"
            self._ylabel = f"Observed disagreement of two raters ({self.unit})"

    @classmethod
    @checked
    def from_predictions(
        cls,
        y: LabelsLike,
        prediction: PredictionLike,
        *,
        distance: Distance = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        raters: Literal["random", "fixed"] | None = None,
        n_bins: int | ArrayLike = 15,
        strategy: Strategy = "uniform",
        confidence_level: float = 0.95,
        name: str | None = None,
        ax: "Axes | None" = None,
        **plot_kwargs: Any,
    ) -> Self:
        """Reliability diagram of predicted disagreement against label histograms.

        Parameters
        ----------
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes; rows with one rater are left out.
        prediction : Distribution, or array-like of shape (n_samples, n_classes) or (n_samples,)
            Its `disagreement()` is shown. Class probabilities z stand for a point mass,
            ``φ̂ = 1 − Σz²``.
        distance : None, "ordinal", "interval" or array-like of shape (n_classes, n_classes)
            How far classes are apart. Shown is then the mean squared distance of two raters: for
            "ordinal" the steps between them.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows; only their ratios matter.
        groups : array-like of shape (n_samples,), optional
            Rows of one group (one patient, say) are dependent: intervals take them together.
        raters : {"random", "fixed"}, optional
            Whether intervals are for new raters, which needs `Annotations`, or for these. None:
            "random" with `Annotations`, else "fixed", as in `confidence_interval`.
        n_bins : int or array-like of shape (n_edges,), default=15
            Number of bins, or their edges.
        strategy : {"uniform", "quantile"}, default="uniform"
            Bins of equal width on [0, 1], or of equal numbers of rows.
        confidence_level : float, default=0.95
            Level of the intervals.
        name : str, optional
            What the legend calls it.
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        **plot_kwargs
            Passed on to `plot`.

        Returns
        -------
        DisagreementReliabilityDisplay

        Raises
        ------
        ValueError
            No row with two raters and a positive weight, `confidence_level` outside (0, 1), fewer
            than four raters where they are random, and whatever `check_counts` and `check_proba`
            refuse.
        """
        curve = reliability_curve(
            y,
            prediction,
            kind="disagreement",
            distance=distance,
            sample_weight=sample_weight,
            groups=groups,
            raters=raters,
            n_bins=n_bins,
            strategy=strategy,
            confidence_level=confidence_level,
        )
        # where the points and their intervals end, and a little more
        ends = [*curve.mean_predicted, *curve.mean_observed, *curve.interval[:, 1], 0.1]
        limit = 1.05 * float(np.nanmax(ends))
        kept: dict[str, Any] = {"confidence_level": confidence_level, "name": name}
        if distance is None:
            kept["limit"] = min(1.0, limit)
        else:
            unit = "steps" if is_ordinal(distance) else "squared distance"
            kept |= {"limit": limit, "unit": unit}
        return cls(*curve[:-1], **kept).plot(ax, **plot_kwargs)
