"""How often intervals and bands hold the truth.

    python benchmarks/intervals.py readers|paired|bands|groups|risks|edges|monitor|proxy
        |subgroups|findings|guarantees|unseen
        [--draws N] [--only DESIGN ...]

"readers": 95 % intervals for new rows and new raters. K = 3. Rows have true log-odds
N((1, 0, −1), 1), readers tilts N(0, s²) of the log-odds of each class. The model knows the rows but
not the readers; it is 1.3 times too sure. Each draw has new rows and new readers. Coverage is of
the value of the metric for 200 000 rows with five readers each of their own; in brackets is that of
intervals over rows, which counts get, in the first fourth of the draws. "paired": the same of the
difference of two models.

"bands": 90 % bands of displays whose quantities are no metric. Two classes, one in five labels of
the second; readers call it by thresholds of standard deviation s in log-odds. The predictions of
200 rows stay; truths of rows, readers and labels are drawn anew. What bands should hold is the mean
of the estimates over all draws. In brackets are bands over rows alone.

"groups": 90 % intervals where rows of a group are alike. Groups of 10 rows have one prediction z.
"One label": all rows of a group have the same label, drawn from z; "one Q": two raters a row, from
a Q ~ Dirichlet(4·z) of the group. Both are calibrated. Coverage is of the true loss: 0, or that of
20 000 groups. "interval alone": the metric takes rows as independent, only the interval knows the
groups. In brackets standard errors.

"risks": 90 % intervals of `risk_gap` where one mistake costs five times the others. Scores of rows
are N(0, 1), those of the last class lower by 2 where it is rare; class probabilities of a row are
Dirichlet around their softmax, α0 = 10. The model is calibrated, or twice too sure. Coverage is of
the gap of 500 000 rows.

"edges": 95 % intervals, and tests, where models are good, classes rare and cases few; designs are
those of ``lib/edge_designs.py``. Of intervals the table shows how many hold the truth, among those
whose ends are numbers; how many have none; how many come with a warning; and their mean width. Of
tests how often they reject. Numbers of draws so far are kept in a file (``--kept``), from which a
run that was stopped goes on; ``--draws 0`` prints the table alone. It is written beside that file.

"monitor": how often and when `CalibrationMonitor` alarms; designs are in ``lib/monitoring.py``.

"proxy": 95 % intervals of `prediction_powered`. People label 200 samples at random of 5,000, a
judge labels all. Two classes; true log-odds u are N(−0.5, 1.5²), N(−5, 1.5²) where the class is
rare. The judge sees v = 1.2 (u + N(0, 0.7²)): its probability is σ(v), its label the likelier
class. The evaluated model says σ(1.3 (u + N(0, 1))). "Five readers" read all 200 samples, with
thresholds N(0, 0.5²) of log-odds; intervals are for new readers. "Patients" have four samples each,
whose u share half of its variance. The "better judge" errs by N(0, 0.5²). Coverage is of the value
of 2,000,000 samples with readers of their own. Beside it: how many standard errors (of the mean of
the draws) the estimate is off; the variance of people alone over that of the estimate, both over
draws; the median of effective rows over 200; the share of draws with a warning. The table is
written to ``results/coverage/proxy.csv``.

"subgroups": size, power and coverage of `subgroup_audit`; designs are in
``lib/subgroup_designs.py``.

"findings": 95 % intervals of `per_finding` that hold for 14 findings together; designs are those of
``lib/finding_designs.py``, which says what was to be reached before any draw. "Together": all 14
simultaneous intervals hold the truth. "Each": share of the other intervals that do. Widths are
means.

"guarantees": labels covered by prediction sets, and costs of decisions with a risk limit; designs
are in ``lib/guarantees.py``.

"unseen": 95 % intervals, tests and choices that the others leave out; designs are in
``lib/unseen_designs.py``.
"""

import argparse
import csv
import json
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from lib import (
    edge_designs,
    finding_designs,
    guarantees,
    monitoring,
    subgroup_designs,
    unseen_designs,
)
from lib.reader_studies import COMMON, DESIGNS, SURE, K, crossed, nested, softmax, study

from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.label_histogram import (
    Annotations,
    KnownProbabilities,
    adjudication_test,
    fleiss_kappa,
)
from sklearn_lhcal.metrics import (
    calibration_loss,
    confidence_interval,
    cost_curve,
    decision_curve,
    decision_risk,
    disagreement_calibration_loss,
    disagreement_squared_loss,
    epistemic_loss,
    expected_accuracy,
    expected_calibration_error,
    expected_squared_loss,
    gain_curve,
    irreducible_loss,
    kernel_calibration_error,
    label_log_loss,
    loss_decomposition,
    null_calibration_error,
    paired_difference,
    policy_curve,
    prediction_powered,
    rater_comparison,
    rater_table,
    referral_curve,
    risk_gap,
    study_size,
)

LEVEL = 0.9

# --- rows and readers ---


def kappa(y, prediction):
    return fleiss_kappa(y)


METRICS = {
    "accuracy": expected_accuracy,
    "L": expected_squared_loss,
    "IL": irreducible_loss,
    "L_phi": disagreement_squared_loss,
    "kappa": kappa,
    "EL": epistemic_loss,
    "CL": partial(calibration_loss, n_bins=5),
    "CL_phi": partial(disagreement_calibration_loss, n_bins=5),
}
# metrics that one reader a row is enough for, and those of pairs of readers
ONE = ("accuracy", "L", "CL")
PAIRS = ("IL", "L_phi", "kappa", "EL", "CL_phi")


def truths(s: float) -> dict:
    """The value of each metric where each row has readers of its own."""
    rng = np.random.default_rng(10**6)
    n = 200_000
    u = COMMON + rng.normal(size=(n, K))
    counts = np.zeros((n, K), dtype=int)
    for _ in range(5):
        p = softmax(u + s * rng.normal(size=(n, K)))
        label = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=K - 1)
        counts[np.arange(n), label] += 1
    return {name: metric(counts, softmax(SURE * u)) for name, metric in METRICS.items()}


def coverage_of_readers(
    design, n: int, R: int, s: float, runs: tuple[int, int], names, truth: dict
) -> dict:
    """Share of intervals that hold the truth, over rows and raters, and over rows: name → pair.

    `runs` are the draws of either.
    """
    hits = {name: np.zeros(2) for name in names}
    for seed in range(max(runs)):
        y, z = study(design, n, R, s, np.random.default_rng(seed))
        wanted = [k for k in range(2) if seed < runs[k]]
        for name in names:
            for k in wanted:
                how = {"raters": ("random", "fixed")[k], "random_state": seed}
                found = confidence_interval(METRICS[name], y, z, **how)
                hits[name][k] += found.low <= truth[name] <= found.high
    return {name: hit / runs for name, hit in hits.items()}


def readers(draws: int, only: list[str]) -> None:
    # three raters are few, two of five give most ratings, and some bins have few rows
    warnings.filterwarnings("ignore", "There are only|The 5 raters are worth")
    warnings.filterwarnings("ignore", "More than 5 %")
    runs = draws, max(draws // 4, 1)
    designs = [case for case in DESIGNS if not only or case[0].__name__ in only]
    truth = {s: truths(s) for s in {case[-1] for case in designs}}
    print(f"{runs[0]} draws, {runs[1]} over rows")
    print(f"{'':28}" + "".join(f"{name:>14}" for name in METRICS))
    for design, n, R, s in designs:
        of_pairs = () if design is nested else PAIRS
        names = [name for name in METRICS if name in ONE + of_pairs]
        found = coverage_of_readers(design, n, R, s, runs, names, truth[s])
        cells = ["-"] * len(METRICS)
        for k, name in enumerate(METRICS):
            if name in found:
                cells[k] = f"{found[name][0]:.3f} ({found[name][1]:.2f})"
        head = f"{design.__name__} {n} x {R}, s = {s}"
        print(f"{head:28}" + "".join(f"{c:>14}" for c in cells), flush=True)


def paired(runs: int, only: list[str]) -> None:
    """Coverage for the difference of two models."""
    print(f"paired differences, {runs} draws")
    for name in ("L", "EL"):
        for R, s in ((5, 0.3), (5, 0.8), (8, 0.3)):
            rng = np.random.default_rng(10**6)
            u = COMMON + rng.normal(size=(200_000, K))
            q = np.mean([softmax(u + s * rng.normal(size=u.shape)) for _ in range(30)], axis=0)
            a, b = ((softmax(sure * u) - q) ** 2 for sure in (SURE, 0.8))
            truth = a.sum(axis=1).mean() - b.sum(axis=1).mean()
            hits = np.zeros(2)
            for seed in range(runs):
                y, z = study(crossed, 200, R, s, np.random.default_rng(seed))
                other = z ** (0.8 / SURE)
                other /= other.sum(axis=1, keepdims=True)
                for k, raters in enumerate(("random", "fixed")):
                    found = paired_difference(
                        METRICS[name], y, z, other, raters=raters, random_state=seed
                    )
                    hits[k] += found.low <= truth <= found.high
            print(f"{name} crossed 200 x {R}, s = {s}: {hits[0] / runs:.3f} ({hits[1] / runs:.2f})")


# --- bands of curves ---

BAND_ROWS = 200
# of decisions, and of a label; how many are asked for at most
BAND_COSTS = np.array([[0.0, 1.0], [4.0, 0.0]])
PRICE = 0.05
HORIZON = 2
# readers, readings a row, s
BAND_DESIGNS = [
    (5, 5, 0.0),
    (8, 8, 0.0),
    (5, 5, 1.0),
    (8, 8, 1.0),
    (8, 3, 1.0),
    (5, 2, 1.0),
    (3, 3, 1.0),
]


def predictions(rng):
    """What is known of the rows beforehand."""
    p = rng.beta(1, 4, size=BAND_ROWS).clip(0.02, 0.98)
    return Dirichlet.from_mean(
        np.column_stack([1 - p, p]), np.exp(rng.normal(1, 1, size=BAND_ROWS))
    )


def read_by(d, R: int, m: int, s: float, rng) -> Annotations:
    """New rows of these predictions, each read by m of R new readers."""
    q = d.sample(1, random_state=rng)[0, :, 1].clip(1e-6, 1 - 1e-6)
    logit = np.log(q / (1 - q))[:, None] + s * rng.normal(size=R)
    votes = (rng.random_sample(logit.shape) < 1 / (1 + np.exp(-logit))).astype(float)
    votes[rng.random_sample(votes.shape).argsort(axis=1).argsort(axis=1) >= m] = np.nan
    return Annotations.from_matrix(votes, classes=[0, 1])


def second_opinion(d, y: Annotations, raters: str):
    """Gain where half of the rows are referred, and all of them; and the ends of the bands."""
    curve = referral_curve(y, d, raters=raters, n_points=3, confidence_level=LEVEL)
    return curve.realised_gain[1:], curve.interval[1:]


def gain_of_more_data(d, y: Annotations, raters: str):
    """Mean gain in accuracy in two bins, of saying 1 of every other row."""
    labels = y, np.zeros(BAND_ROWS, int), np.arange(BAND_ROWS) % 2
    p = d.mean()[:, 1]
    curve = gain_curve(None, p, labels=labels, raters=raters, n_bins=2, confidence_level=LEVEL)
    return curve.mean_gain, curve.interval


def price_of_a_label(d, y: Annotations, raters: str):
    """Total cost of optimal stopping, and that of the best number less it, at one price."""
    how = {"prices": [PRICE], "horizon": HORIZON, "confidence_level": LEVEL, "random_state": 0}
    curve = policy_curve(y, d, BAND_COSTS, raters=raters, **how)
    mean = np.array([curve.total_cost[0, 0], curve.difference[1, 0]])
    return mean, np.array([curve.interval[0, 0], curve.difference_interval[1, 0]])


def coverage_of_bands(show, d, design, draws: int):
    """Of bands over rows, and over rows and readers: (2, number of points)."""
    rng = np.random.RandomState(1)
    found: dict = {"fixed": [], "random": []}
    for _ in range(draws):
        y = read_by(d, *design, rng)
        for raters, shown in found.items():
            mean, interval = show(d, y, raters)
            shown.append([mean, *interval.T])
    shares = []
    for shown in found.values():
        mean, low, high = np.moveaxis(shown, 1, 0)
        truth = mean.mean(axis=0)
        shares.append(((low <= truth) & (truth <= high)).mean(axis=0))
    return shares


SHOWN = {
    second_opinion: "gain where half of the rows are referred, and all",
    gain_of_more_data: "mean gain in each of two bins",
    price_of_a_label: "cost of optimal stopping; that of the best number of labels less it",
}


def bands(draws: int, only: list[str]) -> None:
    warnings.filterwarnings("ignore", "There are only")
    d = predictions(np.random.RandomState(0))
    print(f"{draws} draws; over rows and readers (over rows)")
    for show, what in SHOWN.items():
        if only and show.__name__ not in only:
            continue
        print(f"{show.__name__}: {what}")
        for R, m, s in BAND_DESIGNS:
            if show is price_of_a_label and m <= HORIZON + 1:
                continue
            rows, both = coverage_of_bands(show, d, (R, m, s), draws)
            cells = [f"{b:.3f} ({a:.3f})" for a, b in zip(rows, both, strict=True)]
            head = f"{BAND_ROWS} x {R}, {m} a row, s = {s:.0f}"
            print(f"{head:28}" + "".join(f"{cell:>16}" for cell in cells), flush=True)


# --- rows of groups ---

SIZE = 10


def one_label(n_groups: int, rng, sharpness: float = 1.0):
    """Counts, predictions and groups of rows that all have the label of their group."""
    z = rng.dirichlet(np.full(3, 2.0), n_groups)
    label = (z.cumsum(axis=1) < rng.random((n_groups, 1))).sum(axis=1)
    groups = np.repeat(np.arange(n_groups), SIZE)
    u = z**sharpness
    return np.eye(3, dtype=int)[label][groups], (u / u.sum(axis=1, keepdims=True))[groups], groups


def one_Q(n_groups: int, rng, sharpness: float = 1.0):
    """The same with two raters a row, who draw from the Q of their group."""
    z = rng.dirichlet(np.full(3, 2.0), n_groups)
    gamma = np.maximum(rng.standard_gamma(4 * z), 1e-300)
    Q = gamma / gamma.sum(axis=1, keepdims=True)
    groups = np.repeat(np.arange(n_groups), SIZE)
    u = z**sharpness
    return rng.multinomial(2, Q[groups]), (u / u.sum(axis=1, keepdims=True))[groups], groups


def of_rows(metric):
    """The metric of independent rows, as a function that says nothing of itself."""
    return lambda y, z: metric(y, z)


def interval(metric, make=lambda z: z, **options):
    """An interval with groups; `make` turns means z into the prediction."""

    def of(y, z, groups):
        return confidence_interval(
            metric, y, make(z), groups=groups, confidence_level=LEVEL, random_state=0, **options
        )

    return of


def dirichlet(z):
    return Dirichlet.from_mean(z, 4.0)


BLOCKS = {"bandwidth": 0.1, "n_blocks": 20}
# interval, draw, sharpness, the metric where its true value is not 0
GROUP_STUDIES = {
    "calibration loss, one label": (interval(calibration_loss), one_label, 1.0, None),
    "  interval alone": (interval(of_rows(calibration_loss)), one_label, 1.0, None),
    "  predictions sharpened to z^1.5": (
        interval(calibration_loss, n_bins=5),
        one_label,
        1.5,
        partial(calibration_loss, n_bins=5),
    ),
    "calibration loss, one Q": (interval(calibration_loss), one_Q, 1.0, None),
    "  interval alone, one Q": (interval(of_rows(calibration_loss)), one_Q, 1.0, None),
    "expected squared loss, one label": (
        interval(expected_squared_loss),
        one_label,
        1.0,
        expected_squared_loss,
    ),
    "CL of disagreement, one Q": (
        interval(disagreement_calibration_loss, dirichlet, n_bins=5),
        one_Q,
        1.0,
        None,
    ),
}
SLOW_STUDIES = {
    "kernel, residual, one Q": (interval(kernel_calibration_error, **BLOCKS), one_Q, 1.0, None),
    "kernel, second order, one Q": (
        interval(kernel_calibration_error, bias_correction="second_order", **BLOCKS),
        one_Q,
        1.0,
        None,
    ),
}


def coverage_of_groups(of, draw, sharpness: float, metric, n_groups: int, runs: int) -> float:
    truth = 0.0
    if metric is not None:
        y, z, groups = draw(20_000, np.random.default_rng(10**6), sharpness)
        given = {"groups": groups} if sharpness != 1 else {}
        truth = metric(y, z, **given)
    covered = 0
    for seed in range(runs):
        found = of(*draw(n_groups, np.random.default_rng(seed), sharpness))
        covered += found.low <= truth <= found.high
    return covered / runs


def group_table(studies: dict, sizes: tuple, runs: int) -> None:
    print(f"\n{runs} runs{'':26}" + "".join(f"{f'{G} groups':>14}" for G in sizes))
    for name, how in studies.items():
        cells = []
        for G in sizes:
            share = coverage_of_groups(*how, G, runs)
            error = np.sqrt(max(share * (1 - share), 0.5 / runs) / runs)
            cells.append(f"{share:.2f} ({error:.2f})")
        print(f"{name:34}" + "".join(f"{c:>14}" for c in cells), flush=True)


def groups(draws: int, only: list[str]) -> None:
    # ten groups leave some bins to one of them
    warnings.filterwarnings("ignore", "More than 5 %")
    group_table(GROUP_STUDIES, (10, 20, 50, 100), draws)
    group_table(SLOW_STUDIES, (50,), max(draws // 3, 1))
    dropped = []
    for seed in range(min(draws, 50)):
        y, z, group = one_Q(100, np.random.default_rng(seed))
        dropped.append(loss_decomposition(y, z, groups=group).dropped_weight)
    print(f"\nWeight dropped, 100 groups, 15 bins a class: {np.mean(dropped):.1%}")


# --- risks ---

RISK_ROWS = (40, 100, 300, 1000)
ALIKE = 1 - np.eye(3)
DEAR = ALIKE.copy()
DEAR[2, 0] = 5.0
RISK_COSTS = {"alike": ALIKE, "one is 5": DEAR, "two classes": np.array([[0.0, 1.0], [5.0, 0.0]])}


def risk_study(n: int, K: int, rare: float, sure: float, raters: int, rng):
    """Counts, and the probabilities of a model; `rare` is what scores of the last class lack."""
    u = rng.normal(size=(n, K))
    u[:, -1] -= rare
    gamma = np.maximum(rng.standard_gamma(10 * softmax(u)), 1e-300)
    return rng.multinomial(raters, gamma / gamma.sum(axis=1, keepdims=True)), softmax(sure * u)


def risks(draws: int, only: list[str]) -> None:
    print(f"{draws} draws{'':33}" + "".join(f"{n:>8}" for n in RISK_ROWS))
    for name, C in RISK_COSTS.items():
        for raters in (1, 5):
            for rare in (0.0, 2.0):
                for sure in (1.0, 2.0):
                    how = (len(C), rare, sure, raters)
                    large = risk_study(500_000, *how, np.random.default_rng(10**6))
                    truth = risk_gap(*large, C)
                    cells = []
                    for n in RISK_ROWS:
                        held = 0
                        for seed in range(draws):
                            y, z = risk_study(n, *how, np.random.default_rng(seed))
                            level = {"confidence_level": 0.9, "random_state": 0}
                            found = confidence_interval(risk_gap, y, z, cost_matrix=C, **level)
                            held += found.low <= truth <= found.high
                        cells.append(f"{held / draws:8.3f}")
                    head = f"{name}, {raters} raters, rarer by {rare:.0f}, sure {sure:.0f}"
                    print(f"{head:42}" + "".join(cells), flush=True)


# --- edges ---

EDGE_METRICS = {
    "accuracy": expected_accuracy,
    "L": expected_squared_loss,
    "log loss": label_log_loss,
    "IL": irreducible_loss,
    "CL": calibration_loss,
    "kernel": partial(kernel_calibration_error, bandwidth=0.1),
}
KEPT = Path(__file__).parent / "results/coverage/edges.json"
# draws of each cell before the next one has its turn
TURN = 50


def danger(K: int):
    """Missing the last class costs 1 000, any other mistake 1."""
    C = 1.0 - np.eye(K)
    C[-1, :-1] = 1000.0
    return C


def edge_metric(name: str, z):
    """The metric, its prediction and its options."""
    if name == "risk":
        # a policy that acts on the last class where it is the most probable
        C = danger(z.shape[1])
        return decision_risk, z.argmax(axis=1), {"cost_matrix": C}
    return EDGE_METRICS[name], z, {}


def edge_truth(design, name: str) -> float:
    """Of many rows whose class probabilities are known; 0 of kernel errors of calibrated ones."""
    parts = [design(np.random.default_rng([10**6, i])) for i in range(400)]
    Q, z = (np.concatenate([getattr(part, what) for part in parts]) for what in ("Q", "z"))
    if name == "kernel":
        rows = np.random.default_rng(0).permutation(len(z))[:3000]
        Q, z = Q[rows], z[rows]
    metric, prediction, options = edge_metric(name, z)
    return float(metric(KnownProbabilities(Q), prediction, **options))


def interval_cell(design, name: str):
    """What one draw adds: holds the truth, has no ends, warns, its width."""
    truth = edge_truth(design, name)

    def one(seed: int):
        y, z, _, how = design(np.random.default_rng([seed, 1]))
        metric, prediction, options = edge_metric(name, z)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            how = (how or {}) | options | {"random_state": seed}
            found = confidence_interval(metric, y, prediction, **how)
        absent = not np.isfinite([found.low, found.high]).all()
        width = 0.0 if absent else found.high - found.low
        return [found.low <= truth <= found.high, absent, bool(caught), width]

    return one


def pair_cell(design, name: str):
    """The same of the difference between two models."""

    def values(labels, pair, of):
        metric, z, options = edge_metric(name, pair.study.z)
        _, other, _ = edge_metric(name, pair.other)
        return of(metric, labels, z, other, **options)

    def apart(metric, labels, z, other, **options):
        return metric(labels, z, **options) - metric(labels, other, **options)

    parts = [design(np.random.default_rng([10**6, i])) for i in range(1000)]
    Q, z, other = (
        np.concatenate(a)
        for a in zip(*((p.study.Q, p.study.z, p.other) for p in parts), strict=True)
    )
    everything = edge_designs.Pair(edge_designs.Study(None, z, Q), other)
    truth = float(values(KnownProbabilities(Q), everything, apart))

    def one(seed: int):
        pair = design(np.random.default_rng([seed, 1]))
        how = pair.study.how or {}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            of = partial(paired_difference, random_state=seed, **how)
            found = values(pair.study.y, pair, of)
        return [found.low <= truth <= found.high, False, bool(caught), found.high - found.low]

    return one


def comparison_cell(design, which: str):
    """The same of the difference between a model and one more reader."""
    parts = [design(np.random.default_rng([10**6, i])) for i in range(1000)]
    Q, z = (np.concatenate([getattr(part, what) for part in parts]) for what in ("Q", "z"))
    known = KnownProbabilities(Q)
    disagreement = irreducible_loss(known, None)
    truth = 1 - expected_accuracy(known, z) - disagreement
    if which == "loss_difference":
        truth = epistemic_loss(known, z) - disagreement

    def one(seed: int):
        y, z, *_ = design(np.random.default_rng([seed, 1]))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                found = getattr(rater_comparison(y, z, margin=0.1, random_state=seed), which)
            except ValueError:
                # the only pairs that differ are of one reader
                return [False, True, False, 0.0]
        absent = not np.isfinite([found.low, found.high]).all()
        width = 0.0 if absent else found.high - found.low
        return [found.low <= truth <= found.high, absent, bool(caught), width]

    return one


def on_curve(what: str, y, z, Q, how):
    """Estimate and ends of a point of a curve."""
    if what == "stopping":
        C = np.array([[0.0, 1.0], [20.0, 0.0]])
        before = Dirichlet.from_mean(z, np.full(len(z), 4.0))
        options = {"horizon": 2, "prices": [0.01], "random_state": 0}
        found = policy_curve(y, before, C, **options, **how)
        return found.total_cost[0, 0], found.interval[0, 0]
    if what == "referral":
        before = Dirichlet.from_mean(z, np.full(len(z), 4.0))
        found = referral_curve(y, before, n_points=6, normalize=False, **how)
        return found.realised_gain[1], found.interval[1]
    if what == "cost .9":
        found = cost_curve(y, z, **how)
        return found.risk[0, 90], found.interval[0, 90]
    t = float(what.split()[1])
    found = decision_curve(y, z, thresholds=[t], **how)
    if what.endswith("above all"):
        return found.difference[0, 0], found.difference_interval[0, 0]
    return found.net_benefit[0, 0], found.interval[0, 0]


ON_CURVES = ("benefit .02", "benefit .1", "benefit .1 above all", "cost .9", "stopping", "referral")


def curve_cell(design, what: str):
    """The same of a point of a curve."""
    parts = [design(np.random.default_rng([10**6, i])) for i in range(2000)]
    Q, z = (np.concatenate([getattr(part, a) for part in parts]) for a in ("Q", "z"))
    rng = np.random.default_rng(0)
    labels = rng.multinomial(3, Q) if what == "referral" else KnownProbabilities(Q)
    truth, _ = on_curve(what, labels, z, Q, {})

    def one(seed: int):
        y, z, Q, how = design(np.random.default_rng([seed, 1]))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _, (low, high) = on_curve(what, y, z, Q, how or {})
        absent = not np.isfinite([low, high]).all()
        return [low <= truth <= high, absent, bool(caught), 0.0 if absent else high - low]

    return one


def rejects(p_value):
    """The cell of a test that rejects; `p_value(rng)` and its level."""

    def one(seed: int):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            p, level = p_value(np.random.default_rng([seed, 1]))
        return [p <= level, np.isnan(p), False, 0.0]

    return one


def calibration_test(design, level: float):
    def p_value(rng):
        y, z = design(rng)[:2]
        return null_calibration_error(y, z, random_state=int(rng.integers(2**31))).p_value, level

    return rejects(p_value)


def refused(metric, y) -> float:
    """0 where the design is refused by name, as if a test rejected."""
    try:
        confidence_interval(metric, y, None, random_state=0)
    except ValueError as error:
        return 0.0 if "raters=" in str(error) else 1.0
    return 1.0


def plug_in_warns(seed: int):
    y, z, _, _ = edge_designs.common(200, 3, np.random.default_rng([seed, 1]), temperature=1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = confidence_interval(expected_calibration_error, y, z, random_state=0)
    return [found.low <= 0, False, any("biased" in str(w.message) for w in caught), 0.0]


def pilot(seed: int):
    """Whether a pilot with a class of 2 % says that its forecast is uncertain."""
    y, z, *_ = edge_designs.rare_read(150, 5, 0.02, 0.3, np.random.default_rng([seed, 1]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        study_size(expected_accuracy, y, z, half_width=0.02, n_raters=[8], random_state=0)
    return [False, False, bool(caught), 0.0]


def edge_cells() -> dict:
    """How each cell is drawn, by its name."""
    cells = {}
    for name, (design, metrics) in edge_designs.COVERED.items():
        for metric in metrics:
            cells[f"{name} | {metric}"] = partial(interval_cell, design, metric)
    for name, (design, metrics) in edge_designs.PAIRED.items():
        for metric in metrics:
            cells[f"{name} | {metric}"] = partial(pair_cell, design, metric)
    for name, design in edge_designs.COMPARED.items():
        for which in ("difference", "loss_difference"):
            cells[f"{name} | {which}"] = partial(comparison_cell, design, which)
    for name, design in edge_designs.CURVES.items():
        # labels of the groups are single
        for what in ON_CURVES[:4] if "groups" in name else ON_CURVES:
            cells[f"{name} | {what}"] = partial(curve_cell, design, what)
    for name, (design, level, _) in edge_designs.TESTED.items():
        cells[f"null test, {name} | rejects at {level}"] = partial(calibration_test, design, level)
    for what, adjudicated in (("135 x 10 and 15 x 2", False), ("all disagreements", True)):
        counts = partial(edge_designs.unequal_raters, 0.3 if adjudicated else 0.015)
        cells[f"adjudication, {what} | rejects at 0.05"] = partial(
            rejects,
            lambda rng, counts=counts, more=adjudicated: (
                adjudication_test(counts(rng, adjudicated=more)).p_value,
                0.05,
            ),
        )
    cells["star of 100 rows | fleiss_kappa refused"] = partial(
        rejects, lambda rng: (refused(fleiss_kappa, edge_designs.star(rng)), 0.5)
    )
    cells["six readers, one guesses 30 % | rejects at 0.05"] = partial(
        rejects, lambda rng: (rater_table(edge_designs.guesser(rng)).pvalue, 0.05)
    )
    cells["plug-in ECE of a calibrated model | holds 0, warns"] = lambda: plug_in_warns
    cells["pilot with a class of 2 % | study_size warns"] = lambda: pilot
    return cells


def edges(draws: int, only: list[str], kept: Path) -> None:
    done = json.loads(kept.read_text()) if kept.exists() else {}
    cells = {
        name: make
        for name, make in edge_cells().items()
        if not only or any(part in name for part in only)
    }
    made: dict = {}
    for until in range(TURN, draws + 1, TURN):
        for name, make in cells.items():
            so_far = done.get(name, [0, 0, 0, 0, 0.0])
            if so_far[0] >= until:
                continue
            if name not in made:
                made[name] = make()
            found = [[1, *made[name](seed)] for seed in range(int(so_far[0]), until)]
            done[name] = (np.array(so_far) + np.sum(found, axis=0)).tolist()
            kept.write_text(json.dumps(done, indent=1))
    table = [["design", "what", "draws", "share", "none", "warns", "width"]]
    for name in edge_cells():
        if name not in done:
            continue
        n, held, absent, warned, width = done[name]
        shares = f"{held / max(n - absent, 1):.3f}", f"{absent / n:.2f}", f"{warned / n:.2f}"
        mean_width = f"{width / max(n - absent, 1):.4g}" if width else ""
        table.append([*name.split(" | "), f"{n:.0f}", *shares, mean_width])
    for design, what, *numbers in table:
        print(f"{design:40}{what:24}" + "".join(f"{x:>9}" for x in numbers))
    with kept.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(table)


def monitor(streams: int, only: list[str]) -> None:
    """Alarms of `CalibrationMonitor`."""
    rows = []
    for row in monitoring.table(streams):
        rows.append(row)
        print(f"{row[0]:38}{row[1]:50}" + "".join(f"{x!s:>16}" for x in row[2:]), flush=True)
    with KEPT.with_name("monitor.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    print(monitoring.cost())


# --- cheap labels for many samples ---

PEOPLE, JUDGED = 200, 5000
RATE, LOSS = "rate of a class", "squared loss of a model"
# what, labels a sample, what the judge gives, how samples are drawn
PROXIES = [
    (RATE, 1, "labels", ""),
    (RATE, 1, "probabilities", ""),
    (RATE, 5, "labels", ""),
    (RATE, 5, "probabilities", ""),
    ("disagreement", 2, "probabilities", ""),
    ("disagreement", 5, "probabilities", ""),
    ("disagreement", 20, "probabilities", ""),
    ("disagreement", 20, "probabilities", "better judge"),
    (LOSS, 1, "probabilities", ""),
    ("epistemic loss", 3, "probabilities", ""),
    (RATE, 5, "probabilities", "five readers"),
    (RATE, 2, "probabilities", "patients"),
    (RATE, 1, "labels", "rare"),
]
OF_PROXIES = {
    RATE: expected_accuracy,
    LOSS: expected_squared_loss,
    "disagreement": irreducible_loss,
    "epistemic loss": epistemic_loss,
}


def two_classes(p):
    return np.column_stack([1 - p, p])


def sigmoid(u):
    return 1 / (1 + np.exp(-u))


def judged(n: int, design: str, rng):
    """True log-odds, the judge's, and the model's, of n samples."""
    u = 1.5 * rng.normal(size=n)
    if design == "patients":
        u = 1.5 * (np.repeat(rng.normal(size=n // 4), 4) + rng.normal(size=n)) / np.sqrt(2)
    u += -5 if design == "rare" else -0.5
    error = 0.5 if design == "better judge" else 0.7
    return u, 1.2 * (u + error * rng.normal(size=n)), 1.3 * (u + rng.normal(size=n))


def by_people(u, m: int, design: str, rng):
    """Labels of m people a sample."""
    if design == "five readers":
        q = sigmoid(u[:, None] + 0.5 * rng.normal(size=m))
        return Annotations.from_matrix((rng.random(q.shape) < q).astype(int), classes=[0, 1])
    ones = rng.binomial(m, sigmoid(u))
    return np.column_stack([m - ones, ones])


def proxy_truth(what: str, design: str) -> float:
    """The value of a metric of known probabilities."""
    rng = np.random.default_rng(10**6)
    u, _, v = judged(2_000_000, design, rng)
    p = sigmoid(u)
    if design == "five readers":
        x, w = np.polynomial.hermite_e.hermegauss(31)
        p = sigmoid(u[:, None] + 0.5 * x) @ (w / w.sum())
    z = np.tile([0.0, 1.0], (len(p), 1)) if what == RATE else two_classes(sigmoid(v))
    return float(OF_PROXIES[what](KnownProbabilities(two_classes(p)), z))


def proxy_draw(what: str, m: int, judge: str, design: str, seed: int):
    """Estimate, ends, effective rows, whether it warns; and the estimate of people alone."""
    rng = np.random.default_rng([seed, 2])
    u, v, model = judged(JUDGED, design, rng)
    y = by_people(u[:PEOPLE], m, design, rng)
    z = np.tile([0.0, 1.0], (JUDGED, 1)) if what == RATE else two_classes(sigmoid(model))
    said = two_classes((v > 0).astype(int))
    both, rest = slice(PEOPLE), slice(PEOPLE, None)
    proxies = said[both], said[rest]
    if judge == "probabilities":
        proxies = [KnownProbabilities(two_classes(sigmoid(v[part]))) for part in (both, rest)]
    how = {"random_state": seed}
    if design == "patients":
        patient = np.arange(JUDGED) // 4
        how |= {"groups": patient[both], "groups_rest": patient[rest]}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = prediction_powered(OF_PROXIES[what], y, z[both], *proxies, z[rest], **how)
    alone = OF_PROXIES[what](y, z[both])
    return *found[:3], found.effective_rows, bool(caught), alone


def proxy(draws: int, only: list[str]) -> None:
    head = ["what", "labels a sample", "judge", "design", "draws", "coverage", "off", "variance"]
    table = [[*head, "effective rows", "warns"]]
    for case in PROXIES:
        if only and case[0] not in only and case[-1] not in only:
            continue
        truth = proxy_truth(case[0], case[-1])
        found = np.array([proxy_draw(*case, seed) for seed in range(draws)])
        estimate, low, high, effective, warned, alone = found.T
        covers = ((low <= truth) & (truth <= high)).mean()
        off = (estimate.mean() - truth) / (estimate.std() / np.sqrt(draws))
        gain = alone.var() / estimate.var()
        numbers = f"{covers:.3f}", f"{off:+.1f}", f"{gain:.2f}"
        worth = f"{np.median(effective) / PEOPLE:.2f}"
        table.append([*map(str, case), str(draws), *numbers, worth, f"{warned.mean():.2f}"])
        print("".join(f"{x:>16}" for x in table[-1]), flush=True)
    if not only:
        path = KEPT.with_name("proxy.csv")
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(table)


def findings(draws: int, only: list[str]) -> None:
    finding_designs.run(draws, only, KEPT.with_name("findings.json"))


def unseen(draws: int, only: list[str]) -> None:
    unseen_designs.run(draws, only, KEPT.with_name("unseen.csv"))


STUDIES = {
    "readers": (readers, 2000),
    "paired": (paired, 2000),
    "bands": (bands, 2000),
    "groups": (groups, 300),
    "risks": (risks, 4000),
    "edges": (edges, 1000),
    "monitor": (monitor, 400),
    "proxy": (proxy, 1000),
    "subgroups": (subgroup_designs.study, 1000),
    "findings": (findings, 1000),
    "guarantees": (guarantees.study, 500),
    "unseen": (unseen, 200),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--draws", type=int)
    parser.add_argument("--only", nargs="+", default=[], help="designs of readers, or displays")
    parser.add_argument("--kept", type=Path, default=KEPT)
    options = parser.parse_args()
    run, draws = STUDIES[options.study]
    if run is edges:
        run = partial(edges, kept=options.kept)
    run(draws if options.draws is None else options.draws, options.only)


if __name__ == "__main__":
    main()
