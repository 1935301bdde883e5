"""Numerics of `DecisionCalibration`: candidates for the parameters of a map, all of one fold in one tensor.

Letters: x parameters of a family of maps, u log-probabilities (n, K), or (n, S, K) with log-weights
(n, S) of members, y label frequencies μ̂ (n, K), w row weights (n,), C costs relative to the best
decision of the class, over the largest (K, D), f = zC expected costs, c = yC costs under the
labels, both (n, D).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d
from torch import Tensor

from .._simplex import softmax
from ._affine import AffineMap, transform
from ._rows import CalibrationRows

ITERATIONS = 50
RATES = (0.05, 0.2)  # of Adam, in logits
DIRECT = ((0.03, 10.0), (0.03, 30.0), (0.3, 30.0))  # λ/κ and βκ
MARGIN = ((1.0, 30.0),)
SMOOTHING = (0.0, 0.1, 0.3)  # standard deviations in log T
_BLOCK = 2**16  # numbers in a tensor of probabilities: it stays in cache
_GRID = np.linspace(-3, 3, 601)  # of log β about the NLL solution
_BINS = 15


class Candidates(NamedTuple):
    """Candidates that share a loss up to what is in `params`, one dict each, and the slope of the loss.

    ∂loss/∂z (P, K, n) at (z, C, block); `additive` where a block of the rows needs no other.
    """

    params: list[dict]
    slope: Callable[..., Tensor]
    additive: bool = False


class Block(NamedTuple):
    """Some rows, which come last: a softmax over few neighbours is slow. Also their costs c (D, n), and d* (1, n)."""

    u: Tensor  # (K, n) or (S, K, n)
    member: Tensor | None  # weights of members (S, n)
    y: Tensor  # (K, n)
    w: Tensor
    c: Tensor
    best: Tensor


def probabilities(shape: AffineMap, x: NDArray, rows: CalibrationRows) -> NDArray[np.float64]:
    """z of the map with parameters x, (n, K)."""
    return _mixed(softmax(transform(rows.log_proba, *shape.affine(x))), rows)


def _mixed(z: NDArray, rows: CalibrationRows) -> NDArray[np.float64]:
    """z of points, or the mean over members."""
    if not rows.is_ensemble:
        return z
    return np.einsum("ns,nsk->nk", np.exp(rows.log_weights), z)


def cost_scale(z: NDArray, C: NDArray, w: NDArray | None = None) -> float:
    """κ, the unit of λ and 1/β: mean over rows of the standard deviation of f between decisions."""
    spread = np.einsum("nk,kd->nd", z, C).std(axis=1)
    return max(float(np.average(spread, weights=w)), 1e-12)


def candidates_of(criterion: str, kappa: float, module=None) -> Candidates | None:
    """Candidates of a criterion, other than the NLL solution; each loss with each rate."""
    if module is not None:
        return Candidates(
            _with_rates([{"criterion": type(module).__name__}]), _autograd(_of_module(module))
        )
    if criterion == "nll":
        return None
    if criterion == "ece":
        return Candidates(_with_rates([{"criterion": "ece"}]), _autograd(calibration_loss))
    name, losses = ("margin", MARGIN) if criterion == "margin" else ("direct", DIRECT)
    return _bounds(name, [(lam * kappa, beta / kappa) for lam, beta in losses])


def _with_rates(params: list[dict]) -> list[dict]:
    return [one | {"rate": rate} for rate in RATES for one in params]


def _bounds(name: str, losses: list[tuple[float, float]]) -> Candidates:
    """L⁺ or L^MR for several (λ, β): the slopes of `direct_loss` and `margin_loss` in closed form."""
    params = _with_rates([{"criterion": name, "lam": lam, "beta": beta} for lam, beta in losses])
    lam, beta = torch.tensor([[one["lam"], one["beta"]] for one in params], dtype=torch.float64).T[
        :, :, None, None
    ]

    def slope(z, C, block):
        f = C.T @ z
        away = _softmax((f - lam * block.c).mul_(-beta))
        taken = (
            _softmax(f.mul_(-beta))
            if name == "direct"
            else torch.zeros_like(block.c).scatter_(0, block.best, 1.0)
        )
        return C @ (taken - away).mul_(block.w / lam)

    return Candidates(params, slope, additive=True)


def _autograd(loss: Callable[..., Tensor]):
    """The slope of losses (P,) of z (P, n, K), y (n, K) and w."""

    def slope(z, C, block):
        with torch.enable_grad():
            z = z.clone().requires_grad_()
            return torch.autograd.grad(loss(z.mT, block.y.T, block.w).sum(), z)[0]

    return slope


def _of_module(module):
    def loss(z, y, w):
        return torch.stack([module(torch.log(one.clamp(min=1e-300)), y, w * len(w)) for one in z])

    return loss


def calibration_loss(z: Tensor, y: Tensor, w: Tensor) -> Tensor:
    """Squared calibration error of each class, summed: `ECE` with hat-shaped bins, so that it has a gradient."""
    P, _, K = z.shape
    position = z * (_BINS - 1)
    low = position.detach().floor().clamp(max=_BINS - 2)
    share, e = position - low, (z - y) * w[:, None]
    cell = low.long() + _BINS * torch.arange(K) + _BINS * K * torch.arange(P)[:, None, None]
    total = z.new_zeros(2, P * K * _BINS)
    for s, offset in ((1 - share, 0), (share, 1)):
        parts = torch.stack([(s * e).flatten(), (s * w[:, None]).flatten()])
        total = total.index_add(1, (cell + offset).flatten(), parts)
    return (total[0] ** 2 / total[1].clamp(min=1e-12)).view(P, -1).sum(dim=1)


def descend(
    shape: AffineMap, start: NDArray, rows: CalibrationRows, C: NDArray, family: Candidates
) -> NDArray[np.float64]:
    """Parameters (P, p) of all candidates by Adam from `start`, P problems at once, rates falling to 0 as a cosine."""
    rate = np.array([params["rate"] for params in family.params])[:, None]
    n = len(rows)
    size = n
    if family.additive:
        size = max(_BLOCK // (len(rate) * rows.log_proba[0].size), 32)
    C = torch.as_tensor(C)
    blocks = [_block(rows, slice(i, i + size), C) for i in range(0, n, size)]
    unit = _unit(shape, start, rows)
    theta = np.zeros((len(rate), len(start)))
    mean = np.zeros_like(theta)
    square = np.zeros_like(theta)
    for i in range(1, ITERATIONS + 1):
        slope = unit * _slope(shape, start + unit * theta, C, blocks, family)
        mean += 0.1 * (slope - mean)
        square += 0.001 * (slope**2 - square)
        step = mean / (1 - 0.9**i) / (np.sqrt(square / (1 - 0.999**i)) + 1e-8)
        theta -= rate * (1 + np.cos(np.pi * (i - 1) / ITERATIONS)) / 2 * step
    return start + unit * theta


def _block(rows: CalibrationRows, part: slice, C: Tensor) -> Block:
    w = torch.as_tensor(rows.weight[part] / rows.weight.sum())
    some = rows.take(part)
    y = _last(some.frequencies)
    member = _last(np.exp(some.log_weights)) if rows.is_ensemble else None
    c = C.T @ y
    return Block(_last(some.log_proba), member, y, w, c, c.argmin(dim=0, keepdim=True))


def _last(a: NDArray) -> Tensor:
    """A tensor whose last axis is the rows, the first of a."""
    return torch.as_tensor(np.ascontiguousarray(np.moveaxis(a, 0, -1)))


def _slope(
    shape: AffineMap, x: NDArray, C: Tensor, blocks: list[Block], family: Candidates
) -> NDArray[np.float64]:
    """∂loss/∂x (P, p) of P parameter vectors, by way of z and of v = Wu + b in closed form."""
    x = torch.as_tensor(x).requires_grad_()
    W, b = shape.affine(x.T, torch)  # (P,) or (K, P), and (K, P) or None
    by_W, by_b = torch.zeros((2, len(x), shape.K), dtype=x.dtype)
    with torch.no_grad():
        scale = W.expand(shape.K, -1).T[..., None]
        bias = torch.zeros_like(scale) if b is None else b.T[..., None]
        for block in blocks:
            by_v = _by_logits(scale, bias, C, block, family)
            by_W += (by_v * block.u).sum(dim=-1).reshape(len(x), -1, shape.K).sum(dim=1)
            by_b += by_v.sum(dim=-1).reshape(len(x), -1, shape.K).sum(dim=1)
    by_W = by_W.sum(dim=1) if W.ndim == 1 else by_W.T
    outputs, slopes = ((W,), (by_W,)) if b is None else ((W, b), (by_W, by_b.T))
    return torch.autograd.grad(outputs, x, slopes)[0].numpy()


def _by_logits(scale: Tensor, bias: Tensor, C: Tensor, block: Block, family: Candidates) -> Tensor:
    """∂loss/∂v, (P, K, n) or (P, S, K, n)."""
    if block.member is None:
        members = z = _softmax((block.u * scale).add_(bias))
    else:
        members = _softmax((block.u * scale[:, None]).add_(bias[:, None]))
        z = torch.einsum("sn,pskn->pkn", block.member, members)
    by_z = family.slope(z, C, block)
    if block.member is not None:
        by_z = by_z[:, None] * block.member[:, None]
    by_v = members * by_z
    return by_v.sub_(members.mul_(by_v.sum(dim=-2, keepdim=True)))


def _softmax(v: Tensor) -> Tensor:
    """Of the last axis but one, in the place of v."""
    v = v.sub_(v.amax(dim=-2, keepdim=True)).exp_()
    return v.div_(v.sum(dim=-2, keepdim=True))


def _unit(shape: AffineMap, x: NDArray, rows: CalibrationRows) -> NDArray[np.float64]:
    """What moves the logits by about 1: for a factor of logits the inverse of their size."""
    unit = np.ones(len(x))
    if len(x) == 2 * shape.K:
        squares = rows.log_proba**2
        if rows.is_ensemble:
            squares = squares.mean(axis=1)
        size = np.sqrt(np.average(squares, axis=0, weights=rows.weight))
        unit[: shape.K] = 1 / np.maximum(size, 1e-3)
    return unit


class TemperaturePath(NamedTuple):
    """Costs of the rows as functions of t = log β, which are steps: `base` at first, then (at, row, jump) in order."""

    grid: NDArray[np.float64]  # (G,)
    base: NDArray[np.float64]  # (n,)
    at: NDArray[np.float64]  # (E,), sorted
    row: NDArray[np.intp]
    jump: NDArray[np.float64]

    @classmethod
    def of(cls, center: float, rows: CalibrationRows, C: NDArray) -> "TemperaturePath":
        """All changes of decisions between two points of a grid of step .01, found by bisection.

        Exact but for changes that are undone within one step, 1 % of T, and beyond factors of 20 of
        the center.
        """

        def decide(t, rows):
            u = rows.log_proba
            beta = np.exp(t)
            if np.ndim(t):
                beta = beta.reshape(-1, *[1] * (u.ndim - 1))
            return np.einsum("nk,kd->nd", _mixed(softmax(u * beta), rows), C).argmin(axis=1)

        grid = center + _GRID
        c = np.einsum("nk,kd->nd", rows.frequencies, C)
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
            risk = gaussian_filter1d(
                on_grid, smoothing / (self.grid[1] - self.grid[0]), mode="nearest"
            )
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


class Search(NamedTuple):
    """What is searched: rows, costs, candidates, or in their place the path of the temperature where it is exact."""

    shape: AffineMap
    rows: CalibrationRows
    C: NDArray[np.float64]
    family: Candidates | None
    path: TemperaturePath | None

    def candidates(self, start: NDArray, part: NDArray) -> tuple[list[dict], NDArray[np.float64]]:
        """Names and parameters (P, p) of all candidates on a part of the rows, the NLL solution `start` first."""
        params, x = [{"criterion": "nll"}], [start[None]]
        if self.family is not None:
            params += self.family.params
            x.append(descend(self.shape, start, self.rows.take(part), self.C, self.family))
        if self.path is not None:
            w = np.zeros(len(self.rows))
            w[part] = self.rows.weight[part]
            params += [{"criterion": "direct", "smoothing": h} for h in SMOOTHING]
            x.append(np.array([[self.path.minimise(w, start[0], h)] for h in SMOOTHING]))
        return params, np.concatenate(x)

    def decisions(self, x: NDArray, part: NDArray) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Decisions (P, n) of parameters (P, p), and the probabilities (n, K) of the first."""
        rows = self.rows.take(part)
        first = None
        decided = np.empty((len(x), len(rows)), dtype=np.intp)
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


def out_of_fold(search: Search, starts: list[NDArray], splits) -> OutOfFold:
    """Fit all candidates without each fold, from its NLL solution, and decide for the rows of the fold."""
    params, decided = [], None
    z = np.empty(search.rows.counts.shape)
    fold = np.empty(len(z), dtype=np.intp)
    for i, (start, (train, test)) in enumerate(zip(starts, splits, strict=True)):
        fold[test] = i
        params, x = search.candidates(start, train)
        decided = np.empty((len(x), len(z)), dtype=np.intp) if decided is None else decided
        decided[:, test], z[test] = search.decisions(x, test)
    return OutOfFold(params, decided, z, fold)


def difference(
    found: OutOfFold, decisions: NDArray, rows: CalibrationRows, C: NDArray
) -> tuple[float, float]:
    """Risk of decisions (n,) less that of the NLL solution's, and its standard error, in the unit of C.

    Fits without one fold or the other share most of their rows and err alike, so that the variance
    of the mean is not 1/n of that of the paired differences but about 1/n + 1/n_train (Nadeau and
    Bengio 2003). To it comes that of mistakes that happened not to occur: what NLL's probabilities
    imply, but not more than one mistake of the worst kind, of which more would have been seen.
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
