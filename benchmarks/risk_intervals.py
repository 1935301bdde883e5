"""Coverage of 90 % intervals of `risk_gap` where one mistake costs five times the others.

    python benchmarks/risk_intervals.py [draws]

Scores of rows are N(0, 1), those of the last class lower by 2 where it is rare; class probabilities
of a row are Dirichlet around their softmax, α0 = 10. The model is calibrated, or twice too sure.
Printed is the share of the intervals that hold the gap of 500 000 rows.
"""

import sys

import numpy as np

from sklearn_lhcal.metrics import confidence_interval, risk_gap

ROWS = (40, 100, 300, 1000)
ALIKE = 1 - np.eye(3)
ONE = ALIKE.copy()
ONE[2, 0] = 5.0
COSTS = {"alike": ALIKE, "one is 5": ONE, "two classes": np.array([[0.0, 1.0], [5.0, 0.0]])}


def softmax(u):
    p = np.exp(u)
    return p / p.sum(axis=1, keepdims=True)


def study(n: int, K: int, rare: float, sure: float, raters: int, rng):
    """Counts, and the probabilities of a model; `rare` is what scores of the last class lack."""
    u = rng.normal(size=(n, K))
    u[:, -1] -= rare
    gamma = np.maximum(rng.standard_gamma(10 * softmax(u)), 1e-300)
    return rng.multinomial(raters, gamma / gamma.sum(axis=1, keepdims=True)), softmax(sure * u)


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
    print(f"{draws} draws{'':33}" + "".join(f"{n:>8}" for n in ROWS))
    for name, C in COSTS.items():
        for raters in (1, 5):
            for rare in (0.0, 2.0):
                for sure in (1.0, 2.0):
                    how = (len(C), rare, sure, raters)
                    large = study(500_000, *how, np.random.default_rng(10**6))
                    truth = risk_gap(*large, C)
                    cells = []
                    for n in ROWS:
                        held = 0
                        for seed in range(draws):
                            y, z = study(n, *how, np.random.default_rng(seed))
                            level = {"confidence_level": 0.9, "random_state": 0}
                            found = confidence_interval(risk_gap, y, z, cost_matrix=C, **level)
                            held += found.low <= truth <= found.high
                        cells.append(f"{held / draws:8.3f}")
                    head = f"{name}, {raters} raters, rarer by {rare:.0f}, sure {sure:.0f}"
                    print(f"{head:42}" + "".join(cells), flush=True)


if __name__ == "__main__":
    main()
