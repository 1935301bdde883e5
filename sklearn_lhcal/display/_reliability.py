"""Reliability diagram of class probabilities."""

import numpy as np
from numpy.typing import ArrayLike

from .._ground.names import is_numeric
from .._rows import Rows, read_rows, rows_of
from ._base import BinnedReliabilityDisplay, class_names
from ._bins import reliability_bins


class ReliabilityDisplay(BinnedReliabilityDisplay):
    """Reliability diagram: predicted probability of a class against how often raters name it.

    Make it with `from_estimator` or `from_predictions`. A point stands for a bin of predictions,
    above the diagonal where the class is more frequent than predicted; bins without rows have none.
    The strip below shows, on a logarithmic scale, how many rows are in each bin.

    **Intervals.** A bar is an interval for the mean true frequency of the rows in the bin, with
    that bin's coverage, whether or not the prediction is calibrated; the bars of a diagram do not
    hold all at once. It is Wilson's score interval at an effective number of labels, which follows
    from the spread of ``μ̂ − z`` between the rows of the bin: the raters of a row are not taken for
    independent of each other, nor are its classes where they are pooled; rows are. A bin with few
    events borrows the spread of the others, so that one where all rows agree gets an interval too.
    A bin with one row has none: its point is open. In simulations intervals of level 0.9 held 87 to
    97 % of the times, the more where miscalibration differs much within a bin.

    Parameters
    ----------
    mean_predicted, mean_observed : array-like of shape (n_bins,)
        Mean prediction and mean observed frequency in each bin, probabilities; NaN in empty bins.
    interval : array-like of shape (n_bins, 2)
        Ends of the interval for the frequency; NaN where there is none.
    bin_counts : array-like of shape (n_bins,)
        Number of predicted probabilities in each bin: rows, or K for each row where classes are
        pooled.
    edges : array-like of shape (n_bins + 1,)
        Edges of the bins.
    confidence_level : float, default=0.95
        Of the intervals.
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
    >>> display = ReliabilityDisplay.from_predictions(
    ...     data.counts, data.prediction, n_bins=5, class_index=0
    ... )
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
        confidence_level: float = 0.95,
        limit: float = 1.0,
        name: str | None = None,
        class_name=None,
    ):
        super().__init__(
            mean_predicted,
            mean_observed,
            interval,
            bin_counts,
            edges,
            confidence_level=confidence_level,
            limit=limit,
            name=name,
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
        confidence_level: float = 0.95,
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
            Class probabilities, those of the second of two classes, or a distribution, of which the
            mean counts.
        class_index : int or class name, optional
            The class to look at: its name, or its column number in the prediction, where names are
            no numbers. None pools all classes: each row counts K times. With the classes 0 and 1,
            or no names, 1 gives the usual diagram of the positive class.
        classes : array-like of shape (n_classes,), optional
            Names of the columns of a prediction that brings none, a bare array; labels are matched
            with them by name. None: those of y, which must be sorted, else the column numbers.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows; only their ratios matter.
        n_bins : int or array-like of shape (n_edges,), default=15
            Number of bins, or their edges.
        strategy : {"uniform", "quantile"}, default="uniform"
            Bins of equal width on [0, 1], or of equal numbers of predictions.
        confidence_level : float, default=0.95
            Of the intervals.
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
            Unknown class, `confidence_level` outside (0, 1), and whatever `check_counts` and
            `check_proba` refuse.
        """
        return cls._of_rows(
            read_rows(y, prediction, sample_weight, classes=classes),
            class_index=class_index,
            n_bins=n_bins,
            strategy=strategy,
            confidence_level=confidence_level,
            name=name,
            ax=ax,
            **plot_kwargs,
        )

    @classmethod
    def from_estimator(
        cls, estimator, X, y, *, sample_weight=None, name: str | None = None, **kwargs
    ) -> "ReliabilityDisplay":
        """Reliability diagram of a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier
            Its `predict_dist` or `predict_proba` is used.
        X : array-like of shape (n_samples, ...)
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes; frames are aligned with the estimator's classes by name.
            A class that the estimator never saw has probability 0.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows; only their ratios matter.
        name : str, optional
            What the legend calls it; None: the name of the estimator's class.
        **kwargs
            As in `from_predictions`: `class_index`, `n_bins`, `strategy`, `confidence_level`, `ax`
            and those of `plot`.

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
        rows = rows_of(estimator, X, y, sample_weight)
        name = type(estimator).__name__ if name is None else name
        return cls._of_rows(rows, name=name, **kwargs)

    @classmethod
    def _of_rows(
        cls,
        rows: Rows,
        *,
        class_index=None,
        n_bins=15,
        strategy="uniform",
        confidence_level=0.95,
        name=None,
        ax=None,
        **plot_kwargs,
    ) -> "ReliabilityDisplay":
        # never None: every row has a rater, and some row has weight
        rows = rows.contributing()
        z, rate = rows.z, rows.mu
        class_name = None
        if class_index is not None:
            k = column(class_index, rows)
            z, rate = z[:, [k]], rate[:, [k]]
            class_name = class_names(rows)[k]
        how = {"n_bins": n_bins, "strategy": strategy, "confidence_level": confidence_level}
        bins = reliability_bins(z, rate, rows.w, **how)
        display = cls(*bins, confidence_level=confidence_level, name=name, class_name=class_name)
        return display.plot(ax, **plot_kwargs)


def column(class_index, rows: Rows) -> int:
    """Column of a class: integers are column numbers unless classes have numbers for names."""
    names = class_names(rows)
    named = rows.classes is not None and is_numeric(rows.classes)
    whole = isinstance(class_index, (int, np.integer)) and not isinstance(class_index, bool)
    if whole and not named:
        if not 0 <= class_index < len(names):
            raise ValueError(
                f"class_index={class_index} is no column number: there are {len(names)} classes, "
                f"{names[:20]}, in the columns 0 to {len(names) - 1}."
            )
        return int(class_index)
    if class_index not in names:
        raise ValueError(f"class_index={class_index!r} is not among the classes {names[:20]}.")
    return names.index(class_index)
