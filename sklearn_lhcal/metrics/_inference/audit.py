"""For whom are the probabilities wrong: a test of calibration by subgroups, and its limits.

Letters: e = μ̂ − z, M_gi the weight of sample i in subgroup g, 0 outside of it, W_g = Σ_i M_gi, and
u = log z − Σ_k z_k log z_k. The residuals of a sample are Σ_k u_k e_k, of its sharpness, and e.
"""

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from itertools import combinations, pairwise
from numbers import Real
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.utils import check_random_state

from ..._rows import PredictionLike, Rows, class_names, read_labels, read_rows
from ..._utils.arrays import in_batches, row_units
from ..._utils.checks import (
    as_floats,
    as_names,
    check_same_length,
    check_values,
    checked,
    distinct,
    is_gap,
)
from ..._utils.names import check_row_names, named_columns
from ..._utils.results import DataFrame, frame_of, result
from ..._utils.simplex import EPS, row_sum, softmax
from ..._utils.types import ArrayLike, Floats, Groups, Indices, LabelsLike, Mask, Seed, Weights
from ...distributions import PointMass
from .._binned import raters_repeat
from .._kernel_null import Draw, check_draws, correlation, label_draws, signs
from .._label_histogram import epistemic_loss, irreducible_loss
from .intervals import confidence_interval
from .means import mean_and_spread
from .scarce import endpoints, of_units

# samples with two labels from which on a subgroup has a correlation of its own
_OWN = 50
# units with a label of the class, or without one, below which limits come from the endpoints
_FEW = 10
_ENDS_DRAWN = 10_000
# excess kurtosis of a sum of drawn labels, Σ E r⁴/V², up to which it is drawn as a normal
_NEARLY_NORMAL = 0.01
_ROUNDING = 1e-9
# probabilities whose logarithms are smaller do not count for more
_LEAST_Z = 1e-6
# of a slope: where labels and predicted classes are all the same, none fits better than infinity
_MOST_SLOPE = 20.0
_ENDS = ("", "_low", "_high")
_OF_LOSSES = [f"{loss}_loss{end}" for loss in ("irreducible", "epistemic") for end in _ENDS]
_NO_LOSSES = "no losses: fewer than two units have two labels"
# numbers with more distinct values are cut at their quartiles
_CATEGORIES = 10


# names of subgroups, and the number of that of each sample, shape (n,)
Levels = tuple[list[str], Indices]

# lines of the table that is printed, and its columns
_LINES = 12
_SHOWN = dict(n="n", estimate="z − μ̂", low="low", high="high")
_SHOWN |= dict(slope="slope", slope_low="low", slope_high="high")
_SHOWN |= {"irreducible_loss": "IL", "epistemic_loss": "EL"}
_OF_SLOPES = ["slope", "slope_low", "slope_high", "slope_statistic", "slope_detectable"]


@result
class SubgroupAudit(NamedTuple):
    """What `subgroup_audit` returns.

    Attributes
    ----------
    subgroups, classes : list
        Names of the subgroups and classes.
    columns : dict of str to ndarray of shape (n_subgroups, n_classes) or (n_subgroups, 1)
        The columns of `to_frame`:

        - n : samples of the subgroup
        - estimate : weighted mean of ``z − μ̂``, positive where the model predicts the class too
          often
        - low, high : simultaneous limits of this mean
        - statistic : ``T_gk``, the sum of μ̂ − z in standard deviations of calibrated predictions
        - detectable : the mean error that this audit would find with a probability of 0.8
        - slope : calibration slope β of the subgroup, the β with which softmax(β log z) fits its
          labels best: 1 if calibrated, below 1 where the model is overconfident, above 1 where it
          is underconfident; between 0 and 20. NaN where all predictions have classes that are
          equally likely or impossible
        - slope_low, slope_high : its simultaneous limits, cut to the same range
        - slope_statistic, slope_detectable : as above; of slope − 1
        - irreducible_loss, irreducible_loss_low, irreducible_loss_high : expected disagreement of
          two raters in the subgroup, with its own interval; NaN where fewer than two samples have
          two labels
        - epistemic_loss, epistemic_loss_low, epistemic_loss_high : the same of the model's part of
          the loss
        - note : what is to be known of these losses; empty where nothing is
    p_value : float
        Of the hypothesis that the predictions are calibrated in all subgroups.
    p_values : dict of str to float
        Of "class frequencies" and "sharpness" (slopes), each by itself.
    worst : tuple
        The subgroup and the class that stand out most: ``to_frame().loc[worst]`` is their row. Or
        the subgroup and "slope", with ``sharpness.loc[worst[0]]``.
    left_out : dict of str to int
        Size of each subgroup that is smaller than `min_rows`.
    confidence_level : float
        Of the limits, and of the intervals of the losses.
    """

    subgroups: list[str]
    classes: list
    columns: dict[str, NDArray]
    p_value: float
    p_values: dict[str, float]
    worst: tuple
    left_out: dict[str, int]
    confidence_level: float

    def to_frame(self) -> "DataFrame":
        """A pandas DataFrame, one row for each subgroup and class."""
        return frame_of({"subgroup": self.subgroups, "class": self.classes}, **self.columns)

    @property
    def sharpness(self) -> "DataFrame":
        """A pandas DataFrame of the slopes, one row for each subgroup."""
        slopes = {name: self.columns[name][:, 0] for name in ("n", *_OF_SLOPES)}
        return frame_of({"subgroup": self.subgroups}, **slopes)

    def __str__(self) -> str:
        """The verdict, and the subgroups that stand out most, each with its worst class."""
        try:
            frame = self.to_frame()
        except ImportError:
            return repr(self)
        T = frame.statistic.abs().round(9)
        # of classes that stand out alike the last, as the second of two
        worst = T[::-1].groupby(level=0, sort=False).idxmax()[::-1]
        T = np.maximum(T, frame.slope_statistic.abs().round(9)).loc[worst]
        each = frame.loc[T.sort_values(ascending=False, kind="stable").index, list(_SHOWN)]
        each = each.rename(columns=_SHOWN).reset_index()
        table = each.head(_LINES).to_string(index=False, float_format="{:.3f}".format)
        if len(each) > _LINES:
            table += f"\n… {len(each) - _LINES} more, see to_frame()"
        return (
            f"H0: calibrated in each of {len(each)} subgroups; p = {self.p_value:.2g} "
            f"({', '.join(f'{name} {p:.2g}' for name, p in self.p_values.items())})\n"
            "z − μ̂ > 0: predicted too often; slope < 1: overconfident; simultaneous limits\n"
            f"{table}\n"
            f"left out as too small: {len(self.left_out)}"
        )


@checked
def subgroup_audit(
    y: LabelsLike,
    prediction: PredictionLike,
    subgroups: ArrayLike | Mapping,
    *,
    sample_weight: Weights = None,
    groups: Groups = None,
    confidence_level: float = 0.95,
    max_depth: Literal[1, 2] = 1,
    min_rows: int = 30,
    n_draws: int = 1000,
    random_state: Seed = 0,
) -> SubgroupAudit:
    """For whom the probabilities are wrong: calibration in subgroups, in one test with limits.

    ``T_gk = Σ_{i∈g} w_i (μ̂_ik − z_ik) / √V_gk`` for each subgroup g and class k, where ``V_gk =
    Σ_{i∈g} w_i² z_ik (1 − z_ik) (1/n_i + (1 − 1/n_i) ρ_g)`` is its variance if the predictions z
    are calibrated. ρ_g is the correlation of two raters of a sample **in this subgroup**: one
    number for all would take more disagreement in one subgroup for miscalibration. Predictions can
    be too extreme while all class frequencies are right. So each subgroup has one more statistic,
    ``T_g = Σ_{i∈g} w_i Σ_k log z_ik (μ̂_ik − z_ik) / √V_g``, the score of its calibration slope: it
    is below 0 where the model is overconfident. The largest absolute value of all is compared with
    that of each draw of new labels from the predictions, so that the p-value counts how many
    subgroups and classes were looked at.

    `sklearn_lhcal.calibration.GroupedCalibration` repairs what is found.

    Each subgroup has two losses beside it. Raters disagree more on its samples where its
    irreducible loss is large. The model is worse on them where its epistemic loss is large.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes.
    prediction : array-like of shape (n_samples, n_classes) or (n_samples,), or Distribution
        Class probabilities, or a distribution, whose mean counts.
    subgroups : array-like of shape (n_samples,) or (n_samples, n_columns), frame or dict
        One or several columns of names or numbers; a dict holds columns by their names. Columns
        without names are called "column 0", "column 1". Each value is a subgroup. A column of
        numbers with more than 10 different values is cut at its quartiles. Missing values are a
        subgroup of their own, "age missing".
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the samples.
    groups : array-like of shape (n_samples,), optional
        Samples of one group (one patient, say) may depend on each other; groups are independent.
    confidence_level : float, default=0.95
        Of the simultaneous limits; and of the intervals of the losses, each by itself.
    max_depth : {1, 2}, default=1
        2: also pairs, such as the women of one hospital.
    min_rows : int, default=30
        Subgroups with fewer samples, or fewer groups where these are given, are left out. 2 or
        more.
    n_draws : int, default=1000
        How often labels, or signs, are drawn.
    random_state : int, RandomState instance or None, default=0
        Draws the labels or signs.

    Returns
    -------
    SubgroupAudit
        Printed, it shows the subgroups that stand out most; `to_frame` has all, and `sharpness` the
        slopes.

    Raises
    ------
    ValueError
        Columns of another length than y, with one value for all samples, or with types that cannot
        be sorted together; no subgroup with `min_rows` samples; known probabilities without groups.

    Notes
    -----
    **Draws.** Labels come from z where a sample has one rater, else from a Dirichlet-multinomial
    around z; where all sums are of very many labels, sums are drawn as normals with the same
    covariance. ρ_g is the moment estimate ``Σ w EL_i / Σ w (1 − Σ_k z_ik²)``. A subgroup with
    m < 50 samples of two labels has ``ρ + (m/50)(ρ_g − ρ)`` instead, ρ that of all samples. With
    `groups` the same labels are drawn, and each V is multiplied by a design effect ``max(1, Σ_g
    Σ_groups (Σ_{i in group} w_i r_i)² / Σ_g V_g)`` with r_i the term of a sample: one number for
    each class, and one for slopes. With `Annotations` whose raters repeat, and with known
    probabilities, residuals are drawn with random signs, as in `null_calibration_error`, and V is
    their variance. Calibrated then means for new raters.

    **Limits** of the mean of z − μ̂ hold for all subgroups and classes together. They are ``± c ·
    max(error if calibrated, empirical error)``, with c the quantile of the largest. Where
    fewer than 10 samples or groups have a label of the class, or fewer than 10 another one, they
    come from the endpoint interval of `confidence_interval`, at the level of c.

    **Slopes** β have the largest likelihood of ``softmax(β log z)``, where probabilities below 1e-6
    count as 1e-6; 1/β is the temperature of `TemperatureScaling`. There is no intercept, so class
    frequencies that are wrong move the slope too. Their limits hold together with those of the
    means: ``β ± c · max(error if calibrated, empirical error)``.

    **Detectable** is ``(c + 0.84) · error if calibrated``: a mean error, or a distance of the slope
    from 1, of this size would be found with a probability of 0.8. What was not found in a small
    subgroup may still be large.

    **Losses** have intervals for these raters and new samples, by the jackknife. Each holds by
    itself.

    A simulation of size, power and coverage is on the validation page.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> from sklearn_lhcal.metrics import subgroup_audit
    >>> data = make_label_histograms(600, random_state=0)
    >>> site = np.arange(600) % 3
    >>> counts = data.counts.copy()
    >>> counts[site == 2] = counts[site == 2][:, ::-1]
    >>> audit = subgroup_audit(counts, data.proba, {"site": site})
    >>> audit.worst[0], audit.p_value < 0.01
    ('site=2', True)
    """
    check_row_names(y=y, prediction=prediction, subgroups=subgroups)
    labels = read_labels(y)
    columns = _read_columns(subgroups, len(labels))
    rows = read_rows(y, prediction, sample_weight, groups)
    counted = labels.rated[rows.contributes()]
    columns = {name: values[counted] for name, values in columns.items()}
    rows = rows.weighted()
    names, members, left_out = _subgroups_of(columns, max_depth, min_rows, rows.groups)
    M = members * rows.weight
    u = _logits(rows.z)
    seed = check_random_state(random_state).randint(2**31, size=4)
    generator = np.random.default_rng(seed)
    sums_of = partial(_sums, size=rows.z.size, n_draws=n_draws, generator=generator)
    V, V_drawn, drawn = _null(rows, M, u, sums_of)
    T = _in_errors(M @ _residuals(u, rows.mu, rows.z), V)
    # (n_draws, 1 + K): the largest of all subgroups
    largest = np.abs(_in_errors(drawn, V_drawn)).max(axis=1)
    c = float(np.quantile(largest.max(axis=1), confidence_level))
    error = np.sqrt(V[:, 1:]) / M.sum(axis=1, keepdims=True)
    parts = [rows.take(mask) for mask in members]
    limits = [_limits(part, own, c) for part, own in zip(parts, error, strict=True)]
    each = zip(parts, members, V[:, 0], strict=True)
    slopes = [_slope(part, u[mask], V_g, c) for part, mask, V_g in each]
    losses = [_losses(part, confidence_level) for part in parts]
    table: dict[str, NDArray] = {"n": members.sum(axis=1)[:, None]}
    table |= zip(("estimate", "low", "high"), np.stack(limits, axis=1), strict=True)
    far = c + norm.ppf(0.8)
    table |= {"statistic": T[:, 1:], "detectable": far * error}
    slope, low, high, slope_error = np.array(slopes).T[:, :, None]
    table |= zip(_OF_SLOPES, (slope, low, high, T[:, :1], far * slope_error), strict=True)
    table |= {name: np.array([[of[name]] for of in losses]) for name in losses[0]}
    classes = class_names(rows)
    found = np.abs(T)

    def p_of(which: slice) -> float:
        # the data are one of the draws
        as_large = largest[:, which].max(axis=1) >= found[:, which].max() - _ROUNDING
        return float((1 + as_large.sum()) / (1 + len(largest)))

    p_values = {"class frequencies": p_of(slice(1, None)), "sharpness": p_of(slice(1))}
    # of classes that stand out alike the last, as the second of two
    extreme = found.round(9)
    g = int(extreme.max(axis=1).argmax())
    k = T.shape[1] - 1 - int(extreme[g, ::-1].argmax())
    verdict = p_of(slice(None)), p_values, (names[g], ["slope", *classes][k])
    return SubgroupAudit(names, classes, table, *verdict, left_out, confidence_level)


def _logits(z: Floats) -> Floats:
    """``u_k = log z_k − Σ_j z_j log z_j``, exactly 0 where all classes are alike, (n, K)."""
    u = np.log(np.maximum(z, _LEAST_Z))
    u -= row_sum(z * u)[:, None]
    return np.where(np.abs(u) > _ROUNDING, u, 0.0)


def _residuals(u: Floats, mu: Floats, z: Floats) -> Floats:
    """``Σ_k u_ik e_ik`` and e_ik, (n, ..., 1 + K)."""
    e = mu - z
    return np.concatenate([np.einsum("nk,n...k->n...", u, e)[..., None], e], axis=-1)


def _null(rows: Rows, M: Floats, u: Floats, sums_of: Callable) -> tuple[Floats, Floats, Floats]:
    """If the predictions are calibrated: ``V``, (G, 1 + K), that of draws, and their sums."""
    check_draws(rows)
    if rows.labels.known or raters_repeat(rows):
        drawn = sums_of(M, signs(rows), u, rows.z)
        V = (drawn**2).mean(axis=0)
        return V, V, drawn
    rho, of_row = _correlations(rows, M > 0)
    z, n = rows.z, rows.n[:, None]
    # Σ_k z_ik u_ik², and z_ik (1 − z_ik)
    v = np.column_stack([row_sum(z * u**2), z * (1 - z)])
    # V_g = Σ_i M_gi² v_i (1/n_i + (1 − 1/n_i) ρ), with ρ of the subgroup, or that of the sample
    one, pair = M**2 @ (v / n), v * (1 - 1 / n)
    V = one + rho[:, None] * (M**2 @ pair)
    V_drawn = one + M**2 @ (of_row[:, None] * pair)
    if rows.groups is not None:
        # Sums of residuals r (n, 1 + K) vary more with groups, by
        # max(1, Σ_g Σ_groups (Σ_{i in group} M_gi r_i)² / Σ_g V_g):
        # one number for all subgroups, as few groups in one of them say little
        r = _residuals(u, rows.mu, z)
        total = V.sum(axis=0)
        squares = sum((of_units(m * r.T, rows) ** 2).sum(axis=1) for m in M)
        V *= np.maximum(squares / np.where(total > 0, total, np.inf), 1.0)
    # E r⁴ of one label
    fourth = np.column_stack([row_sum(z * u**4), z * (1 - z) * (1 - 3 * z * (1 - z))])
    cells = np.unique(M > 0, axis=1, return_inverse=True)
    # their covariances are no more numbers than the residuals
    few = cells[0].shape[1] * V.shape[1] <= len(rows)
    if few and (M**4 @ fourth <= _NEARLY_NORMAL * V_drawn**2).all():
        return V, V_drawn, sums_of(*_normals(rows, *cells, u, of_row))
    return V, V_drawn, sums_of(M, label_draws(rows, of_row), u, z)


def _normals(
    rows: Rows, sets: Mask, cell: Indices, u: Floats, of_row: Floats
) -> tuple[Floats, Draw]:
    """Subgroups of cells, (G, C), and draws of the sums of r in cells with the labels' covariance.

    Samples of the same subgroups, of which `sets` (G, C) tells, are a cell. Its covariance is ``Σ
    w² (1/n + (1 − 1/n) ρ) (X' diag z X − x'x)``, where the columns of X are u and the classes, and
    x = (0, z) is the mean.
    """
    order = np.argsort(cell.ravel(), kind="stable")
    first = np.searchsorted(cell.ravel()[order], np.arange(sets.shape[1]))
    t = (rows.weight**2 * (1 / rows.n + (1 - 1 / rows.n) * of_row))[order, None]
    z, u = rows.z[order], u[order]
    K = z.shape[1]
    cov = np.zeros((len(first), 1 + K, 1 + K))
    cov[:, 0, 0] = np.add.reduceat(t[:, 0] * row_sum(z * u**2), first)
    cov[:, 0, 1:] = cov[:, 1:, 0] = np.add.reduceat(t * z * u, first)
    for k in range(K):
        cov[:, 1 + k, 1:] = -np.add.reduceat(t * z[:, [k]] * z, first)
        cov[:, 1 + k, 1 + k] += np.add.reduceat(t[:, 0] * z[:, k], first)
    values, vectors = np.linalg.eigh(cov)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None]

    def draw(generator, S: int):
        return generator.standard_normal((len(first), S, 1 + K)) @ root.swapaxes(1, 2)

    return sets.astype(float), draw


def _sums(M: Floats, draw: Draw, u=None, z=None, *, size: int, n_draws: int, generator) -> Floats:
    """Sums over subgroups of residuals, or of those of labels, drawn: (n_draws, G, 1 + K).

    A draw holds no more than `size` numbers.
    """
    parts = []
    for drawn in in_batches(draw, size, n_draws, generator):
        r = drawn if z is None else _residuals(u, drawn, z[:, None, :])
        parts.append(np.tensordot(M, r, 1))
    return np.concatenate(parts, axis=1).swapaxes(0, 1)


def _correlations(rows: Rows, members: Mask) -> tuple[Floats, Floats]:
    """ρ̂ of each subgroup, (G,), and of samples, (n,), which have the mean of their subgroups.

    Where few samples have two raters, that of all samples counts too.
    """
    common = correlation(rows)
    own = np.array([correlation(rows.take(mask)) for mask in members])
    m = (members & (rows.n > 1)).sum(axis=1)
    rho = common + np.minimum(m / _OWN, 1.0) * (own - common)
    # samples of no subgroup are in no sum
    return rho, rho @ members / np.maximum(members.sum(axis=0), 1)


def _in_errors(sums: Floats, V: Floats) -> Floats:
    """T = sums/√V; where V = 0, 0 for sums of 0, else infinite."""
    alone = np.where(np.abs(sums) > _ROUNDING, np.copysign(np.inf, sums), 0.0)
    return np.where(V > 0, sums / np.sqrt(np.where(V > 0, V, 1.0)), alone)


def _limits(part: Rows, null_error: Floats, c: float) -> Floats:
    """Mean of z − μ̂ in a subgroup and its simultaneous limits, (3, K).

    ``± c · max(null error, empirical error)``; from the endpoint interval of the mean of μ̂ where
    few units have a label of the class, or one of another class.
    """
    w = part.weight / part.weight.sum()
    mean, V, _ = mean_and_spread(part.z - part.mu, w, part.groups)
    error = c * np.maximum(null_error, np.sqrt(V))
    limits = np.array([mean, mean - error, mean + error])
    sums = of_units(part.weight * np.vstack([np.ones(len(part)), part.mu.T]), part)
    W, S = sums[0], sums[1:]
    some = (S > 0).sum(axis=1)
    others = (W - S > EPS).sum(axis=1)
    for k in np.flatnonzero(np.minimum(some, others) < _FEW):
        level = 1 - 2 * norm.sf(c)
        ends = endpoints(S[k], W, (0.0, 1.0), level, _ENDS_DRAWN)
        low, high = w @ part.z[:, k] - ends[::-1]
        if raters_repeat(part):
            # samples depend on each other
            low = min(low, limits[1, k])
            high = max(high, limits[2, k])
        limits[1:, k] = low, high
    return limits


def _slope(part: Rows, u: Floats, V: float, c: float) -> tuple[float, float, float, float]:
    """The slope β of a subgroup, its limits, and the error of β if calibrated; V is that of U(1).

    ``U(β) = Σ_i w_i Σ_k u_ik (μ̂_ik − softmax(β u_i)_k) = 0``, with the limits ``β ± c ·
    √max(Σ_units U_unit², V I(β)/I(1)) / I(β)`` and I = −dU/dβ, the information.
    """

    def at(beta: float) -> tuple[Floats, Floats]:
        z = softmax(beta * u)
        mean = row_sum(z * u)
        v = row_sum(z * (u - mean[:, None]) ** 2)
        return part.weight * (row_sum(part.mu * u) - mean), part.weight @ v

    # I(1); 0 where all classes are alike, or one has everything
    information = part.weight @ row_sum(part.z * u**2)
    if information == 0:
        return np.nan, np.nan, np.nan, np.nan
    beta = 0.0 if at(0.0)[0].sum() <= 0 else _MOST_SLOPE
    if at(_MOST_SLOPE)[0].sum() < 0 < at(0.0)[0].sum():
        beta = brentq(lambda b: at(b)[0].sum(), 0.0, _MOST_SLOPE)
    U, own = at(beta)
    empirical = (np.bincount(row_units(part.groups, len(U)), U) ** 2).sum()
    # where nothing is uncertain at β, nothing is known of it
    error = np.sqrt(max(empirical, V * own / information)) / own if own > 0 else np.inf
    low, high = np.clip([beta - c * error, beta + c * error], 0.0, _MOST_SLOPE)
    return beta, low, high, np.sqrt(V) / information


def _losses(part: Rows, level: float) -> dict:
    """IL and EL with their intervals for these raters, and what their warnings say."""
    several = part.contributing(2)
    if several is None or len(np.unique(row_units(several.groups, len(several)))) < 2:
        return dict.fromkeys(_OF_LOSSES, np.nan) | {"note": _NO_LOSSES}
    z = PointMass.of_checked(several.z).with_classes(several.classes)
    options: dict = {"sample_weight": several.w, "groups": several.groups}
    options |= {"raters": "fixed", "confidence_level": level, "random_state": 0}
    metrics = irreducible_loss, epistemic_loss
    with warnings.catch_warnings(record=True, action="always") as caught:
        ends = [confidence_interval(metric, several.labels, z, **options)[:3] for metric in metrics]
    said = dict.fromkeys(str(warning.message) for warning in caught)
    found = dict(zip(_OF_LOSSES, np.ravel(ends), strict=True))
    return found | {"note": " ".join(said)}


# -------------------------------------------------------------------------------------- subgroups


def _read_columns(subgroups, n: int) -> dict[str, NDArray]:
    """The columns of a frame, a dict or an array by their names, each of shape (n,)."""
    check_values(subgroups, "subgroups")
    named = named_columns(subgroups, "subgroups")
    if not named:
        raise ValueError("subgroups has no columns.")
    columns = {str(name): as_names(a, f"subgroups[{name!r}]") for name, a in named.items()}
    check_same_length(n, **{f"subgroups[{name!r}]": a for name, a in columns.items()})
    return columns


def _subgroups_of(
    columns: dict[str, NDArray], max_depth: int, min_rows: int, groups: NDArray | None
) -> tuple[list[str], Mask, dict[str, int]]:
    """Names and samples (G, n) of the subgroups, and the sizes of those that are too small.

    They are those of single columns, and of pairs of them for ``max_depth=2``. `groups` are those
    whose number is the size of a subgroup; None: that of its samples.
    """
    found = [_levels(name, values) for name, values in columns.items()]
    if max_depth > 1:
        found += [_pairs(*both) for both in combinations(found, 2)]
    names, members, left_out = [], [], {}
    for named, code in found:
        for j in np.unique(code):
            mask = code == j
            unit = np.flatnonzero(mask) if groups is None else np.unique(groups[mask])
            if len(unit) < min_rows:
                left_out[named[j]] = len(unit)
            else:
                names.append(named[j])
                members.append(mask)
    if not names:
        raise ValueError(
            f"All subgroups are below min_rows={min_rows}: "
            f"the largest of {len(left_out)} has {max(left_out.values())}."
        )
    return names, np.array(members), left_out


def _pairs(one: Levels, other: Levels) -> Levels:
    """Those who are in a subgroup of both columns."""
    names = [f"{a} & {b}" for a in one[0] for b in other[0]]
    return names, one[1] * len(other[0]) + other[1]


def _levels(name: str, values: NDArray) -> Levels:
    """The values of a column, or quarters of its numbers; missing values are one of their own."""
    gaps = np.array([is_gap(value) for value in values.tolist()], dtype=bool)
    found, own = distinct(values[~gaps], f"subgroups[{name!r}]")
    names = [f"{name}={value}" for value in found.tolist()]
    numbers = all(isinstance(x, Real) and not isinstance(x, bool) for x in found.tolist())
    if len(found) > _CATEGORIES and numbers:
        names, own = _quarters(name, values[~gaps])
    code = np.full(len(values), len(names))
    code[~gaps] = own
    if gaps.any():
        names = [*names, f"{name} missing"]
    if len(names) < 2:
        raise ValueError(f"subgroups[{name!r}] has one value only, {names[0]}; leave it out.")
    return names, code


def _quarters(name: str, values: NDArray) -> Levels:
    """Names of the quarters of numbers, and that of each; ties may leave fewer than four."""
    x = as_floats(values, f"subgroups[{name!r}]")
    cuts = np.quantile(x, [0.25, 0.5, 0.75], method="lower")
    # each quarter has a sample
    cuts = np.unique(np.minimum(cuts, x[x < x.max()].max()))
    shown = [f"{cut:.4g}" if abs(cut) < 1e4 else f"{cut:.0f}" for cut in cuts]
    between = [f"{low} < {name} ≤ {high}" for low, high in pairwise(shown)]
    names = [f"{name} ≤ {shown[0]}", *between, f"{name} > {shown[-1]}"]
    return names, np.searchsorted(cuts, x, side="left")
