"""How `DecisionCalibration` chooses a transform: candidates, and a rule that is slow to leave NLL.

A transform with parameters x predicts z_i(x) for sample i, and d_i(x) = argmin_d Σ_k z_ik C_kd is
decided, which costs Σ_k μ̂_ik C_k,d under the labels μ̂. Each candidate is fitted F times: once on
all samples, and once without each of J folds.

1. x_0 minimises the log loss (NLL). All searches start there; the mixing stays that of NLL.
2. The mean cost R(x) = Σ_i w_i cost_i(d_i(x)) is a step function of x. So candidate p takes a loss
   L_p of the criterion (`objective.py`), and x_p is where 50 steps of Adam on L_p(z(x)) arrive:
   `descended`. Where x is one number, log β = −log T, "direct" is R itself, on a grid of T, as it
   is or smoothed by a Gaussian in log T: `cheapest_temperatures`.
3. Steps 1 and 2 are made again without each fold. d_pi is what candidate p decides for sample i
   where it has not seen the fold of the sample: `decide_out_of_fold`.
4. For the samples of a fold the best candidate is the one that is cheapest in the *other* folds.
   Δ is its mean cost minus that of NLL, over all samples, and se its standard error: `difference`.
5. NLL is kept unless Δ < −safeguard · se. Else the candidate of least cost out of fold is taken, as
   it was fitted on all samples: `choose`.
6. The best default decision, the same for all samples, takes its place where it is cheaper out of
   fold by as many standard errors: `default_decisions`.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.ndimage import gaussian_filter1d
from scipy.special import expit
from scipy.stats import rankdata
from torch import Tensor, nn

from ..._utils.checks import warn
from ..._utils.costs import bayes_columns, relative
from ..._utils.progress import Progress
from ..._utils.results import ConfidenceInterval
from ..._utils.types import Floats, Indices, NDArray
from .._rows import CalibrationRows, Split
from .._scaling.fit import constant
from .._scaling.maps import FittedMap, TemperatureMap, VectorMap, transform
from . import DecisionCalibrationWarning
from .objective import Candidate, Grid, candidates_of

_STEPS = 50
# Of log β about NLL's: steps of 1%, up to factors of 20.
_GRID = np.linspace(-3, 3, 601)
_SMOOTHING = (0.0, 0.1, 0.3)
# Numbers in a tensor of probabilities: it stays in cache.
_BLOCK = 2**17
# Both tails of the normal distribution together 5 %.
_Z95 = 1.96
NLL = {"criterion": "nll"}
DEFAULT = {"criterion": "default"}


class Search(NamedTuple):
    """All that a selection knows.

    Parameters
    ----------
    rows : CalibrationRows
    C : ndarray of shape (K, D)
        Costs in the user's unit.
    nll : FittedMap
        The transform of least log loss on all samples.
    refit : callable
        The transform of least log loss on some of the samples.
    splits : list of (training rows, test rows)
        One for each fold.
    criterion : str or torch.nn.Module
    grid : dict or None
    safeguard : float or None
        Standard errors by which a candidate must beat NLL; None: NLL is no candidate.
    verbose : int
    """

    rows: CalibrationRows
    C: Floats
    nll: FittedMap
    refit: Callable[[CalibrationRows], FittedMap]
    splits: list[Split]
    criterion: str | nn.Module
    grid: Grid
    safeguard: float | None
    verbose: int

    @property
    def unit_costs(self) -> Floats:
        """Costs above those of the best decision of the class, the largest 1."""
        C = relative(self.C)
        return C / C.max()


class OutOfFold(NamedTuple):
    """Decisions (1 + P, n), NLL's first, z of NLL (n, K), and the fold of each sample (n,)."""

    decisions: Indices
    z: Floats
    fold: Indices


def select(search: Search) -> tuple[FittedMap, dict]:
    """The transform to take, and what is learnt of all candidates, by name of attribute.

    NLL's where there is nothing to select from, or nothing to fold.
    """
    if search.criterion == "nll" or len(search.splits) < 2:
        none = np.array([np.nan])
        results: dict = {"params": [NLL], "rank_risk": np.array([1])}
        results |= {"mean_risk": none, "mean_difference": none, "standard_error": none}
        return search.nll, _learnt(NLL, results, ConfidenceInterval(*[np.nan] * 4))
    bar = Progress(search.splits, desc="selection", disable=not search.verbose)
    starts = [search.nll, *(search.refit(search.rows.take(train)) for train, _ in bar)]
    others, result = fit_candidates(search, starts)
    params = [NLL, *others]
    x = np.concatenate([np.array([start.x for start in starts])[:, None], result], axis=1)
    unseen = decide_out_of_fold(search, starts, x)
    best, results, gain = choose(unseen, search)
    results["params"] = params
    if search.safeguard is not None:
        kept = unseen._replace(decisions=unseen.decisions[[best]])
        d = default_decisions(search)
        mean, se = difference(kept, d, search.rows, search.C)
        if mean < -search.safeguard * se:
            fitted = constant(search.rows, search.nll.pi)
            return fitted, _learnt(DEFAULT, results, gain)
    return search.nll._replace(x=x[0, best]), _learnt(params[best], results, gain)


def _learnt(params: dict, results: dict, gain: ConfidenceInterval) -> dict:
    """The attributes of a selection."""
    selected = {"best_params_": params, "criterion_": params["criterion"]}
    return selected | {"cv_results_": results, "risk_difference_": gain}


def default_decisions(search: Search) -> Indices:
    """The best decision for all samples, (n,), for each fold that of the others."""
    rows = search.rows
    votes = rows.weight[:, None] * rows.frequencies
    d = np.empty(len(rows), dtype=np.intp)
    for train, test in search.splits:
        share = votes[train].sum(axis=0)
        d[test] = (share @ search.C).argmin()
    return d


def fit_candidates(search: Search, starts: list[FittedMap]) -> tuple[list[dict], Floats]:
    """Hyper-parameters of P candidates, and their parameters x (F, P, p)."""
    w = np.tile(search.rows.weight, (len(starts), 1))
    for j, (_, test) in enumerate(search.splits, 1):
        w[j, test] = 0.0
    w /= w.sum(axis=1, keepdims=True)
    is_temperature = isinstance(search.nll.family, TemperatureMap)
    if is_temperature and search.criterion == "direct" and search.grid is None:
        params = [{"criterion": "direct", "smoothing": h} for h in _SMOOTHING]
        return params, cheapest_temperatures(search, starts, w)
    # κ, the unit of λ and 1/β: mean over rows of the standard deviation of f between decisions
    z = np.exp(search.nll.log_z(search.rows.log_proba))
    sd = np.einsum("nk,kd->nd", z, search.unit_costs).std(axis=1)
    kappa = max(float(np.average(sd, weights=search.rows.weight)), 1e-12)
    candidates = candidates_of(search.criterion, search.unit_costs, kappa, search.grid)
    bar = Progress(candidates, desc="candidates", disable=not search.verbose)
    x = np.stack([descended(one, starts, search.rows, w) for one in bar], axis=1)
    return [one.params for one in candidates], x


class RowTensors(NamedTuple):
    """Log-probabilities u and label frequencies y, (K, n): samples come last."""

    u: Tensor
    y: Tensor

    @classmethod
    def of(cls, rows: CalibrationRows) -> "RowTensors":
        """The same samples."""

        def last(a):
            return torch.as_tensor(np.ascontiguousarray(np.moveaxis(a, 0, -1)))

        return cls(last(rows.log_proba), last(rows.frequencies))


def probabilities(x: Tensor, maps: list[FittedMap], rows: RowTensors) -> Tensor:
    """z (B, K, n) of B parameters x (B, p), each with the mixing of a transform."""
    # an affine one
    family: Any = maps[0].family
    v = torch.vmap(lambda one: transform(rows.u.mT, *family.affine(one, torch)).mT)(x)
    z = torch.softmax(v, dim=-2)
    if maps[0].pi is None:
        return z
    e = torch.as_tensor(expit([one.eta for one in maps]))[:, None, None]
    pi = torch.as_tensor(np.array([one.pi for one in maps]))[..., None]
    return (1 - e) * z + e * pi


def descended(
    candidate: Candidate, starts: list[FittedMap], rows: CalibrationRows, w: NDArray
) -> Floats:
    """x (F, p) of a candidate from F starts, under weights (F, n), by Adam with a falling rate."""
    tensors = RowTensors.of(rows)
    x = np.array([start.x for start in starts])
    step = candidate.rate * torch.as_tensor(_unit(starts[0], rows))
    for part in _batches(len(x), rows):
        maps = starts[part]
        start = torch.as_tensor(x[part])
        weight = torch.as_tensor(w[part])
        theta = torch.zeros_like(start, requires_grad=True)
        adam = torch.optim.Adam([theta], lr=1.0)
        cosine = torch.optim.lr_scheduler.CosineAnnealingLR(adam, _STEPS)
        for _ in range(_STEPS):
            z = probabilities(start + step * theta, maps, tensors)
            loss = candidate.loss(z, tensors.y, weight).sum()
            (theta.grad,) = torch.autograd.grad(loss, theta)
            adam.step()
            cosine.step()
        x[part] = (start + step * theta).detach().numpy()
    return x


def _unit(fitted: FittedMap, rows: CalibrationRows) -> Floats:
    """What moves logits by about 1, (p,): of a class's own scale the inverse of their size."""
    unit = np.ones(len(fitted.x))
    if isinstance(fitted.family, VectorMap):
        size = np.sqrt(np.average(rows.log_proba**2, axis=0, weights=rows.weight))
        unit[: rows.n_classes] = 1 / np.maximum(size, 1e-3)
    return unit


def _batches(n_maps: int, rows: CalibrationRows) -> Iterator[slice]:
    """As many transforms at a time as stay in cache."""
    size = max(_BLOCK // rows.log_proba.size, 1)
    return (slice(i, i + size) for i in range(0, n_maps, size))


def cheapest_temperatures(search: Search, starts: list[FittedMap], w: NDArray) -> Floats:
    """x (F, P, 1) of least mean cost on a grid, smoothed by P Gaussians; of ties the nearest."""
    tensors = RowTensors.of(search.rows)
    C = torch.as_tensor(search.unit_costs)
    c = C.T @ tensors.y
    t = search.nll.x[0] + _GRID
    risk = np.empty((len(t), len(w)))
    fits = [slice(j, j + 1) for j in range(len(w))]
    if search.nll.pi is None:
        # A temperature then predicts the same for all fits.
        fits = [slice(None)]
    for fit in fits:
        (start, *_), weight = starts[fit], torch.as_tensor(w[fit]).T
        for part in _batches(len(t), search.rows):
            some = torch.as_tensor(t[part, None])
            z = probabilities(some, [start] * len(some), tensors)
            d = (C.T @ z).min(dim=-2).indices
            risk[part, fit] = (c.gather(0, d) @ weight).numpy()
    x = np.empty((len(w), len(_SMOOTHING), 1))
    for p, h in enumerate(_SMOOTHING):
        smooth = risk
        if h:
            smooth = gaussian_filter1d(risk, h / (_GRID[1] - _GRID[0]), axis=0, mode="nearest")
        is_best = smooth <= smooth.min(axis=0) + 1e-12
        away = np.abs(t[:, None] - [start.x[0] for start in starts])
        x[:, p, 0] = t[np.where(is_best, away, np.inf).argmin(axis=0)]
    return x


def decide_out_of_fold(search: Search, starts: list[FittedMap], x: NDArray) -> OutOfFold:
    """What NLL and the candidates x (F, 1 + P, p) decide for samples that they have not seen."""
    rows, n = search.rows, len(search.rows)
    decisions = np.empty((x.shape[1], n), dtype=np.intp)
    result = OutOfFold(decisions, np.empty(rows.counts.shape), np.empty(n, dtype=np.intp))
    # the first fit is that on all samples
    folds = zip(starts[1:], x[1:], search.splits, strict=True)
    for j, (start, candidates, (_, test)) in enumerate(folds):
        some = rows.take(test)
        z = [np.exp(start._replace(x=one).log_z(some.log_proba)) for one in candidates]
        result.decisions[:, test] = bayes_columns(np.array(z), search.C)
        result.z[test] = z[0]
        result.fold[test] = j
    return result


def best_of_others(found: OutOfFold, cost: NDArray) -> Indices:
    """Decisions (n,): in each fold those of the candidate of least `cost` (P, n) in the others."""
    # of each candidate in each fold, (P, J)
    sums = np.stack([np.bincount(found.fold, weights=c) for c in cost])
    best = (sums.sum(axis=1, keepdims=True) - sums).argmin(axis=0)
    return found.decisions[1:][best[found.fold], np.arange(len(found.fold))]


def difference(
    found: OutOfFold, decisions: NDArray, rows: CalibrationRows, C: NDArray
) -> tuple[float, float]:
    """Δ, the mean cost of decisions (n,) minus that of NLL's, and se, in the unit of C.

    The variance of the mean is that of the paired differences times about 1/n + 1/n_train, and not
    1/n: fits without one fold or the other share most of their samples and err alike (Nadeau and
    Bengio 2003). A second variance is added, for expensive mistakes that these samples lack by
    luck. It is what NLL's probabilities imply, but at most that of one mistake of the worst kind,
    since more of them would have been seen.
    """
    w = rows.weight / rows.weight.sum()
    # under each class, (n, K)
    D = C[:, decisions].T - C[:, found.decisions[0]].T
    d = np.einsum("nk,nk->n", rows.frequencies, D)
    mean = float(np.einsum("n,n->", w, d))
    n = 1 / np.einsum("n,n->", w, w)
    J = max(found.fold.max() + 1, 2)
    seen = np.einsum("n,n->", w**2, (d - mean) ** 2) * n / max(n - 1, 1) * (1 + J / (J - 1))
    implied = np.einsum("n,nk->", w**2, found.z * D**2)
    worst = (w[:, None] * np.abs(D)).max() ** 2
    return mean, float(np.sqrt(seen + min(implied, worst)))


def choose(found: OutOfFold, search: Search) -> tuple[int, dict, ConfidenceInterval]:
    """The number of the candidate to take, 0 for NLL; how all did; Δ with its interval."""
    rows, C = search.rows, search.C
    w = rows.weight / rows.weight.sum()
    cost = np.einsum("nk,pnk->pn", rows.frequencies, C.T[found.decisions])
    risk = np.einsum("pn,n->p", cost, w)
    mean, error = np.array([difference(found, d, rows, C) for d in found.decisions]).T
    results = {
        "mean_risk": risk,
        "mean_difference": mean,
        "standard_error": error,
        "rank_risk": rankdata(risk, method="min").astype(int),
    }
    gain, se = difference(found, best_of_others(found, cost[1:] * w), rows, C)
    interval = ConfidenceInterval(gain, gain - _Z95 * se, gain + _Z95 * se, se)
    if search.safeguard is None or gain < -search.safeguard * se:
        return 1 + int(risk[1:].argmin()), results, interval
    least = np.einsum("nk,k,n->", rows.frequencies, C.min(axis=1), w)
    # a candidate looks better, and could be worse by more than NLL's whole risk
    if gain < 0 and interval.high > risk[0] - least:
        warn(
            f"The {len(rows)} calibration samples cannot tell whether calibrating for decisions "
            f"pays: out of fold it changes the cost of a sample by {gain:.3g}, 95% interval "
            f"{interval.low:.3g} to {interval.high:.3g}, but expensive mistakes may be missing. "
            "The least log loss is kept; more samples of their classes would tell.",
            DecisionCalibrationWarning,
        )
    return 0, results, interval
