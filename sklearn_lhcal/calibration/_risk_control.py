"""Decisions whose cost on new samples is bounded, conformally or by betting; the rest is referred.

Letters: g_i what the decision of sample i is expected to cost, C̄_i = Σ_k μ̂_ik C_k,d(i) what it
does cost; c the cost of a referral; μ̂, n and w_i as in `_guarantee`.
"""

from bisect import bisect_left
from dataclasses import KW_ONLY
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import logsumexp
from scipy.stats import binom
from sklearn.utils.validation import check_is_fitted

from .._rows import parameters
from .._utils.checks import check_samples, n_rows, warn
from .._utils.costs import (
    bayes_columns,
    check_cost_matrix,
    expected_cost,
    expected_costs,
    of_decisions,
)
from .._utils.types import CostsOfRows, Floats, Indices, Mask, NDArray, Samples
from ._guarantee import ROUNDING, HeldOut, _Guarantee, unit_shares

# Where chains of tests start, in units of the budget.
_STARTS = np.array([0.02, 0.1, 0.3, 1])
# Bets, in units of the largest that cannot ruin.
_BETS = np.array([0.2, 0.7])
# What the decision of referral is called where decisions have names and it is none of them.
_REFER = "refer"


class ReferralCosts(NamedTuple):
    """Costs with one decision for referral.

    Attributes
    ----------
    C : ndarray of shape (K, D), or (n, K, D) for costs of each row
        With the column of referral, the last where the user's matrix has none.
    decisions : ndarray of shape (D,)
        Names of the columns, or their numbers.
    column : int
        Of referral.
    """

    C: Floats
    decisions: NDArray
    column: int

    @property
    def referral(self) -> float:
        """c, what a referral costs."""
        return float(self.C[..., self.column].flat[0])

    @property
    def own(self) -> Indices:
        """Columns of the decisions that the machine takes itself."""
        return np.delete(np.arange(self.C.shape[-1]), self.column)


class CostSource(NamedTuple):
    """Where costs come from: one matrix, or a callable of X.

    Attributes
    ----------
    given : array-like, frame or callable
        As the user gave it.
    referral : int, str or None
        The column of referral; None where it is free and none of the user's.
    classes : ndarray of shape (K,)
        The order of the samples of C.
    """

    given: Any
    referral: int | str | None
    classes: NDArray

    def of_rows(self, X: Samples, n: int) -> ReferralCosts:
        """The costs of n samples, of which a callable may say others for each."""
        if not callable(self.given):
            if np.ndim(self.given) == 3:
                raise ValueError(
                    "cost_matrix must have shape (n_classes, n_decisions) here, one for all "
                    f"samples, got {np.shape(self.given)}; for costs of each give a callable of X."
                )
            return self._with_referral(check_cost_matrix(self.given))
        costs = check_cost_matrix(self.given(X), a_row=True)
        costs.check_rows(n)
        return self._with_referral(costs)

    def _with_referral(self, costs) -> ReferralCosts:
        """In the order of the classes, with a column of referral."""
        C, _, names = costs.for_classes(self.classes, len(self.classes), "the classifier")
        if self.referral is None and names is not None and _REFER in names.tolist():
            raise ValueError(
                f"cost_matrix has a decision {_REFER!r}, the name of a free referral: pass "
                f'referral="{_REFER}" where it is this one, or call it something else.'
            )
        if self.referral is None:
            C = np.concatenate([C, np.zeros((*C.shape[:-1], 1))], axis=-1)
            if names is not None:
                names = np.array([*names.tolist(), _REFER], dtype=object)
            column = C.shape[-1] - 1
        else:
            (column,) = costs.columns([self.referral])
        c = C[..., column]
        if np.ptp(c) > 0:
            raise ValueError(
                f"The referral, decision {self.referral!r}, must cost the same under all classes "
                f"and in all samples, got {np.unique(c)[:20].tolist()}."
            )
        if C.shape[-1] < 2:
            raise ValueError("cost_matrix must have a decision beside the referral.")
        if names is None:
            names = np.arange(C.shape[-1])
        return ReferralCosts(C, names, int(column))


def cost_thresholds(
    g: Floats, excess: Floats, most: Floats, units: Indices, slack: float
) -> Floats:
    """The largest λ_d with ``[Σ_i w_i (C̄_i − c)₊ 1{g_i < λ} + (B_d − c)₊]/(n + 1) ≤ budget − c``.

    Conformal risk control (Angelopoulos et al. 2024) of an excess that grows with λ. `most` holds
    the bounds ``(B_d − c)₊`` of the decisions, (D,), or those of the decisions of new samples,
    whose bound may depend on the sample; and `slack` is budget − c. −inf where no sample may be
    decided, inf where all may.
    """
    n = units.max() + 1
    order = np.argsort(g, kind="stable")
    total = np.cumsum((unit_shares(units) * excess)[order])
    limit = (n + 1) * slack - most
    first = np.searchsorted(total, limit + ROUNDING * np.maximum(1.0, most), side="right")
    thresholds = np.append(g[order], np.inf)[first]
    return np.where(limit < 0, -np.inf, thresholds)


def log_wealth(g: Floats, x: Floats, high: float, units: Indices, slack: float) -> Floats:
    """Wealth of a bet that ``X(λ) = Σ w_i x_i 1{g_i < λ} − slack`` of units has a mean below 0.

    For 0, 1, …, n samples decided in the order of g, in logs, shape (n + 1,). Where the mean is not
    below 0, wealth e^a or more has at most the probability e^−a (Markov). One bets a fixed share ν
    of one's wealth on every unit, ``Π (1 − ν X)``, and the wealth is divided among two such ν
    (diversified Kelly betting, Waudby-Smith and Ramdas 2024). It does not depend on the order of
    the samples. `high` is the largest X can be, above 0.
    """
    order = np.argsort(g, kind="stable")
    unit = units[order]
    own = (unit_shares(units) * x)[order]
    # X of the unit before this sample is decided, and after
    after = _cumulated(own, unit)
    before = after - own
    nu = _BETS / high
    gained = np.log1p(-nu * (after - slack)[:, None])
    gained -= np.log1p(-nu * (before - slack)[:, None])
    start = (units.max() + 1) * np.log1p(nu * slack)
    wealth = np.cumsum(np.vstack([start, gained]), axis=0)
    return logsumexp(wealth, axis=1) - np.log(len(nu))


@np.errstate(divide="ignore")
def log_tail(g: Floats, wrong: Mask, trials: int | Indices, q: float) -> Floats:
    """``−log P(Binomial(trials, q) ≤ mistakes)``: wealth where costs are 0 and 1, (n + 1,).

    For 0, 1, …, n samples decided in the order of g; `trials` are all samples, or the decided.
    """
    mistakes = np.append(0, np.cumsum(wrong[np.argsort(g, kind="stable")]))
    return -binom.logcdf(mistakes, trials, q)


def fewest_rows(gain: float, high: float, level: float, bets: Floats) -> float:
    """Of samples that all have X = −gain, as many as make a wealth of e^level; inf if none do."""
    if gain <= 0:
        return np.inf
    rate = np.log1p(bets * gain / high)
    shared = np.log(len(rate))
    enough = int(np.ceil((level + shared) / rate[-1]))
    return bisect_left(range(enough), level, key=lambda n: logsumexp(n * rate) - shared)


def _cumulated(values: Floats, unit: Indices) -> Floats:
    """Cumulative sums within each unit, in the order of the samples."""
    order = np.argsort(unit, kind="stable")
    total = np.cumsum(values[order])
    _, first, sizes = np.unique(unit[order], return_index=True, return_counts=True)
    base = np.repeat(total[first] - values[order][first], sizes)
    cumulated = np.empty_like(total)
    cumulated[order] = total - base
    return cumulated


def bet_threshold(g: Floats, wealth: Floats, starts: Floats, delta: float) -> float:
    """The largest λ that is reached from a start by tests that all reject, each at δ/number.

    Learn then Test (Angelopoulos et al. 2025) with fixed sequences: from each start upwards, one
    goes on as long as the mean is shown to be below 0. Samples with g < λ are decided.
    """
    values = np.sort(g, kind="stable")
    # how many samples are decided where λ lies between two values of g, and the λ at its upper end
    decided = np.append(np.flatnonzero(np.diff(values, prepend=-np.inf)), len(values))
    upper = np.append(values[decided[:-1]], np.inf)
    shown = wealth[decided] >= np.log(len(starts) / delta)
    reached = [-np.inf]
    for start in starts:
        first = int(np.searchsorted(upper, start))
        # the last λ is inf
        passed = int(np.append(shown[first:], False).argmin())
        if passed:
            reached.append(upper[first + passed - 1])
    return float(max(reached))


class Conformal(NamedTuple):
    """What was learnt by conformal risk control: the calibration rows, of which thresholds follow.

    Attributes
    ----------
    referral : float
        c.
    slack : float
        Budget − c.
    g, excess, units : ndarray of shape (n,)
        Expected cost, (C̄ − c)₊ and number of the unit of each calibration sample.
    """

    referral: float
    slack: float
    g: Floats
    excess: Floats
    units: Indices

    def thresholds(self, costs: ReferralCosts, d: Indices) -> Floats:
        """Of decisions d, whose worst cost is one more row; with costs a row, each of its own."""
        worst = of_decisions(d, costs.C).max(axis=1)
        most = np.maximum(worst - self.referral, 0.0)
        return cost_thresholds(self.g, self.excess, most, self.units, self.slack)


class Tested(NamedTuple):
    """What was learnt by betting: one threshold for all decisions.

    Attributes
    ----------
    referral : float
        c.
    threshold : float
    """

    referral: float
    threshold: float

    def thresholds(self, costs: ReferralCosts, d: Indices) -> Floats:
        """Of decisions d."""
        return np.full(len(d), self.threshold)


def _best(z: Floats, costs: ReferralCosts) -> tuple[Floats, Indices]:
    """What the best decision but referral is expected to cost, and its column, both (n,)."""
    d = costs.own[bayes_columns(z, costs.C[..., costs.own])]
    return expected_cost(z, d, costs.C), d


@parameters
class RiskControlledDecision(_Guarantee):
    """Around a classifier: decisions whose cost on new samples is bounded. The rest is referred.

    A sample gets the decision of least expected cost, ``g = min_d Σ_k z_k C_kd``, if g is below a
    threshold. Otherwise it is referred to somebody else. The threshold is learnt on samples that
    the classifier has not seen, with their labels as the truth.

    **What is guaranteed.**

    - "conformal": the mean cost of a new sample, referrals at their cost, is at most `budget`, on
      average over calibration sets and new samples drawn as these were (conformal risk control).
      The cost is that of the true distribution of labels, with one rater per sample or more. Each
      decision has its own threshold: what it can cost at worst counts as one more sample.
    - "learn_then_test": with a probability of at least `confidence_level` over calibration sets,
      the mean cost of new samples is at most `budget`. `target` says whether that is the mean over
      all samples or over the decided alone. Thresholds are tested by betting, upwards from some
      starts, which share the level: for the decided from four. For all samples from where nothing
      is decided; but where so many samples cannot show that to refer all keeps to the budget, from
      expected costs of half a referral and a whole one. So a budget below the cost of a referral
      can be kept. Where all mistakes cost alike, samples have one label each and no groups, and a
      referral is free or `target` "decided", the test is the exact one of a binomial share.

    **From how many samples on "learn_then_test" decides.** A test needs many samples even if no
    decision is wrong. With 0/1 costs, `target` "decided", level 0.95 and one label each, there are
    at least 42 samples for a budget of 0.1, and 437 for 0.01; mistakes multiply this. Where nothing
    is decided, a warning names this number, and about how many samples it would take at the costs
    of these; it is an error where the budget is below the cost of a referral. The largest cost
    counts: where it is 10,000 budgets, some 10,000 samples are needed before anything is decided.

    **Costs of each sample.** A callable makes them of X, and samples with their costs must be
    exchangeable. Each sample then has its own threshold: what its own decision can cost at worst
    counts as one more sample. "learn_then_test" needs the largest cost of all samples to come,
    which a callable does not tell, and takes one matrix.

    **When it fails.** The guarantee fails where labels are majorities: they hide the costs under
    the labels of the others. It fails where the number of raters depends on what they said. If
    raters were asked until they agreed, give only the first m labels, with m fixed beforehand. It
    fails where the classifier, its calibrator or the cost matrix was fitted on these samples, or
    new samples come from elsewhere. It does not hold for every kind of sample. Where few raters
    label all samples, the guarantee is for these raters.

    Where a referral costs something, total cost may rise or fall with the threshold, and the plain
    rule of conformal risk control violates the budget. So the bound is on the cost above that of a
    referral, ``(C̄ − c)₊``, which only rises. This is conservative, the more so the fewer labels a
    sample has.

    Parameters
    ----------
    estimator : classifier, default=None
        As in `ConformalClassifier`.
    cost_matrix : array-like, frame or callable, default=None
        Cost of each decision under each class, shape (n_classes, n_decisions), as in
        `sklearn_lhcal.metrics.bayes_decision`; samples in the order of the sorted classes. Classes
        with names need a DataFrame whose index holds them. None: 0/1 costs. A callable returns
        costs of each sample for X, shape (n_samples, n_classes, n_decisions).
    budget : float, default=0.1
        The bound, in the unit of the costs.
    method : {"conformal", "learn_then_test"}, default="conformal"
        What is guaranteed.
    referral : int, str or None, default=None
        The column of the cost matrix that refers, by number or name; it costs the same under all
        classes, and in all samples. None: a referral is free. It is then one more decision, the
        last, named "refer" where decisions have names.
    target : {"total", "decided"}, default="total"
        Of "learn_then_test": the mean cost of all samples, with referrals, or of the samples
        decided. "conformal" bounds that of all samples.
    confidence_level : float, default=0.95
        Of "learn_then_test".
    calibration_size, random_state
        As in `ConformalClassifier`.

    Attributes
    ----------
    thresholds_ : ndarray of shape (n_decisions,)
        A sample is decided where its g is below the threshold of its decision, in the unit of the
        costs. −inf: no sample is decided so. inf: all are. None where costs are those of each
        sample.
    guarantee_ : str
        What is guaranteed, with its numbers.
    automated_ : float
        Share of the calibration samples that are decided.
    cost_matrix_ : ndarray of shape (n_classes, n_decisions), or callable
        With the column of referral. A callable stays as it is; see `costs`.
    decisions_ : ndarray of shape (n_decisions,)
        What `decide` returns: column numbers, or names.
    referral_ : object
        Which of them refers.
    n_calibration_ : int
        Calibration samples, or groups where there are such.
    estimator_, classes_, n_features_in_, feature_names_in_
        As in `ConformalClassifier`.

    Warns
    -----
    UserWarning
        Where "learn_then_test" decides nothing.

    Raises
    ------
    ValueError
        A budget below the cost of a referral that the method cannot show to be kept, a referral
        that is not there or whose cost depends on the class or the sample, unknown words, costs for
        other classes than those of the labels, costs of each sample with "learn_then_test"; what
        `ConformalClassifier` refuses.

    References
    ----------
    Angelopoulos, Bates, Fisch, Lei and Schuster (2024), Conformal risk control. Angelopoulos,
    Bates, Candès, Jordan and Lei (2025), Learn then test. Waudby-Smith and Ramdas (2024),
    Estimating means of bounded random variables by betting.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> from sklearn_lhcal.label_histogram import KnownProbabilities
    >>> from sklearn_lhcal.metrics import decision_risk
    >>> data = make_label_histograms(5000, n_raters=(1, 3), overconfidence=2.0, random_state=0)
    >>> model = RiskControlledDecision("proba", [[0, 1, 2], [3, 0, 1], [9, 2, 0]], budget=0.3)
    >>> model = model.fit(data.prediction[:1000], data.counts[:1000])
    >>> model.guarantee_
    'E[cost of a sample, referrals at 0] <= 0.3, over 1000 calibration samples and a new one'
    >>> X, truth = data.prediction[1000:], KnownProbabilities(data.proba[1000:])
    >>> round(decision_risk(truth, model.decide(X), model.cost_matrix_), 1)
    0.3
    >>> float(model.accepted(X).mean().round(2))
    0.63
    """

    cost_matrix: CostsOfRows | None = None
    _: KW_ONLY
    budget: float = 0.1
    method: Literal["conformal", "learn_then_test"] = "conformal"
    referral: int | str | None = None
    target: Literal["total", "decided"] = "total"
    confidence_level: float = 0.95

    def decide(self, X: Samples) -> NDArray:
        """The decision for each sample, shape (n_samples,): column numbers, or a frame's names."""
        accepted, d, column = self._decided(X)
        return self.decisions_[np.where(accepted, d, column)]

    def accepted(self, X: Samples) -> Mask:
        """Whether each sample is decided, and not referred, shape (n_samples,)."""
        return self._decided(X)[0]

    def costs(self, X: Samples) -> Floats:
        """What each decision costs under each class, with the column of referral.

        Shape (n_classes, n_decisions), or (n_samples, n_classes, n_decisions) where costs are those
        of each sample. `sklearn_lhcal.metrics.decision_risk` takes both.
        """
        check_is_fitted(self, "estimator_")
        X = check_samples(X)
        costs = self._source.of_rows(X, n_rows(X))
        if len(costs.decisions) != len(self.decisions_):
            raise ValueError(
                f"cost_matrix(X) has {len(costs.decisions)} decisions with the referral, but had "
                f"{len(self.decisions_)} in the fit."
            )
        if costs.referral != self._rule.referral:
            raise ValueError(
                f"A referral costs {costs.referral:g} in cost_matrix(X), but cost "
                f"{self._rule.referral:g} in the fit, for which the guarantee holds."
            )
        return costs.C

    def expected_cost(self, X: Samples) -> Floats:
        """What the classifier expects each decision to cost, shape (n_samples, n_decisions)."""
        return expected_costs(self.predict_proba(X), self.costs(X))

    def _decided(self, X):
        """Which samples are decided, their best decisions, and the column of referral."""
        z = self.predict_proba(X)
        column = int(np.flatnonzero(self.decisions_ == self.referral_)[0])
        costs = ReferralCosts(self.costs(X), self.decisions_, column)
        g, d = _best(z, costs)
        return g < self._rule.thresholds(costs, d), d, column

    def _check(self, labels) -> CostSource:
        classes = labels.classes
        if self.method == "conformal" and self.target == "decided":
            raise ValueError(
                "The mean cost of the decided samples may rise or fall with the threshold, which "
                'the conformal method does not allow; use method="learn_then_test".'
            )
        given = self.cost_matrix
        if given is None:
            given = 1.0 - np.eye(len(classes))
        source = CostSource(given, self.referral, classes)
        if not callable(given):
            self._check_referral(source.of_rows(None, 0))
        elif self.method != "conformal":
            raise ValueError(
                f"method={self.method!r} needs the largest cost of all samples to come, which a "
                'callable does not tell; use method="conformal", or one cost matrix.'
            )
        return source

    def _check_referral(self, costs: ReferralCosts) -> None:
        if self.target == "decided" or self.budget >= costs.referral:
            return
        if self.method == "conformal" or self.budget <= costs.C.min():
            raise ValueError(
                f"A referral costs {costs.referral:g}, more than the budget of {self.budget:g}: "
                "even referring all samples would exceed it. Raise the budget; or, where decisions "
                'cost less, method="learn_then_test" may show that the whole does.'
            )

    def _learn(self, rows: HeldOut, checked: CostSource) -> dict:
        costs = checked.of_rows(rows.X, len(rows.z))
        self._check_referral(costs)
        g, d = _best(rows.z, costs)
        cost = expected_cost(rows.mu, d, costs.C)
        rule: Conformal | Tested
        if self.method == "learn_then_test":
            rule = self._tested(g, cost, rows, costs)
        else:
            c = costs.referral
            rule = Conformal(c, self.budget - c, g, np.maximum(cost - c, 0.0), rows.units)
        learnt = {
            "guarantee_": self._in_words(costs.referral, rows),
            "automated_": float((g < rule.thresholds(costs, d)).mean()),
            "cost_matrix_": checked.given,
            "thresholds_": None,
            "decisions_": costs.decisions,
            "referral_": costs.decisions[costs.column],
            "_source": checked,
            "_rule": rule,
        }
        if costs.C.ndim == 2:
            every = np.arange(len(costs.decisions))
            learnt |= {"cost_matrix_": costs.C, "thresholds_": rule.thresholds(costs, every)}
        return learnt

    def _tested(self, g, cost, rows: HeldOut, costs: ReferralCosts) -> Tested:
        """Bets on the mean of (cost − c)·1{decided} − (budget − c), or of (cost − budget)·…"""
        c = costs.referral
        C = costs.C[:, costs.own]
        if C.max() <= self.budget:
            # no test is needed
            return Tested(c, np.inf)
        total = self.target == "total"
        compared = self.budget
        if total:
            compared = c
            C = costs.C
        slack = self.budget - compared
        high = C.max() - self.budget
        wealth = log_wealth(g, cost - compared, high, rows.units, slack)
        bets = _BETS
        n = rows.units.max() + 1
        alike = np.isin(C, [0, C.max()]).all() and (c == 0 or not total)
        if alike and n == len(g) and (rows.n == 1).all():
            trials = n if total else np.arange(n + 1)
            wealth = log_tail(g, cost > 0, trials, self.budget / C.max())
            # what no mistake is worth: a bet that the first mistake ruins
            bets = np.ones(1)
        delta = 1 - self.confidence_level
        starts = self.budget * _STARTS
        if total:
            # what is known of referring all depends on no label
            alone = wealth[0] >= -np.log(delta)
            starts = np.unique([c / 2, c])
            if alone:
                starts = np.array([-np.inf])
        threshold = bet_threshold(g, wealth, starts, delta)
        if not (g < threshold).any():
            level = np.log(len(starts) / delta)
            fewest = fewest_rows(self.budget - C.min(), high, level, bets)
            if total:
                alone = fewest_rows(slack, high, -np.log(delta), bets)
                fewest = min(fewest, alone)
            times = level / max(wealth[1:].max(), 1e-9)
            self._say_undecided(c, n, fewest, n * times)
        return Tested(c, threshold)

    def _say_undecided(self, c: float, n: int, fewest: float, about: float) -> None:
        """Refuse, or warn of, n samples that decide nothing."""
        said = (
            f"The {n} calibration samples or groups do not show that decisions keep "
            f"to the budget of {self.budget:g}. "
            f"That takes {fewest:,} at least, even if no decision is wrong"
        )
        if n < about < 1e9:
            about = max(fewest, about)
            said += f"; at the costs of these samples, about {about:,.0f}"
        if self.target == "total" and self.budget < c:
            raise ValueError(f"{said}. To refer every sample costs {c:g}.")
        warn(f"{said}. Every sample is referred.")

    def _in_words(self, referral: float, rows: HeldOut) -> str:
        n = rows.units.max() + 1
        units = "samples" if n == len(rows.units) else "groups"
        what = f"cost of a sample, referrals at {referral:g}"
        if self.method == "conformal":
            return f"E[{what}] <= {self.budget:g}, over {n} calibration {units} and a new one"
        if self.target == "decided":
            what = "cost of a sample | decided"
        level = f"{self.confidence_level:g}"
        return f"P(E[{what}] <= {self.budget:g}) >= {level}, over {n} calibration {units}"
