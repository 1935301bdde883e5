"""Fits an affine transform: least log loss with a normal prior, averaged over its strengths.

    z = (1−e) p + e π,   p = softmax(W u + b),   e = σ(η)

where π is mixed in. A label of class k does not come from π with probability r = (1−e) p_k / z_k.
Letters: n samples, y the share (L,) of each label in the weighted sum of all, m = Σ y r over the
labels of a sample, x the transform's parameters, with mixing also η, J = ∂u'/∂x as in `maps`. The
log loss of a label is

    F = −Σ y log z,   ∂F/∂x = Σ Jᵀ(m p − Σ y r e_k),   ∂F/∂η = Σ y (r − (1−e))

The weight e of π has the prior −0.1 (log e + log(1−e)), in nats of one sample.

1. The temperature, n F(β) + ½ log²(β/β₀) with β = 1/T, is least at β. The search begins at the best
   of a grid about β₀. This is 1, or brings the median lead of the best class over the second to
   between 0.02 and 50 nats: scores may have any scale. A stacked calibrator shrinks β towards β₀,
   l ← (1 − 1/(h l²))₊ l of l = log(β/β₀). Here h is the information about log β in nν labels (James
   and Stein 1961, positive part).
2. Labels of one sample depend on each other, as raters see the same case. They are worth ν of as
   many samples, by the frequencies ȳ of the labels and what the family below predicts, z:

       ν = Σ_i (1 − ‖z_i‖²) / Σ_i ‖ȳ_i − z_i‖²   (Kish's design effect), from 1 to their number.

   It is 1 where the raters of a sample always agree, and their number where each follows z alone.
   For each strength (s_d, s_b) the other parameters are shrunk towards c, those of u' = βu. Here β
   is that of the family below, which is fitted first: of the temperature for the bias-corrected
   family, and of the latter for a vector and a matrix, since where class frequencies changed only
   a temperature beside biases is right. The standard deviation is β s_d for scales, s_b for biases.
   With d = 1/s²

       J(x) = nν F(x) + ½ Σ d (x − c)²   is least at x̂; with a single strength ν is 1.

3. How likely the labels are under this strength, by Laplace with H = ∂²J/∂x² at x̂:

       log evidence = −J(x̂) − ½ log det H + ½ Σ log d   over the d that the strength decides.

   The temperature alone, x = c, is the limit s → 0 and one more strength.
   Behind a strength whose evidence is far below the best no other is tried.
4. The transform is that of x = Σ softmax(log evidence) x̂ over the strengths. It is that of the
   likeliest where the loss of the average is above all of theirs, as mixing is not convex.

Each minimum is found by L-BFGS in t, x = x₀ + L⁻ᵀt, where LLᵀ is H at the start x₀ (Cholesky): in
t it is 1 there. The search for a strength begins where that for the one before ended, the first at
the fit of the family below. In a fold only the strengths that matter to all samples are tried, and
a search begins as far from the minimum of all samples as that for the one before ended from its.
Where π explains more than a few labels another search begins at the optimum without mixing, and the
lower minimum is taken: large biases may lie in another valley.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import reduce
from itertools import compress
from operator import add
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from ..._utils.checks import warn
from ..._utils.search import warn_unfinished
from ..._utils.simplex import EPS, gini, row_max, row_sum, softmax
from ..._utils.types import Floats, Indices, Mask
from .._rows import CalibrationRows, inversion
from .maps import ClassInformation, Family, FittedMap, Information, TemperatureMap, VectorMap

# So many nats behind the best, evidence is taken to fall further: over strengths it has one peak,
# where the loss is quadratic and curved alike in all directions.
_FAR_BEHIND = 20.0
# The log β/β₀ and, with mixing, the η that are tried, on so many samples; and the η at the optimum
# without mixing.
_LOG_BETAS = tuple(range(-10, 4))
_ETAS = (-6.0, -2.0)
_ETAS_OF_UNMIXED = (-12.0, -8.0, -6.0, -4.0, -2.0)
_START_ROWS = 200
# The median lead of the best class, in nats, that needs no other scale; and the least lead, as a
# share of the largest, that is one.
_LEADS = (0.02, 50.0)
_LEAST_LEAD = 1e-9
# The weight of π above which a fit may be better without it.
_LITTLE = 0.02
# The evidence's share below which a strength does not matter.
_SHARE = 1e-3
# The most steps; the slope in t at which a search ends, and that above which it has failed. Half
# the square of the slope is what is left, in nats of a sample.
_MOST = 2_000
_TOLERANCE = 1e-8
_FAILED = 1e-4
# Weights whose sum is below this share of the samples are hardly meant as numbers of samples.
_FRACTION = 0.1
# Weight of the prior of e, in samples.
_FLOOR_PRIOR = 0.1
# Numbers of a block: it stays in cache.
_BLOCK = 2**16
# Logits below the best of a sample are no lower: exponentials beyond the range of floats take long.
_LEAST = -300.0


def as_read(rows: CalibrationRows, mixing) -> CalibrationRows:
    """Samples as a transform reads them; mixing needs no clip of small probabilities."""
    if mixing is None:
        return rows
    return rows.unclipped()


def rows_for_fit(rows: CalibrationRows, mixing: str | None) -> CalibrationRows:
    """Samples of positive weight, as a transform with this mixing reads them."""
    return replace(as_read(rows, mixing), X=None).take(rows.weight > 0)


def resolved_mixing(mixing: str | None, rows: CalibrationRows) -> str | None:
    """What "auto" stands for: uniform mixing where probabilities would be clipped, else none."""
    if mixing != "auto":
        return mixing
    if rows.proba is None:
        return None
    least = rows.proba[rows.weight > 0].min(initial=1.0)
    return "uniform" if least < EPS else None


def mixing_probabilities(mixing: str | None, rows: CalibrationRows) -> Floats | None:
    """π: uniform, or the shares of the classes."""
    if mixing is None:
        return None
    if mixing == "uniform":
        return np.full(rows.n_classes, 1 / rows.n_classes)
    return class_shares(rows)


def class_shares(rows: CalibrationRows) -> Floats:
    """Of the labels, with one sample more, spread over all classes."""
    share = rows.weight @ rows.frequencies
    one_more = 1 / rows.n_classes
    return (share + one_more) / (share.sum() + 1)


class _Block(NamedTuple):
    """Some samples and their labels.

    u (m, …) as it is transformed; of the labels classes k and shares y (L,), their samples in u,
    and the entries of u'.ravel() where these have class k.
    """

    u: Floats
    k: Indices
    y: Floats
    at: Indices
    entry: Indices


class LogLoss:
    """F and its derivatives in the parameters of a family, behind which η stands with mixing.

    Parameters
    ----------
    family : Family
    rows : CalibrationRows
    pi : ndarray of shape (K,) or None
        π.
    """

    def __init__(self, family: Family, rows: CalibrationRows, pi: Floats | None):
        self.family = family
        self.rows = rows
        self.pi = pi
        # Nats of a sample in those of a label: a prior is one for all samples.
        self.n_rows = float(rows.weight.sum())
        self.beta_0 = unit_beta(rows)
        self._blocks = list(_in_blocks(rows, family))

    def split(self, x: Floats) -> tuple[Floats, float]:
        """Parameters of the transform, and η."""
        if self.pi is None:
            return x, -np.inf
        return x[:-1], x[-1]

    def value(self, x: Floats) -> float:
        """F."""
        of_map, eta = self.split(x)
        F = sum(self._parts(block, of_map, eta)[-1] for block in self._blocks)
        return F + self._prior(eta)[0]

    def __call__(self, x: Floats) -> tuple[float, Floats]:
        """F and its gradient, shape (p,)."""
        of_map, eta = self.split(x)
        F, slope = self._prior(eta)
        G = np.zeros(len(of_map))
        of_map_alone = 0.0
        for block in self._blocks:
            p, Z, a, value = self._parts(block, of_map, eta)
            F += value
            of_map_alone += a.sum()
            p *= (_sums(block.at, a, len(p)) / Z)[:, None]
            p.ravel()[block.entry] -= a
            G += self.family.slope(of_map, block.u, p)
        if self.pi is None:
            return F, G
        return F, np.append(G, of_map_alone - expit(-eta) + slope)

    def information(self, x: Floats) -> Information | ClassInformation:
        """Second derivatives if it were known which labels come from π.

        They are those of F without mixing, but for the curvature of log β. Else they are larger.
        """
        of_map, eta = self.split(x)

        def of(block):
            p, Z, a, _ = self._parts(block, of_map, eta)
            p /= Z[:, None]
            return self.family.information(of_map, block.u, p, _sums(block.at, a, len(p)))

        total: Any = reduce(add, map(of, self._blocks))
        if self.pi is None:
            return total
        weight = 1 + 2 * _FLOOR_PRIOR / self.n_rows
        # η has no mixed derivatives with the others
        return Information(block_diag(total.H, weight * expit(eta) * expit(-eta)))

    def _prior(self, eta: float) -> tuple[float, float]:
        """−0.1 (log e + log(1−e)) and its derivative, in samples."""
        if self.pi is None:
            return 0.0, 0.0
        weight = _FLOOR_PRIOR / self.n_rows
        return -weight * (log_expit(eta) + log_expit(-eta)), weight * np.tanh(eta / 2)

    def _parts(self, block: _Block, x: Floats, eta: float) -> tuple[Floats, Floats, Floats, float]:
        """Z p (m, K), Z (m,), y r of the labels (L,), and the value."""
        # In the order of samples, in which entries of labels are counted.
        v = np.ascontiguousarray(self.family.mapped(x, block.u))
        v -= row_max(v)[:, None]
        log_p = v.ravel()[block.entry]
        p = np.exp(np.maximum(v, _LEAST, out=v), out=v)
        Z = row_sum(p)
        log_p -= np.log(Z)[block.at]
        if self.pi is None:
            return p, Z, block.y, -float(block.y @ log_p)
        log_p += log_expit(-eta)
        log_z = np.logaddexp(log_p, log_expit(eta) + np.log(self.pi)[block.k])
        a = block.y * np.exp(log_p - log_z)
        return p, Z, a, -float(block.y @ log_z)


def _sums(at: Indices, a: Floats, size: int) -> Floats:
    """Σ a over the entries that have the same number."""
    return np.bincount(at, a, size).astype(float, copy=False)


def _in_blocks(rows: CalibrationRows, family: Family) -> Iterator[_Block]:
    """The samples, some at a time."""
    K = rows.n_classes
    i, k, y = rows.label_pairs
    size = max(_BLOCK // K, 64)
    for begin in range(0, len(rows), size):
        u = family.read(rows.log_proba[begin : begin + size])
        labels = slice(*np.searchsorted(i, [begin, begin + size]))
        at = i[labels] - begin
        yield _Block(u, k[labels], y[labels], at, at * K + k[labels])


def unit_beta(rows: CalibrationRows) -> float:
    """β₀, which brings the median lead of the best class over the second into a common range.

    Equal classes lead by nothing and are left out; a weight counts samples.
    """
    if rows.n_classes == 1:
        return 1.0
    u = np.partition(rows.log_proba, -2, axis=1)
    lead = u[:, -1] - u[:, -2]
    order = np.argsort(lead)[np.count_nonzero(lead <= _LEAST_LEAD * lead.max()) :]
    if not len(order):
        return 1.0
    upto = np.cumsum(rows.weight[order])
    median = lead[order[np.searchsorted(upto, upto[-1] / 2)]]
    return float(np.clip(median, *_LEADS) / median)


class Prior(NamedTuple):
    """½ Σ d (x − c)², in nats of samples; d is 0 where nothing is known.

    `is_shrunk` where the strength decides d.
    """

    center: Floats
    d: Floats
    is_shrunk: Mask


class Fit(NamedTuple):
    """A minimum x̂ of J/n, with its log evidence, up to a constant; and ∂²F/∂x² there."""

    x: Floats
    value: float
    log_evidence: float
    information: Information | ClassInformation
    converged: bool = True


def fit_temperature(
    rows: CalibrationRows, pi: Floats | None, of: type[Family] = TemperatureMap
) -> FittedMap:
    """The transform of one temperature, or of another family in which nothing is shrunk."""
    family = of(rows.n_classes)
    loss = LogLoss(family, rows, pi)
    center = family.start(loss.beta_0)
    prior = _unshrunk(loss, center, np.ones(len(center)))
    result = fit(loss, prior, _best_of_grid(loss, prior))
    return _fitted_map(loss, result.x, result.converged)


def toward_1(temperature: FittedMap, rows: CalibrationRows) -> FittedMap:
    """The temperature shrunk towards 1 (β₀), by as much as chance explains of it."""
    loss = LogLoss(temperature.family, rows, temperature.pi)
    away = temperature.x - np.log(loss.beta_0)
    information: Any = loss.information(_embedded(loss.family, temperature))
    h = loss.n_rows * labels_worth(rows, temperature) * information.H[0, 0]
    return temperature._replace(x=temperature.x - away / np.maximum(h * away**2, 1))


def labels_worth(rows: CalibrationRows, fitted: FittedMap) -> float:
    """ν, how many labels of as many samples the labels of one sample are worth."""
    z = np.exp(fitted.log_z(rows.log_proba))
    of_one = rows.weight @ gini(z)
    of_all = rows.weight @ row_sum((rows.frequencies - z) ** 2)
    n_labels = rows.weight @ row_sum(rows.counts) / rows.weight.sum()
    most = np.inf if rows.known else n_labels
    return float(np.clip(of_one / (of_all + EPS), 1.0, most))


def constant(rows: CalibrationRows, pi: Floats | None) -> FittedMap:
    """Predicts the class frequencies, whatever the sample; nothing is mixed in."""
    K = rows.n_classes
    x = np.append(np.zeros(K), np.log(class_shares(rows)))
    return FittedMap(VectorMap(K), x, pi)


def fit_shrunk(
    family: Family,
    rows: CalibrationRows,
    below: FittedMap,
    strengths: Sequence[tuple[float, float]] | None = None,
    near: FittedMap | None = None,
) -> FittedMap:
    """The transform averaged over the strengths, which increase; of one strength its minimum.

    `near` is that of similar samples. Only strengths that matter there are tried, from its minima.
    """
    strengths = family.strengths if strengths is None else strengths
    is_one = len(strengths) == 1
    if not is_one:
        rows = replace(rows, weight=rows.weight * labels_worth(rows, below))
    loss = LogLoss(family, rows, below.pi)
    start = _embedded(family, below)
    fits = [] if is_one else [_temperature_alone(loss, shrunk(loss, below, *strengths[0]), start)]
    others = dict(near.minima) if near else {}
    minima = {}
    # as far from the other fit as at the strength before
    away = np.zeros(len(start))
    information = None
    for strength in others or strengths:
        prior = shrunk(loss, below, *strength)
        fits.append(fit(loss, prior, others.get(strength, start) + away, information))
        minima[strength] = start = fits[-1].x
        away = start - others.get(strength, start)
        information = fits[-1].information
        if fits[-1].log_evidence < max(one.log_evidence for one in fits) - _FAR_BEHIND:
            break
    weights = softmax(np.array([one.log_evidence for one in fits]))
    x = weights @ np.array([one.x for one in fits])
    if loss.pi is not None:
        likely = np.flatnonzero(weights > _SHARE)
        if loss.value(x) > max(loss.value(fits[i].x) for i in likely):
            x = fits[weights.argmax()].x
    converged = below.converged and all(one.converged for one in fits)
    share = weights[-len(minima) :]
    matter = share >= min(_SHARE, share.max())
    kept = compress(minima.items(), matter)
    return _fitted_map(loss, x, converged)._replace(minima=tuple(kept))


def fit_penalised(
    family: Family, rows: CalibrationRows, temperature: FittedMap, precision: Floats
) -> FittedMap:
    """The transform of least n F + ½ Σ precision x², in nats of samples; start: temperature."""
    loss = LogLoss(family, rows, temperature.pi)
    prior = _unshrunk(loss, np.zeros(len(precision)), precision)
    result = fit(loss, prior, _embedded(family, temperature))
    return _fitted_map(loss, result.x, result.converged)


def _embedded(family: Family, below: FittedMap) -> Floats:
    """Parameters for a transform of the family below, and its mixing."""
    x = family.embedded(below.x)
    return x if below.pi is None else np.append(x, below.eta)


def _fitted_map(loss: LogLoss, x: Floats, converged: bool) -> FittedMap:
    """The transform with these parameters, and with its mixing."""
    of_map, eta = loss.split(x)
    return FittedMap(loss.family, of_map, loss.pi, float(eta), converged)


def shrunk(loss: LogLoss, below: FittedMap, scale: float, bias: float) -> Prior:
    """About the temperature of the family below; where the family has its own, that about 1/β₀."""
    family = loss.family
    beta = np.exp(below.x[0])
    is_shrunk = np.isfinite(family.prior_sd(1.0, 1.0, 1.0))
    sd = np.where(is_shrunk, family.prior_sd(beta, scale, bias), 1.0)
    center = np.where(is_shrunk, family.start(beta), family.start(loss.beta_0))
    return _with_mixing(loss, Prior(center, sd**-2.0, is_shrunk))


def _unshrunk(loss: LogLoss, center: Floats, d: Floats) -> Prior:
    """Of which no strength decides anything."""
    return _with_mixing(loss, Prior(center, d, np.zeros(len(d), dtype=bool)))


def _with_mixing(loss: LogLoss, prior: Prior) -> Prior:
    """With nothing about η, whose prior is a part of the log loss."""
    if loss.pi is None:
        return prior
    return Prior._make(np.pad(values, (0, 1)) for values in prior)


def fit(loss: LogLoss, prior: Prior, start: Floats, information=None) -> Fit:
    """The minimum of J; the search begins at `start`, where the information is about this.

    Another begins at the optimum without mixing, and the lower minimum is taken.
    """
    result = _fit_from(loss, prior, start, information)
    if loss.pi is None or expit(result.x[-1]) < _LITTLE:
        return result
    alone = Prior._make(values[:-1] for values in prior)
    unmixed = copy(loss)
    unmixed.pi = None
    x, _ = _minimised(unmixed, alone, start[:-1], unmixed.information(start[:-1]))
    starts = [np.append(x, eta) for eta in _ETAS_OF_UNMIXED]
    other = _fit_from(loss, prior, min(starts, key=loss.value))
    return min(result, other, key=lambda fit: fit.value)


def _fit_from(loss: LogLoss, prior: Prior, start: Floats, information=None) -> Fit:
    x, converged = _minimised(loss, prior, start, information or loss.information(start))
    information = loss.information(x)
    value, slope = _value(loss, prior, x)
    M = information.factor(prior.d / loss.n_rows)
    log_d = np.log(np.maximum(prior.d[prior.is_shrunk], 1e-300))
    evidence = _log_evidence(loss.n_rows, value, M.log_det, len(x))
    evidence += 0.5 * log_d.sum()
    # A last step, of Newton, takes what rounding hid from the search.
    return Fit(x - M.solved(slope), value, evidence, information, converged)


def _temperature_alone(loss: LogLoss, prior: Prior, x: Floats) -> Fit:
    """The fit at x where what is shrunk is that of the temperature."""
    x = np.where(prior.is_shrunk, prior.center, x)
    information = loss.information(x)
    value, _ = _value(loss, prior, x)
    free = ~prior.is_shrunk
    log_det = 0.0
    # Of a matrix, which alone has another kind, nothing is free.
    if isinstance(information, Information):
        H = Information(information.H[np.ix_(free, free)])
        log_det = H.factor(prior.d[free] / loss.n_rows).log_det
    evidence = _log_evidence(loss.n_rows, value, log_det, free.sum())
    return Fit(x, value, evidence, information)


def _log_evidence(n: float, value: float, log_det: float, p: int) -> float:
    """−J − ½ log det H, of J/n and H/n (p, p)."""
    return -n * value - 0.5 * (log_det + p * np.log(n))


def _value(loss: LogLoss, prior: Prior, x: Floats) -> tuple[float, Floats]:
    """J/n and its gradient."""
    F, G = loss(x)
    away = x - prior.center
    slope = prior.d / loss.n_rows * away
    return F + 0.5 * float(slope @ away), G + slope


def _minimised(
    loss: LogLoss, prior: Prior, start: Floats, information: Information | ClassInformation
) -> tuple[Floats, bool]:
    """x of least J/n, by L-BFGS in t: x = start + A t; and whether the search ended there.

    Its first step has length 1. In units of the slope that is the step of Newton, unless it is
    longer than 1.
    """
    A = information.factor(prior.d / loss.n_rows)

    def objective(t):
        value, slope = _value(loss, prior, start + A.times(t))
        return value, A.pulled(slope)

    t = np.zeros(len(start))
    first = objective(t)
    unit = float(np.clip(np.linalg.norm(first[1]), _TOLERANCE, 1.0))

    def in_units(t):
        value, slope = objective(unit * t) if t.any() else first
        return value / unit**2, slope / unit

    options = {"maxiter": _MOST, "maxcor": 20, "gtol": _TOLERANCE / unit, "ftol": 1e-16}
    result = minimize(in_units, t, jac=True, method="L-BFGS-B", options=options)
    converged = result.status != 1 and unit * np.abs(result.jac).max() <= _FAILED
    return start + A.times(unit * result.x), bool(converged)


def _best_of_grid(loss: LogLoss, prior: Prior) -> Floats:
    """x of the β, and with mixing η, of least loss on a part of the samples."""
    rows, family = loss.rows, loss.family
    step = -(-len(rows) // _START_ROWS)
    some = LogLoss(family, rows.take(slice(None, None, step)), loss.pi)
    betas = loss.beta_0 * np.exp(_LOG_BETAS)
    etas = [()] if loss.pi is None else [(eta,) for eta in _ETAS]
    grid = np.array([[*family.start(beta), *eta] for beta in betas for eta in etas])
    values = np.array([some.value(x) for x in grid])
    values += 0.5 * (grid - prior.center) ** 2 @ prior.d / loss.n_rows
    return grid[np.argmin(values)]


def warn_of(rows: CalibrationRows, maps: list[FittedMap], of_zeros: str, of_search: str) -> None:
    """Warn of small weights, zeros, separable labels, and searches that did not end.

    `of_zeros` and `of_search` are the remedies.
    """
    n = len(rows)
    total = rows.weight.sum()
    if total < _FRACTION * n:
        warn(
            f"The weights of {n} calibration samples sum to {total:.3g}. Weights count samples, so "
            "it is fitted as if there were so few; divide the weights by their mean."
        )
    # a class is labelled less often the more probable it is said to be
    errors = inversion(rows.frequencies, rows.log_proba, rows.weight)
    if errors:
        warn(
            "Classes are labelled less often the more probable they are said to be, by "
            f"{errors:.1f} standard errors: are columns exchanged, or is the sign of a score?"
        )
    unmixed = maps[0].pi is None
    refuted = 0
    if unmixed and rows.proba is not None:
        refuted = int(((rows.proba < EPS) & (rows.counts > 0)).any(axis=1).sum())
    if refuted:
        warn(
            f"{refuted} of {n} calibration samples have labels to which the classifier "
            f"gives no probability (below {EPS:g}), so the loss depends on the clip there. The "
            f"remedy is {of_zeros}."
        )
    if unmixed and rows.n_classes > 1:
        below = ~maps[0].family.best(maps[0].mapped(rows.log_proba))
        # one label below the best class of the transform will do
        if below.any() and not rows.counts[below].any():
            warn(
                "The calibration labels are separable and do not limit the confidence of "
                "predictions; only a prior does, where there is one. Calibrate on more samples."
            )
    if not all(one.converged for one in maps):
        warn_unfinished(of_search)
