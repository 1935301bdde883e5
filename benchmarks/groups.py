"""Coverage of 90 % intervals where rows of a group are alike, with and without leaving their pairs out.

    python benchmarks/groups.py [runs]

Groups of 10 rows have one prediction z and one Q ~ Dirichlet(4·z), two raters a row: calibrated,
with E[Q | z] = z. Coverage is of the true calibration loss: 0, or, for predictions sharpened to
z^1.5, that of 20 000 groups. "interval alone" is a metric that takes rows as independent, of which
only the interval knows the groups. In brackets standard errors.
"""

import sys
import warnings

import numpy as np

from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.metrics import (
    calibration_loss,
    confidence_interval,
    disagreement_calibration_loss,
    kernel_calibration_error,
    loss_decomposition,
)

SIZE = 10
LEVEL = 0.9
BINS = {"n_bins": 5}


def patients(n_groups: int, rng, sharpness: float = 1.0):
    """Counts, predictions and groups of rows that are alike."""
    z = rng.dirichlet(np.full(3, 2.0), n_groups)
    gamma = np.maximum(rng.standard_gamma(4 * z), 1e-300)
    Q = gamma / gamma.sum(axis=1, keepdims=True)
    groups = np.repeat(np.arange(n_groups), SIZE)
    u = z**sharpness
    return rng.multinomial(2, Q[groups]), (u / u.sum(axis=1, keepdims=True))[groups], groups


def alone(y, z):
    """The calibration loss of independent rows, as a function that says nothing of itself."""
    return calibration_loss(y, z, **BINS)


def disagreement(y, z, groups):
    """Interval for the disagreement of the Dirichlet that Q comes from: calibrated."""
    dist = Dirichlet.from_mean(z, 4.0)
    return confidence_interval(
        disagreement_calibration_loss, y, dist, groups=groups, confidence_level=LEVEL, random_state=0, **BINS
    )


def interval(metric, **options):
    def of(y, z, groups):
        return confidence_interval(metric, y, z, groups=groups, confidence_level=LEVEL, random_state=0, **options)

    return of


KERNEL = {"bandwidth": 0.1, "n_blocks": 20}
STUDIES = {
    "calibration loss": (interval(calibration_loss, **BINS), 1.0),
    "the same, interval alone": (interval(alone), 1.0),
    "the same, sharpened": (interval(calibration_loss, **BINS), 1.5),
    "disagreement's calibration loss": (disagreement, 1.0),
}
SLOW = {
    "kernel, residual": (interval(kernel_calibration_error, **KERNEL), 1.0),
    "kernel, second order": (
        interval(kernel_calibration_error, bias_correction="second_order", **KERNEL),
        1.0,
    ),
}


def coverage(of, n_groups: int, runs: int, sharpness: float) -> float:
    truth = 0.0
    if sharpness != 1:
        y, z, groups = patients(20_000, np.random.default_rng(10**6), sharpness)
        truth = calibration_loss(y, z, groups=groups, **BINS)
    covered = 0
    for seed in range(runs):
        found = of(*patients(n_groups, np.random.default_rng(seed), sharpness))
        covered += found.low <= truth <= found.high
    return covered / runs


def table(studies: dict, sizes: tuple, runs: int) -> None:
    print(f"\n{runs} runs{'':26}" + "".join(f"{f'{G} groups':>14}" for G in sizes))
    for name, (of, sharpness) in studies.items():
        cells = []
        for G in sizes:
            share = coverage(of, G, runs, sharpness)
            error = np.sqrt(max(share * (1 - share), 0.5 / runs) / runs)
            cells.append(f"{share:.2f} ({error:.2f})")
        print(f"{name:34}" + "".join(f"{c:>14}" for c in cells), flush=True)


def main() -> None:
    # ten groups leave some bins to one of them
    warnings.filterwarnings("ignore", "More than 5 %")
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    table(STUDIES, (10, 20, 50, 100), runs)
    table(SLOW, (50,), max(runs // 3, 10))
    dropped = []
    for seed in range(50):
        y, z, groups = patients(100, np.random.default_rng(seed))
        dropped.append(loss_decomposition(y, z, groups=groups).dropped_weight)
    print(f"\nWeight dropped, 100 groups, 15 bins a class: {np.mean(dropped):.1%}")


if __name__ == "__main__":
    main()
