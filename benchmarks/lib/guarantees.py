"""Do coverage guarantees and risk limits hold? Resplits with labels drawn anew.

Each resplit draws 500 calibration samples of a pool, and labels for them from the distribution of
their sample: 1 or 3 a sample, or its probabilities themselves ("all"). The rest of the pool tells,
without noise, what new samples would have. Beside it: the same with the majority of 11 labels. The
pools are simulated samples with an overconfident classifier, and with a random forest, whose
probabilities are tied. Last, libraries that do a part of it, where they are installed.
"""

import numpy as np
from scipy.stats import binom
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from sklearn_lhcal.calibration import (
    ConformalClassifier,
    PrecomputedClassifier,
    RiskControlledDecision,
)
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.label_histogram import KnownProbabilities

N = 500
MAJORITY_OF = 11
VOTES = (1, 3, "all", "majority")
COSTS = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 1.0], [9.0, 2.0, 0.0]])


def simulated(n=3000):
    """(truth, prediction) of simulated samples, both (n, 3)."""
    data = make_label_histograms(n, 3, 1, total=6.0, overconfidence=2.0, random_state=0)
    return data.proba, data.prediction


def ties(n=3000):
    """The same with a random forest of 10 trees, fitted on 500 other samples."""
    data = make_label_histograms(n + 500, 3, 1, total=6.0, random_state=0)
    forest = RandomForestClassifier(10, random_state=0)
    forest.fit(data.X[n:], data.counts[n:].argmax(axis=1))
    return data.proba[:n], forest.predict_proba(data.X[:n])


def drawn(Q, votes, rng):
    """Labels of samples with the distributions Q."""
    if votes == "all":
        return KnownProbabilities(Q)
    if votes == "majority":
        counts = rng.multinomial(MAJORITY_OF, Q)
        # ties of the vote by lot
        return np.eye(Q.shape[1], dtype=int)[(counts + rng.random(counts.shape)).argmax(axis=1)]
    return rng.multinomial(votes, Q)


def resplits(pool, model, votes, n_resplits, measure):
    """What `measure(fitted, Q, z)` says of the rest of the pool, (n_resplits, …)."""
    Q, z = pool
    found = []
    for seed in range(n_resplits):
        rng = np.random.default_rng(seed)
        rows = rng.permutation(len(Q))
        calibration, test = rows[:N], rows[N:]
        fitted = model.fit(z[calibration], drawn(Q[calibration], votes, rng))
        found.append(measure(fitted, Q[test], z[test]))
    return np.array(found)


def coverage(fitted, Q, z):
    """Share of the labels of new samples in their sets, and the mean size of the sets."""
    sets = fitted.predict_set(z)
    return (Q * sets).sum(axis=1).mean(), sets.sum(axis=1).mean()


def cost(fitted, Q, z):
    """Mean cost of new samples, share decided, mean cost of those decided."""
    C = fitted.cost_matrix_
    columns = np.searchsorted(fitted.decisions_, fitted.decide(z))
    each = np.einsum("nk,nk->n", Q, C.T[columns])
    decided = fitted.accepted(z)
    own = each[decided].mean() if decided.any() else 0.0
    return each.mean(), decided.mean(), own


def with_error(values):
    """Mean ± standard error."""
    return f"{values.mean():.4f} ± {values.std(ddof=1) / np.sqrt(len(values)):.4f}"


def report_sets(name, pool, n_resplits):
    """Labels covered by sets."""
    for score in ("lac", "aps"):
        model = ConformalClassifier(
            PrecomputedClassifier("proba"), conformity_score=score, confidence_level=0.9
        )
        for votes in VOTES:
            found = resplits(pool, model, votes, n_resplits, coverage)
            size = found[:, 1].mean()
            print(f"  {name:10} {score} {votes!s:9} {with_error(found[:, 0])}   {size:.2f} classes")


def report_costs(pool, n_resplits):
    """Costs of decisions against their budgets."""
    refer = np.column_stack([COSTS, np.full(3, 0.3)])
    tested = {"method": "learn_then_test", "confidence_level": 0.9}
    models = {
        "conformal, referral free": (COSTS, 0.3, {}),
        "conformal, referral .3": (refer, 0.45, {"referral": 3}),
        "tested, referral .3": (refer, 0.45, {"referral": 3, **tested}),
        "tested, errors of the decided": (1 - np.eye(3), 0.25, {"target": "decided", **tested}),
    }
    for name, (C, budget, options) in models.items():
        model = RiskControlledDecision(PrecomputedClassifier("proba"), C, budget=budget, **options)
        bounded = 2 if options.get("target") == "decided" else 0
        for votes in VOTES:
            found = resplits(pool, model, votes, n_resplits, cost)
            above = (found[:, bounded] > budget).mean()
            print(
                f"  {name:30} {votes!s:9} {with_error(found[:, bounded])} of {budget}   "
                f"above it {above:.3f}   decided {found[:, 1].mean():.3f}"
            )


def hoeffding_bentkus(pool, n_resplits):
    """Samples decided by "tested, referral 0.3" above, three labels, with another p-value.

    That of Hoeffding and Bentkus for the mean of ``(cost − c)·1{g < λ}`` on its range, by the same
    sequence of tests.
    """
    Q, z = pool
    c, budget, delta = 0.3, 0.45, 0.1
    best = (z @ COSTS).argmin(axis=1)
    g = (z @ COSTS).min(axis=1)
    low, high = -c, COSTS.max() - c
    null = (budget - c - low) / (high - low)
    decided = []
    for seed in range(n_resplits):
        rng = np.random.default_rng(seed)
        rows = rng.permutation(len(Q))
        calibration, test = rows[:N], rows[N:]
        mu = drawn(Q[calibration], 3, rng) / 3
        cost = np.einsum("nk,nk->n", mu, COSTS.T[best[calibration]])
        order = np.argsort(g[calibration])
        mean = np.append(0, np.cumsum((cost - c)[order])) / N
        r = np.minimum((mean - low) / (high - low), null)
        entropy = r * np.log(r / null) + (1 - r) * np.log((1 - r) / (1 - null))
        p = np.minimum(np.exp(-N * entropy), np.e * binom.cdf(np.ceil(N * r), N, null))
        failed = np.flatnonzero(p > delta)
        threshold = np.inf
        if len(failed):
            reached = failed[0] - 1
            threshold = -np.inf if reached < 0 else g[calibration][order][reached]
        decided.append((g[test] < threshold).mean())
    print(f"  Hoeffding-Bentkus in place of betting: decided {np.mean(decided):.3f}")


def mapie_sets(pool, n_resplits):
    """Labels covered by MAPIE's sets, calibrated on majorities."""
    try:
        from mapie.classification import SplitConformalClassifier
    except ImportError as error:
        print(f"  not run: {error}")
        return
    Q, z = pool
    # it tries the classifier on a sample of zeros, which are logits but no probabilities
    u = np.log(z)
    saved = FrozenEstimator(PrecomputedClassifier("logits").fit(u))
    covered = []
    for seed in range(n_resplits):
        rng = np.random.default_rng(seed)
        rows = rng.permutation(len(Q))
        calibration, test = rows[:N], rows[N:]
        y = drawn(Q[calibration], "majority", rng).argmax(axis=1)
        peer = SplitConformalClassifier(saved, confidence_level=0.9, prefit=True)
        peer.conformalize(u[calibration], y)
        _, sets = peer.predict_set(u[test])
        covered.append((Q[test] * sets[:, :, 0]).sum(axis=1).mean())
    print(f"  MAPIE, lac, majority of {MAJORITY_OF}: {with_error(np.array(covered))}")


def study(n_resplits: int, only: list[str]) -> None:
    pool = simulated()
    print(f"Labels covered at 0.9, {N} calibration samples, {n_resplits} resplits")
    report_sets("simulated", pool, n_resplits)
    report_sets("forest", ties(), n_resplits)
    mapie_sets(pool, n_resplits)
    print("Mean cost of a sample, and how often the mean over new samples is above the budget")
    report_costs(pool, n_resplits)
    hoeffding_bentkus(pool, n_resplits)
