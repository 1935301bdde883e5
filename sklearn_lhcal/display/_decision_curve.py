"""Decision curves: the net benefit of acting on a prediction, against the threshold."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .._rows import PredictionLike
from .._utils.checks import checked
from .._utils.types import ArrayLike, Estimator, Groups, LabelsLike, Raters, Samples, Weights
from ..metrics import decision_curve
from ._base import (
    DOTTED,
    WIDE,
    Axes,
    Display,
    Styles,
    check_reference,
    draw_curves,
    models_of,
    predicted_by_each,
)

# in units of the largest net benefit: how far below 0 the axis goes
_BELOW = 0.15


@dataclass(eq=False, repr=False)
class DecisionCurveDisplay(Display):
    """Decision curves: the net benefit of acting on predictions, against the threshold.

    Make it with `from_predictions` or `from_estimator`. To act on all samples whose probability of
    a class is t or more means that a false alarm weighs t/(1 − t) missed cases. The curve of a
    model shows the net benefit at each such t, see `net_benefit`. Two policies need no model: to
    act on every sample, or on none. The net benefit of acting on none is 0. A model is useful where
    it lies above both. Only thresholds that somebody would choose matter.

    **Intervals.** A band is Student's interval at each threshold: the benefit of a sample is a
    number, and its mean has a standard error. Where few samples have another benefit than the
    others, the band is wider, see `sklearn_lhcal.metrics.decision_curve`. Samples are independent,
    or groups of samples; the raters of a sample need not be. With `Annotations` it is the interval
    of `confidence_interval`, for new raters too. `plot_differences` shows net benefit minus that of
    acting on every sample, or of another model. The samples are the same, and what both share
    cancels. A band holds at each threshold, not at all of them at once: read it off at a threshold
    that was chosen beforehand.

    Parameters
    ----------
    names : list of str
        The models.
    thresholds : array-like of shape (n_points,)
        Thresholds: probabilities at or above which one acts.
    net_benefit : array-like of shape (n_models, n_points)
        In true alarms per sample.
    interval : array-like of shape (n_models, n_points, 2)
        Ends of the intervals.
    difference, difference_interval : array-like of shape (n_models, n_points[, 2])
        Net benefit minus that of the reference, and its intervals.
    treat_all : array-like of shape (n_points,)
        Net benefit of acting on every sample.
    reference : str, optional
        What differences are taken from; None: acting on every sample.
    confidence_level : float, default=0.95
        Level of the intervals.
    class_name : object, optional
        The class that calls for acting.

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        The curves of the models.
    bands_ : list of matplotlib PolyCollection
        The intervals.
    all_, none_ : matplotlib Line2D
        Acting on every sample, and on none.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    legend_ : matplotlib Legend

    References
    ----------
    Vickers and Elkin (2006), Decision curve analysis: a novel method for evaluating prediction
    models.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(1000, 2, overconfidence=3.0, random_state=0)
    >>> display = DecisionCurveDisplay.from_predictions(
    ...     data.counts, {"overconfident": data.prediction, "true": data.proba}
    ... )
    >>> low = display.thresholds < 0.3  # there, who trusts the overconfident model gains less
    >>> display.difference[:, low].mean(axis=1).round(3)
    array([0.021, 0.043])
    """

    names: list
    thresholds: NDArray
    net_benefit: NDArray
    interval: NDArray
    difference: NDArray
    difference_interval: NDArray
    treat_all: NDArray
    _: KW_ONLY
    reference: str | None = None
    confidence_level: float = 0.95
    class_name: object = None

    @classmethod
    @checked
    def from_predictions(
        cls,
        y: LabelsLike,
        predictions: dict[str, PredictionLike] | PredictionLike,
        *,
        class_index: object = None,
        thresholds: ArrayLike | None = None,
        reference: str | None = None,
        sample_weight: Weights = None,
        groups: Groups = None,
        raters: Raters = None,
        confidence_level: float = 0.95,
        ax: "Axes | None" = None,
        **plot_kwargs: Any,
    ) -> Self:
        """Decision curves of predictions against labels or label histograms.

        Parameters
        ----------
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes; one rater per sample is enough.
        predictions : dict, or array-like of shape (n_samples, n_classes) or (n_samples,)
            Class probabilities, or distributions, of each model by its name; a 1-D array holds
            those of the second of two classes. An array is that of one model.
        class_index : int or class name, optional
            The class that calls for acting, as in `net_benefit`. None: the second of two.
        thresholds : array-like of shape (n_points,), optional
            At least 0 and below 1, ascending. None: 0.01, 0.02, …, 0.99.
        reference : str, optional
            The model that differences are taken from. None: acting on every sample.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples; only their ratios matter.
        groups : array-like of shape (n_samples,), optional
            Samples of one group (one patient, say) may depend on each other. Groups are
            independent.
        raters : {"random", "fixed"}, optional
            Whether intervals are for new raters, which needs `Annotations`, or for these. None:
            "random" with `Annotations`, "fixed" with all else. See `confidence_interval`.
        confidence_level : float, default=0.95
            Level of the intervals.
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        **plot_kwargs
            Passed on to `plot`.

        Returns
        -------
        DecisionCurveDisplay

        Raises
        ------
        ValueError
            Thresholds outside [0, 1) or not ascending, an unknown class or reference, fewer than
            two samples or groups, `confidence_level` outside (0, 1), and whatever `check_counts`
            and `check_proba` refuse.
        """
        models = models_of(predictions)
        names = list(models)
        check_reference(reference, names)
        how: dict = {"thresholds": thresholds, "class_index": class_index}
        how |= {"sample_weight": sample_weight, "groups": groups, "raters": raters}
        how["confidence_level"] = confidence_level
        compared = "all" if reference is None else models[reference]
        curves = [decision_curve(y, z, **how) for z in models.values()]
        paired = [decision_curve(y, z, reference=compared, **how) for z in models.values()]
        return cls(
            names,
            curves[0].thresholds,
            np.array([curve.net_benefit for curve in curves]),
            np.array([curve.interval for curve in curves]),
            np.array([curve.net_benefit for curve in paired]),
            np.array([curve.interval for curve in paired]),
            curves[0].treat_all,
            reference=reference,
            confidence_level=confidence_level,
            class_name=curves[0].class_name,
        ).plot(ax, **plot_kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Estimator | dict[str, Estimator],
        X: Samples,
        y: LabelsLike,
        **kwargs: Any,
    ) -> Self:
        """Decision curves of fitted classifiers on one test set.

        Parameters
        ----------
        estimator : fitted classifier, or dict of these by name
        X : array-like of shape (n_samples, ...)
            Features of the samples.
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes. Named labels meet the estimator's classes by name. A
            class that the estimator never saw has probability 0.
        **kwargs
            As in `from_predictions`.

        Returns
        -------
        DecisionCurveDisplay

        Raises
        ------
        ValueError
            As `from_predictions`; an estimator that predicts no probabilities.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.naive_bayes import GaussianNB
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> model = GaussianNB().fit(X[:300], y[:300])
        >>> display = DecisionCurveDisplay.from_estimator(model, X[300:], y[300:], class_index=0)
        >>> display.names, display.class_name
        (['GaussianNB'], 0)
        """
        return cls.from_predictions(y, predicted_by_each(estimator, X, y), **kwargs)

    def plot(
        self, ax: "Axes | None" = None, *, line_kwargs: Styles = None, band_kwargs: Styles = None
    ) -> Self:
        """Draw the net benefit of the models, of acting on every sample, and on none.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        line_kwargs, band_kwargs : dict or list of dict, optional
            Passed on to matplotlib's `plot` (curves) and `fill_between` (intervals); a list has one
            for each model.

        Returns
        -------
        display
            Itself, with its artists.
        """
        self._take_axes(ax, WIDE)
        shown = dict(enumerate(self.names))
        self._draw(self.net_benefit, self.interval, shown, line_kwargs, band_kwargs)
        grey = DOTTED | {"linestyle": "-", "color": "0.6", "zorder": 1}
        (self.all_,) = self.ax_.plot(self.thresholds, self.treat_all, label="act on all", **grey)
        self.none_ = self.ax_.axhline(0, label="act on none", **DOTTED)
        top = 1.08 * max(self.net_benefit.max(), self.treat_all.max(), 1e-6)
        self.ax_.set_ylim(-_BELOW * top, top)
        self.ax_.set_ylabel("Net benefit (true alarms per sample)")
        self._draw_legend()
        return self

    def plot_differences(
        self, ax: "Axes | None" = None, *, line_kwargs: Styles = None, band_kwargs: Styles = None
    ) -> Self:
        """Draw the net benefit of the models minus that of the reference; above 0 they are better.

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
        shown = {i: name for i, name in enumerate(self.names) if name != self.reference}
        self._draw(self.difference, self.difference_interval, shown, line_kwargs, band_kwargs)
        what = self.reference or "acting on all"
        self.none_ = self.ax_.axhline(0, label=what, **DOTTED)
        self.ax_.set_ylabel(f"Net benefit minus that of {what}\n(true alarms per sample)")
        # where one acts on all, false alarms at high thresholds would fill the figure
        reach = max(self.net_benefit.max(), 1e-6)
        ends = np.clip(self.difference_interval[list(shown)], -reach, reach)
        self.ax_.set_ylim(ends.min() - 0.05 * reach, ends.max() + 0.05 * reach)
        self._draw_legend()
        return self

    def _draw(self, *curves) -> None:
        self.lines_, self.bands_ = draw_curves(self.ax_, self.thresholds, *curves)
        label = f"Threshold t: act where class {self.class_name} has probability t or more"
        self.ax_.set(xlabel=label, xlim=(0, 1))
