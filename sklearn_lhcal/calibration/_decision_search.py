"""Numerics of `DecisionCalibration`: surrogates of the mean cost, and the mean cost along T.

Letters: x parameters of a family of maps, e and π the weight and the shape of its floor, u
log-probabilities (n, K), or (n, S, K) with log-weights (n, S) of members, y label frequencies μ̂
(n, K), w row weights (n,), C costs relative to the best decision of the class, over the largest
(K, D), f = zC expected costs, c = yC costs under the labels, both (n, D).
"""

from collections.abc import Callable, Mapping
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d
from scipy.special import expit
from torch import Tensor

from .._ground.arrays import Floats, Indices
from .._ground.simplex import softmax
from ._rows import CalibrationRows
from ._scaling import AffineMap, FittedMap, transform

ITERATIONS = 50
RATES = (0.05, 0.2)  # of Adam, in logits
GIVEN = {"lam": (0.1,), "beta": (30.0,), "rate": RATES}  # what a grid leaves out
HARD = 1e9  # a β by which the smooth minimum is the minimum
DIRECT = ((0.03, 10.0), (0.03, 30.0), (0.3, 30.0))  # λ/κ and βκ
MARGIN = ((1.0, 30.0),)
SMOOTHING = (0.0, 0.1, 0.3)  # standard deviations in log T
_BLOCK = 2**16  # numbers in a tensor of probabilities: it stays in cache
_GRID = np.linspace(-3, 3, 601)  # of log β about the NLL solution
_BINS = 15


class Surrogates(NamedTuple):
    """Losses in place of the mean cost, which share a form up to `params`, one dict each.

    ∂loss/∂z (P, K, n) at (z, C, block); `additive` where a block of the rows needs no other.
    """

    params: list[dict]
    slope: Callable[..., Tensor]
    additive: bool = False


class Block(NamedTuple):
    """Some rows. They are the last axis, as a softmax over a short last axis is slow.

    Costs c (D, n) of the decisions, and the best of them d* (1, n).
    """

    u: Tensor  # (K, n) or (S, K, n)
    member: Tensor | None  # weights of members (S, n)
    y: Tensor  # (K, n)
    w: Tensor
    c: Tensor
    best: Tensor


def probabilities(fitted: FittedMap, rows: CalibrationRows) -> Floats:
    """What a fitted map predicts of the rows, z of shape (n, K)."""
    W, b = fitted.family.affine(fitted.x)
    return _mixed(softmax(transform(rows.log_proba, W, b)), fitted, rows)


def _mixed(p: NDArray, fitted: FittedMap, rows: CalibrationRows) -> Floats:
    """z of points, or the mean over members; (1−e) p + e π where there is a floor."""
    if rows.is_ensemble:
        p = np.einsum("ns,nsk->nk", np.exp(rows.log_weights), p)
    if fitted.floor is None:
        return p
    e = expit(fitted.eta)
    return (1 - e) * p + e * fitted.floor


def cost_scale(z: NDArray, C: NDArray, w: NDArray | None = None) -> float:
    """κ, the unit of λ and 1/β: mean over rows of the standard deviation of f between decisions."""
    spread = np.einsum("nk,kd->nd", z, C).std(axis=1)
    return max(float(np.average(spread, weights=w)), 1e-12)


def bounds_of(name: str, kappa: float, grid: Mapping | None) -> Surrogates:
    """Upper direct losses or margin rescaling: the default ones, in units of κ, or a grid."""
    if grid is None:
        pairs = {"direct": DIRECT, "margin": MARGIN}[name]
        return bounds(name, [(lam * kappa, beta / kappa) for lam, beta in pairs])
    losses = product(grid.get("lam", GIVEN["lam"]), grid.get("beta", GIVEN["beta"]))
    return bounds(name, list(losses), rates_of(grid))


def rates_of(grid: Mapping | None) -> tuple:
    """The first rates that Adam tries: those of the grid, else ours."""
    return RATES if grid is None else tuple(grid.get("rate", RATES))


def ece(rates=RATES) -> Surrogates:
    """The calibration error of the most probable class."""
    return Surrogates(_with_rates([{"criterion": "ece"}], rates), _autograd(top_label_error))


def classwise_ece(rates=RATES) -> Surrogates:
    """The squared calibration error of each class, summed."""
    params = _with_rates([{"criterion": "classwise_ece"}], rates)
    return Surrogates(params, _autograd(calibration_loss))


def of_module(module, rates=RATES) -> Surrogates:
    """A loss that the user brings, called as ``loss(log_proba, frequencies, weight)``."""

    def loss(z, y, w):
        log_z = [torch.log(one.clamp(min=1e-300)) for one in z]
        return torch.stack([module(one, y, w * len(w)) for one in log_z])

    return Surrogates(_with_rates([{"criterion": type(module).__name__}], rates), _autograd(loss))


def _with_rates(params: list[dict], rates) -> list[dict]:
    return [one | {"rate": rate} for rate in rates for one in params]


def bounds(name: str, losses: list[tuple], rates=RATES) -> Surrogates:
    """L⁺ or L^MR for several (λ, β), with slopes in closed form; β of None is infinite."""
    named = [{"criterion": name, "lam": lam, "beta": beta} for lam, beta in losses]
    params = _with_rates(named, rates)
    lam = torch.tensor([one["lam"] for one in params], dtype=torch.float64)[:, None, None]
    finite = [HARD if one["beta"] is None else one["beta"] for one in params]
    beta = torch.tensor(finite, dtype=torch.float64)[:, None, None]

    def slope(z, C, block):
        f = C.T @ z
        away = _softmax((f - lam * block.c).mul_(-beta))
        taken = (
            _softmax(f.mul_(-beta))
            if name == "direct"
            else torch.zeros_like(block.c).scatter_(0, block.best, 1.0)
        )
        return C @ (taken - away).mul_(block.w / lam)

    return Surrogates(params, slope, additive=True)


def _autograd(loss: Callable[..., Tensor]):
    """The slope of losses (P,) of z (P, n, K), y (n, K) and w."""

    def slope(z, C, block):
        with torch.enable_grad():
            z = z.clone().requires_grad_()
            return torch.autograd.grad(loss(z.mT, block.y.T, block.w).sum(), z)[0]

    return slope


def top_label_error(z: Tensor, y: Tensor, w: Tensor) -> Tensor:
    """ECE: confidence less accuracy of the most probable class, absolute, in hat-shaped bins."""
    top = z.argmax(dim=-1, keepdim=True)
    right = torch.gather(y.expand(len(z), -1, -1), -1, top)
    gap, _ = _binned(torch.gather(z, -1, top), right, w)
    return gap.abs().view(len(z), -1).sum(dim=1)


def calibration_loss(z: Tensor, y: Tensor, w: Tensor) -> Tensor:
    """Squared calibration errors of the classes, summed."""
    gap, weight = _binned(z, y, w)
    return (gap**2 / weight.clamp(min=1e-12)).view(len(z), -1).sum(dim=1)


def _binned(z: Tensor, y: Tensor, w: Tensor) -> Tensor:
    """Σ w (z − y) and Σ w of hat-shaped bins, which leave a gradient: (2, P·K·bins)."""
    P, _, K = z.shape
    position = z * (_BINS - 1)
    low = position.detach().floor().clamp(max=_BINS - 2)
    share, e = position - low, (z - y) * w[:, None]
    cell = low.long() + _BINS * torch.arange(K) + _BINS * K * torch.arange(P)[:, None, None]
    total = z.new_zeros(2, P * K * _BINS)
    for s, offset in ((1 - share, 0), (share, 1)):
        parts = torch.stack([(s * e).flatten(), (s * w[:, None]).flatten()])
        total = total.index_add(1, (cell + offset).flatten(), parts)
    return total


def descend(fitted: FittedMap, rows: CalibrationRows, C: NDArray, family: Surrogates) -> Floats:
    """Parameters (P, p) of P surrogates at once by Adam, whose rate falls to 0 as a cosine.

    From those of a fitted map, whose floor stays.
    """
    start = fitted.x
    rate = np.array([params["rate"] for params in family.params])[:, None]
    n = len(rows)
    size = n
    if family.additive:
        size = max(_BLOCK // (len(rate) * rows.log_proba[0].size), 32)
    costs = torch.as_tensor(C)
    blocks = [_block(rows, slice(i, i + size), costs) for i in range(0, n, size)]
    unit = _unit(fitted.family, start, rows)
    theta = np.zeros((len(rate), len(start)))
    mean = np.zeros_like(theta)
    square = np.zeros_like(theta)
    for i in range(1, ITERATIONS + 1):
        slope = unit * _slope(fitted, start + unit * theta, costs, blocks, family)
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
    fitted: FittedMap, x: NDArray, C: Tensor, blocks: list[Block], family: Surrogates
) -> Floats:
    """∂loss/∂x (P, p) of P parameter vectors, by way of z and of v = Wu + b in closed form."""
    shape = fitted.family
    floor = _floor(fitted)
    theta = torch.as_tensor(x).requires_grad_()
    W, b = shape.affine(theta.T, torch)  # (P,) or (K, P), and (K, P) or None
    by_W, by_b = torch.zeros((2, len(x), shape.K), dtype=theta.dtype)
    with torch.no_grad():
        scale = W.expand(shape.K, -1).T[..., None]
        bias = torch.zeros_like(scale) if b is None else b.T[..., None]
        for block in blocks:
            by_v = _by_logits(scale, bias, floor, C, block, family)
            by_W += (by_v * block.u).sum(dim=-1).reshape(len(x), -1, shape.K).sum(dim=1)
            by_b += by_v.sum(dim=-1).reshape(len(x), -1, shape.K).sum(dim=1)
    by_W = by_W.sum(dim=1) if W.ndim == 1 else by_W.T
    outputs, slopes = ((W,), (by_W,)) if b is None else ((W, b), (by_W, by_b.T))
    return torch.autograd.grad(outputs, theta, slopes)[0].numpy()


def _floor(fitted: FittedMap) -> tuple[float, Tensor]:
    """1 − e, and e π of shape (K, 1)."""
    if fitted.floor is None:
        return 1.0, torch.zeros((fitted.family.K, 1), dtype=torch.float64)
    e = float(expit(fitted.eta))
    return 1 - e, torch.as_tensor(e * fitted.floor[:, None])


def _by_logits(scale: Tensor, bias: Tensor, floor, C: Tensor, block: Block, family) -> Tensor:
    """∂loss/∂v, (P, K, n) or (P, S, K, n)."""
    rest, e_pi = floor
    if block.member is None:
        members = z = _softmax((block.u * scale).add_(bias))
    else:
        members = _softmax((block.u * scale[:, None]).add_(bias[:, None]))
        z = torch.einsum("sn,pskn->pkn", block.member, members)
    by_z = family.slope(rest * z + e_pi, C, block).mul_(rest)
    if block.member is not None:
        by_z = by_z[:, None] * block.member[:, None]
    by_v = members * by_z
    return by_v.sub_(members.mul_(by_v.sum(dim=-2, keepdim=True)))


def _softmax(v: Tensor) -> Tensor:
    """Softmax over the last axis but one; it overwrites v."""
    v = v.sub_(v.amax(dim=-2, keepdim=True)).exp_()
    return v.div_(v.sum(dim=-2, keepdim=True))


def _unit(shape: AffineMap, x: NDArray, rows: CalibrationRows) -> Floats:
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
    """Costs of the rows as step functions of t = log β: `base`, then (at, row, jump) in order."""

    grid: Floats  # (G,)
    base: Floats  # (n,)
    at: Floats  # (E,), sorted
    row: Indices
    jump: Floats

    @classmethod
    def of(cls, fitted: FittedMap, rows: CalibrationRows, C: NDArray) -> "TemperaturePath":
        """All changes of decisions between two points of a grid of step .01, found by bisection.

        Exact but for changes that are undone within one step, 1 % of T, and beyond factors of 20 of
        the center.
        """

        def decide(t, rows):
            u = rows.log_proba
            beta = np.exp(t)
            if np.ndim(t):
                beta = beta.reshape(-1, *[1] * (u.ndim - 1))
            return np.einsum("nk,kd->nd", _mixed(softmax(u * beta), fitted, rows), C).argmin(axis=1)

        grid = fitted.x[0] + _GRID
        c = np.einsum("nk,kd->nd", rows.frequencies, C)
        d = np.stack([decide(t, rows) for t in grid])  # (G, n)
        g, i = np.nonzero(d[1:] != d[:-1])
        low, high, left = grid[g], grid[g + 1], d[g, i]
        if len(g):
            changing = rows.take(i)
            for _ in range(30):
                middle = (low + high) / 2
                same = decide(middle, changing) == left
                low = np.where(same, middle, low)
                high = np.where(same, high, middle)
        order = np.argsort(high, kind="stable")
        jump = c[i, d[g + 1, i]] - c[i, left]
        return cls(grid, c[np.arange(len(c)), d[0]], high[order], i[order], jump[order])

    def minimise(self, w: NDArray, start: float, smoothing: float) -> float:
        """t of least risk under weights w, the nearest to `start`; where smoothed, on the grid."""
        after = np.append(0.0, np.cumsum(self.jump * w[self.row]))
        if smoothing:
            on_grid = after[np.searchsorted(self.at, self.grid, side="right")]
            risk = gaussian_filter1d(
                on_grid, smoothing / (self.grid[1] - self.grid[0]), mode="nearest"
            )
            low = high = self.grid
        else:
            low = np.append(self.grid[0], self.at)
            high = np.append(self.at, self.grid[-1])
            risk = np.where(high - low > 1e-8, after, np.inf)
        away = np.maximum(np.maximum(low - start, start - high), 0.0)
        best = risk <= risk.min() + 1e-12 * w.sum()
        k = np.flatnonzero(best)[away[best].argmin()]
        return start if away[k] == 0 else (low[k] + high[k]) / 2

    def cost(self, t: float) -> Floats:
        """Cost of each row at t, (n,)."""
        past = self.at <= t
        return self.base + np.bincount(self.row[past], self.jump[past], minlength=len(self.base))
