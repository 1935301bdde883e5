"""Coverage of 90 % intervals where rows of a group are alike, with and without leaving their pairs
out.

    python benchmarks/groups.py [runs]

Groups of 10 rows have one prediction z. "One label": all rows of a group have the same label, drawn
from z; "one Q": two raters a row, from a Q ~ Dirichlet(4·z) of the group. Both are calibrated.
Coverage is of the true loss: 0, or that of 20 000 groups. "interval alone": the metric takes rows
as independent, only the interval knows the groups. In brackets standard errors."""

import sys
import warnings
from functools import partial

import numpy as np

from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.metrics import (
    calibration_loss,
    confidence_interval,
    disagreement_calibration_loss,
    expected_squared_loss,
    kernel_calibration_error,
    loss_decomposition,
)

SIZE = 10
LEVEL = 0.9


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
STUDIES = {
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
SLOW = {
    "kernel, residual, one Q": (interval(kernel_calibration_error, **BLOCKS), one_Q, 1.0, None),
    "kernel, second order, one Q": (
        interval(kernel_calibration_error, bias_correction="second_order", **BLOCKS),
        one_Q,
        1.0,
        None,
    ),
}


def coverage(of, draw, sharpness: float, metric, n_groups: int, runs: int) -> float:
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


def table(studies: dict, sizes: tuple, runs: int) -> None:
    print(f"\n{runs} runs{'':26}" + "".join(f"{f'{G} groups':>14}" for G in sizes))
    for name, study in studies.items():
        cells = []
        for G in sizes:
            share = coverage(*study, G, runs)
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
        y, z, groups = one_Q(100, np.random.default_rng(seed))
        dropped.append(loss_decomposition(y, z, groups=groups).dropped_weight)
    print(f"\nWeight dropped, 100 groups, 15 bins a class: {np.mean(dropped):.1%}")


if __name__ == "__main__":
    main()
