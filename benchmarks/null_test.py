"""How often `null_calibration_error` rejects at nominal .10: calibrated predictions, and others.

    python benchmarks/null_test.py [runs] [size naive power flat rare groups raters]

Predictions z of 300 rows are Dirichlet, and the true class probabilities Q of a row are Dirichlet
around z: calibrated, with E[Q | z] = z, and with a spread that makes raters of a row alike. For
power the predictions are z sharpened to z^1.4, or flattened to z^.7. Each cell: share of p-values
of at most .10, and in brackets its standard error. Statistics: residual (the default), second
order, and the plugins, at the most likely bandwidth ("loo") where no other is named.
"""

import sys
from functools import partial

import numpy as np

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.metrics import kernel_calibration_error, null_calibration_error

N = 300
N_DRAWS = 99
LEVEL = 0.1
RATERS = (1, 5, 20, 50)
RESIDUAL = {
    "residual": {},
    "residual, h = .1": {"bandwidth": 0.1},
}
OTHERS = {
    "second order": {"bias_correction": "second_order"},
    "plugin p = 2": {"bias_correction": None},
    "plugin p = 1": {"p": 1, "bias_correction": None},
}


def study(rng, K: int, raters: int, *, rows: int = N, concentration=1.0, total=4.0, sharpness=1.0):
    """Counts and predictions.

    `total` is α0 of Q around the calibrated z, `sharpness` 1 calibrated.
    """
    z = rng.dirichlet(np.full(K, concentration), size=rows)
    gamma = np.maximum(rng.standard_gamma(total * z), 1e-300)
    Q = gamma / gamma.sum(axis=1, keepdims=True)
    u = z**sharpness
    return rng.multinomial(raters, Q), u / u.sum(axis=1, keepdims=True)


def rare(rng, K: int, raters: int, *, rows: int = N, total: float = 20.0):
    """The same with one class of probability about .02: some 6 expected labels of it a rater."""
    z = np.column_stack([0.02 * np.ones(rows), 0.98 * rng.dirichlet(np.ones(K - 1), size=rows)])
    gamma = np.maximum(rng.standard_gamma(total * z), 1e-300)
    Q = gamma / gamma.sum(axis=1, keepdims=True)
    return rng.multinomial(raters, Q), z


def patients(rng, K: int, raters: int, *, size: int = 10, sharpness: float = 1.0):
    """Groups of `size` rows whose predictions are like each other's and whose Q are the same."""
    groups = np.repeat(np.arange(N // size), size)
    z = rng.dirichlet(np.ones(K), size=N // size)
    gamma = np.maximum(rng.standard_gamma(4.0 * z), 1e-300)
    Q = (gamma / gamma.sum(axis=1, keepdims=True))[groups]
    u = z[groups] ** sharpness
    return rng.multinomial(raters, Q), u / u.sum(axis=1, keepdims=True), groups


def rejections(draw, runs: int, options: dict) -> float:
    """Share of runs with a p-value of at most the level."""
    rejected = 0
    for seed in range(runs):
        y, z, *groups = draw(np.random.default_rng(seed))
        given = {"groups": groups[0]} if groups and options.get("groups", True) else {}
        rest = {k: v for k, v in options.items() if k != "groups"}
        null = null_calibration_error(y, z, n_draws=N_DRAWS, random_state=seed, **given, **rest)
        rejected += null.p_value <= LEVEL
    return rejected / runs


def table(title: str, runs: int, draw, statistics: dict, classes=(3, 10)) -> None:
    """One line for each statistic and number of classes, one column for each number of raters."""
    print(f"\n{title}, {runs} runs\n{'':30}" + "".join(f"{f'{m} raters':>14}" for m in RATERS))
    for K in classes:
        for name, options in statistics.items():
            cells = []
            for m in RATERS:
                share = rejections(lambda rng, K=K, m=m: draw(rng, K, m), runs, options)
                error = np.sqrt(max(share * (1 - share), 0.5 / runs) / runs)
                cells.append(f"{share:.2f} ({error:.2f})")
            print(f"{f'K = {K}, {name}':30}" + "".join(f"{c:>14}" for c in cells), flush=True)


def naive_rejections(runs: int) -> None:
    """The test that draws all raters of a row from z, by hand.

    Residual statistic, h = .1, K = 3.
    """
    cells = []
    for m in RATERS:
        rejected = 0
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            y, z = study(rng, 3, m)
            drawn = [
                kernel_calibration_error(v, z, bandwidth=0.1)
                for v in rng.multinomial(m, z, (N_DRAWS, N))
            ]
            as_large = np.array(drawn) >= kernel_calibration_error(y, z, bandwidth=0.1)
            rejected += (1 + as_large.sum()) / (1 + N_DRAWS) <= LEVEL
        share = rejected / runs
        cells.append(f"{share:.2f} ({np.sqrt(share * (1 - share) / runs):.2f})")
    print(
        f"\nSize of draws from z alone, {runs} runs\n{'K = 3, residual, h = .1':30}"
        + "".join(f"{c:>14}" for c in cells)
    )


def standard_errors(runs: int) -> None:
    """Standard error of the kernel error with ten raters a row, over that with one, 500 rows."""
    totals = (1.0, 3.0, 10.0, np.inf)
    print(f"\nStandard error, ten raters over one, {runs} runs")
    print(f"{'':30}" + "".join(f"{f'α0 = {a:g}':>14}" for a in totals))
    for name, overconfidence in (("calibrated", 1.0), ("overconfidence 1.6", 1.6)):
        cells = []
        for total in totals:
            spread = []
            for raters in (1, 10):
                # one model, many samples of 500 rows
                options = {"total": total, "overconfidence": overconfidence, "random_state": 0}
                data = make_label_histograms(500 * runs, 4, raters, **options)
                values = [
                    kernel_calibration_error(y, z, bandwidth=0.05)
                    for y, z in zip(
                        np.split(data.counts, runs), np.split(data.prediction, runs), strict=True
                    )
                ]
                spread.append(np.std(values, ddof=1))
            ratio = spread[1] / spread[0]
            # both spreads are uncertain by one part in √(2·runs)
            cells.append(f"{ratio:.2f} ({ratio / np.sqrt(runs):.2f})")
        print(f"{name:30}" + "".join(f"{c:>14}" for c in cells), flush=True)


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    wanted = sys.argv[2:] or ["size", "naive", "power", "flat", "rare", "groups", "raters"]
    few = max(runs // 4, 10)
    if "size" in wanted:
        table("Size: calibrated, Q spread (α0 = 4)", runs, study, RESIDUAL)
        table("Size of other statistics", few, study, OTHERS)
    if "naive" in wanted:
        naive_rejections(few)
    if "power" in wanted:
        sharpened = partial(study, sharpness=1.4)
        table("Power: predictions sharpened to z^1.4", few, sharpened, RESIDUAL | OTHERS)
    if "flat" in wanted:
        flattened = partial(study, sharpness=0.7)
        table("Power: predictions flattened to z^.7", few, flattened, RESIDUAL | OTHERS)
    if "rare" in wanted:
        table("Size: one class of z = .02", runs, rare, {"residual": {}})
    if "groups" in wanted:
        signs = {"residual, signs a group": {}, "residual, groups not told": {"groups": False}}
        table("Size: 30 groups of 10 alike rows", runs, patients, signs, (3,))
        sharpened = partial(patients, sharpness=1.4)
        table("Power: the same, sharpened", few, sharpened, {"residual, signs a group": {}}, (3,))

    if "raters" in wanted:
        standard_errors(few)


if __name__ == "__main__":
    main()
