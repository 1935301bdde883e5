"""Numerics of `DecisionCalibration`: candidates for the parameters of a map, all of one fold in one tensor.

Letters: x parameters of a shape, u log-probabilities (n, K), or (S, n, K) with log-weights (S, n) of members, y label
frequencies μ̂ (n, K), w row weights (n,), C costs relative to the best decision of the class, over the largest (K, D),
f = zC expected costs, c = yC costs under the labels, both (n, D).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d
from torch import Tensor

from .._simplex import softmax
from ..neural_network._decision_losses import direct_loss, margin_loss
from ._affine import AffineMap, transform

ITERATIONS = 50
RATE = 0.05  # of Adam, in logits
STEPS = (0.5, 1.0)  # how much of the way from the NLL solution to that of another criterion
DIRECT = {10.0: (0.03, 1.0), 30.0: (0.03, 0.3)}  # β·κ and λ/κ
MARGIN = {30.0: (1.0,)}
SMOOTHING = (0.0, 0.1, 0.3)  # standard deviations in log T
_CELLS = 8_000_000  # numbers in a tensor of probabilities
_GRID = np.linspace(-3, 3, 601)  # of log β about the NLL solution
_BINS = 15


class Rows(NamedTuple):
    """The rows of a fit."""

    u: NDArray[np.float64]
    log_w: NDArray[np.float64] | None
    y: NDArray[np.float64]
    w: NDArray[np.float64]

    def take(self, rows) -> "Rows":
        """Some of the rows."""
        log_w = None if self.log_w is None else self.log_w[:, rows]
        return Rows(self.u[..., rows, :], log_w, self.y[rows], self.w[rows])


class Family(NamedTuple):
    """Candidates that share a loss of (z, f, rows, c), z (P, n, K), up to what is in `params`, one dict each."""

    params: list[dict]
    loss: Callable[..., Tensor]


def probabilities(shape: AffineMap, x: NDArray, rows: Rows) -> NDArray[np.float64]:
    """z of the map with parameters x, (n, K)."""
    z = softmax(transform(rows.u, *shape.affine(x)))
    return z if rows.log_w is None else np.einsum("sn,snk->nk", np.exp(rows.log_w), z)


def cost_scale(z: NDArray, C: NDArray) -> float:
    """κ, the unit of λ and 1/β: mean over rows of the standard deviation of f between the decisions."""
    return max(float(np.einsum("nk,kd->nd", z, C).std(axis=1).mean()), 1e-12)


def families(criterion: str, kappa: float, module=None) -> list[Family]:
    """Candidates of a criterion, other than the NLL solution."""
    found = []
    if criterion in ("direct", "auto"):
        found += [_direct(beta / kappa, [lam * kappa for lam in lams]) for beta, lams in DIRECT.items()]
    if criterion in ("margin", "auto"):
        found += [_margin(beta / kappa, [lam * kappa for lam in lams]) for beta, lams in MARGIN.items()]
    if criterion == "ece":
        found.append(Family([{"criterion": "ece"}], lambda z, f, rows, c: calibration_loss(z, rows)))
    if module is not None:
        found.append(Family([{"criterion": type(module).__name__}], _of_module(module)))
    return found


def _direct(beta, lams):
    lam = torch.as_tensor(lams)[:, None]
    params = [{"criterion": "direct", "lam": value, "beta": beta} for value in lams]
    return Family(params, lambda z, f, rows, c: direct_loss(f, c, lam, beta, 1) @ rows.w)


def _margin(beta, lams):
    lam = torch.as_tensor(lams)[:, None]
    params = [{"criterion": "margin", "lam": value, "beta": beta} for value in lams]
    return Family(params, lambda z, f, rows, c: margin_loss(f, c, lam, beta) @ rows.w)


def _of_module(module):
    def loss(z, f, rows, c):
        return module(torch.log(z[0].clamp(min=1e-300)), rows.y, rows.w * len(rows.w))[None]

    return loss


def calibration_loss(z: Tensor, rows: Rows) -> Tensor:
    """Squared calibration error of each class, summed: `ECE` with hat-shaped bins, so that it has a gradient."""
    P, _, K = z.shape
    position = z * (_BINS - 1)
    low = position.detach().floor().clamp(max=_BINS - 2)
    share, e = position - low, (z - rows.y) * rows.w[:, None]
    cell = low.long() + _BINS * torch.arange(K) + _BINS * K * torch.arange(P)[:, None, None]
    total = z.new_zeros(2, P * K * _BINS)
    for s, offset in ((1 - share, 0), (share, 1)):
        parts = torch.stack([(s * e).flatten(), (s * rows.w[:, None]).flatten()])
        total = total.index_add(1, (cell + offset).flatten(), parts)
    return (total[0] ** 2 / total[1].clamp(min=1e-12)).view(P, -1).sum(dim=1)


def descend(shape: AffineMap, start: NDArray, rows: Rows, C: NDArray, found: list[Family]) -> NDArray[np.float64]:
    """Parameters (P, p) of all candidates by Adam from `start`, P problems at once, rates falling to 0 as a cosine."""
    whole = rows.u.size * sum(len(family.params) for family in found)
    if whole > _CELLS and len(found) > 1:
        return np.concatenate([descend(shape, start, rows, C, [family]) for family in found])
    t = Rows(*(None if a is None else torch.as_tensor(np.ascontiguousarray(a)) for a in rows))
    t = t._replace(w=t.w / t.w.sum())
    u, C_t = t.u.mT.contiguous(), torch.as_tensor(C).T.contiguous()
    c = (C_t @ t.y.T).T
    P = sum(len(family.params) for family in found)
    unit = torch.as_tensor(_unit(shape, start, rows.u))
    theta = torch.zeros(P, len(start), dtype=torch.float64, requires_grad=True)
    adam = torch.optim.Adam([theta], lr=RATE)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(adam, ITERATIONS)
    for _ in range(ITERATIONS):
        z = _mixed(shape, torch.as_tensor(start) + unit * theta, u, t.log_w)
        z, f = z.mT, (C_t @ z).mT
        losses, first = [], 0
        for family in found:
            part = slice(first, first := first + len(family.params))
            losses.append(family.loss(z[part], f[part], t, c).sum())
        theta.grad = torch.autograd.grad(sum(losses), theta)[0]
        adam.step()
        cosine.step()
    return start + (unit * theta.detach()).numpy()


def _unit(shape: AffineMap, x: NDArray, u: NDArray) -> NDArray[np.float64]:
    """What moves the logits by about 1: for a factor of logits the inverse of their size."""
    unit = np.ones(len(x))
    if len(x) == 2 * shape.K:
        unit[: shape.K] = 1 / np.maximum(np.sqrt((u.reshape(-1, shape.K) ** 2).mean(axis=0)), 1e-3)
    return unit


def _mixed(shape: AffineMap, x: Tensor, u: Tensor, log_w: Tensor | None) -> Tensor:
    """z (P, K, n) of P parameter vectors, u (K, n) or (S, K, n); members of ensembles are mixed."""
    scale, bias = shape.affine(x.T, torch)  # (P,) or (K, P), and (K, P) or None
    scale = scale[:, None, None] if scale.ndim == 1 else scale.T[:, :, None]
    bias = torch.zeros_like(scale) if bias is None else bias.T[:, :, None]
    v = u * scale + bias if log_w is None else u * scale[:, None] + bias[:, None]
    z = torch.softmax(v, dim=-2)  # rows last: a softmax over few classes is slow where these are neighbours
    return z if log_w is None else torch.einsum("sn,pskn->pkn", log_w.exp(), z)


class TemperaturePath(NamedTuple):
    """Costs of the rows as functions of t = log β, which are steps: `base` at first, then (at, row, jump) in order."""

    grid: NDArray[np.float64]  # (G,)
    base: NDArray[np.float64]  # (n,)
    at: NDArray[np.float64]  # (E,), sorted
    row: NDArray[np.intp]
    jump: NDArray[np.float64]

    @classmethod
    def of(cls, center: float, rows: Rows, C: NDArray) -> "TemperaturePath":
        """All changes of decisions between two points of a grid of step .01, found by bisection.

        Exact but for changes that are undone within one step, 1 % of T, and beyond factors of 20 of the center.
        """

        def decide(t, rows):
            beta = np.exp(t)[:, None] if np.ndim(t) else np.exp(t)
            z = softmax(rows.u * beta)
            z = z if rows.log_w is None else np.einsum("sn,snk->nk", np.exp(rows.log_w), z)
            return np.einsum("nk,kd->nd", z, C).argmin(axis=1)

        grid, c = center + _GRID, np.einsum("nk,kd->nd", rows.y, C)
        d = np.stack([decide(t, rows) for t in grid])  # (G, n)
        g, i = np.nonzero(d[1:] != d[:-1])
        low, high, left = grid[g], grid[g + 1], d[g, i]
        if len(g):
            changing = rows.take(i)
            for _ in range(30):
                middle = (low + high) / 2
                same = decide(middle, changing) == left
                low, high = np.where(same, middle, low), np.where(same, high, middle)
        order = np.argsort(high, kind="stable")
        jump = c[i, d[g + 1, i]] - c[i, left]
        return cls(grid, c[np.arange(len(c)), d[0]], high[order], i[order], jump[order])

    def minimise(self, w: NDArray, start: float, smoothing: float) -> float:
        """t of least risk under weights w, of several the nearest to `start`; where smoothed, on the grid."""
        after = np.append(0.0, np.cumsum(self.jump * w[self.row]))
        if smoothing:
            on_grid = after[np.searchsorted(self.at, self.grid, side="right")]
            risk = gaussian_filter1d(on_grid, smoothing / (self.grid[1] - self.grid[0]), mode="nearest")
            low = high = self.grid
        else:
            low, high = np.append(self.grid[0], self.at), np.append(self.at, self.grid[-1])
            risk = np.where(high - low > 1e-8, after, np.inf)
        away = np.maximum(np.maximum(low - start, start - high), 0.0)
        best = risk <= risk.min() + 1e-12 * w.sum()
        k = np.flatnonzero(best)[away[best].argmin()]
        return start if away[k] == 0 else (low[k] + high[k]) / 2

    def cost(self, t: float) -> NDArray[np.float64]:
        """Cost of each row at t, (n,)."""
        past = self.at <= t
        return self.base + np.bincount(self.row[past], self.jump[past], minlength=len(self.base))


class Problem(NamedTuple):
    """What is searched: rows, costs, the families of candidates, and the path of the temperature where it is exact."""

    shape: AffineMap
    rows: Rows
    C: NDArray[np.float64]
    families: list[Family]
    path: TemperaturePath | None

    def candidates(self, start: NDArray, part: NDArray) -> tuple[list[dict], NDArray[np.float64]]:
        """Names and parameters (P, p) of all candidates on a part of the rows, the NLL solution `start` first."""
        params, x = [{"criterion": "nll"}], [start[None]]
        if self.families:
            found = descend(self.shape, start, self.rows.take(part), self.C, self.families)
            names = [name for family in self.families for name in family.params]
            params += [name | {"step": step} for step in STEPS for name in names]
            x += [start + step * (found - start) for step in STEPS]
        if self.path is not None:
            w = np.zeros(len(self.rows.w))
            w[part] = self.rows.w[part]
            params += [{"criterion": "direct", "smoothing": h} for h in SMOOTHING]
            x.append(np.array([[self.path.minimise(w, start[0], h)] for h in SMOOTHING]))
        return params, np.concatenate(x)

    def decisions(self, x: NDArray, part: NDArray) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Decisions (P, n) of parameters (P, p), and the probabilities (n, K) of the first."""
        rows, first = self.rows.take(part), None
        decided = np.empty((len(x), len(rows.w)), dtype=np.intp)
        for p, parameters in enumerate(x):
            z = probabilities(self.shape, parameters, rows)
            first = z if first is None else first
            decided[p] = np.einsum("nk,kd->nd", z, self.C).argmin(axis=1)
        return decided, first


class OutOfFold(NamedTuple):
    """Decisions (P, n) of all candidates for rows they were not fitted on, z of NLL (n, K), and folds (n,)."""

    params: list[dict]
    decisions: NDArray[np.intp]
    z: NDArray[np.float64]
    fold: NDArray[np.intp]

    def selected(self, cost: NDArray) -> NDArray[np.intp]:
        """Decisions (n,) for each fold of the candidate, other than NLL, with the least `cost` (P, n) in the others."""
        sums = np.stack([np.bincount(self.fold, weights=c) for c in cost[1:]])  # (P − 1, folds)
        best = 1 + (sums.sum(axis=1, keepdims=True) - sums).argmin(axis=0)
        return self.decisions[best[self.fold], np.arange(len(self.fold))]


def out_of_fold(problem: Problem, starts: list[NDArray], splits) -> OutOfFold:
    """Fit all candidates without each fold, from its NLL solution, and decide for the rows of the fold."""
    params, decided, z = [], None, np.empty(problem.rows.y.shape)
    fold = np.empty(len(z), dtype=np.intp)
    for i, (start, (train, test)) in enumerate(zip(starts, splits, strict=True)):
        fold[test] = i
        params, x = problem.candidates(start, train)
        decided = np.empty((len(x), len(z)), dtype=np.intp) if decided is None else decided
        decided[:, test], z[test] = problem.decisions(x, test)
    return OutOfFold(params, decided, z, fold)


def difference(found: OutOfFold, decisions: NDArray, rows: Rows, C: NDArray) -> tuple[float, float]:
    """Risk of decisions (n,) less that of the NLL solution's, and its standard error, in the unit of C.

    To the variance of the paired differences comes that of mistakes that happened not to occur: what NLL's
    probabilities imply, but not more than one mistake of the worst kind, of which more would have been seen.
    """
    w, D = rows.w / rows.w.sum(), C[:, decisions].T - C[:, found.decisions[0]].T  # (n, K)
    d = np.einsum("nk,nk->n", rows.y, D)
    mean = float(np.einsum("n,n->", w, d))
    n = 1 / np.einsum("n,n->", w, w)
    seen = np.einsum("n,n->", w**2, (d - mean) ** 2) * n / max(n - 1, 1)
    implied = np.einsum("n,nk->", w**2, found.z * D**2)
    worst = (w[:, None] * np.abs(D)).max() ** 2
    return mean, float(np.sqrt(seen + min(implied, worst)))
