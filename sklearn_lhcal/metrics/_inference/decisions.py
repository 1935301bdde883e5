"""Decisions of several models: net benefit and cost curves, risks and their differences."""

from collections.abc import Hashable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..._rows import PredictionLike, Rows, class_column, class_names, read_rows, read_with_costs
from ..._utils.checks import as_floats, checked
from ..._utils.costs import Costs, bayes_columns, check_cost_matrix, expected_cost
from ..._utils.names import positions, sorted_names
from ..._utils.results import DataFrame, fields, frame_of, result
from ..._utils.types import ArrayLike, Floats, Groups, Indices, LabelsLike, NDArray, Raters, Weights
from .._decision import acts_on, benefits, decision_risk
from .intervals import confidence_interval, interval_over_splits, paired_difference
from .means import intervals_of_means
from .two_way import kind_of_raters

Models = PredictionLike | Mapping[str, PredictionLike]


def models_of(prediction: Models) -> dict[str, Any]:
    """Predictions by the names of their models; one alone is that of "model"."""
    if not isinstance(prediction, Mapping):
        return {"model": prediction}
    if not prediction:
        raise ValueError("prediction is an empty dict; give predictions by the names of models.")
    return dict(prediction)


def check_reference(reference: str | None, models: dict) -> None:
    """ValueError for a reference that is none of the models."""
    if reference is not None and reference not in models:
        raise ValueError(f"reference must be one of the models {list(models)}, got {reference!r}.")


@result
class DecisionCurve(NamedTuple):
    """What `decision_curve` returns, of M models at T thresholds.

    Attributes
    ----------
    names : list of str
        The models.
    thresholds : ndarray of shape (T,)
    net_benefit : ndarray of shape (M, T)
    interval : ndarray of shape (M, T, 2)
    difference : ndarray of shape (M, T)
        Net benefit minus that of the reference.
    difference_interval : ndarray of shape (M, T, 2)
    treat_all : ndarray of shape (T,)
        Net benefit of acting on every sample.
    reference : str or None
        What differences are taken from; None: acting on every sample.
    class_name : object
        The class that calls for acting.
    confidence_level : float
    raters : {"random", "fixed"}
        Whether intervals are for new raters, or for these.
    """

    names: list
    thresholds: Floats
    net_benefit: Floats
    interval: Floats
    difference: Floats
    difference_interval: Floats
    treat_all: Floats
    reference: str | None
    class_name: Any
    confidence_level: float
    raters: str

    def to_frame(self) -> "DataFrame":
        """A pandas DataFrame, one row for each model and threshold."""
        index = {"model": self.names, "threshold": self.thresholds}
        return frame_of(index, **fields(self, "net_benefit", "treat_all"))


@checked
def decision_curve(
    y: LabelsLike,
    prediction: Models,
    *,
    reference: str | None = None,
    thresholds: ArrayLike | None = None,
    class_index: int | Hashable | None = None,
    sample_weight: Weights = None,
    groups: Groups = None,
    raters: Raters = None,
    confidence_level: float = 0.95,
) -> DecisionCurve:
    """Net benefit of acting on a prediction at each threshold, with intervals.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes.
    prediction : array-like of shape (n_samples, n_classes) or (n_samples,), Distribution or dict
        Class probabilities; a dict holds those of several models by their names.
    reference : str, optional
        The model that differences are taken from. None: acting on every sample.
    thresholds : array-like of shape (n_thresholds,), optional
        Ascending probabilities below 1. None: 0.01, 0.02, …, 0.99.
    class_index : int or class name, optional
        The class that calls for acting; None: the second of two.
    sample_weight, groups, raters, confidence_level
        As in `confidence_interval`.

    Returns
    -------
    DecisionCurve

    Raises
    ------
    ValueError
        Thresholds outside [0, 1) or not ascending, an unknown class or model, fewer than two
        samples or groups, and whatever `net_benefit` and `confidence_interval` refuse.

    See Also
    --------
    net_benefit : At one threshold.

    Notes
    -----
    Intervals are Student's at each threshold: the benefit of a sample is a number, and its mean has
    a standard error. Where few samples have another benefit than the others, it is wider. Samples
    are independent, or groups of samples; the raters of a sample need not be. With `Annotations` it
    is that of `confidence_interval`, for new raters too. Of a difference, the samples are the same,
    and what both share cancels. An interval holds at each threshold, not at all of them at once:
    read it off at a threshold that was chosen beforehand.

    Where fewer than 20 samples or groups are apart from the others, intervals are those of
    `paired_difference` for few samples. Where no sample calls for acting, the net benefit is 0; the
    interval is of as many samples that would as may be by chance, whatever their labels.

    Examples
    --------
    >>> curve = decision_curve([0, 0, 1, 1], [0.2, 0.4, 0.6, 0.8], thresholds=[0.1, 0.5])
    >>> curve.net_benefit.round(3)
    array([[0.444, 0.5  ]])
    """
    models = models_of(prediction)
    check_reference(reference, models)
    t = np.arange(1, 100) / 100 if thresholds is None else _checked(thresholds)
    rows = {z: read_rows(y, models[z], sample_weight, groups).weighted() for z in models}
    column = {name: class_column(class_index, own) for name, own in rows.items()}
    acts = {name: acts_on(own, [column[name]], t) for name, own in rows.items()}
    alone: list = []
    paired: list = []
    for name, own in rows.items():
        values = partial(benefits, k=[column[name]], t=t)
        # what a sample may do that acts otherwise than the reference
        moves = [-1] if reference is None else [1, -1]
        compared = acts[name] - (1 if reference is None else acts[reference])
        if reference is not None and models[reference] is models[name]:
            moves = []
        for found, a, others in ((alone, acts[name], [1]), (paired, compared, moves)):
            elsewhere = [partial(values, acts=np.where(a.any(axis=0), a, move)) for move in others]
            of_rows = partial(values, acts=a)
            found.append(
                intervals_of_means(of_rows, own, raters, confidence_level, elsewhere=elsewhere)
            )
    first = next(iter(rows.values()))
    k = next(iter(column.values()))
    mu = np.average(first.mu[:, k], weights=first.w)
    benefit, interval = map(np.array, zip(*alone, strict=True))
    difference, difference_interval = map(np.array, zip(*paired, strict=True))
    return DecisionCurve(
        names=list(models),
        thresholds=t,
        net_benefit=benefit,
        interval=interval,
        difference=difference,
        difference_interval=difference_interval,
        treat_all=mu - (1 - mu) * t / (1 - t),
        reference=reference,
        class_name=class_names(first)[k],
        confidence_level=confidence_level,
        raters=kind_of_raters(first.labels, raters),
    )


def _checked(thresholds) -> Floats:
    t = as_floats(thresholds, "thresholds")
    if t.ndim != 1 or not t.size or not ((t >= 0) & (t < 1)).all() or (np.diff(t) <= 0).any():
        raise ValueError(
            "thresholds must be ascending probabilities, at least 0 and below 1, in a 1-D array."
        )
    return t


@result
class CostCurve(NamedTuple):
    """What `cost_curve` returns, of M models.

    Attributes
    ----------
    names : list of str
        The models.
    share : ndarray of shape (101,)
        Cost of a missed second class; a missed first one costs the rest of 1.
    risk : ndarray of shape (M, 101)
        Mean cost of the Bayes decisions at these costs.
    interval : ndarray of shape (M, 101, 2)
    default_risk : ndarray of shape (101,)
        Mean cost of the best default decision.
    class_names : list of two or None
        The classes, in sorted order; None where they have no names.
    confidence_level : float
    raters : {"random", "fixed"}
        Whether intervals are for new raters, or for these.
    """

    names: list
    share: Floats
    risk: Floats
    interval: Floats
    default_risk: Floats
    class_names: list | None
    confidence_level: float
    raters: str

    def to_frame(self) -> "DataFrame":
        """A pandas DataFrame, one row for each model and share."""
        index = {"model": self.names, "share": self.share}
        return frame_of(index, **fields(self, "risk", "default_risk"))


@checked
def cost_curve(
    y: LabelsLike,
    prediction: Models,
    *,
    sample_weight: Weights = None,
    groups: Groups = None,
    raters: Raters = None,
    confidence_level: float = 0.95,
) -> CostCurve:
    """Mean cost of Bayes decisions between two classes, for all ratios of their costs.

    Parameters
    ----------
    y : label histogram of shape (n_samples, 2)
        Anything `check_counts` takes.
    prediction : array-like of shape (n_samples, 2) or (n_samples,), Distribution or dict
        Class probabilities; a dict holds those of several models by their names. Classes are in
        sorted order.
    sample_weight, groups, raters, confidence_level
        As in `confidence_interval`.

    Returns
    -------
    CostCurve

    Raises
    ------
    ValueError
        More than two classes, fewer than two samples or groups, and whatever `confidence_interval`
        refuses.

    References
    ----------
    Drummond and Holte (2006), Cost curves.

    Examples
    --------
    >>> curve = cost_curve([0, 0, 1, 1], [0.2, 0.4, 0.6, 0.3])
    >>> float(curve.risk[0, 50])  # a quarter is decided wrongly, at a cost of 1/2
    0.125
    """
    models = models_of(prediction)
    share = np.linspace(0, 1, 101)
    found = []
    for z in models.values():
        rows = read_rows(y, z, sample_weight, groups).weighted()
        if (K := rows.z.shape[1]) != 2:
            raise ValueError(f"A cost curve is of two classes; y and prediction have {K}.")
        columns = np.arange(2)
        if rows.classes is not None:
            columns = positions(rows.classes, sorted_names(rows.classes))
        p = rows.z[:, columns]
        # costs of deciding for the first and the second class; ties go to the first
        second = (1 - share) * p[:, :1] < share * p[:, 1:]

        def values(
            rows: Rows, at: Indices, columns: Indices = columns, second: NDArray = second
        ) -> Floats:
            mu = rows.mu[:, columns]
            return np.where(second[at], (1 - share) * mu[:, :1], share * mu[:, 1:])

        found.append(intervals_of_means(values, rows, raters, confidence_level))
    mu = np.average(rows.mu[:, columns], axis=0, weights=rows.w)
    risk, interval = map(np.array, zip(*found, strict=True))
    return CostCurve(
        names=list(models),
        share=share,
        risk=risk,
        interval=interval,
        default_risk=np.minimum((1 - share) * mu[0], share * mu[1]),
        class_names=None if rows.classes is None else sorted_names(rows.classes).tolist(),
        confidence_level=confidence_level,
        raters=kind_of_raters(rows.labels, raters),
    )


@result
class DecisionRisks(NamedTuple):
    """What `decision_risks` returns, of M models on S test sets, in the unit of the costs.

    Attributes
    ----------
    names : list of str
        The models.
    true_risk, model_risk : ndarray of shape (M, S)
        Mean cost of the decisions by the labels, and as the model itself estimates it.
    interval : ndarray of shape (M, 2)
        For the mean true risk.
    difference : ndarray of shape (M, S)
        True risk minus that of the reference.
    difference_interval : ndarray of shape (M, 2)
        For the mean difference.
    default_risk : ndarray of shape (S,)
        Risk of the best default decision.
    reference : str
        What differences are taken from.
    confidence_level : float
    raters : {"random", "fixed"}
        Whether intervals are for new raters, or for these; those of several sets are over sets.
    """

    names: list
    true_risk: Floats
    model_risk: Floats
    interval: Floats
    difference: Floats
    difference_interval: Floats
    default_risk: Floats
    reference: str
    confidence_level: float
    raters: str

    def to_frame(self) -> "DataFrame":
        """A pandas DataFrame, one row for each model; means over the test sets."""
        return frame_of(
            {"model": self.names},
            true_risk=self.true_risk.mean(axis=1),
            interval=self.interval,
            model_risk=self.model_risk.mean(axis=1),
            difference=self.difference.mean(axis=1),
            difference_interval=self.difference_interval,
        )


class _Decided:
    """The Bayes decisions of one model on one test set; they are column numbers from here on."""

    def __init__(self, rows: Rows, costs: Costs):
        self.rows = rows
        costs = costs.for_classes(rows.classes, rows.z.shape[1])
        self.costs = costs._replace(decisions=None)
        C = self.costs.C
        self.d = bayes_columns(rows.z, C)
        self.true_risk = expected_cost(rows.mu, self.d, C).mean()
        self.model_risk = expected_cost(rows.z, self.d, C).mean()
        self.default_risk = (rows.mu.mean(axis=0) @ C).min()


@checked
def decision_risks(
    y: LabelsLike | list[LabelsLike],
    prediction: Models | list[Mapping[str, PredictionLike]],
    cost_matrix: ArrayLike,
    *,
    reference: str | None = None,
    test_fraction: float | None = None,
    groups: Groups = None,
    raters: Raters = None,
    confidence_level: float = 0.95,
) -> DecisionRisks:
    """Risks of the Bayes decisions of models, on one test set or several, and their differences.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes), or list of these
        Anything `check_counts` takes; a list where `prediction` is one.
    prediction : array-like of shape (n_samples, n_classes), Distribution, dict, or list of dicts
        Class probabilities; a dict holds those of each model by its name. A list holds one such
        dict for each split into calibration and test samples.
    cost_matrix : array-like or frame of shape (n_classes, n_decisions)
        As in `bayes_decision`: named classes meet those of labels and predictions by name.
    reference : str, optional
        The model that differences are taken from; None: the first.
    test_fraction : float, optional
        The share of the samples that test, where the splits are repeated random ones of the same
        samples, as in `interval_over_splits`. None: the splits do not overlap.
    groups : array-like of shape (n_samples,), optional
        Samples of one group (one patient, say) are dependent: intervals take them together. For
        one test set; the intervals of several splits are over splits.
    raters : {"random", "fixed"}, optional
        Whether the intervals of one test set are for new raters, which needs `Annotations`, or
        for these. None: "random" with `Annotations`, else "fixed", as in `confidence_interval`.
    confidence_level : float, default=0.95
        Level of the intervals.

    Returns
    -------
    DecisionRisks

    Raises
    ------
    ValueError
        Splits with different models, groups for several splits, an unknown reference, a level
        or share outside (0, 1), other classes than the cost matrix has, or an unknown order.

    Notes
    -----
    On one test set intervals are the jackknife's over its samples; over several, Student's for the
    mean over splits. Repeated random splits of the same samples overlap: with `test_fraction` the
    variance is multiplied by ``1/S + test_fraction/(1 − test_fraction)`` in place of 1/S.

    References
    ----------
    P4 Fig. 3; Nadeau and Bengio (2003), Inference for the generalization error.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(500, overconfidence=3.0, random_state=0)
    >>> risks = decision_risks(data.counts, data.prediction, [[0, 1, 2], [5, 0, 1], [20, 3, 0]])
    >>> risks.true_risk > risks.model_risk  # larger than the model says
    array([[ True]])
    """
    ys, splits = _splits_of(y, prediction)
    names = list(splits[0])
    check_reference(reference, splits[0])
    if groups is not None and len(ys) > 1:
        raise ValueError("groups are for one test set; intervals of splits are over splits.")
    costs = check_cost_matrix(cost_matrix)
    # (n_models, n_splits)
    models = [
        [
            _Decided(read_with_costs(labels, split[name], costs, None, groups), costs)
            for labels, split in zip(ys, splits, strict=True)
        ]
        for name in names
    ]
    reference = names[0] if reference is None else reference
    first = models[names.index(reference)]
    risk = np.array([[split.true_risk for split in model] for model in models])
    difference = risk - risk[names.index(reference)]
    if len(ys) == 1:
        options: dict = {"confidence_level": confidence_level, "random_state": 0}
        options |= {"groups": first[0].rows.groups, "raters": raters}
        one = [model[0] for model in models]
        alone = [
            confidence_interval(decision_risk, m.rows.labels, m.d, cost_matrix=m.costs, **options)
            for m in one
        ]
        # decisions are column numbers, whatever the order of a model's classes
        y, options["cost_matrix"] = first[0].rows.labels, first[0].costs
        paired = [paired_difference(decision_risk, y, m.d, first[0].d, **options) for m in one]
    else:
        options = {"confidence_level": confidence_level, "test_fraction": test_fraction}
        alone, paired = (
            [interval_over_splits(v, **options) for v in of] for of in (risk, difference)
        )
    return DecisionRisks(
        names=names,
        true_risk=risk,
        model_risk=np.array([[split.model_risk for split in model] for model in models]),
        interval=np.array([interval[1:3] for interval in alone]),
        difference=difference,
        difference_interval=np.array([interval[1:3] for interval in paired]),
        default_risk=np.array([split.default_risk for split in first]),
        reference=reference,
        confidence_level=confidence_level,
        raters=kind_of_raters(first[0].rows.labels, raters),
    )


def _splits_of(y, prediction) -> tuple[list, list[dict]]:
    """One label histogram and one dict of predictions for each split."""
    several = isinstance(prediction, (list, tuple)) and len(prediction)
    if not several or not all(isinstance(split, dict) for split in prediction):
        y = [y]
        prediction = [prediction]
    splits = [models_of(split) for split in prediction]
    if any(list(split) != list(splits[0]) for split in splits) or len(y) != len(splits):
        raise ValueError("Each split needs one y, and predictions of the same models.")
    return y, splits
