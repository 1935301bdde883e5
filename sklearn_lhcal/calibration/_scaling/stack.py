"""Stacking of scalings: their mixture, with weights that were found out of fold.

The weights w of z = Σ_m w_m z_m minimise −Σ y log z on the simplex, a convex problem, for labels of
samples that the scalings z_m were not fitted on.
"""

from dataclasses import replace
from functools import reduce
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from ..._utils.progress import Progress
from ..._utils.simplex import log
from ..._utils.types import Floats, Indices, NDArray
from .._rows import CalibrationRows
from .fit import constant, fit_shrunk, fit_temperature, labels_worth, mixing_probabilities, toward_1
from .maps import MOST_EXACT, BiasCorrectedMap, FittedMap, MatrixMap, SplineMap, VectorMap
from .ordinal import FORMS

# A matrix of many samples is shrunk by this alone: evidence takes too much shrinkage for sure.
_WEAK = ((1.0, 3.0),)
# Samples of a fold, and the stacked calibrator that was fitted without them.
StackFold = tuple[Indices, "StackedMap"]
# Samples by which the temperature is preferred where the others are no better: few, since the
# weight that a prior keeps is lost where its scaling is wrong.
_PSEUDO_ROWS = 0.5
# The least probability that has a logarithm.
_TINY = 1e-300
# The least weight of the temperature, whose logarithm is a part of the loss.
_LEAST_WEIGHT = 1e-12


class StackedMap(NamedTuple):
    """z = Σ_m w_m z_m over transforms m of the same logits.

    Parameters
    ----------
    named : dict of FittedMap
        By name, with one π, or none.
    weights : ndarray of shape (M,)
        w, with sum 1.
    """

    named: dict[str, FittedMap]
    weights: Floats

    @property
    def maps(self) -> list[FittedMap]:
        """In the order of the weights."""
        return list(self.named.values())

    def attributes(self) -> dict:
        """What users know the parameters by."""
        return self.of_mixture()

    def of_mixture(self) -> dict:
        """All: those of the members, and of the mixing."""
        parameters = {name: one.attributes() for name, one in self.named.items()}
        learnt = {"weights_": self.weights, "parameters_": parameters}
        if self.pi is not None:
            # Σ_m w_m [(1−e_m) p_m + e_m π] has the weight Σ_m w_m e_m of π
            e = float(self.weights @ [expit(one.eta) for one in self.maps])
            learnt |= {"mixing_proba_": self.pi, "mixing_weight_": e}
        return learnt

    @property
    def pi(self) -> Floats | None:
        """π of all members, or None."""
        return self.maps[0].pi

    def log_z(self, u: Floats) -> Floats:
        """Logarithms of probabilities, (n, K), at most 0."""
        members = zip(log(self.weights), self.maps, strict=True)
        log_z = reduce(np.logaddexp, (log_w + one.log_z(u) for log_w, one in members))
        return np.minimum(log_z, 0.0)


def fit_stack(
    rows: CalibrationRows, mixing: str | None, n_folds: int, verbose: int = 0
) -> tuple[StackedMap, list[StackFold]]:
    """The stacked calibrator; and for each fold its samples with one that did not see them.

    Of too few samples for two folds, all samples with the calibrator itself.
    """
    maps = _fitted_maps(rows, mixing)
    splits = rows.dealt(n_folds, at_random=True)
    if len(splits) < 2:
        stack = StackedMap(maps, np.eye(len(maps))[0])
        return stack, [(np.arange(len(rows)), stack)]
    fold_maps = []
    z = np.empty((len(maps), *rows.counts.shape))
    for train, test in Progress(splits, desc="stack", disable=not verbose):
        fitted = _fitted_maps(rows.take(train), mixing, maps)
        fold_maps.append((test, fitted))
        u = rows.log_proba[test]
        z[:, test] = [np.exp(one.log_z(u)) for one in fitted.values()]
    weights = best_weights(z, rows)
    folds = [(test, StackedMap(fitted, weights)) for test, fitted in fold_maps]
    return StackedMap(maps, weights), folds


def _fitted_maps(rows: CalibrationRows, mixing: str | None, near=None):
    """One scaling of each family by name, but for too many classes; "ordinal" of grades alone.

    In a fold `near` are those of all samples.
    """
    K = rows.n_classes
    pi = mixing_probabilities(mixing, rows)
    of_all = (near or {}).get
    temperature = fit_temperature(rows, pi)
    corrected = fit_shrunk(BiasCorrectedMap(K), rows, temperature, near=of_all("bias_corrected"))
    # best where predictions say nothing
    maps = {
        "temperature": toward_1(temperature, rows),
        "frequencies": constant(rows, pi),
        "bias_corrected": corrected,
        "vector": fit_shrunk(VectorMap(K), rows, corrected, near=of_all("vector")),
    }
    # a matrix and a spline transform logarithms, which must not come from zeros: they follow
    # another scaling, and are shrunk to it
    same = temperature._replace(x=np.zeros(1), pi=None, eta=-np.inf)
    p = K * (K + 1)
    if p <= MOST_EXACT:
        # some samples for each parameter
        is_weak = rows.weight.sum() * labels_worth(rows, corrected) >= max(200, 6 * p)
        if near:
            is_weak = near["matrix"].first is near["bias_corrected"]
        first, strengths = (corrected, _WEAK) if is_weak else (temperature, None)
        after = replace(rows, log_proba=first.log_z(rows.log_proba))
        found = fit_shrunk(MatrixMap(K), after, same, strengths, of_all("matrix"))
        maps["matrix"] = found.after(first)
    after = replace(rows, log_proba=corrected.log_z(rows.log_proba))
    spline = SplineMap(after.log_proba, rows.weight)
    if len(spline.start()) <= MOST_EXACT:
        maps["spline"] = fit_shrunk(spline, after, same, near=of_all("spline")).after(corrected)
    if K > 2 and rows.labels is not None and rows.labels.graded:
        family, alone = FORMS["cumulative"]
        scaled = fit_temperature(rows, pi, alone)
        maps["ordinal"] = fit_shrunk(family(K), rows, scaled, near=of_all("ordinal"))
    return maps


def best_weights(z: NDArray, rows: CalibrationRows) -> Floats:
    """w (M,) of least −Σ y log(Σ_m w_m z_m) for z (M, n, K); the first scaling is preferred.

    F + N Σ w, where N is the number of all labels, is least over w ≥ 0 where Σ w = 1.
    """
    i, k, y = rows.label_pairs
    Z = np.maximum(z[:, i, k], _TINY)
    # Pseudo-rows, of which all is due to the first scaling.
    extra = _PSEUDO_ROWS / rows.weight.sum()

    def loss(w):
        mixed = w @ Z
        F = (1 + extra) * w.sum() - y @ np.log(mixed) - extra * np.log(w[0])
        G = 1 + extra - Z @ (y / mixed)
        G[0] -= extra / w[0]
        return F, G

    bounds = [(_LEAST_WEIGHT, None)] + [(0.0, None)] * (len(z) - 1)
    options = {"gtol": 1e-9, "ftol": 1e-16}
    w = np.full(len(z), 1 / len(z))
    # a search may end where a bound stops a step
    for _ in range(3):
        w = minimize(loss, w, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    return w / w.sum()
