"""The log loss of an affine map of logits, with a floor and a prior: value, gradient, Hessian.

z = (1−e) Σ_s w_s softmax(W u_s + b) + e π over the members s of an ensemble, of which a point
prediction has one. Letters: y counts times row weights with sum 1, n = Σ_k y_k, p = softmax(u'),
r_sk = (1−e) w_s p_sk / z_k the share of a member in the probability of a label, e = σ(η). The loss
is per label, −Σ y log z.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, logsumexp

from .._simplex import log_softmax, row_sum, softmax
from .._threads import sum_over_rows
from ..neural_network import LabelLogLoss, Newton
from ..neural_network._solvers import Problem, SmoothProblem, Training
from ._affine import AffineMap, AffineModule, MatrixMap, TemperatureMap, transform
from ._preconditioner import preconditioner, shifted_coordinates
from ._rows import CalibrationRows

# Numbers of a block: it stays in cache.
_BLOCK = 2**17
# Logits above which a search starts from the optimum of a part of the rows, of ten rows a parameter.
_PART = 200_000
# Rows on which a start is looked for, and the inverse temperatures that are tried.
_START_ROWS = 2_000
_STARTS = np.exp(np.linspace(-4, 3, 15))
# Weight of log e + log(1−e) in the prior of the floor, in rows (math: decisions.md §1).
_FLOOR_PRIOR = 0.1
# Below this probability, the classifier's zeros included, the floor begins where nothing is known.
_FIRST_ETA = -4.0

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Prior:
    """½ Σ_j (x_j − c_j)²/s_j² in nats of rows, for the parameters x of a map without its floor.

    Parameters
    ----------
    center : ndarray of shape (p,)
        c.
    spread : ndarray of shape (p,)
        s; infinite where nothing is known.
    """

    center: Array
    spread: Array

    @cached_property
    def precision(self) -> Array:
        """1/s²."""
        return self.spread**-2.0


class ScalingProblem(Problem):
    """The log loss per label of a family of maps on calibration rows, and the prior.

    Parameters
    ----------
    family : AffineMap
    rows : CalibrationRows
        Without rows of weight 0.
    prior : Prior
    floor : ndarray of shape (K,) or None
        π; x then has one more entry, η = logit e.
    start : ndarray of shape (p,) or None
        None: the best temperature of a grid.
    in_stages : bool, default=True
        Whether a part of the rows is solved first, where there are many.
    """

    def __init__(self, family: AffineMap, rows: CalibrationRows, prior, floor=None, start=None, in_stages=True):
        self.family = family
        self.rows = rows
        self.prior = prior
        self.floor = floor
        self.in_stages = in_stages
        # Nats of a row in those of a label: the prior is one for all rows.
        self.n_rows = rows.weight.sum()
        y = rows.counts * rows.weight[:, None]
        self.y = y / y.sum()
        self.n = row_sum(self.y)
        self._given_start = start

    def with_prior(self, prior: Prior, start: Array) -> "ScalingProblem":
        """The same loss under another prior, from a start near the optimum."""
        other = object.__new__(ScalingProblem)
        vars(other).update(vars(self))
        vars(other).pop("start", None)
        other.prior = prior
        other.in_stages = False
        other._given_start = start
        return other

    # ------------------------------------------------------------------ where a search begins

    @cached_property
    def start(self) -> Array:
        """The given start, or the best temperature of a grid, each with its best floor."""
        if self._given_start is not None:
            return self._given_start
        beta, eta = best_start(self)
        x = self.family.start(beta)
        return x if self.floor is None else np.append(x, eta)

    @property
    def stages(self):
        """A part of the rows first, where there are many."""
        size = max(_PART // self.rows.log_proba[0].size, 10 * len(self.start))
        step = -(-len(self.rows) // size)
        if step < 2 or not self.in_stages:
            return (self,)
        part = self.part(slice(None, None, step))
        return (part, self)

    def part(self, index) -> "ScalingProblem":
        """The same problem on some of the rows, with the prior that all rows have."""
        part = ScalingProblem(
            self.family, without_x(self.rows).take(index), self.prior, self.floor, self.start, False
        )
        part.n_rows = self.n_rows
        return part

    # ------------------------------------------------------------------------- three forms

    def gradient(self, x):
        """Loss with prior, and gradient."""
        theta, eta = self._split(x)
        statistic = self._mixture_gradient
        if not self.rows.is_ensemble and self.floor is None:
            statistic = self._plain_gradient
        F, *G = self._sums(statistic, theta, eta)
        return self._with_prior(x, F, self._joined(x, *G))

    def hessian(self, x):
        """Loss with prior, gradient and Hessian; of ensembles there is none."""
        if self.rows.is_ensemble:
            return super().hessian(x)
        return self._second_derivatives(x)

    def information(self, x):
        """The Hessian; around an ensemble that of the complete data, which is positive semi-definite.

        Complete data say which member a label comes from. They know no less than labels alone, so
        that what is made of their information is cautious.
        """
        return self._second_derivatives(x)[2]

    def members_and_probabilities(self, x):
        """u and p of points, or of members one below the other, shape (N, K)."""
        theta, _ = self._split(x)
        p = softmax(transform(self.rows.log_proba, *self.family.affine(theta)))
        return _one_below_the_other(self.rows.log_proba, p)

    def training(self):
        """The map as a torch module."""

        def penalty(x):
            return _as_torch(self, x)

        module = AffineModule(self.family, self.start, self.floor, penalty)
        inputs = {"logits": self.rows.log_proba, "log_weights": self.rows.log_weights}
        return Training(module, LabelLogLoss(), inputs, self.rows.counts, self.rows.weight)

    def coordinates(self, x):
        """Those of a matrix, whose entries are far from equally curved."""
        if not isinstance(self.family, MatrixMap) or self.rows.is_ensemble or self.floor is not None:
            return super().coordinates(x)
        step = -(-len(self.rows) // max(_PART // self.family.K, 1))
        u = self.rows.log_proba[::step]
        n = self.n[::step] / self.n[::step].sum()
        p = softmax(transform(u, *self.family.affine(x)))
        curvature = (self.prior.precision / self.n_rows).reshape(self.family.K, -1)
        return shifted_coordinates(x, preconditioner(u, n, p, curvature), curvature)

    # -------------------------------------------------------------------------- its parts

    def _split(self, x):
        if self.floor is None:
            return x, None
        return x[:-1], x[-1]

    def _sums(self, statistic, x, eta) -> list:
        """Sums over blocks of rows of what `statistic` returns."""
        W, b = self.family.affine(x)
        u = self.rows.log_proba
        log_w = self.rows.log_weights

        def block(part):
            members = None if log_w is None else log_w[part]
            a = u[part]
            v = transform(a, W, b)
            return statistic(a, v, self.y[part], self.n[part], members, eta)

        return sum_over_rows(block, len(u), max(_BLOCK // u[0].size, 64))

    @cached_property
    def _labels(self):
        """Σ Jᵀy, the labels' part of the gradient where it does not depend on the map."""
        return self.family.pulled_sum(self.rows.log_proba, self.y)

    def _plain_gradient(self, u, v, y, n, log_w, eta):
        F, q = _plain_loss(v, y, n)
        q *= n[:, None]
        return F, self.family.pulled_sum(u, q)

    def _plain_hessian(self, u, v, y, n, log_w, eta):
        F, p = _plain_loss(v, y, n)
        P = self.family.pulled(u, p)
        P *= np.sqrt(n)[:, None]
        p *= n[:, None]
        G = self.family.pulled_sum(u, p)
        return F, G, self.family.diagonal(u, p) - P.T @ P

    def _mixture_gradient(self, u, v, y, n, log_w, eta):
        F, p, yr = self._shares(v, y, log_w, eta)
        u, p, yr = _one_below_the_other(u, p, yr)
        G = self.family.pulled_sum(u, row_sum(yr)[:, None] * p - yr)
        # ∂(−y log z)/∂η = −y (1 − Σ_s r_s − e)
        return F, G, yr.sum() - (1 - _e(eta)) * y.sum()

    def _mixture_hessian(self, u, v, y, n, log_w, eta):
        F, p, yr = self._shares(v, y, log_w, eta)
        r_y = np.repeat(y[:, None], p.shape[1], axis=1)
        r_y, u, p, yr = _one_below_the_other(r_y, u, p, yr)
        n_r = row_sum(yr)
        G = self.family.pulled_sum(u, n_r[:, None] * p - yr)
        by_eta = yr.sum() - (1 - _e(eta)) * y.sum()
        # c = y r (1−r): what a label does not say, coming from the map or from the floor. Of the
        # complete data, which know, it is 0.
        if log_w is not None:
            c = np.zeros_like(yr)
        else:
            c = yr * (1 - yr / np.where(r_y > 0, r_y, 1.0))
        C = row_sum(c)
        M = np.maximum(n_r + C, 1e-300)
        # H_u' = diag(n_r p − c) − M q qᵀ + c cᵀ/M with q = p − c/M
        Q = self.family.pulled(u, p - c / M[:, None]) * np.sqrt(M)[:, None]
        D = self.family.pulled(u, c) / np.sqrt(M)[:, None]
        H = self.family.diagonal(u, n_r[:, None] * p - c) - Q.T @ Q + D.T @ D
        cross = self.family.pulled_sum(u, c - C[:, None] * p)
        e = _e(eta)
        return F, G, by_eta, H, cross, e * (1 - e) * y.sum() - C.sum()

    def _shares(self, v, y, log_w, eta):
        """Loss, p of each member (n, S, K), and y r (n, S, K)."""
        log_p = log_softmax(v)
        if log_w is None:
            log_p = log_p[:, None]
            log_parts = log_p
        else:
            log_parts = log_p + log_w[:, :, None]
        if eta is not None:
            log_parts = log_parts + log_expit(-eta)
        log_z = log_parts[:, 0] if log_w is None else logsumexp(log_parts, axis=1)
        if eta is not None:
            log_z = np.logaddexp(log_z, log_expit(eta) + np.log(self.floor))
        F = -float(np.einsum("ij,ij->", y, log_z))
        yr = y[:, None] * np.exp(log_parts - log_z[:, None])
        return F, np.exp(log_p), yr

    def _second_derivatives(self, x):
        theta, eta = self._split(x)
        if not self.rows.is_ensemble and self.floor is None:
            F, G, H = self._sums(self._plain_hessian, theta, eta)
            G = G - self._labels
            full = self.family.curved_chain(theta, G, H)
            return self._with_prior(x, F, self._joined(x, G + self._labels), full)
        F, G, by_eta, H, cross, by_eta_twice = self._sums(self._mixture_hessian, theta, eta)
        full = self.family.curved_chain(theta, G, H)
        if self.floor is not None:
            cross = self.family.chain(theta, cross)
            full = np.block([[full, cross[:, None]], [cross[None], np.array([[by_eta_twice]])]])
        return self._with_prior(x, F, self._joined(x, G, by_eta), full)

    def _joined(self, x, G, by_eta=None):
        """The gradient in x from its parts."""
        theta, _ = self._split(x)
        if by_eta is None:
            return self.family.chain(theta, G - self._labels)
        slope = self.family.chain(theta, G)
        return slope if self.floor is None else np.append(slope, by_eta)

    def _with_prior(self, x, F, G, H=None):
        """Value, gradient and, where there is one, Hessian with those of the prior."""
        theta, eta = self._split(x)
        away = theta - self.prior.center
        precision = self.prior.precision / self.n_rows
        F = F + 0.5 * float(precision @ away**2)
        slope = precision * away
        curvature = precision
        if eta is not None:
            # −.1 (log e + log(1−e)), in rows
            weight = _FLOOR_PRIOR / self.n_rows
            e = expit(eta)
            F = F - weight * (log_expit(eta) + log_expit(-eta))
            slope = np.append(slope, weight * (2 * e - 1))
            curvature = np.append(curvature, weight * 2 * e * (1 - e))
        G = G + slope
        return (F, G) if H is None else (F, G, H + np.diag(curvature))


def _plain_loss(v, y, n):
    """The loss of logits v (n, K), and their probabilities, in the place of v."""
    # Else no exponential leaves the range of floats, and maxima are slow.
    if max(v.max(), -v.min()) > 80:
        v -= v.max(axis=1, keepdims=True)
    labels = float(np.einsum("ij,ij->", y, v))
    p = np.exp(v, out=v)
    Z = row_sum(p)
    p /= Z[:, None]
    return float(n @ np.log(Z)) - labels, p


def _one_below_the_other(*arrays):
    """Members (n, S, K) as rows (n·S, K)."""
    return [a.reshape(-1, a.shape[-1]) for a in arrays]


def _e(eta):
    return 0.0 if eta is None else expit(eta)


def _as_torch(problem: ScalingProblem, x):
    """The prior of x as a tensor, in nats of a label."""
    import torch

    theta, eta = problem._split(x)
    precision = torch.as_tensor(problem.prior.precision / problem.n_rows, device=x.device)
    center = torch.as_tensor(problem.prior.center, device=x.device)
    value = 0.5 * (precision * (theta - center) ** 2).sum()
    if eta is None:
        return value
    both = torch.nn.functional.logsigmoid(eta) + torch.nn.functional.logsigmoid(-eta)
    return value - _FLOOR_PRIOR / problem.n_rows * both


def without_x(rows: CalibrationRows) -> CalibrationRows:
    """The rows without what the classifier saw, which is not to be copied for each part of them."""
    return replace(rows, X=None)


def weak_prior(rows: CalibrationRows) -> Prior:
    """½ (log T)²: one row's worth that the classifier is right."""
    return Prior(np.zeros(1), np.ones(1))


def best_start(problem: ScalingProblem) -> tuple[float, float]:
    """β of a grid and η of least loss with prior, on a part of the rows.

    The prior's square of log T and mixtures make the problem one of several valleys.
    """
    step = -(-len(problem.rows) // _START_ROWS)
    rows = without_x(problem.rows).take(slice(None, None, step))
    temperature = TemperatureMap(rows.n_classes)
    part = ScalingProblem(temperature, rows, weak_prior(rows), problem.floor, start=np.zeros(1))
    part.n_rows = problem.n_rows
    tried = []
    for beta in _STARTS:
        x = temperature.start(beta)
        if problem.floor is not None:
            x = np.append(x, _best_floor(part, beta))
        tried.append((part.gradient(x)[0], beta, x[-1]))
    _, beta, eta = min(tried)
    return beta, eta


def _best_floor(part: ScalingProblem, beta: float) -> float:
    """η of least loss for a given β: one dimension, convex but for the prior."""
    z = softmax(beta * part.rows.log_proba)
    if part.rows.is_ensemble:
        z = np.einsum("ns,nsk->nk", np.exp(part.rows.log_weights), z)
    seen = part.y > 0
    y = part.y[seen]
    z = z[seen]
    pi = np.broadcast_to(part.floor, part.y.shape)[seen]
    weight = _FLOOR_PRIOR / part.n_rows

    def loss(x):
        e = expit(x[0])
        mixed = (1 - e) * z + e * pi
        r = (1 - e) * z / mixed
        F = -float(y @ np.log(mixed)) - weight * float(log_expit(x[0]) + log_expit(-x[0]))
        G = e * y.sum() - y @ (1 - r) + weight * (2 * e - 1)
        H = e * (1 - e) * y.sum() - y @ (r * (1 - r)) + weight * 2 * e * (1 - e)
        return F, np.array([G]), np.array([[H]])

    return float(Newton(tol=1e-6).solve(SmoothProblem(loss, np.array([_FIRST_ETA])))[0])
