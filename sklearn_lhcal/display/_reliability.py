"""Reliability diagram of class probabilities."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

from .._rows import PredictionLike
from .._utils.checks import checked
from .._utils.types import ArrayLike, LabelsLike, Strategy
from ..metrics import reliability_curve
from ._binned import BinnedReliabilityDisplay

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False, kw_only=True)
class ReliabilityDisplay(BinnedReliabilityDisplay):
    """Reliability diagram: predicted probability of a class against how often raters name it.

    Make it with `from_estimator` or `from_predictions`. A point stands for a bin of predictions. It
    lies above the diagonal where the class is more frequent than predicted. Bins without rows have
    no point. The strip below shows, on a logarithmic scale, how many rows are in each bin.

    **Intervals.** A bar is an interval for the mean true frequency of the rows in the bin. It holds
    with the level of that bin, whether or not the prediction is calibrated; the bars of a diagram
    do not hold all at once. It is Wilson's score interval at an effective number of labels, which
    follows from the spread of ``μ̂ − z`` between the rows of the bin. Rows are independent. The
    raters of one row need not be, nor its classes where they are pooled. A bin with few events
    borrows the spread of the others, so that a bin in which all rows agree has an interval too. A
    bin with one row has none, and its point is open.

    Parameters
    ----------
    mean_predicted, mean_observed : array-like of shape (n_bins,)
        Mean prediction and mean observed frequency in each bin, probabilities; NaN in empty bins.
    interval : array-like of shape (n_bins, 2)
        Ends of the interval for the frequency; NaN where there is none.
    bin_counts : array-like of shape (n_bins,)
        Number of predicted probabilities in each bin. A row counts once, or K times where classes
        are pooled.
    edges : array-like of shape (n_bins + 1,)
        Edges of the bins, probabilities.
    confidence_level : float, default=0.95
        Level of the intervals.
    limit : float, default=1.0
        Upper end of both axes, a probability.
    name : str, optional
        What the legend calls it.
    class_name : object, optional
        The class of the diagram; None: all classes, pooled.
    cumulative : bool, default=False
        Whether probabilities are those of a class or any before it.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The points.
    open_points_ : matplotlib Line2D
        Points without an interval, which are drawn open.
    errorbar_ : matplotlib ErrorbarContainer
        The intervals.
    histogram_ : matplotlib StepPatch
        The numbers in each bin, drawn on `histogram_ax_`.
    reference_ : matplotlib Line2D
        The diagonal of perfect calibration.
    ax_, histogram_ax_ : matplotlib Axes
        The diagram, and the strip below it.
    figure_ : matplotlib Figure
    legend_ : matplotlib Legend

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(500, overconfidence=2.0, random_state=0)
    >>> display = ReliabilityDisplay.from_predictions(
    ...     data.counts, data.prediction, n_bins=5, class_index=0
    ... )
    >>> (display.mean_observed - display.mean_predicted).round(2)  # too extreme at both ends
    array([ 0.05, -0.02, -0.  , -0.07, -0.11])

    Of a fitted classifier:

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = LogisticRegression(max_iter=1000).fit(X, y)
    >>> ReliabilityDisplay.from_estimator(model, X, y, n_bins=3).bin_counts
    array([289,  22, 139])
    """

    class_name: object = None
    cumulative: bool = False

    def __post_init__(self):
        super().__post_init__()
        pooled = self.class_name is None
        what = "each class" if pooled else f"class {self.class_name}"
        if self.cumulative:
            what = f"at most {what}"
        self._xlabel = f"Predicted probability of {what}"
        self._ylabel = f"Observed frequency of {what} (probability)"
        if pooled:
            self._unit = "samples × classes"

    @classmethod
    @checked
    def from_predictions(
        cls,
        y: LabelsLike,
        prediction: PredictionLike,
        *,
        class_index: int | Hashable | None = None,
        distance: Literal["ordinal"] | None = None,
        classes: ArrayLike | None = None,
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
        """Reliability diagram of predictions against labels or label histograms.

        Parameters
        ----------
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes.
        prediction : array-like of shape (n_samples, n_classes) or (n_samples,), or Distribution
            Class probabilities. A 1-D array holds those of the second of two classes. The mean of a
            distribution counts.
        class_index : int or class name, optional
            The class to look at: its name, or its column number in the prediction where names are
            no numbers. With the classes 0 and 1, or no names, 1 gives the usual diagram of the
            positive class. None pools all classes: each row counts K times.
        distance : "ordinal", optional
            Cumulative reliability of classes with an order: the probability of a class or any
            before it. The last class, of which that is certain, is left out.
        classes : array-like of shape (n_classes,), optional
            Names of the columns of a bare array. Labels are matched with them by name. None: the
            names of y, which must be sorted, else the column numbers.
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
            Bins of equal width on [0, 1], or of equal numbers of predictions.
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
        ReliabilityDisplay

        Raises
        ------
        ValueError
            Unknown class, `confidence_level` outside (0, 1), fewer than three raters where they are
            random, and whatever `check_counts` and `check_proba` refuse.
        """
        *curve, class_name = reliability_curve(
            y,
            prediction,
            kind="classwise" if class_index is None else class_index,
            distance=distance,
            classes=classes,
            sample_weight=sample_weight,
            groups=groups,
            raters=raters,
            n_bins=n_bins,
            strategy=strategy,
            confidence_level=confidence_level,
        )
        kept: dict[str, Any] = {"confidence_level": confidence_level, "name": name}
        kept |= {"class_name": class_name, "cumulative": distance is not None}
        return cls(*curve, **kept).plot(ax, **plot_kwargs)
