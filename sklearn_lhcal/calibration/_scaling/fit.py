"""Fits an affine transform: least log loss with a normal prior, averaged over its strengths.

    z = (1−e) Σ_s w_s p_s + e π,   p_s = softmax(W u_s + b),   e = σ(η)

over the members s of an ensemble, of which a point prediction has one; π is mixed in. A label of
class k comes from member s with probability r_s = (1−e) w_s p_sk / z_k. Letters: n samples, y the
share (L,) of each label in the weighted sum of all, n_s = Σ y r_s over the labels of a sample, x
the transform's parameters, with mixing also η, J = ∂u'/∂x as in `maps`. The log loss of a label is

    F = −Σ y log z,   ∂F/∂x = Σ Jᵀ(n_s p_s − Σ y r_s e_k),   ∂F/∂η = Σ y (Σ_s r_s − (1−e))

The weight e of π has the prior −0.1 (log e + log(1−e)), in nats of one sample.

1. The temperature, n F(β) + ½ (log β)² with β = 1/T, is least at β. The search begins at the best
   of a grid. A stacked calibrator shrinks it towards 1: log β ← (1 − 1/(h log²β))₊ log β. Here h is
   the information about log β in nν labels (James and Stein 1961, positive part).
2. Labels of one sample depend on each other, as raters see the same case. They are worth ν of as
   many samples, by the frequencies ȳ of the labels and what the temperature predicts, z:

       ν = Σ_i (1 − ‖z_i‖²) / Σ_i ‖ȳ_i − z_i‖²   (Kish's design effect), from 1 to their number.

   It is 1 where the raters of a sample always agree, and their number where each follows z alone.
   For each strength (s_d, s_b) the other parameters are shrunk towards c, those of u' = βu: scales
   with the standard deviation s = β s_d, biases with s = s_b. With d = 1/s²

       J(x) = nν F(x) + ½ Σ d (x − c)²   is least at x̂; with a single strength ν is 1.

3. How likely the labels are under this strength, by Laplace with H = ∂²J/∂x² at x̂:

       log evidence = −J(x̂) − ½ log det H + ½ Σ log d   over the d that the strength decides.

   The temperature alone, x = c, is the limit s → 0 and one more strength.
   Behind a strength whose evidence is far below the best no other is tried.
4. The transform is that of x = Σ softmax(log evidence) x̂ over the strengths.

Each minimum is found by L-BFGS in t, x = x₀ + L⁻ᵀt, where LLᵀ is H at the start x₀ (Cholesky): in
t it is 1 there. The search for a strength begins where that for the one before ended.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import product
from operator import add
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from sklearn.exceptions import ConvergenceWarning

from ..._utils.arrays import Floats, Indices, Mask
from ..._utils.simplex import EPS, gini, row_max, row_sum, softmax
from .._rows import CalibrationRows
from .maps import ClassInformation, Family, FittedMap, Information, TemperatureMap, VectorMap

# Standard deviations of scales (over the temperature's) and of biases. A scale of a few per cent is
# a small correction, of 1 any; ratios of three are as fine as a few hundred samples can tell.
STRENGTHS = ((0.03, 0.1), (0.1, 0.3), (0.3, 1.0))
# So many nats behind the best, evidence is taken to fall further: over strengths it has one peak,
# where the loss is quadratic and curved alike in all directions.
_FAR_BEHIND = 20.0
# The log β and, with mixing, the η that are tried, on so many samples, more of ensembles, as their
# loss has many valleys.
_LOG_BETAS = tuple(range(-10, 4))
_ETAS = (-6.0, -2.0)
_START_ROWS = 200
_START_ROWS_OF_MEMBERS = 2_000
# The most steps; the slope in t at which a search ends, and that above which it has failed. Half
# the square of the slope is what is left, in nats of a sample.
_MOST = 2_000
_TOLERANCE = 1e-7
_FAILED = 1e-4
# Weights whose sum is below this share of the samples are hardly meant as numbers of samples.
_FRACTION = 0.1
# Weight of the prior of e, in samples.
_FLOOR_PRIOR = 0.1
# Numbers of a block: it stays in cache.
_BLOCK = 2**16
# Logits below the best of a sample are no lower: exponentials beyond the range of floats take long.
_LEAST = -300.0


def as_read(rows: CalibrationRows, floor) -> CalibrationRows:
    """Samples as a transform reads them; mixing needs no clip of small probabilities."""
    if floor is None:
        return rows
    return rows.unclipped()


def rows_for_fit(rows: CalibrationRows, floor: str | None) -> CalibrationRows:
    """Samples of positive weight, as a transform with this mixing reads them."""
    return replace(as_read(rows, floor), X=None).take(rows.weight > 0)


def floor_probabilities(floor: str | None, rows: CalibrationRows) -> Floats | None:
    """π: uniform, or the shares of the classes."""
    if floor is None:
        return None
    if floor == "uniform":
        return np.full(rows.n_classes, 1 / rows.n_classes)
    return class_shares(rows)


def class_shares(rows: CalibrationRows) -> Floats:
    """Of the labels, with one sample more, spread over all classes."""
    share = rows.weight @ rows.frequencies
    one_more = 1 / rows.n_classes
    return (share + one_more) / (share.sum() + 1)


class _Block(NamedTuple):
    """Some samples with their members one below the other, and the labels of these samples.

    u (m·S, …) as it is transformed, log-weights of the labels' members (L, S), classes k and shares
    y (L,); the samples of u where their members stand, (L, S), and the entries of u'.ravel() where
    these have class k.
    """

    u: Floats
    log_w: Floats
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
        self._blocks = list(_in_blocks(rows, family))

    def split(self, x: Floats) -> tuple[Floats, float]:
        """Parameters of the transform, and η."""
        if self.pi is None:
            return x, -np.inf
        return x[:-1], x[-1]

    def value(self, x: Floats) -> float:
        """F."""
        of_map, eta = self.split(x)
        F = sum(self._members(block, of_map, eta)[-1] for block in self._blocks)
        return F + self._prior(eta)[0]

    def __call__(self, x: Floats) -> tuple[float, Floats]:
        """F and its gradient, shape (p,)."""
        of_map, eta = self.split(x)
        F, slope = self._prior(eta)
        G = np.zeros(len(of_map))
        of_members = 0.0
        for block in self._blocks:
            p, Z, a, value = self._members(block, of_map, eta)
            F += value
            of_members += a.sum()
            p *= (_sums(block.at, a, len(p)) / Z)[:, None]
            p.ravel()[block.entry] -= a
            G += self.family.slope(of_map, block.u, p)
        if self.pi is None:
            return F, G
        return F, np.append(G, of_members - expit(-eta) + slope)

    def information(self, x: Floats) -> Information | ClassInformation:
        """Second derivatives if it were known which member a label comes from.

        They are those of F for points without mixing, but for the curvature of log β. Else they
        are larger: of an ensemble F is not convex.
        """
        of_map, eta = self.split(x)

        def of(block):
            p, Z, a, _ = self._members(block, of_map, eta)
            p /= Z[:, None]
            return self.family.information(of_map, block.u, p, _sums(block.at, a, len(p)))

        total: Any = reduce(add, map(of, self._blocks))
        if self.pi is None:
            return total
        weight = 1 + 2 * _FLOOR_PRIOR / self.n_rows
        return total.with_one_more(weight * expit(eta) * expit(-eta))

    def _prior(self, eta: float) -> tuple[float, float]:
        """−0.1 (log e + log(1−e)) and its derivative, in samples."""
        if self.pi is None:
            return 0.0, 0.0
        weight = _FLOOR_PRIOR / self.n_rows
        return -weight * (log_expit(eta) + log_expit(-eta)), weight * np.tanh(eta / 2)

    def _members(
        self, block: _Block, x: Floats, eta: float
    ) -> tuple[Floats, Floats, Floats, float]:
        """Z p of the members (m·S, K), Z (m·S,), y r of the labels (L, S), and the value."""
        # In the order of samples, in which entries of labels are counted.
        v = np.ascontiguousarray(self.family.mapped(x, block.u))
        v -= row_max(v)[:, None]
        log_p = v.ravel()[block.entry]
        p = np.exp(np.maximum(v, _LEAST, out=v), out=v)
        Z = row_sum(p)
        log_p -= np.log(Z)[block.at]
        log_p += block.log_w + log_expit(-eta)
        log_z = np.logaddexp.reduce(log_p, axis=1)
        if self.pi is not None:
            log_z = np.logaddexp(log_z, log_expit(eta) + np.log(self.pi)[block.k])
        a = block.y[:, None] * np.exp(log_p - log_z[:, None])
        return p, Z, a, -float(block.y @ log_z)


def _sums(at: Indices, a: Floats, size: int) -> Floats:
    """Σ a over the entries that have the same number."""
    return np.bincount(at.ravel(), a.ravel(), size).astype(np.float64, copy=False)


def _in_blocks(rows: CalibrationRows, family: Family) -> Iterator[_Block]:
    """The samples, some at a time."""
    K = rows.n_classes
    S = rows.log_proba[0].size // K
    i, k, y = rows.label_pairs
    size = max(_BLOCK // (S * K), 64)
    for begin in range(0, len(rows), size):
        u = family.read(rows.log_proba[begin : begin + size].reshape(-1, K))
        own = slice(*np.searchsorted(i, [begin, begin + size]))
        at = (i[own] - begin)[:, None] * S + np.arange(S)
        log_w = rows.log_weights[i[own]] if rows.is_ensemble else np.zeros((1, 1))
        yield _Block(u, log_w, k[own], y[own], at, at * K + k[own, None])


class Prior(NamedTuple):
    """½ Σ d (x − c)², in nats of samples; d is 0 where nothing is known.

    `is_shrunk` where the strength decides d.
    """

    center: Floats
    d: Floats
    is_shrunk: Mask


class Fit(NamedTuple):
    """A minimum x̂ with its log evidence, up to a constant; and ∂²F/∂x² there."""

    x: Floats
    log_evidence: float
    information: Information | ClassInformation
    converged: bool = True


def fit_temperature(
    rows: CalibrationRows, pi: Floats | None, of: type[Family] = TemperatureMap
) -> FittedMap:
    """The transform of one temperature, or of another family in which nothing is shrunk."""
    family = of(rows.n_classes)
    loss = LogLoss(family, rows, pi)
    start = _best_of_grid(family, rows, pi)
    found = fit(loss, shrunk(loss, 1.0, np.inf, np.inf), start)
    return _fitted_map(loss, found.x, found.converged)


def toward_one(temperature: FittedMap, rows: CalibrationRows) -> FittedMap:
    """The temperature shrunk towards 1, by as much as chance explains of it."""
    x = temperature.x
    loss = LogLoss(temperature.family, rows, temperature.pi)
    found: Any = loss.information(_at_temperature(loss.family, temperature))
    h = loss.n_rows * labels_worth(rows, temperature) * found.H[0, 0]
    return temperature._replace(x=x - x / np.maximum(h * x**2, 1))


def labels_worth(rows: CalibrationRows, temperature: FittedMap) -> float:
    """ν, how many labels of as many samples the labels of one sample are worth."""
    z = temperature.distribution(rows).mean()
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
    temperature: FittedMap,
    strengths: Sequence[tuple[float, float]] = STRENGTHS,
) -> FittedMap:
    """The transform averaged over the strengths, which increase; of one strength its minimum."""
    if len(strengths) > 1:
        rows = replace(rows, weight=rows.weight * labels_worth(rows, temperature))
    loss = LogLoss(family, rows, temperature.pi)
    start = _at_temperature(family, temperature)
    priors = [shrunk(loss, np.exp(temperature.x[0]), *strength) for strength in strengths]
    fits = [_temperature_alone(loss, priors[0], start)]
    for prior in priors:
        fits.append(fit(loss, prior, fits[-1].x, fits[-1].information))
        if fits[-1].log_evidence < max(one.log_evidence for one in fits) - _FAR_BEHIND:
            break
    if len(priors) == 1:
        del fits[0]
    weights = softmax(np.array([one.log_evidence for one in fits]))
    x = weights @ np.array([one.x for one in fits])
    converged = temperature.converged and all(one.converged for one in fits)
    return _fitted_map(loss, x, converged)


def fit_penalised(
    family: Family, rows: CalibrationRows, temperature: FittedMap, precision: Floats
) -> FittedMap:
    """The transform of least n F + ½ Σ precision x², in nats of samples; start: temperature."""
    loss = LogLoss(family, rows, temperature.pi)
    is_shrunk = np.zeros(len(precision), dtype=bool)
    prior = _with_floor(loss, Prior(np.zeros(len(precision)), precision, is_shrunk))
    found = fit(loss, prior, _at_temperature(family, temperature))
    return _fitted_map(loss, found.x, found.converged)


def _at_temperature(family: Family, temperature: FittedMap) -> Floats:
    """Parameters for that temperature and mixing."""
    x = family.embedded(temperature.x)
    return x if temperature.pi is None else np.append(x, temperature.eta)


def _fitted_map(loss: LogLoss, x: Floats, converged: bool) -> FittedMap:
    """The transform with these parameters, and with its mixing."""
    of_map, eta = loss.split(x)
    return FittedMap(loss.family, of_map, loss.pi, float(eta), converged)


def shrunk(loss: LogLoss, beta: float, scale: float, bias: float) -> Prior:
    """About the temperature 1/β; the temperature itself, where the family has one, about 1."""
    is_shrunk = np.isfinite(loss.family.prior_sd(1.0, 1.0, 1.0))
    sd = np.where(is_shrunk, loss.family.prior_sd(beta, scale, bias), 1.0)
    center = np.where(is_shrunk, loss.family.start(beta), 0.0)
    return _with_floor(loss, Prior(center, sd**-2.0, is_shrunk))


def _with_floor(loss: LogLoss, prior: Prior) -> Prior:
    """With nothing about η, whose prior is a part of the log loss."""
    if loss.pi is None:
        return prior
    return Prior._make(np.pad(values, (0, 1)) for values in prior)


def fit(
    loss: LogLoss,
    prior: Prior,
    start: Floats,
    information: Information | ClassInformation | None = None,
) -> Fit:
    """The minimum of J; the search begins where the log loss has this information."""
    if information is None:
        information = loss.information(start)
    x, converged = _minimised(loss, prior, start, information)
    information = loss.information(x)
    value, slope = _value(loss, prior, x)
    M = information.factor(prior.d / loss.n_rows)
    log_d = np.log(np.maximum(prior.d[prior.is_shrunk], 1e-300))
    evidence = _log_evidence(loss.n_rows, value, M.log_det, len(x)) + 0.5 * log_d.sum()
    # A last step, of Newton, takes what rounding hid from the search.
    return Fit(x - M.solved(slope), evidence, information, converged)


def _temperature_alone(loss: LogLoss, prior: Prior, x: Floats) -> Fit:
    """The fit where x is the temperature's, and what is shrunk stays where it is."""
    information = loss.information(x)
    value, _ = _value(loss, prior, x)
    free = ~prior.is_shrunk
    log_det = 0.0
    # Of a matrix, which alone has another kind, nothing is free.
    if isinstance(information, Information):
        H = Information(information.H[np.ix_(free, free)])
        log_det = H.factor(prior.d[free] / loss.n_rows).log_det
    return Fit(x, _log_evidence(loss.n_rows, value, log_det, free.sum()), information)


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
    """x of least J/n, by L-BFGS in t: x = start + A t; and whether the search ended there."""
    A = information.factor(prior.d / loss.n_rows)

    def objective(t):
        value, slope = _value(loss, prior, start + A.times(t))
        return value, A.pulled(slope)

    options = {"maxiter": _MOST, "maxcor": 20, "gtol": _TOLERANCE, "ftol": 1e-16}
    t = np.zeros(len(start))
    found = minimize(objective, t, jac=True, method="L-BFGS-B", options=options)
    converged = found.status != 1 and np.abs(found.jac).max() <= _FAILED
    return start + A.times(found.x), bool(converged)


def _best_of_grid(family: Family, rows: CalibrationRows, pi: Floats | None) -> Floats:
    """x of the β, and with mixing η, of least loss on a part of the samples."""
    most = _START_ROWS_OF_MEMBERS if rows.is_ensemble else _START_ROWS
    some = rows.take(slice(None, None, -(-len(rows) // most)))
    loss = LogLoss(family, some, pi)
    axes = [_LOG_BETAS] if pi is None else [_LOG_BETAS, _ETAS]
    grid = np.array([[*family.start(np.exp(b)), *eta] for b, *eta in product(*axes)])
    values = [loss.value(x) + 0.5 * x[0] ** 2 / rows.weight.sum() for x in grid]
    return grid[np.argmin(values)]


def warn(rows: CalibrationRows, maps: list[FittedMap], of_zeros: str, of_search: str) -> None:
    """Warn of small weights, zeros, separable labels, and searches that did not end.

    `of_zeros` and `of_search` are the remedies.
    """
    _warn_of_weights(rows)
    if maps[0].pi is None:
        _warn_of_zeros(rows, of_zeros)
        _warn_of_separation(rows, maps[0])
    if not all(one.converged for one in maps):
        warnings.warn(
            f"The search for the parameters stopped before its minimum; {of_search}.",
            ConvergenceWarning,
            stacklevel=5,
        )


def _warn_of_weights(rows: CalibrationRows) -> None:
    n = len(rows)
    total = rows.weight.sum()
    if total < _FRACTION * n:
        warnings.warn(
            f"The weights of {n} calibration samples sum to {total:.3g}. Weights count samples, so "
            "the calibrator is fitted as if there were so few; divide the weights by their mean.",
            stacklevel=6,
        )


def _warn_of_zeros(rows: CalibrationRows, remedy: str) -> None:
    if rows.proba is None or rows.proba.min(initial=1.0) >= EPS:
        return
    refuted = (rows.proba < EPS) & (rows.counts > 0)
    n_refuted = int(refuted.any(axis=1).sum())
    if n_refuted:
        warnings.warn(
            f"{n_refuted} of {len(rows)} calibration samples have labels to which the classifier "
            f"gives no probability (below {EPS:g}, where it is clipped), so the loss depends on "
            f"the clip. The remedy is {remedy}.",
            stacklevel=6,
        )


def _warn_of_separation(rows: CalibrationRows, fitted: FittedMap) -> None:
    if rows.is_ensemble or rows.n_classes == 1:
        return
    below = ~fitted.family.best(fitted.mapped(rows.log_proba))
    # one label below the best class of the transform will do
    if below.any() and not rows.counts[below].any():
        warnings.warn(
            "The calibration labels are separable: each is the class that is predicted to be the "
            "most probable. They do not limit the confidence of predictions; only a prior does, "
            "where there is one. Calibrate on more samples.",
            stacklevel=6,
        )
