"""Studies of readers: does a model pass as one, who said what, and how large a study should be.

    python benchmarks/readers.py comparison|effects|size [--draws N]

"comparison": how often a model passes for as good as one more reader, where it is not and where it
is. 300 samples of two classes, read by R readers. A reader is right with log-odds 1.5 − d_i +
τ·e_r, the difficulty d_i and the skill e_r being standard normal; the model with 1.5 − d_i + s.
"Type I": s is where a reader disagrees with the model 0.05 more often than with another reader, the
margin of `rater_comparison`. "Power": s is where both are alike. Each draw has new samples and new
readers. "samples and readers": `rater_comparison` at 0.95. "samples only": the same with readers
taken as fixed. "alt-test": `alternative_annotator_test`, whose ε is what a model at the margin
loses by in the mean over many studies, so that both tests ask about the same model.

"effects": log loss of the label of a reader on held-out samples, in nats. Samples have eight
readers, true log-odds that features explain in part, and readers with effects N(0, 0.8²) on the
log-odds of each class. 250 samples are for training, 250 for the test. Of a test sample m labels
are known; the next is asked of another reader. "blind": `AlphaCalibration` after m labels, whoever
gave them. "asked": `RaterEffects` around it knows who is asked, but not who spoke. "spoke": it
knows both. In brackets standard errors of the difference from the column before.

"size": how often the range of samples that `study_size` gives holds the right number. Pilots of 200
samples and five or eight readers, as in `intervals.py`, ask how many samples eight readers need.
The half-width wanted is the mean one of studies of 200 samples and eight readers: 200 is right.
Printed: that half-width; the quotient of the pilots' forecast and it, 10%, 50% and 90% points;
the share of the pilots whose range holds 200, nominally 0.80, and of those whose range asks for
more, and for fewer.
"""

import argparse
import warnings

import numpy as np
from lib.reader_studies import crossed, some, study
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import t as student

from sklearn_lhcal.calibration import AlphaCalibration, RaterEffects, VectorScaling
from sklearn_lhcal.label_histogram import Annotations, conger_kappa
from sklearn_lhcal.metrics import (
    alternative_annotator_test,
    confidence_interval,
    expected_accuracy,
    expected_squared_loss,
    irreducible_loss,
    rater_comparison,
    study_size,
)

# --- a model against one more reader ---

N_ROWS = 300
MARGIN = 0.05
EASE = 1.5
LEVEL = 0.95
COMPARED = [(R, tau) for R in (5, 8) for tau in (0.0, 0.25, 0.5)]


def draw(n: int, R: int, tau: float, s: float, rng):
    """Labels of R readers, and those of the model in the last column."""
    truth = rng.integers(2, size=(n, 1))
    skill = np.append(tau * rng.standard_normal(R), s)
    right = rng.random((n, R + 1)) < expit(EASE - rng.standard_normal((n, 1)) + skill)
    return np.where(right, truth, 1 - truth)


def difference(tau: float, s: float) -> float:
    """Δ of the population, by Gauss and Hermite's rule over samples and readers."""
    x, w = np.polynomial.hermite_e.hermegauss(61)
    w /= w.sum()
    p = expit(EASE - x[:, None] + tau * x) @ w
    q = expit(EASE - x + s)
    # two readers agree, a reader and the model agree
    readers = p**2 + (1 - p) ** 2
    model = p * q + (1 - p) * (1 - q)
    return float((readers - model) @ w)


def lead_of_readers(R: int, tau: float, s: float, studies: int = 300) -> float:
    """Share of samples that a reader wins less the share that the model wins, over many studies."""
    rng = np.random.default_rng(1)
    leads = []
    for _ in range(studies):
        said = draw(2000, R, tau, s, rng)
        human, model = said[:, :-1], said[:, -1:]
        others = human.sum(axis=1, keepdims=True) - human
        by_human = np.where(human == 1, others, R - 1 - others)
        by_model = np.where(model == 1, others, R - 1 - others)
        leads.append(np.mean((by_human >= by_model) * 1.0 - (by_model >= by_human)))
    return float(np.mean(leads))


def passes(R: int, tau: float, s: float, epsilon: float, draws: int, seed: int = 0):
    """How often each test passes the model: samples and readers, samples only, alt-test."""
    rng = np.random.default_rng(seed)
    passed = np.zeros((draws, 3))
    for i in range(draws):
        said = draw(N_ROWS, R, tau, s, rng)
        y = Annotations.from_matrix(said[:, :R], classes=[0, 1])
        # one-sided at 1 - LEVEL, as the published test
        found = rater_comparison(
            y, said[:, R], margin=MARGIN, confidence_level=2 * LEVEL - 1, random_state=i
        )
        estimate, rows = found.difference.estimate, found.difference.components.rows
        upper = estimate + student.ppf(LEVEL, 49) * np.sqrt(rows)
        published = alternative_annotator_test(y, said[:, R], epsilon=epsilon)
        passed[i] = found.non_inferior, upper < MARGIN, published.passed
    return passed.mean(axis=0)


def comparison(draws: int) -> None:
    print(f"{draws} draws; standard errors at most {0.5 / np.sqrt(draws):.3f}")
    head = ("rows and readers", "rows only", "alt-test")
    print(f"{'':22}" + "".join(f"{name:>20}" for name in head))
    for R, tau in COMPARED:
        at_margin, alike = (
            brentq(lambda s, d=d, tau=tau: difference(tau, s) - d, -5, 3) for d in (MARGIN, 0.0)
        )
        epsilon = lead_of_readers(R, tau, at_margin)
        for name, s in (("type I", at_margin), ("power", alike)):
            shares = passes(R, tau, s, epsilon, draws)
            print(
                f"R = {R}, τ = {tau:<4} {name:7}" + "".join(f"{x:20.3f}" for x in shares),
                flush=True,
            )


# --- who is asked, and who spoke ---

N_READERS = 8
STD = 0.8
SEEN = (0, 1, 3, 5)


def rows_of_readers(K: int, n: int, rng):
    """Features, and labels (n, R)."""
    X = rng.standard_normal((n, K))
    u = 1.5 * X + rng.standard_normal((n, K))
    p = np.exp(u[:, None] + STD * rng.standard_normal((N_READERS, K)))
    p /= p.sum(axis=2, keepdims=True)
    return X, (p.cumsum(axis=2) < rng.random((n, N_READERS, 1))).sum(axis=2)


def losses(K: int, m: int, seed: int):
    """Mean log loss of the three, after m labels."""
    rng = np.random.default_rng(seed)
    X, said = rows_of_readers(K, 500, rng)
    classes = np.arange(K)
    names = np.array([f"reader {r}" for r in range(N_READERS)])
    y = Annotations.from_matrix(said[:250], raters=names, classes=classes)
    blind = AlphaCalibration(VectorScaling()).fit(X[:250], y)
    model = RaterEffects(AlphaCalibration(VectorScaling())).fit(X[:250], y)
    order = rng.random((250, N_READERS)).argsort(axis=1)
    rows = np.arange(250)
    asked = order[:, 0]
    truth = said[250:][rows, asked]
    # labels of the next m readers
    seen = np.full((250, N_READERS), None)
    for j in range(1, m + 1):
        seen[rows, order[:, j]] = said[250:][rows, order[:, j]]
    z = X[250:]
    given = counts = None
    dist = blind.predict_dist(z)
    if m:
        given = Annotations.from_matrix(seen, raters=names, classes=classes)
        counts = given.counts
        dist = dist.posterior(counts)
    found = (
        dist.mean(),
        model.predict_proba(z, rater=names[asked], given=counts),
        model.predict_proba(z, rater=names[asked], given=given),
    )
    return [-np.log(p[rows, truth]).mean() for p in found]


def effects(draws: int) -> None:
    print(f"{draws} draws{'blind':>22}{'asked':>18}{'spoke':>18}")
    for K in (2, 3):
        for m in SEEN:
            each = np.array([losses(K, m, seed) for seed in range(draws)])
            error = np.diff(each, axis=1).std(axis=0) / np.sqrt(draws)
            blind, asked, spoke = each.mean(axis=0)
            print(
                f"K = {K}, {m} labels seen {blind:9.3f}"
                f"{asked:10.3f} ({error[0]:.4f}){spoke:9.3f} ({error[1]:.4f})",
                flush=True,
            )


# --- how large a study should be ---

METRICS = {
    "accuracy": expected_accuracy,
    "L": expected_squared_loss,
    "IL": irreducible_loss,
    "kappa": conger_kappa,
}
PILOT_ROWS = 200
READERS = 8
# who reads what, readers of the pilot, and their spread
DESIGNS = [
    (crossed, 5, 0.3),
    (crossed, 5, 0.5),
    (crossed, 5, 0.8),
    (some, 5, 0.5),
    (crossed, 8, 0.5),
]


def half_width(metric, s: float, studies: int) -> float:
    """The mean one of studies of eight readers."""
    found = []
    for seed in range(studies):
        y, z = study(crossed, PILOT_ROWS, READERS, s, np.random.default_rng(10**6 + seed))
        interval = confidence_interval(metric, y, z, random_state=0)
        found.append((interval.high - interval.low) / 2)
    return float(np.mean(found))


def size(draws: int) -> None:
    warnings.filterwarnings("ignore", "There are only")
    print(f"{draws} pilots of {PILOT_ROWS} rows, for {READERS} readers")
    print(f"{'':32}{'wanted':>8}{'forecast/wanted':>22}{'holds':>8}{'more':>6}{'fewer':>6}")
    wanted: dict = {}
    for name, metric in METRICS.items():
        for design, R, s in DESIGNS:
            if (name, s) not in wanted:
                wanted[name, s] = half_width(metric, s, max(draws // 2, 1))
            h = wanted[name, s]
            ratio, low, high = [], [], []
            for seed in range(draws):
                y, z = study(design, PILOT_ROWS, R, s, np.random.default_rng(seed))
                how = {"half_width": h, "n_raters": [READERS], "random_state": 0}
                found = study_size(metric, y, z, **how)
                ratio.append(found.half_width(PILOT_ROWS, READERS, READERS) / h)
                low.append(found.n_rows_range[0, 0])
                high.append(found.n_rows_range[0, 1])
            more = np.mean(np.array(low) > PILOT_ROWS)
            fewer = np.mean(np.array(high) < PILOT_ROWS)
            quotients = " ".join(f"{q:.2f}" for q in np.quantile(ratio, [0.1, 0.5, 0.9]))
            head = f"{name}, {design.__name__} {R}, s = {s}"
            shares = f"{1 - more - fewer:8.2f}{more:6.2f}{fewer:6.2f}"
            print(f"{head:32}{h:8.4f}{quotients:>22}{shares}", flush=True)


STUDIES = {"comparison": (comparison, 1000), "effects": (effects, 20), "size": (size, 500)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--draws", type=int)
    options = parser.parse_args()
    run, draws = STUDIES[options.study]
    run(options.draws or draws)


if __name__ == "__main__":
    main()
