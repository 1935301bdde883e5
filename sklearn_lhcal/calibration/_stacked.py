"""Stacking of scaling maps: their mixture, with weights that were found out of fold."""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, softmax
from tqdm.auto import tqdm

from .._ground.arrays import Floats
from .._ground.checks import check_positive_int
from .._ground.problems import SmoothProblem, Solver
from .._ground.simplex import softmax as softmax_rows
from .._ground.types import Calibrated, Folds, Seed
from ..distributions import Distribution
from ..neural_network import Newton
from ._affine import AffineMap, BiasCorrectedMap, TemperatureMap, VectorMap, transform
from ._fitted_map import FittedMap, floor_shape, seen, warn
from ._folds import deal
from ._rows import CalibrationRows
from ._scaling_base import Scaling
from ._shrinkage import Average, fit_temperature

# The maps that are stacked, from few to many parameters, by the names of their parameters.
FAMILIES: dict[str, Callable[[int], AffineMap]] = {
    "temperature": TemperatureMap,
    "bias_corrected": BiasCorrectedMap,
    "vector": VectorMap,
}
# Rows by which the temperature is preferred where the others are no better.
_PSEUDO_ROWS = 3.0
# The least probability that has a logarithm.
_TINY = 1e-300

Solve = Callable[..., Floats]


class StackedMap(NamedTuple):
    """z = Σ_m w_m z_m over maps m of the same logits.

    Parameters
    ----------
    maps : list of FittedMap
        With one floor, or none.
    weights : ndarray of shape (M,)
        w, with sum 1.
    """

    maps: list[FittedMap]
    weights: Floats

    def attributes(self) -> dict:
        """What users know the parameters by."""
        parameters = dict(zip(FAMILIES, (one.attributes() for one in self.maps), strict=True))
        learnt = {"weights_": self.weights, "parameters_": parameters}
        if self.floor is not None:
            learnt |= {"floor_": self.floor, "floor_weight_": self._floor_weight()}
        return learnt

    @property
    def floor(self) -> Floats | None:
        """π of all maps, or None."""
        return self.maps[0].floor

    def distribution(self, rows: CalibrationRows) -> Distribution:
        """Class probabilities of points; each member of an ensemble is stacked.

        Σ_m w_m [(1−e_m) p_m + e_m π] = (1−e) p + e π, with e = Σ_m w_m e_m and p the mean of p_m
        under weights w_m (1−e_m): a map at temperature 1 with one floor.
        """
        share = self.weights * [1 - expit(one.eta) for one in self.maps]
        share = share / share.sum()
        p = np.zeros_like(rows.log_proba)
        for part, one in zip(share, self.maps, strict=True):
            p += part * softmax_rows(transform(rows.log_proba, *one.family.affine(one.x)))
        family = TemperatureMap(rows.n_classes)
        eta = float(logit(self._floor_weight()))
        whole = FittedMap(family, family.start(), self.floor, eta)
        return whole.distribution(replace(rows, log_proba=np.log(np.maximum(p, _TINY))))

    def _floor_weight(self) -> float:
        return float(self.weights @ [expit(one.eta) for one in self.maps])


class StackAtTemperature(NamedTuple):
    """A stack whose probabilities are at another temperature."""

    stack: StackedMap
    last: FittedMap

    @property
    def floor(self) -> Floats | None:
        """π of the stack, or None."""
        return self.stack.floor

    def attributes(self) -> dict:
        """What users know the parameters by."""
        return self.stack.attributes() | self.last.attributes()

    def distribution(self, rows: CalibrationRows) -> Distribution:
        """What the stack predicts, with that temperature on top."""
        found = self.stack.distribution(rows)
        if self.last.x[0] == 0:
            return found
        return self.last.distribution(CalibrationRows.of(found))


class Solutions(NamedTuple):
    """The maps on all rows: the temperature, and averages over strengths of the others."""

    T: Floats
    averages: list[Average]

    @classmethod
    def of(cls, rows: CalibrationRows, floor, solve: Solve) -> "Solutions":
        """Fit the temperature, and shrink the other maps towards it."""
        T = fit_temperature(rows, floor, solve)
        families = [BiasCorrectedMap(rows.n_classes), VectorMap(rows.n_classes)]
        return cls(T, [Average.of(family, rows, floor, solve, T) for family in families])

    def maps(self, K: int, floor) -> list[FittedMap]:
        """One map of each family, in the order of `FAMILIES`."""
        return _maps(K, floor, [self.T, *(average.x for average in self.averages)])

    def on(self, rows: CalibrationRows, floor, solve: Solve) -> list[FittedMap]:
        """The maps of a fold; their fits start from these, as most rows are the same."""
        T = fit_temperature(rows, floor, solve, self.T)
        return _maps(
            rows.n_classes, floor, [T, *(one.on(rows, floor, solve, T) for one in self.averages)]
        )


def _maps(K: int, floor, parameters: list) -> list[FittedMap]:
    return [
        FittedMap.of(family(K), x, floor)
        for family, x in zip(FAMILIES.values(), parameters, strict=True)
    ]


def fit_stack(
    rows: CalibrationRows, floor: str | None, n_folds: int, solve: Solve, verbose: int = 0
) -> tuple[StackedMap, CalibrationRows]:
    """The stack, and the rows as stacks of maps that did not see them predict them.

    Weights are those of least log loss of the out-of-fold predictions.
    """
    pi = floor_shape(floor, rows)
    solutions = Solutions.of(rows, pi, solve)
    maps = solutions.maps(rows.n_classes, pi)
    splits = deal(rows, max(min(n_folds, len(rows)), 1))
    if len(splits) < 2:
        stack = StackedMap(maps, np.eye(len(maps))[0])
        return stack, rows.mapped(stack.distribution(rows), None)
    fold_maps = []
    z = np.empty((len(maps), *rows.counts.shape))
    for train, test in tqdm(splits, desc="stack", disable=not verbose):
        part = rows.take(train)
        fitted = solutions.on(part, floor_shape(floor, part), solve)
        fold_maps.append(fitted)
        held_out = rows.take(test)
        z[:, test] = [one.distribution(held_out).mean() for one in fitted]
    weights = best_weights(z, rows)
    predicted = [
        rows.take(test).mapped(StackedMap(fitted, weights).distribution(rows.take(test)), None)
        for fitted, (_, test) in zip(fold_maps, splits, strict=True)
    ]
    order = np.argsort(np.concatenate([test for _, test in splits]), kind="stable")
    joined = CalibrationRows.joined(predicted).take(order)
    kept = {"counts": rows.counts, "weight": rows.weight, "classes": rows.classes}
    return StackedMap(maps, weights), replace(joined, known=rows.known, **kept)


def best_weights(z: NDArray, rows: CalibrationRows) -> Floats:
    """w (M,) of least Σ −y log(Σ_m w_m z_m) for z (M, n, K), concave; the first is preferred."""
    i, k = np.nonzero(rows.counts)
    n_rows = rows.weight.sum()
    y = rows.label_shares[i, k]
    Z = np.maximum(z[:, i, k], _TINY)
    # Pseudo-rows, of which all is due to the first map.
    extra = np.zeros(len(z))
    extra[0] = _PSEUDO_ROWS / n_rows

    def loss(a):
        w = softmax(a)
        parts = w[:, None] * Z
        mixed = parts.sum(axis=0)
        r = parts / mixed
        total = 1 + extra.sum()
        F = -float(y @ np.log(mixed)) - float(extra @ np.log(np.maximum(w, _TINY)))
        G = total * w - r @ y - extra
        H = (r * y) @ r.T - np.diag(r @ y) + total * (np.diag(w) - np.outer(w, w))
        return F, G, H

    return softmax(Newton().solve(SmoothProblem(loss, np.zeros(len(z)))))


class StackedCalibration(Scaling):
    """Mixes three scalings of the logits, with weights that were found out of fold.

    ``z = Σ_m w_m z_m`` over `TemperatureScaling`, `BiasCorrectedTemperatureScaling` and
    `VectorScaling`, each with its floor. The weights minimise the log loss of predictions for rows
    that the maps were not fitted on, a concave problem. A prior of three rows' worth of labels
    favours the temperature, so that with few rows the stack stays near it.

    Rows are dealt to the folds by their votes and predictions, so that their order does not matter.
    Around an ensemble each member is stacked.

    Fits: three maps on all rows, and three on each of the `inner_cv` folds.

    Parameters
    ----------
    estimator : classifier, default=None
        As in `TemperatureScaling`.
    floor : {"uniform", "prior", None}, default="uniform"
        As in `TemperatureScaling`.
    inner_cv : int, default=5
        Number of folds for the weights.
    cv, solver, random_state, verbose
        As in `TemperatureScaling`.

    Attributes
    ----------
    weights_ : ndarray of shape (3,)
        w, of the temperature, the bias-corrected temperature and vector scaling; with sum 1.
    parameters_ : dict of dicts
        Parameters of the maps, by the names "temperature", "bias_corrected" and "vector".
    floor_weight_ : float
        Weight of the floor in the mixture, where there is a floor.
    floor_ : ndarray of shape (n_classes,)
        π, where there is a floor.
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.
    estimator_ : classifier
        The fitted classifier.

    Warns
    -----
    UserWarning
        As `TemperatureScaling` does.

    Raises
    ------
    ValueError
        An unknown floor, an `inner_cv` that is no positive int.

    References
    ----------
    Wolpert (1992), Stacked generalization. Van der Laan, Polley and Hubbard (2007), Super learner.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(600, overconfidence=3.0, random_state=0)
    >>> calibrator = StackedCalibration("proba").fit(data.prediction, data.counts)
    >>> calibrator.weights_.shape
    (3,)
    """

    def __init__(
        self,
        estimator: Calibrated = None,
        *,
        floor: Literal["uniform", "prior"] | None = "uniform",
        inner_cv: int = 5,
        cv: Folds | Literal["holdout"] = None,
        solver: Solver | None = None,
        random_state: Seed = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            estimator, cv=cv, solver=solver, random_state=random_state, verbose=verbose
        )
        self.floor = floor
        self.inner_cv = inner_cv

    def _family(self, n_classes):
        return TemperatureMap(n_classes)

    def _check(self, one_model):
        check_positive_int(inner_cv=self.inner_cv)
        super()._check(one_model)

    def _fit_map(self, rows):
        rows = seen(rows, self.floor)
        stack, _ = fit_stack(rows, self.floor, self.inner_cv, self._solve_scaling, self.verbose)
        warn(rows, stack.maps[0], self._remedy)
        return {"_fitted_map": stack, **stack.attributes()}
