"""The rule by which `DecisionCalibration` selects: decisions out of fold, compared with NLL's."""

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from tqdm.auto import tqdm

from .._ground.arrays import Floats, Indices
from ..metrics import ConfidenceInterval
from ._decision_candidates import Candidates
from ._decision_search import probabilities
from ._rows import CalibrationRows
from ._scaling import FittedMap

# Both tails of the normal distribution together 5 %.
_Z95 = 1.96
NLL = {"criterion": "nll"}


class DecisionCalibrationWarning(UserWarning):
    """The calibration rows cannot tell whether calibrating for decisions pays.

    See `DecisionCalibration`.

    Examples
    --------
    >>> import warnings
    >>> # where nothing may be left in doubt
    >>> warnings.simplefilter("error", DecisionCalibrationWarning)
    >>> warnings.simplefilter("default", DecisionCalibrationWarning)
    """


class OutOfFold(NamedTuple):
    """Decisions (P, n) for rows that no candidate was fitted on, z of NLL (n, K), folds (n,)."""

    params: list[dict]
    decisions: Indices
    z: Floats
    fold: Indices

    def selected(self, cost: NDArray) -> Indices:
        """Decisions (n,): in each fold those of the candidate of least `cost` (P, n) in the others.

        NLL is none of them.
        """
        sums = np.stack([np.bincount(self.fold, weights=c) for c in cost[1:]])  # (P − 1, folds)
        best = 1 + (sums.sum(axis=1, keepdims=True) - sums).argmin(axis=0)
        return self.decisions[best[self.fold], np.arange(len(self.fold))]


def out_of_fold(
    candidates: Candidates,
    rows: CalibrationRows,
    C,
    starts: list[FittedMap],
    splits,
    verbose: int = 0,
) -> OutOfFold:
    """Decisions of NLL and all candidates for the rows of each fold, fitted without it."""
    params = [NLL, *candidates.params]
    decided = np.empty((len(params), len(rows)), dtype=np.intp)
    z = np.empty(rows.counts.shape)
    fold = np.empty(len(rows), dtype=np.intp)
    folds = zip(starts, splits, strict=True)
    bar = tqdm(folds, desc="selection", total=len(starts), disable=not verbose)
    for i, (start, (train, test)) in enumerate(bar):
        fold[test] = i
        x = [start.x, *candidates.fit(start, train)]
        some = rows.take(test)
        for p, parameters in enumerate(x):
            predicted = probabilities(start._replace(x=parameters), some)
            decided[p, test] = np.einsum("nk,kd->nd", predicted, C).argmin(axis=1)
            if p == 0:
                z[test] = predicted
    return OutOfFold(params, decided, z, fold)


def in_sample(fitted: FittedMap, rows: CalibrationRows, C) -> OutOfFold:
    """Decisions of NLL alone, where there is nothing to select from, or nothing to fold."""
    z = probabilities(fitted, rows)
    decided = np.einsum("nk,kd->nd", z, C).argmin(axis=1)
    return OutOfFold([NLL], decided[None], z, np.zeros(len(rows), dtype=np.intp))


def difference(
    found: OutOfFold, decisions: NDArray, rows: CalibrationRows, C: NDArray
) -> tuple[float, float]:
    """Risk of decisions (n,) less that of NLL's, and its standard error, in the unit of C.

    The variance of the mean is that of the paired differences times about 1/n + 1/n_train, and not
    1/n: fits without one fold or the other share most of their rows and err alike (Nadeau and
    Bengio 2003). A second variance is added, for expensive mistakes that these rows lack by luck.
    It is what NLL's probabilities imply, but at most that of one mistake of the worst kind, since
    more of them would have been seen.
    """
    w = rows.weight / rows.weight.sum()
    D = C[:, decisions].T - C[:, found.decisions[0]].T  # (n, K)
    d = np.einsum("nk,nk->n", rows.frequencies, D)
    mean = float(np.einsum("n,n->", w, d))
    n, J = 1 / np.einsum("n,n->", w, w), max(found.fold.max() + 1, 2)
    seen = np.einsum("n,n->", w**2, (d - mean) ** 2) * n / max(n - 1, 1) * (1 + J / (J - 1))
    implied = np.einsum("n,nk->", w**2, found.z * D**2)
    worst = (w[:, None] * np.abs(D)).max() ** 2
    return mean, float(np.sqrt(seen + min(implied, worst)))


class Selection(NamedTuple):
    """What was selected: the number of the candidate, 0 for NLL, and the results of all."""

    best: int
    results: dict
    difference: ConfidenceInterval


@dataclass(frozen=True)
class PairedRule:
    """NLL is kept unless the best other beats it by more than so many standard errors.

    Parameters
    ----------
    safeguard : float or None
        Corrected standard errors of the paired difference; None: NLL is no candidate.
    """

    safeguard: float | None

    def select(self, found: OutOfFold, rows: CalibrationRows, C: NDArray) -> Selection:
        """The candidate to take under costs C (K, D)."""
        w = rows.weight / rows.weight.sum()
        cost = np.einsum("nk,pnk->pn", rows.frequencies, C.T[found.decisions])
        risk = np.einsum("pn,n->p", cost, w)
        mean, error = np.array([difference(found, d, rows, C) for d in found.decisions]).T
        results = {
            "params": found.params,
            "mean_risk": risk,
            "mean_difference": mean,
            "standard_error": error,
            "rank_risk": rankdata(risk, method="min").astype(int),
        }
        best = 0
        gain = se = 0.0
        if len(risk) > 1:
            best = 1 + int(risk[1:].argmin())
            gain, se = difference(found, found.selected(cost * rows.weight), rows, C)
        interval = ConfidenceInterval(gain, gain - _Z95 * se, gain + _Z95 * se, se)
        if self.safeguard is None or gain < -self.safeguard * se:
            return Selection(best, results, interval)
        least = np.einsum("nk,k,n->", rows.frequencies, C.min(axis=1), w)
        _warn_of_doubt(len(rows), float(risk[0] - least), interval)
        return Selection(0, results, interval)


def _warn_of_doubt(n_rows: int, nll: float, gain: ConfidenceInterval) -> None:
    """Where a candidate looks better, and could be worse by more than NLL's whole risk."""
    if gain.estimate < 0 and gain.high > nll:
        warnings.warn(
            f"The {n_rows} calibration rows cannot tell whether calibrating for decisions pays. "
            f"Out of fold, the best criterion changes the cost of a row by {gain.estimate:.3g} "
            "compared with the least log loss, but these rows may lack an expensive mistake: 95 % "
            f"interval {gain.low:.3g} to {gain.high:.3g}. The least log loss costs {nll:.3g} more "
            "than the best decisions. It is kept; more rows of the classes with expensive "
            "mistakes would tell.",
            DecisionCalibrationWarning,
            stacklevel=6,
        )
