"""Designs at the edge of what intervals and tests can do: good models, rare classes, few cases.

Each function draws one study from a generator. The first block of designs was measured from outside
when the package failed on them. "own" ones were written down before any of their results were seen,
and nothing was tuned on them. "common" ones are there for the width of their intervals.

"two models" are differences of means between two models; the first knows the class probabilities.
"reader comparison" is the difference of errors, and of losses, between a model and one more reader.
"curve" has points of curves: net benefit at a threshold, and above that of acting on all; the risk
of decisions where a missed second class costs .9 and a missed first one .1; the cost of optimal
stopping at a price; and what referring a fifth gains. All these were written down before any of
their results were seen, with .90 as what is to be reached.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, softmax

from sklearn_lhcal.label_histogram import Annotations

BIG = 200_000


class Study(NamedTuple):
    """Labels, a prediction, true class probabilities Q, and what else goes to the metric."""

    y: Any
    z: np.ndarray
    Q: np.ndarray
    how: Any = None


def two(p):
    """Probabilities of two classes."""
    return np.column_stack([1 - p, p])


def counts_of(Q, n_raters: int, rng):
    return rng.multinomial(n_raters, Q)


def sure(n: int, truth: float, rng) -> Study:
    """All rows z = (.99, .01)."""
    Q = two(np.full(n, 1 - truth))
    return Study(counts_of(Q, 1, rng), two(np.full(n, 0.01)), Q)


def _mean_logit(share: float, spread: float) -> float:
    x, w = np.polynomial.hermite_e.hermegauss(61)
    w = w / w.sum()
    return brentq(lambda m: w @ expit(m + spread * x) - share, -20, 20)


def rare(n: int, share: float, rng, shift: float = 0.0, n_raters: int = 1) -> Study:
    """Log-odds N(m, 1) of a class of this share; the model's are `shift` higher."""
    u = _mean_logit(share, 1.0) + rng.normal(size=n)
    Q = two(expit(u))
    return Study(counts_of(Q, n_raters, rng), two(expit(u + shift)), Q)


def said_by(p, rng) -> Annotations:
    """Labels of two classes, with probabilities p (n, R) of the second; NaN: not read."""
    said = np.where(np.isnan(p), np.nan, rng.random(p.shape) < p)
    return Annotations.from_matrix(said, classes=[0, 1])


def rare_read(n: int, R: int, share: float, s: float, rng) -> Study:
    """A rare class, R readers with thresholds N(0, s²) who all read all."""
    u = _mean_logit(share, np.sqrt(1 + s**2)) + rng.normal(size=(n, 1))
    x, w = np.polynomial.hermite_e.hermegauss(21)
    q = expit(u + s * x) @ (w / w.sum())
    return Study(said_by(expit(u + s * rng.normal(size=R)), rng), two(q), two(q))


def unequal_groups(sizes, rng, spread: float = 1.0) -> Study:
    """Rows of a group share a part of their log-odds that the model does not know."""
    g = np.repeat(np.arange(len(sizes)), sizes)
    u = rng.normal(size=len(g)) * 1.5
    shared = spread * rng.normal(size=len(sizes))
    x, w = np.polynomial.hermite_e.hermegauss(21)
    q = expit(u[:, None] + spread * x) @ (w / w.sum())
    label = (rng.random(len(g)) < expit(u + shared[g])).astype(int)
    return Study(np.eye(2, dtype=int)[label], two(q), two(q), {"groups": g})


def lognormal_groups(n_groups: int, n: int, sigma: float, rng) -> Study:
    share = rng.lognormal(sigma=sigma, size=n_groups)
    sizes = 1 + rng.multinomial(n - n_groups, share / share.sum())
    return unequal_groups(sizes, rng)


def alike_groups(n_groups: int, n: int, sigma: float, rng) -> Study:
    """All rows of a group are alike, its prediction and its label."""
    share = rng.lognormal(sigma=sigma, size=n_groups)
    g = np.repeat(np.arange(n_groups), 1 + rng.multinomial(n - n_groups, share / share.sum()))
    q = rng.beta(2, 2, size=n_groups)
    label = (rng.random(n_groups) < q).astype(int)
    return Study(np.eye(2, dtype=int)[label[g]], two(q)[g], two(q)[g], {"groups": g})


def one_outlier(n: int, rng) -> Study:
    """Three readers, each of whom is an outlier with probability 1/3: right .6 for .9."""
    q = 0.2
    truth = rng.random((n, 1)) < q
    skill = np.where(rng.random(3) < 1 / 3, 0.6, 0.9)
    p = np.where(truth, skill, 1 - skill)
    skill = 0.8
    z = two(np.where(truth[:, 0], 0.7, 0.1))
    Q = two(np.where(truth[:, 0], skill, 1 - skill))
    return Study(said_by(p, rng), z, Q)


def many_classes(n: int, rng) -> Study:
    """Five classes, one of .8 %, a model that is mostly sure, three labels a row."""
    u = rng.normal(size=(n, 5)) * 4
    u[:, 4] -= 4.5
    Q = softmax(u, axis=1)
    return Study(counts_of(Q, 3, rng), Q, Q)


def weighted(n: int, rng) -> Study:
    """Weights lognormal with σ = 1, right in .97."""
    q = rng.beta(30, 1, size=n)
    w = rng.lognormal(size=n)
    Q = two(1 - q)
    return Study(counts_of(Q, 1, rng), two(1 - q), Q, {"sample_weight": w})


def rare_patients(n_groups: int, rng) -> Study:
    """Three images a patient, all with the patient's label, of a class of 2 %."""
    u = np.repeat(_mean_logit(0.02, 1.0) + rng.normal(size=n_groups), 3)
    q = expit(u)
    label = np.repeat(rng.random(n_groups) < q[::3], 3).astype(int)
    groups = {"groups": np.repeat(np.arange(n_groups), 3)}
    return Study(np.eye(2, dtype=int)[label], two(q), two(q), groups)


def common(n: int, K: int, rng, n_raters: int = 1, temperature: float = 1.3) -> Study:
    """Log-odds N(0, 1.5²) of K classes; the model is too sure."""
    u = rng.normal(size=(n, K)) * 1.5
    Q = softmax(u, axis=1)
    return Study(counts_of(Q, n_raters, rng), softmax(temperature * u, axis=1), Q)


def common_groups(n_groups: int, size: int, rng) -> Study:
    return unequal_groups(np.full(n_groups, size), rng)


def common_readers(n: int, R: int, rng) -> Study:
    return rare_read(n, R, 0.3, 0.5, rng)


# --- two models ---


class Pair(NamedTuple):
    """A study, and the prediction of a second model."""

    study: Study
    other: np.ndarray


def shifted(study: Study, shift: float, slope: float = 1.0) -> Pair:
    """The second model's log-odds are `slope` times the first one's, plus `shift`."""
    u = np.log(study.z[:, 1] / study.z[:, 0])
    return Pair(study, two(expit(slope * u + shift)))


def good_pair(n: int, rng) -> Pair:
    """Two models that are right in .99 and .98, independently, and as sure as they are right."""
    truth = rng.integers(2, size=n)
    Q = np.eye(2)[truth]
    said = (np.where(rng.random(n) < right, truth, 1 - truth) for right in (0.99, 0.98))
    z, other = (two(np.where(a, p, 1 - p)) for a, p in zip(said, (0.99, 0.98), strict=True))
    return Pair(Study(Q.astype(int), z, Q), other)


def near_perfect(n: int, rng) -> Pair:
    """Log-odds ±5 + N(0, 1); the second model's are .8 times these, plus N(0, .3²)."""
    u = rng.choice([-5.0, 5.0], size=n) + rng.normal(size=n)
    Q = two(expit(u))
    return Pair(Study(counts_of(Q, 1, rng), Q, Q), two(expit(0.8 * u + 0.3 * rng.normal(size=n))))


def double_reading(n: int, R: int, share: float, s: float, rng) -> Study:
    """As `rare_read`, but two of the readers a sample, at random."""
    u = _mean_logit(share, np.sqrt(1 + s**2)) + rng.normal(size=(n, 1))
    x, w = np.polynomial.hermite_e.hermegauss(21)
    q = expit(u + s * x) @ (w / w.sum())
    p = expit(u + s * rng.normal(size=R))
    reads = rng.random((n, R)).argsort(axis=1).argsort(axis=1) < 2
    return Study(said_by(np.where(reads, p, np.nan), rng), two(q), two(q))


ONE = ("accuracy", "L", "log loss", "risk", "CL", "kernel")
MEANS = ("accuracy", "L", "log loss", "risk")
READ = ("accuracy", "L", "IL", "CL")

# name: how a study is drawn, its metrics
COVERED: dict[str, tuple] = {
    "all z = .99, calibrated (100)": (lambda rng: sure(100, 0.99, rng), ONE),
    "z = .99, truth .953 (100)": (lambda rng: sure(100, 0.953, rng), ONE),
    "class of 1.5 %, calibrated (75)": (lambda rng: rare(75, 0.015, rng), ONE),
    "class of 1.5 %, calibrated (150)": (lambda rng: rare(150, 0.015, rng), ONE),
    "class of 1.5 %, miscalibrated (150)": (lambda rng: rare(150, 0.015, rng, shift=1.0), ONE),
    "class of 2 %, 150 x 5 readers": (lambda rng: rare_read(150, 5, 0.02, 0.3, rng), READ),
    "50 groups, lognormal 1.2, 200 rows": (lambda rng: lognormal_groups(50, 200, 1.2, rng), MEANS),
    # the figures from outside are of groups like these, as the first results of the others showed
    "50 groups of one label, lognormal 1.2": (lambda rng: alike_groups(50, 200, 1.2, rng), MEANS),
    "own: 40 cases, 2 % positive": (lambda rng: rare(40, 0.02, rng), ONE),
    "own: 3 readers, outliers, 100 rows": (lambda rng: one_outlier(100, rng), READ),
    "own: 30 groups of sizes 60/rank": (
        lambda rng: unequal_groups(np.maximum(60 // np.arange(1, 31), 1), rng),
        MEANS,
    ),
    "own: 5 classes, .8 %, 120 x 3 labels": (lambda rng: many_classes(120, rng), ONE),
    "own: lognormal weights, right .97 (100)": (lambda rng: weighted(100, rng), ONE),
    "own: 60 patients x 3, 2 % (180)": (
        lambda rng: rare_patients(60, rng),
        ("accuracy", "L", "CL"),
    ),
    "common: K = 3, 200 rows": (lambda rng: common(200, 3, rng), ONE),
    "common: K = 10, 500 rows": (
        lambda rng: common(500, 10, rng),
        ("accuracy", "L", "log loss", "CL"),
    ),
    "common: K = 3, 200 x 5 labels": (lambda rng: common(200, 3, rng, 5), ONE),
    "common: 50 groups of 4": (lambda rng: common_groups(50, 4, rng), (*MEANS, "CL")),
    "common: 200 x 5 readers": (lambda rng: common_readers(200, 5, rng), READ),
}

PAIRED: dict[str, tuple] = {
    "two models: 40 cases, 2 % positive": (lambda rng: shifted(rare(40, 0.02, rng), 1.0), MEANS),
    "two models: right in .99 and .98 (100)": (
        lambda rng: good_pair(100, rng),
        ("accuracy", "L", "log loss"),
    ),
    "two models: near perfect (60)": (
        lambda rng: near_perfect(60, rng),
        ("accuracy", "L", "log loss"),
    ),
    "two models: double reading, 100 x 2 of 6": (
        lambda rng: shifted(double_reading(100, 6, 0.05, 0.3, rng), 1.0),
        ("accuracy", "L"),
    ),
    "two models: 20 groups, lognormal 1.2": (
        lambda rng: shifted(lognormal_groups(20, 100, 1.2, rng), 0.5, 1.5),
        ("accuracy", "L", "log loss"),
    ),
    "two models: 3 readers, 60 cases, 10 %": (
        lambda rng: shifted(rare_read(60, 3, 0.1, 0.3, rng), 1.0),
        ("accuracy", "L"),
    ),
    "two models, common: 200 rows": (
        lambda rng: shifted(rare(200, 0.4, rng), 0.3, 1.3),
        ("accuracy", "L", "log loss"),
    ),
    "two models, common: 100 rows": (
        lambda rng: shifted(rare(100, 0.4, rng), 0.3, 1.3),
        ("accuracy", "L", "log loss"),
    ),
    "two models, common: 200 x 5 readers": (
        lambda rng: shifted(rare_read(200, 5, 0.3, 0.5, rng), 0.3, 1.3),
        ("accuracy", "L"),
    ),
}

# a model beside one more reader
COMPARED: dict[str, Any] = {
    "reader comparison: 3 %, 60 x 5 readers": lambda rng: rare_read(60, 5, 0.03, 0.3, rng),
    "reader comparison: 10 %, 60 x 3 readers": lambda rng: rare_read(60, 3, 0.1, 0.3, rng),
    "reader comparison: 10 %, 100 x 2 of 6": lambda rng: double_reading(100, 6, 0.1, 0.3, rng),
    "reader comparison, common: 200 x 5": lambda rng: rare_read(200, 5, 0.3, 0.5, rng),
}

CURVES: dict[str, Any] = {
    "curve: 40 cases, 2 % positive": lambda rng: rare(40, 0.02, rng, n_raters=3),
    "curve: class of 5 %, 100 rows": lambda rng: rare(100, 0.05, rng, n_raters=3),
    "curve: 20 groups, lognormal 1.2": lambda rng: lognormal_groups(20, 100, 1.2, rng),
    "curve, common: 200 rows": lambda rng: rare(200, 0.3, rng, n_raters=3),
}


def tempered(n: int, K: int, T: float, rng) -> Study:
    """A model whose log-odds are 1/T times the true ones."""
    return common(n, K, rng, temperature=1 / T)


def leaning(n: int, bias: float, rng) -> Study:
    """Three classes, one of which the model favours."""
    u = rng.normal(size=(n, 3)) * 1.5
    Q = softmax(u, axis=1)
    return Study(counts_of(Q, 1, rng), softmax(u + np.array([bias, 0, 0]), axis=1), Q)


# of the null test: how a study is drawn, the level, what is to be reached; "at most" for sizes
TESTED: dict[str, tuple] = {
    "T = .6, K = 3, n = 200": (lambda rng: tempered(200, 3, 0.6, rng), 0.1, 0.85),
    "T = 1.6, K = 3, n = 200": (lambda rng: tempered(200, 3, 1.6, rng), 0.1, 0.88),
    "T = .6, K = 10, n = 200": (lambda rng: tempered(200, 10, 0.6, rng), 0.1, 0.89),
    "T = .7, K = 3, n = 500": (lambda rng: tempered(500, 3, 0.7, rng), 0.05, 0.9),
    "class bias .5, K = 3, n = 200": (lambda rng: leaning(200, 0.5, rng), 0.1, 0.72),
    "size: K = 3, n = 200": (lambda rng: tempered(200, 3, 1.0, rng), 0.1, "at most .13"),
    "size: class of 1.5 %, n = 150": (lambda rng: rare(150, 0.015, rng), 0.1, "at most .13"),
    "size: the same, 5 raters": (lambda rng: rare(150, 0.015, rng, n_raters=5), 0.1, "at most .13"),
}


def unequal_raters(share: float, rng, adjudicated: bool = False):
    """Counts of 135 rows of ten raters and 15 of two; or two, and a third where they differ."""
    p = expit(_mean_logit(share, 1.0) + rng.normal(size=150))
    if not adjudicated:
        return counts_of(two(p), np.where(np.arange(150) < 135, 10, 2), rng)
    y = counts_of(two(p), 2, rng)
    return y + (y.min(axis=1) > 0)[:, None] * counts_of(two(p), 1, rng)


def star(rng) -> Annotations:
    """One reader reads all of 100 rows, one of five others each row."""
    p = np.full((100, 6), np.nan)
    q = rng.random(100)
    p[:, 0] = q
    p[np.arange(100), 1 + rng.integers(5, size=100)] = q
    return said_by(p, rng)


def guesser(rng) -> Annotations:
    """Six readers of 200 rows of three classes; the first guesses 30 %."""
    truth = rng.integers(3, size=(200, 1))
    wrong = rng.random((200, 6)) < [0.405, *[0.15] * 5]
    said = np.where(wrong, rng.integers(3, size=(200, 6)), truth)
    return Annotations.from_matrix(said, classes=[0, 1, 2])
