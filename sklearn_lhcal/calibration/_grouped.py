"""Calibration of groups: one calibrator for all, and by how much each group differs from it.

    u = log z,   u'_k = u_k (1 + Σ_f a_fg) + Σ_f b_fgk,   z' = softmax(u')
    a_fg ~ N(0, s_f²),   b_fgk ~ N(0, t_f²)

z are the probabilities of the common calibrator, f factors, such as site and sex, and g the group
of the sample. Letters: n samples, K classes, F factors with q groups in all, y the labels (n, K) in
nats of samples, x the effects (a, b) of each group (q, K+1), v their variances, s² and t² of each
factor. The convex function

    J(x) = −Σ y log z' + ½ Σ x²/v,   with the Hessian H + diag 1/v = S⁻¹,

is least at x. There the first sum is as good as quadratic, and the v of its largest evidence follow
(MacKay 1992). They stay inside their range where

    v = Σ x² / Σ (1 − S_xx/v)   over the effects that have it.

From these v, x is sought again. Labels of one sample are worth ν of as many samples, as in
`VectorScaling`.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_matrix, issparse, kron
from scipy.special import log_softmax

from .._rows import parameters
from .._utils.checks import as_names, check_same_length, is_gap, n_rows, warn
from .._utils.names import named_columns, positions
from .._utils.results import DataFrame, frame_of, result
from .._utils.search import newton
from .._utils.simplex import row_sum
from .._utils.types import ArrayLike, Floats, Indices, NDArray, Samples
from ._base import _BaseCalibrator
from ._scaling.fit import labels_worth
from ._scaling.maps import FittedMap, Information, TemperatureMap
from ._scaling.scalings import StackedCalibration

# The log v of s and t at least, where their search begins, and at most.
_LEAST, _START, _LARGEST = 2 * np.log([1e-3, 0.3, 3.0])
# The change of log v at which the rounds end, and the most rounds.
_TOLERANCE = 1e-3
_MOST = 20
# The most effects, since the Hessian is dense; and the most different fractions that are names.
_MOST_EFFECTS = 2000
_FRACTIONS = 10


def read_factors(X: Samples, by: Sequence | Callable) -> list[NDArray]:
    """The name of each sample's group, such as "site=north & sex missing", for each factor."""
    n = n_rows(X)
    if callable(by):
        X = by(X)
        check_same_length(n, **{"by(X)": X})
    # a sparse matrix has columns for a function alone
    columns = {} if issparse(X) else named_columns(X, "by(X)" if callable(by) else "X")
    by = range(len(columns)) if callable(by) else by
    by = [by] if isinstance(by, str) else by
    factors = [one if isinstance(one, tuple) else (one,) for one in by]
    names = [[_called(columns, which) for which in factor] for factor in factors]
    return [np.array([" & ".join(each) for each in zip(*of, strict=True)]) for of in names]


def _called(columns: dict, which) -> list[str]:
    """What one column says of the samples, such as "site=north"."""
    known = list(columns)
    if isinstance(which, (int, np.integer)) and -len(known) <= which < len(known):
        which = known[which]
    if which not in known:
        raise ValueError(
            f"by asks for the column {which!r}, but X has {known[:20]}; pass one of these, or a "
            "function of X."
        )
    values = as_names(columns[which], f"column {which!r} of by").tolist()
    if len({v for v in values if isinstance(v, float) and v % 1 > 0}) > _FRACTIONS:
        raise ValueError(f"by={which!r} holds fractions, not groups; bin them, by pd.cut say.")
    # whole numbers beside gaps are floats
    whole = [int(v) if isinstance(v, float) and v.is_integer() else v for v in values]
    return [f"{which} missing" if is_gap(v) else f"{which}={v}" for v in whole]


def _objective(u: Floats, y: Floats, groups: Indices, q: int) -> Callable:
    """J with its gradient and Hessian, of x and v; `groups` (F, n) are those of the samples."""
    (n, K), F = u.shape, len(groups)
    m = row_sum(y)[:, None]
    member = csr_matrix((np.ones(n * F), groups.T.ravel(), np.arange(n + 1) * F), (n, q))
    # G = ∂u'/∂x: u_k in the column of a, 1 in that of b_k
    G = kron(member, np.eye(1, K + 1).repeat(K, axis=0)).multiply(u.reshape(-1, 1))
    G = (G + kron(member, np.eye(K, K + 1, 1))).tocsr()

    def terms(x: Floats, v: Floats | float) -> tuple[float, Floats, Floats]:
        log_z = log_softmax(u + (G @ x).reshape(n, K), axis=1)
        z = np.exp(log_z)
        J = float((x**2 / v).sum() / 2 - np.vdot(y, log_z))
        # H = Gᵀ(m z)G − (zG)ᵀm(zG), with zG that of each sample
        zG = csr_matrix((z.ravel(), np.arange(n * K), np.arange(n + 1) * K), (n, n * K)) @ G
        H = (G.T @ G.multiply((m * z).reshape(-1, 1)) - zG.T @ zG.multiply(m)).toarray()
        return J, G.T @ (m * z - y).ravel() + x / v, H + np.diag(0 * x + 1 / v)

    return terms


def fit_effects(u: Floats, y: Floats, groups: Indices, kind: Indices) -> tuple:
    """x and S_xx, both (q, K+1), and the standard deviations √v, those of factor f at 2f, 2f + 1.

    `kind` (q, K+1) is the number of the v of each effect.
    """
    objective = _objective(u, y, groups, len(kind))
    of = kind.ravel()
    x = np.zeros(len(of))
    log_v = np.full(of.max() + 1, _START)
    for _ in range(_MOST):
        x = newton(partial(objective, v=np.exp(log_v)[of]), x)
        _, g, H = objective(x, np.inf)
        before = log_v
        log_v = _likeliest(H, H @ x - g, of)
        if np.abs(log_v - before).max() < _TOLERANCE:
            break
    S = (Information(H).factor(np.exp(-log_v)[of]).A[0] ** 2).sum(axis=1)
    return x.reshape(kind.shape), S.reshape(kind.shape), np.exp(log_v / 2)


def _likeliest(H: Floats, r: Floats, of: Indices) -> Floats:
    """The log v of the largest evidence where the log loss is ½ xᵀHx − rᵀx."""

    def loss(log_v):
        d = np.exp(-log_v)[of]
        factor = Information(H).factor(d)
        x = factor.solved(r)
        S = (factor.A[0] ** 2).sum(axis=1)
        value = (factor.log_det + log_v[of].sum() - r @ x) / 2
        return value, np.bincount(of, 1 - d * S - d * x**2) / 2

    start = np.full(of.max() + 1, _START)
    bounds = [(_LEAST, _LARGEST)] * len(start)
    options = {"gtol": 1e-6, "ftol": 1e-14}
    return minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x


@result
class GroupEffects(NamedTuple):
    """By how much groups differ: the `effects_` of `GroupedCalibration`.

    Attributes
    ----------
    subgroups, classes : list
        Names of the groups, such as "site=north", and of the classes.
    columns : dict of str to ndarray of shape (n_groups, n_classes) or (n_groups, 1)
        The columns of `to_frame`:

        - n_samples : samples of the group
        - slope : 1 + a; below 1 where the common calibrator is overconfident in this group
        - bias : b, logits; above 0 where it names the class too rarely
        - slope_standard_error, bias_standard_error : standard deviations of the posterior, given
          the spread over groups
    """

    subgroups: list[str]
    classes: list
    columns: dict[str, NDArray]

    def to_frame(self) -> "DataFrame":
        """A pandas DataFrame, one row for each group and class."""
        return frame_of({"subgroup": self.subgroups, "class": self.classes}, **self.columns)


@parameters
class GroupedCalibration(_BaseCalibrator):
    """Calibrates groups that differ, such as sites: one calibrator for all, and a part of each.

    `sklearn_lhcal.metrics.subgroup_audit` finds for whom probabilities are wrong; this repairs
    them. Logits u of the common calibrator become ``u'_k = u_k (1 + a) + b_k`` with a slope and
    biases of each group. Several factors, as site and sex, add up. Effects are shrunk to 0, by as
    much as the labels say of each factor (empirical Bayes). So groups share what they know: a large
    group gets nearly a calibrator of its own, and one of few samples the common one. Where groups
    do not differ, next to nothing is lost.

    Groups stand in X, so that searches, pipelines and cross-validation need nothing more. A group
    that `fit` has not met gets the common calibrator. Missing values are a group of their own, as
    in the audit.

    Parameters
    ----------
    estimator : classifier, default=None
        The common calibrator, around a classifier that takes X with its groups. None:
        `StackedCalibration`. Beside saved outputs,
        ``StackedCalibration(PrecomputedClassifier("proba", columns=["p0", "p1"]))``.
    by : list of names or positions, name, or callable
        What makes groups: columns of X, each a factor. A tuple in the list is one factor whose
        groups are combinations, ``["site", ("site", "sex")]``. Or a function of X that returns one
        name a sample, or a table with a column for each factor; it is for sparse and other X.
    cv, ensemble, random_state, verbose
        As in `TemperatureScaling`.

    Attributes
    ----------
    effects_ : GroupEffects
        Slope, biases, their standard errors and the number of samples of each group, with the names
        of `subgroup_audit`; printed as a table, and a pandas frame by ``effects_.to_frame()``.
    spread_ : ndarray of shape (n_factors, 2)
        Standard deviations s of slopes and t of biases over the groups of each factor, between
        0.001 and 3.
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.
    estimator_ : classifier
        The fitted common calibrator.

    Warns
    -----
    UserWarning
        Where a factor has one group only, which teaches nothing, or more groups than half of the
        samples, as their names have.

    Raises
    ------
    ValueError
        A column that X has not; fractions in place of names; more than 2,000 effects, of K + 1 a
        group.

    Notes
    -----
    a ~ N(0, s²) and b_k ~ N(0, t²), with s and t of each factor by the largest evidence (MacKay).
    The common calibrator is fitted first, on the same samples: its out-of-fold predictions in place
    of those gained nothing. Labels of one sample are worth as many samples as in `VectorScaling`.

    References
    ----------
    MacKay (1992), Bayesian interpolation, for the evidence. Gelman and Hill (2007), Data analysis
    using regression and multilevel/hierarchical models, for partial pooling.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_lhcal.calibration import PrecomputedClassifier, TemperatureScaling
    >>> rng = np.random.default_rng(0)
    >>> p, west = rng.uniform(0.1, 0.9, 600), rng.random(600) < 0.3
    >>> disease = rng.random(600) < p ** np.where(west, 0.4, 1)
    >>> X = np.column_stack([1 - p, p, west])
    >>> saved = PrecomputedClassifier("proba", columns=[0, 1])
    >>> model = GroupedCalibration(TemperatureScaling(saved), by=[2]).fit(X, disease)
    >>> model.effects_.subgroups
    ['column 2=0', 'column 2=1']
    >>> model.predict_proba([[0.5, 0.5, 0], [0.5, 0.5, 1]]).round(1)
    array([[0.5, 0.5],
           [0.3, 0.7]])
    """

    _default = StackedCalibration

    _: KW_ONLY
    by: Sequence | Callable[[Samples], ArrayLike]

    def _check_data(self, X, labels):
        factors = read_factors(X, self.by)
        if not factors:
            raise ValueError("by names no column.")
        sizes = [len(np.unique(names)) for names in factors]
        n_effects = sum(sizes) * (labels.shape[1] + 1)
        if n_effects > _MOST_EFFECTS:
            raise ValueError(
                f"by makes {sizes} groups, with {n_effects} effects, which are more than "
                f"{_MOST_EFFECTS}; merge small groups, or leave out the column with the most."
            )
        for names, size in zip(factors, sizes, strict=True):
            if size == 1 or size > len(names) / 2:
                warn(
                    f"by makes {size} group(s) of {len(names)} samples, such as '{names[0]}': a "
                    "single group teaches nothing, and groups of single samples next to nothing."
                )

    def _fit_map(self, rows):
        rows = rows.take(rows.weight > 0)
        u, K = rows.log_proba, rows.n_classes
        factors = read_factors(rows.X, self.by)
        each = [np.unique(names) for names in factors]
        names = np.concatenate(each)
        groups = np.array([positions(one, names) for one in factors])
        kind = 2 * np.repeat(np.arange(len(each)), [len(one) for one in each])[:, None]
        kind = kind + (np.arange(K + 1) > 0)
        nu = labels_worth(rows, FittedMap(TemperatureMap(K), np.zeros(1)))
        x, S, spread = fit_effects(u, nu * rows.weight.sum() * rows.label_shares, groups, kind)
        # a constant for all classes, of which labels say nothing, has the variance t²/K in each
        S[:, 1:] -= spread[kind[:, 1:]] ** 2 / K
        error = np.sqrt(np.maximum(S, 0))
        table = {"n_samples": np.bincount(groups.ravel(), minlength=len(names))[:, None]}
        table |= {"slope": 1 + x[:, :1], "slope_standard_error": error[:, :1]}
        table |= {"bias": x[:, 1:], "bias_standard_error": error[:, 1:]}
        effects = GroupEffects(names.tolist(), rows.classes.tolist(), table)
        # behind all groups one of no effects, for those that are not met
        learnt = {"effects_": effects, "_effects": np.pad(x, ((0, 1), (0, 0)))}
        return learnt | {"spread_": spread.reshape(-1, 2)}

    def _map(self, rows):
        return rows.moved(self._log_z(rows))

    def _log_z(self, rows):
        names = np.array(self.effects_.subgroups)
        factors = read_factors(rows.X, self.by)
        x = sum(self._effects[positions(one, names)] for one in factors)
        return log_softmax(rows.log_proba * (1 + x[:, :1]) + x[:, 1:], axis=1)
