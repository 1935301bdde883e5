"""What labels are worth in units of cost: when to stop asking, and which samples to ask about."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .._utils.checks import as_floats, checked
from .._utils.costs import Costs, bayes_columns, check_cost_matrix, of_rows
from .._utils.label_tree import (
    Level,
    Tree,
    expected,
    grow,
    label_levels,
    optimal_stopping,
    rows_at_a_time,
)
from .._utils.types import ArrayLike, Floats, Integers, Mask, NDArray
from ._base import Distribution


@dataclass(frozen=True, eq=False, repr=False)
class LabelPolicy:
    """When to ask for one more label of a sample, and when to decide: what `label_policy` returns.

    Labels so far are counts of shape (n, K), or 1-D labels, as in `Distribution.posterior`; None
    stands for no labels yet.

    Parameters
    ----------
    distribution : Distribution
        Before any label, a batch of n samples.
    price : float or ndarray of shape (n,)
        Of one label, in the unit of the costs.
    expected_cost : ndarray of shape (n,)
        Total cost to expect of a sample before any label: that of its labels and of its decision.
    expected_labels : ndarray of shape (n,)
        Number of labels to expect.
    _costs, _levels, _asks
        Costs in the order of the classes; all counts of 0, 1, … labels; and whether to ask there.

    Examples
    --------
    >>> from sklearn_lhcal.distributions import Dirichlet
    >>> policy = label_policy(Dirichlet([[1.0, 1.0]]), [[0, 1], [1, 0]], price=0.05, horizon=3)
    >>> policy.ask(), policy.ask([[1, 0]]), policy.ask([[1, 1]])
    (array([ True]), array([False]), array([ True]))
    """

    distribution: Distribution
    price: float | Floats
    expected_cost: Floats
    expected_labels: Floats
    # one matrix (K, D), or one a row (n, K, D)
    _costs: Costs
    _levels: list[Level]
    # (n_states, n) of each level but the last
    _asks: list[NDArray]

    @property
    def horizon(self) -> int:
        """Most labels of a sample."""
        return len(self._asks)

    def __len__(self) -> int:
        return len(self.distribution)

    def __repr__(self) -> str:
        return f"LabelPolicy(n={len(self)}, horizon={self.horizon})"

    def ask(self, counts: ArrayLike | None = None) -> Mask:
        """Whether to ask for one more label of each sample, given its labels so far, shape (n,)."""
        y = self._counts(counts).astype(int)
        number = y.sum(axis=1)
        ask = np.zeros(len(self), dtype=bool)
        for h, level in enumerate(self._levels[: self.horizon]):
            state = {tuple(c): s for s, c in enumerate(level.counts.tolist())}
            rows = np.flatnonzero(number == h)
            s = [state[tuple(c)] for c in y[rows].tolist()]
            ask[rows] = self._asks[h][s, rows]
        return ask

    def decide(self, counts: ArrayLike | None = None) -> NDArray:
        """The decision of least expected cost of each sample, given its labels so far, shape (n,).

        Column numbers of the cost matrix, or names of its columns.
        """
        z = self.distribution._posterior(self._counts(counts)).mean()
        return self._costs.names(bayes_columns(z, self._costs.C))

    def _counts(self, counts) -> Floats:
        if counts is None:
            return np.zeros((len(self), self.distribution.n_classes))
        return self.distribution._more_labels(counts)


@checked
def label_policy(
    distribution: Distribution, cost_matrix: ArrayLike, price: float | ArrayLike, horizon: int = 4
) -> LabelPolicy:
    """When to stop asking for labels of each sample, so that labels and decisions cost least.

    A sample costs `price` for each of its labels, and then what its decision costs. Under this
    distribution no policy with at most `horizon` labels per sample has a lower expected total cost.
    It is Wald's optimal stopping, by backward induction: ``V_h(c) = min(min_d z_c·C_d, price + Σ_k
    z_ck V_h+1(c + e_k))``. Here c holds the counts of the first h labels, and z_c the class
    probabilities after them.

    The policy is worth at least `second_opinion_value`, which is the value of one label. That is 0
    where one label cannot change the decision but two could.

    Parameters
    ----------
    distribution : Distribution
        A batch of n samples, that raters' labels update: a Dirichlet, a mixture or a
        logistic-normal distribution. Labels of a point mass are worth nothing. The labels of a
        sample are taken as independent given its class probabilities.
    cost_matrix : array-like or frame of shape (K, n_decisions), or array (n, K, n_decisions)
        Cost of each decision under each class, as in `sklearn_lhcal.metrics.bayes_decision`; for
        all samples, or for each. Costs count as they are.
    price : float or array-like of shape (n,)
        Cost of one label in the unit of the costs, at least 0; one for each sample, or one for all.
    horizon : int, default=4
        Most labels of a sample. The number of states is C(horizon + K, K): 165 for three classes
        and 8 labels, 1001 for ten and 4; time and memory grow with it.

    Returns
    -------
    LabelPolicy
        Its methods `ask` and `decide` take the labels so far. Its attributes `expected_cost` and
        `expected_labels`, shape (n,), say what it expects before any.

    Raises
    ------
    ValueError
        A negative price, a horizon below 1 or with more than 20,000 states, other classes or
        samples than those of the distribution.

    See Also
    --------
    allocate_labels : Where all labels are asked for at once, and their number is given.
    sklearn_lhcal.display.PolicyCurveDisplay : What it saves on real labels.

    References
    ----------
    Wald (1947), Sequential analysis. DeGroot (1970), Optimal statistical decisions, chapter 12.

    Examples
    --------
    >>> from sklearn_lhcal.distributions import Dirichlet
    >>> rows = Dirichlet([[1.0, 1.0], [9.0, 1.0], [30.0, 30.0]])
    >>> policy = label_policy(rows, [[0, 1], [1, 0]], price=0.05, horizon=3)
    >>> policy.expected_cost.round(3), policy.expected_labels.round(2)
    (array([0.383, 0.1  , 0.5  ]), array([1., 0., 0.]))
    """
    costs = costs_of(distribution, cost_matrix)
    c = as_floats(price, "price")
    if c.shape not in ((), (len(distribution),)) or not np.isfinite(c).all() or (c < 0).any():
        raise ValueError(f"price must be at least 0, one number or one a sample, got {price!r}.")
    levels = label_levels(distribution.n_classes, int(horizon))
    prices = np.broadcast_to(c, len(distribution))
    parts = [
        optimal_stopping(tree, prices[rows], of_rows(costs.C, rows))
        for rows, tree in _trees(distribution, levels, costs.C)
    ]
    cost = np.concatenate([p.cost for p in parts])
    labels = np.concatenate([p.labels for p in parts])
    asks = [np.concatenate(level, axis=1) for level in zip(*(p.ask for p in parts), strict=True)]
    price = float(c) if c.ndim == 0 else c
    return LabelPolicy(distribution, price, cost, labels, costs, levels, asks)


@checked
def allocate_labels(
    distribution: Distribution, cost_matrix: ArrayLike, budget: int, *, max_labels: int = 4
) -> Integers:
    """How many labels to ask for of each sample, all at once, where a number in all can be paid.

    m labels of a sample lower the expected cost of its decision by ``V_m = min_d z·C_d − E[min_d
    z_c·C_d]``. Labels go where a label gains most, ``(V_m' − V_m)/(m' − m)`` from m to the best m',
    until none are left or none gain anything. Steps may be of several labels: V_1 is 0 where one
    label cannot change the decision but two could. A step that no longer fits makes way for a
    shorter one. Where none has to, no other allocation of the budget is expected to be cheaper.

    Parameters
    ----------
    distribution, cost_matrix
        As in `label_policy`.
    budget : int
        Number of labels for all samples together, at least 0.
    max_labels : int, default=4
        Most labels of a sample, the horizon of `label_policy`.

    Returns
    -------
    n_labels : ndarray of shape (n,)
        Labels to ask for of each sample; their sum is at most `budget`. Of samples that gain alike
        the first is served.

    Raises
    ------
    ValueError
        A budget that is no integer of at least 0; what `label_policy` refuses.

    See Also
    --------
    label_policy : Where each label may be looked at before the next is asked for.

    Examples
    --------
    >>> from sklearn_lhcal.distributions import Dirichlet
    >>> rows = Dirichlet([[1.0, 1.0], [9.0, 1.0], [30.0, 30.0]])
    >>> allocate_labels(rows, [[0, 1], [1, 0]], budget=4)
    array([3, 0, 1])
    """
    if budget < 0:
        raise ValueError(f"budget must be an int of at least 0, got {budget!r}.")
    C = costs_of(distribution, cost_matrix).C
    levels = label_levels(distribution.n_classes, int(max_labels))
    costs = [_costs_after(tree) for _, tree in _trees(distribution, levels, C)]
    return _allocated(np.hstack(costs).T, int(budget), 1e-12 * np.abs(C).max())


def costs_of(distribution: Distribution, cost_matrix) -> Costs:
    """The costs in the order of the classes, for all samples or for each."""
    costs = check_cost_matrix(cost_matrix, a_row=True)
    costs.check_rows(len(distribution))
    return costs.for_classes(distribution.classes, distribution.n_classes, "the distribution")


def _trees(
    distribution: Distribution, levels: list[Level], C: Floats
) -> Iterator[tuple[slice, Tree]]:
    """Trees of blocks of samples."""
    size = rows_at_a_time(levels)
    for start in range(0, len(distribution), size):
        rows = slice(start, min(start + size, len(distribution)))
        yield rows, grow(levels, distribution[rows], of_rows(C, rows))


def _costs_after(tree: Tree) -> Floats:
    """Cost to expect of the decision after m labels, whatever they say, shape (n_levels, B)."""
    costs = []
    for m, V in enumerate(tree.stop):
        for level, z in reversed([*zip(tree.levels, tree.z, strict=True)][:m]):
            V = expected(z, V, level)
        costs.append(V[0])
    return np.array(costs)


def _allocated(costs: Floats, budget: int, least_gain: float) -> Integers:
    """Numbers of labels, from the costs to expect after 0, 1, … labels, (n, M + 1)."""
    labels = np.zeros(len(costs), dtype=np.int64)
    left = budget
    steps = (_best_step(i, V, 0, left, least_gain) for i, V in enumerate(costs))
    heap = [step for step in steps if step is not None]
    heapq.heapify(heap)
    while heap and left:
        _, i, m = heapq.heappop(heap)
        # a step that can no longer be paid makes way for a shorter one
        if m - labels[i] <= left:
            left -= m - labels[i]
            labels[i] = m
        step = _best_step(i, costs[i], labels[i], left, least_gain)
        if step is not None:
            heapq.heappush(heap, step)
    return labels


def _best_step(i: int, V: Floats, m: int, left: int, least_gain: float):
    """(−gain of a label, sample i, its labels afterwards) from m on; None where nothing gains."""
    most = min(left, len(V) - 1 - m)
    if most < 1:
        return None
    steps = np.arange(1, most + 1)
    gain = (V[m] - V[m + steps]) / steps
    best = int(gain.argmax())
    if gain[best] <= least_gain:
        return None
    return -gain[best], i, m + int(steps[best])
