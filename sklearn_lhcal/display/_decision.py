"""Risk of decisions before and after calibration: true, self-assessed, in pairs, and over all ratios of two costs."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

from .._costs import check_cost_matrix
from .._simplex import check_proba
from ..distributions import Distribution
from ..metrics import (
    bayes_decision,
    confidence_interval,
    decision_risk,
    model_risk,
    paired_difference,
)
from ._base import _new_axes
from ._response import response

_SHARES = np.linspace(0, 1, 101)


class DecisionRiskDisplay:
    """Risk of the decisions of several models, on one or several test sets: what it is, and what they say it is.

    Make it with `from_predictions` or `from_estimator`. `plot` shows, for each model and split, the true risk (filled)
    and the risk that the model expects of its own decisions (open); the dotted line is the best constant decision.
    `plot_differences` shows the true risk of each model less that of a reference on the same rows; where a mistake is
    rare and expensive, this tells more than the risks themselves. `plot_cost_curves`, for two classes, shows the risk
    over all ratios of the costs of the two mistakes.

    **Intervals.** On one test set they are jackknife intervals over its rows. Over several they are Student's, for the
    mean over splits; repeated random splits of the same rows overlap, and `test_share` then widens them by Nadeau and
    Bengio's correction, their variance being multiplied by ``1/S + test_share/(1−test_share)`` in place of 1/S.

    Parameters
    ----------
    names : list of str
        The models.
    true_risk, model_risk : array-like of shape (n_models, n_splits)
        Risk on the test rows, and self-assessed risk, in the unit of the costs.
    interval : array-like of shape (n_models, 2)
        Ends of the interval of the mean true risk.
    difference_interval : array-like of shape (n_models, 2)
        Ends of the interval of the mean difference from the reference.
    constant_risk : array-like of shape (n_splits,)
        Risk of the best constant decision.
    curves : array-like of shape (n_models + 1, 101), optional
        Cost curves of the models, and of the better constant decision: the risk under costs s of a missed second class
        and 1 − s of a missed first one, for s from 0 to 1. None: more than two classes.
    reference : int, default=0
        Number of the model that differences are taken from.
    level : float, default=0.9
        Level of the intervals.

    Attributes
    ----------
    points_ : list of matplotlib Line2D
        True risks, or differences, of the splits, one artist a model.
    model_points_ : list of matplotlib Line2D
        Self-assessed risks.
    errorbar_ : matplotlib ErrorbarContainer
        Means and intervals.
    constant_ : matplotlib Line2D
        The best constant decision.
    lines_ : list of matplotlib Line2D
        Cost curves.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    legend_ : matplotlib Legend

    References
    ----------
    P4 Fig. 3; Drummond and Holte (2006), Cost curves; Nadeau and Bengio (2003), Inference for the generalization error.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(500, overconfidence=3.0, random_state=0)
    >>> u = np.log(data.prediction)
    >>> z = np.exp(u / 3) / np.exp(u / 3).sum(axis=1, keepdims=True)
    >>> models = {"overconfident": data.prediction, "calibrated": z}
    >>> costs = [[0, 1, 2], [5, 0, 1], [20, 3, 0]]
    >>> display = DecisionRiskDisplay.from_predictions(data.counts, models, costs)
    >>> (display.true_risk > display.model_risk).ravel()  # both err a little less, or more, than they say
    array([ True, False])
    """

    def __init__(
        self,
        names: list[str],
        true_risk: ArrayLike,
        model_risk: ArrayLike,
        interval: ArrayLike,
        difference_interval: ArrayLike,
        constant_risk: ArrayLike,
        curves: ArrayLike | None = None,
        *,
        reference: int = 0,
        level: float = 0.9,
    ):
        self.names = list(names)
        self.true_risk = np.asarray(true_risk)
        self.model_risk = np.asarray(model_risk)
        self.interval = np.asarray(interval)
        self.difference_interval = np.asarray(difference_interval)
        self.constant_risk = np.asarray(constant_risk)
        self.curves = None if curves is None else np.asarray(curves)
        self.reference = reference
        self.level = level

    @classmethod
    def from_predictions(
        cls,
        y,
        predictions,
        cost_matrix,
        *,
        reference: str | None = None,
        test_share: float | None = None,
        level: float = 0.9,
        ax=None,
        **plot_kwargs,
    ) -> "DecisionRiskDisplay":
        """Risks of the Bayes decisions from class probabilities.

        Parameters
        ----------
        y : label histogram of shape (n_samples, n_classes), or list of these
            Anything `check_counts` takes; a list where `predictions` is one.
        predictions : dict, list of dicts, or array-like of shape (n_samples, n_classes)
            Class probabilities, or distributions, of each model by its name; a list of such dicts, one for each split
            into calibration and test rows; or those of one model.
        cost_matrix : array-like or frame of shape (n_classes, n_decisions)
            As in `sklearn_lhcal.metrics.bayes_decision`.
        reference : str, optional
            The model that differences are taken from; None: the first.
        test_share : float, optional
            Where the splits are repeated random ones of the same rows: the share of the rows that test.
        level : float, default=0.9
            Level of the intervals.
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        **plot_kwargs
            Passed on to `plot`.

        Returns
        -------
        DecisionRiskDisplay

        Raises
        ------
        ValueError
            Splits with different models, an unknown reference, `level` or `test_share` outside (0, 1), and whatever
            `check_counts`, `check_proba` and the cost matrix's gate refuse.
        """
        for name, value in (("level", level), ("test_share", 0.5 if test_share is None else test_share)):
            if not 0 < value < 1:
                raise ValueError(f"{name} must lie between 0 and 1, got {value!r}.")
        splits = list(predictions) if isinstance(predictions, (list, tuple)) and _is_dict(predictions) else None
        ys, splits = ([y], [predictions]) if splits is None else (list(y), splits)
        splits = [split if isinstance(split, dict) else {"model": split} for split in splits]
        names = list(splits[0])
        if any(list(split) != names for split in splits) or len(ys) != len(splits):
            raise ValueError("Each split needs one y, and predictions of the same models.")
        if reference is not None and reference not in names:
            raise ValueError(f"reference must be one of the models {names}, got {reference!r}.")
        first = names[0] if reference is None else reference
        C = cost_matrix
        true, said = (
            np.array([[risk(rows, split[name]) for rows, split in zip(ys, splits, strict=True)] for name in names])
            for risk in (lambda rows, z: decision_risk(rows, bayes_decision(z, C), C), lambda _, z: model_risk(z, C))
        )
        constant = [
            min(decision_risk(rows, constant, C) for constant in _constants(C, len(split[first])))
            for rows, split in zip(ys, splits, strict=True)
        ]
        difference = true - true[names.index(first)]
        if len(ys) == 1:
            intervals, differences = _over_rows(
                ys[0], [splits[0][name] for name in names], names.index(first), C, level
            )
        else:
            intervals, differences = (_over_splits(values, test_share, level) for values in (true, difference))
        curves = _curves(ys, splits, names) if len(check_cost_matrix(C).C) == 2 else None
        options = {"reference": names.index(first), "level": level}
        display = cls(names, true, said, intervals, differences, constant, curves, **options)
        return display.plot(ax, **plot_kwargs)

    @classmethod
    def from_estimator(cls, estimator, X, y, cost_matrix=None, **kwargs) -> "DecisionRiskDisplay":
        """Risks of the Bayes decisions of fitted classifiers on one test set.

        Parameters
        ----------
        estimator : fitted classifier, or dict of these by name
            All with the same classes.
        X : array-like of shape (n_samples, ...)
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes; frames are aligned with the estimator's classes by name.
        cost_matrix : array-like or frame of shape (n_classes, n_decisions), optional
            Rows in the order of the estimator's classes, or named. None: that of the first fitted
            `DecisionCalibration` among the estimators.
        **kwargs
            As in `from_predictions`.

        Returns
        -------
        DecisionRiskDisplay

        Raises
        ------
        ValueError
            As `from_predictions`; no cost matrix at all.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.naive_bayes import GaussianNB
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> model = GaussianNB().fit(X[:300], y[:300])
        >>> display = DecisionRiskDisplay.from_estimator(model, X[300:], y[300:], [[0, 20], [1, 0]])
        >>> display.names
        ['GaussianNB']
        """
        models = estimator if isinstance(estimator, dict) else {type(estimator).__name__: estimator}
        found = {name: response(model, X, y) for name, model in models.items()}
        counts, _, classes = next(iter(found.values()))
        if cost_matrix is not None:
            costs = check_cost_matrix(cost_matrix, classes=classes).C
        else:
            known = [m.cost_matrix_ for m in models.values() if hasattr(m, "cost_matrix_")]
            if not known:
                raise ValueError("No estimator has a cost matrix; pass cost_matrix.")
            costs = check_cost_matrix(known[0], n_classes=len(classes)).C
        return cls.from_predictions(counts, {name: dist for name, (_, dist, _) in found.items()}, costs, **kwargs)

    def plot(self, ax=None, *, point_kwargs=None, model_kwargs=None, errorbar_kwargs=None):
        """Draw true and self-assessed risks.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        point_kwargs, model_kwargs, errorbar_kwargs : dict, optional
            Passed on to matplotlib's `plot` (true risks), `plot` (self-assessed ones) and `errorbar` (the mean of the
            true ones and its interval).

        Returns
        -------
        display
            Itself, with its artists.
        """
        self._axes(ax)
        self.points_, self.model_points_ = [], []
        x = np.arange(len(self.names))
        for i in x:
            sides = np.array([i - 0.06, i + 0.22])[:, None] * np.ones((1, self.true_risk.shape[1]))
            self.ax_.plot(sides, [self.true_risk[i], self.model_risk[i]], color="0.8", linewidth=0.7, zorder=1)
            style = {
                "marker": "o",
                "markersize": 4,
                "linestyle": "none",
                "color": f"C{i}",
                "label": None if i else "true",
            }
            self.points_ += self.ax_.plot(sides[0], self.true_risk[i], **style | (point_kwargs or {}))
            style |= {"markerfacecolor": "white", "label": None if i else "self-assessed"}
            self.model_points_ += self.ax_.plot(sides[1], self.model_risk[i], **style | (model_kwargs or {}))
        mean, constant = self.true_risk.mean(axis=1), self.constant_risk.mean()
        style = {"fmt": "_", "color": "0.15", "markersize": 9, "capsize": 3, "label": f"mean, {100 * self.level:g} %"}
        reach = np.abs(self.interval - mean[:, None]).T
        self.errorbar_ = self.ax_.errorbar(x - 0.22, mean, reach, **style | (errorbar_kwargs or {}))
        style = {"color": "0.35", "linewidth": 1, "linestyle": (0, (1, 1.5)), "label": "best constant decision"}
        self.constant_ = self.ax_.axhline(constant, **style)
        self.ax_.set(ylabel="Risk (mean cost)", xlim=(-0.5, len(x) - 0.5), xticks=x)
        self.ax_.set_xticklabels(self.names, rotation=20 if max(map(len, self.names)) > 10 else 0)
        self.legend_ = self.ax_.legend(fontsize="small")
        return self

    def plot_differences(self, ax=None, *, point_kwargs=None, errorbar_kwargs=None):
        """Draw the true risk of each model less that of the reference; below 0 it is the better one.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        point_kwargs, errorbar_kwargs : dict, optional
            Passed on to matplotlib's `plot` (splits) and `errorbar` (mean and interval).

        Returns
        -------
        display
            Itself, with its artists.
        """
        self._axes(ax)
        others = [i for i in range(len(self.names)) if i != self.reference]
        difference = self.true_risk - self.true_risk[self.reference]
        self.points_ = []
        for row, i in enumerate(others):
            style = {"marker": "o", "markersize": 4, "linestyle": "none", "color": f"C{i}", "alpha": 0.6}
            at = np.full(difference.shape[1], row - 0.15)
            self.points_ += self.ax_.plot(difference[i], at, **style | (point_kwargs or {}))
        mean = difference[others].mean(axis=1)
        style = {"fmt": "|", "color": "0.15", "markersize": 9, "capsize": 3, "label": f"mean, {100 * self.level:g} %"}
        reach = np.abs(self.difference_interval[others] - mean[:, None]).T
        self.errorbar_ = self.ax_.errorbar(
            mean, np.arange(len(others)) + 0.15, xerr=reach, **style | (errorbar_kwargs or {})
        )
        self.ax_.axvline(0, color="0.35", linewidth=1, linestyle=(0, (1, 1.5)))
        self.ax_.set(yticks=range(len(others)), ylim=(len(others) - 0.5, -0.5))
        self.ax_.set_yticklabels([self.names[i] for i in others])
        self.ax_.set_xlabel(f"Risk less that of {self.names[self.reference]} (mean cost)")
        self.legend_ = self.ax_.legend(fontsize="small")
        return self

    def plot_cost_curves(self, ax=None, *, line_kwargs=None):
        """Draw the risk over all ratios of the costs of the two mistakes; two classes only.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None makes a figure.
        line_kwargs : dict, optional
            Passed on to matplotlib's `plot`.

        Returns
        -------
        display
            Itself, with its artists.

        Raises
        ------
        ValueError
            More than two classes.
        """
        if self.curves is None:
            raise ValueError("Cost curves are for two classes; these predictions have more.")
        self._axes(ax)
        self.lines_ = []
        for name, curve in zip(self.names, self.curves, strict=False):
            self.lines_ += self.ax_.plot(_SHARES, curve, **{"linewidth": 1.5, "label": name} | (line_kwargs or {}))
        style = {"color": "0.35", "linewidth": 1, "linestyle": (0, (1, 1.5)), "label": "best constant decision"}
        (self.constant_,) = self.ax_.plot(_SHARES, self.curves[-1], **style)
        self.ax_.set(xlabel="Cost s of missing the second class (first: 1 − s)", xlim=(0, 1))
        self.ax_.set_ylabel("Risk (mean cost)")
        self.ax_.set_ylim(bottom=0)
        self.legend_ = self.ax_.legend(fontsize="small")
        return self

    def _axes(self, ax) -> None:
        self.ax_ = _new_axes() if ax is None else ax
        self.figure_ = self.ax_.figure


def _constants(C, n: int):
    """Each decision for all n rows."""
    costs = check_cost_matrix(C)
    return [costs.names(np.full(n, d)) for d in range(costs.C.shape[1])]


def _is_dict(predictions) -> bool:
    return len(predictions) > 0 and all(isinstance(split, dict) for split in predictions)


def _over_rows(y, predictions, reference: int, C, level: float):
    """Jackknife intervals of the risks and of the differences from the reference, each (n_models, 2)."""
    decisions = [bayes_decision(z, C) for z in predictions]
    options = {"cost_matrix": C, "level": level, "random_state": 0}
    single = [confidence_interval(decision_risk, y, d, **options) for d in decisions]
    paired = [paired_difference(decision_risk, y, d, decisions[reference], **options) for d in decisions]
    return tuple(np.array([(i.low, i.high) for i in found]) for found in (single, paired))


def _over_splits(values, test_share: float | None, level: float):
    """Student's interval of the mean over splits, (n_models, 2)."""
    S = values.shape[1]
    overlap = 0.0 if test_share is None else test_share / (1 - test_share)
    error = np.sqrt(values.var(axis=1, ddof=1) * (1 / S + overlap))
    reach = student.ppf((1 + level) / 2, S - 1) * error
    return values.mean(axis=1)[:, None] + reach[:, None] * np.array([-1.0, 1.0])


def _curves(ys, splits, names):
    """Risk at each share of the costs, means over splits: of the models, then of the better constant decision."""
    curves = np.zeros((len(names) + 1, len(_SHARES)))
    for y, split in zip(ys, splits, strict=True):
        for j, s in enumerate(_SHARES):
            C = np.array([[0.0, 1 - s], [s, 0.0]])
            for i, name in enumerate(names):
                z = split[name].mean() if isinstance(split[name], Distribution) else check_proba(split[name])
                curves[i, j] += decision_risk(y, bayes_decision(z, C), C)
            curves[-1, j] += min(decision_risk(y, constant, C) for constant in _constants(C, len(z)))
    return curves / len(ys)
