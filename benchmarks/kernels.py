"""Kernel calibration errors: which estimate to believe, whether the test holds its level, and what
the penalty would choose.

    python benchmarks/kernels.py null [--runs 400] [--only PART ...]
    python benchmarks/kernels.py estimates [--rows 300 1000 3000] [--runs N]
    python benchmarks/kernels.py penalty [--runs 60]

"null": how often `null_calibration_error` rejects at nominal 0.10. Predictions z of 300 samples are
Dirichlet, and the true class probabilities Q of a sample are Dirichlet around z: calibrated, with
E[Q | z] = z, and with a spread that makes raters of a sample alike. For power the predictions are z
sharpened to z^1.4, or flattened to z^0.7. Each cell: share of p-values of at most 0.10, and in
brackets its standard error. This is of the kernel statistic alone: residual, second order, and the
plugins, at the most likely bandwidth ("loo") where no other is named. The part "tests" is of the
test with its defaults, and of its three statistics alone, with Spiegelhalter's (1986) z in the last
column: wrong temperatures, a class predicted too often, other shapes, labels of ten trees; and
calibrated designs with rare classes, few samples, groups. "adjudication" is of `adjudication_test`
at 0.05.

"estimates": root mean squared errors and biases of estimates of the canonical calibration error
(p = 2) on six problems. Labels are drawn from known E[y|z], so that the true error is known.
Columns: the published plugin, the residual and the second-order correction, each at the density
("loo") and at the cross-validated bandwidth. Runs of n samples are 12,000 / n, or eight where these
are more, unless they are given.

"penalty": which temperature `KernelCalibrationPenalty` alone would choose, on batches. Labels are
drawn from the true probabilities q, which are uniform on the simplex. Predictions are q^(1/T): they
are right at T = 1. For each number of classes, size of batches and bandwidth: the T at which the
mean penalty is least, for the plugin (p = 1 and 2) and for the residual form. Of the residual form
also its mean at T = 1, and the least mean elsewhere, each in its standard errors.
"""

import argparse
import warnings
from functools import partial
from itertools import product

import numpy as np
import torch
from scipy.stats import norm

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.label_histogram import AdjudicatedRatingsWarning, Annotations, adjudication_test
from sklearn_lhcal.metrics import kernel_calibration_error, null_calibration_error
from sklearn_lhcal.neural_network import KernelCalibrationPenalty

# --- the level and the power of the test ---

N = 300
N_DRAWS = 99
LEVEL = 0.1
RATERS = (1, 5, 20, 50)
LIKELY = {"bandwidth": "loo"}
RESIDUAL = {"residual": LIKELY, "residual, h = .1": {"bandwidth": 0.1}}
ALONE = ("sharpness", "class frequencies", "shape")
OTHERS = {
    "second order": LIKELY | {"bias_correction": "second_order"},
    "plugin p = 2": LIKELY | {"bias_correction": None},
    "plugin p = 1": LIKELY | {"p": 1, "bias_correction": None},
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
    """The same with one class of probability about 0.02: some 6 expected labels of it a rater."""
    z = np.column_stack([0.02 * np.ones(rows), 0.98 * rng.dirichlet(np.ones(K - 1), size=rows)])
    gamma = np.maximum(rng.standard_gamma(total * z), 1e-300)
    Q = gamma / gamma.sum(axis=1, keepdims=True)
    return rng.multinomial(raters, Q), z


def patients(rng, K: int, raters: int, *, size: int = 10, sharpness: float = 1.0):
    """Groups of `size` samples whose predictions are like each other's and whose Q are the same."""
    groups = np.repeat(np.arange(N // size), size)
    z = rng.dirichlet(np.ones(K), size=N // size)
    gamma = np.maximum(rng.standard_gamma(4.0 * z), 1e-300)
    Q = (gamma / gamma.sum(axis=1, keepdims=True))[groups]
    u = z[groups] ** sharpness
    return rng.multinomial(raters, Q), u / u.sum(axis=1, keepdims=True), groups


def rejections(draw, runs: int, options: dict) -> float:
    """Share of runs in which the p-value of the kernel statistic is at most the level."""
    rejected = 0
    for seed in range(runs):
        y, z, *groups = draw(np.random.default_rng(seed))
        given = {"groups": groups[0]} if groups and options.get("groups", True) else {}
        rest = {k: v for k, v in options.items() if k != "groups"}
        null = null_calibration_error(y, z, n_draws=N_DRAWS, random_state=seed, **given, **rest)
        rejected += null.p_values["shape"] <= LEVEL
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


def of_temperature(T: float, K: int = 3, rows: int = 200, raters: int = 1, total=np.inf):
    """Predictions softmax(u/T) where softmax(u) would be calibrated."""

    def draw(rng):
        u = 1.5 * rng.normal(size=(rows, K))
        return labels_of(softmax(u), raters, total, rng), softmax(u / T)

    return draw


def labels_of(z, raters: int, total: float, rng):
    """Counts of raters who draw from a Q around z."""
    if np.isinf(total):
        return rng.multinomial(raters, z)
    gamma = np.maximum(rng.standard_gamma(total * z), 1e-300)
    return rng.multinomial(raters, gamma / gamma.sum(axis=1, keepdims=True))


def one_class_too_often(rng, raters: int = 1, total: float = np.inf):
    u = 1.5 * rng.normal(size=(200, 3))
    return labels_of(softmax(u), raters, total, rng), softmax(u + np.array([0.5, 0, 0]))


def rapid_wave(rng):
    z = rng.uniform(0.02, 0.98, 300)
    q = np.clip(z + 0.15 * np.sin(9 * z), 0, 1)
    return rng.binomial(1, q), np.column_stack([1 - z, z])


def ten_trees(rng):
    """Shares of the labels of ten trees, which are too sharp."""
    u = 1.5 * rng.normal(size=(300, 3))
    return rng.multinomial(1, softmax(u)), rng.multinomial(10, softmax(u / 0.6)) / 10


def ten_calibrated_trees(rng):
    q = rng.dirichlet(np.ones(3), 300)
    return rng.multinomial(1, q), (rng.multinomial(10, q) + 1) / 13


def rare_finding(rng, raters: int, K: int = 3, total: float = 20, varies=False, rows: int = 150):
    """One class of 1.5%, in every sample or on average."""
    share = np.full(rows, 0.015)
    if varies:
        share = rng.beta(0.06, 3.94, rows).clip(1e-9)
    rest = rng.dirichlet(np.ones(K - 1), rows)
    z = np.column_stack([share, (1 - share)[:, None] * rest])
    return labels_of(z, raters, total, rng), z


WRONG = {
    "K = 3, T = .6": of_temperature(0.6),
    "K = 3, T = 1.6": of_temperature(1.6),
    "K = 3, T = .75": of_temperature(0.75),
    "K = 10, T = .6": of_temperature(0.6, 10),
    "K = 10, T = 1.6": of_temperature(1.6, 10),
    "K = 2, T = 1.6": of_temperature(1.6, 2),
    "T = .7, 500 rows": of_temperature(0.7, rows=500),
    "T = .6, 40 rows": of_temperature(0.6, rows=40),
    "T = .6, five raters": of_temperature(0.6, raters=5, total=4),
    "class bias .5": one_class_too_often,
    "class bias .5, five raters": partial(one_class_too_often, raters=5, total=4),
    "wave": rapid_wave,
    "ten trees, T = .6": ten_trees,
    "30 groups, z^1.5": partial(patients, K=3, raters=1, sharpness=1.5),
}
RIGHT = {
    f"rare{', varies' * varies}, K = {K}, {m} raters, α0 = {total:g}": partial(
        rare_finding, raters=m, K=K, total=total, varies=varies
    )
    for m, totals in ((1, (20,)), (5, (4, 20, np.inf)))
    for total in totals
    for varies, K in ((False, 3), (True, 3), (False, 2))
} | {
    "rare, 40 rows, 5 raters": partial(rare_finding, raters=5, rows=40),
    "40 rows": of_temperature(1.0, rows=40),
    "K = 10, five raters": of_temperature(1.0, 10, raters=5, total=4),
    "ten calibrated trees": ten_calibrated_trees,
    "30 groups": partial(patients, K=3, raters=1),
    "30 groups, five raters": partial(patients, K=3, raters=5),
}


def spiegelhalter(y, z) -> float:
    """p of ``Σ ⟨μ̂ − z, v⟩`` with v = −2z, whose variance is that of independent labels."""
    counts = np.column_stack([1 - y, y]) if y.ndim == 1 else y
    n = counts.sum(axis=1)
    v = -2 * z
    sums = ((counts / n[:, None] - z) * v).sum()
    variance = (((v**2 * z).sum(axis=1) - (v * z).sum(axis=1) ** 2) / n).sum()
    return 2 * norm.sf(abs(sums) / np.sqrt(variance))


def tests(title: str, runs: int, designs: dict) -> None:
    """Share of p-values of at most the level, of the test and of its parts."""
    columns = ("together", *ALONE, "Spiegelhalter")
    print(f"\n{title}, {runs} runs\n{'':38}" + "".join(f"{name:>18}" for name in columns))
    for name, draw in designs.items():
        found = []
        for seed in range(runs):
            y, z, *groups = draw(np.random.default_rng(seed))
            options = {"groups": groups[0]} if groups else {}
            null = null_calibration_error(y, z, n_draws=N_DRAWS, random_state=seed, **options)
            found.append([null.p_value, *null.p_values.values(), spiegelhalter(y, z)])
        shares = (np.array(found) <= LEVEL).mean(axis=0)
        print(f"{name:38}" + "".join(f"{share:18.2f}" for share in shares), flush=True)


def numbers(rng, Q, n):
    return rng.multinomial(n, Q), None


def numbers_at_random(rng):
    return numbers(rng, rng.dirichlet(np.ones(3), 100), rng.integers(2, 7, 100))


def rare_and_unequal(rng, times: int = 1):
    """135 samples of ten raters and 15 of two, a class of 1.5%; or so many times as many."""
    share = rng.beta(0.3, 19.7, 150 * times)
    n = np.repeat([10, 2], [135 * times, 15 * times])
    return numbers(rng, np.column_stack([share, 1 - share]), n)


def all_adjudicated(rng):
    Q = rng.dirichlet(np.ones(3), 100)
    two = rng.multinomial(2, Q)
    return two + rng.multinomial((two.max(axis=1) == 1).astype(int), Q), None


def harder_site(rng):
    """Two or three readers at one site, four or five at another with harder samples."""
    site = np.repeat([0, 1], 50)
    Q = np.concatenate([rng.dirichlet(np.full(3, a), 50) for a in (0.3, 5.0)])
    return rng.multinomial(rng.integers(2, 4, 100) + 2 * site, Q), site


def noisy_third(rng):
    """A third reader who guesses, asked at random."""
    Q = rng.dirichlet(np.full(3, 0.3), 100)
    third = rng.multinomial(rng.integers(0, 2, 100), np.full(3, 1 / 3))
    return rng.multinomial(2, Q) + third, None


def in_order(rng, adjudicated: float, at_random: float, where: bool = True):
    """Two ordered readings, and a third in shares of those that differ (or agree), or of all."""
    Q = rng.dirichlet(np.ones(3), 100)
    labels = (rng.random((100, 3, 1)) > Q[:, None].cumsum(axis=2)[:, :, :2]).sum(axis=2)
    labels = labels.astype(object)
    third = ((labels[:, 0] != labels[:, 1]) == where) & (rng.random(100) < adjudicated)
    labels[~(third | (rng.random(100) < at_random)), 2] = None
    return Annotations.from_matrix(labels, ordered=True), None


ADJUDICATION = {
    "numbers at random": numbers_at_random,
    "rare class, unequal numbers": rare_and_unequal,
    "the same, 1 050 rows": partial(rare_and_unequal, times=7),
    "all adjudicated": all_adjudicated,
    "harder site, more readers": harder_site,
    "noisy third reader": noisy_third,
    "order: third at random": partial(in_order, adjudicated=0, at_random=0.5),
    "order: all adjudicated": partial(in_order, adjudicated=1, at_random=0),
    "order: 35 %, and 20 % at random": partial(in_order, adjudicated=0.35, at_random=0.2),
    "order: third where two agree": partial(in_order, adjudicated=1, at_random=0, where=False),
}


def adjudication(runs: int) -> None:
    warnings.simplefilter("ignore", AdjudicatedRatingsWarning)
    print(f"\nadjudication_test at .05, {runs} runs\n{'':38}{'rejected':>14}{'within groups':>14}")
    for name, draw in ADJUDICATION.items():
        found = []
        for seed in range(runs):
            y, groups = draw(np.random.default_rng(seed))
            found.append([adjudication_test(y, groups=g).p_value <= 0.05 for g in (None, groups)])
        print(f"{name:38}" + "".join(f"{share:14.2f}" for share in np.mean(found, axis=0)))


def naive_rejections(runs: int) -> None:
    """The test that draws all raters of a sample from z, by hand.

    Residual statistic, h = 0.1, K = 3.
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
    """Standard error of the kernel error of 500 samples: with ten raters over that with one."""
    totals = (1.0, 3.0, 10.0, np.inf)
    print(f"\nStandard error, ten raters over one, {runs} runs")
    print(f"{'':30}" + "".join(f"{f'α0 = {a:g}':>14}" for a in totals))
    for name, overconfidence in (("calibrated", 1.0), ("overconfidence 1.6", 1.6)):
        cells = []
        for total in totals:
            spread = []
            for raters in (1, 10):
                # one model, many draws of 500 samples
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
        table("Size: one class of z = .02", runs, rare, {"residual": LIKELY})
    if "groups" in wanted:
        signs = {
            "residual, signs a group": LIKELY,
            "residual, groups not told": LIKELY | {"groups": False},
        }
        table("Size: 30 groups of 10 alike rows", runs, patients, signs, (3,))
        sharpened = partial(patients, sharpness=1.4)
        table(
            "Power: the same, sharpened", few, sharpened, {"residual, signs a group": LIKELY}, (3,)
        )
    if "tests" in wanted:
        tests("Power of three statistics together", runs, WRONG)
        tests("Size of three statistics together", runs, RIGHT)
    if "adjudication" in wanted:
        adjudication(runs)
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
PARTS = ["size", "naive", "power", "flat", "rare", "groups", "raters", "tests", "adjudication"]


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
