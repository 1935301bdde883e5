"""What a display of decisions shows: their risks on test rows, intervals and cost curves."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._ground.costs import Costs, bayes_columns, expected_cost
from .._ground.names import sorted_names
from .._rows import Rows, random_raters, read_priced
from ..metrics import confidence_interval, decision_risk, paired_difference
from ._base import models_of
from ._bins import mean_interval, student_interval

# the cost of a missed second class; a missed first one costs the rest of 1
SHARES = np.linspace(0, 1, 101)


def splits_of(y, predictions) -> tuple[list, list, list]:
    """One label histogram and one dict of predictions for each split, and the models' names."""
    if not _are_splits(predictions):
        y = [y]
        predictions = [predictions]
    splits = [models_of(split) for split in predictions]
    names = list(splits[0])
    if any(list(split) != names for split in splits) or len(y) != len(splits):
        raise ValueError("Each split needs one y, and predictions of the same models.")
    return y, splits, names


def _are_splits(predictions) -> bool:
    if not isinstance(predictions, (list, tuple)) or not len(predictions):
        return False
    return all(isinstance(split, dict) for split in predictions)


class Decided:
    """The Bayes decisions of one model on one split; they are column numbers from here on."""

    def __init__(self, rows: Rows, costs: Costs):
        self.rows = rows
        self.costs = costs.for_classes(rows.classes, rows.z.shape[1])._replace(decisions=None)
        C = self.costs.C
        self.d = bayes_columns(rows.z, C)
        self.true_risk = expected_cost(rows.mu, self.d, C).mean()
        self.model_risk = expected_cost(rows.z, self.d, C).mean()
        self.constant_risk = (rows.mu.mean(axis=0) @ C).min()

    @property
    def sorted_classes(self) -> NDArray | None:
        """Names of the classes, sorted; None where they have none."""
        classes = self.costs.classes
        if classes is None:
            return None
        return sorted_names(classes)

    def curve(self) -> list["Decided"]:
        """The decisions at each share of the costs."""
        names = self.sorted_classes
        matrices = [np.array([[0.0, 1 - s], [s, 0.0]]) for s in SHARES]
        return [Decided(self.rows, Costs(C, names, None)) for C in matrices]

    def interval(self, confidence_level: float, raters: str | None) -> NDArray:
        """Ends of the interval of the risk, (2,), over rows, or over rows and raters."""
        rows = self.rows
        if random_raters(rows.labels, raters) is None:
            cost = expected_cost(rows.mu, self.d, self.costs.C)
            w = rows.weight / rows.weight.sum()
            return mean_interval(cost, w, rows.groups, confidence_level)[1]
        found = confidence_interval(
            decision_risk,
            rows.labels,
            self.d,
            cost_matrix=self.costs,
            groups=rows.groups,
            confidence_level=confidence_level,
            random_state=0,
        )
        return np.array([found.low, found.high])


def known_costs(models: dict) -> Costs:
    """The cost matrix of the first of the fitted estimators that has one."""
    known: list[Any] = [m for m in models.values() if hasattr(m, "cost_matrix_")]
    if not known:
        raise ValueError("No estimator has a cost matrix; pass cost_matrix.")
    return Costs(known[0].cost_matrix_, np.asarray(known[0].classes_), None)


def decide(ys, splits: list[dict], names: list, costs: Costs, groups) -> list[list[Decided]]:
    """The decisions of each model on each split, (n_models, n_splits)."""
    return [
        [
            Decided(read_priced(y, split[name], costs, None, groups), costs)
            for y, split in zip(ys, splits, strict=True)
        ]
        for name in names
    ]


def intervals(
    models: list[list[Decided]],
    first: int,
    confidence_level: float,
    test_share: float | None,
    raters: str | None,
) -> list[NDArray]:
    """Intervals of the risks and of the differences from the reference, (n_models, 2).

    Over the rows of one split, or over several splits.
    """
    if len(models[0]) == 1:
        alone = [model[0] for model in models]
        return _over_rows(alone, first, confidence_level, raters)
    risk = true_risks(models)
    values = (risk, risk - risk[first])
    return [_over_splits(v, test_share, confidence_level) for v in values]


def true_risks(models: list[list[Decided]]) -> NDArray:
    """The true risk of each model on each split, (n_models, n_splits)."""
    return np.array([[decided.true_risk for decided in model] for model in models])


def _over_rows(
    models: list[Decided], first: int, confidence_level: float, raters: str | None
) -> list[NDArray]:
    """Jackknife intervals of the risks and of the differences from the reference, (n_models, 2)."""
    how: dict[str, Any] = {"confidence_level": confidence_level, "random_state": 0}
    how |= {"groups": models[0].rows.groups, "raters": raters}
    single = [
        confidence_interval(
            decision_risk, model.rows.labels, model.d, cost_matrix=model.costs, **how
        )
        for model in models
    ]
    # decisions are column numbers, whatever the order of a model's classes
    reference = models[first]
    y = reference.rows.labels
    how["cost_matrix"] = reference.costs
    paired = [paired_difference(decision_risk, y, model.d, reference.d, **how) for model in models]
    return [np.array([(i.low, i.high) for i in found]) for found in (single, paired)]


def _over_splits(values, test_share: float | None, confidence_level: float) -> NDArray:
    """Student's interval of the mean over splits, (n_models, 2)."""
    S = values.shape[1]
    share = test_share or 0.0
    error = np.sqrt(values.var(axis=1, ddof=1) * (1 / S + share / (1 - share)))
    return student_interval(values.mean(axis=1), error, S - 1, confidence_level)


def of_two_classes(
    models: list[list[Decided]],
    confidence_level: float,
    test_share: float | None,
    raters: str | None,
) -> dict[str, Any]:
    """Cost curves, and the names of the classes where they have names; nothing for more classes."""
    one = models[0][0]
    if len(one.costs.C) != 2:
        return {}
    classes = one.sorted_classes
    curves = [[decided.curve() for decided in model] for model in models]
    # (n_models, n_splits, 101); the constant decision is the same for all models
    risk = np.array([[[at.true_risk for at in curve] for curve in model] for model in curves])
    constant = [[at.constant_risk for at in curve] for curve in curves[-1]]
    if risk.shape[1] == 1:
        alone = [[at.interval(confidence_level, raters) for at in curve] for (curve,) in curves]
        ends = np.array(alone)
    else:
        ends = np.array([_over_splits(a.T, test_share, confidence_level) for a in risk])
    return {
        "curves": np.vstack([risk.mean(axis=1), np.mean(constant, axis=0)]),
        "curve_interval": ends,
        "class_names": None if classes is None else classes.tolist(),
    }
