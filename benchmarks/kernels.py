"""Kernel calibration errors: which estimate to believe, whether the test holds its level, and what
the penalty would choose.

    python benchmarks/kernels.py null [--runs 400] [--only size naive power flat rare groups raters]
    python benchmarks/kernels.py estimates [--rows 300 1000 3000] [--runs N]
    python benchmarks/kernels.py penalty [--runs 60]

"null": how often `null_calibration_error` rejects at nominal .10. Predictions z of 300 rows are
Dirichlet, and the true class probabilities Q of a row are Dirichlet around z: calibrated, with
E[Q | z] = z, and with a spread that makes raters of a row alike. For power the predictions are z
sharpened to z^1.4, or flattened to z^.7. Each cell: share of p-values of at most .10, and in
brackets its standard error. Statistics: residual (the default), second order, and the plugins, at
the most likely bandwidth ("loo") where no other is named.

"estimates": root mean squared errors and biases of estimates of the canonical calibration error
(p = 2) on six problems. Labels are drawn from known E[y|z], so that the true error is known.
Columns: the published plugin, the residual and the second-order correction, each at the density
("loo") and at the cross-validated bandwidth. Runs of n rows are 12 000 / n, or eight where these
are more, unless they are given.

"penalty": which temperature `KernelCalibrationPenalty` alone would choose, on batches. Labels are
drawn from the true probabilities q, which are uniform on the simplex. Predictions are q^(1/T): they
are right at T = 1. For each number of classes, size of batches and bandwidth: the T at which the
mean penalty is least, for the plugin (p = 1 and 2) and for the residual form. Of the residual form
also its mean at T = 1, and the least mean elsewhere, each in its standard errors.
"""

import argparse
from functools import partial
from itertools import product

import numpy as np
import torch

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.metrics import kernel_calibration_error, null_calibration_error
from sklearn_lhcal.neural_network import KernelCalibrationPenalty

# --- the level and the power of the test ---

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


def null(options) -> None:
    runs = options.runs or 400
    wanted = options.only
    few = max(runs // 4, 2)
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


# --- which estimate ---

ESTIMATES = {
    "plugin loo": {"bandwidth": "loo", "bias_correction": None},
    "residual loo": {"bandwidth": "loo"},
    "residual cv": {"bandwidth": "cv"},
    "second loo": {"bandwidth": "loo", "bias_correction": "second_order"},
    "second cv": {"bandwidth": "cv", "bias_correction": "second_order"},
}


def softmax(u):
    e = np.exp(u - u.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def overconfident(n, rng):
    q = rng.dirichlet(np.full(3, 2.0), n)
    return softmax(np.log(q) / 0.5), q


def underconfident_sparse(n, rng):
    q = rng.dirichlet(np.full(5, 0.4), n) + 1e-9
    q /= q.sum(axis=1, keepdims=True)
    return softmax(np.log(q) / 1.6), q


def wave(n, rng):
    z = rng.uniform(0.02, 0.98, n)
    q = np.clip(z + 0.1 * np.sin(6 * z), 0, 1)
    return np.column_stack([1 - z, z]), np.column_stack([1 - q, q])


def shifted_classes(n, rng):
    u = rng.normal(size=(n, 4)) * 1.5
    return softmax(u), softmax(u + np.array([0.6, 0, -0.4, 0]))


def ten_classes(n, rng):
    u = rng.normal(size=(n, 10)) * 2
    return softmax(u), softmax(0.7 * u)


def calibrated(n, rng):
    q = rng.dirichlet(np.ones(3), n)
    return q, q


def estimates(options) -> None:
    print(
        f"{'':24}{'rows':>7}{'truth':>9}"
        + "".join(f"{name:>19}" for name in ESTIMATES)
        + "   (RMSE, bias)"
    )
    for problem in (
        overconfident,
        underconfident_sparse,
        wave,
        shifted_classes,
        ten_classes,
        calibrated,
    ):
        rng = np.random.default_rng(1)
        z, q = problem(400_000, rng)
        truth = ((z - q) ** 2).sum(axis=1).mean()
        for n in options.rows:
            errors = []
            for _ in range(options.runs or max(12_000 // n, 8)):
                z, q = problem(n, rng)
                y = rng.multinomial(1, q / q.sum(axis=1, keepdims=True))
                errors.append(
                    [kernel_calibration_error(y, z, **o) - truth for o in ESTIMATES.values()]
                )
            cells = zip(
                np.sqrt(np.mean(np.square(errors), axis=0)), np.mean(errors, axis=0), strict=True
            )
            line = "".join(f"{rmse:10.4f} {bias:+.4f}".rjust(19) for rmse, bias in cells)
            print(f"{problem.__name__:24}{n:7d}{truth:9.4f}{line}", flush=True)


# --- what the penalty would choose ---

TEMPERATURES = (0.4, 0.7, 0.9, 1.0, 1.1, 1.5, 2.0)
BATCH_CLASSES = (2, 5, 10)
BATCH_SIZES = (64, 128)
BATCH_BANDWIDTHS = (0.01, 0.05, 0.2, "loo")


def batches(K: int, size: int, count: int) -> list:
    """Log-probabilities q and one-hot labels."""
    rng = np.random.default_rng(K)
    q = rng.dirichlet(np.ones(K), (count, size))
    labels = rng.multinomial(1, q)
    pairs = zip(np.log(q), labels, strict=True)
    return [(torch.as_tensor(u), torch.as_tensor(y)) for u, y in pairs]


def penalties(penalty, data) -> np.ndarray:
    """Of each temperature (rows) and batch (columns)."""
    with torch.no_grad():
        return np.array([[float(penalty(u / T, y)) for u, y in data] for T in TEMPERATURES])


def penalty(options) -> None:
    count = options.runs or 60
    torch.set_num_threads(1)
    right = TEMPERATURES.index(1.0)
    print("classes  rows  bandwidth  plugin, p = 1  plugin, p = 2  residual  at T = 1  elsewhere")
    for K, size in product(BATCH_CLASSES, BATCH_SIZES):
        data = batches(K, size, count)
        for bandwidth in BATCH_BANDWIDTHS:
            cells = []
            for p in (1, 2):
                plugin = KernelCalibrationPenalty(p=p, bandwidth=bandwidth, bias_correction=None)
                cells.append(TEMPERATURES[penalties(plugin, data).mean(axis=1).argmin()])
            found = penalties(KernelCalibrationPenalty(bandwidth=bandwidth), data)
            mean = found.mean(axis=1)
            z = mean / (found.std(axis=1, ddof=1) / np.sqrt(count))
            others = np.delete(z, right)
            line = f"{K:7} {size:5} {bandwidth!s:>10} {cells[0]:14} {cells[1]:14}"
            line += f"{TEMPERATURES[mean.argmin()]:10} {z[right]:9.1f} {others.min():10.1f}"
            print(line, flush=True)


STUDIES = {"null": null, "estimates": estimates, "penalty": penalty}
PARTS = ["size", "naive", "power", "flat", "rare", "groups", "raters"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="parts of null")
    parser.add_argument("--rows", nargs="+", type=int, default=[300, 1000, 3000])
    options = parser.parse_args()
    STUDIES[options.study](options)


if __name__ == "__main__":
    main()
