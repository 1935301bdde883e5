"""Reliability diagram of class probabilities."""

import numpy as np
from numpy.typing import ArrayLike

from .._simplex import frame_names
from ..label_histogram import check_counts, frequencies
from ..metrics._inputs import check_rows
from ._base import BinnedReliabilityDisplay
from ._bins import reliability_bins
from ._response import response


class ReliabilityDisplay(BinnedReliabilityDisplay):
    """Reliability diagram: predicted probability of a class against how often raters name it.

    Make it with `from_estimator` or `from_predictions`. A point stands for a bin of predictions, above the diagonal
    where the class is more frequent than predicted; bins without rows have none. The strip below shows, on a
    logarithmic scale, how many rows are in each bin.

    **Intervals.** A bar is an interval for the mean true frequency of the rows in the bin, with that bin's coverage,
    whether or not the prediction is calibrated; the bars of a diagram do not hold all at once. It is Wilson's score
    interval at an effective number of labels, which follows from the spread of ``μ̂ − z`` between the rows of the bin:
    the raters of a row are not taken for independent of each other, nor are its classes where they are pooled; rows
    are. A bin with few events borrows the spread of the others, so that one where all rows agree gets an interval too.
    A bin with one row has none: its point is open. In simulations intervals of level 0.9 held 87 to 97 % of the times,
    the more where miscalibration differs much within a bin.

    Parameters
    ----------
    mean_predicted, mean_observed : array-like of shape (n_bins,)
        Mean prediction and mean observed frequency in each bin, probabilities; NaN in empty bins.
    interval : array-like of shape (n_bins, 2)
        Ends of the interval for the frequency; NaN where there is none.
    bin_counts : array-like of shape (n_bins,)
        Number of predicted probabilities in each bin: rows, or K for each row where classes are pooled.
    edges : array-like of shape (n_bins + 1,)
        Edges of the bins.
    level : float, default=0.9
        Level of the intervals.
    limit : float, default=1.0
        Upper end of both axes, a probability.
    name : str, optional
        What the legend calls it.
    class_name : object, optional
        The class of the diagram; None: all classes, pooled.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The points.
    open_points_ : matplotlib Line2D
        Those without an interval, which are drawn open.
    errorbar_ : matplotlib ErrorbarContainer
        The intervals.
    histogram_ : matplotlib StepPatch
        The numbers in each bin, drawn on `histogram_ax_`.
    reference_ : matplotlib Line2D
        The diagonal of perfect calibration.
    ax_, histogram_ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    legend_ : matplotlib Legend

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(500, overconfidence=2.0, random_state=0)
    >>> display = ReliabilityDisplay.from_predictions(data.counts, data.prediction, n_bins=5, class_index=0)
    >>> (display.mean_observed - display.mean_predicted).round(2)  # too extreme at both ends
    array([ 0.05, -0.02, -0.  , -0.07, -0.11])
    """

    def __init__(
        self,
        mean_predicted: ArrayLike,
        mean_observed: ArrayLike,
        interval: ArrayLike,
        bin_counts: ArrayLike,
        edges: ArrayLike,
        *,
        level: float = 0.9,
        limit: float = 1.0,
        name: str | None = None,
        class_name=None,
    ):
        super().__init__(
            mean_predicted, mean_observed, interval, bin_counts, edges, level=level, limit=limit, name=name
        )
        self.class_name = class_name
        what = "each class" if class_name is None else f"class {class_name}"
        self._xlabel = f"Predicted probability of {what}"
        self._ylabel = f"Observed frequency of {what} (probability)"
        self._unit = "rows × classes" if class_name is None else "rows"

    @classmethod
    def from_predictions(
        cls,
        y,
        prediction,
        *,
        class_index=None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        n_bins: int | ArrayLike = 15,
        strategy: str = "uniform",
        level: float = 0.9,
        name: str | None = None,
        ax=None,
        **plot_kwargs,
    ) -> "ReliabilityDisplay":
        """Reliability diagram of predictions against labels or label histograms.

        Parameters
        ----------
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes.
        prediction : array-like of shape (n_samples, n_classes) or (n_samples,), or Distribution
            Class probabilities, those of the second of two classes, or a distribution, of which the mean counts.
        class_index : int or class name, optional
            The class to look at: a column number, or a name among `classes`. None pools all classes: each row counts
            K times. With two classes, 1 gives the usual diagram of the positive class.
        classes : array-like of shape (n_classes,), optional
            Names of the columns; None: the column names of frames, else the column numbers.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows; only their ratios matter.
        n_bins : int or array-like of shape (n_edges,), default=15
            Number of bins, or their edges.
        strategy : {"uniform", "quantile"}, default="uniform"
            Bins of equal width on [0, 1], or of equal numbers of predictions.
        level : float, default=0.9
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
            Unknown class, `level` outside (0, 1), and whatever `check_counts` and `check_proba` refuse.
        """
        rows = check_rows(y, prediction, sample_weight)  # a row has a rater and some weight: never None
        rate, z = frequencies(rows.counts)[0], rows.z
        class_name = None
        if class_index is not None:
            names = _class_names(y, prediction, classes, z.shape[1])
            k = _column(class_index, names)
            rate, z, class_name = rate[:, [k]], z[:, [k]], names[k]
        bins = reliability_bins(z, rate, rows.w, n_bins=n_bins, strategy=strategy, level=level)
        return cls(*bins, level=level, name=name, class_name=class_name).plot(ax, **plot_kwargs)

    @classmethod
    def from_estimator(cls, estimator, X, y, *, name: str | None = None, **kwargs) -> "ReliabilityDisplay":
        """Reliability diagram of a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier
            Its `predict_dist` or `predict_proba` is used.
        X : array-like of shape (n_samples, ...)
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes; frames are aligned with the estimator's classes by name. A class that the
            estimator never saw has probability 0.
        name : str, optional
            What the legend calls it; None: the name of the estimator's class.
        **kwargs
            As in `from_predictions`: `class_index`, `sample_weight`, `n_bins`, `strategy`, `level`, `ax` and those of
            `plot`.

        Returns
        -------
        ReliabilityDisplay

        Raises
        ------
        ValueError
            As `from_predictions`; an estimator that predicts no probabilities.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.linear_model import LogisticRegression
        >>> X, y = load_iris(return_X_y=True, as_frame=True)
        >>> model = LogisticRegression(max_iter=1000).fit(X, y)
        >>> ReliabilityDisplay.from_estimator(model, X, y, n_bins=3).bin_counts
        array([289,  22, 139])
        """
        y, distribution, classes = response(estimator, X, y)
        name = type(estimator).__name__ if name is None else name
        return cls.from_predictions(y, distribution, classes=classes, name=name, **kwargs)


def _class_names(y, prediction, classes, n_classes: int) -> list:
    """Names of the columns, as `metrics` orders them: those of y, where it has names, go before the prediction's."""
    if classes is not None:
        if len(classes) != n_classes:
            raise ValueError(f"classes has {len(classes)} names, but the prediction has {n_classes} columns.")
        return np.asarray(classes).tolist()
    for frame in (y, prediction):
        names = frame_names(frame)
        if names is not None and len(names) == n_classes:
            return names
    own = check_counts(y)[1]
    return own.tolist() if len(own) == n_classes else list(range(n_classes))


def _column(class_index, names: list) -> int:
    if isinstance(class_index, (int, np.integer)) and not isinstance(class_index, bool):
        if not 0 <= class_index < len(names):
            raise ValueError(
                f"class_index={class_index} is no column number: there are {len(names)} classes, {names[:20]}, in the "
                f"columns 0 to {len(names) - 1}."
            )
        return int(class_index)
    if class_index not in names:
        raise ValueError(f"class_index={class_index!r} is not among the classes {names[:20]}.")
    return names.index(class_index)
