"""The problem of fitting an affine map: the log loss per label, a floor, a prior.

Letters as in `_label_loss`; counts times row weights have the sum 1 here. x are the parameters of
the family, behind which η = logit e stands where there is a floor.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial

import numpy as np
from scipy.special import expit, log_expit

from .._ground.arrays import Floats
from .._ground.curvature import Curvature, bordered
from .._ground.problems import Problem, Training
from .._ground.simplex import row_sum, softmax
from .._ground.threads import sum_over_rows
from ..neural_network import LBFGS, LabelLogLoss, Newton
from . import _label_loss
from ._affine import AffineMap, TemperatureMap, transform
from ._affine_module import AffineModule, prior_loss
from ._preconditioner import Blocks, CommonBlock, Information, shifted_coordinates
from ._prior import Prior, weak_prior
from ._rows import CalibrationRows
from ._start import FLOOR_PRIOR, best_start

# Numbers of a block: it stays in cache.
_BLOCK = 2**16
# Logits above which a search starts from a part of the rows, of ten rows a parameter.
_PART = 200_000
# Rows on which a start is looked for, more of ensembles, whose valleys are many; and the logits of
# points that suffice, as rows with many classes say more of a temperature.
_START_ROWS = 500
_START_ROWS_OF_MEMBERS = 2_000
_START_LOGITS = 10_000
# Parameters above which second derivatives take as long as several gradients.
_MANY = 60

Array = Floats


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

    rows: CalibrationRows

    def __init__(
        self, family: AffineMap, rows, prior, floor=None, start=None, in_stages: bool = True
    ):
        self.family = family
        self.rows = rows
        self.prior = prior
        self.floor = floor
        self.in_stages = in_stages
        # Nats of a row in those of a label: the prior is one for all rows.
        self.n_rows = rows.weight.sum()
        n = rows.weight * row_sum(rows.counts)
        self.n = n / n.sum()
        self._given_start = start
        self._excess: Callable[[float, float], float] | None = None
        # The x of the last second derivatives and of the last blocks, and they, by these names:
        # another prior begins where one ended.
        self._known: dict = {}

    def with_prior(self, prior: Prior, start: Array, excess=None) -> "ScalingProblem":
        """The same loss under another prior, from a start near the optimum.

        `excess(value, promise)` may be left above the least value, all in nats of all rows.
        """
        other = object.__new__(ScalingProblem)
        vars(other).update(vars(self))
        vars(other).pop("start", None)
        other.prior = prior
        other.in_stages = False
        other._given_start = start
        # A copy: each fit remembers its own point.
        other._known = dict(self._known)
        other._excess = excess
        return other

    def forget(self) -> None:
        """Leave what was kept for other priors, as it takes memory."""
        self._known = {}

    @property
    def default_solver(self):
        """That of the family, or L-BFGS around an ensemble, for which there is no Hessian."""
        if self.rows.is_ensemble:
            return LBFGS(max_iter=5000, tol=1e-8)
        return self.family.default_solver

    def excess(self, value, promise, curvature=None):
        """What a search may leave, in nats of a row."""
        if self._excess is None:
            return 0.0
        return self._excess(self.n_rows * value, self.n_rows * promise, curvature) / self.n_rows

    @property
    def keeps_curvature(self):
        """With many parameters."""
        return len(self.start) > _MANY

    @property
    def is_whitened(self):
        """Of points and without a floor, where the family needs it."""
        is_plain = not self.rows.is_ensemble and self.floor is None
        return self.family.is_whitened and is_plain

    @property
    def is_convex(self):
        """Whether the loss is convex without its prior, or its Hessian is taken as if it were."""
        return self.floor is None and self.family.is_linear

    # ------------------------------------------------------------------ where a search begins

    @cached_property
    def start(self) -> Array:
        """The given start, or the best temperature of a grid, each with its best floor."""
        return self._start(is_refined=bool(self.family.is_shrunk.any()))

    def _start(self, is_refined: bool) -> Array:
        if self._given_start is not None:
            return self._given_start
        beta, eta = _near_temperature(self, is_refined)
        x = self.family.start(beta)
        return x if self.floor is None else np.append(x, eta)

    @property
    def stages(self):
        """Where there are many rows, a part of them first, then perhaps all in float32."""
        size = max(_PART // self.rows.log_proba[0].size, 10 * len(self.start))
        step = -(-len(self.rows) // size)
        if step < 2 or not self.in_stages:
            return (self,)
        part = self.part(slice(None, None, step))
        if self.rows.is_ensemble or self.floor is not None or not self.family.starts_narrow:
            return (part, self)
        return (part, self.in_float32(), self)

    def in_float32(self) -> "ScalingProblem":
        """The same problem with logits in float32."""
        labels = self._labels
        other = object.__new__(ScalingProblem)
        vars(other).update(vars(self))
        other.rows = replace(self.rows, log_proba=self.rows.log_proba.astype(np.float32))
        other._known = {}
        vars(other)["_labels"] = labels
        return other

    def part(self, index) -> "ScalingProblem":
        """The same problem on some of the rows, with the prior that all rows have."""
        # a copy of what a problem reads
        rows = replace(self.rows, X=None, proba=None, prediction=None, labels=None).take(index)
        part = ScalingProblem(self.family, rows, self.prior, self.floor, self.start, False)
        part.n_rows = self.n_rows
        return part

    # ------------------------------------------------------------------------- three forms

    def gradient(self, x):
        """Loss with prior, and gradient."""
        return self._gradient(x, *self._first_sums(x))

    def hessian(self, x):
        """Loss with prior, gradient and Hessian; of ensembles there is none."""
        value, slope, curvature = self.curvature(x)
        return value, slope, curvature.H + np.diag(curvature.d)

    def curvature(self, x):
        """As `hessian`, with what is solved by it."""
        if self.rows.is_ensemble:
            return super().hessian(x)  # which says that there is none
        return self.expansion(x)

    def expansion(self, x) -> tuple[float, Array, Curvature]:
        """As `curvature`; around an ensemble the Hessian is that of the complete data.

        Complete data say which member a label comes from. They know no less than labels alone, so
        that what is made of their information is cautious. It is positive semi-definite.
        """
        made = self._known.get("expansion")
        if made is None or made[0] is not self.prior or not _same(made[1], x):
            F, slope, by_eta, H = self._second_sums(x)
            value, slope = self._with_prior(*self._split(x), F, slope, by_eta)
            made = self.prior, x, (value, slope, Curvature(H, self.prior_curvature(x)))
            self._known["expansion"] = made
        return made[2]

    @property
    def known_at(self):
        """The x of the last second derivatives, or None."""
        return self._known.get("second", (None,))[0]

    def blocks(self, x) -> tuple[float, Array, Blocks | CommonBlock]:
        """Loss with prior, gradient, and factors for the classes' blocks of the Hessian."""
        if not self._knows("blocks", x):
            sums = self._first_sums(x)
            self._known["blocks"] = x, (sums, Information.of(*self._members(x)))
        sums, known = self._known["blocks"][1]
        return *self._gradient(x, *sums), self._factors(known)

    def _factors(self, information: Information) -> Blocks | CommonBlock:
        """What the information and the prior make, once."""
        made = self._known.get("factors")
        if made is None or made[0] is not self.prior or made[1] is not information:
            made = self.prior, information, information.factors(self._curvature)
            self._known["factors"] = made
        return made[2]

    def _members(self, x):
        """u of points, or of members one below the other; their labels; p: (N, K), (N,), (N, K)."""
        u = self.rows.log_proba
        K = self.family.K
        p = softmax(transform(u, *self.family.affine(self._split(x)[0])))
        n = self.n
        if self.rows.is_ensemble:
            n = (n[:, None] * np.exp(self.rows.log_weights)).ravel()
        return u.reshape(-1, K), n, p.reshape(-1, K)

    def training(self):
        """The map as a torch module; it begins near the temperature, as its steps are short."""
        penalty = partial(prior_loss, self.prior, self.n_rows, self.floor)
        module = AffineModule(self.family, self._start(is_refined=True), self.floor, penalty)
        inputs = {"logits": self.rows.log_proba, "log_weights": self.rows.log_weights}
        return Training(module, LabelLogLoss(), inputs, self.rows.counts, self.rows.weight)

    def coordinates(self, x):
        """Those of a matrix, whose entries are far from equally curved."""
        if not self.is_whitened:
            return super().coordinates(x)
        if self._knows("blocks", x):
            known = self._known["blocks"][1][1]
        else:
            step = -(-len(self.rows) // max(_PART // self.family.K, 1))
            u = self.rows.log_proba[::step]
            n = self.n[::step] / self.n[::step].sum()
            p = softmax(transform(u, *self.family.affine(x)))
            known = Information.of(u, n, p)
        return shifted_coordinates(x, self._factors(known), self._curvature)

    def prior_curvature(self, x):
        """Second derivatives of the prior, one by one."""
        curvature = self.prior.precision / self.n_rows
        if self.floor is None:
            return curvature
        e = expit(x[-1])
        return np.append(curvature, FLOOR_PRIOR / self.n_rows * 2 * e * (1 - e))

    # -------------------------------------------------------------------------- its parts

    @property
    def _curvature(self) -> Array:
        """Of the prior, in rows of classes, shape (K, K+1) of a matrix."""
        return (self.prior.precision / self.n_rows).reshape(self.family.K, -1)

    def _knows(self, name: str, x) -> bool:
        return name in self._known and _same(self._known[name][0], x)

    def _gradient(self, x, F, G, by_eta):
        """Loss with prior, and gradient, of the sums over rows."""
        x_map, eta = self._split(x)
        return self._with_prior(x_map, eta, F, self.family.chain(x_map, G), by_eta)

    def _split(self, x: Array) -> tuple[Array, float]:
        """Parameters of the map, and η."""
        if self.floor is None:
            return x, -np.inf
        return x[:-1], x[-1]

    @property
    def y(self) -> Array:
        """Counts times row weights."""
        return self.rows.label_shares

    @cached_property
    def _labels(self):
        """Σ Jᵀy: what labels add to the gradient where it does not depend on the map."""
        rows = self.rows
        share = rows.share_of_a_label

        def block(part):
            return (self.family.pulled_sum(rows.log_proba[part], rows.counts[part], share[part]),)

        return sum_over_rows(block, len(rows), max(_BLOCK // rows.n_classes, 64))[0]

    def _pairs(self, part: slice):
        """Labels of a block of rows, which are counted from its first."""
        pairs = self.rows.label_pairs
        if part.stop - part.start == len(self.rows):
            return pairs
        own = slice(*np.searchsorted(pairs[0], [part.start, part.stop]))
        i, k, y, is_alone = (a[own] for a in pairs)
        return i - part.start, k, y, is_alone

    def _first_sums(self, x) -> list:
        """Loss and gradient in (θ, η); the last are kept."""
        if not self._knows("first", x):
            self._known["first"] = x, self._new_sums(*self._split(x), curved=False)
        return self._known["first"][1]

    def _second_sums(self, x) -> tuple[float, Array, float, Array]:
        """Loss, gradient in the x of the map and in η, and Hessian in x; the last are kept."""
        if not self._knows("second", x):
            x_map, eta = self._split(x)
            F, G, by_eta, H, cross, by_eta_twice = self._new_sums(x_map, eta, curved=True)
            H = self.family.curved_chain(x_map, G, H)
            if self.floor is not None:
                H = bordered(H, self.family.chain(x_map, cross), by_eta_twice)
            self._known["second"] = x, (F, self.family.chain(x_map, G), by_eta, H)
        return self._known["second"][1]

    def _new_sums(self, x, eta, curved: bool) -> list:
        """Loss and derivatives in (θ, η), summed over blocks of rows."""
        family, rows, floor = self.family, self.rows, self.floor
        W, b = family.affine(x)
        W = W.astype(rows.log_proba.dtype)
        is_plain = not rows.is_ensemble and floor is None

        def block(part):
            u = rows.log_proba[part]
            v = transform(u, W, b)
            if is_plain:
                return _label_loss.plain(family, u, v, self.n[part], curved)
            if not rows.is_ensemble:
                return _label_loss.floored(family, u, v, self._pairs(part), floor, eta, curved)
            log_w = rows.log_weights[part]
            return _label_loss.mixed(family, u, v, self.y[part], log_w, floor, eta, curved)

        size = max(_BLOCK // rows.log_proba[0].size, 64)
        sums = list(sum_over_rows(block, len(rows), size))
        if is_plain:
            sums[0] -= float(self._labels @ family.linear(x))
            sums[1] = sums[1] - self._labels
        return sums

    def _with_prior(self, x, eta, F, G, by_eta):
        """Value and gradient with those of the prior."""
        away = x - self.prior.center
        slope = self.prior.precision / self.n_rows * away
        F = F + 0.5 * float(slope @ away)
        G = G + slope
        if self.floor is None:
            return F, G
        # −.1 (log e + log(1−e)), in rows
        weight = FLOOR_PRIOR / self.n_rows
        F = F - weight * float(log_expit(eta) + log_expit(-eta))
        return F, np.append(G, by_eta + weight * (2 * expit(eta) - 1))


def _same(x: Array, at: Array) -> bool:
    """Whether two points are one, to the bit."""
    return x is at or x.tobytes() == at.tobytes()


def without_x(rows: CalibrationRows) -> CalibrationRows:
    """The rows without what the classifier saw, which is not to be copied for each part of them."""
    return replace(rows, X=None)


def _near_temperature(problem: ScalingProblem, is_refined: bool) -> tuple[float, float]:
    """β and η of the temperature alone on a part of the rows.

    The best of the grid around an ensemble, and on all rows if it is not to be refined.
    """
    most = _START_ROWS_OF_MEMBERS
    if not problem.rows.is_ensemble:
        most = min(_START_ROWS, max(100, _START_LOGITS // problem.rows.n_classes))
    step = -(-len(problem.rows) // most)
    rows = problem.rows
    if step > 1:
        rows = without_x(rows).take(slice(None, None, step))
    beta, eta = best_start(rows, problem.n_rows, problem.floor)
    if rows.is_ensemble or (step == 1 and not is_refined):
        return beta, eta
    x = np.log([beta]) if problem.floor is None else np.array([np.log(beta), eta])
    family = TemperatureMap(rows.n_classes)
    part = ScalingProblem(family, rows, weak_prior(rows), problem.floor, x, False)
    part.n_rows = problem.n_rows
    x = Newton(tol=1e-6).solve(part)
    return np.exp(x[0]), x[-1]
