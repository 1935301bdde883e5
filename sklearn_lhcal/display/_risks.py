"""What a display of decisions shows: their risks on test rows, intervals and cost curves."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._rows import Rows, read_with_costs
from .._utils.costs import Costs, bayes_columns, expected_cost
from .._utils.names import sorted_names
from ..metrics import (
    confidence_interval,
    cost_curve,
    decision_risk,
    interval_over_splits,
    paired_difference,
)
from ._base import models_of

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
            Decided(read_with_costs(y, split[name], costs, None, groups), costs)
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
    """Intervals of the means over splits, of values (n, n_splits), shape (n, 2)."""
    how: dict[str, Any] = {"test_fraction": test_share, "confidence_level": confidence_level}
    found = [interval_over_splits(of, **how) for of in values]
    return np.array([(interval.low, interval.high) for interval in found])


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
    how: dict[str, Any] = {"raters": raters, "confidence_level": confidence_level}
    curves = [
        [
            cost_curve(split.rows.labels, split.rows.distribution, groups=split.rows.groups, **how)
            for split in model
        ]
        for model in models
    ]
    # (n_models, n_splits, 101); the constant decision is the same for all models
    risk = np.array([[curve.risk for curve in model] for model in curves])
    ends = [model[0].interval for model in curves]
    if risk.shape[1] > 1:
        ends = [_over_splits(of.T, test_share, confidence_level) for of in risk]
    default = np.mean([curve.default_risk for curve in curves[-1]], axis=0)
    return {
        "curves": np.vstack([risk.mean(axis=1), default]),
        "curve_interval": np.array(ends),
        "class_names": None if classes is None else classes.tolist(),
    }
