"""What one more label gains where rows are chosen by a rule: expected, realised, and how surely."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np

from ..._rows import Annotations, PredictionLike, Rows, read_rows
from ..._utils.checks import as_floats, checked
from ..._utils.names import check_row_names
from ..._utils.results import DataFrame, fields, frame_of, result
from ..._utils.types import ArrayLike, Floats, Groups, LabelsLike, NDArray, Raters, Weights
from ...distributions import Distribution, PointMass, second_opinion_value
from .._disagreement import posterior_losses
from .means import spread_over_raters, student_ends, told_panel
from .scarce import ends_of_few, possible_terms
from .two_way import Spread, kind_of_raters, over_raters, random_raters

# values of a statistic that are in memory at a time
_VALUES = 2**24
_RULES: dict[str, Callable] = {
    "second_opinion_value": second_opinion_value,
    "entropy": Distribution.entropy,
    "disagreement": Distribution.disagreement,
}


@result
class ReferralCurve(NamedTuple):
    """What `referral_curve` returns: gains at m fractions of samples referred.

    Attributes
    ----------
    fraction, expected_gain, realised_gain : ndarray of shape (m,)
    standard_error : ndarray of shape (m,)
        Of the realised gain.
    interval : ndarray of shape (m, 2)
        For the realised gain.
    rule : str
        What decided who is referred first; "given priorities" for an array.
    normalize : bool
        Whether gains are shares of the gain of referring every sample.
    confidence_level : float
    raters : {"random", "fixed"}
        Whether intervals are for new raters, or for these.
    """

    fraction: Floats
    expected_gain: Floats
    realised_gain: Floats
    standard_error: Floats
    interval: Floats
    rule: str
    normalize: bool
    confidence_level: float
    raters: str

    def to_frame(self) -> "DataFrame":
        """A pandas DataFrame, one row for each fraction."""
        return frame_of({"fraction": self.fraction}, **fields(self, "expected_gain", "interval"))


@checked
def referral_curve(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    rule: str | ArrayLike = "second_opinion_value",
    normalize: bool = False,
    sample_weight: Weights = None,
    groups: Groups = None,
    raters: Raters = None,
    n_points: int = 201,
    confidence_level: float = 0.95,
) -> ReferralCurve:
    """What one more label gains, by the fraction of samples that are given one, with intervals.

    The gain of a sample is the drop of its epistemic loss when the distribution learns the label:
    expected by the distribution, and realised, by the unbiased estimates of `epistemic_loss` and
    `posterior_epistemic_loss`.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes; samples with fewer than two raters are left out.
    prediction : Distribution
        A batch of n_samples samples, before the label.
    rule : {"second_opinion_value", "entropy", "disagreement"} or array-like of shape (n_samples,)
        What decides who is referred first, the largest.
    normalize : bool, default=False
        Whether gains are shares of the gain of referring every sample.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the samples; only their ratios matter.
    groups : array-like of shape (n_samples,), optional
        Samples of one group (one patient, say) are dependent: intervals take them together.
    raters : {"random", "fixed"}, optional
        As in `confidence_interval`.
    n_points : int, default=201
        Number of points, equally spaced from fraction 0 to 1.
    confidence_level : float, default=0.95
        Level of the intervals.

    Returns
    -------
    ReferralCurve

    Raises
    ------
    ValueError
        An unknown rule; priorities of another shape, NaN or infinite; no sample with two raters
        and a positive weight; a distribution that no label moves, a point mass say; shares of
        a realised gain that is not positive; `confidence_level` outside (0, 1); `n_points`
        below 2; fewer than three raters where they are random, or labels without raters; and
        whatever `check_counts` refuses.

    Warns
    -----
    UserWarning
        Fewer than five raters where they are random.

    Notes
    -----
    **Realised gain.** It is the estimate of `epistemic_loss` minus that of
    `posterior_epistemic_loss`, both unbiased. Samples with fewer than two raters are left out, of
    the expected gain too. Samples of equal priority are referred in random order; the curves show
    the mean over these orders.

    **Intervals.** There is one at each fraction, for the mean true gain of samples predicted as
    these were. Samples are independent. The gain at one fraction is a sum over samples, ``Σ a_i g_i
    / n``, with a_i = 1 where sample i is referred. Its standard error is ``√(Σ a_i² r_i²) / n``.
    The noise is the residual r of the realised gains g on the expected ones v, ``r = g −
    v·Σgv/Σv²``. Student's quantile has ``2 (Σ a²r²)² / Σ a⁴r⁴`` degrees of freedom, because few
    samples may carry most of the variance. For shares, which are ratios, a_i minus the share takes
    the place of a_i (delta method). The intervals of shares are too wide where the gain of all
    samples is hardly known. They are too narrow where the share comes near 1 and depends on the few
    late samples that gain anything.

    **Raters.** With `Annotations` the interval holds for new samples and new raters. Its variance
    is ``rows + max(raters − cells, 0)``, as that of `confidence_interval` for three raters. The
    samples are those squares. The others are jackknives of the same sum, without each rater and
    without each single label. The order of the samples stays, because it depends on the predictions
    alone. A sample that is left with one rater is left out. The gain of a sample is evaluated once
    more for each different label that it has, and each fraction sums over all labels. Degrees of
    freedom follow Satterthwaite, no fewer than the least of both. Raters are taken as exchangeable.
    Counts do not say who spoke: their interval is for these raters and new samples.

    A gain that is no share has the ends that `paired_difference` has for few samples where most of
    those referred are alike, as with a rare class: fewer than 20 of them, and than a quarter, lie
    apart.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> from sklearn_lhcal.distributions import Dirichlet
    >>> data = make_label_histograms(500, total=2.0, random_state=0)
    >>> before = Dirichlet.from_mean(data.prediction, data.total)
    >>> curve = referral_curve(data.counts, before, n_points=3)
    >>> bool(curve.realised_gain[1] > curve.realised_gain[2] / 2)  # better than at random
    True
    """
    check_row_names(y=y, rule=rule)
    rows = read_rows(y, prediction, sample_weight, groups)
    priority = _priorities(rule, rows.distribution)
    keep = np.flatnonzero((rows.n >= 2) & (rows.weight > 0))
    rows = rows.take(keep)
    expected, realised = _gains(rows)
    w = rows.weight / rows.weight.sum()
    v = w * expected
    g = w * realised
    explained = v * (g @ v) / (v @ v)
    total = g.sum()
    if normalize and total <= 0:
        raise ValueError(
            f"Referring every sample gains {total:.2g} here, of which there are no shares; use "
            "normalize=False, and calibrate the distribution, with AlphaCalibration say."
        )
    unit, of_all = (total, v.sum()) if normalize else (1.0, 1.0)
    fraction = np.linspace(0, 1, n_points)
    # (n, m): the share of each sample that is referred
    referred = _referred(fraction, priority[keep], w)
    gain = g / unit @ referred
    # a share is a ratio: delta method
    a = referred - gain if normalize else referred
    noise = (g - explained) / unit
    V, df = V_row, df = _spread_over_rows(a * noise[:, None], rows.groups)
    if random_raters(rows.labels, raters) is not None:
        V, df = _over_raters(rows, w, a / unit, explained, V, df)
    interval = student_ends(gain, V, df, confidence_level)
    if not normalize:
        few = _ends_of_few(rows, referred, explained, confidence_level)
        few = over_raters(gain, few, Spread(V, df, cast(Any, (V_row,))), confidence_level)
        interval = np.where(np.isnan(few), interval, few)
    return ReferralCurve(
        fraction,
        v / of_all @ referred,
        gain,
        np.sqrt(V),
        interval,
        rule=rule if isinstance(rule, str) else "given priorities",
        normalize=normalize,
        confidence_level=confidence_level,
        raters=kind_of_raters(rows.labels, raters),
    )


def _priorities(rule, distribution: Distribution) -> NDArray:
    """What decides who is referred first, shape (n,): the larger, the earlier."""
    if isinstance(rule, str):
        if rule not in _RULES:
            raise ValueError(
                f"rule must be one of {list(_RULES)} or an array of priorities, got {rule!r}."
            )
        return _RULES[rule](distribution)
    priority = as_floats(rule, "rule")
    if priority.shape != (len(distribution),):
        raise ValueError(
            f"rule must hold one priority per sample, shape ({len(distribution)},), "
            f"got {priority.shape}."
        )
    if not np.isfinite(priority).all():
        raise ValueError(
            "rule contains NaN or infinite priorities; give every sample a finite one."
        )
    return priority


def _gains(rows: Rows) -> tuple[Floats, Floats]:
    """What one more label of each row gains: expected, and by an unbiased estimate; both (n,)."""
    if not len(rows):
        raise ValueError(
            "No sample of y with a positive weight has two raters or more, so the gain cannot be "
            "measured; see second_opinion_value for the expected one."
        )
    expected = second_opinion_value(rows.distribution)
    # zero, but for rounding
    if expected.max() < 1e-28:
        raise ValueError(
            "No label moves this prediction, which holds class probabilities without a "
            "distribution around them; pass that of AlphaCalibration, say, or of an ensemble."
        )
    return expected, _realised_gain(rows)


def _realised_gain(rows: Rows) -> Floats:
    """The unbiased estimate of what one more label of each sample gains, (n,)."""
    # a label does not move a point mass
    now = Rows(rows.labels, PointMass.of_checked(rows.distribution.mean()))
    return now.each(posterior_losses) - rows.each(posterior_losses)


def _referred(fraction, priority, w):
    """The share of each sample, 0 to 1, that is referred at each fraction, (n, m).

    Samples of one priority are referred alike.
    """
    _, group = np.unique(-priority, return_inverse=True)
    size = np.bincount(group, weights=w)
    before = np.cumsum(size) - size
    share = np.clip((fraction - before[:, None]) / size[:, None], 0.0, 1.0)
    share[:, -1] = 1.0
    return share[group]


def _over_raters(
    rows: Rows, w: Floats, a: Floats, explained: Floats, V: Floats, df: Floats
) -> tuple[Floats, Floats]:
    """The variances of ``Σ_i a_i (w_i gain_i − explained_i)`` over samples and raters, a (n, m)."""
    y = cast(Annotations, rows.labels)
    panel = told_panel(y, rows.w, 2)
    V, df = V.copy(), df.copy()
    # points whose values without each label are in memory at a time
    step = max(1, _VALUES // len(y.rater))
    for start in range(0, len(V), step):
        some = slice(start, start + step)

        def terms(part: Rows, at: NDArray, some: slice = some) -> tuple[Floats, Floats]:
            noise = w[at] * _realised_gain(part) - explained[at]
            return a[at, some] * noise[:, None], w[at]

        spread = spread_over_raters(terms, rows, panel, V[some], df[some], 2)
        varies = V[some] > 0
        V[some] = np.where(varies, spread.variance, V[some])
        df[some] = np.where(varies, spread.df, df[some])
    return V, df


def _ends_of_few(rows: Rows, referred: Floats, explained: Floats, level: float) -> Floats:
    """Ends of each gain where most of the samples that are referred are alike, else NaN."""
    w = rows.weight / rows.weight.sum()

    def values(part: Rows, at: NDArray) -> Floats:
        noise = _realised_gain(part) - (explained / w)[at]
        return np.column_stack([noise, referred[at]])

    noise = values(rows, np.arange(len(rows)))[:, 0]
    possible, p = possible_terms(values, rows, 2)
    found = np.full((referred.shape[1], 2), np.nan)
    for j, share in enumerate(referred.T):
        used = np.flatnonzero(share)
        W = (w * share)[used]
        if len(used):
            alike = possible[..., 0], p * possible[0, :, [1 + j]].T, rows.take(used)
            few = ends_of_few(W * [np.ones(len(W)), noise[used]], *alike, level, len(W) / 4)
            found[j] = W.sum() * few + explained @ share
    return found


def _spread_over_rows(parts: Floats, groups: NDArray | None) -> tuple[Floats, Floats]:
    """Variances of the sums of parts (n, m) of independent rows or groups, degrees of freedom."""
    if groups is not None:
        parts = np.stack([np.bincount(groups, part) for part in parts.T], axis=1)
    squares = parts**2
    V: Any = squares.sum(axis=0)
    fourth = (squares**2).sum(axis=0)
    df = np.divide(2 * V**2, fourth, out=np.ones_like(V), where=fourth > 0)
    return V, df
