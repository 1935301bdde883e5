"""How often a model passes for as good as one more reader, where it is not and where it is.

    python benchmarks/reader_comparison.py [draws]

300 rows of two classes, read by R readers. A reader is right with log-odds 1.5 − d_i + τ·e_r, the
difficulty d_i and the skill e_r being standard normal; the model with 1.5 − d_i + s. "Type I": s
is where a reader disagrees with the model .05 more often than with another reader, the margin of
`reader_comparison`. "Power": s is where both are alike. Each draw has new rows and new readers.

"rows and readers": `reader_comparison` at .95. "rows only": the same with readers taken as fixed.
"alt-test": `alternative_annotator_test`, whose ε is what a model at the margin loses by in the mean
over many studies, so that both tests ask about the same model."""

import sys

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import t as student

from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import alternative_annotator_test, reader_comparison

N_ROWS = 300
MARGIN = 0.05
EASE = 1.5
LEVEL = 0.95
STUDIES = [(R, tau) for R in (5, 8) for tau in (0.0, 0.25, 0.5)]


def draw(n: int, R: int, tau: float, s: float, rng):
    """Labels of R readers, and those of the model in the last column."""
    truth = rng.integers(2, size=(n, 1))
    skill = np.append(tau * rng.standard_normal(R), s)
    right = rng.random((n, R + 1)) < expit(EASE - rng.standard_normal((n, 1)) + skill)
    return np.where(right, truth, 1 - truth)


def difference(tau: float, s: float) -> float:
    """Δ of the population, by Gauss and Hermite's rule over rows and readers."""
    x, w = np.polynomial.hermite_e.hermegauss(61)
    w /= w.sum()
    p = expit(EASE - x[:, None] + tau * x) @ w
    q = expit(EASE - x + s)
    # two readers agree, a reader and the model agree
    readers = p**2 + (1 - p) ** 2
    model = p * q + (1 - p) * (1 - q)
    return float((readers - model) @ w)


def lead_of_readers(R: int, tau: float, s: float, studies: int = 300) -> float:
    """Share of rows that a reader wins less the share that the model wins, over many studies."""
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
    """How often each test passes the model: rows and readers, rows only, alt-test."""
    rng = np.random.default_rng(seed)
    passed = np.zeros((draws, 3))
    for i in range(draws):
        said = draw(N_ROWS, R, tau, s, rng)
        y = Annotations.from_matrix(said[:, :R], classes=[0, 1])
        found = reader_comparison(y, said[:, R], margin=MARGIN, random_state=i)
        estimate, rows = found.difference.estimate, found.difference.components.rows
        upper = estimate + student.ppf(LEVEL, 49) * np.sqrt(rows)
        published = alternative_annotator_test(y, said[:, R], epsilon=epsilon)
        passed[i] = found.non_inferior, upper < MARGIN, published.passed
    return passed.mean(axis=0)


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(f"{draws} draws; standard errors at most {0.5 / np.sqrt(draws):.3f}")
    head = ("rows and readers", "rows only", "alt-test")
    print(f"{'':22}" + "".join(f"{name:>20}" for name in head))
    for R, tau in STUDIES:
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


if __name__ == "__main__":
    main()
