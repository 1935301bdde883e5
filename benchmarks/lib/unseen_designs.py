"""Intervals and tests of what the other studies leave out; two designs of each.

All designs were written down before any result was seen. One is ordinary; the other has a rare
class or few samples. A cell counts as failed where 95 % intervals hold the truth in less than .92
of the replicates, or a test at .05 rejects a true hypothesis in more than .08. Cells near these
limits at 200 replicates have 1,000.

"krippendorff_alpha": "8 raters, 3 a sample" are 200 samples of ``lib/reader_studies.py``, tilts of
.3; "5 raters, 5 %" are 100 samples of two classes, log-odds N(−4.1, 1.5²), rater biases N(0, .5²),
three in ten labels absent. Raters are random; the truth is that of 400 000 samples with raters of
their own. "cohen_kappa": two raters, whose log-odds are those of the sample −.3 and +.3; 100
samples, log-odds N(−1.2, 1.5²) or N(−4.1, 1.5²): 30 % or 5 %. The truth is computed from their
probabilities.

Metrics: log-odds of three classes are N(mean, 1), p their softmax, a sample has Q ~ Dirichlet(10 p)
and the model says softmax(1.5 u), or p where it is calibrated. "300 samples": mean (1, 0, −1), five
labels a sample. "80 samples": mean (3, 0, −1), three labels. The truth is that of the
probabilities, where labels as many as these do not bias the metric beyond what its docstring says;
else that of 400 000 samples with as many labels. The harmonic error "of as many labels" was added
when the other had failed. "(mean)": the mean of the estimates, since a fixed bandwidth smooths.
Missing the third class for the first costs five times any other mistake.

"evaluate_epistemic": features uniform on a square, log-odds 3 sin(6 x) sin(6 y), or these less 2.5,
500 or 300 samples; a forest of ten trees, four splits of six balls. The truth is the mean of the
estimates: what other data sets of that size would give. `NaN` ends are "none".

"alternative_annotator_test": raters are right with probability .8 and the model with .6, of three
classes: 200 samples and five raters; two classes, 5 % of the second, which raters find in .9 and
the model never, one in fifty others is called it by raters: 40 samples and three raters. ε is the
true difference of their winning shares, so that each hypothesis holds, barely. "any": some rater is
replaced; "one": p ≤ .05 of a rater.

"null_epistemic_error": gains of 1, −1 and 0 whose mean is the estimate. "1000 samples": estimates
.3 Beta(1, 2), losses in .05. "120 samples": estimates uniform below .03, losses in .01. "5 labels":
1000 samples as before, gains are means of five labels of a sample, p ≤ .05 is rejected.

"allocate_labels": four Dirichlet samples, at most three labels each, budgets of one to six. The
share of replicates in which no allocation within the budget has a lower cost, over all of 256,
whose costs are enumerated from labels one by one: "promised" where steps spend the budget and none
made way for a shorter one, which the first run did not tell apart, and "any". "alike":
concentration Gamma(2, 2), means uniform, 0/1 costs. "5 %": means Beta(1, 19), missing the second
costs 20.

"RaterEffects": two classes, z = σ(N(0, 1)), Q ~ Beta(4 z, 4 (1 − z)), all raters read all samples
and differ by N(0, τ²) in log-odds of the second class. Prediction z is certain to the fit, which Q
is not. The rate is that of replicates in which what raters say of new samples is predicted worse,
by more than .001 nats a label, than without effects; the width is the mean of τ found.
"""

import csv
import itertools
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from lib.reader_studies import COMMON, softmax, some, study
from scipy.special import expit
from sklearn.ensemble import RandomForestClassifier

from sklearn_lhcal.calibration import RaterEffects
from sklearn_lhcal.distributions import Dirichlet, allocate_labels
from sklearn_lhcal.label_histogram import (
    Annotations,
    KnownProbabilities,
    cohen_kappa,
    krippendorff_alpha,
)
from sklearn_lhcal.metrics import (
    alternative_annotator_test,
    confidence_interval,
    entropy_calibration_error,
    kernel_calibration_error,
    kernel_sharpness,
    null_epistemic_error,
    ranking_score,
    risk_gap,
    vote_accuracy,
)
from sklearn_lhcal.model_selection import BallCarvingSplit, evaluate_epistemic

LARGE = 400_000
HEAD = ["what", "design", "draws", "truth", "rate", "none", "width", "warns"]
# of a draw: what → (estimate, low, high), or (rejected, width)
Draw = Callable[[int], dict]


def large():
    return np.random.default_rng(10**6)


def ends(found) -> tuple:
    return found.estimate, found.low, found.high


# --- agreement ---


def annotated(u, tilt, absent: float, rng) -> Annotations:
    """Two classes: log-odds of samples (n,) and biases of raters (R,) or (n, R)."""
    p = expit(u[:, None] + tilt)
    votes = (rng.random(p.shape) < p).astype(float)
    votes[rng.random(p.shape) < absent] = np.nan
    votes = votes[~np.isnan(votes).all(axis=1)]
    return Annotations.from_matrix(votes, classes=[0, 1])


def alpha_ordinary(seed: int) -> dict:
    y, _ = study(some, 200, 8, 0.3, np.random.default_rng([seed, 1]))
    return {"": ends(confidence_interval(krippendorff_alpha, y, None, random_state=seed))}


def alpha_ordinary_truth() -> float:
    rng = large()
    p = softmax(COMMON + rng.normal(size=(LARGE, 1, 3)) + 0.3 * rng.normal(size=(LARGE, 3, 3)))
    label = (p.cumsum(axis=2) < rng.random((LARGE, 3, 1))).sum(axis=2).clip(max=2)
    return krippendorff_alpha((label[..., None] == np.arange(3)).sum(axis=1))


def alpha_rare(seed: int) -> dict:
    rng = np.random.default_rng([seed, 1])
    y = annotated(-4.1 + 1.5 * rng.normal(size=100), 0.5 * rng.normal(size=5), 0.3, rng)
    return {"": ends(confidence_interval(krippendorff_alpha, y, None, random_state=seed))}


def alpha_rare_truth() -> float:
    rng = large()
    u = -4.1 + 1.5 * rng.normal(size=(LARGE, 1)) + 0.5 * rng.normal(size=(LARGE, 5))
    ones = (rng.random(u.shape) < expit(u)).sum(axis=1)
    return krippendorff_alpha(np.column_stack([5 - ones, ones]))


CALLS = np.array([-0.3, 0.3])


def cohen(mean: float, seed: int) -> dict:
    rng = np.random.default_rng([seed, 1])
    y = annotated(mean + 1.5 * rng.normal(size=100), CALLS, 0.0, rng)
    how = {"raters": "fixed", "random_state": seed}
    return {"": ends(confidence_interval(cohen_kappa, y, None, **how))}


def cohen_truth(mean: float) -> float:
    p, q = expit(mean + 1.5 * large().normal(size=LARGE) + CALLS[:, None])
    chance = p.mean() * q.mean() + (1 - p.mean()) * (1 - q.mean())
    return ((p * q + (1 - p) * (1 - q)).mean() - chance) / (1 - chance)


# --- metrics ---

DEAR = 1 - np.eye(3)
DEAR[2, 0] = 5.0
# samples, mean log-odds, labels a sample
SIZES = {"300 samples": (300, COMMON, 5), "80 samples": (80, np.array([3.0, 0.0, -1.0]), 3)}


def labelled(n: int, mean, m: int, sure: float, rng):
    """Counts, predictions, p and Q."""
    u = mean + rng.normal(size=(n, 3))
    gamma = np.maximum(rng.standard_gamma(10 * softmax(u)), 1e-300)
    Q = gamma / gamma.sum(axis=1, keepdims=True)
    return rng.multinomial(m, Q), softmax(sure * u), softmax(u), Q


def of_metric(metric, sure: float, size: tuple, seed: int) -> dict:
    y, z, _, _ = labelled(*size, sure, np.random.default_rng([seed, 1]))
    return {"": ends(confidence_interval(metric, y, z, random_state=seed))}


def with_labels(metric, size: tuple) -> float:
    """The metric of many samples with as many labels."""
    y, z, _, _ = labelled(LARGE, *size[1:], 1.5, large())
    return metric(y, z)


def with_known(metric, size: tuple) -> float:
    """The metric of known probabilities."""
    _, z, _, Q = labelled(LARGE, *size[1:], 1.5, large())
    return metric(KnownProbabilities(Q), z)


def squared_distance(metric, size: tuple) -> float:
    """E‖E[y|z] − z‖²; z tells p."""
    _, z, p, _ = labelled(LARGE, *size[1:], 1.5, large())
    return ((p - z) ** 2).sum(axis=1).mean()


def true_sharpness(metric, size: tuple) -> float:
    _, _, p, _ = labelled(LARGE, *size[1:], 1.5, large())
    return (p**2).sum(axis=1).mean()


def nothing(metric, size: tuple) -> float:
    return 0.0


def mean_of_draws(metric, size: tuple) -> float:
    return np.nan


HARMONIC = partial(entropy_calibration_error, absolute=False, bias_correction="harmonic")
SECOND = partial(kernel_calibration_error, bias_correction="second_order")
WIDE = partial(kernel_calibration_error, bandwidth=0.1)
# metric, how overconfident the model is, its truth
METRICS = {
    "risk_gap": (partial(risk_gap, cost_matrix=DEAR), 1.5, with_known),
    "ranking_score": (ranking_score, 1.5, with_labels),
    "vote_accuracy": (vote_accuracy, 1.5, with_labels),
    "entropy error": (entropy_calibration_error, 1.5, with_labels),
    "entropy error, signed": (partial(entropy_calibration_error, absolute=False), 1.5, with_labels),
    "entropy error, harmonic": (HARMONIC, 1.5, with_known),
    "entropy error, harmonic, of as many labels": (HARMONIC, 1.5, with_labels),
    "kernel error, h = .1 (mean)": (WIDE, 1.5, mean_of_draws),
    "kernel error, h = .1, calibrated": (WIDE, 1.0, nothing),
    "kernel error, root, h = .1, calibrated": (partial(WIDE, root=True), 1.0, nothing),
    "kernel error, top label, h = .1, calibrated": (partial(WIDE, kind="top_label"), 1.0, nothing),
    "kernel error, second order, cv": (SECOND, 1.5, squared_distance),
    "kernel sharpness, cv": (kernel_sharpness, 1.5, true_sharpness),
}


# --- epistemic uncertainty ---


def carved(n: int, less: float, seed: int) -> dict:
    rng = np.random.default_rng([seed, 1])
    X = rng.uniform(size=(n, 2))
    y = (rng.random(n) < expit(3 * np.sin(6 * X).prod(axis=1) - less)).astype(int)
    forest = {"forest": RandomForestClassifier(10, min_samples_leaf=5, random_state=seed)}
    splits = BallCarvingSplit(n_balls=6, n_splits=4, random_state=seed)
    table = evaluate_epistemic(forest, X, y, splits, n_bins=5, random_state=seed).intervals
    asked = ("mean_gain", "epistemic_correlation", "epistemic_calibration_error")
    return {f", {name}": ends(table["forest"][name]) for name in asked}


def gains(e, loss: float, m: int, rng):
    """Means of m labels each, of expectation e."""
    x = rng.random((len(e), m))
    return ((x < e[:, None] + loss).astype(float) - (x > 1 - loss)).mean(axis=1)


def null_size(n: int, m: int, seed: int) -> dict:
    rng = np.random.default_rng([seed, 1])
    few = n < 200
    e = rng.uniform(0, 0.03, n) if few else 0.3 * rng.beta(1, 2, n)
    g = gains(e, 0.01 if few else 0.05, m, rng)
    return {"": (null_epistemic_error(g, e, random_state=seed).p_value <= 0.05, np.nan)}


# --- the alternative annotator test ---


def said_by(n: int, R: int, rng):
    """Labels of R raters, and of a model: three classes."""
    truth = rng.integers(3, size=(n, 1))
    right = rng.random((n, R + 1)) < np.append(np.full(R, 0.8), 0.6)
    said = np.where(right, truth, (truth + rng.integers(1, 3, (n, R + 1))) % 3)
    return said[:, :R], said[:, R]


def said_of_rare(n: int, R: int, rng):
    """Two classes, 5 % of the second, which the model never names."""
    truth = rng.random((n, 1)) < 0.05
    said = rng.random((n, R)) < np.where(truth, 0.9, 0.02)
    return said.astype(int), np.zeros(n, dtype=int)


def wins(votes, model) -> float:
    """Share of samples that the first rater wins, less that of the model."""
    rest = votes[:, 1:]
    she, it = ((rest == x[:, None]).sum(axis=1) for x in (votes[:, 0], model))
    return float((she >= it).mean() - (it >= she).mean())


def annotator_size(say, n: int, R: int, epsilon: float, seed: int) -> dict:
    votes, model = say(n, R, np.random.default_rng([seed, 1]))
    y = Annotations.from_matrix(votes, classes=np.arange(3))
    test = alternative_annotator_test(y, model, epsilon=epsilon)
    return {
        ", any": (test.replaced.any(), np.nan),
        ", one": ((test.p_value <= 0.05).mean(), np.nan),
    }


def annotator_cell(say, n: int, R: int):
    epsilon = wins(*say(LARGE, R, large()))
    return partial(annotator_size, say, n, R, epsilon)


# --- labels to ask for ---


def cost_after(a, C, m: int) -> float:
    """Expected cost of the best decision after m labels of Dirichlet a, label by label."""
    if m == 0:
        return float((a / a.sum() @ C).min())
    return sum(
        p * cost_after(a + one, C, m - 1)
        for p, one in zip(a / a.sum(), np.eye(len(a)), strict=True)
    )


def gains_around(V, m: int) -> tuple[float, float]:
    """The least gain of a label on the way to m, and the largest of a step from there."""
    before = [(V[left] - V[m]) / (m - left) for left in range(m)]
    after = [(V[m] - V[right]) / (right - m) for right in range(m + 1, len(V))]
    return min(before, default=np.inf), max(after, default=-np.inf)


def allocation(rare: bool, seed: int) -> dict:
    rng = np.random.default_rng([seed, 1])
    mean = rng.beta(1, 19, 4) if rare else rng.uniform(size=4)
    a = rng.gamma(2, 2, size=(4, 1)) * np.column_stack([1 - mean, mean])
    C = np.array([[0.0, 1.0], [20.0 if rare else 1.0, 0.0]])
    budget = 1 + seed % 6
    costs = np.array([[cost_after(one, C, m) for m in range(4)] for one in a])
    every = np.array(list(itertools.product(range(4), repeat=4)))
    total = costs[np.arange(4), every].sum(axis=1)
    least = total[every.sum(axis=1) <= budget].min()
    chosen = allocate_labels(Dirichlet(a), C, budget, max_labels=3)
    paid, left_out = zip(*map(gains_around, costs, chosen), strict=True)
    promised = min(paid) >= max(left_out) - 1e-12 and chosen.sum() == budget
    held = costs[np.arange(4), chosen].sum() <= least + 1e-9
    return {", promised": (held if promised else np.nan, np.nan), ", any": (held, np.nan)}


# --- rater effects ---


def two(p):
    return np.stack([1 - p, p], axis=-1)


def effects(n: int, R: int, tau: float, seed: int) -> dict:
    rng = np.random.default_rng([seed, 1])
    b = tau * rng.normal(size=R)

    def read(n: int):
        z = expit(rng.normal(size=n))
        Q = rng.beta(4 * z, 4 * (1 - z)).clip(1e-9, 1 - 1e-9)
        return z, expit(np.log(Q / (1 - Q))[:, None] + b)

    z, p = read(n)
    y = Annotations.from_matrix((rng.random(p.shape) < p).astype(int), raters=np.arange(R))
    model = RaterEffects("proba").fit(two(z), y)
    z, p = read(2000)
    after = np.stack([model.predict_proba(two(z), rater=r)[:, 1] for r in range(R)], axis=1)

    def loss(said):
        return -(two(p) * np.log(two(said))).sum(axis=-1).mean()

    worse = loss(after) - loss(np.broadcast_to(z[:, None], p.shape)) > 1e-3
    return {"": (worse, model.effect_std_)}


# --- the table ---


def cells() -> dict:
    """(what, design) → (draw, truth of an interval or nothing); what runs fast comes first."""
    made: dict = {
        ("cohen_kappa", "30 %"): (partial(cohen, -1.2), partial(cohen_truth, -1.2)),
        ("cohen_kappa", "5 %"): (partial(cohen, -4.1), partial(cohen_truth, -4.1)),
        ("krippendorff_alpha", "8 raters, 3 a sample"): (alpha_ordinary, alpha_ordinary_truth),
        ("krippendorff_alpha", "5 raters, 5 %"): (alpha_rare, alpha_rare_truth),
        ("alternative_annotator_test", "200 x 5"): (annotator_cell(said_by, 200, 5), None),
        ("alternative_annotator_test", "40 x 3, 5 %"): (annotator_cell(said_of_rare, 40, 3), None),
        ("null_epistemic_error", "1000 samples"): (partial(null_size, 1000, 1), None),
        ("null_epistemic_error", "120 samples"): (partial(null_size, 120, 1), None),
        ("null_epistemic_error", "1000 samples, 5 labels"): (partial(null_size, 1000, 5), None),
        ("allocate_labels", "alike"): (partial(allocation, False), None),
        ("allocate_labels", "5 %"): (partial(allocation, True), None),
    }
    for what, (metric, sure, truth) in METRICS.items():
        for design, size in SIZES.items():
            made[what, design] = (
                partial(of_metric, metric, sure, size),
                partial(truth, metric, size),
            )
    for n, R in ((100, 8), (40, 30)):
        for tau in (0.0, 0.5):
            draw = partial(effects, n, R, tau)
            made["RaterEffects", f"{n} x {R}, tau = {tau}"] = draw, None
    for design, how in {"500 samples": (500, 0.0), "300 samples, rare": (300, 2.5)}.items():
        made["evaluate_epistemic", design] = partial(carved, *how), lambda: np.nan
    return made


def summary(rows, truth) -> list[str]:
    """Truth, rate, share without a number, mean width."""
    rows = np.array(rows, dtype=float)
    rate, width = rows[:, 0], rows[:, 1]
    if rows.shape[1] == 3:
        estimate, low, high = rows.T
        truth = np.nanmean(estimate) if np.isnan(truth) else truth
        rate, width = (low <= truth) & (truth <= high), high - low
        rate = np.where(np.isfinite(width), rate, np.nan)
    width = f"{np.nanmean(width):.3f}" if np.isfinite(width).any() else ""
    shown = "" if truth is None else f"{truth:.4f}"
    return [shown, f"{np.nanmean(rate):.3f}", f"{np.isnan(rate).mean():.3f}", width]


def table_of(what: str, design: str, draw: Draw, truth, draws: int):
    """Rows of the table of one cell."""
    found: dict = {}
    warned = 0
    for seed in range(draws):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for part, row in draw(seed).items():
                found.setdefault(part, []).append(row)
        warned += bool(caught)
    true = None if truth is None else float(truth())
    for part, rows in found.items():
        numbers = summary(rows, true)
        yield [what + part, design, str(draws), *numbers, f"{warned / draws:.2f}"]


def run(draws: int, only: list[str], path: Path) -> None:
    """Print the cells that are asked for, and put them in the place of their rows in the file."""
    table: dict = {}
    if path.exists():
        with path.open(encoding="utf-8") as file:
            table = {tuple(row[:2]): row for row in list(csv.reader(file))[1:]}
    for (what, design), (draw, truth) in cells().items():
        if only and not any(part in f"{what} | {design}" for part in only):
            continue
        for row in table_of(what, design, draw, truth, draws):
            table[tuple(row[:2])] = row
            print(f"{row[0]:46}{row[1]:26}" + "".join(f"{x:>9}" for x in row[2:]), flush=True)
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([HEAD, *table.values()])
