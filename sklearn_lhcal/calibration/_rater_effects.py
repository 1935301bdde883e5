"""Rater effects: what each rater will say, and what a new rater will say.

    P(a_r = k | Q) ∝ Q_k exp(b_rk),   b_rk ~ N(0, τ²),   posterior weights of Q ∝ w Π_r P(a_r | Q)

Letters: S nodes of Q in each of n samples, K classes, R raters, T labels.
"""

from collections.abc import Hashable, Iterator
from dataclasses import KW_ONLY
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from .._rows import Annotations, parameters, read_labels
from .._utils.arrays import in_blocks
from .._utils.checks import any_array, as_names, check_same_length, warn
from .._utils.names import positions
from .._utils.search import lbfgs
from .._utils.simplex import EPS, log, row_sum
from .._utils.types import ArrayLike, Floats, Indices, LabelsLike, NDArray, Samples
from ..distributions import Distribution, Mixture, PointMass
from ._base import _BaseCalibrator
from ._rows import CalibrationRows

# Probabilities of classes of this many labels and nodes are in memory at a time.
_BLOCK = 2**20
# The least and the largest τ that is looked for, logits.
_SPREADS = (0.01, 5.0)
# The largest slope of a label's loss where a search ends, nats.
_TOLERANCE = 1e-7


class Ratings(NamedTuple):
    """Who said what of samples whose class probabilities are known as weighted nodes.

    Attributes
    ----------
    Q : ndarray of shape (S, n, K)
    log_w : ndarray of shape (S, n)
        Log-weights of the nodes.
    indptr : ndarray of shape (n + 1,)
        Where the labels of each sample begin.
    reader, label : ndarray of shape (T,)
        Numbers of the reader and of the class of each label.
    weight : ndarray of shape (n,)
        Weights of the samples.
    n_readers : int
    """

    Q: Floats
    log_w: Floats
    indptr: Indices
    reader: Indices
    label: Indices
    weight: Floats
    n_readers: int

    @property
    def row(self) -> Indices:
        """The sample of each label, shape (T,)."""
        return np.repeat(np.arange(len(self.weight)), np.diff(self.indptr))

    def blocks(self) -> Iterator["Ratings"]:
        """Some samples at a time: what is made of them stays small."""
        most = int(np.diff(self.indptr).max())
        step = max(1, _BLOCK // (self.Q.shape[0] * self.Q.shape[2] * most))
        for start in range(0, len(self.weight), step):
            rows = slice(start, start + step)
            indptr = self.indptr[start : start + step + 1]
            ratings = slice(indptr[0], indptr[-1])
            yield self._replace(
                Q=self.Q[:, rows],
                log_w=self.log_w[:, rows],
                indptr=indptr - indptr[0],
                reader=self.reader[ratings],
                label=self.label[ratings],
                weight=self.weight[rows],
            )


def tilted(Q: Floats, b: Floats) -> Floats:
    """Q_k exp(b_k), with sum 1 over the last axis."""
    P = Q * np.exp(b - b.max(axis=-1, keepdims=True))
    P /= row_sum(P)[..., None]
    return P


def posterior(log_w: Floats, log_p: Floats, indptr: Indices) -> tuple[Floats, Floats]:
    """Weights of the nodes after labels, (S, n), and log Σ_s w_s Π_t P_ts of each sample, (n,).

    `log_p` holds log P(a_t | Q_s), shape (S, T); all samples have labels.
    """
    joint = log_w + np.add.reduceat(log_p, indptr[:-1], axis=1)
    log_likelihood = logsumexp(joint, axis=0)
    return np.exp(joint - log_likelihood), log_likelihood


class TiltProblem:
    """Mean loss of a label in the effects b of all readers, with their prior; nats.

    x is b, reader by reader, shape (R·K,).
    """

    def __init__(self, ratings: Ratings, spread: float):
        self.ratings = ratings
        self.spread = spread
        self.total = ratings.weight[ratings.row].sum()

    def solved(self, start: Floats) -> Floats:
        """The optimum, searched in units of each reader: the root of Σ p(1 − p) + 1/τ² at b = 0."""
        _, _, curvature = self.parts(np.zeros_like(start))
        scale = 1 / np.sqrt((curvature.ravel() + self.spread**-2) / self.total)

        def terms(s):
            value, slope = self.gradient(start + scale * s)
            return value, scale * slope

        return start + scale * lbfgs(terms, np.zeros_like(start), tol=_TOLERANCE)

    def gradient(self, x):
        """Value and gradient: b/τ² − Σ (1[a = k] − E p_k), over the posterior of Q."""
        value, slope, _ = self.parts(x)
        b = x / self.spread
        value += b @ b / 2
        return value / self.total, (slope.ravel() + b / self.spread) / self.total

    def parts(self, x) -> tuple[float, Floats, Floats]:
        """−log likelihood, its gradient, and Σ E p(1 − p), the last two of shape (R, K)."""
        R = self.ratings.n_readers
        K = self.ratings.Q.shape[2]
        b = x.reshape(R, K)
        value = 0.0
        slope = np.zeros((R, K))
        curvature = np.zeros((R, K))
        for block in self.ratings.blocks():
            row, a = block.row, block.label
            P = tilted(block.Q[:, row], b[block.reader])
            each = np.arange(len(a))
            log_p = np.log(P[:, each, a])
            w, log_likelihood = posterior(block.log_w, log_p, block.indptr)
            value -= float(block.weight @ log_likelihood)
            at = w[:, row, None]
            mean = (at * P).sum(axis=0)
            weight = block.weight[row, None]
            push = weight * mean
            push[each, a] -= weight[:, 0]
            width = weight * (at * P * (1 - P)).sum(axis=0)
            for k in range(K):
                slope[:, k] += np.bincount(block.reader, push[:, k], minlength=R)
                curvature[:, k] += np.bincount(block.reader, width[:, k], minlength=R)
        return value, slope, curvature

    def evidence(self, x) -> float:
        """Log likelihood with b integrated out, by Laplace; 0 is that of no effects at all.

        log det(1 + τ²H) of a reader, exact for two classes and for even probabilities.
        """
        value, _, h = self.parts(x)
        b = x / self.spread
        K = h.shape[1]
        log_det = (K - 1) / K * np.log1p(self.spread**2 * h * K / (K - 1)).sum()
        nothing, _, _ = self.parts(np.zeros_like(x))
        return nothing - value - b @ b / 2 - log_det / 2


def fit_effects(ratings: Ratings, spread: float | None) -> tuple[Floats, float]:
    """b, shape (R, K), and τ: that given, or that of the largest evidence; 0 if there is none."""
    shape = (ratings.n_readers, ratings.Q.shape[2])
    ratings = ratings._replace(Q=np.maximum(ratings.Q, EPS))
    nearest = {"b": np.zeros(shape).ravel()}

    def loss(log_spread):
        problem = TiltProblem(ratings, np.exp(log_spread))
        # each search begins where the last one ended
        nearest["b"] = problem.solved(nearest["b"])
        return -problem.evidence(nearest["b"])

    if spread is None:
        near = {"xatol": 0.02}
        best = minimize_scalar(loss, bounds=np.log(_SPREADS), method="bounded", options=near)
        spread = float(np.exp(best.x)) if best.fun < 0 else 0.0
    if spread == 0:
        return np.zeros(shape), 0.0
    return TiltProblem(ratings, spread).solved(nearest["b"]).reshape(shape), spread


class NewReader:
    """Class probabilities of a reader not yet met, E tilted(Q, b) over b_k ~ N(0, τ²).

    b_k plus a Gumbel variable has the distribution function F. Which class has the largest
    log Q_k + b_k + Gumbel is the label, so that

        P(k) = ∫ dF(x − u_k) Π_{j≠k} F(x − u_j),   u = log Q,

    whatever the number of classes; by the trapezoidal rule, to about 1e-6.
    """

    def __init__(self, spread: float):
        self.spread = spread
        low = -4 - 7 * spread
        high = 18 + 7 * spread
        self.x = np.arange(low, high, 0.6)
        v = np.arange(low - 1, high + 1, 0.05)
        e, w = np.polynomial.hermite_e.hermegauss(61)
        shifted = v[:, None] - spread * e
        log_F = logsumexp(-np.exp(-shifted), b=w / w.sum(), axis=1)
        log_f = logsumexp(-shifted - np.exp(-shifted), b=w / w.sum(), axis=1)
        self.top = high
        self.log_F = CubicSpline(v, log_F)
        # d log F / dx
        self.log_rate = CubicSpline(v, log_f - log_F)

    def __call__(self, Q: Floats) -> Floats:
        """Of class probabilities, any shape with the classes last."""
        flat = Q.reshape(-1, Q.shape[-1])
        p = in_blocks(lambda rows: self._block(flat[rows]), len(flat), flat.shape[1] * len(self.x))
        return p.reshape(Q.shape)

    def _block(self, Q: Floats) -> Floats:
        possible = Q > 0
        u = np.log(np.where(possible, Q, 1.0))
        best = np.where(possible, u, -np.inf).max(axis=1, keepdims=True)
        v = (best - u)[..., None] + self.x
        # both fall as exp(−v) from there on
        beyond = np.maximum(v - self.top, 0.0)
        v = np.minimum(v, self.top)
        log_F = np.where(possible[..., None], self.log_F(v) * np.exp(-beyond), 0.0)
        log_p = self.log_rate(v) - beyond + log_F.sum(axis=1)[:, None]
        p = np.where(possible, np.exp(log_p).sum(axis=2), 0.0)
        return p / row_sum(p)[:, None]


# Points that stand for a distribution of class probabilities without members.
_NODES = 32


@parameters
class RaterEffects(_BaseCalibrator):
    """Adds to each prediction who is asked: readers differ in how readily they name a class.

    A reader r names class k with probability ``P(k) ∝ Q_k exp(b_rk)``, where Q are the class
    probabilities of the sample. The effects b are normal with standard deviation τ. They are fitted
    to the labels of each reader, Q being as uncertain as the classifier's `predict_dist` says.
    ``predict_proba(X, rater=...)`` is what this rater will say. Without `rater` it is what a new
    reader will say, with effects drawn at random. `predict_dist` is for new readers too: each label
    comes from a different one.

    Parameters
    ----------
    estimator : classifier, default=None
        As in `TemperatureScaling`. Effects are 0 on average over readers, so put a scaling
        around a classifier that is not calibrated. Labels given to `predict_proba` tell more around
        an `AlphaCalibration`.
    effect_std : float or None, default=None
        τ, logits. None: the τ of the largest evidence, which is 0 where readers do not differ.
    cv, ensemble, random_state, verbose
        As in `TemperatureScaling`.

    Attributes
    ----------
    raters_ : ndarray of shape (n_raters,)
        Names of the readers with labels among the calibration samples.
    effects_ : ndarray of shape (n_raters, n_classes)
        b, logits; above 0 where a reader names a class more readily than others.
    effect_std_ : float
        τ.
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.
    estimator_ : classifier
        The fitted classifier.

    Warns
    -----
    UserWarning
        Where y does not say who gave the labels, or nobody gave two: all effects are then 0.

    Notes
    -----
    Readers are exchangeable, and their labels of a sample independent given Q. A reader's effect is
    the same in every sample. Where Q has no closed sum, 32 nodes stand for it, see
    `sklearn_lhcal.distributions.Distribution.nodes`. Around a classifier whose Q is certain, what
    all labels of few samples share is taken for effects; around an `AlphaCalibration` it is not.

    References
    ----------
    Skene and Wakefield (1990), Hierarchical models for multicentre binary response studies; a
    multinomial logit with random intercepts of readers, around given class probabilities.

    Examples
    --------
    >>> from sklearn_lhcal.label_histogram import Annotations
    >>> proba = np.full((40, 2), 0.5)
    >>> said = [["a", "b", ["a", "b"][i % 2]] for i in range(40)]
    >>> y = Annotations.from_matrix(said, raters=["Ann", "Bob", "Cem"])
    >>> model = RaterEffects("proba", effect_std=1.0).fit(proba, y)
    >>> model.predict_proba(proba[:3], rater=["Ann", "Bob", "Cem"]).round(2)
    array([[0.96, 0.04],
           [0.04, 0.96],
           [0.5 , 0.5 ]])
    """

    _: KW_ONLY
    effect_std: float | None = None

    def _fit_map(self, rows):
        ratings, raters = _ratings(rows)
        effects = np.zeros((0, rows.n_classes))
        spread = 0.0
        if ratings is not None:
            effects, spread = fit_effects(ratings, self.effect_std)
        return {"raters_": raters, "effects_": effects, "effect_std_": spread}

    def _map(self, rows):
        return self._asked(rows.whole, None)

    def _asked(self, Q: Distribution, reader: Indices | None) -> Distribution:
        """Class probabilities of the reader of each sample; of new ones, −1 or None."""
        if self.effect_std_ == 0:
            return Q
        if isinstance(Q, PointMass):
            return PointMass.of_checked(self._said(Q.mean(), reader))
        return self._at_nodes(*Q.nodes(_NODES), reader)

    def _at_nodes(self, nodes: Floats, weights: Floats, reader: Indices | None) -> Distribution:
        z = self._said(nodes, reader)
        return Mixture.of(PointMass.of_checked(z.reshape(-1, z.shape[2])), log(weights))

    def _said(self, Q: Floats, reader: Indices | None) -> Floats:
        """What is said where class probabilities are Q, (n, K) or (S, n, K)."""
        if reader is None:
            reader = np.full(Q.shape[-2], -1)
        if self.effect_std_ == 0:
            return Q
        new = reader < 0
        z = np.empty_like(Q)
        if new.any():
            z[..., new, :] = NewReader(self.effect_std_)(Q[..., new, :])
        if not new.all():
            z[..., ~new, :] = tilted(Q[..., ~new, :], self.effects_[reader[~new]])
        return z

    def predict_proba(
        self, X: Samples, rater: ArrayLike | None = None, given: LabelsLike | None = None
    ) -> Floats:
        """What the next reader of each sample will say, shape (n_samples, n_classes).

        Parameters
        ----------
        X : as in `fit`
        rater : object or array-like of shape (n_samples,), optional
            Who is asked: the name of one reader, or one name a sample, each in `raters_`. None: a
            new reader.
        given : Annotations or label histogram of shape (n_samples, n_classes), optional
            What has been said of these samples already, and by whom. A sample may be without
            labels. Readers that are not in `raters_`, and those of a histogram, are new.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)

        Raises
        ------
        ValueError
            An unknown reader, lengths that differ.
        """
        return np.array(self.predict_dist(X, rater, given).mean())

    def predict_dist(
        self, X: Samples, rater: ArrayLike | None = None, given: LabelsLike | None = None
    ) -> Distribution:
        """Distribution of the class probabilities of the reader asked, a batch of n_samples.

        Parameters
        ----------
        X, rater, given
            As in `predict_proba`.

        Returns
        -------
        Distribution
            Without `rater` each label comes from a different new reader, so ``disagreement`` is
            that of two new readers.
        """
        Q = Mixture.mean_of([rows.whole for rows in self._predicted(X)])
        reader = self._numbers(rater, len(Q))
        if given is None:
            with np.errstate(under="ignore"):
                return self._asked(Q, reader).with_classes(self.classes_)
        nodes, weights = self._after(Q, given)
        return self._at_nodes(nodes, weights, reader).with_classes(self.classes_)

    def _numbers(self, rater, n: int) -> Indices | None:
        """The number of the reader of each sample."""
        if rater is None:
            return None
        names = any_array(rater, "rater")
        if names.ndim:
            names = as_names(names, "rater")
            check_same_length(n, rater=names)
        elif not isinstance(rater, Hashable):
            raise ValueError(f"rater must hold names of readers, got {type(rater).__name__}.")
        names = np.broadcast_to(names, n)
        numbers = positions(names, self.raters_)
        unknown = sorted(set(names[numbers < 0].tolist()), key=str)
        if unknown:
            raise ValueError(
                f"rater: {unknown[:5]} gave no labels at fit; known are "
                f"{self.raters_.tolist()[:20]}. Leave rater out to ask a new reader."
            )
        return numbers

    def _after(self, Q: Distribution, given) -> tuple[Floats, Floats]:
        """Nodes of the class probabilities and their weights, after labels that were given."""
        nodes, weights = Q.nodes(_NODES)
        labels = read_labels(given, empty_rows=True).in_order(self.classes_)
        check_same_length(len(Q), given=labels)
        if labels.known:
            raise ValueError("given holds known probabilities; pass counts or Annotations.")
        if not isinstance(labels, Annotations):
            labels = Annotations.from_counts(labels)
            reader = np.full(len(labels.rater), -1)
        else:
            reader = positions(labels.raters, self.raters_)[labels.rater]
        rated = np.flatnonzero(labels.n > 0)
        if not len(rated):
            return nodes, weights
        z = self._said(np.maximum(nodes[:, labels.row], EPS), reader)
        log_p = np.log(z[:, np.arange(len(reader)), labels.label])
        indptr = labels.indptr[np.append(rated, rated[-1] + 1)]
        weights[:, rated] = posterior(log(weights[:, rated]), log_p, indptr)[0]
        return nodes, weights


def _ratings(rows: CalibrationRows) -> tuple[Ratings | None, NDArray]:
    """Who said what of rows of positive weight, and the readers; None where effects are unknown."""
    labels = rows.labels
    nobody = np.empty(0)
    if not isinstance(labels, Annotations):
        warn("y does not say who gave the labels; pass Annotations. All effects of readers are 0.")
        return None, nobody
    seen = rows.weight > 0
    rows = rows.take(seen)
    labels = labels.take(np.flatnonzero(seen))
    number, reader = np.unique(labels.rater, return_inverse=True)
    if len(number) == len(labels.rater):
        warn("No reader gave two labels. All effects of readers are 0.")
        return None, nobody
    nodes, weights = rows.whole.nodes(_NODES)
    said = (labels.indptr, reader, labels.label.astype(np.intp))
    ratings = Ratings(nodes, log(weights), *said, rows.weight, len(number))
    return ratings, labels.raters[number]
