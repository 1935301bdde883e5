"""What rules of asking for labels cost together with the decisions, and how surely.

They are replayed on samples whose labels are known. A rule asks for labels of a sample in random
order, and the labels that are left are the truth. What this costs on average over all orders
follows without drawing: the tree is walked backwards, and each label is as likely as there are such
labels left.
"""

from typing import NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from ..._rows import PredictionLike, Rows, read_rows
from ..._utils.arrays import Floats, Indices, Mask, row_units
from ..._utils.checks import as_floats, checked
from ..._utils.costs import bayes_columns, check_cost_matrix, of_decisions, of_rows
from ..._utils.label_tree import (
    Level,
    Tree,
    expected,
    grow,
    label_levels,
    optimal_stopping,
    rows_at_a_time,
)
from ..._utils.results import DataFrame, fields, frame_of, result
from ..._utils.simplex import entropy
from ..._utils.types import ArrayLike, Groups, LabelsLike, Raters, Seed, Weights
from ...distributions import second_opinion_value
from .means import intervals_of_means
from .two_way import kind_of_raters

# parts of the samples, of which each gets the number and the threshold that are best on the others
_FOLDS = 5
_NAMES = ["optimal stopping", "best fixed number", "entropy, best threshold"]
# thresholds of the entropy rule, in units of log K
_SHARES = np.linspace(0, 1, 41) ** 2


class Replayed(NamedTuple):
    """Means over all orders of the labels, of each sample under every rule.

    Attributes
    ----------
    policy, fixed, by_entropy : ndarray of shape (2, m, number of rules)
        Cost of the decision, and number of labels. For the policies that are optimal at each of the
        prices; for 0, 1, … labels; for thresholds of the entropy.
    """

    policy: Floats
    fixed: Floats
    by_entropy: Floats


def replay(
    rows: Rows, counts: Indices, at: Indices, C: Floats, prices: Floats, horizon: int
) -> Replayed:
    """Replay every rule on samples `at` of rows, which have labels counts (m, K).

    Every sample has more than `horizon` labels, or known probabilities. The order of `at` is
    ascending. Costs C are (K, D), or one matrix a row, (n, K, D).
    """
    levels = label_levels(rows.z.shape[1], horizon)
    size = max(1, rows_at_a_time(levels) // 4)
    parts = []
    for start in range(0, len(at), size):
        some = slice(start, start + size)
        row, own = np.unique(at[some], return_inverse=True)
        costs = of_rows(C, row)
        tree = grow(levels, rows.distribution[row], costs)
        left = [_left(counts[some], level, rows.labels.known) for level in levels]
        parts.append(_of_block(tree, costs, left, own, prices))
    return Replayed._make(np.concatenate(of, axis=1) for of in zip(*parts, strict=True))


def _left(counts: Indices, level: Level, known: bool) -> Floats:
    """The share of each class among the labels that are left in every state, (S, m, K)."""
    taken = level.counts[:, None]
    if known:
        return counts * np.ones(taken.shape)
    n = counts.sum(axis=1, keepdims=True) - taken.sum(axis=2, keepdims=True)
    return np.maximum(counts - taken, 0) / n


def _of_block(tree: Tree, C: Floats, left: list[Floats], own: Indices, prices: Floats) -> list:
    """The fields of `Replayed` for some samples, which are `own` (m,) of the tree."""
    # cost of deciding in every state, (S, m)
    cost = []
    for z, p in zip(tree.z, left, strict=True):
        charged = of_decisions(bayes_columns(z, C), C)[:, own]
        cost.append(np.einsum("smk,smk->sm", p, charged))
    before = tree.z[:-1]
    doubt = [entropy(z) / np.log(z.shape[2]) for z in before]
    # whether a rule asks for one more label, in every state
    asks = [
        [optimal_stopping(tree, price, C).ask for price in prices],
        [[np.full(d.shape, h < m) for h, d in enumerate(doubt)] for m in range(len(tree.z))],
        [[d > share for d in doubt] for share in _SHARES],
    ]

    def of(ask: list[Mask]) -> tuple[Floats, Floats]:
        V = cost[-1]
        labels = np.zeros_like(V)
        walk = zip(tree.levels, left, cost, ask, strict=False)
        for level, p, stop, more in reversed(list(walk)):
            V = np.where(more[:, own], expected(p, V, level), stop)
            labels = np.where(more[:, own], 1 + expected(p, labels, level), 0.0)
        return V[0], labels[0]

    return [np.transpose([of(ask) for ask in rules], (1, 2, 0)) for rules in asks]


@result
class PolicyCurve(NamedTuple):
    """What `policy_curve` returns, of three rules at each price.

    Attributes
    ----------
    prices : ndarray of shape (n_prices,)
        Cost of a label.
    names : list of str
        The rules: optimal stopping, the best fixed number of labels, and the best threshold of the
        entropy.
    total_cost : ndarray of shape (3, n_prices)
        Of decision and labels, mean over samples.
    interval : ndarray of shape (3, n_prices, 2)
    difference : ndarray of shape (3, n_prices)
        Total cost minus that of the first rule.
    difference_interval : ndarray of shape (3, n_prices, 2)
    n_labels : ndarray of shape (3, n_prices)
        Mean number of labels of a sample.
    fixed_cost : ndarray of shape (horizon + 1, n_prices)
        Total cost of 0, 1, … labels for every sample.
    confidence_level : float
    raters : {"random", "fixed"}
        Whether intervals are for new raters, or for these.
    """

    prices: Floats
    names: list[str]
    total_cost: Floats
    interval: Floats
    difference: Floats
    difference_interval: Floats
    n_labels: Floats
    fixed_cost: Floats
    confidence_level: float
    raters: str

    def to_frame(self) -> "DataFrame":
        """A pandas DataFrame, one row for each rule and price."""
        index = {"rule": self.names, "price": self.prices}
        return frame_of(index, **fields(self, "total_cost", "n_labels"))


@checked
def policy_curve(
    y: LabelsLike,
    prediction: PredictionLike,
    cost_matrix: ArrayLike,
    *,
    prices: ArrayLike | None = None,
    horizon: int = 4,
    sample_weight: Weights = None,
    groups: Groups = None,
    raters: Raters = None,
    confidence_level: float = 0.95,
    random_state: Seed = None,
) -> PolicyCurve:
    """Costs of labels and decisions together against the cost of a label, with intervals.

    The labels of samples with several raters are replayed: a rule asks for some, and the others are
    the truth. Costs are means over all orders of the labels.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes; samples with more than `horizon` raters count.
    prediction : Distribution, or array-like of shape (n_samples, n_classes)
    cost_matrix : array-like or frame of shape (n_classes, n_decisions)
        As in `bayes_decision`, also one per sample.
    prices : array-like of shape (n_prices,), optional
        Costs of a label, ascending. None: 25 from 0 to what one label is worth to one sample in
        twenty.
    horizon : int, default=4
        Most labels that a rule may ask for.
    sample_weight, groups, raters, confidence_level
        As in `confidence_interval`.
    random_state : int, RandomState instance or None, default=None
        Decides which samples are tuned on together.

    Returns
    -------
    PolicyCurve

    Raises
    ------
    ValueError
        No sample with more than `horizon` raters, prices that are negative or not ascending, costs
        of another number of samples, a distribution to which one label is worth nothing where
        `prices` is None, and whatever `label_policy` and `check_counts` refuse. Where raters
        are random: labels without raters, fewer than three raters, and a rater without whom no
        sample has more than `horizon` labels.

    Warns
    -----
    UserWarning
        Fewer than five raters where they are random.

    Notes
    -----
    Labels come one after the other, and after each a rule says whether to ask for the next or to
    decide. The labels that were not asked for say what the decision costs. Three rules are compared
    at each price, by the mean over all orders of the labels. Optimal stopping is `label_policy`,
    which knows only the price and the distribution of these samples. The second rule is the best
    fixed number of labels per sample. The third asks on while the entropy is above the best
    threshold. Number and threshold are tuned on other samples: each fifth of the samples, or of
    their groups, gets those of least total cost on the other four. So the two rules learn from
    replayed labels, and optimal stopping from none.

    **Intervals.** A sample is one unit, or a group of samples. Intervals are Student's;
    where fewer than 20 are apart from the others, those of `paired_difference` for few samples.
    Where one mistake costs twenty times another they may be too narrow: `risk_bound` holds there.

    **Raters.** With `Annotations` they hold for new samples and new raters. The variance is
    ``rows + max(raters − cells, 0)``, as in `confidence_interval` for three raters. The last two
    are jackknives of the total cost of a sample, without each rater and without each single label.
    The rules stay as they were chosen. A sample is left out where no more than `horizon` labels are
    left.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> from sklearn_lhcal.distributions import Dirichlet
    >>> data = make_label_histograms(200, n_raters=6, total=2.0, random_state=0)
    >>> before = Dirichlet.from_mean(data.prediction, data.total)
    >>> curve = policy_curve(
    ...     data.counts, before, 1 - np.eye(3), horizon=2, prices=[0.0, 0.1], random_state=0
    ... )
    >>> curve.total_cost.shape
    (3, 2)
    """
    rows = read_rows(y, prediction, sample_weight, groups)
    costs = check_cost_matrix(cost_matrix, a_row=True)
    C = costs.for_classes(rows.classes, rows.z.shape[1]).C
    costs.check_rows(len(rows))
    used = np.flatnonzero(rows.contributes(horizon + 1))
    if not used.size:
        raise ValueError(
            f"No sample of y with a positive weight has more than {horizon} raters: give a "
            "smaller horizon, or samples with more labels."
        )
    rows = rows.take(used)
    C = of_rows(C, used)
    c = _prices(rows, C, prices)
    horizon, J, n = int(horizon), len(c), len(rows)
    found = replay(rows, rows.labels.counts, np.arange(n), C, c, horizon)
    w = rows.weight / rows.weight.sum()
    units = row_units(rows.groups, n)
    fold = check_random_state(random_state).permutation(units.max() + 1)[units] % _FOLDS
    elsewhere = w * (fold != np.arange(fold.max() + 1)[:, None])
    # of the rules, for each price and sample, the cheapest on other samples; of the policies, the
    # one that is made for the price
    chosen = [np.tile(np.arange(J)[:, None], n)]
    for cost, labels in found[1:]:
        each = [elsewhere @ (cost + price * labels) for price in c]
        chosen.append(np.array([on_others.argmin(axis=1)[fold] for on_others in each]))

    def of_chosen(found: Replayed, at: Indices) -> Floats:
        """Costs and numbers of labels, (2, m, 3, J)."""
        each = [
            np.take_along_axis(of, own[None, :, at].swapaxes(1, 2), 2)
            for of, own in zip(found, chosen, strict=True)
        ]
        return np.stack(each, axis=2)

    def values(part: Rows, at: Indices) -> Floats:
        # costs, and what they are above those of the first rule
        cost, labels = of_chosen(replay(rows, part.labels.counts, at, C, c, horizon), at)
        total = cost + c * labels
        return np.stack([total, total - total[:, :1]], axis=1).reshape(len(at), -1)

    flat, ends = intervals_of_means(values, rows, raters, confidence_level, horizon + 1)
    mean = flat.reshape(2, 3, J)
    ends = ends.reshape(2, 3, J, 2)
    n_labels = np.tensordot(w, of_chosen(found, np.arange(n))[1], 1)
    cost, labels = found.fixed
    fixed_cost = (w @ cost)[:, None] + (w @ labels)[:, None] * c
    options = confidence_level, kind_of_raters(rows.labels, raters)
    return PolicyCurve(
        c, _NAMES, mean[0], ends[0], mean[1], ends[1], n_labels, fixed_cost, *options
    )


def _prices(rows: Rows, C: Floats, prices) -> Floats:
    """The prices given, checked; else up to what one label is worth to one sample in twenty."""
    if prices is not None:
        c = as_floats(prices, "prices")
        if c.ndim != 1 or not c.size or not np.isfinite(c).all() or (c < 0).any():
            raise ValueError("prices must be finite numbers of at least 0, in a 1-D array.")
        if (np.diff(c) <= 0).any():
            raise ValueError("prices must be ascending.")
        return c
    value = second_opinion_value(rows.distribution, C)
    rounding = 1e-12 * np.abs(C).max()
    top = np.quantile(value, 0.95)
    if top <= rounding:
        top = value.max()
    if top <= rounding:
        raise ValueError(
            "One label changes no decision of this prediction: give prices, if several labels may. "
            "Class probabilities without a distribution around them learn from no label."
        )
    return np.linspace(0, top, 25)
